/* SPDX-License-Identifier: MIT */
/* One call of a layer on the tensors of a file. */
#include "call.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "apart.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "system/cpu.h"
#include "system/process.h"

/* Reads the separate file of weights, if there is one; they override those of the file of tensors. */
static bool add_weights(struct call *call, const struct weights_choice *choice, struct diag *diag)
{
    const size_t errors = diag->errors;
    if (choice->path == NULL) {
        if (choice->prefix != NULL || choice->zero_bias || choice->norm_plus_one)
            diag_error(diag, "command line",
                       "--prefix, --zero-bias and --norm-plus-one are about --weights FILE, which is "
                       "not given");
        return diag->errors == errors;
    }
    OWNED(tensors_free) struct tensors weights;
    if (!weights_read(&weights, call->layer, choice, diag))
        return false;
    for (size_t i = 0; i < weights.count; i++)
        tensors_remove(&call->file, weights.items[i].name);
    tensors_join(&call->file, &weights);
    return diag->errors == errors;
}

/* Memory that a child process fills for us */
static void *shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory_there(memory != MAP_FAILED ? memory : NULL);
}

static void unshare(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, bytes + 1);
}

/* Memory for gradients, if the file has a dy */
static bool make_gradients(struct call *call, const char *in, struct diag *diag)
{
    const size_t errors = diag->errors;
    const struct tensor *dy = call->layer->train ? tensors_find(&call->file, "dy") : NULL;
    call->dy = dy != NULL ? dy->data : NULL;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        char name[40];
        if (!layer_has_gradient(call->layer, t))
            continue;
        snprintf(name, sizeof name, "d%s", layer_tensor_name(t));
        if (tensors_find(&call->file, name) != NULL && dy == NULL)
            diag_error(diag, in, "there is \"%s\", but no \"dy\" that it could be a gradient of; add that, or leave "
                       "it out", name);
        if (dy == NULL)
            continue;
        call->gradient_bytes[t] = inputs_count(call->layer, &call->inputs, t) * sizeof(float);
        call->gradient[t] = shared(call->gradient_bytes[t]);
    }
    return diag->errors == errors;
}

bool call_read(struct call *call, const char *spec, const struct compile_options *compile, const char *in,
               const struct weights_choice *weights, struct diag *diag)
{
    *call = (struct call){.layer = layer_read(spec, compile->set, compile->set_count, diag)};
    if (call->layer == NULL || !tensors_read(&call->file, in, diag) || !add_weights(call, weights, diag) ||
        !inputs_from_tensors(&call->inputs, call->layer, &call->file, in, diag))
        return false;
    for (int i = 0; i < inputs_outputs(call->layer); i++) {
        call->out_bytes[i] = inputs_bytes(call->layer, &call->inputs, inputs_output(call->layer, i));
        call->out[i] = shared(call->out_bytes[i]);
    }
    call_reset_cache(call);
    return make_gradients(call, in, diag);
}

void call_reset_cache(struct call *call)
{
    for (int i = OUTPUT_CACHE; i < inputs_outputs(call->layer); i++)
        memcpy(call->out[i], call->inputs.tensor[inputs_output(call->layer, i)], call->out_bytes[i]);
}

/* Message to and answer from the process of a call */
struct errand {
    const struct call *call;
    int isa;
    bool environment;
    char refusal[200]; /* "": it ran, or lacks the instruction set */
};

static void refuse(struct errand *errand, bool environment, const char *what, const char *why)
{
    errand->environment = environment;
    snprintf(errand->refusal, sizeof errand->refusal, "%s%s", what, why);
}

static int run_backward(const struct call *call, const void *packed, const struct kernel_args *args)
{
    struct kernel_grads grads = {.dy = call->dy};
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (call->gradient[t] != NULL) {
            memset(call->gradient[t], 0, call->gradient_bytes[t]); /* to which it is added */
            grads.tensor[t] = call->gradient[t];
        }
    const size_t bytes = call->kernel.call->back_scratch_bytes_for(1);
    HEAP void *scratch = aligned_alloc(KERNEL_ALIGNMENT, (bytes + KERNEL_ALIGNMENT) / 64 * 64);
    return scratch != NULL ? call->kernel.call->backward(packed, args, &grads, scratch) : KERNEL_NULL;
}

