/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/filekind.h"

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

/* ---- by kind ---- */

#define MIB ((size_t)1 << 20)

static const struct {
    size_t limit; /* of bytes */
    enum file_own own; /* what it is */
    const char *right, *usual;
} kinds[] = {
    [WHOLE_SPEC] = {MIB, FILE_ANY, "give the path of a spec file, or a model's folder to attngen import",
                    "a spec has some twenty lines"},
    [WHOLE_LAYERS] = {16 * MIB, FILE_LAYERS, "give the path of a NAME.layers", "no model has so many layers"},
    [WHOLE_PLAN] = {MIB, FILE_PLAN, "give the path of a plan file", "this is not a plan file"},
    [WHOLE_TEMPLATE] = {MIB, FILE_ANY, "name a folder of templates", "a template has some hundred lines"},
    [WHOLE_CONFIG] = {16 * MIB, FILE_JSON, "the file that was saved with the model is needed",
                      "a model's has some KiB"},
    [WHOLE_RESULTS] = {1024 * MIB, FILE_JSON, "name a file of results", "split the sweep"},
    [WHOLE_LABELS] = {64 * MIB, FILE_ANY, "name a text file with one label a line", "one label a line is needed"},
    [WHOLE_OURS] = {1024 * MIB, FILE_ANY, "it is made again when it is removed",
                    "what attngen and attnrun write is shorter"},
};

int file_open(const char *path, const char *right, size_t *size, struct diag *diag)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for who writes to it */
    struct stat status;
    const bool found = file >= 0 && fstat(file, &status) == 0;
    if (found && S_ISREG(status.st_mode)) {
        *size = (size_t)status.st_size;
        return file;
    }
    if (!found)
        diag_environment(diag, path, "cannot be read: %s; %s", strerror(errno), right);
    else if (S_ISDIR(status.st_mode))
        diag_environment(diag, path, "is a directory; %s", right);
    else
        diag_environment(diag, path, "is a device, a pipe or a socket, not a file on disk; %s", right);
    if (file >= 0)
        close(file);
    return -1;
}

char *file_read(const char *path, enum file_whole kind, size_t *size, struct diag *diag)
{
    const size_t limit = kinds[kind].limit;
    const int file = file_open(path, kinds[kind].right, size, diag);
    if (file < 0)
        return NULL;
    char *bytes = file_bytes_open(file, limit + 1, size);
    const int error = errno;
    close(file);
    const bool other = bytes != NULL && kind == WHOLE_SPEC && file_is_other(path, bytes, *size, FILE_SPEC, diag);
    const char *is = bytes != NULL ? file_kind(bytes, *size, kinds[kind].own) : NULL;
    if (bytes == NULL)
        diag_environment(diag, path, "cannot be read: %s; %s", strerror(error), kinds[kind].right);
    else if (is != NULL)
        diag_error(diag, path, "is %s; %s", is, kinds[kind].right);
    else if (!other && *size > limit)
        diag_error(diag, path, "longer than %zu MiB; %s", limit / MIB, kinds[kind].usual);
    else if (!other)
        return bytes;
    free(bytes);
    return NULL;
}
