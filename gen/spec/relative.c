/* SPDX-License-Identifier: MIT */
/* Buckets of T5, exactly, and the reach of a table. */
#include "spec/relative.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- exact comparison ------------------------------------------------------------------------------------ */

#define MAX_WORDS 8192 /* words of 32 bits; more are needed only where rel_buckets is in the thousands */
#define NEAR 1e-9      /* logarithms of this size and their rounding: past it a long double decides */

struct large {
    uint32_t word[MAX_WORDS];
    int words; /* 0 past the last that fits */
};

static void multiply(struct large *n, int64_t by)
{
    uint64_t carry = 0;
    for (int i = 0; i < n->words; i++) {
        carry += (uint64_t)n->word[i] * (uint64_t)by; /* by < 2^31 */
        n->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry > 0 && n->words > 0)
        n->words = n->words < MAX_WORDS ? n->words + 1 : 0;
    if (carry > 0 && n->words > 0)
        n->word[n->words - 1] = (uint32_t)carry;
}

/* a^i b^k */
static void power(struct large *n, int64_t a, int64_t i, int64_t b, int64_t k)
{
    *n = (struct large){.word = {1}, .words = 1};
    for (; i > 0; i--)
        multiply(n, a);
    for (; k > 0; k--)
        multiply(n, b);
}

/* Whether a >= b; what does not fit counts as equal. */
static bool at_least(const struct large *a, const struct large *b)
{
    if (a->words == 0 || b->words == 0)
        return true;
    if (a->words != b->words)
        return a->words > b->words;
    for (int i = a->words; i-- > 0;)
        if (a->word[i] != b->word[i])
            return a->word[i] > b->word[i];
    return true;
}

/* Whether ln(d / e) / ln(far / e) e >= k, that is d^e e^k >= far^k e^e: by logarithms where they tell, else exactly. */
static bool reaches(int64_t d, int64_t e, int64_t far, int64_t k)
{
    const long double difference = (long double)e * logl((long double)d / (long double)e) -
                                   (long double)k * logl((long double)far / (long double)e);
    if (fabsl(difference) > NEAR)
        return difference > 0;
    struct large *two = malloc(2 * sizeof *two);
    if (two == NULL)
        return difference > -NEAR;
    power(&two[0], d, e, e, k);
    power(&two[1], far, k, e, e);
    const bool is = at_least(&two[0], &two[1]);
    free(two);
    return is;
}

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

void relative_reach(const struct layer *l, int64_t *left, int64_t *right)
{
    *left = l->rel_left;
    *right = l->rel_right;
    if (l->relative == RELATIVE_T5) {
        *left = relative_first(l, relative_side(l) / 2 - 1);
        *right = relative_both(l) ? *left : 0;
    }
    if (l->offset == OFFSET_NONE) { /* a position is a row */
        *left = min(*left, l->seq_len - 1);
        *right = min(*right, l->source_len - 1);
    }
}
