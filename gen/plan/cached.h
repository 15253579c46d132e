/* SPDX-License-Identifier: MIT */
/* Attention over a cache: its blocks of rows and of keys, tiles, segments and prefetches.
 *
 * Left out on purpose: attention without a cache (step_attend.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "plan/tiles.h"

/* Of a layer with a cache: attention by rows, one for each query and head, with keys along the lanes. What becomes
 * of a row depends on positions alone, not on the call that brings it. */
struct plan_cached {
    int64_t key_block; /* softmax takes positions k key_block ... (k + 1) key_block - 1 at once */
    int64_t few_block; /* positions of a softmax block of few rows */
    int64_t s_row;     /* floats from row to row of a block's scores */
    int64_t segment;   /* a multiple of it: positions after which sums begin anew; they are joined in order */
    int64_t segments;  /* a sequence's, at most */
    int64_t queries;   /* tokens whose rows make a block */
    int64_t rows;      /* of a block: as many for each token as heads share keys */
    int64_t split;     /* most tokens of a group of sequences for which each segment is a part */
    int64_t few_rows;  /* rows, at most, whose scores are dot products along the features; 0: none */
    int64_t few_queries; /* the same in queries of a call */
    int64_t ahead;     /* rows of keys and values between a read and its prefetch, for few rows; 0: none are */
    int64_t ahead_keys; /* keys of a sequence from which on it prefetches: shorter ones lie in L2 */
    int64_t lone_vecs;  /* of a row that shares its keys with no other: vectors of its query that stay in
                         * registers over a vector of keys; 0: as several rows do */
    int64_t half_vecs;  /* most vectors of a tile that reads and sums halves of vectors, for such a row and for the
                         * values of one row; 0: none does */
    int64_t query_vecs; /* of a row of few: vectors of its query that stay in registers while four keys are met; with
                         * exact = portable: vectors of a key that are read at once */
    int64_t held_rows; /* exact = portable: rows of few, at most, whose queries stay in registers while keys pass */
    int64_t value_keys, value_keys_of_many; /* that stay in L1 meanwhile; the same from many_rows on */
    int64_t sweep_keys, swept_keys; /* sweep_keys: keys of a sequence from which on values are read once in order
                                     * before tiles read parts of them, swept_keys' at a time; 0: never */
    int64_t many_rows;              /* values are swept for fewer rows than these */
    int64_t early, early_floats; /* where a block has one row: lines of values that are prefetched with each vector
                                  * of its powers, and floats at most; 0: none are */
    int64_t row_vecs;  /* of a tile of scores with rows along the lanes and keys as they lie; 0: keys lie there */
    int64_t key_lines, key_unroll; /* lines that an iteration of such a tile prefetches of the next keys, its steps */
    struct tile_heights key_tiles; /* keys of such tiles */
    int64_t vecs, low_vecs; /* of a tile, and of one that is one row high */
    int64_t q_row, o_row; /* of a row's query and of its sums, padded to whole vectors */
    int64_t words_row; /* words of a row's query as whole numbers, after the queries */
    struct tile_heights word_panels; /* vectors of a value as whole numbers, as widths */
    struct tile_heights tiles, dot_tiles;
    bool values_in_order; /* few rows read them one after the other */
    int64_t shared_rows; /* few rows from which on all read the values of value_keys keys before the next ones */
    struct tile_heights few_tiles; /* for the values of few rows, as wide as a value; none: `tiles` serve as well */
    struct tile_heights panels, low_panels, few_panels; /* vectors of a value, as widths */
};
