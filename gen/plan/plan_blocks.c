/* SPDX-License-Identifier: MIT */
/* The shape of attention's plan: blocks of queries and keys, heights of tiles, slabs, parts, where values and z lie;
 * then what depends on the steps that there are.
 *
 * Left out on purpose: the steps (step_attend.c), attention over a cache (step_cached.c), the price of a tile
 * (plan_tiles.c).
 */
#include "plan/planning.h"

#include "spec/relative.h"
#include "spec/score.h"
#include "spec/visible.h"

#define VALUE_BLOCKS_FILL 0.9    /* least share of lanes that tokens fill where wide values lie in blocks */
#define VALUE_BLOCKS_GAIN 1.5    /* measured: least ratio of the lanes that tokens fill to those that features fill */
#define FEW_KEYS 4               /* vectors of keys from which on few queries of narrow heads take sums across lanes */
#define FEW_DEPTH 32             /* features of wider ones; measured, Zen 5: 0.2 to 0.9 of the time with 1 to 32 keys */
#define FEW_SHALLOW 5            /* queries, at most, of narrower ones; avx512, 16 and 24 features: 5 take 0.9 to 0.97
                                  * of the time along the queries, 6 to 8 1 to 1.2 */
#define FEW_VALUES 16            /* of keys 2 KiB apart, as many stay in 32 KiB of L1; measured, Zen 5: 32 and more take
                                  * up to 1.1 of the time */
#define FEW_COST 0.2             /* beside their share of lanes, over the time of a vector of queries, and */
#define FEW_NARROW 6.0           /* over features more. Measured, Zen 5: one takes 0.3 (128) to 0.55 (32), half a
                                  * vector 0.6 to 0.85 */
#define FAR_BYTES 1024           /* from row to row: of four in a page hardware does not see that others follow */
#define UNROLL_KEYS_FULL 16      /* "full" for the one reduction whose length is known only at run time */

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
static void plan_few(struct plan_isa *p, const struct layer *layer)
{
    const bool other = layer->cross || layer->projected;
    bool plain = p->at_once && !p->rounds_scores && !p->value_blocks && !score_lifts(layer) &&
                 !layer_has_vectors(layer);
    for (int i = 0; i < SCORE_TERMS; i++)
        plain = plain && !(score_terms[i].place == SCORE_TILES && score_has(layer, (enum score_name)i));
    const int64_t depth = min(p->fold->d_score, p->fold->d_value);
    p->few.keys = depth < FEW_DEPTH ? FEW_KEYS * p->lanes : 1;
    if (!other || layer_has_cache(layer) || layer->train || layer->portable || p->small || !plain ||
        layer->source_len < p->few.keys || p->fold->d_score < p->lanes || p->fold->d_value < p->lanes)
        return;
    p->few.values = FEW_VALUES;
    p->few.rows = p->isa->registers < 32 ? 2 : 4;
    p->cached.few_queries = min(layer->seq_len, min(p->lanes / 2, depth < FEW_DEPTH ? FEW_SHALLOW : p->lanes));
    if (layer->projected && layer->w_o == W_O_NONE) /* products would have a block of as many rows */
        p->few.left = p->cached.few_queries;
    p->few.cost = FEW_COST + FEW_NARROW / (double)depth;
    p->cached.q_row = row_stride(p, round_up(p->fold->d_score, p->lanes));
    p->cached.o_row = row_stride(p, round_up(p->fold->d_value, p->lanes));
}

/* Rows of a head that the caller has far apart: hardware does not prefetch them, and each weighted sum would wait. */
static void plan_fetches(struct plan_isa *p, const struct layer *layer)
{
    const int64_t row = p->layouts[LAYOUT_VALUES].stride[AXIS_TOKEN] * (int64_t)element_size(OPERANDS);
    const int64_t bytes = layer->source_len * layer->h_kv * (layer->d_k + layer->d_v) * (int64_t)element_size(OPERANDS);
    p->fetches_values = layer->projected && !layer->shares && !layer_has_cache(layer) && !p->rounds_values &&
                        p->isa->prefetches &&
                        request_or(&p->request, PLAN_PREFETCH, PLAN_ON) == PLAN_ON && !p->small &&
                        row >= FAR_BYTES && row > layer->d_v * (int64_t)element_size(OPERANDS) &&
                        bytes > (int64_t)p->isa->l2_bytes / 2;
}

/* Where attention leaves Z: as it has it, a block of queries along the lanes, or turned into rows. A panel of W_O
 * passes all of a block, of which the numbers of one tile's tokens lie far apart. */
