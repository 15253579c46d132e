/* SPDX-License-Identifier: MIT */
/* attnrun run: a layer on the tensors of a file, by a kernel or by the reference. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "commands.h"
#include "inputs/elements.h"
#include "kernels/call.h"
#include "plan/isa.h"
#include "reference/compare.h"
#include "reference/gradient.h"
#include "reference/stored.h"
#include "base/memory.h"

struct job {
    const struct options *options;
    struct call call;
    const struct tensor *given[OUTPUTS]; /* in the file, of a cache as expect.k_cache and so on; or NULL */
    struct reference reference;
    struct bounds bounds;
    struct gradients gradients;
    struct diag diag;
    bool missed; /* an output differs from the file's, or could not be compared with it */
    bool violated;
};

static bool any_given(const struct job *job)
{
    bool any = false;
    for (int i = 0; i < OUTPUTS_COMPARED; i++)
        any = any || job->given[i] != NULL;
    return any;
}

/* The gradient of a tensor in the file; NULL: none */
static const float *gradient_given(const struct job *job, enum layer_tensor tensor)
{
    char name[40];
    snprintf(name, sizeof name, "d%s", layer_tensor_name(tensor));
    const struct tensor *found = job->call.gradient[tensor] != NULL ? tensors_find(&job->call.file, name) : NULL;
    return found != NULL ? found->data : NULL;
}

static bool any_gradient_given(const struct job *job)
{
    bool any = false;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        any = any || gradient_given(job, t) != NULL;
    return any;
}

/* Gradients of the reference; with --reference they take the place of a kernel's */
static bool compute_gradients(struct job *job)
{
    const struct options *o = job->options;
    if (job->call.dy == NULL || !(o->reference || any_given(job) || any_gradient_given(job)))
        return true;
    if (!gradients_compute(&job->gradients, job->call.layer, &job->call.inputs, job->call.dy, &job->diag))
        return false;
    for (enum layer_tensor t = 0; o->reference && t < TENSOR_COUNT; t++)
        for (size_t i = 0; i < job->call.gradient_bytes[t] / sizeof(float); i++)
            job->call.gradient[t][i] = (float)job->gradients.of[t][i];
    return true;
}

/* Compares gradients that the file has; what is non-finite there must be non-finite here too. */
static void compare_gradients(struct job *job, const char *who)
{
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const float *given = gradient_given(job, t), *actual = job->call.gradient[t];
        double error = 0, ratio = 0, largest = 0;
        size_t misses = 0, first = 0;
        if (given == NULL)
            continue;
        for (size_t i = 0; i < job->call.gradient_bytes[t] / sizeof(float); i++) {
            const double expected = given[i], off = fabs((double)actual[i] - expected);
            const double gate = GRADIENT_ANY_DATA * job->gradients.gate[t][i] + 0x1p-24 * fabs(expected) + 0x1p-149;
            const bool good = isfinite(expected) ? gate == INFINITY || off <= gate : !isfinite(actual[i]);
            first = good || misses > 0 ? first : i;
            misses += !good;
            if (isfinite(expected)) {
                error = fmax(error, off);
                largest = fmax(largest, fabs(expected));
                ratio = fmax(ratio, off / gate);
            }
        }
        printf("%s: d%s differs by at most %.3g (%.3g of the largest |d%s|), %.3g of the gate%s\n", who,
               layer_tensor_name(t), error, largest > 0 ? error / largest : 0, layer_tensor_name(t), ratio,
               misses > 0 ? ": MISSED" : "");
        if (misses > 0)
            printf("  d%s: element %zu is %.9g; the file has %.9g; %zu elements miss\n", layer_tensor_name(t), first,
                   (double)actual[first], (double)given[first], misses);
        job->missed = job->missed || misses > 0;
    }
}

/* An output as the file has it */
static const struct tensor *find_given(const struct job *job, int output)
{
    char name[40];
    snprintf(name, sizeof name, "%s%s", output < OUTPUT_CACHE ? "" : INPUTS_EXPECTED,
             layer_tensor_name(inputs_output(job->call.layer, output)));
    return tensors_find(&job->call.file, name);
}

/* Index in a tensor of number i of the reference's y; attn has the same order */
static size_t place_of(const struct job *job, enum layer_tensor tensor, size_t i)
{
    const struct inputs *in = &job->call.inputs;
    const size_t d_out = (size_t)job->call.layer->d_out;
    return tensor != TENSOR_Y ? i : inputs_y_at(job->call.layer, in, i / d_out / in->n, i / d_out % in->n, i % d_out);
}

