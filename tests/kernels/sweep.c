/* SPDX-License-Identifier: MIT */
/* sweep: random legal layers, drawn around every edge of tiles and blocks, each checked by `attnrun check`.
 *
 * Layer I of seed S is the same on every machine, whatever else is asked for: `sweep --seed S --first I --count 1`
 * repeats it. A layer that fails leaves its spec in a folder, and the command that repeats it on the screen.
 *
 * Left out on purpose: what right and wrong is; attnrun's reference, bound and promises say that. And large layers:
 * compiling takes nearly all of the time, and small blocks reach the same edges.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../runtime/system/process.h"
#include "base/arith.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/replace.h"
#include "base/system.h"
#include "dice.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/keys.h"

extern char **environ;

#define MAX_MULTIPLY_ADDS 2e7 /* of all sequences of a call */
#define MAX_FOLDING 4e6       /* multiply-adds of weights with each other at -O0; check packs some sixty times */
#define MAX_JOBS 64
#define MAX_COMPILERS 8
#define MAX_FEATURES 320
#define WARNINGS "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
#define TRAPS "-O1 -fsanitize=undefined,float-cast-overflow -fsanitize-undefined-trap-on-error" /* gcc's and clang's */
#define MAX_CPU_SECONDS 600 /* one layer, compiler included: a loop without end is a failure */
#define EVERYTHING_FROM 1000 /* so many layers must have drawn every key and mask */

/* One of the numbers given. */
#define PICK(dice, ...) \
    pick(dice, (const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
static int64_t pick(struct dice *dice, const int64_t *numbers, int64_t count)
{
    return numbers[between(dice, 0, count - 1)];
}

/* 1 … max: mostly one beside or on an edge of vectors, register tiles and blocks. */
static int64_t near_edge(struct dice *dice, int64_t max)
{
    if (chance(dice, 0.35))
        return between(dice, 1, max);
    if (chance(dice, 0.1))
        return 1;
    const int64_t edge = PICK(dice, 4, 8, 12, 14, 16, 24, 28, 32, 48, 64, 96, 128) + between(dice, -1, 1);
    return edge <= max ? edge : between(dice, 1, max);
}

static int64_t divisor(struct dice *dice, int64_t of, int64_t max)
{
    int64_t found = 1;
    double seen = 0;
    for (int64_t d = 1; d <= min(of, max); d++)
        if (of % d == 0 && chance(dice, 1 / ++seen))
            found = d;
    return found;
}

/* ---- drawing a layer ------------------------------------------------------------------------------------------- */

static bool is(const char *word, const char *what)
{
    return word != NULL && strcmp(word, what) == 0;
}

/* Where things lie that no other draw reaches. */
enum shape {
    SHAPE_USUAL,
    SHAPE_DEEP,   /* reductions longer than the plan takes at once */
    SHAPE_STRIDE, /* rows at a multiple of 2 KiB */
    SHAPE_LONG,   /* more keys than one key block of the plan's own choice */
    SHAPE_WIDE    /* heads so wide that scores are summed in slabs and values lie in blocks, and few tokens */
};

/* What a draft has of a key, by kinds of keys. Not given: NULL, 0, for COUNT and REACH -1, for FACTOR NaN. */
typedef const char *draft_NAME, *draft_WORD, *draft_SWITCH;
typedef int64_t draft_SIZE, draft_COUNT, draft_REACH;
typedef unsigned draft_MASK;
typedef double draft_FACTOR, draft_CAP, draft_POSITIVE, draft_SHARE;
typedef char draft_EXPRESSION[400], draft_LIST[2200];

struct draft {
#define KEY(id, key, kind, ...) draft_##kind key;
#include "spec/key_rows.h"
#undef KEY
    enum shape shape;
    const char *exact_chunks; /* NULL: not given, as of the other words of the plan; of its numbers 0 */
    int64_t unroll, query_vecs, key_block, group_rows, depth_slab;
    int64_t panel_vecs, panel_rows, panel_depth, lane_rows, score_rows, value_rows, batch_rows;
    const char *fold, *prefetch, *value_layout, *z_layout, *softmax, *size, *products, *latent;
    bool crowded; /* called with a batch of many short sequences */
};
#define NOTHING_DRAWN \
    .window_left = -1, .window_right = -1, .rel_left = -1, .rel_right = -1, .conv_taps = -1, \
    .out_norm_groups = -1, .state_window = -1, .scale = NAN

static const struct {
    unsigned bit;
    double chance;
} masks[] = { /* the last two are of more kinds */
    {MASK_CAUSAL, 0.3}, {MASK_PADDING, 0.4}, {MASK_NO_SELF, 0.15}, {MASK_WINDOW, 0.25}, {MASK_BOOL, 0.2},
    {MASK_ADDITIVE, 0.2}, {MASK_PREFIX, 0.4}, {MASK_SEGMENTS, 0.15},
};
#define MASKS (sizeof masks / sizeof *masks)

struct options {
    uint64_t seed;
    size_t first, count, jobs;
    const char *isa, *attnrun, *keep, *flags;
    char *compilers[MAX_COMPILERS];
    size_t compiler_count;
    bool print, cached, blocks, rows, states, train, fast, whole, shared, latent, vectors, portable;
};

/* What decides the sizes. */
static void draw_kind(struct dice *dice, struct draft *d)
{
    const bool plain = chance(dice, 0.25);
    d->shape = chance(dice, 0.82) ? SHAPE_USUAL : (enum shape)PICK(dice, SHAPE_DEEP, SHAPE_STRIDE, SHAPE_LONG, SHAPE_WIDE, SHAPE_WIDE);
    d->input = !plain && chance(dice, 0.25) ? "split" : NULL;
    d->attention = !plain && chance(dice, 0.35) ? "cross" : NULL;
    d->w_k = !plain && chance(dice, 0.15) ? "tied" : NULL;
    d->w_v = !plain && chance(dice, 0.15) ? "identity" : NULL;
    d->w_o = plain || chance(dice, 0.4) ? NULL : chance(dice, 0.4) ? "none" : "conv";
    if (is(d->w_o, "conv") && chance(dice, 0.8))
        d->conv_width = between(dice, 1, 5);
    d->width = chance(dice, 0.2) ? "wide" : NULL;
    d->crowded = chance(dice, 0.25);
    d->bias = chance(dice, 0.5) ? "true" : NULL;
    d->scores = chance(dice, 0.3) ? "true" : NULL;
    d->weight_layout = chance(dice, 0.3) ? "out_in" : NULL;
}

/* d_model and h, the one dividing the other: half of the time d_model lies at an edge, half of the time a head. */
static void draw_divided(struct dice *dice, struct draft *d)
{
    if (d->shape == SHAPE_DEEP) {
        d->d_model = PICK(dice, 1023, 1024, 1025, 1026, 1032, 2048, 2050);
        d->h = divisor(dice, d->d_model, 4);
    } else if (chance(dice, 0.5)) {
        d->d_model = near_edge(dice, 130);
        d->h = divisor(dice, d->d_model, 16);
    } else {
        d->h = PICK(dice, 1, 2, 2, 3, 4, 4, 5, 6, 8, 12);
        d->d_model = d->h * near_edge(dice, 130 / d->h);
    }
}

/* Up to about 300, beside the edges of slabs and of the values' blocks. */
static int64_t wide_head(struct dice *dice)
{
    return chance(dice, 0.6) ? PICK(dice, 128, 144, 170, 192, 256, 288) + between(dice, -1, 1) : between(dice, 100, 300);
}

static void draw_widths(struct dice *dice, struct draft *d)
{
    const bool divides = is(d->input, "split") || is(d->w_o, "conv");
    const int64_t max = d->shape == SHAPE_DEEP ? 5 : 70;
    draw_divided(dice, d);
    if (d->shape == SHAPE_STRIDE) {
        d->d_model = d->h = PICK(dice, 4, 8, 16);
        d->d_k = 512 / d->h;
        d->d_v = d->w_v ? 0 : chance(dice, 0.5) ? d->d_k : near_edge(dice, 40);
        d->width = NULL;
    } else if (d->shape == SHAPE_WIDE) {
        d->h = PICK(dice, 1, 2, 3, 4);
        d->d_model = d->h * near_edge(dice, chance(dice, 0.6) ? 24 / d->h : 260 / d->h);
        d->d_k = chance(dice, 0.7) ? wide_head(dice) : near_edge(dice, 40);
        d->d_v = d->w_v ? 0 : d->d_k <= 40 || chance(dice, 0.7) ? wide_head(dice) : near_edge(dice, 40);
    } else if (d->shape == SHAPE_DEEP || chance(dice, 0.55)) {
        d->d_k = near_edge(dice, max);
        if (!d->w_v && (d->shape == SHAPE_DEEP || chance(dice, 0.7)))
            d->d_v = near_edge(dice, max);
        if (d->d_v > 0 && chance(dice, 0.15) && d->shape != SHAPE_DEEP)
            d->d_k = 0;
    }
    const bool both = d->d_k > 0 && (d->d_v > 0 || d->w_v);
    d->width = !both && d->shape == SHAPE_USUAL ? d->width : NULL;
    if (!divides && (both || d->width) && chance(dice, 0.5) && d->shape != SHAPE_STRIDE && d->shape != SHAPE_WIDE)
        d->d_model = d->shape == SHAPE_DEEP ? PICK(dice, 1025, 1031, 2047) : near_edge(dice, 130);
    if (!is(d->input, "split") && !d->w_k && !d->w_v && chance(dice, 0.4))
        d->h_kv = divisor(dice, d->h, d->h);
    if (d->attention && !d->w_k && chance(dice, 0.5))
        d->d_source = is(d->input, "split") ? d->h * near_edge(dice, 130 / d->h) : near_edge(dice, 130);
}

static void draw_lengths(struct dice *dice, struct draft *d)
{
    const bool is_long = d->shape == SHAPE_LONG;
    d->seq_len = is_long && !d->attention ? between(dice, 200, 600) : near_edge(dice, d->shape == SHAPE_USUAL ? 140 : 40);
    if (d->attention && (is_long || chance(dice, 0.8)))
        d->source_len = is_long ? between(dice, 200, 1200) : near_edge(dice, 140);
}

static void draw_masks(struct dice *dice, struct draft *d, bool more_kinds)
{
    const unsigned more = MASK_PREFIX | MASK_SEGMENTS;
    for (size_t i = 0; i < MASKS; i++)
        if ((more_kinds || !(masks[i].bit & more)) && chance(dice, masks[i].chance))
            d->mask |= masks[i].bit;
    if (!(d->mask & MASK_CAUSAL))
        d->mask &= ~(unsigned)MASK_PREFIX; /* it lifts causal */
    if (!(d->mask & MASK_WINDOW))
        return;
    const int side = (int)between(dice, 1, 3);
    if (side & 1)
        d->window_left = chance(dice, 0.3) ? between(dice, 0, 2) : near_edge(dice, 150) - 1;
    if (side & 2)
        d->window_right = chance(dice, 0.3) ? between(dice, 0, 2) : near_edge(dice, 150) - 1;
}

/* ---- more kinds ------------------------------------------------------------------------------------------------ */

/* One of the words given. */
#define WORD(dice, ...) \
    ((const char *const[]){__VA_ARGS__}) \
        [between(dice, 0, (int64_t)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)) - 1)]
