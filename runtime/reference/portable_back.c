/* SPDX-License-Identifier: MIT */
/* Gradients in the order of exact = portable, by the formulas of docs/gradients.md, whose names are those here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "dropout.h"
#include "portable_layer.h"
#include "portable_numbers.h"
#include "reference.h"
#include "spec/relative.h"
#include "spec/score.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define PART 104 /* BACK_PART of gen/plan/step_back.c: tokens of a sequence whose gradients of gains are added up before
                  * they are added to others */
#define LN_2 0.693147181f

/* Rows of a matrix, `row` apart */
struct strided {
    const float *at;
    size_t row;
};

/* Which products are left out: of an operand a that is -0, a hidden pair's; of a 0 and a number that is not finite */
enum left_out { NOTHING, HIDDEN_A, ZERO_A, ZERO_B };

static bool all_finite(struct strided of, size_t rows, size_t columns)
{
    bool finite = true;
    for (size_t at = 0; at < rows * columns; at++)
        finite = finite && isfinite(of.at[at / columns * of.row + at % columns]);
    return finite;
}

static bool is_hidden(float weight) { return weight == 0 && signbit(weight); }

static bool is_left_out(enum left_out what, float a, float b)
{
    return (what == HIDDEN_A && is_hidden(a)) || (what == ZERO_A && a == 0 && !isfinite(b)) ||
           (what == ZERO_B && b == 0 && !isfinite(a));
}

/* c[r][j] = fma(a[r][k], b[k][j], c[r][j]), k ascending */
static void add_products(float *c, size_t c_row, struct strided a, struct strided b, size_t rows, size_t depth,
                         size_t columns, enum left_out what)
{
    if (b.row == columns && (what == NOTHING || (all_finite(a, rows, depth) && all_finite(b, depth, columns)))) {
        portable_multiply(c, c_row, a.at, a.row, b.at, rows, depth, columns);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < depth; k++)
            for (size_t j = 0; j < columns; j++)
                if (!is_left_out(what, a.at[r * a.row + k], b.at[k * b.row + j]))
                    c[r * c_row + j] = fmaf(a.at[r * a.row + k], b.at[k * b.row + j], c[r * c_row + j]);
}

static float *turned(struct run *run, struct strided of, size_t rows, size_t columns)
{
    float *to = portable_floats(run, rows * columns);
    for (size_t at = 0; at < rows * columns; at++)
        to[at % columns * rows + at / columns] = of.at[at / columns * of.row + at % columns];
    return to;
}

/* x = x factor + 0: a zero is +0 */
static void scale(float *x, size_t count, float factor)
{
    for (size_t at = 0; at < count; at++)
        x[at] = fmaf(x[at], factor, 0);
}

/* A gradient under way: what has been summed for outputs of the layer's steps */
struct back {
    struct run *run;
    const float *dy;
    float *dz, *dq, *dk, *dv; /* [rows][h][d_v], [rows][h][d_k], [keys][h_kv][d_k], [keys][h_kv][d_v] */
    /* a sequence: its queries; its keys that count, that have gradients, and that weights are summed over; its first
     * rows among all */
    size_t b, n, keys, sources, summed, row, key;
};

static float *gradient(const struct back *of, enum layer_tensor tensor) { return of->run->of->gradient[tensor]; }

/* ---- dZ ---------------------------------------------------------------------------------------------------------- */

/* Rows of z that tap `tap` of a convolution reads for `count` rows of y: from u on, for those from t on */
static size_t tap_rows(const struct back *of, size_t tap, size_t *t, size_t *u)
{
    const struct layer *layer = of->run->layer;
    const size_t pad = (size_t)layer_conv_pad(layer);
    const size_t end = layer->mask & MASK_PADDING ? min_size(of->n, inputs_keys(of->run->in, of->b)) : of->n;
    *u = tap > pad ? tap - pad : 0;
    *t = pad > tap ? pad - tap : 0;
    return *u < end && *t < of->n ? min_size(end - *u, of->n - *t) : 0;
}

