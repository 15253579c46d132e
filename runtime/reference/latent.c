/* SPDX-License-Identifier: MIT */
/* See latent.h: the equations of docs/latent.md. */
#include "latent.h"

#include <string.h>

#include "product.h"
#include "reference.h"

static struct finish rows_of(struct pool *pool, size_t rows, size_t d, bool gains, bool turns)
{
    return (struct finish){.rows = rows, .d = d, .heads = 1, .from = pool_doubles(pool, rows * d),
                           .gain = gains ? pool_doubles(pool, d) : NULL,
                           .turns = turns ? pool_get(pool, rows * d / 2, sizeof(struct turn)) : NULL};
}

static struct layer norm_of_rank(const struct layer *layer, int64_t rank)
{
    struct layer of = *layer;
    of.d_k = rank;
    of.qk_norm = NORM_RMS;
    of.rope.kind = ROPE_NONE;
    return of;
}

struct latent *latent_make(struct pool *pool, const struct layer *layer, size_t rows, size_t new_keys, size_t keys)
{
    struct latent *const of = pool_get(pool, 1, sizeof *of);
    const size_t rank = (size_t)layer->latent.rank, q_rank = (size_t)layer->latent.q_rank;
    const size_t d_model = (size_t)layer->d_model, from = (size_t)layer->latent.d_latent;
    const size_t d_head = (size_t)layer->latent.d_head, d_value = (size_t)layer->latent.d_value;
    const size_t dims = (size_t)layer->rope.dims;
    const bool turns = layer->rope.kind != ROPE_NONE;
    of->norm_q = norm_of_rank(layer, layer->latent.q_rank);
    of->norm_kv = norm_of_rank(layer, layer->latent.rank);
    of->turn = *layer;
    of->turn.d_k = layer->rope.dims;
    pool_arrays(pool, ARRAYS({&of->w_dq, d_model * q_rank}, {&of->b_dq, q_rank}, {&of->b_dkv, (size_t)layer->d_k},
                             {&of->w_q, from * d_head}, {&of->w_dkv, d_model * (size_t)layer->d_k},
                             {&of->w_uk, rank * (size_t)layer->latent.d_nope}, {&of->w_uv, rank * d_value}));
    of->q = rows_of(pool, rows, q_rank, true, false);
    of->kv = rows_of(pool, new_keys, rank, true, false);
    of->turn_q = rows_of(pool, rows, dims, false, turns);
    of->turn_k = rows_of(pool, new_keys, dims, false, turns);
    pool_arrays(pool, ARRAYS({&of->latent_q, rows * from}, {&of->heads, rows * d_head}, {&of->head_keys, keys * d_head},
                             {&of->up, rows * d_value}, {&of->values, keys * d_value}));
    return of;
}

static void take_columns(double *to, size_t to_row, const double *from, size_t row, size_t columns, size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * to_row, from + r * row, columns * sizeof *to);
}

static void multiply(double *out, const double *a, const double *w, const double *b, size_t rows, size_t depth,
                     size_t columns)
{
    for (size_t at = 0; at < rows * columns; at++)
        out[at] = b != NULL ? b[at % columns] : 0;
    product_add(out, columns, a, depth, w, columns, rows, depth, columns);
}

static void take_numbers(double *to, const struct inputs *in, enum layer_tensor tensor, size_t count)
{
    const float *numbers = inputs_floats(in, tensor);
    for (size_t c = 0; c < count && numbers != NULL; c++)
        to[c] = (double)numbers[c];
}

