/* SPDX-License-Identifier: MIT */
/* Weights under other people's names: element types, layouts, and which layer of a file is meant.
 *
 * Left out on purpose: that a packed block computes what it should; test_pack.sh asks a program that has one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../runtime/system/process.h"
#include "../../runtime/inputs/elements.h"
#include "../../runtime/inputs/weights.h"

/* sign, exponent and fraction of a format, by its definition */
static double value_of(uint16_t bits, int exponent_bits, int fraction_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1, last = (1 << exponent_bits) - 1;
    const int exponent = bits >> fraction_bits & last, fraction = bits & ((1 << fraction_bits) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == last)
        return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/* A number of two bytes as an f32 */
static float of_f16(uint16_t bits) { return (float)element_number(TENSOR_F16, &bits, 0); }
static float of_bf16(uint16_t bits) { return (float)element_number(TENSOR_BF16, &bits, 0); }

static void check_every_value(float (*convert)(uint16_t), int exponent_bits, int fraction_bits)
{
    for (unsigned bits = 0; bits <= 0xffff; bits++) {
        const double expected = value_of((uint16_t)bits, exponent_bits, fraction_bits);
        const float got = convert((uint16_t)bits);
        if (isnan(expected) ? !isnan(got) : (double)got != expected || !signbit(got) != !signbit(expected))
            fail_msg("%#06x is %a, not %a", bits, expected, (double)got);
    }
}

static void test_f16(void **state)
{
    check_every_value(of_f16, 5, 10);
}

static void test_bf16(void **state)
{
    check_every_value(of_bf16, 8, 7);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

#define D 4 /* d_model: two heads of 2, one of keys and values: w_k and w_v have two outputs */

struct fixture {
    char *folder, *path;
    struct layer layer;
    struct diag diag;
    bool norm_plus_one;
    struct tensors weights; /* as read */
};

static void start(struct fixture *f)
{
    *f = (struct fixture){.layer = {.name = "a", .d_model = D, .h = 2, .h_kv = 1, .d_k = 2, .d_v = 2, .d_source = D,
                                    .d_in_q = D, .d_in_kv = D, .d_out = D, .seq_len = 8, .source_len = 8}};
    f->folder = folder_make(&f->diag);
    f->path = path_join(f->folder, "w.safetensors");
    assert_non_null(f->path);
}

static void stop(struct fixture *f)
{
    tensors_free(&f->weights);
    folder_remove(f->folder);
    free(f->path);
    free(f->folder);
    diag_free(&f->diag);
}

/* numbers that tell where they stood: 1, 2, 3 … */
static struct tensor counting(const char *name, int rank, int64_t a, int64_t b, float first)
{
    struct tensor t = {.name = (char *)name, .type = TYPE_F32, .rank = rank, .shape = {a, b}};
    const size_t count = (size_t)(rank == 1 ? a : a * b);
    float *data = calloc(count, sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = first + (float)i;
    t.bytes = count * sizeof *data;
    t.data = data;
    return t;
}

static bool read_file(struct fixture *f, struct tensor *items, size_t count, const char *prefix, bool zero_bias)
{
    const struct weights_choice choice = {.path = f->path, .prefix = prefix, .zero_bias = zero_bias,
                                          .norm_plus_one = f->norm_plus_one};
    assert_true(tensors_write(f->path, items, count, &f->diag));
    for (size_t i = 0; i < count; i++)
        free(items[i].data);
    return weights_read(&f->weights, &f->layer, &choice, &f->diag);
}

static float at(const struct fixture *f, const char *name, size_t index)
{
    const struct tensor *t = tensors_find(&f->weights, name);
    assert_non_null(t);
    assert_true(index < t->bytes / sizeof(float));
    return ((const float *)t->data)[index];
}

/* Element (input, output) of a matrix as the spec's layout has it. */
static float entry(const struct fixture *f, const char *name, size_t outputs, size_t input, size_t output)
{
    return at(f, name, f->layer.out_in ? output * D + input : input * outputs + output);
}

/* q, k and v of unequal heights in one matrix, [in][out] as GPT-2 stores it, [out][in] as Phi-3 does;
 * into both layouts */
static void test_fused(void **state)
{
    for (int variant = 0; variant < 4; variant++) {
        struct fixture f;
        const bool in_out = variant & 1;
        start(&f);
        f.layer.out_in = variant & 2;
        struct tensor items[] = {
            in_out ? counting("h.1.attn.c_attn.weight", 2, D, 8, 0) : counting("h.1.attn.qkv_proj.weight", 2, 8, D, 0),
            counting(in_out ? "h.1.attn.c_proj.weight" : "h.1.attn.o_proj.weight", 2, D, D, 100),
            counting("h.1.attn.bias", 1, 3, 0, 0), /* GPT-2's mask: nobody's business */
        };
        assert_true(read_file(&f, items, 3, variant == 3 ? "h.1" : NULL, false));
        assert_int_equal(f.weights.count, 4);
        for (size_t i = 0; i < D; i++)
            for (size_t o = 0; o < 8; o++) {
                const float expected = (float)(in_out ? i * 8 + o : o * D + i);
                const float got = o < 4 ? entry(&f, "w_q", 4, i, o)
                                : o < 6 ? entry(&f, "w_k", 2, i, o - 4)
                                        : entry(&f, "w_v", 2, i, o - 6);
                assert_true(got == expected);
            }
        for (size_t i = 0; i < D; i++)
            for (size_t o = 0; o < D; o++)
                assert_true(entry(&f, "w_o", D, i, o) == (float)(100 + (in_out ? i * D + o : o * D + i)));
        stop(&f);
    }
}

/* attngen's own names lie as the spec says */
static void test_own_names(void **state)
{
    for (int out_in = 0; out_in < 2; out_in++) {
        struct fixture f;
        start(&f);
        f.layer.out_in = out_in;
        struct tensor items[] = {counting("w_q", 2, D, D, 0),
                                 counting("w_k", 2, out_in ? 2 : D, out_in ? D : 2, 20),
                                 counting("w_v", 2, out_in ? 2 : D, out_in ? D : 2, 40), counting("w_o", 2, D, D, 60)};
        assert_true(read_file(&f, items, 4, NULL, false));
        for (size_t i = 0; i < 8; i++) {
            assert_true(at(&f, "w_k", i) == (float)(20 + i));
            assert_true(at(&f, "w_v", i) == (float)(40 + i));
        }
        stop(&f);
    }
}

/* biases: fused with separate matrices, as torch has them with kdim; one that is missing is zero only where
 * asked for */
static void test_biases(void **state)
{
    for (int missing = 0; missing < 2; missing++) {
        struct fixture f;
        start(&f);
        f.layer.bias = true;
        struct tensor items[] = {
            counting("q_proj_weight", 2, D, D, 0), counting("k_proj_weight", 2, 2, D, 0),
            counting("v_proj_weight", 2, 2, D, 0), counting("out_proj.weight", 2, D, D, 0),
            counting("in_proj_bias", 1, 8, 0, 0),  counting(missing ? "other" : "out_proj.bias", 1, D, 0, 50),
        };
        assert_true(read_file(&f, items, 6, NULL, missing));
        for (size_t i = 0; i < 8; i++)
            assert_true((i < 4 ? at(&f, "b_q", i) : i < 6 ? at(&f, "b_k", i - 4)
                                                                : at(&f, "b_v", i - 6)) == (float)i);
        for (size_t i = 0; i < D; i++)
            assert_true(at(&f, "b_o", i) == (missing ? 0.0f : (float)(50 + i)));
        stop(&f);
    }
}

/* BLOOM's order: each group of heads has its queries, its key, its value; with as many heads of keys as of queries and
 * with fewer, as Falcon has them */
static void test_groups(void **state)
{
    for (int64_t h_kv = 1; h_kv <= 4; h_kv *= 2) {
        struct fixture f;
        start(&f);
        f.layer.h = 4;
        f.layer.h_kv = h_kv;
        f.layer.d_k = 3;
        f.layer.d_v = 2;
        f.layer.bias = true;
        const int64_t queries = 4 / h_kv, group = queries * 3 + 3 + 2, all = h_kv * group;
        struct tensor items[] = {counting("h.0.self_attention.query_key_value.weight", 2, all, D, 0),
                                 counting("h.0.self_attention.query_key_value.bias", 1, all, 0, 1000),
                                 counting("h.0.self_attention.dense.weight", 2, D, 8, 2000),
                                 counting("h.0.self_attention.dense.bias", 1, D, 0, 3000)};
        assert_true(read_file(&f, items, 4, NULL, false));
        assert_int_equal(f.weights.count, 8);
        for (int64_t row = 0; row < all; row++) { /* of the file */
            const int64_t g = row / group, in = row % group;
            const char *w = in < queries * 3 ? "w_q" : in < queries * 3 + 3 ? "w_k" : "w_v";
            const char *b = in < queries * 3 ? "b_q" : in < queries * 3 + 3 ? "b_k" : "b_v";
            const int64_t o = in < queries * 3 ? g * queries * 3 + in
                            : in < queries * 3 + 3 ? g * 3 + in - queries * 3 : g * 2 + in - queries * 3 - 3;
            const int64_t outputs = in < queries * 3 ? 12 : in < queries * 3 + 3 ? h_kv * 3 : h_kv * 2;
            assert_true(at(&f, b, (size_t)o) == (float)(1000 + row));
            for (int64_t i = 0; i < D; i++)
                assert_true(entry(&f, w, (size_t)outputs, (size_t)i, (size_t)o) == (float)(row * D + i));
        }
        stop(&f);
    }
}

/* What else a layer learns, by family: its names in the file, and the contract's. */
static void test_learned(void **state)
{
    static const struct {
        const char *prefix, *query, *names[4], *tensors[4];
        enum layer_norm norm;
        bool sink, relative, plus_one;
    } families[] = {
        {"l.3.self_attn.", "q_proj.weight", {"q_norm.weight", "k_norm.weight"}, {"g_q", "g_k"}, NORM_RMS, 0, 0, 0},
        {"l.3.self_attn.", "q_proj.weight", {"q_norm.weight", "k_norm.weight"}, {"g_q", "g_k"}, NORM_RMS, 0, 0, 1},
        {"l.3.self_attn.", "q_proj.weight", {"q_norm.weight", "k_norm.weight"}, {"g_q", "g_k"}, NORM_RMS_ALL, 0, 0, 0},
        {"l.3.self_attn.", "q_proj.weight",
         {"q_layernorm.weight", "k_layernorm.weight", "q_layernorm.bias", "k_layernorm.bias"},
         {"g_q", "g_k", "c_q", "c_k"}, NORM_LAYER, 0, 0, 0},
        {"l.3.self_attn.", "q_proj.weight", {"sinks"}, {"sink"}, NORM_NONE, 1, 0, 0},
        {"b.3.SelfAttention.", "q.weight", {"relative_attention_bias.weight"}, {"rel_bias"}, NORM_NONE, 0, 1, 0},
        {"b.0.SelfAttention.", "q.weight", {"relative_attention_bias.weight"}, {"rel_bias"}, NORM_NONE, 0, 1, 0}, /* shared */
        {"", "w_q", {"g_q", "g_k", "sink"}, {"g_q", "g_k", "sink"}, NORM_RMS, 1, 0, 0},
    };
    for (size_t c = 0; c < sizeof families / sizeof *families; c++) {
        const bool plain = families[c].query[0] == 'w', t5 = strcmp(families[c].query, "q.weight") == 0;
        struct fixture f;
        struct tensor items[8];
        char name[8][80];
        size_t count = 4;
        start(&f);
        f.layer.out_in = true;
        f.layer.qk_norm = families[c].norm;
        f.layer.qk_shift = true;
        f.layer.sink = families[c].sink;
        f.layer.relative = families[c].relative ? RELATIVE_T5 : RELATIVE_NONE;
        f.layer.number[SCORE_RELATIVE] = families[c].relative;
        f.layer.rel_buckets = 8;
        f.norm_plus_one = families[c].plus_one;
        for (int i = 0; i < 4; i++) { /* of the block that is read, which for T5 is not always that of rel_bias */
            snprintf(name[i], sizeof name[i], "%s%s", t5 ? "b.3.SelfAttention." : families[c].prefix, families[c].query);
            name[i][strlen(name[i]) - strlen(families[c].query) + (plain ? 2 : 0)] = "qkvo"[i];
            items[i] = counting(name[i], 2, i == 0 || i == 3 ? D : 2, D, 0);
        }
        for (size_t i = 0; i < 4 && families[c].names[i] != NULL; i++, count++) {
            const bool bias = strncmp(families[c].names[i], "rel", 3) == 0;
            const int64_t size = families[c].norm == NORM_RMS_ALL && i == 0 ? 4 : 2;
            snprintf(name[count], sizeof name[count], "%s%s", families[c].prefix, families[c].names[i]);
            items[count] = counting(name[count], bias ? 2 : 1, bias ? 8 : size, 2, (float)(100 * (i + 1)));
        }
        if (!read_file(&f, items, count, NULL, false))
            fail_msg("case %zu: %s", c, diag_first(&f.diag));
        assert_int_equal(f.weights.count, count);
        for (size_t i = 0; i < 4 && families[c].tensors[i] != NULL; i++)
            for (size_t e = 0; e < 2; e++)
                assert_true(at(&f, families[c].tensors[i], e) ==
                            (float)(100 * (i + 1) + e + (families[c].plus_one ? 1 : 0)));
        stop(&f);
    }
}

/* Under its own name a file holds whatever a layer learns, and each is missed by name and shape: of all that a spec may
 * ask for, by the table of tensors. */
static void test_every_tensor(void **state)
{
    static const struct { enum layer_norm norm; enum layer_relative relative; bool projected, conv; } cases[] = {
        {NORM_LAYER, RELATIVE_T5, 0, 0}, {NORM_RMS_ALL, RELATIVE_TABLE, 0, 1}, {NORM_RMS, RELATIVE_NONE, 1, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (enum layer_tensor missing = 0; missing <= TENSOR_COUNT; missing++) { /* TENSOR_COUNT: none */
            struct fixture f;
            struct tensor items[TENSOR_COUNT];
            size_t count = 0;
            start(&f);
            f.layer.bias = f.layer.sink = true;
            f.layer.qk_norm = cases[c].norm;
            f.layer.qk_shift = true;
            f.layer.relative = cases[c].relative;
            f.layer.number[SCORE_RELATIVE] = cases[c].relative != RELATIVE_NONE;
            f.layer.rel_buckets = 8;
            f.layer.rel_width = 5;
            f.layer.projected = cases[c].projected;
            f.layer.w_o = cases[c].conv ? W_O_CONV : W_O_DENSE;
            f.layer.conv_width = 3;
            for (f.layer.table_count = 0; f.layer.table_count < LAYER_TABLES; f.layer.table_count++)
                f.layer.tables[f.layer.table_count] = (struct layer_table){
                    .name = (char *)&"a\0b\0c\0d\0e\0f\0g\0h"[2 * f.layer.table_count],
                    .axes = 4, .extent = {2, 1, 3, (int64_t)f.layer.table_count + 1}};
            for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
                int64_t shape[4];
                const int rank = layer_weight_shape(&f.layer, t, shape);
                int64_t size = 1;
                for (int axis = 0; axis < rank; axis++)
                    size *= shape[axis];
                if (rank == 0 || t == missing)
                    continue;
                items[count] = counting(layer_tensor_called(&f.layer, t), 1, size, 0, (float)(1000 * t));
                items[count].rank = rank;
                memcpy(items[count++].shape, shape, sizeof shape);
            }
            assert_true(count >= 12);
            const bool whole = missing == TENSOR_COUNT || !layer_weight_shape(&f.layer, missing, (int64_t[4]){0});
            const bool good = read_file(&f, items, count, NULL, false);
            if (good != whole)
                fail_msg("case %zu without %s: %s", c, whole ? "nothing" : layer_tensor_called(&f.layer, missing),
                         good ? "read" : diag_first(&f.diag));
            for (enum layer_tensor t = 0; t < TENSOR_COUNT && good; t++)
                if (layer_weight_shape(&f.layer, t, (int64_t[4]){0}) > 0)
                    assert_true(at(&f, layer_tensor_called(&f.layer, t), 1) == (float)(1000 * t + 1));
            if (!whole && strstr(diag_first(&f.diag), layer_tensor_called(&f.layer, missing)) == NULL)
                fail_msg("without %s: %s", layer_tensor_called(&f.layer, missing), diag_first(&f.diag));
            stop(&f);
        }
}

/* A table has its own name behind the module's, whoever named the module; a layer of nothing else is found by it. */
static void test_tables(void **state)
{
    static const struct { const char *module, *prefix, *table, *message; int64_t size; bool projected; } cases[] = {
        {"", NULL, "slope", NULL, 3, 0}, {"", NULL, "slope", NULL, 3, 1}, {"l.3.self_attn.", NULL, "slope", NULL, 3, 0},
        {"l.3.self_attn.", "l.3", "slope", NULL, 3, 1},
        {"l.3.self_attn.", NULL, "slope",
         "\"l.3.self_attn.slope\" is [4]; [3] is needed (table.slope of the spec)", 4, 0},
        {"l.3.", NULL, "slope", "\"l.3.slope\" is [2]; [3] is needed (table.slope of the spec)", 2, 1},
        {"l.3.self_attn.", NULL, "slop",
         "\"l.3.self_attn.slope\" is missing; [3] is needed (table.slope of the spec)", 3, 0},
        {"l.3.", NULL, "slop", "the layer among 4 tensors: l.3.q_proj.weight, l.3.k_proj.weight, l.3.v_proj.weight, "
         "l.3.slop; known are names that end in slope (attngen), of shape [3]", 3, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fixture f;
        struct tensor items[5];
        char name[5][80];
        const int matrices = cases[c].projected ? 3 : 4; /* a w_o that it does not have is refused */
        start(&f);
        f.layer.projected = cases[c].projected;
        f.layer.w_o = cases[c].projected ? W_O_NONE : W_O_DENSE;
        f.layer.tables[f.layer.table_count++] = (struct layer_table){.name = (char *)"slope", .axes = 1, .extent = {3}};
        for (int i = 0; i < matrices; i++) {
            snprintf(name[i], sizeof name[i], cases[c].module[0] ? "%s%c_proj.weight" : "%sw_%c", cases[c].module,
                     "qkvo"[i]);
            const bool small = "qkvo"[i] == 'k' || "qkvo"[i] == 'v', out_in = cases[c].module[0] != '\0';
            items[i] = counting(name[i], 2, small && out_in ? 2 : D, small && !out_in ? 2 : D, 0);
        }
        snprintf(name[matrices], sizeof name[matrices], "%s%s", cases[c].module, cases[c].table);
        items[matrices] = counting(name[matrices], 1, cases[c].size, 0, 7);
        if (read_file(&f, items, (size_t)matrices + 1, cases[c].prefix, false) != (cases[c].message == NULL))
            fail_msg("case %zu: %s", c, f.diag.errors ? diag_first(&f.diag) : "read");
        if (cases[c].message == NULL) {
            assert_int_equal(f.weights.count, cases[c].projected ? 1 : 5);
            for (size_t i = 0; i < 3; i++)
                assert_true(at(&f, "slope", i) == (float)(7 + i));
        } else if (strstr(diag_first(&f.diag), cases[c].message) == NULL) {
            fail_msg("case %zu: not \"%s\" but %s", c, cases[c].message, diag_first(&f.diag));
        }
        stop(&f);
    }
}

/* Without projections the output's weights are found by themselves, and a layer without any learned tensor needs none. */
static void test_without_projections(void **state)
{
    for (int with_output = 0; with_output < 2; with_output++) {
        struct fixture f;
        start(&f);
        f.layer.projected = true;
        f.layer.w_o = with_output ? W_O_DENSE : W_O_NONE;
        struct tensor items[] = {counting("a.q_proj.weight", 2, D, D, 0), counting("a.out_proj.weight", 2, D, D, 7)};
        assert_int_equal(read_file(&f, items, 2, NULL, false), with_output); /* else there is none to read */
        assert_int_equal(f.weights.count, with_output);
        if (with_output)
            assert_true(entry(&f, "w_o", D, 1, 2) == 7 + 2 * D + 1);
        stop(&f);
    }
}

/* what is refused, and in which words */
static void test_refusals(void **state)
{
    static const struct { const char *names[6]; const char *prefix, *message; bool bias, identity, split; } cases[] = {
        {{"self.query.weight", "self.key.weight", "self.value.weight"}, NULL,
         "\"output.dense.weight\" is missing", 0, 0, 0},
        {{"a.q.weight", "a.k.weight", "b.q.weight", "b.k.weight"}, NULL,
         "weights of 2 layers: \"a.q.weight\" (T5)", 0, 0, 0},
        {{"a.q.weight", "a.k.weight"}, "b",
         "no tensor's name begins with \"b\"; the file has a.q.weight, a.k.weight", 0, 0, 0},
        {{"wq", "wk"}, NULL,
         "no weights of queries among 2 tensors: wq, wk; known are names that end in w_q (attngen)", 0, 0, 0},
        {{"h.10.q_lin.weight"}, "h.1", "begins with \"h.1\"", 0, 0, 0},
        {{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "out_proj.weight"}, NULL,
         "w_o could be any of 2 tensors", 0, 0, 0},
        {{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "q_proj.bias"}, NULL,
         "\"q_proj.bias\" holds b_q, and the layer has none; the spec needs bias = true", 0, 0, 0},
        {{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"}, NULL, "--zero-bias", 1, 0, 0},
        {{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"}, NULL, "needs w_v = dense", 0, 1, 0},
        {{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "q_norm.weight"}, NULL,
         "\"q_norm.weight\" holds g_q, and the layer has none; the spec needs a qk_norm that has weights", 0, 0, 0},
        {{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "sinks"}, NULL, "the spec needs sink = true",
         0, 0, 0},
        {{"q.weight", "k.weight", "v.weight", "o.weight", "relative_attention_bias.weight"}, NULL,
         "the spec needs relative = t5", 0, 0, 0},
        {{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "q_layernorm.norms.0.weight"}, NULL,
         "a normalization with weights of each head, which the layer cannot have", 0, 0, 0},
        {{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"}, NULL,
         "the layer has input = split", 0, 0, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fixture f;
        struct tensor items[6];
        size_t count = 0;
        start(&f);
        f.layer.bias = cases[c].bias;
        f.layer.identity = cases[c].identity;
        f.layer.split = cases[c].split;
        for (; count < 6 && cases[c].names[count] != NULL; count++) {
            const bool small = strpbrk(cases[c].names[count], "kv") != NULL;
            items[count] = counting(cases[c].names[count], 2, small ? 2 : D, D, 0);
        }
        assert_false(read_file(&f, items, count, cases[c].prefix, false));
        bool said = false;
        for (size_t i = 0; i < f.diag.errors; i++)
            said = said || strstr(f.diag.messages[i], cases[c].message) != NULL;
        if (!said)
            fail_msg("case %zu: not \"%s\" but %s", c, cases[c].message,
                     f.diag.errors ? f.diag.messages[0] : "nothing");
        assert_false(f.diag.environment);
        assert_int_equal(f.weights.count, 0);
        stop(&f);
    }
}

/* Weights of a block, by attngen's names; and what is wrong with others. */
static void test_block(void **state)
{
    static const char *const names[] = {"l.w_q", "l.w_k", "l.w_v", "l.w_o", "l.n1_g", "l.n2_g", "l.w_1", "l.b_1", "l.w_2",
                                        "l.b_2"};
    static const struct { const char *leaves_out, *other, *message; bool zero_bias; } cases[] = {
        {NULL, NULL, NULL, 0}, {"l.b_2", NULL, NULL, 1}, {"l.n2_g", NULL, "\"l.n2_g\" is missing", 0},
        {"l.w_2", NULL, "\"l.w_2\" is missing", 0}, {"l.b_1", NULL, "\"l.b_1\" is missing", 0},
        {NULL, "l.w_g", "\"l.w_g\" holds w_g, and the layer has none; the spec needs an ffn with a gate", 0},
        {NULL, "l.n1_b", "holds n1_b, and the layer has none; the spec needs a block with this norm", 0},
        {"l.w_q", "l.q.weight", "the names of T5 are of attention alone, and the layer is a block", 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fixture f;
        struct tensor items[12];
        size_t count = 0;
        start(&f);
        f.layer.block = BLOCK_PRE;
        f.layer.input_norm = true;
        f.layer.block_rms = f.layer.ffn_bias = f.norm_plus_one = true;
        f.layer.ffn = FFN_RELU;
        f.layer.d_ff = 3;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const char *name = names[i] + 2;
            const bool vector = name[0] == 'n' || name[0] == 'b', of_ff = strcmp(name, "b_1") == 0;
            const bool few = strcmp(name, "w_k") == 0 || strcmp(name, "w_v") == 0;
            if (cases[c].leaves_out != NULL && strcmp(names[i], cases[c].leaves_out) == 0)
                continue;
            items[count++] = vector ? counting(names[i], 1, of_ff ? 3 : D, 0, 1)
                                    : counting(names[i], 2, strcmp(name, "w_2") == 0 ? 3 : D,
                                               few ? 2 : strcmp(name, "w_1") == 0 ? 3 : D, 1);
        }
        if (cases[c].other != NULL)
            items[count++] = counting(cases[c].other, 2, D, D, 0);
        const bool good = read_file(&f, items, count, NULL, cases[c].zero_bias);
        assert_int_equal(good, cases[c].message == NULL);
        if (good) {
            assert_int_equal(f.weights.count, 10);
            assert_true(at(&f, "n2_g", 3) == 5 && at(&f, "b_1", 2) == 3); /* gains are 1 less in the file */
            assert_true(at(&f, "w_1", 4) == 5 && at(&f, "w_2", 11) == 12);
            assert_true(at(&f, "b_2", 1) == (cases[c].zero_bias ? 0 : 2));
        } else {
            bool said = false;
            for (size_t i = 0; i < f.diag.errors; i++)
                said = said || strstr(f.diag.messages[i], cases[c].message) != NULL;
            if (!said)
                fail_msg("case %zu: not \"%s\" but %s", c, cases[c].message,
                         f.diag.errors ? f.diag.messages[0] : "nothing");
        }
        stop(&f);
    }
}

static void test_shape_type_and_value(void **state)
{
    static const char *const messages[] = {
        "tensor \"k_proj.weight\" is [4][2]; [2][4] is needed",
        "tensor \"k_proj.weight\" is I32; F32, F16, BF16 and F64 are read",
        "tensor \"k_proj.weight\": w_k holds inf as an f32, element 0 of 8",
    };
    for (int c = 0; c < 3; c++) {
        struct fixture f;
        start(&f);
        struct tensor items[] = {
            counting("q_proj.weight", 2, D, D, 0), counting("k_proj.weight", 2, c == 0 ? D : 2, c == 0 ? 2 : D, 0),
            counting("v_proj.weight", 2, 2, D, 0), counting("o_proj.weight", 2, D, D, 0),
        };
        if (c == 1)
            items[1].type = TYPE_I32;
        if (c == 2)
            *(float *)items[1].data = INFINITY;
        assert_false(read_file(&f, items, 4, NULL, false));
        assert_int_equal(f.diag.errors, 1);
        if (strstr(f.diag.messages[0], messages[c]) == NULL)
            fail_msg("not \"%s\" but %s", messages[c], f.diag.messages[0]);
        stop(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),    cmocka_unit_test(test_bf16),     cmocka_unit_test(test_own_names),
        cmocka_unit_test(test_groups), cmocka_unit_test(test_learned), cmocka_unit_test(test_without_projections),
        cmocka_unit_test(test_fused),  cmocka_unit_test(test_biases),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_shape_type_and_value), cmocka_unit_test(test_every_tensor), cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
