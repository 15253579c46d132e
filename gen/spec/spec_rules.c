/* SPDX-License-Identifier: MIT */
/* Rules across the keys of a spec: a list of what is wrong, where, and what would be right.
 *
 * A rule that reads a bad value says nothing (spec.h, value_of), so one mistake is reported once, and independent
 * mistakes are all reported.
 */
#include "spec/spec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "spec/rope.h"

#define LOG2_E 1.4426950408889634
#define L2_LEAST 0x1p-60

/* Whether the condition holds, and no bad value was read for it */
static bool holds(struct spec *spec, bool condition)
{
    const bool known = !spec->bad_read;
    spec->bad_read = false;
    return known && condition;
}
/* An error at the key's place where the condition holds */
#define refuse_if(spec, condition, key, ...) ((void)(holds(spec, condition) && wrong(spec, key, __VA_ARGS__)))

/* A value for messages and conditions */
static long long whole(struct spec *spec, enum key key) { return (long long)value_of(spec, key); }

static double real(struct spec *spec, enum key key)
{
    spec->bad_read = spec->bad_read || spec->bad[key];
    return spec->real[key];
}

/* Whether d_k or d_v is d_model / h because nothing else says what it is. */
static bool has_narrow_width(struct spec *spec)
{
    const bool both = is_given(spec, KEY_D_K) && (is_given(spec, KEY_D_V) || is_identity(spec) || shares_keys(spec));
    return !is_projected(spec) && !is_wide(spec) && !both;
}

/* The width of a head's queries and keys; 0 where another rule says that there is none. */
static long long head_width(struct spec *spec)
{
    if (is_given(spec, KEY_D_K))
        return whole(spec, KEY_D_K);
    const long long d_model = whole(spec, KEY_D_MODEL), h = whole(spec, KEY_H);
    return is_wide(spec) ? d_model : d_model % h == 0 ? d_model / h : 0;
}

struct divisors { char text[60]; };

/* "4 or 8": the divisors of `all` next to `part`. */
static struct divisors near_divisors(long long all, long long part)
{
    struct divisors divisors;
    long long below = 1, above = all;
    for (long long i = 1; i * i <= all; i++) {
        if (all % i != 0)
            continue;
        const long long pair[2] = {i, all / i};
        for (int k = 0; k < 2; k++) {
            below = pair[k] < part && pair[k] > below ? pair[k] : below;
            above = pair[k] > part && pair[k] < above ? pair[k] : above;
        }
    }
    if (part > all || below == above)
        snprintf(divisors.text, sizeof divisors.text, "%lld", part > all ? all : below);
    else
        snprintf(divisors.text, sizeof divisors.text, "%lld or %lld", below, above);
    return divisors;
}

/* ---- keys that say nothing ------------------------------------------------------------------------------- */

/* Whether the layer's kind may have the key; reports it if not. */
static bool has_key(struct spec *spec, enum key key)
{
    const struct key_row *row = &key_rows[key];
    if (spec->bad[KEY_LAYER] || key_is_of(spec, key))
        return true;
    if (row->elsewhere != NULL)
        return wrong(spec, key, "%s is given, but %s", row->name, row->elsewhere);
    return wrong(spec, key, "%s is given, but layer = %s %s", row->name, key_word(KEY_LAYER, spec->value[KEY_LAYER]),
                 is_convolution(spec) ? "is a convolution of x alone; leave it out"
                                      : "has no attention; leave it out, or write layer = attention");
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
static const char *idle_reason(struct spec *spec, enum key key)
{
    if (is_linear(spec) && key == KEY_NORM_EPS)
        return "there is no norm; leave it out, or write norm = layer or rms";
    if (!is_attention(spec) && (key == KEY_NORM_EPS || key == KEY_NORM))
        return "block = none has no norm; leave it out, or write block = pre, post, outputs or sandwich";
    return is_projected(spec) && key == KEY_D_SOURCE ? KEY_IS_BROUGHT : key_rows[key].idle;
}

static void check_idle_keys(struct spec *spec)
{
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const bool default_word = key_rows[key].restated && spec->value[key] == (int64_t)key_rows[key].absent;
        if (is_given(spec, key) && !spec->bad[key] && !default_word && !has_meaning(spec, key))
            wrong(spec, key, "%s is given, but %s", key_rows[key].name, idle_reason(spec, key));
    }
}

/* ---- widths and heads ------------------------------------------------------------------------------------ */

static void check_widths(struct spec *spec)
{
    refuse_if(spec, is_given(spec, KEY_D_K) && is_given(spec, KEY_D_V) && is_given(spec, KEY_WIDTH) &&
              !is_projected(spec) && !is_identity(spec), KEY_WIDTH,
              "width has no meaning where d_k and d_v are both given; leave out width, or one of them");
    refuse_if(spec, shares_keys(spec) && head_width(spec) > 0 && whole(spec, KEY_D_V) > head_width(spec), KEY_D_V,
              "d_v = %lld, but w_v = keys takes values from the d_k = %lld columns of a key; write at most that",
              whole(spec, KEY_D_V), head_width(spec));
    refuse_if(spec, shares_keys(spec) && whole(spec, KEY_SOURCE_KEPT) == 1, KEY_SOURCE_KEPT,
              "source_kept = true keeps keys and values apart, but w_v = keys has one of both; leave out source_kept, "
              "or write w_v = dense");
    refuse_if(spec, shares_keys(spec) && whole(spec, KEY_TRAIN) == 1, KEY_W_V,
              "w_v = keys has no gradient yet, and train = true needs one for every key; write dense or identity, or "
              "leave out train");
    refuse_if(spec, is_identity(spec) && is_given(spec, KEY_D_V), KEY_D_V,
              "d_v is given, but w_v = identity makes it the width of the head's input; leave out d_v");
    refuse_if(spec, has_window(spec) && whole(spec, KEY_WINDOW_LEFT) == LAYER_UNBOUNDED &&
              whole(spec, KEY_WINDOW_RIGHT) == LAYER_UNBOUNDED, KEY_MASK,
              "the mask has a window that is bounded on neither side; give window_left, window_right or both");
}

