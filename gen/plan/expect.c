/* SPDX-License-Identifier: MIT */
/* The model of the time that a step takes, in cycles of one core:
 *
 *     cycles = the largest bound + what of the others is not hidden behind it + starts and ends of tiles
 *
 * Each step is counted as the templates compute it: the same tiles, heights, key blocks and strips of single vectors.
 * struct work collects the counts, finish() divides. A new kind of product is a function that fills a struct work; a
 * new bound is a row of bounds[].
 *
 * Left out on purpose: memory beyond L3, more than one core, lengths below the limits, data that take a second pass;
 * rounding to whole numbers, and what their dot products take beside a multiply-add.
 */
#include "plan/expect.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/layer.h"
#include "spec/score.h"
#include "spec/visible.h"

/* ---- the cores that the figures are of: Golden Cove (a Xeon, Emerald Rapids) and, for AVX2, Zen 4 (an EPYC) ---- */

#define L1I_BYTES (31.0 * 1024) /* measured: larger unrolled loops slow down */
#define CODE_BANDWIDTH 12.6     /* bytes of code a cycle from L2: larger loops reach 54 % of peak */
#define FMA_LATENCY 4.0
#define WINDOW 100.0            /* vector instructions in flight, across which short tiles overlap */
#define TILE_CYCLES 8.0         /* to begin and end a register tile: 20 cycles for one of 24 accumulators */
#define ACCUMULATOR_CYCLES 0.5
#define BLOCK_CYCLES 60.0       /* a block of keys for a tile of queries */
#define QUERY_TILE_CYCLES 150.0 /* and a tile of queries: its state, 1 / l, the check */
#define CALL_CYCLES 300.0
#define FINISH_CYCLES 4.0       /* a row of a head, normed or turned: pointers, splats, stores that loads wait for */
#define NORM_CYCLES 120.0       /* of LANES rows: dependent sums, roots and divisions */
#define GELU_OPERATIONS 20      /* instructions, and a division that counts as five */
#define EXP_OPERATIONS 9        /* of silu and gelu_tanh likewise, beside the exponential */
#define TANH_OPERATIONS 22     /* of tanh and of the softcap of layer = linear */
#define LINE 64.0
#define LINE_FLOATS 16
#define FIRST_OPERATIONS 1      /* the maximum of a score, in the first register tile of a query */
#define COPY_LOADS 4            /* of a vector of a tile that does not start at a block: copied in or out */
#define PREFETCH_SHOWS 0.25        /* share of the cycles of prefetched bytes from L3 that is not hidden */

/* KiB, and bytes that one core reads in a cycle: measured over buffers that fit L2, and over 8 MiB. */
struct caches {
    double l1_kib, l2_kib, l2_rate, l3_rate;
};
static const struct caches golden_cove = {48, 2048, 49, 11}; /* 138 and 30 GB/s at 2.79 GHz */
static const struct caches zen_4 = {32, 1024, 31, 27};       /* 89 and 78 GB/s at 2.86 GHz */

/* What one instruction set's row adds. `ports`: vector multiply-adds a cycle, as attnrun measures the peak: the scalar
 * and sse4's are those of SSE's separate multiplication and addition. `exp`: operations for 2^(s - m) and the sum of
 * weights, in slots of those ports. `hide`: one test of a mask, select and maximum of a masked score, softmax apart
 * from it. `transpose`: cycles for each number of a whole block. `stream`: cycles that each line of keys or values from
 * L2 costs beside all else: the small tiles of AVX2 lose them. Code bytes: instructions with an offset. */
struct core {
    const char *isa;
    const struct caches *caches;
    double ports, loads, exp, hide, transpose, stream, fma_bytes, load_bytes;
    double digits; /* of rows in digits: cycles of a tile's step, over those of f32; measured with i4 on a Zen 4, where
                    * i8 takes 1 % more */
};
static const struct core cores[] = {
    {"scalar", &golden_cove, .ports = 1.5, .loads = 2, .exp = 20, .hide = 24, .transpose = 1, .stream = 0,
     .fma_bytes = 11, .load_bytes = 8, .digits = 20},
    {"sse4", &golden_cove, .ports = 1.5, .loads = 2, .exp = 20, .hide = 24, .transpose = 1, .stream = 0,
     .fma_bytes = 11, .load_bytes = 8, .digits = 1},
    {"avx2", &zen_4, .ports = 2, .loads = 3, .exp = 10, .hide = 24, .transpose = 0.5, .stream = 1,
     .fma_bytes = 5, .load_bytes = 9, .digits = 1.4},
    {"avx512", &golden_cove, .ports = 2, .loads = 2, .exp = 9, .hide = 24, .transpose = 0.38, .stream = 0,
     .fma_bytes = 6, .load_bytes = 10, .digits = 0.9},
};

/* Share of a bound's cycles that adds to the largest bound; of L3, without prefetching. */
static const struct {
    const char *name;
    double shows;
} bounds[EXPECT_BOUNDS] = {
    [EXPECT_FMA] = {"FMA ports", 0.1},  [EXPECT_LANES] = {"lanes", 0.1}, [EXPECT_LOADS] = {"loads", 0.06},
    [EXPECT_EXP] = {"exp", 0.1},        [EXPECT_L2] = {"L2", 0.06},      [EXPECT_L3] = {"L3", 0.6},
    [EXPECT_CODE] = {"code size", 0.1}, [EXPECT_TILES] = {"tiles", 1},
};
#define MANY_IDLE_LANES 1.15 /* multiply-adds issued for each useful one, above which lanes are named as the bound */

static const char *const step_names[EXPECT_STEPS] = {"transpose", "queries", "keys", "values",
                                                     "scores", "exponential", "weighted sums", "output",
                                                     "norms", "hidden", "down", "linear"};

const char *expect_bound_name(enum expect_bound bound)
{
    return bounds[bound].name;
}

const char *expect_step_name(enum expect_step_name step)
{
    return step_names[step];
}

