/* SPDX-License-Identifier: MIT */
/* Every comparison is written so that a NaN fails it. */
#include "compare.h"

#include <math.h>
#include <string.h>

#include "stored.h"

static void miss(struct comparison *c, enum layer_tensor tensor, const size_t index[4], double expected, double actual)
{
    if (c->misses++ > 0)
        return;
    c->tensor = tensor;
    for (int i = 0; i < 4; i++)
        c->index[i] = index[i];
    c->expected = expected;
    c->actual = actual;
}

/* error / bound; 0 where both are 0. */
static double ratio_of(double error, double bound) { return error == 0 ? 0 : error / bound; }

/* The larger one; NaN if one is NaN */
static double larger(double a, double b) { return a > b || isnan(a) ? a : b; }

/* The bounds of one element. */
struct bound {
    double worst, open;
    double gate; /* narrower than `worst`; 0: it is that */
};

/* One element whose reference is finite, or for which nothing is promised */
static bool within(struct comparison *c, double expected, double actual, struct bound bound)
{
    if (!isfinite(bound.worst) || (bound.open != 0 && !isfinite(actual))) {
        c->unbounded++;
        return true;
    }
    const double error = fabs(actual - expected), ratio = ratio_of(error, bound.worst);
    c->largest = larger(c->largest, fabs(expected));
    c->error = larger(c->error, error);
    if (bound.worst < fabs(expected)) {
        c->known++;
        c->known_error = larger(c->known_error, error);
    }
    const double gate_ratio = bound.gate > 0 && bound.gate < bound.worst ? error / bound.gate : ratio;
    c->ratio = larger(c->ratio, ratio);
    c->gate_ratio = larger(c->gate_ratio, gate_ratio);
    return gate_ratio <= 1;
}

/* One element, finite or not. */
static bool agrees(struct comparison *c, double expected, double actual, struct bound bound)
{
    return isfinite(expected) || bound.open == INFINITY ? within(c, expected, actual, bound) : !isfinite(actual);
}

void compare_y(struct comparison *c, const struct layer *layer, const struct inputs *in,
               const struct reference *reference, const struct bounds *bounds, const void *y)
{
    const size_t d_out = (size_t)layer->d_out, rows = reference->y_rows.count;
    for (size_t b = 0; rows > 0 && b < in->batch; b++)
        for (size_t r = 0; r < rows; r++)
            for (size_t column = 0; column < d_out; column++) {
                const size_t t = reference->y_rows.row[r], at = (b * rows + r) * d_out + column;
                const double expected = reference->y[at];
                const double actual = element_number(layer->tensor_type, y, inputs_y_at(layer, in, b, t, column));
                const size_t index[4] = {b, t, column};
                const struct bound bound = {.worst = bounds->y_worst[at], .open = bounds->y_open[at],
                                            .gate = bounds->y_likely != NULL ? bounds->y_likely[at] : 0};
                c->elements++;
                if (!agrees(c, expected, actual, bound))
                    miss(c, TENSOR_Y, index, expected, actual);
            }
}

struct cost compare_cost(const struct layer *layer, const struct inputs *in, const struct reference *plain,
                         const void *y)
{
    const size_t d_out = (size_t)layer->d_out, rows = plain->y_rows.count;
    double largest = 0, squares = 0, of = 0, count = 0;
    for (size_t at = 0; at < in->batch * rows * d_out; at++) {
        const size_t b = at / d_out / rows, t = plain->y_rows.row[at / d_out % rows];
        const double expected = plain->y[at];
        const double off = element_number(layer->tensor_type, y, inputs_y_at(layer, in, b, t, at % d_out)) - expected;
        if (!isfinite(off))
            continue;
        largest = fmax(largest, fabs(off));
        squares += off * off;
        of += expected * expected;
        count++;
    }
    const double root = of > 0 ? sqrt(of) : 1;
    return (struct cost){largest * sqrt(count) / root, sqrt(squares) / root};
}

