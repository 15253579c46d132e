/* SPDX-License-Identifier: MIT */
/* The rules of the masks of position, and what follows from them in closed form. */
#include "spec/visible.h"

#include "base/arith.h"
#include "spec/layer.h"
#include "spec/score.h"

/* A mask of position is one line here. Under `causal` blocks end before the diagonal, which is computed in strips. */
int visible_rules(const struct layer *l, struct visible_rule rules[VISIBLE_RULES])
{
    const int64_t left = l->window_left, right = l->window_right;
    const struct {
        unsigned mask;
        bool bounded;
        struct visible_rule rule;
    } all[VISIBLE_RULES] = {
        {MASK_CAUSAL, true, {.kind = VISIBLE_TO, .lifted = (l->mask & MASK_PREFIX) != 0}},
        {MASK_NO_SELF, true, {.kind = VISIBLE_NOT}},
        {MASK_WINDOW, left != LAYER_UNBOUNDED, {.kind = VISIBLE_FROM, .offset = -left}},
        {MASK_WINDOW, right != LAYER_UNBOUNDED, {.kind = VISIBLE_TO, .offset = right, .cut = right + 1}},
    };
    int count = 0;
    for (int i = 0; i < VISIBLE_RULES; i++)
        if ((l->mask & all[i].mask) != 0 && all[i].bounded)
            rules[count++] = all[i].rule;
    return count;
}

int64_t visible_offset(const struct layer *layer, int64_t n, int64_t m)
{
    return layer->offset == OFFSET_NONE ? 0 : layer->offset == OFFSET_END ? m - n : max(0, m - n);
}

bool visible_pair(const struct layer *layer, int64_t p, int64_t j)
{
    return visible_pair_behind(layer, 0, p, j);
}

bool visible_pair_behind(const struct layer *layer, int64_t prefix, int64_t p, int64_t j)
{
    struct visible_rule rules[VISIBLE_RULES];
    const int count = visible_rules(layer, rules);
    bool sees = true;
    for (const struct visible_rule *r = rules; r < rules + count; r++) {
        const int64_t edge = p + r->offset;
        if (r->kind == VISIBLE_TO)
            sees = sees && (j <= edge || (r->lifted && j < prefix));
        else
            sees = sees && (r->kind == VISIBLE_FROM ? j >= edge : j != edge);
    }
    return sees;
}

void visible_reach(const struct layer *layer, int64_t *left, int64_t *right)
{
    struct visible_rule rules[VISIBLE_RULES];
    const int count = visible_rules(layer, rules);
    *left = *right = LAYER_UNBOUNDED;
    for (const struct visible_rule *r = rules; r < rules + count; r++) {
        if (r->kind == VISIBLE_TO)
            *right = *right == LAYER_UNBOUNDED ? r->offset : min(*right, r->offset);
        if (r->kind == VISIBLE_FROM)
            *left = *left == LAYER_UNBOUNDED ? -r->offset : min(*left, -r->offset);
    }
}

/* 1 + 2 + … + k, 0 for k < 0. */
static int64_t triangle(int64_t k) { return k > 0 ? (k % 2 == 0 ? k / 2 * (k + 1) : (k + 1) / 2 * k) : 0; }

/* The sum of min(k, m) over k = 1 … end. */
static int64_t clamped(int64_t end, int64_t m) { return triangle(min(end, m)) + max(0, end - m) * m; }

/* What a layer lets queries at positions 0 … n-1 see. The one at p sees keys max(0, p - left) … min(m - 1, p + right);
 * that is an empty range only from p = m + left on. Of the keys below the upper end the sum is Σ min(m, p + 1 + right),
 * of those below the lower end Σ max(0, p - left), and no_self takes one from each p < m. */
static int64_t pairs_from_0(const struct layer *layer, int64_t n, int64_t m)
{
    int64_t left, right;
    if (n <= 0 || m <= 0)
        return 0;
    visible_reach(layer, &left, &right);
    left = left != LAYER_UNBOUNDED ? left : n;
    right = right != LAYER_UNBOUNDED ? right : m;
    const int64_t rows = min(n, m + left);              /* queries that see anything at all */
    const int64_t rising = right < m ? min(rows, m - right) : 0; /* those whose range ends before m - 1 or there */
    const int64_t below_end = triangle(rising) + rising * right + (rows - rising) * m;
    const int64_t below_start = triangle(rows - 1 - left);
    return below_end - below_start - (visible_pair(layer, 0, 0) ? 0 : min(n, m));
}

