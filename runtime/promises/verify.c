/* SPDX-License-Identifier: MIT */
/* See verify.h. */
#include "verify.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backward.h"
#include "base/arith.h"
#include "chunks.h"
#include "promises.h"
#include "trial.h"
#include "reference/gradient.h"
#include "reference/likely.h"
#include "rounding.h"

#define SMALL_RUN_FROM 1e9 /* multiply-adds; the promises of larger layers are checked on fewer positions */
#define SMALL_RUN 96

void subject_make_call(struct subject *s, const struct layer *layer, const struct kernel *kernel,
                       const struct inputs_draw *draw)
{
    *s = (struct subject){.layer = layer, .kernel = kernel, .seed = draw->seed};
    inputs_draw(&s->inputs, layer, draw, NULL);
    bounds_compute(&s->reference, &s->bounds, layer, &s->inputs, kernel_folds(kernel), true);
    likely_measure(&s->reference, &s->bounds, layer, &s->inputs, true);
    if (layer->portable)
        portable_compute(&s->portable, layer, &s->inputs);
    if (layer_stores_weights(layer))
        bounds_compute_given(&s->given, &s->given_bounds, layer, &s->inputs, true);
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
    inputs_draw(&s->small, layer, &small, &s->inputs);
    series_make(&s->series, layer, &s->inputs, draw, kernel_folds(kernel));
}

void subject_make_against(struct subject *s, const struct inputs_draw *draw)
{
    against_make(&s->against, s->layer, &s->inputs, draw);
}

void subject_free(struct subject *s)
{
    against_free(&s->against);
    if (s->promises) {
        inputs_free(&s->small);
        series_free(&s->series);
    }
    inputs_free(&s->inputs);
    reference_free(&s->reference);
    portable_free(&s->portable);
    reference_free(&s->given);
}

/* Memory of one run, with guard zones around each block. */
struct blocks {
    struct guarded packed, scratch;
    struct outputs out;
};

static void free_blocks(struct blocks *b)
{
    guarded_free(&b->packed);
    guarded_free(&b->scratch);
    outputs_free(&b->out);
}

/* Runs a call once with the packed weights. exact = portable: with `expected` it leaves these bits. */
static bool run_once(const struct subject *s, const struct inputs *in, const struct portable *expected,
                     struct blocks *b, struct findings *f)
{
    const struct kernel_table *call = s->kernel->call;
    outputs_make(&b->out, s->layer, in, 4);
    guarded_fill(&b->scratch);
    const struct kernel_args args = outputs_args(&b->out, s->layer, in);
    const int error = call->forward(b->packed.data, &args, b->scratch.data);
    if (error != KERNEL_OK)
        snprintf(f->why, sizeof f->why, "forward returns \"%s\"", call->strerror(error));
    else if (!guarded_zones_intact(&b->packed) || !guarded_zones_intact(&b->scratch) ||
             outputs_outside(&b->out, s->layer) != NULL)
        snprintf(f->why, sizeof f->why, "something was written outside packed, scratch, y, attn, lse and a cache");
    else if (s->layer->portable && expected != NULL)
        (void)outputs_are(&b->out, s->layer, in, expected, f->why);
    f->digest = kernel_digest(f->digest, s->layer, in, &args);
    return f->why[0] == '\0';
}

/* Compares the main call. */
static bool compare_main(const struct subject *s, struct blocks *b, struct findings *f)
{
    f->ran = run_once(s, &s->inputs, &s->portable, b, f);
    if (!f->ran)
        return false;
    const bool near = outputs_compare(&b->out, s->layer, &s->inputs, &s->reference, &s->bounds, f->of) == NULL;
    if (layer_stores_weights(s->layer))
        compare_y(&f->given, s->layer, &s->inputs, &s->given, &s->given_bounds, b->out.y.data);
    return near && f->given.misses == 0;
}

