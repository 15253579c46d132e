/* SPDX-License-Identifier: MIT */
/* Errors of scores, weights, attn, lse and z: the equations are in bound.c. */
#include "propagation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "expressions.h"
#include "product.h"
#include "spec/score.h"
#include "terms.h"
#include "wide.h"

#define EXP_ERROR BOUND_EXP2
#define LN_2 0.6931471805599453
#define RANGE 128 /* beyond it a sum of weights might overflow, and the kernel uses the largest score for M */
#define FEW_COLUMNS 4 /* of a head's queries: each error moves all scores of a row by much */

/* out = a b^T with elements f(a), f(b) already in absolute_a and the rows of `b`. */
static void transposed_product(struct propagation *p, double *out, const double *b, size_t rows, size_t keys, size_t d)
{
    for (size_t j = 0; j < keys; j++)
        for (size_t c = 0; c < d; c++)
            p->absolute_b[c * keys + j] = b[j * d + c];
    product_add(out, keys, p->absolute_a, d, p->absolute_b, keys, rows, d, keys);
}

/* The statistical error of a sum of `count` roundings of random sign, except those of `alike` summands, in units of
 * LAMBDA u */
static double walk_of(size_t count, double alike)
{
    return sqrt((double)count + 1) + alike / LAMBDA;
}

/* For integer scores, the largest product of two scales, by which sums are multiplied */
static void score_scales(struct propagation *p, const struct reference_head *head, size_t rows, double c)
{
    const size_t d = (size_t)p->layer->d_k;
    const double levels = (double)layer_score_levels(p->layer, p->in->pairs);
    double most = 0;
    for (size_t at = 0; at < head->keys * d; at++) {
        const double k = fabs(head->k[at]) + p->k.worst[at];
        most = k <= FLT_MAX ? fmax(most, k) : most;
    }
    for (size_t r = 0; r < rows; r++) {
        p->q_reach[r] = 0;
        for (size_t at = r * d; at < (r + 1) * d; at++)
            p->q_reach[r] = fmax(p->q_reach[r], (c * fabs(head->q[at]) + p->q.worst[at]) / levels * (most / levels));
    }
}

/* Whether columns of a query or a key may share errors whose signs do not mix: with tied keys, numbers with errors meet
 * their own weights again, and of a row of whole numbers or of bf16 one alone may be off. */
static bool columns_share(const struct propagation *p, const struct reference_head *head, size_t rows)
{
    const struct operand *const of[] = {&p->x, &p->s};
    const size_t counts[] = {rows * (size_t)p->layer->d_in_q, (head->keys - head->cached) * (size_t)p->layer->d_in_kv};
    bool any = false;
    for (int side = 0; side < 2; side++)
        for (size_t at = 0; of[side]->squares != NULL && at < counts[side]; at++)
            any = any || of[side]->squares[at] > 0;
    return any && (p->layer->tied || layer_rounds_rows(p->plain)) && !p->folded.folds.scores;
}

/* t_size = sum |cQ||K|, t_worst = sum (|cQ| + e_q)(|K| + e_k), t_squares = sum (e_q K)^2 + (cQ e_k)^2; where columns
 * share errors (sum e_q |K| + |cQ| e_k)^2 */
void propagation_scores(struct propagation *p, const struct reference_head *head, size_t rows, double c)
{
    const size_t keys = head->keys, d = (size_t)p->layer->d_k;
    const bool shares = columns_share(p, head, rows);
    double *b = memory_get(keys * d, sizeof *b);
    memset(p->t_size, 0, rows * keys * sizeof *p->t_size);
    memset(p->t_worst, 0, rows * keys * sizeof *p->t_worst);
    memset(p->t_squares, 0, rows * keys * sizeof *p->t_squares);
    for (int sum = 0; sum < 4; sum++) {
        double *const out[] = {p->t_size, p->t_worst, p->t_squares, p->t_squares};
        for (size_t at = 0; at < rows * d; at++) {
            const double q = c * fabs(head->q[at]);
            const double f[] = {q, q + p->q.worst[at], p->q.drawn[at], q};
            p->absolute_a[at] = sum < 2 || shares ? f[sum] : square(f[sum]);
        }
        for (size_t at = 0; at < keys * d; at++) {
            const double k = fabs(head->k[at]);
            const double f[] = {k, k + p->k.worst[at], k, p->k.drawn[at]};
            b[at] = sum < 2 || shares ? f[sum] : square(f[sum]);
        }
        transposed_product(p, out[sum], b, rows, keys, d);
    }
    for (size_t at = 0; shares && at < rows * keys; at++)
        p->t_squares[at] = square(p->t_squares[at]);
    for (size_t r = 0; r < rows && layer_scales_cache(p->layer); r++) {
        p->q_reach[r] = 0;
        for (size_t at = r * d; at < (r + 1) * d; at++)
            p->q_reach[r] += 128 * (c * fabs(head->q[at]) + p->q.worst[at]);
    }
    if (inputs_round_scores(p->layer, p->in))
        score_scales(p, head, rows, c);
    free(b);
}

