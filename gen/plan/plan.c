/* SPDX-License-Identifier: MIT */
/* The analytic model: from a layer and an ISA's row to tiles, blocks, strides, offsets, parts and lists of tiles.
 *
 * Left out on purpose: measuring, and anything about the host.
 */
#include "plan/plan_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/planfile.h"
#include "spec/fast.h"
#include "spec/relative.h"
#include "spec/rope.h"
#include "spec/score.h"
#include "spec/visible.h"

#define PART_MULTIPLY_ADDS 1e6   /* least work of a part: about 10 us on one core */
#define MAX_GROUP_ROWS 512
#define FAST_COLUMNS 192         /* columns from which on seven products take less time than eight (Zen 4) */
#define FAST_UNASKED 256         /* tokens of a sequence for those of whole numbers that nobody asked for: with fewer,
                                  * what seven products save is lost where others use L3 (Zen 4) */
#define FAST_PART 768            /* columns of a part of a fast product, which forms sums of its rows once */
#define MAX_DEPTH 1024           /* a longer reduction is cut, so that a group of rows and a panel fit L2 together */
#define UNROLL_AUTO 2            /* measured: 2 to 64 steps run alike; 2 compile fastest */
#define UNROLL_PREFETCH 8        /* one line an iteration then prefetches about a panel during a row group */
#define VALUE_BLOCKS_FILL 0.9    /* least share of lanes that tokens fill where wide values lie in blocks */
#define VALUE_BLOCKS_GAIN 1.5    /* measured: least ratio of the lanes that tokens fill to those that features fill */
#define PREFETCH_TILES 2         /* that bring a panel into L2 while they pass over the one before; measured, Zen 4 */
#define PART_NUMBERS 32768       /* of rows that are normed: about 10 us */
#define BATCH_ROWS 256           /* tokens that make a panel of weights worth fetching */
#define BATCH_SHORT 6            /* measured: shorter sequences gain by shared tiles, longer ones lose a little */
#define WIDE_VECS 4              /* of a panel of bytes, which low tiles take whole: one row is as fast as with 8, */
#define TALL_VECS 2              /* and of its parts that high tiles take: 6 x 2 sums fill the registers */
#define CONVERTED_ROWS 8         /* of tiles from which on weights become f32 as they are read: measured, Zen 5: 8 rows
                                  * of i8 and bf16 take 2 % less time so, 4 and 6 take 5 % more; of i4 8 take 10 % more
                                  * from the third tile on */
#define LOW_ROWS 2               /* of tiles that wait for their weights */
#define MAX_PREFETCH 4           /* lines an iteration: more would fill the line buffers that the loads need */
#define LEAST_TILE_WORDS 32      /* that tile registers are worth */
#define TILED_VECS 2             /* of a panel: two registers; rows of 128 bytes fill all sets of L1 */
#define ROWS_STEP 4              /* heights for what is left over: 16, 4 and 1 rows; 8 and 2 made no layer faster */
#define MIN_SOFTCAP 1e-20        /* all constants of its tanh are normal f32, and so are products of them */
#define MAX_SOFTCAP 1e30
#define MOST_OF_I8 131072        /* numbers of a sum: times 127 * 128 they stay below 2^31 */
#define CACHED_BLOCK 128         /* keys in a block; with 256 an AVX-512 step gains 5 %, a prefill loses as much */
#define STEPS_BLOCK 1024         /* the same for few rows: longer streams; a step gains 1 to 4 % over blocks of 512 */
#define LOW_CACHED_BLOCK 32      /* with vectors of four: a prefill gains 5 to 10 % */
#define CACHED_ROWS 96           /* rows in a block: they share the keys that are transposed, or read from beyond L2 */
#define WORD_ROWS 192            /* the same of whole numbers: rounding a key is paid for by more */
#define SEGMENT_BYTES (INT64_C(512) * 1024) /* of keys and values of a head: 10 us and more from memory */
#define AHEAD_BYTES 16384        /* measured, Zen 4: 12 to 24 KiB ahead, to L2, are best, from L3 and from memory */
#define MANY_ROWS 8              /* with this many rows of few and more, the tiles are the limit, not reading */
#define EARLY_BYTES 16384        /* half of the smallest L1; measured, Zen 5: a step gains 2 to 5 % from L2 and L3 */
#define QUERY_VECS 8 /* of one row's query: with four sums and four vectors of keys they fill 16 registers */
#define NORM_SUMS 4   /* sums of a row: additions that wait for each other take as many cycles */
#define LONE_VECS 8              /* of a query; four sums take one register each besides */
#define DOT_KEYS 4               /* whose products are summed together, across four lanes of each */
#define NEAR_BYTES 8192          /* of values, which several tiles read in turn; measured, Zen 4: with 16 KiB hardware
                                  * stops prefetching meanwhile */
#define NEAR_BYTES_OF_MANY 16384 /* of MANY_ROWS: tiles load and store sums each time */
#define SWEPT_BYTES 2048         /* the same where tiles read parts of values and caches lie beyond L3 */
#define SWEEP_BYTES (INT64_C(24) << 20) /* measured, Zen 4 with AVX2: of 16 MiB a step takes 1.15 of the time if swept,
                                         * of 32 and 128 0.9 and 0.8 */
#define FEW_KEYS 4               /* vectors of keys from which on few queries take sums across lanes */
#define FEW_VALUES 16            /* of keys 2 KiB apart, as many stay in 32 KiB of L1; measured, Zen 5: 32 and more take
                                  * up to 1.1 of the time */
#define FAR_BYTES 1024           /* from row to row: of four in a page hardware does not see that others follow */
#define SPLIT_TOKENS 8           /* a group of more tokens has parts enough */
#define BACK_QUERIES 104          /* tokens in a block of backward, at most: its operands stay in L2 */
#define BACK_KEYS 256
#define BACK_EVEN 64              /* what rows of a tile divide best: most widths, and their multiples */
#define BACK_PART 104             /* tokens of a part of dZ, and of dx */
#define BACK_ROWS 200             /* of a weight's gradient in a part: what is laid out, mostly from L3, serves as */
#define BACK_COLUMNS 384          /* many products. Measured, Zen 5: 104 x 256 take 10 % longer, 390 x 384 as long */
#define BACK_TOKENS 224           /* steps of a sum over tokens at once, at most: strips stay in L2, a panel in L1 */
#define BACK_ONCE 4               /* of them laid out at once, and lines from L3 fetched BACK_AHEAD steps ahead:
                                   * L1 holds both. Measured, Zen 5: 8 and 16 take 1 to 2 % longer */
#define BACK_AHEAD 4
#define BACK_UNROLL 2
#define WEIGHT_READ 20           /* multiply-adds in the time of reading one weight from beyond L2: measured, Zen 5
                                  * with AVX-512 */
#define KEPT_WEIGHTS (512 * 1024) /* bytes: the smallest L2 that has AVX2 */
#define SHORTEST_CALL 16         /* the shortest calls weighed are a 16th of the limits, unless plan.typical_n,
                                  * typical_m say */
#define UNROLL_KEYS_FULL 16      /* "full" for the one reduction whose length is known only at run time */

/* ---- what is asked ---- */

/* plan.size = small changes these choices where neither the spec nor the plan file makes them. Choices without a key of
 * their own ask request_is_small() where they are made. */
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

/* A score is x W_Q (s W_K)^T = (x W_Q W_K^T) s^T, and what a head adds to y is A (s W_V) W_O = (A s)(W_V W_O). Weights
 * are known when they are packed, so their product costs nothing in a call: keys, or values, are then the input itself,
 * and a projection is gone. What folding costs is that the input is wider than a head. */

/* Numbers that are packed, without biases and padding */
static double packed_weights(const struct layer *l, bool scores, bool values)
{
    const double heads = (double)l->h, heads_kv = (double)l->h_kv, in_q = (double)l->d_in_q, in = (double)l->d_in_kv;
    const double z = values ? in : (double)l->d_v, out = (double)l->d_model;
    if (!layer_attends(l))
        return out * (double)(layer_is_linear(l) ? l->d_out : l->d_ff * (layer_ffn_gated(l) ? 3 : 2));
    double size = l->w_o == W_O_DENSE ? heads * z * out : l->w_o == W_O_CONV ? (double)l->conv_width * z * out : 0;
    size += out * (double)l->d_ff * (layer_ffn_gated(l) ? 3 : 2);
    if (l->projected)
        return size;
    size += heads * in_q * (scores ? in : (double)l->d_k);
    if (!scores && !(l->tied && !l->cross))
        size += heads_kv * in * (double)l->d_k;
    if (!values && !l->identity)
        size += heads_kv * in * (double)l->d_v;
    return size;
}

/* Cost of reading so many weights in a call, in multiply-adds: 0 where they stay in L2. */
static double reading(double weights)
{
    return weights * (double)element_size(OPERANDS) > KEPT_WEIGHTS ? WEIGHT_READ * weights : 0;
}

/* What folding saves in a call of n queries and m keys: multiply-adds, and, reading of weights included, as a share of
 * the plain layer's cost; negative where it costs. */
struct fold_savings {
    double scores, values;             /* multiply-adds */
    double scores_share, values_share; /* of all work */
};

static struct fold_savings fold_savings(const struct layer *l, int64_t n, int64_t m)
{
    const struct layer_cost cost = layer_multiply_adds(l, n, m);
    const double queries = (double)n * (double)l->h, in = (double)l->d_in_kv;
    const double pairs = (double)visible_pairs(l, n, m) * (double)l->h;
    const double merge = l->w_o == W_O_CONV ? cost.output / (double)l->d_v : queries * (double)l->d_model;
    const double k = l->source_kept ? 0 : cost.k, v = l->source_kept ? 0 : cost.v; /* kept: most calls have them */
    const double plain = reading(packed_weights(l, false, false));
    const double all = cost.total - (cost.k - k) - (cost.v - v) + plain;
    struct fold_savings s = {.scores = cost.q + k + cost.scores - in * (queries * (double)l->d_in_q + pairs),
                             .values = v + cost.values + cost.output - in * (pairs + merge)};
    s.scores_share = (s.scores - reading(packed_weights(l, true, false)) + plain) / all;
    s.values_share = (s.values - reading(packed_weights(l, false, true)) + plain) / all;
    return s;
}

/* Gains are averaged over lengths as logarithms, so that twice as slow at one outweighs twice as fast at another. The
 * share is bounded, as the other pair may save what this one costs. */
static double log_gain(double share)
{
    return -log(fmax(0.01, 1 - share));
}

static struct plan_fold plan_fold(const struct layer *l, const struct plan_request *request)
{
    struct plan_fold f = {.d_score = l->d_k, .d_value = l->d_v, .d_z = l->d_v};
    if (!layer_attends(l))
        return f;
    const struct fold_savings full = fold_savings(l, l->seq_len, l->source_len);
    double scores = 0, values = 0;
    f.saved_scores = full.scores;
    f.saved_values = full.values;
    if (l->projected) /* no weights before the scores, and none before the values */
        return f;
    f.q_is_k = l->tied && !l->cross && !layer_has_tensor(l, TENSOR_G_Q);
    if (layer_has_cache(l) || l->train || layer_stores_weights(l)) /* keys and values are cached; gradients are of the
                                                                    * weights; and it is weights that are rounded */
        return f;
    for (int64_t part = 1; part <= SHORTEST_CALL; part *= 4) {
        const int64_t n = request_within(request, PLAN_TYPICAL_N, l->seq_len);
        const int64_t m = request_within(request, PLAN_TYPICAL_M, l->source_len);
        const int64_t queries = request_asks(request, PLAN_TYPICAL_N) ? n : ceil_div(l->seq_len, part);
        const int64_t keys = l->self ? queries
                           : request_asks(request, PLAN_TYPICAL_M) ? m : ceil_div(l->source_len, part);
        const struct fold_savings s = fold_savings(l, queries, keys);
        scores += log_gain(s.scores_share);
        values += log_gain(s.values_share);
        f.short_n = queries;
        f.short_m = keys;
        f.short_scores = 1 - s.scores_share;
        f.short_values = 1 - s.values_share;
    }
    const bool exact = l->bias && score_is_absolute(l); /* folded scores lack scale Q b_K, the same for a row's keys */
    f.scores = !layer_finishes(l) && !exact && request_or(request, PLAN_FOLD, scores > 0);
    f.values = l->w_o != W_O_NONE && !l->identity && request_or(request, PLAN_FOLD, values > 0);
    if (f.scores)
        f.d_score = l->d_in_kv;
    f.q_is_k = l->tied && !l->cross && !f.scores && !layer_has_tensor(l, TENSOR_G_Q);
    if (f.values) {
        f.d_value = l->d_in_kv;
        f.d_z = l->d_in_kv + (l->bias ? 1 : 0);
    }
    return f;
}

/* ---- sizes ---- */

/* Whether the keys and values of a head that a query sees exceed L2. */
static bool streams_head(const struct plan_isa *p, const struct layer *l)
{
    const struct plan_fold *fold = p->fold;
    int64_t left, right;
    visible_reach(l, &left, &right);
    const int64_t before = left != LAYER_UNBOUNDED ? left : l->source_len;
    const int64_t behind = right != LAYER_UNBOUNDED ? right : l->source_len;
    /* keys and values are both the input's own rows; rows that may have a key before them */
    const bool one = fold->scores && (fold->values || l->identity) && !p->value_blocks;
    const int64_t rows = l->offset == OFFSET_NONE ? l->seq_len : l->source_len;
    const double keys = (double)min(l->source_len, min(before + 1, rows) + behind);
    const int64_t key = fold->d_score * layout_element(p, LAYOUT_KEYS);
    const int64_t value = fold->d_value * layout_element(p, LAYOUT_VALUES);
    return keys * (double)(key + (one ? 0 : value)) > (double)p->isa->l2_bytes;
}

