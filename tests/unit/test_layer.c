/* SPDX-License-Identifier: MIT */
/* The spec reader and what follows from a layer: defaults, derived sizes, legal combinations, counts against
 * brute force over every pair, and the walk's totals.
 *
 * Left out on purpose: the refusals word by word (tests/bad/, run by test_bad.sh); here only that they refuse.
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

#include "base/diag.h"
#include "emit/explain.h"
#include "plan/isa.h"
#include "spec/keys.h"
#include "spec/layer.h"
#include "spec/score.h"
#include "spec/visible.h"

#define BASE "d_model = 64\nh = 4\nseq_len = 32\n"
#define BROUGHT "input = projected\nh = 4\nd_k = 16\nseq_len = 32\n"
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static char folder[] = "/tmp/test_layer.XXXXXX";
static FILE *nowhere; /* for reports that nobody reads */

static int make_folder(void **state)
{
    nowhere = fopen("/dev/null", "w");
    return nowhere != NULL && mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    fclose(nowhere);
    return rmdir(folder);
}

/* ---- reading from text ----------------------------------------------------------------------------------- */

static struct layer *read_bytes(const char *file, const char *bytes, size_t length, const char *const *set,
                                size_t set_count, struct diag *diag)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, length, out), length);
    assert_int_equal(fclose(out), 0);
    struct layer *layer = layer_read(path, set, set_count, diag);
    unlink(path);
    return layer;
}

/* A good spec. */
static struct layer *good(const char *text)
{
    struct diag diag = {0};
    struct layer *layer = read_bytes("spec.layer", text, strlen(text), NULL, 0, &diag);
    if (layer == NULL) {
        fprintf(stderr, "refused:\n%s", text);
        diag_report(&diag, stderr);
    }
    assert_non_null(layer);
    assert_int_equal(diag.errors, 0);
    return layer;
}

/* Scores of narrow heads are of whole numbers where the rule of docs/types.md says so. */
static void test_narrow_heads(void **state)
{
    (void)state;
    static const struct {
        int features, keys;
        const char *precision;
        bool bytes, pairs; /* whether they are, on sets with four numbers in a word and on AVX2 and SSE4 */
    } cases[] = {{7, 1000, "i8", false, false},  {8, 55, "i8", false, false},  {8, 56, "i8", true, false},
                 {16, 27, "i8", false, false},   {16, 28, "i8", true, false},  {31, 14, "i8", false, false},
                 {31, 15, "i8", true, false},    {32, 1, "i8", true, true},    {31, 1000, "i16", false, false},
                 {32, 1, "i16", true, true},     {64, 64, "f32", false, false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[200];
        snprintf(text, sizeof text, "d_model = 64\nh = 2\nd_k = %d\nseq_len = %d\nprecision = %s\n", cases[i].features,
                 cases[i].keys, cases[i].precision);
        struct layer *layer = good(text);
        assert_int_equal(layer_rounds_scores(layer, false), cases[i].bytes);
        assert_int_equal(layer_rounds_scores(layer, true), cases[i].pairs);
        assert_int_equal(layer_shortens_weights(layer), strcmp(cases[i].precision, "f32") != 0);
        layer_free(layer);
    }
}

/* Number of errors of a bad spec. */
static size_t errors_of(const char *text)
{
    struct diag diag = {0};
    struct layer *layer = read_bytes("spec.layer", text, strlen(text), NULL, 0, &diag);
    const size_t errors = diag.errors;
    if ((layer == NULL) != (errors > 0))
        fprintf(stderr, "%zu errors of:\n%s", errors, text);
    assert_true((layer == NULL) == (errors > 0));
    assert_int_equal(diag_report(&diag, nowhere), errors > 0 ? EXIT_USAGE : EXIT_GOOD);
    layer_free(layer);
    diag_free(&diag);
    return errors;
}

static void test_defaults(void **state)
{
    struct layer *layer = good(BASE);
    assert_string_equal(layer->name, "spec");
    assert_int_equal(layer->d_model, 64);
    assert_int_equal(layer->h, 4);
    assert_int_equal(layer->h_kv, 4);
    assert_int_equal(layer->d_k, 16);
    assert_int_equal(layer->d_v, 16);
    assert_int_equal(layer->d_source, 64);
    assert_int_equal(layer->seq_len, 32);
    assert_int_equal(layer->source_len, 32);
    assert_int_equal(layer->width, WIDTH_NARROW);
    assert_false(layer->split || layer->cross || layer->tied || layer->identity);
    assert_false(layer->bias || layer->scores || layer->out_in);
    assert_int_equal(layer->w_o, W_O_DENSE);
    assert_int_equal(layer->conv_width, 3);
    assert_int_equal(layer->mask, 0);
    assert_int_equal(layer->window_left, LAYER_UNBOUNDED);
    assert_int_equal(layer->window_right, LAYER_UNBOUNDED);
    assert_true(layer->scale == 0.25);
    assert_false(layer->projected || layer->heads_first || layer->pad_skipped || layer->sink || layer->lse);
    assert_int_equal(layer->offset, OFFSET_NONE);
    assert_int_equal(layer->qk_norm, NORM_NONE);
    assert_int_equal(layer->rope.kind, ROPE_NONE);
    assert_int_equal(layer->relative, RELATIVE_NONE);
    assert_int_equal(layer->scores, SCORES_NONE);
    assert_int_equal(layer->options_count, 0);
    assert_int_equal(layer->d_in_q, 64);
    assert_int_equal(layer->d_in_kv, 64);
    assert_int_equal(layer->d_out, 64);
    layer_free(layer);
}

/* Everything that is a default may be written, and changes nothing. */
static void test_restated_defaults(void **state)
{
    struct layer *layer = good(BASE "name = spec\nh_kv = 4\nwidth = narrow\ninput = shared\nattention = self\n"
                               "mask = none\nw_k = dense\nw_v = dense\nw_o = dense\nbias = false\nscale = 0.25\n"
                               "scores = false\nweight_layout = in_out\n");
    assert_int_equal(layer->d_k, 16);
    assert_int_equal(layer->mask, 0);
    layer_free(layer);
    layer = good(BASE "attention = cross\nd_source = 64\nsource_len = 32\nw_o = conv\nconv_width = 3\n"
                      "mask = window\nwindow_left = unbounded\nwindow_right = 4\n");
    assert_int_equal(layer->d_source, 64);
    assert_int_equal(layer->window_left, LAYER_UNBOUNDED);
    layer_free(layer);
    layer = good(BASE "offset = none\npad_rows = computed\nqk_norm = none\nrope = none\nrope_positions = offset\n"
                      "rope_scaling = none\nalibi = false\nrelative = none\nsink = false\nscores = false\nlse = false\n"
                      "softcap = none\ntrain = false\ndropout = 0\n");
    assert_true(layer->number[SCORE_SOFTCAP] == 0 && layer->dropout == 0 && layer_dropped(layer) == 0);
    assert_false(layer->pad_skipped || layer->sink || layer->lse || layer->rope.given);
    layer_free(layer);
}

/* Defaults of numbers, restated or not. */
static void test_numbers(void **state)
{
    static const char *const specs[] = {
        BASE "qk_norm = rms\nrope = half\nrope_scaling = llama3\nrope_factor = 8\nrope_original_len = 8192\nrelative = t5\n",
        BASE "qk_norm = rms\nrope = half\nrope_scaling = llama3\nrope_factor = 8\nrope_original_len = 8192\nrelative = t5\n"
             "norm_eps = 1e-6\nrope_dims = 16\nrope_theta = 10000\nrope_low = 1\nrope_high = 4\nrel_buckets = 32\n"
             "rel_distance = 128\n"};
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct layer *layer = good(specs[i]);
        assert_true(layer->norm_eps == 1e-6 && layer->rope.theta == 10000 && layer->rope.dims == 16);
        assert_true(layer->rope.factor == 8 && layer->rope.original_len == 8192);
        assert_true(layer->rope.low == 1 && layer->rope.high == 4 && layer->rope.attention_factor == 1);
        assert_int_equal(layer->rel_buckets, 32);
        assert_int_equal(layer->rel_distance, 128);
        layer_free(layer);
    }
    struct layer *layer = good(BASE "rope = interleaved\nrope_dims = 6\nrope_scaling = yarn\nrope_factor = 4\n"
                                    "rope_original_len = 64\n");
    assert_true(layer->rope.beta_fast == 32 && layer->rope.beta_slow == 1);
    assert_true(layer->rope.attention_factor == 0.1 * log(4) + 1);
    assert_int_equal(layer->rope.dims, 6);
    layer_free(layer);
    layer = good(BASE "relative = table\nrel_left = 3\n");
    assert_int_equal(layer->rel_width, 4);
    layer_free(layer);
}

