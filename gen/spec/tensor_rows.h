/* SPDX-License-Identifier: MIT */
/* The tensors of a layer, each a row: TENSOR(NAME, name, kind, element, extents, has, columns…), in the order of
 * docs/spec.md's table and of the fields of a call.
 *
 * Who includes this defines TENSOR: layer.h makes an enumeration of the rows, tensor.c the table, and says what each
 * column means. Extents are written in the letters of docs/spec.md: "[batch|1][h|1][n][m]" is a mask whose first two
 * extents may be 1.
 */
TENSOR(X, x, OF_CALL, F32, "[batch][n][d_model]", has_x)
TENSOR(SOURCE, source, OF_CALL, F32, "[batch][m][d_source]", is_cross)
TENSOR(Q, q, OF_CALL, F32, "[batch][n][h][d_k]", is_projected, .variant = {{is_first, "[batch][h][n][d_k]"}})
TENSOR(K, k, OF_CALL, F32, "[batch][m][h_kv][d_k]", is_projected, .variant = {{is_first, "[batch][h_kv][m][d_k]"},
       {is_cached, "[batch][n][h_kv][d_k]"}, {is_cached_first, "[batch][h_kv][n][d_k]"}})
TENSOR(V, v, OF_CALL, F32, "[batch][m][h_kv][d_v]", has_v, .variant = {{is_first, "[batch][h_kv][m][d_v]"},
       {is_cached, "[batch][n][h_kv][d_v]"}, {is_cached_first, "[batch][h_kv][n][d_v]"},
       {is_recurrent, "[batch][n][h_v][d_v]"}})
TENSOR(LENGTHS, lengths, OF_CALL, I32, "[batch]", NULL, .mask = MASK_PADDING,
       .shown.note = " int32, 0 ... m: keys that exist|; memory past them is not touched")
TENSOR(PAST, past, OF_CALL, I32, "[batch]", has_past, .shown.note = " int32, 0 or more: position of query 0")
TENSOR(POSITIONS, positions, OF_CALL, I32, "[batch][n]", has_positions,
       .variant = {{has_axes, "[batch][n][rope_axes]"}},
       .shown.note = " int32: positions by which queries and keys are rotated")
TENSOR(PAGE_TABLE, page_table, OF_CALL, I32, "[batch][page_count]", has_pages,
       .shown.note = " int32: where pages of a sequence are; behind the last used one it is not read")
TENSOR(PREFIX, prefix, OF_CALL, I32, "[batch]", NULL, .mask = MASK_PREFIX,
       .shown.note = " int32, 0 or more: the number of first keys that all queries see")
TENSOR(SEGMENT, segment, OF_CALL, I32, "[batch][n]", has_segment, .shown.note = " int32: of each token")
TENSOR(SEGMENT_Q, segment_q, OF_CALL, I32, "[batch][n]", has_two_segments, .shown.note = " int32: of each query")
TENSOR(SEGMENT_K, segment_k, OF_CALL, I32, "[batch][m]", has_two_segments, .shown.note = " int32: of each key")
TENSOR(MASK_BOOL, mask_bool, OF_PAIRS, BOOL, "[batch|1][h|1][n][m]", NULL, .mask = MASK_BOOL,
       .variant = {{is_cached, "[batch|1][h|1][n][cache_len]"}}, .shown.field = "nonzero: visible",
       .shown.note = " bytes, nonzero: visible")
TENSOR(MASK_ADD, mask_add, OF_PAIRS, F32, "[batch|1][h|1][n][m]", NULL, .mask = MASK_ADDITIVE,
       .variant = {{is_cached, "[batch|1][h|1][n][cache_len]"}}, .shown.field = "added after the scale; -inf hides",
       .shown.note = ", added to the scaled scores; -inf hides, a finite -1e9 does not")
TENSOR(W_Q, w_q, WEIGHT, F32, "[d_in_q][h*d_k]", has_queries, .variant = {{is_split, "[h][d_in_q][d_k]"},
       {is_latent, "[d_latent][h*d_head]"}})
