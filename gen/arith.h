/* SPDX-License-Identifier: MIT */
/* Integers: what C lacks. All arguments are at least 0, divisors above. */
#ifndef ATTNGEN_ARITH_H
#define ATTNGEN_ARITH_H

#include <stdint.h>

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
