/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/replace.h"
#include "base/text.h"
#include "columns.h"
#include "base/memory.h"
#include "timing/timing.h"

/* ---- the table ------------------------------------------------------------------------------------------------- */

/* The look of a column in the table */
struct look {
    int width;
    bool left; /* texts are aligned left, numbers right */
};

static void print_cell(FILE *out, const char *text, struct look look)
{
    const int blanks = look.width - text_width(text);
    if (look.left)
        fprintf(out, "%s%*s", text, blanks, "");
    else
        fprintf(out, "%*s%s", blanks, "", text);
}

/* Prints the cells of a row; `record` NULL: the headings. */
static void print_row(FILE *out, const struct columns *columns, const struct record *record, const struct look *looks)
{
    const char *gap = "";
    for (size_t c = 0; c < columns->count; c++) {
        char cell[COLUMN_CELL];
        const struct column *column = &columns->column[c];
        if (column->head == NULL)
            continue;
        if (record == NULL)
            snprintf(cell, sizeof cell, "%s", column->head);
        else
            column_show_marked(column, record, cell, sizeof cell);
        fputs(gap, out);
        print_cell(out, cell, looks[c]);
        gap = "  ";
    }
    putc('\n', out);
}

static void print_rows(FILE *out, const struct columns *columns, const struct records *records)
{
    HEAP struct look *looks = memory_get(columns->count, sizeof *looks);
    for (size_t c = 0; c < columns->count; c++)
        if (columns->column[c].head != NULL)
            looks[c] = (struct look){column_width(&columns->column[c], records),
                                     column_is_text(&columns->column[c], records)};
    print_row(out, columns, NULL, looks);
    for (size_t i = 0; i < records->count; i++)
        print_row(out, columns, &records->record[i], looks);
}

/* Why a point has no numbers: one line each. */
static void print_reasons(FILE *out, const struct columns *columns, const struct records *records)
{
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->record[i];
        const char *reason = record_get_text(record, "reason");
        if (*reason == '\0')
            continue;
        fprintf(out, "%s:", record_get_text(record, "status"));
        for (size_t v = 0; v < columns->varied; v++) {
            const char *key = columns->column[columns->first_varied + v].name;
            fprintf(out, " %s=%s", key, record_get_text(record, key));
        }
        fprintf(out, ": %s\n", reason);
    }
}

/* Prints what applies to all rows, from the first one that was measured. */
static void print_circumstances(FILE *out, const struct records *records)
{
    static const char *const names[] = {"cpu", "compiler", "flags", "kernel"};
    const struct record *measured = NULL;
    for (size_t i = 0; measured == NULL && i < records->count; i++)
        if (record_get(&records->record[i], "us") != NULL)
            measured = &records->record[i];
    if (measured == NULL)
        return;
    if (count_marked(records, "*") > 0)
        fputs("*: a disturbed machine: the median is above 1.3 times the minimum, or the CPU ran something else,\n"
              "although samples were taken again; the minimum is nearer to the truth. Measure again when it is\n"
              "quiet.\n", out);
    if (count_marked(records, "~") > 0)
        fputs("~: the median is 5 to 30 % above the minimum: differences as small as that are not sure.\n", out);
    fputs("One core; caches warm: the same buffers at every call. µs of one call: median, minimum and maximum of\n"
          "rounds that time every point of a group in turn; outliers: samples past the quartiles by more than 1.5\n"
          "times their distance. rank: 1, and the number of points that are surely faster; equal ranks cannot be told\n"
          "apart. GB/s: how fast the core read memory beside the samples.\n", out);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!column_differs(records, names[i]))
            fprintf(out, "%s: %s\n", names[i], record_get_text(measured, names[i]));
}

