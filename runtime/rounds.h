/* SPDX-License-Identifier: MIT */
/* Many kernels timed in turns on one core: each round times every one of them once, so that whatever disturbs the
 * machine for a while disturbs all alike, and a difference between two of them is theirs.
 *
 * A sample follows an untimed call of the same kernel, so caches are warm although others ran in between; the core's
 * peak is measured right before and behind it. Left out on purpose: which kernels, and how they are shown.
 */
#ifndef ATTNRUN_ROUNDS_H
#define ATTNRUN_ROUNDS_H

#include "timing.h"

/* Of one call. */
struct timing {
    size_t samples, outliers; /* outliers: past the quartiles by more than 1.5 times their distance */
    double us, us_min, us_low, us_q1, us_q3, us_high, us_max; /* us: the median; low, high: of what is no outlier */
    double gflops;            /* of the plain layer's operations, at the median */
    double peak, share;       /* medians of the rounds' own */
    int core;
};

/* Measures packed kernels for about `seconds` each and at least so many rounds. False with the reason in `diag`. */
bool rounds_measure(struct timing *timings, struct timed *timed, size_t count, double seconds, size_t least,
                    struct diag *diag);

#endif
