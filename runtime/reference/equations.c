/* SPDX-License-Identifier: MIT */
/* The equations of docs/spec.md in double, one head at a time:
 *
 *   Q = x W_Q + b_Q,  K = s W_K + b_K, both normed and rotated,  V = s W_V + b_V,  S = Q K^T through the terms of
 *   terms.c (times the scale, plus mask_add, …),  A = softmax(S) over the visible keys and the sink,  Z = A V,
 *   y = merge of Z by W_O.
 *
 * In a block x may be normed first, and block.c computes y from x and that merge; without attention, from x alone.
 *
 * A row that sees no key has A = 0 and Z = 0. Hidden keys are never multiplied, not even by zero; visible NaN and
 * infinity follow IEEE arithmetic.
 */
#include "reference.h"

#include <math.h>
#include <string.h>

#include "dropout.h"
#include "latent.h"
#include "product.h"
#include "recurrent.h"
#include "spec/score.h"
#include "spec/visible.h"
#include "stored.h"
#include "terms.h"
#include "vectors.h"

#define ALL_ROWS_UP_TO 512 /* with `sample`, more rows than this are sampled */
#define SAMPLED_ROWS 64
#define LOG2_E 1.4426950408889634

/* ---- masks ----------------------------------------------------------------------------------------------------- */

struct expression_pair reference_pair(const struct layer *layer, const struct inputs *in, size_t b, size_t i, size_t t,
                                      size_t j)
{
    return (struct expression_pair){i, inputs_position(layer, in, b, t), inputs_first(layer, in, b) + (int64_t)j};
}

/* Whether a query sees a key by its place: masks of position, prefix, segments */
static bool sees_place(const struct layer *layer, const struct inputs *in, size_t b, size_t t, size_t j)
{
    const int32_t *prefix = in->tensor[TENSOR_PREFIX];
    if (layer->pad_skipped && t >= inputs_keys(in, b))
        return false;
    const int32_t *of_q = in->tensor[layer->self ? TENSOR_SEGMENT : TENSOR_SEGMENT_Q];
    const int32_t *of_k = in->tensor[layer->self ? TENSOR_SEGMENT : TENSOR_SEGMENT_K];
    if (of_q != NULL && of_q[b * in->n + t] != of_k[b * in->m + j])
        return false;
    return visible_pair_behind(layer, prefix != NULL ? prefix[b] : 0, inputs_position(layer, in, b, t),
                               inputs_first(layer, in, b) + (int64_t)j);
}

bool reference_unmasked(const struct layer *layer, const struct inputs *in, size_t b, size_t i, size_t t, size_t j)
{
    bool sees = sees_place(layer, in, b, t, j) && j < inputs_rows(layer, in, b);
    for (enum score_name term = 0; sees && term < SCORE_TERMS; term++)
        sees = !score_has(layer, term) || !terms_hide(term, terms_operand(layer, in, term, b, i, t, j));
    return sees;
}

bool reference_visible(const struct layer *layer, const struct inputs *in, size_t b, size_t i, size_t t, size_t j)
{
    const struct expression_pair pair = reference_pair(layer, in, b, i, t, j);
    return reference_unmasked(layer, in, b, i, t, j) && expressions_visible(layer, in, pair, NULL) &&
           !expressions_hide(layer, in, pair);
}

/* ---- which rows ------------------------------------------------------------------------------------------------ */

void reference_taps(const struct layer *layer, const struct inputs *in, size_t b, size_t t, size_t *first, size_t *end)
{
    *first = t;
    *end = t + 1;
    if (layer->w_o != W_O_CONV)
        return;
    /* rows t - pad … t - pad + conv_width - 1, cut to where Z is not zero by definition */
    int64_t limit = (int64_t)in->n, from = (int64_t)t - layer_conv_pad(layer), to = from + layer->conv_width;
    if ((layer->mask & MASK_PADDING) && (int64_t)inputs_keys(in, b) < limit)
        limit = (int64_t)inputs_keys(in, b);
    to = to < limit ? to : limit;
    from = from > 0 ? from : 0;
    *first = (size_t)from;
    *end = to > from ? (size_t)to : (size_t)from;
}

static struct rows rows_of_flags(struct pool *pool, const unsigned char *flags, size_t n)
{
    struct rows rows = {.row = pool_get(pool, n, sizeof *rows.row)};
    for (size_t t = 0; t < n; t++)
        if (flags[t])
            rows.row[rows.count++] = t;
    return rows;
}

/* Both ends, the neighbourhood of multiples of 16 and 64, and the rest spread evenly by a fixed stride. */
static void sample_rows(unsigned char *flags, size_t n)
{
    static const size_t edges[] = {1, 15, 16, 17, 31, 32, 47, 48, 49, 63, 64, 65, 127, 128, 255, 256, 257, 511, 512};
    flags[0] = flags[n - 1] = flags[n - 2] = 1;
    for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
        flags[edges[e]] = flags[n - 1 - edges[e]] = 1;
    for (size_t s = 0; s < SAMPLED_ROWS / 2; s++)
        flags[(s * n / (SAMPLED_ROWS / 2) + s * 7) % n] = 1;
}

