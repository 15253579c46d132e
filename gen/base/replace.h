/* SPDX-License-Identifier: MIT */
/* Files written whole or not at all, by both programs: a new file beside the place of the old one, renamed when it is
 * complete. Where a link leads is written, not the link.
 *
 * Left out on purpose: results that come one by one (runtime/reports/journal.h), and the cache, whose folder is looked
 * at once and kept open (runtime/kernels/cache.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct diag;

/* Bytes of a file, in their order. */
struct piece {
    const void *data;
    size_t bytes;
};

/* Into an open file, which is closed. 0 or the errno. */
int pieces_write(int file, const struct piece *pieces, size_t count);

/* One file, which outlives a loss of power. A path that is no regular file (a device, a pipe) is written as it is. */
bool file_replace(const char *path, const struct piece *pieces, size_t count, struct diag *diag);
/* Whether file_replace() seems possible: to be called before long work whose result goes there. */
bool file_possible(const char *path, struct diag *diag);

/* A file that another program writes: at `path`, whole, before replacement_end() puts it in its place. */
struct replacement {
    char *path, *target; /* target NULL: the path is written as it is */
};
bool replacement_begin(struct replacement *replacement, const char *path, struct diag *diag);
/* good: it is whole and on the disk. Otherwise nothing of it is left. Whether it is in its place. */
bool replacement_end(struct replacement *replacement, bool good, struct diag *diag);

struct file_text {
    const char *path, *text;
    size_t length;
};

/* Writes the files that differ from what is on disk, with `anew` the others too: all of them or, with an error in diag,
 * none. All are on the disk before the first is put in its place; signals that end a program wait for the last one. */
bool files_replace(const struct file_text *files, size_t count, bool anew, struct diag *diag);
