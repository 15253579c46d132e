/* SPDX-License-Identifier: MIT */
/* The reference's gradients against central differences of the layer in quadruple precision.
 *
 * The layer is written down once more, element by element, as docs/spec.md has it: nothing is shared with the reference
 * but the tensors. With a step of 2^-40 the difference is off by about 2^-80 of the third derivative, and by 2^-73 of
 * the loss for rounding: far below what doubles show.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/reference/dropout.h"
#include "../../runtime/reference/gradient.h"
#include "spec/keys.h"
#include "layer_of.h"

#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 quad;
#define STEP ((quad)0x1p-40)
#define NEAR 1e-12
#else
typedef long double quad; /* quadruple on most machines that have no other; where it is not, half as many digits */
#define STEP ((quad)0x1p-20)
#define NEAR 1e-9
#endif

/* e^x: halved until it is small, its series, squared as often */
static quad exponential(quad x)
{
    int halvings = 0;
    for (; x > 0.0625 || x < -0.0625; halvings++)
        x *= (quad)0.5;
    quad term = 1, sum = 1;
    for (int k = 1; k < 30; k++) {
        term *= x / k;
        sum += term;
    }
    while (halvings-- > 0)
        sum *= sum;
    return sum;
}

/* A call whose numbers are quad. */
struct call {
    const struct layer *layer;
    const struct inputs *in;
    quad *tensor[TENSOR_COUNT]; /* those that have gradients, and mask_add */
    const float *dy;
    bool keys; /* whose gains are taken */
};

/* Row r, column c of a head's matrix of `rows` rows: of [in][heads d], or under split [heads][in][d]. */
static quad weight(const struct call *call, enum layer_tensor tensor, size_t rows, size_t d, size_t heads, size_t i,
                   size_t r, size_t c)
{
    const bool split = call->layer->split, swapped = call->layer->out_in;
    const quad *w = call->tensor[tensor] + (split ? i * rows * d : 0);
    const size_t columns = split ? d : heads * d, column = split ? c : i * d + c;
    return swapped ? w[column * rows + r] : w[r * columns + column];
}

static quad bias(const struct call *call, enum layer_tensor tensor, size_t at)
{
    return call->tensor[tensor] != NULL ? call->tensor[tensor][at] : 0;
}

/* One number of a projection. */
static quad product(const struct call *call, enum layer_tensor from, enum layer_tensor w, enum layer_tensor b,
                      size_t heads, size_t d, size_t token, size_t i, size_t c)
{
    const struct layer *l = call->layer;
    const bool x = from == TENSOR_X;
    const size_t width = (size_t)(x ? l->d_model : l->d_source), in = width / (l->split ? (size_t)l->h : 1);
    const quad *row = call->tensor[from] + token * width + (l->split ? i * in : 0);
    quad sum = bias(call, b, i * d + c);
    for (size_t k = 0; k < in; k++)
        sum += row[k] * weight(call, w, in, d, heads, i, k, c);
    return sum;
}

static quad root_of(quad x)
{
    quad root = (quad)sqrtl((long double)x);
    for (int k = 0; root > 0 && k < 3; k++)
        root = (root + x / root) / 2;
    return root;
}

/* The same behind the norm, of a head or of all heads together. */
static quad normed(const struct call *call, enum layer_tensor from, enum layer_tensor w, enum layer_tensor b,
                   size_t heads, size_t d, size_t token, size_t i, size_t c)
{
    const struct layer *l = call->layer;
    const quad x = product(call, from, w, b, heads, d, token, i, c);
    if (l->qk_norm == NORM_NONE || w == TENSOR_W_V)
        return x;
    const bool all = l->qk_norm == NORM_RMS_ALL, keys = call->keys, layer = l->qk_norm == NORM_LAYER;
    const quad *gain = call->tensor[keys ? TENSOR_G_K : TENSOR_G_Q], *shift = call->tensor[keys ? TENSOR_C_K : TENSOR_C_Q];
    const size_t first = all ? 0 : i, end = all ? heads : i + 1;
    const quad count = (quad)((end - first) * d), eps = (quad)l->qk_norm_eps;
    quad mean = 0, squares = 0;
    for (size_t at = first * d; layer && at < end * d; at++)
        mean += product(call, from, w, b, heads, d, token, at / d, at % d) / count;
    for (size_t at = first * d; at < end * d; at++) {
        const quad of = product(call, from, w, b, heads, d, token, at / d, at % d) - mean;
        squares += of * of;
    }
    const quad length = root_of(squares);
    if (l->qk_norm == NORM_L2)
        return x / (length < eps ? eps : length);
    const quad by = (x - mean) / root_of(squares / count + eps);
    return by * gain[all ? i * d + c : c] + (shift != NULL ? shift[c] : 0);
}

