/* SPDX-License-Identifier: MIT */
/* The steps of layer = recurrent: what is made of x, the recurrence in strips of a state, the gated norm; their places
 * and expected time.
 *
 * Left out on purpose: the convolution (step_conv.c); the product with W_O and a block's steps, which are those of
 * attention.
 */
#include "plan/planning.h"

#define MOST_VECS 4      /* of a strip: from here on sums no longer wait for each other */
#define ROWS_UNROLLED 4
#define CHUNK_ROWS 4     /* of S that a chunk changes together */
#define MOST_SUMS 6      /* rows of keys and queries that are summed together: the sums no longer wait for each other */
#define OPERANDS_HELD 5  /* vectors of a row besides sums and the strip's: k, k of the next token, q, decay, beta */
#define STEP_HELD 4      /* of a step: k, q, decay, a row of S */

/* Cycles, measured on a Zen 5 with heads of 16 to 128: sums of a token and a piece that begin and end; of a chunk's
 * products of keys and queries, which wait for each other */
#define TOKEN_CYCLES 40.0
#define CHUNK_CYCLES 480.0

/* Vectors of a strip, at most: rows of 4/3 of L1, as its pieces are read one after the other */
static int64_t vecs_in_l1(const struct isa *isa, const struct layer *layer)
{
    return max(1, (int64_t)isa->l1d_bytes * 4 / 3 / (layer->d_k * isa->lanes * (int64_t)element_size(TENSOR_F32)));
}

/* Vectors of a piece, at most: registers hold, for each vector, a token's correction, an output, what the state holds
 * for the key after, and the state's row. */
static int64_t most_vecs(const struct isa *isa, const struct layer *layer)
{
    const int64_t held = max(1, (isa->registers - OPERANDS_HELD) / 4);
    return min(vecs_in_l1(isa, layer), min(held, MOST_VECS));
}

/* Of a token and one state, `chunk` tokens at once: rows that are updated and summed; of chunks, products of keys and
 * queries with keys, and what these correct. */
static struct work work_of(const struct isa *isa, const struct layer *layer, int64_t chunk)
{
    const int64_t vecs = ceil_div(layer->d_v, isa->lanes), pieces = ceil_div(vecs, most_vecs(isa, layer));
    const double rows = (double)(layer->d_k * vecs), wide = (double)(ceil_div(layer->d_k, isa->lanes));
    const double sums = (double)(layer->h_out / layer->h_v + (layer_corrects(layer) ? 1 : 0));
    const double pairs = chunk > 1 ? sums * (double)(chunk + 1) / 2 : 0;
    const bool columns = layer_decays(layer) && layer->decay == DECAY_COLUMN;
    return (struct work){
        .fmas = rows * (sums + 1) + pairs * (wide + (double)vecs),
        .operations = (layer_decays(layer) ? rows / (double)chunk : 0) +
                      (chunk > 1 ? (2 * sums + (columns ? pairs : 0)) * wide : 0),
        .overhead = chunk > 1 ? CHUNK_CYCLES / (double)chunk : TOKEN_CYCLES * (double)pieces};
}

static double cycles_of(const struct isa *isa, const struct layer *layer, int64_t chunk)
{
    const struct work w = work_of(isa, layer, chunk);
    return (w.fmas + w.operations) / isa->fma_ports + w.overhead;
}

int64_t rule_chunk(const struct layer *layer, const struct isa *isa)
{
    const int64_t chunk = layer_state_chunk(layer);
    int64_t most = 1;
    if (chunk == 1)
        return 1;
    if (isa != NULL)
        return layer_asks_chunks(layer) || cycles_of(isa, layer, chunk) < cycles_of(isa, layer, 1) ? chunk : 1;
    for (size_t i = 0; i < isa_count; i++)
        most = max(most, rule_chunk(layer, &isa_table[i]));
    return most;
}

