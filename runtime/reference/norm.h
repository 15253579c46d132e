/* SPDX-License-Identifier: MIT */
/* A norm of one row, of a head's queries and keys or of a block's tokens: in double, and its errors in f32
 * (docs/bound_block.md, "Norm and rotation").
 *
 * Left out on purpose: which rows are normed (finish.h, block.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum norm_kind { NORM_ROW_RMS, NORM_ROW_LAYER, NORM_ROW_L2 };

struct norm {
    enum norm_kind kind;
    double eps;
};

/* What a norm subtracts from a row's columns, their mean or 0, and what it divides them by */
struct norm_row {
    double middle, divisor;
    double squares; /* the sum that the divisor comes from */
};
struct norm_row norm_of(const struct norm *norm, const double *x, size_t count);

/* ---- errors: names are docs/bound_block.md's */

struct norm_rounding {
    double omega, phi;
    double factor; /* factor on gains and shifts: 1, or that of queries */
    bool of_block; /* the kernel subtracts the first number from all others before the mean, and scales a row down
                    * whose squares overflow; otherwise such a row is open */
};

/* The columns that a norm is taken over, with their errors; NULL: they have none. */
struct norm_columns {
    const double *x;
    const double *worst;
    size_t count;
};

/* x / divisor: what all columns of a row share. */
struct norm_divided {
    double inverse, middle;
    double middle_worst;   /* error of the mean that is subtracted */
    double first, first_worst; /* distance from it of the number that is subtracted first, and its error; 0: none is */
    double worst;          /* relative error of the inverse */
    double most;           /* largest |x| inverse that any x and its norm can give */
    double lost;           /* error of underflow in a row that the kernel scales down */
    bool open;             /* f32 may overflow on the way */
};
struct norm_divided norm_divide(const struct norm *norm, const struct norm_rounding *e,
                                const struct norm_columns *of);

/* Turns one column's error of x into that of gain (x - middle) inverse + shift; gain and shift are sizes, times the
 * factor. Returns whether f32 may overflow on the way. */
bool norm_error(const struct norm_divided *by, const struct norm_rounding *of, double x, double gain, double shift,
                double *worst);
