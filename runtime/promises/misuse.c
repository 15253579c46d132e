/* SPDX-License-Identifier: MIT */
/* See misuse.h. */
#include "misuse.h"

#include <stdio.h>
#include <string.h>

bool misuse_refused(const struct misuse *rows, size_t count,
                    bool (*refused)(void *context, int expected, const char *what), void *context)
{
    static _Alignas(KERNEL_ALIGNMENT) const char spare[KERNEL_ALIGNMENT] = "";
    bool good = true;
    for (const struct misuse *row = rows; good && row < rows + count; row++) {
        const char *given, *wrong = row->use == MISUSE_UNUSED ? spare : NULL;
        const size_t step = row->alignment > 4 ? row->alignment / 4 : 1;
        char what[80];
        memcpy(&given, row->at, sizeof given);
        snprintf(what, sizeof what, "%s %s", row->name, wrong != NULL ? "without use" : "= NULL");
        memcpy(row->at, &wrong, sizeof wrong);
        if (row->use != MISUSE_OPTIONAL)
            good = refused(context, wrong != NULL ? KERNEL_UNUSED : KERNEL_NULL, what);
        snprintf(what, sizeof what, "%s off its boundary", row->name);
        const size_t end = row->use == MISUSE_UNUSED || given == NULL ? 0 : row->alignment;
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
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const bool has = layer_has_tensor(layer, t), scale = t == TENSOR_K_SCALE || t == TENSOR_V_SCALE;
        if (!tensor_is_packed(layer_tensor_row(t)->kind) && (has || !scale)) /* others have other fields in its place */
            rows[count++] = (struct misuse){layer_tensor_name(t), kernel_place(args, t), layer_tensor_size(layer, t),
                                            has ? MISUSE_NEEDED : MISUSE_UNUSED};
    }
    if (layer->train)
        rows[count++] = (struct misuse){"saved", &args->saved, sizeof(float), MISUSE_OPTIONAL};
    return count;
}

size_t misuse_of_weights(const struct layer *layer, struct kernel_weights *weights, const float **tables,
                         struct misuse rows[MISUSE_ROWS])
{
    size_t count = 0;
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (kernel_weight(layer, weights, t) != NULL)
            rows[count++] = (struct misuse){layer_tensor_name(t), kernel_weight(layer, weights, t), sizeof(float),
                                            layer_has_tensor(layer, t) ? MISUSE_NEEDED : MISUSE_UNUSED};
    rows[count++] = (struct misuse){"tables", &weights->tables, 1, layer->table_count > 0 ? MISUSE_NEEDED
                                                                                         : MISUSE_UNUSED};
    for (size_t i = 0; i < layer->table_count; i++)
        rows[count++] = (struct misuse){layer->tables[i].name, &tables[i], sizeof(float), MISUSE_NEEDED};
    return count;
}