TENSOR(B_Q, b_q, BIAS, F32, "[h*d_k]", has_bias)
TENSOR(W_K, w_k, WEIGHT, F32, "[d_in_kv][h_kv*d_k]", has_keys, .variant = {{is_split, "[h_kv][d_in_kv][d_k]"}})
TENSOR(B_K, b_k, BIAS, F32, "[h_kv*d_k]", has_key_bias)
TENSOR(W_V, w_v, WEIGHT, F32, "[d_in_kv][h_kv*d_v]", has_values, .variant = {{is_split, "[h_kv][d_in_kv][d_v]"},
       {is_recurrent, "[d_in_kv][h_v*d_v]"}})
TENSOR(B_V, b_v, BIAS, F32, "[h_kv*d_v]", has_value_bias, .variant = {{is_recurrent, "[h_v*d_v]"}})
TENSOR(W_O, w_o, WEIGHT, F32, "[h*d_v][d_model]", has_output,
       .variant = {{is_conv, "[h][conv_width][d_v][d_model/h]"}, {is_recurrent, "[h_out*d_v][d_model]"},
       {is_latent, "[h*d_value][d_model]"}})
TENSOR(B_O, b_o, BIAS, F32, "[d_model]", has_output_bias)
TENSOR(G_Q, g_q, LEARNED, F32, "[d_k]", has_gains,
       .variant = {{is_rms_all, "[h*d_k]"}, {is_normed_by_head, "[h][d_k]"}})
TENSOR(C_Q, c_q, LEARNED, F32, "[d_k]", has_shifts, .variant = {{is_normed_by_head, "[h][d_k]"}})
TENSOR(G_K, g_k, LEARNED, F32, "[d_k]", has_gains,
       .variant = {{is_rms_all, "[h_kv*d_k]"}, {is_normed_by_head, "[h_kv][d_k]"}})
TENSOR(C_K, c_k, LEARNED, F32, "[d_k]", has_shifts, .variant = {{is_normed_by_head, "[h_kv][d_k]"}})
TENSOR(N1_G, n1_g, LEARNED, F32, "[d_model]", has_n1)
TENSOR(N1_B, n1_b, LEARNED, F32, "[d_model]", has_n1_shift)
TENSOR(N2_G, n2_g, LEARNED, F32, "[d_model]", has_n2)
TENSOR(N2_B, n2_b, LEARNED, F32, "[d_model]", has_n2_shift)
TENSOR(N3_G, n3_g, LEARNED, F32, "[d_model]", has_n3)
TENSOR(N3_B, n3_b, LEARNED, F32, "[d_model]", has_n3_shift)
TENSOR(N4_G, n4_g, LEARNED, F32, "[d_model]", has_n4)
TENSOR(N4_B, n4_b, LEARNED, F32, "[d_model]", has_n4_shift)
TENSOR(W_1, w_1, WEIGHT, F32, "[d_model][d_ff]", has_ffn)
TENSOR(B_1, b_1, BIAS, F32, "[d_ff]", has_ffn_bias)
TENSOR(W_G, w_g, WEIGHT, F32, "[d_model][d_ff]", has_gate)
TENSOR(B_G, b_g, BIAS, F32, "[d_ff]", has_gate_bias)
TENSOR(W_2, w_2, WEIGHT, F32, "[d_ff][d_model]", has_ffn)
TENSOR(B_2, b_2, BIAS, F32, "[d_model]", has_ffn_bias)
TENSOR(W, w, WEIGHT, F32, "[d_model][d_out]", is_linear)
TENSOR(B, b, BIAS, F32, "[d_out]", has_bias_of_y)
TENSOR(REL_BIAS, rel_bias, LEARNED, F32, "[rel_buckets][h]", has_relative, .variant = {{is_table, "[h][rel_width]"}},
       .shown.note = ", added to scaled scores by j - p")