static int64_t choose_unroll(const struct plan_request *request, int64_t depth)
{
    const int64_t unroll = request_or(request, PLAN_UNROLL, UNROLL_AUTO);
    return unroll == PLAN_UNROLL_FULL ? depth : unroll;
}

/* Steps of a group in one iteration: at least those that share a byte or a word of i4, and as many iterations as fill
 * it. */
static int64_t unroll_group(int64_t wanted, int64_t least)
{
    int64_t unroll = WEIGHT_GROUP;
    while (unroll > least && unroll > wanted)
        unroll /= 2;
    return unroll;
}

/* Rows of a row group: as many as three quarters of L2 hold, at so many bytes of operand a row. */
static int64_t choose_group_rows(const struct plan_request *request, const struct plan_isa *p, int64_t bytes,
                                 int64_t rows)
{
    const int64_t model = (int64_t)(p->isa->l2_bytes * 3 / 4) / bytes;
    const int64_t fit = min(request_or(request, PLAN_GROUP_ROWS, model), MAX_GROUP_ROWS);
    /* near-equal groups, so that the last one is not small */
    const int64_t group = max(p->block, fit / p->block * p->block);
    const int64_t blocks = ceil_div(rows, p->block);
    const int64_t groups = max(1, ceil_div(blocks * p->block, group));
    return max(1, ceil_div(blocks, groups)) * p->block;
}

/* Panels between two that begin with a head: parts consist of whole heads, so that they can norm and rotate them. */
static int64_t complete_heads(const struct plan_panels *g, int64_t width)
{
    int64_t common = width; /* becomes the greatest common divisor */
    if (g->groups > 1)
        return g->finish > g->columns ? g->groups * g->panels : g->panels;
    for (int64_t rest = g->finish; rest != 0;) {
        const int64_t next = common % rest;
        common = rest;
        rest = next;
    }
    return min(g->panels, g->finish / common);
}

/* Elements of packed weights that so many steps of a column take: of i4 two steps share a byte, or with digits
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
static int64_t fast_rows(const struct plan_request *request, const struct plan_isa *p, const struct plan_panels *g,
                         int64_t vecs)
{
    return max(2, min(request_or(request, PLAN_PANEL_ROWS, rows_apart(g->a_row)), word_rows(p, vecs)));
}

/* Vectors of a panel of a fast product: as many accumulators as possible, as no blocks of tokens limit heights. 14 x 2
 * take 2 % less time than 8 x 3 (AVX-512), 4 x 3 take 3 % less than 6 x 2 (AVX2; measured, Zen 4). */
static int64_t fast_vecs(const struct plan_request *request, const struct plan_isa *p, const struct plan_panels *g)
{
    int64_t best = 2;
    for (int64_t vecs = 3; vecs <= 4; vecs++)
        if (vecs * fast_rows(request, p, g, vecs) >= best * fast_rows(request, p, g, best) &&
            word_rows(p, vecs) > 1)
            best = vecs;
    return best;
}

/* Two tiles of rows and two panels at a time. The sums of rows, and the operand, are in L2 together. */
static void plan_fast(struct plan_panels *g, const struct plan_request *request, const struct plan_isa *p,
                      int64_t tokens)
{
    g->fast_pairs = g->columns / (g->vecs * p->lanes) / 2;
    g->fast = max(2, near_equal(min(g->group_rows, tokens) / 2, fast_rows(request, p, g, g->vecs)));
    const int64_t panels = ceil_div(FAST_PART, g->vecs * p->lanes);
    g->part_panels = round_up(near_equal(g->panels, max(g->part_panels, panels)), max(1, g->finish) * 2);
    g->part_panels = min(g->part_panels, g->panels);
}

/* Whether a product of so many words takes tile registers, for whole rows of theirs; vectors take what is left. Sums go
 * through memory, which few words do not pay for: of 16 the product takes as long as by vectors, of 32 a fifth less, of
 * 48 and more 2.5 times less (Emerald Rapids). */
static bool takes_registers(const struct plan_isa *p, int64_t word, int64_t depth)
{
    return p->tile_rows > 0 && p->whole && word == 4 && depth >= LEAST_TILE_WORDS;
}

/* Whether one row or two take wide panels, and more rows parts of them. One row's sums wait for each other, as an
 * addition takes four cycles; for as many sums of several rows registers are too few. With weights in L3 one row takes
 * 0.75 of the time that it does with panels of three vectors, 64 rows 0.9 (AVX2, Zen 4). */
static bool wide_steps(const struct plan_isa *p, const struct plan_request *request)
{
    return p->isa->fma_rows && p->steps && p->weights == TENSOR_I8 && !p->digits && !request_is_small(request) &&
           !request_asks(request, PLAN_PANEL_VECS);
}

/* A panel of narrow weights becomes f32 once for all tiles of a part, where these are two or three and more, and L2 has
 * room: with i4, units of groups too. */
static void plan_floats(struct plan_panels *g, const struct plan_request *request, const struct plan_isa *p,
                        int64_t rows)
{
    const bool grouped = g->weights == TENSOR_I4;
    const int64_t depth = g->k_block + (grouped ? ceil_div(g->k_block, WEIGHT_GROUP) : 0);
    const int64_t floats = g->matrices * g->taps * depth * g->vecs * p->lanes;
    const bool fits = floats * (int64_t)element_size(TENSOR_F32) <= (int64_t)p->isa->l2_bytes / 2;
    const bool narrow = g->weights != TENSOR_F32 && g->word == 1 && !p->digits;
    const bool high = g->rows >= CONVERTED_ROWS;
    g->floats_rows = (high ? 3 : 2) * g->rows;
    const bool pays = (grouped || !high) && min(rows, g->group_rows) >= g->floats_rows;
    g->floats = narrow && fits && pays && !request_is_small(request) ? floats : 0;
}

/* Rows of a product in a typical call of a full sequence */
static int64_t unasked_tokens(const struct plan_panels *g, const struct plan_request *request, int64_t tokens)
{
    return min(tokens, request_or(request, g->of_source ? PLAN_TYPICAL_M : PLAN_TYPICAL_N, tokens));
}

/* `tokens` of a full sequence, `rows` of all that are projected together */
static void plan_panels(struct plan_panels *g, const struct plan_request *request, const struct plan_isa *p,
                        int64_t tokens, int64_t rows)
{
    const int64_t element = (int64_t)element_size(g->element);
    g->word = max(1, g->word);
    g->weights = g->word > 1 ? TENSOR_I32 : p->weights;
    g->inputs = g->inputs > 0 ? g->inputs : g->depth;
    g->packed_depth = (g->word > 1 ? p->corrections : 0) + packed_steps(p, g->weights, g->depth);
    g->rest = request_is_small(request) ? 0 : tokens % p->block;
    const bool grouped = g->weights == TENSOR_I4 || p->digits; /* steps */
    const bool to_end = g->word > 1 && p->whole; /* sums of whole numbers */
    const int64_t max_depth = to_end ? g->depth
                            : request_or(request, PLAN_PANEL_DEPTH, request_is_small(request) ? g->depth : MAX_DEPTH);
    const int64_t blocks = g->taps > 1 ? 1 : ceil_div(g->depth, max_depth);
    g->k_block = min(g->depth, round_up(ceil_div(g->depth, blocks), grouped ? WEIGHT_GROUP : 8));
    const int64_t operand = (blocks > 1 ? g->k_block : g->a_block / p->block) * element;
    const int64_t of_fast = choose_group_rows(request, p, operand * 7 / 4, rows); /* rows beside their sums */
    g->classical = p->fast ? stays_classical(g, min(rows, of_fast)) : NULL;
    if (g->classical == NULL && p->unasked && unasked_tokens(g, request, tokens) < FAST_UNASKED)
        g->classical = "few rows are typical";
    const bool fast = p->fast && g->classical == NULL;
    const bool wide = wide_steps(p, request);
    if (request_asks(request, PLAN_PANEL_VECS))
        g->vecs = request_within(request, PLAN_PANEL_VECS, ceil_div(g->columns, p->lanes));
    else if (fast)
        g->vecs = fast_vecs(request, p, g);
    else if (request_is_small(request))
        g->vecs = small_panel_vecs(p->isa, g->columns, min(p->block, rows_apart(g->a_row)));
    else if (takes_registers(p, g->word, g->depth))
        g->vecs = min(TILED_VECS, ceil_div(g->columns, p->lanes));
    else if (wide)
        g->vecs = min(WIDE_VECS, ceil_div(g->columns, p->lanes));
    else
        g->vecs = choose_panel_vecs(request, p, g, min(g->depth, max_depth), tokens);
    g->tall_vecs = wide ? min(g->vecs, TALL_VECS) : g->vecs;
    g->low_rows = tile_rows(p->isa, g->vecs);
    g->rows = panel_rows(request, p, g, g->tall_vecs);
    g->unroll = g->unroll_rest = choose_unroll(request, g->depth);
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
    g->group_rows = fast ? of_fast : choose_group_rows(request, p, operand, rows);
    const double panel = (double)min(g->group_rows, rows) * (double)g->panel_size;
    g->part_panels = min(g->groups * g->panels, (int64_t)(PART_MULTIPLY_ADDS / panel) + 1);
    if (g->finish > 0) {
        g->finish = complete_heads(g, g->vecs * p->lanes);
        g->part_panels = min(g->groups * g->panels, round_up(g->part_panels, g->finish));
    }
    plan_floats(g, request, p, rows);
    if (fast)
        plan_fast(g, request, p, rows);
}

static void plan_lanes(struct plan_lanes *g, const struct plan_request *request, const struct plan_isa *p,
                       int64_t columns, int64_t queries)
{
    const int64_t rows = request_within(request, PLAN_LANE_ROWS, rows_fit(request, p->isa, p->vecs));
    g->unroll = g->unroll_rest = min(choose_unroll(request, g->depth), g->depth);
    const int64_t tiles = ceil_div(g->columns, request_is_small(request) ? one_height(g->columns, rows) : rows);
    g->height[0] = ceil_div(g->columns, tiles);
    g->height[1] = g->height[0] - 1;
    g->count[1] = g->height[0] * tiles - g->columns;
    g->count[0] = tiles - g->count[1];
    g->group_rows = choose_group_rows(request, p, columns * (int64_t)element_size(g->element), queries);
    const double tile = (double)min(g->group_rows, queries) * (double)(g->depth * g->height[0]);
    g->pair = p->vecs > 1 && 2 * g->height[0] <= p->rows_single ? 2 : 1;
    g->part_tiles = min(g->groups * tiles, round_up((int64_t)(PART_MULTIPLY_ADDS / tile) + 1, g->pair));
}

/* A row stride at a multiple of 2 KiB would put every row into the same few sets of L1: one vector more. */
static int64_t row_stride(const struct plan_isa *p, int64_t columns)
{
    return columns % 512 == 0 ? columns + p->lanes : columns;
}

/* Appends a product with its usual operands and epilogue. */
static struct product *add(struct plan_isa *p, const struct layer *layer, enum product_name id, enum product_kind kind)
{
    static const struct product rows[] = {
        [PRODUCT_TRANSPOSE] = {.name = "transpose", .writes = LAYOUT_S_T},
        [PRODUCT_QUERIES] = {.name = "queries", .label = "queries", .reads = {LAYOUT_X}, .writes = LAYOUT_QUERIES},
        [PRODUCT_KEYS] = {.name = "keys", .label = "keys", .reads = {LAYOUT_SOURCE}, .writes = LAYOUT_KEYS},
        [PRODUCT_VALUES] = {.name = "values", .label = "inputs", .reads = {LAYOUT_SOURCE}, .writes = LAYOUT_VALUES},
        [PRODUCT_APPEND] = {.name = "append", .reads = {LAYOUT_KEYS, LAYOUT_VALUES}, .writes = LAYOUT_K_CACHE},
        [PRODUCT_SCORES] = {.name = "scores", .reads = {LAYOUT_QUERIES, LAYOUT_KEYS}, .writes = LAYOUT_SCORES,
                            .epilogue = EPILOGUE_SOFTMAX},
        [PRODUCT_SUMS] = {.name = "weighted sums", .reads = {LAYOUT_SCORES, LAYOUT_VALUES}, .writes = LAYOUT_Z},
        [PRODUCT_OUTPUT] = {.name = "output", .label = "output", .reads = {LAYOUT_Z}, .writes = LAYOUT_Y},
        [PRODUCT_NORM_X] = {.name = "norm of x", .label = "norm_x", .reads = {LAYOUT_X}, .writes = LAYOUT_NORMED},
        [PRODUCT_NORM_STREAM] = {.name = "norm", .label = "norm_stream", .reads = {LAYOUT_STREAM},
                                 .writes = LAYOUT_NORMED},
        [PRODUCT_HIDDEN] = {.name = "hidden", .label = "hidden", .reads = {LAYOUT_NORMED}, .writes = LAYOUT_HIDDEN},
        [PRODUCT_DOWN] = {.name = "down", .label = "down", .reads = {LAYOUT_HIDDEN}, .writes = LAYOUT_Y},
        [PRODUCT_NORM_Y] = {.name = "norm of y", .label = "norm_y", .reads = {LAYOUT_Y}, .writes = LAYOUT_Y},
        [PRODUCT_ROUND_X] = {.name = "x in words", .label = "round_x", .writes = LAYOUT_ROUNDED_X},
        [PRODUCT_ROUND_SOURCE] = {.name = "the source in words", .label = "round_source",
                                  .writes = LAYOUT_ROUNDED_SOURCE},
        [PRODUCT_ROUND_KEYS] = {.name = "keys in words", .label = "round_keys",
                                .writes = LAYOUT_ROUNDED_KEYS},
        [PRODUCT_ROUND_VALUES] = {.name = "values in words", .label = "round_values", .reads = {LAYOUT_VALUES},
                                  .writes = LAYOUT_ROUNDED_VALUES},
        [PRODUCT_ROUND_Z] = {.name = "z in words", .label = "round_z", .writes = LAYOUT_ROUNDED_Z},
        [PRODUCT_ROUND_STREAM] = {.name = "rows behind attention in words", .label = "round_stream",
                                  .writes = LAYOUT_ROUNDED_STREAM},
        [PRODUCT_ROUND_HIDDEN] = {.name = "hidden rows in words", .label = "round_hidden",
                                  .writes = LAYOUT_ROUNDED_HIDDEN},
        [PRODUCT_WIDEN_X] = {.name = "x as f32", .label = "widen_x", .reads = {LAYOUT_TYPED_X}, .writes = LAYOUT_X},
        [PRODUCT_WIDEN_SOURCE] = {.name = "source as f32", .label = "widen_source", .reads = {LAYOUT_TYPED_SOURCE},
                                  .writes = LAYOUT_SOURCE},
        [PRODUCT_WIDEN_V] = {.name = "v as f32", .label = "widen_v", .reads = {LAYOUT_TYPED_V},
                             .writes = LAYOUT_VALUES},
        [PRODUCT_LINEAR] = {.name = "linear", .label = "linear", .reads = {LAYOUT_X}, .writes = LAYOUT_Y},
    };
    const bool ffn = id == PRODUCT_HIDDEN || id == PRODUCT_DOWN;
    const bool weights = kind == PRODUCT_PANELS || kind == PRODUCT_LANES;
    const bool heads = id == PRODUCT_QUERIES || id == PRODUCT_KEYS;
    struct product *const g = &p->products[p->product_count++];
    *g = rows[id];
    g->id = id;
    g->kind = kind;
    g->epilogue |= (weights && (ffn ? layer->ffn_bias : layer->bias) ? EPILOGUE_BIAS : 0) |
                   (kind == PRODUCT_ROWS ? EPILOGUE_NORM : 0) |
                   (heads && layer->qk_norm != NORM_NONE ? EPILOGUE_NORM : 0) |
                   (heads && layer->rope.kind != ROPE_NONE ? EPILOGUE_TURN : 0);
    return g;
}

