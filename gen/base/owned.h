/* SPDX-License-Identifier: MIT */
/* Locals that are released where their scope ends, by whichever return: OWNED(release) stands before the declaration,
 * and `release` is called with the local's address; gcc and clang have that. HEAP: a pointer from malloc().
 *
 * Left out on purpose: what a struct holds, which the function for the struct releases.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#define OWNED(release) __attribute__((cleanup(release)))
#define HEAP OWNED(heap_release)

static inline void heap_release(const void *pointer) /* its address */
{
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}
