/* SPDX-License-Identifier: MIT */
/* The one way in which both programs read numbers: a text is a number as a whole, or not at all.
 *
 * Left out on purpose: signs of whole numbers, which nothing here has; what a number means, and messages about wrong
 * ones.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the `length` bytes at `text` are decimal digits alone, their number from `min` to `max`. `value` is left
 * alone where not. */
bool number_whole(const char *text, size_t length, uint64_t min, uint64_t max, uint64_t *value);
/* Whether `text` is what strtod() takes in the C locale, which both programs keep, without blanks around: also nan, inf
 * and 0x1p-3. errno is ERANGE where a double holds it as infinity, 0 or a subnormal, else 0. */
bool number_real(const char *text, double *value);
