/* SPDX-License-Identifier: MIT */
/* The price of register tiles: how high and wide they can be, what a multiply-add in them costs, which shapes are
 * cheapest for given tokens and columns. Left out on purpose: what lies around a tile (step_KIND.c); blocks of queries
 * and keys (plan_blocks.c).
 */
#include "plan/planning.h"

#include <math.h>

#define UNROLL_AUTO 2            /* measured: 2 to 64 steps run alike; 2 compile fastest */
#define MAX_GROUP_ROWS 512
#define WAY_FLOATS 1024          /* of L1: lines that far apart share a set */
#define ROWS_IN_A_SET 7          /* of 8 ways. Measured (Zen 4, d_model 1024): 8 rows take 10 % longer, 12
                                  * take 2.2 times as long */
#define LINE_CYCLES 2.75         /* measured: cycles of a line from L2, amid multiply-adds */
#define FMA_SLACK 1.25           /* of accumulators: as many as latency and ports ask for, 8, reach 77 % */
#define WIDE_COST 1.2            /* measured, Zen 4: 2 x 8 and 4 x 4 take as long from L2 and L3; from memory 2 x 8 take
                                  * three quarters, as values are read in the order in which they lie */
#define SPILL_SLOTS 0.02         /* of avx2's 6 x 2 and 4 x 3: attend takes 5 % less with the first on Zen 3 and 4 */
#define STREAM_CYCLES 1.2        /* what shows of a line of keys or values from L3: half of what it takes. Blocks of 24
                                  * instead of 16 queries: avx2's layers whose heads exceed L2 take as long
                                  * (512 tokens) or 1 to 4 % less (1024 to 4096; measured, Zen 4) */
#define FEW_GAIN 0.94            /* of the time, for another width: prices of widths are off by 5 % on some cores */

#define DIGIT_REGISTERS 1 /* of a tile that reads digits, for the constant that parts low and high halves of bytes */
#define DIGIT_VECS 2      /* in a panel of such tiles, and the most rows of one; measured, Zen 4: as fast as any for one
                           * token, and for many */
#define DIGIT_ROWS 2

/* Most broadcast rows of a tile `vecs` wide: one register for the broadcast, `vecs` for the other operand, the
 * rest accumulators; more than 16 rows add code and no speed. */
int64_t tile_rows(const struct isa *isa, int64_t vecs)
{
    return max(1, min(16, (isa->registers - vecs - 1) / vecs));
}

/* The same for scores, sums and values in blocks. In small code strips along a mask's edge are LANES keys long: tiles
 * that divide them need no rest. */
int64_t rows_fit(const struct plan_isa *p, int64_t vecs)
{
    const int64_t rows = tile_rows(p->isa, vecs), lanes = p->isa->lanes;
    return p->small && rows > lanes ? rows / lanes * lanes : rows;
}

/* Most rows, `stride` floats apart, of which L1 keeps a line each while a tile reads along them. */
int64_t rows_apart(int64_t stride)
{
    int64_t sets = 1; /* that the rows' lines fall into, in turn */
    while (sets < WAY_FLOATS && stride * sets % WAY_FLOATS != 0)
        sets *= 2;
    return ROWS_IN_A_SET * sets;
}

/* Cache lines that one step of such a tile takes from L2, its operands being too large for L1: the vectors, and for the
 * broadcast rows what was measured with their numbers side by side: one,
 * or more where they cross into a second line. */
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
    const double wanted = fmax(FMA_LATENCY * FMA_SLACK, lines * LINE_CYCLES) * isa->fma_ports;
    return loads + (tiles < wanted ? wanted / tiles : 1.0);
}

/* Cost of such a tile of scores or weighted sums. The exponential wants m and l of each vector beside the scores: what
 * the registers do not hold of them lies on the stack. `streams`: keys and values come from L3, once for each tile of
 * queries. */
static double query_tile_cost(const struct isa *isa, int64_t vecs, bool streams)
{
    const int64_t rows = tile_rows(isa, vecs);
    const double lines = streams ? STREAM_CYCLES * isa->fma_ports / (double)(LINE_FLOATS * vecs) : 0;
    return tile_cost(isa, rows, vecs, 0) + lines + SPILL_SLOTS * (double)max(0, (rows + 2) * vecs - isa->registers);
}

/* Of the queries that whole blocks leave those that pass as few: what they leave of a vector, unless their vectors are
 * a block of full width. */