static void write_table(FILE *out, const struct records *records)
{
    OWNED(columns_free) struct columns columns;
    columns_make(&columns, records);
    print_rows(out, &columns, records);
    print_reasons(out, &columns, records);
    print_circumstances(out, records);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

/* Whether a spreadsheet would compute this cell; compilers' flags may begin with a minus. */
static bool is_formula(const char *text, bool flags)
{
    double number;
    if (*text == '\0' || strchr("=+-@\t\r", *text) == NULL || number_real(text, &number))
        return false;
    return !flags || *text != '-' || text[strcspn(text, "|!(")] != '\0';
}

static void write_csv(FILE *out, const struct records *records)
{
    OWNED(columns_free) struct columns columns;
    columns_make(&columns, records);
    for (size_t i = 0; i <= records->count; i++) { /* 0: the heads */
        for (size_t c = 0; c < columns.count; c++) {
            const char *name = columns.column[c].name;
            const char *text = i == 0 ? name : record_get_text(&records->record[i - 1], name);
            fputs(c > 0 ? "," : "", out);
            print_csv(out, text, is_formula(text, i > 0 && strcmp(name, "flags") == 0));
        }
        putc('\n', out);
    }
}

static void write_json(FILE *out, const struct records *records)
{
    for (size_t i = 0; i < records->count; i++)
        record_print(&records->record[i], out);
}

static bool is_stdout(const char *path) { return path != NULL && strcmp(path, "-") == 0; }

typedef void writer(FILE *out, const struct records *records);

/* Writes the output of `write`, whole or not at all. */
static bool write_to(const char *path, writer *write, const struct records *records, struct diag *diag)
{
    struct text text;
    write(text_begin(&text), records);
    text_end(&text);
    if (write != write_json) /* which escapes it */
        text_disarm(text.bytes);
    const bool good = !is_stdout(path) ? file_replace(path, &(struct piece){text.bytes, text.length}, 1, diag)
                      : (fputs(text.bytes, stdout) >= 0 && fflush(stdout) == 0) ||
                            diag_environment(diag, "standard output", "cannot be written: %s", strerror(errno));
    free(text.bytes);
    return good;
}

/* Records without a point come last. */
static double place_of(const struct record *record)
{
    const double point = record_get_number(record, "point");
    return isnan(point) ? INFINITY : point;
}

struct place {
    double point;
    size_t at; /* index among the records: equal points keep their order */
};

static int by_place(const void *a, const void *b)
{
    const struct place *l = a, *r = b;
    return l->point != r->point ? (l->point > r->point) - (l->point < r->point) : (l->at > r->at) - (l->at < r->at);
}

static void sort_records(struct records *records)
{
    const size_t count = records->count;
    HEAP struct place *places = memory_get(count, sizeof *places);
    struct record *sorted = memory_get(count, sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        places[i] = (struct place){place_of(&records->record[i]), i};
    qsort(places, count, sizeof *places, by_place);
    for (size_t i = 0; i < count; i++)
        sorted[i] = records->record[places[i].at];
    free(records->record);
    records->record = sorted;
}

/* How fast memory was read in the best of the results of the same processor */
static double best_memory(const struct records *records, const struct record *of)
{
    double best = 0;
    for (size_t i = 0; i < records->count; i++)
        if (strcmp(record_get_text(&records->record[i], "cpu"), record_get_text(of, "cpu")) == 0)
            best = fmax(best, record_get_number(&records->record[i], "memory_gbs"));
    return best;
}

/* A point's time lies between its minimum, less what memory was slower than elsewhere, and its upper quartile. One is
 * surely faster if its range ends where the other's has not begun. */
static void add_ranks(struct records *records)
{
    HEAP double *ends = memory_get(records->count, sizeof *ends);
    double best = 0;
    size_t count = 0;
    const struct record *last = NULL;
    for (size_t i = 0; i < records->count; i++) {
        const double end = record_get_number(&records->record[i], "us_q3");
        if (isfinite(end))
            ends[count++] = end;
    }
    sort_ascending(ends, count);
    for (size_t i = 0; i < records->count; i++) {
        struct record *record = &records->record[i];
        const double memory = record_get_number(record, "memory_gbs"), least = record_get_number(record, "us_min");
        size_t low = 0, high = count; /* by bisection: how many ranges end before this one begins */
        if (!isfinite(record_get_number(record, "us_q3")))
            continue;
        if (last == NULL || strcmp(record_get_text(last, "cpu"), record_get_text(record, "cpu")) != 0)
            best = best_memory(records, record);
        last = record;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (ends[middle] < least * (best > 0 && memory > 0 ? memory / best : 1))
                low = middle + 1;
            else
                high = middle;
        }
        column_add(record, "rank", (double)(low + 1));
    }
}

bool report_possible(const struct options *options, struct diag *diag)
{
    const char *const paths[] = {options->csv, options->json_lines, options->html};
    const size_t errors = diag->errors, count = sizeof paths / sizeof *paths;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; paths[i] != NULL && j < i; j++)
            if (paths[j] != NULL && strcmp(paths[i], paths[j]) == 0)
                diag_error(diag, "command line", is_stdout(paths[i])
                           ? "only one of --csv, --json and --html can go to the standard output"
                           : "two of --csv, --json and --html name the same file; one each is needed");
        if (paths[i] != NULL && !is_stdout(paths[i]))
            file_possible(paths[i], diag);
    }
    return diag->errors == errors;
}

bool report_all(struct records *records, const struct options *options, unsigned what, struct diag *diag)
{
    const bool quiet = is_stdout(options->csv) || is_stdout(options->json_lines) || is_stdout(options->html);
    const struct {
        const char *path;
        writer *write;
        bool wanted;
    } outputs[] = {
        {options->json_lines, write_json, what & REPORT_JSON},
        {options->csv, write_csv, true},
        {options->html, page_write, what & REPORT_PAGE},
        {quiet ? NULL : "-", write_table, true},
    };
    bool good = true;
    sort_records(records);
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        if (i == 1)
            add_ranks(records); /* which depend on the other results, so the lines do not have them */
        if (outputs[i].path != NULL && outputs[i].wanted)
            good = write_to(outputs[i].path, outputs[i].write, records, diag) && good;
    }
    return good;
}
