/* SPDX-License-Identifier: MIT */
/* Latent attention (docs/latent.md) in double: what heads' queries, keys and values are made of; and the errors of the
 * form that kernels compute, queries times W_UK against latents, sums of latents times W_UV.
 *
 * Left out on purpose: scores, weights and their sums, which are those of every layer.
 */
#pragma once

#include "base/memory.h"
#include "finish.h"
#include "inputs/inputs.h"
#include "spec/layer.h"

struct reference_head;

/* Of a head, or of a sequence; rows of queries are z_rows, rows of keys those that a call brings */
struct latent {
    struct layer norm_q, norm_kv, turn; /* a norm of q_rank numbers, of kv_rank ones; a rotation of rope.dims */
    double *w_dq, *w_dkv;               /* in_out */
    double *b_dq, *b_dkv;               /* zeros without bias */
    double *w_q, *w_uk, *w_uv;          /* of a head [d_latent][d_head], [rank][d_nope], [rank][d_value] */
    struct finish q, kv;                /* before their norms: x W_DQ [rows][q_rank], x W_DKV's latent [keys][rank] */
    struct finish turn_q, turn_k;       /* before rotation, [rows][rope.dims], [keys][rope.dims] */
    double *latent_q;                   /* [rows][d_latent] normed, or x */
    double *heads;                      /* [rows][d_head] queries of the head, the last columns turned */
    double *head_keys;                 /* [keys][d_head] k_i, of all keys that may be read */
    double *up;                         /* [rows][d_value] sum of weights times c W_UV */
    double *values;                     /* [keys][d_value] v_i */
};
struct latent *latent_make(struct pool *pool, const struct layer *layer, size_t rows, size_t new_keys, size_t keys);
/* Queries of a head, [q_i W_UK,i^T, rotated], to q; `x`: [rows][d_model]; turns of turn_q are known */
void latent_queries(struct latent *of, const struct layer *layer, const struct inputs *in, const double *x, size_t rows,
                    size_t i, double *q);
/* New keys [c, k_r] to k; turns of turn_k are known */
void latent_keys(struct latent *of, const struct layer *layer, const struct inputs *in, const double *s, size_t keys,
                 double *k);
/* Keys and values of head i, from all keys [c, k_r] */
void latent_expand(struct latent *of, const struct layer *layer, const double *k, size_t keys);