/* ---- counting ---- */

/* What a step does, in instructions and bytes. */
struct work {
    double fmas, port_cycles, operations; /* vector multiply-adds; their cycles, with stalls; other vector operations */
    double loads, tiles, overhead;        /* loads of vectors; tiles; overhead: cycles to begin and end tiles */
    double l2, l3, prefetched, code;      /* bytes; prefetched: from L3 as well, but before they are needed */
};

/* What the counting functions need to know. */
struct model {
    const struct layer *layer;
    const struct plan_isa *plan;
    const struct core *core;
    double far;  /* share of weights, x, y, masks and attn that comes from L3: they are read once a call */
    double near; /* the same share of what one phase leaves in the scratch for the next */
    struct work work[EXPECT_STEPS];
};

/* Share of `bytes`, read repeatedly, that misses L2: none while they fill at most 3/4 of it, all from 3/2 of it on. */
static double share_lost(const struct caches *caches, double bytes)
{
    return fmin(1, fmax(0, (bytes / (1024 * caches->l2_kib) - 0.75) / 0.75));
}

static double l1_bytes(const struct model *m)
{
    return 1024 * m->core->caches->l1_kib;
}

/* `times` register tiles of rows x vecs accumulators, `depth` steps each, of which `unroll` are written out. */
static void add_tile(struct work *w, const struct core *core, int64_t rows, int64_t vecs, double depth, int64_t unroll,
                     double times)
{
    const double accumulators = (double)(rows * vecs), operands = (double)(rows + vecs);
    const double in_flight = accumulators * (1 + WINDOW / (depth * (accumulators + operands)));
    const double stall = fmax(1, FMA_LATENCY * core->ports / in_flight);
    w->fmas += times * depth * accumulators;
    w->port_cycles += times * depth * accumulators / core->ports * stall;
    w->loads += times * depth * operands;
    w->tiles += times;
    w->overhead += times * (TILE_CYCLES + ACCUMULATOR_CYCLES * accumulators);
    const double step_bytes = accumulators * core->fma_bytes + operands * core->load_bytes;
    if (step_bytes * fmin((double)unroll, depth) > L1I_BYTES)
        w->code += times * depth * step_bytes;
}

/* Bytes of whole cache lines in which `count` numbers side by side lie, wherever they begin. */
static double line_bytes(int64_t count)
{
    return LINE * (LINE_FLOATS % count == 0 ? 1 : 1 + (double)(count - 1) / LINE_FLOATS);
}

/* ---- products of weights ---- */

/* Query blocks of `rows` rows: whole ones, and the rows of a last, smaller one. */
struct blocks {
    int64_t whole, rest;
};

static struct blocks blocks_of(const struct model *m, int64_t rows)
{
    return (struct blocks){rows / m->plan->block, rows % m->plan->block};
}

/* Bytes of an element */
static double size_of(const struct model *m, enum layout_name id)
{
    return (double)layout_element(m->plan, id);
}

/* Traffic of a product: weights, from L3 once a row group; the operand, `input` bytes a row from L3; the result. */
static void count_far(struct model *m, struct work *w, double weights, double input, double output, int64_t rows,
                      int64_t group_rows, bool prefetched, double times)
{
    const double bytes = times * m->far * weights * (double)ceil_div(rows, group_rows);
    *(prefetched ? &w->prefetched : &w->l3) += bytes;
    w->l3 += times * (double)rows * (input + output);
}

/* V^T = W^T S^T: a tile of weights, the blocks of s_t pass by. Single vectors take two tiles at once where both fit. */
static void count_lanes(struct model *m, struct work *w, const struct product *of, int64_t rows, double input,
                        double times)
{
    const struct plan_isa *p = m->plan;
    const struct plan_lanes *const g = &of->lanes;
    const double e = (double)element_size(g->element);
    const double depth = (double)g->depth;
    struct blocks b = blocks_of(m, rows);
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
    count_far(m, w, e * columns * depth, e * input, size_of(m, of->writes) * m->near * 2 * columns, rows, g->group_rows,
              g->prefetch > 0, times);
}

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

/* C = A W: panels of weights, each over all row tiles of a row group. `c_far`: C lies outside the scratch. */
static void count_panels(struct model *m, struct work *w, const struct product *of, int64_t rows, double input,
                         bool c_far, double times)
{
    const struct plan_panels *const g = &of->panels;
    const double e = (double)element_size(g->element);
    const struct blocks b = blocks_of(m, rows);
    const double groups = (double)g->groups, taps = (double)g->taps;
    const double slabs = (double)g->slabs, depth = (double)g->depth / slabs;
    const struct { int64_t vecs, panels; } kinds[2] = {{g->vecs, g->whole}, {g->last_vecs, g->panels - g->whole}};
    for (int i = 0; i < 2; i++) {
        const double each = times * groups * taps * slabs * (double)(kinds[i].panels * g->matrices);
        count_panel(m, w, g, kinds[i].vecs, m->plan->block, depth, each * (double)b.whole);
        count_panel(m, w, g, kinds[i].vecs, b.rest, depth, each);
    }
    const double columns = groups * (double)g->columns;
    const double output = size_of(m, of->writes) * (c_far ? m->far : m->near) * 2 * slabs * columns;
    const double weights = (double)element_size(g->weights) * groups * (double)g->group_size;
    count_far(m, w, weights, e * input, output, rows, g->group_rows,
              g->prefetch > 0 && min(rows, g->group_rows) >= 2 * g->rows, times);
}

/* Norm and rotation of rows that were just projected: vectors that are loaded, and operations on them; and what a row
 * of a head takes once: its share of a root and a division for LANES rows,
 * and of the transposition of their partial sums. */
