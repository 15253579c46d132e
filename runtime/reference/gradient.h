/* SPDX-License-Identifier: MIT */
/* Gradients in double by the formulas, and a gate for how far a kernel in f32 may be from them.
 *
 * Left out on purpose: keys that `train = true` refuses; what stands in a tensor that gradients are added to.
 */
#pragma once

#include "reference.h"

/* Each in the shape of its tensor, weight_layout applied; NULL where the layer has no such gradient. */
struct gradients {
    struct pool memory;
    double *of[TENSOR_COUNT];
    double *gate[TENSOR_COUNT]; /* gradient.c says what it covers; infinite: f32 may overflow on the way */
    /* in the place of TENSOR_Y: y itself, as a call that trains computes it */
};

/* Times the gate: for data whose errors are not random, such as keys that are all alike */
#define GRADIENT_ANY_DATA 16.0

/* Of the sum of dy y over all elements, dy in the shape of y. */
bool gradients_compute(struct gradients *gradients, const struct layer *layer, const struct inputs *inputs,
                       const float *dy, struct diag *diag);
