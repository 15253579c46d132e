/* SPDX-License-Identifier: MIT */
/* A program with the layer of average.layer, which each build system beside this file has generated for it.
 *
 * W_Q and W_K are zero, so every visible key weighs the same; W_V and W_O are the identity: y[t] is the average of
 * x[0] … x[t]. Exit code 0 if it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include "average.h"

enum { N = AVERAGE_SEQ_LEN, D = AVERAGE_D_MODEL };

static _Alignas(AVERAGE_ALIGNMENT) unsigned char packed[AVERAGE_PACKED_BYTES], scratch[AVERAGE_SCRATCH_BYTES];
static float x[N][D], y[N][D], zero[D][D], identity[D][D];

int main(void)
{
    for (int i = 0; i < D; i++)
        identity[i][i] = 1;
    for (int t = 0; t < N; t++)
        for (int i = 0; i < D; i++)
            x[t][i] = (float)((t * 7 + i * 3) % 16);

    const average_weights weights = { .w_q = zero[0], .w_k = zero[0], .w_v = identity[0], .w_o = identity[0] };
    const average_args args = { .x = x[0], .y = y[0], .batch = 1, .n = N };
    int error = average_pack(packed, &weights, AVERAGE_ISA_AUTO);
    if (error == AVERAGE_OK)
        error = average_forward(packed, &args, scratch);
    if (error != AVERAGE_OK) {
        fprintf(stderr, "average: %s\n", average_strerror(error));
        return EXIT_FAILURE;
    }
    for (int i = 0; i < D; i++) {
        float sum = 0;
        for (int t = 0; t < N; t++) {
            sum += x[t][i];
            const float difference = y[t][i] - sum / (float)(t + 1);
            if (!(difference > -1e-4f && difference < 1e-4f)) {
                fprintf(stderr, "average: y[%d][%d] is %g, not %g\n", t, i, (double)y[t][i], (double)sum / (t + 1));
                return EXIT_FAILURE;
            }
        }
    }
    printf("average on %s: ok\n", average_isa_name(average_isa(packed)));
    return EXIT_SUCCESS;
}
