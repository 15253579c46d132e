/* The model of the time that a step takes, in cycles of one core:
 *
 *     cycles = the largest bound + what of the others is not hidden behind it + starts and ends of tiles
 *
 * Each step is counted as the templates compute it: the same tiles, heights, key blocks and strips of single vectors.
 * struct work collects the counts, finish() divides. A new kind of product is a function that fills a struct work; a
 * new bound is a row of bounds[].
 *
 * Left out on purpose: memory beyond L3, more than one core, lengths below the limits, data that take a second pass.
 */
#include "expect.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "isa.h"
#include "layer.h"
#include "plan.h"

/* ---- the core that the figures are of: measured on Emerald Rapids, one core, Golden Cove ---- */

#define L1_BYTES (48.0 * 1024)
#define L1I_BYTES (31.0 * 1024) /* measured: from here on unrolled code slows down */
#define L2_BYTES (2048.0 * 1024)
#define L2_BANDWIDTH 49.0       /* bytes a cycle from L2 to L1; measured 138 GB/s at 2.79 GHz */
#define L3_BANDWIDTH 11.0       /* bytes a cycle from L3 to L2; measured 30 GB/s at 2.79 GHz */
#define CODE_BANDWIDTH 12.6     /* bytes of code a cycle from L2; from the 54 % of peak that a 31 KiB loop falls to */
#define FMA_LATENCY 4.0
#define WINDOW 100.0            /* vector instructions that wait at once, so that short tiles overlap */
#define TILE_CYCLES 8.0         /* to begin and end a register tile: 20 cycles for one of 24 accumulators */
#define ACCUMULATOR_CYCLES 0.5
#define BLOCK_CYCLES 60.0       /* a block of keys for a tile of queries */
#define QUERY_TILE_CYCLES 150.0 /* and a tile of queries: its state, 1 / l, the check */
#define CALL_CYCLES 300.0
#define LINE 64.0

/* What one instruction set's row adds. `ports`: vector multiply-adds a cycle, as attnrun measures the peak: the scalar
 * one is that of SSE's separate multiplication and addition. `exp`: operations for 2^(s - m) and the sum of weights,
 * in slots of those ports. `hide`: one test of a mask, select and maximum of a masked score, softmax apart from it.
 * `transpose`: cycles for each number of a whole block, taken as loads. Code bytes: instructions with an offset. */
struct core {
    const char *isa;
    double ports, loads, exp, hide, transpose, fma_bytes, load_bytes;
};
static const struct core cores[] = {
    {"scalar", .ports = 1.5, .loads = 2, .exp = 20, .hide = 24, .transpose = 1, .fma_bytes = 11, .load_bytes = 8},
    {"avx2", .ports = 2, .loads = 3, .exp = 13, .hide = 24, .transpose = 0.5, .fma_bytes = 5, .load_bytes = 9},
    {"avx512", .ports = 2, .loads = 2, .exp = 9, .hide = 24, .transpose = 0.38, .fma_bytes = 6, .load_bytes = 10},
};

/* Share of a bound's cycles that shows although another bound is larger. L3: no kernel fetches ahead. */
static const struct {
    const char *name;
    double shows;
} bounds[EXPECT_BOUNDS] = {
    [EXPECT_FMA] = {"FMA ports", 0.1},  [EXPECT_LANES] = {"lanes", 0.1}, [EXPECT_LOADS] = {"loads", 0.1},
    [EXPECT_EXP] = {"exp", 0.1},        [EXPECT_L2] = {"L2", 0.1},       [EXPECT_L3] = {"L3", 0.6},
    [EXPECT_CODE] = {"code size", 0.1}, [EXPECT_TILES] = {"tiles", 1},
};
#define MANY_IDLE_LANES 1.15 /* multiply-adds issued for each useful one, from which on lanes are the bound */

static const char *const step_names[EXPECT_STEPS] = {"transpose", "queries", "keys", "values",
                                                     "scores", "exponential", "weighted sums", "output"};

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
    double fmas, port_cycles, operations; /* vector multiply-adds, their cycles with stalls, other operations */
    double loads, tiles, overhead;        /* overhead: cycles to begin and end tiles */
    double l2, l3, code;                  /* bytes */
};

