/* SPDX-License-Identifier: MIT */
/* What the files of the plan share: rows of steps, functions of kinds, and what steps of several kinds ask.
 *
 * Left out on purpose: what others call (plan.h), and how time is counted (expect_counts.h).
 */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "base/arith.h"
#include "base/diag.h"
#include "plan/expect_counts.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/layer.h"

#define LINE_BYTES 64 /* a cache line */
#define ALIGN 64      /* bytes: packed weights and every array of the scratch start there */
#define LINE_FLOATS 16
#define DIGITS 3        /* of a number (struct plan), and as many sums of a row and a vector in a tile */
#define OPERANDS TENSOR_F32 /* elements of what is multiplied with packed weights, and theirs */
#define PART_MULTIPLY_ADDS 1e6 /* least work of a part: about 10 us on one core */
#define PART_NUMBERS 32768     /* of rows that are normed or rounded: the same */
#define FAST_UNASKED 256 /* tokens of a sequence for fast products of whole numbers that nobody asked for: with fewer,
                          * what seven products save is lost where others use L3 (Zen 4) */
#define ROWS_STEP 4      /* heights for what is left over: 16, 4 and 1 rows; 8 and 2 made no layer faster */
#define PREFETCH_TILES 2 /* tiles that bring a panel into L2 while they pass over the one before; measured, Zen 4 */
#define UNROLL_PREFETCH 8 /* steps of an iteration: one line in each prefetches about a panel during a row group */
#define BATCH_ROWS 256   /* tokens that make a panel of weights worth fetching */
#define FMA_LATENCY 4    /* cycles, from Skylake on */
#define MAX_PREFETCH 4   /* lines an iteration: more would fill the line buffers that the loads need */
#define D64 "%" PRId64

/* Plans a step whose columns are set; false: the layer does not have it. */
typedef bool step_plan(struct plan_isa *p, const struct layer *layer, struct step *g);

/* step_table.c: a row of step_rows.h */
struct step_row {
    const char *label;
    enum step_kind kind;
    const char *phase, *phase_name; /* NULL: it has no parts of its own */
    const char *name;
    step_plan *plan;
    enum layout_name reads[2], writes;
    unsigned epilogue;
    enum task_over over;
    bool of_keys;
    enum expect_step_name expected;
    bool trains; /* its gradient is among the steps of backward */
};
extern const struct step_row step_rows[STEPS];
void plan_steps(struct plan_isa *p, const struct layer *layer);
void plan_phases(struct plan *plan, const struct layer *layer);

/* What a kind has besides planning; NULL: nothing */
struct step_kind_row {
    void (*place)(struct plan_isa *p, const struct step *g); /* its weights in the packed block */
    void (*prefetch)(struct plan_isa *p, const struct layer *layer, struct step *g);
    void (*schedule)(struct plan_isa *p, struct step *g);    /* lists that templates walk */
    void (*count)(struct model *m, struct work *w, const struct step *g, int64_t tokens, double times);
    void (*print)(FILE *out, const struct plan_isa *p, const struct step *g); /* its tiles' heights */
};
extern const struct step_kind_row panels_kind, lanes_kind, norm_kind, copy_kind, tiles_kind, rule_kind, conv_kind,
    other_kind;
extern const struct step_kind_row *const step_kinds[STEP_KINDS];

#define STEP(name, label, kind, phase, phase_name, text, plan, ...) step_plan plan;
#include "plan/step_rows.h"
#undef STEP

/* plan_fold.c */
double packed_weights(const struct layer *layer, bool scores, bool values);
struct plan_fold plan_fold(const struct layer *layer, const struct plan_request *request);

/* plan_inputs.c: layouts of what a call brings and of what stands for it; rows of other layouts */
void plan_inputs(struct plan_isa *p, const struct layer *layer);
void choose_batch(struct plan_isa *p, const struct layer *layer);
bool batches_apart(const struct layer *layer); /* sequences one by one: bits depend on which are taken together */
void plan_rowwise(struct plan_isa *p, const struct layer *layer);
void plan_given(struct plan_isa *p, const struct layer *layer, bool batch);
int64_t row_stride(const struct plan_isa *p, int64_t columns);
struct layout rows_of(const char *name, enum layout_owner owner, int64_t heads, int64_t tokens, int64_t features,
                      int64_t head, int64_t row);
struct layout given_of(const struct layer *layer, const char *name, int64_t heads, int64_t tokens, int64_t d);
struct layout blocks_of(const struct plan_isa *p, const char *name, int64_t heads, int64_t blocks, int64_t features,
                        int64_t head, int64_t columns);
struct layout stream_of(const struct plan_isa *p, const struct layer *layer, const char *name);
bool is_callers(const struct plan_isa *p, enum layout_name id);
enum layout_name input_read(const struct layer *layer, bool queries);
/* The rows whose sums are taken: values, or keys that are values too */
static inline enum layout_name values_read(const struct layer *layer)
{
    return layer->shares ? LAYOUT_KEYS : LAYOUT_VALUES;
}
enum layout_name rows_read(const struct plan_isa *p, const struct layer *layer);
void type_output(struct plan_isa *p, const struct layer *layer);

