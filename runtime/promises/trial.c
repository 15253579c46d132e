/* SPDX-License-Identifier: MIT */
/* See trial.h. */
#include "trial.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inputs/elements.h"

bool promise_violated(char why[300], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, 300, format, args);
    va_end(args);
    return false;
}

bool promise_returned(char why[300], const struct kernel_table *call, int error, int expected, const char *format, ...)
{
    const char *const text = call->strerror(error);
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error == expected || promise_violated(why, "%s returns %d (%s), not %d", what, error,
                                                 text != NULL ? text : "no text", expected);
}

size_t trial_count(const struct trial *t, enum layer_tensor tensor)
{
    return inputs_count(t->layer, t->in, tensor);
}

size_t trial_bytes(const struct trial *t, enum layer_tensor tensor)
{
    return inputs_bytes(t->layer, t->in, tensor);
}

size_t trial_cache_bytes(const struct trial *t, int part)
{
    return inputs_cache_bytes(t->layer, t->in, part);
}

double trial_number(const struct trial *t, const void *output, size_t at)
{
    return element_number(t->layer->tensor_type, output, at);
}

void trial_release(struct trial *t)
{
    outputs_free(&t->now);
    guarded_free(&t->scratch);
}

void trial_prepare(struct trial *t, size_t offset, size_t workers)
{
    trial_release(t);
    outputs_make(&t->now, t->layer, t->in, offset);
    guarded_make(&t->scratch, t->call->scratch_bytes_for(workers), offset > 0 ? KERNEL_ALIGNMENT : 0);
}

struct kernel_args trial_args(const struct trial *t, const struct inputs *in)
{
    return outputs_args(&t->now, t->layer, in);
}

bool trial_zones_intact(struct trial *t, const char *what)
{
    const char *outside = outputs_outside(&t->now, t->layer);
    if (outside == NULL && !guarded_zones_intact(&t->scratch))
        outside = "scratch";
    return outside == NULL || violated(t, "%s: wrote outside %s", what, outside);
}

/* Copies the rows of a cache, or the states, that a call's own tokens change. */
static void take_changed(const struct trial *t, int part, unsigned char *kept, const unsigned char *now)
{
    const size_t size = layer_tensor_size(t->layer, inputs_cache_of(t->layer, part));
    const size_t states = trial_cache_bytes(t, part) / (t->in->batch > 0 ? t->in->batch : 1);
    for (size_t b = 0; b < t->in->batch; b++) {
        if (layer_keeps_states(t->layer) && inputs_keys(t->in, b) > 0)
            memcpy(kept + b * states, now + b * states, states);
        for (size_t row = 0; layer_has_cache(t->layer) && row < inputs_keys(t->in, b); row++)
            for (size_t i = 0; i < (size_t)t->layer->h_kv; i++) {
                const size_t at = size * inputs_cache_row(t->layer, t->in, part, b, i,
                                                          inputs_position(t->layer, t->in, b, row));
                memcpy(kept + at, now + at, inputs_cache_width(t->layer, part) * size);
            }
    }
}

/* Whether a call left the cache of `in` unchanged, but for the rows of its own tokens */
static bool cache_kept(struct trial *t, const struct inputs *in, const char *what)
{
    for (int part = 0; part < inputs_cache_parts(t->layer); part++) {
        const enum layer_tensor tensor = inputs_cache_of(t->layer, part);
        const size_t size = layer_tensor_size(t->layer, tensor), bytes = trial_cache_bytes(t, part);
        const unsigned char *now = t->now.cache[part].data;
        HEAP unsigned char *kept = memory_get(bytes, 1);
        memcpy(kept, in->tensor[tensor], bytes);
        take_changed(t, part, kept, now);
        size_t at = 0;
        while (at < bytes && kept[at] == now[at])
            at++;
        if (at < bytes)
            return violated(t, "%s: number %zu of %s changed, which is no token's of the call", what, at / size,
                            layer_tensor_name(tensor));
    }
    return true;
}

/* exact = portable: every number that is written is known */
static bool is_portable(struct trial *t, const struct inputs *in, const char *what)
{
    char why[300];
    OWNED(portable_free) struct portable expected;
    portable_compute(&expected, t->layer, in, NULL);
    const bool good = outputs_are(&t->now, t->layer, in, &expected, why);
    return good || violated(t, "%s: %.240s", what, why);
}

bool trial_forward(struct trial *t, const struct inputs *in, const char *what)
{
    const struct kernel_args args = trial_args(t, in);
    outputs_load(&t->now, t->layer, in);
    return returned(t, t->call->forward(t->packed, &args, t->scratch.data), KERNEL_OK, "%s: forward", what) &&
           trial_zones_intact(t, what) && cache_kept(t, in, what) &&
           (!t->layer->portable || is_portable(t, in, what));
}

bool trial_run_parts(struct trial *t, const struct kernel_args *args)
{
    if (t->call->phases(t->packed, args) == 0 && args->n > 0 && args->batch > 0)
        return violated(t, "a good call has no phases");
    return returned(t, outputs_run_parts(t->call, t->packed, args, t->scratch.data, TRIAL_WORKERS), KERNEL_OK,
                    "a part of a good call: run");
}

bool trial_compare(struct trial *t, const struct inputs *in, int first, int end, const char *what)
{
    struct bounds bounds;
    struct comparison of[OUTPUTS_COMPARED] = {{0}};
    char text[COMPARE_TEXT];
    bool good = true;
    OWNED(reference_free) struct reference reference;
    bounds_compute(&reference, &bounds, t->layer, in, kernel_folds(t->kernel), false);
    outputs_compare(&t->now, t->layer, in, &reference, &bounds, of);
    for (int i = first; good && i < end; i++)
        good = of[i].misses == 0 ||
               violated(t, "%s: %s", what, compare_miss_text(&of[i], "the reference", text));
    return good;
}

bool trial_near(struct trial *t, const struct inputs *in, int first, int end, const char *what)
{
    trial_prepare(t, 8, 1);
    return trial_forward(t, in, what) && trial_compare(t, in, first, end, what);
}

bool trial_same_bits(struct trial *t, const char *what)
{
    const char *other = outputs_differ(&t->now, &t->base, t->layer);
    return other == NULL || violated(t, "%s: %s has other bits", what, other);
}

bool trial_untouched(struct trial *t, const char *what)
{
    const char *written = outputs_written(&t->now, t->layer, t->in);
    if (written == NULL && !guarded_untouched(&t->scratch))
        written = "scratch";
    return written == NULL || violated(t, "%s: refused, but %s was written", what, written);
}
