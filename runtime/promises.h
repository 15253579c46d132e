/* SPDX-License-Identifier: MIT */
/* The contract's promises about a kernel that no error bound shows: same bits however the work is cut, hidden values
 * that do not matter, NaN that is not swallowed, memory that is not touched, wrong calls that are refused.
 *
 * Left out on purpose: accuracy (compare.h).
 */
#ifndef ATTNRUN_PROMISES_H
#define ATTNRUN_PROMISES_H

#include "load.h"

/* Runs the kernel on `inputs` (finite ones) in many ways. Returns true when all promises hold; else `why` says which
 * one does not. `packed` was filled by the kernel's pack. */
bool promises_hold(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, uint64_t seed, char why[300], struct diag *diag);

#endif
