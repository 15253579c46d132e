/* SPDX-License-Identifier: MIT */
#include "columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "timing/quiet.h"

/* Every field of a result except the varied keys, which come after the point */
static const struct column fixed[] = {
    {"point", "point", COLUMN_TEXT, "%.0f", "number of the point: the last key varies fastest", 0},
    {"status", "status", COLUMN_TEXT, NULL, "ok, illegal, skipped, failed", 0},
    {"isa", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"n", NULL, COLUMN_TEXT, "%.0f", NULL, 0},
    {"m", NULL, COLUMN_TEXT, "%.0f", NULL, 0},
    {"batch", NULL, COLUMN_TEXT, "%.0f", NULL, 0},
    {"parameters", "params", COLUMN_COUNT, "%.0f", "weights and biases", 0},
    {"parameters_q", "q", COLUMN_COUNT, "%.0f", NULL, COLUMN_RARE},
    {"parameters_k", "k", COLUMN_COUNT, "%.0f", NULL, COLUMN_RARE},
    {"parameters_v", "v", COLUMN_COUNT, "%.0f", NULL, COLUMN_RARE},
    {"parameters_o", "o", COLUMN_COUNT, "%.0f", NULL, COLUMN_RARE},
    {"parameters_ffn", NULL, COLUMN_COUNT, "%.0f", "parameters of the feed-forward", 0},
    {"multiply_adds", "mult-adds", COLUMN_COUNT, "%.0f", "multiply-adds of a call of the plain layer", 0},
    {"packed_bytes", "packed", COLUMN_BYTES, "%.0f", "bytes of the packed weights", 0},
    {"scratch_bytes", "scratch", COLUMN_BYTES, "%.0f", "bytes of one worker's scratch", 0},
    {"code_bytes", "code", COLUMN_BYTES, "%.0f", NULL, COLUMN_RARE},
    {"folded", "folded", COLUMN_TEXT, NULL, "which weights are multiplied with each other when they are packed", 0},
    {"us", "µs", COLUMN_US, "%.6g", "microseconds of a call, the median", 0},
    {"us_min", "min", COLUMN_US, "%.6g", "microseconds of the fastest call", 0},
    {"us_low", NULL, COLUMN_US, "%.6g", NULL, 0},
    {"us_q1", NULL, COLUMN_US, "%.6g", NULL, 0},
    {"us_q3", NULL, COLUMN_US, "%.6g", NULL, 0},
    {"us_high", NULL, COLUMN_US, "%.6g", NULL, 0},
    {"us_max", "max", COLUMN_US, "%.6g", NULL, COLUMN_RARE},
    {"us_over_min", "µs/min", COLUMN_TIMES, "%.4g", "the median over the minimum: how sure it is", 0},
    {"rank", "rank", COLUMN_TEXT, "%.0f",
     "1, and the number of points that are surely faster; equal ranks cannot be told apart", 0},
    {"samples", NULL, COLUMN_TEXT, "%.0f", NULL, 0},
    {"outliers", "outliers", COLUMN_TEXT, "%.0f", NULL, COLUMN_RARE},
    {"cpu_share", NULL, COLUMN_SHARE, "%.4g", NULL, 0}, /* CPU over wall time of the samples; none: not known */
    {"switches", NULL, COLUMN_COUNT, "%.0f", NULL, 0},  /* involuntary context switches during them */
    {"disturbed", NULL, COLUMN_TEXT, "%.0f", NULL, 0},  /* 1: the machine was, even after repeats */
    {"gflops", "GFLOP/s", COLUMN_RATE, "%.5g", "two operations a multiply-add", 0},
    {"peak_gflops", NULL, COLUMN_RATE, "%.5g", NULL, 0},
    {"memory_gbs", "GB/s", COLUMN_RATE, "%.4g", NULL, COLUMN_RARE}, /* of reading, beside the samples */
    {"share", "of peak", COLUMN_SHARE, "%.4g", "share of the core's multiply-add peak", 0},
    {"error", NULL, COLUMN_RATIO, "%.4g", NULL, 0},
    {"error_of_gate", "error/gate", COLUMN_RATIO, "%.4g", "largest error as a share of the measured gate", 0},
    {"error_of_bound", "error/bound", COLUMN_RATIO, "%.4g", "largest error as a share of the bound", 0},
    {"against_f32", "against f32", COLUMN_RATIO, "%.4g",
     "how far y is from that of the same layer in f32: root mean square, of that one's", 0},
    {"against_f32_largest", "largest", COLUMN_RATIO, "%.4g",
     "the largest such distance, of the same root mean square", 0},
    {"compile_s", "compile", COLUMN_SECONDS, "%.3f", NULL, COLUMN_RARE},
    {"cache", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"core", NULL, COLUMN_TEXT, "%.0f", NULL, 0},
    {"cpu", NULL, COLUMN_TEXT, NULL, NULL, COLUMN_MACHINE},
    {"compiler", NULL, COLUMN_TEXT, NULL, NULL, COLUMN_MACHINE},
    {"flags", NULL, COLUMN_TEXT, NULL, NULL, COLUMN_MACHINE},
    {"kernel", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"version", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"when", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"sweep", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"id", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"shard", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"spec", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"settings", NULL, COLUMN_TEXT, NULL, NULL, 0},
    {"reason", NULL, COLUMN_TEXT, NULL, NULL, 0},
};

