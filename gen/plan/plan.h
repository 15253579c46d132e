/* SPDX-License-Identifier: MIT */
/* The plan: how a layer is computed on one instruction set. Every number that the templates need to place,
 * tile, unroll or cut is decided here, from the layer and the ISA's row, never from the host, and carries
 * its reason for --explain and the banner.
 *
 * Terms: a register tile is `rows` broadcast operands times `vecs` vectors; a query block is the run of
 * queries that lies along the lanes (block = vecs * lanes of them); a panel is a slab of packed weights,
 * [depth][width]; a row group is the run of tokens that stays in L2 while all panels pass over it. The steps of a layer
 * are products, in the order in which they are taken; what they read and write are layouts.
 *
 * Templates see the fields of these structs under the same names: gen/emit/names.awk reads this file. Those with "not
 * for templates" in their comment are left out.
 *
 * Left out on purpose: text. The templates spell; nothing here prints C.
 */
#ifndef ATTNGEN_PLAN_H
#define ATTNGEN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/request.h"
#include "plan/tiles.h"
#include "spec/layer.h"

struct diag;
struct emit;
struct isa;
struct plan_file;

#define PLAN_ISAS 9
#define PLAN_REASONS 32
#define PLAN_PRODUCTS 40
#define FAST_AHEAD 4 /* pairs of tiles that prefetch the next pair of panels */

enum product_name {
    PRODUCT_TRANSPOSE, PRODUCT_QUERIES, PRODUCT_KEYS, PRODUCT_VALUES, PRODUCT_APPEND, PRODUCT_SCORES, PRODUCT_SUMS,
    PRODUCT_OUTPUT,
    PRODUCT_NORM_X, PRODUCT_NORM_STREAM, PRODUCT_HIDDEN, PRODUCT_DOWN, PRODUCT_NORM_Y, /* of a block */
    PRODUCT_LINEAR,
    /* of backward: gradients of activations; through weights to those of inputs; of weights */
    PRODUCT_D_Z, PRODUCT_WEIGHTS_AGAIN, PRODUCT_D_SCORES, PRODUCT_D_VALUES, PRODUCT_D_KEYS, PRODUCT_D_QUERIES,
    PRODUCT_THROUGH_Q, PRODUCT_THROUGH_K, PRODUCT_THROUGH_V,
    PRODUCT_D_W_Q, PRODUCT_D_W_K, PRODUCT_D_W_V, PRODUCT_D_W_O,
    PRODUCT_ROUND_X, PRODUCT_ROUND_SOURCE, PRODUCT_ROUND_KEYS, PRODUCT_ROUND_VALUES, PRODUCT_ROUND_Z,
    PRODUCT_ROUND_STREAM,
    PRODUCT_ROUND_HIDDEN,
    /* under precision: of what a product reads */
    PRODUCT_WIDEN_X, PRODUCT_WIDEN_SOURCE, PRODUCT_WIDEN_V /* under tensor_type: of what a call brings */
};

enum layout_owner {
    OWNER_CALLER, OWNER_PACKED, OWNER_SCRATCH, OWNER_WORKER,
    OWNER_KEPT, /* of source_kept: what a sequence's source became, for later calls */
    OWNER_BACK, OWNER_BACK_WORKER, /* of backward: behind forward's scratch, and a worker's own part of that */
    OWNERS
};

