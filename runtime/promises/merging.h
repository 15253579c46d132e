/* SPDX-License-Identifier: MIT */
/* NAME_merge: two results over disjoint keys become one.
 *
 * Left out on purpose: how each of them is computed (compare.h).
 */
#ifndef ATTNRUN_MERGING_H
#define ATTNRUN_MERGING_H

#include "trial.h"

/* Joins y and lse of the first run with random ones, and compares with double precision. True without a merge. */
bool merging_holds(struct trial *trial);

#endif
