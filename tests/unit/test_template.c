/* SPDX-License-Identifier: MIT */
/* The template engine: syntax, values, places of errors, includes, the read-only context, and writing files.
 *
 * Templates are written to a folder of their own and read from there. What the real templates say is tested elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/replace.h"
#include "emit/emit.h"

static char folder[] = "/tmp/attngen-test-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    FILE *out = fopen(in_folder(name), "wb");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static char *read_text(const char *name)
{
    char *text = calloc(1, 4096);
    FILE *in = fopen(in_folder(name), "rb");
    assert_non_null(text);
    if (in) {
        text[fread(text, 1, 4095, in)] = '\0';
        fclose(in);
    }
    return text;
}

static void fill(struct emit *emit)
{
    emit_set_integer(emit, "D_MODEL", 64);
    emit_set_integer(emit, "BIG", INT64_C(9007199254740993));
    emit_set_number(emit, "SCALE", 0.125);
    emit_set_number(emit, "WHOLE", 8.0);
    emit_set_number(emit, "NOT_FINITE", 1e300 * 1e300);
    emit_set_string(emit, "NAME", "tiny");
    emit_set_boolean(emit, "YES", true);
    emit_set_boolean(emit, "NO", false);
    emit_begin_table(emit, "isas");
    for (int i = 1; i <= 3; i++) {
        emit_begin_item(emit);
        emit_set_integer(emit, "lanes", 4 * i);
        emit_begin_table(emit, "q");
        emit_set_integer(emit, "rows", i);
        emit_set_boolean(emit, "exists", i != 2);
        emit_end(emit);
        emit_end(emit);
    }
    emit_end(emit);
}

/* The text of main.in, or NULL and the first message in `message`. */
static char *expand(const char *text, char message[1024])
{
    struct diag diag = {0};
    struct emit *emit = emit_open(folder, &diag);
    size_t length = 0;

    write_text("main.in", text);
    assert_non_null(emit);
    fill(emit);
    char *result = emit_expand(emit, "main.in", 0, &length, &diag);
    message[0] = '\0';
    if (result)
        assert_int_equal(length, strlen(result));
    if (diag.errors)
        snprintf(message, 1024, "%s", diag.messages[0]);
    assert_int_equal(result == NULL, diag.errors == 1);
    emit_close(emit);
    diag_free(&diag);
    return result;
}

static void expect(const char *text, const char *expected)
{
    char message[1024];
    char *result = expand(text, message);

    assert_string_equal(message, "");
    assert_string_equal(result, expected);
    free(result);
}

/* `text` must fail at `place` (NULL: main.in) with a message that holds `part`. */
static void expect_error(const char *text, const char *place, const char *part)
{
    char message[1024], start[300];
    char *result = expand(text, message);

    snprintf(start, sizeof start, "%s/%s: error: ", folder, place);
    assert_null(result);
    if (strncmp(message, start, strlen(start)) != 0 || !strstr(message, part))
        fail_msg("wanted  %s…%s…\n        got     %s", start, part, message);
}

static void test_text(void **state)
{
    expect("", "");
    expect("\n", "\n");
    expect("a\n\n\n\nb\n\nc\n", "a\n\nb\n\nc\n"); /* of blank lines one is left */
    expect("a $ b $x $$ { } \\ \" ' %d ]] \t\r\n", "a $ b $x $$ { } \\ \" ' %d ]] \t\r\n");
    expect("no newline", "no newline");
    expect("  /* \xc3\xa9 */\n", "  /* \xc3\xa9 */\n");
    expect(" $ indented\n", " $ indented\n");
}

