/* SPDX-License-Identifier: MIT */
/* Everything one call of a layer reads, in the contract's shapes: drawn from a seed, or taken from a file.
 *
 * Left out on purpose: outputs, and any layout but the contract's.
 */
#ifndef ATTNRUN_INPUTS_H
#define ATTNRUN_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../gen/diag.h"
#include "../../gen/layer.h"
#include "../../gen/tensors.h"
#include "elements.h"

#define INPUTS_EXPECTED "expect." /* before the name of a cache's tensor: as a call must leave it */

struct inputs {
    size_t batch, n, m;         /* self-attention, a cache: m = n */
    size_t pages;               /* of a paged cache */
    void *tensor[TENSOR_COUNT]; /* by enum layer_tensor; NULL where the layer has none; y and attn stay NULL */
    size_t mask_batch[TENSOR_COUNT], mask_h[TENSOR_COUNT]; /* extents of mask_bool and mask_add: 1 or the full one */
    bool borrows_weights;       /* they are another's, which outlives this one */
    uint64_t seed;              /* of a call that trains: of its dropout */
    bool training;              /* forward keeps something for backward, and drops what the layer says */
    double unit[TENSOR_COUNT];  /* of weights as i8 and i4 have them: the least but 0; 0: they have none */
    bool pairs;                  /* columns of precision = i8 are packed as sets have them that sum pairs in 16 bits */
    const struct inputs *packed; /* whose weights are what a block has of these (stored.h); NULL: they are these */
};

enum inputs_init { INIT_XAVIER, INIT_NORMAL };

struct inputs_draw {
    uint64_t seed;
    enum inputs_init init;
    size_t batch, n, m;
    bool full_lengths; /* lengths[b] = m, masks hide nothing: for timing */
    bool past_given;   /* of a cache: past of each sequence is this, as far as the call then fits */
    int64_t past;
    int64_t past_most; /* else it is at most that, if this is not 0 */
    bool past_apart;   /* of several sequences the first one has the most, and the last one half of it */
    bool whole_pages;  /* page tables are good for any lengths */
    bool pairs;        /* of the inputs drawn: as they say */
    bool whole_masks;  /* each sequence and head has a mask of its own; else as drawn */
    unsigned mask_form; /* 0: drawn; else 4, plus 1: the batch's extent is 1, plus 2: that of heads is */
};

/* Shape of any tensor of the contract for this call; returns the rank, 0 for one that the layer does not have. */
int inputs_shape(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor, int64_t shape[4]);
/* Elements of that shape (0 for a tensor that the layer does not have). */
size_t inputs_count(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor);

/* Whether a set packs columns so that sums of two products of i8 fit 16 bits: results are of that rule or the other. */
bool inputs_pairs(const struct layer *layer, int isa);
bool inputs_draw(struct inputs *inputs, const struct layer *layer, const struct inputs_draw *draw, struct diag *diag);
/* What drawn weights of this tensor are multiplied by: below 1 for those of queries where the scale is very large. */
double inputs_query_factor(const struct layer *layer, enum layer_tensor tensor);
/* The same call on weights that stand elsewhere: they are borrowed. */
bool inputs_draw_call(struct inputs *inputs, const struct layer *layer, const struct inputs_draw *draw,
                      const struct inputs *weights, struct diag *diag);
/* Draws one tensor again. */
void inputs_draw_tensor(struct inputs *inputs, const struct layer *layer, enum layer_tensor tensor, uint64_t seed);
/* Copies and checks; y and attn may stand in the file. */
bool inputs_from_tensors(struct inputs *inputs, const struct layer *layer, const struct tensors *tensors,
                         const char *place, struct diag *diag);
/* The type of a file that has such elements. */
enum tensor_type inputs_type(enum tensor_element element);
/* Memory for every tensor of these sizes, with nothing in it yet. */
bool inputs_allocate(struct inputs *inputs, const struct layer *layer, struct diag *diag);
/* "7" for every sequence or "7,0,12", the last for all that follow; refused without a mask of padding, and past m. */
bool inputs_set_lengths(struct inputs *inputs, const struct layer *layer, const char *list, struct diag *diag);
/* A deep copy. */
bool inputs_copy(struct inputs *inputs, const struct layer *layer, const struct inputs *from, struct diag *diag);
void inputs_free(struct inputs *inputs);

