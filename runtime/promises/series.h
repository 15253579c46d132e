/* SPDX-License-Identifier: MIT */
/* The calls that a check makes besides its main one, each with its reference and bounds: of many sizes, and with scores
 * of every size.
 *
 * Left out on purpose: running them (verify.h).
 */
#pragma once

#include "reference/bound.h"
#include "reference/portable.h"

struct series_call {
    struct inputs inputs; /* in a series on weights that are borrowed */
    struct reference reference;
    struct bounds bounds;
    struct portable portable; /* exact = portable: what the call leaves */
};

struct series {
    struct series_call *call;
    /* batches of short sequences first, then sequences of many sizes, on the drawn weights; the rest on their own */
    size_t count, batches, sized;
    struct inputs extreme_weights;
    struct inputs stream, deep_stream, extreme_stream; /* whole sequences, and tokens after many others, for a cache;
                                                        * n = 0 without one */
};

/* The layer and `draw` determine everything; `drawn` has the weights, and the main call's work limits the number of
 * calls. */
void series_make(struct series *series, const struct layer *layer, const struct inputs *drawn,
                 const struct inputs_draw *draw, struct folds folds);
void series_free(struct series *series);
/* What a right kernel leaves of the call's inputs; `random`: these are */
void series_call_compute(struct series_call *call, const struct layer *layer, struct folds folds, bool random);
void series_call_free(struct series_call *call);