static void count_finish(const struct model *m, struct work *w, int64_t heads, double rows)
{
    const struct layer *l = m->layer;
    const int64_t lanes = m->plan->lanes, pairs = l->rope.dims / 2;
    const double all = (double)ceil_div(l->d_k, lanes), each = rows * (double)heads;
    const double norms = l->qk_norm == NORM_RMS_ALL ? rows : each; /* rows whose sums are formed */
    if (l->qk_norm != NORM_NONE) {
        const double passes = l->qk_norm == NORM_LAYER ? 2 : 1;
        w->loads += each * all * (passes + (l->qk_norm == NORM_L2 ? 1 : 2));
        w->operations += each * all * (2 * passes + 1);
        w->overhead += norms * passes * (m->core->transpose * (double)lanes + NORM_CYCLES / (double)lanes);
    }
    if (l->rope.kind == ROPE_HALF) {
        w->loads += each * 4 * (double)ceil_div(pairs, lanes);
        w->operations += each * 5 * (double)ceil_div(pairs, lanes);
    } else if (l->rope.kind == ROPE_INTERLEAVED) {
        w->loads += each * 3 * (double)ceil_div(2 * pairs, lanes);
        w->operations += each * 3 * (double)ceil_div(2 * pairs, lanes);
    }
    if (layer_finishes(l))
        w->overhead += each * FINISH_CYCLES;
}

/* Norms of rows of a block, each step over all rows: numbers are read twice or three times and written once. */
static void count_norms(const struct model *m, struct work *w, const struct product *g, double rows)
{
    const struct layer *l = m->layer;
    const int64_t lanes = m->plan->lanes;
    const double all = (double)ceil_div(l->d_model, lanes), passes = l->block_rms ? 1 : 2;
    for (int i = 0; i < g->rows.step_count; i++) {
        const enum layout_name streams[] = {g->rows.steps[i].from, g->rows.steps[i].residual, g->rows.steps[i].to};
        w->loads += rows * all * (passes + 2 + (streams[1] != LAYOUT_NONE ? 1 : 0));
        w->operations += rows * all * (3 * passes + 2);
        w->overhead += rows * passes * (m->core->transpose * (double)lanes + NORM_CYCLES / (double)lanes);
        for (int k = 0; k < 3; k++)
            if (streams[k] != LAYOUT_NONE)
                w->l3 += rows * (double)l->d_model * size_of(m, streams[k]) *
                         (m->plan->layouts[streams[k]].owner == OWNER_CALLER ? m->far : m->near);
    }
}

/* Vectors of hidden numbers, or of y of layer = linear: instructions of the activation, beside those of an exponential,
 * and a division's cycles */
static void count_activation(const struct model *m, struct work *w, double rows)
{
    const struct layer *l = m->layer;
    const double vectors = rows * (double)ceil_div(layer_is_linear(l) ? l->d_out : l->d_ff, m->plan->lanes);
    const enum layer_activation act = layer_activation(l);
    const double cap = l->cap != 0 ? TANH_OPERATIONS : 0;
    const double exponential = act == ACTIVATION_SILU || act == ACTIVATION_GELU_TANH ? m->core->exp : 0;
    const double operations = act == ACTIVATION_RELU ? 1 : act == ACTIVATION_GELU ? GELU_OPERATIONS
                            : act == ACTIVATION_TANH ? TANH_OPERATIONS : act == ACTIVATION_NONE ? 0 : EXP_OPERATIONS;
    w->operations += vectors * (cap + operations + exponential + (layer_ffn_gated(l) ? 1 : 0));
    w->loads += vectors * (layer_ffn_gated(l) ? 3 : 2);
}

/* Cycles that a transposition takes; blocks of fewer rows are copied to the stack as well,
 * of fewer columns to it and back. */
static double transpose_cycles(const struct model *m, int64_t rows, int64_t columns)
{
    const int64_t lanes = m->plan->lanes;
    const double whole_rows = (double)(rows / lanes), whole_columns = (double)(columns / lanes);
    const double all_rows = (double)ceil_div(rows, lanes), all_columns = (double)ceil_div(columns, lanes);
    return m->core->transpose * (double)(lanes * lanes) *
           (whole_rows * whole_columns + 2 * (all_rows - whole_rows) * whole_columns +
            3 * all_rows * (all_columns - whole_columns));
}

static void count_transpose(struct model *m, int64_t rows, int64_t columns, double times)
{
    struct work *w = &m->work[EXPECT_TRANSPOSE];
    w->loads += times * m->core->loads * transpose_cycles(m, rows, columns);
    const double bytes = times * size_of(m, LAYOUT_X) * (double)rows * (double)columns;
    w->l2 += 3 * bytes;
    /* each number is read, then read and written; evicted lines go to L3 too, and accesses are not sequential */
    w->l3 += bytes * (2 * m->far + 3 * m->near);
}

/* ---- attention ---- */

/* A run of keys for a tile of queries, or for one vector of it. */
struct stretch {
    int64_t vecs;
    bool masked; /* some of the pairs may be hidden */
    bool open;   /* no reference scores yet */
};

/* Steps of a sum of `count` products: one for each word where numbers are whole. */
static double steps_of(const struct model *m, bool whole, double count)
{
    return whole ? ceil(count / (double)m->plan->core_word) : count;
}

/* One slab of the scores' depth: its q_t stays in L1 while the keys pass. */
static void count_slab(struct model *m, int64_t vecs, int64_t keys, double depth, double times)
{
    const struct plan_isa *p = m->plan;
    struct work *w = &m->work[EXPECT_SCORES];
    const struct tile_heights *heights = &p->score_tiles[vecs == p->vecs ? PLAN_WIDE : PLAN_SINGLE];
    const double queries = size_of(m, LAYOUT_Q_T) * depth * (double)(vecs * p->lanes);
    for (const struct tile_height *h = heights->at; h < heights->at + heights->count; h++) {
        const double tiles = times * (double)tiles_taken(h, &keys);
        if (tiles == 0)
            continue;
        add_tile(w, m->core, h->rows, vecs, depth, p->unroll_scores, tiles);
        if (queries + size_of(m, LAYOUT_KEYS) * depth * (double)h->rows > l1_bytes(m))
            w->l2 += tiles * queries;
    }
}

