/* SPDX-License-Identifier: MIT */
/* Times many kernels in rounds on one core: each round times every kernel once, so that a disturbance of the machine
 * affects all of them, and differences between kernels are real.
 *
 * A sample follows an untimed call of the same kernel, so caches are warm although others ran in between. The core's
 * peak is measured right before and after it, and how fast it reads memory before that call. A disturbed sample is
 * repeated, and so are all samples of a kernel whose figures are still disturbed (quiet.h). Left out on purpose: which
 * kernels, and how they are shown.
 */
#pragma once

#include "timing.h"

/* The timing of one call */
struct timing {
    size_t samples, outliers; /* outliers: farther beyond a quartile than 1.5 times the distance between the
                               * quartiles */
    double us, us_min, us_low, us_q1, us_q3, us_high, us_max; /* us: the median; low, high: the extremes without
                                                               * outliers */
    double gflops;            /* of the plain layer's operations, at the median */
    double peak, share;       /* medians of the rounds' own */
    double memory;            /* median of the rounds' own: a yardstick, by which times of other minutes compare */
    struct quiet quiet;
    int core;
};

/* Of one kernel's samples, one a round, of `operations` operations each */
struct timing timing_of(const struct sample *samples, size_t rounds, double operations);

#define ROUNDS_AGAIN 2 /* how often a disturbed kernel is measured again, at most */

/* Takes `rounds` rounds of `count` kernels with `operations` operations each, sampled by `take`. */
void rounds_take(struct timing *timings, size_t count, size_t rounds, const double *operations,
                 struct sample (*take)(void *context, size_t kernel), void *context);

/* Measures packed kernels for about `seconds` each and at least `min` rounds. */
void rounds_measure(struct timing *timings, struct timed *timed, size_t count, double seconds, size_t min);
