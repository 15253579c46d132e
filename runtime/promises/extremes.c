/* SPDX-License-Identifier: MIT */
/* Scores are exponents of 2, as kernels compute them: T = scale log2(e) Q K^T. A query has one or two factors Q, a key
 * as many factors K (channels). */
#include "extremes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "reference/block.h"

#define LOG2_E 1.4426950408889634
#define TURN 6.283185307179586
#define MAX_CHANNELS 2
#define SPREAD 64.0f      /* between the values' features */
#define LARGEST_POWER 100 /* of 2: W_K compensates larger and smaller scales */
#define LARGEST_OF_NORM 0x1p50 /* of factors that are squared */
#define LARGEST_NORMED 2000    /* about the largest exponents of 2 that norms leave */

/* Columns of its input that a head's queries, keys and values are made of */
struct columns {
    size_t channels, query, key, value; /* values take all columns from `value` on; if there are none, they share the
                                         * last one */
    bool symmetric;                     /* a row's factors as a query are those as a key */
};

static struct columns columns_of(const struct layer *layer)
{
    const size_t q = (size_t)layer->d_in_q, kv = (size_t)layer->d_in_kv;
    const bool self = layer->self, apart = self && !layer->tied && kv >= 3;
    struct columns c = {.channels = 1, .symmetric = self && !apart};
    if (layer->d_k >= 2 && (layer->projected || (q >= 2 && kv >= (apart ? 5 : 3))))
        c.channels = 2;
    if (layer->projected)
        return c;
    c.key = apart ? c.channels : 0;
    c.value = c.key + c.channels < kv ? c.key + c.channels : kv - 1;
    return c;
}

/* The power of 2 in scale log2(e); 0 if the scale is 0, so that x decides nothing */
static int power_of_scale(const struct layer *layer) { return layer->scale != 0 ? ilogb(layer->scale * LOG2_E) : 0; }

static int clamped(int power)
{
    return power > LARGEST_POWER ? LARGEST_POWER : power < -LARGEST_POWER ? -LARGEST_POWER : power;
}

