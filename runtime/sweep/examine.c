/* SPDX-License-Identifier: MIT */
/* Points of a sweep, in processes of their own: compiled together, and each compared with the reference. It may crash.
 *
 * Left out on purpose: what right and wrong is (promises/verify.h), and its time (measure.c).
 */
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cache.h"
#include "kernels/call.h"
#include "plan/isa.h"
#include "promises/verify.h"
#include "sweep.h"

static bool compile_point(struct kernel *kernel, const struct sweep *s, const struct point *p, const char *name,
                          bool ahead, struct diag *diag)
{
    struct compile_options options = s->options->compile;
    OWNED(words_free) struct words sets = {0};
    sweep_point_sets(&sets, s, p->number);
    options.set = (const char *const *)sets.word;
    options.set_count = sets.count;
    options.isa = p->isa;
    options.ahead = ahead;
    return compile_kernel(kernel, s->spec, name, &options, diag);
}

bool sweep_compile_point(struct kernel *kernel, const struct sweep *s, const struct point *p, const char *name,
                         struct diag *diag)
{
    return compile_point(kernel, s, p, name, false, diag);
}

/* Every `step`-th point from `first` on, for the cache alone; what goes wrong is told when the point is examined */
static void fill_cache(const struct job *job, size_t first, size_t step)
{
    for (size_t i = first; i < job->count && !signals_waiting(); i += step) {
        OWNED(diag_free) struct diag diag = {0};
        struct kernel kernel;
        struct layer *layer = sweep_point_layer(job->sweep, job->points[i]->number, &diag);
        if (layer != NULL)
            compile_point(&kernel, job->sweep, job->points[i], layer->name, true, &diag);
        layer_free(layer);
    }
}

static void tick(void *context)
{
    sweep_show_progress(((struct job *)context)->sweep);
}

bool sweep_ask(struct sweep *s, void (*work)(void *context, FILE *answer), const struct point *const *points,
               size_t count, void *answers, size_t bytes, const char *during, enum status *status, char reason[REASON],
               struct diag *diag)
{
    struct job job = {s, points, count};
    OWNED(process_forget) struct process_result result = {0};
    char text[80];
    if (!process_call(&result, work, &job, tick, diag))
        return false;
    const char *why = process_unanswered(&result, bytes, text);
    *status = why == NULL ? STATUS_OK : process_stopped(&result) ? STATUS_LOST : STATUS_FAILED;
    if (why == NULL)
        memcpy(answers, result.output, bytes);
    else
        snprintf(reason, REASON, "%s while it was %s", why, during);
    return true;
}

/* In a process of its own, which has one for each core. A signal is handed on, so that compilers end and their folders
 * go. */
static void compile_all(void *context, FILE *answer)
{
    const struct job *job = context;
    const struct timespec moment = {.tv_nsec = 10000000};
    const pid_t parent = getpid();
    cpu_set_t cores;
    const size_t count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? (size_t)CPU_COUNT(&cores) : 1;
    const size_t step = count < job->count ? count : job->count;
    pid_t child[GROUP_POINTS];
    (void)answer;
    journal_leave(&job->sweep->journal);
    OWNED(signals_release) sigset_t before;
    signals_hold(&before);
    for (size_t i = 0; i < step; i++)
        if ((child[i] = fork()) == 0) {
            if (process_end_with(parent))
                fill_cache(job, i, step);
            _exit(0);
        }
    for (size_t i = 0; i < step; i++)
        while (child[i] > 0 && waitpid(child[i], NULL, WNOHANG) == 0) {
            for (size_t j = i; signals_waiting() && j < step; j++)
                if (child[j] > 0)
                    kill(child[j], SIGTERM);
            nanosleep(&moment, NULL);
        }
}

bool sweep_compile_ahead(struct sweep *s, struct point *const *points, size_t count, struct diag *diag)
{
    const struct point *pairs[GROUP_POINTS];
    struct job job = {s, pairs, 0};
    OWNED(process_forget) struct process_result result = {0};
    for (size_t i = 0, j; i < count; i++) { /* calls of other sizes have the same pair */
        for (j = 0; j < job.count && (strcmp(points[i]->settings, pairs[j]->settings) != 0 ||
                                      strcmp(points[i]->isa, pairs[j]->isa) != 0);)
            j++;
        if (j == job.count)
            pairs[job.count++] = points[i];
    }
    if (!cache_keeps(s->options->compile.cache))
        return true;
    sweep_begin_work(s, &s->progress.compile, NULL, job.count);
    const bool good = process_call(&result, compile_all, &job, tick, diag);
    sweep_end_work(s, COMPILE_S * (double)count);
    return good;
}

