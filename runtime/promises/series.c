/* SPDX-License-Identifier: MIT */
/* Sizes of the calls: for small layers every size up to 64, for large ones sizes around the edges of tiles and blocks;
 * as many as the work allows. */
#include "series.h"

#include <stdlib.h>

#include "base/arith.h"
#include "chunks.h"
#include "extremes.h"
#include "reference/likely.h"

#define MAX_WORK 1e9     /* past that few positions must do */
#define MIN_WORK 1.2e7   /* multiply-adds of the sized calls together; and of the extreme ones */
#define SHARE 0.05       /* or this share of the main call's */
#define EACH_UP_TO 64    /* sizes of which each is wanted */
#define BATCH 7
#define GROUPED 256      /* maximum of positions that are projected together */
#define MIN_EXTREME 20   /* positions, past a tile of scores */
#define MAX_EXTREME 72
#define MAX_LONG 640     /* past a block of keys of most plans */
#define MAX_LONE 40

/* The series that is being made, and the work that is left for it */
struct making {
    struct series *series;
    const struct layer *layer;
    const struct inputs *drawn;
    const struct inputs_draw *draw;
    struct folds folds;
    struct random random;
    double work;
    unsigned mask_form; /* of ordinary calls */
};

static double work_of(const struct layer *layer, size_t batch, size_t n, size_t m)
{
    return (double)batch * layer_multiply_adds(layer, (int64_t)n, (int64_t)m).total;
}

/* Tokens in a cache before a call: few in large caches, sometimes as many as fit */
#define SMALL_PAST 130
static int64_t most_past(const struct layer *layer, size_t count)
{
    const double whole = work_of(layer, 1, 1, (size_t)layer->source_len);
    return layer->cache_len <= SMALL_PAST || (count % 8 == 5 && whole <= MAX_WORK / 100) ? 0 : SMALL_PAST;
}

void series_call_compute(struct series_call *call, const struct layer *layer, struct folds folds, bool random)
{
    bounds_compute(&call->reference, &call->bounds, layer, &call->inputs, folds, true);
    if (random)
        likely_measure(&call->reference, &call->bounds, layer, &call->inputs, true);
    if (layer->portable)
        portable_compute(&call->portable, layer, &call->inputs, NULL);
}

void series_call_free(struct series_call *call)
{
    inputs_free(&call->inputs);
    reference_free(&call->reference);
    portable_free(&call->portable);
}

#define ORDINARY (-1)

/* Adds a call, ORDINARY or with scores of a kind of enum extremes. */
static void add_call(struct making *k, size_t batch, size_t n, size_t m, int extreme)
{
    struct series *s = k->series;
    s->call = memory_grow(s->call, s->count + 1, sizeof *s->call);
    struct series_call *call = &s->call[s->count++];
    *call = (struct series_call){.inputs.borrows_weights = true};
    const struct inputs_draw draw = {.seed = k->draw->seed + 1000 * s->count, .init = k->draw->init, .batch = batch,
                                     .n = n, .m = m, .mask_form = extreme == ORDINARY ? k->mask_form : 0,
                                     .past_most = most_past(k->layer, s->count)};
    k->work -= work_of(k->layer, batch, n, m);
    if (extreme == ORDINARY)
        inputs_draw(&call->inputs, k->layer, &draw, k->drawn);
    else
        extremes_draw(&call->inputs, k->layer, &draw, (enum extremes)extreme, &s->extreme_weights);
    int32_t *lengths = call->inputs.tensor[TENSOR_LENGTHS];
    if (lengths != NULL && extreme == ORDINARY && batch > BATCH)
        lengths[0] = 0;
    series_call_compute(call, k->layer, k->folds, extreme == ORDINARY);
}

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

/* Lists sizes up to `limit`, the most telling ones first, each once; returns how many. */
static size_t list_sizes(struct making *k, size_t limit, size_t sizes[2 * EACH_UP_TO])
{
    static const size_t edges[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64};
    static const size_t far[] = {65, 96, 97, 127, 128, 129, 255, 257, 512};
    size_t count = 0, max = min_size(limit, EACH_UP_TO);
    bool listed[EACH_UP_TO + 1] = {false};
    for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
        if (edges[e] <= max) {
            sizes[count++] = edges[e];
            listed[edges[e]] = true;
        }
    const size_t first = count;
    for (size_t size = 1; size <= max; size++)
        if (!listed[size])
            sizes[count++] = size;
    for (size_t at = first; at < count; at++) { /* the others are in random order */
        const size_t other = at + random_bits(&k->random) % (count - at), size = sizes[at];
        sizes[at] = sizes[other];
        sizes[other] = size;
    }
    if (limit > EACH_UP_TO)
        sizes[count++] = limit;
    for (size_t e = 0; e < sizeof far / sizeof *far; e++)
        if (far[e] < limit)
            sizes[count++] = far[e];
    return count;
}

