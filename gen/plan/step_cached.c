/* SPDX-License-Identifier: MIT */
/* Attention over a cache: rows of queries, keys along the lanes.
 *
 * Left out on purpose: the rows that calls bring (step_products.c), appending them (step_copy.c).
 */
#include "plan/planning.h"

#include <math.h>

#include "spec/visible.h"

#define CACHED_BLOCK 128         /* keys in a block; with 256 an AVX-512 step gains 5 %, a prefill loses as much */
#define STEPS_BLOCK 1024         /* the same for few rows: longer streams; a step gains 1 to 4 % over blocks of 512 */
#define LOW_CACHED_BLOCK 32      /* with vectors of four: a prefill gains 5 to 10 % */
#define CACHED_ROWS 96           /* rows in a block: they share the keys that are transposed, or read from beyond L2 */
#define WORD_ROWS 192            /* rows in a block of whole numbers: rounding a key is paid for by more */
#define SEGMENT_BYTES (INT64_C(512) * 1024) /* of keys and values of a head: 10 us and more from memory */
#define AHEAD_BYTES 16384        /* measured, Zen 4: 12 to 24 KiB ahead, to L2, are best, from L3 and from memory */
#define PORTABLE_AHEAD_BYTES 8192 /* the same with exact = portable; Zen 5: with 4 and 16 KiB a step loses 2 to 5 % */
#define MANY_ROWS 8              /* with this many rows of few and more, the tiles are the limit, not reading */
#define EARLY_BYTES 16384        /* half of the smallest L1; measured, Zen 5: a step gains 2 to 5 % from L2 and L3 */
#define QUERY_VECS 8 /* of one row's query: with four sums and four vectors of keys they fill 16 registers */
#define FOURS_VECS 4 /* the same with exact = portable: as many of each of LANES / 4 keys */
#define LONE_VECS 8              /* of a query; four sums take one register each besides */
#define DOT_KEYS 4               /* whose products are summed together, across four lanes of each */
#define NEAR_BYTES 8192          /* of values, which several tiles read in turn; measured, Zen 4: with 16 KiB hardware
                                  * stops prefetching meanwhile */
#define NEAR_BYTES_OF_MANY 16384 /* of MANY_ROWS: tiles load and store sums each time */
#define SWEPT_BYTES 2048         /* the same where tiles read parts of values and caches lie beyond L3 */
#define SWEEP_BYTES (INT64_C(24) << 20) /* measured, Zen 4 with AVX2: of 16 MiB a step takes 1.15 of the time if swept,
                                         * of 32 and 128 0.9 and 0.8 */
#define ACROSS_VECS 2            /* of rows: 13 keys x 2 vectors, as many loads as multiply-adds need */
#define ACROSS_SEGMENT 512       /* keys: joining a segment's wide sums then takes 1 to 2 % of the time */
#define ACROSS_UNROLL 8          /* steps of a tile of scores that prefetches the next keys */
#define SPLIT_TOKENS 8           /* a group of more tokens has parts enough */
#define CACHED_STATES 6 /* numbers for each row: m and l of a segment and of all so far, a factor, what scores lose */

/* For few rows, tiles of `least` rows and more prefetch ahead; a lone row is left to the hardware prefetcher, but with
 * exact = portable, where it takes more instructions for a line of keys. */
static void prefetch_ahead(struct tile_heights *heights, int64_t few_rows, int64_t least)
{
    for (struct tile_height *h = heights->at; h < heights->at + heights->count; h++)
        h->prefetch = h->rows >= least && h->rows <= few_rows;
}

/* Latent attention with keys and values of heads, which lie side by side */
static struct layer layer_of_heads(const struct layer *layer)
{
    struct layer heads = *layer;
    heads.d_k = layer->latent.d_head;
    heads.d_v = layer->latent.d_value;
    heads.h_kv = layer->h;
    heads.shares = false;
    heads.cache = CACHE_NONE;
    heads.cache_type = TENSOR_F32;
    return heads;
}

/* Scores with rows along the lanes: tiles of keys, and the lines of the next keys that a tile prefetches meanwhile */
static void plan_across(struct plan_isa *p, const struct layer *layer)
{
    p->cached.row_vecs = p->small ? 1 : ACROSS_VECS;
    tiles_for_runs(&p->cached.key_tiles, p->cached.key_block, 0, tile_rows(p->isa, p->cached.row_vecs), 2);
    const int64_t iterations = layer->d_k / ACROSS_UNROLL, rows = p->cached.key_tiles.at[0].rows;
    if (p->isa->prefetches && request_or(&p->request, PLAN_PREFETCH, PLAN_ON) == PLAN_ON && iterations > 1) {
        p->cached.key_unroll = ACROSS_UNROLL;
        p->cached.key_lines = ceil_div(rows * layer->d_k * layout_element(p, LAYOUT_K_CACHE), iterations * LINE_BYTES);
    }
}

