/* SPDX-License-Identifier: MIT */
/* What both programs need of the operating system: standard streams, output that must arrive, folders.
 *
 * Left out on purpose: child processes (runtime/system/process.h) and files (file.h, replace.h).
 */
#pragma once

#include <sys/types.h>

/* To be called first in main(): opens standard streams that are closed, so that no file gets their numbers, and
 * restores SIGCHLD, which a parent may have ignored; a file that becomes too long is an error of its write (EFBIG). */
void system_begin(void);
/* To be called last in main(): returns `code` or, after a message, EXIT_ENVIRONMENT where standard output did not take
 * everything. */
int system_end(int code);
/* Makes `path` and the folders above it, where they are missing; `mode` is for itself, of those above all may be read
 * and written. 0 once it is there, EEXIST where something else stands there, else the errno. */
int system_make_folders(const char *path, mode_t mode);
