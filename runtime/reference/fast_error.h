/* SPDX-License-Identifier: MIT */
/* How far fast products may be off beyond classical ones: docs/bound.md, "Fast products". */
#ifndef ATTNRUN_FAST_ERROR_H
#define ATTNRUN_FAST_ERROR_H

#include <stddef.h>

/* What one element of a product depends on: Euclidean norms of its row and column, and the largest ones of those that
 * may be mixed with them */
struct fast_norms {
    size_t depth;
    double row, largest_row, column, largest_column;
};

/* Errors in the worst case, and in the statistical gate; the largest result of all, and of the element's own
 * row or column, whichever is smaller */
double fast_worst(const struct fast_norms *norms);
double fast_drawn(const struct fast_norms *norms, double largest, double own);

/* The largest size of numbers `step` apart */
double fast_largest(const double *numbers, size_t count, size_t step);
double fast_norm(const double *numbers, size_t count, size_t step);
/* The norm of a column of a matrix [in][columns], or the other way round; and the largest of all */
double fast_column(const float *w, size_t in, size_t columns, int out_in, size_t c);
double fast_largest_column(const float *w, size_t in, size_t columns, int out_in);

#endif
