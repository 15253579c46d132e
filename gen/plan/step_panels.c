/* SPDX-License-Identifier: MIT */
/* Products with weights in panels: tiles, panels, slabs, row groups and parts; fast products; what prefetches what;
 * which products share tiles and functions; their place, expected time and reasons.
 *
 * Left out on purpose: what each product reads and writes (step_products.c), the price of a tile (plan_tiles.c).
 */
#include "plan/planning.h"

#include <string.h>

#include "spec/fast.h"

#define FAST_COLUMNS 192         /* columns from which on seven products take less time than eight (Zen 4) */
#define FAST_PART 768            /* columns of a part of a fast product, which forms sums of its rows once */
#define MAX_DEPTH 1024           /* a longer reduction is cut, so that a group of rows and a panel fit L2 together */
#define WIDE_VECS 4              /* of a panel of bytes, which low tiles take whole: one row is as fast as with 8, */
#define TALL_VECS 2              /* and of its parts that high tiles take: 6 x 2 sums fill the registers */
#define CONVERTED_ROWS 8         /* of tiles from which on weights become f32 as they are read: measured, Zen 5: 8 rows
                                  * of i8 and bf16 take 2 % less time so, 4 and 6 take 5 % more; of i4 8 take 10 % more
                                  * from the third tile on */
#define LOW_ROWS 2               /* of tiles that wait for their weights */
#define LEAST_TILE_WORDS 32      /* that tile registers are worth */
#define TILED_VECS 2             /* of a panel: two registers; rows of 128 bytes fill all sets of L1 */
#define PANEL_TEXT 2000 /* bytes of a reason */

/* Steps of a group in one iteration: at least those that share a byte or a word of i4, and as many iterations as fill
 * it. */
static int64_t unroll_group(int64_t wanted, int64_t least)
{
    int64_t unroll = WEIGHT_GROUP;
    while (unroll > least && unroll > wanted)
        unroll /= 2;
    return unroll;
}

/* Panels between two that begin with a head: parts consist of whole heads, so that they can norm and rotate them. */
static int64_t complete_heads(const struct plan_panels *g, int64_t width)
{
    if (g->groups > 1)
        return g->finish > g->columns ? g->groups * g->panels : g->panels;
    return min(g->panels, g->finish / (int64_t)divisor_of((size_t)width, (size_t)g->finish));
}

/* Elements of packed weights that `steps` steps of a column take: of i4 two steps share a byte, or with digits
 * DIGIT_STEPS a word, and before each group lies the f32 by which its sums are multiplied; of i8 with digits
 * DIGIT_STEPS share a word too. */
static int64_t packed_steps(const struct plan_isa *p, enum tensor_element weights, int64_t steps)
{
    if (weights != TENSOR_I4)
        return p->digits ? round_up(steps, DIGIT_STEPS(weights)) : steps;
    const int64_t rest = steps % WEIGHT_GROUP, scale = (int64_t)element_size(TENSOR_F32);
    const int64_t left = ceil_div(p->digits ? round_up(rest, DIGIT_STEPS(weights)) : rest, 2);
    return steps / WEIGHT_GROUP * (scale + WEIGHT_GROUP / 2) + (rest > 0 ? scale + left : 0);
}

/* Why a product is classical where fast ones are asked for; NULL: it is fast. `tokens`: rows of a group */
static const char *stays_classical(const struct plan_panels *g, int64_t tokens)
{
    if (g->groups > 1 || g->taps > 1)
        return "each head has a matrix of its own";
    if (g->matrices > 1)
        return "gates lie between the panels";
    if (g->a_k != 1)
        return "its rows lie in blocks";
    if (g->depth % g->k_block != 0 || g->k_block % 2 != 0)
        return "the depth has no even slabs";
    if (g->inputs < FAST_NUMBERS)
        return "the depth is too small";
    if (g->columns < FAST_COLUMNS)
        return "there are too few columns";
    if (tokens < FAST_ROWS)
        return "a group of rows has too few tokens";
    return NULL;
}

/* Most rows of a tile of a fast product */
static int64_t fast_rows(const struct plan_isa *p, const struct plan_panels *g, int64_t vecs)
{
    return max(2, min(request_or(&p->request, PLAN_PANEL_ROWS, rows_apart(g->a_row)), word_rows(p, vecs)));
}

