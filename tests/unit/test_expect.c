/* SPDX-License-Identifier: MIT */
/* The expected speed: counts that were made by hand, what must hold of any layer, and a layer for each bound.
 *
 * Left out on purpose: whether the figures are those of a machine; `make bench-flat` draws both.
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

#include "base/diag.h"
#include "plan/expect.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/layer.h"

#define SPEC "examples/tiny.layer" /* the keys that a test needs are set over it */
#define MEASURED "scalar,sse4,avx2,avx512" /* those that expect_knows */
#define MAX_KEYS 16

/* What is expected of "key=value key=value …" over SPEC on each set. */
struct expected {
    struct layer *layer;
    struct plan *plan;
    struct expect of[ISAS];
};

static void expect_layer(struct expected *e, const char *settings)
{
    char text[300];
    const char *set[MAX_KEYS];
    size_t count = 0;
    struct diag diag = {0};
    snprintf(text, sizeof text, "%s", settings);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(count < MAX_KEYS);
        set[count++] = word;
    }
    e->layer = layer_read(SPEC, set, count, &diag);
    e->plan = e->layer != NULL ? plan_make(e->layer, isa_parse_list(MEASURED, &diag), &diag) : NULL;
    if (e->plan == NULL)
        diag_report(&diag, stderr);
    assert_non_null(e->plan);
    for (int64_t i = 0; i < e->plan->count; i++)
        expect_make(&e->of[i], e->layer, &e->plan->isas[i], 1);
    diag_free(&diag);
}

static void forget(struct expected *e)
{
    plan_free(e->plan);
    layer_free(e->layer);
}

static const struct expect *on(const struct expected *e, const char *isa)
{
    int64_t i = 0;
    while (strcmp(e->plan->isas[i].isa->name, isa) != 0)
        i++;
    assert_true(i < e->plan->count);
    return &e->of[i];
}

/* Sets that no measured core has: said to be so, with no line for scripts. */
static void others_are_said_to_be_unknown(void **state)
{
    char *text = NULL;
    size_t length;
    struct diag diag = {0};
    struct layer *layer = layer_read(SPEC, NULL, 0, &diag);
    struct plan *plan = plan_make(layer, isa_all(), &diag);
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    expect_explain(plan, layer, 1, out);
    fclose(out);
    for (size_t i = 0; i < isa_count; i++) {
        char line[64], said[64];
        snprintf(line, sizeof line, "\nexpected %s layer ", isa_table[i].name);
        snprintf(said, sizeof said, "\n  %-16s no expectation: no core", isa_table[i].name);
        const bool known = (isa_parse_list(MEASURED, &diag) >> i & 1u) != 0;
        assert_int_equal(expect_knows(&isa_table[i]), known);
        assert_int_equal(strstr(text, line) != NULL, known);
        assert_int_equal(strstr(text, said) != NULL, !known && !isa_table[i].dots_only); /* which this pair lacks */
    }
    const char *scalar = strstr(text, "    an upper bound: scalar is as fast");
    assert_true(scalar != NULL && strstr(scalar, "\n  avx2 ") != NULL && strstr(scalar + 9, "an upper bound") == NULL);
    free(text);
    plan_free(plan);
    layer_free(layer);
}

/* Vector multiply-adds on AVX-512 of queries, keys, values, scores, weighted sums, output. */
static void check_fmas(const char *settings, const double fmas[6])
{
    static const enum expect_step_name steps[6] = {EXPECT_QUERIES, EXPECT_KEYS, EXPECT_VALUES,
                                                   EXPECT_SCORES, EXPECT_SUMS, EXPECT_OUTPUT};
    struct expected e;
    expect_layer(&e, settings);
    for (int i = 0; i < 6; i++)
        assert_float_equal(on(&e, "avx512")->step[steps[i]].fmas, fmas[i], 0);
    forget(&e);
}

#define SQUARE "plan.fold=off d_model=16 h=1 seq_len="

