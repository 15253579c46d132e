/* SPDX-License-Identifier: MIT */
/* A layer with a cache, fed whole sequences in calls of any sizes: the same bits as long as they run on the same path
 * of the kernel, or, with plan.exact_chunks = true, always.
 *
 * Left out on purpose: layers whose queries see later tokens, for which the calls are not the same question.
 */
#pragma once

#include "trial.h"

/* Whether a layer's tokens depend on those before them alone. */
bool chunks_apply(const struct layer *layer);

/* Sequences to be fed: a call of `length` tokens of each, on the weights of `weights`; of a cache that holds up to so
 * many positions, another number for each. */
void chunks_draw(struct inputs *stream, const struct layer *layer, uint64_t seed, size_t batch, size_t length,
                 int64_t past, const struct inputs *weights);
/* Feeds such a call in several ways. Each call of one of them is compared with the reference. The trial's `why` says
 * which two are not alike. */
bool chunks_hold(const struct trial *trial, const struct inputs *stream);
