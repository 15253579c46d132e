/* SPDX-License-Identifier: MIT */
/* Gradients of L = sum dy y, one sequence and head at a time, by the formulas of docs/gradients.md, whose names are
 * those here: dZ, dP, D, dS, dQ, dK, dV, A the weights, B what dropout multiplies them by; through a norm x', r, u, and
 * under rms_all a sum S over all heads, which a first walk finds. A term that bends a score multiplies dS by its slope
 * there.
 *
 * Hidden pairs are not multiplied: 0 times NaN counts as 0 wherever a factor is exactly 0, as for rows that see nothing
 * and keys that nothing sees.
 *
 * The gate is measured. After the exact numbers SAMPLES copies of a head go through the same equations; in each of them
 * every result of a step is off by a rounding of random sign. The roundings of a sum of K products are, as in bound.c,
 *
 *   u (sum |a||b| + sqrt(K) |sum a b|)
 *
 * so errors that elements have in common, as all keys of a row have that of D, add up as they do in a kernel. The gate
 * of an element is LAMBDA times the root of the mean square of what its copies are off by and of its last sum's
 * roundings, and of the mean of that over its NEIGHBOURS. It is a gate, not a bound.
 *
 * Weights are recomputed as A' = 2^(T - M) / l, T a score, M and l saved by forward for the row. T has the same bits as
 * in forward, so A' lies in [0, 1] except for roundings. Where a score may be off by more than BOUND_SATURATED (keys at
 * -1e9, for example), a weight of the copies is off by all that such scores leave open: with s +- d for the scores of m
 * keys, A_j lies between 1 / (1 + m e^(max(s + d) - (s_j - d_j))) and 1 / (1 + e^(max(s - d) - (s_j + d_j))), max over
 * the other keys. The slope of a term that bends scores is off in the same way: slope_of(). Where a sum may overflow in
 * f32, its copies are not finite, nor is the gate of what depends on it.
 */
#include "gradient.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "inputs/draw.h"
#include "product.h"
#include "roundoff.h"
#include "spec/relative.h"
#include "spec/score.h"
#include "terms.h"

#define U BOUND_U
#define NO_WEIGHT 60 /* a key whose score is that much below the largest has no weight that f32 shows */
#define LAMBDA 7
#define SAMPLES 8
#define NEIGHBOURS 16 /* elements of a tensor whose gates have their mean in common: it is of more samples */
#define COPIES (1 + SAMPLES) /* the first is exact */
#define OVERFLOWS 0x1p120 /* a copy's number from which f32 may have an infinite one */
#define NEAR_EPS (32 * U) /* l2: a row's norm this near eps may be on its other side in f32 */
#define SUMS 16 /* at least the calls of round_sums() for a head */

struct quantity {
    size_t rows, columns;
    double *v, *size; /* size: sum of |a||b| of the products that v is made of, in the exact copy alone */
};

/* What the observer of a head works on. */
struct walk {
    const struct layer *layer;
    const struct inputs *in;
    const float *dy;
    size_t copy;
    uint64_t random, bits;             /* state of what is drawn; signs that are left */
    struct pool head, *lasting;        /* memory of one head, all copies; of gradients */
    const double *size[SUMS];          /* of a head's sums in their order, from the exact copy */
    size_t sums;                       /* number of them so far, in this copy */
    struct quantity out[TENSOR_COUNT]; /* v [COPIES][elements], in the spec's order of heads: see scatter() */
    struct quantity dots[2];           /* rms_all: v [COPIES][batch][rows], S of queries and of keys */
    bool first_walk;                   /* rms_all: the one that finds them */
};

/* ---- quantities ------------------------------------------------------------------------------------------------ */

/* Zeros that last until the end of the head */
static double *zeros(struct walk *w, size_t count) { return pool_doubles(&w->head, count); }

static struct quantity make(struct walk *w, size_t rows, size_t columns)
{
    return (struct quantity){rows, columns, zeros(w, rows * columns), w->copy == 0 ? zeros(w, rows * columns) : NULL};
}

static struct quantity given(double *v, size_t rows, size_t columns)
{
    return (struct quantity){rows, columns, v, NULL};
}

static struct quantity transposed(struct walk *w, const struct quantity *m)
{
    struct quantity t = {m->columns, m->rows, zeros(w, m->rows * m->columns), NULL};
    for (size_t r = 0; r < m->rows; r++)
        for (size_t c = 0; c < m->columns; c++)
            t.v[c * m->rows + r] = m->v[r * m->columns + c];
    return t;
}

/* Some rows of a matrix, sharing its memory */
static struct quantity part_of(const struct quantity *m, size_t row, size_t rows)
{
    const size_t at = row * m->columns;
    return (struct quantity){rows, m->columns, m->v + at, m->size != NULL ? m->size + at : NULL};
}

static bool all_finite(const double *v, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite = finite && isfinite(v[i]);
    return finite;
}

/* out += a b; a factor of 0 makes its product 0 */
static void add_product(double *out, const double *a, const double *b, size_t rows, size_t inner, size_t columns)
{
    if (all_finite(a, rows * inner) && all_finite(b, inner * columns)) {
        product_add(out, columns, a, inner, b, columns, rows, inner, columns);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < inner; k++)
            for (size_t c = 0; c < columns && a[r * inner + k] != 0; c++)
                if (b[k * columns + c] != 0)
                    out[r * columns + c] += a[r * inner + k] * b[k * columns + c];
}

