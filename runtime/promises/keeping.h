/* SPDX-License-Identifier: MIT */
/* source_kept: a call without a source has the bits of one with it, and what does not fit is refused.
 *
 * Left out on purpose: what a call with a source computes (compare.h).
 */
#ifndef ATTNRUN_KEEPING_H
#define ATTNRUN_KEEPING_H

#include "trial.h"

/* True where the layer keeps none. */
bool keeping_holds(struct trial *trial);

#endif
