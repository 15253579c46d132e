/* SPDX-License-Identifier: MIT */
/* One kernel on one set of inputs, which promises run in many ways: what they have in common.
 *
 * Left out on purpose: what is promised (promises.c, values.c, packing.c and others).
 */
#pragma once

#include "outputs.h"

/* Records in `why` which promise is violated, and how; returns false. violated() is for structs that have a member
 * `why`. */
bool promise_violated(char why[300], const char *format, ...) DIAG_PRINTF(2, 3);
#define violated(of, ...) promise_violated((of)->why, __VA_ARGS__)
/* Whether a call returned what it must; else `why` says so after the text. returned() is for structs that have members
 * `why` and `call`. */
bool promise_returned(char why[300], const struct kernel_table *call, int error, int expected, const char *format, ...)
    DIAG_PRINTF(5, 6);
#define returned(of, error, expected, ...) promise_returned((of)->why, (of)->call, error, expected, __VA_ARGS__)

/* Whether finite inputs may give NaN or infinity where the reference has none: an expression may overflow on the way,
 * numbers above 65504 are infinite in an f16 cache, and corrections by keys without a norm make a state grow. */
static inline bool promise_overflows(const struct layer *layer)
{
    const bool grows = layer_corrects(layer) && !layer->projected && layer->qk_norm == NORM_NONE;
    return grows || layer->score != NULL || element_rows[layer->cache_type].too_large != NULL ||
           element_rows[layer->tensor_type].too_large != NULL;
}

struct trial {
    const struct kernel *kernel;
    const struct kernel_table *call;
    const struct layer *layer;
    const struct inputs *in;
    const void *packed;
    int32_t *zeros;           /* [batch]: lengths of a call without keys */
    struct outputs now, base; /* of the current run; of the first one */
    struct guarded scratch;   /* of the current run */
    uint64_t seed;
    char *why; /* [300] */
    struct diag *diag;
};

size_t trial_count(const struct trial *trial, enum layer_tensor tensor);
size_t trial_bytes(const struct trial *trial, enum layer_tensor tensor);
size_t trial_cache_bytes(const struct trial *trial, int part);
/* An element of y or attn, of any run */
double trial_number(const struct trial *trial, const void *output, size_t at);

/* Fresh outputs, and scratch for `workers` workers. With an offset outputs are `offset` bytes off a boundary, and
 * nothing is more aligned than it must be. */
void trial_prepare(struct trial *trial, size_t offset, size_t workers);
void trial_release(struct trial *trial);
struct kernel_args trial_args(const struct trial *trial, const struct inputs *in);
/* Runs a good call, which must write its own numbers alone. */
bool trial_forward(struct trial *trial, const struct inputs *in, const char *what);
/* Runs all parts of a good call, the last of each phase first. */
#define TRIAL_WORKERS 5
bool trial_run_parts(struct trial *trial, const struct kernel_args *args);
bool trial_zones_intact(struct trial *trial, const char *what);
/* Whether what a call of `in` has left is within the bounds of the reference, from output `first` to end-1; and the
 * same of a good call that is run. */
bool trial_compare(struct trial *trial, const struct inputs *in, int first, int end, const char *what);
bool trial_near(struct trial *trial, const struct inputs *in, int first, int end, const char *what);
bool trial_same_bits(struct trial *trial, const char *what);
/* Whether a call that was refused wrote nothing */
bool trial_untouched(struct trial *trial, const char *what);
