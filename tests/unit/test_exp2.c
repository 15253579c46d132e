/* SPDX-License-Identifier: MIT */
/* The coefficients of 2^f in gen/emit/context.lua, found again by Remez's algorithm, and the error of the whole
 * exponentials in f32, as the vocabularies compute them, against what the bound allows.
 *
 * Left out on purpose: the emitted text itself; the arithmetic is repeated here, in the same order.
 */
#include <math.h>
#include <stdbool.h>

#include "coefficients.h"

#define DEGREE 5 /* at most */
#define TERMS (DEGREE + 1)
#define NODES (DEGREE + 2)

static const struct interval {
    const char *name;
    long double from, to;
    int degree; /* the error of the best polynomial alternates at degree + 2 nodes */
} intervals[] = {{"EXP2_HALF", -0.5L, 0.5L, 5}, {"EXP2_UNIT", 0, 1, 5},   {"EXP2_HALF_3", -0.5L, 0.5L, 3},
                 {"EXP2_UNIT_3", 0, 1, 3},      {"EXP2_HALF_2", -0.5L, 0.5L, 2}, {"EXP2_UNIT_2", 0, 1, 2}};

/* ---- what the sources say -------------------------------------------------------------------------------------- */

static double allowed_error(const char *key)
{
    return strtod(text_behind("runtime/reference/roundoff.h", key), NULL);
}

/* ---- Remez's exchange ------------------------------------------------------------------------------------------ */

/* Coefficients above the degree are 0. */
static long double polynomial(const long double c[TERMS], long double x)
{
    long double sum = 0;
    for (int k = DEGREE; k >= 0; k--)
        sum = sum * x + c[k];
    return sum;
}

static long double relative_error(const long double c[TERMS], long double x)
{
    return polynomial(c, x) / exp2l(x) - 1;
}

/* a z = b of `count` equations by elimination with pivots; b is a's last column. */
static void solve(long double a[NODES][NODES + 1], long double z[NODES], int count)
{
    for (int k = 0; k < count; k++) {
        int pivot = k;
        for (int i = k + 1; i < count; i++)
            if (fabsl(a[i][k]) > fabsl(a[pivot][k]))
                pivot = i;
        for (int j = 0; j <= count; j++) {
            const long double t = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = t;
        }
        for (int i = k + 1; i < count; i++) {
            const long double factor = a[i][k] / a[k][k];
            for (int j = k; j <= count; j++)
                a[i][j] -= factor * a[k][j];
        }
    }
    for (int k = count; k-- > 0;) {
        z[k] = a[k][count];
        for (int j = k + 1; j < count; j++)
            z[k] -= a[k][j] * z[j];
        z[k] /= a[k][k];
    }
}

/* The polynomial whose relative error is ±E in turn at the nodes. */
static void level(const long double node[NODES], long double c[TERMS], int degree)
{
    long double a[NODES][NODES + 1], z[NODES];
    const int nodes = degree + 2;
    for (int i = 0; i < nodes; i++) {
        const long double value = exp2l(node[i]);
        long double power = 1;
        for (int k = 0; k <= degree; k++, power *= node[i])
            a[i][k] = power;
        a[i][degree + 1] = i % 2 == 0 ? -value : value;
        a[i][nodes] = value;
    }
    solve(a, z, nodes);
    for (int k = 0; k < TERMS; k++)
        c[k] = k <= degree ? z[k] : 0;
}

/* The largest |error| around a node: where its sign is the node's. */
static long double climb(const long double c[TERMS], long double node, long double from, long double to)
{
    const long double sign = relative_error(c, node) < 0 ? -1 : 1;
    for (long double step = (to - from) / 64; step > 1e-12L; step /= 2)
        for (bool moved = true; moved;) {
            moved = false;
            for (int way = -1; way <= 1; way += 2) {
                const long double next = fminl(to, fmaxl(from, node + way * step));
                if (sign * relative_error(c, next) > sign * relative_error(c, node)) {
                    node = next;
                    moved = true;
                }
            }
        }
    return node;
}