/* What a call brings projected: widths, and whose y. */
static void test_projected(void **state)
{
    static const struct {
        const char *more;
        int64_t d_v, d_out, m;
    } cases[] = {
        {"w_o = none\n", 16, 64, 32},
        {"w_o = none\nd_v = 5\nheads = first\n", 5, 20, 32},
        {"w_o = none\nsource_len = 7\nheads = last\nbias = true\nweight_layout = out_in\n", 16, 64, 7},
        {"d_model = 9\nd_v = 5\nbias = true\n", 5, 9, 32},
        {"w_o = conv\nd_model = 8\nh_kv = 1\n", 16, 8, 32},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[300];
        snprintf(text, sizeof text, BROUGHT "%s", cases[i].more);
        struct layer *layer = good(text);
        assert_true(layer->projected && !layer->cross);
        assert_int_equal(layer->d_k, 16);
        assert_int_equal(layer->d_v, cases[i].d_v);
        assert_int_equal(layer->d_out, cases[i].d_out);
        assert_int_equal(layer->source_len, cases[i].m);
        layer_free(layer);
    }
}

#define LINEAR "layer = linear\nd_in = 6\nd_out = 10\nseq_len = 4\n"
#define FFN "layer = ffn\nd_model = 6\nd_ff = 9\nseq_len = 4\n"

static void test_without_attention(void **state)
{
    const struct { const char *text; double work; int64_t parameters, norms; } cases[] = {
        {LINEAR, 4 * 6 * 10, 6 * 10, 0}, {LINEAR "bias = true\nnorm = layer\n", 4 * 6 * 10, 6 * 10 + 10 + 12, 1},
        {LINEAR "norm = rms\n", 4 * 6 * 10, 6 * 10 + 6, 1}, {LINEAR "norm = none\n", 4 * 6 * 10, 6 * 10, 0},
        {FFN "ffn = gelu\n", 4 * 2 * 6 * 9, 2 * 6 * 9, 0},
        {FFN "ffn = geglu\nffn_bias = true\nblock = pre\n", 4 * 3 * 6 * 9, 3 * 6 * 9 + 9 + 9 + 6 + 12, 1},
        {FFN "ffn = silu\nblock = sandwich\nnorm = rms\n", 4 * 2 * 6 * 9, 2 * 6 * 9 + 12, 2}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct layer *layer = good(cases[i].text);
        int64_t shape[4];
        assert_true(!layer_attends(layer) && layer->self && layer->mask == 0 && layer->d_model == 6);
        assert_true(layer_multiply_adds(layer, 4, 4).total == cases[i].work);
        assert_int_equal(layer_parameters(layer).total, cases[i].parameters);
        assert_int_equal(layer_norms(layer), cases[i].norms);
        assert_int_equal(layer_tensor_shape(layer, TENSOR_Y, &(struct layer_call){2, 3, 3, 0}, shape), 3);
        assert_true(shape[0] == 2 && shape[1] == 3 && shape[2] == (layer_is_linear(layer) ? 10 : 6));
        layer_free(layer);
    }
    struct layer *layer = good(LINEAR "weight_layout = out_in\nsoftcap = 2.5\nactivation = silu\n");
    int64_t shape[4];
    assert_true(layer_weight_shape(layer, TENSOR_W, shape) == 2 && shape[0] == 10 && shape[1] == 6);
    assert_true(layer->cap == 2.5 && layer_activation(layer) == ACTIVATION_SILU && !layer_has_block(layer));
    layer_free(layer);
}

static void test_every_key(void **state)
{
    struct layer *layer = good("name=every_key\nd_model=60\nh=6\nh_kv=2\nd_k=8\nd_v=20\nattention=cross\n"
                               "d_source=40\nseq_len=7\nsource_len=9\nw_o=conv\nconv_width=4\nbias=true\n"
                               "mask = causal + padding+no_self +window+ bool+additive\nwindow_left=0\nwindow_right=5\n"
                               "scale=-2.5e-1\nscores=true\nweight_layout=out_in\nplan.unroll = full\n"
                               "plan.x_1 = a b\n");
    assert_string_equal(layer->name, "every_key");
    assert_int_equal(layer->h_kv, 2);
    assert_int_equal(layer->width, WIDTH_GIVEN);
    assert_int_equal(layer->d_k, 8);
    assert_int_equal(layer->d_v, 20);
    assert_true(layer->cross && layer->bias && layer->scores && layer->out_in);
    assert_int_equal(layer->d_source, 40);
    assert_int_equal(layer->source_len, 9);
    assert_int_equal(layer->w_o, W_O_CONV);
    assert_int_equal(layer->conv_width, 4);
    assert_int_equal(layer->mask, 63);
    assert_int_equal(layer->window_left, 0);
    assert_int_equal(layer->window_right, 5);
    assert_true(layer->scale == -0.25);
    assert_int_equal(layer->options_count, 2);
    assert_string_equal(layer->options[0].key, "plan.unroll");
    assert_string_equal(layer->options[0].value, "full");
    assert_string_equal(layer->options[1].key, "plan.x_1");
    assert_string_equal(layer->options[1].value, "a b");
    assert_non_null(strstr(layer->options[1].place, "spec.layer:21"));
    layer_free(layer);
}

/* Widths and what a head reads, for each way of saying them. */
static void test_derived(void **state)
{
    static const struct {
        const char *more;
        int64_t d_k, d_v, d_in_q, d_in_kv, d_out;
    } cases[] = {
        {"", 15, 15, 60, 60, 60},
        {"width = wide\n", 60, 60, 60, 60, 60},
        {"d_k = 8\n", 8, 15, 60, 60, 60},
        {"d_v = 8\n", 15, 8, 60, 60, 60},
        {"d_k = 8\nwidth = wide\n", 8, 60, 60, 60, 60},
        {"d_v = 8\nwidth = wide\n", 60, 8, 60, 60, 60},
        {"d_k = 7\nd_v = 9\n", 7, 9, 60, 60, 60},
        {"d_k = 7\nd_v = 9\nw_o = none\n", 7, 9, 60, 60, 36},
        {"w_o = none\n", 15, 15, 60, 60, 60},
        {"w_o = none\nwidth = wide\n", 60, 60, 60, 60, 240},
        {"w_v = identity\n", 15, 60, 60, 60, 60},
        {"w_v = identity\nd_k = 8\nwidth = wide\n", 8, 60, 60, 60, 60},
        {"w_v = identity\nattention = cross\nd_source = 20\nw_o = none\n", 15, 20, 60, 20, 80},
        {"input = split\n", 15, 15, 15, 15, 60},
        {"input = split\nwidth = wide\n", 60, 60, 15, 15, 60},
        {"input = split\nw_v = identity\n", 15, 15, 15, 15, 60},
        {"input = split\nw_v = identity\nattention = cross\nd_source = 20\n", 15, 5, 15, 5, 60},
        {"attention = cross\nd_source = 20\n", 15, 15, 60, 20, 60},
        {"h_kv = 1\nd_v = 3\n", 15, 3, 60, 60, 60},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[300];
        snprintf(text, sizeof text, "d_model = 60\nh = 4\nseq_len = 5\n%s", cases[i].more);
        struct layer *layer = good(text);
        assert_int_equal(layer->d_k, cases[i].d_k);
        assert_int_equal(layer->d_v, cases[i].d_v);
        assert_int_equal(layer->d_in_q, cases[i].d_in_q);
        assert_int_equal(layer->d_in_kv, cases[i].d_in_kv);
        assert_int_equal(layer->d_out, cases[i].d_out);
        assert_true(layer->scale == 1 / sqrt((double)cases[i].d_k));
        layer_free(layer);
    }
}

