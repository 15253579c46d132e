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

enum { CALLS = 201, INNER = CHOSEN_H * CHOSEN_D_K, VALUES = CHOSEN_H * CHOSEN_D_V };

static float x[CHOSEN_SEQ_LEN][CHOSEN_D_MODEL], y[CHOSEN_SEQ_LEN][CHOSEN_D_OUT];
static float w_q[CHOSEN_D_MODEL][INNER], w_k[CHOSEN_D_MODEL][INNER];
static float w_v[CHOSEN_D_MODEL][VALUES], w_o[VALUES][CHOSEN_D_MODEL];

/* Fills `count` floats with numbers evenly drawn from -limit … limit. */
static void draw(float *to, size_t count, float limit, uint32_t *state)
{
    for (size_t i = 0; i < count; i++) {
        *state = *state * 1664525u + 1013904223u;
        to[i] = limit * ((float)(*state >> 8) / 8388608.0f - 1.0f);
    }
}

static void *allocate(size_t bytes)
{
    return aligned_alloc(CHOSEN_ALIGNMENT, (bytes + CHOSEN_ALIGNMENT - 1) / CHOSEN_ALIGNMENT * CHOSEN_ALIGNMENT);
}

static double microseconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(void)
{
    static double took[CALLS];
    uint32_t state = 1;
    draw(&x[0][0], sizeof x / sizeof(float), 1.7f, &state);
    draw(&w_q[0][0], sizeof w_q / sizeof(float), 0.1f, &state);
    draw(&w_k[0][0], sizeof w_k / sizeof(float), 0.1f, &state);
    draw(&w_v[0][0], sizeof w_v / sizeof(float), 0.1f, &state);
    draw(&w_o[0][0], sizeof w_o / sizeof(float), 0.1f, &state);

    void *packed = allocate(CHOSEN_PACKED_BYTES), *scratch = allocate(CHOSEN_SCRATCH_BYTES);
    const chosen_weights weights = { .w_q = &w_q[0][0], .w_k = &w_k[0][0], .w_v = &w_v[0][0], .w_o = &w_o[0][0] };
    const chosen_args args = { .x = &x[0][0], .y = &y[0][0], .batch = 1, .n = CHOSEN_SEQ_LEN };
    int error = packed && scratch ? chosen_pack(packed, &weights, CHOSEN_ISA_AUTO) : CHOSEN_ERROR_NULL;
    for (size_t i = 0; error == CHOSEN_OK && i < CALLS; i++) {
        const double start = microseconds();
        error = chosen_forward(packed, &args, scratch);
        took[i] = microseconds() - start;
    }
    if (error == CHOSEN_OK) {
        qsort(took, CALLS, sizeof *took, ascending);
        printf("chosen: d_model = %d, h = %d, d_k = %d, n = %d on %s: %.2f µs, the median of %d calls; y[0][0] = %.5f\n",
               CHOSEN_D_MODEL, CHOSEN_H, CHOSEN_D_K, CHOSEN_SEQ_LEN, chosen_isa_name(chosen_isa(packed)),
               took[CALLS / 2], CALLS, (double)y[0][0]);
    } else {
        fprintf(stderr, "chosen: %s\n", packed && scratch ? chosen_strerror(error) : "out of memory");
    }
    free(packed);
    free(scratch);
    return error == CHOSEN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