/* Vectors of a panel of a fast product: as many accumulators as possible, as no blocks of tokens limit heights. 14 x 2
 * take 2 % less time than 8 x 3 (AVX-512), 4 x 3 take 3 % less than 6 x 2 (AVX2; measured, Zen 4). */
static int64_t fast_vecs(const struct plan_isa *p, const struct plan_panels *g)
{
    int64_t best = 2;
    for (int64_t vecs = 3; vecs <= 4; vecs++)
        if (vecs * fast_rows(p, g, vecs) >= best * fast_rows(p, g, best) &&
            word_rows(p, vecs) > 1)
            best = vecs;
    return best;
}

/* Two tiles of rows and two panels at a time. The sums of rows, and the operand, are in L2 together. */
static void plan_fast(struct plan_panels *g, const struct plan_isa *p, int64_t tokens)
{
    g->fast_pairs = g->columns / (g->vecs * p->lanes) / 2;
    g->fast = max(2, near_equal(min(g->group_rows, tokens) / 2, fast_rows(p, g, g->vecs)));
    const int64_t panels = ceil_div(FAST_PART, g->vecs * p->lanes);
    g->part_panels = round_up(near_equal(g->panels, max(g->part_panels, panels)), max(1, g->finish) * 2);
    g->part_panels = min(g->part_panels, g->panels);
}

/* Whether a product of `depth` words takes tile registers, for whole rows of theirs; vectors take what is left. Sums go
 * through memory, which few words do not pay for: of 16 the product takes as long as by vectors, of 32 a fifth less, of
 * 48 and more 2.5 times less (Emerald Rapids). */
bool takes_registers(const struct plan_isa *p, int64_t word, int64_t depth)
{
    return p->tile_rows > 0 && p->whole && word == 4 && depth >= LEAST_TILE_WORDS;
}

/* Whether one row or two take wide panels, and more rows parts of them. One row's sums wait for each other, as an
 * addition takes four cycles; for as many sums of several rows registers are too few. With weights in L3 one row takes
 * 0.75 of the time that it does with panels of three vectors, 64 rows 0.9 (AVX2, Zen 4). */
static bool wide_steps(const struct plan_isa *p)
{
    return p->isa->fma_rows && p->for_steps && p->weights == TENSOR_I8 && !p->digits && !p->small &&
           !request_asks(&p->request, PLAN_PANEL_VECS);
}

/* A panel of narrow weights becomes f32 once for all tiles of a part, where these are two or three and more, and L2 has
 * room: with i4, units of groups too. */
static void plan_floats(struct plan_panels *g, const struct plan_isa *p, int64_t rows)
{
    const bool grouped = g->weights == TENSOR_I4;
    const int64_t depth = g->k_block + (grouped ? ceil_div(g->k_block, WEIGHT_GROUP) : 0);
    const int64_t floats = g->matrices * g->taps * depth * g->vecs * p->lanes;
    const bool fits = floats * (int64_t)element_size(TENSOR_F32) <= (int64_t)p->isa->l2_bytes / 2;
    const bool narrow = g->weights != TENSOR_F32 && g->word == 1 && !p->digits;
    const bool high = g->rows >= CONVERTED_ROWS;
    g->floats_rows = (high ? 3 : 2) * g->rows;
    const bool pays = (grouped || !high) && min(rows, g->group_rows) >= g->floats_rows;
    g->floats = narrow && fits && pays && !p->small ? floats : 0;
}

/* Rows of a product in a typical call of a full sequence */
static int64_t unasked_tokens(const struct plan_isa *p, const struct plan_panels *g, int64_t tokens)
{
    return min(tokens, request_or(&p->request, g->of_source ? PLAN_TYPICAL_M : PLAN_TYPICAL_N, tokens));
}

