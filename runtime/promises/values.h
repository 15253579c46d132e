/* SPDX-License-Identifier: MIT */
/* What becomes of numbers that are not like all others: hidden and visible NaN and infinities, rows and columns of
 * zeros, tiny, huge and halfway numbers.
 *
 * Left out on purpose: scores of every size (extremes.h).
 */
#ifndef ATTNRUN_VALUES_H
#define ATTNRUN_VALUES_H

#include "trial.h"

/* NaN in rows, in one column of them, and in values alone; infinities; NaN and infinity in mask_add; huge numbers */
bool with_nan(struct trial *trial);
bool with_one_nan(struct trial *trial);
bool with_nan_in_values(struct trial *trial);
bool with_infinity(struct trial *trial);
bool with_masks(struct trial *trial);
bool with_huge_values(struct trial *trial);
/* Rows of x, of a cache, and columns of weights */
bool rows_at_the_ends(struct trial *trial);
bool stores_all_kinds(struct trial *trial);
bool packs_columns_of_all_kinds(struct trial *trial);
/* Columns that layer = linear returns */
bool columns_are_right(struct trial *trial);

#endif
