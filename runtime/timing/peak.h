/* SPDX-License-Identifier: MIT */
/* The multiply-add peak of one core. Left out on purpose: peaks of more than one core, and of other types than f32. */
#ifndef ATTNRUN_PEAK_H
#define ATTNRUN_PEAK_H

/* Runs a loop of independent multiply-adds in registers for about 50 µs and returns GFLOP/s (a multiply-add is 2);
 * 0 for an instruction set that this file does not know. The machine must have it. */
double peak_measure(const char *isa);

#endif
