/* SPDX-License-Identifier: MIT */
/* What is counted of a step for its expected time: instructions and bytes. Each kind's file counts its steps as the
 * templates compute them: the same tiles, heights, key blocks and strips of single vectors.
 *
 * Left out on purpose: from counts to cycles (expect.c).
 */
#pragma once

#include "plan/plan.h"

/* Steps whose time --explain tells apart */
enum expect_step_name {
    EXPECT_TRANSPOSE, EXPECT_QUERIES, EXPECT_KEYS, EXPECT_VALUES, EXPECT_SCORES, EXPECT_EXPONENTIAL, EXPECT_SUMS,
    EXPECT_OUTPUT, EXPECT_NORMS, EXPECT_HIDDEN, EXPECT_DOWN, EXPECT_LINEAR, EXPECT_RULE, EXPECT_GATES, EXPECT_CONV,
    EXPECT_STEPS
};

#define LINE 64.0 /* bytes of a cache line */

/* Cycles, of the cores that the figures of expect.c are of */
#define BLOCK_CYCLES 60.0       /* a block of keys for a tile of queries */
#define NORM_CYCLES 120.0       /* of LANES rows: dependent sums, roots and divisions */
#define TANH_OPERATIONS 22      /* of the softcap of layer = linear */
#define FIRST_OPERATIONS 1      /* the maximum of a score, in the first register tile of a query */

/* KiB, and bytes that one core reads in a cycle: measured over buffers that fit L2, and over 8 MiB. */
struct caches {
    double l1_kib, l2_kib, l2_rate, l3_rate;
};

/* What one instruction set's row adds. `ports`: vector multiply-adds a cycle, as attnrun measures the peak: the scalar
 * and sse4's are those of SSE's separate multiplication and addition. `exp`: port slots of 2^(s - m) and the sum of
 * weights. `hide`: port slots of a masked score outside the softmax: one test, its select, the maximum. `transpose`:
 * cycles for each number of a whole block. `stream`: cycles that each line of keys or values from L2 costs beside all
 * else: the small tiles of AVX2 lose them. Code bytes: instructions with an offset. */
struct core {
    const char *isa;
    const struct caches *caches;
    double ports, loads, exp, hide, transpose, stream, fma_bytes, load_bytes;
    double portable_exp; /* exact = portable: port slots more of 2^(s - m), which then has no floor and scalef */
    double digits; /* of rows in digits: cycles of a tile's step, over those of f32; measured with i4 on a Zen 4, where
                    * i8 takes 1 % more */
};

/* What a step does, in instructions and bytes. */
struct work {
    double fmas, port_cycles, operations; /* vector multiply-adds; their cycles, with stalls; other vector operations */
    double loads, tiles, overhead;        /* loads of vectors; tiles; overhead: cycles to begin and end tiles */
    double l2, l3, prefetched, code;      /* bytes; prefetched: from L3 as well, but before they are needed */
};

/* What the counting functions need to know. */
struct model {
    const struct layer *layer;
    const struct plan_isa *plan;
    const struct core *core;
    double far;  /* share of weights, x, y, masks and attn that comes from L3: they are read once a call */
    double near; /* the same share of what one phase leaves in the scratch for the next */
    bool again;  /* an earlier product of the same loop over row groups has read these rows */
    double input; /* numbers of each token that the step reads from L3 */
    struct work work[EXPECT_STEPS];
};

/* Query blocks of `rows` rows: whole ones, and the rows of a last, smaller one. */
struct blocks {
    int64_t whole, rest;
};
struct blocks count_blocks(const struct model *m, int64_t rows);
double share_lost(const struct caches *caches, double bytes);
double l1_bytes(const struct model *m);
double transpose_cycles(const struct model *m, int64_t rows, int64_t columns);
/* What is done to `rows` rows of a product's result: norm, rotation, activation, residual */
void count_ends(const struct model *m, struct work *w, const struct step *g, double rows);
void add_tile(struct work *w, const struct core *core, int64_t rows, int64_t vecs, double depth, int64_t unroll,
              double times);
double line_bytes(int64_t count);
double size_of(const struct model *m, enum layout_name id);
void count_far(struct model *m, struct work *w, double weights, double input, double output, int64_t rows,
               int64_t group_rows, bool prefetched, double times);
/* Steps of a sum of `count` products: one for each word where numbers are whole. */
double steps_of(const struct model *m, bool whole, double count);

/* Of the terms whose hooks see every tile of scores: tensors with a number for each pair, their bytes,
 * and operations. */
struct terms {
    double tensors, bytes, operations;
    double of_tiles; /* operations of the terms that each register tile of scores applies */
};
struct terms count_terms(const struct layer *layer);
