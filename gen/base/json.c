/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct json json_begin(const char *text, size_t length)
{
    return (struct json){.at = text, .end = text + length};
}

bool json_fail(struct json *json, const char *why)
{
    snprintf(json->why, sizeof json->why, "%s", why);
    return false;
}

bool json_good(const struct json *json)
{
    return json->why[0] == '\0';
}

/* ---- what comes next ------------------------------------------------------------------------------------------- */

static void skip_blanks(struct json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
        json->at++;
}

bool json_is_end(struct json *json)
{
    skip_blanks(json);
    return json->at == json->end;
}

bool json_accept(struct json *json, char c)
{
    if (json_is_end(json) || *json->at != c)
        return false;
    json->at++;
    return true;
}

bool json_expect(struct json *json, char c)
{
    char why[] = "'?' expected";
    why[1] = c;
    return json_accept(json, c) || json_fail(json, why);
}

bool json_item(struct json *json, const char brackets[2], size_t index)
{
    if (index == 0)
        return json_expect(json, brackets[0]) && !json_accept(json, brackets[1]);
    if (json_accept(json, ','))
        return true;
    json_expect(json, brackets[1]);
    return false;
}

bool json_next_is(struct json *json, char c)
{
    return !json_is_end(json) && *json->at == c;
}

bool json_accept_word(struct json *json, const char *word)
{
    const size_t length = strlen(word);
    if (json_is_end(json) || (size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

/* ---- texts ----------------------------------------------------------------------------------------------------- */

static bool hex4(struct json *json, unsigned *value)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    *value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = json->at < json->end ? memchr(digits, *json->at, sizeof digits - 1) : NULL;
        if (digit == NULL)
            return json_fail(json, "four hexadecimal digits expected after \\u");
        const unsigned d = (unsigned)(digit - digits);
        *value = *value * 16 + (d < 16 ? d : d - 6);
        json->at++;
    }
    return true;
}

static char *put_utf8(char *out, unsigned code)
{
    static const unsigned lead[] = {0, 0xC0, 0xE0, 0xF0};
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *out++ = (char)(lead[more] | code >> (6 * more));
    while (more-- > 0)
        *out++ = (char)(0x80 | (code >> (6 * more) & 0x3F));
    return out;
}

/* \uXXXX, and the second half of a surrogate pair. */
static bool scan_unicode(struct json *json, char **out)
{
    unsigned code, low;
    if (!hex4(json, &code))
        return false;
    if (code - 0xD800 < 0x400 && json->end - json->at >= 2 && json->at[0] == '\\' && json->at[1] == 'u') {
        json->at += 2;
        if (!hex4(json, &low))
            return false;
        if (low - 0xDC00 < 0x400)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code == 0 || code - 0xD800 < 0x800)
        return json_fail(json, code == 0 ? "a NUL in a string" : "half a surrogate pair");
    *out = put_utf8(*out, code);
    return true;
}

static bool scan_escape(struct json *json, char **out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return json_fail(json, "the string does not end");
    const char c = *json->at++;
    if (c == 'u')
        return scan_unicode(json, out);
    const char *name = memchr(names, c, sizeof names - 1);
    if (name == NULL)
        return json_fail(json, "unknown escape in a string");
    *(*out)++ = values[name - names];
    return true;
}

/* A string up to its closing quote. */
static bool scan_string(struct json *json, char *out)
{
    while (json->at < json->end && *json->at != '"') {
        if ((unsigned char)*json->at < 0x20)
            return json_fail(json, "a control character in a string");
        if (*json->at != '\\')
            *out++ = *json->at++;
        else if (json->at++, !scan_escape(json, &out))
            return false;
    }
    *out = '\0';
    return json->at < json->end || json_fail(json, "the string does not end");
}

char *json_text(struct json *json)
{
    if (!json_expect(json, '"'))
        return NULL;
    const char *close = json->at; /* room: no escape makes a string longer */
    while (close < json->end && *close != '"')
        close += *close == '\\' && close + 1 < json->end ? 2 : 1;
    char *text = memory_get((size_t)(close - json->at) + 1, 1);
    if (!scan_string(json, text)) {
        free(text);
        return NULL;
    }
    json->at++;
    return text;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* The end of at least one digit at `at`; NULL if there is none. */
static const char *digits_end(const char *at, const char *end)
{
    const char *first = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at > first ? at : NULL;
}

/* The end of the number that begins at `at`; NULL if none does. */
static const char *number_end(const char *at, const char *end)
{
    at += at < end && *at == '-';
    const char *first = at;
    at = digits_end(at, end);
    if (at == NULL || (*first == '0' && at > first + 1))
        return NULL;
    if (at < end && *at == '.' && (at = digits_end(at + 1, end)) == NULL)
        return NULL;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at = digits_end(at + (at < end && (*at == '-' || *at == '+')), end);
    }
    return at;
}

bool json_is_number(const char *text)
{
    const char *end = text + strlen(text);
    return number_end(text, end) == end;
}

char *json_number(struct json *json)
{
    skip_blanks(json);
    const char *end = number_end(json->at, json->end);
    if (end == NULL) {
        json_fail(json, "a number expected");
        return NULL;
    }
    char *text = text_part(json->at, (size_t)(end - json->at));
    json->at = end;
    return text;
}

bool json_integer(struct json *json, int64_t *value)
{
    skip_blanks(json);
    const char *first = json->at;
    *value = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *json->at - '0', value))
            return json_fail(json, "the number is too large");
    if (json->at == first)
        return json_fail(json, "an integer that is not negative expected");
    if (*first == '0' && json->at - first > 1)
        return json_fail(json, "a number with leading zeros");
    if (json->at < json->end && (*json->at == '.' || *json->at == 'e' || *json->at == 'E'))
        return json_fail(json, "an integer expected, not a fraction");
    return true;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

void json_print_text(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\' || c == '\n' || c == '\t')
            fprintf(out, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : c);
        else
            fprintf(out, c < 0x20 || c == 0x7f ? "\\u%04x" : "%c", c);
    }
    putc('"', out);
}
