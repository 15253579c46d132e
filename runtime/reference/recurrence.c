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
#include "roundoff.h"

#define CHUNK_ROUNDINGS 7 /* of a row of S, where two tokens go through it at once */

/* The error of a column of S, at most. Sizes of what a kernel sums where it takes two tokens at once: of the token
 * before, and up to this one; 0: no kernel does. */
struct column {
    double worst, before, whole;
    double norm; /* of S before the token before */
};

/* One state */
struct state {
    const struct recurrence *of;
    size_t d_k, d_v, s;    /* s: of the sequence's states */
    double *numbers;       /* [d_k][d_v] */
    double *e, *e_error;   /* [d_k] of a token: e^decay of each row; how far a kernel's may be from it */
    const double *k;       /* [d_k] of a token */
    double *held, *held_size; /* [d_v] k^T D S; the sizes of its products */
    double *held_moved;    /* [d_v] what errors of decays make of it */
    double *u;             /* [d_v] beta (v - k^T D S), or beta v */
    double *gap_size;      /* [d_v] of what beta multiplies: |v| + held_size */
    double beta, k_error, beta_error; /* of a token; k_error: the norm of k's error */
    double k_norm, k_before, e_before; /* of this token and the one before: the norm of k, the largest of e */
    bool in_pairs;         /* two tokens may go through S at once */
    struct column *error;  /* [d_v] */
};

static double norm_of_vector(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += square(x[i]);
    return sqrt(sum);
}

/* The numbers of token t */
static void read_token(struct state *s, size_t t)
{
    const struct recurrence *const of = s->of;
    const struct layer *const layer = of->layer;
    const size_t columns = layer->decay == DECAY_COLUMN ? s->d_k : 1;
    const size_t k = t * of->k.columns + s->s * (size_t)layer->h_kv / (size_t)layer->h_v * s->d_k;
    const size_t beta = t * of->beta.columns + s->s;
    s->k = of->k.value + k;
    s->k_norm = norm_of_vector(s->k, s->d_k);
    s->k_error = norm_of_vector(of->k.error + k, s->d_k);
    for (size_t i = 0; i < s->d_k; i++) {
        const size_t at = t * of->decay.columns + s->s * columns + i % columns;
        const double g = layer_decays(layer) ? of->decay.value[at] : 0;
        s->e[i] = exp(g);
        s->e_error[i] = !layer_decays(layer) ? 0 /* below f32's normal numbers it may be 0 */
                                             : s->e[i] * (expm1(of->decay.error[at]) + 2 * BOUND_U * fabs(g) +
                                                          BOUND_EXP2) +
                                                   (s->e[i] < 4 * FLT_MIN ? FLT_MIN : 0);
        if (isnan(s->e_error[i])) /* a decay that is anything, whose factor is 0 here */
            s->e_error[i] = INFINITY;
    }
    s->beta = layer_has_beta(layer) ? of->beta.value[beta] : 1;
    s->beta_error = layer_has_beta(layer) ? of->beta.error[beta] : 0;
}

/* held = k^T D S, u = beta (v - held) */
static void correct(struct state *s, size_t t)
{
    const size_t d_v = s->d_v;
    const bool corrects = layer_corrects(s->of->layer);
    double *const sums[] = {s->held, s->held_size, s->held_moved};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        memset(sums[i], 0, d_v * sizeof *sums[i]);
    for (size_t i = 0; corrects && i < s->d_k; i++)
        for (size_t j = 0; j < d_v; j++) {
            const double product = s->k[i] * s->e[i] * s->numbers[i * d_v + j];
            s->held[j] += product;
            s->held_size[j] += fabs(product);
            s->held_moved[j] += fabs(s->k[i] * s->e_error[i] * s->numbers[i * d_v + j]);
        }
    for (size_t j = 0; j < d_v; j++) {
        const double v = s->of->v.value[t * s->of->v.columns + s->s * d_v + j];
        s->gap_size[j] = fabs(v) + s->held_size[j];
        s->u[j] = layer_has_beta(s->of->layer) ? s->beta * (v - s->held[j]) : v;
    }
}

