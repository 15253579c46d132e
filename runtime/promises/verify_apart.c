/* SPDX-License-Identifier: MIT */
/* A kernel checked in a process of its own: a crash or an endless call loses that process alone. */
#include "verify.h"

#include <string.h>

#include "kernels/apart.h"
#include "system/process.h"

#define PROMISES 500.0 /* an upper bound of their number; none is larger than the call of the small inputs */
#define PACKINGS 64    /* more than a check packs */

/* Multiply-adds of folding, each time that a kernel packs */
static double folding_of(const struct layer *l)
{
    if (l->projected)
        return 0;
    const double of_scores = (double)l->d_in_q * (double)l->d_k, of_values = (double)l->d_v * (double)l->d_model;
    return (double)l->h * (double)l->d_in_kv * (of_scores + (l->w_o != W_O_NONE ? of_values : 0));
}

double apart_verify_limit(const struct subject *s)
{
    const double of_promises = s->promises ? PROMISES * apart_work(s->layer, &s->small) : 0;
    return apart_work_limit(2 * apart_work(s->layer, &s->main.inputs) + of_promises + PACKINGS * folding_of(s->layer));
}

struct verified {
    struct findings findings;
    char reason[300]; /* why there is no verdict; "": there is one */
};

struct job {
    const struct subject *subject;
    int isa;
};

static void verify(void *context, FILE *answer)
{
    const struct job *job = context;
    struct diag diag = {0};
    struct verified v = {.reason = ""};
    process_limit(apart_verify_limit(job->subject));
    v.findings = subject_verify(job->subject, job->isa, &diag);
    if (diag.errors > 0)
        snprintf(v.reason, sizeof v.reason, "%s", diag_first(&diag));
    fwrite(&v, sizeof v, 1, answer);
}

struct findings apart_verify(const struct subject *subject, int isa, struct diag *diag)
{
    struct job job = {subject, isa};
    OWNED(process_forget) struct process_result result = {0};
    struct verified v = {.findings = {.verdict = VERDICT_NONE}};
    char text[80];
    if (!process_call(&result, verify, &job, NULL, diag))
        return v.findings;
    const char *why = process_unanswered(&result, sizeof v, text);
    if (why == NULL) {
        memcpy(&v, result.output, sizeof v);
    } else if (process_stopped(&result)) {
        snprintf(v.reason, sizeof v.reason, "%s while it was checked, by someone or for want of memory", why);
    } else {
        v.findings.verdict = VERDICT_FAILED;
        snprintf(v.findings.why, sizeof v.findings.why, "%s while it was checked", why);
    }
    if (v.reason[0] != '\0') {
        diag_environment(diag, subject->layer->name, "%s", v.reason);
        v.findings.verdict = VERDICT_NONE;
    }
    return v.findings;
}
