/* SPDX-License-Identifier: MIT */
/* A time limit: the time of the last step is reserved from the start, and nothing is begun that would not end before.
 *
 * Left out on purpose: what the steps are (tune.c), and the clock, so that a test can bring its own.
 */
#ifndef ATTNRUN_BUDGET_H
#define ATTNRUN_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

struct budget {
    double start, end;   /* µs of some clock; without limit the end is INFINITY */
    double reserve;      /* kept for what comes last */
    double longest;      /* that a step took so far, or may take by what is known */
    double (*now)(void);
};

/* 0 seconds: as long as it takes, but no step that may be left out. */
struct budget budget_begin(double seconds, double (*now)(void));
/* When steps must have ended that may take this share of what is not kept back. */
double budget_until(const struct budget *budget, double share);
/* Steps from `first` on, as long as another one that takes the longest so far would end in time; of a budget without
 * limit only the first `min`. Each is told when it must have ended, and says whether to go on. Returns the number of
 * the step that was not begun. */
size_t budget_spend(struct budget *budget, double share, size_t first, size_t count, size_t min,
                    bool (*step)(void *context, size_t number, double until), void *context);

#endif
