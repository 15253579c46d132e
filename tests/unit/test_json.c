/* SPDX-License-Identifier: MIT */
/* The scanner of JSON: what it takes, what it refuses and where, and that it reads nothing behind its end. What both
 * readers make of depth and of keys that occur twice.
 *
 * Left out on purpose: what tensors and results mean (test_tensors.c, test_record.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/reports/record.h"
#include "base/json.h"
#include "base/tensors.h"

/* A scanner over a copy of exactly these bytes, so that a sanitizer sees a byte too many. */
static struct json scan(char **copy, const char *text, size_t length)
{
    *copy = malloc(length > 0 ? length : 1);
    assert_non_null(*copy);
    memcpy(*copy, text, length);
    return json_begin(*copy, length);
}

static void expect_text(const char *bytes, size_t length, const char *expected)
{
    char *copy;
    struct json json = scan(&copy, bytes, length);
    char *text = json_text(&json);
    if (text == NULL)
        fail_msg("%s: %s", bytes, json.why);
    else
        assert_string_equal(text, expected);
    assert_true(json_good(&json) && json_is_end(&json));
    free(text);
    free(copy);
}

static void expect_no_text(const char *bytes, size_t length, const char *why, size_t at)
{
    char *copy;
    struct json json = scan(&copy, bytes, length);
    assert_null(json_text(&json));
    assert_false(json_good(&json));
    assert_string_equal(json.why, why);
    assert_int_equal(json.at - copy, at);
    free(copy);
}

#define SIZED(text) text, sizeof text - 1

