/* SPDX-License-Identifier: MIT */
/* What each term of a score (gen/spec/score.h) does to it: in double, and to what a kernel in f32 may be off by.
 *
 * Left out on purpose: masks of position (gen/spec/visible.h), and keys past a length, which are not scored.
 */
#pragma once

#include "inputs/inputs.h"

/* The terms are those that the layer has, but for terms_have_operand().
 *
 * A term's number for one pair; 0 for one without a tensor. */
double terms_operand(const struct layer *layer, const struct inputs *inputs, enum score_name term, size_t b, size_t i,
                     size_t t, size_t j);
/* Whether it hides the pair by its number. */
bool terms_hide(enum score_name term, double operand);
/* Whether the layer has the term, and that a number which is not the same for all pairs: of a tensor of pairs, or made
 * of positions. */
bool terms_have_operand(const struct layer *layer, enum score_name term);
/* The score after the term. */
double terms_value(const struct layer *layer, enum score_name term, double score, double operand);
/* The slope of that at `score`, of a term whose slope is not the same everywhere (GRADIENT_SLOPE); and whether it is
 * known. */
double terms_slope(const struct layer *layer, enum score_name term, double score);
bool terms_have_slope(enum score_name term);

/* One score in base 2, as bound.h's T, after the terms so far. */
struct term_error {
    double value;          /* T itself */
    double worst;          /* what it may be off by */
    double bent;           /* by which |T| is smaller than it should be, in the order that it should have */
    double reach;          /* how far the sums that make it come */
    bool open;             /* f32 may overflow on the way */
};
/* What the term adds to that. */
void terms_error(const struct layer *layer, enum score_name term, struct term_error *error, double operand);
/* Whether a score of this size, in base 2, may stand beside one whose mask_add is bent. */
bool terms_bend(const struct layer *layer, double score);