/* Roundings of a sum of `steps` steps, each of random sign; infinite where f32 may overflow */
static double rounding_of(double size, double value, size_t steps)
{
    const bool fits = size < OVERFLOWS && fabs(value) < OVERFLOWS;
    return fits ? U * (size + sqrt((double)steps) * fabs(value)) + BOUND_TINY : INFINITY;
}

static double sign(struct walk *w)
{
    if (w->bits <= 1) /* after the last sign, a 1 that marks the end */
        w->bits = draw_bits(&w->random) | (uint64_t)1 << 63;
    const double sign = w->bits & 1 ? 1 : -1;
    w->bits >>= 1;
    return sign;
}

/* From -1 up to 1, in the exact copy 0 */
static double share(struct walk *w) { return w->copy == 0 ? 0 : (double)(draw_bits(&w->random) >> 11) * 0x1p-52 - 1; }

/* A number, in a copy off by `amplitude` */
static double off_by(struct walk *w, double value, double amplitude)
{
    return w->copy == 0 ? value : value + sign(w) * amplitude;
}

/* What f32 may have infinite may be multiplied by 0: then nothing is known about the sum. */
static void open_sums(struct quantity *out, const struct quantity *a, const struct quantity *b)
{
    const size_t rows = a->rows, inner = a->columns, columns = b->columns;
    if (all_finite(a->v, rows * inner) && all_finite(b->v, inner * columns))
        return;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            for (size_t k = 0; k < inner; k++)
                if (!isfinite(a->v[r * inner + k]) || !isfinite(b->v[k * columns + c]))
                    out->v[r * columns + c] = NAN;
}

/* out += a b, before roundings */
static void multiply(struct walk *w, struct quantity *out, const struct quantity *a, const struct quantity *b)
{
    const size_t rows = a->rows, inner = a->columns, columns = b->columns;
    double *const sizes_a = w->copy == 0 ? zeros(w, rows * inner) : NULL;
    double *const sizes_b = w->copy == 0 ? zeros(w, inner * columns) : NULL;
    add_product(out->v, a->v, b->v, rows, inner, columns);
    if (w->copy > 0)
        open_sums(out, a, b);
    for (size_t i = 0; sizes_a != NULL && i < rows * inner; i++)
        sizes_a[i] = fabs(a->v[i]);
    for (size_t i = 0; sizes_b != NULL && i < inner * columns; i++)
        sizes_b[i] = fabs(b->v[i]);
    if (w->copy == 0)
        add_product(out->size, sizes_a, sizes_b, rows, inner, columns);
}

/* Rounds complete sums of `steps` steps. */
static void round_sums(struct walk *w, struct quantity *m, size_t steps)
{
    const size_t at = w->sums++;
    if (w->copy == 0)
        w->size[at] = m->size;
    for (size_t i = 0; w->copy > 0 && i < m->rows * m->columns; i++)
        m->v[i] = off_by(w, m->v[i], rounding_of(w->size[at][i], m->v[i], steps));
}

static struct quantity product_of(struct walk *w, const struct quantity *a, const struct quantity *b, size_t steps)
{
    struct quantity out = make(w, a->rows, b->columns);
    multiply(w, &out, a, b);
    round_sums(w, &out, steps);
    return out;
}

static void scale_by(struct walk *w, struct quantity *m, double factor)
{
    for (size_t i = 0; i < m->rows * m->columns; i++)
        m->v[i] = off_by(w, m->v[i] * factor, 2 * U * fabs(m->v[i] * factor) + BOUND_TINY);
}

/* ---- where a head's share of a gradient belongs ------------------------------------------------------------------ */

/* A matrix of a tensor: rows from `at` on, `row` apart, columns `column` apart. */
struct place {
    size_t at, row, column;
};

static void scatter(struct walk *w, enum layer_tensor tensor, struct place place, const struct quantity *m)
{
    struct quantity *out = &w->out[tensor];
    double *const to = out->v != NULL ? out->v + w->copy * out->rows + place.at : NULL;
    for (size_t r = 0; to != NULL && r < m->rows; r++)
        for (size_t c = 0; c < m->columns; c++) {
            to[r * place.row + c * place.column] += m->v[r * m->columns + c];
            if (w->copy == 0)
                out->size[place.at + r * place.row + c * place.column] += m->size[r * m->columns + c];
        }
}

/* A matrix [rows][columns] after `before` elements, of which this head has columns from `first` on, or, if it has rows
 * of its own, rows from `row` on */
static struct place matrix_place(const struct layer *layer, size_t before, size_t rows, size_t columns, size_t row,
                                 size_t first)
{
    if (layer->out_in)
        return (struct place){before + first * rows + row, 1, rows};
    return (struct place){before + row * columns + first, columns, 1};
}

/* Head i's part of W_Q, W_K, W_V, [in][heads d] or [heads][in][d] */
static struct place projection_place(const struct layer *layer, size_t in, size_t d, size_t heads, size_t i)
{
    return layer->split ? matrix_place(layer, i * in * d, in, d, 0, 0)
                        : matrix_place(layer, 0, in, heads * d, 0, i * d);
}

/* sum of rows */
static void add_columns(struct walk *w, enum layer_tensor tensor, size_t first, const struct quantity *m)
{
    struct quantity ones = given(zeros(w, m->rows), 1, m->rows), sum = make(w, 1, m->columns);
    for (size_t r = 0; r < m->rows; r++)
        ones.v[r] = 1;
    multiply(w, &sum, &ones, m);
    scatter(w, tensor, (struct place){first, 0, 1}, &sum);
}

