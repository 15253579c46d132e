/* SPDX-License-Identifier: MIT */
/* Fast products: which ones a pair has, and what their sums may mix. Generator and tests share this. */
#ifndef ATTNGEN_FAST_H
#define ATTNGEN_FAST_H

/* NAME_FAST_PRODUCTS of a header: the sum of those that are fast in some instruction set */
enum fast_product {
    FAST_QUERIES = 1, FAST_KEYS = 2, FAST_VALUES = 4, FAST_OUTPUT = 8, FAST_HIDDEN = 16, FAST_DOWN = 32
};

#define FAST_APART 16 /* two rows, or two columns, are mixed where their sizes are at most so many times apart, */
#define FAST_ROWS 64   /* of a sequence from which on products are fast; its tokens are then a group of their own */
#define FAST_NUMBERS 192 /* of whole numbers: from so many of a column on these have */
#define FAST_LEVELS 8191 /* at most so many levels, and sums of four of them fit 16 bits */
#define FAST_LEAST 0x1p-30f /* and within these: then no sum of them overflows, and underflow is far below rounding */
#define FAST_MOST 0x1p60f

#endif