/* What the layer's types cost, in a call with the same numbers as one in f32 */
static bool compare_against(const struct subject *s, struct blocks *b, struct findings *f)
{
    if (!s->against.wanted)
        return true;
    if (!run_once(s, &s->against.rounded, NULL, b, f))
        return false;
    f->cost = compare_cost(s->layer, &s->against.rounded, &s->against.reference, b->out.y.data);
    return true;
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
static bool failed_call(struct findings *f, const struct series_call *call, const char *what,
                        const struct comparison *missed)
{
    char why[sizeof f->why] = "not every number is finite", text[COMPARE_TEXT];
    if (f->why[0] != '\0' || missed != NULL)
        snprintf(why, sizeof why, "%s", missed != NULL ? compare_miss_text(missed, "the reference", text) : f->why);
    snprintf(f->why, sizeof f->why, "%s, batch = %zu, n = %zu, m = %zu: %.180s", what, call->inputs.batch,
             call->inputs.n, call->inputs.m, why);
    return false;
}

/* The calls first … end-1 of the series, each within its bounds. */
static bool compare_series(const struct subject *s, struct blocks *b, size_t first, size_t end, const char *what,
                           struct findings *f)
{
    const enum tensor_element type = s->layer->tensor_type;
    for (size_t i = first; i < end; i++) {
        const struct series_call *call = &s->series.call[i];
        const struct inputs *in = &call->inputs;
        struct comparison of[OUTPUTS_COMPARED] = {{0}};
        if (!run_once(s, in, &call->portable, b, f))
            return failed_call(f, call, what, NULL);
        const struct comparison *missed = outputs_compare(&b->out, s->layer, in, &call->reference, &call->bounds, of);
        const bool weights = s->layer->scores == SCORES_WEIGHTS;
        const bool finite = promise_overflows(s->layer) ||
                            (all_finite(type, b->out.y.data, inputs_count(s->layer, in, TENSOR_Y)) &&
                             (!weights || all_finite(type, b->out.attn.data, inputs_count(s->layer, in, TENSOR_ATTN))));
        if (missed != NULL || !finite)
            return failed_call(f, call, what, missed);
    }
    return true;
}

/* Runs calls of the series with inputs that end where readable memory ends. */
static bool read_within(const struct subject *s, struct blocks *b, struct findings *f, struct diag *diag)
{
    const struct inputs **calls = memory_get(s->series.sized, sizeof(const struct inputs *));
    for (size_t i = 0; i < s->series.sized; i++)
        calls[i] = &s->series.call[i].inputs;
    const bool good = promises_read_within(s->kernel, s->layer, calls, s->series.sized, b->packed.data, f->why, diag);
    free(calls);
    return good;
}

/* Compares calls of many sizes, with the weights of the main one; batches are cut in several ways. */
static bool compare_sizes(const struct subject *s, struct blocks *b, struct findings *f, struct diag *diag)
{
    bool good = compare_series(s, b, 0, s->series.sized, "another call", f) &&
                read_within(s, b, f, diag);
    for (size_t i = 0; good && i < s->series.batches; i++)
        good = promises_hold(s->kernel, s->layer, &s->series.call[i].inputs, b->packed.data, s->seed,
                             PROMISES_OF_VALUES, f->why, diag);
    return good;
}

/* Gradients of such calls */
static bool extreme_gradients(const struct subject *s, const struct blocks *b, struct findings *f, struct diag *diag)
{
    struct backward of = {.kernel = s->kernel, .layer = s->layer, .packed = b->packed.data, .seed = s->seed,
                          .slack = GRADIENT_ANY_DATA};
    bool good = true;
    for (size_t i = s->series.sized; good && s->layer->train && i < s->series.count; i++)
        good = backward_holds(&of, &s->series.call[i].inputs, false, f->why, diag);
    return good;
}

/* Compares calls with scores of every size, with weights of their own. */
static bool compare_extremes(const struct subject *s, struct blocks *b, int isa, struct findings *f, struct diag *diag)
{
    const struct series *series = &s->series;
    if (!layer_attends(s->layer)) /* there are no scores */
        return true;
    const struct kernel_weights weights = kernel_weights_of(&series->extreme_weights);
    const int error = s->kernel->call->pack(b->packed.data, &weights, isa);
    if (error != KERNEL_OK) {
        snprintf(f->why, sizeof f->why, "extreme scores: pack returns \"%s\"", s->kernel->call->strerror(error));
        return false;
    }
    return chunks_hold(s->kernel, s->layer, &series->extreme_stream, b->packed.data, s->seed, f->why) &&
           compare_series(s, b, series->sized, series->count, "extreme scores", f) &&
           extreme_gradients(s, b, f, diag) &&
           (series->count == series->sized ||
            promises_hold(s->kernel, s->layer, &series->call[series->sized].inputs, b->packed.data, s->seed,
                          PROMISES_OF_VALUES, f->why, diag));
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

/* For a layer that trains: its promises are checked with the same call as forward's. */
static bool compare_gradients(const struct subject *s, const struct blocks *b, struct findings *f, struct diag *diag)
{
    struct backward of = {.kernel = s->kernel, .layer = s->layer, .packed = b->packed.data, .seed = s->seed,
                          .slack = 1};
    bool good = !s->layer->train || backward_holds(&of, &s->small, true, f->why, diag);
    f->gradients = of.figures;
    for (size_t i = 0; good && s->layer->train && i < s->series.sized; i++)
        good = backward_holds(&of, &s->series.call[i].inputs, i < s->series.batches, f->why, diag);
    return good;
}

/* Other calls than the main one, and promises */
static bool promises_of(const struct subject *s, struct blocks *b, int isa, struct findings *f, struct diag *diag)
{
    return compare_sizes(s, b, f, diag) &&
           chunks_hold(s->kernel, s->layer, &s->series.stream, b->packed.data, s->seed, f->why) &&
           chunks_hold(s->kernel, s->layer, &s->series.deep_stream, b->packed.data, s->seed, f->why) &&
           promises_hold(s->kernel, s->layer, &s->small, b->packed.data, s->seed, PROMISES_ALL, f->why, diag) &&
           compare_gradients(s, b, f, diag) &&
           (s->plain == NULL ||
            rounding_holds(s->kernel, s->layer, s->plain, s->plain_layer, &s->small, isa, f->why)) &&
           compare_extremes(s, b, isa, f, diag);
}

struct findings subject_verify(const struct subject *s, int isa, struct diag *diag)
{
    const struct kernel_table *call = s->kernel->call;
    const struct kernel_weights weights = kernel_weights_of(&s->inputs);
    struct findings f = {.verdict = VERDICT_NONE, .digest = DIGEST_OF_NOTHING};
    struct blocks b = {0};
    guarded_make(&b.packed, call->packed_bytes, 0);
    guarded_make(&b.scratch, call->scratch_bytes, 0);
    const int mode = float_mode();
    int error = call->pack(b.packed.data, &weights, isa);
    if (error == KERNEL_ISA) {
        f.verdict = VERDICT_LACKING;
    } else if (error != KERNEL_OK || call->isa(b.packed.data) != isa) {
        snprintf(f.why, sizeof f.why, "pack returns \"%s\"", call->strerror(error));
        f.verdict = VERDICT_FAILED;
    } else {
        const size_t errors = diag->errors;
        bool good = compare_main(s, &b, &f) && compare_against(s, &b, &f) &&
                    (!s->promises || promises_of(s, &b, isa, &f, diag));
        if (good && float_mode() != mode) {
            snprintf(f.why, sizeof f.why, "a call changed how its thread rounds, or what becomes of subnormal numbers");
            good = false;
        }
        f.verdict = good ? VERDICT_GOOD : diag->errors > errors ? VERDICT_NONE : VERDICT_FAILED;
    }
    free_blocks(&b);
    return f;
}
