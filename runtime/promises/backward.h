/* SPDX-License-Identifier: MIT */
/* The backward pass of a layer that trains: its gradients within the gate, and its promises. The same bits however
 * the work is divided, nothing from what is hidden, NaN that is not swallowed, gradients that are added or left out as
 * asked, wrong calls that are refused.
 *
 * Left out on purpose: forward (promises.h).
 */
#ifndef ATTNRUN_BACKWARD_H
#define ATTNRUN_BACKWARD_H

#include "kernels/load.h"

/* Over all gradients. */
struct backward_figures {
    double error, ratio; /* the largest; of the gate */
};

struct backward {
    const struct kernel *kernel;
    const struct layer *layer;
    const void *packed; /* filled by the kernel's pack */
    uint64_t seed;
    double slack; /* times the gate: 1, or GRADIENT_ANY_DATA */
    struct backward_figures figures; /* of all calls so far */
};

/* Checks one call on `inputs`, which are finite; with `all` the promises too. False with the reason in `why`, or in
 * `diag`. */
bool backward_holds(struct backward *backward, const struct inputs *inputs, bool all, char why[300],
                    struct diag *diag);

#endif
