/* SPDX-License-Identifier: MIT */
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/owned.h"

void system_begin(void)
{
    /* opened the wrong way round: what is read or written there fails, as it would have */
    static const int modes[] = {[STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};
    for (int file = 0; file < 3; file++)
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", modes[file]) != file)
            _exit(EXIT_ENVIRONMENT); /* there is no stream for a message */
    signal(SIGCHLD, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
}

int system_end(int code)
{
    errno = 0;
    const bool lost = ferror(stdout) != 0; /* an earlier write's; its errno is gone */
    if (fclose(stdout) == 0 && !lost)
        return code;
    if (code != EXIT_ENVIRONMENT) /* the failure is reported already */
        fprintf(stderr, "standard output: error: cannot be written%s%s; what was printed is not complete\n",
                errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    return EXIT_ENVIRONMENT;
}

int system_make_folders(const char *path, mode_t mode)
{
    HEAP char *copy = strdup(path);
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
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? 0 : error;
}
