/* SPDX-License-Identifier: MIT */
/* Gradients in double by the formulas, and how far a kernel in f32 may be from them.
 *
 * Left out on purpose: keys that `train = true` refuses; what stands in a tensor that gradients are added to.
 */
#ifndef ATTNRUN_GRADIENT_H
#define ATTNRUN_GRADIENT_H

#include "reference.h"

/* Sums of sizes above the largest f32 have at least this bound: where it is reached, f32 may overflow on the way. */
#define GRADIENT_MAY_OVERFLOW 0x1p103

/* Each in the shape of its tensor, weight_layout applied; NULL where the layer has no such gradient. */
struct gradients {
    double *of[TENSOR_COUNT];
    double *worst[TENSOR_COUNT]; /* bounds: sound for any data; NULL: not asked for */
    double *drawn[TENSOR_COUNT]; /* for drawn data: gradient.c says what it covers */
    /* in the place of TENSOR_Y: y itself, as a call that trains computes it */
};

/* Of the sum of dy y over all elements, dy in the shape of y. */
bool gradients_compute(struct gradients *gradients, const struct layer *layer, const struct inputs *inputs,
                       const float *dy, bool bounded, struct diag *diag);
void gradients_free(struct gradients *gradients);

#endif
