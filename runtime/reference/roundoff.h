/* SPDX-License-Identifier: MIT */
/* What one step of a kernel in f32 may be off by: the unit roundoff, and the errors of its functions.
 *
 * Left out on purpose: how errors add up over the steps of a layer (bound.c, gradient.c).
 */
#pragma once

#include <math.h>
#include <stddef.h>

#define BOUND_U 0x1p-24 /* the unit roundoff of f32 */
#define BOUND_EXP2 2.5e-7 /* of 2^x, the polynomials: 7.5e-8; in f32 up to 2.4e-7 (tests/unit/test_exp2.c) */
#define BOUND_WEIGHT_I16 7.52e-5 /* of weights beside products of whole numbers; with a cache, of whole scores */
#define BOUND_WEIGHT_I8 1.726e-3
#define BOUND_TINY 0x1p-100
#define BOUND_RESCALED_AWAY 0x1p-62 /* a weight of up to 2^64, times a 2^(old M - M) that underflows */
#define BOUND_SATURATED 0.1 /* error of a score above which errors of weights no longer add up like small ones */
#define BOUND_LOG2_E 1.4426950408889634
#define BOUND_LOG 1e-9 /* the series for log in double (templates/interface/sequence.in) */
#define BOUND_LN 2.5e-7 /* of ln, relative: measured over every 7th f32 (tests/unit/test_log.c) */
#define BOUND_TANH 4e-7 /* the quotient for tanh: 2.1e-8; in f32 up to 3.4e-7 (tests/unit/test_tanh.c) */
#define BOUND_GELU 2.2e-7 /* times |a|, at most BOUND_GELU_FAR where a is negative (tests/unit/test_gelu.c) */
#define BOUND_GELU_FAR 5.5
#define BOUND_GELU_TANH 3e-7 /* of gelu_tanh, times 1 + |z|, z what tanh is taken of (templates/steps/activation.in) */
#define BOUND_SILU 1.2e-7 /* of silu, times 2 + |a| (likewise) */
#define BOUND_SOFTPLUS 1e-6 /* of ln(1 + e^-|a|), besides 2 u |a| of the exponential: measured over every 97th f32 */
#define BOUND_VANISHED 1e-36 /* silu and gelu_tanh may be 0 where their exponential exceeds f32 */

/* The relative error of k roundings, at most */
static inline double gamma_of(size_t k)
{
    const double ku = (double)k * BOUND_U;
    return ku < 1 ? ku / (1 - ku) : INFINITY;
}

/* The error of 1 / (1 + e^-a), which is `share`, where that of a is `error`: it is at most 1/4 steep. */
static inline double sigmoid_share_error(double share, double error)
{
    return error / 4 + (BOUND_EXP2 + 6 * BOUND_U) * share + 0x1p-126;
}

static inline double square(double x) { return x * x; }