static void check_heads(struct spec *spec)
{
    refuse_if(spec, whole(spec, KEY_H) % whole(spec, KEY_H_KV) != 0, KEY_H_KV,
              "h_kv = %lld does not divide h = %lld; write for example h_kv = %s", whole(spec, KEY_H_KV),
              whole(spec, KEY_H), near_divisors(whole(spec, KEY_H), whole(spec, KEY_H_KV)).text);

    const char *cause = is_split(spec) ? "input = split" : is_tied(spec) ? "w_k = tied"
                      : is_identity(spec) ? "w_v = identity" : NULL;
    refuse_if(spec, cause != NULL && whole(spec, KEY_H_KV) < whole(spec, KEY_H), KEY_H_KV,
              "h_kv = %lld is less than h = %lld, but %s gives every head its own keys and values; leave out h_kv",
              whole(spec, KEY_H_KV), whole(spec, KEY_H), cause);
    refuse_if(spec, is_tied(spec) && is_cross(spec) && whole(spec, KEY_D_SOURCE) != whole(spec, KEY_D_MODEL),
              KEY_D_SOURCE, "d_source = %lld, but w_k = tied projects source with W_Q, which has d_model = %lld rows; "
              "leave out d_source, or write w_k = dense", whole(spec, KEY_D_SOURCE), whole(spec, KEY_D_MODEL));

    cause = is_split(spec) ? "input = split cuts x into h parts"
          : is_conv(spec) ? "w_o = conv gives each head d_model / h columns of y"
          : has_narrow_width(spec) ? "width = narrow makes a head d_model / h wide" : NULL;
    refuse_if(spec, cause != NULL && whole(spec, KEY_D_MODEL) % whole(spec, KEY_H) != 0, KEY_H,
              "h = %lld does not divide d_model = %lld, but %s; write h = %s%s", whole(spec, KEY_H),
              whole(spec, KEY_D_MODEL), cause, near_divisors(whole(spec, KEY_D_MODEL), whole(spec, KEY_H)).text,
              is_split(spec) || is_conv(spec) ? "" : ", or width = wide, or give d_k and d_v");
    refuse_if(spec, is_split(spec) && is_cross(spec) && is_given(spec, KEY_D_SOURCE) &&
              whole(spec, KEY_D_SOURCE) % whole(spec, KEY_H) != 0, KEY_D_SOURCE,
              "h = %lld does not divide d_source = %lld, but input = split cuts source into h parts; write a multiple "
              "of h, or h = %s", whole(spec, KEY_H), whole(spec, KEY_D_SOURCE),
              near_divisors(whole(spec, KEY_D_SOURCE), whole(spec, KEY_H)).text);
}

/* ---- latent attention ------------------------------------------------------------------------------------ */

/* What a layer with kv_rank does not have, and what it needs */
static void check_latent(struct spec *spec)
{
    static const struct {
        enum key key;
        int64_t only; /* the value that is allowed */
        const char *why, *instead;
    } others[] = {
        {KEY_INPUT, INPUT_SHARED, "latents are made of all of x", "input = shared"},
        {KEY_ATTENTION, 0, "keys are made of the queries' own tokens", "attention = self"},
        {KEY_W_K, 0, "kv_rank says what keys are made of", "w_k = dense"},
        {KEY_W_V, W_V_DENSE, "kv_rank says what values are made of", "w_v = dense"},
        {KEY_W_O, W_O_DENSE, "heads' sums go through W_UV, then W_O", "w_o = dense"},
        {KEY_QK_NORM, NORM_NONE, "the latents are normed", "qk_norm = none"},
        {KEY_GATE, GATE_NONE, "gates of latent attention are not there yet", "gate = none"},
        {KEY_PRECISION, PRECISION_F32, "latents are multiplied in f32", "precision = f32"}};
    const int64_t weights = value_of(spec, KEY_WEIGHT_TYPE);
    if (!is_given(spec, KEY_KV_RANK))
        return;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        refuse_if(spec, value_of(spec, others[i].key) != others[i].only, others[i].key,
                  "%s is given beside kv_rank, but %s; write %s", key_rows[others[i].key].name, others[i].why,
                  others[i].instead);
    refuse_if(spec, weights == TENSOR_I8 || weights == TENSOR_I4, KEY_WEIGHT_TYPE,
              "weight_type = %s is given beside kv_rank, but steps sum over numbers of W_UK that have scales of their "
              "own; write weight_type = bf16 or f16", key_word(KEY_WEIGHT_TYPE, weights));
    refuse_if(spec, is_given(spec, KEY_H_KV), KEY_H_KV,
              "h_kv is given beside kv_rank, but all heads share one latent; leave out h_kv");
    refuse_if(spec, !is_given(spec, KEY_ROPE) || !is_given(spec, KEY_ROPE_DIMS), KEY_KV_RANK,
              "kv_rank needs rope and rope_dims, the part of keys that all heads share; write for example rope = half, "
              "or none, and rope_dims = 64");
    refuse_if(spec, head_width(spec) > 0 && whole(spec, KEY_ROPE_DIMS) >= head_width(spec),
              KEY_ROPE_DIMS, "rope_dims = %lld leaves nothing of d_k = %lld for the part that latents are multiplied "
              "with; write a larger d_k, or fewer rope_dims", whole(spec, KEY_ROPE_DIMS), head_width(spec));
}

