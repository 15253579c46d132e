/* SPDX-License-Identifier: MIT */
/* Weights as packing rounds them (weight_type, precision), and rows as a cache rounds them (cache_type): as numbers
 * again, weights in the caller's layout.
 *
 * It knows neither plan nor templates: the rounding that docs/types.md promises, in double. Every such number is an
 * f32, and stays as it is when it is packed again. Left out on purpose: biases and other learned tensors, which are
 * packed as they are.
 */
#pragma once

#include "inputs/inputs.h"
#include "base/memory.h"

/* Makes `to` a copy of `from` with rounded weights and their scales; everything else is shared with `from`. NaN where
 * packing refuses a number. The weights lie in the pool. */
struct inputs stored_make(struct pool *pool, const struct layer *layer, const struct inputs *from);

/* Rounds a column of `count` numbers, `tap` of each tap; `from` may be `to`. Returns its scale, for i4 the smallest
 * nonzero one of its groups; 0 for other types. */
double stored_column(enum tensor_element type, const float *from, float *to, size_t count, size_t tap);

/* A column under precision: integer multiples of its scale, which is returned; for bf16 the nearest numbers, and 0 is
 * returned. `pairs`: see struct inputs. */
double stored_whole_column(const struct layer *layer, bool pairs, const float *from, float *to, size_t count,
                           size_t tap);
/* A row that meets such columns: nearest bf16, or multiples of a scale, which is returned; NaN if one of its numbers is
 * non-finite. Computed in f32, so that a kernel with the same numbers has the same multiples. `to` may be `from`. */
double stored_whole_row(const struct layer *layer, const double *from, double *to, size_t count);
/* The scale of a row of an i8 cache whose largest size is this: 0 of zeros, NaN where one is not finite */
double stored_scale(double largest);
/* Rounds a key or value of a head to a cache's type, `count` numbers; `from` may be `to`. Returns the scale of i8. */
double stored_row(enum tensor_element type, const double *from, double *to, size_t count);
/* Errors of such a row if `from` has the errors `error`, number by number; non-finite where a number may be too
 * large */
void stored_row_error(enum tensor_element type, const double *from, const double *error, double *to, size_t count);
/* The nearest bf16, ties to even; 0 below 2^-126 in size, as in the dot product */
double stored_bf16(double number);
/* Rounds rows of a head's queries or keys in place, as scores read them, times `factor`; not around the given
 * weights. */
void stored_score_rows(const struct layer *layer, const struct inputs *in, double factor, double *rows, size_t count);
/* Rounds a head's values as weighted sums read them. */
void stored_value_rows(const struct layer *layer, const struct inputs *in, double *rows, size_t count);
/* Rounds rows that a product with a matrix reads, in place, under precision; not around the given weights. */
void stored_rows(const struct layer *layer, const struct inputs *in, double *rows, size_t count, size_t columns);

/* Puts a row into a cache, whose parts these are, at number `at`, as a call stores it: with its scale if the type has
 * one. */
void stored_put_row(const struct layer *layer, void *const cache[CACHE_PARTS], bool values, const double *row,
                    size_t at);
