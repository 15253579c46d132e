/* SPDX-License-Identifier: MIT */
/* NAME_merge: two results over disjoint keys become one, here those of the first run and random ones.
 *
 * Left out on purpose: how each of them is computed (compare.h).
 */
#include "trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "misuse.h"

#define TOLERANCE 2e-7 /* of the larger y, and of lse, as the header says */

struct merging {
    struct trial *t;
    const void *y; /* a: the first run's */
    const float *lse;
    void *y_b;     /* b: drawn */
    float *lse_b;
    struct guarded y_out, lse_out;
    size_t rows, n, h, d_v; /* rows of lse */
};

static size_t y_at(const struct merging *m, size_t row)
{
    const size_t n = m->n, h = m->h;
    return m->t->layer->heads_first ? row * m->d_v : ((row / n / h * n + row % n) * h + row / n % h) * m->d_v;
}

/* lse of a row that has seen nothing: the packed sink, in base 2; -infinity without sinks */
static double least_of(const struct merging *m, size_t row)
{
    const float *sink = m->t->in->tensor[TENSOR_SINK];
    if (sink == NULL)
        return -INFINITY;
    const float packed = (float)(1.4426950408889634 * (double)sink[row / m->n % m->h]);
    return (double)(float)(0.69314718055994531 * (double)packed);
}

/* Results that a call could leave: rows that have seen nothing, slightly less, as much, and far more; y of the first of
 * these must not be read. */
static void draw_other(struct merging *m)
{
    const float *sink = m->t->in->tensor[TENSOR_SINK];
    struct random random = {0x6D65726765};
    for (size_t row = 0; row < m->rows; row++) {
        const size_t at = y_at(m, row);
        const double sum = isfinite(m->lse[row]) ? (double)m->lse[row] : 0, least = least_of(m, row);
        const double kinds[] = {-INFINITY, sum - 1, sum, sum + 30, sum - 900, sum + 2 * random_normal(&random)};
        const double drawn = fmax(kinds[random_bits(&random) % 6], least);
        m->lse_b[row] = (float)drawn;
        for (size_t d = 0; d < m->d_v; d++)
            element_put(m->t->layer->tensor_type, m->y_b, at + d,
                        drawn > least ? random_normal(&random) : sink != NULL ? 0 : NAN);
    }
}

/* Skipped padding rows have zero y and lse, which is no result; merging gives none for them. */
static bool is_skipped(const struct merging *m, size_t row)
{
    return m->t->layer->pad_skipped && row % m->n >= inputs_keys(m->t->in, row / m->n / m->h);
}

static double number_of(const struct merging *m, const void *y, size_t at)
{
    return element_number(m->t->layer->tensor_type, y, at);
}

/* Compares one row with double precision. */
static bool row_is_right(struct merging *m, size_t row, const void *y, const float *lse, const char *what)
{
    if (is_skipped(m, row))
        return true;
    const double a = (double)m->lse[row], b = (double)m->lse_b[row], max = fmax(a, b);
    if (isnan(a) || isnan(b) || max == INFINITY) /* of scores that overflowed */
        return !isfinite(lse[row]) || violated(m->t, "merge, %s: lse that is not finite is swallowed", what);
    const double s = least_of(m, row);
    const double of_a = a > -INFINITY ? exp(a - max) : 0, of_b = b > -INFINITY ? exp(b - max) : 0;
    const double sum = of_a + of_b - (s > -INFINITY ? exp(s - max) : 0);
    const double log_of_both = max > -INFINITY ? max + log(sum) : -INFINITY;
    const bool same = (double)lse[row] == log_of_both;
    if (!same && !(fabs((double)lse[row] - log_of_both) <= TOLERANCE * (1 + fabs(log_of_both))))
        return violated(m->t, "merge, %s: lse[%zu][%zu][%zu] is %.9g, not %.9g", what, row / m->n / m->h,
                        row / m->n % m->h, row % m->n, (double)lse[row], log_of_both);
    for (size_t d = y_at(m, row); d < y_at(m, row) + m->d_v; d++) {
        const double y_a = of_a > 0 ? number_of(m, m->y, d) : 0, y_b = of_b > 0 ? number_of(m, m->y_b, d) : 0;
        const double is = number_of(m, y, d);
        const double expected = max > -INFINITY ? (of_a * y_a + of_b * y_b) / sum : 0;
        const double size = max > -INFINITY ? (of_a * fabs(y_a) + of_b * fabs(y_b)) / sum : 0;
        const bool infinite = !isfinite(expected) && !isfinite(is); /* values beyond the range of f16 */
        /* rounding is monotonic */
        const double low = element_rounded(m->t->layer->tensor_type, expected - TOLERANCE * size);
        const double high = element_rounded(m->t->layer->tensor_type, expected + TOLERANCE * size);
        if (!infinite && !(is >= low && is <= high))
            return violated(m->t, "merge, %s: y of row [%zu][%zu][%zu] is %.9g, not %.9g", what, row / m->n / m->h,
                            row / m->n % m->h, row % m->n, is, expected);
    }
    return true;
}

static bool rows_are_right(struct merging *m, const void *y, const float *lse, const char *what)
{
    bool good = true;
    for (size_t row = 0; good && row < m->rows; row++)
        good = row_is_right(m, row, y, lse, what);
    return good;
}

/* What merge is given */
struct merge_call {
    struct merging *m;
    const void *packed, *y_a, *y_b;
    const float *lse_a, *lse_b;
    void *y;
    float *lse;
    size_t batch, n;
};

