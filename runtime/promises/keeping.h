/* SPDX-License-Identifier: MIT */
/* source_kept: a call without a source has the bits of one with it, and what does not fit is refused.
 *
 * Left out on purpose: what a call with a source computes (compare.h).
 */
#ifndef ATTNRUN_KEEPING_H
#define ATTNRUN_KEEPING_H

#include "kernels/load.h"

/* Returns true when what the header promises of kept blocks holds, or the layer keeps none; else `why` says what does
 * not. */
bool keeping_holds(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, char why[300], struct diag *diag);

#endif