#define BLOCK_LANES 64 /* queries of a block, at most: those past the last one are computed as well, and dropped */

struct expression_box visible_box(const struct layer *layer)
{
    struct expression_box box = {.i = {.high = layer->h - 1}, .p = {.high = layer->seq_len - 1 + BLOCK_LANES - 1},
                                 .j = {.high = layer->source_len - 1}};
    if (layer->offset == OFFSET_PAST)
        box.p.high += INT32_MAX;
    if (layer->cache == CACHE_RING)
        box.j.high = box.p.high;
    else if (layer_has_cache(layer)) /* keys lie along the lanes */
        box.j.high += BLOCK_LANES;
    if (layer->offset == OFFSET_END) {
        box.p.low = -layer->seq_len;
        box.p.high = layer->source_len - 1 + BLOCK_LANES - 1;
    }
    return box;
}

bool visible_by_blocks(const struct layer *layer)
{
    const struct expression *e = layer->visible_kernel;
    return e != NULL && (e->nodes[e->root].reads & READS_TABLE) == 0;
}

/* Queries before position 0 see the keys up to p + right, which no other rule cuts. */
int64_t visible_pairs(const struct layer *layer, int64_t n, int64_t m)
{
    const int64_t first = visible_offset(layer, n, m), end = first + n;
    int64_t left, right, before = 0;
    if (n <= 0 || m <= 0)
        return 0;
    visible_reach(layer, &left, &right);
    if (first < 0 && right == LAYER_UNBOUNDED)
        before = (min(end, 0) - first) * m;
    else if (first < 0)
        before = clamped(min(end, 0) + right, m) - clamped(first + right, m);
    return before + pairs_from_0(layer, end, m) - pairs_from_0(layer, first, m);
}

#define GRAIN 16 /* keys of a block, as templates/steps/attend.in has it */
#define SAMPLED 64 /* most rows of blocks that are sampled, evenly spread, and most blocks of each */
#define SAMPLED_KEYS 8192

/* Whether `visible` is never true, always, or neither is known: {0, 0}, {1, 1}, {0, 1}. */
static struct expression_range box_range(const struct layer *layer, int64_t head, struct visible_range p,
                                         struct visible_range j)
{
    static struct expression_range unknown = {.low = 0, .high = 1};
    const struct expression *e = layer->visible_kernel;
    const struct expression_box box = {.i = {.low = head, .high = head}, .p = {.low = p.first, .high = p.end - 1},
                                       .j = {.low = j.first, .high = j.end - 1}};
    struct expression_range ranges[8 * EXPRESSION_NODES];
    int node;
    return expression_ranges(e, &box, ranges, &node) ? ranges[e->root] : unknown;
}

bool visible_never(const struct layer *layer)
{
    const struct expression_box box = visible_box(layer);
    const struct visible_range p = {box.p.low, box.p.high + 1 - (BLOCK_LANES - 1)}, j = {0, layer->source_len};
    bool never = layer->visible_kernel != NULL;
    for (int64_t head = 0; never && head < layer->h; head++)
        never = box_range(layer, head, p, j).high == 0;
    return never;
}

struct visible_share visible_shares(const struct layer *layer, int64_t head, int64_t queries)
{
    const int64_t n = layer->seq_len, m = layer->source_len, rows = ceil_div(n, queries), taken = min(rows, SAMPLED);
    const int64_t columns = ceil_div(m, GRAIN), looked_at = min(columns, SAMPLED_KEYS);
    double blocks = 0, computed = 0, tested = 0;
    for (int64_t k = 0; k < taken; k++) {
        const int64_t t = k * rows / taken * queries;
        const struct visible_range p = {t, min(n, t + queries)}, keys = visible_keys(layer, t, p.end - 1);
        for (int64_t c = 0; c < looked_at; c++) {
            const int64_t j = c * columns / looked_at * GRAIN;
            const struct visible_range of = {j, min(m, j + GRAIN)};
            const struct expression_range seen = box_range(layer, head, p, of);
            const bool reached = of.end > keys.first && of.first < keys.end;
            blocks++;
            computed += reached && seen.high != 0;
            tested += reached && seen.high != 0 && seen.low == 0;
        }
    }
    return (struct visible_share){computed / blocks, tested / blocks};
}

