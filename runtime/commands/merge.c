/* SPDX-License-Identifier: MIT */
/* attnrun merge: joins the shards of one sweep, from their JSON lines.
 *
 * All results must be of one attngen version and one sweep (spec, values, instruction set, options). Machines may
 * differ; the table then has a column for what differs. A line that occurs twice counts once; a point with two
 * different results is refused. Missing points are reported, and are a failure. Left out on purpose: choosing between
 * results.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "commands.h"
#include "reports/journal.h"
#include "reports/report.h"
#include "sweep/vary.h"
#include "base/memory.h"

struct merge {
    struct records records;    /* one a point */
    const char *first;         /* the file of the first line */
    char *version, *sweep;     /* of that line */
    struct taken {
        const char *path;      /* the file of a point's result; NULL: none yet */
        size_t record;         /* where it stands */
    } *taken;                  /* [points + 1] */
    size_t points;             /* of the whole sweep */
    size_t checked;            /* lines of points that are not timed yet */
};

/* How the points were divided, as a result says; false if it does not */
static bool shard_of(const struct record *record, size_t *shard, size_t *shards)
{
    struct diag ignored = {0};
    const bool good = shard_parse(record_get_text(record, "shard"), shard, shards, &ignored);
    diag_free(&ignored);
    return good;
}

/* The number of a result's point; 0 if it is no result of a sweep */
static size_t point_of(const struct record *record)
{
    const double point = record_get_number(record, "point"), points = record_get_number(record, "points");
    const bool good = point >= 1 && point <= points && points <= MAX_POINTS && point == floor(point);
    size_t shard, shards;
    if (record_get(record, "shard") != NULL && !shard_of(record, &shard, &shards))
        return 0;
    return good && *record_get_text(record, "sweep") != '\0' ? (size_t)point : 0;
}

/* Whether a result belongs to the same sweep as the first one, which says how many points there are */
static bool belongs(struct merge *m, const struct record *record, const char *path, struct diag *diag)
{
    const char *version = record_get_text(record, "version"), *sweep = record_get_text(record, "sweep");
    if (point_of(record) == 0)
        return diag_error(diag, path, "holds a line that is not a result of attnrun sweep; name files of its --json "
                          "only");
    if (m->first == NULL) {
        m->first = path;
        m->version = text_copy(version);
        m->sweep = text_copy(sweep);
        m->points = (size_t)record_get_number(record, "points");
        m->taken = memory_get(m->points + 1, sizeof *m->taken);
    }
    if (strcmp(version, m->version) != 0)
        diag_error(diag, path, "is of attngen %s, %s of %s; measure both with one version", version, m->first,
                   m->version);
    else if (strcmp(sweep, m->sweep) != 0)
        diag_error(diag, path, "is of another sweep than %s; the spec, the values, the instruction set or the options "
                   "differ", m->first);
    else if (point_of(record) > m->points)
        diag_error(diag, path, "has point %zu of a sweep of %zu", point_of(record), m->points);
    return diag->errors == 0;
}

static bool is_same(const struct record *a, const struct record *b)
{
    char *one = record_json(a), *other = record_json(b);
    const bool same = strcmp(one, other) == 0;
    free(one);
    free(other);
    return same;
}

/* Takes over the record. */
static bool take(struct merge *m, struct record *record, const char *path, struct diag *diag)
{
    bool good = belongs(m, record, path, diag);
    const size_t point = good ? point_of(record) : 0;
    if (good && strcmp(record_get_text(record, "status"), JOURNAL_CHECKED) == 0) {
        m->checked++;
    } else if (good && m->taken[point].path != NULL) {
        good = is_same(record, &m->records.record[m->taken[point].record]);
        if (!good)
            diag_error(diag, path, "has another result for point %zu than %s; keep one of them", point,
                       m->taken[point].path);
    } else if (good) {
        m->taken[point] = (struct taken){path, m->records.count};
        records_add(&m->records, record);
    }
    record_free(record);
    return good;
}

static bool take_file(struct merge *m, const char *path, struct diag *diag)
{
    struct records records = {0};
    size_t size = 0, whole;
    char *text = file_read(path, WHOLE_RESULTS, &size, diag);
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
        if (m->taken[point].path != NULL)
            continue;
        while (end < m->points && m->taken[end + 1].path == NULL)
            end++;
        fprintf(stderr, end > point ? "%s%zu to %zu" : "%s%zu", gap, point, end);
        gap = ", ";
        point = end;
    }
    fprintf(stderr, "\n");
}

#define SHARDS_SHOWN 20

/* Shards without any result, [shards + 1]: missing points belong to them. `shard` is that of each point. */
static bool *find_missing_shards(const struct merge *m, const size_t *shard, size_t shards)
{
    bool *missing = memory_get(shards + 1, sizeof *missing);
    for (size_t point = 1; point <= m->points; point++)
        missing[shard[point - 1]] |= m->taken[point].path == NULL;
    for (size_t i = 0; i < m->records.count; i++) {
        size_t own, of;
        if (shard_of(&m->records.record[i], &own, &of) && of == shards)
            missing[own] = false;
    }
    return missing;
}

/* Results tell the number of shards: "2/4" means that there are four. */
static void print_missing_shards(const struct merge *m)
{
    size_t own, shards, count = 0;
    if (!shard_of(&m->records.record[0], &own, &shards) || shards < 2)
        return;
    size_t *shard = shard_deal(m->points, shards);
    bool *missing = find_missing_shards(m, shard, shards);
    for (size_t s = 1; s <= shards; s++) {
        if (!missing[s] || ++count > SHARDS_SHOWN)
            continue;
        fprintf(stderr, "%s%zu/%zu", count > 1 ? ", " : "attnrun merge: nothing is there of shard ", s, shards);
    }
    if (count > SHARDS_SHOWN)
        fprintf(stderr, " and %zu more", count - SHARDS_SHOWN);
    if (count > 0)
        fputc('\n', stderr);
    free(missing);
    free(shard);
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
    if (good && m.records.count == 0)
        good = diag_error(&diag, options->specs[0], m.checked > 0
                          ? "holds points that are not timed yet, and no result; sweep --resume times them"
                          : "holds no result");
    if (good && report_all(&m.records, options, REPORT_JSON | REPORT_PAGE, &diag)) {
        complete = m.records.count == m.points;
        if (!complete) {
            print_missing(&m);
            print_missing_shards(&m);
        }
    }
    const bool failed = !complete || any_failed(&m);
    records_free(&m.records);
    free(m.version);
    free(m.sweep);
    free(m.taken);
    return command_end(&diag, failed);
}
