/* SPDX-License-Identifier: MIT */
/* Gradients of L = sum dy y, one sequence and head at a time. With A and Z as in reference.c:
 *
 *   dZ = dy W_O^T (conv: dZ[u] = sum_r dy[u - r + pad] W_O[r]^T)        dW_O = Z^T dy    db_O = sum_t dy
 *   dP = B dZ V^T    D[t] = sum_c dZ[t][c] Z[t][c]    dS = A (dP - D)     over the keys that are seen, else 0
 *   dQ = scale dS K    dK = scale dS^T Q    dV = (A B)^T dZ               B: what dropout multiplies weights by
 *   dx = dQ W_Q^T (self: + dK W_K^T + dV W_V^T)    dW_Q = x^T dQ    db_Q = sum_t dQ    likewise K and V
 *
 * What is hidden is not multiplied: 0 times NaN counts as 0 wherever a factor is exactly 0, as it is for rows and keys
 * that see and are seen by nothing.
 *
 * Errors of a kernel in f32 that rounds to nearest, names as in bound.c. Every quantity has a value v, an error e for
 * any data, and the variance q of the error of drawn data. A product of K steps, in any order, with or without FMA:
 *
 *   e = (1 + gamma_K) (|a| + e_a)(|b| + e_b) - |a||b|
 *   q = a^2 q_b + q_a b^2 + (u (sum |a||b| + sqrt(K) |sum a b|))^2
 *
 * Weights come back as A' = 2^(T - M) / l, T a score, M and l what forward kept of the row. T has the bits that it had
 * there, so that A' lies in [0, 1] but for roundings. Relative to A it is off by e^d - 1 at most,
 *
 *   d = e_t + e_l + EXP + 4 u    e_l = max over the row of (e_t + EXP + 2 u) + gamma_{m+8}
 *
 * Errors of different elements count as independent, but for what they have in common. All keys of a row share that
 * of D, which reaches dQ as scale sum_j A_j K_j times itself, and that of l, as dQ times itself. That of one dS
 * reaches all columns of dQ, along K, and of dK, along Q: dx has it times K W_Q^T, not as a sum of squares. That of dZ
 * reaches dV of all keys, so that dW_V = (A S)^T dZ and db_V have it times their weighted sums. Where a score may be
 * off by more than SATURATED (keys at -1e9, say), the weights of its row may be anything, and what they are off by
 * has one cause: it counts m d_k d_v times, as each sum on its way may add it up (Cauchy and Schwarz). A number of
 * rel_bias has the sums of a row's dS over its keys, and so what D and l are off by times the sums of A and of dS. The
 * sink is one more key, whose score is a number and whose value is 0: dsink = - sum_t A_sink D.
 *
 * A softcap stands between: dS is that of what it makes of a score, and what goes on to Q and K is G dS, with
 * G = 1 - tanh^2. G comes from the capped score, off by its error / c, call that x: by 2 |tanh| x + x^2. The second
 * gate is LAMBDA times the root of q; over random layers the largest error is below half of it. It is a gate for
 * drawn data, no bound.
 */
#include "gradient.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/relative.h"
#include "../../gen/score.h"
#include "bound.h"
#include "finish_error.h"
#include "product.h"

#define U BOUND_U
#define TINY 0x1p-100
#define SATURATED 0.1
#define RESCALED_AWAY 0x1p-62 /* a weight of up to 2^64, times a 2^(old M - M) that underflows */
#define LAMBDA (2 * BOUND_LAMBDA) /* sums of sums: twice what one product has */

/* A matrix with its errors. `size` is the sum of |a||b| that its rounding is reckoned from. */
struct quantity {
    size_t rows, columns;
    double *v, *e, *q, *size; /* the last three NULL: no bounds are asked for */
};

/* What the observer of a head works on. */
struct walk {
    const struct layer *layer;
    const struct inputs *in;
    struct gradients *gradients;
    const float *dy;
    bool bounded, good;
    struct quantity out[TENSOR_COUNT]; /* [elements][1], in the contract's order of heads: see scatter() */
};