/* ---- masks ----------------------------------------------------------------------------------------------- */

static void check_masks(struct spec *spec)
{
    refuse_if(spec, is_attention(spec) && has_mask(spec, MASK_PREFIX) && !has_mask(spec, MASK_CAUSAL), KEY_MASK,
              "mask has prefix, which lifts causal, but no causal; write causal+prefix, or leave out prefix");
    refuse_if(spec, whole(spec, KEY_PAD_ROWS) != 0 && is_attention(spec) && (is_projected(spec) || is_cross(spec)),
              KEY_PAD_ROWS, "pad_rows = skipped, but only in self-attention are lengths those of the queries too; "
              "write pad_rows = computed");
    refuse_if(spec, whole(spec, KEY_PAD_ROWS) != 0 && !has_mask(spec, MASK_PADDING) &&
              !(is_attention(spec) && (is_projected(spec) || is_cross(spec))), KEY_PAD_ROWS,
              "pad_rows = skipped, but the mask has no padding, so there are no such rows; add padding to the mask, or "
              "write pad_rows = computed");
}

/* ---- cache ----------------------------------------------------------------------------------------------- */

static void check_cache(struct spec *spec)
{
    refuse_if(spec, is_cached(spec) && is_cross(spec), KEY_CACHE,
              "a cache holds keys of the queries' own sequence, but attention = cross has another one; leave out "
              "cache, or write attention = self");
    refuse_if(spec, is_cached(spec) && is_conv(spec), KEY_W_O,
              "w_o = conv reads what attention made of earlier tokens, which a cache does not hold; write w_o = dense "
              "or none");
    refuse_if(spec, is_cached(spec) && has_mask(spec, MASK_SEGMENTS), KEY_MASK,
              "the mask has segments, and a cache does not hold those of earlier tokens; leave out segments");
    refuse_if(spec, is_cached(spec) && is_given(spec, KEY_SOURCE_LEN), KEY_SOURCE_LEN,
              "source_len is given, but keys are those of the cache; leave it out: cache_len is their limit");
    refuse_if(spec, is_cached(spec) && is_given(spec, KEY_OFFSET) && whole(spec, KEY_OFFSET) != OFFSET_PAST,
              KEY_OFFSET, "the first query of a call with a cache comes after what the cache holds; leave out offset, "
              "or write offset = past");
    refuse_if(spec, is_cached(spec) && whole(spec, KEY_CACHE_LEN) < whole(spec, KEY_SEQ_LEN), KEY_CACHE_LEN,
              "cache_len = %lld does not hold the seq_len = %lld tokens of one call; write at least %lld",
              whole(spec, KEY_CACHE_LEN), whole(spec, KEY_SEQ_LEN), whole(spec, KEY_SEQ_LEN));
}

static bool is_ring(struct spec *spec) { return value_of(spec, KEY_CACHE) == CACHE_RING; }

/* A call must not overwrite rows of the ring that it still reads. */
static void check_ring(struct spec *spec)
{
    refuse_if(spec, is_ring(spec) && (!has_window(spec) || whole(spec, KEY_WINDOW_LEFT) == LAYER_UNBOUNDED), KEY_CACHE,
              "cache = ring forgets old keys, so the mask needs a window with a left bound; add window to the mask and "
              "give window_left, or write cache = rows");
    const long long needed = is_ring(spec) && has_window(spec) && whole(spec, KEY_WINDOW_LEFT) != LAYER_UNBOUNDED
                                 ? whole(spec, KEY_SEQ_LEN) + whole(spec, KEY_WINDOW_LEFT) : 0; /* rows */
    refuse_if(spec, needed > 0 && needed > whole(spec, KEY_CACHE_LEN), KEY_CACHE_LEN,
              "cache_len = %lld is less than seq_len + window_left = %lld, so a call would overwrite keys that it "
              "reads; write at least that", whole(spec, KEY_CACHE_LEN), needed);
    refuse_if(spec, is_ring(spec) && (has_mask(spec, MASK_BOOL) || has_mask(spec, MASK_ADDITIVE)), KEY_MASK,
              "mask tensors have a column for each position, and a ring has no last position; leave out bool and "
              "additive, or write cache = rows");
    refuse_if(spec, is_ring(spec) && whole(spec, KEY_SCORES) != SCORES_NONE, KEY_SCORES,
              "attn has a column for each position, and a ring has no last position; leave out scores, or write cache "
              "= rows");
}

/* ---- rotation -------------------------------------------------------------------------------------------- */

