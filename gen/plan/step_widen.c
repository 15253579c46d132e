/* SPDX-License-Identifier: MIT */
/* Under tensor_type: rows of two bytes that a call brings, as floats.
 *
 * Left out on purpose: rounding y to two bytes, which the step that writes it does.
 */
#include "plan/planning.h"

bool plan_widen(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool given = layer->projected, of_v = given && !layer->shares;
    const bool x = g->id == STEP_WIDEN_X, source = g->id == STEP_WIDEN_SOURCE;
    if (!layer_types_tensors(layer) || (x ? layer_norms_first(layer) : source ? !layer->cross && !given : !of_v))
        return false;
    const int64_t row = x ? layer->d_model : layer->d_source;
    const int64_t heads = x ? layer->h : layer->h_kv, d = x || source ? layer->d_k : layer->d_v;
    if (given && !layer_finishes(layer) && (x || source))
        g->writes = x ? LAYOUT_QUERIES : LAYOUT_KEYS;
    g->widen = (struct plan_widen){
        .numbers = given ? heads * d : row,
        .part_rows = given ? p->block : ceil_div(PART_NUMBERS, max(layer->d_model, layer->d_source))};
    g->over = given ? OVER_SEQUENCE_BLOCKS : OVER_ROWS;
    g->size = g->widen.part_rows;
    return true;
}
