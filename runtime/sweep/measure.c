/* SPDX-License-Identifier: MIT */
/* All points of a sweep, in groups: their kernels are compiled side by side, each is examined, and then, with nothing
 * beside, as many good ones as fit in memory are timed in rounds, in a process of their own.
 *
 * A point has a line when it is examined, and its result when its group is timed. An interrupted group is examined and
 * timed again; its kernels are in the cache by then. Left out on purpose: how a round is timed (timing/rounds.h).
 */
#include <string.h>
#include <unistd.h>

#include "kernels/apart.h"
#include "kernels/call.h"
#include "sweep.h"
#include "base/memory.h"

#define GROUP_BYTES ((size_t)2 << 30)       /* for the layers of a group, and at most a quarter of the memory */

struct group {
    struct point *point[GROUP_POINTS];
    struct examined examined[GROUP_POINTS];
    size_t count, bytes;
};

/* Answer of the process that times a group, for each point, as bytes */
struct timed_point {
    enum status status;
    char reason[REASON];
    struct timing timing;
};

/* First half of the process that times a group: packs and prepares everything. */
static bool prepare_point(struct timed *timed, bool *crashed, const struct sweep *s, const struct point *p,
                          struct diag *diag)
{
    const struct inputs_draw draw = sweep_draw(s, p, true);
    struct layer *layer = sweep_point_layer(s, p->number, diag);
    struct kernel kernel = {0};
    bool good = layer != NULL && sweep_compile_point(&kernel, s, p, layer->name, diag) &&
                timed_make(timed, layer, kernel.call, &draw, diag);
    *crashed = kernel.crashed;
    if (good) {
        process_limit(apart_limit(layer, &timed->inputs, 1));
        good = timed_pack(timed, kernel_isa(kernel.call, p->isa), diag);
        process_limit(0);
    }
    if (good)
        timed_drop_weights(timed);
    else
        timed_free(timed);
    return good;
}

/* In a process of its own, which frees its memory when it ends */
static void time_points(void *context, FILE *answer)
{
    const struct job *job = context;
    const struct options *o = job->sweep->options;
    struct timed_point answers[GROUP_POINTS] = {{0}};
    struct timed timed[GROUP_POINTS] = {{0}};
    struct timing timings[GROUP_POINTS];
    size_t of[GROUP_POINTS], ready = 0; /* the points of `timed` */
    journal_leave(&job->sweep->journal);
    for (size_t i = 0; i < job->count; i++) {
        OWNED(diag_free) struct diag own = {0};
        bool crashed = false;
        if (prepare_point(&timed[ready], &crashed, job->sweep, job->points[i], &own)) {
            of[ready++] = i;
            continue;
        }
        answers[i].status = !crashed && (own.errors == 0 || own.environment) ? STATUS_LOST : STATUS_FAILED;
        snprintf(answers[i].reason, REASON, "%s", diag_first(&own));
    }
    rounds_measure(timings, timed, ready, o->seconds, o->rounds != UNSET ? o->rounds : DEFAULT_ROUNDS);
    for (size_t i = 0; i < ready; i++) {
        answers[of[i]].status = STATUS_OK;
        answers[of[i]].timing = timings[i];
    }
    fwrite(answers, sizeof *answers, job->count, answer);
}

/* Times some points together. False when interrupted or when no process can be started. */
static bool call_time(struct timed_point *answers, struct sweep *s, struct point *const *points, size_t count,
                      struct diag *diag)
{
    enum status status;
    char reason[REASON];
    if (!sweep_ask(s, time_points, (const struct point *const *)points, count, answers, count * sizeof *answers,
                   "timed", &status, reason, diag))
        return false;
    for (size_t i = 0; status != STATUS_OK && i < count; i++) {
        answers[i].status = status;
        memcpy(answers[i].reason, reason, REASON);
    }
    return true;
}

