/* SPDX-License-Identifier: MIT */
/* The tensors of a layer: what each is called, made of and shaped like, and when a layer has it, by tensor_rows.h.
 *
 * All that asks for names, shapes, types or presence reads this table: specs that are too large, --explain, the emitted
 * header and its checks, what attnrun draws, reads from files and hands to a kernel.
 */
#include "spec/layer.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* What several rows ask of a layer */
static bool projects(const struct layer *l) { return layer_mixes(l) && !l->projected; }
static bool has_keys(const struct layer *l) { return projects(l) && !l->tied && !layer_is_latent(l); }
static bool has_values(const struct layer *l) { return projects(l) && !l->identity && !l->shares; }
static bool has_output(const struct layer *l) { return layer_mixes(l) && l->w_o != W_O_NONE; }
static bool has_gains(const struct layer *l)
{
    return l->qk_norm != NORM_NONE && l->qk_norm != NORM_L2 && l->qk_norm != NORM_L2_SUM;
}
static bool makes_states(const struct layer *l) { return layer_is_recurrent(l) && !l->projected; }
static bool makes_decay(const struct layer *l) { return makes_states(l) && layer_decays(l); }
static bool has_taps(const struct layer *l) { return makes_states(l) && l->conv_taps > 0; }
static bool has_out_gate(const struct layer *l) { return makes_states(l) && l->out_gate != OUT_GATE_NONE; }

/* Named and shaped by the spec: struct layer's tables. */
_Static_assert(LAYER_TABLES == TENSOR_TABLE_LAST - TENSOR_TABLE + 1, "a row for each of them");
static const struct layer_table *table_of(const struct layer *layer, enum layer_tensor tensor)
{
    return tensor >= TENSOR_TABLE && tensor <= TENSOR_TABLE_LAST && tensor - TENSOR_TABLE < layer->table_count
               ? &layer->tables[tensor - TENSOR_TABLE] : NULL;
}

#define TENSOR(id, of_name, of_kind, element, extents, has, ...) \
    [TENSOR_##id] = {.name = #of_name, .kind = TENSOR_##of_kind, .type = TENSOR_##element, __VA_ARGS__},
static const struct layer_tensor_row rows[TENSOR_COUNT] = {
#include "spec/tensor_rows.h"
};
#undef TENSOR

bool layer_has_tensor(const struct layer *l, enum layer_tensor tensor)
{
    switch (tensor) {
#define TENSOR(id, name, kind, element, extents, has, ...) case TENSOR_##id: return has;
#include "spec/tensor_rows.h"
#undef TENSOR
    default: return false;
    }
}

/* NULL: those of the spec's table */
static const char *extents_of(const struct layer *l, enum layer_tensor tensor)
{
    switch (tensor) {
#define TENSOR(id, name, kind, element, extents, has, ...) case TENSOR_##id: return extents;
#include "spec/tensor_rows.h"
#undef TENSOR
    default: return NULL;
    }
}

const struct layer_tensor_row *layer_tensor_row(enum layer_tensor tensor)
{
    return &rows[tensor];
}

const char *layer_tensor_name(enum layer_tensor tensor)
{
    return tensor < TENSOR_COUNT ? rows[tensor].name : NULL;
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
    return cached ? layer->cache_type : typed ? layer->tensor_type : rows[tensor].type;
}

size_t layer_tensor_size(const struct layer *layer, enum layer_tensor tensor)
{
    return element_size(layer_tensor_element(layer, tensor));
}

const struct element element_rows[] = {
    [TENSOR_F32] = {"f32", "float", 4, 24, -149, FLT_MAX, 0x7f800000, NULL},
    [TENSOR_I32] = {.name = "i32", .word = "int32_t", .size = 4},
    [TENSOR_BOOL] = {.name = "bool", .word = "unsigned char", .size = 1},
    [TENSOR_BF16] = {"bf16", "uint16_t", 2, 8, -133, 0x1.fep127, 0x7f80, NULL},
    [TENSOR_F16] = {"f16", "uint16_t", 2, 11, -24, 65504, 0x7c00, "65520 or more"},
    [TENSOR_I8] = {.name = "i8", .word = "int8_t", .size = 1},
    [TENSOR_I4] = {.name = "i4", .word = "uint8_t", .size = 1}};

size_t element_size(enum tensor_element element)
{
    return element_rows[element].size;
}

const char *element_name(enum tensor_element element)
{
    return element_rows[element].name;
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
    const enum tensor_kind kind = rows[tensor].kind;
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

#define SIZE(of, name) {#name, offsetof(struct of, name)}
#define OF_LAYER(name) SIZE(layer, name)
static const struct { const char *letter; size_t offset; } sizes[] = {
    OF_LAYER(d_model), OF_LAYER(d_source), OF_LAYER(h), OF_LAYER(h_kv), OF_LAYER(h_v), OF_LAYER(h_out),
    OF_LAYER(conv_taps), OF_LAYER(conv_history), OF_LAYER(states), OF_LAYER(conv_channels),
    {"kv_rank", offsetof(struct layer, latent.rank)}, {"q_rank", offsetof(struct layer, latent.q_rank)},
    {"d_latent", offsetof(struct layer, latent.d_latent)}, {"d_head", offsetof(struct layer, latent.d_head)},
    {"d_nope", offsetof(struct layer, latent.d_nope)}, {"d_value", offsetof(struct layer, latent.d_value)},
    OF_LAYER(d_k), OF_LAYER(d_v), OF_LAYER(decay_rank), OF_LAYER(gate_rank), OF_LAYER(d_in_a), OF_LAYER(d_in_z),
    OF_LAYER(d_in_q), OF_LAYER(d_in_kv), OF_LAYER(d_out), OF_LAYER(d_ff), OF_LAYER(conv_width),
    OF_LAYER(rel_buckets), OF_LAYER(rel_width), {"rope_axes", offsetof(struct layer, rope.axes)},
    OF_LAYER(cache_len), OF_LAYER(page_len), OF_LAYER(page_count),
};
static const struct { const char *letter; size_t offset; } call_sizes[] = {
    SIZE(layer_call, batch), SIZE(layer_call, n), SIZE(layer_call, m), SIZE(layer_call, pages),
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
    const bool named = rows[tensor].kind == TENSOR_NAMED;
    const int count = !named && layer_has_tensor(layer, tensor) ? axes_of(extents_of(layer, tensor), axes) : 0;
    if (count > 1 && rows[tensor].kind == TENSOR_WEIGHT && layer->out_in) {
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
        if (layer->self && is_letter("m", axes[i].text, axes[i].length))
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
    const bool named = rows[tensor].kind == TENSOR_NAMED;
    const int count = named ? 0 : axes_of(extents_of(layer, tensor), axes);
    bool has = false;
    for (int i = 0; i < count; i++)
        has = has || is_letter(letter, axes[i].text, axes[i].length);
    return has;
}
