/* SPDX-License-Identifier: MIT */
/* See verify.h. */
#include "verify.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "backward.h"
#include "base/arith.h"
#include "chunks.h"
#include "promises.h"
#include "trial.h"
#include "reference/gradient.h"
#include "rounding.h"

#define SMALL_RUN_FROM 1e9 /* multiply-adds; the promises of larger layers are checked on fewer positions */
#define SMALL_RUN 96

void subject_make_call(struct subject *s, const struct layer *layer, const struct kernel *kernel,
                       const struct inputs_draw *draw)
{
    *s = (struct subject){.layer = layer, .kernel = kernel, .seed = draw->seed};
    inputs_draw(&s->main.inputs, layer, draw, NULL);
    series_call_compute(&s->main, layer, kernel_folds(kernel), true);
    if (layer_stores_weights(layer))
        bounds_compute_given(&s->given, &s->given_bounds, layer, &s->main.inputs, true);
}

void subject_make(struct subject *s, const struct layer *layer, const struct kernel *kernel,
                  const struct inputs_draw *draw)
{
    struct inputs_draw small = *draw;
    subject_make_call(s, layer, kernel, draw);
    s->promises = true;
    if (layer_multiply_adds(layer, layer->seq_len, layer->source_len).total > SMALL_RUN_FROM) {
        small.n = min_size(small.n, SMALL_RUN);
        small.m = min_size(small.m, SMALL_RUN + 20);
        small.past_most = SMALL_RUN + 20;
    }
    inputs_draw(&s->small, layer, &small, &s->main.inputs);
    series_make(&s->series, layer, &s->main.inputs, draw, kernel_folds(kernel));
}

void subject_make_against(struct subject *s, const struct inputs_draw *draw)
{
    against_make(&s->against, s->layer, &s->main.inputs, draw);
}

void subject_free(struct subject *s)
{
    against_free(&s->against);
    if (s->promises) {
        inputs_free(&s->small);
        series_free(&s->series);
    }
    series_call_free(&s->main);
    reference_free(&s->given);
}

/* A check of one instruction set: calls of a trial, with guard zones around each block */
struct check {
    const struct subject *s;
    struct guarded packed;
    struct trial t;
    struct findings f;
};

/* Runs a call once with the packed weights. exact = portable: with `expected` it leaves these bits. */
static bool run_once(struct check *c, const struct inputs *in, const struct portable *expected)
{
    struct trial *const t = &c->t;
    outputs_make(&t->now, t->layer, in, 4);
    guarded_fill(&t->scratch);
    const struct kernel_args args = trial_args(t, in);
    const bool good = returned(t, t->call->forward(t->packed, &args, t->scratch.data), KERNEL_OK, "forward") &&
                      trial_zones_intact(t, "a call") &&
                      (guarded_zones_intact(&c->packed) || violated(t, "a call wrote outside the packed block")) &&
                      (!t->layer->portable || expected == NULL ||
                       outputs_are(&t->now, t->layer, in, expected, t->why));
    c->f.digest = kernel_digest(c->f.digest, t->layer, in, &args, NULL);
    return good;
}

static const struct comparison *compare_call(const struct check *c, const struct series_call *call,
                                             struct comparison of[OUTPUTS_COMPARED])
{
    return outputs_compare(&c->t.now, c->s->layer, &call->inputs, &call->reference, &call->bounds, of);
}

/* Compares the main call. */
static bool compare_main(struct check *c)
{
    const struct subject *const s = c->s;
    c->f.ran = run_once(c, &s->main.inputs, &s->main.portable);
    if (!c->f.ran)
        return false;
    const bool near = compare_call(c, &s->main, c->f.of) == NULL;
    if (layer_stores_weights(s->layer))
        compare_y(&c->f.given, s->layer, &s->main.inputs, &s->given, &s->given_bounds, c->t.now.y.data);
    return near && c->f.given.misses == 0;
}

/* What the layer's types cost, in a call with the same numbers as one in f32 */
static bool compare_against(struct check *c)
{
    const struct against *const a = &c->s->against;
    const bool good = !a->wanted || run_once(c, &a->rounded, NULL);
    if (good && a->wanted)
        c->f.cost = compare_cost(c->s->layer, &a->rounded, &a->reference, c->t.now.y.data);
    return good;
}

/* Whether all values are finite: what is required where there is a finite reference but no bound */
static bool all_finite(enum tensor_element type, const void *values, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite = finite && isfinite(element_number(type, values, i));
    return finite;
}

/* Puts "…, batch = 7, n = 5, m = 5: " before why, or before what is missed; NULL: a number is not finite. */
static bool failed_call(struct trial *t, const struct series_call *call, const char *what,
                        const struct comparison *missed)
{
    char why[300] = "not every number is finite", text[COMPARE_TEXT];
    if (t->why[0] != '\0' || missed != NULL)
        snprintf(why, sizeof why, "%s", missed != NULL ? compare_miss_text(missed, "the reference", text) : t->why);
    return violated(t, "%s, batch = %zu, n = %zu, m = %zu: %.180s", what, call->inputs.batch, call->inputs.n,
                    call->inputs.m, why);
}

