/* SPDX-License-Identifier: MIT */
/* One point of a sweep, in a process of its own: compiled and compared with the reference. It may crash.
 *
 * Left out on purpose: what right and wrong is (promises/verify.h), and its time (measure.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/apart.h"
#include "kernels/call.h"
#include "kernels/code.h"
#include "sweep.h"

bool sweep_compile_point(struct kernel *kernel, const struct sweep *s, const struct point *p, const char *name,
                         struct diag *diag)
{
    struct compile_options options = s->options->compile;
    struct words sets = {0};
    sweep_point_sets(&sets, s, p->number);
    options.set = (const char *const *)sets.word;
    options.set_count = sets.count;
    options.isa = p->isa;
    bool good = !sets.failed && compile_kernel(kernel, s->spec, name, &options, diag);
    words_free(&sets);
    return good;
}

struct inputs_draw sweep_draw(const struct sweep *s, const struct point *p, bool full)
{
    return (struct inputs_draw){.seed = s->options->seed, .init = s->options->init, .batch = p->batch, .n = p->n,
                                .m = p->m, .full_lengths = full, .past_given = full, .past = p->past};
}

static const struct comparison *first_miss(const struct findings *f)
{
    const struct comparison *const all[] = {&f->y, &f->attn, &f->lse, &f->cache[0], &f->cache[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->misses > 0)
            return all[i];
    return &f->attn;
}

/* The reason why a kernel failed, in words */
static void say_why(char *reason, const struct findings *f, const char *isa)
{
    FILE *out = fmemopen(reason, REASON, "w");
    if (out == NULL)
        return;
    if (f->verdict == VERDICT_LACKING)
        fprintf(out, "this machine lacks %s", isa);
    else if (f->why[0] != '\0')
        fputs(f->why, out);
    else if (f->verdict == VERDICT_FAILED)
        comparison_print_miss(first_miss(f), out);
    fclose(out);
}

/* Compares with the reference. */
static void verify_point(struct examined *e, const struct sweep *s, const struct point *p, const struct layer *layer,
                         const struct kernel *kernel, struct diag *diag)
{
    struct inputs_draw draw = sweep_draw(s, p, false);
    struct subject subject;
    const int isa = kernel_isa(kernel->call, p->isa);
    draw.pairs = inputs_pairs(layer, isa);
    struct findings f = {.verdict = isa != 0 ? VERDICT_NONE : VERDICT_LACKING}; /* 0: of another architecture */
    if (subject_make(&subject, layer, kernel, &draw, diag) &&
        (!p->costs || subject_make_against(&subject, &draw, diag)) && isa != 0) {
        process_limit(apart_verify_limit(&subject));
        f = subject_verify(&subject, isa, diag);
        process_limit(0);
    }
    e->bytes = timed_bytes(layer, kernel->call, &subject.inputs);
    e->error = fmax(compare_shown_error(&f.y), compare_shown_error(&f.attn));
    e->gate = fmax(f.y.drawn_ratio, f.attn.drawn_ratio);
    e->bound = fmax(f.y.worst_ratio, f.attn.worst_ratio);
    e->cost = f.cost;
    e->status = f.verdict == VERDICT_GOOD ? STATUS_OK : f.verdict == VERDICT_LACKING ? STATUS_SKIPPED : STATUS_FAILED;
    say_why(e->reason, &f, p->isa);
    subject_free(&subject);
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

void sweep_tick(void *context)
{
    sweep_show_progress(((struct job *)context)->sweep);
}

/* False when interrupted or when no process can be started. */
static bool call_examine(struct examined *e, struct sweep *s, const struct point *p, struct diag *diag)
{
    struct job job = {s, &p, 1};
    struct process_result result;
    char text[80];
    s->progress.now = p;
    sweep_show_progress(s);
    if (!process_call(&result, examine, &job, sweep_tick, diag))
        return false;
    const char *why = process_unanswered(&result, sizeof *e, text);
    *e = (struct examined){.status = process_stopped(&result) ? STATUS_LOST : STATUS_FAILED};
    if (why == NULL)
        memcpy(e, result.output, sizeof *e);
    else
        snprintf(e->reason, REASON, "%s while it was checked", why);
    free(result.output);
    return true;
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
