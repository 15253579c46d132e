/* SPDX-License-Identifier: MIT */
/* Kernels in a process of their own, with a time limit: one that crashes or never ends loses only that process.
 *
 * Left out on purpose: how a process is made and followed (process.h), what is printed of a failure.
 */
#ifndef ATTNRUN_APART_H
#define ATTNRUN_APART_H

#include "promises/verify.h"

/* Whether $ATTNRUN_LIMIT, if set, is valid; else the reason in `diag` */
bool apart_limit_good(struct diag *diag);
/* $ATTNRUN_LIMIT if it is set, else `seconds`. */
double apart_seconds(double seconds);
/* Time limit in seconds for so many calls: a minute and what they take at a very slow rate, or $ATTNRUN_LIMIT. 0:
 * none. */
double apart_limit(const struct layer *layer, const struct inputs *inputs, double calls);
/* The same for all calls of subject_verify(). */
double apart_verify_limit(const struct subject *subject);

/* subject_verify() in a process; if the process ends, the kernel has failed. VERDICT_NONE with the reason in `diag`. */
struct findings apart_verify(const struct subject *subject, int isa, struct diag *diag);

#endif