/* `tokens` of a full sequence, `rows` of all that are projected together */
void plan_panels(struct plan_panels *g, const struct plan_isa *p, int64_t tokens, int64_t rows)
{
    const int64_t element = (int64_t)element_size(g->element);
    g->word = max(1, g->word);
    g->weights = g->word > 1 ? TENSOR_I32 : p->weights;
    g->inputs = g->inputs > 0 ? g->inputs : g->depth;
    g->packed_depth = (g->word > 1 ? p->corrections : 0) + packed_steps(p, g->weights, g->depth);
    g->rest = p->small ? 0 : tokens % p->block;
    const bool grouped = g->weights == TENSOR_I4 || p->digits; /* steps */
    const bool to_end = g->word > 1 && p->whole; /* sums of whole numbers */
    const int64_t max_depth = to_end ? g->depth
                            : request_or(&p->request, PLAN_PANEL_DEPTH, p->small ? g->depth : MAX_DEPTH);
    const int64_t blocks = g->taps > 1 ? 1 : ceil_div(g->depth, max_depth);
    g->k_block = min(g->depth, round_up(ceil_div(g->depth, blocks), grouped ? WEIGHT_GROUP : 8));
    const int64_t operand = (blocks > 1 ? g->k_block : g->a_block / p->block) * element;
    const int64_t of_fast = choose_group_rows(p, operand * 7 / 4, rows); /* rows beside their sums */
    g->classical = p->fast ? stays_classical(g, min(rows, of_fast)) : NULL;
    if (g->classical == NULL && p->unasked && unasked_tokens(p, g, tokens) < FAST_UNASKED)
        g->classical = "few rows are typical";
    const bool fast = p->fast && g->classical == NULL;
    const bool wide = wide_steps(p);
    if (request_asks(&p->request, PLAN_PANEL_VECS))
        g->vecs = request_within(&p->request, PLAN_PANEL_VECS, ceil_div(g->columns, p->lanes));
    else if (fast)
        g->vecs = fast_vecs(p, g);
    else if (p->small)
        g->vecs = small_panel_vecs(p->isa, g->columns, min(p->block, rows_apart(g->a_row)));
    else if (takes_registers(p, g->word, g->depth))
        g->vecs = min(TILED_VECS, ceil_div(g->columns, p->lanes));
    else if (wide)
        g->vecs = min(WIDE_VECS, ceil_div(g->columns, p->lanes));
    else
        g->vecs = choose_panel_vecs(p, g, min(g->depth, max_depth), tokens);
    g->tall_vecs = wide ? min(g->vecs, TALL_VECS) : g->vecs;
    g->low_rows = tile_rows(p->isa, g->vecs);
    g->rows = panel_rows(p, g, g->tall_vecs);
    g->unroll = g->unroll_rest = choose_unroll(p, g->depth);
    if (grouped)
        g->unroll = g->unroll_rest = unroll_group(g->unroll, p->digits ? DIGIT_STEPS(TENSOR_I4) : 2);
    const int64_t width = g->vecs * p->lanes;
    g->panels = ceil_div(g->columns, width);
    g->tail_vecs = ceil_div(g->columns % width, p->lanes);
    if (g->tail_vecs == g->vecs)
        g->tail_vecs = 0; /* as wide as a full one; its last vector may still be partial */
    g->tail_lanes = g->columns % p->lanes;
    g->panel_size = g->matrices * g->taps * g->packed_depth * width;
    g->group_size = g->matrices * g->taps * g->packed_depth * round_up(g->columns, p->lanes);
    g->group_rows = fast ? of_fast : choose_group_rows(p, operand, rows);
    const double panel = (double)min(g->group_rows, rows) * (double)g->panel_size;
    g->part_panels = min(g->groups * g->panels, (int64_t)(PART_MULTIPLY_ADDS / panel) + 1);
    if (g->finish > 0) {
        g->finish = complete_heads(g, g->vecs * p->lanes);
        g->part_panels = min(g->groups * g->panels, round_up(g->part_panels, g->finish));
    }
    plan_floats(g, p, rows);
    if (fast)
        plan_fast(g, p, rows);
}

/* ---- prefetch ---- */

