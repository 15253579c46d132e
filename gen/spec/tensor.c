/* SPDX-License-Identifier: MIT */
/* The tensors of a layer: what each is called, made of and shaped like, and when a layer has it, by tensor_rows.h.
 *
 * All that asks for names, shapes, types or presence reads this table: specs that are too large, --explain, the emitted
 * header and its checks, what attnrun draws, reads from files and hands to a kernel.
 */
#include "spec/layer.h"

#include <stdio.h>
#include <string.h>

static bool is_cross(const struct layer *layer) { return layer->cross; }
static bool is_split(const struct layer *layer) { return layer->split; }
static bool is_conv(const struct layer *layer) { return layer->w_o == W_O_CONV; }
static bool always(const struct layer *layer) { (void)layer; return true; }
static bool is_linear(const struct layer *layer) { return layer_is_linear(layer); }
static bool is_recurrent(const struct layer *layer) { return layer_is_recurrent(layer); }
static bool is_given(const struct layer *layer) { return is_recurrent(layer) && layer->projected; }
static bool is_made(const struct layer *layer) { return is_recurrent(layer) && !layer->projected; }
static bool has_decay(const struct layer *layer) { return layer_decays(layer) && is_given(layer); }
static bool makes_decay(const struct layer *layer) { return layer_decays(layer) && is_made(layer); }
static bool is_decay_column(const struct layer *layer) { return layer->decay == DECAY_COLUMN; }
static bool has_beta(const struct layer *layer) { return layer_corrects(layer) && is_given(layer); }
static bool makes_beta(const struct layer *layer) { return layer_corrects(layer) && is_made(layer); }
static bool has_taps(const struct layer *layer) { return is_made(layer) && layer->conv_taps > 0; }
static bool is_convolution(const struct layer *layer) { return layer_is_convolution(layer); }
static bool has_history(const struct layer *layer) { return layer_keeps_states(layer) && layer->conv_history > 0; }
static bool has_conv_bias(const struct layer *layer) { return has_taps(layer) && layer->conv_bias; }
static bool has_skip(const struct layer *layer) { return is_made(layer) && layer->skip; }
static bool has_decay_bias(const struct layer *layer) { return makes_decay(layer) && layer->bias; }
static bool has_beta_bias(const struct layer *layer) { return makes_beta(layer) && layer->bias; }
static bool has_decay_rank(const struct layer *layer) { return makes_decay(layer) && layer->decay_rank > 0; }
static bool has_gate_rank(const struct layer *layer) { return layer->gate_rank > 0; }
static bool has_norm_groups(const struct layer *layer) { return layer->out_norm_groups > 0; }
static bool has_window_of_states(const struct layer *layer) { return layer->state_window > 0; }
static bool has_out_gate(const struct layer *layer) { return is_made(layer) && layer->out_gate != OUT_GATE_NONE; }
static bool has_out_gate_bias(const struct layer *layer) { return has_out_gate(layer) && layer->bias; }
static bool has_bias_of_y(const struct layer *layer)
{
    return layer->bias && (is_linear(layer) || is_convolution(layer));
}
static bool has_x(const struct layer *layer) { return !layer->projected; }
static bool mixes(const struct layer *layer) { return layer_mixes(layer); }
static bool has_queries(const struct layer *layer) { return mixes(layer) && has_x(layer); }
static bool is_projected(const struct layer *layer) { return layer->projected; }
static bool has_v(const struct layer *layer) { return layer->projected && !layer->shares; }
static bool is_first(const struct layer *layer) { return layer->heads_first; }
static bool is_first_y(const struct layer *layer) { return layer->heads_first && layer->w_o == W_O_NONE; }
static bool is_last_y(const struct layer *layer)
{
    return layer->projected && !layer->heads_first && layer->w_o == W_O_NONE;
}
static bool has_past(const struct layer *layer) { return layer->offset == OFFSET_PAST; }
static bool is_cached(const struct layer *layer) { return layer_has_cache(layer); }
static bool is_cached_first(const struct layer *layer) { return is_cached(layer) && layer->heads_first; }
static bool has_rows(const struct layer *layer) { return is_cached(layer) && layer->cache != CACHE_PAGED; }
static bool has_pages(const struct layer *layer) { return layer->cache == CACHE_PAGED; }
static bool has_scales(const struct layer *layer) { return layer_scales_cache(layer); }
static bool is_latent(const struct layer *layer) { return layer_is_latent(layer); }
static bool has_q_latent(const struct layer *layer) { return layer->latent.q_rank > 0; }
static bool has_value_rows(const struct layer *layer) { return has_rows(layer) && !layer->shares; }
static bool has_value_pages(const struct layer *layer) { return has_pages(layer) && !layer->shares; }
static bool has_value_scales(const struct layer *layer) { return has_scales(layer) && !layer->shares; }
static bool has_positions(const struct layer *layer) { return layer->rope.given; }
static bool has_axes(const struct layer *layer) { return layer->rope.axes > 1; }
static bool has_segments(const struct layer *layer) { return (layer->mask & MASK_SEGMENTS) != 0; }
static bool is_self(const struct layer *layer) { return layer->self; }
static bool has_segment(const struct layer *layer) { return has_segments(layer) && is_self(layer); }
static bool has_two_segments(const struct layer *layer) { return has_segments(layer) && !is_self(layer); }
static bool has_gains(const struct layer *layer)
{
    return layer->qk_norm != NORM_NONE && layer->qk_norm != NORM_L2 && layer->qk_norm != NORM_L2_SUM;
}
static bool has_shifts(const struct layer *layer) { return layer->qk_norm == NORM_LAYER && layer->qk_shift; }
static bool is_normed_by_head(const struct layer *layer) { return layer->qk_by_head; }
static bool is_rms_all(const struct layer *layer) { return layer->qk_norm == NORM_RMS_ALL; }
static bool has_relative(const struct layer *layer) { return layer->relative != RELATIVE_NONE; }
static bool is_table(const struct layer *layer) { return layer->relative == RELATIVE_TABLE; }
static bool has_rel_keys(const struct layer *layer) { return layer->rel_keys != VECTORS_NONE; }
static bool has_rel_queries(const struct layer *layer) { return layer->rel_queries != VECTORS_NONE; }
static bool has_rel_keys_of_heads(const struct layer *layer) { return layer->rel_keys == VECTORS_HEADS; }
static bool has_rel_queries_of_heads(const struct layer *layer) { return layer->rel_queries == VECTORS_HEADS; }
static bool has_rel_biases(const struct layer *layer) { return layer->rel_biases; }
static bool has_sink(const struct layer *layer) { return layer->sink; }
static bool has_lse(const struct layer *layer) { return layer->lse; }
static bool has_scores(const struct layer *layer) { return layer->scores != SCORES_NONE; }
static bool has_keys(const struct layer *layer)
{
    return !layer->tied && !layer_is_latent(layer) && has_queries(layer);
}
static bool has_values(const struct layer *layer)
{
    return !layer->identity && !layer->shares && has_queries(layer);
}
static bool has_output(const struct layer *layer) { return mixes(layer) && layer->w_o != W_O_NONE; }
static bool has_bias(const struct layer *layer) { return layer->bias && has_queries(layer); }
static bool has_key_bias(const struct layer *layer) { return layer->bias && has_keys(layer); }
static bool has_value_bias(const struct layer *layer) { return layer->bias && has_values(layer); }
static bool has_norm(const struct layer *layer, int number) { return layer_norms(layer) >= number; }
static bool has_n1(const struct layer *layer) { return has_norm(layer, 1); }
static bool has_n2(const struct layer *layer) { return has_norm(layer, 2); }
static bool has_n3(const struct layer *layer) { return has_norm(layer, 3); }
static bool has_n4(const struct layer *layer) { return has_norm(layer, 4); }
static bool has_n1_shift(const struct layer *layer) { return has_n1(layer) && layer->block_shift; }
static bool has_n2_shift(const struct layer *layer) { return has_n2(layer) && layer->block_shift; }
static bool has_n3_shift(const struct layer *layer) { return has_n3(layer) && layer->block_shift; }
static bool has_n4_shift(const struct layer *layer) { return has_n4(layer) && layer->block_shift; }
static bool has_ffn(const struct layer *layer) { return layer_has_ffn(layer); }
static bool has_gate(const struct layer *layer) { return layer_ffn_gated(layer); }
static bool has_ffn_bias(const struct layer *layer) { return layer->ffn_bias; }
static bool has_gate_bias(const struct layer *layer) { return layer->ffn_bias && has_gate(layer); }
static bool has_output_bias(const struct layer *layer) { return layer->bias && has_output(layer); }