static void counts_by_hand(void **state)
{
    /* 16 features, 16 steps deep: one vector of queries, or of features, for each of 16 rows */
    check_fmas(SQUARE "16", (const double[6]){256, 256, 256, 256, 256, 256});
    /* products with tokens along the rows have one row; in attention the query fills one lane of its vectors */
    check_fmas(SQUARE "1", (const double[6]){16, 16, 16, 16, 16, 16});
    check_fmas(SQUARE "17", (const double[6]){17 * 16, 17 * 16, 17 * 16, 17 * 2 * 16, 17 * 2 * 16, 17 * 16});
    /* 17 columns take two vectors where they lie along the lanes, and 17 steps where they do not; values have tokens
     * along the lanes then */
    check_fmas("plan.fold=off d_model=17 h=1 seq_len=16",
               (const double[6]){16 * 2 * 17, 16 * 2 * 17, 17 * 17, 16 * 17, 16 * 17, 16 * 2 * 17});
    check_fmas("plan.fold=off plan.value_layout=rows d_model=17 h=1 seq_len=16",
               (const double[6]){16 * 2 * 17, 16 * 2 * 17, 16 * 2 * 17, 16 * 17, 16 * 17, 16 * 2 * 17});
    /* of whole numbers each step has four or two */
    check_fmas("d_model=64 h=2 seq_len=32 precision=i8", (const double[6]){2048, 2048, 2048, 1024, 1024, 2048});
    check_fmas("d_model=64 h=2 seq_len=32 precision=i16", (const double[6]){4096, 4096, 4096, 2048, 2048, 4096});
    check_fmas("d_model=128 h=2 seq_len=32 precision=i8 cache=rows cache_len=64",
               (const double[6]){8192, 8192, 8192, 4096, 4096, 8192});
    check_fmas(SQUARE "17 plan.value_layout=blocks",
               (const double[6]){17 * 16, 17 * 16, 512, 17 * 2 * 16, 17 * 2 * 16, 17 * 16});
}

static void counts_of_vectors_by_hand(void **state)
{
    /* 16 queries meet 31 vectors of distances, 16 keys two vectors of lanes of them */
    check_fmas(SQUARE "16 rel_keys=shared rel_left=15 rel_right=15",
               (const double[6]){256, 256, 256, 256 + 31 * 16, 256, 256});
    check_fmas(SQUARE "16 rel_queries=heads rel_left=15 rel_right=15",
               (const double[6]){256, 256, 256, 256 + 16 * 2 * 16, 256, 256});
    check_fmas(SQUARE "16 rel_keys=heads rel_queries=shared rel_right=3", /* four */
               (const double[6]){256, 256, 256, 256 + 4 * 16 + 16 * 16, 256, 256});
}

/* Register tiles of the keys, one panel wide */
static double tiles_of_keys(const char *settings, int64_t batch)
{
    struct expected e;
    struct expect x;
    expect_layer(&e, settings);
    for (int64_t i = 0; i < e.plan->count; i++)
        if (strcmp(e.plan->isas[i].isa->name, "avx512") == 0)
            expect_make(&x, e.layer, &e.plan->isas[i], batch);
    forget(&e);
    return x.step[EXPECT_KEYS].tiles;
}

static void tiles_by_hand(void **state)
{
    assert_float_equal(tiles_of_keys(SQUARE "16", 1), 1, 0);
    assert_float_equal(tiles_of_keys(SQUARE "13", 1), 1, 0); /* the last block's own height */
    assert_float_equal(tiles_of_keys(SQUARE "13 plan.batch_rows=26", 2), 5, 0); /* 26 as one matrix: 16, 4, 4, 1, 1 */
    assert_float_equal(tiles_of_keys(SQUARE "13 plan.size=small", 1), 4, 0); /* 4, 4, 4 and 1 */
}