/* What a cache makes of a layer. */
static void test_cache(void **state)
{
    static const char base[] = "d_model = 60\nh = 4\nh_kv = 2\nd_v = 9\nseq_len = 5\nmask = window+bool\nwindow_left = 3\n";
    int64_t shape[4];
    const struct layer_call call = {2, 3, 3, 11};
    char text[300];
    snprintf(text, sizeof text, "%scache = paged\ncache_len = 30\npage_len = 7\n", base);
    struct layer *layer = good(text);
    assert_true(layer->cache == CACHE_PAGED && layer->offset == OFFSET_PAST && layer_is_square(layer));
    assert_int_equal(layer->source_len, 30);
    assert_int_equal(layer->page_count, 5);
    assert_int_equal(layer_tensor_shape(layer, TENSOR_K_PAGES, &call, shape), 4);
    assert_true(shape[0] == 11 && shape[1] == 2 && shape[2] == 7 && shape[3] == 15);
    assert_int_equal(layer_tensor_shape(layer, TENSOR_PAGE_TABLE, &call, shape), 2);
    assert_true(shape[0] == 2 && shape[1] == 5);
    assert_int_equal(layer_tensor_shape(layer, TENSOR_MASK_BOOL, &call, shape), 4);
    assert_true(shape[2] == 3 && shape[3] == 30);
    assert_int_equal(layer_tensor_shape(layer, TENSOR_V_CACHE, &call, shape), 0);
    /* 3 queries at 20, 21, 22 with a window of 3 on the left see 4 keys before and at them, and the later ones */
    const struct layer_cost cost = layer_multiply_adds(layer, 3, 23);
    assert_true(cost.k == 3 * 60 * 2 * 15 && cost.v == 3 * 60 * 2 * 9);
    assert_true(cost.scores == (6 + 5 + 4) * 4 * 15 && cost.values == (6 + 5 + 4) * 4 * 9);
    layer_free(layer);
    layer = good("d_model = 60\nh = 4\nseq_len = 5\nmask = causal+window\nwindow_left = 3\ncache = ring\ncache_len = 8\n");
    assert_int_equal(layer_tensor_shape(layer, TENSOR_V_CACHE, &call, shape), 4);
    assert_true(shape[0] == 2 && shape[1] == 4 && shape[2] == 8 && shape[3] == 15);
    assert_int_equal(layer->page_count, 0);
    layer_free(layer);
}

/* Legal although near a refusal. */
static void test_legal(void **state)
{
    static const char *const specs[] = {
        "d_model = 20\nh = 3\nd_k = 12\nd_v = 16\nseq_len = 1\n",                   /* no width comes from narrow */
        "d_model = 20\nh = 3\nwidth = wide\nseq_len = 1\n",
        "d_model = 20\nh = 3\nd_k = 12\nw_v = identity\nseq_len = 1\n",
        "d_model = 20\nh = 3\nd_k = 12\nw_v = identity\nwidth = narrow\nseq_len = 1\n",
        "d_model = 20\nh = 3\nd_k = 12\nd_v = 4\nattention = cross\nd_source = 7\nseq_len = 1\n",
        "d_model = 1\nh = 1\nseq_len = 1\n",
        "d_model = 1\nh = 2147483647\nd_k = 1\nd_v = 1\nseq_len = 1\n",
        BASE "input = split\nh_kv = 4\n",
        BASE "w_k = tied\nattention = cross\nd_source = 64\n",
        BASE "w_k = tied\nw_v = identity\nh_kv = 4\n",
        BASE "mask = window\nwindow_left = 0\n",
        BASE "mask = window+no_self\nwindow_left = 0\nwindow_right = 0\n",           /* sees nothing, and may */
        BASE "mask = causal+window\nwindow_right = 2147483647\n",
        BASE "w_o = conv\nconv_width = 100\n",
        BASE "scale = 0\n", BASE "scale = -1\n", BASE "scale = 0x1p-3\n", BASE "scale = 0e-400\n",
        BASE "scale = 2.35e38\n", BASE "scale = -2.3586e38\n", BASE "scale = 8.15e-39\n", BASE "scale = -8.148e-39\n",
        "d_model = 536870912\nh = 1\nseq_len = 1\n",
        "d_model = 0064\nh = 4\nseq_len = 32\n",
        BASE "scores = capped\n", BASE "scores = weights\nlse = true\n", BASE "scores = raw\nsoftcap = 30\n",
        BASE "softcap = 8.15e-39\n", BASE "scores = biased\nsink = true\n",
        BASE "attention = cross\noffset = past\nmask = causal+prefix\nalibi = true\nqk_norm = rms_all\nh_kv = 2\n",
        BASE "attention = cross\nsource_len = 40\noffset = end\nmask = segments\nrelative = t5\nsink = true\n",
        BASE "mask = padding\npad_rows = skipped\nw_o = conv\n",
        BASE "input = split\nrope = half\nrope_positions = given\nqk_norm = l2\nnorm_eps = 1e-12\n",
        BASE "w_k = tied\nqk_norm = layer\nrope = interleaved\n",
        BASE "d_k = 9\nrope = half\nrope_dims = 2\nrope_scaling = linear\nrope_factor = 0.5\n",
        BASE "rope = half\nrope_theta = 1\n", BASE "rope = half\nrope_theta = 0.5\n",
        BASE "rope = half\nrope_theta = 1e-3\nrope_scaling = linear\nrope_factor = 1e-3\n",
        BASE "rope = half\nrope_scaling = yarn\nrope_factor = 1\nrope_original_len = 1.5\nrope_beta_fast = 1\n"
             "rope_beta_slow = 2\nrope_truncate = false\nrope_attention_factor = 0.5\n",
        BASE "relative = t5\nrel_buckets = 4\nrel_distance = 2\n",
        BASE "relative = t5\nrel_buckets = 12\nrel_distance = 7\nmask = causal\nalibi = true\n",
        BASE "relative = table\nrel_left = 0\n", BASE "relative = table\nrel_left = 2147483646\nrel_right = 0\n",
        BROUGHT "w_o = none\nrope = half\nrope_positions = given\nsource_len = 40\noffset = end\nscores = true\n",
        BROUGHT "w_o = none\nmask = segments+causal+prefix+padding\noffset = past\nlse = true\n",
        BROUGHT "d_model = 66\nqk_norm = layer\nsoftcap = 1\n",
    };
    for (size_t i = 0; i < COUNT_OF(specs); i++)
        layer_free(good(specs[i]));
}

/* Names are prefixes, so only whole words are refused. */
static void test_names(void **state)
{
    static const char *const fine[] = {"tiny", "transformer_base", "torch_mha_self", "memory", "string_layer",
                                       "isolated", "Int", "x", "encoder", "not_this", "printf_layer", "A1_b2"};
    static const char *const refused[] = {
        "if", "_x", "_X", "__x", "x__y", "x_", "1x", "a-b", "a.b", "a b", "and", "or_eq", "class", "thread_local",
        "alignas", "nullptr", "constexpr", "char8_t", "wchar_t", "_Bool", "_Generic", "asm", "import-it", "errno",
        "assert",
        "NULL", "printf", "malloc", "cosf", "cosl", "strlen", "main", "size_t", "int32_t", "true", "std"};
    char text[200], name[80];
    for (size_t i = 0; i < COUNT_OF(fine); i++) {
        snprintf(text, sizeof text, BASE "name = %s\n", fine[i]);
        struct layer *layer = good(text);
        assert_string_equal(layer->name, fine[i]);
        layer_free(layer);
    }
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        snprintf(text, sizeof text, BASE "name = %s\n", refused[i]);
        assert_int_equal(errors_of(text), 1);
    }
    memset(name, 'n', sizeof name);
    snprintf(text, sizeof text, BASE "name = %.63s\n", name);
    layer_free(good(text));
    snprintf(text, sizeof text, BASE "name = %.64s\n", name);
    assert_int_equal(errors_of(text), 1);
}