/* The reason why a kernel failed, in words */
static void say_why(char *reason, const struct findings *f, const struct layer *layer, const char *isa)
{
    char text[COMPARE_TEXT];
    const struct comparison *const missed = compare_first_miss(f->of);
    if (f->verdict == VERDICT_LACKING)
        snprintf(reason, REASON, "%s: %s", isa, call_why_skipped(layer, (size_t)(isa_find(isa) - isa_table)));
    else if (f->why[0] != '\0')
        snprintf(reason, REASON, "%s", f->why);
    else if (f->verdict == VERDICT_FAILED)
        snprintf(reason, REASON, "%s", compare_miss_text(missed != NULL ? missed : &f->given, "the reference", text));
}

/* Compares what the timed call leaves with the reference. */
static void verify_point(struct examined *e, const struct sweep *s, const struct point *p, const struct layer *layer,
                         const struct kernel *kernel, struct diag *diag)
{
    struct inputs_draw draw = sweep_draw(s, p, false);
    const int isa = kernel_isa(kernel->call, p->isa);
    draw.pairs = inputs_pairs(layer, isa);
    struct findings f = {.verdict = isa != 0 ? VERDICT_NONE : VERDICT_LACKING}; /* 0: of another architecture */
    OWNED(subject_free) struct subject subject;
    subject_make_call(&subject, layer, kernel, &draw);
    if (p->costs)
        subject_make_against(&subject, &draw);
    if (isa != 0) {
        process_limit(apart_verify_limit(&subject));
        f = subject_verify(&subject, isa, diag);
        process_limit(0);
    }
    e->bytes = timed_bytes(layer, kernel->call, &subject.main.inputs);
    const struct comparison *const y = &f.of[OUTPUT_Y], *const attn = &f.of[OUTPUT_ATTN];
    e->error = fmax(compare_shown_error(y), compare_shown_error(attn));
    e->gate = fmax(y->gate_ratio, attn->gate_ratio);
    e->bound = fmax(y->ratio, attn->ratio);
    e->cost = f.cost;
    e->status = f.verdict == VERDICT_GOOD ? STATUS_OK : f.verdict == VERDICT_LACKING ? STATUS_SKIPPED : STATUS_FAILED;
    say_why(e->reason, &f, layer, p->isa);
}

/* In a process of its own. */
static void examine(void *context, FILE *answer)
{
    const struct job *job = context;
    const struct sweep *s = job->sweep;
    const struct point *p = job->points[0];
    struct diag diag = {0};
    struct kernel kernel = {0};
    struct examined e = {.status = STATUS_FAILED};
    journal_leave(&s->journal);
    struct layer *layer = sweep_point_layer(s, p->number, &diag);
    if (layer != NULL && sweep_compile_point(&kernel, s, p, layer->name, &diag)) {
        e.packed = kernel.call->packed_bytes;
        e.scratch = kernel.call->scratch_bytes;
        e.code = code_bytes(&kernel, p->isa);
        e.compile_us = kernel.compile_us;
        e.folds = kernel_folds(&kernel);
        verify_point(&e, s, p, layer, &kernel, &diag);
    }
    if (diag.errors > 0) { /* attngen has more rules than the spec's: those of plan.* */
        e.status = kernel.crashed ? STATUS_FAILED : diag.environment ? STATUS_LOST : STATUS_ILLEGAL;
        e.refused = kernel.refused;
        snprintf(e.reason, REASON, "%s", diag_first(&diag));
    }
    fwrite(&e, sizeof e, 1, answer);
}

/* False when interrupted or when no process can be started. */
static bool call_examine(struct examined *e, struct sweep *s, const struct point *p, struct diag *diag)
{
    struct examined answer;
    *e = (struct examined){0};
    sweep_begin_work(s, &s->progress.check, p, 1);
    const bool called = sweep_ask(s, examine, &p, 1, &answer, sizeof answer, "checked", &e->status, e->reason, diag);
    sweep_end_work(s, p->weight);
    if (called && e->status == STATUS_OK)
        *e = answer;
    return called;
}

bool sweep_examine(struct examined *e, struct sweep *s, const struct point *p, struct diag *diag)
{
    if (!call_examine(e, s, p, diag))
        return false;
    if (e->status == STATUS_LOST && e->refused && !call_examine(e, s, p, diag))
        return false;
    if (e->status == STATUS_LOST && e->refused && sweep_compiler_works(s, p))
        e->status = STATUS_FAILED;
    return true;
}
