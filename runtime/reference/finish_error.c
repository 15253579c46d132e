/* SPDX-License-Identifier: MIT */
/* Rounding of norm and rotation. Names are docs/bound_block.md's: u, gamma, omega, phi; e is the error of an
 * input.
 */
#include "finish_error.h"

#include <float.h>
#include <math.h>

#include "block_error.h"
#include "roundoff.h"
#include "spec/layer.h"

#define U BOUND_U

/* ---- norm ---- */

/* Under rms_all the errors of other heads' columns are not available; this computes what bound.c has for each head's
 * own. */
static void errors_of_all(const struct finish_error *e, size_t row, double *worst)
{
    const size_t count = e->of->heads * e->of->d;
    const double *size = e->of->all_size + row * count;
    const double gamma = gamma_of(e->depth + 2 + block_more_roundings(e->layer));
    for (size_t c = 0; c < count; c++)
        worst[c] = e->layer->projected ? e->phi
                   : gamma * size[c] + e->omega * (double)(e->depth + 1) +
                         (e->all_worst != NULL ? e->all_worst[row * count + c] : 0);
}

static struct norm_rounding rounding_of(const struct finish_error *e)
{
    return (struct norm_rounding){e->omega, e->phi, e->factor, false};
}

/* Errors of one row, now of its norm times factor. */
static void norm_errors(const struct finish_error *e, size_t row, const struct norm_divided *by,
                        const struct norm_rounding *rounding)
{
    const size_t d = e->of->d;
    for (size_t c = 0; c < d; c++) {
        const double gain = e->factor * (e->of->gain != NULL ? fabs(e->of->gain[c]) : 1);
        const double shift = e->factor * (e->of->shift != NULL ? fabs(e->of->shift[c]) : 0);
        e->open[row] |= norm_error(by, rounding, e->of->from[row * d + c], gain, shift, &e->worst[row * e->row + c]);
    }
    e->open[row] |= by->open;
}

/* ---- rotation ---- */

/* Where a position's angle comes from in a kernel, and in the reference: 2^-96 turns times an int32,
 * cut to 2^-64; and a long double. */
#define ANGLE_OF_KERNEL 0x1p-60
#define ANGLE_OF_REFERENCE (8 * (double)LDBL_EPSILON)

/* a by[0] + b by[1], a and b with their errors, cos and sin, which `by` are, rounded once. */
static double turned_error(const struct finish_error *e, const double value[2], const double worst[2],
                           const double by[2], double angle)
{
    const double a = fabs(value[0]) + worst[0], b = fabs(value[1]) + worst[1];
    const double by_a = fabs(by[0]), by_b = fabs(by[1]);
    const double turned = (ANGLE_OF_KERNEL + ANGLE_OF_REFERENCE * (1 + angle)) * e->layer->rope.attention_factor;
    const double small = turned * (a + b) + 2 * e->omega + e->phi * (2 + a + b + by_a + by_b);
    return by_a * worst[0] + by_b * worst[1] + gamma_of(3) * (by_a * a + by_b * b) + small;
}

/* `value` and errors: of one row, normed, times factor */
static void turn_errors(const struct finish_error *e, size_t row, const double *value)
{
    const bool half = e->layer->rope.kind == ROPE_HALF;
    const size_t pairs = (size_t)e->layer->rope.dims / 2;
    double *worst = e->worst + row * e->row;
    for (size_t c = 0; c < pairs; c++) {
        const struct turn *turn = &e->of->turns[row * pairs + c];
        const size_t at[2] = {half ? c : 2 * c, half ? c + pairs : 2 * c + 1};
        const double values[2] = {value[at[0]], value[at[1]]}, w[2] = {worst[at[0]], worst[at[1]]};
        const double first[2] = {turn->cosine, -turn->sine}, second[2] = {turn->sine, turn->cosine};
        worst[at[0]] = turned_error(e, values, w, first, turn->angle);
        worst[at[1]] = turned_error(e, values, w, second, turn->angle);
        const double reach = (fabs(values[0]) + w[0] + fabs(values[1]) + w[1]) * e->layer->rope.attention_factor;
        e->open[row] |= !(reach * (1 + gamma_of(3)) <= FLT_MAX);
    }
}

/* The norm of one row; room in `work` for a number of each column, under rms_all of each head's */
static struct norm_divided divide(const struct finish_error *e, size_t row, double *work)
{
    const bool all = e->of->all != NULL;
    const struct norm norm = finish_norm(e->layer);
    const struct norm_rounding rounding = rounding_of(e);
    struct norm_columns columns = {.worst = all ? work : e->worst + row * e->row};
    columns.x = finish_columns(e->of, row, &columns.count);
    if (all)
        errors_of_all(e, row, work);
    return norm_divide(&norm, &rounding, &columns);
}

/* ---- both ---- */

void finish_errors(const struct finish_error *e)
{
    const struct finish *of = e->of;
    const bool all = of->all != NULL, norms = e->layer->qk_norm != NORM_NONE;
    const size_t d = of->d, count = all ? of->heads * d : d;
    HEAP double *work = memory_get(count + of->rows * d, sizeof *work);
    struct layer normed = *e->layer;
    const struct norm_rounding rounding = rounding_of(e);
    struct finish unturned = *of;
    double *value = work + count;
    normed.rope.kind = ROPE_NONE;
    unturned.turns = NULL;
    finish_rows(&normed, &unturned, value);
    for (size_t r = 0; r < of->rows; r++) {
        for (size_t c = 0; c < d; c++)
            value[r * d + c] *= e->factor;
        if (norms) {
            const struct norm_divided by = divide(e, r, work);
            norm_errors(e, r, &by, &rounding);
        }
        if (of->turns != NULL)
            turn_errors(e, r, value + r * d);
    }
}
