/* SPDX-License-Identifier: MIT */
/* What becomes of numbers that are not like all others: hidden and visible NaN and infinities, rows and columns of
 * zeros, tiny, huge and halfway numbers.
 *
 * Left out on purpose: scores of every size (extremes.h).
 */
#include "trials.h"

#include <math.h>
#include <string.h>

#include "expression/expression.h"
#include "inputs/elements.h"
#include "reference/stored.h"
#include "spec/score.h"

/* ---- hidden and visible poison --------------------------------------------------------------------------------- */

/* What must become of rows that see poison. With infinite values a score may be -infinity, which makes the weight 0 and
 * leaves attn finite; but 0 times the value is NaN, and an infinite query has no finite score to divide by, except a
 * sink, or one that a softcap makes finite. With finite but huge values nothing is promised. */
enum demand { DEMAND_NOTHING, DEMAND_OF_INFINITY, DEMAND_OF_NAN };

/* nothing; only the query itself, if scores do not read it; the query itself; a key and its value; the row of x that a
 * block adds */
enum taint { TAINT_NONE, TAINT_UNREAD, TAINT_OF_QUERY, TAINT_OF_KEY, TAINT_OF_X };

/* Whether infinite scores always make weights non-finite: not with a sink in the divisor, nor with a softcap */
static bool always_divides(const struct layer *layer) { return !layer->sink && !score_has(layer, SCORE_SOFTCAP); }

/* What of a chosen row is poisoned: all of it, one column, or with given values those alone */
enum extent { EXTENT_ROW, EXTENT_COLUMN, EXTENT_VALUES };

struct poison {
    struct inputs in;
    size_t rows;                /* rows of a sequence: those of a cache, then m new ones */
    unsigned char *key, *query; /* [batch][rows], [batch][n]: poisoned rows; in self-attention the same for the
                                 * call's own */
    unsigned char *tainted;     /* [batch][h][n]: the poison that each row of Z sees */
    unsigned char *read;        /* [batch][h][n]: whether a score of the row becomes NaN */
    enum extent extent;
    struct pool memory;
};

/* Number of rows, of a cache and of a call, that may be poisoned: the maximum over the sequences */
static size_t poison_rows(const struct trial *t)
{
    size_t most = 0;
    for (size_t b = 0; layer_has_cache(t->layer) && b < t->in->batch; b++) /* a batch of nothing may have 2^31 */
        most = inputs_cached(t->layer, t->in, b) > most ? inputs_cached(t->layer, t->in, b) : most;
    return most + t->in->m;
}

/* Cached rows that sequences share are poisoned for all of them, or for none. */
static void share_poison(struct poison *p, const struct trial *t)
{
    const struct inputs *in = t->in;
    HEAP unsigned char *poisoned = memory_get(trial_cache_bytes(t, 0), 1);
    for (int turn = 0; turn < 2; turn++)
        for (size_t b = 0; b < in->batch; b++)
            for (size_t j = 0; j < inputs_cached(t->layer, in, b); j++) {
                const int64_t position = inputs_first(t->layer, in, b) + (int64_t)j;
                unsigned char *row = &poisoned[inputs_cache_row(t->layer, in, false, b, 0, position)];
                unsigned char *key = &p->key[b * p->rows + j];
                *row |= *key;
                *key = *row;
            }
}

/* Random rows among the later ones and those past lengths[b]: under causal, padding or a window some queries see none
 * of them. */
static void choose_poison(struct poison *p, const struct trial *t)
{
    const struct inputs *in = t->in;
    struct random random = {t->seed ^ 0x706F69736F6E};
    const size_t batch = in->n + in->m > 0 ? in->batch : 0; /* sequences that have a row, of which memory holds few */
    for (size_t b = 0; b < batch; b++) {
        const size_t cached = inputs_cached(t->layer, in, b), m = cached + in->m;
        for (size_t j = 0; j < m; j++) {
            const double chance = j >= cached + inputs_keys(in, b) ? 0.7 : j >= m / 2 ? 0.15 : j + 1 == m ? 0.5 : 0.02;
            p->key[b * p->rows + j] = random_uniform(&random) < chance;
        }
        for (size_t q = 0; q < in->n; q++)
            p->query[b * in->n + q] =
                !t->layer->self ? random_uniform(&random) < 0.1 : p->key[b * p->rows + cached + q];
    }
    if (t->layer->cache == CACHE_PAGED)
        share_poison(p, t);
}

