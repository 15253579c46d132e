/* SPDX-License-Identifier: MIT */
/* attngen import: from a model's folder to a spec for each distinct layer and NAME.layers, which says how they follow.
 *
 * Left out on purpose: the folder (checkpoint.h); families, config keys and names of tensors, which are Lua's
 * (import.lua and families/); code. Lua gets tables and gives texts; it sees no file.
 */
#ifndef ATTNGEN_IMPORT_H
#define ATTNGEN_IMPORT_H

#include <stdint.h>

struct diag;
struct option_texts;

struct import_request {
    const char *model;  /* folder of the model */
    const char *folder; /* output folder; NULL: the current one */
    const char *name;   /* NULL: the family's, as for the next */
    const char *cache;
    const char *weight_type; /* of all specs; NULL: none is written */
    const char *cache_type;  /* of all that have a cache; likewise */
    const char *precision;   /* of all specs; likewise */
    uint64_t seq_len, cache_len; /* 0: by the model */
    unsigned isas; /* sets that each layer must be able to have */
    const struct option_texts *ignore; /* keys of config.json that change nothing */
};

/* All files or, with errors in diag, none. The path of NAME.layers, malloc'd; NULL with errors. */
char *import_model(const struct import_request *request, struct diag *diag);

#endif
