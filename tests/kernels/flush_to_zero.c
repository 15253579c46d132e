/* SPDX-License-Identifier: MIT */
/* Linked into a kernel by naming it in CFLAGS: whoever loads the kernel has FTZ and DAZ set from then on, as an audio or
 * game program may when it calls. Bits of MXCSR: Intel SDM volume 1, 10.2.3. */
#include <immintrin.h>

__attribute__((constructor)) static void flush_to_zero(void)
{
    _mm_setcsr(_mm_getcsr() | 0x8040u);
}
