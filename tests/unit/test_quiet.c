/* SPDX-License-Identifier: MIT */
/* Which samples are taken again, which count, and which figures are marked as those of a disturbed machine: of made-up
 * samples, as no test may depend on how quiet a machine is.
 *
 * Left out on purpose: kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include "../../runtime/timing/rounds.h"

#define ROUNDS 15

static void signs_of_a_sample(void **state)
{
    static const struct {
        struct sample sample;
        bool disturbed;
    } cases[] = {
        {{.wall_us = 100, .cpu_us = 100}, false},
        {{.wall_us = 100, .cpu_us = 97.5}, false},
        {{.wall_us = 100, .cpu_us = 96}, true},
        {{.wall_us = 100, .cpu_us = 100, .switches = 1}, true},    /* short: none is explained */
        {{.wall_us = 25000, .cpu_us = 25000, .switches = 2}, false},
        {{.wall_us = 25000, .cpu_us = 25000, .switches = 3}, true},
        {{.wall_us = 100, .cpu_us = NAN}, false},                  /* a coarse clock says nothing */
        {{.wall_us = 100, .cpu_us = NAN, .switches = 1}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (sample_is_disturbed(&cases[i].sample) != cases[i].disturbed)
            fail_msg("case %zu is not %s", i, cases[i].disturbed ? "disturbed" : "quiet");
}

/* Samples that come one after the other; so many are disturbed first. */
struct script {
    size_t disturbed, taken;
};

static struct sample take_next(void *context)
{
    struct script *script = context;
    const double us = (double)++script->taken;
    return (struct sample){.us = us, .wall_us = 100, .cpu_us = script->taken <= script->disturbed ? 50 : 100};
}

static void a_disturbed_sample_is_taken_again(void **state)
{
    static const struct {
        size_t disturbed, again, taken, left;
    } cases[] = {
        {0, 10, 1, 10}, {1, 10, 2, 9}, {3, 10, 4, 7},
        {100, 10, 4, 7}, /* no longer than a few times */
        {100, 1, 2, 0}, {100, 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script script = {cases[i].disturbed, 0};
        size_t again = cases[i].again;
        const struct sample sample = sample_quietly(take_next, &script, &again);
        assert_int_equal(script.taken, cases[i].taken);
        assert_int_equal(again, cases[i].left);
        assert_true(sample.us == (double)cases[i].taken); /* the last one counts */
    }
}

static void figures_are_marked(void **state)
{
    static const struct {
        double median, min, cpu, disturbed;
    } cases[] = {
        {1.29, 1, 100, 0}, {1.31, 1, 100, 1}, {3.4, 1, 100, 1},
        {1, 1, 91, 0},     {1, 1, 89, 1},     {1.29, 1, NAN, 0}, {1.31, 1, NAN, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sample both[2] = {{.wall_us = 100, .cpu_us = cases[i].cpu, .switches = 2},
                                       {.wall_us = 300, .cpu_us = 3 * cases[i].cpu, .switches = 1}};
        const struct quiet quiet = quiet_of(both, 2, cases[i].median, cases[i].min);
        assert_int_equal(quiet.switches, 3);
        assert_true(isnan(cases[i].cpu) ? isnan(quiet.cpu_share) : fabs(quiet.cpu_share - cases[i].cpu / 100) < 1e-9);
        if (quiet.disturbed != (cases[i].disturbed != 0))
            fail_msg("case %zu: disturbed is %d", i, quiet.disturbed);
    }
}

/* What was measured in turns: the default took 4.4 times as long in some of the rounds. */
static void ratios_leave_disturbed_rounds_out(void **state)
{
    static const double standard[] = {440, 100, 440, 102, 440}, candidate[] = {100, 99, 101, 350, 100};
    struct quiet_ratio ratio = ratio_quietly(standard, candidate, 5, INFINITY);
    assert_int_equal(ratio.kept, 1);
    assert_true(fabs(ratio.median - 100.0 / 99) < 1e-12);
    ratio = ratio_quietly(standard, candidate, 1, INFINITY); /* nothing to tell by */
    assert_int_equal(ratio.kept, 1);
    assert_true(ratio.median == 4.4);
    ratio = ratio_quietly(standard, candidate, 1, 100); /* but for what the default took before */
    assert_int_equal(ratio.kept, 0);
    assert_true(isnan(ratio.median));
    assert_int_equal(ratio_quietly(standard, candidate, 0, 100).kept, 0);
}

/* Kernels of 100 µs on machines of four kinds. */
enum { STEADY, STOLEN_AT_FIRST, PREEMPTED_NOW_AND_THEN, TORN, KERNELS };

static struct sample sample_kernel(void *context, size_t kernel)
{
    size_t *const taken = context;
    const size_t number = taken[kernel]++;
    struct sample s = {.us = 100, .wall_us = 100, .cpu_us = 100, .peak = 50};
    if ((kernel == STOLEN_AT_FIRST && number < ROUNDS && number > 1) || (kernel == TORN && number % 3 != 0))
        s.us = s.wall_us = s.cpu_us = 340; /* by a hypervisor: both clocks have it */
    if (kernel == PREEMPTED_NOW_AND_THEN && number % 3 == 1)
        s.us = s.wall_us = 400;
    return s;
}

static void disturbed_kernels_are_measured_anew(void **state)
{
    static const double operations[KERNELS] = {1e6, 1e6, 1e6, 1e6};
    struct timing timings[KERNELS];
    size_t taken[KERNELS] = {0};
    rounds_take(timings, KERNELS, ROUNDS, operations, sample_kernel, taken);
    assert_int_equal(taken[STEADY], ROUNDS);
    assert_int_equal(taken[STOLEN_AT_FIRST], 2 * ROUNDS);
    assert_in_range(taken[PREEMPTED_NOW_AND_THEN], ROUNDS + 1, 2 * ROUNDS);
    assert_int_equal(taken[TORN], (1 + ROUNDS_AGAIN) * ROUNDS);
    for (size_t i = 0; i < KERNELS; i++) {
        assert_int_equal(timings[i].quiet.disturbed, i == TORN);
        assert_true(timings[i].us == (i == TORN ? 340 : 100));
        assert_true(timings[i].us_min == 100);
        assert_int_equal(timings[i].samples, ROUNDS);
        assert_true(fabs(timings[i].share - 10 / timings[i].us * 100 / 50) < 1e-9);
    }
}

/* CPU time stands still while one sleeps, on every machine whose clock is fine enough to tell. */
static void the_stopwatch_sees_a_pause(void **state)
{
    const struct stopwatch watch = stopwatch_start();
    usleep(50000);
    const struct sample sample = stopwatch_stop(&watch, 10);
    assert_true(sample.wall_us >= 50000 && fabs(10 * sample.us - sample.wall_us) < 1e-6 * sample.wall_us);
    assert_true(isnan(sample.cpu_us) || sample_is_disturbed(&sample));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_of_a_sample),
        cmocka_unit_test(a_disturbed_sample_is_taken_again),
        cmocka_unit_test(figures_are_marked),
        cmocka_unit_test(ratios_leave_disturbed_rounds_out),
        cmocka_unit_test(disturbed_kernels_are_measured_anew),
        cmocka_unit_test(the_stopwatch_sees_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
