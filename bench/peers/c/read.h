/* SPDX-License-Identifier: MIT */
/* Floats once each, in the order in which they lie, nothing but added up: what any kernel that reads them takes at
 * least. With 512-bit vectors where the compiler may use them. */
#ifndef PEERS_READ_H
#define PEERS_READ_H

#include <stddef.h>

enum { READ_LINE = 16, READ_LINES = 8, READ_AHEAD = 40 * READ_LINE }; /* floats, but for LINES */

typedef float read_line __attribute__((vector_size(64), aligned(4)));

/* `ahead`: with prefetches some lines ahead; some machines answer sooner so. A rest of less than a line is not read. */
static inline float read_floats(const float *from, size_t count, int ahead)
{
    read_line sums[READ_LINES] = {{0}};
    size_t i = 0;
    for (; i + READ_LINES * READ_LINE <= count; i += READ_LINES * READ_LINE) {
        if (ahead)
            for (size_t l = 0; l < READ_LINES; l++)
                __builtin_prefetch(from + i + l * READ_LINE + READ_AHEAD);
#pragma GCC unroll 8
        for (size_t l = 0; l < READ_LINES; l++)
            sums[l] += *(const read_line *)(from + i + l * READ_LINE);
    }
    for (; i + READ_LINE <= count; i += READ_LINE)
        sums[0] += *(const read_line *)(from + i);
    float sum = 0;
    for (size_t l = 0; l < READ_LINES; l++)
        for (size_t j = 0; j < READ_LINE; j++)
            sum += sums[l][j];
    return sum;
}

#endif
