/* SPDX-License-Identifier: MIT */
/* See plots.h. One run of gnuplot draws everything: a script with the data in it, an SVG file each. */
#include "plots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../gen/embedded.h"
#include "gnuplot.h"

#define MANY PLOTS_SERIES_MOST /* values of x that are each a tick, at most; series of a plot */
#define TICKS 14
#define WIDE_SPAN 50 /* from this ratio of the largest to the least x on, the axis is logarithmic */
#define SPREAD_MOST 2.0 /* times the largest median: what is drawn of the spread */
#define STYLES 6  /* line styles in plots.gnuplot */

/* Units of an axis, rising, and what one of each is in the field's own unit. */
struct unit {
    double size;
    const char *name;
};

static const struct unit counts[] = {{1, ""}, {1e3, "thousands"}, {1e6, "millions"}, {1e9, "billions"}, {0, NULL}};
static const struct unit bytes[] = {{1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0, NULL}};
static const struct unit times[] = {{1e-3, "ns"}, {1, "µs"}, {1e3, "ms"}, {1e6, "s"}, {0, NULL}};
static const struct unit shares[] = {{1e-2, "%"}, {0, NULL}};
static const struct unit seconds[] = {{1, "s"}, {0, NULL}};

/* What is drawn over x. */
static const struct quantity {
    const char *field, *title, *axis;
    const struct unit *units;
    bool spread; /* with quartiles, whiskers and the most */
} quantities[] = {
    {"parameters", "Parameters", "weights and biases", counts, false},
    {"multiply_adds", "Operations", "multiply-adds of a call", counts, false},
    {"us", "Time", "one call", times, true},
    {"share", "Share of peak", "of the core's peak", shares, false},
    {"scratch_bytes", "Scratch", "memory of one worker", bytes, false},
    {"compile_s", "Compile time", "the pair", seconds, false},
};

#define QUANTITIES (sizeof quantities / sizeof *quantities)

/* What the varied keys become. */
struct layout {
    const char *x, *series;    /* series NULL: a single one */
    const char *cut;           /* which of them has more values than are drawn */
    bool numbers, logarithmic;
    const char *rest[MANY];    /* the other keys, and what differs between machines */
    size_t rest_count;
    const char *x_value[MANY], *series_value[MANY]; /* in the order of their first appearance */
    size_t x_count, series_count;
    double least, most;        /* of x */
    const struct plot_group **group; /* of each record; NULL: it is not drawn */
};

/* ---- layout ---------------------------------------------------------------------------------------------------- */

static bool all_numbers(const struct records *records, const char *name)
{
    for (size_t i = 0; i < records->count; i++)
        if (isnan(record_get_number(&records->record[i], name)))
            return false;
    return true;
}

/* Distinct values of a field among what was measured; those past MANY are left out. */
static size_t distinct(const char *values[MANY], const struct records *records, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++) {
        const char *value = record_get_text(&records->record[i], name);
        size_t at = 0;
        if (record_get(&records->record[i], "us") == NULL)
            continue;
        while (at < count && strcmp(values[at], value) != 0)
            at++;
        if (at == count && count < MANY)
            values[count++] = value;
    }
    return count;
}

static size_t index_of(const char *const *values, size_t count, const char *value)
{
    size_t at = 0;
    while (at < count && strcmp(values[at], value) != 0)
        at++;
    return at;
}

/* Whether a field has more values than are drawn. */
static bool is_cut(const char *const *values, size_t count, const struct records *records, const char *name)
{
    for (size_t i = 0; i < records->count; i++)
        if (record_get(&records->record[i], "us") != NULL &&
            index_of(values, count, record_get_text(&records->record[i], name)) == count)
            return true;
    return false;
}

static void choose_keys(struct layout *l, const struct records *records, const struct columns *columns)
{
    static const char *const machine[] = {"cpu", "compiler", "flags"};
    const struct column *varied = columns->column + columns->first_varied;
    const char *values[MANY];
    for (size_t i = 0; l->x == NULL && i < columns->varied; i++)
        if (all_numbers(records, varied[i].name))
            l->x = varied[i].name;
    l->numbers = l->x != NULL;
    if (l->x == NULL && columns->varied > 0)
        l->x = varied[0].name;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; l->series == NULL && i < columns->varied; i++)
            if (varied[i].name != l->x && (pass == 1 || !all_numbers(records, varied[i].name)))
                l->series = varied[i].name;
    for (size_t i = 0; i < columns->varied && l->rest_count < MANY; i++)
        if (varied[i].name != l->x && varied[i].name != l->series)
            l->rest[l->rest_count++] = varied[i].name;
    for (size_t i = 0; i < sizeof machine / sizeof *machine && l->rest_count < MANY; i++)
        if (distinct(values, records, machine[i]) > 1)
            l->rest[l->rest_count++] = machine[i];
}

