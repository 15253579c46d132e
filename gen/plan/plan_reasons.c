/* SPDX-License-Identifier: MIT */
/* Why the plan is as it is, for --explain and the banner: every choice that could have been another one, in the
 * reader's units; and the plan's lists. Left out on purpose: choosing.
 */
#include "plan/plan_parts.h"

#include "expression/expression.h"
#include "spec/fast.h"
#include "spec/score.h"
#include "spec/visible.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define D64 "%" PRId64

#define REASON_TEXT 2000
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

/* Why something is as it is: requested, or the model's own words. */
static const char *why(const struct plan_request *request, enum plan_key key, const char *otherwise)
{
    return request_asks(request, key) ? "as requested" : otherwise;
}

/* Behind what is not folded */
static const char *despite_request(const struct plan_isa *p)
{
    return request_asks(&p->request, PLAN_FOLD) ? ", whatever plan.fold asks for" : "";
}

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* "768 bytes", "192 KiB" */
static const char *bytes_text(char text[32], int64_t bytes)
{
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
        snprintf(text, 80, "; each iteration prefetches " D64 " line%s of the next %s", lines, plural(lines), what);
    return text;
}

static void explain_lanes(struct plan_isa *p, const char *name, const struct plan_lanes *g)
{
    char ask[80];
    reason(p, "%s: tile " D64 " x " D64 ", tokens along the lanes, weights packed [tile][" D64 "][" D64 "], row groups "
           "of " D64 "; " D64 " step%s unrolled; " D64 " tile%s a part%s", name, g->height[0], p->block, g->depth,
           g->height[0], g->group_rows, g->unroll, plural(g->unroll), g->part_tiles, plural(g->part_tiles),
           prefetch_text(ask, g->prefetch, "tile"));
}

static void explain_fold(struct plan_isa *p, const struct layer *layer)
{
    const struct plan_fold *f = p->fold;
    if (f->scores)
        reason(p, "%s is folded when packing (%+.3g multiply-adds): keys are the input, " D64 " wide instead "
               "of " D64, layer->tied ? "W_Q W_Q^T" : "W_Q W_K^T", -f->saved_scores, f->d_score, layer->d_k);
    if (f->values)
        reason(p, "W_V W_O is folded when packing (%+.3g multiply-adds): values are the input, " D64 " wide "
               "instead of " D64, -f->saved_values, f->d_value, layer->d_v);
    if (f->q_is_k)
        reason(p, "queries are the keys times the scale: projected once");
    else if (layer->tied && !layer->cross && layer_has_tensor(layer, TENSOR_G_Q))
        reason(p, "queries have gains of their own, so they are projected separately from the keys, with the same "
               "matrix");
}

/* What norm and rotation mean for products and memory. */
static void explain_finish(struct plan_isa *p, const struct layer *layer)
{
    const struct plan_panels *q = plan_panels_of(p, p->fold->q_is_k ? PRODUCT_KEYS : PRODUCT_QUERIES);
    char size[32];
    const char *what = layer->qk_norm == NORM_NONE ? "rotated" : layer->rope.kind == ROPE_NONE ? "normed"
                     : "normed and rotated";
    if (!layer_finishes(layer))
        return;
    if (layer->projected)
        reason(p, "given queries and keys are %s into the scratch; a part has all heads of a block of tokens", what);
    else
        reason(p, "queries and keys are %s after the panel that completes a head, row block by row block: their "
               "weights are not folded%s", what, despite_request(p));
    if (layer->qk_norm == NORM_RMS_ALL && !layer->projected) {
        const int64_t parts = q->parts * ceil_div(layer->seq_len, q->group_rows);
        reason(p, "qk_norm = rms_all: a row is complete only after the last panel, so a part has all " D64 " panels "
               "of the queries: " D64 " part%s for " D64 " tokens", q->groups * q->panels, parts, plural(parts),
               layer->seq_len);
    } else if (!layer->projected && q->finish > 1) {
        reason(p, "a part has a multiple of " D64 " panels, which hold whole heads", q->finish);
    }
    if (layer->rope.kind != ROPE_NONE)
        reason(p, "cosines and sines of " D64 " positions are packed, %s%s", p->turn_rows,
               bytes_text(size, p->turn_rows * 2 * p->turn_width * layout_element(p, LAYOUT_TURNS)),
               layer->rope.given ? "; those of other positions are computed once a call" : "");
}

