/* SPDX-License-Identifier: MIT */
/* The file of JSON lines that a sweep appends to: each result is one write of one whole line, so that the file is valid
 * whenever the program ends, however it ends.
 *
 * Left out on purpose: what the results mean (sweep/results.c), and power failures.
 */
#pragma once

#include "record.h"

#define JOURNAL_CHECKED "checked" /* status of a line that a result will replace */

struct journal {
    const char *path; /* NULL: only in memory; "-": to the standard output as well */
    int file;         /* -1: none */
    bool regular;     /* it can be cut: lines of checked points come last in it */
    struct records records, noted; /* results; checked points */
    size_t good;      /* bytes of the file that are whole lines of results */
};

/* Opens or creates the file, and reads it; other content than results is an error, and stays. Only one program at a
 * time may use it. */
bool journal_open(struct journal *journal, const char *path, struct diag *diag);
/* Removes its content: everything, or only what comes after the last result. */
bool journal_clear(struct journal *journal, struct diag *diag);
bool journal_mend(struct journal *journal, struct diag *diag);
/* Both take over the record: a checked point, and a result, which replaces that of the same point. */
bool journal_note(struct journal *journal, struct record *record, struct diag *diag);
bool journal_add(struct journal *journal, struct record *record, struct diag *diag);
void journal_close(struct journal *journal);
/* In a process that was forked: what it outlives does not keep others from the file. */
void journal_leave(const struct journal *journal);
