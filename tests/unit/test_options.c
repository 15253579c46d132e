/* SPDX-License-Identifier: MIT */
/* Options as rows, numbers, whole files: every form of an option, every edge of a number.
 *
 * Left out on purpose: the programs' own options (test_cli.sh, the commands' scripts) and writing (test_template.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/number.h"
#include "base/options.h"

/* ---- numbers ---- */

static void test_whole(void **state)
{
    static const struct { const char *text; uint64_t min, max, value; bool good; } cases[] = {
        {"0", 0, 0, 0, true}, {"007", 0, 9, 7, true}, {"9", 0, 9, 9, true}, {"10", 0, 9, 0, false},
        {"0", 1, 9, 0, false}, {"3", 0, 2, 0, false}, {"", 0, 9, 0, false}, {"+1", 0, 9, 0, false},
        {"-1", 0, UINT64_MAX, 0, false}, {" 1", 0, 9, 0, false}, {"1 ", 0, 9, 0, false}, {"1x", 0, 99, 0, false},
        {"2147483647", 0, INT32_MAX, INT32_MAX, true}, {"2147483648", 0, INT32_MAX, 0, false},
        {"18446744073709551615", 0, UINT64_MAX, UINT64_MAX, true},
        {"18446744073709551616", 0, UINT64_MAX, 0, false}, {"99999999999999999999999", 0, UINT64_MAX, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t value = 77;
        const bool good = number_whole(cases[i].text, strlen(cases[i].text), cases[i].min, cases[i].max, &value);
        assert_int_equal(good, cases[i].good);
        assert_true(value == (good ? cases[i].value : 77));
    }
}

static void test_real(void **state)
{
    static const char *const bad[] = {"", " 1", "1 ", "1x", "1/8", "0.5f", "e5"};
    double value;
    assert_true(number_real("-1.5e3", &value) && value == -1500 && errno == 0);
    assert_true(number_real("0x1p-3", &value) && value == 0.125);
    assert_true(number_real("nan", &value) && isnan(value));
    assert_true(number_real("1e-400", &value) && value == 0 && errno == ERANGE);
    assert_true(number_real("0e-400", &value) && value == 0 && errno == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(number_real(bad[i], &value));
}

/* ---- options ---- */

struct fields {
    bool flag, ask;
    const char *text, *file, *word, *counts;
    struct option_texts pairs;
    size_t size;
    double seconds;
};
#define FIELD(name) offsetof(struct fields, name)

static const struct option_row rows[] = {
    {.name = "flag", .letter = 'f', .kind = OPTION_FLAG, .field = FIELD(flag), .commands = 3},
    {.name = "ask", .kind = OPTION_ASK, .field = FIELD(ask), .commands = 3},
    {.name = "text", .argument = "TEXT", .kind = OPTION_TEXT, .field = FIELD(text), .commands = 3},
    {.name = "file", .letter = 'o', .argument = "FILE", .kind = OPTION_FILE, .field = FIELD(file), .commands = 1},
    {.name = "word", .argument = "one|two|three", .kind = OPTION_WORD, .field = FIELD(word), .commands = 1},
    {.name = "counts", .argument = "N[,N…]", .kind = OPTION_COUNTS, .field = FIELD(counts), .commands = 1},
    {.name = "pairs", .argument = "KEY=VALUE", .kind = OPTION_PAIRS, .field = FIELD(pairs), .commands = 1},
    {.name = "size", .argument = "N", .kind = OPTION_SIZE, .field = FIELD(size), .commands = 1, .min = 1, .max = 9},
    {.name = "seconds", .argument = "S", .kind = OPTION_SECONDS, .field = FIELD(seconds), .commands = 2, .max = 60,
     .needed = 2},
};
static const struct option_command commands[] = {
    {"all", 1, "a spec", true, "", ""}, {"strict", 2, "one spec", false, "", ""}};
static const struct option_program program = {.name = "test", .commands = commands, .command_count = 2, .options = rows,
                                              .option_count = sizeof rows / sizeof *rows, .once = true};

/* Reads a line of words split at blanks; the message of what is wrong with it, "" where nothing is. */
static const char *try(const struct option_command *command, const char *line, struct fields *fields,
                       struct option_texts *rest)
{
    static char text[200], message[300];
    static char *words[20];
    struct diag diag = {0};
    int count = 0;
    snprintf(text, sizeof text, "test %s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        words[count++] = word;
    options_forget(&program, fields);
    *fields = (struct fields){.size = 5};
    const bool good = options_read(&program, command, count, words, fields, rest, &diag);
    assert_int_equal(good, diag.errors == 0);
    snprintf(message, sizeof message, "%s", diag_first(&diag));
    diag_free(&diag);
    return message;
}

static void test_forms(void **state)
{
    struct fields f = {0};
    struct option_texts rest;
    assert_string_equal(try(&commands[0], "a --file x b -f --pairs k=1 --pairs=k=2 --size 9 c", &f, &rest), "");
    assert_true(f.flag && f.size == 9 && f.pairs.count == 2 && rest.count == 3);
    assert_string_equal(f.file, "x");
    assert_string_equal(f.pairs.text[1], "k=2");
    assert_string_equal(rest.text[2], "c");
    assert_string_equal(try(&commands[0], "-ox --wo=two --text= a", &f, &rest), "");
    assert_string_equal(f.file, "x");
    assert_string_equal(f.word, "two");
    assert_string_equal(f.text, "");
    assert_string_equal(try(&commands[0], "-o -f -- -f --word -", &f, &rest), "");
    assert_string_equal(f.file, "-f");
    assert_true(!f.flag && rest.count == 3 && f.size == 5);
    assert_string_equal(try(&commands[0], "--counts 0,2147483647 -f -f a", &f, &rest), "");
    assert_string_equal(try(&commands[0], "--ask --no-such", &f, &rest), "");
    assert_true(f.ask);
    assert_string_equal(try(&commands[1], "--seconds 0.25 a", &f, &rest), "");
    assert_true(f.seconds == 0.25);
    options_forget(&program, &f);
}

static void test_refused(void **state)
{
    static const struct { const char *line, *message; int command; } cases[] = {
        {"", "all needs a spec; see test help all", 0},
        {"a b", "strict needs one spec; see test help strict", 1},
        {"a", "strict needs --seconds S; see test help strict", 1},
        {"--none a", "unknown option '--none'", 0},
        {"-x a", "unknown option '-x'", 0},
        {"--file x a", "unknown option '--file'", 1},
        {"--f a", "unclear option '--f'; --flag or --file?", 0},
        {"--flag=1 a", "'--flag=1': --flag takes no value", 0},
        {"a --file", "a value is missing after '--file'", 0},
        {"a -o", "a value is missing after '-o'", 0},
        {"-o x --file y a", "--file is given twice", 0},
        {"--file= a", "--file cannot be ''; write a path", 0},
        {"--word four a", "--word cannot be 'four'; write one, two or three", 0},
        {"--word one|two a", "--word cannot be 'one|two'", 0},
        {"--counts 1,,2 a", "--counts cannot be '1,,2'", 0},
        {"--counts 1, a", "--counts cannot be '1,'", 0},
        {"--size 0 a", "--size cannot be '0'; write a whole number from 1 to 9", 0},
        {"--size 10 a", "--size cannot be '10'", 0},
        {"--seconds 61 a", "--seconds cannot be '61'; write a number from 0 to 60", 1},
        {"--seconds nan a", "--seconds cannot be 'nan'", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fields f = {0};
        struct option_texts rest;
        const char *message = try(&commands[cases[i].command], cases[i].line, &f, &rest);
        if (strncmp(message, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s: %s", cases[i].line, message);
        options_forget(&program, &f);
    }
}

/* ---- files ---- */

/* Every length around the room that is taken, and the limit; what is no file on disk is refused at once. */
static void test_file(void **state)
{
    static char text[(1 << 20) + 1];
    static const size_t sizes[] = {sizeof text - 1, (1 << 17) + 1, 1 << 17, 1 << 16, 1, 0};
    struct diag diag = {0};
    char path[] = "/tmp/test_options.XXXXXX";
    const int file = mkstemp(path);
    size_t size = 1;
    memset(text, '#', sizeof text);
    assert_true(write(file, text, sizeof text) == (ssize_t)sizeof text);
    close(file);
    assert_null(file_read(path, WHOLE_SPEC, &size, &diag));
    assert_string_equal(diag_first(&diag), "longer than 1 MiB; a spec has some twenty lines");
    assert_false(diag.environment);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(truncate(path, (off_t)sizes[i]), 0);
        char *bytes = file_read(path, WHOLE_SPEC, &size, &diag);
        assert_non_null(bytes);
        assert_true(size == sizes[i] && memcmp(bytes, text, size) == 0 && bytes[size] == '\0');
        free(bytes);
    }
    diag_free(&diag);
    unlink(path);
    for (enum file_whole kind = 0; kind <= WHOLE_OURS; kind++) {
        static const char *const places[] = {NULL, NULL, "/", "/dev/zero"};
        static const char *const said[] = {"cannot be read: No such file or directory; ",
            "is a device, a pipe or a socket, not a file on disk; ", "is a directory; ",
            "is a device, a pipe or a socket, not a file on disk; "};
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            diag = (struct diag){0};
            if (i == 1)
                assert_int_equal(mkfifo(path, 0600), 0);
            assert_null(file_read(places[i] != NULL ? places[i] : path, kind, &size, &diag));
            assert_memory_equal(diag_first(&diag), said[i], strlen(said[i]));
            assert_true(diag.environment);
            diag_free(&diag);
        }
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole), cmocka_unit_test(test_real), cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
