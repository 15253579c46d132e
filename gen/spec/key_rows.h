/* SPDX-License-Identifier: MIT */
/* The keys of a spec, each a row: KEY(NAME, name, kind, columns…), in the order of `attngen --keys`.
 *
 * Who includes this defines KEY, and may leave out the columns: keys.h makes an enumeration of the rows, key_table.c
 * the table key_rows, the random sweep a draft of a spec. keys.h says what each column means; a column that is left
 * out is 0, and a plan depends on the key. docs/spec.md has a line for each key.
 */
KEY(NAME, name, NAME, .steers = STEERS_NOTHING, .of = OF_ALL, .nicknames = {{"prefix", ""}})
KEY(LAYER, layer, WORD, FIELD(kind), .of = OF_ALL,
    .words = {{"attention", LAYER_ATTENTION, NULL}, {"ffn", LAYER_FFN, "mlp feed_forward"},
              {"linear", LAYER_LINEAR, NULL},
              {"recurrent", LAYER_RECURRENT, "linear_attention gated_delta_net gated_deltanet"},
              {"conv", LAYER_CONV, "conv1d causal_conv causal_conv1d depthwise CausalConvWithState"}})
KEY(RULE, rule, WORD, FIELD(rule), .absent = RULE_GATED_DELTA, .steers = STEERS_ALWAYS, OF_STATE,
    .words = {{"linear", RULE_LINEAR, NULL}, {"gated", RULE_GATED, "gla retention"}, {"delta", RULE_DELTA, NULL},
              {"gated_delta", RULE_GATED_DELTA, "deltanet"}}, .nicknames = {{"update_rule", ""}})
KEY(DECAY, decay, WORD, FIELD(decay), .steers = STEERS_ALWAYS, OF_STATE, .has_meaning = has_decay, .restated = true,
    .idle = "only rule = gated and rule = gated_delta have decays; leave it out",
    .words = {{"head", DECAY_HEAD, "scalar"}, {"column", DECAY_COLUMN, "key channel"}})
KEY(D_IN, d_in, SIZE, .steers = STEERS_NOTHING, .example = "768", /* d_model has its value */
    .of = OF_LINEAR, .elsewhere = "only layer = linear has it; write d_model")
KEY(CHANNELS, channels, SIZE, .steers = STEERS_NOTHING, .example = "8192", /* d_model has its value */
    .of = OF_CONV, .elsewhere = "only layer = conv has channels; leave it out, or write layer = conv",
    .nicknames = {{"in_channels conv_dim", ", with layer = conv"}})
KEY(D_OUT, d_out, SIZE, FIELD(d_out), .example = "50257", .context = "D_OUT", .of = OF_LINEAR,
    .elsewhere = "only layer = linear has it, y of others is as wide as x; leave it out")
KEY(D_MODEL, d_model, SIZE, FIELD(d_model), .from = {KEY_D_IN, KEY_CHANNELS}, .example = "768", .steers = STEERS_ALWAYS,
    .context = "D_MODEL", .of = OF_HEADS | OF_FFN,
    .elsewhere = "the widths of layer = linear are d_in and d_out, that of layer = conv is channels; write those",
    .has_meaning = has_width,
    .idle = "input = projected has no x and w_o = none no W_O; leave it out, or write w_o = dense",
    .nicknames = {{"hidden_size n_embd embed_dim n_embed emb_dim dim model_dim hidden_dim", ""}})
KEY(H, h, SIZE, FIELD(h), .example = "12", .steers = STEERS_ALWAYS, .context = "H", .of = OF_HEADS,
    .nicknames = {{"num_attention_heads n_head n_heads num_heads nhead q_num_heads heads_q", ""}})
KEY(H_KV, h_kv, SIZE, FIELD(h_kv), .from = {KEY_H}, .steers = STEERS_ALWAYS, .context = "H_KV", .of = OF_HEADS,
    .nicknames = {{"num_key_value_heads n_kv_heads num_kv_heads n_kv_head kv_num_heads kv_heads num_query_groups "
                   "enable_gqa", ""}})
KEY(H_V, h_v, SIZE, FIELD(h_v), .from = {KEY_H_KV}, .steers = STEERS_ALWAYS, .context = "H_V", OF_STATE,
    .nicknames = {{"linear_num_value_heads num_v_heads", ", with layer = recurrent"}})
