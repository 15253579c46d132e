/* SPDX-License-Identifier: MIT */
/* A model's folder as Hugging Face's libraries write it: config.json, and model.safetensors or the shards that
 * model.safetensors.index.json names. Of the weights only the headers are read.
 *
 * Left out on purpose: what the keys and the tensors mean (import.lua); other formats, which are named.
 */
#ifndef ATTNGEN_CHECKPOINT_H
#define ATTNGEN_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/tensors.h"

struct diag;

struct checkpoint {
    char *config_path, *config; /* config.json and its text, `config_size` bytes and a zero byte */
    size_t config_size;
    char *weights_path;         /* model.safetensors or its index: where an error about tensors belongs */
    char **files;               /* names of the files of weights, in the order of their names */
    size_t file_count;
    struct tensors tensors;     /* of all of them, without data */
};

/* False, with errors in diag, for a folder that holds no model. Call checkpoint_free() either way. */
bool checkpoint_read(struct checkpoint *checkpoint, const char *folder, struct diag *diag);
/* The text of a small JSON file of the folder, malloc'd; NULL where there is none, or with an error in diag. */
char *checkpoint_text(const char *folder, const char *name, size_t *size, struct diag *diag);
void checkpoint_free(struct checkpoint *checkpoint);

#endif
