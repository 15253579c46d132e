/* SPDX-License-Identifier: MIT */
/* Rules across the keys of a spec. */
#include "spec/spec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "spec/rope.h"
#include "spec/score.h"

#define LOG2_E 1.4426950408889634
#define L2_LEAST 0x1p-60

/* Whether d_k or d_v is d_model / h because nothing else says what it is. */
static bool has_narrow_width(const struct spec *spec)
{
    const bool both = is_given(spec, KEY_D_K) && (is_given(spec, KEY_D_V) || is_identity(spec));
    return !is_projected(spec) && !is_wide(spec) && !both;
}

/* The width of a head's queries and keys; 0 where another rule says that there is none. */
static int64_t head_width(const struct spec *spec)
{
    const int64_t d_model = spec->value[KEY_D_MODEL], h = spec->value[KEY_H];
    if (is_given(spec, KEY_D_K))
        return spec->value[KEY_D_K];
    return is_wide(spec) ? d_model : d_model % h == 0 ? d_model / h : 0;
}

/* " 4 or 8": the divisors of `whole` next to `part`. */
static void near_divisors(int64_t whole, int64_t part, char *text, size_t size)
{
    int64_t below = 1, above = whole;
    for (int64_t i = 1; i * i <= whole; i++) {
        if (whole % i != 0)
            continue;
        const int64_t pair[2] = {i, whole / i};
        for (int k = 0; k < 2; k++) {
            below = pair[k] < part && pair[k] > below ? pair[k] : below;
            above = pair[k] > part && pair[k] < above ? pair[k] : above;
        }
    }
    if (part > whole || below == above)
        snprintf(text, size, "%lld", (long long)(part > whole ? whole : below));
    else
        snprintf(text, size, "%lld or %lld", (long long)below, (long long)above);
}

/* ---- keys that say nothing ------------------------------------------------------------------------------- */

/* Whether the layer's kind may have the key; reports it if not. */
static bool has_key(struct spec *spec, enum key key)
{
    const struct key_row *row = &key_rows[key];
    if (spec->bad[KEY_LAYER] || key_is_of(spec, key))
        return true;
    if (row->elsewhere != NULL)
        wrong(spec, key, "%s is given, but %s", row->name, row->elsewhere);
    else
        wrong(spec, key, "%s is given, but layer = %s has no attention; leave it out, or write layer = attention",
              row->name, key_word(KEY_LAYER, spec->value[KEY_LAYER]));
    return false;
}

static void check_kind_keys(struct spec *spec)
{
    for (enum key key = 0; key < KEY_COUNT; key++)
        if (is_given(spec, key) && !has_key(spec, key))
            spec->bad[key] = true; /* nothing more is said of it */
    if (!is_attention(spec) && spec->table_count > 0)
        diag_error(spec->diag, spec->tables[0].place,
                   "%s is given, but only expressions of attention read tables; leave it out", spec->tables[0].key);
}

/* Layers without attention, and those without projections, say it by other keys. */
static const char *idle_reason(const struct spec *spec, enum key key)
{
    if (is_linear(spec) && key == KEY_NORM_EPS)
        return "there is no norm; leave it out, or write norm = layer or rms";
    if (!is_attention(spec) && (key == KEY_NORM_EPS || key == KEY_NORM))
        return "block = none has no norm; leave it out, or write block = pre, post or sandwich";
    return is_projected(spec) && key == KEY_D_SOURCE ? KEY_IS_BROUGHT : key_rows[key].idle;
}

static void check_idle_keys(struct spec *spec)
{
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const bool default_word = key_rows[key].restated &&
                                  (spec->bad[key] || spec->value[key] == (int64_t)key_rows[key].absent);
        const bool refused = spec->bad[key] && !is_attention(spec); /* that is said already */
        if (is_given(spec, key) && !refused && !default_word && !has_meaning(spec, key))
            wrong(spec, key, "%s is given, but %s", key_rows[key].name, idle_reason(spec, key));
    }
}

