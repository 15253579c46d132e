/* SPDX-License-Identifier: MIT */
/* One attention layer: what a spec file says, checked, with every default filled in.
 *
 * The generator and the runtime both read specs through this file and share nothing else (besides diag.h).
 * Left out on purpose: how the layer is computed. That is plan.h's, and the keys that steer it
 * ("plan.*") are only collected here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "spec/activation_rows.h"

struct diag;
struct expression;

enum layer_mask {
    MASK_CAUSAL   = 1 << 0,
    MASK_PADDING  = 1 << 1,
    MASK_NO_SELF  = 1 << 2,
    MASK_WINDOW   = 1 << 3,
    MASK_BOOL     = 1 << 4,
    MASK_ADDITIVE = 1 << 5,
    MASK_PREFIX   = 1 << 6,
    MASK_SEGMENTS = 1 << 7
};

/* The terms of a score; score.h has their table. SCORE_HIDING: an expression that may hide, or is long, in place of
 * SCORE_EXPRESSION. */
#define TERM(id, ...) SCORE_##id,
enum score_name {
#include "spec/score_rows.h"
    SCORE_TERMS
};
#undef TERM

/* Types of elements. A call's tensors: f32, i32, bool; its activations also bf16, f16; its caches also bf16, f16,
 * i8. Packed weights: f32, bf16, f16, i8 with a scale for each column of a matrix, i4 with a scale for each
 * WEIGHT_GROUP rows of a column. An element of i4 is a byte: two numbers, or a quarter of a scale. */
enum tensor_element { TENSOR_F32, TENSOR_I32, TENSOR_BOOL, TENSOR_BF16, TENSOR_F16, TENSOR_I8, TENSOR_I4 };
#define WEIGHT_GROUP 32 /* of a product's depth, which is that of one tap */

/* Of the operands of products with weights: f32, or whole numbers, a scale for each row and column, whose sums are
 * exact. docs/types.md, "Integer products". */
enum layer_precision { PRECISION_F32, PRECISION_I16, PRECISION_I8, PRECISION_BF16 };
/* What a layer is: feed-forward and linear layers are of each row alone; a recurrent one has a state in place of
 * keys, and a convolution of x over tokens remembers the last of them. */
enum layer_kind { LAYER_ATTENTION, LAYER_FFN, LAYER_LINEAR, LAYER_RECURRENT, LAYER_CONV };
/* How a token changes the state S [d_k][d_v] of a head: docs/recurrent.md */
enum layer_rule { RULE_LINEAR, RULE_GATED, RULE_DELTA, RULE_GATED_DELTA };
enum layer_decay { DECAY_HEAD, DECAY_COLUMN }; /* a factor for all of S, or for each of its d_k rows */
enum layer_w_o { W_O_DENSE, W_O_NONE, W_O_CONV };
enum layer_w_v { W_V_DENSE, W_V_IDENTITY, W_V_KEYS };
enum layer_input { INPUT_SHARED, INPUT_SPLIT, INPUT_PROJECTED };
enum layer_cache { CACHE_NONE, CACHE_ROWS, CACHE_RING, CACHE_PAGED };
enum layer_offset { OFFSET_NONE, OFFSET_PAST, OFFSET_END };
enum layer_norm { NORM_NONE, NORM_RMS, NORM_LAYER, NORM_L2, NORM_RMS_ALL, NORM_L2_SUM };
/* What multiplies the normed outputs of a recurrent layer, of a product of x; NONE: they are not normed either */
enum layer_out_gate { OUT_GATE_NONE, OUT_GATE_SILU, OUT_GATE_SIGMOID };
#define LAYER_AXES 4 /* of positions, at most */
enum layer_gate { GATE_NONE, GATE_FEATURES, GATE_HEADS };
enum layer_rope { ROPE_NONE, ROPE_HALF, ROPE_INTERLEAVED };
enum layer_rope_scaling {
    SCALING_NONE, SCALING_LINEAR, SCALING_LLAMA3, SCALING_YARN, SCALING_DYNAMIC, SCALING_LONGROPE
};
enum layer_relative { RELATIVE_NONE, RELATIVE_T5, RELATIVE_TABLE };
/* Vectors by distance that queries, or keys, are multiplied by: the same for all heads, or each head's own */
enum layer_vectors { VECTORS_NONE, VECTORS_SHARED, VECTORS_HEADS };
enum layer_rel_rows { ROWS_CLAMPED, ROWS_LOG }; /* which of them belongs to a distance: relative.h */
/* What stands around attention: where norms are, and what the feed-forward reads. docs/block.md, "The equations". */
enum layer_block { BLOCK_NONE, BLOCK_POST, BLOCK_OUTPUTS, BLOCK_PRE, BLOCK_PARALLEL, BLOCK_SANDWICH };
#define PLAIN(id, ...) ACTIVATION_##id,
enum layer_activation { ACTIVATION_NONE, ACTIVATION_ROWS(PLAIN) ACTIVATIONS };
#undef PLAIN
/* A feed-forward by its activation; gated, from ACTIVATIONS on: that of one product times another. */
#define PLAIN(id, ...) FFN_##id = ACTIVATION_##id, FFN_GATED_##id = ACTIVATIONS + ACTIVATION_##id,
enum layer_ffn { FFN_NONE, ACTIVATION_ROWS(PLAIN) };
#undef PLAIN
enum layer_scores { SCORES_NONE, SCORES_WEIGHTS, SCORES_RAW, SCORES_CAPPED, SCORES_BIASED };
enum layer_width { WIDTH_NARROW, WIDTH_WIDE, WIDTH_GIVEN }; /* GIVEN: both d_k and d_v stand in the spec */

