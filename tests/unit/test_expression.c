/* SPDX-License-Identifier: MIT */
/* Expressions: values as Python's eval has them (expressions.txt, made by expressions.py), what is refused and how, what is
 * folded and shared, ranges against every point of small boxes, and the form for kernels against the plain one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "expression/expression.h"

#define MAX_NODES 4096
#define LOG2_E 1.4426950408889634

static const struct expression_table tables[] = {{"flat", 1, {5}}, {"square", 2, {3, 4}}};
static float flat[5], square[12];
static const float *const numbers[] = {flat, square};

static int fill_tables(void **state)
{
    for (int a = 0; a < 5; a++)
        flat[a] = (float)a - 2.5f;
    for (int a = 0; a < 12; a++)
        square[a] = (float)(4 * (a / 4) - a % 4) / 8;
    return 0;
}

static struct expression *read_as(const char *text, bool score, struct diag *diag)
{
    const struct expression_scope scope = {.score = score, .tables = tables, .table_count = 2, .place = "a.layer:3",
                                           .column = 9};
    return expression_read(text, &scope, diag);
}

static struct expression *read_good(const char *text, bool score)
{
    struct diag diag = {0};
    struct expression *e = read_as(text, score, &diag);
    if (e == NULL)
        fail_msg("%s\n%s", text, diag.messages[0]);
    return e;
}

static double value_at(const struct expression *e, int64_t i, int64_t p, int64_t j, double s)
{
    static union expression_value values[MAX_NODES];
    const struct expression_point at = {s, i, p, j, numbers};
    assert_true(e->count <= MAX_NODES);
    expression_evaluate(e, &at, values);
    return e->nodes[e->root].type == EXPRESSION_FLOAT ? values[e->root].number : (double)values[e->root].integer;
}

static void near(const char *text, double value, double expected)
{
    const bool same = value == expected || fabs(value - expected) <= 1e-12 * (1 + fabs(expected)) ||
                      (isnan(value) && isnan(expected));
    if (!same)
        fail_msg("%s: %.17g, not %.17g", text, value, expected);
}

/* ---- Python ---- */

static const struct expression_box drawn = {.i = {.low = 0, .high = 5}, .p = {.low = -3, .high = 39},
                                            .j = {.low = 0, .high = 39}};

/* At a point: beside Python, in kernels' form, inside the ranges. */
static void check_point(const char *text, const struct expression *e, const struct expression *kernel, int64_t i,
                        int64_t p, int64_t j, double s, double expected)
{
    static struct expression_range ranges[MAX_NODES];
    const bool score = e->nodes[e->root].type == EXPRESSION_FLOAT;
    int node;
    near(text, value_at(e, i, p, j, s), expected);
    const double value = value_at(kernel, i, p, j, s * LOG2_E);
    if (!(fabs((score ? value / LOG2_E : value) - expected) <= 1e-9 * (1 + fabs(expected))))
        fail_msg("%s in kernels: %.17g, not %.17g", text, value, expected);
    const struct expression_box box = {.i = {.low = i, .high = i}, .p = {.low = p - 2, .high = p + 1},
                                       .j = {.low = j, .high = j + 3}};
    assert_true(expression_ranges(e, &box, ranges, &node));
    const struct expression_range r = ranges[e->root];
    if (score ? !(r.least <= expected && expected <= r.most) : !(r.low <= (int)expected && (int)expected <= r.high))
        fail_msg("%s: %g is outside %g ... %g", text, expected, score ? r.least : (double)r.low,
                 score ? r.most : (double)r.high);
}

static void as_python(void **state)
{
    const char *path = getenv("EXPRESSIONS");
    static char line[1000], text[1000];
    struct expression *e = NULL, *kernel = NULL;
    int cases = 0;
    FILE *in = fopen(path != NULL ? path : "tests/unit/expressions.txt", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL) {
        long long i, p, j;
        double s, expected;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%lld %lld %lld %lf %lf", &i, &p, &j, &s, &expected) == 5) {
            check_point(text, e, kernel, i, p, j, s, expected);
            continue;
        }
        const bool score = strncmp(line, "score ", 6) == 0;
        strcpy(text, strchr(line, ' ') + 1);
        expression_free(e);
        expression_free(kernel);
        e = read_good(text, score);
        kernel = expression_for_kernel(e, &drawn);
        assert_non_null(kernel);
        cases++;
    }
    fclose(in);
    expression_free(e);
    expression_free(kernel);
    assert_true(cases >= 100);
}

/* ---- what Python does not say ---- */

