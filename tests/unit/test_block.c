/* SPDX-License-Identifier: MIT */
/* Blocks, and layers without attention: the reference against docs/block.md's equations written down here once more, in
 * long double and one number after the other; and its bound against the same in f32, which must stay within it and come
 * near. Each mutant is that computation with one thing wrong, which the bound must see.
 *
 * Left out on purpose: emitted kernels (the vectors, attnrun check), masks and most kinds of attention (other tests).
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

#include "../../runtime/reference/block_error.h"
#include "../../runtime/reference/compare.h"
#include "../../runtime/reference/roundoff.h"
#include "layer_of.h"

#define LAYERS 500

enum mutant {
    SOUND, NO_EPS, MEAN_KEPT, GAIN_DROPPED, SHIFT_DROPPED, RESIDUAL_DROPPED, GELU_COEFFICIENT, GATE_FOR_UP,
    LAST_COLUMN_DROPPED, B_2_DROPPED, NORM_OF_FIRST_NUMBER, NORM_TWICE, SUM_NOT_NORMED, MUTANTS
};

/* ---- random layers --------------------------------------------------------------------------------------------- */

static int below(struct random *random, int limit)
{
    return (int)(random_bits(random) % (uint64_t)limit);
}

static const char *const blocks[] = {"post", "outputs", "pre", "parallel", "sandwich"};
static const char *const ffns[] = {"none", "relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh",
                                   "quick_gelu", "relu2", "sigmoid", "tanh", "reglu", "quick_geglu", "glu"};
#define FFNS ((int)(sizeof ffns / sizeof *ffns))

/* The lines of a feed-forward: its word, and limits that a swiglu may have */
static void print_ffn(FILE *out, struct random *random, int ffn)
{
    fprintf(out, "ffn = %s\n", ffns[ffn]);
    if (strcmp(ffns[ffn], "swiglu") == 0 && below(random, 2))
        fprintf(out, "ffn_limit = %s\nffn_alpha = %s\n", below(random, 2) ? "0.5" : "7", below(random, 2) ? "1.702" : "0.3");
}

static struct layer *draw_layer(struct random *random, const char *norm_eps)
{
    char spec[500];
    const int h = 1 + below(random, 3), d_model = h * (1 + below(random, 16)), ffn = below(random, FFNS);
    const int block = below(random, 5);
    FILE *out = fmemopen(spec, sizeof spec, "w");
    fprintf(out, "d_model = %d\nh = %d\nseq_len = %d\nblock = %s\nnorm = %s\n", d_model, h,
            1 + below(random, 12), blocks[block], below(random, 2) ? "rms" : "layer");
    print_ffn(out, random, ffn);
    fprintf(out, "bias = %s\nweight_layout = %s\nmask = %s\nnorm_eps = %s\n", below(random, 2) ? "true" : "false",
            below(random, 2) ? "out_in" : "in_out", below(random, 2) ? "causal" : "none", norm_eps);
    if (ffn > 0)
        fprintf(out, "d_ff = %d\n", 1 + below(random, 50));
    if (ffn > 0 && below(random, 2))
        fprintf(out, "ffn_bias = %s\n", below(random, 2) ? "true" : "false");
    fflush(out);
    if (strstr(spec, "norm = layer") != NULL && below(random, 3) == 0)
        fprintf(out, "norm_bias = false\n");
    if (ffn > 0 && block == 2 && below(random, 3) == 0)
        fprintf(out, "input_norm = false\n");
    if (ffn > 0 && block == 3 && below(random, 2))
        fprintf(out, "norm_shared = true\n");
    fclose(out);
    return layer_of(spec);
}

