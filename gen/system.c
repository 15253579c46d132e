/* SPDX-License-Identifier: MIT */
/* See system.h. */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag.h"

#define LINKS_LIMIT 40 /* one more is taken for a circle, as the kernel does */

void system_begin(void)
{
    /* opened the wrong way round: what is read or written there fails, as it would have */
    static const int modes[] = {[STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};
    for (int file = 0; file < 3; file++)
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", modes[file]) != file)
            _exit(EXIT_ENVIRONMENT); /* no stream to say why */
    signal(SIGCHLD, SIG_DFL);
}

int system_end(int code)
{
    errno = 0;
    const bool lost = ferror(stdout) != 0; /* an earlier write's; its errno is gone */
    if (fclose(stdout) == 0 && !lost)
        return code;
    if (code != EXIT_ENVIRONMENT) /* else it is said what failed */
        fprintf(stderr, "standard output: error: cannot be written%s%s; what was printed is not complete\n",
                errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    return EXIT_ENVIRONMENT;
}

int system_make_folders(const char *path, mode_t mode)
{
    char *copy = strdup(path);
    struct stat status;
    int error = copy == NULL ? ENOMEM : 0;
    for (char *at = copy; at != NULL;) {
        at = strchr(at + 1, '/');
        if (at != NULL)
            *at = '\0';
        if (mkdir(copy, at != NULL ? 0777 : mode) != 0)
            error = errno; /* what counts is whether the last one is there */
        if (at != NULL)
            *at = '/';
    }
    free(copy);
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? 0 : error;
}

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

char *system_target(const char *path)
{
    char *at = strdup(path);
    for (int links = 0; at != NULL; links++) {
        char *next = links < LINKS_LIMIT ? follow_link(at) : (errno = ELOOP, NULL);
        const int error = errno;
        if (next == NULL && (error == EINVAL || error == ENOENT || error == ENOTDIR))
            return at; /* no link; what else is wrong is seen when it is written */
        free(at);
        at = next;
        errno = error;
    }
    return NULL;
}