/* What weights become when they are packed. */
static void explain_weights(struct plan_isa *p, const struct layer *layer)
{
    if (!layer_stores_weights(layer))
        return;
    if (layer->precision == PRECISION_BF16) {
        reason(p, "products with matrices take bf16, two in a 32-bit word, and sum in f32%s. Products of "
               "weights are not folded%s",
               p->isa->bf16.need.name != NULL ? ", by the processor's dot product of two" : "",
               despite_request(p));
        return;
    }
    if (layer_rounds(layer)) {
        if (!layer->projected || layer->w_o != W_O_NONE)
            reason(p, "products with matrices take integers, " D64 " in a 32-bit word; sums are exact, and each row "
                   "and column has a scale. Products of weights are not folded%s", p->word,
                   despite_request(p));
        char longer[64] = "";
        if (p->cached.few_queries > 0)
            snprintf(longer, sizeof longer, "in calls with more than " D64 " token%s ", p->cached.few_queries,
                     plural(p->cached.few_queries));
        if (p->rounds_scores)
            reason(p, "%sscores sum " D64 " products of i%d, with a scale for each row of a head; weighted sums %s",
                   longer, layer->d_k, p->core_word == 4 ? 8 : 16, p->rounds_values
                       ? "take such too: each row of values has a scale, and each query's weights of a block of keys"
                       : "stay f32: with so few features, rounding the weights would cost more");
        else if (layer_attends(layer))
            reason(p, "scores and weighted sums stay f32: %s",
                   layer_exact_chunks(layer) ? "exact_chunks, and a step would round all keys for one query"
                   : layer_has_cache(layer) && layer->seq_len <= p->cached.few_queries
                       ? "calls have so few tokens that rounding keys would cost more"
                       : "rounding would cost more than sums over so few features save");
        return;
    }
    reason(p, "weights are packed as %s, %s, and become %s in registers: products of weights are not folded%s",
           element_name(layer->weight_type),
           layer->weight_type == TENSOR_I8   ? "a scale for each column of a matrix"
           : layer->weight_type == TENSOR_I4 ? "a scale for each 32 rows of a column" : "rounded to nearest",
           p->digits ? "whole numbers" : "f32", despite_request(p));
    if (p->digits)
        reason(p, "rows that are multiplied by weights become whole numbers of three digits of 8 bits, a scale for "
               "each %d numbers, with exact sums: for one token weights are unpacked as fast as memory gives them; "
               "plan.typical_n would keep f32", WEIGHT_GROUP);
    else if ((p->weights == TENSOR_I4 || p->weights == TENSOR_I8) && (layer_has_cache(layer) || !layer_attends(layer)))
        reason(p, "rows that are multiplied by weights stay f32, as %s", plan_digits(layer, p->isa)
               ? "plan.typical_n tells of calls of several tokens"
               : "digits meet weights of i8 only where vpdpbusd sums the products");
}

