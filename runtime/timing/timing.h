/* SPDX-License-Identifier: MIT */
/* What it takes to time a kernel on one core: memory, one layer ready to be called, statistics.
 *
 * The cache state is always the same: warm. Inputs, packed weights, scratch and outputs stay where they are from call
 * to call, so that each cache level holds as much of them as fits. Left out on purpose: the order of measurements
 * (bench.c, rounds.c), and more than one core.
 */
#pragma once

#include "inputs/inputs.h"
#include "kernels/load.h"
#include "quiet.h"

#define DEFAULT_ROUNDS 15

/* Zeroed, in huge pages where the system gives them: fewer TLB misses, less noise. free() it. */
void *large_pages(size_t bytes);

/* Pins the process to its current core; returns that core's number, -1 if it is unknown. */
int pin_to_this_core(void);

/* Runs multiply-adds until the clock has settled. */
#define SETTLE_US 2e4
void settle_clock(const char *isa);

/* A layer with everything that a call of it needs. */
struct timed {
    const struct layer *layer;
    const struct kernel_table *call;
    struct inputs inputs;
    struct pool memory; /* of what follows */
    struct kernel_args args;
    void *packed, *scratch;
    void *out[OUTPUTS]; /* NULL those that the layer cannot have */
    bool backward;   /* backward is timed, on what a call of forward has saved; else forward */
    struct kernel_grads grads;
    float *dy, *saved, *gradient[TENSOR_COUNT];
    void *back; /* its scratch */
    const char *isa; /* the packed one's name */
    size_t repeats;  /* calls in one sample; a short layer is called several times */
};

/* Draws the inputs and allocates memory. False with the reason in `diag`; call timed_free() in any case. */
bool timed_make(struct timed *timed, const struct layer *layer, const struct kernel_table *call,
                const struct inputs_draw *draw, struct diag *diag);
/* Times backward from now on, for a layer that trains. */
void timed_backward(struct timed *timed);
/* Packs for one instruction set and calls once. False if the machine lacks it, or with the reason in `diag`. */
bool timed_pack(struct timed *timed, int isa, struct diag *diag);
/* Bytes that calls of a layer with these inputs access, without plain weights */
size_t timed_bytes(const struct layer *layer, const struct kernel_table *call, const struct inputs *inputs);
/* Frees the plain weights, which only packing needs. */
void timed_drop_weights(struct timed *timed);
/* Chooses the repeats from a first call, which also warms up; returns the approximate µs of one call. */
double timed_calibrate(struct timed *timed);
/* One sample, with the caches as the previous code left them */
struct sample timed_sample(const struct timed *timed);
/* One sample after an untimed call, with warm caches, between two measurements of the peak */
struct sample timed_sample_warm(const struct timed *timed);
struct sample timed_sample_with_peak(const struct timed *timed);
void timed_free(struct timed *timed);

/* Number of rounds to measure: as many as fit the time, at least `min`, at most 1000 */
size_t rounds_for(double fitting, size_t min);
