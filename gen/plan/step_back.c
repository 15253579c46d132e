/* SPDX-License-Identifier: MIT */
/* Backward: its tiles and blocks; the steps through attention, to the gradients of inputs and of weights; their places.
 *
 * Left out on purpose: the phases that compute forward's rows again, which are forward's.
 */
#include "plan/planning.h"

#include "spec/score.h"
#include "spec/visible.h"

#define BACK_QUERIES 104          /* tokens in a block of backward, at most: its operands stay in L2 */
#define BACK_KEYS 256
#define BACK_EVEN 64              /* what rows of a tile divide best: most widths, and their multiples */
#define BACK_PART 104             /* tokens of a part of dZ, and of dx */
#define BACK_ROWS 200             /* of a weight's gradient in a part: what is laid out, mostly from L3, serves as */
#define BACK_COLUMNS 384          /* many products. Measured, Zen 5: 104 x 256 take 10 % longer, 390 x 384 as long */
#define BACK_TOKENS 224           /* steps of a sum over tokens at once, at most: strips stay in L2, a panel in L1 */
#define BACK_ONCE 4               /* of them laid out at once, and lines from L3 fetched BACK_AHEAD steps ahead:
                                   * L1 holds both. Measured, Zen 5: 8 and 16 take 1 to 2 % longer */
#define BACK_AHEAD 4
#define BACK_UNROLL 2
#define FEWEST_PARTS 4 /* of a matrix, that have several chunks of rows for the columns that are laid out once */
#define MOST_SHARED 4  /* chunks of a part */

static void add_operand(struct plan_isa *p, const struct layer *layer, enum back_read read, int64_t row, int64_t step)
{
    static const char *const names[BACK_READS] = {"strips", "turned", "block", "dy", "dq", "dk", "dv"};
    struct visible_rule rules[VISIBLE_RULES];
    const int count = visible_rules(layer, rules);
    bool bounded = (layer->mask & MASK_SEGMENTS) != 0;
    for (int i = 0; i < count; i++)
        bounded = bounded || rules[i].kind != VISIBLE_NOT;
    int of = 0;
    while (of < p->back.operand_count && (p->back.operands[of].row != row || p->back.operands[of].step != step))
        of++;
    if (of == p->back.operand_count)
        p->back.operands[p->back.operand_count++] = (struct back_operand){
            .name = names[read], .row = row, .step = step, .ranged = bounded && read <= READ_BLOCK,
            .apart = step == 1 && read != READ_STRIPS};
    p->back.read[read] = of;
}

static void add_operands(struct plan_isa *p, const struct layer *layer)
{
    for (int read = 0; read < BACK_READS; read++)
        p->back.read[read] = -1;
    add_operand(p, layer, READ_STRIPS, 1, p->back.strip);
    add_operand(p, layer, READ_TURNED, 1, p->back.key_row);
    add_operand(p, layer, READ_BLOCK, p->back.key_row, 1);
    if (layer->w_o != W_O_NONE)
        add_operand(p, layer, READ_DY, layer->d_model, 1);
    add_operand(p, layer, READ_DQ, layer->h * p->back.k_row, 1);
    add_operand(p, layer, READ_DK, layer->h_kv * p->back.k_row, 1);
    if (!layer->identity)
        add_operand(p, layer, READ_DV, layer->h_kv * p->back.v_row, 1);
}