static void choose_rows(struct reference *reference, const struct layer *layer, const struct inputs *in, bool sample)
{
    const size_t n = in->n;
    HEAP unsigned char *flags = memory_get(n, 1);
    const bool all = !sample || n <= ALL_ROWS_UP_TO;
    memset(flags, all, n);
    if (!all)
        sample_rows(flags, n);
    reference->y_rows = rows_of_flags(&reference->memory, flags, n);
    for (size_t r = 0; !all && r < reference->y_rows.count; r++)
        for (size_t b = 0; b < in->batch; b++) {
            size_t first, end;
            reference_taps(layer, in, b, reference->y_rows.row[r], &first, &end);
            for (size_t t = first; t < end; t++)
                flags[t] = 1;
        }
    reference->z_rows = rows_of_flags(&reference->memory, flags, n);
}

/* ---- the head's share of the tensors, in double and in_out ----------------------------------------------------- */

/* Columns `column` … of some rows (the first `count` if rows is NULL) of a [.][width] tensor, from number `first` on */
static void gather_rows(double *out, const struct layer *layer, const struct inputs *in, enum layer_tensor tensor,
                        size_t first, size_t width, size_t column, size_t columns, const size_t *rows, size_t count)
{
    for (size_t r = 0; r < count; r++)
        for (size_t c = 0; c < columns; c++)
            out[r * columns + c] =
                inputs_number(layer, in, tensor, first + (rows != NULL ? rows[r] : r) * width + column + c);
}

/* Rows of x or source as attention reads them */
static void gather_tokens(double *out, const struct reference_head *head, const struct layer *layer,
                          const struct inputs *in, enum layer_tensor tensor, size_t column, size_t columns,
                          const size_t *rows, size_t count)
{
    const bool x = tensor == TENSOR_X;
    const size_t width = (size_t)(x ? layer->d_model : layer->d_source), first = head->b * (x ? in->n : in->m) * width;
    if (!x || head->normed == NULL) {
        gather_rows(out, layer, in, tensor, first, width, column, columns, rows, count);
        stored_rows(layer, in, out, count, columns);
        return;
    }
    for (size_t r = 0; r < count; r++)
        memcpy(out + r * columns, head->normed + first + (rows != NULL ? rows[r] : r) * width + column,
               columns * sizeof *out);
}

/* Values that are the head's input: rows that attention reads, but not rounded as they are for products */
static void gather_identity(double *out, const struct reference_head *head, const struct layer *layer,
                            const struct inputs *in, size_t column, size_t columns, size_t count)
{
    const enum layer_tensor tensor = inputs_source(layer);
    const bool x = tensor == TENSOR_X;
    const size_t width = (size_t)(x ? layer->d_model : layer->d_source), first = head->b * (x ? in->n : in->m) * width;
    if (!layer_rounds_rows(layer))
        memcpy(out, head->s, count * columns * sizeof *out);
    else if (!x || head->exact == NULL)
        gather_rows(out, layer, in, tensor, first, width, column, columns, NULL, count);
    else
        for (size_t r = 0; r < count; r++)
            memcpy(out + r * columns, head->exact + first + r * width + column, columns * sizeof *out);
}

static void gather_bias(double *out, const float *bias, size_t d, size_t i)
{
    for (size_t c = 0; c < d; c++)
        out[c] = bias != NULL ? bias[i * d + c] : 0;
}

static struct reference_head head_make(struct pool *pool, const struct layer *layer, const struct inputs *in,
                                       size_t rows)
{
    const size_t m = inputs_most_rows(layer, in), d_in_q = (size_t)layer->d_in_q, d_in_kv = (size_t)layer->d_in_kv;
    const size_t d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t merge = layer->w_o == W_O_CONV ? (size_t)(layer->conv_width * (layer->d_model / layer->h))
                                                : (size_t)layer->d_model;
    struct reference_head head = {0};
    pool_arrays(pool, ARRAYS({&head.x, rows * d_in_q}, {&head.s, m * d_in_kv}, {&head.w_q, d_in_q * d_k},
                             {&head.w_k, d_in_kv * d_k}, {&head.w_v, d_in_kv * d_v},
                             {&head.w_o, (size_t)layer_z_width(layer) * merge}, {&head.b_q, d_k}, {&head.b_k, d_k},
                             {&head.b_v, d_v}, {&head.q, rows * d_k}, {&head.k, m * d_k}, {&head.v, m * d_v}));
    for (enum score_name term = 0; term < SCORE_TERMS; term++)
        if (terms_have_operand(layer, term))
            head.operand[term] = pool_doubles(pool, rows * m);
    head.raw = pool_doubles(pool, rows * m);
    head.scores = pool_doubles(pool, rows * m);
    for (int values = 0; layer_stores_cache(layer) && values < layer_cached_rows(layer); values++)
        head.made[values] = pool_doubles(pool, in->m * inputs_cache_width(layer, values));
    if (layer->scores > SCORES_WEIGHTS)
        head.shown = pool_doubles(pool, rows * m);
    head.weights = pool_doubles(pool, rows * m);
    if (in->training && layer->dropout > 0)
        head.kept = pool_doubles(pool, rows * m);
    head.lse = pool_doubles(pool, rows);
    head.z = pool_doubles(pool, rows * d_v);
    if (layer->gate != GATE_NONE) {
        const size_t width = (size_t)layer_gate_width(layer);
        pool_arrays(pool, ARRAYS({&head.w_gate, d_in_q * width}, {&head.b_gate, width}, {&head.gates, rows * width},
                                 {&head.bare_z, rows * d_v}));
    }
    if (inputs_round_scores(layer, in)) {
        head.exact_q = pool_doubles(pool, rows * d_k);
        head.exact_k = pool_doubles(pool, m * d_k);
        head.exact_v = inputs_round_values(layer, in) ? pool_doubles(pool, m * (size_t)layer->d_v) : NULL;
    }
    if (layer_rounds_z(layer)) {
        head.all_z = pool_doubles(pool, rows * (size_t)layer->h * d_v);
        head.whole_z = pool_doubles(pool, rows * (size_t)layer->h * d_v);
    }
    head.visible = pool_get(pool, rows * m, 1);
    if (layer_is_latent(layer))
        head.latent = latent_make(pool, layer, rows, in->m, m);
    else if (layer_finishes(layer)) {
        head.finish_q = finish_make(pool, layer, rows, (size_t)layer->h);
        head.finish_k = finish_make(pool, layer, in->m, (size_t)layer->h_kv);
    }
    return head;
}

