/* SPDX-License-Identifier: MIT */
/* What weights are once they are packed in a type of fewer bytes (weight_type), and rows of a cache (cache_type):
 * numbers again, weights in the caller's layout.
 *
 * It knows neither plan nor templates: the rounding that docs/types.md promises, in double. Every such number is an
 * f32, and stays as it is when it is packed again. Left out on purpose: biases and other learned tensors, which are
 * packed as they are.
 */
#ifndef ATTNRUN_STORED_H
#define ATTNRUN_STORED_H

#include "inputs/inputs.h"

/* `to` is `from` but for the layer's weights, which become what is packed of them, and their units; everything else is
 * from's own. NaN where packing refuses a number. False when out of memory. */
bool stored_make(struct inputs *to, const struct layer *layer, const struct inputs *from);
void stored_free(struct inputs *to, const struct layer *layer);

/* A column of `count` numbers, `tap` of each tap; `from` may be `to`. Its unit, of i4 the least of a group but 0; of
 * the other types 0. */
double stored_column(enum tensor_element type, const float *from, float *to, size_t count, size_t tap);

/* A key or value of a head in a cache of that type, `count` numbers; `from` may be `to`. Returns the scale of i8. */
double stored_row(enum tensor_element type, const double *from, double *to, size_t count);
/* How far such a row may be off where `from` may be off by `error`, number by number. Not finite where one of them may
 * be too large. */
void stored_row_error(enum tensor_element type, const double *from, const double *error, double *to, size_t count);
/* The nearest bf16, of two the even one; what is below 2^-126 in size is 0, as the dot product takes it. */
double stored_bf16(double number);
/* The same under precision: whole multiples of the column's unit, which is returned; of bf16 nearest ones, and 0.
 * `pairs`: see struct inputs. */
double stored_whole_column(const struct layer *layer, bool pairs, const float *from, float *to, size_t count,
                           size_t tap);
/* A row of the other operand: nearest bf16; or multiples of a unit, which is returned; NaN where one of its numbers is
 * not finite. In f32, so that a kernel with the same numbers has the same multiples. `to` may be `from`. */
double stored_whole_row(const struct layer *layer, const double *from, double *to, size_t count);
/* Rows of a head's queries or keys, in their place, as scores sum them up, times `factor`; around the weights as they
 * are given nothing. */
void stored_score_rows(const struct layer *layer, const struct inputs *in, double factor, double *rows, size_t count);
/* Rows that a product with a matrix reads, in their place: the same under precision, but around the weights as they are
 * given; else nothing. */
void stored_rows(const struct layer *layer, const struct inputs *in, double *rows, size_t count, size_t columns);

#endif