static void pack_and_run(void *context, FILE *answer)
{
    struct errand *errand = context;
    const struct call *call = errand->call;
    const struct kernel_table *kernel = call->kernel.call;
    const struct kernel_weights weights = kernel_weights_of(&call->inputs);
    struct kernel_args args = kernel_args_of(call->layer, &call->inputs, call->out);
    const size_t saved = call->dy != NULL ? call->inputs.batch * call->inputs.n * kernel->saved_floats : 0;
    if (call->layer->train) /* other layers have other fields in its place */
        args.saved = call->dy != NULL ? malloc(saved * sizeof(float) + 1) : NULL;
    void *packed = aligned_alloc(KERNEL_ALIGNMENT, (kernel->packed_bytes + KERNEL_ALIGNMENT) / 64 * 64);
    void *scratch = aligned_alloc(KERNEL_ALIGNMENT, (kernel->scratch_bytes + KERNEL_ALIGNMENT) / 64 * 64);
    int error = KERNEL_OK;
    process_limit(apart_limit(call->layer, &call->inputs, 1));
    if (packed == NULL || scratch == NULL || (call->dy != NULL && args.saved == NULL))
        refuse(errand, true, "out of memory", "");
    else if ((error = kernel->pack(packed, &weights, errand->isa)) == KERNEL_ISA)
        errand->isa = CALL_LACKS;
    else if (error != KERNEL_OK)
        refuse(errand, false, "the weights are refused: ", kernel->strerror(error));
    else if ((error = kernel->forward(packed, &args, scratch)) != KERNEL_OK)
        refuse(errand, false, "the call is refused: ", kernel->strerror(error));
    else if (call->dy != NULL && (error = run_backward(call, packed, &args)) != KERNEL_OK)
        refuse(errand, false, "backward is refused: ", kernel->strerror(error));
    else if (errand->isa == 0)
        errand->isa = kernel->isa(packed);
    fwrite(errand, sizeof *errand, 1, answer);
}

bool call_run(struct call *call, int *isa, const char *in, struct diag *diag)
{
    struct errand errand = {.call = call, .isa = *isa};
    OWNED(process_forget) struct process_result result = {0};
    const size_t errors = diag->errors;
    call_reset_cache(call);
    if (!process_call(&result, pack_and_run, &errand, NULL, diag))
        return false;
    const char *why = process_unanswered(&result, sizeof errand, call->why);
    if (why == NULL)
        memcpy(&errand, result.output, sizeof errand);
    else if (process_stopped(&result))
        refuse(&errand, true, why, ", by someone or for want of memory");
    else
        errand.isa = CALL_BROKEN;
    if (errand.refusal[0] != '\0')
        (errand.environment ? diag_environment : diag_error)(diag, in, "%s", errand.refusal);
    *isa = errand.isa;
    return diag->errors == errors;
}

const char *call_why_skipped(const struct layer *layer, size_t isa_row)
{
    if ((plan_isas(layer, isa_all()) >> isa_row & 1u) != 0)
        return !cpu_may_have(&isa_table[isa_row]) ? "this machine lacks it"
               : layer->precision == PRECISION_BF16   ? "this machine lacks it, or its dot product of bf16"
               : layer_sums_whole(layer)              ? "this machine lacks it, or its dot product of whole numbers"
                                                      : "this machine lacks it, or what the layer's types ask of it";
    return layer->precision == PRECISION_BF16 ? "the pair has no such set, which has no dot product of bf16"
           : (isa_of_tiles() >> isa_row & 1u) != 0 ? "the pair has no such set, as it has no products of bytes"
                                                   : "the pair has no such set, as it has no products of whole numbers";
}

void call_report_no_isa(const char *spec, struct diag *diag)
{
    diag_environment(diag, spec, "none of the requested instruction sets can run here; --isa scalar runs on every "
                     "machine");
}

void call_free(struct call *call)
{
    kernel_unload(&call->kernel);
    tensors_free(&call->file);
    inputs_free(&call->inputs);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        unshare(call->gradient[t], call->gradient_bytes[t]);
    for (int i = 0; i < OUTPUTS; i++)
        unshare(call->out[i], call->out_bytes[i]);
    layer_free(call->layer);
}