static void escapes_and_surrogates(void **state)
{
    expect_text(SIZED("\"\""), "");
    expect_text(SIZED(" \t\r\n\"a b\" "), "a b");
    expect_text(SIZED("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\/\b\f\n\r\t");
    expect_text(SIZED("\"\x7f\x80\xff\""), "\x7f\x80\xff");
    expect_text(SIZED("\"\\u0001\\u007f\\u0080\\u07ff\\u0800\\uffff\""),
                "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf");
    expect_text(SIZED("\"\\ud7ff\\ue000\""), "\xed\x9f\xbf\xee\x80\x80"); /* beside the surrogates */
    expect_text(SIZED("\"\\ud800\\udc00\\uDBFF\\uDFFF\""), "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
    expect_text(SIZED("\"\\u00e9\\u00E9\""), "\xc3\xa9\xc3\xa9");
    static const char half[] = "half a surrogate pair", four[] = "four hexadecimal digits expected after \\u";
    expect_no_text(SIZED("\"\\ud800\""), half, 7);
    expect_no_text(SIZED("\"\\ud800"), half, 7);
    expect_no_text(SIZED("\"\\ud800\\"), half, 7);
    expect_no_text(SIZED("\"\\ud800\\n\""), half, 7);
    expect_no_text(SIZED("\"\\udbff\\ud800\""), half, 13);
    expect_no_text(SIZED("\"\\udbff\\ue000\""), half, 13);
    expect_no_text(SIZED("\"\\udc00\\ud800\""), half, 7);
    expect_no_text(SIZED("\"\\udfff\""), half, 7);
    expect_no_text(SIZED("\"\\ud800\\u12"), four, 11);
    expect_no_text(SIZED("\"\\u12g4\""), four, 5);
    expect_no_text(SIZED("\"\\u\0\0\0\0\""), four, 3);
    expect_no_text(SIZED("\"\\u-001\""), four, 3);
    expect_no_text(SIZED("\"\\u0000\""), "a NUL in a string", 7);
    expect_no_text(SIZED("\"\\a\""), "unknown escape in a string", 3);
    expect_no_text(SIZED("\"\\\0\""), "unknown escape in a string", 3);
    expect_no_text(SIZED("\"a\0b\""), "a control character in a string", 2);
    expect_no_text(SIZED("\"a\nb\""), "a control character in a string", 2);
    expect_no_text(SIZED("\0\"a\""), "'\"' expected", 0);
    expect_no_text(SIZED("a"), "'\"' expected", 0);
}

/* Every way of cutting a text off. */
static void truncated_texts(void **state)
{
    static const char whole[] = "\"a\\n\\u00e9\\ud83d\\ude00\xc3\xa9\\\\\"";
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        char *copy;
        struct json json = scan(&copy, whole, length);
        assert_null(json_text(&json));
        assert_true(json.why[0] != '\0' && (size_t)(json.at - copy) <= length);
        free(copy);
    }
    expect_text(SIZED(whole), "a\n\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9\\");
    expect_no_text(whole, 2, "the string does not end", 2);
    expect_no_text(whole, 3, "the string does not end", 3);
    expect_no_text(whole, 0, "'\"' expected", 0);
}

static void numbers_at_the_ends(void **state)
{
    static const struct { const char *text, *rest; } good[] = {
        {"0", ""}, {"-0", ""}, {"9223372036854775807", ""}, {"-9223372036854775808", ""}, {"18446744073709551616", ""},
        {"1.7976931348623157e308", ""}, {"-2.2250738585072014E-308", ""}, {"4.9e-324", ""}, {"1e+400", ""},
        {"0.10000000000000000555", ""}, {"1.50", ""}, {"12,", ","}, {"1 2", " 2"},
        {"1-2", "-2"}, {"0e0e", "e"}, {"1.5.5", ".5"}};
    static const char *const bad[] = {"", "-", "+1", "01", "-01", "00", ".5", "1.", "1.e5", "-.5", "1e", "1E+", "1e-x",
                                      "nan", "inf", "Infinity", "true", "null", "\"1\"", "--1", "e5", "٣"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char *copy;
        const size_t length = strlen(good[i].text), rest = strlen(good[i].rest);
        struct json json = scan(&copy, good[i].text, length);
        char *number = json_number(&json);
        if (number == NULL)
            fail_msg("%s: %s", good[i].text, json.why);
        else
            assert_int_equal(strlen(number), length - rest);
        assert_memory_equal(number, good[i].text, length - rest); /* as it is written */
        assert_int_equal(copy + length - json.at, rest);
        assert_int_equal(json_is_number(good[i].text), rest == 0);
        free(number);
        free(copy);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *copy;
        struct json json = scan(&copy, bad[i], strlen(bad[i]));
        if (json_number(&json) != NULL || json_is_number(bad[i]))
            fail_msg("%s is taken", bad[i]);
        assert_string_equal(json.why, "a number expected");
        assert_ptr_equal(json.at, copy);
        free(copy);
    }
}

static void integers_at_the_ends(void **state)
{
    static const struct { const char *text; int64_t value; const char *why; size_t at; } cases[] = {
        {"0", 0, "", 1}, {" 7", 7, "", 2}, {"9007199254740993", 9007199254740993, "", 16}, /* 2^53 + 1 */
        {"9223372036854775807", INT64_MAX, "", 19},
        {"9223372036854775808", 0, "the number is too large", 18},
        {"18446744073709551616", 0, "the number is too large", 19},
        {"92233720368547758070", 0, "the number is too large", 19},
        {"", 0, "an integer that is not negative expected", 0},
        {"-1", 0, "an integer that is not negative expected", 0},
        {"00", 0, "a number with leading zeros", 2}, {"01", 0, "a number with leading zeros", 2},
        {"1.0", 0, "an integer expected, not a fraction", 1}, {"1e0", 0, "an integer expected, not a fraction", 1},
        {"1E", 0, "an integer expected, not a fraction", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *copy;
        int64_t value;
        struct json json = scan(&copy, cases[i].text, strlen(cases[i].text));
        assert_int_equal(json_integer(&json, &value), cases[i].why[0] == '\0');
        assert_string_equal(json.why, cases[i].why);
        assert_int_equal(json.at - copy, cases[i].at);
        if (json_good(&json))
            assert_true(value == cases[i].value);
        free(copy);
    }
}

/* The items of an array of integers; -1 where it is none. */
static int items_of(const char *text)
{
    char *copy;
    int count = 0;
    int64_t value;
    struct json json = scan(&copy, text, strlen(text));
    while (json_item(&json, "[]", (size_t)count) && json_integer(&json, &value))
        count++;
    count = json_good(&json) && json_is_end(&json) ? count : -1;
    free(copy);
    return count;
}

static void items(void **state)
{
    static const char *const bad[] = {"", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1;2]", "[1}",
                                      "{1]", "[]]", "[1],", "[[1]]"};
    assert_int_equal(items_of("[]"), 0);
    assert_int_equal(items_of(" [ ] "), 0);
    assert_int_equal(items_of("[1]"), 1);
    assert_int_equal(items_of("\t[ 1 ,\n2 , 3\r] "), 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(items_of(bad[i]), -1);
    char *copy; /* another byte, and a NUL, are no end */
    struct json json = scan(&copy, SIZED("[\0"));
    assert_true(json_expect(&json, '[') && !json_is_end(&json) && !json_accept(&json, ']'));
    assert_true(json_good(&json) && !json_expect(&json, ']'));
    assert_string_equal(json.why, "']' expected");
    free(copy);
}

/* ---- what the readers make of it ------------------------------------------------------------------------------- */

static bool reads_tensors(const char *header, size_t length)
{
    struct tensors tensors;
    struct diag diag = {0};
    unsigned char *bytes = calloc(8 + length, 1);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    const bool good = tensors_parse(&tensors, bytes, 8 + length, "a file", &diag);
    assert_int_equal(diag.errors, !good); /* one message, and one only */
    tensors_free(&tensors);
    diag_free(&diag);
    free(bytes);
    return good;
}

static const char *reads_record(const char *text, size_t length)
{
    struct record record;
    const char *why = record_parse(&record, text, length);
    record_free(&record);
    return why;
}

/* However deep, nothing but a message comes of it. */
static void depth(void **state)
{
    enum { DEPTH = 1000000 };
    static const char *const openings[] = {"[", "{\"a\":", "{\"__metadata__\":"};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        const size_t step = strlen(openings[i]), length = DEPTH * step;
        char *text = malloc(length);
        assert_non_null(text);
        for (size_t at = 0; at < length; at++)
            text[at] = openings[i][at % step];
        assert_false(reads_tensors(text, length));
        assert_non_null(reads_record(text, length));
        free(text);
    }
}

static void keys_that_occur_twice(void **state)
{
    static const char twice[] = "{\"ab\":1,\"a\\u0062\":2}";
    assert_string_equal(reads_record(SIZED(twice)), "a name occurs twice");
    assert_false(reads_tensors(SIZED("{\"__metadata__\":{},\"__metadata\\u005f_\":{}}")));
    assert_true(reads_tensors(SIZED("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}"))); /* what is not read at all */
}

static void nul_bytes(void **state)
{
    assert_string_equal(reads_record(SIZED("{\"a\":1}\0")), "a NUL byte");
    assert_string_equal(reads_record(SIZED("\0")), "a NUL byte");
    assert_false(reads_tensors(SIZED("{}\0")));
    assert_true(reads_tensors(SIZED("{} \t\r\n")));
}

/* A pair is read and written as UTF-8. */
static void what_is_written(void **state)
{
    struct record record;
    static const char text[] = "{\"\\ud83d\\ude00\":\"\\u007f\\r\\n\\t\\u001f\\/\\\"\\\\\",\"x\":-0.10E+05}";
    assert_null(record_parse(&record, SIZED(text)));
    char *line = record_json(&record);
    assert_string_equal(line, "{\"\xf0\x9f\x98\x80\":\"\\u007f\\u000d\\n\\t\\u001f/\\\"\\\\\",\"x\":-0.10E+05}\n");
    record_free(&record);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_and_surrogates), cmocka_unit_test(truncated_texts),
        cmocka_unit_test(numbers_at_the_ends),    cmocka_unit_test(integers_at_the_ends),
        cmocka_unit_test(items),                  cmocka_unit_test(depth),
        cmocka_unit_test(keys_that_occur_twice),  cmocka_unit_test(nul_bytes),
        cmocka_unit_test(what_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
