/* SPDX-License-Identifier: MIT */
/* Attention by blocks of queries, queries along the lanes: scores, softmax, weighted sums; its blocks, tiles and parts,
 * and where z lies.
 *
 * Left out on purpose: attention over a cache (step_cached.c).
 */
#include "plan/planning.h"

#include <math.h>

#include "spec/relative.h"
#include "spec/score.h"
#include "spec/visible.h"

#define VALUE_BLOCKS_FILL 0.9    /* least share of lanes that tokens fill where wide values lie in blocks */
#define VALUE_BLOCKS_GAIN 1.5    /* measured: least ratio of the lanes that tokens fill to those that features fill */
#define FEW_KEYS 4               /* vectors of keys from which on few queries of narrow heads take sums across lanes */
#define FEW_DEPTH 32             /* features of wider ones; measured, Zen 5: 0.2 to 0.9 of the time with 1 to 32 keys */
#define FEW_VALUES 16            /* of keys 2 KiB apart, as many stay in 32 KiB of L1; measured, Zen 5: 32 and more take
                                  * up to 1.1 of the time */
#define FAR_BYTES 1024           /* from row to row: of four in a page hardware does not see that others follow */
#define UNROLL_KEYS_FULL 16      /* "full" for the one reduction whose length is known only at run time */
#define QUERY_TILE_CYCLES 150.0 /* and a tile of queries: its state, 1 / l, the check */
#define COPY_LOADS 4            /* of a vector of a tile that does not start at a block: copied in or out */

