/* SPDX-License-Identifier: MIT */
/* Results of a sweep as a table for people, as CSV, and as a page; their columns.
 *
 * Left out on purpose: measuring (sweep/), joining (merge.c).
 */
#pragma once

#include "options/options.h"
#include "record.h"

/* Whether the files can be written. */
bool report_possible(const struct options *options, struct diag *diag);
/* What a command writes besides CSV and the table. */
enum report { REPORT_JSON = 1, REPORT_PAGE = 2 };

/* Sorts the records by their point and writes whatever the options ask for, each file whole or not at all; the table
 * goes to the standard output unless something else goes there. */
bool report_all(struct records *records, const struct options *options, unsigned what, struct diag *diag);

/* page.c: one self-contained HTML page, its table sortable; nothing is fetched when it is read. The records are in the
 * order of their points. */
void page_write(FILE *out, const struct records *records);
