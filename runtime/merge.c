/* SPDX-License-Identifier: MIT */
/* attnrun merge: the shards of one sweep joined again, from their JSON lines.
 *
 * What belongs together: results of one attngen version and one sweep (spec, values, instruction set, options). The
 * machines may differ; the table then has a column for what differs. A line that stands twice counts once; a point
 * with two different results is refused. Missing points are reported, and are a failure. Left out on purpose:
 * choosing between results.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "process.h"
#include "report.h"
#include "vary.h"

struct merge {
    struct records records;    /* one a point */
    const char *first;         /* the file of the first record */
    const char **path;         /* [points + 1]: the file of each point's result; NULL: none yet */
    size_t points;             /* of the whole sweep */
};

/* The number of a result's point; 0 for what is no result of a sweep. */
static size_t point_of(const struct record *record)
{
    const double point = record_get_number(record, "point"), points = record_get_number(record, "points");
    const bool good = point >= 1 && point <= points && points <= POINTS_MOST && point == floor(point);
    return good && *record_get_text(record, "sweep") != '\0' ? (size_t)point : 0;
}

/* Whether a result is of the sweep that the first one is of; the first one says how many points there are. */
static bool belongs(struct merge *m, const struct record *record, const char *path, struct diag *diag)
{
    const struct record *first = m->records.count > 0 ? &m->records.record[0] : record;
    if (point_of(record) == 0) {
        diag_error(diag, path, "holds a line that is no result of attnrun sweep; name files of its --json only");
        return false;
    }
    if (m->records.count == 0) {
        m->first = path;
        m->points = (size_t)record_get_number(record, "points");
        m->path = calloc(m->points + 1, sizeof *m->path);
        if (m->path == NULL)
            diag_environment(diag, NULL, "out of memory");
    }
    if (strcmp(record_get_text(record, "version"), record_get_text(first, "version")) != 0)
        diag_error(diag, path, "is of attngen %s, %s of %s; measure both with one version",
                   record_get_text(record, "version"), m->first, record_get_text(first, "version"));
    else if (strcmp(record_get_text(record, "sweep"), record_get_text(first, "sweep")) != 0)
        diag_error(diag, path, "is of another sweep than %s; the spec, the values, the instruction set or the options "
                   "differ", m->first);
    else if (point_of(record) > m->points)
        diag_error(diag, path, "has point %zu of a sweep of %zu", point_of(record), m->points);
    return diag->errors == 0;
}

static const struct record *find_point(const struct merge *m, size_t point)
{
    for (size_t i = 0; i < m->records.count; i++)
        if (point_of(&m->records.record[i]) == point)
            return &m->records.record[i];
    return NULL;
}

static bool is_same(const struct record *a, const struct record *b)
{
    char *one = record_json(a), *other = record_json(b);
    bool same = one != NULL && other != NULL && strcmp(one, other) == 0;
    free(one);
    free(other);
    return same;
}

/* Takes over the record. */
static bool take(struct merge *m, struct record *record, const char *path, struct diag *diag)
{
    bool good = belongs(m, record, path, diag);
    const size_t point = good ? point_of(record) : 0;
    if (good && m->path[point] != NULL) {
        good = is_same(record, find_point(m, point));
        if (!good)
            diag_error(diag, path, "has another result for point %zu than %s; keep one of them", point, m->path[point]);
    } else if (good) {
        m->path[point] = path;
        good = records_add(&m->records, record);
        if (!good)
            diag_environment(diag, NULL, "out of memory");
    }
    record_free(record);
    return good;
}

static bool take_file(struct merge *m, const char *path, struct diag *diag)
{
    struct records records = {0};
    size_t size = 0, whole;
    char *text = file_read(path, &size, diag);
    bool good = text != NULL && records_parse(&records, text, size, &whole, path, diag);
    for (size_t i = 0; good && i < records.count; i++)
        good = take(m, &records.record[i], path, diag);
    records_free(&records);
    free(text);
    return good;
}

/* "points 3 to 5, 9" */
static void print_missing(const struct merge *m)
{
    const char *gap = " ";
    fprintf(stderr, "attnrun merge: %zu of %zu points are missing:", m->points - m->records.count, m->points);
    for (size_t point = 1; point <= m->points; point++) {
        size_t end = point;
        if (m->path[point] != NULL)
            continue;
        while (end < m->points && m->path[end + 1] == NULL)
            end++;
        fprintf(stderr, end > point ? "%s%zu to %zu" : "%s%zu", gap, point, end);
        gap = ", ";
        point = end;
    }
    fprintf(stderr, "\n");
}

/* Shards are named by the results that are there: "2/4" says that there are four. */
static void print_missing_shards(const struct merge *m)
{
    unsigned long shard, shards = 0;
    const char *gap = "";
    if (sscanf(record_get_text(&m->records.record[0], "shard"), "%lu/%lu", &shard, &shards) != 2 || shards < 2)
        return;
    for (shard = 1; shard <= shards; shard++) {
        char name[50];
        bool found = false;
        snprintf(name, sizeof name, "%lu/%lu", shard, shards);
        for (size_t i = 0; !found && i < m->records.count; i++)
            found = strcmp(record_get_text(&m->records.record[i], "shard"), name) == 0;
        if (!found) {
            fprintf(stderr, "%s%s", *gap != '\0' ? gap : "attnrun merge: nothing is there of shard ", name);
            gap = ", ";
        }
    }
    if (*gap != '\0')
        fprintf(stderr, "\n");
}

static bool any_failed(const struct merge *m)
{
    for (size_t i = 0; i < m->records.count; i++)
        if (strcmp(record_get_text(&m->records.record[i], "status"), "failed") == 0)
            return true;
    return false;
}

int command_merge(const struct options *options)
{
    struct merge m = {0};
    struct diag diag = {0};
    bool complete = true;
    bool good = report_possible(options, &diag);
    for (size_t i = 0; good && i < options->spec_count; i++)
        good = take_file(&m, options->specs[i], &diag);
    if (good && m.records.count == 0) {
        diag_error(&diag, options->specs[0], "holds no result");
        good = false;
    }
    if (good && report_all(&m.records, options, REPORT_JSON | REPORT_PAGE, &diag)) {
        complete = m.records.count == m.points;
        if (!complete) {
            print_missing(&m);
            print_missing_shards(&m);
        }
    }
    int code = diag_report(&diag, stderr);
    if (code == EXIT_GOOD && (!complete || any_failed(&m)))
        code = EXIT_CHECK_FAILED;
    records_free(&m.records);
    free(m.path);
    diag_free(&diag);
    return code;
}
