/* SPDX-License-Identifier: MIT */
/* The inputs of one call: shapes, drawing by seed, taking from a file. */
#include "inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/number.h"
#include "draw.h"
#include "plan/isa.h"
#include "base/memory.h"

static enum tensor_kind kind_of(enum layer_tensor tensor) { return layer_tensor_row(tensor)->kind; }

static bool is_mask(enum layer_tensor tensor) { return kind_of(tensor) == TENSOR_OF_PAIRS; }

static bool is_weight(enum layer_tensor tensor) { return tensor_is_packed(kind_of(tensor)); }

static bool is_read(const struct layer *layer, enum layer_tensor tensor)
{
    return kind_of(tensor) != TENSOR_OUTPUT && layer_has_tensor(layer, tensor);
}

int inputs_shape(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor, int64_t shape[4])
{
    const struct layer_call call = {(int64_t)in->batch, (int64_t)in->n, (int64_t)in->m,
                                    (int64_t)in->pages};
    const int rank = layer_tensor_shape(layer, tensor, &call, shape);
    if (rank > 0 && is_mask(tensor)) {
        shape[0] = (int64_t)in->mask_batch[tensor];
        shape[1] = (int64_t)in->mask_h[tensor];
    }
    return rank;
}

double inputs_pair(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor, size_t b, size_t i,
                   size_t t, size_t j)
{
    const size_t mask_b = in->mask_batch[tensor] == 1 ? 0 : b, mask_i = in->mask_h[tensor] == 1 ? 0 : i;
    const size_t at = ((mask_b * in->mask_h[tensor] + mask_i) * in->n + t) * inputs_columns(layer, in) + j;
    return layer_tensor_row(tensor)->type == TENSOR_BOOL ? (double)((const unsigned char *)in->tensor[tensor])[at]
                                                         : (double)inputs_floats(in, tensor)[at];
}

size_t inputs_head_row(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor, size_t b,
                       size_t row, size_t head)
{
    const size_t heads = inputs_heads(layer, tensor);
    const size_t rows = tensor == TENSOR_Q ? in->n : in->m;
    const size_t width = (size_t)(tensor == TENSOR_V ? layer->d_v : layer->d_k);
    return (layer->heads_first ? (b * heads + head) * rows + row : (b * rows + row) * heads + head) * width;
}

size_t inputs_y_at(const struct layer *layer, const struct inputs *in, size_t b, size_t t, size_t column)
{
    const size_t d_v = (size_t)layer->d_v, h = (size_t)layer->h;
    if (layer->heads_first && layer->w_o == W_O_NONE)
        return ((b * h + column / d_v) * in->n + t) * d_v + column % d_v;
    return (b * in->n + t) * (size_t)layer->d_out + column;
}

void inputs_order_y(const struct layer *layer, const struct inputs *in, double *numbers)
{
    const size_t count = inputs_count(layer, in, TENSOR_Y), d_out = (size_t)layer->d_out;
    HEAP double *ordered = memory_get(count, sizeof *ordered);
    for (size_t i = 0; i < count; i++)
        ordered[inputs_y_at(layer, in, i / d_out / in->n, i / d_out % in->n, i % d_out)] = numbers[i];
    memcpy(numbers, ordered, count * sizeof *ordered);
}

int64_t inputs_position(const struct layer *layer, const struct inputs *in, size_t b, size_t t)
{
    const int32_t *past = in->tensor[TENSOR_PAST];
    const int64_t offset = layer->offset == OFFSET_NONE ? 0 : layer->offset == OFFSET_PAST ? past[b]
                         : (int64_t)inputs_keys(in, b) - (int64_t)in->n;
    return offset + (int64_t)t;
}

/* ---- a cache --------------------------------------------------------------------------------------------------- */

size_t inputs_past(const struct inputs *in, size_t b)
{
    const int32_t *past = in->tensor[TENSOR_PAST];
    return past != NULL ? (size_t)past[b] : 0;
}

/* In a ring: the first position in the window of the first query */
int64_t inputs_first(const struct layer *layer, const struct inputs *in, size_t b)
{
    const int64_t left = (int64_t)inputs_past(in, b) - layer->window_left;
    return layer->cache == CACHE_RING && left > 0 ? left : 0;
}

size_t inputs_cached(const struct layer *layer, const struct inputs *in, size_t b)
{
    return layer_has_cache(layer) ? inputs_past(in, b) - (size_t)inputs_first(layer, in, b) : 0;
}

size_t inputs_most_rows(const struct layer *layer, const struct inputs *in)
{
    size_t most = layer_has_cache(layer) ? 0 : in->m;
    for (size_t b = 0; layer_has_cache(layer) && b < in->batch; b++)
        most = inputs_rows(layer, in, b) > most ? inputs_rows(layer, in, b) : most;
    return most;
}

int64_t inputs_reach(const struct layer *layer, const struct inputs *in)
{
    size_t reach = 0;
    for (size_t b = 0; layer_has_cache(layer) && b < in->batch; b++)
        reach = inputs_past(in, b) > reach ? inputs_past(in, b) : reach;
    return (int64_t)(reach + in->m);
}

int inputs_cache_parts(const struct layer *layer)
{
    return inputs_compared(layer) * (layer_scales_cache(layer) ? 2 : 1);
}

enum layer_tensor inputs_cache_of(const struct layer *layer, int part)
{
    static const enum layer_tensor rows[CACHE_PARTS] = {TENSOR_K_CACHE, TENSOR_V_CACHE, TENSOR_K_SCALE,
                                                        TENSOR_V_SCALE};
    static const enum layer_tensor pages[CACHE_PARTS] = {TENSOR_K_PAGES, TENSOR_V_PAGES, TENSOR_K_SCALE,
                                                         TENSOR_V_SCALE};
    if (layer_keeps_states(layer))
        return part == 0 && layer_is_recurrent(layer) ? TENSOR_STATE : TENSOR_CONV_STATE;
    const bool scale = part >= inputs_compared(layer); /* those of rows follow the rows */
    return (layer->cache == CACHE_PAGED ? pages : rows)[scale ? 2 + part - inputs_compared(layer) : part];
}