/* ---- the equations --------------------------------------------------------------------------------------------- */

/* out = a w + b */
static void project(double *out, const double *a, const double *w, const double *b, size_t rows, size_t in, size_t d)
{
    for (size_t r = 0; r < rows; r++)
        memcpy(out + r * d, b, d * sizeof *out);
    product_add(out, d, a, in, w, d, rows, in, d);
}

/* Of a token with several positions: of each pair of columns the rotation by that of its axis */
static void turn_by_axes(const struct layer *layer, const int32_t *positions, struct turn *turns)
{
    const size_t pairs = (size_t)layer->rope.dims / 2;
    HEAP struct turn *of_axis = memory_get(pairs, sizeof *of_axis);
    for (int64_t axis = 0; axis < layer->rope.axes; axis++) {
        finish_turns(layer, positions[axis], of_axis);
        for (size_t c = 0; c < pairs; c++)
            if (layer_axis_of(layer, (int64_t)c) == axis)
                turns[c] = of_axis[c];
    }
}

/* The rotations of rows or keys of a sequence by their positions; rows NULL: all keys that the call brings */
static void turn_rows(struct finish *of, const struct layer *layer, const struct inputs *in, size_t b,
                      const struct rows *rows)
{
    const int32_t *positions = in->tensor[TENSOR_POSITIONS];
    const size_t pairs = (size_t)layer->rope.dims / 2;
    for (size_t r = 0; of->turns != NULL && r < of->rows; r++) {
        const size_t t = rows != NULL ? rows->row[r] : r;
        const bool placed = rows != NULL || layer_has_cache(layer);
        const int64_t p = placed ? inputs_position(layer, in, b, t) : (int64_t)t;
        if (layer->rope.axes > 1)
            turn_by_axes(layer, positions + (b * in->n + t) * (size_t)layer->rope.axes, of->turns + r * pairs);
        else
            finish_turns(layer, positions != NULL ? positions[b * in->n + t] : p, of->turns + r * pairs);
    }
}

/* Stores one head's columns among those of all; and their size, with slightly larger factors for operands that a
 * machine which flushes to zero reads as 0 (bound.c). */
static void keep_columns(struct finish *of, size_t i, const double *value, const double *a, const double *w,
                         const double *b, size_t in)
{
    const size_t d = of->d, row = of->heads * d;
    for (size_t r = 0; r < of->rows; r++)
        for (size_t c = 0; c < d; c++) {
            double size = fabs(b[c]) + 0x1p-102;
            for (size_t k = 0; in > 0 && k < in; k++)
                size += (fabs(a[r * in + k]) + 0x1p-102) * (fabs(w[k * d + c]) + 0x1p-102);
            of->all[r * row + i * d + c] = value[r * d + c];
            of->all_size[r * row + i * d + c] = size;
        }
}

/* Norm and rotation of projected rows. `gain`, `shift`: tensors of a head, or of all heads. */
static void finish(struct finish *of, const struct layer *layer, const struct inputs *in, double *value, size_t i,
                   enum layer_tensor gain, enum layer_tensor shift)
{
    const float *gains = inputs_floats(in, gain), *shifts = inputs_floats(in, shift);
    const size_t first = layer->qk_norm == NORM_RMS_ALL || layer->qk_by_head ? i * of->d : 0;
    for (size_t c = 0; c < of->d && of->gain != NULL; c++)
        of->gain[c] = gains[first + c];
    for (size_t c = 0; c < of->d && of->shift != NULL; c++)
        of->shift[c] = shifts[first + c];
    memcpy(of->from, value, of->rows * of->d * sizeof *value);
    finish_rows(layer, of, value);
}

/* Head `from` of q, k or v, whose rows are `rows`, or the first `count` if that is NULL. */
static void gather_given(double *out, const struct layer *layer, const struct inputs *in, enum layer_tensor tensor,
                         size_t b, size_t from, const size_t *rows, size_t count)
{
    const size_t width = (size_t)(tensor == TENSOR_V ? layer->d_v : layer->d_k);
    for (size_t r = 0; r < count; r++) {
        const size_t row = inputs_head_row(layer, in, tensor, b, rows != NULL ? rows[r] : r, from);
        for (size_t c = 0; c < width; c++)
            out[r * width + c] = inputs_number(layer, in, tensor, row + c);
    }
}