/* The name is the stem where there is none, and then must be a name. */
static void test_stem(void **state)
{
    static const struct { const char *file, *name; } cases[] = {
        {"one.layer", "one"}, {"two", "two"}, {"three.spec", "three"}, {"fo-ur.layer", NULL}, {"five.6.layer", NULL},
        {".layer", NULL}, {"int.layer", NULL}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct diag diag = {0};
        struct layer *layer = read_bytes(cases[i].file, BASE, strlen(BASE), NULL, 0, &diag);
        assert_int_equal(diag.errors, cases[i].name == NULL);
        if (cases[i].name != NULL)
            assert_string_equal(layer->name, cases[i].name);
        layer_free(layer);
        diag_free(&diag);
    }
}

/* ---- lines ----------------------------------------------------------------------------------------------- */

static void test_text_forms(void **state)
{
    static const char *const same[] = {
        "d_model = 64\nh = 4\nseq_len = 32",                                         /* no last newline */
        "d_model = 64\r\nh = 4\r\nseq_len = 32\r\n",
        "d_model = 64\r\nh = 4\nseq_len = 32\r",
        ("\xef\xbb\xbf" "d_model = 64\nh = 4\nseq_len = 32\n"),
        "\xef\xbb\xbf\r\n# a comment\r\nd_model=64#no blank\r\n\th\t=\t4\t\r\n  seq_len = 32  # why\r\n\r\n",
        "# d_model = 1\nh = 4\n\n\n   \n#\nseq_len = 32\nd_model = 64 # = 3 #\n",
        "# caf\xc3\xa9 \x01 in a comment is nobody's business\nd_model = 64\nh = 4\nseq_len = 32\n",
    };
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        struct layer *layer = good(same[i]);
        assert_int_equal(layer->d_model, 64);
        assert_int_equal(layer->h, 4);
        assert_int_equal(layer->seq_len, 32);
        layer_free(layer);
    }
}

static void test_nul_and_length(void **state)
{
    static const char nul[] = BASE "# \0\n";
    struct diag diag = {0};
    assert_null(read_bytes("spec.layer", nul, sizeof nul - 1, NULL, 0, &diag));
    assert_int_equal(diag.errors, 1);
    assert_non_null(strstr(diag.messages[0], "spec.layer:4: error: NUL byte"));
    diag_free(&diag);

    const size_t limit = 1u << 20;
    char *large = malloc(limit + 1);
    assert_non_null(large);
    memset(large, '\n', limit + 1);
    memcpy(large, BASE, strlen(BASE));
    struct layer *layer = read_bytes("spec.layer", large, limit, NULL, 0, &diag);
    assert_non_null(layer);
    layer_free(layer);
    assert_null(read_bytes("spec.layer", large, limit + 1, NULL, 0, &diag));
    assert_int_equal(diag_report(&diag, nowhere), EXIT_USAGE);
    diag_free(&diag);
    free(large);
}

static void test_unreadable(void **state)
{
    const char *const paths[] = {folder, "/nowhere/x.layer", ""};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct diag diag = {0};
        assert_null(layer_read(paths[i], NULL, 0, &diag));
        assert_int_equal(diag.errors, 1);
        assert_true(diag.environment);
        diag_free(&diag);
    }
}

static void test_set(void **state)
{
    static const char *const set[] = {"h=8", " mask = causal # comment", "plan.unroll=2", "name=other"};
    static const char text[] = BASE "mask = padding\nplan.unroll = full\nplan.fold = off\n";
    struct diag diag = {0};
    struct layer *layer = read_bytes("spec.layer", text, strlen(text), set, COUNT_OF(set), &diag);
    assert_non_null(layer);
    assert_int_equal(layer->h, 8);
    assert_int_equal(layer->d_k, 8);
    assert_int_equal(layer->mask, MASK_CAUSAL);
    assert_string_equal(layer->name, "other");
    assert_int_equal(layer->options_count, 2);
    assert_string_equal(layer->options[0].value, "2");
    assert_string_equal(layer->options[0].place, "--set plan.unroll=2");
    layer_free(layer);
}

/* An error that came before is not counted as the spec's. */
static void test_earlier_error(void **state)
{
    struct diag diag = {0};
    diag_error(&diag, "--isa", "something");
    struct layer *layer = read_bytes("spec.layer", BASE, strlen(BASE), NULL, 0, &diag);
    assert_non_null(layer);
    assert_int_equal(diag.errors, 1);
    layer_free(layer);
    diag_free(&diag);
}

static void test_many_errors(void **state)
{
    char *text = malloc(100000);
    assert_non_null(text);
    char *end = text + sprintf(text, BASE);
    for (int i = 0; i < 500; i++)
        end += sprintf(end, "plan.key_%d = %d\n", i, i);
    struct diag diag = {0};
    assert_null(read_bytes("spec.layer", text, strlen(text), NULL, 0, &diag));
    assert_int_equal(diag.errors, 500 - 256);
    diag_free(&diag);
    free(text);
}

/* ---- every combination ----------------------------------------------------------------------------------- */

/* The contract's refusals once more, as one expression, over all words and a few sizes: 28 thousand specs. */
static void test_all_combinations(void **state)
{
    static const char *const width[] = {"", "width = narrow\n", "width = wide\n"};
    static const char *const given[] = {"", "d_k = 5\n", "d_v = 7\n", "d_k = 5\nd_v = 7\n"};
    static const char *const w_o[] = {"", "w_o = none\n", "w_o = conv\n"};
    static const int h[] = {1, 3, 4}, h_kv[] = {0, 1, 2, 4}, d_source[] = {0, 12, 16};
    size_t legal = 0, refused = 0;
    for (int code = 0; code < 3 * 4 * 3 * 3 * 4 * 3 * 2 * 2 * 2 * 2; code++) {
        int rest = code;
        const int wi = rest % 3, gi = (rest /= 3) % 4, oi = (rest /= 4) % 3, hi = (rest /= 3) % 3;
        const int ki = (rest /= 3) % 4, si = (rest /= 4) % 3;
        const bool split = (rest /= 3) % 2, cross = (rest /= 2) % 2, tied = (rest /= 2) % 2, identity = (rest /= 2) % 2;

        const bool has_k = gi & 1, has_v = gi & 2;
        const int heads = h[hi], kv = h_kv[ki] != 0 ? h_kv[ki] : heads, source = d_source[si] != 0 ? d_source[si] : 12;
        const bool narrow = wi != 2 && (!has_k || (!has_v && !identity));
        const bool bad = (wi != 0 && has_k && has_v) || (identity && has_v) || (!cross && d_source[si] != 0) ||
                         (12 % heads != 0 && (narrow || split || oi == 2)) || (split && source % heads != 0) ||
                         heads % kv != 0 || (kv < heads && (split || tied || identity)) || (tied && source != 12);
        char text[400], number[2][40] = {"", ""};
        if (h_kv[ki] != 0)
            snprintf(number[0], sizeof number[0], "h_kv = %d\n", h_kv[ki]);
        if (d_source[si] != 0)
            snprintf(number[1], sizeof number[1], "d_source = %d\n", d_source[si]);
        snprintf(text, sizeof text, "d_model = 12\nseq_len = 3\nh = %d\n%s%s%s%s%s%s%s%s%s", heads, width[wi],
                 given[gi],
                 w_o[oi], number[0], number[1], split ? "input = split\n" : "", cross ? "attention = cross\n" : "",
                 tied ? "w_k = tied\n" : "", identity ? "w_v = identity\n" : "");
        const size_t errors = errors_of(text);
        if ((errors > 0) != bad)
            fprintf(stderr, "expected %s:\n%s", bad ? "a refusal" : "none", text);
        assert_true((errors > 0) == bad);
        *(bad ? &refused : &legal) += 1;
    }
    assert_true(legal > 500 && refused > 500);
}