/* expected = the file's numbers, which are themselves rounded to f32 or the tensor's type */
static void expect_given(const struct job *job, int output)
{
    const enum layer_tensor tensor = inputs_output(job->call.layer, output);
    const enum tensor_element type = layer_tensor_element(job->call.layer, tensor);
    const struct tensor *const given = job->given[output];
    double *const expected = job->reference.of[output];
    double *const worst = job->bounds.of[output].worst, *const open = job->bounds.of[output].open;
    for (size_t i = 0; given != NULL && i < given->bytes / element_size(type); i++) {
        const double value = element_number(type, given->data, place_of(job, tensor, i));
        const double rounding = 0x1p-24 * fabs(value) + 0x1p-149;
        if (!isfinite(expected[i]) && isfinite(value) && open[i] != INFINITY) /* it is wrong, whatever a kernel
                                                                               * computes */
            worst[i] = open[i] = 0;
        expected[i] = value;
        worst[i] += rounding;
    }
}

/* Index in a cache of the reference's number i of new keys or values; SIZE_MAX if the call does not store it */
static size_t cache_place(const struct job *job, bool values, size_t i)
{
    const struct inputs *in = &job->call.inputs;
    const size_t d = (size_t)(values ? job->call.layer->d_v : job->call.layer->d_k), row = i / d;
    const size_t h_kv = (size_t)job->call.layer->h_kv, t = row % in->n, b = row / in->n / h_kv;
    if (t >= inputs_keys(in, b))
        return SIZE_MAX;
    return inputs_cache_row(job->call.layer, in, values, b, row / in->n % h_kv,
                            inputs_position(job->call.layer, in, b, t)) + i % d;
}

/* A file with the expected codes of an i8 cache must have the scales too. */
static bool has_scales(struct job *job)
{
    const struct layer *layer = job->call.layer;
    const struct tensor *const *const given = job->given + OUTPUT_CACHE;
    for (int values = 0; values < inputs_compared(layer); values++)
        if ((given[values] == NULL) != (given[inputs_scales_of(layer, values)] == NULL))
            diag_error(&job->diag, job->options->in, "of a cache's numbers and their scales only one is expected; add "
                       INPUTS_EXPECTED "%s, or leave out the other",
                       layer_tensor_name(inputs_cache_of(layer, given[values] == NULL
                                                                ? values : inputs_scales_of(layer, values))));
    return job->diag.errors == 0;
}

/* Compares the rows that a call writes with the file's; the file's other rows must be unchanged. */
static void expect_cache(struct job *job, bool values)
{
    const struct layer *layer = job->call.layer;
    const struct inputs *in = &job->call.inputs;
    const size_t d = inputs_cache_width(layer, values), count = in->batch * (size_t)layer->h_kv * in->n * d;
    const size_t *const bytes = job->call.out_bytes + OUTPUT_CACHE;
    const struct tensor *const *const in_file = job->given + OUTPUT_CACHE;
    const void *given[CACHE_PARTS] = {NULL};
    bool changes = false;
    for (int part = values; part < inputs_cache_parts(layer); part += inputs_compared(layer)) {
        const enum layer_tensor tensor = inputs_cache_of(layer, part);
        const size_t size = layer_tensor_size(layer, tensor), width = inputs_cache_width(layer, part) * size;
        given[part] = in_file[part] != NULL ? in_file[part]->data : NULL;
        if (given[part] == NULL)
            continue;
        HEAP char *left = memory_get(bytes[part], 1);
        memcpy(left, in->tensor[tensor], bytes[part]);
        for (size_t i = 0; i < count; i += d) {
            const size_t at = cache_place(job, values, i);
            if (at != SIZE_MAX)
                memcpy(left + at / d * width, (const char *)given[part] + at / d * width, width);
        }
        changes = changes || memcmp(left, given[part], bytes[part]) != 0;
    }
    for (size_t i = 0; job->options->reference && i < count; i += d) {
        const size_t at = cache_place(job, values, i);
        if (at != SIZE_MAX)
            stored_put_row(layer, job->call.out + OUTPUT_CACHE, values, &job->reference.cache[values][i], at);
    }
    for (size_t i = 0; i < count && given[values] != NULL; i++) {
        const size_t at = cache_place(job, values, i);
        double *expected = &job->reference.cache[values][i];
        if (at == SIZE_MAX)
            continue;
        *expected = inputs_cached_number(layer, given, values, at);
        const double rounding = 0x1p-24 * fabs(*expected) + 0x1p-149;
        job->bounds.cache[values].worst[i] += rounding;
    }
    if (changes) {
        printf("the file: %s changes rows that the call does not write: MISSED\n", in_file[values]->name);
        job->missed = true;
    }
}

