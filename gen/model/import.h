/* SPDX-License-Identifier: MIT */
/* attngen import: from a model's folder to a spec for each distinct layer and NAME.layers, which says how they follow.
 *
 * Left out on purpose: the folder (checkpoint.lua), families, config keys and names of tensors, which are Lua's
 * (import.lua and families/); code. Lua gets tables and gives texts; it sees no file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/output.h"

struct diag;
struct option_texts;

struct import_request {
    const char *model;  /* folder of the model; NULL, of a list: none */
    const char *folder; /* output folder; NULL: the current one */
    const char *name;   /* NULL: the family's, as for the next */
    const char *cache;
    const char *weight_type; /* of all specs; NULL: none is written */
    const char *cache_type;  /* of all that have a cache; NULL: none is written */
    const char *precision, *exact; /* of all specs; NULL: none is written */
    uint64_t seq_len, cache_len; /* 0: by the model */
    unsigned isas; /* sets that each layer must be able to have */
    const struct option_texts *ignore; /* keys of config.json that change nothing */
    bool list; /* nothing is imported, see import_list() */
};

struct imported {
    struct output output; /* NAME.layers and the specs, which nothing has written yet */
    const char *layers;   /* the path of NAME.layers, which is the output's */
    char *note;           /* how large the model is, if it is large; else NULL */
    char **sources;       /* what was read */
    size_t source_count;
};

/* False with errors in diag. Call import_free() either way. */
bool import_model(struct imported *imported, const struct import_request *request, struct diag *diag);
void import_free(struct imported *imported);

/* Prints a table: of a folder what is known and what is missing, which is an error in diag; without one each
 * model_type, and the classes that are read. */
void import_list(const struct import_request *request, FILE *to, struct diag *diag);
