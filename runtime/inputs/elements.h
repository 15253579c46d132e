/* SPDX-License-Identifier: MIT */
/* Reads, rounds and writes numbers of a tensor in its type in memory, as doubles.
 *
 * Left out on purpose: packed weights, which only kernels have (reference/stored.h).
 */
#pragma once

#include "spec/layer.h"

/* Number `at` of an array of f32, bf16, f16 or i8. */
double element_number(enum tensor_element type, const void *data, size_t at);
/* The bits of its NaN, a floating type's. */
uint32_t element_nan(enum tensor_element type);
/* Writes the nearest number of the type, ties to even. NaN stays NaN, in i8 it becomes 0; numbers that are too large
 * become infinite, in i8 127. */
void element_put(enum tensor_element type, void *data, size_t at, double number);
/* The nearest number of `bits` significant bits that is a multiple of 2^lowest, ties to even */
double element_nearest(double number, int bits, int lowest);
/* A digest continued by `count` numbers, each as a little-endian word: FNV-1a of 64 bits, byte by byte, NaN being one
 * word whatever its bits are. It begins with DIGEST_OF_NOTHING. */
#define DIGEST_OF_NOTHING UINT64_C(0xcbf29ce484222325)
uint64_t element_digest(uint64_t digest, enum tensor_element type, const void *data, size_t count);
/* The number that element_put() would write; for f32 the number itself */
double element_rounded(enum tensor_element type, double number);
