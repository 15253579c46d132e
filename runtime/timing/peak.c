/* SPDX-License-Identifier: MIT */
/* Sixteen independent accumulators (twelve for 16-register sets), so that the latency of the FMA (4 cycles, two a
 * cycle) is hidden. The scalar kernels are plain C, which compilers may turn into 4-lane SSE2 without FMA: their peak
 * is that of a 4-lane multiplication and addition, as sse4's is; on AArch64 that of NEON, elsewhere of plain C.
 */
#include "peak.h"

#include <string.h>
#include <time.h>

#include "system/clock.h"

#define REPEAT_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define REPEAT_16(X) REPEAT_12(X) X(12) X(13) X(14) X(15)

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define DECLARE(i) __m128 a##i = _mm_set1_ps(0.1f * (i + 1));
#define STEP(i) a##i = _mm_add_ps(_mm_mul_ps(a##i, x), y);
#define SUM(i) sum = _mm_add_ps(sum, a##i);
static float loop_four_lanes(long steps, float value)
{
    const __m128 x = _mm_set1_ps(value), y = _mm_set1_ps(1 - value);
    REPEAT_12(DECLARE)
    for (long s = 0; s < steps; s++) {
        REPEAT_12(STEP)
    }
    __m128 sum = _mm_setzero_ps();
    REPEAT_12(SUM)
    return _mm_cvtss_f32(sum);
}
#undef DECLARE
#undef STEP
#undef SUM

#define DECLARE(i) __m256 a##i = _mm256_set1_ps(0.1f * (i + 1));
#define STEP(i) a##i = _mm256_fmadd_ps(a##i, x, y);
#define SUM(i) sum = _mm256_add_ps(sum, a##i);
__attribute__((target("avx2,fma"))) static float loop_avx2(long steps, float value)
{
    const __m256 x = _mm256_set1_ps(value), y = _mm256_set1_ps(1 - value);
    REPEAT_12(DECLARE)
    for (long s = 0; s < steps; s++) {
        REPEAT_12(STEP)
    }
    __m256 sum = _mm256_setzero_ps();
    REPEAT_12(SUM)
    return _mm256_cvtss_f32(sum);
}
#undef DECLARE
#undef STEP
#undef SUM

#define DECLARE(i) __m512 a##i = _mm512_set1_ps(0.1f * (i + 1));
#define STEP(i) a##i = _mm512_fmadd_ps(a##i, x, y);
#define SUM(i) sum = _mm512_add_ps(sum, a##i);
__attribute__((target("avx512f"))) static float loop_avx512(long steps, float value)
{
    const __m512 x = _mm512_set1_ps(value), y = _mm512_set1_ps(1 - value);
    REPEAT_16(DECLARE)
    for (long s = 0; s < steps; s++) {
        REPEAT_16(STEP)
    }
    __m512 sum = _mm512_setzero_ps();
    REPEAT_16(SUM)
    return _mm512_cvtss_f32(sum);
}

#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>

#define DECLARE(i) float32x4_t a##i = vdupq_n_f32(0.1f * (i + 1));
#define STEP(i) a##i = vfmaq_f32(y, a##i, x);
#define SUM(i) sum = vaddq_f32(sum, a##i);
static float loop_four_lanes(long steps, float value)
{
    const float32x4_t x = vdupq_n_f32(value), y = vdupq_n_f32(1 - value);
    REPEAT_16(DECLARE)
    for (long s = 0; s < steps; s++) {
        REPEAT_16(STEP)
    }
    float32x4_t sum = vdupq_n_f32(0);
    REPEAT_16(SUM)
    return vaddvq_f32(sum);
}

#else

#define DECLARE(i) float a##i = 0.1f * (i + 1);
#define STEP(i) a##i = a##i * value + rest;
#define SUM(i) sum += a##i;
static float loop_scalar(long steps, float value)
{
    const float rest = 1 - value;
    float sum = 0;
    REPEAT_12(DECLARE)
    for (long s = 0; s < steps; s++) {
        REPEAT_12(STEP)
    }
    REPEAT_12(SUM)
    return sum;
}

#endif

static const struct {
    const char *isa;
    float (*loop)(long steps, float value);
    double flops; /* of one step */
    long steps;   /* for about 50 µs at 3 GHz */
} peaks[] = {
#if defined(__x86_64__) && defined(__GNUC__)
    {"scalar", loop_four_lanes, 12 * 4 * 2, 12000},
    {"sse4", loop_four_lanes, 12 * 4 * 2, 12000},
    {"avx2", loop_avx2, 12 * 8 * 2, 24000},
    {"avxvnni", loop_avx2, 12 * 8 * 2, 24000},
    {"avx512", loop_avx512, 16 * 16 * 2, 18000},
    {"amx", loop_avx512, 16 * 16 * 2, 18000}, /* of f32, as elsewhere */
#elif defined(__aarch64__) && defined(__ARM_NEON)
    {"scalar", loop_four_lanes, 16 * 4 * 2, 18000},
    {"neon", loop_four_lanes, 16 * 4 * 2, 18000},
#else
    {"scalar", loop_scalar, 12 * 2, 24000},
#endif
};

double peak_measure(const char *isa)
{
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        if (strcmp(peaks[i].isa, isa) != 0)
            continue;
        volatile float value = 0.9990234375f, sink; /* the compiler must not know the result */
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        sink = peaks[i].loop(peaks[i].steps, value);
        clock_gettime(CLOCK_MONOTONIC, &end);
        (void)sink;
        double ns = 1e9 * (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec);
        return peaks[i].flops * (double)peaks[i].steps / ns;
    }
    return 0;
}

double memory_measure(const void *memory)
{
    const volatile char *line = memory;
    double start = 0;
    for (int pass = 0; pass < 2; pass++) { /* the first one makes what ran before irrelevant */
        start = now_us();
        for (size_t i = 0; i < MEMORY_BYTES; i += 64)
            (void)line[i];
    }
    return (double)MEMORY_BYTES / 1e3 / (now_us() - start);
}
