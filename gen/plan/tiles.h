/* SPDX-License-Identifier: MIT */
/* Rows of a product cut into register tiles: lists of heights, which the plan makes once, the templates walk and the
 * model of the time sums over.
 *
 * A list is walked from its first tile on: a tile is taken as often as its height fits into the rows that are left, but
 * not where exactly stop[0] or stop[1] rows are left.
 *
 * Left out on purpose: which height is best (plan_tiles.c).
 */
#pragma once

#include <stdint.h>

#define TILE_HEIGHTS 24

struct tile_height {
    int64_t rows;
    int64_t count;    /* tiles of it in a whole run, 0: as many as fit */
    int64_t stop[2];  /* rows left at which it gives way to a lower one, so that what is left is cut evenly; 0: none */
    int64_t unroll;   /* steps of the sum in one iteration */
    int64_t prefetch; /* cache lines that an iteration prefetches; over a cache 1: it prefetches what lies ahead */
    int64_t registers; /* tile registers that its rows take; 0: rows are of vectors */
};

struct tile_heights {
    int64_t count;
    struct tile_height at[TILE_HEIGHTS]; /* the highest first, each height once */
};

/* For runs of any length: near-equal heights of at most `max_rows` rows for `total` and for `rest` (0: none), which are
 * cut evenly; then each `step` times lower, rounded up, down to 1. 16 and 0 by 6 and 4: 6 (not where 10 are left), 5,
 * 2, 1. */
void tiles_for_runs(struct tile_heights *heights, int64_t total, int64_t rest, int64_t max_rows, int64_t step);

/* For one run of `total` rows: near-equal heights of at most `max_rows` rows. 7 by 3: one of 3, two of 2. */
void tiles_for_one(struct tile_heights *heights, int64_t total, int64_t max_rows);

/* Ahead of lower ones of vectors: of two tile registers of `rows` rows each, then of one. */
void tiles_add_registers(struct tile_heights *heights, int64_t rows);

/* Tiles of that height that a walk takes where *left rows are left, which then are fewer. */
int64_t tiles_taken(const struct tile_height *height, int64_t *left);
