/* SPDX-License-Identifier: MIT */
/* safetensors: what is written is read back, and hostile files are refused with a message.
 *
 * Left out on purpose: a full disk (nothing portable makes one) and files larger than memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../runtime/system/process.h"
#include "base/file.h"
#include "base/tensors.h"

/* A file in memory: header length, header, `data` zeros. */
static unsigned char *make_file(const char *header, size_t data, size_t *size)
{
    const size_t length = strlen(header);
    unsigned char *bytes = calloc(8 + length + data + 1, 1);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    *size = 8 + length + data;
    return bytes;
}

static bool parse(struct tensors *tensors, const char *header, size_t data, char message[300])
{
    struct diag diag = {0};
    size_t size;
    unsigned char *bytes = make_file(header, data, &size);
    bool good = tensors_parse(tensors, bytes, size, "a file", &diag);
    snprintf(message, 300, "%s", diag.errors > 0 ? diag.messages[0] : "");
    assert_int_equal(good, diag.errors == 0);
    assert_false(diag.environment);
    free(bytes);
    diag_free(&diag);
    return good;
}

/* ---- round trip ------------------------------------------------------------------------------------------------ */

static void test_round_trip(void **state)
{
    static float x[6] = {1, -2, 3.5f, 0, 1e-40f, 3e38f};
    static int32_t lengths[3] = {0, -1, 7};
    static unsigned char mask[4] = {1, 0, 1, 1};
    const struct tensor items[] = {
        {"x", TYPE_F32, 2, {2, 3}, sizeof x, x},
        {"a \"quoted\\ name\n\xc3\xa9", TYPE_BOOL, 4, {1, 2, 2, 1}, sizeof mask, mask},
        {"lengths", TYPE_I32, 1, {3}, sizeof lengths, lengths},
        {"empty", TYPE_F32, 3, {4, 0, 2}, 0, x},
        {"one", TYPE_F32, 0, {0}, 4, x},
    };
    struct diag diag = {0};
    char *folder = folder_make(&diag), *path = path_join(folder, "a.safetensors");
    assert_true(tensors_write(path, items, 5, &diag));
    struct tensors read;
    assert_true(tensors_read(&read, path, &diag));
    assert_int_equal(read.count, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct tensor *t = tensors_find(&read, items[i].name);
        assert_non_null(t);
        assert_int_equal(t->type, items[i].type);
        assert_int_equal(t->rank, items[i].rank);
        assert_int_equal(t->bytes, items[i].bytes);
        assert_memory_equal(t->shape, items[i].shape, (size_t)t->rank * sizeof *t->shape);
        assert_memory_equal(t->data, items[i].data, t->bytes);
    }
    assert_null(tensors_find(&read, "y"));
    tensors_free(&read);
    size_t size;
    char *bytes = file_read(path, WHOLE_OURS, &size, &diag);
    assert_int_equal((unsigned char)bytes[0] % 8, 0); /* the data is aligned */
    free(bytes);
    folder_remove(folder);
    free(path);
    free(folder);
    assert_int_equal(diag.errors, 0);
}

static void test_write_leaves_nothing_behind(void **state)
{
    struct diag diag = {0};
    char *folder = folder_make(&diag), *path = path_join(folder, "a"), *below = path_join(path, "b");
    assert_int_equal(mkdir(path, 0777), 0); /* the target is a folder: rename fails */
    assert_false(tensors_write(path, NULL, 0, &diag));
    assert_false(tensors_write("/nowhere/at/all", NULL, 0, &diag));
    assert_int_equal(diag.errors, 2);
    assert_true(diag.environment);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0); /* empty: no temporary file was left */
    free(path);
    free(below);
    free(folder);
    diag_free(&diag);
}

/* ---- headers --------------------------------------------------------------------------------------------------- */

