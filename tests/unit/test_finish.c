/* SPDX-License-Identifier: MIT */
/* Norm and rotation of queries and keys: the reference's against numbers written down here, and their bound against a
 * naive computation in f32, which must stay within it and come near.
 *
 * Left out on purpose: emitted kernels (the vectors, attnrun check), and cosines and sines alone (tests/turns).
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

#include "../../runtime/inputs/inputs.h"
#include "../../runtime/reference/bound.h"
#include "../../runtime/reference/finish_error.h"
#include "layer_of.h"


/* ---- the reference --------------------------------------------------------------------------------------------- */

static void assert_row(const char *spec, size_t d, const double *from, int64_t position, const double *wanted)
{
    struct layer *layer = layer_of(spec);
    struct pool pool = {0};
    struct finish of;
    double *to = calloc(d, sizeof *to);
    of = finish_make(&pool, layer, 1, 1);
    memcpy(of.from, from, d * sizeof *from);
    if (of.all != NULL)
        memcpy(of.all, from, d * sizeof *from);
    for (size_t c = 0; c < d; c++) {
        if (of.gain != NULL)
            of.gain[c] = (double)c + 1;
        if (of.shift != NULL)
            of.shift[c] = 10;
    }
    if (of.turns != NULL)
        finish_turns(layer, position, of.turns);
    finish_rows(layer, &of, to);
    for (size_t c = 0; c < d; c++)
        if (fabs(to[c] - wanted[c]) > 1e-12)
            fail_msg("%s: column %zu is %.17g, not %.17g", spec, c, to[c], wanted[c]);
    pool_free(&pool);
    free(to);
    layer_free(layer);
}

static void norms_are_their_formulas(void **state)
{
    const double row[] = {3, -1, 1, 1}, root = sqrt(3.5); /* mean of squares 3 */
    const double rms[] = {3 / root, -2 / root, 3 / root, 4 / root};
    assert_row("d_model = 4\nh = 1\nseq_len = 1\nqk_norm = rms\nnorm_eps = 0.5\n", 4, row, 0, rms);
    assert_row("d_model = 4\nh = 1\nseq_len = 1\nqk_norm = rms_all\nnorm_eps = 0.5\n", 4, row, 0, rms);
    const double centred = sqrt(2.5), layer[] = {10 + 2 / centred, 10 - 4 / centred, 10, 10}; /* mean 1, squares 8 */
    assert_row("d_model = 4\nh = 1\nseq_len = 1\nqk_norm = layer\nnorm_eps = 0.5\n", 4, row, 0, layer);
    const double l2[] = {3 / sqrt(12), -1 / sqrt(12), 1 / sqrt(12), 1 / sqrt(12)}, small[] = {0.3, -0.1, 0.1, 0.1};
    assert_row("d_model = 4\nh = 1\nseq_len = 1\nqk_norm = l2\nnorm_eps = 0.5\n", 4, row, 0, l2);
    assert_row("d_model = 4\nh = 1\nseq_len = 1\nqk_norm = l2\nnorm_eps = 10\n", 4, row, 0, small);
}

static void rotations_are_their_formulas(void **state)
{
    const double row[] = {1, 2, 3, 4, 5}, f = 0.1; /* 100^(-2/4) */
    const double half[] = {cos(2) - 3 * sin(2), 2 * cos(2 * f) - 4 * sin(2 * f), sin(2) + 3 * cos(2),
                           2 * sin(2 * f) + 4 * cos(2 * f), 5};
    assert_row("d_model = 4\nh = 1\nd_k = 5\nseq_len = 1\nrope = half\nrope_dims = 4\nrope_theta = 100\n", 5, row, 2,
               half);
    const double neighbours[] = {cos(-2) - 2 * sin(-2), sin(-2) + 2 * cos(-2), 3 * cos(-2 * f) - 4 * sin(-2 * f),
                                 3 * sin(-2 * f) + 4 * cos(-2 * f), 5};
    assert_row("d_model = 4\nh = 1\nd_k = 5\nseq_len = 1\nrope = interleaved\nrope_dims = 4\nrope_theta = 100\n", 5,
               row, -2, neighbours);
    const double slow[] = {1 * cos(0.5) - 2 * sin(0.5), 1 * sin(0.5) + 2 * cos(0.5)};
    assert_row("d_model = 2\nh = 1\nseq_len = 1\nrope = half\nrope_scaling = linear\nrope_factor = 4\n", 2, row, 2, slow);
}

