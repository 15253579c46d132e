/* SPDX-License-Identifier: MIT */
#include "misuse.h"

#include <stdio.h>
#include <string.h>

bool misuse_refused(const struct misuse *rows, size_t count,
                    bool (*refused)(void *context, int expected, const char *what), void *context)
{
    bool good = true;
    for (const struct misuse *row = rows; good && row < rows + count; row++) {
        const char *given, *wrong = NULL;
        const size_t step = row->alignment > 4 ? row->alignment / 4 : 1;
        char what[80];
        memcpy(&given, row->at, sizeof given);
        snprintf(what, sizeof what, "%s = NULL", row->name);
        memcpy(row->at, &wrong, sizeof wrong);
        if (row->use != MISUSE_OPTIONAL)
            good = refused(context, KERNEL_NULL, what);
        snprintf(what, sizeof what, "%s off its boundary", row->name);
        const size_t end = given != NULL ? row->alignment : 0;
        for (size_t off = step; good && off < end; off += step) {
            wrong = (const char *)((uintptr_t)given + off);
            memcpy(row->at, &wrong, sizeof wrong);
            good = refused(context, KERNEL_ALIGN, what);
        }
        memcpy(row->at, &given, sizeof given);
    }
    return good;
}

size_t misuse_of_args(const struct layer *layer, struct kernel_args *args, struct misuse rows[MISUSE_ROWS])
{
    size_t count = 0;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (!tensor_is_packed(layer_tensor_row(t)->kind) && layer_has_tensor(layer, t))
            rows[count++] = (struct misuse){layer_tensor_name(t), &args->tensor[t], layer_tensor_size(layer, t),
                                            MISUSE_NEEDED};
    if (layer->train)
        rows[count++] = (struct misuse){"saved", &args->saved, sizeof(float), MISUSE_OPTIONAL};
    return count;
}

size_t misuse_of_weights(const struct layer *layer, struct kernel_weights *weights, const float **tables,
                         struct misuse rows[MISUSE_ROWS])
{
    size_t count = 0;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (tensor_is_packed(layer_tensor_row(t)->kind) && layer_tensor_row(t)->kind != TENSOR_NAMED &&
            layer_has_tensor(layer, t))
            rows[count++] = (struct misuse){layer_tensor_name(t), &weights->tensor[t], sizeof(float), MISUSE_NEEDED};
    if (layer->table_count > 0)
        rows[count++] = (struct misuse){"tables", &weights->tables, 1, MISUSE_NEEDED};
    for (size_t i = 0; i < layer->table_count; i++)
        rows[count++] = (struct misuse){layer->tables[i].name, &tables[i], sizeof(float), MISUSE_NEEDED};
    return count;
}