enum layer_tensor inputs_output(const struct layer *layer, int output)
{
    static const enum layer_tensor first[] = {TENSOR_Y, TENSOR_ATTN, TENSOR_LSE};
    return output < OUTPUT_CACHE ? first[output] : inputs_cache_of(layer, output - OUTPUT_CACHE);
}

size_t inputs_cache_width(const struct layer *layer, int part)
{
    return part >= inputs_compared(layer) ? 1 : (size_t)(part == 0 ? layer->d_k : layer->d_v);
}

size_t inputs_cache_bytes(const struct layer *layer, const struct inputs *in, int part)
{
    const enum layer_tensor tensor = inputs_cache_of(layer, part);
    return part < inputs_cache_parts(layer) ? inputs_count(layer, in, tensor) * layer_tensor_size(layer, tensor) : 0;
}

double inputs_cached_number(const struct layer *layer, const void *const cache[CACHE_PARTS], bool values, size_t at)
{
    const float *scales = layer_scales_cache(layer) ? cache[inputs_scales_of(layer, values)] : NULL;
    const double scale = scales != NULL ? (double)scales[at / inputs_cache_width(layer, values)] : 1;
    return scale * element_number(layer->cache_type, cache[values], at);
}

void inputs_caches(const struct layer *layer, const struct inputs *in, const void *cache[CACHE_PARTS])
{
    for (int part = 0; part < CACHE_PARTS; part++)
        cache[part] = part < inputs_cache_parts(layer) ? in->tensor[inputs_cache_of(layer, part)] : NULL;
}

size_t inputs_cache_row(const struct layer *layer, const struct inputs *in, int part, size_t b, size_t head,
                        int64_t position)
{
    const size_t width = inputs_cache_width(layer, part), h_kv = (size_t)layer->h_kv;
    const size_t at = (size_t)position, len = (size_t)layer->cache_len, page_len = (size_t)layer->page_len;
    if (layer->cache != CACHE_PAGED)
        return ((b * h_kv + head) * len + at % len) * width;
    const int32_t *table = in->tensor[TENSOR_PAGE_TABLE];
    const size_t page = (size_t)table[b * (size_t)layer->page_count + at / page_len];
    return ((page * h_kv + head) * page_len + at % page_len) * width;
}

size_t *inputs_new_rows(const struct layer *layer, const struct inputs *in, bool values)
{
    const size_t width = (size_t)(values ? layer->d_v : layer->d_k), h_kv = (size_t)layer->h_kv;
    const size_t rows = inputs_count(layer, in, inputs_cache_of(layer, values)) / width;
    size_t *number = memory_get(rows, sizeof *number);
    for (size_t b = 0; b < in->batch; b++)
        for (size_t i = 0; i < h_kv; i++)
            for (size_t t = 0; t < inputs_keys(in, b); t++) {
                const int64_t position = inputs_position(layer, in, b, t);
                number[inputs_cache_row(layer, in, values, b, i, position) / width] = (b * h_kv + i) * in->n + t + 1;
            }
    return number;
}

int64_t inputs_positions(const struct layer *layer)
{
    return layer->cache == CACHE_RING ? INT32_MAX : layer->cache_len;
}

size_t inputs_count(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor)
{
    int64_t shape[4];
    int rank = inputs_shape(layer, in, tensor, shape);
    size_t count = rank > 0;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, (size_t)shape[i], &count))
            return SIZE_MAX / 8; /* no allocation of this will succeed */
    return count;
}

size_t inputs_bytes(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor)
{
    return inputs_count(layer, in, tensor) * layer_tensor_size(layer, tensor);
}

void inputs_put(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor, size_t at, double number)
{
    const enum tensor_element type = layer_tensor_element(layer, tensor);
    const double most = type != TENSOR_F32 && element_rows[type].bits > 0 ? element_rows[type].most : INFINITY;
    element_put(type, in->tensor[tensor], at, isfinite(number) ? fmax(-most, fmin(most, number)) : number);
}

static void allocate(struct inputs *in, const struct layer *layer, enum layer_tensor tensor)
{
    const size_t bytes = inputs_bytes(layer, in, tensor);
    if (is_read(layer, tensor))
        in->tensor[tensor] = memory_there(malloc(bytes > 0 ? bytes : 1));
}

void inputs_free(struct inputs *in)
{
    for (int t = 0; t < TENSOR_COUNT; t++) {
        if (!(in->borrows_weights && is_weight(t)))
            free(in->tensor[t]);
        in->tensor[t] = NULL;
    }
}

void inputs_allocate(struct inputs *in, const struct layer *layer)
{
    memset(in->tensor, 0, sizeof in->tensor);
    in->packed = NULL;
    memset(in->unit, 0, sizeof in->unit);
    for (int t = 0; t < TENSOR_COUNT; t++)
        allocate(in, layer, t);
}

bool inputs_set_lengths(struct inputs *in, const struct layer *layer, const char *list, struct diag *diag)
{
    int32_t *lengths = in->tensor[TENSOR_LENGTHS];
    uint64_t length = 0;
    if (lengths == NULL)
        return diag_error(diag, layer->name, "--lengths is for a mask with padding; this layer has none");
    for (size_t b = 0; b < in->batch; b++) {
        if (*list != '\0') {
            const size_t digits = strcspn(list, ",");
            if (!number_whole(list, digits, 0, UINT64_MAX, &length))
                return diag_error(diag, layer->name, "--lengths = %s is not a list of numbers; write one for each "
                                  "sequence", list);
            list += digits + (list[digits] == ',');
        }
        if (length > in->m)
            return diag_error(diag, layer->name, "--lengths = %" PRIu64 " is past the %zu keys; ask for less", length,
                              in->m);
        lengths[b] = (int32_t)length;
    }
    if (in->batch > 0 && *list != '\0')
        diag_error(diag, layer->name, "--lengths has more numbers than the batch has sequences, %zu", in->batch);
    return in->batch == 0 || *list == '\0';
}

