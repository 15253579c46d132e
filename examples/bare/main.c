/* SPDX-License-Identifier: MIT */
/* A layer without an operating system or a C library: the weights were packed when this was built and lie in read-only
 * memory, so that the first call is already the layer. */
#include "bare.h"
#include "bare_packed.h"
#include "expected.h"

#if BARE_SCRATCH_BYTES > 65536
#error "the layer needs more memory than this board has to spare"
#endif

void print(const char *text); /* the platform's */
int main(void);

static _Alignas(BARE_ALIGNMENT) unsigned char scratch[BARE_SCRATCH_BYTES];
static float x[BARE_SEQ_LEN][BARE_D_MODEL], y[BARE_SEQ_LEN][BARE_D_OUT];

int main(void)
{
    for (int i = 0; i < BARE_SEQ_LEN * BARE_D_MODEL; i++)
        x[i / BARE_D_MODEL][i % BARE_D_MODEL] = (float)(i * 37 % 64 - 32) / 16.0f;
    const bare_args args = {.x = x[0], .y = y[0], .batch = 1, .n = BARE_SEQ_LEN};
    const void *packed; /* of bare_packed, the block for this machine */
    int error = bare_open(bare_packed, sizeof bare_packed, &packed);
    if (!error)
        error = bare_forward(packed, &args, scratch);
    if (error) {
        print("FAILED: ");
        print(bare_strerror(error));
        print("\n");
        return 1;
    }
    for (int i = 0; i < BARE_SEQ_LEN; i++)
        for (int j = 0; j < BARE_D_OUT; j++) {
            const float difference = y[i][j] - expected[i][j];
            if (!(difference < 1e-5f && difference > -1e-5f)) {
                print("FAILED: y is not what the equations give\n");
                return 1;
            }
        }
    print("ok: the layer on ");
    print(bare_isa_name(bare_isa(packed)));
    print(", y as the equations give it\n");
    return 0;
}