static void prefetch_panels(struct plan_isa *p, const struct layer *layer, struct step *step)
{
    struct plan_panels *const g = &step->panels;
    (void)layer;
    const bool grouped = g->weights == TENSOR_I4 && g->floats == 0;
    if (g->k_block / 2 < UNROLL_PREFETCH || grouped || p->digits) /* few bytes, read in sequence */
        return;
    if (takes_registers(p, g->word, g->depth))
        return;
    if (!request_asks(&p->request, PLAN_UNROLL) && g->weights != TENSOR_I4)
        g->unroll = UNROLL_PREFETCH;
    const int64_t unroll = min(g->unroll, g->k_block);
    if (g->k_block / unroll >= 2 && (g->panels > 1 || g->tail_vecs == 0)) /* a loop whose iterations can prefetch */
        g->prefetch = ceil_div(unroll * packed_steps(p, g->weights, WEIGHT_GROUP) * g->vecs * p->lanes,
                               WEIGHT_GROUP * line_weights(g->weights) * PREFETCH_TILES);
}

/* Bytes from where the prefetching of a panel begins to the end of the last line that it touches, of the second matrix
 * too. The last iteration's lines may lie past the panel. */
static int64_t prefetch_reach(const struct plan_panels *g, const struct plan_isa *p)
{
    const int64_t iterations = g->k_block / min(g->unroll, g->k_block);
    const int64_t before = (ceil_div(g->depth, g->k_block) - 1) * g->k_block;
    const int64_t slab = packed_steps(p, g->weights, before) * g->vecs * p->lanes;
    const int64_t weights = slab + (g->matrices - 1) * g->panel_size / g->matrices;
    return weights * (int64_t)element_size(g->weights) + PREFETCH_TILES * iterations * g->prefetch * LINE_BYTES;
}

/* Fewer lines, where those of a product's last panel would lie past the packed block */
static void prefetch_inside(struct plan_panels *g, const struct plan_isa *p, int64_t at)
{
    const int64_t whole = g->columns / (g->vecs * p->lanes);
    const int64_t behind = whole == 0 ? g->group_size : g->group_size - (whole - 1) * g->panel_size; /* from there on */
    const int64_t from = at + (g->groups * g->group_size - behind) * (int64_t)element_size(g->weights);
    while (g->prefetch > 0 && from + prefetch_reach(g, p) > p->bytes[OWNER_PACKED])
        g->prefetch--;
}

/* After the last panel comes the first one of the product that follows, if enough bytes are there; a panel without
 * another prefetches nothing. */
void prefetch_across(struct plan_isa *p)
{
    for (struct step *g = p->steps, *next; g < p->steps + p->step_count; g = next) {
        for (next = g + 1; next < p->steps + p->step_count && next->kind != KIND_PANELS;)
            next++;
        struct plan_panels *const panels = &g->panels;
        if (g->kind != KIND_PANELS)
            continue;
        const int64_t size = (int64_t)element_size(panels->weights), from = p->layouts[LAYOUT_WEIGHTS + g->id].at;
        prefetch_inside(panels, p, from);
        if (panels->groups > 1)
            continue;
        if (next < p->steps + p->step_count) {
            const int64_t to = p->layouts[LAYOUT_WEIGHTS + next->id].at;
            if (to > from && to + prefetch_reach(panels, p) <= p->bytes[OWNER_PACKED])
                panels->prefetch_after = (to - from) / size;
        }
        if (panels->panels == 1 && panels->prefetch_after == 0)
            panels->prefetch = 0;
    }
}

/* Calls of a token or two read all weights for them. From beyond L2 these come fastest in the order of memory; on pages
 * of 4 KiB, where hardware reads ahead anew in each, in up to 0.75 of the time (Zen 4). */
void plan_in_order(struct plan_isa *p, const struct layer *layer)
{
    const bool few = layer_has_cache(layer) || layer_is_linear(layer) || p->request.value[PLAN_TYPICAL_N] == 1;
    if (!p->isa->mixes_loads || !few || layer_rounds(layer) || p->bytes[OWNER_PACKED] <= (int64_t)p->isa->l2_bytes / 2)
        return;
    for (struct step *g = p->steps; g < p->steps + p->step_count; g++)
        if (g->kind == KIND_PANELS && g->panels.weights != TENSOR_I4 && !p->digits) {
            struct plan_panels *const panels = &g->panels;
            panels->in_order = LOW_ROWS;
            panels->halves = p->isa->half_target != NULL && panels->weights == TENSOR_F32 && panels->taps == 1 &&
                             !p->small ? 1 : 0;
            p->halves = p->halves || panels->halves > 0;
        }
}