/* With --reference the reference's numbers become the output; then those that the file has are expected. */
static void expect_output(struct job *job, int output)
{
    const enum layer_tensor tensor = inputs_output(job->call.layer, output);
    const enum tensor_element type = layer_tensor_element(job->call.layer, tensor);
    const size_t count = inputs_count(job->call.layer, &job->call.inputs, tensor);
    for (size_t i = 0; job->options->reference && i < count; i++)
        element_put(type, job->call.out[output], place_of(job, tensor, i), job->reference.of[output][i]);
    if (count > 0)
        expect_given(job, output);
}

/* y of a training call with dropout; without a dy the call is for inference */
static void take_dropped_y(struct job *job)
{
    const size_t y = inputs_count(job->call.layer, &job->call.inputs, TENSOR_Y);
    for (size_t i = 0; i < y; i++) {
        job->reference.y[i] = job->gradients.of[TENSOR_Y][i];
        job->bounds.y_worst[i] = GRADIENT_ANY_DATA * job->gradients.gate[TENSOR_Y][i];
        job->bounds.y_open[i] = job->bounds.y_worst[i] < INFINITY ? 0 : 1;
    }
}

/* Computes the reference, with all rows, for sets that pack columns of i8 in this way; with --reference its values are
 * the result, as f32. */
static bool compute_reference(struct job *job, bool pairs)
{
    if (job->reference.y != NULL && job->call.inputs.pairs == pairs)
        return true;
    reference_free(&job->reference);
    job->call.inputs.pairs = pairs;
    const struct folds folds = kernel_folds(&job->call.kernel);
    bounds_compute(&job->reference, &job->bounds, job->call.layer, &job->call.inputs, folds, false);
    if (job->gradients.of[TENSOR_Y] != NULL && layer_dropped(job->call.layer) > 0)
        take_dropped_y(job);
    const bool any = inputs_count(job->call.layer, &job->call.inputs, TENSOR_Y) > 0; /* else there are no bounds */
    for (int i = 0; any && i < OUTPUT_CACHE + inputs_compared(job->call.layer); i++)
        if (i >= OUTPUT_CACHE && layer_has_cache(job->call.layer))
            expect_cache(job, i - OUTPUT_CACHE);
        else
            expect_output(job, i);
    return true;
}

static void print_comparison(const char *who, enum layer_tensor tensor, const struct comparison *c)
{
    const char *name = layer_tensor_name(tensor);
    char text[COMPARE_TEXT];
    if (c->unbounded > 0 && c->unbounded == c->elements)
        printf("%s: %s is not compared\n", who, name);
    else
        printf("%s: %s differs by at most %.3g (%.3g of the largest |%s|), %.3g of the worst-case bound%s\n", who, name,
               c->error, c->largest > 0 ? c->error / c->largest : 0, name, c->ratio,
               c->misses > 0 ? ": MISSED" : "");
    compare_print_unbounded(c, tensor, stdout);
    if (c->misses > 0)
        printf("  %s\n", compare_miss_text(c, "the file", text));
}

static uint64_t digest_of(const struct call *call)
{
    const struct kernel_args args = kernel_args_of(call->layer, &call->inputs, call->out);
    struct kernel_grads grads = {0};
    memcpy(grads.tensor, call->gradient, sizeof call->gradient);
    return kernel_digest(DIGEST_OF_NOTHING, call->layer, &call->inputs, &args, call->dy != NULL ? &grads : NULL);
}

static void compare_given(struct job *job, const char *who)
{
    const struct layer *const layer = job->call.layer;
    struct comparison of[OUTPUTS_COMPARED] = {{0}};
    if (any_given(job))
        compare_outputs(of, layer, &job->call.inputs, &job->reference, &job->bounds,
                        (const void *const *)job->call.out);
    for (int i = 0; i < OUTPUT_CACHE + inputs_compared(layer); i++)
        if (job->given[i] != NULL) {
            print_comparison(who, inputs_output(layer, i), &of[i]);
            job->missed = job->missed || of[i].misses + of[i].unbounded > 0;
        }
    compare_gradients(job, who);
    if (job->options->digest)
        printf("%016" PRIx64 " %s %s\n", digest_of(&job->call), job->call.layer->name, who);
    if (!any_given(job) && !any_gradient_given(job))
        printf("%s: computed\n", who);
}

