/* SPDX-License-Identifier: MIT */
/* The spec's expressions at one pair: their values in double, and the errors of a kernel in f32.
 *
 * Left out on purpose: the language (gen/expression/expression.h).
 */
#pragma once

#include "expression/expression.h"
#include "inputs/inputs.h"
#include "terms.h"

/* A pair of a head, by its positions. */
struct expression_pair {
    size_t i;
    int64_t p, j;
};

#define EXPRESSION_FORM (8 * EXPRESSION_NODES) /* nodes of the form for kernels, at most */

/* What its nodes read of a pair; and a constant as kernels have it */
struct expression_point expressions_point(const struct inputs *inputs, struct expression_pair pair, double s);
double expressions_held(double number);

/* `visible`, true if the layer has none; and whether f32 may decide otherwise */
bool expressions_visible(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair,
                         bool *unsure);
/* `score` applied to the score so far; that score if the layer has none */
double expressions_score(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair,
                         double score);
/* Whether it hides the pair whatever the score is */
bool expressions_hide(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair);
/* Applies it to the error so far. */
void expressions_error(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair,
                       struct term_error *error);
