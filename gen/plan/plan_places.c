/* SPDX-License-Identifier: MIT */
/* Where layouts lie: in the packed block, the scratch and a worker's own part of it; and a bound of the stack.
 *
 * Left out on purpose: the shapes of layouts (plan_inputs.c and the step that writes one).
 */
#include "plan/planning.h"

#include "expression/expression.h"
#include "spec/score.h"

#define HEADER_BYTES 64 /* the packed block's header */
#define KEPT_HEADER_BYTES 64 /* of a sequence's kept block: which layer's, which instruction set's, how many keys */
#define MAX_TURN_ROWS 32768 /* of a cache: later positions are turned by cosines that each call makes */

static int64_t table_size(const struct layer_table *table)
{
    int64_t size = 1;
    for (int axis = 0; axis < table->axes; axis++)
        size *= table->extent[axis];
    return size;
}

/* Gains and shifts of the norms; a row of cosines and sines for each position that a token may have by its place. */
static void place_finish(struct plan_isa *p, const struct layer *layer)
{
    static const struct { enum layer_tensor tensor; enum layout_name id; } of_norms[] = {
        {TENSOR_G_Q, LAYOUT_G_Q}, {TENSOR_C_Q, LAYOUT_C_Q}, {TENSOR_G_K, LAYOUT_G_K}, {TENSOR_C_K, LAYOUT_C_K},
        {TENSOR_G_DQ, LAYOUT_G_DQ}, {TENSOR_G_DKV, LAYOUT_G_DKV}};
    for (size_t i = 0; i < sizeof of_norms / sizeof *of_norms; i++) {
        int64_t shape[4];
        const int axes = layer_weight_shape(layer, of_norms[i].tensor, shape);
        if (axes > 0)
            place_new(p, of_norms[i].id, layer_tensor_name(of_norms[i].tensor), OWNER_PACKED, axes > 1 ? shape[0] : 1,
                      shape[axes - 1]);
    }
    if (layer->rope.kind == ROPE_NONE)
        return;
    const int64_t cosines = layer->rope.kind == ROPE_HALF ? layer->rope.dims / 2 : layer->rope.dims;
    p->turn_width = round_up(cosines, p->lanes);
    p->turn_rows = min(max(layer->seq_len, layer->source_len), layer_has_cache(layer) ? MAX_TURN_ROWS : INT32_MAX);
    place_new(p, LAYOUT_TURNS, "turns", OWNER_PACKED, p->turn_rows, 2 * p->turn_width);
}

/* Whether an expression reads a table at an index that goes with what lies along the lanes:
 * lanes may then hold a run of its elements. */
static bool table_has_runs(const struct expression *e, int table, unsigned lanes)
{
    bool any = false;
    for (int i = 0; e != NULL && i < e->count; i++) {
        const struct expression_node *n = &e->nodes[i];
        any = any || (n->op == NODE_TABLE && n->table == table && (e->nodes[n->a].reads & lanes) != 0);
    }
    return any;
}

static void place_vectors(struct plan_isa *p, const struct layer *layer)
{
    const int64_t d_k = layer->d_k, heads[] = {[VECTORS_SHARED] = 1, [VECTORS_HEADS] = layer->h};
    if (layer->rel_keys != VECTORS_NONE)
        place_new(p, LAYOUT_REL_K, "rel_k", OWNER_PACKED, p->vectors.rows, heads[layer->rel_keys] * d_k);
    if (layer->rel_queries != VECTORS_NONE)
        place_new(p, LAYOUT_REL_Q, "rel_q", OWNER_PACKED, heads[layer->rel_queries] * d_k, p->vectors.row);
    if (layer->rel_biases) {
        place_new(p, LAYOUT_REL_U, "rel_u", OWNER_PACKED, layer->h, d_k);
        place_new(p, LAYOUT_REL_V, "rel_v", OWNER_PACKED, layer->h, p->vectors.rows);
    }
    if (layer_has_vectors(layer))
        place_new(p, LAYOUT_REL_ROWS, "rel_rows", OWNER_PACKED, 1, p->vectors.table);
}

