/* SPDX-License-Identifier: MIT */
/* Everything one call of a layer reads, in the contract's shapes: drawn from a seed, or taken from a file.
 *
 * Left out on purpose: outputs, and any layout but the contract's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/tensors.h"
#include "elements.h"
#include "spec/layer.h"

#define INPUTS_EXPECTED "expect." /* prefix of a cache tensor's name: what a call must leave in it */

struct inputs {
    size_t batch, n, m;         /* self-attention, a cache: m = n */
    size_t pages;               /* of a paged cache */
    void *tensor[TENSOR_COUNT]; /* by enum layer_tensor; NULL where the layer has none; y and attn stay NULL */
    size_t mask_batch[TENSOR_COUNT], mask_h[TENSOR_COUNT]; /* extents of mask_bool and mask_add: 1 or the full one */
    bool borrows_weights;       /* they belong to other inputs, which outlive these */
    uint64_t seed;              /* seed of a training call's dropout */
    bool training;              /* forward saves data for backward, and applies dropout */
    double unit[TENSOR_COUNT];  /* the smallest nonzero scale of i8 and i4 weights; 0: there is none */
    bool pairs;                  /* columns of precision = i8 are packed for sets that sum pairs in 16 bits */
    const struct inputs *packed; /* inputs with the weights as a block has them (stored.h); NULL: they are these */
};

enum inputs_init { INIT_XAVIER, INIT_NORMAL };

struct inputs_draw {
    uint64_t seed;
    enum inputs_init init;
    size_t batch, n, m;
    bool full_lengths; /* lengths[b] = m, masks hide nothing: for timing */
    bool past_given;   /* with a cache: past of each sequence is this, if the call then fits */
    int64_t past;
    int64_t past_most; /* otherwise past is at most this, if it is not 0 */
    bool past_apart;   /* of several sequences the first has the longest past, and the last one half of it */
    bool whole_pages;  /* page tables are valid for any lengths */
    bool pairs;        /* of the inputs drawn: as they say */
    bool whole_masks;  /* each sequence and head has a mask of its own; otherwise random */
    unsigned mask_form; /* 0: random; else 4, plus 1 if the batch's extent is 1, plus 2 if that of heads is */
};

/* Shape of any tensor for this call; returns the rank, 0 for a tensor that the layer does not have. */
int inputs_shape(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor, int64_t shape[4]);
/* Elements of that shape (0 for a tensor that the layer does not have). */
size_t inputs_count(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor);

/* Whether a set packs columns so that sums of two i8 products fit into 16 bits. Results depend on that. */
bool inputs_pairs(const struct layer *layer, int isa);
/* Whether the layer takes a call of these sizes; `timed`: and there is something to time. Reasons in `diag`. */
bool inputs_fit(const struct layer *layer, const struct inputs_draw *draw, bool timed, const char *place,
                struct diag *diag);
/* On borrowed weights; NULL: they are drawn too */
void inputs_draw(struct inputs *inputs, const struct layer *layer, const struct inputs_draw *draw,
                 const struct inputs *weights);
/* Factor on random weights of this tensor: below 1 for queries with a very large scale */
double inputs_query_factor(const struct layer *layer, enum layer_tensor tensor);
/* Draws one tensor again. */
void inputs_draw_tensor(struct inputs *inputs, const struct layer *layer, enum layer_tensor tensor, uint64_t seed);
/* Copies and checks; the file may have y and attn. */
bool inputs_from_tensors(struct inputs *inputs, const struct layer *layer, const struct tensors *tensors,
                         const char *place, struct diag *diag);
/* The file type of such elements */
enum tensor_type inputs_type(enum tensor_element element);
/* Allocates every tensor of these sizes, without content. */
void inputs_allocate(struct inputs *inputs, const struct layer *layer);
/* "7" for every sequence or "7,0,12", the last one for all that follow; refused without a padding mask, and above m. */
bool inputs_set_lengths(struct inputs *inputs, const struct layer *layer, const char *list, struct diag *diag);
/* A deep copy. */
void inputs_copy(struct inputs *inputs, const struct layer *layer, const struct inputs *from);
void inputs_free(struct inputs *inputs);

/* Bytes of a tensor; number `at` of one of any of its types, in double. */
size_t inputs_bytes(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor);
static inline double inputs_number(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor,
                                   size_t at)
{
    return element_number(layer_tensor_element(layer, tensor), inputs->tensor[tensor], at);
}

/* Writes a number of a tensor; finite numbers stay finite, at most as the largest number of the type. */
void inputs_put(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor, size_t at,
                double number);

/* Small helpers, typed. */
static inline const float *inputs_floats(const struct inputs *inputs, enum layer_tensor tensor)
{
    return inputs->tensor[tensor];
}
/* The number of a tensor [batch|1][h|1][n][m] for one pair. */
double inputs_pair(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor, size_t b, size_t i,
                   size_t t, size_t j);
/* Heads of q, k or v */
static inline size_t inputs_heads(const struct layer *layer, enum layer_tensor tensor)
{
    return (size_t)(tensor == TENSOR_Q ? layer->h
                    : tensor == TENSOR_V && layer_is_recurrent(layer) ? layer->h_v : layer->h_kv);
}
/* For q, k or v: number of floats before row `row` of a head, whose width is d_k or d_v */
size_t inputs_head_row(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor, size_t b,
                       size_t row, size_t head);
