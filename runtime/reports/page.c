/* SPDX-License-Identifier: MIT */
/* The fixed parts of the page are in runtime/reports/page/: its style, and the script that sorts. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "columns.h"
#include "base/memory.h"
#include "timing/quiet.h"

#define MAX_STICKY 20 /* maximum width, in characters, of the columns that stay while a narrow screen scrolls */

static bool is_measured(const struct record *record) { return record_get(record, "us") != NULL; }

static size_t count_status(const struct records *records, const char *status)
{
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++)
        count += strcmp(record_get_text(&records->record[i], "status"), status) == 0;
    return count;
}

/* The first record that was measured; the first of all if none was */
static const struct record *measured(const struct records *records)
{
    for (size_t i = 0; i < records->count; i++)
        if (is_measured(&records->record[i]))
            return &records->record[i];
    return &records->record[0];
}

/* Removes columns that no result has, as results of an older attngen have fewer fields, and the rare ones. */
static void drop_columns(struct columns *columns, const struct records *records)
{
    for (size_t c = columns->first_varied + columns->varied; c < columns->count; c++) {
        struct column *column = &columns->column[c];
        bool found = false;
        for (size_t i = 0; !found && i < records->count; i++)
            found = *record_get_text(&records->record[i], column->name) != '\0';
        if (!found || (column->of & COLUMN_RARE) != 0)
            column->head = NULL;
    }
}

static void print_file(FILE *out, const char *name)
{
    fputs((const char *)embedded_find(runtime_files, runtime_files_count, name)->data, out);
}

/* ---- the parts, top to bottom ---------------------------------------------------------------------------------- */

/* "wide.layer: h × width" */
static void print_title(FILE *out, const struct records *records, const struct columns *columns)
{
    print_html(out, "%s", record_get_text(&records->record[0], "spec"));
    for (size_t i = 0; i < columns->varied; i++)
        print_html(out, i == 0 ? ": %s" : " × %s", columns->column[columns->first_varied + i].name);
}

/* "d_model = 64; seq_len = 20": what all layers have, from the settings of one */
static void print_layer(FILE *out, const struct records *records, const struct columns *columns)
{
    HEAP char *text = text_copy(record_get_text(measured(records), "settings"));
    const char *gap = "<p class=\"layer\">";
    char *rest = NULL;
    for (char *part = strtok_r(text, ";", &rest); part != NULL; part = strtok_r(NULL, ";", &rest)) {
        part += strspn(part, " ");
        if (strncmp(part, "name ", strlen("name ")) == 0 || columns_vary(columns, part, strcspn(part, " =")))
            continue;
        fputs(gap, out);
        print_html(out, "%s", part);
        gap = "; ";
    }
    fputs(*gap == ';' ? "</p>\n" : "", out);
}

/* The point and the first keys stay while the other columns scroll. */
static void print_sticky(FILE *out, const struct records *records, const struct columns *columns)
{
    int left = 0;
    size_t c = 0;
    for (; c < columns->first_varied + columns->varied; c++) {
        const int width = 1 + column_width(&columns->column[c], records);
        if (left + width > MAX_STICKY)
            break;
        fprintf(out, "tr > :nth-child(%zu) { position: sticky; z-index: 1; left: calc(%dch + %zurem); "
                "min-width: calc(%dch + 1rem); max-width: calc(%dch + 1rem); }\n", c + 1, left, c, width, width);
        left += width;
    }
    fprintf(out, "tr > :nth-child(%zu) { border-right: 1px solid var(--line); }\n", c);
}

