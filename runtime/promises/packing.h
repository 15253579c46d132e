/* SPDX-License-Identifier: MIT */
/* What is promised of a packed block: which instruction set it is for, that wrong weights are refused, and that only a
 * block that was packed whole, for this very layer, is taken for one.
 *
 * Left out on purpose: what the weights become (compare.h shows it).
 */
#ifndef ATTNRUN_PACKING_H
#define ATTNRUN_PACKING_H

#include "trial.h"

/* The weights of the trial's inputs are changed temporarily. */
bool packing_holds(struct trial *trial);

#endif
