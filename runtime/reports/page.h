/* SPDX-License-Identifier: MIT */
/* Results of a sweep as one self-contained HTML page: the table, sortable.
 *
 * Left out on purpose: anything that is fetched when the page is read.
 */
#pragma once

#include "record.h"

/* The records are in the order of their points. */
void page_write(FILE *out, const struct records *records);
