/* SPDX-License-Identifier: MIT */
/* See report.h. */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/replace.h"
#include "base/text.h"
#include "page.h"
#include "system/process.h"
#include "timing/timing.h"

/* Every field of a result except the varied keys, which come after the point */
static const struct column fixed[] = {
    {"point", "point", COLUMN_TEXT},
    {"status", "status", COLUMN_TEXT},
    {"isa", NULL, COLUMN_TEXT},
    {"n", NULL, COLUMN_TEXT},
    {"m", NULL, COLUMN_TEXT},
    {"batch", NULL, COLUMN_TEXT},
    {"parameters", "params", COLUMN_COUNT},
    {"parameters_q", "q", COLUMN_COUNT},
    {"parameters_k", "k", COLUMN_COUNT},
    {"parameters_v", "v", COLUMN_COUNT},
    {"parameters_o", "o", COLUMN_COUNT},
    {"parameters_ffn", NULL, COLUMN_COUNT},
    {"multiply_adds", "mult-adds", COLUMN_COUNT},
    {"packed_bytes", "packed", COLUMN_BYTES},
    {"scratch_bytes", "scratch", COLUMN_BYTES},
    {"code_bytes", "code", COLUMN_BYTES},
    {FIELD_FOLDED, "folded", COLUMN_TEXT},
    {FIELD_US, "µs", COLUMN_US},
    {FIELD_US_MIN, "min", COLUMN_US},
    {"us_low", NULL, COLUMN_US},
    {"us_q1", NULL, COLUMN_US},
    {FIELD_US_Q3, NULL, COLUMN_US},
    {"us_high", NULL, COLUMN_US},
    {"us_max", "max", COLUMN_US},
    {FIELD_OVER_MIN, "µs/min", COLUMN_TIMES},
    {FIELD_RANK, "rank", COLUMN_TEXT},
    {"samples", NULL, COLUMN_TEXT},
    {"outliers", "outliers", COLUMN_TEXT},
    {FIELD_CPU_SHARE, NULL, COLUMN_SHARE},
    {FIELD_SWITCHES, NULL, COLUMN_COUNT},
    {FIELD_DISTURBED, NULL, COLUMN_TEXT},
    {"gflops", "GFLOP/s", COLUMN_RATE},
    {"peak_gflops", NULL, COLUMN_RATE},
    {FIELD_MEMORY, "GB/s", COLUMN_RATE},
    {"share", "of peak", COLUMN_SHARE},
    {"error", NULL, COLUMN_RATIO},
    {"error_of_gate", "error/gate", COLUMN_RATIO},
    {"error_of_bound", "error/bound", COLUMN_RATIO},
    {FIELD_AGAINST_F32, "against f32", COLUMN_RATIO},
    {FIELD_AGAINST_F32_LARGEST, "largest", COLUMN_RATIO},
    {"compile_s", "compile", COLUMN_SECONDS},
    {"cache", NULL, COLUMN_TEXT},
    {"core", NULL, COLUMN_TEXT},
    {"cpu", NULL, COLUMN_TEXT},
    {"compiler", NULL, COLUMN_TEXT},
    {"flags", NULL, COLUMN_TEXT},
    {"kernel", NULL, COLUMN_TEXT},
    {"version", NULL, COLUMN_TEXT},
    {"when", NULL, COLUMN_TEXT},
    {"sweep", NULL, COLUMN_TEXT},
    {"id", NULL, COLUMN_TEXT},
    {"shard", NULL, COLUMN_TEXT},
    {"spec", NULL, COLUMN_TEXT},
    {"settings", NULL, COLUMN_TEXT},
    {"reason", NULL, COLUMN_TEXT},
};

#define FIXED (sizeof fixed / sizeof *fixed)

/* ---- columns --------------------------------------------------------------------------------------------------- */

/* Whether the results differ in this field. */
static bool differs(const struct records *records, const char *name)
{
    const char *first = NULL;
    for (size_t i = 0; i < records->count; i++) {
        const char *value = record_get(&records->record[i], name);
        if (value != NULL && first != NULL && strcmp(value, first) != 0)
            return true;
        first = first != NULL ? first : value;
    }
    return false;
}

static bool is_varied(const struct columns *columns, const char *name)
{
    for (size_t i = 0; i < columns->varied; i++)
        if (strcmp(columns->column[columns->first_varied + i].name, name) == 0)
            return true;
    return false;
}