/* What a plan needs as a whole. Of given q, k and v all sequences are one group. */
void plan_recurrent(struct plan_isa *p, const struct layer *layer)
{
    if (!layer->projected) {
        const int64_t heads = layer->h_out, d = layer->d_v;
        plan_rowwise(p, layer);
        p->layouts[LAYOUT_Z] = rows_of("z", OWNER_SCRATCH, heads, max(layer->seq_len, p->batch_rows), d, d, heads * d);
        p->z_rows = true;
        return;
    }
    p->vecs = most_vecs(p->isa, layer);
    p->block = p->vecs * p->lanes;
    p->at_once = true;
    p->batch_rows = layer->pad_skipped ? INT32_MAX : 0;
    p->query_blocks = p->source_blocks = ceil_div(layer->seq_len, p->block);
    p->layouts[LAYOUT_QUERIES] = given_of(layer, "q", layer->h, layer->seq_len, layer->d_k);
    p->layouts[LAYOUT_KEYS] = given_of(layer, "k", layer->h_kv, layer->seq_len, layer->d_k);
    p->layouts[LAYOUT_VALUES] = given_of(layer, "v", layer->h_v, layer->seq_len, layer->d_v);
    p->layouts[LAYOUT_Y] = given_of(layer, "y", layer->h_out, layer->seq_len, layer->d_v);
}

/* Rows of what a step makes of x: its heads, and numbers of one */
static int64_t made_heads(const struct layer *layer, enum step_name id, int64_t *d)
{
    const bool columns = layer->decay == DECAY_COLUMN;
    if (id == STEP_LOW_A || id == STEP_LOW_Z) {
        *d = id == STEP_LOW_A ? layer->decay_rank : layer->gate_rank;
        return 1;
    }
    *d = layer_attends(layer) ? layer_gate_width(layer)
       : id == STEP_MIX_Q || id == STEP_MIX_K || (id == STEP_MIX_A && columns) ? layer->d_k
       : id == STEP_MIX_A || id == STEP_MIX_B ? 1 : layer->d_v;
    return id == STEP_MIX_Q || layer_attends(layer) ? layer->h
         : id == STEP_MIX_K ? layer->h_kv : id == STEP_MIX_Z ? layer->h_out : layer->h_v;
}

bool plan_mixed(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool has = layer_attends(layer) ? g->id == STEP_MIX_Z && layer->gate != GATE_NONE
                   : g->id == STEP_LOW_A ? layer->decay_rank > 0 : g->id == STEP_LOW_Z ? layer->gate_rank > 0
                   : g->id == STEP_MIX_Z ? layer->out_gate != OUT_GATE_NONE : g->id == STEP_MIX_A ? layer_decays(layer)
                   : g->id != STEP_MIX_B || layer_corrects(layer);
    if (!layer_mixes(layer) || layer->projected || !has)
        return false;
    int64_t d;
    const int64_t heads = made_heads(layer, g->id, &d), tokens = max(layer->seq_len, p->batch_rows);
    const bool low = g->id == STEP_LOW_A || g->id == STEP_LOW_Z;
    g->reads[0] = g->id == STEP_MIX_A && layer->decay_rank > 0 ? LAYOUT_LOW_A
                : g->id == STEP_MIX_Z && layer->gate_rank > 0 ? LAYOUT_LOW_Z
                : reads_rounded(p) ? LAYOUT_ROUNDED_X : input_read(layer, true);
    p->layouts[g->writes] = rows_of(g->name, OWNER_SCRATCH, heads, tokens, d, d, row_stride(p, heads * d));
    begin_panels(p, g, p->layouts[g->reads[0]].shape[AXIS_FEATURE], heads * d,
                 layer->bias && !low);
    end_panels(p, layer, g, layer->seq_len, p->batch_rows);
    return true;
}

/* Rows of tokens in a part */
static int64_t part_rows(int64_t numbers) { return max(1, PART_NUMBERS / numbers); }

bool plan_around_rule(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    if (layer_attends(layer) && g->id == STEP_GATE_Z) {
        g->name = "gates of outputs";
        g->size = part_rows(layer->h * layer->d_v);
        return layer->gate != GATE_NONE;
    }
    if (!layer_is_recurrent(layer) || layer->projected)
        return false;
    const bool shares = g->id == STEP_SHARES;
    const int64_t tokens = max(layer->seq_len, p->batch_rows);
    if (shares && layer->dt_values)
        p->layouts[LAYOUT_BETA] = rows_of("dt", OWNER_SCRATCH, layer->h_v, tokens, 1, 1, row_stride(p, layer->h_v));
    g->size = part_rows(!shares ? layer->d_out : layer->h_v * (layer->decay == DECAY_COLUMN ? layer->d_k : 1));
    return shares ? layer_decays(layer) || layer_corrects(layer) : layer->out_gate != OUT_GATE_NONE;
}

