/* SPDX-License-Identifier: MIT */
/* How far a block in f32 may be off around attention: docs/bound_block.md, "The block".
 *
 * Left out on purpose: attention (bound.c), whose errors are the input.
 */
#pragma once

#include "block.h"

/* Errors of rows of numbers */
struct block_error {
    double *worst;       /* [rows][columns] */
    unsigned char *open; /* [rows] not 0: f32 may overflow on the way */
};
struct block_error block_error_make(struct pool *pool, size_t rows, size_t columns);

/* Errors of exact rows of d_model columns after norm number `number` */
void block_norm_errors(const struct layer *layer, const struct inputs *inputs, const struct norm_rounding *rounding,
                       int number, const double *x, size_t rows, struct block_error *error);

/* Errors of one computed chunk: from those of attention to those of y */
void block_errors(const struct block_chunk *chunk, const struct layer *layer, const struct inputs *inputs,
                  const struct norm_rounding *rounding, struct block_error *error);

/* Additional roundings of sums of bf16 products: NEON rounds half as many sums, but to odd, by up to 2 u, and the pairs
 * before. So K terms have at most (2 + 2 ceil(K / 2)) u, 3 u more than sums of f32. 0 for other layers. */
size_t block_more_roundings(const struct layer *layer);
/* Integer sums are multiplied by the product of a row's scale and a column's, times `factor`. If that product may be
 * subnormal in f32: the error of 2^31 times it. For these rounded rows, with the columns of a matrix. */
double block_small_scales(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor,
                          const double *rows, size_t count, size_t columns, double factor, double omega);
/* Turns the errors of `rows` rows before rounding into those after it, which the product that reads them has; also
 * around the given weights. `a`: the rows before, `whole`: after rounding. Nothing without precision. */
void block_whole_errors(const struct inputs *inputs, double levels, const double *a, const double *whole, size_t rows,
                        size_t columns, double *worst); /* `levels` units a side */
void block_round_errors(const struct layer *layer, const struct inputs *inputs, const double *a, const double *whole,
                        size_t rows, size_t columns, double *worst);