/* ---- one head ---------------------------------------------------------------------------------------------------- */

/* Rows of queries or keys that a norm has divided: x' = (x - mean) r of docs/gradients.md */
struct norms {
    const struct finish *of;
    double *x;               /* [rows][d] */
    double *inverse, *share; /* [rows] r; of S what a head takes off: 1 / n; l2: 1, or 0 below eps */
};

/* Intermediate results of a head */
struct known {
    struct quantity x, s, w_q, w_k, w_v; /* exact; no w_v under identity */
    struct quantity q, k, v, a, z, dz;
    struct norms norms_q, norms_k; /* empty: there are none */
    struct quantity kept;          /* a times dropout's factors: what values are multiplied by */
    double *slope;                 /* [rows][keys] of the term that bends, at each score; NULL: none does */
    double *sunk;                  /* [rows]: the sink's weight; NULL: no sink */
};

static struct quantity project(struct walk *w, const struct quantity *from, const struct quantity *weights,
                               const double *bias)
{
    struct quantity to = product_of(w, from, weights, from->columns + 5);
    for (size_t i = 0; i < to.rows * to.columns; i++)
        to.v[i] = off_by(w, to.v[i] + bias[i % to.columns], 2 * U * fabs(bias[i % to.columns]));
    return to;
}

/* Rows as they were projected become x', of head `head` among those that a row has. */
static struct norms divide(struct walk *w, const struct quantity *raw, const struct finish *of, size_t head)
{
    const struct layer *layer = w->layer;
    const size_t rows = raw->rows, d = raw->columns, all = of->all != NULL ? of->heads * d : d;
    const bool l2 = layer->qk_norm == NORM_L2;
    /* rms_all: heads that share a key head have a part of S each */
    const double part = of->all != NULL ? 1 / (double)(layer->h * layer->d_k) : 1 / (double)d;
    struct norms to = {.of = of};
    if (layer->qk_norm == NORM_NONE)
        return to;
    const struct norm norm = finish_norm(layer);
    double *const row = zeros(w, all);
    to = (struct norms){of, zeros(w, rows * d), zeros(w, rows), zeros(w, rows)};
    for (size_t r = 0; r < rows; r++) {
        if (of->all != NULL)
            memcpy(row, of->all + r * all, all * sizeof *row);
        double *const own = of->all != NULL ? row + head * d : row;
        memcpy(own, w->copy > 0 ? raw->v + r * d : of->from + r * d, d * sizeof *own);
        const struct norm_row by = norm_of(&norm, row, all);
        const double length = sqrt(by.squares), inverse = 1 / by.divisor;
        const bool near = l2 && w->copy > 0 && fabs(length / norm.eps - 1) < NEAR_EPS;
        const double error = by.squares < FLT_MAX / 2 ? U * (3 + sqrt((double)all) / 2) : INFINITY;
        to.inverse[r] = off_by(w, inverse, error * inverse);
        to.share[r] = !l2 ? part : near ? (double)(w->copy % 2) : length >= norm.eps;
        for (size_t c = 0; c < d; c++)
            to.x[r * d + c] = off_by(w, (own[c] - by.middle) * to.inverse[r],
                                     2 * U * (fabs(own[c]) + 2 * fabs(by.middle)) * inverse + BOUND_TINY);
    }
    return to;
}

/* Norm and rotation between a projection and the scores; `finished`: the exact rows */
static void finish(struct walk *w, struct quantity *m, const struct norms *norms, const double *finished)
{
    const struct finish *of = norms->of;
    const size_t d = m->columns, count = m->rows * d;
    double *const from = zeros(w, count);
    struct layer turned = *w->layer;
    if (!layer_finishes(w->layer))
        return;
    turned.qk_norm = NORM_NONE;
    for (size_t i = 0; i < count; i++)
        from[i] = norms->x == NULL ? m->v[i]
                : norms->x[i] * (of->gain != NULL ? of->gain[i % d] : 1) + (of->shift != NULL ? of->shift[i % d] : 0);
    const struct finish plain = {.rows = m->rows, .d = d, .from = from, .turns = of->turns};
    finish_rows(&turned, &plain, m->v);
    for (size_t r = 0; r < m->rows; r++) {
        double largest = 0; /* a rotation rounds both columns of a pair, of which one may be small */
        for (size_t c = 0; c < d; c++)
            largest = fmax(largest, fabs(m->v[r * d + c]));
        for (size_t c = 0; c < d; c++)
            m->v[r * d + c] = w->copy == 0 ? finished[r * d + c]
                                           : off_by(w, m->v[r * d + c], 3 * U * largest + BOUND_TINY);
    }
}

