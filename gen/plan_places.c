/* SPDX-License-Identifier: MIT */
/* Where things lie: packed weights, scratch and a worker's own part of it, in floats from their start; and a bound of
 * the stack. Left out on purpose: the layout of each (plan.c).
 */
#include "plan_parts.h"

#include "expression.h"
#include "score.h"

#define ALIGN_FLOATS 16         /* 64 bytes: packed weights and every array of the scratch start there */
#define HEADER_FLOATS 16        /* the packed block's header */

static int64_t place(int64_t *next, int64_t floats)
{
    const int64_t at = *next;
    *next += round_up(floats, ALIGN_FLOATS);
    return at;
}

static int64_t table_size(const struct layer_table *table)
{
    int64_t size = 1;
    for (int axis = 0; axis < table->axes; axis++)
        size *= table->extent[axis];
    return size;
}

/* Gains and shifts of the norms, and a row of cosines and sines for each position that a token may
 * have by its place. */
static void place_finish(struct plan_isa *p, const struct layer *layer, int64_t *next)
{
    const struct { enum layer_tensor tensor; int64_t *at; } of_norms[] = {
        {TENSOR_G_Q, &p->g_q}, {TENSOR_C_Q, &p->c_q}, {TENSOR_G_K, &p->g_k}, {TENSOR_C_K, &p->c_k}};
    for (size_t i = 0; i < sizeof of_norms / sizeof *of_norms; i++) {
        int64_t shape[4];
        if (layer_weight_shape(layer, of_norms[i].tensor, shape) > 0)
            *of_norms[i].at = place(next, shape[0]);
    }
    if (layer->rope.kind == ROPE_NONE)
        return;
    const int64_t cosines = layer->rope.kind == ROPE_HALF ? layer->rope.dims / 2 : layer->rope.dims;
    p->turn_width = round_up(cosines, p->lanes);
    p->turn_rows = max(layer->seq_len, layer->source_len);
    p->turns = place(next, p->turn_rows * 2 * p->turn_width);
}

/* Whether an expression reads a table at an index that goes with the queries:
 * lanes may then hold a run of its elements. */
static bool table_has_runs(const struct expression *e, int table)
{
    bool any = false;
    for (int i = 0; e != NULL && i < e->count; i++) {
        const struct expression_node *n = &e->nodes[i];
        any = any || (n->op == NODE_TABLE && n->table == table && (e->nodes[n->a].reads & READS_P) != 0);
    }
    return any;
}

static int64_t runs_size(const struct layer_table *table, int64_t lanes)
{
    const int64_t row = table->extent[table->axes - 1];
    return 2 * (table_size(table) / row) * (row + 2 * lanes);
}

void place_packed(struct plan_isa *p, const struct layer *layer)
{
    int64_t next = HEADER_FLOATS;
    struct plan_lanes *const v_t = &p->v_t;
    if (v_t->depth > 0) {
        v_t->w = place(&next, v_t->groups * v_t->columns * v_t->depth);
        v_t->b = place(&next, layer->bias ? v_t->groups * v_t->columns : 0);
    }
    for (struct plan_panels *g = p->products; g < p->products + PLAN_PRODUCTS; g++) {
        if (!g->exists)
            continue;
        g->w = place(&next, g->groups * g->group_size);
        g->b = place(&next, layer->bias ? g->groups * g->columns : 0);
    }
    p->relative.at = p->relative.row > 0 ? place(&next, layer->h * p->relative.row) : 0;
    p->sink = layer->sink ? place(&next, layer->h) : 0;
    place_finish(p, layer, &next);
    for (size_t i = 0; i < layer->table_count; i++) {
        const struct layer_table *table = &layer->tables[i];
        p->tables[i] = place(&next, table_size(table));
        p->runs[i] = 0;
        if (table_has_runs(layer->score, (int)i) || table_has_runs(layer->visible, (int)i))
            p->runs[i] = place(&next, runs_size(table, p->lanes));
    }
    p->packed_size = next;
}

/* Floats that rows take, `heads` arrays or one: heads lie further apart than a row is long, or within it. */
static int64_t rows_size(const struct plan_panels *g, int64_t heads, int64_t tokens, int64_t batch)
{
    return (g->c_group >= g->c_row ? heads : 1) * max(tokens, batch) * g->c_row;
}

