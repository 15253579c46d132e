/* SPDX-License-Identifier: MIT */
/* Files as a whole: one reader for both programs.
 *
 * Left out on purpose: writing (replace.h), and files too large to be held; tensors.c reads in parts.
 */
#ifndef ATTNGEN_FILE_H
#define ATTNGEN_FILE_H

#include <stddef.h>
#include <stdint.h>

struct diag;

/* The first `max_size` bytes of a file, or all, malloc'd, with a zero byte behind them that `size` does not count. NULL
 * with errno. */
char *file_bytes(const char *path, size_t max_size, size_t *size);
/* The same of an open file, from where it stands. */
char *file_bytes_open(int file, size_t max_size, size_t *size);
/* All of it; NULL with the reason in `diag`. */
char *file_read(const char *path, size_t *size, struct diag *diag);

#endif
