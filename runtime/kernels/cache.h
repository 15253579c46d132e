/* SPDX-License-Identifier: MIT */
/* Compiled libraries, kept in a folder under the hash of everything that they were made from.
 *
 * These libraries are run, so they must be ours: the folder and each file belong to this user, nobody else may write to
 * them, and neither is a link. Left out on purpose: what a library is made of (compile.c), any limit of size.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/diag.h"

#define CACHE_KEY 64 /* hexadecimal digits */

struct cache {
    char *path;
    int folder; /* an open file; -1: there is no such folder, and nothing is kept */
};

/* A check before any work, which creates nothing. False with the reason in `diag` if the folder `given` exists and is
 * not ours; if that is so for the default folder, a line to `out` says that nothing will be kept. */
bool cache_look(const char *given, FILE *out, struct diag *diag);
/* Opens the folder `given`, and makes it if it is missing; NULL: $XDG_CACHE_HOME/attngen or ~/.cache/attngen, or none
 * if that is not ours. False with the reason in `diag`; call cache_close() in any case. */
bool cache_open(struct cache *cache, const char *given, struct diag *diag);
/* Whether what one process compiles is there for the next */
bool cache_keeps(const char *folder);
void cache_close(struct cache *cache);

/* The library under that key as an open file, and its compilation time in µs; -1 if there is no complete one of
 * ours. */
int cache_find(const struct cache *cache, const char *key, double *us);
/* Its name for dlopen(), through the folder that was checked, wherever the folder's path leads by now; malloc'd, NULL
 * without memory. */
char *cache_name(const struct cache *cache, const char *key);
/* Keeps the library at `path`; programs may do so at the same time. */
bool cache_add(const struct cache *cache, const char *key, const char *path, double us, struct diag *diag);