static double gamma_of(size_t k)
{
    const double ku = (double)k * U;
    return ku < 1 ? ku / (1 - ku) : INFINITY;
}

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

/* Rows of a matrix, which it shares. */
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

/* out += a b, where a factor that is 0 makes its product 0 */
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

/* What infinity is multiplied by may be 0: then nothing is known of the sum. */
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

/* out += a b; `steps`: of the whole reduction that this is a part of */
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

/* The roundings of a sum of so many steps, once it is whole */
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

/* += a number of every row */
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

/* A matrix [rows][columns] of `count` elements before it, of which this head has columns from `first` on, or, where it
 * has rows of its own, rows from `row` on. */
static struct place matrix_place(const struct layer *layer, size_t before, size_t rows, size_t columns, size_t row,
                                 size_t first)
{
    if (layer->out_in)
        return (struct place){before + first * rows + row, 1, rows};
    return (struct place){before + row * columns + first, columns, 1};
}

/* Head i's of W_Q, W_K, W_V, [in][heads d] or [heads][in][d]. */
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

/* What is known of a head before its gradients. */
struct known {
    struct quantity x, s, w_q, w_k, w_v; /* exact; no w_v under identity */
    struct quantity q, k, v, a, z, dz;
    struct quantity kept; /* a times what dropout multiplies it by; empty: there is none */
    struct quantity slope; /* of the softcap at each score; empty: there is none */
    struct quantity sunk;  /* [rows][1]: the sink's weight; empty: there is no sink */
    double *shared; /* [rows]: the variance of what all weights of a row are off by */
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

static void weigh(struct walk *w, struct known *g, const struct reference_head *head)
{
    const size_t n = g->a.rows, m = g->a.columns;
    const double scale = w->layer->scale;
    const double cap = w->layer->number[SCORE_SOFTCAP];
    memcpy(g->a.v, head->weights, n * m * sizeof *g->a.v);
    if (cap > 0)
        g->slope = make(w, n, m);
    if (w->layer->sink)
        g->sunk = make(w, n, 1);
    for (size_t t = 0; w->good && w->layer->sink && t < n; t++)
        g->sunk.v[t] = exp(head->sink - head->lse[t]);
    for (size_t at = 0; w->good && g->slope.v != NULL && at < n * m; at++)
        g->slope.v[at] = cap_slope(w, head->raw[at]);
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
                cap_score(w, &s, &g->slope, row + j, head->raw[row + j]);
            const double before = cap > 0 ? cap * tanh(head->raw[row + j] / cap) : head->raw[row + j];
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

/* What stands between a projection and the scores: its values, and what errors become there. */
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
    struct finish_error error = {.layer = w->layer, .of = of, .factor = 1, .omega = TINY, .lambda = 1, .depth = depth,
                                 .worst = m->e, .drawn = m->q, .common = common, .open = open};
    for (size_t i = 0; i < count; i++)
        m->q[i] = sqrt(m->q[i]);
    w->good = w->good && open != NULL && finish_errors(&error);
    for (size_t i = 0; i < count; i++)
        m->q[i] *= m->q[i];
    free(common);
    free(open);
}

/* What was turned, turned back: the columns of one row. */
static void turn_back(const struct layer *layer, const struct turn *turns, double *row)
{
    const size_t pairs = (size_t)layer->rope.dims / 2;
    for (size_t c = 0; c < pairs; c++) {
        const bool half = layer->rope.kind == ROPE_HALF;
        double *first = row + (half ? c : 2 * c), *second = row + (half ? c + pairs : 2 * c + 1);
        const double a = *first, b = *second;
        *first = a * turns[c].cosine + b * turns[c].sine;
        *second = b * turns[c].cosine - a * turns[c].sine;
    }
}

/* Rows of a gradient, likewise; cosines and sines are rounded once. */
static void turn_gradient(struct walk *w, struct quantity *m, const struct finish *of)
{
    const struct layer *layer = w->layer;
    const size_t pairs = (size_t)layer->rope.dims / 2;
    for (size_t r = 0; w->good && of->turns != NULL && r < m->rows; r++) {
        const struct turn *turns = of->turns + r * pairs;
        turn_back(layer, turns, m->v + r * m->columns);
        for (size_t c = 0; w->bounded && c < pairs; c++) {
            const bool half = layer->rope.kind == ROPE_HALF;
            const size_t row = r * m->columns, at[] = {row + (half ? c : 2 * c), row + (half ? c + pairs : 2 * c + 1)};
            const double cosine = fabs(turns[c].cosine), sine = fabs(turns[c].sine);
            const double size[] = {fabs(m->v[at[0]]), fabs(m->v[at[1]])}; /* the larger one is near the root of both */
            const double both = size[0] + size[1];
            const double e[] = {m->e[at[0]], m->e[at[1]]}, q[] = {m->q[at[0]], m->q[at[1]]};
            for (int k = 0; k < 2; k++) {
                m->e[at[k]] = (1 + 4 * U) * (cosine * e[k] + sine * e[1 - k]) + 6 * U * both + TINY;
                m->q[at[k]] = cosine * cosine * q[k] + sine * sine * q[1 - k] + 4 * U * U * both * both;
            }
        }
    }
}

/* a times exact factors, of which the kernel has f32s */
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

/* Weights as forward has them: where terms lift scores, what went before them may be scaled away (bound.c). */
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

/* What values are multiplied by. */
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
    free(g->shared);
}

