/* SPDX-License-Identifier: MIT */
/* Fast products of whole numbers of 16 bits: from which sizes on, and what fits. Generator and tests share this. */
#pragma once

#define FAST_ROWS 64     /* rows of a group of tokens from which on products are fast */
#define FAST_NUMBERS 192 /* numbers of a column from which on these have */
#define FAST_LEVELS 8191 /* at most this number of levels, so that sums of four of them fit 16 bits */
