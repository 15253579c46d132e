/* SPDX-License-Identifier: MIT */
/* See recurrence.h. The bound, docs/bound.md, "States": errors of a column of S are carried from token to token by
 * (I - beta k k^T) D, D = diag(e^decay), whose norm is at most e_max max(1, |1 - beta |k|^2|), and what a token adds is
 * known from its own numbers. So one number for each column, the 2-norm of its error, is enough.
 */
#include "recurrence.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bound.h"
#include "reference.h"
#include "roundoff.h"

/* Errors of a column of S: at most, and as a random walk whose steps are roundings; those of decays add up. */
struct column { double worst, walk, decays; };

/* One state of one sequence */
struct state {
    const struct layer *layer;
    const struct inputs *in;
    struct recurrence_rounding rounding;
    size_t d_k, d_v, b, s; /* s: of the sequence's states */
    double *numbers;       /* [d_k][d_v] */
    double *k, *q, *e, *e_error; /* [d_k] of a token; e: e^decay of each row; how far a kernel's may be from it */
    double *held, *held_size, *held_squares; /* [d_v] k^T D S; of its products the sizes, and the squares */
    double *held_moved;    /* [d_v] what errors of decays make of it */
    double *u;             /* [d_v] beta (v - k^T D S) */
    double *gap_size;      /* [d_v] of what beta multiplies: |v| + held_size */
    struct column *error;  /* [d_v]; NULL: no bounds are asked for */
};

static double number_of(const struct state *s, enum layer_tensor tensor, size_t at)
{
    return inputs_number(s->layer, s->in, tensor, at);
}

/* The numbers of token t */
static void read_token(struct state *s, size_t t, double *beta)
{
    const size_t h_kv = (size_t)s->layer->h_kv, h_v = (size_t)s->layer->h_v, row = s->b * s->in->n + t;
    const size_t decays = s->layer->decay == DECAY_COLUMN ? s->d_k : 1;
    for (size_t i = 0; i < s->d_k; i++) {
        const double g = layer_decays(s->layer)
                             ? number_of(s, TENSOR_DECAY, (row * h_v + s->s) * decays + i % decays) : 0;
        s->k[i] = number_of(s, TENSOR_K, (row * h_kv + s->s * h_kv / h_v) * s->d_k + i);
        s->e[i] = exp(g);
        s->e_error[i] = !layer_decays(s->layer) ? 0 /* below f32's normal numbers it may be 0 */
                                                : s->e[i] * (2 * BOUND_U * fabs(g) + BOUND_EXP2) +
                                                      (s->e[i] < 4 * FLT_MIN ? FLT_MIN : 0);
    }
    *beta = layer_corrects(s->layer) ? number_of(s, TENSOR_BETA, row * h_v + s->s) : 1;
}

/* held = k^T D S, u = beta (v - held) */
static void correct(struct state *s, size_t t, double beta)
{
    const size_t d_v = s->d_v, row = (s->b * s->in->n + t) * (size_t)s->layer->h_v + s->s;
    memset(s->held, 0, d_v * sizeof *s->held);
    memset(s->held_size, 0, d_v * sizeof *s->held_size);
    memset(s->held_squares, 0, d_v * sizeof *s->held_squares);
    memset(s->held_moved, 0, d_v * sizeof *s->held_moved);
    for (size_t i = 0; layer_corrects(s->layer) && i < s->d_k; i++)
        for (size_t j = 0; j < d_v; j++) {
            const double product = s->k[i] * s->e[i] * s->numbers[i * d_v + j];
            s->held[j] += product;
            s->held_size[j] += fabs(product);
            s->held_squares[j] += square(product);
            s->held_moved[j] += fabs(s->k[i] * s->e_error[i] * s->numbers[i * d_v + j]);
        }
    for (size_t j = 0; j < d_v; j++) {
        const double v = number_of(s, TENSOR_V, row * d_v + j);
        s->gap_size[j] = fabs(v) + s->held_size[j];
        s->u[j] = layer_corrects(s->layer) ? beta * (v - s->held[j]) : v;
    }
}

static double norm_of_vector(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += square(x[i]);
    return sqrt(sum);
}