bool is_of_machine(const char *name)
{
    static const char *const machine[] = {"cpu", "compiler", "flags"};
    for (size_t i = 0; i < sizeof machine / sizeof *machine; i++)
        if (strcmp(name, machine[i]) == 0)
            return true;
    return false;
}

/* The machine is a column in the table only if there are several; the cost of types only if it was measured. */
static const char *head_of(const struct records *records, const struct column *column)
{
    bool has = strncmp(column->name, FIELD_AGAINST_F32, strlen(FIELD_AGAINST_F32)) != 0;
    for (size_t i = 0; i < records->count; i++)
        has = has || record_get(&records->record[i], column->name) != NULL;
    if (!has)
        return NULL;
    return is_of_machine(column->name) && differs(records, column->name) ? column->name : column->head;
}

bool columns_make(struct columns *columns, const struct records *records)
{
    const char *vary = records->count > 0 ? record_get(&records->record[0], "vary") : NULL;
    *columns = (struct columns){.keys = strdup(vary != NULL ? vary : ""), .first_varied = 1};
    size_t room = FIXED + 1;
    for (const char *c = columns->keys; c != NULL && *c != '\0'; c++)
        room += *c == ',';
    columns->column = calloc(room, sizeof *columns->column);
    if (columns->keys == NULL || columns->column == NULL)
        return false;
    columns->column[columns->count++] = fixed[0];
    for (char *rest = NULL, *key = strtok_r(columns->keys, ",", &rest); key != NULL; key = strtok_r(NULL, ",", &rest)) {
        columns->column[columns->count++] = (struct column){key, key, COLUMN_TEXT};
        columns->varied++;
    }
    for (size_t i = 1; i < FIXED; i++)
        if (!is_varied(columns, fixed[i].name)) {
            columns->column[columns->count] = fixed[i];
            columns->column[columns->count++].head = head_of(records, &fixed[i]);
        }
    return true;
}

void columns_free(struct columns *columns)
{
    free(columns->column);
    free(columns->keys);
    *columns = (struct columns){0};
}