/* A row of attn as a kernel left it */
struct row {
    enum tensor_element type;
    const void *attn;
    size_t first;
};

static double number_of(const struct row *row, size_t j)
{
    return element_number(row->type, row->attn, row->first + j);
}

/* One row of attn, whose bounds begin at `at`. If the reference's row is non-finite, some element of the kernel's must
 * be too; hidden elements are then 0 or non-finite, and others may be anything. */
static void compare_weights(struct comparison *c, const double *expected, const struct row *row,
                            const struct bounds *bounds, size_t at, size_t m, size_t index[4])
{
    bool finite = true, actual_finite = true;
    for (size_t j = 0; j < m; j++) {
        finite = finite && isfinite(expected[j]);
        actual_finite = actual_finite && isfinite(number_of(row, j));
    }
    for (size_t j = 0; j < m; j++) {
        const double actual = number_of(row, j);
        const struct bound bound = {.worst = bounds->attn_worst[at + j], .open = bounds->attn_open[at + j]};
        const bool hidden = expected[j] == 0 && bound.worst == 0;
        bool good = finite || bound.open == INFINITY ? within(c, expected[j], actual, bound)
                    : !hidden || actual == 0 || !isfinite(actual);
        c->elements++;
        index[3] = j;
        if (!good || (!finite && actual_finite && j == 0 && bound.open != INFINITY))
            miss(c, TENSOR_ATTN, index, expected[j], actual);
    }
}

/* One row of scores. Hidden keys have no bound; only biased ones have a definite value. */
static void compare_scores(struct comparison *c, const struct layer *layer, const struct inputs *in,
                           const double *expected, const struct row *row, const struct bounds *bounds, size_t at,
                           size_t index[4])
{
    for (size_t j = 0; j < inputs_columns(layer, in); j++) {
        const struct bound bound = {.worst = bounds->attn_worst[at + j], .open = bounds->attn_open[at + j]};
        const bool seen = bound.worst != 0; /* NaN too */
        const double actual = number_of(row, j);
        bool good = layer->scores != SCORES_BIASED || actual == -INFINITY;
        if (layer->pad_skipped && index[2] >= inputs_keys(in, index[0]))
            good = actual == 0;
        else if (seen)
            good = agrees(c, expected[j], actual, bound);
        c->elements++;
        index[3] = j;
        if (!good)
            miss(c, TENSOR_ATTN, index, expected[j], actual);
    }
}

void compare_attn(struct comparison *c, const struct layer *layer, const struct inputs *in,
                  const struct reference *reference, const struct bounds *bounds, const void *attn)
{
    const size_t m = inputs_columns(layer, in), rows = reference->z_rows.count, heads = in->batch * (size_t)layer->h;
    for (size_t head = 0; rows > 0 && head < heads; head++)
        for (size_t r = 0; r < rows; r++) {
            const size_t t = reference->z_rows.row[r], at = (head * rows + r) * m;
            size_t index[4] = {head / (size_t)layer->h, head % (size_t)layer->h, t, 0};
            const struct row row = {layer->tensor_type, attn, (head * in->n + t) * m};
            if (layer->scores > SCORES_WEIGHTS)
                compare_scores(c, layer, in, reference->attn + at, &row, bounds, at, index);
            else
                compare_weights(c, reference->attn + at, &row, bounds, at, m, index);
        }
}

void compare_lse(struct comparison *c, const struct layer *layer, const struct inputs *in,
                 const struct reference *reference, const struct bounds *bounds, const float *lse)
{
    const size_t rows = reference->z_rows.count, heads = in->batch * (size_t)layer->h;
    for (size_t head = 0; rows > 0 && head < heads; head++)
        for (size_t r = 0; r < rows; r++) {
            const size_t t = reference->z_rows.row[r], at = head * rows + r;
            const size_t index[4] = {head / (size_t)layer->h, head % (size_t)layer->h, t};
            const double expected = reference->lse[at], actual = (double)lse[head * in->n + t];
            const struct bound bound = {.worst = bounds->lse_worst[at], .open = bounds->lse_open[at]};
            c->elements++;
            if (expected == -INFINITY && bound.open != INFINITY ? actual != expected
                                                                : !agrees(c, expected, actual, bound))
                miss(c, TENSOR_LSE, index, expected, actual);
        }
}

