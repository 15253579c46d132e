/* SPDX-License-Identifier: MIT */
/* Kernels in a process of their own, with a limit of time: one that crashes or never ends takes that process with it
 * and nothing else.
 *
 * Left out on purpose: how a process is made and followed (process.h), what is printed of a failure.
 */
#ifndef ATTNRUN_APART_H
#define ATTNRUN_APART_H

#include "promises/verify.h"

/* Whether $ATTNRUN_LIMIT, if it is set, can be understood; else the reason in `diag`. */
bool apart_limit_good(struct diag *diag);
/* $ATTNRUN_LIMIT if it is set, else `seconds`. */
double apart_seconds(double seconds);
/* Seconds after which so many calls are taken for ones that never end: a minute and what they take at a very slow rate,
 * or $ATTNRUN_LIMIT. 0: never. */
double apart_limit(const struct layer *layer, const struct inputs *inputs, double calls);
/* The same for all calls of subject_verify(). */
double apart_verify_limit(const struct subject *subject);

/* subject_verify(); what ended the process is the kernel's failure. VERDICT_NONE with the reason in `diag`. */
struct findings apart_verify(const struct subject *subject, int isa, struct diag *diag);

#endif
