/* SPDX-License-Identifier: MIT */
/* Buckets of T5 and of DeBERTa, exactly, and the reach of a table. */
#include "spec/relative.h"

#include <math.h>
#include <stdlib.h>

#include "base/arith.h"
#include "spec/layer.h"

int64_t relative_side(const struct layer *l)
{
    return relative_both(l) ? l->rel_buckets / 2 : l->rel_buckets;
}

bool relative_both(const struct layer *l)
{
    return (l->mask & MASK_CAUSAL) == 0;
}

#define NEAR 1e-9 /* relative to 1: logarithms this near are of powers of whole numbers, and equal */

/* ln(d / e) steps - k ln(far / e) */
static long double beyond(int64_t d, int64_t e, int64_t far, int64_t steps, int64_t k)
{
    return (long double)steps * logl((long double)d / (long double)e) -
           (long double)k * logl((long double)far / (long double)e);
}

/* Whether ln(d / e) / ln(far / e) e >= k; borders may lie on whole numbers, as 16 and 32 of 8 16^(k/8) do. */
static bool reaches(int64_t d, int64_t e, int64_t far, int64_t k) { return beyond(d, e, far, e, k) > -NEAR; }

/* ---- buckets --------------------------------------------------------------------------------------------- */

int64_t relative_first(const struct layer *l, int64_t k)
{
    const int64_t e = relative_side(l) / 2, far = l->rel_distance;
    const long double ratio = (long double)far / (long double)e;
    int64_t d = (int64_t)((long double)e * powl(ratio, (long double)k / (long double)e));
    d = max(e, d);
    while (d > e && reaches(d - 1, e, far, k))
        d--;
    while (!reaches(d, e, far, k))
        d++;
    return d;
}

int64_t relative_bucket(const struct layer *l, int64_t d)
{
    const int64_t side = relative_side(l), e = side / 2;
    const int64_t first = relative_both(l) && d > 0 ? side : 0;
    const int64_t distance = relative_both(l) ? llabs((long long)d) : max(-d, 0);
    const int64_t far = l->rel_distance;
    if (distance < e)
        return first + distance;
    if (distance >= far)
        return first + side - 1;
    int64_t k = (int64_t)((long double)e * logl((long double)distance / (long double)e) /
                          logl((long double)far / (long double)e));
    while (k > 0 && !reaches(distance, e, far, k))
        k--;
    while (k + 1 < e && reaches(distance, e, far, k + 1))
        k++;
    return first + e + k;
}

int64_t relative_index(const struct layer *l, int64_t head, int64_t d)
{
    if (l->relative == RELATIVE_T5)
        return relative_bucket(l, d) * l->h + head;
    return head * l->rel_width + min(max(d, -l->rel_left), l->rel_right) + l->rel_left;
}

/* HF's make_log_bucket_position: ceil(ln(d / e) / ln(far / e) (e - 1)) + e, so that bucket e + 1 + k begins where the
 * quotient exceeds k. */
static bool is_wider(const struct layer *l, int64_t d, int64_t k)
{
    const int64_t e = l->rel_buckets / 2;
    return beyond(d, e, l->rel_distance - 1, e - 1, k) > NEAR;
}

int64_t relative_wider(const struct layer *l, int64_t k)
{
    int64_t low = l->rel_buckets / 2, high = l->rel_distance; /* low is not there yet */
    while (high < INT32_MAX && !is_wider(l, high, k))
        high *= 2;
    while (high - low > 1) {
        const int64_t d = low + (high - low) / 2;
        *(is_wider(l, d, k) ? &high : &low) = d;
    }
    return high;
}

int64_t relative_row(const struct layer *l, int64_t back)
{
    if (l->rel_rows == ROWS_CLAMPED)
        return min(max(back, -l->rel_right), l->rel_left) + l->rel_right;
    const int64_t away = llabs((long long)back), e = l->rel_buckets / 2, most = l->rel_buckets - (back < 0 ? 0 : 1);
    int64_t k = 0;
    if (away > e)
        k = (int64_t)(beyond(away, e, l->rel_distance - 1, e - 1, 0) /
                      logl((long double)(l->rel_distance - 1) / (long double)e));
    while (away > e && is_wider(l, away, k))
        k++;
    while (k > 0 && !is_wider(l, away, k - 1))
        k--;
    const int64_t bucket = min(away > e ? e + k : away, most);
    return l->rel_buckets + (back < 0 ? -bucket : bucket);
}

void relative_reach(const struct layer *l, int64_t *left, int64_t *right)
{
    *left = l->rel_left;
    *right = l->rel_right;
    if (l->relative == RELATIVE_T5) {
        *left = relative_first(l, relative_side(l) / 2 - 1);
        *right = relative_both(l) ? *left : 0;
    }
    if (layer_has_vectors(l) && l->rel_rows == ROWS_LOG) {
        *left = *right = relative_wider(l, l->rel_buckets - l->rel_buckets / 2 - 1); /* the last bucket's first one */
    }
    if (l->offset == OFFSET_NONE) { /* a position is a row */
        *left = min(*left, l->seq_len - 1);
        *right = min(*right, l->source_len - 1);
    }
}
