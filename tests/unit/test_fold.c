/* SPDX-License-Identifier: MIT */
/* Folded weights: what is folded is the same layer, and the bound for it is right and of use.
 *
 * A naive f32 kernel with folded weights stands in for the emitted one; each mutant is that kernel with one thing
 * wrong. Left out on purpose: the emitted kernels (the sweep and the vectors).
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

#include "../../runtime/reference/compare.h"
#include "layer_of.h"

#define LAYERS 300
#define LOG2_E 1.4426950408889634

static const struct folds all_folds[] = {{.scores = false}, {.scores = true}, {.values = true},
                                         {.scores = true, .values = true}};
static const char *const fold_names[] = {"plain", "scores", "values", "both"};

/* ---- random layers --------------------------------------------------------------------------------------------- */

static int below(struct random *random, int limit)
{
    return (int)(random_uniform(random) * limit);
}

static bool one_in(struct random *random, int count)
{
    return below(random, count) == 0;
}

/* Any kind of layer, small. */
static void draw_spec(struct random *random, char *spec, size_t size)
{
    static const int heads[] = {1, 2, 3, 4, 6};
    static const char *const masks[] = {"none", "causal", "padding", "no_self", "causal+no_self", "window", "bool",
                                        "additive", "causal+padding", "padding+bool"};
    const int h = heads[below(random, 5)], d_model = h * (1 + below(random, 12)), n = 1 + below(random, 40);
    const bool split = one_in(random, 4), tied = one_in(random, 4), identity = one_in(random, 5);
    const bool cross = one_in(random, 3);
    const char *mask = masks[below(random, 10)];
    FILE *out = fmemopen(spec, size, "w");
    fprintf(out, "d_model = %d\nh = %d\nseq_len = %d\nmask = %s\n", d_model, h, n, mask);
    if (strcmp(mask, "window") == 0)
        fprintf(out, "window_left = %d\nwindow_right = %d\n", below(random, 5), below(random, 5));
    if (!split && !tied && !identity && h % 2 == 0 && one_in(random, 2))
        fprintf(out, "h_kv = %d\n", h / 2);
    if (split)
        fprintf(out, "input = split\n");
    if (cross)
        fprintf(out, "attention = cross\nsource_len = %d\n", 1 + below(random, 40));
    if (cross && !tied && one_in(random, 2))
        fprintf(out, "d_source = %d\n", h * (1 + below(random, 12)));
    if (one_in(random, 2))
        fprintf(out, "d_k = %d\n", 1 + below(random, 40));
    else if (one_in(random, 3))
        fprintf(out, "width = wide\n");
    if (!identity && one_in(random, 3))
        fprintf(out, "d_v = %d\n", 1 + below(random, 40));
    if (tied)
        fprintf(out, "w_k = tied\n");
    if (identity)
        fprintf(out, "w_v = identity\n");
    if (one_in(random, 4))
        fprintf(out, "w_o = conv\nconv_width = %d\n", 1 + below(random, 5));
    else if (one_in(random, 8))
        fprintf(out, "w_o = none\n");
    if (one_in(random, 8))
        fprintf(out, "scale = %g\n", 2 * random_normal(random));
    fprintf(out, "bias = %s\nscores = %s\nweight_layout = %s\n", one_in(random, 3) ? "false" : "true",
            one_in(random, 2) ? "false" : "true", one_in(random, 2) ? "out_in" : "in_out");
    fclose(out);
}

static struct inputs inputs_of(const struct layer *layer, struct random *random, bool full)
{
    struct inputs in;
    const int n = (int)layer->seq_len, m = (int)layer->source_len;
    const struct inputs_draw draw = {.seed = random_bits(random), .full_lengths = full,
                                     .init = one_in(random, 2) ? INIT_NORMAL : INIT_XAVIER,
                                     .batch = full ? 2 : 1 + (size_t)below(random, 3),
                                     .n = (size_t)(full ? n : below(random, n + 1)),
                                     .m = (size_t)(full ? m : below(random, m + 1))};
    inputs_draw(&in, layer, &draw, NULL);
    return in;
}

/* ---- the folded layer is the plain one --------------------------------------------------------------------------- */

