/* SPDX-License-Identifier: MIT */
/* Diagnostics: "place: error: what is wrong; what would be right", collected, at most 20 shown.
 *
 * Left out on purpose: severities beyond error and warning, colours, source excerpts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define DIAG_LIMIT 20

/* Exit codes of both programs. */
enum exit_code {
    EXIT_GOOD = 0,
    EXIT_CHECK_FAILED = 1, /* a kernel missed its bound */
    EXIT_USAGE = 2,        /* wrong usage or a bad spec */
    EXIT_ENVIRONMENT = 3   /* no compiler, memory or instruction set; a file that cannot be read or written */
};

struct diag {
    char *messages[DIAG_LIMIT];
    size_t errors;    /* counted past the limit too */
    bool environment; /* at least one error is the environment's, not the user's */
};

#if defined(__GNUC__)
#define DIAG_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define DIAG_PRINTF(f, a)
#endif

/* Adds "place: error: …", and returns false; place may be NULL. */
bool diag_error(struct diag *diag, const char *place, const char *format, ...) DIAG_PRINTF(3, 4);
/* The same, for what the machine refused rather than what the user wrote. */
bool diag_environment(struct diag *diag, const char *place, const char *format, ...) DIAG_PRINTF(3, 4);

/* Prints what was collected, and how many more there were; returns the exit code that fits. */
int diag_report(const struct diag *diag, FILE *out);
/* The first message without its place and "error: "; "" if there is none. */
const char *diag_first(const struct diag *diag);
void diag_free(struct diag *diag);
