/* SPDX-License-Identifier: MIT */
/* See cache.h. Files are written under a unique name and renamed when they are complete; leftovers of killed processes
 * are removed when they are old.
 */
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/replace.h"
#include "base/system.h"
#include "system/process.h"
#include "system/sha256.h"

#define OLD 3600 /* seconds; no file takes so long to be written */

/* ---- the folder ------------------------------------------------------------------------------------------------- */

/* Why others could have written the file of `status`, in `why`; NULL: they could not. */
static const char *not_ours(const struct stat *status, char why[80])
{
    if (status->st_uid != geteuid())
        snprintf(why, 80, "it belongs to user %ld", (long)status->st_uid);
    else if (status->st_mode & (S_IWGRP | S_IWOTH))
        snprintf(why, 80, "others may write to it (mode %03o)", (unsigned)status->st_mode & 0777);
    else
        return NULL;
    return why;
}

/* An absolute path, since dlopen() needs a slash; NULL with errno. */
static char *absolute(const char *path)
{
    char here[PATH_MAX];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') /* with a slash at the end a link would be followed */
        length--;
    HEAP char *own = text_part(path, length);
    if (own[0] == '/')
        return text_copy(own);
    return getcwd(here, sizeof here) != NULL ? path_join(here, own) : NULL;
}

/* The default folder, malloc'd; NULL if no variable names one. */
static char *default_path(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg != NULL && xdg[0] == '/')
        return path_join(xdg, "attngen");
    return home != NULL && home[0] == '/' ? path_join(home, ".cache/attngen") : NULL;
}

/* Opens a folder that only this user can write to; -1 with the reason in `why`. */
static int open_ours(const char *path, char why[80])
{
    struct stat status;
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), error = errno;
    if (folder < 0) {
        const bool link = lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
        snprintf(why, 80, "%s%.50s", link ? "it is a symbolic link" : "it cannot be opened: ",
                 link ? "" : strerror(error));
        return -1;
    }
    if (fstat(folder, &status) == 0 && not_ours(&status, why) == NULL)
        return folder;
    close(folder);
    return -1;
}

/* The folder of --cache, or the default; NULL without an error if no variable names a folder. */
static bool path_of(char **path, const char *given, struct diag *diag)
{
    *path = given != NULL ? absolute(given) : default_path();
    if (given == NULL || *path != NULL)
        return true;
    return diag_environment(diag, given, "no path for compiled kernels: %s", strerror(errno));
}

static void refuse(const char *path, const char *why, struct diag *diag)
{
    diag_environment(diag, path, "not a place for code that is to be run: %s; --cache wants a folder of your own that "
                     "nobody else may write to (chmod 700)", why);
}

static void warn(const char *path, const char *why, FILE *out)
{
    static const char rest[] = "each kernel is compiled again, none kept; name a folder of your own with --cache DIR";
    if (path != NULL)
        fprintf(out, "%s: warning: not a place for code that is to be run: %s; %s\n", path, why, rest);
    else
        fprintf(out, "attnrun: warning: neither XDG_CACHE_HOME nor HOME names a folder for compiled kernels; %s\n",
                rest);
}

bool cache_look(const char *given, FILE *out, struct diag *diag)
{
    char why[80] = "";
    HEAP char *path = NULL;
    struct stat status;
    if (!path_of(&path, given, diag))
        return false;
    const bool there = path != NULL && lstat(path, &status) == 0;
    const int folder = there ? open_ours(path, why) : -1;
    const bool good = path != NULL && (!there || folder >= 0);
    if (!good && given != NULL)
        refuse(path, why, diag);
    else if (!good)
        warn(path, why, out);
    if (folder >= 0)
        close(folder);
    return good || given == NULL;
}

bool cache_open(struct cache *cache, const char *given, struct diag *diag)
{
    char why[80];
    *cache = (struct cache){.folder = -1};
    if (!path_of(&cache->path, given, diag))
        return false;
    const int error = cache->path != NULL ? system_make_folders(cache->path, 0700) : 0;
    if (error != 0 && error != EEXIST)
        return diag_environment(diag, cache->path, "cannot be made: %s; compiled kernels are kept there, name another "
                                "folder with --cache DIR", strerror(error));
    if (cache->path != NULL)
        cache->folder = open_ours(cache->path, why);
    if (cache->folder >= 0 || given == NULL)
        return true;
    refuse(cache->path, why, diag);
    return false;
}

void cache_close(struct cache *cache)
{
    if (cache->folder >= 0)
        close(cache->folder);
    free(cache->path);
    *cache = (struct cache){.folder = -1};
}

bool cache_keeps(const char *folder)
{
    OWNED(cache_close) struct cache cache = {.folder = -1};
    OWNED(diag_free) struct diag ignored = {0}; /* what is wrong with it, a compilation says */
    return cache_open(&cache, folder, &ignored) && cache.folder >= 0;
}

