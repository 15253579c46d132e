/* SPDX-License-Identifier: MIT */
/* The convolution over tokens, causal, of each column by itself: of q, k and v of layer = recurrent, in place, or of x.
 *
 * Left out on purpose: norms of queries and keys, which a part of layer = recurrent applies after it.
 */
#pragma once

#include <stdint.h>

/* A part has some columns of all tokens of a sequence; their rows stay in L1 from tap to tap. Tokens are taken from the
 * last to the first, so that rows may be convolved in place. */
struct plan_conv {
    int64_t columns;       /* of a part, at most: whole vectors, or all */
    int64_t row;           /* numbers of a row of earlier tokens, and of the first new ones, in the worker's scratch */
    int64_t tokens;        /* whose sums are formed together */
    int64_t unroll;        /* taps that are written out; 1: a loop */
};
