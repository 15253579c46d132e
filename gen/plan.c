/* SPDX-License-Identifier: MIT */
/* The analytic model: from a layer and an ISA's row to tiles, blocks, strides, offsets and parts.
 *
 * Every choice that could have been another one leaves a reason behind, in the reader's units. Left out on
 * purpose: measuring, and anything about the host.
 */
#include "plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "isa.h"
#include "layer.h"
#include "planfile.h"
#include "score.h"
#include "visible.h"

#define D64 "%" PRId64
#define ALIGN_FLOATS 16         /* 64 bytes: packed weights and every array of the scratch start there */
#define HEADER_FLOATS 16        /* the packed block's header */
#define PART_MULTIPLY_ADDS 1e6  /* the least work worth handing to a thread: about 10 us on one core */
#define GROUP_ROWS_MOST 512
#define DEPTH_MOST 1024         /* a longer reduction is cut, so that a group of rows and a panel fit L2 together */
#define UNROLL_AUTO 2            /* measured: 2 to 64 steps run alike; 2 compile fastest */
#define UNROLL_PREFETCH 8        /* long enough a turn that one line a turn is about a panel while a row group passes */
#define LINE_FLOATS 16           /* a cache line */
#define WAY_FLOATS 1024          /* of L1: lines that far apart share a set */
#define ROWS_IN_A_SET 7          /* of 8 ways. Measured (Zen 4, d_model 1024): 8 rows take 10 % longer, 12 take 2.2 times as long */
#define LINE_CYCLES 2.75         /* measured: a line from L2 in this many cycles, amid multiply-adds */
#define VALUE_BLOCKS_FILL 0.9    /* the least share of lanes that tokens fill, for wide values to lie in blocks */
#define VALUE_BLOCKS_GAIN 1.5    /* measured: times the share of lanes that tokens have to fill, beside features */
#define ASK_CYCLES 3             /* measured: a line from L3; with less work for each, asking ahead only slows its coming */
#define BATCH_ROWS 256           /* tokens that make a panel of weights worth fetching */
#define BATCH_SHORT 6            /* measured: shorter sequences gain by tiles that they share, longer ones lose a little */
#define PREFETCH_MOST 4          /* lines a turn: more would fill the line buffers that the loads need */
#define FMA_LATENCY 4            /* cycles, from Skylake on */
#define FMA_SLACK 1.25           /* of accumulators: as many as latency and ports ask for, 8, reach 77 % */
#define SPILL_SLOTS 0.02         /* of avx2's 6 x 2 and 4 x 3: attend takes 5 % less with the first on Zen 3 and 4 */
#define STREAM_CYCLES 1.2        /* what shows of a line of keys or values from L3: half of what it takes. Blocks of 24
                                  * instead of 16 queries: avx2's layers whose heads exceed L2 take as long (512 tokens) or
                                  * 1 to 4 % less (1024 to 4096; measured, Zen 4) */
#define ROWS_STEP 4              /* heights for what is left over: 16, 4 and 1 rows; with 8 and 2 as well no layer was faster */
#define UNROLL_KEYS_FULL 16     /* "full" for the one reduction whose length is known only at run time */

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static double most_of(double a, double b) { return a > b ? a : b; }

