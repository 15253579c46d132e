/* SPDX-License-Identifier: MIT */
/* The quotient for gelu in gen/emit/context.lua: its error alternates, so that no other quotient of these degrees has a much
 * smaller one (de la Vallée-Poussin), and in f32, in the order of templates/steps/activation.in, gelu is as near as that says.
 *
 * Left out on purpose: the emitted text itself (attnrun check), and the activations that are an exponential (test_exp2.c).
 */
#include <float.h>

#define TERMS 6
#define FLOATS_STEP 997 /* of the bit patterns that are tried */

#include "quotients.h"

/* From the share of a normal distribution between 0 and x */
static long double error_of_share(long double quotient, long double x)
{
    return quotient - erfl(x / sqrtl(2)) / 2;
}

static void test_error_alternates(void **state)
{
    const struct quotient of = stored_quotient("GELU");
    assert_alternates(&of, error_of_share, 7.3e-9L);
}

static float in_f32(const struct quotient *of, float a, int fused)
{
    volatile float share = 0.5f + quotient_in_f32(of, a, fused), result = a * share;
    return a <= (float)-of->limit ? 0 : result;
}

/* |error| <= 2.2e-7 |a|; below the limit, where gelu is 0, 1.1e-7. And infinities. */
static void test_rounded_error(void **state)
{
    const struct quotient of = stored_quotient("GELU");
    double largest = 0, below = 0;
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
