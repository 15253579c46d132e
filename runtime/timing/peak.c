/* SPDX-License-Identifier: MIT */
/* Sixteen independent accumulators (twelve for 16-register sets), so that the latency of the FMA (4 cycles, two a
 * cycle) is hidden. The scalar kernels are plain C, which compilers may turn into 4-lane SSE2 without FMA: their peak
 * is that of a 4-lane multiplication and addition, as sse4's is; on AArch64 that of NEON, elsewhere of plain C.
 */
#include "peak.h"

#include <string.h>
#include <time.h>

#include "system/clock.h"

#define READ_US 2000.0 /* of a measurement, or one pass */

#define REPEAT_4(X, S, a, b, c, d) X(a, S) X(b, S) X(c, S) X(d, S)
#define REPEAT_12(X, S) REPEAT_4(X, S, 0, 1, 2, 3) REPEAT_4(X, S, 4, 5, 6, 7) REPEAT_4(X, S, 8, 9, 10, 11)
#define REPEAT_16(X, S) REPEAT_12(X, S) REPEAT_4(X, S, 12, 13, 14, 15)
#define REPEAT_8(X, S) REPEAT_4(X, S, 0, 1, 2, 3) REPEAT_4(X, S, 4, 5, 6, 7)
#define DECLARE(i, set) vec_##set a##i = splat_##set(0.1f * (i + 1));
#define STEP(i, set) a##i = step_##set(a##i, x, y);
#define SUM(i, set) sum = add_##set(sum, a##i);
#define READ(i, set) a##i = add_##set(a##i, load_##set(from + (i) * (long)(sizeof sum / sizeof *from)));

/* The words of a set are vec_SET, splat_SET(number), load_SET(address), step_SET(a, x, y): a x + y, add_SET(a, b),
 * one_SET(a): a number that depends on all lanes that are read. `repeat`: over the accumulators. */
#define LOOP(set, repeat) \
    static float loop_##set(long steps, float value) \
    { \
        const vec_##set x = splat_##set(value), y = splat_##set(1 - value); \
        vec_##set sum = splat_##set(0); \
        repeat(DECLARE, set) \
        for (long s = 0; s < steps; s++) { \
            repeat(STEP, set) \
        } \
        repeat(SUM, set) \
        return one_##set(sum); \
    }

/* Reads numbers from ... end-1, eight vectors at a time. */
#define READER(set) \
    static float read_##set(const float *from, const float *end) \
    { \
        vec_##set sum = splat_##set(0); \
        REPEAT_8(DECLARE, set) \
        for (; from < end; from += 8 * (sizeof sum / sizeof *from)) { \
            REPEAT_8(READ, set) \
        } \
        REPEAT_8(SUM, set) \
        return one_##set(sum); \
    }

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

typedef __m128 vec_four_lanes;
#define splat_four_lanes(number) _mm_set1_ps(number)
#define step_four_lanes(a, x, y) _mm_add_ps(_mm_mul_ps(a, x), y)
#define add_four_lanes(a, b) _mm_add_ps(a, b)
#define one_four_lanes(a) _mm_cvtss_f32(a)
#define load_four_lanes(p) _mm_loadu_ps(p)
LOOP(four_lanes, REPEAT_12)
READER(four_lanes)

typedef __m256 vec_avx2;
#define splat_avx2(number) _mm256_set1_ps(number)
#define step_avx2(a, x, y) _mm256_fmadd_ps(a, x, y)
#define add_avx2(a, b) _mm256_add_ps(a, b)
#define one_avx2(a) _mm256_cvtss_f32(a)
#define load_avx2(p) _mm256_loadu_ps(p)
__attribute__((target("avx2,fma"))) LOOP(avx2, REPEAT_12)
__attribute__((target("avx2"))) READER(avx2)