/* Blocks of rows that read a cache, or rows that lie as if they were one of f32 */
static void plan_blocks(struct plan_isa *p, const struct layer *layer)
{
    const int64_t group = layer->h / layer->h_kv, lanes = p->lanes;
    const int64_t position = layer_cached_numbers(layer) * layout_element(p, LAYOUT_K_CACHE);
    p->cached.few_queries = layer_few_queries(layer);
    p->cached.few_rows = p->cached.few_queries * group;
    p->cached.vecs = p->small ? 1 : choose_row_vecs(p->isa);
    const int64_t model = round_up(lanes > 4 ? CACHED_BLOCK : LOW_CACHED_BLOCK, p->cached.vecs * lanes);
    p->cached.key_block = round_up(request_or(&p->request, PLAN_KEY_BLOCK, model), lanes);
    if (p->rounds_values)
        p->cached.key_block = min(p->cached.key_block, MOST_SUMMED / lanes * lanes);
    /* keys that are values too stay in L2 from scores to sums */
    const int64_t stays = layer->shares ? (int64_t)p->isa->l2_bytes / 2 / position / p->cached.key_block : STEPS_BLOCK;
    p->cached.few_block = p->cached.few_rows == 0 || request_asks(&p->request, PLAN_KEY_BLOCK)
                              ? p->cached.key_block
                              : min(round_up(STEPS_BLOCK, p->cached.key_block), max(1, stays) * p->cached.key_block);
    if (layer_rows_across(layer))
        plan_across(p, layer);
    p->cached.s_row = p->cached.few_block + lanes; /* rows do not share sets of L1 */
    const int64_t segment = max(SEGMENT_BYTES / position, p->cached.row_vecs > 0 ? ACROSS_SEGMENT : 1);
    p->cached.segment = max(1, segment / p->cached.few_block) * p->cached.few_block;
    p->cached.segments = ceil_div(layer->cache_len, p->cached.segment) + (layer->cache == CACHE_RING ? 1 : 0);
    p->cached.queries = min(layer->seq_len, max(1, (p->rounds_scores ? WORD_ROWS : CACHED_ROWS) / group));
    p->cached.rows = p->cached.queries * group;
    p->cached.split = p->cached.segments > 1 ? SPLIT_TOKENS : 0;
    p->cached.low_vecs = p->small ? 1 : 4;
    /* Hardware prefetches what is read in memory order, but not far enough ahead where many rows use each line. */
    const int64_t of_value = ceil_div(layer->d_v, lanes), vecs = p->cached.vecs;
    const int64_t taken = p->rounds_scores ? p->isa->word_registers[p->core_word == 4] : 0;
    const int64_t high = max(1, min(tile_rows(p->isa, vecs), (p->isa->registers - taken - vecs - 1) / vecs));
    const int64_t low_width = p->small ? 1 : LONE_VECS; /* a lone row's values are read at once, too */
    const int64_t wide = of_value > p->cached.vecs && !p->small ? wide_rows(p->isa, of_value) : 0;
    const bool prefetches = p->isa->prefetches && request_or(&p->request, PLAN_PREFETCH, PLAN_ON) == PLAN_ON;
    p->cached.values_in_order = wide > 0 || of_value <= p->cached.vecs;
    p->cached.many_rows = MANY_ROWS;
    p->cached.ahead_keys = max(1, (int64_t)p->isa->l2_bytes / (layer->h_kv * position));
    const int64_t ahead = layer->portable ? PORTABLE_AHEAD_BYTES : AHEAD_BYTES;
    if (prefetches && p->cached.few_rows > 1)
        p->cached.ahead = max(1, ahead / (max(layer->d_k, layer->d_v) * layout_element(p, LAYOUT_K_CACHE)));
    if (prefetches && p->cached.few_rows > 0 && group == 1) {
        p->cached.early_floats = EARLY_BYTES / layout_element(p, LAYOUT_K_CACHE);
        p->cached.early = max(1, min(lanes, EARLY_BYTES / LINE_BYTES * lanes / p->cached.few_block)); /* evenly */
    }
    const int64_t of_query = ceil_div(layer->d_k, lanes);
    p->cached.query_vecs = layer->portable ? FOURS_VECS : QUERY_VECS;
    p->cached.held_rows = (p->isa->registers - lanes / 4 - 1) / (DOT_KEYS + lanes / 4);
    p->cached.lone_vecs = of_query <= 2 * LONE_VECS ? of_query : 0;
    if (p->isa->half_target != NULL && group == 1 && p->cached.few_rows > 0 && !layer_stores_cache(layer) &&
        !p->small)
        p->cached.half_vecs = (p->isa->registers - 2 * DOT_KEYS) / 2;
    p->halves = p->cached.half_vecs > 0;
    const int64_t value = layer->d_v * layout_element(p, LAYOUT_K_CACHE);
    p->cached.value_keys = max(8, NEAR_BYTES / value);
    p->cached.value_keys_of_many = max(8, (p->cached.values_in_order ? NEAR_BYTES_OF_MANY : NEAR_BYTES) / value);
    p->cached.q_row = row_stride(p, round_up(layer->d_k, lanes));
    p->cached.o_row = row_stride(p, round_up(layer->d_v, lanes));
    if (p->rounds_scores) { /* a query's words, then its scale; whole vectors are written */
        p->words_room = round_up(layer->d_k, max(lanes, p->core_word)) / p->core_word;
        p->cached.words_row = row_stride(p, p->words_room + 1);
    }
    if (p->rounds_values) { /* of core_word keys */
        p->values_room = row_stride(p, round_up(layer->d_v, lanes));
        tiles_for_one(&p->cached.word_panels, ceil_div(layer->d_v, lanes), p->cached.vecs);
    }
    tiles_for_runs(&p->cached.tiles, p->cached.rows, group > 1 ? group : 3, min(high, p->cached.rows), 2);
    tiles_for_one(&p->cached.panels, of_value, p->cached.vecs);
    tiles_for_one(&p->cached.low_panels, of_value, p->cached.row_vecs > 0 ? p->cached.vecs : low_width);
    if (p->cached.few_rows > 0)
        tiles_for_runs(&p->cached.dot_tiles, p->cached.few_rows, group,
                       min(p->cached.few_rows, tile_rows(p->isa, DOT_KEYS)), 2);
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
        prefetch_ahead(&p->cached.dot_tiles, p->cached.few_rows, layer->portable ? 1 : 2);
    if (p->cached.ahead > 0)
        prefetch_ahead(wide > 0 ? &p->cached.few_tiles : &p->cached.tiles, p->cached.few_rows, 2);
}