KEY(CONV_TAPS, conv_taps, COUNT, FIELD(conv_taps), .steers = STEERS_ALWAYS, .context = "CONV_TAPS",
    .of = OF_STATES, .has_meaning = has_projections, .idle = KEY_IS_BROUGHT,
    .elsewhere = "only layer = recurrent and layer = conv convolve over tokens; leave it out, or write w_o = conv",
    .example = "4", .needed = has_taps,
    .nicknames = {{"linear_conv_kernel_dim conv_kernel conv_kernel_size d_conv conv_size",
                   ", with layer = recurrent or conv"}})
KEY(STATE_WINDOW, state_window, COUNT, FIELD(state_window), .context = "STATE_WINDOW", OF_STATE)
KEY(CONV_BIAS, conv_bias, SWITCH, FIELD(conv_bias), .steers = STEERS_NOTHING, .context = "CONV_BIAS", OF_STATE,
    .has_meaning = has_made_taps, .restated = true,
    .idle = "nothing is convolved; leave it out, or give conv_taps, as in conv_taps = 4",
    .nicknames = {{"use_conv_bias mamba_conv_bias", ", with layer = recurrent"}})
KEY(OUT_GATE, out_gate, WORD, FIELD(out_gate), .steers = STEERS_ALWAYS, .context = "OUT_GATE", OF_PRODUCTS,
    .words = {{"none", OUT_GATE_NONE, NULL}, {"silu", OUT_GATE_SILU, "swish"}, {"sigmoid", OUT_GATE_SIGMOID, NULL}})
KEY(NORM_BEFORE_GATE, norm_before_gate, SWITCH, FIELD(norm_before_gate), .absent = true, .steers = STEERS_NOTHING,
    .context = "NORM_BEFORE_GATE", OF_OUT_NORM, .restated = true,
    .nicknames = {{"mamba_norm_before_gate", ", with layer = recurrent"}})
KEY(OUT_NORM_GROUPS, out_norm_groups, COUNT, FIELD(out_norm_groups), .steers = STEERS_NOTHING,
    .context = "OUT_NORM_GROUPS", OF_OUT_NORM)
KEY(OUT_NORM_EPS, out_norm_eps, POSITIVE, FIELD(out_norm_eps), .from = {KEY_NORM_EPS}, .absent = 1e-6,
    .steers = STEERS_NOTHING, .context = "OUT_NORM_EPS", OF_OUT_NORM)
KEY(BETA_SCALE, beta_scale, POSITIVE, FIELD(beta_scale), .absent = 1, .steers = STEERS_NOTHING, .restated = true,
    .context = "BETA_SCALE", OF_STATE, .has_meaning = makes_beta,
    .idle = "only rule = delta and gated_delta make beta of x; leave it out",
    .nicknames = {{"linear_allow_neg_eigval allow_neg_eigval", " = 2"}})
KEY(DECAY_RANK, decay_rank, SIZE, FIELD(decay_rank), .steers = STEERS_ALWAYS, .context = "DECAY_RANK", OF_DT)
KEY(GATE_RANK, gate_rank, SIZE, FIELD(gate_rank), .steers = STEERS_ALWAYS, .context = "GATE_RANK", OF_OUT_NORM)
KEY(DT_MIN, dt_min, CAP, FIELD(dt_min), .steers = STEERS_NOTHING, .context = "DT_MIN", OF_DT,
    .nicknames = {{"time_step_limit dt_limit mamba_dt_limit", " and 'dt_max'"}})
KEY(DT_MAX, dt_max, CAP, FIELD(dt_max), .steers = STEERS_NOTHING, .context = "DT_MAX", OF_DT)
KEY(DT_VALUES, dt_values, SWITCH, FIELD(dt_values), .context = "DT_VALUES", OF_DT,
    .restated = true)
KEY(SKIP, skip, SWITCH, FIELD(skip), .steers = STEERS_NOTHING, .context = "SKIP", OF_PRODUCTS)
KEY(WIDTH, width, WORD, FIELD(width), .steers = STEERS_NOTHING, BROUGHT, /* d_k and d_v have what follows */
    .words = {{"narrow", WIDTH_NARROW, NULL}, {"wide", WIDTH_WIDE, NULL}})
KEY(D_K, d_k, SIZE, FIELD(d_k), .example = "64", .needed = has_given_width, .steers = STEERS_ALWAYS, .context = "D_K",
    .of = OF_HEADS,
    .nicknames = {{"head_dim d_kv head_size d_head dim_head qk_head_dim v_head_dim", " and 'd_v'"}})