static struct layout rows_of(const char *name, enum layout_owner owner, int64_t heads, int64_t tokens, int64_t features,
                             int64_t head, int64_t row)
{
    return (struct layout){.name = name, .owner = owner,
                           .shape = {heads, 1, tokens, features}, .stride = {head, 0, row, 1}};
}

/* A tensor [token][head][d] or [head][token][d] of a call. With heads = first their step is known only then. */
static struct layout given_of(const struct layer *layer, const char *name, int64_t heads, int64_t tokens, int64_t d)
{
    const bool first = layer->heads_first;
    return rows_of(name, OWNER_CALLER, heads, tokens, d, first ? STRIDE_OF_CALL : d, (first ? 1 : heads) * d);
}

/* [block of tokens][head][feature][token]; `head`: features from head to head */
static struct layout blocks_of(const struct plan_isa *p, const char *name, int64_t heads, int64_t blocks,
                               int64_t features, int64_t head, int64_t columns)
{
    return (struct layout){.name = name, .owner = OWNER_SCRATCH, .shape = {heads, blocks, p->block, features},
                           .stride = {head * p->block, columns * p->block, 1, p->block}};
}

/* x, or the source; a head's columns of it */
static struct layout input_of(const struct plan_isa *p, const struct layer *layer, const char *name, bool source)
{
    const int64_t d = source ? layer->d_in_kv : layer->d_in_q, columns = source ? layer->d_source : layer->d_model;
    const bool copied = (layer_norms_first(layer) || layer_types_tensors(layer)) && !(source && layer->cross);
    return rows_of(name, OWNER_CALLER, layer->split ? layer->h : 1,
                   source ? layer_new_keys(layer) : layer->seq_len, d, layer->split ? d : 0,
                   copied ? row_stride(p, columns) : columns);
}

/* Whether rows are where a call has them */
static bool is_callers(const struct plan_isa *p, enum layout_name id)
{
    return p->layouts[id].owner == OWNER_CALLER;
}

/* The rows that queries, or keys and values, are made of */
static enum layout_name input_read(const struct layer *layer, bool queries)
{
    return layer->cross && !queries ? LAYOUT_SOURCE : layer_norms_first(layer) ? LAYOUT_NORMED : LAYOUT_X;
}

/* Rows as wide as x in the scratch */
static struct layout stream_of(const struct plan_isa *p, const struct layer *layer, const char *name)
{
    return rows_of(name, OWNER_SCRATCH, 1, max(layer->seq_len, p->batch_rows), layer->d_model, 0,
                   row_stride(p, layer->d_model));
}

/* ---- tensors of two bytes ---- */

/* Under tensor_type: `typed` becomes the caller's tensor, with row stride `row`, and `of`, which kernels read, floats
 * in the scratch. */
static void type_input(struct plan_isa *p, const struct layer *layer, enum layout_name of, enum layout_name typed,
                       int64_t tokens, int64_t row)
{
    if (!layer_types_tensors(layer))
        return;
    struct layout *const l = &p->layouts[of];
    p->layouts[typed] = *l;
    p->layouts[typed].element = layer->tensor_type;
    p->layouts[typed].stride[AXIS_TOKEN] = row;
    l->owner = OWNER_SCRATCH;
    l->shape[AXIS_TOKEN] = tokens;
    if (l->stride[AXIS_HEAD] == STRIDE_OF_CALL)
        l->stride[AXIS_HEAD] = tokens * l->stride[AXIS_TOKEN];
}

/* Appends the conversion to floats: `numbers` of a row, `rows` rows in a part. */
static void add_widen(struct plan_isa *p, const struct layer *layer, enum product_name id, enum layout_name of,
                      int64_t numbers, int64_t rows)
{
    if (!layer_types_tensors(layer))
        return;
    struct product *const product = add(p, layer, id, PRODUCT_WIDEN);
    product->writes = of;
    product->widen = (struct plan_widen){.numbers = numbers, .part_rows = rows};
}

/* The same of y: floats in the scratch, or in a block of the worker's (plan_narrow), before it is rounded to the
 * caller's. */
static void type_output(struct plan_isa *p, const struct layer *layer)
{
    if (!layer_types_tensors(layer))
        return;
    struct layout *const y = &p->layouts[LAYOUT_Y];
    p->layouts[LAYOUT_TYPED_Y] = *y;
    p->layouts[LAYOUT_TYPED_Y].element = layer->tensor_type;
    *y = rows_of("y as f32", OWNER_SCRATCH, 1, max(layer->seq_len, p->batch_rows), layer->d_out, 0,
                 row_stride(p, layer->d_out));
}

static bool norms_y(const struct layer *layer)
{
    return layer->block == BLOCK_POST || layer->block == BLOCK_SANDWICH;
}

/* A product whose results are y rounds them where its sums are complete: in a block of the worker's that is in L1, or
 * where slabs leave them. Behind a norm that norm does. */
static void plan_narrow(struct plan_isa *p, const struct layer *layer, struct product *product)
{
    struct plan_panels *const g = &product->panels;
    if (!layer_types_tensors(layer) || product->writes != LAYOUT_Y || norms_y(layer))
        return;
    g->narrows = g->ends = true;
    product->epilogue |= EPILOGUE_NARROW;
    g->apart = g->k_block >= g->depth;
    if (!g->apart)
        return;
    g->c_row = g->vecs * p->lanes;
    p->layouts[LAYOUT_Y] = rows_of("y as f32", OWNER_WORKER, 1, p->block, g->c_row, 0, g->c_row);
}

/* Whether products with weights read other rows than floats */
static bool reads_rounded(const struct plan_isa *p)
{
    return p->word > 1 || p->digits;
}

/* Under precision a product reads words, and with digits those: appends the rounding of rows in `from`, `numbers`
 * numbers of each head, or of all heads as one. A row of whole numbers is followed by its scale. Returns the layout
 * that the product reads. */
static enum layout_name plan_round(struct plan_isa *p, const struct layer *layer, enum product_name id,
                                   enum layout_name from, int64_t numbers)
{
    if (!reads_rounded(p))
        return from;
    struct product *const product = add(p, layer, id, PRODUCT_ROUND);
    const struct layout *const l = &p->layouts[from];
    const int64_t tokens = max(l->shape[AXIS_TOKEN], max(p->batch_rows, p->batch_sources));
    const int64_t heads = l->stride[AXIS_HEAD] * l->shape[AXIS_HEAD] == numbers ? 1 : l->shape[AXIS_HEAD];
    const bool keys = id == PRODUCT_ROUND_KEYS;
    const int64_t word = keys ? p->core_word : p->word;
    const int64_t room = p->digits ? round_up(numbers, WEIGHT_GROUP)
                                   : round_up(numbers, max(p->lanes, word)) / word; /* whole vectors are written */
    const int64_t head = room + (p->whole ? 1 : 0);
    const int64_t bytes = heads * numbers * (int64_t)element_size(TENSOR_F32);
    product->reads[0] = from;
    product->round = (struct plan_round){
        .heads = heads, .numbers = numbers, .head = l->stride[AXIS_HEAD], .row = l->stride[AXIS_TOKEN],
        .word = word, .room = room,
        .levels = keys ? p->score_levels : p->word > 1 ? layer_levels(layer, numbers) : 0,
        .once = min(ROUND_ROWS, max(1, (int64_t)p->isa->l1d_bytes / 2 / bytes)),
        .part_rows = ceil_div(PART_NUMBERS, heads * numbers)};
    const bool tiled = !keys && takes_registers(p, word, ceil_div(numbers, word)); /* rows begin with a cache line */
    p->layouts[product->writes] = rows_of(product->name, OWNER_SCRATCH, heads, tokens, ceil_div(numbers, word),
                                          heads > 1 ? head : 0,
                                          row_stride(p, tiled ? round_up(heads * head, LINE_FLOATS) : heads * head));
    p->layouts[product->writes].element = TENSOR_I32;
    return product->writes;
}

static void plan_keys_words(struct plan_isa *p, const struct layer *layer)
{
    plan_round(p, layer, PRODUCT_ROUND_KEYS, LAYOUT_KEYS, layer->d_k);
    p->words_room = plan_product(p, PRODUCT_ROUND_KEYS)->round.room;
}

/* Values as the weighted sums of whole numbers read them: words of the same feature of core_word keys of a sequence,
 * the first a multiple of that, and behind them the scales of all. */
static void plan_values_words(struct plan_isa *p, const struct layer *layer)
{
    if (!p->rounds_values)
        return;
    struct product *const product = add(p, layer, PRODUCT_ROUND_VALUES, PRODUCT_COPY);
    /* without padding sequences may begin at any token, and each at the word of that number */
    const int64_t own = layer->pad_skipped ? layer->source_len : ceil_div(layer->source_len, p->core_word);
    const int64_t several = max(own, p->batch_sources);
    p->values_room = round_up(layer->d_v, p->lanes);
    const int64_t row = row_stride(p, p->values_room + p->core_word);
    p->layouts[LAYOUT_ROUNDED_VALUES] = rows_of(product->name, OWNER_SCRATCH, layer->h_kv, several, layer->d_v,
                                                several * row, row);
    p->layouts[LAYOUT_ROUNDED_VALUES].element = TENSOR_I32;
}

/* Fields of a product that reads words */
static void reads_words(const struct plan_isa *p, const struct product *product, struct plan_panels *g)
{
    for (const struct product *of = p->products; reads_rounded(p) && of < p->products + p->product_count; of++)
        if (of->kind == PRODUCT_ROUND && of->writes == product->reads[0]) {
            g->word = p->word;
            g->depth = ceil_div(of->round.numbers, p->word);
            g->inputs = of->round.numbers;
            g->a_scale = of->round.room;
            g->levels = of->round.levels;
        }
}

/* Queries, keys or values. Heads that read all of the input are one matrix, and its panels run over their borders.
 * Tokens lie [head][token][d] where a vector never holds parts of two heads (or where a head has a matrix of its own),
 * which attention reads faster, else [token][head][d], as they always do where Z takes their place. */
static void plan_rows(struct plan_isa *p, const struct layer *layer, enum product_name id, int64_t d,
                      const struct plan_request *request)
{
    const bool queries = id == PRODUCT_QUERIES, side_by_side = queries && p->z_in_q;
    const bool by_head = layer->split || (queries && p->fold->scores); /* W_Q W_K^T has a matrix for each head */
    const bool arrays = !side_by_side && (by_head || d % p->lanes == 0);
    const int64_t heads = queries ? layer->h : layer->h_kv, most = queries ? layer->seq_len : layer_new_keys(layer);
    const int64_t tokens = max(most, queries ? p->batch_rows : p->batch_sources);
    const int64_t row = side_by_side ? heads * d : row_stride(p, arrays ? d : heads * d);
    const int64_t head = arrays ? tokens * row : d;
    struct product *const product = add(p, layer, id, PRODUCT_PANELS);
    product->reads[0] = input_read(layer, queries);
    if (reads_rounded(p))
        product->reads[0] = product->reads[0] == LAYOUT_SOURCE ? LAYOUT_ROUNDED_SOURCE : LAYOUT_ROUNDED_X;
    const struct layout *const a = &p->layouts[product->reads[0]];
    p->layouts[product->writes] = rows_of(product->name, OWNER_SCRATCH, heads, tokens, d, head, row);
    if (layer->train && (product->epilogue & EPILOGUE_NORM) != 0) {
        p->layouts[queries ? LAYOUT_RAW_QUERIES : LAYOUT_RAW_KEYS] = p->layouts[product->writes];
        p->layouts[queries ? LAYOUT_RAW_QUERIES : LAYOUT_RAW_KEYS].name = queries ? "raw queries" : "raw keys";
    }
    struct plan_panels *const g = &product->panels;
    *g = (struct plan_panels){
        .element = a->element,
        .bias = layer->bias,
        .matrices = 1,
        .from_caller = is_callers(p, product->reads[0]),
        .depth = a->shape[AXIS_FEATURE],
        .taps = 1,
        .groups = by_head ? heads : 1,
        .columns = by_head ? d : heads * d,
        .a_row = a->stride[AXIS_TOKEN],
        .a_k = a->stride[AXIS_FEATURE],
        .a_group = a->stride[AXIS_HEAD],
        .a_block = a->stride[AXIS_TOKEN] * p->block,
        .c_row = row,
        .c_group = arrays || by_head ? head : 0,
        .c_split = arrays && !by_head && heads > 1 ? d : 0,
        .c_of_call = p->holds && arrays,
        .of_source = !queries && layer->cross,
    };
    reads_words(p, product, g);
    if ((product->epilogue & (EPILOGUE_NORM | EPILOGUE_TURN)) != 0)
        g->finish = (layer->qk_norm == NORM_RMS_ALL ? heads : 1) * d;
    plan_panels(g, request, p, most, tokens);
}

