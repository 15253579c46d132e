/* SPDX-License-Identifier: MIT */
#include "cpu.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif
#include <stddef.h>

#if defined(__x86_64__) && defined(__GNUC__)
/* What the emitted file asks (templates/interface/machine.in) */
static unsigned register_now(enum isa_register which)
{
    unsigned one[4] = {0}, seven[4] = {0}, more[4] = {0}, low = 0, high;
    __get_cpuid(1, &one[0], &one[1], &one[2], &one[3]);
    __get_cpuid_count(7, 0, &seven[0], &seven[1], &seven[2], &seven[3]);
    if (seven[0] >= 1)
        __get_cpuid_count(7, 1, &more[0], &more[1], &more[2], &more[3]);
    if (one[2] >> 27 & 1u) /* OSXSAVE */
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* volatile: not before the test */
    switch (which) {
    case ISA_LEAF_1_ECX: return one[2];
    case ISA_LEAF_7_EBX: return seven[1];
    case ISA_LEAF_7_ECX: return seven[2];
    case ISA_LEAF_7_EDX: return seven[3];
    case ISA_LEAF_7_1_EAX: return more[0];
    case ISA_XCR0: return low;
    }
    return 0;
}
#else
static unsigned register_now(enum isa_register which)
{
    (void)which;
    return 0;
}
#endif

bool cpu_may_have(const struct isa *isa)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (isa->guard != NULL && isa->needs[0].name == NULL) /* another architecture's, which asks nothing */
        return false;
#endif
    for (size_t i = 0; i < ISA_NEEDS && isa->needs[i].name != NULL; i++)
        if ((register_now(isa->needs[i].where) & isa->needs[i].bits) != isa->needs[i].bits)
            return false;
    return true;
}