static void test_code(void **state)
{
    expect("$ for i = 1, 3 do\nx${i};\n$ end\n", "x1;\nx2;\nx3;\n");
    expect("$ for j = 0, 1 do for v = 0, 1 do\n${j}_${v}\n$ end end\n", "0_0\n0_1\n1_0\n1_1\n");
    expect("$\n$ -- a comment\na\n$", "a\n");
    expect("$\tlocal a = 1\n${a}", "1");
    expect("$ local a = 1\r\n${a}\r\n", "1\r\n");
    expect("$ local t = {\n$   a = 1,\n$ }\n${t.a}\n", "1\n");
    expect("$ if YES and not NO then\nyes\n$ else\nno\n$ end\n", "yes\n");
    expect("$ local function f(x)\n<${x}>\n$ end\n$ f(1) f(2)\n", "<1>\n<2>\n");
    expect("$ emit('raw ${x}\\n') emit(3)\n", "raw ${x}\n3");
}

static void test_values(void **state)
{
    expect("${D_MODEL} ${BIG} ${NAME} ${-3} ${7//2}", "64 9007199254740993 tiny -3 3");
    expect("${SCALE} ${WHOLE} ${6/2} ${-0.0} ${1/3} ${2.0^40} ${1e300/1e280}",
           "0.125 8 3 0 0.333333333 1099511627776 100000000000000000000");
    expect("${tostring(WHOLE)} ${tostring(YES)} ${fmt('%03d', 7)} ${('x'):rep(3)}", "8 true 007 xxx");
    expect("${({1,2})[2]} ${(function() local t = {a={b=1}} return t.a.b end)()}", "2 1");
    expect("${'}'}${\"}{\"} ${{'a'}==1 and 1 or 2}", "}}{ 2");
    expect("${NAME}${NAME}", "tinytiny");
    expect("${ D_MODEL }", "64");
}

static void test_value_errors(void **state)
{
    expect_error("a\n${nil}", "main.in:2", "${nil} is a nil");
    expect_error("${YES}", "main.in:1", "is a boolean");
    expect_error("${isas}", "main.in:1", "is a table");
    expect_error("${fmt}", "main.in:1", "is a function");
    expect_error("${NOT_FINITE}", "main.in:1", "not finite");
    expect_error("${0/0}", "main.in:1", "not finite");
    expect_error("${tostring({})}", "main.in:1", "table has no text");
    expect_error("${fmt('%s', {})}", "main.in:1", "table has no text");
    expect_error("${('%s'):format({})}", "main.in:1", "table has no text");
    expect_error("${fmt('%-8p', 'a')}", "main.in:1", "address");
    expect_error("\n$ emit(nil)", "main.in:2", "is a nil");
}

static void test_places(void **state)
{
    expect_error("a\nb\n$ local x = 1 + {}\n", "main.in:3", "attempt to perform arithmetic on a table value");
    expect_error("a\n${1 + {}}\nc\n", "main.in:2", "attempt to perform arithmetic");
    expect_error("a\n\n$ for i = 1, 3 do\nb\n", "main.in:4", "'end' expected");
    expect_error("a\n$ local = 3\n", "main.in:2", "<name> expected");
    expect_error("a\n$ error('bad plan')\n", "main.in:2", "bad plan");
    expect_error("a\n\n$ assert(D_MODEL == 63, 'must be 63')\n", "main.in:3", "must be 63");
    expect_error("a\n\n$ assert(NO)\n", "main.in:3", "assertion failed");
    expect_error("$ local function f()\n$ error('deep')\n$ end\n$ f()\n", "main.in:2", "deep");
    expect_error("$ string.rep()\n", "main.in:1", "bad argument #1");
    expect_error("$ error({})\n", "main.in:1", "error() was given a table");
    expect_error("$ local s = ('x'):rep(3)\n\n${s.y.z}\n", "main.in:3", "index a nil");
}

