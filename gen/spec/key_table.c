/* SPDX-License-Identifier: MIT */
/* The table of keys: the rows of key_rows.h, with what their columns share. */
#include "spec/keys.h"

#include "spec/spec.h"

static bool has_projections(struct spec *spec) { return !is_projected(spec); }
static bool is_latent(struct spec *spec) { return is_given(spec, KEY_KV_RANK); }
static bool has_rope_dims(struct spec *spec) { return has_rope(spec) || is_latent(spec); }
static bool has_w_v(struct spec *spec) { return !is_projected(spec) || shares_keys(spec); }
static bool has_own_keys(struct spec *spec) { return is_cross(spec) || is_projected(spec) || is_cached(spec); }
static bool has_width(struct spec *spec)
{
    return !is_projected(spec) || (!is_recurrent(spec) && value_of(spec, KEY_W_O) != W_O_NONE);
}
static bool has_given_width(struct spec *spec) { return is_projected(spec) || is_recurrent(spec); }
/* A word that is none means a cache too. */
static bool means_cache(struct spec *spec) { return spec->value[KEY_CACHE] != CACHE_NONE; }
static bool is_paged(struct spec *spec) { return value_of(spec, KEY_CACHE) == CACHE_PAGED; }
static bool has_block_norm(struct spec *spec) { return is_block(spec) || is_linear(spec); }
static bool is_gated(struct spec *spec) { return value_of(spec, KEY_OUT_GATE) != OUT_GATE_NONE; }
static bool has_qk_norm(struct spec *spec) { return value_of(spec, KEY_QK_NORM) != NORM_NONE || is_latent(spec); }
static bool has_norm(struct spec *spec)
{
    return has_qk_norm(spec) || is_block(spec) || has_row_norm(spec) || is_gated(spec);
}
static bool has_out_norm(struct spec *spec) { return !is_projected(spec) && is_gated(spec); }
static bool has_qk_shift(struct spec *spec) { return value_of(spec, KEY_QK_NORM) == NORM_LAYER; }
static bool has_head_norm(struct spec *spec) { return has_qk_shift(spec) || value_of(spec, KEY_QK_NORM) == NORM_RMS; }
static bool has_given_positions(struct spec *spec) { return has_rope(spec) && value_of(spec, KEY_ROPE_POSITIONS) != 0; }
static bool has_sections(struct spec *spec) { return has_given_positions(spec) && is_given(spec, KEY_ROPE_SECTIONS); }
static bool keeps_numbers(struct spec *spec) { return is_cached(spec) || is_recurrent(spec) || is_convolution(spec); }
static bool has_taps(struct spec *spec) { return is_convolution(spec); }
static bool has_decay(struct spec *spec)
{
    return value_of(spec, KEY_RULE) == RULE_GATED || value_of(spec, KEY_RULE) == RULE_GATED_DELTA;
}
static bool makes_decay(struct spec *spec) { return !is_projected(spec) && has_decay(spec); }
static bool has_biases(struct spec *spec) { return !(is_recurrent(spec) && is_projected(spec)); }
static bool has_made_taps(struct spec *spec) { return !is_projected(spec) && value_of(spec, KEY_CONV_TAPS) > 0; }
static bool makes_beta(struct spec *spec)
{
    const int64_t rule = value_of(spec, KEY_RULE);
    return !is_projected(spec) && (rule == RULE_DELTA || rule == RULE_GATED_DELTA);
}
static bool may_have_ffn(struct spec *spec) { return is_block(spec) || !(is_attention(spec) || is_recurrent(spec)); }
static bool has_shift(struct spec *spec)
{
    return (is_block(spec) || has_row_norm(spec)) && value_of(spec, KEY_NORM) == NORM_LAYER;
}
static bool has_input_norm(struct spec *spec) { return value_of(spec, KEY_BLOCK) == BLOCK_PRE && is_ffn(spec); }
static bool is_swiglu(struct spec *spec) { return value_of(spec, KEY_FFN) == (int64_t)FFN_GATED_SILU; }
static bool is_clamped(struct spec *spec) { return is_swiglu(spec) && spec->real[KEY_FFN_LIMIT] > 0; }
static bool has_rel_keys(struct spec *spec) { return value_of(spec, KEY_REL_KEYS) != VECTORS_NONE; }
static bool has_norm_to_share(struct spec *spec) { return value_of(spec, KEY_BLOCK) == BLOCK_PARALLEL && is_ffn(spec); }