void inputs_copy(struct inputs *in, const struct layer *layer, const struct inputs *from)
{
    *in = *from;
    in->borrows_weights = false;
    inputs_allocate(in, layer);
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (in->tensor[t] != NULL)
            memcpy(in->tensor[t], from->tensor[t], inputs_bytes(layer, in, t));
}

bool inputs_fit(const struct layer *layer, const struct inputs_draw *draw, bool timed, const char *place,
                struct diag *diag)
{
    const size_t errors = diag->errors;
    const bool has_m = !layer_is_square(layer);
    if (draw->n > (size_t)layer->seq_len)
        diag_error(diag, place, "n = %zu is past seq_len = %lld; ask for less", draw->n, (long long)layer->seq_len);
    if (has_m && draw->m > (size_t)layer->source_len)
        diag_error(diag, place, "m = %zu is past source_len = %lld; ask for less", draw->m,
                   (long long)layer->source_len);
    if (timed && (draw->n < 1 || draw->batch < 1 || (has_m && draw->m < 1)))
        diag_error(diag, place, "n, m and batch must be at least 1; without them there is nothing to time");
    if (layer_has_cache(layer) && draw->past_given && draw->past + (int64_t)draw->n > inputs_positions(layer))
        diag_error(diag, place, "past = %lld leaves no room for n = %zu of %lld positions; ask for less",
                   (long long)draw->past, draw->n, (long long)inputs_positions(layer));
    return diag->errors == errors;
}

/* ---- drawing --------------------------------------------------------------------------------------------------- */

uint64_t random_bits(struct random *random)
{
    return draw_bits(&random->state);
}

double random_uniform(struct random *random)
{
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}

/* Box and Muller's, one of the two. */
double random_normal(struct random *random)
{
    double radius = sqrt(-2 * log(1 - random_uniform(random)));
    return radius * cos(6.283185307179586 * random_uniform(random));
}

/* A tensor that is drawn. */
struct drawing {
    struct random *random;
    const struct layer *layer;
    struct inputs *in;
    const struct inputs_draw *draw;
    enum layer_tensor tensor;
    enum tensor_element type;
    void *data;
    size_t count; /* numbers of data; of a page table before the pages are counted */
};

static bool chance(struct random *random, double p) { return random_uniform(random) < p; }

static void draw_normal(struct random *random, float *out, size_t count, double deviation)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(deviation * random_normal(random));
}

/* Xavier's uniform, or normal with variance 1 / (inputs of the product). */
static void draw_weight(const struct drawing *d)
{
    int64_t shape[4];
    int rank = inputs_shape(d->layer, d->in, d->tensor, shape);
    size_t count = d->count;
    float *out = d->data;
    if (rank == 1) {
        draw_normal(d->random, out, count, 0.1);
        return;
    }
    int64_t rows = shape[rank - (d->layer->out_in ? 1 : 2)], columns = shape[rank - (d->layer->out_in ? 2 : 1)];
    if (d->draw->init == INIT_NORMAL) {
        draw_normal(d->random, out, count, 1 / sqrt((double)rows));
        return;
    }
    double limit = sqrt(6.0 / (double)(rows + columns));
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(limit * (2 * random_uniform(d->random) - 1));
}

/* Above it scores of random numbers might exceed f32, and W_Q W_K^T what packing accepts. */
#define LARGE_SCALE 0x1p90

double inputs_query_factor(const struct layer *layer, enum layer_tensor tensor)
{
    const double scale = fabs(layer->scale), factor = scale > LARGE_SCALE ? LARGE_SCALE / scale : 1;
    if (layer->qk_norm != NORM_NONE) /* gains absorb the scale; without gains it multiplies numbers of at most 1 */
        return tensor == TENSOR_G_Q || tensor == TENSOR_C_Q ? factor : 1;
    if (tensor != TENSOR_W_Q && tensor != TENSOR_B_Q && tensor != TENSOR_Q)
        return 1;
    return layer->tied ? sqrt(factor) : factor; /* tied: they make the keys as well */
}

static void shrink_queries(const struct layer *layer, struct inputs *in, enum layer_tensor tensor)
{
    const double factor = inputs_query_factor(layer, tensor);
    const enum tensor_element type = layer_tensor_element(layer, tensor);
    for (size_t i = 0, count = inputs_count(layer, in, tensor); factor < 1 && i < count; i++)
        element_put(type, in->tensor[tensor], i, inputs_number(layer, in, tensor, i) * factor);
}

/* One number of tokens, and of learned numbers that are added to scores */
static double normal_number(const struct drawing *d) { return random_normal(d->random); }

/* Keys of a state: rows of about 1, with which corrections do not grow from token to token */
static double key_number(const struct drawing *d)
{
    return (layer_is_recurrent(d->layer) ? 1 / sqrt((double)d->layer->d_k) : 1) * random_normal(d->random);
}

/* Logarithms of factors: mostly a little below 1, also 1 itself, and what leaves nothing */
static double decay_number(const struct drawing *d)
{
    const float decay = (float)(-fabs(random_normal(d->random)) * (chance(d->random, 0.05) ? 40 : 0.5));
    return (double)(decay * !chance(d->random, 0.05));
}

/* Logarithms of rates of decay, 0.01 to 16 (transformers draws those) */
static double rate_number(const struct drawing *d) { return log(0.01 + 15.99 * random_uniform(d->random)); }

/* Shares of a correction, 0 to 1 */
static double share_number(const struct drawing *d)
{
    return chance(d->random, 0.1) ? chance(d->random, 0.5) : random_uniform(d->random);
}

