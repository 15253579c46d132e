/* SPDX-License-Identifier: MIT */
/* A layer, and what follows from it: defaults, derived sizes, tensors that no C array could hold, costs. */
#include "spec/layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "expression/expression.h"
#include "spec/fast.h"
#include "spec/rope.h"
#include "spec/score.h"
#include "spec/spec.h"
#include "spec/visible.h"

/* A value of the spec or, where it is not given, of `otherwise`. */
static int64_t value_or(const struct spec *spec, enum key key, int64_t otherwise)
{
    return is_given(spec, key) ? spec->value[key] : otherwise;
}

#define LEVELS_SQUARED (INT64_C(1) << 33) /* levels^2 times the numbers of a row, of i16: four times 2^31 */

/* A layer without attention: what is not here, and no key of it, is 0 or none. */
static void fill_rows(struct layer *layer, const struct spec *spec)
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
}

/* The fields that keys have, then what follows from them. */
static void fill(struct layer *layer, const struct spec *spec)
{
    for (enum key key = 0; key < KEY_COUNT; key++)
        if (key_is_of(spec, key))
            key_set(layer, key, spec->value[key], spec->real[key]);
    layer->block_rms = spec->value[KEY_NORM] == NORM_RMS;
    if (!layer_attends(layer)) {
        fill_rows(layer, spec);
        return;
    }
    layer->page_count = layer->page_len > 0 ? (layer->cache_len + layer->page_len - 1) / layer->page_len : 0;
    layer->split = is_split(spec);
    layer->projected = is_projected(spec);
    layer->self = !layer->cross && !layer->projected;
    layer->offset = is_cached(spec) ? OFFSET_PAST : layer->offset;
    layer->ffn_bias = layer_has_ffn(layer) && value_or(spec, KEY_FFN_BIAS, spec->value[KEY_BIAS]) == 1;

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
                                 : value_or(spec, KEY_D_V, layer->projected ? layer->d_k : from_width);
    layer->d_k_given = is_given(spec, KEY_D_K);
    layer->d_v_given = is_given(spec, KEY_D_V);
    layer->width = layer->d_k_given && layer->d_v_given ? WIDTH_GIVEN : layer->width;
    layer->d_out = layer->w_o == W_O_NONE ? layer->h * layer->d_v : layer->d_model;
    layer->rope.dims = value_or(spec, KEY_ROPE_DIMS, layer->d_k);
    if (!is_given(spec, KEY_ROPE_ATTENTION_FACTOR))
        layer->rope.attention_factor =
            layer->rope.scaling == SCALING_YARN ? rope_attention_factor(layer->rope.factor) : 1;
    layer->rel_width = layer->rel_left + layer->rel_right + 1;
    layer->number[SCORE_RELATIVE] = layer->relative != RELATIVE_NONE;
    if (!is_given(spec, KEY_SCALE))
        layer->scale = 1.0 / sqrt((double)layer->d_k);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct entry *const *)a)->key, (*(const struct entry *const *)b)->key);
}

