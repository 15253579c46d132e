/* SPDX-License-Identifier: MIT */
/* The promises about a kernel that no error bound shows: the same bits however the work is divided, hidden values that
 * do not matter, NaN that is not swallowed, memory that is not touched, no state, wrong calls that are refused.
 *
 * Left out on purpose: accuracy (compare.h).
 */
#ifndef ATTNRUN_PROMISES_H
#define ATTNRUN_PROMISES_H

#include "kernels/load.h"

enum promises {
    PROMISES_OF_VALUES, /* those that may depend on what the tensors hold */
    PROMISES_ALL
};

/* Records in `why` which promise is violated, and how; false. violated() is for whatever has a member of that name. */
bool promise_violated(char why[300], const char *format, ...) DIAG_PRINTF(2, 3);
#define violated(of, ...) promise_violated((of)->why, __VA_ARGS__)

/* Whether finite inputs may leave NaN and infinity where the reference has none, or both: what an expression computes
 * on the way may overflow, and what is above 65504 is infinite in a cache of f16. */
static inline bool promise_overflows(const struct layer *layer)
{
    return layer->score != NULL || layer->cache_type == TENSOR_F16 || layer->tensor_type == TENSOR_F16;
}

/* Runs the kernel on `inputs` (finite ones) in many ways. Returns true when the promises hold; else `why` says which
 * one does not. `packed` was filled by the kernel's pack. */
bool promises_hold(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, uint64_t seed, enum promises which, char why[300], struct diag *diag);

/* For many calls a single promise: that nothing past the end of an input is read. */
bool promises_read_within(const struct kernel *kernel, const struct layer *layer, const struct inputs *const *calls,
                          size_t count, const void *packed, char why[300], struct diag *diag);

#endif