/* ---- the schedule: what was decided, as the lists that are walked ---- */

static void schedule_panels(struct plan_isa *p, struct step *step)
{
    struct plan_panels *const g = &step->panels;
    const int64_t unroll = min(g->unroll, g->k_block);
    step->unroll = min(max(g->unroll, g->unroll_rest), g->k_block);
    g->slabs = ceil_div(g->depth, g->k_block);
    g->last_slab = g->depth - (g->slabs - 1) * g->k_block;
    tiles_for_runs(&g->heights, p->block, g->rest, g->rows, ROWS_STEP);
    const bool tiled = takes_registers(p, g->word, g->depth) && g->fast == 0;
    for (struct tile_height *h = g->heights.at; h < g->heights.at + g->heights.count; h++)
        h->unroll = g->prefetch > 0 && 2 * h->rows > g->rows ? unroll : min(g->unroll_rest, g->k_block);
    if (tiled)
        tiles_add_registers(&g->heights, p->tile_rows);
    p->tiled = p->tiled || tiled;
    g->prefetch_tile = g->k_block / unroll * g->prefetch;
    if (g->fast > 0) {
        const int64_t iterations = g->k_block / 2 / min(unroll, g->k_block / 2);
        const int64_t lines = g->k_block / 2 * g->vecs * p->lanes / LINE_FLOATS;
        g->fast_prefetch = g->prefetch > 0 ? min(MAX_PREFETCH, lines / (FAST_AHEAD * iterations)) : 0;
    }
    const bool narrower = g->tail_vecs > 0 || g->tail_lanes > 0;
    g->whole = g->panels - (narrower ? 1 : 0);
    g->last_vecs = !narrower ? 0 : g->tail_vecs > 0 ? g->tail_vecs : g->vecs;
    g->parts = ceil_div(g->groups * g->panels, g->part_panels);
}

/* ---- products that share tiles, and functions of parts ---- */

/* Whether two products can share their register tiles; where results go is an argument if it differs. */
static bool alike(const struct plan_panels *a, const struct plan_panels *b)
{
    return a->element == b->element && a->bias == b->bias && a->depth == b->depth && a->k_block == b->k_block &&
           a->taps == b->taps && a->vecs == b->vecs && a->tall_vecs == b->tall_vecs && a->rows == b->rows &&
           a->rest == b->rest && a->unroll == b->unroll && a->unroll_rest == b->unroll_rest &&
           (a->panels > 1) == (b->panels > 1) &&
           a->tail_vecs == b->tail_vecs && a->tail_lanes == b->tail_lanes && a->a_row == b->a_row && a->a_k == b->a_k &&
           a->prefetch == b->prefetch && a->inputs == b->inputs && a->a_scale == b->a_scale && a->fast == b->fast &&
           a->floats == b->floats;
}

/* All but tensors that a function for parts of a product depends on, where tiles are shared; biases follow weights.
 * Heads that are finished know their product, and so does an output of tokens that lie apart. A product whose rows stay
 * whole can take the function of one whose rows go to arrays of heads, as if it had arrays a head's columns apart. */
static bool parts_alike(const struct plan_panels *a, const struct plan_panels *b)
{
    const bool split_alike = a->parts_split == 0 || b->c_split == 0 || a->parts_split == b->c_split;
    return a->groups == b->groups && a->columns == b->columns && a->panels == b->panels &&
           a->group_size == b->group_size && a->a_group == b->a_group && a->a_tap == b->a_tap &&
           a->a_block == b->a_block && split_alike && a->group_rows == b->group_rows &&
           a->part_panels == b->part_panels && a->parts == b->parts && a->prefetch_after == b->prefetch_after &&
           a->finish == 0 && b->finish == 0 && !a->ends && !b->ends;
}

/* Whether c_group is read. */
static bool steps_groups(const struct plan_panels *g) { return g->groups > 1 || g->c_split > 0; }

