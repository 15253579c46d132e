/* SPDX-License-Identifier: MIT */
/* Memory between two pages that nobody may touch, and a process of its own to find out who does.
 *
 * Left out on purpose: one that ends and begins at a fence, unless its bytes fill pages.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

struct fenced {
    void *data;
    void *pages;
    size_t page_bytes;
};

enum fence {
    FENCE_BEHIND,  /* the last byte is the last before it */
    FENCE_IN_FRONT /* the first byte is the first after it */
};

/* A read-only copy of `bytes` bytes; writable zeros if `from` is NULL */
bool fenced_make(struct fenced *memory, const void *from, size_t bytes, enum fence fence);
void fenced_free(struct fenced *memory);

/* Runs `work` in a child process, which may crash silently. False, with the reason in `diag`, if there is no child. */
bool fenced_call(void (*work)(void *context), void *context, bool *lived, struct diag *diag);
