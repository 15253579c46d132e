/* SPDX-License-Identifier: MIT */
/* Gradients of L = sum dy y, one sequence and head at a time. With A and Z as in reference.c:
 *
 *   dZ = dy W_O^T (conv: dZ[u] = sum_r dy[u - r + pad] W_O[r]^T)        dW_O = Z^T dy    db_O = sum_t dy
 *   dP = B dZ V^T    D[t] = sum_c dZ[t][c] Z[t][c]    dS = A (dP - D)     over the keys that are seen, else 0
 *   dQ = scale dS K    dK = scale dS^T Q    dV = (A B)^T dZ               B: what dropout multiplies weights by
 *   dx = dQ W_Q^T (self: + dK W_K^T + dV W_V^T)    dW_Q = x^T dQ    db_Q = sum_t dQ    likewise K and V
 *
 * Hidden pairs are not multiplied: 0 times NaN counts as 0 wherever a factor is exactly 0, as for rows that see nothing
 * and keys that nothing sees.
 *
 * Errors of a kernel in f32 that rounds to nearest, names as in bound.c. Every quantity has a value v, an error e for
 * any data, and the variance q of the error for random data. A product of K steps, in any order, with or without FMA:
 *
 *   e = (1 + gamma_K) (|a| + e_a)(|b| + e_b) - |a||b|
 *   q = a^2 q_b + q_a b^2 + (u (sum |a||b| + sqrt(K) |sum a b|))^2
 *
 * Weights are recomputed as A' = 2^(T - M) / l, T a score, M and l saved by forward for the row. T has the same bits as
 * in forward, so A' lies in [0, 1] except for roundings. Its relative error is at most e^d - 1,
 *
 *   d = e_t + e_l + EXP + 4 u    e_l = max over the row of (e_t + EXP + 2 u) + gamma_{m+8}
 *
 * Errors of different elements count as independent, except for these common ones. All keys of a row share the error
 * of D, which reaches dQ multiplied by scale sum_j A_j K_j, and that of l, multiplied by dQ. The error of one dS
 * reaches all columns of dQ, along K, and of dK, along Q: in dx it is multiplied by K W_Q^T, not added as a sum of
 * squares. That of dZ reaches dV of all keys, so dW_V = (A S)^T dZ and db_V have it times their weighted sums. Where
 * a score may be off by more than SATURATED (keys at -1e9, for example), the weights of its row may be anything, and
 * their errors have one cause: it counts m d_k d_v times, as each sum on the way may add it up (Cauchy and Schwarz).
 * A number of rel_bias has the sums of a row's dS over its keys, and so the errors of D and l times the sums of A and
 * of dS. The sink is one more key, whose score is a number and whose value is 0: dsink = - sum_t A_sink D.
 *
 * Through a norm, x' = (x - mean) r as in docs/gradients.md: x' has forward's error e_x' without gains, which includes
 * r's relative error rho (docs/bound_block.md); r is also a factor of the whole. With S = sum u x' of n terms:
 *
 *   e_S = (1 + gamma_{n+8}) sum (|u| + e_u)(|x'| + e_x') - sum |u x'|      u = g dy, packed gains rounded: 8 u more
 *   R = |u| + e_u + (|M| + e_M) / n + (|x'| + e_x')(|S| + e_S) / n         M = sum u, of layer alone
 *   e_dx = (1 + rho)(1 + 4 u) r (|dx / r| + R - |u| - |M| / n - |x' S| / n + 6 u R) - |dx|
 *
 * The statistical gate has q_S and the statistical part of rho, common to all columns of a row: along x', and along
 * dx. Under rms_all a head has r u at once, and - r x' S / n once S of all heads is known; errors of one head's
 * columns count as one there. dg and dc are sums over rows. A row of l2 whose norm f32 may find above or below eps
 * has the difference of the two as its error.
 *
 * With a softcap, dS is the gradient of the capped score, and Q and K get G dS, with G = 1 - tanh^2. G is computed from
 * the capped score, whose error / c is x: it is off by 2 |tanh| x + x^2. The statistical gate is LAMBDA times the root
 * of q; over random layers the largest error is below half of it. It is a gate for random data, not a bound.
 */
#include "gradient.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "finish_error.h"
#include "product.h"
#include "spec/relative.h"
#include "spec/score.h"
#include "terms.h"

#define U BOUND_U
#define TINY 0x1p-100
#define SATURATED 0.1
#define RESCALED_AWAY 0x1p-62 /* a weight of up to 2^64, times a 2^(old M - M) that underflows */
#define LAMBDA BOUND_LAMBDA

/* A matrix with its errors. `size` is the sum of |a||b| for its rounding. */
struct quantity {
    size_t rows, columns;
    double *v, *e, *q, *size; /* the last three are NULL if no bounds are requested */
};

/* What the observer of a head works on. */
struct walk {
    const struct layer *layer;
    const struct inputs *in;
    struct gradients *gradients;
    const float *dy;
    bool bounded, good;
    struct quantity out[TENSOR_COUNT]; /* [elements][1], in the spec's order of heads: see scatter() */
    struct later *later[2];            /* rms_all: [h] of queries, [h_kv] of keys */
    struct quantity sums[2];           /* rms_all: [rows][1] sum of u x' over the heads so far */
};

/* ---- quantities ------------------------------------------------------------------------------------------------ */

static double *zeros(size_t count, bool *good)
{
    double *p = calloc(count > 0 ? count : 1, sizeof *p);
    *good = *good && p != NULL;
    return p;
}

static struct quantity make(struct walk *w, size_t rows, size_t columns)
{
    struct quantity m = {.rows = rows, .columns = columns};
    m.v = zeros(rows * columns, &w->good);
    if (w->bounded) {
        m.e = zeros(rows * columns, &w->good);
        m.q = zeros(rows * columns, &w->good);
        m.size = zeros(rows * columns, &w->good);
    }
    return m;
}

static void drop(struct quantity *m)
{
    free(m->v);
    free(m->e);
    free(m->q);
    free(m->size);
    *m = (struct quantity){0};
}

static struct quantity exact(struct walk *w, const double *from, size_t rows, size_t columns)
{
    struct quantity m = make(w, rows, columns);
    if (w->good)
        memcpy(m.v, from, rows * columns * sizeof *from);
    return m;
}

