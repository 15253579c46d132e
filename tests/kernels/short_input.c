/* SPDX-License-Identifier: MIT */
/* A user's mistake: examples/tiny with an x that lacks the last MISSING of its numbers, by the instruction set ISA. Under
 * ASan the call must be stopped at the read behind x, whatever the kernel is written in; test_emitted.sh asks for it.
 *
 *   short_input ISA MISSING      exit code 0: computed; 2: the instruction set is not there
 */
#include <stdlib.h>

#include "tiny.h"

static _Alignas(64) float packed[TINY_PACKED_BYTES / 4], scratch[TINY_SCRATCH_BYTES / 4];
static float weights[TINY_D_MODEL * TINY_D_MODEL], y[TINY_SEQ_LEN * TINY_D_MODEL];

int main(int argc, char **argv)
{
    const int isa = argc > 2 ? atoi(argv[1]) : 0, missing = argc > 2 ? atoi(argv[2]) : 0;
    const tiny_weights all = {.w_q = weights, .w_k = weights, .w_v = weights, .w_o = weights};
    if (tiny_pack(packed, &all, (tiny_isa_id)isa) != TINY_OK)
        return 2;
    float *x = calloc((size_t)(TINY_SEQ_LEN * TINY_D_MODEL - missing), sizeof *x);
    const tiny_args args = {.x = x, .y = y, .batch = 1, .n = TINY_SEQ_LEN};
    const int error = x != NULL ? tiny_forward(packed, &args, scratch) : 1;
    free(x);
    return error;
}
