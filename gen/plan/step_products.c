/* SPDX-License-Identifier: MIT */
/* Products with weights: queries, keys and values, the output, the feed-forward, layer = linear: what each reads and
 * writes, and what is done to its results.
 *
 * Left out on purpose: tiles, panels and parts (step_panels.c, step_lanes.c).
 */
#include "plan/planning.h"

struct plan_panels *begin_panels(const struct plan_isa *p, struct step *g, int64_t depth, int64_t columns, bool bias)
{
    const struct layout *const a = &p->layouts[g->reads[0]];
    struct plan_panels *const own = &g->panels;
    g->epilogue |= bias ? EPILOGUE_BIAS : 0;
    *own = (struct plan_panels){
        .element = a->element, .bias = bias, .matrices = 1, .depth = depth, .taps = 1, .groups = 1, .columns = columns,
        .a_row = a->stride[AXIS_TOKEN], .a_k = a->stride[AXIS_FEATURE], .a_block = a->stride[AXIS_TOKEN] * p->block,
        .c_row = p->layouts[g->writes].stride[AXIS_TOKEN],
        .from_caller = is_callers(p, g->reads[0]), .to_caller = is_callers(p, g->writes),
        .activates = (g->epilogue & (EPILOGUE_ACTIVATION | EPILOGUE_CAP)) != 0,
        .ends = (g->epilogue & (EPILOGUE_RESIDUAL | EPILOGUE_ACTIVATION | EPILOGUE_CAP)) != 0,
    };
    reads_words(p, g, own);
    return own;
}

/* A product whose results are y rounds them where its sums are complete: in a block of the worker's that is in L1, or
 * where slabs leave them. Where a norm follows, that rounds. */
static void plan_narrow(struct plan_isa *p, const struct layer *layer, struct step *step)
{
    struct plan_panels *const g = &step->panels;
    if (!layer_types_tensors(layer) || step->writes != LAYOUT_Y || norms_y(layer))
        return;
    g->narrows = g->ends = true;
    step->epilogue |= EPILOGUE_NARROW;
    g->apart = g->k_block >= g->depth;
    if (!g->apart)
        return;
    g->c_row = g->vecs * p->lanes;
    p->layouts[LAYOUT_Y] = rows_of("y as f32", OWNER_WORKER, 1, p->block, g->c_row, 0, g->c_row);
}

void end_panels(struct plan_isa *p, const struct layer *layer, struct step *g, int64_t tokens, int64_t together)
{
    plan_panels(&g->panels, p, tokens, max(tokens, together));
    g->tile = g->panels.rows * g->panels.vecs;
    g->over = OVER_PANELS;
    g->size = g->panels.group_rows;
    plan_narrow(p, layer, g);
    const bool adds_x = g->reads[1] == LAYOUT_X && is_callers(p, LAYOUT_X);
    g->panels.gaps = g->panels.from_caller || g->panels.to_caller || g->panels.narrows || (adds_x && g->panels.ends);
    p->narrows = p->narrows || g->panels.narrows;
}

/* Queries, keys or values. Heads that read all of the input are one matrix, and its panels run over their borders.
 * Tokens lie [head][token][d] where a vector never holds parts of two heads (or where a head has a matrix of its own),
 * which attention reads faster, else [token][head][d], as they always do where Z takes their place. */
static void plan_heads(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool queries = g->id == STEP_QUERIES, side_by_side = queries && p->z_in_q;
    const bool by_head = layer->split || (queries && p->fold->scores); /* W_Q W_K^T has a matrix for each head */
    const int64_t d = queries ? p->fold->d_score : g->id == STEP_KEYS ? layer->d_k : layer->d_v;
    const bool arrays = !side_by_side && (by_head || d % p->lanes == 0);
    const int64_t heads = queries ? layer->h : layer->h_kv, most = queries ? layer->seq_len : layer_new_keys(layer);
    const int64_t tokens = max(most, queries ? p->batch_rows : p->batch_sources);
    const int64_t row = side_by_side ? heads * d : row_stride(p, arrays ? d : heads * d);
    const int64_t head = arrays ? tokens * row : d;
    g->reads[0] = input_read(layer, queries);
    if (reads_rounded(p))
        g->reads[0] = g->reads[0] == LAYOUT_SOURCE ? LAYOUT_ROUNDED_SOURCE : LAYOUT_ROUNDED_X;
    const struct layout *const a = &p->layouts[g->reads[0]];
    p->layouts[g->writes] = rows_of(g->name, OWNER_SCRATCH, heads, tokens, d, head, row);
    if (layer->train && (g->epilogue & EPILOGUE_NORM) != 0) {
        struct layout *const raw = &p->layouts[queries ? LAYOUT_RAW_QUERIES : LAYOUT_RAW_KEYS];
        *raw = p->layouts[g->writes];
        raw->name = queries ? "raw queries" : "raw keys";
    }
    struct plan_panels *const own = begin_panels(p, g, a->shape[AXIS_FEATURE], by_head ? d : heads * d, layer->bias);
    own->groups = by_head ? heads : 1;
    own->a_group = a->stride[AXIS_HEAD];
    own->c_group = arrays || by_head ? head : 0;
    own->c_split = arrays && !by_head && heads > 1 ? d : 0;
    own->c_of_call = p->holds && arrays;
    own->of_source = !queries && layer->cross;
    if ((g->epilogue & (EPILOGUE_NORM | EPILOGUE_TURN)) != 0)
        own->finish = (layer->qk_norm == NORM_RMS_ALL ? heads : 1) * d;
    end_panels(p, layer, g, most, tokens);
}

