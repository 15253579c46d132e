/* SPDX-License-Identifier: MIT */
/* See recurrence.h. The bound, docs/bound.md, "States": errors of a column of S are carried from token to token by
 * (I - beta k k^T) D, D = diag(e^decay), whose norm is at most e_max max(1, |1 - beta |k|^2|), and what a token adds is
 * known from its own numbers. So one number for each column, the 2-norm of its error, is enough.
 */
#include "recurrence.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/memory.h"
#include "plan/rule.h"
#include "roundoff.h"

/* What a kernel has of a column of S behind a token, and how far that may be off, at most. Where the token is one of
 * several that go through S at once, what is summed stands on S before all of them: its size; the same by factors of at
 * least 1; the sizes of their u, of their factors' product, and of the largest key, both at least 1. */
struct path {
    double worst, size, grown, values, factors, keys;
};

/* The column behind a token, whether that went through S by itself or was the last of a chunk; and where it is the
 * first, the second, ... of one */
struct column {
    struct path path[LAYER_STATE_CHUNK + 1];
};

/* A token and one column. Squares, summed over rows: of roundings and what errors of factors make, and of these alone;
 * of decayed rows the sum and the norm, the norm of rows before; the largest row; of v its error, and v - k^T D S */
struct step {
    double rows, rows_read, sum, kept, norm, most, given, gap;
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
    double k_norm, e_most, moved_most; /* of a token: the norm of k, the largest of e and of e_error */
    size_t together, open; /* tokens that may go through S at once; of these, at most, those up to this token */
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
    s->e_most = s->moved_most = 0;
    for (size_t i = 0; i < s->d_k; i++) {
        s->e_most = fmax(s->e_most, s->e[i]);
        s->moved_most = fmax(s->moved_most, s->e_error[i]);
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

/* A token's rows of column j */
static struct step step_of(const struct state *s, size_t t, size_t j)
{
    struct step a = {.given = s->of->v.error[t * s->of->v.columns + s->s * s->d_v + j]};
    double squares = 0, kept_squares = 0;
    for (size_t i = 0; i < s->d_k; i++) {
        const double number = s->numbers[i * s->d_v + j], kept = s->e[i] * fabs(number);
        const double moved = s->e_error[i] * fabs(number);
        const double added = fabs(s->k[i] * s->u[j]); /* rounded where there is no fused multiply-add */
        const double next = fabs(s->e[i] * number + s->k[i] * s->u[j]);
        a.rows += square(BOUND_U * (kept + added + next) + moved + s->of->phi * (2 + fabs(s->u[j])) + 3 * s->of->omega);
        a.rows_read += square(moved);
        a.sum += kept;
        kept_squares += square(kept);
        squares += square(number);
        a.most = fmax(a.most, kept + added);
    }
    a.norm = sqrt(squares);
    a.kept = sqrt(kept_squares);
    if (layer_corrects(s->of->layer))
        a.gap = fabs(s->of->v.value[t * s->of->v.columns + s->s * s->d_v + j] - s->held[j]);
    return a;
}

/* Behind token t, which goes through S by itself, or as the next of several at once, whose numbers stand on S before
 * them; `before`: of what is in front of the token. */
static struct path behind(const struct state *s, const struct step *a, size_t j, const struct path *before, bool single)
{
    const bool corrects = layer_corrects(s->of->layer);
    const double k = s->k_norm, d_k = (double)s->d_k, root = sqrt(d_k), u = fabs(s->u[j]), beta = fabs(s->beta);
    const double share = beta + s->beta_error, e = s->e_most, omega = s->of->omega, phi = s->of->phi;
    const double gamma = gamma_of(s->d_k + 10 + (single ? 0 : 2 * s->together));
    const double carried = e * (corrects ? fmax(1, fabs(1 - s->beta * k * k)) : 1);
    struct path p = {.factors = fmax(1, e) * before->factors, .keys = fmax(k, before->keys)};
    p.size = e * before->size + k * u;
    p.grown = fmax(1, e) * before->grown + k * u;
    p.values = fmax(1, e) * before->values + u;
    /* products of factors near 0, and of keys, where tokens go together */
    const double under = single ? 0 : (double)s->together * (omega + phi) * p.grown;
    const double near = single ? 0 : (double)s->together * (phi * root + (2 * d_k + 3) * omega) * fmax(1, share) *
                                         (1 + p.grown + p.values);
    const double sizes = single ? s->held_size[j] : k * e * before->size + fabs(a->gap) + fabs(s->held[j]);
    const double held = sizes + k * e * before->worst;
    const double held_moved = s->held_moved[j] + k * s->moved_most * before->worst;
    const double read = !corrects ? share * a->given + s->beta_error * s->gap_size[j]
                                  : share * (s->held_moved[j] + a->given + k * under +
                                             s->k_error * (a->kept + e * before->worst)) + s->beta_error * a->gap;
    const double small = near + (corrects ? share * (phi * (1 + a->sum) + (d_k + 3) * omega) +
                                                phi * (s->gap_size[j] + held + held_moved) + omega
                                          : (share + s->gap_size[j]) * phi + omega);
    const double moved = !corrects ? read + small + (layer_has_beta(s->of->layer) ? BOUND_U : 0) * u
                                   : read + share * (gamma * (held + held_moved) + k * s->moved_most * before->worst +
                                                     3 * BOUND_U * a->gap) +
                                         s->beta_error * k * e * before->worst + small;
    const double again = s->moved_most + (single ? 3 * BOUND_U * e : 0);
    const double moves = u + (corrects ? beta * k * e * before->worst : 0); /* what k's error meets */
    p.worst = (carried + again) * before->worst + sqrt(single ? a->rows : a->rows_read) + under + near +
              (k + s->k_error) * moved + s->k_error * moves;
    /* f32 may overflow: in rows, in factors times keys, in sums before their decay, in v - k^T D S and in u */
    const double reach = p.factors * fmax(1, k) * (single ? 1 : p.keys * fmax(1, share)) *
                         fmax(1, fmax(a->norm, single ? 0 : p.grown) + before->worst);
    const double change = fmax(s->gap_size[j] + held, u) + moved;
    if (!(fmax(fmax(a->most, 2 * reach), change) + p.worst <= FLT_MAX))
        p.worst = INFINITY;
    return p;
}

/* What token t adds to the errors of S, and how those of before are carried; before S becomes that of t. As it is not
 * known which tokens of a call go together, the most of all ways counts. */
static void carry_errors(struct state *s, size_t t)
{
    const size_t last = s->together > 1 ? min_size(s->open + 1, s->together) : 0; /* of a chunk that t belongs to */
    for (size_t j = 0; j < s->d_v; j++) {
        struct path *const path = s->error[j].path;
        const struct step a = step_of(s, t, j);
        path[0].size = path[0].grown = a.norm;
        path[0].values = 0;
        path[0].factors = path[0].keys = 1;
        for (size_t c = last; c > 0; c--)
            path[c] = behind(s, &a, j, &path[c - 1], false);
        path[0] = behind(s, &a, j, &path[0], true);
        path[0].size = path[0].grown = path[0].factors = 0; /* of a token by itself rows are summed as they are */
        if (last < LAYER_STATE_CHUNK)
            continue;
        const struct path *const all = &path[last]; /* S behind the whole chunk: its rows are rounded now */
        const double roundings = 2 * (double)s->together + 3;
        path[0].worst = fmax(path[0].worst, all->worst + roundings * BOUND_U * all->size);
    }
    s->open = last;
}

static void update(struct state *s)
{
    for (size_t i = 0; i < s->d_k; i++)
        for (size_t j = 0; j < s->d_v; j++)
            s->numbers[i * s->d_v + j] = s->e[i] * s->numbers[i * s->d_v + j] + s->k[i] * s->u[j];
}

/* Outputs of the query heads of this state for token t, and their errors */
static void read_state(const struct state *s, size_t t)
{
    const struct recurrence *const of = s->of;
    const size_t h = (size_t)of->layer->h, h_v = (size_t)of->layer->h_v, h_out = (size_t)of->layer->h_out;
    const double scale = of->layer->scale, d_k = (double)s->d_k, most = fmax(1, fabs(scale));
    for (size_t o = s->s * (h_out / h_v); o < (s->s + 1) * (h_out / h_v); o++) {
        const size_t first = t * of->q.columns + o * h / h_out * s->d_k;
        const double *const q = of->q.value + first;
        const double q_norm = norm_of_vector(q, s->d_k), q_error = norm_of_vector(of->q.error + first, s->d_k);
        const double skip = of->skip != NULL ? (double)of->skip[o] : 0;
        for (size_t j = 0; j < s->d_v; j++) {
            const size_t at = t * of->out.columns + o * s->d_v + j;
            const size_t value = t * of->v.columns + s->s * s->d_v + j;
            const double added = skip * of->v.value[value];
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
            const double given = of->skip == NULL ? 0 : fabs(skip) * of->v.error[value] +
                                                        of->phi * (fabs(skip) + fabs(of->v.value[value]));
            const double last = (of->skip != NULL ? 4 : 3) * BOUND_U * fabs(scale * sum) + 2 * BOUND_U * fabs(added) +
                                given;
            double error = 0;
            for (size_t way = 0; way <= s->open; way++) { /* by itself, or as one of several tokens */
                const struct path *const p = &s->error[j].path[way];
                const double many = way > 0 ? (double)s->together : 0, gamma = gamma_of(s->d_k + 10 + 2 * (size_t)many);
                const double whole = fmax(size, q_norm * p->size), read = q_error * (sqrt(column) + p->worst);
                const double small = fabs(scale) * (of->phi * (sums + d_k) + d_k * of->omega) +
                                     (of->phi + of->omega) * (whole + q_norm * p->worst) + of->omega +
                                     many * most * (of->phi * sqrt(d_k) + (2 * d_k + 3) * of->omega) *
                                         (1 + (1 + q_norm) * p->grown + p->values);
                const double numbers = many * q_norm * p->factors * fmax(p->keys, p->grown);
                const double worst = q_norm * p->worst * (1 + gamma) + gamma * whole + read;
                const double reach = fmax(whole + q_norm * p->worst, numbers);
                const double all = fabs(scale) * worst + small + last;
                error = reach * most + fabs(added) + given + all <= FLT_MAX ? fmax(error, all) : INFINITY;
            }
            of->out.error[at] = error;
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
        s->of->state_error[first + at] = s->error[at % s->d_v].path[0].worst;
}

void recurrence_run(struct recurrence *of)
{
    const size_t d_k = (size_t)of->layer->d_k, d_v = (size_t)of->layer->d_v;
    HEAP double *const work = memory_get(2 * d_k + 5 * d_v, sizeof *work);
    HEAP struct column *const error = memory_get(d_v, sizeof *error);
    for (size_t i = 0; i < (size_t)of->layer->h_v; i++) {
        struct state s = {.of = of, .d_k = d_k, .d_v = d_v, .s = i, .numbers = of->state + i * d_k * d_v,
                          .together = (size_t)rule_chunk(of->layer, NULL), .e = work, .e_error = work + d_k,
                          .held = work + 2 * d_k, .error = error};
        s.held_size = s.held + d_v;
        s.held_moved = s.held_size + d_v;
        s.u = s.held_moved + d_v;
        s.gap_size = s.u + d_v;
        for (size_t j = 0; j < d_v; j++) /* a kernel may take subnormal numbers as 0 */
            error[j] = (struct column){.path = {{.worst = sqrt((double)d_k) * of->phi}}};
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
}
