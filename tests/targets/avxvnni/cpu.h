/* SPDX-License-Identifier: MIT */
/* For machines without AVX-VNNI: include this before an emitted pair (cc -include cpu.h), and the CPU seems to have it.
 * The assembler beside this file takes its instructions away. */
#ifndef AVXVNNI_CPU_H
#define AVXVNNI_CPU_H

#include <cpuid.h>

static inline void avxvnni_cpuid(unsigned leaf, unsigned sub, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    __cpuid_count(leaf, sub, *a, *b, *c, *d);
    if (leaf == 7 && sub == 0 && *a == 0)
        *a = 1; /* there is a leaf 7.1 */
    if (leaf == 7 && sub == 1)
        *a |= 1u << 4;
}

#undef __cpuid_count
#define __cpuid_count(leaf, sub, a, b, c, d) avxvnni_cpuid(leaf, sub, &(a), &(b), &(c), &(d))

#endif