/* Rotates rows of a gradient back; cosines and sines are rounded once. */
static void turn_gradient(struct walk *w, struct quantity *m, const struct finish *of)
{
    const size_t pairs = (size_t)w->layer->rope.dims / 2, d = m->columns;
    const bool half = w->layer->rope.kind == ROPE_HALF;
    for (size_t r = 0; of->turns != NULL && r < m->rows; r++) {
        finish_turn_back(w->layer, of->turns + r * pairs, m->v + r * d);
        for (size_t c = 0; c < pairs; c++) {
            double *const first = m->v + r * d + (half ? c : 2 * c), *const second = first + (half ? pairs : 1);
            const double both = 2 * U * (fabs(*first) + fabs(*second)) + BOUND_TINY;
            *first = off_by(w, *first, both);
            *second = off_by(w, *second, both);
        }
    }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* The layer's term that bends; SCORE_TERMS: none. */
static enum score_name bent_by(const struct layer *layer)
{
    enum score_name term = 0;
    while (term < SCORE_TERMS && !(score_has(layer, term) && score_terms[term].gradient == GRADIENT_SLOPE))
        term++;
    return term;
}

/* Scores of a row after all terms, the last one the sink's if there is one; a hidden key's are -infinity. */
struct score_row {
    size_t count;
    double *score, *off; /* exact scores, and what one may be off by */
    double *shifted;     /* the scores of this copy */
    double *weight;      /* exact ones, and then this copy's */
};

/* The largest score, shifted by `sign` times what it may be off by, its key, and the largest of other keys */
struct largest {
    double score, other;
    size_t key;
};

static struct largest largest_of(const struct score_row *row, double sign)
{
    struct largest l = {-INFINITY, -INFINITY, 0};
    for (size_t j = 0; j < row->count; j++) {
        const double s = row->score[j] + sign * row->off[j];
        if (s > l.score)
            l = (struct largest){s, l.score, j};
        else
            l.other = fmax(l.other, s);
    }
    return l;
}

/* Weights of a row of a copy */
static void weigh_row(struct walk *w, const struct score_row *row)
{
    const size_t m = row->count;
    const struct largest upper = largest_of(row, 1), lower = largest_of(row, -1);
    const double of_sum = off_by(w, 1, BOUND_EXP2 + U * (2 + sqrt((double)m))); /* 1 / l, which all keys share */
    bool saturated = false;
    double largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < m; j++) {
        saturated = saturated ||
                    (row->off[j] > BOUND_SATURATED && row->score[j] + row->off[j] > lower.score - NO_WEIGHT);
        largest = fmax(largest, row->shifted[j]);
    }
    for (size_t j = 0; j < m; j++)
        sum += exp(row->shifted[j] - largest);
    for (size_t j = 0; j < m; j++) {
        const double a = row->weight[j], low = row->score[j] - row->off[j], high = row->score[j] + row->off[j];
        const double least = 1 / (1 + (double)m * exp((j == upper.key ? upper.other : upper.score) - low));
        const double most = 1 / (1 + exp((j == lower.key ? lower.other : lower.score) - high));
        const double any = row->off[j] < INFINITY ? fmax(fmax(a - least, most - a), 0) : INFINITY;
        const double weight = !saturated ? exp(row->shifted[j] - largest) / sum : a + 2 * share(w) * any;
        if (row->score[j] > -INFINITY)
            row->weight[j] = off_by(w, weight * of_sum, a * (BOUND_EXP2 + 4 * U) + BOUND_TINY);
    }
}

/* The slope of a term that bends a score, which a copy has at `raw`. A score that may be off by more than
 * BOUND_SATURATED after bending may have any slope between those of the least and the largest |raw| within reach: sums
 * that cancel may be exactly 0 in f32, where the slope is largest, which no drawn rounding finds. */
static double slope_of(struct walk *w, enum score_name bent, double exact, double raw, double off)
{
    const double slope = terms_slope(w->layer, bent, off > BOUND_SATURATED ? exact : raw);
    const double tanh_of = sqrt(fmax(1 - slope, 0)), reach = LAMBDA * fabs(raw - exact); /* 1 - tanh^2, from tanh */
    double any = 0;
    if (off > BOUND_SATURATED)
        any = fmax(terms_slope(w->layer, bent, fmax(fabs(exact) - reach, 0)) - slope,
                   slope - terms_slope(w->layer, bent, fabs(exact) + reach));
    return off_by(w, slope + 2 * share(w) * any, 2 * U + 2 * tanh_of * (BOUND_TANH + U));
}

/* One score, from scale q k, of which head->raw is the exact one; and the slope there of the term that bends it */
static void score_pair(struct walk *w, struct known *g, const struct reference_head *head, enum score_name bent,
                       double raw, size_t pair, const struct score_row *row, size_t j)
{
    const struct layer *layer = w->layer;
    const bool bends = bent != SCORE_TERMS;
    const double exact = head->raw[pair], reach = LAMBDA * fabs(raw - exact);
    const double before = bends ? terms_value(layer, bent, exact, 0) : exact;
    const double added = head->scores[pair] - before, now = bends ? terms_value(layer, bent, raw, 0) : raw;
    const double most = bends ? fmax(fabs(terms_value(layer, bent, exact - reach, 0) - before),
                                     fabs(terms_value(layer, bent, exact + reach, 0) - before)) : reach;
    const double rounding = U * (4 * fabs(added) + 2 * fabs(head->scores[pair])) + (bends ? BOUND_TANH * fabs(now) : 0);
    row->score[j] = head->scores[pair];
    row->shifted[j] = off_by(w, now + added, rounding);
    row->off[j] = most + LAMBDA * rounding;
    row->weight[j] = head->weights[pair];
    if (bends)
        g->slope[pair] = slope_of(w, bent, exact, raw, row->off[j]);
}

