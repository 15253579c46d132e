/* SPDX-License-Identifier: MIT */
/* A budget holds whatever its steps take, by a clock that the test moves.
 *
 * Left out on purpose: what attnrun tune does with it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "../../runtime/timing/budget.h"

static double clock_us;

static double now(void)
{
    return clock_us;
}

/* Steps that take made-up times; one that would last beyond its limit is stopped there. */
struct work {
    const double *seconds;
    size_t done, stopped;
};

static bool step(void *context, size_t number, double until)
{
    struct work *work = context;
    clock_us += 1e6 * work->seconds[number];
    if (clock_us > until) {
        clock_us = until;
        work->stopped++;
        return false;
    }
    work->done++;
    return true;
}

#define STEPS 50

static void a_budget_holds(void **state)
{
    static const double shapes[][3] = {{1, 0, 0}, {1, 1, 0}, {0.2, 0.5, 5}, {4, 9, 0}, {0.01, 0, 39}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (double reserve = 0; reserve <= 60; reserve += 7) {
            double seconds[STEPS];
            struct work work = {.seconds = seconds};
            clock_us = 5e9 + 3e6;
            struct budget budget = budget_begin(40, now);
            budget.reserve = 1e6 * reserve;
            budget.longest = 5e5; /* a guess */
            for (size_t i = 0; i < STEPS; i++)
                seconds[i] = shapes[s][0] + shapes[s][1] * (double)(i * 7 % 5) / 4 + (i == 9 ? shapes[s][2] : 0);
            const double start = clock_us;
            size_t next = budget_spend(&budget, 0.6, 0, STEPS, 1, step, &work);
            assert_true(next <= STEPS && next >= work.done);
            /* the share: no step was begun that should end behind it, unless it is the first */
            if (work.done > 1 && work.stopped == 0)
                assert_true(clock_us <= budget_until(&budget, 0.6) + 1e6 * shapes[s][1] + 1e6 * shapes[s][2] + 1e6);
            next = budget_spend(&budget, 0.85, next, STEPS, 0, step, &work);
            assert_true(clock_us <= start + 1e6 * fmax(40 - reserve, 0) + 1);
            if (reserve < 30 && s == 0)
                assert_true(work.done >= 0.8 * (40 - reserve) * 0.85 - 1); /* and it is used */
            if (40 - reserve < 0.5)
                assert_int_equal(work.done + work.stopped, 0);
        }
}

/* The first step is worth it although the share is too small for it. */
static void the_first_step_may_take_all(void **state)
{
    static const double seconds[] = {30, 1, 1};
    struct work work = {.seconds = seconds};
    clock_us = 0;
    struct budget budget = budget_begin(40, now);
    budget.longest = 35e6;
    assert_int_equal(budget_spend(&budget, 0.6, 0, 3, 1, step, &work), 1);
    assert_int_equal(work.done, 1);
}

static void no_seconds_are_the_least_and_no_limit(void **state)
{
    static const double seconds[] = {1000, 2000, 3000};
    struct work work = {.seconds = seconds};
    clock_us = 17;
    struct budget budget = budget_begin(0, now);
    budget.reserve = 1e9;
    assert_int_equal(budget_spend(&budget, 0.6, 0, 3, 1, step, &work), 1);
    assert_int_equal(budget_spend(&budget, 0.85, 1, 3, 0, step, &work), 1);
    assert_int_equal(work.done, 1);
    assert_int_equal(work.stopped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_holds),
        cmocka_unit_test(the_first_step_may_take_all),
        cmocka_unit_test(no_seconds_are_the_least_and_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