/* One number of a query, key or value: of a query and a key normed, and turned by its token's position. */
static quad projected(struct call *call, enum layer_tensor from, enum layer_tensor w, enum layer_tensor b,
                      size_t heads, size_t d, size_t token, size_t i, size_t c)
{
    const struct layer *l = call->layer;
    const size_t dims = (size_t)l->rope.dims, half = dims / 2;
    const bool halves = l->rope.kind == ROPE_HALF;
    if (w == TENSOR_W_V || l->rope.kind == ROPE_NONE || c >= dims)
        return normed(call, from, w, b, heads, d, token, i, c);
    const bool second = halves ? c >= half : c % 2 == 1;
    const size_t pair = halves ? c % half : c / 2, other = halves ? (second ? c - half : c + half) : c ^ 1;
    const int32_t *positions = call->in->tensor[TENSOR_POSITIONS];
    const long double position = positions != NULL ? positions[token] : (long double)(token % call->in->n);
    const long double factor = l->rope.factors != NULL ? (long double)l->rope.factors[pair] : 1;
    const long double angle = position / factor *
                              powl((long double)l->rope.theta, -2 * (long double)pair / (long double)dims);
    const quad longer = (quad)l->rope.attention_factor, sine = longer * (quad)sinl(angle) * (second ? 1 : -1);
    return longer * (quad)cosl(angle) * normed(call, from, w, b, heads, d, token, i, c) +
           sine * normed(call, from, w, b, heads, d, token, i, other);
}

static int64_t position_of(const struct call *call, size_t b, size_t t)
{
    const int32_t *lengths = call->in->tensor[TENSOR_LENGTHS], *past = call->in->tensor[TENSOR_PAST];
    const int64_t keys = lengths != NULL ? lengths[b] : (int64_t)call->in->m;
    const enum layer_offset offset = call->layer->offset;
    return (int64_t)t + (offset == OFFSET_PAST ? past[b] : offset == OFFSET_END ? keys - (int64_t)call->in->n : 0);
}

/* What `visible` is in every spec below that has one */
#define VISIBLE "(p + 2 * j) % 3 != 0 or i == 1 and j < p"
static bool visible(int64_t i, int64_t p, int64_t j)
{
    return ((p + 2 * j) % 3 + 3) % 3 != 0 || (i == 1 && j < p);
}

static bool sees(const struct call *call, size_t b, size_t i, size_t t, size_t j)
{
    const struct layer *l = call->layer;
    const unsigned mask = l->mask;
    const unsigned char *flags = call->in->tensor[TENSOR_MASK_BOOL];
    const int32_t *lengths = call->in->tensor[TENSOR_LENGTHS];
    const int32_t *prefix = call->in->tensor[TENSOR_PREFIX];
    const int32_t *of_q = call->in->tensor[l->self ? TENSOR_SEGMENT : TENSOR_SEGMENT_Q];
    const int32_t *of_k = call->in->tensor[l->self ? TENSOR_SEGMENT : TENSOR_SEGMENT_K];
    const int64_t p = position_of(call, b, t), away = (int64_t)j - p;
    const bool lifted = prefix != NULL && (int64_t)j < prefix[b];
    bool seen = !((mask & MASK_CAUSAL) && away > 0 && !lifted) && !((mask & MASK_NO_SELF) && away == 0);
    seen = seen && (of_q == NULL || of_q[b * call->in->n + t] == of_k[b * call->in->m + j]);
    seen = seen && (l->visible == NULL || visible((int64_t)i, p, (int64_t)j));
    if (mask & MASK_PADDING)
        seen = seen && (int32_t)j < lengths[b];
    if ((mask & MASK_WINDOW) && l->window_left != LAYER_UNBOUNDED)
        seen = seen && away >= -l->window_left;
    if ((mask & MASK_WINDOW) && l->window_right != LAYER_UNBOUNDED)
        seen = seen && away <= l->window_right;
    const enum layer_tensor pairs[] = {TENSOR_MASK_BOOL, TENSOR_MASK_ADD};
    for (int k = 0; k < 2; k++) {
        const size_t of_batch = call->in->mask_batch[pairs[k]] > 1 ? b : 0, of_h = call->in->mask_h[pairs[k]] > 1 ? i : 0;
        const size_t at = ((of_batch * call->in->mask_h[pairs[k]] + of_h) * call->in->n + t) * call->in->m + j;
        if (k == 0 && flags != NULL)
            seen = seen && flags[at] != 0;
        if (k == 1 && call->in->tensor[TENSOR_MASK_ADD] != NULL)
            seen = seen && inputs_floats(call->in, TENSOR_MASK_ADD)[at] > -INFINITY;
    }
    return seen;
}

