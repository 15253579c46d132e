/* SPDX-License-Identifier: MIT */
/* The chosen layer at work: packs drawn weights, calls the layer over and over, says how long one call takes.
 *
 * Needs chosen.c and chosen.h beside it and nothing else. Left out on purpose: real weights, threads.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "chosen.h"

enum { CALLS = 16 /* between two looks at the clock */, INNER = CHOSEN_H * CHOSEN_D_K, VALUES = CHOSEN_H * CHOSEN_D_V };

static float x[CHOSEN_SEQ_LEN][CHOSEN_D_MODEL], y[CHOSEN_SEQ_LEN][CHOSEN_D_OUT];
static float w_q[CHOSEN_D_MODEL][INNER], w_k[CHOSEN_D_MODEL][INNER];
static float w_v[CHOSEN_D_MODEL][VALUES], w_o[VALUES][CHOSEN_D_MODEL];
static _Alignas(CHOSEN_ALIGNMENT) unsigned char packed[CHOSEN_PACKED_BYTES], scratch[CHOSEN_SCRATCH_BYTES];

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
    draw(&x[0][0], sizeof x / sizeof(float), 1.7f, &state);
    draw(&w_q[0][0], sizeof w_q / sizeof(float), 0.1f, &state);
    draw(&w_k[0][0], sizeof w_k / sizeof(float), 0.1f, &state);
    draw(&w_v[0][0], sizeof w_v / sizeof(float), 0.1f, &state);
    draw(&w_o[0][0], sizeof w_o / sizeof(float), 0.1f, &state);

    const chosen_weights weights = { .w_q = &w_q[0][0], .w_k = &w_k[0][0], .w_v = &w_v[0][0], .w_o = &w_o[0][0] };
    const chosen_args args = { .x = &x[0][0], .y = &y[0][0], .batch = 1, .n = CHOSEN_SEQ_LEN };
    int error = chosen_pack(packed, &weights, CHOSEN_ISA_AUTO);
    clock_t took = 0;
    long calls = 0;
    for (const clock_t start = clock(); error == CHOSEN_OK && took < CLOCKS_PER_SEC / 2; took = clock() - start) {
        for (size_t i = 0; error == CHOSEN_OK && i < CALLS; i++)
            error = chosen_forward(packed, &args, scratch);
        calls += CALLS;
    }
    if (error == CHOSEN_OK) {
        printf("chosen: d_model = %d, h = %d, d_k = %d, n = %d on %s: %.2f µs, the mean of %ld calls; y[0][0] = %.5f\n",
               CHOSEN_D_MODEL, CHOSEN_H, CHOSEN_D_K, CHOSEN_SEQ_LEN, chosen_isa_name(chosen_isa(packed)),
               1e6 * (double)took / CLOCKS_PER_SEC / (double)calls, calls, (double)y[0][0]);
    } else {
        fprintf(stderr, "chosen: %s\n", chosen_strerror(error));
    }
    return error == CHOSEN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