/* One of the numbers given, or 0: none. */
#define REAL(dice, p, ...) \
    (chance(dice, p) ? ((const double[]){__VA_ARGS__}) \
        [between(dice, 0, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)) - 1)] : 0)

/* q, k and v of a call: what only projections have is not given. */
static void draw_projected(struct dice *dice, struct draft *d)
{
    d->input = "projected";
    d->heads = chance(dice, 0.5) ? "first" : NULL;
    d->attention = d->w_k = d->w_v = d->width = NULL;
    d->d_source = 0;
    if (d->d_k == 0)
        d->d_k = d->d_v > 0 && chance(dice, 0.5) ? d->d_v : near_edge(dice, d->shape == SHAPE_DEEP ? 5 : 70);
    if (is(d->w_o, "none"))
        d->d_model = 0;
    if (d->h_kv == 0 && chance(dice, 0.4))
        d->h_kv = divisor(dice, d->h, d->h);
    if (chance(dice, 0.8) || d->shape == SHAPE_LONG)
        d->source_len = d->shape == SHAPE_LONG ? between(dice, 200, 600) : near_edge(dice, 140);
}

/* Numbers near 1 for `pairs` pairs of columns */
static void draw_factors(struct dice *dice, char *text, size_t size, int64_t pairs)
{
    static const char *const factors[] = {"1", "1.25", "0.75", "2", "3.5", "41"};
    size_t used = 0;
    for (int64_t c = 0; c < pairs; c++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", c > 0 ? ", " : "", factors[between(dice, 0, 5)]);
}

static void draw_scaling(struct dice *dice, struct draft *d, int64_t width)
{
    d->rope_scaling = WORD(dice, "linear", "llama3", "yarn", "dynamic", "longrope");
    if (is(d->rope_scaling, "longrope")) {
        const int64_t pairs = (d->rope_dims > 0 ? d->rope_dims : width) / 2;
        draw_factors(dice, d->rope_factors, sizeof d->rope_factors, pairs);
        if (chance(dice, 0.6)) {
            draw_factors(dice, d->rope_long_factors, sizeof d->rope_long_factors, pairs);
            d->rope_original_len = REAL(dice, 1, 2, 16, 8192);
        }
        d->rope_scaling = chance(dice, 0.5) ? d->rope_scaling : NULL;
        d->rope_attention_factor = REAL(dice, 0.3, 0.5, 1.25);
        d->rope_len = chance(dice, 0.3) ? between(dice, 1, 100) : 0;
        return;
    }
    d->rope_factor = REAL(dice, 1, 1, 1.5, 2, 8, 40);
    if (is(d->rope_scaling, "linear"))
        return;
    d->rope_original_len = REAL(dice, 1, 2, 16, 64, 500.5, 8192);
    if (is(d->rope_scaling, "dynamic")) {
        d->rope_len = chance(dice, 0.4) ? between(dice, 1, 2000) : 0;
        return;
    }
    if (is(d->rope_scaling, "llama3")) {
        d->rope_low = REAL(dice, 0.4, 0.25, 1, 2);
        d->rope_high = REAL(dice, 0.4, 2.5, 4, 30);
    } else {
        d->rope_beta_fast = REAL(dice, 0.4, 4, 32, 100);
        d->rope_beta_slow = REAL(dice, 0.4, 0.1, 1, 4);
        d->rope_truncate = chance(dice, 0.3) ? "false" : NULL;
        d->rope_attention_factor = REAL(dice, 0.3, 0.5, 1, 1.25);
    }
}

/* Pairs of columns of 2 to 4 axes; of axes that take turns the first has what the others leave */
static void draw_sections(struct dice *dice, struct draft *d, int64_t pairs)
{
    struct drawn text = {d->rope_sections, 0, sizeof d->rope_sections};
    const int64_t axes = min(between(dice, 2, 4), pairs);
    int64_t section[4] = {pairs};
    d->rope_section_order = WORD(dice, "contiguous", "interleaved", NULL);
    for (int64_t axis = 1; axis < axes; axis++) {
        const int64_t most = is(d->rope_section_order, "interleaved") ? (pairs - 1 - axis) / axes + 1
                                                                       : section[0] - (axes - 1 - axis) - 1;
        section[axis] = between(dice, 1, max(1, most));
        section[0] -= section[axis];
    }
    for (int64_t axis = 0; axis < axes; axis++)
        add(&text, "%s%lld", axis > 0 ? ", " : "", (long long)section[axis]);
}

static void draw_rope(struct dice *dice, struct draft *d)
{
    const int64_t width = d->d_k > 0 ? d->d_k : d->width ? d->d_model : d->d_model / d->h;
    if (width < 2)
        return;
    d->rope = WORD(dice, "half", "interleaved");
    if (width % 2 != 0 || chance(dice, 0.5))
        d->rope_dims = 2 * between(dice, 1, width / 2);
    d->rope_theta = REAL(dice, 0.5, 1.5, 100, 10000, 500000);
    d->rope_positions = chance(dice, 0.25) ? "given" : NULL;
    struct dice of_axes = {mix(dice->state ^ 0x61786573)}; /* its own */
    const int64_t pairs = (d->rope_dims > 0 ? d->rope_dims : width) / 2;
    if (d->rope_positions && !d->train && pairs > 1 && chance(&of_axes, 0.5))
        draw_sections(&of_axes, d, pairs);
    if (chance(dice, 0.4))
        draw_scaling(dice, d, width);
}

static void draw_relative(struct dice *dice, struct draft *d)
{
    d->relative = WORD(dice, "t5", "table");
    if (is(d->relative, "table")) {
        const int64_t sides = between(dice, 1, 3);
        d->rel_left = sides & 1 ? near_edge(dice, 140) - 1 : -1;
        d->rel_right = sides & 2 ? near_edge(dice, 140) - 1 : -1;
        return;
    }
    if (chance(dice, 0.6))
        d->rel_buckets = 4 * between(dice, 1, 10);
    if (chance(dice, 0.6)) /* buckets of one distance end at half of them, or a quarter */
        d->rel_distance = (d->rel_buckets > 0 ? d->rel_buckets : 32) / (d->mask & MASK_CAUSAL ? 2 : 4) +
                          PICK(dice, 1, 2, 7, 30, 100, 1000);
}

/* A cache, and what cannot be with one left out. */
static void draw_cache(struct dice *dice, struct draft *d)
{
    d->cache = WORD(dice, "rows", "rows", "ring", "paged", "paged");
    d->attention = NULL;
    d->d_source = d->source_len = d->conv_width = 0;
    d->mask &= ~(unsigned)MASK_SEGMENTS;
    if (is(d->w_o, "conv"))
        d->w_o = NULL;
    if (chance(dice, 0.6)) /* tokens that see no later ones */
        d->mask = (d->mask | MASK_CAUSAL) & ~(unsigned)MASK_PREFIX;
    d->cache_len = d->seq_len + (chance(dice, 0.2) ? 0 : d->shape == SHAPE_LONG ? between(dice, 200, 900)
                                                                                : near_edge(dice, 150));
    if (is(d->cache, "paged"))
        d->page_len = PICK(dice, 1, 2, 3, 4, 7, 8, 16, 16, 32, 33, 64, 200);
    if (is(d->cache, "ring")) {
        d->mask = (d->mask | MASK_WINDOW) & ~(unsigned)(MASK_BOOL | MASK_ADDITIVE);
        if (d->window_left < 0)
            d->window_left = chance(dice, 0.3) ? between(dice, 0, 2) : near_edge(dice, 150) - 1;
        d->cache_len = d->seq_len + d->window_left + (chance(dice, 0.5) ? 0 : between(dice, 1, 40));
        d->scores = NULL;
    }
    if (chance(dice, 0.5))
        d->exact_chunks = chance(dice, 0.8) ? "true" : "false";
}

/* What a layer may have since there are more kinds of attention, each by itself. */
static void draw_more_kinds(struct dice *dice, struct draft *d)
{
    if ((d->attention || is(d->input, "projected")) && d->cache == NULL && chance(dice, 0.5))
        d->offset = WORD(dice, "past", "end");
    d->pad_rows = (d->mask & MASK_PADDING) && !d->attention && !is(d->input, "projected") && chance(dice, 0.4) ? "skipped" : NULL;
    if (chance(dice, 0.25)) {
        d->qk_norm = WORD(dice, "rms", "layer", "l2", "rms_all");
        d->norm_eps = REAL(dice, 0.6, 1e-12, 1e-6, 1e-5, 0.01);
    }
    if (!d->attention && chance(dice, 0.3))
        draw_rope(dice, d);
    d->softcap = REAL(dice, 0.15, 0.5, 1, 5, 30);
    d->alibi = chance(dice, 0.15) ? "true" : NULL;
    if (chance(dice, 0.2))
        draw_relative(dice, d);
    d->sink = chance(dice, 0.15) ? "true" : NULL;
    d->lse = chance(dice, 0.2) ? "true" : NULL;
    if (chance(dice, 0.3) && !is(d->cache, "ring"))
        d->scores = WORD(dice, "weights", "raw", "capped", "biased");
    if (chance(dice, 0.2))
        draw_score(dice, &(struct drawn){d->score, 0, sizeof d->score});
    if (chance(dice, 0.2))
        draw_visible(dice, &(struct drawn){d->visible, 0, sizeof d->visible});
    if (d->rope_positions && is(d->input, "projected"))
        d->source_len = 0; /* such a call has m = n */
}

/* What a layer with gradients has of more kinds, each by itself. */
static void draw_trained(struct dice *dice, struct draft *d)
{
    if (!d->attention && chance(dice, 0.4))
        draw_rope(dice, d);
    d->alibi = chance(dice, 0.3) ? "true" : NULL;
    if ((d->mask & MASK_CAUSAL) && chance(dice, 0.25))
        d->mask |= MASK_PREFIX;
    if (chance(dice, 0.15))
        d->mask |= MASK_SEGMENTS;
    if (d->attention && chance(dice, 0.4))
        d->offset = WORD(dice, "past", "end");
    d->pad_rows = (d->mask & MASK_PADDING) && !d->attention && chance(dice, 0.4) ? "skipped" : NULL;
    d->softcap = REAL(dice, 0.2, 0.5, 1, 5, 30);
    d->sink = chance(dice, 0.2) ? "true" : NULL;
    d->lse = chance(dice, 0.15) ? "true" : NULL;
    if (chance(dice, 0.25))
        draw_relative(dice, d);
    if (chance(dice, 0.15))
        draw_visible(dice, &(struct drawn){d->visible, 0, sizeof d->visible});
}

#define ACTIVATION_WORDS "relu", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu2", "sigmoid", "tanh"
#define FFN_WORDS ACTIVATION_WORDS, "swiglu", "swiglu", "swiglu", "geglu", "geglu_tanh", "reglu", "quick_geglu", "glu"

static void draw_limit(struct dice *dice, struct draft *d)
{
    d->ffn_limit = is(d->ffn, "swiglu") ? REAL(dice, 0.5, 0.25, 1, 7) : 0;
    d->ffn_alpha = d->ffn_limit > 0 ? REAL(dice, 0.6, 1.702, 0.1, 30) : 0;
}

/* A block around attention, of layers that bring x and have as many columns of attention. */
static void draw_block(struct dice *dice, struct draft *d)
{
    if (is(d->input, "projected"))
        return;
    if (is(d->w_o, "none"))
        d->w_o = NULL;
    d->block = WORD(dice, "post", "outputs", "pre", "parallel", "sandwich");
    d->norm = chance(dice, 0.45) ? "rms" : chance(dice, 0.2) ? "layer" : NULL;
    d->norm_bias = !is(d->norm, "rms") && chance(dice, 0.3) ? "false" : NULL;
    if (d->qk_norm == NULL)
        d->norm_eps = REAL(dice, 0.6, 1e-12, 1e-6, 1e-5, 0.01);
    d->ffn = WORD(dice, FFN_WORDS, NULL);
    if (d->ffn == NULL)
        return;
    draw_limit(dice, d);
    d->d_ff = d->shape == SHAPE_DEEP || chance(dice, 0.1) ? PICK(dice, 1023, 1024, 1025, 1040) : near_edge(dice, 300);
    if (chance(dice, 0.4))
        d->ffn_bias = chance(dice, 0.5) ? "true" : "false";
    if (is(d->block, "pre") && chance(dice, 0.3))
        d->input_norm = "false";
    if (is(d->block, "parallel") && chance(dice, 0.5))
        d->norm_shared = "true";
}

/* A layer without attention in place of the one that was drawn, with its plan. */
static void draw_rows(struct dice *dice, struct draft *d)
{
    const struct draft drawn = *d;
    const bool deep = chance(dice, 0.12);
    *d = (struct draft){NOTHING_DRAWN, .layer = WORD(dice, "ffn", "linear"), .crowded = chance(dice, 0.2)};
    d->d_model = deep ? PICK(dice, 1023, 1024, 1025, 1536) : near_edge(dice, 200);
    d->seq_len = chance(dice, 0.25) ? 1 : near_edge(dice, d->crowded ? 30 : 90);
    d->weight_layout = chance(dice, 0.4) ? "out_in" : NULL;
    d->mask = chance(dice, 0.45) ? MASK_PADDING : 0;
    d->pad_rows = d->mask != 0 && chance(dice, 0.75) ? "skipped" : NULL;
    if (is(d->layer, "linear")) {
        d->d_out = near_edge(dice, 300);
        d->bias = chance(dice, 0.5) ? "true" : NULL;
        d->activation = WORD(dice, ACTIVATION_WORDS, "none", NULL);
        d->norm = WORD(dice, "layer", "rms", "none", NULL);
        d->norm_bias = is(d->norm, "layer") && chance(dice, 0.3) ? "false" : NULL;
        d->norm_eps = d->norm == NULL || is(d->norm, "none") ? 0 : REAL(dice, 0.5, 1e-12, 1e-5, 0.01);
        d->softcap = REAL(dice, 0.3, 30, 1, 0.02);
    } else {
        d->ffn = WORD(dice, FFN_WORDS);
        draw_limit(dice, d);
        d->d_ff = chance(dice, 0.1) ? PICK(dice, 1023, 1024, 1025, 1040) : near_edge(dice, 300);
        d->ffn_bias = chance(dice, 0.5) ? "true" : chance(dice, 0.2) ? "false" : NULL;
        d->block = WORD(dice, "post", "outputs", "pre", "sandwich", "none", NULL);
        const bool norms = d->block != NULL && !is(d->block, "none");
        d->norm = norms ? WORD(dice, "layer", "rms", NULL) : NULL;
        d->norm_bias = norms && !is(d->norm, "rms") && chance(dice, 0.3) ? "false" : NULL;
        d->norm_eps = norms ? REAL(dice, 0.5, 1e-12, 1e-5, 0.01) : 0;
    }
    d->size = drawn.size;
    d->prefetch = drawn.prefetch;
    d->unroll = drawn.unroll;
    d->query_vecs = drawn.query_vecs;
    d->group_rows = drawn.group_rows;
    d->panel_vecs = drawn.panel_vecs;
    d->panel_rows = drawn.panel_rows;
    d->panel_depth = drawn.panel_depth;
    d->batch_rows = drawn.batch_rows;
}

/* A convolution over tokens */
static void draw_convolution(struct dice *dice, struct draft *d)
{
    d->layer = "conv";
    d->channels = chance(dice, 0.2) ? near_edge(dice, 1500) : near_edge(dice, 200);
    d->conv_taps = chance(dice, 0.3) ? near_edge(dice, 40) : between(dice, 1, 6);
    d->bias = chance(dice, 0.5) ? "true" : NULL;
    d->activation = chance(dice, 0.5) ? "silu" : NULL;
}

/* A layer with a state in place of the one that was drawn. */
static void draw_states(struct dice *dice, struct draft *d)
{
    const struct draft drawn = *d;
    const bool given = chance(dice, 0.5);
    *d = (struct draft){NOTHING_DRAWN, .layer = "recurrent", .crowded = chance(dice, 0.2)};
    d->size = drawn.size;
    d->seq_len = chance(dice, 0.2) ? 1 : near_edge(dice, d->crowded ? 20 : 90);
    d->mask = chance(dice, 0.4) ? MASK_PADDING : 0;
    d->pad_rows = d->mask != 0 ? "skipped" : NULL;
    d->cache_type = chance(dice, 0.3) ? "bf16" : NULL;
    if (chance(dice, 0.25)) {
        draw_convolution(dice, d);
        return;
    }
    d->scale = drawn.scale;
    d->input = given ? "projected" : NULL;
    d->rule = WORD(dice, "linear", "gated", "delta", "gated_delta", NULL);
    const bool decays = d->rule == NULL || is(d->rule, "gated") || is(d->rule, "gated_delta");
    d->decay = decays ? WORD(dice, "head", "column", NULL) : NULL;
    d->h_kv = between(dice, 1, 4);
    d->h_v = d->h_kv * PICK(dice, 1, 1, 2, 3);
    d->h = chance(dice, 0.5) ? d->h_v * PICK(dice, 1, 1, 2, 3, 5) : divisor(dice, d->h_v, d->h_v);
    d->d_k = near_edge(dice, 130);
    d->d_v = chance(dice, 0.3) ? 0 : near_edge(dice, 170);
    d->exact_chunks = chance(dice, 0.3) ? "true" : chance(dice, 0.8) ? "false" : NULL; /* small ones have no chunks */
    d->state_window = chance(dice, 0.25) ? between(dice, 0, 6) : -1;
    if (given)
        return;
    d->d_model = near_edge(dice, 130);
    d->conv_taps = chance(dice, 0.4) ? -1 : PICK(dice, 0, 1, 2, 3, 4, 5);
    d->qk_norm = chance(dice, 0.7) ? "l2_sum" : NULL;
    d->out_gate = WORD(dice, "none", "silu", "sigmoid", NULL);
    d->out_norm_eps = d->out_gate == NULL || is(d->out_gate, "none") ? 0 : REAL(dice, 0.5, 1e-12, 1e-5, 0.01);
    d->qk_norm_eps = d->qk_norm == NULL ? 0 : REAL(dice, 0.5, 1e-12, 1e-5, 0.01);
    d->beta_scale = d->rule == NULL || strstr(d->rule, "delta") ? REAL(dice, 0.3, 2, 0.5, 1.25) : 0;
    d->bias = chance(dice, 0.3) ? "true" : NULL;
    d->conv_bias = d->conv_taps > 0 && chance(dice, 0.4) ? "true" : NULL;
    d->skip = chance(dice, 0.4) ? "true" : NULL;
    d->dt_values = is(d->rule, "gated") && !is(d->decay, "column") && chance(dice, 0.6) ? "true" : NULL;
    d->decay_rank = decays && chance(dice, 0.3) ? near_edge(dice, 20) : 0;
    d->dt_min = decays ? REAL(dice, 0.3, 0.001, 0.1) : 0;
    d->dt_max = decays ? REAL(dice, 0.3, 0.1, 0.5, 3) : 0;
    if (d->out_norm_eps > 0 || (d->out_gate != NULL && !is(d->out_gate, "none"))) {
        const int64_t columns = (d->h > d->h_v ? d->h : d->h_v) * (d->d_v > 0 ? d->d_v : d->d_k);
        d->gate_rank = chance(dice, 0.3) ? near_edge(dice, 20) : 0;
        d->norm_before_gate = chance(dice, 0.4) ? "false" : NULL;
        d->out_norm_groups = chance(dice, 0.4) ? divisor(dice, columns, 12) : -1;
    }
    d->weight_layout = chance(dice, 0.4) ? "out_in" : NULL;
    d->weight_type = chance(dice, 0.6) ? NULL : WORD(dice, "bf16", "f16", "i8", "i4");
    if (chance(dice, 0.5))
        draw_block(dice, d);
    if (is(d->block, "parallel")) {
        d->block = "pre";
        d->norm_shared = NULL;
    }
}

/* ---- the plan -------------------------------------------------------------------------------------------------- */

/* One of three words, or none. */
static const char *word_or_none(struct dice *dice, const char *a, const char *b)
{
    return chance(dice, 0.5) ? NULL : chance(dice, 0.1) ? "auto" : chance(dice, 0.6) ? a : b;
}

/* A number from 1 to `max`, or none. */
static int64_t number_or_none(struct dice *dice, int64_t max)
{
    return chance(dice, 0.6) ? 0 : between(dice, 1, max);
}

static void draw_tiles(struct dice *dice, struct draft *d)
{
    if (chance(dice, 0.3))
        d->softmax = chance(dice, 0.8) ? "two_pass" : "one_pass";
    if (chance(dice, 0.5))
        return;
    d->panel_vecs = number_or_none(dice, 4);
    d->panel_rows = number_or_none(dice, 16);
    d->panel_depth = chance(dice, 0.6) ? 0 : between(dice, 8, 100);
    d->lane_rows = number_or_none(dice, 16);
    d->score_rows = number_or_none(dice, 16);
    d->value_rows = number_or_none(dice, 16);
    d->batch_rows = number_or_none(dice, 256);
}

static void draw_plan(struct dice *dice, struct draft *d)
{
    d->size = word_or_none(dice, "small", "fast");
    if (d->size != NULL && strcmp(d->size, "small") == 0 && chance(dice, 0.5))
        return; /* as --size small is used: nothing else asked for */
    d->fold = word_or_none(dice, "on", "off");
    d->prefetch = word_or_none(dice, "on", "off");
    d->value_layout = word_or_none(dice, "blocks", "rows");
    d->z_layout = word_or_none(dice, "blocks", "rows");
    if (chance(dice, 0.5))
        d->depth_slab = chance(dice, 0.5) ? between(dice, 1, 20) : near_edge(dice, 140);
    draw_tiles(dice, d);
    if (chance(dice, 0.6))
        return;
    if (chance(dice, 0.3))
        d->unroll = between(dice, 1, 9);
    if (chance(dice, 0.5))
        d->query_vecs = between(dice, 1, 4);
    if (chance(dice, 0.7))
        d->key_block = chance(dice, 0.3) ? between(dice, 1, 5) : near_edge(dice, 40);
    if (chance(dice, 0.4))
        d->group_rows = near_edge(dice, 70);
}

/* Values that are columns of the keys: all of them, or the first ones */
static void draw_shared(struct dice *dice, struct draft *d)
{
    const int64_t width = d->d_k > 0 ? d->d_k : d->width ? d->d_model : d->d_model / d->h;
    if (is(d->w_v, "identity") && d->d_k > 0)
        d->width = NULL;
    d->w_v = "keys";
    d->d_v = chance(dice, 0.3) ? 0 : between(dice, 1, width);
    d->width = d->d_k > 0 ? NULL : d->width;
}

/* Keys of one latent and a rotated part, in place of what attends; its masks, cache, block and lengths stay. */
static void draw_latent(struct dice *dice, struct draft *d)
{
    d->input = d->heads = d->attention = d->w_k = d->w_v = d->w_o = d->width = d->qk_norm = d->gate = NULL;
    d->qk_norm_gains = d->qk_norm_bias = d->precision = d->fold = NULL;
    d->weight_type = chance(dice, 0.3) ? WORD(dice, "bf16", "f16") : NULL;
    d->tensor_type = chance(dice, 0.15) ? WORD(dice, "bf16", "f16") : NULL;
    d->offset = d->cache == NULL ? NULL : d->offset;
    d->h_kv = d->d_source = d->source_len = d->conv_width = 0;
    d->qk_norm_eps = REAL(dice, 0.3, 1e-12, 1e-5, 0.01);
    if (d->d_model == 0)
        d->d_model = near_edge(dice, 130);
    if (d->h > 16)
        d->h = 16;
    if (chance(dice, 0.3)) /* rows lie along the lanes */
        d->h = between(dice, 25, 40);
    d->kv_rank = near_edge(dice, 70);
    d->q_rank = chance(dice, 0.6) ? near_edge(dice, 70) : 0;
    d->rope = WORD(dice, "half", "interleaved");
    d->rope_dims = 2 * between(dice, 1, 20);
    d->d_k = d->rope_dims + near_edge(dice, 40);
    d->d_v = near_edge(dice, 40);
    d->rope_sections[0] = d->rope_factors[0] = d->rope_long_factors[0] = '\0';
    d->rope_section_order = d->rope_scaling = NULL;
    d->rope_factor = d->rope_original_len = d->rope_low = d->rope_high = d->rope_attention_factor = 0;
    d->rope_beta_fast = d->rope_beta_slow = 0;
    d->rope_truncate = NULL;
    d->rope_len = 0;
    if (chance(dice, 0.15)) { /* shared columns as they are */
        d->rope = "none";
        d->rope_dims -= between(dice, 0, 1);
        d->rope_theta = 0;
        d->rope_positions = NULL;
    }
    d->latent = word_or_none(dice, "expanded", "absorbed");
    if (d->cache != NULL && d->latent == NULL && chance(dice, 0.5)) { /* calls of either form */
        const int64_t more = 52 + near_edge(dice, 40);
        d->seq_len += more;
        d->cache_len += d->page_len > 0 ? round_up(more, d->page_len) : more;
        d->size = d->exact_chunks = NULL;
    }
}

/* Vectors of distances, in layers that may have them */
static void draw_vectors(struct dice *dice, struct draft *d)
{
    d->relative = NULL;
    d->rel_left = d->rel_right = -1;
    d->rel_buckets = d->rel_distance = 0;
    d->rel_keys = chance(dice, 0.7) ? WORD(dice, "shared", "heads") : NULL;
    d->rel_queries = d->rel_keys == NULL || chance(dice, 0.4) ? WORD(dice, "shared", "heads") : NULL;
    d->rel_biases = d->rel_keys != NULL && chance(dice, 0.4) ? "true" : NULL;
    if (is(d->precision, "i8") || is(d->precision, "i16"))
        d->precision = NULL;
    if (chance(dice, 0.4)) {
        d->rel_rows = "log";
        d->rel_buckets = between(dice, 4, 60);
        d->rel_distance = d->rel_buckets / 2 + PICK(dice, 2, 3, 7, 30, 100, 1000);
    } else {
        const int64_t sides = between(dice, 1, 3);
        d->rel_left = sides & 1 ? near_edge(dice, 140) - 1 : -1;
        d->rel_right = sides & 2 ? near_edge(dice, 140) - 1 : -1;
    }
}

/* Wide and long enough for fast products, of those that may have them */
static void draw_fast(struct dice *dice, struct draft *d)
{
    d->products = "fast";
    d->size = d->fold = NULL;
    d->d_model = PICK(dice, 192, 194, 204, 256);
    d->seq_len = between(dice, 64, 110);
    if (d->layer != NULL) {
        d->d_ff = d->d_ff > 0 ? between(dice, 256, 300) : 0;
        d->d_out = d->d_out > 0 ? between(dice, 192, 300) : d->d_out;
        return;
    }
    d->width = d->input = NULL;
    d->d_k = (256 + d->h - 1) / d->h + 1;
    d->d_k -= d->d_k % 2;
    d->d_v = d->w_v ? 0 : d->d_k;
    d->rope_dims = d->rope_dims > d->d_k ? 0 : d->rope_dims;
    d->conv_width = 0;
    if (is(d->w_o, "conv"))
        d->w_o = NULL;
}

/* exact = portable, and what is refused with it left out */
static void draw_portable(struct draft *d)
{
    d->exact = "portable";
    d->rel_keys = d->rel_queries = d->rel_biases = d->rel_rows = NULL;
    if (d->relative == NULL) { /* what vectors had */
        d->rel_left = d->rel_right = -1;
        d->rel_buckets = d->rel_distance = 0;
    }
    const bool no_weights = is(d->input, "projected") && is(d->w_o, "none");
    d->precision = is(d->precision, "bf16") || no_weights ? NULL : d->precision;
    d->scores = d->scores != NULL && (is(d->scores, "raw") || is(d->scores, "capped")) ? "weights" : d->scores;
    d->fold = d->softmax = d->products = d->exact_chunks = NULL;
    d->batch_rows = d->train != NULL ? 0 : d->batch_rows;
    d->key_block = d->cache != NULL ? 0 : d->key_block;
}

static void draw_layer(struct dice *dice, struct draft *d, const struct options *options)
{
    const bool cached = options->cached, in_block = options->blocks, train = options->train;
    static const double scales[] = {0, 1, -0.5, 0.125, 0.3, 2.5, 1e-3, -3, 20};
    *d = (struct draft){NOTHING_DRAWN};
    const bool more_kinds = (chance(dice, 0.6) || cached) && !train, caches = chance(dice, 0.2) || cached;
    draw_kind(dice, d);
    draw_widths(dice, d);
    draw_lengths(dice, d);
    if (more_kinds && chance(dice, 0.25))
        draw_projected(dice, d);
    draw_masks(dice, d, more_kinds);
    if (more_kinds && caches)
        draw_cache(dice, d);
    if (more_kinds)
        draw_more_kinds(dice, d);
    struct dice of_block = {mix(dice->state ^ 0x626C6F636B)}; /* its own: other layers are what they were without it */
    if (in_block || (chance(&of_block, 0.25) && more_kinds))
        draw_block(&of_block, d);
    struct dice of_train = {mix(dice->state ^ 0x747261696E)}; /* likewise */
    d->train = train || (chance(&of_train, 0.4) && !more_kinds && d->block == NULL) ? "true" : NULL;
    if (d->train)
        d->dropout = REAL(&of_train, 0.4, 0.1, 0.5, 0.25, 0.9, 1e-9);
    if (d->train)
        draw_trained(&of_train, d);
    struct dice of_norm = {mix(dice->state ^ 0x716B6E6F726D)}; /* likewise */
    if (d->train && chance(&of_norm, 0.25)) {
        d->qk_norm = WORD(&of_norm, "rms", "layer", "l2", "rms_all");
        d->norm_eps = REAL(&of_norm, 0.6, 1e-12, 1e-6, 0.01, 1);
    }
    if (d->qk_norm != NULL)
        d->qk_norm_eps = REAL(&of_norm, 0.2, 1e-9, 1e-4, 0.5);
    draw_plan(dice, d);
    const bool scaled = chance(dice, 0.4);
    d->scale = scales[between(dice, 0, (int64_t)(sizeof scales / sizeof *scales) - 1)];
    d->scale = scaled ? d->scale : NAN;
    struct dice of_rows = {mix(dice->state ^ 0x726F7773)}; /* likewise */
    if (options->rows || (chance(&of_rows, 0.1) && !cached && !in_block && !d->train))
        draw_rows(&of_rows, d);
    static const char *const types[] = {"f32", "bf16", "f16", "i8", "i4"};
    struct dice of_types = {mix(dice->state ^ 0x7479706573)}; /* likewise */
    const bool no_weights = d->layer == NULL && is(d->input, "projected") && is(d->w_o, "none");
    if (chance(&of_types, 0.3) && !d->train && !no_weights)
        d->weight_type = types[between(&of_types, 0, 4)];
    struct dice of_products = {mix(dice->state ^ 0x70726F64)}; /* likewise */
    if (d->weight_type == NULL && chance(&of_products, 0.25) && !d->train)
        d->precision = WORD(&of_products, "i8", "i16", "bf16");
    if (options->whole && !d->train) {
        d->precision = WORD(&of_products, "i8", "i16");
        d->weight_type = NULL;
        d->exact_chunks = chance(&of_products, 0.8) ? NULL : d->exact_chunks; /* scores are f32 then */
    }
    const int64_t few = 16 / (d->h_kv > 0 ? d->h / d->h_kv : 1); /* FEW_WHOLE_ROWS */
    const bool floats = d->cache != NULL && (is(d->exact_chunks, "true") || d->seq_len <= few);
    if (no_weights && (is(d->precision, "bf16") || d->d_k < 32 || floats))
        d->precision = NULL;
    struct dice of_cache = {mix(dice->state ^ 0x6361636865)}; /* likewise */
    if (d->cache != NULL && chance(&of_cache, 0.5))
        d->cache_type = types[between(&of_cache, 0, 3)];
    struct dice of_tensors = {mix(dice->state ^ 0x74656E736F72)}; /* likewise */
    if (chance(&of_tensors, 0.15) && !d->train)
        d->tensor_type = types[between(&of_tensors, 0, 2)];
    struct dice of_gains = {mix(dice->state ^ 0x6761696E73)}; /* likewise */
    if (d->layer == NULL && !d->train && (is(d->qk_norm, "rms") || is(d->qk_norm, "layer")) && chance(&of_gains, 0.4))
        d->qk_norm_gains = WORD(&of_gains, "heads", "heads", "shared");
    if (d->layer == NULL && !d->train && is(d->qk_norm, "layer") && chance(&of_gains, 0.4))
        d->qk_norm_bias = WORD(&of_gains, "false", "false", "true");
    struct dice of_gate = {mix(dice->state ^ 0x67617465)}; /* likewise */
    if (chance(&of_gate, 0.15) && d->layer == NULL && !d->train && !is(d->w_o, "none") && !is(d->input, "projected") &&
        !is(d->input, "split"))
        d->gate = WORD(&of_gate, "features", "heads");
    struct dice of_keys = {mix(dice->state ^ 0x6B657973)}; /* likewise */
    if ((chance(&of_keys, 0.1) || options->shared) && d->layer == NULL && !d->train && !d->source_kept)
        draw_shared(&of_keys, d);
    struct dice of_latent = {mix(dice->state ^ 0x6C6174656E74)}; /* likewise */
    if ((chance(&of_latent, 0.05) || options->latent) && d->layer == NULL && !d->train &&
        (options->latent || !is(d->input, "projected")))
        draw_latent(&of_latent, d);
    struct dice of_vectors = {mix(dice->state ^ 0x766563746F7273)}; /* likewise */
    if ((chance(&of_vectors, 0.08) || options->vectors) && d->layer == NULL && !d->train && d->cache == NULL &&
        d->kv_rank == 0)
        draw_vectors(&of_vectors, d);
    struct dice of_fast = {mix(dice->state ^ 0x66617374)}; /* likewise */
    const bool words = is(d->precision, "i16");
    const bool may = d->cache == NULL && !d->train && d->weight_type == NULL && words;
    if (may && !d->crowded && !d->pad_rows && !is(d->input, "projected") && d->shape == SHAPE_USUAL &&
        (chance(&of_fast, 0.5) || options->fast))
        draw_fast(&of_fast, d);
    struct dice of_states = {mix(dice->state ^ 0x737461746573)}; /* likewise */
    if (options->states || (chance(&of_states, 0.07) && !cached && !in_block && !options->rows && !d->train))
        draw_states(&of_states, d);
    struct dice of_exact = {mix(dice->state ^ 0x6578616374)}; /* likewise */
    if (options->portable || chance(&of_exact, 0.1))
        draw_portable(d);
}

/* ---- the spec -------------------------------------------------------------------------------------------------- */

static void add_number(struct drawn *text, const char *key, int64_t value, int64_t none)
{
    if (value != none)
        add(text, "%s = %lld\n", key, (long long)value);
}

static void add_given(struct drawn *text, const char *key, const char *word)
{
    if (word != NULL)
        add(text, "%s = %s\n", key, word);
}

/* Keys whose default is written now and then, of layers that have them */
static bool may_restate(const struct draft *d, enum key key)
{
    const bool attends = d->layer == NULL, projected = is(d->input, "projected");
    switch (key) {
    case KEY_WIDTH: return attends && !projected && !(d->d_k > 0 && d->d_v > 0);
    case KEY_ATTENTION: case KEY_W_K: case KEY_W_V: return attends && !projected;
    case KEY_HEADS: return projected && attends;
    case KEY_INPUT: case KEY_W_O: case KEY_SCORES: return attends;
    case KEY_BIAS: return attends || is(d->layer, "linear");
    default: return key == KEY_WEIGHT_LAYOUT && !(projected && !attends) && !is(d->layer, "conv");
    }
}

static void add_word(struct drawn *text, struct dice *dice, const struct draft *d, enum key key, const char *word)
{
    const bool restated = may_restate(d, key) && chance(dice, 0.1);
    add_given(text, key_rows[key].name, word != NULL || !restated ? word : key_words(key)->word);
}

static void add_mask(struct drawn *text, struct dice *dice, unsigned mask)
{
    char words[LAYER_MASK_TEXT];
    layer_mask_text(mask, words);
    add_given(text, "mask", mask != 0 || chance(dice, 0.1) ? words : NULL);
}

static void add_real(struct drawn *text, enum key key, double value, bool given)
{
    if (given)
        add(text, "%s = %.17g\n", key_rows[key].name, value);
}

static bool reads(const struct draft *d, const char *table)
{
    return strstr(d->score, table) != NULL || strstr(d->visible, table) != NULL;
}

static void add_plan(struct drawn *text, const struct draft *d)
{
    add_number(text, "plan.unroll", d->unroll, 0);
    add_number(text, "plan.query_vecs", d->query_vecs, 0);
    add_number(text, "plan.key_block", d->key_block, 0);
    add_number(text, "plan.group_rows", d->group_rows, 0);
    add_number(text, "plan.depth_slab", d->depth_slab, 0);
    add_given(text, "plan.fold", d->fold);
    add_given(text, "plan.prefetch", d->prefetch);
    add_given(text, "plan.value_layout", d->value_layout);
    add_given(text, "plan.z_layout", d->z_layout);
    add_number(text, "plan.panel_vecs", d->panel_vecs, 0);
    add_number(text, "plan.panel_rows", d->panel_rows, 0);
    add_number(text, "plan.panel_depth", d->panel_depth, 0);
    add_number(text, "plan.lane_rows", d->lane_rows, 0);
    add_number(text, "plan.score_rows", d->score_rows, 0);
    add_number(text, "plan.value_rows", d->value_rows, 0);
    add_number(text, "plan.batch_rows", d->batch_rows, 0);
    add_given(text, "plan.softmax", d->softmax);
    add_given(text, "plan.size", d->size);
    add_given(text, "plan.products", d->products);
}

static void write_spec(struct drawn *text, struct dice *dice, const struct draft *drawn)
{
    const struct draft *d = drawn;
    struct draft linear = *drawn;
    if (is(drawn->layer, "linear")) {
        linear.d_in = linear.d_model;
        linear.d_model = 0;
        d = &linear;
    }
    text->used = 0;
#define ADD_NAME(id, value) add_given(text, key_rows[id].name, value)
#define ADD_WORD(id, value) add_word(text, dice, d, id, value)
#define ADD_SWITCH ADD_WORD
#define ADD_SIZE(id, value) add_number(text, key_rows[id].name, value, 0)
#define ADD_COUNT(id, value) add_number(text, key_rows[id].name, value, -1)
#define ADD_REACH ADD_COUNT
#define ADD_MASK(id, value) add_mask(text, dice, value)
#define ADD_FACTOR(id, value) add_real(text, id, value, !isnan(value))
#define ADD_CAP(id, value) add_real(text, id, value, (value) != 0)
#define ADD_POSITIVE ADD_CAP
#define ADD_SHARE ADD_CAP
#define ADD_EXPRESSION(id, value) add_given(text, key_rows[id].name, *(value) != '\0' ? (value) : NULL)
#define ADD_LIST ADD_EXPRESSION
#define KEY(id, key, kind, ...) ADD_##kind(KEY_##id, d->key);
#include "spec/key_rows.h"
#undef KEY
    if (reads(d, "tau["))
        add(text, "table.tau = %lld\n", (long long)d->h);
    add_given(text, "table.grid", reads(d, "grid[") ? "3, 5" : NULL);
    add_given(text, "plan.exact_chunks", d->exact_chunks);
    add_given(text, "plan.latent", d->latent);
    add_plan(text, d);
}

/* ---- one layer under check ------------------------------------------------------------------------------------- */

/* How the drawn layer is called. */
struct call {
    int64_t batch, n, m;
    uint64_t seed;
    const char *init, *compiler, *flags;
};

struct job {
    pid_t pid; /* 0: free */
    size_t index;
    char folder[200];
    char spec[4000];
    struct draft draft;
    struct call call;
    bool has_m; /* n and m are two numbers */
};

/* Smallest, median and largest come later: one number a kernel. */
struct series {
    const char *title;
    double *value;
    size_t count, size, exact;
};

enum { OF_GATE, OF_Y, OF_ATTN, SERIES };

struct sweep {
    const struct options *options;
    char *folder;
    struct job jobs[MAX_JOBS];
    size_t passed, failed, kernels, skipped;
    size_t drawn[MAX_FEATURES];
    struct series series[SERIES];
    bool violated; /* the environment failed */
};

/* Many short sequences, so that several of them are projected as one matrix, and the last ones are fewer. */
static int64_t short_length(struct dice *dice, int64_t max)
{
    return chance(dice, 0.7) ? between(dice, 1, min(max, 20)) : between(dice, 1, max / 3 + 1);
}

static void draw_call(struct dice *dice, struct call *call, const struct draft *d, const struct layer *layer,
                      const struct options *options)
{
    call->batch = between(dice, 1, 4);
    call->n = chance(dice, 0.5) ? layer->seq_len : chance(dice, 0.03) ? 0 : near_edge(dice, layer->seq_len);
    call->m = chance(dice, 0.5) ? layer->source_len : chance(dice, 0.05) ? 0 : near_edge(dice, layer->source_len);
    if (d->crowded) {
        call->batch = between(dice, 2, 40);
        call->n = short_length(dice, layer->seq_len);
        call->m = chance(dice, 0.1) ? layer->source_len : short_length(dice, layer->source_len);
    }
    if (d->rope_positions && is(d->input, "projected"))
        call->m = call->n = min(call->n, layer->source_len);
    call->seed = bits(dice) % 1000000;
    call->init = chance(dice, 0.7) ? "xavier" : "normal";
    const double of_scores = (double)layer->d_in_q * (double)layer->d_k;
    const double of_values = layer->w_o != W_O_NONE ? (double)layer->d_v * (double)layer->d_model : 0;
    const bool folds_much = is(d->fold, "on") && (double)(layer->h * layer->d_in_kv) * (of_scores + of_values) > MAX_FOLDING;
    call->flags = chance(dice, 0.75) ? "-O0 " WARNINGS : chance(dice, 0.6) ? "-O1 " WARNINGS : "-O2 " WARNINGS;
    if (folds_much) /* else 1, 2 and 3 s for a layer; this one takes two minutes at -O0, 20 s at -O2 */
        call->flags = "-O2 " WARNINGS;
    struct dice of_sanitizers = {mix(dice->state ^ 0x55425361)};
    if (!folds_much && chance(&of_sanitizers, 0.08))
        call->flags = TRAPS;
    if (options->flags != NULL)
        call->flags = options->flags;
    call->compiler = chance(dice, 0.7) ? options->compilers[0]
                                       : options->compilers[between(dice, 0, (int64_t)options->compiler_count - 1)];
}

/* Writes DIR/layer_I.layer, drawn until it is small enough; false when the environment or the drawing itself fails. */
static bool draw_job(struct sweep *sweep, struct job *job, size_t index)
{
    struct dice dice = {mix(sweep->options->seed * 0x9E3779B97F4A7C15u + 1) ^ mix(index + 0x5EED)};
    job->index = index;
    snprintf(job->folder, sizeof job->folder, "%s/%zu", sweep->folder, index);
    for (;;) {
        struct diag diag = {0};
        struct drawn text = {job->spec, 0, sizeof job->spec};
        char path[300];
        draw_layer(&dice, &job->draft, sweep->options);
        write_spec(&text, &dice, &job->draft);
        snprintf(path, sizeof path, "%s/layer_%zu.layer", job->folder, index);
        struct layer *layer = NULL;
        if (system_make_folders(job->folder, 0700) == 0 &&
            file_replace(path, &(struct piece){job->spec, strlen(job->spec)}, 1, &diag))
            layer = layer_read(path, NULL, 0, &diag);
        if (layer == NULL) {
            diag_report(&diag, stderr);
            diag_free(&diag);
            fprintf(stderr, "sweep: layer %zu could not be drawn:\n%s", index, job->spec);
            return false;
        }
        draw_call(&dice, &job->call, &job->draft, layer, sweep->options);
        const double full = layer_multiply_adds(layer, layer->seq_len, layer->source_len).total;
        job->has_m = !layer_is_square(layer) && !layer_has_cache(layer);
        const double called = layer_multiply_adds(layer, job->call.n, job->has_m ? job->call.m : job->call.n).total;
        const double work = job->draft.crowded ? called * (double)job->call.batch : full * (double)job->call.batch;
        layer_free(layer);
        diag_free(&diag);
        if (work <= MAX_MULTIPLY_ADDS)
            return true;
    }
}

/* The options of attnrun that repeat this job. */
static void call_words(struct words *words, const struct job *job, const struct options *options)
{
    char number[5][24];
    snprintf(number[0], sizeof number[0], "%llu", (unsigned long long)job->call.seed);
    snprintf(number[1], sizeof number[1], "%lld", (long long)job->call.batch);
    snprintf(number[2], sizeof number[2], "%lld", (long long)job->call.n);
    snprintf(number[3], sizeof number[3], "%lld", (long long)job->call.m);
    const char *const pairs[][2] = {{"--seed", number[0]}, {"--batch", number[1]}, {"--n", number[2]},
                                    {"--m", number[3]},    {"--init", job->call.init}, {"--isa", options->isa}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (i != 3 || job->has_m) {
            words_add(words, pairs[i][0]);
            words_add(words, pairs[i][1]);
        }
}

static bool start(struct sweep *sweep, struct job *job)
{
    struct words words = {0};
    char spec[300], out[300];
    posix_spawn_file_actions_t actions;
    snprintf(spec, sizeof spec, "%s/layer_%zu.layer", job->folder, job->index);
    snprintf(out, sizeof out, "%s/out", job->folder);
    words_add(&words, sweep->options->attnrun);
    words_add(&words, "check");
    words_add(&words, spec);
    call_words(&words, job, sweep->options);
    words_add(&words, "--cache");
    words_add(&words, job->folder); /* one folder, as folder_remove looks for no folder in it */
    int error = setenv("CC", job->call.compiler, 1) != 0 || setenv("CFLAGS", job->call.flags, 1) != 0
                    ? ENOMEM : 0;
    if (error == 0)
        error = posix_spawn_file_actions_init(&actions);
    if (error == 0) {
        posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        error = posix_spawnp(&job->pid, words.word[0], &actions, NULL, words.word, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    words_free(&words);
    if (error != 0) {
        fprintf(stderr, "sweep: error: %s cannot be started: %s\n", sweep->options->attnrun, strerror(error));
        job->pid = 0;
    }
    return error == 0;
}

/* ---- results --------------------------------------------------------------------------------------------------- */

static bool remember(struct series *series, double value)
{
    if (value == 0) {
        series->exact++;
        return true;
    }
    if (series->count == series->size) {
        const size_t size = series->size * 2 + 64;
        double *grown = realloc(series->value, size * sizeof *grown);
        if (grown == NULL)
            return false;
        series->value = grown;
        series->size = size;
    }
    series->value[series->count++] = value;
    return true;
}

/* "ok NAME ISA  y: error E, R of the gate, R of the bound  attn: error E, R"; false if it is not that. */
static bool read_line(struct sweep *sweep, const struct job *job, const char *line)
{
    const bool scores = job->draft.scores != NULL;
    double error, ratio[SERIES] = {0};
    const char *y = strstr(line, " y: error "), *attn = strstr(line, " attn: error ");
    bool good = y != NULL && sscanf(y, " y: error %lf, %lf of the gate, %lf of the bound", &error, &ratio[OF_GATE],
                                    &ratio[OF_Y]) == 3;
    if (scores)
        good = good && attn != NULL && sscanf(attn, " attn: error %lf, %lf", &error, &ratio[OF_ATTN]) == 2;
    for (int i = 0; good && i < (scores ? SERIES : OF_ATTN); i++)
        good = remember(&sweep->series[i], ratio[i]);
    return good;
}

static bool read_report(struct sweep *sweep, const struct job *job, const char *report)
{
    size_t kernels = 0, skipped = 0;
    for (const char *line = report; *line != '\0'; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != '\0')) {
        char one[500];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(line, "\n"), line);
        skipped += strncmp(one, "skipped ", 8) == 0;
        if (strncmp(one, "ok ", 3) != 0)
            continue;
        kernels++;
        if (!read_line(sweep, job, one))
            return false;
    }
    sweep->kernels += kernels;
    sweep->skipped += skipped;
    return kernels > 0;
}

static void print_failure(const struct sweep *sweep, const struct job *job, int status, const char *report)
{
    const struct options *options = sweep->options;
    struct words words = {0};
    struct diag diag = {0};
    char path[400] = "";
    snprintf(path, sizeof path, "%s/seed_%llu_layer_%zu.layer", options->keep, (unsigned long long)options->seed,
             job->index);
    if (system_make_folders(options->keep, 0700) != 0 ||
        !file_replace(path, &(struct piece){job->spec, strlen(job->spec)}, 1, &diag))
        diag_report(&diag, stderr);
    diag_free(&diag);
    printf("FAILED layer %zu of seed %llu: attnrun %s %d\n%s", job->index, (unsigned long long)options->seed,
           WIFSIGNALED(status) ? "was killed by signal" : "ended with code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), report);
    printf("  the spec, also in %s:\n", path);
    for (const char *line = job->spec; *line != '\0'; line = strchr(line, '\n') + 1)
        printf("      %.*s\n", (int)strcspn(line, "\n"), line);
    call_words(&words, job, options);
    printf("  repeat: CC='%s' CFLAGS='%s' %s check %s", job->call.compiler, job->call.flags,
           options->attnrun, path);
    for (size_t i = 0; i < words.count; i++)
        printf(" %s", words.word[i]);
    printf("\n");
    words_free(&words);
}

static void finish(struct sweep *sweep, struct job *job, int status)
{
    struct diag diag = {0};
    char path[300];
    size_t size;
    snprintf(path, sizeof path, "%s/out", job->folder);
    char *report = file_read(path, WHOLE_OURS, &size, &diag);
    const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0 && report != NULL &&
                      read_report(sweep, job, report);
    *(good ? &sweep->passed : &sweep->failed) += 1;
    if (!good)
        print_failure(sweep, job, status, report != NULL ? report : "");
    if ((sweep->passed + sweep->failed) % 100 == 0)
        printf("%zu layers, %zu failed\n", sweep->passed + sweep->failed, sweep->failed);
    fflush(stdout);
    free(report);
    diag_free(&diag);
    folder_remove(job->folder);
    job->pid = 0;
}

/* ---- what was drawn -------------------------------------------------------------------------------------------- */

#define FEATURES(F) \
    F("h_kv < h", d->h_kv > 0 && d->h_kv < d->h) F("wide", d->width) F("d_k", d->d_k > 0) F("d_v", d->d_v > 0) \
    F("d_k alone", d->d_k > 0 && d->d_v == 0 && !d->w_v) F("d_v alone", d->d_v > 0 && d->d_k == 0) \
    F("split", is(d->input, "split")) F("cross", d->attention) F("d_source", d->d_source > 0) F("tied", d->w_k) \
    F("identity", d->w_v) F("gate features", is(d->gate, "features")) F("gate heads", is(d->gate, "heads")) \
    F("gate, conv", d->gate && is(d->w_o, "conv")) F("gate, cache", d->gate && d->cache != NULL) \
    F("gate, block", d->gate && d->block != NULL) F("gate, rows skipped", d->gate && d->pad_rows) \
    F("w_o none", is(d->w_o, "none")) F("conv", is(d->w_o, "conv")) \
    F("conv, even taps", d->conv_width > 0 && d->conv_width % 2 == 0) F("conv, one tap", d->conv_width == 1) \
    F("bias", d->bias) F("scale", !isnan(d->scale)) F("scale 0", d->scale == 0) \
    F("scores", d->scores != NULL) F("out_in", d->weight_layout) F("bf16", is(d->weight_type, "bf16")) \
    F("f16", is(d->weight_type, "f16")) F("i8", is(d->weight_type, "i8")) F("i4", is(d->weight_type, "i4")) \
    F("products of i8", is(d->precision, "i8")) F("products of i16", is(d->precision, "i16")) \
    F("products of bf16", is(d->precision, "bf16")) F("no mask", d->mask == 0) F("causal", d->mask & MASK_CAUSAL) \
    F("padding", d->mask & MASK_PADDING) F("no_self", d->mask & MASK_NO_SELF) F("window", d->mask & MASK_WINDOW) \
    F("bool", d->mask & MASK_BOOL) F("additive", d->mask & MASK_ADDITIVE) F("window_left", d->window_left >= 0) \
    F("window_right", d->window_right >= 0) F("plan.unroll", d->unroll > 0) F("plan.query_vecs", d->query_vecs > 0) \
    F("plan.key_block", d->key_block > 0) F("plan.group_rows", d->group_rows > 0) \
    F("long reduction", d->shape == SHAPE_DEEP) F("rows of 2 KiB", d->shape == SHAPE_STRIDE) \
    F("many keys", d->shape == SHAPE_LONG) F("wide heads", d->shape == SHAPE_WIDE) \
    F("plan.depth_slab", d->depth_slab > 0) F("plan.fold on", is(d->fold, "on")) F("plan.fold off", is(d->fold, "off")) \
    F("plan.prefetch on", is(d->prefetch, "on")) F("plan.prefetch off", is(d->prefetch, "off")) \
    F("plan.value_layout blocks", is(d->value_layout, "blocks")) F("plan.value_layout rows", is(d->value_layout, "rows")) \
    F("plan.z_layout blocks", is(d->z_layout, "blocks")) F("plan.z_layout rows", is(d->z_layout, "rows")) \
    F("plan.panel_vecs", d->panel_vecs > 0) F("plan.panel_rows", d->panel_rows > 0) \
    F("plan.panel_depth", d->panel_depth > 0) F("plan.lane_rows", d->lane_rows > 0) \
    F("plan.score_rows", d->score_rows > 0) F("plan.value_rows", d->value_rows > 0) \
    F("plan.batch_rows", d->batch_rows > 0) F("plan.softmax two_pass", is(d->softmax, "two_pass")) \
    F("plan.products fast", is(d->products, "fast")) F("plan.size small", is(d->size, "small")) F("plan.size small alone", is(d->size, "small") && !d->fold && !d->prefetch) \
    F("many short sequences", d->crowded) \
    F("many short sequences in blocks", d->crowded && is(d->value_layout, "blocks")) \
    F("many short sequences, Z in blocks", d->crowded && is(d->z_layout, "blocks")) \
    F("folded, Z in rows", is(d->fold, "on") && is(d->z_layout, "rows")) \
    F("folded, tied", d->w_k && is(d->fold, "on")) F("folded, split", is(d->input, "split") && is(d->fold, "on")) \
    F("folded, h_kv < h", d->h_kv > 0 && d->h_kv < d->h && is(d->fold, "on")) \
    F("folded, bias", d->bias && is(d->fold, "on")) F("folded, out_in", d->weight_layout && is(d->fold, "on")) \
    F("folded, conv", is(d->w_o, "conv") && is(d->fold, "on")) F("folded, cross", d->attention && is(d->fold, "on")) \
    F("projected", is(d->input, "projected")) F("projected, heads first", is(d->input, "projected") && d->heads) \
    F("projected, w_o none", is(d->input, "projected") && is(d->w_o, "none")) F("projected, conv", is(d->input, "projected") && is(d->w_o, "conv")) \
    F("offset past", is(d->offset, "past")) F("offset end", is(d->offset, "end")) F("pad_rows skipped", d->pad_rows) \
    F("qk_norm rms", is(d->qk_norm, "rms")) F("qk_norm layer", is(d->qk_norm, "layer")) \
    F("qk_norm l2", is(d->qk_norm, "l2")) F("qk_norm rms_all", is(d->qk_norm, "rms_all")) F("norm_eps", d->norm_eps > 0) \
    F("qk_norm_eps", d->qk_norm_eps > 0) F("out_norm_eps", d->out_norm_eps > 0) F("beta_scale", d->beta_scale > 0) \
    F("gains by head", is(d->qk_norm_gains, "heads")) F("qk_norm_bias", is(d->qk_norm_bias, "false")) \
    F("rope half", is(d->rope, "half")) F("rope interleaved", is(d->rope, "interleaved")) F("rope_dims", d->rope_dims > 0) \
    F("rope_theta", d->rope_theta > 0) F("rope_positions given", d->rope_positions) F("rope_sections", d->rope_sections[0] != '\0') \
    F("sections take turns", is(d->rope_section_order, "interleaved")) F("linear", is(d->rope_scaling, "linear")) \
    F("llama3", is(d->rope_scaling, "llama3")) F("yarn", is(d->rope_scaling, "yarn")) \
    F("dynamic", is(d->rope_scaling, "dynamic")) F("rope_factors", d->rope_factors[0] != '\0') \
    F("rope_long_factors", d->rope_long_factors[0] != '\0') F("rope_len", d->rope_len > 0) \
    F("not truncated", d->rope_truncate != NULL) F("softcap", d->softcap > 0) F("alibi", d->alibi) \
    F("t5", is(d->relative, "t5")) F("t5, causal", is(d->relative, "t5") && d->mask & MASK_CAUSAL) \
    F("table", is(d->relative, "table")) F("rel_keys", d->rel_keys) F("rel_queries", d->rel_queries) \
    F("rel_keys of heads", is(d->rel_keys, "heads")) F("rel_queries of heads", is(d->rel_queries, "heads")) \
    F("rel_biases", d->rel_biases) F("rel_rows log", is(d->rel_rows, "log")) F("vectors, offset", d->rel_rows && d->offset != NULL) F("sink", d->sink) F("prefix", d->mask & MASK_PREFIX) \
    F("segments", d->mask & MASK_SEGMENTS) F("segments, cross", (d->mask & MASK_SEGMENTS) && d->attention) \
    F("raw", is(d->scores, "raw")) F("capped", is(d->scores, "capped")) F("biased", is(d->scores, "biased")) \
    F("lse", d->lse) F("lse, sink", d->lse && d->sink) F("rope and qk_norm", d->rope != NULL && d->qk_norm != NULL) \
    F("rope, tied", d->rope != NULL && d->w_k) F("qk_norm, tied", d->qk_norm != NULL && d->w_k) \
    F("rope, split", d->rope != NULL && is(d->input, "split")) F("rope, h_kv < h", d->rope != NULL && d->h_kv > 0 && d->h_kv < d->h) \
    F("alibi, offset", d->alibi && d->offset != NULL) F("relative, offset", d->relative != NULL && d->offset != NULL) \
    F("causal, offset", (d->mask & MASK_CAUSAL) && d->offset != NULL) \
    F("window, offset", (d->mask & MASK_WINDOW) && d->offset != NULL) \
    F("softcap and terms", d->softcap > 0 && (d->alibi || d->relative != NULL)) \
    F("sink, padding", d->sink && d->mask & MASK_PADDING) \
    F("score", d->score[0] != '\0') F("score that hides", strstr(d->score, "-1e999") != NULL) \
    F("visible", d->visible[0] != '\0') F("visible, offset", d->visible[0] != '\0' && d->offset != NULL) \
    F("cache rows", is(d->cache, "rows")) F("ring", is(d->cache, "ring")) F("paged", is(d->cache, "paged")) \
    F("tensors of bf16", is(d->tensor_type, "bf16")) F("tensors of f16", is(d->tensor_type, "f16")) \
    F("states of bf16", d->layer != NULL && is(d->cache_type, "bf16")) F("cache of bf16", is(d->cache_type, "bf16")) F("cache of f16", is(d->cache_type, "f16")) \
    F("cache of i8", is(d->cache_type, "i8")) F("cache, exact chunks", is(d->exact_chunks, "true")) \
    F("cache, products of integers", d->cache != NULL && (is(d->precision, "i8") || is(d->precision, "i16"))) F("cache, projected", d->cache != NULL && is(d->input, "projected")) \
    F("cache, padding", d->cache != NULL && d->mask & MASK_PADDING) F("cache, tied", d->cache != NULL && d->w_k) \
    F("cache, identity", d->cache != NULL && d->w_v) F("cache, scores", d->cache != NULL && d->scores != NULL) \
    F("cache, rope", d->cache != NULL && d->rope != NULL) \
    F("post", is(d->block, "post")) F("pre", is(d->block, "pre")) F("parallel", is(d->block, "parallel")) \
    F("sandwich", is(d->block, "sandwich")) F("outputs", is(d->block, "outputs")) F("norm_bias", is(d->norm_bias, "false")) \
    F("input_norm", is(d->input_norm, "false")) F("norm rms", is(d->norm, "rms")) F("norm_shared", d->norm_shared != NULL) \
    F("relu", is(d->ffn, "relu")) F("gelu", is(d->ffn, "gelu")) F("gelu_tanh", is(d->ffn, "gelu_tanh")) \
    F("silu", is(d->ffn, "silu")) F("swiglu", is(d->ffn, "swiglu")) F("geglu", is(d->ffn, "geglu")) \
    F("geglu_tanh", is(d->ffn, "geglu_tanh")) F("quick_gelu", is(d->ffn, "quick_gelu")) F("relu2", is(d->ffn, "relu2")) \
    F("sigmoid", is(d->ffn, "sigmoid")) F("tanh", is(d->ffn, "tanh")) F("reglu", is(d->ffn, "reglu")) \
    F("quick_geglu", is(d->ffn, "quick_geglu")) F("glu", is(d->ffn, "glu")) F("ffn_limit", d->ffn_limit > 0) \
    F("ffn_alpha", d->ffn_alpha > 0) F("block without ffn", d->block != NULL && d->ffn == NULL) \
    F("ffn_bias", is(d->ffn_bias, "true")) F("block, cross", d->block != NULL && d->attention) \
    F("block, conv", d->block != NULL && is(d->w_o, "conv")) F("block, cache", d->block != NULL && d->cache != NULL) \
    F("block, folded", d->block != NULL && is(d->fold, "on")) F("block, split", d->block != NULL && is(d->input, "split")) \
    F("block, rows skipped", d->block != NULL && d->pad_rows) \
    F("block, identity", d->block != NULL && d->w_v) F("block, tied", d->block != NULL && d->w_k) \
    F("train, prefix", d->train && d->mask & MASK_PREFIX) F("train, segments", d->train && d->mask & MASK_SEGMENTS) \
    F("train, offset", d->train && d->offset != NULL) F("train, positions", d->train && d->rope_positions) \
    F("train, softcap", d->train && d->softcap > 0) F("train, sink", d->train && d->sink) \
    F("train, relative", d->train && d->relative != NULL) F("train, qk_norm", d->train && d->qk_norm != NULL) \
    F("train, softcap and relative", d->train && d->softcap > 0 && d->relative != NULL) \
    F("train, rows skipped", d->train && d->pad_rows) \
    F("train, visible", d->train && d->visible[0] != '\0') \
    F("train", d->train) F("train, dropout", d->train && d->dropout > 0) \
    F("train, rope", d->train && d->rope != NULL) F("train, alibi", d->train && d->alibi) \
    F("train, cross", d->train && d->attention) F("train, conv", d->train && is(d->w_o, "conv")) \
    F("train, split", d->train && is(d->input, "split")) F("train, tied", d->train && d->w_k) \
    F("train, identity", d->train && d->w_v) F("train, h_kv", d->train && d->h_kv > 0) \
    F("train, out_in", d->train && d->weight_layout) F("train, additive", d->train && d->mask & MASK_ADDITIVE) \
    F("portable", d->exact) F("latent", d->kv_rank > 0) F("latent, cached", d->kv_rank > 0 && d->cache != NULL) \
    F("latent, biases", d->kv_rank > 0 && d->bias) F("latent, not turned", d->kv_rank > 0 && is(d->rope, "none")) \
    F("latent, narrow weights", d->kv_rank > 0 && d->weight_type != NULL) \
    F("latent, narrow tensors", d->kv_rank > 0 && d->tensor_type != NULL) \
    F("latent, many heads cached", d->kv_rank > 0 && d->cache != NULL && d->h > 24) \
    F("values of keys", is(d->w_v, "keys")) F("values of cached keys", is(d->w_v, "keys") && d->cache != NULL) \
    F("recurrent", is(d->layer, "recurrent")) F("recurrent, projected", is(d->layer, "recurrent") && d->input != NULL) \
    F("latent, heads expanded", d->kv_rank > 0 && d->cache != NULL && is(d->latent, "expanded")) \
    F("latent, of either form", d->kv_rank > 0 && d->cache != NULL && d->latent == NULL && d->seq_len >= 64) \
    F("recurrent, block", is(d->layer, "recurrent") && d->block != NULL) \
    F("recurrent, narrow weights", is(d->layer, "recurrent") && d->weight_type != NULL) \
    F("recurrent, padding", is(d->layer, "recurrent") && d->pad_rows) F("convolution of states", d->conv_taps > 0) \
    F("recurrent, bias", is(d->layer, "recurrent") && d->bias) F("bias of convolution", d->conv_bias) F("skip", d->skip) \
    F("dt_values", d->dt_values) F("dt_min", d->dt_min > 0) F("dt_max", d->dt_max > 0) \
    F("state_window", d->state_window > 0) F("decay_rank", d->decay_rank > 0) F("gate_rank", d->gate_rank > 0) F("gate, then norm", d->norm_before_gate) F("out_norm_groups", d->out_norm_groups > 0) \
    F("convolution of x", is(d->layer, "conv")) F("convolution, padding", is(d->layer, "conv") && d->pad_rows) \
    F("convolution of many taps", is(d->layer, "conv") && d->conv_taps > 8) \
    F("layer ffn", is(d->layer, "ffn")) F("layer linear", is(d->layer, "linear")) \
    F("linear, normed", is(d->layer, "linear") && d->norm_eps > 0) F("linear, activation", d->activation != NULL) \
    F("linear, softcap", is(d->layer, "linear") && d->softcap > 0) \
    F("linear, rows skipped", is(d->layer, "linear") && d->pad_rows) \
    F("ffn, rows skipped", is(d->layer, "ffn") && d->pad_rows) \
    F("one row", d->layer != NULL && d->seq_len == 1) \
    F("visible, segments", d->visible[0] != '\0' && d->mask & MASK_SEGMENTS) F("table.NAME", reads(d, "tau[") || reads(d, "grid["))

#define FEATURE_NAME(name, test) name,
static const char *const features[] = {FEATURES(FEATURE_NAME)};
#define FEATURE_COUNT (sizeof features / sizeof *features)

_Static_assert(FEATURE_COUNT <= MAX_FEATURES, "sweep.drawn holds all features");

static void count_features(const struct draft *d, size_t counts[MAX_FEATURES])
{
    size_t i = 0;
#define FEATURE_COUNTS(name, test) counts[i++] += (test) ? 1 : 0;
    FEATURES(FEATURE_COUNTS)
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_series(struct series *s)
{
    if (s->count == 0)
        return;
    qsort(s->value, s->count, sizeof *s->value, by_size);
    printf("  %-11s min %-8.2g 1%% %-8.2g median %-8.2g max %-8.2g, %zu more without any error\n", s->title, s->value[0],
           s->value[s->count / 100], s->value[s->count / 2], s->value[s->count - 1], s->exact);
}

static void summarise(struct sweep *sweep)
{
    const size_t layers = sweep->passed + sweep->failed;
    size_t missing = 0;
    printf("drawn:");
    for (size_t i = 0; i < FEATURE_COUNT; i++) {
        printf("%s %s %zu", i > 0 ? "," : "", features[i], sweep->drawn[i]);
        missing += sweep->drawn[i] == 0;
    }
    printf("\nlargest error of each kernel / its bound:\n");
    for (int i = 0; i < SERIES; i++)
        print_series(&sweep->series[i]);
    printf("%zu layers, %zu kernels checked, %zu kernels skipped that this machine cannot run\n", layers,
           sweep->kernels, sweep->skipped);
    if (layers >= EVERYTHING_FROM && missing > 0 && !sweep->options->cached && !sweep->options->blocks &&
        !sweep->options->rows && !sweep->options->states && !sweep->options->train && !sweep->options->portable) {
        printf("FAILED: %zu of the features above were never drawn\n", missing);
        sweep->failed++;
    }
    printf("%zu passed, %zu failed\n", sweep->passed, sweep->failed);
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static bool start_next(struct sweep *sweep, size_t index)
{
    struct job *job = sweep->jobs;
    while (job->pid != 0)
        job++;
    if (!draw_job(sweep, job, index))
        return false;
    count_features(&job->draft, sweep->drawn);
    if (!sweep->options->print)
        return start(sweep, job);
    printf("# layer %zu: batch %lld, n %lld, m %lld\n%s\n", index, (long long)job->call.batch, (long long)job->call.n,
           (long long)job->call.m, job->spec);
    folder_remove(job->folder);
    return true;
}

static void wait_for_one(struct sweep *sweep)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (size_t j = 0; pid > 0 && j < sweep->options->jobs; j++)
        if (sweep->jobs[j].pid == pid)
            finish(sweep, &sweep->jobs[j], status);
}

static int run(const struct options *options)
{
    struct diag diag = {0};
    struct sweep sweep = {.options = options, .series = {{.title = "y, gate"}, {.title = "y, bound"},
                                                         {.title = "attn, bound"}}};
    sweep.folder = folder_make(&diag);
    if (sweep.folder == NULL)
        return diag_report(&diag, stderr);
    size_t running = 0;
    for (size_t i = 0; (i < options->count && !sweep.violated) || running > 0;) {
        if (i < options->count && running < options->jobs && !sweep.violated) {
            sweep.violated = !start_next(&sweep, options->first + i++);
            running += !sweep.violated && !options->print;
        } else {
            wait_for_one(&sweep);
            running--;
        }
    }
    if (!options->print)
        summarise(&sweep);
    for (int i = 0; i < SERIES; i++)
        free(sweep.series[i].value);
    folder_remove(sweep.folder);
    free(sweep.folder);
    return sweep.violated ? EXIT_ENVIRONMENT : sweep.failed > 0 ? EXIT_CHECK_FAILED : EXIT_GOOD;
}

static void usage(FILE *out)
{
    fputs("usage: sweep [--seed S] [--first I] [--count N] [--jobs J] [--isa LIST] [--cc COMPILER]…\n"
          "             [--attnrun PATH] [--keep DIR] [--cached] [--blocks] [--rows] [--states] [--train] [--whole]\n"
          "             [--shared] [--latent] [--vectors] [--portable] [--print]\n"
          "checks random layers I … I+N-1 of seed S; --print only shows them; with --cached all have a cache, with\n"
          "--blocks all that can be stand in a block, with --rows they have no attention, with --states a state,\n"
          "with --train all have gradients, with --whole products are of whole numbers, with --shared values are columns of\n"
          "the keys, with --latent they have latents, with --vectors vectors of\n"
          "distances, with --portable exact = portable. The first compiler gets most of them.\n"
          "Specs of failed ones are left in DIR. $CFLAGS: if not set, -O0 for most, -O1 and -O2 for some, and warnings\n"
          "are errors.\n",
          out);
}

/* argv's numbers; false for anything but digits. */
static bool number(size_t *value, const char *text, size_t low, size_t high)
{
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    *value = (size_t)n;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && n >= low && n <= high;
}

static bool parse(struct options *options, int argc, char **argv)
{
    static const struct option table[] = {{"seed", 1, NULL, 's'}, {"first", 1, NULL, 'f'}, {"count", 1, NULL, 'c'},
                                          {"jobs", 1, NULL, 'j'}, {"isa", 1, NULL, 'i'},   {"cc", 1, NULL, 'C'},
                                          {"attnrun", 1, NULL, 'a'}, {"keep", 1, NULL, 'k'}, {"print", 0, NULL, 'p'},
                                          {"cached", 0, NULL, 'd'}, {"blocks", 0, NULL, 'b'}, {"rows", 0, NULL, 'r'},
                                          {"states", 0, NULL, 'S'}, {"train", 0, NULL, 't'},
                                          {"fast", 0, NULL, 'F'}, {"whole", 0, NULL, 'w'}, {"shared", 0, NULL, 'K'}, {"latent", 0, NULL, 'L'}, {"vectors", 0, NULL, 'V'}, {"portable", 0, NULL, 'P'},
                                          {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
    size_t seed = 1;
    bool good = true;
    for (int found; good && (found = getopt_long(argc, argv, "", table, NULL)) != -1;)
        switch (found) {
        case 's': good = number(&seed, optarg, 0, SIZE_MAX); break;
        case 'f': good = number(&options->first, optarg, 0, SIZE_MAX / 2); break;
        case 'c': good = number(&options->count, optarg, 1, SIZE_MAX / 2); break;
        case 'j': good = number(&options->jobs, optarg, 1, MAX_JOBS); break;
        case 'i': options->isa = optarg; break;
        case 'C':
            good = options->compiler_count < MAX_COMPILERS;
            if (good)
                options->compilers[options->compiler_count++] = optarg;
            break;
        case 'a': options->attnrun = optarg; break;
        case 'k': options->keep = optarg; break;
        case 'p': options->print = true; break;
        case 'd': options->cached = true; break;
        case 'b': options->blocks = true; break;
        case 't': options->train = true; break;
        case 'r': options->rows = true; break;
        case 'S': options->states = true; break;
        case 'F': options->fast = true; break;
        case 'w': options->whole = true; break;
        case 'K': options->shared = true; break;
        case 'L': options->latent = true; break;
        case 'V': options->vectors = true; break;
        case 'P': options->portable = true; break;
        default: good = false;
        }
    options->seed = seed;
    return good && optind == argc;
}

int main(int argc, char **argv)
{
    char *compiler = getenv("CC");
    const char *attnrun = getenv("ATTNRUN");
    struct options options = {.count = 100, .jobs = 1, .isa = "all", .keep = "build/sweep-failures",
                              .attnrun = attnrun != NULL ? attnrun : "build/attnrun", .flags = getenv("CFLAGS")};
    if (!parse(&options, argc, argv)) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (options.compiler_count == 0)
        options.compilers[options.compiler_count++] = compiler != NULL && *compiler != '\0' ? compiler : "cc";
    const struct rlimit limit = {MAX_CPU_SECONDS, MAX_CPU_SECONDS + 10};
    setrlimit(RLIMIT_CPU, &limit); /* for the children, and far more than this program needs itself */
    return run(&options);
}
