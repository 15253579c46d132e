/* SPDX-License-Identifier: MIT */
/* Files that are given in place of what is wanted: recognised by how they begin, and named in the message.
 *
 * Left out on purpose: their names, which may say anything; reading them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

enum file_use { FILE_SPEC, FILE_TENSORS };
#define FILE_HEAD 4096 /* bytes of a file's beginning that tell its kind */

/* Whether the file is of another kind than `use` wants; `diag` then says which, and what would be right. */
bool file_is_other(const char *path, const void *head, size_t length, enum file_use use, struct diag *diag);
enum file_own { FILE_ANY, FILE_LAYERS, FILE_PLAN, FILE_JSON };
/* What a file is that is neither `own` nor plain text; NULL for those, whose readers say where they are wrong. */
const char *file_kind(const void *head, size_t length, enum file_own own);
