/* safetensors files: named arrays on disk, read and written.
 *
 * Left out on purpose: every element type but F32, I32 and BOOL, memory mapping, sharded models.
 */
#ifndef ATTNRUN_TENSORS_H
#define ATTNRUN_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../gen/diag.h"

#define TENSOR_RANK_LIMIT 8

enum tensor_type { TYPE_F32, TYPE_I32, TYPE_BOOL, TYPE_COUNT };

struct tensor {
    char *name; /* UTF-8, escapes resolved */
    enum tensor_type type;
    int rank;
    int64_t shape[TENSOR_RANK_LIMIT];
    size_t bytes;
    void *data; /* aligned for its type; BOOL is one byte, 0 or 1 */
};

struct tensors {
    struct tensor *items; /* in the order of the header */
    size_t count;
};

/* Reads a whole file; on failure says why in `diag` and leaves `tensors` empty. */
bool tensors_read(struct tensors *tensors, const char *path, struct diag *diag);
/* The same from memory; `place` is named in messages. */
bool tensors_parse(struct tensors *tensors, const unsigned char *bytes, size_t size, const char *place,
                   struct diag *diag);
const struct tensor *tensors_find(const struct tensors *tensors, const char *name);
/* Writes the whole file or nothing: a temporary file in the same folder, renamed at the end. */
bool tensors_write(const char *path, const struct tensor *items, size_t count, struct diag *diag);
void tensors_free(struct tensors *tensors);

/* "F32", "I32", "BOOL" and the bytes of one element. */
const char *tensor_type_name(enum tensor_type type);
size_t tensor_type_size(enum tensor_type type);

#endif
