/* SPDX-License-Identifier: MIT */
/* Narrow weights: what docs/types.md says of rounding, and the bound around the weights as they are given.
 *
 * Left out on purpose: kernels (attnrun check and tests/mutants) and numbers that numpy rounded (tests/vectors).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/inputs/elements.h"
#include "../../runtime/promises/against.h"
#include "../../runtime/reference/compare.h"
#include "../../runtime/reference/stored.h"
#include "layer_of.h"

static const enum tensor_element types[] = {TENSOR_BF16, TENSOR_F16, TENSOR_I8};
#define TYPES (sizeof types / sizeof *types)

static float stored(enum tensor_element type, float number)
{
    stored_column(type, &number, &number, 1, 1);
    return number;
}

static void assert_same(float a, float b)
{
    assert_int_equal(memcmp(&a, &b, sizeof a), 0);
}

/* A number of two bytes as an f32 */
static float of_f16(uint16_t bits) { return (float)element_number(TENSOR_F16, &bits, 0); }
static float of_bf16(uint16_t bits) { return (float)element_number(TENSOR_BF16, &bits, 0); }

/* Every number of a type stays; from halfway to the next one on it is that, of the two at half the even one. */
static void check_grid(enum tensor_element type, float (*of)(uint16_t), uint16_t infinity)
{
    for (uint16_t bits = 0; bits + 1 < infinity; bits++) {
        const float low = of(bits), high = of((uint16_t)(bits + 1)), middle = low / 2 + high / 2;
        assert_same(stored(type, low), low);
        assert_same(stored(type, -low), -low);
        assert_same(stored(type, middle), bits % 2 == 0 ? low : high);
        assert_same(stored(type, -middle), bits % 2 == 0 ? -low : -high);
        if (low > FLT_MIN) { /* below, an f32 has no number beside the middle */
            assert_same(stored(type, nextafterf(middle, 0)), low);
            assert_same(stored(type, nextafterf(middle, INFINITY)), high);
        }
    }
}

static void numbers_are_rounded_to_the_nearest(void **state)
{
    check_grid(TENSOR_F16, of_f16, 0x7c00);
    check_grid(TENSOR_BF16, of_bf16, 0x7f80);
}

static void what_a_type_does_not_hold_is_refused(void **state)
{
    assert_same(stored(TENSOR_F16, 65504), 65504);
    assert_same(stored(TENSOR_F16, nextafterf(65520, 0)), 65504);
    assert_true(isnan(stored(TENSOR_F16, 65520)));
    assert_same(stored(TENSOR_BF16, 0x1.fep127f), 0x1.fep127f);
    assert_true(isnan(stored(TENSOR_BF16, 0x1.ffp127f)));
    assert_true(isnan(stored(TENSOR_BF16, FLT_MAX)));
    for (size_t i = 0; i < TYPES; i++) {
        assert_true(isnan(stored(types[i], NAN)));
        assert_true(isnan(stored(types[i], INFINITY)));
        assert_true(isnan(stored(types[i], -INFINITY)));
        assert_same(stored(types[i], 0), 0);
    }
}

/* A column of i8: multiples -127 … 127 of a unit, each within half of it; and the same once more. */
static void check_column(const float *from, size_t count)
{
    float to[64], again[64];
    double largest = 0;
    assert_true(count <= 64);
    for (size_t k = 0; k < count; k++)
        largest = fmax(largest, fabs((double)from[k]));
    const double unit = stored_column(TENSOR_I8, from, to, count, count);
    int exponent;
    const double mantissa = frexp(unit, &exponent);
    assert_true(unit == 0 || largest < 0x1p-100 || unit >= largest / 127 * (1 - 0x1p-24));
    assert_true(unit == 0x1p-132 || unit <= largest / 127 * (1 + 0x1p-9)); /* near 2^-132 it has 10 bits */
    assert_true(largest < 0x1p-118 || unit <= largest / 127 * (1 + 0x1p-14));
    assert_true(ldexp(mantissa, 16) == rint(ldexp(mantissa, 16)));
    for (size_t k = 0; k < count; k++) {
        const double parts = unit > 0 ? to[k] / unit : 0;
        assert_true(parts == rint(parts) && fabs(parts) <= 127);
        assert_true(fabs((double)to[k] - from[k]) <= unit / 2 * (1 + 0x1p-16));
        assert_true(unit > 0 || from[k] == 0);
        assert_false(signbit(to[k]) && to[k] == 0);
    }
    const double unit_again = stored_column(TENSOR_I8, to, again, count, count);
    assert_true(unit_again == unit || (unit_again == 0 && largest < 0x1p-132));
    assert_memory_equal(again, to, count * sizeof *to);
}

