/* SPDX-License-Identifier: MIT */
/* Rounding of a block's norms, sums, products and activations. Names are docs/bound_block.md's: u, gamma,
 * omega, phi; e is the error of a number.
 *
 *   a + b      e_a + e_b + u (|a| + |b| + e_a + e_b)
 *   a w + b    sum e |w| + gamma_{K+2} (sum (|a| + e)|w| + |b|) + omega (K + 1)
 *              and of weights as they are given, which packing moves by m: sum |a| m, and |w| + m in place of |w|
 *   f(a)       L e + what the approximation is off by between a - e and a + e; L the steepest slope of f
 *   f(g) a     e_f (|a| + e_a) + |f| e_a + u (|f| + e_f)(|a| + e_a) + omega
 *
 * A residual is added to complete sums, so that it is rounded once.
 */
#include "block_error.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "roundoff.h"
#include "stored.h"

#define U BOUND_U

/* ---- memory ---------------------------------------------------------------------------------------------------- */

struct block_error block_error_make(struct pool *pool, size_t rows, size_t columns)
{
    return (struct block_error){pool_doubles(pool, rows * columns), pool_get(pool, rows, 1)};
}

/* Inputs of all steps */
struct steps {
    const struct layer *layer;
    const struct inputs *in;
    const struct norm_rounding *rounding;
    size_t rows;
    double *work; /* as many numbers as the widest rows have */
};

/* ---- norms ----------------------------------------------------------------------------------------------------- */

static double shift_of(const struct steps *s, int number, size_t c)
{
    const float *shifts = number > 0 ? block_shifts(s->in, number) : NULL;
    return shifts != NULL ? fabs((double)shifts[c]) : 0;
}

/* One row through a norm. Nothing is promised for a non-finite row. */
static void norm_row_errors(const struct steps *s, const struct norm *norm, int number, const double *x, double *worst,
                            unsigned char *open)
{
    const size_t d = (size_t)s->layer->d_model;
    const struct norm_columns columns = {x, worst, d};
    const struct norm_divided by = norm_divide(norm, s->rounding, &columns);
    const float *gains = block_gains(s->in, number);
    const bool finite = isfinite(norm_of(norm, x, d).squares);
    *open |= by.open || !finite;
    for (size_t c = 0; c < d; c++) {
        *open |= norm_error(&by, s->rounding, x[c], fabs((double)gains[c]), shift_of(s, number, c), &worst[c]);
        if (!finite || isnan(worst[c]))
            worst[c] = INFINITY;
    }
}

static void through_norm(const struct steps *s, int number, const double *x, struct block_error *e)
{
    const size_t d = (size_t)s->layer->d_model;
    const struct norm norm = block_norm(s->layer);
    for (size_t r = 0; number > 0 && r < s->rows; r++) {
        bool fits = true;
        for (size_t c = 0; c < d; c++)
            fits = fits && fabs(x[r * d + c]) + e->worst[r * d + c] <= FLT_MAX;
        e->open[r] |= !fits;
        norm_row_errors(s, &norm, number, x + r * d, e->worst + r * d, &e->open[r]);
    }
}

