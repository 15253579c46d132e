/* SPDX-License-Identifier: MIT */
/* What it takes to time a kernel on one core: memory, one layer ready to be called, statistics.
 *
 * The cache state is always the same: warm. Inputs, packed weights, scratch and outputs stay where they are from call
 * to call, so that each cache level holds as much of them as fits. Left out on purpose: in which order what is timed
 * (bench.c, rounds.c), and more than one core.
 */
#ifndef ATTNRUN_TIMING_H
#define ATTNRUN_TIMING_H

#include "clock.h"
#include "inputs/inputs.h"
#include "kernels/load.h"
#include "quiet.h"

#define DEFAULT_ROUNDS 15

/* Zeroed, in huge pages where the system gives them: fewer TLB misses, less noise. free() it; NULL without memory. */
void *large_pages(size_t bytes);

/* Stays on the core that runs it now; returns that core's number, -1 where it is not known. */
int pin_to_this_core(void);

/* Runs multiply-adds until the clock has settled. */
#define SETTLE_US 2e4
void settle_clock(const char *isa);

/* A layer with everything that a call of it needs. */
struct timed {
    const struct layer *layer;
    const struct kernel_table *call;
    struct inputs inputs;
    struct kernel_args args;
    void *packed, *scratch;
    float *y, *attn, *lse;
    void *cache[CACHE_PARTS]; /* NULL those that the layer lacks */
    bool backward;   /* what is timed: backward, on what a call of forward has kept; else forward */
    struct kernel_grads grads;
    float *dy, *saved, *gradient[TENSOR_COUNT];
    void *back; /* its scratch */
    const char *isa; /* the packed one's name */
    size_t repeats;  /* calls in one sample: a short layer is called several times */
};

/* Draws the inputs and makes room. False with the reason in `diag`; timed_free() in any case. */
bool timed_make(struct timed *timed, const struct layer *layer, const struct kernel_table *call,
                const struct inputs_draw *draw, struct diag *diag);
/* From now on backward is timed, of a layer that trains. False with the reason in `diag`. */
bool timed_backward(struct timed *timed, struct diag *diag);
/* Packs for one instruction set and calls once. False when the machine lacks it, or with the reason in `diag`. */
bool timed_pack(struct timed *timed, int isa, struct diag *diag);
/* Bytes that calls of a layer with these inputs go over; plain weights are not among them. */
size_t timed_bytes(const struct layer *layer, const struct kernel_table *call, const struct inputs *inputs);
/* Gives back the plain weights; they are needed only to pack. */
void timed_drop_weights(struct timed *timed);
/* Decides the repeats from a first call, which also warms up; returns the µs of one call, about. */
double timed_calibrate(struct timed *timed);
/* One sample; its first call finds what ran before in the caches. */
struct sample timed_sample(const struct timed *timed);
/* The same behind an untimed call, with warm caches, and between two measurements of the peak. */
struct sample timed_sample_warm(const struct timed *timed);
struct sample timed_sample_with_peak(const struct timed *timed);
void timed_free(struct timed *timed);

/* How many rounds to measure: as many as fit the time, but at least `least`, at most 1000. */
size_t rounds_for(double fitting, size_t min);

/* Sorts the values. */
void sort_ascending(double *values, size_t count);
/* The q-quantile of sorted values. */
double quantile(const double *sorted, size_t count, double q);

#endif