static void check_rope_width(struct spec *spec)
{
    refuse_if(spec, has_rope(spec) && is_cross(spec), KEY_ROPE,
              "rope rotates by distances within one sequence, but attention = cross has two; leave out rope, or write "
              "attention = self");

    const long long width = has_rope(spec) ? head_width(spec) : 0, dims = whole(spec, KEY_ROPE_DIMS);
    if (!holds(spec, width != 0))
        return;
    if (!is_given(spec, KEY_ROPE_DIMS) && width % 2 != 0)
        wrong(spec, KEY_ROPE, "rope rotates pairs of columns, but d_k = %lld is odd; write an even d_k, or rope_dims "
              "for an even number of them", width);
    else if (dims > width)
        wrong(spec, KEY_ROPE_DIMS, "rope_dims = %lld is more than d_k = %lld columns; write an even number up to d_k",
              dims, width);
    else if (dims % 2 != 0)
        wrong(spec, KEY_ROPE_DIMS, "rope_dims = %lld is odd, but rope rotates pairs of columns; write for example "
              "rope_dims = %lld", dims, dims < width ? dims + 1 : dims > 1 ? dims - 1 : 2);
}

/* "linear, llama3 or yarn": the scalings that use a key */
static void list_scalings(unsigned scalings, char text[60])
{
    size_t used = 0;
    for (int64_t s = SCALING_LINEAR; s <= SCALING_LONGROPE; s++)
        if ((scalings >> s & 1u) != 0)
            used += (size_t)snprintf(text + used, 60 - used, "%s%s", used == 0 ? "" : scalings >> s == 1 ? " or "
                                     : ", ", key_word(KEY_ROPE_SCALING, s));
}

/* A number that the scaling cannot do without: one for a message; NULL: it can. */
static const char *needed_number(const struct spec *spec, enum key key)
{
    if (key == KEY_ROPE_FACTORS)
        return "1, 1.25";
    const bool one_list = spec->value[KEY_ROPE_SCALING] == SCALING_LONGROPE && !is_given(spec, KEY_ROPE_LONG_FACTORS);
    return key == KEY_ROPE_FACTOR ? "8" : key == KEY_ROPE_ORIGINAL_LEN && !one_list ? "8192" : NULL;
}

static void check_scaling_keys(struct spec *spec)
{
    const int64_t scaling = value_of(spec, KEY_ROPE_SCALING);
    if (!holds(spec, has_rope(spec)))
        return;
    const char *word = key_word(KEY_ROPE_SCALING, scaling);
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const struct key_row *row = &key_rows[key];
        const bool used = (row->scalings >> scaling & 1u) != 0;
        const char *const number = needed_number(spec, key);
        char scalings[60];
        list_scalings(row->scalings, scalings);
        if (is_given(spec, key) && row->scalings != 0 && !used)
            wrong(spec, key, "%s is given, but rope_scaling = %s does not use it; leave it out, or write "
                  "rope_scaling = %s", row->name, word, scalings);
        else if (!is_given(spec, key) && used && number != NULL)
            wrong(spec, KEY_ROPE_SCALING, "rope_scaling = %s needs %s, which is missing; write for example %s = %s",
                  word, row->name, row->name, number);
    }
}

/* One for each pair of columns */
static void check_factors(struct spec *spec)
{
    const long long dims = is_given(spec, KEY_ROPE_DIMS) ? whole(spec, KEY_ROPE_DIMS)
                         : has_rope(spec) ? head_width(spec) : 0;
    for (enum key key = KEY_ROPE_FACTORS; key <= KEY_ROPE_LONG_FACTORS; key++)
        refuse_if(spec, has_rope(spec) && is_given(spec, key) && dims % 2 == 0 && whole(spec, key) != dims / 2, key,
                  "%s has %lld numbers for the %lld pairs of columns that are rotated; write as many",
                  key_rows[key].name, whole(spec, key), dims / 2);
}

static bool has_scaling(struct spec *spec, enum layer_rope_scaling scaling)
{
    return has_rope(spec) && value_of(spec, KEY_ROPE_SCALING) == (int64_t)scaling;
}

/* Sections are whole numbers of pairs, and together all of them; where axes take turns, none goes past the last. */
static void check_sections(struct spec *spec)
{
    const enum key key = KEY_ROPE_SECTIONS;
    const long long axes = is_given(spec, key) && !spec->bad[key] ? (long long)spec->value[key] : 0;
    const bool mixed = axes > 0 && value_of(spec, KEY_ROPE_SECTION_ORDER) != 0;
    const char *at = axes > 0 ? spec->given[key].value : NULL;
    const double pairs = (double)(is_given(spec, KEY_ROPE_DIMS) ? whole(spec, KEY_ROPE_DIMS) : head_width(spec)) / 2;
    bool fit = true, counts = true;
    double all = 0, section;
    refuse_if(spec, axes == 1 || axes > LAYER_AXES, key,
              "rope_sections has %lld numbers, one for each axis; write 2 to %d, as in 16, 24, 24", axes, LAYER_AXES);
    for (int64_t axis = 0; at != NULL && spec_next(&at, &section); axis++) {
        counts = counts && section == floor(section);
        fit = fit && (axis == 0 || (section - 1) * (double)axes + (double)axis < pairs);
        all += section;
    }
    refuse_if(spec, !counts, key, "rope_sections are numbers of pairs of columns; write whole numbers");
    refuse_if(spec, axes > 0 && counts && all != pairs, key,
              "rope_sections are %.0f pairs of columns, but %.0f are turned; write sections whose sum is that", all,
              pairs);
    refuse_if(spec, mixed && counts && all == pairs && !fit, key,
              "a section of axes that take turns goes past the last of %.0f pairs; write smaller ones behind the first",
              pairs);
}

