/* SPDX-License-Identifier: MIT */
/* Recurrent layers and convolutions in the order of exact = portable: token by token, a column of a state by itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "portable_layer.h"
#include "portable_numbers.h"
#include "wide.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* The convolution of columns over tokens, then maybe silu, in place, and the states of the next call; `channel`: the
 * first column's */
static void convolve(struct run *run, float *rows, size_t columns, enum layer_tensor taps, enum layer_tensor biases,
                     size_t channel)
{
    const struct layer *layer = run->layer;
    const size_t count = (size_t)layer->conv_taps, history = (size_t)layer->conv_history, n = run->in->n;
    const size_t older = history > 0 ? history - (count - 1) : 0; /* of a window, not read */
    const float *const w = inputs_floats(run->in, taps), *const bias = inputs_floats(run->in, biases);
    const bool silu = !layer_is_convolution(layer) || layer->activation == ACTIVATION_SILU;
    void *const state = run->of->cache[inputs_compared(layer) - 1];
    float *const x = memory_get(n + history, sizeof *x);
    for (size_t at = 0; at < run->in->batch * columns; at++) {
        const size_t b = at / columns, c = at % columns, tokens = inputs_keys(run->in, b);
        const size_t first = (b * (size_t)layer->conv_channels + channel + c) * history;
        float *const column = rows + b * n * columns + c;
        for (size_t t = 0; t < history + tokens; t++)
            x[t] = t < history ? (float)inputs_number(layer, run->in, TENSOR_CONV_STATE, first + t)
                               : column[(t - history) * columns];
        for (size_t t = 0; t < history; t++)
            element_put(layer->cache_type, state, first + t, x[tokens + t]);
        for (size_t t = 0; t < tokens; t++) {
            float sum = bias != NULL ? fmaf(w[c * count], x[older + t], bias[c]) : w[c * count] * x[older + t];
            for (size_t j = 1; j < count; j++)
                sum = fmaf(w[c * count + j], x[older + t + j], sum);
            column[t * columns] = silu ? portable_silu(sum) : sum;
        }
    }
    free(x);
}

/* Pieces of `width` numbers over the root of `share` of their sum of squares + eps, in place; times gains: [width], the
 * same for all pieces, or [row] */
static void norm_pieces(float *rows, size_t count, size_t width, float share, double eps, const float *gains,
                        size_t row)
{
    for (size_t at = 0; at < count; at += width) {
        float squares[PLACES] = {0};
        for (size_t c = 0; c < width; c++)
            squares[c % PLACES] = fmaf(rows[at + c], rows[at + c], squares[c % PLACES]);
        const float factor = 1 / sqrtf(portable_sum(squares) * share + (float)eps);
        for (size_t c = 0; c < width; c++) {
            rows[at + c] = factor * rows[at + c];
            if (gains != NULL)
                rows[at + c] = rows[at + c] * gains[(at + c) % row];
        }
    }
}

/* ln(1 + e^a) */
static float softplus(float a)
{
    const float z = portable_power(larger(0 - a, a) * (float)-LOG2_E), s = z / (z + 2), w = s * s;
    float p = (float)(2.0 / 13);
    for (int k = 11; k >= 1; k -= 2)
        p = fmaf(p, w, (float)(2.0 / k));
    return fmaf(p, s, larger(0, a));
}

/* What the rule reads of a call: [rows][...] */
struct rule {
    float *q, *k, *v, *decay, *beta, *out;
};

/* Decays -e^a_log dt, and beta: dt, or beta_scale / (1 + e^-beta), in place */
static void make_shares(struct run *run, struct rule *r)
{
    const struct layer *layer = run->layer;
    const float *const a_log = inputs_floats(run->in, TENSOR_A_LOG), *const dt_b = inputs_floats(run->in, TENSOR_DT_B);
    const size_t of_head = layer->decay == DECAY_COLUMN ? (size_t)layer->d_k : 1;
    const size_t columns = (size_t)layer->h_v * of_head;
    for (size_t at = 0; r->decay != NULL && at < run->rows * columns; at++) {
        const size_t c = at % columns;
        float dt = softplus(r->decay[at] + dt_b[c]);
        dt = layer->dt_min > 0 ? larger((float)layer->dt_min, dt) : dt;
        dt = layer->dt_max > 0 ? smaller((float)layer->dt_max, dt) : dt;
        r->decay[at] = 0 - portable_power(a_log[c / of_head] * (float)LOG2_E) * dt;
        if (layer->dt_values)
            r->beta[at] = dt;
    }
    for (size_t at = 0; layer_corrects(layer) && at < run->rows * (size_t)layer->h_v; at++) {
        const float share = portable_sigmoid(r->beta[at]);
        r->beta[at] = layer->beta_scale != 1 ? (float)layer->beta_scale * share : share;
    }
}

