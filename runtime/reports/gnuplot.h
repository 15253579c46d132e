/* SPDX-License-Identifier: MIT */
/* gnuplot as a child process.
 *
 * Left out on purpose: what is plotted.
 */
#ifndef ATTNRUN_GNUPLOT_H
#define ATTNRUN_GNUPLOT_H

#include <stdio.h>

#include "system/process.h"

/* Whether it can be started; if not, `diag` says how to get it. `place` is what needs it. */
bool gnuplot_find(const char *place, struct diag *diag);
/* Runs a script, without the user's own settings. */
bool gnuplot_run(const char *script, struct diag *diag);
/* Writes the text in quotes: every character stands for itself, control characters become blanks. */
void gnuplot_quote(FILE *out, const char *text);
/* The same for the label of a tic, in which gnuplot interprets formats */
void gnuplot_quote_tic(FILE *out, const char *text);

#endif