#define LAYER_UNBOUNDED (-1) /* a window side that is not limited */

/* A "plan.key = value" of the spec, as written; plan_make() knows the keys. */
struct layer_option {
    char *key;   /* with the "plan." */
    char *value;
    char *place; /* "file:line" or "--set key=value", for messages */
};

/* A "table.NAME = extent, extent…" of the spec: numbers that its expressions read. */
#define LAYER_TABLES 8
struct layer_table {
    const char *name;
    int axes;
    int64_t extent[4];
};

struct layer {
    char *name; /* prefix of every emitted symbol */
    enum layer_kind kind; /* of rows alone h, d_k and d_v are 1 and have no meaning */
    int64_t d_model, h, h_kv, d_k, d_v, d_source, seq_len, source_len;
    int64_t h_v, h_out;   /* recurrent: heads of values, each with a state; heads of y: the larger of h and h_v */
    enum layer_rule rule;
    enum layer_decay decay;
    int64_t conv_taps;    /* of a convolution over tokens of projected q, k and v, or of x, causal; 0: there is none */
    int64_t conv_history; /* tokens that it remembers from call to call: conv_taps - 1, and those of the window */
    int64_t state_window, states; /* last tokens that can be taken back; states kept: state_window + 1 */
    int64_t conv_channels; /* columns of q, k and v together, or of x; 0 without a convolution */
    bool conv_bias;       /* its sums begin with one */
    enum layer_out_gate out_gate;
    int64_t decay_rank, gate_rank; /* of the matrices that make decays and output gates, which are two then; 0: one */
    int64_t d_in_a, d_in_z; /* what the second one reads: columns of the first one's product, or of x */
    bool norm_before_gate; /* outputs are normed, then gated; false: the other way round */
    int64_t out_norm_groups; /* of all columns of outputs, each normed by itself; 0: heads, with the same gains */
    double dt_min, dt_max; /* limits of dt, of which decays are made; 0: none */
    bool dt_values;       /* values are multiplied by dt */
    bool skip;            /* a value times a number of its head is added to the output */
    enum layer_gate gate; /* of attention: what Z is multiplied by before W_O */
    enum layer_width width;
    bool d_k_given, d_v_given; /* given in the spec, not derived from width */
    bool split;    /* input = split */
    bool projected;   /* input = projected: a call brings q, k and v, and n and m are independent */
    bool portable;    /* exact = portable: the same bits on every set, by every compiler, in any call */
    bool heads_first; /* heads = first: their axis is before that of tokens */
    enum layer_offset offset; /* what is added to a query's row to make its position */
    enum layer_cache cache; /* keys and values of earlier tokens, the caller's */
    int64_t cache_len; /* most positions of a sequence, or rows of a ring; then source_len too. 0: no cache */
    enum tensor_element cache_type; /* of the numbers in it: f32, bf16, f16 or i8; of states: f32 or bf16 */
    int64_t cache_apart; /* of a model's layer: bytes from a sequence's keys or states to the next one's, or 0 */
    int64_t page_len, page_count; /* positions of a page, and pages of a sequence; 0 unless paged */
    bool cross;    /* attention = cross */
    bool source_kept; /* a call can leave out the source and use what an earlier one made of it; cross only */
    bool self;     /* keys are the queries' own tokens: m = n. Neither cross nor projected */
    bool tied;     /* w_k = tied */
    enum layer_w_v w_v;
    bool identity; /* w_v = identity */
    /* Latent attention, rank > 0: keys are of one head, [c, k_r], c [rank] and [rope.dims] columns of x, which
     * rope turns, or none; heads have queries and keys [d_nope + rope.dims], values [d_value]. As computed, d_k is
     * rank + rope.dims, d_v is rank, h_kv is 1. d_latent: what queries are made of, q_rank or d_model. */
    struct {
        int64_t rank, q_rank, d_latent, d_nope, d_head, d_value;
    } latent;
    bool shares;   /* w_v = keys: values are the first d_v columns of the keys, normed and rotated like these */
    enum layer_w_o w_o;
    int64_t conv_width; /* taps; meaningful for W_O_CONV only (default 3) */
    unsigned mask;      /* enum layer_mask bits */
    int64_t window_left, window_right; /* LAYER_UNBOUNDED or >= 0 */
    bool pad_skipped;   /* pad_rows = skipped */
    bool bias;
    bool sink, lse;
    bool train; /* the pair has a backward pass too */
    double dropout; /* of weights in training: this share is zero; 0: there is none */
    enum layer_scores scores; /* what `attn` holds */
    enum layer_norm qk_norm;
    bool qk_by_head; /* each head has gains, and shifts, of its own */
    bool qk_shift;   /* qk_norm = layer: there are shifts */
    double norm_eps; /* of the block's norms */
    double qk_norm_eps, out_norm_eps; /* of norms of q and k, of a head's outputs */
    double beta_scale; /* factor of the sigmoid that is a token's beta */
    struct {
        enum layer_rope kind;
        int64_t dims;      /* columns that are turned, even */
        double theta;
        bool given;        /* rope_positions = given */
        int64_t axes;      /* positions of a token; more than one with rope_sections */
        int64_t sections[LAYER_AXES]; /* pairs of columns that each axis turns */
        bool interleaves;  /* the axes take turns, as far as their sections go */
        enum layer_rope_scaling scaling;
        double factor, original_len, low, high, beta_fast, beta_slow;
        bool truncate;           /* yarn: from and to whole pairs of columns */
        double attention_factor; /* of cos and sin; 1 but under yarn and longrope */
        int64_t len;             /* dynamic, longrope: tokens of the sequences that frequencies are for */
        double *factors;         /* longrope: what frequencies are divided by, one for each pair of columns */
    } rope;
    enum layer_relative relative;
    int64_t rel_buckets, rel_distance, rel_left, rel_right;
    enum layer_vectors rel_keys, rel_queries; /* what is added to q·k: q·r, k·r' */
    bool rel_biases;  /* q is moved by u before its product with k, by v before that with r */
    enum layer_rel_rows rel_rows;
    enum layer_block block;
    bool block_rms;   /* norm = rms: the block's norms have no mean and no shift */
    bool block_shift; /* they have a shift: norm = layer without norm_bias = false */
    bool input_norm;  /* pre: attention reads normed rows */
    bool norm_shared; /* one norm for attention and feed-forward; parallel with a feed-forward only */
    enum layer_ffn ffn;
    int64_t d_ff;     /* 0: no feed-forward */
    bool ffn_bias;
    double ffn_limit, ffn_alpha; /* of a clamped swiglu; limit 0: it is none */
    enum layer_activation activation; /* of layer = linear or conv */
    bool row_norm; /* layer = linear: its rows are normed before the product */
    double cap;    /* layer = linear: y becomes cap tanh(y / cap); 0: it does not */
    bool out_in; /* weight_layout = out_in */
    enum tensor_element weight_type; /* of weights as they are packed: f32, bf16, f16, i8 or i4; f32 under precision */
    enum layer_precision precision;
    enum tensor_element tensor_type; /* of the caller's activations, x, source, q, k, v, y and attn: f32, bf16 or f16 */
    union {
        double scale;
        double number[SCORE_TERMS]; /* by score term: its number; 0: none is given */
    };