KEY(D_V, d_v, SIZE, FIELD(d_v), .steers = STEERS_ALWAYS, .context = "D_V", .of = OF_HEADS)
KEY(KV_RANK, kv_rank, SIZE, FIELD(latent.rank), .steers = STEERS_ALWAYS, .context = "KV_RANK",
    .untrained = "no kv_rank", .nicknames = {{"kv_lora_rank", ""}})
KEY(Q_RANK, q_rank, SIZE, FIELD(latent.q_rank), .steers = STEERS_ALWAYS, .context = "Q_RANK", .has_meaning = is_latent,
    .idle = "only latent attention has it; leave it out, or give kv_rank", .nicknames = {{"q_lora_rank", ""}})
KEY(INPUT, input, WORD, .steers = STEERS_ALWAYS, .untrained = "input = shared or split", .of = OF_HEADS,
    .words = {{"shared", INPUT_SHARED, NULL}, {"split", INPUT_SPLIT, NULL}, {"projected", INPUT_PROJECTED, NULL}})
KEY(HEADS, heads, WORD, FIELD(heads_first), .steers = STEERS_NOTHING, .context = "HEADS_FIRST", /* a part of input's */
    .words = {{"last", false, NULL}, {"first", true, NULL}}, .has_meaning = is_projected,
    .idle = "only q, k and v of a call have an axis of heads; leave it out, or write input = projected")
KEY(ATTENTION, attention, WORD, FIELD(cross), .steers = STEERS_ALWAYS, .context = "CROSS", BROUGHT,
    .words = {{"self", false, NULL}, {"cross", true, NULL}},
    .nicknames = {{"is_cross_attention cross_attention add_cross_attention", ", as in attention = cross"}})
KEY(D_SOURCE, d_source, SIZE, FIELD(d_source), .from = {KEY_D_MODEL}, .steers = STEERS_ALWAYS, .context = "D_SOURCE",
    .has_meaning = is_cross, .idle = NO_SOURCE,
    .nicknames = {{"kdim vdim encoder_hidden_size cross_attention_dim", ", with attention = cross"}})
KEY(SEQ_LEN, seq_len, SIZE, FIELD(seq_len), .example = "512", .steers = STEERS_ALWAYS, .context = "SEQ_LEN",
    .of = OF_ALL,
    .nicknames = {{"max_position_embeddings n_positions n_ctx max_seq_len max_length max_len context_length block_size "
                   "tokens max_tokens sequence_length", ""}})
KEY(SOURCE_LEN, source_len, SIZE, FIELD(source_len), .from = {KEY_CACHE_LEN, KEY_SEQ_LEN}, .steers = STEERS_ALWAYS,
    .context = "SOURCE_LEN", .has_meaning = has_own_keys, .idle = NO_SOURCE)
KEY(SOURCE_KEPT, source_kept, SWITCH, FIELD(source_kept), .context = "SOURCE_KEPT",
    .untrained = "source_kept = false", .has_meaning = is_cross, .restated = true,
    .idle = "only attention = cross has keys and values of a source to keep; leave it out, or write attention = cross")
KEY(CACHE, cache, WORD, FIELD(cache), .untrained = "cache = none",
    .words = {{"none", CACHE_NONE, NULL}, {"rows", CACHE_ROWS, "true static dynamic"},
              {"ring", CACHE_RING, "sliding sliding_window rolling"}, {"paged", CACHE_PAGED, NULL}},
    .nicknames = {{"use_cache past_key_values kv_cache past_present_share_buffer", ""}})
KEY(CACHE_TYPE, cache_type, WORD, FIELD(cache_type), .of = OF_ATTENTION | OF_STATES, .restated = true,
    .has_meaning = keeps_numbers, .idle = "there is no cache; leave it out, or write cache = rows",
    .words = {{"f32", TENSOR_F32, F32_TOO}, {"bf16", TENSOR_BF16, BF16_TOO}, {"f16", TENSOR_F16, F16_TOO},
              {"i8", TENSOR_I8, I8_TOO}})
KEY(CACHE_LEN, cache_len, SIZE, FIELD(cache_len), .example = "2048", .needed = means_cache,
    .context = "CACHE_LEN", OF_CACHE)
