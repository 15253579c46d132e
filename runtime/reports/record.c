/* SPDX-License-Identifier: MIT */
/* See record.h. */
#include "record.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/number.h"

/* ---- values by name -------------------------------------------------------------------------------------------- */

static struct field *find(const struct record *record, const char *name)
{
    for (size_t i = 0; i < record->count; i++)
        if (strcmp(record->field[i].name, name) == 0)
            return &record->field[i];
    return NULL;
}

/* Takes over both texts. */
static void add(struct record *record, char *name, char *value, bool number)
{
    struct field *grown = NULL;
    if (name != NULL && value != NULL && find(record, name) == NULL) {
        grown = realloc(record->field, (record->count + 1) * sizeof *grown);
        record->failed |= grown == NULL;
    }
    record->failed |= name == NULL || value == NULL;
    if (grown == NULL) {
        free(name);
        free(value);
        return;
    }
    record->field = grown;
    grown[record->count++] = (struct field){name, value, number};
}

void record_text(struct record *record, const char *name, const char *value)
{
    add(record, strdup(name), strdup(value), false);
}

void record_number(struct record *record, const char *name, const char *format, ...)
{
    char *value = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&value, format, args) < 0)
        value = NULL;
    va_end(args);
    const bool finite = value == NULL || value[strcspn(value, "nN")] == '\0'; /* JSON has no inf and no nan */
    add(record, strdup(name), value, finite);
}

/* The end of a number as JSON writes it; `text` itself if there is none. */
static const char *number_end(const char *text)
{
    const char *at = text + (*text == '-');
    size_t digits = strspn(at, "0123456789");
    if (digits == 0 || (digits > 1 && *at == '0'))
        return text;
    at += digits;
    if (*at == '.') {
        digits = strspn(at + 1, "0123456789");
        if (digits == 0)
            return text;
        at += 1 + digits;
    }
    if (*at == 'e' || *at == 'E') {
        const char *exponent = at + 1 + (at[1] == '-' || at[1] == '+');
        digits = strspn(exponent, "0123456789");
        if (digits == 0)
            return text;
        at = exponent + digits;
    }
    return at;
}

void record_value(struct record *record, const char *name, const char *value)
{
    const char *end = number_end(value);
    add(record, strdup(name), strdup(value), end != value && *end == '\0');
}

const char *record_get(const struct record *record, const char *name)
{
    const struct field *field = find(record, name);
    return field != NULL ? field->value : NULL;
}

const char *record_get_text(const struct record *record, const char *name)
{
    const char *text = name != NULL ? record_get(record, name) : NULL;
    return text != NULL ? text : "";
}

double record_get_number(const struct record *record, const char *name)
{
    const struct field *field = find(record, name);
    double number;
    return field != NULL && field->number && number_real(field->value, &number) ? number : NAN;
}

void record_free(struct record *record)
{
    for (size_t i = 0; i < record->count; i++) {
        free(record->field[i].name);
        free(record->field[i].value);
    }
    free(record->field);
    *record = (struct record){0};
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

void print_json_text(FILE *out, const char *text)
{
    putc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c == '\n')
            fputs("\\n", out);
        else if (*c == '\t')
            fputs("\\t", out);
        else if ((unsigned char)*c < 0x20 || *c == 0x7f)
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            putc(*c, out);
    }
    putc('"', out);
}

void print_csv_text(FILE *out, const char *text)
{
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"')
            putc('"', out);
        putc(*c, out);
    }
    putc('"', out);
}

