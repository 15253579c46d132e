/* SPDX-License-Identifier: MIT */
/* The keys that a sweep varies and their values; their product in a fixed order.
 *
 * Left out on purpose: what the keys mean, and whether a point is legal (layer.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

#define MAX_POINTS 100000

struct axis {
    char *key;
    char **value;
    size_t count;
};

struct axes {
    struct axis *axis;
    size_t count;
    size_t points; /* the product of the counts */
};

/* Each text is "key=VALUES": values joined by commas, each a word or a range first:last:step of whole numbers, both
 * ends in it. False with the reasons in `diag`; axes_free() in any case. */
bool axes_parse(struct axes *axes, const char *const *texts, size_t count, struct diag *diag);
/* The value of one axis at a point, from 0 on; the last axis varies fastest. */
const char *axes_value(const struct axes *axes, size_t point, size_t axis);
/* NULL if this key is not varied. */
const struct axis *axes_find(const struct axes *axes, const char *key);
void axes_free(struct axes *axes);

/* "I/N", both from 1 on. */
bool shard_parse(const char *text, size_t *shard, size_t *shards, struct diag *diag);
/* The shard, from 1 on, of each of `points`. Points are dealt out in turn, in a fixed pseudo-random order, so that no
 * shard gets all the wide ones. free() it. */
size_t *shard_deal(size_t points, size_t shards);
