/* SPDX-License-Identifier: MIT */
/* exact = portable: docs/portable.md's order, one number after the other, in plain C. What a kernel of any instruction
 * set leaves has these bits.
 *
 * Left out on purpose: how far these numbers are from the equations (bound.h), and what is compared with them.
 */
#pragma once

#include "base/memory.h"
#include "inputs/inputs.h"

/* What a call leaves, each number in the place and type that the interface has for it */
struct portable {
    struct pool memory;
    union {
        void *of[OUTPUTS]; /* by enum call_output */
        struct {
            void *y, *attn; /* of the layer's tensor_type; attn and lse NULL: the layer has none */
            float *lse;
            void *cache[CACHE_PARTS];
        };
    };
    float *gradient[TENSOR_COUNT]; /* of a call that trains, in the tensors' shapes; NULL: the layer has no such one */
};
/* With dy, in the shape of y, a call that trains: y, which depends on dropout, and gradients of the sum of dy y, as
 * backward adds them to zeros; NULL: one that does not */
void portable_compute(struct portable *of, const struct layer *layer, const struct inputs *inputs, const float *dy);
void portable_free(struct portable *of);