static void weigh(struct walk *w, struct known *g, const struct reference_head *head)
{
    const size_t n = w->in->n, m = head->keys, sinks = w->layer->sink;
    const enum score_name bent = bent_by(w->layer);
    struct quantity kt = transposed(w, &g->k), raw = product_of(w, &g->q, &kt, g->q.columns + 4);
    struct score_row row = {m + sinks, zeros(w, m + 1), zeros(w, m + 1), zeros(w, m + 1), zeros(w, m + 1)};
    g->slope = bent != SCORE_TERMS ? zeros(w, n * m) : NULL;
    g->sunk = sinks ? zeros(w, n) : NULL;
    scale_by(w, &raw, w->layer->scale);
    for (size_t t = 0; t < n; t++) {
        for (size_t j = 0; j < m; j++) {
            row.score[j] = row.shifted[j] = -INFINITY;
            row.off[j] = row.weight[j] = 0;
            if (head->visible[t * m + j])
                score_pair(w, g, head, bent, w->copy > 0 ? raw.v[t * m + j] : head->raw[t * m + j], t * m + j, &row, j);
        }
        if (sinks) { /* rounded twice: packed, less m */
            row.score[m] = head->sink;
            row.shifted[m] = off_by(w, head->sink, 6 * U * fabs(head->sink));
            row.off[m] = LAMBDA * 6 * U * fabs(head->sink);
            row.weight[m] = exp(head->sink - head->lse[t]);
        }
        if (w->copy > 0)
            weigh_row(w, &row);
        memcpy(g->a.v + t * m, row.weight, m * sizeof *row.weight);
        if (sinks)
            g->sunk[t] = row.weight[m];
    }
}

/* Weights times dropout's factors, which f32 rounds; and z, for which forward may have rescaled earlier weights to 0,
 * if terms raise scores (bound.c). */
static void weighted_sum(struct walk *w, struct known *g, const double *factors)
{
    const size_t n = g->a.rows, m = g->a.columns;
    struct quantity in_forward = given(zeros(w, n * m), n, m);
    g->kept = given(zeros(w, n * m), n, m);
    for (size_t i = 0; i < n * m; i++) {
        const double factor = factors != NULL ? factors[i] : 1, kept = g->a.v[i] * factor;
        const double away = score_lifts(w->layer) ? fmin(g->a.v[i], BOUND_RESCALED_AWAY * factor) : 0;
        g->kept.v[i] = factors != NULL ? off_by(w, kept, 2 * U * kept) : kept;
        in_forward.v[i] = away > 0 ? off_by(w, g->kept.v[i], away) : g->kept.v[i];
    }
    g->z = product_of(w, &in_forward, &g->v, m + 10);
}

static struct known know(struct walk *w, const struct reference_head *head, size_t group)
{
    const struct layer *layer = w->layer;
    const size_t n = w->in->n, m = head->keys, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t in_q = (size_t)layer->d_in_q, in_kv = (size_t)layer->d_in_kv;
    struct known g = {.x = given(head->x, n, in_q), .s = given(head->s, m, in_kv),
                      .w_q = given(head->w_q, in_q, d_k), .w_k = given(head->w_k, in_kv, d_k),
                      .w_v = given(head->w_v, in_kv, d_v), .a = given(zeros(w, n * m), n, m), .dz = make(w, n, d_v)};
    g.q = project(w, &g.x, &g.w_q, head->b_q);
    g.k = project(w, &g.s, &g.w_k, head->b_k);
    g.norms_q = divide(w, &g.q, &head->finish_q, head->i);
    g.norms_k = divide(w, &g.k, &head->finish_k, group);
    finish(w, &g.q, &g.norms_q, head->q);
    finish(w, &g.k, &g.norms_k, head->k);
    g.v = layer->identity ? given(head->v, m, d_v) : project(w, &g.s, &g.w_v, head->b_v);
    weigh(w, &g, head);
    weighted_sum(w, &g, head->kept);
    return g;
}

/* ---- back -------------------------------------------------------------------------------------------------------- */

/* Columns of this sequence's dy that depend on the head's z */
static struct quantity dy_of(struct walk *w, size_t b, size_t first, size_t columns)
{
    const size_t n = w->in->n, width = (size_t)w->layer->d_out;
    const struct quantity dy = given(zeros(w, n * columns), n, columns);
    const size_t rows = w->layer->pad_skipped ? inputs_keys(w->in, b) : n; /* padding rows of y are zero */
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            dy.v[r * columns + c] = w->dy[(b * n + r) * width + first + c];
    return dy;
}

/* Number of summands in one number of y */
static size_t y_steps(const struct layer *layer)
{
    const int64_t taps = layer->w_o == W_O_CONV ? layer->conv_width : layer->h;
    return (size_t)(layer->w_o == W_O_NONE ? 1 : taps * layer->d_v + 2);
}

/* y, dZ and dW_O of consecutive rows t of y and u of z; of_y: y's first row */
static void merge_rows(struct walk *w, struct known *g, const struct quantity *dy, const struct quantity *w_o,
                       size_t t, size_t u, size_t rows, struct place place, struct place of_y)
{
    struct quantity dy_t = part_of(dy, t, rows), z = part_of(&g->z, u, rows), dz = part_of(&g->dz, u, rows);
    struct quantity back = transposed(w, w_o), z_t = transposed(w, &z), dw = make(w, w_o->rows, w_o->columns);
    struct quantity y = make(w, rows, w_o->columns);
    of_y.at += t * of_y.row;
    multiply(w, &dz, &dy_t, &back);
    multiply(w, &dw, &z_t, &dy_t);
    multiply(w, &y, &z, w_o);
    scatter(w, TENSOR_W_O, place, &dw);
    scatter(w, TENSOR_Y, of_y, &y);
}