/* ---- the bound ------------------------------------------------------------------------------------------------- */

#define MOST 80

struct trial {
    struct pool pool;
    struct layer *layer;
    struct finish of;
    double error; /* relative, of what goes in */
    float factor;
};

/* As a kernel does it, but one number after the other. */
static void naive_row(const struct trial *t, size_t row, const float *x, float *to)
{
    const struct layer *l = t->layer;
    const size_t d = t->of.d, pairs = (size_t)l->rope.dims / 2;
    volatile float sum = 0, mean = 0;
    for (size_t c = 0; l->qk_norm == NORM_LAYER && c < d; c++)
        mean += x[c];
    mean = mean * (float)(1 / (double)d);
    for (size_t c = 0; c < d; c++) {
        volatile float centred = x[c] - mean, square = centred * centred;
        sum += square;
    }
    volatile float by = 1;
    if (l->qk_norm == NORM_L2) {
        by = sqrtf(sum);
        by = t->factor / fmaxf(by, (float)l->norm_eps);
    } else if (l->qk_norm != NORM_NONE) {
        by = sum * (float)(1 / (double)d);
        by += (float)l->norm_eps;
        by = 1 / sqrtf(by);
    }
    for (size_t c = 0; c < d; c++) {
        volatile float y = l->qk_norm == NORM_LAYER ? x[c] - mean : x[c];
        if (l->qk_norm != NORM_NONE)
            y *= by;
        if (t->of.gain != NULL)
            y *= (float)t->of.gain[c] * t->factor;
        if (t->of.shift != NULL)
            y += (float)t->of.shift[c] * t->factor;
        to[c] = y;
    }
    for (size_t c = 0; l->rope.kind != ROPE_NONE && c < pairs; c++) {
        const struct turn *turn = &t->of.turns[row * pairs + c];
        float *first = &to[l->rope.kind == ROPE_HALF ? c : 2 * c];
        float *second = &to[l->rope.kind == ROPE_HALF ? c + pairs : 2 * c + 1];
        const float a = *first, b = *second, cosine = (float)turn->cosine, sine = (float)turn->sine;
        volatile float ac = a * cosine, bs = b * sine, as = a * sine, bc = b * cosine;
        *first = ac - bs;
        *second = as + bc;
    }
}

static struct layer *draw_layer(struct random *random, size_t d)
{
    static const char *const norms[] = {"none", "rms", "layer", "l2"}, *const ropes[] = {"none", "half", "interleaved"};
    const char *norm = norms[random_bits(random) % 4], *rope = d < 2 ? "none" : ropes[random_bits(random) % 3];
    char spec[400];
    size_t used = (size_t)snprintf(spec, sizeof spec, "d_model = 8\nh = 1\nd_k = %zu\nseq_len = 4\n", d);
    if (strcmp(norm, "none") != 0)
        used += (size_t)snprintf(spec + used, sizeof spec - used, "qk_norm = %s\nnorm_eps = %g\n", norm,
                                 random_bits(random) % 2 ? 1e-6 : 0.1);
    if (strcmp(rope, "none") != 0)
        snprintf(spec + used, sizeof spec - used, "rope = %s\nrope_dims = %zu\n", rope,
                 2 * (1 + (size_t)(random_bits(random) % (d / 2))));
    return layer_of(spec);
}