static bool has_z_gate(const struct layer *layer) { return layer->gate != GATE_NONE; }
static bool has_z_gate_bias(const struct layer *layer) { return has_z_gate(layer) && layer->bias; }
static bool is_gate_of_heads(const struct layer *layer) { return layer->gate == GATE_HEADS; }

/* Named and shaped by the spec: struct layer's tables. */
_Static_assert(LAYER_TABLES == TENSOR_TABLE_LAST - TENSOR_TABLE + 1, "a row for each of them");
static const struct layer_table *table_of(const struct layer *layer, enum layer_tensor tensor)
{
    return tensor >= TENSOR_TABLE && tensor <= TENSOR_TABLE_LAST && tensor - TENSOR_TABLE < layer->table_count
               ? &layer->tables[tensor - TENSOR_TABLE] : NULL;
}

#define TENSOR(id, of_name, of_kind, element, of_extents, of_has, ...) \
    [TENSOR_##id] = {.shown = {.name = #of_name, .kind = TENSOR_##of_kind, .type = TENSOR_##element}, \
                     .extents = of_extents, .has = of_has, __VA_ARGS__},
static const struct row {
    struct layer_tensor_row shown;
    const char *extents; /* NULL: those of the spec's table */
    bool (*has)(const struct layer *layer);
    unsigned mask; /* the bit of the mask that brings it, in place of `has` */
    struct {
        bool (*is)(const struct layer *layer); /* then its extents are */
        const char *extents;
    } variant[4]; /* the last that is, counts */
} rows[TENSOR_COUNT] = {
#include "spec/tensor_rows.h"
};