/* `g` joins the tiles, and the function of parts, of the first product before it that has them alike. */
static void join_panels(struct plan_isa *p, struct step *g, bool skips)
{
    struct plan_panels *const own = &g->panels;
    own->tiles = own->parts_of = g->label;
    own->tile_row = own->matrices > 1 ? 0 : own->c_row; /* gates have a stride of their own */
    own->tile_places = own->c_split > 0;
    own->parts_split = own->c_split;
    own->parts_placed = own->c_of_call;
    struct plan_panels *tiles = NULL, *parts = NULL;
    for (struct step *before = p->steps; before < g; before++) {
        struct plan_panels *const other = &before->panels;
        if (before->kind != KIND_PANELS || !alike(own, other))
            continue;
        tiles = tiles != NULL ? tiles : other;
        if (parts == NULL && other->parts_of == before->label && parts_alike(other, own) &&
            !(skips && (own->from_caller != other->from_caller || own->to_caller != other->to_caller))) {
            parts = other;
            own->parts_of = before->label;
            own->behind = (p->layouts[LAYOUT_WEIGHTS + g->id].at - p->layouts[LAYOUT_WEIGHTS + before->id].at) /
                          (int64_t)element_size(TENSOR_F32);
        }
    }
    if (tiles != NULL) {
        own->tiles = tiles->tiles;
        tiles->tile_row = tiles->tile_row == own->tile_row ? own->tile_row : 0;
        tiles->tile_places |= own->tile_places;
    }
    if (parts != NULL) {
        parts->parts_placed |= own->c_of_call || parts->c_row != own->c_row || parts->c_split != own->c_split ||
                               (steps_groups(own) && parts->c_group != own->c_group);
        parts->parts_split = max(parts->parts_split, own->c_split);
    }
}

void share_tiles(struct plan_isa *p, bool skips)
{
    struct step *const end = p->steps + p->step_count;
    for (struct step *g = p->steps; g < end; g++)
        if (g->kind == KIND_PANELS)
            join_panels(p, g, skips);
    for (struct step *g = p->steps; g < end; g++)
        for (struct step *first = p->steps; first < g && g->kind == KIND_PANELS; first++) {
            if (first->kind == KIND_PANELS && first->label == g->panels.tiles) {
                g->panels.tile_row = first->panels.tile_row;
                g->panels.tile_places = first->panels.tile_places;
            }
            if (first->kind == KIND_PANELS && first->label == g->panels.parts_of) {
                g->panels.parts_placed = first->panels.parts_placed;
                g->panels.parts_split = first->panels.parts_split;
            }
        }
}

/* ---- place ---- */

/* [group][panel][step of the reduction][column], the last panel maybe narrower; scales of columns, and biases */
static void place_panels(struct plan_isa *p, const struct step *g)
{
    const struct plan_panels *const w = &g->panels;
    const int64_t width = w->vecs * p->lanes;
    if (g->id == STEP_UP_V) {
        p->layouts[LAYOUT_WEIGHTS + g->id] = p->layouts[LAYOUT_WEIGHTS + STEP_UP_Z]; /* W_UV, too */
        p->layouts[LAYOUT_SCALES + g->id] = p->layouts[LAYOUT_SCALES + STEP_UP_Z];
        return;
    }
    p->layouts[LAYOUT_WEIGHTS + g->id] = (struct layout){
        .name = g->name, .owner = OWNER_PACKED, .element = w->weights,
        .shape = {w->groups, w->panels, w->matrices * w->taps * w->packed_depth, width},
        .stride = {w->group_size, w->matrices * w->taps * w->packed_depth * width, width, 1}};
    place(p, LAYOUT_WEIGHTS + g->id);
    if (w->weights != TENSOR_F32 && w->weights != TENSOR_I4)
        place_new(p, LAYOUT_SCALES + g->id, g->name, OWNER_PACKED, w->matrices * w->groups, w->columns);
    if (w->bias)
        place_new(p, LAYOUT_BIASES + g->id, g->name, OWNER_PACKED, w->matrices * w->groups, w->columns);
    if (w->fast > 0) { /* [pair of panels][slab][four sums][step of half a slab][column] */
        p->layouts[LAYOUT_WEIGHT_SUMS + g->id] = (struct layout){
            .name = g->name, .owner = OWNER_PACKED, .element = w->weights,
            .shape = {1, w->fast_pairs, 2 * w->depth, width},
            .stride = {0, 2 * w->depth * width, width, 1}};
        place(p, LAYOUT_WEIGHT_SUMS + g->id);
    }
}