#define FIXED (sizeof fixed / sizeof *fixed)

void column_add(struct record *record, const char *name, double number)
{
    size_t i = 0;
    while (strcmp(fixed[i].name, name) != 0)
        i++;
    record_number(record, name, fixed[i].format, number);
}

bool column_differs(const struct records *records, const char *name)
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

bool columns_vary(const struct columns *columns, const char *key, size_t length)
{
    for (size_t i = 0; i < columns->varied; i++) {
        const char *name = columns->column[columns->first_varied + i].name;
        if (strlen(name) == length && strncmp(name, key, length) == 0)
            return true;
    }
    return false;
}

/* The machine is a column in the table only if there are several; the cost of types only if it was measured. */
static const char *head_of(const struct records *records, const struct column *column)
{
    bool has = strncmp(column->name, "against_f32", strlen("against_f32")) != 0;
    for (size_t i = 0; i < records->count; i++)
        has = has || record_get(&records->record[i], column->name) != NULL;
    if (!has)
        return NULL;
    return (column->of & COLUMN_MACHINE) != 0 && column_differs(records, column->name) ? column->name : column->head;
}

void columns_make(struct columns *columns, const struct records *records)
{
    const char *vary = records->count > 0 ? record_get_text(&records->record[0], "vary") : "";
    *columns = (struct columns){.keys = text_copy(vary), .first_varied = 1};
    columns->column = memory_get(FIXED + 1 + strlen(vary), sizeof *columns->column);
    columns->column[columns->count++] = fixed[0];
    for (char *rest = NULL, *key = strtok_r(columns->keys, ",", &rest); key != NULL; key = strtok_r(NULL, ",", &rest)) {
        columns->column[columns->count++] = (struct column){.name = key, .head = key, .kind = COLUMN_TEXT};
        columns->varied++;
    }
    for (size_t i = 1; i < FIXED; i++)
        if (!columns_vary(columns, fixed[i].name, strlen(fixed[i].name))) {
            columns->column[columns->count] = fixed[i];
            columns->column[columns->count++].head = head_of(records, &fixed[i]);
        }
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

const char *mark_of(const struct record *record)
{
    const double us = record_get_number(record, "us"), least = record_get_number(record, "us_min");
    return record_get_number(record, "disturbed") == 1 ? "*" : us > SURE_RATIO * least ? "~" : "";
}

size_t count_marked(const struct records *records, const char *mark)
{
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++)
        count += strcmp(mark_of(&records->record[i]), mark) == 0;
    return count;
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

int text_width(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void column_show_marked(const struct column *column, const struct record *record, char *text, size_t size)
{
    column_show(column, record, text, size);
    if (strcmp(column->name, "us") == 0 && strlen(text) + 1 < size)
        strcat(text, *mark_of(record) != '\0' ? mark_of(record) : " ");
}

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
    char cell[COLUMN_CELL];
    int width = text_width(column->head);
    for (size_t i = 0; i < records->count; i++) {
        column_show_marked(column, &records->record[i], cell, sizeof cell);
        width = text_width(cell) > width ? text_width(cell) : width;
    }
    return width;
}