    struct expression *score, *visible; /* NULL: the spec has none; expression.h */
    struct expression *score_kernel, *visible_kernel; /* in the form for kernels */
    struct layer_table tables[LAYER_TABLES]; /* in the spec's order */
    size_t table_count;

    struct pool memory; /* of the texts, options and factors; the spec's first */

    struct layer_option *options;
    size_t options_count;

    char *text; /* every key given, --set applied: "key = value" a line, the name first, tables and plan.* last, plan.*
                 * in their own order. A layer of the same text is the same layer. */

    char *steering; /* spec_steering() */

    /* derived */
    int64_t d_in_q;  /* columns of x that one head reads: d_model, or d_model/h under split */
    int64_t d_in_kv; /* columns of source that one head reads */
    int64_t d_out;   /* columns of y: d_model, or h*d_v with w_o = none */
    int64_t rel_width; /* numbers of a head in the table of relative = table; vectors of rel_keys and rel_queries */
};

static inline bool layer_attends(const struct layer *layer) { return layer->kind == LAYER_ATTENTION; }
static inline bool layer_is_linear(const struct layer *layer) { return layer->kind == LAYER_LINEAR; }
static inline bool layer_is_recurrent(const struct layer *layer) { return layer->kind == LAYER_RECURRENT; }
/* Numbers of the states of a sequence, [states][h_v][d_k][d_v]; layer = recurrent only */
static inline int64_t layer_state_numbers(const struct layer *layer)
{
    return layer->states * layer->h_v * layer->d_k * layer->d_v;
}
static inline bool layer_is_convolution(const struct layer *layer) { return layer->kind == LAYER_CONV; }
/* Whether what later calls need of earlier tokens is in tensors of the caller's, apart from a cache. */
static inline bool layer_keeps_states(const struct layer *layer)
{
    return layer_is_recurrent(layer) || layer_is_convolution(layer);
}
/* Whether tokens reach each other, by attention or a state, between products of x and with W_O */
static inline bool layer_mixes(const struct layer *layer)
{
    return layer_attends(layer) || (layer_is_recurrent(layer) && !layer->projected);
}
/* Recurrent: whether the state is multiplied by a decay; whether what it holds for a key is taken off its value. */
static inline bool layer_decays(const struct layer *layer)
{
    return layer_is_recurrent(layer) && (layer->rule == RULE_GATED || layer->rule == RULE_GATED_DELTA);
}
static inline bool layer_corrects(const struct layer *layer)
{
    return layer_is_recurrent(layer) && layer->rule >= RULE_DELTA;
}
/* Whether what is added to a state has a factor beta: a share of the correction, or dt. */
static inline bool layer_has_beta(const struct layer *layer) { return layer_corrects(layer) || layer->dt_values; }
/* Columns of outputs that are normed together */
static inline int64_t layer_out_norm_width(const struct layer *layer)
{
    return layer->out_norm_groups > 0 ? layer->h_out * layer->d_v / layer->out_norm_groups : layer->d_v;
}
/* Numbers that gate one head of Z; 0: none */
static inline int64_t layer_gate_width(const struct layer *layer)
{
    return layer->gate == GATE_NONE ? 0 : layer->gate == GATE_HEADS ? 1 : layer->d_v;
}
static inline bool layer_has_cache(const struct layer *layer) { return layer->cache != CACHE_NONE; }
static inline bool layer_is_latent(const struct layer *layer) { return layer->latent.rank > 0; }
/* Latent attention that may have keys and values of heads formed: with a cache, unless scores are shown in 16 bits, or
 * where position alone hides keys and scores are not shown; not under exact = portable */