typedef __m512 vec_avx512;
#define splat_avx512(number) _mm512_set1_ps(number)
#define step_avx512(a, x, y) _mm512_fmadd_ps(a, x, y)
#define add_avx512(a, b) _mm512_add_ps(a, b)
#define one_avx512(a) _mm512_cvtss_f32(a)
#define load_avx512(p) _mm512_loadu_ps(p)
__attribute__((target("avx512f"))) LOOP(avx512, REPEAT_16)
__attribute__((target("avx512f"))) READER(avx512)

#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>

typedef float32x4_t vec_four_lanes;
#define splat_four_lanes(number) vdupq_n_f32(number)
#define step_four_lanes(a, x, y) vfmaq_f32(y, a, x)
#define add_four_lanes(a, b) vaddq_f32(a, b)
#define one_four_lanes(a) vaddvq_f32(a)
#define load_four_lanes(p) vld1q_f32(p)
LOOP(four_lanes, REPEAT_16)
READER(four_lanes)

#else

typedef float vec_scalar;
#define splat_scalar(number) (number)
#define step_scalar(a, x, y) ((a) * (x) + (y))
#define add_scalar(a, b) ((a) + (b))
#define one_scalar(a) (a)
#define load_scalar(p) (*(p))
LOOP(scalar, REPEAT_12)
READER(scalar)

#endif

static const struct {
    const char *isa;
    float (*loop)(long steps, float value);
    float (*read)(const float *from, const float *end);
    double flops; /* of one step */
    long steps;   /* for about 50 µs at 3 GHz */
} peaks[] = {
#if defined(__x86_64__) && defined(__GNUC__)
    {"scalar", loop_four_lanes, read_four_lanes, 12 * 4 * 2, 12000},
    {"sse4", loop_four_lanes, read_four_lanes, 12 * 4 * 2, 12000},
    {"avx2", loop_avx2, read_avx2, 12 * 8 * 2, 24000},
    {"avxvnni", loop_avx2, read_avx2, 12 * 8 * 2, 24000},
    {"avx512", loop_avx512, read_avx512, 16 * 16 * 2, 18000},
    {"amx", loop_avx512, read_avx512, 16 * 16 * 2, 18000}, /* of f32, as elsewhere */
#elif defined(__aarch64__) && defined(__ARM_NEON)
    {"scalar", loop_four_lanes, read_four_lanes, 16 * 4 * 2, 18000},
    {"neon", loop_four_lanes, read_four_lanes, 16 * 4 * 2, 18000},
#else
    {"scalar", loop_scalar, read_scalar, 12 * 2, 24000},
#endif
};

#define PEAKS (sizeof peaks / sizeof *peaks)

static size_t row_of(const char *isa)
{
    size_t row = 0;
    while (row < PEAKS && strcmp(peaks[row].isa, isa) != 0)
        row++;
    return row;
}

bool peak_knows(const char *isa)
{
    return row_of(isa) < PEAKS;
}

double peak_measure(const char *isa)
{
    const size_t row = row_of(isa);
    if (row == PEAKS)
        return 0;
    volatile float value = 0.9990234375f, sink; /* the compiler must not know the result */
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    sink = peaks[row].loop(peaks[row].steps, value);
    clock_gettime(CLOCK_MONOTONIC, &end);
    (void)sink;
    double ns = 1e9 * (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec);
    return peaks[row].flops * (double)peaks[row].steps / ns;
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

double read_measure(const char *isa, const float *numbers, size_t bytes)
{
    const size_t row = row_of(isa);
    if (row == PEAKS)
        return 0;
    double best = 0;
    for (int round = 0; round < 5; round++) {
        size_t passes = 0;
        volatile float sink;
        const double start = now_us();
        do {
            sink = peaks[row].read(numbers, numbers + bytes / sizeof *numbers);
            passes++;
        } while (now_us() - start < READ_US);
        (void)sink;
        const double rate = (double)(passes * bytes) / 1e3 / (now_us() - start);
        best = rate > best ? rate : best;
    }
    return best;
}
