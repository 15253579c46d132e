/* SPDX-License-Identifier: MIT */
/* What this machine's CPU and operating system have of an instruction set's row.
 *
 * Left out on purpose: what a pair asks itself (templates/interface/machine.in).
 */
#pragma once

#include <stdbool.h>

#include "plan/isa.h"

/* False where it lacks what the row needs; elsewhere than on x86 always true. */
bool cpu_may_have(const struct isa *isa);