static bool is_same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Whether row `row` of a cache is what docs/cache.md says of new row `number` of [batch][h_kv][n], beyond the bounds of
 * its numbers. In i8 the largest is 127 scales, unless that is the least scale, or 0. A row that the call gives is
 * known: its scale, and in i8 that halfway numbers become even; in other types all numbers. */
static bool row_is_right(const struct layer *layer, const struct inputs *in, bool values,
                         const void *const after[CACHE_PARTS], size_t row, size_t number)
{
    const enum layer_tensor tensor = values ? TENSOR_V : TENSOR_K;
    const bool given = layer->projected && (values || !layer_finishes(layer)), scaled = layer_scales_cache(layer);
    const size_t d = inputs_cache_width(layer, values), heads = (size_t)layer->h_kv, b = number / in->n / heads;
    const size_t from = given ? inputs_head_row(layer, in, tensor, b, number % in->n, number / in->n % heads) : 0;
    const double scale = scaled ? (double)((const float *)after[inputs_scales_of(layer, values)])[row] : 1;
    double most = 0, largest = 0;
    bool good = true;
    for (size_t c = 0; c < d; c++) {
        const double stored = element_number(layer->cache_type, after[values], row * d + c);
        const double was = given ? inputs_number(layer, in, tensor, from + c) : 0;
        largest = isfinite(was) && !isnan(largest) ? fmax(largest, fabs(was)) : NAN;
        most = fmax(most, fabs(stored));
        good = good && (!given || (scaled ? fmod(stored, 2) == 0 || fabs(was / scale - stored) != 0.5
                                          : is_same(stored, element_rounded(layer->cache_type, was))));
    }
    good = good && (!given || !scaled || is_same(scale, stored_scale(largest)));
    return good && (!scaled || isnan(scale) || (scale == 0 ? most == 0 : scale == 0x1p-126 ? most <= 127
                                                                       : scale > 0x1p-126 && most == 127));
}

/* States of a recurrent layer, or of its convolution, as the call left them */
static void compare_states(struct comparison *c, const struct layer *layer, const struct inputs *in,
                           const struct reference *reference, const struct bounds *bounds, int part,
                           const void *after)
{
    const enum layer_tensor tensor = inputs_cache_of(layer, part);
    int64_t shape[4];
    const int axes = inputs_shape(layer, in, tensor, shape);
    for (size_t at = 0, count = inputs_count(layer, in, tensor); at < count; at++) {
        size_t index[4] = {0}, rest = at;
        for (int axis = axes - 1; axis >= 0; axis--, rest /= (size_t)shape[axis + 1])
            index[axis] = rest % (size_t)shape[axis];
        const double expected = reference->cache[part][at], actual = element_number(layer->cache_type, after, at);
        const struct bound bound = {.worst = bounds->cache[part].worst[at], .open = bounds->cache[part].open[at]};
        c->elements++;
        if (!agrees(c, expected, actual, bound))
            miss(c, tensor, index, expected, actual);
    }
}