/* The largest factor of a query for which products with it and the scale, and for a norm its square, stay in range */
static double largest_factor(const struct layer *layer)
{
    if (layer->qk_norm != NORM_NONE)
        return LARGEST_OF_NORM;
    const int power = power_of_scale(layer), rest = power - clamped(power);
    return ldexp(1, LARGEST_POWER - 2 * abs(rest));
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

/* Element [row][column] of head i's matrix of a projection, wherever the layout puts it. */
static float *element(const struct layer *layer, float *w, size_t in, size_t d, size_t heads, size_t i, size_t row,
                      size_t column)
{
    float *matrix = layer->split ? w + i * in * d : w;
    const size_t columns = layer->split ? d : heads * d, c = layer->split ? column : i * d + column;
    return layer->out_in ? matrix + c * in + row : matrix + row * columns + c;
}

/* Zeros except for the channels: features f, f + 1 of head i are `factor` times columns first, first + 1. */
static void make_projection(const struct layer *layer, float *w, size_t in, size_t heads, size_t first, double factor)
{
    const size_t d = (size_t)layer->d_k, channels = columns_of(layer).channels, h = (size_t)layer->h;
    memset(w, 0, in * heads * d * sizeof *w);
    for (size_t i = 0; i < heads; i++)
        for (size_t c = 0; c < channels; c++) { /* the same for all query heads of a key head */
            const size_t group = i * (size_t)layer->h_kv / h, feature = (heads == h ? group : i) * 3 + c;
            *element(layer, w, in, d, heads, i, first + c, feature % d) = (float)factor;
        }
}

/* Values do not depend on the factors; their last feature is larger than the others, the first one smaller. */
static void make_values(const struct layer *layer, float *w, size_t in, size_t heads, size_t factors)
{
    const size_t d = (size_t)layer->d_v;
    for (size_t i = 0; i < heads; i++)
        for (size_t row = 0; row < in; row++) {
            for (size_t column = 0; row < factors && column < d; column++)
                *element(layer, w, in, d, heads, i, row, column) = 0;
            *element(layer, w, in, d, heads, i, row, 0) /= SPREAD;
            *element(layer, w, in, d, heads, i, row, d - 1) *= SPREAD;
        }
}

/* Under identity Z contains the factors too: W_O ignores them. */
static void clear_output_rows(const struct layer *layer, float *w, size_t rows)
{
    const size_t h = (size_t)layer->h, d_v = (size_t)layer->d_v, d_model = (size_t)layer->d_model;
    const bool dense = layer->w_o == W_O_DENSE;
    const size_t matrices = dense ? 1 : h * (size_t)layer->conv_width, width = dense ? d_model : d_model / h;
    const size_t height = dense ? h * d_v : d_v;
    for (size_t matrix = 0; matrix < matrices; matrix++, w += height * width)
        for (size_t row = 0; row < height; row++)
            for (size_t column = 0; row % d_v < rows && column < width; column++)
                w[layer->out_in ? column * height + row : row * width + column] = 0;
}

/* A norm removes the size of the factors, so its gains decide the size of scores. */
static void make_gains(const struct layer *layer, struct inputs *weights, enum layer_tensor tensor, double most)
{
    float *gains = weights->tensor[tensor];
    for (size_t i = 0, count = inputs_count(layer, weights, tensor); gains != NULL && i < count; i++)
        gains[i] = (float)most;
}

/* Multipliers of a query's factors and of a key's that compensate the scale. With tied keys one matrix serves both:
 * half of the scale's power on each side, and the root of the rest. */
struct units {
    double query, key;
};

static struct units units_of(const struct layer *layer)
{
    const int power = power_of_scale(layer), of_queries = layer->tied ? (power + (power > 0)) / 2 : clamped(power);
    const double rest = layer->scale != 0 ? ldexp(1, power) / fabs(layer->scale * LOG2_E) : 1;
    const double unit = layer->tied ? sqrt(rest) : layer->scale < 0 ? -rest : rest;
    const double of_keys = ldexp(1, of_queries - power);
    return (struct units){unit * ldexp(1, -of_queries), of_keys};
}

void extremes_weights(struct inputs *weights, const struct layer *layer, const struct inputs *drawn)
{
    const struct columns c = columns_of(layer);
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, kv = (size_t)layer->d_in_kv;
    struct inputs from = *drawn; /* nothing of the call */
    from.batch = from.n = from.m = 0;
    inputs_copy(weights, layer, &from);
    if (layer_is_latent(layer)) /* scores are of products of four matrices: as drawn */
        return;
    const struct units units = units_of(layer);
    const bool norms = layer->qk_norm != NORM_NONE;
    void *const *w = weights->tensor;
    if (w[TENSOR_W_Q] != NULL)
        make_projection(layer, w[TENSOR_W_Q], (size_t)layer->d_in_q, h, c.query, norms ? 1 : units.query);
    if (w[TENSOR_W_K] != NULL)
        make_projection(layer, w[TENSOR_W_K], kv, h_kv, c.key, norms ? 1 : units.key);
    make_gains(layer, weights, TENSOR_G_Q, layer->scale != 0 ? LARGEST_NORMED / fabs(layer->scale * LOG2_E) : 1);
    make_gains(layer, weights, TENSOR_G_K, 1 / (double)layer->d_k);
    if (block_norms(layer).before_attention > 0) { /* so does a block's norm: its results are at most sqrt(d_model) */
        make_gains(layer, weights, TENSOR_N1_G, sqrt(LARGEST_NORMED / (double)layer->d_model));
        if (w[TENSOR_N1_B] != NULL)
            memset(w[TENSOR_N1_B], 0, inputs_count(layer, weights, TENSOR_N1_B) * sizeof(float));
    }
    for (int bias = TENSOR_B_Q; bias <= TENSOR_B_O; bias += TENSOR_B_K - TENSOR_B_Q) /* small values drown in none */
        if (w[bias] != NULL)
            memset(w[bias], 0, inputs_count(layer, weights, bias) * sizeof(float));
    for (int of = TENSOR_W_1; layer->block == BLOCK_OUTPUTS && of <= TENSOR_W_G; of += TENSOR_W_G - TENSOR_W_1)
        if (w[of] != NULL) /* no norm is before the feed-forward, whose products may exceed f32 */
            memset(w[of], 0, inputs_count(layer, weights, of) * sizeof(float));
    if (w[TENSOR_W_V] != NULL)
        make_values(layer, w[TENSOR_W_V], kv, h_kv, c.value);
    else if (w[TENSOR_W_O] != NULL && layer->identity)
        clear_output_rows(layer, w[TENSOR_W_O], c.value);
}

/* ---- kinds of scores ------------------------------------------------------------------------------------------- */

/* One sequence that is being drawn */
struct drawing {
    const struct layer *layer;
    const struct inputs *in;
    struct columns columns;
    struct random random;
    size_t b;
    double largest;
};

struct factors {
    double of[MAX_CHANNELS];
};

static const double ranges[] = {30, 60, 90, 118, 127, 200, 400, 1000, 4000};
static const double jumps[] = {63, 64, 65, 100, 119, 120, 121, 127, 128, 130, 200, -64, -120, -200};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static double pick(struct random *random, const double *from, size_t count)
{
    return from[random_bits(random) % count];
}

/* 1 to 1e30, of either sign */
static double any_size(size_t index) { return (index % 3 == 0 ? -1 : 1) * pow(10, (double)(index * 7 % 31)); }

/* For two factors of that kind */
static double root_of(double size) { return copysign(sqrt(fabs(size)), size); }

/* A step whose multiples visit all m positions, out of phase with any tile */
static size_t step_of(size_t m)
{
    size_t step = m * 5 / 8 + 1;
    while (divisor_of(m, step) != 1)
        step++;
    return step;
}

/* Where a row begins, in numbers */
static size_t row_of(const struct drawing *d, enum layer_tensor tensor, size_t row)
{
    const bool x = tensor == TENSOR_X;
    const size_t rows = x ? d->in->n : d->in->m, width = (size_t)(x ? d->layer->d_model : d->layer->d_source);
    return (d->b * rows + row) * width;
}

/* Writes to each head of given queries or keys: zeros except for the channels, as in make_projection. */
static void put_given(const struct drawing *d, enum layer_tensor tensor, size_t row, struct factors factors)
{
    const struct layer *layer = d->layer;
    const size_t heads = (size_t)(tensor == TENSOR_Q ? layer->h : layer->h_kv), d_k = (size_t)layer->d_k;
    const struct units units = units_of(layer);
    for (size_t i = 0; i < heads; i++) {
        const size_t to = inputs_head_row(layer, d->in, tensor, d->b, row, i);
        for (size_t c = 0; c < d_k; c++)
            inputs_put(layer, d->in, tensor, to + c, 0);
        for (size_t c = 0; c < d->columns.channels; c++) {
            const size_t group = tensor == TENSOR_Q ? i * (size_t)layer->h_kv / heads : i;
            inputs_put(layer, d->in, tensor, to + (group * 3 + c) % d_k,
                       (double)(float)(fmax(-d->largest, fmin(d->largest, factors.of[c])) *
                                       (tensor == TENSOR_Q ? units.query : units.key)));
        }
    }
}

/* Writes to each head's columns. */
static void put(const struct drawing *d, enum layer_tensor tensor, size_t row, size_t first, struct factors factors)
{
    if (d->layer->projected) {
        put_given(d, tensor == TENSOR_X ? TENSOR_Q : TENSOR_K, row, factors);
        return;
    }
    const size_t in = (size_t)(tensor == TENSOR_X ? d->layer->d_in_q : d->layer->d_in_kv);
    const size_t to = row_of(d, tensor, row);
    for (size_t head = 0; head < (d->layer->split ? (size_t)d->layer->h : 1); head++)
        for (size_t c = 0; c < d->columns.channels; c++)
            inputs_put(d->layer, d->in, tensor, to + head * in + first + c,
                       (double)(float)fmax(-d->largest, fmin(d->largest, factors.of[c])));
}

static void put_query(const struct drawing *d, size_t t, struct factors factors)
{
    put(d, TENSOR_X, t, d->columns.query, factors);
}

static void put_key(const struct drawing *d, size_t j, struct factors factors)
{
    const bool source = d->layer->cross || d->layer->projected;
    put(d, source ? TENSOR_SOURCE : TENSOR_X, j, d->columns.key, factors);
}

/* Numbers in a block of values: those of a head, or of a head's columns of the source */
static size_t value_width(const struct drawing *d)
{
    return d->layer->projected ? (size_t)d->layer->d_v : (size_t)d->layer->d_in_kv - d->columns.value;
}

/* Where block i of the values of key j begins */
static size_t value_at(const struct drawing *d, size_t j, size_t i)
{
    if (d->layer->projected)
        return inputs_head_row(d->layer, d->in, TENSOR_V, d->b, j, i);
    return row_of(d, inputs_source(d->layer), j) + i * (size_t)d->layer->d_in_kv + d->columns.value;
}

/* Multiplies numbers first … end-1 of each block of key j by `factor`, those of key `from`; given values that are keys
 * stay. */
static void change_values(const struct drawing *d, size_t j, size_t from, size_t first, size_t end, double factor)
{
    const struct layer *layer = d->layer;
    const enum layer_tensor tensor = layer->projected ? TENSOR_V : inputs_source(layer);
    const size_t blocks = (size_t)(!layer->projected ? layer->d_source / layer->d_in_kv
                                   : layer->shares   ? 0 : layer->h_kv);
    for (size_t i = 0; i < blocks; i++)
        for (size_t c = first; c < end; c++)
            inputs_put(layer, d->in, tensor, value_at(d, j, i) + c,
                       (double)(float)(inputs_number(layer, d->in, tensor, value_at(d, from, i) + c) * factor));
}

/* Whether no factor of a key is one of its values */
static bool values_apart(const struct drawing *d)
{
    return d->layer->projected || d->columns.key + d->columns.channels <= d->columns.value;
}

static void scale_values(const struct drawing *d, size_t j, double factor)
{
    if (values_apart(d))
        change_values(d, j, j, 0, value_width(d), factor);
}

/* If features are columns, the last one overflows first, the first one last; otherwise W_V does that. */
static void spread_values(const struct drawing *d)
{
    const size_t width = value_width(d), small = d->layer->projected ? 0 : 1;
    for (size_t j = 0; j < d->in->m; j++) {
        if (d->layer->projected || width > 2)
            change_values(d, j, j, small, small + 1, 1 / SPREAD);
        if (d->layer->projected || width > 1)
            change_values(d, j, j, width - 1, width, SPREAD);
    }
}

/* All keys have the value of the first: Z is that value, whatever the scores are. */
static void equal_values(const struct drawing *d)
{
    for (size_t j = 1; values_apart(d) && j < d->in->m; j++)
        change_values(d, j, 0, 0, value_width(d), 1);
}

/* T = r_t cos(t' - j), largest for another key with each query; r_t is from `sizes`, or with NULL of any size. If a row
 * has the same factors as a query and as a key, sqrt(r_t r_j) replaces r_t. */
static void draw_ring(struct drawing *d, const double *sizes, size_t count)
{
    const size_t n = d->in->n, m = d->in->m, step = step_of(m);
    for (size_t j = 0; j < m; j++) {
        const double angle = TURN * (double)j / (double)m;
        put_key(d, j, (struct factors){{cos(angle), sin(angle)}});
    }
    for (size_t t = 0; t < n; t++) {
        const size_t index = t + d->b, nearest = d->columns.symmetric ? t : (t * step + 3) % m;
        const double angle = TURN * (double)nearest / (double)m;
        double size = sizes != NULL ? sizes[(index * 2) % count] : any_size(index);
        size = d->columns.symmetric ? root_of(size) : size;
        put_query(d, t, (struct factors){{size * cos(angle), size * sin(angle)}});
    }
}

static void draw_ranges(struct drawing *d)
{
    draw_ring(d, ranges, COUNT(ranges));
}

static void draw_any_size(struct drawing *d)
{
    draw_ring(d, NULL, 0);
    equal_values(d);
}

/* T = u_t k_j; if a row has the same factors as query and as key, it takes u or k in turn. */
static void put_product(const struct drawing *d, size_t row, double u, double k)
{
    const bool symmetric = d->columns.symmetric, key = !symmetric || row % 2 == 1;
    if (row < d->in->m)
        put_key(d, row, (struct factors){{key ? k : u}});
    if (!symmetric && row < d->in->n)
        put_query(d, row, (struct factors){{u}});
}

static size_t rows_of(const struct drawing *d) { return d->in->n > d->in->m ? d->in->n : d->in->m; }

/* A key past the first tile of scores, whose maximum is the reference of the others; or past a third of all keys */
static size_t later(size_t m) { return m / 2 > 17 ? m / 2 : (m + 2) / 3; }

/* Weights as small as 2^-60 with values as large as 2^60; with the other sign both are large. */
static void draw_decay(struct drawing *d)
{
    static const double factors[] = {1, -1.2, 1, -1.28, 1, -1.36, 1, -1.44, 1, -1.52, 0.5, -1.9, 1};
    const size_t from = later(d->in->m);
    for (size_t row = 0; row < rows_of(d); row++) {
        const double tau = floor((row < from ? 9 : 61) * random_uniform(&d->random));
        put_product(d, row, d->columns.symmetric ? 1 : factors[row % COUNT(factors)], -tau);
        if (row < d->in->m && !(d->columns.symmetric && row % 2 == 0))
            scale_values(d, row, ldexp(1, (int)tau));
    }
    spread_values(d);
}

/* Scores jump by 2^63, 2^64, 2^65, 2^119 … from one key to the next, mostly upwards. */
static void draw_steps(struct drawing *d)
{
    static const double factors[] = {1, -1, 1, 0.5, 1, -0.25};
    double at = 0;
    for (size_t row = 0; row < rows_of(d); row++) {
        if (row > 0 && random_uniform(&d->random) < 0.3)
            at += pick(&d->random, jumps, COUNT(jumps));
        at = at > 2000 ? -200 : at < -2000 ? 200 : at;
        put_product(d, row, d->columns.symmetric ? 1 : factors[row % COUNT(factors)],
                    at + 2 * random_uniform(&d->random));
    }
}

/* Whether query t has moderate scores: a tile's first vector of queries does, the next one does not, with 16, 8 and 4
 * lanes */
static bool is_moderate(size_t t) { return t < 32 ? t < 16 : t < 48 ? t < 40 : t / 4 % 2 == 0; }

/* Later weights are 2^121 to 2^130 times the first ones: the exponentials overflow (in kernels possibly from 2^127.5
 * on), or only their sum does. Values are so small that their sums do not. Moderate queries are exempt. */
static void draw_brink(struct drawing *d)
{
    static const double factors[] = {1, 0.95, 1, 1.02, 1};
    const size_t m = d->in->m, from = later(m);
    for (size_t row = 0; row < rows_of(d); row++) {
        const double noise = 0.25 * random_uniform(&d->random);
        const double factor = d->columns.symmetric ? 1 : is_moderate(row) ? 0.5 : factors[row % COUNT(factors)];
        put_product(d, row, factor, (row < from ? 0 : 127.1) + noise);
        if (row < m)
            scale_values(d, row, 0x1p-12);
    }
}

/* Only one query's scores outgrow the first ones, in another lane for each of 16 sequences. */
static void draw_lone(struct drawing *d)
{
    const size_t n = d->in->n, m = d->in->m, from = later(m), lone = n > 16 ? n - 16 + d->b % 16 : d->b % n;
    for (size_t row = 0; row < rows_of(d); row++)
        put_product(d, row, row == lone ? 1 : 0.25, row < from ? 0 : 130);
}

/* All keys have the same score, of any size. */
static void draw_flat(struct drawing *d)
{
    for (size_t row = 0; row < rows_of(d); row++)
        put_product(d, row, d->columns.symmetric ? root_of(any_size(row)) : any_size(row), 1);
    equal_values(d);
}

/* Scores of about 1, so that a mask decides. */
static void draw_quiet(struct drawing *d)
{
    for (size_t row = 0; row < rows_of(d); row++)
        put_product(d, row, random_uniform(&d->random), random_uniform(&d->random));
}

static void draw_quiet_equal(struct drawing *d)
{
    draw_quiet(d);
    equal_values(d);
}

static void (*const kinds[])(struct drawing *) = {
    draw_ranges, draw_any_size, draw_steps, draw_decay, draw_flat, draw_brink, draw_quiet, draw_quiet_equal, draw_lone};

enum { ANY_SIZE = 1, QUIET = 6, QUIET_EQUAL, LONE }; /* of those */

static bool is_additive(const struct layer *layer) { return layer->mask & MASK_ADDITIVE; }

static size_t kind_of(const struct layer *layer, enum extremes extremes, size_t b)
{
    switch (extremes) {
    case EXTREMES_MIXED: return b % extremes_batch(layer, extremes);
    case EXTREMES_LONG: return (is_additive(layer) ? QUIET : ANY_SIZE) + b % 2;
    default: return LONE;
    }
}

size_t extremes_batch(const struct layer *layer, enum extremes extremes)
{
    const size_t batch[] = {[EXTREMES_MIXED] = is_additive(layer) ? LONE : QUIET, [EXTREMES_LONG] = 2,
                            [EXTREMES_LONE] = 16};
    return batch[extremes];
}

/* ---- masks that are added -------------------------------------------------------------------------------------- */

/* A number of a row's mask, by its position; `own` is another position in each row. All heads have the same pattern, as
 * y sums over them: an exact result of one head must not be lost in another's. */
static float mask_number(size_t story, size_t j, size_t own, size_t m, struct random *random)
{
    const double noise = random_uniform(random);
    const double natural = 1 / LOG2_E; /* of one power of 2 */
    switch (story) {
    case 0: return (float)(j == own ? natural * pick(random, jumps, COUNT(jumps)) : noise);
    case 1: return (float)(noise + (j >= own ? 66 * natural : 0) + (j > own + 9 ? 90 * natural : 0));
    case 2: return -FLT_MAX;
    case 3: return -1e30f;
    case 4: return -1e9f;
    case 5: return j == own ? (float)noise : -FLT_MAX;
    case 6: return 1e9f;
    case 7: return 1e30f;
    case 8: return 2e38f;
    case 9: return j % 2 == 0 ? -1e30f : 1e30f;
    case 10: return (float)(j < own ? -INFINITY : j < own + 3 ? noise : noise + 100 * natural);
    case 11: return (float)(noise - 40 * natural * (double)j);
    case 12: return (float)any_size(j);
    case 13: return j == own || j + 1 == m ? (float)noise : -INFINITY;
    case 14: return (float)(40 * natural * (double)j + noise);
    case 15: return j == own ? -FLT_MAX : j == 0 ? -1e9f : (float)noise;
    case 16: return j == own ? -1e9f : -1e30f;
    case 17: return j == own ? -1.1e38f : -2.2e38f;
    case 18: return j == own ? -2.4e38f : j == 0 ? -3.4e38f : -FLT_MAX;
    case 19: return j == own ? FLT_MAX : j == 0 ? 3.4e38f : 2.1e38f;
    case 20: return j == own ? 2.2e38f : j == 0 ? (float)noise : -3e38f;
    default: return j == own ? 1e9f : 1e4f;
    }
}

#define STORIES 22

static void draw_mask(struct inputs *in, const struct layer *layer, enum extremes extremes, uint64_t seed)
{
    float *mask = in->tensor[TENSOR_MASK_ADD];
    struct random random = {seed ^ 0x6D61736B};
    const size_t heads = in->mask_h[TENSOR_MASK_ADD], step = step_of(in->m), columns = inputs_columns(layer, in);
    for (size_t b = 0; b < in->batch; b++) {
        const size_t kind = kind_of(layer, extremes, b);
        for (size_t i = 0; i < heads; i++)
            for (size_t t = 0; t < in->n; t++, mask += columns)
                for (size_t j = 0; j < in->m; j++)
                    mask[j] = kind == QUIET || kind == QUIET_EQUAL
                                  ? mask_number(t % STORIES, j, (t * step + i + b) % in->m, in->m, &random)
                              : random_uniform(&random) < 0.1 ? -INFINITY : (float)random_uniform(&random);
    }
}

/* ---- a call ---------------------------------------------------------------------------------------------------- */

void extremes_draw(struct inputs *in, const struct layer *layer, const struct inputs_draw *draw, enum extremes extremes,
                   const struct inputs *weights)
{
    struct inputs_draw whole = *draw;
    whole.whole_masks = whole.past_given = whole.whole_pages = true; /* the cache is empty, so all keys are new */
    whole.past = 0;
    inputs_draw(in, layer, &whole, weights);
    struct drawing d = {.layer = layer, .in = in, .columns = columns_of(layer), .largest = largest_factor(layer)};
    int32_t *lengths = in->tensor[TENSOR_LENGTHS];
    for (d.b = 0; d.b < in->batch && !layer_is_latent(layer); d.b++) {
        d.random.state = draw->seed * 64 + d.b;
        kinds[kind_of(layer, extremes, d.b)](&d);
        if (lengths != NULL && d.b % 3 != 2) /* most of them whole */
            lengths[d.b] = (int32_t)in->m;
    }
    if (is_additive(layer))
        draw_mask(in, layer, extremes, draw->seed);
}
