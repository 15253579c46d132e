/* SPDX-License-Identifier: MIT */
/* The spec's expressions at one pair: in double, and what a kernel in f32 may be off by.
 *
 * Left out on purpose: the language (gen/expression.h).
 */
#ifndef ATTNRUN_EXPRESSIONS_H
#define ATTNRUN_EXPRESSIONS_H

#include "inputs/inputs.h"
#include "terms.h"

/* A pair of a head, by its positions. */
struct expression_pair {
    size_t i;
    int64_t p, j;
};

/* `visible`, true where the layer has none; and whether f32 may find something else. */
bool expressions_visible(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair,
                         bool *unsure);
/* `score` of a score so far; that score where the layer has none. */
double expressions_score(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair,
                         double score);
/* Whether it hides the pair whatever the score was. */
bool expressions_hide(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair);
/* What it makes of an error so far. */
void expressions_error(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair,
                       struct term_error *error);

#endif
