/* SPDX-License-Identifier: MIT */
/* The only two functions that an emitted pair asks for. The empty asm keeps a compiler from seeing memcpy in a loop
 * that is memcpy. */
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
        __asm__ volatile("" ::: "memory");
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)to)[i] = (unsigned char)value;
        __asm__ volatile("" ::: "memory");
    }
    return to;
}
