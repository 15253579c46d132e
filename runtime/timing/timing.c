/* SPDX-License-Identifier: MIT */
#include "timing.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "peak.h"
#include "system/clock.h"
#include "base/memory.h"

#define MIN_SAMPLE_US 50 /* the clock's own cost is below 0.1 % of this */
#define ROUND_LIMIT 1000

void *large_pages(size_t bytes)
{
    const size_t page = (size_t)2 << 20, alignment = bytes >= page ? page : KERNEL_ALIGNMENT;
    const size_t rounded = (bytes + alignment) / alignment * alignment;
    void *memory = memory_there(aligned_alloc(alignment, rounded));
    if (alignment == page)
        madvise(memory, rounded, MADV_HUGEPAGE);
    return memset(memory, 0, rounded);
}

int pin_to_this_core(void)
{
    const int core = sched_getcpu();
    cpu_set_t set;
    CPU_ZERO(&set);
    if (core >= 0) {
        CPU_SET(core, &set);
        sched_setaffinity(0, sizeof set, &set); /* a refusal costs only accuracy */
    }
    return core;
}

void settle_clock(const char *isa)
{
    for (double end = now_us() + SETTLE_US; now_us() < end;)
        peak_measure(isa);
}

/* ---- a layer ready to be called -------------------------------------------------------------------------------- */

static void *pages_of(struct timed *timed, size_t bytes) { return pool_take(&timed->memory, large_pages(bytes)); }

bool timed_make(struct timed *timed, const struct layer *layer, const struct kernel_table *call,
                const struct inputs_draw *draw, struct diag *diag)
{
    *timed = (struct timed){.layer = layer, .call = call, .repeats = 1};
    if (!inputs_fit(layer, draw, true, layer->name, diag))
        return false;
    inputs_draw(&timed->inputs, layer, draw, NULL);
    timed->packed = pages_of(timed, call->packed_bytes);
    timed->scratch = pages_of(timed, call->scratch_bytes);
    for (int i = 0; i < inputs_outputs(layer); i++) {
        const enum layer_tensor tensor = inputs_output(layer, i);
        const size_t bytes = inputs_bytes(layer, &timed->inputs, tensor);
        timed->out[i] = pages_of(timed, bytes);
        if (i >= OUTPUT_CACHE)
            memcpy(timed->out[i], timed->inputs.tensor[tensor], bytes);
    }
    timed->args = kernel_args_of(layer, &timed->inputs, timed->out);
    return true;
}

void timed_backward(struct timed *timed)
{
    const struct layer *layer = timed->layer;
    const struct inputs *in = &timed->inputs;
    const size_t dy = inputs_count(layer, in, TENSOR_Y), saved = in->batch * in->n * timed->call->saved_floats;
    struct random random = {1};
    timed->dy = pages_of(timed, dy * sizeof(float));
    timed->args.saved = timed->saved = pages_of(timed, saved * sizeof(float));
    timed->back = pages_of(timed, timed->call->back_scratch_bytes_for(1));
    for (size_t i = 0; i < dy; i++)
        timed->dy[i] = (float)random_normal(&random);
    timed->grads.dy = timed->dy;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        if (!layer_has_gradient(layer, t))
            continue;
        timed->grads.tensor[t] = timed->gradient[t] = pages_of(timed, inputs_count(layer, in, t) * sizeof(float));
    }
    timed->backward = true;
}

/* What is timed, once. */
static int call_timed(const struct timed *timed)
{
    if (timed->backward)
        return timed->call->backward(timed->packed, &timed->args, &timed->grads, timed->back);
    return timed->call->forward(timed->packed, &timed->args, timed->scratch);
}

bool timed_pack(struct timed *timed, int isa, struct diag *diag)
{
    const struct kernel_weights weights = kernel_weights_of(&timed->inputs);
    int error = timed->call->pack(timed->packed, &weights, isa);
    if (error == KERNEL_ISA)
        return false;
    if (error == KERNEL_OK)
        error = timed->call->forward(timed->packed, &timed->args, timed->scratch);
    if (error == KERNEL_OK && timed->backward)
        error = call_timed(timed);
    if (error != KERNEL_OK)
        return diag_error(diag, timed->layer->name, "the kernel refuses: %s", timed->call->strerror(error));
    timed->isa = timed->call->isa_name(timed->call->isa(timed->packed));
    return true;
}

static bool is_weight(enum layer_tensor tensor)
{
    const enum tensor_kind kind = layer_tensor_row(tensor)->kind;
    return kind == TENSOR_WEIGHT || kind == TENSOR_BIAS;
}

void timed_drop_weights(struct timed *timed)
{
    for (int t = 0; t < TENSOR_COUNT; t++) {
        if (!is_weight(t))
            continue;
        free(timed->inputs.tensor[t]);
        timed->inputs.tensor[t] = NULL;
    }
}

size_t timed_bytes(const struct layer *layer, const struct kernel_table *call, const struct inputs *inputs)
{
    size_t bytes = call->packed_bytes + call->scratch_bytes;
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (!is_weight(t)) /* of a cache not all, but no more */
            bytes += inputs_count(layer, inputs, t) * layer_tensor_size(layer, t);
    return bytes;
}

struct sample timed_sample(const struct timed *timed)
{
    const struct stopwatch watch = stopwatch_start();
    for (size_t r = 0; r < timed->repeats; r++)
        call_timed(timed);
    return stopwatch_stop(&watch, timed->repeats);
}

struct sample timed_sample_warm(const struct timed *timed)
{
    call_timed(timed);
    return timed_sample(timed);
}

struct sample timed_sample_with_peak(const struct timed *timed)
{
    call_timed(timed);
    const double before = peak_measure(timed->isa);
    struct sample sample = timed_sample(timed);
    sample.peak = (before + peak_measure(timed->isa)) / 2;
    return sample;
}

double timed_calibrate(struct timed *timed)
{
    timed->repeats = 1;
    timed_sample(timed);
    double us = timed_sample(timed).us;
    while (us * (double)timed->repeats < MIN_SAMPLE_US && timed->repeats < 100000) {
        timed->repeats = (size_t)(MIN_SAMPLE_US / fmax(us, 0.01)) + 1;
        us = timed_sample(timed).us;
        if (us * (double)timed->repeats >= MIN_SAMPLE_US / 2.0)
            break;
    }
    return us;
}

void timed_free(struct timed *timed)
{
    inputs_free(&timed->inputs);
    pool_free(&timed->memory);
    *timed = (struct timed){0};
}

size_t rounds_for(double fitting, size_t min)
{
    const size_t wanted = fitting > ROUND_LIMIT ? ROUND_LIMIT : (size_t)fitting;
    const size_t rounds = wanted > min ? wanted : min;
    return rounds > 0 ? rounds : 1;
}
