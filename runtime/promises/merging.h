/* SPDX-License-Identifier: MIT */
/* NAME_merge: two results over disjoint keys become one.
 *
 * Left out on purpose: how each of them is computed (compare.h).
 */
#ifndef ATTNRUN_MERGING_H
#define ATTNRUN_MERGING_H

#include "kernels/load.h"

/* Joins y and lse of a call with random ones, and compares with double precision. Returns true if the header's promises
 * hold, or the layer has no merge; else `why` says which does not. */
bool merging_holds(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, const void *y, const float *lse, char why[300], struct diag *diag);

#endif