bool layer_may_expand(const struct layer *layer);
/* The form of latent attention in a call of n tokens after `past` others: expanded, each head's keys and values formed,
 * where n >= least and n (2 past + n + 1) gain > past price; else absorbed, queries times W_UK. least = 0: always
 * absorbed. */
struct latent_form {
    int64_t least, gain, price;
};
static inline bool latent_expands(const struct latent_form *form, size_t n, size_t past)
{
    const double tokens = (double)n, before = (double)past;
    return form->least > 0 && n >= (size_t)form->least &&
           tokens * (2 * before + tokens + 1) * (double)form->gain > before * (double)form->price;
}
/* Numbers of a head that W_O reads */
static inline int64_t layer_z_width(const struct layer *layer)
{
    return layer_is_latent(layer) ? layer->latent.d_value : layer->d_v;
}
/* Rows that a cache has for a token and head: its key, and its value unless that is a part of the key; their numbers */
static inline int layer_cached_rows(const struct layer *layer) { return layer->shares ? 1 : 2; }
static inline int64_t layer_cached_numbers(const struct layer *layer)
{
    return layer->d_k + (layer->shares ? 0 : layer->d_v);
}
/* Whether a call brings the same number of keys and queries: in self-attention, with a cache, or where `positions`
 * serves both. */
