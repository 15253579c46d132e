/* SPDX-License-Identifier: MIT */
/* Matrix products in double, and how large the numbers on their way are: the loops of the reference and of the bounds
 * that must be fast.
 *
 * Left out on purpose: everything but row-major operands.
 */
#ifndef ATTNRUN_PRODUCT_H
#define ATTNRUN_PRODUCT_H

#include <stddef.h>

/* out[r][c] += sum_k a[r][k] b[k][c];  strides in elements between rows. */
void product_add(double *out, size_t out_stride, const double *a, size_t a_stride, const double *b, size_t b_stride,
                 size_t rows, size_t inner, size_t columns);
/* u times the power of two at or below |x|: half of x's last place in f32 */
double half_place(double x);
/* For one row of a w + b, w [in][d]: squares[c] = sum of h^2 of its partial sums, b and the products added in order,
 * and of each product; h is half of a number's last place in f32. `sum` is room for d numbers. */
void product_places(double *restrict squares, double *restrict sum, const double *a, const double *restrict w,
                    const double *b, size_t in, size_t d);
/* y[c] += a x[c] */
void axpy(double *restrict y, double a, const double *restrict x, size_t count);

#endif
