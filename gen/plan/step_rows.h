/* SPDX-License-Identifier: MIT */
/* The steps of a layer, in the order in which they are taken: one row each, for the enumeration (steps.h) and the table
 * (step_table.c).
 *
 *     STEP(NAME, label, KIND, "PHASE", "phase's name", "name in --explain", plan, …)
 *
 * `label` begins the names of its functions in the emitted file. `plan` is the function of the kind's file that says
 * whether a layer has the step, and plans it. Further columns of struct step_row: what it reads and writes, where that
 * is the same for all layers; how it is cut into parts (else its kind says); the line of the expected time that it
 * counts for; whether train = true has its gradient: a layer with a step that has none is refused.
 */
STEP(PADDING, padding, OWN, "PAD", "padding", "zeros of padding", plan_own, .over = OVER_SEQUENCES)
STEP(WIDEN_X, widen_x, WIDEN, "WIDEN", "widen", "x as f32", plan_widen, .reads = {LAYOUT_TYPED_X}, .writes = LAYOUT_X)
STEP(NORM_X, norm_x, NORM, "NORM_X", "norm x", "norm of x", plan_norm, .expected = EXPECT_NORMS)
STEP(WIDEN_SOURCE, widen_source, WIDEN, "WIDEN", "widen", "source as f32", plan_widen, .reads = {LAYOUT_TYPED_SOURCE},
     .writes = LAYOUT_SOURCE, .of_keys = true)
STEP(WIDEN_V, widen_v, WIDEN, "WIDEN", "widen", "v as f32", plan_widen, .reads = {LAYOUT_TYPED_V},
     .writes = LAYOUT_VALUES, .of_keys = true)
STEP(ROUND_X, round_x, ROUND, "ROUND_X", "round x", "x in words", plan_round, .writes = LAYOUT_ROUNDED_X)
STEP(ROUND_SOURCE, round_source, ROUND, "ROUND_SOURCE", "round source", "the source in words", plan_round,
     .reads = {LAYOUT_SOURCE}, .writes = LAYOUT_ROUNDED_SOURCE, .of_keys = true)
STEP(RANGES, ranges, OWN, "TRANSPOSE", "transpose", "ranges of segments", plan_own, .over = OVER_SEQUENCES,
     .trains = true)
STEP(TRANSPOSE, transpose, COPY, "TRANSPOSE", "transpose", "transpose", plan_transpose, .of_keys = true,
     .expected = EXPECT_TRANSPOSE)
STEP(KEEP_SOURCE, keep_source, OWN, "TRANSPOSE", "transpose", "the source, kept", plan_own, .over = OVER_BLOCKS,
     .of_keys = true)
STEP(TURNS, turns, OWN, "TRANSPOSE", "transpose", "cosines and sines", plan_own, .over = OVER_BLOCKS, .trains = true)
STEP(FINISH, finish, OWN, "PROJECT", "project", "queries, keys", plan_own, .over = OVER_BOTH)
STEP(QUERIES, queries, PANELS, "PROJECT", "project", "queries", plan_projection, .reads = {LAYOUT_X},
     .writes = LAYOUT_QUERIES, .expected = EXPECT_QUERIES, .trains = true)
STEP(KEYS, keys, PANELS, "PROJECT", "project", "keys", plan_projection, .reads = {LAYOUT_SOURCE},
     .writes = LAYOUT_KEYS, .of_keys = true, .expected = EXPECT_KEYS, .trains = true)
STEP(VALUES, values, PANELS, "PROJECT", "project", "values", plan_projection, .reads = {LAYOUT_SOURCE},
     .writes = LAYOUT_VALUES, .of_keys = true, .expected = EXPECT_VALUES, .trains = true)
STEP(LATENT, latent, OWN, "LATENT", "latent", "norms of latents, rotated keys", plan_latent, .over = OVER_ROWS)
STEP(UP_Q, up_q, PANELS, "UP_Q", "up q", "queries of heads", plan_up, .writes = LAYOUT_HEADS_Q,
     .expected = EXPECT_QUERIES)
STEP(TURN_Q, turn_q, OWN, "ABSORB", "absorb", "rotated queries", plan_latent, .over = OVER_ROWS)
STEP(ABSORB, absorb, PANELS, "ABSORB", "absorb", "queries times W_UK", plan_up, .reads = {LAYOUT_HEADS_Q},
     .writes = LAYOUT_QUERIES, .expected = EXPECT_QUERIES)
STEP(LOW_A, low_a, PANELS, "LOW", "low rank", "decays, of low rank", plan_mixed, .writes = LAYOUT_LOW_A,
     .expected = EXPECT_GATES)
STEP(LOW_Z, low_z, PANELS, "LOW", "low rank", "output gates, of low rank", plan_mixed, .writes = LAYOUT_LOW_Z,
     .expected = EXPECT_GATES)
