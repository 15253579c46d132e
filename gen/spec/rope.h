/* SPDX-License-Identifier: MIT */
/* The frequencies of rotary positions: f_c of each pair of columns, with every scaling, as emitted files have them.
 *
 * A position p turns pair c by p f_c, and only the fraction of a turn, p f_c / 2 pi mod 1, matters. So a file holds
 * f_c / 2 pi as an integer number of 2^-96 turns: times any int32 position that is exact, modulo 1, in integers.
 * Computed without libm, so that every machine that generates writes the same digits.
 *
 * Left out on purpose: cosines and sines (templates/steps/rope.in), and what the reference takes for f_c (its own).
 */
#pragma once

#include <stdint.h>

struct layer;

struct rope_step {
    uint64_t high; /* of 2^-64 turns a position */
    uint32_t low;  /* and of 2^-96 */
    double radians; /* f_c to the nearest double, for the reader */
};

/* Most radians a position for which the fraction is exact to 2^-80 turns. */
#define ROPE_MOST 0x1p20

/* Of the pair of columns that is called c in docs/positions.md, 0 <= c < rope_dims / 2. */
struct rope_step rope_step(const struct layer *layer, int64_t c);
/* 0.1 ln factor + 1: yarn's factor of cosine and sine where the spec gives none */
double rope_attention_factor(double factor);