static void test_syntax_errors(void **state)
{
    expect_error("a\n  ${D_MODEL\n}\n", "main.in:2", "without a '}'");
    expect_error("a\n  ${D_MODEL", "main.in:2", "without a '}'");
    expect_error("${}", "main.in:1", "bad expression");
    expect_error("\n${1 +}", "main.in:2", "bad expression");
    expect_error("\n${1, 2}", "main.in:2", "bad expression");
    expect_error("\n${local x = 1}", "main.in:2", "bad expression");
    expect_error("\n$end\n", "main.in:2", "needs a blank");
    expect_error("\n$$\n", "main.in:2", "needs a blank");
}

static void test_unknown_names(void **state)
{
    expect_error("\n${D_MODLE}", "main.in:2", "unknown name 'D_MODLE'");
    expect_error("\n$ if d_model then end", "main.in:2", "unknown name 'd_model'");
    expect_error("$ x = 1", "main.in:1", "write 'local x'");
    expect_error("$ D_MODEL = 1", "main.in:1", "'D_MODEL'");
    static const char *const names[] = {"io",    "os",           "load",   "require", "debug",  "collectgarbage",
                                        "print", "setmetatable", "rawset", "_G",      "dofile", "pcall"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[64], part[64];
        snprintf(text, sizeof text, "$ local x = %s", names[i]);
        snprintf(part, sizeof part, "unknown name '%s'", names[i]);
        expect_error(text, "main.in:1", part);
    }
    expect_error("${math.random()}", "main.in:1", "'random'");
    expect_error("${math.flor(1)}", "main.in:1", "'math' has no field 'flor'");
}

/* A template that is expanded once for each plan */
static void test_each_plan(void **state)
{
    struct diag diag = {0};
    struct emit *emit = emit_open(folder, &diag);
    size_t length = 0;

    write_text("main.in", "${plan.isa.name} is ${ISA}, ${L} lanes, ${PLACES} numbers, of ${#plans}\n");
    emit_begin_table(emit, "plans");
    for (int i = 0; i < 2; i++) {
        emit_begin_item(emit);
        emit_begin_table(emit, "isa");
        emit_set_string(emit, "name", i == 0 ? "scalar" : "avx2");
        emit_end(emit);
        emit_set_integers(emit, EMITTED({"lanes", i == 0 ? 4 : 8}, {"places", i == 0 ? 16 : 8}));
        emit_end(emit);
    }
    emit_end(emit);
    for (size_t i = 1; i <= 2; i++) {
        char *text = emit_expand(emit, "main.in", i, &length, &diag);
        assert_string_equal(text, i == 1 ? "scalar is scalar, 4 lanes, 16 numbers, of 2\n"
                                         : "avx2 is avx2, 8 lanes, LANES numbers, of 2\n");
        free(text);
    }
    assert_null(emit_expand(emit, "main.in", 0, &length, &diag));
    assert_non_null(strstr(diag.messages[0], "main.in:1: error: unknown name 'plan'"));
    emit_close(emit);
    diag_free(&diag);
}

static void test_context_is_read_only(void **state)
{
    expect("${#isas} ${isas[2].lanes} ${isas[3].q.rows}", "3 8 3");
    expect("$ for i, isa in ipairs(isas) do if isa.q.exists then\n${i}:${isa.lanes}\n$ end end\n", "1:4\n3:12\n");
    expect("$ for k in pairs(isas[1]) do\n${k}\n$ end\n", "lanes\nq\n");
    expect_error("\n$ isas[1].lanes = 3", "main.in:2", "read-only");
    expect_error("\n$ isas[1].q.new = 3", "main.in:2", "'isas.1.q.new' cannot be set");
    expect_error("\n$ isas[4] = 3", "main.in:2", "read-only");
    expect_error("\n$ table.insert(isas, 3)", "main.in:2", "read-only");
    expect_error("\n$ table.remove(isas)", "main.in:2", "read-only");
    expect_error("\n$ string.rep = 3", "main.in:2", "read-only");
    expect_error("\n${isas[1].q.cols}", "main.in:2", "'isas.1.q' has no field 'cols'");
    expect_error("\n${isas[7].q}", "main.in:2", "no field '7'");
}