#define REASON_TEXT 800
static void reason(struct plan_isa *p, const char *format, ...) DIAG_PRINTF(2, 3);
static void reason(struct plan_isa *p, const char *format, ...)
{
    char text[REASON_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (p->reason_count < PLAN_REASONS)
        p->reasons[p->reason_count++] = strdup(text); /* NULL is caught by plan_make */
}

/* ---- what is asked ---- */

static bool is_asked(const struct plan_request *request, enum plan_key key)
{
    return request->value[key] != PLAN_AUTO;
}

/* What is asked for, or else what the model says. */
static int64_t asked_or(const struct plan_request *request, enum plan_key key, int64_t otherwise)
{
    return is_asked(request, key) ? request->value[key] : otherwise;
}

/* The same for something of which no more than `fit` is possible. */
static int64_t asked_within(const struct plan_request *request, enum plan_key key, int64_t fit)
{
    return least(asked_or(request, key, fit), fit);
}

/* Why something is as it is: asked for, or the model's own words. */
static const char *why(const struct plan_request *request, enum plan_key key, const char *otherwise)
{
    return is_asked(request, key) ? "as asked" : otherwise;
}

static bool small(const struct plan_request *request)
{
    return request->value[PLAN_SIZE] == PLAN_SMALL;
}

/* plan.size = small is a set of other choices: each of these holds where the spec and the plan file leave that key to
 * the plan. What has no key of its own is decided where it stands, by asking `small`. */
static void make_small(struct plan_request *request)
{
    struct plan_request choices = plan_request_none();
    choices.value[PLAN_UNROLL] = 1;
    choices.value[PLAN_QUERY_VECS] = 1;
    choices.value[PLAN_PREFETCH] = PLAN_OFF;
    choices.value[PLAN_VALUE_LAYOUT] = PLAN_ROWS;
    plan_request_add(request, &choices);
}

/* ---- folding ---- */

/* A score is x W_Q (s W_K)^T = (x W_Q W_K^T) s^T, and what a head adds to y is A (s W_V) W_O = (A s)(W_V W_O). Weights are
 * known when they are packed, so their product costs nothing in a call: keys, or values, are then the input itself, and a
 * projection is gone. What folding costs is that the input is wider than a head. */
static struct plan_fold plan_fold(const struct layer *l, const struct plan_request *request)
{
    const struct layer_cost cost = layer_multiply_adds(l, l->seq_len, l->source_len);
    const double queries = (double)l->seq_len * (double)l->h, in = (double)l->d_in_kv;
    const double pairs = (double)visible_pairs(l, l->seq_len, l->source_len) * (double)l->h;
    const double merge = l->w_o == W_O_CONV ? cost.output / (double)l->d_v : queries * (double)l->d_model;
    struct plan_fold f = {.d_score = l->d_k, .d_value = l->d_v, .d_z = l->d_v};
    f.saved_scores = cost.q + cost.k + cost.scores - in * (queries * (double)l->d_in_q + pairs);
    f.saved_values = cost.v + cost.values + cost.output - in * (pairs + merge);
    f.scores = asked_or(request, PLAN_FOLD, f.saved_scores > 0);
    f.values = l->w_o != W_O_NONE && !l->identity && asked_or(request, PLAN_FOLD, f.saved_values > 0);
    if (f.scores)
        f.d_score = l->d_in_kv;
    f.q_is_k = l->tied && !l->cross && !f.scores;
    if (f.values) {
        f.d_value = l->d_in_kv;
        f.d_z = l->d_in_kv + (l->bias ? 1 : 0);
    }
    return f;
}

/* ---- register tiles ---- */

/* Most broadcast rows of a tile `vecs` wide: one register for the broadcast, `vecs` for the other operand, the
 * rest accumulators; more than 16 rows add code and no speed. */
static int64_t tile_rows(const struct isa *isa, int64_t vecs)
{
    return most(1, least(16, (isa->registers - vecs - 1) / vecs));
}

/* The same for scores, sums and values in blocks. In small code strips along a mask's edge are LANES keys long: tiles that
 * divide them need no rest. */
static int64_t rows_fit(const struct plan_request *request, const struct isa *isa, int64_t vecs)
{
    const int64_t rows = tile_rows(isa, vecs);
    return small(request) && rows > isa->lanes ? rows / isa->lanes * isa->lanes : rows;
}

/* Most rows, `stride` floats apart, of which L1 keeps a line each while a tile reads along them. */
static int64_t rows_apart(int64_t stride)
{
    int64_t sets = 1; /* that the rows' lines fall into, in turn */
    while (sets < WAY_FLOATS && stride * sets % WAY_FLOATS != 0)
        sets *= 2;
    return ROWS_IN_A_SET * sets;
}

/* Cache lines that one step of such a tile takes from L2, its operands being too large for L1: the vectors, and for the
 * broadcast rows what was measured with their numbers side by side: one, or more where they cross into a second line. */
static double tile_lines(const struct isa *isa, int64_t rows, int64_t vecs)
{
    const double broadcast = LINE_FLOATS % rows == 0 ? 1.0 : 1.0 + (double)(rows - 1) / LINE_FLOATS;
    return (double)(vecs * isa->lanes) / LINE_FLOATS + broadcast;
}

/* Cost of one vector multiply-add in such a tile, in FMA slots: half a slot for each load that it shares
 * with the others, an eighth more for the streamed operand, and what holds it longest: the stall of fewer accumulators
 * than the latency on all ports wants and FMA_SLACK more, or `lines` from L2 for each step. */
static double tile_cost(const struct isa *isa, int64_t rows, int64_t vecs, double lines)
{
    const double tiles = (double)(rows * vecs);
    const double loads = 0.5 * (double)(rows + vecs) / tiles + 0.125 * (double)vecs / tiles;
    const double wanted = most_of(FMA_LATENCY * FMA_SLACK, lines * LINE_CYCLES) * isa->fma_ports;
    return loads + (tiles < wanted ? wanted / tiles : 1.0);
}

/* Cost of such a tile of scores or weighted sums. The exponential wants m and l of each vector beside the scores: what
 * the registers do not hold of them lies on the stack. `streams`: keys and values come from L3, once for each tile of
 * queries. */
static double query_tile_cost(const struct isa *isa, int64_t vecs, bool streams)
{
    const int64_t rows = tile_rows(isa, vecs);
    const double lines = streams ? STREAM_CYCLES * isa->fma_ports / (double)(LINE_FLOATS * vecs) : 0;
    return tile_cost(isa, rows, vecs, 0) + lines + SPILL_SLOTS * (double)most(0, (rows + 2) * vecs - isa->registers);
}

/* Do the keys and values of a head that a query sees exceed L2? */
static bool streams_head(const struct plan_isa *p, const struct layer *l)
{
    const struct plan_fold *fold = p->fold;
    int64_t left, right;
    visible_reach(l, &left, &right);
    const int64_t before = left != LAYER_UNBOUNDED ? left : l->source_len;
    const int64_t behind = right != LAYER_UNBOUNDED ? right : l->source_len;
    const bool one = fold->scores && (fold->values || l->identity) && !p->value_blocks; /* both are the input's own rows */
    const double keys = (double)least(l->source_len, least(before + 1, l->seq_len) + behind);
    return keys * (double)(fold->d_score + (one ? 0 : fold->d_value)) * sizeof(float) > (double)p->isa->l2_bytes;
}

/* Vectors in a query block: full blocks at the cost of their tile, what is left one vector at a time. */
static int64_t choose_query_vecs(const struct isa *isa, int64_t queries, bool streams)
{
    const int64_t total = ceil_div(queries, isa->lanes);
    int64_t best = 1;
    double best_cost = 0;
    for (int64_t vecs = 1; vecs <= 4; vecs++) {
        const double cost = (double)(total / vecs * vecs) * query_tile_cost(isa, vecs, streams)
                          + (double)(total % vecs) * query_tile_cost(isa, 1, streams);
        if (vecs == 1 || cost < best_cost) {
            best = vecs;
            best_cost = cost;
        }
    }
    return best;
}

/* The largest of near-equal parts of `total`, none above `most`. */
static int64_t near_equal(int64_t total, int64_t most)
{
    return ceil_div(total, ceil_div(total, most));
}

/* The height of tiles for `total` rows where one height has to serve them all: the largest divisor from half of `most`
 * to `most`; near-equal parts where there is none. */
static int64_t one_height(int64_t total, int64_t most)
{
    for (int64_t height = most; 2 * height >= most && height > 0; height--)
        if (total % height == 0)
            return height;
    return near_equal(total, most);
}

/* What tiles of at most `rows` x vecs cost for `total` tokens, which they part evenly: tile_cost of each multiply-add, the
 * operands coming from L2 unless a panel of that depth stays in L1. */
static double even_cost(const struct isa *isa, int64_t total, int64_t rows, int64_t vecs, int64_t depth)
{
    const bool stays = depth * vecs * isa->lanes * (int64_t)sizeof(float) <= (int64_t)isa->l1d_bytes / 2;
    const int64_t tiles = ceil_div(total, rows), high = ceil_div(total, most(1, tiles)), lower = high * tiles - total;
    double cost = 0;
    for (int64_t height = high; height > 0 && height >= high - 1; height--) {
        const double tokens = (double)(height * (height == high ? tiles - lower : lower));
        cost += tokens * tile_cost(isa, height, vecs, stays ? 0 : tile_lines(isa, height, vecs));
    }
    return cost * (double)vecs;
}

/* Rows of a panel's tiles: near-equal parts of a query block. */
static int64_t panel_rows(const struct plan_request *request, const struct plan_isa *p, const struct plan_panels *g,
                          int64_t vecs)
{
    const int64_t rows = asked_or(request, PLAN_PANEL_ROWS, rows_apart(g->a_row));
    return near_equal(p->block, least(rows, tile_rows(p->isa, vecs)));
}

/* What g costs for that many tokens in panels of `vecs` vectors, in slots of multiply-adds of one vector a step
 * of the reduction: whole blocks of tokens and a smaller one, full panels and a narrower one that keeps their tiles'
 * height. */
static double panels_cost(const struct plan_request *request, const struct plan_isa *p, const struct plan_panels *g,
                          int64_t depth, int64_t tokens, int64_t vecs)
{
    const int64_t total = ceil_div(g->columns, p->lanes), tail = total % vecs;
    const int64_t rows = panel_rows(request, p, g, vecs);
    const struct { int64_t vecs, panels; } kinds[2] = {{vecs, total / vecs}, {tail, 1}};
    double cost = 0;
    for (int i = 0; i < (tail > 0 ? 2 : 1); i++)
        cost += (double)kinds[i].panels *
                ((double)(tokens / p->block) * even_cost(p->isa, p->block, rows, kinds[i].vecs, depth) +
                 even_cost(p->isa, tokens % p->block, rows, kinds[i].vecs, depth));
    return cost;
}

/* Vectors in a panel. */
static int64_t choose_panel_vecs(const struct plan_request *request, const struct plan_isa *p, const struct plan_panels *g,
                                 int64_t depth, int64_t tokens)
{
    int64_t best = 1;
    double best_cost = 0;
    for (int64_t vecs = 1; vecs <= least(4, ceil_div(g->columns, p->lanes)); vecs++) {
        const double cost = panels_cost(request, p, g, depth, tokens, vecs);
        if (vecs == 1 || cost < best_cost) {
            best = vecs;
            best_cost = cost;
        }
    }
    return best;
}

/* In small code: one shape, of the fewest vectors that give it enough accumulators. */
static int64_t small_panel_vecs(const struct isa *isa, int64_t columns, int64_t rows)
{
    return least(ceil_div(columns, isa->lanes), ceil_div(FMA_LATENCY * isa->fma_ports, rows));
}

static int64_t choose_unroll(const struct plan_request *request, int64_t depth)
{
    const int64_t unroll = asked_or(request, PLAN_UNROLL, UNROLL_AUTO);
    return unroll == PLAN_UNROLL_FULL ? depth : unroll;
}

/* Rows of a row group: as many as three quarters of L2 hold, at `depth` floats of operand a row. */
static int64_t choose_group_rows(const struct plan_request *request, const struct plan_isa *p, int64_t depth,
                                 int64_t rows)
{
    const int64_t model = (int64_t)(p->isa->l2_bytes * 3 / 4 / sizeof(float)) / depth;
    const int64_t fit = least(asked_or(request, PLAN_GROUP_ROWS, model), GROUP_ROWS_MOST);
    /* near-equal groups: the last one is never a handful of rows */
    const int64_t group = most(p->block, fit / p->block * p->block);
    const int64_t blocks = ceil_div(rows, p->block);
    const int64_t groups = most(1, ceil_div(blocks * p->block, group));
    return most(1, ceil_div(blocks, groups)) * p->block;
}

/* `tokens` of a full sequence */
static void plan_panels(struct plan_panels *g, const struct plan_request *request, const struct plan_isa *p,
                        int64_t tokens, int64_t batch)
{
    const int64_t rows = most(tokens, batch);
    g->exists = true;
    g->rest = small(request) ? 0 : tokens % p->block;
    const int64_t depth_most = asked_or(request, PLAN_PANEL_DEPTH, small(request) ? g->depth : DEPTH_MOST);
    if (is_asked(request, PLAN_PANEL_VECS))
        g->vecs = asked_within(request, PLAN_PANEL_VECS, ceil_div(g->columns, p->lanes));
    else if (small(request))
        g->vecs = small_panel_vecs(p->isa, g->columns, least(p->block, rows_apart(g->a_row)));
    else
        g->vecs = choose_panel_vecs(request, p, g, least(g->depth, depth_most), tokens);
    g->rows = panel_rows(request, p, g, g->vecs);
    g->unroll = g->unroll_rest = choose_unroll(request, g->depth);
    const int64_t width = g->vecs * p->lanes;
    g->panels = ceil_div(g->columns, width);
    g->tail_vecs = ceil_div(g->columns % width, p->lanes);
    if (g->tail_vecs == g->vecs)
        g->tail_vecs = 0; /* as wide as a full one; its last vector may still be partial */
    g->tail_lanes = g->columns % p->lanes;
    g->panel_size = g->taps * g->depth * width;
    g->group_size = g->taps * g->depth * round_up(g->columns, p->lanes);
    const int64_t blocks = g->taps > 1 ? 1 : ceil_div(g->depth, depth_most);
    g->k_block = least(g->depth, round_up(ceil_div(g->depth, blocks), 8));
    g->group_rows = choose_group_rows(request, p, blocks > 1 ? g->k_block : g->a_block / p->block, rows);
    const double panel = (double)least(g->group_rows, rows) * (double)g->panel_size;
    g->part_panels = least(g->groups * g->panels, (int64_t)(PART_MULTIPLY_ADDS / panel) + 1);
}

static void plan_lanes(struct plan_lanes *g, const struct plan_request *request, const struct plan_isa *p,
                       int64_t columns, int64_t queries)
{
    const int64_t rows = asked_within(request, PLAN_LANE_ROWS, rows_fit(request, p->isa, p->vecs));
    g->unroll = g->unroll_rest = choose_unroll(request, g->depth);
    const int64_t tiles = ceil_div(g->columns, small(request) ? one_height(g->columns, rows) : rows);
    g->height[0] = ceil_div(g->columns, tiles);
    g->height[1] = g->height[0] - 1;
    g->count[1] = g->height[0] * tiles - g->columns;
    g->count[0] = tiles - g->count[1];
    g->group_rows = choose_group_rows(request, p, columns, queries);
    const double tile = (double)least(g->group_rows, queries) * (double)(g->depth * g->height[0]);
    g->pair = p->vecs > 1 && 2 * g->height[0] <= p->rows_single ? 2 : 1;
    g->part_tiles = least(g->groups * tiles, round_up((int64_t)(PART_MULTIPLY_ADDS / tile) + 1, g->pair));
}

/* A row stride at a multiple of 2 KiB would put every row into the same few sets of L1: one vector more. */
static int64_t row_stride(const struct plan_isa *p, int64_t columns)
{
    return columns % 512 == 0 ? columns + p->lanes : columns;
}

/* A projection into rows: of what, and of how many tokens. */
struct projection {
    int64_t heads, d;      /* of the result */
    bool by_head;          /* each head has a matrix of its own, else one has the columns of all */
    bool side_by_side;     /* the heads of a token lie so whatever d is, with nothing between tokens: as Z does */
    int64_t depth, input;  /* of one reduction; columns of the input */
    int64_t a_group;       /* columns of the input from head to head */
    int64_t tokens, batch; /* of a full sequence; most that are projected together */
};

static struct projection of_queries(const struct plan_isa *p, const struct layer *layer)
{
    return (struct projection){
        .heads = layer->h,
        .d = p->fold->d_score,
        .by_head = layer->split || p->fold->scores, /* a folded matrix is made from two of one head */
        .side_by_side = p->z_in_q,
        .depth = layer->d_in_q,
        .input = layer->d_model,
        .a_group = layer->split ? layer->d_in_q : 0,
        .tokens = layer->seq_len,
        .batch = p->batch_rows,
    };
}

static struct projection of_source(const struct plan_isa *p, const struct layer *layer, int64_t d)
{
    return (struct projection){
        .heads = layer->h_kv,
        .d = d,
        .by_head = layer->split,
        .depth = layer->d_in_kv,
        .input = layer->d_source,
        .a_group = layer->split ? layer->d_in_kv : 0,
        .tokens = layer->source_len,
        .batch = p->batch_sources,
    };
}

/* Queries, keys or values. Heads that read all of the input are one matrix, and its panels run over their borders. Tokens
 * lie [head][token][d] where a vector never holds parts of two heads (or where a head has a matrix of its own), which
 * attention reads faster, else [token][head][d], as they always do where Z takes their place. */
static void plan_rows(struct plan_panels *g, const struct projection *of, const struct plan_request *request,
                      const struct plan_isa *p, int64_t *row, int64_t *head)
{
    const bool arrays = !of->side_by_side && (of->by_head || of->d % p->lanes == 0);
    g->depth = of->depth;
    g->taps = 1;
    g->groups = of->by_head ? of->heads : 1;
    g->columns = of->by_head ? of->d : of->heads * of->d;
    g->a_row = of->input;
    g->a_k = 1;
    g->a_group = of->a_group;
    g->a_block = of->input * p->block;
    *row = of->side_by_side ? of->heads * of->d : row_stride(p, arrays ? of->d : of->heads * of->d);
    *head = arrays ? most(of->tokens, of->batch) * *row : of->d;
    g->c_row = *row;
    g->c_group = arrays || of->by_head ? *head : 0;
    g->c_split = arrays && !of->by_head && of->heads > 1 ? of->d : 0;
    plan_panels(g, request, p, of->tokens, of->batch);
}

/* Floats that rows take, `heads` arrays or one: heads lie further apart than a row is long, or within it. */
static int64_t rows_size(const struct plan_panels *g, int64_t heads, int64_t tokens, int64_t batch)
{
    return (g->c_group >= g->c_row ? heads : 1) * most(tokens, batch) * g->c_row;
}

/* Where attention leaves Z: as it has it, a block of queries along the lanes, or turned into rows. A panel of W_O passes all of
 * a block, of which the numbers of one tile's tokens lie far apart. */
static void plan_z(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const int64_t block = layer->h * p->fold->d_z * p->block;
    const bool stays = block * (int64_t)sizeof(float) <= (int64_t)p->isa->l1d_bytes / 2;
    const bool rows = 2 * layer->seq_len < p->lanes || p->batch_rows > layer->seq_len || !stays;
    p->z_rows = layer->w_o != W_O_DENSE || asked_or(request, PLAN_Z_LAYOUT, rows ? PLAN_ROWS : PLAN_BLOCKS) == PLAN_ROWS;
    p->z_in_q = layer->w_o == W_O_DENSE && p->z_rows && !p->fold->q_is_k && p->fold->d_score == p->fold->d_z;
}

static void plan_output(struct plan_panels *g, const struct layer *layer, const struct plan_request *request,
                        const struct plan_isa *p)
{
    const int64_t z_columns = layer->h * p->fold->d_z;
    const bool conv = layer->w_o == W_O_CONV;
    g->depth = conv ? p->fold->d_z : z_columns;
    g->taps = conv ? layer->conv_width : 1;
    g->groups = conv ? layer->h : 1;
    g->columns = conv ? layer->d_model / layer->h : layer->d_model;
    g->a_row = p->z_rows ? z_columns : 1;
    g->a_k = p->z_rows ? 1 : p->block;
    g->a_group = conv ? p->fold->d_z : 0;
    g->a_tap = conv ? z_columns : 0;
    g->a_block = z_columns * p->block;
    g->c_row = layer->d_model;
    g->c_group = conv ? g->columns : 0;
    plan_panels(g, request, p, layer->seq_len, p->batch_rows);
}

/* ---- weights ahead of their use ---- */

/* Lines that a loop turn asks for, so that `ahead` floats are there when `tiles` tiles of `turns` turns are done; 0 where
 * they would overshoot: `block_tiles` tiles run between two looks at how far it is. */
static int64_t prefetch_lines(int64_t ahead, int64_t tiles, int64_t block_tiles, int64_t turns)
{
    int64_t lines = least(PREFETCH_MOST, ceil_div(ceil_div(ahead, LINE_FLOATS), tiles * turns));
    while (lines > 0 && lines * turns * block_tiles * LINE_FLOATS > ahead)
        lines--;
    return lines;
}

static void prefetch_panels(struct plan_panels *g, const struct plan_request *request, const struct plan_isa *p,
                            int64_t rows)
{
    if (!g->exists || g->k_block < 2 * UNROLL_PREFETCH)
        return;
    if (!is_asked(request, PLAN_UNROLL))
        g->unroll = UNROLL_PREFETCH;
    const int64_t block_tiles = ceil_div(p->block, g->rows);
    if (g->k_block / least(g->unroll, g->k_block) < 2)
        return; /* no loop, in whose turns to ask */
    g->prefetch = prefetch_lines(g->k_block * g->vecs * p->lanes, ceil_div(least(g->group_rows, rows), p->block) * block_tiles,
                                 block_tiles, g->k_block / least(g->unroll, g->k_block));
}

static void prefetch_lanes(struct plan_lanes *g, const struct plan_request *request, const struct plan_isa *p,
                           int64_t tokens)
{
    if (g->depth < 2 * UNROLL_PREFETCH || p->vecs == 1) /* blocks of several vectors ask, single vectors never do */
        return;
    if (!is_asked(request, PLAN_UNROLL))
        g->unroll = UNROLL_PREFETCH;
    if (g->depth / least(g->unroll, g->depth) < 2)
        return;
    g->prefetch = prefetch_lines(g->depth * g->height[g->count[1] > 0], ceil_div(least(g->group_rows, tokens), p->block), 1,
                                 g->depth / least(g->unroll, g->depth));
}

/* Weights that L2 does not keep from call to call are asked for while the panel before them is at work, and so is what
 * attention reads next. */
static void plan_prefetch(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool stays = p->packed_size * (int64_t)sizeof(float) <= (int64_t)p->isa->l2_bytes / 2;
    if (!p->isa->prefetches || asked_or(request, PLAN_PREFETCH, !stays) == PLAN_OFF)
        return;
    const bool asked = is_asked(request, PLAN_PREFETCH);
    p->ask_rows = ceil_div(ASK_CYCLES * p->isa->fma_ports * p->lanes, LINE_FLOATS);
    const double attend = (double)layer->h * (double)layer->seq_len * (double)(layer->d_k + (p->z_in_q ? 0 : layer->d_v))
                        + (double)layer->h_kv * (double)layer->source_len * (double)(layer->d_k + layer->d_v);
    if ((asked || attend * sizeof(float) > (double)p->isa->l2_bytes / 2) && p->vecs > 1 && p->at_once && p->k.exists &&
        (p->v.exists || p->v_t.depth > 0))
        p->ahead = ceil_div(p->rows, p->query_blocks);
    if (p->ahead > 0 && p->q.exists) /* a tile of queries while one passes the keys */
        p->ahead_q = ceil_div(p->block, ceil_div(layer->source_len, p->rows));
    prefetch_lanes(&p->v_t, request, p, layer->source_len);
    prefetch_panels(&p->q, request, p, layer->seq_len);
    prefetch_panels(&p->k, request, p, layer->source_len);
    prefetch_panels(&p->v, request, p, layer->source_len);
    prefetch_panels(&p->o, request, p, layer->seq_len);
}

/* ---- places ---- */

static int64_t place(int64_t *next, int64_t floats)
{
    const int64_t at = *next;
    *next += round_up(floats, ALIGN_FLOATS);
    return at;
}

static void place_packed(struct plan_isa *p, const struct layer *layer)
{
    int64_t next = HEADER_FLOATS;
    struct plan_lanes *const v_t = &p->v_t;
    if (v_t->depth > 0) {
        v_t->w = place(&next, v_t->groups * v_t->columns * v_t->depth);
        v_t->b = place(&next, layer->bias ? v_t->groups * v_t->columns : 0);
    }
    for (struct plan_panels *g = p->products; g < p->products + PLAN_PRODUCTS; g++) {
        if (!g->exists)
            continue;
        g->w = place(&next, g->groups * g->group_size);
        g->b = place(&next, layer->bias ? g->groups * g->columns : 0);
    }
    p->packed_size = next;
}

static void place_scratch(struct plan_isa *p, const struct layer *layer)
{
    const int64_t z_columns = layer->h * p->fold->d_z;
    const bool conv = layer->w_o == W_O_CONV;
    p->z_front = conv ? layer_conv_pad(layer) : 0;
    p->z_back = conv ? layer->conv_width - 1 - p->z_front : 0;

    /* the transposed source is dead once everything is projected, unless it is the values: z takes its place */
    const bool alive = p->value_blocks && p->v_t.depth == 0;
    int64_t inputs = 0, outputs = 0;
    p->s_t = p->value_blocks ? place(&inputs, p->source_blocks * p->block * layer->d_source) : 0;
    if (alive)
        outputs = inputs;
    const int64_t tokens = p->z_rows ? p->z_front + most(layer->seq_len, p->batch_rows) + p->z_back : p->query_blocks * p->block;
    p->z = layer->w_o != W_O_NONE && !p->z_in_q ? place(&outputs, tokens * z_columns) : 0;
    int64_t next = most(inputs, outputs);
    p->q_all = !p->q.exists ? 0 : place(&next, rows_size(&p->q, layer->h, layer->seq_len, p->batch_rows));
    if (p->z_in_q)
        p->z = p->q_all;
    p->keys = !p->k.exists ? 0 : place(&next, rows_size(&p->k, layer->h_kv, layer->source_len, p->batch_sources));
    p->values = alive ? p->s_t
              : p->value_blocks ? place(&next, p->source_blocks * p->block * layer->h_kv * layer->d_v)
              : p->v.exists ? place(&next, rows_size(&p->v, layer->h_kv, layer->source_len, p->batch_sources)) : 0;
    p->shared_size = next;

    const bool hooked = score_hooked(layer);
    int64_t own = 0;
    p->scores = place(&own, p->key_block * p->block);
    p->visible = hooked ? place(&own, p->key_block * p->block) : 0;
    p->added = score_has(layer, SCORE_MASK_ADD) ? place(&own, p->key_block * p->block) : 0;
    p->tile = place(&own, p->fold->d_z * p->block);
    p->queries = place(&own, p->fold->d_score * p->block);
    p->worker_size = own;
}

/* ---- the stack ---- */

/* Scalars, pointers, saved registers and the odd spill of all frames from forward to the innermost tile, alignment
 * included, in fast and in small code. Measured with gcc 11 and 12, clang 14 and 19: up to 2000 and up to 1300 bytes.
 */
#define STACK_FRAMES 2560
#define STACK_FRAMES_SMALL 1536
#define STACK_ROWS 8   /* of a query block: m, l, start, over and bad of a tile; maximum and alpha; one spare */
#define STACK_SQUARES 2 /* LANES x LANES: a partial transposition holds two; of masks and weights, in one more copy */
/* Vectors on the stack for each accumulator of a tile where no variable has a register: clang 14, the dearer one, keeps
 * every operand of every word: 33 for an unrolled tile of scores (2 steps), and 15 more for its exponentials. */
#define STACK_PLAIN_TILE 40
#define STACK_PLAIN_STEP 12

static int64_t longest_unroll(const struct plan_isa *p)
{
    int64_t unroll = most(least(p->unroll_scores, p->depth_slab), p->unroll_values);
    for (const struct plan_panels *g = p->products; g < p->products + PLAN_PRODUCTS; g++)
        if (g->exists)
            unroll = most(unroll, least(most(g->unroll, g->unroll_rest), g->k_block));
    return most(unroll, least(p->v_t.unroll, p->v_t.depth));
}

/* Most accumulators of a tile. */
static int64_t largest_tile(const struct plan_isa *p)
{
    int64_t tile = most(most(p->rows, p->value_rows) * p->vecs, most(p->rows_single, p->value_rows_single));
    for (const struct plan_panels *g = p->products; g < p->products + PLAN_PRODUCTS; g++)
        if (g->exists)
            tile = most(tile, g->rows * g->vecs);
    return most(tile, p->v_t.height[0] * p->vecs);
}

/* What is on the stack, level by level, is known but for spills: at most one tile's accumulators. */
static void bound_stack(struct plan_isa *p, const struct layer *layer)
{
    const int64_t f = (int64_t)sizeof(float);
    const int64_t tile = largest_tile(p) * p->lanes * f;
    const bool hooked = score_hooked(layer);
    const int64_t frames = p->at_once ? STACK_FRAMES : STACK_FRAMES_SMALL;
    const int64_t squares = hooked || layer->scores ? 2 * STACK_SQUARES : STACK_SQUARES;
    p->stack = round_up(frames + STACK_ROWS * p->block * f + squares * p->lanes * p->lanes * f + tile, 64);
    p->stack_plain = p->stack + (STACK_PLAIN_TILE + STACK_PLAIN_STEP * longest_unroll(p)) * tile;
}

/* ---- reasons ---- */

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* "768 bytes", "192 KiB" */
static const char *bytes_text(char text[32], int64_t floats)
{
    const int64_t bytes = floats * (int64_t)sizeof(float);
    if (bytes < 10240)
        snprintf(text, 32, D64 " bytes", bytes);
    else
        snprintf(text, 32, D64 " KiB", bytes / 1024);
    return text;
}

static const char *prefetch_text(char text[80], int64_t lines, const char *what)
{
    text[0] = '\0';
    if (lines > 0)
        snprintf(text, 80, "; each loop turn asks for " D64 " line%s of the next %s", lines, plural(lines), what);
    return text;
}

static void explain_lanes(struct plan_isa *p, const char *name, const struct plan_lanes *g)
{
    const int64_t unroll = least(g->unroll, g->depth);
    char ask[80];
    if (g->depth == 0)
        return;
    reason(p, "%s: tile " D64 " x " D64 ", tokens along the lanes, weights packed [tile][" D64 "][" D64 "], row groups of " D64
           "; " D64 " step%s unrolled; " D64 " tile%s a part%s", name, g->height[0], p->block, g->depth, g->height[0],
           g->group_rows, unroll, plural(unroll), g->part_tiles, plural(g->part_tiles), prefetch_text(ask, g->prefetch, "tile"));
}

static void explain_fold(struct plan_isa *p, const struct layer *layer)
{
    const struct plan_fold *f = p->fold;
    if (f->scores)
        reason(p, "W_Q W_K^T is folded when packing (%+.3g multiply-adds): keys are the input, " D64 " wide instead of " D64,
               -f->saved_scores, f->d_score, layer->d_k);
    if (f->values)
        reason(p, "W_V W_O is folded when packing (%+.3g multiply-adds): values are the input, " D64 " wide instead of " D64,
               -f->saved_values, f->d_value, layer->d_v);
    if (f->q_is_k)
        reason(p, "queries are the keys times the scale: projected once");
}

/* What is said of a product, but for its name. */
static void panels_text(char text[REASON_TEXT], const struct plan_isa *p, const struct plan_panels *g)
{
    char cut[64] = "", size[32], ask[80];
    if (g->k_block < g->depth)
        snprintf(cut, sizeof cut, " in slabs of " D64, g->k_block);
    const int64_t unroll = least(g->unroll, g->k_block);
    snprintf(text, REASON_TEXT,
             "tile " D64 " x " D64 " (" D64 " accumulators), panels of " D64 " columns x " D64 " deep (%s)%s; row groups of "
             D64 ", %s; " D64 " step%s unrolled; " D64 " panel%s a part%s", g->rows, g->vecs * p->lanes, g->rows * g->vecs,
             g->vecs * p->lanes, g->depth, bytes_text(size, g->panel_size), cut, g->group_rows,
             why(&p->request, PLAN_GROUP_ROWS, "whose operand fills at most 3/4 of L2 while the panels pass"), unroll,
             plural(unroll), g->part_panels, plural(g->part_panels), prefetch_text(ask, g->prefetch, "panel"));
}

/* A line for each product; those alike share one. */
static void explain_panels(struct plan_isa *p, const char *const names[PLAN_PRODUCTS])
{
    char text[PLAN_PRODUCTS][REASON_TEXT];
    bool said[PLAN_PRODUCTS] = {false};
    for (int i = 0; i < PLAN_PRODUCTS; i++)
        if (p->products[i].exists)
            panels_text(text[i], p, &p->products[i]);
    for (int i = 0; i < PLAN_PRODUCTS; i++) {
        char alike[80] = "";
        for (int j = i; p->products[i].exists && !said[i] && j < PLAN_PRODUCTS; j++)
            if (p->products[j].exists && strcmp(text[i], text[j]) == 0) {
                said[j] = j > i;
                strcat(strcat(alike, alike[0] != '\0' ? ", " : ""), names[j]);
            }
        if (alike[0] != '\0')
            reason(p, "%s: %s", alike, text[i]);
    }
}

static void explain_layout(struct plan_isa *p, const struct layer *layer, const char *name, const struct plan_panels *g,
                           int64_t width)
{
    if (!g->exists)
        return;
    if (g == &p->q && p->z_in_q)
        reason(p, "%s lie [token][head][" D64 "], as Z does, which takes their place", name, width);
    else if (g->c_group == 0)
        reason(p, "%s lie [token][head][" D64 "], so that no head is padded to whole vectors", name, width);
    else
        reason(p, "%s lie [head][token][" D64 "]: %s", name, width,
               layer->split ? "each head is projected from columns of its own"
               : g->groups > 1 ? "each head has a folded matrix of its own" : "a head's width fills whole vectors");
}

static void explain_choices(struct plan_isa *p, const struct layer *layer, bool is_small)
{
    const struct isa *isa = p->isa;
    const int64_t left = ceil_div(layer->seq_len, p->lanes) % p->vecs;
    char size[32], rest[80] = "";
    reason(p, "%d lanes, %d registers, %d FMA ports; L1 %zu KiB, L2 %zu KiB assumed", isa->lanes, isa->registers,
           isa->fma_ports, isa->l1d_bytes / 1024, isa->l2_bytes / 1024);
    if (is_small)
        reason(p, "small code: one shape a product, rolled loops; no batches, no slabs, nothing asked for "
               "ahead");
    if (left > 0)
        snprintf(rest, sizeof rest, "; " D64 " vector%s left over, taken singly", left, plural(left));
    explain_fold(p, layer);
    reason(p, "query block " D64 ": " D64 " vector%s, %s for seq_len " D64 "%s%s", p->block, p->vecs, plural(p->vecs),
           why(&p->request, PLAN_QUERY_VECS, is_small ? "the least code" : "the cheapest tiles"), layer->seq_len,
           !is_asked(&p->request, PLAN_QUERY_VECS) && p->vecs > choose_query_vecs(isa, layer->seq_len, false)
               ? ", a head's keys and values exceeding L2" : "", rest);
    reason(p, "scores: tile " D64 " x " D64 ", " D64 " accumulators + " D64 " operand%s + 1 broadcast of %d "
           "registers; single vectors " D64 " x " D64, p->rows, p->block, p->rows * p->vecs, p->vecs,
           plural(p->vecs), isa->registers, p->rows_single, p->lanes);
    reason(p, "weighted sums: tile " D64 " x " D64 ", single vectors " D64 " x " D64 ": d_v in near-equal parts",
           p->value_rows, p->block, p->value_rows_single, p->lanes);
    reason(p, "key block " D64 ": scores of " D64 " x " D64 " take %s, %s", p->key_block, p->key_block, p->block,
           bytes_text(size, p->key_block * p->block),
           why(&p->request, PLAN_KEY_BLOCK, p->value_blocks ? "one block of values"
                                            : "about half of L1, in near-equal blocks of source_len"));
    if (p->two_pass)
        reason(p, "softmax in two passes: the largest score of each query first, then the weights and their sums");
    if (p->depth_slab < p->fold->d_score)
        reason(p, "scores are summed in slabs of " D64 " features, %s", p->depth_slab,
               why(&p->request, PLAN_DEPTH_SLAB, "so that a slab of the queries stays in L1"));
    explain_panels(p, (const char *const[]){"queries", "keys", "values", layer->w_o == W_O_CONV ? "convolution" : "output"});
    explain_lanes(p, "values", &p->v_t);
    explain_layout(p, layer, "queries", &p->q, p->fold->d_score);
    explain_layout(p, layer, "keys", &p->k, layer->d_k);
    explain_layout(p, layer, "values", &p->v, layer->d_v);
    if (p->value_blocks)
        reason(p, "values lie [block of " D64 " tokens][feature][token]%s", p->block,
               p->v_t.depth == 0 ? ": the transposed input itself" : "");
    if (p->z_rows && layer->w_o == W_O_DENSE)
        reason(p, "Z lies [token][head][feature]: %s",
               is_asked(&p->request, PLAN_Z_LAYOUT) ? "as asked"
               : p->batch_rows > layer->seq_len ? "sequences that are projected together begin anywhere"
               : 2 * layer->seq_len < p->lanes ? "so few tokens would be spread over cache lines that they do not fill"
                                               : "a query block of it, over which each panel passes, exceeds half of L1");
    if (p->ahead > 0)
        reason(p, "each tile of scores asks for " D64 " row%s of the next head's keys%s", p->ahead, plural(p->ahead),
               p->value_blocks ? "" : " and values");
    if (p->batch_rows > layer->seq_len)
        reason(p, "sequences of a batch are projected together, up to " D64 " tokens", p->batch_rows);
    reason(p, "one part of attend: 1 head x " D64 " query block%s", p->part_blocks, plural(p->part_blocks));
}

/* ---- all of it ---- */

/* All that the tiles of two products depend on. */
static bool alike(const struct plan_panels *a, const struct plan_panels *b)
{
    return a->exists && b->exists && a->depth == b->depth && a->k_block == b->k_block && a->taps == b->taps &&
           a->vecs == b->vecs && a->rows == b->rows && a->rest == b->rest && a->unroll == b->unroll &&
           a->unroll_rest == b->unroll_rest && (a->panels > 1) == (b->panels > 1) && a->tail_vecs == b->tail_vecs &&
           a->tail_lanes == b->tail_lanes && a->a_row == b->a_row && a->a_k == b->a_k && a->c_row == b->c_row &&
           (a->c_split > 0) == (b->c_split > 0) && a->prefetch == b->prefetch;
}

/* Named as the templates name them. */
static void share_tiles(struct plan_isa *p)
{
    static const char *const names[PLAN_PRODUCTS] = {"queries", "keys", "inputs", "output"};
    struct plan_panels *const all = p->products;
    for (size_t i = 0; i < PLAN_PRODUCTS; i++) {
        all[i].tiles = names[i];
        for (size_t j = i; j-- > 0;)
            if (alike(&all[i], &all[j]))
                all[i].tiles = all[j].tiles;
    }
}

static void plan_values(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool input = layer->identity || p->fold->values;
    p->v_feature = 1;
    if (p->value_blocks) {
        const int64_t columns = input ? layer->d_source : layer->h_kv * layer->d_v, width = input ? layer->d_in_kv : layer->d_v;
        p->v_row = 1;
        p->v_feature = p->block;
        p->v_head = input && !layer->split ? 0 : width * p->block;
        p->v_block = columns * p->block;
        if (input)
            return;
        p->v_t = (struct plan_lanes){
            .depth = layer->d_in_kv,
            .groups = layer->split ? layer->h : 1,
            .columns = layer->split ? layer->d_v : layer->h_kv * layer->d_v,
            .a_group = layer->split ? layer->d_in_kv * p->block : 0,
        };
        plan_lanes(&p->v_t, request, p, layer->d_source, layer->source_len);
    } else if (input) {
        p->v_row = layer->d_source;
        p->v_head = layer->split ? layer->d_in_kv : 0;
    } else {
        const struct projection of = of_source(p, layer, layer->d_v);
        plan_rows(&p->v, &of, request, p, &p->v_row, &p->v_head);
    }
}

/* Values in blocks, tokens along the lanes, or in rows? Wide ones are read faster so, on some cores and where tokens fill
 * the vectors; and where features fill them badly, their projection wastes less. */
static bool values_by_blocks(const struct plan_isa *p, const struct layer *layer)
{
    const int64_t columns = layer->split ? layer->d_v : layer->h_kv * layer->d_v;
    const double tokens = (double)layer->source_len / (double)round_up(layer->source_len, p->lanes);
    const double features = (double)columns / (double)round_up(columns, p->lanes);
    const bool input = layer->identity || p->fold->values;
    const bool wide = p->isa->wide_values > 0 && p->fold->d_value >= p->isa->wide_values;
    return wide ? tokens > VALUE_BLOCKS_FILL : !input && tokens > VALUE_BLOCKS_GAIN * features;
}

/* Floats of all weights as they are packed, without biases and padding */
static double weights_size(const struct plan_isa *p, const struct layer *layer)
{
    const struct plan_fold *f = p->fold;
    const double heads = (double)layer->h, in_q = (double)layer->d_in_q, in_kv = (double)layer->d_in_kv;
    double size = 0;
    if (!f->q_is_k)
        size += heads * in_q * (double)f->d_score;
    if (!f->scores)
        size += (double)layer->h_kv * in_kv * (double)layer->d_k;
    if (!f->values && !layer->identity)
        size += (double)layer->h_kv * in_kv * (double)layer->d_v;
    if (layer->w_o == W_O_DENSE)
        size += heads * (double)f->d_z * (double)layer->d_model;
    if (layer->w_o == W_O_CONV)
        size += (double)layer->conv_width * (double)f->d_z * (double)layer->d_model;
    return size;
}

/* How many tokens of a batch's sequences are projected as one matrix. Where weights come from beyond L2, enough that a panel
 * is worth fetching; else of very short sequences as many as fill their tiles. Never so many that the longer input, queries
 * or keys, exceeds that by more than one sequence. Not possible where a sequence must begin with a block of its own (values
 * in blocks), has zeros before it (convolution), or has memory behind it that may not be read. */
static void choose_batch(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    if (p->value_blocks || layer->w_o == W_O_CONV || (layer->cross && (layer->mask & MASK_PADDING)))
        return;
    const bool stays = weights_size(p, layer) * sizeof(float) <= (double)p->isa->l2_bytes;
    const int64_t fills = layer->seq_len < BATCH_SHORT ? 8 * p->lanes : 1;
    const int64_t wanted = asked_or(request, PLAN_BATCH_ROWS, stays ? fills : BATCH_ROWS);
    const int64_t sequences = least(ceil_div(wanted, layer->seq_len), ceil_div(wanted, layer->source_len));
    p->batch_rows = sequences * layer->seq_len;
    p->batch_sources = sequences * layer->source_len;
}

static void plan_one(struct plan_isa *p, const struct isa *isa, const struct layer *layer,
                     const struct plan_request *request)
{
    p->isa = isa;
    p->lanes = isa->lanes;
    p->value_blocks = asked_or(request, PLAN_VALUE_LAYOUT, values_by_blocks(p, layer)) == PLAN_BLOCKS;
    p->streams = streams_head(p, layer);
    p->vecs = asked_or(request, PLAN_QUERY_VECS, choose_query_vecs(isa, layer->seq_len, p->streams));
    p->block = p->vecs * p->lanes;
    /* what is asked of tiles is asked of full ones: single vectors need rows to fill the latency */
    const int64_t rows = rows_fit(request, isa, p->vecs), rows_single = p->vecs == 1 ? rows : tile_rows(isa, 1);
    const int64_t apart = p->fold->scores && !small(request) ? rows_apart(layer->d_source) /* keys are the input's own rows */
                                                            : rows_single;
    p->rows = least(asked_or(request, PLAN_SCORE_ROWS, apart), rows);
    p->rows_single = p->vecs == 1 ? p->rows : least(rows_single, apart);
    p->rows_step = ROWS_STEP;
    p->at_once = !small(request);
    int64_t (*const part)(int64_t, int64_t) = small(request) ? one_height : near_equal;
    p->value_rows = part(p->fold->d_value, asked_within(request, PLAN_VALUE_ROWS, rows));
    p->value_rows_single = p->vecs == 1 ? p->value_rows : part(p->fold->d_value, rows_single);
    p->two_pass = asked_or(request, PLAN_SOFTMAX, PLAN_ONE_PASS) == PLAN_TWO_PASS;

    if (!small(request) || is_asked(request, PLAN_BATCH_ROWS))
        choose_batch(p, layer, request);
    p->query_blocks = ceil_div(most(layer->seq_len, p->batch_rows), p->block);
    p->source_blocks = ceil_div(most(layer->source_len, p->batch_sources), p->block);

    const int64_t fit = most(p->rows, (int64_t)(isa->l1d_bytes / 2 / sizeof(float)) / p->block);
    p->key_block = is_asked(request, PLAN_KEY_BLOCK) ? request->value[PLAN_KEY_BLOCK]
                 : p->value_blocks ? p->block
                 : round_up(ceil_div(layer->source_len, ceil_div(layer->source_len, fit)), p->rows);
    const int64_t slab_fit = most(1, (int64_t)(isa->l1d_bytes * 2 / 3 / sizeof(float)) / p->block);
    const int64_t slab = asked_or(request, PLAN_DEPTH_SLAB, small(request) ? p->fold->d_score : slab_fit);
    p->depth_slab = near_equal(p->fold->d_score, slab);
    p->unroll_scores = choose_unroll(request, p->depth_slab);
    p->unroll_values = choose_unroll(request, UNROLL_KEYS_FULL);
    const double block = (double)p->block * (double)layer->source_len * (double)(p->fold->d_score + p->fold->d_value);
    p->part_blocks = least(p->query_blocks, (int64_t)(PART_MULTIPLY_ADDS / block) + 1);

    plan_z(p, layer, request);
    if (!p->fold->q_is_k) {
        const struct projection of = of_queries(p, layer);
        plan_rows(&p->q, &of, request, p, &p->q_row, &p->q_head);
    }
    if (p->fold->scores) {
        p->k_row = layer->d_source;
        p->k_head = layer->split ? layer->d_in_kv : 0;
    } else {
        const struct projection of = of_source(p, layer, layer->d_k);
        plan_rows(&p->k, &of, request, p, &p->k_row, &p->k_head);
    }
    plan_values(p, layer, request);
    if (layer->w_o != W_O_NONE)
        plan_output(&p->o, layer, request, p);
    place_packed(p, layer);
    plan_prefetch(p, layer, request);
    share_tiles(p);
    place_scratch(p, layer);
    bound_stack(p, layer);
    explain_choices(p, layer, small(request));
}

/* "from the spec: plan.unroll = 4" */
static void explain_request(struct plan_isa *p, const char *from, const struct plan_request *request)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        p->reasons[p->reason_count++] = NULL; /* caught by plan_make */
        return;
    }
    plan_request_print(request, out);
    if (fclose(out) == 0 && length > 0)
        reason(p, "from the %s: %s", from, text);
    free(text);
}