void place_packed(struct plan_isa *p, const struct layer *layer)
{
    p->bytes[OWNER_PACKED] = HEADER_BYTES;
    for (enum step_kind kind = KIND_LANES; kind >= KIND_PANELS; kind--)
        for (const struct step *g = p->steps; g < p->steps + p->step_count; g++)
            if (g->kind == kind)
                step_kinds[kind]->place(p, g);
    if (p->relative.row > 0)
        place_new(p, LAYOUT_RELATIVE, "relative", OWNER_PACKED, layer->h, p->relative.row);
    if (p->relative.back_row > 0)
        place_new(p, LAYOUT_RELATIVE_BACK, "relative back", OWNER_PACKED, layer->h, p->relative.back_row);
    place_vectors(p, layer);
    if (layer->sink)
        place_new(p, LAYOUT_SINK, "sink", OWNER_PACKED, 1, layer->h);
    place_finish(p, layer);
    place_rule_packed(p, layer);
    for (enum layer_tensor tensor = TENSOR_N1_G; tensor <= TENSOR_N4_B; tensor++)
        if (layer_has_tensor(layer, tensor))
            place_new(p, LAYOUT_N1_G + (tensor - TENSOR_N1_G), layer_tensor_name(tensor), OWNER_PACKED, 1,
                      layer->d_model);
    for (size_t i = 0; i < layer->table_count; i++) {
        const struct layer_table *table = &layer->tables[i];
        const int64_t row = table->extent[table->axes - 1], rows = table_size(table) / row;
        place_new(p, LAYOUT_TABLES + i, table->name, OWNER_PACKED, rows, row);
        const unsigned lanes = layer_has_cache(layer) ? READS_J : READS_P; /* what lies along them */
        if (table_has_runs(layer->score, (int)i, lanes) || table_has_runs(layer->visible, (int)i, lanes))
            place_new(p, LAYOUT_RUNS + i, table->name, OWNER_PACKED, 2 * rows, row + 2 * p->lanes);
        p->tables[p->table_count].name = table->name;
        p->tables[p->table_count].at = layout_at(p, LAYOUT_TABLES + i);
        p->tables[p->table_count].run = layout_at(p, LAYOUT_RUNS + i);
        p->tables[p->table_count].row = row;
        p->tables[p->table_count++].size = rows * row;
    }
    if (layer->train)
        place_back_packed(p, layer);
}

/* What later calls of a sequence read: keys and values, or a copy of the source where these are its rows. */
static void place_kept(struct plan_isa *p, const struct layer *layer)
{
    struct layout *const of[] = {&p->layouts[p->rounds_scores ? LAYOUT_ROUNDED_KEYS : LAYOUT_KEYS],
                                 &p->layouts[p->rounds_values ? LAYOUT_ROUNDED_VALUES : LAYOUT_VALUES]};
    bool source = false;
    p->bytes[OWNER_KEPT] = KEPT_HEADER_BYTES;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        if (of[i]->owner == OWNER_CALLER)
            source = true;
        else
            of[i]->owner = OWNER_KEPT;
    }
    for (size_t i = 0; i < 2; i++) /* words have no place among activations */
        if (i == 0 ? p->rounds_scores : p->rounds_values)
            place(p, i == 0 ? LAYOUT_ROUNDED_KEYS : LAYOUT_ROUNDED_VALUES);
    if (source)
        place_new(p, LAYOUT_KEPT_SOURCE, "kept source", OWNER_KEPT, layer->source_len, layer->d_source);
}

/* Queries, keys and values of a group, one after the other, each [tokens of the group][row] */
static void hold(struct plan_isa *p)
{
    const struct { enum layout_name id; int64_t *ahead; } all[] = {
        {LAYOUT_QUERIES, &p->held.queries}, {LAYOUT_KEYS, &p->held.keys}, {LAYOUT_VALUES, &p->held.values},
        {LAYOUT_RAW_QUERIES, &p->held.raw_queries}, {LAYOUT_RAW_KEYS, &p->held.raw_keys}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct layout *const l = &p->layouts[all[i].id];
        *all[i].ahead = p->held.all;
        if (l->name != NULL && l->owner == OWNER_SCRATCH)
            p->held.all += layout_elements(l) / l->shape[AXIS_TOKEN];
    }
}

/* The transposed source is dead once everything is projected, unless it is the values: z takes its place, or that of
 * the queries. */
