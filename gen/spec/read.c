/* SPDX-License-Identifier: MIT */
/* From a spec to its layer: defaults, derived sizes, and what can only be refused when these are known.
 *
 * Left out on purpose: lines and values (spec.c), rules between keys (spec_rules.c), tables and expressions
 * (spec_expressions.c).
 */
#include "spec/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/memory.h"
#include "expression/expression.h"
#include "spec/rope.h"
#include "spec/score.h"

/* A value of the spec or, where it is not given, of `otherwise`. */
static int64_t value_or(const struct spec *spec, enum key key, int64_t otherwise)
{
    return is_given(spec, key) ? spec->value[key] : otherwise;
}

/* A layer without attention: what is not here, and no key of it, is 0 or none. */
static void fill_rows(struct layer *layer, struct spec *spec)
{
    layer->self = true;
    layer->d_model = layer->d_source = layer->d_in_q = layer->d_in_kv = spec->value[KEY_D_MODEL];
    layer->d_out = layer_is_linear(layer) ? layer->d_out : layer->d_model;
    layer->h = layer->h_kv = layer->d_k = layer->d_v = layer->conv_width = 1;
    layer->cap = spec->real[KEY_SOFTCAP];
    layer->number[SCORE_SOFTCAP] = 0; /* there are no scores */
    layer->scale = 1;
    layer->source_len = layer->seq_len;
    layer->window_left = layer->window_right = LAYER_UNBOUNDED;
    layer->row_norm = has_row_norm(spec);
    layer->input_norm = true;
}

/* A layer with a state: as in self-attention each token is a query and a key, whether a call brings these or x. */
static void fill_recurrent(struct layer *layer, struct spec *spec)
{
    layer->self = true;
    layer->projected = is_projected(spec);
    layer->w_o = layer->projected ? W_O_NONE : W_O_DENSE;
    layer->h_out = max(layer->h, layer->h_v);
    layer->d_v = value_or(spec, KEY_D_V, layer->d_k);
    layer->states = layer->state_window + 1;
    layer->conv_history = layer->conv_taps > 1 ? layer->conv_taps - 1 + layer->state_window : 0;
    layer->conv_channels = layer->conv_taps == 0 ? 0
                         : (layer->h + layer->h_kv) * layer->d_k + layer->h_v * layer->d_v;
    if (layer->projected)
        layer->d_model = layer->h_out * layer->d_v;
    layer->d_in_a = layer->decay_rank > 0 ? layer->decay_rank : layer->d_model;
    layer->d_in_z = layer->gate_rank > 0 ? layer->gate_rank : layer->d_model;
    layer->d_source = layer->d_in_q = layer->d_in_kv = layer->d_out = layer->d_model;
    layer->source_len = layer->seq_len;
    layer->conv_width = 1;
    layer->window_left = layer->window_right = LAYER_UNBOUNDED;
    if (!is_given(spec, KEY_SCALE))
        layer->scale = 1.0 / sqrt((double)layer->d_k);
}

/* A convolution of x: what is not here, and no key of it, is 0, 1 or none. */
static void fill_convolution(struct layer *layer, struct spec *spec)
{
    fill_rows(layer, spec);
    layer->w_o = W_O_NONE;
    layer->d_out = layer->conv_channels = layer->d_model;
    layer->conv_history = layer->conv_taps - 1;
}

/* Latent attention as it is computed: keys of one head are [c, k_r], and values are c. */
static void fill_latent(struct layer *layer)
{
    layer->latent.d_head = layer->d_k;
    layer->latent.d_nope = layer->d_k - layer->rope.dims;
    layer->latent.d_value = layer->d_v;
    layer->latent.d_latent = layer->latent.q_rank > 0 ? layer->latent.q_rank : layer->d_model;
    layer->d_k = layer->latent.rank + layer->rope.dims;
    layer->d_v = layer->latent.rank;
    layer->h_kv = 1;
    layer->shares = layer->d_k_given = layer->d_v_given = true;
    layer->width = WIDTH_GIVEN;
}

