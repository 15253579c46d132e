/* SPDX-License-Identifier: MIT */
/* Plan files: what is written is read again, and everything else is an error at its line.
 *
 * Left out on purpose: what a plan does with the keys (test_plan.c), and measuring (test_tune.sh).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "plan/planfile.h"
#include "spec/keys.h"
#include "spec/layer.h"

#define SPEC "examples/tiny.layer"
#define CPU "A CPU"
#define COMPILER "a compiler 1.2"

static struct layer *layer_with(const char *set)
{
    struct diag diag = {0};
    struct layer *layer = layer_read(SPEC, &set, set != NULL, &diag);
    assert_non_null(layer);
    diag_free(&diag);
    return layer;
}

/* Line 1 is format, 2 spec, 3 fingerprint; what follows is `rest`. */
static char *text_for(const struct layer *layer, const char *rest)
{
    struct plan_file file = plan_file_empty();
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    plan_file_print(&file, layer, out);
    fputs(rest, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Reads `text` as a file; its name comes back in `path`. */
static bool read_text(struct plan_file *file, const char *text, size_t length, char path[32], const struct layer *layer,
                      struct diag *diag)
{
    strcpy(path, "/tmp/test_planfile.XXXXXX");
    const int handle = mkstemp(path);
    assert_true(handle >= 0);
    assert_int_equal(write(handle, text, length), length);
    close(handle);
    const bool good = plan_file_read(file, path, layer, diag);
    unlink(path);
    return good;
}

static size_t row(const char *name)
{
    return (size_t)(isa_find(name) - isa_table);
}

#define SECTION "[avx2]\ncpu = " CPU "\ncompiler = " COMPILER "\n"

static void test_round_trip(void **state)
{
    struct layer *layer = layer_with(NULL);
    struct plan_file written = plan_file_empty(), read;
    struct diag diag = {0};
    char path[32], *text = NULL;
    size_t size;
    written.common.value[PLAN_FOLD] = PLAN_OFF;
    written.common.value[PLAN_LATENT] = PLAN_EXPANDED;
    for (size_t i = 1; i < 3; i++) {
        written.isa[i].line = 1;
        strcpy(written.isa[i].cpu, CPU);
        strcpy(written.isa[i].compiler, COMPILER);
        for (int key = 0; key < PLAN_KEYS; key++) /* legal for each: words have 0 and 1 */
            if (!plan_key_common(key) && key != PLAN_EXACT_CHUNKS)
                written.isa[i].request.value[key] = key == PLAN_PANEL_DEPTH ? 100 : 1;
        written.isa[i].request.value[PLAN_UNROLL] = PLAN_UNROLL_FULL;
    }
    FILE *out = open_memstream(&text, &size);
    plan_file_print(&written, layer, out);
    fclose(out);
    assert_true(read_text(&read, text, size, path, layer, &diag));
    assert_int_equal(diag.errors, 0);
    assert_memory_equal(&read.common, &written.common, sizeof read.common);
    for (size_t i = 0; i < isa_count; i++) {
        assert_memory_equal(&read.isa[i].request, &written.isa[i].request, sizeof read.isa[i].request);
        assert_string_equal(read.isa[i].cpu, written.isa[i].cpu);
        assert_string_equal(read.isa[i].compiler, written.isa[i].compiler);
        assert_true((read.isa[i].line > 0) == (written.isa[i].line > 0));
    }
    free(text);
    layer_free(layer);
}

/* Blanks, comments, CR LF, no newline at the end. */
static void test_lenient(void **state)
{
    struct layer *layer = layer_with(NULL);
    struct diag diag = {0};
    struct plan_file file;
    char path[32];
    char *text = text_for(layer, "# words\n\n plan.fold=on \r\n\t[ avx2 ]\r\ncpu=" CPU " # here\ncompiler = " COMPILER
                                 "\nplan.unroll\t=\tauto\nplan.softmax = two_pass");
    assert_true(read_text(&file, text, strlen(text), path, layer, &diag));
    assert_string_equal(file.isa[row("avx2")].cpu, CPU);
    assert_int_equal(file.isa[row("avx2")].request.value[PLAN_UNROLL], PLAN_AUTO);
    assert_int_equal(file.isa[row("avx2")].request.value[PLAN_SOFTMAX], PLAN_TWO_PASS);
    assert_int_equal(file.common.value[PLAN_FOLD], PLAN_ON);
    free(text);
    layer_free(layer);
}

static void test_errors(void **state)
{
    static const struct {
        const char *rest;
        int line; /* 0: of the whole file */
        const char *says;
    } bad[] = {
        {"", 0, "has no section"},
        {"nonsense\n", 4, "neither 'key = value'"},
        {"plan.nonsense = 1\n", 4, "unknown key 'plan.nonsense'; the plan knows plan.unroll"},
        {"speed = 1\n", 4, "unknown key 'speed'"},
        {"format = 1\n", 4, "format occurs twice, first in line 1"},
        {"plan.unroll = 1\n" SECTION, 4, "write it into a section"},
        {"plan.fold = maybe\n" SECTION, 4, "plan.fold = maybe is not a legal value; write auto, on or off"},
        {"plan.fold = on\nplan.fold = on\n" SECTION, 5, "occurs twice, first in line 4"},
        {"[mmx]\nplan.unroll = 1\n", 4, "unknown instruction set 'mmx'"},
        {"[mmx]\ncpu = x\ncompiler = y\n" SECTION, 4, "unknown instruction set 'mmx'"},
        {"[avx2]\ncompiler = x\n", 4, "[avx2] has no cpu"},
        {"[avx2]\ncpu = x\n", 4, "[avx2] has no compiler"},
        {SECTION "[avx2]\n", 7, "avx2 occurs twice, first in line 4"},
        {SECTION "cpu = x\n", 7, "cpu occurs twice, first in line 5"},
        {SECTION "cpus = x\n", 7, "unknown key 'cpus'"},
        {SECTION "format = 1\n", 7, "unknown key 'format'"},
        {SECTION "plan.fold = on\n", 7, "before the first section"},
        {SECTION "plan.latent = expanded\n", 7, "before the first section"},
        {SECTION "plan.exact_chunks = true\n", 7, "write it into the spec"},
        {SECTION "plan.query_vecs = 5\n", 7, "plan.query_vecs = 5 is not a legal value; write auto or 1 ... 4 vectors"},
        {SECTION "plan.softmax = three_pass\n", 7, "write auto, one_pass or two_pass"},
        {SECTION "plan.unroll = 2\nplan.unroll = 2\n", 8, "plan.unroll occurs twice, first in line 7"},
        {"[avx2]\ncpu =\ncompiler = x\n", 5, "cpu needs a value of 1 to 255 bytes"},
    };
    struct layer *layer = layer_with(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct diag diag = {0};
        struct plan_file file;
        char path[32], place[64], *text = text_for(layer, bad[i].rest);
        assert_false(read_text(&file, text, strlen(text), path, layer, &diag));
        assert_true(diag.errors == 1 && !diag.environment); /* one mistake, one message */
        if (bad[i].line > 0)
            snprintf(place, sizeof place, "%s:%d: error: ", path, bad[i].line);
        else
            snprintf(place, sizeof place, "%s: error: ", path);
        bool found = false;
        for (size_t m = 0; m < diag.errors; m++)
            found = found || (strncmp(diag.messages[m], place, strlen(place)) == 0 &&
                              strstr(diag.messages[m], bad[i].says) != NULL);
        if (!found)
            diag_report(&diag, stderr);
        assert_true(found);
        diag_free(&diag);
        free(text);
    }
    layer_free(layer);
}

/* Heads that are missing, of another format, of another layer or changed by hand; and what is no text at all. */
static void test_bad_heads(void **state)
{
    struct layer *layer = layer_with(NULL), *other = layer_with("h=8"), *narrow = layer_with("mask=causal");
    char *good = text_for(layer, SECTION), *of_other = text_for(other, SECTION), *of_narrow = text_for(narrow, SECTION);
    char *format = text_for(layer, SECTION), *changed = text_for(layer, SECTION), *zero = text_for(layer, SECTION);
    const size_t length = strlen(good);
    char *endless = malloc(8192);
    memset(endless, 'x', 8191);
    endless[8191] = '\0';
    format[strlen("format = ")] = '2';
    *strstr(changed, "h=4") = 'i';
    zero[length - 3] = '\0';
    const struct { const char *text; size_t length; const char *says; } bad[] = {
        {"", 0, "has no format"},
        {strchr(good, '\n') + 1, strlen(strchr(good, '\n') + 1), "has no format"},
        {"format = 1\n" SECTION, strlen("format = 1\n" SECTION), "has no spec"},
        {format, length, ":1: error: format = 2 is not known; this attngen reads 1"},
        {changed, length, ":3: error: fingerprint = "},
        {of_other, strlen(of_other),
         ":2: error: the plan is for another layer: h=8, here h=4; h_kv=8, here h_kv=4; d_k=8, here d_k=16"},
        {of_narrow, strlen(of_narrow),
         ":2: error: the plan is for another layer: mask=causal, here mask=none; tune this one"},
        {zero, length, "a zero byte"},
        {endless, 8191, ":1: error: a zero byte, or a line of 2047 bytes and more"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct diag diag = {0};
        struct plan_file file;
        char path[32];
        assert_false(read_text(&file, bad[i].text, bad[i].length, path, layer, &diag));
        if (strstr(diag.messages[0], bad[i].says) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", bad[i].says, diag.messages[0]);
        diag_free(&diag);
    }
    struct diag diag = {0};
    struct plan_file file;
    assert_false(plan_file_read(&file, "/nonexistent/plan", layer, &diag));
    assert_true(diag.environment);
    diag_free(&diag);
    assert_true(read_text(&file, of_other, strlen(of_other), (char[32]){0}, NULL, &(struct diag){0}));
    free(good), free(of_other), free(of_narrow), free(format), free(changed), free(zero), free(endless);
    layer_free(layer), layer_free(other), layer_free(narrow);
}

/* Whatever a layer may have besides, a plan is for a layer that has it, and for no other. */
static void test_kinds(void **state)
{
    static const struct { const char *given, *says; } kinds[] = {
        {"rope=half", "rope=half, here no rope; rope_dims=16, here no rope_dims"},
        {"qk_norm=rms", "qk_norm=rms, here no qk_norm"}, {"softcap=30", "softcap=true, here no softcap"},
        {"alibi=true", "alibi=true, here no alibi"}, {"relative=t5", "relative=t5, here no relative"},
        {"sink=true", "sink=true, here no sink"}, {"lse=true", "lse=true, here no lse"},
        {"score=s + p", ", here no score"}, {"visible=p > j", ", here no visible"}};
    struct layer *layer = layer_with(NULL);
    char *plain = text_for(layer, SECTION), path[32];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct layer *of_kind = layer_with(kinds[i].given);
        char *text = text_for(of_kind, SECTION);
        struct diag diag = {0}, reversed = {0};
        struct plan_file file;
        assert_true(read_text(&file, text, strlen(text), path, of_kind, &(struct diag){0}));
        assert_false(read_text(&file, text, strlen(text), path, layer, &diag));
        assert_non_null(strstr(diag.messages[0], kinds[i].says));
        assert_false(read_text(&file, plain, strlen(plain), path, of_kind, &reversed));
        assert_non_null(strstr(reversed.messages[0], ": no "));
        diag_free(&diag), diag_free(&reversed);
        free(text);
        layer_free(of_kind);
    }
    free(plain);
    layer_free(layer);
}

/* What a plan does not depend on may change. */
static void test_same_plan(void **state)
{
    static const char *const free_to_change[] = {"scale=0.5", "weight_layout=out_in", "name=other", "plan.unroll=4"};
    struct layer *layer = layer_with(NULL);
    char *text = text_for(layer, SECTION), path[32];
    for (size_t i = 0; i < sizeof free_to_change / sizeof free_to_change[0]; i++) {
        struct layer *other = layer_with(free_to_change[i]);
        struct diag diag = {0};
        struct plan_file file;
        assert_true(read_text(&file, text, strlen(text), path, other, &diag));
        layer_free(other);
    }
    free(text);
    layer_free(layer);
}

/* Keys with one value and with another, of a layer that may have them. Whether a plan of the one is for the other: for
 * those keys alone, marked '=', whose rows say that no plan depends on them. A key that is not here needs no others: its
 * values are made of its row. */
static const struct {
    const char *key, *base, *one, *other;
} all_keys[] = {
    {"=name", "", "a", "b"}, {"layer", "d_ff=64;ffn=relu;d_model=64;seq_len=32", "attention;block=pre;h=4", "ffn"},
    {"d_in", "layer=linear;d_out=64;seq_len=9", "32", "48"}, {"d_out", "layer=linear;d_in=64;seq_len=9", "32", "48"},
    {"d_model", "h=4;seq_len=9", "64", "128"}, {"h", "d_model=64;seq_len=9", "4", "8"}, {"h_kv", "*", "1", "2"},
    {"width", "*", "narrow", "wide"}, {"d_k", "*;d_v=16", "16", "8"}, {"d_v", "*;d_k=16", "16", "8"},
    {"input", "*", "shared", "split"},
    {"heads", "h=4;seq_len=9;input=projected;d_k=16;d_v=16;w_o=none", "last", "first"},
    {"attention", "*", "self", "cross"}, {"d_source", "*;attention=cross", "64", "48"},
    {"seq_len", "d_model=64;h=4", "32", "33"}, {"source_len", "*;attention=cross", "64", "48"},
    {"source_kept", "*;attention=cross", "false", "true"},
    {"cache", "*;mask=causal;cache_len=48", "rows", "paged;page_len=8"},
    {"cache_type", "*;mask=causal;cache=rows;cache_len=48", "f32", "i8"},
    {"cache_len", "*;mask=causal;cache=rows", "48", "64"},
    {"page_len", "*;mask=causal;cache=paged;cache_len=48", "8", "16"},
    {"offset", "*;mask=causal;attention=cross", "none", "end"}, {"mask", "*", "none", "causal"},
    {"window_left", "*;mask=window", "3", "4"}, {"window_right", "*;mask=window", "3", "4"},
    {"pad_rows", "*;mask=padding", "computed", "skipped"}, {"w_k", "*", "dense", "tied"},
    {"w_v", "*", "dense", "identity"}, {"w_o", "*", "dense", "none"}, {"conv_width", "*;w_o=conv", "3", "5"},
    {"bias", "*", "false", "true"}, {"qk_norm", "*", "rms", "layer"}, {"=norm_eps", "*;qk_norm=rms", "1e-6", "1e-5"},
    {"=qk_norm_eps", "*;qk_norm=rms", "1e-6", "1e-5"},
    {"rope", "*", "none", "half"}, {"rope_dims", "*;rope=half", "8", "16"},
    {"=rope_theta", "*;rope=half", "10000", "500000"}, {"rope_positions", "*;rope=half", "offset", "given"},
    {"=rope_scaling", "*;rope=half;rope_factor=2", "linear", "linear"},
    {"=rope_factor", "*;rope=half;rope_scaling=linear", "2", "3"},
    {"=rope_original_len", "*;rope=half;rope_scaling=llama3;rope_factor=2", "16", "20"},
    {"=rope_low", "*;rope=half;rope_scaling=llama3;rope_factor=2;rope_original_len=16", "1", "2"},
    {"=rope_high", "*;rope=half;rope_scaling=llama3;rope_factor=2;rope_original_len=16", "4", "5"},
    {"=rope_beta_fast", "*;rope=half;rope_scaling=yarn;rope_factor=2;rope_original_len=16", "32", "30"},
    {"=rope_beta_slow", "*;rope=half;rope_scaling=yarn;rope_factor=2;rope_original_len=16", "1", "2"},
    {"=rope_truncate", "*;rope=half;rope_scaling=yarn;rope_factor=2;rope_original_len=16", "true", "false"},
    {"=rope_attention_factor", "*;rope=half;rope_scaling=yarn;rope_factor=2;rope_original_len=16", "1", "2"},
    {"=rope_factors", "*;rope=half;rope_dims=4", "1, 2", "1.5, 2"},
    {"=rope_long_factors", "*;rope=half;rope_dims=4;rope_factors=1, 2;rope_original_len=16", "1, 2", "1.5, 2"},
    {"=rope_len", "*;rope=half;rope_scaling=dynamic;rope_factor=2;rope_original_len=16", "32", "64"},
    {"=scale", "*", "0.5", "0.25"}, {"softcap", "*", "none", "30"}, {"alibi", "*", "false", "true"},
    {"relative", "*", "none", "t5"}, {"rel_buckets", "*;relative=t5", "32", "16"},
    {"=rel_distance", "*;relative=t5", "128", "64"}, {"rel_left", "*;relative=table;rel_right=3", "3", "4"},
    {"rel_right", "*;relative=table;rel_left=3", "3", "4"}, {"score", "*", "s + p", "s - p"},
    {"visible", "*", "p > j", "p < j"}, {"sink", "*", "false", "true"}, {"scores", "*", "true", "raw"},
    {"lse", "*", "false", "true"}, {"train", "*", "false", "true"}, {"dropout", "*;train=true", "0", "0.5"},
    {"block", "*", "pre", "post"}, {"norm", "*;block=pre", "layer", "rms"},
    {"norm_bias", "*;block=pre", "true", "false"},
    {"input_norm", "*;block=pre;ffn=relu;d_ff=64", "true", "false"}, {"norm_shared", "*;block=parallel;ffn=relu;d_ff=64", "false", "true"},
    {"ffn", "*;block=pre;d_ff=64", "relu", "swiglu"}, {"d_ff", "*;block=pre;ffn=relu", "64", "128"},
    {"ffn_bias", "*;block=pre;ffn=relu;d_ff=64;bias=true", "true", "false"},
    {"ffn_limit", "*;block=pre;ffn=swiglu;d_ff=64", "none", "7"},
    {"=ffn_alpha", "*;block=pre;ffn=swiglu;d_ff=64;ffn_limit=7", "1", "1.702"},
    {"activation", "layer=linear;d_in=64;d_out=64;seq_len=9", "none", "relu"},
    {"rule", "layer=recurrent;input=projected;h=2;d_k=8;seq_len=9", "delta", "gated"},
    {"decay", "layer=recurrent;input=projected;h=2;d_k=8;seq_len=9", "head", "column"},
    {"h_v", "layer=recurrent;input=projected;h=2;d_k=8;seq_len=9", "2", "4"},
    {"channels", "layer=conv;conv_taps=4;seq_len=9", "32", "48"},
    {"conv_taps", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9", "0", "4"},
    {"out_gate", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9", "none", "silu"},
    {"=out_norm_eps", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9;out_gate=silu", "1e-6", "1e-5"},
    {"=beta_scale", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9", "1", "2"},
    {"state_window", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9", "0", "4"},
    {"=conv_bias", "layer=recurrent;d_model=8;h=2;d_k=8;conv_taps=4;seq_len=9", "false", "true"},
    {"=norm_before_gate", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9;out_gate=silu", "true", "false"},
    {"=out_norm_groups", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9;out_gate=silu", "0", "2"},
    {"decay_rank", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9", "3", "4"},
    {"gate_rank", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9;out_gate=silu", "3", "4"},
    {"=dt_min", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9", "none", "0.01"},
    {"=dt_max", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9", "none", "2"},
    {"dt_values", "layer=recurrent;rule=gated;d_model=8;h=2;d_k=8;seq_len=9", "false", "true"},
    {"=skip", "layer=recurrent;d_model=8;h=2;d_k=8;seq_len=9", "false", "true"},
    {"qk_norm_gains", "*;qk_norm=rms", "shared", "heads"}, {"qk_norm_bias", "*;qk_norm=layer", "true", "false"},
    {"=rope_sections", "*;rope=half;rope_dims=6;rope_positions=given", "1, 2", "2, 1"},
    {"=rope_section_order", "*;rope=half;rope_dims=4;rope_positions=given;rope_sections=1, 1", "contiguous", "interleaved"},
    {"rel_keys", "*;rel_left=3", "shared", "heads"}, {"rel_queries", "*;rel_left=3", "shared", "heads"},
    {"rel_biases", "*;rel_left=3;rel_keys=heads", "false", "true"},
    {"=rel_rows", "*;rel_keys=heads;rel_left=3", "clamped", "clamped"},
    {"gate", "*", "none", "features"}, {"kv_rank", "*;rope=half;rope_dims=8", "16", "24"},
    {"q_rank", "*;rope=half;rope_dims=8;kv_rank=16", "8", "12"},
    {"=weight_layout", "*", "in_out", "out_in"}, {"weight_type", "*", "f32", "bf16"}, {"precision", "*", "f32", "i8"},
    {"tensor_type", "*", "f32", "bf16"}, {"=table.bias", "*;score=s + bias[i]", "4", "4"},
};

/* The layer of such a text, with one more key. */
static struct layer *layer_of_text(const char *base, const char *key, const char *value)
{
    char text[400], *c;
    struct diag diag = {0};
    snprintf(text, sizeof text, "%s;%s=%s\n", strcmp(base, "") == 0 ? "*" : base, key, value);
    if ((c = strchr(text, '*')) != NULL && c == text) {
        static const char plain[] = "d_model=64;h=4;seq_len=32";
        memmove(text + sizeof plain - 1, text + 1, strlen(text));
        memcpy(text, plain, sizeof plain - 1);
    }
    for (c = text; (c = strchr(c, ';')) != NULL; )
        *c = '\n';
    struct layer *layer = layer_read_text("a.layer", text, NULL, 0, &diag);
    diag_report(&diag, stderr);
    assert_non_null(layer);
    return layer;
}

static const char *key_of(size_t i)
{
    return all_keys[i].key + (all_keys[i].key[0] == '=');
}

/* Two values of a key */
static void two_values(enum key key, char value[2][24])
{
    const struct key_word *words = key_words(key);
    for (int i = 0; i < 2; i++)
        if (words->word != NULL)
            snprintf(value[i], 24, "%s", words[i].word);
        else
            snprintf(value[i], 24, "%d", 2 + i);
}

static void check_key(const char *key, const char *base, const char *of_one, const char *of_other, bool same)
{
    struct layer *one = layer_of_text(base, key, of_one), *other = layer_of_text(base, key, of_other);
    char *text = text_for(one, SECTION), path[32];
    struct diag diag = {0}, own = {0};
    struct plan_file file;
    assert_true(read_text(&file, text, strlen(text), path, one, &own));
    if (read_text(&file, text, strlen(text), path, other, &diag) != same)
        fail_msg("a plan of %s = %s is %sfor %s", key, of_one, same ? "not " : "", of_other);
    diag_free(&diag);
    free(text);
    layer_free(one), layer_free(other);
}

static void test_every_key(void **state)
{
    bool listed[KEY_COUNT + 1] = {false}; /* the last: a table */
    char value[2][24];
    for (size_t i = 0; i < sizeof all_keys / sizeof *all_keys; i++) {
        listed[key_find(key_of(i))] = true;
        check_key(key_of(i), all_keys[i].base, all_keys[i].one, all_keys[i].other, all_keys[i].key[0] == '=');
    }
    for (enum key key = 0; key < KEY_COUNT; key++) {
        two_values(key, value);
        if (!listed[key])
            check_key(key_rows[key].name, "*", value[0], value[1], key_rows[key].steers == STEERS_NOTHING);
    }
}

static char *warnings(const struct plan_file *file, unsigned isas, const char *cpu, const char *compiler)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    plan_file_warn(file, isas, cpu, compiler, out);
    fclose(out);
    return text;
}

static void test_warnings(void **state)
{
    struct layer *layer = layer_with(NULL);
    struct diag diag = {0};
    struct plan_file file;
    char path[32], expected[300], *text = text_for(layer, SECTION);
    assert_true(read_text(&file, text, strlen(text), path, layer, &diag));
    const unsigned it = 1u << row("avx2"), all = ~0u;
    const struct { unsigned isas; const char *cpu, *compiler; int lines; } cases[] = {
        {all, CPU, NULL, 0}, {all, CPU, COMPILER, 0}, {all, "", NULL, 0}, {all ^ it, "B", "c", 0},
        {it, "B", NULL, 1}, {it, "B", "c", 2}, {all, CPU, "c", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *said = warnings(&file, cases[i].isas, cases[i].cpu, cases[i].compiler);
        int lines = 0;
        for (const char *c = said; *c != '\0'; c++)
            lines += *c == '\n';
        assert_int_equal(lines, cases[i].lines);
        free(said);
    }
    char *said = warnings(&file, it, "B", NULL);
    snprintf(expected, sizeof expected, "%s:4: warning: the avx2 plan was measured on 'A CPU', this is 'B': as right "
             "here, maybe not as fast\n", path);
    assert_string_equal(said, expected);
    free(said);
    free(text);
    layer_free(layer);
}

/* Names as a file can hold them. */
static void test_names(void **state)
{
    char text[PLAN_TEXT], long_name[2 * PLAN_TEXT];
    plan_text(text, "  a # b\tc \nd");
    assert_string_equal(text, "a   b c");
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    plan_text(text, long_name);
    assert_int_equal(strlen(text), PLAN_TEXT - 1);
}

/* Each set gets its own section; the spec goes before the file; the reasons tell both. */
static void test_plans(void **state)
{
    struct layer *layer = layer_with("plan.unroll=4");
    struct diag diag = {0};
    struct plan_file file;
    char path[32], *text = text_for(layer, "plan.fold = on\n" SECTION "plan.query_vecs = 1\nplan.unroll = 16\n"
                                           "[avx512]\ncpu = c\ncompiler = c\nplan.query_vecs = 2\n"
                                           "plan.softmax = two_pass\n");
    assert_true(read_text(&file, text, strlen(text), path, layer, &diag));
    const unsigned isas = 1u << row("scalar") | 1u << row("avx2") | 1u << row("avx512");
    struct plan *plan = plan_make_from(layer, isas, &file, &diag), *without = plan_make(layer, isas, &diag);
    assert_non_null(plan);
    assert_non_null(without);
    assert_true(plan->fold.scores);
    assert_int_equal(plan->isas[0].vecs, without->isas[0].vecs);
    assert_int_equal(plan->isas[1].vecs, 1);
    assert_int_equal(plan->isas[2].vecs, 2);
    assert_true(!plan->isas[1].two_pass && plan->isas[2].two_pass);
    for (int i = 0; i < 3; i++)
        assert_int_equal(plan->isas[i].unroll_values, 4);
    assert_string_equal(plan->isas[1].reasons[0], "from the spec: plan.unroll = 4");
    assert_string_equal(plan->isas[1].reasons[1], "from the plan file: plan.query_vecs = 1, plan.fold = on");
    assert_string_equal(plan->isas[0].reasons[1], "from the plan file: plan.fold = on");
    plan_free(plan);
    plan_free(without);
    free(text);
    layer_free(layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_lenient), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_bad_heads), cmocka_unit_test(test_kinds), cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_same_plan), cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_names), cmocka_unit_test(test_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