/* What rel_bias has for a distance: of T5 by the definition's logarithm, of no distance in these tests at an edge */
static quad biased(const struct call *call, size_t i, int64_t d)
{
    const struct layer *l = call->layer;
    const quad *bias = call->tensor[TENSOR_REL_BIAS];
    if (l->relative == RELATIVE_NONE)
        return 0;
    if (l->relative == RELATIVE_TABLE) {
        const int64_t at = d < -l->rel_left ? -l->rel_left : d > l->rel_right ? l->rel_right : d;
        return bias[(int64_t)i * l->rel_width + at + l->rel_left];
    }
    const bool both = !(l->mask & MASK_CAUSAL);
    const int64_t side = both ? l->rel_buckets / 2 : l->rel_buckets, first = both && d > 0 ? side : 0;
    const int64_t away = both && d > 0 ? d : d < 0 ? -d : 0;
    const double wide = away > 0 ? log((double)away / (double)(side / 2)) : 0;
    int64_t bucket = away;
    if (away >= side / 2)
        bucket = side / 2 + (int64_t)(wide / log((double)l->rel_distance / (double)(side / 2)) * (double)(side / 2));
    return bias[(first + (bucket < side - 1 ? bucket : side - 1)) * l->h + (int64_t)i];
}

/* c tanh(s / c) */
static quad capped(const struct call *call, quad score)
{
    const double cap = call->layer->number[SCORE_SOFTCAP];
    const quad e = cap > 0 ? exponential(2 * score / (quad)cap) : 0;
    return cap > 0 ? (quad)cap * (e - 1) / (e + 1) : score;
}

static quad added(const struct call *call, size_t b, size_t i, size_t t, size_t j)
{
    const size_t h = call->in->mask_h[TENSOR_MASK_ADD];
    const size_t at = (((call->in->mask_batch[TENSOR_MASK_ADD] > 1 ? b : 0) * h + (h > 1 ? i : 0)) * call->in->n + t) *
                      call->in->m + j;
    const quad given = call->in->tensor[TENSOR_MASK_ADD] != NULL ? inputs_floats(call->in, TENSOR_MASK_ADD)[at] : 0;
    const quad ahead = (quad)((int64_t)j - position_of(call, b, t)), away = ahead > 0 ? ahead : -ahead;
    /* alibi of a power of two heads */
    const double slope = call->layer->number[SCORE_ALIBI] != 0 ? exp2(-8 * (double)(i + 1) / (double)call->layer->h) : 0;
    return given - slope * away + biased(call, i, (int64_t)j - position_of(call, b, t));
}

/* Dropout of one weight, as docs/gradients.md has it; Philox itself has known answers below. */
static quad kept(const struct call *call, size_t b, size_t i, size_t t, size_t j)
{
    const uint64_t seed = call->in->seed;
    const double p = call->layer->dropout;
    uint32_t words[4];
    philox((uint32_t[]){(uint32_t)(seed % UINT64_C(0x100000000)), (uint32_t)(seed / UINT64_C(0x100000000))},
           (uint32_t[]){(uint32_t)b, (uint32_t)i, (uint32_t)t, (uint32_t)j / 4}, words);
    return (double)words[j % 4] < floor(p * 4294967296.0) ? 0 : 1 / (1 - (quad)p);
}