/* A row's softmax, for each key: log A, and d of both gates. Hidden keys are skipped. A sink is one more key, of value
 * 0. */
struct row {
    const unsigned char *visible;
    size_t keys;
    bool sink; /* the arrays have one more element, that of a sink */
    double *log_a, *d_worst, *d_drawn, *e_worst, *e_drawn;
    double *slope;   /* [keys] of T by the product, where errors of the query are common to all keys; */
    double *product; /* scale q k in T's unit, [keys] */
    double shorter;  /* error of a weight by a polynomial of low degree; 0: there is none */
    double vanishes; /* smaller weights may become 0 as a mask lifts others */
    bool open;      /* f32 may overflow on the way to the weights */
    bool unsure;    /* f32 may see other keys, or find numbers where the reference has none: nothing is promised */
    double alike;   /* keys with the weight of the previous one, to a rounding of the sum */
    size_t t;
    bool saturated; /* a weight's error is so large that errors no longer add up like independent ones: only the
                     * worst case applies */
};

static bool takes_part(const struct row *row, size_t j)
{
    return j < row->keys ? row->visible[j] : row->sink;
}

/* A score that attn shows, in natural units: e so far, and ln(2) times it, rounded twice. */
static void shown_errors(const struct propagation *p, const struct term_error *e, size_t at)
{
    const double rounded = U * fabs(e->value), shown = LN_2 * 3 * rounded + p->omega;
    p->bounds->attn_worst[at] = LN_2 * (e->worst + e->bent) + shown;
    p->bounds->attn_drawn[at] =
        LN_2 * (e->bent + sqrt(e->squares + square(LAMBDA * (U * e->rounded + rounded)))) + shown;
    p->bounds->attn_open[at] = e->open;
}

/* T through the terms up to the last one wanted; `shown_at`: the place where attn shows the scores, or NOT_SHOWN */
#define NOT_SHOWN SIZE_MAX
static struct term_error pair_error(const struct propagation *p, const struct reference_head *head,
                                    const struct row *row, size_t r, size_t j, enum score_name last, size_t shown_at)
{
    const size_t at = r * head->keys + j, d_k = (size_t)p->layer->d_k;
    const double dot = gamma_of(d_k + 4 + layer_scales_cache(p->layer)), root = sqrt((double)d_k);
    const double with_errors = p->t_worst[at], size = p->t_size[at];
    struct term_error e = {.value = LOG2_E * head->raw[at], .worst = with_errors - size + dot * with_errors,
                           .reach = (1 + dot) * with_errors, .slope = 1};
    e.squares = p->t_squares[at] + square(LAMBDA * U * (size + root * fmin(size, fabs(e.value))));
    e.open = !(e.reach <= FLT_MAX && p->q_reach[r] <= FLT_MAX);
    e.squares += square(e.value) * (square(p->q_common[r]) + square(p->k_common[j]));
    for (enum score_name term = 0; term <= last; term++) {
        if (score_has(p->layer, term))
            terms_error(p->layer, term, &e, head->operand[term] != NULL ? head->operand[term][at] : 0);
        if (term == SCORE_EXPRESSION)
            expressions_error(p->layer, p->in, reference_pair(p->layer, p->in, head->b, head->i, row->t, j), &e);
        if (shown_at != NOT_SHOWN && (term == reference_shown(p->layer) || term + 1 == SCORE_TERMS) &&
            term <= reference_shown(p->layer))
            shown_errors(p, &e, shown_at);
    }
    return e;
}