int64_t few_left(int64_t queries, int64_t block, int64_t lanes, int64_t few)
{
    const int64_t left = queries % block, over = left % lanes;
    return over <= few && (left < lanes || left <= block - lanes) ? over : 0;
}

/* Full blocks at the cost of their tile, what is left one vector at a time, or as at most `few` queries. */
static double queries_cost(const struct plan_isa *p, int64_t queries, int64_t vecs, int64_t few, bool streams)
{
    const int64_t lanes = p->isa->lanes, over = few_left(queries, vecs * lanes, lanes, few);
    const int64_t vectors = ceil_div(queries - over, lanes);
    const double by_few = over == 0 ? 0 : p->few.cost + (double)over / (double)lanes;
    return (double)(vectors / vecs * vecs) * query_tile_cost(p->isa, vecs, streams)
         + ((double)(vectors % vecs) + by_few) * query_tile_cost(p->isa, 1, streams);
}

/* Vectors in a query block */
int64_t choose_query_vecs(const struct plan_isa *p, int64_t queries, bool streams)
{
    const int64_t few = p->few.left;
    int64_t best = 1;
    for (int64_t vecs = 2; vecs <= 4; vecs++)
        if (queries_cost(p, queries, vecs, 0, streams) < queries_cost(p, queries, best, 0, streams))
            best = vecs;
    for (int64_t vecs = 1; vecs <= 4; vecs++)
        if (queries_cost(p, queries, vecs, few, streams) < FEW_GAIN * queries_cost(p, queries, best, few, streams))
            best = vecs;
    return best;
}

/* Vectors in a tile whose rows are queries, with keys or features along the lanes. */
int64_t choose_row_vecs(const struct isa *isa)
{
    int64_t best = 1;
    for (int64_t vecs = 2; vecs <= 4; vecs++)
        if (tile_cost(isa, tile_rows(isa, vecs), vecs, 0) <= tile_cost(isa, tile_rows(isa, best), best, 0))
            best = vecs;
    return best;
}

/* Rows of such a tile that is `vecs` wide, the whole of what it reads, where it costs little more than the cheapest.
 * 0: it costs more, or there are no words for it. */
int64_t wide_rows(const struct isa *isa, int64_t vecs)
{
    const int64_t rows = tile_rows(isa, vecs), best = choose_row_vecs(isa);
    const bool cheap = tile_cost(isa, rows, vecs, 0) <= WIDE_COST * tile_cost(isa, tile_rows(isa, best), best, 0);
    return vecs <= (isa->fma_rows ? 4 : 8) && rows > 1 && cheap ? rows : 0;
}

/* The largest of near-equal parts of `total`, none above `at_most`. */
int64_t near_equal(int64_t total, int64_t at_most)
{
    return ceil_div(total, ceil_div(total, at_most));
}

/* The height of tiles for `total` rows where one height has to serve them all: the largest divisor from half of
 * `at_most` to `at_most`; near-equal parts where there is none. */
int64_t one_height(int64_t total, int64_t at_most)
{
    for (int64_t height = at_most; 2 * height >= at_most && height > 0; height--)
        if (total % height == 0)
            return height;
    return near_equal(total, at_most);
}

/* What tiles of at most `rows` x vecs cost for `total` tokens, which they part evenly: tile_cost of each multiply-add,
 * the operands coming from L2 unless a panel of that depth stays in L1. */
static double even_cost(const struct isa *isa, int64_t total, int64_t rows, int64_t vecs, int64_t depth)
{
    const bool stays = depth * vecs * isa->lanes * (int64_t)element_size(OPERANDS) <= (int64_t)isa->l1d_bytes / 2;
    const int64_t tiles = ceil_div(total, rows), high = ceil_div(total, max(1, tiles)), lower = high * tiles - total;
    double cost = 0;
    for (int64_t height = high; height > 0 && height >= high - 1; height--) {
        const double tokens = (double)(height * (height == high ? tiles - lower : lower));
        cost += tokens * tile_cost(isa, height, vecs, stays ? 0 : tile_lines(isa, height, vecs));
    }
    return cost * (double)vecs;
}

/* Most rows of a tile of words */
int64_t word_rows(const struct plan_isa *p, int64_t vecs)
{
    return max(1, min(16, (p->isa->registers - p->word_registers - vecs - 1) / vecs));
}

