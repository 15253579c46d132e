/* SPDX-License-Identifier: MIT */
#include "chunks.h"

#include <string.h>

#include "base/arith.h"
#include "spec/visible.h"

#define COMPARED_UP_TO 3e8 /* multiply-adds of all tokens: more would take the reference too long */
#define ALIKE 7 /* tokens of a call in the way that has the same number again and again */

/* How the tokens are cut. */
enum way { WAY_LARGEST, WAY_SINGLE, WAY_ALIKE, WAY_MIXED, WAY_FEW, WAY_MANY, WAY_LEAST, WAYS };
static const char *const way_names[WAYS] = {"the largest calls",      "calls of one token",
                                            "calls of seven tokens",  "calls of any sizes",
                                            "calls of a few tokens",  "calls of more than a few tokens",
                                            "calls of the fewest that form keys of heads"};

/* Which path of the kernel a token's call ran on. */
enum { PATH_NONE, PATH_FEW, PATH_MANY, PATH_EXPANDED };

/* What a way leaves: [batch][h][length]…, heads before tokens, whatever the layout of y is. */
struct fed {
    float *y, *attn, *lse;
    unsigned char *path; /* [batch][length] */
    struct guarded cache[CACHE_PARTS];
    bool there;
};

struct feeding {
    struct trial t;              /* of the current call */
    const struct inputs *stream; /* n: the length of the longest sequence */
    struct random random;
    size_t *done; /* [batch] tokens that were fed */
    struct pool results;
    bool compares;
};

bool chunks_apply(const struct layer *layer)
{
    int64_t left, right;
    visible_reach(layer, &left, &right);
    return layer_has_cache(layer) && right == 0 && (layer->mask & MASK_PREFIX) == 0;
}

void chunks_draw(struct inputs *stream, const struct layer *layer, uint64_t seed, size_t batch, size_t length,
                 int64_t past, const struct inputs *weights)
{
    const struct inputs_draw draw = {.seed = seed, .batch = batch, .n = length, .m = length, .past_given = past == 0,
                                     .past_most = past, .past_apart = past > 0, .whole_pages = true};
    inputs_draw(stream, layer, &draw, weights);
}

static size_t length_of(const struct feeding *f, size_t b) { return inputs_keys(f->stream, b); }

/* ---- one call ---------------------------------------------------------------------------------------------------- */

/* Tokens done … done+n-1 of each sequence, or their rows of a mask; its last token again where it ends earlier, as
 * padding. */
static void take_tokens(const struct feeding *f, struct inputs *in, enum layer_tensor tensor)
{
    const struct inputs *all = f->stream;
    const bool pairs = layer_tensor_row(tensor)->kind == TENSOR_OF_PAIRS, of_heads = tensor == TENSOR_Q ||
                       tensor == TENSOR_K || tensor == TENSOR_V;
    const int axis = pairs || (of_heads && f->t.layer->heads_first) ? 2 : 1; /* that of the tokens */
    int64_t shape[4];
    inputs_shape(f->t.layer, in, tensor, shape);
    const size_t blocks = axis > 1 ? (size_t)shape[1] : 1, last = all->n - 1;
    const size_t bytes = inputs_bytes(f->t.layer, in, tensor) / (in->batch * blocks * in->n); /* of one */
    for (size_t b = 0; b < in->batch; b++)
        for (size_t i = 0; i < blocks; i++)
            for (size_t t = 0; t < in->n; t++) {
                const size_t of = pairs && all->mask_batch[tensor] == 1 ? 0 : b, from = min_size(f->done[b] + t, last);
                memcpy((char *)in->tensor[tensor] + ((b * blocks + i) * in->n + t) * bytes,
                       (char *)all->tensor[tensor] + ((of * blocks + i) * all->n + from) * bytes, bytes);
            }
}

/* Which part of a cache a tensor is. */
static int part_of(const struct layer *layer, enum layer_tensor tensor)
{
    int part = 0;
    while (inputs_cache_of(layer, part) != tensor)
        part++;
    return part;
}

