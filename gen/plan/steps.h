/* SPDX-License-Identifier: MIT */
/* The steps of a layer: what each reads and writes, how it is cut into parts, and what its kind has beside that.
 *
 * A step is a row of step_rows.h and the functions of its kind's file, step_KIND.c. Those that a layer has are taken in
 * the order of the rows; consecutive work that workers do between two waits is a phase.
 *
 * Left out on purpose: text that is emitted; the templates of a step's kind spell it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "plan/layouts.h"
#include "plan/back.h"
#include "plan/conv.h"
#include "plan/panels.h"
#include "plan/rule.h"
#include "spec/layer.h"

enum step_name {
#define STEP(name, ...) STEP_##name,
#include "plan/step_rows.h"
#undef STEP
    STEPS
};

/* What a step does: the file that plans it */
enum step_kind {
    KIND_OWN,      /* a task of its own: its label says which */
    KIND_COPY,     /* no weights: transposed, the caller's rows, into the cache, values as words */
    KIND_PANELS, KIND_LANES, /* a product with packed weights */
    KIND_TILES,    /* a product of two activations: scores and weighted sums, struct plan_isa has their tiles */
    KIND_RULE,     /* the recurrence of a state */
    KIND_CONV,     /* a convolution over tokens */
    KIND_NORM,     /* norms of rows */
    KIND_ROUND,    /* rows as whole numbers */
    KIND_WIDEN,    /* rows of two bytes as floats */
    KIND_GRADIENT, /* of backward, in its tiles */
    KIND_THROUGH,  /* a gradient through weights to that of an input */
    KIND_SUM,      /* a weight's gradient, a sum over tokens */
    STEP_KINDS
};
enum step_epilogue {
    EPILOGUE_BIAS = 1 << 0, EPILOGUE_NORM = 1 << 1, EPILOGUE_TURN = 1 << 2, EPILOGUE_SOFTMAX = 1 << 3,
    EPILOGUE_ACTIVATION = 1 << 4, EPILOGUE_GATE = 1 << 5, EPILOGUE_RESIDUAL = 1 << 6, EPILOGUE_CAP = 1 << 7,
    EPILOGUE_NARROW = 1 << 8
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
    bool bias;
    const char *parts_of; /* as of panels, but that no other product shares them: its own label, false, 0 */
    bool parts_placed, gaps;
    int64_t behind, fast, floats;
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
    } norms[2];
    int norm_count;
    bool widens, narrows; /* tensor_type: rows of x are the caller's; y is rounded to the caller's */
    int64_t once;      /* rows at a time, at most as many as there are lanes */
    int64_t part_rows; /* of one part */
};

/* How a task is cut into parts */
enum task_over {
    OVER_NONE,            /* it is computed by the parts of another step */
    OVER_SEQUENCES,       /* one sequence of a group is a part */
    OVER_ROWS,            /* `size` tokens of a group */
    OVER_BLOCKS,          /* a query block of a group's tokens */
    OVER_SEQUENCE_BLOCKS, /* a query block of a sequence */
    OVER_BOTH,            /* the same, of its queries, then of its keys */
    OVER_PANELS,          /* `size` tokens times some panels of weights */
    OVER_HEADS,           /* `size` queries of one head of a sequence */
    OVER_SEGMENTS,        /* `size` rows of a head of keys, all their keys or one segment */
    OVER_JOINED,          /* the same, where parts were segments */
    OVER_EXPANDED,        /* a head of a sequence that has keys and values of heads */
    OVER_PIECES,          /* one of `size` pieces of a sequence */
    OVER_KEY_HEADS,       /* a head of keys of a sequence */
    OVER_AGAIN,           /* as in the forward phase */
    OVER_COUNT,           /* `size` parts */
    TASK_OVERS
};

/* One step of the layer. Its operands have the types of their layouts. */
struct step {
    enum step_name id;    /* not for templates */
    enum step_kind kind;
    const char *name;     /* as --explain has it */
    const char *label;    /* what its functions' names begin with in the emitted file */
    enum layout_name reads[2], writes; /* reads[1]: the residual, where there is one; not for templates */
    unsigned epilogue;    /* what is applied to the result; not for templates */
    enum task_over over;
    bool of_keys;         /* the tokens are keys */
    int64_t size, more;   /* size: of a part; more: rows beside the tokens, the zeros at both ends of z (convolution) */
    int64_t tile, unroll; /* accumulators of its largest tile; steps of a sum that are written out, at most; not for
                           * templates */
    union {
        struct plan_panels panels;
        struct plan_lanes lanes;
        struct plan_rows rows;
        struct plan_rule rule;
        struct plan_conv conv;
        struct plan_round round;
        struct plan_sum sum;
        struct plan_through through;
        struct plan_widen widen;
    }; /* by `kind`; not for templates */
};

/* Phases of a call, then of backward. Workers wait for each other between two phases. */
#define PLAN_PHASES 40
#define PHASE_TASKS 6
struct plan_phase {
    const char *word, *name; /* in the emitted enum, and as NAME_phase_name() gives it */
    const char *kind;        /* what its function is emitted for: "attention", "output", or the kind of its step */
    bool back;               /* of backward */
    bool behind;             /* in a block: after attention's output */
    const struct step *tasks[PHASE_TASKS]; /* parts of a phase are numbered task by task */
    int task_count;
};
