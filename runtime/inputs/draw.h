/* SPDX-License-Identifier: MIT */
/* Numbers drawn from integers alone, so that they are the same bits on every machine: attnrun makes the expected
 * outputs of a self-test from them, and the program that it writes draws them again.
 *
 * Left out on purpose: normal numbers, whose logarithm and cosine are the C library's; see inputs.c.
 */
#ifndef ATTNRUN_DRAW_H
#define ATTNRUN_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* What follows, up to the #endif, stands in the written program as well. */

/* splitmix64 */
static inline uint64_t draw_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Multiples of limit / 2^23 from -limit up to limit; exact, as `limit` is a power of two. */
static inline float draw_number(uint64_t *state, float limit)
{
    return (float)((int32_t)(draw_bits(state) >> 40) - (INT32_C(1) << 23)) * (limit / 8388608.0f);
}

/* What one tensor is filled with. */
struct draw {
    enum { DRAW_NUMBERS, DRAW_MASK_BOOL, DRAW_MASK_ADD } kind;
    void *data;
    size_t rows, columns;
    float limit; /* of DRAW_NUMBERS */
    uint64_t seed;
};

/* Of 16 rows 1 is hidden, 8 are visible, the others so in eighths; any byte but 0 is visible. */
static inline void draw_mask_bool_row(unsigned char *row, size_t columns, uint64_t *state)
{
    const uint64_t eighths = draw_bits(state) >> 60;
    for (size_t j = 0; j < columns; j++) {
        const uint64_t bits = draw_bits(state);
        row[j] = (unsigned char)((bits >> 61) < eighths ? 1 + (bits & 127) : 0);
    }
}

/* Of 16 rows 1 is hidden and 1 is -1e9; in the others 2 of 16 keys are hidden, 1 is -1e9, and the rest small. */
static inline void draw_mask_add_row(float *row, size_t columns, uint64_t *state)
{
    const uint64_t kind = draw_bits(state) >> 60;
    for (size_t j = 0; j < columns; j++) {
        const uint64_t chance = draw_bits(state) >> 60;
        const float small = draw_number(state, 2.0f);
        row[j] = kind == 0 || (kind > 1 && chance < 2) ? -(1.0f / 0.0f) : kind == 1 || chance == 2 ? -1e9f : small;
    }
}

static inline void draw_fill(const struct draw *draw)
{
    uint64_t state = draw->seed;
    for (size_t row = 0; row < draw->rows; row++) {
        if (draw->kind == DRAW_MASK_BOOL) {
            draw_mask_bool_row((unsigned char *)draw->data + row * draw->columns, draw->columns, &state);
        } else if (draw->kind == DRAW_MASK_ADD) {
            draw_mask_add_row((float *)draw->data + row * draw->columns, draw->columns, &state);
        } else {
            for (size_t j = 0; j < draw->columns; j++)
                ((float *)draw->data)[row * draw->columns + j] = draw_number(&state, draw->limit);
        }
    }
}

#endif