/* Likewise for what a call brings projected: one more refusal for each key that has no meaning there. */
static void test_projected_combinations(void **state)
{
    static const struct {
        const char *line;
        bool idle;
    } keys[] = {{"heads = last\n", false}, {"width = narrow\n", true}, {"attention = self\n", true},
                {"d_source = 12\n", true}, {"w_k = dense\n", true}, {"w_v = dense\n", true}, {"d_v = 3\n", false},
                {"source_len = 9\n", false}, {"offset = end\n", false}};
    static const struct {
        const char *lines;
        size_t errors; /* of their own */
    } output[] = {{"d_model = 12\n", 0}, {"d_model = 13\n", 0}, {"", 1}, {"w_o = none\n", 0},
                  {"w_o = none\nd_model = 12\n", 1}, {"w_o = conv\nd_model = 12\n", 0},
                  {"w_o = conv\nd_model = 13\n", 1}, {"w_o = conv\n", 1}};
    for (unsigned chosen = 0; chosen < 1u << COUNT_OF(keys); chosen++)
        for (size_t o = 0; o < COUNT_OF(output); o++) {
            char text[400];
            size_t errors = output[o].errors;
            int used = snprintf(text, sizeof text, BROUGHT "%s", output[o].lines);
            for (size_t i = 0; i < COUNT_OF(keys); i++)
                if ((chosen >> i & 1) != 0) {
                    used += snprintf(text + used, sizeof text - (size_t)used, "%s", keys[i].line);
                    errors += keys[i].idle;
                }
            if (errors_of(text) != errors)
                fail_msg("expected %zu errors of:\n%s", errors, text);
        }
}

/* Sources of 16 columns a head, for the keys of more kinds. */
static const char *const sources[] = {BASE, BASE "attention = cross\n", BROUGHT "w_o = none\n"};
enum { OF_SELF, OF_CROSS, OF_CALL };

/* `number` is one of the choices, taken off *code. */
static size_t choose(size_t *code, size_t number)
{
    const size_t chosen = *code % number;
    *code /= number;
    return chosen;
}

static void expect(const char *text, bool bad, size_t counts[2])
{
    if ((errors_of(text) > 0) != bad)
        fail_msg("expected %s:\n%s", bad ? "a refusal" : "none", text);
    counts[bad]++;
}

static void test_rope_combinations(void **state)
{
    static const char *const dims[] = {"", "rope_dims = 6\n", "rope_dims = 7\n", "rope_dims = 18\n"};
    static const char *const scaling[] = {"", "rope_scaling = none\n", "rope_scaling = linear\n", "rope_scaling = llama3\n",
                                          "rope_scaling = yarn\n"};
    static const char *const factor[] = {"", "rope_factor = 0.5\n", "rope_factor = 2\n"};
    size_t counts[2] = {0};
    for (size_t code = 0; code < 3 * 2 * 4 * 5 * 3 * 2 * 2 * 2; code++) {
        size_t rest = code;
        const size_t source = choose(&rest, 3), rope = choose(&rest, 2), d = choose(&rest, 4), s = choose(&rest, 5);
        const size_t f = choose(&rest, 3), length = choose(&rest, 2), theta = choose(&rest, 2), given = choose(&rest, 2);
        const bool idle = d > 0 || s > 1 || f > 0 || length > 0 || theta > 0 || given > 0;
        const bool scaled = (s < 2 && (f > 0 || length > 0)) || (s == 2 && (f == 0 || length > 0)) ||
                            (s > 2 && (f == 0 || length == 0)) || (s == 4 && (f == 1 || theta > 0));
        char text[400];
        snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s", sources[source], rope ? "rope = half\n" : "", dims[d], scaling[s],
                 factor[f], length ? "rope_original_len = 64\n" : "", theta ? "rope_theta = 1\n" : "",
                 given ? "rope_positions = given\n" : "");
        expect(text, rope ? source == OF_CROSS || d > 1 || scaled : idle, counts);
    }
    assert_true(counts[0] > 50 && counts[1] > 1000);
}

static void test_position_combinations(void **state)
{
    static const char *const offset[] = {"", "offset = none\n", "offset = past\n", "offset = end\n"};
    static const char *const masks[] = {"", "mask = causal\n", "mask = prefix\n", "mask = causal+prefix+segments\n",
                                        "mask = padding\n", "mask = segments+padding+causal\n"};
    static const char *const relative[] = {"", "relative = none\n", "relative = t5\n", "relative = table\n"};
    static const char *const buckets[] = {"", "rel_buckets = 30\n", "rel_buckets = 8\n"};
    static const char *const distance[] = {"", "rel_distance = 4\n", "rel_distance = 2\n"};
    size_t counts[2] = {0};
    for (size_t code = 0; code < 3 * 4 * 6 * 2 * 4 * 3 * 3 * 2; code++) {
        size_t rest = code;
        const size_t source = choose(&rest, 3), o = choose(&rest, 4), m = choose(&rest, 6), skipped = choose(&rest, 2);
        const size_t r = choose(&rest, 4), b = choose(&rest, 3), d = choose(&rest, 3), left = choose(&rest, 2);
        const bool causal = m == 1 || m == 3 || m == 5;
        const int near = (b == 2 ? 8 : 32) / (causal ? 2 : 4), far = d == 0 ? 128 : d == 1 ? 4 : 2;
        const bool bad = (source == OF_SELF && o > 1) || m == 2 || (skipped && (source != OF_SELF || m < 4)) ||
                         (r != 2 && (b > 0 || d > 0)) || (r != 3 && left > 0) || (r == 3 && left == 0) ||
                         (r == 2 && (b == 1 || far <= near));
        char text[400];
        snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s", sources[source], offset[o], masks[m],
                 skipped ? "pad_rows = skipped\n" : "", relative[r], buckets[b], distance[d], left ? "rel_left = 3\n" : "");
        expect(text, bad, counts);
    }
    assert_true(counts[0] > 100 && counts[1] > 5000);
}

/* ---- tensors and counts ---------------------------------------------------------------------------------- */

static void assert_shape(const struct layer *layer, enum layer_tensor tensor, int count, int64_t a, int64_t b,
                         int64_t c, int64_t d)
{
    const int64_t expected[4] = {a, b, c, d};
    int64_t shape[4] = {0};
    assert_int_equal(layer_weight_shape(layer, tensor, shape), count);
    for (int i = 0; i < count; i++)
        assert_int_equal(shape[i], expected[i]);
}

