/* SPDX-License-Identifier: MIT */
/* Layouts of what a call brings, of what stands for it (rows that are normed, or floats of two-byte numbers), and what
 * steps ask of rows.
 *
 * Left out on purpose: layouts that a step writes alone (its file).
 */
#include "plan/planning.h"

#define BATCH_SHORT 6            /* measured: shorter sequences gain by shared tiles, longer ones lose a little */

/* A row stride at a multiple of 2 KiB would put every row into the same few sets of L1: one vector more. */
int64_t row_stride(const struct plan_isa *p, int64_t columns)
{
    return columns % 512 == 0 ? columns + p->lanes : columns;
}

struct layout rows_of(const char *name, enum layout_owner owner, int64_t heads, int64_t tokens, int64_t features,
                             int64_t head, int64_t row)
{
    return (struct layout){.name = name, .owner = owner,
                           .shape = {heads, 1, tokens, features}, .stride = {head, 0, row, 1}};
}

/* A tensor [token][head][d] or [head][token][d] of a call. With heads = first their step is known only then. */
struct layout given_of(const struct layer *layer, const char *name, int64_t heads, int64_t tokens, int64_t d)
{
    const bool first = layer->heads_first;
    return rows_of(name, OWNER_CALLER, heads, tokens, d, first ? STRIDE_OF_CALL : d, (first ? 1 : heads) * d);
}

/* [block of tokens][head][feature][token]; `head`: features from head to head */
struct layout blocks_of(const struct plan_isa *p, const char *name, int64_t heads, int64_t blocks,
                               int64_t features, int64_t head, int64_t columns)
{
    return (struct layout){.name = name, .owner = OWNER_SCRATCH, .shape = {heads, blocks, p->block, features},
                           .stride = {head * p->block, columns * p->block, 1, p->block}};
}

/* x, or the source; a head's columns of it */
static struct layout input_of(const struct plan_isa *p, const struct layer *layer, const char *name, bool source)
{
    const int64_t d = source ? layer->d_in_kv : layer->d_in_q, columns = source ? layer->d_source : layer->d_model;
    const bool copied = (layer_norms_first(layer) || layer_types_tensors(layer)) && !(source && layer->cross);
    return rows_of(name, OWNER_CALLER, layer->split ? layer->h : 1,
                   source ? layer_new_keys(layer) : layer->seq_len, d, layer->split ? d : 0,
                   copied ? row_stride(p, columns) : columns);
}

/* Whether rows are where a call has them */
bool is_callers(const struct plan_isa *p, enum layout_name id)
{
    return p->layouts[id].owner == OWNER_CALLER;
}

/* The rows that queries, or keys and values, are made of */
enum layout_name input_read(const struct layer *layer, bool queries)
{
    return layer->cross && !queries ? LAYOUT_SOURCE : layer_norms_first(layer) ? LAYOUT_NORMED : LAYOUT_X;
}

/* The rows that the feed-forward reads, or the one product of layer = linear */
enum layout_name rows_read(const struct plan_isa *p, const struct layer *layer)
{
    if (!layer_mixes(layer))
        return layer_norms_first(layer) ? LAYOUT_NORMED : LAYOUT_X;
    return layer->block == BLOCK_POST || layer->block == BLOCK_OUTPUTS ? LAYOUT_STREAM
         : p->layouts[LAYOUT_NORMED_2].name != NULL ? LAYOUT_NORMED_2 : LAYOUT_NORMED;
}

/* Rows as wide as x in the scratch */
struct layout stream_of(const struct plan_isa *p, const struct layer *layer, const char *name)
{
    return rows_of(name, OWNER_SCRATCH, 1, max(layer->seq_len, p->batch_rows), layer->d_model, 0,
                   row_stride(p, layer->d_model));
}

/* Under tensor_type: `typed` becomes the caller's tensor, with row stride `row`, and `of`, which kernels read, floats
 * in the scratch. */
