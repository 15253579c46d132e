/* SPDX-License-Identifier: MIT */
/* Files as a whole: one reader for both programs.
 *
 * Left out on purpose: writing (replace.h), and files too large to be held; tensors.c reads in parts.
 */
#pragma once

#include <stddef.h>

struct diag;

/* What is read whole. Each is a file on disk, of a size that has a limit. */
enum file_whole { WHOLE_SPEC, WHOLE_LAYERS, WHOLE_PLAN, WHOLE_TEMPLATE, WHOLE_CONFIG, WHOLE_RESULTS, WHOLE_LABELS,
                  WHOLE_OURS };

/* Its bytes, malloc'd, with a zero byte after them that `size` does not count; NULL with the reason in `diag`. */
char *file_read(const char *path, enum file_whole kind, size_t *size, struct diag *diag);
/* The first `max_size` bytes of an open file, from where it stands; NULL with errno. */
char *file_bytes_open(int file, size_t max_size, size_t *size);
/* Opens a file on disk to read; -1 with the reason, and what would be right, in `diag`. */
int file_open(const char *path, const char *right, size_t *size, struct diag *diag);
