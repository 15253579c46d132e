/* SPDX-License-Identifier: MIT */
/* What the keys of a spec may not say together. */
#include "spec.h"

#include <stdio.h>

#include "score.h"

static bool has_window(const struct spec *spec) { return (spec->value[KEY_MASK] & MASK_WINDOW) != 0; }

/* Whether d_k or d_v is d_model / h because nothing else says what it is. */
static bool has_narrow_width(const struct spec *spec)
{
    return !is_wide(spec) && (!is_given(spec, KEY_D_K) || (!is_given(spec, KEY_D_V) && !is_identity(spec)));
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

static void rule_width(struct spec *spec)
{
    if (is_given(spec, KEY_WIDTH) && is_given(spec, KEY_D_K) && is_given(spec, KEY_D_V) && !is_identity(spec))
        diag_error(spec->diag, place_of(spec, KEY_WIDTH),
                   "width says nothing where d_k and d_v are both given; leave out width, or one of them");
}

static void rule_identity(struct spec *spec)
{
    if (is_identity(spec) && is_given(spec, KEY_D_V))
        diag_error(spec->diag, place_of(spec, KEY_D_V),
                   "d_v is given, but w_v = identity makes it the width of the head's input; leave out d_v");
}

static void rule_self(struct spec *spec)
{
    static const enum key cross_keys[] = {KEY_D_SOURCE, KEY_SOURCE_LEN};
    for (size_t i = 0; i < COUNT_OF(cross_keys) && !is_cross(spec); i++)
        if (is_given(spec, cross_keys[i]) && !is_projected(spec))
            diag_error(spec->diag, place_of(spec, cross_keys[i]),
                       "%s is given, but self-attention has no source; leave it out, or write attention = cross",
                       spec_key_name(cross_keys[i]));
}

static void rule_window_side(struct spec *spec)
{
    static const enum key sides[] = {KEY_WINDOW_LEFT, KEY_WINDOW_RIGHT};
    for (size_t i = 0; i < COUNT_OF(sides) && !has_window(spec); i++)
        if (is_given(spec, sides[i]))
            diag_error(spec->diag, place_of(spec, sides[i]),
                       "%s is given, but the mask has no window; leave it out, or add window to the mask",
                       spec_key_name(sides[i]));
}

static void rule_window(struct spec *spec)
{
    if (has_window(spec) && spec->value[KEY_WINDOW_LEFT] == LAYER_UNBOUNDED &&
        spec->value[KEY_WINDOW_RIGHT] == LAYER_UNBOUNDED)
        diag_error(spec->diag, place_of(spec, KEY_MASK),
                   "the mask has a window that is bounded on neither side; give window_left, window_right or both");
}

static void rule_conv_width(struct spec *spec)
{
    if (is_given(spec, KEY_CONV_WIDTH) && !is_conv(spec))
        diag_error(spec->diag, place_of(spec, KEY_CONV_WIDTH),
                   "conv_width is given, but there is no convolution; leave it out, or write w_o = conv");
}

static void rule_h_kv_divides(struct spec *spec)
{
    const int64_t h = spec->value[KEY_H], h_kv = spec->value[KEY_H_KV];
    char near[60];
    if (h % h_kv == 0)
        return;
    near_divisors(h, h_kv, near, sizeof near);
    diag_error(spec->diag, place_of(spec, KEY_H_KV),
               "h_kv = %lld does not divide h = %lld; write for example h_kv = %s", (long long)h_kv,
               (long long)h, near);
}

static void rule_h_kv_grouped(struct spec *spec)
{
    const char *cause = is_split(spec) ? "input = split" : is_tied(spec) ? "w_k = tied"
                      : is_identity(spec) ? "w_v = identity" : NULL;
    const int64_t h = spec->value[KEY_H], h_kv = spec->value[KEY_H_KV];
    if (cause != NULL && h_kv < h)
        diag_error(spec->diag, place_of(spec, KEY_H_KV),
                   "h_kv = %lld is less than h = %lld, but %s gives every head its own keys and values; leave out h_kv",
                   (long long)h_kv, (long long)h, cause);
}

static void rule_tied(struct spec *spec)
{
    const int64_t d_model = spec->value[KEY_D_MODEL], d_source = spec->value[KEY_D_SOURCE];
    if (is_tied(spec) && is_cross(spec) && d_source != d_model)
        diag_error(spec->diag, place_of(spec, KEY_D_SOURCE),
                   "d_source = %lld, but w_k = tied projects source with W_Q, which has d_model = %lld rows; "
                   "leave out d_source, or write w_k = dense",
                   (long long)d_source, (long long)d_model);
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
    diag_error(spec->diag, place_of(spec, KEY_H), "h = %lld does not divide d_model = %lld, but %s; write h = %s%s",
               (long long)h, (long long)d_model, cause, near, other);
}

static void rule_h_divides_d_source(struct spec *spec)
{
    const int64_t h = spec->value[KEY_H], d_source = spec->value[KEY_D_SOURCE];
    char near[60];
    if (!is_split(spec) || !is_cross(spec) || !is_given(spec, KEY_D_SOURCE) || d_source % h == 0)
        return;
    near_divisors(d_source, h, near, sizeof near);
    diag_error(spec->diag, place_of(spec, KEY_D_SOURCE),
               "h = %lld does not divide d_source = %lld, but input = split cuts source into h parts; write a multiple "
               "of h, or h = %s", (long long)h, (long long)d_source, near);
}

struct rule {
    enum key needs[10]; /* keys that must not be bad; KEY_COUNT ends them */
    void (*check)(struct spec *spec);
};

#define NEEDS(...) {__VA_ARGS__, KEY_COUNT}
static const struct rule rules[] = {
    {NEEDS(KEY_WIDTH, KEY_D_K, KEY_D_V, KEY_W_V), rule_width},
    {NEEDS(KEY_W_V), rule_identity},
    {NEEDS(KEY_ATTENTION, KEY_INPUT), rule_self},
    {NEEDS(KEY_MASK), rule_window_side},
    {NEEDS(KEY_MASK, KEY_WINDOW_LEFT, KEY_WINDOW_RIGHT), rule_window},
    {NEEDS(KEY_W_O), rule_conv_width},
    {NEEDS(KEY_H, KEY_H_KV), rule_h_kv_divides},
    {NEEDS(KEY_H, KEY_H_KV, KEY_INPUT, KEY_W_K, KEY_W_V), rule_h_kv_grouped},
    {NEEDS(KEY_D_MODEL, KEY_D_SOURCE, KEY_W_K, KEY_ATTENTION), rule_tied},
    {NEEDS(KEY_D_MODEL, KEY_H, KEY_INPUT, KEY_WIDTH, KEY_D_K, KEY_D_V, KEY_W_V, KEY_W_O), rule_h_divides_d_model},
    {NEEDS(KEY_D_SOURCE, KEY_H, KEY_INPUT, KEY_ATTENTION), rule_h_divides_d_source},
};

/* Each rule runs only if the keys that it needs are good, so that one mistake is reported once and independent mistakes
 * are all reported. */
void spec_rules(struct spec *spec)
{
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        bool bad = false;
        for (const enum key *key = rules[i].needs; *key != KEY_COUNT; key++)
            bad = bad || spec->bad[*key];
        if (!bad)
            rules[i].check(spec);
    }
}
