/* SPDX-License-Identifier: MIT */
/* Memory behind which lies a page that nobody may touch, and a process of its own to find out who does.
 *
 * Left out on purpose: memory in front of it (guarded.h sees what is written there).
 */
#ifndef ATTNRUN_FENCED_H
#define ATTNRUN_FENCED_H

#include <stdbool.h>
#include <stddef.h>

#include "../../gen/diag.h"

struct fenced {
    void *data; /* its last byte is the last before the fence */
    void *pages;
    size_t page_bytes;
};

/* A copy of so many bytes. */
bool fenced_make(struct fenced *memory, const void *from, size_t bytes);
void fenced_free(struct fenced *memory);

/* Runs `work` in a child, which may die of it, silently. False, with the reason in `diag`, where there is no child. */
bool fenced_call(void (*work)(void *context), void *context, bool *lived, struct diag *diag);

#endif
