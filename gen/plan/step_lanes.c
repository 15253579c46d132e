/* SPDX-License-Identifier: MIT */
/* Values in blocks, tokens along the lanes: V^T = W^T S^T by tiles of features; their place, expected time and reasons.
 *
 * Left out on purpose: the source in blocks (step_copy.c), and when values lie so (plan_blocks.c).
 */
#include "plan/planning.h"

static void plan_lanes(struct plan_lanes *g, const struct plan_isa *p, int64_t columns, int64_t queries)
{
    const int64_t rows = request_within(&p->request, PLAN_LANE_ROWS, rows_fit(p, p->vecs));
    g->unroll = g->unroll_rest = min(choose_unroll(p, g->depth), g->depth);
    const int64_t tiles = ceil_div(g->columns, p->small ? one_height(g->columns, rows) : rows);
    g->height[0] = ceil_div(g->columns, tiles);
    g->height[1] = g->height[0] - 1;
    g->count[1] = g->height[0] * tiles - g->columns;
    g->count[0] = tiles - g->count[1];
    g->group_rows = choose_group_rows(p, columns * (int64_t)element_size(g->element), queries);
    const double tile = (double)min(g->group_rows, queries) * (double)(g->depth * g->height[0]);
    g->pair = p->vecs > 1 && 2 * g->height[0] <= p->rows_single ? 2 : 1;
    g->part_tiles = min(g->groups * tiles, round_up((int64_t)(PART_MULTIPLY_ADDS / tile) + 1, g->pair));
}

void plan_value_tiles(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const int64_t columns = layer->h_kv * layer->d_v;
    const struct layout *const a = &p->layouts[g->reads[0] = LAYOUT_S_T];
    p->layouts[LAYOUT_VALUES] = blocks_of(p, "values", layer->h_kv, p->source_blocks, layer->d_v, layer->d_v, columns);
    g->kind = KIND_LANES;
    g->lanes = (struct plan_lanes){
        .element = a->element,
        .depth = a->shape[AXIS_FEATURE],
        .groups = layer->split ? layer->h : 1,
        .columns = layer->split ? layer->d_v : columns,
        .a_group = a->stride[AXIS_HEAD],
        .bias = layer->bias,
        .parts_of = g->label,
    };
    plan_lanes(&g->lanes, p, layer->d_source, layer->source_len);
    g->tile = g->lanes.height[0] * p->vecs;
    g->over = OVER_PANELS;
    g->size = g->lanes.group_rows;
}

static void prefetch_lanes(struct plan_isa *p, const struct layer *layer, struct step *step)
{
    struct plan_lanes *const g = &step->lanes;
    if (g->depth / 2 < UNROLL_PREFETCH || p->vecs == 1) /* blocks of several vectors prefetch, single ones never do */
        return;
    if (!request_asks(&p->request, PLAN_UNROLL))
        g->unroll = UNROLL_PREFETCH;
    if (g->depth / g->unroll < 2)
        return;
    g->prefetch = prefetch_lines(g->depth * g->height[g->count[1] > 0], line_weights(g->element),
                                 ceil_div(min(g->group_rows, layer->source_len), p->block), g->depth / g->unroll);
}

static void schedule_lanes(struct plan_isa *p, struct step *step)
{
    struct plan_lanes *const g = &step->lanes;
    (void)p;
    step->unroll = min(g->unroll, g->depth);
    g->tiles = g->count[0] + g->count[1];
    g->parts = ceil_div(g->groups * g->tiles, g->part_tiles);
    g->prefetch_tile = g->prefetch * (g->depth / g->unroll) * LINE_FLOATS;
    g->prefetch_end = g->depth * g->height[g->count[1] > 0] - g->prefetch_tile;
}

