/* SPDX-License-Identifier: MIT */
/* Calls whose scores are of every size, from 1 to 1e30, and jump wherever a kernel might cut its keys.
 *
 * The weights are made, not drawn: a head's queries read one or two columns of x as they are, its keys one or two of
 * the source, and its values the rest. So x alone decides each score, whatever the scale, and the values beside it are
 * free.
 * Left out on purpose: what must come out (reference.h, bound.h).
 */
#pragma once

#include "inputs/inputs.h"

/* Makes weights from random ones of the same layer. */
void extremes_weights(struct inputs *weights, const struct layer *layer, const struct inputs *drawn);
enum extremes {
    EXTREMES_MIXED, /* each sequence has another kind of scores */
    EXTREMES_LONG,  /* two kinds, for many blocks of keys */
    EXTREMES_LONE   /* in each sequence one query's scores alone are out of range */
};
/* Number of sequences that are needed to show all of that */
size_t extremes_batch(const struct layer *layer, enum extremes extremes);
/* Draws a call on those weights, which it borrows. */
void extremes_draw(struct inputs *inputs, const struct layer *layer, const struct inputs_draw *draw,
                   enum extremes extremes, const struct inputs *weights);
