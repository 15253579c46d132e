/* SPDX-License-Identifier: MIT */
/* Matrix products in double. The inner loops are compiled for wide vectors where that is possible (wide.h);
 * nothing else here depends on the machine.
 */
#include "product.h"

#include <string.h>

#include "wide.h"

#define ROWS 4
#define COLUMNS 32

/* sum[r][c] = sum_k a[r][k] b[k][c] for a full tile. */
WIDE static void full_tile(double *restrict sum, const double *restrict a, size_t a_stride, const double *restrict b,
                           size_t b_stride, size_t inner)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        sum[i] = 0;
    for (size_t k = 0; k < inner; k++) {
        const double a0 = a[k], a1 = a[a_stride + k], a2 = a[2 * a_stride + k], a3 = a[3 * a_stride + k];
        const double *restrict row = b + k * b_stride;
        for (int c = 0; c < COLUMNS; c++) {
            sum[c] += a0 * row[c];
            sum[COLUMNS + c] += a1 * row[c];
            sum[2 * COLUMNS + c] += a2 * row[c];
            sum[3 * COLUMNS + c] += a3 * row[c];
        }
    }
}

static void edge_tile(double *sum, const double *a, size_t a_stride, const double *b, size_t b_stride, size_t rows,
                      size_t inner, size_t columns)
{
    memset(sum, 0, sizeof *sum * ROWS * COLUMNS);
    for (size_t k = 0; k < inner; k++)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                sum[r * COLUMNS + c] += a[r * a_stride + k] * b[k * b_stride + c];
}

void product_add(double *out, size_t out_stride, const double *a, size_t a_stride, const double *b, size_t b_stride,
                 size_t rows, size_t inner, size_t columns)
{
    double sum[ROWS * COLUMNS];
    for (size_t c = 0; c < columns; c += COLUMNS)
        for (size_t r = 0; r < rows; r += ROWS) {
            size_t height = rows - r < ROWS ? rows - r : ROWS, width = columns - c < COLUMNS ? columns - c : COLUMNS;
            if (height == ROWS && width == COLUMNS)
                full_tile(sum, a + r * a_stride, a_stride, b + c, b_stride, inner);
            else
                edge_tile(sum, a + r * a_stride, a_stride, b + c, b_stride, height, inner, width);
            for (size_t i = 0; i < height; i++)
                for (size_t j = 0; j < width; j++)
                    out[(r + i) * out_stride + c + j] += sum[i * COLUMNS + j];
        }
}

WIDE static void add_scaled(double *restrict y, double a, const double *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] += a * x[i];
}

/* Not WIDE itself: clang 14 gives the chosen version another name, which only its own file knows. */
void axpy(double *restrict y, double a, const double *restrict x, size_t count)
{
    add_scaled(y, a, x, count);
}
