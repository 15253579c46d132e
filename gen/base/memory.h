/* SPDX-License-Identifier: MIT */
/* Memory and texts that are always there: where the machine has no more, the process says so and ends with
 * EXIT_ENVIRONMENT. Temporary folders that it leaves then go with the next program (process.h).
 *
 * Left out on purpose: packed blocks and files of weights, whose lack a command reports and survives (diag.h).
 */
#pragma once

#include "base/diag.h"
#include "base/owned.h"

void *memory_get(size_t count, size_t size); /* zeroed; free() it */
void *memory_grow(void *old, size_t count, size_t size);
/* `memory` itself, where it is not NULL */
void *memory_there(void *memory);
/* Memory that is freed together; {0} is an empty pool. */
struct pool {
    struct pool_block *last;
};
void *pool_get(struct pool *pool, size_t count, size_t size); /* zeroed */
void *pool_take(struct pool *pool, void *memory); /* `memory` of malloc() itself, from now on the pool's */
double *pool_doubles(struct pool *pool, size_t count);
/* Several of them: ARRAYS({&array, count}, …) */
#define ARRAYS(...) (const struct pool_array[]){__VA_ARGS__, {NULL, 0}}
struct pool_array { double **to; size_t count; };
void pool_arrays(struct pool *pool, const struct pool_array *arrays);
void pool_free(struct pool *pool);

char *text_copy(const char *text);
char *text_part(const char *text, size_t length); /* its first characters */
char *text_capitals(const char *text, size_t length); /* the same in capitals */
char *text_join(const char *format, ...) DIAG_PRINTF(1, 2); /* printf into a text; free() it */

/* A text that is printed piece by piece. */
struct text {
    FILE *out;
    char *bytes; /* NUL-terminated; valid after text_end(); free() it */
    size_t length;
};
FILE *text_begin(struct text *text);
char *text_end(struct text *text); /* its bytes */
/* Ends the text and writes it as a file, whole or not at all (base/replace.h); frees it. */
bool text_write(struct text *text, const char *path, struct diag *diag);
