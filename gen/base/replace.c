/* SPDX-License-Identifier: MIT */
#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/owned.h"

#define LINKS_LIMIT 40 /* more links are taken for a loop, as the kernel does */

static bool refuse(const char *path, const char *why, struct diag *diag)
{
    return diag_environment(diag, path, "cannot be written: %s", why);
}

/* ---- links ---- */

/* Where the link `path` leads, seen from where `path` is seen; malloc'd, NULL with errno. */
static char *follow_link(const char *path)
{
    const char *slash = strrchr(path, '/');
    char leads[PATH_MAX], *next = NULL;
    const ssize_t length = readlink(path, leads, sizeof leads);
    if (length < 0)
        return NULL;
    if (length == sizeof leads) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    leads[length] = '\0';
    const int folder = leads[0] == '/' || slash == NULL ? 0 : (int)(slash - path) + 1;
    if (asprintf(&next, "%.*s%s", folder, path, leads) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    return next;
}

/* The path that is written when `path` is: where a symbolic link leads, to a file that need not be there; else the path
 * itself. malloc'd; NULL with errno. */
static char *target_of(const char *path)
{
    char *at = strdup(path);
    for (int links = 0; at != NULL; links++) {
        char *next = links < LINKS_LIMIT ? follow_link(at) : (errno = ELOOP, NULL);
        const int error = errno;
        if (next == NULL && (error == EINVAL || error == ENOENT || error == ENOTDIR))
            return at; /* no link; other faults show when it is written */
        free(at);
        at = next;
        errno = error;
    }
    return NULL;
}

/* ---- one file ---- */

static bool write_all(int file, const struct piece *piece)
{
    const char *at = piece->data;
    for (size_t left = piece->bytes; left > 0;) {
        const ssize_t wrote = write(file, at, left);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        left -= (size_t)wrote;
    }
    return true;
}

/* 0 or the errno. */
static int write_pieces(int file, const struct piece *pieces, size_t count)
{
    bool good = true;
    errno = 0;
    for (size_t i = 0; good && i < count; i++)
        good = write_all(file, &pieces[i]);
    return good ? 0 : errno != 0 ? errno : EIO;
}

int pieces_write(int file, const struct piece *pieces, size_t count)
{
    const int error = write_pieces(file, pieces, count);
    return close(file) != 0 && error == 0 ? errno : error;
}

/* Opens a new file beside `path`, with the mode of an ordinary file. -1 with errno. */
static int open_beside(const char *path, char **temporary)
{
    const mode_t mask = umask(0);
    umask(mask);
    if (asprintf(temporary, "%s.XXXXXX", path) < 0) {
        *temporary = NULL;
        errno = ENOMEM;
        return -1;
    }
    const int file = mkostemp(*temporary, O_CLOEXEC);
    if (file < 0 || fchmod(file, 0666 & ~mask) == 0)
        return file;
    const int error = errno;
    close(file);
    unlink(*temporary);
    errno = error;
    return -1;
}

/* The path of a new, complete file beside `path`; `synced`: on the disk. NULL with errno and nothing left behind. */
static char *write_beside(const char *path, const struct piece *pieces, size_t count, bool synced)
{
    char *temporary;
    const int file = open_beside(path, &temporary);
    int error = file < 0 ? errno : write_pieces(file, pieces, count);
    if (error == 0 && synced && fsync(file) != 0)
        error = errno;
    if (file >= 0 && close(file) != 0 && error == 0)
        error = errno;
    if (error == 0)
        return temporary;
    if (file >= 0)
        unlink(temporary);
    free(temporary);
    errno = error;
    return NULL;
}

/* 0 or the errno. */
static int put_in_place(char *temporary, const char *path)
{
    const int error = temporary == NULL || rename(temporary, path) != 0 ? errno : 0;
    if (temporary != NULL && error != 0)
        unlink(temporary);
    free(temporary);
    return error;
}

/* Signals that end a program wait, so that no temporary file is left. */
static void hold_signals(sigset_t *before)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    sigprocmask(SIG_BLOCK, &held, before);
}