static void project_head_queries(struct reference_head *head, const struct layer *layer, const struct inputs *in,
                                 const struct rows *rows)
{
    const size_t d_in = (size_t)layer->d_in_q, d_k = (size_t)layer->d_k;
    if (layer->projected) {
        gather_given(head->q, layer, in, TENSOR_Q, head->b, head->i, rows->row, rows->count);
        return;
    }
    gather_tokens(head->x, head, layer, in, TENSOR_X, layer->split ? head->i * d_in : 0, d_in, rows->row, rows->count);
    if (head->latent != NULL) {
        latent_queries(head->latent, layer, in, head->x, rows->count, head->i, head->q);
        return;
    }
    reference_projection(head->w_q, layer, inputs_floats(in, TENSOR_W_Q), d_in, d_k, head->i, (size_t)layer->h);
    gather_bias(head->b_q, inputs_floats(in, TENSOR_B_Q), d_k, head->i);
    project(head->q, head->x, head->w_q, head->b_q, rows->count, d_in, d_k);
}

static void project_queries(struct reference_head *head, const struct layer *layer, const struct inputs *in,
                            const struct rows *rows)
{
    struct finish *of = head->latent != NULL ? &head->latent->turn_q : &head->finish_q;
    const size_t i = head->i;
    if (head->latent != NULL)
        of->rows = rows->count;
    if (i == 0)
        turn_rows(of, layer, in, head->b, rows);
    for (head->i = 0; i == 0 && of->all != NULL && head->i < (size_t)layer->h; head->i++) {
        project_head_queries(head, layer, in, rows);
        keep_columns(of, head->i, head->q, head->x, head->w_q, head->b_q, (size_t)layer->d_in_q);
    }
    head->i = i;
    project_head_queries(head, layer, in, rows);
    if (layer_finishes(layer) && head->latent == NULL)
        finish(of, layer, in, head->q, i, TENSOR_G_Q, TENSOR_C_Q);
    if (head->exact_q != NULL)
        memcpy(head->exact_q, head->q, rows->count * (size_t)layer->d_k * sizeof *head->q);
    stored_score_rows(layer, in, fabs(layer->scale) * LOG2_E, head->q, rows->count); /* in base 2 */
}

/* Rows of a cache, exactly. */
static void gather_cached(struct reference_head *head, const struct layer *layer, const struct inputs *in, size_t i)
{
    const int64_t first = inputs_first(layer, in, head->b);
    const void *cache[CACHE_PARTS];
    inputs_caches(layer, in, cache);
    for (int values = 0; values < layer_cached_rows(layer); values++) {
        const size_t width = inputs_cache_width(layer, values);
        double *to = values ? head->v : head->k;
        for (size_t j = 0; j < head->cached; j++) {
            const size_t row = inputs_cache_row(layer, in, values, head->b, i, first + (int64_t)j);
            for (size_t c = 0; c < width; c++)
                to[j * width + c] = inputs_cached_number(layer, cache, values, row + c);
        }
    }
}

/* The keys that the call brings, and given values; i: index of the key and value head */
static void project_head_keys(struct reference_head *head, const struct layer *layer, const struct inputs *in, size_t i)
{
    const size_t fresh = head->keys - head->cached;
    double *k = head->k + head->cached * (size_t)layer->d_k, *v = head->v + head->cached * (size_t)layer->d_v;
    const size_t d_in = (size_t)layer->d_in_kv, d_k = (size_t)layer->d_k, h_kv = (size_t)layer->h_kv;
    if (layer->projected) {
        gather_given(k, layer, in, TENSOR_K, head->b, i, NULL, fresh);
        if (!layer->shares)
            gather_given(v, layer, in, TENSOR_V, head->b, i, NULL, fresh);
        return;
    }
    const enum layer_tensor w_k = layer->tied ? TENSOR_W_Q : TENSOR_W_K, b_k = layer->tied ? TENSOR_B_Q : TENSOR_B_K;
    gather_tokens(head->s, head, layer, in, inputs_source(layer), layer->split ? i * d_in : 0, d_in, NULL, fresh);
    if (head->latent != NULL) {
        latent_keys(head->latent, layer, in, head->s, fresh, k);
        return;
    }
    reference_projection(head->w_k, layer, inputs_floats(in, w_k), d_in, d_k, i, h_kv);
    gather_bias(head->b_k, inputs_floats(in, b_k), d_k, i);
    project(k, head->s, head->w_k, head->b_k, fresh, d_in, d_k);
}

/* Rounds new keys and values to the cache's type, and keeps the exact ones for bounds. */
static void store_fresh(struct reference_head *head, const struct layer *layer)
{
    const size_t fresh = head->keys - head->cached;
    for (int values = 0; values < layer_cached_rows(layer); values++) {
        const size_t width = inputs_cache_width(layer, values);
        double *of = (values ? head->v : head->k) + head->cached * width;
        memcpy(head->made[values], of, fresh * width * sizeof *of);
        for (size_t j = 0; j < fresh; j++)
            stored_row(layer->cache_type, head->made[values] + j * width, of + j * width, width);
    }
}

