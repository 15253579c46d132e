/* SPDX-License-Identifier: MIT */
/* Memory with guard zones on both sides, filled with a pattern: shows writes outside.
 *
 * Left out on purpose: catching reads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct guarded {
    void *data; /* `offset` bytes after a 128-byte boundary */
    size_t bytes;
    unsigned char *block;
    size_t block_bytes;
};

/* Filled with signalling NaNs (as f32). */
void guarded_make(struct guarded *memory, size_t bytes, size_t offset);
void guarded_fill(struct guarded *memory);
bool guarded_zones_intact(const struct guarded *memory);
/* Whether nothing was written since the last fill */
bool guarded_untouched(const struct guarded *memory);
void guarded_free(struct guarded *memory);