/* Gains of a norm: about 1, sometimes negative */
static double gain_number(const struct drawing *d)
{
    const double gain = 1 + 0.3 * random_normal(d->random);
    return gain * (chance(d->random, 0.1) ? -1 : 1);
}

/* Sinks near ordinary scores; sometimes far above or below all of them */
static double sink_number(const struct drawing *d)
{
    const double size = chance(d->random, 0.1) ? 100 : 2;
    return size * random_normal(d->random);
}

/* 0, m and random lengths between */
static void draw_lengths(const struct drawing *d)
{
    const bool full = d->draw->full_lengths;
    int32_t *lengths = d->data;
    for (size_t b = 0; b < d->in->batch; b++) {
        size_t length = (size_t)(random_uniform(d->random) * (double)(d->in->m + 1));
        if (full || chance(d->random, 0.25))
            length = d->in->m;
        else if (chance(d->random, 0.15))
            length = 0;
        lengths[b] = (int32_t)length;
    }
}

/* Mostly near the tokens' own positions; also negative ones, and the largest int32 */
static void draw_positions(const struct drawing *d)
{
    int32_t *positions = d->data;
    for (size_t at = 0; at < d->in->batch * d->in->n * (size_t)d->layer->rope.axes; at++) {
        const double range = chance(d->random, 0.9)   ? 2 * (double)d->layer->seq_len
                             : chance(d->random, 0.7) ? 1e6 : 2147483647;
        const double size = range * random_uniform(d->random);
        positions[at] = (int32_t)(chance(d->random, 0.1) ? -size : size);
    }
}

/* Tokens in a cache: none, a few, as many as fit, or a random number; in a ring possibly more than it has rows */
static int64_t draw_cached(struct random *random, const struct layer *layer, const struct inputs *in, size_t b,
                           const struct inputs_draw *draw)
{
    const int64_t rows = layer->cache_len, fresh = (int64_t)inputs_keys(in, b);
    const bool ring = layer->cache == CACHE_RING;
    const int64_t whole = ring ? INT32_MAX - (int64_t)in->n : rows - (draw->whole_pages ? (int64_t)in->n : fresh);
    const int64_t most = draw->past_most > 0 && draw->past_most < whole ? draw->past_most : whole;
    int64_t past = (int64_t)(random_uniform(random) * (double)(ring ? 3 * rows : most + 1));
    if (draw->past_given)
        past = draw->past;
    else if (draw->full_lengths)
        past = most < rows - fresh ? most : rows - fresh;
    else if (chance(random, 0.5))
        past = chance(random, 0.4) ? 0 : chance(random, 0.5) ? (int64_t)(random_uniform(random) * 5)
                                       : most < rows ? most : rows - fresh;
    else if (ring && chance(random, 0.1))
        past = most;
    if (draw->past_apart && in->batch > 1 && (b == 0 || b + 1 == in->batch))
        past = b == 0 ? most : most / 2;
    return past < most ? past : most;
}

/* Mostly so that queries end among the keys, just past them, or at the last one; sometimes 0, far past all keys, or the
 * largest number. For timing at the last key. */
static void draw_past(const struct drawing *d)
{
    const size_t last = d->in->m > d->in->n ? d->in->m - d->in->n : 0;
    int32_t *past = d->data;
    for (size_t b = 0; layer_has_cache(d->layer) && b < d->in->batch; b++)
        past[b] = (int32_t)draw_cached(d->random, d->layer, d->in, b, d->draw);
    for (size_t b = 0; !layer_has_cache(d->layer) && b < d->in->batch; b++) {
        past[b] = (int32_t)(random_uniform(d->random) * (double)(d->in->m + 2));
        if (d->draw->full_lengths || chance(d->random, 0.3))
            past[b] = (int32_t)last;
        else if (chance(d->random, 0.2))
            past[b] = chance(d->random, 0.5) ? 0 : chance(d->random, 0.5) ? (int32_t)(d->in->m + d->in->n) : INT32_MAX;
    }
}

/* Pages that sequence b uses, or would if all its tokens were stored. */
static size_t pages_of(const struct layer *layer, const struct inputs *in, size_t b, bool whole)
{
    const size_t positions = inputs_past(in, b) + (whole ? in->m : inputs_keys(in, b));
    const size_t page_len = (size_t)layer->page_len;
    return (positions + page_len - 1) / page_len;
}

/* Distinct pages in random order, and a few unused ones; sometimes sequences share pages that all of them only read.
 * Numbers after the last used page are not read. */
static void draw_page_table(const struct drawing *d)
{
    const size_t count = (size_t)d->layer->page_count, page_len = (size_t)d->layer->page_len;
    int32_t *table = d->data;
    size_t used = 0;
    for (size_t b = 0; b < d->in->batch; b++) {
        const size_t both = min_size(inputs_past(d->in, 0), inputs_past(d->in, b));
        const size_t shared = b > 0 && !d->draw->full_lengths && chance(d->random, 0.4) ? both / page_len : 0;
        for (size_t page = 0; page < count; page++) {
            static const int32_t unread[] = {-1, INT32_MAX, INT32_MIN, 0};
            int32_t *number = &table[b * count + page];
            *number = page < shared ? table[page] : page < pages_of(d->layer, d->in, b, d->draw->whole_pages)
                    ? (int32_t)used++
                    : unread[random_bits(d->random) % (sizeof unread / sizeof *unread)];
        }
    }
    d->in->pages = used + 1 + random_bits(d->random) % 3;
    /* a permutation: times a factor coprime to the number of pages, plus turn */
    const size_t turn = random_bits(d->random) % d->in->pages;
    size_t factor = 1 + random_bits(d->random) % d->in->pages;
    while (divisor_of(factor, d->in->pages) != 1)
        factor++;
    for (size_t b = 0; b < d->in->batch; b++)
        for (size_t page = 0; page < pages_of(d->layer, d->in, b, d->draw->whole_pages); page++) {
            int32_t *number = &table[b * count + page];
            *number = (int32_t)(((size_t)*number * (factor % d->in->pages) + turn) % d->in->pages);
        }
}