/* The calls first … end-1 of the series, each within its bounds. */
static bool compare_series(struct check *c, size_t first, size_t end, const char *what)
{
    struct trial *const t = &c->t;
    const enum tensor_element type = t->layer->tensor_type;
    for (size_t i = first; i < end; i++) {
        const struct series_call *call = &c->s->series.call[i];
        const struct inputs *in = &call->inputs;
        struct comparison of[OUTPUTS_COMPARED] = {{0}};
        if (!run_once(c, in, &call->portable))
            return failed_call(t, call, what, NULL);
        const struct comparison *missed = compare_call(c, call, of);
        const bool weights = t->layer->scores == SCORES_WEIGHTS;
        const bool finite = promise_overflows(t->layer) ||
                            (all_finite(type, t->now.y.data, inputs_count(t->layer, in, TENSOR_Y)) &&
                             (!weights || all_finite(type, t->now.attn.data, inputs_count(t->layer, in, TENSOR_ATTN))));
        if (missed != NULL || !finite)
            return failed_call(t, call, what, missed);
    }
    return true;
}

/* Runs calls of the series with inputs that end where readable memory ends. */
static bool read_within(struct check *c)
{
    const struct series *const series = &c->s->series;
    HEAP const struct inputs **calls = memory_get(series->sized, sizeof(const struct inputs *));
    for (size_t i = 0; i < series->sized; i++)
        calls[i] = &series->call[i].inputs;
    return promises_read_within(&c->t, calls, series->sized);
}

/* Compares calls of many sizes, with the weights of the main one; batches are cut in several ways. */
static bool compare_sizes(struct check *c)
{
    const struct series *const series = &c->s->series;
    bool good = compare_series(c, 0, series->sized, "another call") && read_within(c);
    for (size_t i = 0; good && i < series->batches; i++)
        good = promises_hold(&c->t, &series->call[i].inputs, PROMISES_OF_VALUES);
    return good;
}

/* For a layer that trains, gradients of calls of the series; the promises of the first ones too, up to `all` */
static bool gradients_hold(struct check *c, size_t first, size_t end, size_t all, double slack)
{
    struct backward_figures others = {0}; /* the main call's are shown */
    bool good = true;
    for (size_t i = first; good && c->s->layer->train && i < end; i++)
        good = backward_holds(&c->t, &c->s->series.call[i].inputs, slack, i < all, &others, &c->f.digest);
    return good;
}

/* Compares calls with scores of every size, with weights of their own. */
static bool compare_extremes(struct check *c, int isa)
{
    const struct series *series = &c->s->series;
    const struct kernel_weights weights = kernel_weights_of(&series->extreme_weights);
    return !layer_attends(c->s->layer) || /* there are no scores */
           (returned(&c->t, c->t.call->pack(c->packed.data, &weights, isa), KERNEL_OK, "extreme scores: pack") &&
            chunks_hold(&c->t, &series->extreme_stream) &&
            compare_series(c, series->sized, series->count, "extreme scores") &&
            gradients_hold(c, series->sized, series->count, 0, GRADIENT_ANY_DATA) &&
            (series->count == series->sized ||
             promises_hold(&c->t, &series->call[series->sized].inputs, PROMISES_OF_VALUES)));
}

/* How the calling thread rounds, and whether it flushes subnormal results and operands; volatile, so that it is found
 * out at run time. */
static int float_mode(void)
{
    volatile float min = FLT_MIN, half, subnormal = 0x1p-149f;
    half = min / 2;
    volatile const int flushed = half == 0, ignored = subnormal * 0x1p100f == 0;
    return 4 * fegetround() + 2 * flushed + ignored;
}

/* Other calls than the main one, and promises; those of gradients with the same call as forward's */
static bool promises_of(struct check *c, int isa)
{
    const struct subject *const s = c->s;
    return compare_sizes(c) && chunks_hold(&c->t, &s->series.stream) && chunks_hold(&c->t, &s->series.deep_stream) &&
           promises_hold(&c->t, &s->small, PROMISES_ALL) &&
           (!s->layer->train || backward_holds(&c->t, &s->small, 1, true, &c->f.gradients, &c->f.digest)) &&
           gradients_hold(c, 0, s->series.sized, s->series.batches, 1) &&
           (s->plain == NULL || rounding_holds(&c->t, s->plain, s->plain_layer, &s->small, isa)) &&
           compare_extremes(c, isa);
}

struct findings subject_verify(const struct subject *s, int isa, struct diag *diag)
{
    const struct kernel_table *call = s->kernel->call;
    const struct kernel_weights weights = kernel_weights_of(&s->main.inputs);
    struct check c = {.s = s, .f = {.verdict = VERDICT_NONE, .digest = DIGEST_OF_NOTHING}};
    const int mode = float_mode();
    guarded_make(&c.packed, call->packed_bytes, 0);
    c.t = (struct trial){.kernel = s->kernel, .call = call, .layer = s->layer, .packed = c.packed.data,
                         .seed = s->seed, .why = c.f.why, .diag = diag};
    guarded_make(&c.t.scratch, call->scratch_bytes, 0);
    const int error = call->pack(c.packed.data, &weights, isa);
    if (error == KERNEL_ISA) {
        c.f.verdict = VERDICT_LACKING;
    } else {
        const size_t errors = diag->errors;
        const bool good = returned(&c.t, error, KERNEL_OK, "pack") &&
                          (call->isa(c.packed.data) == isa || violated(&c.t, "pack is for another set")) &&
                          compare_main(&c) && compare_against(&c) && (!s->promises || promises_of(&c, isa)) &&
                          (float_mode() == mode || violated(&c.t, "a call changed how its thread rounds, or what "
                                                                   "becomes of subnormal numbers"));
        c.f.verdict = good ? VERDICT_GOOD : diag->errors > errors ? VERDICT_NONE : VERDICT_FAILED;
    }
    guarded_free(&c.packed);
    trial_release(&c.t);
    return c.f;
}