/* Adds calls of one sequence. In cross-attention each number of queries has another number of keys. */
static void add_sizes(struct making *k)
{
    size_t n[2 * EACH_UP_TO], m[2 * EACH_UP_TO];
    const size_t queries = list_sizes(k, (size_t)k->layer->seq_len, n);
    const size_t keys = !layer_is_square(k->layer) ? list_sizes(k, (size_t)k->layer->source_len, m) : 0;
    for (size_t i = 0; i < (queries > keys ? queries : keys); i++) {
        const size_t n_i = n[i % queries], m_i = !layer_is_square(k->layer) ? m[(i + keys / 2) % keys] : n_i;
        if (work_of(k->layer, 1, n_i, m_i) <= k->work)
            add_call(k, 1, n_i, m_i, ORDINARY);
    }
}

/* Adds calls of many short sequences, which are projected together: all at once, and in several groups, the last one
 * smaller. In the second call the first sequence has no keys. In cross-attention few queries have many keys, and vice
 * versa. */
static void add_batches(struct making *k)
{
    const struct layer *layer = k->layer;
    const size_t queries = (size_t)layer->seq_len, keys = !layer_is_square(layer) ? (size_t)layer->source_len : queries;
    const size_t drawn = 3 + random_bits(&k->random) % 3 * 2; /* odd, so that they do not fill blocks of lanes */
    const size_t few = work_of(layer, BATCH, drawn, drawn) > MAX_WORK ? 1 : min_size(queries, drawn);
    const struct { size_t batch, n, m; } calls[] = {
        {BATCH, few, !layer_is_square(layer) ? min_size(keys, 2 + random_bits(&k->random) % 9) : few},
        {BATCH + 8 + random_bits(&k->random) % 8, 1, !layer_is_square(layer) ? min_size(keys, 3) : 1},
        {GROUPED / few + 2, few, !layer_is_square(layer) ? min_size(keys, 5) : few},
        {GROUPED + 44, 1, !layer_is_square(layer) ? min_size(keys, 2) : 1},
        {BATCH, !layer_is_square(layer) ? 1 : few, !layer_is_square(layer) ? min_size(keys, EACH_UP_TO) : few},
        {BATCH, !layer_is_square(layer) ? min_size(queries, EACH_UP_TO) : few, !layer_is_square(layer) ? 1 : few},
    };
    for (size_t i = 0; i < (!layer_is_square(layer) ? 6 : 4); i++) {
        k->mask_form = 4 | (2 - (unsigned)i % 3); /* [batch][1], [1][h], [batch][h] */
        if (i < 2 || work_of(layer, calls[i].batch, calls[i].n, calls[i].m) <= k->work)
            add_call(k, calls[i].batch, calls[i].n, calls[i].m, ORDINARY);
    }
    k->mask_form = 0;
}

/* ---- scores of every size -------------------------------------------------------------------------------------- */

/* The largest number of positions, up to `max`, that the work allows; MIN_EXTREME or more, unless the layer is very
 * wide. */
static size_t positions(const struct making *k, size_t batch, size_t max, double work)
{
    const struct layer *layer = k->layer;
    size_t n = max;
    for (;;) {
        const double here = work_of(layer, batch, min_size(n, (size_t)layer->seq_len),
                                    min_size(n, (size_t)layer->source_len));
        if (here <= work || n <= (here > MAX_WORK ? 3 : MIN_EXTREME))
            break;
        n -= n / 16 + 1;
    }
    return n;
}

static void add_extreme(struct making *k, enum extremes extremes, size_t positions)
{
    add_call(k, extremes_batch(k->layer, extremes), min_size(positions, (size_t)k->layer->seq_len),
                    min_size(positions, (size_t)k->layer->source_len), (int)extremes);
}