/* The cache as it lies, and attention over it; of latent attention once more with keys and values of heads */
void plan_cached(struct plan_isa *p, const struct layer *layer)
{
    const bool paged = layer->cache == CACHE_PAGED;
    const int64_t tokens = paged ? layer->page_len : layer->cache_len;
    const struct { enum layout_name id; const char *name; int64_t d; } caches[] = {
        {LAYOUT_K_CACHE, paged ? "k_pages" : "k_cache", layer->d_k},
        {LAYOUT_V_CACHE, paged ? "v_pages" : "v_cache", layer->d_v}};
    if (p->fold->expands.least > 0) {
        const struct layer heads = layer_of_heads(layer);
        plan_blocks(p, &heads);
        p->expanded = p->cached;
        p->cached = (struct plan_cached){0};
    }
    if (!layer_has_cache(layer))
        return;
    for (int i = 0; i < layer_cached_rows(layer); i++) {
        p->layouts[caches[i].id] =
            rows_of(caches[i].name, OWNER_CALLER, layer->h_kv, tokens, caches[i].d, tokens * caches[i].d, caches[i].d);
        p->layouts[caches[i].id].element = layer->cache_type;
    }
    plan_blocks(p, layer);
}

/* Keys and values of a head from latents, a block of keys at a time, and attention on them */
bool plan_expanded(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool keys = g->id == STEP_UP_K;
    const int64_t block = p->expanded.key_block, made = keys ? layer->latent.d_nope : layer->latent.d_value;
    const int64_t row = keys ? layer->latent.d_head : made;
    g->size = 1;
    if (p->fold->expands.least == 0 || g->id == STEP_EXPAND)
        return p->fold->expands.least > 0;
    const int64_t panel_vecs = p->request.value[PLAN_PANEL_VECS];
    if (!keys) /* as W_UV is packed for sums of latents */
        p->request.value[PLAN_PANEL_VECS] = plan_panels_of(p, STEP_UP_Z)->vecs;
    p->layouts[LAYOUT_LATENTS] = rows_of("latents", OWNER_WORKER, 1, block, layer->d_k, 0, layer->d_k);
    p->layouts[g->writes] = rows_of(g->name, OWNER_WORKER, 1, keys ? block : p->expanded.segment, row, 0, row);
    struct plan_panels *const own = begin_panels(p, g, layer->latent.rank, made, false);
    own->groups = layer->h;
    end_panels(p, layer, g, block, block);
    p->request.value[PLAN_PANEL_VECS] = panel_vecs;
    own->group_rows = round_up(block, p->block);
    own->part_panels = own->panels; /* a part is a head, */
    g->over = OVER_NONE;            /* which those of STEP_EXPAND take */
    return true;
}

