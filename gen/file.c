/* SPDX-License-Identifier: MIT */
/* See file.h. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diag.h"

#define ROOM ((size_t)1 << 16) /* at first; doubled where it does not do */

char *file_bytes_open(int file, size_t max_size, size_t *size)
{
    size_t room = 0, used = 0;
    char *bytes = NULL;
    ssize_t got = 1;
    while (got != 0 && used < max_size) {
        if (used == room) {
            char *more = realloc(bytes, (room = room == 0 ? ROOM : 2 * room) + 1);
            if (more == NULL)
                break;
            bytes = more;
        }
        got = read(file, bytes + used, room - used < max_size - used ? room - used : max_size - used);
        if (got < 0 && errno != EINTR)
            break;
        used += got > 0 ? (size_t)got : 0;
    }
    if (bytes == NULL || (got != 0 && used < max_size)) {
        free(bytes);
        return NULL;
    }
    bytes[used] = '\0';
    *size = used;
    return bytes;
}

char *file_bytes(const char *path, size_t max_size, size_t *size)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    char *bytes = file < 0 ? NULL : file_bytes_open(file, max_size, size);
    const int error = errno;
    if (file >= 0)
        close(file);
    errno = error;
    return bytes;
}

char *file_read(const char *path, size_t *size, struct diag *diag)
{
    char *bytes = file_bytes(path, SIZE_MAX, size);
    if (bytes == NULL)
        diag_environment(diag, path, "cannot be read: %s", strerror(errno));
    return bytes;
}