/* For y: number of floats before column `column` of row t, in the layout of y; columns are counted head after head. */
size_t inputs_y_at(const struct layer *layer, const struct inputs *inputs, size_t b, size_t t, size_t column);
/* Reorders numbers for all queries from [batch][n][d_out], heads one after the other, into the layout of y. */
void inputs_order_y(const struct layer *layer, const struct inputs *inputs, double *numbers);
/* Factor by which partial sums over a column, in units of its scale, may exceed the size of its products */
static inline double inputs_spread(const struct inputs *inputs, enum layer_tensor tensor)
{
    return inputs->unit[tensor] > 0 && inputs->unit[tensor] < 1 ? 1 / inputs->unit[tensor] : 1;
}
/* Where projected keys and values come from. */
static inline enum layer_tensor inputs_source(const struct layer *layer)
{
    return layer->cross ? TENSOR_SOURCE : TENSOR_X;
}
/* Whether scores, and weighted sums, of this call are of whole numbers */
static inline bool inputs_round_scores(const struct layer *layer, const struct inputs *inputs)
{
    return layer_rounds_scores(layer, inputs->pairs) && inputs->n > (size_t)layer_few_queries(layer);
}
static inline bool inputs_round_values(const struct layer *layer, const struct inputs *inputs)
{
    return layer_rounds_values(layer, inputs->pairs) && inputs->n > (size_t)layer_few_queries(layer);
}
/* Tokens of sequence b before those of the call */
size_t inputs_past(const struct inputs *inputs, size_t b);
/* Number of keys of sequence b that the call brings and that may be read: lengths[b] with padding, else m */
static inline size_t inputs_keys(const struct inputs *inputs, size_t b)
{
    const int32_t *lengths = inputs->tensor[TENSOR_LENGTHS];
    return lengths != NULL ? (size_t)lengths[b] : inputs->m;
}
/* Keys that queries of sequence b may read are rows 0 ... inputs_rows() - 1: those in a cache, then the call's own. Row
 * 0 is the key at position inputs_first(), which is above 0 if a ring has forgotten older ones. */
int64_t inputs_first(const struct layer *layer, const struct inputs *inputs, size_t b);
size_t inputs_cached(const struct layer *layer, const struct inputs *inputs, size_t b);
static inline size_t inputs_rows(const struct layer *layer, const struct inputs *inputs, size_t b)
{
    return inputs_cached(layer, inputs, b) + inputs_keys(inputs, b);
}
/* The maximum number of rows of a sequence of the call; and the number of columns of masks and attn */
size_t inputs_most_rows(const struct layer *layer, const struct inputs *inputs);
static inline size_t inputs_columns(const struct layer *layer, const struct inputs *inputs)
{
    return layer_has_cache(layer) ? (size_t)layer->cache_len : inputs->m;
}
/* Number of keys that the queries of the longest sequence may read, to estimate the work of a call */
int64_t inputs_reach(const struct layer *layer, const struct inputs *inputs);
/* The tensors of a layer's cache: keys and values, then their scales, no values with w_v = keys; of a layer with states
 * its states, then those of its convolution. How many it has, 0 without a cache; the numbers of a row; bytes of all;
 * numbers before the row of a position; how many positions a call may reach. */
#define CACHE_PARTS 4
int inputs_cache_parts(const struct layer *layer);
/* What a call writes: y, attn, lse, the parts of a cache. The number of them, and the tensor of each; those that are
 * compared with the reference come first. */
enum call_output { OUTPUT_Y, OUTPUT_ATTN, OUTPUT_LSE, OUTPUT_CACHE, OUTPUTS_COMPARED = OUTPUT_CACHE + 2,
              OUTPUTS = OUTPUT_CACHE + CACHE_PARTS };
static inline int inputs_outputs(const struct layer *layer) { return OUTPUT_CACHE + inputs_cache_parts(layer); }
enum layer_tensor inputs_output(const struct layer *layer, int output);
/* How many of them are compared with numbers of the reference: keys and values; of a layer with states these. */
static inline int inputs_compared(const struct layer *layer)
{
    return layer_keeps_states(layer) ? layer_is_recurrent(layer) + (layer->conv_history > 0)
                                     : layer_has_cache(layer) ? layer_cached_rows(layer) : 0;
}
/* The part that has the scales of keys or values */
static inline int inputs_scales_of(const struct layer *layer, int values) { return inputs_compared(layer) + values; }
enum layer_tensor inputs_cache_of(const struct layer *layer, int part);
size_t inputs_cache_width(const struct layer *layer, int part);
size_t inputs_cache_bytes(const struct layer *layer, const struct inputs *inputs, int part);
size_t inputs_cache_row(const struct layer *layer, const struct inputs *inputs, int part, size_t b, size_t head,
                        int64_t position);
/* Number `at` of keys or values of a cache whose parts these are. */
double inputs_cached_number(const struct layer *layer, const void *const cache[CACHE_PARTS], bool values, size_t at);
/* The parts of the inputs' own cache; NULL for parts that it lacks */
void inputs_caches(const struct layer *layer, const struct inputs *inputs, const void *cache[CACHE_PARTS]);
int64_t inputs_positions(const struct layer *layer);
/* For each row of a cache's keys or values: 1 plus the index in [batch][h_kv][n] of the new row that a call stores
 * there, or 0 if the call must not change it. free() it. */
size_t *inputs_new_rows(const struct layer *layer, const struct inputs *inputs, bool values);
/* Position of query t of sequence b. */
int64_t inputs_position(const struct layer *layer, const struct inputs *inputs, size_t b, size_t t);

/* The random numbers: splitmix64. */
struct random {
    uint64_t state;
};
uint64_t random_bits(struct random *random);
double random_uniform(struct random *random); /* 0 <= … < 1 */
double random_normal(struct random *random);
