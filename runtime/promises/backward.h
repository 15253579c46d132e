/* SPDX-License-Identifier: MIT */
/* The backward pass of a layer that trains: its gradients within the gate, and its promises. The same bits however
 * the work is divided, nothing from what is hidden, NaN that is not swallowed, gradients that are added or left out as
 * asked, wrong calls that are refused.
 *
 * Left out on purpose: forward (promises.h).
 */
#pragma once

#include "trial.h"

/* Over all gradients. */
struct backward_figures {
    double error, ratio; /* the largest; of the gate */
};

/* Checks one call on `inputs`, which are finite; with `all` the promises too. `slack`: times the gate, 1 or
 * GRADIENT_ANY_DATA. `figures`: of all calls so far; `digest`: continued by what the call leaves. False with the reason
 * in the trial's `why`, or in its `diag`. */
bool backward_holds(const struct trial *trial, const struct inputs *inputs, double slack, bool all,
                    struct backward_figures *figures, uint64_t *digest);
