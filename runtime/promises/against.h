/* SPDX-License-Identifier: MIT */
/* What the number types of a layer are compared with: the same layer with precision, weight_type, cache_type and
 * tensor_type f32, on the same numbers.
 *
 * Its reference is in double, of weights, rows, caches and inputs that nothing has rounded. The layer's own call has
 * those numbers as its types have them; rows that its cache holds are what earlier calls would have made of them.
 * Left out on purpose: a bound, which there is around weights as they are given alone (reference/bound.h).
 */
#pragma once

#include "reference/reference.h"

struct against {
    bool wanted;
    struct layer plain;          /* the layer in f32: a shallow copy */
    struct inputs given;         /* its call */
    struct inputs rounded;       /* the same for the layer itself; weights are borrowed */
    struct reference reference;  /* of that call */
};

/* Draws a call like `inputs`, whose weights it borrows. */
void against_make(struct against *against, const struct layer *layer, const struct inputs *inputs,
                  const struct inputs_draw *draw);
void against_free(struct against *against);
