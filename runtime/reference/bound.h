/* SPDX-License-Identifier: MIT */
/* How far a kernel in f32 may be from the reference, element by element: two gates, derived in bound.c.
 *
 * Left out on purpose: plans that compute something else than the equations with their weights plain or folded.
 */
#ifndef ATTNRUN_BOUND_H
#define ATTNRUN_BOUND_H

#define BOUND_U 0x1p-24 /* the unit roundoff of f32 */
#define BOUND_EXP2 2.5e-7 /* of 2^x, the polynomials: 7.5e-8; in f32 up to 2.4e-7 (tests/unit/test_exp2.c) */
#define BOUND_WEIGHT_I16 7.52e-5 /* of weights beside products of whole numbers; with a cache, of whole scores */
#define BOUND_WEIGHT_I8 1.726e-3
/* The first Fourier coefficients of these errors: twice the squares of their sizes, the largest error being 1 */
#define BOUND_WAVES_I8 {0.4137, 0.0079, 0.0120, 0.0091, 0.0066, 0.0049, 0.0037, 0.0029}
#define BOUND_WAVES_I16 {0.2438, 0.1593, 0.0488, 0.0177, 0.0077, 0.0038, 0.0021, 0.0012}
#define BOUND_LAMBDA 2.5 /* bound.c says what it covers */
#define BOUND_DEVIATIONS 6.5 /* standard deviations of sums that are compared one by one */
#define BOUND_LOG2_E 1.4426950408889634
#define BOUND_LOG 1e-9 /* the series for log in double (templates/interface/sequence.in) */
#define BOUND_TANH 4e-7 /* the quotient for tanh: 2.1e-8; in f32 up to 3.4e-7 (tests/unit/test_tanh.c) */
#define BOUND_GELU 2.2e-7 /* times |a|, at most BOUND_GELU_FAR where a is negative (tests/unit/test_gelu.c) */
#define BOUND_GELU_FAR 5.5
#define BOUND_GELU_TANH 3e-7 /* of gelu_tanh, times 1 + |z|, z what tanh is taken of (templates/steps/activation.in) */
#define BOUND_SILU 1.2e-7 /* of silu, times 2 + |a| (likewise) */
#define BOUND_VANISHED 1e-36 /* silu and gelu_tanh may be 0 where their exponential exceeds f32 */

#include <math.h>
#include <stddef.h>

#include "fold.h"

/* The relative error of k roundings, at most */
static inline double gamma_of(size_t k)
{
    const double ku = (double)k * BOUND_U;
    return ku < 1 ? ku / (1 - ku) : INFINITY;
}

static inline double square(double x)
{
    return x * x;
}

/* Shapes as in struct reference. NaN means infinity: nothing is promised for that element. */
struct bounds {
    double *y_worst, *attn_worst, *lse_worst; /* sound for any data: gamma_K everywhere */
    double *y_drawn, *attn_drawn, *lse_drawn; /* for random data: rounding errors add up like a random walk */
    struct {
        double *worst, *drawn, *open;
    } cache[2]; /* of the keys and values that the call puts into a cache */
    /* not 0 where f32 may overflow on the way: the kernel is non-finite, or within *_worst. Infinite where f32 may see
     * other keys than the reference, or find a number where the reference has none: nothing is promised, whatever the
     * reference is. */
    double *y_open, *attn_open, *lse_open;
};

/* Computes the reference and its bounds, for a kernel that folds these weights and runs in the floating-point mode of
 * the calling thread: flushing to zero or not. The reference does not flush, and rounds to nearest. Weights are those
 * that packing rounds (stored.h). */
bool bounds_compute(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                    const struct inputs *inputs, struct folds folds, bool sample, struct diag *diag);
/* The same around the given weights, if packing rounds them: the reference uses the given ones, and the bounds include
 * the rounding. There is no statistical gate, and no bound after qk_norm = rms_all. */
bool bounds_compute_given(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                          const struct inputs *inputs, bool sample, struct diag *diag);
void bounds_free(struct bounds *bounds);

#endif