/* z [n][d_v] of head i */
static void attend(struct call *call, size_t b, size_t i, quad *z)
{
    const struct layer *l = call->layer;
    const size_t n = call->in->n, m = call->in->m, d_k = (size_t)l->d_k, d_v = (size_t)l->d_v;
    const size_t h = (size_t)l->h, h_kv = (size_t)l->h_kv, g = i * h_kv / h;
    const enum layer_tensor source = l->cross ? TENSOR_SOURCE : TENSOR_X;
    quad *k = calloc(m * d_k + 1, sizeof *k), *v = calloc(m * d_v + 1, sizeof *v), *a = calloc(m + 1, sizeof *a);
    call->keys = true;
    for (size_t j = 0; j < m; j++) {
        for (size_t c = 0; c < d_k; c++)
            k[j * d_k + c] = projected(call, source, l->tied ? TENSOR_W_Q : TENSOR_W_K, l->tied ? TENSOR_B_Q : TENSOR_B_K,
                                       h_kv, d_k, b * m + j, g, c);
        for (size_t c = 0; c < d_v; c++)
            v[j * d_v + c] = l->identity
                ? call->tensor[source][(b * m + j) * (size_t)l->d_source + (l->split ? i * d_v : 0) + c]
                : projected(call, source, TENSOR_W_V, TENSOR_B_V, h_kv, d_v, b * m + j, g, c);
    }
    call->keys = false;
    for (size_t t = 0; t < n; t++) {
        quad q[64], sum = 0, most = 0;
        assert_true(d_k <= 64);
        for (size_t c = 0; c < d_k; c++)
            q[c] = projected(call, TENSOR_X, TENSOR_W_Q, TENSOR_B_Q, h, d_k, b * n + t, i, c);
        bool any = false;
        for (size_t j = 0; j < m; j++) {
            quad score = 0;
            for (size_t c = 0; c < d_k; c++)
                score += q[c] * k[j * d_k + c];
            a[j] = capped(call, score * (quad)l->scale) + added(call, b, i, t, j);
            if (sees(call, b, i, t, j) && (!any || a[j] > most))
                most = a[j];
            any = any || sees(call, b, i, t, j);
        }
        if (l->sink)
            sum = exponential(call->tensor[TENSOR_SINK][i] - most);
        for (size_t j = 0; j < m; j++) {
            a[j] = sees(call, b, i, t, j) ? exponential(a[j] - most) : 0;
            sum += a[j];
        }
        for (size_t c = 0; c < d_v; c++) {
            z[t * d_v + c] = 0;
            for (size_t j = 0; any && j < m; j++)
                z[t * d_v + c] += a[j] / sum * kept(call, b, i, t, j) * v[j * d_v + c];
        }
    }
    free(k);
    free(v);
    free(a);
}

/* What column `column` of y[t] gets of head i. */
static quad merged(const struct call *call, size_t b, size_t i, size_t t, size_t column, const quad *z)
{
    const struct layer *l = call->layer;
    const size_t d_v = (size_t)l->d_v, d_model = (size_t)l->d_model, h = (size_t)l->h, rows = h * d_v;
    quad sum = 0;
    if (l->w_o == W_O_NONE)
        return column / d_v == i ? z[t * d_v + column % d_v] : 0;
    const quad *w = call->tensor[TENSOR_W_O];
    for (size_t c = 0; l->w_o == W_O_DENSE && c < d_v; c++) {
        const size_t r = i * d_v + c;
        sum += z[t * d_v + c] * (l->out_in ? w[column * rows + r] : w[r * d_model + column]);
    }
    const size_t width = d_model / h, taps = (size_t)l->conv_width, own = column % width;
    if (l->w_o == W_O_DENSE || column / width != i)
        return sum;
    const int64_t pad = (l->mask & MASK_CAUSAL) ? (int64_t)taps - 1 : ((int64_t)taps - 1) / 2;
    const int32_t *lengths = call->in->tensor[TENSOR_LENGTHS];
    for (size_t r = 0; r < taps; r++) {
        const int64_t u = (int64_t)t + (int64_t)r - pad;
        if (u < 0 || u >= (int64_t)call->in->n || ((l->mask & MASK_PADDING) && u >= lengths[b]))
            continue;
        for (size_t c = 0; c < d_v; c++) {
            const quad *tap = w + (i * taps + r) * d_v * width;
            sum += z[(size_t)u * d_v + c] * (l->out_in ? tap[own * d_v + c] : tap[c * width + own]);
        }
    }
    return sum;
}

static quad loss(struct call *call)
{
    const struct layer *l = call->layer;
    const size_t n = call->in->n, d_out = (size_t)l->d_out;
    quad sum = 0, *z = calloc(n * (size_t)l->d_v + 1, sizeof *z);
    for (size_t b = 0; b < call->in->batch; b++)
        for (size_t i = 0; i < (size_t)l->h; i++) {
            attend(call, b, i, z);
            const size_t rows = l->pad_skipped ? inputs_keys(call->in, b) : n; /* the others of y are zero */
            for (size_t t = 0; t < rows; t++)
                for (size_t c = 0; c < d_out; c++) {
                    const quad y = merged(call, b, i, t, c, z) + (i == 0 ? bias(call, TENSOR_B_O, c) : 0);
                    sum += y * (quad)call->dy[(b * n + t) * d_out + c];
                }
        }
    free(z);
    return sum;
}

