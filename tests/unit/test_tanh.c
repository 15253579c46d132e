/* SPDX-License-Identifier: MIT */
/* The quotient for tanh in gen/context.lua: its error alternates, so that no other quotient of these degrees has a much
 * smaller one (de la Vallée-Poussin), and in f32, in the order of templates/score_softcap.in, it is within what the bound
 * allows.
 *
 * Left out on purpose: the emitted text itself, and the factors in it (attnrun check).
 */
#include <math.h>

#include "coefficients.h"

#define TERMS 5
#define ALTERNATIONS 10  /* of a quotient of 5 + 4 coefficients */
#define STEPS 100000
#define FLOATS_STEP 41   /* of the bit patterns that are tried */

struct quotient {
    double p[TERMS], q[TERMS], limit;
};

static struct quotient stored_quotient(void)
{
    struct quotient of;
    stored_coefficients("TANH_P", of.p, TERMS);
    stored_coefficients("TANH_Q", of.q, TERMS);
    of.limit = strtod(text_behind("gen/context.lua", "helpers.TANH_LIMIT ="), NULL);
    return of;
}

static long double polynomial(const double c[TERMS], long double y)
{
    long double sum = 0;
    for (int k = TERMS - 1; k >= 0; k--)
        sum = sum * y + (long double)c[k];
    return sum;
}

static void test_error_alternates(void **state)
{
    const struct quotient of = stored_quotient();
    long double largest[ALTERNATIONS + 1] = {0}, low = INFINITY, high = 0;
    int count = 0, sign = 0;
    (void)state;
    for (int i = 1; i <= STEPS; i++) {
        const long double x = (long double)of.limit * i / STEPS, y = x * x;
        const long double error = x * polynomial(of.p, y) / polynomial(of.q, y) / tanhl(x) - 1;
        const int here = error > 0 ? 1 : -1;
        count += here != sign;
        sign = here;
        assert_true(count <= ALTERNATIONS);
        largest[count] = fmaxl(largest[count], fabsl(error));
    }
    assert_int_equal(count, ALTERNATIONS);
    for (int i = 1; i <= count; i++) {
        low = fminl(low, largest[i]);
        high = fmaxl(high, largest[i]);
    }
    assert_true(high < 1.1L * low);
    assert_true(high < 2.1e-8L);
}

/* volatile: two roundings */
static float multiply_add(float a, float b, float c, int fused)
{
    volatile float product = a * b;
    return fused ? fmaf(a, b, c) : product + c;
}

static double in_f32(const struct quotient *of, float x, int fused)
{
    const float limit = (float)of->limit, bounded = fmaxf(-limit, fminf(limit, x)), y = bounded * bounded;
    float p = (float)of->p[TERMS - 1], q = (float)of->q[TERMS - 1];
    for (int k = TERMS - 2; k >= 0; k--) {
        p = multiply_add(p, y, (float)of->p[k], fused);
        q = multiply_add(q, y, (float)of->q[k], fused);
    }
    volatile float numerator = bounded * p, result = numerator / q;
    return (double)result;
}

static void test_rounded_error(void **state)
{
    const struct quotient of = stored_quotient();
    const double allowed = strtod(text_behind("runtime/reference/bound.h", "#define BOUND_TANH"), NULL);
    double largest = 0;
    (void)state;
    for (uint32_t bits = 0x30000000; bits < 0x42000000; bits += FLOATS_STEP) { /* 5e-10 to 32 */
        float x;
        memcpy(&x, &bits, sizeof x);
        const double exact = tanh((double)x);
        for (int fused = 0; fused < 2; fused++)
            largest = fmax(largest, fabs(in_f32(&of, x, fused) / exact - 1));
    }
    assert_true(largest > 0 && largest < 3.4e-7);
    assert_true(largest < allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_error_alternates), cmocka_unit_test(test_rounded_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