STEP(MIX_Q, mix_q, PANELS, "MIX", "mix", "queries", plan_mixed, .writes = LAYOUT_QUERIES, .expected = EXPECT_QUERIES)
STEP(MIX_K, mix_k, PANELS, "MIX", "mix", "keys", plan_mixed, .writes = LAYOUT_KEYS, .expected = EXPECT_KEYS)
STEP(MIX_V, mix_v, PANELS, "MIX", "mix", "values", plan_mixed, .writes = LAYOUT_VALUES, .expected = EXPECT_VALUES)
STEP(MIX_Z, mix_z, PANELS, "MIX", "mix", "output gates", plan_mixed, .writes = LAYOUT_OUT_GATES,
     .expected = EXPECT_GATES)
STEP(MIX_A, mix_a, PANELS, "MIX", "mix", "decays", plan_mixed, .writes = LAYOUT_DECAY, .expected = EXPECT_GATES)
STEP(MIX_B, mix_b, PANELS, "MIX", "mix", "shares", plan_mixed, .writes = LAYOUT_BETA, .expected = EXPECT_GATES)
STEP(SHARES, shares, OWN, "CONV", "convolve", "decays, shares", plan_around_rule, .over = OVER_ROWS)
STEP(CONV, conv, CONV, "CONV", "convolve", "convolution, norms of queries, keys", plan_conv, .over = OVER_PIECES,
     .expected = EXPECT_CONV)
STEP(APPEND, append, COPY, "APPEND", "append", "append", plan_append, .reads = {LAYOUT_KEYS, LAYOUT_VALUES},
     .writes = LAYOUT_K_CACHE, .over = OVER_SEQUENCE_BLOCKS)
STEP(ROUND_KEYS, round_keys, ROUND, "ROUND_KEYS", "round keys", "keys in words", plan_round, .reads = {LAYOUT_KEYS},
     .writes = LAYOUT_ROUNDED_KEYS, .of_keys = true)
STEP(ROUND_VALUES, round_values, COPY, "ROUND_VALUES", "round values", "values in words", plan_round_values,
     .reads = {LAYOUT_VALUES}, .writes = LAYOUT_ROUNDED_VALUES)
STEP(ATTEND, attend, OWN, "ATTEND", "attend", "scores, weighted sums", plan_own, .over = OVER_HEADS, .trains = true)
STEP(ATTEND_ROWS, attend_rows, OWN, "ATTEND", "attend", "scores, weighted sums", plan_own, .over = OVER_SEGMENTS)
STEP(SCORES, scores, TILES, NULL, NULL, "scores", plan_attention, .reads = {LAYOUT_QUERIES, LAYOUT_KEYS},
     .writes = LAYOUT_SCORES, .epilogue = EPILOGUE_SOFTMAX, .trains = true)
STEP(SUMS, sums, TILES, NULL, NULL, "weighted sums", plan_attention, .reads = {LAYOUT_SCORES, LAYOUT_VALUES},
     .writes = LAYOUT_Z, .trains = true)
STEP(JOIN, join, OWN, "JOIN", "join", "sums of segments", plan_own, .over = OVER_JOINED)
STEP(UP_Z, up_z, PANELS, "UP_Z", "up z", "sums times W_UV", plan_up, .reads = {LAYOUT_Z}, .writes = LAYOUT_Z_UP,
     .expected = EXPECT_OUTPUT)
STEP(UP_K, up_k, PANELS, NULL, NULL, "keys of heads", plan_expanded, .reads = {LAYOUT_LATENTS},
     .writes = LAYOUT_HEAD_KEYS, .expected = EXPECT_KEYS)
STEP(UP_V, up_v, PANELS, NULL, NULL, "values of heads", plan_expanded, .reads = {LAYOUT_LATENTS},
     .writes = LAYOUT_HEAD_VALUES, .expected = EXPECT_VALUES)
STEP(EXPAND, expand, OWN, "EXPAND", "expand", "heads on keys of their own", plan_expanded, .over = OVER_EXPANDED)
STEP(RULE, rule, RULE, "RULE", "rule", "states", plan_rule, .over = OVER_PIECES, .expected = EXPECT_RULE)
STEP(GATE_Z, gate_z, OWN, "GATE", "gate", "gated norm of outputs", plan_around_rule, .over = OVER_ROWS)
STEP(ROUND_Z, round_z, ROUND, "ROUND_Z", "round z", "z in words", plan_round, .reads = {LAYOUT_Z},
     .writes = LAYOUT_ROUNDED_Z)
STEP(OUTPUT, output, PANELS, "OUTPUT", "output", "output", plan_output, .reads = {LAYOUT_Z}, .writes = LAYOUT_Y,
     .expected = EXPECT_OUTPUT, .trains = true)
STEP(NORM_STREAM, norm_stream, NORM, "NORM_STREAM", "norm", "norm", plan_norm, .expected = EXPECT_NORMS)
STEP(ROUND_STREAM, round_stream, ROUND, "ROUND_STREAM", "round rows", "rows behind attention in words", plan_round,
     .writes = LAYOUT_ROUNDED_STREAM)
