/* SPDX-License-Identifier: MIT */
/* The quotient for tanh in gen/emit/context.lua: its error alternates, so that no other quotient of these degrees has a much
 * smaller one (de la Vallée-Poussin), and in f32, in the order of templates/score/score_softcap.in, it is within what the bound
 * allows.
 *
 * Left out on purpose: the emitted text itself, and the factors in it (attnrun check).
 */
#define TERMS 5
#define FLOATS_STEP 41   /* of the bit patterns that are tried */

#include "quotients.h"

/* Relative */
static long double error_of_tanh(long double quotient, long double x)
{
    return quotient / tanhl(x) - 1;
}

static void test_error_alternates(void **state)
{
    const struct quotient of = stored_quotient("TANH");
    assert_alternates(&of, error_of_tanh, 2.1e-8L);
}

static void test_rounded_error(void **state)
{
    const struct quotient of = stored_quotient("TANH");
    const double allowed = strtod(text_behind("runtime/reference/roundoff.h", "#define BOUND_TANH"), NULL);
    double largest = 0;
    for (uint32_t bits = 0x30000000; bits < 0x42000000; bits += FLOATS_STEP) { /* 5e-10 to 32 */
        float x;
        memcpy(&x, &bits, sizeof x);
        const double exact = tanh((double)x);
        for (int fused = 0; fused < 2; fused++)
            largest = fmax(largest, fabs((double)quotient_in_f32(&of, x, fused) / exact - 1));
    }
    assert_true(largest > 0 && largest < 3.4e-7);
    assert_true(largest < allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_error_alternates), cmocka_unit_test(test_rounded_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
