/* SPDX-License-Identifier: MIT */
/* Attention by blocks of queries, queries along the lanes: scores, softmax, weighted sums; what a worker's tile has,
 * their expected time and reasons.
 *
 * Left out on purpose: blocks and tiles (plan_blocks.c), attention over a cache (step_cached.c).
 */
#include "plan/planning.h"

#include "spec/score.h"
#include "spec/visible.h"

#define QUERY_TILE_CYCLES 150.0 /* and a tile of queries: its state, 1 / l, the check */
#define COPY_LOADS 4            /* of a vector of a tile that does not start at a block: copied in or out */

bool plan_attention(struct plan_isa *p, const struct layer *layer, struct step *g)
{
    const bool ahead = layer_rounds_ahead(layer, p->isa->sums_pairs);
    if (g->id == STEP_SUMS)
        g->reads[1] = ahead && p->rounds_values ? LAYOUT_ROUNDED_VALUES : values_read(layer);
    else if (ahead)
        g->reads[1] = LAYOUT_ROUNDED_KEYS;
    if (g->id == STEP_SCORES && p->fold->q_is_k)
        g->reads[0] = LAYOUT_KEYS;
    return layer_attends(layer);
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
void explain_attention(struct plan_isa *p, const struct layer *layer)
{
    char size[32], rest[80] = "", last[80] = "";
    const int64_t whole = p->few.left > 0 ? p->lanes : p->block; /* vectors, or blocks alone */
    const int64_t over = few_left(layer->seq_len, p->block, whole, p->cached.few_queries);
    const int64_t left = ceil_div(layer->seq_len - over, p->lanes) % p->vecs;
    if (left > 0)
        snprintf(rest, sizeof rest, "; " D64 " vector%s left over, one at a time", left, plural(left));
    if (over > 0)
        snprintf(last, sizeof last, "; " D64 " quer%s left over, along the features", over, over == 1 ? "y" : "ies");
    reason(p, "query block " D64 ": " D64 " vector%s, %s for seq_len " D64 "%s%s%s", p->block, p->vecs, plural(p->vecs),
           why(p, PLAN_QUERY_VECS, p->small ? "the smallest code" : "the cheapest tiles"), layer->seq_len,
           !request_asks(&p->asked, PLAN_QUERY_VECS) && p->vecs > choose_query_vecs(p, layer->seq_len, false)
               ? ", as a head's keys and values exceed L2" : "", rest, last);
    reason(p, "scores: tile " D64 " x " D64 ", " D64 " accumulators + " D64 " operand%s + 1 broadcast of %d "
           "registers; single vectors " D64 " x " D64, p->rows, p->block, p->rows * p->vecs, p->vecs,
           plural(p->vecs), p->isa->registers, p->rows_single, p->lanes);
    reason(p, "weighted sums: tile " D64 " x " D64 ", single vectors " D64 " x " D64 ": d_v in near-equal parts",
           p->value_rows, p->block, p->value_rows_single, p->lanes);
    const bool cut = p->rounds_values && p->key_block == MOST_SUMMED / p->rows * p->rows &&
                     request_or(&p->asked, PLAN_KEY_BLOCK, layer->source_len) > p->key_block;
    reason(p, "key block " D64 ": scores of " D64 " x " D64 " take %s, %s", p->key_block, p->key_block, p->block,
           bytes_text(size, p->key_block * p->block * layout_element(p, LAYOUT_SCORES)),
           cut ? "the most that a sum of integers takes"
               : why(p, PLAN_KEY_BLOCK, p->value_blocks ? "one block of values"
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

const struct step_kind_row tiles_kind = {.print = print_tiles};