/* One without attention */
static struct layer *draw_rows(struct random *random, const char *norm_eps)
{
    static const char *const activations[] = {"none", "relu", "gelu", "gelu_tanh", "silu", "tanh",
                                              "quick_gelu", "relu2", "sigmoid"};
    static const char *const caps[] = {"none", "30", "0.3"}, *const norms[] = {"none", "rms", "layer"};
    static const char *const placed[] = {"none", "post", "outputs", "pre", "sandwich"};
    char spec[500];
    const int d = 8 + below(random, 33); /* of few columns a naive mean loses more than the gate says */
    const int norm = below(random, 3), block = below(random, 5);
    FILE *out = fmemopen(spec, sizeof spec, "w");
    fprintf(out, "seq_len = %d\nweight_layout = %s\n", 1 + below(random, 12), below(random, 2) ? "out_in" : "in_out");
    if (below(random, 2)) {
        fprintf(out, "layer = linear\nd_in = %d\nd_out = %d\nactivation = %s\nsoftcap = %s\nbias = %s\nnorm = %s\n", d,
                1 + below(random, 60), activations[below(random, 9)], caps[below(random, 3)],
                below(random, 2) ? "true" : "false", norms[norm]);
    } else {
        fprintf(out, "layer = ffn\nd_model = %d\nd_ff = %d\nffn_bias = %s\nblock = %s\n", d,
                1 + below(random, 50), below(random, 2) ? "true" : "false", placed[block]);
        print_ffn(out, random, 1 + below(random, FFNS - 1));
        if (block > 0)
            fprintf(out, "norm = %s\n", norms[1 + below(random, 2)]);
    }
    fflush(out);
    if (strstr(spec, "norm = rms") != NULL || strstr(spec, "norm = layer") != NULL)
        fprintf(out, "norm_eps = %s\n", norm_eps);
    if (strstr(spec, "norm = layer") != NULL && below(random, 3) == 0)
        fprintf(out, "norm_bias = false\n");
    fclose(out);
    return layer_of(spec);
}

static struct inputs draw_inputs(const struct layer *layer, struct random *random)
{
    struct inputs in;
    const struct inputs_draw draw = {.seed = random_bits(random), .init = below(random, 2) ? INIT_NORMAL : INIT_XAVIER,
                                     .batch = 2, .n = (size_t)layer->seq_len, .m = (size_t)layer->seq_len};
    inputs_draw(&in, layer, &draw, NULL);
    return in;
}

/* ---- the equations, once for each type --------------------------------------------------------------------------- */

#define NUMBER long double
#define OWN(name) exact_##name
#define ERF erfl
#define TANH tanhl
#define EXP expl
#define ROOT sqrtl
#include "block_equations.h"
#undef NUMBER
#undef OWN
#undef ERF
#undef TANH
#undef EXP
#undef ROOT
#define NUMBER float
#define OWN(name) naive_##name
#define ERF erff
#define TANH tanhf
#define EXP expf
#define ROOT sqrtf
#include "block_equations.h"

/* ---- the tests -------------------------------------------------------------------------------------------------- */

static void reference_is_the_equations(void **state)
{
    struct random dice[] = {{3}, {7}};
    for (int i = 0; i < 2 * LAYERS; i++) {
        struct random *random = &dice[i % 2];
        struct layer *layer = (i % 2 ? draw_rows : draw_layer)(random, i / 2 % 3 == 0 ? "0.1" : "1e-6");
        struct inputs in = draw_inputs(layer, random);
        struct reference reference;
        const struct exact_of k = {.layer = layer, .in = &in};
        reference_compute(&reference, layer, &in, false, NULL, NULL);
        long double *y = exact_block(&k);
        for (size_t at = 0; at < inputs_count(layer, &in, TENSOR_Y); at++)
            if (!(fabsl(reference.y[at] - y[at]) <= 1e-9L * (1 + fabsl(y[at]))))
                fail_msg("layer %d: y[%zu] is %.17g, not %.17Lg\n%s", i, at, reference.y[at], y[at], layer->text);
        exact_free();
        reference_free(&reference);
        inputs_free(&in);
        layer_free(layer);
    }
}

/* One layer by a computation in f32: what the comparison says. */
static struct comparison compared(const struct layer *layer, const struct inputs *in, enum mutant mutant, int order)
{
    struct reference reference;
    struct bounds bounds;
    struct comparison c = {0};
    const struct naive_of k = {.layer = layer, .in = in, .mutant = mutant, .order = order};
    bounds_compute(&reference, &bounds, layer, in, (struct folds){0}, false);
    float *y = naive_block(&k);
    compare_y(&c, layer, in, &reference, &bounds, y);
    naive_free();
    reference_free(&reference);
    return c;
}

