/* SPDX-License-Identifier: MIT */
/* The products of backward, in the order in which they are taken: what each reads and writes, and of sums over tokens
 * how their operands lie. Left out on purpose: the sizes of its tiles and blocks (plan.c).
 */
#include "plan/plan_parts.h"

#include "spec/score.h"
#include "spec/visible.h"

#define FEWEST_PARTS 4 /* of a matrix, that have several chunks of rows for the columns that are laid out once */
#define MOST_SHARED 4  /* chunks of a part */

static struct product *add(struct plan_isa *p, enum product_name id, enum layout_name a, enum layout_name b,
                           enum layout_name writes)
{
    static const char *const names[] = {
        [PRODUCT_D_Z] = "d z", [PRODUCT_WEIGHTS_AGAIN] = "weights again", [PRODUCT_D_SCORES] = "d scores",
        [PRODUCT_D_VALUES] = "d values", [PRODUCT_D_KEYS] = "d keys", [PRODUCT_D_QUERIES] = "d queries",
        [PRODUCT_THROUGH_Q] = "through w_q", [PRODUCT_THROUGH_K] = "through w_k",
        [PRODUCT_THROUGH_V] = "through w_v", [PRODUCT_D_W_Q] = "dw_q", [PRODUCT_D_W_K] = "dw_k",
        [PRODUCT_D_W_V] = "dw_v", [PRODUCT_D_W_O] = "dw_o",
    };
    struct product *const g = &p->products[p->product_count++];
    *g = (struct product){.id = id, .kind = PRODUCT_GRADIENT, .name = names[id], .reads = {a, b}, .writes = writes};
    return g;
}

/* A tensor of the caller, or what forward has kept of it, token by token */
static void add_caller(struct plan_isa *p, enum layout_name id, const char *name, int64_t rows, int64_t columns,
                       int64_t row)
{
    p->layouts[id] = (struct layout){.name = name, .owner = OWNER_CALLER, .shape = {1, 1, rows, columns},
                                     .stride = {0, 0, row, 1}};
}

/* Attention: weights are computed again, block by block, and from their gradients those of queries, keys and values. */
static void add_attention(struct plan_isa *p, const struct layer *layer)
{
    const unsigned turn = (layer->rope.kind != ROPE_NONE ? EPILOGUE_TURN : 0) |
                          (layer->qk_norm != NORM_NONE ? EPILOGUE_NORM : 0);
    add(p, PRODUCT_WEIGHTS_AGAIN, LAYOUT_Q_STRIPS, LAYOUT_K_PANELS, LAYOUT_BACK_P)->epilogue = EPILOGUE_SOFTMAX;
    add(p, PRODUCT_D_SCORES, LAYOUT_DZ_STRIPS, LAYOUT_V_PANELS, LAYOUT_BACK_DS);
    add(p, PRODUCT_D_VALUES, LAYOUT_BACK_P, LAYOUT_DZ_PANELS, LAYOUT_D_VALUES);
    add(p, PRODUCT_D_KEYS, LAYOUT_BACK_DS, LAYOUT_Q_PANELS, LAYOUT_D_KEYS)->epilogue = turn;
    add(p, PRODUCT_D_QUERIES, LAYOUT_BACK_DS, LAYOUT_K_BLOCKS, LAYOUT_D_QUERIES)->epilogue = turn;
}

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

static void add_through(struct plan_isa *p, const struct layer *layer, enum product_name id, enum layout_name d,
                        enum layout_name weights, enum layout_name to, enum back_read read)
{
    const bool queries = read == READ_DQ, values = read == READ_DV;
    const bool adds = to == p->products[p->product_count - 1].writes;
    add(p, id, d, weights, to)->through = (struct plan_through){
        .heads = queries ? layer->h : layer->h_kv, .d_row = values ? p->back.v_row : p->back.k_row,
        .columns = queries ? layer->d_in_q : layer->d_in_kv, .c_row = queries ? layer->d_model : layer->d_source,
        .read = read, .adds = adds};
}