/* ---- place ---- */

/* The same in a call with keys and values of heads, in the same place */
void place_expanded(struct plan_isa *p, const struct layer *layer, int64_t before)
{
    const struct plan_cached *const of = &p->expanded;
    const int64_t end = p->bytes[OWNER_WORKER], up = round_up(of->rows, p->lanes);
    p->bytes[OWNER_WORKER] = before;
    place(p, LAYOUT_LATENTS);
    place(p, LAYOUT_HEAD_KEYS);
    place(p, LAYOUT_HEAD_VALUES);
    place_new(p, LAYOUT_HEAD_K_T, "k_t of heads", OWNER_WORKER, layer->latent.d_head * of->segment / of->key_block,
              of->key_block);
    place_new(p, LAYOUT_HEAD_Q, "q_rows of heads", OWNER_WORKER, of->rows, of->q_row);
    place_new(p, LAYOUT_HEAD_SCORES, "scores of heads", OWNER_WORKER, of->rows, of->s_row);
    place_new(p, LAYOUT_HEAD_SUMS, "sums of heads", OWNER_WORKER, of->rows, of->o_row);
    place_new(p, LAYOUT_HEAD_STATE, "state of heads", OWNER_WORKER, CACHED_STATES + 2 * p->lanes, up);
    place_new(p, LAYOUT_HEAD_TOTALS, "totals of heads", OWNER_WORKER, layer->seq_len, of->o_row + 2);
    p->bytes[OWNER_WORKER] = max(p->bytes[OWNER_WORKER], end);
}

/* Of a block of rows: queries, transposed keys, scores, sums of a segment and of all so far, and for each row what
 * templates/steps/cached.in names; and what parts leave of segments. */
void place_cached(struct plan_isa *p, const struct layer *layer)
{
    const int64_t rows = p->cached.rows, up = round_up(rows, p->lanes), lanes = p->lanes;
    const int64_t block = max(p->cached.key_block, p->cached.few_block), before = p->bytes[OWNER_WORKER];
    place_new(p, LAYOUT_Q_ROWS, "q_rows", OWNER_WORKER, rows, p->cached.q_row + p->cached.words_row);
    if (p->cached.row_vecs > 0) {
        place_new(p, LAYOUT_Q_T, "q_t", OWNER_WORKER, layer->d_k, up);
        place_new(p, LAYOUT_K_T, "k_rows", OWNER_WORKER, p->cached.key_tiles.at[0].rows, layer->d_k);
        place_new(p, LAYOUT_DOTS, "s_t", OWNER_WORKER, round_up(block, lanes), up);
    } else {
        place_new(p, LAYOUT_K_T, "k_t", OWNER_WORKER, layer->portable ? round_up(layer->d_k, 4) : layer->d_k,
                  p->cached.key_block);
    }
    place_new(p, LAYOUT_SCORES, "scores", OWNER_WORKER, p->cached.row_vecs > 0 ? up : rows, p->cached.s_row);
    place_new(p, LAYOUT_TILE, "sums", OWNER_WORKER, rows, p->cached.o_row);
    place_new(p, LAYOUT_TOTALS, "totals", OWNER_WORKER, rows, p->cached.o_row);
    const int64_t sums = (p->rounds_values ? 2 : 1) * lanes + p->places; /* of a row, side by side */
    place_new(p, LAYOUT_STATE, "state", OWNER_WORKER, CACHED_STATES + sums, up);
    const int64_t scales = (layer_scales_cache(layer) ? 2 : 0) + p->rounds_scores + p->rounds_values;
    if (scales > 0)
        place_new(p, LAYOUT_ROW_SCALES, "row_scales", OWNER_WORKER, scales, block);
    if (p->rounds_values) /* what sums start from, words, then core_word values as floats */
        place_new(p, LAYOUT_ROUNDED_VALUES, "value words", OWNER_WORKER,
                  1 + p->cached.key_block / p->core_word + (layer_stores_cache(layer) ? p->core_word : 0),
                  p->values_room);
    if (p->cached.few_rows > 0) /* exact = portable: keys that do not lie side by side */
        place_new(p, LAYOUT_DOTS, "dots", OWNER_WORKER, layer->portable ? layer->d_k : p->cached.few_rows * lanes / 4,
                  lanes);
    if (p->fold->expands.least > 0)
        place_expanded(p, layer, before);
    if (p->cached.split > 0)
        place_new(p, LAYOUT_PARTIALS, "partials", OWNER_SCRATCH, p->cached.split * p->cached.segments * layer->h,
                  p->cached.o_row + 2);
}