/* What the spec asks for goes before what the plan file does. */
static void plan_isa(struct plan_isa *p, const struct isa *isa, const struct layer *layer,
                     const struct plan_request *spec, const struct plan_file *file)
{
    struct plan_request request = *spec, rest = plan_request_none();
    explain_request(p, "spec", spec);
    if (file != NULL) {
        rest = file->isa[isa - isa_table].request;
        plan_request_add(&rest, &file->common);
        for (int key = 0; key < PLAN_KEYS; key++)
            if (is_asked(spec, (enum plan_key)key))
                rest.value[key] = PLAN_AUTO;
        explain_request(p, "plan file", &rest);
    }
    plan_request_add(&request, &rest);
    p->request = request;
    if (small(&request))
        make_small(&request);
    plan_one(p, isa, layer, &request);
}

/* An upper bound of every sum of sizes that plan_one forms, in floats, so that it can work in int64_t. */
static double size_bound(const struct layer *l)
{
    const double wide = 64, q = (double)l->seq_len + BATCH_ROWS + wide;
    const double s = (double)l->source_len + BATCH_ROWS + wide; /* choose_batch adds no more than that to either */
    const double in = (double)l->d_source + 1;
    const double e_k = (double)l->h * ((double)l->d_k + in) + wide, e_v = (double)l->h * ((double)l->d_v + in) + wide;
    const double d = (double)l->d_model + (double)l->d_source + wide;
    const double scratch = (q + s) * (d + 2 * e_k + 2 * e_v) * 2 + 1e6 * ((double)l->d_v + in + 1e3)
                         + (double)l->conv_width * e_v + wide * s;
    const double packed = 2 * (d + wide) * (2 * e_k + 2 * e_v) * (l->w_o == W_O_CONV ? (double)l->conv_width + 2 : 1.0);
    return scratch + packed;
}