static void naive_blocks_are_within_their_bound(void **state)
{
    struct random dice[] = {{4}, {8}};
    double nearest[6] = {0}; /* of blocks, and of layers without attention */
    for (int i = 0; i < 2 * LAYERS; i++) {
        struct random *random = &dice[i % 2];
        struct layer *layer = (i % 2 ? draw_rows : draw_layer)(random, i / 2 % 3 == 0 ? "0.1" : "1e-6");
        struct inputs in = draw_inputs(layer, random);
        const struct comparison c = compared(layer, &in, SOUND, i / 2 % 3);
        const int kind = layer->kind != LAYER_ATTENTION ? 3 + (int)layer->kind : (int)(layer->block - BLOCK_POST);
        double *near = &nearest[kind];
        if (c.misses > 0 || c.unbounded > 0)
            fail_msg("layer %d: %zu elements miss, %.3g of the bound\n%s", i, c.misses, c.ratio, layer->text);
        *near = fmax(*near, c.ratio);
        inputs_free(&in);
        layer_free(layer);
    }
    for (size_t b = 0; b < 6; b++)
        print_message("%s: nearest to the bound: %.2f\n", b < 4 ? blocks[b] : b == 4 ? "ffn" : "linear",
                      nearest[b]);
    for (size_t b = 0; b < 6; b++)
        assert_true(nearest[b] > 0.02);
}

/* Which layers a mutant changes at all. */
static bool concerns(const struct layer *layer, enum mutant mutant)
{
    const bool ffn = layer->ffn != FFN_NONE, gelu = layer_activation(layer) == ACTIVATION_GELU;
    switch (mutant) {
    case MEAN_KEPT: return !layer->block_rms && layer->d_model > 1;
    case SHIFT_DROPPED: return layer->block_shift && layer->d_model > 1;
    case GELU_COEFFICIENT: return gelu || layer_activation(layer) == ACTIVATION_GELU_TANH;
    case GATE_FOR_UP: return layer_ffn_gated(layer);
    case LAST_COLUMN_DROPPED: return ffn;
    case B_2_DROPPED: return layer->ffn_bias;
    case NORM_OF_FIRST_NUMBER: return layer_norms(layer) > 1;
    case NORM_TWICE: return layer->block == BLOCK_PRE && ffn && layer->input_norm;
    case SUM_NOT_NORMED: return layer->block == BLOCK_POST;
    default: return layer->d_model > 1;
    }
}

static void mutants_are_seen(void **state)
{
    static const char *const names[MUTANTS] = {
        "sound", "no eps", "mean kept", "gain dropped", "shift dropped", "residual dropped", "gelu's coefficient",
        "gate for up", "last column dropped", "b_2 dropped", "gains of the first norm", "norm twice", "sum not normed"};
    for (enum mutant mutant = SOUND + 1; mutant < MUTANTS; mutant++) {
        struct random random = {5};
        size_t seen = 0, all = 0;
        for (int i = 0; i < 400 && all < 40; i++) {
            struct layer *layer = draw_layer(&random, "0.01");
            if (concerns(layer, mutant)) {
                struct inputs in = draw_inputs(layer, &random);
                all++;
                seen += compared(layer, &in, mutant, 0).misses > 0;
                inputs_free(&in);
            }
            layer_free(layer);
        }
        print_message("%s: %zu of %zu\n", names[mutant], seen, all);
        assert_true(all >= 20 && seen > all / 10 * 8);
    }
}

/* ---- what is not drawn -------------------------------------------------------------------------------------------- */

static void activations_have_their_limits(void **state)
{
    for (enum layer_activation a = ACTIVATION_RELU; a <= ACTIVATION_RELU2; a++) {
        const double most = a == ACTIVATION_SIGMOID ? 1 : INFINITY;
        assert_true(block_activation(a, INFINITY) == most && block_activation(a, -INFINITY) == 0);
        assert_true(isnan(block_activation(a, NAN)));
        if (a == ACTIVATION_SIGMOID || a == ACTIVATION_RELU2)
            continue;
        assert_true(block_activation(a, 0) == 0 && fabs(block_activation(a, 60) - 60) < 1e-12);
        assert_true(fabs(block_activation(a, -49.9)) < 1e-17 && fabs(block_activation(a, -1e30)) == 0);
    }
    assert_true(fabs(block_activation(ACTIVATION_GELU, 1) - 0.84134474606854293) < 1e-15);
    assert_true(fabs(block_activation(ACTIVATION_GELU, -3) + 0.0040496940948902836) < 1e-15);
    assert_true(fabs(block_activation(ACTIVATION_GELU_TANH, 1) - 0.84119199060827676) < 1e-15);
    assert_true(fabs(block_activation(ACTIVATION_SILU, 2) - 1.7615941559557649) < 1e-15);
    assert_true(fabs(block_activation(ACTIVATION_QUICK_GELU, 1) - 0.8457957659328212) < 1e-15);
    assert_true(fabs(block_activation(ACTIVATION_SIGMOID, 2) - 0.88079707797788243) < 1e-15);
    assert_true(block_activation(ACTIVATION_RELU2, 3) == 9 && block_activation(ACTIVATION_RELU2, -3) == 0);
}

