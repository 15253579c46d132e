/* SPDX-License-Identifier: MIT */
/* The tensors of a layer, each a row: TENSOR(NAME, name, kind, element, extents, has, columns…), in the order of
 * docs/spec.md's table and of the fields of a call. `extents` and `has`, whether there is one, are expressions of the
 * layer l; further columns are those of struct layer_tensor_row.
 *
 * Who includes this defines TENSOR: layer.h makes an enumeration of the rows, tensor.c tables of the columns. Extents
 * are written in the letters of docs/spec.md: "[batch|1][h|1][n][m]" is a mask whose first two extents may be 1.
 */
TENSOR(X, x, OF_CALL, F32, "[batch][n][d_model]", !l->projected)
TENSOR(SOURCE, source, OF_CALL, F32, "[batch][m][d_source]", l->cross)
TENSOR(Q, q, OF_CALL, F32, l->heads_first ? "[batch][h][n][d_k]" : "[batch][n][h][d_k]", l->projected)
TENSOR(K, k, OF_CALL, F32, layer_has_cache(l) ? (l->heads_first ? "[batch][h_kv][n][d_k]" : "[batch][n][h_kv][d_k]")
       : l->heads_first ? "[batch][h_kv][m][d_k]" : "[batch][m][h_kv][d_k]", l->projected)
TENSOR(V, v, OF_CALL, F32, layer_is_recurrent(l) ? "[batch][n][h_v][d_v]"
       : layer_has_cache(l) ? (l->heads_first ? "[batch][h_kv][n][d_v]" : "[batch][n][h_kv][d_v]")
       : l->heads_first ? "[batch][h_kv][m][d_v]" : "[batch][m][h_kv][d_v]", l->projected && !l->shares)
TENSOR(LENGTHS, lengths, OF_CALL, I32, "[batch]", (l->mask & MASK_PADDING) != 0, .mask = MASK_PADDING,
       .note = " int32, 0 ... m: keys that exist|; memory past them is not touched")
TENSOR(PAST, past, OF_CALL, I32, "[batch]", l->offset == OFFSET_PAST, .note = " int32, 0 or more: position of query 0")
TENSOR(POSITIONS, positions, OF_CALL, I32, l->rope.axes > 1 ? "[batch][n][rope_axes]" : "[batch][n]", l->rope.given,
       .note = " int32: positions by which queries and keys are rotated")
TENSOR(PAGE_TABLE, page_table, OF_CALL, I32, "[batch][page_count]", l->cache == CACHE_PAGED,
       .note = " int32: where pages of a sequence are; behind the last used one it is not read")
TENSOR(PREFIX, prefix, OF_CALL, I32, "[batch]", (l->mask & MASK_PREFIX) != 0, .mask = MASK_PREFIX,
       .note = " int32, 0 or more: the number of first keys that all queries see")
TENSOR(SEGMENT, segment, OF_CALL, I32, "[batch][n]", (l->mask & MASK_SEGMENTS) != 0 && l->self,
       .note = " int32: of each token")
TENSOR(SEGMENT_Q, segment_q, OF_CALL, I32, "[batch][n]", (l->mask & MASK_SEGMENTS) != 0 && !l->self,
       .note = " int32: of each query")
TENSOR(SEGMENT_K, segment_k, OF_CALL, I32, "[batch][m]", (l->mask & MASK_SEGMENTS) != 0 && !l->self,
       .note = " int32: of each key")
TENSOR(MASK_BOOL, mask_bool, OF_PAIRS, BOOL,
       layer_has_cache(l) ? "[batch|1][h|1][n][cache_len]" : "[batch|1][h|1][n][m]", (l->mask & MASK_BOOL) != 0,
       .mask = MASK_BOOL, .field = "nonzero: visible", .note = " bytes, nonzero: visible")
TENSOR(MASK_ADD, mask_add, OF_PAIRS, F32, layer_has_cache(l) ? "[batch|1][h|1][n][cache_len]" : "[batch|1][h|1][n][m]",
       (l->mask & MASK_ADDITIVE) != 0, .mask = MASK_ADDITIVE, .field = "added after the scale; -inf hides",
       .note = ", added to the scaled scores; -inf hides, a finite -1e9 does not")
TENSOR(W_Q, w_q, WEIGHT, F32,
       layer_is_latent(l) ? "[d_latent][h*d_head]" : l->split ? "[h][d_in_q][d_k]" : "[d_in_q][h*d_k]", projects(l))
