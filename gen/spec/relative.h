/* SPDX-License-Identifier: MIT */
/* relative = t5 and relative = table: which number of rel_bias belongs to a distance d = j - p of a key from a query,
 * rel_keys and rel_queries: which vector; and from where on it is the same for all.
 *
 * Left out on purpose: where the numbers lie (tensor.c, plan.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct layer;

/* relative = t5. relative_side(): buckets of the distances of one sign, one for each distance below half of them;
 * the others grow like a geometric series. Both signs have buckets of their own unless the mask is causal. */
int64_t relative_side(const struct layer *layer);
bool relative_both(const struct layer *layer);
/* The smallest distance of bucket side / 2 + k, k = 0 ... side / 2 - 1:
 * exactly the definition's floor of a real number. */
int64_t relative_first(const struct layer *layer, int64_t k);
/* The bucket of d = j - p. */
int64_t relative_bucket(const struct layer *layer, int64_t d);

/* The number of rel_bias for a head and a distance. */
int64_t relative_index(const struct layer *layer, int64_t head, int64_t d);
/* rel_rows = log: of distances |p - j| up to half of rel_buckets each has a bucket, the others grow like a geometric
 * series, so that half of them end at rel_distance. relative_wider(): the smallest |p - j| of bucket
 * rel_buckets / 2 + 1 + k. */
int64_t relative_wider(const struct layer *layer, int64_t k);
/* The vector of p - j, 0 ... rel_width - 1 */
int64_t relative_row(const struct layer *layer, int64_t back);
/* Distances below -left have the number of -left, those above right that of right; no further than calls reach. */
void relative_reach(const struct layer *layer, int64_t *left, int64_t *right);
