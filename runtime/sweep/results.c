/* SPDX-License-Identifier: MIT */
/* The results of a sweep: the fields of one, and which points an earlier run has measured already.
 *
 * Left out on purpose: the file that holds them (reports/journal.h), and tables and pages (reports/report.h).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reports/columns.h"
#include "sweep.h"

static const char *const status_names[] = {"ok", "failed", "illegal", "skipped", JOURNAL_CHECKED}; /* lost: no line */

static void count_status(struct sweep *s, const char *name)
{
    s->failed += strcmp(name, status_names[STATUS_FAILED]) == 0;
    s->skipped += strcmp(name, status_names[STATUS_SKIPPED]) == 0;
}

static int by_number(const void *key, const void *point)
{
    const double l = *(const double *)key, r = (double)((const struct point *)point)->number;
    return (l > r) - (l < r);
}

/* Points stand in the order of their numbers. */
static struct point *point_of(const struct sweep *s, const struct record *record)
{
    const double number = record_get_number(record, "point");
    struct point *p = bsearch(&number, s->point, s->count, sizeof *p, by_number);
    return p != NULL && strcmp(p->id, record_get_text(record, "id")) == 0 ? p : NULL;
}

/* Marks what a result in the file stands for; false where it is not of this sweep. */
static bool take_result(struct sweep *s, const struct record *record, struct diag *diag)
{
    const char *path = s->journal.path;
    struct point *point = point_of(s, record);
    if (strcmp(record_get_text(record, "sweep"), s->id) != 0)
        diag_error(diag, path, "holds another sweep (spec, values, instruction set, options or version differ); "
                   "name another file");
    else if (point == NULL && (strcmp(record_get_text(record, "cpu"), s->machine.cpu) != 0 ||
                               strcmp(record_get_text(record, "compiler"), s->machine.compiler) != 0 ||
                               strcmp(record_get_text(record, "flags"), s->machine.flags) != 0))
        diag_error(diag, path, "was begun with another processor or compiler (%s; %s; %s); go on there, or name "
                   "another file and join both with attnrun merge", record_get_text(record, "cpu"),
                   record_get_text(record, "compiler"), record_get_text(record, "flags"));
    else if (point == NULL)
        diag_error(diag, path, "holds points of another shard; name another file");
    else if (point->done)
        diag_error(diag, path, "holds point %zu twice; keep one of the two lines", point->number);
    if (diag->errors > 0)
        return false;
    point->done = true;
    count_status(s, record_get_text(record, "status"));
    return true;
}

bool sweep_begin_journal(struct sweep *s, struct diag *diag)
{
    const struct records *old = &s->journal.records;
    if (!journal_open(&s->journal, s->options->json_lines, diag))
        return false;
    if (s->options->resume) {
        for (size_t i = 0; i < old->count; i++)
            if (!take_result(s, &old->record[i], diag))
                return false;
        return journal_mend(&s->journal, diag);
    }
    if (s->journal.noted.count > 0 ||
        (old->count > 0 && (double)old->count < record_get_number(&old->record[0], "shard_points")))
        return diag_error(diag, s->journal.path, "holds %zu results of a sweep that has not ended; go on with "
                          "--resume, or remove the file", old->count + s->journal.noted.count);
    return journal_clear(&s->journal, diag);
}

/* What is the same for every result of this sweep and point. */
static void add_identity(struct record *r, const struct sweep *s, const struct point *p)
{
    char vary[1000] = "", shard[50];
    snprintf(shard, sizeof shard, "%zu/%zu", s->shard, s->shards);
    for (size_t i = 0, used = 0; i < s->axes.count && used < sizeof vary; i++)
        used += (size_t)snprintf(vary + used, sizeof vary - used, "%s%s", i > 0 ? "," : "", s->axes.axis[i].key);
    record_text(r, "sweep", s->id);
    record_text(r, "id", p->id);
    record_text(r, "version", s->version);
    record_text(r, "spec", s->spec);
    column_add(r, "point", (double)p->number);
    record_number(r, "points", "%.0f", (double)s->axes.points);
    record_text(r, "shard", shard);
    record_number(r, "shard_points", "%.0f", (double)s->count);
    record_text(r, "vary", vary);
    for (size_t i = 0; i < s->axes.count; i++)
        record_value(r, s->axes.axis[i].key, axes_value(&s->axes, p->number - 1, i));
}

