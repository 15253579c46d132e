/* SPDX-License-Identifier: MIT */
/* Norm and rotation between the projections of queries and keys and their scores, in double.
 *
 * Left out on purpose: rounding (finish_error.h), and the generator's frequencies, which this knows nothing of.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "norm.h"
#include "base/memory.h"

struct layer;

/* The rotation of a pair of columns, as two factors; `angle`: its size in radians */
struct turn {
    double cosine, sine, angle;
};

/* One head's rows of queries, or of keys. */
struct finish {
    size_t rows, d, heads;  /* d columns; heads that a row has, for rms_all */
    double *from;           /* [rows][d] as projected */
    double *all, *all_size; /* rms_all: [rows][heads][d], of every head; and |x||W| + |b| of it. Else NULL */
    double *gain, *shift;   /* [d]; NULL: the norm has none */
    struct turn *turns;     /* [rows][rope_dims / 2]; NULL: no rotation */
};
/* Of at most `rows` rows, in the pool. */
struct finish finish_make(struct pool *pool, const struct layer *layer, size_t rows, size_t heads);

/* The rotations of one position */
void finish_turns(const struct layer *layer, int64_t position, struct turn *turns);
/* Rotates the columns of one row back. */
void finish_turn_back(const struct layer *layer, const struct turn *turns, double *row);

/* The norm of qk_norm; and the columns of one row that it covers, with their number */
struct norm finish_norm(const struct layer *layer);
const double *finish_columns(const struct finish *of, size_t row, size_t *count);

/* to[rows][d]; without turns, the rows before rotation */
void finish_rows(const struct layer *layer, const struct finish *of, double *to);
