/* SPDX-License-Identifier: MIT */
#include "dropout.h"

#include <string.h>

void philox(const uint32_t key[2], const uint32_t counter[4], uint32_t words[4])
{
    uint32_t k[2] = {key[0], key[1]};
    memcpy(words, counter, 4 * sizeof *words);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = UINT64_C(0xd2511f53) * words[0], b = UINT64_C(0xcd9e8d57) * words[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ words[1] ^ k[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ words[3] ^ k[1], (uint32_t)a};
        memcpy(words, next, sizeof next);
        k[0] += 0x9e3779b9; /* the golden ratio, and the root of 3 less 1, of 2^32 */
        k[1] += 0xbb67ae85;
    }
}

double dropout_factor(const struct layer *layer, const struct inputs *in, size_t b, size_t i, size_t t, size_t j)
{
    const uint32_t key[2] = {(uint32_t)in->seed, (uint32_t)(in->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)b, (uint32_t)i, (uint32_t)t, (uint32_t)(j / 4)};
    uint32_t words[4];
    philox(key, counter, words);
    return words[j % 4] < layer_dropped(layer) ? 0 : 1 / (1 - layer->dropout);
}