TENSOR(B_Q, b_q, BIAS, F32, "[h*d_k]", l->bias && projects(l) && !layer_is_latent(l))
TENSOR(W_K, w_k, WEIGHT, F32, l->split ? "[h_kv][d_in_kv][d_k]" : "[d_in_kv][h_kv*d_k]", has_keys(l))
TENSOR(B_K, b_k, BIAS, F32, "[h_kv*d_k]", l->bias && has_keys(l))
TENSOR(W_V, w_v, WEIGHT, F32,
       layer_is_recurrent(l) ? "[d_in_kv][h_v*d_v]" : l->split ? "[h_kv][d_in_kv][d_v]" : "[d_in_kv][h_kv*d_v]",
       has_values(l))
TENSOR(B_V, b_v, BIAS, F32, layer_is_recurrent(l) ? "[h_v*d_v]" : "[h_kv*d_v]", l->bias && has_values(l))
TENSOR(W_O, w_o, WEIGHT, F32,
       layer_is_latent(l) ? "[h*d_value][d_model]" : layer_is_recurrent(l) ? "[h_out*d_v][d_model]"
       : l->w_o == W_O_CONV ? "[h][conv_width][d_v][d_model/h]" : "[h*d_v][d_model]", has_output(l))
TENSOR(B_O, b_o, BIAS, F32, "[d_model]", l->bias && has_output(l))
TENSOR(G_Q, g_q, LEARNED, F32, l->qk_by_head ? "[h][d_k]" : l->qk_norm == NORM_RMS_ALL ? "[h*d_k]" : "[d_k]",
       has_gains(l))
TENSOR(C_Q, c_q, LEARNED, F32, l->qk_by_head ? "[h][d_k]" : "[d_k]", l->qk_norm == NORM_LAYER && l->qk_shift)
TENSOR(G_K, g_k, LEARNED, F32, l->qk_by_head ? "[h_kv][d_k]" : l->qk_norm == NORM_RMS_ALL ? "[h_kv*d_k]" : "[d_k]",
       has_gains(l))
TENSOR(C_K, c_k, LEARNED, F32, l->qk_by_head ? "[h_kv][d_k]" : "[d_k]", l->qk_norm == NORM_LAYER && l->qk_shift)
TENSOR(N1_G, n1_g, LEARNED, F32, "[d_model]", layer_norms(l) >= 1)
TENSOR(N1_B, n1_b, LEARNED, F32, "[d_model]", layer_norms(l) >= 1 && l->block_shift)
TENSOR(N2_G, n2_g, LEARNED, F32, "[d_model]", layer_norms(l) >= 2)
TENSOR(N2_B, n2_b, LEARNED, F32, "[d_model]", layer_norms(l) >= 2 && l->block_shift)
TENSOR(N3_G, n3_g, LEARNED, F32, "[d_model]", layer_norms(l) >= 3)
TENSOR(N3_B, n3_b, LEARNED, F32, "[d_model]", layer_norms(l) >= 3 && l->block_shift)
TENSOR(N4_G, n4_g, LEARNED, F32, "[d_model]", layer_norms(l) >= 4)
TENSOR(N4_B, n4_b, LEARNED, F32, "[d_model]", layer_norms(l) >= 4 && l->block_shift)
TENSOR(W_1, w_1, WEIGHT, F32, "[d_model][d_ff]", layer_has_ffn(l))
TENSOR(B_1, b_1, BIAS, F32, "[d_ff]", l->ffn_bias)
TENSOR(W_G, w_g, WEIGHT, F32, "[d_model][d_ff]", layer_ffn_gated(l))
TENSOR(B_G, b_g, BIAS, F32, "[d_ff]", l->ffn_bias && layer_ffn_gated(l))
TENSOR(W_2, w_2, WEIGHT, F32, "[d_ff][d_model]", layer_has_ffn(l))
TENSOR(B_2, b_2, BIAS, F32, "[d_model]", l->ffn_bias)
TENSOR(W, w, WEIGHT, F32, "[d_model][d_out]", layer_is_linear(l))
TENSOR(B, b, BIAS, F32, "[d_out]", l->bias && (layer_is_linear(l) || layer_is_convolution(l)))
TENSOR(REL_BIAS, rel_bias, LEARNED, F32, l->relative == RELATIVE_TABLE ? "[h][rel_width]" : "[rel_buckets][h]",
       l->relative != RELATIVE_NONE, .note = ", added to scaled scores by j - p")
TENSOR(REL_K, rel_k, LEARNED, F32, l->rel_keys == VECTORS_HEADS ? "[rel_width][h][d_k]" : "[rel_width][d_k]",
       l->rel_keys != VECTORS_NONE, .note = ", of queries: by p - j")
