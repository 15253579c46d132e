/* SPDX-License-Identifier: MIT */
/* How far norm and rotation of queries and keys in f32 may be off: docs/bound_block.md, "Norm and rotation".
 *
 * Left out on purpose: the projections before them and the scores after them (bound.c).
 */
#pragma once

#include "finish.h"

/* Errors of one head's rows: from those of the projection to those of factor times the normed and rotated rows */
struct finish_error {
    const struct layer *layer;
    const struct finish *of;
    double factor;             /* for queries |scale| log2(e), which packing multiplies into gains; 1 for keys, and
                                * if the projection contains it already */
    double omega, phi;         /* as in bound.c */
    size_t depth;              /* number of products in a sum of the projection */
    double *worst;             /* [rows][row], of which the first d count */
    size_t row;
    const double *all_worst;   /* rms_all, [rows][heads][d]: what errors of the projection's input add to its own; NULL:
                                * the input is exact */
    unsigned char *open;       /* [rows] f32 may overflow on the way */
};
void finish_errors(const struct finish_error *e);