/* from w_first w + b, or of rank 0 from w + b */
static float *product_of_two(struct run *run, enum layer_tensor first, int64_t rank, enum layer_tensor w,
                             enum layer_tensor b, size_t columns)
{
    const float *from = run->x;
    if (rank > 0)
        from = portable_project(run, from, run->rows, run->layer->d_model, first, TENSOR_COUNT, (size_t)rank, 1, 1);
    return portable_project(run, from, run->rows, rank > 0 ? rank : run->layer->d_model, w, b, columns, 1, 1);
}

static void make_inputs(struct run *run, struct rule *r)
{
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, h_v = (size_t)layer->h_v, d_k = (size_t)layer->d_k;
    const size_t values = h_v * (size_t)layer->d_v, decays = h_v * (layer->decay == DECAY_COLUMN ? d_k : 1);
    if (layer->projected) {
        r->q = portable_given(run, TENSOR_Q);
        r->k = portable_given(run, TENSOR_K);
        r->v = portable_given(run, TENSOR_V);
        r->decay = layer_decays(layer) ? portable_given(run, TENSOR_DECAY) : NULL;
        r->beta = layer_corrects(layer) ? portable_given(run, TENSOR_BETA) : NULL;
        return;
    }
    r->q = product_of_two(run, TENSOR_COUNT, 0, TENSOR_W_Q, TENSOR_B_Q, h * d_k);
    r->k = product_of_two(run, TENSOR_COUNT, 0, TENSOR_W_K, TENSOR_B_K, h_kv * d_k);
    r->v = product_of_two(run, TENSOR_COUNT, 0, TENSOR_W_V, TENSOR_B_V, values);
    if (layer_decays(layer))
        r->decay = product_of_two(run, TENSOR_W_DA, layer->decay_rank, TENSOR_W_A, TENSOR_B_A, decays);
    if (layer_corrects(layer))
        r->beta = product_of_two(run, TENSOR_COUNT, 0, TENSOR_W_B, TENSOR_B_B, h_v);
    else if (layer->dt_values)
        r->beta = portable_floats(run, run->rows * h_v);
    make_shares(run, r);
    if (layer->conv_taps > 0) {
        convolve(run, r->q, h * d_k, TENSOR_CONV_Q, TENSOR_CONV_Q_B, 0);
        convolve(run, r->k, h_kv * d_k, TENSOR_CONV_K, TENSOR_CONV_K_B, h * d_k);
        convolve(run, r->v, values, TENSOR_CONV_V, TENSOR_CONV_V_B, (h + h_kv) * d_k);
    }
    if (layer->qk_norm != NORM_NONE) {
        norm_pieces(r->q, run->rows * h * d_k, d_k, 1, layer->qk_norm_eps, NULL, 1);
        norm_pieces(r->k, run->rows * h_kv * d_k, d_k, 1, layer->qk_norm_eps, NULL, 1);
    }
}

/* S = e S + k u^T */
WIDE_FMA static void update(float *restrict state, const float *restrict e, const float *restrict k,
                            const float *restrict u, size_t d_k, size_t d_v)
{
    for (size_t i = 0; i < d_k; i++)
        for (size_t j = 0; j < d_v; j++)
            state[i * d_v + j] = fmaf(k[i], u[j], e[i] * state[i * d_v + j]);
}