/* Every number of every tensor. */
static void compare(const char *spec, size_t batch, size_t n, size_t m)
{
    struct layer *layer = layer_of(spec);
    struct diag diag = {0};
    struct inputs in;
    const struct inputs_draw draw = {.seed = 7, .batch = batch, .n = n, .m = m};
    struct gradients gradients;
    inputs_draw(&in, layer, &draw, NULL);
    const size_t count = batch * n * (size_t)layer->d_out;
    float *dy = malloc(count * sizeof *dy + 1);
    struct random random = {42};
    for (size_t i = 0; i < count; i++)
        dy[i] = (float)random_normal(&random);
    float *added_to = in.tensor[TENSOR_MASK_ADD]; /* -1e9 and a score have no difference in doubles */
    for (size_t i = 0; added_to != NULL && i < inputs_count(layer, &in, TENSOR_MASK_ADD); i++)
        if (added_to[i] > -INFINITY && added_to[i] < -8)
            added_to[i] = -8;
    struct call call = {.layer = layer, .in = &in, .dy = dy};
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const size_t numbers = layer_has_gradient(layer, t) ? inputs_count(layer, &in, t) : 0;
        call.tensor[t] = layer_has_gradient(layer, t) ? calloc(numbers + 1, sizeof(quad)) : NULL;
        for (size_t i = 0; i < numbers; i++)
            call.tensor[t][i] = (quad)inputs_floats(&in, t)[i];
    }
    assert_true(gradients_compute(&gradients, layer, &in, dy, &diag));
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        assert_int_equal(gradients.of[t] != NULL, layer_has_gradient(layer, t) || t == TENSOR_Y);
        for (size_t i = 0; call.tensor[t] != NULL && i < inputs_count(layer, &in, t); i++) {
            const quad was = call.tensor[t][i];
            call.tensor[t][i] = was + STEP;
            const quad above = loss(&call);
            call.tensor[t][i] = was - STEP;
            const double expected = (double)((above - loss(&call)) / (2 * STEP)), actual = gradients.of[t][i];
            call.tensor[t][i] = was;
            if (!(fabs(actual - expected) <= NEAR * (1 + fabs(expected))))
                fail_msg("d%s[%zu] is %.17g; central differences have %.17g\n%s", layer_tensor_name(t), i, actual,
                         expected, spec);
            if (!(gradients.gate[t][i] > 0 && gradients.gate[t][i] < 0.01))
                fail_msg("d%s[%zu] has the gate %g\n%s", layer_tensor_name(t), i, gradients.gate[t][i], spec);
        }
    }
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        free(call.tensor[t]);
    pool_free(&gradients.memory);
    inputs_free(&in);
    layer_free(layer);
    free(dy);
}

/* A row's weights are all divided by one sum of m terms, which walks off by sqrt(m) u: db_v of the second gate has
 * that once for each query, not once for each pair. */
static void test_sum_of_row(void **state)
{
    const size_t n = 12, m = 140;
    struct layer *layer = layer_of("train = true\nd_model = 6\nh = 2\nw_o = none\nbias = true\nattention = cross\n"
                                   "seq_len = 12\nsource_len = 140\n");
    struct diag diag = {0};
    struct inputs in;
    struct gradients gradients;
    float dy[12 * 6];
    struct random random = {42};
    inputs_draw(&in, layer, &(struct inputs_draw){.seed = 7, .batch = 1, .n = n, .m = m}, NULL);
    for (size_t i = 0; i < n * 6; i++)
        dy[i] = (float)random_normal(&random);
    assert_true(gradients_compute(&gradients, layer, &in, dy, &diag));
    for (size_t c = 0; c < 6; c++) {
        double squares = 0;
        for (size_t t = 0; t < n; t++)
            squares += (double)dy[t * 6 + c] * (double)dy[t * 6 + c];
        assert_true(gradients.gate[TENSOR_B_V][c] >= 2.5 * sqrt((double)m * squares) * 0x1p-24);
    }
    pool_free(&gradients.memory);
    inputs_free(&in);
    layer_free(layer);
}

