/* SPDX-License-Identifier: MIT */
/* A product whose weights lie in panels: what its tiles, panels, row groups and parts are.
 *
 * Left out on purpose: which products there are (step_rows.h), and the SIMD words of a tile (templates/tiles).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "plan/tiles.h"
#include "spec/layer.h"

/* A product C = A W with tokens as rows (queries, keys, values, output, convolution): W in panels,
 * features along the lanes. */
struct plan_panels {
    enum tensor_element element; /* of A; sums are f32 */
    enum tensor_element weights; /* of W; of another type than f32 they have scales, one for each column */
    bool bias;
    int64_t matrices;     /* 2: of gates too, whose panels lie before those of what they gate, in turn; else 1 */
    int64_t depth;        /* K: length of one reduction (one tap of a convolution), in steps */
    int64_t word;         /* numbers of a step: 1, or under precision those of a 32-bit word */
    int64_t inputs;       /* the same in numbers, several of which make a step under precision */
    int64_t a_scale;      /* of whole numbers: words from the start of a row of A to its scale */
    int64_t levels;       /* of whole numbers: the largest magnitude */
    int64_t k_block;      /* steps of it taken before the next panel: all, unless the operand would leave L2 */
    int64_t taps;         /* reductions that add up: conv_width, else 1 */
    int64_t groups;       /* independent column groups (heads), or 1 */
    int64_t columns;      /* columns of one group */
    int64_t vecs;         /* vectors in a full panel */
    int64_t tall_vecs;    /* of tiles of more than low_rows rows: fewer where low ones want more than high ones hold */
    int64_t low_rows;
    int64_t rows;         /* rows in the register tile: near-equal parts of a query block */
    int64_t rest;         /* tokens of a full sequence's last, smaller block; 0: none, or it has no tiles of its own */
    int64_t unroll;       /* steps of the reduction in one iteration */
    int64_t unroll_rest;  /* the same in tiles that prefetch nothing: at most half of `rows` high */
    struct tile_heights heights; /* of a query block and of `rest` */
    int64_t slabs, last_slab; /* that the depth is cut into; steps of the last one */
    int64_t panels;       /* panels of one group, the last one maybe narrower */
    int64_t whole;        /* the first of them, with all their lanes valid */
    int64_t last_vecs;    /* vectors of the panel after the whole ones, 0: there is none */
    int64_t tail_vecs;    /* vectors of the last panel when it is narrower, else 0 */
    int64_t tail_lanes;   /* valid lanes of a group's very last vector, 0: all */
    int64_t packed_depth; /* elements of a column of a tap of a matrix: of all types but i4 as many as steps */
    int64_t panel_size;   /* elements in a full packed panel, all taps, all matrices */
    int64_t group_size;   /* elements in all panels of a group */
    int64_t a_row, a_k;   /* strides of A between rows and along the reduction */
    int64_t a_group;      /* step of A from group to group */
    int64_t a_tap;        /* step of A from tap to tap */
    int64_t a_block;      /* step of A from query block to query block */
    int64_t c_row;        /* stride of C between rows */
    int64_t c_split;      /* columns of one head, where those of a row go to an array for each head; else 0 */
    int64_t c_group;      /* step of C from group to group, or from head to head */
    int64_t group_rows;   /* rows in a row group (a multiple of the query block) */
    int64_t prefetch;     /* lines of the next panel that an iteration of the first tiles prefetches, 0: none */
    int64_t prefetch_tile; /* lines that a tile prefetches */
    int64_t in_order;     /* rows of tiles, at most, that read a panel strictly in the order of memory */
    int64_t halves;       /* rows of tiles that read it by halves of vectors; 0: none do */
    int64_t prefetch_after; /* where those of the product that follows begin, of which the last panel prefetches */
    int64_t finish;       /* panels after which heads are complete, to be normed and rotated; 0: nothing is */
    int64_t part_panels;  /* panels in one part */
    int64_t parts;        /* of a row group */
    int64_t floats;       /* of narrow weights: numbers that a panel's slab takes as f32; 0: tiles convert them */
    int64_t floats_rows;  /* of a part, from which on its panels become f32 */
    const char *tiles;    /* label of the product whose tiles serve: its own, or an earlier one alike in its tiles */
    const char *parts_of; /* label of the product whose function computes its parts: alike in all but operands */
    int64_t behind;       /* floats from that product's weights, scales and biases in the packed block to these */
    /* Where the products that tiles or a function of parts serve write to different layouts: */
    int64_t tile_row;     /* c_row of those tiles; 0: an argument */
    bool tile_places;     /* the places of a row's vectors are an argument of those tiles: some product has c_split */
    bool c_of_call;       /* c_group is as many rows as a call has tokens in the group: a number of the call */
    bool parts_placed;    /* c_row and c_group are arguments of that function */
    bool from_caller, to_caller; /* rows of A, of C, are the caller's: without pad_rows = computed they have gaps */
    bool ends;            /* something is done to a panel's results: residual, activation, gate, cap, rounding */
    bool activates;       /* an activation or a cap is among it */
    bool gaps;            /* some of its rows are a caller's that may have gaps between sequences */
    bool narrows;         /* they become the caller's y of two bytes */
    bool apart;           /* until then they are a block of the worker's, of the panel's width */
    int64_t parts_split;  /* c_split of the products it serves, but for those that have none */
    bool of_source;       /* rows are those of cross-attention's source */
    /* Fast products (templates/tiles/fast.in): two row tiles and two panels at once, by seven products half as deep. 0
     * in `fast`: classical, for the reason `classical`, if fast products are asked for. */
    int64_t fast;         /* rows of a tile; others have one row less */
    int64_t fast_pairs;   /* pairs of panels; what follows is classical */
    int64_t fast_prefetch; /* lines of the next pair that an iteration of the first four tiles prefetches, 0: none */
    const char *classical;
};
