/* SPDX-License-Identifier: MIT */
/* How far a kernel in f32 may be from the reference, element by element and for any data: derived in bound.c.
 *
 * Left out on purpose: plans that compute something else than the equations with their weights plain or folded.
 */
#ifndef ATTNRUN_BOUND_H
#define ATTNRUN_BOUND_H

#include "fold.h"

/* Shapes as in struct reference, in whose memory they lie. NaN means infinity: nothing is promised for that element. */
struct bounds {
    double *y_worst, *attn_worst, *lse_worst;
    double *y_likely; /* a narrower gate for random inputs (likely.h); 0, or NULL: there is none */
    struct {
        double *worst, *open;
    } cache[2]; /* of the keys and values that the call puts into a cache */
    /* not 0 where f32 may overflow on the way: the kernel is non-finite, or within *_worst. Infinite where f32 may see
     * other keys than the reference, or find a number where the reference has none: nothing is promised, whatever the
     * reference is. */
    double *y_open, *attn_open, *lse_open;
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

#endif
