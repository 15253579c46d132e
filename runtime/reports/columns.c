/* SPDX-License-Identifier: MIT */
/* See columns.h. */
#include "columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "timing/quiet.h"

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
    return is_of_machine(column->name) && column_differs(records, column->name) ? column->name : column->head;
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
    if (strcmp(column->name, FIELD_US) == 0 && strlen(text) + 1 < size)
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
