/* SPDX-License-Identifier: MIT */
/* Which weights a training call drops: Philox 4x32-10 of J. Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3" (2011), as the layer defines it.
 *
 * Left out on purpose: who asks for training (struct inputs says whether a call does).
 */
#pragma once

#include "inputs/inputs.h"

void philox(const uint32_t key[2], const uint32_t counter[4], uint32_t words[4]);
/* Factor on the weight of a query and a key, for head i of sequence b: 0, or 1 / (1 - p) */
double dropout_factor(const struct layer *layer, const struct inputs *inputs, size_t b, size_t i, size_t t, size_t j);
