/* SPDX-License-Identifier: MIT */
/* The promises that promises.c lists, by the files that have them: each says what it is about and what it leaves out. A
 * promise is true of layers that lack what it is about.
 */
#pragma once

#include "trial.h"

/* values.c: NaN in rows, in one column of them, and in values alone; infinities; NaN and infinity in mask_add; huge
 * numbers */
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

bool states_hold(struct trial *trial);   /* states.c */
bool keeping_holds(struct trial *trial); /* keeping.c */
bool merging_holds(struct trial *trial); /* merging.c: y and lse of the first run */
bool moving_holds(struct trial *trial);  /* moving.c */
bool packing_holds(struct trial *trial); /* packing.c: the weights of the trial's inputs are changed temporarily */