/* Vectors of a step's piece, as much of a part's rows as registers hold of corrections and outputs: of parts whose
 * pieces are alike and need no copy. */
static int64_t step_vecs(const struct isa *isa, const struct layer *layer, const struct plan_rule *r)
{
    const bool alike = r->rest == r->vecs && r->columns == isa->lanes && r->all % r->pieces == 0;
    int64_t vecs = min(r->pieces * r->vecs, (isa->registers - STEP_HELD) / (1 + min(r->heads, 2)));
    if (!layer_corrects(layer) || !alike || layer->cache_type != TENSOR_F32 || layer->state_window > 0)
        return 0;
    while (r->pieces * r->vecs % vecs != 0)
        vecs--;
    return vecs;
}

bool plan_rule(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    struct plan_rule *const r = &g->rule;
    if (!layer_is_recurrent(layer))
        return false;
    const int64_t vecs = ceil_div(layer->d_v, p->lanes);
    r->chunk = rule_chunk(layer, p->isa);
    r->vecs = near_equal(vecs, most_vecs(p->isa, layer));
    r->all = ceil_div(vecs, r->vecs);
    r->pieces = r->chunk > 1 ? near_equal(r->all, max(1, vecs_in_l1(p->isa, layer) / r->vecs)) : 1;
    r->strips = ceil_div(r->all, r->pieces);
    r->rest = vecs - (r->all - 1) * r->vecs;
    r->sums = max(1, min((p->isa->registers - 1 - r->vecs) / r->vecs, MOST_SUMS));
    r->rows = min(CHUNK_ROWS, layer->d_k);
    r->columns = layer->d_v - (vecs - 1) * p->lanes;
    r->heads = layer->h_out / layer->h_v;
    r->unroll = p->small ? 1 : min(ROWS_UNROLLED, layer->d_k);
    r->together = max(1, min(r->heads, (p->isa->registers - OPERANDS_HELD) / r->vecs - 3));
    r->step = p->small ? 0 : step_vecs(p->isa, layer, r);
    r->step_together = r->step > 0 ? max(1, min(r->heads, (p->isa->registers - STEP_HELD) / r->step - 1)) : 0;
    g->tile = (r->together + 3) * r->vecs;
    g->unroll = r->unroll;
    g->size = layer->h_v * r->strips;
    return true;
}

/* What is learned besides matrices */
void place_rule_packed(struct plan_isa *p, const struct layer *layer)
{
    static const struct { enum layer_tensor tensor; enum layout_name id; } learned[] = {
        {TENSOR_A_LOG, LAYOUT_A_LOG}, {TENSOR_DT_B, LAYOUT_DT_B}, {TENSOR_CONV_Q, LAYOUT_CONV_Q},
        {TENSOR_CONV_K, LAYOUT_CONV_K}, {TENSOR_CONV_V, LAYOUT_CONV_V}, {TENSOR_G_O, LAYOUT_G_O},
        {TENSOR_CONV_Q_B, LAYOUT_CONV_Q_B}, {TENSOR_CONV_K_B, LAYOUT_CONV_K_B}, {TENSOR_CONV_V_B, LAYOUT_CONV_V_B},
        {TENSOR_SKIP, LAYOUT_SKIP},
        {TENSOR_CONV_X, LAYOUT_CONV_X}, {TENSOR_B, LAYOUT_B}};
    for (size_t i = 0; layer_keeps_states(layer) && i < sizeof learned / sizeof *learned; i++) {
        int64_t shape[4];
        const int axes = layer_weight_shape(layer, learned[i].tensor, shape);
        if (axes > 0)
            place_new(p, learned[i].id, layer_tensor_name(learned[i].tensor), OWNER_PACKED, axes > 1 ? shape[1] : 1,
                      shape[0]);
    }
}