static void project_keys_values(struct reference_head *head, const struct layer *layer, const struct inputs *in)
{
    const size_t d_in = (size_t)layer->d_in_kv, d_v = (size_t)layer->d_v;
    const size_t h_kv = (size_t)layer->h_kv, i = head->i * h_kv / (size_t)layer->h;
    const size_t fresh = head->keys - head->cached;
    double *k = head->k + head->cached * (size_t)layer->d_k, *v = head->v + head->cached * d_v;
    struct finish *of = head->latent != NULL ? &head->latent->turn_k : &head->finish_k;
    of->rows = fresh;
    if (head->i == 0)
        turn_rows(of, layer, in, head->b, NULL);
    for (size_t g = 0; head->i == 0 && of->all != NULL && g < h_kv; g++) {
        project_head_keys(head, layer, in, g);
        keep_columns(of, g, k, head->s, head->w_k, head->b_k, d_in);
    }
    if (layer_has_cache(layer))
        gather_cached(head, layer, in, i);
    project_head_keys(head, layer, in, i);
    if (layer_finishes(layer) && head->latent == NULL)
        finish(of, layer, in, k, i, TENSOR_G_K, TENSOR_C_K);
    if (layer->identity) {
        gather_identity(v, head, layer, in, layer->split ? i * d_in : 0, d_v, fresh);
    } else if (!layer->projected && !layer->shares) { /* else the values came with the keys */
        reference_projection(head->w_v, layer, inputs_floats(in, TENSOR_W_V), d_in, d_v, i, h_kv);
        gather_bias(head->b_v, inputs_floats(in, TENSOR_B_V), d_v, i);
        project(v, head->s, head->w_v, head->b_v, fresh, d_in, d_v);
    }
}

/* w_v = keys: values are columns of the keys, as a cache has these */
static void take_values(struct reference_head *head, const struct layer *layer)
{
    const size_t d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    for (size_t j = 0; layer->shares && j < head->keys; j++)
        memcpy(head->v + j * d_v, head->k + j * d_k, d_v * sizeof *head->v);
}

/* All keys and values as scores and weighted sums read them, those of a cache too; exact ones are kept for bounds. */
static void round_keys_values(struct reference_head *head, const struct layer *layer, const struct inputs *in)
{
    if (head->exact_k != NULL)
        memcpy(head->exact_k, head->k, head->keys * (size_t)layer->d_k * sizeof *head->k);
    stored_score_rows(layer, in, 1, head->k, head->keys);
    if (head->exact_v != NULL)
        memcpy(head->exact_v, head->v, head->keys * (size_t)layer->d_v * sizeof *head->v);
    stored_value_rows(layer, in, head->v, head->keys);
}

enum score_name reference_shown(const struct layer *layer)
{
    static const enum score_name last[] = {
        [SCORES_NONE] = SCORE_TERMS, [SCORES_WEIGHTS] = SCORE_TERMS, [SCORES_RAW] = SCORE_SCALE,
        [SCORES_CAPPED] = SCORE_SOFTCAP, [SCORES_BIASED] = SCORE_TERMS};
    return last[layer->scores];
}

/* One pair: its operands, whether it is visible, and its score, starting from q·k */
static void score_pair(struct reference_head *head, const struct layer *layer, const struct inputs *in, size_t at,
                       size_t t, size_t j)
{
    const struct expression_pair pair = reference_pair(layer, in, head->b, head->i, t, j);
    bool sees = sees_place(layer, in, head->b, t, j) && expressions_visible(layer, in, pair, NULL);
    for (enum score_name term = 0; term < SCORE_TERMS; term++) {
        if (score_has(layer, term)) {
            const double operand = terms_operand(layer, in, term, head->b, head->i, t, j);
            sees = sees && !terms_hide(term, operand);
            head->scores[at] = terms_value(layer, term, head->scores[at], operand);
            if (head->operand[term] != NULL)
                head->operand[term][at] = operand;
        }
        if (term == SCORE_SCALE)
            head->raw[at] = head->scores[at];
        if (head->shown != NULL && term <= reference_shown(layer))
            head->shown[at] = head->scores[at];
        if (term == SCORE_EXPRESSION && layer->score != NULL) {
            head->scores[at] = expressions_score(layer, in, pair, head->scores[at]);
            sees = sees && head->scores[at] != -INFINITY;
        }
    }
    head->visible[at] = sees;
    if (layer->scores == SCORES_BIASED && !sees)
        head->shown[at] = -INFINITY;
}

/* Computes visible, operands and scores. */
static void score(struct reference_head *head, const struct layer *layer, const struct inputs *in,
                  const struct rows *rows)
{
    const bool latent = head->latent != NULL; /* by its definition, with keys of heads */
    const size_t keys = head->keys, d_k = (size_t)(latent ? layer->latent.d_head : layer->d_k);
    const double *const q = latent ? head->latent->heads : head->q;
    const double *const k = latent ? head->latent->head_keys : head->k;
    HEAP double *kt = memory_get(d_k * keys, sizeof *kt);
    for (size_t j = 0; j < keys; j++)
        for (size_t d = 0; d < d_k; d++)
            kt[d * keys + j] = k[j * d_k + d];
    memset(head->scores, 0, rows->count * keys * sizeof *head->scores);
    product_add(head->scores, keys, q, d_k, kt, keys, rows->count, d_k, keys);
    for (size_t r = 0; r < rows->count; r++)
        for (size_t j = 0; j < keys; j++) {
            if (layer_has_vectors(layer))
                head->scores[r * keys + j] += vectors_sum(layer, in, head->b, head->i, rows->row[r], j, q + r * d_k,
                                                          k + j * d_k, 1, false);
            score_pair(head, layer, in, r * keys + j, rows->row[r], j);
        }
}

