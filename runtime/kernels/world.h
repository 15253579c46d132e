/* SPDX-License-Identifier: MIT */
/* Whether what a compiler printed blames the world and not the source: no memory, no space, no processes, somebody's
 * kill. What it was may be over at the next try.
 *
 * Left out on purpose: trying again (sweep.c); processes that were stopped (process.h).
 */
#ifndef ATTNRUN_WORLD_H
#define ATTNRUN_WORLD_H

#include <stdbool.h>

bool world_words(const char *words);

#endif
