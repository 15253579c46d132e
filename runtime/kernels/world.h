/* SPDX-License-Identifier: MIT */
/* Whether a compiler's output blames the environment and not the source: no memory, no space, no processes, a signal
 * from outside. The cause may be gone at the next try.
 *
 * Left out on purpose: trying again (sweep/examine.c); processes that were stopped (process.h).
 */
#ifndef ATTNRUN_WORLD_H
#define ATTNRUN_WORLD_H

#include <stdbool.h>

bool world_words(const char *words);

#endif
