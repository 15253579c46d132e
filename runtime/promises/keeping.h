/* SPDX-License-Identifier: MIT */
/* source_kept: a call without a source has the bits of one with it, and what does not fit is refused.
 *
 * Left out on purpose: what a call with a source computes (compare.h).
 */
#ifndef ATTNRUN_KEEPING_H
#define ATTNRUN_KEEPING_H

#include "kernels/load.h"

/* Returns true if the header's promises about kept blocks hold, or the layer keeps none; else `why` says which does
 * not. */
bool keeping_holds(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, char why[300], struct diag *diag);

#endif