/* `bytes` of keys or values, of which a head has `all`. */
static void add_stream(const struct model *m, struct work *w, double bytes, double all)
{
    w->l2 += bytes;
    if (all > l1_bytes(m))
        w->overhead += m->core->stream * bytes / LINE;
}

static void count_scores(struct model *m, int64_t vecs, int64_t keys, double times)
{
    const struct plan_isa *p = m->plan;
    const double steps = steps_of(m, p->rounds_scores, (double)p->fold->d_score);
    const double queries = size_of(m, LAYOUT_Q_T) * steps * (double)(vecs * p->lanes);
    const double key = size_of(m, LAYOUT_KEYS) * steps;
    struct work *w = &m->work[EXPECT_SCORES];
    if (keys == 0)
        return;
    if (p->score_slabs > 1)
        count_slab(m, vecs, keys, (double)p->depth_slab, times * (double)(p->score_slabs - 1));
    count_slab(m, vecs, keys, steps_of(m, p->rounds_scores, (double)p->last_slab), times);
    add_stream(m, w, times * key * (double)keys, key * (double)m->layer->source_len);
    if (queries > l1_bytes(m) / 2)
        w->l2 += times * queries;
}

static void count_sums(struct model *m, int64_t vecs, int64_t keys, double times)
{
    const struct plan_isa *p = m->plan;
    struct work *w = &m->work[EXPECT_SUMS];
    const int64_t d_value = p->fold->d_value;
    const struct tile_heights *heights = &p->value_tiles[vecs == p->vecs ? PLAN_WIDE : PLAN_SINGLE];
    const double width = (double)(vecs * p->lanes), value = size_of(m, LAYOUT_VALUES) * (double)d_value;
    const double sums = size_of(m, LAYOUT_TILE) * (double)d_value, weights = size_of(m, LAYOUT_SCORES) * (double)keys;
    const double steps = steps_of(m, p->rounds_values, (double)keys);
    for (const struct tile_height *h = heights->at; h < heights->at + heights->count; h++)
        add_tile(w, m->core, h->rows, vecs, steps, p->unroll_values, times * (double)h->count);
    w->loads += times * (double)d_value * (double)vecs; /* the sums so far */
    add_stream(m, w, times * steps * value, value * (double)m->layer->source_len);
    if (width * (sums + weights) > l1_bytes(m))
        w->l2 += times * 2 * width * sums;
}

/* Of the terms whose hooks see every tile of scores: tensors with a number for each pair, their bytes,
 * and operations. */
struct terms {
    double tensors, bytes, operations;
    double of_tiles; /* operations of those that every register tile of scores applies */
};

static struct terms count_terms(const struct layer *l)
{
    struct terms terms = {0, 0, 0, 0};
    for (enum score_name i = 0; i < SCORE_TERMS; i++) {
        const struct score_term *of = &score_terms[i];
        if (of->place == SCORE_TILES && score_has(l, i))
            terms.of_tiles += of->operations;
        if (of->place != SCORE_EVERYWHERE || !score_has(l, i))
            continue;
        terms.operations += of->operations;
        terms.tensors += score_tensor(i) < TENSOR_COUNT;
        terms.bytes += score_tensor(i) < TENSOR_COUNT ? (double)layer_tensor_size(l, score_tensor(i)) : 0;
    }
    return terms;
}

/* One block of keys: scores, exponentials, weighted sums. */
static void count_block(struct model *m, const struct stretch *s, int64_t keys, bool open, double times)
{
    const struct plan_isa *p = m->plan;
    struct work *w = &m->work[EXPECT_EXPONENTIAL];
    const double vectors = times * (double)keys * (double)s->vecs;
    const int64_t rows = s->vecs == p->vecs ? p->rows : p->rows_single;
    if ((open || score_falls(m->layer)) && !s->masked && p->at_once) {
        /* one register tile first, stored: its maxima become the reference scores */
        const int64_t done = min(keys, rows);
        count_scores(m, s->vecs, done, times);
        w->operations += (1 + FIRST_OPERATIONS) * times * (double)done * (double)s->vecs;
        w->loads += 2 * times * (double)done * (double)s->vecs;
        count_scores(m, s->vecs, keys - done, times);
    } else {
        count_scores(m, s->vecs, keys, times);
    }
    if (p->two_pass) { /* the scores once more, for their maximum alone */
        count_scores(m, s->vecs, keys, times);
        w->operations += FIRST_OPERATIONS * vectors;
        w->operations += s->masked ? vectors * m->core->hide : 0;
        w->overhead += times * BLOCK_CYCLES;
    }
    const struct terms terms = count_terms(m->layer);
    w->operations += vectors * (m->core->exp + (p->two_pass ? 2 : 1) * terms.of_tiles);
    if (!p->at_once) { /* stored, read for the maximum, read again for the weights */
        w->operations += vectors;
        w->loads += 3 * vectors;
    }
    if (s->masked) {
        w->operations += vectors * (m->core->hide + terms.operations);
        w->operations += vectors * terms.tensors * m->core->ports * m->core->transpose * (double)p->lanes;
    }
    if (m->layer->scores) /* transposed out, and divided by the sum in a second pass */
        w->operations += vectors * (m->core->ports * m->core->transpose * (double)p->lanes + 4);
    w->overhead += times * BLOCK_CYCLES;
    count_sums(m, s->vecs, keys, times);
}

#define MAX_BLOCKS 64 /* key blocks that are counted one by one */

/* Keys in the next of the blocks into which a run is cut, as block_keys() of the emitted file has it. */
static int64_t block_keys(const struct plan_isa *p, int64_t key, int64_t keys)
{
    if (p->value_blocks)
        return min(min(p->key_block, keys), p->block - key % p->block);
    if (keys <= p->key_block)
        return keys;
    const int64_t even = ceil_div(keys, ceil_div(keys, p->key_block));
    return min(p->key_block, ceil_div(even, p->rows) * p->rows);
}