/* The known answers that Random123 comes with. */
static void test_philox(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t words[4];
        philox(known[i].key, known[i].counter, words);
        assert_memory_equal(words, known[i].words, sizeof words);
    }
}

/* So many weights are dropped, of all sequences, heads and queries, and none where nothing is asked for. */
static void test_dropped(void **state)
{
    static const double shares[] = {0, 1e-10, 0.1, 0.5, 0.9, 0.999};
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        const struct layer layer = {.dropout = shares[k]};
        const struct inputs in = {.seed = UINT64_C(0x0123456789abcdef)};
        const size_t count = 4 * 5 * 40 * 50;
        size_t dropped = 0;
        for (size_t at = 0; at < count; at++)
            dropped += dropout_factor(&layer, &in, at / 10000, at / 2000 % 5, at / 50 % 40, at % 50) == 0;
        const double expected = shares[k] * (double)count, deviation = sqrt(expected * (1 - shares[k]));
        assert_true(fabs((double)dropped - expected) <= 4 * deviation);
    }
}

static void test_alibi(void **state)
{
    compare("train = true\nd_model = 8\nh = 2\nseq_len = 6\nalibi = true\nbias = true\n", 2, 6, 6);
    compare("train = true\nd_model = 8\nh = 4\nseq_len = 5\nalibi = true\nmask = causal+additive\ndropout = 0.2\n", 2, 5, 5);
    compare("train = true\nd_model = 4\nh = 1\nseq_len = 4\nalibi = true\nattention = cross\nsource_len = 7\n", 1, 4, 7);
}

static void test_rope(void **state)
{
    compare("train = true\nd_model = 8\nh = 2\nseq_len = 6\nrope = half\nbias = true\n", 2, 6, 6);
    compare("train = true\nd_model = 12\nh = 2\nseq_len = 5\nrope = interleaved\nrope_dims = 4\nrope_theta = 100\n"
            "mask = causal\ndropout = 0.2\n", 1, 5, 5);
    compare("train = true\nd_model = 8\nh = 2\nseq_len = 4\nrope = half\nw_k = tied\nbias = true\n", 1, 4, 4);
    compare("train = true\nd_model = 8\nh = 2\nh_kv = 1\nseq_len = 4\nrope = interleaved\nmask = padding\n", 2, 4, 4);
    compare("train = true\nd_model = 8\nh = 2\nseq_len = 4\nrope = half\ninput = split\n", 1, 4, 4);
    compare("train = true\nd_model = 8\nh = 2\nseq_len = 5\nrope = half\nrope_positions = given\n", 2, 5, 5);
    compare("train = true\nd_model = 8\nh = 2\nseq_len = 5\nrope = half\nrope_factors = 1.5, 4\nrope_original_len = 2\n"
            "rope_attention_factor = 1.25\n", 1, 5, 5);
}

static void test_norms(void **state)
{
    static const char *const kinds[] = {"qk_norm = rms\n", "qk_norm = layer\nbias = true\nrope = half\n",
                                        "qk_norm = l2\nscale = 3\nrope = interleaved\nmask = causal\n",
                                        "qk_norm = l2\nnorm_eps = 2\n", "qk_norm = rms_all\n",
                                        "qk_norm = rms\nqk_norm_eps = 0.5\n",
                                        "qk_norm = rms_all\nh_kv = 1\nbias = true\nrope = half\n",
                                        "qk_norm = rms\nw_k = tied\n", "qk_norm = l2\nw_k = tied\nbias = true\n",
                                        "qk_norm = rms_all\nw_k = tied\nw_v = identity\nnorm_eps = 0.3\n",
                                        "qk_norm = rms_all\ninput = split\nmask = no_self+padding\n",
                                        "qk_norm = layer\nattention = cross\nsource_len = 6\nd_source = 4\n",
                                        "qk_norm = rms_all\nattention = cross\nh_kv = 1\nsoftcap = 2\n",
                                        "qk_norm = rms\nmask = padding\npad_rows = skipped\nh_kv = 1\n"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char spec[250];
        snprintf(spec, sizeof spec, "train = true\nd_model = 4\nh = 2\nd_k = 4\nseq_len = 4\n%s", kinds[i]);
        compare(spec, 2, 4, 4);
    }
}

static void test_padding_skipped(void **state)
{
    static const char *const kinds[] = {"bias = true\nmask = padding\n", "mask = padding+causal+segments\nrope = half\n",
                                        "mask = padding\nw_o = conv\nbias = true\n", "mask = padding\nw_o = none\n"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char spec[200];
        snprintf(spec, sizeof spec, "train = true\nd_model = 4\nh = 2\nseq_len = 6\npad_rows = skipped\n%s", kinds[i]);
        compare(spec, 3, 5, 5);
    }
}

