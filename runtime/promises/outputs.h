/* SPDX-License-Identifier: MIT */
/* What a call writes, each tensor between guard zones: y, attn, lse, and a cache, which begins with what the inputs
 * have.
 *
 * Left out on purpose: what a layer that trains writes besides (backward.c).
 */
#pragma once

#include "guarded.h"
#include "kernels/load.h"
#include "reference/compare.h"
#include "reference/portable.h"

struct outputs {
    union {
        struct guarded of[OUTPUTS]; /* by enum call_output */
        struct {
            struct guarded y, attn, lse, cache[CACHE_PARTS];
        };
    };
};

/* `offset`: bytes off a boundary, less 2 for tensors of 16 bits. Frees what there was. */
void outputs_make(struct outputs *outputs, const struct layer *layer, const struct inputs *in, size_t offset);
/* As outputs_make() leaves them */
void outputs_fill(struct outputs *outputs, const struct layer *layer, const struct inputs *in);
/* The cache alone */
void outputs_load(struct outputs *outputs, const struct layer *layer, const struct inputs *in);
void outputs_copy(struct outputs *to, const struct outputs *from);
void outputs_free(struct outputs *outputs);
struct kernel_args outputs_args(const struct outputs *outputs, const struct layer *layer, const struct inputs *in);

/* The first tensor around which something was written, which is no longer as outputs_fill() leaves it, or which has
 * other bits in the other outputs. NULL: none */
const char *outputs_outside(const struct outputs *outputs, const struct layer *layer);
const char *outputs_written(const struct outputs *outputs, const struct layer *layer, const struct inputs *in);
const char *outputs_differ(const struct outputs *a, const struct outputs *b, const struct layer *layer);
/* Compares them with the reference, each into its comparison. Returns the first that has misses; NULL: none has. */
const struct comparison *outputs_compare(const struct outputs *outputs, const struct layer *layer,
                                         const struct inputs *in, const struct reference *reference,
                                         const struct bounds *bounds, struct comparison of[OUTPUTS_COMPARED]);
/* exact = portable: whether all numbers have the bits of `expected`, NaN being one number; else `why` names the first
 * that has others, and both. `prefix`: before the tensor's name */
bool outputs_same(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor, const char *prefix,
                  const void *is, const void *expected, char why[300]);
bool outputs_are(const struct outputs *outputs, const struct layer *layer, const struct inputs *in,
                 const struct portable *expected, char why[300]);

/* Runs all parts of a call, the last of each phase first, by workers in turn. Returns the first error. */
int outputs_run_parts(const struct kernel_table *call, const void *packed, const struct kernel_args *args,
                      void *scratch, size_t workers);