static void check_scalings(struct spec *spec)
{
    refuse_if(spec, has_scaling(spec, SCALING_LLAMA3) && !(real(spec, KEY_ROPE_LOW) < real(spec, KEY_ROPE_HIGH)),
              is_given(spec, KEY_ROPE_LOW) ? KEY_ROPE_LOW : KEY_ROPE_HIGH,
              "rope_low = %.9g is not below rope_high = %.9g, so no frequency lies between them; write for example "
              "rope_low = 1 and rope_high = 4", spec->real[KEY_ROPE_LOW], spec->real[KEY_ROPE_HIGH]);
    refuse_if(spec, has_scaling(spec, SCALING_YARN) && is_given(spec, KEY_ROPE_FACTOR) &&
              real(spec, KEY_ROPE_FACTOR) < 1, KEY_ROPE_FACTOR,
              "rope_factor = %.9g is below 1, but yarn only lengthens; write a number from 1 on",
              spec->real[KEY_ROPE_FACTOR]);
    refuse_if(spec, has_scaling(spec, SCALING_YARN) && real(spec, KEY_ROPE_THETA) == 1, KEY_ROPE_THETA,
              "rope_theta = 1 makes all frequencies equal, and yarn divides by its logarithm, 0; write for example "
              "rope_theta = 10000");
}

/* Frequencies so large that nothing is known of the fraction of a turn at the last position. */
static void check_frequencies(struct spec *spec)
{
    if (!holds(spec, has_rope(spec)))
        return;
    double factor = real(spec, KEY_ROPE_FACTOR);
    for (enum key key = KEY_ROPE_FACTORS; key <= KEY_ROPE_LONG_FACTORS; key++)
        factor = is_given(spec, key) ? fmin(factor, real(spec, key)) : factor;
    const double theta = real(spec, KEY_ROPE_THETA);
    const double dims = (double)(is_given(spec, KEY_ROPE_DIMS) ? whole(spec, KEY_ROPE_DIMS) : head_width(spec));
    const double last = theta < 1 && dims >= 2 ? pow(theta, -(dims - 2) / dims) : 1;
    const double radians = factor < 1 ? last / factor : last;
    refuse_if(spec, radians > ROPE_MOST, factor >= 1 || 1 / factor <= last ? KEY_ROPE_THETA
              : is_given(spec, KEY_ROPE_FACTORS) ? KEY_ROPE_FACTORS : KEY_ROPE_FACTOR,
              "a pair is turned by %.3g radians a position, and at most %.0f have an exact fraction of a turn; choose "
              "a larger rope_theta%s", radians, ROPE_MOST,
              factor >= 1 ? "" : is_given(spec, KEY_ROPE_FACTORS) ? " or larger rope_factors" : " or rope_factor");
}

/* Squares of what is as small as eps must keep their bits in f32, and the scale over eps must be finite. */
static void check_l2(struct spec *spec)
{
    refuse_if(spec, value_of(spec, KEY_QK_NORM) == NORM_L2_SUM, KEY_QK_NORM,
              "qk_norm = l2_sum is of layer = recurrent; write qk_norm = l2");
    const bool l2 = value_of(spec, KEY_QK_NORM) == NORM_L2, scaled = is_given(spec, KEY_SCALE); /* else by at most 1 */
    const double scale = scaled ? fabs(real(spec, KEY_SCALE)) : 1, eps = real(spec, KEY_QK_NORM_EPS);
    const enum key key = is_given(spec, KEY_QK_NORM_EPS) ? KEY_QK_NORM_EPS : KEY_NORM_EPS;
    if (!holds(spec, l2))
        return;
    if (eps < L2_LEAST)
        wrong(spec, key, "%s = %.9g, but under qk_norm = l2 a norm that small has squares below what f32 holds; write "
              "at least 8.7e-19", key_rows[key].name, eps);
    else if (LOG2_E * scale / eps > (double)FLT_MAX)
        wrong(spec, scaled ? KEY_SCALE : key, "scale times log2(e) / %s is not finite in f32, but a query of zeros is "
              "multiplied by it under qk_norm = l2; write a smaller scale or a larger %s", key_rows[key].name,
              key_rows[key].name);
}

/* ---- the block, and layers without attention ------------------------------------------------------------- */

static void check_block(struct spec *spec)
{
    refuse_if(spec, is_block(spec) && is_projected(spec), KEY_BLOCK,
              "a block adds attention to x, but input = projected has no x; leave out block, or write input = shared");
    refuse_if(spec, is_block(spec) && is_attention(spec) && !is_projected(spec) && whole(spec, KEY_W_O) == W_O_NONE,
              KEY_W_O,
              "a block adds attention to x, but w_o = none makes h * d_v columns of it, not d_model; write w_o = "
              "dense, or leave out block");
}

static void check_gate(struct spec *spec)
{
    const bool gated = value_of(spec, KEY_GATE) != GATE_NONE;
    refuse_if(spec, gated && is_split(spec), KEY_INPUT,
              "input = split gives each head columns of x, but gates are made of all; write input = shared, or leave "
              "out gate");
    refuse_if(spec, gated && whole(spec, KEY_W_O) == W_O_NONE, KEY_W_O,
              "gates are multiplied into what W_O reads, but w_o = none has no W_O; write w_o = dense or conv, or "
              "leave out gate");
}

