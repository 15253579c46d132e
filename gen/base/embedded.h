/* SPDX-License-Identifier: MIT */
/* Files that a program carries within itself, written by embed.c when it is built. */
#pragma once

#include <stddef.h>
#include <string.h>

/* `size` does not count the zero byte after the data. */
struct embedded_file {
    const char *name;
    const unsigned char *data;
    size_t size;
};

/* In the order of their names: attngen's templates and Lua files; the texts that attnrun writes. */
extern const struct embedded_file embedded_files[], runtime_files[];
extern const size_t embedded_files_count, runtime_files_count;

/* NULL for a name that is not there. */
static inline const struct embedded_file *embedded_find(const struct embedded_file *files, size_t count,
                                                        const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}
