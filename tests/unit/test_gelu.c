/* SPDX-License-Identifier: MIT */
/* The quotient for gelu in gen/context.lua: its error alternates, so that no other quotient of these degrees has a much
 * smaller one (de la Vallée-Poussin), and in f32, in the order of templates/activation.in, gelu is as near as that says.
 *
 * Left out on purpose: the emitted text itself (attnrun check), and the activations that are an exponential (test_exp2.c).
 */
#include <float.h>
#include <math.h>

#include "coefficients.h"

#define TERMS 6
#define ALTERNATIONS 12 /* of a quotient of 6 + 5 coefficients */
#define STEPS 100000
#define FLOATS_STEP 997 /* of the bit patterns that are tried */

struct quotient {
    double p[TERMS], q[TERMS], limit;
};

static struct quotient stored_quotient(void)
{
    struct quotient of;
    stored_coefficients("GELU_P", of.p, TERMS);
    stored_coefficients("GELU_Q", of.q, TERMS);
    of.limit = strtod(text_behind("gen/context.lua", "helpers.GELU_LIMIT ="), NULL);
    return of;
}

static long double polynomial(const double c[TERMS], long double y)
{
    long double sum = 0;
    for (int k = TERMS - 1; k >= 0; k--)
        sum = sum * y + (long double)c[k];
    return sum;
}

/* The share of a normal distribution between 0 and x */
static long double exact_share(long double x)
{
    return erfl(x / sqrtl(2)) / 2;
}

static void test_error_alternates(void **state)
{
    const struct quotient of = stored_quotient();
    long double largest[ALTERNATIONS + 1] = {0}, low = INFINITY, high = 0;
    int count = 0, sign = 0;
    (void)state;
    for (int i = 1; i <= STEPS; i++) {
        const long double x = (long double)of.limit * i / STEPS, y = x * x;
        const long double error = x * polynomial(of.p, y) / polynomial(of.q, y) - exact_share(x);
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
    assert_true(high < 7.3e-9L);
}

/* volatile: two roundings */
static float multiply_add(float a, float b, float c, int fused)
{
    volatile float product = a * b;
    return fused ? fmaf(a, b, c) : product + c;
}

static float in_f32(const struct quotient *of, float a, int fused)
{
    const float limit = (float)of->limit, x = fmaxf(-limit, fminf(limit, a)), y = x * x;
    float p = (float)of->p[TERMS - 1], q = (float)of->q[TERMS - 1];
    for (int k = TERMS - 2; k >= 0; k--) {
        p = multiply_add(p, y, (float)of->p[k], fused);
        q = multiply_add(q, y, (float)of->q[k], fused);
    }
    volatile float numerator = x * p, quotient = numerator / q, share = 0.5f + quotient, result = a * share;
    return a <= -limit ? 0 : result;
}

/* |error| <= 2.2e-7 |a|; below the limit, where gelu is 0, 1.1e-7. And infinities. */
static void test_rounded_error(void **state)
{
    const struct quotient of = stored_quotient();
    double largest = 0, below = 0;
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += FLOATS_STEP) {
        const uint32_t low = (uint32_t)bits;
        float a;
        memcpy(&a, &low, sizeof a);
        if (!(fabsf(a) <= FLT_MAX) || fabsf(a) < FLT_MIN)
            continue;
        const double exact = (double)a * 0.5 * erfc(-(double)a / sqrt(2));
        for (int fused = 0; fused < 2; fused++) {
            const double error = fabs((double)in_f32(&of, a, fused) - exact);
            if ((double)a <= -of.limit)
                below = fmax(below, error);
            else
                largest = fmax(largest, error / fabs((double)a));
        }
    }
    assert_true(largest > 1e-7 && largest < 2.2e-7);
    assert_true(below > 1e-8 && below < 1.1e-7);
    assert_true(in_f32(&of, INFINITY, 1) == INFINITY && in_f32(&of, -INFINITY, 1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_error_alternates), cmocka_unit_test(test_rounded_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