/* The call of n tokens of each sequence; its cache is what the calls before it left. */
static void make_call(const struct feeding *f, struct inputs *in, size_t n, const int32_t *lengths,
                      const struct fed *fed)
{
    const struct inputs *all = f->stream;
    *in = *all;
    in->borrows_weights = true;
    in->n = in->m = n;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const enum tensor_kind kind = layer_tensor_row(t)->kind;
        if (tensor_is_packed(kind) || all->tensor[t] == NULL)
            continue;
        in->mask_batch[t] = kind == TENSOR_OF_PAIRS ? in->batch : in->mask_batch[t];
        const size_t bytes = inputs_count(f->t.layer, in, t) * layer_tensor_size(f->t.layer, t);
        in->tensor[t] = memory_get(bytes, 1);
        const void *const cached = kind == TENSOR_CACHE ? fed->cache[part_of(f->t.layer, t)].data : NULL;
        if (cached != NULL)
            memcpy(in->tensor[t], cached, bytes);
        else if (t == TENSOR_LENGTHS)
            memcpy(in->tensor[t], lengths, bytes);
        else if (t == TENSOR_PAST)
            for (size_t b = 0; b < in->batch; b++)
                ((int32_t *)in->tensor[t])[b] = ((const int32_t *)all->tensor[t])[b] + (int32_t)f->done[b];
        else if (layer_tensor_has_axis(f->t.layer, t, "n") || layer_tensor_has_axis(f->t.layer, t, "m"))
            take_tokens(f, in, t);
        else
            memcpy(in->tensor[t], all->tensor[t], bytes);
    }
}

/* What became of the tokens of the call goes to where all tokens have their place. */
static void keep(const struct feeding *f, const struct inputs *in, const struct outputs *out, struct fed *fed)
{
    const struct layer *layer = f->t.layer;
    const size_t h = (size_t)layer->h, d_out = (size_t)layer->d_out, length = f->stream->n;
    const size_t columns = inputs_columns(layer, in);
    const enum tensor_element type = layer->tensor_type; /* as floats no two of its numbers have the same bits */
    const float *lse = out->lse.data;
    const struct latent_form expands = kernel_folds(f->t.kernel).expands;
    for (size_t b = 0; b < in->batch; b++)
        for (size_t t = 0; t < inputs_keys(in, b); t++) {
            const size_t at = f->done[b] + t;
            fed->path[b * length + at] = latent_expands(&expands, in->n, inputs_past(in, b)) ? PATH_EXPANDED
                                       : in->n <= f->t.call->few_queries                       ? PATH_FEW
                                                                                             : PATH_MANY;
            for (size_t c = 0; c < d_out; c++)
                fed->y[(b * length + at) * d_out + c] =
                    (float)element_number(type, out->y.data, inputs_y_at(layer, in, b, t, c));
            for (size_t i = 0; i < h; i++) {
                const size_t from = (b * h + i) * in->n + t, to = (b * h + i) * length + at;
                if (layer->lse)
                    fed->lse[to] = lse[from];
                for (size_t j = 0; layer->scores && j < columns; j++) {
                    const bool shown = layer->scores != SCORES_RAW && layer->scores != SCORES_CAPPED;
                    const bool any = shown || reference_visible(layer, in, b, i, t, j);
                    const double number = element_number(type, out->attn.data, from * columns + j);
                    fed->attn[to * columns + j] = any ? (float)number : 0;
                }
            }
        }
}