TENSOR(REL_K, rel_k, LEARNED, F32, "[rel_width][d_k]", has_rel_keys,
       .variant = {{has_rel_keys_of_heads, "[rel_width][h][d_k]"}}, .shown.note = ", of queries: by p - j")
TENSOR(REL_Q, rel_q, LEARNED, F32, "[rel_width][d_k]", has_rel_queries,
       .variant = {{has_rel_queries_of_heads, "[rel_width][h][d_k]"}}, .shown.note = ", of keys: by p - j")
TENSOR(REL_U, rel_u, LEARNED, F32, "[h][d_k]", has_rel_biases, .shown.note = ", added to q where it meets k")
TENSOR(REL_V, rel_v, LEARNED, F32, "[h][d_k]", has_rel_biases, .shown.note = ", added to q where it meets rel_k")
TENSOR(SINK, sink, LEARNED, F32, "[h]", has_sink,
       .shown.note = ", a score of each head that takes part in the softmax and adds no value")
TENSOR(TABLE_0, table_0, NAMED, F32, NULL, NULL)
TENSOR(TABLE_1, table_1, NAMED, F32, NULL, NULL)
TENSOR(TABLE_2, table_2, NAMED, F32, NULL, NULL)
TENSOR(TABLE_3, table_3, NAMED, F32, NULL, NULL)
TENSOR(TABLE_4, table_4, NAMED, F32, NULL, NULL)
TENSOR(TABLE_5, table_5, NAMED, F32, NULL, NULL)
TENSOR(TABLE_6, table_6, NAMED, F32, NULL, NULL)
TENSOR(TABLE_7, table_7, NAMED, F32, NULL, NULL)
TENSOR(Y, y, OUTPUT, F32, "[batch][n][d_out]", always,
       .variant = {{is_last_y, "[batch][n][h][d_v]"}, {is_first_y, "[batch][h][n][d_v]"},
       {is_given, "[batch][n][h_out][d_v]"}})
TENSOR(ATTN, attn, OUTPUT, F32, "[batch][h][n][m]", has_scores, .variant = {{is_cached, "[batch][h][n][cache_len]"}})
TENSOR(LSE, lse, OUTPUT, F32, "[batch][h][n]", has_lse,
       .shown.note = ", the logarithm of the sum of exponentials; -infinity where it has none")
TENSOR(K_CACHE, k_cache, CACHE, F32, "[batch][h_kv][cache_len][d_k]", has_rows,
       .shown.note = ", keys behind norm and rotation")
TENSOR(V_CACHE, v_cache, CACHE, F32, "[batch][h_kv][cache_len][d_v]", has_value_rows)
TENSOR(K_PAGES, k_pages, CACHE, F32, "[pages][h_kv][page_len][d_k]", has_pages,
       .shown.note = ", keys behind norm and rotation")
TENSOR(V_PAGES, v_pages, CACHE, F32, "[pages][h_kv][page_len][d_v]", has_value_pages)
TENSOR(K_SCALE, k_scale, CACHE, F32, "[batch][h_kv][cache_len]", has_scales,
       .variant = {{has_pages, "[pages][h_kv][page_len]"}}, .shown.note = ", what keys are multiples of")
TENSOR(V_SCALE, v_scale, CACHE, F32, "[batch][h_kv][cache_len]", has_value_scales,
       .variant = {{has_pages, "[pages][h_kv][page_len]"}}, .shown.note = ", what values are multiples of")
TENSOR(DECAY, decay, OF_CALL, F32, "[batch][n][h_v]", has_decay, .variant = {{is_decay_column, "[batch][n][h_v][d_k]"}},
       .shown.note = ", of logarithms: the state is multiplied by e^decay")
TENSOR(BETA, beta, OF_CALL, F32, "[batch][n][h_v]", has_beta, .shown.note = ", how much of the correction is made")
TENSOR(STATE, state, CACHE, F32, "[batch][h_v][d_k][d_v]", is_recurrent,
       .variant = {{has_window_of_states, "[batch][states*h_v][d_k][d_v]"}},
       .shown.note = ", read and written: of the tokens so far")