/* Writes the result of a point of a group; one that failed in a group is timed again alone, as another one may have
 * crashed the process. */
static bool end_point(struct sweep *s, const struct group *g, size_t i, struct timed_point *t, struct diag *diag)
{
    struct point *p = g->point[i];
    if (t->status != STATUS_OK && g->count > 1 && !call_time(t, s, &p, 1, diag))
        return false;
    if (t->status == STATUS_LOST)
        return sweep_lose(s, p, t->reason);
    return sweep_add_result(s, p, t->status, t->reason, &g->examined[i], t->status == STATUS_OK ? &t->timing : NULL,
                            diag);
}

/* Times a group and writes its results. False if interrupted, if the results cannot be written, or if too many points
 * were lost. */
static bool end_group(struct sweep *s, struct group *g, struct diag *diag)
{
    struct timed_point answers[GROUP_POINTS];
    if (g->count == 0)
        return true;
    sweep_begin_work(s, &s->progress.time, NULL, g->count);
    bool good = call_time(answers, s, g->point, g->count, diag);
    for (size_t i = 0; good && i < g->count; i++)
        good = end_point(s, g, i, &answers[i], diag);
    sweep_end_work(s, (double)g->count * sweep_time_weight(s));
    good = good && journal_mend(&s->journal, diag); /* lines of points that are lost */
    *g = (struct group){0};
    s->progress.checked = 0;
    return good;
}

static size_t group_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const double quarter = pages > 0 && page > 0 ? (double)pages * (double)page / 4 : GROUP_BYTES;
    return quarter < GROUP_BYTES ? (size_t)quarter : GROUP_BYTES;
}

/* Examines one point; it joins the group if it is good. */
static bool take_point(struct sweep *s, struct group *g, struct point *p, struct diag *diag)
{
    struct examined e;
    if (!sweep_examine(&e, s, p, diag))
        return false;
    if (e.status == STATUS_LOST)
        return sweep_lose(s, p, e.reason);
    if (e.status != STATUS_OK)
        return sweep_add_result(s, p, e.status, e.reason, &e, NULL, diag);
    if (g->count > 0 && g->bytes + e.bytes > group_bytes() && !end_group(s, g, diag))
        return false;
    if (!sweep_note_checked(s, p, &e, diag))
        return false;
    s->lost_in_a_row = 0;
    s->progress.checked++;
    g->examined[g->count] = e;
    g->point[g->count++] = p;
    g->bytes += e.bytes;
    return true;
}

/* A point that needs no kernel to have its result; others are left as they are. */
static bool add_without_kernel(struct sweep *s, struct point *p, struct diag *diag)
{
    char lacks[REASON];
    if (p->reason != NULL)
        return sweep_add_result(s, p, STATUS_ILLEGAL, p->reason, NULL, NULL, diag);
    if (p->lacks == NULL)
        return true;
    snprintf(lacks, sizeof lacks, "%s: %s", p->isa, p->lacks);
    return sweep_add_result(s, p, STATUS_SKIPPED, lacks, NULL, NULL, diag);
}

bool sweep_measure(struct sweep *s, struct diag *diag)
{
    HEAP struct group *group = memory_get(1, sizeof *group);
    bool good = true;
    sweep_begin_progress(s);
    for (size_t i = 0; good && i < s->count; i++)
        good = s->point[i].done || add_without_kernel(s, &s->point[i], diag);
    for (size_t i = 0; good && i < s->count;) {
        struct point *points[GROUP_POINTS];
        size_t count = 0;
        for (; count < GROUP_POINTS && i < s->count; i++)
            if (!s->point[i].done)
                points[count++] = &s->point[i];
        good = count == 0 || sweep_compile_ahead(s, points, count, diag);
        for (size_t p = 0; good && p < count; p++)
            good = take_point(s, group, points[p], diag);
        good = good && end_group(s, group, diag);
    }
    sweep_clear_progress(s);
    return good;
}
