/* SPDX-License-Identifier: MIT */
/* What the files of the plan share: plan.c decides layouts, blocks and parts, plan_tiles.c prices register tiles,
 * plan_gradients.c lists the products of backward, plan_phases.c the phases, plan_places.c places tensors in memory,
 * plan_reasons.c tells why.
 * Left out on purpose: what others call (plan.h).
 */
#ifndef ATTNGEN_PLAN_PARTS_H
#define ATTNGEN_PLAN_PARTS_H

#include "base/arith.h"
#include "base/diag.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/layer.h"

#define LINE_BYTES 64 /* a cache line */
#define LINE_FLOATS 16
#define DIGITS 3        /* of a number (plan.h), and so many sums of a row and a vector in a tile */
#define OPERANDS TENSOR_F32 /* elements of what is multiplied with packed weights, and theirs */

/* plan_tiles.c */
int64_t tile_rows(const struct isa *isa, int64_t vecs);
int64_t word_rows(const struct plan_isa *p, int64_t vecs);
int64_t rows_fit(const struct plan_request *request, const struct isa *isa, int64_t vecs);
int64_t rows_apart(int64_t stride);
int64_t choose_query_vecs(const struct isa *isa, int64_t queries, bool streams);
int64_t choose_row_vecs(const struct isa *isa);
int64_t wide_rows(const struct isa *isa, int64_t vecs);
int64_t near_equal(int64_t total, int64_t at_most);
int64_t one_height(int64_t total, int64_t at_most);
int64_t panel_rows(const struct plan_request *request, const struct plan_isa *p, const struct plan_panels *g,
                   int64_t vecs);
int64_t choose_panel_vecs(const struct plan_request *request, const struct plan_isa *p, const struct plan_panels *g,
                          int64_t depth, int64_t tokens);
int64_t small_panel_vecs(const struct isa *isa, int64_t columns, int64_t rows);

/* plan_gradients.c */
void plan_gradients(struct plan_isa *p, const struct layer *layer);

/* plan_phases.c */
void plan_phases(struct plan *plan, const struct layer *layer);

/* plan_places.c */
void place_packed(struct plan_isa *p, const struct layer *layer);
void place_scratch(struct plan_isa *p, const struct layer *layer);
void bound_stack(struct plan_isa *p, const struct layer *layer);

/* plan_reasons.c: NULL among the reasons where memory was short */
void explain_choices(struct plan_isa *p, const struct layer *layer, bool is_small);
void explain_request(struct plan_isa *p, const char *from, const struct plan_request *request);

#endif