static void place_activations(struct plan_isa *p, const struct layer *layer)
{
    const int64_t before = p->bytes[OWNER_SCRATCH];
    const bool alive = p->value_blocks && plan_step(p, STEP_VALUES) == NULL &&
                       p->layouts[LAYOUT_VALUES].owner == OWNER_SCRATCH;
    if (alive)
        place(p, LAYOUT_VALUES);
    else
        place(p, LAYOUT_S_T);
    const int64_t inputs = p->bytes[OWNER_SCRATCH];
    p->bytes[OWNER_SCRATCH] = alive ? inputs : before;
    if (!p->z_in_q)
        place(p, LAYOUT_Z);
    p->bytes[OWNER_SCRATCH] = max(inputs, p->bytes[OWNER_SCRATCH]);
    place(p, LAYOUT_QUERIES);
    if (p->z_in_q)
        p->layouts[LAYOUT_Z].at = p->layouts[LAYOUT_QUERIES].at;
    place(p, LAYOUT_KEYS);
    if (!alive && !layer->shares)
        place(p, LAYOUT_VALUES);
    place(p, LAYOUT_LATENT_Q);
    place(p, LAYOUT_HEADS_Q);
    place(p, LAYOUT_Z_UP);
    place(p, LAYOUT_RAW_QUERIES);
    place(p, LAYOUT_RAW_KEYS);
    place(p, LAYOUT_OUT_GATES);
    if (p->holds)
        hold(p);
}

/* The rows of a block; what is between the products of the feed-forward takes the place of attention's own. Returns
 * where that ends. */
static int64_t place_block(struct plan_isa *p, bool kept)
{
    place(p, LAYOUT_NORMED);
    place(p, LAYOUT_NORMED_2);
    place(p, LAYOUT_STREAM);
    const enum layout_name rounded[] = {LAYOUT_ROUNDED_KEYS, LAYOUT_ROUNDED_Z, LAYOUT_ROUNDED_STREAM};
    const int64_t words = p->bytes[OWNER_SCRATCH]; /* they share their place: each is read before the next is written */
    place(p, LAYOUT_ROUNDED_X);
    place(p, LAYOUT_ROUNDED_SOURCE);
    int64_t rows = p->bytes[OWNER_SCRATCH];
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++) {
        if (kept && rounded[i] == LAYOUT_ROUNDED_KEYS)
            continue;
        p->bytes[OWNER_SCRATCH] = words;
        place(p, rounded[i]);
        if (rounded[i] == LAYOUT_ROUNDED_KEYS)
            place(p, LAYOUT_ROUNDED_VALUES);
        rows = max(rows, p->bytes[OWNER_SCRATCH]);
    }
    p->bytes[OWNER_SCRATCH] = rows;
    place(p, LAYOUT_HIDDEN);
    place(p, LAYOUT_ROUNDED_HIDDEN);
    place(p, LAYOUT_GATES);
    const int64_t end = p->bytes[OWNER_SCRATCH];
    p->bytes[OWNER_SCRATCH] = rows;
    return end;
}

/* Normed rows in place of x, or floats, under the names of what they serve as */
static void place_inputs(struct plan_isa *p, const struct layer *layer)
{
    const enum layout_name inputs[] = {LAYOUT_KEYS, LAYOUT_VALUES};
    const bool normed = layer_norms_first(layer) && !layer->cross, typed = layer_types_tensors(layer);
    const enum layout_name rows = normed ? LAYOUT_NORMED : layer->cross ? LAYOUT_SOURCE : LAYOUT_X;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && (normed || typed) && !layer->projected; i++) {
        struct layout *const l = &p->layouts[inputs[i]];
        if (l->owner != OWNER_CALLER)
            continue;
        l->owner = OWNER_SCRATCH;
        l->at = p->layouts[rows].at;
    }
}

