/* SPDX-License-Identifier: MIT */
/* One level of Strassen's products in Winograd's form, whose sums are over the two halves of two rows and of two
 * columns. With r, r' the norms of the rows, c, c' of the columns, and S, T any of the sums,
 *
 *   |S| <= sqrt(2) (r + r')    |T| <= sqrt(2) (c + c')
 *   sum over the products in one result |S||T| <= 6 (r + r')(c + c')
 *
 * as M1 is at most (r + r')(c + c'), M6 twice that, and each of two others sqrt(2) times. A result is a sum of at most
 * 2 K products of numbers that have three roundings each. For slabs of the depth the squares of norms add up, so that
 * by Cauchy and Schwarz the norms of whole rows and columns serve.
 *
 * The kernel mixes rows, and columns, at most FAST_APART times apart, as it computes their squares in f32.
 */
#include "fast_error.h"

#include <math.h>

#include "bound.h"
#include "spec/fast.h"

#define APART (FAST_APART * 1.001) /* squares are rounded */
#define LAMBDA 2.5 /* without anything in common to other errors */
#define ROUNDINGS 16               /* of the sums, the last additions and the bias */

double fast_worst(const struct fast_norms *of)
{
    const double columns = of->column + fmin(APART * of->column, of->largest_column);
    return gamma_of(2 * of->depth + ROUNDINGS) * 6 * (1 + APART) * of->row * columns;
}

double fast_drawn(const struct fast_norms *of, double largest, double own)
{
    const double rows = of->row + fmin(APART * of->row, of->largest_row);
    const double columns = of->column + fmin(APART * of->column, of->largest_column);
    const double value = fmin(APART * own, largest);
    return LAMBDA * BOUND_U * (rows * columns + sqrt(2 * (double)of->depth) * value);
}

double fast_largest(const double *numbers, size_t count, size_t step)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(numbers[i * step]));
    return largest;
}

double fast_norm(const double *numbers, size_t count, size_t step)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += numbers[i * step] * numbers[i * step];
    return sqrt(squares);
}

double fast_column(const float *w, size_t in, size_t columns, int out_in, size_t c)
{
    double squares = 0;
    for (size_t k = 0; k < in; k++) {
        const double number = (double)w[out_in ? c * in + k : k * columns + c];
        squares += number * number;
    }
    return sqrt(squares);
}

double fast_largest_column(const float *w, size_t in, size_t columns, int out_in)
{
    double largest = 0;
    for (size_t c = 0; c < columns; c++)
        largest = fmax(largest, fast_column(w, in, columns, out_in, c));
    return largest;
}