static void test_shapes(void **state)
{
    struct layer *layer = good("d_model = 12\nh = 4\nh_kv = 2\nd_k = 5\nd_v = 7\nattention = cross\nd_source = 10\n"
                               "seq_len = 3\nbias = true\n");
    assert_shape(layer, TENSOR_W_Q, 2, 12, 20, 0, 0);
    assert_shape(layer, TENSOR_W_K, 2, 10, 10, 0, 0);
    assert_shape(layer, TENSOR_W_V, 2, 10, 14, 0, 0);
    assert_shape(layer, TENSOR_W_O, 2, 28, 12, 0, 0);
    assert_shape(layer, TENSOR_B_Q, 1, 20, 0, 0, 0);
    assert_shape(layer, TENSOR_B_K, 1, 10, 0, 0, 0);
    assert_shape(layer, TENSOR_B_V, 1, 14, 0, 0, 0);
    assert_shape(layer, TENSOR_B_O, 1, 12, 0, 0, 0);
    assert_shape(layer, TENSOR_X, 0, 0, 0, 0, 0);
    layer_free(layer);

    layer = good("d_model = 12\nh = 4\nd_k = 5\nd_v = 7\ninput = split\nw_o = conv\nconv_width = 2\nattention = cross\n"
                 "d_source = 8\nseq_len = 3\nweight_layout = out_in\n");
    assert_shape(layer, TENSOR_W_Q, 3, 4, 5, 3, 0);
    assert_shape(layer, TENSOR_W_K, 3, 4, 5, 2, 0);
    assert_shape(layer, TENSOR_W_V, 3, 4, 7, 2, 0);
    assert_shape(layer, TENSOR_W_O, 4, 4, 2, 3, 7);
    assert_shape(layer, TENSOR_B_Q, 0, 0, 0, 0, 0);
    layer_free(layer);
}

/* A spec, and the tensors of its layer in the order of the enum. */
static void test_has_tensor(void **state)
{
    static const struct {
        const char *spec, *tensors;
    } rows[] = {
        {BASE "w_k = tied\nw_v = identity\nw_o = none\nbias = true\n", "x w_q b_q y "},
        {BASE "attention = cross\nmask = padding+bool+additive\nscores = true\nbias = true\n",
         "x source lengths mask_bool mask_add w_q b_q w_k b_k w_v b_v w_o b_o y attn "},
        {"h = 4\nd_k = 8\nseq_len = 9\ninput = projected\nw_o = none\noffset = past\nlse = true\n",
         "q k v past y lse "},
        {BASE "mask = bool\nscores = true\ncache = rows\ncache_len = 40\n",
         "x past mask_bool w_q w_k w_v w_o y attn k_cache v_cache "},
        {BASE "mask = padding\ncache = paged\ncache_len = 40\npage_len = 4\n",
         "x lengths past page_table w_q w_k w_v w_o y k_pages v_pages "},
        {BASE "mask = causal+prefix+segments\nqk_norm = layer\nrope = half\nrope_positions = given\nsink = true\n"
         "relative = t5\n", "x positions prefix segment w_q w_k w_v w_o g_q c_q g_k c_k rel_bias sink y "},
        {LINEAR, "x w y "},
        {LINEAR "bias = true\nnorm = layer\nmask = padding\n", "x lengths n1_g n1_b w b y "},
        {LINEAR "norm = rms\nsoftcap = 5\nactivation = tanh\n", "x n1_g w y "},
        {FFN "ffn = relu\n", "x w_1 w_2 y "},
        {FFN "ffn = swiglu\nffn_bias = true\nblock = sandwich\n",
         "x n1_g n1_b n2_g n2_b w_1 b_1 w_g b_g w_2 b_2 y "},
        {FFN "ffn = geglu\nblock = post\nnorm = rms\nmask = padding\npad_rows = skipped\n",
         "x lengths n1_g w_1 w_g w_2 y "},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct layer *layer = good(rows[i].spec);
        char found[300] = "";
        for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++)
            if (layer_has_tensor(layer, tensor))
                strcat(strcat(found, layer_tensor_name(tensor)), " ");
        assert_string_equal(found, rows[i].tensors);
        layer_free(layer);
    }
}

/* Tables in the order of the file, --set in their place; expressions; all of it in the text that is the layer's. */
static void test_expressions(void **state)
{
    static const char *const set[] = {"table.wide=2, 8,3", "visible=keep[i] > 0.5"};
    static const char text[] = BASE "score = s + wide[i][p - j][0] # added\ntable.wide = 4\ntable.keep = 4\n";
    struct diag diag = {0};
    struct layer *layer = read_bytes("spec.layer", text, strlen(text), set, COUNT_OF(set), &diag);
    int64_t shape[4];
    assert_non_null(layer);
    assert_int_equal(layer->table_count, 2);
    assert_string_equal(layer_tensor_called(layer, TENSOR_TABLE), "wide");
    assert_string_equal(layer_tensor_called(layer, TENSOR_TABLE + 1), "keep");
    assert_int_equal(layer_weight_shape(layer, TENSOR_TABLE, shape), 3);
    assert_int_equal(shape[0] * 100 + shape[1] * 10 + shape[2], 283);
    assert_false(layer_has_tensor(layer, TENSOR_TABLE + 2));
    assert_int_equal(layer_parameters(layer).of[TENSOR_TABLE] + layer_parameters(layer).of[TENSOR_TABLE + 1], 52);
    assert_non_null(layer->visible);
    assert_non_null(strstr(layer->text, "score = s + wide[i][p - j][0]\nvisible = keep[i] > 0.5\ntable.wide = 2, 8,3\n"
                           "table.keep = 4\n"));
    layer_free(layer);
}

static bool sees(const struct layer *l, int64_t t, int64_t j)
{
    if ((l->mask & MASK_CAUSAL) != 0 && j > t)
        return false;
    if ((l->mask & MASK_NO_SELF) != 0 && j == t)
        return false;
    if ((l->mask & MASK_WINDOW) == 0)
        return true;
    return (l->window_left == LAYER_UNBOUNDED || j >= t - l->window_left) &&
           (l->window_right == LAYER_UNBOUNDED || j <= t + l->window_right);
}

/* All static masks, windows of every small reach, every n and m up to 9, and every offset. */
static void test_pairs(void **state)
{
    struct layer *layer = good(BASE);
    for (unsigned mask = 0; mask < 64; mask++)
        for (int64_t left = -1; left < 6; left++)
            for (int64_t right = -1; right < 6; right++)
                for (int64_t at = 0; at < 300; at++) {
                    const int64_t n = at % 10, m = at / 10 % 10, offset = at / 100;
                    const int64_t first = offset == OFFSET_NONE || (offset == OFFSET_PAST && m < n) ? 0 : m - n;
                    int64_t pairs = 0;
                    layer->mask = mask;
                    layer->offset = (enum layer_offset)offset;
                    layer->window_left = left;
                    layer->window_right = right;
                    for (int64_t t = 0; t < n; t++)
                        for (int64_t j = 0; j < m; j++)
                            pairs += sees(layer, first + t, j);
                    assert_int_equal(visible_pairs(layer, n, m), pairs);
                }
    layer_free(layer);
}

static void test_conv_taps(void **state)
{
    struct layer *layer = good(BASE "w_o = conv\n");
    for (int causal = 0; causal < 2; causal++)
        for (int64_t taps = 1; taps < 12; taps++)
            for (int64_t n = 0; n < 10; n++) {
                layer->mask = causal ? MASK_CAUSAL : 0;
                layer->conv_width = taps;
                const int64_t pad = causal ? taps - 1 : (taps - 1) / 2;
                int64_t count = 0;
                for (int64_t t = 0; t < n; t++)
                    for (int64_t r = 0; r < taps; r++)
                        count += t + r - pad >= 0 && t + r - pad < n;
                assert_int_equal(layer_conv_pad(layer), pad);
                assert_int_equal(layer_conv_taps(layer, n), count);
            }
    layer_free(layer);
}

/* The longest lengths must not overflow: closed forms against what they are. */
static void test_longest(void **state)
{
    const int64_t n = 2147483647;
    struct layer *layer = good(BASE "w_o = conv\nconv_width = 2147483647\n");
    assert_true(visible_pairs(layer, n, n) == n * n);
    layer->mask = MASK_CAUSAL;
    assert_true(visible_pairs(layer, n, n) == n / 2 * (n + 1) + (n + 1) / 2);
    assert_true(layer_conv_taps(layer, n) == n / 2 * (n + 1) + (n + 1) / 2);
    layer->mask = MASK_WINDOW;
    layer->window_left = layer->window_right = n;
    assert_true(visible_pairs(layer, n, n) == n * n);
    layer->window_left = layer->window_right = 0;
    assert_true(visible_pairs(layer, n, n) == n);
    layer_free(layer);
}