/* plan_tiles.c */
int64_t tile_rows(const struct isa *isa, int64_t vecs);
int64_t word_rows(const struct plan_isa *p, int64_t vecs);
int64_t rows_fit(const struct plan_isa *p, int64_t vecs);
int64_t rows_apart(int64_t stride);
int64_t few_left(int64_t queries, int64_t block, int64_t lanes, int64_t few);
int64_t choose_query_vecs(const struct plan_isa *p, int64_t queries, bool streams);
int64_t choose_row_vecs(const struct isa *isa);
int64_t wide_rows(const struct isa *isa, int64_t vecs);
int64_t near_equal(int64_t total, int64_t at_most);
int64_t one_height(int64_t total, int64_t at_most);
int64_t panel_rows(const struct plan_isa *p, const struct plan_panels *g, int64_t vecs);
int64_t choose_panel_vecs(const struct plan_isa *p, const struct plan_panels *g, int64_t depth, int64_t tokens);
int64_t small_panel_vecs(const struct isa *isa, int64_t columns, int64_t rows);
int64_t choose_unroll(const struct plan_isa *p, int64_t depth);
int64_t choose_group_rows(const struct plan_isa *p, int64_t bytes, int64_t rows);
int64_t line_weights(enum tensor_element type);
int64_t prefetch_lines(int64_t weights, int64_t line, int64_t tiles, int64_t iterations);

/* step_panels.c */
bool takes_registers(const struct plan_isa *p, int64_t word, int64_t depth);
void plan_panels(struct plan_panels *g, const struct plan_isa *p, int64_t tokens, int64_t rows);
void prefetch_across(struct plan_isa *p);
void plan_in_order(struct plan_isa *p, const struct layer *layer);
void share_tiles(struct plan_isa *p, bool skips);
void explain_panels(struct plan_isa *p);
void explain_fast(struct plan_isa *p);

/* step_products.c: begins a product of rows as they lie, `depth` numbers of each, that writes rows; ends it once its
 * columns and strides are known: for `tokens` of a full sequence, or more that are taken together */
struct plan_panels *begin_panels(const struct plan_isa *p, struct step *g, int64_t depth, int64_t columns, bool bias);
void end_panels(struct plan_isa *p, const struct layer *layer, struct step *g, int64_t tokens, int64_t together);
bool projections_join(const struct plan_isa *p, const struct layer *layer);
void explain_finish(struct plan_isa *p, const struct layer *layer);
void explain_rows_of_heads(struct plan_isa *p, const struct layer *layer);
void explain_block(struct plan_isa *p, const struct layer *layer);

/* step_lanes.c */
void plan_value_tiles(struct plan_isa *p, const struct layer *layer, struct step *g);
void explain_lanes(struct plan_isa *p);

/* step_rule.c */
void plan_recurrent(struct plan_isa *p, const struct layer *layer);
void place_rule_packed(struct plan_isa *p, const struct layer *layer);
void place_rule(struct plan_isa *p, const struct layer *layer);
void explain_rule(struct plan_isa *p, const struct layer *layer);

/* step_conv.c */
void plan_convolution(struct plan_isa *p, const struct layer *layer);
void place_conv(struct plan_isa *p, const struct layer *layer);
void explain_conv(struct plan_isa *p, const struct layer *layer);

/* step_norm.c */
bool norms_y(const struct layer *layer);

/* step_round.c */
bool reads_rounded(const struct plan_isa *p);
void reads_words(const struct plan_isa *p, const struct step *step, struct plan_panels *g);

/* plan_blocks.c */
void choose_blocks(struct plan_isa *p, const struct layer *layer);
void plan_after_steps(struct plan_isa *p, const struct layer *layer);

/* step_attend.c */
void prefetch_attention(struct plan_isa *p, const struct layer *layer, bool asked);
void place_tiles(struct plan_isa *p, const struct layer *layer);
void count_attention(struct model *m, int64_t together, double times);
void explain_attention(struct plan_isa *p, const struct layer *layer);

/* step_cached.c */
void plan_cached(struct plan_isa *p, const struct layer *layer);
void place_cached(struct plan_isa *p, const struct layer *layer);
void place_expanded(struct plan_isa *p, const struct layer *layer, int64_t before);
void print_cached(FILE *out, const struct plan_isa *p, const char *name);
void count_cached(struct model *m, double times);
void count_expanded(struct model *m, double times);
void explain_cached(struct plan_isa *p, const struct layer *layer);
void explain_expanded(struct plan_isa *p);

/* step_back.c */
void plan_back(struct plan_isa *p, const struct layer *layer);
void place_back_packed(struct plan_isa *p, const struct layer *layer);
void place_back(struct plan_isa *p, const struct layer *layer);

/* layouts.c */
void place(struct plan_isa *p, enum layout_name id);
void place_new(struct plan_isa *p, enum layout_name id, const char *name, enum layout_owner owner, int64_t rows,
               int64_t columns);

/* plan_places.c */
void place_packed(struct plan_isa *p, const struct layer *layer);
void place_scratch(struct plan_isa *p, const struct layer *layer);
void bound_stack(struct plan_isa *p, const struct layer *layer);

/* reasons.c: NULL among the reasons where memory was short */
void reason(struct plan_isa *p, const char *format, ...) DIAG_PRINTF(2, 3);
const char *why(const struct plan_isa *p, enum plan_key key, const char *otherwise);
const char *despite_request(const struct plan_isa *p);
const char *plural(int64_t count);
const char *bytes_text(char text[32], int64_t bytes);
const char *prefetch_text(char text[80], int64_t lines, const char *what);
void print_heights(FILE *out, const struct tile_heights *heights);

/* plan_reasons.c */
void explain_choices(struct plan_isa *p, const struct layer *layer);
void explain_request(struct plan_isa *p, const char *from, const struct plan_request *request);
