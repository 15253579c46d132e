/* SPDX-License-Identifier: MIT */
/* JSON (RFC 8259), read piece by piece: the reader says what must come next, so no file makes it nest deeper or take
 * more than it asked for. Texts come out as UTF-8, numbers as they are written. Also how a text is written.
 *
 * Left out on purpose: a tree of what was read (json_lua.h makes one); whether bytes of 0x80 and above are UTF-8; keys
 * that occur twice, which the readers refuse, as they know the keys.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    const char *at, *end; /* the next byte; past the last; bytes may be anything, NUL included */
    char why[80];         /* what is wrong at `at`; "" if nothing is */
};

struct json json_begin(const char *text, size_t length);
/* Says what is wrong here. Always false. */
bool json_fail(struct json *json, const char *why);
bool json_good(const struct json *json);

/* Each of these skips blanks first. Whether this byte comes next, which is taken then; */
bool json_accept(struct json *json, char c);
/* the same, a failure where it does not; */
bool json_expect(struct json *json, char c);
/* whether nothing follows; */
bool json_is_end(struct json *json);
/* whether item `index` of an array "[]" or object "{}" begins here: false after the last and after a failure. */
bool json_item(struct json *json, const char brackets[2], size_t index);

/* Whether this byte comes next, which is left there: what kind of value follows. */
bool json_next_is(struct json *json, char c);
/* true, false or null: whether this word comes next, which is taken then. */
bool json_accept_word(struct json *json, const char *word);

/* A text, its escapes resolved, without NUL; malloc'd, NULL after a failure. */
char *json_text(struct json *json);
/* A number as it is written; malloc'd, NULL after a failure. */
char *json_number(struct json *json);
/* A number of 0 … 2^63-1, without sign, fraction, exponent or leading zeros; a failure where it is none. */
bool json_integer(struct json *json, int64_t *value);
/* Whether `text` as a whole is a number as JSON writes it. */
bool json_is_number(const char *text);

/* With its quotes. */
void json_print_text(FILE *out, const char *text);
