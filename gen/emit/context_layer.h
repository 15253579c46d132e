/* SPDX-License-Identifier: MIT */
/* What templates read of a layer: its keys, what follows from them, rules of position, terms of a score, tensors.
 *
 * Left out on purpose: the plan (context.c).
 */
#pragma once

struct emit;
struct layer;

void context_layer(const struct layer *layer, struct emit *emit);
