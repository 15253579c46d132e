/* SPDX-License-Identifier: MIT */
#include "rounds.h"

#include <stdlib.h>

#include "peak.h"
#include "base/memory.h"

#define MEMORY_US 100 /* of one memory_measure(), about */
#define PEAK_US 50 /* of one peak_measure(), about */

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

struct timing timing_of(const struct sample *samples, size_t rounds, double operations)
{
    struct timing timing = {.samples = rounds};
    HEAP double *us = memory_get(4 * rounds, sizeof *us);
    double *peak = us + rounds, *share = peak + rounds, *memory = share + rounds;
    for (size_t r = 0; r < rounds; r++) {
        us[r] = samples[r].us;
        peak[r] = samples[r].peak;
        memory[r] = samples[r].memory;
        share[r] = peak[r] > 0 && us[r] > 0 ? operations / (1e3 * us[r]) / peak[r] : 0;
    }
    for (int i = 0; i < 4; i++)
        sort_ascending(us + (size_t)i * rounds, rounds);
    timing.us = quantile(us, rounds, 0.5);
    timing.us_min = us[0];
    timing.us_q1 = quantile(us, rounds, 0.25);
    timing.us_q3 = quantile(us, rounds, 0.75);
    timing.us_max = us[rounds - 1];
    count_outliers(&timing, us);
    timing.gflops = timing.us > 0 ? operations / (1e3 * timing.us) : 0;
    timing.peak = quantile(peak, rounds, 0.5);
    timing.share = quantile(share, rounds, 0.5);
    timing.memory = quantile(memory, rounds, 0.5);
    timing.quiet = quiet_of(samples, rounds, timing.us, timing.us_min);
    return timing;
}

/* What sample_quietly() calls. */
struct taker {
    struct sample (*take)(void *context, size_t kernel);
    void *context;
    size_t kernel;
};

static struct sample take_one(void *context)
{
    const struct taker *taker = context;
    return taker->take(taker->context, taker->kernel);
}

/* One kernel being measured. */
struct course {
    struct sample *samples; /* [rounds] */
    size_t again;           /* how many samples may still be repeated: initially the number of rounds */
    bool wanted;
};

/* Takes all rounds of the wanted kernels. */
static void take_rounds(struct course *courses, size_t count, size_t rounds, struct taker *taker)
{
    for (size_t i = 0; i < count; i++)
        courses[i].again = rounds;
    for (size_t r = 0; r < rounds; r++)
        for (taker->kernel = 0; taker->kernel < count; taker->kernel++) {
            struct course *c = &courses[taker->kernel];
            if (c->wanted)
                c->samples[r] = sample_quietly(take_one, taker, &c->again);
        }
}

void rounds_take(struct timing *timings, size_t count, size_t rounds, const double *operations,
                 struct sample (*take)(void *context, size_t kernel), void *context)
{
    struct taker taker = {take, context, 0};
    HEAP struct sample *samples = memory_get(count * rounds, sizeof *samples);
    HEAP struct course *courses = memory_get(count, sizeof *courses);
    for (size_t i = 0; i < count; i++)
        courses[i] = (struct course){samples + i * rounds, 0, true};
    for (int take_number = 0; take_number <= ROUNDS_AGAIN; take_number++) {
        take_rounds(courses, count, rounds, &taker);
        for (size_t i = 0; i < count; i++) {
            if (!courses[i].wanted)
                continue;
            const struct timing new = timing_of(courses[i].samples, rounds, operations[i]);
            if (take_number == 0 || !new.quiet.disturbed || new.us < timings[i].us)
                timings[i] = new;
            courses[i].wanted = new.quiet.disturbed;
        }
    }
}

/* ---- kernels --------------------------------------------------------------------------------------------------- */

static double operations_of(const struct timed *t)
{
    const struct layer_cost cost = layer_multiply_adds(t->layer, (int64_t)t->inputs.n,
                                                       inputs_reach(t->layer, &t->inputs));
    return 2 * cost.total * (double)t->inputs.batch;
}

struct kernels {
    const struct timed *timed;
    const void *memory; /* of the yardstick */
};

static struct sample take_kernel(void *context, size_t kernel)
{
    const struct kernels *kernels = context;
    const double memory = memory_measure(kernels->memory);
    struct sample sample = timed_sample_with_peak(&kernels->timed[kernel]);
    sample.memory = memory;
    return sample;
}

/* The number of rounds that fit the time, estimated from first calls */
static size_t plan_rounds(struct timed *timed, size_t count, double seconds, size_t min)
{
    double round = 0;
    for (size_t i = 0; i < count; i++) {
        const double us = timed_calibrate(&timed[i]);
        round += us * (double)(timed[i].repeats + 1) + 2 * PEAK_US + MEMORY_US;
    }
    return rounds_for(1e6 * seconds * (double)count / round, min);
}

void rounds_measure(struct timing *timings, struct timed *timed, size_t count, double seconds, size_t min)
{
    if (count == 0)
        return;
    const int core = pin_to_this_core();
    const size_t rounds = plan_rounds(timed, count, seconds, min);
    HEAP double *operations = memory_get(count, sizeof *operations);
    struct kernels kernels = {timed, large_pages(MEMORY_BYTES)};
    for (size_t i = 0; i < count; i++)
        operations[i] = operations_of(&timed[i]);
    settle_clock(timed[0].isa);
    rounds_take(timings, count, rounds, operations, take_kernel, &kernels);
    for (size_t i = 0; i < count; i++)
        timings[i].core = core;
    free((void *)kernels.memory);
}
