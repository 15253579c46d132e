/* Child processes without a shell, and temporary folders that do not outlive an interruption.
 *
 * Left out on purpose: feeding input to a child, more than one child at a time.
 */
#ifndef ATTNRUN_PROCESS_H
#define ATTNRUN_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "../gen/diag.h"

/* While held, SIGINT, SIGTERM and SIGHUP wait (and stop a child of process_run), so that temporary files can be
 * removed; on release the program dies of them. */
void signals_hold(sigset_t *before);
void signals_release(const sigset_t *before);

struct process_result {
    bool started, interrupted;
    int exit_code;    /* -1 when a signal ended it */
    int signal;
    char *output;     /* stdout and stderr together, NUL-terminated; free() it */
};

/* Looks argv[0] up in PATH. Returns false, with the reason in `diag`, when it could not be started or followed. */
bool process_run(struct process_result *result, char *const argv[], struct diag *diag);

/* A growing argument list; every word is a copy. */
struct words {
    char **word; /* NULL-terminated once it has one */
    size_t count;
    bool failed; /* out of memory */
};
void words_add(struct words *words, const char *word);
void words_add_split(struct words *words, const char *text); /* at blanks; NULL adds nothing */
void words_free(struct words *words);

/* "…/attnrun-XXXXXX" under $TMPDIR or /tmp, malloc'd. */
char *folder_make(struct diag *diag);
void folder_remove(const char *folder);
/* mkdir -p */
bool folder_make_all(const char *path, struct diag *diag);
/* "a/b" malloc'd, or NULL. */
char *path_join(const char *folder, const char *name);
char *file_read(const char *path, size_t *size, struct diag *diag);
bool file_write(const char *path, const char *text, struct diag *diag);

#endif