static inline bool layer_is_square(const struct layer *layer)
{
    return layer->self || layer_has_cache(layer) || (layer->projected && layer->rope.given);
}
/* Most tokens of a sequence whose keys and values one call computes. With a cache the others are in it. */
static inline int64_t layer_new_keys(const struct layer *layer)
{
    return layer_has_cache(layer) ? layer->seq_len : layer->source_len;
}
/* Whether queries and keys are normed, rotated or put together between projection and scores. */
static inline bool layer_finishes(const struct layer *layer)
{
    return layer_attends(layer) &&
           (layer->qk_norm != NORM_NONE || layer->rope.kind != ROPE_NONE || layer_is_latent(layer));
}

/* Philox's words below this number drop a weight: floor(dropout 2^32); 0: none is dropped. */
static inline uint32_t layer_dropped(const struct layer *layer) { return (uint32_t)(layer->dropout * 0x1p32); }
static inline bool layer_has_block(const struct layer *layer) { return layer->block != BLOCK_NONE; }
/* Whether attention (in parallel blocks the feed-forward too), or the first product of a layer without it, reads normed
 * rows in place of x. */
static inline bool layer_norms_first(const struct layer *layer)
{
    return layer->block > BLOCK_PRE || (layer->block == BLOCK_PRE && layer->input_norm) || layer->row_norm;
}
/* Whether attention and feed-forward are normed before they are added. */
static inline bool layer_norms_outputs(const struct layer *layer)
{
    return layer->block == BLOCK_OUTPUTS || layer->block == BLOCK_SANDWICH;
}
static inline bool layer_has_ffn(const struct layer *layer) { return layer->ffn != FFN_NONE; }
/* Whether the activation of one product is multiplied by another one. */
static inline bool layer_ffn_gated(const struct layer *layer) { return layer->ffn >= (int)ACTIVATIONS; }
static inline enum layer_activation layer_activation(const struct layer *layer)
{
    return layer_has_ffn(layer) ? (enum layer_activation)(layer->ffn % (int)ACTIVATIONS) : layer->activation;
}
/* Of f(a) = a / (1 + exp(-alpha a)): silu and what is like it */
static inline double layer_alpha(const struct layer *layer)
{
    return layer_activation(layer) == ACTIVATION_QUICK_GELU ? QUICK_GELU : layer->ffn_limit > 0 ? layer->ffn_alpha : 1;
}
/* What is known of an activation, by its row */
struct layer_activation_row {
    const char *equation;
    double operations, powers;
};
extern const struct layer_activation_row layer_activation_rows[ACTIVATIONS];
/* Whether queries, or keys, are multiplied by vectors of distances. */
static inline bool layer_has_vectors(const struct layer *layer)
{
    return layer->rel_keys != VECTORS_NONE || layer->rel_queries != VECTORS_NONE;
}
/* Whether weights are packed in another type than the caller's. */
static inline bool layer_stores_weights(const struct layer *layer)
{
    return layer->weight_type != TENSOR_F32 || layer->precision != PRECISION_F32;
}
/* Whether the operands of products with weights are rounded; whether to whole numbers. */
static inline bool layer_rounds(const struct layer *layer) { return layer->precision != PRECISION_F32; }
static inline bool layer_sums_whole(const struct layer *layer)
{
    return layer->precision == PRECISION_I8 || layer->precision == PRECISION_I16;
}
/* The axis of positions by which pair c of columns is turned */
static inline int64_t layer_axis_of(const struct layer *layer, int64_t c)
{
    int64_t axis = 0, end = layer->rope.sections[0];
    if (layer->rope.interleaves)
        return c / layer->rope.axes < layer->rope.sections[c % layer->rope.axes] ? c % layer->rope.axes : 0;
    while (axis + 1 < layer->rope.axes && c >= end)
        end += layer->rope.sections[++axis];
    return axis;
}
/* Whether a call makes cosines and sines, as packing does not know its positions */
static inline bool layer_makes_turns(const struct layer *layer)
{
    return layer->rope.kind != ROPE_NONE && !layer->projected && (layer->rope.given || layer_has_cache(layer));
}
/* Whether products with weights of i4 or i8 read digits of rows (plan.h), on some set at least, unless a plan file has
 * plan.typical_n: where calls of few tokens count; whether they read other numbers than those of the rows. */