static void counts_of_folds_by_hand(void **state)
{
    /* one head as wide as the input: two projections are gone, nothing is wider */
    check_fmas("d_model=16 h=1 seq_len=16", (const double[6]){256, 0, 0, 256, 256, 256});
    /* two heads: each reads all 32 features of the input, for scores and for values */
    check_fmas("plan.fold=on d_model=32 h=2 seq_len=16",
               (const double[6]){2 * 32 * 32, 0, 0, 2 * 16 * 32, 2 * 16 * 32, 2 * 16 * 64});
    /* a head's z has a 1 for the bias as well */
    check_fmas("plan.fold=on bias=true d_model=32 h=2 seq_len=16",
               (const double[6]){2 * 32 * 32, 0, 0, 2 * 16 * 32, 2 * 16 * 32, 2 * 16 * 66});
    /* the queries are the keys */
    check_fmas(SQUARE "16 w_k=tied", (const double[6]){0, 256, 256, 256, 256, 256});
}

static void slabs_are_more_tiles(void **state)
{
    struct expected whole, slabs;
    expect_layer(&whole, SQUARE "16");
    expect_layer(&slabs, SQUARE "16 plan.depth_slab=6"); /* near-equal: 6, 6 and 4 */
    for (int64_t i = 0; i < whole.plan->count; i++) {
        const struct expect_step *a = &whole.of[i].step[EXPECT_SCORES], *b = &slabs.of[i].step[EXPECT_SCORES];
        assert_float_equal(b->fmas, a->fmas, 0);
        assert_float_equal(b->tiles, 3 * a->tiles, 0);
    }
    forget(&whole);
    forget(&slabs);
}

static void counts_of_masks_by_hand(void **state)
{
    /* causal: queries 0 … 15 walk over keys 0 … 15, queries 16 … 31 over all 32 */
    const double pairs = (16 + 32) * 16, rows = 32 * 16;
    check_fmas(SQUARE "32 mask=causal", (const double[6]){2 * 256, rows, rows, pairs, pairs, rows});
    /* a window of none but the own position: each vector of queries walks over the 16 keys of its positions */
    check_fmas(SQUARE "32 mask=window window_left=0 window_right=0",
               (const double[6]){2 * 256, rows, rows, 2 * 256, 2 * 256, rows});
    /* no_self hides, but every key is walked over */
    check_fmas(SQUARE "32 mask=no_self", (const double[6]){2 * 256, rows, rows, 1024, 1024, rows});
}

/* Four sequences of 5 are 20 rows of one matrix: as many multiply-adds as one by one, in fewer tiles. */
static void sequences_share_tiles(void **state)
{
    struct expected e;
    struct expect four;
    expect_layer(&e, SQUARE "5");
    for (int64_t i = 0; i < e.plan->count; i++)
        if (strcmp(e.plan->isas[i].isa->name, "avx512") == 0) {
            expect_make(&four, e.layer, &e.plan->isas[i], 4);
            assert_float_equal(four.step[EXPECT_QUERIES].fmas, 4 * 5 * 16, 0);
            assert_float_equal(four.step[EXPECT_KEYS].fmas, 4 * 5 * 16, 0);
            assert_true(four.step[EXPECT_QUERIES].tiles < 4 * e.of[i].step[EXPECT_QUERIES].tiles);
            assert_true(four.step[EXPECT_OUTPUT].tiles < 4 * e.of[i].step[EXPECT_OUTPUT].tiles);
            assert_float_equal(four.step[EXPECT_SCORES].fmas, 4 * 5 * 16, 0);
            assert_float_equal(four.layer.useful, 4 * e.of[i].layer.useful, 0);
            assert_true(four.layer.cycles > e.of[i].layer.cycles && four.layer.share > e.of[i].layer.share);
        }
    forget(&e);
}