KEY(PAGE_LEN, page_len, SIZE, FIELD(page_len), .example = "16", .context = "PAGE_LEN", .has_meaning = is_paged,
    .idle = "only cache = paged has pages; leave it out, or write cache = paged")
KEY(OFFSET, offset, WORD, FIELD(offset), .restated = true,
    .words = {{"none", OFFSET_NONE, NULL}, {"past", OFFSET_PAST, NULL}, {"end", OFFSET_END, NULL}},
    .has_meaning = has_own_keys,
    .idle = "in self-attention a query's position is its row; leave it out, or write attention = cross")
KEY(MASK, mask, MASK, FIELD(mask), .steers = STEERS_ALWAYS, .of = OF_ALL,
    .words = {{"none", 0, "full bidirectional false off no"},
              {"causal", MASK_CAUSAL, "is_causal causal_mask look_ahead lower_triangular tril triu autoregressive "
               "unidirectional true"},
              {"padding", MASK_PADDING, "pad key_padding_mask padding_mask attention_mask lengths"},
              {"no_self", MASK_NO_SELF, NULL}, {"window", MASK_WINDOW, "sliding_window sliding local local_window swa"},
              {"bool", MASK_BOOL, "boolean mask_bool"}, {"additive", MASK_ADDITIVE, "attn_mask float mask_add bias"},
              {"prefix", MASK_PREFIX, "prefix_lm"}, {"segments", MASK_SEGMENTS, "documents document packed"}},
    .nicknames = {{"causal is_causal is_decoder unidirectional", ", as in mask = causal"},
                  {"attn_mask attention_mask mask_type", ", with padding, bool or additive"},
                  {"key_padding_mask padding", ", as in mask = padding"}})
KEY(WINDOW_LEFT, window_left, REACH, FIELD(window_left), .absent = LAYER_UNBOUNDED, .steers = STEERS_MEANT, OF_WINDOW,
    .nicknames = {{"sliding_window window window_size attention_window local_window_size",
                   ", one less, with mask = causal+window"}})
KEY(WINDOW_RIGHT, window_right, REACH, FIELD(window_right), .absent = LAYER_UNBOUNDED, .steers = STEERS_MEANT,
    OF_WINDOW)
KEY(PAD_ROWS, pad_rows, WORD, FIELD(pad_skipped), .context = "SKIPS", .of = OF_ALL,
    .words = {{"computed", false, NULL}, {"skipped", true, NULL}})
KEY(W_K, w_k, WORD, FIELD(tied), .steers = STEERS_ALWAYS, .context = "TIED", BROUGHT,
    .words = {{"dense", false, NULL}, {"tied", true, NULL}})
KEY(W_V, w_v, WORD, FIELD(w_v), .steers = STEERS_ALWAYS, .has_meaning = has_w_v, .idle = KEY_IS_BROUGHT,
    .words = {{"dense", W_V_DENSE, NULL}, {"identity", W_V_IDENTITY, NULL}, {"keys", W_V_KEYS, "shared"}})
KEY(W_O, w_o, WORD, FIELD(w_o), .steers = STEERS_ALWAYS,
    .words = {{"dense", W_O_DENSE, NULL}, {"none", W_O_NONE, NULL}, {"conv", W_O_CONV, NULL}})
KEY(GATE, gate, WORD, FIELD(gate), .steers = STEERS_ALWAYS, .context = "GATE",
    .untrained = "gate = none", BROUGHT,
    .words = {{"none", GATE_NONE, NULL}, {"features", GATE_FEATURES, "elementwise true"},
              {"heads", GATE_HEADS, "headwise"}}, .nicknames = {{"attn_output_gate", ", features or heads"}})
KEY(CONV_WIDTH, conv_width, SIZE, FIELD(conv_width), .absent = 3, .steers = STEERS_MEANT, .context = "CONV_WIDTH",
    .has_meaning = is_conv, .idle = "there is no convolution; leave it out, or write w_o = conv")
KEY(BIAS, bias, SWITCH, FIELD(bias), .steers = STEERS_ALWAYS, .context = "BIAS",
    .of = OF_ATTENTION | OF_LINEAR | OF_STATES, .has_meaning = has_biases, .idle = KEY_IS_BROUGHT,
    .elsewhere = "the matrices of layer = ffn are those of the feed-forward; write ffn_bias",
    .nicknames = {{"attention_bias qkv_bias use_bias add_bias_linear", ""}})
