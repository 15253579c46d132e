/* SPDX-License-Identifier: MIT */
/* What follows from a layer's fields: activations, norms, and which products are of whole numbers, of how many levels.
 *
 * Left out on purpose: making a layer (read.c), its tensors (tensor.c), its costs (cost.c).
 */
#include "spec/layer.h"

#include <string.h>

#include "base/arith.h"
#include "spec/fast.h"

#define LEVELS_SQUARED (INT64_C(1) << 33) /* levels^2 times the numbers of a row, of i16: four times 2^31 */

#define ROW(id, word, gated, theirs, equation, operations, powers) \
    [ACTIVATION_##id] = {equation, operations, powers},
const struct layer_activation_row layer_activation_rows[ACTIVATIONS] = {ACTIVATION_ROWS(ROW)};
#undef ROW

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
    return whole && (layer_has_cache(layer) || !layer_mixes(layer)) && !several && !layer->portable;
}

#define LEAST_DEPTH 32 /* from here on integers pay on every set */

/* Rounding costs a time for each row of keys, values or queries, and for each weight; a sum over `depth` features saves
 * its share. Measured with four numbers in a word, of 8 to 24 features: equal near 432 products
 * (bench/results/2026-11-26-amd-zen4-tiny.md). */
bool layer_depth_pays(const struct layer *layer, bool pairs, int64_t depth)
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
    return (layer_has_cache(layer) || layer_is_recurrent(layer)) &&
           (layer->portable || (exact != NULL && strcmp(exact, "true") == 0));
}

bool layer_asks_chunks(const struct layer *layer)
{
    const char *exact = option_of(layer, "plan.exact_chunks");
    return exact != NULL && strcmp(exact, "false") == 0;
}

int64_t layer_state_chunk(const struct layer *layer)
{
    const bool fits = layer->seq_len - layer->state_window >= LAYER_STATE_CHUNK;
    return layer_is_recurrent(layer) && fits && !layer_exact_chunks(layer) ? LAYER_STATE_CHUNK : 1;
}

#define ACROSS_HEADS 16 /* that fill vectors of any set; they pay where as many queries, wider than ACROSS_WIDTH, are
                         * too much for registers and L1: measured, Zen 5, 16 rows of 576 take 0.7 of the time, 20 of
                         * 64 1.25 */
#define ACROSS_WIDTH 128

bool layer_rows_across(const struct layer *layer)
{
    const int64_t group = layer->h / layer->h_kv;
    return layer_has_cache(layer) && !layer_sums_whole(layer) && !layer->portable &&
           (group > FEW_ROWS || (group >= ACROSS_HEADS && layer->d_k > ACROSS_WIDTH));
}

int64_t layer_few_queries(const struct layer *layer)
{
    const bool one_order = layer_exact_chunks(layer) && !layer->portable; /* whose sums are those of long calls */
    return !layer_has_cache(layer) || one_order || layer_rows_across(layer)
               ? 0 : min(layer->seq_len, (layer_sums_whole(layer) ? FEW_WHOLE_ROWS : FEW_ROWS) /
                                             (layer->h / layer->h_kv));
}

/* Steps would round each key of a cache for one query; where they are to have the bits of a prefill, all calls stay
 * f32. So they do under exact = portable: what weights become depends on the block of keys. */
bool layer_rounds_scores(const struct layer *layer, bool pairs)
{
    return layer_sums_whole(layer) && layer_attends(layer) && !layer_exact_chunks(layer) && !layer->portable &&
           layer->seq_len > layer_few_queries(layer) && layer_depth_pays(layer, pairs, layer->d_k);
}

/* [a word has four numbers]; weights of a layer with a cache have a sign in their bytes */
static const int64_t value_levels[] = {4095, 127}, weight_levels[] = {2047, 255};
#define CACHED_WEIGHT_LEVELS 254
_Static_assert(INT64_C(4095) * 2047 * MOST_SUMMED <= INT32_MAX, "sums of 32 bits");

bool layer_rounds_values(const struct layer *layer, bool pairs)
{
    return layer_rounds_scores(layer, pairs) && layer_depth_pays(layer, pairs, layer->d_v);
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

const char *layer_block_equation(const struct layer *layer)
{
    static const char *const equations[][2] = {
        [BLOCK_NONE] = {"", ""},
        [BLOCK_POST] = {"y = n1(x + att(x))", "u = n1(x + att(x)), y = n2(u + ffn(u))"},
        [BLOCK_OUTPUTS] = {"y = x + n1(att(x))", "u = x + n1(att(x)), y = u + n2(ffn(u))"},
        [BLOCK_PRE] = {"y = x + att(n1(x))", "u = x + att(n1(x)), y = u + ffn(n2(u))"},
        [BLOCK_PARALLEL] = {"y = x + att(n1(x))", "y = x + att(n1(x)) + ffn(n2(x))"},
        [BLOCK_SANDWICH] = {"y = x + n2(att(n1(x)))", "u = x + n2(att(n1(x))), y = u + n4(ffn(n3(u)))"}};
    static const char *const rows[] = {
        [BLOCK_NONE] = "y = ffn(x)", [BLOCK_POST] = "y = n1(x + ffn(x))", [BLOCK_PRE] = "y = x + ffn(n1(x))",
        [BLOCK_OUTPUTS] = "y = x + n1(ffn(x))", [BLOCK_SANDWICH] = "y = x + n2(ffn(n1(x)))"};
    if (!layer_mixes(layer))
        return rows[layer->block];
    if (layer->block == BLOCK_PRE && !layer->input_norm)
        return "u = x + att(x), y = u + ffn(n1(u))";
    return layer->norm_shared ? "y = x + att(n1(x)) + ffn(n1(x))" : equations[layer->block][layer_has_ffn(layer)];
}

int layer_norms(const struct layer *layer)
{
    static const int with_attention[] = {
        [BLOCK_NONE] = 0, [BLOCK_POST] = 1, [BLOCK_OUTPUTS] = 1, [BLOCK_PRE] = 1, [BLOCK_PARALLEL] = 1,
        [BLOCK_SANDWICH] = 2};
    const int norms = with_attention[layer->block];
    if (!layer_mixes(layer))
        return layer->row_norm ? 1 : norms;
    return (layer_has_ffn(layer) && !layer->norm_shared ? 2 * norms : norms) -
           (layer->block == BLOCK_PRE && !layer->input_norm);
}