/* In attention queries fill vectors, or leave lanes idle; projections take what each token takes. */
static void lanes_are_paid_for(void **state)
{
    static const char cross[] = "attention=cross d_model=64 h=4 source_len=100 seq_len=%d";
    double queries = 0, scores = 0;
    for (int n = 17; n <= 32; n++) {
        char text[100];
        struct expected e;
        snprintf(text, sizeof text, cross, n);
        expect_layer(&e, text);
        const struct expect *x = on(&e, "avx512");
        if (n > 17) {
            assert_float_equal(x->step[EXPECT_QUERIES].fmas, queries * n / (n - 1), 0);
            assert_float_equal(x->step[EXPECT_SCORES].fmas, scores, 0);
        }
        queries = x->step[EXPECT_QUERIES].fmas;
        scores = x->step[EXPECT_SCORES].fmas;
        forget(&e);
    }
}

/* The second layer has more of something, and nothing less: it takes more cycles, on every set. */
static void costs_more(const char *less, const char *more)
{
    struct expected a, b;
    expect_layer(&a, less);
    expect_layer(&b, more);
    for (int64_t i = 0; i < a.plan->count; i++)
        if (a.of[i].layer.cycles >= b.of[i].layer.cycles)
            fail_msg("%s: '%s' takes %.0f cycles, '%s' only %.0f", a.plan->isas[i].isa->name, less,
                     a.of[i].layer.cycles, more, b.of[i].layer.cycles);
    forget(&a);
    forget(&b);
}

static void more_costs_more(void **state)
{
    costs_more("seq_len=32", "seq_len=33");
    costs_more("seq_len=256", "seq_len=512");
    costs_more("d_model=64", "d_model=65 h=5");
    costs_more("h=4", "h=8 d_k=16 d_v=16");
    costs_more("seq_len=512 mask=causal", "seq_len=512");
    costs_more("seq_len=512 mask=window window_left=8 window_right=8",
               "seq_len=512 mask=window window_left=64 window_right=8");
    costs_more("seq_len=512", "seq_len=512 mask=bool");
    costs_more("seq_len=512 mask=bool", "seq_len=512 mask=bool+additive");
    costs_more("seq_len=512", "seq_len=512 scores=true");
    costs_more("seq_len=512", "seq_len=512 rel_keys=shared rel_right=1");
    costs_more("w_o=none", "w_o=dense");
    costs_more("d_model=512 seq_len=128", "d_model=512 seq_len=128 plan.unroll=full");
}

static const char *const any_layers[] = {
    "seq_len=1", "d_model=1 h=1 seq_len=1", "d_model=1 h=1 seq_len=1000", "d_k=1 d_v=1 seq_len=64", "d_k=257 d_v=3",
    "d_k=3 d_v=257 seq_len=70", "d_model=100 h=5 seq_len=49", "h_kv=1 seq_len=65", "input=split seq_len=40",
    "w_o=conv conv_width=4 mask=causal+padding", "w_k=tied w_v=identity w_o=none mask=no_self seq_len=130",
    "attention=cross d_source=48 source_len=77", "mask=causal+window window_left=5 seq_len=200", "scores=true",
    "mask=causal+no_self+bool+additive seq_len=99", "attention=cross source_len=9 mask=window window_left=1 seq_len=90",
    "plan.query_vecs=1 seq_len=90", "plan.query_vecs=4 seq_len=90", "plan.key_block=1 seq_len=40", "d_model=8192 h=64",
    "width=wide seq_len=100", "seq_len=2147483647 mask=causal d_model=1 h=1", "seq_len=2147483647 d_model=1 h=1",
    "seq_len=100000000 mask=window+no_self window_left=9 d_model=1 h=1", "plan.fold=on h_kv=2 bias=true seq_len=50",
    "plan.fold=on w_o=conv mask=causal", "w_k=tied seq_len=50", "plan.value_layout=blocks mask=no_self seq_len=100",
    "plan.depth_slab=1 seq_len=33", "plan.prefetch=on d_model=1024 h=16 seq_len=100",
    "plan.fold=on attention=cross d_source=48 source_len=77 input=split",
};

/* Multiply-adds that the kernel has to do: the plain layer's, less what folding saves. */
static double needed(const struct expected *e)
{
    const struct plan_fold *f = &e->plan->fold;
    const double total = layer_multiply_adds(e->layer, e->layer->seq_len, e->layer->source_len).total;
    return total - (f->scores ? f->saved_scores : 0) - (f->values ? f->saved_values : 0);
}