/* Where attention leaves Z: as it has it, a block of queries along the lanes, or turned into rows. A panel of W_O
 * passes all of a block, of which the numbers of one tile's tokens lie far apart. */
static void plan_z(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const int64_t block = layer->h * p->fold->d_z * p->block;
    const bool stays = block * layout_element(p, LAYOUT_Z) <= (int64_t)p->isa->l1d_bytes / 2;
    const bool rows = 2 * layer->seq_len < p->lanes || p->batch_rows > layer->seq_len || !stays;
    p->z_rows = layer->w_o != W_O_DENSE || layer_has_cache(layer) || layer->train || reads_rounded(p) ||
                request_or(request, PLAN_Z_LAYOUT, rows ? PLAN_ROWS : PLAN_BLOCKS) == PLAN_ROWS;
    p->z_in_q = !p->holds && layer->w_o == W_O_DENSE && p->z_rows && !layer->projected && !p->fold->q_is_k &&
                p->fold->d_score == p->fold->d_z;
    const int64_t d = p->fold->d_z, columns = layer->h * d, n = max(layer->seq_len, p->batch_rows);
    p->z_front = layer->w_o == W_O_CONV ? layer_conv_pad(layer) : 0;
    p->z_back = layer->w_o == W_O_CONV ? layer->conv_width - 1 - p->z_front : 0;
    const struct layout y = given_of(layer, "y", layer->h, layer->seq_len, d);
    p->layouts[LAYOUT_Z] = layer->w_o == W_O_NONE ? y
                         : p->z_rows ? rows_of("z", OWNER_SCRATCH, layer->h, p->z_front + n + p->z_back, d, d, columns)
                                     : blocks_of(p, "z", layer->h, p->query_blocks, d, d, columns);
    if (layer->w_o != W_O_NONE || !layer_types_tensors(layer))
        return;
    p->layouts[LAYOUT_TYPED_Y] = y;
    p->layouts[LAYOUT_TYPED_Y].element = layer->tensor_type;
    p->layouts[LAYOUT_Z] = layer_has_cache(layer) ? p->layouts[LAYOUT_TYPED_Y] /* rounded from the sums themselves */
                                                  : rows_of("z", OWNER_WORKER, 1, p->block, d, 0, d);
}

static void plan_output(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool conv = layer->w_o == W_O_CONV;
    const int64_t d = p->layouts[LAYOUT_Z].shape[AXIS_FEATURE], z_columns = layer->h * d;
    const enum layout_name read = plan_round(p, layer, PRODUCT_ROUND_Z, LAYOUT_Z, conv ? d : z_columns);
    const struct layout *const z = &p->layouts[read];
    struct product *const product = add(p, layer, PRODUCT_OUTPUT, PRODUCT_PANELS);
    product->reads[0] = read;
    struct plan_panels *const g = &product->panels;
    product->name = conv ? "convolution" : product->name;
    p->layouts[LAYOUT_Y] = rows_of("y", OWNER_CALLER, 1, layer->seq_len, layer->d_model, 0, layer->d_model);
    type_output(p, layer);
    if (layer_has_ffn(layer)) {
        product->writes = LAYOUT_STREAM;
        p->layouts[LAYOUT_STREAM] = stream_of(p, layer, "stream");
    }
    if (layer_has_block(layer) && layer->block != BLOCK_SANDWICH) {
        product->reads[1] = LAYOUT_X;
        product->epilogue |= EPILOGUE_RESIDUAL;
    }
    const int64_t row = p->layouts[product->writes].stride[AXIS_TOKEN];
    *g = (struct plan_panels){
        .element = z->element,
        .bias = layer->bias,
        .matrices = 1,
        .to_caller = is_callers(p, product->writes),
        .ends = (product->epilogue & EPILOGUE_RESIDUAL) != 0,
        .depth = conv ? d : z_columns,
        .taps = conv ? layer->conv_width : 1,
        .groups = conv ? layer->h : 1,
        .columns = conv ? layer->d_model / layer->h : layer->d_model,
        .a_row = z->stride[AXIS_TOKEN],
        .a_k = z->stride[AXIS_FEATURE],
        .a_group = conv ? z->stride[AXIS_HEAD] : 0,
        .a_tap = conv ? z->stride[AXIS_TOKEN] : 0,
        .a_block = reads_rounded(p) ? z->stride[AXIS_TOKEN] * p->block : z_columns * p->block,
        .c_row = row,
        .c_group = conv ? layer->d_model / layer->h : 0,
    };
    reads_words(p, product, g);
    plan_panels(g, request, p, layer->seq_len, max(layer->seq_len, p->batch_rows));
    plan_narrow(p, layer, product);
}

/* ---- the block around attention ---- */

static struct product *add_rows(struct plan_isa *p, const struct layer *layer, enum product_name id)
{
    struct product *const product = add(p, layer, id, PRODUCT_ROWS);
    const int64_t bytes = layer->d_model * layout_element(p, LAYOUT_STREAM);
    product->rows.once = min(p->lanes, max(1, (int64_t)p->isa->l1d_bytes / 2 / bytes));
    product->rows.part_rows = round_up(ceil_div(PART_NUMBERS, layer->d_model), product->rows.once);
    return product;
}

static void add_norm(struct product *product, int64_t norm, enum layout_name from, enum layout_name residual,
                     enum layout_name to)
{
    const enum layout_name gain = LAYOUT_NORMS + 2 * ((enum layout_name)norm - 1);
    product->rows.steps[product->rows.step_count].norm = norm;
    product->rows.steps[product->rows.step_count].from = from;
    product->rows.steps[product->rows.step_count].residual = residual;
    product->rows.steps[product->rows.step_count].to = to;
    product->rows.steps[product->rows.step_count].gain = gain;
    product->rows.steps[product->rows.step_count++].shift = gain + 1;
    product->reads[0] = from;
    product->reads[1] = residual != LAYOUT_NONE ? residual : product->reads[1];
    product->writes = to;
}

/* Rows that are normed before attention reads them; in parallel those of the feed-forward too. */
static void plan_norm_x(struct plan_isa *p, const struct layer *layer)
{
    struct product *const product = add_rows(p, layer, PRODUCT_NORM_X);
    product->rows.widens = layer_types_tensors(layer);
    if (layer->block == BLOCK_PARALLEL && layer_norms(layer) == 2) {
        p->layouts[LAYOUT_NORMED_2] = stream_of(p, layer, "normed for the feed-forward");
        add_norm(product, 2, LAYOUT_X, LAYOUT_NONE, LAYOUT_NORMED_2);
    }
    add_norm(product, 1, LAYOUT_X, LAYOUT_NONE, LAYOUT_NORMED);
}

/* The norm between attention and the feed-forward */
static void plan_norm_stream(struct plan_isa *p, const struct layer *layer)
{
    if (layer->block == BLOCK_PARALLEL)
        return;
    struct product *const product = add_rows(p, layer, PRODUCT_NORM_STREAM);
    if (layer->block == BLOCK_SANDWICH)
        add_norm(product, 2, LAYOUT_STREAM, LAYOUT_X, LAYOUT_STREAM);
    if (layer->block == BLOCK_POST)
        add_norm(product, 1, LAYOUT_STREAM, LAYOUT_NONE, LAYOUT_STREAM);
    else
        add_norm(product, layer->block == BLOCK_PRE ? 2 : 3, LAYOUT_STREAM, LAYOUT_NONE, LAYOUT_NORMED);
}

/* The norm of y, of blocks that end with one */
static void plan_norm_y(struct plan_isa *p, const struct layer *layer)
{
    const enum layout_name residual = layer_has_ffn(layer) && layer_attends(layer) ? LAYOUT_STREAM : LAYOUT_X;
    if (!norms_y(layer))
        return;
    struct product *const product = add_rows(p, layer, PRODUCT_NORM_Y);
    product->rows.narrows = layer_types_tensors(layer);
    product->epilogue |= product->rows.narrows ? EPILOGUE_NARROW : 0;
    add_norm(product, layer_norms(layer), LAYOUT_Y, layer->block == BLOCK_SANDWICH ? residual : LAYOUT_NONE, LAYOUT_Y);
}

/* The rows that the feed-forward reads, or the one product of layer = linear */
static enum layout_name rows_read(const struct plan_isa *p, const struct layer *layer)
{
    if (!layer_attends(layer))
        return layer_norms_first(layer) ? LAYOUT_NORMED : LAYOUT_X;
    return layer->block == BLOCK_POST ? LAYOUT_STREAM
         : p->layouts[LAYOUT_NORMED_2].name != NULL ? LAYOUT_NORMED_2 : LAYOUT_NORMED;
}

static void plan_ffn(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const int64_t tokens = max(layer->seq_len, p->batch_rows), d = layer->d_model, d_ff = layer->d_ff;
    const bool gated = layer_ffn_gated(layer);
    const enum product_name round = layer_attends(layer) ? PRODUCT_ROUND_STREAM : PRODUCT_ROUND_X;
    const enum layout_name read = plan_round(p, layer, round, rows_read(p, layer), d);
    struct product *const hidden = add(p, layer, PRODUCT_HIDDEN, PRODUCT_PANELS);
    hidden->reads[0] = read;
    hidden->epilogue |= EPILOGUE_ACTIVATION | (gated ? EPILOGUE_GATE : 0);
    struct plan_panels *const up = &hidden->panels;
    const int64_t a_row = p->layouts[hidden->reads[0]].stride[AXIS_TOKEN];
    *up = (struct plan_panels){
        .element = p->layouts[hidden->reads[0]].element, .bias = layer->ffn_bias, .matrices = gated ? 2 : 1,
        .depth = d, .taps = 1, .groups = 1, .columns = d_ff, .a_row = a_row, .a_k = 1, .a_block = a_row * p->block,
        .from_caller = is_callers(p, hidden->reads[0]), .ends = true,
    };
    reads_words(p, hidden, up);
    plan_panels(up, request, p, layer->seq_len, tokens);
    /* sums of gates wait for the next slab beside the others, else for those of their panel in L1 */
    const bool wait = gated && up->k_block < up->depth;
    up->c_row = row_stride(p, wait ? 2 * d_ff : d_ff);
    p->layouts[LAYOUT_HIDDEN] = rows_of("hidden", OWNER_SCRATCH, 1, tokens, wait ? 2 * d_ff : d_ff, 0, up->c_row);
    if (gated && !wait)
        p->layouts[LAYOUT_GATES] = rows_of("gates", OWNER_WORKER, 1, p->block, up->vecs * p->lanes, 0,
                                           up->vecs * p->lanes);

    const enum layout_name of_hidden = plan_round(p, layer, PRODUCT_ROUND_HIDDEN, LAYOUT_HIDDEN, d_ff);
    struct product *const down = add(p, layer, PRODUCT_DOWN, PRODUCT_PANELS);
    down->reads[0] = of_hidden;
    if (layer_has_block(layer) && layer->block != BLOCK_SANDWICH) {
        down->reads[1] = layer_attends(layer) ? LAYOUT_STREAM : LAYOUT_X;
        down->epilogue |= EPILOGUE_RESIDUAL;
    }
    const int64_t hidden_row = p->layouts[of_hidden].stride[AXIS_TOKEN];
    down->panels = (struct plan_panels){
        .element = p->layouts[of_hidden].element, .bias = layer->ffn_bias, .matrices = 1, .depth = d_ff,
        .taps = 1, .groups = 1, .columns = d, .a_row = hidden_row, .a_k = 1, .a_block = hidden_row * p->block,
        .c_row = p->layouts[LAYOUT_Y].stride[AXIS_TOKEN], .to_caller = is_callers(p, LAYOUT_Y),
        .ends = (down->epilogue & EPILOGUE_RESIDUAL) != 0,
    };
    reads_words(p, down, &down->panels);
    plan_panels(&down->panels, request, p, layer->seq_len, tokens);
    plan_narrow(p, layer, down);
}

static void plan_behind_attention(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    if (layer_has_ffn(layer)) {
        plan_norm_stream(p, layer);
        plan_ffn(p, layer, request);
    }
    plan_norm_y(p, layer);
}

/* ---- prefetch ---- */

/* Weights of a cache line */
static int64_t line_weights(enum tensor_element type)
{
    return LINE_BYTES / (int64_t)element_size(type);
}

/* Lines that an iteration prefetches, so that so many weights, `line` of them a line, are there when `tiles` tiles of
 * so many iterations are done; no more than one tile's iterations can take without overshooting. */
static int64_t prefetch_lines(int64_t weights, int64_t line, int64_t tiles, int64_t iterations)
{
    const int64_t lines = min(MAX_PREFETCH, ceil_div(ceil_div(weights, line), tiles * iterations));
    return min(lines, weights / (iterations * line));
}

