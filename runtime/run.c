/* attnrun run: a layer on the tensors of a file, by a kernel or by the reference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "compare.h"

struct job {
    const struct options *options;
    const char *spec;
    struct layer *layer;
    struct tensors file;
    struct inputs inputs;
    const struct tensor *y_given, *attn_given; /* in the file, or NULL */
    float *y, *attn;                           /* what was computed */
    struct kernel kernel;                      /* none where the reference is asked for */
    struct reference reference;
    struct bounds bounds;
    struct diag diag;
    bool missed;
};

static bool read_inputs(struct job *job)
{
    const struct options *options = job->options;
    job->layer = layer_read(job->spec, options->compile.set, options->compile.set_count, &job->diag);
    if (job->layer == NULL || !tensors_read(&job->file, options->in, &job->diag) ||
        !inputs_from_tensors(&job->inputs, job->layer, &job->file, options->in, &job->diag))
        return false;
    job->y_given = tensors_find(&job->file, "y");
    job->attn_given = tensors_find(&job->file, "attn");
    job->y = malloc(inputs_count(job->layer, &job->inputs, TENSOR_Y) * sizeof(float) + 1);
    job->attn = malloc(inputs_count(job->layer, &job->inputs, TENSOR_ATTN) * sizeof(float) + 1);
    if (job->y == NULL || job->attn == NULL)
        diag_environment(&job->diag, NULL, "out of memory");
    return job->y != NULL && job->attn != NULL;
}

/* expected = what the file says, itself rounded to f32. */
static void expect_given(double *expected, double *worst, double *drawn, const struct tensor *given)
{
    const float *values = given != NULL ? given->data : NULL;
    for (size_t i = 0; values != NULL && i < given->bytes / sizeof *values; i++) {
        const double rounding = 0x1p-24 * fabs(values[i]) + 0x1p-149;
        if (!isfinite(expected[i]) && isfinite(values[i])) /* the file is wrong, whatever a kernel gives */
            worst[i] = drawn[i] = 0;
        expected[i] = values[i];
        worst[i] += rounding;
        drawn[i] += rounding;
    }
}

/* The reference, with all rows; its values are kept as f32 when they are what was asked for. */
static bool compute_reference(struct job *job)
{
    const struct folds folds = kernel_folds(&job->kernel);
    if (!bounds_compute(&job->reference, &job->bounds, job->layer, &job->inputs, folds, false, &job->diag))
        return false;
    const size_t y = inputs_count(job->layer, &job->inputs, TENSOR_Y);
    const size_t attn = inputs_count(job->layer, &job->inputs, TENSOR_ATTN);
    for (size_t i = 0; job->options->reference && i < y; i++)
        job->y[i] = (float)job->reference.y[i];
    for (size_t i = 0; job->options->reference && i < attn; i++)
        job->attn[i] = (float)job->reference.attn[i];
    if (y > 0) /* the bounds are NULL where there is nothing to bound */
        expect_given(job->reference.y, job->bounds.y_worst, job->bounds.y_drawn, job->y_given);
    if (attn > 0)
        expect_given(job->reference.attn, job->bounds.attn_worst, job->bounds.attn_drawn, job->attn_given);
    return true;
}

static void print_comparison(const char *who, const char *tensor, const struct comparison *c)
{
    printf("%s: %s differs by at most %.3g (%.3g of the largest |%s|), %.3g of the worst-case bound%s\n", who, tensor,
           c->error, c->largest > 0 ? c->error / c->largest : 0, tensor, c->worst_ratio,
           c->misses > 0 ? ": MISSED" : "");
    if (c->misses == 0)
        return;
    printf("  %s", layer_tensor_name(c->tensor));
    for (int i = 0; i < (c->tensor == TENSOR_Y ? 3 : 4); i++)
        printf("[%zu]", c->index[i]);
    printf(" is %.9g; the file has %.9g; %zu of %zu elements miss\n", c->actual, c->expected, c->misses, c->elements);
}

static void compare_outputs(struct job *job, const char *who)
{
    struct comparison y = {0}, attn = {0};
    if (job->y_given != NULL) {
        compare_y(&y, job->layer, &job->inputs, &job->reference, &job->bounds, job->y, GATE_WORST);
        print_comparison(who, "y", &y);
    }
    if (job->attn_given != NULL) {
        compare_attn(&attn, job->layer, &job->inputs, &job->reference, &job->bounds, job->attn, GATE_WORST);
        print_comparison(who, "attn", &attn);
    }
    job->missed = job->missed || y.misses + attn.misses > 0;
    if (job->y_given == NULL && job->attn_given == NULL)
        printf("%s: computed\n", who);
}

