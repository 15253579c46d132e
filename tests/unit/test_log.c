/* SPDX-License-Identifier: MIT */
/* The logarithm of templates/sets/log.in in f32, with and without fused products: within what the bound allows.
 *
 * Left out on purpose: the emitted text itself, and the factors in it (attnrun check).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "reference/roundoff.h"

#define FLOATS_STEP 7 /* of the bit patterns that are tried */

static float joined(float a, float b, float c, int fused)
{
    const volatile float product = a * b;
    return fused ? fmaf(a, b, c) : product + c;
}

static float log_in_f32(float x, int fused)
{
    int e;
    float m = 2 * frexpf(x, &e);
    e--;
    if (m > 1.41421356f) {
        m *= 0.5f;
        e++;
    }
    const float f = m - 1.0f, s = f / (f + 2.0f), w = s * s;
    float p = 2.0f / 11;
    for (int k = 9; k > 1; k -= 2)
        p = joined(p, w, (float)(2.0 / k), fused);
    const float low = joined(p * w, s, (float)e * -2.12194440e-4f, fused);
    return joined((float)e, 0.693359375f, (s + s) + low, fused);
}

static void test_rounded_error(void **state)
{
    double largest = 0;
    (void)state;
    for (uint32_t bits = 1; bits < 0x7f800000; bits += FLOATS_STEP) {
        float x;
        memcpy(&x, &bits, sizeof x);
        const double exact = log((double)x);
        for (int fused = 0; fused < 2 && exact != 0; fused++)
            largest = fmax(largest, fabs((double)log_in_f32(x, fused) / exact - 1));
    }
    print_message("largest error of ln: %.3g\n", largest);
    assert_true(largest > 0 && largest < BOUND_LN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounded_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
