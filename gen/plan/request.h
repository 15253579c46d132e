/* SPDX-License-Identifier: MIT */
/* What may be asked of a plan: the plan.* keys, their legal values and how these are written. A spec asks all
 * instruction sets alike, a plan file (planfile.h) each for itself.
 *
 * Left out on purpose: what a key does. plan_make.c decides that, and docs/plan.md tells it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct diag;

enum plan_key {
    PLAN_UNROLL, PLAN_QUERY_VECS, PLAN_KEY_BLOCK, PLAN_DEPTH_SLAB, PLAN_FOLD, PLAN_PREFETCH, PLAN_VALUE_LAYOUT,
    PLAN_Z_LAYOUT, PLAN_GROUP_ROWS, PLAN_PANEL_VECS, PLAN_PANEL_ROWS, PLAN_PANEL_DEPTH, PLAN_LANE_ROWS,
    PLAN_SCORE_ROWS, PLAN_VALUE_ROWS, PLAN_BATCH_ROWS, PLAN_SOFTMAX, PLAN_SIZE, PLAN_EXACT_CHUNKS, PLAN_TYPICAL_N,
    PLAN_TYPICAL_M, PLAN_SAVED, PLAN_PRODUCT_KIND, PLAN_LATENT,
    PLAN_KEYS
};

#define PLAN_AUTO (-1)
/* Values that are words. */
#define PLAN_UNROLL_FULL 0
enum { PLAN_OFF, PLAN_ON };
enum { PLAN_ROWS, PLAN_BLOCKS };
enum { PLAN_ONE_PASS, PLAN_TWO_PASS };
enum { PLAN_FAST, PLAN_SMALL };
enum { PLAN_Z, PLAN_PROJECTIONS };
enum { PLAN_CLASSICAL, PLAN_SEVEN };
enum { PLAN_ABSORBED, PLAN_EXPANDED };

struct plan_request {
    int64_t value[PLAN_KEYS]; /* PLAN_AUTO: nothing is asked */
};

struct plan_request plan_request_none(void);
const char *plan_key_name(enum plan_key key);
/* Whether all instruction sets have the same value of a key; takes those of `request` out, into `common` */
bool plan_key_common(enum plan_key key);
void plan_request_part(struct plan_request *request, struct plan_request *common);
/* PLAN_KEYS, with an error in diag, for a name that is none. */
enum plan_key plan_key_find(const char *name, const char *place, struct diag *diag);
/* Reads a value; false, with an error in diag, when it is not legal. */
bool plan_value_read(struct plan_request *request, enum plan_key key, const char *text, const char *place,
                     struct diag *diag);
/* "full", "on", "3", "auto" */
const char *plan_value_text(enum plan_key key, int64_t value, char text[24]);
/* Takes from `more` what `request` leaves open. */
void plan_request_add(struct plan_request *request, const struct plan_request *more);
/* Number of keys that have a request. */
int plan_request_keys(const struct plan_request *request);
/* "plan.unroll = 4, plan.fold = on"; nothing when nothing is asked. */
void plan_request_print(const struct plan_request *request, FILE *out);

bool request_asks(const struct plan_request *request, enum plan_key key);
/* The requested value, or `otherwise` where none is. */
int64_t request_or(const struct plan_request *request, enum plan_key key, int64_t otherwise);
/* The same, at most `fit`. */
int64_t request_within(const struct plan_request *request, enum plan_key key, int64_t fit);
/* plan.size = small */
bool request_is_small(const struct plan_request *request);