/* Latent attention: x W_DQ, or queries of heads at once; and x W_DKV */
static bool plan_down_to_latents(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool queries = g->id == STEP_QUERIES, down = queries && layer->latent.q_rank > 0;
    const int64_t heads = queries && !down ? layer->h : 1, tokens = max(layer->seq_len, p->batch_rows);
    const int64_t d = down ? layer->latent.q_rank : queries ? layer->latent.d_head : layer->d_k;
    g->reads[0] = input_read(layer, queries);
    g->of_keys = !queries;
    g->writes = down ? LAYOUT_LATENT_Q : queries ? LAYOUT_HEADS_Q : LAYOUT_KEYS;
    p->layouts[g->writes] = rows_of(g->name, OWNER_SCRATCH, heads, tokens, d, d, row_stride(p, heads * d));
    begin_panels(p, g, layer->d_model, heads * d, layer->bias && (down || !queries));
    end_panels(p, layer, g, layer->seq_len, p->batch_rows);
    return true;
}

/* Its products with a matrix for each head, and queries of heads from their latent */
bool plan_up(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool of_latent = g->id == STEP_UP_Q, absorbs = g->id == STEP_ABSORB;
    if (!layer_is_latent(layer) || (of_latent && layer->latent.q_rank == 0))
        return false;
    const int64_t tokens = max(layer->seq_len, p->batch_rows), heads = layer->h;
    const int64_t d = of_latent ? layer->latent.d_head : absorbs ? layer->d_k : layer->latent.d_value;
    g->reads[0] = of_latent ? LAYOUT_LATENT_Q : g->reads[0];
    p->layouts[g->writes] = rows_of(g->name, OWNER_SCRATCH, heads, tokens, d, d, row_stride(p, heads * d));
    if (of_latent) {
        begin_panels(p, g, layer->latent.q_rank, heads * d, false);
    } else {
        struct plan_panels *const own = begin_panels(p, g, absorbs ? layer->latent.d_nope : layer->latent.rank,
                                                     absorbs ? layer->latent.rank : d, false);
        own->groups = heads;
        own->a_group = p->layouts[g->reads[0]].stride[AXIS_HEAD];
        own->c_group = d;
    }
    end_panels(p, layer, g, layer->seq_len, p->batch_rows);
    return true;
}

/* Norms and rotation of rows of latents and keys, and of queries */
bool plan_latent(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    (void)p;
    const int64_t numbers = g->id == STEP_LATENT ? layer->latent.q_rank + layer->d_k : layer->h * layer->rope.dims;
    g->size = round_up(max(1, PART_NUMBERS / max(1, numbers)), 64);
    return layer_is_latent(layer);
}

bool plan_projection(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool queries = g->id == STEP_QUERIES, values = g->id == STEP_VALUES;
    if (values && layer->shares && layer_attends(layer)) {
        p->layouts[LAYOUT_VALUES] = p->layouts[LAYOUT_KEYS];
        p->layouts[LAYOUT_VALUES].name = "values";
        p->layouts[LAYOUT_VALUES].shape[AXIS_FEATURE] = layer->d_v;
        return false;
    }
    if (layer_is_latent(layer) && !values)
        return plan_down_to_latents(p, layer, g);
    const bool input = queries ? p->fold->q_is_k : values ? layer->identity || p->fold->values : p->fold->scores;
    if (!layer_attends(layer) || (layer->projected ? values || !layer_finishes(layer) : input))
        return false;
    if (!values)
        g->epilogue = (layer->qk_norm != NORM_NONE ? EPILOGUE_NORM : 0) |
                      (layer->rope.kind != ROPE_NONE ? EPILOGUE_TURN : 0);
    g->of_keys = values || (!queries && !p->fold->q_is_k);
    if (layer->projected) { /* copied, by the parts of STEP_FINISH */
        g->kind = KIND_COPY;
    } else if (values && p->value_blocks) {
        g->epilogue = layer->bias ? EPILOGUE_BIAS : 0;
        plan_value_tiles(p, layer, g);
    } else {
        plan_heads(p, layer, g);
    }
    return true;
}