static void columns_of_i8_have_a_unit(void **state)
{
    struct random random = {17};
    float column[64] = {0};
    check_column(column, 64);
    for (int round = 0; round < 4000; round++) {
        const size_t count = 1 + random_bits(&random) % 64;
        const int scale = round % 5 == 0 ? (int)(random_bits(&random) % 240) - 140 : 0;
        for (size_t k = 0; k < count; k++)
            column[k] = (float)ldexp(round % 7 == 0 ? 1 : random_normal(&random), scale); /* one number, drawn ones */
        if (round % 3 == 0)
            column[random_bits(&random) % count] *= 1e5f; /* an outlier */
        check_column(column, count);
    }
    static const float denormals[] = {0x1p-149f, -0x1p-149f, 0x3p-148f, 0};
    check_column(denormals, 4);
    static const float halves[] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f}; /* the unit is 1 */
    static const float even[] = {127, 0, 2, 2, 0, -2};
    float to[6];
    assert_true(stored_column(TENSOR_I8, halves, to, 6, 6) == 1);
    assert_memory_equal(to, even, sizeof even);
}

/* Groups of i4: multiples -8 ... 7 of a unit, which the largest number is -8 of; and the same once more. */
static void groups_of_i4_have_units(void **state)
{
    struct random random = {23};
    float from[150], to[150], again[150];
    for (int round = 0; round < 2000; round++) {
        const size_t taps = 1 + random_bits(&random) % 3, tap = 1 + random_bits(&random) % 50;
        for (size_t k = 0; k < taps * tap; k++)
            from[k] = (float)random_normal(&random);
        (void)stored_column(TENSOR_I4, from, to, taps * tap, tap);
        for (size_t first = 0; first < taps * tap;) {
            const size_t end = first + (tap - first % tap < 32 ? tap - first % tap : 32);
            size_t most = first;
            for (size_t k = first; k < end; k++)
                most = fabsf(from[k]) > fabsf(from[most]) ? k : most;
            const double unit = -(double)to[most] / 8;
            const double least = fabs((double)from[most]) / 8;
            assert_true(fabs(unit) >= least && fabs(unit) <= least * (1 + 0x1p-14));
            for (; first < end; first++) {
                const double parts = to[first] / unit;
                assert_true(parts == rint(parts) && parts >= -8 && parts <= 7);
                assert_true(fabs((double)to[first] - from[first]) <=
                            fabs(unit) * (from[first] / unit > 7.5 ? 1 : 0.5 + 0x1p-16));
            }
        }
        (void)stored_column(TENSOR_I4, to, again, taps * tap, tap);
        assert_memory_equal(again, to, taps * tap * sizeof *to);
    }
    static const float ends[] = {8, -8, 7.4f, -0.5f, 1.5f, 0}; /* the unit is -1: 8 becomes 8, and -8, 8 units, -7 */
    static const float stored[] = {8, -7, 7, 0, 2, 0};
    assert_true(stored_column(TENSOR_I4, ends, to, 6, 6) == 1);
    assert_memory_equal(to, stored, sizeof stored);
}

static void what_is_stored_stays(void **state)
{
    struct random random = {3};
    for (int round = 0; round < 200000; round++) {
        const enum tensor_element type = types[round % TYPES];
        const float number = (float)ldexp(random_normal(&random), (int)(random_bits(&random) % 24) - 20);
        const float once = stored(type, number);
        assert_same(stored(type, once), once);
        const double share = type == TENSOR_BF16 ? 0x1p-8 : type == TENSOR_F16 ? 0x1p-11 : 0x1p-15;
        assert_true(fabs((double)once - number) <= share * fabs((double)number) + (type == TENSOR_F16 ? 0x1p-25 : 0));
    }
}

