/* SPDX-License-Identifier: MIT */
/* Buckets of relative = t5 against the definition in whole numbers, and borders that lie on whole numbers; the reach of
 * tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/layer.h"
#include "spec/relative.h"

static struct layer t5_layer(int64_t buckets, int64_t distance, bool causal)
{
    return (struct layer){.h = 3, .seq_len = 5000, .source_len = 5000, .relative = RELATIVE_T5, .rel_buckets = buckets,
                          .rel_distance = distance, .mask = causal ? MASK_CAUSAL : 0};
}

/* ---- whole numbers of any size --------------------------------------------------------------------------------- */

#define WORDS 64

struct whole {
    uint32_t word[WORDS];
};

static struct whole power(int64_t a, int64_t i, int64_t b, int64_t k)
{
    struct whole n = {{1}};
    for (int64_t step = 0; step < i + k; step++) {
        uint64_t carry = 0;
        for (int w = 0; w < WORDS; w++) {
            carry += (uint64_t)n.word[w] * (uint64_t)(step < i ? a : b);
            n.word[w] = (uint32_t)carry;
            carry >>= 32;
        }
        assert_true(carry == 0);
    }
    return n;
}

static bool at_least(const struct whole *a, const struct whole *b)
{
    for (int w = WORDS; w-- > 0;)
        if (a->word[w] != b->word[w])
            return a->word[w] > b->word[w];
    return true;
}

/* floor(ln(d / e) / ln(far / e) * e) >= k is d^e e^k >= far^k e^e. */
static int64_t wide_bucket(int64_t d, int64_t e, int64_t far)
{
    int64_t k = 0;
    for (; k + 1 < e; k++) {
        const struct whole left = power(d, e, e, k + 1), right = power(far, k + 1, e, e);
        if (!at_least(&left, &right))
            break;
    }
    return k;
}

static void test_buckets_by_definition(void **state)
{
    static const struct { int64_t buckets, distance; bool causal; int64_t to; } specs[] = {
        {32, 128, false, 140}, {32, 128, true, 140}, {8, 20, false, 40}, {16, 60, false, 70}, {12, 50, true, 60},
        {12, 128, true, 140}, {4, 3, true, 9}, {4, 2, false, 9}, {64, 729, true, 800}, {40, 11, false, 40},
        {32, 4096, false, 4200},
    };
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        const struct layer layer = t5_layer(specs[s].buckets, specs[s].distance, specs[s].causal);
        const int64_t side = specs[s].causal ? specs[s].buckets : specs[s].buckets / 2, e = side / 2;
        for (int64_t d = -specs[s].to; d <= specs[s].to; d += specs[s].to > 1000 ? 7 : 1) {
            const int64_t away = specs[s].causal ? (d < 0 ? -d : 0) : d < 0 ? -d : d;
            const int64_t first = !specs[s].causal && d > 0 ? side : 0;
            const int64_t wide = away < e ? 0 : wide_bucket(away, e, specs[s].distance);
            assert_int_equal(relative_bucket(&layer, d), first + (away < e ? away : e + wide));
        }
    }
}

/* 8 · 16^(k/8): 16, 32, 64 and 128 are borders exactly, where logarithms may fall on either side. */
static void test_exact_borders(void **state)
{
    const struct layer both = t5_layer(32, 128, false), causal = t5_layer(32, 128, true);
    static const int64_t first[] = {8, 12, 16, 23, 32, 46, 64, 91};
    for (int64_t k = 0; k < 8; k++) {
        assert_int_equal(relative_first(&both, k), first[k]);
        assert_int_equal(relative_bucket(&both, -first[k]), 8 + k);
        assert_int_equal(relative_bucket(&both, first[k]), 24 + k);
        assert_int_equal(relative_bucket(&both, first[k] - 1), k == 0 ? 23 : 23 + k);
    }
    assert_int_equal(relative_bucket(&causal, -31), 21);
    assert_int_equal(relative_bucket(&causal, -32), 21);
    assert_int_equal(relative_bucket(&causal, -33), 21);
    assert_int_equal(relative_bucket(&causal, 5), 0);
    assert_int_equal(relative_bucket(&both, INT32_MAX), 31);
    assert_int_equal(relative_bucket(&both, -(int64_t)INT32_MAX), 15);
}

static void test_reach(void **state)
{
    struct layer layer = t5_layer(32, 128, false);
    int64_t left, right;
    relative_reach(&layer, &left, &right);
    assert_int_equal(left, 91);
    assert_int_equal(right, 91);
    layer.mask = MASK_CAUSAL;
    relative_reach(&layer, &left, &right);
    assert_int_equal(right, 0);
    layer = (struct layer){.h = 2, .seq_len = 10, .source_len = 4, .relative = RELATIVE_TABLE, .rel_left = 100,
                           .rel_right = 2, .rel_width = 103};
    relative_reach(&layer, &left, &right);
    assert_int_equal(left, 9);
    assert_int_equal(right, 2);
    assert_int_equal(relative_index(&layer, 1, -200), 103);
    assert_int_equal(relative_index(&layer, 0, 7), 102);
    layer.offset = OFFSET_PAST;
    relative_reach(&layer, &left, &right);
    assert_int_equal(left, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_buckets_by_definition), cmocka_unit_test(test_exact_borders),
                                       cmocka_unit_test(test_reach)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