/* A run of `keys` keys from `key` on, block by block. */
static void count_keys(struct model *m, struct stretch *s, int64_t key, int64_t keys, double times)
{
    bool open = s->open;
    if (keys <= 0)
        return;
    s->open = false;
    if (keys > MAX_BLOCKS * m->plan->key_block) {
        const int64_t even = ceil_div(keys, ceil_div(keys, m->plan->key_block));
        count_block(m, s, even, open, times * (double)keys / (double)even);
        return;
    }
    for (int64_t block; keys > 0; key += block, keys -= block, open = false) {
        block = block_keys(m->plan, key, keys);
        count_block(m, s, block, open, times);
    }
}

/* One tile of `queries` from t on: wide runs first, then what is left vector by vector. */
static void count_query_tile(struct model *m, int64_t t, int64_t queries, double times)
{
    const struct layer *l = m->layer;
    const struct plan_isa *p = m->plan;
    const int64_t vectors = ceil_div(queries, p->lanes), offset = visible_offset(l, l->seq_len, l->source_len);
    struct visible_range run[2] = {{0, 0}, {0, 0}};
    struct stretch wide = {.vecs = p->vecs, .masked = score_everywhere(l), .open = true};
    if (p->vecs > 1 && vectors == p->vecs) {
        visible_runs(l, p->block, offset + t, run);
        for (int i = 0; i < 2; i++)
            count_keys(m, &wide, run[i].first, run[i].end - run[i].first, times);
    }
    for (int64_t i = 0; i < vectors; i++) {
        const int64_t from = offset + t + i * p->lanes;
        const struct visible_range keys = visible_keys(l, from, from + p->lanes - 1);
        struct stretch single = {.vecs = 1, .open = wide.open};
        for (int64_t key = keys.first, end; key < keys.end; key = end) {
            end = keys.end;
            for (int r = 0; r < 2; r++) {
                if (key >= run[r].first && key < run[r].end)
                    key = run[r].end;
                else if (key < run[r].first && run[r].first < run[r].end)
                    end = min(end, run[r].first);
            }
            if (key >= keys.end)
                break;
            end = visible_cut(l, p->lanes, from, key, max(end, key), &single.masked);
            count_keys(m, &single, key, end - key, times);
        }
    }
    struct work *sums = &m->work[EXPECT_SUMS];
    sums->operations += times * 2 * (double)p->fold->d_value * (double)vectors; /* times 1 / l, and the check */
    sums->overhead += times * QUERY_TILE_CYCLES;
    if (p->z_rows) /* z leaves token by token: a few of them number by number */
        sums->overhead += times * (2 * queries < p->lanes ? (double)(queries * p->fold->d_z)
                                                          : transpose_cycles(m, queries, p->fold->d_z));
}

#define MAX_TILES 256 /* at most so many tiles of queries are counted; of more, a sample of that size */

/* `times` sequences, of which `together` were projected as one matrix. */
static void count_attention(struct model *m, int64_t together, double times)
{
    const struct layer *l = m->layer;
    const struct plan_isa *p = m->plan;
    struct visible_rule rules[VISIBLE_RULES];
    const bool alike = visible_rules(l, rules) == 0;
    const int64_t rest = l->seq_len % p->block, full = l->seq_len / p->block;
    const int64_t counted = alike ? min(full, 1) : min(full, MAX_TILES);
    const double n = (double)l->seq_len, keys = (double)l->source_len, heads = (double)l->h;
    for (int64_t i = 0; i < counted; i++) {
        const int64_t tile = (int64_t)(((double)i + 0.5) * (double)full / (double)counted);
        count_query_tile(m, tile * p->block, p->block, times * heads * (double)full / (double)counted);
    }
    if (rest > 0)
        count_query_tile(m, full * p->block, rest, times * heads);

    const double pairs = times * heads * n * keys, blocks = (double)ceil_div(l->seq_len, p->block);
    const double d_score = (double)p->fold->d_score, d_value = (double)p->fold->d_value, d_z = (double)p->fold->d_z;
    struct work *scores = &m->work[EXPECT_SCORES], *sums = &m->work[EXPECT_SUMS];
    scores->overhead += times * heads * transpose_cycles(m, l->seq_len, p->fold->d_score); /* a tile of queries */
    if (p->fold->q_is_k || l->projected) /* scaled as well */
        scores->operations += times * heads * d_score * (double)ceil_div(l->seq_len, p->lanes);
    /* lanes out: two vectors read and written for each, both maybe across lines */
    if (together > 1 && rest > 0 && !p->z_rows)
        sums->loads += COPY_LOADS * times * heads * (double)ceil_div(l->seq_len, p->lanes) * d_z;
    /* K and V of a head stay in L2 while its queries pass, or they do not; the input serves all heads */
    const double k = size_of(m, LAYOUT_KEYS) * keys * d_score, v = size_of(m, LAYOUT_VALUES) * keys * d_value;
    const bool stays = k + v <= 1024 * m->core->caches->l2_kib / 2, input = l->identity || p->fold->values;
    const double k_reads = !stays ? heads * blocks : p->fold->scores && !l->split ? 1 : (double)l->h_kv;
    const double v_reads = !stays ? heads * blocks : input && !l->split ? 1 : (double)l->h_kv;
    const double q_share = l->projected ? m->far : m->near;
    const double k_share = p->fold->scores || l->projected ? m->far : m->near;
    const double v_share = (input && !p->value_blocks) || l->projected ? m->far : m->near;
    *(p->prefetch_keys > 0 ? &scores->prefetched : &scores->l3) +=
        times * (q_share * size_of(m, LAYOUT_QUERIES) * n * heads * d_score + k_share * k * k_reads);
    /* written, and fetched before unless it takes the queries' place */
    const double z = (p->z_in_q ? 1 : 2) * size_of(m, LAYOUT_Z) * n * heads * d_z;
    *(p->prefetch_keys > 0 ? &sums->prefetched : &sums->l3) += times * (m->near * z + v_share * v * v_reads);
    struct work *w = &m->work[EXPECT_EXPONENTIAL];
    w->l3 += m->far * count_terms(l).bytes * pairs;
    if (l->scores) /* written, read again and divided, written */
        w->l3 += m->far * 4 * (double)layer_tensor_size(l, TENSOR_ATTN) * pairs;
}

