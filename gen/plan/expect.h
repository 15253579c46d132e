/* SPDX-License-Identifier: MIT */
/* What speed the plan's kernel should reach: counts of the instructions and bytes that each step takes, divided by what
 * a core does in a cycle. A pure function of layer, plan and instruction set.
 *
 * Left out on purpose: any decision (plan_make.c), anything measured on the host. The few constants, with sources,
 * stand at the head of expect.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/expect_counts.h"

struct isa;
struct layer;
struct plan;
struct plan_isa;

/* What can hold a step. */
enum expect_bound {
    EXPECT_FMA,   /* the ports that multiply and add */
    EXPECT_LANES, /* the same, where many lanes are idle: padding to vectors, pairs that a mask hides */
    EXPECT_LOADS, /* loads of vectors and of broadcast numbers */
    EXPECT_EXP,   /* the exponential and what else masks and softmax do to each score, on the FMA ports */
    EXPECT_L2,    /* bytes from L2 */
    EXPECT_L3,    /* bytes from L3 */
    EXPECT_CODE,  /* unrolled code that does not fit the instruction cache */
    EXPECT_TILES, /* beginning and ending register tiles, tiles of queries, calls */
    EXPECT_BOUNDS
};

struct expect_step {
    double useful; /* multiply-adds of the plain layer */
    double fmas;   /* vector multiply-adds issued for them */
    double tiles;  /* register tiles */
    double bound[EXPECT_BOUNDS]; /* cycles that each would take alone; of FMA and LANES only one is not 0 */
    double cycles;
    double share;  /* useful / (cycles * the lanes that the ports fill in one) */
    enum expect_bound held_by;
};

struct expect {
    struct expect_step step[EXPECT_STEPS]; /* cycles 0: this layer does not have the step */
    struct expect_step layer;
};

/* Whether some modelled core has the instruction set. */
bool expect_knows(const struct isa *isa);
/* Of one call with `batch` sequences of seq_len queries and source_len keys. expect_knows() must hold for the set. */
void expect_make(struct expect *expect, const struct layer *layer, const struct plan_isa *plan, int64_t batch);
/* A table for each instruction set that it knows, and a line for scripts: "expected avx512 layer 0.913 FMA ports". */
void expect_explain(const struct plan *plan, const struct layer *layer, int64_t batch, FILE *out);

const char *expect_bound_name(enum expect_bound bound);
