/* SPDX-License-Identifier: MIT */
/* Which plans attnrun tune tries: fast products where they change no bit, and no others.
 *
 * Left out on purpose: their order, and what is measured of them (tests/commands/test_tune.sh).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../runtime/commands/candidates.h"
#include "base/diag.h"
#include "layer_of.h"
#include "plan/expect.h"
#include "plan/isa.h"

/* How many candidates ask for products of another kind */
static size_t products_tried(const char *spec, size_t isa_row)
{
    struct layer *layer = layer_of(spec);
    struct candidates candidates;
    struct diag diag = {0};
    size_t count = 0;
    assert_true(candidates_make(&candidates, layer, isa_row, 1, true, &diag));
    assert_true(candidates.considered > 1);
    for (size_t i = 0; i < candidates.count; i++)
        count += candidates.item[i].request.value[PLAN_PRODUCT_KIND] != PLAN_AUTO;
    candidates_free(&candidates);
    diag_free(&diag);
    layer_free(layer);
    return count;
}

static void test_products(void **state)
{
    (void)state;
    assert_int_equal(products_tried("d_model = 256\nh = 4\nseq_len = 128\nprecision = i16\n", 0), 1); /* fast */
    assert_int_equal(products_tried("d_model = 256\nh = 4\nseq_len = 512\nprecision = i16\n", 0), 1); /* classical */
    assert_int_equal(products_tried("d_model = 256\nh = 4\nseq_len = 128\nprecision = i8\n", 0), 0); /* none are fast */
    assert_int_equal(products_tried("d_model = 256\nh = 4\nseq_len = 128\n", 0), 0); /* other bits */
    assert_int_equal(products_tried("d_model = 256\nh = 4\nseq_len = 128\nprecision = bf16\n", 0), 0);
}

/* Fast products that no product of the layer is large enough for are no other plan. */
static void test_small(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(products_tried("d_model = 128\nh = 4\nseq_len = 512\nprecision = i16\n", i), 0);
}

/* Sets whose cores nobody modelled have candidates too. */
static void test_unmodelled(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < isa_count; i++)
        if (!expect_knows(&isa_table[i]) && (isa_of_tiles() >> i & 1u) == 0) { /* tiles have no i16 */
            assert_int_equal(products_tried("d_model = 256\nh = 4\nseq_len = 128\nprecision = i16\n", i), 1);
            seen++;
        }
    assert_true(seen >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_small),
                                       cmocka_unit_test(test_unmodelled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