/* A NaN, another one than at neighbouring places */
static void put_nan(enum tensor_element type, void *data, size_t at)
{
    const uint32_t bits = 0x7fc00000u + (uint32_t)(at % 0x3fffff);
    if (type == TENSOR_F32)
        memcpy((float *)data + at, &bits, sizeof bits);
    else if (type == TENSOR_I8)
        ((signed char *)data)[at] = (signed char)(at % 255 - 127); /* any: the scale is none */
    else
        ((uint16_t *)data)[at] = (uint16_t)(type == TENSOR_BF16 ? 0x7fc0 + at % 0x3f : 0x7e00 + at % 0x1ff);
}

/* Rows that queries of the call may read; all others are NaN, with different bits. */
static void draw_cache(const struct drawing *d)
{
    int part = 0;
    while (inputs_cache_of(d->layer, part) != d->tensor)
        part++;
    const bool scales = part >= inputs_compared(d->layer), whole = d->type == TENSOR_I8;
    const size_t width = inputs_cache_width(d->layer, part);
    for (size_t at = 0; at < d->count; at++)
        put_nan(d->type, d->data, at);
    for (size_t b = 0; b < d->in->batch; b++)
        for (int64_t p = inputs_first(d->layer, d->in, b); p < (int64_t)inputs_past(d->in, b); p++)
            for (size_t i = 0; i < (size_t)d->layer->h_kv; i++) {
                const size_t row = inputs_cache_row(d->layer, d->in, part, b, i, p);
                for (size_t c = 0; c < width; c++)
                    element_put(d->type, d->data, row + c,
                                scales ? (1 + random_uniform(d->random)) / 127
                                : whole ? 40 * random_normal(d->random) : random_normal(d->random));
            }
}

/* Some of the keys, none, all, or beyond all. None for timing, where causal hides as much as it can. */
static void draw_prefix(const struct drawing *d)
{
    int32_t *prefix = d->data;
    for (size_t b = 0; b < d->in->batch; b++) {
        const size_t keys = d->in->m + (layer_has_cache(d->layer) ? inputs_past(d->in, b) : 0);
        prefix[b] = (int32_t)(random_uniform(d->random) * (double)(keys + 1));
        if (d->draw->full_lengths || chance(d->random, 0.15))
            prefix[b] = 0;
        else if (chance(d->random, 0.1))
            prefix[b] = chance(d->random, 0.5) ? (int32_t)keys : INT32_MAX;
    }
}

/* Mostly packed documents; sometimes with numbers in random order, or scattered. Numbers of segments may differ only in
 * their upper or lower half. A single segment for timing. Queries and keys draw from the same few numbers. */
static void draw_segment(const struct drawing *d)
{
    static const int32_t steps[] = {1, 65536, 65537, -1, INT32_MAX / 4};
    const size_t count = d->count / (d->in->batch > 0 ? d->in->batch : 1);
    int32_t *segment = d->data;
    for (size_t b = 0; b < d->in->batch; b++) {
        const int32_t step = steps[b % (sizeof steps / sizeof *steps)];
        const size_t longest = chance(d->random, 0.5) ? 80 : 1 + count / 2;
        const bool strewn = chance(d->random, 0.25), jumps = chance(d->random, 0.3);
        const bool one = d->draw->full_lengths || chance(d->random, 0.1);
        int32_t number = 0;
        for (size_t at = 0, end = 0; at < count; at++) {
            if (at == end && !one) {
                end += strewn ? 1 : 1 + (size_t)(random_uniform(d->random) * (double)longest);
                number = at == 0 ? 0 : jumps || strewn ? (int32_t)(random_bits(d->random) % 4) : (number + 1) % 8;
            }
            segment[b * count + at] = number * step;
        }
    }
}

/* Rows of a mask, of inputs_columns() numbers each. */
static size_t rows_of(const struct inputs *in, enum layer_tensor tensor)
{
    return in->mask_batch[tensor] * in->mask_h[tensor] * in->n;
}

