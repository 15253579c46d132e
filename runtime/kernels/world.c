/* SPDX-License-Identifier: MIT */
/* See world.h. */
#include "world.h"

#include <errno.h>
#include <string.h>

bool world_words(const char *words)
{
    static const int errors[] = {ENOSPC, ENOMEM, EAGAIN, EDQUOT, EFBIG, EIO, EROFS, EMFILE, ENFILE};
    static const char *const others[] = {
        "out of memory", "memory exhausted", "signal terminated program", "terminated with signal", "Killed",
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strstr(words, strerror(errors[i])) != NULL)
            return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(words, others[i]) != NULL)
            return true;
    return false;
}
