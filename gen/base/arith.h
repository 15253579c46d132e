/* SPDX-License-Identifier: MIT */
/* Integer helpers that C lacks. Dividends and what is rounded up are 0 or more, divisors 1 or more. */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }
/* The greatest common divisor */
static inline size_t divisor_of(size_t a, size_t b) { return b == 0 ? a : divisor_of(b, a % b); }