/* ---- widths ---------------------------------------------------------------------------------------------- */

static void rule_width(struct spec *spec)
{
    const bool both = is_given(spec, KEY_D_K) && is_given(spec, KEY_D_V);
    if (!is_projected(spec) && is_given(spec, KEY_WIDTH) && both && !is_identity(spec))
        wrong(spec, KEY_WIDTH, "width has no meaning where d_k and d_v are both given; leave out width, or one of "
              "them");
}

static void rule_identity(struct spec *spec)
{
    if (is_identity(spec) && is_given(spec, KEY_D_V))
        wrong(spec, KEY_D_V, "d_v is given, but w_v = identity makes it the width of the head's input; leave out d_v");
}

static void rule_h_kv_divides(struct spec *spec)
{
    const int64_t h = spec->value[KEY_H], h_kv = spec->value[KEY_H_KV];
    char near[60];
    if (h % h_kv == 0)
        return;
    near_divisors(h, h_kv, near, sizeof near);
    wrong(spec, KEY_H_KV, "h_kv = %lld does not divide h = %lld; write for example h_kv = %s", (long long)h_kv,
          (long long)h, near);
}

static void rule_h_kv_grouped(struct spec *spec)
{
    const char *cause = is_split(spec) ? "input = split" : is_tied(spec) ? "w_k = tied"
                      : is_identity(spec) ? "w_v = identity" : NULL;
    const int64_t h = spec->value[KEY_H], h_kv = spec->value[KEY_H_KV];
    if (cause != NULL && h_kv < h)
        wrong(spec, KEY_H_KV, "h_kv = %lld is less than h = %lld, but %s gives every head its own keys and values; "
              "leave out h_kv", (long long)h_kv, (long long)h, cause);
}

static void rule_tied(struct spec *spec)
{
    const int64_t d_model = spec->value[KEY_D_MODEL], d_source = spec->value[KEY_D_SOURCE];
    if (is_tied(spec) && is_cross(spec) && d_source != d_model)
        wrong(spec, KEY_D_SOURCE, "d_source = %lld, but w_k = tied projects source with W_Q, which has d_model = %lld "
              "rows; leave out d_source, or write w_k = dense", (long long)d_source, (long long)d_model);
}

static void rule_h_divides_d_model(struct spec *spec)
{
    const int64_t h = spec->value[KEY_H], d_model = spec->value[KEY_D_MODEL];
    const char *cause = is_split(spec) ? "input = split cuts x into h parts"
                      : is_conv(spec) ? "w_o = conv gives each head d_model / h columns of y"
                      : has_narrow_width(spec) ? "width = narrow makes a head d_model / h wide" : NULL;
    const char *other = is_split(spec) || is_conv(spec) ? "" : ", or width = wide, or give d_k and d_v";
    char near[60];
    if (cause == NULL || d_model % h == 0)
        return;
    near_divisors(d_model, h, near, sizeof near);
    wrong(spec, KEY_H, "h = %lld does not divide d_model = %lld, but %s; write h = %s%s", (long long)h,
          (long long)d_model, cause, near, other);
}

static void rule_h_divides_d_source(struct spec *spec)
{
    const int64_t h = spec->value[KEY_H], d_source = spec->value[KEY_D_SOURCE];
    char near[60];
    if (!is_split(spec) || !is_cross(spec) || !is_given(spec, KEY_D_SOURCE) || d_source % h == 0)
        return;
    near_divisors(d_source, h, near, sizeof near);
    wrong(spec, KEY_D_SOURCE, "h = %lld does not divide d_source = %lld, but input = split cuts source into h parts; "
          "write a multiple of h, or h = %s", (long long)h, (long long)d_source, near);
}

/* ---- masks ----------------------------------------------------------------------------------------------- */