/* The fields that keys have, then what follows from them. */
static void fill(struct layer *layer, struct spec *spec)
{
    for (enum key key = 0; key < KEY_COUNT; key++)
        if (key_is_of(spec, key))
            key_set(layer, key, spec->value[key], spec->real[key]);
    layer->block_rms = spec->value[KEY_NORM] == NORM_RMS;
    layer->block_shift = layer->block_shift && !layer->block_rms;
    layer->ffn_bias = layer_has_ffn(layer) && value_or(spec, KEY_FFN_BIAS, spec->value[KEY_BIAS]) == 1;
    if (!layer_attends(layer)) {
        (layer_is_recurrent(layer) ? fill_recurrent : layer_is_convolution(layer) ? fill_convolution : fill_rows)
            (layer, spec);
        return;
    }
    layer->page_count = layer->page_len > 0 ? ceil_div(layer->cache_len, layer->page_len) : 0;
    layer->split = is_split(spec);
    layer->projected = is_projected(spec);
    layer->identity = is_identity(spec);
    layer->shares = shares_keys(spec);
    layer->self = !layer->cross && !layer->projected;
    layer->offset = is_cached(spec) ? OFFSET_PAST : layer->offset;

    const int64_t parts = layer->split ? layer->h : 1;
    if (layer->projected && layer->w_o == W_O_NONE)
        layer->d_model = layer->h * value_or(spec, KEY_D_V, spec->value[KEY_D_K]); /* nothing else has that width */
    if (layer->projected)
        layer->d_source = layer->d_model; /* there is no source */
    const int64_t from_width = is_wide(spec) ? layer->d_model : layer->d_model / layer->h;
    layer->d_in_q = layer->d_model / parts;
    layer->d_in_kv = layer->d_source / parts;
    layer->d_k = value_or(spec, KEY_D_K, from_width);
    layer->d_v = layer->identity ? layer->d_in_kv
               : value_or(spec, KEY_D_V, layer->projected || layer->shares ? layer->d_k : from_width);
    layer->d_k_given = is_given(spec, KEY_D_K);
    layer->d_v_given = is_given(spec, KEY_D_V);
    layer->width = layer->d_k_given && layer->d_v_given ? WIDTH_GIVEN : layer->width;
    layer->d_out = layer->w_o == W_O_NONE ? layer->h * layer->d_v : layer->d_model;
    layer->rope.dims = value_or(spec, KEY_ROPE_DIMS, layer->d_k);
    if (layer_is_latent(layer))
        fill_latent(layer);
    layer->rope.axes = 1;
    if (is_given(spec, KEY_ROPE_SECTIONS)) {
        const char *at = spec->given[KEY_ROPE_SECTIONS].value;
        double section;
        for (layer->rope.axes = 0; layer->rope.axes < LAYER_AXES && at != NULL && spec_next(&at, &section);)
            layer->rope.sections[layer->rope.axes++] = (int64_t)section;
    }
    if (!is_given(spec, KEY_ROPE_ATTENTION_FACTOR))
        layer->rope.attention_factor =
            layer->rope.scaling == SCALING_YARN ? rope_attention_factor(layer->rope.factor) : 1;
    layer->rope.len = value_or(spec, KEY_ROPE_LEN, max(layer->seq_len, layer->source_len));
    layer->rel_width = layer->rel_rows == ROWS_LOG ? 2 * layer->rel_buckets : layer->rel_left + layer->rel_right + 1;
    layer->number[SCORE_RELATIVE] = layer->relative != RELATIVE_NONE;
    if (!is_given(spec, KEY_SCALE))
        layer->scale = 1.0 / sqrt((double)(layer_is_latent(layer) ? layer->latent.d_head : layer->d_k));
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct entry *const *)a)->key, (*(const struct entry *const *)b)->key);
}

/* The keys that were given, one a line */
static char *given_text(const struct layer *layer, const struct spec *spec)
{
    const struct entry *plan[MAX_PLAN_KEYS];
    struct text text;
    FILE *out = text_begin(&text);
    fprintf(out, "name = %s\n", layer->name);
    for (size_t i = KEY_NAME + 1; i < KEY_COUNT; i++)
        if (is_given(spec, i))
            fprintf(out, "%s = %s\n", key_rows[i].name, spec->given[i].value);
    for (size_t i = 0; i < spec->table_count; i++)
        fprintf(out, "%s = %s\n", spec->tables[i].key, spec->tables[i].value);
    for (size_t i = 0; i < spec->plan_count; i++)
        plan[i] = &spec->plan[i];
    qsort(plan, spec->plan_count, sizeof(const struct entry *), by_key);
    for (size_t i = 0; i < spec->plan_count; i++)
        fprintf(out, "%s = %s\n", plan[i]->key, plan[i]->value);
    return text_end(&text);
}

/* Of the two lists of rope's factors that for rope.len tokens */
static void fill_factors(struct layer *layer, const struct spec *spec)
{
    const bool is_long = is_given(spec, KEY_ROPE_LONG_FACTORS) && (double)layer->rope.len > layer->rope.original_len;
    const enum key key = is_long ? KEY_ROPE_LONG_FACTORS : KEY_ROPE_FACTORS;
    if (!layer_attends(layer) || layer->rope.scaling != SCALING_LONGROPE)
        return;
    layer->rope.factors = pool_doubles(&layer->memory, (size_t)spec->value[key]);
    const char *at = spec->given[key].value;
    for (int64_t c = 0; at != NULL; c++)
        (void)spec_next(&at, &layer->rope.factors[c]);
}

static void fill_texts(struct layer *layer, struct spec *spec)
{
    const struct entry *name = &spec->given[KEY_NAME];
    layer->name = name->key != NULL ? name->value : pool_take(&layer->memory, spec_stem(spec->path));
    layer->text = pool_take(&layer->memory, given_text(layer, spec));
    layer->steering = pool_take(&layer->memory, spec_steering(spec, layer));
    fill_factors(layer, spec);
    layer->options = pool_get(&layer->memory, spec->plan_count, sizeof *layer->options);
    for (size_t i = 0; i < spec->plan_count; i++) {
        const struct entry *entry = &spec->plan[i];
        layer->options[layer->options_count++] = (struct layer_option){entry->key, entry->value, entry->place};
    }
}