const struct layer_tensor_row *layer_tensor_row(enum layer_tensor tensor)
{
    return &rows[tensor].shown;
}

const char *layer_tensor_name(enum layer_tensor tensor)
{
    return tensor < TENSOR_COUNT ? rows[tensor].shown.name : NULL;
}

const char *layer_tensor_called(const struct layer *layer, enum layer_tensor tensor)
{
    const struct layer_table *table = table_of(layer, tensor);
    return table != NULL ? table->name : layer_tensor_name(tensor);
}

enum tensor_element layer_tensor_element(const struct layer *layer, enum layer_tensor tensor)
{
    const bool states = tensor == TENSOR_STATE || tensor == TENSOR_CONV_STATE;
    const bool cached = states || (tensor >= TENSOR_K_CACHE && tensor <= TENSOR_V_PAGES);
    const bool typed = tensor <= TENSOR_V || tensor == TENSOR_Y || tensor == TENSOR_ATTN;
    return cached ? layer->cache_type : typed ? layer->tensor_type : rows[tensor].shown.type;
}

size_t layer_tensor_size(const struct layer *layer, enum layer_tensor tensor)
{
    return element_size(layer_tensor_element(layer, tensor));
}

static const struct { const char *name; size_t size; } elements[] = {
    [TENSOR_F32] = {"f32", 4}, [TENSOR_I32] = {"i32", 4}, [TENSOR_BOOL] = {"bool", 1},
    [TENSOR_BF16] = {"bf16", 2}, [TENSOR_F16] = {"f16", 2}, [TENSOR_I8] = {"i8", 1},
    [TENSOR_I4] = {"i4", 1}};

size_t element_size(enum tensor_element element)
{
    return elements[element].size;
}

const char *element_name(enum tensor_element element)
{
    return elements[element].name;
}

bool layer_has_tensor(const struct layer *layer, enum layer_tensor tensor)
{
    if (rows[tensor].shown.kind == TENSOR_NAMED)
        return table_of(layer, tensor) != NULL;
    return rows[tensor].has != NULL ? rows[tensor].has(layer) : (layer->mask & rows[tensor].mask) != 0;
}

enum layer_tensor layer_mask_tensor(unsigned mask)
{
    enum layer_tensor tensor = 0;
    while (tensor < TENSOR_COUNT && rows[tensor].mask != mask)
        tensor++;
    return tensor;
}