static void merge(struct walk *w, struct known *g, const struct reference_head *head)
{
    const struct layer *layer = w->layer;
    const size_t n = w->in->n, b = head->b, i = head->i, h = (size_t)layer->h, d_v = (size_t)layer->d_v;
    const size_t d_model = (size_t)layer->d_model;
    if (layer->w_o == W_O_NONE) {
        g->dz = dy_of(w, b, i * d_v, d_v);
        scatter(w, TENSOR_Y, (struct place){b * n * h * d_v + i * d_v, h * d_v, 1}, &g->z);
        return;
    }
    if (layer->w_o == W_O_DENSE) {
        const struct quantity dy = dy_of(w, b, 0, d_model), w_o = given(head->w_o, d_v, d_model);
        merge_rows(w, g, &dy, &w_o, 0, 0, n, matrix_place(layer, 0, h * d_v, d_model, i * d_v, 0),
                   (struct place){b * n * d_model, d_model, 1});
        if (i == 0)
            add_columns(w, TENSOR_B_O, 0, &dy);
        round_sums(w, &g->dz, d_model);
        return;
    }
    const size_t width = d_model / h, taps = (size_t)layer->conv_width, pad = (size_t)layer_conv_pad(layer);
    const bool pads = (layer->mask & MASK_PADDING) != 0;
    const size_t limit = pads && head->keys < n ? head->keys : n; /* number of rows of z that are not zero by
                                                                   * definition */
    const struct quantity dy = dy_of(w, b, i * width, width);
    for (size_t tap = 0; tap < taps; tap++) {
        const struct quantity w_o = given(head->w_o + tap * d_v * width, d_v, width);
        /* u = t + tap - pad */
        const size_t u = tap > pad ? tap - pad : 0, t = pad > tap ? pad - tap : 0;
        const size_t left = u < limit ? limit - u : 0, rows = t < n ? (left < n - t ? left : n - t) : 0;
        const struct place place = matrix_place(layer, (i * taps + tap) * d_v * width, d_v, width, 0, 0);
        if (rows > 0)
            merge_rows(w, g, &dy, &w_o, t, u, rows, place, (struct place){b * n * d_model + i * width, d_model, 1});
    }
    add_columns(w, TENSOR_B_O, i * width, &dy);
    round_sums(w, &g->dz, taps * width);
}

static bool sees_any(const struct reference_head *head, size_t t, size_t m)
{
    bool any = false;
    for (size_t j = 0; j < m; j++)
        any = any || head->visible[t * m + j];
    return any;
}

/* dS; D [rows], 0 where a row sees nothing */
static void differentiate(struct walk *w, const struct known *g, const struct reference_head *head,
                          struct quantity *ds, double *of_rows)
{
    const size_t n = g->a.rows, m = g->a.columns, d_v = g->z.columns;
    struct quantity vt = transposed(w, &g->v), dp = product_of(w, &g->dz, &vt, d_v);
    for (size_t t = 0; t < n; t++) {
        double sum = 0, size = 0;
        for (size_t at = t * d_v; at < (t + 1) * d_v; at++) {
            sum += g->dz.v[at] * g->z.v[at];
            size += fabs(g->dz.v[at] * g->z.v[at]);
        }
        const double d = of_rows[t] = sees_any(head, t, m) ? off_by(w, sum, rounding_of(size, sum, d_v)) : 0;
        for (size_t at = t * m; at < (t + 1) * m; at++) {
            const double by = head->kept != NULL ? head->kept[at] : 1, p = by * dp.v[at];
            if (!head->visible[at])
                continue;
            const double rounding = 2 * fabs(p - d) + 2 * fabs(d) + (head->kept != NULL ? 3 * fabs(p) : 0);
            ds->v[at] = off_by(w, g->a.v[at] * (p - d), U * g->a.v[at] * rounding + BOUND_TINY);
            if (w->copy == 0)
                ds->size[at] = fabs(ds->v[at]);
        }
    }
}

/* dsink = - sum_t A_sink D */
static void sink_gradient(struct walk *w, const struct known *g, double *of_rows, size_t i)
{
    const size_t n = w->in->n;
    const struct quantity weights = given(g->sunk, 1, n), rows = given(of_rows, n, 1);
    struct quantity sum = make(w, 1, 1);
    multiply(w, &sum, &weights, &rows);
    sum.v[0] = -sum.v[0];
    scatter(w, TENSOR_SINK, (struct place){i, 0, 1}, &sum);
}

/* drel_bias: sums of dS by distance */
static void bias_gradient(struct walk *w, const struct reference_head *head, const struct quantity *ds)
{
    const size_t n = ds->rows, m = ds->columns;
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < m; j++) {
            const int64_t ahead = (int64_t)j - inputs_position(w->layer, w->in, head->b, t);
            const size_t to = (size_t)relative_index(w->layer, (int64_t)head->i, ahead), at = t * m + j;
            const struct quantity pair = {1, 1, ds->v + at, ds->size != NULL ? ds->size + at : NULL};
            if (head->visible[at])
                scatter(w, TENSOR_REL_BIAS, (struct place){to, 1, 1}, &pair);
        }
}

/* Rows of dp, of what was normed, become those of what was projected, and gains and shifts have their share. dots:
 * under rms_all, S of these rows over all heads. */