/* Element (k, c) of a column through all taps and rows of head i. */
static void tensors_have_columns(void **state)
{
    static const char *const specs[] = {
        "d_model = 6\nh = 3\nseq_len = 4\nw_o = conv\nconv_width = 2\ninput = split\nweight_type = i8\n",
        "d_model = 6\nh = 3\nseq_len = 4\nw_o = conv\nconv_width = 2\nweight_layout = out_in\nweight_type = i8\n"};
    for (size_t i = 0; i < 2; i++) {
        struct layer *layer = layer_of(specs[i]);
        struct inputs in, to;
        struct pool pool = {0};
        const struct inputs_draw draw = {.seed = 5, .batch = 1, .n = 4, .m = 4};
        inputs_draw(&in, layer, &draw, NULL);
        to = stored_make(&pool, layer, &in);
        const float *from = inputs_floats(&in, TENSOR_W_O), *now = inputs_floats(&to, TENSOR_W_O);
        for (size_t head = 0; head < 3; head++)
            for (size_t c = 0; c < 2; c++) {
                float column[4], now_column[4]; /* 2 taps of 2 rows */
                for (size_t k = 0; k < 4; k++) {
                    const size_t tap = (head * 2 + k / 2) * 4, row = k % 2;
                    const size_t at = tap + (layer->out_in ? c * 2 + row : row * 2 + c);
                    column[k] = from[at];
                    now_column[k] = now[at];
                }
                assert_true(stored_column(TENSOR_I8, column, column, 4, 4) >= to.unit[TENSOR_W_O]);
                assert_memory_equal(column, now_column, sizeof column);
            }
        assert_ptr_equal(to.tensor[TENSOR_X], in.tensor[TENSOR_X]);
        pool_free(&pool);
        inputs_free(&in);
        layer_free(layer);
    }
}

/* Where all that rounding moves adds up, y with rounded weights is at the bound around the given ones, and within that
 * around the rounded ones. */
static void bounds_hold_what_rounding_moves(void **state)
{
    for (size_t i = 0; i < TYPES; i++) {
        char spec[120];
        snprintf(spec, sizeof spec, "layer = linear\nd_in = 40\nd_out = 1\nseq_len = 1\nweight_type = %s\n",
                 element_name(types[i]));
        struct layer *layer = layer_of(spec);
        struct inputs in, to;
        struct pool pool = {0};
        struct reference reference, given;
        struct bounds bounds, given_bounds;
        const struct inputs_draw draw = {.seed = 9 + i, .batch = 1, .n = 1, .m = 1};
        inputs_draw(&in, layer, &draw, NULL);
        to = stored_make(&pool, layer, &in);
        const float *w = inputs_floats(&in, TENSOR_W), *rounded = inputs_floats(&to, TENSOR_W);
        double y = 0;
        for (size_t k = 0; k < 40; k++) {
            ((float *)in.tensor[TENSOR_X])[k] = rounded[k] > w[k] ? 1 : -1;
            y += (rounded[k] > w[k] ? 1 : -1) * (double)rounded[k];
        }
        const float of_kernel = (float)y;
        bounds_compute(&reference, &bounds, layer, &in, (struct folds){0}, false);
        bounds_compute_given(&given, &given_bounds, layer, &in, false);
        struct comparison around = {0}, around_given = {0};
        compare_y(&around, layer, &in, &reference, &bounds, &of_kernel);
        compare_y(&around_given, layer, &in, &given, &given_bounds, &of_kernel);
        assert_int_equal(around.misses, 0);
        assert_int_equal(around_given.misses, 0);
        assert_true(around_given.ratio > 0.95 && around_given.ratio <= 1);
        const struct cost cost = compare_cost(layer, &in, &given, &of_kernel);
        assert_true(fabs(cost.rms * fabs(given.y[0]) - fabs(y - given.y[0])) < 1e-6 && cost.largest == cost.rms);
        const float given_y = (float)given.y[0]; /* of a kernel that would not round */
        struct comparison not_rounded = {0};
        compare_y(&not_rounded, layer, &in, &reference, &bounds, &given_y);
        assert_int_equal(not_rounded.misses, 1);
        reference_free(&reference);
        reference_free(&given);
        pool_free(&pool);
        inputs_free(&in);
        layer_free(layer);
    }
}

