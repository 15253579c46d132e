/* SPDX-License-Identifier: MIT */
/* See portable.h. Every operation is f32's but where `double` says otherwise, and stands in its order; nothing is
 * contracted that is not written as fma.
 */
#include "portable.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "block.h"
#include "dropout.h"
#include "portable_layer.h"
#include "portable_numbers.h"
#include "reference.h"
#include "spec/relative.h"
#include "spec/rope.h"
#include "spec/score.h"
#include "stored.h"
#include "wide.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define BLOCK 128        /* positions of a cache that share an m */
#define SUMS 4           /* of products of a score */
#define SEGMENT 524288   /* bytes of a head's keys and values after which sums begin anew */
#define LOWEST (-FLT_MAX) /* with a cache: a score of -infinity that is seen */

float *portable_floats(struct run *run, size_t count) { return pool_get(&run->memory, count, sizeof(float)); }

/* ln(2^m sum), in double; where mask_add may be large, with its slope there */
static float log_of_sum(const struct layer *layer, float m, float sum)
{
    if (!(sum > 0 && sum <= FLT_MAX))
        return sum == 0 ? -INFINITY : NAN;
    int e;
    float f = frexpf(sum, &e); /* sum = 2^e f, f from sqrt(1/2) on */
    if (f < 0x1.6a09e6p-1f) {
        f *= 2;
        e--;
    }
    const double s = ((double)f - 1) / ((double)f + 1), q = s * s;
    const double near_1 = 2 * s * (1 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9)))));
    const double log = 0.69314718055994531 * ((double)m + (double)e) + near_1;
    if (!score_has(layer, SCORE_MASK_ADD))
        return (float)log;
    const double end = 2.53658183e38 / (1.44269504 - 0.25);
    const double beyond = log > end ? log - end : log < -end ? log + end : 0;
    return (float)fmin((double)FLT_MAX, fmax((double)-FLT_MAX, log + 4.7707801635558535 * beyond));
}

/* ---- products with weights -------------------------------------------------------------------------------------- */

struct matrix portable_matrix(const struct run *run, enum layer_tensor tensor, size_t number, float scale)
{
    const enum tensor_element type = run->layer->weight_type;
    const bool out_in = run->layer->out_in, whole = layer_rounds(run->layer), stored = type != TENSOR_F32 || whole;
    int64_t shape[4];
    const int axes = layer_weight_shape(run->layer, tensor, shape);
    const size_t last = (size_t)shape[axes - 1], before = (size_t)shape[axes - 2], size = last * before;
    const size_t taps = axes == 4 ? (size_t)shape[1] : 1, tap = out_in ? last : before;
    struct matrix m = {.depth = taps * tap, .columns = size / tap, .tap = tap};
    const float *from = inputs_floats(run->in, tensor) + number * taps * size;
    m.group = type == TENSOR_I4 ? WEIGHT_GROUP : m.depth;
    m.tap = type == TENSOR_I4 || whole ? tap : m.depth;
    m.whole = whole ? run->layer : NULL;
    m.w = memory_get(m.depth * m.columns, sizeof *m.w);
    m.unit = stored ? memory_get(m.depth * m.columns, sizeof *m.unit) : NULL;
    float *column = memory_get(m.depth, sizeof *column);
    for (size_t c = 0; c < m.columns; c++) {
        for (size_t k = 0; k < m.depth; k++)
            column[k] = from[k / tap * size + (out_in ? c * tap + k % tap : k % tap * m.columns + c)];
        const double all = whole ? stored_whole_column(run->layer, true, column, column, m.depth, tap) : 0;
        for (size_t k = 0, rows; k < m.depth; k += rows) {
            rows = min_size(m.group, m.tap - k % m.tap);
            const double unit = whole ? all : stored ? stored_column(type, column + k, column + k, rows, rows) : 0;
            const float by = unit > 0 ? (float)unit : 1;
            if (stored)
                m.unit[k * m.columns + c] = by * scale;
            for (size_t r = k; r < k + rows; r++)
                m.w[r * m.columns + c] = stored ? column[r] / by : column[r] * scale;
        }
    }
    free(column);
    return m;
}

/* A row of a as whole numbers, times m's from row k on; c = fma(sum, the row's scale times unit, c) */
static void multiply_whole(float *c, const float *a, const struct matrix *m, size_t k)
{
    double *row = memory_get(m->tap, sizeof *row), *sum = memory_get(m->columns, sizeof *sum);
    for (size_t i = 0; i < m->tap; i++)
        row[i] = (double)a[i];
    const double scale = stored_whole_row(m->whole, row, row, m->tap);
    for (size_t i = 0; i < m->tap; i++)
        for (size_t j = 0; j < m->columns; j++)
            sum[j] += row[i] / scale * (double)m->w[(k + i) * m->columns + j];
    for (size_t j = 0; j < m->columns; j++)
        c[j] = fmaf((float)sum[j], (float)scale * m->unit[k * m->columns + j], c[j]);
    free(row);
    free(sum);
}

/* c += a m; of a stored matrix c = fma(sum, unit, c) for the sum of each group */
static void multiply_by(float *c, size_t c_row, const float *a, size_t a_row, const struct matrix *m, size_t rows)
{
    if (m->unit == NULL) {
        portable_multiply(c, c_row, a, a_row, m->w, rows, m->depth, m->columns);
        return;
    }
    for (size_t at = 0; m->whole != NULL && at < rows * m->depth / m->tap; at++) {
        const size_t r = at / (m->depth / m->tap), k = at % (m->depth / m->tap) * m->tap;
        multiply_whole(c + r * c_row, a + r * a_row + k, m, k);
    }
    if (m->whole != NULL)
        return;
    float *sum = memory_get(rows * m->columns, sizeof *sum);
    for (size_t k = 0, depth; k < m->depth; k += depth) {
        depth = min_size(m->group, m->tap - k % m->tap);
        memset(sum, 0, rows * m->columns * sizeof *sum);
        portable_multiply(sum, m->columns, a + k, a_row, m->w + k * m->columns, rows, depth, m->columns);
        for (size_t at = 0; at < rows * m->columns; at++) {
            float *to = c + at / m->columns * c_row + at % m->columns;
            *to = fmaf(sum[at], m->unit[k * m->columns + at % m->columns], *to);
        }
    }
    free(sum);
}

