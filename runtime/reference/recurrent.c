/* SPDX-License-Identifier: MIT */
/* See recurrent.h. The bound is derived: docs/bound.md, "Around the states". */
#include "recurrent.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "block.h"
#include "block_error.h"
#include "bound.h"
#include "recurrence.h"
#include "reference.h"
#include "roundoff.h"

#define LESS_EXACT 8 /* roundings of a product beside its sum: scales of stored weights */
#define STEEPEST_SILU 1.1

/* One sequence of a call, and where its arrays come from */
struct sequence {
    struct reference *reference;
    struct bounds *bounds; /* NULL: no errors are asked for */
    const struct layer *layer;
    const struct inputs *in;
    const struct norm_rounding *rounding;
    size_t b, tokens;
    struct recurrence rule;
    struct made x, gates; /* [tokens][d_model], what products read; [tokens][h_out*d_v] before their activation */
    struct pool pool;
};

static struct made make(struct sequence *s, size_t columns)
{
    struct made made = {.columns = columns};
    made.value = pool_doubles(&s->pool, s->tokens * columns);
    made.error = pool_doubles(&s->pool, s->tokens * columns);
    return made;
}

/* Rows of a tensor [batch][n][columns] of the call */
static struct made given(struct sequence *s, enum layer_tensor tensor, int64_t columns)
{
    struct made made = make(s, (size_t)columns);
    for (size_t at = 0; at < s->tokens * made.columns; at++) {
        made.value[at] = inputs_number(s->layer, s->in, tensor, s->b * s->in->n * made.columns + at);
        made.error[at] = s->rounding->phi;
    }
    return made;
}

/* x, or its rows after the block's first norm */
static struct made read_rows(struct sequence *s)
{
    const size_t d = (size_t)s->layer->d_model;
    const int norm = block_norms(s->layer).before_attention;
    struct made x = given(s, TENSOR_X, s->layer->d_model);
    const double *const normed = s->reference->normed;
    struct block_error e = block_error_make(&s->pool, s->tokens, d);
    if (norm == 0)
        return x;
    if (s->bounds != NULL)
        block_norm_errors(s->layer, s->in, s->rounding, norm, x.value, s->tokens, &e);
    memcpy(x.value, normed + s->b * s->in->n * d, s->tokens * d * sizeof *x.value);
    for (size_t at = 0; at < s->tokens * d; at++)
        x.error[at] = e.open[at / d] ? INFINITY : e.worst[at];
    return x;
}

/* to = from W + b; b: TENSOR_COUNT without one */
static void multiply(struct sequence *s, struct made *to, const struct made *from, enum layer_tensor w,
                     enum layer_tensor b)
{
    const float *const bias = b < TENSOR_COUNT ? inputs_floats(s->in, b) : NULL;
    const struct block_matrix matrix = {
        .w = inputs_floats(s->in, w), .packed = s->in->packed != NULL ? inputs_floats(s->in->packed, w) : NULL,
        .in = from->columns, .columns = to->columns, .out_in = s->layer->out_in};
    const size_t count = s->tokens * to->columns;
    HEAP double *const sizes = memory_get(s->tokens * from->columns, sizeof *sizes);
    HEAP double *const sums = memory_get(count, sizeof *sums);
    block_product(to->value, from->value, s->tokens, &matrix, BLOCK_VALUE);
    for (size_t at = 0; bias != NULL && at < count; at++)
        to->value[at] += (double)bias[at % to->columns];
    for (size_t at = 0; s->bounds != NULL && at < s->tokens * from->columns; at++)
        sizes[at] = fabs(from->value[at]) + from->error[at];
    if (s->bounds != NULL) {
        block_product(sums, sizes, s->tokens, &matrix, BLOCK_SIZE);
        block_product(to->error, from->error, s->tokens, &matrix, BLOCK_SIZE);
        if (matrix.packed != NULL)
            block_product(to->error, sizes, s->tokens, &matrix, BLOCK_MOVED);
        for (size_t at = 0; at < count; at++) {
            sums[at] += bias != NULL ? fabs((double)bias[at % to->columns]) : 0;
            to->error[at] += gamma_of(from->columns + LESS_EXACT) * sums[at] +
                             (double)(from->columns + 1) * (s->rounding->omega + s->rounding->phi);
            if (!(sums[at] * inputs_spread(s->in, w) <= FLT_MAX))
                to->error[at] = INFINITY;
        }
    }
}

static struct made product_of(struct sequence *s, enum layer_tensor w, enum layer_tensor b, int64_t columns)
{
    struct made to = make(s, (size_t)columns);
    multiply(s, &to, &s->x, w, b);
    return to;
}