/* dx, and that of the source: each product but the first of them is added */
static void add_inputs(struct plan_isa *p, const struct layer *layer)
{
    const enum layout_name of_source = layer->cross ? LAYOUT_DSOURCE : LAYOUT_DX;
    add_caller(p, LAYOUT_DX, "dx", layer->seq_len, layer->d_model, layer->d_model);
    if (layer->cross)
        add_caller(p, LAYOUT_DSOURCE, "dsource", layer->source_len, layer->d_source, layer->d_source);
    add_through(p, layer, PRODUCT_THROUGH_Q, LAYOUT_D_QUERIES, LAYOUT_BACK_W_Q, LAYOUT_DX, READ_DQ);
    add_through(p, layer, PRODUCT_THROUGH_K, LAYOUT_D_KEYS, layer->tied ? LAYOUT_BACK_W_Q : LAYOUT_BACK_W_K, of_source,
                READ_DK);
    add_through(p, layer, PRODUCT_THROUGH_V, LAYOUT_D_VALUES, layer->identity ? LAYOUT_NONE : LAYOUT_BACK_W_V,
                of_source, READ_DV);
}

/* A weight's gradient, [in][out] or [out][in]: the sum over tokens of the outer products of the weight's input, `a`,
 * and of the gradient of its output, `b`. zero: which of the two is 0 for a token that nothing sees, or that sees
 * nothing. */
static struct product *add_sum(struct plan_isa *p, const struct layer *layer, enum product_name id,
                               enum layout_name of_a, struct sum_operand a, enum layout_name of_b,
                               struct sum_operand b, int64_t zero)
{
    struct product *const g = add(p, id, of_a, of_b, LAYOUT_DW_Q + (id - PRODUCT_D_W_Q));
    static const char *const names[] = {"dw_q", "dw_k", "dw_v", "dw_o"};
    g->kind = PRODUCT_SUM;
    g->label = names[id - PRODUCT_D_W_Q] + 1;
    g->epilogue = layer->bias ? EPILOGUE_BIAS : 0;
    g->sum = (struct plan_sum){.of = {a, b}, .zero = zero};
    if (layer->out_in) {
        g->sum.of[0] = b, g->sum.of[1] = a;
        g->reads[0] = of_b, g->reads[1] = of_a;
        g->sum.zero = 1 - zero;
    }
    add_caller(p, g->writes, names[id - PRODUCT_D_W_Q], g->sum.of[0].numbers, g->sum.of[1].numbers,
               g->sum.of[1].numbers);
    return g;
}

/* Heads of a projection are one matrix unless each reads columns of its own, or their gradients lie apart. */
static void add_projection(struct plan_isa *p, const struct layer *layer, enum product_name id, enum layout_name input,
                           int64_t d_in, int64_t width, enum layout_name gradient, int64_t heads, int64_t d,
                           int64_t row)
{
    const bool out_in = layer->out_in;
    const struct sum_operand bias = {.head = row, .row = heads * row, .numbers = d};
    const int64_t bias_heads = layer->bias ? heads : 0;
    if (!layer->split && row == d) {
        row = d = heads * d;
        heads = 1;
    }
    const struct sum_operand a = {.head = layer->split ? d_in : 0, .row = width, .numbers = d_in};
    const struct sum_operand b = {.head = row, .row = heads * row, .numbers = d};
    struct product *const g = add_sum(p, layer, id, input, a, gradient, b, 1);
    g->sum.bias = bias;
    g->sum.bias_heads = bias_heads;
    g->sum.heads = heads;
    g->sum.c_head = layer->split || out_in ? d_in * d : d;
    g->sum.c_row = out_in ? d_in : layer->split ? d : heads * d;
    g->sum.of_source = gradient != LAYOUT_D_QUERIES;
}

