/* SPDX-License-Identifier: MIT */
/* One call of a layer on the tensors of a file. */
#include "call.h"

#include <stdlib.h>

/* The weights of a file of their own, if one is given, join what `in` holds. */
static bool add_weights(struct call *call, const struct weights_choice *choice, const char *in, struct diag *diag)
{
    struct tensors weights;
    const size_t errors = diag->errors;
    if (choice->path == NULL) {
        if (choice->prefix != NULL || choice->zero_bias)
            diag_error(diag, "command line", "--prefix and --zero-bias are about --weights FILE, which is not given");
        return diag->errors == errors;
    }
    if (!weights_read(&weights, call->layer, choice, diag))
        return false;
    for (size_t i = 0; i < weights.count; i++)
        if (tensors_find(&call->file, weights.items[i].name) != NULL)
            diag_error(diag, in, "holds %s, and --weights gives it too; one of them is needed", weights.items[i].name);
    if (diag->errors == errors && !tensors_join(&call->file, &weights))
        diag_environment(diag, NULL, "out of memory");
    tensors_free(&weights);
    return diag->errors == errors;
}

bool call_read(struct call *call, const char *spec, const struct compile_options *compile, const char *in,
               const struct weights_choice *weights, struct diag *diag)
{
    *call = (struct call){.layer = layer_read(spec, compile->set, compile->set_count, diag)};
    if (call->layer == NULL || !tensors_read(&call->file, in, diag) || !add_weights(call, weights, in, diag) ||
        !inputs_from_tensors(&call->inputs, call->layer, &call->file, in, diag))
        return false;
    call->y = malloc(inputs_count(call->layer, &call->inputs, TENSOR_Y) * sizeof(float) + 1);
    call->attn = malloc(inputs_count(call->layer, &call->inputs, TENSOR_ATTN) * sizeof(float) + 1);
    if (call->y == NULL || call->attn == NULL)
        diag_environment(diag, NULL, "out of memory");
    return call->y != NULL && call->attn != NULL;
}

bool call_run(struct call *call, int *isa, const char *in, struct diag *diag)
{
    const struct kernel_table *kernel = call->kernel.call;
    const struct kernel_weights weights = kernel_weights_of(&call->inputs);
    const struct kernel_args args = kernel_args_of(call->layer, &call->inputs, call->y, call->attn);
    const size_t errors = diag->errors;
    void *packed = aligned_alloc(KERNEL_ALIGNMENT, (kernel->packed_bytes + KERNEL_ALIGNMENT) / 64 * 64);
    void *scratch = aligned_alloc(KERNEL_ALIGNMENT, (kernel->scratch_bytes + KERNEL_ALIGNMENT) / 64 * 64);
    int error = KERNEL_OK;
    if (packed == NULL || scratch == NULL) {
        diag_environment(diag, NULL, "out of memory");
    } else if ((error = kernel->pack(packed, &weights, *isa)) == KERNEL_ISA) {
        *isa = CALL_LACKS;
    } else if (error != KERNEL_OK) {
        diag_error(diag, in, "the weights are refused: %s", kernel->strerror(error));
    } else if ((error = kernel->forward(packed, &args, scratch)) != KERNEL_OK) {
        diag_error(diag, in, "the call is refused: %s", kernel->strerror(error));
    } else if (*isa == 0) {
        *isa = kernel->isa(packed);
    }
    free(packed);
    free(scratch);
    return diag->errors == errors;
}

void call_report_no_isa(const char *spec, struct diag *diag)
{
    diag_environment(diag, spec, "this machine has none of the instruction sets asked for");
}

void call_free(struct call *call)
{
    kernel_unload(&call->kernel);
    tensors_free(&call->file);
    inputs_free(&call->inputs);
    free(call->y);
    free(call->attn);
    layer_free(call->layer);
}