/* to = a w + b, of `groups` matrices side by side in `to`, each of `step` columns of a; w and b times `scale` */
static void affine(struct run *run, float *to, const float *a, size_t a_row, size_t rows, enum layer_tensor w,
                   enum layer_tensor b, float scale, size_t groups, size_t step)
{
    const float *bias = b < TENSOR_COUNT ? inputs_floats(run->in, b) : NULL;
    for (size_t g = 0; g < groups; g++) {
        struct matrix m = portable_matrix(run, w, g, scale);
        const size_t columns = m.columns;
        for (size_t at = 0; at < rows * columns; at++)
            to[at / columns * groups * columns + g * columns + at % columns] =
                bias != NULL ? bias[g * columns + at % columns] * scale : 0;
        multiply_by(to + g * columns, groups * columns, a + g * step, a_row, &m, rows);
        free(m.w);
        free(m.unit);
    }
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

/* Factor and mean of a block's row, its numbers times `by` and less the first one, unless it is an rms norm */
static float statistics(const struct layer *layer, const float *x, float by, float eps, float *mean)
{
    const size_t d = (size_t)layer->d_model;
    const float first = layer->block_rms ? 0 : -by * x[0], share = (float)(1 / (double)d);
    float sum[PLACES] = {0}, squares[PLACES] = {0};
    for (size_t c = 0; c < d && !layer->block_rms; c++)
        sum[c % PLACES] = sum[c % PLACES] + fmaf(x[c], by, first);
    *mean = portable_sum(sum) * share;
    for (size_t c = 0; c < d; c++) {
        const float here = layer->block_rms ? x[c] * by : fmaf(x[c], by, first) - *mean;
        squares[c % PLACES] = fmaf(here, here, squares[c % PLACES]);
    }
    const float all = portable_sum(squares);
    return fmaf(all, 0, 1 / sqrtf(fmaf(all, share, eps)));
}

/* to = norm `number` of rows of d_model columns, and `add` where it is not NULL; a copy if that is 0 */
static void norm_rows(struct run *run, int number, const float *from, const float *add, float *to, size_t rows)
{
    const struct layer *layer = run->layer;
    const size_t d = (size_t)layer->d_model;
    const float *gains = number > 0 ? block_gains(run->in, number) : NULL;
    const float *shifts = number > 0 ? block_shifts(run->in, number) : NULL;
    for (size_t r = 0; r < rows; r++, from += d, to += d) {
        float by = 1, mean, factor = number > 0 ? statistics(layer, from, 1, (float)layer->norm_eps, &mean) : 1;
        if (!isfinite(factor)) { /* a sum exceeds f32 */
            by = 0x1p-80f;
            factor = statistics(layer, from, by, (float)(layer->norm_eps * 0x1p-160), &mean);
        }
        const float first = number == 0 || layer->block_rms ? 0 : -by * from[0];
        for (size_t c = 0; c < d; c++) {
            float y = from[c];
            if (number > 0) {
                y = layer->block_rms ? y * by * factor : (fmaf(y, by, first) - mean) * factor;
                y = shifts != NULL ? fmaf(y, gains[c], shifts[c]) : y * gains[c];
            }
            to[c] = add != NULL ? add[r * d + c] + y : y;
        }
    }
}

struct head_norm portable_head_norm(const struct layer *layer, const float *row, size_t d, size_t together, float scale)
{
    const float share = (float)(1 / (double)(together * d)), eps = (float)layer->qk_norm_eps;
    float sum[PLACES] = {0}, squares[PLACES] = {0};
    struct head_norm norm = {0};
    for (size_t c = 0; c < d && layer->qk_norm == NORM_LAYER; c++)
        sum[c % PLACES] = sum[c % PLACES] + row[c];
    if (layer->qk_norm == NORM_LAYER)
        norm.mean = portable_sum(sum) * share;
    for (size_t c = 0; c < together * d; c++) {
        const float x = row[c] - norm.mean;
        squares[c % d % PLACES] = fmaf(x, x, squares[c % d % PLACES]);
    }
    const float all = portable_sum(squares);
    norm.root = sqrtf(all);
    norm.by = fmaf(all, 0, layer->qk_norm == NORM_L2 ? scale / larger(eps, norm.root)
                                                     : 1 / sqrtf(fmaf(all, share, eps)));
    return norm;
}

/* qk_norm of a token's heads of d numbers in place, or the rms norm of latents; `scale` of gains and shifts, or of l2's
 * factor */
static void norm_heads(struct run *run, float *row, size_t heads, size_t d, enum layer_tensor gain,
                       enum layer_tensor shift, float scale)
{
    const struct layer *layer = run->layer;
    const size_t together = layer->qk_norm == NORM_RMS_ALL ? heads : 1;
    const float *gains = inputs_floats(run->in, gain), *shifts = inputs_floats(run->in, shift);
    const bool apart = layer->qk_norm == NORM_RMS_ALL || layer->qk_by_head;
    for (size_t i = 0; i < heads; i += together, row += together * d) {
        const struct head_norm norm = portable_head_norm(layer, row, d, together, scale);
        for (size_t c = 0; c < together * d; c++) {
            const size_t at = apart ? i * d + c : c;
            const float x = (row[c] - norm.mean) * norm.by;
            row[c] = gains == NULL ? x : shifts != NULL ? fmaf(x, gains[at] * scale, shifts[at] * scale)
                                                        : x * (gains[at] * scale);
        }
    }
}

/* ---- rotation --------------------------------------------------------------------------------------------------- */

/* Taylor's -1 / (first (first + 1)) + z / (first ... (first + 3)) - ..., `count` terms */
static double series(double z, int first, int count)
{
    double of[8], term = 1, sum = 0;
    for (int k = 0; k < count; k++)
        of[k] = term = -term / ((first + 2 * k) * (first + 2 * k + 1));
    while (count-- > 0)
        sum = of[count] + z * sum;
    return sum;
}

/* Cosine and sine of the angle by which a position turns pair c of columns, in double */
static void turn_of(const struct layer *layer, int64_t c, int64_t position, float *cosine, float *sine)
{
    const struct rope_step step = rope_step(layer, c);
    const uint64_t p = position < 0 ? -(uint64_t)position : (uint64_t)position;
    const uint64_t at = p * step.high + (p * step.low >> 32) + (UINT64_C(1) << 61);
    const int64_t rest = (int64_t)(at & (UINT64_MAX >> 2)) - ((int64_t)1 << 61); /* from the nearest quarter on */
    const int quarter = (int)(at >> 62);
    const double x = (double)rest * (6.283185307179586 / 18446744073709551616.0), z = x * x;
    const double sines = x + x * z * series(z, 2, 6), cosines = 1 + z * series(z, 1, 7);
    const double c_0 = quarter % 2 == 0 ? cosines : sines, s_0 = quarter % 2 == 0 ? sines : cosines;
    const double factor = layer->rope.attention_factor;
    *cosine = (float)(factor * (quarter == 1 || quarter == 2 ? -c_0 : c_0));
    *sine = (float)(factor * ((quarter >= 2) != (position < 0) ? -s_0 : s_0));
}

void portable_turn(struct run *run, float *row, size_t heads, size_t step, size_t b, size_t t, bool of_query, bool back)
{
    const struct layer *layer = run->layer;
    const int32_t *given = run->in->tensor[TENSOR_POSITIONS];
    const bool half = layer->rope.kind == ROPE_HALF, placed = of_query || layer_has_cache(layer);
    const int64_t pairs = layer->rope.dims / 2, p = placed ? inputs_position(layer, run->in, b, t) : (int64_t)t;
    for (int64_t c = 0; layer->rope.kind != ROPE_NONE && c < pairs; c++) {
        const size_t axes = layer->rope.axes > 1 ? (size_t)layer->rope.axes : 1;
        const size_t axis = axes > 1 ? (size_t)layer_axis_of(layer, c) : 0;
        float cosine, sine;
        turn_of(layer, c, given != NULL ? given[(b * run->in->n + t) * axes + axis] : p, &cosine, &sine);
        for (size_t i = 0; i < heads; i++) {
            float *first = row + i * step + (half ? c : 2 * c), *second = first + (half ? pairs : 1);
            const float a = *first, of = *second;
            *first = fmaf(a, cosine, of * (back ? (half ? sine : 0 - -sine) : half ? 0 - sine : -sine));
            *second = fmaf(of, cosine, a * (back ? 0 - sine : sine));
        }
    }
}

/* ---- queries, keys and values ------------------------------------------------------------------------------------ */

float *portable_given(struct run *run, enum layer_tensor tensor)
{
    const size_t count = inputs_count(run->layer, run->in, tensor);
    float *to = portable_floats(run, count);
    for (size_t at = 0; at < count; at++)
        to[at] = (float)inputs_number(run->layer, run->in, tensor, at);
    return to;
}

/* q, k or v that a call brings, [tokens][heads d] */
static float *given_heads(struct run *run, enum layer_tensor tensor, size_t tokens, size_t d)
{
    const size_t heads = inputs_heads(run->layer, tensor), batch = run->in->batch;
    float *to = portable_floats(run, batch * tokens * heads * d);
    for (size_t at = 0; at < batch * tokens * heads; at++) {
        const size_t b = at / (tokens * heads), t = at / heads % tokens;
        const size_t from = inputs_head_row(run->layer, run->in, tensor, b, t, at % heads);
        for (size_t c = 0; c < d; c++)
            to[at * d + c] = (float)inputs_number(run->layer, run->in, tensor, from + c);
    }
    return to;
}

float *portable_project(struct run *run, const float *from, size_t rows, int64_t d_in, enum layer_tensor w,
                        enum layer_tensor b, size_t columns, float scale, size_t heads)
{
    const bool split = run->layer->split;
    float *to = portable_floats(run, rows * columns);
    affine(run, to, from, (size_t)(split ? d_in * (int64_t)heads : d_in), rows, w, b, scale, split ? heads : 1,
           (size_t)d_in);
    return to;
}

const float *portable_value(const struct run *run, size_t token, size_t g)
{
    const struct layer *layer = run->layer;
    const size_t d = (size_t)layer->d_v, h_kv = (size_t)layer->h_kv;
    return !layer->identity ? run->v + (token * h_kv + g) * d
           : run->v + token * (size_t)layer->d_source + (layer->split ? g * d : 0);
}

/* Of each head, `from_step` columns from the one before: to = from w, w its columns of W [rank][h d], or transposed */
static void multiply_heads(struct run *run, float *to, size_t to_step, const float *from, size_t from_step,
                           enum layer_tensor tensor, size_t d, bool turned)
{
    const size_t h = (size_t)run->layer->h, rank = (size_t)run->layer->latent.rank;
    const size_t depth = turned ? d : rank, columns = turned ? rank : d;
    const float *all = inputs_floats(run->in, tensor);
    float *w = memory_get(depth * columns, sizeof *w);
    for (size_t i = 0; i < h; i++) {
        for (size_t at = 0; at < depth * columns; at++) {
            const size_t k = at / columns, c = at % columns, r = turned ? c : k, column = i * d + (turned ? k : c);
            w[at] = all[run->layer->out_in ? column * rank + r : r * h * d + column];
        }
        if (run->layer->weight_type != TENSOR_F32) /* bf16 or f16 */
            (void)stored_column(run->layer->weight_type, w, w, depth * columns, 1);
        portable_multiply(to + i * to_step, h * to_step, from + i * from_step, h * from_step, w, run->rows, depth,
                          columns);
    }
    free(w);
}

/* Queries of heads [rank, rotated], from W_UK in their place; keys [latent, rotated], whose latents are the values */
static void make_latents(struct run *run)
{
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, d_k = (size_t)layer->d_k, rank = (size_t)layer->latent.rank;
    const size_t q_rank = (size_t)layer->latent.q_rank, d = (size_t)layer->latent.d_head;
    const size_t d_nope = (size_t)layer->latent.d_nope;
    float *from = run->x;
    if (q_rank > 0)
        from = portable_project(run, from, run->rows, layer->d_model, TENSOR_W_DQ, TENSOR_B_DQ, q_rank, 1, 1);
    for (size_t at = 0; q_rank > 0 && at < run->rows; at++)
        norm_heads(run, from + at * q_rank, 1, q_rank, TENSOR_G_DQ, TENSOR_C_Q, 1);
    const float *heads = portable_project(run, from, run->rows, layer->latent.d_latent, TENSOR_W_Q, TENSOR_COUNT, h * d,
                                 (float)(layer->scale * LOG2_E), 1);
    run->q = portable_floats(run, run->rows * h * d_k);
    multiply_heads(run, run->q, d_k, heads, d, TENSOR_W_UK, d_nope, true);
    for (size_t at = 0; at < run->rows * h; at++)
        memcpy(run->q + at * d_k + rank, heads + at * d + d_nope, (d - d_nope) * sizeof *heads);
    run->k = portable_project(run, run->x, run->keys, layer->d_model, TENSOR_W_DKV, TENSOR_B_DKV, d_k, 1, 1);
    for (size_t at = 0; at < run->rows; at++) {
        norm_heads(run, run->k + at * d_k, 1, rank, TENSOR_G_DKV, TENSOR_C_K, 1);
        portable_turn(run, run->q + at * h * d_k + rank, h, d_k, at / run->in->n, at % run->in->n, true, false);
        portable_turn(run, run->k + at * d_k + rank, 1, d_k, at / run->in->n, at % run->in->n, false, false);
    }
}

static void make_queries_keys_values(struct run *run)
{
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const float scale = (float)(layer->scale * LOG2_E);
    const bool normed = layer->qk_norm != NORM_NONE;
    /* queries that are keys, but for the scale, or that a call brings: these get it last */
    const bool are_keys = layer->tied && !layer->cross && !layer_has_tensor(layer, TENSOR_G_Q);
    const bool last = are_keys || (layer->projected && !normed);
    if (layer->projected) {
        run->q = given_heads(run, TENSOR_Q, run->in->n, d_k);
        run->k = given_heads(run, TENSOR_K, run->in->m, d_k);
        run->v = layer->shares ? NULL : given_heads(run, TENSOR_V, run->in->m, d_v);
    } else {
        const enum layer_tensor w_k = layer->tied ? TENSOR_W_Q : TENSOR_W_K;
        const enum layer_tensor b_k = layer->tied ? TENSOR_B_Q : TENSOR_B_K;
        run->q = portable_project(run, run->x, run->rows, layer->d_in_q, TENSOR_W_Q, TENSOR_B_Q, h * d_k,
                         normed || last ? 1 : scale, h);
        run->k = portable_project(run, run->source, run->keys, layer->d_in_kv, w_k, b_k, h_kv * d_k, 1, h_kv);
        run->v = layer->identity ? run->source : layer->shares ? NULL :
                 portable_project(run, run->source, run->keys, layer->d_in_kv, TENSOR_W_V, TENSOR_B_V, h_kv * d_v, 1,
                                  h_kv);
    }
    if (run->in->training && normed) { /* as they are before the norm */
        run->raw_q = portable_floats(run, run->rows * h * d_k);
        run->raw_k = portable_floats(run, run->keys * h_kv * d_k);
        memcpy(run->raw_q, run->q, run->rows * h * d_k * sizeof *run->q);
        memcpy(run->raw_k, run->k, run->keys * h_kv * d_k * sizeof *run->k);
    }
    for (size_t at = 0; at < run->rows && layer_finishes(layer); at++) {
        float *row = run->q + at * h * d_k;
        if (normed)
            norm_heads(run, row, h, d_k, TENSOR_G_Q, TENSOR_C_Q, last ? 1 : scale);
        portable_turn(run, row, h, d_k, at / run->in->n, at % run->in->n, true, false);
    }
    for (size_t at = 0; at < run->keys && layer_finishes(layer); at++) {
        float *row = run->k + at * h_kv * d_k;
        if (normed)
            norm_heads(run, row, h_kv, d_k, TENSOR_G_K, TENSOR_C_K, 1);
        portable_turn(run, row, h_kv, d_k, at / run->in->m, at % run->in->m, false, false);
    }
    for (size_t at = 0; last && at < run->rows * h * d_k; at++)
        run->q[at] = run->q[at] * scale;
}

/* ---- a cache ----------------------------------------------------------------------------------------------------- */

/* New keys and values go to the cache. */
static void append(struct run *run)
{
    const struct layer *layer = run->layer;
    const size_t h_kv = (size_t)layer->h_kv;
    for (size_t at = 0; layer_has_cache(layer) && at < run->keys * h_kv * (size_t)layer_cached_rows(layer); at++) {
        const int values = (int)(at / (run->keys * h_kv));
        const size_t row = at % (run->keys * h_kv), token = row / h_kv, b = token / run->in->n, t = token % run->in->n;
        const size_t d = inputs_cache_width(layer, values);
        if (t >= inputs_keys(run->in, b))
            continue;
        const int64_t position = inputs_position(layer, run->in, b, t);
        const size_t to = inputs_cache_row(layer, run->in, values, b, row % h_kv, position);
        const float *from = values ? portable_value(run, token, row % h_kv) : run->k + row * d;
        float scale = 1, largest = 0;
        for (size_t c = 0; c < d && layer_scales_cache(layer); c++) /* NaN and infinity are largest */
            largest = isfinite(from[c]) ? larger(fabsf(from[c]), largest) : INFINITY;
        if (layer_scales_cache(layer)) {
            scale = largest == 0 ? 0 : largest > FLT_MAX ? NAN : larger(0x1p-126f, largest / 127);
            ((float *)run->of->cache[inputs_scales_of(layer, values)])[to / d] = scale;
        }
        for (size_t c = 0; c < d; c++)
            element_put(layer->cache_type, run->of->cache[values], to + c,
                        !layer_scales_cache(layer) ? from[c] : scale > 0 ? from[c] / scale : 0);
    }
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* A sequence's keys and values of one head, of `keys` rows, and one query of it */
struct head {
    size_t b, i, t, keys;
    int64_t first;               /* position of key 0 */
    unsigned char *sees;         /* [keys] */
    float *k_t, *v;              /* [d_k][keys], [keys][d_v] */
    float *k_scale, *v_scale;    /* [keys]; NULL: 1 */
    float *s, *part;             /* [keys]: scores, and sums of some features */
    float *kept, kept_factor;    /* [keys]: what dropout multiplies weights by, NULL: nothing; its factor, 1 in calls
                                  * that do not train, 0: the layer drops nothing */
    bool unseen;                 /* no key is seen */
    float *slope;                /* [keys]: of a term that bends scores; NULL: not asked for */
    float sink, m, base, l;      /* base: what weights are relative to */
    float *o, *more;             /* [d_v] */
};

/* log2(e) x; from 2.13e38 on with a slope of 1/4 */
static float of_mask(float x)
{
    const float bent = 2.53658183e+38f;
    return smaller(fmaf(x, 0.25f, bent), larger(fmaf(x, 0.25f, -bent), x * (float)LOG2_E));
}

/* s = the score of a key, from its product with the query on, in base 2 */
static float score_of(const struct run *run, const struct head *of, size_t j, float s)
{
    const struct layer *layer = run->layer;
    const int64_t ahead = of->first + (int64_t)j - inputs_position(layer, run->in, of->b, of->t);
    if (score_has(layer, SCORE_SOFTCAP)) {
        const double cap = layer->number[SCORE_SOFTCAP] * LOG2_E;
        s = portable_tanh(s * (float)(1 / cap), cap);
        const float share = s * (float)(1 / cap);
        if (of->slope != NULL)
            of->slope[j] = larger(fmaf(0 - share, share, 1), 0x1p-60f);
    }
    if (score_has(layer, SCORE_ALIBI))
        s = fmaf((float)(-score_slope(layer, (int64_t)of->i) * LOG2_E), (float)llabs((long long)ahead), s);
    if (score_has(layer, SCORE_RELATIVE)) {
        const float *table = inputs_floats(run->in, TENSOR_REL_BIAS);
        s = s + (float)(LOG2_E * (double)table[relative_index(layer, (int64_t)of->i, ahead)]);
    }
    if (layer->score != NULL)
        s = portable_score(layer, run->in, reference_pair(layer, run->in, of->b, of->i, of->t, j), s);
    if (score_has(layer, SCORE_HIDING) && s == -INFINITY)
        return s;
    if (score_has(layer, SCORE_MASK_ADD))
        s = s + of_mask((float)inputs_pair(layer, run->in, TENSOR_MASK_ADD, of->b, of->i, of->t, j));
    if (layer_has_cache(layer) && s != -INFINITY && (layer->score != NULL || score_has(layer, SCORE_MASK_ADD)))
        s = larger(-0x1.fffffcp127f, s);
    return layer_has_cache(layer) ? larger(LOWEST, s) : s;
}

WIDE_FMA static void products(float *restrict s, const float *restrict k_t, const float *restrict q, size_t keys,
                              size_t d_k, size_t step)
{
    memset(s, 0, keys * sizeof *s);
    for (size_t d = 0; d < d_k; d += step)
        for (size_t j = 0; j < keys; j++)
            s[j] = fmaf(k_t[d * keys + j], q[d], s[j]);
}

/* With a cache feature d adds to sum d mod SUMS, zeros behind the last one; then sum after sum is added. */
static void dot_products(struct head *of, const float *q, size_t d_k, bool cached)
{
    const size_t sums = cached ? SUMS : 1;
    for (size_t i = 0; i < sums; i++) {
        products(i == 0 ? of->s : of->part, of->k_t + i * of->keys, q + i, of->keys, d_k > i ? d_k - i : 0, sums);
        for (size_t j = 0; j < of->keys && d_k % sums > 0 && i >= d_k % sums; j++) /* i > 0 */
            of->part[j] = of->part[j] + 0;
        for (size_t j = 0; j < of->keys && i > 0; j++)
            of->s[j] = of->s[j] + of->part[j];
    }
    for (size_t j = 0; j < of->keys && of->k_scale != NULL; j++)
        of->s[j] = of->k_scale[j] * of->s[j];
}

/* ---- the weighted sum without a cache ---------------------------------------------------------------------------- */

WIDE_FMA static void add_value(float *restrict o, const float *restrict v, float p, size_t d)
{
    for (size_t c = 0; c < d; c++)
        o[c] = fmaf(v[c], p, o[c]);
}

/* z of a row whose scores are relative to m, to o; -infinity: to the first one that is seen */
static void weigh(struct head *of, float m, size_t d_v)
{
    const float start = m;
    float l = 0;
    memset(of->o, 0, d_v * sizeof *of->o);
    of->unseen = true;
    for (size_t j = 0; j < of->keys; j++) {
        if (!of->sees[j])
            continue;
        of->unseen = false;
        m = m == -INFINITY && start == -INFINITY ? of->s[j] : m;
        const float p = portable_power(of->s[j] - m);
        l = l + p;
        add_value(of->o, of->v + j * d_v, of->kept == NULL || of->kept[j] != 0 ? p : 0, d_v);
    }
    of->base = m;
    of->m = m == -INFINITY ? of->sink : m;
    of->l = of->sink == -INFINITY ? l : l + (m == -INFINITY ? 1 : portable_power(of->sink - m));
    const float inverse = of->l == 0 ? 0 : 1 / of->l;
    for (size_t c = 0; c < d_v; c++)
        of->o[c] = of->kept_factor == 0 ? fmaf(of->o[c], inverse, 0) : fmaf(of->o[c] * inverse, of->kept_factor, 0);
}

static void attend(struct run *run, struct head *of)
{
    const size_t d_v = (size_t)run->layer->d_v;
    const bool rises = score_lifts(run->layer) || score_falls(run->layer);
    float largest = of->sink, check = 0;
    for (size_t j = 0; j < of->keys; j++)
        largest = larger(of->s[j], largest);
    weigh(of, rises ? largest : -INFINITY, d_v);
    if (!rises && !(of->l <= 0x1p120f))
        weigh(of, largest, d_v);
    for (size_t c = 0; c < d_v; c++) /* NaN once one is not finite */
        check = fmaf(of->o[c], 0, check);
    if (!rises && isnan(check))
        weigh(of, largest, d_v);
}

/* ---- with a cache ------------------------------------------------------------------------------------------------ */

/* 2^(score - m), exactly 1 where both are equal */
static float power(float score, float m) { return score == -INFINITY ? 0 : score == m ? 1 : portable_power(score - m); }

/* m, l and o of keys from ... end-1, which are of one segment */
static void sum_segment(struct head *of, size_t from, size_t end, size_t d_v)
{
    float sum[PLACES] = {0};
    of->m = -INFINITY;
    memset(of->more, 0, d_v * sizeof *of->more);
    for (size_t key = from, stop; key < end; key = stop) {
        const float old = of->m;
        stop = key;
        while (stop < end && (of->first + (int64_t)stop) / BLOCK == (of->first + (int64_t)key) / BLOCK)
            of->m = larger(of->m, of->s[stop++]);
        const float base = of->m == -INFINITY ? 0 : of->m, alpha = old == of->m ? 1 : portable_power(old - base);
        for (int i = 0; i < PLACES; i++)
            sum[i] = sum[i] * alpha;
        for (size_t c = 0; c < d_v && alpha != 1; c++)
            of->more[c] = of->more[c] * alpha;
        for (size_t j = key; j < stop; j++) {
            float *place = &sum[(of->first + (int64_t)j) % PLACES], p = portable_power(of->s[j] - base);
            if (!of->sees[j])
                continue;
            *place = *place + p;
            add_value(of->more, of->v + j * d_v, of->v_scale != NULL ? p * of->v_scale[j] : p, d_v);
        }
    }
    of->l = portable_sum(sum);
}

static void attend_cached(struct run *run, struct head *of)
{
    const struct layer *layer = run->layer;
    const size_t d_v = (size_t)layer->d_v;
    const int64_t position = layer_cached_numbers(layer) * (int64_t)element_size(layer->cache_type);
    const int64_t blocks = SEGMENT / position / BLOCK, segment = (blocks > 1 ? blocks : 1) * BLOCK;
    float m = -INFINITY, l = 0;
    memset(of->o, 0, d_v * sizeof *of->o);
    for (size_t key = 0, stop; key < of->keys; key = stop) {
        for (stop = key; stop < of->keys; stop++)
            if ((of->first + (int64_t)stop) / segment != (of->first + (int64_t)key) / segment)
                break;
        sum_segment(of, key, stop, d_v);
        const float joint = of->m > m || isnan(of->m) ? of->m : m, a = power(m, joint), b = power(of->m, joint);
        l = fmaf(b, of->l, a * l);
        for (size_t c = 0; c < d_v; c++)
            of->o[c] = fmaf(b, of->more[c], a * of->o[c]);
        m = joint;
    }
    if (m == LOWEST)
        l = NAN;
    if (of->sink != -INFINITY) {
        const float joint = isnan(m) || m >= of->sink ? m : of->sink, a = power(m, joint);
        l = fmaf(a, l, power(of->sink, joint));
        for (size_t c = 0; c < d_v; c++)
            of->o[c] = a * of->o[c];
        m = joint;
    }
    of->m = m;
    of->base = m == -INFINITY ? 0 : m;
    of->l = l;
    const float inverse = l == 0 ? 0 : 1 / l;
    for (size_t c = 0; c < d_v; c++)
        of->o[c] = of->o[c] * inverse + 0;
}

/* ---- a head ------------------------------------------------------------------------------------------------------ */

/* What `attn` shows of a key that is seen */
static float shown(const struct layer *layer, const struct head *of, size_t j)
{
    const float inverse = of->l == 0 ? 0 : 1 / of->l;
    if (layer->scores == SCORES_BIASED) /* a score of 0 is +0 without a cache */
        return layer_has_cache(layer) && of->s[j] == LOWEST ? -INFINITY : of->s[j] == 0 && !layer_has_cache(layer) ? 0
               : 0.693147182f * of->s[j];
    const float p = portable_power(of->s[j] - of->base);
    return layer_has_cache(layer) ? inverse * p : p == 0 ? 0 : p * inverse;
}

static void gather_keys(struct run *run, struct head *of, size_t g)
{
    const struct layer *layer = run->layer;
    const size_t d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v, h_kv = (size_t)layer->h_kv;
    const void *const *cache = (const void *const *)run->of->cache;
    for (size_t j = 0; j < of->keys; j++) {
        const size_t token = of->b * run->in->m + j;
        const float *k = layer_has_cache(layer) ? NULL : run->k + (token * h_kv + g) * d_k;
        const float *v = k == NULL ? NULL : layer->shares ? k : portable_value(run, token, g);
        const int values = layer->shares ? 0 : 1;
        size_t row[2] = {0};
        for (int part = 0; k == NULL && part < layer_cached_rows(layer); part++)
            row[part] = inputs_cache_row(layer, run->in, part, of->b, g, of->first + (int64_t)j);
        const float *scales = of->v_scale != NULL ? cache[inputs_scales_of(layer, 0)] : NULL;
        if (scales != NULL)
            of->k_scale[j] = scales[row[0] / d_k];
        for (size_t c = 0; c < d_k; c++)
            of->k_t[c * of->keys + j] =
                k != NULL ? k[c] : (float)element_number(layer->cache_type, cache[0], row[0] + c);
        for (size_t c = 0; c < d_v; c++)
            of->v[j * d_v + c] =
                v != NULL ? v[c] : (float)element_number(layer->cache_type, cache[values], row[values] + c);
        const float *v_scales = scales != NULL ? cache[inputs_scales_of(layer, values)] : NULL;
        if (v_scales != NULL)
            of->v_scale[j] = v_scales[row[values] / (values ? d_v : d_k)];
    }
}

/* Of query number `of_call`, what gradients need: weights, -0 of a hidden key, and what the sink has of them, -0 where
 * it has all */
static void keep_weights(struct run *run, const struct head *of, size_t of_call)
{
    const float inverse = of->l == 0 || of->unseen ? 0 : 1 / of->l;
    for (size_t j = 0; j < of->keys; j++)
        run->weights[of_call * run->in->m + j] =
            of->sees[j] ? portable_power(of->s[j] - of->base) * inverse : -0.0f;
    run->sunk[of_call] = inverse != 0 ? portable_power(of->sink - of->base) * inverse : -0.0f;
}

/* One query: z, and its rows of attn and lse */
static void attend_query(struct run *run, struct head *of)
{
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t row = of->b * run->in->n + of->t, columns = inputs_columns(layer, run->in);
    const size_t of_call = (of->b * h + of->i) * run->in->n + of->t;
    if (run->weights != NULL)
        of->slope = run->slope != NULL ? run->slope + of_call * run->in->m : NULL;
    for (size_t j = 0; of->kept != NULL && j < of->keys; j++)
        of->kept[j] = (float)dropout_factor(layer, run->in, of->b, of->i, of->t, j);
    dot_products(of, run->q + (row * h + of->i) * d_k, d_k, layer_has_cache(layer));
    for (size_t j = 0; j < of->keys; j++) {
        of->s[j] = of->sees[j] ? score_of(run, of, j, of->s[j]) : -INFINITY;
        of->sees[j] = of->sees[j] && !(score_has(layer, SCORE_HIDING) && of->s[j] == -INFINITY);
    }
    if (layer_has_cache(layer))
        attend_cached(run, of);
    else
        attend(run, of);
    memcpy(run->z + (row * h + of->i) * d_v, of->o, d_v * sizeof *of->o);
    if (run->weights != NULL)
        keep_weights(run, of, of_call);
    if (layer->lse)
        run->of->lse[of_call] = log_of_sum(layer, of->m, of->l);
    for (size_t j = 0; layer->scores && j < columns; j++)
        element_put(layer->tensor_type, run->of->attn, of_call * columns + j,
                    j < of->keys && of->sees[j] ? shown(layer, of, j) : layer->scores == SCORES_BIASED ? -INFINITY : 0);
}

static void attend_sequence(struct run *run, size_t b)
{
    const struct layer *layer = run->layer;
    const size_t n = run->in->n, keys = inputs_rows(layer, run->in, b), h = (size_t)layer->h;
    const size_t d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v, group = h / (size_t)layer->h_kv;
    const bool by_head = layer->score != NULL || layer->visible != NULL ||
                         (layer->mask & (MASK_BOOL | MASK_ADDITIVE)) != 0;
    unsigned char *sees = memory_get(n * keys, 1);
    float *work = memory_get(keys * (d_k + d_v + 4) + 2 * d_v, sizeof *work);
    struct head of = {.b = b, .keys = keys, .first = inputs_first(layer, run->in, b), .k_t = work,
                      .v = work + keys * d_k, .s = work + keys * (d_k + d_v)};
    of.part = of.s + keys;
    of.k_scale = layer_scales_cache(layer) ? of.part + keys : NULL;
    of.v_scale = layer_scales_cache(layer) ? of.k_scale + keys : NULL;
    of.kept_factor = layer->dropout <= 0 ? 0 : run->in->training ? (float)(1 / (1 - layer->dropout)) : 1;
    of.kept = of.kept_factor > 0 && run->in->training ? of.part + keys : NULL;
    of.o = of.part + 3 * keys;
    of.more = of.o + d_v;
    for (of.i = 0; of.i < h; of.i++) {
        if (of.i % group == 0)
            gather_keys(run, &of, of.i / group);
        of.sink = layer->sink ? (float)(LOG2_E * (double)inputs_floats(run->in, TENSOR_SINK)[of.i]) : -INFINITY;
        for (of.t = 0; of.t < n; of.t++) {
            of.sees = sees + of.t * keys;
            for (size_t j = 0; (of.i == 0 || by_head) && j < keys; j++)
                of.sees[j] = reference_unmasked(layer, run->in, b, of.i, of.t, j) &&
                             portable_sees(layer, run->in, reference_pair(layer, run->in, b, of.i, of.t, j));
            if (!layer->pad_skipped || of.t < inputs_keys(run->in, b))
                attend_query(run, &of);
        }
    }
    free(work);
    free(sees);
}

static void gate_heads(struct run *run)
{
    const struct layer *layer = run->layer;
    const size_t width = (size_t)layer_gate_width(layer), d_v = (size_t)layer->d_v, count = (size_t)layer->h * d_v;
    if (width == 0)
        return;
    float *gates = portable_project(run, run->x, run->rows, layer->d_in_q, TENSOR_W_GATE, TENSOR_B_GATE,
                           (size_t)layer->h * width, 1, (size_t)layer->h);
    for (size_t at = 0; at < run->rows * count; at++) {
        const float share = portable_sigmoid(gates[width == d_v ? at : at / d_v]);
        run->z[at] = run->z[at] * (isnan(share) ? 0 : share);
    }
}

/* ---- output and block -------------------------------------------------------------------------------------------- */

/* Rows of z that a convolution reads for each row, zeros where there are none: [rows][h][conv_width][d_v] */
static float *taps_of(struct run *run)
{
    const struct layer *layer = run->layer;
    const size_t n = run->in->n, h = (size_t)layer->h, d_v = (size_t)layer->d_v, width = (size_t)layer->conv_width;
    float *to = portable_floats(run, run->rows * h * width * d_v);
    for (size_t at = 0; at < run->rows * h * width; at++) {
        const size_t row = at / (h * width), b = row / n, i = at / width % h;
        const int64_t from = (int64_t)(row % n + at % width) - layer_conv_pad(layer);
        const size_t end = layer->mask & MASK_PADDING ? min_size(n, inputs_keys(run->in, b)) : n;
        if (from >= 0 && from < (int64_t)end)
            memcpy(to + at * d_v, run->z + ((b * n + (size_t)from) * h + i) * d_v, d_v * sizeof *to);
    }
    return to;
}

/* What attention gives, [rows][d_out] */
static float *attention(struct run *run)
{
    const struct layer *layer = run->layer;
    size_t z_row = (size_t)(layer->h * layer->d_v);
    run->z = portable_floats(run, run->rows * z_row);
    layer_is_latent(layer) ? make_latents(run) : make_queries_keys_values(run);
    append(run);
    for (size_t b = 0; run->in->n > 0 && b < run->in->batch; b++)
        attend_sequence(run, b);
    gate_heads(run);
    if (layer_is_latent(layer)) {
        const float *sums = run->z;
        z_row = (size_t)(layer->h * layer->latent.d_value);
        run->z = portable_floats(run, run->rows * z_row);
        multiply_heads(run, run->z, z_row / (size_t)layer->h, sums, (size_t)layer->d_v, TENSOR_W_UV,
                       (size_t)layer->latent.d_value, false);
    }
    if (layer->w_o == W_O_NONE)
        return run->z;
    const bool conv = layer->w_o == W_O_CONV;
    const size_t h = conv ? (size_t)layer->h : 1, step = conv ? (size_t)(layer->conv_width * layer->d_v) : z_row;
    float *to = portable_floats(run, run->rows * (size_t)layer->d_out);
    affine(run, to, conv ? taps_of(run) : run->z, h * step, run->rows, TENSOR_W_O, TENSOR_B_O, 1, h, step);
    return to;
}

/* The feed-forward of normed rows */
static float *feed_forward(struct run *run, const float *from)
{
    const struct layer *layer = run->layer;
    const size_t d = (size_t)layer->d_model, d_ff = (size_t)layer->d_ff, count = run->rows * d_ff;
    const bool gated = layer_ffn_gated(layer);
    const float limit = (float)layer->ffn_limit;
    float *up = portable_project(run, from, run->rows, layer->d_model, TENSOR_W_1, TENSOR_B_1, d_ff, 1, 1);
    float *gate = up;
    if (gated)
        gate = portable_project(run, from, run->rows, layer->d_model, TENSOR_W_G, TENSOR_B_G, d_ff, 1, 1);
    for (size_t at = 0; at < count; at++) {
        const float by = limit > 0 ? 1 + larger(-limit, smaller(limit, up[at])) : up[at];
        up[at] = gated ? portable_activate(layer, gate[at]) * by : portable_activate(layer, up[at]);
    }
    return portable_project(run, up, run->rows, layer->d_ff, TENSOR_W_2, TENSOR_B_2, d, 1, 1);
}

static float *linear(struct run *run, const float *from)
{
    const double cap = run->layer->cap;
    const size_t d_out = (size_t)run->layer->d_out;
    float *to = portable_project(run, from, run->rows, run->layer->d_model, TENSOR_W, TENSOR_B, d_out, 1, 1);
    for (size_t at = 0; at < run->rows * d_out; at++) {
        to[at] = portable_activate(run->layer, to[at]);
        to[at] = cap != 0 ? (float)cap * portable_tanh((float)(1 / cap) * to[at], 1) : to[at];
    }
    return to;
}

/* y of a block, of what attention gives, or of x alone: block.h's sequence of norms and sums */
static float *block(struct run *run, const float *x, float *mixed)
{
    const struct layer *layer = run->layer;
    const struct block_norms norms = block_norms(layer);
    const size_t count = run->rows * (size_t)layer->d_model;
    float *u = portable_floats(run, count), *in = portable_floats(run, count);
    if (mixed != NULL) {
        norm_rows(run, norms.behind_attention, mixed, x, u, run->rows);
        norm_rows(run, norms.behind_sum, u, NULL, u, run->rows);
    } else {
        memcpy(u, x, count * sizeof *u);
    }
    if (mixed != NULL && !layer_has_ffn(layer))
        return u;
    norm_rows(run, norms.before_ffn, norms.ffn_of_x ? x : u, NULL, in, run->rows);
    if (layer_is_linear(layer))
        return linear(run, in);
    float *y = feed_forward(run, in);
    norm_rows(run, norms.behind_ffn, y, norms.alone ? NULL : u, y, run->rows);
    norm_rows(run, norms.behind_both, y, NULL, y, run->rows);
    return y;
}

void portable_compute(struct portable *of, const struct layer *layer, const struct inputs *given_inputs,
                      const float *dy)
{
    struct inputs call = *given_inputs;
    const struct inputs *const in = &call;
    call.m = layer_is_square(layer) ? call.n : call.m; /* as kernels, which do not read it then */
    call.training = dy != NULL;
    struct run run = {.layer = layer, .in = in, .of = of, .rows = in->batch * in->n, .keys = in->batch * in->m};
    const size_t d_out = (size_t)layer->d_out;
    *of = (struct portable){0};
    of->y = pool_get(&of->memory, inputs_bytes(layer, in, TENSOR_Y), 1);
    of->attn = layer->scores ? pool_get(&of->memory, inputs_bytes(layer, in, TENSOR_ATTN), 1) : NULL;
    of->lse = layer->lse ? pool_get(&of->memory, inputs_bytes(layer, in, TENSOR_LSE), 1) : NULL;
    const float *x = layer->projected ? NULL : portable_given(&run, TENSOR_X);
    float *y = NULL;
    for (int part = 0; part < inputs_cache_parts(layer); part++) { /* which begin as the call finds them */
        const size_t bytes = inputs_cache_bytes(layer, in, part);
        of->cache[part] = pool_get(&of->memory, bytes, 1);
        memcpy(of->cache[part], in->tensor[inputs_cache_of(layer, part)], bytes);
    }
    if (dy != NULL) {
        const size_t pairs = run.rows * (size_t)layer->h;
        run.weights = portable_floats(&run, pairs * in->m);
        run.slope = score_has(layer, SCORE_SOFTCAP) ? portable_floats(&run, pairs * in->m) : NULL;
        run.sunk = portable_floats(&run, pairs);
    }
    if (layer_attends(layer) || layer_is_recurrent(layer)) {
        if (x != NULL) {
            run.x = portable_floats(&run, run.rows * (size_t)layer->d_model);
            norm_rows(&run, block_norms(layer).before_attention, x, NULL, run.x, run.rows);
            run.source = layer->cross ? portable_given(&run, TENSOR_SOURCE) : run.x;
        }
        y = layer_attends(layer) ? attention(&run) : portable_recurrence(&run);
    }
    if (layer_is_convolution(layer))
        y = portable_convolution(&run);
    else if (layer_has_block(layer) || y == NULL)
        y = block(&run, x, y);
    for (size_t at = 0; at < run.rows * d_out; at++) {
        const size_t b = at / d_out / in->n, t = at / d_out % in->n;
        const bool zero = layer->pad_skipped && t >= inputs_keys(in, b);
        element_put(layer->tensor_type, of->y, inputs_y_at(layer, in, b, t, at % d_out), zero ? 0 : y[at]);
    }
    if (dy != NULL)
        portable_back(&run, dy);
    pool_free(&run.memory);
}

void portable_free(struct portable *of)
{
    pool_free(&of->memory);
    *of = (struct portable){0};
}
