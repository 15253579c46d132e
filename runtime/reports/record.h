/* SPDX-License-Identifier: MIT */
/* One result as named values in a fixed order: a line of JSON, a row of a table. Numbers stay the text that they were
 * written as.
 *
 * Left out on purpose: nested values; what the names mean (sweep/results.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/diag.h"

struct field {
    char *name, *value;
    bool number; /* written without quotes */
};

struct record {
    struct field *field;
    size_t count;
};

struct records {
    struct record *record;
    size_t count;
};

/* Adds a value, unless there is one of this name. */
void record_text(struct record *record, const char *name, const char *value);
void record_number(struct record *record, const char *name, const char *format, double number);
/* Adds a number if the text is a JSON number, else a text. */
void record_value(struct record *record, const char *name, const char *value);
/* NULL if there is none of this name. */
const char *record_get(const struct record *record, const char *name);
/* The same; empty if there is none, or if the name is NULL */
const char *record_get_text(const struct record *record, const char *name);
/* The same as a number; NaN if there is none */
double record_get_number(const struct record *record, const char *name);
void record_free(struct record *record);

/* Prints the record as a line of JSON, with its newline. */
void record_print(const struct record *record, FILE *out);
/* The same as a text; free() it. */
char *record_json(const struct record *record);
/* Reads one flat JSON object of `length` bytes. Returns NULL, or what is wrong. Call record_free() in any case. */
const char *record_parse(struct record *record, const char *text, size_t length);

/* Takes over the record. */
void records_add(struct records *records, struct record *record);
/* Reads JSON lines; `place` is the file's name for messages. An incomplete last line is not read; `complete` is the
 * number of bytes before it. */
bool records_parse(struct records *records, const char *text, size_t length, size_t *complete, const char *place,
                   struct diag *diag);
void records_free(struct records *records);

/* A text as a CSV field (RFC 4180: quoted where needed), and in HTML, attributes included. */
void print_csv(FILE *out, const char *text, bool formula); /* with an apostrophe: no spreadsheet computes it */
void print_html_text(FILE *out, const char *text);
/* printf for a page: what %s prints is a text in HTML. Conversions are %s and %zu. */
void print_html(FILE *out, const char *format, ...) DIAG_PRINTF(2, 3);
