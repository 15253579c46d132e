/* SPDX-License-Identifier: MIT */
/* The roofline of a call: what one core could do for each of its steps, and what they take (Williams, Waterman,
 * Patterson: Roofline, CACM 52, 2009). A step of F operations that moves B bytes takes at least
 *
 *     max(F / peak, B / rate)
 *
 * rate: how fast the core reads from the smallest level of memory that holds all that the call accesses.
 *
 * Left out on purpose: measuring (commands/bench.c), more than one core.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct diag;

enum roof_level { ROOF_L1, ROOF_L2, ROOF_L3, ROOF_MEMORY, ROOF_LEVELS };

#define ROOF_POINTS 64 /* steps of a call, and the layer as a whole */

/* One call of a layer, measured with one instruction set */
struct roof {
    char isa[16];
    size_t n;
    int64_t past;             /* below 0: the layer has no cache */
    double peak;              /* GFLOP/s, a multiply-add counts 2 */
    double size[ROOF_LEVELS]; /* bytes; 0: the machine does not tell, or lacks the level */
    double rate[ROOF_LEVELS]; /* GB/s; 0 where size is 0 */
    double accessed;          /* bytes that a call accesses, with its scratch */
    size_t count;
    struct roof_point {
        char step[24];
        double us, flops, bytes; /* bytes: each number that the step reads or writes, once; 0: not counted */
    } points[ROOF_POINTS];
};

/* Sets sizes of the levels, and their rates where they are higher than those of a measurement before: reads for about
 * 100 ms. */
void roof_measure(struct roof *roof);
/* The level that a call's numbers come from */
enum roof_level roof_level(const struct roof *roof);
/* The least µs of a step; *by_memory: what is moved takes them, not what is computed. NaN: bytes are not counted. */
double roof_least(const struct roof *roof, const struct roof_point *point, bool *by_memory);
/* Prints a table, or a line of JSON for each step. */
void roof_print(const struct roof *roof, const char *layer, bool json, FILE *out);
/* Draws the steps of calls with one instruction set, under the roofs of the first one, as SVG; whole or not at all. */
bool roof_draw(const struct roof *roofs, size_t count, const char *layer, const char *path, struct diag *diag);