struct algebra {
    const struct layer *layer;
    const struct inputs *in;
    struct folds folds;
    double *y, *folded_y; /* the merged heads, plain and folded */
    size_t silent;        /* rows that see nothing */
    size_t indicators;    /* rows with an indicator */
};

static void near(double actual, double expected, double size)
{
    if (!(fabs(actual - expected) <= 1e-12 * (1 + size)))
        fail_msg("%.17g is not %.17g", actual, expected);
}

/* G = W_Q W_K^T, b' = b_Q W_K^T, Q' = x G + b', and scores that differ by a constant of the row */
static void check_scores(const struct folded *f, const struct reference_head *plain, size_t rows)
{
    const size_t in = (size_t)f->layer.d_in_q, width = (size_t)f->layer.d_in_kv, d_k = f->d_k, keys = plain->keys;
    const struct reference_head *head = &f->head;
    assert_int_equal(f->layer.d_k, width);
    for (size_t a = 0; a <= in; a++)
        for (size_t s = 0; s < width; s++) {
            double sum = 0;
            for (size_t d = 0; d < d_k; d++)
                sum += (a < in ? plain->w_q[a * d_k + d] : plain->b_q[d]) * plain->w_k[s * d_k + d];
            const double got = a < in ? head->w_q[a * width + s] : head->b_q[s];
            const double size = a < in ? f->w_q_size[a * width + s] : f->b_q_size[s];
            near(got, sum, 0);
            assert_true(size > fabs(got) && size < fabs(got) + 1e-5);
        }
    for (size_t r = 0; r < rows; r++) {
        double constant = 0;
        for (size_t d = 0; d < d_k; d++)
            constant += f->layer.scale * plain->q[r * d_k + d] * plain->b_k[d];
        for (size_t s = 0; s < width; s++) {
            double sum = head->b_q[s];
            for (size_t a = 0; a < in; a++)
                sum += plain->x[r * in + a] * head->w_q[a * width + s];
            near(head->q[r * width + s], sum, fabs(sum));
        }
        for (size_t j = 0; j < keys; j++) {
            double score = plain->operand[SCORE_MASK_ADD] != NULL ? plain->operand[SCORE_MASK_ADD][r * keys + j] : 0;
            if (!plain->visible[r * keys + j])
                continue;
            for (size_t s = 0; s < width; s++)
                score += f->layer.scale * head->q[r * width + s] * head->k[j * width + s];
            near(head->scores[r * keys + j], score, fabs(score));
            near(head->scores[r * keys + j] + constant, plain->scores[r * keys + j], fabs(score) + fabs(constant));
        }
    }
}

/* H = W_V W_O for each tap, b_V W_O below it; U = A s, and the indicator */
static void check_values(struct algebra *a, const struct folded *f, const struct reference_head *plain, size_t rows)
{
    const size_t in = (size_t)f->layer.d_in_kv, width = (size_t)f->layer.d_v, d_v = f->d_v, keys = plain->keys;
    const bool conv = f->layer.w_o == W_O_CONV;
    const size_t taps = conv ? (size_t)f->layer.conv_width : 1;
    const size_t columns = (size_t)(conv ? f->layer.d_model / f->layer.h : f->layer.d_model);
    const struct reference_head *head = &f->head;
    assert_int_equal(width, in + f->layer.bias);
    for (size_t tap = 0; tap < taps; tap++)
        for (size_t s = 0; s < width; s++)
            for (size_t c = 0; c < columns; c++) {
                const size_t at = (tap * width + s) * columns + c;
                double sum = 0;
                for (size_t d = 0; d < d_v; d++)
                    sum += (s < in ? plain->w_v[s * d_v + d] : plain->b_v[d]) *
                           plain->w_o[(tap * d_v + d) * columns + c];
                near(head->w_o[at], sum, 0);
                assert_true(f->w_o_size[at] > fabs(sum) && f->w_o_size[at] < fabs(sum) + 1e-5);
            }
    for (size_t r = 0; r < rows; r++) {
        bool any = false;
        for (size_t j = 0; j < keys; j++)
            any = any || plain->visible[r * keys + j];
        for (size_t s = 0; s < in; s++) {
            double sum = 0;
            for (size_t j = 0; j < keys; j++)
                sum += plain->weights[r * keys + j] * plain->s[j * in + s];
            near(head->z[r * width + s], sum, fabs(sum));
        }
        if (f->layer.bias)
            near(head->z[r * width + in], any, 0);
        a->silent += !any;
        a->indicators += f->layer.bias;
    }
}