/* Most pairs are visible, by any byte but 0; sometimes a whole row is hidden. */
static void draw_mask_bool(const struct drawing *d)
{
    static const unsigned char visible[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
    const size_t m = inputs_columns(d->layer, d->in);
    const bool full = d->draw->full_lengths;
    unsigned char *mask = d->data;
    for (size_t r = 0; r < rows_of(d->in, d->tensor); r++) {
        double p = full ? 1 : chance(d->random, 0.1) ? 0 : chance(d->random, 0.2) ? 1 : random_uniform(d->random);
        for (size_t j = 0; j < m; j++)
            mask[r * m + j] = chance(d->random, p) ? visible[random_bits(d->random) % sizeof visible] : 0;
    }
}

/* Small numbers, with occasional -inf and -1e9, and rows full of either */
static void draw_mask_add(const struct drawing *d)
{
    const size_t m = inputs_columns(d->layer, d->in);
    const bool full = d->draw->full_lengths;
    float *mask = d->data;
    for (size_t r = 0; r < rows_of(d->in, d->tensor); r++) {
        double p_hidden = full ? 0 : chance(d->random, 0.1) ? 1 : 0.15;
        double p_billion = full ? 0 : chance(d->random, 0.05) ? 1 : 0.05;
        for (size_t j = 0; j < m; j++)
            mask[r * m + j] = chance(d->random, p_hidden)    ? -INFINITY
                              : chance(d->random, p_billion) ? -1e9f
                                                          : (float)random_normal(d->random);
    }
}

/* How a tensor is drawn: number by number, or as a whole. Those not named here are weights: draw_weight. */
static const struct {
    double (*number)(const struct drawing *d);
    void (*whole)(const struct drawing *d);
} drawers[TENSOR_COUNT] = {
    [TENSOR_X] = {.number = normal_number}, [TENSOR_SOURCE] = {.number = normal_number},
    [TENSOR_Q] = {.number = normal_number}, [TENSOR_K] = {.number = key_number},
    [TENSOR_V] = {.number = normal_number}, [TENSOR_LENGTHS] = {.whole = draw_lengths},
    [TENSOR_PAST] = {.whole = draw_past}, [TENSOR_POSITIONS] = {.whole = draw_positions},
    [TENSOR_PREFIX] = {.whole = draw_prefix}, [TENSOR_SEGMENT] = {.whole = draw_segment},
    [TENSOR_SEGMENT_Q] = {.whole = draw_segment}, [TENSOR_SEGMENT_K] = {.whole = draw_segment},
    [TENSOR_MASK_BOOL] = {.whole = draw_mask_bool}, [TENSOR_MASK_ADD] = {.whole = draw_mask_add},
    [TENSOR_G_Q] = {.number = gain_number}, [TENSOR_G_K] = {.number = gain_number},
    [TENSOR_N1_G] = {.number = gain_number}, [TENSOR_N2_G] = {.number = gain_number},
    [TENSOR_N3_G] = {.number = gain_number}, [TENSOR_N4_G] = {.number = gain_number},
    [TENSOR_REL_BIAS] = {.number = normal_number}, [TENSOR_SINK] = {.number = sink_number},
    [TENSOR_PAGE_TABLE] = {.whole = draw_page_table}, [TENSOR_K_CACHE] = {.whole = draw_cache},
    [TENSOR_V_CACHE] = {.whole = draw_cache}, [TENSOR_K_PAGES] = {.whole = draw_cache},
    [TENSOR_V_PAGES] = {.whole = draw_cache}, [TENSOR_K_SCALE] = {.whole = draw_cache},
    [TENSOR_V_SCALE] = {.whole = draw_cache}, [TENSOR_DECAY] = {.number = decay_number},
    [TENSOR_BETA] = {.number = share_number}, [TENSOR_STATE] = {.number = normal_number},
    [TENSOR_CONV_STATE] = {.number = normal_number}, [TENSOR_A_LOG] = {.number = rate_number},
    [TENSOR_DT_B] = {.number = normal_number}, [TENSOR_CONV_Q] = {.number = normal_number},
    [TENSOR_CONV_K] = {.number = normal_number}, [TENSOR_CONV_V] = {.number = normal_number},
    [TENSOR_CONV_X] = {.number = normal_number}, [TENSOR_G_O] = {.number = gain_number},
    [TENSOR_G_DQ] = {.number = gain_number}, [TENSOR_G_DKV] = {.number = gain_number},
};

static void draw_tensor(struct random *random, const struct layer *layer, struct inputs *in, enum layer_tensor tensor,
                        const struct inputs_draw *draw)
{
    const bool named = kind_of(tensor) == TENSOR_NAMED; /* a spec's table: its numbers are added and compared */
    const struct drawing drawing = {random, layer, in, draw, tensor, layer_tensor_element(layer, tensor),
                                    in->tensor[tensor], inputs_count(layer, in, tensor)};
    double (*const number)(const struct drawing *) = named ? normal_number : drawers[tensor].number;
    if (number == NULL)
        (drawers[tensor].whole != NULL ? drawers[tensor].whole : draw_weight)(&drawing);
    for (size_t i = 0; number != NULL && i < drawing.count; i++)
        element_put(drawing.type, drawing.data, i, number(&drawing));
    shrink_queries(layer, in, tensor);
}

/* Each tensor has a stream of its own. Tensors of blocks, of layer = linear and of scales do not change the others'
 * streams, so that a seed always draws the same numbers. */
static struct random stream_of(uint64_t seed, enum layer_tensor tensor)
{
    const uint64_t more = TENSOR_B + 1 - TENSOR_N1_G, of_block = 1000 + (uint64_t)tensor - TENSOR_N1_G;
    const bool block = (tensor >= TENSOR_N1_G && tensor <= TENSOR_B) || tensor > TENSOR_V_PAGES;
    const uint64_t number = block ? of_block << 32 : tensor > TENSOR_B ? (uint64_t)tensor - more : (uint64_t)tensor;
    struct random random = {seed * (TENSOR_V_PAGES + 1 - more) + number};
    random_bits(&random);
    return random;
}

void inputs_draw_tensor(struct inputs *in, const struct layer *layer, enum layer_tensor tensor, uint64_t seed)
{
    const struct inputs_draw draw = {.seed = seed, .batch = in->batch, .n = in->n, .m = in->m};
    struct random random = stream_of(seed, tensor);
    draw_tensor(&random, layer, in, tensor, &draw);
}

bool inputs_pairs(const struct layer *layer, int isa)
{
    return layer->precision == PRECISION_I8 && (layer->portable || isa_sums_pairs(isa));
}

void inputs_draw(struct inputs *in, const struct layer *layer, const struct inputs_draw *draw,
                 const struct inputs *weights)
{
    *in = (struct inputs){.batch = draw->batch, .n = draw->n, .m = !layer_is_square(layer) ? draw->m : draw->n,
                          .borrows_weights = weights != NULL,
                          .pairs = weights != NULL ? weights->pairs : draw->pairs};
    in->seed = draw->seed * UINT64_C(0x9e3779b97f4a7c15) + 1; /* both words are something */
    for (int t = 0; t < TENSOR_COUNT; t++) {
        struct random random = stream_of(draw->seed, t);
        if (is_mask(t)) {
            const bool one = chance(&random, 0.5), alike = chance(&random, 0.5), drawn = draw->mask_form == 0;
            in->mask_batch[t] = (drawn ? one && !draw->whole_masks : draw->mask_form & 1) ? 1 : in->batch;
            in->mask_h[t] = (drawn ? alike && !draw->whole_masks : draw->mask_form & 2) ? 1 : (size_t)layer->h;
        }
        if (weights != NULL && is_weight(t)) {
            in->tensor[t] = weights->tensor[t];
            continue;
        }
        allocate(in, layer, t);
        if (in->tensor[t] != NULL)
            draw_tensor(&random, layer, in, t, draw);
    }
}

/* ---- from a file ----------------------------------------------------------------------------------------------- */

static enum layer_tensor tensor_of_name(const struct layer *layer, const char *name)
{
    int t = 0;
    while (t < TENSOR_COUNT && strcmp(layer_tensor_called(layer, t), name) != 0)
        t++;
    return t;
}

enum tensor_type inputs_type(enum tensor_element element)
{
    static const enum tensor_type types[] = {
        [TENSOR_F32] = TYPE_F32, [TENSOR_I32] = TYPE_I32, [TENSOR_BOOL] = TYPE_BOOL, [TENSOR_BF16] = TYPE_BF16,
        [TENSOR_F16] = TYPE_F16, [TENSOR_I8] = TYPE_I8};
    return types[element];
}

static enum tensor_type type_of(const struct layer *layer, enum layer_tensor tensor)
{
    return inputs_type(layer_tensor_element(layer, tensor));
}

/* "expect.k_cache": what a call must leave in the cache */
static bool is_expected(const char *name) { return strncmp(name, INPUTS_EXPECTED, strlen(INPUTS_EXPECTED)) == 0; }

/* "seed" [1], of dropout; 0 if it is missing */
static bool is_seed(const struct layer *layer, const char *name)
{
    return layer->dropout > 0 && strcmp(name, "seed") == 0;
}

static bool seed_from_tensors(struct inputs *in, const struct layer *layer, const struct tensors *tensors,
                              const char *place, struct diag *diag)
{
    const struct tensor *seed = tensors_find(tensors, "seed");
    if (seed == NULL || !is_seed(layer, seed->name))
        return true;
    if (seed->type != TYPE_U64 || seed->bytes != sizeof in->seed)
        diag_error(diag, place, "tensor \"seed\" is one number of type U64");
    else
        memcpy(&in->seed, seed->data, sizeof in->seed);
    return seed->type == TYPE_U64 && seed->bytes == sizeof in->seed;
}

/* For a layer that trains: "dy", and the gradients to compare with, "dx", "dw_q", … */
static bool is_of_backward(const struct layer *layer, const char *name)
{
    const enum layer_tensor t = name[0] == 'd' ? tensor_of_name(layer, name + 1) : TENSOR_COUNT;
    return t < TENSOR_COUNT && (layer_has_gradient(layer, t) || (layer->train && t == TENSOR_Y));
}

static bool names_are_known(const struct layer *layer, const struct tensors *tensors, const char *place,
                            struct diag *diag)
{
    size_t errors = diag->errors;
    for (size_t i = 0; i < tensors->count; i++) {
        enum layer_tensor t = tensor_of_name(layer, tensors->items[i].name);
        if (is_expected(tensors->items[i].name) || is_of_backward(layer, tensors->items[i].name) ||
            is_seed(layer, tensors->items[i].name))
            continue;
        if (t == TENSOR_COUNT)
            diag_error(diag, place, "unexpected tensor \"%s\"; no layer has one of this name", tensors->items[i].name);
        else if (!layer_has_tensor(layer, t))
            diag_error(diag, place, "unexpected tensor \"%s\"; this layer has none", tensors->items[i].name);
    }
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (is_read(layer, t) && tensors_find(tensors, layer_tensor_called(layer, t)) == NULL)
            diag_error(diag, place, "tensor \"%s\" is missing", layer_tensor_called(layer, t));
    return diag->errors == errors;
}

/* batch, n and m from x and source, or from q and k; a mask's extents from the mask. */
static bool sizes_from_tensors(struct inputs *in, const struct layer *layer, const struct tensors *tensors,
                               const char *place, struct diag *diag)
{
    const char *queries = layer->projected ? "q" : "x", *keys = layer->projected ? "k" : "source";
    const struct tensor *x = tensors_find(tensors, queries), *source = tensors_find(tensors, keys);
    const int rank = layer->projected ? 4 : 3, positions = layer->heads_first ? 2 : 1;
    if (x->rank != rank || (source != NULL && source->rank != rank))
        return diag_error(diag, place, "%s and %s need %d axes: %s", queries, keys, rank,
                          !layer->projected ? "[batch][positions][width]" : layer->heads_first
                          ? "[batch][heads][positions][width]" : "[batch][positions][heads][width]");
    in->batch = (size_t)x->shape[0];
    in->n = (size_t)x->shape[positions];
    in->m = source != NULL ? (size_t)source->shape[positions] : in->n;
    const struct tensor *pages = tensors_find(tensors, layer_tensor_name(TENSOR_K_PAGES));
    in->pages = layer->cache == CACHE_PAGED && pages->rank > 0 ? (size_t)pages->shape[0] : 0;
    if (layer_is_square(layer) && in->n != in->m)
        return diag_error(diag, place, "%zu queries on %zu keys; %s needs as many of both", in->n, in->m,
                          layer_has_cache(layer) ? "a cache" : "rope_positions = given");
    if (in->n > (size_t)layer->seq_len || in->m > (size_t)layer->source_len)
        return diag_error(diag, place, "%zu queries on %zu keys; the layer is made for at most %lld on %lld", in->n,
                          in->m, (long long)layer->seq_len, (long long)layer->source_len);
    for (int t = 0; t < TENSOR_COUNT; t++) {
        const struct tensor *mask = is_mask(t) ? tensors_find(tensors, layer_tensor_name(t)) : NULL;
        if (mask == NULL)
            continue;
        bool good = mask->rank == 4 && (mask->shape[0] == 1 || mask->shape[0] == (int64_t)in->batch) &&
                    (mask->shape[1] == 1 || mask->shape[1] == layer->h);
        if (!good)
            return diag_error(diag, place, "tensor \"%s\" needs the shape [1 or %zu][1 or %lld][%zu][%zu]", mask->name,
                              in->batch, (long long)layer->h, in->n, inputs_columns(layer, in));
        in->mask_batch[t] = (size_t)mask->shape[0];
        in->mask_h[t] = (size_t)mask->shape[1];
    }
    return true;
}

/* Whether an int32 tensor is given as f32 integers, as some programs write it */
static bool are_whole(const struct layer *layer, enum layer_tensor t, const struct tensor *tensor)
{
    const float *numbers = tensor->data;
    bool whole = type_of(layer, t) == TYPE_I32 && tensor->type == TYPE_F32;
    for (size_t i = 0; whole && i < tensor->bytes / sizeof *numbers; i++)
        whole = numbers[i] >= -2147483648.0f && numbers[i] < 2147483648.0f && numbers[i] == (float)(int32_t)numbers[i];
    return whole;
}

static void copy_numbers(void *to, const struct layer *layer, enum layer_tensor t, const struct tensor *tensor)
{
    const float *numbers = tensor->data;
    int32_t *whole = to;
    if (tensor->type == type_of(layer, t))
        memcpy(to, tensor->data, tensor->bytes);
    else
        for (size_t i = 0; i < tensor->bytes / sizeof *numbers; i++)
            whole[i] = (int32_t)numbers[i];
}

static bool check_shape(const struct layer *layer, const struct inputs *in, enum layer_tensor t,
                        const struct tensor *tensor, const char *place, struct diag *diag)
{
    int64_t shape[4];
    char is[200], should[200];
    int rank = inputs_shape(layer, in, t, shape);
    bool good = rank == tensor->rank && memcmp(shape, tensor->shape, (size_t)rank * sizeof *shape) == 0;
    if (!good)
        diag_error(diag, place, "tensor \"%s\" is %s; %s is needed", tensor->name,
                   tensor_shape_text(is, tensor->rank, tensor->shape), tensor_shape_text(should, rank, shape));
    if (tensor->type != type_of(layer, t) && !are_whole(layer, t, tensor))
        return diag_error(diag, place, "tensor \"%s\" is %s; %s is needed", tensor->name,
                          tensor_type_name(tensor->type), tensor_type_name(type_of(layer, t)));
    return good;
}

/* A number of each sequence, from 0 to `max` */
static bool check_numbers(const struct inputs *in, enum layer_tensor tensor, size_t max, const char *place,
                          struct diag *diag)
{
    const int32_t *numbers = in->tensor[tensor];
    for (size_t b = 0; numbers != NULL && b < in->batch; b++)
        if (numbers[b] < 0 || (size_t)numbers[b] > max)
            return diag_error(diag, place, max < INT32_MAX ? "%s[%zu] = %d; 0 to %zu are possible"
                                                           : "%s[%zu] = %d; 0 or more is possible",
                              layer_tensor_name(tensor), b, (int)numbers[b], max);
    return true;
}

/* A cache must hold the new tokens too. */
static bool check_past(const struct inputs *in, const struct layer *layer, const char *place, struct diag *diag)
{
    for (size_t b = 0; layer_has_cache(layer) && b < in->batch; b++) {
        const size_t fresh = layer->cache == CACHE_RING ? in->n : inputs_keys(in, b);
        const size_t most = (size_t)inputs_positions(layer) - fresh;
        if (inputs_past(in, b) > most)
            return diag_error(diag, place, "past[%zu] = %zu, and %zu tokens are new; the cache has room if it is at "
                              "most %zu", b, inputs_past(in, b), fresh, most);
    }
    return true;
}

static bool check_pages(const struct inputs *in, const struct layer *layer, const char *place, struct diag *diag)
{
    const int32_t *table = in->tensor[TENSOR_PAGE_TABLE];
    for (size_t b = 0; table != NULL && b < in->batch; b++)
        for (size_t page = 0; page < pages_of(layer, in, b, false); page++) {
            const int32_t number = table[b * (size_t)layer->page_count + page];
            if (number < 0 || (size_t)number >= in->pages)
                return diag_error(diag, place, "page_table[%zu][%zu] = %d; there are %zu pages", b, page, (int)number,
                                  in->pages);
        }
    return true;
}

bool inputs_from_tensors(struct inputs *in, const struct layer *layer, const struct tensors *tensors,
                         const char *place, struct diag *diag)
{
    *in = (struct inputs){0};
    if (!names_are_known(layer, tensors, place, diag) || !sizes_from_tensors(in, layer, tensors, place, diag))
        return false;
    bool good = seed_from_tensors(in, layer, tensors, place, diag);
    for (size_t i = 0; i < tensors->count; i++) {
        const char *name = tensors->items[i].name;
        if (is_seed(layer, name))
            continue;
        const bool expected = is_expected(name), gradient = is_of_backward(layer, name);
        const enum layer_tensor t = tensor_of_name(layer, name + (expected ? strlen(INPUTS_EXPECTED) : gradient));
        const bool cache = t < TENSOR_COUNT && kind_of(t) == TENSOR_CACHE && layer_has_tensor(layer, t);
        if ((!expected || cache) && !check_shape(layer, in, t, &tensors->items[i], place, diag))
            good = false;
    }
    for (int t = 0; good && t < TENSOR_COUNT; t++) {
        const struct tensor *tensor = tensors_find(tensors, layer_tensor_called(layer, t));
        allocate(in, layer, t);
        if (in->tensor[t] != NULL)
            copy_numbers(in->tensor[t], layer, t, tensor);
    }
    good = good && check_numbers(in, TENSOR_LENGTHS, in->m, place, diag) &&
           check_numbers(in, TENSOR_PAST, INT32_MAX, place, diag) &&
           check_numbers(in, TENSOR_PREFIX, INT32_MAX, place, diag) && check_past(in, layer, place, diag) &&
           check_pages(in, layer, place, diag);
    if (!good)
        inputs_free(in);
    return good;
}