static void through_norms(struct walk *w, struct quantity *dp, const struct norms *norms, enum layer_tensor gains,
                          enum layer_tensor shifts, size_t first, double *dots)
{
    const size_t d = dp->columns;
    const double tiny = BOUND_TINY * (1 + 2 * fabs(w->layer->scale)); /* packed gains of queries have the scale */
    const bool centred = w->layer->qk_norm == NORM_LAYER;
    struct quantity of_gains = make(w, 1, d), of_shifts = make(w, 1, d);
    for (size_t r = 0; r < dp->rows; r++) {
        const double *x = norms->x + r * d, by = norms->inverse[r];
        double *u = dp->v + r * d, dot = 0, dot_size = 0, total = 0, total_size = 0;
        bool none = true;
        for (size_t c = 0; c < d; c++)
            none = none && u[c] == 0;
        if (none && !isfinite(by))
            continue;
        for (size_t c = 0; c < d; c++) {
            of_gains.v[c] += u[c] * x[c];
            of_shifts.v[c] += u[c];
            if (w->copy == 0) {
                of_gains.size[c] += fabs(u[c] * x[c]);
                of_shifts.size[c] += fabs(u[c]);
            }
            u[c] *= norms->of->gain != NULL ? norms->of->gain[c] : 1;
            u[c] = off_by(w, u[c], 4 * U * fabs(u[c]) + tiny);
            dot += u[c] * x[c];
            dot_size += fabs(u[c] * x[c]);
            total += centred ? u[c] / (double)d : 0;
            total_size += centred ? fabs(u[c]) / (double)d : 0;
        }
        dot = off_by(w, dot, rounding_of(dot_size, dot, d));
        total = off_by(w, total, rounding_of(total_size, total, d));
        if (dots != NULL && w->first_walk)
            dots[r] += dot;
        dot = (dots != NULL ? dots[r] : dot) * norms->share[r];
        for (size_t c = 0; c < d; c++)
            u[c] = off_by(w, by * (u[c] - total - x[c] * dot),
                          2 * U * by * (fabs(u[c]) + fabs(total) + fabs(x[c] * dot)) + BOUND_TINY);
    }
    scatter(w, gains, (struct place){dots != NULL ? first : 0, 0, 1}, &of_gains);
    scatter(w, shifts, (struct place){0, 0, 1}, &of_shifts);
}

/* Where what a projection reads, its weights and its bias have their gradients */
struct reached {
    enum layer_tensor input, weights, bias;
    struct place of_input, of_weights;
    size_t first; /* number of the bias */
};

/* Propagates a gradient of rows through a projection: d(input) += dp W^T, dW += input^T dp, db += sum dp. */
static void through(struct walk *w, const struct quantity *input, const struct quantity *weights,
                    const struct quantity *dp, const struct reached *to)
{
    struct quantity back = transposed(w, weights), input_t = transposed(w, input);
    struct quantity di = make(w, input->rows, input->columns), dw = make(w, weights->rows, weights->columns);
    multiply(w, &di, dp, &back);
    multiply(w, &dw, &input_t, dp);
    scatter(w, to->input, to->of_input, &di);
    scatter(w, to->weights, to->of_weights, &dw);
    add_columns(w, to->bias, to->first, dp);
}

/* Where the rows of this sequence have S; NULL: not under rms_all */
static double *dots_of(const struct walk *w, int of_keys, size_t b)
{
    const struct quantity *dots = &w->dots[of_keys];
    return dots->v != NULL ? dots->v + w->copy * dots->rows + b * (of_keys ? w->in->m : w->in->n) : NULL;
}

/* From dS and dZ through queries, keys and values to the tensors */
static void spread(struct walk *w, const struct known *g, const struct reference_head *head, const struct quantity *ds,
                   size_t group)
{
    const struct layer *layer = w->layer;
    const size_t n = w->in->n, b = head->b, i = head->i;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t in_q = (size_t)layer->d_in_q, in_kv = (size_t)layer->d_in_kv;
    const size_t d_model = (size_t)layer->d_model, d_source = (size_t)layer->d_source;
    struct quantity ds_t = transposed(w, ds), kept_t = transposed(w, &g->kept);
    struct quantity dq = product_of(w, ds, &g->k, head->keys + 2), dk = product_of(w, &ds_t, &g->q, n * h / h_kv);
    struct quantity dv = product_of(w, &kept_t, &g->dz, n * h / h_kv);
    scale_by(w, &dq, layer->scale);
    scale_by(w, &dk, layer->scale);
    turn_gradient(w, &dq, &head->finish_q);
    turn_gradient(w, &dk, &head->finish_k);
    if (layer->qk_norm != NORM_NONE) {
        through_norms(w, &dq, &g->norms_q, TENSOR_G_Q, TENSOR_C_Q, i * d_k, dots_of(w, 0, b));
        through_norms(w, &dk, &g->norms_k, TENSOR_G_K, TENSOR_C_K, group * d_k, dots_of(w, 1, b));
    }
    const enum layer_tensor source = inputs_source(layer);
    const struct place of_x = {b * n * d_model + (layer->split ? i * in_q : 0), d_model, 1};
    const struct place of_s = {b * w->in->m * d_source + (layer->split ? i * in_kv : 0), d_source, 1};
    const struct place of_q = projection_place(layer, in_q, d_k, h, i);
    const struct reached queries = {TENSOR_X, TENSOR_W_Q, TENSOR_B_Q, of_x, of_q, i * d_k};
    const struct reached tied = {source, TENSOR_W_Q, TENSOR_B_Q, of_s, of_q, i * d_k};
    const struct reached keys = {source, TENSOR_W_K, TENSOR_B_K, of_s, projection_place(layer, in_kv, d_k, h_kv, group),
                                 group * d_k};
    const struct reached values = {source, TENSOR_W_V, TENSOR_B_V, of_s,
                                   projection_place(layer, in_kv, d_v, h_kv, group), group * d_v};
    through(w, &g->x, &g->w_q, &dq, &queries);
    through(w, &g->s, &g->w_k, &dk, layer->tied ? &tied : &keys);
    if (layer->identity)
        scatter(w, source, of_s, &dv);
    else
        through(w, &g->s, &g->w_v, &dv, &values);
}