static void spread_taint(struct poison *p, const struct trial *t)
{
    const struct inputs *in = t->in;
    const size_t h = (size_t)t->layer->h, batch = in->n > 0 ? in->batch : 0;
    for (size_t b = 0; b < batch; b++)
        for (size_t i = 0; i < h; i++)
            for (size_t q = 0; q < in->n; q++) {
                enum taint taint = TAINT_NONE;
                bool read = false;
                const size_t rows = inputs_cached(t->layer, in, b) + in->m;
                for (size_t j = 0; j < rows && !(taint == TAINT_OF_KEY && read); j++) {
                    const bool key = p->key[b * p->rows + j];
                    if (!(key || p->query[b * in->n + q]) || !reference_visible(t->layer, in, b, i, q, j))
                        continue;
                    const bool shows =
                        isnan(expressions_score(t->layer, in, reference_pair(t->layer, in, b, i, q, j), NAN));
                    const enum taint one = key ? TAINT_OF_KEY : shows ? TAINT_OF_QUERY : TAINT_UNREAD;
                    taint = one > taint ? one : taint;
                    read = read || shows;
                }
                p->read[(b * h + i) * in->n + q] = read;
                p->tainted[(b * h + i) * in->n + q] = (unsigned char)taint;
            }
}

/* Whether row r of all queries, or of all keys and values that the call brings, is poisoned. */
static bool is_poisoned(const struct poison *p, const struct trial *t, enum layer_tensor tensor, size_t r)
{
    const size_t m = t->in->m;
    if (tensor == TENSOR_Q || tensor == TENSOR_X)
        return p->query[r];
    return p->key[r / m * p->rows + inputs_cached(t->layer, t->in, r / m) + r % m];
}

/* Writes to the numbers of a head from `first` on, all of them or one column, which `row` decides. */
static void put_poison(const struct poison *p, const struct layer *layer, enum layer_tensor tensor, size_t first,
                       size_t width, size_t row, const float values[3])
{
    for (size_t c = 0; c < width; c++)
        if (p->extent != EXTENT_COLUMN || c == row % width)
            element_put(layer_tensor_element(layer, tensor), p->in.tensor[tensor], first + c,
                        (double)values[(row + c) % 3]);
}

/* Writes to whole rows, or to one column of what each head reads. */
static void write_poison(struct poison *p, const struct trial *t, enum layer_tensor tensor, size_t count, size_t width,
                         size_t head_width, const float values[3])
{
    for (size_t r = 0; r < t->in->batch * count; r++)
        for (size_t first = 0; is_poisoned(p, t, tensor, r) && first < width; first += head_width)
            put_poison(p, t->layer, tensor, r * width + first, head_width, r, values);
}

/* Writes to rows of a cache. */
static void poison_cache(struct poison *p, const struct trial *t, const float values[3])
{
    const struct layer *layer = t->layer;
    for (int of_values = p->extent == EXTENT_VALUES; of_values < inputs_compared(layer); of_values++) {
        /* whole numbers are never NaN */
        const int part = layer_scales_cache(layer) ? inputs_scales_of(layer, of_values) : of_values;
        const enum layer_tensor tensor = inputs_cache_of(layer, part);
        const size_t width = inputs_cache_width(layer, part);
        for (size_t b = 0; b < t->in->batch; b++)
            for (size_t j = 0; j < inputs_cached(layer, t->in, b); j++)
                for (size_t i = 0; p->key[b * p->rows + j] && i < (size_t)layer->h_kv; i++) {
                    const int64_t position = inputs_first(layer, t->in, b) + (int64_t)j;
                    const size_t row = inputs_cache_row(layer, t->in, part, b, i, position);
                    put_poison(p, layer, tensor, row, width, j, values);
                }
    }
}

/* Writes to each head's row of q, k or v, or to one column of it. */
static void poison_given(struct poison *p, const struct trial *t, enum layer_tensor tensor, const float values[3])
{
    const struct layer *layer = t->layer;
    const size_t count = tensor == TENSOR_Q ? t->in->n : t->in->m;
    const size_t heads = (size_t)(tensor == TENSOR_Q ? layer->h : layer->h_kv);
    const size_t width = (size_t)(tensor == TENSOR_V ? layer->d_v : layer->d_k);
    for (size_t r = 0; r < t->in->batch * count; r++)
        for (size_t i = 0; is_poisoned(p, t, tensor, r) && i < heads; i++)
            put_poison(p, layer, tensor, inputs_head_row(layer, t->in, tensor, r / count, r % count, i), width, r,
                       values);
}