void plan_free(struct plan *plan)
{
    if (plan == NULL)
        return;
    for (int64_t i = 0; i < plan->count; i++)
        for (int r = 0; r < plan->isas[i].reason_count; r++)
            free(plan->isas[i].reasons[r]);
    free(plan);
}

static bool complete(const struct plan *plan)
{
    for (int64_t i = 0; i < plan->count; i++)
        for (int r = 0; r < plan->isas[i].reason_count; r++)
            if (plan->isas[i].reasons[r] == NULL)
                return false;
    return true;
}

struct plan *plan_make_from(const struct layer *layer, unsigned isas, const struct plan_file *file, struct diag *diag)
{
    struct plan_request spec = plan_request_none();
    const size_t before = diag->errors;
    for (size_t i = 0; i < layer->options_count; i++) {
        const struct layer_option *option = &layer->options[i];
        const enum plan_key key = plan_key_find(option->key, option->place, diag);
        if (key < PLAN_KEYS)
            plan_value_read(&spec, key, option->value, option->place, diag);
    }
    if (size_bound(layer) * sizeof(float) > (double)(PTRDIFF_MAX / 4))
        diag_error(diag, layer->name, "packed weights or scratch would not fit a C array; make the layer smaller");
    if (diag->errors > before)
        return NULL;