/* ---- its files -------------------------------------------------------------------------------------------------- */

/* After a library come its compilation time in µs, in digits, and the hash of its key and of everything before: loading
 * a damaged library could crash. */
#define TIME 16
#define SEAL 64

struct ending {
    char time[TIME + 1], seal[SEAL + 1];
};

static void make_seal(struct ending *ending, const char *key, const void *bytes, size_t size)
{
    struct sha256 hash;
    sha256_start(&hash);
    sha256_add(&hash, key, CACHE_KEY);
    sha256_add(&hash, bytes, size);
    sha256_add(&hash, ending->time, TIME);
    sha256_end(&hash, ending->seal);
}

static void name_of(char name[CACHE_KEY + 8], const char *key)
{
    snprintf(name, CACHE_KEY + 8, "%.*s.so", CACHE_KEY, key);
}

char *cache_name(const struct cache *cache, const char *key)
{
    char name[CACHE_KEY + 8];
    name_of(name, key);
    if (access("/proc/self/fd", X_OK) != 0)
        return path_join(cache->path, name);
    return text_join("/proc/self/fd/%d/%s", cache->folder, name);
}

/* Whether an open file is a complete library of this user, under its key */
static bool is_intact(int file, const char *key, double *us)
{
    struct stat status;
    struct ending ending = {"", ""};
    char why[80];
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || not_ours(&status, why) != NULL ||
        status.st_size <= TIME + SEAL)
        return false;
    size_t size;
    uint64_t time;
    HEAP char *bytes = file_bytes_open(file, SIZE_MAX, &size);
    if (bytes == NULL || size != (size_t)status.st_size)
        return false;
    size -= TIME + SEAL;
    memcpy(ending.time, bytes + size, TIME);
    make_seal(&ending, key, bytes, size);
    const bool intact = memcmp(ending.seal, bytes + size + TIME, SEAL) == 0 &&
                        number_whole(ending.time, TIME, 0, UINT64_MAX, &time);
    if (intact)
        *us = (double)time;
    return intact;
}

int cache_find(const struct cache *cache, const char *key, double *us)
{
    char name[CACHE_KEY + 8];
    name_of(name, key);
    if (cache->folder < 0)
        return -1;
    /* O_NONBLOCK: do not wait for a pipe */
    const int file = openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && is_intact(file, key, us))
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

/* "KEY.…" and not "KEY.so" */
static bool is_unfinished(const char *name)
{
    return strspn(name, "0123456789abcdef") == CACHE_KEY && name[CACHE_KEY] == '.' &&
           strcmp(name + CACHE_KEY, ".so") != 0;
}

static void remove_old(const struct cache *cache)
{
    const int again = openat(cache->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again >= 0 ? fdopendir(again) : NULL;
    const time_t now = time(NULL);
    struct dirent *entry;
    struct stat status;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (is_unfinished(entry->d_name) && fstatat(again, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            now - status.st_mtime > OLD)
            unlinkat(again, entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
    else if (again >= 0)
        close(again);
}

/* 0 or the errno; `name` is the file's name. If it could not be written, it is removed. */
static int write_new(const struct cache *cache, const char *name, const void *bytes, size_t size,
                     const struct ending *ending)
{
    const int file = openat(cache->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return errno;
    const struct piece pieces[] = {{bytes, size}, {ending->time, TIME}, {ending->seal, SEAL}};
    const int error = pieces_write(file, pieces, sizeof pieces / sizeof *pieces);
    if (error != 0)
        unlinkat(cache->folder, name, 0);
    return error;
}

/* 0 or the errno. */
static int add(const struct cache *cache, const char *key, const void *bytes, size_t size, const struct ending *ending)
{
    char name[CACHE_KEY + 8], temporary[CACHE_KEY + 32];
    uint64_t drawn;
    name_of(name, key);
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
        return errno;
    snprintf(temporary, sizeof temporary, "%.*s.%016llx", CACHE_KEY, key, (unsigned long long)drawn);
    int error = write_new(cache, temporary, bytes, size, ending);
    if (error == 0 && renameat(cache->folder, temporary, cache->folder, name) != 0) {
        error = errno;
        unlinkat(cache->folder, temporary, 0);
    }
    return error;
}

bool cache_add(const struct cache *cache, const char *key, const char *path, double us, struct diag *diag)
{
    struct ending ending = {"", ""};
    size_t size;
    if (cache->folder < 0)
        return true;
    HEAP char *bytes = file_read(path, WHOLE_OURS, &size, diag);
    if (bytes == NULL)
        return false;
    snprintf(ending.time, sizeof ending.time, "%0*.0f", TIME, us);
    make_seal(&ending, key, bytes, size);
    remove_old(cache);
    const int error = add(cache, key, bytes, size, &ending);
    if (error != 0)
        diag_environment(diag, cache->path, "a compiled kernel cannot be written there: %s", strerror(error));
    return error == 0;
}
