/* SPDX-License-Identifier: MIT */
/* A whole model's layers: twelve of one shape share one pair, `block`, and each has its weights in one array of packed
 * blocks. Their outputs must be those of twelve layers packed and run apart. Left out on purpose: norms and residuals,
 * which would only hide a difference; right and wrong numbers, which attnrun's reference knows.
 */
#include <stdio.h>
#include <string.h>

#include "block.h"

enum {
    LAYERS = 12,
    BATCH = 2,
    N = BLOCK_SEQ_LEN - 3,
    X = BATCH * N * BLOCK_D_MODEL,
    MATRIX = BLOCK_D_MODEL * BLOCK_D_MODEL
};
_Static_assert(BLOCK_PACKED_BYTES % BLOCK_ALIGNMENT == 0, "blocks lie one behind the other, each on its boundary");

static float matrices[LAYERS][4][MATRIX], biases[LAYERS][4][BLOCK_D_MODEL], hidden[LAYERS + 1][X], apart[X];
static _Alignas(BLOCK_ALIGNMENT) unsigned char packed[LAYERS][BLOCK_PACKED_BYTES], alone[BLOCK_PACKED_BYTES];
static _Alignas(BLOCK_ALIGNMENT) unsigned char scratch[BLOCK_SCRATCH_BYTES];

static void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 16777216.0f - 0.5f;
    }
}

static block_weights weights_of(size_t layer)
{
    return (block_weights){
        .w_q = matrices[layer][0], .b_q = biases[layer][0], .w_k = matrices[layer][1], .b_k = biases[layer][1],
        .w_v = matrices[layer][2], .b_v = biases[layer][2], .w_o = matrices[layer][3], .b_o = biases[layer][3],
    };
}

static int pack_layer(void *into, size_t layer)
{
    const block_weights weights = weights_of(layer);
    return block_pack(into, &weights, BLOCK_ISA_AUTO);
}

static int run_layer(const void *block, const float *x, float *y)
{
    const block_args args = {.x = x, .y = y, .batch = BATCH, .n = N};
    return block_forward(block, &args, scratch);
}

int main(void)
{
    int error = 0;
    fill(hidden[0], X, 1);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        fill(matrices[layer][0], 4 * MATRIX, 100 + (uint32_t)layer);
        fill(biases[layer][0], 4 * BLOCK_D_MODEL, 200 + (uint32_t)layer);
        error = error ? error : pack_layer(packed[layer], layer);
    }
    for (size_t layer = 0; layer < LAYERS; layer++)
        error = error ? error : run_layer(packed[layer], hidden[layer], hidden[layer + 1]);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        error = error ? error : pack_layer(alone, layer);
        error = error ? error : run_layer(alone, hidden[layer], apart);
        if (error || memcmp(apart, hidden[layer + 1], sizeof apart) != 0) {
            printf("layer %d: %s\n", (int)layer, error ? block_strerror(error) : "other bits than alone");
            return 1;
        }
        error = run_layer(packed[(layer + 1) % LAYERS], hidden[layer], apart);
        if (error || memcmp(apart, hidden[layer + 1], sizeof apart) == 0) {
            printf("layer %d: the same bits with the weights of another\n", (int)layer);
            return 1;
        }
    }
    return 0;
}