static void prefetch_panels(struct plan_panels *g, const struct plan_request *request, const struct plan_isa *p)
{
    const bool grouped = g->weights == TENSOR_I4 && g->floats == 0;
    if (g->k_block / 2 < UNROLL_PREFETCH || grouped || p->digits) /* few bytes, read in sequence */
        return;
    if (takes_registers(p, g->word, g->depth))
        return;
    if (!request_asks(request, PLAN_UNROLL) && g->weights != TENSOR_I4)
        g->unroll = UNROLL_PREFETCH;
    const int64_t unroll = min(g->unroll, g->k_block);
    if (g->k_block / unroll >= 2 && (g->panels > 1 || g->tail_vecs == 0)) /* a loop whose iterations can prefetch */
        g->prefetch = ceil_div(unroll * packed_steps(p, g->weights, WEIGHT_GROUP) * g->vecs * p->lanes,
                               WEIGHT_GROUP * line_weights(g->weights) * PREFETCH_TILES);
}

static void prefetch_lanes(struct plan_lanes *g, const struct plan_request *request, const struct plan_isa *p,
                           int64_t tokens)
{
    if (g->depth / 2 < UNROLL_PREFETCH || p->vecs == 1) /* blocks of several vectors prefetch, single ones never do */
        return;
    if (!request_asks(request, PLAN_UNROLL))
        g->unroll = UNROLL_PREFETCH;
    if (g->depth / g->unroll < 2)
        return;
    g->prefetch = prefetch_lines(g->depth * g->height[g->count[1] > 0], line_weights(g->element),
                                 ceil_div(min(g->group_rows, tokens), p->block), g->depth / g->unroll);
}

/* Bytes from where the prefetching of a panel begins to the end of the last line that it touches, of the second matrix
 * too. The last iteration's lines may lie behind the panel. */
static int64_t prefetch_reach(const struct plan_panels *g, const struct plan_isa *p)
{
    const int64_t iterations = g->k_block / min(g->unroll, g->k_block);
    const int64_t before = (ceil_div(g->depth, g->k_block) - 1) * g->k_block;
    const int64_t slab = packed_steps(p, g->weights, before) * g->vecs * p->lanes;
    const int64_t weights = slab + (g->matrices - 1) * g->panel_size / g->matrices;
    return weights * (int64_t)element_size(g->weights) + PREFETCH_TILES * iterations * g->prefetch * LINE_BYTES;
}

/* Fewer lines, where those of a product's last panel would lie behind the packed block */
static void prefetch_inside(struct plan_panels *g, const struct plan_isa *p, int64_t at)
{
    const int64_t whole = g->columns / (g->vecs * p->lanes);
    const int64_t behind = whole == 0 ? g->group_size : g->group_size - (whole - 1) * g->panel_size; /* from there on */
    const int64_t from = at + (g->groups * g->group_size - behind) * (int64_t)element_size(g->weights);
    while (g->prefetch > 0 && from + prefetch_reach(g, p) > p->bytes[OWNER_PACKED])
        g->prefetch--;
}

/* Behind the last panel comes the first one of the product that follows, if so many bytes are there; a panel without
 * another prefetches nothing. */
static void prefetch_across(struct plan_isa *p)
{
    for (struct product *g = p->products, *next; g < p->products + p->product_count; g = next) {
        for (next = g + 1; next < p->products + p->product_count && next->kind != PRODUCT_PANELS;)
            next++;
        struct plan_panels *const panels = &g->panels;
        if (g->kind != PRODUCT_PANELS)
            continue;
        const int64_t size = (int64_t)element_size(panels->weights), from = p->layouts[LAYOUT_WEIGHTS + g->id].at;
        prefetch_inside(panels, p, from);
        if (panels->groups > 1)
            continue;
        if (next < p->products + p->product_count) {
            const int64_t to = p->layouts[LAYOUT_WEIGHTS + next->id].at;
            if (to > from && to + prefetch_reach(panels, p) <= p->bytes[OWNER_PACKED])
                panels->prefetch_after = (to - from) / size;
        }
        if (panels->panels == 1 && panels->prefetch_after == 0)
            panels->prefetch = 0;
    }
}

/* Weights that L2 does not keep from call to call are prefetched while the panel before them is in use; so is what
 * attention reads next. */
static void plan_prefetch(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool stays = p->bytes[OWNER_PACKED] <= (int64_t)p->isa->l2_bytes / 2;
    if (!p->isa->prefetches || request_or(request, PLAN_PREFETCH, !stays) == PLAN_OFF)
        return;
    const bool asked = request_asks(request, PLAN_PREFETCH);
    const double query = (double)(layer->d_k + (p->z_in_q ? 0 : layer->d_v)), key = (double)(layer->d_k + layer->d_v);
    const double attend = (double)layer->h * (double)layer->seq_len * query
                        + (double)layer->h_kv * (double)layer->source_len * key;
    if ((asked || attend * (double)layout_element(p, LAYOUT_KEYS) > (double)p->isa->l2_bytes / 2) && p->vecs > 1 &&
        p->at_once && !layer_has_cache(layer) && plan_product(p, PRODUCT_KEYS) != NULL &&
        plan_product(p, PRODUCT_VALUES) != NULL)
        p->prefetch_keys = ceil_div(p->rows, p->query_blocks);
    if (p->prefetch_keys > 0 && plan_product(p, PRODUCT_QUERIES) != NULL) /* the next tile's, while one tile passes
                                                                           * over the keys */
        p->prefetch_queries = ceil_div(p->block, ceil_div(layer->source_len, p->rows));
    for (struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->kind == PRODUCT_LANES)
            prefetch_lanes(&g->lanes, request, p, layer->source_len);
        else if (g->kind == PRODUCT_PANELS)
            prefetch_panels(&g->panels, request, p);
    }
    prefetch_across(p);
    if (layer->train)
        p->back.prefetch = ceil_div(p->back.unroll * p->back.width, LINE_FLOATS * PREFETCH_TILES);
}

/* Calls of a token or two read all weights for them. From beyond L2 these come fastest in the order of memory; on pages
 * of 4 KiB, where hardware reads ahead anew in each, in up to 0.75 of the time (Zen 4). */
static void plan_in_order(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool few = layer_has_cache(layer) || layer_is_linear(layer) || request_or(request, PLAN_TYPICAL_N, 0) == 1;
    if (!p->isa->mixes_loads || !few || layer_rounds(layer) || p->bytes[OWNER_PACKED] <= (int64_t)p->isa->l2_bytes / 2)
        return;
    for (struct product *g = p->products; g < p->products + p->product_count; g++)
        if (g->kind == PRODUCT_PANELS && g->panels.weights != TENSOR_I4 && !p->digits) {
            struct plan_panels *const panels = &g->panels;
            panels->in_order = LOW_ROWS;
            panels->halves = p->isa->half_target != NULL && panels->weights == TENSOR_F32 && panels->taps == 1 &&
                             !request_is_small(request) ? 1 : 0;
            p->halves = p->halves || panels->halves > 0;
        }
}

/* ---- the schedule: what was decided, as the lists that are walked ---- */

static void schedule_panels(struct plan_panels *g, struct plan_isa *p)
{
    const int64_t unroll = min(g->unroll, g->k_block);
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

static void schedule_lanes(struct plan_lanes *g)
{
    g->tiles = g->count[0] + g->count[1];
    g->parts = ceil_div(g->groups * g->tiles, g->part_tiles);
    g->prefetch_tile = g->prefetch * (g->depth / g->unroll) * LINE_FLOATS;
    g->prefetch_end = g->depth * g->height[g->count[1] > 0] - g->prefetch_tile;
}

/* Whether keys and values share the queries' loop over row groups, as they read the same input. */
static bool projections_join(const struct plan_isa *p, const struct layer *layer)
{
    int64_t own = 0;
    int count = 0;
    bool alike = !layer->cross;
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->id >= PRODUCT_OUTPUT || (g->kind != PRODUCT_PANELS && g->kind != PRODUCT_LANES))
            continue;
        const int64_t rows = g->kind == PRODUCT_LANES ? g->lanes.group_rows : g->panels.group_rows;
        own = count++ == 0 ? rows : own;
        alike = alike && rows == own;
    }
    return alike && count > 1;
}

static void schedule(struct plan_isa *p, const struct layer *layer)
{
    const int64_t rows[PLAN_WIDTHS] = {p->rows, p->rows_single};
    const int64_t value_rows[PLAN_WIDTHS] = {p->value_rows, p->value_rows_single};
    for (int width = 0; layer_attends(layer) && width < PLAN_WIDTHS; width++) {
        tiles_for_runs(&p->score_tiles[width], rows[width], 0, rows[width], ROWS_STEP);
        tiles_for_one(&p->value_tiles[width], p->fold->d_value, value_rows[width]);
    }
    if (layer_attends(layer)) {
        p->score_slabs = ceil_div(p->fold->d_score, p->depth_slab);
        p->last_slab = p->fold->d_score - (p->score_slabs - 1) * p->depth_slab;
    }
    p->sequences = max(1, min(p->batch_rows / layer->seq_len, p->batch_sources / layer_new_keys(layer)));
    p->joint = projections_join(p, layer);
    for (struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->kind == PRODUCT_LANES)
            schedule_lanes(&g->lanes);
        else if (g->kind == PRODUCT_PANELS)
            schedule_panels(&g->panels, p);
    }
}

/* ---- all of it ---- */

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
static bool steps_groups(const struct plan_panels *g)
{
    return g->groups > 1 || g->c_split > 0;
}