/* Attention by rows over a cache: a call with seq_len tokens behind which the cache is full. */
static void count_cached(struct model *m, double times)
{
    const struct layer *l = m->layer;
    const struct plan_isa *p = m->plan;
    struct work *scores = &m->work[EXPECT_SCORES], *sums = &m->work[EXPECT_SUMS], *w = &m->work[EXPECT_EXPONENTIAL];
    const struct tile_heights *tiles = &p->cached.tiles;
    const int64_t group = l->h / l->h_kv, past = l->source_len - l->seq_len, vecs = p->cached.vecs;
    const double heads = times * (double)l->h_kv, lanes = (double)p->lanes;
    const double key = size_of(m, LAYOUT_K_CACHE) * (double)l->d_k, value = size_of(m, LAYOUT_V_CACHE) * (double)l->d_v;
    const double far = share_lost(m->core->caches, (double)(l->h_kv * l->source_len) * (key + value));
    const struct terms terms = count_terms(l);
    int64_t left, right;
    visible_reach(l, &left, &right);
    for (int64_t t = 0; t < l->seq_len; t += p->cached.queries) {
        const int64_t queries = min(p->cached.queries, l->seq_len - t), rows = queries * group;
        const int64_t first = left == LAYER_UNBOUNDED ? 0 : max(0, past + t - left);
        const int64_t end = right == LAYER_UNBOUNDED ? l->source_len : min(l->source_len, past + t + queries + right);
        const double keys = (double)max(0, end - first), vectors = (double)rows * ceil(keys / lanes);
        const double panels = (double)ceil_div(ceil_div(l->d_v, p->lanes), vecs);
        int64_t high = rows;
        const bool few = l->seq_len <= p->cached.few_queries;
        for (const struct tile_height *h = tiles->at; h < tiles->at + tiles->count; h++) {
            const double count = heads * (double)tiles_taken(h, &high);
            if (!few)
                add_tile(scores, m->core, h->rows, vecs, steps_of(m, p->rounds_scores, (double)l->d_k),
                         p->unroll_scores, count * ceil(keys / (lanes * (double)vecs)));
            add_tile(sums, m->core, h->rows, vecs, steps_of(m, p->rounds_values && !few, keys), p->unroll_values,
                     count * panels);
        }
        if (few) { /* by four rows and keys; a quarter of a tree of sums for each */
            const int64_t steps = ceil_div(l->d_k, p->lanes);
            add_tile(scores, m->core, min(rows, 4), 4, (double)steps, steps,
                     heads * keys / 4 * (double)ceil_div(rows, 4));
            scores->operations += heads * (double)rows * keys;
        } else {
            scores->overhead += heads * keys * (double)l->d_k * m->core->transpose;
        }
        w->operations += heads * vectors * (m->core->exp + terms.of_tiles + terms.operations + FIRST_OPERATIONS);
        w->loads += heads * 3 * vectors;
        w->overhead += heads * BLOCK_CYCLES * ceil(keys / (double)(few ? p->cached.few_block : p->cached.key_block));
        scores->l2 += heads * keys * key;
        sums->l2 += heads * keys * value;
        scores->l3 += far * heads * keys * key;
        sums->l3 += far * heads * keys * value;
    }
}

/* A product over `tokens` tokens of a group. `*again`: an earlier product of the same loop has read these rows. */
static void count_product(struct model *m, const struct product *g, int64_t tokens, double times, bool *again)
{
    static const enum expect_step_name steps[PLAN_PRODUCTS] = {
        [PRODUCT_QUERIES] = EXPECT_QUERIES, [PRODUCT_KEYS] = EXPECT_KEYS, [PRODUCT_VALUES] = EXPECT_VALUES,
        [PRODUCT_OUTPUT] = EXPECT_OUTPUT, [PRODUCT_NORM_X] = EXPECT_NORMS, [PRODUCT_NORM_STREAM] = EXPECT_NORMS,
        [PRODUCT_HIDDEN] = EXPECT_HIDDEN, [PRODUCT_DOWN] = EXPECT_DOWN, [PRODUCT_NORM_Y] = EXPECT_NORMS,
        [PRODUCT_LINEAR] = EXPECT_LINEAR};
    const struct layer *l = m->layer;
    struct work *w = &m->work[steps[g->id]];
    const double read = m->plan->layouts[g->reads[0]].owner == OWNER_CALLER ? m->far : m->near;
    const int64_t width = g->id == PRODUCT_OUTPUT ? l->h * m->plan->fold->d_z : g->id == PRODUCT_DOWN ? l->d_ff
                        : g->id == PRODUCT_KEYS || g->id == PRODUCT_VALUES ? l->d_source : l->d_model;
    const double input = *again ? 0 : read * (double)width;
    switch (g->kind) {
    case PRODUCT_COPY:
        if (g->id == PRODUCT_TRANSPOSE)
            count_transpose(m, tokens, l->d_source, times);
        break;
    case PRODUCT_LANES: count_lanes(m, w, g, tokens, m->near * (double)l->d_source, times); break;
    case PRODUCT_ROWS: count_norms(m, w, g, (double)tokens * times); break;
    case PRODUCT_PANELS:
        count_panels(m, w, g, tokens, input, g->writes == LAYOUT_Y, times);
        if (g->id == PRODUCT_HIDDEN || (g->epilogue & (EPILOGUE_ACTIVATION | EPILOGUE_CAP)) != 0)
            count_activation(m, w, (double)tokens * times);
        if ((g->epilogue & (EPILOGUE_NORM | EPILOGUE_TURN)) != 0)
            count_finish(m, w, g->id == PRODUCT_QUERIES ? l->h : l->h_kv, (double)tokens * times);
        *again = m->plan->joint;
        break;
    default: break;
    }
}

