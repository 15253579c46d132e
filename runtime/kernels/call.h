/* SPDX-License-Identifier: MIT */
/* One call of a layer on the tensors of a file: the inputs, a kernel, room for what it computes.
 *
 * Left out on purpose: what is done with the results, drawn inputs (inputs.h).
 */
#pragma once

#include "compile.h"
#include "inputs/inputs.h"
#include "inputs/weights.h"

struct call {
    struct layer *layer;
    struct tensors file;
    struct inputs inputs;
    void *out[OUTPUTS]; /* as the call leaves them; empty those that the layer lacks, NULL parts that a cache lacks */
    size_t out_bytes[OUTPUTS];
    const float *dy;       /* from the file; NULL: it has none, and there are no gradients */
    float *gradient[TENSOR_COUNT];
    size_t gradient_bytes[TENSOR_COUNT];
    struct kernel kernel; /* none until compile_kernel() */
    char why[80];         /* how a kernel ended that is CALL_BROKEN */
};

/* Reads the spec with its overrides, the tensors of file `in` and, if its path is not NULL, of the file of weights;
 * allocates y and attn. Call call_free() in any case. */
bool call_read(struct call *call, const char *spec, const struct compile_options *compile, const char *in,
               const struct weights_choice *weights, struct diag *diag);

#define CALL_LACKS (-1)  /* this machine does not have the instruction set */
#define CALL_BROKEN (-2) /* the kernel crashed or did not end */
/* Packs and runs with the set *isa, 0 for the best, in a process of its own. *isa becomes the one that ran, CALL_LACKS
 * or CALL_BROKEN. `in` is named in messages. */
bool call_run(struct call *call, int *isa, const char *in, struct diag *diag);
/* Why a requested instruction set is skipped: the layer's pair cannot have it, or the machine lacks it. */
const char *call_why_skipped(const struct layer *layer, size_t isa_row);
/* Reports that no instruction set could be run. */
void call_report_no_isa(const char *spec, struct diag *diag);
/* The cache as it was before any call. */
void call_reset_cache(struct call *call);
void call_free(struct call *call);
