/* SPDX-License-Identifier: MIT */
/* Numbers as they stand in the sources, for the tests of these. A test fails where they are not there.
 *
 * Left out on purpose: what they should be.
 */
#ifndef TESTS_COEFFICIENTS_H
#define TESTS_COEFFICIENTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The text behind `key` in a file. */
static char *text_behind(const char *path, const char *key)
{
    static char text[1 << 17];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    char *at = strstr(text, key);
    assert_non_null(at);
    return at + strlen(key);
}

/* As many as there are in "helpers.NAME = { ... }" of gen/emit/context.lua, which must be `count`. */
static void stored_coefficients(const char *name, double *c, int count)
{
    char key[40];
    snprintf(key, sizeof key, "helpers.%s = {", name);
    char *at = text_behind("gen/emit/context.lua", key);
    for (int k = 0; k < count; k++) {
        char *end;
        c[k] = strtod(at, &end);
        assert_ptr_not_equal(at, end);
        at = end + strspn(end, ", \n");
    }
    assert_int_equal(*at, '}');
}

#endif