/* Bytes of a tensor; number `at` of one of any of its types, in double. */
size_t inputs_bytes(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor);
static inline double inputs_number(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor,
                                   size_t at)
{
    return element_number(layer_tensor_element(layer, tensor), inputs->tensor[tensor], at);
}

/* Writes one of a tensor; what is finite stays that, if as the largest number of the type. */
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
/* Of q, k or v: floats before row `row` of a head; its width is d_k or d_v. */
size_t inputs_head_row(const struct layer *layer, const struct inputs *inputs, enum layer_tensor tensor, size_t b,
                       size_t row, size_t head);
/* Of y: floats before column `column` of row t, heads one after the other whatever their layout is. */
size_t inputs_y_at(const struct layer *layer, const struct inputs *inputs, size_t b, size_t t, size_t column);
/* Numbers of y for all queries, [batch][n][d_out] with heads one after the other, in the order of y itself. */
bool inputs_order_y(const struct layer *layer, const struct inputs *inputs, double *numbers);
/* How much larger than its products' sizes the sums over a column may be on the way, in its unit. */
static inline double inputs_spread(const struct inputs *inputs, enum layer_tensor tensor)
{
    return inputs->unit[tensor] > 0 && inputs->unit[tensor] < 1 ? 1 / inputs->unit[tensor] : 1;
}
/* Where projected keys and values come from. */
static inline enum layer_tensor inputs_source(const struct layer *layer)
{
    return layer->cross ? TENSOR_SOURCE : TENSOR_X;
}
/* Keys of sequence b that the call brings and that may be looked at: lengths[b] with padding, else m. */
static inline size_t inputs_keys(const struct inputs *inputs, size_t b)
{
    const int32_t *lengths = inputs->tensor[TENSOR_LENGTHS];
    return lengths != NULL ? (size_t)lengths[b] : inputs->m;
}
/* All keys that queries of sequence b may look at are rows 0 ... inputs_rows() - 1: those that a cache holds, then
 * those of the call. Row 0 is the key of position inputs_first(), which is not 0 where a ring has forgotten older
 * ones. */
int64_t inputs_first(const struct layer *layer, const struct inputs *inputs, size_t b);
size_t inputs_cached(const struct layer *layer, const struct inputs *inputs, size_t b);
static inline size_t inputs_rows(const struct layer *layer, const struct inputs *inputs, size_t b)
{
    return inputs_cached(layer, inputs, b) + inputs_keys(inputs, b);
}
/* The most rows that a sequence of the call has; and the columns of masks and attn. */
size_t inputs_most_rows(const struct layer *layer, const struct inputs *inputs);
static inline size_t inputs_columns(const struct layer *layer, const struct inputs *inputs)
{
    return layer_has_cache(layer) ? (size_t)layer->cache_len : inputs->m;
}
/* Keys that the queries of a call may look at, of the longest sequence: for estimates of its work. */
int64_t inputs_reach(const struct layer *layer, const struct inputs *inputs);
/* The tensors of a layer's cache: 0 keys, 1 values, 2 and 3 their scales. How many it has, 0 without a cache; the
 * numbers of a row; bytes of all; numbers before the row of a position; how many positions a call may reach. */
#define CACHE_PARTS 4
int inputs_cache_parts(const struct layer *layer);
enum layer_tensor inputs_cache_of(const struct layer *layer, int part);
size_t inputs_cache_width(const struct layer *layer, int part);
size_t inputs_cache_bytes(const struct layer *layer, const struct inputs *inputs, int part);
size_t inputs_cache_row(const struct layer *layer, const struct inputs *inputs, int part, size_t b, size_t head,
                        int64_t position);
/* Number `at` of keys or values of a cache whose parts these are. */
double inputs_cached_number(const struct layer *layer, const void *const cache[CACHE_PARTS], bool values, size_t at);
/* The parts of the inputs' own cache; NULL those that it does not have. */
void inputs_caches(const struct layer *layer, const struct inputs *inputs, const void *cache[CACHE_PARTS]);
int64_t inputs_positions(const struct layer *layer);
/* For each row of a cache's keys or values which new one it is after a call, of [batch][h_kv][n], plus 1; 0: none, the
 * call must leave it as it is. malloc'd; NULL without memory. */
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

#endif