static struct poison begin_poison(const struct trial *t, enum extent extent)
{
    const size_t rows = t->in->batch * t->in->n, heads = (size_t)t->layer->h;
    struct poison p = {.extent = extent, .rows = poison_rows(t)};
    inputs_copy(&p.in, t->layer, t->in);
    p.key = pool_get(&p.memory, t->in->batch * p.rows, 1);
    p.query = pool_get(&p.memory, rows, 1);
    p.tainted = pool_get(&p.memory, rows * heads, 1);
    p.read = pool_get(&p.memory, rows * heads, 1);
    return p;
}

static struct poison make_poison(struct trial *t, const float values[3], enum extent extent)
{
    const struct inputs *in = t->in;
    const struct layer *layer = t->layer;
    struct poison made = begin_poison(t, extent), *const p = &made;
    choose_poison(p, t);
    if (extent == EXTENT_VALUES)
        memset(p->query, 0, in->batch * in->n);
    for (size_t b = 0; extent == EXTENT_VALUES && !layer->projected && b < in->batch; b++)
        memset(p->key + b * p->rows + inputs_cached(layer, in, b), 0, in->m); /* x makes keys too */
    if (layer_attends(layer))
        spread_taint(p, t);
    if (extent == EXTENT_VALUES) /* no score shows them */
        memset(p->read, 0, in->batch * (size_t)layer->h * in->n);
    if (layer_has_cache(layer))
        poison_cache(p, t, values);
    if (layer->projected) {
        if (extent != EXTENT_VALUES) {
            poison_given(p, t, TENSOR_Q, values);
            poison_given(p, t, TENSOR_K, values);
        }
        if (!layer->shares)
            poison_given(p, t, TENSOR_V, values);
    }
    if (layer->projected || extent == EXTENT_VALUES)
        return made;
    write_poison(p, t, TENSOR_X, in->n, (size_t)layer->d_model, (size_t)layer->d_in_q, values);
    if (layer->cross)
        write_poison(p, t, TENSOR_SOURCE, in->m, (size_t)layer->d_source, (size_t)layer->d_in_kv, values);
    return made;
}

/* Whether a column of attention reaches all columns of y: through a norm, or the feed-forward. */
static bool spreads(const struct layer *layer)
{
    const bool norms = layer->block == BLOCK_POST || layer_norms_outputs(layer);
    return layer->w_o == W_O_DENSE || norms || (layer->block == BLOCK_PRE && layer_has_ffn(layer));
}

/* The worst taint among the rows of Z that an element of y depends on */
static enum taint taint_of_y(const struct poison *p, const struct trial *t, size_t b, size_t row, size_t column)
{
    const struct layer *layer = t->layer;
    const size_t h = (size_t)layer->h, block = (size_t)layer->d_out / h;
    size_t first, end;
    enum taint taint = TAINT_NONE;
    if (layer->pad_skipped && row >= inputs_keys(t->in, b))
        return TAINT_NONE;
    if (!layer_attends(layer))
        return p->query[b * t->in->n + row] ? TAINT_OF_X : TAINT_NONE;
    if (layer_has_block(layer) && p->query[b * t->in->n + row])
        return TAINT_OF_X;
    reference_taps(layer, t->in, b, row, &first, &end);
    for (size_t i = 0; i < h; i++)
        for (size_t z = first; z < end; z++)
            if ((spreads(layer) || column / block == i) && p->tainted[(b * h + i) * t->in->n + z] > taint)
                taint = p->tainted[(b * h + i) * t->in->n + z];
    return taint;
}

/* An expression may turn an infinite score into a finite one, and if it compares scores, also NaN; it may hide such a
 * pair, or not read the score at all. */
static enum demand demand_of(const struct layer *layer, enum demand demand)
{
    const bool bends = layer->score != NULL && (!expression_adds(layer->score) || score_has(layer, SCORE_HIDING));
    const bool ignores = layer->score != NULL && (layer->score->nodes[layer->score->root].reads & READS_S) == 0;
    const bool decides = ignores || (layer->score != NULL && expression_decides(layer->score));
    return decides || (bends && demand == DEMAND_OF_INFINITY) ? DEMAND_NOTHING : demand;
}

