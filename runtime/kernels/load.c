/* SPDX-License-Identifier: MIT */
/* dlopen, and what a call is given, from inputs. */
#include "load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apart.h"
#include "base/memory.h"
#include "plan/isa.h"
#include "system/process.h"

#define LOADING 60 /* seconds that it may take */

/* In a process of its own, which loading the library may end, as AddressSanitizer does */
static void try_library(void *path, FILE *answer)
{
    process_limit(apart_seconds(LOADING));
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL)
        fputs(dlerror(), answer);
    else
        putc('\n', answer);
}

/* Whether it can be loaded */
static bool can_be_loaded(const char *path, bool *crashed, struct diag *diag)
{
    OWNED(process_forget) struct process_result result = {0};
    char text[80];
    if (!process_call(&result, try_library, (void *)path, NULL, diag))
        return false;
    const char *why = process_unanswered(&result, result.size > 0 ? result.size : 1, text);
    const bool good = why == NULL && result.output[0] == '\n';
    *crashed = result.signal != 0 && !process_stopped(&result);
    if (!good)
        diag_environment(diag, path, "cannot be loaded: %s", why != NULL ? why : result.output);
    return good;
}

bool kernel_load(struct kernel *kernel, const char *path, const char *name, struct diag *diag)
{
    *kernel = (struct kernel){0};
    if (!can_be_loaded(path, &kernel->crashed, diag))
        return false;
    kernel->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (kernel->library == NULL)
        return diag_environment(diag, path, "cannot be loaded: %s", dlerror());
    kernel->file = open(path, O_RDONLY | O_CLOEXEC);
    HEAP char *table = text_join("%s_table", name);
    kernel->call = dlsym(kernel->library, table);
    if (kernel->call != NULL && kernel->call->version == KERNEL_INTERFACE_VERSION)
        return true;
    if (kernel->call == NULL)
        diag_environment(diag, path, "has no %s_table, which attngen --shim writes", name);
    else
        diag_environment(diag, path, "has interface version %zu, this attnrun calls version %d; generate it again with "
                         "the attngen of this attnrun", kernel->call->version, KERNEL_INTERFACE_VERSION);
    kernel_unload(kernel);
    return false;
}

void kernel_unload(struct kernel *kernel)
{
    if (kernel->library != NULL) {
        dlclose(kernel->library);
        if (kernel->file >= 0)
            close(kernel->file);
    }
    *kernel = (struct kernel){0};
}

int kernel_isa(const struct kernel_table *call, const char *name)
{
    const struct isa *isa = isa_find(name);
    return isa != NULL && call->isa_name(isa->id) != NULL ? isa->id : 0;
}

struct folds kernel_folds(const struct kernel *kernel)
{
    if (kernel->call == NULL)
        return (struct folds){0};
    const struct latent_form expands = {kernel->call->expands.least, kernel->call->expands.gain,
                                        kernel->call->expands.price};
    return (struct folds){.scores = kernel->call->folds_scores, .values = kernel->call->folds_values,
                          .expands = expands};
}

struct kernel_weights kernel_weights_of(const struct inputs *in)
{
    struct kernel_weights weights = {.tables = NULL};
    memcpy(weights.tensor, in->tensor, sizeof in->tensor);
    if (in->tensor[TENSOR_TABLE] != NULL) /* one after the other in the layer's order */
        weights.tables = (const float *const *)&in->tensor[TENSOR_TABLE];
    return weights;
}

struct kernel_args kernel_args_of(const struct layer *layer, const struct inputs *in, void *const outputs[OUTPUTS])
{
    struct kernel_args args = {.batch = in->batch, .n = in->n, .m = in->m, .pages = in->pages, .seed = in->seed};
    memcpy(args.tensor, in->tensor, sizeof in->tensor);
    memcpy(args.mask_batch, in->mask_batch, sizeof in->mask_batch);
    memcpy(args.mask_h, in->mask_h, sizeof in->mask_h);
    for (int i = 0; i < inputs_outputs(layer); i++)
        if (i < OUTPUT_CACHE || outputs[OUTPUT_CACHE] != NULL)
            args.tensor[inputs_output(layer, i)] = outputs[i];
    return args;
}

uint64_t kernel_digest(uint64_t digest, const struct layer *layer, const struct inputs *in,
                       const struct kernel_args *args, const struct kernel_grads *grads)
{
    for (int i = 0; i < inputs_outputs(layer); i++) {
        const enum layer_tensor t = inputs_output(layer, i);
        digest = element_digest(digest, layer_tensor_element(layer, t), args->tensor[t], inputs_count(layer, in, t));
    }
    for (enum layer_tensor t = 0; grads != NULL && t < TENSOR_COUNT; t++)
        if (layer_has_gradient(layer, t))
            digest = element_digest(digest, TENSOR_F32, grads->tensor[t], inputs_count(layer, in, t));
    return digest;
}

struct kernel_args kernel_args_of_sequence(const struct layer *layer, const struct inputs *in, struct kernel_args args,
                                           size_t b)
{
    args.batch = 1;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const bool pairs = layer_tensor_row(t)->kind == TENSOR_OF_PAIRS;
        const size_t extent = pairs ? in->mask_batch[t] : in->batch;
        const bool shared = layer_tensor_row(t)->kind == TENSOR_CACHE && layer->cache == CACHE_PAGED;
        if (tensor_is_packed(layer_tensor_row(t)->kind) || args.tensor[t] == NULL || extent <= 1 || shared)
            continue;
        const size_t bytes = inputs_count(layer, in, t) / extent * layer_tensor_size(layer, t);
        args.tensor[t] = (char *)args.tensor[t] + b * bytes;
        args.mask_batch[t] = 1;
    }
    return args;
}
