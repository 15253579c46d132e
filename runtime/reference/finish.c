/* SPDX-License-Identifier: MIT */
/* Norm and rotation of queries and keys: docs/spec.md's equations. */
#include "finish.h"

#include <math.h>
#include <string.h>

#include "spec/layer.h"

#define TWO_PI 6.283185307179586476925286766559005768L

struct finish finish_make(struct pool *pool, const struct layer *layer, size_t rows, size_t heads)
{
    const bool all = layer->qk_norm == NORM_RMS_ALL, turns = layer->rope.kind != ROPE_NONE;
    const size_t d = (size_t)layer->d_k;
    return (struct finish){
        .rows = rows, .d = d, .heads = heads, .from = pool_doubles(pool, rows * d),
        .all = all ? pool_doubles(pool, rows * heads * d) : NULL,
        .all_size = all ? pool_doubles(pool, rows * heads * d) : NULL,
        .gain = layer_has_tensor(layer, TENSOR_G_Q) ? pool_doubles(pool, d) : NULL,
        .shift = layer_has_tensor(layer, TENSOR_C_Q) ? pool_doubles(pool, d) : NULL,
        .turns = turns ? pool_get(pool, rows * (size_t)layer->rope.dims / 2, sizeof(struct turn)) : NULL};
}

/* ---- rotation ---- */

static long double scaled_llama3(const struct layer *layer, long double f)
{
    const long double wavelength = TWO_PI / f, length = layer->rope.original_len;
    if (wavelength < length / layer->rope.high)
        return f;
    if (wavelength > length / layer->rope.low)
        return f / layer->rope.factor;
    const long double r = (length / wavelength - layer->rope.low) / (layer->rope.high - layer->rope.low);
    return (1 - r) * f / layer->rope.factor + r * f;
}

static long double yarn_dim(const struct layer *layer, double beta)
{
    return (long double)layer->rope.dims * logl(layer->rope.original_len / (beta * TWO_PI)) /
           (2 * logl(layer->rope.theta));
}

static long double scaled_yarn(const struct layer *layer, int64_t c, long double f)
{
    const long double fast = yarn_dim(layer, layer->rope.beta_fast), slow = yarn_dim(layer, layer->rope.beta_slow);
    const long double low = fmaxl(layer->rope.truncate ? floorl(fast) : fast, 0);
    const long double high = fminl(layer->rope.truncate ? ceill(slow) : slow, (long double)(layer->rope.dims - 1));
    const long double ramp = fminl(fmaxl(((long double)c - low) / fmaxl(high - low, 0.001L), 0), 1);
    return f / layer->rope.factor * ramp + f * (1 - ramp);
}

static long double frequency(const struct layer *layer, int64_t c)
{
    const long double dims = (long double)layer->rope.dims, length = layer->rope.original_len;
    const long double longer = (long double)layer->rope.len / length - 1;
    long double theta = layer->rope.theta;
    if (layer->rope.scaling == SCALING_DYNAMIC && longer > 0 && dims > 2)
        theta *= powl(layer->rope.factor * longer + 1, dims / (dims - 2));
    const long double f = powl(theta, -2 * (long double)c / dims);
    switch (layer->rope.scaling) {
    case SCALING_LINEAR:
        return f / layer->rope.factor;
    case SCALING_LLAMA3:
        return scaled_llama3(layer, f);
    case SCALING_YARN:
        return scaled_yarn(layer, c, f);
    case SCALING_LONGROPE:
        return f / layer->rope.factors[c];
    default:
        return f;
    }
}

void finish_turns(const struct layer *layer, int64_t position, struct turn *turns)
{
    for (int64_t c = 0; c < layer->rope.dims / 2; c++) {
        const long double angle = (long double)position * frequency(layer, c);
        turns[c] = (struct turn){.cosine = (double)(layer->rope.attention_factor * cosl(angle)),
                                 .sine = (double)(layer->rope.attention_factor * sinl(angle)),
                                 .angle = fabs((double)angle)};
    }
}

void finish_turn_back(const struct layer *layer, const struct turn *turns, double *row)
{
    const size_t pairs = (size_t)layer->rope.dims / 2;
    for (size_t c = 0; c < pairs; c++) {
        const bool half = layer->rope.kind == ROPE_HALF;
        double *first = row + (half ? c : 2 * c), *second = row + (half ? c + pairs : 2 * c + 1);
        const double a = *first, b = *second;
        *first = a * turns[c].cosine + b * turns[c].sine;
        *second = b * turns[c].cosine - a * turns[c].sine;
    }
}

/* ---- norm ---- */

struct norm finish_norm(const struct layer *layer)
{
    static const enum norm_kind kinds[] = {[NORM_RMS] = NORM_ROW_RMS, [NORM_RMS_ALL] = NORM_ROW_RMS,
                                           [NORM_LAYER] = NORM_ROW_LAYER, [NORM_L2] = NORM_ROW_L2};
    return (struct norm){kinds[layer->qk_norm], layer->qk_norm_eps};
}

const double *finish_columns(const struct finish *of, size_t row, size_t *count)
{
    *count = of->all != NULL ? of->heads * of->d : of->d;
    return (of->all != NULL ? of->all : of->from) + row * *count;
}

static void normalise(const struct layer *layer, const struct finish *of, size_t row, double *to)
{
    const struct norm norm = finish_norm(layer);
    size_t count;
    const double *columns = finish_columns(of, row, &count);
    const struct norm_row by = norm_of(&norm, columns, count);
    for (size_t c = 0; c < of->d; c++) {
        to[c] = (of->from[row * of->d + c] - by.middle) / by.divisor;
        if (of->gain != NULL)
            to[c] *= of->gain[c];
        if (of->shift != NULL)
            to[c] += of->shift[c];
    }
}

void finish_rows(const struct layer *layer, const struct finish *of, double *to)
{
    const bool half = layer->rope.kind == ROPE_HALF;
    const size_t pairs = (size_t)layer->rope.dims / 2;
    if (layer->qk_norm == NORM_NONE)
        memcpy(to, of->from, of->rows * of->d * sizeof *to);
    for (size_t r = 0; layer->qk_norm != NORM_NONE && r < of->rows; r++)
        normalise(layer, of, r, to + r * of->d);
    for (size_t r = 0; of->turns != NULL && r < of->rows; r++, to += of->d)
        for (size_t c = 0; c < pairs; c++) {
            const struct turn *turn = &of->turns[r * pairs + c];
            double *first = &to[half ? c : 2 * c], *second = &to[half ? c + pairs : 2 * c + 1];
            const double a = *first, b = *second;
            *first = a * turn->cosine - b * turn->sine;
            *second = a * turn->sine + b * turn->cosine;
        }
}