/* Rows of a panel's tiles: near-equal parts of a query block. */
int64_t panel_rows(const struct plan_isa *p, const struct plan_panels *g, int64_t vecs)
{
    const int64_t apart = rows_apart(g->a_row);
    const int64_t rows = request_or(&p->request, PLAN_PANEL_ROWS, p->digits ? min(DIGIT_ROWS, apart) : apart);
    const int64_t registers = p->isa->registers - (g->word > 1 ? p->word_registers : p->digits ? DIGIT_REGISTERS : 0);
    const int64_t sums = p->digits ? DIGITS * vecs : vecs; /* of a row, in registers from step to step */
    const int64_t fit = max(1, min(16, (registers - vecs - 1) / sums));
    return near_equal(p->block, min(rows, fit));
}

/* What g costs for that many tokens in panels of `vecs` vectors, in slots of multiply-adds of one vector a step
 * of the reduction: whole blocks of tokens and a smaller one, full panels and a narrower one that keeps their tiles'
 * height. */
static double panels_cost(const struct plan_isa *p, const struct plan_panels *g,
                          int64_t depth, int64_t tokens, int64_t vecs)
{
    const int64_t total = ceil_div(g->columns, p->lanes), tail = total % vecs;
    const int64_t rows = panel_rows(p, g, vecs);
    const struct { int64_t vecs, panels; } kinds[2] = {{vecs, total / vecs}, {tail, 1}};
    double cost = 0;
    for (int i = 0; i < (tail > 0 ? 2 : 1); i++)
        cost += (double)kinds[i].panels *
                ((double)(tokens / p->block) * even_cost(p->isa, p->block, rows, kinds[i].vecs, depth) +
                 even_cost(p->isa, tokens % p->block, rows, kinds[i].vecs, depth));
    return cost;
}

/* Vectors in a panel. Where steps count too: those with the least product of what a full sequence and one token cost,
 * so that twice as slow here outweighs twice as fast there. With one row it is accumulators that are too few. */
int64_t choose_panel_vecs(const struct plan_isa *p, const struct plan_panels *g, int64_t depth, int64_t tokens)
{
    int64_t best = 1;
    double best_cost = 0;
    if (p->digits)
        return min(DIGIT_VECS, ceil_div(g->columns, p->lanes));
    for (int64_t vecs = 1; vecs <= min(4, ceil_div(g->columns, p->lanes)); vecs++) {
        const double cost = panels_cost(p, g, depth, tokens, vecs) *
                            (p->for_steps ? panels_cost(p, g, depth, 1, vecs) : 1);
        if (vecs == 1 || cost < best_cost) {
            best = vecs;
            best_cost = cost;
        }
    }
    return best;
}

/* In small code: one shape, of the fewest vectors that give it enough accumulators. */
int64_t small_panel_vecs(const struct isa *isa, int64_t columns, int64_t rows)
{
    return min(ceil_div(columns, isa->lanes), ceil_div((int64_t)FMA_LATENCY * isa->fma_ports, rows));
}

int64_t choose_unroll(const struct plan_isa *p, int64_t depth)
{
    const int64_t unroll = request_or(&p->request, PLAN_UNROLL, UNROLL_AUTO);
    return unroll == PLAN_UNROLL_FULL ? depth : unroll;
}

/* Rows of a row group: as many as three quarters of L2 hold, at `bytes` of operand a row. */
int64_t choose_group_rows(const struct plan_isa *p, int64_t bytes, int64_t rows)
{
    const int64_t model = (int64_t)(p->isa->l2_bytes * 3 / 4) / bytes;
    const int64_t fit = min(request_or(&p->request, PLAN_GROUP_ROWS, model), MAX_GROUP_ROWS);
    /* near-equal groups, so that the last one is not small */
    const int64_t group = max(p->block, fit / p->block * p->block);
    const int64_t blocks = ceil_div(rows, p->block);
    const int64_t groups = max(1, ceil_div(blocks * p->block, group));
    return max(1, ceil_div(blocks, groups)) * p->block;
}

/* Weights of a cache line */
int64_t line_weights(enum tensor_element type)
{
    return LINE_BYTES / (int64_t)element_size(type);
}

/* Lines that an iteration prefetches, so that `weights` weights, `line` of them a line, are there when `tiles` tiles of
 * `iterations` iterations are done; no more than one tile's iterations can take without overshooting. */
int64_t prefetch_lines(int64_t weights, int64_t line, int64_t tiles, int64_t iterations)
{
    const int64_t lines = min(MAX_PREFETCH, ceil_div(ceil_div(weights, line), tiles * iterations));
    return min(lines, weights / (iterations * line));
}

bool plan_digits(const struct layer *layer, const struct isa *isa)
{
    return layer->weight_type == TENSOR_I4 || isa->dots_bytes;
}