void latent_queries(struct latent *of, const struct layer *layer, const struct inputs *in, const double *x, size_t rows,
                    size_t i, double *q)
{
    const size_t q_rank = (size_t)layer->latent.q_rank, d_model = (size_t)layer->d_model;
    const size_t d_head = (size_t)layer->latent.d_head, d_nope = (size_t)layer->latent.d_nope;
    const size_t rank = (size_t)layer->latent.rank, d_k = (size_t)layer->d_k, h = (size_t)layer->h;
    const size_t from = (size_t)layer->latent.d_latent, dims = (size_t)layer->rope.dims;
    of->q.rows = of->turn_q.rows = rows;
    if (q_rank > 0) {
        reference_projection(of->w_dq, layer, inputs_floats(in, TENSOR_W_DQ), d_model, q_rank, 0, 1);
        take_numbers(of->b_dq, in, TENSOR_B_DQ, q_rank);
        multiply(of->q.from, x, of->w_dq, of->b_dq, rows, d_model, q_rank);
        take_numbers(of->q.gain, in, TENSOR_G_DQ, q_rank);
        finish_rows(&of->norm_q, &of->q, of->latent_q);
    } else {
        memcpy(of->latent_q, x, rows * d_model * sizeof *x);
    }
    reference_projection(of->w_q, layer, inputs_floats(in, TENSOR_W_Q), from, d_head, i, h);
    reference_projection(of->w_uk, layer, inputs_floats(in, TENSOR_W_UK), rank, d_nope, i, h);
    reference_projection(of->w_uv, layer, inputs_floats(in, TENSOR_W_UV), rank, (size_t)layer->latent.d_value, i, h);
    multiply(of->heads, of->latent_q, of->w_q, NULL, rows, from, d_head);
    take_columns(of->turn_q.from, dims, of->heads + d_nope, d_head, dims, rows);
    HEAP double *const turned = memory_get(rows * dims, sizeof *turned);
    finish_rows(&of->turn, &of->turn_q, turned);
    take_columns(of->heads + d_nope, d_head, turned, dims, dims, rows);
    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < rank; k++) {
            q[r * d_k + k] = 0;
            for (size_t c = 0; c < d_nope; c++)
                q[r * d_k + k] += of->heads[r * d_head + c] * of->w_uk[k * d_nope + c];
        }
        memcpy(q + r * d_k + rank, turned + r * dims, dims * sizeof *q);
    }
}

void latent_keys(struct latent *of, const struct layer *layer, const struct inputs *in, const double *s, size_t keys,
                 double *k)
{
    const size_t d_model = (size_t)layer->d_model, d_k = (size_t)layer->d_k, rank = (size_t)layer->latent.rank;
    const size_t dims = (size_t)layer->rope.dims;
    HEAP double *const made = memory_get(keys * d_k, sizeof *made);
    of->kv.rows = of->turn_k.rows = keys;
    reference_projection(of->w_dkv, layer, inputs_floats(in, TENSOR_W_DKV), d_model, d_k, 0, 1);
    take_numbers(of->b_dkv, in, TENSOR_B_DKV, d_k);
    multiply(k, s, of->w_dkv, of->b_dkv, keys, d_model, d_k);
    take_columns(of->kv.from, rank, k, d_k, rank, keys);
    take_columns(of->turn_k.from, dims, k + rank, d_k, dims, keys);
    take_numbers(of->kv.gain, in, TENSOR_G_DKV, rank);
    finish_rows(&of->norm_kv, &of->kv, made);
    take_columns(k, d_k, made, rank, rank, keys);
    finish_rows(&of->turn, &of->turn_k, made);
    take_columns(k + rank, d_k, made, dims, dims, keys);
}

void latent_expand(struct latent *of, const struct layer *layer, const double *k, size_t keys)
{
    const size_t d_k = (size_t)layer->d_k, rank = (size_t)layer->latent.rank, d_head = (size_t)layer->latent.d_head;
    const size_t d_nope = (size_t)layer->latent.d_nope, d_value = (size_t)layer->latent.d_value;
    HEAP double *const c = memory_get(keys * rank, sizeof *c), *const made = memory_get(keys * d_nope, sizeof *made);
    take_columns(c, rank, k, d_k, rank, keys);
    multiply(made, c, of->w_uk, NULL, keys, rank, d_nope);
    take_columns(of->head_keys, d_head, made, d_nope, d_nope, keys);
    take_columns(of->head_keys + d_nope, d_head, k + rank, d_k, (size_t)layer->rope.dims, keys);
    multiply(of->values, c, of->w_uv, NULL, keys, rank, d_value);
}
