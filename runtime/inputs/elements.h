/* SPDX-License-Identifier: MIT */
/* Numbers of a tensor in the type that it has in memory, in double: read, rounded, written.
 *
 * Left out on purpose: packed weights, which only kernels have (reference/stored.h).
 */
#ifndef ATTNRUN_ELEMENTS_H
#define ATTNRUN_ELEMENTS_H

#include "../../gen/layer.h"

/* Number `at` of an array of f32, bf16, f16 or i8. */
double element_number(enum tensor_element type, const void *data, size_t at);
/* Writes the nearest number that the type has, of two the even one. NaN stays NaN, of i8 it becomes 0; what is too
 * large becomes infinite, of i8 127. */
void element_put(enum tensor_element type, void *data, size_t at, double number);
/* The nearest number of so many significant bits, at least a multiple of 2^lowest, of two the even one. */
double element_nearest(double number, int bits, int lowest);
/* What element_put() makes of a number; f32 keeps all of its digits. */
double element_rounded(enum tensor_element type, double number);

#endif
