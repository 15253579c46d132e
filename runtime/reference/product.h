/* SPDX-License-Identifier: MIT */
/* Matrix products in double: the loops of the reference and of the bounds that must be fast.
 *
 * Left out on purpose: everything but row-major operands.
 */
#pragma once

#include <stddef.h>

/* out[r][c] += sum_k a[r][k] b[k][c];  strides in elements between rows. */
void product_add(double *out, size_t out_stride, const double *a, size_t a_stride, const double *b, size_t b_stride,
                 size_t rows, size_t inner, size_t columns);
/* y[c] += a x[c] */
void axpy(double *restrict y, double a, const double *restrict x, size_t count);