static void test_pairs_are_sorted(void **state)
{
    expect("$ for k, v in pairs({zeta=1, alpha=2, mid=3, [2]='y', [1]='x', [10]='z'}) do\n${k}=${v}\n$ end\n",
           "1=x\n2=y\n10=z\nalpha=2\nmid=3\nzeta=1\n");
}

static void test_include(void **state)
{
    write_text("inner.in", "[${NAME} ${MR}]\n");
    write_text("outer.in", "<${NR}\n$ include('inner.in', {MR = NR + 1})\n>\n");
    write_text("inherits.in", "$ include('inner.in')\n");
    expect("a\n$ include('inner.in', {MR = 6})\nb\n", "a\n[tiny 6]\nb\n");
    expect("$ include('outer.in', {NR = 2})\n", "<2\n[tiny 3]\n>\n");
    expect("$ include('inherits.in', {MR = 4})\n", "[tiny 4]\n");
    expect("$ include('inner.in', {MR = 1, NAME = 'other'})\n${NAME}\n", "[other 1]\ntiny\n");
    expect("$ for i = 1, 2 do include('inner.in', {MR = i}) end\n", "[tiny 1]\n[tiny 2]\n");
    expect("$ local t = capture('inner.in', {MR = 9})\nx\n${t}y ${#t}\n", "x\n[tiny 9]\ny 9\n");
    write_text("flag.in", "$ if MASKED then\nm\n$ else\nn\n$ end\n");
    expect("$ include('flag.in', {MASKED = false}) include('flag.in', {MASKED = true})\n", "n\nm\n");
    /* a local of the includer is no name of the included */
    expect_error("$ local MR = 3\n$ include('inner.in')\n", "inner.in:1", "unknown name 'MR'");
    expect_error("\n$ include('inner.in', {MR = nil})\n", "inner.in:1", "(included from main.in:2)");
}

static void test_include_errors(void **state)
{
    write_text("broken.in", "a\n$ for\n");
    write_text("fails.in", "a\n\n$ error('no')\n");
    write_text("middle.in", "\n\n\n$ include('fails.in')\n");
    write_text("loop.in", "$ include('loop.in')\n");
    expect_error("\n$ include('broken.in')\n", "broken.in:2", "(included from main.in:2)");
    expect_error("\n$ include('middle.in')\n", "fails.in:3", "no (included from middle.in:4, main.in:2)");
    expect_error("$ include('loop.in')\n", "loop.in:1", "nested too deep");
    expect_error("\n$ include('missing.in')\n", "main.in:2", "missing.in cannot be read: No such file");
    expect_error("\n$ include('missing.in')\n", "main.in:2", "No such file");
    expect_error("\n$ include()\n", "main.in:2", "name of a template");
    expect_error("\n$ include('broken.in', 3)\n", "main.in:2", "table of names and values");
}

/* Lines that are too long, by names of any length, are broken; what fits stays as it is. */
static void test_wrap(void **state)
{
    const char *const fits = "$ local x = ('x'):rep(50)\nint f(int ${x}, int ${x});\n";
    expect(fits, "int f(int xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, int xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx);\n");
    expect("$ local x = ('x'):rep(60)\nint f(int ${x}, int ${x});\n",
           "int f(int xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,\n"
           "      int xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx);\n");
    expect("$ local x = ('x'):rep(60)\n#define f(a) g(${x}, (${x}, a))\n",
           "#define f(a) g(xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, \\\n"
           "               (xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, a))\n");
    expect("$ local x = ('x'):rep(70)\n/* one ${x} two three four five six seven eight nine\n * ten. */\nint i;\n",
           "/* one xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx two three four five six seven eight nine\n"
           " * ten. */\nint i;\n");
    expect("$ local x = ('x'):rep(70)\n/* one ${x} two three four five six seven eight nine more\n * ten. */\nint i;\n",
           "/* one xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx two three four five six seven eight nine\n"
           " * more ten. */\nint i;\n");
    expect("$ local x = ('x'):rep(100)\nint i = ${x}; /* why this is so */\n",
           "/* why this is so */\n"
           "int i = xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;\n");
    /* a name that fits on no line after the indentation: only before it, and never before the operator alone */
    expect("$ local x = ('x'):rep(100)\n${(' '):rep(44)}y = a\n${(' '):rep(44)}+ ${x};\n",
           "                                            y = a\n"
           "                                            + xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;\n");
    expect("$ local x = ('x'):rep(100)\nconst char *s = \"${x}, and, more\";\n", /* a string stays whole */
           "const char *s = \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, and, more\";\n");
}

