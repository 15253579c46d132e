/* SPDX-License-Identifier: MIT */
/* All that steps read and write, the tensors of a call and the kernel's own: owners, shapes, strides and places.
 *
 * Left out on purpose: which of them a plan has (the step that writes one decides), and where (plan_places.c).
 */
#pragma once

#include <stdint.h>

#include "spec/layer.h"

#define PLAN_STEPS 72 /* room for the rows of step_rows.h */

enum layout_owner {
    OWNER_CALLER, OWNER_PACKED, OWNER_SCRATCH, OWNER_WORKER,
    OWNER_KEPT, /* of source_kept: what a sequence's source became, for later calls */
    OWNER_BACK, OWNER_BACK_WORKER, /* backward: after forward's scratch; the part of a worker */
    OWNERS
};

/* Everything that has a place in memory: the tensors of a call that products read or write, then the kernel's own. */
enum layout_name {
    LAYOUT_NONE, LAYOUT_X, LAYOUT_SOURCE, LAYOUT_Y, /* input = projected: q and k in place of x and source */
    LAYOUT_TYPED_X, LAYOUT_TYPED_SOURCE, LAYOUT_TYPED_V, LAYOUT_TYPED_Y, /* under tensor_type those of the caller: then
                                        * those above are floats in the scratch, y maybe a worker's */
    LAYOUT_ATTN_ROWS, LAYOUT_ATTN_SPLIT, /* tensor_type: rows of attn as floats [query of a tile][key]; of segments */
    LAYOUT_S_T,                        /* the source in blocks, where values are projected from it */
    LAYOUT_QUERIES, LAYOUT_KEYS, LAYOUT_VALUES, LAYOUT_Z, /* of the kernel, or the caller's own */
    LAYOUT_LATENT_Q, LAYOUT_HEADS_Q, LAYOUT_Z_UP, /* latent attention: what queries are made of; queries of heads
                                                   * before W_UK; z after W_UV */
    LAYOUT_LATENTS, LAYOUT_HEAD_KEYS, LAYOUT_HEAD_VALUES, /* of a block of keys rows of the cache, keys of a head; of a
                                                           * segment its values, and the keys across; of a block of */
    LAYOUT_HEAD_K_T, LAYOUT_HEAD_Q, LAYOUT_HEAD_SCORES, LAYOUT_HEAD_SUMS, LAYOUT_HEAD_STATE, /* rows what those below */
    LAYOUT_HEAD_TOTALS,                /* are; sums of all queries, then m and l of each */
    LAYOUT_KEPT_SOURCE,                /* a copy of the source, where keys or values are its own rows */
    LAYOUT_KEPT,                       /* room in the scratch for what a call does not keep */
    LAYOUT_NORMED, LAYOUT_NORMED_2,    /* rows of a block that attention, or the feed-forward, reads in place of x */
    LAYOUT_STREAM,                     /* x and what attention adds to it */
    /* words of whole numbers, each row followed by its scale */
    LAYOUT_ROUNDED_X, LAYOUT_ROUNDED_SOURCE, LAYOUT_ROUNDED_KEYS, LAYOUT_ROUNDED_VALUES, LAYOUT_ROUNDED_Z,
    LAYOUT_ROUNDED_STREAM, LAYOUT_ROUNDED_HIDDEN,
    LAYOUT_PANEL,                      /* of narrow weights as f32 */
    LAYOUT_HIDDEN, LAYOUT_GATES,       /* between the products of the feed-forward; of a block of rows, what gates it */
    LAYOUT_K_CACHE, LAYOUT_V_CACHE,    /* keys and values of all tokens so far; those two above are of new ones then */
    LAYOUT_Q_ROWS, LAYOUT_K_T, LAYOUT_DOTS, LAYOUT_TOTALS, LAYOUT_STATE, /* of a block of rows */
    LAYOUT_ROW_SCALES,                 /* scales of a block's keys and values, and of their whole numbers */
    LAYOUT_PARTIALS,                   /* sums of segments, where each is a part */
    LAYOUT_RAW_QUERIES, LAYOUT_RAW_KEYS, /* train: rows before their norm */
    LAYOUT_RANGES,                     /* of keys, for each vector of queries */
    LAYOUT_TURNED, LAYOUT_TURNED_KEYS, /* cosines and sines of positions that are not packed; of given keys */
    LAYOUT_ROW_SUMS, LAYOUT_SEVEN,     /* of fast products: of a group's rows; of two tiles and two panels */
    LAYOUT_SCORES, LAYOUT_VISIBLE, LAYOUT_OPERANDS, LAYOUT_TILE, LAYOUT_Q_T, /* of a tile of queries */
    LAYOUT_OF_QUERIES, LAYOUT_OF_KEYS,  /* their products with vectors of distances: of a tile, of a head's keys */
    LAYOUT_REL_K, LAYOUT_REL_Q, LAYOUT_REL_U, LAYOUT_REL_V, LAYOUT_REL_ROWS,
    LAYOUT_RELATIVE, LAYOUT_RELATIVE_BACK, LAYOUT_SINK, LAYOUT_G_Q, LAYOUT_C_Q, LAYOUT_G_K, LAYOUT_C_K,
    LAYOUT_G_DQ, LAYOUT_G_DKV, LAYOUT_TURNS,
    LAYOUT_N1_G, LAYOUT_N1_B, LAYOUT_N2_G, LAYOUT_N2_B, LAYOUT_N3_G, LAYOUT_N3_B, LAYOUT_N4_G, LAYOUT_N4_B,
    /* of backward: the caller's, and z as forward keeps it; weights the other way round; gradients by heads; operands
     * of tiles, of attention and else */
    LAYOUT_DY, LAYOUT_DX, LAYOUT_DSOURCE, LAYOUT_DW_Q, LAYOUT_DW_K, LAYOUT_DW_V, LAYOUT_DW_O, LAYOUT_SAVED_Z,
    LAYOUT_BACK_W_Q, LAYOUT_BACK_W_K, LAYOUT_BACK_W_V, LAYOUT_BACK_W_O,
    LAYOUT_D_QUERIES, LAYOUT_D_KEYS, LAYOUT_D_VALUES, LAYOUT_D_Z, LAYOUT_D_DISTANCES, LAYOUT_D_SINK,
    LAYOUT_D_NORM_Q, LAYOUT_D_NORM_K,  /* of gains, then shifts, by parts of their rows */
    LAYOUT_K_PANELS, LAYOUT_V_PANELS, LAYOUT_K_BLOCKS, LAYOUT_Q_STRIPS, LAYOUT_DZ_STRIPS, LAYOUT_Q_PANELS,
    LAYOUT_DZ_PANELS, LAYOUT_BACK_P, LAYOUT_BACK_DS, LAYOUT_BACK_SEES, LAYOUT_BACK_STRIPS, LAYOUT_STRIPS, LAYOUT_PANELS,
    LAYOUT_SPARE,
    LAYOUT_STRIP, LAYOUT_DECAYS,       /* recurrent: columns of a state; of its rows in two tokens */
    LAYOUT_NEAR, LAYOUT_SUMS, LAYOUT_SHARES, LAYOUT_PAIRS, /* of a chunk: its keys and queries; these times rows of a
                                        * state; what its tokens are to each other, and products before; of each token
                                        * decays, corrections' shares and what gates the output; learned */
    LAYOUT_DECAY, LAYOUT_BETA, LAYOUT_OUT_GATES, LAYOUT_LOW_A, LAYOUT_LOW_Z,
    LAYOUT_A_LOG, LAYOUT_DT_B, LAYOUT_CONV_Q, LAYOUT_CONV_K, LAYOUT_CONV_V, LAYOUT_G_O,
    LAYOUT_CONV_Q_B, LAYOUT_CONV_K_B, LAYOUT_CONV_V_B, LAYOUT_SKIP,
    LAYOUT_BEFORE, LAYOUT_CONV_X, LAYOUT_B, /* convolution: tokens before a call's, and its first ones; of x, learned */
    LAYOUT_TABLES,                     /* of the spec; the same once more, each row between `lanes` of its ends */
    LAYOUT_RUNS = LAYOUT_TABLES + LAYER_TABLES, /* and backwards */
    LAYOUT_WEIGHTS = LAYOUT_RUNS + LAYER_TABLES, /* of each product */
    LAYOUT_SCALES = LAYOUT_WEIGHTS + PLAN_STEPS, /* of their columns; none of f32 */
    LAYOUT_BIASES = LAYOUT_SCALES + PLAN_STEPS,
    LAYOUT_WEIGHT_SUMS = LAYOUT_BIASES + PLAN_STEPS, /* of fast products */
    LAYOUTS = LAYOUT_WEIGHT_SUMS + PLAN_STEPS
};

/* Axes of an activation; a layout with fewer axes has the last ones. */
enum layout_axis { AXIS_HEAD, AXIS_BLOCK, AXIS_TOKEN, AXIS_FEATURE, AXES };
#define STRIDE_OF_CALL (-1) /* known only in the call */

struct layout {
    const char *name;   /* NULL: the plan does not have this layout */
    enum layout_owner owner;
    enum tensor_element element;
    int64_t shape[AXES], stride[AXES]; /* strides in elements */
    int64_t at;         /* bytes from the start of the owner's block; a multiple of 64 */
};
/* Elements from the first to one past the last, padding of rows included. */
int64_t layout_elements(const struct layout *layout);