static void check_head(void *context, const struct reference *reference, const struct reference_head *plain)
{
    struct algebra *a = context;
    const size_t rows = reference->z_rows.count;
    const size_t offset = plain->b * reference->y_rows.count * (size_t)a->layer->d_out;
    struct pool pool = {0};
    struct folded f = folded_make(&pool, a->layer, a->folds, rows, a->in->m, 0);
    folded_see(&f, plain, rows);
    assert_int_equal(f.folds.values, a->folds.values && !a->layer->identity && a->layer->w_o != W_O_NONE);
    if (f.folds.scores)
        check_scores(&f, plain, rows);
    else
        assert_true(f.head.q == plain->q && f.head.k == plain->k && f.head.scores == plain->scores);
    if (f.folds.values)
        check_values(a, &f, plain, rows);
    else
        assert_true(f.head.v == plain->v && f.head.z == plain->z && f.head.w_o == plain->w_o);
    reference_merge(reference, a->layer, a->in, plain->b, plain->i, plain->z, plain->w_o, a->y + offset);
    reference_merge(reference, &f.layer, a->in, plain->b, plain->i, f.head.z, f.head.w_o, a->folded_y + offset);
    pool_free(&pool);
}

static void test_folding_changes_nothing(void **state)
{
    struct random random = {1};
    size_t silent = 0, indicators = 0;
    for (int trial = 0; trial < LAYERS; trial++) {
        char spec[500];
        draw_spec(&random, spec, sizeof spec);
        struct layer *layer = layer_of(spec);
        struct inputs in = inputs_of(layer, &random, false);
        struct algebra a = {.layer = layer, .in = &in, .folds = all_folds[trial % 4]};
        struct reference reference;
        const size_t count = inputs_count(layer, &in, TENSOR_Y);
        a.y = calloc(count + 1, sizeof *a.y);
        a.folded_y = calloc(count + 1, sizeof *a.folded_y);
        reference_compute(&reference, layer, &in, true, check_head, &a);
        for (size_t at = 0; at < count; at++)
            near(a.folded_y[at], a.y[at], fabs(a.y[at]));
        silent += a.silent;
        indicators += a.indicators;
        free(a.y);
        free(a.folded_y);
        reference_free(&reference);
        inputs_free(&in);
        layer_free(layer);
    }
    assert_true(silent > 100 && indicators > 1000);
}

/* ---- a folded kernel in f32 -------------------------------------------------------------------------------------- */

enum mutant {
    SOUND, G_IN_BF16, G_WITHOUT_LAST_ROW, G_OF_THE_OTHER_HEAD, G_TRANSPOSED, B_FORGOTTEN, B_OF_K, C_FORGOTTEN,
    H_IN_BF16, H_WITHOUT_LAST_ROW, H_OF_THE_OTHER_HEAD, B_V_FORGOTTEN, B_V_TWICE, INDICATOR_ALWAYS,
    INDICATOR_PAST_LENGTHS, KEY_DROPPED, MUTANTS
};

struct kernel {
    const struct layer *layer;
    const struct inputs *in;
    struct folds folds;
    enum mutant mutant;
    int order;            /* in which sums are taken */
    float *y, *attn;
    float *last_g, *last_h; /* of the head before */
};