/* What token t adds to the errors of S, and how those of before are carried; before S becomes that of t */
static void carry_errors(struct state *s, double beta)
{
    const double k = norm_of_vector(s->k, s->d_k), d_k = (double)s->d_k;
    const double gamma = gamma_of(s->d_k + 3), omega = s->rounding.omega, phi = s->rounding.phi;
    double e_most = 0, moved_most = 0;
    for (size_t i = 0; i < s->d_k; i++) {
        e_most = fmax(e_most, s->e[i]);
        moved_most = fmax(moved_most, s->e_error[i]);
    }
    const double carried = e_most * (layer_corrects(s->layer) ? fmax(1, fabs(1 - beta * k * k)) : 1);
    for (size_t j = 0; j < s->d_v; j++) {
        struct column *const c = &s->error[j];
        double rows = 0, rows_walk = 0, rows_decays = 0, sums = 0, squares = 0, most = 0; /* of rows: squares */
        for (size_t i = 0; i < s->d_k; i++) {
            const double kept = s->e[i] * fabs(s->numbers[i * s->d_v + j]);
            const double moved = s->e_error[i] * fabs(s->numbers[i * s->d_v + j]);
            const double added = fabs(s->k[i] * s->u[j]); /* rounded where there is no fused multiply-add */
            const double next = fabs(s->e[i] * s->numbers[i * s->d_v + j] + s->k[i] * s->u[j]);
            rows += square(BOUND_U * (kept + added + next) + moved + phi * (2 + fabs(s->u[j])) + 3 * omega);
            rows_walk += square(BOUND_U) * (square(kept) + square(added) + square(next));
            rows_decays += square(moved);
            sums += kept;
            squares += square(s->numbers[i * s->d_v + j]);
            most = fmax(most, kept + added);
        }
        /* of the correction u */
        const double held = s->held_size[j] + k * e_most * c->worst;
        const double held_moved = s->held_moved[j] + k * moved_most * c->worst;
        const double u = layer_corrects(s->layer)
            ? fabs(beta) * (gamma * (held + held_moved) + held_moved +
                            3 * BOUND_U * fabs(s->u[j] / (beta != 0 ? beta : 1)) +
                            phi * (1 + sums) + (d_k + 3) * omega) + phi * (s->gap_size[j] + held_moved) + omega
            : phi;
        const double u_walk = layer_corrects(s->layer)
            ? square(beta * BOUND_U) * d_k * (s->held_squares[j] + square(s->held[j])) + 3 * square(BOUND_U * s->u[j])
            : 0;
        const double u_decays = layer_corrects(s->layer) ? fabs(beta) * s->held_moved[j] : 0;
        const double again = 3 * BOUND_U * e_most + moved_most;
        c->worst = (carried + again) * c->worst + sqrt(rows) + k * u;
        c->walk = square(carried) * c->walk + rows_walk + square(k) * u_walk;
        c->decays = carried * c->decays + sqrt(rows_decays) + k * u_decays + sqrt(d_k) * (2 * phi + 3 * omega);
        /* f32 may overflow: in rows, in a factor times a key, in sums before their decay, in v - k^T D S and in u */
        const double reach = fmax(1, k) * fmax(1, e_most) * fmax(1, sqrt(squares) + c->worst);
        const double change = fmax(s->gap_size[j] + held, fabs(s->u[j])) + u;
        if (!(fmax(fmax(most, 2 * reach), change) + c->worst <= FLT_MAX))
            c->worst = c->walk = INFINITY;
    }
}

static void update(struct state *s)
{
    for (size_t i = 0; i < s->d_k; i++)
        for (size_t j = 0; j < s->d_v; j++)
            s->numbers[i * s->d_v + j] = s->e[i] * s->numbers[i * s->d_v + j] + s->k[i] * s->u[j];
}