    struct plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        diag_environment(diag, NULL, "out of memory");
        return NULL;
    }
    struct plan_request common = spec;
    if (file != NULL)
        plan_request_add(&common, &file->common);
    plan->fold = plan_fold(layer, &common);
    for (size_t i = 0; i < isa_count; i++) {
        if ((isas >> i & 1u) == 0)
            continue;
        struct plan_isa *p = &plan->isas[plan->count++];
        p->fold = &plan->fold;
        plan_isa(p, &isa_table[i], layer, &spec, file);
        plan->packed_bytes = most(plan->packed_bytes, p->packed_size * (int64_t)sizeof(float));
        plan->shared_bytes = most(plan->shared_bytes, p->shared_size * (int64_t)sizeof(float));
        plan->worker_bytes = most(plan->worker_bytes, p->worker_size * (int64_t)sizeof(float));
    }
    if (!complete(plan)) {
        diag_environment(diag, NULL, "out of memory");
        plan_free(plan);
        return NULL;
    }
    return plan;
}

struct plan *plan_make(const struct layer *layer, unsigned isas, struct diag *diag)
{
    return plan_make_from(layer, isas, NULL, diag);
}

void plan_explain(const struct plan *plan, const struct layer *layer, FILE *out)
{
    fprintf(out, "\nThe plan for %s\n", layer->name);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        fprintf(out, "\n  %s: packed " D64 " bytes, scratch " D64 " bytes + " D64 " a worker\n", p->isa->name,
                p->packed_size * 4, p->shared_size * 4, p->worker_size * 4);
        for (int r = 0; r < p->reason_count; r++)
            fprintf(out, "    %s\n", p->reasons[r]);
    }
}