char *record_json(const struct record *record)
{
    char *text = NULL;
    size_t length;
    FILE *out = record->failed ? NULL : open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    putc('{', out);
    for (size_t i = 0; i < record->count; i++) {
        if (i > 0)
            putc(',', out);
        print_json_text(out, record->field[i].name);
        putc(':', out);
        if (record->field[i].number)
            fputs(record->field[i].value, out);
        else
            print_json_text(out, record->field[i].value);
    }
    fputs("}\n", out);
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

static bool take(const char **at, char wanted)
{
    skip_blanks(at);
    if (**at != wanted)
        return false;
    ++*at;
    return true;
}

/* \uXXXX of the basic plane, as UTF-8; surrogates are not written by anything here and not read. */
static bool put_code_point(FILE *out, const char *digits)
{
    unsigned code = 0;
    if (strspn(digits, "0123456789abcdefABCDEF") < 4)
        return false;
    for (int i = 0; i < 4; i++)
        code = 16 * code + (unsigned)(digits[i] <= '9' ? digits[i] - '0' : (digits[i] | 0x20) - 'a' + 10);
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        return false;
    if (code < 0x80) {
        putc((int)code, out);
    } else if (code < 0x800) {
        putc((int)(0xc0 | code >> 6), out);
        putc((int)(0x80 | (code & 0x3f)), out);
    } else {
        putc((int)(0xe0 | code >> 12), out);
        putc((int)(0x80 | (code >> 6 & 0x3f)), out);
        putc((int)(0x80 | (code & 0x3f)), out);
    }
    return true;
}

/* A text behind its opening quote; false if it does not end well. */
static bool read_text(const char **at, FILE *out)
{
    static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; /* what is written, what is meant */
    for (; **at != '"'; ++*at) {
        if ((unsigned char)**at < 0x20)
            return false;
        if (**at != '\\') {
            putc(**at, out);
            continue;
        }
        ++*at;
        if (**at == 'u') {
            if (!put_code_point(out, *at + 1))
                return false;
            *at += 4;
            continue;
        }
        size_t i = 0;
        while (escapes[i] != '\0' && escapes[i] != **at)
            i += 2;
        if (escapes[i] == '\0')
            return false;
        putc(escapes[i + 1], out);
    }
    ++*at;
    return true;
}

static char *take_text(const char **at)
{
    char *text = NULL;
    size_t length;
    if (!take(at, '"'))
        return NULL;
    FILE *out = open_memstream(&text, &length);
    bool good = out != NULL && read_text(at, out);
    if (out != NULL && fclose(out) != 0)
        good = false;
    if (!good) {
        free(text);
        text = NULL;
    }
    return text;
}

static char *take_number(const char **at)
{
    skip_blanks(at);
    const char *end = number_end(*at);
    char *text = end != *at ? strndup(*at, (size_t)(end - *at)) : NULL;
    *at = end;
    return text;
}

static const char *parse_object(struct record *record, const char *at)
{
    if (!take(&at, '{'))
        return "no JSON object; each line must be one, {\"name\":value,…}";
    for (bool more = !take(&at, '}'); more;) {
        char *name = take_text(&at);
        const bool colon = name != NULL && take(&at, ':');
        skip_blanks(&at);
        const bool number = *at != '"';
        char *value = !colon ? NULL : number ? take_number(&at) : take_text(&at);
        if (value == NULL || find(record, name) != NULL) {
            const char *why = value == NULL ? "no name and value, a text or a number" : "a name occurs twice";
            free(name);
            free(value);
            return why;
        }
        add(record, name, value, number);
        more = take(&at, ',');
        if (!more && !take(&at, '}'))
            return "no , or } behind a value";
    }
    skip_blanks(&at);
    return *at != '\0' ? "something stands behind the object" : record->failed ? "out of memory" : NULL;
}

const char *record_parse(struct record *record, const char *text, size_t length)
{
    char *copy = strndup(text, length);
    *record = (struct record){0};
    const char *why = copy == NULL ? "out of memory" : strlen(copy) != length ? "a NUL byte" : NULL;
    why = why != NULL ? why : parse_object(record, copy);
    free(copy);
    return why;
}

/* ---- many ------------------------------------------------------------------------------------------------------ */

bool records_add(struct records *records, struct record *record)
{
    struct record *grown = realloc(records->record, (records->count + 1) * sizeof *grown);
    if (grown == NULL) {
        record_free(record);
        return false;
    }
    records->record = grown;
    grown[records->count++] = *record;
    *record = (struct record){0};
    return true;
}

bool records_parse(struct records *records, const char *text, size_t length, size_t *complete, const char *place,
                   struct diag *diag)
{
    const char *at = text, *newline;
    for (size_t line = 1; (newline = memchr(at, '\n', (size_t)(text + length - at))) != NULL; line++) {
        struct record record;
        const char *why = record_parse(&record, at, (size_t)(newline - at));
        if (why == NULL && !records_add(records, &record))
            why = "out of memory";
        if (why != NULL) {
            char where[300];
            snprintf(where, sizeof where, "%s:%zu", place, line);
            diag_error(diag, where, "%s; a file of attnrun sweep --json is needed", why);
            record_free(&record);
            return false;
        }
        at = newline + 1;
    }
    *complete = (size_t)(at - text);
    return true;
}

void records_free(struct records *records)
{
    for (size_t i = 0; i < records->count; i++)
        record_free(&records->record[i]);
    free(records->record);
    *records = (struct records){0};
}

void print_html_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: putc((unsigned char)*text < ' ' && *text != '\n' ? ' ' : *text, out);
        }
}