/* ---- expected time ---- */

/* One panel of `vecs` vectors over `rows` rows of one block; one slab of `depth` steps. */
static void count_panel(struct model *m, struct work *w, const struct plan_panels *g, int64_t vecs, int64_t rows,
                        double depth, double times)
{
    const double e = (double)element_size(g->element);
    const double packed = depth * (double)g->packed_depth / (double)g->depth;
    const double panel = (double)element_size(g->weights) * packed * (double)(vecs * m->plan->lanes);
    for (const struct tile_height *h = g->heights.at; h < g->heights.at + g->heights.count; h++) {
        const double tiles = times * (double)tiles_taken(h, &rows);
        const double lines = g->a_k == 1 ? e * depth * (double)h->rows /* a_row apart, contiguous along the depth */
                                         : depth * line_bytes(h->rows);
        if (tiles == 0)
            continue;
        const int64_t wide = h->rows > g->low_rows ? min(vecs, g->tall_vecs) : vecs;
        if (m->plan->digits) { /* three sums for one */
            add_tile(w, m->core, h->rows, 3 * vecs, depth * m->core->digits / 3, h->unroll, tiles);
            w->fmas += tiles * depth * (double)(h->rows * vecs) * (1 - m->core->digits);
        } else
            add_tile(w, m->core, h->rows, wide, depth, h->unroll, tiles * (double)vecs / (double)wide);
        if (panel + lines > l1_bytes(m))
            w->l2 += tiles * (panel + lines);
    }
}

/* C = A W: panels of weights, each over all row tiles of a row group. */
static void count_panels(struct model *m, struct work *w, const struct step *of, int64_t rows, double times)
{
    const struct plan_panels *const g = &of->panels;
    const double e = (double)element_size(g->element);
    const struct blocks b = count_blocks(m, rows);
    const double groups = (double)g->groups, taps = (double)g->taps;
    const double slabs = (double)g->slabs, depth = (double)g->depth / slabs;
    const struct { int64_t vecs, panels; } kinds[2] = {{g->vecs, g->whole}, {g->last_vecs, g->panels - g->whole}};
    for (int i = 0; i < 2; i++) {
        const double each = times * groups * taps * slabs * (double)(kinds[i].panels * g->matrices);
        count_panel(m, w, g, kinds[i].vecs, m->plan->block, depth, each * (double)b.whole);
        count_panel(m, w, g, kinds[i].vecs, b.rest, depth, each);
    }
    const double columns = groups * (double)g->columns;
    const double output = size_of(m, of->writes) * (of->writes == LAYOUT_Y ? m->far : m->near) * 2 * slabs * columns;
    const double weights = (double)element_size(g->weights) * groups * (double)g->group_size;
    count_far(m, w, weights, e * m->input, output, rows, g->group_rows,
              g->prefetch > 0 && min(rows, g->group_rows) >= 2 * g->rows, times);
    count_ends(m, w, of, (double)rows * times);
    m->again = m->plan->joint;
}

/* ---- reasons ---- */

/* The reason of a product, without its name. */
static void panels_text(char text[PANEL_TEXT], const struct plan_isa *p, const struct plan_panels *g)
{
    char cut[64] = "", size[32], registers[100] = "", floats[80] = "";
    if (g->heights.at[0].registers > 0)
        snprintf(registers, sizeof registers, "sums of " D64 " or " D64 " rows by tile registers of " D64 " x " D64
                 " words, of others by vectors: ", g->heights.at[0].rows, g->heights.at[1].rows, p->tile_rows,
                 p->tile_words);
    if (g->floats > 0)
        snprintf(floats, sizeof floats, "; for " D64 " rows and more a panel becomes f32 once", g->floats_rows);
    if (g->k_block < g->depth)
        snprintf(cut, sizeof cut, " in slabs of " D64, g->k_block);
    const int64_t unroll = min(g->unroll, g->k_block);
    snprintf(text, PANEL_TEXT,
             "%stile " D64 " x " D64 " (" D64 " accumulators), panels of " D64 " columns x " D64 " deep (%s)%s; row "
             "groups of " D64 ", %s; " D64 " step%s unrolled; " D64 " panel%s a part%s%s%s%s",
             registers, g->rows, g->tall_vecs * p->lanes, g->rows * g->tall_vecs, g->vecs * p->lanes, g->depth,
             bytes_text(size, g->panel_size * (int64_t)element_size(g->weights)), cut, g->group_rows,
             why(p, PLAN_GROUP_ROWS, "whose operand fills at most 3/4 of L2 while the panels pass"), unroll,
             plural(unroll), g->part_panels, plural(g->part_panels),
             g->tall_vecs < g->vecs ? "; low tiles are as wide as a panel" : "", floats,
             g->prefetch > 0 ? "; the first tiles over a panel prefetch the next one" : "",
             g->in_order == 0 ? "" : g->halves == 0 ? "; tiles of one or two rows read it in the order of memory"
             : "; tiles of one or two rows read it in the order of memory, of one by halves of vectors");
}

