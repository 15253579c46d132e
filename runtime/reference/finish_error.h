/* SPDX-License-Identifier: MIT */
/* How far norm and rotation of queries and keys in f32 may be off: docs/bound_block.md, "Norm and rotation".
 *
 * Left out on purpose: the projections before them and the scores behind them (bound.c).
 */
#ifndef ATTNRUN_FINISH_ERROR_H
#define ATTNRUN_FINISH_ERROR_H

#include "finish.h"

/* Of one head's rows: errors of what was projected go in, those of factor times what is finished come out. */
struct finish_error {
    const struct layer *layer;
    const struct finish *of;
    double factor;             /* of queries: |scale| log2(e), which packing puts into gains; 1: of keys, and where the
                                * projection has it already */
    double omega, phi, lambda; /* as in bound.h */
    double deviations;         /* of the roundings of a rotation, which a cache shows one by one; 0: none does */
    size_t depth;              /* of the projection: products of one sum */
    double *worst, *drawn;     /* [rows][d] */
    const double *all_worst, *all_squares; /* rms_all, [rows][heads][d]: what errors of the projection's input add to
                                            * its own, and to their squares; NULL: it is exact */
    double *common;            /* [rows] a relative error that all columns of a row share, for the drawn gate */
    unsigned char *open;       /* [rows] f32 may overflow on the way */
};
/* False when out of memory. */
bool finish_errors(const struct finish_error *e);

#endif
