/* SPDX-License-Identifier: MIT */
/* safetensors files: named arrays on disk, read and written.
 *
 * Left out on purpose: element types of less than a byte, models in several files, hosts that are not little-endian.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

#define TENSOR_RANK_LIMIT 8

enum tensor_type {
    TYPE_F32, TYPE_I32, TYPE_BOOL,                       /* what a call is made of */
    TYPE_F16, TYPE_BF16, TYPE_F64,                       /* weights may be stored so: weights.h */
    TYPE_I8, TYPE_U8, TYPE_I16, TYPE_U16, TYPE_U32, TYPE_I64, TYPE_U64, TYPE_F8_E4M3, TYPE_F8_E5M2, /* of a model */
    TYPE_COUNT
};

struct tensor {
    char *name; /* UTF-8, escapes resolved */
    enum tensor_type type;
    int rank;
    int64_t shape[TENSOR_RANK_LIMIT];
    size_t bytes;
    void *data; /* aligned for its type; BOOL is one byte, 0 or 1; NULL: left in the file, see tensors_read_some */
};

struct tensors {
    struct tensor *items; /* in the order of the header */
    size_t count;
};

/* Reads a whole file; on failure says why in `diag` and leaves `tensors` empty. */
bool tensors_read(struct tensors *tensors, const char *path, struct diag *diag);
/* The same of a whole model: only what `wanted` says yes to is given its data. */
bool tensors_read_some(struct tensors *tensors, const char *path, bool (*wanted)(const char *name, const void *context),
                       const void *context, struct diag *diag);
/* From memory; `place` is named in messages. */
bool tensors_parse(struct tensors *tensors, const unsigned char *bytes, size_t size, const char *place,
                   struct diag *diag);
const struct tensor *tensors_find(const struct tensors *tensors, const char *name);
/* Moves the tensors of `more` after the others and leaves it empty. */
void tensors_join(struct tensors *tensors, struct tensors *more);
/* Nothing happens where there is none of this name. */
void tensors_remove(struct tensors *tensors, const char *name);
/* Writes the whole file or nothing: a temporary file in the same folder, renamed at the end. */
bool tensors_write(const char *path, const struct tensor *items, size_t count, struct diag *diag);
void tensors_free(struct tensors *tensors);

/* "F32", "I32", … and the bytes of one element. */
const char *tensor_type_name(enum tensor_type type);
size_t tensor_type_size(enum tensor_type type);
/* "[2][3]" */
const char *tensor_shape_text(char text[200], int rank, const int64_t *shape);