static double silu_error(double a, double error)
{
    const double size = fabs(block_activation(ACTIVATION_SILU, a));
    return STEEPEST_SILU * error + (BOUND_SILU * (2 + fabs(a)) + 3 * BOUND_U) * (size + STEEPEST_SILU * error) +
           BOUND_VANISHED;
}

/* The convolution of columns over tokens, then maybe silu, in place; and what later calls remember. `channel`: that of
 * the first column */
static void convolve(struct sequence *s, struct made *rows, enum layer_tensor taps, enum layer_tensor biases,
                     size_t channel)
{
    const size_t count = (size_t)s->layer->conv_taps, history = (size_t)s->layer->conv_history;
    const size_t all = (size_t)s->layer->conv_channels, columns = rows->columns, total = s->tokens + history;
    const size_t older = history > 0 ? history - (count - 1) : 0; /* of a window of states, not read */
    const float *const w = inputs_floats(s->in, taps);
    const bool own = layer_is_convolution(s->layer), silu = !own || s->layer->activation == ACTIVATION_SILU;
    const float *const bias = inputs_floats(s->in, biases);
    const int part = inputs_compared(s->layer) - 1;
    HEAP double *const value = memory_get(2 * total, sizeof *value);
    for (size_t c = 0; c < columns; c++) {
        double *const error = value + total;
        const size_t first = (s->b * all + channel + c) * history;
        for (size_t t = 0; t < total; t++) {
            const bool old = t < history;
            const size_t at = old ? 0 : (t - history) * columns + c;
            value[t] = old ? inputs_number(s->layer, s->in, TENSOR_CONV_STATE, first + t) : rows->value[at];
            error[t] = old ? s->rounding->phi : rows->error[at];
        }
        for (size_t t = 0; t < history; t++) {
            s->reference->cache[part][first + t] = value[s->tokens + t];
            if (s->bounds != NULL)
                s->bounds->cache[part].worst[first + t] = error[s->tokens + t];
        }
        for (size_t t = 0; t < s->tokens; t++) {
            double sum = bias != NULL ? (double)bias[c] : 0, size = fabs(sum), moved = 0;
            for (size_t j = 0; j < count; j++) {
                const double tap = (double)w[c * count + j];
                sum += tap * value[older + t + j];
                size += fabs(tap * value[older + t + j]);
                moved += fabs(tap) * error[older + t + j] + s->rounding->phi * fabs(value[older + t + j]);
            }
            const double off = moved + gamma_of(count + 1) * (size + moved) +
                               (double)(count + 1) * (s->rounding->omega + s->rounding->phi);
            rows->value[t * columns + c] = silu ? block_activation(ACTIVATION_SILU, sum) : sum;
            rows->error[t * columns + c] = !(size + moved <= FLT_MAX) ? INFINITY : silu ? silu_error(sum, off) : off;
        }
    }
}

/* Each piece of `width` numbers of a row normed, in place, times `gain` or gains: [width], the same for all pieces, or
 * of each piece its own */
static void norm_rows(struct sequence *s, struct made *rows, size_t width, double eps, const float *all, bool own,
                      double gain)
{
    const struct norm norm = {NORM_ROW_RMS, eps};
    struct norm_rounding rounding = *s->rounding;
    rounding.of_block = false;
    for (size_t at = 0; at < s->tokens * rows->columns; at += width) {
        double *const x = rows->value + at, *const error = rows->error + at;
        const float *const gains = own ? all + at % rows->columns : all;
        const struct norm_row by = norm_of(&norm, x, width);
        const struct norm_columns columns = {.x = x, .worst = error, .count = width};
        const struct norm_divided divided = s->bounds != NULL ? norm_divide(&norm, &rounding, &columns)
                                                              : (struct norm_divided){0};
        bool open = divided.open;
        for (size_t c = 0; s->bounds != NULL && c < width; c++) {
            const double factor = gains != NULL ? fabs((double)gains[c]) : gain;
            open = norm_error(&divided, &rounding, x[c], factor, 0, &error[c]) || open;
        }
        for (size_t c = 0; c < width; c++) {
            x[c] = x[c] / by.divisor * (gains != NULL ? (double)gains[c] : gain);
            error[c] = open ? INFINITY : error[c];
        }
    }
}