/* A kernel that computed nothing; no name: the best. */
static void report_no_result(struct job *job, const char *name)
{
    struct options only = *job->options;
    only.isa = name;
    printf("FAILED  %s: %s\n", name != NULL ? name : "the best instruction set", job->call.why);
    options_repeat(&only, COMMAND_RUN, only.specs[0], stdout);
    job->missed = job->violated = true;
}

/* Whether the reference is for sets that sum pairs: if --isa names only one of those */
static bool reference_of_pairs(const struct job *job)
{
    bool any = false, all = true;
    for (size_t row = 0; row < isa_count; row++)
        if (options_name_isa(job->options, isa_table[row].name)) {
            any = true;
            all = all && inputs_pairs(job->call.layer, isa_table[row].id);
        }
    return any && all;
}

/* Runs one instruction set (0: the best) and compares; *ran stays false if this machine lacks it. */
static bool run_kernel(struct job *job, int isa, bool *ran)
{
    const char *name = isa != 0 ? job->call.kernel.call->isa_name(isa) : NULL;
    const bool good = call_run(&job->call, &isa, job->options->in, &job->diag);
    *ran = good && isa != CALL_LACKS;
    if (good && isa == CALL_BROKEN)
        report_no_result(job, name);
    else if (*ran && (!any_given(job) || compute_reference(job, inputs_pairs(job->call.layer, isa))))
        compare_given(job, job->call.kernel.call->isa_name(isa));
    return good && job->diag.errors == 0;
}

/* Runs the best instruction set, or each requested one that this machine has. */
static bool run_kernels(struct job *job)
{
    bool any = false, ran = false, good = true;
    if (!job->options->each_isa)
        good = run_kernel(job, 0, &any);
    for (size_t row = 0; job->options->each_isa && good && row < isa_count; row++) {
        const bool has = job->call.kernel.call->isa_name(isa_table[row].id) != NULL;
        if (!(has ? options_want_isa : options_name_isa)(job->options, isa_table[row].name))
            continue;
        good = !has || run_kernel(job, isa_table[row].id, &ran);
        any = any || (has && ran);
        if (good && !(has && ran))
            printf("%s: skipped, %s\n", isa_table[row].name, call_why_skipped(job->call.layer, row));
    }
    if (good && !any)
        call_report_no_isa(job->options->specs[0], &job->diag);
    return good && any;
}

static bool write_outputs(struct job *job)
{
    const struct layer *const layer = job->call.layer;
    struct tensor items[OUTPUTS + TENSOR_COUNT];
    char names[TENSOR_COUNT][40];
    size_t count = 0;
    for (int i = 0; i < inputs_outputs(layer); i++) {
        const enum layer_tensor t = inputs_output(layer, i);
        if (!layer_has_tensor(layer, t))
            continue;
        struct tensor *item = &items[count++];
        *item = (struct tensor){.name = (char *)(uintptr_t)layer_tensor_name(t), .data = job->call.out[i],
                                .type = inputs_type(layer_tensor_element(layer, t)), .bytes = job->call.out_bytes[i]};
        item->rank = inputs_shape(layer, &job->call.inputs, t, item->shape);
    }
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        if (job->call.gradient[t] == NULL)
            continue;
        snprintf(names[t], sizeof names[t], "d%s", layer_tensor_name(t));
        struct tensor *item = &items[count++];
        *item = (struct tensor){.name = names[t], .data = job->call.gradient[t],
                                .bytes = job->call.gradient_bytes[t]};
        item->rank = inputs_shape(job->call.layer, &job->call.inputs, t, item->shape);
    }
    return tensors_write(job->options->out, items, count, &job->diag);
}

int command_run(const struct options *options)
{
    struct job job = {.options = options};
    const char *spec = options->specs[0];
    bool good = call_read(&job.call, spec, &options->compile, options->in, &options->weights, &job.diag);
    for (int i = 0; good && i < inputs_outputs(job.call.layer); i++)
        job.given[i] = find_given(&job, i);
    if (good && layer_scales_cache(job.call.layer))
        good = has_scales(&job);
    if (good && !options->reference)
        good = compile_kernel(&job.call.kernel, spec, job.call.layer->name, &options->compile, &job.diag);
    good = good && compute_gradients(&job);
    if (good && options->reference)
        good = compute_reference(&job, reference_of_pairs(&job));
    if (good && options->reference)
        compare_given(&job, "reference");
    else if (good)
        good = run_kernels(&job);
    if (good && options->out != NULL && !job.violated)
        write_outputs(&job);
    reference_free(&job.reference);
    pool_free(&job.gradients.memory);
    call_free(&job.call);
    return command_end(&job.diag, job.missed);
}
