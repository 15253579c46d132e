/* SPDX-License-Identifier: MIT */
/* The multiply-adds of sets that have none (templates/sets/fused.in, simd_scalar.in) against the C library's fmaf, bit
 * for bit but for NaN: all triples of numbers around each edge, then `count` drawn ones. Includes a portable pair, PAIR,
 * for its functions.
 *
 *   fused [COUNT]
 */
#include PAIR

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint64_t state = 1;
static uint64_t draw(void) /* splitmix64 */
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Four triples at a time */
static float a[4], b[4], c[4];
static int held;
static unsigned long tried, wrong;

static void differs(const char *set, int i, float got, float exact)
{
    if (bits_of(got) == bits_of(exact) || (got != got && exact != exact))
        return;
    if (wrong++ < 10)
        printf("%s: fma(%a, %a, %a) is %a, not %a\n", set, a[i], b[i], c[i], got, exact);
}

#if defined(__SSE4_1__)
__attribute__((target("sse4.1"))) static void of_sse4(float *to)
{
    _mm_storeu_ps(to, fma_sse4(_mm_loadu_ps(a), _mm_loadu_ps(b), _mm_loadu_ps(c)));
}
#endif

static void try_triple(float x, float y, float z)
{
    a[held] = x, b[held] = y, c[held] = z;
    if (++held < 4)
        return;
    held = 0;
    tried += 4;
#if defined(__SSE4_1__)
    float four[4];
    of_sse4(four);
#endif
    for (int i = 0; i < 4; i++) {
        const float exact = fmaf(a[i], b[i], c[i]);
        differs("scalar", i, fused_scalar(a[i], b[i], c[i]), exact);
#if defined(__SSE4_1__)
        differs("sse4", i, four[i], exact);
#endif
    }
}

int main(int argc, char **argv)
{
    static const uint32_t edges[] = {0, 1, 2, 3, 0x3fffff, 0x400000, 0x400001, 0x7fffff, 0x800000, 0x800001, 0x800003,
                                     0x1000000, 0x33800000, 0x33800001, 0x34000000, 0x3effffff, 0x3f000000, 0x3f7fffff,
                                     0x3f800000, 0x3f800001, 0x3f800003, 0x3fc00000, 0x3fffffff, 0x40000000, 0x4b000000,
                                     0x4b7fffff, 0x4b800001, 0x5f3504f3, 0x5f7fffff, 0x7e7fffff, 0x7e800000, 0x7f000000,
                                     0x7f7ffffe, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x20000000, 0x1fffffff, 0x0cffffff};
    const int count = (int)(sizeof edges / sizeof *edges);
    const unsigned long drawn = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    for (int i = 0; i < 2 * count; i++)
        for (int j = 0; j < 2 * count; j++)
            for (int k = 0; k < 2 * count; k++)
                try_triple(float_of(edges[i / 2] | (uint32_t)(i & 1) << 31), float_of(edges[j / 2] | (uint32_t)(j & 1) << 31),
                           float_of(edges[k / 2] | (uint32_t)(k & 1) << 31));
    for (unsigned long n = 0; n < drawn; n++) {
        const uint64_t one = draw(), two = draw();
        const float x = float_of((uint32_t)one), y = float_of((uint32_t)(one >> 32));
        const float product = x * y;
        uint32_t near = bits_of(product);
        switch (two >> 60 & 3) { /* any c; near -x y, near the last place of x y, ties beside it */
        case 0: near = (uint32_t)two; break;
        case 1: near = (near ^ 0x80000000u) + (uint32_t)(two & 7) - 3; break;
        case 2: near = (near & 0x80ffffffu) + (((near >> 23 & 255u) - 20 + (uint32_t)(two & 31)) << 23); break;
        default: near = (near & 0x7f800000u) + (uint32_t)((two & 63) << 23) + (uint32_t)(two >> 32 & 1); break;
        }
        try_triple(x, y, float_of(near));
    }
    printf("%lu triples, %lu wrong\n", tried, wrong);
    return wrong > 0;
}