KEY(QK_NORM, qk_norm, WORD, FIELD(qk_norm), .context = "NORM", .of = OF_HEADS,
    .words = {{"none", NORM_NONE, NULL}, {"rms", NORM_RMS, "rmsnorm RMSNorm rms_norm true"},
              {"layer", NORM_LAYER, "layernorm LayerNorm layer_norm"}, {"l2", NORM_L2, NULL},
              {"rms_all", NORM_RMS_ALL, NULL}, {"l2_sum", NORM_L2_SUM, NULL}},
    .nicknames = {{"qk_layernorm use_qk_norm", ""}})
KEY(QK_NORM_GAINS, qk_norm_gains, WORD, FIELD(qk_by_head), .context = "NORM_BY_HEAD", .restated = true,
    .untrained = "qk_norm_gains = shared", .has_meaning = has_head_norm,
    .idle = "only heads that are normed alone have gains alike; leave it out, or write qk_norm = rms or layer",
    .words = {{"shared", false, NULL}, {"heads", true, "per_head"}})
KEY(QK_NORM_BIAS, qk_norm_bias, SWITCH, FIELD(qk_shift), .absent = true, .context = "NORM_SHIFT", .restated = true,
    .untrained = "qk_norm_bias = true", .has_meaning = has_qk_shift,
    .idle = "only qk_norm = layer has a shift; leave it out, or write qk_norm = layer")
KEY(NORM_EPS, norm_eps, POSITIVE, FIELD(norm_eps), .absent = 1e-6, .steers = STEERS_NOTHING, .context = "NORM_EPS",
    .of = OF_ROWS, .has_meaning = has_norm,
    .idle = "there is no norm; leave it out, or write qk_norm = rms or a block",
    .nicknames = {{"rms_norm_eps", ", with qk_norm = rms where q and k are normed, norm = rms in a block"},
                  {"layer_norm_eps layer_norm_epsilon norm_epsilon eps", ""}})
KEY(QK_NORM_EPS, qk_norm_eps, POSITIVE, FIELD(qk_norm_eps), .from = {KEY_NORM_EPS}, .absent = 1e-6,
    .steers = STEERS_NOTHING, .context = "QK_NORM_EPS", .of = OF_HEADS, .has_meaning = has_qk_norm,
    .idle = "q and k are not normed; leave it out, or write qk_norm = rms")
KEY(ROPE, rope, WORD, FIELD(rope.kind), .context = "ROPE",
    .words = {{"none", ROPE_NONE, NULL}, {"half", ROPE_HALF, "true neox llama rotate_half default"},
              {"interleaved", ROPE_INTERLEAVED, "gptj"}},
    .nicknames = {{"rotary do_rotary use_rope", ", half or interleaved"},
                  {"rotary_interleaved rope_interleaved", ", as in rope = interleaved"}})
KEY(ROPE_DIMS, rope_dims, SIZE, FIELD(rope.dims), .steers = STEERS_MEANT, .has_meaning = has_rope_dims,
    .idle = "nothing is rotated; leave it out, or write rope = half",
    .nicknames = {{"partial_rotary_factor rotary_pct", ", that times d_k"}, {"rotary_dim", ""}})
KEY(ROPE_THETA, rope_theta, POSITIVE, FIELD(rope.theta), .absent = 10000, .steers = STEERS_NOTHING, OF_ROPE,
    .nicknames = {{"rotary_emb_base rope_base rotary_base", ""}})
KEY(ROPE_POSITIONS, rope_positions, WORD, FIELD(rope.given), .context = "ROPE_GIVEN", OF_ROPE, .restated = true,
    .words = {{"offset", false, NULL}, {"given", true, NULL}})
KEY(ROPE_SECTIONS, rope_sections, LIST, .steers = STEERS_NOTHING, .untrained = "no rope_sections",
    .has_meaning = has_given_positions,
    .idle = "sections are of several positions a token, which a call brings; leave it out, or write rope_positions = "
            "given", .nicknames = {{"mrope_section", ""}})
KEY(ROPE_SECTION_ORDER, rope_section_order, WORD, FIELD(rope.interleaves), .steers = STEERS_NOTHING, .restated = true,
    .has_meaning = has_sections, .idle = "there are no sections; leave it out, or write rope_sections",
    .words = {{"contiguous", false, NULL}, {"interleaved", true, NULL}}, .nicknames = {{"mrope_interleaved", ""}})