static void place_attention(struct plan_isa *p, const struct layer *layer)
{
    if (!layer_attends(layer))
        return;
    const int64_t queries = max(layer->seq_len, p->batch_rows);
    const int64_t keys = max(layer_new_keys(layer), p->batch_sources);
    if (layer->source_kept)
        place_kept(p, layer);
    if (!layer->projected)
        place_activations(p, layer);
    else if (!p->z_in_q)
        place(p, LAYOUT_Z);
    if (layer->source_kept)
        place_new(p, LAYOUT_KEPT, "kept", OWNER_SCRATCH, 1, p->bytes[OWNER_KEPT] / (int64_t)element_size(TENSOR_F32));
    if ((layer->mask & MASK_SEGMENTS) != 0) { /* of a group, each sequence has at least one vector */
        const int64_t runs = layer->pad_skipped ? layer->seq_len : ceil_div(layer->seq_len, p->lanes);
        p->layouts[LAYOUT_RANGES].element = TENSOR_I32;
        place_new(p, LAYOUT_RANGES, "ranges", OWNER_SCRATCH, max(runs, p->batch_rows), 2);
    }
    if (layer->projected) {
        place(p, LAYOUT_QUERIES);
        place(p, LAYOUT_KEYS);
    }
    if (layer->shares)
        p->layouts[LAYOUT_VALUES].at = p->layouts[LAYOUT_KEYS].at;
    if (layer->rope.given || (layer->rope.kind != ROPE_NONE && layer->offset != OFFSET_NONE))
        place_new(p, LAYOUT_TURNED, "turned", OWNER_SCRATCH, queries, 2 * p->turn_width);
    if (layer->projected && layer->rope.kind != ROPE_NONE && (layer->rope.given || layer_has_cache(layer)))
        place_new(p, LAYOUT_TURNED_KEYS, "turned keys", OWNER_SCRATCH, keys, 2 * p->turn_width);

    if (layer_has_cache(layer)) {
        place_cached(p, layer);
        return;
    }
    const int64_t before = p->bytes[OWNER_WORKER];
    place_tiles(p, layer);
    if (p->fold->expands.least > 0)
        place_expanded(p, layer, before);
}

/* Floats of what a call brings, and y before it is rounded */
static void place_typed(struct plan_isa *p, const struct layer *layer)
{
    if (!layer_types_tensors(layer))
        return;
    place(p, LAYOUT_X);
    if (layer->cross || layer->projected)
        place(p, LAYOUT_SOURCE);
    if (layer->projected && !layer->shares)
        place(p, LAYOUT_VALUES);
    place(p, LAYOUT_Y);
    if (!layer->scores)
        return;
    const bool cached = layer_has_cache(layer);
    place_new(p, LAYOUT_ATTN_ROWS, "attn as f32", OWNER_WORKER, cached ? p->cached.rows : p->block, layer->source_len);
    if (cached && p->cached.split > 0)
        place_new(p, LAYOUT_ATTN_SPLIT, "attn of segments", OWNER_SCRATCH, p->cached.split * layer->h,
                  layer->source_len);
}

/* What products have: a panel as f32; fast ones sums of the rows of a group, as long as these, and seven products of
 * tiles */
static void place_products(struct plan_isa *p)
{
    int64_t panel = 0, rows = 0, seven = 0;
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++) {
        if (g->kind != KIND_PANELS)
            continue;
        panel = max(panel, g->panels.floats);
        if (g->panels.fast > 0) {
            rows = max(rows, g->panels.group_rows * g->panels.a_row);
            seven = max(seven, 7 * g->panels.fast * g->panels.vecs * p->lanes);
        }
    }
    p->has_fast = rows > 0;
    p->owns = p->has_fast || panel > 0;
    if (panel > 0)
        place_new(p, LAYOUT_PANEL, "panel as f32", OWNER_WORKER, 1, panel);
    if (rows > 0) {
        place_new(p, LAYOUT_ROW_SUMS, "row sums", OWNER_WORKER, 1, rows);
        place_new(p, LAYOUT_SEVEN, "seven products", OWNER_WORKER, 1, seven);
    }
}

void place_scratch(struct plan_isa *p, const struct layer *layer)
{
    place_typed(p, layer);
    const int64_t end = place_block(p, layer->source_kept);
    place_attention(p, layer);
    place_inputs(p, layer);
    place_products(p);
    place_rule(p, layer);
    place_conv(p, layer);
    if (layer->train)
        place_back(p, layer);
    p->bytes[OWNER_SCRATCH] = max(p->bytes[OWNER_SCRATCH], end);
    if (!layer_attends(layer)) /* not used, but callers declare an array of this size */
        p->bytes[OWNER_SCRATCH] = max(p->bytes[OWNER_SCRATCH], ALIGN);
}

/* ---- the stack ---- */

/* Scalars, pointers, saved registers and the odd spill of all frames from forward to the innermost tile, alignment
 * included, in fast and in small code. Measured with gcc 11 and 12, clang 14 and 19: up to 2000 and up to 1300 bytes.
 */
