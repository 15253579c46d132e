/* SPDX-License-Identifier: MIT */
/* A kernel's outputs against the reference, element by element, within the bounds.
 *
 * Left out on purpose: where the bounds come from (bound.h).
 */
#pragma once

#include <stdio.h>

#include "bound.h"

struct comparison {
    size_t elements, misses;    /* misses of the bounds */
    size_t unbounded;           /* elements without a bound, as f32 overflowed on the way: not compared */
    double error;               /* largest |kernel - expected| among finite ones; NaN if the kernel has an additional
                                 * NaN */
    size_t known;               /* elements whose bound is smaller than they are */
    double known_error;         /* largest |kernel - expected| among those */
    double ratio;               /* largest error / bound */
    double gate_ratio;          /* largest error / gate: the smaller of the bound and what was measured */
    enum layer_tensor tensor;   /* of the first miss: */
    size_t index[4];            /*   where, */
    double expected, actual;    /*   and what */
    double largest;             /* largest finite |expected| */
};

/* What a layer's number types cost: the distance of a kernel's y from that of the same layer in f32, where both are
 * finite; largest and root mean square, as shares of the root mean square of the layer in f32 */
struct cost {
    double largest, rms;
};
struct cost compare_cost(const struct layer *layer, const struct inputs *inputs, const struct reference *plain,
                         const void *y);

/* y [batch][n][d_out] and attn [batch][h][n][m] as the kernel wrote them; only the reference's rows are compared. The
 * kernel must be non-finite exactly where the reference is; in a row of attn one such element suffices. */
void compare_y(struct comparison *comparison, const struct layer *layer, const struct inputs *inputs,
               const struct reference *reference, const struct bounds *bounds, const void *y);
/* If attn has scores: hidden keys are -infinity (biased), or not compared */
void compare_attn(struct comparison *comparison, const struct layer *layer, const struct inputs *inputs,
                  const struct reference *reference, const struct bounds *bounds, const void *attn);
/* If a row has no summand, lse must be -infinity. */
void compare_lse(struct comparison *comparison, const struct layer *layer, const struct inputs *inputs,
                 const struct reference *reference, const struct bounds *bounds, const float *lse);
/* A cache as the call left it, keys or values: rows of new tokens within the bound, all others with the bits of
 * `inputs` */
void compare_cache(struct comparison *comparison, const struct layer *layer, const struct inputs *inputs,
                   const struct reference *reference, const struct bounds *bounds, bool values,
                   const void *const after[CACHE_PARTS]);
/* All outputs that the layer has, as a call left them, each into its comparison. Returns the first that has misses;
 * NULL: none has. */
const struct comparison *compare_outputs(struct comparison of[OUTPUTS_COMPARED], const struct layer *layer,
                                         const struct inputs *inputs, const struct reference *reference,
                                         const struct bounds *bounds, const void *const outputs[OUTPUTS]);
const struct comparison *compare_first_miss(const struct comparison of[OUTPUTS_COMPARED]);

/* "3 of 6 elements of y have no bound, as f32 may overflow on their way or see other keys, and were
 * not compared", or nothing. */
void compare_print_unbounded(const struct comparison *comparison, enum layer_tensor tensor, FILE *out);

/* The error to print: the largest one of elements with a bound that says something, as a row whose weights may be
 * anything says nothing about the others; without such elements, the largest of all */
double compare_shown_error(const struct comparison *comparison);

/* "y[0][1][2] is 3; the file has 4; 5 of 6 elements miss"; whose: "the file" or "the reference" */
#define COMPARE_TEXT 200
const char *compare_miss_text(const struct comparison *comparison, const char *whose, char text[COMPARE_TEXT]);
