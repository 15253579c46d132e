/* SPDX-License-Identifier: MIT */
/* Norms of a block's rows: before attention or the first product, between attention and feed-forward, of y.
 *
 * Left out on purpose: norms of queries and keys, which the step that projects them applies (step_products.c).
 */
#include "plan/planning.h"

bool norms_y(const struct layer *layer)
{
    return layer->block == BLOCK_POST || layer_norms_outputs(layer);
}

static void add_norm(struct step *step, int64_t norm, enum layout_name from, enum layout_name residual,
                     enum layout_name to)
{
    const enum layout_name gain = LAYOUT_N1_G + 2 * ((enum layout_name)norm - 1);
    step->rows.norms[step->rows.norm_count].norm = norm;
    step->rows.norms[step->rows.norm_count].from = from;
    step->rows.norms[step->rows.norm_count].residual = residual;
    step->rows.norms[step->rows.norm_count].to = to;
    step->rows.norms[step->rows.norm_count].gain = gain;
    step->rows.norms[step->rows.norm_count++].shift = gain + 1;
    step->reads[0] = from;
    step->reads[1] = residual != LAYOUT_NONE ? residual : step->reads[1];
    step->writes = to;
}

bool plan_norm(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool of_x = g->id == STEP_NORM_X, of_y = g->id == STEP_NORM_Y, attends = layer_mixes(layer);
    if (of_x ? !layer_norms_first(layer)
        : of_y ? !norms_y(layer) : !attends || !layer_has_ffn(layer) || layer->block == BLOCK_PARALLEL)
        return false;
    const int64_t bytes = layer->d_model * layout_element(p, LAYOUT_STREAM);
    g->epilogue = EPILOGUE_NORM;
    g->rows.once = min(p->lanes, max(1, (int64_t)p->isa->l1d_bytes / 2 / bytes));
    g->rows.part_rows = round_up(ceil_div(PART_NUMBERS, layer->d_model), g->rows.once);
    g->over = OVER_ROWS;
    g->size = g->rows.part_rows;
    if (of_x) { /* in parallel the feed-forward's rows too */
        g->rows.widens = layer_types_tensors(layer);
        if (layer->block == BLOCK_PARALLEL && layer_norms(layer) == 2) {
            p->layouts[LAYOUT_NORMED_2] = stream_of(p, layer, "normed for the feed-forward");
            add_norm(g, 2, LAYOUT_X, LAYOUT_NONE, LAYOUT_NORMED_2);
        }
        add_norm(g, 1, LAYOUT_X, LAYOUT_NONE, LAYOUT_NORMED);
    } else if (of_y) {
        const enum layout_name residual = layer_has_ffn(layer) && attends ? LAYOUT_STREAM : LAYOUT_X;
        g->rows.narrows = layer_types_tensors(layer);
        g->epilogue |= g->rows.narrows ? EPILOGUE_NARROW : 0;
        add_norm(g, layer_norms(layer), LAYOUT_Y, layer_norms_outputs(layer) ? residual : LAYOUT_NONE, LAYOUT_Y);
    } else if (layer->block == BLOCK_POST) {
        add_norm(g, 1, LAYOUT_STREAM, LAYOUT_NONE, LAYOUT_STREAM);
    } else {
        const int64_t first = layer->block == BLOCK_SANDWICH ? 2 : 1; /* the first norm after attention */
        if (layer_norms_outputs(layer))
            add_norm(g, first, LAYOUT_STREAM, LAYOUT_X, LAYOUT_STREAM);
        if (layer->block == BLOCK_OUTPUTS)
            return true;
        if (p->layouts[LAYOUT_NORMED].name == NULL)
            p->layouts[LAYOUT_NORMED] = stream_of(p, layer, "normed");
        add_norm(g, layer->block == BLOCK_PRE ? layer_norms(layer) : 3, LAYOUT_STREAM, LAYOUT_NONE, LAYOUT_NORMED);
    }
    return true;
}

/* Norms of rows of a block, each step over all rows: numbers are read twice or three times and written once. */
static void count_norms(struct model *m, struct work *w, const struct step *g, int64_t tokens, double times)
{
    const double rows = (double)tokens * times;
    const struct layer *l = m->layer;
    const int64_t lanes = m->plan->lanes;
    const double all = (double)ceil_div(l->d_model, lanes), passes = l->block_rms ? 1 : 2;
    for (int i = 0; i < g->rows.norm_count; i++) {
        const enum layout_name streams[] = {g->rows.norms[i].from, g->rows.norms[i].residual, g->rows.norms[i].to};
        w->loads += rows * all * (passes + 2 + (streams[1] != LAYOUT_NONE ? 1 : 0));
        w->operations += rows * all * (3 * passes + 2);
        w->overhead += rows * passes * (m->core->transpose * (double)lanes + NORM_CYCLES / (double)lanes);
        for (int k = 0; k < 3; k++)
            if (streams[k] != LAYOUT_NONE)
                w->l3 += rows * (double)l->d_model * size_of(m, streams[k]) *
                         (m->plan->layouts[streams[k]].owner == OWNER_CALLER ? m->far : m->near);
    }
}

static void print_norms(FILE *out, const struct plan_isa *p, const struct step *g)
{
    fprintf(out, "      %-14s rows: " D64 " at a time, " D64 " sum%s side by side\n", g->name, g->rows.once,
            p->norm_sums, plural(p->norm_sums));
}

const struct step_kind_row norm_kind = {.count = count_norms, .print = print_norms};