/* The weighted sum of values of a head, by its definition */
static void sum_values(struct reference_head *head, size_t d_value, size_t row)
{
    double *const z = head->latent->up + row * d_value;
    memset(z, 0, d_value * sizeof *z);
    for (size_t j = 0; j < head->keys; j++)
        if (head->visible[row * head->keys + j])
            axpy(z, head->weights[row * head->keys + j], head->latent->values + j * d_value, d_value);
}

/* weights = softmax of the visible scores; z = weights v. A visible NaN reaches every weight through the sum. */
static void attend(struct reference_head *head, size_t d_v, size_t row)
{
    const size_t keys = head->keys;
    const unsigned char *visible = head->visible + row * keys;
    const double *scores = head->scores + row * keys;
    double *weights = head->weights + row * keys, *z = head->z + row * d_v;
    double maximum = head->sink;
    for (size_t j = 0; j < keys; j++)
        if (visible[j] && scores[j] > maximum)
            maximum = scores[j];
    double sum = head->sink > -INFINITY ? exp(head->sink - maximum) : 0;
    for (size_t j = 0; j < keys; j++) {
        weights[j] = visible[j] ? exp(scores[j] - maximum) : 0;
        sum += weights[j];
    }
    bool any = head->sink > -INFINITY;
    for (size_t j = 0; j < keys; j++)
        any = any || visible[j];
    head->lse[row] = any ? maximum + log(sum) : -INFINITY;
    memset(z, 0, d_v * sizeof *z);
    for (size_t j = 0; j < keys; j++)
        if (visible[j]) {
            weights[j] /= sum;
            axpy(z, weights[j] * (head->kept != NULL ? head->kept[row * keys + j] : 1), head->v + j * d_v, d_v);
        }
}

/* z sigmoid(x W_gate + b_gate), of the rows that queries are projected from */
static void gate_head(struct reference_head *head, const struct layer *layer, const struct inputs *in, size_t rows)
{
    const size_t d_in = (size_t)layer->d_in_q, d_v = (size_t)layer->d_v, width = (size_t)layer_gate_width(layer);
    if (width == 0)
        return;
    reference_projection(head->w_gate, layer, inputs_floats(in, TENSOR_W_GATE), d_in, width, head->i,
                         (size_t)layer->h);
    gather_bias(head->b_gate, inputs_floats(in, TENSOR_B_GATE), width, head->i);
    project(head->gates, head->x, head->w_gate, head->b_gate, rows, d_in, width);
    memcpy(head->bare_z, head->z, rows * d_v * sizeof *head->z);
    for (size_t at = 0; at < rows * d_v; at++) { /* a gate of NaN is 0: z is NaN too, or 0 as it sees nothing */
        const double a = head->gates[width == d_v ? at : at / d_v];
        head->z[at] *= isnan(a) ? 0 : 1 / (1 + exp(-a));
    }
}

void reference_merge(const struct reference *reference, const struct layer *layer, const struct inputs *in, size_t b,
                     size_t i, const double *z, const double *w, double *y)
{
    const size_t d_v = (size_t)layer_z_width(layer), d_out = (size_t)layer->d_out;
    const size_t width = (size_t)(layer->d_model / layer->h); /* of a convolution's block */
    const struct rows *y_rows = &reference->y_rows, *z_rows = &reference->z_rows;
    if (layer->w_o == W_O_DENSE) {
        product_add(y, d_out, z, d_v, w, d_out, y_rows->count, d_v, d_out);
        return;
    }
    if (layer->w_o == W_O_NONE) {
        for (size_t r = 0; r < y_rows->count; r++)
            for (size_t c = 0; c < d_v; c++)
                y[r * d_out + i * d_v + c] += z[r * d_v + c];
        return;
    }
    const int64_t pad = layer_conv_pad(layer);
    for (size_t r = 0, low = 0; r < y_rows->count; r++) {
        size_t first, end, t = y_rows->row[r];
        reference_taps(layer, in, b, t, &first, &end);
        while (low < z_rows->count && z_rows->row[low] < first)
            low++;
        for (size_t u = first; u < end; u++) {
            const size_t tap = (size_t)((int64_t)u - (int64_t)t + pad), z_row = low + (u - first);
            for (size_t c = 0; c < d_v; c++)
                axpy(y + r * d_out + i * width, z[z_row * d_v + c], w + (tap * d_v + c) * width, width);
        }
    }
}

static void start_with_bias(struct reference *reference, const struct layer *layer, const struct inputs *in)
{
    const size_t rows = in->batch * reference->y_rows.count, d_out = (size_t)layer->d_out;
    const float *b_o = inputs_floats(in, TENSOR_B_O);
    for (size_t r = 0; b_o != NULL && r < rows; r++)
        for (size_t c = 0; c < d_out; c++)
            reference_attention(reference)[r * d_out + c] = b_o[c];
}