static void plan_z(struct plan_isa *p, const struct layer *layer)
{
    const int64_t block = layer->h * p->fold->d_z * p->block;
    const bool stays = block * layout_element(p, LAYOUT_Z) <= (int64_t)p->isa->l1d_bytes / 2;
    const bool rows = 2 * layer->seq_len < p->lanes || p->batch_rows > layer->seq_len || !stays;
    p->z_rows = layer->w_o != W_O_DENSE || layer_is_latent(layer) || layer->gate != GATE_NONE ||
                layer_has_cache(layer) || layer->train || reads_rounded(p) ||
                request_or(&p->request, PLAN_Z_LAYOUT, rows ? PLAN_ROWS : PLAN_BLOCKS) == PLAN_ROWS;
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
void choose_blocks(struct plan_isa *p, const struct layer *layer)
{
    const struct isa *const isa = p->isa;
    if (layer->projected)
        plan_given(p, layer, false);
    /* tokens along the lanes: weights would be the operand that is broadcast, number by number */
    const bool rounded = (layer_stores_weights(layer) && !layer->identity) || p->rounds_values;
    p->value_blocks = !layer->projected && !layer->shares && !layer_has_cache(layer) && !layer->train && !rounded &&
                      request_or(&p->request, PLAN_VALUE_LAYOUT, values_by_blocks(p, layer)) == PLAN_BLOCKS;
    p->holds = layer->train && !layer->cross && !layer->pad_skipped &&
               request_or(&p->request, PLAN_SAVED, PLAN_PROJECTIONS) == PLAN_PROJECTIONS;
    p->streams = streams_head(p, layer);
    p->at_once = !p->small && layer->scores <= SCORES_WEIGHTS; /* others are written out before */
    plan_few(p, layer);
    p->vecs = request_or(&p->request, PLAN_QUERY_VECS, choose_query_vecs(p, layer->seq_len, p->streams));
    p->block = p->vecs * p->lanes;
    /* requested heights are of full tiles: tiles of one vector need more rows to hide the latency */
    const int64_t rows = rows_fit(p, p->vecs), rows_single = p->vecs == 1 ? rows : tile_rows(isa, 1);
    /* where keys are the caller's own rows */
    const int64_t key_row = layer->projected ? p->layouts[LAYOUT_KEYS].stride[AXIS_TOKEN] : layer->d_source;
    const bool callers = p->fold->scores || layer->projected;
    const int64_t apart = callers && !p->small ? rows_apart(key_row) : rows_single;
    const bool words = p->rounds_scores;
    const int64_t taken = words ? isa->word_registers[p->core_word == 4] : 0;
    const int64_t of_words = max(1, (isa->registers - taken - p->vecs - 1) / p->vecs);
    p->rows = min(request_or(&p->request, PLAN_SCORE_ROWS, apart), min(rows, of_words));
    p->rows_single = p->vecs == 1 ? p->rows : min(min(rows_single, isa->registers - taken - 2), apart);
    p->open_keys = layer->portable ? 1 : p->rows;
    p->open_keys_single = layer->portable ? 1 : p->rows_single;
    int64_t (*const part)(int64_t, int64_t) = p->small ? one_height : near_equal;
    const bool sums = p->rounds_values; /* of whole numbers */
    const int64_t of_sums = sums ? min(rows, of_words) : rows;
    p->value_rows = part(p->fold->d_value, min(of_sums, request_within(&p->request, PLAN_VALUE_ROWS, rows)));
    p->value_rows_single = p->vecs == 1 ? p->value_rows
                         : part(p->fold->d_value, sums ? min(rows_single, isa->registers - taken - 2) : rows_single);
    p->two_pass = request_or(&p->request, PLAN_SOFTMAX, PLAN_ONE_PASS) == PLAN_TWO_PASS;

    if (!p->small || request_asks(&p->request, PLAN_BATCH_ROWS))
        choose_batch(p, layer);
    p->query_blocks = ceil_div(max(layer->seq_len, p->batch_rows), p->block);
    p->source_blocks = ceil_div(max(layer_new_keys(layer), p->batch_sources), p->block);

    const int64_t fit = max(p->rows, (int64_t)(isa->l1d_bytes / 2) / layout_element(p, LAYOUT_SCORES) / p->block);
    p->key_block = request_asks(&p->request, PLAN_KEY_BLOCK) ? p->request.value[PLAN_KEY_BLOCK]
                 : p->value_blocks ? p->block
                 : round_up(ceil_div(layer->source_len, ceil_div(layer->source_len, fit)), p->rows);
    if (sums)
        p->key_block = min(p->key_block, MOST_SUMMED / p->rows * p->rows);
    const int64_t slab_fit = max(1, (int64_t)(isa->l1d_bytes * 2 / 3) / layout_element(p, LAYOUT_Q_T) / p->block);
    const int64_t slab = request_or(&p->request, PLAN_DEPTH_SLAB, p->small ? p->fold->d_score : slab_fit);
    p->depth_slab = words ? p->fold->d_score : near_equal(p->fold->d_score, slab); /* exact sums are not cut */
    p->unroll_scores = choose_unroll(p, p->depth_slab);
    p->unroll_values = choose_unroll(p, UNROLL_KEYS_FULL);
    const double block = (double)p->block * (double)layer->source_len * (double)(p->fold->d_score + p->fold->d_value);
    p->part_blocks = layer->rel_queries != VECTORS_NONE ? p->query_blocks /* which share what is made of the keys */
                   : min(p->query_blocks, (int64_t)(PART_MULTIPLY_ADDS / block) + 1);

    plan_z(p, layer);
    if (layer->projected)
        plan_given(p, layer, true);
    else
        plan_inputs(p, layer);
}

/* What depends on the steps that there are */
void plan_after_steps(struct plan_isa *p, const struct layer *layer)
{
    plan_relative(p, layer);
    plan_vectors(p, layer);
    plan_fetches(p, layer);
}