/* What a template broke is one line again where that fits; lists in braces, comments and macros stay. */
static void test_joined_lines(void **state)
{
    expect("int f(int a,\n        int b,\n        int c)\n{\n", "int f(int a, int b, int c)\n{\n");
    expect("x = a ? b :\n        c;\nif (a &&\n    b)\n", "x = a ? b : c;\nif (a && b)\n");
    expect("enum {\n    A,\n    B,\n};\nint i[] = {f(1,\n             2),\n};\n", "enum {\n    A,\n    B,\n};\nint i[] = {f(1, 2),\n};\n");
    expect("/* (one,\n * two) */\n#define f(a, \\\n          b) g(a,\nint i;\n", "/* (one,\n * two) */\n#define f(a, \\\n          b) g(a,\nint i;\n");
    expect("f(\"(\", '(');\nint a,\n    b; /* (\n,\n */ int c,\n    d;\n", "f(\"(\", '(');\nint a,\n    b; /* (\n,\n */ int c,\n    d;\n");
    expect("$ local x = ('x'):rep(51)\nint f(int ${x}, int ${x},\n      int b);\n",
           "int f(int xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, int xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,\n"
           "      int b);\n");
}

/* Of blocks that define a word the first one counts; what a word means stands before the first of those that are used. */
static void test_words(void **state)
{
    expect("$ local own = '#define vec_a(x) one(x)\\n#define vec_b(x) \\\\\\n    two(x)\\n#define vec_c(x) x\\n'\n"
           "$ local all = own .. '\\n/* of its own */\\n#define vec_d(x) vec_a(x)\\n\\n#define vec_a(x) other(x)\\n'\n"
           "$ emit((words_used(all, words_in('vec_d(1) vec_b(2)'), '/* two */\\nvec_c vec_b\\n\\n/* unused */\\nvec_d\\n')))\n",
           "#define vec_a(x) one(x)\n\n/* two */\n#define vec_b(x) \\\n    two(x)\n\n/* of its own */\n#define vec_d(x) vec_a(x)\n");
}

static void test_helpers(void **state)
{
    expect("${ceil_div(7, 2)} ${ceil_div(8, 2)} ${round_up(9, 8)} ${upper('ab_c')}", "4 4 16 AB_C");
    expect("${size(123456)} ${size(WHOLE)}", "((size_t)123456) ((size_t)8)");
    expect("${float(0.1)} ${float(2)} ${float(-0.0)} ${float(1.44269504)} ${float(1e10)} ${float(1e-45)}",
           "0.1f 2.0f -0.0f 1.442695f 1e+10f 1e-45f");
    expect("${float(3.4028234663852886e38)} ${float(0.69314718)} ${float(16777216)} ${float(1.17549435e-38)}",
           "3.4028235e+38f 0.6931472f 16777216.0f 1.1754944e-38f");
    expect("${c_comment_wrap('one two three */ four', 12, ' * ')}", " * one two\n * three * /\n * four");
    expect("${c_comment_wrap('a\\n\\n  b c', 7, '   ')}|", "   a\n\n     b\n     c|");
    expect_error("\n${float(NOT_FINITE)}", "main.in:2", "no finite f32");
    expect_error("\n${float(1e39)}", "main.in:2", "no finite f32");
    expect_error("\n${size(-1)}", "main.in:2", "not a size");
    expect_error("\n${ceil_div(1, 0)}", "main.in:2", "divisor");
}