static void type_input(struct plan_isa *p, const struct layer *layer, enum layout_name of, enum layout_name typed,
                       int64_t tokens, int64_t row)
{
    if (!layer_types_tensors(layer))
        return;
    struct layout *const l = &p->layouts[of];
    p->layouts[typed] = *l;
    p->layouts[typed].element = layer->tensor_type;
    p->layouts[typed].stride[AXIS_TOKEN] = row;
    l->owner = OWNER_SCRATCH;
    l->shape[AXIS_TOKEN] = tokens;
    if (l->stride[AXIS_HEAD] == STRIDE_OF_CALL)
        l->stride[AXIS_HEAD] = tokens * l->stride[AXIS_TOKEN];
}

/* The same of y: floats in the scratch, or in a block of the worker's (plan_narrow), before it is rounded to the
 * caller's. */
void type_output(struct plan_isa *p, const struct layer *layer)
{
    if (!layer_types_tensors(layer))
        return;
    struct layout *const y = &p->layouts[LAYOUT_Y];
    p->layouts[LAYOUT_TYPED_Y] = *y;
    p->layouts[LAYOUT_TYPED_Y].element = layer->tensor_type;
    *y = rows_of("y as f32", OWNER_SCRATCH, 1, max(layer->seq_len, p->batch_rows), layer->d_out, 0,
                 row_stride(p, layer->d_out));
}

/* x, the source and what stands for them; keys and values that are rows of these */
void plan_inputs(struct plan_isa *p, const struct layer *layer)
{
    const bool typed = layer_types_tensors(layer);
    p->layouts[LAYOUT_X] = rows_of("x", OWNER_CALLER, layer->split ? layer->h : 1, layer->seq_len, layer->d_in_q,
                                   layer->split ? layer->d_in_q : 0,
                                   typed ? row_stride(p, layer->d_model) : layer->d_model);
    type_input(p, layer, LAYOUT_X, LAYOUT_TYPED_X, max(layer->seq_len, p->batch_rows), layer->d_model);
    if (layer_norms_first(layer)) {
        p->layouts[LAYOUT_NORMED] = input_of(p, layer, "normed", false);
        p->layouts[LAYOUT_NORMED].owner = OWNER_SCRATCH;
        p->layouts[LAYOUT_NORMED].shape[AXIS_TOKEN] = max(layer->seq_len, p->batch_rows);
    }
    if (layer->cross) {
        p->layouts[LAYOUT_SOURCE] = input_of(p, layer, "source", true);
        type_input(p, layer, LAYOUT_SOURCE, LAYOUT_TYPED_SOURCE, max(layer->source_len, p->batch_sources),
                   layer->d_source);
    }
    if (p->fold->scores)
        p->layouts[LAYOUT_KEYS] = input_of(p, layer, "keys", true);
    if ((layer->identity || p->fold->values) && !p->value_blocks)
        p->layouts[LAYOUT_VALUES] = input_of(p, layer, "values", true);
}

/* Queries, keys and values as a call brings them; the first two maybe normed or rotated into the scratch. `batch`: how
 * many are together is known. */
void plan_given(struct plan_isa *p, const struct layer *layer, bool batch)
{
    const bool copies = layer_finishes(layer);
    const int64_t m = layer_new_keys(layer), d = layer->d_k, row = row_stride(p, d);
    const int64_t queries = max(layer->seq_len, p->batch_rows), keys = max(m, p->batch_sources);
    const enum layout_name of_q = copies ? LAYOUT_X : LAYOUT_QUERIES, of_k = copies ? LAYOUT_SOURCE : LAYOUT_KEYS;
    p->layouts[of_q] = given_of(layer, "q", layer->h, layer->seq_len, d);
    p->layouts[of_k] = given_of(layer, "k", layer->h_kv, m, d);
    if (!layer->shares)
        p->layouts[LAYOUT_VALUES] = given_of(layer, "v", layer->h_kv, m, layer->d_v);
    if (batch) {
        type_input(p, layer, of_q, LAYOUT_TYPED_X, queries, p->layouts[of_q].stride[AXIS_TOKEN]);
        type_input(p, layer, of_k, LAYOUT_TYPED_SOURCE, keys, p->layouts[of_k].stride[AXIS_TOKEN]);
        if (!layer->shares)
            type_input(p, layer, LAYOUT_VALUES, LAYOUT_TYPED_V, keys, p->layouts[LAYOUT_VALUES].stride[AXIS_TOKEN]);
    }
    if (!copies)
        return;
    p->layouts[LAYOUT_QUERIES] = rows_of("queries", OWNER_SCRATCH, layer->h, queries, d, queries * row, row);
    p->layouts[LAYOUT_KEYS] = rows_of("keys", OWNER_SCRATCH, layer->h_kv, keys, d, keys * row, row);
}