static void remez(const struct interval *interval, long double c[TERMS])
{
    const long double pi = acosl(-1), middle = (interval->from + interval->to) / 2;
    const long double half = (interval->to - interval->from) / 2;
    const int nodes = interval->degree + 2;
    long double node[NODES];
    for (int i = 0; i < nodes; i++)
        node[i] = middle - half * cosl(pi * i / (nodes - 1));
    for (int round = 0; round < 12; round++) {
        level(node, c, interval->degree);
        for (int i = 0; i < nodes; i++)
            node[i] = climb(c, node[i], interval->from, interval->to);
    }
    level(node, c, interval->degree);
}

/* ---- the tests ------------------------------------------------------------------------------------------------- */

static void coefficients_are_minimax(void **state)
{
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        long double found[TERMS], smallest = 1, largest = 0;
        double stored[TERMS];
        const int degree = intervals[i].degree;
        remez(&intervals[i], found);
        stored_coefficients(intervals[i].name, stored, degree + 1);
        for (int k = 0; k <= degree; k++)
            if (!(fabsl(stored[k] / found[k] - 1) <= 1e-9L))
                fail_msg("%s[%d] is %.12g; Remez finds %.12Lg", intervals[i].name, k + 1, stored[k], found[k]);
        /* the error of the best polynomial reaches ±E in turn; a test of the test */
        const int steps = 4096;
        int turns = 0;
        long double last = 0, peak = 0;
        for (int s = 0; s <= steps; s++) {
            const long double from = intervals[i].from, to = intervals[i].to;
            const long double e = relative_error(found, from + (to - from) * s / steps);
            if (e * last < 0) {
                smallest = fminl(smallest, peak);
                turns++;
                peak = 0;
            }
            last = e;
            peak = fmaxl(peak, fabsl(e));
            largest = fmaxl(largest, fabsl(e));
        }
        assert_int_equal(turns, degree + 1);
        assert_true(smallest > 0.9999L * largest);
        print_message("%s: degree %d, relative error %.3Lg\n", intervals[i].name, degree, largest);
    }
}

struct coefficients {
    float half[TERMS], unit[TERMS];
    int degree;
};

/* 2^t of f32 scores, and of sums of whole numbers */
static const struct power {
    const char *half, *unit, *bound;
    int degree;
} powers[] = {{"EXP2_HALF", "EXP2_UNIT", "#define BOUND_EXP2", 5},
              {"EXP2_HALF_3", "EXP2_UNIT_3", "#define BOUND_WEIGHT_I16", 3},
              {"EXP2_HALF_2", "EXP2_UNIT_2", "#define BOUND_WEIGHT_I8", 2}};
#define POWERS (sizeof powers / sizeof *powers)

