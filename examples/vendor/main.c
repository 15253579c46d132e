/* SPDX-License-Identifier: MIT */
/* A program with a vendored attention layer: it needs tiny.c and tiny.h beside it and nothing else.
 *
 * Packs drawn weights, runs the layer once and prints its first row. Left out on purpose: real weights, threads.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "tiny.h"

enum { BATCH = 2, N = 20, INNER = TINY_H * TINY_D_K, VALUES = TINY_H * TINY_D_V };

static float x[BATCH][N][TINY_D_MODEL], y[BATCH][N][TINY_D_OUT];
static float w_q[TINY_D_MODEL][INNER], w_k[TINY_D_MODEL][INNER], w_v[TINY_D_MODEL][VALUES], w_o[VALUES][TINY_D_MODEL];
static _Alignas(TINY_ALIGNMENT) unsigned char packed[TINY_PACKED_BYTES], scratch[TINY_SCRATCH_BYTES];

/* Fills `count` floats with numbers evenly drawn from -limit … limit. */
static void draw(float *to, size_t count, float limit, uint32_t *state)
{
    for (size_t i = 0; i < count; i++) {
        *state = *state * 1664525u + 1013904223u;
        to[i] = limit * ((float)(*state >> 8) / 8388608.0f - 1.0f);
    }
}

int main(void)
{
    uint32_t state = 1;
    draw(&x[0][0][0], sizeof x / sizeof(float), 1.7f, &state);
    draw(&w_q[0][0], sizeof w_q / sizeof(float), 0.2f, &state);
    draw(&w_k[0][0], sizeof w_k / sizeof(float), 0.2f, &state);
    draw(&w_v[0][0], sizeof w_v / sizeof(float), 0.2f, &state);
    draw(&w_o[0][0], sizeof w_o / sizeof(float), 0.2f, &state);

    const tiny_weights weights = { .w_q = &w_q[0][0], .w_k = &w_k[0][0], .w_v = &w_v[0][0], .w_o = &w_o[0][0] };
    const tiny_args args = { .x = &x[0][0][0], .y = &y[0][0][0], .batch = BATCH, .n = N };
    int error = tiny_pack(packed, &weights, TINY_ISA_AUTO);
    if (error == TINY_OK)
        error = tiny_forward(packed, &args, scratch);
    if (error == TINY_OK) {
        double sum = 0;
        for (size_t i = 0; i < sizeof y / sizeof(float); i++)
            sum += (&y[0][0][0])[i];
        printf("tiny on %s: y[0][0] = %.5f %.5f %.5f %.5f …, sum of y = %.4f\n", tiny_isa_name(tiny_isa(packed)),
               (double)y[0][0][0], (double)y[0][0][1], (double)y[0][0][2], (double)y[0][0][3], sum);
    } else {
        fprintf(stderr, "tiny: %s\n", tiny_strerror(error));
    }
    return error == TINY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