/* Measured, and not past the values that are drawn. */
static bool is_drawn(const struct layout *l, const struct record *record)
{
    return record_get(record, "us") != NULL &&
           index_of(l->series_value, l->series_count, record_get_text(record, l->series)) < l->series_count &&
           (l->numbers || index_of(l->x_value, l->x_count, record_get_text(record, l->x)) < l->x_count);
}

/* Where a result lies on the axis. */
static double x_of(const struct layout *l, const struct record *record)
{
    return l->numbers ? record_get_number(record, l->x)
                      : (double)index_of(l->x_value, l->x_count, record_get_text(record, l->x));
}

static void make_layout(struct layout *l, const struct records *records, const struct columns *columns)
{
    *l = (struct layout){.least = INFINITY, .most = -INFINITY};
    choose_keys(l, records, columns);
    l->x_count = distinct(l->x_value, records, l->x);
    l->series_count = distinct(l->series_value, records, l->series);
    if (is_cut(l->series_value, l->series_count, records, l->series))
        l->cut = l->series;
    else if (!l->numbers && is_cut(l->x_value, l->x_count, records, l->x))
        l->cut = l->x;
    for (size_t i = 0; i < records->count; i++) {
        if (!is_drawn(l, &records->record[i]))
            continue;
        l->least = fmin(l->least, x_of(l, &records->record[i]));
        l->most = fmax(l->most, x_of(l, &records->record[i]));
    }
    l->logarithmic = l->numbers && l->least > 0 && l->most / l->least >= WIDE_SPAN;
}

/* "d_model = 728, seq_len = 128" */
static char *group_title(const struct layout *l, const struct record *record)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < l->rest_count; i++)
        fprintf(out, "%s%s = %s", i > 0 ? ", " : "", l->rest[i], record_get_text(record, l->rest[i]));
    return fclose(out) == 0 ? text : NULL;
}

/* The group of this title, which it takes over; NULL without memory. There is room for one more. */
static const struct plot_group *find_group(struct plots *plots, char *title)
{
    size_t at = 0;
    if (title == NULL)
        return NULL;
    while (at < plots->count && strcmp(plots->group[at].title, title) != 0)
        at++;
    struct plot_group *group = &plots->group[at];
    if (at < plots->count) {
        free(title);
        return group;
    }
    plots->count++;
    *group = (struct plot_group){.title = title, .plot = calloc(QUANTITIES, sizeof *group->plot), .count = QUANTITIES};
    return group->plot != NULL ? group : NULL;
}

/* Records of one title are a group. */
static bool make_groups(struct plots *plots, struct layout *l, const struct records *records)
{
    l->group = calloc(records->count + 1, sizeof *l->group);
    plots->group = calloc(records->count + 1, sizeof *plots->group);
    bool good = l->group != NULL && plots->group != NULL;
    for (size_t i = 0; good && i < records->count; i++)
        if (is_drawn(l, &records->record[i])) {
            l->group[i] = find_group(plots, group_title(l, &records->record[i]));
            good = l->group[i] != NULL;
        }
    return good;
}

/* ---- the script ------------------------------------------------------------------------------------------------ */

/* The largest unit that is not larger than the value. */
static const struct unit *handy_unit(const struct unit *units, double most)
{
    while (units[1].name != NULL && most >= units[1].size)
        units++;
    return units;
}

/* A result and its place on the axis. */
struct spot {
    double x;
    const struct record *record;
};

static int by_x(const void *a, const void *b)
{
    const struct spot *l = a, *r = b;
    return (l->x > r->x) - (l->x < r->x);
}

/* The results of one group and series, by x; returns how many. */
static size_t find_spots(struct spot *spots, const struct layout *l, const struct records *records,
                         const struct plot_group *group, size_t series)
{
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->record[i];
        if (l->group[i] == group &&
            strcmp(record_get_text(record, l->series), l->series_value[series]) == 0)
            spots[count++] = (struct spot){x_of(l, record), record};
    }
    if (count > 0)
        qsort(spots, count, sizeof *spots, by_x);
    return count;
}

/* One drawing: a quantity of a group. */
struct drawing {
    const struct layout *layout;
    const struct quantity *quantity;
    const struct unit *unit;
    double top; /* of the drawing, in units; with spread only, else gnuplot decides */
};

static double value_of(const struct drawing *d, const struct record *record, const char *field)
{
    return record_get_number(record, field) / d->unit->size;
}

/* Series stand side by side, so that their whiskers do not hide each other. */
static double shift_of(const struct layout *l, size_t series)
{
    return l->logarithmic || l->series_count > 4
               ? 0 : ((double)series - (double)(l->series_count - 1) / 2) * 0.016 * fmax(l->most - l->least, 1);
}