/* `g` joins the tiles, and the function of parts, of the first product before it that has them alike. */
static void join_panels(struct plan_isa *p, struct product *g, bool skips)
{
    struct plan_panels *const own = &g->panels;
    own->tiles = own->parts_of = g->label;
    own->behind = 0;
    own->tile_row = own->matrices > 1 ? 0 : own->c_row; /* gates have a stride of their own */
    own->tile_places = own->c_split > 0;
    own->parts_split = own->c_split;
    own->parts_placed = own->c_of_call;
    struct plan_panels *tiles = NULL, *parts = NULL;
    for (struct product *before = p->products; before < g; before++) {
        struct plan_panels *const other = &before->panels;
        if (before->kind != PRODUCT_PANELS || !alike(own, other))
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

static void share_tiles(struct plan_isa *p, bool skips)
{
    struct product *const end = p->products + p->product_count;
    for (struct product *g = p->products; g < end; g++)
        if (g->kind == PRODUCT_PANELS)
            join_panels(p, g, skips);
    for (struct product *g = p->products; g < end; g++)
        for (struct product *first = p->products; first < g && g->kind == PRODUCT_PANELS; first++) {
            if (first->kind == PRODUCT_PANELS && first->label == g->panels.tiles) {
                g->panels.tile_row = first->panels.tile_row;
                g->panels.tile_places = first->panels.tile_places;
            }
            if (first->kind == PRODUCT_PANELS && first->label == g->panels.parts_of) {
                g->panels.parts_placed = first->panels.parts_placed;
                g->panels.parts_split = first->panels.parts_split;
            }
        }
}

static void plan_values(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool input = layer->identity || p->fold->values;
    const int64_t columns = layer->h_kv * layer->d_v;
    if (!p->value_blocks && input) {
        p->layouts[LAYOUT_VALUES] = input_of(p, layer, "values", true);
    } else if (!p->value_blocks) {
        plan_rows(p, layer, PRODUCT_VALUES, layer->d_v, request);
    } else if (!input) {
        struct product *const product = add(p, layer, PRODUCT_VALUES, PRODUCT_LANES);
        const struct layout *const a = &p->layouts[product->reads[0] = LAYOUT_S_T];
        p->layouts[LAYOUT_VALUES] =
            blocks_of(p, "values", layer->h_kv, p->source_blocks, layer->d_v, layer->d_v, columns);
        product->lanes = (struct plan_lanes){
            .element = a->element,
            .depth = a->shape[AXIS_FEATURE],
            .groups = layer->split ? layer->h : 1,
            .columns = layer->split ? layer->d_v : columns,
            .a_group = a->stride[AXIS_HEAD],
        };
        plan_lanes(&product->lanes, request, p, layer->d_source, layer->source_len);
    }
}

/* Whether values lie in blocks, tokens along the lanes. Wide values are read faster so on some cores if tokens fill the
 * vectors; and where features fill vectors badly, their projection wastes fewer lanes. */
static bool values_by_blocks(const struct plan_isa *p, const struct layer *layer)
{
    if (layer->projected || layer_has_cache(layer)) /* read where the caller has them */
        return false;
    const int64_t columns = layer->split ? layer->d_v : layer->h_kv * layer->d_v;
    const double tokens = (double)layer->source_len / (double)round_up(layer->source_len, p->lanes);
    const double features = (double)columns / (double)round_up(columns, p->lanes);
    const bool input = layer->identity || p->fold->values;
    const bool wide = p->isa->wide_values > 0 && p->fold->d_value >= p->isa->wide_values;
    return wide ? tokens > VALUE_BLOCKS_FILL : !input && tokens > VALUE_BLOCKS_GAIN * features;
}

enum plan_group plan_group(const struct layer *layer)
{
    const bool rewrites = layer_finishes(layer) || layer_types_tensors(layer) ||
                          layer_rounds_ahead(layer, false); /* q, k and v are copied into the scratch, or k and v as
                                                             * words */
    if (layer_is_linear(layer))
        return layer->row_norm || layer->pad_skipped || layer_rounds(layer) || layer_reads_digits(layer) || rewrites
                   ? GROUP_QUERIES : GROUP_ALL;
    if (layer->projected && !rewrites)
        return layer->w_o == W_O_NONE && (layer->mask & MASK_SEGMENTS) == 0 ? GROUP_ALL : GROUP_QUERIES;
    return !layer_attends(layer) ? GROUP_QUERIES : layer->source_kept ? GROUP_SOURCES_APART : GROUP_BOTH;
}

/* How many tokens of a batch's sequences are projected as one matrix. Where weights come from beyond L2, enough that a
 * panel is worth fetching; else of very short sequences as many as fill their tiles. Never so many that the longer
 * input, queries or keys, exceeds that by more than one sequence. Not possible where a sequence must begin with a block
 * of its own (values in blocks), has zeros before it (convolution), or has memory behind it that may not be read. Nor
 * where no matrix is left: projected, w_o = none. Where keys and values are kept, each sequence has a place of its own
 * for them: a call that brings sources takes them one by one, and queries alone make the matrix of the others. */
static void choose_batch(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool apart = p->value_blocks || (layer->cross && (layer->mask & MASK_PADDING)); /* sequences' keys cannot
                                                                                           * be one matrix */
    if ((apart && !layer->source_kept) || layer->w_o == W_O_CONV || (layer->projected && layer->w_o == W_O_NONE))
        return;
    const double weights = packed_weights(layer, p->fold->scores, p->fold->values);
    const bool stays = weights * (double)element_size(p->weights) <= (double)p->isa->l2_bytes;
    const int64_t fills = layer->seq_len < BATCH_SHORT ? 8 * p->lanes : 1;
    const int64_t wanted = request_or(request, PLAN_BATCH_ROWS, stays ? fills : BATCH_ROWS);
    const int64_t queries = ceil_div(wanted, layer->seq_len), keys = ceil_div(wanted, layer_new_keys(layer));
    const int64_t sequences = plan_group(layer) == GROUP_BOTH ? min(queries, keys) : queries;
    p->batch_rows = sequences * layer->seq_len;
    p->batch_sources = layer->source_kept ? 0 : sequences * layer_new_keys(layer);
}

/* Padding of the packed table, constant at both ends: tiles may reach beyond the distances that it tells apart. */
static void plan_relative(struct plan_isa *p, const struct layer *layer)
{
    const int64_t rows = max(p->rows, p->rows_single); /* keys of a tile */
    int64_t left, right;
    if (!score_has(layer, SCORE_RELATIVE))
        return;
    relative_reach(layer, &left, &right);
    if (layer_has_cache(layer)) { /* by j - p, as keys lie along the lanes: of the first, -left - lanes to right */
        p->relative.low = left + p->lanes;
        p->relative.high = right;
        p->relative.zero = p->relative.low;
        p->relative.row = round_up(left + right + 2 * p->lanes, p->lanes);
        return;
    }
    if (layer->train) {
        p->relative.back_zero = left + p->lanes;
        p->relative.back_high = right;
        p->relative.back_row = round_up(left + right + 2 * p->lanes, p->lanes);
    }
    p->relative.low = right + p->block - 1;
    p->relative.high = left + rows - 1;
    p->relative.zero = p->relative.low + rows - 1;
    p->relative.row = round_up(p->relative.high + p->relative.zero + p->block, p->lanes);
}

/* The source in blocks: for the projection of values, or the values themselves. */
static void plan_transpose(struct plan_isa *p, const struct layer *layer)
{
    const bool input = layer->identity || p->fold->values;
    struct product *const product = add(p, layer, PRODUCT_TRANSPOSE, PRODUCT_COPY);
    const struct layout *const a = &p->layouts[product->reads[0] = input_read(layer, false)];
    product->writes = input ? LAYOUT_VALUES : LAYOUT_S_T;
    p->layouts[product->writes] = blocks_of(p, input ? "values" : "s_t", a->shape[AXIS_HEAD], p->source_blocks,
                                            a->shape[AXIS_FEATURE], a->stride[AXIS_HEAD], layer->d_source);
}

/* Queries, keys and values in the scratch, or the input itself. */
static void plan_projections(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool normed = layer_norms_first(layer);
    p->layouts[LAYOUT_X] = rows_of("x", OWNER_CALLER, layer->split ? layer->h : 1, layer->seq_len, layer->d_in_q,
                                   layer->split ? layer->d_in_q : 0,
                                   layer_types_tensors(layer) ? row_stride(p, layer->d_model) : layer->d_model);
    type_input(p, layer, LAYOUT_X, LAYOUT_TYPED_X, max(layer->seq_len, p->batch_rows), layer->d_model);
    if (normed) {
        p->layouts[LAYOUT_NORMED] = input_of(p, layer, "normed", false);
        p->layouts[LAYOUT_NORMED].owner = OWNER_SCRATCH;
        p->layouts[LAYOUT_NORMED].shape[AXIS_TOKEN] = max(layer->seq_len, p->batch_rows);
    }
    const int64_t part = ceil_div(PART_NUMBERS, max(layer->d_model, layer->d_source));
    if (!normed)
        add_widen(p, layer, PRODUCT_WIDEN_X, LAYOUT_X, layer->d_model, part);
    if (layer->cross) {
        p->layouts[LAYOUT_SOURCE] = input_of(p, layer, "source", true);
        type_input(p, layer, LAYOUT_SOURCE, LAYOUT_TYPED_SOURCE, max(layer->source_len, p->batch_sources),
                   layer->d_source);
        add_widen(p, layer, PRODUCT_WIDEN_SOURCE, LAYOUT_SOURCE, layer->d_source, part);
    }
    plan_round(p, layer, PRODUCT_ROUND_X, input_read(layer, true), layer->d_in_q);
    if (layer->cross)
        plan_round(p, layer, PRODUCT_ROUND_SOURCE, LAYOUT_SOURCE, layer->d_in_kv);
    if (p->value_blocks)
        plan_transpose(p, layer);
    if (!p->fold->q_is_k)
        plan_rows(p, layer, PRODUCT_QUERIES, p->fold->d_score, request);
    if (p->fold->scores)
        p->layouts[LAYOUT_KEYS] = input_of(p, layer, "keys", true);
    else
        plan_rows(p, layer, PRODUCT_KEYS, layer->d_k, request);
    plan_values(p, layer, request);
}

/* Queries, keys and values as a call brings them; the first two maybe normed or rotated into the scratch. `batch`: how
 * many are together is known. */
static void plan_given(struct plan_isa *p, const struct layer *layer, bool batch)
{
    const int64_t n = layer->seq_len, m = layer_new_keys(layer), d = layer->d_k, row = row_stride(p, d);
    const int64_t queries = max(n, p->batch_rows), keys = max(m, p->batch_sources);
    const bool copies = layer_finishes(layer);
    const enum layout_name of_q = copies ? LAYOUT_X : LAYOUT_QUERIES, of_k = copies ? LAYOUT_SOURCE : LAYOUT_KEYS;
    p->layouts[of_q] = given_of(layer, "q", layer->h, n, d);
    p->layouts[of_k] = given_of(layer, "k", layer->h_kv, m, d);
    p->layouts[LAYOUT_VALUES] = given_of(layer, "v", layer->h_kv, m, layer->d_v);
    if (batch) {
        type_input(p, layer, of_q, LAYOUT_TYPED_X, queries, p->layouts[of_q].stride[AXIS_TOKEN]);
        type_input(p, layer, of_k, LAYOUT_TYPED_SOURCE, keys, p->layouts[of_k].stride[AXIS_TOKEN]);
        type_input(p, layer, LAYOUT_VALUES, LAYOUT_TYPED_V, keys, p->layouts[LAYOUT_VALUES].stride[AXIS_TOKEN]);
        add_widen(p, layer, PRODUCT_WIDEN_X, of_q, layer->h * d, p->block);
        add_widen(p, layer, PRODUCT_WIDEN_SOURCE, of_k, layer->h_kv * d, p->block);
        add_widen(p, layer, PRODUCT_WIDEN_V, LAYOUT_VALUES, layer->h_kv * layer->d_v, p->block);
    }
    if (!copies)
        return;
    p->layouts[LAYOUT_QUERIES] = rows_of("queries", OWNER_SCRATCH, layer->h, queries, d, queries * row, row);
    p->layouts[LAYOUT_KEYS] = rows_of("keys", OWNER_SCRATCH, layer->h_kv, keys, d, keys * row, row);
    if (batch) {
        add(p, layer, PRODUCT_QUERIES, PRODUCT_COPY);
        add(p, layer, PRODUCT_KEYS, PRODUCT_COPY);
    }
}

/* For few rows, tiles of several rows prefetch ahead; a lone row is left to the hardware prefetcher. */
static void prefetch_ahead(struct tile_heights *heights, int64_t few_rows)
{
    for (struct tile_height *h = heights->at; h < heights->at + heights->count; h++)
        h->prefetch = h->rows > 1 && h->rows <= few_rows;
}

/* The cache as it lies, and blocks of rows that read it. */
static void plan_cached(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const int64_t group = layer->h / layer->h_kv, lanes = p->lanes;
    const bool paged = layer->cache == CACHE_PAGED;
    const int64_t tokens = paged ? layer->page_len : layer->cache_len;
    const struct { enum layout_name id; const char *name; int64_t d; } caches[] = {
        {LAYOUT_K_CACHE, paged ? "k_pages" : "k_cache", layer->d_k},
        {LAYOUT_V_CACHE, paged ? "v_pages" : "v_cache", layer->d_v}};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        p->layouts[caches[i].id] =
            rows_of(caches[i].name, OWNER_CALLER, layer->h_kv, tokens, caches[i].d, tokens * caches[i].d, caches[i].d);
        p->layouts[caches[i].id].element = layer->cache_type;
    }

    p->cached.few_queries = layer_few_queries(layer);
    p->cached.few_rows = p->cached.few_queries * group;
    p->cached.vecs = request_is_small(request) ? 1 : choose_row_vecs(p->isa);
    const int64_t model = round_up(lanes > 4 ? CACHED_BLOCK : LOW_CACHED_BLOCK, p->cached.vecs * lanes);
    p->cached.key_block = round_up(request_or(request, PLAN_KEY_BLOCK, model), lanes);
    if (p->rounds_values)
        p->cached.key_block = min(p->cached.key_block, MOST_SUMMED / lanes * lanes);
    p->cached.few_block = p->cached.few_rows == 0 || request_asks(request, PLAN_KEY_BLOCK)
                              ? p->cached.key_block : round_up(STEPS_BLOCK, p->cached.key_block);
    p->cached.s_row = p->cached.few_block + lanes; /* rows do not share sets of L1 */
    const int64_t position = (layer->d_k + layer->d_v) * layout_element(p, LAYOUT_K_CACHE);
    p->cached.segment = max(1, SEGMENT_BYTES / position / p->cached.few_block) * p->cached.few_block;
    p->cached.segments = ceil_div(layer->cache_len, p->cached.segment) + (layer->cache == CACHE_RING ? 1 : 0);
    p->cached.queries = min(layer->seq_len, max(1, (p->rounds_scores ? WORD_ROWS : CACHED_ROWS) / group));
    p->cached.rows = p->cached.queries * group;
    p->cached.split = p->cached.segments > 1 ? SPLIT_TOKENS : 0;
    p->cached.low_vecs = request_is_small(request) ? 1 : 4;
    /* Hardware prefetches what is read in memory order, but not far enough ahead where many rows use each line. */
    const int64_t of_value = ceil_div(layer->d_v, lanes), vecs = p->cached.vecs;
    const int64_t taken = p->rounds_scores ? p->isa->word_registers[p->core_word == 4] : 0;
    const int64_t high = max(1, min(tile_rows(p->isa, vecs), (p->isa->registers - taken - vecs - 1) / vecs));
    const int64_t low_width = request_is_small(request) ? 1 : LONE_VECS; /* a lone row's values are read at once, too */
    const int64_t key_rows = (p->isa->registers - 1) / (ceil_div(layer->d_k, lanes) + DOT_KEYS);
    const int64_t wide = of_value > p->cached.vecs && !request_is_small(request) ? wide_rows(p->isa, of_value) : 0;
    const bool prefetches = p->isa->prefetches && request_or(request, PLAN_PREFETCH, PLAN_ON) == PLAN_ON;
    /* Keys that fill no whole vectors begin anywhere in a line, so loads take two: higher tiles load less often */
    p->cached.keys_in_order = key_rows > 1 && (layer->d_k % lanes == 0 || key_rows > DOT_KEYS) &&
                             !request_is_small(request);
    p->cached.values_in_order = wide > 0 || of_value <= p->cached.vecs;
    p->cached.many_rows = MANY_ROWS;
    p->cached.ahead_keys = max(1, (int64_t)p->isa->l2_bytes / (layer->h_kv * position));
    if (prefetches && p->cached.few_rows > 1)
        p->cached.ahead = max(1, AHEAD_BYTES / (max(layer->d_k, layer->d_v) * layout_element(p, LAYOUT_K_CACHE)));
    if (prefetches && p->cached.few_rows > 0 && group == 1) {
        p->cached.early_floats = EARLY_BYTES / layout_element(p, LAYOUT_V_CACHE);
        p->cached.early = max(1, min(lanes, EARLY_BYTES / LINE_BYTES * lanes / p->cached.few_block)); /* evenly */
    }
    const int64_t of_query = ceil_div(layer->d_k, lanes);
    p->cached.query_vecs = QUERY_VECS;
    p->cached.lone_vecs = of_query <= 2 * LONE_VECS ? of_query : 0;
    if (p->isa->half_target != NULL && group == 1 && p->cached.few_rows > 0 && !layer_stores_cache(layer) &&
        !request_is_small(request))
        p->cached.half_vecs = (p->isa->registers - 2 * DOT_KEYS) / 2;
    p->halves = p->cached.half_vecs > 0;
    const int64_t value = layer->d_v * layout_element(p, LAYOUT_V_CACHE);
    p->cached.value_keys = max(8, NEAR_BYTES / value);
    p->cached.value_keys_of_many = max(8, (p->cached.values_in_order ? NEAR_BYTES_OF_MANY : NEAR_BYTES) / value);
    p->cached.q_row = row_stride(p, round_up(layer->d_k, lanes));
    p->cached.o_row = row_stride(p, round_up(layer->d_v, lanes));
    if (p->rounds_scores) { /* a query's words, and its scale behind them; whole vectors are written */
        p->words_room = round_up(layer->d_k, max(lanes, p->core_word)) / p->core_word;
        p->cached.words_row = row_stride(p, p->words_room + 1);
    }
    if (p->rounds_values) { /* of core_word keys */
        p->values_room = row_stride(p, round_up(layer->d_v, lanes));
        tiles_for_one(&p->cached.word_panels, ceil_div(layer->d_v, lanes), p->cached.vecs);
    }
    tiles_for_runs(&p->cached.tiles, p->cached.rows, group > 1 ? group : 3, min(high, p->cached.rows), 2);
    tiles_for_one(&p->cached.panels, of_value, p->cached.vecs);
    tiles_for_one(&p->cached.low_panels, of_value, low_width);
    if (p->cached.few_rows > 0)
        tiles_for_runs(&p->cached.dot_tiles, p->cached.few_rows, group,
                       min(p->cached.few_rows, p->cached.keys_in_order ? key_rows : tile_rows(p->isa, DOT_KEYS)), 2);
    if (p->cached.few_rows > 0 && wide > 0) {
        tiles_for_runs(&p->cached.few_tiles, p->cached.few_rows, group, min(p->cached.few_rows, wide), 2);
        tiles_for_one(&p->cached.few_panels, of_value, of_value);
    }
    const int64_t panels_from = of_value > low_width ? 1 : 2; /* rows that have several */
    p->cached.shared_rows = p->cached.values_in_order ? (wide > 0 ? wide : high) + 1 : panels_from;
    const bool windowed = layer->window_left != LAYER_UNBOUNDED;
    const int64_t reach = min(layer->cache_len, windowed ? layer->window_left + layer->seq_len : layer->cache_len);
    const int64_t sweep_keys = SWEEP_BYTES / (layer->h_kv * position);
    if (!p->cached.values_in_order && p->cached.few_rows >= panels_from && reach >= sweep_keys) {
        p->cached.sweep_keys = max(1, sweep_keys);
        p->cached.swept_keys = max(4, SWEPT_BYTES / value);
    }
    if (p->cached.ahead > 0)
        prefetch_ahead(&p->cached.dot_tiles, p->cached.few_rows);
    if (p->cached.ahead > 0)
        prefetch_ahead(wide > 0 ? &p->cached.few_tiles : &p->cached.tiles, p->cached.few_rows);
}

/* Two vectors are enough to hide the latency of a tile's sums, and leave few lanes of a narrow head idle. */
static void plan_back(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const int64_t widest = max(layer->d_model, max(layer->d_k, layer->d_v));
    p->back.vecs = widest > p->lanes ? 2 : 1;
    p->back.width = p->back.vecs * p->lanes;
    p->back.rows = near_equal(BACK_EVEN, tile_rows(p->isa, p->back.vecs));
    p->back.strip = round_up(p->back.rows, p->lanes);
    const int64_t heights[] = {p->back.rows, ceil_div(5 * p->back.rows, 8) - 1, ceil_div(p->back.rows, 4)};
    p->back.heights.count = !request_is_small(request) && p->back.rows > 4 ? 3 : 1;
    for (int64_t i = 0; i < p->back.heights.count; i++)
        p->back.heights.at[i].rows = heights[i];
    p->back.unroll = BACK_UNROLL;
    p->back.k_row = round_up(layer->d_k, p->lanes);
    p->back.v_row = round_up(layer->d_v, p->lanes);
    p->back.queries = round_up(near_equal(layer->seq_len, BACK_QUERIES), p->back.rows);
    p->back.keys = min(round_up(BACK_KEYS, p->back.width), round_up(layer->source_len, p->back.width));
    p->back.key_row = p->back.keys + LINE_FLOATS; /* rows do not fall into the same sets of L1; a last tile reads
                                                   * behind the keys */
    p->back.part_rows = round_up(BACK_PART, p->back.rows);
    p->back.tokens = BACK_TOKENS;
    p->back.once = BACK_ONCE;
    p->back.ahead = BACK_AHEAD;
    p->back.chunk_rows = round_up(BACK_ROWS, p->back.rows);
    p->back.chunk_columns = round_up(BACK_COLUMNS, p->back.width);
}

/* A call of few queries would leave most lanes idle. Features along the lanes fill them; a sum across these is paid for
 * by many keys. What is done to scores in register tiles is done with queries along the lanes. */
static void plan_few(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool other = layer->cross || layer->projected;
    bool plain = p->at_once && !p->rounds_scores && !p->value_blocks && !score_lifts(layer);
    for (int i = 0; i < SCORE_TERMS; i++)
        plain = plain && !(score_terms[i].place == SCORE_TILES && score_has(layer, (enum score_name)i));
    p->few.keys = FEW_KEYS * p->lanes;
    if (!other || layer_has_cache(layer) || layer->train || request_is_small(request) || !plain ||
        layer->source_len < p->few.keys || p->fold->d_score < p->lanes || p->fold->d_value < p->lanes)
        return;
    p->few.values = FEW_VALUES;
    p->few.rows = p->isa->registers < 32 ? 2 : 4;
    p->cached.few_queries = min(layer->seq_len, p->lanes / 2);
    p->cached.q_row = row_stride(p, round_up(p->fold->d_score, p->lanes));
    p->cached.o_row = row_stride(p, round_up(p->fold->d_value, p->lanes));
}

/* Rows of a head that the caller has far apart: hardware does not prefetch them, and each weighted sum would wait. */
static void plan_fetches(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const int64_t row = p->layouts[LAYOUT_VALUES].stride[AXIS_TOKEN] * (int64_t)element_size(OPERANDS);
    const int64_t bytes = layer->source_len * layer->h_kv * (layer->d_k + layer->d_v) * (int64_t)element_size(OPERANDS);
    p->fetches_values = layer->projected && !layer_has_cache(layer) && !p->rounds_values && p->isa->prefetches &&
                        request_or(request, PLAN_PREFETCH, PLAN_ON) == PLAN_ON && !request_is_small(request) &&
                        row >= FAR_BYTES && row > layer->d_v * (int64_t)element_size(OPERANDS) &&
                        bytes > (int64_t)p->isa->l2_bytes / 2;
}

static void plan_attending(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const struct isa *const isa = p->isa;
    if (layer->projected)
        plan_given(p, layer, false);
    /* tokens along the lanes: weights would be the operand that is broadcast, number by number */
    const bool rounded = (layer_stores_weights(layer) && !layer->identity) || p->rounds_values;
    p->value_blocks = !layer->projected && !layer_has_cache(layer) && !layer->train && !rounded &&
                      request_or(request, PLAN_VALUE_LAYOUT, values_by_blocks(p, layer)) == PLAN_BLOCKS;
    p->holds = layer->train && !layer->cross && !layer->pad_skipped &&
               request_or(request, PLAN_SAVED, PLAN_PROJECTIONS) == PLAN_PROJECTIONS;
    p->streams = streams_head(p, layer);
    p->vecs = request_or(request, PLAN_QUERY_VECS, choose_query_vecs(isa, layer->seq_len, p->streams));
    p->block = p->vecs * p->lanes;
    /* requested heights are of full tiles: tiles of one vector need more rows to hide the latency */
    const int64_t rows = rows_fit(request, isa, p->vecs), rows_single = p->vecs == 1 ? rows : tile_rows(isa, 1);
    /* where keys are the caller's own rows */
    const int64_t key_row = layer->projected ? p->layouts[LAYOUT_KEYS].stride[AXIS_TOKEN] : layer->d_source;
    const bool callers = p->fold->scores || layer->projected;
    const int64_t apart = callers && !request_is_small(request) ? rows_apart(key_row) : rows_single;
    const bool words = p->rounds_scores;
    const int64_t taken = words ? isa->word_registers[p->core_word == 4] : 0;
    const int64_t of_words = max(1, (isa->registers - taken - p->vecs - 1) / p->vecs);
    p->rows = min(request_or(request, PLAN_SCORE_ROWS, apart), min(rows, of_words));
    p->rows_single = p->vecs == 1 ? p->rows : min(min(rows_single, isa->registers - taken - 2), apart);
    p->at_once = !request_is_small(request) && layer->scores <= SCORES_WEIGHTS; /* others are written out before */
    int64_t (*const part)(int64_t, int64_t) = request_is_small(request) ? one_height : near_equal;
    const bool sums = p->rounds_values; /* of whole numbers */
    const int64_t of_sums = sums ? min(rows, of_words) : rows;
    p->value_rows = part(p->fold->d_value, min(of_sums, request_within(request, PLAN_VALUE_ROWS, rows)));
    p->value_rows_single = p->vecs == 1 ? p->value_rows
                         : part(p->fold->d_value, sums ? min(rows_single, isa->registers - taken - 2) : rows_single);
    p->two_pass = request_or(request, PLAN_SOFTMAX, PLAN_ONE_PASS) == PLAN_TWO_PASS;

    if (!request_is_small(request) || request_asks(request, PLAN_BATCH_ROWS))
        choose_batch(p, layer, request);
    p->query_blocks = ceil_div(max(layer->seq_len, p->batch_rows), p->block);
    p->source_blocks = ceil_div(max(layer_new_keys(layer), p->batch_sources), p->block);

    const int64_t fit = max(p->rows, (int64_t)(isa->l1d_bytes / 2) / layout_element(p, LAYOUT_SCORES) / p->block);
    p->key_block = request_asks(request, PLAN_KEY_BLOCK) ? request->value[PLAN_KEY_BLOCK]
                 : p->value_blocks ? p->block
                 : round_up(ceil_div(layer->source_len, ceil_div(layer->source_len, fit)), p->rows);
    if (sums)
        p->key_block = min(p->key_block, MOST_SUMMED / p->rows * p->rows);
    const int64_t slab_fit = max(1, (int64_t)(isa->l1d_bytes * 2 / 3) / layout_element(p, LAYOUT_Q_T) / p->block);
    const int64_t slab = request_or(request, PLAN_DEPTH_SLAB, request_is_small(request) ? p->fold->d_score : slab_fit);
    p->depth_slab = words ? p->fold->d_score : near_equal(p->fold->d_score, slab); /* exact sums are not cut */
    p->unroll_scores = choose_unroll(request, p->depth_slab);
    p->unroll_values = choose_unroll(request, UNROLL_KEYS_FULL);
    const double block = (double)p->block * (double)layer->source_len * (double)(p->fold->d_score + p->fold->d_value);
    p->part_blocks = min(p->query_blocks, (int64_t)(PART_MULTIPLY_ADDS / block) + 1);

    plan_z(p, layer, request);
    if (layer_norms_first(layer))
        plan_norm_x(p, layer);
    if (layer->projected)
        plan_given(p, layer, true);
    else
        plan_projections(p, layer, request);
    if (layer_has_cache(layer)) {
        plan_cached(p, layer, request);
        add(p, layer, PRODUCT_APPEND, PRODUCT_COPY);
    } else {
        if (p->rounds_scores)
            plan_keys_words(p, layer); /* in place of the rounded source, which values read as well */
        plan_values_words(p, layer);
    }
    struct product *const scores = add(p, layer, PRODUCT_SCORES, PRODUCT_TILES);
    scores->reads[0] = p->fold->q_is_k ? LAYOUT_KEYS : LAYOUT_QUERIES;
    const bool ahead = layer_rounds_ahead(layer, isa->sums_pairs), values = ahead && p->rounds_values;
    scores->reads[1] = ahead ? LAYOUT_ROUNDED_KEYS : LAYOUT_KEYS;
    add(p, layer, PRODUCT_SUMS, PRODUCT_TILES)->reads[1] = values ? LAYOUT_ROUNDED_VALUES : LAYOUT_VALUES;
    if (layer->w_o != W_O_NONE)
        plan_output(p, layer, request);
    plan_behind_attention(p, layer, request);
    plan_relative(p, layer);
    plan_few(p, layer, request);
    plan_fetches(p, layer, request);
    if (layer->train) {
        plan_back(p, layer, request);
        plan_gradients(p, layer);
    }
}

/* ---- layers without attention ---- */

static void plan_linear(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const enum layout_name read = plan_round(p, layer, PRODUCT_ROUND_X, rows_read(p, layer), layer->d_model);
    struct product *const product = add(p, layer, PRODUCT_LINEAR, PRODUCT_PANELS);
    product->reads[0] = read;
    product->epilogue |= (layer->activation != ACTIVATION_NONE ? EPILOGUE_ACTIVATION : 0) |
                         (layer->cap != 0 ? EPILOGUE_CAP : 0);
    const int64_t a_row = p->layouts[product->reads[0]].stride[AXIS_TOKEN];
    product->panels = (struct plan_panels){
        .element = p->layouts[product->reads[0]].element, .bias = layer->bias, .matrices = 1, .depth = layer->d_model,
        .taps = 1, .groups = 1, .columns = layer->d_out, .a_row = a_row, .a_k = 1, .a_block = a_row * p->block,
        .c_row = p->layouts[LAYOUT_Y].stride[AXIS_TOKEN],
        .from_caller = is_callers(p, product->reads[0]), .to_caller = is_callers(p, LAYOUT_Y),
        .ends = (product->epilogue & (EPILOGUE_ACTIVATION | EPILOGUE_CAP)) != 0,
    };
    reads_words(p, product, &product->panels);
    plan_panels(&product->panels, request, p, layer->seq_len, max(layer->seq_len, p->batch_rows));
    plan_narrow(p, layer, product);
}

/* Rows of x to rows of y: a norm, the products, a norm. */
static void plan_rowwise(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    p->vecs = request_or(request, PLAN_QUERY_VECS, choose_query_vecs(p->isa, layer->seq_len, false));
    p->block = p->vecs * p->lanes;
    p->at_once = !request_is_small(request);
    if (!request_is_small(request) || request_asks(request, PLAN_BATCH_ROWS))
        choose_batch(p, layer, request);
    p->query_blocks = p->source_blocks = ceil_div(max(layer->seq_len, p->batch_rows), p->block);
    const int64_t rows = max(layer->seq_len, p->batch_rows);
    p->layouts[LAYOUT_X] = rows_of("x", OWNER_CALLER, 1, layer->seq_len, layer->d_model, 0,
                                   layer_types_tensors(layer) ? row_stride(p, layer->d_model) : layer->d_model);
    p->layouts[LAYOUT_Y] = rows_of("y", OWNER_CALLER, 1, layer->seq_len, layer->d_out, 0, layer->d_out);
    type_input(p, layer, LAYOUT_X, LAYOUT_TYPED_X, rows, layer->d_model);
    type_output(p, layer);
    if (!layer_norms_first(layer))
        add_widen(p, layer, PRODUCT_WIDEN_X, LAYOUT_X, layer->d_model, ceil_div(PART_NUMBERS, layer->d_model));
    if (layer_norms_first(layer)) {
        p->layouts[LAYOUT_NORMED] = stream_of(p, layer, "normed");
        plan_norm_x(p, layer);
    }
    if (layer_is_linear(layer))
        plan_linear(p, layer, request);
    else
        plan_ffn(p, layer, request);
    plan_norm_y(p, layer);
}

/* ---- one instruction set ---- */

/* Why no product of a layer is fast, if they are asked for; NULL: some may be. */
static const char *not_fast(const struct layer *layer, const struct plan_request *request)
{
    return layer->precision != PRECISION_I16 ? "only precision = i16 has exact sums"
         : layer_types_tensors(layer)        ? "y of two bytes is rounded block by block"
         : layer->pad_skipped                ? "rows of several sequences follow each other without padding"
         : request_is_small(request)         ? "small code has one shape of tiles"
                                             : NULL;
}

/* The kind of products of a layer that does not say: fast ones where no bit changes, of FAST_UNASKED rows and more, but
 * not where calls of a few tokens, which read panels alone, are as typical: packed weights are twice as large. */
static int products_unasked(const struct layer *layer)
{
    const bool few = layer_has_cache(layer) || layer_is_linear(layer) ||
                     max(layer->seq_len, layer->source_len) < FAST_UNASKED;
    return layer->precision == PRECISION_I16 && !few ? PLAN_SEVEN : PLAN_CLASSICAL;
}

static void plan_one(struct plan_isa *p, const struct isa *isa, const struct layer *layer,
                     const struct plan_request *request)
{
    p->isa = isa;
    p->weights = layer->weight_type;
    p->steps = layer->weight_type != TENSOR_F32 && (layer_has_cache(layer) || !layer_attends(layer)) &&
               !request_asks(request, PLAN_TYPICAL_N);
    p->word = layer_word(layer);
    p->whole = layer_sums_whole(layer);
    p->word_registers = layer_rounds(layer) ? isa->word_registers[layer->precision == PRECISION_I8] : 0;
    p->neighbours = isa->sums_pairs ? 2 : 1;
    p->core_word = layer_core_word(layer, isa->sums_pairs);
    p->rounds_scores = layer_rounds_scores(layer, isa->sums_pairs);
    p->rounds_values = layer_rounds_values(layer, isa->sums_pairs);
    p->scales_weights = p->rounds_values && layer->scores != SCORES_WEIGHTS;
    p->score_levels = p->rounds_scores ? layer_score_levels(layer, isa->sums_pairs) : 0;
    p->value_levels = p->rounds_values ? layer_value_levels(layer, isa->sums_pairs) : 0;
    p->weight_levels = p->rounds_values ? layer_weight_levels(layer, isa->sums_pairs) : 0;
    p->corrections = layer->precision == PRECISION_I8 && isa->unsigned_rows ? 1 : 0;
    p->lanes = isa->lanes;
    p->tile_rows = isa->tile_rows;
    p->tile_words = isa->tile_words;
    if (request_or(request, PLAN_PRODUCT_KIND, products_unasked(layer)) == PLAN_SEVEN) {
        p->not_fast = not_fast(layer, request);
        p->fast = p->not_fast == NULL;
        p->unasked = !request_asks(request, PLAN_PRODUCT_KIND);
    }
    (layer_attends(layer) ? plan_attending : plan_rowwise)(p, layer, request);
    p->peeks = p->at_once && score_falls(layer) && score_placed(layer);
    p->masked_apart = score_hooked(layer) && score_lifts(layer) && !score_falls(layer);
    p->norm_sums = max(1, min(NORM_SUMS, layer->d_model / p->lanes));
    place_packed(p, layer);
    plan_prefetch(p, layer, request);
    plan_in_order(p, layer, request);
    schedule(p, layer);
    share_tiles(p, layer->pad_skipped);
    place_scratch(p, layer);
    bound_stack(p, layer);
    explain_choices(p, layer, request_is_small(request));
}

/* The spec takes precedence over the plan file. */
static void plan_isa(struct plan_isa *p, const struct isa *isa, const struct layer *layer,
                     const struct plan_request *spec, const struct plan_file *file)
{
    struct plan_request request = *spec, rest = plan_request_none();
    explain_request(p, "spec", spec);
    if (file != NULL) {
        rest = file->isa[isa - isa_table].request;
        plan_request_add(&rest, &file->common);
        for (int key = 0; key < PLAN_KEYS; key++)
            if (request_asks(spec, (enum plan_key)key))
                rest.value[key] = PLAN_AUTO;
        explain_request(p, "plan file", &rest);
    }
    plan_request_add(&request, &rest);
    p->request = request;
    if (request_is_small(&request))
        make_small(&request);
    plan_one(p, isa, layer, &request);
}

/* An upper bound of every sum of sizes that plan_one forms, in elements, so that it can work in int64_t. */
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
    const double turn_rows = 4 * q; /* packed, and of a call */
    const double ffn = (double)l->d_ff + (l->d_ff > 0 ? wide : 0);
    const bool blocks = layer_has_block(l) || !layer_attends(l);
    const double block = blocks ? (2 * q + 16) * (3 * d + 2 * ffn) + 4 * (d + wide) * ffn : 0;
    const double linear = layer_is_linear(l) ? (d + wide) * ((double)l->d_out + wide) : 0;
    const double turns = l->rope.kind == ROPE_NONE ? 0 : turn_rows * ((double)l->rope.dims + wide);
    int64_t left = 0, right = 0;
    if (score_has(l, SCORE_RELATIVE))
        relative_reach(l, &left, &right);
    const double typed = layer_types_tensors(l) ? (q + s) * (d + e_k + e_v + (double)l->d_out) + /* and rows of attn */
                         (4 * wide + 8 * (double)l->h) * (double)l->source_len : 0;
    const double back = l->train ? 8 * packed + 16 * (q + s) * (e_k + e_v + d + 1024) : 0; /* heads padded to vectors */
    return scratch + packed + turns + block + linear + back + typed +
           (double)l->h * ((double)left + (double)right + 4096);
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

/* The most numbers of a row that a product with a matrix sums up. */
static int64_t longest_sum(const struct layer *l)
{
    const int64_t in = l->d_in_q > l->d_in_kv ? l->d_in_q : l->d_in_kv;
    const int64_t heads = l->w_o == W_O_NONE ? 0 : l->w_o == W_O_CONV ? 1 : l->h; /* that a sum of the output takes */
    const int64_t z = layer_attends(l) ? heads * l->d_v : l->d_model;
    const int64_t most = in > z ? in : z;
    return l->d_ff > most ? l->d_ff : most;
}

/* Numbers with which f32 would leave its range on the way, and sums of whole numbers 32 bits. */
static void refuse_numbers(const struct layer *l, struct diag *diag)
{
    const double cap = layer_is_linear(l) ? l->cap : l->number[SCORE_SOFTCAP];
    if (cap != 0 && !(cap >= MIN_SOFTCAP && cap <= MAX_SOFTCAP))
        diag_error(diag, l->name, "softcap = %g is outside %g to %g, where tanh is computed in f32; choose one inside",
                   cap, MIN_SOFTCAP, MAX_SOFTCAP);
    if (l->precision == PRECISION_I8 && longest_sum(l) > MOST_OF_I8)
        diag_error(diag, l->name,
                   "sums of %lld products of i8 may exceed 32 bits; at most %d fit: write precision = f32, or fewer "
                   "columns",
                   (long long)longest_sum(l), MOST_OF_I8);
    if (l->relative == RELATIVE_T5 && (l->rel_buckets % 4 != 0 || l->rel_distance <= relative_side(l) / 2))
        diag_error(diag, l->name,
                   "rel_buckets = %lld, rel_distance = %lld: buckets are a multiple of 4, and the distance is "
                   "above %lld, to which each distance has a bucket of its own",
                   (long long)l->rel_buckets, (long long)l->rel_distance, (long long)(relative_side(l) / 2));
}

unsigned plan_isas(const struct layer *layer, unsigned isas)
{
    const bool dots = layer_sums_whole(layer) || layer_reads_digits(layer);
    const unsigned of_dots = dots ? isas : isas & ~isa_of_dots_only();
    const unsigned possible = layer->precision == PRECISION_I8 ? of_dots : of_dots & ~isa_of_tiles();
    return layer->precision == PRECISION_BF16 ? possible & isa_with_bf16() : possible;
}

void plan_refuse_isas(const struct layer *layer, unsigned named, struct diag *diag)
{
    const unsigned lacking = named & ~plan_isas(layer, named);
    char names[200], others[200];
    if (lacking == 0)
        return;
    isa_list_names(names, sizeof names, lacking, ", ");
    isa_list_names(others, sizeof others, plan_isas(layer, isa_all()), ", ");
    const bool tiles = (lacking & ~isa_of_tiles()) == 0;
    if (layer->precision == PRECISION_BF16)
        diag_error(diag, "--isa", "%s: no dot product of bf16 there, without which '%s', precision = bf16, is "
                   "slower than f32; name some of %s, or write precision = f32, i16 or i8", names, layer->name, others);
    else
        diag_error(diag, "--isa", "%s: '%s' has no products of %s, for which this set is there; name some of %s, or "
                   "write precision = %si8", names, layer->name, tiles ? "bytes" : "whole numbers", others,
                   tiles ? "" : "i16 or ");
}

/* For the check that no tensor of a call is too large for a C object; masks and weights of pairs count apart. */
static void largest_rows(struct plan *plan, const struct layer *l)
{
    plan->largest_row = max(l->projected ? l->h * l->d_k : l->d_model, l->d_out);
    plan->largest_source_row = l->projected ? l->h_kv * max(l->d_k, l->d_v) : l->d_source;
    if (l->lse)
        plan->largest_row = max(plan->largest_row, l->h);
    if (l->train)
        plan->largest_row = max(plan->largest_row, layer_kept(l) + plan->held);
}

bool plan_digits(const struct layer *layer, const struct isa *isa)
{
    return layer->weight_type == TENSOR_I4 || isa->dots_bytes;
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
    refuse_numbers(layer, diag);
    if (diag->errors > before)
        return NULL;
    if (size_bound(layer) * (double)element_size(OPERANDS) > (double)(PTRDIFF_MAX / 4))
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
    const bool may = layer_reads_digits(layer) && !request_asks(&common, PLAN_TYPICAL_N);
    for (size_t i = 0; i < isa_count; i++) {
        if ((plan_isas(layer, isas) >> i & 1u) == 0)
            continue;
        struct plan_isa *p = &plan->isas[plan->count++];
        p->fold = &plan->fold;
        p->digits = may && plan_digits(layer, &isa_table[i]) &&
                    !(file != NULL && request_asks(&file->isa[i].request, PLAN_TYPICAL_N));
        plan->digits = plan->digits || p->digits;
        plan_isa(p, &isa_table[i], layer, &spec, file);
        plan->packed_bytes = max(plan->packed_bytes, p->bytes[OWNER_PACKED]);
        plan->shared_bytes = max(plan->shared_bytes, p->bytes[OWNER_SCRATCH]);
        plan->worker_bytes = max(plan->worker_bytes, p->bytes[OWNER_WORKER]);
        plan->kept_bytes = max(plan->kept_bytes, p->bytes[OWNER_KEPT]);
        plan->held = max(plan->held, p->held.all);
        const bool shares = !p->holds || plan_back_transposes(layer);
        plan->back_shared_bytes = max(plan->back_shared_bytes, shares ? p->bytes[OWNER_SCRATCH] : 0);
        plan->back_bytes = max(plan->back_bytes, p->bytes[OWNER_BACK]);
        plan->back_worker_bytes = max(plan->back_worker_bytes, p->bytes[OWNER_BACK_WORKER]);
    }
    plan_phases(plan, layer);
    largest_rows(plan, layer);
    if (!complete(plan)) {
        diag_environment(diag, NULL, "out of memory");
        plan_free(plan);
        return NULL;
    }
    return plan;
}

bool plan_has_fast(const struct plan *plan)
{
    bool fast = false;
    for (int64_t i = 0; i < plan->count; i++)
        for (const struct product *g = plan->isas[i].products; g < plan->isas[i].products + plan->isas[i].product_count;
             g++)
            fast = fast || (g->kind == PRODUCT_PANELS && g->panels.fast > 0);
    return fast;
}

struct plan *plan_make(const struct layer *layer, unsigned isas, struct diag *diag)
{
    return plan_make_from(layer, isas, NULL, diag);
}