static void check_share(const struct expected *e, int64_t isa, int64_t batch)
{
    const struct layer_cost cost = layer_multiply_adds(e->layer, e->layer->seq_len, e->layer->source_len);
    const double lanes = (double)e->plan->isas[isa].lanes, count = (double)batch;
    const bool folds = e->plan->fold.scores || e->plan->fold.values;
    struct expect x;
    expect_make(&x, e->layer, &e->plan->isas[isa], batch);
    assert_true(isfinite(x.layer.cycles) && x.layer.share > 0);
    assert_float_equal(x.layer.useful, count * cost.total, count * cost.total * 1e-12);
    /* above 1 only by what folding saves */
    assert_true(x.layer.share * needed(e) < cost.total);
    /* what is drawn of very many tiles may be off by a little */
    assert_true(x.layer.fmas * lanes >= 0.999 * count * needed(e));
    for (int s = 0; s < EXPECT_STEPS; s++) {
        assert_true(x.step[s].share >= 0 && (folds || x.step[s].share < 1));
        assert_true(x.step[s].cycles >= x.step[s].bound[x.step[s].held_by]);
        assert_true(folds || x.step[s].fmas * lanes >= 0.999 * x.step[s].useful);
    }
}

static void any_layer_has_a_share(void **state)
{
    for (size_t i = 0; i < sizeof any_layers / sizeof any_layers[0]; i++) {
        struct expected e;
        expect_layer(&e, any_layers[i]);
        for (int64_t k = 0; k < e.plan->count; k++)
            for (int64_t batch = 1; batch < 200; batch = batch * 3 + 1)
                check_share(&e, k, batch);
        forget(&e);
    }
}

static void folding_shows(void **state)
{
    struct expected plain, folded;
    /* wide heads: no projection of keys, none of values */
    expect_layer(&plain, "d_model=512 h=4 width=wide seq_len=512 plan.fold=off");
    expect_layer(&folded, "d_model=512 h=4 width=wide seq_len=512");
    assert_true(folded.plan->fold.scores && folded.plan->fold.values);
    for (int64_t i = 0; i < plain.plan->count; i++) {
        assert_true(folded.of[i].layer.cycles < 0.8 * plain.of[i].layer.cycles);
        assert_true(folded.of[i].layer.share > 1 && plain.of[i].layer.share < 1);
    }
    forget(&plain);
    forget(&folded);
}

static void every_bound_holds_something(void **state)
{
    static const struct {
        enum expect_bound bound;
        const char *settings;
    } layers[] = {
        {EXPECT_FMA, "d_model=768 h=12 seq_len=512"},
        {EXPECT_LANES, "attention=cross d_model=768 h=12 seq_len=17 source_len=512"},
        {EXPECT_LOADS, "d_model=64 h=1 seq_len=16"},
        {EXPECT_EXP, "d_model=16 h=16 seq_len=512"},
        {EXPECT_L2, "d_model=256 h=4 seq_len=1"},
        {EXPECT_L3, "d_model=1024 h=16 seq_len=1"},
        {EXPECT_CODE, "d_model=768 h=12 seq_len=512 plan.unroll=full"},
        {EXPECT_TILES, "d_model=1 h=1 seq_len=1"},
    };
    bool reached[EXPECT_BOUNDS] = {false};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        struct expected e;
        expect_layer(&e, layers[i].settings);
        const struct expect *x = on(&e, "avx512");
        bool here = x->layer.held_by == layers[i].bound;
        for (int s = 0; s < EXPECT_STEPS; s++)
            here = here || (x->step[s].cycles > 0 && x->step[s].held_by == layers[i].bound);
        if (!here)
            print_error("%s holds no step of '%s'\n", expect_bound_name(layers[i].bound), layers[i].settings);
        assert_true(here);
        reached[layers[i].bound] = true;
        forget(&e);
    }
    for (int b = 0; b < EXPECT_BOUNDS; b++)
        assert_true(reached[b]);
}

