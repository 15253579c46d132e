/* SPDX-License-Identifier: MIT */
/* What both programs need of the operating system: standard streams, output that must arrive, folders.
 *
 * Left out on purpose: child processes (runtime/system/process.h) and files (file.h, replace.h).
 */
#ifndef ATTNGEN_SYSTEM_H
#define ATTNGEN_SYSTEM_H

#include <sys/types.h>

/* First of all in main(): standard streams that are closed are taken, so that no file of ours gets their number; the
 * end of a child is told to us whatever our parent ignored. */
void system_begin(void);
/* Last of all: the exit code `code`, or where the standard output did not take everything, EXIT_ENVIRONMENT after
 * saying so. */
int system_end(int code);
/* Makes `path` and the folders above it, where they are missing; `mode` is for itself, of those above all may be read
 * and written. 0 once it is there, EEXIST where something else stands there, else the errno. */
int system_make_folders(const char *path, mode_t mode);

#endif