/* Everything that has a place in memory: the tensors of a call that products read or write, then the kernel's own. */
enum layout_name {
    LAYOUT_NONE, LAYOUT_X, LAYOUT_SOURCE, LAYOUT_Y, /* input = projected: q and k in place of x and source */
    LAYOUT_TYPED_X, LAYOUT_TYPED_SOURCE, LAYOUT_TYPED_V, LAYOUT_TYPED_Y, /* under tensor_type those of the caller: then
                                        * those above are floats in the scratch, y maybe a worker's */
    LAYOUT_ATTN_ROWS, LAYOUT_ATTN_SPLIT, /* likewise: rows of attn as floats, of a tile; where segments are parts */
    LAYOUT_S_T,                        /* the source in blocks, where values are projected from it */
    LAYOUT_QUERIES, LAYOUT_KEYS, LAYOUT_VALUES, LAYOUT_Z, /* of the kernel, or the caller's own */
    LAYOUT_KEPT_SOURCE,                /* a copy of the source, where keys or values are its own rows */
    LAYOUT_KEPT,                       /* room in the scratch for what a call does not keep */
    LAYOUT_NORMED, LAYOUT_NORMED_2,    /* rows of a block that attention, or the feed-forward, reads in place of x */
    LAYOUT_STREAM,                     /* x and what attention adds to it */
    /* words of whole numbers, and behind those of a row its scale */
    LAYOUT_ROUNDED_X, LAYOUT_ROUNDED_SOURCE, LAYOUT_ROUNDED_KEYS, LAYOUT_ROUNDED_VALUES, LAYOUT_ROUNDED_Z,
    LAYOUT_ROUNDED_STREAM, LAYOUT_ROUNDED_HIDDEN,
    LAYOUT_PANEL,                      /* of narrow weights as f32 */
    LAYOUT_HIDDEN, LAYOUT_GATES,       /* between the products of the feed-forward; of a block of rows, what gates it */
    LAYOUT_K_CACHE, LAYOUT_V_CACHE,    /* keys and values of all tokens so far; those two above are of new ones then */
    LAYOUT_Q_ROWS, LAYOUT_K_T, LAYOUT_DOTS, LAYOUT_TOTALS, LAYOUT_STATE, /* of a block of rows */
    LAYOUT_ROW_SCALES,                 /* likewise: of a block of keys and values, and of their whole numbers */
    LAYOUT_PARTIALS,                   /* sums of segments, where each is a part */
    LAYOUT_RAW_QUERIES, LAYOUT_RAW_KEYS, /* train: rows before their norm */
    LAYOUT_RANGES,                     /* of keys, for each vector of queries */
    LAYOUT_TURNED, LAYOUT_TURNED_KEYS, /* cosines and sines of positions that are not packed; of given keys */
    LAYOUT_ROW_SUMS, LAYOUT_SEVEN,     /* of fast products: of a group's rows; of two tiles and two panels */
    LAYOUT_SCORES, LAYOUT_VISIBLE, LAYOUT_OPERANDS, LAYOUT_TILE, LAYOUT_Q_T, /* of a tile of queries */
    LAYOUT_RELATIVE, LAYOUT_RELATIVE_BACK, LAYOUT_SINK, LAYOUT_G_Q, LAYOUT_C_Q, LAYOUT_G_K, LAYOUT_C_K, LAYOUT_TURNS,
    LAYOUT_NORMS, LAYOUT_NORMS_LAST = LAYOUT_NORMS + TENSOR_N4_B - TENSOR_N1_G, /* n1_g, n1_b, ... n4_b */
    /* of backward: the caller's, and z as forward keeps it; weights the other way round; gradients by heads; operands
     * of tiles, of attention and else */
    LAYOUT_DY, LAYOUT_DX, LAYOUT_DSOURCE, LAYOUT_DW_Q, LAYOUT_DW_K, LAYOUT_DW_V, LAYOUT_DW_O, LAYOUT_SAVED_Z,
    LAYOUT_BACK_W_Q, LAYOUT_BACK_W_K, LAYOUT_BACK_W_V, LAYOUT_BACK_W_O,
    LAYOUT_D_QUERIES, LAYOUT_D_KEYS, LAYOUT_D_VALUES, LAYOUT_D_Z, LAYOUT_D_DISTANCES, LAYOUT_D_SINK,
    LAYOUT_D_NORM_Q, LAYOUT_D_NORM_K,  /* of gains, then shifts, by parts of their rows */
    LAYOUT_K_PANELS, LAYOUT_V_PANELS, LAYOUT_K_BLOCKS, LAYOUT_Q_STRIPS, LAYOUT_DZ_STRIPS, LAYOUT_Q_PANELS,
    LAYOUT_DZ_PANELS, LAYOUT_BACK_P, LAYOUT_BACK_DS, LAYOUT_BACK_SEES, LAYOUT_BACK_STRIPS, LAYOUT_STRIPS, LAYOUT_PANELS,
    LAYOUT_SPARE,
    LAYOUT_TABLES,                     /* of the spec; the same once more, each row between `lanes` of its ends */
    LAYOUT_RUNS = LAYOUT_TABLES + LAYER_TABLES, /* and backwards */
    LAYOUT_WEIGHTS = LAYOUT_RUNS + LAYER_TABLES, /* of each product */
    LAYOUT_SCALES = LAYOUT_WEIGHTS + PLAN_PRODUCTS, /* of their columns; none of f32 */
    LAYOUT_BIASES = LAYOUT_SCALES + PLAN_PRODUCTS,
    LAYOUT_WEIGHT_SUMS = LAYOUT_BIASES + PLAN_PRODUCTS, /* of fast products */
    LAYOUTS = LAYOUT_WEIGHT_SUMS + PLAN_PRODUCTS
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

/* A product C = A W with tokens as rows (queries, keys, values, output, convolution): W in panels,
 * features along the lanes. */
struct plan_panels {
    enum tensor_element element; /* of A; sums are f32 */
    enum tensor_element weights; /* of W; of another type than f32 they have scales, one for each column */
    bool bias;            /* not for templates */
    int64_t matrices;     /* 2: of gates too, whose panels lie before those of what they gate, in turn; else 1 */
    int64_t depth;        /* K: length of one reduction (one tap of a convolution), in steps */
    int64_t word;         /* numbers of a step: 1, or under precision those of a 32-bit word */
    int64_t inputs;       /* the same in numbers, several of which make a step under precision */
    int64_t a_scale;      /* of whole numbers: words from the start of a row of A to its scale */
    int64_t levels;       /* likewise: the largest magnitude of its numbers */
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
    int64_t last_vecs;    /* vectors of the one behind those, 0: there is none */
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
    int64_t prefetch_tile; /* the same of a tile */
    int64_t in_order;     /* tiles of at most so many rows read a panel strictly in the order of memory */
    int64_t halves;       /* those of so many rows by halves of vectors; 0: none do */
    int64_t prefetch_after; /* where those of the product that follows begin, of which the last panel prefetches */
    int64_t finish;       /* panels after which heads are complete, to be normed and rotated; 0: nothing is */
    int64_t part_panels;  /* panels in one part */
    int64_t parts;        /* of a row group */
    int64_t floats;       /* of narrow weights: numbers that a panel's slab takes as f32; 0: tiles convert them */
    int64_t floats_rows;  /* of a part, from which on its panels become f32 */
    const char *tiles;    /* label of the product whose tiles serve: its own, or an earlier one alike in its tiles */
    const char *parts_of; /* likewise, whose function computes its parts: alike in all but what it reads and writes */
    int64_t behind;       /* floats of the packed block from that product's weights, scales and biases to these */
    /* Where the products that tiles or a function of parts serve write to different layouts: */
    int64_t tile_row;     /* c_row of those tiles; 0: an argument */
    bool tile_places;     /* the places of a row's vectors are an argument of those tiles: some product has c_split */
    bool c_of_call;       /* c_group is as many rows as a call has tokens in the group: a number of the call */
    bool parts_placed;    /* c_row and c_group are arguments of that function */
    bool from_caller, to_caller; /* rows of A, of C, are the caller's: without pad_rows = computed they have gaps */
    bool ends;            /* something is done to a panel's results: residual, activation, gate, cap, rounding */
    bool narrows;         /* they become the caller's y of two bytes */
    bool apart;           /* until then they are a block of the worker's, of the panel's width */
    int64_t parts_split;  /* c_split of the products it serves, but for those that have none */
    bool of_source;       /* rows are those of cross-attention's source */
    /* Fast products (templates/tiles/fast.in): two row tiles and two panels at once, by seven products half as deep. 0
     * in `fast`: classical, for the reason `classical`, if fast products are asked for. */
    int64_t fast;         /* rows of a tile; others have one row less */
    int64_t fast_pairs;   /* of panels; what is behind them is classical */
    int64_t fast_prefetch; /* lines of the next pair that an iteration of the first four tiles prefetches, 0: none */
    const char *classical;
};

/* A product C^T = W^T A^T, of values in blocks: features as rows, tokens along the lanes. */
struct plan_lanes {
    enum tensor_element element;
    int64_t depth, groups, columns, unroll, unroll_rest;
    int64_t a_group; /* step of A from group to group */
    int64_t height[2], count[2]; /* near-equal split of a group's columns */
    int64_t tiles;   /* of a group */
    int64_t group_rows;
    int64_t prefetch; /* lines of the next tile's weights that an iteration prefetches */
    int64_t prefetch_tile, prefetch_end; /* weights that a tile prefetches; where the last one begins at the latest */
    int64_t pair;    /* tiles that a single vector of tokens takes at once: 2 if registers suffice, else 1 */
    int64_t part_tiles, parts;
};

enum product_kind {
    PRODUCT_COPY,   /* no weights: transposed, or the caller's rows */
    PRODUCT_PANELS, PRODUCT_LANES, /* with packed weights */
    PRODUCT_TILES,  /* of two activations: scores and weighted sums, struct plan_isa has their tiles */
    PRODUCT_ROWS,   /* norms of rows */
    PRODUCT_ROUND,  /* rows as whole numbers */
    PRODUCT_WIDEN,  /* rows of two bytes as floats */
    PRODUCT_GRADIENT, PRODUCT_SUM /* of backward, in its own tiles; a weight's gradient, a sum over tokens */
};
enum product_epilogue {
    EPILOGUE_BIAS = 1 << 0, EPILOGUE_NORM = 1 << 1, EPILOGUE_TURN = 1 << 2, EPILOGUE_SOFTMAX = 1 << 3,
    EPILOGUE_ACTIVATION = 1 << 4, EPILOGUE_GATE = 1 << 5, EPILOGUE_RESIDUAL = 1 << 6, EPILOGUE_CAP = 1 << 7,
    EPILOGUE_NARROW = 1 << 8
};

#define ROUND_ROWS 32 /* of whole numbers, at most, that are rounded together: whole vectors of any set */
/* Steps whose weights share a word where rows are read in digits: of i8 one a byte, of i4 four in the low halves of its
 * bytes, then four */
#define DIGIT_STEPS(weights) ((weights) == TENSOR_I8 ? 4 : 8)
#define DIGIT_ADDED(weights) ((weights) == TENSOR_I8 ? 128 : 8) /* to weights there, which have no sign then */

/* Rounding of rows, each of one head or more, to words; each row of whole numbers is followed by its scale. Digits of a
 * group of numbers take as many words (templates/tiles/round_digits.in). */
struct plan_round {
    int64_t heads, numbers; /* of a row, and of a head */
    int64_t head, row;      /* of what is read: steps from head to head and from row to row */
    int64_t word;           /* numbers of a word */
    int64_t room, levels;   /* words of a head; the largest magnitude of its numbers */
    int64_t once;           /* rows of whole numbers that are rounded together */
    int64_t part_rows;
};

/* Conversion of rows of two-byte numbers to floats; of q, k and v by query blocks of a sequence */
struct plan_widen {
    int64_t numbers;   /* of a row */
    int64_t part_rows;
};

/* Norms of a block's rows, one after the other while a few rows are in L1. */
struct plan_rows {
    struct {
        int64_t norm; /* 1 ... 4 */
        enum layout_name from, residual, to; /* `to` gets the norm of `from`, plus `residual` where there is one */
        enum layout_name gain, shift;
    } steps[2];
    int step_count;
    bool widens, narrows; /* tensor_type: rows of x are the caller's; y is rounded to the caller's */
    int64_t once;      /* rows at a time, at most as many as there are lanes */
    int64_t part_rows; /* of one part */
};

/* Rows of one operand of a sum over tokens: steps from head to head and from token to token, and numbers of each */
struct sum_operand {
    int64_t head, row, numbers;
};

/* First operands of backward's tiles: strips, a block of scores transposed or as it lies, rows of gradients. Readers
 * with the same strides share an operand. */
enum back_read { READ_STRIPS, READ_TURNED, READ_BLOCK, READ_DY, READ_DQ, READ_DK, READ_DV, BACK_READS };
struct back_operand {
    const char *name;
    int64_t row, step; /* strides from row to row of a tile, and along the sum */
    bool ranged;       /* its product takes ranges of what rows see, and skips the rest */
    bool apart;        /* rows lie apart: a last, lower tile goes through a spare strip, as no rows follow */
};

/* A weight's gradient, matrix by matrix: c[i][k] += sum over tokens of of[0][token][i] of[1][token][k] */
struct plan_sum {
    struct sum_operand of[2]; /* not for templates: context.c says whose they are */
    int64_t zero;       /* which of the two is 0 for a token that nothing sees, or that sees nothing */
    int64_t heads;      /* matrices; of a convolution as many for each head as it has taps */
    int64_t taps;       /* of a convolution; else 0 */
    int64_t c_head, c_row;
    int64_t part_rows;     /* rows of a part, several chunks of them for the same columns */
    int64_t chunks, parts; /* parts of a matrix, and of all */
    int64_t bias_heads; /* of the bias beside it, a sum of rows of the gradient by heads as they lie; 0: none */
    struct sum_operand bias; /* not for templates, as above */
    bool of_source;     /* the tokens are keys */
    bool joins;         /* added to the gradient ahead of it, by its parts */
};

/* The gradient of an input: c[token][column] (+)= sum over steps of d[token][step] W^T[step][column]; by heads where
 * each has columns of its own (input = split), else over all heads at once. */
struct plan_through {
    int64_t heads, d_row; /* numbers of a head's gradient */
    int64_t columns, c_row;
    enum back_read read;  /* how tiles read d */
    bool adds;            /* whether an earlier product has written c */
};

/* One step of the layer. Its operands have the types of their layouts. */
struct product {
    enum product_name id;
    enum product_kind kind;
    const char *name;     /* as --explain has it */
    const char *label;    /* what its functions' names begin with in the emitted file */
    enum layout_name reads[2], writes; /* reads[1]: the residual, where there is one */
    unsigned epilogue;    /* what is applied to the result */
    union {
        struct plan_panels panels;
        struct plan_lanes lanes;
        struct plan_rows rows;
        struct plan_round round;
        struct plan_sum sum;
        struct plan_through through;
        struct plan_widen widen;
    }; /* by `kind`; not for templates */
};

/* Phases of a call, then of backward. Workers wait for each other between two phases. */
enum phase_name {
    PHASE_NONE,
    PHASE_PAD, PHASE_WIDEN, PHASE_NORM_X, PHASE_ROUND_X, PHASE_ROUND_SOURCE, PHASE_TRANSPOSE, PHASE_PROJECT,
    PHASE_APPEND, PHASE_ROUND_KEYS, PHASE_ROUND_VALUES, PHASE_ATTEND, PHASE_JOIN, PHASE_ROUND_Z, PHASE_OUTPUT,
    PHASE_NORM_STREAM, PHASE_ROUND_STREAM, PHASE_LINEAR, PHASE_HIDDEN, PHASE_ROUND_HIDDEN, PHASE_DOWN, PHASE_NORM_Y,
    PHASE_BACK_TRANSPOSE, PHASE_BACK_PROJECT, PHASE_BACK_OUTPUT, PHASE_BACK_ATTEND, PHASE_BACK_INPUT,
    PHASE_BACK_WEIGHTS,
    PLAN_PHASES
};

enum task_kind {
    TASK_PADDING, TASK_RANGES, TASK_FINISH, TASK_PRODUCT, TASK_KEEP_SOURCE, TASK_TURNS,
    TASK_ATTEND, TASK_ATTEND_ROWS, TASK_JOIN,
    TASK_TRANSPOSE_AGAIN, TASK_PROJECT_AGAIN, TASK_D_Z, TASK_D_HEADS, TASK_D_X, TASK_D_SOURCE, TASK_D_WEIGHTS,
    TASK_KINDS
};

/* How a task is cut into parts */
enum task_over {
    OVER_SEQUENCES,       /* one sequence of a group is a part */
    OVER_ROWS,            /* `size` tokens of a group */
    OVER_BLOCKS,          /* a query block of a group's tokens */
    OVER_SEQUENCE_BLOCKS, /* a query block of a sequence */
    OVER_BOTH,            /* the same, of its queries, then of its keys */
    OVER_PANELS,          /* `size` tokens times some panels of weights */
    OVER_HEADS,           /* `size` queries of one head of a sequence */
    OVER_SEGMENTS,        /* `size` rows of a head of keys, all their keys or one segment */
    OVER_JOINED,          /* the same, where parts were segments */
    OVER_KEY_HEADS,       /* a head of keys of a sequence */
    OVER_AGAIN,           /* as in the forward phase */
    OVER_COUNT,           /* `size` parts */
    TASK_OVERS
};

struct plan_task {
    enum task_kind kind;
    const char *word, *name;       /* as templates and as --explain have it */
    const struct product *product; /* of a TASK_PRODUCT; not for templates */
    enum task_over over;
    bool of_keys;         /* the tokens are keys */
    int64_t size, more;   /* more: rows beside the tokens, the zeros at both ends of z (convolution) */
};

#define PHASE_TASKS 4
struct plan_phase {
    enum phase_name id;
    const char *word, *name; /* in the emitted enum, and as NAME_phase_name() gives it */
    bool behind;             /* in a block: behind attention's output */
    struct plan_task tasks[PHASE_TASKS]; /* parts of a phase are numbered task by task */
    int task_count;
};

/* Which products of weights are taken when packing, and how wide a head is then. Alike for all ISAs. */
struct plan_fold {
    bool scores;  /* W_Q W_K^T: keys are the input */
    bool values;  /* W_V W_O: values are the input */
    bool q_is_k;  /* w_k = tied in self-attention: no queries are projected, a tile of them is made from the keys */
    int64_t d_score, d_value; /* features that a score sums over, and of a value */
    int64_t d_z;  /* of a head's z: with folded values and biases one more, 1 where a query sees a key */
    double saved_scores, saved_values; /* multiply-adds that folding saves; negative where it costs */
    int64_t short_n, short_m;  /* of a short call, */
    double short_scores, short_values; /* where each takes so much of the plain layer's work, weights read included */
};

enum { PLAN_WIDE, PLAN_SINGLE, PLAN_WIDTHS }; /* tiles as wide as a query block, and of a single vector */

struct plan_isa {
    const struct isa *isa;
    const struct plan_fold *fold;
    struct plan_request request; /* of the spec and the plan file; not for templates */
    enum tensor_element weights; /* as packed, of products of floats */
    bool steps;          /* weights take fewer bytes for the sake of steps of one token, whose time then counts too */
    bool digits;         /* products with weights read digits of rows (struct plan) */
    int64_t word;        /* numbers of a word, of products that read words; 1: there are none */
    bool whole;          /* they are whole numbers with exact sums; else sums are f32 */
    int64_t word_registers; /* registers that a row of a tile of words takes beyond one of f32 */
    int64_t neighbours;  /* of i8: so many numbers of a column have a largest sum of sizes that is 127 units */
    int64_t corrections; /* rows ahead of a tap's words that sums start from */
    int64_t lanes;
    int64_t tile_rows, tile_words; /* of a tile register (isa.h); 0: the set has none */
    bool tiled;          /* some product takes them */
    int64_t vecs;        /* vectors in a query block */
    int64_t block;       /* queries in a query block */
    const char *not_fast; /* fast products are asked for, but not of this layer; NULL: they are not asked for, or are
                           * possible */
    bool fast;           /* fast products are asked for and possible; each product says whether it is one */
    bool unasked;        /* the spec leaves their kind to the plan */
    bool streams;        /* keys and values of a head exceed L2, so that every query block reads them from L3 */
    int64_t rows;        /* most rows of a tile that is `vecs` wide */
    int64_t rows_single; /* most rows of a tile that is one vector wide */
    struct tile_heights score_tiles[PLAN_WIDTHS]; /* of any number of keys */
    struct tile_heights value_tiles[PLAN_WIDTHS]; /* of the features of a value */
    bool at_once;        /* scores become weights in registers; else in a separate pass over the block */
    int64_t value_rows, value_rows_single; /* the same for the values' tiles: near-equal parts of d_v */
    int64_t words_room;  /* words of a key, under precision; 0: there are none */
    int64_t values_room; /* likewise of core_word values; their scales lie behind them */
    bool rounds_scores, rounds_values; /* of whole numbers, as the set has them */
    bool scales_weights; /* of values, in weights of the softmax as they are made: nobody else reads those */
    int64_t core_word;   /* numbers in a word of keys, queries, values and weights of the softmax */
    int64_t score_levels, value_levels, weight_levels; /* the largest of them; 0: they stay f32 */
    int64_t key_block;   /* maximum of keys scored before their values are read */
    int64_t prefetch_keys;     /* keys of the next head that are prefetched with each tile of scores, 0: none */
    int64_t prefetch_queries;  /* likewise queries of the next tile */
    int64_t unroll_scores, unroll_values;
    int64_t batch_rows, batch_sources; /* queries and keys that are projected as one matrix, at most; 0: one by one */
    int64_t query_blocks, source_blocks; /* at the compiled limits, or for batch_rows and batch_sources if more */
    int64_t part_blocks; /* query blocks in one part of the attend phase */
    struct product products[PLAN_PRODUCTS]; /* those that the layer has, in order; not for templates */
    int product_count;
    struct plan_phase phases[PLAN_PHASES]; /* those that the layer has, in order; the same for all ISAs but for tasks;
                                            * not for templates */
    int phase_count;
    struct layout layouts[LAYOUTS]; /* not for templates, which see `at` and `stride` of each */
    int64_t bytes[OWNERS]; /* of each owner's block; the caller has none */
    int64_t norm_sums;   /* side by side over a row of a block's norm, as each addition waits for the one before */
    bool peeks;          /* scores fall with the distance: the nearest keys are met first, for the largest score */
    bool masked_apart;   /* keys that masks may hide take another text of the softmax than those that all see */
    bool halves;             /* something is read by halves of vectors */
    bool two_pass;       /* softmax: the largest scores first, then weights and sums; else both in one pass */
    bool z_rows;         /* the output step reads Z [token][head][feature], else [block][head][feature][token of it] */
    /* train: of a token of a group, so many numbers of others are ahead of queries, keys and values, and of queries and
     * keys before their norm, and so many are there: forward keeps them where backward finds them, `saved`. all 0:
     * backward projects again. */
    struct {
        int64_t queries, keys, values, raw_queries, raw_keys, all;
    } held;
    bool holds;
    bool z_in_q;         /* Z [token][head][feature] takes the queries' place: a tile's are read before Z is written */
    bool value_blocks;   /* values lie [block of tokens][feature][token] */
    int64_t depth_slab;  /* features of a score that are summed before the next keys are taken */
    int64_t score_slabs, last_slab; /* how many of those there are; features of the last one */
    int64_t sequences;   /* of a batch that are projected as one matrix, at full length */
    bool joint;          /* projections share the loop over row groups */
    int64_t turn_width;  /* cosines by which a position turns a head, padded to whole vectors; its sines follow */
    int64_t turn_rows;   /* positions whose rows are packed: 0 ... turn_rows - 1 */
    int64_t z_front, z_back; /* rows of zeros before and behind z, for the convolution */
    /* rel_bias as it is packed: for each head a table of distances p - j, in which the queries of a key lie side by
     * side, as they do along the lanes. Of a tile whose first query is `back` positions ahead of its first key, back no
     * further than from -low to high, it begins at back + zero. */
    struct {
        int64_t row, zero, low, high; /* row: numbers of a head */
        /* train: once more, for backward, in which the keys of a query lie side by side: those of a vector whose first
         * key is `ahead` of the query begin at ahead + back_zero, ahead from -back_zero to back_high. */
        int64_t back_row, back_zero, back_high;
    } relative;
    /* Of a layer with a cache: attention by rows, one for each query and head, with keys along the lanes. What becomes
     * of a row depends on positions alone, not on the call that brings it. */
    struct {
        int64_t key_block; /* softmax takes positions k key_block ... (k + 1) key_block - 1 at once */
        int64_t few_block; /* the same of few rows */
        int64_t s_row;     /* floats from row to row of a block's scores */
        int64_t segment;   /* a multiple of it: positions after which sums begin anew; they are joined in order */
        int64_t segments;  /* a sequence's, at most */
        int64_t queries;   /* tokens whose rows make a block */
        int64_t rows;      /* of a block: as many for each token as heads share keys */
        int64_t split;     /* most tokens of a group of sequences for which each segment is a part */
        int64_t few_rows;  /* up to so many, scores are dot products along the features; 0: never */
        int64_t few_queries; /* the same in queries of a call */
        int64_t ahead;     /* for few rows: keys, and values, that are prefetched lie so many rows ahead; 0: none are */
        int64_t ahead_keys; /* of sequences from so many keys on: what is shorter lies in L2 */
        int64_t lone_vecs;  /* of a row that shares its keys with no other: vectors of its query that stay in
                             * registers over a vector of keys; 0: as several rows do */
        int64_t half_vecs;  /* of such a row, and of one row's values, tiles of at most so many vectors read and sum
                             * halves of vectors; 0: none do */
        int64_t query_vecs; /* of a row of few: vectors of its query that stay in registers while four keys are met */
        int64_t value_keys, value_keys_of_many; /* that stay in L1 meanwhile; the same from many_rows on */
        int64_t sweep_keys, swept_keys; /* of sequences from so many keys on, values whose parts tiles read are read
                                         * once in order before, so many keys' at a time; 0: never */
        int64_t many_rows;              /* values are swept for fewer rows than these */
        int64_t early, early_floats; /* where a block has one row: lines of values that are prefetched with each vector
                                      * of its powers, and floats at most; 0: none are */
        int64_t vecs, low_vecs; /* of a tile, and of one that is one row high */
        int64_t q_row, o_row; /* of a row's query and of its sums, padded to whole vectors */
        int64_t words_row; /* of a row's query as whole numbers, which lie behind the queries */
        struct tile_heights word_panels; /* vectors of a value as whole numbers, as widths */
        struct tile_heights tiles, dot_tiles;
        bool keys_in_order, values_in_order; /* few rows read them one after the other; queries stay in registers */
        int64_t shared_rows; /* of few, from so many on: all read the values of value_keys keys before the next ones */
        struct tile_heights few_tiles; /* for the values of few rows, as wide as a value; none: `tiles` serve as well */
        struct tile_heights panels, low_panels, few_panels; /* vectors of a value, as widths */
    } cached;
    /* A layer without a cache, calls of at most cached.few_queries queries: templates/steps/few.in. */
    struct {
        int64_t keys;   /* fewest keys of such a call */
        int64_t rows;   /* queries that are summed at once */
        int64_t values; /* keys whose values all queries pass before the next ones */
    } few;
    bool fetches_values; /* while keys are scored, their values are prefetched: rows of a head are far apart */
    /* Of backward. All its products run in tiles of one size. The first operand lies in strips of as many rows,
     * [step][row], or is read where it lies; the second lies in panels as wide as the tile, [step][lane]. */
    struct {
        int64_t rows, vecs, width; /* of the tile; width: lanes of its vectors */
        int64_t strip;             /* numbers of a step in a strip: whole vectors, so that copies are */
        struct tile_heights heights; /* `rows`, and lower ones for what is left over */
        int64_t unroll, prefetch;  /* lines of the next panel of weights in an iteration; 0: none */
        int64_t k_row, v_row;      /* numbers of a head's query and value, padded to whole vectors */
        int64_t queries, keys;     /* of a block of scores, both whole tiles */
        int64_t key_row;           /* from query to query in such a block */
        int64_t part_rows;         /* tokens of a part of dZ, and of dx */
        int64_t tokens;            /* that a sum over tokens takes at once */
        int64_t once, ahead;       /* steps that are laid out at once, and how far ahead their lines are fetched */
        int64_t chunk_rows, chunk_columns; /* of a weight's gradient that are a part */
        int64_t weight_parts;      /* of the gradients of all weights */
        struct back_operand operands[BACK_READS];
        int operand_count, read[BACK_READS]; /* index of the operand that serves a reader; -1: the layer has no such
                                              * reader */
    } back;
    int64_t stack, stack_plain; /* bytes of stack that a call takes, at most: compiled at -O1 and above, and at -O0 */