bool layer_reads_digits(const struct layer *layer);
static inline bool layer_rounds_rows(const struct layer *layer)
{
    return layer_rounds(layer) || layer_reads_digits(layer);
}
/* Largest magnitude of a rounded row of `count` numbers. i16: a column has room for twice that magnitude, and the
 * sum of products fits 32 bits. */
int64_t layer_levels(const struct layer *layer, int64_t count);
/* Largest magnitude of a rounded column of `count` numbers. From FAST_NUMBERS on (fast.h) sums of four of its
 * numbers, or of a row's, fit 16 bits, as fast products need. It depends on the layer alone: plans do not change
 * what is computed. */
int64_t layer_column_levels(const struct layer *layer, int64_t count);
/* Whether W_O reads rounded rows of Z: of all heads, or under conv of each head. */
static inline bool layer_rounds_z(const struct layer *layer)
{
    return layer_rounds_rows(layer) && layer_attends(layer) && layer->w_o != W_O_NONE;
}

/* Whether exponentials of scores are polynomials of low degree: without a cache, beside products of whole numbers. With
 * a cache layer_rounds_scores() says so. */
static inline bool layer_shortens_weights(const struct layer *layer)
{
    return layer_sums_whole(layer) && layer_attends(layer) && !layer_has_cache(layer) &&
           !layer->portable;
}

/* Queries of a call, at most, that take the path of steps; 0: no call does, as there is no cache, plan.exact_chunks is
 * given, or too many heads share keys. */
bool layer_exact_chunks(const struct layer *layer);
/* Longer chunks multiply more keys with each other, shorter ones read and write S more often: timed, 4 to 16 */
#define LAYER_STATE_CHUNK 8
/* Recurrent: so many tokens of a call may go through a state at once, with other roundings than one by one; 1: each by
 * itself. Whether they do is rule_chunk()'s, unless they are asked for, plan.exact_chunks = false. */
int64_t layer_state_chunk(const struct layer *layer);
bool layer_asks_chunks(const struct layer *layer);
int64_t layer_few_queries(const struct layer *layer);
/* Whether rows lie along the lanes of scores in every call, as enough heads share the keys of a cache */
bool layer_rows_across(const struct layer *layer);
/* Whether scores are sums of whole numbers too: where d_k is large enough for that to pay; with a cache in calls of
 * more than layer_few_queries() queries, and in no call with plan.exact_chunks. Sets that sum bytes gain sooner
 * (`pairs` false). layer_score_levels(): largest magnitude of a rounded query or key. */
bool layer_rounds_scores(const struct layer *layer, bool pairs);
/* Whether keys are rounded in a phase of their own; those of a cache are where they are met. */
static inline bool layer_rounds_ahead(const struct layer *layer, bool pairs)
{
    return layer_rounds_scores(layer, pairs) && !layer_has_cache(layer);
}
int64_t layer_score_levels(const struct layer *layer, bool pairs);
/* Whether a sum over `depth` features saves more than rounding its operands costs. */
bool layer_depth_pays(const struct layer *layer, bool pairs, int64_t depth);
/* The same of weighted sums: largest magnitude of a rounded value, and of a rounded weight, which has no sign. A sum
 * over MOST_SUMMED keys is at most 2^31. */
#define MOST_SUMMED 256
bool layer_rounds_values(const struct layer *layer, bool pairs);
int64_t layer_value_levels(const struct layer *layer, bool pairs);
int64_t layer_weight_levels(const struct layer *layer, bool pairs);
/* Numbers in a word of rounded queries, keys, values and weights: four bytes under i8, except on sets that sum `pairs`
 * of products in 16 bits first. */
