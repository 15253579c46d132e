/* SPDX-License-Identifier: MIT */
/* NAME_cache_reset and NAME_cache_move: what becomes of sequences that are kept, reordered, copied and dropped.
 *
 * Left out on purpose: calls on what they leave; rows are compared bit by bit.
 */
#ifndef ATTNRUN_MOVING_H
#define ATTNRUN_MOVING_H

#include "trial.h"

/* True without a cache, or without these functions. */
bool moving_holds(struct trial *trial);

#endif