    char *reasons[PLAN_REASONS];
    int reason_count;
};

struct plan {
    struct plan_fold fold;
    bool digits; /* on some set products with weights of i4 or i8 read rows as whole numbers of three digits of 8 bits,
                  * in groups with a scale each, and sum them exactly: one token then reads weights as fast as memory
                  * gives them */
    int64_t count; /* ISAs, scalar first, best last */
    struct plan_isa isas[PLAN_ISAS]; /* not for templates, which see `plans` */
    int64_t packed_bytes, shared_bytes, worker_bytes; /* the largest over the ISAs */
    int64_t kept_bytes; /* of a sequence; likewise; 0: nothing is kept */
    int64_t back_shared_bytes; /* of shared_bytes what backward needs: none where all sets hold projections and it has
                                * no phase "transpose" */
    int64_t back_bytes, back_worker_bytes; /* what backward has beside those; 0: there is none */
    int64_t largest_row, largest_source_row; /* numbers of a query, and of a key, in the tensors of a call, at most */
    int64_t held; /* numbers of a token that forward keeps beside layer_kept; the most of any instruction set */
};

/* train: whether backward reads what a phase before the projections makes: cosines of given positions, ranges of
 * segments. */
static inline bool plan_back_transposes(const struct layer *layer)
{
    const bool made = layer->rope.kind != ROPE_NONE && !layer->projected && layer->rope.given;
    return layer->train && (made || (layer->mask & MASK_SEGMENTS) != 0);
}

/* How many sequences of a batch make a group, which goes through the phases together */
enum plan_group {
    GROUP_ALL,           /* all: phases leave nothing in the scratch for each other */
    GROUP_QUERIES,       /* as many as have batch_rows queries */
    GROUP_SOURCES_APART, /* the same, but one where sources are brought, as each has a block of its own for its keys */
    GROUP_BOTH           /* as many as have batch_rows queries and batch_sources keys */
};
enum plan_group plan_group(const struct layer *layer);

static inline const struct product *plan_product(const struct plan_isa *p, enum product_name id)
{
    for (int i = 0; i < p->product_count; i++)
        if (p->products[i].id == id)
            return &p->products[i];
    return NULL;
}
/* The same if it has weights in panels. */
static inline const struct plan_panels *plan_panels_of(const struct plan_isa *p, enum product_name id)
{
    const struct product *product = plan_product(p, id);
    return product != NULL && product->kind == PRODUCT_PANELS ? &product->panels : NULL;
}
static inline int64_t layout_element(const struct plan_isa *p, enum layout_name id)
{
    return (int64_t)element_size(p->layouts[id].element);
}
/* From its start, in elements; 0 for one that the plan does not have. */
static inline int64_t layout_at(const struct plan_isa *p, enum layout_name id)
{
    return p->layouts[id].at / layout_element(p, id);
}
/* Elements from the first to one past the last, padding of rows included. */
int64_t layout_elements(const struct layout *layout);

/* Products that are fast and sums of floats in some instruction set, of enum fast_product; whether some are of whole
 * numbers, whose bits are those of classical ones */
bool plan_has_fast(const struct plan *plan);
/* The sets among `isas`, bits of isa_table, that the layer's pair can have: precision = bf16 needs bf16 dot products,
 * and some sets are for sums of products of whole numbers alone. */
unsigned plan_isas(const struct layer *layer, unsigned isas);
/* Errors in diag for those of `named`, sets that --isa names, that it cannot have */
void plan_refuse_isas(const struct layer *layer, unsigned named, struct diag *diag);
/* Whether products of the set read digits, where those of the layer may: of i4 all, of i8 with dots_bytes */
bool plan_digits(const struct layer *layer, const struct isa *isa);
/* Plans the layer for those sets. NULL, with errors in diag, on a bad plan.* key or sizes that no C array can have. */
struct plan *plan_make(const struct layer *layer, unsigned isas, struct diag *diag);
/* The same with the requests of a plan file where the spec has none; NULL: no file. */
struct plan *plan_make_from(const struct layer *layer, unsigned isas, const struct plan_file *file, struct diag *diag);
void plan_free(struct plan *plan);
/* Sets what templates read of layer and plan: every upper-case name, `plans`, and lists such as `tensors`. */
void plan_context(const struct plan *plan, const struct layer *layer, struct emit *emit);
/* Prints, for each set, sizes in bytes, the reasons, and the lists of tiles, products, phases and layouts. */
void plan_explain(const struct plan *plan, const struct layer *layer, FILE *out);

#endif
