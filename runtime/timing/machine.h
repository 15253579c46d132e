/* SPDX-License-Identifier: MIT */
/* Description of the machine that measures.
 *
 * Left out on purpose: all that it can compute (the emitted file asks for that itself), and its name.
 */
#pragma once

#include <stdbool.h>

#include "base/diag.h"
#include "plan/isa.h"

struct machine {
    char *cpu;      /* "Intel(R) Xeon(R) …" */
    char *kernel;   /* "Linux 6.1.0" */
    char *compiler; /* the first line of $CC's version text */
    char *flags;    /* that attnrun compiles with */
};

/* False with the reason in `diag`; machine_free() in any case. */
bool machine_ask(struct machine *machine, struct diag *diag);
void machine_free(struct machine *machine);
