/* SPDX-License-Identifier: MIT */
/* How long a kernel may take in a process of its own.
 *
 * Left out on purpose: how a process is made and followed (process.h).
 */
#pragma once

#include "inputs/inputs.h"

/* Whether $ATTNRUN_LIMIT, if set, is valid; else the reason in `diag` */
bool apart_limit_good(struct diag *diag);
/* $ATTNRUN_LIMIT if it is set, else `seconds`. */
double apart_seconds(double seconds);
/* Multiply-adds of one call; a score counts 20 more, for its exponential. */
double apart_work(const struct layer *layer, const struct inputs *inputs);
/* Time limit in seconds for `work` multiply-adds: a minute and what they take at a very slow rate, or $ATTNRUN_LIMIT.
 * 0: none. */
double apart_work_limit(double work);
/* The same for `calls` calls. */
double apart_limit(const struct layer *layer, const struct inputs *inputs, double calls);
