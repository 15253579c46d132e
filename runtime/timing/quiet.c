/* SPDX-License-Identifier: MIT */
#include "quiet.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "system/clock.h"
#include "base/memory.h"

#define TRIES 4              /* of one sample */
#define COARSE 30            /* minimum of clock steps in a sample, so that one step is at most 3 % of it */
#define STEP_SEARCH_US 5e4
#define STEPS 3

static double thread_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* The smallest observed step of the thread's clock; systems that count in ticks also claim a nanosecond. */
static double find_step(void)
{
    double step = INFINITY, last = thread_us();
    const double end = now_us() + STEP_SEARCH_US;
    for (int steps = 0; steps < STEPS && now_us() < end;) {
        const double now = thread_us();
        if (now > last) {
            step = fmin(step, now - last);
            steps++;
        }
        last = now;
    }
    return step;
}

static double thread_step(void)
{
    static double step; /* of this system; found once */
    if (step == 0)
        step = find_step();
    return step;
}

static size_t switches_now(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    return (size_t)usage.ru_nivcsw;
}

struct stopwatch stopwatch_start(void)
{
    struct stopwatch watch = {.switches = switches_now()};
    thread_step();
    watch.cpu_us = thread_us(); /* read outside the wall time, so that its own cost counts in the CPU time */
    watch.wall_us = now_us();
    return watch;
}

struct sample stopwatch_stop(const struct stopwatch *watch, size_t calls)
{
    const double wall = now_us() - watch->wall_us, cpu = thread_us() - watch->cpu_us;
    return (struct sample){.us = wall / (double)calls, .wall_us = wall,
                           .cpu_us = wall < COARSE * thread_step() ? NAN : fmin(cpu, wall),
                           .switches = switches_now() - watch->switches};
}

bool sample_is_disturbed(const struct sample *s)
{
    return s->cpu_us < QUIET_CPU_SHARE * s->wall_us || (double)s->switches * QUIET_SWITCH_US > s->wall_us;
}

struct sample sample_quietly(struct sample (*take)(void *context), void *context, size_t *again)
{
    struct sample sample = take(context);
    for (int tries = 1; tries < TRIES && *again > 0 && sample_is_disturbed(&sample); tries++) {
        --*again;
        sample = take(context);
    }
    return sample;
}

struct quiet_ratio ratio_quietly(const double *a, const double *b, size_t count, double min_a)
{
    struct quiet_ratio ratio = {.median = NAN};
    HEAP double *kept = memory_get(count, sizeof *kept);
    double min_b = INFINITY;
    for (size_t i = 0; i < count; i++) {
        min_a = fmin(min_a, a[i]);
        min_b = fmin(min_b, b[i]);
    }
    for (size_t i = 0; i < count; i++)
        if (a[i] <= QUIET_RATIO * min_a && b[i] <= QUIET_RATIO * min_b)
            kept[ratio.kept++] = a[i] / b[i];
    if (ratio.kept > 0) {
        sort_ascending(kept, ratio.kept);
        ratio.median = quantile(kept, ratio.kept, 0.5);
    }
    return ratio;
}

struct quiet quiet_of(const struct sample *samples, size_t count, double median, double min)
{
    struct quiet quiet = {.disturbed = median > QUIET_RATIO * min};
    double wall = 0, cpu = 0;
    for (size_t i = 0; i < count; i++) {
        wall += samples[i].wall_us;
        cpu += samples[i].cpu_us;
        quiet.switches += samples[i].switches;
    }
    quiet.cpu_share = cpu / wall;
    quiet.disturbed |= quiet.cpu_share < QUIET_MEDIAN_SHARE;
    return quiet;
}

static int ascending(const void *a, const void *b)
{
    const double l = *(const double *)a, r = *(const double *)b;
    return (l > r) - (l < r);
}

void sort_ascending(double *values, size_t count)
{
    qsort(values, count, sizeof *values, ascending);
}

double quantile(const double *sorted, size_t count, double q)
{
    return sorted[(size_t)(q * (double)(count - 1) + 0.5)];
}
