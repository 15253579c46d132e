/* SPDX-License-Identifier: MIT */
/* A kernel checked in a process of its own, with a time limit: a crash or an endless call loses that process alone. */
#ifndef ATTNRUN_VERIFY_APART_H
#define ATTNRUN_VERIFY_APART_H

#include "verify.h"

/* Time limit in seconds for all calls of subject_verify(), as apart_limit() has it. */
double apart_verify_limit(const struct subject *subject);

/* subject_verify() in a process; if the process ends, the kernel has failed. VERDICT_NONE with the reason in `diag`. */
struct findings apart_verify(const struct subject *subject, int isa, struct diag *diag);

#endif