/* Adds the mixed ones always, with an even and an odd number of positions; the others if the work allows. */
static void add_extremes(struct making *k)
{
    const struct layer *layer = k->layer;
    const size_t mixed = positions(k, extremes_batch(layer, EXTREMES_MIXED), MAX_EXTREME, k->work);
    const size_t longer = positions(k, extremes_batch(layer, EXTREMES_LONG), MAX_LONG, k->work);
    const size_t lone = positions(k, extremes_batch(layer, EXTREMES_LONE), MAX_LONE, k->work);
    const size_t first = min_size(mixed, (size_t)layer->seq_len);
    add_extreme(k, EXTREMES_MIXED, mixed);
    if (first > 1)
        add_extreme(k, EXTREMES_MIXED, first - 1);
    if (longer > mixed && (size_t)layer->source_len > mixed)
        add_extreme(k, EXTREMES_LONG, longer);
    if (lone >= MAX_LONE)
        add_extreme(k, EXTREMES_LONE, lone);
}

/* ---- whole sequences -------------------------------------------------------------------------------------------- */

#define MIN_STREAM 24
#define MAX_STREAM 700 /* past the segments that most plans cut contexts into */
#define MAX_DEEP 4000

/* Number of tokens fed into a cache, as many as the work allows; into a ring more than it holds */
static size_t stream_length(const struct making *k, size_t batch)
{
    const struct layer *layer = k->layer;
    const size_t room = (size_t)layer->cache_len * (layer->cache == CACHE_RING ? 2 : 1) + (layer->cache == CACHE_RING);
    const size_t either = (size_t)k->folds.expands.least * 9 / 4; /* two calls of latents' either form, and more */
    const bool both = either > MIN_STREAM && work_of(layer, batch, either, either) <= MAX_WORK;
    const size_t least = both ? either : MIN_STREAM;
    size_t length = min_size(room, MAX_STREAM);
    while (length > least && work_of(layer, batch, length, length) > k->work)
        length -= length / 8 + 1;
    return length;
}

static void add_streams(struct making *k)
{
    struct series *s = k->series;
    const size_t batch = 3, length = chunks_apply(k->layer) ? stream_length(k, batch) : 0;
    const size_t deep = length > 0 ? min_size(MIN_STREAM, (size_t)k->layer->cache_len / 2) : 0;
    const size_t most = min_size(extremes_batch(k->layer, EXTREMES_MIXED), 6);
    const struct inputs_draw draw = {.seed = k->draw->seed + 77, .init = k->draw->init, .batch = most,
                                     .n = min_size(length, MAX_EXTREME), .m = length};
    if (length == 0)
        return;
    chunks_draw(&s->stream, k->layer, k->draw->seed + 99, batch, length, 0, k->drawn);
    if (deep > 0)
        chunks_draw(&s->deep_stream, k->layer, k->draw->seed + 98, batch, deep, MAX_DEEP, k->drawn);
    extremes_draw(&s->extreme_stream, k->layer, &draw, EXTREMES_MIXED, &s->extreme_weights);
}

void series_make(struct series *series, const struct layer *layer, const struct inputs *drawn,
                 const struct inputs_draw *draw, struct folds folds)
{
    const double share = SHARE * work_of(layer, draw->batch, draw->n, draw->m);
    const double work = share > MIN_WORK ? share : MIN_WORK;
    struct making k = {.series = series, .layer = layer, .drawn = drawn, .draw = draw, .folds = folds,
                       .random = {draw->seed ^ 0x73657269}, .work = work};
    *series = (struct series){.extreme_weights.borrows_weights = false};
    add_batches(&k);
    series->batches = series->count;
    k.work = work;
    add_sizes(&k);
    series->sized = series->count;
    k.work = work;
    if (!layer_attends(layer)) /* there are no scores */
        return;
    extremes_weights(&series->extreme_weights, layer, drawn);
    add_extremes(&k);
    add_streams(&k);
}

void series_free(struct series *series)
{
    for (size_t i = 0; i < series->count; i++)
        series_call_free(&series->call[i]);
    inputs_free(&series->stream);
    inputs_free(&series->deep_stream);
    inputs_free(&series->extreme_stream);
    inputs_free(&series->extreme_weights);
    free(series->call);
    *series = (struct series){0};
}
