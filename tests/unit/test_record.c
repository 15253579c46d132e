/* SPDX-License-Identifier: MIT */
/* Results as JSON lines and CSV: what is written is read back, and what is no result is refused.
 *
 * Left out on purpose: what the fields mean.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/reports/report.h"
#include "base/json.h"

static const char awkward[] = "a \"quoted\" \\ text,\n\twith µ, <b>&amp;</b> and \x01";

static char *printed(void (*print)(FILE *, const char *), const char *text)
{
    char *result = NULL;
    size_t length;
    FILE *out = open_memstream(&result, &length);
    print(out, text);
    fclose(out);
    return result;
}

static void print_plain(FILE *out, const char *text) { print_csv(out, text, false); }
static void print_formula(FILE *out, const char *text) { print_csv(out, text, true); }

static void expect_printed(void (*print)(FILE *, const char *), const char *text, const char *expected)
{
    char *result = printed(print, text);
    assert_string_equal(result, expected);
    free(result);
}

static void texts_are_escaped(void **state)
{
    expect_printed(json_print_text, awkward,
                   "\"a \\\"quoted\\\" \\\\ text,\\n\\twith µ, <b>&amp;</b> and \\u0001\"");
    expect_printed(print_plain, "plain text; 1.5", "plain text; 1.5");
    expect_printed(print_plain, "a,b", "\"a,b\"");
    expect_printed(print_plain, "say \"a\"", "\"say \"\"a\"\"\"");
    expect_printed(print_plain, "two\nlines", "\"two\nlines\"");
    expect_printed(print_formula, "=1", "'=1");
    expect_printed(print_formula, "=1,=\"2\"", "\"'=1,=\"\"2\"\"\"");
    expect_printed(print_html_text, "<a href=\"x\">'&'</a>", "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

static void what_is_written_is_read_back(void **state)
{
    struct record record = {0}, again;
    record_text(&record, awkward, awkward);
    record_number(&record, "number", "%.4g", 0.25);
    record_number(&record, "infinite", "%g", INFINITY);
    record_value(&record, "h", "14");
    record_value(&record, "width", "narrow");
    record_text(&record, "h", "a name that is there already");
    char *line = record_json(&record);
    assert_null(record_parse(&again, line, strlen(line)));
    char *second = record_json(&again);
    assert_string_equal(line, second);
    assert_string_equal(record_get(&again, awkward), awkward);
    assert_true(record_get_number(&again, "number") == 0.25);
    assert_true(record_get_number(&again, "h") == 14);
    assert_true(isnan(record_get_number(&again, "width")));
    assert_string_equal(record_get(&again, "infinite"), "inf");
    assert_null(record_get(&again, "nothing"));
    free(line);
    free(second);
    record_free(&record);
    record_free(&again);
}

static void nothing_is_an_object_too(void **state)
{
    const struct record nothing = {0};
    struct record again;
    char *line = record_json(&nothing);
    assert_string_equal(line, "{}\n");
    assert_null(record_parse(&again, line, strlen(line)));
    assert_int_equal(again.count, 0);
    record_free(&again);
    free(line);
}

static void json_from_elsewhere_is_read(void **state)
{
    static const char text[] = " { \"a\" : -1.5e+3 , \"b\":\"\\u00b5\\u20ac\\/\\b\" } ";
    struct record record;
    assert_null(record_parse(&record, text, strlen(text)));
    assert_true(record_get_number(&record, "a") == -1500);
    assert_string_equal(record_get(&record, "b"), "µ€/\b");
    record_free(&record);
}

static void numbers_are_those_of_json(void **state)
{
    static const char *const texts[] = {"01", "1.", ".5", "1e", "+1", "", "0x10", "1 ", "-", "nan"};
    static const char *const numbers[] = {"0", "-0.5", "1e9", "12.25E-3"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct record record = {0};
        record_value(&record, "x", texts[i]);
        assert_true(isnan(record_get_number(&record, "x")));
        record_free(&record);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct record record = {0};
        record_value(&record, "x", numbers[i]);
        assert_true(record_get_number(&record, "x") == strtod(numbers[i], NULL));
        record_free(&record);
    }
}

static void what_is_no_object_is_refused(void **state)
{
    static const char *const bad[] = {
        "", "x", "[]", "{", "{}x", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":1 \"b\":2}", "{a:1}", "{\"a\":01}",
        "{\"a\":\"x}", "{\"a\":\"\\q\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"\\u0000\"}", "{\"a\":\"\\ud800\"}",
        "{\"a\":{}}", "{\"a\":1,\"a\":2}", "{\"a\":true}", "{\"a\":\"\t\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct record record;
        if (record_parse(&record, bad[i], strlen(bad[i])) == NULL)
            fail_msg("%s is taken", bad[i]);
        record_free(&record);
    }
}

/* A line that was cut off is not read, and the bytes before it are known. */
static void a_half_written_line_is_left(void **state)
{
    static const char text[] = "{\"a\":1}\n{\"a\":2}\n{\"a\":";
    struct records records = {0};
    struct diag diag = {0};
    size_t complete = 0;
    assert_true(records_parse(&records, text, strlen(text), &complete, "file", &diag));
    assert_int_equal(records.count, 2);
    assert_int_equal(complete, 16);
    assert_false(records_parse(&records, "{\"a\":1}\nx\n", 10, &complete, "file", &diag));
    assert_non_null(strstr(diag.messages[0], "file:2: error: "));
    diag_free(&diag);
    records_free(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(nothing_is_an_object_too),
        cmocka_unit_test(json_from_elsewhere_is_read),
        cmocka_unit_test(numbers_are_those_of_json),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(a_half_written_line_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
