/* SPDX-License-Identifier: MIT */
/* Errors of scores, weights, attn, lse and z, the weighted sums: the equations are in docs/bound.md. */
#include "propagation.h"

#include <math.h>
#include <string.h>

#include "bound.h"
#include "expressions.h"
#include "product.h"
#include "spec/score.h"
#include "terms.h"
#include "vectors.h"
#include "wide.h"

#define EXP_ERROR BOUND_EXP2
#define LN_2 0.6931471805599453
#define RANGE 128 /* beyond it a sum of weights might overflow, and the kernel uses the largest score for M */

/* out = a b^T with elements f(a), f(b) already in absolute_a and the rows of `b`. */
static void transposed_product(struct propagation *p, double *out, const double *b, size_t rows, size_t keys, size_t d)
{
    for (size_t j = 0; j < keys; j++)
        for (size_t c = 0; c < d; c++)
            p->absolute_b[c * keys + j] = b[j * d + c];
    product_add(out, keys, p->absolute_a, d, p->absolute_b, keys, rows, d, keys);
}

/* For integer scores, the largest product of two scales, by which sums are multiplied */
static void score_scales(struct propagation *p, const struct reference_head *head, size_t rows, double c)
{
    const size_t d = (size_t)p->layer->d_k;
    const double levels = (double)layer_score_levels(p->layer, p->in->pairs);
    double most = 0;
    for (size_t at = 0; at < head->keys * d; at++) {
        const double k = fabs(head->k[at]) + p->k[at];
        most = k <= FLT_MAX ? fmax(most, k) : most;
    }
    for (size_t r = 0; r < rows; r++) {
        p->q_reach[r] = 0;
        for (size_t at = r * d; at < (r + 1) * d; at++)
            p->q_reach[r] = fmax(p->q_reach[r], (c * fabs(head->q[at]) + p->q[at]) / levels * (most / levels));
    }
}

/* t_size = sum |cQ||K|, t_worst = sum (|cQ| + e_q)(|K| + e_k), both with what vectors of distances add */
void propagation_scores(struct propagation *p, const struct reference_head *head, const struct rows *of, double c)
{
    const size_t rows = of->count, keys = head->keys, d = (size_t)p->layer->d_k;
    HEAP double *b = memory_get(keys * d, sizeof *b);
    for (int errors = 0; errors < 2; errors++) {
        double *const out = errors ? p->t_worst : p->t_size;
        memset(out, 0, rows * keys * sizeof *out);
        for (size_t at = 0; at < rows * d; at++)
            p->absolute_a[at] = c * fabs(head->q[at]) + (errors ? p->q[at] : 0);
        for (size_t at = 0; at < keys * d; at++)
            b[at] = fabs(head->k[at]) + (errors ? p->k[at] : 0);
        transposed_product(p, out, b, rows, keys, d);
        for (size_t at = 0; layer_has_vectors(p->layer) && at < rows * keys; at++)
            out[at] += vectors_sum(p->layer, p->in, head->b, head->i, of->row[at / keys], at % keys,
                                   p->absolute_a + at / keys * d, b + at % keys * d, c, true);
    }
    for (size_t r = 0; r < rows && layer_scales_cache(p->layer); r++) {
        p->q_reach[r] = 0;
        for (size_t at = r * d; at < (r + 1) * d; at++)
            p->q_reach[r] += 128 * (c * fabs(head->q[at]) + p->q[at]);
    }
    if (inputs_round_scores(p->layer, p->in))
        score_scales(p, head, rows, c);
}

/* A row's softmax, for each key: log A, d, and e_a. Hidden keys are skipped. A sink is one more key, of value 0. */
struct row {
    const unsigned char *visible;
    size_t keys;
    bool sink; /* the arrays have one more element, that of a sink */
    double *log_a, *d_worst, *e_worst;
    double vanishes; /* smaller weights may become 0 as a mask lifts others */
    bool open;       /* f32 may overflow on the way to the weights */
    bool unsure;     /* f32 may see other keys, or find numbers where the reference has none: nothing is promised */
    size_t t;
};

static bool takes_part(const struct row *row, size_t j) { return j < row->keys ? row->visible[j] : row->sink; }

/* A score that attn shows, in natural units: e so far, ln(2) times it, rounded twice, and underflows of d_k products,
 * of the scale and of ln(2); of whole numbers a scale that is subnormal, which has few digits. */
static void shown_errors(const struct propagation *p, const struct term_error *e, bool open, size_t at)
{
    const double small = layer_sums_whole(p->layer) ? (double)FLT_MIN : (double)(p->layer->d_k + 2) * p->omega;
    p->bounds->attn_worst[at] = LN_2 * (e->worst + e->bent + 3 * U * fabs(e->value)) + small;
    p->bounds->attn_open[at] = e->open || open;
}