void visible_map(const struct layer *layer, int64_t head, char text[VISIBLE_MAP * (VISIBLE_MAP + 1) + 1])
{
    const int64_t n = layer->seq_len, m = layer->source_len, rows = min(n, VISIBLE_MAP), columns = min(m, VISIBLE_MAP);
    char *at = text;
    for (int64_t r = 0; r < rows; r++, *at++ = '\n')
        for (int64_t c = 0; c < columns; c++) {
            const struct visible_range p = {r * n / rows, (r + 1) * n / rows};
            const struct visible_range j = {c * m / columns, (c + 1) * m / columns};
            const struct expression_range seen = box_range(layer, head, p, j);
            const struct visible_range keys = visible_keys(layer, p.first, p.end - 1);
            const bool reached = j.end > keys.first && j.first < keys.end;
            *at++ = !reached || seen.high == 0 ? '.' : seen.low == 1 ? '#' : '+';
        }
    at[rows > 0 ? -1 : 0] = '\0';
}

/* ---- blocks of keys -------------------------------------------------------------------------------------- */

struct visible_range visible_keys(const struct layer *layer, int64_t p, int64_t last)
{
    struct visible_rule rules[VISIBLE_RULES];
    const int count = visible_rules(layer, rules);
    struct visible_range keys = {0, layer->source_len};
    for (const struct visible_rule *r = rules; r < rules + count; r++) {
        if (r->kind == VISIBLE_TO)
            keys.end = min(keys.end, last + r->offset + 1);
        if (r->kind == VISIBLE_FROM)
            keys.first = max(keys.first, p + r->offset);
    }
    keys.end = max(keys.end, 0);
    keys.first = min(keys.first, keys.end);
    return keys;
}

/* Keys from ... until-1 are hidden from some query: whether `key` is one, and where that changes. */
static void cut_at(int64_t *end, bool *hidden, int64_t key, int64_t from, int64_t until)
{
    if (key < from) {
        if (from < until)
            *end = min(*end, from);
    } else if (key < until) {
        *hidden = true;
        *end = min(*end, until);
    }
}

int64_t visible_cut(const struct layer *layer, int64_t lanes, int64_t p, int64_t key, int64_t end, bool *hidden)
{
    struct visible_rule rules[VISIBLE_RULES];
    const int count = visible_rules(layer, rules);
    *hidden = score_everywhere(layer);
    if (*hidden)
        return end;
    for (const struct visible_rule *r = rules; r < rules + count; r++)
        switch (r->kind) {
        case VISIBLE_TO: cut_at(&end, hidden, key, max(0, p + r->cut), INT64_MAX); break;
        case VISIBLE_FROM: cut_at(&end, hidden, key, 0, max(0, p + lanes - 1 + r->offset)); break;
        case VISIBLE_NOT: cut_at(&end, hidden, key, max(0, p + r->offset), max(0, p + r->offset + lanes)); break;
        }
    return end;
}

void visible_runs(const struct layer *layer, int64_t block, int64_t p, struct visible_range run[2])
{
    struct visible_rule rules[VISIBLE_RULES];
    const int count = visible_rules(layer, rules);
    const bool everywhere = score_everywhere(layer);
    const int64_t last = p + block - 1;
    run[0] = everywhere ? visible_keys(layer, p, last) : visible_keys(layer, last, p);
    run[1] = (struct visible_range){0, 0};
    for (const struct visible_rule *r = rules; r < rules + count && !everywhere; r++)
        if (r->kind == VISIBLE_TO)
            run[0].end = min(run[0].end, max(0, p + r->cut));
    for (const struct visible_rule *r = rules; r < rules + count && !everywhere; r++)
        if (r->kind == VISIBLE_NOT) {
            run[1].end = run[0].end;
            run[1].first = min(run[1].end, max(run[0].first, p + r->offset + block));
            run[0].end = min(run[0].end, max(0, p + r->offset));
        }
    run[0].first = min(run[0].first, run[0].end);
}
