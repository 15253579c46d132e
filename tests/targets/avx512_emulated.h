/* SPDX-License-Identifier: MIT */
/* AVX-512 for machines without it: include this before an emitted pair (cc -include avx512_emulated.h …), and its avx512
 * kernels are built from SIMDe's portable versions of the intrinsics, and chosen: the CPU and the operating system seem to
 * offer everything.
 *
 * For tests of results, not of speed. Left out on purpose: intrinsics that templates/sets/simd_avx512.in does not use. Those
 * below are missing in SIMDe 0.7.4; their semantics: Intel SDM volume 2, the instruction named beside each.
 */
#ifndef AVX512_EMULATED_H
#define AVX512_EMULATED_H

#include <cpuid.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wpsabi"
#include <simde/x86/avx512.h>
#pragma GCC diagnostic pop
#pragma GCC diagnostic ignored "-Wpsabi"

union emulated_512 {
    simde__m512 vector;
    simde__m512i integers;
    float f[16];
    uint32_t u[16];
};

/* vmovups, zeroing: lanes that the mask leaves out are zero, and their memory is not read */
static inline simde__m512 emulated_maskz_loadu_ps(simde__mmask16 k, const void *p)
{
    union emulated_512 a = {.u = {0}};
    for (int i = 0; i < 16; i++)
        if (k >> i & 1)
            memcpy(&a.f[i], (const char *)p + 4 * i, 4);
    return a.vector;
}

/* vmovups, masked: only the lanes of the mask are written */
static inline void emulated_mask_storeu_ps(void *p, simde__mmask16 k, simde__m512 v)
{
    const union emulated_512 a = {.vector = v};
    for (int i = 0; i < 16; i++)
        if (k >> i & 1)
            memcpy((char *)p + 4 * i, &a.f[i], 4);
}

/* vmovdqu8, zeroing */
static inline simde__m128i emulated_maskz_loadu_epi8(simde__mmask16 k, const void *p)
{
    uint8_t bytes[16] = {0};
    for (int i = 0; i < 16; i++)
        if (k >> i & 1)
            bytes[i] = ((const uint8_t *)p)[i];
    return simde_mm_loadu_si128((const void *)bytes);
}

/* vpmovzxbd */
static inline simde__m512i emulated_cvtepu8_epi32(simde__m128i v)
{
    uint8_t bytes[16];
    union emulated_512 a;
    simde_mm_storeu_si128((void *)bytes, v);
    for (int i = 0; i < 16; i++)
        a.u[i] = bytes[i];
    return a.integers;
}

/* vreduceps with no bits kept and rounding down: x - floor(x); 0 for infinities */
static inline simde__m512 emulated_fraction(simde__m512 v)
{
    union emulated_512 a = {.vector = v};
    for (int i = 0; i < 16; i++)
        a.f[i] = __builtin_isinf(a.f[i]) ? 0.0f : a.f[i] - __builtin_floorf(a.f[i]);
    return a.vector;
}

/* vshuff32x4: two blocks of four floats of each operand */
static inline simde__m512 emulated_shuffle_f32x4(simde__m512 x, simde__m512 y, int order)
{
    const union emulated_512 a = {.vector = x}, b = {.vector = y};
    union emulated_512 r;
    for (int i = 0; i < 4; i++)
        memcpy(&r.f[4 * i], &(i < 2 ? a : b).f[4 * (order >> 2 * i & 3)], 16);
    return r.vector;
}

/* vcvttps2dq */
static inline simde__m512i emulated_cvttps_epi32(simde__m512 v)
{
    union emulated_512 a = {.vector = v};
    for (int i = 0; i < 16; i++) {
        const int32_t whole = a.f[i] >= -0x1p31f && a.f[i] < 0x1p31f ? (int32_t)a.f[i] : INT32_MIN;
        memcpy(&a.u[i], &whole, 4);
    }
    return a.integers;
}