KEY(ROPE_SCALING, rope_scaling, WORD, FIELD(rope.scaling), .steers = STEERS_NOTHING, OF_ROPE, .restated = true,
    .words = {{"none", SCALING_NONE, NULL}, {"linear", SCALING_LINEAR, NULL}, {"llama3", SCALING_LLAMA3, NULL},
              {"yarn", SCALING_YARN, NULL}, {"dynamic", SCALING_DYNAMIC, "ntk dynamic_ntk"},
              {"longrope", SCALING_LONGROPE, "su factors"}},
    .nicknames = {{"rope_type", ""}})
KEY(ROPE_FACTOR, rope_factor, POSITIVE, FIELD(rope.factor), .absent = 1, OF_SCALING(LINEAR | LLAMA3 | YARN | DYNAMIC))
KEY(ROPE_ORIGINAL_LEN, rope_original_len, POSITIVE, FIELD(rope.original_len),
    OF_SCALING(LLAMA3 | YARN | DYNAMIC | LONGROPE))
KEY(ROPE_LOW, rope_low, POSITIVE, FIELD(rope.low), .absent = 1, OF_SCALING(LLAMA3))
KEY(ROPE_HIGH, rope_high, POSITIVE, FIELD(rope.high), .absent = 4, OF_SCALING(LLAMA3))
KEY(ROPE_BETA_FAST, rope_beta_fast, POSITIVE, FIELD(rope.beta_fast), .absent = 32, OF_SCALING(YARN))
KEY(ROPE_BETA_SLOW, rope_beta_slow, POSITIVE, FIELD(rope.beta_slow), .absent = 1, OF_SCALING(YARN))
KEY(ROPE_TRUNCATE, rope_truncate, SWITCH, FIELD(rope.truncate), .absent = true, OF_SCALING(YARN))
KEY(ROPE_ATTENTION_FACTOR, rope_attention_factor, POSITIVE, FIELD(rope.attention_factor),
    OF_SCALING(YARN | LONGROPE), .context = "ROPE_FACTOR",
    .nicknames = {{"attn_factor mscale attention_factor", ""}})
KEY(ROPE_FACTORS, rope_factors, LIST, OF_SCALING(LONGROPE), .nicknames = {{"short_factor", ""}})
KEY(ROPE_LONG_FACTORS, rope_long_factors, LIST, OF_SCALING(LONGROPE), .nicknames = {{"long_factor", ""}})
KEY(ROPE_LEN, rope_len, SIZE, FIELD(rope.len), OF_SCALING(DYNAMIC | LONGROPE))
KEY(SCALE, scale, FACTOR, FIELD(scale), .steers = STEERS_NOTHING, .context = "SCALE", .of = OF_HEADS,
    .nicknames = {{"query_pre_attn_scalar", ", 1 over its root"},
                  {"softmax_scale scaling attention_multiplier", ""}})
KEY(SOFTCAP, softcap, CAP, FIELD(number[SCORE_SOFTCAP]), .steers = STEERS_IF_ANY, .of = OF_ATTENTION | OF_LINEAR,
    .elsewhere = "layer = ffn has no scores to cap; leave it out",
    .nicknames = {{"attn_logit_softcapping logit_softcapping", ""}})
KEY(ALIBI, alibi, SWITCH, FIELD(number[SCORE_ALIBI]), .nicknames = {{"use_alibi", ""}})
KEY(RELATIVE, relative, WORD, FIELD(relative),
    .words = {{"none", RELATIVE_NONE, NULL}, {"t5", RELATIVE_T5, "T5 bucketed true"},
              {"table", RELATIVE_TABLE, NULL}})
KEY(REL_BUCKETS, rel_buckets, SIZE, FIELD(rel_buckets), .absent = 32, OF_BUCKETS,
    .nicknames = {{"relative_attention_num_buckets", ", with relative = t5"},
                  {"position_buckets", ", with rel_rows = log"}})
KEY(REL_DISTANCE, rel_distance, SIZE, FIELD(rel_distance), .absent = 128, .steers = STEERS_NOTHING, OF_BUCKETS,
    .nicknames = {{"relative_attention_max_distance", ", with relative = t5"}})