/* ---- expected time ---- */

/* Attention by rows over a cache: a call with seq_len tokens that fill it. */
static void count_rows(struct model *m, const struct plan_cached *c, const struct layer *l, double times)
{
    const struct plan_isa *p = m->plan;
    struct work *scores = &m->work[EXPECT_SCORES], *sums = &m->work[EXPECT_SUMS], *w = &m->work[EXPECT_EXPONENTIAL];
    const struct tile_heights *tiles = &c->tiles;
    const int64_t group = l->h / l->h_kv, past = l->source_len - l->seq_len, vecs = c->vecs;
    const double heads = times * (double)l->h_kv, lanes = (double)p->lanes;
    const double key = size_of(m, LAYOUT_K_CACHE) * (double)l->d_k, value = size_of(m, LAYOUT_K_CACHE) * (double)l->d_v;
    const double far = share_lost(m->core->caches, (double)(l->h_kv * l->source_len) * (key + (l->shares ? 0 : value)));
    const struct terms terms = count_terms(l);
    int64_t left, right;
    visible_reach(l, &left, &right);
    for (int64_t t = 0; t < l->seq_len; t += c->queries) {
        const int64_t queries = min(c->queries, l->seq_len - t), rows = queries * group;
        const int64_t first = left == LAYER_UNBOUNDED ? 0 : max(0, past + t - left);
        const int64_t end = right == LAYER_UNBOUNDED ? l->source_len : min(l->source_len, past + t + queries + right);
        const double keys = (double)max(0, end - first), vectors = (double)rows * ceil(keys / lanes);
        const double panels = (double)ceil_div(ceil_div(l->d_v, p->lanes), vecs);
        int64_t high = rows;
        const bool few = l->seq_len <= c->few_queries;
        for (const struct tile_height *h = tiles->at; h < tiles->at + tiles->count; h++) {
            const double count = heads * (double)tiles_taken(h, &high);
            if (!few && c->row_vecs == 0)
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
        } else if (c->row_vecs > 0) {
            const int64_t wide = c->row_vecs, high = c->key_tiles.at[0].rows;
            add_tile(scores, m->core, high, wide, (double)l->d_k, p->unroll_scores,
                     heads * (double)ceil_div(rows, wide * p->lanes) * keys / (double)high);
        } else {
            const double share = c == &p->expanded ? (double)queries / (double)l->seq_len : 1; /* once for all blocks */
            scores->overhead += share * heads * keys * (double)l->d_k * m->core->transpose;
        }
        w->operations += heads * vectors * (m->core->exp + terms.of_tiles + terms.operations + FIRST_OPERATIONS);
        w->loads += heads * 3 * vectors;
        w->overhead += heads * BLOCK_CYCLES * ceil(keys / (double)(few ? c->few_block : c->key_block));
        scores->l2 += heads * keys * key;
        sums->l2 += heads * keys * value;
        scores->l3 += far * heads * keys * key;
        sums->l3 += l->shares ? 0 : far * heads * keys * value; /* else L2 has them, as scores read them */
    }
}

void count_cached(struct model *m, double times)
{
    count_rows(m, &m->plan->cached, m->layer, times);
}

/* The same with keys and values of heads */
void count_expanded(struct model *m, double times)
{
    const struct layer heads = layer_of_heads(m->layer);
    count_rows(m, &m->plan->expanded, &heads, times);
}

/* ---- reasons ---- */