TENSOR(REL_Q, rel_q, LEARNED, F32, l->rel_queries == VECTORS_HEADS ? "[rel_width][h][d_k]" : "[rel_width][d_k]",
       l->rel_queries != VECTORS_NONE, .note = ", of keys: by p - j")
TENSOR(REL_U, rel_u, LEARNED, F32, "[h][d_k]", l->rel_biases, .note = ", added to q where it meets k")
TENSOR(REL_V, rel_v, LEARNED, F32, "[h][d_k]", l->rel_biases, .note = ", added to q where it meets rel_k")
TENSOR(SINK, sink, LEARNED, F32, "[h]", l->sink,
       .note = ", a score of each head that takes part in the softmax and adds no value")
TENSOR(TABLE_0, table_0, NAMED, F32, NULL, table_of(l, TENSOR_TABLE_0) != NULL)
TENSOR(TABLE_1, table_1, NAMED, F32, NULL, table_of(l, TENSOR_TABLE_1) != NULL)
TENSOR(TABLE_2, table_2, NAMED, F32, NULL, table_of(l, TENSOR_TABLE_2) != NULL)
TENSOR(TABLE_3, table_3, NAMED, F32, NULL, table_of(l, TENSOR_TABLE_3) != NULL)
TENSOR(TABLE_4, table_4, NAMED, F32, NULL, table_of(l, TENSOR_TABLE_4) != NULL)
TENSOR(TABLE_5, table_5, NAMED, F32, NULL, table_of(l, TENSOR_TABLE_5) != NULL)
TENSOR(TABLE_6, table_6, NAMED, F32, NULL, table_of(l, TENSOR_TABLE_6) != NULL)
TENSOR(TABLE_7, table_7, NAMED, F32, NULL, table_of(l, TENSOR_TABLE_7) != NULL)
TENSOR(Y, y, OUTPUT, F32, layer_is_recurrent(l) && l->projected ? "[batch][n][h_out][d_v]"
       : !l->projected || l->w_o != W_O_NONE ? "[batch][n][d_out]"
       : l->heads_first ? "[batch][h][n][d_v]" : "[batch][n][h][d_v]", true)
TENSOR(ATTN, attn, OUTPUT, F32, layer_has_cache(l) ? "[batch][h][n][cache_len]" : "[batch][h][n][m]",
       l->scores != SCORES_NONE)
TENSOR(LSE, lse, OUTPUT, F32, "[batch][h][n]", l->lse,
       .note = ", the logarithm of the sum of exponentials; -infinity where it has none")
TENSOR(K_CACHE, k_cache, CACHE, F32, "[batch][h_kv][cache_len][d_k]", layer_has_cache(l) && l->cache != CACHE_PAGED,
       .note = ", keys behind norm and rotation")
TENSOR(V_CACHE, v_cache, CACHE, F32, "[batch][h_kv][cache_len][d_v]",
       layer_has_cache(l) && l->cache != CACHE_PAGED && !l->shares)
TENSOR(K_PAGES, k_pages, CACHE, F32, "[pages][h_kv][page_len][d_k]", l->cache == CACHE_PAGED,
       .note = ", keys behind norm and rotation")
TENSOR(V_PAGES, v_pages, CACHE, F32, "[pages][h_kv][page_len][d_v]", l->cache == CACHE_PAGED && !l->shares)
TENSOR(K_SCALE, k_scale, CACHE, F32, l->cache == CACHE_PAGED ? "[pages][h_kv][page_len]" : "[batch][h_kv][cache_len]",
       layer_scales_cache(l), .note = ", what keys are multiples of")
TENSOR(V_SCALE, v_scale, CACHE, F32, l->cache == CACHE_PAGED ? "[pages][h_kv][page_len]" : "[batch][h_kv][cache_len]",
       layer_scales_cache(l) && !l->shares, .note = ", what values are multiples of")
TENSOR(DECAY, decay, OF_CALL, F32, l->decay == DECAY_COLUMN ? "[batch][n][h_v][d_k]" : "[batch][n][h_v]",
       layer_decays(l) && l->projected, .note = ", of logarithms: the state is multiplied by e^decay")
TENSOR(BETA, beta, OF_CALL, F32, "[batch][n][h_v]", layer_corrects(l) && l->projected,
       .note = ", how much of the correction is made")
TENSOR(STATE, state, CACHE, F32, l->state_window > 0 ? "[batch][states*h_v][d_k][d_v]" : "[batch][h_v][d_k][d_v]",
       layer_is_recurrent(l), .note = ", read and written: of the tokens so far")
