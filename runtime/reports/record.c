/* SPDX-License-Identifier: MIT */
/* See record.h. */
#include "record.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"

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

void record_value(struct record *record, const char *name, const char *value)
{
    add(record, strdup(name), strdup(value), json_is_number(value));
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

/* `before` stands inside the quotes: they are none behind another character. */
static void print_csv(FILE *out, const char *before, const char *text)
{
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

void print_csv_text(FILE *out, const char *text)
{
    print_csv(out, "", text);
}

void print_csv_formula(FILE *out, const char *text)
{
    print_csv(out, "'", text);
}

bool record_print(const struct record *record, FILE *out)
{
    if (record->failed)
        return false;
    putc('{', out);
    for (size_t i = 0; i < record->count; i++) {
        if (i > 0)
            putc(',', out);
        json_print_text(out, record->field[i].name);
        putc(':', out);
        if (record->field[i].number)
            fputs(record->field[i].value, out);
        else
            json_print_text(out, record->field[i].value);
    }
    fputs("}\n", out);
    return true;
}

char *record_json(const struct record *record)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    const bool good = out != NULL && record_print(record, out);
    if (out != NULL && fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
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
            const char *why = json->no_memory ? "out of memory"
                            : value == NULL   ? "no name and value, a text or a number" : "a name occurs twice";
            free(name);
            free(value);
            return why;
        }
        add(record, name, value, number);
        more = json_accept(json, ',');
        if (!more && !json_accept(json, '}'))
            return "no , or } after a value";
    }
    return !json_is_end(json) ? "something comes after the object" : record->failed ? "out of memory" : NULL;
}

const char *record_parse(struct record *record, const char *text, size_t length)
{
    struct json json = json_begin(text, length);
    *record = (struct record){0};
    return memchr(text, '\0', length) != NULL ? "a NUL byte" : parse_object(record, &json);
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