/* Decays -e^a_log dt, dt = ln(1 + e^(a + dt_b)) within its limits, and beta, dt or 1 / (1 + e^-b), in place */
static void make_shares(struct sequence *s)
{
    const float *const a_log = inputs_floats(s->in, TENSOR_A_LOG), *const dt_b = inputs_floats(s->in, TENSOR_DT_B);
    const struct layer *const l = s->layer;
    struct made *const g = &s->rule.decay, *const beta = &s->rule.beta;
    const size_t of_head = l->decay == DECAY_COLUMN ? (size_t)l->d_k : 1;
    for (size_t at = 0; at < s->tokens * g->columns; at++) {
        const size_t c = at % g->columns;
        const double a = g->value[at] + (double)dt_b[c], rate = exp((double)a_log[c / of_head]);
        const double log = log1p(exp(-fabs(a))), positive = (a > 0 ? a : 0) + log;
        const double inexact = log * (BOUND_SOFTPLUS + 2 * BOUND_U * fabs(a)) + 3 * BOUND_U * positive;
        const double off = g->error[at] + BOUND_U * (fabs(a) + g->error[at]);
        const double relative = 2 * BOUND_U * fabs((double)a_log[c / of_head]) + BOUND_EXP2;
        const double least = fmax(l->dt_min, positive), dt = l->dt_max > 0 ? fmin(l->dt_max, least) : least;
        const double error = off * (1 + BOUND_SOFTPLUS) + inexact + BOUND_U * l->dt_min + FLT_MIN;
        g->value[at] = -rate * dt;
        g->error[at] = rate * (1 + relative) * error + rate * dt * (relative + 3 * BOUND_U) + FLT_MIN;
        if (l->dt_values) {
            beta->value[at] = dt;
            beta->error[at] = error;
        }
    }
    for (size_t at = 0; layer_corrects(l) && at < s->tokens * beta->columns; at++) {
        const double share = 1 / (1 + exp(-beta->value[at])), scale = l->beta_scale;
        beta->value[at] = scale * share;
        beta->error[at] = scale * sigmoid_share_error(share, beta->error[at]) + BOUND_U * beta->value[at];
    }
}

/* Outputs of heads, or groups of their columns, normed */
static void norm_outputs(struct sequence *s)
{
    norm_rows(s, &s->rule.out, (size_t)layer_out_norm_width(s->layer), s->layer->out_norm_eps,
              inputs_floats(s->in, TENSOR_G_O), s->layer->out_norm_groups > 0, 1);
}

/* Outputs normed, times the activation of their gates, or the other way round */
static void gate_outputs(struct sequence *s)
{
    struct made *const z = &s->rule.out;
    if (s->layer->norm_before_gate)
        norm_outputs(s);
    for (size_t at = 0; at < s->tokens * z->columns; at++) {
        const bool silu = s->layer->out_gate == OUT_GATE_SILU;
        const double a = s->gates.value[at], share = 1 / (1 + exp(-a));
        const double gate = silu ? block_activation(ACTIVATION_SILU, a) : share;
        const double off = silu ? silu_error(a, s->gates.error[at]) : sigmoid_share_error(share, s->gates.error[at]);
        z->error[at] = z->error[at] * (fabs(gate) + off) + fabs(z->value[at]) * off +
                       2 * BOUND_U * fabs(z->value[at] * gate) + s->rounding->omega + s->rounding->phi;
        z->value[at] *= gate;
    }
    if (!s->layer->norm_before_gate)
        norm_outputs(s);
}

/* x W_first W + b; of rank 0 x W + b */
static struct made product_of_two(struct sequence *s, enum layer_tensor first, int64_t rank, enum layer_tensor w,
                                  enum layer_tensor b, int64_t columns)
{
    if (rank == 0)
        return product_of(s, w, b, columns);
    const struct made low = product_of(s, first, TENSOR_COUNT, rank);
    struct made to = make(s, (size_t)columns);
    multiply(s, &to, &low, w, b);
    return to;
}

/* What the recurrence reads: of the call, or made of x */
static void make_inputs(struct sequence *s)
{
    const struct layer *const l = s->layer;
    const int64_t decays = l->h_v * (l->decay == DECAY_COLUMN ? l->d_k : 1);
    struct recurrence *const r = &s->rule;
    if (l->projected) {
        r->q = given(s, TENSOR_Q, l->h * l->d_k);
        r->k = given(s, TENSOR_K, l->h_kv * l->d_k);
        r->v = given(s, TENSOR_V, l->h_v * l->d_v);
        if (layer_decays(l))
            r->decay = given(s, TENSOR_DECAY, decays);
        if (layer_corrects(l))
            r->beta = given(s, TENSOR_BETA, l->h_v);
        return;
    }
    s->x = read_rows(s);
    r->q = product_of(s, TENSOR_W_Q, TENSOR_B_Q, l->h * l->d_k);
    r->k = product_of(s, TENSOR_W_K, TENSOR_B_K, l->h_kv * l->d_k);
    r->v = product_of(s, TENSOR_W_V, TENSOR_B_V, l->h_v * l->d_v);
    if (layer_decays(l))
        r->decay = product_of_two(s, TENSOR_W_DA, l->decay_rank, TENSOR_W_A, TENSOR_B_A, decays);
    if (layer_corrects(l))
        r->beta = product_of(s, TENSOR_W_B, TENSOR_B_B, l->h_v);
    else if (l->dt_values)
        r->beta = make(s, (size_t)l->h_v);
    if (l->out_gate != OUT_GATE_NONE)
        s->gates = product_of_two(s, TENSOR_W_DZ, l->gate_rank, TENSOR_W_Z, TENSOR_B_Z, l->h_out * l->d_v);
}

