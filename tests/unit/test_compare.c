/* SPDX-License-Identifier: MIT */
/* The comparison and the bounds: right answers pass, NaN fails, and what a broken kernel would write is caught.
 *
 * A naive f32 layer stands in for the kernel; each mutant is that layer with one thing wrong. Left out on purpose:
 * mutants of the real templates.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runtime/reference/compare.h"
#include "../../runtime/reference/likely.h"
#include "layer_of.h"

#define D 24
#define H 3
#define DK (D / H)
#define N 40

struct subject {
    struct layer *layer;
    struct inputs in;
    struct reference reference;
    struct bounds bounds;
    float *y, *attn, *lse;
};

static const char plain[] = "d_model = 24\nh = 3\nseq_len = 40\nscores = true\nbias = true\nmask = causal\n";

static void make_of(struct subject *s, const char *spec, uint64_t seed, size_t batch, size_t n)
{
    *s = (struct subject){.layer = layer_of(spec)};
    const struct inputs_draw draw = {.seed = seed, .batch = batch, .n = n, .m = n, .full_lengths = true};
    inputs_draw(&s->in, s->layer, &draw, NULL);
    s->lse = calloc(inputs_count(s->layer, &s->in, TENSOR_LSE) + 1, sizeof(float));
    s->y = calloc(inputs_count(s->layer, &s->in, TENSOR_Y) + 1, sizeof(float));
    s->attn = calloc(inputs_count(s->layer, &s->in, TENSOR_ATTN) + 1, sizeof(float));
}

static void make(struct subject *s, const char *spec, uint64_t seed) { make_of(s, spec, seed, 2, N); }

static void bound(struct subject *s)
{
    bounds_compute(&s->reference, &s->bounds, s->layer, &s->in, (struct folds){0}, true);
}

static void unmake(struct subject *s)
{
    reference_free(&s->reference);
    inputs_free(&s->in);
    layer_free(s->layer);
    free(s->y);
    free(s->attn);
    free(s->lse);
}

static struct comparison compare(const struct subject *s)
{
    struct comparison c = {0};
    compare_y(&c, s->layer, &s->in, &s->reference, &s->bounds, s->y);
    if (s->layer->scores)
        compare_attn(&c, s->layer, &s->in, &s->reference, &s->bounds, s->attn);
    if (s->layer->lse)
        compare_lse(&c, s->layer, &s->in, &s->reference, &s->bounds, s->lse);
    return c;
}

/* The reference itself, rounded. */
static void answer(struct subject *s)
{
    for (size_t at = 0; at < inputs_count(s->layer, &s->in, TENSOR_Y); at++)
        s->y[at] = (float)s->reference.y[at];
    for (size_t at = 0; at < inputs_count(s->layer, &s->in, TENSOR_ATTN); at++)
        s->attn[at] = (float)s->reference.attn[at];
    for (size_t at = 0; at < inputs_count(s->layer, &s->in, TENSOR_LSE); at++)
        s->lse[at] = (float)s->reference.lse[at];
}

/* ---- the naive layer and its mutants --------------------------------------------------------------------------- */

enum mutant {
    SOUND, KEY_DROPPED, HEADS_SWAPPED, MASK_OFF_BY_ONE, SCALE_OF_D_MODEL, TAIL_LANE_LOST, BIAS_Q_FORGOTTEN,
    BIAS_V_FORGOTTEN, BIAS_O_FORGOTTEN, EXP_OF_DEGREE_3, STALE_MAXIMUM, SUM_ROUNDED,
    LAST_ROW_OF_THE_OTHER_SEQUENCE, MUTANTS
};

/* 2^x with a polynomial of the degree on the fraction. */
static float exp2_of(float x, enum mutant mutant)
{
    if (mutant != EXP_OF_DEGREE_3)
        return exp2f(x);
    const float whole = floorf(x), f = x - whole;
    return ldexpf(1 + f * (0.695976f + f * (0.224940f + f * 0.079020f)), (int)fmaxf(whole, -140));
}

