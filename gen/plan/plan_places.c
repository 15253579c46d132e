/* SPDX-License-Identifier: MIT */
/* Where layouts lie: in the packed block, the scratch and a worker's own part of it; and a bound of the stack. Left out
 * on purpose: the layouts of activations (plan.c).
 */
#include "plan/plan_parts.h"

#include "expression/expression.h"
#include "spec/score.h"

#define ALIGN 64        /* bytes: packed weights and every array of the scratch start there */
#define HEADER_BYTES 64 /* the packed block's header */
#define KEPT_HEADER_BYTES 64 /* of a sequence's kept block: which layer's, which instruction set's, how many keys */
#define CACHED_STATES 6 /* numbers for each row: m and l of a segment and of all so far, a factor, what scores lose */
#define MAX_TURN_ROWS 32768 /* of a cache: later positions are turned by cosines that each call makes */

/* The axis of the largest step is the outermost one. */
int64_t layout_elements(const struct layout *l)
{
    int64_t step = 0, elements = 0;
    for (int axis = 0; axis < AXES; axis++)
        if (l->stride[axis] > step || (l->stride[axis] == step && l->shape[axis] * step > elements)) {
            step = l->stride[axis];
            elements = l->shape[axis] * step;
        }
    return elements;
}

static int64_t bytes_of(const struct layout *l)
{
    return round_up(layout_elements(l) * (int64_t)element_size(l->element), ALIGN);
}

/* Places a layout at the end of its owner's block. */
static void place(struct plan_isa *p, enum layout_name id)
{
    struct layout *l = &p->layouts[id];
    if (l->name == NULL || l->owner == OWNER_CALLER)
        return;
    l->at = p->bytes[l->owner];
    p->bytes[l->owner] += bytes_of(l);
}