/* All numbers of a type, read and written again; and what lies between two of them. */
static void elements_are_read_and_written(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        const uint16_t infinity = types[i] == TENSOR_BF16 ? 0x7f80 : 0x7c00;
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            const uint16_t is = (uint16_t)bits;
            uint16_t again[2] = {0x1234, 0};
            const double number = element_number(types[i], &is, 0);
            element_put(types[i], again, 1, number);
            assert_int_equal(again[0], 0x1234);
            if ((is & 0x7fff) > infinity)
                assert_true(isnan(number) && isnan(element_number(types[i], again, 1)));
            else
                assert_int_equal(again[1], is);
        }
        uint16_t most;
        element_put(types[i], &most, 0, types[i] == TENSOR_BF16 ? 0x1.ffp127 : 65520);
        assert_int_equal(most, infinity); /* at half, the even one is infinite */
        element_put(types[i], &most, 0, types[i] == TENSOR_BF16 ? -0x1.fefp127 : -65519.9);
        assert_int_equal(most, 0x8000 | (infinity - 1));
    }
    signed char code;
    for (int whole = -127; whole <= 127; whole++) {
        element_put(TENSOR_I8, &code, 0, whole + 0.5);
        assert_int_equal(code, whole == 127 ? 127 : whole % 2 == 0 ? whole : whole + 1);
    }
}

/* A row of i8 has one scale; of zeros 0; at least 2^-126; and one number that is none makes all of it so. */
static void rows_of_i8_have_a_scale(void **state)
{
    double row[3] = {-127, 31.5, 0.4}, tiny[2] = {0x1p-130, 0x1.8p-126}, zero[2] = {0, -0.0}, bad[2] = {1, INFINITY};
    assert_true(stored_row(TENSOR_I8, row, row, 3) == 1 && row[0] == -127 && row[1] == 32 && row[2] == 0);
    assert_true(stored_row(TENSOR_I8, tiny, tiny, 2) == 0x1p-126 && tiny[0] == 0 && tiny[1] == 0x1p-125);
    assert_true(stored_row(TENSOR_I8, zero, zero, 2) == 0 && zero[0] == 0 && zero[1] == 0);
    assert_true(isnan(stored_row(TENSOR_I8, bad, bad, 2)) && isnan(bad[0]) && isnan(bad[1]));
}

/* What a layer's types are compared with is the layer whose spec says f32, on the numbers that it draws itself; and the
 * layer's own call has what its cache makes of them: rows of f32 as they are, the others as near as their type has it. */
static void types_are_compared_with_f32(void **state)
{
    static const char *const kinds[] = {"", "tensor_type = bf16\n", "weight_type = i8\n", "precision = i16\n", "cache_type = f16\n",
                                        "cache_type = i8\ncache = paged\npage_len = 4\nweight_type = bf16\n"};
    static const double parts[] = {0, 0, 0, 0, 0x1p-11, 0.5 / 127}; /* of a row's largest number, a cached one may be off */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *common = "d_model = 24\nh = 3\nmask = causal\nbias = true\nseq_len = 3\ncache_len = 20\n";
        const bool paged = strstr(kinds[i], "paged") != NULL;
        char spec[300], plain_spec[300];
        snprintf(spec, sizeof spec, "%s%s%s", common, paged ? "" : "cache = rows\n", kinds[i]);
        snprintf(plain_spec, sizeof plain_spec, "%s%s", common, paged ? "cache = paged\npage_len = 4\n" : "cache = rows\n");
        struct layer *layer = layer_of(spec), *plain = layer_of(plain_spec);
        const struct inputs_draw draw = {.seed = 5 + i, .batch = 2, .n = 3, .m = 3, .past_given = true, .past = 11};
        struct inputs in, plain_in;
        struct reference reference;
        struct against against;
        inputs_draw(&in, layer, &draw, NULL);
        inputs_draw(&plain_in, plain, &draw, NULL);
        against_make(&against, layer, &in, &draw);
        reference_compute(&reference, plain, &plain_in, true, NULL, NULL);
        const size_t numbers = 2 * 3 * 24;
        assert_memory_equal(reference.y, against.reference.y, numbers * sizeof(double));
        double furthest = 0;
        for (size_t at = 0; at < numbers; at++) {
            const double x = inputs_floats(&plain_in, TENSOR_X)[at];
            assert_true(element_number(layer->tensor_type, against.rounded.tensor[TENSOR_X], at) ==
                        element_rounded(layer->tensor_type, x));
        }
        for (int values = 0; values < 2; values++)
            for (size_t b = 0; b < 2; b++)
                for (size_t head = 0; head < 3; head++)
                    for (int64_t p = 0; p < 11; p++) {
                        const float *from = inputs_floats(&plain_in, inputs_cache_of(plain, values)) +
                                            inputs_cache_row(plain, &plain_in, values, b, head, p);
                        const size_t at = inputs_cache_row(layer, &against.rounded, values, b, head, p);
                        const void *cache[CACHE_PARTS];
                        double largest = 0;
                        inputs_caches(layer, &against.rounded, cache);
                        for (size_t c = 0; c < 8; c++)
                            largest = fmax(largest, fabs((double)from[c]));
                        for (size_t c = 0; c < 8; c++) {
                            const double off = inputs_cached_number(layer, cache, values, at + c) - (double)from[c];
                            assert_true(fabs(off) <= parts[i] * largest * 1.000001);
                            furthest = fmax(furthest, fabs(off));
                        }
                    }
        assert_true(layer_stores_cache(layer) == (furthest > 0));
        reference_free(&reference);
        against_free(&against);
        inputs_free(&in);
        inputs_free(&plain_in);
        layer_free(layer);
        layer_free(plain);
    }
}