/* `times` groups of `together` sequences, each projected as one matrix: the tasks of the plan's phases. */
static void count_group(struct model *m, int64_t together, double times)
{
    const struct layer *l = m->layer;
    const struct plan_isa *p = m->plan;
    for (const struct plan_phase *phase = p->phases; phase < p->phases + p->phase_count; phase++) {
        bool again = false;
        for (const struct plan_task *t = phase->tasks; t < phase->tasks + phase->task_count; t++)
            if (t->kind == TASK_ATTEND)
                count_attention(m, together, times * (double)together);
            else if (t->kind == TASK_ATTEND_ROWS)
                count_cached(m, times * (double)together);
            else if (t->kind == TASK_PRODUCT)
                count_product(m, t->product, together * (t->of_keys ? layer_new_keys(l) : l->seq_len), times, &again);
    }
}

/* ---- from counts to cycles ---- */

static void hold(struct expect_step *s, enum expect_bound bound)
{
    if (s->bound[bound] > s->bound[s->held_by])
        s->held_by = bound;
}

static void finish(struct expect_step *s, const struct work *w, const struct model *m, enum expect_bound ports)
{
    const struct core *core = m->core;
    s->fmas = w->fmas;
    s->tiles = w->tiles;
    if (ports == EXPECT_FMA && s->useful > 0 &&
        w->fmas * (double)m->plan->lanes > MANY_IDLE_LANES * s->useful)
        ports = EXPECT_LANES;
    s->bound[ports] = w->port_cycles + w->operations / core->ports;
    s->bound[EXPECT_LOADS] = w->loads / core->loads;
    s->bound[EXPECT_L2] = w->l2 / core->caches->l2_rate;
    s->bound[EXPECT_L3] = (w->l3 + w->prefetched) / core->caches->l3_rate;
    s->bound[EXPECT_CODE] = w->code / CODE_BANDWIDTH;
    s->bound[EXPECT_TILES] = w->overhead;
    s->held_by = ports;
    for (int i = 0; i < EXPECT_BOUNDS; i++)
        hold(s, (enum expect_bound)i);
    s->cycles = s->held_by == EXPECT_TILES ? 0 : s->bound[s->held_by];
    for (int i = 0; i < EXPECT_BOUNDS; i++)
        if (i == EXPECT_TILES || i != (int)s->held_by)
            s->cycles += bounds[i].shows * s->bound[i];
    if (s->held_by != EXPECT_L3)
        s->cycles -= (bounds[EXPECT_L3].shows - PREFETCH_SHOWS) * w->prefetched / core->caches->l3_rate;
}

/* The layer is limited by what limits the steps that take most of its cycles. */
static void sum_up(struct expect *e, const struct core *core, int64_t lanes, double groups)
{
    double held[EXPECT_BOUNDS] = {0};
    e->layer.bound[EXPECT_TILES] = held[EXPECT_TILES] = CALL_CYCLES * groups;
    e->layer.cycles = CALL_CYCLES * groups;
    for (int i = 0; i < EXPECT_STEPS; i++) {
        struct expect_step *s = &e->step[i];
        s->share = s->cycles > 0 ? s->useful / (s->cycles * core->ports * (double)lanes) : 0;
        e->layer.useful += s->useful;
        e->layer.fmas += s->fmas;
        e->layer.tiles += s->tiles;
        e->layer.cycles += s->cycles;
        held[s->held_by] += s->cycles;
        for (int b = 0; b < EXPECT_BOUNDS; b++)
            e->layer.bound[b] += s->bound[b];
    }
    e->layer.share = e->layer.useful / (e->layer.cycles * core->ports * (double)lanes);
    for (int b = 0; b < EXPECT_BOUNDS; b++)
        if (held[b] > held[e->layer.held_by])
            e->layer.held_by = (enum expect_bound)b;
}

#define CORES (sizeof cores / sizeof cores[0])

/* CORES for a set that no measured core has */
static size_t core_of(const struct isa *isa)
{
    size_t i = 0;
    while (i < CORES && strcmp(cores[i].isa, isa->name) != 0)
        i++;
    return i;
}

bool expect_knows(const struct isa *isa)
{
    return core_of(isa) < CORES;
}

/* The plain layer's multiply-adds. A projection that folding removes counts with the step that forms its result. */
static void count_useful(struct expect *e, const struct layer *l, const struct plan_isa *p, double batch)
{
    const struct layer_cost cost = layer_multiply_adds(l, l->seq_len, l->source_len);
    e->step[EXPECT_LINEAR].useful = batch * cost.linear;
    const bool q = !p->fold->q_is_k, k = plan_panels_of(p, PRODUCT_KEYS) != NULL;
    const bool v = plan_product(p, PRODUCT_VALUES) != NULL;
    e->step[EXPECT_QUERIES].useful = batch * (!q ? 0 : cost.q + (k ? 0 : cost.k));
    e->step[EXPECT_KEYS].useful = batch * ((k ? cost.k : 0) + (q ? 0 : cost.q));
    e->step[EXPECT_VALUES].useful = batch * (v ? cost.v : 0);
    e->step[EXPECT_SCORES].useful = batch * cost.scores;
    e->step[EXPECT_SUMS].useful = batch * cost.values;
    e->step[EXPECT_OUTPUT].useful = batch * (cost.output + (v ? 0 : cost.v));
    e->step[EXPECT_HIDDEN].useful = batch * (cost.ffn - cost.down);
    e->step[EXPECT_DOWN].useful = batch * cost.down;
}

