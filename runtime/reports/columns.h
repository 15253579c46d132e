/* SPDX-License-Identifier: MIT */
/* Columns of a sweep's results: which there are, and how a field is shown. */
#pragma once

#include "record.h"

/* How a column is shown to people. In CSV and JSON every number is plain. */
enum column_kind { COLUMN_TEXT, COLUMN_COUNT, COLUMN_BYTES, COLUMN_US, COLUMN_SECONDS, COLUMN_TIMES, COLUMN_RATE,
                   COLUMN_SHARE, COLUMN_RATIO };

/* Rare: not in the page's table, as CSV has it for who needs it. Machine: it tells of processor or compiler. */
enum column_of { COLUMN_RARE = 1, COLUMN_MACHINE = 2 };

/* One field of a result: all that JSON lines, CSV, table and page know of it. */
struct column {
    const char *name; /* in JSON and CSV */
    const char *head; /* in tables for people; NULL: not shown there */
    enum column_kind kind;
    const char *format; /* of a number in JSON and CSV */
    const char *text;   /* what the page says of its head; NULL: the head says enough */
    unsigned of;        /* bits of enum column_of */
};

/* Adds a number to a result, in the format of its column. */
void column_add(struct record *record, const char *name, double number);

/* The columns of these results, in order: the point, what is varied, what is measured. */
struct columns {
    struct column *column;
    size_t count;
    size_t first_varied, varied; /* where the varied keys stand, and how many they are */
    char *keys;                  /* holds their names */
};
void columns_make(struct columns *columns, const struct records *records);
/* Whether this key, of `length` characters, is varied. */
bool columns_vary(const struct columns *columns, const char *key, size_t length);
void columns_free(struct columns *columns);
/* Whether two records have different texts of this field. */
bool column_differs(const struct records *records, const char *name);
/* A field as people read it, into `text`; "" if the record has none. */
void column_show(const struct column *column, const struct record *record, char *text, size_t size);
/* The same as the table has it: a median has its mark, or a blank in its place. */
#define COLUMN_CELL 80
void column_show_marked(const struct column *column, const struct record *record, char *text, size_t size);
/* Whether a field is words, which are aligned left. */
bool column_is_text(const struct column *column, const struct records *records);
/* The characters of its widest field, or of its head. */
int column_width(const struct column *column, const struct records *records);

/* "*" of figures of a disturbed machine, "~" of a median that is less sure than others (SURE_RATIO), else "" */
const char *mark_of(const struct record *record);
size_t count_marked(const struct records *records, const char *mark);
/* Width of a text on a terminal: its number of UTF-8 characters */
int text_width(const char *text);