/* If an expression overflows on the way, or a key in an f16 cache, a row may be non-finite before it is poisoned. */
static bool overflowed(const struct trial *t, double base) { return promise_overflows(t->layer) && !isfinite(base); }

static bool check_poisoned_y(const struct poison *p, struct trial *t, enum demand demand, const char *what)
{
    const bool of_x = demand != DEMAND_NOTHING; /* whatever becomes of scores */
    demand = demand_of(t->layer, demand);
    const size_t d_out = (size_t)t->layer->d_out, n = t->in->n, h = (size_t)t->layer->h;
    const size_t step = spreads(t->layer) ? d_out : d_out / h; /* columns that share their fate */
    const enum taint least =
        demand == DEMAND_OF_INFINITY && !always_divides(t->layer) ? TAINT_OF_KEY : TAINT_OF_QUERY;
    for (size_t row = 0; row < t->in->batch * n; row++)
        for (size_t first = 0; first < d_out; first += step) {
            const enum taint taint = taint_of_y(p, t, row / n, row % n, first);
            for (size_t c = first; c < first + step; c++) {
                const size_t at = inputs_y_at(t->layer, t->in, row / n, row % n, c);
                const double y = trial_number(t, t->now.y.data, at), base = trial_number(t, t->base.y.data, at);
                if (taint == TAINT_NONE && !(y == base || overflowed(t, base)))
                    return violated(t, "%s in rows that nobody there sees changed y[%zu][%zu][%zu] from %.9g to %.9g",
                                    what, row / n, row % n, c, base, y);
                if (isfinite(y) && (taint == TAINT_OF_X ? of_x : taint >= least && demand != DEMAND_NOTHING))
                    return violated(t, "%s in a row that is seen left y[%zu][%zu][%zu] finite: %.9g", what, row / n,
                                    row % n, c, y);
            }
        }
    return true;
}

static bool check_poisoned_attn(const struct poison *p, struct trial *t, enum demand demand, const char *what)
{
    demand = demand_of(t->layer, demand);
    const size_t m = inputs_columns(t->layer, t->in), n = t->in->n, h = (size_t)t->layer->h;
    const bool divides = always_divides(t->layer);
    for (size_t row = 0; trial_count(t, TENSOR_ATTN) > 0 && row < t->in->batch * h * n; row++) {
        const bool query = p->query[row / n / h * n + row % n];
        bool finite = true;
        for (size_t j = 0; j < m; j++) {
            const size_t at = row * m + j;
            const double attn = trial_number(t, t->now.attn.data, at), base = trial_number(t, t->base.attn.data, at);
            const bool seen = reference_visible(t->layer, &p->in, row / n / h, row / n % h, row % n, j);
            if (!seen && (t->layer->scores == SCORES_RAW || t->layer->scores == SCORES_CAPPED))
                continue; /* anything */
            finite = finite && (isfinite(attn) || !seen);
            const bool skipped = t->layer->pad_skipped && row % n >= inputs_keys(&p->in, row / n / h);
            if (!seen && attn != (t->layer->scores == SCORES_BIASED && !skipped ? -INFINITY : 0))
                return violated(t, "%s in a row that is seen made attn[%zu][%zu][%zu][%zu] %.9g, of a hidden key", what,
                                row / n / h, row / n % h, row % n, j, attn);
            if (!p->tainted[row] && !(attn == base || overflowed(t, base)))
                return violated(t, "%s in rows that nobody there sees changed attn[%zu][%zu][%zu][%zu]", what,
                                row / n / h, row / n % h, row % n, j);
        }
        if (p->read[row] && finite && (demand == DEMAND_OF_NAN || (demand == DEMAND_OF_INFINITY && query && divides)))
            return violated(t, "%s in a row that is seen left attn[%zu][%zu][%zu] finite", what, row / n / h,
                            row / n % h, row % n);
    }
    return true;
}

static bool check_poisoned_lse(const struct poison *p, struct trial *t, enum demand demand, const char *what)
{
    demand = demand_of(t->layer, demand);
    const size_t n = t->in->n, h = (size_t)t->layer->h;
    const float *const lse = t->now.lse.data, *const base = t->base.lse.data;
    for (size_t row = 0; row < trial_count(t, TENSOR_LSE); row++) {
        if (!p->tainted[row] && !(lse[row] == base[row] || overflowed(t, base[row])))
            return violated(t, "%s in rows that nobody there sees changed lse[%zu][%zu][%zu] from %.9g to %.9g", what,
                            row / n / h, row / n % h, row % n, base[row], lse[row]);
        if (p->read[row] && demand == DEMAND_OF_NAN && isfinite(lse[row]))
            return violated(t, "%s in a row that is seen left lse[%zu][%zu][%zu] finite", what, row / n / h,
                            row / n % h, row % n);
    }
    return true;
}