static void store_attn(struct reference *reference, const struct layer *layer, const struct inputs *in,
                       const struct reference_head *head)
{
    const size_t rows = reference->z_rows.count, columns = inputs_columns(layer, in);
    double *attn = reference->attn + (head->b * (size_t)layer->h + head->i) * rows * columns;
    for (size_t r = 0; r < rows; r++) {
        const double *from = head->shown != NULL ? head->shown : head->weights;
        memcpy(attn + r * columns, from + r * head->keys, head->keys * sizeof *attn);
        for (size_t j = head->keys; head->shown != NULL && j < columns; j++)
            attn[r * columns + j] = -INFINITY;
    }
}

static void store_lse(struct reference *reference, const struct layer *layer, const struct reference_head *head)
{
    const size_t rows = reference->z_rows.count;
    memcpy(reference->lse + (head->b * (size_t)layer->h + head->i) * rows, head->lse, rows * sizeof *head->lse);
}

static void store_cache(struct reference *reference, const struct layer *layer, const struct inputs *in,
                        const struct reference_head *head)
{
    const size_t fresh = head->keys - head->cached, i = head->i * (size_t)layer->h_kv / (size_t)layer->h;
    for (int values = 0; values < layer_cached_rows(layer); values++) {
        const size_t width = (size_t)(values ? layer->d_v : layer->d_k);
        const double *from = (values ? head->v : head->k) + head->cached * width;
        memcpy(reference->cache[values] + (head->b * (size_t)layer->h_kv + i) * in->n * width, from,
               fresh * width * sizeof *from);
    }
}

/* Rounds a sequence's Z as W_O reads it. */
static void round_z(struct reference_head *head, const struct layer *layer, const struct inputs *in, size_t rows)
{
    const size_t columns = (size_t)(layer->h * layer->d_v), heads = layer->w_o == W_O_CONV ? (size_t)layer->h : 1;
    memcpy(head->whole_z, head->all_z, rows * columns * sizeof *head->all_z);
    stored_rows(layer, in, head->whole_z, rows * heads, columns / heads);
}

/* One sequence and head, all equations. */
static void compute_head(struct reference *reference, struct reference_head *head, const struct layer *layer,
                         const struct inputs *in, reference_observer *observer, void *context)
{
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv;
    head->keys = inputs_rows(layer, in, head->b);
    head->cached = inputs_cached(layer, in, head->b);
    head->new_kv = head->i == 0 || head->i * h_kv / h != (head->i - 1) * h_kv / h;
    project_queries(head, layer, in, &reference->z_rows);
    if (head->new_kv)
        project_keys_values(head, layer, in);
    if (head->new_kv && layer_stores_cache(layer))
        store_fresh(head, layer);
    if (head->new_kv && layer_has_cache(layer))
        store_cache(reference, layer, in, head);
    if (head->new_kv)
        take_values(head, layer);
    if (head->latent != NULL)
        latent_expand(head->latent, layer, head->k, head->keys);
    if (head->new_kv)
        round_keys_values(head, layer, in);
    head->sink = layer->sink ? (double)inputs_floats(in, TENSOR_SINK)[head->i] : -INFINITY;
    score(head, layer, in, &reference->z_rows);
    for (size_t r = 0; head->kept != NULL && r < reference->z_rows.count; r++)
        for (size_t j = 0; j < head->keys; j++)
            head->kept[r * head->keys + j] = dropout_factor(layer, in, head->b, head->i, reference->z_rows.row[r], j);
    for (size_t r = 0; r < reference->z_rows.count; r++)
        attend(head, (size_t)layer->d_v, r);
    for (size_t r = 0; head->latent != NULL && r < reference->z_rows.count; r++)
        sum_values(head, (size_t)layer->latent.d_value, r);
    gate_head(head, layer, in, reference->z_rows.count);
    const bool last = head->i + 1 == h;
    if (head->all_z != NULL)
        reference_keep_head(head->all_z, head->z, layer, head->i, reference->z_rows.count);
    if (head->all_z != NULL && last)
        round_z(head, layer, in, reference->z_rows.count);
    if (layer->w_o != W_O_NONE)
        reference_output(head->w_o, layer, inputs_floats(in, TENSOR_W_O), head->i);
    if (reference->attn != NULL)
        store_attn(reference, layer, in, head);
    if (reference->lse != NULL)
        store_lse(reference, layer, head);
    if (observer != NULL)
        observer(context, reference, head);
    double *const y = reference_attention(reference) + head->b * reference->y_rows.count * (size_t)layer->d_out;
    if (head->all_z == NULL)
        reference_merge(reference, layer, in, head->b, head->i, head->latent != NULL ? head->latent->up : head->z,
                        head->w_o, y);
    for (size_t i = 0; head->all_z != NULL && last && i < h; i++) {
        reference_take_head(head->z, head->whole_z, layer, i, reference->z_rows.count);
        reference_output(head->w_o, layer, inputs_floats(in, TENSOR_W_O), i);
        reference_merge(reference, layer, in, head->b, i, head->z, head->w_o, y);
    }
}

/* ---- the block ------------------------------------------------------------------------------------------------- */