/* Whether f32 may see a key that the reference hides, or none of those that it sees; or may find a finite score where
 * the expression turns a finite one into a non-finite one. If f32 may hide one of several visible keys, its weight is
 * anything from 0 to 1 and Z still is in the hull of the values, if they are finite; without any of them Z is 0. */
static bool row_unsure(const struct propagation *p, const struct reference_head *head, const struct row *row, size_t r)
{
    const bool hides = score_has(p->layer, SCORE_HIDING);
    bool unsure = false, one, seen = false, remains = row->sink; /* a sink has the value 0 in the hull */
    for (size_t j = 0; j < head->keys && p->layer->visible != NULL; j++) {
        (void)expressions_visible(p->layer, p->in, reference_pair(p->layer, p->in, head->b, head->i, row->t, j), &one);
        unsure = unsure || one;
    }
    for (size_t j = 0; j < head->keys && p->layer->score != NULL; j++) {
        const size_t at = r * head->keys + j;
        const bool sees = row->visible[j], leaves = sees && isfinite(head->raw[at]) && !isfinite(head->scores[at]);
        const bool by_score = hides && !sees && reference_visible(p->layer, p->in, head->b, head->i, row->t, j);
        const bool spoils = hides && sees && p->v_open[j]; /* Z, but where the key is hidden */
        if (by_score || leaves || spoils || (sees && hides && !remains)) { /* NaN may hide or not */
            const struct term_error e = pair_error(p, head, row, r, j, SCORE_EXPRESSION, NOT_SHOWN);
            const bool sure = isfinite(e.worst) && !e.open && !p->q_open[r] && !p->k_open[j];
            seen = seen || sees;
            remains = remains || (sees && sure);
            unsure = unsure || (!sure && (by_score || leaves || spoils));
        }
    }
    return unsure || (hides && seen && !remains);
}

static void score_errors(const struct propagation *p, const struct reference_head *head, struct row *row, size_t r)
{
    const size_t keys = head->keys, first = r * keys, d_k = (size_t)p->layer->d_k;
    const size_t shown_row = (head->b * (size_t)p->layer->h + head->i) * p->shown_rows + r;
    const size_t shown_at = shown_row * inputs_columns(p->layer, p->in);
    double maximum = head->sink, minimum = row->sink ? head->sink : INFINITY, sum = 0;
    for (size_t j = 0; j < keys; j++)
        if (row->visible[j]) {
            maximum = fmax(maximum, head->scores[first + j]);
            minimum = fmin(minimum, head->scores[first + j]);
        }
    const double dropped = p->folded.folds.scores ? p->folded.dropped[r] : 0;
    const double of_reference = LOG2_E * (double)(d_k + p->folded.d_k + 8) * DBL_EPSILON * dropped;
    const double gap = fmin(RANGE, LOG2_E * (maximum - minimum));
    /* of a polynomial of low degree errors are no roundings: they nearly reach the largest one again and again */
    const bool shorter = layer_shortens_weights(p->layer) || inputs_round_scores(p->layer, p->in);
    const double of_weight = !shorter                               ? EXP_ERROR
                             : p->layer->precision == PRECISION_I16 ? BOUND_WEIGHT_I16
                                                                    : BOUND_WEIGHT_I8;
    const double range = LOG2_E * (maximum - minimum);
    const double rescalings = score_falls(p->layer) ? 2 * fmin(7, floor(range / score_lift(p->layer)))
                                                    : fmin(4, floor(range / score_lift(p->layer)));
    for (size_t j = 0; j < keys; j++)
        if (row->visible[j])
            sum += exp(head->scores[first + j] - maximum);
    sum += row->sink ? exp(head->sink - maximum) : 0;
    row->shorter = shorter ? of_weight : 0;
    double last = -1;
    for (size_t j = 0; j < keys; j++)
        if (row->visible[j]) {
            const double weight = exp(head->scores[first + j] - maximum);
            row->alike += last >= 0 && fabs(weight - last) <= U * sum ? fmin(1, weight / (U * sum)) : 0;
            last = weight;
        }
    row->vanishes = score_lifts(p->layer) && LOG2_E * (maximum - minimum) >= 126 ? BOUND_RESCALED_AWAY : 0;
    row->open = !isfinite(maximum) || isnan(sum) || p->q_open[r];
    for (size_t j = 0; j < keys; j++) {
        const size_t at = first + j;
        if (!row->visible[j])
            continue;
        const double t = LOG2_E * head->scores[at], below = LOG2_E * maximum - t + gap;
        const struct term_error e = pair_error(p, head, row, r, j, SCORE_TERMS - 1,
                                               head->shown != NULL ? shown_at + j : NOT_SHOWN);
        const double e_worst = e.worst + of_reference + 2 * U * (fabs(t) + below);
        const double e_drawn = e.squares + square(LAMBDA * U * (e.rounded + fabs(t) + below));
        row->slope[j] = e.slope;
        row->product[j] = LOG2_E * head->raw[at];
        row->log_a[j] = head->scores[at] - maximum - log(sum);
        row->d_worst[j] = LN_2 * e_worst + rescalings * (EXP_ERROR + 2 * U) + of_weight + 2 * U;
        row->d_drawn[j] = LN_2 * of_reference + row->shorter +
                          sqrt(square(LN_2) * e_drawn + (rescalings + !shorter) * square(EXP_ERROR));
        row->open = row->open || p->k_open[j] || e.open;
    }
    for (size_t j = 0; j < keys && row->unsure && p->layer->scores == SCORES_BIASED; j++)
        promise_nothing(p->bounds->attn_worst, p->bounds->attn_drawn, p->bounds->attn_open, shown_at + j);
    if (row->sink) { /* rounded when packed */
        const double t = LOG2_E * head->sink, rounded = U * (3 * fabs(t) + 2 * (LOG2_E * maximum - t + gap));
        row->log_a[keys] = head->sink - maximum - log(sum);
        row->d_worst[keys] = LN_2 * rounded + (rescalings + 1) * (EXP_ERROR + 2 * U);
        row->open = row->open || terms_bend(p->layer, t); /* beside a mask_add that is */
        row->d_drawn[keys] = sqrt(square(LN_2 * LAMBDA * rounded) + (rescalings + 1) * square(EXP_ERROR));
    }
}