static void draw_trial(struct trial *t, struct random *random, size_t d, size_t rows)
{
    const double size = pow(10, 6 * random_uniform(random) - 3);
    t->layer = draw_layer(random, d);
    t->error = random_bits(random) % 2 ? 0 : 1e-6;
    t->factor = t->layer->qk_norm == NORM_NONE ? 1 : (float)(0.2 + random_uniform(random));
    t->of = finish_make(&t->pool, t->layer, rows, 1);
    for (size_t at = 0; at < rows * d; at++)
        t->of.from[at] = (float)(size * random_normal(random));
    for (size_t c = 0; c < d; c++) {
        if (t->of.gain != NULL)
            t->of.gain[c] = (float)random_normal(random);
        if (t->of.shift != NULL)
            t->of.shift[c] = (float)random_normal(random);
    }
    for (size_t r = 0; t->of.turns != NULL && r < rows; r++)
        finish_turns(t->layer, (int64_t)(1000 * random_uniform(random)),
                     t->of.turns + r * (size_t)t->layer->rope.dims / 2);
}

static void naive_rows_are_within_their_bound(void **state)
{
    struct random random = {7};
    double nearest[2] = {0}; /* without and with an error that goes in */
    for (int i = 0; i < 3000; i++) {
        const size_t d = 1 + random_bits(&random) % MOST, rows = 3;
        struct trial t = {.pool = {0}};
        double exact[3 * MOST], worst[3 * MOST];
        unsigned char open[3] = {0};
        draw_trial(&t, &random, d, rows);
        finish_rows(t.layer, &t.of, exact);
        for (size_t at = 0; at < rows * d; at++)
            worst[at] = t.error * fabs(t.of.from[at]);
        const struct finish_error e = {.layer = t.layer, .of = &t.of, .factor = t.factor, .omega = 0x1p-149,
                                       .depth = 1, .worst = worst, .row = d, .open = open};
        finish_errors(&e);
        for (size_t r = 0; r < rows; r++) {
            float x[MOST], y[MOST];
            for (size_t c = 0; c < d; c++) {
                const double off = fmax(-0.9, fmin(0.9, random_normal(&random) / 5));
                x[c] = (float)(t.of.from[r * d + c] * (1 + t.error * off));
            }
            naive_row(&t, r, x, y);
            assert_false(open[r]);
            for (size_t c = 0; c < d; c++) {
                const double off = fabs(y[c] - t.factor * exact[r * d + c]);
                if (!(off <= worst[r * d + c]))
                    fail_msg("layer %d: off by %g; at most %g\n%s", i, off, worst[r * d + c], t.layer->text);
                nearest[t.error > 0] = fmax(nearest[t.error > 0], off / fmax(worst[r * d + c], 1e-300));
            }
        }
        pool_free(&t.pool);
        layer_free(t.layer);
    }
    print_message("nearest to the bound: %.2f, with errors that go in %.2f\n", nearest[0], nearest[1]);
    assert_true(nearest[0] > 0.3 && nearest[1] > 0.3);
}

/* A row of zeros has no error, rows that overflow are open. */
static void ends_of_the_range_are_seen(void **state)
{
    const double sizes[] = {0, 1e-30, 1e18, 1e20, 1e300, INFINITY, NAN};
    struct layer *layer = layer_of("d_model = 8\nh = 1\nseq_len = 4\nqk_norm = rms\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct pool pool = {0};
        struct finish of;
        double worst[8];
        unsigned char open[1] = {0};
        of = finish_make(&pool, layer, 1, 1);
        for (size_t c = 0; c < 8; c++) {
            of.from[c] = sizes[i];
            of.gain[c] = 1;
            worst[c] = 0;
        }
        const struct finish_error e = {.layer = layer, .of = &of, .factor = 1, .omega = 0x1p-149, .depth = 1,
                                       .worst = worst, .row = 8, .open = open};
        finish_errors(&e);
        assert_int_equal(open[0], !(sizes[i] < 1e19));
        if (!open[0])
            assert_true(worst[0] < 1e-5);
        pool_free(&pool);
    }
    layer_free(layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_their_formulas),
        cmocka_unit_test(rotations_are_their_formulas),
        cmocka_unit_test(naive_rows_are_within_their_bound),
        cmocka_unit_test(ends_of_the_range_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