static void rule_window(struct spec *spec)
{
    if (has_window(spec) && spec->value[KEY_WINDOW_LEFT] == LAYER_UNBOUNDED &&
        spec->value[KEY_WINDOW_RIGHT] == LAYER_UNBOUNDED)
        wrong(spec, KEY_MASK, "the mask has a window that is bounded on neither side; give window_left, window_right "
              "or both");
}

static void rule_prefix(struct spec *spec)
{
    if (has_mask(spec, MASK_PREFIX) && !has_mask(spec, MASK_CAUSAL))
        wrong(spec, KEY_MASK, "mask has prefix, which lifts causal, but no causal; write causal+prefix, or leave out "
              "prefix");
}

static void rule_pad_rows(struct spec *spec)
{
    if (spec->value[KEY_PAD_ROWS] == 0)
        return;
    if (is_projected(spec) || is_cross(spec))
        wrong(spec, KEY_PAD_ROWS, "pad_rows = skipped, but only in self-attention are lengths those of the queries "
              "too; write pad_rows = computed");
    else if (!has_mask(spec, MASK_PADDING))
        wrong(spec, KEY_PAD_ROWS, "pad_rows = skipped, but the mask has no padding, so there are no such rows; add "
              "padding to the mask, or write pad_rows = computed");
}

/* ---- cache ----------------------------------------------------------------------------------------------- */

static void rule_cache(struct spec *spec)
{
    if (!is_cached(spec))
        return;
    if (is_cross(spec))
        wrong(spec, KEY_CACHE, "a cache holds keys of the queries' own sequence, but attention = cross has another "
              "one; leave out cache, or write attention = self");
    if (is_conv(spec))
        wrong(spec, KEY_W_O, "w_o = conv reads what attention made of earlier tokens, which a cache does not hold; "
              "write w_o = dense or none");
    if (has_mask(spec, MASK_SEGMENTS))
        wrong(spec, KEY_MASK, "the mask has segments, and a cache does not hold those of earlier tokens; leave out "
              "segments");
    if (is_given(spec, KEY_SOURCE_LEN))
        wrong(spec, KEY_SOURCE_LEN, "source_len is given, but keys are those of the cache; leave it out: cache_len is "
              "their limit");
    if (is_given(spec, KEY_OFFSET) && spec->value[KEY_OFFSET] != OFFSET_PAST)
        wrong(spec, KEY_OFFSET, "the first query of a call with a cache comes after what the cache holds; leave out "
              "offset, or write offset = past");
}

static void rule_cache_len(struct spec *spec)
{
    const int64_t rows = spec->value[KEY_CACHE_LEN], n = spec->value[KEY_SEQ_LEN];
    if (is_cached(spec) && rows < n)
        wrong(spec, KEY_CACHE_LEN, "cache_len = %lld does not hold the seq_len = %lld tokens of one call; write at "
              "least %lld", (long long)rows, (long long)n, (long long)n);
}

/* A call must not overwrite rows of the ring that it still reads. */
static void rule_ring(struct spec *spec)
{
    const int64_t rows = spec->value[KEY_CACHE_LEN], left = spec->value[KEY_WINDOW_LEFT];
    const int64_t needed = spec->value[KEY_SEQ_LEN] + left;
    if (spec->value[KEY_CACHE] != CACHE_RING)
        return;
    if (!has_mask(spec, MASK_WINDOW) || left == LAYER_UNBOUNDED)
        wrong(spec, KEY_CACHE, "cache = ring forgets old keys, so the mask needs a window with a left bound; add "
              "window to the mask and give window_left, or write cache = rows");
    else if (needed > rows)
        wrong(spec, KEY_CACHE_LEN, "cache_len = %lld is less than seq_len + window_left = %lld, so a call would "
              "overwrite keys that it reads; write at least that", (long long)rows, (long long)needed);
    if (has_mask(spec, MASK_BOOL) || has_mask(spec, MASK_ADDITIVE))
        wrong(spec, KEY_MASK, "mask tensors have a column for each position, and a ring has no last position; leave "
              "out bool and additive, or write cache = rows");
    if (spec->value[KEY_SCORES] != SCORES_NONE)
        wrong(spec, KEY_SCORES, "attn has a column for each position, and a ring has no last position; leave out "
              "scores, or write cache = rows");
}