/* A device, a pipe. */
static bool is_written_as_it_is(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

bool file_replace(const char *path, const struct piece *pieces, size_t count, struct diag *diag)
{
    int error;
    if (is_written_as_it_is(path)) {
        const int file = open(path, O_WRONLY | O_CLOEXEC);
        error = file < 0 ? errno : pieces_write(file, pieces, count);
    } else {
        HEAP char *target = target_of(path);
        sigset_t before;
        hold_signals(&before);
        error = target == NULL ? errno : put_in_place(write_beside(target, pieces, count, true), target);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    return error == 0 || refuse(path, strerror(error), diag);
}

/* 0 or the errno. */
static int replace_possible(const char *path)
{
    const char *slash = strrchr(path, '/');
    HEAP char *folder = slash != NULL ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    return folder == NULL ? ENOMEM : access(folder, W_OK | X_OK) != 0 ? errno : 0;
}

bool file_possible(const char *path, struct diag *diag)
{
    struct stat status;
    int error = stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? EISDIR : 0;
    if (error == 0 && is_written_as_it_is(path)) {
        error = access(path, W_OK) != 0 ? errno : 0;
    } else if (error == 0) {
        HEAP char *target = target_of(path);
        error = target == NULL ? errno : replace_possible(target);
    }
    return error == 0 || refuse(path, strerror(error), diag);
}

/* ---- written by another program ---- */

bool replacement_begin(struct replacement *replacement, const char *path, struct diag *diag)
{
    *replacement = (struct replacement){NULL, NULL};
    int file = -1, error = 0;
    if (is_written_as_it_is(path)) {
        replacement->path = strdup(path);
        error = replacement->path == NULL ? ENOMEM : 0;
    } else {
        replacement->target = target_of(path);
        file = replacement->target != NULL ? open_beside(replacement->target, &replacement->path) : -1;
        error = file < 0 || close(file) != 0 ? errno : 0;
    }
    if (error == 0)
        return true;
    if (file >= 0)
        unlink(replacement->path);
    free(replacement->path);
    free(replacement->target);
    *replacement = (struct replacement){NULL, NULL};
    return refuse(path, strerror(error), diag);
}

bool replacement_end(struct replacement *replacement, bool good, struct diag *diag)
{
    int error = 0;
    if (replacement->target != NULL && good) {
        error = put_in_place(replacement->path, replacement->target);
    } else {
        if (replacement->target != NULL)
            unlink(replacement->path);
        free(replacement->path);
    }
    if (error != 0)
        refuse(replacement->target, strerror(error), diag);
    free(replacement->target);
    *replacement = (struct replacement){NULL, NULL};
    return good && error == 0;
}

/* ---- all or none ---- */

struct pending {
    char *target;    /* what is written */
    char *temporary; /* the complete new file beside it; NULL: nothing to do */
    char *old;       /* where the old one stands until all are replaced; NULL: there is none */
    bool replaced;
};

static bool is_there(const char *path, const struct file_text *file)
{
    OWNED(diag_free) struct diag ignored = {0};
    size_t length;
    HEAP char *old = file_read(path, WHOLE_OURS, &length, &ignored);
    return old != NULL && length == file->length && memcmp(old, file->text, length) == 0;
}

/* Looks at what is there and, where it differs or `anew`, writes the new file beside it. */
static bool prepare(const struct file_text *file, bool anew, struct pending *pending, struct diag *diag)
{
    const struct piece piece = {file->text, file->length};
    pending->target = target_of(file->path);
    if (pending->target == NULL)
        return refuse(file->path, strerror(errno), diag);
    if (is_written_as_it_is(pending->target))
        return refuse(file->path, "it is not an ordinary file", diag);
    if (!anew && is_there(pending->target, file))
        return true;
    pending->temporary = write_beside(pending->target, &piece, 1, true);
    return pending->temporary != NULL || refuse(file->path, strerror(errno), diag);
}

/* Keeps the old file under a second name, which needs no room on the disk; where the file system has no links, it is
 * renamed. 0 or the errno. */
static int keep_old(struct pending *pending)
{
    if (asprintf(&pending->old, "%s~", pending->temporary) < 0) {
        pending->old = NULL;
        return ENOMEM;
    }
    if (link(pending->target, pending->old) == 0 || (errno != ENOENT && rename(pending->target, pending->old) == 0))
        return 0;
    const int error = errno;
    free(pending->old);
    pending->old = NULL;
    return error == ENOENT ? 0 : error;
}

static int replace(struct pending *pending)
{
    int error = keep_old(pending);
    if (error == 0) {
        error = put_in_place(pending->temporary, pending->target);
        pending->temporary = NULL;
    }
    pending->replaced = error == 0;
    return error;
}

/* The rename does nothing where both are links to one file. */
static void put_back(struct pending *pending)
{
    if (pending->old == NULL && pending->replaced)
        unlink(pending->target);
    if (pending->old == NULL || rename(pending->old, pending->target) == 0)
        return;
    free(pending->old); /* it stays where it is */
    pending->old = NULL;
}

static bool replace_all(const struct file_text *files, struct pending *pending, size_t count, struct diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        const int error = pending[i].temporary != NULL ? replace(&pending[i]) : 0;
        if (error == 0)
            continue;
        for (size_t j = 0; j <= i; j++)
            put_back(&pending[j]);
        return refuse(files[i].path, strerror(error), diag);
    }
    return true;
}

static void forget(struct pending *pending)
{
    if (pending->temporary != NULL)
        unlink(pending->temporary);
    if (pending->old != NULL)
        unlink(pending->old);
    free(pending->temporary);
    free(pending->old);
    free(pending->target);
}

bool files_replace(const struct file_text *files, size_t count, bool anew, struct diag *diag)
{
    HEAP struct pending *pending = calloc(count > 0 ? count : 1, sizeof *pending);
    bool good = pending != NULL;
    sigset_t before;
    hold_signals(&before);
    if (!good)
        diag_environment(diag, NULL, "no memory to write the files");
    for (size_t i = 0; good && i < count; i++)
        good = prepare(&files[i], anew, &pending[i], diag);
    good = good && replace_all(files, pending, count, diag);
    for (size_t i = 0; pending != NULL && i < count; i++)
        forget(&pending[i]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return good;
}