KEY(REL_LEFT, rel_left, COUNT, FIELD(rel_left), OF_TABLE)
KEY(REL_RIGHT, rel_right, COUNT, FIELD(rel_right), OF_TABLE)
KEY(REL_KEYS, rel_keys, WORD, FIELD(rel_keys), .context = "REL_KEYS", OF_VECTORS("no rel_keys"))
KEY(REL_QUERIES, rel_queries, WORD, FIELD(rel_queries), .context = "REL_QUERIES", OF_VECTORS("no rel_queries"))
KEY(REL_BIASES, rel_biases, SWITCH, FIELD(rel_biases), .context = "REL_BIASES", .has_meaning = has_rel_keys,
    .idle = "only queries of rel_keys are moved; leave it out, or write rel_keys = shared or heads")
KEY(REL_ROWS, rel_rows, WORD, FIELD(rel_rows), .steers = STEERS_NOTHING, .restated = true,
    .has_meaning = has_vectors, .idle = "there are no vectors; leave it out, or write rel_keys = shared or heads",
    .words = {{"clamped", ROWS_CLAMPED, "clamp"}, {"log", ROWS_LOG, "buckets logarithmic"}})
KEY(SCORE, score, EXPRESSION, .untrained = "no score", .nicknames = {{"score_mod", ""}})
KEY(VISIBLE, visible, EXPRESSION, .nicknames = {{"mask_mod block_mask", ""}})
KEY(SINK, sink, SWITCH, FIELD(sink), .context = "SINK", .nicknames = {{"attention_sinks", ""}})
KEY(SCORES, scores, WORD, FIELD(scores), .steers = STEERS_ALWAYS,
    .words = {{"false", SCORES_NONE, NULL}, {"true", SCORES_WEIGHTS, NULL}, {"raw", SCORES_RAW, NULL},
              {"capped", SCORES_CAPPED, NULL}, {"biased", SCORES_BIASED, NULL}, {"weights", SCORES_WEIGHTS, NULL}},
    .nicknames = {{"qk_matmul_output_mode output_attentions need_weights", ""}})
KEY(LSE, lse, SWITCH, FIELD(lse), .context = "LSE")
KEY(TRAIN, train, SWITCH, FIELD(train), .context = "TRAIN")
KEY(DROPOUT, dropout, SHARE, FIELD(dropout), .steers = STEERS_IF_ANY,
    .nicknames = {{"attention_dropout attn_pdrop attention_probs_dropout_prob dropout_p", ", with train = true"}})
KEY(BLOCK, block, WORD, FIELD(block), .context = "BLOCK", .untrained = "block = none", .of = OF_HEADS | OF_FFN,
    .elsewhere = "layer = linear adds nothing to x; leave it out, or write norm = layer or rms for a norm before it",
    .words = {{"none", BLOCK_NONE, NULL}, {"post", BLOCK_POST, "post_norm postnorm true"},
              {"outputs", BLOCK_OUTPUTS, "res_post_norm reordered_norm"},
              {"pre", BLOCK_PRE, "pre_norm prenorm norm_first"}, {"parallel", BLOCK_PARALLEL, NULL},
              {"sandwich", BLOCK_SANDWICH, NULL}},
    .nicknames = {{"norm_first pre_norm", ", as in block = pre"}})
KEY(NORM, norm, WORD, .absent = NORM_LAYER, .of = OF_ROWS, .has_meaning = has_block_norm,
    .idle = NO_BLOCK, .restated = true,
    .words = {{"layer", NORM_LAYER, "layernorm LayerNorm layer_norm"}, {"rms", NORM_RMS, "rmsnorm RMSNorm rms_norm"},
              {"none", NORM_NONE, NULL}},
    .nicknames = {{"norm_type normalization", ""}})
KEY(NORM_BIAS, norm_bias, SWITCH, FIELD(block_shift), .absent = true, .context = "BLOCK_SHIFT", .of = OF_ROWS,
    .has_meaning = has_shift, .idle = "only norm = layer has a shift; leave it out, or write norm = layer",
    .restated = true)
KEY(INPUT_NORM, input_norm, SWITCH, FIELD(input_norm), .absent = true, .context = "INPUT_NORM", .of = OF_HEADS,
    .has_meaning = has_input_norm, .restated = true,
    .idle = "only attention of block = pre with a feed-forward can do without its norm; leave it out")
KEY(NORM_SHARED, norm_shared, SWITCH, FIELD(norm_shared), .context = "NORM_SHARED", .restated = true, .of = OF_HEADS,
    .has_meaning = has_norm_to_share,
    .idle = "only attention and feed-forward of block = parallel read the same rows; leave it out")