/* 1234567 → "1.23M"; whole below 10000. */
static void show_count(double value, char *text, size_t size)
{
    static const char units[] = "kMGTP";
    size_t unit = 0;
    if (value < 1e4) {
        snprintf(text, size, "%.0f", value);
        return;
    }
    for (value /= 1e3; value >= 999.5 && units[unit + 1] != '\0'; unit++)
        value /= 1e3;
    snprintf(text, size, "%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
}

static void show_bytes(double value, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(text, size, "%.*f %s", unit == 0 || value >= 99.95 ? 0 : 1, value, units[unit]);
}

bool is_disturbed(const struct record *record)
{
    return record_get_number(record, FIELD_DISTURBED) == 1;
}

const char *mark_of(const struct record *record)
{
    const double us = record_get_number(record, FIELD_US), least = record_get_number(record, FIELD_US_MIN);
    return is_disturbed(record) ? "*" : us > SURE_RATIO * least ? "~" : "";
}

void column_show(const struct column *column, const struct record *record, char *text, size_t size)
{
    const double number = record_get_number(record, column->name);
    if (column->kind == COLUMN_TEXT || !isfinite(number)) {
        snprintf(text, size, "%s", record_get_text(record, column->name));
        return;
    }
    switch (column->kind) {
    case COLUMN_TEXT: break;
    case COLUMN_COUNT: show_count(number, text, size); break;
    case COLUMN_BYTES: show_bytes(number, text, size); break;
    case COLUMN_US: snprintf(text, size, "%.*f", number < 1000 ? 2 : number < 1e5 ? 1 : 0, number); break;
    case COLUMN_SECONDS: snprintf(text, size, "%.2f s", number); break;
    case COLUMN_TIMES: snprintf(text, size, "%.2f", number); break;
    case COLUMN_RATE: snprintf(text, size, "%.1f", number); break;
    case COLUMN_SHARE: snprintf(text, size, "%.1f%%", 100 * number); break;
    case COLUMN_RATIO: snprintf(text, size, "%.2g", number); break;
    }
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

#define CELL 80

/* Width of a text on a terminal: its number of UTF-8 characters */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static bool any_marked(const struct records *records, const char *mark)
{
    for (size_t i = 0; i < records->count; i++)
        if (strcmp(mark_of(&records->record[i]), mark) == 0)
            return true;
    return false;
}

/* A field in the table: a median has its mark, or a blank in its place. */
static void show_cell(const struct column *column, const struct record *record, char *text, size_t size)
{
    column_show(column, record, text, size);
    if (strcmp(column->name, FIELD_US) == 0 && strlen(text) + 1 < size)
        strcat(text, *mark_of(record) != '\0' ? mark_of(record) : " ");
}

/* The look of a column in the table */
struct look {
    int width;
    bool left; /* texts are aligned left, numbers right */
};

bool column_is_text(const struct column *column, const struct records *records)
{
    for (size_t i = 0; column->kind == COLUMN_TEXT && i < records->count; i++)
        if (record_get(&records->record[i], column->name) != NULL &&
            isnan(record_get_number(&records->record[i], column->name)))
            return true;
    return false;
}

int column_width(const struct column *column, const struct records *records)
{
    char cell[CELL];
    int width = width_of(column->head);
    for (size_t i = 0; i < records->count; i++) {
        show_cell(column, &records->record[i], cell, sizeof cell);
        width = width_of(cell) > width ? width_of(cell) : width;
    }
    return width;
}

static struct look look_of(const struct column *column, const struct records *records)
{
    return (struct look){column_width(column, records), column_is_text(column, records)};
}

static void print_cell(FILE *out, const char *text, struct look look)
{
    const int blanks = look.width - width_of(text);
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
        char cell[CELL];
        const struct column *column = &columns->column[c];
        if (column->head == NULL)
            continue;
        if (record == NULL)
            snprintf(cell, sizeof cell, "%s", column->head);
        else
            show_cell(column, record, cell, sizeof cell);
        fputs(gap, out);
        print_cell(out, cell, looks[c]);
        gap = "  ";
    }
    putc('\n', out);
}

static bool print_rows(FILE *out, const struct columns *columns, const struct records *records)
{
    struct look *looks = calloc(columns->count, sizeof *looks);
    if (looks == NULL)
        return false;
    for (size_t c = 0; c < columns->count; c++)
        if (columns->column[c].head != NULL)
            looks[c] = look_of(&columns->column[c], records);
    print_row(out, columns, NULL, looks);
    for (size_t i = 0; i < records->count; i++)
        print_row(out, columns, &records->record[i], looks);
    free(looks);
    return true;
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
    if (any_marked(records, "*"))
        fputs("*: a disturbed machine: the median is above 1.3 times the minimum, or the CPU ran something else,\n"
              "although samples were taken again; the minimum is nearer to the truth. Measure again when it is\n"
              "quiet.\n", out);
    if (any_marked(records, "~"))
        fputs("~: the median is 5 to 30 % above the minimum: differences as small as that are not sure.\n", out);
    fputs("One core; caches warm: the same buffers at every call. µs of one call: median, minimum and maximum of\n"
          "rounds that time every point of a group in turn; outliers: samples past the quartiles by more than 1.5\n"
          "times their distance. rank: 1, and the number of points that are surely faster; equal ranks cannot be told\n"
          "apart. GB/s: how fast the core read memory beside the samples.\n", out);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!differs(records, names[i]))
            fprintf(out, "%s: %s\n", names[i], record_get_text(measured, names[i]));
}

