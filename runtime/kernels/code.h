/* SPDX-License-Identifier: MIT */
/* How much machine code a compiled kernel has.
 *
 * Left out on purpose: data, and files that are not ELF of this machine's word size.
 */
#pragma once

#include "load.h"

/* Bytes of the functions of one instruction set, those of its name ("keys_avx2"), folded copies counted once; 0 when
 * the library does not say. */
size_t code_bytes(const struct kernel *kernel, const char *isa);
