/* SPDX-License-Identifier: MIT */
/* Floats once each, in the order in which they lie, nothing but added up: what any kernel that reads them takes at
 * least. By vectors of 256 bits: by two to a line Zen 4 reads faster than by one of 512. */
#ifndef PEERS_READ_H
#define PEERS_READ_H

#include <stddef.h>

enum { READ_LINE = 16, READ_HALF = 8, READ_LINES = 4, READ_AHEAD = 40 * READ_LINE }; /* floats, but for LINES */

typedef float read_half __attribute__((vector_size(32), aligned(4)));

/* `ahead`: with prefetches some lines ahead; some machines answer sooner so. A rest of less than half a line is not
 * read. */
static inline float read_floats(const float *from, size_t count, int ahead)
{
    read_half sums[2 * READ_LINES] = {{0}};
    size_t i = 0;
    for (; i + READ_LINES * READ_LINE <= count; i += READ_LINES * READ_LINE) {
        if (ahead)
            for (size_t l = 0; l < READ_LINES; l++)
                __builtin_prefetch(from + i + l * READ_LINE + READ_AHEAD);
#pragma GCC unroll 8
        for (size_t h = 0; h < 2 * READ_LINES; h++)
            sums[h] += *(const read_half *)(from + i + h * READ_HALF);
    }
    for (; i + READ_HALF <= count; i += READ_HALF)
        sums[0] += *(const read_half *)(from + i);
    float sum = 0;
    for (size_t h = 0; h < 2 * READ_LINES; h++)
        for (size_t j = 0; j < READ_HALF; j++)
            sum += sums[h][j];
    return sum;
}

#endif