static void test_terms(void **state)
{
    static const char *const kinds[] = {"softcap = 0.7\n", "softcap = 2\nmask = causal\ndropout = 0.2\nscale = 3\n",
                                        "sink = true\n", "sink = true\nmask = bool\nlse = true\ndropout = 0.3\n",
                                        "relative = t5\nrel_buckets = 8\nrel_distance = 7\n",
                                        "relative = t5\nrel_buckets = 4\nrel_distance = 3\nmask = causal\nsink = true\n",
                                        "relative = table\nrel_left = 2\nrel_right = 3\nsoftcap = 1.5\n",
                                        "relative = table\nrel_right = 1\nh_kv = 1\nmask = padding+no_self\n",
                                        "relative = t5\nsoftcap = 3\nsink = true\nattention = cross\noffset = past\n"
                                        "mask = causal+window\nwindow_left = 3\n"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char spec[250];
        snprintf(spec, sizeof spec, "train = true\nd_model = 4\nh = 2\nseq_len = 6\n%s", kinds[i]);
        compare(spec, 2, 6, 6);
    }
}

static void test_offset(void **state)
{
    static const char *const kinds[] = {"offset = past\nmask = causal+no_self\n", "offset = end\nmask = causal+padding\n",
                                        "offset = end\nalibi = true\nmask = window\nwindow_left = 2\n",
                                        "offset = past\nmask = causal+prefix\n",
                                        "offset = past\nvisible = " VISIBLE "\n"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char spec[200];
        snprintf(spec, sizeof spec, "train = true\nd_model = 4\nh = 2\nattention = cross\nseq_len = 6\nsource_len = 7\n"
                 "%s", kinds[i]);
        compare(spec, 2, 5, 7);
    }
}

static void test_dropout(void **state)
{
    compare("train = true\nd_model = 6\nh = 2\nseq_len = 9\ndropout = 0.3\nbias = true\n", 2, 9, 9);
    compare("train = true\nd_model = 6\nh = 2\nseq_len = 4\ndropout = 0.75\nw_o = conv\n", 1, 4, 4);
    compare("train = true\nd_model = 4\nh = 2\nh_kv = 1\nseq_len = 4\ndropout = 0.5\nmask = causal+padding\n"
            "attention = cross\nsource_len = 7\n", 3, 4, 7);
    compare("train = true\nd_model = 4\nh = 2\nw_k = tied\nw_v = identity\nw_o = none\nmask = no_self\nseq_len = 5\n"
            "dropout = 0.25\n", 2, 5, 5);
}

static void test_self(void **state)
{
    compare("train = true\nd_model = 6\nh = 2\nseq_len = 5\n", 2, 5, 5);
    compare("train = true\nd_model = 6\nh = 2\nseq_len = 4\nbias = true\nweight_layout = out_in\n", 2, 4, 4);
    compare("train = true\nd_model = 4\nh = 2\nwidth = wide\nseq_len = 4\nbias = true\nscale = 0.3\n", 1, 4, 4);
    compare("train = true\nd_model = 6\nh = 3\ninput = split\nseq_len = 4\nbias = true\n", 1, 4, 4);
    compare("train = true\nd_model = 6\nh = 3\ninput = split\nseq_len = 4\nweight_layout = out_in\n", 1, 4, 4);
    compare("train = true\nd_model = 6\nh = 2\nd_k = 3\nd_v = 2\nseq_len = 4\nscale = 0\n", 1, 4, 4);
    compare("train = true\nd_model = 8\nh = 4\nh_kv = 2\nseq_len = 4\nbias = true\n", 1, 4, 4);
}

static void test_kinds(void **state)
{
    compare("train = true\nd_model = 4\nh = 2\nw_k = tied\nseq_len = 4\nbias = true\n", 2, 4, 4);
    compare("train = true\nd_model = 4\nh = 2\nw_k = tied\ninput = split\nseq_len = 4\n", 1, 4, 4);
    compare("train = true\nd_model = 4\nh = 2\nw_v = identity\nseq_len = 4\nbias = true\n", 1, 4, 4);
    compare("train = true\nd_model = 4\nh = 2\nw_v = identity\ninput = split\nseq_len = 4\n", 1, 4, 4);
    compare("train = true\nd_model = 4\nh = 2\nw_k = tied\nw_v = identity\nw_o = none\nmask = no_self\nseq_len = 4\n",
            1, 4, 4);
    compare("train = true\nd_model = 4\nh = 2\nw_o = none\nseq_len = 4\nbias = true\n", 1, 4, 4);
}