/* Multiply-adds, counted one by one as the equations stand. */
static void test_multiply_adds(void **state)
{
    static const char *const specs[] = {
        "", "width = wide\n", "mask = causal\n", "mask = causal+window+no_self\nwindow_left = 2\n", "input = split\n",
        "w_k = tied\nw_v = identity\nw_o = none\nmask = no_self\n", "h_kv = 2\nd_v = 5\n",
        "w_o = conv\nconv_width = 4\n",
        "w_o = conv\nmask = causal+padding\n", "attention = cross\nd_source = 8\nsource_len = 9\n",
        "attention = cross\nw_k = tied\nmask = window\nwindow_right = 1\n", "bias = true\nscores = true\nmask = bool\n",
        "input = split\nw_v = identity\nattention = cross\nd_source = 20\n"};
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        char text[300];
        snprintf(text, sizeof text, "d_model = 12\nh = 4\nseq_len = 7\n%s", specs[i]);
        struct layer *l = good(text);
        for (int64_t n = 0; n <= l->seq_len; n++)
            for (int64_t m = 0; m <= l->source_len; m++) {
                int64_t q = 0, k = 0, v = 0, scores = 0, values = 0, output = 0;
                for (int64_t head = 0; head < l->h; head++) {
                    q += n * l->d_in_q * l->d_k;
                    for (int64_t t = 0; t < n; t++)
                        for (int64_t j = 0; j < m; j++)
                            if (sees(l, t, j)) {
                                scores += l->d_k;
                                values += l->d_v;
                            }
                    for (int64_t t = 0; t < n && l->w_o != W_O_NONE; t++)
                        for (int64_t r = 0; r < (l->w_o == W_O_CONV ? l->conv_width : 1); r++) {
                            const int64_t row = l->w_o == W_O_CONV ? t + r - layer_conv_pad(l) : t;
                            output += row < 0 || row >= n ? 0 : l->d_v * l->d_model / (l->w_o == W_O_CONV ? l->h : 1);
                        }
                }
                for (int64_t head = 0; head < l->h_kv; head++) {
                    k += l->tied && !l->cross ? 0 : m * l->d_in_kv * l->d_k;
                    v += l->identity ? 0 : m * l->d_in_kv * l->d_v;
                }
                const struct layer_cost cost = layer_multiply_adds(l, n, m);
                assert_true(cost.q == (double)q && cost.k == (double)k && cost.v == (double)v);
                assert_true(cost.scores == (double)scores && cost.values == (double)values);
                assert_true(cost.output == (double)output);
                assert_true(cost.total == (double)(q + k + v + scores + values + output));
            }
        layer_free(l);
    }
}

static void test_parameters(void **state)
{
    static const struct { const char *spec; int64_t total; } cases[] = {
        {"d_model = 768\nh = 12\nseq_len = 512\nbias = true\n", 4 * (768 * 768 + 768)},
        {"d_model = 768\nh = 4\nseq_len = 512\nbias = true\n", 4 * (768 * 768 + 768)},
        {"d_model = 728\nh = 8\nseq_len = 512\nwidth = wide\n", 4 * 8 * 728 * 728},
        {"d_model = 2048\nh = 32\nh_kv = 8\nseq_len = 512\n", 2 * 2048 * 2048 + 2 * 2048 * 512},
        {"d_model = 64\nh = 4\nseq_len = 5\ninput = split\n", 3 * 4 * 16 * 16 + 64 * 64},
        {"d_model = 64\nh = 4\nseq_len = 5\nw_k = tied\nw_v = identity\nw_o = none\nbias = true\n", 64 * 64 + 64},
        {"d_model = 64\nh = 4\nseq_len = 5\nw_o = conv\nconv_width = 5\n", 3 * 64 * 64 + 4 * 5 * 16 * 16},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct layer *layer = good(cases[i].spec);
        const struct layer_parameters p = layer_parameters(layer);
        assert_int_equal(p.total, cases[i].total);
        int64_t sum = 0;
        for (enum layer_tensor tensor = TENSOR_W_Q; tensor <= TENSOR_B_O; tensor++)
            sum += p.of[tensor];
        assert_int_equal(p.total, sum);
        layer_free(layer);
    }
}

/* ---- the walk -------------------------------------------------------------------------------------------- */

static char *explained(const char *spec)
{
    struct layer *layer = good(spec);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    explain_layer(layer, out);
    assert_int_equal(fclose(out), 0);
    layer_free(layer);
    return text;
}

static void test_explain_totals(void **state)
{
    char *four = explained("d_model = 768\nh = 4\nseq_len = 512\nmask = padding\nbias = true\n");
    char *twelve = explained("d_model = 768\nh = 12\nseq_len = 512\nmask = padding\nbias = true\n");
    assert_non_null(strstr(four, "2362368 parameters"));
    assert_non_null(strstr(twelve, "2362368 parameters"));
    assert_non_null(strstr(four, "however many heads"));
    assert_non_null(strstr(four, "1610612736"));
    free(four);
    free(twelve);

    char *wide = explained("d_model = 728\nh = 8\nseq_len = 1024\nwidth = wide\n");
    assert_non_null(strstr(wide, "What the width costs"));
    assert_non_null(strstr(wide, "16959488"));
    assert_non_null(strstr(wide, "2119936"));
    assert_non_null(strstr(wide, "grows with h"));
    free(wide);

    char *causal = explained("d_model = 64\nh = 4\nseq_len = 10\nmask = causal\n");
    assert_non_null(strstr(causal, "55 of 100 query-key pairs remain"));
    free(causal);
}

/* No line longer than a page, also for layers as large as there can be. */
static void test_explain_columns(void **state)
{
    static const char *const specs[] = {
        BASE, "d_model = 268435456\nh = 1\nseq_len = 536870912\nmask = causal+window+bool+additive\n"
              "window_left = 2147483647\nwindow_right = 2147483647\nscale = -1.2345678901e-30\nbias = true\n",
        "d_model = 1000000000\nh = 1000000\nd_k = 100\nd_v = 100\nseq_len = 1000000\nattention = cross\n"
        "d_source = 1000\nsource_len = 2000000\nh_kv = 1000\nmask = padding+no_self\nscores = true\nbias = true\n",
        "d_model = 65536\nh = 65536\nwidth = wide\ninput = split\nw_o = conv\nconv_width = 9999\nseq_len = 2147483647\n"
        "bias = true\nmask = causal+padding\n",
        "d_model = 1\nh = 2147483647\nd_k = 1\nd_v = 1\nseq_len = 500000000\nw_o = none\nw_k = tied\n",
        "d_model = 1073741824\nh = 1073741824\ninput = split\nseq_len = 1\n",
        BASE "attention = cross\noffset = end\nscale = 1.234567e-6\nsoftcap = 1.2345678e-6\nalibi = true\nrelative = t5\n"
             "mask = causal+prefix+additive+segments\nqk_norm = layer\nsink = true\nlse = true\nscores = biased\n",
        BROUGHT "w_o = none\nsource_len = 1\nmask = causal+no_self+window\nwindow_left = 0\n"}; /* nothing to do */
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        char *text = explained(specs[i]);
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
            const size_t length = strcspn(line, "\n");
            if (length > 100 || (length > 0 && line[length - 1] == ' '))
                fprintf(stderr, "%zu columns: %.*s\n", length, (int)length, line);
            assert_true(length <= 100 && (length == 0 || line[length - 1] != ' '));
        }
        assert_null(strstr(text, "nan"));
        assert_null(strstr(text, "inf"));
        free(text);
    }
}

/* ---- instruction sets ------------------------------------------------------------------------------------ */