static void test_good_headers(void **state)
{
    static const struct { const char *header; size_t data, count; } cases[] = {
        {"{}", 0, 0},
        {"  {  }  ", 0, 0},
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"__metadata__\":{\"a\":\"b\",\"c\":\"\\n\"}}", 0, 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, 1},
        {"{\"a\":{\"data_offsets\" : [ 0 , 4 ] , \"shape\" : [] , \"dtype\" : \"I32\"}}   ", 4, 1},
        {"{\"b\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[8,12]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 12, 2},
        {"{\"e\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807],\"data_offsets\":[0,0]}}", 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tensors tensors;
        char message[300];
        if (!parse(&tensors, cases[i].header, cases[i].data, message))
            fail_msg("%s: %s", cases[i].header, message);
        assert_int_equal(tensors.count, cases[i].count);
        tensors_free(&tensors);
    }
}

#define A(dtype, shape, offsets) "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void test_hostile_headers(void **state)
{
    static const struct { const char *header; size_t data; const char *message; } cases[] = {
        {"", 0, "'{' expected"},
        {"[]", 0, "'{' expected"},
        {"{", 0, "'\"' expected"},
        {"{\"a\"", 0, "':' expected"},
        {"{\"a", 0, "the string does not end"},
        {"{\"a\\", 0, "the string does not end"},
        {"{\"a\":1}", 0, "'{' expected"},
        {"{\"a\":{}}", 0, "'\"' expected"},
        {"{}{}", 0, "something follows"},
        {"{},", 0, "something follows"},
        {A("F32", "[2]", "[0,8]") "x", 8, "something follows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "needs dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "occurs twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"colour\":\"red\"}}", 0, "unknown key of a tensor"},
        {A("F4", "[2]", "[0,1]"), 1, "dtype \"F4\" is not supported"},
        {A("BF16", "[1]", "[0,4]"), 4, "shape and dtype need 2 bytes, data_offsets give 4"},
        {A("f32", "[1]", "[0,4]"), 4, "is not supported"},
        {A("F32", "[-1]", "[0,4]"), 4, "an integer that is not negative"},
        {A("F32", "[1.0]", "[0,4]"), 4, "not a fraction"},
        {A("F32", "[1e0]", "[0,4]"), 4, "not a fraction"},
        {A("F32", "[01]", "[0,4]"), 4, "leading zeros"},
        {A("F32", "[1,]", "[0,4]"), 4, "an integer that is not negative"},
        {A("F32", "[1", "[0,4]"), 4, "an integer that is not negative"},
        {A("F32", "[1 2]", "[0,4]"), 4, "']' expected"},
        {A("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "too many numbers"},
        {A("F32", "[99999999999999999999]", "[0,4]"), 4, "too large"},
        {A("F32", "[4611686018427387904,4]", "[0,4]"), 4, "shape overflows"},
        {A("F32", "[9223372036854775807]", "[0,4]"), 4, "shape overflows"},
        {A("F32", "[2]", "[0,4]"), 4, "shape and dtype need 8 bytes, data_offsets give 4"},
        {A("F32", "[1]", "[0,4]"), 3, "outside the 3 bytes"},
        {A("F32", "[1]", "[4,0]"), 4, "outside"},
        {A("F32", "[1]", "[0,9223372036854775807]"), 4, "outside"},
        {A("F32", "[1]", "[0]"), 4, "needs two numbers"},
        {A("F32", "[1]", "[0,4,8]"), 4, "too many numbers"},
        {A("F32", "[1]", "[4,8]"), 8, "a hole"},
        {A("F32", "[1]", "[0,4]"), 8, "after the last tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "an overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "\"a\" occurs twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "occurs twice"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "'\"' expected"},
        {"{\"__metadata__\":[]}", 0, "'{' expected"},
        {"{\"\\x\":1}", 0, "unknown escape"},
        {"{\"\\u00g0\":1}", 0, "four hexadecimal digits"},
        {"{\"\\u00", 0, "four hexadecimal digits"},
        {"{\"\\u0000\":1}", 0, "a NUL"},
        {"{\"\\ud800\":1}", 0, "surrogate"},
        {"{\"\\ud800\\u0041\":1}", 0, "surrogate"},
        {"{\"\\udc00\":1}", 0, "surrogate"},
        {"{\"a\tb\":1}", 0, "control character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tensors tensors;
        char message[300];
        if (parse(&tensors, cases[i].header, cases[i].data, message))
            fail_msg("accepted: %s", cases[i].header);
        if (strstr(message, cases[i].message) == NULL)
            fail_msg("%s\n  gives: %s\n  expected: %s", cases[i].header, message, cases[i].message);
        assert_int_equal(tensors.count, 0);
    }
}

static void test_escapes_in_names(void **state)
{
    struct tensors tensors;
    char message[300];
    static const char header[] = "{\"\\u00e9\\ud83d\\ude00\\/\\\"\":"
                                 "{\"dtype\":\"BOOL\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    assert_true(parse(&tensors, header, 0, message));
    assert_string_equal(tensors.items[0].name, "\xc3\xa9\xf0\x9f\x98\x80/\"");
    tensors_free(&tensors);
}

static void test_bool_is_0_or_1(void **state)
{
    struct diag diag = {0};
    struct tensors tensors;
    size_t size;
    unsigned char *bytes = make_file(A("BOOL", "[2]", "[0,2]"), 2, &size);
    bytes[size - 1] = 2;
    assert_false(tensors_parse(&tensors, bytes, size, "a file", &diag));
    assert_non_null(strstr(diag.messages[0], "neither 0 nor 1"));
    free(bytes);
    diag_free(&diag);
}

static void test_lengths_of_the_header(void **state)
{
    static const uint64_t lengths[] = {3, 1000, (uint64_t)1 << 40, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct diag diag = {0};
        struct tensors tensors;
        unsigned char bytes[10] = {0};
        memcpy(bytes, &lengths[i], 8);
        assert_false(tensors_parse(&tensors, bytes, sizeof bytes, "a file", &diag));
        assert_non_null(strstr(diag.messages[0], "not a safetensors file"));
        diag_free(&diag);
    }
    for (size_t size = 0; size < 8; size++) {
        struct diag diag = {0};
        struct tensors tensors;
        assert_false(tensors_parse(&tensors, (const unsigned char *)"\2\0\0\0\0\0\0", size, "a file", &diag));
        diag_free(&diag);
    }
}

/* Every prefix of a good file, and every one of its bytes changed, is read or refused, never more. */
static void test_damaged_files(void **state)
{
    size_t size;
    unsigned char *bytes = make_file("{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],"
                                     "\"data_offsets\":[0,8]},\"b\\u0041\":{\"dtype\":\"BOOL\",\"shape\":[1],"
                                     "\"data_offsets\":[8,9]}}", 9, &size);
    for (size_t cut = 0; cut <= size; cut++) {
        struct diag diag = {0};
        struct tensors tensors;
        unsigned char *copy = malloc(cut + 1); /* of exact size, for a sanitizer's sake */
        memcpy(copy, bytes, cut);
        assert_int_equal(tensors_parse(&tensors, copy, cut, "a file", &diag), cut == size);
        free(copy);
        tensors_free(&tensors);
        diag_free(&diag);
    }
    for (size_t at = 0; at < size * 256; at++) {
        struct diag diag = {0};
        struct tensors tensors;
        const unsigned char kept = bytes[at / 256];
        bytes[at / 256] = (unsigned char)at;
        bool good = tensors_parse(&tensors, bytes, size, "a file", &diag);
        assert_int_equal(good, diag.errors == 0);
        bytes[at / 256] = kept;
        tensors_free(&tensors);
        diag_free(&diag);
    }
    free(bytes);
}

static void test_missing_file(void **state)
{
    struct diag diag = {0};
    struct tensors tensors;
    assert_false(tensors_read(&tensors, "/nowhere/at/all", &diag));
    assert_false(tensors_read(&tensors, "/", &diag));
    assert_true(diag.environment);
    diag_free(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_write_leaves_nothing_behind),
        cmocka_unit_test(test_good_headers),    cmocka_unit_test(test_hostile_headers),
        cmocka_unit_test(test_escapes_in_names), cmocka_unit_test(test_bool_is_0_or_1),
        cmocka_unit_test(test_lengths_of_the_header), cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