/* Every literal that float() makes is, read by the C library, the number it was made from. */
static void test_float_round_trips(void **state)
{
    uint32_t bits = 12345;
    char *text = malloc(1 << 20), *at = text, message[1024];
    static float numbers[4000];

    assert_non_null(text);
    for (int i = 0; i < 4000; i++) {
        bits = bits * 1664525u + 1013904223u;
        uint32_t pattern = bits;
        if ((pattern >> 23 & 255) == 255)
            pattern ^= 1u << 30;
        memcpy(&numbers[i], &pattern, sizeof pattern);
        at += sprintf(at, "${float(%a)}\n", (double)numbers[i]);
    }
    char *result = expand(text, message);
    assert_string_equal(message, "");
    const char *literal = result;
    for (int i = 0; i < 4000; i++) {
        char *end;
        const float back = strtof(literal, &end);
        assert_memory_equal(&back, &numbers[i], sizeof back);
        assert_int_equal(*end, 'f');
        literal = end + 2;
    }
    free(result);
    free(text);
}

static void test_long_lines_and_many_values(void **state)
{
    char text[6000] = "", expected[3000] = "";
    for (int i = 0; i < 200; i++) {
        strcat(text, "${D_MODEL}");
        strcat(expected, "64");
    }
    expect(text, expected);

    strcpy(text, "${");
    memset(text + 2, '(', 500);
    strcpy(text + 502, "1");
    memset(text + 503, ')', 500);
    strcpy(text + 1003, "}");
    expect_error(text, "main.in:1", "overflow");
}

static void test_context_mistakes(void **state)
{
    struct diag diag = {0};
    size_t length;
    struct emit *emit = emit_open(folder, &diag);

    write_text("main.in", "a\n");
    emit_set_integer(emit, "A", 1);
    emit_set_integer(emit, "A", 2);
    assert_null(emit_expand(emit, "main.in", 0, &length, &diag));
    assert_non_null(strstr(diag.messages[0], "'A' twice"));
    emit_close(emit);

    emit = emit_open(folder, &diag);
    emit_begin_table(emit, "t");
    assert_null(emit_expand(emit, "main.in", 0, &length, &diag));
    assert_non_null(strstr(diag.messages[1], "open"));
    emit_close(emit);

    emit = emit_open(folder, &diag);
    emit_end(emit);
    assert_null(emit_expand(emit, "main.in", 0, &length, &diag));
    assert_non_null(strstr(diag.messages[2], "not open"));
    emit_close(emit);

    emit = emit_open(folder, &diag);
    emit_set_integer(emit, "include", 1); /* harmless: each template has its own */
    emit_set_integer(emit, "fmt", 1);
    assert_null(emit_expand(emit, "main.in", 0, &length, &diag));
    assert_non_null(strstr(diag.messages[3], "'fmt' is taken"));
    assert_false(diag.environment);
    emit_close(emit);
    diag_free(&diag);
}

/* A template that never stops ends at the limit of memory, as the machine's failure. */
static void test_memory_limit(void **state)
{
    struct diag diag = {0};
    size_t length;
    struct emit *emit = emit_open(folder, &diag);

    write_text("main.in", "$ local s = ('x'):rep(1 << 20)\n$ while true do\n${s .. 'y'}\n$ end\n");
    assert_null(emit_expand(emit, "main.in", 0, &length, &diag));
    assert_int_equal(diag.errors, 1);
    assert_true(diag.environment);
    assert_non_null(strstr(diag.messages[0], "memory"));
    emit_close(emit);
    diag_free(&diag);
}

