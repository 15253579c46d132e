/* SPDX-License-Identifier: MIT */
/* Output of a sweep on the standard error while it runs: its progress, and lost points.
 *
 * Left out on purpose: the output at its end (commands/sweep.c).
 */
#include <math.h>
#include <unistd.h>

#include "sweep.h"
#include "system/clock.h"

#define PLAIN_PROGRESS_S 30 /* between two lines of progress where there is no terminal */
#define LONG_S 600          /* whose first line comes at once */

static void show_values(FILE *out, const struct sweep *s, const struct point *p)
{
    for (size_t i = 0; i < s->axes.count; i++)
        fprintf(out, " %s=%s", s->axes.axis[i].key, axes_value(&s->axes, p->number - 1, i));
}

/* Of one kind of work, below 0 where that under way takes longer than expected; weights are seconds until there is a
 * rate. */
static double left_of(const struct sweep *s, const struct work *work)
{
    const double left = fmax(work->all - work->done, 0) * (work->done > 0 ? 1e-6 * work->us / work->done : 1);
    return work == s->progress.present ? left - 1e-6 * (now_us() - s->progress.since) : left;
}

static void show_left(FILE *out, const struct sweep *s)
{
    const double now = left_of(s, s->progress.present);
    const double left =
        left_of(s, &s->progress.compile) + left_of(s, &s->progress.check) + left_of(s, &s->progress.time);
    if (now < 0)
        fprintf(out, "longer than expected");
    else if (left < 100)
        fprintf(out, "about %.0f s left", left);
    else if (left < 6000)
        fprintf(out, "about %.0f min left", left / 60);
    else
        fprintf(out, "about %.1f h left", left / 3600);
}

double sweep_time_weight(const struct sweep *s)
{
    return 0.1 + s->options->seconds;
}

void sweep_begin_progress(struct sweep *s)
{
    s->progress.terminal = isatty(STDERR_FILENO);
    s->progress.since = s->progress.shown = now_us();
    s->progress.compile.what = "compiling";
    s->progress.check.what = "checking";
    s->progress.time.what = "timing";
    for (size_t i = 0; i < s->count; i++)
        if (!s->point[i].done && s->point[i].reason == NULL && s->point[i].lacks == NULL) {
            s->progress.compile.all += COMPILE_S;
            s->progress.check.all += s->point[i].weight;
            s->progress.time.all += sweep_time_weight(s);
        }
    if (s->progress.compile.all + s->progress.check.all + s->progress.time.all > LONG_S)
        s->progress.shown -= 1e6 * PLAIN_PROGRESS_S;
}

void sweep_begin_work(struct sweep *s, struct work *work, const struct point *p, size_t count)
{
    s->progress.since = now_us();
    s->progress.present = work;
    s->progress.now = p;
    s->progress.group = count;
    sweep_show_progress(s);
}

void sweep_end_work(struct sweep *s, double weight)
{
    struct work *const work = s->progress.present;
    work->us += now_us() - s->progress.since;
    work->done += weight;
    s->progress.since = now_us();
}

void sweep_show_progress(struct sweep *s)
{
    size_t done = 0;
    if (!s->progress.terminal && now_us() - s->progress.shown < 1e6 * PLAIN_PROGRESS_S)
        return;
    s->progress.shown = now_us();
    for (size_t i = 0; i < s->count; i++)
        done += s->point[i].done;
    fprintf(stderr, "%sattnrun sweep: %zu of %zu points done, ", s->progress.terminal ? "\r" : "", done, s->count);
    if (s->progress.checked > 0)
        fprintf(stderr, "%zu more checked, ", s->progress.checked);
    show_left(stderr, s);
    fprintf(stderr, "; %s", s->progress.present->what);
    if (s->progress.now != NULL)
        show_values(stderr, s, s->progress.now);
    else
        fprintf(stderr, " %zu points", s->progress.group);
    fputs(s->progress.terminal ? "\033[K" : "\n", stderr);
    fflush(stderr);
}

void sweep_clear_progress(const struct sweep *s)
{
    if (s->progress.terminal)
        fputs("\r\033[K", stderr);
}

bool sweep_lose(struct sweep *s, const struct point *p, const char *reason)
{
    sweep_clear_progress(s);
    fprintf(stderr, "attnrun sweep: no result of");
    show_values(stderr, s, p);
    fprintf(stderr, ": %s\n", reason);
    s->lost++;
    return ++s->lost_in_a_row < MAX_LOST;
}