/* [group][tile][step of the reduction][feature], the last tile maybe narrower; and biases */
static void place_lanes(struct plan_isa *p, const struct step *g)
{
    const struct plan_lanes *const t = &g->lanes;
    p->layouts[LAYOUT_WEIGHTS + g->id] = (struct layout){
        .name = g->name, .owner = OWNER_PACKED, .element = t->element,
        .shape = {t->groups, t->count[0] + t->count[1], t->depth, t->height[0]},
        .stride = {t->columns * t->depth, t->depth * t->height[0], t->height[0], 1}};
    place(p, LAYOUT_WEIGHTS + g->id);
    if (t->bias)
        place_new(p, LAYOUT_BIASES + g->id, g->name, OWNER_PACKED, t->groups, t->columns);
}

/* V^T = W^T S^T: a tile of weights, the blocks of s_t pass by. Single vectors take two tiles at once where both fit. */
static void count_lanes(struct model *m, struct work *w, const struct step *of, int64_t rows, double times)
{
    const struct plan_isa *p = m->plan;
    const struct plan_lanes *const g = &of->lanes;
    const double e = (double)element_size(g->element);
    const double depth = (double)g->depth;
    struct blocks b = count_blocks(m, rows);
    if (b.rest > p->block - p->lanes) {
        b.whole++;
        b.rest = 0;
    }
    const double single = times * (double)ceil_div(b.rest, p->lanes), groups = (double)g->groups;
    const double wide = times * (double)b.whole;
    for (int i = 0; i < 2; i++) {
        const int64_t height = g->height[i], two = g->pair == 2 ? g->count[i] / 2 : 0, one = g->count[i] - 2 * two;
        if (g->count[i] == 0)
            continue;
        add_tile(w, m->core, height, p->vecs, depth, g->unroll, groups * (double)g->count[i] * wide);
        add_tile(w, m->core, 2 * height, 1, depth, g->unroll, groups * (double)two * single);
        add_tile(w, m->core, height, 1, depth, g->unroll, groups * (double)one * single);
        const double weights = e * (double)height;
        if (depth * (e * (double)p->block + weights) > l1_bytes(m))
            w->l2 += groups * depth *
                     ((double)g->count[i] * wide * (e * (double)p->block + weights) +
                      single * ((double)(two + one) * line_bytes(p->lanes) + (double)g->count[i] * weights));
        else
            w->l2 += times * groups * (double)g->count[i] * depth * weights;
    }
    const double columns = groups * (double)g->columns;
    count_far(m, w, e * columns * depth, e * m->near * (double)m->layer->d_source,
              size_of(m, of->writes) * m->near * 2 * columns, rows, g->group_rows, g->prefetch > 0, times);
}

void explain_lanes(struct plan_isa *p)
{
    const struct step *const values = plan_step(p, STEP_VALUES);
    char ask[80];
    if (values == NULL || values->kind != KIND_LANES)
        return;
    const struct plan_lanes *const g = &values->lanes;
    reason(p, "%s: tile " D64 " x " D64 ", tokens along the lanes, weights packed [tile][" D64 "][" D64 "], row groups "
           "of " D64 "; " D64 " step%s unrolled; " D64 " tile%s a part%s", values->name, g->height[0], p->block,
           g->depth, g->height[0], g->group_rows, g->unroll, plural(g->unroll), g->part_tiles, plural(g->part_tiles),
           prefetch_text(ask, g->prefetch, "tile"));
}

static void print_lanes(FILE *out, const struct plan_isa *p, const struct step *step)
{
    const struct plan_lanes *const g = &step->lanes;
    (void)p;
    fprintf(out, "      %-14s features: " D64 " (" D64 " of them)", step->name, g->height[0], g->count[0]);
    if (g->count[1] > 0)
        fprintf(out, ", " D64 " (" D64 " of them)", g->height[1], g->count[1]);
    fputc('\n', out);
}

const struct step_kind_row lanes_kind = {
    place_lanes, prefetch_lanes, schedule_lanes, count_lanes, print_lanes};