STEP(LINEAR, linear, PANELS, "LINEAR", "linear", "linear", plan_linear, .writes = LAYOUT_Y,
     .expected = EXPECT_LINEAR)
STEP(HIDDEN, hidden, PANELS, "HIDDEN", "hidden", "hidden", plan_hidden, .writes = LAYOUT_HIDDEN,
     .expected = EXPECT_HIDDEN)
STEP(ROUND_HIDDEN, round_hidden, ROUND, "ROUND_HIDDEN", "round hidden", "hidden rows in words", plan_round,
     .reads = {LAYOUT_HIDDEN}, .writes = LAYOUT_ROUNDED_HIDDEN)
STEP(DOWN, down, PANELS, "DOWN", "down", "down", plan_down, .reads = {LAYOUT_HIDDEN}, .writes = LAYOUT_Y,
     .expected = EXPECT_DOWN)
STEP(NORM_Y, norm_y, NORM, "NORM_Y", "norm y", "norm of y", plan_norm, .expected = EXPECT_NORMS)

/* backward */
STEP(TRANSPOSE_AGAIN, transpose, OWN, "TRANSPOSE", "transpose", "as in forward", plan_own, .over = OVER_AGAIN)
STEP(PROJECT_AGAIN, project, OWN, "PROJECT", "project", "as in forward", plan_own, .over = OVER_AGAIN)
STEP(D_Z, d_z, GRADIENT, "OUTPUT", "output", "d z", plan_gradient, .reads = {LAYOUT_DY, LAYOUT_BACK_W_O},
     .writes = LAYOUT_D_Z, .over = OVER_ROWS)
STEP(D_HEADS, d_heads, OWN, "ATTEND", "attend", "d queries, d keys, d values", plan_own, .over = OVER_KEY_HEADS)
STEP(WEIGHTS_AGAIN, weights_again, GRADIENT, NULL, NULL, "weights again", plan_gradient,
     .reads = {LAYOUT_Q_STRIPS, LAYOUT_K_PANELS}, .writes = LAYOUT_BACK_P, .epilogue = EPILOGUE_SOFTMAX)
STEP(D_SCORES, d_scores, GRADIENT, NULL, NULL, "d scores", plan_gradient,
     .reads = {LAYOUT_DZ_STRIPS, LAYOUT_V_PANELS}, .writes = LAYOUT_BACK_DS)
STEP(D_VALUES, d_values, GRADIENT, NULL, NULL, "d values", plan_gradient,
     .reads = {LAYOUT_BACK_P, LAYOUT_DZ_PANELS}, .writes = LAYOUT_D_VALUES)
STEP(D_KEYS, d_keys, GRADIENT, NULL, NULL, "d keys", plan_gradient, .reads = {LAYOUT_BACK_DS, LAYOUT_Q_PANELS},
     .writes = LAYOUT_D_KEYS)
STEP(D_QUERIES, d_queries, GRADIENT, NULL, NULL, "d queries", plan_gradient,
     .reads = {LAYOUT_BACK_DS, LAYOUT_K_BLOCKS}, .writes = LAYOUT_D_QUERIES)
STEP(D_X, d_x, OWN, "INPUT", "input", "dx", plan_own, .over = OVER_ROWS)
STEP(D_SOURCE, d_source, OWN, "INPUT", "input", "dsource", plan_own, .over = OVER_ROWS, .of_keys = true)
STEP(THROUGH_Q, through_q, THROUGH, NULL, NULL, "through w_q", plan_through,
     .reads = {LAYOUT_D_QUERIES, LAYOUT_BACK_W_Q}, .writes = LAYOUT_DX)
STEP(THROUGH_K, through_k, THROUGH, NULL, NULL, "through w_k", plan_through,
     .reads = {LAYOUT_D_KEYS, LAYOUT_BACK_W_K}, .writes = LAYOUT_DX)
STEP(THROUGH_V, through_v, THROUGH, NULL, NULL, "through w_v", plan_through,
     .reads = {LAYOUT_D_VALUES, LAYOUT_BACK_W_V}, .writes = LAYOUT_DX)
STEP(D_W_Q, w_q, SUM, NULL, NULL, "dw_q", plan_sum, .reads = {LAYOUT_X, LAYOUT_D_QUERIES}, .writes = LAYOUT_DW_Q)
STEP(D_W_K, w_k, SUM, NULL, NULL, "dw_k", plan_sum, .reads = {LAYOUT_X, LAYOUT_D_KEYS}, .writes = LAYOUT_DW_K)
STEP(D_W_V, w_v, SUM, NULL, NULL, "dw_v", plan_sum, .reads = {LAYOUT_X, LAYOUT_D_VALUES}, .writes = LAYOUT_DW_V)
STEP(D_W_O, w_o, SUM, NULL, NULL, "dw_o", plan_sum, .reads = {LAYOUT_SAVED_Z, LAYOUT_DY}, .writes = LAYOUT_DW_O)
STEP(D_WEIGHTS, d_weights, OWN, "WEIGHTS", "weights", "gradients of weights", plan_own, .over = OVER_COUNT)