/* Runs the poisoned call, and frees the poison; attn may show less of it. */
static bool run_poisoned(struct poison *p, struct trial *t, enum demand demand, enum demand of_attn, const char *what)
{
    trial_prepare(t, 12, 1);
    const bool good = trial_forward(t, &p->in, what) && check_poisoned_y(p, t, demand, what) &&
                      check_poisoned_attn(p, t, of_attn, what) && check_poisoned_lse(p, t, demand, what);
    inputs_free(&p->in);
    pool_free(&p->memory);
    return good;
}

static bool with_poison(struct trial *t, const float values[3], enum extent extent, enum demand demand,
                        const char *what)
{
    if (layer_keeps_states(t->layer)) /* states.c has such calls */
        return true;
    struct poison p = make_poison(t, values, extent);
    return run_poisoned(&p, t, demand, demand, what);
}

bool with_nan(struct trial *t)
{
    return with_poison(t, (const float[]){NAN, NAN, NAN}, EXTENT_ROW, DEMAND_OF_NAN, "NaN");
}

/* One NaN: with attention other columns may hide what a single one would show; without attention it must reach all
 * columns. */
bool with_one_nan(struct trial *t)
{
    const enum demand demand = layer_attends(t->layer) ? DEMAND_NOTHING : DEMAND_OF_NAN;
    return with_poison(t, (const float[]){NAN, NAN, NAN}, EXTENT_COLUMN, demand, "NaN in one column");
}

/* Given ones, or those that a cache holds, unless they are keys. Scores do not show it then; where they hide keys, they
 * still do. */
bool with_nan_in_values(struct trial *t)
{
    const enum demand demand = score_has(t->layer, SCORE_HIDING) ? DEMAND_NOTHING : DEMAND_OF_NAN;
    return (!t->layer->projected && !layer_has_cache(t->layer)) || t->layer->shares ||
           with_poison(t, (const float[]){NAN, NAN, NAN}, EXTENT_VALUES, demand, "NaN in values");
}

bool with_infinity(struct trial *t)
{
    const bool shows = layer_attends(t->layer) || layer_norms_first(t->layer) || layer_has_block(t->layer);
    const enum demand demand = shows ? DEMAND_OF_INFINITY : DEMAND_NOTHING; /* activations of infinities are finite */
    return with_poison(t, (const float[]){INFINITY, -INFINITY, INFINITY}, EXTENT_ROW, demand, "infinity");
}

/* Poisons some numbers of mask_add; rows that see one of these keys are tainted. */
static void poison_mask(struct poison *p, const struct trial *t, float value)
{
    const size_t batch = p->in.mask_batch[TENSOR_MASK_ADD], heads = p->in.mask_h[TENSOR_MASK_ADD];
    const size_t n = t->in->n, m = inputs_columns(t->layer, t->in), h = (size_t)t->layer->h;
    float *mask = p->in.tensor[TENSOR_MASK_ADD];
    struct random random = {t->seed ^ 0x6D61736B};
    HEAP unsigned char *chosen = memory_get(batch * heads * n * m, 1);
    for (size_t at = 0; at < batch * heads * n * m; at++)
        if (random_uniform(&random) < 0.5 / (double)m) {
            mask[at] = value;
            chosen[at] = 1;
        }
    for (size_t row = 0; row < t->in->batch * h * n; row++) {
        const size_t b = row / n / h, i = row / n % h, q = row % n;
        const size_t at = (((batch > 1 ? b : 0) * heads + (heads > 1 ? i : 0)) * n + q) * m;
        for (size_t j = 0; j < m; j++)
            if (chosen[at + j] && reference_visible(t->layer, &p->in, b, i, q, j)) {
                p->tainted[row] = TAINT_OF_KEY;
                p->read[row] = 1;
            }
    }
}

static bool with_masks_of(struct trial *t, float value, const char *what)
{
    /* attn shows scores before the mask is added */
    const bool before = t->layer->scores == SCORES_RAW || t->layer->scores == SCORES_CAPPED;
    struct poison p = begin_poison(t, EXTENT_ROW);
    poison_mask(&p, t, value);
    return run_poisoned(&p, t, DEMAND_OF_NAN, before ? DEMAND_NOTHING : DEMAND_OF_NAN, what);
}