static void project(float *out, const float *x, const float *w, const float *b, bool with_bias)
{
    for (int t = 0; t < N; t++)
        for (int c = 0; c < D; c++) {
            float sum = with_bias ? b[c] : 0;
            for (int k = 0; k < D; k++)
                sum = fmaf(x[t * D + k], w[k * D + c], sum);
            out[t * D + c] = sum;
        }
}

/* One row of one head, keys 0 … t; z and the weights. */
static void attend(const float *q, const float *k, const float *v, int t, float *z, float *attn, enum mutant mutant)
{
    const float scale = 1.44269504f / sqrtf(mutant == SCALE_OF_D_MODEL ? D : DK);
    float p[N] = {0}, maximum = -INFINITY, sum = 0;
    const int end = mutant == MASK_OFF_BY_ONE && t + 1 < N ? t + 2 : t + 1;
    for (int j = 0; j < end; j++) {
        float score = 0;
        for (int d = 0; d < DK - (mutant == TAIL_LANE_LOST); d++)
            score = fmaf(q[d] * scale, k[j * D + d], score);
        p[j] = score;
        maximum = fmaxf(maximum, score);
    }
    for (int j = 0; j < end; j++) {
        p[j] = exp2_of(p[j] - maximum, mutant);
        if (mutant == STALE_MAXIMUM && j >= 32) /* a block's numerators kept from before the maximum rose */
            p[j] *= 1.0001f;
        if (mutant == KEY_DROPPED && t == 20 && j == 7)
            p[j] = 0;
        sum += p[j];
    }
    if (mutant == SUM_ROUNDED)
        sum = ldexpf(roundf(ldexpf(sum, 5)), -5);
    for (int j = 0; j < N; j++)
        attn[j] = p[j] / sum;
    for (int c = 0; c < DK; c++) {
        float value = 0;
        for (int j = 0; j < end; j++)
            value = fmaf(p[j], v[j * D + c], value);
        z[c] = value / sum;
    }
}

static void naive_layer(struct subject *s, enum mutant mutant)
{
    static float q[N * D], k[N * D], v[N * D], z[N * D];
    const struct inputs *in = &s->in;
    for (int b = 0; b < 2; b++) {
        const float *x = inputs_floats(in, TENSOR_X) + b * N * D;
        project(q, x, in->tensor[TENSOR_W_Q], in->tensor[TENSOR_B_Q], mutant != BIAS_Q_FORGOTTEN);
        project(k, x, in->tensor[TENSOR_W_K], in->tensor[TENSOR_B_K], true);
        project(v, x, in->tensor[TENSOR_W_V], in->tensor[TENSOR_B_V], mutant != BIAS_V_FORGOTTEN);
        for (int i = 0; i < H; i++)
            for (int t = 0; t < N; t++) {
                const int to = mutant == HEADS_SWAPPED ? (i + 1) % H : i;
                attend(q + t * D + i * DK, k + i * DK, v + i * DK, t, z + t * D + to * DK,
                       s->attn + ((b * H + i) * N + t) * N, mutant);
            }
        project(s->y + b * N * D, z, in->tensor[TENSOR_W_O], in->tensor[TENSOR_B_O], mutant != BIAS_O_FORGOTTEN);
    }
    if (mutant == LAST_ROW_OF_THE_OTHER_SEQUENCE)
        memcpy(s->y + (N - 1) * D, s->y + (2 * N - 1) * D, D * sizeof(float));
}

static void test_naive_layer_passes(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct subject s;
        make(&s, plain, seed);
        bound(&s);
        naive_layer(&s, SOUND);
        struct comparison c = compare(&s);
        assert_int_equal(c.misses, 0);
        assert_int_equal(c.elements, 2 * N * D + 2 * H * N * N);
        assert_true(c.ratio > 0.0005 && c.ratio <= 1); /* of use: within 2000 times the error seen */
        unmake(&s);
    }
}

