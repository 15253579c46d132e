/* SPDX-License-Identifier: MIT */
/* Compiled libraries, kept in a folder under the hash of all that they were made of.
 *
 * What is found there is run, so it has to be ours: the folder and each file belong to this user, nobody else may write
 * to them, and no link leads there. Left out on purpose: what a library is made of (compile.c), any limit of size.
 */
#ifndef ATTNRUN_CACHE_H
#define ATTNRUN_CACHE_H

#include <stdbool.h>
#include <stdio.h>

#include "../../gen/diag.h"

#define CACHE_KEY 64 /* hexadecimal digits */

struct cache {
    char *path;
    int folder; /* an open file; -1: no folder is ours, and nothing is kept */
};

/* A check before any work, which creates nothing: false with the reason in `diag` where the folder `given` is there and
 * not ours; where that is so of the default one, a line to `out` says that nothing will be kept. */
bool cache_look(const char *given, FILE *out, struct diag *diag);
/* The folder `given`, which is made if it is missing; NULL: $XDG_CACHE_HOME/attngen or ~/.cache/attngen, and none where
 * that is not ours alone. False with the reason in `diag`; cache_close() in any case. */
bool cache_open(struct cache *cache, const char *given, struct diag *diag);
void cache_close(struct cache *cache);

/* The library under that key as an open file, and the µs that its compilation took; -1 if there is none that is ours
 * and whole. */
int cache_find(const struct cache *cache, const char *key, double *us);
/* The name by which dlopen() finds it, through the folder that was looked at, whatever its path leads to by now;
 * malloc'd, NULL without memory. */
char *cache_name(const struct cache *cache, const char *key);
/* Keeps the library at `path`; programs that do so at once do not disturb each other. */
bool cache_add(const struct cache *cache, const char *key, const char *path, double us, struct diag *diag);

#endif