/* Latent attention: which calls have keys and values of heads. */
void explain_expanded(struct plan_isa *p)
{
    const struct latent_form *const of = &p->fold->expands;
    if (of->price > 0)
        reason(p, "calls of " D64 " tokens and more form keys and values of each head, " D64 " positions at a time, "
               "where n (2 past + n + 1) " D64 " > past " D64 ": that takes fewer multiply-adds, without a past and "
               "from " D64 " tokens on", of->least, p->expanded.segment, of->gain, of->price,
               max(of->least, of->price / (2 * of->gain) + 1));
    else if (of->least > 0)
        reason(p, "every call forms keys and values of each head, " D64 " positions at a time", p->expanded.segment);
}

/* Attention over a cache, in place of that by blocks of queries. */
void explain_cached(struct plan_isa *p, const struct layer *layer)
{
    const bool exact = layer_exact_chunks(layer);
    char size[32], path[160];
    reason(p, "attention by rows, one for each query and head%s: blocks of " D64 " row%s, " D64
           " token%s of the heads that share keys; tiles of at most " D64 " rows x " D64 " vectors",
           p->cached.row_vecs > 0 ? "" : ", keys along the lanes", p->cached.rows,
           plural(p->cached.rows), p->cached.queries, plural(p->cached.queries), p->cached.tiles.at[0].rows,
           p->cached.vecs);
    if (layer_stores_cache(layer))
        reason(p, "a cache of %s: %s, rounded when they are written, f32 in registers",
               element_name(layer->cache_type),
               layer_scales_cache(layer) ? "whole numbers and a scale for each row of a head"
                                         : "keys and values of two bytes");
    reason(p, "softmax covers positions k " D64 " ... k " D64 " + " D64 " at a time; sums start again every " D64
           " positions, which have %s of keys and values, and are joined in order", p->cached.key_block,
           p->cached.key_block, p->cached.key_block - 1, p->cached.segment,
           bytes_text(size, p->cached.segment * layer_cached_numbers(layer) * layout_element(p, LAYOUT_K_CACHE)));
    if (p->cached.few_queries > 0)
        snprintf(path, sizeof path, "calls with up to " D64 " token%s sum scores along the features, in blocks of " D64
                 " positions, longer ones along the keys", p->cached.few_queries, plural(p->cached.few_queries),
                 p->cached.few_block);
    else
        snprintf(path, sizeof path, "every call sums scores in the same order: %s",
                 p->cached.row_vecs > 0 ? "heads that share keys lie along the lanes; keys are read as cached"
                 : exact ? "exact_chunks" : "enough heads share keys for one token to fill the tiles");
    reason(p, "%s", path);
    if (p->cached.split > 0)
        reason(p, "groups with up to " D64 " tokens have a part for each of at most " D64 " segments", p->cached.split,
               p->cached.segments);
    if (p->cached.ahead > 0)
        reason(p, "few rows, from two on, prefetch " D64 " rows ahead, in sequences of at least " D64
               " keys, which exceed L2", p->cached.ahead, p->cached.ahead_keys);
    if (p->cached.few_rows > 1 && p->cached.values_in_order)
        reason(p, "few rows read values in the order of memory, in tiles of up to " D64 " rows",
               (p->cached.few_tiles.count > 0 ? p->cached.few_tiles : p->cached.tiles).at[0].rows);
    if (p->cached.sweep_keys > 0)
        reason(p, "tiles read parts of values: from " D64 " keys of a sequence on, %s and more, those of " D64
               " keys are read once before, in order", p->cached.sweep_keys,
               bytes_text(size, p->cached.sweep_keys * layer->h_kv * layer_cached_numbers(layer) *
                          layout_element(p, LAYOUT_K_CACHE)), p->cached.swept_keys);
    if (p->cached.half_vecs > 0)
        reason(p, "one row reads keys and values by halves of vectors: where they lie beyond L2, these come faster");
    if (p->cached.early > 0)
        reason(p, "while one row's weights are computed, its values are prefetched, " D64 " line%s with each vector",
               p->cached.early, plural(p->cached.early));
}

/* Tiles of a layer with a cache: rows of scores and of sums. */
void print_cached(FILE *out, const struct plan_isa *p, const char *name)
{
    fprintf(out, "      %-14s x " D64 " keys: ", name, p->cached.vecs * p->lanes);
    print_heights(out, &p->cached.tiles);
    fprintf(out, " rows; of sums the same, by ");
    print_heights(out, &p->cached.panels);
    fprintf(out, " vectors of features; of one row: " D64 " vectors of its query at once\n", p->cached.query_vecs);
}
