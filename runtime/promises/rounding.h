/* SPDX-License-Identifier: MIT */
/* The promise of tensor_type: y and attn are those of the same layer in f32, of the widened inputs, rounded once. And
 * of fast products of whole numbers: y and attn are those of the same layer with classical ones.
 *
 * Left out on purpose: how near they are to the reference (verify.h).
 */
#pragma once

#include "trial.h"

/* Runs both kernels on what `in` has, by the instruction set `isa`. False with the reason in the trial's `why`. */
bool rounding_holds(const struct trial *trial, const struct kernel *plain, const struct layer *plain_layer,
                    const struct inputs *in, int isa);