/* log of sum exp(log A + sign d_worst), without overflow or underflow of double on the way */
static double log_sum(const struct row *row, double sign)
{
    double max = -INFINITY, sum = 0;
    for (size_t j = 0; j < row->keys + row->sink; j++)
        if (takes_part(row, j))
            max = fmax(max, row->log_a[j] + sign * row->d_worst[j]);
    for (size_t j = 0; j < row->keys + row->sink; j++)
        if (takes_part(row, j))
            sum += exp(row->log_a[j] + sign * row->d_worst[j] - max);
    return sum == 0 ? -INFINITY : max + log(sum);
}

/* e_a of both gates; the statistical one without the row's common factor, which V - Z cancels. If f32 overflows a
 * weight may be anything from 0 to 1. */
static void weight_errors(struct row *row)
{
    const double low = log_sum(row, -1), high = log_sum(row, 1);
    for (size_t j = 0; j < row->keys + row->sink; j++) {
        row->e_worst[j] = row->e_drawn[j] = 0;
        if (!takes_part(row, j))
            continue;
        const double a = exp(row->log_a[j]);
        const double lost = BOUND_TINY + fmin(a, row->vanishes);
        const double up = row->open ? 1 : exp(row->log_a[j] + row->d_worst[j] - low);
        const double down = row->open ? 0 : exp(row->log_a[j] - row->d_worst[j] - high);
        row->e_worst[j] = fmax((up <= 1 ? up : 1) - a, a - (down >= 0 ? down : 0)) + lost;
        row->e_drawn[j] = exp(row->log_a[j] + row->d_drawn[j]) - a + lost;
        row->saturated = row->saturated || !(row->e_drawn[j] <= BOUND_SATURATED);
    }
}

/* Sums and maxima over the visible keys, in each column of the values */
struct columns {
    double *worst, *squares, *size; /* sum e_a |V - Z| + (A + e_a) e_v, of both gates; sum A |V| */
    double *apart;                  /* sum A |V - Z| */
    double *reach;                  /* sum (A + e_a)(|V| + e_v) */
    double *far, *high;             /* the largest |V - Z| + e_v and |V| + e_v, for the hull */
};

