/* SPDX-License-Identifier: MIT */
/* Steps that copy: the source in blocks, tokens along the lanes; new keys and values into the cache.
 *
 * Left out on purpose: keeping the source of later calls, a task of its own.
 */
#include "plan/planning.h"

/* The source in blocks: for the projection of values, or the values themselves */
bool plan_transpose(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool input = layer->identity || p->fold->values;
    if (!p->value_blocks)
        return false;
    p->transposed = g->reads[0] = input_read(layer, false);
    const struct layout *const a = &p->layouts[p->transposed];
    g->writes = input ? LAYOUT_VALUES : LAYOUT_S_T;
    p->layouts[g->writes] = blocks_of(p, input ? "values" : "s_t", a->shape[AXIS_HEAD], p->source_blocks,
                                      a->shape[AXIS_FEATURE], a->stride[AXIS_HEAD], layer->d_source);
    g->over = OVER_BLOCKS;
    return true;
}

bool plan_append(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    g->reads[1] = values_read(layer);
    if (layer_has_cache(layer) || p->fold->expands.least > 0)
        plan_cached(p, layer);
    return layer_has_cache(layer);
}

static void count_copy(struct model *m, struct work *w, const struct step *g, int64_t rows, double times)
{
    const int64_t columns = m->layer->d_source;
    if (g->id != STEP_TRANSPOSE)
        return;
    w->loads += times * m->core->loads * transpose_cycles(m, rows, columns);
    const double bytes = times * size_of(m, LAYOUT_X) * (double)rows * (double)columns;
    w->l2 += 3 * bytes;
    /* each number is read, then read and written; evicted lines go to L3 too, and accesses are not sequential */
    w->l3 += bytes * (2 * m->far + 3 * m->near);
}

const struct step_kind_row copy_kind = {.count = count_copy};
