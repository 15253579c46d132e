/* attnrun check: every kernel of a layer against the reference, and its promises. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "compare.h"
#include "guarded.h"
#include "promises.h"

#define ONE_SEQUENCE_FROM 5e8 /* multiply-adds; larger layers are checked with batch 1 */
#define SMALL_RUN_FROM 1e9    /* the promises of larger ones are checked on fewer positions */
#define SMALL_RUN 96

struct tally {
    size_t passed, failed, skipped;
    int code; /* the worst so far */
};

/* One layer under check. */
struct subject {
    const struct options *options;
    const char *spec;
    struct layer *layer;
    struct inputs_draw draw;
    struct inputs inputs, small; /* for accuracy; for the promises */
    struct kernel kernel;
    struct reference reference;
    struct bounds bounds;
    struct diag diag;
};

static size_t given_or(size_t given, int64_t otherwise)
{
    return given != UNSET ? given : (size_t)otherwise;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool draw_inputs(struct subject *s)
{
    const struct options *options = s->options;
    const double work = layer_multiply_adds(s->layer, s->layer->seq_len, s->layer->source_len).total;
    s->draw = (struct inputs_draw){
        .seed = options->seed,
        .init = options->init,
        .batch = given_or(options->batch, work > ONE_SEQUENCE_FROM ? 1 : 2),
        .n = given_or(options->n, s->layer->seq_len),
        .m = s->layer->cross ? given_or(options->m, s->layer->source_len) : given_or(options->n, s->layer->seq_len),
    };
    if (s->draw.n > (size_t)s->layer->seq_len || s->draw.m > (size_t)s->layer->source_len) {
        diag_error(&s->diag, s->spec, "n = %zu, m = %zu; at most %lld and %lld fit the layer", s->draw.n, s->draw.m,
                   (long long)s->layer->seq_len, (long long)s->layer->source_len);
        return false;
    }
    if (!inputs_draw(&s->inputs, s->layer, &s->draw, &s->diag))
        return false;
    struct inputs_draw small = s->draw;
    if (work > SMALL_RUN_FROM) {
        small.n = smaller(small.n, SMALL_RUN);
        small.m = smaller(small.m, SMALL_RUN + 20);
    }
    return inputs_draw(&s->small, s->layer, &small, &s->diag);
}

static void subject_free(struct subject *s)
{
    inputs_free(&s->inputs);
    inputs_free(&s->small);
    kernel_unload(&s->kernel);
    reference_free(&s->reference);
    bounds_free(&s->bounds);
    layer_free(s->layer);
}

/* The command that does this check alone. */
static void print_repeat(const struct subject *s, const char *isa)
{
    const char *const variables[] = {"CC", "CFLAGS"};
    printf("  repeat: ");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]) != NULL)
            printf("%s='%s' ", variables[i], getenv(variables[i]));
    printf("attnrun check %s --seed %llu --batch %zu --n %zu", s->spec, (unsigned long long)s->draw.seed,
           s->draw.batch, s->draw.n);
    if (s->layer->cross)
        printf(" --m %zu", s->draw.m);
    printf(" --init %s --isa %s", s->draw.init == INIT_NORMAL ? "normal" : "xavier", isa);
    for (size_t i = 0; i < s->options->compile.set_count; i++)
        printf(" --set '%s'", s->options->compile.set[i]);
    printf("\n");
}

static void print_miss(const struct comparison *c)
{
    printf("  %s", layer_tensor_name(c->tensor));
    for (int i = 0; i < (c->tensor == TENSOR_Y ? 3 : 4); i++)
        printf("[%zu]", c->index[i]);
    printf(" is %.9g; the reference has %.9g; %zu of %zu elements miss\n", c->actual, c->expected, c->misses,
           c->elements);
}

static void print_line(const char *verdict, const struct subject *s, const char *isa, const struct comparison *y,
                       const struct comparison *attn)
{
    printf("%-7s %s %s  y: error %.2g, %.2g of the gate, %.2g of the worst case", verdict, s->layer->name, isa,
           compare_shown_error(y), y->drawn_ratio, y->worst_ratio);
    if (s->layer->scores)
        printf("  attn: error %.2g, %.2g, %.2g", compare_shown_error(attn), attn->drawn_ratio, attn->worst_ratio);
    printf("\n");
}

/* Packs and runs once; false when something failed, `why` then says what. */
static bool run_once(struct subject *s, struct guarded *packed, struct guarded *y, struct guarded *attn, char why[300])
{
    const struct kernel_table *call = s->kernel.call;
    const struct kernel_args args = kernel_args_of(s->layer, &s->inputs, y->data, attn->data);
    struct guarded scratch;
    if (!guarded_make(&scratch, call->scratch_bytes, 0)) {
        diag_environment(&s->diag, NULL, "out of memory");
        return false;
    }
    int error = call->forward(packed->data, &args, scratch.data);
    bool good = error == KERNEL_OK;
    if (!good)
        snprintf(why, 300, "forward returns \"%s\"", call->strerror(error));
    if (good && !(guarded_zones_intact(packed) && guarded_zones_intact(&scratch) && guarded_zones_intact(y) &&
                  guarded_zones_intact(attn))) {
        good = false;
        snprintf(why, 300, "something was written outside packed, scratch, y and attn");
    }
    guarded_free(&scratch);
    return good;
}