static void norm_tokens(struct reference *reference, const struct layer *layer, const struct inputs *in)
{
    const int number = block_norms(layer).before_attention;
    const size_t count = in->batch * in->n * (size_t)layer->d_model;
    if (number == 0)
        return;
    HEAP double *x = memory_get(count, sizeof *x);
    reference->normed = pool_doubles(&reference->memory, count);
    for (size_t at = 0; at < count; at++)
        x[at] = inputs_number(layer, in, TENSOR_X, at);
    block_normalise(layer, in, number, x, in->batch * in->n, reference->normed);
    if (layer->identity && layer_rounds_rows(layer)) {
        reference->exact = pool_doubles(&reference->memory, count);
        memcpy(reference->exact, reference->normed, count * sizeof *x);
    }
    if (layer_attends(layer))
        stored_rows(layer, in, reference->normed, count / (size_t)layer->d_in_q, (size_t)layer->d_in_q);
}

void reference_chunk(const struct reference *reference, const struct layer *layer, const struct inputs *in,
                     size_t first, struct block_chunk *chunk)
{
    const size_t d = (size_t)layer->d_model, rows = reference->y_rows.count, all = in->batch * rows;
    chunk->rows = all - first < BLOCK_ROWS ? all - first : BLOCK_ROWS;
    for (size_t r = 0; r < chunk->rows; r++) {
        const size_t b = (first + r) / rows, t = reference->y_rows.row[(first + r) % rows];
        for (size_t c = 0; c < d; c++)
            chunk->x[r * d + c] = inputs_number(layer, in, TENSOR_X, (b * in->n + t) * d + c);
    }
    if (reference->attention != NULL)
        memcpy(chunk->attention, reference->attention + first * d, chunk->rows * d * sizeof *chunk->attention);
}

static void compute_block(struct reference *reference, const struct layer *layer, const struct inputs *in)
{
    const size_t d = (size_t)layer->d_out, all = in->batch * reference->y_rows.count;
    OWNED(pool_free) struct pool pool = {0};
    struct block_chunk chunk = block_chunk_make(&pool, layer);
    for (size_t first = 0; first < all; first += BLOCK_ROWS) {
        reference_chunk(reference, layer, in, first, &chunk);
        block_compute(&chunk, layer, in);
        memcpy(reference->y + first * d, chunk.y, chunk.rows * d * sizeof *chunk.y);
    }
}

void reference_clear_padding(const struct layer *layer, const struct inputs *in, const struct rows *rows, size_t heads,
                             size_t width, double *numbers)
{
    for (size_t b = 0; layer->pad_skipped && numbers != NULL && b < in->batch; b++)
        for (size_t i = 0; i < heads; i++)
            for (size_t r = 0; r < rows->count; r++)
                if (rows->row[r] >= inputs_keys(in, b))
                    memset(numbers + ((b * heads + i) * rows->count + r) * width, 0, width * sizeof *numbers);
}

void reference_compute(struct reference *reference, const struct layer *layer, const struct inputs *in, bool sample,
                       reference_observer *observer, void *context)
{
    const bool attends = layer_attends(layer), recurs = layer_keeps_states(layer);
    const bool blocks = layer_has_block(layer) || !(attends || recurs), mixes = layer_mixes(layer);
    const struct norm_rounding none = {.factor = 1};
    const size_t h = (size_t)layer->h, batch = attends && in->n > 0 ? in->batch : 0; /* sequences that have a query */
    struct pool *const memory = &reference->memory;
    OWNED(pool_free) struct pool work = {0};
    struct reference_head head = {0};
    *reference = (struct reference){0};
    choose_rows(reference, layer, in, sample);
    const size_t rows = reference->z_rows.count, y = in->batch * reference->y_rows.count * (size_t)layer->d_out;
    norm_tokens(reference, layer, in);
    if (attends)
        head = head_make(&work, layer, in, rows);
    head.normed = reference->normed;
    head.exact = reference->exact;
    reference->attention = mixes && blocks ? pool_doubles(memory, y) : NULL;
    reference->y = pool_doubles(memory, y);
    reference->attn = layer->scores ? pool_doubles(memory, in->batch * h * rows * inputs_columns(layer, in)) : NULL;
    reference->lse = layer->lse ? pool_doubles(memory, in->batch * h * rows) : NULL;
    for (int values = 0; layer_has_cache(layer) && values < layer_cached_rows(layer); values++)
        reference->cache[values] = pool_doubles(memory, in->batch * (size_t)layer->h_kv * in->n *
                                                            (size_t)(values ? layer->d_v : layer->d_k));
    for (int part = 0; recurs && part < inputs_compared(layer); part++)
        reference->cache[part] = pool_doubles(memory, inputs_count(layer, in, inputs_cache_of(layer, part)));
    if (recurs)
        recurrent_compute(reference, NULL, layer, in, &none);
    else
        start_with_bias(reference, layer, in);
    for (head.b = 0; head.b < batch; head.b++)
        for (head.i = 0; head.i < h; head.i++)
            compute_head(reference, &head, layer, in, observer, context);
    if (blocks)
        compute_block(reference, layer, in);
    reference_clear_padding(layer, in, &reference->y_rows, 1, (size_t)layer->d_out, reference->y);
    reference_clear_padding(layer, in, &reference->z_rows, h, inputs_columns(layer, in), reference->attn);
    reference_clear_padding(layer, in, &reference->z_rows, h, 1, reference->lse);
}

void reference_free(struct reference *reference)
{
    pool_free(&reference->memory);
    *reference = (struct reference){0};
}