/* The keys that were given, one a line; NULL without memory. */
static char *given_text(const struct layer *layer, const struct spec *spec)
{
    const struct entry *plan[MAX_PLAN_KEYS];
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
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
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Name, text and plan options: what needs memory. */
static bool fill_texts(struct layer *layer, const struct spec *spec)
{
    const struct entry *name = &spec->given[KEY_NAME];
    layer->name = name->key != NULL ? spec_copy(name->value, strlen(name->value)) : spec_stem(spec->path);
    layer->text = layer->name != NULL ? given_text(layer, spec) : NULL;
    layer->steering = spec_steering(spec, layer);
    if (layer->text == NULL || layer->steering == NULL)
        return false;
    if (spec->plan_count == 0)
        return true;
    layer->options = calloc(spec->plan_count, sizeof *layer->options);
    if (layer->options == NULL)
        return false;
    for (size_t i = 0; i < spec->plan_count; i++) {
        const struct entry *entry = &spec->plan[i];
        struct layer_option *option = &layer->options[layer->options_count++];
        option->key = spec_copy(entry->key, strlen(entry->key));
        option->value = spec_copy(entry->value, strlen(entry->value));
        option->place = spec_copy(entry->place, strlen(entry->place));
        if (option->key == NULL || option->value == NULL || option->place == NULL)
            return false;
    }
    return true;
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

static bool depth_pays(const struct layer *layer, bool pairs, int64_t depth);

/* Without weights only scores and weighted sums are products of whole numbers, and not all scores are. */
static void check_rounding(const struct layer *layer, const struct spec *spec)
{
    char why[160];
    int64_t depth = 1;
    if (!layer_sums_whole(layer) || !layer->projected || layer->w_o != W_O_NONE || layer_rounds_scores(layer, false))
        return;
    while (!depth_pays(layer, false, depth))
        depth++;
    if (layer->d_k < depth)
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

/* The layer of a valid spec; NULL without memory, or if its tensors are too large. */
static struct layer *make_layer(struct spec *spec)
{
    const size_t errors = spec->diag->errors;
    struct layer *layer = calloc(1, sizeof *layer);
    if (layer != NULL)
        fill(layer, spec);
    if (layer == NULL || !fill_texts(layer, spec)) {
        spec_out_of_memory(spec);
    } else {
        spec_expressions(spec, layer);
        check_totals(layer, spec);
        check_rounding(layer, spec);
        check_gradients(layer, spec);
    }
    if (spec->diag->errors == errors)
        return layer;
    layer_free(layer);
    return NULL;
}

struct layer *layer_read_text(const char *path, const char *text, const char *const *set, size_t set_count,
                              struct diag *diag)
{
    const size_t errors = diag->errors;
    struct spec *spec = calloc(1, sizeof *spec);
    if (spec == NULL) {
        diag_environment(diag, path, "out of memory; free some and try again");
        return NULL;
    }
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
    spec_free(spec);
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
    for (size_t i = 0; i < layer->options_count; i++) {
        free(layer->options[i].key);
        free(layer->options[i].value);
        free(layer->options[i].place);
    }
    for (size_t i = 0; i < layer->table_count; i++)
        free(layer->tables[i].name);
    expression_free(layer->score);
    expression_free(layer->visible);
    expression_free(layer->score_kernel);
    expression_free(layer->visible_kernel);
    free(layer->options);
    free(layer->text);
    free(layer->steering);
    free(layer->name);
    free(layer);
}

/* ---- the block ------------------------------------------------------------------------------------------- */

enum layer_activation layer_activation(const struct layer *layer)
{
    static const enum layer_activation of[] = {
        [FFN_NONE] = ACTIVATION_NONE, [FFN_RELU] = ACTIVATION_RELU, [FFN_GELU] = ACTIVATION_GELU,
        [FFN_GELU_TANH] = ACTIVATION_GELU_TANH, [FFN_SILU] = ACTIVATION_SILU, [FFN_SWIGLU] = ACTIVATION_SILU,
        [FFN_GEGLU] = ACTIVATION_GELU, [FFN_GEGLU_TANH] = ACTIVATION_GELU_TANH};
    return layer_is_linear(layer) ? layer->activation : of[layer->ffn];
}

int64_t layer_levels(const struct layer *layer, int64_t count)
{
    int64_t levels = layer->precision == PRECISION_I8 ? 127 : 32767;
    while (layer->precision == PRECISION_I16 && levels > 1 && levels * levels > LEVELS_SQUARED / count)
        levels--;
    return levels;
}

_Static_assert(LEVELS_SQUARED / FAST_NUMBERS <= INT64_C(8191) * 8191 && 4 * FAST_LEVELS <= INT16_MAX, "fit 16 bits");

int64_t layer_column_levels(const struct layer *layer, int64_t count)
{
    return layer->precision == PRECISION_I8 ? 127 : count >= FAST_NUMBERS ? FAST_LEVELS : 32767;
}

/* What the plan's lines of a spec say of one key; NULL: nothing */
static const char *option_of(const struct layer *layer, const char *key)
{
    const char *value = NULL;
    for (size_t i = 0; i < layer->options_count; i++)
        if (strcmp(layer->options[i].key, key) == 0)
            value = layer->options[i].value;
    return value;
}

bool layer_reads_digits(const struct layer *layer)
{
    const char *typical = option_of(layer, "plan.typical_n");
    const bool several = typical != NULL && strcmp(typical, "auto") != 0; /* calls of several tokens are typical */
    const bool whole = layer->weight_type == TENSOR_I4 || layer->weight_type == TENSOR_I8;
    return whole && (layer_has_cache(layer) || !layer_attends(layer)) && !several;
}

#define LEAST_DEPTH 32 /* from here on integers pay on every set */

/* Whether a sum over so many features saves more than rounding costs, which is a time for each row of keys, values or
 * queries, and for each weight. Measured with four numbers in a word, of 8 to 24 features: equal near 432 products
 * (bench/results/2026-11-26-amd-zen4-tiny.md). */
static bool depth_pays(const struct layer *layer, bool pairs, int64_t depth)
{
    const bool of_many = layer_has_cache(layer) ? (depth - 6) * layer->source_len >= 512 /* rounded in each call */
                                                : depth >= 8 && depth * layer->source_len >= 448;
    return depth >= LEAST_DEPTH || (layer_core_word(layer, pairs) == 4 && of_many);
}

#define FEW_ROWS 24 /* rows of a call (queries times the heads that share keys) up to which keys are read as they lie in
                     * a cache. Above, transposing them pays: measured, Zen 5, 20 to 28 rows of 64 and 128 */
#define FEW_WHOLE_ROWS 16 /* the same where longer calls sum whole numbers, which are faster */

bool layer_exact_chunks(const struct layer *layer)
{
    const char *exact = option_of(layer, "plan.exact_chunks");
    return layer_has_cache(layer) && exact != NULL && strcmp(exact, "true") == 0;
}

int64_t layer_few_queries(const struct layer *layer)
{
    return !layer_has_cache(layer) || layer_exact_chunks(layer)
               ? 0 : min(layer->seq_len, (layer_sums_whole(layer) ? FEW_WHOLE_ROWS : FEW_ROWS) /
                                             (layer->h / layer->h_kv));
}

/* Steps would round each key of a cache for one query; where they are to have the bits of a prefill, all calls stay
 * f32. */
bool layer_rounds_scores(const struct layer *layer, bool pairs)
{
    return layer_sums_whole(layer) && layer_attends(layer) && !layer_exact_chunks(layer) &&
           layer->seq_len > layer_few_queries(layer) && depth_pays(layer, pairs, layer->d_k);
}

/* of values and weights, by whether a word has four of them; behind a cache bytes of weights have a sign */
static const int64_t value_levels[] = {4095, 127}, weight_levels[] = {2047, 255};
#define CACHED_WEIGHT_LEVELS 254
_Static_assert(INT64_C(4095) * 2047 * MOST_SUMMED <= INT32_MAX, "sums of 32 bits");

bool layer_rounds_values(const struct layer *layer, bool pairs)
{
    return layer_rounds_scores(layer, pairs) && depth_pays(layer, pairs, layer->d_v);
}

int64_t layer_value_levels(const struct layer *layer, bool pairs)
{
    return value_levels[layer_core_word(layer, pairs) == 4];
}

int64_t layer_weight_levels(const struct layer *layer, bool pairs)
{
    const bool bytes = layer_core_word(layer, pairs) == 4;
    return bytes && layer_has_cache(layer) ? CACHED_WEIGHT_LEVELS : weight_levels[bytes];
}

int64_t layer_score_levels(const struct layer *layer, bool pairs)
{
    int64_t levels = layer_core_word(layer, pairs) == 4 ? 127 : 32767;
    while (levels > 1 && levels * levels > INT32_MAX / layer->d_k)
        levels--;
    return levels;
}

int layer_norms(const struct layer *layer)
{
    static const int with_attention[] = {
        [BLOCK_NONE] = 0, [BLOCK_POST] = 1, [BLOCK_PRE] = 1, [BLOCK_PARALLEL] = 1, [BLOCK_SANDWICH] = 2};
    const int norms = with_attention[layer->block];
    if (!layer_attends(layer))
        return layer->row_norm ? 1 : norms;
    return layer_has_ffn(layer) && !layer->norm_shared ? 2 * norms : norms;
}

/* ---- costs ----------------------------------------------------------------------------------------------- */

/* As many pairs as a window of so many rows leaves visible. */
int64_t layer_conv_taps(const struct layer *layer, int64_t n)
{
    const int64_t pad = layer_conv_pad(layer);
    const struct layer window = {.mask = MASK_WINDOW, .window_left = pad, .window_right = layer->conv_width - 1 - pad};
    return visible_pairs(&window, n, n);
}

int64_t layer_conv_pad(const struct layer *layer)
{
    return (layer->mask & MASK_CAUSAL) != 0 ? layer->conv_width - 1 : (layer->conv_width - 1) / 2;
}

struct layer_cost layer_multiply_adds(const struct layer *layer, int64_t n, int64_t m)
{
    const double heads = (double)layer->h, heads_kv = (double)layer->h_kv;
    const double d_k = (double)layer->d_k, d_v = (double)layer->d_v, d_model = (double)layer->d_model;
    const double queries = (double)n, keys_read = (double)(layer_has_cache(layer) ? n : m);
    const double pairs = (double)visible_pairs(layer, n, m);
    const bool k_is_q = layer->tied && !layer->cross;
    const bool projects = !layer->projected;

    struct layer_cost cost = {0};
    if (layer_is_linear(layer)) {
        cost.linear = cost.total = queries * d_model * (double)layer->d_out;
        return cost;
    }
    if (!layer_attends(layer)) {
        cost.down = queries * d_model * (double)layer->d_ff;
        cost.ffn = cost.total = cost.down * (layer_ffn_gated(layer) ? 3 : 2);
        return cost;
    }
    cost.q = !projects ? 0 : queries * (double)layer->d_in_q * heads * d_k;
    cost.k = !projects || k_is_q ? 0 : keys_read * (double)layer->d_in_kv * heads_kv * d_k;
    cost.v = !projects || layer->identity ? 0 : keys_read * (double)layer->d_in_kv * heads_kv * d_v;
    cost.scores = pairs * heads * d_k;
    cost.values = pairs * heads * d_v;
    if (layer->w_o == W_O_DENSE)
        cost.output = queries * heads * d_v * d_model;
    else if (layer->w_o == W_O_CONV)
        cost.output = (double)layer_conv_taps(layer, n) * d_v * d_model;
    cost.down = queries * d_model * (double)layer->d_ff;
    cost.ffn = queries * d_model * (double)layer->d_ff * (layer_ffn_gated(layer) ? 3 : 2);
    cost.total = cost.q + cost.k + cost.v + cost.scores + cost.values + cost.output + cost.ffn;
    return cost;
}

static int64_t elements(const struct layer *layer, enum layer_tensor tensor)
{
    int64_t shape[4], product = 1;
    const int count = layer_weight_shape(layer, tensor, shape);
    for (int i = 0; i < count; i++)
        product *= shape[i];
    return count > 0 ? product : 0;
}

struct layer_parameters layer_parameters(const struct layer *layer)
{
    struct layer_parameters p = {
        .w_q = elements(layer, TENSOR_W_Q), .b_q = elements(layer, TENSOR_B_Q),
        .w_k = elements(layer, TENSOR_W_K), .b_k = elements(layer, TENSOR_B_K),
        .w_v = elements(layer, TENSOR_W_V), .b_v = elements(layer, TENSOR_B_V),
        .w_o = elements(layer, TENSOR_W_O), .b_o = elements(layer, TENSOR_B_O),
        .w_1 = elements(layer, TENSOR_W_1), .b_1 = elements(layer, TENSOR_B_1),
        .w_g = elements(layer, TENSOR_W_G), .b_g = elements(layer, TENSOR_B_G),
        .w_2 = elements(layer, TENSOR_W_2), .b_2 = elements(layer, TENSOR_B_2),
        .w = elements(layer, TENSOR_W), .b = elements(layer, TENSOR_B)};
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (layer_tensor_row(tensor)->kind == TENSOR_LEARNED ||
            layer_tensor_row(tensor)->kind == TENSOR_NAMED)
            p.learned += elements(layer, tensor);
    p.total = p.w_q + p.b_q + p.w_k + p.b_k + p.w_v + p.b_v + p.w_o + p.b_o +
              p.w_1 + p.b_1 + p.w_g + p.b_g + p.w_2 + p.b_2 + p.w + p.b + p.learned;
    return p;
}

double layer_packed_bytes(const struct layer *layer, int64_t of_matrices, int64_t others)
{
    const double whole = (double)element_size(layer->weight_type) / (double)layer_word(layer);
    const double scale = (double)element_size(TENSOR_F32);
    const double each = layer->weight_type == TENSOR_I4 ? 0.5 + scale / WEIGHT_GROUP : whole;
    return each * (double)of_matrices + scale * (double)others;
}

double layer_parameter_bytes(const struct layer *layer)
{
    const struct layer_parameters p = layer_parameters(layer);
    const int64_t of_matrices = p.w_q + p.w_k + p.w_v + p.w_o + p.w_1 + p.w_g + p.w_2 + p.w;
    return layer_packed_bytes(layer, of_matrices, p.total - of_matrices);
}