/* The steepest slopes, and what slopes change by, are what the bound says. */
static void slopes_are_derivatives(void **state)
{
    static const struct { double most, bend; } of[] = {
        [ACTIVATION_RELU] = {1, 0}, [ACTIVATION_GELU] = {1.13, 0.8}, [ACTIVATION_GELU_TANH] = {1.13, 0.8},
        [ACTIVATION_SILU] = {1.1, 0.5}, [ACTIVATION_TANH] = {1, 0.77}, [ACTIVATION_QUICK_GELU] = {1.1, 0.851},
        [ACTIVATION_SIGMOID] = {0.25, 0.0963}, [ACTIVATION_RELU2] = {120.001, 2.0001}};
    for (enum layer_activation a = ACTIVATION_RELU; a <= ACTIVATION_TANH; a++) {
        double largest = 0, bent = 0;
        for (double x = -60.0005; x < 60; x += 0.001) {
            const double slope = (block_activation(a, x + 1e-5) - block_activation(a, x - 1e-5)) / 2e-5;
            const double next = block_slope(a, x + 0.001), here = block_slope(a, x);
            assert_true(fabs(slope - here) < 1e-8 * (1 + fabs(x)));
            largest = fmax(largest, fabs(here));
            bent = fmax(bent, fabs(next - here) / 0.001);
        }
        assert_true(largest <= of[a].most && largest > 0.99 * of[a].most);
        if (a != ACTIVATION_RELU)
            assert_true(bent <= of[a].bend && bent > 0.99 * of[a].bend);
    }
}

/* Rows of one number, of zeros, and of numbers whose squares f32 does not hold. */
static void rows_at_the_ends_are_right(void **state)
{
    static const float rows[][4] = {{3, 3, 3, 3}, {0, 0, 0, 0}, {1e30f, -2e30f, 3e38f, 1}, {1e-30f, 2e-30f, 0, 0}};
    for (int rms = 0; rms < 2; rms++) {
        struct layer *layer = layer_of(rms ? "d_model = 4\nh = 1\nseq_len = 4\nblock = pre\nnorm = rms\n"
                                           : "d_model = 4\nh = 1\nseq_len = 4\nblock = post\n");
        struct random random = {6};
        struct inputs in = draw_inputs(layer, &random);
        const struct norm_rounding rounding = {0x1p-149, 0, 1, true};
        struct pool pool = {0};
        struct block_error e = block_error_make(&pool, 4, 4);
        double x[16], y[16];
        for (size_t at = 0; at < 16; at++)
            x[at] = (double)rows[at / 4][at % 4];
        block_normalise(layer, &in, 1, x, 4, y);
        block_norm_errors(layer, &in, &rounding, 1, x, 4, &e);
        for (size_t at = 0; at < 16; at++) {
            const double gain = block_gains(&in, 1)[at % 4], shift = rms ? 0 : (double)block_shifts(&in, 1)[at % 4];
            if (at < 4)
                assert_true(fabs(y[at] - (rms ? gain * 3 / sqrt(9 + 1e-6) : shift)) < 1e-12);
            if (at >= 4 && at < 8)
                assert_true(y[at] == shift);
            assert_true(isfinite(y[at]) && isfinite(e.worst[at]) && e.open[at / 4] == 0);
            assert_true(e.worst[at] < 1e-5 * (1 + fabs(gain)) || (at < 4 && e.worst[at] < 2e-3));
        }
        pool_free(&pool);
        inputs_free(&in);
        layer_free(layer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_is_the_equations),
        cmocka_unit_test(naive_blocks_are_within_their_bound),
        cmocka_unit_test(mutants_are_seen),
        cmocka_unit_test(activations_have_their_limits),
        cmocka_unit_test(slopes_are_derivatives),
        cmocka_unit_test(rows_at_the_ends_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