/* ---- rotation -------------------------------------------------------------------------------------------- */

static void rule_rope_cross(struct spec *spec)
{
    if (has_rope(spec) && is_cross(spec))
        wrong(spec, KEY_ROPE, "rope rotates by distances within one sequence, but attention = cross has two; leave out "
              "rope, or write attention = self");
}

static void rule_rope_dims(struct spec *spec)
{
    const int64_t width = head_width(spec), dims = spec->value[KEY_ROPE_DIMS];
    if (!has_rope(spec) || width == 0)
        return;
    if (!is_given(spec, KEY_ROPE_DIMS)) {
        if (width % 2 != 0)
            wrong(spec, KEY_ROPE, "rope rotates pairs of columns, but d_k = %lld is odd; write an even d_k, or "
                  "rope_dims for an even number of them", (long long)width);
    } else if (dims > width) {
        wrong(spec, KEY_ROPE_DIMS, "rope_dims = %lld is more than d_k = %lld columns; write an even number up to d_k",
              (long long)dims, (long long)width);
    } else if (dims % 2 != 0) {
        wrong(spec, KEY_ROPE_DIMS, "rope_dims = %lld is odd, but rope rotates pairs of columns; write for example "
              "rope_dims = %lld", (long long)dims, (long long)(dims < width ? dims + 1 : dims > 1 ? dims - 1 : 2));
    }
}

#define OF_LINEAR_SCALING (1u << SCALING_LINEAR)
#define OF_LLAMA3 (1u << SCALING_LLAMA3)
#define OF_YARN (1u << SCALING_YARN)

/* Which scalings have the key, and whether they have no default for it. */
static const struct scaling_number {
    enum key key;
    unsigned of;
    bool required;
    const char *example;
} scaling_numbers[] = {
    {KEY_ROPE_FACTOR, OF_LINEAR_SCALING | OF_LLAMA3 | OF_YARN, true, "rope_scaling = linear, llama3 or yarn"},
    {KEY_ROPE_ORIGINAL_LEN, OF_LLAMA3 | OF_YARN, true, "rope_scaling = llama3 or yarn"},
    {KEY_ROPE_LOW, OF_LLAMA3, false, "rope_scaling = llama3"},
    {KEY_ROPE_HIGH, OF_LLAMA3, false, "rope_scaling = llama3"},
    {KEY_ROPE_BETA_FAST, OF_YARN, false, "rope_scaling = yarn"},
    {KEY_ROPE_BETA_SLOW, OF_YARN, false, "rope_scaling = yarn"},
    {KEY_ROPE_TRUNCATE, OF_YARN, false, "rope_scaling = yarn"},
    {KEY_ROPE_ATTENTION_FACTOR, OF_YARN, false, "rope_scaling = yarn"},
};

static void rule_rope_scaling(struct spec *spec)
{
    const unsigned scaling = 1u << spec->value[KEY_ROPE_SCALING];
    const char *word = key_word(KEY_ROPE_SCALING, spec->value[KEY_ROPE_SCALING]);
    if (!has_rope(spec))
        return;
    for (const struct scaling_number *n = scaling_numbers; n < scaling_numbers + COUNT_OF(scaling_numbers); n++) {
        const char *key = key_rows[n->key].name;
        if (is_given(spec, n->key) && (n->of & scaling) == 0)
            diag_error(spec->diag, place_of(spec, n->key),
                       "%s is given, but rope_scaling = %s does not use it; leave it out, or write %s", key, word,
                       n->example);
        else if (!is_given(spec, n->key) && n->required && (n->of & scaling) != 0)
            wrong(spec, KEY_ROPE_SCALING, "rope_scaling = %s needs %s, which is missing; write for example %s = %d",
                  word, key, key, n->key == KEY_ROPE_FACTOR ? 8 : 8192);
    }
}

