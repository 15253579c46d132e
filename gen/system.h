/* SPDX-License-Identifier: MIT */
/* What both programs settle with the system around them: standard streams, output that must arrive.
 *
 * Left out on purpose: child processes (runtime/system/process.h) and files (file.h, replace.h).
 */
#ifndef ATTNGEN_SYSTEM_H
#define ATTNGEN_SYSTEM_H

/* First of all in main(): standard streams that are closed are taken, so that no file of ours gets their number; the
 * end of a child is told to us whatever our parent ignored. */
void system_begin(void);
/* Last of all: the exit code `code`, or where the standard output did not take everything, EXIT_ENVIRONMENT after
 * saying so. */
int system_end(int code);

#endif