/* Columns of this sequence's dy that the head's z has a share in. */
static struct quantity given(struct walk *w, size_t b, size_t first, size_t columns)
{
    const size_t n = w->in->n, width = (size_t)w->layer->d_out;
    struct quantity dy = make(w, n, columns);
    const size_t rows = w->layer->pad_skipped ? inputs_keys(w->in, b) : n; /* those of padding are zero: y's are */
    for (size_t r = 0; w->good && r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            dy.v[r * columns + c] = w->dy[(b * n + r) * width + first + c];
    return dy;
}

/* What is added up in one number of y. */
static size_t y_steps(const struct layer *layer)
{
    const int64_t taps = layer->w_o == W_O_CONV ? layer->conv_width : layer->h;
    return (size_t)(layer->w_o == W_O_NONE ? 1 : taps * layer->d_v + 2);
}

/* y, dZ and dW_O of rows t of y and u of z, t ... and u ... one after the other; of_y: y's first row */
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
    const size_t limit = pads && head->keys < n ? head->keys : n; /* rows of z that are not zero by definition */
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
                /* the square of a's error too: where weights may be anything, it is none of the first order */
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

/* drel_bias: sums of dS by distances; A: the weights. An element takes part in at most n + batch (n + m) additions. */
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

/* What a softcap leaves of dS, and of the weights that D's errors come with */
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

/* What all weights of a row are off by together, as dQ sees it: pk = A K. */
static void add_shared(const struct known *g, const double *of_d, const double *pk, double scale, struct quantity *dq)
{
    for (size_t i = 0; dq->q != NULL && i < dq->rows * dq->columns; i++) {
        const size_t t = i / dq->columns;
        dq->q[i] += of_d[t] * scale * scale * pk[i] * pk[i] + g->shared[t] * dq->v[i] * dq->v[i];
    }
}

/* Errors that all columns of some rows [rows][d] share: variance[row][k], each along row k of [inner][d]; or, inner
 * being 0, variance[row] along the row itself. */
struct aligned {
    const double *variance, *along;
    size_t inner;
    double factor; /* of `along` */
    const struct finish *finish; /* has turned the rows that the gradients are of; NULL: it did not */
};

/* What such errors add behind `back` [d][columns], beyond what they would if those of the d columns were independent,
 * as which they are in di already. */
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

/* The same where each row is turned back, and what its columns share with it. */
static void add_turned(struct walk *w, struct quantity *di, const struct quantity *back, const struct aligned *of)
{
    const size_t d = back->rows, pairs = (size_t)w->layer->rope.dims / 2;
    double *along = zeros(of->inner * d, &w->good);
    for (size_t r = 0; w->good && r < di->rows; r++) {
        struct quantity row = part_of(di, r, 1);
        memcpy(along, of->along, of->inner * d * sizeof *along);
        for (size_t k = 0; k < of->inner; k++)
            turn_back(w->layer, of->finish->turns + r * pairs, along + k * d);
        const struct aligned turned = {of->variance + r * of->inner, along, of->inner, of->factor, NULL};
        add_aligned(w, &row, back, &turned);
    }
    free(along);
}

/* A gradient of rows on their way through a projection: d(input) += dp W^T, dW += input^T dp, db += sum dp. The rows
 * have `count` kinds of errors that all their columns share. */
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
            (aligned[i].finish != NULL ? add_turned : add_aligned)(w, &di, &back, &aligned[i]);
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

/* What dW_V and db_V have of the errors of dZ, which all keys share: a, weights, and s as in dV = a^T dZ,
 * dW_V = s^T dV. Without s the columns are summed up. */
static void add_shared_values(struct walk *w, const struct quantity *a, const struct quantity *s,
                              const struct quantity *dz, enum layer_tensor tensor, struct place place)
{
    const size_t n = a->rows, m = a->columns, in = s != NULL ? s->columns : 1, d_v = dz->columns;
    struct quantity sum = make(w, in, d_v);
    double *seen = zeros(n * in, &w->good), *seen_t;
    for (size_t t = 0; w->good && t < n; t++)
        for (size_t j = 0; j < m; j++)
            for (size_t r = 0; a->v[t * m + j] != 0 && r < in; r++)
                seen[t * in + r] += a->v[t * m + j] * (s != NULL ? s->v[j * in + r] : 1);
    for (size_t i = 0; w->good && i < n * in; i++)
        seen[i] *= seen[i];
    seen_t = turned(seen, n, in, &w->good);
    if (w->good)
        add_product(sum.q, seen_t, dz->q, in, n, d_v);
    scatter(w, tensor, place, &sum);
    drop(&sum);
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
            turn_back(layer, head->finish_q.turns + t * (size_t)layer->rope.dims / 2, pk + t * d_k);
    }
    if (w->good) {
        const enum layer_tensor source = inputs_source(layer);
        const struct place of_x = {b * n * d_model + (layer->split ? i * in_q : 0), d_model, 1};
        const struct place of_s = {b * w->in->m * d_source + (layer->split ? i * in_kv : 0), d_source, 1};
        const size_t depth = h * (2 * d_k + d_v) + 4;
        const struct place of_q = projection_place(layer, in_q, d_k, h, i);
        const bool turns = head->finish_q.turns != NULL;
        const struct aligned of_dq[] = {{ds.q, g.k.v, m, layer->scale, turns ? &head->finish_q : NULL},
                                        {of_d, pk, 0, layer->scale, NULL}, {g.shared, dq.v, 0, 1, NULL}};
        const struct aligned of_dk = {ds_t.q, g.q.v, n, layer->scale, turns ? &head->finish_k : NULL};
        through(w, &g.x, &g.w_q, &dq, TENSOR_X, of_x, depth, TENSOR_W_Q, of_q, TENSOR_B_Q, i * d_k, of_dq,
                m > 0 ? sizeof of_dq / sizeof *of_dq : 0);
        through(w, &g.s, &g.w_k, &dk, source, of_s, depth, layer->tied ? TENSOR_W_Q : TENSOR_W_K,
                layer->tied ? of_q : projection_place(layer, in_kv, d_k, h_kv, group),
                layer->tied ? TENSOR_B_Q : TENSOR_B_K, (layer->tied ? i : group) * d_k, &of_dk, n > 0 ? 1 : 0);
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

/* pad_rows = skipped: rows of padding of y are zero, whatever the convolution or the bias would make of them. */
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

/* Sums over tokens, and over heads, are whole now. */
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
