/* SPDX-License-Identifier: MIT */
/* What is promised of a packed block: which instruction set it is for, that wrong weights are refused, and that only a
 * block that was packed whole, for this very layer, is taken for one.
 *
 * Left out on purpose: what the weights become (compare.h shows it).
 */
#ifndef ATTNRUN_PACKING_H
#define ATTNRUN_PACKING_H

#include "kernels/load.h"

/* Returns true if the promises hold; else `why` says which one does not. The kernel's pack has filled `packed` with the
 * weights of `inputs`, which are changed temporarily. */
bool packing_holds(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, char why[300], struct diag *diag);

#endif