bool with_masks(struct trial *t)
{
    return !layer_has_tensor(t->layer, TENSOR_MASK_ADD) ||
           (with_masks_of(t, NAN, "NaN in mask_add") && with_masks_of(t, INFINITY, "infinity in mask_add"));
}

bool with_huge_values(struct trial *t)
{
    return with_poison(t, (const float[]){INFINITY, -INFINITY, 3e38f}, EXTENT_ROW, DEMAND_NOTHING, "infinity or 3e38");
}

/* ---- rows of a block at the ends of what f32 holds --------------------------------------------------------------- */

#define KINDS_AT_THE_ENDS 15
/* Rows of x: the same number in all columns; all zeros; numbers whose squares exceed f32, or are subnormal; one number
 * far from all others. */
static float number_at_the_ends(size_t kind, float drawn, size_t column, size_t row)
{
    switch (kind) {
    case 0: return row % 3 == 0 ? 0.3f : -1e4f;
    case 1: return 0;
    case 2: return drawn * 1e30f;
    case 3: return column % 2 == row % 2 ? 3.4e38f : -3.4e38f;
    case 4: return drawn * 1e-30f;
    case 5: return drawn * 1e-44f;
    case 8: return drawn * 1e-35f;
    case 6: return column == row % 5 ? drawn * 1e6f : drawn;
    case 7: return drawn + 1e5f;
    case 9: return drawn * 8; /* on both sides of what tanh, gelu and exponentials of activations are cut at */
    case 14: return drawn * 60;
    case 10: return drawn * 0x1p65f; /* squares just above f32: eps is a part of their mean on the smaller scale */
    case 11: return drawn * 0x1p70f;
    case 12: return drawn * 0x1p-36f; /* between the least size of whole numbers' rows and f32's spacing near 1 */
    case 13: return drawn * 0x1p-66f;
    default: return drawn;
    }
}

/* Rows at the ends together; or small ones alone, as beside others the bound of whole numbers allows for subnormal
 * scales; or all of a sequence the same and huge, so that no weight of theirs hides what became of a latent; or those
 * about where words bend alone, as a state keeps what huge ones left. */
enum kinds { ROWS_OF_ALL_KINDS, ROWS_SMALL, ROWS_HUGE_AND_EQUAL, ROWS_BENT };

/* Within the bounds; and finite where nothing overflows on the way */
static bool rows_of_kinds(struct trial *t, enum kinds rows_of)
{
    static const char what[] = "rows of x of one number, of zeros, of huge and of tiny numbers";
    const size_t d = (size_t)t->layer->d_model, rows = t->in->batch * t->in->n;
    if (!layer_has_block(t->layer) && layer_attends(t->layer) && !layer_is_latent(t->layer))
        return true;
    OWNED(inputs_free) struct inputs in;
    inputs_copy(&in, t->layer, t->in);
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < d; column++) {
            const size_t at = row * d + column, first = (row - row % t->in->n) * d + column;
            const bool huge = rows_of == ROWS_HUGE_AND_EQUAL, last = row % t->in->n % 16 == 15; /* lane of a group */
            const float drawn = (float)inputs_number(t->layer, t->in, TENSOR_X, huge ? first : at);
            const size_t kind = rows_of == ROWS_SMALL  ? 12 + row % 2
                                : rows_of == ROWS_BENT ? 9 + row % 2 * 5
                                : huge || last         ? 2
                                                       : (row + t->seed) % KINDS_AT_THE_ENDS;
            const float number = number_at_the_ends(kind, drawn, column, row);
            inputs_put(t->layer, &in, TENSOR_X, at, (double)number);
        }
    return trial_near(t, &in, OUTPUT_Y, OUTPUT_CACHE, what);
}

