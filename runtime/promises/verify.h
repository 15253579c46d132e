/* SPDX-License-Identifier: MIT */
/* A compiled layer against the reference, within the bounds, one instruction set at a time; and the promises of its
 * interface.
 *
 * Left out on purpose: printing, and what becomes of a failure (commands/check.c, sweep/).
 */
#pragma once

#include "reference/compare.h"
#include "kernels/load.h"
#include "against.h"
#include "backward.h"
#include "series.h"

/* Inputs and references of a layer, for every instruction set of its kernel that packs in the same way
 * (inputs_pairs) */
struct subject {
    const struct layer *layer;
    const struct kernel *kernel;
    const struct layer *plain_layer; /* the same layer in f32, or with classical products, whose results, rounded, this
                                      * one's are to be (rounding.h) */
    const struct kernel *plain;      /* NULL: it is not */
    uint64_t seed;
    bool promises; /* are checked, and calls of other sizes compared: `small` and `series` are there */
    struct series_call main;
    struct inputs small; /* for the promises */
    struct reference given; /* of the given weights, if they are packed in another type */
    struct bounds given_bounds;
    struct against against; /* the same layer in f32, if requested */
    struct series series; /* other sizes, other scores */
};

enum verdict {
    VERDICT_GOOD,
    VERDICT_FAILED,  /* `why` or a comparison with misses says how */
    VERDICT_LACKING, /* the machine lacks the instruction set */
    VERDICT_NONE     /* the check itself failed; in diag */
};

struct findings {
    enum verdict verdict;
    bool ran; /* y, attn and lse were computed and compared */
    struct comparison of[OUTPUTS_COMPARED]; /* of the main call, by enum call_output */
    struct backward_figures gradients; /* of a layer that trains */
    struct comparison given; /* y of the main call, compared with the given weights, if packing rounds them */
    struct cost cost;        /* of the layer's types, if requested */
    uint64_t digest;         /* of what the compared calls left: y, attn, lse and a cache */
    char why[300]; /* what else went wrong; "": nothing */
};

/* Draws the inputs, computes reference and bounds. */
void subject_make(struct subject *subject, const struct layer *layer, const struct kernel *kernel,
                  const struct inputs_draw *draw);
/* For the main call alone */
void subject_make_call(struct subject *subject, const struct layer *layer, const struct kernel *kernel,
                       const struct inputs_draw *draw);
/* Requests the cost of the layer's types; to be called before subject_verify(). */
void subject_make_against(struct subject *subject, const struct inputs_draw *draw);
struct findings subject_verify(const struct subject *subject, int isa, struct diag *diag);
/* The same in a process of its own, with a time limit: if the process ends, the kernel has failed. VERDICT_NONE with
 * the reason in `diag`. And that limit in seconds for all calls, as apart_limit() has it. */
struct findings apart_verify(const struct subject *subject, int isa, struct diag *diag);
double apart_verify_limit(const struct subject *subject);
void subject_free(struct subject *subject);