static void check_norm(struct spec *spec)
{
    refuse_if(spec, is_block(spec) && whole(spec, KEY_NORM) == NORM_NONE, KEY_NORM,
              "norm = none, but a block has norms; write norm = layer or rms, or block = none");
}

static void check_ffn(struct spec *spec)
{
    refuse_if(spec, LOG2_E * real(spec, KEY_FFN_ALPHA) > (double)FLT_MAX, KEY_FFN_ALPHA,
              "ffn_alpha = %.9g times log2(e), which gates are multiplied by, is not finite in f32; write at most "
              "2.35e38", spec->real[KEY_FFN_ALPHA]);
}

static void check_rows(struct spec *spec)
{
    refuse_if(spec, (value_of(spec, KEY_MASK) & ~(int64_t)MASK_PADDING) != 0, KEY_MASK,
              "the mask hides keys, but without attention there are none; write mask = none, or padding with pad_rows "
              "= skipped");
    refuse_if(spec, !is_linear(spec) && !is_ffn(spec), KEY_FFN,
              "layer = ffn without a feed-forward does nothing; write for example ffn = gelu");
    refuse_if(spec, !is_linear(spec) && whole(spec, KEY_BLOCK) == BLOCK_PARALLEL, KEY_BLOCK,
              "block = parallel adds attention and feed-forward of the same rows, but layer = ffn has no attention; "
              "write block = pre");
}

/* ---- layers with a state --------------------------------------------------------------------------------- */

/* Of all that remember earlier tokens */
static void check_states(struct spec *spec)
{
    const int64_t type = value_of(spec, KEY_CACHE_TYPE);
    refuse_if(spec, type != TENSOR_F32 && type != TENSOR_BF16, KEY_CACHE_TYPE,
              "cache_type = %s, but states are f32 or bf16; write one of these", key_word(KEY_CACHE_TYPE, type));
    refuse_if(spec, (value_of(spec, KEY_MASK) & ~(int64_t)MASK_PADDING) != 0, KEY_MASK,
              "a mask hides keys, and a layer with a state has none; write mask = none, or padding with pad_rows = "
              "skipped");
    refuse_if(spec, has_mask(spec, MASK_PADDING) && whole(spec, KEY_PAD_ROWS) == 0, KEY_PAD_ROWS,
              "tokens of padding leave the state as it is and have no output; write pad_rows = skipped");
    refuse_if(spec, !has_mask(spec, MASK_PADDING) && whole(spec, KEY_PAD_ROWS) != 0, KEY_PAD_ROWS,
              "pad_rows = skipped, but the mask has no padding, so there are no such rows; add padding to the mask, or "
              "write pad_rows = computed");
}

static void check_convolution(struct spec *spec)
{
    refuse_if(spec, is_given(spec, KEY_CONV_TAPS) && whole(spec, KEY_CONV_TAPS) == 0, KEY_CONV_TAPS,
              "conv_taps = 0 makes no sum; write 1 or more, for example conv_taps = 4");
    const int64_t activation = value_of(spec, KEY_ACTIVATION);
    refuse_if(spec, activation != ACTIVATION_NONE && activation != ACTIVATION_SILU, KEY_ACTIVATION,
              "activation = %s, but behind a convolution stands silu or none; write one of these",
              key_word(KEY_ACTIVATION, activation));
}

static void check_recurrent(struct spec *spec)
{
    refuse_if(spec, is_split(spec), KEY_INPUT,
              "input = split gives each head columns of x, and states share keys; write input = shared or projected");
    const int64_t norm = value_of(spec, KEY_QK_NORM);
    refuse_if(spec, norm != NORM_NONE && norm != NORM_L2_SUM, KEY_QK_NORM,
              "qk_norm = %s, but keys of a state are of length 1; write qk_norm = l2_sum or none",
              key_word(KEY_QK_NORM, norm));
    refuse_if(spec, norm != NORM_NONE && is_projected(spec), KEY_QK_NORM,
              "qk_norm = %s, but " KEY_IS_BROUGHT, key_word(KEY_QK_NORM, norm));
    refuse_if(spec, is_block(spec) && whole(spec, KEY_BLOCK) == BLOCK_PARALLEL, KEY_BLOCK,
              "block = parallel is for attention; write block = pre, post or sandwich");
    const bool values = whole(spec, KEY_DT_VALUES) == 1;
    refuse_if(spec, values && value_of(spec, KEY_RULE) != RULE_GATED, KEY_DT_VALUES,
              "dt_values = true, but rule = %s multiplies by beta; write rule = gated, or leave out dt_values",
              key_word(KEY_RULE, value_of(spec, KEY_RULE)));
    refuse_if(spec, values && value_of(spec, KEY_DECAY) == DECAY_COLUMN, KEY_DT_VALUES,
              "dt_values = true, but with decay = column a head has a dt for each column of its keys; write decay = "
              "head");
    refuse_if(spec, real(spec, KEY_DT_MAX) > 0 && real(spec, KEY_DT_MIN) > real(spec, KEY_DT_MAX), KEY_DT_MIN,
              "dt_min = %.9g is above dt_max = %.9g; write a smaller dt_min", real(spec, KEY_DT_MIN),
              real(spec, KEY_DT_MAX));
    const long long h = whole(spec, KEY_H), h_kv = whole(spec, KEY_H_KV), h_v = whole(spec, KEY_H_V);
    const long long d_v = is_given(spec, KEY_D_V) ? whole(spec, KEY_D_V) : whole(spec, KEY_D_K);
    const long long groups = whole(spec, KEY_OUT_NORM_GROUPS), columns = (h > h_v ? h : h_v) * d_v;
    refuse_if(spec, groups > 0 && columns % groups != 0, KEY_OUT_NORM_GROUPS,
              "out_norm_groups = %lld does not divide the %lld columns of outputs; write for example "
              "out_norm_groups = 1", groups, columns);
    refuse_if(spec, h_v % h_kv != 0, KEY_H_V,
              "h_v = %lld is not a multiple of h_kv = %lld, but states share keys in equal parts; write for example "
              "h_v = %lld", h_v, h_kv, (h_v / h_kv + 1) * h_kv);
    refuse_if(spec, h % h_v != 0 && h_v % h != 0, KEY_H_V,
              "neither of h_v = %lld and h = %lld divides the other, but queries share states, or states queries, in "
              "equal parts; write for example h_v = %lld", h_v, h, h);
}