void expect_make(struct expect *e, const struct layer *l, const struct plan_isa *p, int64_t batch)
{
    struct model m = {.layer = l, .plan = p, .core = &cores[core_of(p->isa)]};
    const double n = (double)l->seq_len, keys = (double)l->source_len, scratch = (double)p->bytes[OWNER_SCRATCH];
    const bool attends = layer_attends(l);
    const double q_k_v = n * (double)(l->h * l->d_k) + keys * (double)(l->h_kv * (l->d_k + l->d_v));
    const double x = n * (double)l->d_model + (l->cross ? keys * (double)l->d_source : 0);
    const double inputs = (double)layer_tensor_size(l, TENSOR_X) * (l->projected ? q_k_v : x);
    const double pairs = attends ? (double)l->h * n * keys : 0;
    const double tensors = pairs * (count_terms(l).bytes + (l->scores ? (double)layer_tensor_size(l, TENSOR_ATTN) : 0));
    const double y = (double)layer_tensor_size(l, TENSOR_Y) * n * (double)l->d_out;
    const int64_t together = min(batch, p->sequences), rest = batch % together;
    /* one group's part of the scratch */
    const double used = scratch * (double)together / (double)p->sequences;
    m.near = share_lost(m.core->caches, used);
    m.far = share_lost(m.core->caches, used + (double)batch * (inputs + tensors + y) + (double)p->bytes[OWNER_PACKED]);

    count_group(&m, together, (double)(batch / together));
    if (rest > 0)
        count_group(&m, rest, 1);

    memset(e, 0, sizeof *e);
    count_useful(e, l, p, (double)batch);
    for (int i = 0; i < EXPECT_STEPS; i++)
        finish(&e->step[i], &m.work[i], &m, i == EXPECT_EXPONENTIAL ? EXPECT_EXP : EXPECT_FMA);
    sum_up(e, m.core, p->lanes, (double)ceil_div(batch, together));
}

/* ---- printing ---- */

static void print_step(FILE *out, const char *name, const struct expect_step *s)
{
    char share[16] = "", issued[32] = "";
    if (s->useful > 0)
        snprintf(share, sizeof share, "%.1f %%", 100 * s->share);
    if (s->fmas > 0)
        snprintf(issued, sizeof issued, "%.0f", s->fmas);
    fprintf(out, "    %-14s %14.0f %14s %8s   %s\n", name, s->cycles, issued, share, bounds[s->held_by].name);
}

/* One pair of weights: what folding saves or would cost, in the plain layer's multiply-adds; and in a short call, where
 * weights are read for little work. */
static void print_fold(FILE *out, const struct plan_fold *f, const char *pair, double saved, double short_share,
                       bool taken, double total)
{
    fprintf(out, "  folding %s %s%s %.0f multiply-adds, %.1f %% of the plain layer's: %s\n", pair,
            taken ? "" : "would ", saved >= 0 ? (taken ? "saves" : "save") : (taken ? "costs" : "cost"), fabs(saved),
            100 * fabs(saved) / total, taken ? "taken" : "not taken");
    if (f->short_n > 0)
        fprintf(out, "    with %" PRId64 " quer%s and %" PRId64 " key%s: %.2f times the plain layer's work, with what "
                "reading weights takes\n", f->short_n, f->short_n == 1 ? "y" : "ies", f->short_m,
                f->short_m == 1 ? "" : "s", short_share);
}

static void print_folds(FILE *out, const struct plan_fold *f, const struct layer *l)
{
    const double total = layer_multiply_adds(l, l->seq_len, l->source_len).total;
    fputc('\n', out);
    if (l->projected) {
        fputs("  nothing is projected before the scores: no weights to fold\n", out);
        return;
    }
    if (layer_finishes(l))
        fprintf(out, "  W_Q W_K^T cannot be folded: queries and keys are normed or turned before they meet\n");
    else
        print_fold(out, f, "W_Q W_K^T", f->saved_scores, f->short_scores, f->scores, total);
    if (l->w_o != W_O_NONE && !l->identity)
        print_fold(out, f, "W_V W_O", f->saved_values, f->short_values, f->values, total);
    if (f->scores)
        fputs("  no keys are projected: their multiply-adds count as those of queries\n", out);
    if (f->values)
        fputs("  no values are projected: their multiply-adds count as those of the output\n", out);
    if (f->q_is_k)
        fputs("  no queries are projected: with W_K tied to W_Q they are the keys\n", out);
}

void expect_explain(const struct plan *plan, const struct layer *layer, int64_t batch, FILE *out)
{
    fprintf(out,
            "\nExpected of %s: %" PRId64 " sequence%s of full length, one core, warm caches; cycles from counts of\n"
            "instructions and bytes, the plain layer's share of the FMA peak, and what limits it\n",
            layer->name, batch, batch == 1 ? "" : "s");
    if (layer_attends(layer))
        print_folds(out, &plan->fold, layer);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        struct expect e;
        if (!expect_knows(p->isa)) {
            fprintf(out, "\n  %-16s no expectation: no core with this instruction set was measured\n", p->isa->name);
            continue;
        }
        expect_make(&e, layer, p, batch);
        fprintf(out, "\n  %-16s %14s %14s %8s   limited by\n", p->isa->name, "cycles", "vector FMAs", "share");
        for (int s = 0; s < EXPECT_STEPS; s++)
            if (e.step[s].cycles > 0)
                print_step(out, step_names[s], &e.step[s]);
        print_step(out, "layer", &e.layer);
        if (p->isa == &isa_table[0])
            fputs("    an upper bound: scalar is as fast as the compiler makes it\n", out);
    }
    fputc('\n', out);
    for (int64_t i = 0; i < plan->count; i++) {
        struct expect e;
        if (!expect_knows(plan->isas[i].isa))
            continue;
        expect_make(&e, layer, &plan->isas[i], batch);
        fprintf(out, "expected %s layer %.3f %s\n", plan->isas[i].isa->name, e.layer.share,
                bounds[e.layer.held_by].name);
    }
}