/* One visible key's share of e_z: equations in bound.c */
WIDE static void add_key(const struct columns *of, double a, double e_a, double e_drawn, const double *restrict v,
                         const double *restrict v_worst, const double *restrict v_drawn, const double *restrict z,
                         size_t d_v)
{
    const double near = a + e_a, walk = e_drawn * e_drawn, a_squared = a * a;
    double *restrict worst = of->worst, *restrict squares = of->squares, *restrict size = of->size;
    double *restrict reach = of->reach, *restrict far = of->far, *restrict high = of->high, *restrict apart = of->apart;
    for (size_t c = 0; c < d_v; c++) {
        const double off = v[c] - z[c], distance = fabs(off) + v_worst[c], length = fabs(v[c]) + v_worst[c];
        worst[c] += e_a * fabs(off) + near * v_worst[c];
        squares[c] += walk * off * off + a_squared * v_drawn[c] * v_drawn[c];
        size[c] += a * fabs(v[c]);
        apart[c] += a * fabs(off);
        reach[c] += near * length;
        far[c] = distance > far[c] ? distance : far[c];
        high[c] = length > high[c] ? length : high[c];
    }
}

/* squares += (ln(2) error sum_j A_j slope_j f_j (V_j - Z))^2, f_j = factor[j step] what key j's score has of the error.
 * `sums`: [d_v] of work */
WIDE static void add_common(double *restrict squares, double *restrict sums, double error,
                            const struct reference_head *head, const struct row *row, size_t r,
                            const double *factor, size_t step, size_t d_v)
{
    const double *z = head->z + r * d_v;
    memset(sums, 0, d_v * sizeof *sums);
    for (size_t j = 0; j < row->keys; j++) {
        const double by = row->visible[j] ? head->weights[r * row->keys + j] * row->slope[j] * factor[j * step] : 0;
        const double *v = head->v + j * d_v;
        for (size_t c = 0; by != 0 && c < d_v; c++)
            sums[c] += by * (v[c] - z[c]);
    }
    for (size_t c = 0; c < d_v; c++)
        squares[c] += square(LN_2 * error * sums[c]);
}

/* What errors of the query, which all keys share, add to the squares of z: those of few columns, and relative ones of
 * all columns. Sums over many columns have as many random signs; weight_errors() counts them for each key. */
static void common_errors(const struct propagation *p, const struct reference_head *head, const struct row *row,
                          size_t r, double *squares, double *sums)
{
    const size_t d_k = (size_t)p->layer->d_k, d_v = (size_t)p->layer->d_v;
    for (size_t d = 0; d_k <= FEW_COLUMNS && d < d_k; d++)
        add_common(squares, sums, p->q.drawn[r * d_k + d], head, row, r, head->k + d, d_k, d_v);
    if (p->q_common[r] > 0)
        add_common(squares, sums, p->q_common[r], head, row, r, row->product, 1, d_v);
}

/* Whether f32 may overflow in some visible key's V, column c. */
static bool values_overflow(const struct propagation *p, const struct row *row, size_t c)
{
    const size_t d_v = (size_t)p->layer->d_v;
    const double reach = (1 + gamma_of((size_t)p->layer->d_in_kv + 2 + block_more_roundings(p->plain))) *
                         inputs_spread(p->in, TENSOR_W_V);
    for (size_t j = 0; j < row->keys; j++)
        if (row->visible[j] && p->v_open[j] && overflows(p->v_size + j * d_v + c, reach, 1))
            return true;
    return false;
}

/* What rounding weights to whole numbers adds to column c of z: half a unit of each, which is the largest weight times
 * the scale of its value, by its levels, times the whole number of the value; and not much more than the weight. Blocks
 * of keys have units of their own, which are no larger. Weights below 2^-114 of the largest count for nothing. The
 * largest of a row is a whole number of units, if errors cannot make another one the largest: rows of one key, and
 * those whose other weights vanish, show scales within their own roundings. Errors of weights that have many units are
 * spread evenly over one; of weights of a unit or two they are not. */