bool plan_output(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool conv = layer->w_o == W_O_CONV, rounds = reads_rounded(p);
    if (!layer_mixes(layer) || layer->w_o == W_O_NONE)
        return false;
    const enum layout_name made = layer_is_latent(layer) ? LAYOUT_Z_UP : LAYOUT_Z;
    const int64_t d = p->layouts[made].shape[AXIS_FEATURE], z_columns = p->layouts[made].shape[AXIS_HEAD] * d;
    g->reads[0] = rounds ? LAYOUT_ROUNDED_Z : made;
    const struct layout *const z = &p->layouts[g->reads[0]];
    p->layouts[LAYOUT_Y] = rows_of("y", OWNER_CALLER, 1, layer->seq_len, layer->d_model, 0, layer->d_model);
    type_output(p, layer);
    if (conv)
        g->name = "convolution";
    if (layer_has_ffn(layer)) {
        g->writes = LAYOUT_STREAM;
        p->layouts[LAYOUT_STREAM] = stream_of(p, layer, "stream");
    }
    if (layer_has_block(layer) && !layer_norms_outputs(layer)) {
        g->reads[1] = LAYOUT_X;
        g->epilogue |= EPILOGUE_RESIDUAL;
    }
    struct plan_panels *const own = begin_panels(p, g, conv ? d : z_columns,
                                                 conv ? layer->d_model / layer->h : layer->d_model, layer->bias);
    own->a_block = rounds || layer_is_latent(layer) ? own->a_block : z_columns * p->block;
    if (conv) {
        own->taps = layer->conv_width;
        own->groups = layer->h;
        own->a_group = z->stride[AXIS_HEAD];
        own->a_tap = z->stride[AXIS_TOKEN];
        own->c_group = layer->d_model / layer->h;
    }
    end_panels(p, layer, g, layer->seq_len, p->batch_rows);
    return true;
}

bool plan_linear(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    if (!layer_is_linear(layer))
        return false;
    g->reads[0] = reads_rounded(p) ? LAYOUT_ROUNDED_X : rows_read(p, layer);
    g->epilogue |= (layer->activation != ACTIVATION_NONE ? EPILOGUE_ACTIVATION : 0) |
                   (layer->cap != 0 ? EPILOGUE_CAP : 0);
    begin_panels(p, g, layer->d_model, layer->d_out, layer->bias);
    end_panels(p, layer, g, layer->seq_len, p->batch_rows);
    return true;
}

bool plan_hidden(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const int64_t tokens = max(layer->seq_len, p->batch_rows), d_ff = layer->d_ff;
    const bool gated = layer_ffn_gated(layer);
    if (!layer_has_ffn(layer))
        return false;
    g->reads[0] = !reads_rounded(p) ? rows_read(p, layer)
                : layer_mixes(layer) ? LAYOUT_ROUNDED_STREAM : LAYOUT_ROUNDED_X;
    g->epilogue |= EPILOGUE_ACTIVATION | (gated ? EPILOGUE_GATE : 0);
    p->layouts[LAYOUT_HIDDEN].owner = OWNER_SCRATCH;
    struct plan_panels *const own = begin_panels(p, g, layer->d_model, d_ff, layer->ffn_bias);
    own->matrices = gated ? 2 : 1;
    end_panels(p, layer, g, layer->seq_len, tokens);
    /* sums of gates wait for the next slab beside the others, else for those of their panel in L1 */
    const bool wait = gated && own->k_block < own->depth;
    own->c_row = row_stride(p, wait ? 2 * d_ff : d_ff);
    p->layouts[LAYOUT_HIDDEN] = rows_of("hidden", OWNER_SCRATCH, 1, tokens, wait ? 2 * d_ff : d_ff, 0, own->c_row);
    if (gated && !wait)
        p->layouts[LAYOUT_GATES] = rows_of("gates", OWNER_WORKER, 1, p->block, own->vecs * p->lanes, 0,
                                           own->vecs * p->lanes);
    return true;
}

bool plan_down(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    if (!layer_has_ffn(layer))
        return false;
    g->reads[0] = reads_rounded(p) ? LAYOUT_ROUNDED_HIDDEN : LAYOUT_HIDDEN;
    if (layer_has_block(layer) && !layer_norms_outputs(layer)) {
        g->reads[1] = layer_mixes(layer) ? LAYOUT_STREAM : LAYOUT_X;
        g->epilogue |= EPILOGUE_RESIDUAL;
    }
    begin_panels(p, g, layer->d_ff, layer->d_model, layer->ffn_bias);
    end_panels(p, layer, g, layer->seq_len, p->batch_rows);
    return true;
}