void place_scratch(struct plan_isa *p, const struct layer *layer)
{
    const int64_t z_columns = layer->h * p->fold->d_z;
    const bool conv = layer->w_o == W_O_CONV;
    p->z_front = conv ? layer_conv_pad(layer) : 0;
    p->z_back = conv ? layer->conv_width - 1 - p->z_front : 0;

    /* the transposed source is dead once everything is projected, unless it is the values: z takes its place */
    const bool alive = p->value_blocks && p->v_t.depth == 0;
    int64_t inputs = 0, outputs = 0;
    p->s_t = p->value_blocks ? place(&inputs, p->source_blocks * p->block * layer->d_source) : 0;
    if (alive)
        outputs = inputs;
    const int64_t tokens = p->z_rows ? p->z_front + max(layer->seq_len, p->batch_rows) + p->z_back
                                     : p->query_blocks * p->block;
    p->z = layer->w_o != W_O_NONE && !p->z_in_q ? place(&outputs, tokens * z_columns) : 0;
    int64_t next = max(inputs, outputs);
    p->q_all = !p->q.exists ? 0 : place(&next, rows_size(&p->q, layer->h, layer->seq_len, p->batch_rows));
    if (p->z_in_q)
        p->z = p->q_all;
    p->keys = !p->k.exists ? 0 : place(&next, rows_size(&p->k, layer->h_kv, layer->source_len, p->batch_sources));
    p->values = alive ? p->s_t
              : p->value_blocks ? place(&next, p->source_blocks * p->block * layer->h_kv * layer->d_v)
              : p->v.exists ? place(&next, rows_size(&p->v, layer->h_kv, layer->source_len, p->batch_sources)) : 0;
    p->ranges = 0;
    if ((layer->mask & MASK_SEGMENTS) != 0) /* short sequences of a group have a vector each */
        p->ranges = place(&next, 2 * max(layer->pad_skipped ? layer->seq_len : ceil_div(layer->seq_len, p->lanes),
                                         p->batch_rows));
    if (layer->projected && layer_finishes(layer)) {
        p->q_all = place(&next, layer->h * p->q_head);
        p->keys = place(&next, layer->h_kv * p->k_head);
    }
    const bool anywhere = layer->rope.given || (layer->rope.kind != ROPE_NONE && layer->offset != OFFSET_NONE);
    p->turned = anywhere ? place(&next, max(layer->seq_len, p->batch_rows) * 2 * p->turn_width) : 0;
    p->turned_keys = layer->rope.given && layer->projected
                         ? place(&next, max(layer->source_len, p->batch_sources) * 2 * p->turn_width) : 0;
    p->shared_size = next;

    const bool hooked = score_hooked(layer);
    int64_t own = 0;
    p->scores = place(&own, p->key_block * p->block);
    p->visible = hooked ? place(&own, p->key_block * p->block) : 0;
    p->operands = score_operands(layer) > 0 ? place(&own, score_operands(layer) * p->key_block * p->block) : 0;
    p->tile = place(&own, p->fold->d_z * p->block);
    p->queries = place(&own, p->fold->d_score * p->block);
    p->worker_size = own;
}

/* ---- the stack ---- */

/* Scalars, pointers, saved registers and the odd spill of all frames from forward to the innermost tile, alignment
 * included, in fast and in small code. Measured with gcc 11 and 12, clang 14 and 19: up to 2000 and up to 1300 bytes.
 */
#define STACK_FRAMES 2560
#define STACK_FRAMES_SMALL 1536
#define STACK_ROWS 8   /* of a query block: m, l, start, over and bad of a tile; maximum and alpha; one spare */
#define STACK_SEGMENTS 2 /* and halves of their segments */
#define STACK_FINISH 2 /* likewise: partial sums of a norm, as rows and as columns; a vector or two, LANES pointers */
#define STACK_SQUARES 2 /* LANES x LANES: a partial transposition holds two; of masks and weights, in one more copy */
/* Vectors on the stack for each accumulator of a tile where no variable has a register: clang 14, the dearer one, keeps
 * every operand of every word: 33 for an unrolled tile of scores (2 steps), and 15 more for its exponentials. */
#define STACK_PLAIN_TILE 40
#define STACK_PLAIN_STEP 12

static int64_t longest_unroll(const struct plan_isa *p)
{
    int64_t unroll = max(min(p->unroll_scores, p->depth_slab), p->unroll_values);
    for (const struct plan_panels *g = p->products; g < p->products + PLAN_PRODUCTS; g++)
        if (g->exists)
            unroll = max(unroll, min(max(g->unroll, g->unroll_rest), g->k_block));
    return max(unroll, min(p->v_t.unroll, p->v_t.depth));
}

/* Most accumulators of a tile. */
static int64_t largest_tile(const struct plan_isa *p)
{
    int64_t tile = max(max(p->rows, p->value_rows) * p->vecs, max(p->rows_single, p->value_rows_single));
    for (const struct plan_panels *g = p->products; g < p->products + PLAN_PRODUCTS; g++)
        if (g->exists)
            tile = max(tile, g->rows * g->vecs);
    return max(tile, p->v_t.height[0] * p->vecs);
}

/* What is on the stack, level by level, is known but for spills: at most one tile's accumulators. */
void bound_stack(struct plan_isa *p, const struct layer *layer)
{
    const int64_t f = (int64_t)sizeof(float);
    const int64_t tile = largest_tile(p) * p->lanes * f;
    const bool hooked = score_hooked(layer);
    const int64_t frames = p->at_once ? STACK_FRAMES : STACK_FRAMES_SMALL;
    const int64_t squares = hooked || layer->scores ? 2 * STACK_SQUARES : STACK_SQUARES;
    const int64_t rows = STACK_ROWS + ((layer->mask & MASK_SEGMENTS) != 0 ? STACK_SEGMENTS : 0);
    const int64_t finish = !layer_finishes(layer) ? 0 : STACK_FINISH * p->lanes * (p->lanes + 2) * f + p->lanes * 8;
    p->stack = round_up(frames + rows * p->block * f + squares * p->lanes * p->lanes * f + tile + finish, 64);
    p->stack_plain = p->stack + (STACK_PLAIN_TILE + STACK_PLAIN_STEP * longest_unroll(p)) * tile;
}