/* Two vectors are enough to hide the latency of a tile's sums, and leave few lanes of a narrow head idle. */
void plan_back(struct plan_isa *p, const struct layer *layer)
{
    const int64_t widest = max(layer->d_model, max(layer->d_k, layer->d_v));
    p->back.vecs = widest > p->lanes ? 2 : 1;
    p->back.width = p->back.vecs * p->lanes;
    p->back.rows = near_equal(BACK_EVEN, tile_rows(p->isa, p->back.vecs));
    p->back.strip = round_up(p->back.rows, p->lanes);
    const int64_t heights[] = {p->back.rows, ceil_div(5 * p->back.rows, 8) - 1, ceil_div(p->back.rows, 4)};
    p->back.heights.count = !p->small && p->back.rows > 4 ? 3 : 1;
    for (int64_t i = 0; i < p->back.heights.count; i++)
        p->back.heights.at[i].rows = heights[i];
    p->back.unroll = BACK_UNROLL;
    p->back.k_row = round_up(layer->d_k, p->lanes);
    p->back.v_row = round_up(layer->d_v, p->lanes);
    p->back.queries = round_up(near_equal(layer->seq_len, BACK_QUERIES), p->back.rows);
    p->back.keys = min(round_up(BACK_KEYS, p->back.width), round_up(layer->source_len, p->back.width));
    p->back.key_row = p->back.keys + LINE_FLOATS; /* rows do not fall into the same sets of L1; a last tile reads
                                                   * after the keys */
    p->back.part_rows = layer->portable ? BACK_PART : round_up(BACK_PART, p->back.rows); /* gains' sums begin anew */
    p->back.tokens = BACK_TOKENS;
    p->back.once = BACK_ONCE;
    p->back.ahead = BACK_AHEAD;
    p->back.chunk_rows = round_up(BACK_ROWS, p->back.rows);
    p->back.chunk_columns = round_up(BACK_COLUMNS, p->back.width);
    add_operands(p, layer);
}

/* A tensor of the caller, or what forward has kept of it, token by token */
static void add_caller(struct plan_isa *p, enum layout_name id, const char *name, int64_t rows, int64_t columns,
                       int64_t row)
{
    p->layouts[id] = (struct layout){.name = name, .owner = OWNER_CALLER, .shape = {1, 1, rows, columns},
                                     .stride = {0, 0, row, 1}};
}

/* d z, and attention: weights are computed again, block by block, and from their gradients those of queries, keys and
 * values. */
bool plan_gradient(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    if (!layer->train)
        return false;
    if (g->id == STEP_D_Z) {
        add_caller(p, LAYOUT_DY, "dy", layer->seq_len, layer->d_out, layer->d_out);
        g->reads[1] = layer->w_o == W_O_NONE ? LAYOUT_NONE : LAYOUT_BACK_W_O;
        g->size = p->back.part_rows;
    }
    if (g->id == STEP_D_KEYS || g->id == STEP_D_QUERIES)
        g->epilogue = (layer->rope.kind != ROPE_NONE ? EPILOGUE_TURN : 0) |
                      (layer->qk_norm != NORM_NONE ? EPILOGUE_NORM : 0);
    return true;
}

/* dx, and that of the source: each product but the first of them is added. */
bool plan_through(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool queries = g->id == STEP_THROUGH_Q, values = g->id == STEP_THROUGH_V;
    if (!layer->train)
        return false;
    if (queries)
        add_caller(p, LAYOUT_DX, "dx", layer->seq_len, layer->d_model, layer->d_model);
    if (queries && layer->cross)
        add_caller(p, LAYOUT_DSOURCE, "dsource", layer->source_len, layer->d_source, layer->d_source);
    if (!queries && layer->cross)
        g->writes = LAYOUT_DSOURCE;
    if (values ? layer->identity : !queries && layer->tied)
        g->reads[1] = values ? LAYOUT_NONE : LAYOUT_BACK_W_Q;
    g->through = (struct plan_through){
        .heads = queries ? layer->h : layer->h_kv, .d_row = values ? p->back.v_row : p->back.k_row,
        .columns = queries ? layer->d_in_q : layer->d_in_kv, .c_row = queries ? layer->d_model : layer->d_source,
        .read = queries ? READ_DQ : values ? READ_DV : READ_DK, .adds = g[-1].writes == g->writes};
    return true;
}

/* Heads of a projection are one matrix unless each reads columns of its own, or their gradients lie apart. */
static void sum_projection(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool queries = g->id == STEP_D_W_Q, values = g->id == STEP_D_W_V;
    const int64_t d_in = queries ? layer->d_in_q : layer->d_in_kv, width = queries ? layer->d_model : layer->d_source;
    const int64_t all = queries ? layer->h : layer->h_kv;
    int64_t heads = all, d = values ? layer->d_v : layer->d_k, row = values ? p->back.v_row : p->back.k_row;
    g->sum.bias = (struct sum_operand){.from = g->reads[1], .head = row, .row = all * row, .numbers = d};
    g->sum.bias_heads = layer->bias ? all : 0;
    if (!layer->split && row == d) {
        row = d = all * d;
        heads = 1;
    }
    g->sum.a = (struct sum_operand){.head = layer->split ? d_in : 0, .row = width, .numbers = d_in};
    g->sum.b = (struct sum_operand){.head = row, .row = heads * row, .numbers = d};
    g->sum.zero = 1;
    g->sum.heads = heads;
    g->sum.c_head = layer->split || layer->out_in ? d_in * d : d;
    g->sum.c_row = layer->out_in ? d_in : layer->split ? d : heads * d;
    g->sum.of_source = !queries;
}