/* What token t adds to the errors of S, and how those of before are carried; before S becomes that of t */
static void carry_errors(struct state *s, size_t t)
{
    const bool corrects = layer_corrects(s->of->layer);
    const double k = s->k_norm, d_k = (double)s->d_k, beta = fabs(s->beta);
    const double gamma = gamma_of(s->d_k + 10), omega = s->of->omega, phi = s->of->phi;
    double e_most = 0, moved_most = 0;
    for (size_t i = 0; i < s->d_k; i++) {
        e_most = fmax(e_most, s->e[i]);
        moved_most = fmax(moved_most, s->e_error[i]);
    }
    const double reaches = fmax(1, k) * fmax(1, e_most) * fmax(1, s->k_before) * fmax(1, s->e_before);
    const double carried = e_most * (corrects ? fmax(1, fabs(1 - s->beta * k * k)) : 1);
    for (size_t j = 0; j < s->d_v; j++) {
        struct column *const c = &s->error[j];
        double rows = 0, most = 0; /* of rows: squares */
        double sums = 0, kept_squares = 0, squares = 0;
        for (size_t i = 0; i < s->d_k; i++) {
            const double number = s->numbers[i * s->d_v + j], kept = s->e[i] * fabs(number);
            const double moved = s->e_error[i] * fabs(number);
            const double added = fabs(s->k[i] * s->u[j]); /* rounded where there is no fused multiply-add */
            const double next = fabs(s->e[i] * number + s->k[i] * s->u[j]);
            rows += square(BOUND_U * (kept + added + next) + moved + phi * (2 + fabs(s->u[j])) + 3 * omega);
            sums += kept;
            kept_squares += square(kept);
            squares += square(number);
            most = fmax(most, kept + added);
        }
        /* the same of two tokens at once, where all is summed on top of the state before both */
        const double under = s->in_pairs ? (omega + phi) * c->norm : 0; /* of the product of both factors, near 0 */
        const double norm = sqrt(squares), pair = s->in_pairs ? fmax(c->before, norm) : 0, added = k * fabs(s->u[j]);
        c->whole = s->in_pairs ? e_most * pair + added : 0;
        rows = fmax(rows, square(CHUNK_ROUNDINGS * BOUND_U * c->whole + moved_most * pair + under +
                                 2 * sqrt(d_k) * (phi * (2 + fabs(s->u[j]) + pair) + 3 * omega)));
        c->before = e_most * norm + added;
        c->norm = norm;
        /* of the correction u: of what is read, and in all */
        const double given = s->of->v.error[t * s->of->v.columns + s->s * s->d_v + j];
        const double gap = corrects ? fabs(s->of->v.value[t * s->of->v.columns + s->s * s->d_v + j] - s->held[j]) : 0;
        const double held = fmax(s->held_size[j], k * e_most * pair) + k * e_most * c->worst;
        const double held_moved = fmax(s->held_moved[j], k * moved_most * pair) + k * moved_most * c->worst;
        const double share = beta + s->beta_error;
        const double read = !corrects ? share * given + s->beta_error * s->gap_size[j]
                                      : share * (s->held_moved[j] + given + k * under +
                                                 s->k_error * (sqrt(kept_squares) + e_most * c->worst)) +
                                            s->beta_error * gap;
        const double small = corrects ? share * (phi * (1 + sums + sqrt(d_k) * pair) + 2 * (d_k + 3) * omega) +
                                            phi * (s->gap_size[j] + held + held_moved) + omega
                                      : (share + s->gap_size[j]) * phi + omega;
        const double u = !corrects ? read + small + (layer_has_beta(s->of->layer) ? BOUND_U : 0) * fabs(s->u[j])
                                   : read + share * (gamma * (held + held_moved) + k * moved_most * c->worst +
                                                     3 * BOUND_U * gap) +
                                         s->beta_error * k * e_most * c->worst + small;
        const double again = 3 * BOUND_U * e_most + moved_most;
        const double moves = fabs(s->u[j]) + (corrects ? beta * k * e_most * c->worst : 0); /* what k's error meets */
        c->worst = (carried + again) * c->worst + sqrt(rows) + (k + s->k_error) * u + s->k_error * moves;
        /* f32 may overflow: in rows, in a factor times a key, in sums before their decay, in v - k^T D S and in u */
        const double reach = reaches * fmax(1, fmax(norm, pair) + c->worst);
        const double change = fmax(s->gap_size[j] + held, fabs(s->u[j])) + u;
        if (!(fmax(fmax(most, 2 * reach), change) + c->worst <= FLT_MAX))
            c->worst = INFINITY;
    }
}

static void update(struct state *s)
{
    s->k_before = s->in_pairs ? s->k_norm : 0;
    s->e_before = 0;
    for (size_t i = 0; s->in_pairs && i < s->d_k; i++)
        s->e_before = fmax(s->e_before, s->e[i]);
    for (size_t i = 0; i < s->d_k; i++)
        for (size_t j = 0; j < s->d_v; j++)
            s->numbers[i * s->d_v + j] = s->e[i] * s->numbers[i * s->d_v + j] + s->k[i] * s->u[j];
}

