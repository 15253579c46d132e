/* SPDX-License-Identifier: MIT */
/* The convolution over tokens: how it is cut into parts, its place and its expected time. */
#include "plan/planning.h"

#define TOKENS_TOGETHER 4 /* sums that do not wait for each other; a tap is loaded once for all of them */
#define MOST_UNROLLED 8   /* taps; more are a loop */

/* What a plan of layer = conv needs as a whole: all sequences are one group. */
void plan_convolution(struct plan_isa *p, const struct layer *layer)
{
    const int64_t d = layer->d_model;
    p->vecs = 1;
    p->block = p->lanes;
    p->at_once = true;
    p->batch_rows = layer->pad_skipped ? INT32_MAX : 0;
    p->query_blocks = p->source_blocks = ceil_div(layer->seq_len, p->block);
    p->layouts[LAYOUT_X] = rows_of("x", OWNER_CALLER, 1, layer->seq_len, d, 0, d);
    p->layouts[LAYOUT_Y] = rows_of("y", OWNER_CALLER, 1, layer->seq_len, d, 0, d);
}

/* Columns of a part of layer = conv: half of L1 has room for rows that are read and written together, and for taps. */
static int64_t columns_fit(const struct plan_isa *p, const struct layer *layer, const struct plan_conv *c)
{
    const int64_t rows = 2 * (layer->conv_taps + c->tokens);
    const int64_t fit = (int64_t)p->isa->l1d_bytes / 2 / (rows * (int64_t)element_size(TENSOR_F32));
    return p->lanes * near_equal(ceil_div(layer->d_model, p->lanes), max(1, fit / p->lanes));
}

bool plan_conv(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    struct plan_conv *const c = &g->conv;
    const bool made = layer_is_recurrent(layer) && !layer->projected;
    c->tokens = p->small ? 1 : TOKENS_TOGETHER;
    g->unroll = c->unroll = !p->small && layer->conv_taps <= MOST_UNROLLED ? layer->conv_taps : 1;
    g->tile = 2 * c->tokens;
    if (layer_is_convolution(layer)) {
        g->name = "convolution";
        g->reads[0] = LAYOUT_X;
        g->writes = LAYOUT_Y;
        c->columns = min(layer->d_model, columns_fit(p, layer, c));
        g->size = ceil_div(layer->d_model, c->columns);
    } else if (made) { /* heads of q, k and, if they are convolved, v */
        c->columns = max(layer->d_k, layer->d_v);
        g->size = layer->h + layer->h_kv + (layer->conv_taps > 0 ? layer->h_v : 0);
    }
    c->row = round_up(c->columns, p->lanes);
    return layer_is_convolution(layer) || (made && (layer->conv_taps > 0 || layer->qk_norm != NORM_NONE));
}

void place_conv(struct plan_isa *p, const struct layer *layer)
{
    const struct step *const g = plan_step(p, STEP_CONV);
    if (g != NULL && layer->conv_history > 0)
        place_new(p, LAYOUT_BEFORE, "tokens before", OWNER_WORKER, 2 * (layer->conv_taps - 1), g->conv.row);
}

/* Each tap is loaded once for some tokens; x and y are read and written once, and so is a sequence's state. */
static void count_conv(struct model *m, struct work *w, const struct step *g, int64_t tokens, double times)
{
    const struct layer *const l = m->layer;
    const double vecs = (double)ceil_div(l->d_model, m->plan->lanes), outputs = (double)tokens * times * vecs;
    const double each = (double)l->conv_taps, sequences = (double)tokens * times / (double)l->seq_len;
    const struct layer_activation_row *const row = &layer_activation_rows[ACTIVATION_SILU];
    if (!layer_is_convolution(l))
        return;
    w->fmas += outputs * each;
    w->port_cycles += outputs * each / m->core->ports;
    w->operations += l->activation == ACTIVATION_NONE ? 0 : outputs * (row->operations + row->powers * m->core->exp);
    w->loads += outputs * each * (1 + 1 / (double)g->conv.tokens);
    w->tiles += outputs / (double)g->conv.tokens;
    w->overhead += sequences * (double)(l->d_model * l->conv_history); /* numbers of a state, one by one */
    w->l3 += (double)tokens * times * 2 * m->input * size_of(m, LAYOUT_X);
}

void explain_conv(struct plan_isa *p, const struct layer *layer)
{
    const struct step *const g = plan_step(p, STEP_CONV);
    reason(p, "columns are cut into " D64 " part%s of at most " D64 ", whose rows stay in L1; " D64 " token%s at once, "
           "from the last to the first", g->size, plural(g->size), g->conv.columns, g->conv.tokens,
           plural(g->conv.tokens));
    if (g->conv.unroll < layer->conv_taps)
        reason(p, D64 " taps are a loop", layer->conv_taps);
}

const struct step_kind_row conv_kind = {.count = count_conv};
