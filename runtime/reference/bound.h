/* SPDX-License-Identifier: MIT */
/* How far a kernel in f32 may be from the reference, element by element and for any data: derived in docs/bound.md.
 *
 * Left out on purpose: plans that compute something else than the equations with their weights plain or folded.
 */
#pragma once

#include "fold.h"

/* Of one output: worst, how far each number may be off; NaN means infinity: nothing is promised for it. open: not 0
 * where f32 may overflow on the way: the kernel is non-finite, or within `worst`. Infinite where f32 may see other keys
 * than the reference, or find a number where the reference has none: nothing is promised, whatever the reference is. */
struct bound_of {
    double *worst, *open;
};
/* Shapes as in struct reference, in whose memory they lie */
struct bounds {
    union {
        struct bound_of of[OUTPUTS_COMPARED]; /* by enum call_output */
        struct {
            double *y_worst, *y_open, *attn_worst, *attn_open, *lse_worst, *lse_open;
            struct bound_of cache[2]; /* of the keys and values that the call puts into a cache */
        };
    };
    double *y_likely; /* a narrower gate for random inputs (likely.h); 0, or NULL: there is none */
};

/* Computes the reference and its bounds, for a kernel that folds these weights and runs in the floating-point mode of
 * the calling thread: flushing to zero or not. The reference does not flush, and rounds to nearest. Weights are those
 * that packing rounds (stored.h). */
void bounds_compute(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                    const struct inputs *inputs, struct folds folds, bool sample);
/* The same around the given weights, if packing rounds them: the reference uses the given ones, and the bounds include
 * the rounding. There is no bound after qk_norm = rms_all. */
void bounds_compute_given(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                          const struct inputs *inputs, bool sample);