/* The reason of a product, without its name. */
static void panels_text(char text[REASON_TEXT], const struct plan_isa *p, const struct plan_panels *g)
{
    char cut[64] = "", size[32], registers[100] = "";
    if (g->heights.at[0].registers > 0)
        snprintf(registers, sizeof registers, "sums of " D64 " or " D64 " rows by tile registers of " D64 " x " D64
                 " words, of others by vectors: ", g->heights.at[0].rows, g->heights.at[1].rows, p->tile_rows,
                 p->tile_words);
    if (g->k_block < g->depth)
        snprintf(cut, sizeof cut, " in slabs of " D64, g->k_block);
    const int64_t unroll = min(g->unroll, g->k_block);
    snprintf(text, REASON_TEXT,
             "%stile " D64 " x " D64 " (" D64 " accumulators), panels of " D64 " columns x " D64 " deep (%s)%s; row "
             "groups of " D64 ", %s; " D64 " step%s unrolled; " D64 " panel%s a part%s%s%s",
             registers, g->rows, g->tall_vecs * p->lanes, g->rows * g->tall_vecs, g->vecs * p->lanes, g->depth,
             bytes_text(size, g->panel_size * (int64_t)element_size(g->weights)), cut, g->group_rows,
             why(&p->request, PLAN_GROUP_ROWS, "whose operand fills at most 3/4 of L2 while the panels pass"), unroll,
             plural(unroll), g->part_panels, plural(g->part_panels),
             g->tall_vecs < g->vecs ? "; low tiles are as wide as a panel" : "",
             g->prefetch > 0 ? "; the first tiles over a panel prefetch the next one" : "",
             g->in_order == 0 ? "" : g->halves == 0 ? "; tiles of one or two rows read it in the order of memory"
             : "; tiles of one or two rows read it in the order of memory, of one by halves of vectors");
}

/* A line for each product that has a text; products with the same text share one. */
static void explain_alike(struct plan_isa *p, char text[PLAN_PRODUCTS][REASON_TEXT])
{
    for (int i = 0; i < p->product_count; i++) {
        char alike[80] = "";
        for (int j = i; text[i][0] != '\0' && j < p->product_count; j++)
            if (strcmp(text[i], text[j]) == 0) {
                strcat(strcat(alike, alike[0] != '\0' ? ", " : ""), p->products[j].name);
                if (j > i)
                    text[j][0] = '\0';
            }
        if (alike[0] != '\0')
            reason(p, "%s: %s", alike, text[i]);
    }
}

static void explain_products(struct plan_isa *p)
{
    char text[PLAN_PRODUCTS][REASON_TEXT] = {""};
    for (int i = 0; i < p->product_count; i++)
        if (p->products[i].kind == PRODUCT_PANELS)
            panels_text(text[i], p, &p->products[i].panels);
    explain_alike(p, text);
    for (int i = 0; i < p->product_count; i++)
        if (p->products[i].kind == PRODUCT_LANES)
            explain_lanes(p, p->products[i].name, &p->products[i].lanes);
}