/* Whether keys and values share the queries' loop over row groups, as they read the same input. */
bool projections_join(const struct plan_isa *p, const struct layer *layer)
{
    int64_t own = 0;
    int count = 0;
    bool alike = !layer->cross;
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++) {
        if (g->id > STEP_VALUES || (g->kind != KIND_PANELS && g->kind != KIND_LANES))
            continue;
        const int64_t rows = g->kind == KIND_LANES ? g->lanes.group_rows : g->panels.group_rows;
        own = count++ == 0 ? rows : own;
        alike = alike && rows == own;
    }
    return alike && count > 1;
}

/* ---- reasons ---- */

/* What norm and rotation mean for products and memory. */
void explain_finish(struct plan_isa *p, const struct layer *layer)
{
    const struct plan_panels *q = plan_panels_of(p, p->fold->q_is_k ? STEP_KEYS : STEP_QUERIES);
    char size[32];
    const char *what = layer->qk_norm == NORM_NONE ? "rotated" : layer->rope.kind == ROPE_NONE ? "normed"
                     : "normed and rotated";
    if (!layer_finishes(layer) || layer_is_latent(layer))
        return;
    if (layer->projected)
        reason(p, "given queries and keys are %s into the scratch; a part has all heads of a block of tokens", what);
    else
        reason(p, "queries and keys are %s after the panel that completes a head, row block by row block: their "
               "weights are not folded%s", what, despite_request(p));
    if (layer->qk_norm == NORM_RMS_ALL && !layer->projected) {
        const int64_t parts = q->parts * ceil_div(layer->seq_len, q->group_rows);
        reason(p, "qk_norm = rms_all: a row is complete only after the last panel, so a part has all " D64 " panels "
               "of the queries: " D64 " part%s for " D64 " tokens", q->groups * q->panels, parts, plural(parts),
               layer->seq_len);
    } else if (!layer->projected && q->finish > 1) {
        reason(p, "a part has a multiple of " D64 " panels, which hold whole heads", q->finish);
    }
    if (layer->rope.kind != ROPE_NONE)
        reason(p, "cosines and sines of " D64 " positions are packed, %s%s", p->turn_rows,
               bytes_text(size, p->turn_rows * 2 * p->turn_width * layout_element(p, LAYOUT_TURNS)),
               layer->rope.given ? "; those of other positions are computed once a call" : "");
}

static void explain_layout(struct plan_isa *p, const struct layer *layer, const struct step *step)
{
    const struct plan_panels *const g = &step->panels;
    const int64_t width = p->layouts[step->writes].shape[AXIS_FEATURE];
    if (step->kind != KIND_PANELS || step->id > STEP_VALUES)
        return;
    if (step->id == STEP_QUERIES && p->z_in_q)
        reason(p, "%s lie [token][head][" D64 "] like Z, which takes their place", step->name, width);
    else if (g->c_group == 0)
        reason(p, "%s lie [token][head][" D64 "], so that no head is padded to whole vectors", step->name, width);
    else
        reason(p, "%s lie [head][token][" D64 "]: %s", step->name, width,
               layer->split ? "each head is projected from columns of its own"
               : g->groups > 1 ? "each head has a folded matrix of its own" : "a head's width fills whole vectors");
}

void explain_rows_of_heads(struct plan_isa *p, const struct layer *layer)
{
    for (int i = 0; i < p->step_count; i++)
        explain_layout(p, layer, &p->steps[i]);
}

/* Norms and feed-forward of a block. */
void explain_block(struct plan_isa *p, const struct layer *layer)
{
    const struct step *norms = NULL;
    char size[32];
    for (const struct step *g = p->steps; g < p->steps + p->step_count; g++)
        norms = g->kind == KIND_NORM ? g : norms;
    if (norms != NULL)
        reason(p, "norms of rows are phases of their own, " D64 " row%s a part, " D64 " at a time: as many as half of "
               "L1 and the lanes hold", norms->rows.part_rows, plural(norms->rows.part_rows), norms->rows.once);
    if (p->layouts[LAYOUT_GATES].name != NULL)
        reason(p, "gates of a panel and a block of tokens, %s, wait in the worker's scratch for what they gate",
               bytes_text(size, layout_elements(&p->layouts[LAYOUT_GATES]) * layout_element(p, LAYOUT_GATES)));
    else if (layer_ffn_gated(layer))
        reason(p, "gates lie behind the hidden rows until the last slab of their sums");
}
