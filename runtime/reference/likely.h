/* SPDX-License-Identifier: MIT */
/* How far a right kernel's y is from the reference as a rule, measured: docs/bound.md, "The measured gate".
 *
 * Left out on purpose: the bound, which holds for any data (bound.h).
 */
#pragma once

#include "bound.h"

/* Fills bounds->y_likely, for the random inputs of which reference and bounds are. It stays NULL for layers that
 * round to narrower types on the way, whose errors are steps; with a score of positions, which no copy moves; and
 * for narrow y. `sample` as for bounds_compute(). */
void likely_measure(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                    const struct inputs *inputs, bool sample);