static void add_weights(struct plan_isa *p, const struct layer *layer)
{
    const enum layout_name source = layer->cross ? LAYOUT_SOURCE : LAYOUT_X;
    add_projection(p, layer, PRODUCT_D_W_Q, LAYOUT_X, layer->d_in_q, layer->d_model, LAYOUT_D_QUERIES, layer->h,
                   layer->d_k, p->back.k_row);
    add_projection(p, layer, PRODUCT_D_W_K, source, layer->d_in_kv, layer->d_source, LAYOUT_D_KEYS, layer->h_kv,
                   layer->d_k, p->back.k_row);
    if (layer->tied) { /* both gradients are sums into dw_q: one part forms both, as no two parts may write to the
                        * same numbers */
        struct product *const keys = &p->products[p->product_count - 1];
        keys->sum.joins = true;
        keys->label = "w_q";
        keys->writes = LAYOUT_DW_Q;
        p->layouts[LAYOUT_DW_K] = (struct layout){0};
    }
    if (!layer->identity)
        add_projection(p, layer, PRODUCT_D_W_V, source, layer->d_in_kv, layer->d_source, LAYOUT_D_VALUES, layer->h_kv,
                       layer->d_v, p->back.v_row);
    if (layer->w_o == W_O_NONE)
        return;
    const bool conv = layer->w_o == W_O_CONV;
    const int64_t d = conv ? layer->d_v : layer->h * layer->d_v, kept = layer_kept(layer);
    const int64_t width = conv ? layer->d_model / layer->h : layer->d_model;
    const struct sum_operand z = {.head = conv ? d : 0, .row = kept, .numbers = d};
    const struct sum_operand dy = {.head = conv ? width : 0, .row = layer->d_model, .numbers = width};
    add_caller(p, LAYOUT_SAVED_Z, "z", layer->seq_len, layer->h * layer->d_v, kept);
    struct product *const g = add_sum(p, layer, PRODUCT_D_W_O, LAYOUT_SAVED_Z, z, LAYOUT_DY, dy, 0);
    g->sum.taps = conv ? layer->conv_width : 0;
    g->sum.heads = conv ? layer->h * layer->conv_width : 1;
    g->sum.c_head = conv ? d * width : 1;
    g->sum.c_row = g->sum.of[1].numbers;
}

void plan_gradients(struct plan_isa *p, const struct layer *layer)
{
    add_caller(p, LAYOUT_DY, "dy", layer->seq_len, layer->d_out, layer->d_out);
    add(p, PRODUCT_D_Z, LAYOUT_DY, layer->w_o == W_O_NONE ? LAYOUT_NONE : LAYOUT_BACK_W_O, LAYOUT_D_Z);
    add_attention(p, layer);
    add_operands(p, layer);
    add_inputs(p, layer);
    add_weights(p, layer);
    for (struct product *g = p->products; g < p->products + p->product_count; g++)
        if (g->kind == PRODUCT_SUM) {
            const int64_t across = ceil_div(g->sum.of[1].numbers, p->back.chunk_columns);
            const int64_t chunks = ceil_div(g->sum.of[0].numbers, p->back.chunk_rows);
            const int64_t shared = max(1, min(MOST_SHARED, g->sum.heads * chunks * across / FEWEST_PARTS));
            g->sum.part_rows = p->back.chunk_rows * shared;
            g->sum.chunks = ceil_div(chunks, shared) * across;
            g->sum.parts = g->sum.heads * g->sum.chunks;
            p->back.weight_parts += g->sum.joins ? 0 : g->sum.parts + g->sum.bias_heads;
        }
    p->back.weight_parts += (score_has(layer, SCORE_RELATIVE) ? layer->h : 0) + (layer->sink ? 1 : 0) +
                            (layer_has_tensor(layer, TENSOR_G_Q) ? 1 : 0) +
                            (layer->bias && layer->w_o != W_O_NONE ? 1 : 0);
}
