/* SPDX-License-Identifier: MIT */
/* The values of a sweep: lists, ranges, their product in order; shards that share it out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../../runtime/sweep/vary.h"
#include "spec/layer.h"

/* The values of one --vary, joined by blanks; NULL when it is refused. */
static char *values_of(const char *text)
{
    struct axes axes;
    struct diag diag = {0};
    char *joined = NULL;
    size_t length;
    if (axes_parse(&axes, &text, 1, &diag)) {
        FILE *out = open_memstream(&joined, &length);
        for (size_t i = 0; i < axes.points; i++)
            fprintf(out, "%s%s", i > 0 ? " " : "", axes_value(&axes, i, 0));
        fclose(out);
    }
    assert_true((joined == NULL) == (diag.errors > 0));
    axes_free(&axes);
    diag_free(&diag);
    return joined;
}

static void expect_values(const char *text, const char *expected)
{
    char *joined = values_of(text);
    if (joined == NULL)
        fail_msg("%s is refused", text);
    assert_string_equal(joined, expected);
    free(joined);
}

static void lists_and_ranges(void **state)
{
    expect_values("h=1", "1");
    expect_values("h=1,2,4,7", "1 2 4 7");
    expect_values("width=narrow,wide", "narrow wide");
    expect_values("d_model=256:1024:256", "256 512 768 1024");
    expect_values("d_model=256:1023:256", "256 512 768");
    expect_values("h=3:3:1", "3");
    expect_values("h=0:2:1,8,16:32:16", "0 1 2 8 16 32");
    expect_values("mask=causal+padding,none", "causal+padding none");
    expect_values("rope=none,half,interleaved", "none half interleaved");
    expect_values("softcap=none,0.5,3e1", "none 0.5 3e1");
    expect_values("rope_theta=10000:50000:20000,5e5", "10000 30000 50000 5e5");
    expect_values("norm_eps=1e-6,1.5e-5", "1e-6 1.5e-5");
    expect_values("h=2147483646:2147483647:1", "2147483646 2147483647");
    expect_values("h=9223372036854775806:9223372036854775807:1", "9223372036854775806 9223372036854775807");
}

/* Kinds of attention are keys as any other: each is known to the reader of specs, and by its name alone. */
static void every_kind_is_a_key(void **state)
{
    static const char *const keys[] = {
        "input", "heads", "offset", "pad_rows", "qk_norm", "norm_eps", "rope", "rope_dims", "rope_theta", "rope_positions",
        "rope_scaling", "rope_factor", "rope_original_len", "rope_low", "rope_high", "rope_beta_fast", "rope_beta_slow",
        "rope_truncate", "rope_attention_factor", "softcap", "alibi", "relative", "rel_buckets", "rel_distance", "rel_left",
        "rel_right", "sink", "scores", "lse", "train", "dropout",
        "mask"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!layer_knows_key(keys[i]))
            fail_msg("%s is no key", keys[i]);
        assert_string_equal(layer_nearest_key(keys[i]).word, keys[i]);
    }
    assert_false(layer_knows_key("rope_"));
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const bad[] = {
        "", "h", "=1", "h=", "h=1,", "h=,1", "h=1,,2", "h=1,1", "h=1,0:2:1", "h=1:2", "h=1:2:3:4", "h=1:2:0", "h=2:1:1",
        "h=1::2", "h=:", "h=a:b:c", "h=-1:2:1", "h= 1:2:1", "h=1:9223372036854775808:1", "h=1:1000000:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *joined = values_of(bad[i]);
        if (joined != NULL)
            fail_msg("%s is taken as %s", bad[i], joined);
    }
}

static void the_last_axis_is_the_fastest(void **state)
{
    static const char *const texts[] = {"h=1,2", "width=narrow,wide", "n=1:3:1"};
    struct axes axes;
    struct diag diag = {0};
    assert_true(axes_parse(&axes, texts, 3, &diag));
    assert_int_equal(axes.points, 12);
    for (size_t i = 0; i < 12; i++) {
        assert_string_equal(axes_value(&axes, i, 0), i < 6 ? "1" : "2");
        assert_string_equal(axes_value(&axes, i, 1), i / 3 % 2 == 0 ? "narrow" : "wide");
        assert_int_equal(atoi(axes_value(&axes, i, 2)), i % 3 + 1);
    }
    assert_non_null(axes_find(&axes, "n"));
    assert_null(axes_find(&axes, "m"));
    axes_free(&axes);
}

static void too_many_and_twice(void **state)
{
    static const char *const many[] = {"h=1:1000:1", "n=1:1000:1"}, *const twice[] = {"h=1", "h=2"};
    struct axes axes;
    struct diag diag = {0};
    assert_false(axes_parse(&axes, many, 2, &diag));
    axes_free(&axes);
    assert_false(axes_parse(&axes, twice, 2, &diag));
    axes_free(&axes);
    assert_int_equal(diag.errors, 2);
    diag_free(&diag);
}

/* As many values as there may be; one that occurs twice is found among them. */
static void the_most_values(void **state)
{
    static const char *const max[] = {"scale=1:100000:1"};
    static const char *const bad[] = {"scale=1:100000:1,50000", "scale=1:100000:1,100001",
                                      "h=1:99999:1,100001:199999:1"};
    struct axes axes;
    struct diag diag = {0};
    assert_true(axes_parse(&axes, max, 1, &diag));
    assert_int_equal(axes.points, MAX_POINTS);
    assert_string_equal(axes_value(&axes, 99999, 0), "100000");
    axes_free(&axes);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(axes_parse(&axes, &bad[i], 1, &diag));
        axes_free(&axes);
    }
    assert_non_null(strstr(diag.messages[0], "the value 50000 occurs twice"));
    assert_non_null(strstr(diag.messages[1], "more than 100000"));
    diag_free(&diag);
}

static void shards_are_read(void **state)
{
    static const char *const bad[] = {"", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2", "1/", "/2", "1 /2"};
    struct diag diag = {0};
    size_t shard = 0, shards = 0;
    assert_true(shard_parse("2/3", &shard, &shards, &diag));
    assert_int_equal(shard, 2);
    assert_int_equal(shards, 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (shard_parse(bad[i], &shard, &shards, &diag))
            fail_msg("%s is taken", bad[i]);
    diag_free(&diag);
}

/* Every point has one shard, the shards differ by one point at most, and no pattern of the axes is that of a shard. */
static void shards_share_the_points(void **state)
{
    for (size_t points = 1; points <= 60; points += 7)
        for (size_t shards = 1; shards <= 9; shards++) {
            size_t *shard = shard_deal(points, shards), *again = shard_deal(points, shards), sum = 0;
            for (size_t s = 1; s <= shards; s++) {
                size_t own = 0;
                for (size_t i = 0; i < points; i++)
                    own += shard[i] == s;
                assert_int_equal(own, points / shards + (s <= points % shards));
                sum += own;
            }
            assert_int_equal(sum, points);
            assert_memory_equal(shard, again, points * sizeof *shard);
            free(shard);
            free(again);
        }
    size_t *shard = shard_deal(100, 2), even = 0;
    for (size_t i = 0; i < 100; i += 2)
        even += shard[i] == 1;
    assert_in_range(even, 10, 40);
    free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_ranges),
        cmocka_unit_test(every_kind_is_a_key),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(the_last_axis_is_the_fastest),
        cmocka_unit_test(too_many_and_twice),
        cmocka_unit_test(the_most_values),
        cmocka_unit_test(shards_are_read),
        cmocka_unit_test(shards_share_the_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
