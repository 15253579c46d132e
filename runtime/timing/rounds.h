/* SPDX-License-Identifier: MIT */
/* Many kernels timed in rounds on one core: each round times every kernel once, so that a disturbance of the machine
 * affects all alike, and a difference between two of them is their own.
 *
 * A sample follows an untimed call of the same kernel, so caches are warm although others ran in between; the core's
 * peak is measured right before and after it. A disturbed sample is taken again, and so are all of a kernel whose
 * figures are still disturbed (quiet.h). Left out on purpose: which kernels, and how they are shown.
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
    struct quiet quiet;
    int core;
};

#define ROUNDS_AGAIN 2 /* times that a disturbed kernel is measured anew, at most */

/* So many rounds of `count` kernels, sampled by `take`, of so many operations each. False without memory. */
bool rounds_take(struct timing *timings, size_t count, size_t rounds, const double *operations,
                 struct sample (*take)(void *context, size_t kernel), void *context);

/* Measures packed kernels for about `seconds` each and at least so many rounds. False with the reason in `diag`. */
bool rounds_measure(struct timing *timings, struct timed *timed, size_t count, double seconds, size_t min,
                    struct diag *diag);

#endif