/* vgatherdps, all lanes */
static inline simde__m512 emulated_i32gather_ps(simde__m512i at, const float *p)
{
    union emulated_512 a = {.integers = at};
    for (int i = 0; i < 16; i++) {
        int32_t index;
        memcpy(&index, &a.u[i], 4);
        a.f[i] = p[index];
    }
    return a.vector;
}

/* vdpbf16ps: two products of bf16, that of high halves first, each sum rounded once; subnormal numbers are 0 on both
 * sides */
static inline float emulated_flushed(float a)
{
    return a > -0x1p-126f && a < 0x1p-126f ? 0.0f : a;
}
static inline float emulated_half(uint32_t pair, int high)
{
    const uint32_t bits = high ? pair & 0xffff0000u : pair << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return emulated_flushed(number);
}
static inline simde__m512 emulated_dpbf16_ps(simde__m512 c, simde__m512i x, simde__m512i y)
{
    union emulated_512 sum = {.vector = c};
    const union emulated_512 a = {.integers = x}, b = {.integers = y};
    for (int i = 0; i < 16; i++) {
        sum.f[i] = emulated_flushed(sum.f[i]);
        for (int high = 1; high >= 0; high--)
            sum.f[i] = emulated_flushed(fmaf(emulated_half(a.u[i], high), emulated_half(b.u[i], high), sum.f[i]));
    }
    return sum.vector;
}

/* vcvtneps2bf16: to nearest, of two the even one; subnormal numbers are 0, NaN stays */
static inline simde__m256i emulated_cvtneps_pbh(simde__m512 v)
{
    const union emulated_512 a = {.vector = v};
    uint16_t half[16];
    for (int i = 0; i < 16; i++)
        half[i] = (uint16_t)((a.u[i] & 0x7fffffffu) > 0x7f800000u ? a.u[i] >> 16 | 0x40u
                           : (a.u[i] & 0x7f800000u) == 0          ? a.u[i] >> 16 & 0x8000u
                                                                  : (a.u[i] + 0x7fffu + (a.u[i] >> 16 & 1u)) >> 16);
    return simde_mm256_loadu_si256((const void *)half);
}

#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm_maskz_loadu_epi8
#undef _mm512_cvtepu8_epi32
#undef _mm512_reduce_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_cvttps_epi32
#undef _mm512_i32gather_ps
#define _mm512_cvttps_epi32(a) emulated_cvttps_epi32(a)
#define _mm512_i32gather_ps(at, p, scale) ((void)sizeof(char[(scale) == 4 ? 1 : -1]), emulated_i32gather_ps(at, p))
#define _mm512_maskz_loadu_ps(k, p) emulated_maskz_loadu_ps(k, p)
#define _mm512_mask_storeu_ps(p, k, a) emulated_mask_storeu_ps(p, k, a)
#define _mm_maskz_loadu_epi8(k, p) emulated_maskz_loadu_epi8(k, p)
#define _mm512_cvtepu8_epi32(a) emulated_cvtepu8_epi32(a)
#define _mm512_reduce_ps(a, how) ((void)sizeof(char[(how) == (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC) ? 1 : -1]), \
                                  emulated_fraction(a))
#define _mm512_shuffle_f32x4(a, b, order) emulated_shuffle_f32x4(a, b, order)

#undef _mm512_dpbf16_ps
#undef _mm512_cvtneps_pbh
#define __m512bh simde__m512i
#define _mm512_dpbf16_ps(c, a, b) emulated_dpbf16_ps(c, a, b)
#define _mm512_cvtneps_pbh(a) emulated_cvtneps_pbh(a)

/* no function may be compiled for more than this machine has */
#define target(features)

/* vec_hold: no register of this machine holds such a vector */
#define __asm__(...) ((void)0)

#undef __cpuid_count
#define __cpuid_count(leaf, sub, a, b, c, d) ((a) = (b) = (c) = (d) = ~0u)
#define _xgetbv(number) (~0ull)

#endif
