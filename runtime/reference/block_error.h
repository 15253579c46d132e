/* SPDX-License-Identifier: MIT */
/* How far a block in f32 may be off around attention: docs/bound_block.md, "The block".
 *
 * Left out on purpose: attention (bound.c), whose errors go in.
 */
#ifndef ATTNRUN_BLOCK_ERROR_H
#define ATTNRUN_BLOCK_ERROR_H

#include "block.h"

/* Of rows of numbers. */
struct block_error {
    double *worst, *drawn; /* [rows][columns] */
    double *common;        /* [rows] of normed rows: a relative error, of the drawn gate, of all that is not shift; all
                            * columns share it, and `drawn` lacks it */
    unsigned char *open;   /* [rows] not 0: f32 may overflow on the way */
};
bool block_error_make(struct block_error *error, size_t rows, size_t columns);
void block_error_free(struct block_error *error);

/* Rows of d_model columns, exact ones, behind norm number `number`. */
void block_norm_errors(const struct layer *layer, const struct inputs *inputs, const struct norm_rounding *rounding,
                       int number, const double *x, size_t rows, struct block_error *error);

/* Of one chunk that is computed: errors of attention go in, those of y come out. False when out of memory. */
bool block_errors(const struct block_chunk *chunk, const struct layer *layer, const struct inputs *inputs,
                  const struct norm_rounding *rounding, struct block_error *error);

/* What a norm shares, errors that all columns of a row have in common, goes back into its columns; `value`: behind
 * it. */
void block_settle(const struct layer *layer, const struct inputs *inputs, int number, const double *value, size_t rows,
                  struct block_error *error);
/* Sums of products of bf16, in the worst case and drawn: NEON rounds half as many of them, but to odd, by up to 2 u,
 * and pairs before that. So K terms have at most (2 + 2 ceil(K / 2)) u, 3 u more than sums of f32, and drawn ones
 * sqrt(2) of theirs. 0 and 1 of other layers. */
size_t block_more_roundings(const struct layer *layer);
double block_more_spread(const struct layer *layer);
/* Sums of whole numbers are multiplied by the product of a row's scale and a column's, times `factor`. Where that may
 * be subnormal in f32: what 2^31 of them are off by. Of these rows of whole numbers, with the columns of a matrix. */
double block_small_scales(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor,
                          const double *rows, size_t count, size_t columns, double factor, double omega);
/* The errors of `rows` rows before they become words, or around the weights as they are given are compared with those,
 * turned into those behind it, which the product that reads them has. `a`: the rows before, `whole` behind it. Nothing
 * but under precision. */
void block_whole_errors(const struct inputs *inputs, double levels, const double *a, const double *whole, size_t rows,
                        size_t columns, double *worst, double *drawn); /* to so many units */
void block_round_errors(const struct layer *layer, const struct inputs *inputs, const double *a, const double *whole,
                        size_t rows, size_t columns, double *worst, double *drawn);

#endif