TENSOR(CONV_STATE, conv_state, CACHE, F32, "[batch][conv_channels][conv_history]",
       layer_keeps_states(l) && l->conv_history > 0,
       .note = ", read and written: the last tokens before the convolution")
TENSOR(W_DA, w_da, WEIGHT, F32, "[d_model][decay_rank]", makes_decay(l) && l->decay_rank > 0)
TENSOR(W_A, w_a, WEIGHT, F32, l->decay == DECAY_COLUMN ? "[d_in_a][h_v*d_k]" : "[d_in_a][h_v]", makes_decay(l))
TENSOR(B_A, b_a, BIAS, F32, l->decay == DECAY_COLUMN ? "[h_v*d_k]" : "[h_v]", makes_decay(l) && l->bias)
TENSOR(A_LOG, a_log, LEARNED, F32, "[h_v]", makes_decay(l))
TENSOR(DT_B, dt_b, LEARNED, F32, l->decay == DECAY_COLUMN ? "[h_v*d_k]" : "[h_v]", makes_decay(l))
TENSOR(W_B, w_b, WEIGHT, F32, "[d_model][h_v]", layer_corrects(l) && !l->projected)
TENSOR(B_B, b_b, BIAS, F32, "[h_v]", layer_corrects(l) && !l->projected && l->bias)
TENSOR(CONV_Q, conv_q, LEARNED, F32, "[h*d_k][conv_taps]", has_taps(l))
TENSOR(CONV_K, conv_k, LEARNED, F32, "[h_kv*d_k][conv_taps]", has_taps(l))
TENSOR(CONV_V, conv_v, LEARNED, F32, "[h_v*d_v][conv_taps]", has_taps(l))
TENSOR(CONV_Q_B, conv_q_b, LEARNED, F32, "[h*d_k]", has_taps(l) && l->conv_bias)
TENSOR(CONV_K_B, conv_k_b, LEARNED, F32, "[h_kv*d_k]", has_taps(l) && l->conv_bias)
TENSOR(CONV_V_B, conv_v_b, LEARNED, F32, "[h_v*d_v]", has_taps(l) && l->conv_bias)
TENSOR(SKIP, skip, LEARNED, F32, "[h_out]", makes_states(l) && l->skip,
       .note = ", of each head of y: times its value, added")
TENSOR(W_DZ, w_dz, WEIGHT, F32, "[d_model][gate_rank]", l->gate_rank > 0)
TENSOR(W_Z, w_z, WEIGHT, F32, "[d_in_z][h_out*d_v]", has_out_gate(l))
TENSOR(B_Z, b_z, BIAS, F32, "[h_out*d_v]", has_out_gate(l) && l->bias)
TENSOR(G_O, g_o, LEARNED, F32, l->out_norm_groups > 0 ? "[h_out*d_v]" : "[d_v]", has_out_gate(l))
TENSOR(W_GATE, w_gate, WEIGHT, F32, l->gate == GATE_HEADS ? "[d_model][h]" : "[d_model][h*d_v]", l->gate != GATE_NONE)
TENSOR(B_GATE, b_gate, BIAS, F32, l->gate == GATE_HEADS ? "[h]" : "[h*d_v]", l->gate != GATE_NONE && l->bias)
TENSOR(CONV_X, conv_x, LEARNED, F32, "[conv_channels][conv_taps]", layer_is_convolution(l))
TENSOR(W_DQ, w_dq, WEIGHT, F32, "[d_model][q_rank]", l->latent.q_rank > 0)
TENSOR(B_DQ, b_dq, BIAS, F32, "[q_rank]", l->bias && l->latent.q_rank > 0)
TENSOR(G_DQ, g_dq, LEARNED, F32, "[q_rank]", l->latent.q_rank > 0)
TENSOR(W_DKV, w_dkv, WEIGHT, F32, "[d_model][d_k]", layer_is_latent(l),
       .note = ", columns of the latent, then those that keys share")
TENSOR(B_DKV, b_dkv, BIAS, F32, "[d_k]", l->bias && layer_is_latent(l))
TENSOR(G_DKV, g_dkv, LEARNED, F32, "[kv_rank]", layer_is_latent(l))
TENSOR(W_UK, w_uk, WEIGHT, F32, "[kv_rank][h*d_nope]", layer_is_latent(l))
TENSOR(W_UV, w_uv, WEIGHT, F32, "[kv_rank][h*d_value]", layer_is_latent(l))