static bool has_scaling(const struct spec *spec, enum layer_rope_scaling scaling)
{
    return has_rope(spec) && spec->value[KEY_ROPE_SCALING] == (int64_t)scaling;
}

static void rule_rope_bands(struct spec *spec)
{
    const double low = spec->real[KEY_ROPE_LOW], high = spec->real[KEY_ROPE_HIGH];
    const enum key key = is_given(spec, KEY_ROPE_LOW) ? KEY_ROPE_LOW : KEY_ROPE_HIGH;
    if (has_scaling(spec, SCALING_LLAMA3) && !(low < high))
        wrong(spec, key, "rope_low = %.9g is not below rope_high = %.9g, so no frequency lies between them; write for "
              "example rope_low = 1 and rope_high = 4", low, high);
}

static void rule_rope_yarn_factor(struct spec *spec)
{
    if (has_scaling(spec, SCALING_YARN) && is_given(spec, KEY_ROPE_FACTOR) && spec->real[KEY_ROPE_FACTOR] < 1)
        wrong(spec, KEY_ROPE_FACTOR, "rope_factor = %.9g is below 1, but yarn only lengthens; write a number from 1 on",
              spec->real[KEY_ROPE_FACTOR]);
}

static void rule_rope_yarn_theta(struct spec *spec)
{
    if (has_scaling(spec, SCALING_YARN) && spec->real[KEY_ROPE_THETA] == 1)
        wrong(spec, KEY_ROPE_THETA, "rope_theta = 1 makes all frequencies equal, and yarn divides by its logarithm, 0; "
              "write for example rope_theta = 10000");
}

/* Frequencies so large that nothing is known of the fraction of a turn at the last position. */
static void rule_rope_fast(struct spec *spec)
{
    const double theta = spec->real[KEY_ROPE_THETA], factor = spec->real[KEY_ROPE_FACTOR];
    const double dims = (double)(is_given(spec, KEY_ROPE_DIMS) ? spec->value[KEY_ROPE_DIMS] : head_width(spec));
    const double last = theta < 1 && dims >= 2 ? pow(theta, -(dims - 2) / dims) : 1;
    const double radians = factor < 1 ? last / factor : last;
    if (has_rope(spec) && radians > ROPE_MOST)
        diag_error(spec->diag, place_of(spec, factor < 1 && 1 / factor > last ? KEY_ROPE_FACTOR : KEY_ROPE_THETA),
                   "a pair is turned by %.3g radians a position, and at most %.0f have an exact fraction of a turn; "
                   "choose a larger rope_theta%s", radians, ROPE_MOST, factor < 1 ? " or rope_factor" : "");
}

/* Squares of what is as small as eps must keep their bits in f32, and the scale over eps must be finite. */
static void rule_l2(struct spec *spec)
{
    const enum key of_scale = KEY_SCALE;
    const bool scaled = is_given(spec, of_scale); /* else by 1 at most */
    const double eps = spec->real[KEY_NORM_EPS], scale = scaled ? fabs(spec->real[of_scale]) : 1;
    if (spec->value[KEY_QK_NORM] != NORM_L2)
        return;
    if (eps < L2_LEAST)
        wrong(spec, KEY_NORM_EPS, "norm_eps = %.9g, but under qk_norm = l2 a norm that small has squares below what "
              "f32 holds; write at least 8.7e-19", eps);
    else if (LOG2_E * scale / eps > (double)FLT_MAX)
        diag_error(spec->diag, place_of(spec, scaled ? of_scale : KEY_NORM_EPS),
                   "scale times log2(e) / norm_eps is not finite in f32, but a query of zeros is multiplied by it "
                   "under qk_norm = l2; write a smaller scale or a larger norm_eps");
}

/* ---- score terms ----------------------------------------------------------------------------------------- */