static inline int64_t layer_core_word(const struct layer *layer, bool pairs)
{
    return layer->precision == PRECISION_I8 && !pairs ? 4 : 2;
}
/* Numbers of a 32-bit word, which is one step of a sum. */
static inline int64_t layer_word(const struct layer *layer)
{
    return layer->precision == PRECISION_I8 ? 4 : layer_rounds(layer) ? 2 : 1;
}
/* Whether keys and values become other numbers in a cache, or states where a call leaves them. */
static inline bool layer_stores_cache(const struct layer *layer) { return layer->cache_type != TENSOR_F32; }
/* Whether states are rounded where a call leaves them. */
static inline bool layer_rounds_states(const struct layer *layer)
{
    return layer_keeps_states(layer) && layer_stores_cache(layer);
}
/* Whether each row of a head in a cache has a scale. */
static inline bool layer_scales_cache(const struct layer *layer) { return layer->cache_type == TENSOR_I8; }
/* Whether the caller's activations are of two bytes: floats for the kernel, rounded once where it writes them. */
static inline bool layer_types_tensors(const struct layer *layer) { return layer->tensor_type != TENSOR_F32; }
/* How many norms the block has: n1 is the first. */
int layer_norms(const struct layer *layer);
/* "u = x + att(n1(x)), y = u + ffn(n2(u))"; without attention "y = x + ffn(n1(x))" */
const char *layer_block_equation(const struct layer *layer);

/* The tensors of the contract. TENSOR_TABLE and on: the tables of a spec, in its order. */
#define TENSOR(id, ...) TENSOR_##id,
enum layer_tensor {
#include "spec/tensor_rows.h"
    TENSOR_COUNT,
    TENSOR_TABLE = TENSOR_TABLE_0, TENSOR_TABLE_LAST = TENSOR_TABLE_7
};
#undef TENSOR

enum tensor_kind {
    TENSOR_OF_CALL,  /* each call brings it */
    TENSOR_OF_PAIRS, /* a number for each query and key, of the call: [batch|1][h|1][n][m], two extents may be 1 */
    TENSOR_WEIGHT, TENSOR_BIAS,
    TENSOR_LEARNED, /* packed like those, in no other layout than its own */
    TENSOR_NAMED,   /* a table that the spec names, packed; the interface has all tables in one field */
    TENSOR_OUTPUT,
    TENSOR_CACHE  /* a call reads rows of it and writes those of its new tokens */
};
static inline bool tensor_is_packed(enum tensor_kind kind)
{
    return kind == TENSOR_WEIGHT || kind == TENSOR_BIAS || kind == TENSOR_LEARNED || kind == TENSOR_NAMED;
}

/* train: the gradient of this tensor, of its shape and called "d" and its name, is what backward computes. That of y,
 * `dy`, is what it is given. */
bool layer_has_gradient(const struct layer *layer, enum layer_tensor tensor);
/* Floats of a token that forward keeps for backward: z of each head, the score that its weights are relative to, and 1
 * over their sum. 0: not `train`. */
int64_t layer_kept(const struct layer *layer);

/* What all layers share of a tensor's row; tensor_rows.h has shapes and conditions besides. */
struct layer_tensor_row {
    const char *name; /* on disk and in the interface */
    enum tensor_kind kind;
    enum tensor_element type;
    const char *field, *note; /* words of the emitted header after the field and after the shape; NULL: none; words
                               * after a '|' hold in cross-attention */
    unsigned mask; /* the bit of the mask that brings it; 0: none alone */
};
const struct layer_tensor_row *layer_tensor_row(enum layer_tensor tensor);
const char *layer_tensor_name(enum layer_tensor tensor);
/* The same but for tables: those are called as the spec calls them. */
const char *layer_tensor_called(const struct layer *layer, enum layer_tensor tensor);
/* What its elements are, and the bytes of one; of a cache that is the layer's cache_type, of activations its
 * tensor_type. */
enum tensor_element layer_tensor_element(const struct layer *layer, enum layer_tensor tensor);
size_t layer_tensor_size(const struct layer *layer, enum layer_tensor tensor);
/* A type of numbers, a row each. Floating ones have `bits` significant bits and places from 2^lowest on; `infinite` are
 * the bits of the exponent, all set in infinity and NaN; `too_large`: sizes that become infinite, NULL: f32's. */
extern const struct element {
    const char *name, *word; /* "f32"; its C type */
    size_t size;             /* bytes */
    int bits, lowest;
    double most; /* the largest finite number */
    uint32_t infinite;
    const char *too_large;
} element_rows[];
size_t element_size(enum tensor_element element);
const char *element_name(enum tensor_element element);

/* The masks of these bits as a spec names them: "causal+padding", "none". */
#define LAYER_MASK_TEXT 80
void layer_mask_text(unsigned mask, char text[LAYER_MASK_TEXT]);