/* Outputs of the query heads of this state for token t, and their errors */
static void read_state(const struct state *s, size_t t)
{
    const struct recurrence *const of = s->of;
    const size_t h = (size_t)of->layer->h, h_v = (size_t)of->layer->h_v, h_out = (size_t)of->layer->h_out;
    const double scale = of->layer->scale, d_k = (double)s->d_k, gamma = gamma_of(s->d_k + 10);
    for (size_t o = s->s * (h_out / h_v); o < (s->s + 1) * (h_out / h_v); o++) {
        const size_t first = t * of->q.columns + o * h / h_out * s->d_k;
        const double *const q = of->q.value + first;
        const double q_norm = norm_of_vector(q, s->d_k), q_error = norm_of_vector(of->q.error + first, s->d_k);
        const double skip = of->skip != NULL ? (double)of->skip[o] : 0;
        for (size_t j = 0; j < s->d_v; j++) {
            const size_t at = t * of->out.columns + o * s->d_v + j;
            const size_t value = t * of->v.columns + s->s * s->d_v + j;
            const double added = skip * of->v.value[value];
            const struct column *const c = &s->error[j];
            double sum = 0, size = 0, column = 0, sums = 0;
            for (size_t i = 0; i < s->d_k; i++) {
                const double number = s->numbers[i * s->d_v + j], product = q[i] * number;
                sum += product;
                size += fabs(product);
                column += square(number);
                sums += fabs(number);
            }
            of->out.value[at] = scale * sum + added;
            if (!of->bounds)
                continue;
            const double read = q_error * (sqrt(column) + c->worst);
            const double whole = fmax(size, q_norm * c->whole);
            const double small = fabs(scale) * (of->phi * (sums + d_k) + d_k * of->omega) +
                                 (of->phi + of->omega) * (whole + q_norm * c->worst) + of->omega;
            const double given = of->skip == NULL ? 0 : fabs(skip) * of->v.error[value] +
                                                        of->phi * (fabs(skip) + fabs(of->v.value[value]));
            const double last = (of->skip != NULL ? 4 : 3) * BOUND_U * fabs(scale * sum) + 2 * BOUND_U * fabs(added) +
                                given + small;
            of->out.error[at] = fabs(scale) * (q_norm * c->worst * (1 + gamma) + gamma * whole + read) + last;
            const double keys = q_norm * fmax(s->k_norm, s->k_before); /* of pairs of tokens */
            const double reach = fmax(whole + q_norm * c->worst, s->in_pairs ? keys : 0) * fmax(1, fabs(scale));
            if (!(reach + fabs(added) + given + of->out.error[at] <= FLT_MAX))
                of->out.error[at] = INFINITY;
        }
    }
}

/* The state with the last `back` tokens of the call taken back, if that is one of the window's; and its errors, those
 * of a column as a whole, for each of its numbers */
static void keep_state(const struct state *s, size_t back)
{
    const size_t first = (back * (size_t)s->of->layer->h_v + s->s) * s->d_k * s->d_v;
    if (back > (size_t)s->of->layer->state_window)
        return;
    if (back > 0)
        memcpy(s->of->state + first, s->numbers, s->d_k * s->d_v * sizeof *s->numbers);
    for (size_t at = 0; s->of->bounds && at < s->d_k * s->d_v; at++)
        s->of->state_error[first + at] = s->error[at % s->d_v].worst;
}

void recurrence_run(struct recurrence *of)
{
    const size_t d_k = (size_t)of->layer->d_k, d_v = (size_t)of->layer->d_v;
    double *const work = memory_get(2 * d_k + 5 * d_v, sizeof *work);
    struct column *const error = memory_get(d_v, sizeof *error);
    for (size_t i = 0; i < (size_t)of->layer->h_v; i++) {
        struct state s = {.of = of, .d_k = d_k, .d_v = d_v, .s = i, .numbers = of->state + i * d_k * d_v,
                          .in_pairs = layer_takes_pairs(of->layer), .e = work, .e_error = work + d_k,
                          .held = work + 2 * d_k, .error = error};
        s.held_size = s.held + d_v;
        s.held_moved = s.held_size + d_v;
        s.u = s.held_moved + d_v;
        s.gap_size = s.u + d_v;
        for (size_t j = 0; j < d_v; j++) /* a kernel may take subnormal numbers as 0 */
            error[j] = (struct column){.worst = sqrt((double)d_k) * of->phi};
        keep_state(&s, of->tokens);
        for (size_t t = 0; t < of->tokens; t++) {
            read_token(&s, t);
            correct(&s, t);
            if (of->bounds)
                carry_errors(&s, t);
            update(&s);
            read_state(&s, t);
            keep_state(&s, of->tokens - 1 - t);
        }
    }
    free(work);
    free(error);
}
