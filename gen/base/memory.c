/* SPDX-License-Identifier: MIT */
#include "base/memory.h"

#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/replace.h"

void *memory_there(void *memory)
{
    if (memory != NULL)
        return memory;
    fputs("error: out of memory\n", stderr);
    fflush(NULL);
    _exit(EXIT_ENVIRONMENT);
}

void *memory_get(size_t count, size_t size)
{
    return memory_there(calloc(count > 0 ? count : 1, size));
}

void *memory_grow(void *old, size_t count, size_t size)
{
    size_t bytes;
    const bool fits = !__builtin_mul_overflow(count, size, &bytes);
    return memory_there(fits ? realloc(old, bytes > 0 ? bytes : 1) : NULL);
}

struct pool_block {
    struct pool_block *before;
    void *taken;
    max_align_t data[];
};

void *pool_get(struct pool *pool, size_t count, size_t size)
{
    size_t bytes;
    const bool fits = !__builtin_mul_overflow(count, size, &bytes) && bytes < SIZE_MAX / 2;
    struct pool_block *block = memory_there(fits ? calloc(1, sizeof *block + bytes) : NULL);
    block->before = pool->last;
    pool->last = block;
    return block->data;
}

void *pool_take(struct pool *pool, void *memory)
{
    pool_get(pool, 0, 1);
    return pool->last->taken = memory;
}

double *pool_doubles(struct pool *pool, size_t count)
{
    return pool_get(pool, count, sizeof(double));
}

void pool_arrays(struct pool *pool, const struct pool_array *arrays)
{
    for (; arrays->to != NULL; arrays++)
        *arrays->to = pool_doubles(pool, arrays->count);
}

void pool_free(struct pool *pool)
{
    while (pool->last != NULL) {
        struct pool_block *block = pool->last;
        pool->last = block->before;
        free(block->taken);
        free(block);
    }
}

char *text_copy(const char *text)
{
    return memory_there(strdup(text));
}

char *text_part(const char *text, size_t length)
{
    return memory_there(strndup(text, length));
}

char *text_capitals(const char *text, size_t length)
{
    char *capitals = text_part(text, length);
    for (char *c = capitals; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    return capitals;
}

char *text_join(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    return memory_there(length < 0 ? NULL : text);
}

FILE *text_begin(struct text *text)
{
    return text->out = memory_there(open_memstream(&text->bytes, &text->length));
}

char *text_end(struct text *text)
{
    return memory_there(fclose(text->out) == 0 ? text->bytes : NULL);
}

bool text_write(struct text *text, const char *path, struct diag *diag)
{
    const struct piece piece = {text_end(text), text->length};
    const bool good = file_replace(path, &piece, 1, diag);
    free(text->bytes);
    return good;
}
