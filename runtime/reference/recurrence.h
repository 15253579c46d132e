/* SPDX-License-Identifier: MIT */
/* The states of layer = recurrent in double, token by token, and how far a kernel in f32 may be from them.
 *
 * Left out on purpose: chunks; the recurrence alone defines the layer.
 */
#ifndef ATTNRUN_RECURRENCE_H
#define ATTNRUN_RECURRENCE_H

#include "inputs/inputs.h"

struct bounds;
struct reference;

/* Of f32: the least size of a product's error; below which numbers may be taken as 0. */
struct recurrence_rounding { double omega, phi; };

/* Fills reference->y of y_rows and reference->cache[0], the states after the call; with `bounds` its y and cache[0]
 * too. */
void recurrence_compute(const struct reference *reference, const struct bounds *bounds, const struct layer *layer,
                        const struct inputs *inputs, struct recurrence_rounding rounding);

#endif