TENSOR(CONV_STATE, conv_state, CACHE, F32, "[batch][conv_channels][conv_history]", has_history,
       .shown.note = ", read and written: the last tokens before the convolution")
TENSOR(W_DA, w_da, WEIGHT, F32, "[d_model][decay_rank]", has_decay_rank)
TENSOR(W_A, w_a, WEIGHT, F32, "[d_in_a][h_v]", makes_decay, .variant = {{is_decay_column, "[d_in_a][h_v*d_k]"}})
TENSOR(B_A, b_a, BIAS, F32, "[h_v]", has_decay_bias, .variant = {{is_decay_column, "[h_v*d_k]"}})
TENSOR(A_LOG, a_log, LEARNED, F32, "[h_v]", makes_decay)
TENSOR(DT_B, dt_b, LEARNED, F32, "[h_v]", makes_decay, .variant = {{is_decay_column, "[h_v*d_k]"}})
TENSOR(W_B, w_b, WEIGHT, F32, "[d_model][h_v]", makes_beta)
TENSOR(B_B, b_b, BIAS, F32, "[h_v]", has_beta_bias)
TENSOR(CONV_Q, conv_q, LEARNED, F32, "[h*d_k][conv_taps]", has_taps)
TENSOR(CONV_K, conv_k, LEARNED, F32, "[h_kv*d_k][conv_taps]", has_taps)
TENSOR(CONV_V, conv_v, LEARNED, F32, "[h_v*d_v][conv_taps]", has_taps)
TENSOR(CONV_Q_B, conv_q_b, LEARNED, F32, "[h*d_k]", has_conv_bias)
TENSOR(CONV_K_B, conv_k_b, LEARNED, F32, "[h_kv*d_k]", has_conv_bias)
TENSOR(CONV_V_B, conv_v_b, LEARNED, F32, "[h_v*d_v]", has_conv_bias)
TENSOR(SKIP, skip, LEARNED, F32, "[h_out]", has_skip, .shown.note = ", of each head of y: times its value, added")
TENSOR(W_DZ, w_dz, WEIGHT, F32, "[d_model][gate_rank]", has_gate_rank)
TENSOR(W_Z, w_z, WEIGHT, F32, "[d_in_z][h_out*d_v]", has_out_gate)
TENSOR(B_Z, b_z, BIAS, F32, "[h_out*d_v]", has_out_gate_bias)
TENSOR(G_O, g_o, LEARNED, F32, "[d_v]", has_out_gate, .variant = {{has_norm_groups, "[h_out*d_v]"}})
TENSOR(W_GATE, w_gate, WEIGHT, F32, "[d_model][h*d_v]", has_z_gate, .variant = {{is_gate_of_heads, "[d_model][h]"}})
TENSOR(B_GATE, b_gate, BIAS, F32, "[h*d_v]", has_z_gate_bias, .variant = {{is_gate_of_heads, "[h]"}})
TENSOR(CONV_X, conv_x, LEARNED, F32, "[conv_channels][conv_taps]", is_convolution)
TENSOR(W_DQ, w_dq, WEIGHT, F32, "[d_model][q_rank]", has_q_latent)
TENSOR(G_DQ, g_dq, LEARNED, F32, "[q_rank]", has_q_latent)
TENSOR(W_DKV, w_dkv, WEIGHT, F32, "[d_model][d_k]", is_latent,
       .shown.note = ", columns of the latent, then those that are rotated")
TENSOR(G_DKV, g_dkv, LEARNED, F32, "[kv_rank]", is_latent)
TENSOR(W_UK, w_uk, WEIGHT, F32, "[kv_rank][h*d_nope]", is_latent)
TENSOR(W_UV, w_uv, WEIGHT, F32, "[kv_rank][h*d_value]", is_latent)