static void test_files_read(void **state)
{
    struct diag diag = {0};
    size_t length, count;
    struct emit *emit = emit_open(folder, &diag);

    write_text("main.in", "$ include('z.in') include('b.in') include('z.in')\n");
    write_text("z.in", "");
    write_text("b.in", "");
    free(emit_expand(emit, "main.in", 0, &length, &diag));
    const char *const *paths = emit_files_read(emit, &count);
    assert_int_equal(count, 3);
    assert_string_equal(paths[0], in_folder("b.in"));
    assert_string_equal(paths[1], in_folder("main.in"));
    assert_string_equal(paths[2], in_folder("z.in"));
    emit_close(emit);

    emit = emit_open(NULL, &diag); /* the embedded ones */
    assert_null(emit_expand(emit, "nowhere.in", 0, &length, &diag));
    emit_files_read(emit, &count);
    assert_int_equal(count, 0);
    assert_non_null(strstr(diag.messages[0], "no template 'nowhere.in'"));
    emit_close(emit);
    diag_free(&diag);
}

/* ---- writing ---- */

static bool write_pair(const char *a, const char *text_a, const char *b, const char *text_b, struct diag *diag)
{
    char path_a[256], path_b[256];
    snprintf(path_a, sizeof path_a, "%s/%s", folder, a);
    snprintf(path_b, sizeof path_b, "%s/%s", folder, b);
    const struct file_text files[2] = {{path_a, text_a, strlen(text_a)}, {path_b, text_b, strlen(text_b)}};
    return files_replace(files, 2, false, diag);
}

static void expect_file(const char *name, const char *expected)
{
    char *text = read_text(name);
    assert_string_equal(text, expected);
    free(text);
}

static void test_write(void **state)
{
    struct diag diag = {0};
    struct stat before, after;
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};

    assert_true(write_pair("x.c", "one", "x.h", "two", &diag));
    expect_file("x.c", "one");
    expect_file("x.h", "two");
    assert_int_equal(utimensat(-1, in_folder("x.c"), old, 0), 0);
    stat(in_folder("x.c"), &before);
    assert_true(write_pair("x.c", "one", "x.h", "three", &diag));
    stat(in_folder("x.c"), &after);
    assert_int_equal(before.st_mtime, after.st_mtime); /* unchanged: left alone */
    assert_int_equal(before.st_ino, after.st_ino);
    expect_file("x.h", "three");
    assert_int_equal(diag.errors, 0);
    diag_free(&diag);
}

/* If the second cannot be written, the first stays as it was, and no other file is left. */
static void test_write_all_or_none(void **state)
{
    struct diag diag = {0};
    char command[300];

    assert_true(write_pair("y.c", "old", "y.h", "old", &diag));
    assert_int_equal(unlink(in_folder("y.h")), 0);
    assert_int_equal(mkdir(in_folder("y.h"), 0777), 0);
    assert_false(write_pair("y.c", "new", "y.h", "new", &diag));
    expect_file("y.c", "old");
    assert_int_equal(diag.errors, 1);
    assert_true(diag.environment);
    assert_false(write_pair("w.c", "new", "missing/w.h", "new", &diag));
    expect_file("w.c", "");
    assert_int_not_equal(access(in_folder("w.c"), F_OK), 0);
    snprintf(command, sizeof command, "test -z \"$(ls -A %s | grep '[ch][.]')\"", folder);
    assert_int_equal(system(command), 0);
    diag_free(&diag);
}

static int make_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_value_errors),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_syntax_errors),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_each_plan),
        cmocka_unit_test(test_context_is_read_only),
        cmocka_unit_test(test_pairs_are_sorted),
        cmocka_unit_test(test_include),
        cmocka_unit_test(test_include_errors),
        cmocka_unit_test(test_helpers), cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_joined_lines), cmocka_unit_test(test_words),
        cmocka_unit_test(test_float_round_trips),
        cmocka_unit_test(test_long_lines_and_many_values),
        cmocka_unit_test(test_context_mistakes),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_files_read),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_write_all_or_none),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
