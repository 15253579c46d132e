/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"
#include "base/memory.h"

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
    if (find(record, name) != NULL) {
        free(name);
        free(value);
        return;
    }
    record->field = memory_grow(record->field, record->count + 1, sizeof *record->field);
    record->field[record->count++] = (struct field){name, value, number};
}

void record_text(struct record *record, const char *name, const char *value)
{
    add(record, text_copy(name), text_copy(value), false);
}

void record_number(struct record *record, const char *name, const char *format, double number)
{
    char *value = text_join(format, number);
    add(record, text_copy(name), value, isfinite(number)); /* JSON has no inf and no nan */
}

void record_value(struct record *record, const char *name, const char *value)
{
    add(record, text_copy(name), text_copy(value), json_is_number(value));
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

void print_csv(FILE *out, const char *text, bool formula)
{
    const char *const before = formula ? "'" : ""; /* inside the quotes: they are none behind another character */
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fprintf(out, "%s%s", before, text);
        return;
    }
    fprintf(out, "\"%s", before);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"')
            putc('"', out);
        putc(*c, out);
    }
    putc('"', out);
}

void record_print(const struct record *record, FILE *out)
{
    putc('{', out);
    for (size_t i = 0; i < record->count; i++) {
        fputs(i > 0 ? "," : "", out);
        json_print_text(out, record->field[i].name);
        putc(':', out);
        if (record->field[i].number)
            fputs(record->field[i].value, out);
        else
            json_print_text(out, record->field[i].value);
    }
    fputs("}\n", out);
}

char *record_json(const struct record *record)
{
    struct text text;
    record_print(record, text_begin(&text));
    return text_end(&text);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static const char *parse_object(struct record *record, struct json *json)
{
    if (!json_accept(json, '{'))
        return "no JSON object; each line must be one, {\"name\":value,…}";
    for (bool more = !json_accept(json, '}'); more;) {
        char *name = json_text(json);
        const bool colon = name != NULL && json_accept(json, ':');
        const bool number = colon && !json_is_end(json) && *json->at != '"';
        char *value = !colon ? NULL : number ? json_number(json) : json_text(json);
        if (value == NULL || find(record, name) != NULL) {
            free(name);
            free(value);
            return value == NULL ? "no name and value, a text or a number" : "a name occurs twice";
        }
        add(record, name, value, number);
        more = json_accept(json, ',');
        if (!more && !json_accept(json, '}'))
            return "no , or } after a value";
    }
    return !json_is_end(json) ? "something comes after the object" : NULL;
}

const char *record_parse(struct record *record, const char *text, size_t length)
{
    struct json json = json_begin(text, length);
    *record = (struct record){0};
    return memchr(text, '\0', length) != NULL ? "a NUL byte" : parse_object(record, &json);
}

/* ---- many ------------------------------------------------------------------------------------------------------ */

void records_add(struct records *records, struct record *record)
{
    records->record = memory_grow(records->record, records->count + 1, sizeof *records->record);
    records->record[records->count++] = *record;
    *record = (struct record){0};
}

bool records_parse(struct records *records, const char *text, size_t length, size_t *complete, const char *place,
                   struct diag *diag)
{
    const char *at = text, *newline;
    for (size_t line = 1; (newline = memchr(at, '\n', (size_t)(text + length - at))) != NULL; line++) {
        struct record record;
        const char *why = record_parse(&record, at, (size_t)(newline - at));
        if (why != NULL) {
            char where[300];
            snprintf(where, sizeof where, "%s:%zu", place, line);
            diag_error(diag, where, "%s; a file of attnrun sweep --json is needed", why);
            record_free(&record);
            return false;
        }
        records_add(records, &record);
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

void print_html(FILE *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (const char *c = format; *c != '\0'; c++)
        if (strncmp(c, "%s", 2) == 0) {
            print_html_text(out, va_arg(args, const char *));
            c += 1;
        } else if (strncmp(c, "%zu", 3) == 0) {
            fprintf(out, "%zu", va_arg(args, size_t));
            c += 2;
        } else {
            putc(*c, out);
        }
    va_end(args);
}
