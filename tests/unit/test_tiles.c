/* SPDX-License-Identifier: MIT */
/* Lists of tile heights (gen/plan/tiles.h): what they hold, and every walk over them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "plan/tiles.h"

/* "6!10 5 2 1": heights, and the rows left at which each stops */
static void check_heights(const struct tile_heights *heights, const char *expected)
{
    char text[200] = "";
    int at = 0;
    for (int64_t i = 0; i < heights->count; i++) {
        const struct tile_height *h = &heights->at[i];
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", i > 0 ? " " : "", (int)h->rows);
        for (int s = 0; s < 2; s++)
            if (h->stop[s] > 0)
                at += snprintf(text + at, sizeof text - (size_t)at, "!%d", (int)h->stop[s]);
        if (h->count > 0)
            at += snprintf(text + at, sizeof text - (size_t)at, "x%d", (int)h->count);
    }
    assert_string_equal(text, expected);
}

static void lists_are_as_said(void **state)
{
    struct tile_heights heights;
    tiles_for_runs(&heights, 16, 0, 6, 2);
    check_heights(&heights, "6!10 5 3 2 1");
    tiles_for_runs(&heights, 16, 0, 6, 4);
    check_heights(&heights, "6!10 5 2 1");
    tiles_for_runs(&heights, 64, 49, 8, 2);
    check_heights(&heights, "8!49 7 4 2 1");
    tiles_for_runs(&heights, 1, 0, 16, 4);
    check_heights(&heights, "1");
    tiles_for_one(&heights, 7, 3);
    check_heights(&heights, "3x1 2x2");
    tiles_for_one(&heights, 8, 4);
    check_heights(&heights, "4x2");
}

/* Every count of rows is used up, and a whole run and the last, smaller one are cut evenly, into as few tiles as can be. */
static void every_walk_ends(void **state)
{
    for (int64_t total = 1; total <= 48; total++)
        for (int64_t rest = 0; rest < total; rest++)
            for (int64_t max = 1; max <= 16; max++) {
                struct tile_heights heights;
                tiles_for_runs(&heights, total, rest, max, 2 + total % 3);
                assert_true(heights.count < TILE_HEIGHTS);
                for (int64_t rows = 1; rows <= total; rows++) {
                    int64_t left = rows, tiles = 0, highest = 0, lowest = 0;
                    for (int64_t i = 0; i < heights.count; i++) {
                        const int64_t taken = tiles_taken(&heights.at[i], &left);
                        tiles += taken;
                        highest = highest == 0 && taken > 0 ? heights.at[i].rows : highest;
                        lowest = taken > 0 ? heights.at[i].rows : lowest;
                    }
                    assert_int_equal(left, 0);
                    assert_true(highest <= max);
                    if (rows == total || rows == rest)
                        assert_true(tiles == (rows + max - 1) / max && highest - lowest <= 1);
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_are_as_said), cmocka_unit_test(every_walk_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
