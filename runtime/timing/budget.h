/* SPDX-License-Identifier: MIT */
/* A time limit: the time of the last step is reserved from the start, and no step is begun that would not end before
 * it.
 *
 * Left out on purpose: what the steps are (tune.c), and the clock, so that a test can bring its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct budget {
    double start, end;   /* µs of some clock; without limit the end is INFINITY */
    double reserve;      /* kept for what comes last */
    double longest;      /* longest time of a step so far, or its estimate */
    double (*now)(void);
};

/* 0 seconds: no limit, but optional steps are left out. */
struct budget budget_begin(double seconds, double (*now)(void));
/* The time by which steps must end that may use this share of the time not reserved */
double budget_until(const struct budget *budget, double share);
/* Runs steps from `first` on, as long as one more of the longest duration so far would end in time; without a limit
 * only the first `min`. Each gets the time by which it must end, and returns whether to continue. Returns the number of
 * the first step that was not begun. */
size_t budget_spend(struct budget *budget, double share, size_t first, size_t count, size_t min,
                    bool (*step)(void *context, size_t number, double until), void *context);