/* T through the terms up to the last one wanted; `shown_at`: the place where attn shows the scores, or NOT_SHOWN */
#define NOT_SHOWN SIZE_MAX
static struct term_error pair_error(const struct propagation *p, const struct reference_head *head,
                                    const struct row *row, size_t r, size_t j, enum score_name last, size_t shown_at)
{
    const size_t at = r * head->keys + j, d_k = (size_t)p->layer->d_k;
    const size_t more = layer_has_vectors(p->layer) ? d_k + 6 : 0; /* a second sum, which the first begins with */
    const double dot = gamma_of(d_k + 4 + more + layer_scales_cache(p->layer));
    const double with_errors = p->t_worst[at], size = p->t_size[at];
    struct term_error e = {.value = LOG2_E * head->raw[at], .worst = with_errors - size + dot * with_errors,
                           .reach = (1 + dot) * with_errors};
    e.open = !(e.reach <= FLT_MAX && p->q_reach[r] <= FLT_MAX);
    for (enum score_name term = 0; term <= last; term++) {
        if (score_has(p->layer, term))
            terms_error(p->layer, term, &e, head->operand[term] != NULL ? head->operand[term][at] : 0);
        if (term == SCORE_EXPRESSION)
            expressions_error(p->layer, p->in, reference_pair(p->layer, p->in, head->b, head->i, row->t, j), &e);
        if (shown_at != NOT_SHOWN && (term == reference_shown(p->layer) || term + 1 == SCORE_TERMS) &&
            term <= reference_shown(p->layer))
            shown_errors(p, &e, p->q_open[r] || p->k_open[j], shown_at);
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
        row->log_a[j] = head->scores[at] - maximum - log(sum);
        row->d_worst[j] = LN_2 * e_worst + rescalings * (EXP_ERROR + 2 * U) + of_weight + 2 * U;
        row->open = row->open || p->k_open[j] || e.open;
    }
    for (size_t j = 0; j < keys && row->unsure && p->layer->scores == SCORES_BIASED; j++)
        promise_nothing(p->bounds->attn_worst, p->bounds->attn_open, shown_at + j);
    if (row->sink) { /* rounded when packed */
        const double t = LOG2_E * head->sink, rounded = U * (3 * fabs(t) + 2 * (LOG2_E * maximum - t + gap));
        row->log_a[keys] = head->sink - maximum - log(sum);
        row->d_worst[keys] = LN_2 * rounded + (rescalings + 1) * (EXP_ERROR + 2 * U);
        row->open = row->open || terms_bend(p->layer, t); /* beside a mask_add that is */
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

/* e_a. If f32 overflows a weight may be anything from 0 to 1. */
static void weight_errors(struct row *row)
{
    const double low = log_sum(row, -1), high = log_sum(row, 1);
    for (size_t j = 0; j < row->keys + row->sink; j++) {
        row->e_worst[j] = 0;
        if (!takes_part(row, j))
            continue;
        const double a = exp(row->log_a[j]);
        const double lost = BOUND_TINY + fmin(a, row->vanishes);
        const double up = row->open ? 1 : exp(row->log_a[j] + row->d_worst[j] - low);
        const double down = row->open ? 0 : exp(row->log_a[j] - row->d_worst[j] - high);
        row->e_worst[j] = fmax((up <= 1 ? up : 1) - a, a - (down >= 0 ? down : 0)) + lost;
    }
}

/* Sums and maxima over the visible keys, in each column of the values */
struct columns {
    double *worst;      /* sum e_a |V - Z| + (A + e_a) e_v */
    double *reach;      /* sum (A + e_a)(|V| + e_v) */
    double *far, *high; /* the largest |V - Z| + e_v and |V| + e_v, for the hull */
};

/* One visible key's share of e_z: equations in docs/bound.md */
WIDE static void add_key(const struct columns *of, double a, double e_a, const double *restrict v,
                         const double *restrict v_worst, const double *restrict z, size_t d_v)
{
    const double near = a + e_a;
    double *restrict worst = of->worst, *restrict reach = of->reach, *restrict far = of->far, *restrict high = of->high;
    for (size_t c = 0; c < d_v; c++) {
        const double off = v[c] - z[c], distance = fabs(off) + v_worst[c], length = fabs(v[c]) + v_worst[c];
        worst[c] += e_a * fabs(off) + near * v_worst[c];
        reach[c] += near * length;
        far[c] = distance > far[c] ? distance : far[c];
        high[c] = length > high[c] ? length : high[c];
    }
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
 * those whose other weights vanish, show scales within their own roundings. */
static double rounded_weights_error(const struct propagation *p, const struct reference_head *head,
                                    const struct row *row, size_t r, size_t c)
{
    const size_t d_v = (size_t)p->layer->d_v;
    double unit = 0, next = 0, halves = 0, keys = 0;
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
            halves += fmin(unit, weight) * (fabs(head->v[j * d_v + c]) / p->v_unit[j] + 1);
        }
    return halves + 0x1p-113 * keys;
}

static void value_errors(struct propagation *p, const struct reference_head *head, const struct row *row, size_t r,
                         double *work)
{
    const size_t d_v = (size_t)p->layer->d_v, keys = row->keys;
    const bool scaled = layer_scales_cache(p->layer); /* a weight times a scale, which may underflow, times 127 */
    const bool whole = head->exact_v != NULL; /* products and their unit are rounded as well */
    const double rounding = 2 * gamma_of(keys + row->sink + 8 + scaled + (whole ? 4 : 0));
    const double *none = work + 3 * d_v, *z = head->z + r * d_v;
    double *worst = p->z + r * d_v, *open = p->z_open + r * d_v;
    const struct columns of = {.worst = worst, .reach = work, .far = work + d_v, .high = work + 2 * d_v};
    memset(worst, 0, d_v * sizeof *worst);
    memset(open, 0, d_v * sizeof *open);
    memset(work, 0, 4 * d_v * sizeof *work);
    bool any = false;
    for (size_t j = 0; j < keys; j++)
        if (row->visible[j]) {
            add_key(&of, head->weights[r * keys + j], row->e_worst[j], head->v + j * d_v, p->v + j * d_v, z, d_v);
            any = true;
        }
    if (any && row->sink)
        add_key(&of, exp(row->log_a[keys]), row->e_worst[keys], none, none, z, d_v);
    const bool indicator = p->folded.indicator && !row->sink; /* not a sum of weights, but exactly 1 or 0 */
    for (size_t c = 0; any && c < d_v - indicator; c++) {
        const double reach = fmin(of.reach[c], of.high[c]), denormal = (double)keys * p->omega * (scaled ? 128 : 1);
        open[c] = row->open || !((double)keys * reach <= FLT_MAX) || values_overflow(p, row, c);
        worst[c] = fmin(worst[c], of.far[c]) + rounding * reach + denormal;
        worst[c] += whole ? rounded_weights_error(p, head, row, r, c) : 0;
    }
    if (indicator)
        worst[d_v - 1] = 0;
    for (size_t c = 0; row->unsure && c < d_v; c++)
        promise_nothing(worst, open, c);
}

/* Errors of attn: e_a and the rounding of the sum and the division; none for hidden keys */
static void attn_errors(struct propagation *p, const struct reference *reference, const struct reference_head *head,
                        const struct row *row, size_t r)
{
    const size_t m = inputs_columns(p->layer, p->in), rows = reference->z_rows.count;
    const size_t at = ((head->b * (size_t)p->layer->h + head->i) * rows + r) * m;
    const double rounding = gamma_of(row->keys + 8);
    for (size_t j = 0; j < row->keys; j++)
        if (row->visible[j]) {
            const double a = head->weights[r * row->keys + j];
            p->bounds->attn_worst[at + j] = row->e_worst[j] + rounding * (a + row->e_worst[j]);
            p->bounds->attn_open[at + j] = row->open;
        }
    for (size_t j = 0; row->unsure && j < row->keys; j++)
        promise_nothing(p->bounds->attn_worst, p->bounds->attn_open, at + j);
}

/* Errors of lse: each summand's d, the rounding of their sum, and that of the result */
static void lse_errors(struct propagation *p, const struct reference *reference, const struct reference_head *head,
                       const struct row *row, size_t r)
{
    const size_t at = (head->b * (size_t)p->layer->h + head->i) * reference->z_rows.count + r;
    const double low = log_sum(row, -1), high = log_sum(row, 1);
    const double last = U * fabs(head->lse[r]) + BOUND_LOG;
    p->bounds->lse_worst[at] = row->open ? INFINITY : fmax(high, -low) + gamma_of(row->keys + 8) + last;
    p->bounds->lse_open[at] = row->open;
    if (row->unsure)
        promise_nothing(p->bounds->lse_worst, p->bounds->lse_open, at);
}

void propagation_attention(struct propagation *p, const struct reference *reference,
                           const struct reference_head *head)
{
    const size_t keys = head->keys, rows = reference->z_rows.count;
    const size_t each = keys + p->layer->sink;
    HEAP double *work = memory_get(3 * each + 4 * (size_t)p->layer->d_v, sizeof *work);
    p->shown_rows = rows;
    for (size_t r = 0; r < rows; r++) {
        struct row row = {.visible = head->visible + r * keys, .keys = keys, .sink = p->layer->sink, .log_a = work,
                          .d_worst = work + each, .e_worst = work + 2 * each, .t = reference->z_rows.row[r]};
        row.unsure = row_unsure(p, head, &row, r);
        score_errors(p, head, &row, r);
        weight_errors(&row);
        value_errors(p, head, &row, r, work + 3 * each);
        if (reference->attn != NULL && head->shown == NULL)
            attn_errors(p, reference, head, &row, r);
        if (reference->lse != NULL)
            lse_errors(p, reference, head, &row, r);
    }
}