static float *floats(size_t count)
{
    float *p = calloc(count + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

/* sum_k a[k] b[k], b `stride` apart */
static float dot(const float *a, const float *b, size_t stride, size_t count, int order)
{
    float lane[4] = {0}, sum = 0;
    for (size_t k = 0; k < count; k++) {
        const size_t back = count - 1 - k;
        if (order == 0)
            sum = fmaf(a[k], b[k * stride], sum);
        else if (order == 1)
            sum += a[back] * b[back * stride];
        else
            lane[k % 4] = fmaf(a[k], b[k * stride], lane[k % 4]);
    }
    return order < 2 ? sum : (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static float *narrowed(const double *from, size_t count)
{
    float *to = floats(count);
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
    return to;
}

static float bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* a w + b, in f32 */
static float *project(const float *a, const float *w, const float *b, size_t rows, size_t in, size_t d, int order)
{
    float *out = floats(rows * d);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < d; c++)
            out[r * d + c] = dot(a + r * in, w + c, d, in, order) + b[c];
    return out;
}

static float *project_wide(const double *a, const double *w, const double *b, size_t rows, size_t in, size_t d,
                           double factor, int order)
{
    float *a_f = narrowed(a, rows * in), *w_f = narrowed(w, in * d), *b_f = narrowed(b, d);
    for (size_t i = 0; i < in * d; i++)
        w_f[i] *= (float)factor;
    for (size_t i = 0; i < d; i++)
        b_f[i] *= (float)factor;
    float *out = project(a_f, w_f, b_f, rows, in, d, order);
    free(a_f);
    free(w_f);
    free(b_f);
    return out;
}

/* c W_Q W_K^T and below it c b_Q W_K^T */
static float *pack_g(struct kernel *k, const struct reference_head *head)
{
    const size_t in = (size_t)k->layer->d_in_q, width = (size_t)k->layer->d_in_kv, d_k = (size_t)k->layer->d_k;
    const double c = k->mutant == C_FORGOTTEN ? 1 : k->layer->scale * LOG2_E;
    float *g = floats((in + 1) * width);
    for (size_t a = 0; a <= in; a++)
        for (size_t s = 0; s < width; s++) {
            double sum = 0;
            for (size_t d = 0; d < d_k; d++) {
                const double bias = k->mutant == B_OF_K ? head->b_k[d] : head->b_q[d];
                const bool turned = k->mutant == G_TRANSPOSED && a < in;
                sum += turned    ? head->w_q[s * d_k + d] * head->w_k[a * d_k + d]
                       : a == in ? bias * head->w_k[s * d_k + d]
                                 : head->w_q[a * d_k + d] * head->w_k[s * d_k + d];
            }
            g[a * width + s] = (float)(c * sum);
            if (k->mutant == G_IN_BF16 && a < in)
                g[a * width + s] = bf16(g[a * width + s]);
            if ((k->mutant == B_FORGOTTEN && a == in) || (k->mutant == G_WITHOUT_LAST_ROW && a == in - 1))
                g[a * width + s] = 0;
        }
    if (k->mutant == G_OF_THE_OTHER_HEAD && k->last_g != NULL)
        memcpy(g, k->last_g, (in + 1) * width * sizeof *g);
    return g;
}

/* W_V W_O and below it b_V W_O, for each tap */
static float *pack_h(struct kernel *k, const struct reference_head *head, size_t taps, size_t columns)
{
    const size_t in = (size_t)k->layer->d_in_kv, d_v = (size_t)k->layer->d_v;
    const size_t count = taps * (in + 1) * columns;
    float *h = floats(count);
    for (size_t at = 0; at < count; at++) {
        const size_t c = at % columns, s = at / columns % (in + 1), tap = at / columns / (in + 1);
        double sum = 0;
        for (size_t d = 0; d < d_v; d++)
            sum += (s < in ? head->w_v[s * d_v + d] : head->b_v[d]) * head->w_o[(tap * d_v + d) * columns + c];
        h[at] = (float)(k->mutant == B_V_TWICE && s == in ? 2 * sum : sum);
        if (k->mutant == H_IN_BF16 && s < in)
            h[at] = bf16(h[at]);
        if ((k->mutant == B_V_FORGOTTEN && s == in) || (k->mutant == H_WITHOUT_LAST_ROW && s == in - 1))
            h[at] = 0;
    }
    if (k->mutant == H_OF_THE_OTHER_HEAD && k->last_h != NULL)
        memcpy(h, k->last_h, count * sizeof *h);
    return h;
}

/* Z of a head, d_v wide, its last element the indicator if there is one. */
static float *attend(struct kernel *k, const struct reference_head *head, size_t rows, const float *q,
                     const float *keys, const float *values, size_t d_k, size_t d_v, bool indicator, float *attn,
                     const size_t *row)
{
    const size_t m = head->keys, d = d_v - indicator;
    const double *added = head->operand[SCORE_MASK_ADD];
    float *z = floats(rows * d_v), *p = floats(m);
    for (size_t r = 0; r < rows; r++) {
        float maximum = -INFINITY, sum = 0;
        bool any = false;
        for (size_t j = 0; j < m; j++)
            if (head->visible[r * m + j]) {
                p[j] = dot(q + r * d_k, keys + j * d_k, 1, d_k, k->order) +
                       (float)LOG2_E * (float)(added != NULL ? added[r * m + j] : 0);
                maximum = fmaxf(maximum, p[j]);
                any = true;
            }
        for (size_t j = 0; j < m; j++) {
            p[j] = head->visible[r * m + j] ? exp2f(p[j] - maximum) : 0;
            if (k->mutant == KEY_DROPPED && r == rows / 2 && j == m / 3)
                p[j] = 0;
            sum += p[j];
        }
        for (size_t j = 0; attn != NULL && j < m; j++)
            attn[row[r] * k->in->m + j] = any ? p[j] / sum : 0;
        for (size_t c = 0; any && c < d; c++) {
            float value = 0;
            for (size_t j = 0; j < m; j++)
                if (head->visible[r * m + j])
                    value = fmaf(p[j], values[j * d + c], value);
            z[r * d_v + c] = value / sum;
        }
        if (indicator)
            z[r * d_v + d] = any || k->mutant == INDICATOR_ALWAYS;
    }
    free(p);
    return z;
}

static void merge(struct kernel *k, const struct reference *reference, const struct reference_head *head,
                  const float *z, const float *w, size_t d_v, size_t columns)
{
    const struct layer *layer = k->layer;
    const bool conv = layer->w_o == W_O_CONV;
    const int64_t pad = conv ? layer_conv_pad(layer) : 0;
    for (size_t r = 0; r < reference->y_rows.count; r++) {
        const size_t t = reference->y_rows.row[r];
        float *y = k->y + (head->b * k->in->n + t) * (size_t)layer->d_out + (conv ? head->i * columns : 0);
        size_t first, end, z_row = 0;
        reference_taps(layer, k->in, head->b, t, &first, &end);
        for (size_t u = first; u < end; u++) {
            const size_t tap = (size_t)((int64_t)u - (int64_t)t + pad);
            while (reference->z_rows.row[z_row] < u)
                z_row++;
            for (size_t c = 0; layer->w_o != W_O_NONE && c < columns; c++)
                y[c] += dot(z + z_row * d_v, w + tap * d_v * columns + c, columns, d_v, k->order);
            for (size_t c = 0; layer->w_o == W_O_NONE && c < d_v; c++)
                y[head->i * d_v + c] = z[z_row * d_v + c];
        }
        for (size_t u = end; k->mutant == INDICATOR_PAST_LENGTHS && u < k->in->n; u++) {
            const int64_t tap = (int64_t)u - (int64_t)t + pad;
            for (size_t c = 0; tap < layer->conv_width && c < columns; c++)
                y[c] += w[((size_t)tap * d_v + d_v - 1) * columns + c];
        }
    }
}

static void run_head(void *context, const struct reference *reference, const struct reference_head *head)
{
    struct kernel *k = context;
    const struct layer *layer = k->layer;
    const size_t rows = reference->z_rows.count, m = head->keys, in_q = (size_t)layer->d_in_q;
    const size_t in_kv = (size_t)layer->d_in_kv, h = (size_t)layer->h;
    const bool conv = layer->w_o == W_O_CONV, indicator = k->folds.values && layer->bias;
    const size_t taps = conv ? (size_t)layer->conv_width : 1;
    const size_t columns = (size_t)layer->d_model / (conv ? h : 1);
    const size_t d_k = k->folds.scores ? in_kv : (size_t)layer->d_k;
    const size_t d_v = k->folds.values ? in_kv + indicator : (size_t)layer->d_v;
    float *source = narrowed(head->s, m * in_kv), *x = narrowed(head->x, rows * in_q);
    float *q, *keys = NULL, *values = NULL, *w_o = NULL;
    if (k->folds.scores) {
        float *g = pack_g(k, head);
        q = project(x, g, g + in_q * in_kv, rows, in_q, in_kv, k->order);
        free(k->last_g);
        k->last_g = g;
    } else {
        q = project_wide(head->x, head->w_q, head->b_q, rows, in_q, d_k, layer->scale * LOG2_E, k->order);
        keys = project_wide(head->s, head->w_k, head->b_k, m, in_kv, d_k, 1, k->order);
    }
    if (k->folds.values) {
        w_o = pack_h(k, head, taps, columns);
        free(k->last_h);
        k->last_h = w_o;
        if (!indicator && conv) { /* the row for the indicator is not there */
            for (size_t tap = 1; tap < taps; tap++)
                memmove(w_o + tap * in_kv * columns, w_o + tap * (in_kv + 1) * columns,
                        in_kv * columns * sizeof *w_o);
        }
    } else {
        if (!layer->identity)
            values = project_wide(head->s, head->w_v, head->b_v, m, in_kv, d_v, 1, k->order);
        if (layer->w_o != W_O_NONE)
            w_o = narrowed(head->w_o, taps * d_v * columns);
    }
    float *attn = k->attn != NULL ? k->attn + (head->b * h + head->i) * k->in->n * k->in->m : NULL;
    float *z = attend(k, head, rows, q, keys != NULL ? keys : source, values != NULL ? values : source, d_k, d_v,
                      indicator, attn, reference->z_rows.row);
    merge(k, reference, head, z, w_o, d_v, columns);
    if (!k->folds.values)
        free(w_o);
    free(source);
    free(x);
    free(q);
    free(keys);
    free(values);
    free(z);
}

/* The kernel against the bounds. */
static struct comparison run(const struct layer *layer, const struct inputs *in, struct folds folds, int order,
                             enum mutant mutant)
{
    const size_t count = inputs_count(layer, in, TENSOR_Y);
    const float *b_o = inputs_floats(in, TENSOR_B_O);
    struct kernel k = {.layer = layer, .in = in, .folds = folds, .order = order, .mutant = mutant, .y = floats(count)};
    struct reference reference;
    struct bounds bounds;
    struct comparison c = {0};
    k.folds.values = folds.values && !layer->identity && layer->w_o != W_O_NONE;
    if (layer->scores)
        k.attn = floats(inputs_count(layer, in, TENSOR_ATTN));
    for (size_t at = 0; b_o != NULL && at < count; at++)
        k.y[at] = b_o[at % (size_t)layer->d_out];
    reference_compute(&reference, layer, in, true, run_head, &k);
    reference_free(&reference);
    bounds_compute(&reference, &bounds, layer, in, folds, true);
    if (bounds.y_worst != NULL)
        compare_y(&c, layer, in, &reference, &bounds, k.y);
    if (layer->scores && bounds.attn_worst != NULL)
        compare_attn(&c, layer, in, &reference, &bounds, k.attn);
    reference_free(&reference);
    free(k.y);
    free(k.attn);
    free(k.last_g);
    free(k.last_h);
    return c;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every kind of layer and folding: within the bound, and near enough to it for the bound to be of use. */
static void test_folded_kernels_pass(void **state)
{
    for (int which = 0; which < 4; which++) {
        struct random random = {2};
        double ratio[LAYERS];
        size_t count = 0;
        for (int trial = 0; trial < LAYERS; trial++) {
            char spec[500];
            draw_spec(&random, spec, sizeof spec);
            struct layer *layer = layer_of(spec);
            struct inputs in = inputs_of(layer, &random, false);
            struct comparison c = run(layer, &in, all_folds[which], trial % 3, SOUND);
            if (c.misses > 0)
                fail_msg("layer %d, fold %s: %g of the bound\n%s", trial, fold_names[which], c.ratio, spec);
            ratio[count++] = c.ratio;
            inputs_free(&in);
            layer_free(layer);
        }
        qsort(ratio, count, sizeof *ratio, ascending);
        print_message("fold %-6s %zu layers: %.2g … %.2g (median) … %.2g (19 of 20) … %.2g of the bound\n",
                      fold_names[which], count, ratio[0], ratio[count / 2], ratio[count * 19 / 20], ratio[count - 1]);
        assert_true(ratio[count / 2] > 0.001 && ratio[count / 2] < 0.3);
    }
}

/* ---- mutants ----------------------------------------------------------------------------------------------------- */

static const char *const sound_specs[] = {
    "d_model = 24\nh = 3\nseq_len = 40\nmask = causal+no_self\nbias = true\n",
    "d_model = 24\nh = 3\nseq_len = 40\nmask = causal+no_self\nbias = true\nwidth = wide\nscores = true\n",
    "d_model = 24\nh = 4\nh_kv = 2\nseq_len = 40\nmask = causal+no_self\nbias = true\nd_k = 20\nd_v = 16\n",
    "d_model = 24\nh = 3\nseq_len = 40\nmask = causal+no_self\nbias = true\nw_o = conv\nd_v = 11\n",
    "d_model = 48\nh = 3\nseq_len = 40\nmask = causal+no_self\nbias = true\ninput = split\nweight_layout = out_in\n",
    "d_model = 24\nh = 3\nseq_len = 40\nmask = causal+no_self\nbias = true\nattention = cross\nd_source = 18\n",
    "d_model = 160\nh = 2\nseq_len = 90\nmask = causal+no_self\nbias = true\nwidth = wide\n",
    "d_model = 24\nh = 3\nseq_len = 40\nmask = no_self+padding\nbias = true\nw_o = conv\nconv_width = 4\n",
};

/* Whether the layer with these folds has what the mutant breaks, and its bound is below that: roundings to bf16 are within
 * that of sums of 160 numbers. */
static bool applies(enum mutant mutant, const struct layer *layer, struct folds folds)
{
    const bool of_scores = mutant >= G_IN_BF16 && mutant <= C_FORGOTTEN;
    const bool of_values = mutant >= H_IN_BF16 && mutant <= INDICATOR_PAST_LENGTHS;
    const bool padded_conv = layer->w_o == W_O_CONV && (layer->mask & MASK_PADDING);
    const bool within = (mutant == G_IN_BF16 || mutant == H_IN_BF16) && layer->d_model >= 160;
    return !within && (folds.scores || !of_scores) && (folds.values || !of_values) &&
           (mutant != INDICATOR_PAST_LENGTHS || padded_conv) &&
           (mutant != G_TRANSPOSED || layer->d_in_q == layer->d_in_kv);
}

static void test_mutants_fail(void **state)
{
    for (size_t s = 0; s < sizeof sound_specs / sizeof *sound_specs; s++) {
        struct random random = {s};
        struct layer *layer = layer_of(sound_specs[s]);
        struct inputs in = inputs_of(layer, &random, true);
        int32_t *lengths = in.tensor[TENSOR_LENGTHS];
        if (lengths != NULL) { /* a row that sees nothing, and rows past the end */
            lengths[0] = 1;
            lengths[1] = 30;
        }
        for (int which = 1; which < 4; which++) {
            double min = INFINITY;
            int min_mutant = SOUND;
            assert_int_equal(run(layer, &in, all_folds[which], 0, SOUND).misses, 0);
            for (int mutant = SOUND + 1; mutant < MUTANTS; mutant++) {
                if (!applies(mutant, layer, all_folds[which]))
                    continue;
                struct comparison c = run(layer, &in, all_folds[which], 0, mutant);
                if (c.misses == 0)
                    fail_msg("mutant %d passes with fold %s: %g of the bound\n%s", mutant, fold_names[which],
                             c.ratio, sound_specs[s]);
                if (c.ratio < min) {
                    min = c.ratio;
                    min_mutant = mutant;
                }
            }
            print_message("layer %zu, fold %-6s the nearest mutant, %d, is at %.3g of the bound\n", s, fold_names[which],
                          min_mutant, min);
        }
        inputs_free(&in);
        layer_free(layer);
    }
}

/* Where folding makes small weights of large ones, the bound is that of the small ones, and no smaller than what
 * packing in double may leave of a weight that is zero. */
static void test_the_bound_is_the_folded_one(void **state)
{
    struct random random = {3};
    struct layer *layer = layer_of("d_model = 2\nh = 1\nseq_len = 20\nd_k = 2\nd_v = 2\n");
    struct inputs in = inputs_of(layer, &random, true);
    float *w_v = in.tensor[TENSOR_W_V], *w_o = in.tensor[TENSOR_W_O];
    const float cancelling[4] = {1000, 1000, 1000, 1000}, opposite[4] = {1000.5f, 1, -1000, -1};
    memcpy(w_v, cancelling, sizeof cancelling);
    memcpy(w_o, opposite, sizeof opposite);
    struct reference reference, folded_reference;
    struct bounds plain, folded;
    bounds_compute(&reference, &plain, layer, &in, (struct folds){0}, true);
    bounds_compute(&folded_reference, &folded, layer, &in, (struct folds){.values = true}, true);
    for (size_t at = 0; at < 2 * in.n * in.batch; at += 2) {
        assert_true(folded.y_worst[at] < 0.01 * plain.y_worst[at]);
        assert_true(folded.y_worst[at + 1] > 1e-12); /* its exact value is 0 */
        assert_true(folded.y_worst[at + 1] < 1e-6 * plain.y_worst[at + 1]);
    }
    for (int which = 1; which < 4; which++)
        assert_int_equal(run(layer, &in, all_folds[which], 0, SOUND).misses, 0);
    reference_free(&reference);
    reference_free(&folded_reference);
    inputs_free(&in);
    layer_free(layer);
}

/* NaN in a hidden row is nothing to the bound; in a visible one, kernel and reference agree that it is seen. In y, that
 * is: where a folded score is -infinity, of an infinite source, attn may be finite though the reference's is NaN. */
static void test_non_finite_sources(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e30f, 3e38f};
    for (size_t s = 0; s < 6; s++)
        for (size_t v = 0; v < sizeof bad / sizeof *bad; v++)
            for (int which = 1; which < 4; which++) {
                struct random random = {s};
                struct layer *layer = layer_of(sound_specs[s]);
                struct inputs in = inputs_of(layer, &random, true);
                layer->scores = layer->scores && !isinf(bad[v]);
                ((float *)in.tensor[TENSOR_X])[30 * layer->d_model + 5] = bad[v]; /* rows 30 … of sequence 0 */
                if (layer->cross)
                    ((float *)in.tensor[TENSOR_SOURCE])[30 * layer->d_source + 5] = bad[v];
                struct comparison c = run(layer, &in, all_folds[which], 0, SOUND);
                if (c.misses > 0)
                    fail_msg("%g, fold %s: %s[%zu][%zu][%zu][%zu] is %g, not %g; %zu of %zu\n%s", bad[v],
                             fold_names[which], layer_tensor_name(c.tensor), c.index[0], c.index[1], c.index[2],
                             c.index[3], c.actual, c.expected, c.misses, c.elements, sound_specs[s]);
                /* rows 0 … 29 (28: conv), and sequence 1 */
                assert_true(c.elements - c.unbounded >= (size_t)(69 * layer->d_model));
                inputs_free(&in);
                layer_free(layer);
            }
}

/* More rows than are all checked, for each kind of merge. */
static void test_sampled_rows(void **state)
{
    static const char *const merges[] = {"w_o = dense", "w_o = conv\nconv_width = 4"};
    for (size_t s = 0; s < 2; s++) {
        char spec[300];
        struct random random = {4};
        snprintf(spec, sizeof spec, "d_model = 12\nh = 2\nseq_len = 600\nbias = true\nd_k = 9\nd_v = 7\n%s\n",
                 merges[s]);
        struct layer *layer = layer_of(spec);
        struct inputs in = inputs_of(layer, &random, true);
        for (int which = 0; which < 4; which++)
            assert_int_equal(run(layer, &in, all_folds[which], 0, SOUND).misses, 0);
        assert_true(run(layer, &in, all_folds[3], 0, B_V_FORGOTTEN).misses > 0);
        inputs_free(&in);
        layer_free(layer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folding_changes_nothing),
        cmocka_unit_test(test_folded_kernels_pass),
        cmocka_unit_test(test_mutants_fail),
        cmocka_unit_test(test_the_bound_is_the_folded_one),
        cmocka_unit_test(test_non_finite_sources),
        cmocka_unit_test(test_sampled_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