/* What the counting functions need to know. */
struct model {
    const struct layer *layer;
    const struct plan_isa *plan;
    const struct core *core;
    double far;  /* share of weights, x, y, masks and attn that comes from L3: they are read once a call */
    double near; /* and of what one phase leaves in the scratch for the next */
    struct work work[EXPECT_STEPS];
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Share of `bytes`, read again and again, that L2 has lost by then: none while they fill 3/4 of it, all from 3/2. */
static double share_lost(double bytes)
{
    return fmin(1, fmax(0, (bytes / L2_BYTES - 0.75) / 0.75));
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

#define HEIGHTS_MOST 24

/* As the templates cut rows: near-equal heights of at most `most` for `total` rows at a time, then halves down to 1. */
static int row_heights(int64_t total, int64_t most_rows, int64_t heights[HEIGHTS_MOST])
{
    const int64_t parts = ceil_div(total, most_rows), low = total / parts;
    int count = 0;
    if (total % parts > 0)
        heights[count++] = low + 1;
    heights[count++] = low;
    for (; heights[count - 1] > 1; count++)
        heights[count] = (heights[count - 1] + 1) / 2;
    return count;
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

/* Q^T = W^T X^T: the weights of a tile stay in L1, the block of x_t passes by. */
static void count_lanes(struct model *m, struct work *w, const struct plan_lanes *g, int64_t rows)
{
    const struct plan_isa *p = m->plan;
    const double depth = (double)g->depth, lanes = (double)p->lanes;
    struct blocks b = blocks_of(m, rows);
    if (b.rest > p->block - p->lanes) {
        b.whole++;
        b.rest = 0;
    }
    const double single = (double)ceil_div(b.rest, p->lanes), groups = (double)g->groups;
    for (int i = 0; i < 2; i++) {
        const double tiles = groups * (double)g->count[i];
        if (tiles == 0)
            continue;
        add_tile(w, m->core, g->height[i], p->vecs, depth, g->unroll, tiles * (double)b.whole);
        add_tile(w, m->core, g->height[i], 1, depth, g->unroll, tiles * single);
        if (4 * depth * (double)(p->block + g->height[i]) > L1_BYTES)
            w->l2 += 4 * tiles * depth * lanes * ((double)(b.whole * p->vecs) + single);
        else
            w->l2 += 4 * tiles * depth * (double)g->height[i];
    }
    const double columns = groups * (double)g->columns, row_groups = (double)ceil_div(rows, g->group_rows);
    w->l3 += m->far * 4 * columns * depth * row_groups;
    w->l3 += m->near * 4 * (double)rows * ((double)m->layer->d_model + 2 * columns);
}

/* One panel of `vecs` vectors over `rows` rows of one block, one slab of `depth` steps. */
static void count_panel(struct model *m, struct work *w, const struct plan_panels *g, const int64_t *heights, int count,
                        int64_t vecs, int64_t rows, double depth, double times)
{
    const double panel = 4 * depth * (double)(vecs * m->plan->lanes);
    for (int i = 0; i < count && times > 0; i++) {
        const int64_t height = heights[i];
        const double tiles = times * (double)(rows / height);
        const double lines = g->a_k == 1 ? 4 * depth * (double)height /* a_row apart, contiguous along the depth */
                                         : LINE * depth * (1 + (double)(height - 1) / 16);
        rows %= height;
        if (tiles == 0)
            continue;
        add_tile(w, m->core, height, vecs, depth, g->unroll, tiles);
        if (panel + lines > L1_BYTES)
            w->l2 += tiles * (panel + lines);
    }
}

/* C = A W: panels of weights, each over all row tiles of a row group. `c_far`: C lies outside the scratch. */
static void count_panels(struct model *m, struct work *w, const struct plan_panels *g, int64_t rows, bool c_far)
{
    int64_t heights[HEIGHTS_MOST];
    const int count = row_heights(m->plan->block, g->rows, heights);
    const struct blocks b = blocks_of(m, rows);
    const double groups = (double)g->groups, taps = (double)g->taps;
    const double slabs = (double)ceil_div(g->depth, g->k_block), depth = (double)g->depth / slabs;
    const int64_t whole = g->tail_vecs > 0 ? g->panels - 1 : g->panels;
    const struct { int64_t vecs, panels; } kinds[2] = {{g->vecs, whole}, {g->tail_vecs, g->panels - whole}};
    for (int i = 0; i < 2; i++) {
        const double times = groups * taps * slabs * (double)kinds[i].panels;
        count_panel(m, w, g, heights, count, kinds[i].vecs, m->plan->block, depth, times * (double)b.whole);
        count_panel(m, w, g, heights, count, kinds[i].vecs, b.rest, depth, times);
    }
    const double row_groups = (double)ceil_div(rows, g->group_rows), columns = groups * (double)g->columns;
    w->l3 += m->far * 4 * groups * (double)g->group_size * row_groups;
    w->l3 += 4 * (double)rows * (m->near * (double)g->depth + (c_far ? m->far : m->near) * 2 * slabs * columns);
}

static void count_transpose(struct model *m, int64_t rows, int64_t columns)
{
    struct work *w = &m->work[EXPECT_TRANSPOSE];
    const int64_t lanes = m->plan->lanes;
    const double blocks = (double)ceil_div(rows, lanes) * (double)ceil_div(columns, lanes);
    const double whole = (double)(rows / lanes) * (double)(columns / lanes), block = (double)(lanes * lanes);
    /* a partial block is copied to and from the stack as well */
    w->loads += m->core->loads * m->core->transpose * block * (whole + 3 * (blocks - whole));
    w->l2 += 12 * (double)rows * (double)columns;
    w->l3 += 4 * (double)rows * (double)columns * (m->far + 2 * m->near);
}

/* ---- attention ---- */

/* The keys of one tile of queries, or of one vector of it, as the walk finds them. */
struct stretch {
    int64_t vecs;
    bool masked; /* some of the pairs may be hidden */
    bool open;   /* the reference scores are not known yet */
};

static void count_scores(struct model *m, int64_t vecs, int64_t keys, double times)
{
    const struct plan_isa *p = m->plan;
    struct work *w = &m->work[EXPECT_SCORES];
    const int64_t rows = vecs == p->vecs ? p->rows : p->rows_single;
    const double depth = (double)m->layer->d_k, queries = 4 * depth * (double)(vecs * p->lanes);
    int64_t heights[HEIGHTS_MOST];
    const int count = row_heights(rows, rows, heights);
    w->l2 += times * 4 * depth * (double)keys;
    for (int i = 0; i < count; i++) {
        const double tiles = times * (double)(keys / heights[i]);
        keys %= heights[i];
        if (tiles == 0)
            continue;
        add_tile(w, m->core, heights[i], vecs, depth, p->unroll_scores, tiles);
        if (queries + 4 * depth * (double)heights[i] > L1_BYTES)
            w->l2 += tiles * queries;
    }
}

static void count_sums(struct model *m, int64_t vecs, int64_t keys, double times)
{
    const struct plan_isa *p = m->plan;
    struct work *w = &m->work[EXPECT_SUMS];
    const int64_t d_v = m->layer->d_v, rows = vecs == p->vecs ? p->value_rows : p->value_rows_single;
    const int64_t parts = ceil_div(d_v, rows), low = d_v / parts, more = d_v % parts;
    const double width = (double)(vecs * p->lanes);
    if (more > 0)
        add_tile(w, m->core, low + 1, vecs, (double)keys, p->unroll_values, times * (double)more);
    add_tile(w, m->core, low, vecs, (double)keys, p->unroll_values, times * (double)(parts - more));
    w->loads += times * (double)d_v * (double)vecs; /* the sums so far */
    w->l2 += times * 4 * (double)keys * (double)d_v;
    if (4 * width * (double)(d_v + keys) > L1_BYTES)
        w->l2 += times * 8 * width * (double)d_v;
}

/* One block of keys: scores, exponentials, weighted sums. */
static void count_block(struct model *m, const struct stretch *s, int64_t keys, bool open, double times)
{
    const struct plan_isa *p = m->plan;
    const unsigned mask = m->layer->mask;
    struct work *w = &m->work[EXPECT_EXPONENTIAL];
    const double vectors = times * (double)keys * (double)s->vecs;
    const int64_t rows = s->vecs == p->vecs ? p->rows : p->rows_single;
    if (open && !s->masked) { /* one register tile first, for the reference scores */
        const int64_t done = least(keys, rows);
        count_scores(m, s->vecs, done, times);
        w->operations += 4 * times * (double)done * (double)s->vecs;
        count_scores(m, s->vecs, keys - done, times);
    } else {
        count_scores(m, s->vecs, keys, times);
    }
    w->operations += vectors * m->core->exp;
    if (s->masked) {
        const double tensors = ((mask & MASK_BOOL) != 0 ? 1 : 0) + ((mask & MASK_ADDITIVE) != 0 ? 1 : 0);
        w->operations += vectors * m->core->hide;
        w->operations += vectors * tensors * m->core->ports * m->core->transpose * (double)p->lanes;
    }
    if (m->layer->scores) /* transposed out, and divided by the sum in a second pass */
        w->operations += vectors * (m->core->ports * m->core->transpose * (double)p->lanes + 4);
    w->overhead += times * BLOCK_CYCLES;
    count_sums(m, s->vecs, keys, times);
}

#define BLOCKS_MOST 64 /* key blocks that are counted one by one */

/* A run of keys in near-equal blocks, as block_keys() of the emitted file cuts it. */
static void count_keys(struct model *m, struct stretch *s, int64_t keys, double times)
{
    const int64_t most_keys = m->plan->key_block, rows = m->plan->rows;
    bool open = s->open;
    if (keys <= 0)
        return;
    s->open = false;
    if (keys > BLOCKS_MOST * most_keys) {
        const int64_t even = ceil_div(keys, ceil_div(keys, most_keys));
        count_block(m, s, even, open, times * (double)keys / (double)even);
        return;
    }
    for (int64_t block; keys > 0; keys -= block, open = false) {
        const int64_t even = ceil_div(keys, ceil_div(keys, most_keys));
        block = keys <= most_keys ? keys : least(most_keys, ceil_div(even, rows) * rows);
        count_block(m, s, block, open, times);
    }
}

struct range {
    int64_t first, end;
};

static struct range visible_keys(const struct layer *l, int64_t t, int64_t last)
{
    const bool window = (l->mask & MASK_WINDOW) != 0;
    struct range r = {0, l->source_len};
    if (window && l->window_left != LAYER_UNBOUNDED)
        r.first = most(0, t - l->window_left);
    if ((l->mask & MASK_CAUSAL) != 0)
        r.end = least(r.end, last + 1);
    if (window && l->window_right != LAYER_UNBOUNDED)
        r.end = least(r.end, last + l->window_right + 1);
    r.end = most(r.end, 0);
    r.first = least(r.first, r.end);
    return r;
}

/* Keys from ... until-1 are hidden from some query: whether `key` is one, and where that changes. */
static void cut_at(int64_t *end, bool *hidden, int64_t key, int64_t from, int64_t until)
{
    if (key < from) {
        if (from < until)
            *end = least(*end, from);
    } else if (key < until) {
        *hidden = true;
        *end = least(*end, until);
    }
}

static int64_t cut_single(const struct layer *l, int64_t lanes, int64_t t, int64_t key, int64_t end, bool *hidden)
{
    const bool window = (l->mask & MASK_WINDOW) != 0;
    *hidden = (l->mask & (MASK_BOOL | MASK_ADDITIVE)) != 0;
    if (*hidden)
        return end;
    if ((l->mask & MASK_CAUSAL) != 0)
        cut_at(&end, hidden, key, t, INT64_MAX);
    if (window && l->window_right != LAYER_UNBOUNDED)
        cut_at(&end, hidden, key, t + l->window_right + 1, INT64_MAX);
    if (window && l->window_left != LAYER_UNBOUNDED)
        cut_at(&end, hidden, key, 0, most(0, t + lanes - 1 - l->window_left));
    if ((l->mask & MASK_NO_SELF) != 0)
        cut_at(&end, hidden, key, t, t + lanes);
    return end;
}

/* The keys that `vecs` vectors of queries from t on meet together: up to two runs. */
static void wide_runs(const struct model *m, int64_t t, struct range run[2])
{
    const struct layer *l = m->layer;
    const bool tensor = (l->mask & (MASK_BOOL | MASK_ADDITIVE)) != 0;
    const bool bounded = (l->mask & (MASK_CAUSAL | MASK_WINDOW)) != 0;
    const int64_t last = t + m->plan->block - 1;
    run[0] = (struct range){0, l->source_len};
    run[1] = (struct range){0, 0};
    if (bounded)
        run[0] = tensor ? visible_keys(l, t, last) : visible_keys(l, last, t);
    if (tensor)
        return;
    if ((l->mask & MASK_CAUSAL) != 0)
        run[0].end = least(run[0].end, t);
    if ((l->mask & MASK_NO_SELF) != 0) {
        run[1].end = run[0].end;
        run[1].first = least(run[1].end, most(run[0].first, t + m->plan->block));
        run[0].end = least(run[0].end, t);
    }
    run[0].first = least(run[0].first, run[0].end);
}

/* One tile of queries from t on, `vectors` of them not empty: wide runs first, then what is left vector by vector. */
static void count_query_tile(struct model *m, int64_t t, int64_t vectors, double times)
{
    const struct layer *l = m->layer;
    const struct plan_isa *p = m->plan;
    const bool tensor = (l->mask & (MASK_BOOL | MASK_ADDITIVE)) != 0;
    struct range run[2] = {{0, 0}, {0, 0}};
    struct stretch wide = {.vecs = p->vecs, .masked = tensor, .open = true};
    if (p->vecs > 1 && vectors == p->vecs) {
        wide_runs(m, t, run);
        for (int i = 0; i < 2; i++)
            count_keys(m, &wide, run[i].end - run[i].first, times);
    }
    for (int64_t i = 0; i < vectors; i++) {
        const int64_t from = t + i * p->lanes;
        const struct range keys = visible_keys(l, from, from + p->lanes - 1);
        struct stretch single = {.vecs = 1, .open = wide.open};
        for (int64_t key = keys.first, end; key < keys.end; key = end) {
            end = keys.end;
            for (int r = 0; r < 2; r++) {
                if (key >= run[r].first && key < run[r].end)
                    key = run[r].end;
                else if (key < run[r].first && run[r].first < run[r].end)
                    end = least(end, run[r].first);
            }
            if (key >= keys.end)
                break;
            end = cut_single(l, p->lanes, from, key, most(end, key), &single.masked);
            count_keys(m, &single, end - key, times);
        }
    }
    m->work[EXPECT_SUMS].operations += times * 2 * (double)l->d_v * (double)vectors; /* times 1 / l, and the check */
    m->work[EXPECT_SUMS].overhead += times * QUERY_TILE_CYCLES;
}

#define TILES_MOST 256 /* tiles of queries that are counted one by one; of more, that many are drawn */

static void count_attention(struct model *m)
{
    const struct layer *l = m->layer;
    const struct plan_isa *p = m->plan;
    const bool alike = (l->mask & (MASK_CAUSAL | MASK_WINDOW | MASK_NO_SELF)) == 0;
    const int64_t rest = l->seq_len % p->block, full = l->seq_len / p->block;
    const int64_t counted = alike ? least(full, 1) : least(full, TILES_MOST);
    const double n = (double)l->seq_len, keys = (double)l->source_len, heads = (double)l->h;
    for (int64_t i = 0; i < counted; i++) {
        const int64_t tile = (int64_t)(((double)i + 0.5) * (double)full / (double)counted);
        count_query_tile(m, tile * p->block, p->vecs, heads * (double)full / (double)counted);
    }
    if (rest > 0)
        count_query_tile(m, full * p->block, ceil_div(rest, p->lanes), heads);

    const double pairs = heads * n * keys, blocks = (double)ceil_div(l->seq_len, p->block);
    const double kv = 4 * keys * (double)(l->d_k + l->d_v);
    /* K and V of a head stay in L2 while its queries pass, or they do not */
    const double reads = kv > L2_BYTES / 2 ? heads * blocks : (double)l->h_kv;
    m->work[EXPECT_SCORES].l3 += m->near * (4 * n * heads * (double)l->d_k + kv / 2 * reads);
    m->work[EXPECT_SUMS].l3 += m->near * (8 * n * heads * (double)l->d_v + kv / 2 * reads);
    struct work *w = &m->work[EXPECT_EXPONENTIAL];
    if ((l->mask & MASK_BOOL) != 0)
        w->l3 += m->far * pairs;
    if ((l->mask & MASK_ADDITIVE) != 0)
        w->l3 += m->far * 4 * pairs;
    if (l->scores) /* written, read again and divided, written */
        w->l3 += m->far * 16 * pairs;
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
    s->bound[EXPECT_L2] = w->l2 / L2_BANDWIDTH;
    s->bound[EXPECT_L3] = w->l3 / L3_BANDWIDTH;
    s->bound[EXPECT_CODE] = w->code / CODE_BANDWIDTH;
    s->bound[EXPECT_TILES] = w->overhead;
    s->held_by = ports;
    for (int i = 0; i < EXPECT_BOUNDS; i++)
        hold(s, (enum expect_bound)i);
    s->cycles = s->held_by == EXPECT_TILES ? 0 : s->bound[s->held_by];
    for (int i = 0; i < EXPECT_BOUNDS; i++)
        if (i == EXPECT_TILES || i != (int)s->held_by)
            s->cycles += bounds[i].shows * s->bound[i];
}

/* The layer is held by what holds the steps that take most of its cycles. */
static void sum_up(struct expect *e, const struct core *core, int64_t lanes)
{
    double held[EXPECT_BOUNDS] = {0};
    e->layer.bound[EXPECT_TILES] = held[EXPECT_TILES] = CALL_CYCLES;
    e->layer.cycles = CALL_CYCLES;
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

static const struct core *core_of(const struct isa *isa)
{
    const size_t count = sizeof cores / sizeof cores[0];
    size_t i = 0;
    while (i + 1 < count && strcmp(cores[i].isa, isa->name) != 0)
        i++;
    return &cores[i]; /* a set without a row of its own is taken for the last one's like */
}

void expect_make(struct expect *e, const struct layer *l, const struct plan_isa *p)
{
    struct model m = {.layer = l, .plan = p, .core = core_of(p->isa)};
    const double n = (double)l->seq_len, keys = (double)l->source_len, scratch = 4 * (double)p->shared_size;
    const double inputs = 4 * (n * (double)l->d_model + (l->cross ? keys * (double)l->d_source : 0));
    const double pairs = (double)l->h * n * keys;
    const double tensors = pairs * (((l->mask & MASK_BOOL) != 0 ? 1 : 0) + ((l->mask & MASK_ADDITIVE) != 0 ? 4 : 0)
                                    + (l->scores ? 4 : 0));
    m.near = share_lost(scratch);
    m.far = share_lost(scratch + inputs + tensors + 4 * (n * (double)l->d_out + (double)p->packed_size));

    count_transpose(&m, l->seq_len, l->d_model);
    if (l->cross)
        count_transpose(&m, l->source_len, l->d_source);
    count_lanes(&m, &m.work[EXPECT_QUERIES], &p->q, l->seq_len);
    count_panels(&m, &m.work[EXPECT_KEYS], &p->k, l->source_len, false);
    if (p->v.exists)
        count_panels(&m, &m.work[EXPECT_VALUES], &p->v, l->source_len, false);
    count_attention(&m);
    if (p->o.exists)
        count_panels(&m, &m.work[EXPECT_OUTPUT], &p->o, l->seq_len, true);

    const struct layer_cost cost = layer_multiply_adds(l, l->seq_len, l->source_len);
    memset(e, 0, sizeof *e);
    e->step[EXPECT_QUERIES].useful = cost.q;
    e->step[EXPECT_KEYS].useful = cost.k;
    e->step[EXPECT_VALUES].useful = cost.v;
    e->step[EXPECT_SCORES].useful = cost.scores;
    e->step[EXPECT_SUMS].useful = cost.values;
    e->step[EXPECT_OUTPUT].useful = cost.output;
    for (int i = 0; i < EXPECT_STEPS; i++)
        finish(&e->step[i], &m.work[i], &m, i == EXPECT_EXPONENTIAL ? EXPECT_EXP : EXPECT_FMA);
    sum_up(e, m.core, p->lanes);
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

void expect_explain(const struct plan *plan, const struct layer *layer, FILE *out)
{
    fprintf(out, "\nExpected of %s: one sequence of full length, one core, warm caches; cycles from counts of\n"
            "instructions and bytes, the plain layer's share of the FMA peak, and what holds it\n", layer->name);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        struct expect e;
        expect_make(&e, layer, p);
        fprintf(out, "\n  %-16s %14s %14s %8s   held by\n", p->isa->name, "cycles", "vector FMAs", "share");
        for (int s = 0; s < EXPECT_STEPS; s++)
            if (e.step[s].cycles > 0)
                print_step(out, step_names[s], &e.step[s]);
        print_step(out, "layer", &e.layer);
    }
    fputc('\n', out);
    for (int64_t i = 0; i < plan->count; i++) {
        struct expect e;
        expect_make(&e, layer, &plan->isas[i]);
        fprintf(out, "expected %s layer %.3f %s\n", plan->isas[i].isa->name, e.layer.share,
                bounds[e.layer.held_by].name);
    }
}
