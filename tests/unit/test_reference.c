/* SPDX-License-Identifier: MIT */
/* The reference against cases small enough to work out by hand, and against properties that need no oracle.
 *
 * Left out on purpose: the stored vectors (tests/kernels/test_vectors.sh runs those through attnrun).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runtime/reference/reference.h"
#include "layer_of.h"

/* ---- making layers and inputs ---------------------------------------------------------------------------------- */

static struct inputs inputs_of(const struct layer *layer, uint64_t seed, size_t batch, size_t n, size_t m)
{
    struct inputs inputs;
    const struct inputs_draw draw = {.seed = seed, .batch = batch, .n = n, .m = m, .full_lengths = true};
    inputs_draw(&inputs, layer, &draw, NULL);
    return inputs;
}

static struct reference compute(const struct layer *layer, const struct inputs *inputs)
{
    struct reference reference;
    reference_compute(&reference, layer, inputs, false, NULL, NULL);
    return reference;
}

static float *floats(struct inputs *inputs, enum layer_tensor tensor)
{
    return inputs->tensor[tensor];
}

static void set(struct inputs *inputs, enum layer_tensor tensor, const float *values, size_t count)
{
    memcpy(inputs->tensor[tensor], values, count * sizeof *values);
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

/* One head of width 1: q = 2x, k = x, v = 10x, y = z + 1, scale 1. */
static const char by_hand[] = "d_model = 1\nh = 1\nseq_len = 8\nbias = true\nscale = 1\nscores = true\n";

static struct inputs inputs_by_hand(const struct layer *layer, const float *x, size_t n)
{
    struct inputs in = inputs_of(layer, 1, 1, n, n);
    set(&in, TENSOR_X, x, n);
    floats(&in, TENSOR_W_Q)[0] = 2;
    floats(&in, TENSOR_W_K)[0] = 1;
    floats(&in, TENSOR_W_V)[0] = 10;
    floats(&in, TENSOR_W_O)[0] = 1;
    floats(&in, TENSOR_B_Q)[0] = floats(&in, TENSOR_B_K)[0] = floats(&in, TENSOR_B_V)[0] = 0;
    floats(&in, TENSOR_B_O)[0] = 1;
    return in;
}

static void done(struct layer *layer, struct inputs *in, struct reference *reference)
{
    reference_free(reference);
    inputs_free(in);
    layer_free(layer);
}

/* ---- by hand --------------------------------------------------------------------------------------------------- */

static void test_two_positions(void **state)
{
    struct layer *layer = layer_of(by_hand);
    struct inputs in = inputs_by_hand(layer, (const float[]){0, 1}, 2);
    struct reference r = compute(layer, &in);
    const double a = exp(2) / (1 + exp(2)); /* scores of row 1: 0 and 2 */
    near(r.attn[0], 0.5);
    near(r.attn[1], 0.5);
    near(r.attn[2], 1 - a);
    near(r.attn[3], a);
    near(r.y[0], 5 + 1);
    near(r.y[1], 10 * a + 1);
    done(layer, &in, &r);
}

static void test_masks_by_hand(void **state)
{
    /* which keys the four queries see, as bits (bit j: key j) */
    static const struct { const char *keys; unsigned sees[4]; } cases[] = {
        {"mask = causal\n", {1, 3, 7, 15}},
        {"mask = no_self\n", {14, 13, 11, 7}},
        {"mask = causal+no_self\n", {0, 1, 3, 7}},
        {"mask = window\nwindow_left = 1\n", {15, 15, 14, 12}},
        {"mask = window\nwindow_right = 0\n", {1, 3, 7, 15}},
        {"mask = window\nwindow_left = 0\nwindow_right = 1\n", {3, 6, 12, 8}},
        {"mask = causal+window\nwindow_left = 1\n", {1, 3, 6, 12}},
        {"mask = padding\n", {7, 7, 7, 7}},
        {"mask = padding+causal\n", {1, 3, 7, 7}},
        {"mask = bool\n", {10, 10, 10, 10}},
        {"mask = additive\n", {9, 9, 9, 9}},
        {"mask = bool+additive+no_self\n", {8, 8, 8, 0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char spec[300];
        snprintf(spec, sizeof spec, "%s%s", by_hand, cases[c].keys);
        struct layer *layer = layer_of(spec);
        struct inputs in = inputs_by_hand(layer, (const float[]){1, 1, 1, 1}, 4);
        for (int j = 0; j < 16; j++) {
            if (in.tensor[TENSOR_MASK_BOOL] != NULL)
                ((unsigned char *)in.tensor[TENSOR_MASK_BOOL])[j] = j % 2;
            if (in.tensor[TENSOR_MASK_ADD] != NULL)
                floats(&in, TENSOR_MASK_ADD)[j] = j % 4 == 0 || j % 4 == 3 ? 0 : -INFINITY;
        }
        if (in.tensor[TENSOR_LENGTHS] != NULL)
            ((int32_t *)in.tensor[TENSOR_LENGTHS])[0] = 3;
        struct reference r = compute(layer, &in);
        for (size_t t = 0; t < 4; t++) {
            const int seen = __builtin_popcount(cases[c].sees[t]);
            for (size_t j = 0; j < 4; j++)
                near(r.attn[t * 4 + j], cases[c].sees[t] >> j & 1 ? 1.0 / seen : 0);
            near(r.y[t], seen > 0 ? 11 : 1); /* a row that sees nothing: the bias */
        }
        done(layer, &in, &r);
    }
}

static void test_cross_causal_is_top_left(void **state)
{
    struct layer *layer =
        layer_of("d_model = 4\nh = 2\nseq_len = 3\nattention = cross\nsource_len = 5\nmask = causal\n");
    struct inputs in = inputs_of(layer, 1, 1, 3, 5);
    for (size_t t = 0; t < 3; t++)
        for (size_t j = 0; j < 5; j++)
            assert_int_equal(reference_visible(layer, &in, 0, 1, t, j), j <= t);
    inputs_free(&in);
    layer_free(layer);
}

/* mask tensors [batch or 1][h or 1][n][m] */
static void test_broadcast(void **state)
{
    struct layer *layer = layer_of("d_model = 4\nh = 2\nseq_len = 2\nmask = bool\n");
    for (size_t extents = 0; extents < 4; extents++) {
        struct inputs in = inputs_of(layer, 1, 3, 2, 2);
        const size_t mask_batch = extents & 1 ? 3 : 1, mask_h = extents & 2 ? 2 : 1;
        unsigned char *mask = calloc(mask_batch * mask_h * 4, 1);
        free(in.tensor[TENSOR_MASK_BOOL]);
        in.tensor[TENSOR_MASK_BOOL] = mask;
        in.mask_batch[TENSOR_MASK_BOOL] = mask_batch;
        in.mask_h[TENSOR_MASK_BOOL] = mask_h;
        mask[((mask_batch - 1) * mask_h + mask_h - 1) * 4 + 2] = 1; /* the last [2][2] block: row 1, key 0 */
        for (size_t b = 0; b < 3; b++)
            for (size_t i = 0; i < 2; i++) {
                const bool last = (mask_batch == 1 || b == 2) && (mask_h == 1 || i == 1);
                assert_int_equal(reference_visible(layer, &in, b, i, 1, 0), last);
                assert_false(reference_visible(layer, &in, b, i, 0, 0));
                assert_false(reference_visible(layer, &in, b, i, 1, 1));
            }
        inputs_free(&in);
    }
    layer_free(layer);
}

/* ---- non-finite values ----------------------------------------------------------------------------------------- */

static void test_nan(void **state)
{
    char spec[200];
    snprintf(spec, sizeof spec, "%smask = causal\n", by_hand);
    struct layer *layer = layer_of(spec);
    struct inputs in = inputs_by_hand(layer, (const float[]){1, 2, NAN, 3}, 4);
    struct reference r = compute(layer, &in);
    assert_true(isfinite(r.y[0]) && isfinite(r.y[1])); /* do not see it */
    assert_false(isfinite(r.y[2]) || isfinite(r.y[3]));
    assert_true(r.attn[4 + 2] == 0);
    done(layer, &in, &r);

    snprintf(spec, sizeof spec, "%smask = causal+no_self\n", by_hand);
    layer = layer_of(spec);
    in = inputs_by_hand(layer, (const float[]){NAN, 2}, 2);
    r = compute(layer, &in);
    near(r.y[0], 1); /* sees nothing, whatever its query holds */
    assert_false(isfinite(r.y[1]));
    done(layer, &in, &r);
}

static void test_large_scores(void **state)
{
    struct layer *layer = layer_of(by_hand);
    struct inputs in = inputs_by_hand(layer, (const float[]){1e15f, -1e15f, 0}, 3);
    struct reference r = compute(layer, &in);
    near(r.attn[0], 1);
    near(r.attn[4], 1);
    near(r.attn[6], 1.0 / 3);
    done(layer, &in, &r);
}

static void test_a_billion_does_not_hide(void **state)
{
    char spec[200];
    snprintf(spec, sizeof spec, "%smask = additive\n", by_hand);
    struct layer *layer = layer_of(spec);
    struct inputs in = inputs_by_hand(layer, (const float[]){1, 1}, 2);
    for (int j = 0; j < 4; j++)
        floats(&in, TENSOR_MASK_ADD)[j] = -1e9f;
    struct reference r = compute(layer, &in);
    near(r.attn[0], 0.5);
    near(r.y[0], 11);
    done(layer, &in, &r);
}

/* ---- properties ------------------------------------------------------------------------------------------------ */

static const char *const many[] = {
    "d_model = 12\nh = 3\nseq_len = 9\nscores = true\nbias = true\n",
    "d_model = 12\nh = 3\nseq_len = 9\nscores = true\nbias = true\nweight_layout = out_in\nd_k = 5\nd_v = 2\n",
    "d_model = 12\nh = 4\nh_kv = 2\nseq_len = 9\nscores = true\nw_o = none\n",
    "d_model = 12\nh = 3\nseq_len = 9\nscores = true\ninput = split\nw_o = conv\nconv_width = 4\n",
    "d_model = 12\nh = 3\nseq_len = 9\nscores = true\nwidth = wide\nw_k = tied\nw_v = identity\nw_o = none\n",
    "d_model = 12\nh = 2\nseq_len = 9\nscores = true\nattention = cross\nd_source = 7\nsource_len = 9\n",
};

static void test_rows_sum_to_one(void **state)
{
    for (size_t c = 0; c < sizeof many / sizeof *many; c++) {
        struct layer *layer = layer_of(many[c]);
        struct inputs in = inputs_of(layer, c, 2, 9, 9);
        struct reference r = compute(layer, &in);
        for (size_t row = 0; row < 2 * (size_t)layer->h * 9; row++) {
            double sum = 0;
            for (size_t j = 0; j < 9; j++) {
                assert_true(r.attn[row * 9 + j] >= 0 && r.attn[row * 9 + j] <= 1);
                sum += r.attn[row * 9 + j];
            }
            near(sum, 1);
        }
        done(layer, &in, &r);
    }
}

/* Without masks the order of the keys does not matter: swap two source rows in cross-attention. */
static void test_keys_permute(void **state)
{
    struct layer *layer = layer_of(many[5]);
    struct inputs in = inputs_of(layer, 7, 1, 9, 9);
    struct reference before = compute(layer, &in);
    float *source = floats(&in, TENSOR_SOURCE);
    for (size_t c = 0; c < 7; c++) {
        const float kept = source[2 * 7 + c];
        source[2 * 7 + c] = source[5 * 7 + c];
        source[5 * 7 + c] = kept;
    }
    struct reference after = compute(layer, &in);
    for (size_t at = 0; at < 9 * 12; at++)
        near(after.y[at], before.y[at]);
    near(after.attn[2], before.attn[5]);
    reference_free(&before);
    done(layer, &in, &after);
}

/* Row 0 of a causal layer attends to itself alone: y = (x W_V + b_V) W_O + b_O. */
static void test_causal_row_0(void **state)
{
    struct layer *layer = layer_of("d_model = 6\nh = 2\nseq_len = 5\nmask = causal\nbias = true\n");
    struct inputs in = inputs_of(layer, 3, 1, 5, 5);
    struct reference r = compute(layer, &in);
    for (size_t c = 0; c < 6; c++) {
        double y = floats(&in, TENSOR_B_O)[c];
        for (size_t k = 0; k < 6; k++) {
            double v = floats(&in, TENSOR_B_V)[k];
            for (size_t j = 0; j < 6; j++)
                v += (double)floats(&in, TENSOR_X)[j] * floats(&in, TENSOR_W_V)[j * 6 + k];
            y += v * floats(&in, TENSOR_W_O)[k * 6 + c];
        }
        near(r.y[c], y);
    }
    done(layer, &in, &r);
}

/* out_in is the same layer with every matrix's last two axes swapped. */
static void test_out_in(void **state)
{
    static const char *const specs[] = {
        "d_model = 6\nh = 2\nseq_len = 4\nd_k = 5\nd_v = 2\nbias = true\n",
        "d_model = 6\nh = 2\nseq_len = 4\ninput = split\nd_k = 5\nd_v = 2\n",
        "d_model = 6\nh = 2\nseq_len = 4\nw_o = conv\nconv_width = 2\nd_k = 3\nd_v = 5\n",
    };
    static const enum layer_tensor weights[] = {TENSOR_W_Q, TENSOR_W_K, TENSOR_W_V, TENSOR_W_O};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        char swapped[300];
        snprintf(swapped, sizeof swapped, "%sweight_layout = out_in\n", specs[s]);
        struct layer *layer = layer_of(specs[s]), *other = layer_of(swapped);
        struct inputs in = inputs_of(layer, s, 2, 4, 4), turned = inputs_of(other, s, 2, 4, 4);
        for (size_t w = 0; w < 4; w++) {
            int64_t shape[4];
            const int rank = inputs_shape(layer, &in, weights[w], shape);
            const size_t R = (size_t)shape[rank - 2], C = (size_t)shape[rank - 1];
            for (size_t at = 0; at < inputs_count(layer, &in, weights[w]); at++) {
                const size_t block = at / (R * C), row = at / C % R, column = at % C;
                floats(&turned, weights[w])[block * R * C + column * R + row] = floats(&in, weights[w])[at];
            }
        }
        struct reference a = compute(layer, &in), b = compute(other, &turned);
        for (size_t at = 0; at < 2 * 4 * 6; at++)
            near(b.y[at], a.y[at]);
        done(layer, &in, &a);
        done(other, &turned, &b);
    }
}

/* h_kv heads are h heads with repeated weights. */
static void test_grouped_heads(void **state)
{
    struct layer *grouped = layer_of("d_model = 8\nh = 4\nh_kv = 2\nseq_len = 6\nscores = true\n");
    struct layer *plain = layer_of("d_model = 8\nh = 4\nseq_len = 6\nscores = true\n");
    struct inputs a = inputs_of(grouped, 5, 1, 6, 6), b = inputs_of(plain, 5, 1, 6, 6);
    set(&b, TENSOR_X, floats(&a, TENSOR_X), 48);
    set(&b, TENSOR_W_Q, floats(&a, TENSOR_W_Q), 64);
    set(&b, TENSOR_W_O, floats(&a, TENSOR_W_O), 64);
    for (size_t row = 0; row < 8; row++)
        for (size_t i = 0; i < 4; i++)
            for (size_t c = 0; c < 2; c++) {
                const size_t to = row * 8 + i * 2 + c, from = row * 4 + i / 2 * 2 + c;
                floats(&b, TENSOR_W_K)[to] = floats(&a, TENSOR_W_K)[from];
                floats(&b, TENSOR_W_V)[to] = floats(&a, TENSOR_W_V)[from];
            }
    struct reference x = compute(grouped, &a), y = compute(plain, &b);
    for (size_t at = 0; at < 48; at++)
        near(x.y[at], y.y[at]);
    for (size_t at = 0; at < 4 * 36; at++)
        near(x.attn[at], y.attn[at]);
    done(grouped, &a, &x);
    done(plain, &b, &y);
}

/* tied + identity + none + no_self: o_i = sum over j != i of w_j x_j, with one matrix. */
static void test_tied_identity(void **state)
{
    struct layer *layer =
        layer_of("d_model = 3\nh = 1\nseq_len = 4\nscale = 0.5\n"
                 "w_k = tied\nw_v = identity\nw_o = none\nmask = no_self\n");
    struct inputs in = inputs_of(layer, 9, 1, 4, 4);
    const float *x = floats(&in, TENSOR_X), *w = floats(&in, TENSOR_W_Q);
    double q[4][3] = {{0}};
    for (size_t t = 0; t < 4; t++)
        for (size_t c = 0; c < 3; c++)
            for (size_t k = 0; k < 3; k++)
                q[t][c] += (double)x[t * 3 + k] * w[k * 3 + c];
    struct reference r = compute(layer, &in);
    for (size_t t = 0; t < 4; t++) {
        double sum = 0, out[3] = {0};
        for (size_t j = 0; j < 4; j++) {
            const double p = j == t ? 0 : exp(0.5 * (q[t][0] * q[j][0] + q[t][1] * q[j][1] + q[t][2] * q[j][2]));
            sum += p;
            for (size_t c = 0; c < 3; c++)
                out[c] += p * x[j * 3 + c];
        }
        for (size_t c = 0; c < 3; c++)
            near(r.y[t * 3 + c], out[c] / sum);
    }
    done(layer, &in, &r);
}

/* conv against the sum in the contract; Z from the same layer with w_o = none. */
static void check_conv(const char *mask, size_t taps, int32_t length)
{
    char conv[300], none[300];
    const char *base = "d_model = 4\nh = 2\nseq_len = 7\nd_k = 3\nd_v = 3\n";
    snprintf(conv, sizeof conv, "%s%sw_o = conv\nconv_width = %zu\n", base, mask, taps);
    snprintf(none, sizeof none, "%s%sw_o = none\n", base, mask);
    struct layer *layer = layer_of(conv), *heads = layer_of(none);
    struct inputs in = inputs_of(layer, 11, 1, 7, 7), same = inputs_of(heads, 11, 1, 7, 7);
    if (in.tensor[TENSOR_LENGTHS] != NULL)
        *(int32_t *)in.tensor[TENSOR_LENGTHS] = *(int32_t *)same.tensor[TENSOR_LENGTHS] = length;
    struct reference r = compute(layer, &in), z = compute(heads, &same);
    const bool causal = strstr(mask, "causal") != NULL, padding = in.tensor[TENSOR_LENGTHS] != NULL;
    const int64_t pad = causal ? (int64_t)taps - 1 : ((int64_t)taps - 1) / 2, limit = padding ? length : 7;
    for (int64_t t = 0; t < 7; t++)
        for (size_t column = 0; column < 4; column++) {
            const size_t i = column / 2, c = column % 2;
            double y = 0;
            for (size_t tap = 0; tap < taps; tap++) {
                const int64_t u = t + (int64_t)tap - pad;
                for (size_t d = 0; u >= 0 && u < limit && d < 3; d++)
                    y += z.y[(size_t)u * 6 + i * 3 + d] * floats(&in, TENSOR_W_O)[((i * taps + tap) * 3 + d) * 2 + c];
            }
            near(r.y[(size_t)t * 4 + column], y);
        }
    done(layer, &in, &r);
    done(heads, &same, &z);
}

static void test_conv(void **state)
{
    for (size_t taps = 1; taps <= 9; taps++) {
        check_conv("", taps, 0);
        check_conv("mask = causal\n", taps, 0);
        check_conv("mask = padding\n", taps, 4);
        check_conv("mask = padding+causal\n", taps, 0);
    }
}

/* split heads are layers of their own on their columns. */
static void test_split(void **state)
{
    struct layer *split = layer_of("d_model = 6\nh = 2\nseq_len = 5\ninput = split\nw_o = none\n");
    struct layer *single = layer_of("d_model = 3\nh = 1\nseq_len = 5\nw_o = none\n");
    struct inputs in = inputs_of(split, 2, 1, 5, 5);
    struct reference whole = compute(split, &in);
    for (size_t i = 0; i < 2; i++) {
        struct inputs part = inputs_of(single, 2, 1, 5, 5);
        for (size_t t = 0; t < 5; t++)
            memcpy(floats(&part, TENSOR_X) + t * 3, floats(&in, TENSOR_X) + t * 6 + i * 3, 3 * sizeof(float));
        set(&part, TENSOR_W_Q, floats(&in, TENSOR_W_Q) + i * 9, 9);
        set(&part, TENSOR_W_K, floats(&in, TENSOR_W_K) + i * 9, 9);
        set(&part, TENSOR_W_V, floats(&in, TENSOR_W_V) + i * 9, 9);
        struct reference r = compute(single, &part);
        for (size_t at = 0; at < 15; at++)
            near(whole.y[at / 3 * 6 + i * 3 + at % 3], r.y[at]);
        reference_free(&r);
        inputs_free(&part);
    }
    layer_free(single);
    done(split, &in, &whole);
}

/* Sampled rows are the same rows. */
static void test_sample(void **state)
{
    static const char *const specs[] = {
        "d_model = 4\nh = 2\nseq_len = 700\nscores = true\nmask = causal\n",
        "d_model = 4\nh = 2\nseq_len = 700\nscores = true\nw_o = conv\nconv_width = 5\nmask = padding\n",
    };
    for (size_t s = 0; s < 2; s++) {
        struct layer *layer = layer_of(specs[s]);
        struct inputs in = inputs_of(layer, 4, 2, 700, 700);
        struct reference all = compute(layer, &in), some;
        if (in.tensor[TENSOR_LENGTHS] != NULL)
            ((int32_t *)in.tensor[TENSOR_LENGTHS])[1] = 350;
        reference_free(&all);
        all = compute(layer, &in);
        reference_compute(&some, layer, &in, true, NULL, NULL);
        assert_true(some.y_rows.count >= 60 && some.y_rows.count < 120);
        assert_int_equal(some.y_rows.row[0], 0);
        assert_int_equal(some.y_rows.row[some.y_rows.count - 1], 699);
        for (size_t b = 0; b < 2; b++)
            for (size_t row = 0; row < some.y_rows.count; row++)
                for (size_t c = 0; c < 4; c++)
                    near(some.y[(b * some.y_rows.count + row) * 4 + c],
                         all.y[(b * 700 + some.y_rows.row[row]) * 4 + c]);
        for (size_t head = 0; head < 4; head++)
            for (size_t row = 0; row < some.z_rows.count; row++)
                for (size_t j = 0; j < 700; j++)
                    near(some.attn[(head * some.z_rows.count + row) * 700 + j],
                         all.attn[(head * 700 + some.z_rows.row[row]) * 700 + j]);
        reference_free(&some);
        done(layer, &in, &all);
    }
}

static void test_nothing_to_do(void **state)
{
    for (size_t c = 0; c < sizeof many / sizeof *many; c++)
        for (size_t empty = 0; empty < 3; empty++) {
            struct layer *layer = layer_of(many[c]);
            struct inputs in = inputs_of(layer, 1, empty == 0 ? 0 : 2, empty == 1 ? 0 : 3, empty == 2 ? 0 : 3);
            struct reference r = compute(layer, &in);
            for (size_t at = 0; layer->cross && empty == 2 && at < 2 * 3 * 12; at++)
                assert_true(r.y[at] == 0); /* no keys, no bias */
            done(layer, &in, &r);
        }
}

/* A layer without a cache, whose tokens see no later ones, and the same with one that is fed in several calls: the rows
 * of a cache are f32, so both agree but for that rounding. */
static void test_caches(void **state)
{
    static const char base[] = "d_model = 6\nh = 2\nh_kv = 1\nd_k = 4\nd_v = 3\nmask = causal+window\nwindow_left = 4\n"
                               "rope = half\nqk_norm = rms\nlse = true\nbias = true\n";
    static const char *const caches[] = {"cache = rows\ncache_len = 20\n", "cache = ring\ncache_len = 9\n",
                                         "cache = paged\ncache_len = 20\npage_len = 3\n"};
    enum { LENGTH = 19, BATCH = 2, D = 6 };
    char text[400];
    snprintf(text, sizeof text, "%sseq_len = %d\n", base, LENGTH);
    struct layer *plain = layer_of(text);
    struct inputs all = inputs_of(plain, 3, BATCH, LENGTH, LENGTH);
    struct reference whole = compute(plain, &all);
    for (size_t c = 0; c < sizeof caches / sizeof *caches; c++) {
        static const size_t sizes[] = {1, 4, 5, 1, 1, 3, 4};
        snprintf(text, sizeof text, "%sseq_len = 5\n%s", base, caches[c]);
        struct layer *layer = layer_of(text);
        float *cache[2] = {NULL, NULL};
        size_t at = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct inputs in;
            const struct inputs_draw draw = {.seed = 7, .batch = BATCH, .n = sizes[i], .past_given = true,
                                             .past = (int64_t)at};
            inputs_draw(&in, layer, &draw, &all);
            for (size_t page = 0; in.tensor[TENSOR_PAGE_TABLE] != NULL && page < (size_t)layer->page_count * BATCH; page++)
                ((int32_t *)in.tensor[TENSOR_PAGE_TABLE])[page] = (int32_t)(page * 3 % 14);
            if (layer->cache == CACHE_PAGED) { /* as many pages in each call */
                in.pages = 14;
                for (int values = 0; values < 2; values++) {
                    void **pages = &in.tensor[inputs_cache_of(layer, values)];
                    free(*pages);
                    *pages = calloc(14 * 3 * 4, sizeof(float));
                }
            }
            for (size_t b = 0; b < BATCH; b++)
                memcpy(floats(&in, TENSOR_X) + b * sizes[i] * D, floats(&all, TENSOR_X) + (b * LENGTH + at) * D,
                       sizes[i] * D * sizeof(float));
            for (int values = 0; values < 2; values++) {
                const enum layer_tensor tensor = inputs_cache_of(layer, values);
                const size_t bytes = inputs_count(layer, &in, tensor) * sizeof(float);
                if (cache[values] != NULL)
                    memcpy(in.tensor[tensor], cache[values], bytes);
                else
                    cache[values] = malloc(bytes);
            }
            struct reference part = compute(layer, &in);
            for (size_t b = 0; b < BATCH; b++)
                for (size_t t = 0; t < sizes[i]; t++) {
                    for (size_t d = 0; d < D; d++)
                        assert_true(fabs(part.y[(b * sizes[i] + t) * D + d] - whole.y[(b * LENGTH + at + t) * D + d]) < 1e-5);
                    for (size_t h = 0; h < 2; h++)
                        assert_true(fabs(part.lse[(b * 2 + h) * sizes[i] + t] -
                                         whole.lse[(b * 2 + h) * LENGTH + at + t]) < 1e-5);
                }
            for (int values = 0; values < 2; values++) { /* what a call leaves */
                const enum layer_tensor tensor = inputs_cache_of(layer, values);
                const size_t count = inputs_count(layer, &in, tensor), width = values ? 3 : 4;
                size_t *rows = inputs_new_rows(layer, &in, values), fresh = 0;
                memcpy(cache[values], in.tensor[tensor], count * sizeof(float));
                for (size_t k = 0; k < count; k++)
                    if (rows[k / width] > 0)
                        cache[values][k] = (float)part.cache[values][(rows[k / width] - 1) * width + k % width];
                for (size_t k = 0; k < count / width; k++)
                    fresh += rows[k] > 0;
                assert_int_equal(fresh, BATCH * sizes[i]);
                free(rows);
            }
            at += sizes[i];
            reference_free(&part);
            inputs_free(&in);
        }
        assert_int_equal(at, LENGTH);
        free(cache[0]);
        free(cache[1]);
        layer_free(layer);
    }
    done(plain, &all, &whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_positions),   cmocka_unit_test(test_masks_by_hand),
        cmocka_unit_test(test_cross_causal_is_top_left), cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_nan),             cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_a_billion_does_not_hide), cmocka_unit_test(test_rows_sum_to_one),
        cmocka_unit_test(test_keys_permute),    cmocka_unit_test(test_causal_row_0),
        cmocka_unit_test(test_out_in),          cmocka_unit_test(test_grouped_heads),
        cmocka_unit_test(test_tied_identity),   cmocka_unit_test(test_conv),
        cmocka_unit_test(test_split),           cmocka_unit_test(test_sample),
        cmocka_unit_test(test_nothing_to_do),   cmocka_unit_test(test_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
