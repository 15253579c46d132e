/* SPDX-License-Identifier: MIT */
/* Names of positions from a file, one a line, cut where they are long.
 *
 * Left out on purpose: where they are put (picture.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

struct labels {
    char **text; /* NULL: positions have numbers only */
    size_t count, longest;
};

/* As many as positions, or as many as the padding mask leaves; none without `path`. labels_free() in any case. */
bool labels_read(struct labels *labels, const char *path, size_t positions, size_t padded, struct diag *diag);
void labels_free(struct labels *labels);
