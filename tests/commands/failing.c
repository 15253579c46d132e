/* SPDX-License-Identifier: MIT */
/* Preloaded before the C library: the call of FAIL's name with the number of AT, from 1 on, fails. AT 0: each does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(const char *name, int error)
{
    static int calls;
    const char *which = getenv("FAIL"), *at = getenv("AT");
    if (which == NULL || at == NULL || strcmp(which, name) != 0)
        return 0;
    calls++;
    if (atoi(at) != 0 && atoi(at) != calls)
        return 0;
    errno = error;
    return 1;
}

int rename(const char *from, const char *to)
{
    return fails("rename", EIO) ? -1 : (int)syscall(SYS_renameat2, -100, from, -100, to, 0); /* -100: AT_FDCWD */
}

int link(const char *from, const char *to)
{
    return fails("link", EPERM) ? -1 : (int)syscall(SYS_linkat, -100, from, -100, to, 0);
}

int fsync(int file)
{
    return fails("fsync", ENOSPC) ? -1 : (int)syscall(SYS_fsync, file);
}

ssize_t write(int file, const void *bytes, size_t count)
{
    return fails("write", ENOSPC) ? -1 : (ssize_t)syscall(SYS_write, file, bytes, count);
}