/* The tensor that a bit of the mask brings; TENSOR_COUNT: none. */
enum layer_tensor layer_mask_tensor(unsigned mask);
/* Whether this layer has the tensor at all (w_k: not when tied; attn: only with scores; …). */
bool layer_has_tensor(const struct layer *layer, enum layer_tensor tensor);

/* The sizes that a call brings. */
struct layer_call {
    int64_t batch, n, m;
    int64_t pages; /* of a paged cache */
};
/* Shape of a tensor as it lies on disk, weight_layout applied (out_in swaps the last two axes of matrices), "|1" not.
 * Writes at most 4 extents, returns their number; 0 for a tensor that the layer does not have. */
int layer_tensor_shape(const struct layer *layer, enum layer_tensor tensor, const struct layer_call *call,
                       int64_t shape[4]);
/* The same for weights and biases, which no call changes; 0 for others. */
int layer_weight_shape(const struct layer *layer, enum layer_tensor tensor, int64_t shape[4]);
/* "[batch or 1][12 or 1][n][m]" */
#define LAYER_SHAPE_TEXT 120
void layer_tensor_text(const struct layer *layer, enum layer_tensor tensor, char text[LAYER_SHAPE_TEXT]);
/* Whether one of its axes is exactly this letter, such as "n". */
bool layer_tensor_has_axis(const struct layer *layer, enum layer_tensor tensor, const char *letter);

/* Whether a spec may have this key; "plan.*" are not told apart here. */
bool layer_knows_key(const char *key);
/* Each key with what its value may be, one a line. */
void layer_print_keys(FILE *out);
/* The key that was perhaps meant. */
struct nearest layer_nearest_key(const char *key);

/* Reads and checks a spec file; `set` holds `set_count` "key=value" texts that override it.
 * Collects every error in `diag` ("file:line: error: what is wrong; what would be right").
 * Returns NULL when the spec is bad (diag has errors) or the file cannot be read (diag says so and
 * diag->environment is set). The caller frees the layer with layer_free(). */
struct layer *layer_read(const char *path, const char *const *set, size_t set_count, struct diag *diag);
/* The same of a spec that is not on disk yet: `path` is where its text will be. NULL: it is there. */
struct layer *layer_read_text(const char *path, const char *text, const char *const *set, size_t set_count,
                              struct diag *diag);
void layer_free(struct layer *layer);

/* Multiply-adds of the plain layer for one sequence of n queries and m keys. Only the query-key pairs that
 * causal, window and no_self together leave visible are counted, exactly and in closed form or O(n); what
 * padding, bool and additive hide is known only at run time and not subtracted. No folding, no padding to tiles.
 * With a cache m is what queries may look at at the end, cached keys and new ones; n of them are projected.
 * w_k = tied in self-attention has k = 0, since K is Q; of a convolution only taps inside 0 … n-1 count. */
struct layer_cost {
    double q, k, v;      /* projections */
    double scores;       /* Q K^T */
    double values;       /* A V */
    double output;       /* dense or conv */
    double ffn;          /* w_1, w_g and w_2 */
    double down;         /* w_2 alone, a part of that */
    double linear;       /* w */
    double gates, taps;  /* of a recurrent layer: products for decays, corrections and output gates; convolutions */
    double made_k, made_v; /* latent attention: keys and values of heads, in calls that take fewer with them */
    double states;       /* updating and reading the states of a recurrent layer */
    double total;
};
struct layer_cost layer_multiply_adds(const struct layer *layer, int64_t n, int64_t m);

/* W_O_CONV: rows of zeros before the first, and the pairs (t, r) whose t + r - pad is one of 0 … n-1. */
int64_t layer_conv_pad(const struct layer *layer);
int64_t layer_conv_taps(const struct layer *layer, int64_t n);

/* Numbers of what is packed: of each tensor, of all matrices, and in all */
struct layer_parameters {
    int64_t of[TENSOR_COUNT], matrices, total;
};
struct layer_parameters layer_parameters(const struct layer *layer);
/* Bytes of packed numbers: `of_matrices` in weight_type, `others` in f32; of all parameters. Scales of i4's groups
 * count, scales of columns do not. */
double layer_packed_bytes(const struct layer *layer, int64_t of_matrices, int64_t others);
double layer_parameter_bytes(const struct layer *layer);
/* Bytes of a position of the cache, all heads, scales included */
int64_t layer_cached_bytes(const struct layer *layer);