void compare_cache(struct comparison *c, const struct layer *layer, const struct inputs *in,
                   const struct reference *reference, const struct bounds *bounds, bool values,
                   const void *const after[CACHE_PARTS])
{
    const enum layer_tensor tensor = inputs_cache_of(layer, values);
    const size_t count = inputs_count(layer, in, tensor), d = inputs_cache_width(layer, values);
    const size_t size = layer_tensor_size(layer, tensor);
    const size_t heads = (size_t)layer->h_kv;
    const size_t of_head = (size_t)(layer->cache == CACHE_PAGED ? layer->page_len : layer->cache_len);
    const void *before[CACHE_PARTS];
    if (layer_keeps_states(layer)) {
        compare_states(c, layer, in, reference, bounds, values, after[values]);
        return;
    }
    inputs_caches(layer, in, before);
    HEAP size_t *number = inputs_new_rows(layer, in, values);
    for (size_t at = 0; at < count; at++) {
        const size_t row = at / d, from = number[row];
        const size_t index[4] = {row / of_head / heads, row / of_head % heads, row % of_head, at % d};
        bool good;
        if (from == 0) {
            good = memcmp((const char *)before[values] + at * size, (const char *)after[values] + at * size, size) == 0;
            if (layer_scales_cache(layer) && at % d == 0)
                good = good && memcmp((const float *)before[inputs_scales_of(layer, values)] + row,
                                      (const float *)after[inputs_scales_of(layer, values)] + row,
                                      sizeof(float)) == 0;
        } else {
            const size_t place = (from - 1) * d + at % d;
            const double expected = reference->cache[values][place];
            const double actual = inputs_cached_number(layer, after, values, at);
            const struct bound bound = {.worst = bounds->cache[values].worst[place],
                                        .open = bounds->cache[values].open[place]};
            good = agrees(c, expected, actual, bound) &&
                   (at % d > 0 || row_is_right(layer, in, values, after, row, from - 1));
        }
        c->elements++;
        if (!good)
            miss(c, tensor, index,
                 from == 0 ? inputs_cached_number(layer, before, values, at)
                           : reference->cache[values][(from - 1) * d + at % d],
                 inputs_cached_number(layer, after, values, at));
    }
}

void compare_print_unbounded(const struct comparison *c, enum layer_tensor tensor, FILE *out)
{
    if (c->unbounded > 0)
        fprintf(out, "  %zu of %zu elements of %s have no bound, as f32 may overflow on their way or see other "
                     "keys, and were not compared\n", c->unbounded, c->elements, layer_tensor_name(tensor));
}

double compare_shown_error(const struct comparison *c)
{
    return c->known > 0 ? c->known_error : c->error;
}

const struct comparison *compare_first_miss(const struct comparison of[OUTPUTS_COMPARED])
{
    int i = 0;
    while (i < OUTPUTS_COMPARED && of[i].misses == 0)
        i++;
    return i < OUTPUTS_COMPARED ? &of[i] : NULL;
}

const struct comparison *compare_outputs(struct comparison of[OUTPUTS_COMPARED], const struct layer *layer,
                                         const struct inputs *in, const struct reference *reference,
                                         const struct bounds *bounds, const void *const outputs[OUTPUTS])
{
    compare_y(&of[OUTPUT_Y], layer, in, reference, bounds, outputs[OUTPUT_Y]);
    if (layer->scores)
        compare_attn(&of[OUTPUT_ATTN], layer, in, reference, bounds, outputs[OUTPUT_ATTN]);
    if (layer->lse)
        compare_lse(&of[OUTPUT_LSE], layer, in, reference, bounds, outputs[OUTPUT_LSE]);
    for (int part = 0; part < inputs_compared(layer); part++)
        compare_cache(&of[OUTPUT_CACHE + part], layer, in, reference, bounds, part, outputs + OUTPUT_CACHE);
    return compare_first_miss(of);
}

const char *compare_miss_text(const struct comparison *c, const char *whose, char text[COMPARE_TEXT])
{
    const bool four = c->tensor == TENSOR_ATTN ||
                      (c->tensor != TENSOR_CONV_STATE && layer_tensor_row(c->tensor)->kind == TENSOR_CACHE);
    char last[24] = "";
    if (four)
        snprintf(last, sizeof last, "[%zu]", c->index[3]);
    snprintf(text, COMPARE_TEXT, "%s[%zu][%zu][%zu]%s is %.9g; %s has %.9g; %zu of %zu elements miss",
             layer_tensor_name(c->tensor), c->index[0], c->index[1], c->index[2], last, c->actual, whose, c->expected,
             c->misses, c->elements);
    return text;
}