static struct merge_call call_of(struct merging *m)
{
    return (struct merge_call){m, m->t->packed, m->y, m->y_b, m->lse, m->lse_b, m->y_out.data, m->lse_out.data,
                               m->t->in->batch, m->n};
}

static bool merge_returns(void *context, int expected, const char *what)
{
    const struct merge_call *c = context;
    return returned(c->m->t, c->m->t->call->merge(c->packed, c->y_a, c->lse_a, c->y_b, c->lse_b, c->y, c->lse, c->batch,
                                            c->n), expected, "merge, %s:", what);
}

static bool joins_right(struct merge_call call, const char *what)
{
    return merge_returns(&call, KERNEL_OK, what) && rows_are_right(call.m, call.y, call.lse, what);
}

/* The results in either order; the sum may replace one of them. */
static bool joins(struct merging *m)
{
    struct merge_call turned = call_of(m), in_place = turned;
    turned.y_a = m->y_b;
    turned.y_b = m->y;
    turned.lse_a = m->lse_b;
    turned.lse_b = m->lse;
    in_place.y_b = in_place.y;
    in_place.lse_b = in_place.lse;
    if (!joins_right(call_of(m), "a and b") || !joins_right(turned, "b and a"))
        return false;
    memcpy(m->y_out.data, m->y_b, m->y_out.bytes);
    memcpy(m->lse_out.data, m->lse_b, m->lse_out.bytes);
    return joins_right(in_place, "in place") &&
           ((guarded_zones_intact(&m->y_out) && guarded_zones_intact(&m->lse_out)) ||
            violated(m->t, "merge: wrote outside y or lse"));
}

/* NaN in one row of one input gives NaN there and nowhere else. */
static bool keeps_nan(struct merging *m)
{
    const size_t row = m->rows / 2, at = y_at(m, row);
    const float kept = m->lse_b[row], *const lse = m->lse_out.data;
    struct merge_call call = call_of(m);
    m->lse_b[row] = NAN;
    bool good = merge_returns(&call, KERNEL_OK, "NaN in lse") &&
                (is_skipped(m, row) ||
                 (isnan(lse[row]) && (isnan(number_of(m, call.y, at)) || m->lse[row] == -INFINITY)) ||
                 violated(m->t, "merge: NaN in lse is swallowed"));
    m->lse_b[row] = kept;
    for (size_t other = 0; good && other < m->rows; other++)
        good = other == row || row_is_right(m, other, call.y, lse, "NaN in another row");
    return good;
}

static bool refuses(struct merging *m)
{
    struct merge_call call = call_of(m);
    const size_t of_y = layer_tensor_size(m->t->layer, TENSOR_Y);
    const struct misuse rows[] = {
        {"y_a", &call.y_a, of_y, MISUSE_NEEDED}, {"lse_a", &call.lse_a, sizeof(float), MISUSE_NEEDED},
        {"y_b", &call.y_b, of_y, MISUSE_NEEDED}, {"lse_b", &call.lse_b, sizeof(float), MISUSE_NEEDED},
        {"y", &call.y, of_y, MISUSE_NEEDED}, {"lse", &call.lse, sizeof(float), MISUSE_NEEDED},
        {"packed", &call.packed, KERNEL_ALIGNMENT, MISUSE_NEEDED}}; /* which is read for its sinks alone */
    const struct { const char *what; size_t batch, n; int expected; } sizes[] = {
        {"n = seq_len + 1", call.batch, (size_t)m->t->layer->seq_len + 1, KERNEL_SIZE},
        {"a huge batch", SIZE_MAX / 2, call.n, KERNEL_SIZE},
        {"n = 0", call.batch, 0, KERNEL_OK}, {"batch = 0", 0, call.n, KERNEL_OK}};
    guarded_fill(&m->y_out);
    guarded_fill(&m->lse_out);
    bool good = misuse_refused(rows, sizeof rows / sizeof *rows - !m->t->layer->sink, merge_returns, &call);
    for (size_t i = 0; good && i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].expected == KERNEL_OK) /* tensors without elements may be NULL */
            call = (struct merge_call){.m = m, .packed = m->t->packed};
        call.batch = sizes[i].batch;
        call.n = sizes[i].n;
        good = merge_returns(&call, sizes[i].expected, sizes[i].what);
    }
    return good && ((guarded_untouched(&m->y_out) && guarded_untouched(&m->lse_out)) ||
                    violated(m->t, "merge: refused, but something was written"));
}

bool merging_holds(struct trial *t)
{
    const struct layer *layer = t->layer;
    struct merging m = {.t = t, .y = t->base.y.data, .lse = t->base.lse.data, .rows = trial_count(t, TENSOR_LSE),
                        .n = t->in->n, .h = (size_t)layer->h, .d_v = (size_t)layer->d_v};
    if (t->call->merge == NULL || m.rows == 0)
        return true;
    const size_t y_bytes = trial_bytes(t, TENSOR_Y), lse_bytes = m.rows * sizeof(float);
    m.y_b = memory_get(y_bytes, 1);
    m.lse_b = memory_get(lse_bytes, 1);
    guarded_make(&m.y_out, y_bytes, layer_tensor_size(layer, TENSOR_Y));
    guarded_make(&m.lse_out, lse_bytes, 4);
    draw_other(&m);
    const bool good = joins(&m) && keeps_nan(&m) && refuses(&m);
    guarded_free(&m.y_out);
    guarded_free(&m.lse_out);
    free(m.y_b);
    free(m.lse_b);
    return good;
}