static void back_through(struct walk *w, const struct reference_head *head)
{
    const size_t n = w->in->n, m = head->keys, group = head->i * (size_t)w->layer->h_kv / (size_t)w->layer->h;
    struct known g = know(w, head, group);
    struct quantity ds = make(w, n, m);
    double *const of_rows = zeros(w, n);
    merge(w, &g, head);
    differentiate(w, &g, head, &ds, of_rows);
    if (w->layer->sink)
        sink_gradient(w, &g, of_rows, head->i);
    if (w->layer->relative != RELATIVE_NONE)
        bias_gradient(w, head, &ds);
    for (size_t at = 0; g.slope != NULL && at < n * m; at++)
        ds.v[at] = off_by(w, ds.v[at] * g.slope[at], U * fabs(ds.v[at] * g.slope[at]));
    spread(w, &g, head, &ds, group);
}

static void observe(void *context, const struct reference *reference, const struct reference_head *head)
{
    struct walk *w = context;
    (void)reference;
    for (w->copy = 0; w->copy < COPIES; w->copy++) {
        w->sums = 0;
        back_through(w, head);
    }
    pool_free(&w->head);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Numbers of all copies, which outlive a head */
static struct quantity make_lasting(struct walk *w, size_t count)
{
    return (struct quantity){count, 1, pool_doubles(w->lasting, COPIES * count), pool_doubles(w->lasting, count)};
}

/* pad_rows = skipped: padding rows of y are zero, whatever the convolution or the bias would give. */
static void finish_y(struct walk *w)
{
    const float *b_o = inputs_floats(w->in, TENSOR_B_O);
    struct quantity *y = &w->out[TENSOR_Y];
    const size_t columns = (size_t)w->layer->d_out, n = w->in->n;
    for (size_t i = 0; i < y->rows; i++) {
        const double bias = b_o != NULL ? b_o[i % columns] : 0;
        const bool padding = w->layer->pad_skipped && i / columns % n >= inputs_keys(w->in, i / columns / n);
        for (size_t copy = 0; copy < COPIES; copy++)
            y->v[copy * y->rows + i] = padding ? 0 : y->v[copy * y->rows + i] + bias;
        y->size[i] = padding ? 0 : y->size[i] + fabs(bias);
    }
}

/* Hands over the results, as sums over tokens and heads are complete. */
static void hand_over(struct walk *w, struct gradients *gradients)
{
    const size_t tokens = w->in->batch * (w->in->n + w->in->m);
    const size_t features = (size_t)(w->layer->h * (2 * w->layer->d_k + w->layer->d_v));
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        const struct quantity *out = &w->out[t];
        const bool of_rows = t == TENSOR_X || t == TENSOR_SOURCE;
        const size_t steps = t == TENSOR_Y ? y_steps(w->layer) : of_rows ? features : tokens;
        for (size_t first = 0; first < out->rows; first += NEIGHBOURS) {
            const size_t end = min_size(first + NEIGHBOURS, out->rows);
            double own[NEIGHBOURS], mean = 0;
            for (size_t i = first; i < end; i++) {
                own[i - first] = square(rounding_of(out->size[i], out->v[i], steps));
                for (size_t copy = 1; copy < COPIES; copy++)
                    own[i - first] += square(out->v[copy * out->rows + i] - out->v[i]) / SAMPLES;
                mean += own[i - first] / (double)(end - first);
            }
            for (size_t i = first; i < end; i++) {
                const double squares = own[i - first] + mean;
                out->size[i] = squares < OVERFLOWS * OVERFLOWS ? LAMBDA * sqrt(squares) : INFINITY;
            }
        }
        gradients->of[t] = out->v;
        gradients->gate[t] = out->size;
    }
}

bool gradients_compute(struct gradients *gradients, const struct layer *layer, const struct inputs *inputs,
                       const float *dy, struct diag *diag)
{
    struct inputs in = *inputs;
    in.training = true;
    const enum score_name bent = bent_by(layer);
    const bool all = layer->qk_norm == NORM_RMS_ALL;
    struct walk w = {.layer = layer, .in = &in, .dy = dy, .lasting = &gradients->memory};
    *gradients = (struct gradients){0};
    if (bent != SCORE_TERMS && !terms_have_slope(bent))
        return diag_error(diag, layer->name, "a term that bends scores has no slope in the reference; leave out train");
    for (int k = 0; all && k < 2; k++)
        w.dots[k] = make_lasting(&w, in.batch * (k == 0 ? in.n : in.m));
    for (int turn = all ? 0 : 1; turn < 2; turn++) {
        w.random = w.bits = 0; /* the same in both walks */
        w.first_walk = turn == 0;
        for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
            if (layer_has_gradient(layer, t) || t == TENSOR_Y)
                w.out[t] = make_lasting(&w, inputs_count(layer, &in, t));
        OWNED(reference_free) struct reference reference;
        reference_compute(&reference, layer, &in, false, observe, &w);
    }
    finish_y(&w);
    hand_over(&w, gradients);
    return true;
}