static bool write_table(FILE *out, const struct records *records, struct diag *diag)
{
    (void)diag; /* only lack of memory is possible */
    struct columns columns;
    bool good = columns_make(&columns, records) && print_rows(out, &columns, records);
    if (good) {
        print_reasons(out, &columns, records);
        print_circumstances(out, records);
    }
    columns_free(&columns);
    return good;
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

static void print_csv_cell(FILE *out, const char *text, bool flags)
{
    if (is_formula(text, flags))
        print_csv_formula(out, text);
    else
        print_csv_text(out, text);
}

static bool write_csv(FILE *out, const struct records *records, struct diag *diag)
{
    (void)diag; /* only lack of memory is possible */
    struct columns columns;
    bool good = columns_make(&columns, records);
    for (size_t c = 0; good && c < columns.count; c++) {
        fputs(c > 0 ? "," : "", out);
        print_csv_cell(out, columns.column[c].name, false);
    }
    putc('\n', out);
    for (size_t i = 0; good && i < records->count; i++) {
        for (size_t c = 0; c < columns.count; c++) {
            const char *name = columns.column[c].name;
            fputs(c > 0 ? "," : "", out);
            print_csv_cell(out, record_get_text(&records->record[i], name), strcmp(name, "flags") == 0);
        }
        putc('\n', out);
    }
    columns_free(&columns);
    return good;
}

static bool write_json(FILE *out, const struct records *records, struct diag *diag)
{
    (void)diag; /* only lack of memory is possible */
    bool good = true;
    for (size_t i = 0; good && i < records->count; i++)
        good = record_print(&records->record[i], out);
    return good;
}

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

typedef bool writer(FILE *out, const struct records *records, struct diag *diag);

/* Writes the output of `write`, whole or not at all. */
static bool write_to(const char *path, writer *write, const struct records *records, struct diag *diag)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    const size_t errors = diag->errors;
    bool good = out != NULL && write(out, records, diag);
    if (out != NULL && fclose(out) != 0)
        good = false;
    if (!good && diag->errors == errors)
        diag_environment(diag, NULL, "out of memory");
    if (good && write != write_json) /* which escapes it */
        text_disarm(text);
    if (good && !is_stdout(path)) {
        good = file_replace(path, &(struct piece){text, length}, 1, diag);
    } else if (good && (fputs(text, stdout) < 0 || fflush(stdout) != 0))
        good = diag_environment(diag, "standard output", "cannot be written: %s", strerror(errno));
    free(text);
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

/* Sorts by points; false without memory. */
static bool sort_records(struct records *records)
{
    const size_t count = records->count;
    struct place *places = malloc((count + 1) * sizeof *places);
    struct record *sorted = malloc((count + 1) * sizeof *sorted);
    const bool good = places != NULL && sorted != NULL;
    for (size_t i = 0; good && i < count; i++)
        places[i] = (struct place){place_of(&records->record[i]), i};
    if (good && count > 0)
        qsort(places, count, sizeof *places, by_place);
    for (size_t i = 0; good && i < count; i++)
        sorted[i] = records->record[places[i].at];
    if (good && count > 0)
        memcpy(records->record, sorted, count * sizeof *sorted);
    free(places);
    free(sorted);
    return good;
}

/* How fast memory was read in the best of the results of the same processor */
static double best_memory(const struct records *records, const struct record *of)
{
    double best = 0;
    for (size_t i = 0; i < records->count; i++)
        if (strcmp(record_get_text(&records->record[i], "cpu"), record_get_text(of, "cpu")) == 0)
            best = fmax(best, record_get_number(&records->record[i], FIELD_MEMORY));
    return best;
}

/* A point's time lies between its minimum, less what memory was slower than elsewhere, and its upper quartile. One is
 * surely faster if its range ends where the other's has not begun. False without memory. */
static bool add_ranks(struct records *records)
{
    double *ends = calloc(records->count + 1, sizeof *ends), best = 0;
    size_t count = 0;
    const struct record *last = NULL;
    for (size_t i = 0; ends != NULL && i < records->count; i++) {
        const double end = record_get_number(&records->record[i], FIELD_US_Q3);
        if (isfinite(end))
            ends[count++] = end;
    }
    if (ends != NULL)
        sort_ascending(ends, count);
    for (size_t i = 0; ends != NULL && i < records->count; i++) {
        struct record *record = &records->record[i];
        const double memory = record_get_number(record, FIELD_MEMORY), least = record_get_number(record, FIELD_US_MIN);
        size_t low = 0, high = count; /* by bisection: how many ranges end before this one begins */
        if (!isfinite(record_get_number(record, FIELD_US_Q3)))
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
        record_number(record, FIELD_RANK, "%zu", low + 1);
    }
    free(ends);
    return ends != NULL;
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
    if (!sort_records(records))
        return diag_environment(diag, NULL, "out of memory");
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        if (i == 1 && !add_ranks(records)) /* which depend on the other results, so the lines do not have them */
            return diag_environment(diag, NULL, "out of memory");
        if (outputs[i].path != NULL && outputs[i].wanted)
            good = write_to(outputs[i].path, outputs[i].write, records, diag) && good;
    }
    return good;
}