/* Outputs of the query heads of this state for token t, to row `r` of y_rows, and their errors */
static void read_state(const struct state *s, const struct reference *reference, const struct bounds *bounds, size_t t,
                       size_t r)
{
    const size_t h = (size_t)s->layer->h, h_v = (size_t)s->layer->h_v, h_out = (size_t)s->layer->h_out;
    const size_t rows = reference->y_rows.count, each = h_out / h_v;
    const double scale = s->layer->scale, d_k = (double)s->d_k, gamma = gamma_of(s->d_k + 3);
    for (size_t o = s->s * each; o < (s->s + 1) * each; o++) {
        for (size_t i = 0; i < s->d_k; i++)
            s->q[i] = number_of(s, TENSOR_Q, ((s->b * s->in->n + t) * h + o * h / h_out) * s->d_k + i);
        const double q = norm_of_vector(s->q, s->d_k);
        for (size_t j = 0; j < s->d_v; j++) {
            const size_t at = ((s->b * rows + r) * h_out + o) * s->d_v + j;
            double sum = 0, size = 0, squares = 0, column = 0;
            for (size_t i = 0; i < s->d_k; i++) {
                const double product = s->q[i] * s->numbers[i * s->d_v + j];
                sum += product;
                size += fabs(product);
                squares += square(product);
                column += fabs(s->numbers[i * s->d_v + j]);
            }
            reference->y[at] = scale * sum;
            if (bounds == NULL)
                continue;
            const struct column *const c = &s->error[j];
            const double small = fabs(scale) * (s->rounding.phi * (column + d_k) + d_k * s->rounding.omega) +
                                 (s->rounding.phi + s->rounding.omega) * (size + q * c->worst) + s->rounding.omega;
            bounds->y_worst[at] = fabs(scale) * (q * c->worst * (1 + gamma) + gamma * size) +
                                  3 * BOUND_U * fabs(scale * sum) + small;
            const double walk = square(q) * c->walk + square(BOUND_U) * d_k * (squares + square(sum));
            bounds->y_drawn[at] = fabs(scale) * (BOUND_LAMBDA * sqrt(walk) + q * c->decays) +
                                  3 * BOUND_U * fabs(scale * sum) + small;
            bounds->y_drawn[at] = fmin(bounds->y_drawn[at], bounds->y_worst[at]);
            bounds->y_open[at] = !((size + q * c->worst) * fmax(1, fabs(scale)) <= FLT_MAX);
            if (bounds->y_open[at] != 0)
                bounds->y_drawn[at] = INFINITY;
        }
    }
}

/* The state after the call, and its errors: those of a column as a whole, for each of its numbers */
static void keep_state(const struct state *s, const struct reference *reference, const struct bounds *bounds)
{
    const size_t count = s->d_k * s->d_v, first = (s->b * (size_t)s->layer->h_v + s->s) * count;
    memcpy(reference->cache[0] + first, s->numbers, count * sizeof *s->numbers);
    for (size_t at = 0; bounds != NULL && at < count; at++) {
        const struct column *const c = &s->error[at % s->d_v];
        bounds->cache[0].worst[first + at] = c->worst;
        bounds->cache[0].drawn[first + at] = fmin(c->worst, BOUND_LAMBDA * sqrt(c->walk) + c->decays);
        bounds->cache[0].open[first + at] = !(c->worst <= FLT_MAX);
        if (bounds->cache[0].open[first + at] != 0)
            bounds->cache[0].drawn[first + at] = INFINITY;
    }
}

void recurrence_compute(const struct reference *reference, const struct bounds *bounds, const struct layer *layer,
                        const struct inputs *in, struct recurrence_rounding rounding)
{
    const size_t d_k = (size_t)layer->d_k, d_v = (size_t)layer->d_v, h_v = (size_t)layer->h_v;
    double *const work = memory_get(d_k * d_v + 4 * d_k + 6 * d_v, sizeof *work);
    struct column *const error = memory_get(d_v, sizeof *error);
    struct state s = {.layer = layer, .in = in, .rounding = rounding, .d_k = d_k, .d_v = d_v, .numbers = work};
    s.k = work + d_k * d_v;
    s.q = s.k + d_k;
    s.e = s.q + d_k;
    s.e_error = s.e + d_k;
    s.held = s.e_error + d_k;
    s.held_size = s.held + d_v;
    s.held_squares = s.held_size + d_v;
    s.held_moved = s.held_squares + d_v;
    s.u = s.held_moved + d_v;
    s.gap_size = s.u + d_v;
    s.error = error;
    for (s.b = 0; s.b < in->batch; s.b++)
        for (s.s = 0; s.s < h_v; s.s++) {
            for (size_t at = 0; at < d_k * d_v; at++)
                s.numbers[at] = inputs_number(layer, in, TENSOR_STATE, (s.b * h_v + s.s) * d_k * d_v + at);
            for (size_t j = 0; j < d_v; j++) /* a kernel may take subnormal numbers as 0 */
                error[j] = (struct column){.worst = sqrt((double)d_k) * rounding.phi};
            for (size_t t = 0, r = 0; t < inputs_keys(in, s.b); t++) {
                double beta;
                read_token(&s, t, &beta);
                correct(&s, t, beta);
                if (bounds != NULL)
                    carry_errors(&s, beta);
                update(&s);
                if (r < reference->y_rows.count && reference->y_rows.row[r] == t)
                    read_state(&s, reference, bounds, t, r++);
            }
            keep_state(&s, reference, bounds);
        }
    free(work);
    free(error);
}