/* layer = linear of rows with an infinite number: limits of its activation and softcap, where the reference has any */
static bool limits_at_infinity(struct trial *t)
{
    static const char what[] = "rows of x with an infinite number";
    const size_t d = (size_t)t->layer->d_model, d_out = (size_t)t->layer->d_out, rows = t->in->batch * t->in->n;
    if (!layer_is_linear(t->layer) || layer_sums_whole(t->layer) || layer_stores_weights(t->layer))
        return true; /* a weight that is stored as 0 makes NaN of infinity */
    OWNED(inputs_free) struct inputs in;
    OWNED(reference_free) struct reference reference = {.y = NULL};
    struct bounds bounds;
    inputs_copy(&in, t->layer, t->in);
    for (size_t row = 0; row < rows; row++)
        inputs_put(t->layer, &in, TENSOR_X, row * d + row % d, row % 2 == 0 ? INFINITY : -INFINITY);
    bounds_compute(&reference, &bounds, t->layer, &in, kernel_folds(t->kernel), false);
    trial_prepare(t, 8, 1);
    bool good = trial_forward(t, &in, what);
    for (size_t at = 0; good && at < rows * d_out; at++) {
        const double number = trial_number(t, t->now.y.data, at), limit = reference.y[at];
        good = isnan(limit) || number == limit || (isfinite(limit) && fabs(number - limit) <= 0x1p-7 * fabs(limit)) ||
               violated(t, "%s: y[%zu] is %.9g; the reference has %.9g", what, at, number, limit);
    }
    return good;
}

bool rows_at_the_ends(struct trial *t)
{
    return (layer_is_recurrent(t->layer) && t->layer->projected) || /* there is no x */
           (rows_of_kinds(t, ROWS_OF_ALL_KINDS) && limits_at_infinity(t) &&
            ((!layer_sums_whole(t->layer) && !layer_is_latent(t->layer)) || rows_of_kinds(t, ROWS_SMALL)) &&
            (!layer_is_latent(t->layer) || rows_of_kinds(t, ROWS_HUGE_AND_EQUAL)) &&
            (!layer_is_recurrent(t->layer) || rows_of_kinds(t, ROWS_BENT)));
}

/* ---- keys and values of all kinds in a cache --------------------------------------------------------------------- */

/* Halfway between neighbours of bf16, of f16, and of its subnormals; where f16 ends */
static const struct { float odd, unit; } halfway[] = {{257, 1}, {2049, 1}, {1, 0x1p-25f}, {4095, 16}};

#define KINDS_STORED 6
/* Rows that a cache stores beside those at the ends: non-finite ones; numbers of all sizes in one row; halfway between
 * whole numbers, and between neighbours of bf16 and f16, the last of them where f16 ends. */
static float number_to_store(size_t kind, float drawn, size_t column, size_t row)
{
    switch (kind) {
    case 0: return column == row % 7 ? nanf("0x3fffff") : drawn; /* which a carry would turn into a zero */
    case 1: return column == row % 5 ? -INFINITY : drawn;
    case 2: return ldexpf(drawn, (int)(column * 13 % 60) - 30);
    case 3: return column == 0 ? 127 : nearbyintf(drawn * 16) / 2;
    case 4: return drawn * 3e-37f; /* scales of i8: a third of the least one */
    case 5: return copysignf((halfway[column % 4].odd + 2 * (float)(column / 4)) * halfway[column % 4].unit, drawn);
    default: return number_at_the_ends(kind - KINDS_STORED, drawn, column, row);
    }
}

/* Numbers and scales in the cache are those of the reference, within the worst case. */
bool stores_all_kinds(struct trial *t)
{
    static const char what[] = "keys and values of zeros, tiny, huge, non-finite and halfway numbers";
    static const enum layer_tensor sources[] = {TENSOR_X, TENSOR_K, TENSOR_V};
    const struct layer *layer = t->layer;
    if (!layer_has_cache(layer))
        return true;
    OWNED(inputs_free) struct inputs in;
    inputs_copy(&in, layer, t->in);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const enum layer_tensor tensor = sources[i];
        const int64_t columns = tensor == TENSOR_X ? layer->d_model : tensor == TENSOR_K ? layer->d_k : layer->d_v;
        const size_t width = (size_t)columns;
        for (size_t at = 0, count = inputs_count(layer, &in, tensor); at < count; at++) {
            const float drawn = (float)inputs_number(layer, &in, tensor, at);
            const size_t row = at / width, kind = (row + t->seed) % (KINDS_STORED + KINDS_AT_THE_ENDS);
            inputs_put(layer, &in, tensor, at, (double)number_to_store(kind, drawn, at % width, row));
        }
    }
    return trial_near(t, &in, OUTPUT_CACHE, OUTPUTS_COMPARED, what);
}

/* ---- columns of weights that packing rounds ---------------------------------------------------------------------- */

/* layer = linear returns columns as they were given, or as weight_type rounds them: those at the edges of panels, and
 * random ones. */