static void rule_buckets(struct spec *spec)
{
    const int64_t buckets = spec->value[KEY_REL_BUCKETS], next = buckets / 4 * 4 + 4;
    if (has_buckets(spec) && buckets % 4 != 0)
        wrong(spec, KEY_REL_BUCKETS, "rel_buckets = %lld is not a multiple of 4, but buckets are halved for both "
              "directions, and for near and far; write for example rel_buckets = %lld", (long long)buckets,
              (long long)next);
}

/* Of N buckets of a direction the first N/2 hold one distance each. */
static void rule_distance(struct spec *spec)
{
    const int64_t buckets = spec->value[KEY_REL_BUCKETS], distance = spec->value[KEY_REL_DISTANCE];
    const int64_t near = buckets / (has_mask(spec, MASK_CAUSAL) ? 2 : 4);
    const enum key key = is_given(spec, KEY_REL_DISTANCE) ? KEY_REL_DISTANCE : KEY_REL_BUCKETS;
    if (has_buckets(spec) && buckets % 4 == 0 && distance <= near)
        wrong(spec, key, "rel_distance = %lld, but %lld buckets with a distance each go as far; write a rel_distance "
              "above %lld, or fewer rel_buckets", (long long)distance, (long long)near, (long long)near);
}

static void rule_table(struct spec *spec)
{
    const int64_t left = spec->value[KEY_REL_LEFT], right = spec->value[KEY_REL_RIGHT], both = left + right + 1;
    if (!has_table(spec))
        return;
    if (!is_given(spec, KEY_REL_LEFT) && !is_given(spec, KEY_REL_RIGHT))
        wrong(spec, KEY_RELATIVE, "relative = table has no sides; give rel_left, rel_right or both, for example "
              "rel_left = 16");
    else if (both > INT32_MAX)
        diag_error(spec->diag, place_of(spec, is_given(spec, KEY_REL_RIGHT) ? KEY_REL_RIGHT : KEY_REL_LEFT),
                   "rel_left + rel_right + 1 = %lld numbers a head are more than 2147483647; write smaller sides",
                   (long long)both);
}

/* ---- the block ------------------------------------------------------------------------------------------- */

static void rule_norm(struct spec *spec)
{
    if (is_block(spec) && spec->value[KEY_NORM] == NORM_NONE)
        wrong(spec, KEY_NORM, "norm = none, but a block has norms; write norm = layer or rms, or block = none");
}

/* ---- layers without attention ---------------------------------------------------------------------------- */

static void rule_row_mask(struct spec *spec)
{
    if ((spec->value[KEY_MASK] & ~(int64_t)MASK_PADDING) != 0)
        wrong(spec, KEY_MASK, "the mask hides keys, but without attention there are none; write mask = none, or "
              "padding with pad_rows = skipped");
}

static void rule_ffn(struct spec *spec)
{
    if (is_linear(spec))
        return;
    if (!is_ffn(spec))
        wrong(spec, KEY_FFN, "layer = ffn without a feed-forward does nothing; write for example ffn = gelu");
    if (spec->value[KEY_BLOCK] == BLOCK_PARALLEL)
        wrong(spec, KEY_BLOCK, "block = parallel adds attention and feed-forward of the same rows, but layer = ffn has "
              "no attention; write block = pre");
}

static void rule_block(struct spec *spec)
{
    if (!is_block(spec))
        return;
    if (is_projected(spec))
        wrong(spec, KEY_BLOCK, "a block adds attention to x, but input = projected has no x; leave out block, or write "
              "input = shared");
    else if (spec->value[KEY_W_O] == W_O_NONE)
        wrong(spec, KEY_W_O, "a block adds attention to x, but w_o = none makes h * d_v columns of it, not d_model; "
              "write w_o = dense, or leave out block");
}

/* ---- types ----------------------------------------------------------------------------------------------- */