enum plan_group plan_group(const struct layer *layer)
{
    const bool rewrites = layer_finishes(layer) || layer_types_tensors(layer) ||
                          layer_rounds_ahead(layer, false); /* q, k and v are copied into the scratch, or k and v as
                                                             * words */
    if (layer_is_linear(layer))
        return layer->row_norm || layer->pad_skipped || layer_rounds_rows(layer) || rewrites ? GROUP_QUERIES
                                                                                              : GROUP_ALL;
    if (layer_is_convolution(layer))
        return GROUP_ALL;
    if (layer->projected && !rewrites)
        return layer->w_o == W_O_NONE && (layer->mask & MASK_SEGMENTS) == 0 ? GROUP_ALL : GROUP_QUERIES;
    return !layer_attends(layer) ? GROUP_QUERIES : layer->source_kept ? GROUP_SOURCES_APART : GROUP_BOTH;
}

/* exact = portable: gradients of gains add up by parts of what is taken together, those of W_K to those of W_Q */
bool batches_apart(const struct layer *layer)
{
    return layer->portable && layer->train && (layer->tied || layer_has_tensor(layer, TENSOR_G_Q));
}

/* How many tokens of a batch's sequences are projected as one matrix. Where weights come from beyond L2, enough that a
 * panel is worth fetching; else of very short sequences as many as fill their tiles. Never more than that the longer
 * input, queries or keys, exceeds that by more than one sequence. Not possible where a sequence must begin with a block
 * of its own (values in blocks), has zeros before it (convolution), or has memory after it that may not be read. Nor
 * where no matrix is left: projected, w_o = none. Where keys and values are kept, each sequence has a place of its own
 * for them: a call that brings sources takes them one by one, and queries alone make the matrix of the others. */
void choose_batch(struct plan_isa *p, const struct layer *layer)
{
    const bool apart = p->value_blocks || (layer->cross && (layer->mask & MASK_PADDING)); /* sequences' keys cannot
                                                                                           * be one matrix */
    if ((apart && !layer->source_kept) || layer->w_o == W_O_CONV || (layer->projected && layer->w_o == W_O_NONE) ||
        batches_apart(layer))
        return;
    const double weights = packed_weights(layer, p->fold->scores, p->fold->values);
    const bool stays = weights * (double)element_size(p->weights) <= (double)p->isa->l2_bytes;
    const int64_t fills = layer->seq_len < BATCH_SHORT ? 8 * p->lanes : 1;
    const int64_t wanted = request_or(&p->request, PLAN_BATCH_ROWS, stays ? fills : BATCH_ROWS);
    const int64_t queries = ceil_div(wanted, layer->seq_len), keys = ceil_div(wanted, layer_new_keys(layer));
    const int64_t sequences = plan_group(layer) == GROUP_BOTH ? min(queries, keys) : queries;
    p->batch_rows = sequences * layer->seq_len;
    p->batch_sources = layer->source_kept ? 0 : sequences * layer_new_keys(layer);
}

/* Blocks of rows of a layer without attention, rows of x and of y */
void plan_rowwise(struct plan_isa *p, const struct layer *layer)
{
    p->vecs = request_or(&p->request, PLAN_QUERY_VECS, choose_query_vecs(p, layer->seq_len, false));
    p->block = p->vecs * p->lanes;
    p->at_once = !p->small;
    if (!p->small || request_asks(&p->request, PLAN_BATCH_ROWS))
        choose_batch(p, layer);
    p->query_blocks = p->source_blocks = ceil_div(max(layer->seq_len, p->batch_rows), p->block);
    p->layouts[LAYOUT_Y] = rows_of("y", OWNER_CALLER, 1, layer->seq_len, layer->d_out, 0, layer->d_out);
    type_output(p, layer);
    plan_inputs(p, layer);
}