/* Token `row` of state s, S [d_k][d_v] */
static void take_token(struct run *run, struct rule *r, size_t row, size_t s, float *state)
{
    const struct layer *layer = run->layer;
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, h_v = (size_t)layer->h_v;
    const size_t h_out = (size_t)layer->h_out, d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v;
    const bool columns = layer_decays(layer) && layer->decay == DECAY_COLUMN, corrects = layer_corrects(layer);
    const float *const k = r->k + (row * h_kv + s * h_kv / h_v) * d_k, *const v = r->v + (row * h_v + s) * d_v;
    float *const e = memory_get(2 * d_k + d_v, sizeof *e), *const held_by = e + d_k, *const u = held_by + d_k;
    for (size_t i = 0; i < d_k; i++) {
        const size_t at = columns ? (row * h_v + s) * d_k + i : row * h_v + s;
        e[i] = layer_decays(layer) ? portable_power(r->decay[at] * (float)LOG2_E) : 1;
        held_by[i] = columns ? e[i] * k[i] : k[i];
    }
    if (corrects)
        portable_multiply(u, d_v, held_by, d_k, state, 1, d_k, d_v);
    for (size_t j = 0; j < d_v; j++) {
        u[j] = corrects ? v[j] - (layer_decays(layer) && !columns ? e[0] * u[j] : u[j]) : v[j];
        u[j] = layer_has_beta(layer) ? r->beta[row * h_v + s] * u[j] : u[j];
    }
    update(state, e, k, u, d_k, d_v);
    for (size_t o = s * (h_out / h_v); o < (s + 1) * (h_out / h_v); o++) {
        float *const out = r->out + (row * h_out + o) * d_v;
        portable_multiply(out, d_v, r->q + (row * h + o * h / h_out) * d_k, d_k, state, 1, d_k, d_v);
        for (size_t j = 0; j < d_v; j++) {
            out[j] = (float)layer->scale * out[j];
            out[j] = layer->skip ? fmaf(inputs_floats(run->in, TENSOR_SKIP)[o], v[j], out[j]) : out[j];
        }
    }
    free(e);
}

/* All tokens of a state; its numbers after each of the last tokens, and before them, of a window */
static void take_sequence(struct run *run, struct rule *r, size_t b, size_t s)
{
    const struct layer *layer = run->layer;
    const size_t count = (size_t)(layer->d_k * layer->d_v), h_v = (size_t)layer->h_v, tokens = inputs_keys(run->in, b);
    const size_t first = b * (size_t)layer_state_numbers(layer) + s * count, window = (size_t)layer->state_window;
    float *const state = memory_get(count, sizeof *state);
    for (size_t at = 0; at < count; at++)
        state[at] = (float)inputs_number(layer, run->in, TENSOR_STATE, first + at);
    for (size_t t = 0; tokens > 0 && t <= tokens; t++) { /* t: taken so far */
        const size_t back = tokens - t;
        if (t > 0)
            take_token(run, r, b * run->in->n + t - 1, s, state);
        for (size_t at = 0; back <= window && at < count; at++)
            element_put(layer->cache_type, run->of->cache[0], first + back * h_v * count + at, state[at]);
    }
    free(state);
}

static void norm_outputs(struct run *run, float *z, size_t row)
{
    const struct layer *layer = run->layer;
    const size_t width = (size_t)layer_out_norm_width(layer);
    norm_pieces(z, run->rows * row, width, (float)(1 / (double)width), layer->out_norm_eps,
                inputs_floats(run->in, TENSOR_G_O), layer->out_norm_groups > 0 ? row : width);
}

float *portable_convolution(struct run *run)
{
    float *const rows = portable_given(run, TENSOR_X);
    convolve(run, rows, (size_t)run->layer->d_model, TENSOR_CONV_X, TENSOR_B, 0);
    return rows;
}

float *portable_recurrence(struct run *run)
{
    const struct layer *layer = run->layer;
    const size_t row = (size_t)(layer->h_out * layer->d_v);
    struct rule r = {.out = portable_floats(run, run->rows * row)};
    make_inputs(run, &r);
    for (size_t b = 0; b < run->in->batch; b++)
        for (size_t s = 0; s < (size_t)layer->h_v; s++)
            take_sequence(run, &r, b, s);
    if (layer->projected)
        return r.out;
    const bool gated = layer->out_gate != OUT_GATE_NONE;
    const float *gates = NULL;
    if (gated)
        gates = product_of_two(run, TENSOR_W_DZ, layer->gate_rank, TENSOR_W_Z, TENSOR_B_Z, row);
    if (gated && layer->norm_before_gate)
        norm_outputs(run, r.out, row);
    for (size_t at = 0; gated && at < run->rows * row; at++)
        r.out[at] = r.out[at] * (layer->out_gate == OUT_GATE_SILU ? portable_silu(gates[at])
                                                                  : portable_sigmoid(gates[at]));
    if (gated && !layer->norm_before_gate)
        norm_outputs(run, r.out, row);
    return portable_project(run, r.out, run->rows, (int64_t)row, TENSOR_W_O, TENSOR_B_O, (size_t)layer->d_out, 1, 1);
}