static void rounded_weights_error(const struct propagation *p, const struct reference_head *head, const struct row *row,
                                  size_t r, size_t c, double *worst, double *drawn)
{
    const size_t d_v = (size_t)p->layer->d_v;
    double unit = 0, next = 0, halves = 0, squares = 0, keys = 0;
    size_t largest = row->keys;
    for (size_t j = 0; j < row->keys; j++)
        if (row->visible[j]) {
            const double most = fmin(1, head->weights[r * row->keys + j] + row->e_worst[j]) * p->v_unit[j];
            next = fmax(next, most > unit ? unit : most);
            largest = most > unit ? j : largest;
            unit = fmax(unit, most);
            keys++;
        }
    if (keys > 1 && largest < row->keys &&
        !((head->weights[r * row->keys + largest] - row->e_worst[largest]) * p->v_unit_least[largest] > next))
        largest = row->keys; /* unknown */
    unit *= 0.503 / (double)layer_weight_levels(p->layer, p->in->pairs);
    for (size_t j = 0; j < row->keys; j++)
        if (row->visible[j] && j != largest) {
            const double weight = 1.01 * (head->weights[r * row->keys + j] + row->e_worst[j]) * p->v_unit[j];
            const double half = fmin(unit, weight) * (fabs(head->v[j * d_v + c]) / p->v_unit[j] + 1);
            halves += half;
            squares += square(half) * (weight < 4 * unit ? 3 : 1);
        }
    *worst += halves + 0x1p-113 * keys;
    *drawn += LAMBDA * (sqrt(squares) + (keys > 0 ? row->alike / keys : 0) * halves) + 0x1p-113 * keys;
}

static void value_errors(struct propagation *p, const struct reference_head *head, const struct row *row, size_t r,
                         double *work)
{
    const size_t d_v = (size_t)p->layer->d_v, keys = row->keys;
    const bool scaled = layer_scales_cache(p->layer); /* a weight times a scale, which may underflow, times 127 */
    const bool whole = head->exact_v != NULL; /* products and their unit are rounded as well */
    const double rounding = 2 * gamma_of(keys + row->sink + 8 + scaled + (whole ? 4 : 0));
    const double root = walk_of(keys + row->sink, row->alike);
    const double *none = work + 5 * d_v, *z = head->z + r * d_v;
    double *worst = p->z.worst + r * d_v, *drawn = p->z.drawn + r * d_v, *open = p->z_open + r * d_v;
    const struct columns of = {.worst = worst, .squares = drawn, .size = work, .reach = work + d_v,
                               .far = work + 2 * d_v, .high = work + 3 * d_v, .apart = work + 4 * d_v};
    memset(worst, 0, d_v * sizeof *worst);
    memset(drawn, 0, d_v * sizeof *drawn);
    memset(open, 0, d_v * sizeof *open);
    memset(work, 0, 6 * d_v * sizeof *work);
    bool any = false;
    for (size_t j = 0; j < keys; j++)
        if (row->visible[j]) {
            add_key(&of, head->weights[r * keys + j], row->e_worst[j], row->e_drawn[j], head->v + j * d_v,
                    p->v.worst + j * d_v, p->v.drawn + j * d_v, z, d_v);
            any = true;
        }
    if (any && row->sink)
        add_key(&of, exp(row->log_a[keys]), row->e_worst[keys], row->e_drawn[keys], none, none, none, z, d_v);
    if (any && !row->open && !row->saturated)
        common_errors(p, head, row, r, drawn, work + 6 * d_v);
    const bool indicator = p->folded.indicator && !row->sink; /* not a sum of weights, but exactly 1 or 0 */
    for (size_t c = 0; any && c < d_v - indicator; c++) {
        const double reach = fmin(of.reach[c], of.high[c]), denormal = (double)keys * p->omega * (scaled ? 128 : 1);
        open[c] = row->open || !((double)keys * reach <= FLT_MAX) || values_overflow(p, row, c);
        worst[c] = fmin(worst[c], of.far[c]) + rounding * reach + denormal;
        drawn[c] = sqrt(drawn[c]) + LAMBDA * U * (of.size[c] + 2 * root * fabs(z[c])) + denormal +
                   2 * row->shorter * of.apart[c];
        if (whole)
            rounded_weights_error(p, head, row, r, c, &worst[c], &drawn[c]);
        if (row->saturated || open[c] != 0)
            drawn[c] = INFINITY;
    }
    if (indicator)
        worst[d_v - 1] = drawn[d_v - 1] = 0;
    for (size_t c = 0; row->unsure && c < d_v; c++)
        promise_nothing(worst, drawn, open, c);
}