/* What --explain prints of "key=value key=value …" over SPEC. */
static char *explained(struct expected *e, const char *settings)
{
    char *text = NULL;
    size_t length;
    expect_layer(e, settings);
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    expect_explain(e->plan, e->layer, 1, out);
    fclose(out);
    return text;
}

static void scripts_can_read_it(void **state)
{
    struct expected e;
    char isa[16], bound[16];
    double share;
    char *text = explained(&e, "d_model=768 h=12 seq_len=512");
    for (int64_t i = 0; i < e.plan->count; i++) {
        char start[64];
        snprintf(start, sizeof start, "\nexpected %s layer ", e.plan->isas[i].isa->name);
        const char *line = strstr(text, start);
        assert_non_null(line);
        assert_int_equal(sscanf(line, "\nexpected %15s layer %lf %15[^\n]", isa, &share, bound), 3);
        assert_true(fabs(share - e.of[i].layer.share) < 0.001);
        assert_string_equal(bound, expect_bound_name(e.of[i].layer.held_by));
    }
    free(text);
    forget(&e);
}

static void folding_is_explained(void **state)
{
    static const struct {
        const char *settings, *scores, *values; /* values NULL: nothing about them */
    } layers[] = {
        /* of 4 n 16^2 + 2 n^2 16 multiply-adds, n = 16, a projection of n 16^2 */
        {"d_model=16 h=1 seq_len=16", "W_Q W_K^T saves 4096 multiply-adds, 16.7 % of the plain layer's: taken",
         "W_V W_O saves 4096 multiply-adds, 16.7 % of the plain layer's: taken"},
        {"d_model=16 h=1 seq_len=16 plan.fold=off",
         "W_Q W_K^T would save 4096 multiply-adds, 16.7 % of the plain layer's: not taken",
         "W_V W_O would save 4096 multiply-adds, 16.7 % of the plain layer's: not taken"},
        /* two heads of 16, of 4 n 32^2 + 2 n^2 32: one projection less, n 32^2, but the other and the pairs double */
        {"d_model=32 h=2 seq_len=16", "W_Q W_K^T would cost 8192 multiply-adds, 10.0 % of the plain layer's: not taken",
         "W_V W_O would cost 8192 multiply-adds, 10.0 % of the plain layer's: not taken"},
        {"d_model=32 h=2 seq_len=16 plan.fold=on", "W_Q W_K^T costs 8192 multiply-adds, 10.0 % of the plain layer's: taken",
         "W_V W_O costs 8192 multiply-adds, 10.0 % of the plain layer's: taken"},
        {"d_model=16 h=1 seq_len=16 w_o=none", "W_Q W_K^T saves 4096 multiply-adds, 20.0 % of the plain layer's: taken",
         NULL},
    };
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        struct expected e;
        char *text = explained(&e, layers[i].settings);
        if (strstr(text, layers[i].scores) == NULL || (layers[i].values != NULL && strstr(text, layers[i].values) == NULL))
            fail_msg("%s: %s", layers[i].settings, text);
        assert_true((strstr(text, "W_V W_O") != NULL) == (layers[i].values != NULL));
        free(text);
        forget(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_by_hand),
        cmocka_unit_test(tiles_by_hand), cmocka_unit_test(counts_of_folds_by_hand),
        cmocka_unit_test(counts_of_masks_by_hand), cmocka_unit_test(counts_of_vectors_by_hand),
        cmocka_unit_test(slabs_are_more_tiles),
        cmocka_unit_test(sequences_share_tiles),
        cmocka_unit_test(lanes_are_paid_for),
        cmocka_unit_test(more_costs_more),
        cmocka_unit_test(any_layer_has_a_share),
        cmocka_unit_test(every_bound_holds_something),
        cmocka_unit_test(folding_shows),
        cmocka_unit_test(scripts_can_read_it),
        cmocka_unit_test(folding_is_explained),
        cmocka_unit_test(others_are_said_to_be_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