/* As the emitted literals: rounded to f32. */
static void read_coefficients(const struct power *of, struct coefficients *c)
{
    double stored[TERMS];
    c->degree = of->degree;
    stored_coefficients(of->half, stored, of->degree + 1);
    for (int k = 0; k <= of->degree; k++)
        c->half[k] = (float)stored[k];
    stored_coefficients(of->unit, stored, of->degree + 1);
    for (int k = 0; k <= of->degree; k++)
        c->unit[k] = (float)stored[k];
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Kept from the optimizer: a product and a sum that are two roundings. */
static float two_roundings(float a, float b, float c)
{
    volatile float product = a * b;
    return product + c;
}

/* exp2.in, all sets but avx512: f = t - round(t) by the magic number; with or without FMA */
static float exp2_by_rounding(const struct coefficients *c, float t, float (*multiply_add)(float, float, float))
{
    const float magic = 12583039.0f, bounded = t > 128.0f ? 128.0f : t < -127.0f ? -127.0f : t;
    volatile float u = bounded + magic;
    volatile float i = u - magic;
    const float f = bounded - i;
    float p = c->half[c->degree];
    for (int k = c->degree - 1; k >= 0; k--)
        p = multiply_add(p, f, c->half[k]);
    return p * from_bits(bits_of(u) << 23);
}

/* avx512: f = t - floor(t), scaled by floor(t) */
static float exp2_by_floor(const struct coefficients *c, float t)
{
    const float i = floorf(t), f = isinf(t) ? 0.0f : t - i; /* as vreduceps says */
    float p = c->unit[c->degree];
    for (int k = c->degree - 1; k >= 0; k--)
        p = fmaf(p, f, c->unit[k]);
    return isnan(t) ? t : ldexpf(p, (int)fminf(1000, fmaxf(-1000, i)));
}

/* Outside [-126, 127]: 0 or nearly so, infinity or nearly so, NaN for NaN. */
static void ends_are_as_said(void **state)
{
    struct coefficients c;
    for (size_t way = 0; way < 3 * POWERS; way++) {
        read_coefficients(&powers[way / 3], &c);
        const float ts[] = {-126.5f, -126.75f, -127, -127.5f, -1e4f, -1e30f, -INFINITY, 128, 129, 1e4f, INFINITY, NAN};
        for (size_t i = 0; i < sizeof ts / sizeof *ts; i++) {
            const float p = way % 3 == 2 ? exp2_by_floor(&c, ts[i])
                                         : exp2_by_rounding(&c, ts[i], way % 3 == 0 ? two_roundings : fmaf);
            if (isnan(ts[i]) ? !isnan(p) : ts[i] > 0 ? !(p >= 0x1.fep127f) : !(p >= 0 && p < 0x1.01p-126f))
                fail_msg("2^%g is %g in way %zu", (double)ts[i], (double)p, way);
        }
    }
}

static const char *const ways[] = {"exp2.in without FMA: scalar, sse4, wasm_simd128",
                                   "exp2.in with FMA: scalar, avx2, neon, rvv", "avx512"};
#define WAYS (sizeof ways / sizeof *ways)

static void measure(const struct coefficients *c, float t, double worst[WAYS])
{
    const double exact = exp2((double)t);
    const float got[WAYS] = {exp2_by_rounding(c, t, two_roundings), exp2_by_rounding(c, t, fmaf), exp2_by_floor(c, t)};
    for (size_t w = 0; w < WAYS; w++) {
        const double error = fabs((double)got[w] / exact - 1);
        if (!(error <= worst[w]))
            worst[w] = error;
    }
}

static void check_error_in_f32(const struct power *of)
{
    double worst[WAYS] = {0};
    struct coefficients c;
    read_coefficients(of, &c);
    for (int32_t s = -126 * (1 << 13); s <= 127 * (1 << 13); s++) /* all of [-126, 127] */
        measure(&c, (float)s / (1 << 13), worst);
    for (int32_t s = -2 * (1 << 20); s < 1 << 20; s++) /* [-2, 1], dense */
        measure(&c, (float)s / (1 << 20), worst);
    for (float t = 1; t > 0x1p-126f; t *= 0.9990234375f) { /* towards 0 from both sides */
        measure(&c, -t, worst);
        measure(&c, t, worst);
    }
    const double allowed = allowed_error(of->bound);
    assert_true(allowed > 0);
    for (size_t w = 0; w < WAYS; w++) {
        print_message("%s, degree %d: relative error %.3g of %.3g allowed\n", ways[w], of->degree, worst[w], allowed);
        if (!(worst[w] <= allowed && worst[w] > 0.5 * allowed)) /* no looser than it has to be */
            fail_msg("%s, degree %d: the error of 2^t reaches %.3g; the bound allows %.3g", ways[w], of->degree,
                     worst[w], allowed);
    }
}

static void error_in_f32_is_allowed(void **state)
{
    for (size_t i = 0; i < POWERS; i++)
        check_error_in_f32(&powers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coefficients_are_minimax),
        cmocka_unit_test(error_in_f32_is_allowed),
        cmocka_unit_test(ends_are_as_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
