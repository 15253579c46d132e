/* SPDX-License-Identifier: MIT */
/* Ranges, cuts and runs of keys against the definition: each pair asked one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "spec/keys.h"
#include "spec/layer.h"
#include "spec/score.h"
#include "spec/visible.h"

#define KEYS 13
#define QUERIES 15
#define LANES 4

/* As the spec's text has it; shares nothing with visible.c. */
static bool sees(const struct layer *l, int64_t t, int64_t j)
{
    const bool window = (l->mask & MASK_WINDOW) != 0;
    return !((l->mask & MASK_CAUSAL) != 0 && j > t) && !((l->mask & MASK_NO_SELF) != 0 && j == t) &&
           !(window && l->window_left >= 0 && j < t - l->window_left) &&
           !(window && l->window_right >= 0 && j > t + l->window_right);
}

static bool some_see(const struct layer *l, int64_t t, int64_t last, int64_t j)
{
    bool some = false;
    for (; t <= last; t++)
        some = some || sees(l, t, j);
    return some;
}

static bool all_see(const struct layer *l, int64_t t, int64_t last, int64_t j)
{
    bool all = true;
    for (; t <= last; t++)
        all = all && sees(l, t, j);
    return all;
}

/* Keys outside the range are seen by nobody; a key inside that some query sees is what it is for. */
static void check_keys(const struct layer *l, int64_t t)
{
    const struct visible_range some = visible_keys(l, t, t + LANES - 1), all = visible_keys(l, t + LANES - 1, t);
    for (int64_t j = 0; j < KEYS; j++) {
        if (some_see(l, t, t + LANES - 1, j))
            assert_true(j >= some.first && j < some.end);
        if (all_see(l, t, t + LANES - 1, j))
            assert_true(j >= all.first && j < all.end);
        if (j >= all.first && j < all.end && (l->mask & MASK_NO_SELF) == 0)
            assert_true(all_see(l, t, t + LANES - 1, j));
    }
}

/* A block without hidden pairs has none; one with them goes on no further than they do, but for the diagonal's strip. */
static void check_cut(const struct layer *l, int64_t t)
{
    for (int64_t key = 0; key < KEYS; key++) {
        bool hidden;
        const int64_t end = visible_cut(l, LANES, t, key, KEYS, &hidden);
        assert_true(end > key && end <= KEYS);
        for (int64_t j = key; j < end && !hidden; j++)
            assert_true(all_see(l, t, t + LANES - 1, j));
    }
}

/* Everyone sees all of the runs; without rules that exclude, what all see is in them or beside the diagonal. */
static void check_runs(const struct layer *l, int64_t t)
{
    struct visible_range run[2];
    visible_runs(l, LANES, t, run);
    assert_true(run[0].first <= run[0].end && (run[1].end == 0 || run[0].end <= run[1].first));
    for (int i = 0; i < 2; i++)
        for (int64_t j = run[i].first; j < run[i].end; j++)
            assert_true(all_see(l, t, t + LANES - 1, j));
    for (int64_t j = 0; j < KEYS && j != t; j++)
        if (all_see(l, t, t + LANES - 1, j))
            assert_true((j >= run[0].first && j < run[0].end) || (j >= run[1].first && j < run[1].end));
}

static void test_positions(void **state)
{
    struct layer l = {.seq_len = QUERIES, .source_len = KEYS};
    for (unsigned mask = 0; mask < 64; mask++)
        for (l.window_left = -1; l.window_left < 6; l.window_left++)
            for (l.window_right = -1; l.window_right < 6; l.window_right++)
                for (int64_t t = -2 * LANES - 1; t < QUERIES; t++) { /* positions: with an offset also before the first key */
                    l.mask = mask & (MASK_CAUSAL | MASK_NO_SELF | MASK_WINDOW);
                    for (int64_t j = 0; j < KEYS; j++)
                        assert_int_equal(visible_pair(&l, t, j), sees(&l, t, j));
                    check_keys(&l, t);
                    check_cut(&l, t);
                    check_runs(&l, t);
                }
}

/* Masks have the bits of their order; a term that sees every tile and has a tensor of its own reads it by pairs. */
static void test_terms(void **state)
{
    unsigned next = 1;
    for (enum score_name i = 0; i < SCORE_TERMS; i++) {
        const struct score_term *term = &score_terms[i];
        assert_non_null(term->name);
        if (term->mask != 0) {
            assert_int_equal(term->mask, next);
            assert_non_null(key_word(KEY_MASK, term->mask));
            next *= 2;
        }
        if (term->operand != NULL) {
            assert_int_equal(term->place, SCORE_EVERYWHERE);
            assert_true(score_tensor(i) < TENSOR_COUNT);
        }
    }
    assert_null(key_word(KEY_MASK, next));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_positions), cmocka_unit_test(test_terms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
