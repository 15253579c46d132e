/* SPDX-License-Identifier: MIT */
/* The recurrence of layer = recurrent: strips of a state's columns, and what is summed with them.
 *
 * Left out on purpose: anything about products with weights.
 */
#pragma once

#include <stdint.h>

struct isa;
struct layer;

/* Tokens that go through a state at once, 1 or layer_state_chunk(), whichever is expected to take less time on a set;
 * NULL: the most of all sets */
int64_t rule_chunk(const struct layer *layer, const struct isa *isa);

/* A state [d_k][d_v] is cut by columns into strips, each a part of its own: a strip stays in L1 from the first token to
 * the last. One pass over its rows updates it, sums the output of this token and what the state holds for the key of
 * the next one. */
struct plan_rule {
    int64_t strips;        /* of a state */
    int64_t pieces, all;   /* of a strip, at most, each in registers at once; of a state */
    int64_t vecs, rest;    /* vectors of a piece, and of the last one */
    int64_t columns;       /* of the last one's last vector */
    int64_t heads;         /* query heads of a state */
    int64_t together;      /* query heads whose outputs are summed in one pass, at most */
    int64_t unroll;        /* rows of an iteration */
    int64_t step, step_together; /* vectors of a piece of a call of one token, which sums nothing for a next one, and
                                  * its query heads; 0: as those of others */
    int64_t chunk;         /* tokens that go through a state at once; 1: one by one */
    int64_t sums, rows;    /* of a chunk: keys and queries that are multiplied with rows of S in one pass; rows of S
                            * that it changes together */
};
