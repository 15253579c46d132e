/* SPDX-License-Identifier: MIT */
/* A block around attention, in double: norms, residuals and the feed-forward, a few rows at a time; and all of a layer
 * without attention.
 *
 * Left out on purpose: attention itself (reference.h), and rounding (block_error.h).
 */
#pragma once

#include "inputs/inputs.h"
#include "norm.h"
#include "base/memory.h"

#define BLOCK_ROWS 128 /* at most, of a chunk */

/* The numbers of the norms at each place; 0: there is none. */
struct block_norms {
    int before_attention, behind_attention, behind_sum; /* norm of x; of attention; of x + attention */
    int before_ffn, behind_ffn, behind_both;            /* norm of the feed-forward's input; of its result; of y */
    bool ffn_of_x;                                      /* it reads x, and not x + attention */
    bool alone;                                         /* nothing is added to what it gives */
};
struct block_norms block_norms(const struct layer *layer);

struct norm block_norm(const struct layer *layer);
/* Gains or shifts of a norm by its number; NULL: it has no shifts. */
const float *block_gains(const struct inputs *inputs, int number);
const float *block_shifts(const struct inputs *inputs, int number);

/* to = norm number `number` of rows of d_model columns; a copy if that is 0 */
void block_normalise(const struct layer *layer, const struct inputs *inputs, int number, const double *from,
                     size_t rows, double *to);

double block_activation(enum layer_activation activation, double a);
double block_slope(enum layer_activation activation, double a);
/* The same of a layer, whose gates may be clamped, and what its gates are multiplied by */
double block_gate(const struct layer *layer, double a);
double block_gate_slope(const struct layer *layer, double a);
double block_up(const struct layer *layer, double a);

/* out [rows][columns] += f(a) f(w), w [in][columns] in weight_layout. The caller has applied f to a; f(w) is the
 * weight, |w| plus how far packing moves it, or how far packing moves it. */
enum block_weight { BLOCK_VALUE, BLOCK_SIZE, BLOCK_MOVED };
struct block_matrix {
    const float *w;
    const float *packed; /* the packed weights, if they differ; NULL: they do not */
    size_t in, columns;
    bool out_in;
    double more; /* of sizes */
};
void block_product(double *out, const double *a, size_t rows, const struct block_matrix *matrix,
                   enum block_weight which);
/* w_1, w_g, w_2 or w. */
struct block_matrix block_matrix(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor);

/* All intermediate rows of one chunk, from x and attention to y. Rows have d_model columns, those of up, gate and
 * hidden d_ff; gate is up if nothing is gated. In layer = linear up, hidden (its activation), ffn (after the softcap)
 * and y have d_out columns, and the others after hidden are missing. */
struct block_chunk {
    size_t rows;
    double *x, *attention;
    double *added;       /* attention after its norm */
    double *sum, *u;     /* x + added; after its norm */
    double *in;          /* the feed-forward's input; under precision whole_in and whole_hidden are this and hidden,
                          * rounded; otherwise the same arrays */
    double *whole_in, *whole_hidden;
    double *up, *gate, *hidden;
    double *ffn, *more;  /* its result; after its norm */
    double *both, *y;    /* u + more; after its norm */
};
struct block_chunk block_chunk_make(struct pool *pool, const struct layer *layer);
/* Computes the chunk from x and attention. */
void block_compute(struct block_chunk *chunk, const struct layer *layer, const struct inputs *inputs);
