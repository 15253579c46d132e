/* SPDX-License-Identifier: MIT */
/* x P(x^2) / Q(x^2) with the coefficients that gen/emit/context.lua has, TERMS of P and of Q, whose first is 1: its error and its
 * value in f32, for the tests of such quotients.
 *
 * Left out on purpose: what it is near.
 */
#ifndef TESTS_QUOTIENTS_H
#define TESTS_QUOTIENTS_H

#include <math.h>

#include "coefficients.h"

#define ALTERNATIONS (2 * TERMS) /* of 2 TERMS - 1 coefficients that are free */
#define STEPS 100000

struct quotient {
    double p[TERMS], q[TERMS], limit;
};

/* NAME_P, NAME_Q and NAME_LIMIT */
static struct quotient stored_quotient(const char *name)
{
    struct quotient of;
    char key[60];
    snprintf(key, sizeof key, "%s_P", name);
    stored_coefficients(key, of.p, TERMS);
    snprintf(key, sizeof key, "%s_Q", name);
    stored_coefficients(key, of.q, TERMS);
    snprintf(key, sizeof key, "helpers.%s_LIMIT =", name);
    of.limit = strtod(text_behind("gen/emit/context.lua", key), NULL);
    return of;
}

static long double polynomial(const double c[TERMS], long double y)
{
    long double sum = 0;
    for (int k = TERMS - 1; k >= 0; k--)
        sum = sum * y + (long double)c[k];
    return sum;
}

/* The error, which is less than `most`, has ALTERNATIONS extremes of turning sign and about one size: no other quotient of
 * these degrees has a much smaller one (de la Vallée-Poussin). */
static void assert_alternates(const struct quotient *of, long double error_of(long double quotient, long double x),
                              long double most)
{
    long double largest[ALTERNATIONS + 1] = {0}, low = INFINITY, high = 0;
    int count = 0, sign = 0;
    for (int i = 1; i <= STEPS; i++) {
        const long double x = (long double)of->limit * i / STEPS, y = x * x;
        const long double error = error_of(x * polynomial(of->p, y) / polynomial(of->q, y), x);
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
    assert_true(high < most);
}

/* volatile: two roundings */
static float multiply_add(float a, float b, float c, int fused)
{
    volatile float product = a * b;
    return fused ? fmaf(a, b, c) : product + c;
}

/* In the order of the templates, of x cut to the limit */
static float quotient_in_f32(const struct quotient *of, float x, int fused)
{
    const float limit = (float)of->limit, bounded = fmaxf(-limit, fminf(limit, x)), y = bounded * bounded;
    float p = (float)of->p[TERMS - 1], q = (float)of->q[TERMS - 1];
    for (int k = TERMS - 2; k >= 0; k--) {
        p = multiply_add(p, y, (float)of->p[k], fused);
        q = multiply_add(q, y, (float)of->q[k], fused);
    }
    volatile float numerator = bounded * p, result = numerator / q;
    return result;
}

#endif