bool layer_has_gradient(const struct layer *layer, enum layer_tensor tensor)
{
    const enum tensor_kind kind = rows[tensor].shown.kind;
    const bool differs = kind == TENSOR_WEIGHT || kind == TENSOR_BIAS || kind == TENSOR_LEARNED || tensor == TENSOR_X ||
                         tensor == TENSOR_SOURCE;
    return layer->train && differs && layer_has_tensor(layer, tensor);
}

int64_t layer_kept(const struct layer *layer)
{
    return layer->train ? layer->h * (layer->d_v + 2) : 0;
}

/* ---- letters --------------------------------------------------------------------------------------------- */

/* One axis of a shape: the text between two brackets, without a "|1". */
struct axis {
    const char *text;
    size_t length;
    bool or_one;
};

static int axes_of(const char *extents, struct axis axes[4])
{
    int count = 0;
    for (const char *open = extents; *open != '\0'; count++) {
        const char *close = strchr(open, ']');
        const size_t length = (size_t)(close - open) - 1;
        const bool or_one = length > 2 && close[-2] == '|';
        axes[count] = (struct axis){open + 1, or_one ? length - 2 : length, or_one};
        open = close + 1;
    }
    return count;
}

static const char *extents_of(const struct layer *layer, enum layer_tensor tensor)
{
    const struct row *row = &rows[tensor];
    const char *extents = row->extents;
    for (size_t i = 0; i < sizeof row->variant / sizeof *row->variant; i++)
        if (row->variant[i].is != NULL && row->variant[i].is(layer))
            extents = row->variant[i].extents;
    return extents;
}

static const struct { const char *letter; size_t offset; } sizes[] = {
    {"d_model", offsetof(struct layer, d_model)}, {"d_source", offsetof(struct layer, d_source)},
    {"h", offsetof(struct layer, h)}, {"h_kv", offsetof(struct layer, h_kv)},
    {"h_v", offsetof(struct layer, h_v)}, {"h_out", offsetof(struct layer, h_out)},
    {"conv_taps", offsetof(struct layer, conv_taps)}, {"conv_history", offsetof(struct layer, conv_history)},
    {"states", offsetof(struct layer, states)}, {"conv_channels", offsetof(struct layer, conv_channels)},
    {"kv_rank", offsetof(struct layer, latent.rank)}, {"q_rank", offsetof(struct layer, latent.q_rank)},
    {"d_latent", offsetof(struct layer, latent.d_latent)}, {"d_head", offsetof(struct layer, latent.d_head)},
    {"d_nope", offsetof(struct layer, latent.d_nope)}, {"d_value", offsetof(struct layer, latent.d_value)},
    {"d_k", offsetof(struct layer, d_k)}, {"d_v", offsetof(struct layer, d_v)},
    {"decay_rank", offsetof(struct layer, decay_rank)}, {"gate_rank", offsetof(struct layer, gate_rank)},
    {"d_in_a", offsetof(struct layer, d_in_a)}, {"d_in_z", offsetof(struct layer, d_in_z)},
    {"d_in_q", offsetof(struct layer, d_in_q)}, {"d_in_kv", offsetof(struct layer, d_in_kv)},
    {"d_out", offsetof(struct layer, d_out)}, {"d_ff", offsetof(struct layer, d_ff)},
    {"conv_width", offsetof(struct layer, conv_width)},
    {"rel_buckets", offsetof(struct layer, rel_buckets)}, {"rel_width", offsetof(struct layer, rel_width)},
    {"rope_axes", offsetof(struct layer, rope.axes)},
    {"cache_len", offsetof(struct layer, cache_len)}, {"page_len", offsetof(struct layer, page_len)},
    {"page_count", offsetof(struct layer, page_count)},
};
static const struct { const char *letter; size_t offset; } call_sizes[] = {
    {"batch", offsetof(struct layer_call, batch)}, {"n", offsetof(struct layer_call, n)},
    {"m", offsetof(struct layer_call, m)}, {"pages", offsetof(struct layer_call, pages)},
};

static bool is_letter(const char *letter, const char *text, size_t length)
{
    return strlen(letter) == length && memcmp(letter, text, length) == 0;
}

