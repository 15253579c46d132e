/* SPDX-License-Identifier: MIT */
/* Wrong pointers: a function gets one row for each pointer that it is given, and must refuse it where it is NULL or off
 * its boundary.
 *
 * Left out on purpose: sizes, and numbers in tensors.
 */
#pragma once

#include "kernels/load.h"

struct misuse {
    const char *name;
    void *at;         /* the address of the pointer */
    size_t alignment; /* in bytes; 1: any */
    enum { MISUSE_NEEDED, MISUSE_OPTIONAL } use;
};

/* Spoils one pointer at a time; `refused` says whether the call then returns that error, and puts its reason down. */
bool misuse_refused(const struct misuse *rows, size_t count,
                    bool (*refused)(void *context, int expected, const char *what), void *context);

/* Rows of the tensors of a call that has tokens, and of weights, tables among them. Return how many. */
#define MISUSE_ROWS (TENSOR_COUNT + 4)
size_t misuse_of_args(const struct layer *layer, struct kernel_args *args, struct misuse rows[MISUSE_ROWS]);
size_t misuse_of_weights(const struct layer *layer, struct kernel_weights *weights, const float **tables,
                         struct misuse rows[MISUSE_ROWS]);