void place_rule(struct plan_isa *p, const struct layer *layer)
{
    const struct step *const g = plan_step(p, STEP_RULE);
    if (g == NULL)
        return;
    const enum layout_name made[] = {LAYOUT_QUERIES, LAYOUT_KEYS, LAYOUT_VALUES, LAYOUT_OUT_GATES, LAYOUT_DECAY,
                                     LAYOUT_BETA, LAYOUT_LOW_A, LAYOUT_LOW_Z, LAYOUT_Z};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        place(p, made[i]);
    const struct plan_rule *const r = &g->rule;
    const int64_t of_heads = r->heads + (layer_corrects(layer) ? 1 : 0), row = round_up(r->chunk, p->lanes);
    place_new(p, LAYOUT_STRIP, "strip of a state", OWNER_WORKER, r->pieces * layer->d_k, r->vecs * p->lanes);
    const bool columns = layer_decays(layer) && layer->decay == DECAY_COLUMN;
    if (columns) /* of this token and the next: decays, decayed keys */
        place_new(p, LAYOUT_DECAYS, "decays", OWNER_WORKER, 4, round_up(layer->d_k, p->lanes));
    if (r->chunk == 1)
        return;
    place_new(p, LAYOUT_NEAR, "keys and queries of a chunk", OWNER_WORKER,
              of_heads * r->chunk + (columns ? 2 * r->chunk + 1 : 0), round_up(layer->d_k, p->lanes));
    place_new(p, LAYOUT_SUMS, "sums of a chunk", OWNER_WORKER, (of_heads + 1) * r->chunk, r->vecs * p->lanes);
    place_new(p, LAYOUT_SHARES, "shares of a chunk", OWNER_WORKER, (of_heads + 1) * r->chunk + 3, row);
    place_new(p, LAYOUT_PAIRS, "pairs of a chunk", OWNER_WORKER, round_up(r->chunk * (r->chunk + 1) / 2, p->lanes),
              p->lanes);
}

/* Each row of a strip is read, changed and written once a chunk; one by one, once a token. */
static void count_rule(struct model *m, struct work *w, const struct step *g, int64_t tokens, double times)
{
    const struct layer *const l = m->layer;
    const struct work each = work_of(m->plan->isa, l, g->rule.chunk);
    const double passes = (double)tokens * times * (double)l->h_v, chunk = (double)g->rule.chunk;
    const double vecs = (double)((g->rule.all - 1) * g->rule.vecs + g->rule.rest);
    const double broadcasts = (double)g->rule.strips * (double)(g->rule.heads + (layer_corrects(l) ? 2 : 1));
    const double states = times * (double)tokens / (double)l->seq_len * (double)layer_state_numbers(l) /
                          (double)l->states;
    w->fmas += passes * each.fmas;
    w->port_cycles += passes * each.fmas / m->core->ports;
    w->operations += passes * each.operations;
    w->loads += passes * (double)l->d_k * (vecs / chunk + broadcasts);
    w->tiles += passes * (double)g->rule.strips / chunk;
    w->overhead += passes * each.overhead;
    w->l3 += states * 2 * size_of(m, LAYOUT_STRIP) * m->far;
}

static void print_rule(FILE *out, const struct plan_isa *p, const struct step *g)
{
    fprintf(out, "      %-14s strips: " D64 " of " D64 " columns a state; in one pass " D64 " token%s, outputs of " D64
            " quer%s\n", g->name, g->rule.strips, g->rule.pieces * g->rule.vecs * p->lanes, g->rule.chunk,
            plural(g->rule.chunk), g->rule.together, g->rule.together == 1 ? "y" : "ies");
}

void explain_rule(struct plan_isa *p, const struct layer *layer)
{
    const struct plan_rule *const r = &plan_step(p, STEP_RULE)->rule;
    if (!layer->projected) {
        explain_panels(p);
        explain_block(p, layer);
    }
    reason(p, "a state is cut into " D64 " strip%s of at most " D64 " columns, each a part (" D64
           " KiB) that stays in L1 and L2 from the first token to the last; %s", r->strips, plural(r->strips),
           r->pieces * r->vecs * p->lanes,
           ceil_div(layer->d_k * r->pieces * r->vecs * p->lanes * (int64_t)element_size(TENSOR_F32), 1024),
           r->chunk > 1 ? "eight tokens go through it at once, the last ones that are fewer one by one "
                          "(plan.exact_chunks = true: all)" : "tokens go through it one by one");
    if (layer_state_chunk(layer) > 1)
        reason(p, "a token and a state are expected to take %.0f cycles one by one, %.0f by eight: %s",
               cycles_of(p->isa, layer, 1), cycles_of(p->isa, layer, layer_state_chunk(layer)),
               layer_asks_chunks(layer) ? "plan.exact_chunks = false asks for eight" : "the lower one is taken");
}

const struct step_kind_row rule_kind = {.count = count_rule, .print = print_rule};