/* What is known of a legal point before anything is compiled. */
static void add_call(struct record *r, const struct point *p)
{
    const int64_t *const of = p->parameters.of, ffn = of[TENSOR_W_1] + of[TENSOR_B_1] + of[TENSOR_W_G] +
                                                      of[TENSOR_B_G] + of[TENSOR_W_2] + of[TENSOR_B_2];
    record_text(r, "settings", p->settings);
    record_text(r, "isa", p->isa);
    column_add(r, "n", (double)p->n);
    column_add(r, "m", (double)p->m);
    column_add(r, "batch", (double)p->batch);
    column_add(r, "parameters", (double)p->parameters.total);
    column_add(r, "parameters_q", (double)(of[TENSOR_W_Q] + of[TENSOR_B_Q]));
    column_add(r, "parameters_k", (double)(of[TENSOR_W_K] + of[TENSOR_B_K]));
    column_add(r, "parameters_v", (double)(of[TENSOR_W_V] + of[TENSOR_B_V]));
    column_add(r, "parameters_o", (double)(of[TENSOR_W_O] + of[TENSOR_B_O]));
    if (ffn > 0)
        column_add(r, "parameters_ffn", (double)ffn);
    column_add(r, "multiply_adds", p->multiply_adds);
}

static const char *folds_name(struct folds folds)
{
    static const char *const names[] = {"none", "scores", "values", "both"};
    return names[folds.scores + 2 * folds.values];
}

static void add_examined(struct record *r, const struct examined *e)
{
    if (e->packed == 0) /* it was never compiled */
        return;
    column_add(r, "packed_bytes", (double)e->packed);
    column_add(r, "scratch_bytes", (double)e->scratch);
    if (e->status != STATUS_SKIPPED)
        column_add(r, "code_bytes", (double)e->code);
    record_text(r, "folded", folds_name(e->folds));
    column_add(r, "compile_s", 1e-6 * e->compile_us);
    if (e->status == STATUS_SKIPPED)
        return;
    column_add(r, "error", e->error);
    column_add(r, "error_of_gate", e->gate);
    column_add(r, "error_of_bound", e->bound);
    if (e->cost.largest > 0) {
        column_add(r, "against_f32", e->cost.rms);
        column_add(r, "against_f32_largest", e->cost.largest);
    }
}

static void add_timing(struct record *r, const struct timing *t)
{
    column_add(r, "us", t->us);
    column_add(r, "us_min", t->us_min);
    column_add(r, "us_over_min", t->us_min > 0 ? t->us / t->us_min : 1);
    column_add(r, "us_low", t->us_low);
    column_add(r, "us_q1", t->us_q1);
    column_add(r, "us_q3", t->us_q3);
    column_add(r, "us_high", t->us_high);
    column_add(r, "us_max", t->us_max);
    column_add(r, "samples", (double)t->samples);
    column_add(r, "outliers", (double)t->outliers);
    if (!isnan(t->quiet.cpu_share))
        column_add(r, "cpu_share", t->quiet.cpu_share);
    column_add(r, "switches", (double)t->quiet.switches);
    column_add(r, "disturbed", t->quiet.disturbed);
    column_add(r, "gflops", t->gflops);
    column_add(r, "peak_gflops", t->peak);
    column_add(r, "memory_gbs", t->memory);
    column_add(r, "share", t->share);
    record_text(r, "cache", "warm");
    column_add(r, "core", t->core);
}

static void add_circumstances(struct record *r, const struct sweep *s)
{
    const time_t now = time(NULL);
    struct tm utc;
    char when[40] = "";
    record_text(r, "cpu", s->machine.cpu);
    record_text(r, "compiler", s->machine.compiler);
    record_text(r, "flags", s->machine.flags);
    record_text(r, "kernel", s->machine.kernel);
    if (gmtime_r(&now, &utc) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    record_text(r, "when", when);
}

static struct record make_record(const struct sweep *s, const struct point *p, enum status status, const char *reason,
                                 const struct examined *examined, const struct timing *timing)
{
    struct record record = {0};
    add_identity(&record, s, p);
    record_text(&record, "status", status_names[status]);
    if (p->settings != NULL)
        add_call(&record, p);
    if (examined != NULL)
        add_examined(&record, examined);
    if (timing != NULL)
        add_timing(&record, timing);
    add_circumstances(&record, s);
    record_text(&record, "reason", reason);
    return record;
}

bool sweep_note_checked(struct sweep *s, const struct point *p, const struct examined *e, struct diag *diag)
{
    struct record record = make_record(s, p, STATUS_CHECKED, "", e, NULL);
    return journal_note(&s->journal, &record, diag);
}

bool sweep_add_result(struct sweep *s, struct point *p, enum status status, const char *reason,
                      const struct examined *examined, const struct timing *timing, struct diag *diag)
{
    struct record record = make_record(s, p, status, reason, examined, timing);
    p->done = true;
    s->lost_in_a_row = 0;
    count_status(s, status_names[status]);
    return journal_add(&s->journal, &record, diag);
}