void block_norm_errors(const struct layer *layer, const struct inputs *in, const struct norm_rounding *rounding,
                       int number, const double *x, size_t rows, struct block_error *e)
{
    const struct steps s = {.layer = layer, .in = in, .rounding = rounding, .rows = rows};
    for (size_t at = 0; at < rows * (size_t)layer->d_model; at++)
        e->worst[at] = rounding->phi;
    memset(e->open, 0, rows);
    through_norm(&s, number, x, e);
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

/* e of b, then of a + b. */
static void add_errors(const struct steps *s, const double *a, const struct block_error *of_a, const double *b,
                       struct block_error *e)
{
    const size_t d = (size_t)s->layer->d_model;
    for (size_t at = 0; at < s->rows * d; at++) {
        const double e_a = of_a != NULL ? of_a->worst[at] : s->rounding->phi, size = fabs(a[at]) + e_a;
        e->worst[at] += e_a + U * (size + fabs(b[at]) + e->worst[at]);
        if (!(size + fabs(b[at]) + e->worst[at] <= FLT_MAX))
            e->open[at / d] = 1;
    }
    for (size_t r = 0; of_a != NULL && r < s->rows; r++)
        e->open[r] |= of_a->open[r];
}

/* ---- whole numbers ----------------------------------------------------------------------------------------------- */

/* Rounds rows with errors e to bf16. Rounding is monotonic, so a number's result is between those of the ends of its
 * interval. Around the given numbers each moves by at most 2^-8 of itself, or is below 2^-126. */
static void bf16_errors(const struct inputs *in, const double *a, size_t count, double *worst)
{
    for (size_t at = 0; at < count; at++) {
        const double is = stored_bf16(a[at]), most = fabs(a[at]) + worst[at];
        if (in->packed != NULL)
            worst[at] = isfinite(stored_bf16(most)) ? worst[at] + 0x1p-8 * most + FLT_MIN : INFINITY;
        else if (worst[at] != 0)
            worst[at] = fmax(stored_bf16(a[at] + worst[at]) - is, is - stored_bf16(a[at] - worst[at]));
    }
}

size_t block_more_roundings(const struct layer *layer)
{
    return layer->precision == PRECISION_BF16 ? 3 : 0;
}

double block_small_scales(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor,
                          const double *rows, size_t count, size_t columns, double factor, double omega)
{
    const double levels = (double)layer_levels(layer, (int64_t)columns);
    double least = INFINITY, most = 0;
    if (!layer_sums_whole(layer))
        return 0;
    for (size_t r = 0; r < count; r++) {
        double largest = 0x1p-100;
        for (size_t c = 0; c < columns; c++)
            largest = fmax(largest, fabs(rows[r * columns + c]));
        least = fmin(least, largest / levels);
        most = fmax(most, largest / levels);
    }
    const double unit = in->unit[tensor] * (factor > 0 ? factor : 1);
    return least * unit >= 2 * (double)FLT_MIN && unit >= 2 * (double)FLT_MIN ? 0 : 0x1p31 * omega * (1 + most);
}

/* Digits of a row: of each WEIGHT_GROUP numbers, or those that are left, multiples of a power of two, to the nearest;
 * the largest is below 2^23 of them. Keys and values in a cache are such sums, compared one by one. */
static void digits_errors(const double *a, size_t rows, size_t columns, double *worst)
{
    for (size_t first = 0; first < rows * columns;) {
        const size_t left = columns - first % columns, count = left < WEIGHT_GROUP ? left : WEIGHT_GROUP;
        double largest = 0;
        for (size_t at = first; at < first + count; at++)
            largest = fmax(largest, fabs(a[at]) + worst[at]);
        int exponent;
        (void)frexp(largest * (1 + 0x1p-6), &exponent); /* near a power of two the next one */
        const double unit = fmax(ldexp(1, exponent - 23), 0x1p-126);
        for (size_t at = first; at < first + count; at++)
            worst[at] += isfinite(largest) ? unit / 2 : 0;
        first += count;
    }
}

/* Rounds rows with errors e to multiples of a scale. The kernel's scale is off by its row's largest e, and its
 * quotients have three more roundings u, as have the reference's, also in f32. A number whose quotient is within that
 * distance of the midpoint between two integers may become the other one: an error of one scale. Exact numbers, those
 * of x, become the same in both. `a`, `whole`: before and after rounding. Around the given numbers each moves by half
 * a scale. */
void block_round_errors(const struct layer *layer, const struct inputs *in, const double *a, const double *whole,
                        size_t rows, size_t columns, double *worst)
{
    if (layer->precision == PRECISION_BF16)
        bf16_errors(in, a, rows * columns, worst);
    if (layer_reads_digits(layer))
        digits_errors(a, rows, columns, worst);
    if (layer_sums_whole(layer))
        block_whole_errors(in, (double)layer_levels(layer, (int64_t)columns), a, whole, rows, columns, worst);
}

void block_whole_errors(const struct inputs *in, double levels, const double *a, const double *whole, size_t rows,
                        size_t columns, double *worst)
{
    for (size_t r = 0; r < rows; r++) {
        const double *const row = a + r * columns;
        double largest = 0x1p-100, of_worst = 0;
        for (size_t c = 0; c < columns; c++) {
            largest = fmax(largest, fabs(row[c]));
            of_worst = fmax(of_worst, worst[r * columns + c]);
        }
        const double unit = largest / levels;
        const double u = of_worst > 0 ? U : 0;
        for (size_t c = 0; c < columns; c++) {
            const size_t at = r * columns + c;
            const double quotient = fabs(row[c]) / unit, size = fabs(whole[at]);
            const double middle = fabs(quotient - floor(quotient) - 0.5);
            const double most = (worst[at] + of_worst * quotient / levels) / unit + 8 * u * quotient;
            if (in->packed != NULL) {
                worst[at] += (0.5 + 4 * U * quotient) * (largest + of_worst) / levels;
                continue;
            }
            const double steps = most >= middle ? ceil(most + 0.5 - middle) : 0;
            worst[at] = size * (of_worst / largest + 2 * U) + steps * unit * (1 + of_worst / largest);
        }
    }
}

static void round_errors(const struct steps *s, const double *a, const double *whole, size_t columns,
                         struct block_error *e)
{
    block_round_errors(s->layer, s->in, a, whole, s->rows, columns, e->worst);
}

/* ---- products -------------------------------------------------------------------------------------------------- */

/* Errors of a w + b, into `to` */
static void product_errors(const struct steps *s, const double *a, const struct block_error *of_a, enum layer_tensor w,
                           enum layer_tensor b, struct block_error *to)
{
    struct block_matrix m = block_matrix(s->layer, s->in, w);
    const struct norm_rounding *of = s->rounding;
    const size_t count = s->rows * m.in;
    const double gamma = gamma_of(m.in + 2 + block_more_roundings(s->layer));
    const double small = of->omega * (double)(m.in + 1) +
                         block_small_scales(s->layer, s->in, w, a, s->rows, m.in, 1, of->omega);
    const float *bias = inputs_floats(s->in, b);
    HEAP double *size = memory_get(s->rows * m.columns, sizeof *size);
    m.more = of->phi / U;
    memset(to->worst, 0, s->rows * m.columns * sizeof *to->worst);
    for (size_t at = 0; at < count; at++)
        s->work[at] = fabs(a[at]) + m.more;
    block_product(size, s->work, s->rows, &m, BLOCK_SIZE);
    block_product(to->worst, of_a->worst, s->rows, &m, BLOCK_SIZE);
    if (m.packed != NULL)
        block_product(to->worst, s->work, s->rows, &m, BLOCK_MOVED);
    for (size_t at = 0; at < s->rows * m.columns; at++) {
        const size_t r = at / m.columns;
        const double bias_size = bias != NULL ? fabs((double)bias[at % m.columns]) : 0;
        const double sum = size[at] + bias_size + m.more, reach = sum + to->worst[at];
        to->worst[at] += gamma * reach + small;
        to->open[r] |= of_a->open[r] || !(reach * (1 + gamma) * inputs_spread(s->in, w) <= FLT_MAX);
    }
}

/* ---- activations ----------------------------------------------------------------------------------------------- */

/* The steepest slope of an activation, and the largest size of its second derivative */
static const struct { double slope, bend; } steepest[] = {
    [ACTIVATION_NONE] = {1, 0}, [ACTIVATION_RELU] = {1, 0}, [ACTIVATION_GELU] = {1.13, 0.8},
    [ACTIVATION_GELU_TANH] = {1.13, 0.8}, [ACTIVATION_SILU] = {1.1, 0.5}, [ACTIVATION_TANH] = {1, 0.77},
    [ACTIVATION_QUICK_GELU] = {1.1, 0.5 * QUICK_GELU}, [ACTIVATION_SIGMOID] = {0.25, 0.0963},
    [ACTIVATION_RELU2] = {INFINITY, 2}};

/* Relative error of 1 / (1 + exp(-z)): its exponent's product and constant, the exponential, the sum, the division */
static double sigmoid_error(double z) { return BOUND_EXP2 + 3 * U + 2.1 * U * z; }

/* The largest error of the kernel's own approximation between a - e and a + e: for gelu relative to a; for the others,
 * which are a / (1 + 2^t), relative to the result and growing with t. For positive a 2^t is small, and the error of t
 * counts less than at 1. */
static double approximation(const struct layer *layer, double a, double e)
{
    const enum layer_activation activation = layer_activation(layer);
    const double alpha = layer_alpha(layer), limit = layer->ffn_limit;
    const double size = fabs(limit > 0 ? fmin(a, limit) : a) + e;
    const double z = 0.79788456080286536 * size * (1 + 0.044715 * size * size);
    const double value = activation == ACTIVATION_RELU2 ? square(a > -e ? a + e : 0)
                       : fabs(block_gate(layer, a)) + steepest[activation].slope * e;
    const double of_alpha = a > e ? fmin(alpha * size, 1) : alpha * size;
    if (limit > 0 || activation == ACTIVATION_QUICK_GELU)
        return sigmoid_error(of_alpha) * value + BOUND_VANISHED / fmin(alpha, 1);
    switch (activation) {
    case ACTIVATION_SIGMOID:
        return sigmoid_error(of_alpha) * value + BOUND_VANISHED;
    case ACTIVATION_RELU2:
        return U * value;
    case ACTIVATION_GELU:
        return BOUND_GELU * (a > 0 ? size : fmin(size, BOUND_GELU_FAR) + e);
    case ACTIVATION_GELU_TANH:
        return BOUND_GELU_TANH * (1 + (a > e ? fmin(z, 1) : z)) * value + BOUND_VANISHED;
    case ACTIVATION_SILU:
        return BOUND_SILU * (2 + (a > e ? fmin(size, 1) : size)) * value + BOUND_VANISHED;
    case ACTIVATION_TANH:
        return BOUND_TANH * value;
    default:
        return 0;
    }
}

/* The steepest slope between a - e and a + e, at most */
static double slope_within(const struct layer *layer, double a, double e)
{
    const enum layer_activation activation = layer_activation(layer);
    const double turn = activation == ACTIVATION_RELU && fabs(a) < e ? 1 : 0;
    const double bend = layer->ffn_limit > 0 ? 0.5 * layer->ffn_alpha : steepest[activation].bend;
    if (layer->ffn_limit > 0 && a - e > layer->ffn_limit)
        return 0;
    return fmin(steepest[activation].slope, fabs(block_gate_slope(layer, a)) + bend * e + turn);
}

/* Errors of the activation of `gate`, times `up` if that is another product */
static void hidden_errors(const struct steps *s, const struct block_chunk *k, const struct block_error *gate,
                          const struct block_error *up, struct block_error *to)
{
    const enum layer_activation activation = layer_activation(s->layer);
    const bool gated = layer_ffn_gated(s->layer);
    const struct norm_rounding *of = s->rounding;
    const size_t d_ff = (size_t)(layer_is_linear(s->layer) ? s->layer->d_out : s->layer->d_ff);
    for (size_t at = 0; at < s->rows * d_ff; at++) {
        const double a = k->gate[at], value = fabs(block_gate(s->layer, a));
        bool open = gate->open[at / d_ff] && activation != ACTIVATION_NONE;
        double worst = slope_within(s->layer, a, gate->worst[at]) * gate->worst[at] +
                       approximation(s->layer, a, gate->worst[at]) + of->omega + of->phi;
        if (gated) {
            const double b = fabs(block_up(s->layer, k->up[at]));
            double e_b = up->worst[at];
            if (s->layer->ffn_limit > 0) { /* one sum more, and nothing of what is cut off */
                e_b = (fabs(k->up[at]) - e_b > s->layer->ffn_limit ? 0 : e_b) + U * (b + e_b);
                open = open || up->open[at / d_ff];
            }
            const double reach = (value + worst) * (b + e_b);
            worst = worst * (b + e_b) + value * e_b + U * reach + of->omega + of->phi * (1 + value + b);
            to->open[at / d_ff] |= up->open[at / d_ff] || !(reach * (1 + U) <= FLT_MAX);
        }
        else if (activation == ACTIVATION_RELU2)
            to->open[at / d_ff] |= !(value + worst <= FLT_MAX);
        /* an activation may turn a sum that overflows into any number */
        to->worst[at] = open ? INFINITY : worst;
        to->open[at / d_ff] |= gate->open[at / d_ff];
    }
}

/* Errors of c tanh(a / c), c being the softcap of layer = linear: 1/c, a times 1/c, c and the last product are rounded.
 * An underflow of a / c is multiplied by c. */
static void cap_errors(const struct steps *s, const struct block_chunk *k, struct block_error *e)
{
    const struct norm_rounding *of = s->rounding;
    const double cap = s->layer->cap, share = BOUND_TANH + 4 * U, small = (of->omega + of->phi) * (1 + 3 * cap);
    for (size_t at = 0; cap != 0 && at < s->rows * (size_t)s->layer->d_out; at++) {
        const double value = fabs(k->y[at]), t = value / cap;
        const double steep = fmin(1, 1 - t * t + 0.77 * e->worst[at] / cap);
        e->worst[at] = e->open[at / (size_t)s->layer->d_out] ? INFINITY /* as for activations */
                     : steep * e->worst[at] + share * fmin(value + e->worst[at], cap) + small;
    }
}

/* ---- all steps ------------------------------------------------------------------------------------------------- */

struct errors {
    struct block_error u, in, up, gate, hidden;
};

static void copy_error(const struct steps *s, struct block_error *to, const struct block_error *from)
{
    const size_t d = (size_t)s->layer->d_model;
    memcpy(to->worst, from->worst, s->rows * d * sizeof *to->worst);
    memcpy(to->open, from->open, s->rows);
}

/* From the errors of u in e->u to those of the feed-forward's result, in `error` */
static void feed_forward_errors(const struct steps *s, const struct block_chunk *k, const struct block_norms *norms,
                                struct errors *e, struct block_error *error)
{
    const bool gated = layer_ffn_gated(s->layer);
    const int number = norms->before_ffn;
    if (norms->ffn_of_x && number > 0) {
        block_norm_errors(s->layer, s->in, s->rounding, number, k->x, s->rows, &e->in);
    } else {
        copy_error(s, &e->in, &e->u);
        through_norm(s, number, k->u, &e->in);
    }
    if (layer_rounds_rows(s->layer))
        round_errors(s, k->in, k->whole_in, (size_t)s->layer->d_model, &e->in);
    if (layer_is_linear(s->layer)) {
        product_errors(s, k->whole_in, &e->in, TENSOR_W, TENSOR_B, &e->up);
        hidden_errors(s, k, &e->up, &e->up, error);
        cap_errors(s, k, error);
        return;
    }
    product_errors(s, k->whole_in, &e->in, TENSOR_W_1, TENSOR_B_1, &e->up);
    if (gated)
        product_errors(s, k->whole_in, &e->in, TENSOR_W_G, TENSOR_B_G, &e->gate);
    hidden_errors(s, k, gated ? &e->gate : &e->up, &e->up, &e->hidden);
    memset(error->open, 0, s->rows);
    round_errors(s, k->hidden, k->whole_hidden, (size_t)s->layer->d_ff, &e->hidden);
    product_errors(s, k->whole_hidden, &e->hidden, TENSOR_W_2, TENSOR_B_2, error);
}

void block_errors(const struct block_chunk *k, const struct layer *layer, const struct inputs *in,
                  const struct norm_rounding *rounding, struct block_error *error)
{
    const struct block_norms norms = block_norms(layer);
    const size_t widest = (size_t)(layer->d_ff > layer->d_model ? layer->d_ff : layer->d_model); /* that is read */
    const size_t d = (size_t)layer->d_model, d_out = (size_t)layer->d_out, rows = k->rows;
    const size_t d_ff = layer_is_linear(layer) ? d_out : (size_t)layer->d_ff;
    OWNED(pool_free) struct pool pool = {0};
    const struct steps s = {.layer = layer, .in = in, .rounding = rounding, .rows = rows,
                            .work = pool_doubles(&pool, rows * widest)};
    struct errors e = {block_error_make(&pool, rows, d), block_error_make(&pool, rows, d),
                       block_error_make(&pool, rows, d_ff), block_error_make(&pool, rows, d_ff),
                       block_error_make(&pool, rows, d_ff)};
    if (layer_mixes(layer)) {
        through_norm(&s, norms.behind_attention, k->attention, error);
        add_errors(&s, k->x, NULL, k->added, error);
        through_norm(&s, norms.behind_sum, k->sum, error);
    }
    const bool attends = layer_mixes(layer), feeds = layer_has_ffn(layer) || !attends;
    for (size_t at = 0; !attends && at < rows * d; at++)
        e.u.worst[at] = rounding->phi; /* x itself */
    if (feeds) {
        if (attends)
            copy_error(&s, &e.u, error);
        feed_forward_errors(&s, k, &norms, &e, error);
    }
    if (layer_has_ffn(layer)) {
        through_norm(&s, norms.behind_ffn, k->ffn, error);
        if (!norms.alone)
            add_errors(&s, k->u, &e.u, k->more, error);
        through_norm(&s, norms.behind_both, k->both, error);
    }
}