/* Runs one instruction set (0: the best); *skipped when this machine lacks it. */
static bool run_kernel(struct job *job, int isa, bool *skipped)
{
    const struct kernel_table *call = job->kernel.call;
    const struct kernel_weights weights = kernel_weights_of(&job->inputs);
    const struct kernel_args args = kernel_args_of(job->layer, &job->inputs, job->y, job->attn);
    void *packed = aligned_alloc(KERNEL_ALIGNMENT, (call->packed_bytes + KERNEL_ALIGNMENT) / 64 * 64);
    void *scratch = aligned_alloc(KERNEL_ALIGNMENT, (call->scratch_bytes + KERNEL_ALIGNMENT) / 64 * 64);
    int error = KERNEL_OK;
    *skipped = false;
    if (packed == NULL || scratch == NULL) {
        diag_environment(&job->diag, NULL, "out of memory");
    } else if ((error = call->pack(packed, &weights, isa)) == KERNEL_ISA) {
        *skipped = true;
    } else if (error != KERNEL_OK) {
        diag_error(&job->diag, job->options->in, "the weights are refused: %s", call->strerror(error));
    } else if ((error = call->forward(packed, &args, scratch)) != KERNEL_OK) {
        diag_error(&job->diag, job->options->in, "the call is refused: %s", call->strerror(error));
    } else if (isa == 0) {
        isa = call->isa(packed);
    }
    free(packed);
    free(scratch);
    if (job->diag.errors == 0 && !*skipped)
        compare_outputs(job, call->isa_name(isa));
    return job->diag.errors == 0;
}

/* The best instruction set, or each of those asked for that this machine has. */
static bool run_kernels(struct job *job)
{
    size_t ran = 0;
    bool skipped = false, good = true;
    if (!job->options->each_isa) {
        good = run_kernel(job, 0, &skipped);
        ran = !skipped;
    }
    for (int isa = 1; job->options->each_isa && good && isa < KERNEL_ISA_LIMIT; isa++) {
        const char *name = job->kernel.call->isa_name(isa);
        if (name == NULL || !options_want_isa(job->options, name))
            continue;
        good = run_kernel(job, isa, &skipped);
        ran += !skipped;
        if (skipped)
            printf("%s: skipped, this machine lacks it\n", name);
    }
    if (good && ran == 0)
        diag_environment(&job->diag, job->spec, "this machine has none of the instruction sets asked for");
    return good && ran > 0;
}

static bool write_outputs(struct job *job)
{
    struct tensor items[2] = {{.name = "y"}, {.name = "attn"}};
    const enum layer_tensor which[2] = {TENSOR_Y, TENSOR_ATTN};
    items[0].data = job->y;
    items[1].data = job->attn;
    for (int i = 0; i < 2; i++) {
        items[i].rank = inputs_shape(job->layer, &job->inputs, which[i], items[i].shape);
        items[i].bytes = inputs_count(job->layer, &job->inputs, which[i]) * sizeof(float);
    }
    return tensors_write(job->options->out, items, job->layer->scores ? 2 : 1, &job->diag);
}

int command_run(const struct options *options)
{
    struct job job = {.options = options, .spec = options->specs[0]};
    bool good = read_inputs(&job);
    if (good && !options->reference)
        good = compile_kernel(&job.kernel, job.spec, job.layer->name, &options->compile, &job.diag);
    if (good && (options->reference || job.y_given != NULL || job.attn_given != NULL))
        good = compute_reference(&job);
    if (good && options->reference)
        compare_outputs(&job, "reference");
    else if (good)
        good = run_kernels(&job);
    if (good && options->out != NULL)
        write_outputs(&job);
    fflush(stdout);
    int code = diag_report(&job.diag, stderr);
    if (code == EXIT_GOOD && job.missed)
        code = EXIT_CHECK_FAILED;
    diag_free(&job.diag);
    tensors_free(&job.file);
    inputs_free(&job.inputs);
    reference_free(&job.reference);
    bounds_free(&job.bounds);
    kernel_unload(&job.kernel);
    free(job.y);
    free(job.attn);
    layer_free(job.layer);
    return code;
}
