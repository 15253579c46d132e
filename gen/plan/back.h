/* SPDX-License-Identifier: MIT */
/* Backward: its tiles and blocks, the products through weights to the gradients of inputs, sums over tokens.
 *
 * Left out on purpose: how gradients are checked (runtime/reference/gradient.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "plan/layouts.h"
#include "plan/tiles.h"

/* Rows of one operand of a sum over tokens: steps from head to head and from token to token, and numbers of each */
struct sum_operand {
    enum layout_name from;
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

/* A weight's gradient, matrix by matrix: c[i][k] += sum over tokens of a[token][i] b[token][k] */
struct plan_sum {
    struct sum_operand a, b;
    int64_t zero;       /* where zeros lie in place of a token that nothing sees, or that sees nothing */
    int64_t heads;      /* matrices; of a convolution as many for each head as it has taps */
    int64_t taps;       /* of a convolution; else 0 */
    int64_t c_head, c_row;
    int64_t part_rows;     /* rows of a part, several chunks of them for the same columns */
    int64_t chunks, parts; /* parts of a matrix, and of all */
    int64_t bias_heads; /* of the bias beside it, a sum of rows of the gradient by heads as they lie; 0: none */
    struct sum_operand bias;
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

/* Of backward. All its products run in tiles of one size. The first operand lies in strips of as many rows,
 * [step][row], or is read where it lies; the second lies in panels as wide as the tile, [step][lane]. */
struct plan_back {
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
};