/* False if that overflows int64_t. */
static bool tensor_bytes(const struct layer *layer, enum layer_tensor tensor, const int64_t *shape, int count,
                         int64_t *bytes)
{
    *bytes = count == 0 ? 0 : (int64_t)layer_tensor_size(layer, tensor);
    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(*bytes, shape[i], bytes))
            return false;
    return true;
}

/* Every tensor of one sequence, and all of them together, must be countable in bytes. */
static void check_totals(const struct layer *layer, const struct spec *spec)
{
    const struct layer_call one = {1, layer->seq_len, layer->source_len, layer->page_count};
    int64_t shape[4], bytes = 0, total = 0;
    bool fits = true, all_fit = true;
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        const int count = layer_tensor_shape(layer, tensor, &one, shape);
        fits = tensor_bytes(layer, tensor, shape, count, &bytes);
        if (!fits) {
            char text[100] = "";
            for (int i = layer_tensor_has_axis(layer, tensor, "batch"), used = 0; i < count; i++)
                used += snprintf(text + used, sizeof text - (size_t)used, "[%lld]", (long long)shape[i]);
            diag_error(spec->diag, spec->path, "%s %s has more than 2^63 - 1 bytes, which no C array can; "
                       "choose smaller sizes", layer_tensor_called(layer, tensor), text);
        }
        all_fit = all_fit && fits;
        if (fits && total >= 0 && __builtin_add_overflow(total, bytes, &total))
            total = -1;
    }
    if (all_fit && total < 0)
        diag_error(spec->diag, spec->path, "the tensors of one sequence together have more than 2^63 - 1 bytes; "
                   "choose smaller sizes");
}

/* Without weights only scores and weighted sums are products of whole numbers, and not all scores are. */
static void check_rounding(const struct layer *layer, const struct spec *spec)
{
    char why[160];
    int64_t depth = 1;
    if (!layer_sums_whole(layer) || !layer->projected || layer->w_o != W_O_NONE || layer_rounds_scores(layer, false))
        return;
    while (!layer_depth_pays(layer, false, depth))
        depth++;
    if (layer->portable)
        snprintf(why, sizeof why, "scores stay f32 with exact = portable; write f32");
    else if (layer->d_k < depth)
        snprintf(why, sizeof why, "scores of d_k = %lld stay f32; write f32, or d_k = %lld or more",
                 (long long)layer->d_k, (long long)depth);
    else if (layer_exact_chunks(layer))
        snprintf(why, sizeof why, "scores stay f32 with plan.exact_chunks; write f32, or plan.exact_chunks = false");
    else
        snprintf(why, sizeof why, "scores of calls of so few tokens stay f32; write f32, or a larger seq_len");
    diag_error(spec->diag, place_of(spec, KEY_PRECISION), "precision = %s would round nothing: input = projected "
               "with w_o = none has no weights, and %s", spec->given[KEY_PRECISION].value, why);
}

/* A term of scores whose derivative nobody knows must not be trained with a wrong one. */
static void check_gradients(const struct layer *layer, const struct spec *spec)
{
    const enum score_name term = score_untrained(layer);
    if (layer->train && term != SCORE_TERMS)
        diag_error(spec->diag, spec->path,
                   "the term '%s' of scores has no gradient yet, but train = true needs one of every term; leave out "
                   "the term, or train", score_terms[term].name);
}

/* The layer of a valid spec; NULL if its tensors are too large. */
static struct layer *make_layer(struct spec *spec)
{
    const size_t errors = spec->diag->errors;
    struct layer *layer = memory_get(1, sizeof *layer);
    layer->memory = spec->memory;
    spec->memory = (struct pool){0};
    fill(layer, spec);
    fill_texts(layer, spec);
    spec_expressions(spec, layer);
    check_totals(layer, spec);
    check_rounding(layer, spec);
    check_gradients(layer, spec);
    if (spec->diag->errors == errors)
        return layer;
    layer_free(layer);
    return NULL;
}

struct layer *layer_read_text(const char *path, const char *text, const char *const *set, size_t set_count,
                              struct diag *diag)
{
    const size_t errors = diag->errors;
    HEAP struct spec *spec = memory_get(1, sizeof *spec);
    spec->path = path;
    spec->text = text;
    spec->diag = diag;

    struct layer *layer = NULL;
    spec_read(spec, set, set_count);
    if (!spec->failed) {
        spec_check_name(spec);
        spec_values(spec);
        spec_rules(spec);
        if (diag->errors == errors)
            layer = make_layer(spec);
    }
    pool_free(&spec->memory);
    return layer;
}

struct layer *layer_read(const char *path, const char *const *set, size_t set_count, struct diag *diag)
{
    return layer_read_text(path, NULL, set, set_count, diag);
}

void layer_free(struct layer *layer)
{
    if (layer == NULL)
        return;
    expression_free(layer->score);
    expression_free(layer->visible);
    expression_free(layer->score_kernel);
    expression_free(layer->visible_kernel);
    pool_free(&layer->memory);
    free(layer);
}