/* b_K is not among the biases: it adds the same to all scores of a row, which softmax does not see. */
static void test_mutants_fail(void **state)
{
    struct subject s;
    make(&s, plain, 5);
    bound(&s);
    for (int mutant = SOUND + 1; mutant < MUTANTS; mutant++) {
        naive_layer(&s, mutant);
        struct comparison c = compare(&s);
        if (c.misses == 0)
            fail_msg("mutant %d passes: %g of the bound", mutant, c.ratio);
    }
    unmake(&s);
}

/* The measured gate is near the error of a right kernel, and sees what the bound does not. */
static void test_measured_gate(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct subject s;
        make(&s, plain, seed);
        bound(&s);
        likely_measure(&s.reference, &s.bounds, s.layer, &s.in, true);
        naive_layer(&s, SOUND);
        struct comparison c = {0}, off = {0};
        compare_y(&c, s.layer, &s.in, &s.reference, &s.bounds, s.y);
        if (c.misses > 0 || !(c.gate_ratio > 0.02 && c.gate_ratio < 0.4 && c.ratio < 0.3 * c.gate_ratio))
            fail_msg("seed %d: %g of the gate, %g of the bound", (int)seed, c.gate_ratio, c.ratio);
        s.y[500] += (float)(2 * s.bounds.y_likely[500]);
        compare_y(&off, s.layer, &s.in, &s.reference, &s.bounds, s.y);
        assert_true(off.misses == 1 && off.index[1] == 500 / D && off.ratio < 1);
        unmake(&s);
    }
}

/* ---- single elements ------------------------------------------------------------------------------------------- */

static void test_nan_fails(void **state)
{
    struct subject s;
    make(&s, plain, 1);
    bound(&s);
    answer(&s);
    assert_int_equal(compare(&s).misses, 0);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t v = 0; v < 3; v++) {
        const float y = s.y[500], a = s.attn[N + 1];
        s.y[500] = bad[v];
        struct comparison c = compare(&s);
        assert_int_equal(c.misses, 1);
        assert_int_equal(c.tensor, TENSOR_Y);
        assert_true(c.index[0] == 0 && c.index[1] == 500 / D && c.index[2] == 500 % D);
        s.y[500] = y;
        s.attn[N + 1] = bad[v];
        c = compare(&s);
        assert_int_equal(c.misses, 1);
        assert_int_equal(c.tensor, TENSOR_ATTN);
        s.attn[N + 1] = a;
    }
    unmake(&s);
}

static void test_hidden_weights_are_exactly_zero(void **state)
{
    struct subject s;
    make(&s, plain, 1);
    bound(&s);
    answer(&s);
    s.attn[1] = 1e-45f; /* row 0 does not see key 1 */
    assert_int_equal(compare(&s).misses, 1);
    s.attn[1] = -0.0f;
    assert_int_equal(compare(&s).misses, 0);
    unmake(&s);
}

/* An error of twice the bound at one element is seen, half of it is not. */
static void test_sensitivity(void **state)
{
    struct subject s;
    make(&s, plain, 2);
    bound(&s);
    answer(&s);
    for (size_t at = 0; at < 2 * N * D; at += 37) {
        const float kept = s.y[at];
        s.y[at] = kept + (float)(2 * s.bounds.y_worst[at]);
        assert_int_equal(compare(&s).misses, 1);
        s.y[at] = kept + (float)(s.bounds.y_worst[at] / 2);
        assert_int_equal(compare(&s).misses, 0);
        s.y[at] = kept;
    }
    unmake(&s);
}

static void test_the_bound_is_small(void **state)
{
    struct subject s;
    make(&s, plain, 3);
    bound(&s);
    for (size_t at = 0; at < 2 * N * D; at++)
        assert_true(s.bounds.y_worst[at] > 1e-7 && s.bounds.y_worst[at] < 1e-2);
    unmake(&s);
}