/* ---- score terms ----------------------------------------------------------------------------------------- */

/* Of N buckets of a direction the first N/2 hold one distance each. */
static void check_buckets(struct spec *spec)
{
    refuse_if(spec, has_t5(spec) && whole(spec, KEY_REL_BUCKETS) % 4 != 0, KEY_REL_BUCKETS,
              "rel_buckets = %lld is not a multiple of 4, but buckets are halved for both directions, and for near and "
              "far; write for example rel_buckets = %lld", whole(spec, KEY_REL_BUCKETS),
              whole(spec, KEY_REL_BUCKETS) / 4 * 4 + 4);

    const long long near = whole(spec, KEY_REL_BUCKETS) / (has_mask(spec, MASK_CAUSAL) ? 2 : 4);
    refuse_if(spec, has_t5(spec) && whole(spec, KEY_REL_BUCKETS) % 4 == 0 &&
              whole(spec, KEY_REL_DISTANCE) <= near,
              is_given(spec, KEY_REL_DISTANCE) ? KEY_REL_DISTANCE : KEY_REL_BUCKETS,
              "rel_distance = %lld, but %lld buckets with a distance each go as far; write a rel_distance above %lld, "
              "or fewer rel_buckets", whole(spec, KEY_REL_DISTANCE), near, near);
}

static void check_table(struct spec *spec)
{
    const bool sides = is_given(spec, KEY_REL_LEFT) || is_given(spec, KEY_REL_RIGHT);
    const enum key of = !has_vectors(spec) ? KEY_RELATIVE : is_given(spec, KEY_REL_KEYS) ? KEY_REL_KEYS
                                                                                         : KEY_REL_QUERIES;
    refuse_if(spec, has_table(spec) && !sides, of,
              "%s = %s has no sides; give rel_left, rel_right or both, for example rel_left = 16", key_rows[of].name,
              spec->given[of].value);
    const long long both = whole(spec, KEY_REL_LEFT) + whole(spec, KEY_REL_RIGHT) + 1;
    refuse_if(spec, has_table(spec) && both > INT32_MAX, is_given(spec, KEY_REL_RIGHT) ? KEY_REL_RIGHT : KEY_REL_LEFT,
              "rel_left + rel_right + 1 = %lld numbers a head are more than 2147483647; write smaller sides", both);
}

/* Vectors are multiplied by queries and keys in f32, of a call's own tokens. */
static void check_vectors(struct spec *spec)
{
    static const struct {
        enum key key;
        int64_t only; /* the value that is allowed */
        const char *why, *instead;
    } others[] = {
        {KEY_RELATIVE, RELATIVE_NONE, "rel_left, rel_right and rel_buckets are of one of them", "relative = none"},
        {KEY_CACHE, CACHE_NONE, "vectors for keys of a cache are not there yet", "cache = none"},
        {KEY_EXACT, false, "sums with vectors have no order of their own yet", "exact = bound"}};
    const int64_t precision = value_of(spec, KEY_PRECISION);
    const long long buckets = whole(spec, KEY_REL_BUCKETS);
    if (!has_vectors(spec))
        return;
    const enum key of = value_of(spec, KEY_REL_KEYS) != VECTORS_NONE ? KEY_REL_KEYS : KEY_REL_QUERIES;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        refuse_if(spec, value_of(spec, others[i].key) != others[i].only, others[i].key,
                  "%s is given beside %s, but %s; write %s, or leave out %s", key_rows[others[i].key].name,
                  key_rows[of].name, others[i].why, others[i].instead, key_rows[of].name);
    refuse_if(spec, is_given(spec, KEY_KV_RANK), KEY_KV_RANK,
              "kv_rank is given beside %s, but latents have no keys of heads to multiply; leave out one of them",
              key_rows[of].name);
    refuse_if(spec, precision == PRECISION_I8 || precision == PRECISION_I16, KEY_PRECISION,
              "precision = %s is given beside %s, but vectors are multiplied in f32; write precision = f32 or bf16",
              key_word(KEY_PRECISION, precision), key_rows[of].name);
    refuse_if(spec, has_log_rows(spec) && buckets < 4, KEY_REL_BUCKETS,
              "rel_buckets = %lld, but under rel_rows = log half of them have one distance each, and the others grow; "
              "write 4 or more", buckets);
    refuse_if(spec, has_log_rows(spec) && buckets >= 4 && whole(spec, KEY_REL_DISTANCE) < buckets / 2 + 2,
              is_given(spec, KEY_REL_DISTANCE) ? KEY_REL_DISTANCE : KEY_REL_BUCKETS,
              "rel_distance = %lld, but buckets with a distance each go to %lld; write a rel_distance of %lld or more, "
              "or fewer rel_buckets", whole(spec, KEY_REL_DISTANCE), buckets / 2, buckets / 2 + 2);
    refuse_if(spec, has_log_rows(spec) && buckets > INT32_MAX / 4, KEY_REL_BUCKETS,
              "rel_buckets = %lld vectors of a sign are more than 536870911; write fewer", buckets);
}

