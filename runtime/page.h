/* SPDX-License-Identifier: MIT */
/* Results of a sweep as one self-contained HTML page: plots by gnuplot, and the table, sortable.
 *
 * Left out on purpose: anything that is fetched when the page is read.
 */
#ifndef ATTNRUN_PAGE_H
#define ATTNRUN_PAGE_H

#include "record.h"

/* False with the reason in `diag`, or without memory. The records are in the order of their points. */
bool page_write(FILE *out, const struct records *records, struct diag *diag);

/* A text with HTML's special characters escaped. */
void print_html_text(FILE *out, const char *text);

#endif