/* One row whose scores are so large that its bound says nothing: what is printed says how far the others are. */
static void test_shown_error(void **state)
{
    struct subject s;
    make(&s, "d_model = 24\nh = 3\nseq_len = 40\nscores = true\nmask = additive\n", 7);
    float *mask = s.in.tensor[TENSOR_MASK_ADD];
    for (size_t j = 0; j < N; j++)
        mask[5 * N + j] = -1e9f; /* query 5, in its first head at least */
    bound(&s);
    answer(&s);
    s.attn[5 * N + 3] += 0.01f;
    s.attn[6 * N + 3] += 0x1p-20f;
    struct comparison c = {0};
    compare_attn(&c, s.layer, &s.in, &s.reference, &s.bounds, s.attn);
    assert_true(c.error > 0.009 && c.known > 0 && c.known < c.elements);
    assert_true(compare_shown_error(&c) > 0x1p-21 && compare_shown_error(&c) < 0x1p-19);
    c.known = 0;
    assert_true(compare_shown_error(&c) == c.error);
    unmake(&s);
}

/* ---- non-finite references ------------------------------------------------------------------------------------- */

static void test_non_finite_reference(void **state)
{
    struct subject s;
    make(&s, plain, 4);
    ((float *)s.in.tensor[TENSOR_X])[30 * D + 5] = NAN; /* rows 30 … of sequence 0 see it */
    bound(&s);
    answer(&s);
    assert_int_equal(compare(&s).misses, 0);
    s.y[35 * D] = 0; /* swallowed */
    assert_int_equal(compare(&s).misses, 1);
    s.y[35 * D] = INFINITY; /* which kind is free */
    assert_int_equal(compare(&s).misses, 0);
    s.y[29 * D] = NAN; /* leaked */
    assert_int_equal(compare(&s).misses, 1);
    answer(&s);
    float *row = s.attn + 35 * N;
    for (size_t j = 0; j < N; j++)
        row[j] = 0;
    assert_int_equal(compare(&s).misses, 1);
    row[3] = NAN; /* one suffices */
    assert_int_equal(compare(&s).misses, 0);
    row[39] = 0.5f; /* hidden */
    assert_int_equal(compare(&s).misses, 1);
    unmake(&s);
}

/* Where f32 overflows on the way, numbers that are not finite are not compared, and are counted; the others lie in the
 * hull of the values. Elsewhere everything is promised still. */
static void test_overflow(void **state)
{
    struct subject s;
    make(&s, plain, 6);
    float *x = s.in.tensor[TENSOR_X];
    for (size_t c = 0; c < D; c++)
        x[30 * D + c] = 1e30f;
    bound(&s);
    answer(&s);
    struct comparison c = compare(&s);
    assert_true(c.misses == 0 && c.unbounded == 0);
    s.y[30 * D] = NAN;
    s.attn[30 * N] = NAN;
    c = compare(&s);
    assert_true(c.misses == 0 && c.unbounded == 2);
    s.y[29 * D] = NAN;
    assert_int_equal(compare(&s).misses, 1);
    answer(&s);
    s.attn[30 * N + 3] = 1.5f;
    s.y[30 * D + 1] = 1e34f; /* the values are of 1e30 */
    c = compare(&s);
    assert_true(c.misses == 2 && c.unbounded == 0);
    for (size_t j = 0; j <= 30; j++) { /* which key has won is open too */
        const double a = s.reference.attn[30 * N + j];
        assert_true(s.bounds.attn_worst[30 * N + j] >= fmax(a, 1 - a));
    }
    unmake(&s);
}

static void multiply(struct subject *s, enum layer_tensor tensor, float by)
{
    for (size_t at = 0; at < inputs_count(s->layer, &s->in, tensor); at++)
        ((float *)s->in.tensor[tensor])[at] *= by;
}

