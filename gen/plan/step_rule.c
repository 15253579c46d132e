/* SPDX-License-Identifier: MIT */
/* The recurrence of layer = recurrent: strips of a state, their place, their expected time.
 *
 * Left out on purpose: what a call brings (plan_inputs.c).
 */
#include "plan/planning.h"

#define MOST_VECS 4      /* of a strip: from here on sums no longer wait for each other */
#define ROWS_UNROLLED 4
#define OPERANDS_HELD 5  /* vectors of a row besides sums and the strip's: k, the next token's, q, decay, beta */

/* Vectors of a strip, at most: half of L1 holds its rows; registers hold, for each vector, what is summed of one query
 * and of the next key, the correction and the state's row. */
static int64_t most_vecs(const struct plan_isa *p, const struct layer *layer)
{
    const int64_t row = p->lanes * (int64_t)element_size(TENSOR_F32);
    const int64_t fit = (int64_t)p->isa->l1d_bytes / 2 / (layer->d_k * row);
    return max(1, min(min(fit, MOST_VECS), (p->isa->registers - OPERANDS_HELD) / 4));
}

/* What plans the layer as a whole needs: there are no blocks of queries, and all sequences are one group. */
void plan_recurrent(struct plan_isa *p, const struct layer *layer)
{
    p->vecs = most_vecs(p, layer);
    p->block = p->vecs * p->lanes;
    p->at_once = true;
    p->batch_rows = layer->pad_skipped ? INT32_MAX : 0;
    p->query_blocks = p->source_blocks = ceil_div(layer->seq_len, p->block);
    p->layouts[LAYOUT_QUERIES] = given_of(layer, "q", layer->h, layer->seq_len, layer->d_k);
    p->layouts[LAYOUT_KEYS] = given_of(layer, "k", layer->h_kv, layer->seq_len, layer->d_k);
    p->layouts[LAYOUT_VALUES] = given_of(layer, "v", layer->h_v, layer->seq_len, layer->d_v);
    p->layouts[LAYOUT_Y] = given_of(layer, "y", layer->h_out, layer->seq_len, layer->d_v);
}

bool plan_rule(struct plan_isa *p, const struct layer *layer, const struct plan_request *request, struct step *g)
{
    struct plan_rule *const r = &g->rule;
    if (!layer_is_recurrent(layer))
        return false;
    const int64_t vecs = ceil_div(layer->d_v, p->lanes);
    r->vecs = near_equal(vecs, most_vecs(p, layer));
    r->strips = ceil_div(vecs, r->vecs);
    r->rest = vecs - (r->strips - 1) * r->vecs;
    r->columns = layer->d_v - (vecs - 1) * p->lanes;
    r->heads = layer->h_out / layer->h_v;
    r->together = max(1, min(r->heads, (p->isa->registers - OPERANDS_HELD) / r->vecs - 3));
    r->unroll = request_is_small(request) ? 1 : min(ROWS_UNROLLED, layer->d_k);
    g->size = r->strips;
    return true;
}

void place_rule(struct plan_isa *p, const struct layer *layer)
{
    const struct step *const g = plan_step(p, STEP_RULE);
    if (g == NULL)
        return;
    place_new(p, LAYOUT_STRIP, "strip of a state", OWNER_WORKER, layer->d_k, g->rule.vecs * p->lanes);
    if (layer_decays(layer) && layer->decay == DECAY_COLUMN) /* of this token and the next: decays, decayed keys */
        place_new(p, LAYOUT_DECAYS, "decays", OWNER_WORKER, 2, 2 * round_up(layer->d_k, p->lanes));
}

/* Each row of a strip is read, changed and written once a token. */
static void count_rule(struct model *m, struct work *w, const struct step *g, int64_t tokens, double input,
                       double times)
{
    const struct layer *const l = m->layer;
    const double rows = (double)tokens * times * (double)(l->h_v * l->d_k);
    const double vecs = (double)((g->rule.strips - 1) * g->rule.vecs + g->rule.rest);
    const double sums = (layer_corrects(l) ? 2 : 1) + (double)g->rule.heads;
    const double states = times * (double)tokens / (double)l->seq_len * (double)(l->h_v * l->d_k * l->d_v);
    (void)input;
    w->fmas += rows * vecs * sums;
    w->port_cycles += rows * vecs * sums / m->core->ports;
    w->operations += layer_decays(l) ? rows * vecs : 0;
    w->loads += rows * (vecs + (double)g->rule.strips * (sums + (l->decay == DECAY_COLUMN ? 1 : 0)));
    w->tiles += (double)tokens * times * (double)(l->h_v * g->rule.strips);
    w->overhead += (double)tokens * times * (double)(l->h_v * g->rule.strips) * RULE_CYCLES;
    w->l3 += states * 2 * size_of(m, LAYOUT_STRIP) * m->far;
}

static int64_t tile_of(const struct plan_isa *p, const struct step *g)
{
    (void)p;
    return (g->rule.together + 3) * g->rule.vecs;
}

static int64_t unroll_of(const struct step *g)
{
    return g->rule.unroll;
}

static void print_rule(FILE *out, const struct plan_isa *p, const struct step *g)
{
    fprintf(out, "      %-14s strips: " D64 " of " D64 " columns a state, outputs of " D64 " quer%s in one pass\n",
            g->name, g->rule.strips, g->rule.vecs * p->lanes, g->rule.together, g->rule.together == 1 ? "y" : "ies");
}

void explain_rule(struct plan_isa *p, const struct layer *layer)
{
    const struct plan_rule *const r = &plan_step(p, STEP_RULE)->rule;
    reason(p, "token by token: a state is cut into " D64 " strip%s of at most " D64 " columns, each a part that stays "
           "in L1 (" D64 " KiB) from the first token to the last", r->strips, plural(r->strips), r->vecs * p->lanes,
           ceil_div(layer->d_k * r->vecs * p->lanes * (int64_t)element_size(TENSOR_F32), 1024));
}

const struct step_kind_row rule_kind = {.tile = tile_of, .unroll = unroll_of, .count = count_rule,
                                        .print = print_rule};