/* False for a letter that only a call knows, if `call` is NULL. */
static bool size_of(const struct layer *layer, const struct layer_call *call, const char *text, size_t length,
                    int64_t *size)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (is_letter(sizes[i].letter, text, length)) {
            memcpy(size, (const char *)layer + sizes[i].offset, sizeof *size);
            return true;
        }
    for (size_t i = 0; call != NULL && i < sizeof call_sizes / sizeof *call_sizes; i++)
        if (is_letter(call_sizes[i].letter, text, length)) {
            memcpy(size, (const char *)call + call_sizes[i].offset, sizeof *size);
            return true;
        }
    return false;
}

/* "h*d_k", "d_model/h", "n" */
static bool extent_of(const struct layer *layer, const struct layer_call *call, const struct axis *axis,
                      int64_t *extent)
{
    size_t first = 0;
    int64_t second = 1;
    while (first < axis->length && axis->text[first] != '*' && axis->text[first] != '/')
        first++;
    if (!size_of(layer, call, axis->text, first, extent))
        return false;
    if (first == axis->length)
        return true;
    const bool known = size_of(layer, call, axis->text + first + 1, axis->length - first - 1, &second);
    *extent = axis->text[first] == '*' ? *extent * second : *extent / second;
    return known;
}

/* out_in swaps the last two axes of matrices. */
static int layer_axes(const struct layer *layer, enum layer_tensor tensor, struct axis axes[4])
{
    const bool named = rows[tensor].shown.kind == TENSOR_NAMED;
    const int count = !named && layer_has_tensor(layer, tensor) ? axes_of(extents_of(layer, tensor), axes) : 0;
    if (count > 1 && rows[tensor].shown.kind == TENSOR_WEIGHT && layer->out_in) {
        const struct axis last = axes[count - 1];
        axes[count - 1] = axes[count - 2];
        axes[count - 2] = last;
    }
    return count;
}

int layer_tensor_shape(const struct layer *layer, enum layer_tensor tensor, const struct layer_call *call,
                       int64_t shape[4])
{
    struct axis axes[4];
    const struct layer_table *table = table_of(layer, tensor);
    for (int i = 0; table != NULL && i < table->axes; i++)
        shape[i] = table->extent[i];
    if (table != NULL)
        return table->axes;
    const int count = layer_axes(layer, tensor, axes);
    for (int i = 0; i < count; i++)
        if (!extent_of(layer, call, &axes[i], &shape[i]))
            return 0;
    return count;
}

int layer_weight_shape(const struct layer *layer, enum layer_tensor tensor, int64_t shape[4])
{
    return layer_tensor_shape(layer, tensor, NULL, shape);
}

void layer_tensor_text(const struct layer *layer, enum layer_tensor tensor, char text[LAYER_SHAPE_TEXT])
{
    struct axis axes[4];
    const struct layer_table *table = table_of(layer, tensor);
    const int count = table == NULL ? layer_axes(layer, tensor, axes) : 0;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; table != NULL && i < table->axes; i++)
        used += (size_t)snprintf(text + used, LAYER_SHAPE_TEXT - used, "[%lld]", (long long)table->extent[i]);
    for (int i = 0; i < count; i++) {
        int64_t extent = 0;
        char number[24];
        const bool known = extent_of(layer, NULL, &axes[i], &extent);
        if (is_self(layer) && is_letter("m", axes[i].text, axes[i].length))
            axes[i].text = "n";
        snprintf(number, sizeof number, "%lld", (long long)extent);
        used += (size_t)snprintf(text + used, LAYER_SHAPE_TEXT - used, "[%.*s%s]",
                                 known ? (int)strlen(number) : (int)axes[i].length, known ? number : axes[i].text,
                                 axes[i].or_one && !(known && extent == 1) ? " or 1" : "");
    }
}

bool layer_tensor_has_axis(const struct layer *layer, enum layer_tensor tensor, const char *letter)
{
    struct axis axes[4];
    const bool named = rows[tensor].shown.kind == TENSOR_NAMED;
    const int count = named ? 0 : axes_of(extents_of(layer, tensor), axes);
    bool has = false;
    for (int i = 0; i < count; i++)
        has = has || is_letter(letter, axes[i].text, axes[i].length);
    return has;
}