#define BROUGHT .has_meaning = has_projections, .idle = KEY_IS_BROUGHT
#define OF_PRODUCTS OF_STATE, .has_meaning = has_projections, .idle = KEY_IS_BROUGHT
#define OF_STATE .of = OF_RECURRENT, \
    .elsewhere = "only layer = recurrent has a state; leave it out, or write layer = recurrent"
#define OF_OUT_NORM OF_STATE, .has_meaning = has_out_norm, \
    .idle = "outputs of heads are not normed; leave it out, or write out_gate = silu"
#define OF_DT OF_STATE, .has_meaning = makes_decay, \
    .idle = "only rule = gated and gated_delta make dt of x; leave it out"
#define OF_CACHE .has_meaning = is_cached, \
    .idle = "there is no cache; leave it out, or write cache = rows"
#define OF_WINDOW .has_meaning = has_window, \
    .idle = "the mask has no window; leave it out, or add window to the mask"
#define OF_ROPE .has_meaning = has_rope, \
    .idle = "nothing is rotated; leave it out, or write rope = half"
#define OF_SCALING(of) OF_ROPE, .steers = STEERS_NOTHING, .scalings = of
#define LINEAR (1u << SCALING_LINEAR)
#define LLAMA3 (1u << SCALING_LLAMA3)
#define YARN (1u << SCALING_YARN)
#define DYNAMIC (1u << SCALING_DYNAMIC)
#define LONGROPE (1u << SCALING_LONGROPE)
#define OF_BUCKETS .has_meaning = has_buckets, \
    .idle = "only relative = t5 and rel_rows = log have buckets; leave it out, or write relative = t5"
#define OF_TABLE .has_meaning = has_table, \
    .idle = "only relative = table and rel_rows = clamped have sides; leave it out, or write relative = table"
#define OF_VECTORS(none) .untrained = none, \
    .words = {{"none", VECTORS_NONE, NULL}, {"shared", VECTORS_SHARED, NULL}, {"heads", VECTORS_HEADS, "per_head"}}
#define OF_FEED_FORWARD .of = OF_HEADS | OF_FFN, .has_meaning = is_ffn, \
    .idle = "there is no feed-forward; leave it out, or write for example ffn = gelu"
#define NO_SOURCE "self-attention has no source; leave it out, or write attention = cross"
#define NO_BLOCK "there is no block around attention; leave it out, or write block = pre, post, outputs, parallel " \
    "or sandwich"
#define ONE_MATRIX "layer = linear is one matrix; "

/* What others call number types */
#define F32_TOO "float32 float fp32"
#define BF16_TOO "bfloat16"
#define F16_TOO "float16 half fp16"
#define I16_TOO "int16"
#define I8_TOO "int8 q8"
#define I4_TOO "int4 q4"

#define PLAIN_WORD(id, word, gated, theirs, ...) {word, ACTIVATION_##id, theirs},
#define GATED_WORD(id, word, gated, ...) {gated, FFN_GATED_##id, NULL},

#define FIELD_TYPE(field) \
    _Generic(((struct layer *)0)->field, bool: FIELD_SWITCH, int64_t: FIELD_WHOLE, double: FIELD_REAL, \
             default: FIELD_WORD)
#define FIELD(field) .offset = offsetof(struct layer, field), .type = FIELD_TYPE(field)
#define KEY(id, key, of_kind, ...) [KEY_##id] = {.name = #key, .kind = KIND_##of_kind, __VA_ARGS__},
const struct key_row key_rows[KEY_COUNT] = {
#include "spec/key_rows.h"
};