static double *turned(const double *from, size_t rows, size_t columns, bool *good)
{
    double *to = from != NULL ? zeros(rows * columns, good) : NULL;
    for (size_t r = 0; to != NULL && r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
    return to;
}

static struct quantity transposed(struct walk *w, const struct quantity *m)
{
    struct quantity t = {.rows = m->columns, .columns = m->rows};
    t.v = turned(m->v, m->rows, m->columns, &w->good);
    t.e = turned(m->e, m->rows, m->columns, &w->good);
    t.q = turned(m->q, m->rows, m->columns, &w->good);
    t.size = turned(m->size, m->rows, m->columns, &w->good);
    return t;
}

/* Some rows of a matrix, sharing its memory */
static struct quantity part_of(const struct quantity *m, size_t row, size_t rows)
{
    const size_t at = row * m->columns;
    struct quantity part = {.rows = rows, .columns = m->columns, .v = m->v + at};
    if (m->e != NULL) {
        part.e = m->e + at;
        part.q = m->q + at;
        part.size = m->size + at;
    }
    return part;
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

enum { SIZE, SPREAD, SQUARE, VARIANCE, FORMS };

/* |x|, |x| + e, x^2, q */
static double *form_of(const struct quantity *m, int form, bool *good)
{
    const size_t count = m->rows * m->columns;
    double *to = zeros(count, good);
    for (size_t i = 0; to != NULL && i < count; i++)
        to[i] = form == SIZE ? fabs(m->v[i]) : form == SPREAD ? fabs(m->v[i]) + m->e[i]
              : form == SQUARE ? m->v[i] * m->v[i] : m->q[i];
    return to;
}

/* Whether some of `count` numbers, `step` apart, may be infinite in f32. */
static bool may_overflow(const double *e, size_t count, size_t step)
{
    bool may = false;
    for (size_t i = 0; i < count; i++)
        may = may || !(e[i * step] < GRADIENT_MAY_OVERFLOW);
    return may;
}

/* A factor of infinity may be 0: then nothing is known about the sum. */
static void open_sums(struct quantity *out, const struct quantity *a, const struct quantity *b)
{
    const size_t inner = a->columns, columns = b->columns;
    for (size_t r = 0; r < a->rows; r++)
        if (may_overflow(a->e + r * inner, inner, 1))
            for (size_t c = 0; c < columns; c++)
                out->e[r * columns + c] = INFINITY;
    for (size_t c = 0; c < columns; c++)
        if (may_overflow(b->e + c, inner, columns))
            for (size_t r = 0; r < a->rows; r++)
                out->e[r * columns + c] = INFINITY;
}

/* out += a b; `steps`: length of the whole reduction, of which this may be a part */
static void multiply(struct walk *w, struct quantity *out, const struct quantity *a, const struct quantity *b,
                     size_t steps)
{
    const size_t rows = a->rows, inner = a->columns, columns = b->columns, count = rows * columns;
    add_product(out->v, a->v, b->v, rows, inner, columns);
    if (!w->bounded)
        return;
    static const int pairs[][2] = {{SIZE, SIZE}, {SPREAD, SPREAD}, {SQUARE, VARIANCE}, {VARIANCE, SQUARE}};
    double *sum[4];
    for (int i = 0; i < 4; i++) {
        double *f = form_of(a, pairs[i][0], &w->good), *g = form_of(b, pairs[i][1], &w->good);
        sum[i] = zeros(count, &w->good);
        if (w->good)
            add_product(sum[i], f, g, rows, inner, columns);
        free(f);
        free(g);
    }
    for (size_t i = 0; w->good && i < count; i++) {
        out->size[i] += sum[0][i];
        out->e[i] += (1 + gamma_of(steps)) * sum[1][i] - sum[0][i] + TINY;
        out->q[i] += sum[2][i] + sum[3][i];
    }
    if (w->good)
        open_sums(out, a, b);
    for (int i = 0; i < 4; i++)
        free(sum[i]);
}

/* Adds the roundings of a complete sum of so many steps. */
static void round_sum(struct quantity *m, size_t steps)
{
    for (size_t i = 0; m->q != NULL && i < m->rows * m->columns; i++) {
        const double drawn = U * (m->size[i] + sqrt((double)steps) * fabs(m->v[i]));
        m->q[i] += drawn * drawn + TINY * TINY;
    }
}

static void multiply_all(struct walk *w, struct quantity *out, const struct quantity *a, const struct quantity *b,
                         size_t more)
{
    multiply(w, out, a, b, a->columns + more);
    round_sum(out, a->columns + more);
}

/* Adds a number to every row. */
static void add_row(struct quantity *m, const double *row)
{
    for (size_t i = 0; i < m->rows * m->columns; i++) {
        const double of = row[i % m->columns];
        m->v[i] += of;
        if (m->e != NULL) {
            m->e[i] += 4 * U * fabs(of);
            m->q[i] += 4 * U * U * of * of;
        }
    }
}

static void scale_by(struct quantity *m, double factor)
{
    for (size_t i = 0; i < m->rows * m->columns; i++) {
        m->v[i] *= factor;
        if (m->e != NULL) {
            m->e[i] = fabs(factor) * m->e[i] + 4 * U * fabs(m->v[i]);
            m->q[i] = factor * factor * m->q[i] + 4 * U * U * m->v[i] * m->v[i];
            m->size[i] *= fabs(factor);
        }
    }
}

/* ---- where a head's share of a gradient belongs ------------------------------------------------------------------ */

/* A matrix of a tensor: rows from `at` on, `row` apart, columns `column` apart. */
struct place {
    size_t at, row, column;
};

static void scatter(struct walk *w, enum layer_tensor tensor, struct place place, const struct quantity *m)
{
    struct quantity *out = &w->out[tensor];
    for (size_t r = 0; w->good && out->v != NULL && r < m->rows; r++)
        for (size_t c = 0; c < m->columns; c++) {
            const size_t to = place.at + r * place.row + c * place.column, i = r * m->columns + c;
            out->v[to] += m->v[i];
            if (w->bounded) {
                out->e[to] += m->e[i];
                out->q[to] += m->q[i];
                out->size[to] += m->size[i];
            }
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
static void add_columns(struct walk *w, enum layer_tensor tensor, size_t first, const struct quantity *m, size_t steps)
{
    if (w->out[tensor].v == NULL)
        return;
    struct quantity ones = make(w, 1, m->rows), sum = make(w, 1, m->columns);
    for (size_t r = 0; w->good && r < m->rows; r++)
        ones.v[r] = 1;
    if (w->good)
        multiply(w, &sum, &ones, m, steps);
    scatter(w, tensor, (struct place){first, 0, 1}, &sum);
    drop(&ones);
    drop(&sum);
}

/* ---- one head ---------------------------------------------------------------------------------------------------- */

/* Rows of queries or keys that a norm has divided: x' = (x - mean) r of docs/gradients.md, with its errors but for
 * what all columns of a row share. */
struct norms {
    const struct finish *of;
    struct quantity x;                /* [rows][d] */
    double *inverse, *worst, *shared; /* [rows] r, its largest relative error, and the drawn one that a row shares */
    double *share;                    /* [rows] of the sum of u x' what is taken off: 1 / n; l2: 1, or 0 below eps */
    unsigned char *open, *edge;       /* [rows] f32 may overflow; l2: f32 may see the other side of eps */
    bool centred;
};

/* Intermediate results of a head */
struct known {
    struct quantity x, s, w_q, w_k, w_v; /* exact; no w_v under identity */
    struct quantity q, k, v, a, z, dz;
    struct norms norms_q, norms_k; /* empty: there are none */
    struct quantity kept; /* a times dropout's factors; empty: no dropout */
    struct quantity slope; /* slope of the softcap at each score; empty: no softcap */
    struct quantity sunk;  /* [rows][1]: the sink's weight; empty: no sink */
    double *shared; /* [rows]: the variance of the error common to all weights of a row */
};

static void project(struct walk *w, struct quantity *to, const struct quantity *from, const struct quantity *weights,
                    const double *bias)
{
    multiply_all(w, to, from, weights, 5);
    add_row(to, bias);
}

/* Of one score, scale q k: the softcap's slope there. */
static double cap_slope(const struct walk *w, double raw)
{
    const double tanh_of = tanh(raw / w->layer->number[SCORE_SOFTCAP]);
    return 1 - tanh_of * tanh_of;
}

/* What the softcap makes of a score's errors, and those of its slope. */
static void cap_score(const struct walk *w, struct quantity *s, struct quantity *slope, size_t at, double raw)
{
    const double cap = w->layer->number[SCORE_SOFTCAP], tanh_of = tanh(raw / cap), value = cap * tanh_of;
    const double product = 2 * U * fabs(raw), nearest = fmax(0, fabs(raw) - s->e[at] - product) / cap;
    const double steepest = 1 / (cosh(nearest) * cosh(nearest)), carried = steepest * (s->e[at] + product);
    s->e[at] = fmin(carried, 2 * cap) + BOUND_TANH * fmin(fabs(value) + carried, cap);
    s->q[at] = fmin(steepest * steepest * (s->q[at] + product * product), cap * cap) +
               BOUND_TANH * BOUND_TANH * value * value;
    const double x = s->e[at] / cap + 2 * U * fabs(tanh_of), drawn = s->q[at] / (cap * cap) + U * U;
    slope->e[at] = fmin(2 * fabs(tanh_of) * x + x * x, 1) + 2 * U;
    slope->q[at] = 4 * tanh_of * tanh_of * drawn + drawn * drawn + 4 * U * U;
}

/* Each term of GRADIENT_SLOPE: its slope at a score, and what it makes of errors. */
static const struct {
    double (*slope)(const struct walk *w, double raw);
    void (*errors)(const struct walk *w, struct quantity *s, struct quantity *slope, size_t at, double raw);
} sloped[SCORE_TERMS] = {[SCORE_SOFTCAP] = {cap_slope, cap_score}};

/* The layer's term that bends; SCORE_TERMS: none. */
static enum score_name bent_by(const struct layer *layer)
{
    enum score_name term = 0;
    while (term < SCORE_TERMS && !(score_has(layer, term) && score_terms[term].gradient == GRADIENT_SLOPE))
        term++;
    return term;
}

static void weigh(struct walk *w, struct known *g, const struct reference_head *head)
{
    const size_t n = g->a.rows, m = g->a.columns;
    const double scale = w->layer->scale;
    const enum score_name bent = bent_by(w->layer);
    w->good = w->good && (bent == SCORE_TERMS || sloped[bent].slope != NULL);
    memcpy(g->a.v, head->weights, n * m * sizeof *g->a.v);
    if (w->good && bent != SCORE_TERMS)
        g->slope = make(w, n, m);
    if (w->layer->sink)
        g->sunk = make(w, n, 1);
    for (size_t t = 0; w->good && w->layer->sink && t < n; t++)
        g->sunk.v[t] = exp(head->sink - head->lse[t]);
    for (size_t at = 0; w->good && g->slope.v != NULL && at < n * m; at++)
        g->slope.v[at] = sloped[bent].slope(w, head->raw[at]);
    if (!w->bounded)
        return;
    struct quantity kt = transposed(w, &g->k), s = make(w, n, m);
    if (w->good)
        multiply_all(w, &s, &g->q, &kt, 4);
    for (size_t t = 0; w->good && t < n; t++) {
        const size_t row = t * m;
        const double of_sink = w->layer->sink ? 6 * U * fabs(head->sink) : 0; /* rounded twice: packed, less m */
        double largest = of_sink, spread = 0, together = 0;
        if (g->sunk.v != NULL)
            spread = g->sunk.v[t] * g->sunk.v[t] * of_sink * of_sink;
        for (size_t j = 0; j < m; j++) {
            s.e[row + j] = fabs(scale) * s.e[row + j];
            s.q[row + j] = scale * scale * s.q[row + j];
            if (g->slope.e != NULL && g->slope.q != NULL)
                sloped[bent].errors(w, &s, &g->slope, row + j, head->raw[row + j]);
            const double before = bent != SCORE_TERMS ? terms_value(w->layer, bent, head->raw[row + j], 0)
                                                      : head->raw[row + j];
            const double added = fabs(head->scores[row + j] - before);
            const double sizes = 4 * added + 2 * fabs(head->scores[row + j]);
            s.e[row + j] += U * sizes;
            s.q[row + j] += U * U * sizes * sizes;
            if (head->visible[row + j]) {
                largest = fmax(largest, s.e[row + j]);
                if (!(s.q[row + j] <= SATURATED * SATURATED))
                    together = (double)m * (double)(w->layer->d_k * w->layer->d_v);
                spread += g->a.v[row + j] * g->a.v[row + j] * s.q[row + j];
            }
        }
        const double of_sum = largest + BOUND_EXP2 + 2 * U + gamma_of(m + 8);
        g->shared[t] = fmin(spread + BOUND_EXP2 * BOUND_EXP2 + U * U * (1 + sqrt((double)m)), 1);
        if (g->sunk.v != NULL) {
            const double a = g->sunk.v[t], own = BOUND_EXP2 + 4 * U, most = fmax(a, 1 - a) + 8 * U;
            g->sunk.e[t] = fmin(a * expm1(of_sink + of_sum + own), most) + TINY;
            const double apart = a * a * (of_sink * of_sink + g->shared[t] + own * own);
            g->sunk.q[t] = (together > 0 ? together * most * most : apart) + TINY * TINY;
        }
        for (size_t j = 0; j < m; j++) {
            const double a = g->a.v[row + j], own = BOUND_EXP2 + 4 * U;
            if (!head->visible[row + j])
                continue;
            const double most = fmax(a, 1 - a) + 8 * U; /* A' lies in [0, 1] but for its roundings */
            g->a.e[row + j] = fmin(a * expm1(s.e[row + j] + of_sum + own), most) + TINY;
            const double apart = a * a * (s.q[row + j] + g->shared[t] + own * own);
            g->a.q[row + j] = (together > 0 ? together * most * most : apart) + TINY * TINY;
        }
    }
    drop(&kt);
    drop(&s);
}

/* Norm and rotation between a projection and the scores: values and errors */
static void finish_quantity(struct walk *w, struct quantity *m, const struct finish *of, const double *finished,
                            size_t depth)
{
    if (!layer_finishes(w->layer) || !w->good)
        return;
    const size_t count = m->rows * m->columns;
    memcpy(m->v, finished, count * sizeof *finished);
    if (!w->bounded)
        return;
    double *common = zeros(m->rows, &w->good);
    unsigned char *open = calloc(m->rows + 1, 1);
    struct finish_error error = {.layer = w->layer, .of = of, .factor = 1, .omega = TINY, .lambda = 1, .most = 1,
                                 .depth = depth, .worst = m->e, .drawn = m->q, .common = common, .open = open};
    for (size_t i = 0; i < count; i++)
        m->q[i] = sqrt(m->q[i]);
    w->good = w->good && open != NULL && finish_errors(&error);
    for (size_t i = 0; i < count; i++)
        m->q[i] *= m->q[i];
    free(common);
    free(open);
}

/* Rotates rows of a gradient back; cosines and sines are rounded once. */
static void turn_gradient(struct walk *w, struct quantity *m, const struct finish *of)
{
    const struct layer *layer = w->layer;
    const size_t pairs = (size_t)layer->rope.dims / 2;
    for (size_t r = 0; w->good && of->turns != NULL && r < m->rows; r++) {
        const struct turn *turns = of->turns + r * pairs;
        finish_turn_back(layer, turns, m->v + r * m->columns);
        for (size_t c = 0; w->bounded && c < pairs; c++) {
            const bool half = layer->rope.kind == ROPE_HALF;
            const size_t row = r * m->columns, at[] = {row + (half ? c : 2 * c), row + (half ? c + pairs : 2 * c + 1)};
            const double cosine = fabs(turns[c].cosine), sine = fabs(turns[c].sine);
            const double size[] = {fabs(m->v[at[0]]), fabs(m->v[at[1]])}; /* the larger one is close to the root of
                                                                           * the sum of squares */
            const double both = size[0] + size[1];
            const double e[] = {m->e[at[0]], m->e[at[1]]}, q[] = {m->q[at[0]], m->q[at[1]]};
            for (int k = 0; k < 2; k++) {
                m->e[at[k]] = (1 + 4 * U) * (cosine * e[k] + sine * e[1 - k]) + 6 * U * both + TINY;
                m->q[at[k]] = cosine * cosine * q[k] + sine * sine * q[1 - k] + 4 * U * U * both * both;
            }
        }
    }
}

static void drop_norms(struct norms *norms)
{
    drop(&norms->x);
    free(norms->inverse);
    free(norms->worst);
    free(norms->shared);
    free(norms->share);
    free(norms->open);
    free(norms->edge);
    *norms = (struct norms){0};
}

/* Of rows as they were projected */
static struct norms divide(struct walk *w, const struct quantity *raw, const struct finish *of, size_t depth)
{
    const struct layer *layer = w->layer;
    const size_t rows = raw->rows, d = raw->columns, count = of->all != NULL ? of->heads * d : d;
    struct norms to = {.of = of};
    if (layer->qk_norm == NORM_NONE || !w->good)
        return to;
    const struct norm norm = finish_norm(layer);
    to = (struct norms){.of = of, .x = make(w, rows, d), .inverse = zeros(rows, &w->good),
                        .worst = zeros(rows, &w->good), .shared = zeros(rows, &w->good),
                        .share = zeros(rows, &w->good), .open = calloc(rows + 1, 1), .edge = calloc(rows + 1, 1),
                        .centred = layer->qk_norm == NORM_LAYER};
    double *work = zeros(2 * count, &w->good), *drawn = zeros(rows * d, &w->good);
    w->good = w->good && to.open != NULL && to.edge != NULL;
    for (size_t i = 0; w->good && w->bounded && i < rows * d; i++)
        drawn[i] = sqrt(raw->q[i]);
    const struct finish_error error = {.layer = layer, .of = of, .factor = 1, .omega = TINY, .lambda = 1, .most = 1,
                                       .depth = depth, .worst = raw->e, .drawn = drawn};
    for (size_t r = 0; w->good && r < rows; r++) {
        size_t numbers;
        const struct norm_row by = norm_of(&norm, finish_columns(of, r, &numbers), count);
        const bool l2 = layer->qk_norm == NORM_L2, longer = sqrt(by.squares) >= norm.eps;
        to.inverse[r] = 1 / by.divisor;
        to.share[r] = l2 ? longer : 1 / (double)count;
        for (size_t c = 0; c < d; c++)
            to.x.v[r * d + c] = (of->from[r * d + c] - by.middle) / by.divisor;
        if (!w->bounded)
            continue;
        const struct norm_divided divided = finish_divide(&error, r, work);
        const struct norm_rounding rounding = finish_rounding(&error);
        to.worst[r] = divided.worst;
        to.shared[r] = divided.drawn;
        to.open[r] = divided.open;
        to.edge[r] = l2 && !(fabs(sqrt(by.squares) / norm.eps - 1) > divided.worst + 8 * U);
        for (size_t c = 0; c < d; c++) {
            double worst = raw->e[r * d + c], own = drawn[r * d + c];
            to.open[r] |= norm_error(&divided, &rounding, of->from[r * d + c], 1, 0, false, &worst, &own);
            to.x.e[r * d + c] = worst;
            to.x.q[r * d + c] = own * own;
        }
    }
    free(work);
    free(drawn);
    return to;
}

/* One row of an exact gradient, through the norm: under rms_all without what other heads add. */
static void row_through_norm(const struct norms *norms, size_t r, double *row)
{
    const size_t d = norms->x.columns;
    const double *x = norms->x.v + r * d, *gain = norms->of->gain;
    double dot = 0, mean = 0;
    for (size_t c = 0; c < d; c++) {
        row[c] *= gain != NULL ? gain[c] : 1;
        dot += row[c] * x[c];
        mean += norms->centred ? row[c] / (double)d : 0;
    }
    for (size_t c = 0; c < d; c++)
        row[c] = norms->inverse[r] * (row[c] - mean - x[c] * dot * norms->share[r]);
}

/* a times exact factors, which are f32 in the kernel */
static struct quantity drop_weights(struct walk *w, const struct quantity *a, const double *factors)
{
    struct quantity kept = make(w, a->rows, a->columns);
    for (size_t i = 0; w->good && i < a->rows * a->columns; i++) {
        kept.v[i] = a->v[i] * factors[i];
        if (w->bounded) {
            kept.e[i] = a->e[i] * factors[i] * (1 + 3 * U) + 3 * U * kept.v[i];
            kept.q[i] = factors[i] * factors[i] * a->q[i] + 4 * U * U * kept.v[i] * kept.v[i];
        }
    }
    return kept;
}

/* Weights as in forward: if terms raise scores, earlier weights may be rescaled to 0 (bound.c). */
static struct quantity rescaled_weights(struct walk *w, const struct quantity *a, const double *factors)
{
    struct quantity rescaled = make(w, a->rows, a->columns);
    for (size_t i = 0; w->good && i < a->rows * a->columns; i++) {
        const double most = RESCALED_AWAY * (factors != NULL ? factors[i] : 1);
        const double away = score_lifts(w->layer) ? fmin(a->v[i], most) : 0;
        rescaled.v[i] = a->v[i];
        if (w->bounded) {
            rescaled.e[i] = a->e[i] + away;
            rescaled.q[i] = a->q[i] + away * away;
        }
    }
    return rescaled;
}

/* The factors on values */
static struct quantity *weights_of(struct known *g)
{
    return g->kept.v != NULL ? &g->kept : &g->a;
}

static struct known know(struct walk *w, const struct reference_head *head)
{
    const struct layer *layer = w->layer;
    const size_t n = w->in->n, m = head->keys, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t in_q = (size_t)layer->d_in_q, in_kv = (size_t)layer->d_in_kv;
    struct known g = {.q = make(w, n, d_k), .k = make(w, m, d_k), .v = make(w, m, d_v), .a = make(w, n, m),
                      .z = make(w, n, d_v), .dz = make(w, n, d_v), .shared = zeros(n, &w->good)};
    g.x = exact(w, head->x, n, in_q);
    g.s = exact(w, head->s, m, in_kv);
    g.w_q = exact(w, head->w_q, in_q, d_k);
    g.w_k = exact(w, head->w_k, in_kv, d_k);
    if (!w->good)
        return g;
    project(w, &g.q, &g.x, &g.w_q, head->b_q);
    project(w, &g.k, &g.s, &g.w_k, head->b_k);
    g.norms_q = divide(w, &g.q, &head->finish_q, in_q);
    g.norms_k = divide(w, &g.k, &head->finish_k, in_kv);
    finish_quantity(w, &g.q, &head->finish_q, head->q, in_q);
    finish_quantity(w, &g.k, &head->finish_k, head->k, in_kv);
    if (layer->identity) {
        memcpy(g.v.v, head->v, m * d_v * sizeof *g.v.v);
    } else {
        g.w_v = exact(w, head->w_v, in_kv, d_v);
        if (w->good)
            project(w, &g.v, &g.s, &g.w_v, head->b_v);
    }
    weigh(w, &g, head);
    if (head->kept != NULL)
        g.kept = drop_weights(w, &g.a, head->kept);
    struct quantity in_forward = rescaled_weights(w, weights_of(&g), head->kept);
    if (w->good)
        multiply_all(w, &g.z, &in_forward, &g.v, 10);
    drop(&in_forward);
    return g;
}

static void forget(struct known *g)
{
    struct quantity *all[] = {&g->x, &g->s, &g->w_q, &g->w_k, &g->w_v, &g->q, &g->k, &g->v, &g->a, &g->z, &g->dz,
                              &g->kept, &g->slope, &g->sunk};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        drop(all[i]);
    drop_norms(&g->norms_q);
    drop_norms(&g->norms_k);
    free(g->shared);
}

/* Columns of this sequence's dy that depend on the head's z */
static struct quantity given(struct walk *w, size_t b, size_t first, size_t columns)
{
    const size_t n = w->in->n, width = (size_t)w->layer->d_out;
    struct quantity dy = make(w, n, columns);
    const size_t rows = w->layer->pad_skipped ? inputs_keys(w->in, b) : n; /* padding rows of y are zero */
    for (size_t r = 0; w->good && r < rows; r++)
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
                       size_t t, size_t u, size_t rows, size_t depth, struct place place, struct place of_y)
{
    struct quantity dy_t = part_of(dy, t, rows), z = part_of(&g->z, u, rows), dz = part_of(&g->dz, u, rows);
    struct quantity back = transposed(w, w_o), z_t = transposed(w, &z), dw = make(w, w_o->rows, w_o->columns);
    struct quantity y = make(w, rows, w_o->columns);
    of_y.at += t * of_y.row;
    if (w->good) {
        multiply(w, &dz, &dy_t, &back, depth);
        multiply(w, &dw, &z_t, &dy_t, w->in->batch * w->in->n + 2);
        multiply(w, &y, &z, w_o, y_steps(w->layer));
        scatter(w, TENSOR_W_O, place, &dw);
        scatter(w, TENSOR_Y, of_y, &y);
    }
    drop(&y);
    drop(&back);
    drop(&z_t);
    drop(&dw);
}

static void merge(struct walk *w, struct known *g, const struct reference_head *head)
{
    const struct layer *layer = w->layer;
    const size_t n = w->in->n, b = head->b, i = head->i, h = (size_t)layer->h, d_v = (size_t)layer->d_v;
    const size_t d_model = (size_t)layer->d_model, all = w->in->batch * n;
    if (layer->w_o == W_O_NONE) {
        struct quantity dy = given(w, b, i * d_v, d_v);
        if (w->good)
            memcpy(g->dz.v, dy.v, n * d_v * sizeof *dy.v);
        scatter(w, TENSOR_Y, (struct place){b * n * h * d_v + i * d_v, h * d_v, 1}, &g->z);
        drop(&dy);
        return;
    }
    if (layer->w_o == W_O_DENSE) {
        struct quantity dy = given(w, b, 0, d_model), w_o = exact(w, head->w_o, d_v, d_model);
        if (w->good)
            merge_rows(w, g, &dy, &w_o, 0, 0, n, d_model, matrix_place(layer, 0, h * d_v, d_model, i * d_v, 0),
                       (struct place){b * n * d_model, d_model, 1});
        if (w->good && i == 0)
            add_columns(w, TENSOR_B_O, 0, &dy, all);
        round_sum(&g->dz, d_model);
        drop(&dy);
        drop(&w_o);
        return;
    }
    const size_t width = d_model / h, taps = (size_t)layer->conv_width, pad = (size_t)layer_conv_pad(layer);
    const bool pads = (layer->mask & MASK_PADDING) != 0;
    const size_t limit = pads && head->keys < n ? head->keys : n; /* number of rows of z that are not zero by
                                                                   * definition */
    struct quantity dy = given(w, b, i * width, width);
    for (size_t tap = 0; w->good && tap < taps; tap++) {
        struct quantity w_o = exact(w, head->w_o + tap * d_v * width, d_v, width);
        /* u = t + tap - pad */
        const size_t u = tap > pad ? tap - pad : 0, t = pad > tap ? pad - tap : 0;
        const size_t left = u < limit ? limit - u : 0, rows = t < n ? (left < n - t ? left : n - t) : 0;
        const struct place place = matrix_place(layer, (i * taps + tap) * d_v * width, d_v, width, 0, 0);
        if (w->good && rows > 0)
            merge_rows(w, g, &dy, &w_o, t, u, rows, taps * width, place,
                       (struct place){b * n * d_model + i * width, d_model, 1});
        drop(&w_o);
    }
    if (w->good)
        add_columns(w, TENSOR_B_O, i * width, &dy, all);
    round_sum(&g->dz, taps * width);
    drop(&dy);
}

static bool sees_any(const struct reference_head *head, size_t t, size_t m)
{
    bool any = false;
    for (size_t j = 0; j < m; j++)
        any = any || head->visible[t * m + j];
    return any;
}

/* dS; D [rows][1], 0 where a row sees nothing, and its variance */
static void differentiate(struct walk *w, const struct known *g, const struct reference_head *head,
                          struct quantity *ds, struct quantity *of_rows, double *of_d)
{
    const size_t n = g->a.rows, m = g->a.columns, d_v = g->z.columns;
    struct quantity vt = transposed(w, &g->v), dp = make(w, n, m);
    if (w->good)
        multiply_all(w, &dp, &g->dz, &vt, 0);
    for (size_t t = 0; w->good && t < n; t++) {
        double d = 0, e = 0, size = 0, q = 0;
        for (size_t c = 0; c < d_v; c++) {
            const size_t at = t * d_v + c;
            d += g->dz.v[at] * g->z.v[at];
            if (w->bounded) {
                size += fabs(g->dz.v[at] * g->z.v[at]);
                e += (fabs(g->dz.v[at]) + g->dz.e[at]) * (fabs(g->z.v[at]) + g->z.e[at]);
                q += g->dz.q[at] * g->z.v[at] * g->z.v[at] + g->dz.v[at] * g->dz.v[at] * g->z.q[at];
            }
        }
        const double drawn = U * (size + sqrt((double)d_v) * fabs(d));
        e = (1 + gamma_of(d_v)) * e - size;
        of_d[t] = q + drawn * drawn;
        if (sees_any(head, t, m)) {
            of_rows->v[t] = d;
            if (w->bounded) {
                of_rows->e[t] = e;
                of_rows->q[t] = of_d[t];
            }
        }
        for (size_t j = 0; j < m; j++) {
            const size_t at = t * m + j;
            const double by = head->kept != NULL ? head->kept[at] : 1;
            const double a = g->a.v[at], rest = by * dp.v[at] - d;
            if (!head->visible[at])
                continue;
            ds->v[at] = a * rest;
            if (w->bounded) {
                const double rounding = head->kept != NULL ? 3 * U * by * fabs(dp.v[at]) : 0, of_p = by * dp.e[at];
                ds->e[at] = (1 + 4 * U) * (a + g->a.e[at]) * (fabs(rest) + of_p + rounding + e) - a * fabs(rest) + TINY;
                /* includes the square of a's error: where weights may be anything, it is not a first-order term */
                ds->q[at] = rest * rest * g->a.q[at] +
                            (a * a + g->a.q[at]) * (by * by * dp.q[at] + rounding * rounding + of_d[t]) +
                            4 * U * U * a * a * (rest * rest + d * d) + TINY * TINY;
            }
        }
    }
    drop(&vt);
    drop(&dp);
}

/* dsink = - sum_t A_sink D */
static void sink_gradient(struct walk *w, const struct known *g, const struct quantity *of_rows, size_t i)
{
    struct quantity weights = transposed(w, &g->sunk), sum = make(w, 1, 1);
    if (w->good)
        multiply(w, &sum, &weights, of_rows, 2 * w->in->batch * w->in->n);
    if (w->good)
        sum.v[0] = -sum.v[0];
    scatter(w, TENSOR_SINK, (struct place){i, 0, 1}, &sum);
    drop(&weights);
    drop(&sum);
}

/* drel_bias: sums of dS by distance; A: the weights. An element takes part in at most n + batch (n + m) additions. */
static void bias_gradient(struct walk *w, const struct known *g, const struct reference_head *head,
                          const struct quantity *ds, const double *of_d)
{
    const struct layer *layer = w->layer;
    struct quantity *out = &w->out[TENSOR_REL_BIAS];
    const size_t n = ds->rows, m = ds->columns;
    const double gamma = gamma_of(n + w->in->batch * (w->in->n + w->in->m));
    double *weights = zeros(out->rows, &w->good), *changes = zeros(out->rows, &w->good);
    for (size_t t = 0; w->good && t < n; t++) {
        memset(weights, 0, out->rows * sizeof *weights);
        memset(changes, 0, out->rows * sizeof *changes);
        for (size_t j = 0; j < m; j++) {
            const int64_t ahead = (int64_t)j - inputs_position(layer, w->in, head->b, t);
            const size_t to = (size_t)relative_index(layer, (int64_t)head->i, ahead), at = t * m + j;
            if (!head->visible[at])
                continue;
            out->v[to] += ds->v[at];
            weights[to] += g->a.v[at];
            changes[to] += ds->v[at];
            if (w->bounded) {
                out->size[to] += fabs(ds->v[at]);
                out->e[to] += (1 + gamma) * (fabs(ds->v[at]) + ds->e[at]) - fabs(ds->v[at]);
                out->q[to] += ds->q[at];
            }
        }
        for (size_t to = 0; w->bounded && to < out->rows; to++)
            out->q[to] += weights[to] * weights[to] * of_d[t] + changes[to] * changes[to] * g->shared[t];
    }
    free(weights);
    free(changes);
}

/* Multiplies dS, and the weights for D's errors, by the softcap's slope. */
static void slope_down(struct walk *w, const struct known *g, struct quantity *ds, double *weights)
{
    for (size_t at = 0; w->good && g->slope.v != NULL && at < ds->rows * ds->columns; at++) {
        const double of = ds->v[at], slope = g->slope.v[at];
        ds->v[at] *= slope;
        weights[at] *= slope;
        if (w->bounded) {
            const double e = ds->e[at], q = ds->q[at];
            ds->e[at] = (1 + 2 * U) * (fabs(of) + e) * (slope + g->slope.e[at]) - fabs(of) * slope + TINY;
            ds->q[at] = slope * slope * q + (of * of + q) * g->slope.q[at] + U * U * of * of * slope * slope +
                        TINY * TINY;
        }
    }
}

/* The common error of a row's weights, in dQ: pk = A K */
static void add_shared(const struct known *g, const double *of_d, const double *pk, double scale, struct quantity *dq)
{
    for (size_t i = 0; dq->q != NULL && i < dq->rows * dq->columns; i++) {
        const size_t t = i / dq->columns;
        dq->q[i] += of_d[t] * scale * scale * pk[i] * pk[i] + g->shared[t] * dq->v[i] * dq->v[i];
    }
}

/* Errors common to all columns of some rows [rows][d]: variance[row][k], each along row k of [inner][d]; or, if inner
 * is 0, variance[row] along the row itself */
struct aligned {
    const double *variance, *along;
    size_t inner;
    double factor; /* of `along` */
    const struct finish *finish; /* the rotation of the gradients' rows; NULL: none */
    const struct norms *norms;   /* has normed them; NULL: it did not */
};

/* Adds what such errors contribute after the product with `back` [d][columns], beyond independent errors of the d
 * columns, which di contains already. */
static void add_aligned(struct walk *w, struct quantity *di, const struct quantity *back, const struct aligned *of)
{
    const size_t d = back->rows, columns = back->columns, lines = of->inner > 0 ? of->inner : di->rows;
    double *image = zeros(lines * columns, &w->good), *more = zeros(lines * columns, &w->good);
    for (size_t k = 0; w->good && k < lines; k++)
        for (size_t c = 0; c < d; c++)
            for (size_t i = 0; i < columns; i++) {
                const double part = of->factor * of->along[k * d + c] * back->v[c * columns + i];
                image[k * columns + i] += part;
                more[k * columns + i] -= part * part;
            }
    for (size_t i = 0; w->good && i < lines * columns; i++)
        more[i] = fmax(more[i] + image[i] * image[i], 0);
    if (w->good && of->inner > 0)
        add_product(di->q, of->variance, more, di->rows, of->inner, columns);
    for (size_t i = 0; w->good && of->inner == 0 && i < lines * columns; i++)
        di->q[i] += of->variance[i / columns] * more[i];
    free(image);
    free(more);
}

/* The same where each row is turned back or goes through a norm, and what its columns share with it. */
static void add_turned(struct walk *w, struct quantity *di, const struct quantity *back, const struct aligned *of)
{
    const size_t d = back->rows, pairs = (size_t)w->layer->rope.dims / 2;
    double *along = zeros(of->inner * d, &w->good);
    for (size_t r = 0; w->good && r < di->rows; r++) {
        struct quantity row = part_of(di, r, 1);
        memcpy(along, of->along, of->inner * d * sizeof *along);
        for (size_t k = 0; k < of->inner; k++) {
            if (of->finish != NULL)
                finish_turn_back(w->layer, of->finish->turns + r * pairs, along + k * d);
            if (of->norms != NULL)
                row_through_norm(of->norms, r, along + k * d);
        }
        const struct aligned turned = {of->variance + r * of->inner, along, of->inner, of->factor, NULL, NULL};
        add_aligned(w, &row, back, &turned);
    }
    free(along);
}

/* What a sum of the numbers u x' of a row is off by, or of the numbers u */
struct row_sum {
    double v, e, size, q, together; /* together: the root of q, were all of them off by one cause */
};

static void add_term(struct row_sum *sum, double u, double e_u, double q_u, double x, double e_x, double q_x)
{
    sum->v += u * x;
    sum->size += fabs(u * x);
    sum->e += (fabs(u) + e_u) * (fabs(x) + e_x);
    sum->q += q_u * x * x + u * u * q_x;
    sum->together += sqrt(q_u) * fabs(x);
}

static void end_sum(struct row_sum *sum, double count, double shared)
{
    sum->e = (1 + gamma_of((size_t)count + 8)) * sum->e - sum->size;
    const double walk = U * (sum->size + sqrt(count) * fabs(sum->v));
    sum->q += walk * walk + shared * shared * sum->v * sum->v;
}

/* dx = r (u - mean(u) - share x' dot): its errors. Returns what the error of dot makes of x', in variance. */
static double change_row(struct walk *w, const struct norms *norms, size_t r, const double *u, const double *e_u,
                         const double *q_u, const struct row_sum *dot, const struct row_sum *total,
                         struct quantity *dp)
{
    const size_t d = dp->columns;
    const double by = norms->inverse[r], s = norms->share[r], n = norms->centred ? (double)d : INFINITY;
    const double worst = norms->worst[r], shared = norms->shared[r];
    for (size_t c = 0; c < d; c++) {
        const size_t at = r * d + c;
        const double x = norms->x.v[at], inner = u[c] - total->v / n - s * x * dot->v;
        dp->v[at] = by * inner;
        if (!w->bounded)
            continue;
        const double size = fabs(u[c]) + fabs(total->v) / n + s * fabs(x * dot->v);
        const double most = (fabs(x) + norms->x.e[at]) * (fabs(dot->v) + dot->e);
        const double reach = fabs(u[c]) + e_u[c] + (fabs(total->v) + total->e) / n + s * most;
        const double moved = fabs(inner) + reach - size + 6 * U * reach, other = norms->edge[r] ? by * most : 0;
        dp->e[at] = norms->open[r] ? INFINITY
                  : (1 + worst) * (1 + 4 * U) * by * moved - by * fabs(inner) + 2 * other + TINY;
        dp->q[at] = by * by * (q_u[c] + total->q / (n * n) + 4 * U * U * size * size +
                               s * s * (dot->v * dot->v * norms->x.q[at] + x * x * dot->q)) +
                    shared * shared * dp->v[at] * dp->v[at] + other * other + TINY * TINY;
    }
    return by * by * s * s * (dot->q + 4 * shared * shared * dot->v * dot->v);
}

/* dp of what was normed becomes that of what was projected, and gains and shifts have their share. common: the variance
 * of what each row of dp is off by along x'. sums: under rms_all u x' of each row, of which the rest is made later. */
static void through_norms(struct walk *w, struct quantity *dp, const struct norms *norms, enum layer_tensor gains,
                          enum layer_tensor shifts, size_t first, struct quantity *sums, double *common)
{
    const size_t d = dp->columns, heads = norms->of != NULL ? norms->of->heads : 0;
    const double tiny = TINY * (1 + 2 * fabs(w->layer->scale)); /* packed gains of queries have the scale */
    const double steps = gamma_of(w->in->batch * (w->in->n + w->in->m) * heads + 8);
    double *work = zeros(3 * d, &w->good), *u = work, *e_u = work + d, *q_u = work + 2 * d;
    struct quantity of_gains = make(w, 1, d), of_shifts = make(w, 1, d);
    for (size_t r = 0; w->good && norms->of != NULL && r < dp->rows; r++) {
        struct row_sum dot = {0}, total = {0};
        bool none = true;
        for (size_t c = 0; c < d; c++)
            none = none && dp->v[r * d + c] == 0;
        if (none && !isfinite(norms->inverse[r]))
            continue;
        for (size_t c = 0; c < d; c++) {
            const size_t at = r * d + c;
            const double g = norms->of->gain != NULL ? fabs(norms->of->gain[c]) : 1, dy = dp->v[at];
            const double x = norms->x.v[at], shared = norms->shared[r];
            u[c] = norms->of->gain != NULL ? norms->of->gain[c] * dy : dy;
            of_gains.v[c] += dy * x;
            of_shifts.v[c] += dy;
            if (w->bounded) {
                const double e = dp->e[at], q = dp->q[at], e_x = norms->x.e[at], q_x = norms->x.q[at];
                e_u[c] = g * (e + 8 * U * (fabs(dy) + e)) + (1 + g) * tiny;
                q_u[c] = g * g * (q + 16 * U * U * dy * dy) + TINY * TINY;
                of_gains.size[c] += fabs(dy * x);
                of_gains.e[c] += (1 + steps) * (fabs(dy) + e) * (fabs(x) + e_x) - fabs(dy * x) + tiny;
                of_gains.q[c] += dy * dy * q_x + x * x * q + (shared * shared + 4 * U * U) * dy * dy * x * x;
                of_shifts.size[c] += fabs(dy);
                of_shifts.e[c] += (1 + steps) * (fabs(dy) + e) - fabs(dy) + tiny;
                of_shifts.q[c] += q + 4 * U * U * dy * dy;
            }
            add_term(&dot, u[c], e_u[c], q_u[c], x, w->bounded ? norms->x.e[at] : 0,
                     w->bounded ? norms->x.q[at] : 0);
            add_term(&total, u[c], e_u[c], q_u[c], 1, 0, 0);
        }
        end_sum(&dot, (double)(sums != NULL ? heads * d : d), norms->shared[r]);
        end_sum(&total, (double)d, 0);
        if (sums != NULL) {
            sums->v[r] += dot.v;
            if (w->bounded) {
                sums->e[r] += dot.e;
                sums->q[r] += dot.q + dot.together * dot.together;
            }
            dot = (struct row_sum){0};
        }
        common[r] = change_row(w, norms, r, u, e_u, q_u, &dot, &total, dp);
    }
    scatter(w, gains, (struct place){sums != NULL ? first : 0, 0, 1}, &of_gains);
    scatter(w, shifts, (struct place){0, 0, 1}, &of_shifts);
    drop(&of_gains);
    drop(&of_shifts);
    free(work);
}

/* Propagates a gradient of rows through a projection: d(input) += dp W^T, dW += input^T dp, db += sum dp. The rows have
 * `count` kinds of errors common to all their columns. */
static void through(struct walk *w, const struct quantity *input, const struct quantity *weights,
                    const struct quantity *dp, enum layer_tensor of_input, struct place place, size_t depth,
                    enum layer_tensor of_weights, struct place of_matrix, enum layer_tensor of_bias, size_t first,
                    const struct aligned *aligned, size_t count)
{
    const size_t all = w->in->batch * (w->in->n + w->in->m) + 2;
    struct quantity back = transposed(w, weights), input_t = transposed(w, input);
    struct quantity di = make(w, input->rows, input->columns), dw = make(w, weights->rows, weights->columns);
    if (w->good) {
        multiply(w, &di, dp, &back, depth);
        for (size_t i = 0; w->bounded && i < count; i++)
            (aligned[i].finish != NULL || aligned[i].norms != NULL ? add_turned : add_aligned)(w, &di, &back,
                                                                                               &aligned[i]);
        multiply(w, &dw, &input_t, dp, all);
        scatter(w, of_input, place, &di);
        scatter(w, of_weights, of_matrix, &dw);
        add_columns(w, of_bias, first, dp, all);
    }
    drop(&back);
    drop(&input_t);
    drop(&di);
    drop(&dw);
}

/* ---- rms_all: what a row's other heads add to the gradient of one, once all are known ---------------------------- */

struct later {
    struct quantity input, weights;
    struct norms norms;
    struct place of_input, of_matrix;
    enum layer_tensor tensor, matrix, bias;
    size_t first;
};

static void begin_later(struct walk *w, size_t queries, size_t keys)
{
    for (int k = 0; k < 2; k++) {
        const size_t heads = (size_t)(k == 0 ? w->layer->h : w->layer->h_kv);
        w->sums[k] = make(w, k == 0 ? queries : keys, 1);
        w->later[k] = calloc(heads, sizeof **w->later);
        w->good = w->good && w->later[k] != NULL;
    }
}

static struct quantity copy_of(struct walk *w, const struct quantity *m)
{
    const size_t bytes = m->rows * m->columns * sizeof *m->v;
    struct quantity copy = make(w, m->rows, m->columns);
    for (int i = 0; w->good && i < 4; i++) {
        double *const to[] = {copy.v, copy.e, copy.q, copy.size}, *const from[] = {m->v, m->e, m->q, m->size};
        if (from[i] != NULL)
            memcpy(to[i], from[i], bytes);
    }
    return copy;
}

static double *numbers_of(const double *from, size_t count, bool *good)
{
    double *to = zeros(count, good);
    if (to != NULL)
        memcpy(to, from, count * sizeof *to);
    return to;
}

static void put_off(struct walk *w, int k, size_t head, const struct later *of)
{
    if (!w->good || w->later[k][head].input.v != NULL)
        return;
    struct later *const to = &w->later[k][head];
    const size_t rows = of->norms.x.rows;
    *to = *of;
    to->input = copy_of(w, &of->input);
    to->weights = copy_of(w, &of->weights);
    to->norms = (struct norms){.x = copy_of(w, &of->norms.x), .inverse = numbers_of(of->norms.inverse, rows, &w->good),
                               .worst = numbers_of(of->norms.worst, rows, &w->good),
                               .shared = numbers_of(of->norms.shared, rows, &w->good),
                               .share = numbers_of(of->norms.share, rows, &w->good),
                               .open = calloc(rows + 1, 1), .edge = calloc(rows + 1, 1)};
    w->good = w->good && to->norms.open != NULL && to->norms.edge != NULL;
    if (w->good)
        memcpy(to->norms.open, of->norms.open, rows);
}

/* - r x' mean(u x') over all heads */
static void end_later(struct walk *w, int k, size_t heads, size_t depth)
{
    const struct quantity *const sums = &w->sums[k];
    const size_t rows = sums->rows, d = (size_t)w->layer->d_k;
    double *none = zeros(3 * d, &w->good), *common = zeros(rows, &w->good);
    for (size_t i = 0; i < heads; i++) {
        struct later *const of = &w->later[k][i];
        struct quantity dp = make(w, rows, d);
        for (size_t r = 0; w->good && r < rows; r++) {
            const struct row_sum dot = {.v = sums->v[r], .e = w->bounded ? sums->e[r] : 0,
                                        .q = w->bounded ? sums->q[r] : 0};
            if (sums->v[r] != 0 || isfinite(of->norms.inverse[r]))
                common[r] = change_row(w, &of->norms, r, none, none + d, none + 2 * d, &dot, &(struct row_sum){0},
                                       &dp);
        }
        const struct aligned aligned = {common, of->norms.x.v, 0, 1, NULL, NULL};
        if (w->good)
            through(w, &of->input, &of->weights, &dp, of->tensor, of->of_input, depth, of->matrix, of->of_matrix,
                    of->bias, of->first, &aligned, 1);
        drop(&dp);
        drop(&of->input);
        drop(&of->weights);
        drop_norms(&of->norms);
    }
    free(none);
    free(common);
    drop(&w->sums[k]);
    free(w->later[k]);
    w->later[k] = NULL;
}

/* What dW_V and db_V have of errors that all keys share: those of dZ, and of a row's 1 / l, which is off by the walk of
 * its sum; what else the row's weights are off by, l is off by as well. a, weights, and s as in dV = a^T dZ,
 * dW_V = s^T dV. Without s the columns are summed up. */
static void add_shared_values(struct walk *w, const struct quantity *a, const struct quantity *s,
                              const struct quantity *dz, enum layer_tensor tensor, struct place place)
{
    const size_t n = a->rows, m = a->columns, in = s != NULL ? s->columns : 1, d_v = dz->columns;
    struct quantity sum = make(w, in, d_v);
    double *seen = zeros(n * in, &w->good), *variance = zeros(n * d_v, &w->good), *seen_t;
    const double walk = U * (2 + sqrt((double)m));
    for (size_t t = 0; w->good && t < n; t++)
        for (size_t j = 0; j < m; j++)
            for (size_t r = 0; a->v[t * m + j] != 0 && r < in; r++)
                seen[t * in + r] += a->v[t * m + j] * (s != NULL ? s->v[j * in + r] : 1);
    for (size_t i = 0; w->good && i < n * in; i++)
        seen[i] *= seen[i];
    seen_t = turned(seen, n, in, &w->good);
    for (size_t i = 0; w->good && i < n * d_v; i++)
        variance[i] = dz->q[i] + walk * walk * dz->v[i] * dz->v[i];
    if (w->good)
        add_product(sum.q, seen_t, variance, in, n, d_v);
    scatter(w, tensor, place, &sum);
    drop(&sum);
    free(variance);
    free(seen);
    free(seen_t);
}

static bool observe(void *context, const struct reference *reference, const struct reference_head *head)
{
    struct walk *w = context;
    const struct layer *layer = w->layer;
    const size_t n = w->in->n, m = head->keys, b = head->b, i = head->i;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, group = i * h_kv / h;
    const size_t d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const size_t in_q = (size_t)layer->d_in_q, in_kv = (size_t)layer->d_in_kv;
    const size_t d_model = (size_t)layer->d_model, d_source = (size_t)layer->d_source;
    (void)reference;
    struct known g = know(w, head);
    struct quantity ds = make(w, n, m), dq = make(w, n, d_k), dk = make(w, m, d_k), dv = make(w, m, d_v);
    struct quantity of_rows = make(w, n, 1);
    double *of_d = zeros(n, &w->good), *pk = zeros(n * d_k, &w->good), *weights = zeros(n * m, &w->good);
    double *common_q = zeros(n, &w->good), *common_k = zeros(m, &w->good);
    const bool norms = layer->qk_norm != NORM_NONE, of_all = layer->qk_norm == NORM_RMS_ALL;
    if (w->good)
        merge(w, &g, head);
    if (w->good)
        differentiate(w, &g, head, &ds, &of_rows, of_d);
    if (w->good && layer->sink)
        sink_gradient(w, &g, &of_rows, i);
    if (w->good && layer->relative != RELATIVE_NONE)
        bias_gradient(w, &g, head, &ds, of_d);
    if (w->good)
        memcpy(weights, g.a.v, n * m * sizeof *weights);
    slope_down(w, &g, &ds, weights);
    struct quantity ds_t = transposed(w, &ds), a_t = transposed(w, weights_of(&g));
    if (w->good) {
        multiply_all(w, &dq, &ds, &g.k, 2);
        multiply(w, &dk, &ds_t, &g.q, n * h / h_kv + 2);
        round_sum(&dk, n * h / h_kv);
        multiply(w, &dv, &a_t, &g.dz, n * h / h_kv);
        round_sum(&dv, n * h / h_kv);
        scale_by(&dq, layer->scale);
        scale_by(&dk, layer->scale);
        add_product(pk, weights, g.k.v, n, m, d_k);
        add_shared(&g, of_d, pk, layer->scale, &dq);
        turn_gradient(w, &dq, &head->finish_q);
        turn_gradient(w, &dk, &head->finish_k);
        for (size_t t = 0; head->finish_q.turns != NULL && t < n; t++)
            finish_turn_back(layer, head->finish_q.turns + t * (size_t)layer->rope.dims / 2, pk + t * d_k);
    }
    if (w->good && of_all && i == 0)
        begin_later(w, n, m);
    if (w->good && norms) {
        through_norms(w, &dq, &g.norms_q, TENSOR_G_Q, TENSOR_C_Q, i * d_k, of_all ? &w->sums[0] : NULL, common_q);
        through_norms(w, &dk, &g.norms_k, TENSOR_G_K, TENSOR_C_K, group * d_k, of_all ? &w->sums[1] : NULL,
                      common_k);
        for (size_t t = 0; t < n; t++)
            row_through_norm(&g.norms_q, t, pk + t * d_k);
    }
    if (w->good) {
        const enum layer_tensor source = inputs_source(layer);
        const struct place of_x = {b * n * d_model + (layer->split ? i * in_q : 0), d_model, 1};
        const struct place of_s = {b * w->in->m * d_source + (layer->split ? i * in_kv : 0), d_source, 1};
        const size_t depth = h * (2 * d_k + d_v) + 4;
        const struct place of_q = projection_place(layer, in_q, d_k, h, i);
        const bool turns = head->finish_q.turns != NULL;
        const struct place of_k = projection_place(layer, in_kv, d_k, h_kv, group);
        const struct finish *const turned_q = turns ? &head->finish_q : NULL;
        const struct finish *const turned_k = turns ? &head->finish_k : NULL;
        const struct norms *const normed_q = norms ? &g.norms_q : NULL, *const normed_k = norms ? &g.norms_k : NULL;
        const struct aligned of_dq[] = {{ds.q, g.k.v, m, layer->scale, turned_q, normed_q},
                                        {of_d, pk, 0, layer->scale, NULL, NULL}, {g.shared, dq.v, 0, 1, NULL, NULL},
                                        {g.norms_q.shared, dq.v, 0, 1, NULL, NULL},
                                        {common_q, g.norms_q.x.v, 0, 1, NULL, NULL}};
        const struct aligned of_dk[] = {{ds_t.q, g.q.v, n, layer->scale, turned_k, normed_k},
                                        {g.norms_k.shared, dk.v, 0, 1, NULL, NULL},
                                        {common_k, g.norms_k.x.v, 0, 1, NULL, NULL}};
        const size_t kinds_q = sizeof of_dq / sizeof *of_dq, kinds_k = sizeof of_dk / sizeof *of_dk;
        through(w, &g.x, &g.w_q, &dq, TENSOR_X, of_x, depth, TENSOR_W_Q, of_q, TENSOR_B_Q, i * d_k, of_dq,
                m == 0 ? 0 : norms ? kinds_q : kinds_q - 2);
        const struct later of_keys = {.input = g.s, .weights = g.w_k, .norms = g.norms_k, .of_input = of_s,
                                      .of_matrix = layer->tied ? of_q : of_k, .tensor = source,
                                      .matrix = layer->tied ? TENSOR_W_Q : TENSOR_W_K,
                                      .bias = layer->tied ? TENSOR_B_Q : TENSOR_B_K,
                                      .first = (layer->tied ? i : group) * d_k};
        through(w, &g.s, &g.w_k, &dk, source, of_s, depth, of_keys.matrix, of_keys.of_matrix, of_keys.bias,
                of_keys.first, of_dk, n == 0 ? 0 : norms ? kinds_k : 1);
        if (of_all) {
            const struct later of_queries = {.input = g.x, .weights = g.w_q, .norms = g.norms_q, .of_input = of_x,
                                             .of_matrix = of_q, .tensor = TENSOR_X, .matrix = TENSOR_W_Q,
                                             .bias = TENSOR_B_Q, .first = i * d_k};
            put_off(w, 0, i, &of_queries);
            put_off(w, 1, group, &of_keys);
        }
        if (of_all && i + 1 == h) {
            end_later(w, 0, h, depth);
            end_later(w, 1, h_kv, depth);
        }
        if (layer->identity)
            scatter(w, source, of_s, &dv);
        else
            through(w, &g.s, &g.w_v, &dv, source, of_s, depth, TENSOR_W_V,
                    projection_place(layer, in_kv, d_v, h_kv, group), TENSOR_B_V, group * d_v, NULL, 0);
        if (!layer->identity && w->bounded) {
            add_shared_values(w, weights_of(&g), &g.s, &g.dz, TENSOR_W_V,
                              projection_place(layer, in_kv, d_v, h_kv, group));
            add_shared_values(w, weights_of(&g), NULL, &g.dz, TENSOR_B_V, (struct place){group * d_v, 0, 1});
        }
    }
    struct quantity *all[] = {&ds, &dq, &dk, &dv, &ds_t, &a_t, &of_rows};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        drop(all[k]);
    free(of_d);
    free(pk);
    free(weights);
    free(common_q);
    free(common_k);
    forget(&g);
    return w->good;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void make_outputs(struct walk *w)
{
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (layer_has_gradient(w->layer, t))
            w->out[t] = make(w, inputs_count(w->layer, w->in, t), 1);
    w->out[TENSOR_Y] = make(w, inputs_count(w->layer, w->in, TENSOR_Y), 1);
}

static void add_bias_of_y(struct walk *w)
{
    const float *b_o = inputs_floats(w->in, TENSOR_B_O);
    struct quantity *y = &w->out[TENSOR_Y];
    const size_t columns = (size_t)w->layer->d_out;
    for (size_t i = 0; w->good && b_o != NULL && i < y->rows; i++) {
        const double of = b_o[i % columns];
        y->v[i] += of;
        if (w->bounded) {
            y->e[i] += gamma_of(y_steps(w->layer)) * fabs(of);
            y->size[i] += fabs(of);
        }
    }
}

/* pad_rows = skipped: padding rows of y are zero, whatever the convolution or the bias would give. */
static void clear_padding_of_y(struct walk *w)
{
    const size_t n = w->in->n, width = (size_t)w->layer->d_out;
    struct quantity *y = &w->out[TENSOR_Y];
    for (size_t b = 0; w->good && w->layer->pad_skipped && b < w->in->batch; b++)
        for (size_t i = (b * n + inputs_keys(w->in, b)) * width; i < (b + 1) * n * width; i++) {
            y->v[i] = 0;
            if (w->bounded)
                y->e[i] = y->q[i] = y->size[i] = 0;
        }
}

/* Hands over the results, as sums over tokens and heads are complete. */
static void hand_over(struct walk *w)
{
    const size_t tokens = w->in->batch * (w->in->n + w->in->m);
    const size_t features = (size_t)(w->layer->h * (2 * w->layer->d_k + w->layer->d_v));
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        struct quantity *out = &w->out[t];
        round_sum(out, t == TENSOR_Y ? y_steps(w->layer) : t == TENSOR_X || t == TENSOR_SOURCE ? features : tokens);
        for (size_t i = 0; out->q != NULL && i < out->rows; i++)
            out->q[i] = LAMBDA * sqrt(out->q[i]);
        w->gradients->of[t] = out->v;
        w->gradients->worst[t] = out->e;
        w->gradients->drawn[t] = out->q;
        free(out->size);
    }
}

bool gradients_compute(struct gradients *gradients, const struct layer *layer, const struct inputs *inputs,
                       const float *dy, bool bounded, struct diag *diag)
{
    struct inputs in = *inputs;
    in.training = true;
    struct walk w = {.layer = layer, .in = &in, .gradients = gradients, .dy = dy, .bounded = bounded, .good = true};
    struct reference reference = {0};
    *gradients = (struct gradients){0};
    make_outputs(&w);
    const bool good = w.good && reference_compute(&reference, layer, &in, false, observe, &w, diag);
    if (!w.good)
        diag_environment(diag, NULL, "out of memory");
    reference_free(&reference);
    add_bias_of_y(&w);
    clear_padding_of_y(&w);
    hand_over(&w);
    if (!good)
        gradients_free(gradients);
    return good;
}

void gradients_free(struct gradients *gradients)
{
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++) {
        free(gradients->of[t]);
        free(gradients->worst[t]);
        free(gradients->drawn[t]);
    }
    *gradients = (struct gradients){0};
}
