/* SPDX-License-Identifier: MIT */
/* The terms of a score, each a row: TERM(NAME, name, PLACE, columns…), in the order in which they are applied, masks in
 * that of their bits.
 *
 * Who includes this defines TERM: layer.h makes an enumeration of the rows, score.c the table score_terms. score.h says
 * what each column means; a column that is left out is 0. `name` is that of the hook, templates/score/score_name.in.
 */
TERM(SCALE, scale, PACKED, .gradient = GRADIENT_ONE)
TERM(SOFTCAP, softcap, TILES, .equation = "# tanh(@ / #)", .bends = true, .operations = 22,
     .gradient = GRADIENT_SLOPE)
TERM(ALIBI, alibi, TILES, .equation = "@ - slope_i |p - j|", .falls = true, .placed = true, .operations = 3,
     .gradient = GRADIENT_ONE)
TERM(RELATIVE, relative, TILES, .equation = "@ + rel_bias_i(j - p)", .placed = true, .operations = 2,
     .gradient = GRADIENT_ONE)
TERM(EXPRESSION, expression, TILES, .equation = "score(@)", .placed = true)
TERM(HIDING, hiding, EVERYWHERE, .equation = "score(@)", .sees = "its score is not -infinity", .lifts = true,
     .placed = true)
TERM(CAUSAL, causal, EDGES, .mask = MASK_CAUSAL, .gradient = GRADIENT_ZERO)
TERM(PADDING, padding, COUNTED, .mask = MASK_PADDING, .sees = "j < lengths[b]", .gradient = GRADIENT_ZERO)
TERM(NO_SELF, no_self, EDGES, .mask = MASK_NO_SELF, .gradient = GRADIENT_ZERO)
TERM(WINDOW, window, EDGES, .mask = MASK_WINDOW, .reaches = true, .gradient = GRADIENT_ZERO)
TERM(MASK_BOOL, mask_bool, EVERYWHERE, .mask = MASK_BOOL, .sees = "mask_bool is not 0", .gradient = GRADIENT_ZERO)
TERM(MASK_ADD, mask_add, EVERYWHERE, .mask = MASK_ADDITIVE, .operand = "added", .equation = "@ + mask_add$",
     .sees = "mask_add is not -infinity", .lifts = true, .gradient = GRADIENT_ZERO)
TERM(PREFIX, prefix, EDGES, .mask = MASK_PREFIX, .gradient = GRADIENT_ZERO)
TERM(SEGMENTS, segments, EDGES, .mask = MASK_SEGMENTS, .sees = "both are of one segment", .gradient = GRADIENT_ZERO)
TERM(VISIBLE, visible, EVERYWHERE, .sees = "visible is true", .placed = true, .gradient = GRADIENT_ZERO)
