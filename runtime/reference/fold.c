/* SPDX-License-Identifier: MIT */
/* Folded weights in double: products of the plain ones, and what goes with them. */
#include "fold.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "product.h"

/* A product of d terms in double, with the factor c, is off by at most (d + 4) 2^-53 |a||b|; |a||b| is at most the
 * product of the norms. In units of 2^-24: */
#define DOUBLE_ROUNDING 0x1p-29
#define UNIT 0x1p-24

/* Products of W_O: one for each tap. */
static size_t taps_of(const struct layer *layer) { return layer->w_o == W_O_CONV ? (size_t)layer->conv_width : 1; }

/* Columns of one of them. */
static size_t columns_of(const struct layer *layer)
{
    return (size_t)(layer->w_o == W_O_CONV ? layer->d_model / layer->h : layer->d_model);
}

struct folded folded_make(struct pool *pool, const struct layer *layer, struct folds folds, size_t rows, size_t m,
                          double phi)
{
    const size_t in_q = (size_t)layer->d_in_q, in_kv = (size_t)layer->d_in_kv;
    const size_t d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    struct folded f = {.layer = *layer, .d_k = d_k, .d_v = d_v, .phi = phi, .folds.scores = folds.scores,
                       .folds.values = folds.values && !layer->identity && layer->w_o != W_O_NONE};
    if (f.folds.scores) {
        f.layer.d_k = layer->d_in_kv;
        pool_arrays(pool, ARRAYS({&f.g, (in_q + 1) * in_kv}, {&f.w_q_size, (in_q + 1) * in_kv}, {&f.q, rows * in_kv},
                                 {&f.raw, rows * m}, {&f.scores, rows * m}, {&f.dropped, rows}));
    }
    if (f.folds.values) {
        const size_t weights = (in_kv + 1) * taps_of(layer) * columns_of(layer);
        f.indicator = layer->bias;
        f.layer.d_v = layer->d_in_kv + layer->bias;
        f.layer.identity = true;
        pool_arrays(pool, ARRAYS({&f.h, weights}, {&f.w_o_size, weights}, {&f.v, m * (in_kv + 1)},
                                 {&f.z, rows * (in_kv + 1)}));
    }
    f.left = pool_doubles(pool, max_size((in_q + 1) * d_k, (in_kv + 1) * d_v));
    f.right = pool_doubles(pool, d_k * in_kv);
    f.column = pool_doubles(pool, max_size(in_kv, columns_of(layer)));
    return f;
}

/* out = a b, and its size. */
static void multiply(struct folded *f, double *out, double *size, const double *a, const double *b, size_t rows,
                     size_t inner, size_t columns)
{
    memset(out, 0, rows * columns * sizeof *out);
    product_add(out, columns, a, inner, b, columns, rows, inner, columns);
    memset(f->column, 0, columns * sizeof *f->column); /* squared norms */
    for (size_t k = 0; k < inner; k++)
        for (size_t c = 0; c < columns; c++)
            f->column[c] += b[k * columns + c] * b[k * columns + c];
    const double rounding = (double)(inner + 4) * DOUBLE_ROUNDING, operand = f->phi * sqrt((double)inner) / UNIT;
    const double smallest = fmax(0x1p-149, f->phi) / UNIT; /* the entry may be denormal in f32 */
    for (size_t c = 0; c < columns; c++)
        f->column[c] = sqrt(f->column[c]);
    for (size_t r = 0; r < rows; r++) {
        double row = 0;
        for (size_t k = 0; k < inner; k++)
            row += a[r * inner + k] * a[r * inner + k];
        row = sqrt(row);
        for (size_t c = 0; c < columns; c++)
            size[r * columns + c] = fabs(out[r * columns + c]) + rounding * row * f->column[c] +
                                    operand * (row + f->column[c]) + smallest;
    }
}

/* left = [w; b], the bias below its matrix [in][d] */
static void stack(struct folded *f, const double *w, const double *b, size_t in, size_t d)
{
    memcpy(f->left, w, in * d * sizeof *w);
    memcpy(f->left + in * d, b, d * sizeof *b);
}

/* G and b' below it; Q' = Q W_K^T, which is x G + b'; the scores without scale Q b_K. */
static void fold_scores(struct folded *f, const struct reference_head *plain, size_t rows)
{
    const size_t in = (size_t)f->layer.d_in_q, width = (size_t)f->layer.d_in_kv, d_k = f->d_k, keys = plain->keys;
    for (size_t s = 0; s < width; s++)
        for (size_t d = 0; d < d_k; d++)
            f->right[d * width + s] = plain->w_k[s * d_k + d];
    stack(f, plain->w_q, plain->b_q, in, d_k);
    multiply(f, f->g, f->w_q_size, f->left, f->right, in + 1, d_k, width);
    memset(f->q, 0, rows * width * sizeof *f->q);
    product_add(f->q, width, plain->q, d_k, f->right, width, rows, d_k, width);
    for (size_t r = 0; r < rows; r++) {
        double dropped = 0, size = 0;
        for (size_t d = 0; d < d_k; d++) {
            dropped += plain->q[r * d_k + d] * plain->b_k[d];
            size += fabs(plain->q[r * d_k + d] * plain->b_k[d]);
        }
        f->dropped[r] = fabs(f->layer.scale) * size;
        for (size_t j = 0; j < keys; j++) {
            f->raw[r * keys + j] = plain->raw[r * keys + j] - f->layer.scale * dropped;
            f->scores[r * keys + j] = plain->scores[r * keys + j] - f->layer.scale * dropped;
        }
    }
    f->b_q_size = f->w_q_size + in * width;
    f->head.w_q = f->g;
    f->head.b_q = f->g + in * width;
    f->head.w_k = f->head.b_k = NULL;
    f->head.q = f->q;
    f->head.k = plain->s;
    f->head.raw = f->raw;
    f->head.scores = f->scores;
}

/* H, with b_V W_O below it for the indicator, for each tap; V' = [s 1]; Z' = A V' over the visible keys. */
static void fold_values(struct folded *f, const struct reference_head *plain, size_t rows)
{
    const size_t in = (size_t)f->layer.d_in_kv, width = (size_t)f->layer.d_v, columns = columns_of(&f->layer);
    const size_t keys = plain->keys, product = width * columns;
    stack(f, plain->w_v, plain->b_v, in, f->d_v);
    for (size_t tap = 0; tap < taps_of(&f->layer); tap++)
        multiply(f, f->h + tap * product, f->w_o_size + tap * product, f->left, plain->w_o + tap * f->d_v * columns,
                 width, f->d_v, columns);
    for (size_t j = 0; j < keys; j++) {
        memcpy(f->v + j * width, plain->s + j * in, in * sizeof *f->v);
        if (f->indicator)
            f->v[j * width + in] = 1;
    }
    memset(f->z, 0, rows * width * sizeof *f->z);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < keys; j++)
            if (plain->visible[r * keys + j])
                axpy(f->z + r * width, plain->weights[r * keys + j], f->v + j * width, width);
    f->head.w_v = f->head.b_v = NULL;
    f->head.w_o = f->h;
    f->head.v = f->v;
    f->head.z = f->z;
}

void folded_see(struct folded *f, const struct reference_head *plain, size_t rows)
{
    f->head = *plain;
    if (f->folds.scores)
        fold_scores(f, plain, rows);
    if (f->folds.values)
        fold_values(f, plain, rows);
}