static void print_head(FILE *out, const struct records *records, const struct columns *columns)
{
    static const char *const names[] = {"failed", "illegal", "skipped"};
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>", out);
    print_title(out, records, columns);
    fputs("</title>\n<style>\n", out);
    print_file(out, "reports/page/page.css");
    print_sticky(out, records, columns);
    fputs("</style>\n</head>\n<body>\n<h1>", out);
    print_title(out, records, columns);
    fputs("</h1>\n", out);
    print_layer(out, records, columns);
    print_html(out, "<p class=\"soft\">%zu of %s points, %zu measured", records->count,
               record_get_text(&records->record[0], "points"), count_status(records, "ok"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (count_status(records, names[i]) > 0)
            print_html(out, ", %zu %s", count_status(records, names[i]), names[i]);
    if (count_marked(records, "*") > 0)
        print_html(out, ", %zu disturbed", count_marked(records, "*"));
    fputs(".</p>\n<nav>", out);
    fputs("<a href=\"#table\">Table</a>", out);
    if (count_status(records, "ok") < records->count)
        fputs("<a href=\"#reasons\">Points without numbers</a>", out);
    fputs("<a href=\"#how\">How it was measured</a></nav>\n", out);
}

/* Notes that a reader needs before the numbers */
static void print_notes(FILE *out, const struct records *records)
{
    bool above = false;
    for (size_t i = 0; i < records->count; i++)
        above = above || record_get_number(&records->record[i], "share") > 1;
    if (above)
        fputs("<p>A share of peak above 100 % is no mistake where weights are folded, or products are of fewer bits: "
              "the share counts the multiply-adds of the plain layer, against the peak of those in f32.</p>\n", out);
    if (count_marked(records, "*") > 0)
        fprintf(out, "<p>*: a disturbed machine: the median is above %g times the minimum, or the CPU ran something "
                "else, although samples were taken again. The minimum is nearer to the truth; measure again when it is "
                "quiet.</p>\n", QUIET_RATIO);
    if (count_marked(records, "~") > 0)
        fprintf(out, "<p>~: the median is %g to %g times the minimum: differences as small as that are not sure.</p>\n",
                SURE_RATIO, QUIET_RATIO);
}

static void print_column_head(FILE *out, const struct records *records, const struct columns *columns, size_t c)
{
    const struct column *column = &columns->column[c];
    fputs(column_is_text(column, records) ? "<th scope=\"col\" class=\"text\"" : "<th scope=\"col\"", out);
    fputs(" aria-sort=\"none\"", out);
    if (column->text != NULL)
        print_html(out, " title=\"%s\"", column->text);
    print_html(out, "><button type=\"button\">%s</button></th>", column->head);
}

/* The first cell names its row. Figures affected by a disturbance are marked. */
static void print_cell(FILE *out, const struct columns *columns, size_t c, const struct record *record)
{
    static const char *const moved[] = {"us", "gflops", "share"};
    const struct column *column = &columns->column[c];
    const char *value = record_get_text(record, column->name), *mark = "";
    char text[80];
    for (size_t i = 0; i < (*mark_of(record) == '*' ? sizeof moved / sizeof *moved : 1); i++)
        mark = strcmp(column->name, moved[i]) == 0 ? mark_of(record) : mark;
    column_show(column, record, text, sizeof text);
    fputs(c == 0 ? "<th scope=\"row\"" : "<td", out);
    fputs(isnan(record_get_number(record, column->name)) ? " class=\"text\"" : "", out);
    print_html(out, " data-value=\"%s\">%s", value, column->kind == COLUMN_TEXT ? value : text);
    if (*mark != '\0')
        print_html(out, " <abbr title=\"%s\">%s</abbr>", *mark == '*' ? "disturbed" : "less sure", mark);
    fputs(c == 0 ? "</th>" : "</td>", out);
}

static void print_row(FILE *out, const struct columns *columns, const struct record *record)
{
    print_html(out, "<tr class=\"%s\">", record_get_text(record, "status"));
    for (size_t c = 0; c < columns->count; c++)
        if (columns->column[c].head != NULL)
            print_cell(out, columns, c, record);
    fputs("</tr>\n", out);
}

static void print_table(FILE *out, const struct records *records, const struct columns *columns)
{
    fputs("<section id=\"table\">\n<h2 id=\"points\">Table</h2>\n"
          "<div class=\"table\" role=\"region\" aria-labelledby=\"points\" tabindex=\"0\">\n<table>\n"
          "<caption><span>A row a point; a click on a head sorts.</span></caption>\n<thead><tr>", out);
    for (size_t c = 0; c < columns->count; c++)
        if (columns->column[c].head != NULL)
            print_column_head(out, records, columns, c);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t i = 0; i < records->count; i++)
        print_row(out, columns, &records->record[i]);
    fputs("</tbody>\n</table>\n</div>\n</section>\n", out);
}

/* Whether two points lack numbers for one reason, which may name other numbers. */
static bool is_alike(const struct record *a, const struct record *b)
{
    const char *one = record_get_text(a, "reason"), *other = record_get_text(b, "reason");
    if (strcmp(record_get_text(a, "status"), record_get_text(b, "status")) != 0)
        return false;
    while (*one != '\0' && *one == *other) {
        one += strspn(one + 1, "0123456789.") + 1;
        other += strspn(other + 1, "0123456789.") + 1;
    }
    return *one == *other;
}

static void print_values(FILE *out, const struct record *record, const struct columns *columns)
{
    for (size_t v = 0; v < columns->varied; v++) {
        const char *key = columns->column[columns->first_varied + v].name;
        print_html(out, v == 0 ? "%s = %s" : ", %s = %s", key, record_get_text(record, key));
    }
}

/* Points without numbers, by their reasons. */
static void print_reasons(FILE *out, const struct records *records, const struct columns *columns)
{
    if (count_status(records, "ok") == records->count)
        return;
    fputs("<section id=\"reasons\">\n<h2>Points without numbers</h2>\n<ul>\n", out);
    HEAP bool *told = memory_get(records->count, sizeof *told);
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->record[i];
        size_t alike = 0;
        if (told[i] || strcmp(record_get_text(record, "status"), "ok") == 0)
            continue;
        for (size_t j = i; j < records->count; j++)
            alike += is_alike(record, &records->record[j]);
        const char *status = record_get_text(record, "status");
        print_html(out, alike > 1 ? "<li class=\"%s\">%zu %s, the first: %s<br/>" : "<li class=\"%s\">%zu %s: %s<br/>",
                   status, alike, status, record_get_text(record, "reason"));
        for (size_t j = i; j < records->count; j++)
            if (is_alike(record, &records->record[j])) {
                fputs(j > i ? "; " : "", out);
                print_values(out, &records->record[j], columns);
                told[j] = true;
            }
        fputs("</li>\n", out);
    }
    fputs("</ul>\n</section>\n", out);
}