KEY(FFN, ffn, WORD, FIELD(ffn), .of = OF_HEADS | OF_FFN,
    .elsewhere = ONE_MATRIX "leave it out, or write layer = ffn",
    .has_meaning = may_have_ffn, .idle = NO_BLOCK, .restated = true,
    .words = {{"none", FFN_NONE, NULL}, ACTIVATION_ROWS(PLAIN_WORD) ACTIVATION_ROWS(GATED_WORD)},
    .nicknames = {{"hidden_act hidden_activation activation_function", ""}})
KEY(D_FF, d_ff, SIZE, FIELD(d_ff), .example = "3072", .context = "D_FF", OF_FEED_FORWARD,
    .elsewhere = ONE_MATRIX "leave it out, or write layer = ffn",
    .nicknames = {{"intermediate_size ffn_dim n_inner dim_feedforward ffn_hidden_size d_inner inner_dim mlp_dim", ""}})
KEY(FFN_BIAS, ffn_bias, SWITCH, FIELD(ffn_bias), .context = "FFN_BIAS", OF_FEED_FORWARD, .restated = true,
    .elsewhere = ONE_MATRIX "write bias", .nicknames = {{"mlp_bias", ""}})
KEY(FFN_LIMIT, ffn_limit, CAP, FIELD(ffn_limit), .of = OF_HEADS | OF_FFN, .context = "FFN_LIMIT",
    .steers = STEERS_IF_ANY, .elsewhere = ONE_MATRIX "leave it out", .has_meaning = is_swiglu,
    .idle = "only ffn = swiglu is clamped; leave it out, or write ffn = swiglu", .nicknames = {{"swiglu_limit", ""}})
KEY(FFN_ALPHA, ffn_alpha, POSITIVE, FIELD(ffn_alpha), .absent = 1, .of = OF_HEADS | OF_FFN,
    .steers = STEERS_NOTHING, .elsewhere = ONE_MATRIX "leave it out", .has_meaning = is_clamped,
    .idle = "only a clamped swiglu has it; leave it out, or write ffn = swiglu and ffn_limit")
KEY(ACTIVATION, activation, WORD, FIELD(activation), .of = OF_LINEAR | OF_CONV,
    .elsewhere = "only layer = linear and layer = conv have it; leave it out, or say it with ffn",
    .words = {{"none", ACTIVATION_NONE, NULL}, ACTIVATION_ROWS(PLAIN_WORD)})
KEY(WEIGHT_LAYOUT, weight_layout, WORD, FIELD(out_in), .steers = STEERS_NOTHING, .context = "OUT_IN", .of = OF_ROWS,
    .words = {{"in_out", false, "tensorflow jax keras"}, {"out_in", true, "torch pytorch"}})
KEY(WEIGHT_TYPE, weight_type, WORD, FIELD(weight_type), .of = OF_ROWS, .untrained = "weight_type = f32",
    .words = {{"f32", TENSOR_F32, F32_TOO}, {"bf16", TENSOR_BF16, BF16_TOO}, {"f16", TENSOR_F16, F16_TOO},
              {"i8", TENSOR_I8, I8_TOO}, {"i4", TENSOR_I4, I4_TOO}},
    .nicknames = {{"dtype torch_dtype type quantization", ", 'cache_type', 'tensor_type' or 'precision'"}})
KEY(PRECISION, precision, WORD, FIELD(precision), .context = "ROUNDED", .of = OF_WEIGHTS,
    .untrained = "precision = f32",
    .words = {{"f32", PRECISION_F32, F32_TOO}, {"i16", PRECISION_I16, I16_TOO}, {"i8", PRECISION_I8, I8_TOO},
              {"bf16", PRECISION_BF16, BF16_TOO}})
KEY(TENSOR_TYPE, tensor_type, WORD, FIELD(tensor_type), .of = OF_WEIGHTS, .untrained = "tensor_type = f32",
    .words = {{"f32", TENSOR_F32, F32_TOO}, {"bf16", TENSOR_BF16, BF16_TOO}, {"f16", TENSOR_F16, F16_TOO}})
KEY(EXACT, exact, WORD, FIELD(portable), .context = "PORTABLE", .of = OF_ALL,
    .words = {{"bound", false, NULL}, {"portable", true, "deterministic reproducible bitwise"}})