static void rule_weight_type(struct spec *spec)
{
    if (is_projected(spec) && spec->value[KEY_W_O] == W_O_NONE && spec->value[KEY_WEIGHT_TYPE] != 0)
        wrong(spec, KEY_WEIGHT_TYPE, "weight_type = %s, but input = projected with w_o = none has no weights; leave it "
              "out", spec->given[KEY_WEIGHT_TYPE].value);
}

static void rule_precision(struct spec *spec)
{
    const int64_t precision = spec->value[KEY_PRECISION];
    const char *const word = spec->given[KEY_PRECISION].value;
    if (precision == PRECISION_F32)
        return;
    if (is_attention(spec) && is_projected(spec) && spec->value[KEY_W_O] == W_O_NONE && precision == PRECISION_BF16)
        diag_error(spec->diag, place_of(spec, KEY_PRECISION), "precision = %s is for products with weights, but "
                   "input = projected with w_o = none has none; write f32, or i16 or i8, which round queries, keys and "
                   "values", word);
    else if (spec->value[KEY_WEIGHT_TYPE] != 0)
        wrong(spec, KEY_WEIGHT_TYPE, "weight_type = %s, but precision = %s packs weights as %s already; leave out "
              "weight_type, or precision for products in f32", spec->given[KEY_WEIGHT_TYPE].value, word, word);
}

/* ---- gradients ------------------------------------------------------------------------------------------- */

static void rule_train(struct spec *spec)
{
    for (enum key key = 0; spec->value[KEY_TRAIN] == 1 && key < KEY_COUNT; key++)
        if (key_rows[key].untrained != NULL && !spec->bad[key] && spec->differs[key] &&
            !(key == KEY_INPUT && is_split(spec)))
            wrong(spec, key, "%s = %s has no gradient yet, and train = true needs one for every key; write %s, or "
                  "leave out train", key_rows[key].name, spec->given[key].value, key_rows[key].untrained);
}

static void rule_dropout(struct spec *spec)
{
    if (spec->real[KEY_DROPOUT] > 0 && spec->value[KEY_TRAIN] != 1)
        wrong(spec, KEY_DROPOUT, "dropout = %.9g is for training only; write train = true, or leave out dropout",
              spec->real[KEY_DROPOUT]);
}

/* ---- all of them ----------------------------------------------------------------------------------------- */

struct rule {
    enum key needs[10]; /* keys that must not be bad; KEY_COUNT ends them */
    void (*check)(struct spec *spec);
};

#define NEEDS(...) {__VA_ARGS__, KEY_COUNT}
static const struct rule row_rules[] = {
    {NEEDS(KEY_PAD_ROWS, KEY_MASK), rule_pad_rows},
    {NEEDS(KEY_MASK), rule_row_mask},
    {NEEDS(KEY_FFN, KEY_BLOCK), rule_ffn},
    {NEEDS(KEY_NORM, KEY_BLOCK), rule_norm},
    {NEEDS(KEY_WEIGHT_TYPE, KEY_PRECISION), rule_precision},
};

