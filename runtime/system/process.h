/* SPDX-License-Identifier: MIT */
/* Child processes without a shell, and temporary folders that do not outlive an interruption.
 *
 * Left out on purpose: feeding input to a child, more than one child at a time.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/diag.h"

/* While held, SIGINT, SIGTERM and SIGHUP wait (and stop a child of process_run), so that temporary files can be
 * removed; on release the program dies of them. Those that are ignored stay ignored. */
void signals_hold(sigset_t *before);
void signals_release(const sigset_t *before);

struct process_result {
    bool interrupted;
    int exit_code;    /* -1 when a signal ended it */
    int signal;
    char *output;     /* stdout and stderr together, NUL-terminated. Much output loses its middle. */
    size_t size;      /* of the output */
    double cpu_us;    /* CPU time of the child and of those that it waited for */
};

/* Looks argv[0] up in PATH; it has no terminal. `temporary`, if not NULL, is the folder that the child is given as
 * TMPDIR: files that a compiler drops there when it is ended go with the folder. Returns false, with the reason in
 * `diag`, when it could not be started or followed. What it leaves running in its group is ended with it. */
bool process_run(struct process_result *result, char *const argv[], const char *temporary, struct diag *diag);

/* The same for a function of this program, run in a process of its own: what it does cannot harm the caller. It
 * answers by writing to `answer`, which becomes the output. `tick`, if not NULL, is called about once a second. */
bool process_call(struct process_result *result, void (*work)(void *context, FILE *answer), void *context,
                  void (*tick)(void *context), struct diag *diag);

void process_forget(struct process_result *result);

/* In a process that `parent` has forked: a signal ends it when that ends. False: it has ended already. */
bool process_end_with(long parent);

/* In such a process: SIGPROF ends it after `seconds` seconds of CPU time, SIGALRM after eight times as long on the
 * clock; 0: never. */
void process_limit(double seconds);

/* Whether a process_call was ended from outside, by a user or for want of memory, space or time, or could not write its
 * answer: no fault of what it did. */
bool process_stopped(const struct process_result *result);
/* What ended a process_call with a kernel that was to answer `wanted` bytes, in `text`; NULL: it answered. */
const char *process_unanswered(const struct process_result *result, size_t wanted, char text[80]);

/* Whether one of the held signals waits. */
bool signals_waiting(void);

/* A growing argument list; every word is a copy. */
struct words {
    char **word; /* NULL-terminated once it has one */
    size_t count;
};
void words_add(struct words *words, const char *word);
void words_add_split(struct words *words, const char *text); /* at blanks; NULL adds nothing */
void words_free(struct words *words);

/* "…/attnrun-PID-PLACE-XXXXXX" under $TMPDIR or /tmp, malloc'd. A program's first call removes those of this user whose
 * process, of this boot and namespace, is gone. */
char *folder_make(struct diag *diag);
/* With the files in it; NULL: none. folder_end() forgets the name too. */
void folder_remove(const char *folder);
void folder_end(char *const *folder);
/* "a/b"; free() it. */
char *path_join(const char *folder, const char *name);