/* One packed kernel: accuracy, then promises. */
static void check_packed(struct subject *s, struct guarded *packed, const char *isa, struct tally *tally)
{
    struct guarded y = {0}, attn = {0};
    struct comparison compared_y = {0}, compared_attn = {0};
    char why[300] = "";
    bool good = guarded_make(&y, inputs_count(s->layer, &s->inputs, TENSOR_Y) * sizeof(float), 4) &&
                guarded_make(&attn, inputs_count(s->layer, &s->inputs, TENSOR_ATTN) * sizeof(float), 4);
    if (!good)
        diag_environment(&s->diag, NULL, "out of memory");
    bool ran = good && run_once(s, packed, &y, &attn, why);
    if (ran) {
        const unsigned gates = GATE_WORST | GATE_DRAWN;
        compare_y(&compared_y, s->layer, &s->inputs, &s->reference, &s->bounds, y.data, gates);
        if (s->layer->scores)
            compare_attn(&compared_attn, s->layer, &s->inputs, &s->reference, &s->bounds, attn.data, gates);
    }
    good = ran && compared_y.misses == 0 && compared_attn.misses == 0;
    good = good && promises_hold(&s->kernel, s->layer, &s->small, packed->data, s->draw.seed, why, &s->diag);
    if (!good || !s->options->quiet)
        print_line(good ? "ok" : "FAILED", s, isa, &compared_y, &compared_attn);
    if (compared_y.misses > 0)
        print_miss(&compared_y);
    if (compared_attn.misses > 0)
        print_miss(&compared_attn);
    if (why[0] != '\0')
        printf("  %s\n", why);
    if (!good)
        print_repeat(s, isa);
    *(good ? &tally->passed : &tally->failed) += 1;
    guarded_free(&y);
    guarded_free(&attn);
}

/* One instruction set: packed, if the machine has it. */
static void check_isa(struct subject *s, int isa, const char *name, struct tally *tally)
{
    const struct kernel_weights weights = kernel_weights_of(&s->inputs);
    struct guarded packed;
    if (!guarded_make(&packed, s->kernel.call->packed_bytes, 0)) {
        diag_environment(&s->diag, NULL, "out of memory");
        return;
    }
    int error = s->kernel.call->pack(packed.data, &weights, isa);
    if (error == KERNEL_ISA) {
        tally->skipped++;
        if (!s->options->quiet)
            printf("skipped %s %s  this machine lacks it\n", s->layer->name, name);
    } else if (error != KERNEL_OK || s->kernel.call->isa(packed.data) != isa) {
        tally->failed++;
        printf("FAILED  %s %s\n  pack returns \"%s\"\n", s->layer->name, name, s->kernel.call->strerror(error));
        print_repeat(s, name);
    } else {
        check_packed(s, &packed, name, tally);
    }
    guarded_free(&packed);
}

/* Every instruction set of the pair that was asked for; returns how many. */
static size_t check_kernels(struct subject *s, struct tally *tally)
{
    size_t count = 0;
    for (int isa = 1; isa < KERNEL_ISA_LIMIT; isa++) {
        const char *name = s->kernel.call->isa_name(isa);
        if (name != NULL && options_want_isa(s->options, name)) {
            check_isa(s, isa, name, tally);
            count++;
        }
    }
    return count;
}

static void check_spec(const struct options *options, const char *spec, struct tally *tally)
{
    struct subject s = {.options = options, .spec = spec};
    const size_t failed = tally->failed;
    s.layer = layer_read(spec, options->compile.set, options->compile.set_count, &s.diag);
    bool good = s.layer != NULL && draw_inputs(&s) &&
                compile_kernel(&s.kernel, spec, s.layer->name, &options->compile, &s.diag) &&
                bounds_compute(&s.reference, &s.bounds, s.layer, &s.inputs, kernel_folds(&s.kernel), true, &s.diag);
    if (good && check_kernels(&s, tally) == 0)
        diag_error(&s.diag, spec, "the kernel has none of the instruction sets \"%s\"", options->isa);
    fflush(stdout);
    int code = diag_report(&s.diag, stderr);
    if (code == EXIT_GOOD && tally->failed > failed)
        code = EXIT_CHECK_FAILED;
    tally->code = code > tally->code ? code : tally->code;
    diag_free(&s.diag);
    subject_free(&s);
}

int command_check(const struct options *options)
{
    struct tally tally = {0};
    for (size_t i = 0; i < options->spec_count; i++)
        check_spec(options, options->specs[i], &tally);
    printf("%zu passed, %zu failed, %zu skipped\n", tally.passed, tally.failed, tally.skipped);
    return tally.code;
}