/* ---- types and gradients --------------------------------------------------------------------------------- */

static bool has_no_weights(struct spec *spec)
{
    return is_projected(spec) && (is_recurrent(spec) || (is_attention(spec) && value_of(spec, KEY_W_O) == W_O_NONE));
}

static void check_types(struct spec *spec)
{
    const char *const type = spec->given[KEY_WEIGHT_TYPE].value, *const word = spec->given[KEY_PRECISION].value;
    refuse_if(spec, value_of(spec, KEY_WEIGHT_TYPE) != TENSOR_F32 && has_no_weights(spec), KEY_WEIGHT_TYPE,
              "weight_type = %s, but input = projected with w_o = none has no weights; leave it out", type);
    refuse_if(spec, value_of(spec, KEY_PRECISION) == PRECISION_BF16 && has_no_weights(spec), KEY_PRECISION,
              "precision = %s is for products with weights, but input = projected with w_o = none has none; write f32, "
              "or i16 or i8, which round queries, keys and values", word);
    refuse_if(spec, value_of(spec, KEY_PRECISION) != PRECISION_F32 && value_of(spec, KEY_WEIGHT_TYPE) != TENSOR_F32 &&
              !(value_of(spec, KEY_PRECISION) == PRECISION_BF16 && has_no_weights(spec)), KEY_WEIGHT_TYPE,
              "weight_type = %s, but precision = %s packs weights as %s already; leave out weight_type, or precision "
              "for products in f32", type, word, word);
}

static void check_training(struct spec *spec)
{
    for (enum key key = 0; spec->value[KEY_TRAIN] == 1 && key < KEY_COUNT; key++)
        if (key_rows[key].untrained != NULL && !spec->bad[key] && spec->differs[key] &&
            !(key == KEY_INPUT && is_split(spec)))
            wrong(spec, key, "%s = %s has no gradient yet, and train = true needs one for every key; write %s, or "
                  "leave out train", key_rows[key].name, spec->given[key].value, key_rows[key].untrained);
    spec->bad_read = false;
    refuse_if(spec, real(spec, KEY_DROPOUT) > 0 && whole(spec, KEY_TRAIN) != 1, KEY_DROPOUT,
              "dropout = %.9g is for training only; write train = true, or leave out dropout", spec->real[KEY_DROPOUT]);
}

/* Sums of every step need one order on all sets. */
static void check_portable(struct spec *spec)
{
    const bool portable = whole(spec, KEY_EXACT) == 1;
    refuse_if(spec, portable && value_of(spec, KEY_PRECISION) == PRECISION_BF16, KEY_PRECISION,
              "precision = bf16 adds two products in the order that a set's instructions have, and exact = portable "
              "needs one; write precision = i16 or i8, or weight_type = bf16");
    const int64_t shown = value_of(spec, KEY_SCORES);
    refuse_if(spec, portable && (shown == SCORES_RAW || shown == SCORES_CAPPED), KEY_SCORES,
              "scores = %s shows scores of keys that a query does not see, as far as a set computes them, and exact = "
              "portable needs the same bits; write scores = weights or biased, or leave out exact",
              key_word(KEY_SCORES, shown));
    spec->bad_read = false;
}

/* ---- all of them ----------------------------------------------------------------------------------------- */

#define ROW_RULES {check_masks, check_rows, check_norm, check_ffn, check_types}
void spec_rules(struct spec *spec)
{
    static void (*const rules[][24])(struct spec *) = { /* of each kind of layer, then NULL */
        [LAYER_ATTENTION] = {check_widths, check_heads, check_latent, check_masks, check_cache, check_ring,
                             check_rope_width,
                             check_scaling_keys, check_scalings, check_factors, check_sections, check_frequencies,
                             check_l2, check_gate, check_block, check_norm, check_ffn, check_buckets, check_table,
                             check_vectors,
                             check_types, check_training},
        [LAYER_FFN] = ROW_RULES, [LAYER_LINEAR] = ROW_RULES,
        [LAYER_RECURRENT] = {check_recurrent, check_states, check_block, check_norm, check_ffn, check_types},
        [LAYER_CONV] = {check_convolution, check_states}};
    check_kind_keys(spec);
    check_idle_keys(spec);
    check_portable(spec);
    for (size_t i = 0; !spec->bad[KEY_LAYER] && rules[spec->value[KEY_LAYER]][i] != NULL; i++) {
        spec->bad_read = false;
        rules[spec->value[KEY_LAYER]][i](spec);
    }
}
