/* SPDX-License-Identifier: MIT */
/* Norms of one row, and their rounding. Names are docs/bound_block.md's: u, gamma, omega, phi; e is the error of an
 * input.
 */
#include "norm.h"

#include <float.h>
#include <math.h>

#include "roundoff.h"

#define U BOUND_U
#define SMALLER 0x1p-80 /* factor for a block's row whose squares exceed f32 */

struct norm_row norm_of(const struct norm *norm, const double *x, size_t count)
{
    struct norm_row row = {0, 1, 0};
    for (size_t c = 0; norm->kind == NORM_ROW_LAYER && c < count; c++)
        row.middle += x[c];
    row.middle /= (double)count;
    for (size_t c = 0; c < count; c++)
        row.squares += square(x[c] - row.middle);
    if (norm->kind == NORM_ROW_L2) {
        const double length = sqrt(row.squares);
        row.divisor = length < norm->eps ? norm->eps : length; /* NaN stays */
    } else {
        row.divisor = sqrt(row.squares / (double)count + norm->eps);
    }
    return row;
}

/* Errors of the mean that is subtracted, after the first number was subtracted, if it is; returns a sum that f32
 * computes on the way. */
static double mean_errors(struct norm_divided *to, const struct norm_rounding *e, const struct norm_columns *of)
{
    const double n = (double)of->count, first = e->of_block ? of->x[0] : 0;
    const double off = e->of_block && of->worst != NULL ? of->worst[0] : 0;
    double size = 0, errors = 0;
    for (size_t c = 0; c < of->count; c++) {
        const double worst = of->worst != NULL ? of->worst[c] : e->phi;
        size += fabs(of->x[c] - first) + worst + off;
        errors += worst;
    }
    to->middle_worst = (errors + gamma_of(of->count + 3) * size) / n + e->omega;
    to->first = e->of_block ? fabs(first - to->middle) : 0;
    to->first_worst = off;
    return size;
}

struct norm_divided norm_divide(const struct norm *norm, const struct norm_rounding *e, const struct norm_columns *of)
{
    const struct norm_row row = norm_of(norm, of->x, of->count);
    const double n = (double)of->count, sum_gamma = gamma_of(of->count + 1);
    const bool centred = norm->kind == NORM_ROW_LAYER, l2 = norm->kind == NORM_ROW_L2;
    struct norm_divided to = {.inverse = 1 / row.divisor, .middle = row.middle};
    double worst = 0, reach = 0, largest = centred ? mean_errors(&to, e, of) : 0;
    for (size_t c = 0; c < of->count; c++) {
        const double x = fabs(of->x[c] - row.middle), in = of->worst != NULL ? of->worst[c] : e->phi;
        const double away = e->of_block && centred ? U * (x + to.first) : 0; /* the first number's */
        const double off = in + to.middle_worst + away + U * (in + to.first_worst) +
                           (centred ? U * (x + in + to.middle_worst) : 0);
        worst += (2 * x + off) * off;
        reach += square(x + off);
        largest = fmax(largest, x + off);
    }
    worst += sum_gamma * reach + n * (e->omega + 2 * e->phi * largest);
    const bool fits = reach * (1 + sum_gamma) <= FLT_MAX && largest <= FLT_MAX;
    to.lost = e->of_block && !fits ? (e->omega + e->phi) / SMALLER : 0;
    worst += 2 * n * largest * to.lost;
    to.open = !e->of_block && !fits;
    if (l2) {
        const double length = sqrt(row.squares), off = fmin(sqrt(worst), worst / length) + 2 * U * length;
        const double relative = fmax(off, U * norm->eps + e->omega) / row.divisor;
        to.worst = relative < 1 ? 1 / (1 - relative) * (1 + 4 * U) - 1 : INFINITY;
        to.most = 1;
    } else {
        const double mean = square(row.divisor);
        const double relative = (worst / n + 4 * U * (mean + worst / n) + e->omega) / mean;
        to.worst = relative < 1 ? (1 + 4 * U) / sqrt(1 - relative) - 1 : INFINITY;
        to.most = e->of_block && centred && of->count == 1 ? 0 : sqrt(n); /* a number less itself is 0 */
    }
    to.most *= 1 + gamma_of(of->count + 8);
    return to;
}

bool norm_error(const struct norm_divided *by, const struct norm_rounding *e, double x, double gain, double shift,
                double *worst)
{
    const double size = fabs(x - by->middle), value = size * by->inverse;
    const double away = by->first > 0 ? U * (size + by->first) : 0;
    const double off = (*worst + by->middle_worst + away + U * (*worst + by->first_worst) + by->lost +
                        2 * U * (size + *worst)) * by->inverse;
    const double reach = fmin((value + off) * (1 + by->worst), by->most);
    const double small = (e->omega + e->phi) * (1 + gain + reach * fmax(1, e->factor)) + (1 + by->inverse) * e->phi;
    const double moved = fmin(off * (1 + by->worst) + value * by->worst, value + by->most);
    *worst = gain * moved + gamma_of(6) * (gain * reach + shift) + small;
    return !(gain * reach + shift <= FLT_MAX) || !(by->inverse * fmax(1, gain) <= FLT_MAX);
}
