/* SPDX-License-Identifier: MIT */
/* See page.h. What never changes of the page lies in runtime/page/. */
#include "page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../gen/embedded.h"
#include "plots.h"

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

/* The first of the records that was measured; the first of all where none was. */
static const struct record *measured(const struct records *records)
{
    for (size_t i = 0; i < records->count; i++)
        if (record_get(&records->record[i], "us") != NULL)
            return &records->record[i];
    return &records->record[0];
}

static void print_file(FILE *out, const char *name)
{
    fputs((const char *)embedded_find(runtime_files, runtime_files_count, name)->data, out);
}

/* ---- the parts, top to bottom ---------------------------------------------------------------------------------- */

/* "wide.layer: h, width" */
static void print_title(FILE *out, const struct records *records, const struct columns *columns)
{
    print_html_text(out, record_get_text(&records->record[0], "spec"));
    for (size_t i = 0; i < columns->varied; i++) {
        fputs(i == 0 ? ": " : " × ", out);
        print_html_text(out, columns->column[columns->first_varied + i].name);
    }
}

static size_t count_status(const struct records *records, const char *status)
{
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++)
        count += strcmp(record_get_text(&records->record[i], "status"), status) == 0;
    return count;
}

static void print_head(FILE *out, const struct records *records, const struct columns *columns)
{
    static const char *const names[] = {"failed", "illegal", "skipped"};
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>", out);
    print_title(out, records, columns);
    fputs("</title>\n<style>\n", out);
    print_file(out, "page.css");
    fputs("</style>\n</head>\n<body>\n<h1>", out);
    print_title(out, records, columns);
    fprintf(out, "</h1>\n<p class=\"soft\">%zu of %s points, %zu measured", records->count,
            record_get_text(&records->record[0], "points"), count_status(records, "ok"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (count_status(records, names[i]) > 0)
            fprintf(out, ", %zu %s", count_status(records, names[i]), names[i]);
    fputs(".</p>\n<nav><a href=\"#table\">Table</a>", out);
    if (count_status(records, "ok") < records->count)
        fputs("<a href=\"#reasons\">Points without numbers</a>", out);
    fputs("<a href=\"#how\">How it was measured</a></nav>\n", out);
}

static void print_plot(FILE *out, const struct plot *plot, bool spread)
{
    fprintf(out, "<figure>\n<h3>%s</h3>\n%s", plot->title, plot->svg);
    if (spread)
        fputs("<figcaption>Medians; boxes: quartiles; whiskers: the rest but outliers; ×: the largest outlier.",
              out);
    if (plot->beyond > 0)
        fprintf(out, " Samples of %zu point%s lie above.", plot->beyond, plot->beyond == 1 ? "" : "s");
    fputs(spread ? "</figcaption>\n</figure>\n" : "</figure>\n", out);
}

static bool print_plots(FILE *out, const struct records *records, const struct columns *columns, struct diag *diag)
{
    struct plots plots;
    const bool good = plots_make(&plots, records, columns, diag);
    if (good && plots.cut != NULL)
        fprintf(out, "<p>The plots show the first %d values of %s; the table has all.</p>\n", PLOTS_SERIES_MOST,
                plots.cut);
    for (size_t g = 0; good && g < plots.count; g++) {
        fputs("<section>\n<h2>", out);
        print_html_text(out, plots.group[g].title[0] != '\0' ? plots.group[g].title : "Plots");
        fputs("</h2>\n<div class=\"plots\">\n", out);
        for (size_t i = 0; i < plots.group[g].count; i++)
            print_plot(out, &plots.group[g].plot[i], strcmp(plots.group[g].plot[i].title, "Time") == 0);
        fputs("</div>\n</section>\n", out);
    }
    plots_free(&plots);
    return good;
}

static void print_cell(FILE *out, const struct column *column, const struct record *record)
{
    char text[80];
    column_show(column, record, text, sizeof text);
    fprintf(out, "<td%s data-value=\"", isnan(record_get_number(record, column->name)) ? " class=\"text\"" : "");
    print_html_text(out, record_get_text(record, column->name));
    fputs("\">", out);
    print_html_text(out, text);
    fputs("</td>", out);
}

static void print_table(FILE *out, const struct records *records, const struct columns *columns)
{
    fputs("<section id=\"table\">\n<h2>Table</h2>\n<div class=\"table\" tabindex=\"0\">\n<table>\n<thead><tr>", out);
    for (size_t c = 0; c < columns->count; c++)
        if (columns->column[c].head != NULL) {
            fputs("<th scope=\"col\" aria-sort=\"none\"><button type=\"button\">", out);
            print_html_text(out, columns->column[c].head);
            fputs("</button></th>", out);
        }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t i = 0; i < records->count; i++) {
        fprintf(out, "<tr class=\"");
        print_html_text(out, record_get_text(&records->record[i], "status"));
        fputs("\">", out);
        for (size_t c = 0; c < columns->count; c++)
            if (columns->column[c].head != NULL)
                print_cell(out, &columns->column[c], &records->record[i]);
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n</section>\n", out);
}

/* Points without numbers, with their reasons. */
static void print_reasons(FILE *out, const struct records *records, const struct columns *columns)
{
    if (count_status(records, "ok") == records->count)
        return;
    fputs("<section id=\"reasons\">\n<h2>Points without numbers</h2>\n<ul>\n", out);
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->record[i];
        if (strcmp(record_get_text(record, "status"), "ok") == 0)
            continue;
        fputs("<li class=\"", out);
        print_html_text(out, record_get_text(record, "status"));
        fputs("\">", out);
        print_html_text(out, record_get_text(record, "status"));
        for (size_t v = 0; v < columns->varied; v++) {
            const char *key = columns->column[columns->first_varied + v].name;
            fputs(v == 0 ? ": " : ", ", out);
            print_html_text(out, key);
            fputs(" = ", out);
            print_html_text(out, record_get_text(record, key));
        }
        fputs(": ", out);
        print_html_text(out, record_get_text(record, "reason"));
        fputs("</li>\n", out);
    }
    fputs("</ul>\n</section>\n", out);
}

/* How it was measured; what differs between machines stands in the table. */
static void print_circumstances(FILE *out, const struct records *records, const struct columns *columns)
{
    static const struct {
        const char *field, *name;
    } facts[] = {{"cpu", "Processor"}, {"isa", "Instruction set"}, {"compiler", "Compiler"}, {"flags", "Flags"},
                 {"kernel", "System"}, {"version", "attngen"}, {"cache", "Caches"}, {"settings", "First layer"}};
    const struct record *first = measured(records);
    fputs("<section id=\"how\">\n<h2>How it was measured</h2>\n"
          "<p>Every point was compiled, compared with a double-precision reference and timed on one core. Rounds "
          "time each point of a group once, so that a disturbance meets all of them; a sample follows an untimed call "
          "on the same buffers, with the core's multiply-add peak measured right before and behind it. Times are of "
          "one call: median, least and most of the rounds. Outliers lie past the quartiles by more than 1.5 times "
          "their distance. Operations are those of the plain layer, so folding may give more than 100 % of the peak. "
          "Errors are shares of the statistical gate and of the worst-case bound.</p>\n<dl>\n", out);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        bool shown = false;
        for (size_t c = 0; c < columns->count; c++)
            shown |= columns->column[c].head != NULL && strcmp(columns->column[c].name, facts[i].field) == 0;
        if (shown)
            continue;
        fprintf(out, "<dt>%s</dt><dd>", facts[i].name);
        print_html_text(out, record_get_text(first, facts[i].field));
        fputs("</dd>\n", out);
    }
    fputs("</dl>\n</section>\n", out);
}

bool page_write(FILE *out, const struct records *records, struct diag *diag)
{
    struct columns columns;
    bool good = columns_make(&columns, records);
    if (good && records->count > 0) {
        print_head(out, records, &columns);
        good = print_plots(out, records, &columns, diag);
        print_table(out, records, &columns);
        print_reasons(out, records, &columns);
        print_circumstances(out, records, &columns);
        fputs("<script>\n", out);
        print_file(out, "page.js");
        fputs("</script>\n</body>\n</html>\n", out);
    }
    columns_free(&columns);
    return good;
}
