/* SPDX-License-Identifier: MIT */
/* Results of a sweep as a table for people, as CSV, and as a page; their columns.
 *
 * Left out on purpose: measuring (sweep/), joining (merge.c).
 */
#ifndef ATTNRUN_REPORT_H
#define ATTNRUN_REPORT_H

#include "options/options.h"
#include "record.h"

/* How a column is shown to people. In CSV and JSON every number is plain. */
enum column_kind { COLUMN_TEXT, COLUMN_COUNT, COLUMN_BYTES, COLUMN_US, COLUMN_SECONDS, COLUMN_TIMES, COLUMN_RATE,
                   COLUMN_SHARE, COLUMN_RATIO };

struct column {
    const char *name; /* of the field */
    const char *head; /* in tables for people; NULL: not shown there */
    enum column_kind kind;
};

/* The columns of these results, in order: the point, what is varied, what is measured. */
struct columns {
    struct column *column;
    size_t count;
    size_t first_varied, varied; /* where the varied keys stand, and how many they are */
    char *keys;                  /* holds their names */
};
bool columns_make(struct columns *columns, const struct records *records);
void columns_free(struct columns *columns);
/* Whether a field tells of the machine: processor, compiler, flags. */
bool is_of_machine(const char *name);
/* A field as people read it, into `text`; "" if the record has none. */
void column_show(const struct column *column, const struct record *record, char *text, size_t size);
/* Whether a field is words, which are aligned left. */
bool column_is_text(const struct column *column, const struct records *records);
/* The characters of its widest field, or of its head. */
int column_width(const struct column *column, const struct records *records);

/* Whether the figures of this point are those of a disturbed machine. */
bool is_disturbed(const struct record *record);
/* "*" of a disturbed median, "~" of one that is less sure than others (SURE_RATIO), else "" */
const char *mark_of(const struct record *record);

/* Whether the files can be written. */
bool report_possible(const struct options *options, struct diag *diag);
/* What a command writes besides CSV and the table. */
enum report { REPORT_JSON = 1, REPORT_PAGE = 2 };

/* Sorts the records by their point and writes whatever the options ask for, each file whole or not at all; the table
 * goes to the standard output unless something else goes there. */
bool report_all(struct records *records, const struct options *options, unsigned what, struct diag *diag);

#endif