#define STACK_FRAMES 2560
#define STACK_FRAMES_SMALL 1536
#define STACK_ROWS 8   /* of a query block: m, l, start, over and bad of a tile; maximum and alpha; one spare */
#define STACK_SEGMENTS 2 /* and halves of their segments */
#define STACK_WHOLE 2  /* and, of whole-number scores, scales of queries; with lse there is none to spare */
#define STACK_LARGEST 1 /* and, of whole-number weights, the largest ones; and the scales of a block's values */
#define STACK_ROUND 3  /* of rows that become whole numbers together: a number for each */
#define STACK_FINISH 2 /* of a norm of rows: its partial sums, as rows and as columns; two vectors, LANES pointers */
#define STACK_SQUARES 2 /* LANES x LANES: a partial transposition holds two; of masks and weights, in one more copy */
/* Vectors on the stack for each accumulator of a tile where no variable has a register: clang 14, the dearer one, keeps
 * every operand of every word: 33 for an unrolled tile of scores (2 steps), and 15 more for its exponentials. */
#define STACK_PLAIN_TILE 40
#define STACK_PLAIN_STEP 12

static int64_t longest_unroll(const struct plan_isa *p)
{
    int64_t unroll = max(max(min(p->unroll_scores, p->depth_slab), p->unroll_values), p->tiled ? p->tile_words - 1 : 0);
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++)
        unroll = max(unroll, g->unroll);
    return unroll;
}

/* Most accumulators of a tile. */
static int64_t largest_tile(const struct plan_isa *p)
{
    const int64_t cached = p->cached.tiles.at[0].rows * p->cached.vecs;
    int64_t tile = max(max(p->rows, p->value_rows) * p->vecs, max(p->rows_single, p->value_rows_single));
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++)
        tile = max(tile, g->tile);
    return max(tile, cached);
}

/* Sums that a product takes from tile registers, and what their alignment may leave free */
static int64_t register_sums(const struct plan_isa *p, int64_t f)
{
    int64_t vecs = p->vecs;
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++)
        vecs = g->kind == KIND_PANELS ? max(vecs, g->panels.vecs) : vecs;
    return p->tiled ? 2 * p->tile_rows * vecs * p->lanes * f + 64 : 0;
}

/* What is on the stack, level by level, is known but for spills: at most one tile's accumulators. */
void bound_stack(struct plan_isa *p, const struct layer *layer)
{
    const int64_t f = (int64_t)element_size(TENSOR_F32); /* whatever the operands: sums and state */
    const int64_t tile = largest_tile(p) * p->lanes * f;
    const bool hooked = score_hooked(layer);
    const int64_t frames = (p->at_once ? STACK_FRAMES : STACK_FRAMES_SMALL) + register_sums(p, f) +
                           (p->whole ? STACK_ROUND * ROUND_ROWS * f : 0);
    const int64_t squares = hooked || layer->scores ? 2 * STACK_SQUARES : STACK_SQUARES;
    const int64_t rows = STACK_ROWS + ((layer->mask & MASK_SEGMENTS) != 0 ? STACK_SEGMENTS : 0) +
                         (p->rounds_scores ? STACK_WHOLE : 0) + (p->rounds_values ? STACK_LARGEST : 0);
    const int64_t scales = p->rounds_values ? (p->key_block + 2 * p->core_word) * f : 0;
    const bool norms = layer_finishes(layer) || layer_norms(layer) > 0;
    const int64_t finish = !norms ? 0 : STACK_FINISH * p->lanes * (p->lanes + 2) * f + p->lanes * 8;
    if (layer_has_cache(layer)) { /* a block of rows: two places for each query; squares of quads and columns */
        p->stack = round_up(frames + max(p->cached.queries, p->expanded.queries) * 2 * (int64_t)sizeof(size_t) +
                            2 * squares * p->lanes * p->lanes * f + tile + finish, 64);
        p->stack_plain = p->stack + (STACK_PLAIN_TILE + STACK_PLAIN_STEP * longest_unroll(p)) * tile;
        return;
    }
    const int64_t ends = p->expanded.queries * 2 * (int64_t)sizeof(size_t);
    const int64_t back = p->back.rows * p->back.width * f + /* a tile at the edge of a gradient, a block, ranges */
                         p->back.queries * f + (2 * p->back.queries + p->back.keys) * 2 * (int64_t)sizeof(size_t) +
                         (layer->train && layer->qk_norm != NORM_NONE ? 2 * finish : 0);
    p->stack = round_up(frames + rows * p->block * f + squares * p->lanes * p->lanes * f + tile + finish + back +
                            scales + ends, 64);
    p->stack_plain = p->stack + (STACK_PLAIN_TILE + STACK_PLAIN_STEP * longest_unroll(p)) * tile;
}
