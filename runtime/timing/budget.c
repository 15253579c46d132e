/* SPDX-License-Identifier: MIT */
#include "budget.h"

#include <math.h>

struct budget budget_begin(double seconds, double (*now)(void))
{
    const double start = now();
    return (struct budget){.start = start, .end = seconds > 0 ? start + 1e6 * seconds : INFINITY, .now = now};
}

double budget_until(const struct budget *b, double share)
{
    const double all = b->end - b->start - b->reserve;
    return isinf(all) ? INFINITY : b->start + share * all;
}

size_t budget_spend(struct budget *b, double share, size_t first, size_t count, size_t min,
                    bool (*step)(void *context, size_t number, double until), void *context)
{
    const double last = budget_until(b, 1), until = budget_until(b, share);
    for (size_t i = first; i < count; i++) {
        const double begin = b->now();
        if (isinf(last) ? i >= first + min : begin + b->longest > (i < first + min ? last : until))
            return i;
        const bool go_on = step(context, i, last);
        b->longest = fmax(b->longest, b->now() - begin);
        if (!go_on)
            return i + 1;
    }
    return count;
}