/* One call; with `compares` within the bounds of one that stands alone */
static bool feed_call(struct feeding *f, size_t n, const int32_t *lengths, bool compares, struct fed *fed)
{
    char what[80];
    OWNED(inputs_free) struct inputs in;
    snprintf(what, sizeof what, "fed in calls, of which one has %zu tokens", n);
    make_call(f, &in, n, lengths, fed);
    f->t.in = &in;
    trial_prepare(&f->t, 4, 1);
    const bool good = trial_forward(&f->t, &in, what) &&
                      (!compares || trial_compare(&f->t, &in, OUTPUT_Y, OUTPUTS_COMPARED, what));
    if (good) {
        keep(f, &in, &f->t.now, fed);
        for (size_t b = 0; b < in.batch; b++)
            f->done[b] += inputs_keys(&in, b);
        for (int part = 0; part < CACHE_PARTS; part++) { /* the next call begins with this one's cache */
            const struct guarded before = fed->cache[part];
            fed->cache[part] = f->t.now.cache[part];
            f->t.now.cache[part] = before;
        }
    }
    return good;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* The most tokens of a call, and the fewest; 0: there is no such way. */
static size_t largest_call(const struct feeding *f, enum way way, size_t *least)
{
    const size_t most = (size_t)f->t.layer->seq_len, few = f->t.call->few_queries;
    const size_t least_expanded = (size_t)f->t.call->expands.least;
    *least = way == WAY_MANY ? few + 1 : 1;
    switch (way) {
    case WAY_SINGLE: return 1;
    case WAY_LEAST: return least_expanded > 1 && least_expanded <= most ? least_expanded : 0;
    case WAY_ALIKE: return min_size(ALIKE, most);
    case WAY_FEW: return few > 1 && few < most ? few : 0;
    case WAY_MANY: return few > 0 && few < most && f->stream->n > 2 * few ? most : 0;
    default: return most;
    }
}

static size_t most_left(const struct feeding *f)
{
    size_t most = 0;
    for (size_t b = 0; b < f->stream->batch; b++)
        most = length_of(f, b) - f->done[b] > most ? length_of(f, b) - f->done[b] : most;
    return most;
}

/* Under padding each sequence takes as many tokens as it likes. Without, all have the same, and in the way of many
 * tokens the last call is left with a few only if those before it are as long as calls can be. */
static bool feed(struct feeding *f, enum way way, struct fed *fed)
{
    size_t least;
    const size_t most = largest_call(f, way, &least), batch = f->stream->batch;
    HEAP int32_t *lengths = memory_get(batch, sizeof *lengths);
    const bool varies = way == WAY_MIXED || way == WAY_FEW || way == WAY_MANY;
    const bool pads = f->stream->tensor[TENSOR_LENGTHS] != NULL;
    bool good = true;
    memset(f->done, 0, batch * sizeof *f->done);
    for (size_t left = most_left(f); good && left > 0; left = most_left(f)) {
        size_t n = varies ? least + random_bits(&f->random) % (most - least + 1) : most;
        if (n > left || (left - n > 0 && left - n < least))
            n = min_size(left, most);
        if (pads && left < least) /* padding makes many of them */
            n = least;
        for (size_t b = 0; b < batch; b++) {
            const size_t rest = length_of(f, b) - f->done[b];
            const size_t wanted = way == WAY_MIXED && rest < left ? random_bits(&f->random) % (n + 1) : n;
            lengths[b] = (int32_t)min_size(rest, wanted);
        }
        good = feed_call(f, n, lengths, way == WAY_MIXED && f->compares, fed);
    }
    return good;
}

static struct fed make_fed(struct feeding *f)
{
    const struct inputs *all = f->stream;
    struct fed fed = {.there = true,
                      .y = pool_get(&f->results, inputs_count(f->t.layer, all, TENSOR_Y), sizeof *fed.y),
                      .attn = pool_get(&f->results, inputs_count(f->t.layer, all, TENSOR_ATTN), sizeof *fed.attn),
                      .lse = pool_get(&f->results, inputs_count(f->t.layer, all, TENSOR_LSE), sizeof *fed.lse),
                      .path = pool_get(&f->results, all->batch * all->n, 1)};
    for (int part = 0; part < inputs_cache_parts(f->t.layer); part++) {
        guarded_make(&fed.cache[part], inputs_cache_bytes(f->t.layer, all, part), 4);
        memcpy(fed.cache[part].data, all->tensor[inputs_cache_of(f->t.layer, part)], fed.cache[part].bytes);
    }
    return fed;
}

/* Rows of a token have the same bits if both calls took one path, whatever else they brought. Keys and values in the
 * cache do not depend on it. */
static bool alike(struct feeding *f, const struct fed *fed, enum way a, enum way b, bool exact)
{
    const size_t h = (size_t)f->t.layer->h, length = f->stream->n, columns = inputs_columns(f->t.layer, f->stream);
    const struct { const char *name; const void *a, *b; size_t count, heads, width; } outputs[] = {
        {"y", fed[a].y, fed[b].y, inputs_count(f->t.layer, f->stream, TENSOR_Y), 1, (size_t)f->t.layer->d_out},
        {"lse", fed[a].lse, fed[b].lse, inputs_count(f->t.layer, f->stream, TENSOR_LSE), h, 1},
        {"attn", fed[a].attn, fed[b].attn, inputs_count(f->t.layer, f->stream, TENSOR_ATTN), h, columns},
    };
    for (int part = 0; part < inputs_cache_parts(f->t.layer); part++)
        if (memcmp(fed[a].cache[part].data, fed[b].cache[part].data, fed[a].cache[part].bytes) != 0)
            return violated(&f->t, "sequences of up to %zu tokens in %s and in %s: %s has other bits", f->stream->n,
                            way_names[a], way_names[b], layer_tensor_name(inputs_cache_of(f->t.layer, part)));
    for (size_t i = sizeof outputs / sizeof *outputs; i-- > 0;)
        for (size_t at = 0; at < outputs[i].count; at++) {
            const float *of_a = outputs[i].a, *of_b = outputs[i].b;
            const size_t row = at / outputs[i].width; /* [batch][heads][length] */
            const size_t token = row / (outputs[i].heads * length) * length + row % length;
            const bool same = exact || fed[a].path[token] == fed[b].path[token];
            if (same && memcmp(&of_a[at], &of_b[at], sizeof *of_a) != 0)
                return violated(&f->t, "sequences of up to %zu tokens in %s and in %s: %s has other bits, %.9g and "
                                "%.9g at %zu of %zu", f->stream->n, way_names[a], way_names[b], outputs[i].name,
                                (double)of_a[at], (double)of_b[at], at, outputs[i].count);
        }
    return true;
}

bool chunks_hold(const struct trial *t, const struct inputs *stream)
{
    const struct layer *const layer = t->layer;
    struct feeding f = {.t = *t, .stream = stream, .random = {t->seed ^ 0x6368756E6B}};
    f.t.now = (struct outputs){.y = {0}};
    f.t.scratch = (struct guarded){0};
    struct fed fed[WAYS] = {{0}};
    const bool exact = layer_exact_chunks(layer);
    if (!chunks_apply(layer) || stream->n == 0 || stream->batch == 0)
        return true;
    const double work = layer_multiply_adds(layer, (int64_t)stream->n, inputs_reach(layer, stream)).total;
    f.compares = (double)stream->batch * work < COMPARED_UP_TO;
    f.done = pool_get(&f.results, stream->batch, sizeof *f.done);
    bool good = true;
    for (enum way way = 0; good && way < WAYS; way++) {
        size_t least;
        if (largest_call(&f, way, &least) == 0)
            continue;
        fed[way] = make_fed(&f);
        good = feed(&f, way, &fed[way]);
        for (enum way other = 0; good && other < way; other++)
            good = !fed[other].there || alike(&f, fed, other, way, exact);
    }
    for (enum way way = 0; way < WAYS; way++)
        for (int part = 0; part < CACHE_PARTS; part++)
            guarded_free(&fed[way].cache[part]);
    trial_release(&f.t);
    pool_free(&f.results);
    return good;
}
