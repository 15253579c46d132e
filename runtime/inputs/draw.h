/* SPDX-License-Identifier: MIT */
/* Random numbers made from integers only, so that they have the same bits on every machine: attnrun computes the
 * expected outputs of a self-test from them, and the program that it writes draws them again.
 *
 * Left out on purpose: normal numbers, whose logarithm and cosine are the C library's; see inputs.c.
 */
#ifndef ATTNRUN_DRAW_H
#define ATTNRUN_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* Everything from here to the #endif is copied into the written program. */

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
    enum { DRAW_NUMBERS, DRAW_MASK_BOOL, DRAW_MASK_ADD, DRAW_BF16, DRAW_F16, DRAW_I8 } kind;
    void *data;
    size_t rows, columns;
    float limit; /* of DRAW_NUMBERS, DRAW_BF16 and DRAW_F16; of these two at least 2^-7 and at most 2^15 */
    uint64_t seed;
};

/* A multiple of limit / 2^7 from -limit up to limit, which bf16 and f16 represent exactly; its bits. */
static inline uint16_t draw_two_bytes(uint64_t *state, float limit, int is_f16)
{
    const int32_t drawn = (int32_t)(draw_bits(state) >> 56) - 128;
    const union { float number; uint32_t bits; } f32 = {(float)drawn * (limit / 128.0f)};
    const uint32_t sign = f32.bits >> 16 & 0x8000, size = f32.bits & 0x7fffffff;
    return (uint16_t)(!is_f16 ? f32.bits >> 16 : size == 0 ? 0 : sign | ((size >> 13) - (UINT32_C(112) << 10)));
}

/* Of 16 rows 1 is hidden and 8 are visible; in the others each key is visible with a probability in eighths. Any byte
 * but 0 is visible. */
static inline void draw_mask_bool_row(unsigned char *row, size_t columns, uint64_t *state)
{
    const uint64_t eighths = draw_bits(state) >> 60;
    for (size_t j = 0; j < columns; j++) {
        const uint64_t bits = draw_bits(state);
        row[j] = (unsigned char)((bits >> 61) < eighths ? 1 + (bits & 127) : 0);
    }
}

/* Of 16 rows 1 is hidden and 1 is -1e9; in the others 2 of 16 keys are hidden, 1 is -1e9, and the rest are small. */
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
            for (size_t at = row * draw->columns; at < (row + 1) * draw->columns; at++)
                if (draw->kind == DRAW_NUMBERS)
                    ((float *)draw->data)[at] = draw_number(&state, draw->limit);
                else if (draw->kind == DRAW_I8) /* -127 to 127 */
                    ((signed char *)draw->data)[at] = (signed char)((int)(draw_bits(&state) >> 33) % 255 - 127);
                else
                    ((uint16_t *)draw->data)[at] = draw_two_bytes(&state, draw->limit, draw->kind == DRAW_F16);
        }
    }
}

#endif
