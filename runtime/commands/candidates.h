/* SPDX-License-Identifier: MIT */
/* The plans that are worth measuring for a layer on one instruction set, chosen by the model (gen/plan/expect.h).
 *
 * Left out on purpose: compiling, checking, timing (tune.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/request.h"

struct layer;
struct diag;

struct candidate {
    struct plan_request request; /* without keys that do not change the plan */
    double cycles;               /* as the model expects them; 0: it does not know the set */
    size_t made;                 /* its number: if the model sees no difference, the earlier one comes first */
};

struct candidates {
    const struct layer *layer;
    size_t isa_row;
    int64_t batch; /* sequences a call */
    struct candidate *item; /* the default first, then in the order in which they should be measured */
    size_t count;
    size_t considered; /* number of different plans */
};

/* `fold`: whether folding is to be chosen too. False, with the reason in `diag`, on a bad plan.* key of the spec;
 * candidates_free() in any case. */
bool candidates_make(struct candidates *candidates, const struct layer *layer, size_t isa_row, int64_t batch, bool fold,
                     struct diag *diag);
/* Adds `request` if its plan differs from all others; false if not. */
bool candidates_add(struct candidates *candidates, const struct plan_request *request);
void candidates_free(struct candidates *candidates);
