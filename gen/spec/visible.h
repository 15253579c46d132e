/* SPDX-License-Identifier: MIT */
/* Which keys a query may see by its position: the masks of position as rules, and all that follows from the rules.
 *
 * p is the position of a query: its row t, and what the layer's offset adds to that.
 *
 * The templates test and cut by the same rules (context.c), the reference and the model of time by the functions here.
 * Left out on purpose: what only a call knows, which is lengths (the keys that exist) and mask tensors (score.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "expression/expression.h"

struct layer;

enum visible_kind {
    VISIBLE_TO,   /* j <= p + offset */
    VISIBLE_FROM, /* j >= p + offset */
    VISIBLE_NOT   /* j != p + offset */
};

struct visible_rule {
    enum visible_kind kind;
    int64_t offset;
    bool lifted; /* VISIBLE_TO: keys before the sequence's prefix are seen all the same */
    int64_t cut; /* VISIBLE_TO: blocks that queries from p on see whole end at p + cut: offset + 1, or before */
};

#define VISIBLE_RULES 4
/* Those of the layer, which all hold at once, in the order in which kernels test them; returns their number. */
int visible_rules(const struct layer *layer, struct visible_rule rules[VISIBLE_RULES]);
/* Position of query 0, of n queries and m keys that all exist;
 * with offset = past where the last query is the last key. */
int64_t visible_offset(const struct layer *layer, int64_t n, int64_t m);
/* Whether all rules let the query at p see key j; the same of a sequence with `prefix` keys that all see. */
bool visible_pair(const struct layer *layer, int64_t p, int64_t j);
bool visible_pair_behind(const struct layer *layer, int64_t prefix, int64_t p, int64_t j);
/* The query at p sees only keys p - left ... p + right; LAYER_UNBOUNDED: all on that side. */
void visible_reach(const struct layer *layer, int64_t *left, int64_t *right);
/* Query-key pairs of n queries and m keys, with that offset, and no prefix. */
int64_t visible_pairs(const struct layer *layer, int64_t n, int64_t m);

/* Every head, position and key that a call may bring, and the positions that kernels compute after the last query. */
struct expression_box visible_box(const struct layer *layer);

/* Whether `visible` is provably never true, whatever head, position and key a call may have. */
bool visible_never(const struct layer *layer);

/* Whether `visible` is an expression of head and positions alone, so that whole blocks are known to be seen or not. */
bool visible_by_blocks(const struct layer *layer);

/* Of a layer that is visible by blocks, of one head at the compiled limits: shares of blocks of `queries` and 16
 * keys that are computed, and that are tested pair by pair; of up to 64 rows of blocks spread evenly. */
struct visible_share {
    double computed, tested;
};
struct visible_share visible_shares(const struct layer *layer, int64_t head, int64_t queries);
/* A picture of it, rows of up to VISIBLE_MAP characters, a newline after each: '#' seen by all,
 * '+' by some, '.' by none. */
#define VISIBLE_MAP 24
void visible_map(const struct layer *layer, int64_t head, char text[VISIBLE_MAP * (VISIBLE_MAP + 1) + 1]);

/* What follows is what the emitted functions of the same names do, at the compiled limits. */
struct visible_range {
    int64_t first, end;
};
/* The keys that some of the queries at p ... last may see; with the two exchanged, those that all of them see. */
struct visible_range visible_keys(const struct layer *layer, int64_t p, int64_t last);
/* Where the block of keys that begins at `key` ends at the latest, for `lanes` queries from p on; whether one of them
 * may not see one of its keys. */
int64_t visible_cut(const struct layer *layer, int64_t lanes, int64_t p, int64_t key, int64_t end, bool *hidden);
/* The keys that `block` queries from p on go through together: up to two runs. */
void visible_runs(const struct layer *layer, int64_t block, int64_t p, struct visible_range run[2]);