/* Which rows a list asks for, by their names. */
static void expect_rows(const char *list, const char *names, size_t errors)
{
    struct diag diag = {0};
    char found[200];
    isa_list_names(found, sizeof found, isa_parse_list(list, &diag), " ");
    assert_string_equal(found, names);
    assert_int_equal(diag.errors, errors);
    if (errors > 0)
        assert_non_null(strstr(diag.messages[0], "scalar, sse4, avx2, avxvnni, avx512, amx, neon, wasm_simd128, rvv"));
    diag_free(&diag);
}

static void test_isa(void **state)
{
    static const struct { const char *list, *names; size_t errors; } cases[] = {
        {"scalar", "scalar", 0}, {"avx2", "scalar avx2", 0}, {"avx512", "scalar avx512", 0},
        {"scalar,avx2,avx512", "scalar avx2 avx512", 0}, {"avx512,avx2", "scalar avx2 avx512", 0},
        {"all", "scalar sse4 avx2 avxvnni avx512 amx neon wasm_simd128 rvv", 0}, {"rvv,sse4", "scalar sse4 rvv", 0},
        {"", "scalar", 1}, {"avx2,", "scalar avx2", 1}, {",avx2", "scalar avx2", 1}, {"avx2,avx2", "scalar avx2", 1},
        {"sse", "scalar", 1}, {"AVX2", "scalar", 1}, {"avx", "scalar", 1}, {"avx2 ", "scalar", 1},
        {"all,avx2", "scalar avx2", 1}, {"neon,sve,,", "scalar neon", 3}};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        expect_rows(cases[i].list, cases[i].names, cases[i].errors);
    assert_int_equal(isa_find("avx512")->id, 3);
    assert_int_equal(isa_find("avx2")->lanes, 8);
    assert_null(isa_find("avx51"));
    assert_null(isa_find("all"));
}

/* What the emitted file and the plan rely on in each row. */
static void test_isa_rows(void **state)
{
    static const struct { const char *name; int id; } published[] = { /* never renumbered */
        {"scalar", 1}, {"avx2", 2}, {"avx512", 3}, {"sse4", 4}, {"neon", 5}, {"wasm_simd128", 6}, {"rvv", 7},
        {"avxvnni", 8}, {"amx", 9}};
    assert_int_equal(isa_count, COUNT_OF(published));
    for (size_t i = 0; i < COUNT_OF(published); i++)
        assert_int_equal(isa_find(published[i].name)->id, published[i].id);
    assert_string_equal(isa_table[0].name, "scalar"); /* where everything else is missing */
    assert_null(isa_table[0].guard);
    assert_null(isa_table[0].target);
    assert_null(isa_table[0].needs[0].name);
    for (size_t i = 0; i < isa_count; i++) {
        const struct isa *isa = &isa_table[i];
        assert_in_range(isa->id, 1, 31);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(isa->id, isa_table[j].id);
        assert_int_equal(isa->lanes & (isa->lanes - 1), 0);
        assert_true(isa->registers >= 4);
        assert_null(isa->needs[ISA_NEEDS - 1].name); /* the list has an end */
        for (const struct isa_need *need = isa->needs; need->name != NULL; need++)
            assert_true(need->bits != 0);
        if (isa->needs[0].name != NULL)
            assert_non_null(strstr(isa->guard, "__x86_64__")); /* CPUID is x86's */
    }
}

static void test_diag(void **state)
{
    struct diag diag = {0};
    char *text = NULL;
    size_t length = 0;
    for (int i = 0; i < 25; i++)
        diag_error(&diag, i % 2 ? NULL : "here:1", "number %d", i);
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(diag_report(&diag, out), EXIT_USAGE);
    diag_environment(&diag, NULL, "late");
    assert_int_equal(diag_report(&diag, out), EXIT_ENVIRONMENT);
    assert_int_equal(fclose(out), 0);
    assert_memory_equal(text, "here:1: error: number 0\nerror: number 1\n", 39);
    assert_non_null(strstr(text, "number 19\nerror: 5 more errors"));
    assert_null(strstr(text, "number 20"));
    free(text);
    diag_free(&diag);
    assert_int_equal(diag.errors, 0);
}

/* What the rows of keys must be: the default is a word, no word stands twice, no other program's key is two of ours. */
static void test_rows_of_keys(void **state)
{
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const struct key_row *row = &key_rows[key];
        if (key_words(key)->word != NULL)
            assert_non_null(key_word(key, (int64_t)row->absent));
        for (const struct key_word *w = key_words(key); w->word != NULL; w++)
            assert_ptr_equal(key_find_word(key, w->word), w);
        assert_int_equal(key_find(row->name), key);
        for (size_t i = 0; i < sizeof row->nicknames / sizeof *row->nicknames && row->nicknames[i].theirs != NULL; i++) {
            char *theirs = strdup(row->nicknames[i].theirs), *next = theirs;
            for (const char *one, *hint; (one = strsep(&next, " ")) != NULL;) {
                assert_int_equal(key_nickname(one, &hint), key);
                assert_int_equal(key_find(one), KEY_COUNT);
            }
            free(theirs);
        }
    }
}

/* Each term of scores says how its derivative is made: one that is not a sum bends, or says of itself that it has none;
 * a layer with such a term cannot train. */
static void test_gradients_of_terms(void **state)
{
    for (enum score_name term = 0; term < SCORE_TERMS; term++) {
        const struct score_term *of = &score_terms[term];
        const bool adds = of->equation == NULL || strncmp(of->equation, "@ + ", 4) == 0 ||
                          strncmp(of->equation, "@ - ", 4) == 0;
        const bool hides = of->mask != 0 || of->sees != NULL;
        if (of->gradient != GRADIENT_NONE)
            assert_int_equal(of->gradient, !adds ? GRADIENT_SLOPE : hides ? GRADIENT_ZERO : GRADIENT_ONE);
        assert_true(!of->bends || of->gradient == GRADIENT_SLOPE || of->gradient == GRADIENT_NONE);
    }
    static const struct { const char *set; enum score_name untrained; } layers[] = {
        {"h = 4", SCORE_TERMS}, {"softcap = 30\nalibi = true\nmask = causal+padding+bool+additive", SCORE_TERMS},
        {"score = 2 * s", SCORE_EXPRESSION}, {"visible = p > j", SCORE_TERMS}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char text[200];
        struct diag diag = {0};
        snprintf(text, sizeof text, "d_model = 64\nseq_len = 9\n%s%s\n", i == 0 ? "" : "h = 4\n", layers[i].set);
        struct layer *layer = layer_read_text("a.layer", text, NULL, 0, &diag);
        assert_non_null(layer);
        assert_int_equal(score_untrained(layer), layers[i].untrained);
        layer_free(layer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_restated_defaults), cmocka_unit_test(test_every_key), cmocka_unit_test(test_without_attention),
        cmocka_unit_test(test_derived), cmocka_unit_test(test_cache), cmocka_unit_test(test_legal), cmocka_unit_test(test_names),
        cmocka_unit_test(test_stem), cmocka_unit_test(test_text_forms), cmocka_unit_test(test_nul_and_length),
        cmocka_unit_test(test_unreadable), cmocka_unit_test(test_set), cmocka_unit_test(test_earlier_error),
        cmocka_unit_test(test_many_errors), cmocka_unit_test(test_all_combinations), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_has_tensor), cmocka_unit_test(test_expressions), cmocka_unit_test(test_pairs), cmocka_unit_test(test_conv_taps),
        cmocka_unit_test(test_longest), cmocka_unit_test(test_multiply_adds), cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_explain_totals), cmocka_unit_test(test_explain_columns), cmocka_unit_test(test_isa),
        cmocka_unit_test(test_isa_rows), cmocka_unit_test(test_numbers), cmocka_unit_test(test_projected),
        cmocka_unit_test(test_projected_combinations), cmocka_unit_test(test_rope_combinations),
        cmocka_unit_test(test_position_combinations),
        cmocka_unit_test(test_narrow_heads), cmocka_unit_test(test_gradients_of_terms),
        cmocka_unit_test(test_rows_of_keys),
        cmocka_unit_test(test_diag),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