/* Whether the keys and values of a head that a query sees exceed L2. */
static bool streams_head(const struct plan_isa *p, const struct layer *l)
{
    const struct plan_fold *fold = p->fold;
    int64_t left, right;
    visible_reach(l, &left, &right);
    const int64_t before = left != LAYER_UNBOUNDED ? left : l->source_len;
    const int64_t behind = right != LAYER_UNBOUNDED ? right : l->source_len;
    /* keys and values are both the input's own rows; rows that may have a key before them */
    const bool one = l->shares || (fold->scores && (fold->values || l->identity) && !p->value_blocks);
    const int64_t rows = l->offset == OFFSET_NONE ? l->seq_len : l->source_len;
    const double keys = (double)min(l->source_len, min(before + 1, rows) + behind);
    const int64_t key = fold->d_score * layout_element(p, LAYOUT_KEYS);
    const int64_t value = fold->d_value * layout_element(p, LAYOUT_VALUES);
    return keys * (double)(key + (one ? 0 : value)) > (double)p->isa->l2_bytes;
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

static void plan_vectors(struct plan_isa *p, const struct layer *layer)
{
    int64_t left, right;
    if (!layer_has_vectors(layer))
        return;
    relative_reach(layer, &left, &right);
    p->vectors.rows = layer->rel_width;
    p->vectors.row = round_up(layer->rel_width, p->block);
    p->vectors.low = right + p->block - 1;
    p->vectors.high = left;
    p->vectors.table = p->vectors.low + left + p->block;
}

/* A call of few queries would leave most lanes idle. Features along the lanes fill them; a sum across these is paid for
 * by many keys. What is done to scores in register tiles is done with queries along the lanes. */
static void plan_few(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const bool other = layer->cross || layer->projected;
    bool plain = p->at_once && !p->rounds_scores && !p->value_blocks && !score_lifts(layer) &&
                 !layer_has_vectors(layer);
    for (int i = 0; i < SCORE_TERMS; i++)
        plain = plain && !(score_terms[i].place == SCORE_TILES && score_has(layer, (enum score_name)i));
    p->few.keys = min(p->fold->d_score, p->fold->d_value) < FEW_DEPTH ? FEW_KEYS * p->lanes : 1;
    if (!other || layer_has_cache(layer) || layer->train || layer->portable || request_is_small(request) || !plain ||
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
    p->fetches_values = layer->projected && !layer->shares && !layer_has_cache(layer) && !p->rounds_values &&
                        p->isa->prefetches &&
                        request_or(request, PLAN_PREFETCH, PLAN_ON) == PLAN_ON && !request_is_small(request) &&
                        row >= FAR_BYTES && row > layer->d_v * (int64_t)element_size(OPERANDS) &&
                        bytes > (int64_t)p->isa->l2_bytes / 2;
}

/* Where attention leaves Z: as it has it, a block of queries along the lanes, or turned into rows. A panel of W_O
 * passes all of a block, of which the numbers of one tile's tokens lie far apart. */
static void plan_z(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const int64_t block = layer->h * p->fold->d_z * p->block;
    const bool stays = block * layout_element(p, LAYOUT_Z) <= (int64_t)p->isa->l1d_bytes / 2;
    const bool rows = 2 * layer->seq_len < p->lanes || p->batch_rows > layer->seq_len || !stays;
    p->z_rows = layer->w_o != W_O_DENSE || layer_is_latent(layer) || layer->gate != GATE_NONE ||
                layer_has_cache(layer) || layer->train || reads_rounded(p) ||
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

/* Blocks of queries and keys, heights of tiles, and how many sequences are projected together */
void plan_shape(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    const struct isa *const isa = p->isa;
    if (layer->projected)
        plan_given(p, layer, false);
    /* tokens along the lanes: weights would be the operand that is broadcast, number by number */
    const bool rounded = (layer_stores_weights(layer) && !layer->identity) || p->rounds_values;
    p->value_blocks = !layer->projected && !layer->shares && !layer_has_cache(layer) && !layer->train && !rounded &&
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
    p->open_keys = layer->portable ? 1 : p->rows;
    p->open_keys_single = layer->portable ? 1 : p->rows_single;
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
    p->part_blocks = layer->rel_queries != VECTORS_NONE ? p->query_blocks /* which share what is made of the keys */
                   : min(p->query_blocks, (int64_t)(PART_MULTIPLY_ADDS / block) + 1);

    plan_z(p, layer, request);
    if (layer->projected)
        plan_given(p, layer, true);
    else
        plan_inputs(p, layer);
}

bool plan_attention(struct plan_isa *p, const struct layer *layer, const struct plan_request *request, struct step *g)
{
    const bool ahead = layer_rounds_ahead(layer, p->isa->sums_pairs);
    (void)request;
    if (g->id == STEP_SUMS)
        g->reads[1] = ahead && p->rounds_values ? LAYOUT_ROUNDED_VALUES : values_read(layer);
    else if (ahead)
        g->reads[1] = LAYOUT_ROUNDED_KEYS;
    if (g->id == STEP_SCORES && p->fold->q_is_k)
        g->reads[0] = LAYOUT_KEYS;
    return layer_attends(layer);
}

/* What depends on the steps that there are */
void plan_after_steps(struct plan_isa *p, const struct layer *layer, const struct plan_request *request)
{
    plan_relative(p, layer);
    plan_vectors(p, layer);
    plan_few(p, layer, request);
    plan_fetches(p, layer, request);
}

/* Keys, values and queries that attention reads next are prefetched where they are beyond L2. */
void prefetch_attention(struct plan_isa *p, const struct layer *layer, bool asked)
{
    const double query = (double)(layer->d_k + (p->z_in_q ? 0 : layer->d_v)), key = (double)(layer->d_k + layer->d_v);
    const double attend = (double)layer->h * (double)layer->seq_len * query
                        + (double)layer->h_kv * (double)layer->source_len * key;
    if ((asked || attend * (double)layout_element(p, LAYOUT_KEYS) > (double)p->isa->l2_bytes / 2) && p->vecs > 1 &&
        p->at_once && !layer_has_cache(layer) && plan_step(p, STEP_KEYS) != NULL &&
        plan_step(p, STEP_VALUES) != NULL)
        p->prefetch_keys = ceil_div(p->rows, p->query_blocks);
    if (p->prefetch_keys > 0 && plan_step(p, STEP_QUERIES) != NULL) /* the next tile's, while one tile passes
                                                                           * over the keys */
        p->prefetch_queries = ceil_div(p->block, ceil_div(layer->source_len, p->rows));
}

static int64_t tiles_tile(const struct plan_isa *p, const struct step *g)
{
    (void)g;
    return p->cached.rows > 0 ? p->cached.tiles.at[0].rows * p->cached.vecs : 0;
}

/* ---- place ---- */

/* Of a worker: what a tile of queries has */
void place_tiles(struct plan_isa *p, const struct layer *layer)
{
    if (p->cached.few_queries > 0) { /* queries and sums as rows; of a vector of keys weights, sums, sums of quads */
        const int64_t lanes = p->lanes, few = p->cached.few_queries;
        place_new(p, LAYOUT_Q_ROWS, "q_rows", OWNER_WORKER, few, p->cached.q_row);
        place_new(p, LAYOUT_TOTALS, "totals", OWNER_WORKER, few, p->cached.o_row);
        place_new(p, LAYOUT_DOTS, "dots", OWNER_WORKER, 2 * lanes + few * lanes / 4, lanes);
    }
    place_new(p, LAYOUT_SCORES, "scores", OWNER_WORKER, p->key_block, p->block);
    if (score_hooked(layer))
        place_new(p, LAYOUT_VISIBLE, "visible", OWNER_WORKER, p->key_block, p->block);
    if (score_operands(layer) > 0)
        place_new(p, LAYOUT_OPERANDS, "operands", OWNER_WORKER, score_operands(layer) * p->key_block, p->block);
    place_new(p, LAYOUT_TILE, "sums", OWNER_WORKER, p->fold->d_z, p->block);
    place_new(p, LAYOUT_Q_T, "q_t", OWNER_WORKER, p->fold->d_score, p->block);
    if (layer->rel_keys != VECTORS_NONE)
        place_new(p, LAYOUT_OF_QUERIES, "of queries", OWNER_WORKER, p->vectors.rows, p->block);
    if (layer->rel_queries != VECTORS_NONE)
        place_new(p, LAYOUT_OF_KEYS, "of keys", OWNER_WORKER, layer->source_len, p->vectors.row);
}

/* ---- expected time ---- */

#define PICK_CYCLES 1.5 /* of a pair whose products with vectors are looked up */

/* A run of keys for a tile of queries, or for one vector of it. */
struct stretch {
    int64_t vecs;
    bool masked; /* some of the pairs may be hidden */
    bool open;   /* no reference scores yet */
};

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

/* Queries of `tiles` tiles, and all keys of `heads` heads, times the vectors that they reach. */
static void count_vectors(struct model *m, double tiles, double heads)
{
    const struct plan_isa *p = m->plan;
    const struct layer *l = m->layer;
    const struct tile_heights *heights = &p->score_tiles[PLAN_WIDE];
    int64_t vectors = l->rel_keys == VECTORS_NONE ? 0 : min(p->vectors.rows, l->source_len + p->block - 1);
    int64_t keys = l->rel_queries == VECTORS_NONE ? 0 : l->source_len;
    const int64_t reached = min(p->vectors.rows, l->source_len + l->seq_len - 1);
    for (const struct tile_height *h = heights->at; h < heights->at + heights->count; h++) {
        const double panels = heads * (double)ceil_div(reached, p->block);
        const double of_queries = tiles * (double)tiles_taken(h, &vectors);
        const double of_keys = panels * (double)tiles_taken(h, &keys);
        if (of_queries + of_keys > 0)
            add_tile(&m->work[EXPECT_SCORES], m->core, h->rows, p->vecs, (double)l->d_k, p->unroll_scores,
                     of_queries + of_keys);
    }
}

/* One block of keys: scores, exponentials, weighted sums. */
static void count_block(struct model *m, const struct stretch *s, int64_t keys, bool open, double times)
{
    const struct plan_isa *p = m->plan;
    struct work *w = &m->work[EXPECT_EXPONENTIAL];
    const double vectors = times * (double)keys * (double)s->vecs;
    const int64_t open_keys = s->vecs == p->vecs ? p->open_keys : p->open_keys_single;
    if ((open || score_falls(m->layer)) && !s->masked && p->at_once) {
        /* the first scores are stored: their maxima become the reference scores */
        const int64_t done = min(keys, open_keys);
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
    if (layer_has_vectors(m->layer)) /* number by number: its vector's place, one or two products, a store */
        m->work[EXPECT_SCORES].overhead += PICK_CYCLES * vectors * (double)p->lanes;
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

#define MAX_TILES 256 /* tiles of queries that are counted, at most; of more, a sample of that size */

/* `times` sequences, of which `together` were projected as one matrix. */
void count_attention(struct model *m, int64_t together, double times)
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
    count_vectors(m, times * heads * blocks, times * heads);
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

/* ---- reasons ---- */

/* Tiles and blocks of attention by blocks of queries. */
void explain_attention(struct plan_isa *p, const struct layer *layer, bool is_small)
{
    char size[32], rest[80] = "";
    const int64_t left = ceil_div(layer->seq_len, p->lanes) % p->vecs;
    if (left > 0)
        snprintf(rest, sizeof rest, "; " D64 " vector%s left over, one at a time", left, plural(left));
    reason(p, "query block " D64 ": " D64 " vector%s, %s for seq_len " D64 "%s%s", p->block, p->vecs, plural(p->vecs),
           why(&p->request, PLAN_QUERY_VECS, is_small ? "the smallest code" : "the cheapest tiles"), layer->seq_len,
           !request_asks(&p->request, PLAN_QUERY_VECS) && p->vecs > choose_query_vecs(p->isa, layer->seq_len, false)
               ? ", as a head's keys and values exceed L2" : "", rest);
    reason(p, "scores: tile " D64 " x " D64 ", " D64 " accumulators + " D64 " operand%s + 1 broadcast of %d "
           "registers; single vectors " D64 " x " D64, p->rows, p->block, p->rows * p->vecs, p->vecs,
           plural(p->vecs), p->isa->registers, p->rows_single, p->lanes);
    reason(p, "weighted sums: tile " D64 " x " D64 ", single vectors " D64 " x " D64 ": d_v in near-equal parts",
           p->value_rows, p->block, p->value_rows_single, p->lanes);
    const bool cut = p->rounds_values && p->key_block == MOST_SUMMED / p->rows * p->rows &&
                     request_or(&p->request, PLAN_KEY_BLOCK, layer->source_len) > p->key_block;
    reason(p, "key block " D64 ": scores of " D64 " x " D64 " take %s, %s", p->key_block, p->key_block, p->block,
           bytes_text(size, p->key_block * p->block * layout_element(p, LAYOUT_SCORES)),
           cut ? "the most that a sum of integers takes"
               : why(&p->request, PLAN_KEY_BLOCK, p->value_blocks ? "one block of values"
                                                : p->key_block >= layer->source_len ? "all keys"
                                                : "about half of L1; source_len is cut into near-equal blocks"));
}

static void print_widths(FILE *out, const char *name, const char *what, const struct tile_heights heights[PLAN_WIDTHS],
                         const struct plan_isa *p)
{
    for (int width = 0; width < (p->vecs > 1 ? PLAN_WIDTHS : 1); width++) {
        fprintf(out, "      %-14s x " D64 " queries: ", name, width == PLAN_WIDE ? p->block : p->lanes);
        print_heights(out, &heights[width]);
        fprintf(out, " %s", what);
        if (heights == p->score_tiles && p->score_slabs > 1)
            fprintf(out, "; slabs: " D64 " of " D64 ", 1 of " D64, p->score_slabs - 1, p->depth_slab, p->last_slab);
        fputc('\n', out);
    }
}

static void print_tiles(FILE *out, const struct plan_isa *p, const struct step *g)
{
    if (p->cached.rows > 0 && g->id == STEP_SCORES)
        print_cached(out, p, g->name);
    else if (p->cached.rows == 0 && g->id == STEP_SCORES)
        print_widths(out, g->name, "keys", p->score_tiles, p);
    else if (p->cached.rows == 0)
        print_widths(out, g->name, "features", p->value_tiles, p);
}

const struct step_kind_row tiles_kind = {.tile = tiles_tile, .print = print_tiles};