static void corners(void **state)
{
    static const struct { const char *text; bool score; double value; } cases[] = {
        /* at i = 2, p = 7, j = 3, s = 0.5 */
        {"-7 // 2 + 0 * i", true, -4}, {"-p % 4", true, 1}, {"-p // 4 * 4 + -p % 4", true, -7},
        {"p // (j - 3)", true, 0}, {"p % (j - 3)", true, 7}, {"1 / (j - 3)", true, INFINITY},
        {"sqrt(-s)", true, NAN}, {"min(sqrt(-s), 1)", true, NAN}, {"max(1, sqrt(-s))", true, NAN},
        {"where(s > 0, -1e999, s)", true, -INFINITY}, {"where(s < 0, -1e999, s)", true, 0.5},
        {"flat[100] + flat[-100]", true, -1}, {"flat[i - 3]", true, -2.5}, {"square[i][j]", true, 0.625},
        {"square[-1][5 // 2]", true, -0.25}, {"2 < 3 == not False == 0", false, -1}, {"not p < j", false, 1},
        {"not not p > j and i == 2 or j == 0", false, 1}, {"(p > j) != (i == 2)", false, 0},
        {"where(p > j, i == 2, i == 3)", false, 1}, {"flat[j] > 0.0", false, 1}, {"- - - p", true, -7},
        {"\tp - j - i  ", true, 2}, {"p - (j - i)", true, 6}, {"p / 2 / 2", true, 1.75}, {"7 // 2 / 2", true, 1.5},
        {"-p ** 2", true, -1}, {"9223372036854775807 + 0 * p", true, 9223372036854775807.0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct diag diag = {0};
        struct expression *e = read_as(cases[k].text, cases[k].score, &diag);
        assert_true((e != NULL) == (cases[k].value != -1 || diag.errors == 0));
        if (e != NULL)
            near(cases[k].text, value_at(e, 2, 7, 3, 0.5), cases[k].value);
        expression_free(e);
        diag_free(&diag);
    }
}

static void refusals(void **state)
{
    static const struct { const char *text; bool score; const char *message; } cases[] = {
        {"s + q", true, "a.layer:3:13: error: unknown name 'q'; write s, i, p, j, min, max, abs, exp, tanh, sqrt, where, or "
                        "a table that table.NAME declares"},
        {"s + tahn(s)", true, "a.layer:3:13: error: unknown name 'tahn'; did you mean 'tanh'?"},
        {"s > 0", false, "a.layer:3:9: error: visible does not read s; write a condition on i, p and j"},
        {"0 < p < 3", false, "a.layer:3:15: error: comparisons are not chained; write a < b and b < c"},
        {"s and p", true, "a.layer:3:9: error: and takes conditions, and this is a float; write a comparison, as in x != 0"},
        {"s + (p < j)", true, "a.layer:3:13: error: + is of numbers, and this is a condition; write where(condition, 1, 0)"},
        {"p < j", true, "a.layer:3:9: error: a score is of numbers, and this is a condition; write where(condition, 1, 0)"},
        {"p - j", false, "a.layer:3:9: error: visible takes conditions, and this is an integer; write a comparison, as in x "
                         "!= 0"},
        {"p // 2.0", true, "a.layer:3:14: error: // is of integers, and this is a float; write integers, or / for floats"},
        {"p // (2 - 2)", true, "a.layer:3:14: error: division by a constant zero; write another divisor"},
        {"s / 0", true, "a.layer:3:13: error: division by a constant zero; write another divisor"},
        {"p % 0", true, "a.layer:3:13: error: division by a constant zero; write another divisor"},
        {"9223372036854775808", true, "a.layer:3:9: error: 9223372036854775808 is above 2^63 - 1; write it as a float, with "
                                      "a point"},
        {"9223372036854775807 + 1", true, "a.layer:3:29: error: these constants leave 64 bits; write one of them as a float, "
                                          "with a point"},
        {"s * (1e38 * 1e38)", true, "a.layer:3:19: error: this constant is 1e+76, not finite in f32; write one below 3.4e38, or "
                                    "1e999 for infinity"},
        {"s + exp(100.0)", true, "a.layer:3:13: error: this constant is 2.68812e+43, not finite in f32; write one below 3.4e38, "
                                 "or 1e999 for infinity"},
        {"s + sqrt(-1.0)", true, "a.layer:3:13: error: this constant is not a number; write one that is"},
        {"1e39", true, "a.layer:3:9: error: 1e39 is not finite in f32; write a number below 3.4e38, or 1e999 for infinity"},
        {"007", true, "a.layer:3:9: error: 007 begins with 0; write 7"},
        {"0x10", true, "a.layer:3:9: error: '0x10' is not a number; write digits, perhaps with a point and an exponent as "
                       "in 2.5e-3"},
        {"s ** 2", true, "a.layer:3:11: error: there is no '**'; write a product, or exp"},
        {"p = j", false, "a.layer:3:11: error: there is no '='; write =="},
        {"p == j && i == 0", false, "a.layer:3:16: error: there is no '&&'; write and"},
        {"flat[s]", true, "a.layer:3:14: error: an index is an integer, and this is a float; write an integer"},
        {"flat", true, "a.layer:3:9: error: table flat has 1 axis, and this is none of them; write flat[index]"},
        {"square[i]", true, "a.layer:3:9: error: table square has 2 axes, and this is fewer; write square[index][index]"},
        {"flat[i][j]", true, "a.layer:3:9: error: table flat has 1 axis, and this is more; write flat[index]"},
        {"square[i, p - j]", true, "a.layer:3:17: error: a comma where the index should end; write square[i][p - j]"},
        {"square[ min(i, 2) ,square[0][1] ]", true, "a.layer:3:28: error: an index is an integer, and this is a float; write "
                                                     "an integer"},
        {"square[ min(i, 2) ,p ", true, "a.layer:3:27: error: a comma where the index should end; write square[min(i, 2)][p]"},
        {"square[i, p, j]", true, "a.layer:3:9: error: table square has 2 axes, and this is more; write square[index][index]"},
        {"square[i][p, j]", true, "a.layer:3:9: error: table square has 2 axes, and this is more; write square[index][index]"},
        {"flat[i, p]", true, "a.layer:3:9: error: table flat has 1 axis, and this is more; write flat[index]"},
        {"square[i,]", true, "a.layer:3:18: error: ']' where an operand should begin; write a number, a name or a bracket"},
        {"where(p < j, s, -inf)", true, "a.layer:3:26: error: unknown name 'inf'; write 1e999 for infinity"},
        {"s + Infinity", true, "a.layer:3:13: error: unknown name 'Infinity'; write 1e999 for infinity"},
        {"min(s)", true, "a.layer:3:14: error: ')' where min should continue; write min(a, b)"},
        {"tanh(s, s)", true, "a.layer:3:15: error: tanh has too many arguments; write tanh(a)"},
        {"exp()", true, "a.layer:3:13: error: exp has too few arguments; write exp(a)"},
        {"where(p, 1, 2)", true, "a.layer:3:15: error: where's first argument takes conditions, and this is an integer; "
                                 "write a comparison, as in x != 0"},
        {"(s", true, "a.layer:3:11: error: the end where the bracket should end; write ')'"},
        {"s)", true, "a.layer:3:10: error: ')' closes nothing; leave it out"},
        {"s s", true, "a.layer:3:11: error: 's' comes after a whole expression; write an operator before it"},
        {"s +", true, "a.layer:3:12: error: the end where an operand should begin; write a number, a name or a bracket"},
        {"s if p else 0", true, "a.layer:3:11: error: there is no 'if'; write where(condition, a, b)"},
        {"p == not j", false, "a.layer:3:14: error: 'not' where an operand should begin; write brackets around not ..."},
        {"s \xc3\x97 2", true, "a.layer:3:11: error: '\\xc3' is no part of an expression; write numbers, names, operators "
                               "and brackets"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct diag diag = {0};
        assert_null(read_as(cases[k].text, cases[k].score, &diag));
        assert_int_equal(diag.errors, 1);
        if (strcmp(diag.messages[0], cases[k].message) != 0)
            fail_msg("%s:\n%s, not\n%s", cases[k].text, diag.messages[0], cases[k].message);
        diag_free(&diag);
    }
}

/* A text of `count` times the same; its end. */
static char *repeated(const char *part, size_t count, const char *end)
{
    char *text = malloc(count * strlen(part) + strlen(end) + 1);
    assert_non_null(text);
    for (size_t k = 0; k < count; k++)
        memcpy(text + k * strlen(part), part, strlen(part));
    strcpy(text + count * strlen(part), end);
    return text;
}

/* EXPRESSION_DEPTH brackets are read, one more is refused. */
static void brackets(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct diag diag = {0};
        char *close = repeated(")", EXPRESSION_DEPTH + more, ""), *operand = malloc(strlen(close) + 2);
        assert_non_null(operand);
        operand[0] = 's';
        strcpy(operand + 1, close);
        char *text = repeated("(", EXPRESSION_DEPTH + more, operand);
        struct expression *e = read_as(text, true, &diag);
        assert_int_equal(e != NULL, more == 0);
        expression_free(e);
        diag_free(&diag);
        free(text);
        free(operand);
        free(close);
    }
}

/* A mebibyte of anything is refused, or read, in no time and with little stack. */
static void hostile(void **state)
{
    static const struct { const char *part, *end; bool good; } cases[] = {
        {"(", "s", false}, {"-", "s", false}, {"not ", "p < j", false}, {"s+", "s", false}, {"1+", "1", false},
        {"s+-", "s", false}, {"exp(", "s", false}, {"flat[", "p", false}, {"square[i,", "p", false},
        {"1", "", false}, {"1", ".0", true}, {" ", "s", true},
        {"s", "", false}, {"where(p<j,", "s", false}, {"min(s,", "s", false}, {"0.", "", false}, {"p*", "1", false},
        {"i-", "i", false}, {"s/2/", "2", false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct diag diag = {0};
        char *text = repeated(cases[k].part, (1 << 20) / strlen(cases[k].part), cases[k].end);
        struct expression *e = read_as(text, true, &diag);
        if ((e != NULL) != cases[k].good)
            fail_msg("%s... is %s", cases[k].part, e != NULL ? "read" : diag.messages[0]);
        expression_free(e);
        diag_free(&diag);
        free(text);
    }
}

static void folded_and_shared(void **state)
{
    static const struct { const char *text; int nodes; } cases[] = {
        {"2 * 3 + 1 / 4", 1}, {"s + 0 * p", 1}, {"s * 1", 1}, {"tanh(s) * tanh(s)", 3}, {"(p - j) * (p - j) + (p - j)", 6},
        {"s + where(1 < 2, p, j)", 4}, {"- -s", 1}, {"abs(abs(s))", 2}, {"p + j - (j + p) + s", 1}, {"flat[2]", 2},
        {"s + i - i", 5}, {"exp(0)", 1}, {"max(s, s)", 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct expression *e = read_good(cases[k].text, true);
        if (e->count != cases[k].nodes)
            fail_msg("%s has %d nodes, not %d", cases[k].text, e->count, cases[k].nodes);
        expression_free(e);
    }
}

/* ---- ranges ---- */

/* What a box says of a condition against all of its points; `exact`: nothing is left open that is not. */
static void blocks(void **state)
{
    static const struct { const char *text; bool exact; } cases[] = {
        {"p // 8 == j // 8", true}, {"p // 7 == j // 5", true}, {"j <= p", true}, {"abs(p - j) <= 9", true},
        {"(p - j) % 16 < 8", true}, {"p % 3 == j % 3", true}, {"j % 16 == 15 or abs(p - j) < 4", true},
        {"(p // 8 + j // 8) % 2 == 0", true}, {"j < 8 or p - j < 8 and j <= p", true}, {"p / 2 < j", false},
        {"sqrt(p + 1) < tanh(j / 8) * 4", false}, {"(p - j) * (p - j) < 50", true}, {"flat[p // 8] > 0", false},
        {"exp(-j / 8) > 0.5", false}, {"min(p, j) // 8 > 1", true}, {"not (p // 8 != j // 8) or i == 0", true},
        {"j % (i + 2) == 0", false}, {"p // (j - 9) < 1", false},
        /* what may be NaN is not within bounds because tanh, exp or min and max of numbers are */
        {"tanh(sqrt(p - 5.0)) <= 2.0", false}, {"exp(-abs(sqrt(p - 5.0))) < 2.0", false},
        {"max(min(sqrt(p - 5.0), 3.0), 0.0) <= 4.0", false}, {"tanh(1 / (p - j) - 1 / (p - j)) < 2.0", false}};
    static struct expression_range ranges[MAX_NODES];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct expression *e = read_good(cases[k].text, false);
        for (int64_t p = -8; p < 32; p += 8)
            for (int64_t j = 0; j < 40; j += 8) {
                const struct expression_box box = {.i = {.low = 1, .high = 1}, .p = {.low = p, .high = p + 7},
                                                   .j = {.low = j, .high = j + 7}};
                bool some = false, all = true;
                int node;
                assert_true(expression_ranges(e, &box, ranges, &node));
                for (int64_t at = 0; at < 64; at++) {
                    const bool sees = value_at(e, 1, p + at / 8, j + at % 8, 0) != 0;
                    some = some || sees;
                    all = all && sees;
                }
                const struct expression_range r = ranges[e->root];
                if ((r.high == 0 && some) || (r.low == 1 && !all) ||
                    (cases[k].exact && ((r.high == 1) != some || (r.low == 1) != all)))
                    fail_msg("%s at p = %d, j = %d: some %d, all %d, but %d ... %d", cases[k].text, (int)p, (int)j, some,
                             all, (int)r.low, (int)r.high);
            }
        expression_free(e);
    }
}

static void wide_integers(void **state)
{
    static struct expression_range ranges[MAX_NODES];
    const struct expression_box box = {.i = {.low = 0, .high = 7}, .p = {.low = 0, .high = INT32_MAX},
                                       .j = {.low = 0, .high = INT32_MAX}};
    struct expression *e = read_good("p * j", true);
    int node;
    assert_true(expression_ranges(e, &box, ranges, &node));
    expression_free(e);
    e = read_good("p * j * p", true);
    assert_false(expression_ranges(e, &box, ranges, &node));
    assert_int_equal(e->nodes[node].op, NODE_MUL);
    assert_int_equal(e->nodes[node].column, 15);
    expression_free(e);
}

/* ---- kernels ---- */

/* Nodes by operation in the form for kernels: products for divisions, no clamp that nothing needs, s as it comes. */
static int count_of(const struct expression *e, enum expression_op op)
{
    int count = 0;
    for (int k = 0; k < e->count; k++)
        count += e->nodes[k].op == op;
    return count;
}

static void kernels(void **state)
{
    static const struct { const char *text; enum expression_op op; int count; int nodes; } cases[] = {
        {"s - 0.5 * (p - j)", NODE_MUL, 1, 8}, {"s", NODE_MUL, 0, 1}, {"5 * tanh(s / 5)", NODE_DIV, 0, 6},
        {"5 * tanh(s / 5)", NODE_MUL, 2, 6}, {"s + square[i % 3][j % 4]", NODE_MIN, 0, 13}, {"max(s, 0) * 2", NODE_MUL, 1, 5},
        {"s + flat[i]", NODE_MIN, 1, 8}, {"where(j <= p, s, -1e999)", NODE_MUL, 0, 6}, {"exp(s)", NODE_EXP2, 1, 4}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct expression *e = read_good(cases[k].text, true), *kernel = expression_for_kernel(e, &drawn);
        assert_non_null(kernel);
        if (count_of(kernel, cases[k].op) != cases[k].count || kernel->count != cases[k].nodes)
            fail_msg("%s: %d of %s, %d nodes", cases[k].text, count_of(kernel, cases[k].op),
                     expression_op_name(cases[k].op), kernel->count);
        expression_free(e);
        expression_free(kernel);
    }
}

/* Factors whose product f32 does not hold stay apart: 0 times them is 0. */
static void factors(void **state)
{
    static const char *const texts[] = {"tanh(s * 1e30 * 1e30)", "s * 1e-30 * 1e-30", "tanh(s / 1e-20 / 1e-20)"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        struct expression *e = read_good(texts[k], true), *kernel = expression_for_kernel(e, &drawn);
        assert_non_null(kernel);
        for (int i = 0; i < kernel->count; i++) {
            const struct expression_node *n = &kernel->nodes[i];
            if (n->op == NODE_CONSTANT && !(fabs(n->number) > 1e-37 && fabs(n->number) < 3e38))
                fail_msg("%s has %g", texts[k], n->number);
        }
        near(texts[k], value_at(kernel, 0, 0, 0, 0), 0);
        expression_free(e);
        expression_free(kernel);
    }
}

static void hiding(void **state)
{
    static const struct { const char *text; bool hides; } cases[] = {
        {"s", false}, {"where(j > p, -1e999, s)", true}, {"where(j > p, -3.4028234663852886e38, s)", false},
        {"s - 1 / abs(p - j)", true}, {"s - 1 / (1 + abs(p - j))", false}, {"s / (j + 1)", false}, {"s / (p + 1)", true},
        {"1 / (1 + exp(-s))", false}, {"s / flat[i]", false}, {"s / sqrt(p + 4)", false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct expression *e = read_good(cases[k].text, true), *kernel = expression_for_kernel(e, &drawn);
        assert_non_null(kernel);
        if (expression_hides(kernel, &drawn) != cases[k].hides)
            fail_msg("%s: %s", cases[k].text, cases[k].hides ? "does not hide" : "hides");
        expression_free(e);
        expression_free(kernel);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_python), cmocka_unit_test(corners), cmocka_unit_test(refusals), cmocka_unit_test(brackets),
        cmocka_unit_test(hostile),
        cmocka_unit_test(folded_and_shared), cmocka_unit_test(blocks), cmocka_unit_test(wide_integers),
        cmocka_unit_test(kernels), cmocka_unit_test(factors), cmocka_unit_test(hiding)};
    return cmocka_run_group_tests(tests, fill_tables, NULL);
}