/* From products of x to what the recurrence reads */
static void finish_inputs(struct sequence *s)
{
    const struct layer *const l = s->layer;
    struct recurrence *const r = &s->rule;
    make_shares(s);
    if (l->conv_taps > 0) {
        convolve(s, &r->q, TENSOR_CONV_Q, TENSOR_CONV_Q_B, 0);
        convolve(s, &r->k, TENSOR_CONV_K, TENSOR_CONV_K_B, r->q.columns);
        convolve(s, &r->v, TENSOR_CONV_V, TENSOR_CONV_V_B, r->q.columns + r->k.columns);
    }
    if (l->qk_norm != NORM_NONE) { /* x / sqrt(sum + eps) is x / sqrt(mean + eps / d) / sqrt(d) */
        const double d = (double)l->d_k;
        norm_rows(s, &r->q, (size_t)l->d_k, l->qk_norm_eps / d, NULL, false, 1 / sqrt(d));
        norm_rows(s, &r->k, (size_t)l->d_k, l->qk_norm_eps / d, NULL, false, 1 / sqrt(d));
    }
}

/* Rows of y_rows from those of all tokens */
static void keep_rows(struct sequence *s, const struct made *y)
{
    const struct rows *const rows = &s->reference->y_rows;
    for (size_t r = 0; r < rows->count && rows->row[r] < s->tokens; r++)
        for (size_t c = 0; c < y->columns; c++) {
            const size_t from = rows->row[r] * y->columns + c, to = (s->b * rows->count + r) * y->columns + c;
            reference_attention(s->reference)[to] = y->value[from];
            if (s->bounds == NULL)
                continue;
            s->bounds->y_worst[to] = y->error[from];
            s->bounds->y_open[to] = !(y->error[from] <= FLT_MAX);
        }
}

/* States, and the room for their errors */
static void take_states(struct sequence *s)
{
    const size_t count = (size_t)layer_state_numbers(s->layer);
    s->rule.state = s->reference->cache[0] + s->b * count;
    for (size_t at = 0; at < count; at++)
        s->rule.state[at] = inputs_number(s->layer, s->in, TENSOR_STATE, s->b * count + at);
    if (s->bounds != NULL)
        s->rule.state_error = s->bounds->cache[0].worst + s->b * count;
}

static void compute_sequence(struct sequence *s)
{
    const struct layer *const l = s->layer;
    const size_t history = (size_t)(l->conv_channels * l->conv_history);
    for (size_t at = s->b * history; at < (s->b + 1) * history; at++) /* what no token of the call changes */
        s->reference->cache[inputs_compared(l) - 1][at] = inputs_number(l, s->in, TENSOR_CONV_STATE, at);
    if (layer_is_convolution(l)) {
        struct made y = given(s, TENSOR_X, l->d_model);
        convolve(s, &y, TENSOR_CONV_X, TENSOR_B, 0);
        keep_rows(s, &y);
        return;
    }
    take_states(s);
    make_inputs(s);
    if (!l->projected)
        finish_inputs(s);
    s->rule.out = make(s, (size_t)(l->h_out * l->d_v));
    recurrence_run(&s->rule);
    if (l->projected) {
        keep_rows(s, &s->rule.out);
        return;
    }
    if (l->out_gate != OUT_GATE_NONE)
        gate_outputs(s);
    struct made y = make(s, (size_t)l->d_model);
    multiply(s, &y, &s->rule.out, TENSOR_W_O, TENSOR_B_O);
    keep_rows(s, &y);
}

void recurrent_compute(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                       const struct inputs *in, const struct norm_rounding *rounding)
{
    for (size_t b = 0; b < in->batch; b++) {
        struct sequence s = {.reference = reference, .bounds = bounds, .layer = layer, .in = in, .rounding = rounding,
                             .b = b, .tokens = inputs_keys(in, b)};
        s.rule = (struct recurrence){.layer = layer, .tokens = s.tokens, .bounds = bounds != NULL,
                                     .skip = inputs_floats(in, TENSOR_SKIP),
                                     .omega = rounding->omega, .phi = rounding->phi};
        compute_sequence(&s);
        pool_free(&s.pool);
    }
    const int parts = bounds != NULL ? inputs_compared(layer) : 0;
    for (int part = 0; part < parts; part++)
        for (size_t at = 0, count = inputs_count(layer, in, inputs_cache_of(layer, part)); at < count; at++)
            bounds->cache[part].open[at] = !(bounds->cache[part].worst[at] <= FLT_MAX);
}
