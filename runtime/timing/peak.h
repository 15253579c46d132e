/* SPDX-License-Identifier: MIT */
/* What one core does now: its multiply-add peak, and how fast it reads memory. Left out on purpose: more than one core,
 * and other types than f32. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether machines of this kind may have the instruction set. */
bool peak_knows(const char *isa);

/* Runs a loop of independent multiply-adds in registers for about 50 µs and returns GFLOP/s (a multiply-add is 2);
 * 0 for an instruction set that this file does not know. The machine must have it. */
double peak_measure(const char *isa);

/* Reads MEMORY_BYTES, more than most L2 caches hold, line by line, and returns GB/s. That falls where the FMA peak does
 * not: when others use the caches, or pages are small. */
#define MEMORY_BYTES ((size_t)2 << 20)
double memory_measure(const void *memory);

/* Reads `bytes` bytes, a multiple of 512, again and again by whole vectors of the set, and returns the best GB/s of
 * five rounds; 0 for a set that this file does not know. `bytes` says what level of the caches they come from. */
double read_measure(const char *isa, const float *numbers, size_t bytes);