/* Which products are fast, and why others are not. */
static void explain_fast(struct plan_isa *p)
{
    char text[PLAN_PRODUCTS][REASON_TEXT] = {""};
    bool some = !p->unasked; /* else those that stay classical are of interest beside others alone */
    for (int i = 0; i < p->product_count; i++)
        some = some || (p->products[i].kind == PRODUCT_PANELS && p->products[i].panels.fast > 0);
    if (p->not_fast != NULL && !p->unasked)
        reason(p, "no product is fast, though asked for: %s", p->not_fast);
    for (int i = 0; i < p->product_count && p->fast && some; i++) {
        const struct plan_panels *const of = &p->products[i].panels;
        if (p->products[i].kind != PRODUCT_PANELS)
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

static void explain_layout(struct plan_isa *p, const struct layer *layer, const struct product *product)
{
    const struct plan_panels *const g = &product->panels;
    const int64_t width = p->layouts[product->writes].shape[AXIS_FEATURE];
    if (product->kind != PRODUCT_PANELS || product->id >= PRODUCT_OUTPUT)
        return;
    if (product->id == PRODUCT_QUERIES && p->z_in_q)
        reason(p, "%s lie [token][head][" D64 "] like Z, which takes their place", product->name, width);
    else if (g->c_group == 0)
        reason(p, "%s lie [token][head][" D64 "], so that no head is padded to whole vectors", product->name, width);
    else
        reason(p, "%s lie [head][token][" D64 "]: %s", product->name, width,
               layer->split ? "each head is projected from columns of its own"
               : g->groups > 1 ? "each head has a folded matrix of its own" : "a head's width fills whole vectors");
}

/* Where the spec's expressions are computed, and what blocks `visible` decides as a whole. */
static void explain_expressions(struct plan_isa *p, const struct layer *layer)
{
    const struct expression_box box = visible_box(layer);
    char map[VISIBLE_MAP * (VISIBLE_MAP + 1) + 1];
    if (layer->score != NULL)
        reason(p, "score = %s: %d operations for each pair, %s", layer->score->text,
               expression_pair_operations(layer->score_kernel),
               score_has(layer, SCORE_EXPRESSION) ? "in the register tiles of scores"
               : expression_hides(layer->score_kernel, &box) ? "in a pass of its own, as it may hide keys"
                                                       : "in a pass of its own: too many for register tiles");
    if (!visible_by_blocks(layer) || layer_has_cache(layer))
        return;
    const bool of_head = (layer->visible_kernel->nodes[layer->visible_kernel->root].reads & READS_I) != 0;
    const struct visible_share share = visible_shares(layer, 0, p->block);
    visible_map(layer, 0, map);
    reason(p, "visible = %s: %s%.3g %% of the blocks of " D64 " queries and 16 keys are computed, %.3g %% tested pair "
           "by pair; the others are seen by no query, or by all. Queries downwards, keys to the right:\n%s",
           layer->visible->text, of_head ? "of head 0 " : "", 100 * share.computed, p->block, 100 * share.tested, map);
}

/* Attention over a cache, in place of that by blocks of queries. */
static void explain_cached(struct plan_isa *p, const struct layer *layer)
{
    const bool exact = layer_exact_chunks(layer);
    char size[32], path[160];
    reason(p, "attention by rows, one for each query and head, keys along the lanes: blocks of " D64 " row%s, " D64
           " token%s of the heads that share keys; tiles of at most " D64 " rows x " D64 " vectors", p->cached.rows,
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
           bytes_text(size, p->cached.segment * (layer->d_k + layer->d_v) * layout_element(p, LAYOUT_K_CACHE)));
    if (p->cached.few_queries > 0)
        snprintf(path, sizeof path, "calls with up to " D64 " token%s sum scores along the features, in blocks of " D64
                 " positions, longer ones along the keys", p->cached.few_queries, plural(p->cached.few_queries),
                 p->cached.few_block);
    else
        snprintf(path, sizeof path, "every call sums scores in the same order: %s", exact ? "exact_chunks" :
                 "so many heads share keys that one token fills the tiles");
    reason(p, "%s", path);
    if (p->cached.split > 0)
        reason(p, "groups with up to " D64 " tokens have a part for each of at most " D64 " segments", p->cached.split,
               p->cached.segments);
    if (p->cached.ahead > 0)
        reason(p, "few rows, from two on, prefetch " D64 " rows ahead, in sequences of at least " D64
               " keys, which exceed L2", p->cached.ahead, p->cached.ahead_keys);
    if (p->cached.few_rows > 1 && p->cached.keys_in_order && p->cached.values_in_order)
        reason(p, "few rows read keys and values in the order of memory, in tiles of up to " D64 " and " D64 " rows",
               p->cached.dot_tiles.at[0].rows,
               (p->cached.few_tiles.count > 0 ? p->cached.few_tiles : p->cached.tiles).at[0].rows);
    if (p->cached.sweep_keys > 0)
        reason(p, "tiles read parts of values: from " D64 " keys of a sequence on, %s and more, those of " D64
               " keys are read once before, in order", p->cached.sweep_keys,
               bytes_text(size, p->cached.sweep_keys * layer->h_kv * (layer->d_k + layer->d_v) *
                          layout_element(p, LAYOUT_K_CACHE)), p->cached.swept_keys);
    if (p->cached.half_vecs > 0)
        reason(p, "one row reads keys and values by halves of vectors: where they lie beyond L2, these come faster");
    if (p->cached.early > 0)
        reason(p, "while one row's weights are computed, its values are prefetched, " D64 " line%s with each vector",
               p->cached.early, plural(p->cached.early));
}

/* Tiles and blocks of attention by blocks of queries. */
static void explain_attention(struct plan_isa *p, const struct layer *layer, bool is_small)
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

/* Norms and feed-forward of a block. */
static void explain_block(struct plan_isa *p, const struct layer *layer)
{
    const struct product *norms = NULL;
    char size[32];
    for (const struct product *g = p->products; g < p->products + p->product_count; g++)
        norms = g->kind == PRODUCT_ROWS ? g : norms;
    if (norms != NULL)
        reason(p, "norms of rows are phases of their own, " D64 " row%s a part, " D64 " at a time: as many as half of "
               "L1 and the lanes hold", norms->rows.part_rows, plural(norms->rows.part_rows), norms->rows.once);
    if (p->layouts[LAYOUT_GATES].name != NULL)
        reason(p, "gates of a panel and a block of tokens, %s, wait in the worker's scratch for what they gate",
               bytes_text(size, layout_elements(&p->layouts[LAYOUT_GATES]) * layout_element(p, LAYOUT_GATES)));
    else if (layer_ffn_gated(layer))
        reason(p, "gates lie behind the hidden rows until the last slab of their sums");
}

/* All of a layer without attention. */
static void explain_rows(struct plan_isa *p, const struct layer *layer)
{
    explain_products(p);
    explain_fast(p);
    explain_block(p, layer);
    if (p->batch_rows > layer->seq_len)
        reason(p, "sequences of a batch are taken together, up to " D64 " tokens", p->batch_rows);
}

void explain_choices(struct plan_isa *p, const struct layer *layer, bool is_small)
{
    const struct isa *isa = p->isa;
    reason(p, "%d lanes, %d registers, %d FMA ports; L1 %zu KiB, L2 %zu KiB assumed", isa->lanes, isa->registers,
           isa->fma_ports, isa->l1d_bytes / 1024, isa->l2_bytes / 1024);
    if (is_small)
        reason(p, "small code: one shape a product, rolled loops; no batches, no slabs, no prefetch");
    explain_weights(p, layer);
    if (!layer_attends(layer)) {
        explain_rows(p, layer);
        return;
    }
    explain_fold(p, layer);
    explain_finish(p, layer);
    if (layer_has_cache(layer))
        explain_cached(p, layer);
    else
        explain_attention(p, layer, is_small);
    explain_expressions(p, layer);
    if (p->two_pass && !layer_has_cache(layer))
        reason(p, "softmax in two passes: the largest score of each query first, then the weights and their sums");
    if (p->depth_slab < p->fold->d_score && !layer_has_cache(layer))
        reason(p, "scores are summed in slabs of " D64 " features, %s", p->depth_slab,
               why(&p->request, PLAN_DEPTH_SLAB, "so that a slab of the queries stays in L1"));
    explain_products(p);
    explain_fast(p);
    for (int i = 0; i < p->product_count; i++)
        explain_layout(p, layer, &p->products[i]);
    explain_block(p, layer);
    if (p->value_blocks)
        reason(p, "values lie [block of " D64 " tokens][feature][token]%s", p->block,
               plan_product(p, PRODUCT_VALUES) == NULL ? ": the transposed input itself" : "");
    if (p->z_rows && layer->w_o == W_O_DENSE)
        reason(p, "Z lies [token][head][feature]: %s",
               request_asks(&p->request, PLAN_Z_LAYOUT) ? "as requested"
               : layer->train ? "as it is kept for backward"
               : p->batch_rows > layer->seq_len ? "sequences that are projected together may begin at any token"
               : 2 * layer->seq_len < p->lanes ? "so few tokens would be spread over cache lines that they do not fill"
                                               : "a query block of it, over which each panel passes, exceeds half "
                                                 "of L1");
    if (layer->train)
        reason(p, "backward: tiles of " D64 " x " D64 ", blocks of " D64 " queries x " D64 " keys; weights are not "
               "folded, values and Z lie token by token", p->back.rows, p->back.width, p->back.queries, p->back.keys);
    if (layer->train && p->holds)
        reason(p, "forward keeps " D64 " numbers of each token, its queries, keys and values, for backward: %s",
               p->held.all,
               why(&p->request, PLAN_SAVED, "projecting them again would take a sixth of its time"));
    else if (layer->train)
        reason(p, "backward projects queries, keys and values again: %s",
               layer->cross ? "source has a number of tokens of its own"
               : layer->pad_skipped ? "forward takes sequences together, without their padding"
                            : why(&p->request, PLAN_SAVED, "they are not kept"));
    if (p->prefetch_keys > 0)
        reason(p, "each tile of scores prefetches " D64 " row%s of the next head's keys%s", p->prefetch_keys,
               plural(p->prefetch_keys), p->value_blocks ? "" : " and values");
    if (p->batch_rows > layer->seq_len)
        reason(p, "sequences of a batch are projected together, up to " D64 " tokens", p->batch_rows);
    if (layer_has_cache(layer))
        return;
    if (p->fetches_values)
        reason(p, "values of a head are " D64 " bytes apart: they are prefetched while their keys are scored",
               p->layouts[LAYOUT_VALUES].stride[AXIS_TOKEN] * 4);
    if (p->cached.few_queries > 0)
        reason(p, "calls of up to " D64 " quer%s and at least " D64 " keys sum along the features",
               p->cached.few_queries, p->cached.few_queries == 1 ? "y" : "ies", p->few.keys);
    reason(p, "one part of attend: 1 head x " D64 " query block%s", p->part_blocks, plural(p->part_blocks));
}

/* "from the spec: plan.unroll = 4" */
void explain_request(struct plan_isa *p, const char *from, const struct plan_request *request)
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

/* "6 (not where 10 are left), 5, 2, 1" */
static void print_heights(FILE *out, const struct tile_heights *heights)
{
    for (const struct tile_height *h = heights->at; h < heights->at + heights->count; h++) {
        fprintf(out, "%s" D64, h > heights->at ? ", " : "", h->rows);
        if (h->count > 0)
            fprintf(out, " (" D64 " of them)", h->count);
        if (h->stop[0] > 0 && h->stop[1] > 0)
            fprintf(out, " (not where " D64 " or " D64 " are left)", h->stop[0], h->stop[1]);
        else if (h->stop[0] > 0)
            fprintf(out, " (not where " D64 " %s left)", h->stop[0], h->stop[0] == 1 ? "is" : "are");
    }
}

static void print_panels(FILE *out, const char *name, const struct plan_panels *g, int64_t lanes)
{
    fprintf(out, "      %-14s tokens: ", name);
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

static void print_lanes(FILE *out, const char *name, const struct plan_lanes *g)
{
    fprintf(out, "      %-14s features: " D64 " (" D64 " of them)", name, g->height[0], g->count[0]);
    if (g->count[1] > 0)
        fprintf(out, ", " D64 " (" D64 " of them)", g->height[1], g->count[1]);
    fputc('\n', out);
}

/* Tiles of a layer with a cache: rows of scores and of sums. */
static void print_rows(FILE *out, const char *name, const struct plan_isa *p)
{
    fprintf(out, "      %-14s x " D64 " keys: ", name, p->cached.vecs * p->lanes);
    print_heights(out, &p->cached.tiles);
    fprintf(out, " rows; of sums the same, by ");
    print_heights(out, &p->cached.panels);
    fprintf(out, " vectors of features; of one row: " D64 " vectors of its query at once\n", p->cached.query_vecs);
}

/* The lists that the templates walk. */
static void print_schedule(FILE *out, const struct plan_isa *p)
{
    fprintf(out, "    heights of tiles, each taken as often as it fits%s:\n",
            p->joint ? "; queries, keys and values group of tokens by group" : "");
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        if (g->kind == PRODUCT_PANELS)
            print_panels(out, g->name, &g->panels, p->lanes);
        else if (g->kind == PRODUCT_LANES)
            print_lanes(out, g->name, &g->lanes);
        else if (g->id == PRODUCT_SCORES && p->cached.rows > 0)
            print_rows(out, g->name, p);
        else if (g->id == PRODUCT_SUMS && p->cached.rows > 0)
            continue;
        else if (g->id == PRODUCT_SCORES)
            print_widths(out, g->name, "keys", p->score_tiles, p);
        else if (g->id == PRODUCT_SUMS)
            print_widths(out, g->name, "features", p->value_tiles, p);
        else if (g->kind == PRODUCT_ROWS)
            fprintf(out, "      %-14s rows: " D64 " at a time, " D64 " sum%s side by side\n", g->name, g->rows.once,
                    p->norm_sums, plural(p->norm_sums));
    }
    if (p->peeks)
        fputs("      softmax        the nearest keys first, whose scores are the largest\n", out);
    if (p->masked_apart)
        fputs("      softmax        keys that a mask may hide apart from those that all queries see\n", out);
}

/* "x f32, values f32 -> z f32; bias, norm" */
static void print_products(FILE *out, const struct plan_isa *p)
{
    static const char *const epilogues[] = {"bias", "norm", "rotation", "softmax", "activation", "gate", "residual",
                                            "softcap", "rounding"};
    fputs("    products: what each reads, of which type, and writes; what is done to it then:\n", out);
    for (const struct product *g = p->products; g < p->products + p->product_count; g++) {
        const enum layout_name operands[] = {g->reads[0], g->reads[1], LAYOUT_WEIGHTS + g->id, g->writes};
        fprintf(out, "      %-14s ", g->name);
        for (int i = 0; i < 4; i++) {
            const struct layout *l = &p->layouts[operands[i]];
            if (l->name != NULL)
                fprintf(out, "%s%s %s", i == 3 ? " -> " : i > 0 ? ", " : "", i == 2 ? "weights" : l->name,
                        element_name(l->element));
        }
        for (unsigned bit = 0, any = 0; bit < sizeof epilogues / sizeof *epilogues; bit++)
            if ((g->epilogue >> bit & 1u) != 0)
                fprintf(out, "%s%s", any++ == 0 ? "; " : ", ", epilogues[bit]);
        fputc('\n', out);
    }
}

/* "keys: 32 tokens x 4 panels" */
static void print_task(FILE *out, const struct plan_task *task)
{
    static const char *const words[TASK_OVERS] = {
        [OVER_SEQUENCES] = " sequence", [OVER_ROWS] = " token", [OVER_BLOCKS] = " token",
        [OVER_SEQUENCE_BLOCKS] = " token", [OVER_BOTH] = " token", [OVER_PANELS] = " token", [OVER_HEADS] = " token",
        [OVER_SEGMENTS] = " row", [OVER_JOINED] = " row", [OVER_KEY_HEADS] = " head", [OVER_COUNT] = " part"};
    static const char *const more[TASK_OVERS] = {
        [OVER_SEQUENCE_BLOCKS] = " of one sequence", [OVER_BOTH] = " of one sequence", [OVER_HEADS] = " x 1 head",
        [OVER_SEGMENTS] = " x 1 head of keys, or 1 segment of it", [OVER_JOINED] = " x 1 head of keys",
        [OVER_KEY_HEADS] = " of keys of one sequence"};
    const struct product *const g = task->product;
    fputs(task->name, out);
    if (words[task->over] != NULL)
        fprintf(out, ": " D64 "%s%s%s", task->size, words[task->over], plural(task->size),
                more[task->over] != NULL ? more[task->over] : "");
    if (task->over == OVER_PANELS) {
        const int64_t panels = g->kind == PRODUCT_LANES ? g->lanes.part_tiles : g->panels.part_panels;
        fprintf(out, " x " D64 " %s%s", panels, g->kind == PRODUCT_LANES ? "tile" : "panel", plural(panels));
    }
}

static void print_phases(FILE *out, const struct plan_isa *p)
{
    fputs("    phases: what each computes, and how much of it a part has:\n", out);
    for (const struct plan_phase *phase = p->phases; phase < p->phases + p->phase_count; phase++) {
        fprintf(out, "      %s%-*s ", phase->id >= PHASE_BACK_TRANSPOSE ? "back " : "",
                phase->id >= PHASE_BACK_TRANSPOSE ? 9 : 14, phase->name);
        for (const struct plan_task *task = phase->tasks; task < phase->tasks + phase->task_count; task++) {
            fputs(task > phase->tasks ? "; " : "", out);
            print_task(out, task);
        }
        fputs(phase->task_count == 0 ? "nothing\n" : "\n", out);
    }
}

/* "[32][64] by 64 1" */
static void print_shape(FILE *out, const struct layout *l)
{
    const bool shown[AXES] = {l->shape[0] > 1, l->shape[1] > 1, l->shape[2] > 1, true};
    for (int axis = 0; axis < AXES; axis++)
        if (shown[axis])
            fprintf(out, "[" D64 "]", l->shape[axis]);
    fputs(" by", out);
    for (int axis = 0; axis < AXES; axis++)
        if (shown[axis] && l->stride[axis] == STRIDE_OF_CALL)
            fputs(" call", out);
        else if (shown[axis])
            fprintf(out, " " D64, l->stride[axis]);
    fputc('\n', out);
}

static void print_layouts(FILE *out, const struct plan_isa *p)
{
    static const char *const owners[OWNERS] = {"caller", "packed", "scratch", "worker", "kept", "backward",
                                               "its worker"};
    fputs("    layouts: owner, place and bytes there; type, shape, strides in elements, but for axes of one:\n", out);
    for (int i = 0; i < LAYOUTS; i++) {
        const struct layout *l = &p->layouts[i];
        const char *kind = i >= LAYOUT_WEIGHT_SUMS ? " sums" : i >= LAYOUT_BIASES ? " bias"
                         : i >= LAYOUT_SCALES ? " scales" : i >= LAYOUT_WEIGHTS ? " weights"
                         : i >= LAYOUT_RUNS ? " runs" : "";
        char name[80], place[40] = "";
        if (l->name == NULL)
            continue;
        snprintf(name, sizeof name, "%.60s%s", l->name, kind);
        if (l->owner != OWNER_CALLER)
            snprintf(place, sizeof place, " " D64 ", " D64 " bytes", l->at,
                     layout_elements(l) * layout_element(p, (enum layout_name)i));
        fprintf(out, "      %-20s %s%s; %s ", name, owners[l->owner], place, element_name(l->element));
        print_shape(out, l);
    }
}

void plan_explain(const struct plan *plan, const struct layer *layer, FILE *out)
{
    fprintf(out, "\nThe plan for %s; its largest tensors have " D64 " numbers a query, " D64 " a key\n", layer->name,
            plan->largest_row, plan->largest_source_row);
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        fprintf(out, "\n  %s: packed " D64 " bytes, scratch " D64 " bytes + " D64 " a worker\n", p->isa->name,
                p->bytes[OWNER_PACKED], p->bytes[OWNER_SCRATCH], p->bytes[OWNER_WORKER]);
        for (int r = 0; r < p->reason_count; r++)
            fprintf(out, "    %s\n", p->reasons[r]);
        print_schedule(out, p);
        print_products(out, p);
        print_phases(out, p);
        print_layouts(out, p);
    }
}