static void test_cross(void **state)
{
    compare("train = true\nd_model = 4\nh = 2\nattention = cross\nd_source = 3\nseq_len = 4\nsource_len = 5\n"
            "bias = true\n", 2, 3, 5);
    compare("train = true\nd_model = 4\nh = 2\nattention = cross\nw_k = tied\nseq_len = 4\nmask = causal+padding\n",
            2, 4, 3);
    compare("train = true\nd_model = 4\nh = 2\nattention = cross\nh_kv = 1\nd_source = 6\nseq_len = 4\n"
            "mask = bool+additive\nweight_layout = out_in\n", 2, 4, 4);
    compare("train = true\nd_model = 4\nh = 2\nattention = cross\ninput = split\nd_source = 6\nseq_len = 4\n", 1, 2, 3);
}

static void test_masks(void **state)
{
    static const char *const masks[] = {"causal", "padding", "no_self", "causal+no_self", "bool", "additive",
                                        "window\nwindow_left = 1", "causal+window\nwindow_left = 2\nwindow_right = 0",
                                        "causal+padding+no_self+bool+additive", "causal+prefix", "segments",
                                        "segments+causal+padding\ndropout = 0.2",
                                        "causal+prefix+window+no_self\nwindow_left = 1", "none\nvisible = " VISIBLE,
                                        "causal+bool\nvisible = " VISIBLE};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        char spec[200];
        snprintf(spec, sizeof spec, "train = true\nd_model = 4\nh = 2\nseq_len = 6\nbias = true\nmask = %s\n", masks[i]);
        compare(spec, 2, 5, 5);
    }
}

static void test_convolution(void **state)
{
    static const char *const kinds[] = {"", "bias = true\n", "mask = causal\nconv_width = 2\n", "conv_width = 4\n",
                                        "mask = padding\nbias = true\n", "weight_layout = out_in\nmask = padding+causal\n",
                                        "conv_width = 9\n", "attention = cross\nmask = padding\n"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char spec[200];
        snprintf(spec, sizeof spec, "train = true\nd_model = 4\nh = 2\nw_o = conv\nseq_len = 5\n%s", kinds[i]);
        compare(spec, 2, 5, 5);
    }
}

/* A key that may be given with train = true is one whose derivative was thought of; any other says what to write. */
static void test_every_key(void **state)
{
    static const char *const known =
        " name layer d_model h h_kv width d_k d_v attention d_source seq_len source_len offset mask window_left "
        "window_right pad_rows w_k w_v w_o conv_width bias qk_norm norm_eps qk_norm_eps rope rope_dims rope_theta "
        "rope_positions rope_scaling rope_factor rope_original_len rope_low rope_high rope_beta_fast rope_beta_slow "
        "rope_truncate rope_attention_factor rope_factors rope_long_factors rope_len scale softcap alibi relative "
        "rel_buckets rel_distance rel_left rel_right visible sink scores lse train dropout weight_layout exact "
        /* these only with keys that are refused */
        "q_rank heads cache_type cache_len page_len rope_section_order rel_biases rel_rows norm norm_bias input_norm "
        "norm_shared ffn d_ff ffn_bias ffn_limit ffn_alpha ";
    for (enum key key = 0; key < KEY_COUNT; key++) {
        char name[64];
        snprintf(name, sizeof name, " %s ", key_rows[key].name);
        if (key_rows[key].untrained == NULL && (key_rows[key].of == 0 || key_rows[key].of & OF_ATTENTION) &&
            strstr(known, name) == NULL)
            fail_msg("%s: has it a gradient? If it has none, its row says .untrained", key_rows[key].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_philox), cmocka_unit_test(test_dropped), cmocka_unit_test(test_sum_of_row),
        cmocka_unit_test(test_dropout), cmocka_unit_test(test_rope), cmocka_unit_test(test_alibi),
        cmocka_unit_test(test_offset), cmocka_unit_test(test_terms), cmocka_unit_test(test_norms),
        cmocka_unit_test(test_padding_skipped), cmocka_unit_test(test_self), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_cross), cmocka_unit_test(test_masks), cmocka_unit_test(test_convolution)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