static void sum_output(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool conv = layer->w_o == W_O_CONV;
    const int64_t d = conv ? layer->d_v : layer->h * layer->d_v, kept = layer_kept(layer);
    const int64_t width = conv ? layer->d_model / layer->h : layer->d_model;
    add_caller(p, LAYOUT_SAVED_Z, "z", layer->seq_len, layer->h * layer->d_v, kept);
    g->sum.a = (struct sum_operand){.head = conv ? d : 0, .row = kept, .numbers = d};
    g->sum.b = (struct sum_operand){.head = conv ? width : 0, .row = layer->d_model, .numbers = width};
    g->sum.taps = conv ? layer->conv_width : 0;
    g->sum.heads = conv ? layer->h * layer->conv_width : 1;
    g->sum.c_head = conv ? d * width : 1;
    g->sum.c_row = layer->out_in ? d : width;
}

/* A weight's gradient, [in][out] or [out][in]: the sum over tokens of the outer products of the weight's input, `a`,
 * and of the gradient of its output, `b`. */
bool plan_sum(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    struct plan_sum *const s = &g->sum;
    if (!layer->train || (g->id == STEP_D_W_V ? layer->identity : g->id == STEP_D_W_O && layer->w_o == W_O_NONE))
        return false;
    if (g->id != STEP_D_W_Q && g->id != STEP_D_W_O && layer->cross)
        g->reads[0] = LAYOUT_SOURCE;
    g->epilogue = layer->bias ? EPILOGUE_BIAS : 0;
    *s = (struct plan_sum){.zero = 0};
    if (g->id == STEP_D_W_O)
        sum_output(p, layer, g);
    else
        sum_projection(p, layer, g);
    s->a.from = g->reads[0];
    s->b.from = g->reads[1];
    if (layer->out_in) {
        const struct sum_operand a = s->a;
        s->a = s->b, s->b = a;
        s->zero = 1 - s->zero;
        g->reads[0] = s->a.from, g->reads[1] = s->b.from;
    }
    if (g->id == STEP_D_W_K && layer->tied) { /* both gradients are sums into dw_q: one part forms both, as no two parts
                                               * may write to the same numbers */
        s->joins = true;
        g->label = "w_q";
        g->writes = LAYOUT_DW_Q;
    } else {
        add_caller(p, g->writes, g->name, s->a.numbers, s->b.numbers, s->b.numbers);
    }
    const int64_t across = ceil_div(s->b.numbers, p->back.chunk_columns);
    const int64_t chunks = ceil_div(s->a.numbers, p->back.chunk_rows);
    const int64_t shared = max(1, min(MOST_SHARED, s->heads * chunks * across / FEWEST_PARTS));
    s->part_rows = p->back.chunk_rows * shared;
    s->chunks = ceil_div(chunks, shared) * across;
    s->parts = s->heads * s->chunks;
    p->back.weight_parts += s->joins ? 0 : s->parts + s->bias_heads;
    return true;
}

/* ---- places ---- */

/* Panels of a matrix from outputs to inputs, for backward: [group][panel][output][lane] */
static void place_back_weights(struct plan_isa *p, enum layout_name id, const char *name, int64_t groups,
                               int64_t outputs, int64_t inputs)
{
    place_new(p, id, name, OWNER_PACKED, groups * outputs, round_up(inputs, p->lanes));
}

void place_back_packed(struct plan_isa *p, const struct layer *layer)
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

/* Gradients of what forward has in its scratch, token by token; a worker's operands, first those of attention, then, in
 * the same place, those of sums over tokens. */
void place_back(struct plan_isa *p, const struct layer *layer)
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