static void through_output(struct back *of)
{
    struct run *const run = of->run;
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, d_v = (size_t)layer->d_v, d_out = (size_t)layer->d_out;
    const float *dy = of->dy + of->row * d_out;
    float *dz = of->dz + of->row * h * d_v;
    if (layer->w_o == W_O_NONE) {
        memcpy(dz, dy, of->n * h * d_v * sizeof *dz);
        return;
    }
    const bool conv = layer->w_o == W_O_CONV;
    const size_t taps = conv ? (size_t)layer->conv_width : 1, width = conv ? d_out / h : d_out;
    for (size_t i = 0; i < (conv ? h : 1); i++) {
        struct matrix m = portable_matrix(run, TENSOR_W_O, i, 1);
        const size_t columns = m.depth / taps;
        for (size_t tap = 0; tap < taps; tap++) {
            size_t t = 0, u = 0;
            const size_t rows = conv ? tap_rows(of, tap, &t, &u) : of->n;
            const float *back = turned(run, (struct strided){m.w + tap * columns * width, width}, columns, width);
            add_products(dz + u * h * d_v + i * d_v, h * d_v, (struct strided){dy + t * d_out + (conv ? i * width : 0),
                         d_out}, (struct strided){back, columns}, rows, width, columns, NOTHING);
        }
        free(m.w);
        free(m.unit);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* dS of head i from dP, in place, what values are multiplied by, and the sums of dS by distances; -0 of hidden pairs */
static void differentiate(struct back *of, size_t i, float *ds, float *kept)
{
    struct run *const run = of->run;
    const struct layer *layer = run->layer;
    const struct inputs *in = run->in;
    const size_t h = (size_t)layer->h, d_v = (size_t)layer->d_v, head = (of->b * h + i) * in->n;
    const float factor = (float)(1 / (1 - layer->dropout));
    float *distances = layer->relative != RELATIVE_NONE ? portable_floats(run, of->n + in->m) : NULL, sunk = 0;
    for (size_t t = 0; t < of->n; t++) {
        const size_t at = (of->row + t) * h * d_v + i * d_v, pair = (head + t) * in->m;
        float sums[PLACES] = {0};
        for (size_t c = 0; c < d_v; c++)
            sums[c % PLACES] = fmaf(of->dz[at + c], run->z[at + c], sums[c % PLACES]);
        const float d = portable_sum(sums), share = run->sunk[head + t];
        sunk = sunk - (is_hidden(share) ? 0 : share * d);
        for (size_t j = 0; j < of->keys; j++) {
            const float weight = run->weights[pair + j];
            float *to = &ds[t * of->keys + j], *of_value = &kept[t * of->keys + j];
            *of_value = weight;
            if (is_hidden(weight)) {
                *to = weight;
                continue;
            }
            if (layer->dropout > 0) {
                const bool stays = dropout_factor(layer, in, of->b, i, t, j) != 0;
                *of_value = stays ? weight * factor : 0;
                *to = stays ? *to * factor : 0;
            }
            *to = fmaf(weight, *to - d, 0);
            if (distances != NULL)
                distances[j + of->n - 1 - t] = distances[j + of->n - 1 - t] + *to;
            if (run->slope != NULL)
                *to = run->slope[pair + j] * *to;
        }
    }
    float *sink = gradient(of, TENSOR_SINK), *table = gradient(of, TENSOR_REL_BIAS);
    if (sink != NULL)
        sink[i] = sink[i] + sunk;
    for (size_t at = 0; table != NULL && at + 1 < of->n + in->m; at++) {
        const int64_t ahead = (int64_t)at + 1 - (int64_t)of->n - inputs_position(layer, in, of->b, 0);
        float *to = &table[relative_index(layer, (int64_t)i, ahead)];
        *to = *to + distances[at];
    }
}

static void attend(struct back *of)
{
    struct run *const run = of->run;
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t n = of->n, keys = of->keys;
    for (size_t i = 0; i < h; i++) {
        const size_t g = i / (h / h_kv);
        float *q = portable_floats(run, n * d_k), *k = portable_floats(run, keys * d_k);
        float *v = portable_floats(run, keys * d_v), *dz = portable_floats(run, n * d_v);
        float *ds = portable_floats(run, n * keys), *kept = portable_floats(run, n * keys);
        for (size_t t = 0; t < n; t++) {
            memcpy(q + t * d_k, run->q + ((of->row + t) * h + i) * d_k, d_k * sizeof *q);
            memcpy(dz + t * d_v, of->dz + ((of->row + t) * h + i) * d_v, d_v * sizeof *dz);
        }
        for (size_t j = 0; j < keys; j++) {
            memcpy(k + j * d_k, run->k + ((of->key + j) * h_kv + g) * d_k, d_k * sizeof *k);
            memcpy(v + j * d_v, portable_value(run, of->key + j, g), d_v * sizeof *v);
        }
        const struct strided of_v = {turned(run, (struct strided){v, d_v}, keys, d_v), keys};
        add_products(ds, keys, (struct strided){dz, d_v}, of_v, n, d_v, keys, NOTHING);
        differentiate(of, i, ds, kept);
        const struct strided turned_ds = {turned(run, (struct strided){ds, keys}, n, keys), n};
        const struct strided turned_kept = {turned(run, (struct strided){kept, keys}, n, keys), n};
        add_products(of->dv + (of->key * h_kv + g) * d_v, h_kv * d_v, turned_kept, (struct strided){dz, d_v}, keys, n,
                     d_v, HIDDEN_A);
        add_products(of->dk + (of->key * h_kv + g) * d_k, h_kv * d_k, turned_ds, (struct strided){q, d_k}, keys, n, d_k,
                     HIDDEN_A);
        add_products(of->dq + (of->row * h + i) * d_k, h * d_k, (struct strided){ds, keys}, (struct strided){k, d_k}, n,
                     keys, d_k, HIDDEN_A);
    }
    scale(of->dq + of->row * h * d_k, n * h * d_k, layer->qk_norm != NORM_NONE ? LN_2 : (float)layer->scale);
    scale(of->dk + of->key * h_kv * d_k, of->sources * h_kv * d_k, LN_2);
    scale(of->dv + of->key * h_kv * d_v, of->sources * h_kv * d_v, 1);
    for (size_t t = 0; t < n; t++)
        portable_turn(run, of->dq + (of->row + t) * h * d_k, h, d_k, of->b, t, true, true);
    for (size_t j = 0; j < of->sources; j++)
        portable_turn(run, of->dk + (of->key + j) * h_kv * d_k, h_kv, d_k, of->b, j, false, true);
}

/* ---- norms of queries and keys ----------------------------------------------------------------------------------- */

/* A row d of gradients through the norm of `together` heads, x before it; dg and dc: of this row's part */
static void through_row(const struct layer *layer, const float *x, float *d, size_t width, size_t together,
                        const float *gains, float by_scale, float *dg, float *dc)
{
    const struct head_norm norm = portable_head_norm(layer, x, width, together, 1);
    const bool l2 = layer->qk_norm == NORM_L2, centred = layer->qk_norm == NORM_LAYER;
    const float part = (float)(1 / (double)(together * width));
    float dots[PLACES] = {0}, totals[PLACES] = {0};
    bool alive = false;
    for (size_t c = 0; c < together * width; c++) {
        const float normed = (x[c] - norm.mean) * norm.by, u = gains != NULL ? d[c] * (gains[c] * by_scale) : d[c];
        dots[c % width % PLACES] = fmaf(u, normed, dots[c % width % PLACES]);
        totals[c % width % PLACES] = totals[c % width % PLACES] + u;
        alive = alive || d[c] != 0;
    }
    const float dot = portable_sum(dots), mean = centred ? portable_sum(totals) * part : 0;
    const float share = (!l2 ? dot * part : norm.root >= (float)layer->qk_norm_eps ? dot : 0) + 0;
    for (size_t c = 0; alive && c < together * width; c++) {
        const float normed = (x[c] - norm.mean) * norm.by, u = gains != NULL ? d[c] * (gains[c] * by_scale) : d[c];
        if (gains != NULL)
            dg[c] = fmaf(d[c], normed, dg[c]);
        if (gains != NULL && centred)
            dc[c] = dc[c] + d[c];
        const float change = fmaf(normed, -share, centred ? u - mean : u);
        d[c] = (l2 ? norm.by * by_scale : norm.by) * change;
    }
}

/* Rows of queries or keys of the sequence, all heads, part by part */
static void through_norm(struct back *of, const float *raw, float *d, size_t rows, size_t counted, size_t heads,
                         enum layer_tensor gain, enum layer_tensor shift, float by_scale)
{
    const struct layer *layer = of->run->layer;
    const size_t width = (size_t)layer->d_k, together = layer->qk_norm == NORM_RMS_ALL ? heads : 1;
    const size_t numbers = together * width, parts = (counted + PART - 1) / PART;
    const float *gains = inputs_floats(of->run->in, gain);
    float *const to[] = {gradient(of, gain), gradient(of, shift)};
    float *sums = portable_floats(of->run, ((rows + PART - 1) / PART + 1) * 2 * numbers);
    for (size_t first = 0; first < rows; first += PART)
        for (size_t i = 0; i < heads; i += together)
            for (size_t r = first; r < min_size(rows, first + PART); r++) {
                const size_t at = (r * heads + i) * width;
                float *dg = sums + first / PART * 2 * numbers;
                through_row(layer, raw + at, d + at, width, together, gains, by_scale, dg, dg + numbers);
            }
    for (size_t c = 0; c < 2 * numbers; c++) {
        float sum = 0;
        for (size_t part = 0; part < parts; part++)
            sum = sum + sums[part * 2 * numbers + c];
        if (to[c / numbers] != NULL)
            to[c / numbers][c % numbers] = to[c / numbers][c % numbers] + by_scale * sum;
    }
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* to += d W^T of rows of a projection's gradient, `columns` numbers a head, whose inputs are `width` numbers */
static void through_input(struct back *of, float *to, size_t width, const float *d, size_t columns, size_t heads,
                          enum layer_tensor tensor, size_t rows)
{
    const bool split = of->run->layer->split;
    for (size_t g = 0; g < (split ? heads : 1); g++) {
        struct matrix m = portable_matrix(of->run, tensor, g, 1);
        const float *back = turned(of->run, (struct strided){m.w, m.columns}, m.depth, m.columns);
        add_products(to + (split ? g * m.depth : 0), width, (struct strided){d + (split ? g * columns : 0),
                     heads * columns}, (struct strided){back, m.depth}, rows, m.columns, m.depth, NOTHING);
        free(m.w);
        free(m.unit);
    }
}

static void through_inputs(struct back *of)
{
    struct run *const run = of->run;
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t d_model = (size_t)layer->d_model, d_source = (size_t)layer->d_source;
    const size_t rows = of->sources;
    float *dx = gradient(of, TENSOR_X) + of->row * d_model;
    float *to = layer->cross ? gradient(of, TENSOR_SOURCE) + of->key * d_source : dx;
    const float *dv = of->dv + of->key * h_kv * d_v;
    through_input(of, dx, d_model, of->dq + of->row * h * d_k, d_k, h, TENSOR_W_Q, of->n);
    through_input(of, to, d_source, of->dk + of->key * h_kv * d_k, d_k, h_kv,
                  layer->tied ? TENSOR_W_Q : TENSOR_W_K, rows);
    if (!layer->identity)
        through_input(of, to, d_source, dv, d_v, h_kv, TENSOR_W_V, rows);
    for (size_t g = 0; layer->identity && g < h_kv; g++)
        for (size_t at = 0; at < rows * d_v; at++) {
            float *sum = to + at / d_v * d_source + (layer->split ? g * d_v : 0) + at % d_v;
            *sum = *sum + dv[at / d_v * h_kv * d_v + g * d_v + at % d_v];
        }
    scale(dx, of->n * d_model, 1);
    if (layer->cross)
        scale(to, rows * d_source, 1);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A tensor's gradient += sum over tokens of a[token] b[token], matrix `number` of it, from row `first` on of `depth` */
static void add_weights(struct back *of, enum layer_tensor tensor, size_t number, size_t tap, size_t taps,
                        struct strided a, struct strided b, size_t tokens, size_t rows, size_t columns,
                        enum left_out what)
{
    const struct layer *layer = of->run->layer;
    const size_t size = rows * columns, step = layer->out_in ? 1 : columns;
    float *to = gradient(of, tensor) + (number * taps + tap) * size;
    float *sum = portable_floats(of->run, size), *packed = portable_floats(of->run, tokens * columns);
    for (size_t at = 0; at < tokens * columns; at++)
        packed[at] = b.at[at / columns * b.row + at % columns];
    for (size_t at = 0; at < size; at++)
        sum[at] = to[at / columns * step + at % columns * (layer->out_in ? rows : 1)];
    const struct strided of_a = {turned(of->run, a, tokens, rows), tokens};
    add_products(sum, columns, of_a, (struct strided){packed, columns}, rows, tokens, columns, what);
    for (size_t at = 0; at < size; at++)
        to[at / columns * step + at % columns * (layer->out_in ? rows : 1)] = sum[at];
}

/* to[c] = to[c] + d[token][c], one token after the other; to NULL: no such gradient */
static void add_rows(float *to, const float *d, size_t tokens, size_t columns)
{
    for (size_t at = 0; to != NULL && at < tokens * columns; at++)
        to[at % columns] = to[at % columns] + d[at];
}

static void add_projection(struct back *of, enum layer_tensor weights, enum layer_tensor biases, const float *x,
                           size_t x_row, size_t d_in, const float *d, size_t columns, size_t heads, size_t tokens)
{
    const size_t groups = of->run->layer->split ? heads : 1, all = heads * columns;
    for (size_t g = 0; g < groups; g++)
        add_weights(of, weights, g, 0, 1, (struct strided){x + (groups > 1 ? g * d_in : 0), x_row},
                    (struct strided){d + g * columns, all}, tokens, d_in, groups > 1 ? columns : all, ZERO_B);
    add_rows(gradient(of, biases), d, tokens, all);
}

static void add_output(struct back *of)
{
    const struct layer *layer = of->run->layer;
    const size_t h = (size_t)layer->h, d_v = (size_t)layer->d_v, d_out = (size_t)layer->d_out;
    const bool conv = layer->w_o == W_O_CONV;
    const size_t taps = conv ? (size_t)layer->conv_width : 1, width = conv ? d_out / h : d_out;
    const float *z = of->run->z + of->row * h * d_v, *dy = of->dy + of->row * d_out;
    for (size_t i = 0; layer->w_o != W_O_NONE && i < (conv ? h : 1); i++)
        for (size_t tap = 0; tap < taps; tap++) {
            size_t t = 0, u = 0;
            const size_t tokens = conv ? tap_rows(of, tap, &t, &u) : of->n;
            const struct strided of_z = {z + u * h * d_v + i * d_v, h * d_v};
            const struct strided of_y = {dy + t * d_out + i * width, d_out};
            add_weights(of, TENSOR_W_O, i, tap, taps, of_z, of_y, tokens, conv ? d_v : h * d_v, width, ZERO_A);
        }
    add_rows(gradient(of, TENSOR_B_O), dy, of->n, d_out);
}

static void add_projections(struct back *of)
{
    struct run *const run = of->run;
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t d_model = (size_t)layer->d_model, d_source = (size_t)layer->d_source;
    const size_t in_q = (size_t)layer->d_in_q, in_kv = (size_t)layer->d_in_kv;
    const float *x = run->x + of->row * d_model, *source = run->source + of->key * d_source;
    add_projection(of, TENSOR_W_Q, TENSOR_B_Q, x, d_model, in_q, of->dq + of->row * h * d_k, d_k, h, of->n);
    add_projection(of, layer->tied ? TENSOR_W_Q : TENSOR_W_K, layer->tied ? TENSOR_B_Q : TENSOR_B_K, source, d_source,
                   in_kv, of->dk + of->key * h_kv * d_k, d_k, h_kv, of->summed);
    if (!layer->identity)
        add_projection(of, TENSOR_W_V, TENSOR_B_V, source, d_source, in_kv, of->dv + of->key * h_kv * d_v, d_v, h_kv,
                       of->summed);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

void portable_back(struct run *run, const float *dy)
{
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const float by = (float)(layer->scale * LOG2_E);
    struct back of = {.run = run, .dy = dy, .dz = portable_floats(run, run->rows * h * d_v),
                      .dq = portable_floats(run, run->rows * h * d_k),
                      .dk = portable_floats(run, run->keys * h_kv * d_k),
                      .dv = portable_floats(run, run->keys * h_kv * d_v)};
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(layer, t))
            run->of->gradient[t] = pool_get(&run->of->memory, inputs_count(layer, run->in, t), sizeof(float));
    for (of.b = 0; run->in->n > 0 && of.b < run->in->batch; of.b++) {
        of.keys = inputs_keys(run->in, of.b);
        of.n = layer->pad_skipped ? of.keys : run->in->n;
        of.sources = layer->pad_skipped ? of.keys : run->in->m;
        of.summed = layer->cross && (layer->mask & MASK_PADDING) ? of.keys : of.sources;
        of.row = of.b * run->in->n;
        of.key = of.b * run->in->m;
        through_output(&of);
        attend(&of);
        if (layer->qk_norm != NORM_NONE) {
            through_norm(&of, run->raw_q + of.row * h * d_k, of.dq + of.row * h * d_k, of.n, of.n, h, TENSOR_G_Q,
                         TENSOR_C_Q, by);
            through_norm(&of, run->raw_k + of.key * h_kv * d_k, of.dk + of.key * h_kv * d_k, of.sources, of.summed,
                         h_kv, TENSOR_G_K, TENSOR_C_K, 1);
        }
        through_inputs(&of);
        add_output(&of);
        add_projections(&of);
    }
}