static void place_new(struct plan_isa *p, enum layout_name id, const char *name, enum layout_owner owner, int64_t rows,
                      int64_t columns)
{
    p->layouts[id] = (struct layout){.name = name, .owner = owner, .element = p->layouts[id].element,
                                     .shape = {1, 1, rows, columns}, .stride = {0, 0, columns, 1}};
    place(p, id);
}

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
        {TENSOR_G_Q, LAYOUT_G_Q}, {TENSOR_C_Q, LAYOUT_C_Q}, {TENSOR_G_K, LAYOUT_G_K}, {TENSOR_C_K, LAYOUT_C_K}};
    for (size_t i = 0; i < sizeof of_norms / sizeof *of_norms; i++) {
        int64_t shape[4];
        if (layer_weight_shape(layer, of_norms[i].tensor, shape) > 0)
            place_new(p, of_norms[i].id, layer_tensor_name(of_norms[i].tensor), OWNER_PACKED, 1, shape[0]);
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

/* A product's weights, [group][panel or tile][step of the reduction][column], the last panel or tile maybe narrower;
 * their scales, and its biases. */
static void place_weights(struct plan_isa *p, const struct product *g)
{
    const struct plan_lanes *t = &g->lanes;
    const struct plan_panels *w = &g->panels;
    const bool lanes = g->kind == PRODUCT_LANES;
    const int64_t groups = lanes ? t->groups : w->groups, columns = lanes ? t->columns : w->columns;
    const int64_t matrices = lanes ? 1 : w->matrices;
    const int64_t depth = lanes ? t->depth : matrices * w->taps * w->packed_depth;
    const int64_t width = lanes ? t->height[0] : w->vecs * p->lanes;
    p->layouts[LAYOUT_WEIGHTS + g->id] = (struct layout){
        .name = g->name, .owner = OWNER_PACKED, .element = lanes ? t->element : w->weights,
        .shape = {groups, lanes ? t->count[0] + t->count[1] : w->panels, depth, width},
        .stride = {lanes ? columns * depth : w->group_size, depth * width, width, 1}};
    place(p, LAYOUT_WEIGHTS + g->id);
    if (!lanes && w->weights != TENSOR_F32 && w->weights != TENSOR_I4)
        place_new(p, LAYOUT_SCALES + g->id, g->name, OWNER_PACKED, matrices * groups, columns);
    if ((g->epilogue & EPILOGUE_BIAS) != 0)
        place_new(p, LAYOUT_BIASES + g->id, g->name, OWNER_PACKED, matrices * groups, columns);
    if (!lanes && w->fast > 0) { /* [pair of panels][slab][four sums][step of half a slab][column] */
        p->layouts[LAYOUT_WEIGHT_SUMS + g->id] = (struct layout){
            .name = g->name, .owner = OWNER_PACKED, .element = w->weights,
            .shape = {1, w->fast_pairs, 2 * w->depth, width},
            .stride = {0, 2 * w->depth * width, width, 1}};
        place(p, LAYOUT_WEIGHT_SUMS + g->id);
    }
}

/* Panels of a matrix from outputs to inputs, for backward: [group][panel][output][lane] */
static void place_back_weights(struct plan_isa *p, enum layout_name id, const char *name, int64_t groups,
                               int64_t outputs, int64_t inputs)
{
    place_new(p, id, name, OWNER_PACKED, groups * outputs, round_up(inputs, p->lanes));
}

static void place_back_packed(struct plan_isa *p, const struct layer *layer)
{
    const int64_t groups = layer->split ? layer->h : 1, heads = layer->split ? 1 : layer->h;
    const int64_t kv = layer->split ? 1 : layer->h_kv, taps = layer->w_o == W_O_CONV ? layer->conv_width : 1;
    const int64_t width = layer->w_o == W_O_CONV ? layer->d_model / layer->h : layer->d_model;
    place_back_weights(p, LAYOUT_BACK_W_Q, "w_q back", groups, heads * p->back.k_row, layer->d_in_q);
    if (layer_has_tensor(layer, TENSOR_W_K))
        place_back_weights(p, LAYOUT_BACK_W_K, "w_k back", groups, kv * p->back.k_row, layer->d_in_kv);
    if (layer_has_tensor(layer, TENSOR_W_V))
        place_back_weights(p, LAYOUT_BACK_W_V, "w_v back", groups, kv * p->back.v_row, layer->d_in_kv);
    if (layer_has_tensor(layer, TENSOR_W_O))
        place_back_weights(p, LAYOUT_BACK_W_O, "w_o back", layer->h * taps, width, layer->d_v);
}

void place_packed(struct plan_isa *p, const struct layer *layer)
{
    p->bytes[OWNER_PACKED] = HEADER_BYTES;
    for (enum product_kind kind = PRODUCT_LANES; kind >= PRODUCT_PANELS; kind--)
        for (const struct product *g = p->products; g < p->products + p->product_count; g++)
            if (g->kind == kind)
                place_weights(p, g);
    if (p->relative.row > 0)
        place_new(p, LAYOUT_RELATIVE, "relative", OWNER_PACKED, layer->h, p->relative.row);
    if (p->relative.back_row > 0)
        place_new(p, LAYOUT_RELATIVE_BACK, "relative back", OWNER_PACKED, layer->h, p->relative.back_row);
    if (layer->sink)
        place_new(p, LAYOUT_SINK, "sink", OWNER_PACKED, 1, layer->h);
    place_finish(p, layer);
    for (enum layer_tensor tensor = TENSOR_N1_G; tensor <= TENSOR_N4_B; tensor++)
        if (layer_has_tensor(layer, tensor))
            place_new(p, LAYOUT_NORMS + (tensor - TENSOR_N1_G), layer_tensor_name(tensor), OWNER_PACKED, 1,
                      layer->d_model);
    for (size_t i = 0; i < layer->table_count; i++) {
        const struct layer_table *table = &layer->tables[i];
        const int64_t row = table->extent[table->axes - 1], rows = table_size(table) / row;
        place_new(p, LAYOUT_TABLES + i, table->name, OWNER_PACKED, rows, row);
        const unsigned lanes = layer_has_cache(layer) ? READS_J : READS_P; /* what lies along them */
        if (table_has_runs(layer->score, (int)i, lanes) || table_has_runs(layer->visible, (int)i, lanes))
            place_new(p, LAYOUT_RUNS + i, table->name, OWNER_PACKED, 2 * rows, row + 2 * p->lanes);
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

/* Queries, keys and values of a group, one behind the other, each with as many rows as the group has tokens */
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
static void place_activations(struct plan_isa *p)
{
    const int64_t before = p->bytes[OWNER_SCRATCH];
    const bool alive = p->value_blocks && plan_product(p, PRODUCT_VALUES) == NULL &&
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
    if (!alive)
        place(p, LAYOUT_VALUES);
    place(p, LAYOUT_RAW_QUERIES);
    place(p, LAYOUT_RAW_KEYS);
    if (p->holds)
        hold(p);
}

/* Of a block of rows: queries, transposed keys, scores, sums of a segment and of all so far, and for each row what
 * templates/steps/cached.in names; and what parts leave of segments. */
static void place_cached(struct plan_isa *p, const struct layer *layer)
{
    const int64_t rows = p->cached.rows, up = round_up(rows, p->lanes), lanes = p->lanes;
    const int64_t block = max(p->cached.key_block, p->cached.few_block);
    place_new(p, LAYOUT_Q_ROWS, "q_rows", OWNER_WORKER, rows, p->cached.q_row + p->cached.words_row);
    place_new(p, LAYOUT_K_T, "k_t", OWNER_WORKER, layer->d_k, p->cached.key_block);
    place_new(p, LAYOUT_SCORES, "scores", OWNER_WORKER, rows, p->cached.s_row);
    place_new(p, LAYOUT_TILE, "sums", OWNER_WORKER, rows, p->cached.o_row);
    place_new(p, LAYOUT_TOTALS, "totals", OWNER_WORKER, rows, p->cached.o_row);
    place_new(p, LAYOUT_STATE, "state", OWNER_WORKER, CACHED_STATES + (p->rounds_values ? 3 : 2) * lanes, up);
    const int64_t scales = (layer_scales_cache(layer) ? 2 : 0) + p->rounds_scores + p->rounds_values;
    if (scales > 0)
        place_new(p, LAYOUT_ROW_SCALES, "row_scales", OWNER_WORKER, scales, block);
    if (p->rounds_values) /* words, ahead of them what sums start from, behind them core_word values as floats */
        place_new(p, LAYOUT_ROUNDED_VALUES, "value words", OWNER_WORKER,
                  1 + p->cached.key_block / p->core_word + (layer_stores_cache(layer) ? p->core_word : 0),
                  p->values_room);
    if (p->cached.few_rows > 0)
        place_new(p, LAYOUT_DOTS, "dots", OWNER_WORKER, p->cached.few_rows * lanes / 4, lanes);
    if (p->cached.split > 0)
        place_new(p, LAYOUT_PARTIALS, "partials", OWNER_SCRATCH, p->cached.split * p->cached.segments * layer->h,
                  p->cached.o_row + 2);
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
        place_activations(p);
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
    if (layer->rope.given || (layer->rope.kind != ROPE_NONE && layer->offset != OFFSET_NONE))
        place_new(p, LAYOUT_TURNED, "turned", OWNER_SCRATCH, queries, 2 * p->turn_width);
    if (layer->projected && layer->rope.kind != ROPE_NONE && (layer->rope.given || layer_has_cache(layer)))
        place_new(p, LAYOUT_TURNED_KEYS, "turned keys", OWNER_SCRATCH, keys, 2 * p->turn_width);

    if (layer_has_cache(layer)) {
        place_cached(p, layer);
        return;
    }
    if (p->cached.few_queries > 0) { /* queries and sums as rows; of a vector of keys weights, sums, sums of quads */
        const int64_t lanes = p->lanes, few = p->cached.few_queries;
        place_new(p, LAYOUT_Q_ROWS, "q_rows", OWNER_WORKER, few, p->cached.q_row);
        place_new(p, LAYOUT_TOTALS, "totals", OWNER_WORKER, few, p->cached.o_row);
        place_new(p, LAYOUT_DOTS, "dots", OWNER_WORKER, 2 * lanes + few * lanes / 4, lanes);
    }
    place_new(p, LAYOUT_SCORES, "scores", OWNER_WORKER, p->key_block, p->block);
    if (score_hooked(layer))
        place_new(p, LAYOUT_VISIBLE, "visible", OWNER_WORKER, p->key_block, p->block);
    if (score_operands(layer) > 0)
        place_new(p, LAYOUT_OPERANDS, "operands", OWNER_WORKER, score_operands(layer) * p->key_block, p->block);
    place_new(p, LAYOUT_TILE, "sums", OWNER_WORKER, p->fold->d_z, p->block);
    place_new(p, LAYOUT_Q_T, "q_t", OWNER_WORKER, p->fold->d_score, p->block);
}

/* Gradients of what forward has in its scratch, token by token; a worker's operands, first those of attention, then, in
 * the same place, those of sums over tokens. */
static void place_back(struct plan_isa *p, const struct layer *layer)
{
    const int64_t queries = max(layer->seq_len, p->batch_rows), keys = max(layer->source_len, p->batch_sources);
    const int64_t k_row = p->back.k_row, v_row = p->back.v_row, columns = round_up(layer->source_len, p->lanes);
    const int64_t strip = p->back.strip, strips = p->back.queries / p->back.rows * strip;
    place_new(p, LAYOUT_D_QUERIES, "d queries", OWNER_BACK, queries, layer->h * k_row);
    place_new(p, LAYOUT_D_KEYS, "d keys", OWNER_BACK, keys, layer->h_kv * k_row);
    place_new(p, LAYOUT_D_VALUES, "d values", OWNER_BACK, keys, layer->h_kv * v_row);
    place_new(p, LAYOUT_D_Z, "d z", OWNER_BACK, queries, layer->h * v_row);
    if (score_has(layer, SCORE_RELATIVE)) /* of each sequence of a group: n + m distances and fewer */
        place_new(p, LAYOUT_D_DISTANCES, "d distances", OWNER_BACK, layer->h, queries + keys);
    if (layer->sink) /* of each sequence */
        place_new(p, LAYOUT_D_SINK, "d sink", OWNER_BACK, queries, layer->h);
    if (layer_has_tensor(layer, TENSOR_G_Q)) {
        const int64_t kinds = layer_has_tensor(layer, TENSOR_C_Q) ? 2 : 1, part = p->back.part_rows;
        const bool all = layer->qk_norm == NORM_RMS_ALL;
        place_new(p, LAYOUT_D_NORM_Q, "d norm of queries", OWNER_BACK, ceil_div(queries, part),
                  kinds * (all ? layer->h : 1) * layer->d_k);
        place_new(p, LAYOUT_D_NORM_K, "d norm of keys", OWNER_BACK, ceil_div(keys, part),
                  kinds * (all ? layer->h_kv : 1) * layer->d_k);
    }

    const int64_t depth = max(max(layer->d_out, p->back.keys), max(layer->h * k_row, layer->h_kv * max(k_row, v_row)));
    place_new(p, LAYOUT_SPARE, "spare strip", OWNER_BACK_WORKER, depth, strip);
    const int64_t shared = p->bytes[OWNER_BACK_WORKER];
    place_new(p, LAYOUT_K_PANELS, "k panels", OWNER_BACK_WORKER, layer->d_k, columns);
    place_new(p, LAYOUT_V_PANELS, "v panels", OWNER_BACK_WORKER, layer->d_v, columns);
    place_new(p, LAYOUT_K_BLOCKS, "k blocks", OWNER_BACK_WORKER, layer->source_len, k_row);
    place_new(p, LAYOUT_Q_STRIPS, "q strips", OWNER_BACK_WORKER, strips, layer->d_k);
    place_new(p, LAYOUT_DZ_STRIPS, "dz strips", OWNER_BACK_WORKER, strips, layer->d_v);
    place_new(p, LAYOUT_Q_PANELS, "q panels", OWNER_BACK_WORKER, p->back.queries, k_row);
    place_new(p, LAYOUT_DZ_PANELS, "dz panels", OWNER_BACK_WORKER, p->back.queries, v_row);
    place_new(p, LAYOUT_BACK_P, "weights", OWNER_BACK_WORKER, p->back.queries, p->back.key_row);
    place_new(p, LAYOUT_BACK_DS, "d scores", OWNER_BACK_WORKER, p->back.queries, p->back.key_row);
    if (score_has(layer, SCORE_VISIBLE))
        place_new(p, LAYOUT_BACK_SEES, "what is seen", OWNER_BACK_WORKER, round_up(p->back.queries, p->lanes),
                  p->back.key_row);
    place_new(p, LAYOUT_BACK_STRIPS, "their strips", OWNER_BACK_WORKER, strips,
              ceil_div(p->back.keys, p->back.rows) * strip);
    const int64_t attend = p->bytes[OWNER_BACK_WORKER];
    p->bytes[OWNER_BACK_WORKER] = shared;
    place_new(p, LAYOUT_STRIPS, "strips", OWNER_BACK_WORKER, p->back.tokens, p->back.chunk_rows / p->back.rows * strip);
    place_new(p, LAYOUT_PANELS, "panels", OWNER_BACK_WORKER, p->back.tokens, p->back.chunk_columns);
    p->bytes[OWNER_BACK_WORKER] = max(p->bytes[OWNER_BACK_WORKER], attend);
}

/* Floats of what a call brings, and y before it is rounded */
static void place_typed(struct plan_isa *p, const struct layer *layer)
{
    if (!layer_types_tensors(layer))
        return;
    place(p, LAYOUT_X);
    if (layer->cross || layer->projected)
        place(p, LAYOUT_SOURCE);
    if (layer->projected)
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

/* What fast products have: sums of the rows of a group, as long as these, and seven products of tiles */
static void place_fast(struct plan_isa *p)
{
    int64_t rows = 0, seven = 0;
    for (const struct product *g = p->products; g < p->products + p->product_count; g++)
        if (g->kind == PRODUCT_PANELS && g->panels.fast > 0) {
            rows = max(rows, g->panels.group_rows * g->panels.a_row);
            seven = max(seven, 7 * g->panels.fast * g->panels.vecs * p->lanes);
        }
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
    place_fast(p);
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
#define STACK_FINISH 2 /* likewise: partial sums of a norm, as rows and as columns; two vectors, LANES pointers */
#define STACK_SQUARES 2 /* LANES x LANES: a partial transposition holds two; of masks and weights, in one more copy */
/* Vectors on the stack for each accumulator of a tile where no variable has a register: clang 14, the dearer one, keeps
 * every operand of every word: 33 for an unrolled tile of scores (2 steps), and 15 more for its exponentials. */
#define STACK_PLAIN_TILE 40
#define STACK_PLAIN_STEP 12

static int64_t longest_unroll(const struct plan_isa *p)
{
    int64_t unroll = max(max(min(p->unroll_scores, p->depth_slab), p->unroll_values), p->tiled ? p->tile_words - 1 : 0);
    for (const struct product *g = p->products; g < p->products + p->product_count; g++)
        unroll = max(unroll, g->kind == PRODUCT_PANELS
                                 ? min(max(g->panels.unroll, g->panels.unroll_rest), g->panels.k_block)
                             : g->kind == PRODUCT_LANES ? min(g->lanes.unroll, g->lanes.depth) : 0);
    return unroll;
}

/* Most accumulators of a tile. */
static int64_t largest_tile(const struct plan_isa *p)
{
    int64_t tile = max(max(p->rows, p->value_rows) * p->vecs, max(p->rows_single, p->value_rows_single));
    for (const struct product *g = p->products; g < p->products + p->product_count; g++)
        tile = max(tile, g->kind == PRODUCT_TILES && p->cached.rows > 0 ? p->cached.tiles.at[0].rows * p->cached.vecs
                         : g->kind == PRODUCT_PANELS ? g->panels.rows * g->panels.vecs
                         : g->kind == PRODUCT_LANES ? g->lanes.height[0] * p->vecs : 0);
    return tile;
}

/* Sums that a product takes from tile registers, and what their alignment may leave free */
static int64_t register_sums(const struct plan_isa *p, int64_t f)
{
    int64_t vecs = p->vecs;
    for (const struct product *g = p->products; g < p->products + p->product_count; g++)
        vecs = g->kind == PRODUCT_PANELS ? max(vecs, g->panels.vecs) : vecs;
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
        p->stack = round_up(frames + p->cached.queries * 2 * (int64_t)sizeof(size_t) +
                            2 * squares * p->lanes * p->lanes * f + tile + finish, 64);
        p->stack_plain = p->stack + (STACK_PLAIN_TILE + STACK_PLAIN_STEP * longest_unroll(p)) * tile;
        return;
    }
    const int64_t back = p->back.rows * p->back.width * f + /* a tile at the edge of a gradient, a block, ranges */
                         p->back.queries * f + (2 * p->back.queries + p->back.keys) * 2 * (int64_t)sizeof(size_t) +
                         (layer->train && layer->qk_norm != NORM_NONE ? 2 * finish : 0);
    p->stack = round_up(frames + rows * p->block * f + squares * p->lanes * p->lanes * f + tile + finish + back +
                            scales, 64);
    p->stack_plain = p->stack + (STACK_PLAIN_TILE + STACK_PLAIN_STEP * longest_unroll(p)) * tile;
}