/* Errors of attn: e_a and the rounding of the sum and the division; none for hidden keys. Those that come from the
 * query move a weight and the sum together. */
static void attn_errors(struct propagation *p, const struct reference *reference, const struct reference_head *head,
                        const struct row *row, size_t r)
{
    const size_t m = inputs_columns(p->layer, p->in), rows = reference->z_rows.count;
    const size_t at = ((head->b * (size_t)p->layer->h + head->i) * rows + r) * m;
    const double rounding = gamma_of(row->keys + 8), root = walk_of(row->keys, row->alike);
    double of_sum = LAMBDA * U * (root + 1);
    for (size_t j = 0; j < row->keys + row->sink; j++)
        if (takes_part(row, j))
            of_sum += row->e_drawn[j];
    for (size_t j = 0; j < row->keys; j++)
        if (row->visible[j]) {
            const double a = head->weights[r * row->keys + j];
            p->bounds->attn_worst[at + j] = row->e_worst[j] + rounding * (a + row->e_worst[j]);
            p->bounds->attn_drawn[at + j] = row->e_drawn[j] + a * of_sum;
            p->bounds->attn_open[at + j] = row->open;
            if (row->saturated || row->open)
                p->bounds->attn_drawn[at + j] = INFINITY;
        }
    for (size_t j = 0; row->unsure && j < row->keys; j++)
        promise_nothing(p->bounds->attn_worst, p->bounds->attn_drawn, p->bounds->attn_open, at + j);
}

/* Errors of lse: each summand's d, the rounding of their sum, and that of the result. The sum is at least one summand;
 * one more d is for what all of them may have in common. */
static void lse_errors(struct propagation *p, const struct reference *reference, const struct reference_head *head,
                       const struct row *row, size_t r)
{
    const size_t at = (head->b * (size_t)p->layer->h + head->i) * reference->z_rows.count + r;
    const double low = log_sum(row, -1), high = log_sum(row, 1), root = walk_of(row->keys + row->sink, row->alike);
    double drawn = 0;
    for (size_t j = 0; j < row->keys + row->sink; j++)
        if (takes_part(row, j))
            drawn += exp(row->log_a[j]) * row->d_drawn[j];
    const double last = U * fabs(head->lse[r]) + BOUND_LOG;
    p->bounds->lse_worst[at] = row->open ? INFINITY : fmax(high, -low) + gamma_of(row->keys + 8) + last;
    p->bounds->lse_drawn[at] = drawn + LAMBDA * U * (root + 1) + last;
    p->bounds->lse_open[at] = row->open;
    if (row->saturated || row->open)
        p->bounds->lse_drawn[at] = INFINITY;
    if (row->unsure)
        promise_nothing(p->bounds->lse_worst, p->bounds->lse_drawn, p->bounds->lse_open, at);
}

void propagation_attention(struct propagation *p, const struct reference *reference,
                           const struct reference_head *head)
{
    const size_t keys = head->keys, rows = reference->z_rows.count;
    const size_t each = keys + p->layer->sink;
    double *work = memory_get(7 * each + 7 * (size_t)p->layer->d_v, sizeof *work);
    p->shown_rows = rows;
    for (size_t r = 0; r < rows; r++) {
        struct row row = {.visible = head->visible + r * keys, .keys = keys, .sink = p->layer->sink, .log_a = work,
                          .d_worst = work + each, .d_drawn = work + 2 * each, .e_worst = work + 3 * each,
                          .e_drawn = work + 4 * each, .slope = work + 5 * each, .product = work + 6 * each};
        row.t = reference->z_rows.row[r];
        row.unsure = row_unsure(p, head, &row, r);
        score_errors(p, head, &row, r);
        weight_errors(&row);
        value_errors(p, head, &row, r, work + 7 * each);
        if (reference->attn != NULL && head->shown == NULL)
            attn_errors(p, reference, head, &row, r);
        if (reference->lse != NULL)
            lse_errors(p, reference, head, &row, r);
    }
    free(work);
}
