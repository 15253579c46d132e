/* SPDX-License-Identifier: MIT */
/* The file of JSON lines that a sweep appends to: each result is one write of one whole line, so that the file is valid
 * whenever the program ends, however it ends.
 *
 * Left out on purpose: what the results mean (sweep/results.c), and power failures.
 */
#ifndef ATTNRUN_JOURNAL_H
#define ATTNRUN_JOURNAL_H

#include "record.h"

struct journal {
    const char *path; /* NULL: only in memory; "-": to the standard output as well */
    int file;         /* -1: none */
    struct records records;
    size_t good;      /* bytes of the file that are whole lines */
};

/* Opens or creates the file, and reads it; other content than results is an error, and stays. Only one program at a
 * time may use it. */
bool journal_open(struct journal *journal, const char *path, struct diag *diag);
/* Removes its content: the results, or only an incomplete last line. */
bool journal_clear(struct journal *journal, struct diag *diag);
bool journal_mend(struct journal *journal, struct diag *diag);
/* Takes over the record. */
bool journal_add(struct journal *journal, struct record *record, struct diag *diag);
void journal_close(struct journal *journal);

#endif
