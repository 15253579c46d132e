/* SPDX-License-Identifier: MIT */
/* WIDE before a function, WIDE_FMA before one with fused multiply-adds: compiled for wider vectors too, and chosen when
 * the program starts, where the compiler and the system can do that. Sanitizers cannot: they are not ready yet when the
 * choice is made.
 */
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && defined(__has_attribute) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __has_attribute(target_clones)
#define WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#define WIDE_FMA __attribute__((target_clones("default", "fma", "avx512f")))
#endif
#endif
#ifndef WIDE
#define WIDE
#define WIDE_FMA
#endif