/* Sums that overflow although what is made of them would not; and the last of all, half of whose elements do. */
static void test_overflow_of_each_sum(void **state)
{
    static const struct { enum layer_tensor large, small; } cases[] = {
        {TENSOR_W_Q, TENSOR_W_K}, {TENSOR_W_K, TENSOR_W_Q}, {TENSOR_W_V, TENSOR_W_O}, {TENSOR_W_O, TENSOR_COUNT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct subject s;
        make(&s, plain, 13);
        multiply(&s, cases[i].large, 3e38f);
        if (cases[i].small != TENSOR_COUNT)
            multiply(&s, cases[i].small, 1e-30f);
        bound(&s);
        for (size_t at = 0; at < 2 * N * D; at++)
            s.y[at] = NAN;
        struct comparison c = {0};
        compare_y(&c, s.layer, &s.in, &s.reference, &s.bounds, s.y);
        if (c.unbounded < c.elements / (cases[i].small == TENSOR_COUNT ? 2 : 1) || c.unbounded + c.misses != c.elements)
            fail_msg("case %zu: %zu of %zu are without bound, %zu miss", i, c.unbounded, c.elements, c.misses);
        unmake(&s);
    }
}

/* ---- masks of -FLT_MAX ----------------------------------------------------------------------------------------- */

static const char additive[] = "d_model = 24\nh = 3\nseq_len = 40\nscores = true\nmask = additive\n";

/* Where some key is left, a row at -FLT_MAX is held to its own bound; where none is, to the hull of the values. */
static void test_lowest_mask(void **state)
{
    struct subject s;
    make(&s, additive, 8);
    float *mask = s.in.tensor[TENSOR_MASK_ADD];
    for (size_t at = 0; at < s.in.mask_batch[TENSOR_MASK_ADD] * s.in.mask_h[TENSOR_MASK_ADD] * N * N; at++)
        mask[at] = at / N % N == 5 || at % N > 20 ? -FLT_MAX : 0;
    bound(&s);
    answer(&s);
    struct comparison c = compare(&s);
    assert_true(c.misses == 0 && c.unbounded == 0);
    assert_true(s.bounds.attn_worst[5 * N + 3] > 0.9 && s.bounds.attn_worst[6 * N + 3] < 1e-3);
    for (size_t t = 5; t < 7; t++) {
        static const float bad[] = {NAN, INFINITY, 12345};
        for (size_t v = 0; v < 3; v++) {
            s.y[t * D + 3] = bad[v];
            s.attn[t * N + 30] = bad[v];
            c = compare(&s);
            assert_true(c.misses == 2 && c.unbounded == 0);
            answer(&s);
        }
    }
    s.y[6 * D] += 0.01f;
    s.attn[6 * N + 30] = 0x1p-90f; /* what -FLT_MAX leaves of a weight */
    assert_int_equal(compare(&s).misses, 2);
    unmake(&s);
}

/* Below -FLT_MAX log(2), where log2(e) times a mask exceeds f32, the largest still has all the weight. */
static void test_masks_beyond_base_2(void **state)
{
    struct subject s;
    make(&s, additive, 8);
    float *mask = s.in.tensor[TENSOR_MASK_ADD];
    for (size_t j = 0; j < N; j++)
        mask[j] = j == 7 ? -2.4e38f : j < 20 ? -FLT_MAX : -INFINITY;
    bound(&s);
    answer(&s);
    assert_true(s.reference.attn[7] == 1);
    struct comparison c = compare(&s);
    assert_true(c.misses == 0 && c.unbounded == 0);
    for (size_t j = 0; j < 20; j++)
        s.attn[j] = 0.05f;
    assert_int_equal(compare(&s).misses, 19); /* errors of the scores leave key 7 any weight */
    unmake(&s);
}

/* The hull is no wider than the farthest value: a row at -1e9 has the weights that it likes, but one of these sums. */
static void test_hull(void **state)
{
    struct subject s;
    make(&s, "d_model = 24\nh = 3\nseq_len = 40\nw_o = none\nw_v = identity\nd_k = 8\nmask = additive\n", 9);
    float *mask = s.in.tensor[TENSOR_MASK_ADD];
    for (size_t j = 0; j < N; j++)
        mask[5 * N + j] = -1e9f;
    bound(&s);
    const float *x = s.in.tensor[TENSOR_X];
    for (size_t c = 0; c < D; c++) { /* head 0 */
        double far = 0;
        const double z = s.reference.y[5 * 3 * D + c];
        for (size_t j = 0; j < N; j++)
            far = fmax(far, fabs(x[j * D + c] - z));
        assert_true(s.bounds.y_worst[5 * 3 * D + c] >= 0.5 * far && s.bounds.y_worst[5 * 3 * D + c] <= far + 3e-5);
    }
    unmake(&s);
}

/* One of two keys is off by so much that either may take all; exponentials of both bounds are below double's range. */
static void test_weights_far_apart(void **state)
{
    struct subject s = {.layer = layer_of("d_model = 2\nh = 1\nseq_len = 2\nscale = 1\nw_v = identity\nw_o = none\n"
                                          "mask = additive\nscores = true\n")};
    const struct inputs_draw draw = {.seed = 1, .batch = 1, .n = 2, .m = 2};
    inputs_draw(&s.in, s.layer, &draw, NULL);
    memcpy(s.in.tensor[TENSOR_X], (const float[]){1e7f, 1e7f, 0, 0}, 4 * sizeof(float));
    memcpy(s.in.tensor[TENSOR_W_Q], (const float[]){1, 0, 0, 1}, 4 * sizeof(float));
    memcpy(s.in.tensor[TENSOR_W_K], (const float[]){1, 0, 0, -1}, 4 * sizeof(float)); /* q_0 k_0 = 1e14 - 1e14 */
    memcpy(s.in.tensor[TENSOR_MASK_ADD], (const float[]){0, -1000, 0, 0}, 4 * sizeof(float));
    bound(&s);
    assert_true(s.reference.attn[0] == 1 && s.reference.attn[1] == 0);
    assert_true(s.bounds.attn_worst[0] > 0.99 && s.bounds.attn_worst[1] > 0.99);
    unmake(&s);
}

/* ---- scores that hide by their own size ------------------------------------------------------------------------- */

/* Two queries and keys, W_K = diag(1, -factor): q_0 k_0 = 1e14 - factor 1e14, whose sign f32 does not know. */
static void make_cancelling(struct subject *s, const char *score, const char *more, float factor)
{
    char spec[400];
    snprintf(spec, sizeof spec, "d_model = 2\nh = 1\nseq_len = 2\nscale = 1\nw_v = identity\nw_o = none\nlse = true\n"
             "scores = biased\nscore = %s\n%s", score, more);
    make_of(s, spec, 1, 1, 2);
    memcpy(s->in.tensor[TENSOR_X], (const float[]){1e7f, 1e7f, 1, 0}, 4 * sizeof(float));
    memcpy(s->in.tensor[TENSOR_W_Q], (const float[]){1, 0, 0, 1}, 4 * sizeof(float));
    memcpy(s->in.tensor[TENSOR_W_K], (const float[]){1, 0, 0, -factor}, 4 * sizeof(float));
    bound(s);
    answer(s);
}

/* The reference sees one key alone, or none, and f32 may find it the other way round: of that row nothing is promised.
 * Of the next one, which sees both for sure, everything is. */
static void test_unsure_of_only_key(void **state)
{
    static const struct { float factor; bool sees; } cases[] = {{0.9999999f, true}, {1.0000001f, false}};
    for (size_t i = 0; i < 2; i++) {
        struct subject s;
        make_cancelling(&s, "where(s > 0, s, -1e999)", "mask = causal\n", cases[i].factor);
        assert_int_equal(isfinite(s.reference.lse[0]), cases[i].sees);
        assert_true(isinf(s.bounds.lse_open[0]) && s.bounds.lse_open[1] == 0);
        assert_int_equal(compare(&s).misses, 0);
        s.y[0] = s.y[1] = cases[i].sees ? 0 : 1e7f;
        s.lse[0] = s.attn[0] = cases[i].sees ? -INFINITY : 1e6f;
        assert_int_equal(compare(&s).misses, 0);
        s.y[2] = 0;
        s.attn[2] = s.lse[1] = -INFINITY;
        assert_int_equal(compare(&s).misses, 3);
        unmake(&s);
    }
}

/* Where another key is seen for sure, or a sink takes part, the row keeps its bound: the hull. */
static void test_unsure_of_one_key(void **state)
{
    static const struct { const char *more; float inside; } cases[] = {{"", 1}, {"mask = causal\nsink = true\n", 0}};
    for (size_t i = 0; i < 2; i++) {
        struct subject s;
        make_cancelling(&s, "where(s > 0, s, -1e999)", cases[i].more, 0.9999999f);
        assert_true(isfinite(s.bounds.lse_open[0]));
        s.y[0] = cases[i].inside;
        s.y[1] = 0;
        assert_int_equal(compare(&s).misses, 0);
        s.y[0] = 2.1e7f;
        assert_int_equal(compare(&s).misses, 1);
        unmake(&s);
    }
}

/* A score that is infinite for one sign of s: the reference of row 0 is not finite, or f32's may not be. Of row 1 the
 * sign is known. */
static void test_unsure_of_infinity(void **state)
{
    static const struct { const char *score; float factor; bool finite; float other; } cases[] = {
        {"s / abs(p - j)", 0.9999999f, false, -INFINITY}, {"s / abs(p - j)", 1.0000001f, true, NAN},
        {"where(s < 0, 1e999, s)", 0.9999999f, true, NAN}, {"where(s < 0, 1e999, s)", 1.0000001f, false, 1e6f},
        {"-where(s < 0, -1e999, s)", 0.9999999f, true, NAN}, {"sqrt(s)", 1.0000001f, false, 1e3f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct subject s;
        make_cancelling(&s, cases[i].score, "mask = causal\n", cases[i].factor);
        assert_int_equal(isfinite(s.reference.y[0]), cases[i].finite);
        assert_int_equal(compare(&s).misses, 0);
        s.y[0] = s.y[1] = s.attn[0] = s.lse[0] = cases[i].other;
        assert_int_equal(compare(&s).misses, 0);
        const bool finite = isfinite(s.reference.y[2]);
        s.y[2] = s.lse[1] = finite ? NAN : 1;
        assert_int_equal(compare(&s).misses, 2);
        unmake(&s);
    }
}

/* q b_K is the same for all keys; where it is so large that the reference's double loses what tells them apart, a
 * kernel with folded scores, which leaves it out, is right and the reference is not. */
static void test_large_key_bias(void **state)
{
    struct subject s;
    make(&s, plain, 10);
    for (size_t c = 0; c < D; c++)
        ((float *)s.in.tensor[TENSOR_B_K])[c] = 1e25f;
    bounds_compute(&s.reference, &s.bounds, s.layer, &s.in, (struct folds){.scores = true}, true);
    assert_true(s.bounds.attn_worst[10 * N] > 0.5);
    unmake(&s);
}

/* ---- modes of the caller's --------------------------------------------------------------------------------------- */

/* Rounding upward changes neither the reference nor the bounds, and stays as it was. */
static void test_rounding_of_the_caller(void **state)
{
    struct subject s, up;
    make(&s, plain, 11);
    make(&up, plain, 11);
    bound(&s);
    fesetround(FE_UPWARD);
    bound(&up);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    assert_memory_equal(s.reference.y, up.reference.y, 2 * N * D * sizeof(double));
    assert_memory_equal(s.bounds.y_worst, up.bounds.y_worst, 2 * N * D * sizeof(double));
    unmake(&s);
    unmake(&up);
}

/* FTZ and DAZ, where this is known; returns whether it is. */
static bool flush(bool on)
{
#ifdef __SSE2__
    const unsigned flags = 0x8040;
    __builtin_ia32_ldmxcsr(on ? __builtin_ia32_stmxcsr() | flags : __builtin_ia32_stmxcsr() & ~flags);
    return true;
#else
    (void)on;
    return false;
#endif
}

/* Factors of the tensors. */
struct flushing {
    float x, w_v, w_o;
};

/* Scores are 0, and there is no bias: only values count. */
static void flushing_case(struct subject *s, const struct flushing *factors)
{
    static const enum layer_tensor zero[] = {TENSOR_W_Q, TENSOR_B_Q, TENSOR_W_K, TENSOR_B_K, TENSOR_B_V, TENSOR_B_O};
    for (size_t t = 0; t < sizeof zero / sizeof *zero; t++)
        multiply(s, zero[t], 0);
    multiply(s, TENSOR_X, factors->x);
    multiply(s, TENSOR_W_V, factors->w_v);
    multiply(s, TENSOR_W_O, factors->w_o);
}

/* Operands, or products, so small that f32 loses them, and others so large that it shows: within the bound of a machine
 * that flushes, and not within that of one that does not. */
static void test_flushing(void **state)
{
    static const struct flushing cases[] = {
        {1e-37f, 0.1f, 1e37f}, {1e20f, 1e-39f, 1e18f}, {1e19f, 1e18f, 1e-39f}, {1e-20f, 1e-19f, 1e37f},
    };
    if (!flush(false))
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct subject s, kept;
        make(&s, plain, 12);
        make(&kept, plain, 12);
        flushing_case(&s, &cases[i]);
        flushing_case(&kept, &cases[i]);
        bound(&kept);
        flush(true);
        bound(&s);
        naive_layer(&s, SOUND);
        struct comparison c = compare(&s);
        flush(false);
        assert_memory_equal(s.reference.y, kept.reference.y, 2 * N * D * sizeof(double));
        if (c.misses > 0 || c.unbounded > 0)
            fail_msg("case %zu: %zu misses, %g of the bound", i, c.misses, c.ratio);
        memcpy(kept.y, s.y, 2 * N * D * sizeof(float));
        memcpy(kept.attn, s.attn, 2 * H * N * N * sizeof(float));
        c = compare(&kept);
        assert_true(c.misses > 0 && c.ratio > 2);
        unmake(&s);
        unmake(&kept);
    }
}

static void test_rows_that_see_nothing(void **state)
{
    struct subject s;
    make(&s, "d_model = 24\nh = 3\nseq_len = 40\nscores = true\nw_o = none\nmask = causal+no_self\n", 1);
    bound(&s);
    answer(&s);
    assert_int_equal(compare(&s).misses, 0);
    s.y[0] = 1e-45f;
    s.attn[0] = 1e-45f;
    assert_int_equal(compare(&s).misses, 2);
    unmake(&s);
}

/* ---- rows of a cache ----------------------------------------------------------------------------------------- */

#define WIDTH 8

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naive_layer_passes),
        cmocka_unit_test(test_mutants_fail),
        cmocka_unit_test(test_measured_gate),
        cmocka_unit_test(test_nan_fails),
        cmocka_unit_test(test_hidden_weights_are_exactly_zero),
        cmocka_unit_test(test_sensitivity),
        cmocka_unit_test(test_the_bound_is_small),
        cmocka_unit_test(test_shown_error),
        cmocka_unit_test(test_non_finite_reference),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_overflow_of_each_sum),
        cmocka_unit_test(test_masks_beyond_base_2),
        cmocka_unit_test(test_lowest_mask),
        cmocka_unit_test(test_hull),
        cmocka_unit_test(test_weights_far_apart),
        cmocka_unit_test(test_unsure_of_only_key),
        cmocka_unit_test(test_unsure_of_one_key),
        cmocka_unit_test(test_unsure_of_infinity),
        cmocka_unit_test(test_large_key_bias),
        cmocka_unit_test(test_rounding_of_the_caller),
        cmocka_unit_test(test_flushing),
        cmocka_unit_test(test_rows_that_see_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