/* Columns: x, the value; with spread also low, q1, q3, high and the most, if that is an outlier that can be shown. */
static void print_data(FILE *out, const struct drawing *d, const struct spot *spots, size_t count, size_t series,
                       size_t *beyond)
{
    static const char *const fields[] = {"us_low", "us_q1", "us_q3", "us_high"};
    const double shift = d->quantity->spread ? shift_of(d->layout, series) : 0;
    fprintf(out, "$s%zu << EOD\n", series);
    for (size_t i = 0; i < count; i++) {
        const struct record *r = spots[i].record;
        fprintf(out, "%.9g %.9g", spots[i].x + shift, value_of(d, r, d->quantity->field));
        if (d->quantity->spread) {
            const double most = value_of(d, r, "us_max");
            const bool outlier = most > value_of(d, r, "us_high"), seen = most <= d->top;
            for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
                fprintf(out, " %.9g", value_of(d, r, fields[f]));
            if (outlier && seen)
                fprintf(out, " %.9g", most);
            else
                fputs(" NaN", out);
            *beyond += !seen;
        }
        putc('\n', out);
    }
    fputs("EOD\n", out);
}

/* The largest value of a field in a group. */
static double find_most(const struct layout *l, const struct records *records, const struct plot_group *group,
                        const char *field)
{
    double most = 0;
    for (size_t i = 0; i < records->count; i++)
        if (l->group[i] == group)
            most = fmax(most, record_get_number(&records->record[i], field));
    return most;
}

static void print_x_axis(FILE *out, const struct layout *l)
{
    const double pad = l->most > l->least ? 0.05 * (l->most - l->least) : 0.5;
    fputs("set xlabel ", out);
    gnuplot_quote(out, l->x != NULL ? l->x : "");
    if (l->logarithmic)
        fprintf(out, "\nset logscale x 2\nset xrange [%.9g:%.9g]\n", l->least / 1.1, l->most * 1.1);
    else
        fprintf(out, "\nset xrange [%.9g:%.9g]\nset boxwidth %.9g absolute\n", l->least - pad, l->most + pad,
                0.3 * pad);
    if (l->numbers && l->x_count > TICKS)
        return;
    fputs("set xtics (", out);
    for (size_t i = 0; i < l->x_count; i++) {
        fputs(i > 0 ? ", " : "", out);
        gnuplot_quote(out, l->x_value[i]);
        fprintf(out, " %.9g", l->numbers ? strtod(l->x_value[i], NULL) : (double)i);
    }
    fputs(")\n", out);
}

/* "h = 4" says more than "4" in a legend; words speak for themselves. */
static void print_title(FILE *out, const struct layout *l, const struct records *records, size_t series)
{
    char title[100];
    if (l->series == NULL)
        fputs(" notitle", out);
    else {
        if (all_numbers(records, l->series))
            snprintf(title, sizeof title, "%s = %s", l->series, l->series_value[series]);
        else
            snprintf(title, sizeof title, "%s", l->series_value[series]);
        fputs(" title ", out);
        gnuplot_quote(out, title);
    }
}

static void print_plot(FILE *out, const struct drawing *d, const struct records *records)
{
    const struct layout *l = d->layout;
    const char *gap = "plot";
    for (size_t s = 0; d->quantity->spread && s < l->series_count; s++) {
        const size_t style = s % STYLES + 1;
        fprintf(out, "%s $s%zu using 1:4:3:6:5 with candlesticks ls %zu lw 1 dt 1 notitle", gap, s, style);
        fprintf(out, ", $s%zu using 1:7 with points ls %zu pt 2 ps 0.6 lw 2 notitle", s, style);
        gap = ",";
    }
    for (size_t s = 0; s < l->series_count; s++) {
        fprintf(out, "%s $s%zu using 1:2 with linespoints ls %zu", gap, s, s % STYLES + 1);
        print_title(out, l, records, s);
        gap = ",";
    }
    putc('\n', out);
}

