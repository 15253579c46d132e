/* SPDX-License-Identifier: MIT */
/* layer = recurrent in double: what is made of x, the convolution, the recurrence (recurrence.h), the gated norm, the
 * product with W_O; and how far a kernel in f32 may be off.
 *
 * Left out on purpose: a block around it (block.h).
 */
#pragma once

#include "inputs/inputs.h"
#include "norm.h"

struct bounds;
struct reference;

/* Fills reference_attention() of y_rows and reference->cache: states, and the convolution's, after the call; with
 * `bounds` those too, whose arrays have room. */
void recurrent_compute(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                       const struct inputs *inputs, const struct norm_rounding *rounding);
