/* SPDX-License-Identifier: MIT */
/* attnrun check: every kernel of a layer against the reference, and its promises. */

#include <inttypes.h>
#include <string.h>

#include "commands.h"
#include "kernels/call.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "promises/verify.h"
#include "base/memory.h"

#define ONE_SEQUENCE_FROM 5e8 /* multiply-adds; larger layers are checked with batch 1 */

struct tally {
    size_t passed, failed, skipped;
    int code; /* the worst so far */
};

/* One layer under check. */
struct check {
    const struct options *options;
    const char *spec;
    struct layer *layer;
    struct inputs_draw draw;
    struct kernel kernel;
    struct layer *plain_layer; /* with tensor_type: the same layer in f32; with fast products of whole numbers: with
                                * classical ones, whose bits they have; NULL: it is neither, or not compared */
    struct kernel plain;
    struct subject subject[2]; /* for sets that pack columns of i8 by numbers, by pairs; made on demand */
    struct diag diag;
};

static bool choose_draw(struct check *c)
{
    const double work = layer_multiply_adds(c->layer, c->layer->seq_len, c->layer->source_len).total;
    c->draw = options_draw(c->options, c->layer, work > ONE_SEQUENCE_FROM ? 1 : 2);
    return inputs_fit(c->layer, &c->draw, false, c->spec, &c->diag);
}

/* Prints the command that repeats this check only. */
static void print_repeat(const struct check *c, const char *isa)
{
    struct options only = *c->options;
    only.isa = isa;
    only.batch = c->draw.batch;
    only.n = c->draw.n;
    only.m = layer_is_square(c->layer) ? UNSET : c->draw.m;
    options_repeat(&only, COMMAND_CHECK, c->spec, stdout);
}

static const struct subject *subject_of(const struct check *c, const char *isa)
{
    return &c->subject[inputs_pairs(c->layer, isa_find(isa)->id)];
}

static void print_line(const char *verdict, const struct check *c, const char *isa, const struct findings *f)
{
    const bool against = subject_of(c, isa)->against.wanted;
    const struct comparison *const y = &f->of[OUTPUT_Y];
    printf("%-7s %s %s  y: error %.2g, %.2g of the gate, %.2g of the bound", verdict, c->layer->name, isa,
           compare_shown_error(y), y->gate_ratio, y->ratio);
    for (int i = OUTPUT_ATTN; i < OUTPUT_CACHE; i++)
        if (layer_has_tensor(c->layer, inputs_output(c->layer, i)))
            printf("  %s: error %.2g, %.2g", layer_tensor_name(inputs_output(c->layer, i)),
                   compare_shown_error(&f->of[i]), f->of[i].ratio);
    if (against)
        printf("  against f32: rms %.2g, largest %.2g of y's rms", f->cost.rms, f->cost.largest);
    if (against && layer_stores_weights(c->layer))
        printf(", %.2g of the bound", f->given.ratio);
    if (c->layer->train)
        printf("  gradients: error %.2g, %.2g of the gate", f->gradients.error, f->gradients.ratio);
    printf("\n");
}

static void print_miss(const struct comparison *comparison)
{
    char text[COMPARE_TEXT];
    if (comparison->misses > 0)
        printf("  %s\n", compare_miss_text(comparison, "the reference", text));
}

static void report(const struct check *c, const struct findings *f, const char *isa)
{
    if (!f->ran && f->verdict == VERDICT_FAILED)
        printf("FAILED  %s %s\n", c->layer->name, isa);
    else if (f->verdict == VERDICT_FAILED || !c->options->quiet)
        print_line(f->verdict == VERDICT_GOOD ? "ok" : "FAILED", c, isa, f);
    if (f->ran && c->options->digest)
        printf("%016" PRIx64 " %s %s\n", f->digest, c->layer->name, isa);
    for (int i = OUTPUT_Y; i < OUTPUT_CACHE; i++)
        compare_print_unbounded(&f->of[i], inputs_output(c->layer, i), stdout);
    for (int i = 0; i < OUTPUTS_COMPARED; i++)
        print_miss(&f->of[i]);
    print_miss(&f->given);
    if (f->why[0] != '\0')
        printf("  %s\n", f->why);
    if (f->verdict == VERDICT_FAILED)
        print_repeat(c, isa);
}

static void skip(const struct check *c, size_t row, struct tally *tally)
{
    tally->skipped++;
    if (!c->options->quiet)
        printf("skipped %s %s  %s\n", c->layer->name, isa_table[row].name, call_why_skipped(c->layer, row));
}