/* The script's part for one drawing into FOLDER/NUMBER.svg. */
static void print_drawing(FILE *out, struct plot_group *group, size_t quantity, size_t number, const char *folder,
                          const struct layout *l, const struct records *records, struct spot *spots)
{
    const struct quantity *q = &quantities[quantity];
    const double most = find_most(l, records, group, q->field);
    struct drawing d = {l, q, handy_unit(q->units, most), 0};
    struct plot *plot = &group->plot[quantity];
    char label[100];
    if (q->spread) /* a disturbance must not flatten the medians */
        d.top = fmin(1.25 * find_most(l, records, group, "us_high"), SPREAD_MOST * most) / d.unit->size;
    plot->title = q->title;
    snprintf(label, sizeof label, "%s%s%s", q->axis, d.unit->name[0] != '\0' ? ", " : "", d.unit->name);
    fputs("set ylabel ", out);
    gnuplot_quote(out, label);
    fprintf(out, "\nset output ");
    char *path = NULL;
    if (asprintf(&path, "%s/%zu.svg", folder, number) >= 0)
        gnuplot_quote(out, path);
    free(path);
    if (q->spread)
        fprintf(out, "\nset yrange [0:%.9g]\n", d.top);
    else
        fputs("\nset yrange [0:*]\n", out);
    for (size_t s = 0; s < l->series_count; s++)
        print_data(out, &d, spots, find_spots(spots, l, records, group, s), s, &plot->beyond);
    print_plot(out, &d, records);
}

/* malloc'd; NULL without memory. */
static char *make_script(struct plots *plots, const struct layout *l, const struct records *records,
                         const char *folder)
{
    struct spot *spots = calloc(records->count + 1, sizeof *spots);
    char *text = NULL;
    size_t length, number = 0;
    FILE *out = open_memstream(&text, &length);
    if (out != NULL && spots != NULL) {
        fputs((const char *)embedded_find(runtime_files, runtime_files_count, "plots.gnuplot")->data, out);
        print_x_axis(out, l);
        for (size_t g = 0; g < plots->count; g++)
            for (size_t q = 0; q < QUANTITIES; q++)
                print_drawing(out, &plots->group[g], q, number++, folder, l, records, spots);
        fputs("set output\n", out);
    }
    const bool good = out != NULL && fclose(out) == 0 && spots != NULL;
    free(spots);
    if (!good) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- what gnuplot wrote ---------------------------------------------------------------------------------------- */

/* An SVG inside a page: without its head, and with ids that no other one has. */
static char *inline_svg(const char *text, size_t number)
{
    static const char *const before[] = {"id='", "id=\"", "href='#", "href=\"#", "url(#"};
    char *svg = NULL;
    size_t length;
    const char *at = strstr(text, "<svg");
    FILE *out = at != NULL ? open_memstream(&svg, &length) : NULL;
    if (out == NULL)
        return NULL;
    while (*at != '\0') {
        size_t i = 0;
        while (i < sizeof before / sizeof *before && strncmp(at, before[i], strlen(before[i])) != 0)
            i++;
        if (i < sizeof before / sizeof *before) {
            fprintf(out, "%sp%zu-", before[i], number);
            at += strlen(before[i]);
        } else {
            putc(*at++, out);
        }
    }
    return fclose(out) == 0 ? svg : NULL;
}

static bool read_drawings(struct plots *plots, const char *folder, struct diag *diag)
{
    size_t number = 0;
    for (size_t g = 0; g < plots->count; g++)
        for (size_t q = 0; q < QUANTITIES; q++, number++) {
            char *path = NULL, *text = NULL;
            size_t size;
            if (asprintf(&path, "%s/%zu.svg", folder, number) >= 0)
                text = file_read(path, &size, diag);
            free(path);
            plots->group[g].plot[q].svg = text != NULL ? inline_svg(text, number) : NULL;
            free(text);
            if (plots->group[g].plot[q].svg == NULL) {
                diag_environment(diag, "gnuplot", "wrote no plot");
                return false;
            }
        }
    return true;
}

bool plots_make(struct plots *plots, const struct records *records, const struct columns *columns, struct diag *diag)
{
    const size_t errors = diag->errors;
    struct layout layout;
    *plots = (struct plots){0};
    make_layout(&layout, records, columns);
    plots->cut = layout.cut;
    char *folder = folder_make(diag), *script = NULL, *path = NULL;
    bool good = folder != NULL && (path = path_join(folder, "script")) != NULL &&
                make_groups(plots, &layout, records) && (script = make_script(plots, &layout, records, folder)) != NULL;
    if (!good && diag->errors == errors)
        diag_environment(diag, NULL, "out of memory");
    good = good && (plots->count == 0 || (file_write(path, script, diag) && gnuplot_run(path, diag) &&
                                          read_drawings(plots, folder, diag)));
    if (folder != NULL)
        folder_remove(folder);
    free(folder);
    free(layout.group);
    free(script);
    free(path);
    return good;
}

void plots_free(struct plots *plots)
{
    for (size_t g = 0; g < plots->count; g++) {
        for (size_t q = 0; plots->group[g].plot != NULL && q < plots->group[g].count; q++)
            free(plots->group[g].plot[q].svg);
        free(plots->group[g].plot);
        free(plots->group[g].title);
    }
    free(plots->group);
    *plots = (struct plots){0};
}