/* Whatever a row is off by within its errors, what is stored of it is off by no more than is said, and where no border is
 * within reach by nothing. */
static void errors_of_rows_hold(void **state)
{
    struct random random = {11};
    size_t exact = 0, steps = 0;
    for (size_t i = 0; i < TYPES; i++)
        for (int turn = 0; turn < 3000; turn++) {
            enum { D = 7 };
            double row[D], error[D], to[D], off[D], bound[D];
            const double reach = ldexp(1, -(int)(random_bits(&random) % 24) - 4);
            for (size_t c = 0; c < D; c++) {
                row[c] = (float)random_normal(&random);
                error[c] = reach * random_uniform(&random) * fabs(row[c]);
            }
            stored_row(types[i], row, to, D);
            stored_row_error(types[i], row, error, bound, D);
            for (int again = 0; again < 8; again++) {
                for (size_t c = 0; c < D; c++) {
                    const double part = again == 0 ? 1 : again == 1 ? -1 : 2 * random_uniform(&random) - 1;
                    off[c] = row[c] + part * error[c];
                }
                stored_row(types[i], off, off, D);
                for (size_t c = 0; c < D; c++) {
                    assert_true(fabs(off[c] - to[c]) <= bound[c]);
                    exact += bound[c] == 0;
                    steps += off[c] != to[c];
                }
            }
        }
    assert_true(exact > 100000 && steps > 10000);
}

/* An error that is NaN, as infinity times 0 is, bounds nothing; with a scale for the row it bounds no number of it. */
static void errors_without_bound_stay_so(void **state)
{
    const double row[] = {1, -2}, errors[] = {0.25, NAN};
    (void)state;
    for (size_t i = 0; i < TYPES; i++) {
        double to[2];
        stored_row_error(types[i], row, errors, to, 2);
        assert_true(to[1] == INFINITY);
        assert_true(types[i] == TENSOR_I8 ? to[0] == INFINITY : to[0] <= 0.26);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_rounded_to_the_nearest), cmocka_unit_test(what_a_type_does_not_hold_is_refused),
        cmocka_unit_test(columns_of_i8_have_a_unit),          cmocka_unit_test(what_is_stored_stays),
        cmocka_unit_test(groups_of_i4_have_units),            cmocka_unit_test(elements_are_read_and_written),
        cmocka_unit_test(rows_of_i8_have_a_scale),            cmocka_unit_test(errors_of_rows_hold),
        cmocka_unit_test(errors_without_bound_stay_so),
        cmocka_unit_test(types_are_compared_with_f32),
        cmocka_unit_test(tensors_have_columns),               cmocka_unit_test(bounds_hold_what_rounding_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