bool columns_are_right(struct trial *t)
{
    const struct layer *layer = t->layer;
    const size_t in = (size_t)layer->d_model, out = (size_t)layer->d_out;
    struct random random = {t->seed ^ 0x636F6C};
    OWNED(pool_free) struct pool pool = {0};
    const struct inputs stored = stored_make(&pool, layer, t->in);
    OWNED(guarded_free) struct guarded row;
    guarded_make(&row, in * sizeof(float), sizeof(float));
    const float *w = inputs_floats(&stored, TENSOR_W);
    bool good = true;
    for (size_t i = 0; good && i < 64; i++) {
        const size_t column = (i < 17 ? i : i < 34 ? out + 16 - i : random_bits(&random)) % out;
        guarded_fill(&row);
        good = returned(t, t->call->column(t->packed, column, row.data), KERNEL_OK, "column %zu", column);
        for (size_t k = 0; good && k < in; k++) {
            const float *given = &w[layer->out_in ? column * in + k : k * out + column];
            good = memcmp((const float *)row.data + k, given, sizeof *given) == 0 ||
                   violated(t, "column %zu has %.9g in row %zu, which was given as %.9g", column,
                            ((const float *)row.data)[k], k, *given);
        }
        good = good && (guarded_zones_intact(&row) || violated(t, "column %zu wrote outside its numbers", column));
    }
    return good;
}

#define KINDS_OF_COLUMNS 9
/* Zeros; numbers below the least scale; one far larger than the others; halfway between whole numbers of i8, and of i4,
 * with largest ones of both signs; halfway between neighbours of bf16 and f16; subnormals of f16. */
static float number_of_column(size_t kind, float drawn, size_t row)
{
    switch (kind) {
    case 0: return 0;
    case 1: return drawn * 0x1p-130f;
    case 2: return row % 37 == 5 ? 300 * drawn : drawn;
    case 3: return 0x1p-8f * (row == 0 ? 127 : fmaxf(-126.5f, fminf(126.5f, nearbyintf(256 * drawn) / 2)));
    case 4: return 0x1p-5f * (row % 32 > 1 ? fmaxf(-7.5f, fminf(7.5f, nearbyintf(32 * drawn) / 2))
                                           : row % 2 == row / 32 % 2 ? 8 : -8);
    case 5: return copysignf(halfway[row % 3].odd + 2 * (float)(row / 3 % 16), drawn) *
                   (row % 3 < 2 ? 0x1p-12f : halfway[2].unit);
    case 6: return ldexpf(drawn, -8 - (int)(row % 16));
    default: return drawn;
    }
}

bool packs_columns_of_all_kinds(struct trial *t)
{
    static const char what[] = "columns of weights of zeros, tiny, uneven and halfway numbers";
    const struct layer *layer = t->layer;
    const struct trial own = *t;
    OWNED(guarded_free) struct guarded packed = {0};
    if (!layer_stores_weights(layer))
        return true;
    OWNED(inputs_free) struct inputs in;
    inputs_copy(&in, layer, t->in);
    for (enum layer_tensor w = 0; w < TENSOR_COUNT; w++) {
        int64_t shape[4];
        const int axes = layer_tensor_row(w)->kind == TENSOR_WEIGHT ? layer_weight_shape(layer, w, shape) : 0;
        for (size_t at = 0, count = inputs_count(layer, &in, w); axes > 1 && at < count; at++) {
            const size_t last = at % (size_t)shape[axes - 1], before = at / (size_t)shape[axes - 1];
            const size_t row = (layer->out_in ? last : before) % (size_t)shape[axes - 2 + layer->out_in];
            const size_t column = layer->out_in ? before : last;
            float *const number = (float *)in.tensor[w] + at;
            *number = number_of_column((column + t->seed) % KINDS_OF_COLUMNS, *number, row);
        }
    }
    const struct kernel_weights weights = kernel_weights_of(&in);
    guarded_make(&packed, t->call->packed_bytes, KERNEL_ALIGNMENT);
    bool good = t->call->pack(packed.data, &weights, t->call->isa(t->packed)) == KERNEL_OK ||
                violated(t, "%s: pack refuses them", what);
    t->packed = packed.data;
    t->in = &in;
    good = good && (!layer_is_linear(layer) || columns_are_right(t)) &&
           trial_near(t, &in, OUTPUT_Y, OUTPUT_CACHE, what);
    t->packed = own.packed;
    t->in = own.in;
    return good;
}