static void make_subject(struct check *c, bool pairs)
{
    struct subject *s = &c->subject[pairs];
    struct inputs_draw draw = c->draw;
    draw.pairs = pairs;
    if (s->layer != NULL)
        return;
    subject_make(s, c->layer, &c->kernel, &draw);
    if (c->options->against != NULL)
        subject_make_against(s, &draw);
    s->plain_layer = c->plain_layer;
    s->plain = c->plain_layer != NULL ? &c->plain : NULL;
}

static void check_isa(struct check *c, size_t row, struct tally *tally)
{
    const char *name = isa_table[row].name;
    const bool pairs = inputs_pairs(c->layer, isa_table[row].id);
    make_subject(c, pairs);
    struct findings f = apart_verify(&c->subject[pairs], isa_table[row].id, &c->diag);
    switch (f.verdict) {
    case VERDICT_GOOD:
        tally->passed++;
        report(c, &f, name);
        break;
    case VERDICT_FAILED:
        tally->failed++;
        report(c, &f, name);
        break;
    case VERDICT_LACKING:
        skip(c, row, tally);
        break;
    case VERDICT_NONE:
        break;
    }
}

/* Whether some product of whole numbers is fast */
static bool sums_fast(const struct layer *layer, struct diag *diag)
{
    if (layer->precision != PRECISION_I16)
        return false;
    struct plan *plan = plan_make(layer, isa_default(), diag);
    const bool fast = plan != NULL && plan_has_fast(plan);
    plan_free(plan);
    return fast;
}

/* Makes the layer whose results this one has, once they are rounded: in f32, or with classical products. A plan file
 * belongs to the layer with its type only. */
static bool make_plain(struct check *c)
{
    struct compile_options options = c->options->compile;
    const char *const other = layer_types_tensors(c->layer)  ? "tensor_type=f32"
                            : sums_fast(c->layer, &c->diag) ? "plan.products=classical" : NULL;
    if (c->diag.errors > 0 || other == NULL || options.plan != NULL)
        return c->diag.errors == 0;
    HEAP const char **set = memory_get(options.set_count + 1, sizeof *set);
    size_t count = 0;
    for (size_t i = 0; i < options.set_count; i++)
        if (strncmp(options.set[i], other, strcspn(other, "=")) != 0)
            set[count++] = options.set[i];
    set[count++] = other;
    options.set = set;
    options.set_count = count;
    c->plain_layer = layer_read(c->spec, set, count, &c->diag);
    return c->plain_layer != NULL && compile_kernel(&c->plain, c->spec, c->plain_layer->name, &options, &c->diag);
}

/* Checks every requested instruction set, or every one of the pair. */
static void check_kernels(struct check *c, struct tally *tally)
{
    for (size_t row = 0; row < isa_count && c->diag.errors == 0; row++) {
        const char *name = c->kernel.call->isa_name(isa_table[row].id);
        if (name != NULL && options_want_isa(c->options, name))
            check_isa(c, row, tally);
        else if (name == NULL && options_name_isa(c->options, isa_table[row].name))
            skip(c, row, tally);
    }
}

static void check_spec(const struct options *options, const char *spec, struct tally *tally)
{
    struct check c = {.options = options, .spec = spec};
    const size_t failed = tally->failed, judged = tally->passed + tally->failed, skipped = tally->skipped;
    c.layer = layer_read(spec, options->compile.set, options->compile.set_count, &c.diag);
    bool good = c.layer != NULL && options_fit(options, c.layer, spec, &c.diag) && choose_draw(&c) &&
                compile_kernel(&c.kernel, spec, c.layer->name, &options->compile, &c.diag) && make_plain(&c);
    if (good)
        check_kernels(&c, tally);
    if (tally->skipped > skipped && tally->passed + tally->failed == judged && c.diag.errors == 0)
        call_report_no_isa(spec, &c.diag);
    const int code = command_end(&c.diag, tally->failed > failed);
    tally->code = code > tally->code ? code : tally->code;
    subject_free(&c.subject[0]);
    subject_free(&c.subject[1]);
    kernel_unload(&c.kernel);
    kernel_unload(&c.plain);
    layer_free(c.plain_layer);
    layer_free(c.layer);
}

int command_check(const struct options *options)
{
    struct tally tally = {0};
    for (size_t i = 0; i < options->spec_count; i++)
        check_spec(options, options->specs[i], &tally);
    printf("%zu passed, %zu failed, %zu skipped\n", tally.passed, tally.failed, tally.skipped);
    return tally.code;
}
