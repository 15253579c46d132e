/* SPDX-License-Identifier: MIT */
/* How far a time can be trusted: compares CPU time and involuntary context switches with wall time, repeats disturbed
 * samples, and recognizes figures that are still disturbed.
 *
 * There are three signs, as none shows everything: CPU time falls behind if the system ran something else; context
 * switches show short interruptions; time that a hypervisor took is in both clocks, and only the ratio to the minimum
 * shows it. Left out on
 * purpose: what is sampled (timing.c), when (rounds.c, bench.c, tune.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define QUIET_CPU_SHARE 0.97  /* of a sample */
#define QUIET_SWITCH_US 1e4   /* a sample may have one switch in each such period, which costs below 0.1 % of it */
#define QUIET_RATIO 1.3       /* ratio of a median to the minimum; clock rates of one core vary less */
#define SURE_RATIO 1.05       /* above it a median is marked as unsure; on a quiet machine it is 1.01 to 1.04 */
#define QUIET_MEDIAN_SHARE 0.9 /* CPU share over all samples; below it, the median may be affected too */

struct sample {
    double us;              /* of one call */
    double wall_us, cpu_us; /* of all its calls; the second is NaN if the system's clock is too coarse */
    size_t switches;        /* involuntary context switches during the sample */
    double peak;            /* GFLOP/s of the core right before and after, if measured */
    double memory;          /* GB/s right before, if measured */
};

struct stopwatch {
    double wall_us, cpu_us;
    size_t switches;
};

/* Starts a stopwatch for the calling thread. */
struct stopwatch stopwatch_start(void);
struct sample stopwatch_stop(const struct stopwatch *watch, size_t calls);

bool sample_is_disturbed(const struct sample *sample);
/* A sample, taken again while it is disturbed, at most a few times and while *again, which counts down, is above 0. The
 * last one counts, not the best one, which might be lucky. */
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
/* Median of a[i] / b[i], which were measured alternately, without pairs in which one exceeds QUIET_RATIO times its
 * minimum. `min_a` is a smaller minimum of a known from elsewhere, or INFINITY. */
struct quiet_ratio ratio_quietly(const double *a, const double *b, size_t count, double min_a);

/* Summary of the samples that were kept */
struct quiet quiet_of(const struct sample *samples, size_t count, double median, double min);

/* Sorts the values. */
void sort_ascending(double *values, size_t count);
/* The q-quantile of sorted values. */
double quantile(const double *sorted, size_t count, double q);
