/* SPDX-License-Identifier: MIT */
/* The table of terms: value, what hides, error. */
#include "terms.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "roundoff.h"
#include "spec/relative.h"
#include "spec/score.h"

/* From BENT_FROM on kernels add 1/4 of a mask_add in place of log2(e) times it. Two numbers that differ there differ by
 * 2^104, and as they are added by 2^102 or a rounding: a rest of the score up to ABSORBED changes no order. */
#define BENT_FROM (0x1.7da994p+127 / (BOUND_LOG2_E - 0.25))
#define ABSORBED 0x1p98

/* A query and a key of one sequence and head */
struct term_pair {
    size_t b, i, t, j;
};

static double scaled(double score, double operand, double number)
{
    (void)operand;
    return number * score;
}

static double capped(double score, double operand, double number)
{
    (void)operand;
    return number * tanh(score / number);
}

static double capped_slope(double score, double number) { return 1 - square(tanh(score / number)); }

static double added(double score, double operand, double number)
{
    (void)number;
    return score + operand;
}

static double fallen(double score, double operand, double number)
{
    (void)number;
    return score - operand;
}

/* How far the key of row j is ahead of the position of query t. */
static int64_t distance_ahead(const struct layer *layer, const struct inputs *in, struct term_pair pair)
{
    return inputs_first(layer, in, pair.b) + (int64_t)pair.j - inputs_position(layer, in, pair.b, pair.t);
}

/* alibi: the slope is a constant, rounded; so is a distance of 2^24 and more, twice. The sum is rounded once more. */
static double distance_of(const struct layer *layer, const struct inputs *in, struct term_pair pair)
{
    return score_slope(layer, (int64_t)pair.i) * (double)llabs((long long)distance_ahead(layer, in, pair));
}

static void fallen_error(struct term_error *e, double operand, double number)
{
    const double size = BOUND_LOG2_E * operand;
    (void)number;
    e->value -= size;
    e->worst += 5 * BOUND_U * size + BOUND_U * fabs(e->value);
    e->reach += size;
}

static double bias_of(const struct layer *layer, const struct inputs *in, struct term_pair pair)
{
    const int64_t index = relative_index(layer, (int64_t)pair.i, distance_ahead(layer, in, pair));
    return (double)inputs_floats(in, TENSOR_REL_BIAS)[index];
}

/* relative: packed as log2(e) times the number, rounded once; the sum once more. */
static void bias_error(struct term_error *e, double operand, double number)
{
    const double size = BOUND_LOG2_E * fabs(operand);
    (void)number;
    e->value += BOUND_LOG2_E * operand;
    e->worst += 2 * BOUND_U * size + BOUND_U * fabs(e->value);
    e->reach += size;
    e->open = e->open || !(e->reach <= FLT_MAX);
}

static bool is_zero(double operand) { return operand == 0; }
static bool is_minus_infinity(double operand) { return operand == -INFINITY; }

/* In base 2 the cap is C = log2(e) c. x = T / C, computed as T times a rounded 1 / C, has the error dx. tanh's slope
 * falls with |x|, so it is at most that at the smallest |x| within reach. */
static void capped_error(struct term_error *e, double operand, double number)
{
    const double cap = BOUND_LOG2_E * number, product = 2 * BOUND_U * fabs(e->value);
    const double nearest = fmax(0, fabs(e->value) - e->worst - product) / cap;
    const double slope = 1 / (cosh(nearest) * cosh(nearest)); /* 0 where cosh overflows */
    const double carried = slope * (e->worst + product), value = cap * tanh(e->value / cap);
    (void)operand;
    e->value = value;
    e->worst = fmin(carried, 2 * cap) + BOUND_TANH * fmin(fabs(value) + carried, cap);
    e->reach = cap * (1 + BOUND_TANH);
}

/* In base 2 the kernel adds log2(e) operand, and less from BENT_FROM on. Weights there are 0 or 1 all the same, but a
 * rounding of the sum is one of 4 log2(e) times as much of the operand. */
static void added_error(struct term_error *e, double operand, double number)
{
    const double size = BOUND_LOG2_E * fabs(operand), bent = fmax(0, size - BOUND_LOG2_E * BENT_FROM);
    const double sum = e->reach + (1 + 4 * BOUND_U) * (size - bent + bent / (4 * BOUND_LOG2_E));
    const double counted = bent > 0 ? 4 * BOUND_LOG2_E * size : size;
    (void)number;
    e->value += BOUND_LOG2_E * operand;
    e->worst += 4 * BOUND_U * counted;
    e->bent = bent - bent / (4 * BOUND_LOG2_E);
    e->open = e->open || !(sum <= FLT_MAX) || (sum > BOUND_LOG2_E * BENT_FROM && e->reach > ABSORBED);
}

bool terms_bend(const struct layer *layer, double score)
{
    return score_has(layer, SCORE_MASK_ADD) && fabs(score) > BOUND_LOG2_E * BENT_FROM;
}

static const struct {
    /* NULL: its tensor's */
    double (*operand)(const struct layer *layer, const struct inputs *in, struct term_pair pair);
    double (*value)(double score, double operand, double number); /* NULL: the score as it was */
    double (*slope)(double score, double number);                 /* NULL: the same everywhere, or not known */
    bool (*hides)(double operand);                                /* NULL: it does not */
    void (*error)(struct term_error *e, double operand, double number); /* NULL: none of its own */
} rows[SCORE_TERMS] = {
    [SCORE_SCALE] = {.value = scaled}, /* packed: its error is the queries' */
    [SCORE_SOFTCAP] = {.value = capped, .slope = capped_slope, .error = capped_error},
    [SCORE_ALIBI] = {.operand = distance_of, .value = fallen, .error = fallen_error},
    [SCORE_RELATIVE] = {.operand = bias_of, .value = added, .error = bias_error},
    [SCORE_MASK_BOOL] = {.hides = is_zero},
    [SCORE_MASK_ADD] = {.value = added, .hides = is_minus_infinity, .error = added_error},
};

static bool of_pairs(enum score_name term)
{
    const enum layer_tensor tensor = score_tensor(term);
    return tensor < TENSOR_COUNT && layer_tensor_row(tensor)->kind == TENSOR_OF_PAIRS;
}

bool terms_have_operand(const struct layer *layer, enum score_name term)
{
    return score_has(layer, term) && (of_pairs(term) || rows[term].operand != NULL);
}

double terms_operand(const struct layer *layer, const struct inputs *in, enum score_name term, size_t b, size_t i,
                     size_t t, size_t j)
{
    if (rows[term].operand != NULL)
        return rows[term].operand(layer, in, (struct term_pair){b, i, t, j});
    return of_pairs(term) ? inputs_pair(layer, in, score_tensor(term), b, i, t, j) : 0;
}

bool terms_hide(enum score_name term, double operand)
{
    return rows[term].hides != NULL && rows[term].hides(operand);
}

double terms_value(const struct layer *layer, enum score_name term, double score, double operand)
{
    return rows[term].value != NULL ? rows[term].value(score, operand, layer->number[term]) : score;
}

double terms_slope(const struct layer *layer, enum score_name term, double score)
{
    return rows[term].slope(score, layer->number[term]);
}

bool terms_have_slope(enum score_name term)
{
    return rows[term].slope != NULL;
}

void terms_error(const struct layer *layer, enum score_name term, struct term_error *error, double operand)
{
    if (rows[term].error != NULL)
        rows[term].error(error, operand, layer->number[term]);
}
