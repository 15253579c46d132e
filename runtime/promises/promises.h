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
    PROMISES_OF_VALUES, /* those that may depend on the tensors' content */
    PROMISES_ALL
};

/* Records in `why` which promise is violated, and how; returns false. violated() is for structs that have a member
 * `why`. */
bool promise_violated(char why[300], const char *format, ...) DIAG_PRINTF(2, 3);
#define violated(of, ...) promise_violated((of)->why, __VA_ARGS__)

/* Whether finite inputs may give NaN or infinity where the reference has none: an expression may overflow on the way,
 * and numbers above 65504 are infinite in an f16 cache. */
static inline bool promise_overflows(const struct layer *layer)
{
    return layer->score != NULL || layer->cache_type == TENSOR_F16 || layer->tensor_type == TENSOR_F16;
}

/* Runs the kernel on `inputs` (finite ones) in many ways. Returns true if the promises hold; else `why` says which one
 * does not. The kernel's pack has filled `packed`. */
bool promises_hold(const struct kernel *kernel, const struct layer *layer, const struct inputs *inputs,
                   const void *packed, uint64_t seed, enum promises which, char why[300], struct diag *diag);

/* Checks a single promise on many calls: nothing past the end of an input is read. */
bool promises_read_within(const struct kernel *kernel, const struct layer *layer, const struct inputs *const *calls,
                          size_t count, const void *packed, char why[300], struct diag *diag);

#endif