/* How it was measured; differences between machines are in the table. */
static void print_circumstances(FILE *out, const struct records *records, const struct columns *columns)
{
    static const struct {
        const char *field, *name;
    } facts[] = {{"cpu", "Processor"}, {"isa", "Instruction set"}, {"compiler", "Compiler"}, {"flags", "Flags"},
                 {"kernel", "System"}, {"version", "attngen"}, {"cache", "Caches"}};
    const struct record *first = measured(records);
    fputs("<section id=\"how\">\n<h2>How it was measured</h2>\n"
          "<p>Every point was compiled, compared with a double-precision reference and timed on one core. Rounds "
          "time each point of a group once, so that a disturbance meets all of them; a sample follows an untimed call "
          "on the same buffers, with the core's multiply-add peak measured right before and after it. Times are of "
          "one call: median, minimum and maximum of the rounds. Outliers lie past the quartiles by more than 1.5 times "
          "their distance. Operations are those of the plain layer. "
          "Errors are shares of the measured gate and of the bound.", out);
    if (record_get(first, "against_f32") != NULL)
        fputs(" Against f32: how far y is from that of the same layer in f32, on the same numbers, in double; root "
              "mean square and largest, both of the root mean square of y.", out);
    fputs("</p>\n<dl>\n", out);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        bool shown = false;
        for (size_t c = 0; c < columns->count; c++)
            shown |= columns->column[c].head != NULL && strcmp(columns->column[c].name, facts[i].field) == 0;
        if (!shown)
            print_html(out, "<dt>%s</dt><dd>%s</dd>\n", facts[i].name, record_get_text(first, facts[i].field));
    }
    fputs("</dl>\n</section>\n", out);
}

/* Also well-formed as XML, in which a script must not contain a plain "<" */
static void print_script(FILE *out)
{
    fputs("<script>/*<![CDATA[*/\n", out);
    print_file(out, "reports/page/page.js");
    fputs("/*]]>*/</script>\n", out);
}

void page_write(FILE *out, const struct records *records)
{
    if (records->count == 0)
        return;
    OWNED(columns_free) struct columns columns;
    columns_make(&columns, records);
    drop_columns(&columns, records);
    print_head(out, records, &columns);
    print_notes(out, records);
    print_table(out, records, &columns);
    print_reasons(out, records, &columns);
    print_circumstances(out, records, &columns);
    print_script(out);
    fputs("</body>\n</html>\n", out);
}
