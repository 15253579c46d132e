/* SPDX-License-Identifier: MIT */
/* See rounds.h. */
#include "rounds.h"

#include <stdlib.h>

#include "peak.h"

#define PEAK_US 50 /* of one peak_measure(), about */

/* One kernel's samples, [rounds] each. */
struct samples {
    double *us, *peak, *share;
};

static double operations(const struct timed *t)
{
    const struct layer_cost cost = layer_multiply_adds(t->layer, (int64_t)t->inputs.n, (int64_t)t->inputs.m);
    return 2 * cost.total * (double)t->inputs.batch;
}

static void take_sample(const struct samples *s, size_t round, const struct timed *t)
{
    t->call->forward(t->packed, &t->args, t->scratch);
    const double before = peak_measure(t->isa);
    const double us = timed_sample(t);
    const double peak = (before + peak_measure(t->isa)) / 2;
    s->us[round] = us;
    s->peak[round] = peak;
    s->share[round] = peak > 0 && us > 0 ? operations(t) / (1e3 * us) / peak : 0;
}

static void count_outliers(struct timing *t, const double *sorted)
{
    const double reach = 1.5 * (t->us_q3 - t->us_q1);
    size_t low = 0, high = t->samples - 1;
    while (sorted[low] < t->us_q1 - reach)
        low++;
    while (sorted[high] > t->us_q3 + reach)
        high--;
    t->us_low = sorted[low];
    t->us_high = sorted[high];
    t->outliers = low + (t->samples - 1 - high);
}

static struct timing sum_up(const struct samples *s, size_t rounds, const struct timed *t)
{
    struct timing timing = {.samples = rounds};
    sort_ascending(s->us, rounds);
    sort_ascending(s->peak, rounds);
    sort_ascending(s->share, rounds);
    timing.us = quantile(s->us, rounds, 0.5);
    timing.us_min = s->us[0];
    timing.us_q1 = quantile(s->us, rounds, 0.25);
    timing.us_q3 = quantile(s->us, rounds, 0.75);
    timing.us_max = s->us[rounds - 1];
    count_outliers(&timing, s->us);
    timing.gflops = timing.us > 0 ? operations(t) / (1e3 * timing.us) : 0;
    timing.peak = quantile(s->peak, rounds, 0.5);
    timing.share = quantile(s->share, rounds, 0.5);
    return timing;
}

/* From first calls: how many rounds fit the time. */
static size_t plan_rounds(struct timed *timed, size_t count, double seconds, size_t least)
{
    double round = 0;
    for (size_t i = 0; i < count; i++) {
        const double us = timed_calibrate(&timed[i]);
        round += us * (double)(timed[i].repeats + 1) + 2 * PEAK_US;
    }
    return rounds_for(1e6 * seconds * (double)count / round, least);
}

bool rounds_measure(struct timing *timings, struct timed *timed, size_t count, double seconds, size_t least,
                    struct diag *diag)
{
    if (count == 0)
        return true;
    const int core = pin_to_this_core();
    const size_t rounds = plan_rounds(timed, count, seconds, least);
    double *values = calloc(3 * count * rounds, sizeof *values);
    struct samples *samples = calloc(count, sizeof *samples);
    if (values == NULL || samples == NULL) {
        diag_environment(diag, NULL, "out of memory");
        free(values);
        free(samples);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        samples[i] = (struct samples){values + 3 * i * rounds, values + (3 * i + 1) * rounds,
                                      values + (3 * i + 2) * rounds};
    settle_clock(timed[0].isa);
    for (size_t r = 0; r < rounds; r++)
        for (size_t i = 0; i < count; i++)
            take_sample(&samples[i], r, &timed[i]);
    for (size_t i = 0; i < count; i++) {
        timings[i] = sum_up(&samples[i], rounds, &timed[i]);
        timings[i].core = core;
    }
    free(values);
    free(samples);
    return true;
}
