/* SPDX-License-Identifier: MIT */
/* The promises about a kernel that no error bound shows: the same bits however the work is divided, hidden values that
 * do not matter, NaN that is not swallowed, memory that is not touched, no state, wrong calls that are refused.
 *
 * Left out on purpose: accuracy (compare.h).
 */
#pragma once

#include "trial.h"

enum promises {
    PROMISES_OF_VALUES, /* those that may depend on the tensors' content */
    PROMISES_ALL
};

/* Runs the trial's kernel on `inputs` (finite ones) in many ways. Returns true if the promises hold; else `why` of the
 * trial says which one does not. */
bool promises_hold(const struct trial *trial, const struct inputs *inputs, enum promises which);

/* Checks a single promise on many calls: nothing past the end of an input is read. */
bool promises_read_within(const struct trial *trial, const struct inputs *const *calls, size_t count);