/* A line for each product that has a text; products with the same text share one. */
static void explain_alike(struct plan_isa *p, char text[PLAN_STEPS][PANEL_TEXT])
{
    for (int i = 0; i < p->step_count; i++) {
        char alike[80] = "";
        for (int j = i; text[i][0] != '\0' && j < p->step_count; j++)
            if (strcmp(text[i], text[j]) == 0) {
                strcat(strcat(alike, alike[0] != '\0' ? ", " : ""), p->steps[j].name);
                if (j > i)
                    text[j][0] = '\0';
            }
        if (alike[0] != '\0')
            reason(p, "%s: %s", alike, text[i]);
    }
}

void explain_panels(struct plan_isa *p)
{
    char text[PLAN_STEPS][PANEL_TEXT] = {""};
    for (int i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == KIND_PANELS)
            panels_text(text[i], p, &p->steps[i].panels);
    explain_alike(p, text);
}

/* Which products are fast, and why others are not. */
void explain_fast(struct plan_isa *p)
{
    char text[PLAN_STEPS][PANEL_TEXT] = {""};
    bool some = !p->unasked; /* else those that stay classical are of interest beside others alone */
    for (int i = 0; i < p->step_count; i++)
        some = some || (p->steps[i].kind == KIND_PANELS && p->steps[i].panels.fast > 0);
    if (p->not_fast != NULL && !p->unasked)
        reason(p, "no product is fast, though asked for: %s", p->not_fast);
    for (int i = 0; i < p->step_count && p->fast && some; i++) {
        const struct plan_panels *const of = &p->steps[i].panels;
        if (p->steps[i].kind != KIND_PANELS)
            continue;
        if (of->classical == NULL)
            snprintf(text[i], sizeof text[i],
                     "fast products, seven of two tiles of " D64 " or " D64 " rows and two panels, " D64 " words deep, "
                     "in place of eight, from " D64 " tokens on; " D64 " of " D64 " panels. Sums are exact, bits "
                     "those of classical products, whose packed weights are half as large (plan.products)", of->fast,
                     of->fast - 1, of->k_block / 2, (int64_t)FAST_ROWS, 2 * of->fast_pairs, of->panels);
        else
            snprintf(text[i], sizeof text[i], "classical products, as %s", of->classical);
    }
    explain_alike(p, text);
}

static void print_panels(FILE *out, const struct plan_isa *p, const struct step *step)
{
    const struct plan_panels *const g = &step->panels;
    const int64_t lanes = p->lanes;
    fprintf(out, "      %-14s tokens: ", step->name);
    print_heights(out, &g->heights);
    fprintf(out, "; panels: " D64 " of " D64 " columns", g->whole, g->vecs * lanes);
    if (g->last_vecs > 0)
        fprintf(out, ", 1 of " D64, (g->last_vecs - (g->tail_lanes > 0)) * lanes + g->tail_lanes);
    if (g->groups > 1)
        fprintf(out, ", " D64 " times", g->groups);
    if (g->slabs > 1)
        fprintf(out, "; slabs: " D64 " of " D64 ", 1 of " D64, g->slabs - 1, g->k_block, g->last_slab);
    fputc('\n', out);
}

const struct step_kind_row panels_kind = {
    place_panels, prefetch_panels, schedule_panels, count_panels, print_panels};
