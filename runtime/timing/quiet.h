/* SPDX-License-Identifier: MIT */
/* How far a time is to be trusted: the CPU time and the involuntary context switches beside the wall time, samples that
 * were disturbed taken again, and figures that are disturbed although.
 *
 * Three signs, as none sees all: CPU time falls behind where the system ran something else; switches show what came
 * and went; time that a hypervisor took is in both clocks, and only the ratio to the minimum shows it. Left out on
 * purpose: what is sampled (timing.c), when (rounds.c, bench.c, tune.c).
 */
#ifndef ATTNRUN_QUIET_H
#define ATTNRUN_QUIET_H

#include <stdbool.h>
#include <stddef.h>

#define QUIET_CPU_SHARE 0.97  /* of a sample */
#define QUIET_SWITCH_US 1e4   /* a sample may have one switch in each such stretch, which is below 0.1 % of it */
#define QUIET_RATIO 1.3       /* of a median to the minimum: frequencies of one core move by less */
#define QUIET_MEDIAN_SHARE 0.9 /* of the CPU in all samples: below, the median may be moved as well */

struct sample {
    double us;              /* of one call */
    double wall_us, cpu_us; /* of all its calls; the second is NaN where the system's clock is too coarse to tell */
    size_t switches;        /* involuntary context switches meanwhile */
    double peak;            /* GFLOP/s of the core right before and behind, where that is measured */
};

struct stopwatch {
    double wall_us, cpu_us;
    size_t switches;
};

/* Of the calling thread. */
struct stopwatch stopwatch_start(void);
struct sample stopwatch_stop(const struct stopwatch *watch, size_t calls);

bool sample_is_disturbed(const struct sample *sample);
/* A sample, taken again while it is disturbed, some times at most and while *again, which is counted down, is above 0.
 * The last one counts, not the best: that would be luck. */
struct sample sample_quietly(struct sample (*take)(void *context), void *context, size_t *again);

struct quiet {
    double cpu_share; /* NaN: not known */
    size_t switches;
    bool disturbed;
};
struct quiet_ratio {
    double median; /* NaN: none is kept */
    size_t kept;
};
/* Of a[i] / b[i], which were measured in turns: without those of which one is above QUIET_RATIO times its minimum.
 * `min_a` is a smaller minimum of a that was seen elsewhere, or INFINITY. */
struct quiet_ratio ratio_quietly(const double *a, const double *b, size_t count, double min_a);

/* Of samples that were kept. */
struct quiet quiet_of(const struct sample *samples, size_t count, double median, double min);

#endif