static const struct rule rules[] = {
    {NEEDS(KEY_WIDTH, KEY_D_K, KEY_D_V, KEY_W_V), rule_width},
    {NEEDS(KEY_W_V), rule_identity},
    {NEEDS(KEY_MASK, KEY_WINDOW_LEFT, KEY_WINDOW_RIGHT), rule_window},
    {NEEDS(KEY_H, KEY_H_KV), rule_h_kv_divides},
    {NEEDS(KEY_H, KEY_H_KV, KEY_INPUT, KEY_W_K, KEY_W_V), rule_h_kv_grouped},
    {NEEDS(KEY_D_MODEL, KEY_D_SOURCE, KEY_W_K, KEY_ATTENTION, KEY_INPUT), rule_tied},
    {NEEDS(KEY_D_MODEL, KEY_H, KEY_INPUT, KEY_WIDTH, KEY_D_K, KEY_D_V, KEY_W_V, KEY_W_O), rule_h_divides_d_model},
    {NEEDS(KEY_D_SOURCE, KEY_H, KEY_INPUT, KEY_ATTENTION), rule_h_divides_d_source},
    {NEEDS(KEY_MASK), rule_prefix},
    {NEEDS(KEY_PAD_ROWS, KEY_MASK, KEY_ATTENTION, KEY_INPUT), rule_pad_rows},
    {NEEDS(KEY_CACHE, KEY_ATTENTION, KEY_INPUT, KEY_W_O, KEY_MASK, KEY_SOURCE_LEN, KEY_OFFSET), rule_cache},
    {NEEDS(KEY_CACHE, KEY_CACHE_LEN, KEY_SEQ_LEN), rule_cache_len},
    {NEEDS(KEY_CACHE, KEY_CACHE_LEN, KEY_SEQ_LEN, KEY_MASK, KEY_WINDOW_LEFT, KEY_SCORES), rule_ring},
    {NEEDS(KEY_ROPE, KEY_ATTENTION, KEY_INPUT), rule_rope_cross},
    {NEEDS(KEY_ROPE, KEY_ROPE_DIMS, KEY_D_K, KEY_D_MODEL, KEY_H, KEY_WIDTH, KEY_INPUT), rule_rope_dims},
    {NEEDS(KEY_ROPE, KEY_ROPE_SCALING), rule_rope_scaling},
    {NEEDS(KEY_ROPE, KEY_ROPE_SCALING, KEY_ROPE_LOW, KEY_ROPE_HIGH), rule_rope_bands},
    {NEEDS(KEY_ROPE, KEY_ROPE_SCALING, KEY_ROPE_FACTOR), rule_rope_yarn_factor},
    {NEEDS(KEY_ROPE, KEY_ROPE_SCALING, KEY_ROPE_THETA), rule_rope_yarn_theta},
    {NEEDS(KEY_ROPE, KEY_ROPE_THETA, KEY_ROPE_FACTOR, KEY_ROPE_DIMS, KEY_D_K, KEY_D_MODEL, KEY_H, KEY_WIDTH,
           KEY_INPUT),
     rule_rope_fast},
    {NEEDS(KEY_QK_NORM, KEY_NORM_EPS, KEY_SCALE), rule_l2},
    {NEEDS(KEY_BLOCK, KEY_INPUT, KEY_W_O), rule_block},
    {NEEDS(KEY_NORM, KEY_BLOCK), rule_norm},
    {NEEDS(KEY_RELATIVE, KEY_REL_BUCKETS), rule_buckets},
    {NEEDS(KEY_RELATIVE, KEY_REL_BUCKETS, KEY_REL_DISTANCE, KEY_MASK), rule_distance},
    {NEEDS(KEY_RELATIVE, KEY_REL_LEFT, KEY_REL_RIGHT), rule_table},
    {NEEDS(KEY_WEIGHT_TYPE, KEY_INPUT, KEY_W_O), rule_weight_type},
    {NEEDS(KEY_WEIGHT_TYPE, KEY_PRECISION, KEY_INPUT, KEY_W_O), rule_precision},
    {NEEDS(KEY_TRAIN), rule_train},
    {NEEDS(KEY_TRAIN, KEY_DROPOUT), rule_dropout},
};

/* Each rule runs only if the keys that it needs are good, so that one mistake is reported once and independent mistakes
 * are all reported. */
void spec_rules(struct spec *spec)
{
    const bool attends = is_attention(spec);
    const struct rule *const of = attends ? rules : row_rules;
    check_kind_keys(spec);
    check_idle_keys(spec);
    for (size_t i = 0; i < (attends ? COUNT_OF(rules) : COUNT_OF(row_rules)); i++) {
        bool bad = spec->bad[KEY_LAYER];
        for (const enum key *key = of[i].needs; *key != KEY_COUNT; key++)
            bad = bad || spec->bad[*key];
        if (!bad)
            of[i].check(spec);
    }
}
