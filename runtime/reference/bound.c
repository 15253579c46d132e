/* SPDX-License-Identifier: MIT */
/* The error of a kernel in f32 that rounds to nearest, propagated step by step beside the reference: docs/bound.md has
 * the equations and where they come from, docs/bound_block.md those of norms, rotation and blocks, docs/bound_types.md
 * those of narrow weights, rows and caches. Change both together.
 *
 * Their symbols are the names here: u = 2^-24 the unit roundoff of f32, gamma_K = K u / (1 - K u) that of a sum of K
 * products, omega the error of one underflow, phi that of reading a subnormal operand as 0; c = scale log2(e), as the
 * kernel works in base 2; q, k, v, z, t, a, y errors of c Q, K, V, Z, scores, weights and the output.
 */
#include "bound.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "block_error.h"
#include "finish_error.h"
#include "latent.h"
#include "product.h"
#include "propagation.h"
#include "recurrent.h"
#include "roundoff.h"
#include "stored.h"

static struct norm_rounding rounding_of(const struct propagation *p)
{
    return (struct norm_rounding){p->omega, p->phi, 1, true};
}

/* Errors of normed rows as integers */
static void round_normed(struct propagation *p, int norm, const double *x, size_t tokens)
{
    const struct layer *layer = p->plain;
    const size_t d = (size_t)layer->d_model, d_in = (size_t)layer->d_in_q;
    HEAP double *normed = memory_get(tokens * d, sizeof *normed), *whole = memory_get(tokens * d, sizeof *whole);
    block_normalise(layer, p->in, norm, x, tokens, normed);
    memcpy(whole, normed, tokens * d * sizeof *whole);
    stored_rows(layer, p->in, whole, tokens * d / d_in, d_in);
    if (p->exact.worst != NULL)
        memcpy(p->exact.worst, p->normed.worst, tokens * d * sizeof *normed);
    block_round_errors(layer, p->in, normed, whole, tokens * d / d_in, d_in, p->normed.worst);
}

/* Errors of x after the norm that a block has before attention; nothing without one */
static void make_normed(struct propagation *p, size_t rows)
{
    const struct layer *layer = p->plain;
    const struct norm_rounding rounding = rounding_of(p);
    const size_t d = (size_t)layer->d_model, tokens = p->in->batch * p->in->n, number = tokens * d;
    const int norm = block_norms(layer).before_attention;
    const size_t d_k = (size_t)layer->d_k, heads = (size_t)(layer->h > layer->h_kv ? layer->h : layer->h_kv);
    const bool rounds = layer_rounds_rows(layer);
    for (int keys = 0; layer->qk_norm == NORM_RMS_ALL && (norm > 0 || rounds) && keys < 2; keys++)
        p->all[keys] = pool_doubles(&p->work, max_size(rows, p->in->m) * heads * d_k);
    if (norm > 0 || rounds) /* without a norm a head's input is exact, except around the given weights */
        p->x = block_error_make(&p->work, rows, (size_t)layer->d_in_q);
    if (rounds || (norm > 0 && !layer->cross))
        p->s = block_error_make(&p->work, p->in->m, (size_t)layer->d_in_kv);
    if (norm == 0)
        return;
    HEAP double *x = memory_get(number, sizeof *x);
    for (size_t at = 0; at < number; at++)
        x[at] = inputs_number(p->plain, p->in, TENSOR_X, at);
    p->normed = block_error_make(&p->work, tokens, d);
    if (layer->identity && rounds)
        p->exact = block_error_make(&p->work, tokens, d);
    block_norm_errors(layer, p->in, &rounding, norm, x, tokens, &p->normed);
    if (rounds)
        round_normed(p, norm, x, tokens);
}

/* Columns `first` … of rows of sequence b of x; rows NULL: the first `count`. */
static void gather_operand(const struct propagation *p, struct block_error *to, const struct reference_head *head,
                           size_t first, size_t columns, const size_t *rows, size_t count)
{
    const size_t d = (size_t)p->plain->d_model;
    const double *const values = to == &p->s ? head->s : head->x;
    if (to->worst == NULL)
        return;
    if (p->normed.worst == NULL || (to == &p->s && p->plain->cross)) { /* exact, except around the given weights */
        memset(to->worst, 0, count * columns * sizeof *to->worst);
        block_round_errors(p->plain, p->in, values, values, count, columns, to->worst);
        return;
    }
    for (size_t r = 0; r < count; r++) {
        const size_t row = head->b * p->in->n + (rows != NULL ? rows[r] : r);
        to->open[r] = p->normed.open[row];
        memcpy(to->worst + r * columns, p->normed.worst + row * d + first, columns * sizeof *to->worst);
    }
}

/* The bounds of y, and of attn and lse where there are any */
static void make_bounds(struct propagation *p, size_t y, size_t attn, size_t lse)
{
    const struct layer *layer = p->plain;
    const size_t new = p->in->batch * (size_t)layer->h_kv * p->in->n;
    const size_t counts[] = {y, attn, lse, new * (size_t)layer->d_k, new * (size_t)layer->d_v};
    for (int i = 0; i < OUTPUT_CACHE + (layer_has_cache(layer) ? layer_cached_rows(layer) : 0); i++)
        p->bounds->of[i] = (struct bound_of){pool_doubles(p->lasting, counts[i]), pool_doubles(p->lasting, counts[i])};
}

/* The first head determines the sizes. */
static void make_all(struct propagation *p, const struct reference *reference)
{
    struct pool *const work = &p->work;
    const size_t rows = reference->z_rows.count, m = inputs_most_rows(p->plain, p->in);
    p->folded = folded_make(work, p->plain, p->folds, rows, m, p->phi);
    make_normed(p, rows);
    const struct layer *layer = p->layer = &p->folded.layer;
    const size_t d_k = max_size((size_t)layer->d_k, (size_t)layer->latent.d_head);
    const size_t d_v = max_size((size_t)layer->d_v, (size_t)layer->latent.d_value);
    const size_t d_in = max_size((size_t)layer->d_in_q, (size_t)layer->d_in_kv);
    const size_t merge = layer->w_o == W_O_CONV ? (size_t)(layer->conv_width * (layer->d_model / layer->h))
                                                : (size_t)layer->d_model;
    const size_t y = p->in->batch * reference->y_rows.count * (size_t)layer->d_out;
    const size_t lse = p->in->batch * (size_t)layer->h * rows, attn = lse * inputs_columns(p->plain, p->in);
    size_t a = max_size(max_size(rows, m) * d_in, rows * max_size(d_k, d_v));
    size_t b = max_size(max_size(d_in * max_size(d_k, d_v), d_v * merge), d_k * m);
    const size_t all_z = rows * (size_t)layer->h * d_v;
    if (layer_is_latent(layer)) {
        const size_t rank = (size_t)layer->latent.rank, q_rank = (size_t)layer->latent.q_rank;
        const size_t head = (size_t)layer->latent.d_head, value = (size_t)layer->latent.d_value;
        a = max_size(a, max_size(rows, m) * (d_in + q_rank + head + value + rank));
        b = max_size(b, (d_in + q_rank) * (q_rank + head + d_k) + rank * (head + value) + value * merge);
        pool_arrays(work, ARRAYS({&p->up, rows * value}, {&p->up_open, rows * value},
                                 {&p->stage, max_size(rows, m) * (q_rank + head + d_k)},
                                 {&p->stage_size, max_size(rows, m) * (q_rank + head + d_k + value)}));
        p->of_stage = block_error_make(work, max_size(rows, m), q_rank + head + rank);
        pool_arrays(work, ARRAYS({&p->no_bias, head + d_k + value}, {&p->made.k, m * head}, {&p->made.v, m * value},
                                 {&p->made.v_size, m * value}, {&p->made.zeros, rows}));
        p->made.open = pool_get(work, m, 1);
    }
    make_bounds(p, y, reference->attn != NULL ? attn : 0, reference->lse != NULL ? lse : 0);
    pool_arrays(work, ARRAYS(
        {&p->y_size, y},       {&p->absolute_a, a},   {&p->absolute_b, b},     {&p->q_size, rows * d_k},
        {&p->k_size, m * d_k}, {&p->v_size, m * d_v}, {&p->z_open, rows * d_v}, {&p->t_size, rows * m},
        {&p->t_worst, rows * m}, {&p->v_unit, m},     {&p->v_unit_least, m},   {&p->q_reach, rows},
        {&p->q, rows * d_k},   {&p->k, m * d_k},      {&p->v, m * d_v},        {&p->z, rows * d_v}));
    p->gates = pool_doubles(work, rows * (size_t)layer_gate_width(layer));
    p->gate_size = pool_doubles(work, rows * (size_t)layer_gate_width(layer));
    p->q_open = pool_get(work, rows, 1);
    p->k_open = pool_get(work, m, 1);
    p->v_open = pool_get(work, m, 1);
    for (int i = 0; p->in->packed != NULL && i < 2; i++)
        p->moved[i] = pool_doubles(work, b);
    if (layer_rounds_z(layer)) {
        p->heads.z = pool_doubles(work, all_z);
        p->heads.open = pool_doubles(work, all_z);
    }
}

static void fill(double *out, double value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = value;
}

/* A row of which one error is infinite or NaN, has no other; returns whether it is that. */
static bool spread_infinity(double *error, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite = finite && isfinite(error[i]);
    if (!finite)
        fill(error, INFINITY, count);
    return !finite;
}

static void absolutes(double *out, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = fabs(from[i]);
}

/* |operands| of a sum, whose size is multiplied by at least u; with phi, as each of them may be read as 0 */
static void sizes(const struct propagation *p, double *out, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = fabs(from[i]) + p->phi / U;
}

/* A projection a w + b; rows of a [in], of w [d]. w and b may be sizes: of them only |w| and |b| matter. */
struct projection {
    const double *a, *w, *b;
    size_t rows, in, d;
    const struct block_error *operand; /* errors of a, if it has any */
    const double *moved;      /* [in][d] how far packing moves w; NULL: as of these columns of the tensor */
    enum layer_tensor tensor; /* that has w, */
    size_t i, heads;          /* in the columns of head i */
    double factor;            /* of the sums; packed: multiplied into w beforehand */
    size_t roundings;         /* besides those of the sum, and two */
    bool packed;
};

/* size = |a||w| + |b|; moved: how far packing moves w, or NULL */
static void projection_size(struct propagation *p, double *size, const struct projection *of, const double *moved)
{
    sizes(p, p->absolute_a, of->a, of->rows * of->in);
    sizes(p, p->absolute_b, of->w, of->in * of->d);
    for (size_t at = 0; moved != NULL && at < of->in * of->d; at++)
        p->absolute_b[at] += moved[at];
    for (size_t r = 0; r < of->rows; r++)
        sizes(p, size + r * of->d, of->b, of->d);
    product_add(size, of->d, p->absolute_a, of->in, p->absolute_b, of->d, of->rows, of->in, of->d);
}

/* How far packing moves head i's columns of a projection, in `moved`, which has room for them; NULL: it does not */
static const double *moved_projection(const struct propagation *p, double *moved, const double *w,
                                      enum layer_tensor tensor, size_t in, size_t d, size_t i, size_t heads)
{
    if (p->in->packed == NULL)
        return NULL;
    reference_projection(moved, p->plain, inputs_floats(p->in->packed, tensor), in, d, i, heads);
    for (size_t at = 0; at < in * d; at++)
        moved[at] = fabs(moved[at] - w[at]);
    return moved;
}

/* Errors of factor * (a w + b); rows that may overflow on the way are opened, if `open` is not NULL. */
static void projection_error(struct propagation *p, double *error, double *size, const struct projection *of,
                             unsigned char *open)
{
    const size_t rows = of->rows, in = of->in, d = of->d;
    const double worst = gamma_of(in + 2 + of->roundings + block_more_roundings(p->plain)), factor = of->factor;
    const double large = fmax(1, factor), reach = (1 + worst) * fmax(inputs_spread(p->in, of->tensor), factor);
    const double *const moves = of->moved != NULL ? of->moved
                              : moved_projection(p, p->moved[0], of->w, of->tensor, in, d, of->i, of->heads);
    projection_size(p, size, of, moves);
    memset(error, 0, rows * d * sizeof *error);
    if (of->operand != NULL && of->operand->worst != NULL)
        product_add(error, d, of->operand->worst, in, p->absolute_b, d, rows, in, d);
    if (moves != NULL)
        product_add(error, d, p->absolute_a, in, moves, d, rows, in, d);
    for (size_t r = 0; r < rows; r++) {
        double denormal = (double)(in + 1);
        for (size_t k = 0; of->packed && k < in; k++)
            denormal += fabs(of->a[r * in + k]);
        denormal *= p->omega * large;
        denormal += block_small_scales(p->plain, p->in, of->tensor, of->a + r * in, 1, in, factor, p->omega);
        for (size_t at = r * d; at < (r + 1) * d; at++) {
            const double moved = error[at];
            size[at] += moved;
            error[at] = factor * (worst * size[at] + moved) + denormal;
        }
        if (open != NULL)
            open[r] |= overflows(size + r * d, reach, d) ||
                       (of->operand != NULL && of->operand->open != NULL && of->operand->open[r]);
    }
}

/* Number of products that one element of y sums */
static size_t merge_length(const struct layer *layer)
{
    return (size_t)(layer->w_o == W_O_CONV ? layer->conv_width * layer->d_v : layer->h * layer_z_width(layer));
}

/* gamma of the sum for one element of y: its products, the bias, the store, and H once. Each tap of a convolution is a
 * separate sum of pairs. */
static double merge_gamma(const struct propagation *p)
{
    const size_t taps = p->layer->w_o == W_O_CONV ? (size_t)p->layer->conv_width : 1;
    return gamma_of(merge_length(p->layer) + (p->folded.folds.values ? 3 : 2) + taps * block_more_roundings(p->plain));
}

/* The head's share of y_worst, y_size and y_open */
static void merge_errors(struct propagation *p, const struct reference *reference, const struct reference_head *head)
{
    const struct layer *layer = p->layer;
    const size_t d_v = (size_t)layer_z_width(layer), count = reference->z_rows.count * d_v;
    const size_t d_model = (size_t)layer->d_model;
    const size_t conv_columns = (size_t)layer->conv_width * (d_model / (size_t)layer->h);
    const size_t weights = d_v * (layer->w_o == W_O_CONV ? conv_columns : d_model);
    const size_t offset = head->b * reference->y_rows.count * (size_t)layer->d_out;
    const double rounding = layer->w_o == W_O_NONE ? 0 : merge_gamma(p);
    double *a = p->absolute_a, *w = p->absolute_b;
    if (layer->w_o != W_O_NONE)
        sizes(p, w, p->folded.folds.values ? p->folded.w_o_size : head->w_o, weights);
    const bool moves = layer->w_o != W_O_NONE && p->in->packed != NULL;
    if (moves)
        reference_output(p->moved[0], layer, inputs_floats(p->in->packed, TENSOR_W_O), head->i);
    for (size_t at = 0; moves && at < weights; at++) {
        p->moved[0][at] = fabs(p->moved[0][at] - head->w_o[at]);
        w[at] += p->moved[0][at];
    }
    for (size_t at = 0; at < count; at++)
        a[at] = p->z[at] + rounding * (fabs(head->z[at]) + p->z[at]);
    reference_merge(reference, layer, p->in, head->b, head->i, a, w, p->bounds->y_worst + offset);
    absolutes(a, head->z, count);
    if (moves)
        reference_merge(reference, layer, p->in, head->b, head->i, a, p->moved[0], p->bounds->y_worst + offset);
    reference_merge(reference, layer, p->in, head->b, head->i, a, w, p->y_size + offset);
    bool open = false;
    for (size_t at = 0; at < count; at++)
        open = open || p->z_open[at] != 0;
    if (!open)
        return;
    for (size_t at = 0; layer->w_o != W_O_NONE && at < weights; at++)
        w[at] = 1;
    reference_merge(reference, layer, p->in, head->b, head->i, p->z_open, w, p->bounds->y_open + offset);
}

/* Under precision W_O reads rounded rows of all heads, or under conv of each: keeps a head's errors, and after the last
 * head rounds them all. A number that may overflow opens its row. */
static void keep_errors(struct propagation *p, const struct reference_head *head, size_t rows)
{
    const struct layer *layer = p->plain;
    const size_t h = (size_t)layer->h, d_v = (size_t)layer->d_v, heads = layer->w_o == W_O_CONV ? h : 1;
    const size_t columns = h * d_v / heads;
    reference_keep_head(p->heads.z, p->z, layer, head->i, rows);
    reference_keep_head(p->heads.open, p->z_open, layer, head->i, rows);
    if (head->i + 1 < h)
        return;
    block_round_errors(layer, p->in, head->all_z, head->whole_z, rows * heads, columns, p->heads.z);
    p->heads.small = fmax(p->heads.small, block_small_scales(layer, p->in, TENSOR_W_O, head->whole_z, rows * heads,
                                                             columns, 1, p->omega));
    for (size_t r = 0; r < rows * heads; r++) {
        double *const open = p->heads.open + r * columns;
        double most = 0;
        for (size_t c = 0; c < columns; c++)
            most = fmax(most, open[c]);
        fill(open, most, columns);
        spread_infinity(p->heads.z + r * columns, columns);
    }
}

/* The same for all heads, once they are computed */
static void merge_all_errors(struct propagation *p, const struct reference *reference,
                             const struct reference_head *head)
{
    const size_t rows = reference->z_rows.count;
    struct reference_head of = *head;
    for (of.i = 0; of.i < (size_t)p->plain->h; of.i++) {
        reference_take_head(p->z, p->heads.z, p->plain, of.i, rows);
        reference_take_head(p->z_open, p->heads.open, p->plain, of.i, rows);
        reference_take_head(of.z, head->whole_z, p->plain, of.i, rows);
        reference_output(of.w_o, p->plain, inputs_floats(p->in, TENSOR_W_O), of.i);
        merge_errors(p, reference, &of);
    }
}

/* rms_all: what errors of x add to all heads' columns of queries, or of keys */
static void errors_of_all(struct propagation *p, const struct reference_head *head, bool keys, const size_t *rows,
                          size_t count)
{
    const struct layer *layer = p->plain;
    struct block_error *of = keys ? &p->s : &p->x;
    const size_t in = (size_t)(keys ? layer->d_in_kv : layer->d_in_q), d = (size_t)layer->d_k;
    const size_t heads = (size_t)(keys ? layer->h_kv : layer->h);
    const float *w = inputs_floats(p->in, keys && !layer->tied ? TENSOR_W_K : TENSOR_W_Q);
    const enum layer_tensor rows_of = keys && layer->cross ? TENSOR_SOURCE : TENSOR_X;
    const size_t tokens = keys ? p->in->m : p->in->n, row = (size_t)(keys ? layer->d_source : layer->d_model);
    struct reference_head other = *head;
    if (of->worst == NULL || p->all[keys] == NULL || head->i > 0)
        return;
    HEAP double *weights = memory_get(in * d, sizeof *weights), *input = memory_get(count * in, sizeof *input);
    other.x = other.s = layer->split ? input : keys ? head->s : head->x;
    memset(p->all[keys], 0, count * heads * d * sizeof *weights);
    for (size_t i = 0; i < heads; i++) {
        for (size_t at = 0; layer->split && at < count * in; at++) {
            const size_t token = head->b * tokens + (rows != NULL ? rows[at / in] : at / in);
            input[at] = inputs_number(layer, p->in, rows_of, token * row + i * in + at % in);
        }
        gather_operand(p, of, &other, layer->split ? i * in : 0, in, rows, count);
        reference_projection(weights, layer, w, in, d, i, heads);
        absolutes(weights, weights, in * d);
        product_add(p->all[keys] + i * d, heads * d, of->worst, in, weights, d, count, in, d);
    }
}

/* Norm and rotation of queries or keys, if the layer has any; rows of `error` lie `row` numbers apart. */
static void finish_row_errors(const struct propagation *p, const struct layer *layer, const struct finish *of,
                              double *error, size_t row, double factor, size_t depth, bool keys, unsigned char *open)
{
    const struct finish_error e = {.layer = layer, .of = of, .factor = factor, .omega = p->omega, .phi = p->phi,
                                   .depth = depth, .worst = error, .row = row, .all_worst = p->all[keys], .open = open};
    if (layer_finishes(layer))
        finish_errors(&e);
}

/* Given queries: normed, with c in the gains; or times c, where c and each product are rounded to f32 */
static void given_query_errors(struct propagation *p, const struct reference_head *head, size_t rows, double c)
{
    const size_t d_k = (size_t)p->layer->d_k;
    const bool norms = p->layer->qk_norm != NORM_NONE;
    fill(p->q, layer_finishes(p->layer) ? p->phi : 0, rows * d_k);
    memset(p->q_open, 0, rows);
    finish_row_errors(p, p->layer, &head->finish_q, p->q, d_k, norms ? c : 1, 0, false, p->q_open);
    sizes(p, p->q_size, head->q, rows * d_k);
    for (size_t at = 0; !norms && at < rows * d_k; at++) {
        p->q_size[at] += p->q[at];
        p->q[at] = c * (p->q[at] + gamma_of(2) * p->q_size[at]) + p->omega * fmax(1, c);
    }
    for (size_t r = 0; !norms && r < rows; r++)
        p->q_open[r] |= overflows(p->q_size + r * d_k, (1 + gamma_of(2)) * fmax(1, c), d_k);
}

/* Keys and values in a cache are exact, and so are rows of the source that are either, given values, and given keys
 * before norm and rotation. */
static void start_exact(struct propagation *p, size_t rows)
{
    fill(p->k, p->phi, rows * (size_t)p->layer->d_k);
    fill(p->v, p->phi, rows * (size_t)p->layer->d_v);
    memset(p->k_open, 0, rows);
    memset(p->v_open, 0, rows);
}

/* ---- latent attention ---- */

/* The first columns of rows [row] of errors become what the next product reads. */
static void stage_operand(struct propagation *p, const double *error, size_t row, size_t columns, size_t rows)
{
    memset(p->of_stage.open, 0, rows);
    for (size_t r = 0; r < rows; r++)
        memcpy(p->of_stage.worst + r * columns, error + r * row, columns * sizeof *error);
}

/* to [columns][rows] of from [rows][columns] */
static void turn_matrix(double *to, const double *from, size_t rows, size_t columns)
{
    for (size_t at = 0; at < rows * columns; at++)
        to[at] = from[at % rows * columns + at / rows];
}

/* c q' of a head: x W_DQ, its norm, W_Q, rotation, W_UK, each with the errors of what it reads; `expands`: c q_i */
static void latent_query_errors(struct propagation *p, const struct reference_head *head, const struct rows *of,
                                double c, bool expands)
{
    struct latent *const l = head->latent;
    const struct layer *layer = p->layer;
    const size_t rows = of->count, q_rank = (size_t)layer->latent.q_rank, from = (size_t)layer->latent.d_latent;
    const size_t d_head = (size_t)layer->latent.d_head, nope = (size_t)layer->latent.d_nope, d_k = (size_t)layer->d_k;
    const size_t rank = (size_t)layer->latent.rank, dims = (size_t)layer->rope.dims, h = (size_t)layer->h;
    const size_t d_model = (size_t)layer->d_model;
    gather_operand(p, &p->x, head, 0, d_model, of->row, rows);
    memset(p->q_open, 0, rows);
    const struct block_error *made = &p->x;
    if (q_rank > 0) {
        const struct projection down = {.a = head->x, .w = l->w_dq, .b = l->b_dq, .rows = rows, .in = d_model,
                                        .d = q_rank, .operand = &p->x, .tensor = TENSOR_W_DQ, .heads = 1, .factor = 1};
        projection_error(p, p->stage, p->stage_size, &down, p->q_open);
        finish_row_errors(p, &l->norm_q, &l->q, p->stage, q_rank, 1, down.in, false, p->q_open);
        stage_operand(p, p->stage, q_rank, q_rank, rows);
        made = &p->of_stage;
    }
    const struct projection heads = {.a = l->latent_q, .w = l->w_q, .b = p->no_bias, .rows = rows, .in = from,
                                     .d = d_head, .operand = made, .tensor = TENSOR_W_Q, .i = head->i, .heads = h,
                                     .factor = c, .roundings = 3, .packed = true};
    projection_error(p, p->stage, p->stage_size, &heads, p->q_open);
    finish_row_errors(p, &l->turn, &l->turn_q, p->stage + nope, d_head, c, from, false, p->q_open);
    if (expands) {
        memcpy(p->q, p->stage, rows * d_head * sizeof *p->q);
        return;
    }
    for (size_t at = 0; at < rows * dims; at++) {
        const size_t to = at / dims * d_k + rank + at % dims, of_head = at / dims * d_head + nope + at % dims;
        p->q[to] = p->stage[of_head];
        p->q_size[to] = p->stage_size[of_head];
    }
    double *const scaled = memory_get((rows + rank) * nope, sizeof *scaled), *const w = scaled + rows * nope;
    for (size_t at = 0; at < rows * nope; at++)
        scaled[at] = c * l->heads[at / nope * d_head + at % nope];
    turn_matrix(w, l->w_uk, rank, nope);
    const double *moved = moved_projection(p, p->moved[0], l->w_uk, TENSOR_W_UK, rank, nope, head->i, h);
    if (moved != NULL)
        turn_matrix(p->moved[1], moved, rank, nope);
    stage_operand(p, p->stage, d_head, nope, rows);
    const struct projection absorbed = {.a = scaled, .w = w, .b = p->no_bias, .rows = rows, .in = nope, .d = rank,
                                        .operand = &p->of_stage, .tensor = TENSOR_W_UK, .factor = 1,
                                        .moved = moved == NULL ? NULL : p->moved[1]};
    projection_error(p, p->stage, p->stage_size, &absorbed, p->q_open);
    for (size_t at = 0; at < rows * rank; at++) {
        p->q[at / rank * d_k + at % rank] = p->stage[at];
        p->q_size[at / rank * d_k + at % rank] = p->stage_size[at];
    }
    free(scaled);
}

/* [c, k_r]: x W_DKV, the norm of its first columns, rotation of the others */
static void latent_key_errors(struct propagation *p, const struct reference_head *head)
{
    struct latent *const l = head->latent;
    const size_t in = (size_t)p->layer->d_model, d_k = (size_t)p->layer->d_k, rank = (size_t)p->layer->latent.rank;
    const size_t cached = head->cached, fresh = head->keys - cached;
    double *const of_k = p->k + cached * d_k;
    const struct projection down = {.a = head->s, .w = l->w_dkv, .b = l->b_dkv, .rows = fresh, .in = in, .d = d_k,
                                    .operand = &p->s, .tensor = TENSOR_W_DKV, .heads = 1, .factor = 1};
    if (cached > 0)
        start_exact(p, cached);
    gather_operand(p, &p->s, head, 0, in, NULL, fresh);
    memset(p->k_open + cached, 0, fresh);
    projection_error(p, of_k, p->k_size + cached * d_k, &down, p->k_open + cached);
    finish_row_errors(p, &l->norm_kv, &l->kv, of_k, d_k, 1, in, true, p->k_open + cached);
    finish_row_errors(p, &l->turn, &l->turn_k, of_k + rank, d_k, 1, in, true, p->k_open + cached);
}

/* k_i and v_i of a head: latents times W_UK and W_UV, and the rotated part of keys */
static void made_errors(struct propagation *p, const struct reference_head *head)
{
    const struct latent *const l = head->latent;
    const struct layer *const layer = p->layer;
    const size_t d_k = (size_t)layer->d_k, rank = (size_t)layer->latent.rank, keys = head->keys;
    const size_t d_head = (size_t)layer->latent.d_head, nope = (size_t)layer->latent.d_nope;
    const size_t d_value = (size_t)layer->latent.d_value;
    const double widened = layer_scales_cache(layer) ? U : 0; /* a cached number times its scale */
    HEAP double *const c = memory_get(keys * d_k, sizeof *c), *const error = memory_get(keys * d_k, sizeof *error);
    for (size_t at = 0; at < keys * d_k; at++)
        error[at] = p->k[at] + widened * (fabs(head->k[at]) + p->k[at]);
    for (size_t at = 0; at < keys * rank; at++)
        c[at] = head->k[at / rank * d_k + at % rank];
    memcpy(p->made.open, p->k_open, keys);
    for (int values = 0; values < 2; values++) {
        const size_t d = values ? d_value : nope, row = values ? d_value : d_head;
        const struct projection up = {.a = c, .w = values ? l->w_uv : l->w_uk, .b = p->no_bias, .rows = keys,
                                      .in = rank, .d = d, .operand = &p->of_stage,
                                      .tensor = values ? TENSOR_W_UV : TENSOR_W_UK, .i = head->i,
                                      .heads = (size_t)layer->h, .factor = 1};
        stage_operand(p, error, d_k, rank, keys);
        projection_error(p, p->stage, p->stage_size, &up, p->made.open);
        for (size_t j = 0; j < keys; j++)
            memcpy((values ? p->made.v : p->made.k) + j * row, p->stage + j * d, d * sizeof *c);
    }
    memcpy(p->made.v_size, p->stage_size, keys * d_value * sizeof *c);
    for (size_t j = 0; j < keys; j++)
        memcpy(p->made.k + j * d_head + nope, error + j * d_k + rank, (d_head - nope) * sizeof *c);
}

/* A head with keys and values of its own: attention on them, to y */
static void expanded_errors(struct propagation *p, const struct reference *reference,
                            const struct reference_head *head, double c)
{
    struct layer layer = *p->layer;
    struct reference_head of = *head;
    struct propagation own;
    made_errors(p, head);
    own = *p;
    own.layer = &layer;
    layer.d_k = layer.latent.d_head;
    layer.d_v = layer.latent.d_value;
    layer.cache_type = TENSOR_F32;
    own.k = p->made.k;
    own.v = p->made.v;
    own.v_size = p->made.v_size;
    own.q_reach = p->made.zeros;
    own.k_open = own.v_open = p->made.open;
    of.q = head->latent->heads;
    of.k = head->latent->head_keys;
    of.v = head->latent->values;
    of.z = head->latent->up;
    propagation_scores(&own, &of, &reference->z_rows, c);
    propagation_attention(&own, reference, &of);
    merge_errors(&own, reference, &of);
}

/* z W_UV, of z with its errors, in place of z */
static void latent_sum_errors(struct propagation *p, const struct reference *reference,
                              const struct reference_head *head)
{
    const size_t rows = reference->z_rows.count, rank = (size_t)p->layer->d_v;
    const size_t d = (size_t)p->layer->latent.d_value;
    HEAP unsigned char *const overflow = memory_get(rows, 1);
    stage_operand(p, p->z, rank, rank, rows);
    const struct projection up = {.a = head->z, .w = head->latent->w_uv, .b = p->no_bias, .rows = rows, .in = rank,
                                  .d = d, .operand = &p->of_stage, .tensor = TENSOR_W_UV, .i = head->i,
                                  .heads = (size_t)p->layer->h, .factor = 1};
    projection_error(p, p->up, p->stage_size, &up, overflow);
    for (size_t r = 0; r < rows; r++) {
        double most = overflow[r];
        for (size_t c = 0; c < rank; c++)
            most = fmax(most, p->z_open[r * rank + c]);
        fill(p->up_open + r * d, most, d);
    }
}

/* c Q, packed with c; or with folded scores c Q', packed with c and W_K. */
static void query_errors(struct propagation *p, const struct reference_head *head, const struct rows *of, double c,
                         bool expands)
{
    const struct folded *folded = &p->folded;
    const bool fold = folded->folds.scores;
    const size_t rows = of->count, d_in = (size_t)p->layer->d_in_q;
    if (p->layer->projected) {
        given_query_errors(p, head, rows, c);
        return;
    }
    if (head->latent != NULL) {
        latent_query_errors(p, head, of, c, expands);
        return;
    }
    errors_of_all(p, head, false, of->row, rows);
    gather_operand(p, &p->x, head, p->layer->split ? head->i * d_in : 0, d_in, of->row, rows);
    const bool packed = p->layer->qk_norm == NORM_NONE; /* else c is in the gains */
    const struct projection q = {.a = head->x, .w = fold ? folded->w_q_size : head->w_q,
                                 .b = fold ? folded->b_q_size : head->b_q, .rows = rows,
                                 .in = (size_t)p->layer->d_in_q, .d = (size_t)p->layer->d_k, .operand = &p->x,
                                 .tensor = TENSOR_W_Q, .i = head->i, .heads = (size_t)p->layer->h,
                                 .factor = packed ? c : 1, .roundings = !packed ? 0 : fold ? 1 : 3, .packed = packed};
    memset(p->q_open, 0, rows);
    projection_error(p, p->q, p->q_size, &q, p->q_open);
    finish_row_errors(p, p->layer, &head->finish_q, p->q, q.d, c, q.in, false, p->q_open);
}

/* Keys or values that are normed rows of x; `d` columns of each, of which the last may be an indicator */
static void take_operand(const struct block_error *of, double *error, size_t rows, size_t in, size_t d)
{
    for (size_t r = 0; of->worst != NULL && r < rows; r++)
        memcpy(error + r * d, of->worst + r * in, in * sizeof *error);
}

/* Values that are the head's input, from column `first` on of its rows: normed rows of x, but never rounded ones */
static void take_values(const struct propagation *p, const struct reference_head *head, double *error, size_t rows,
                        size_t first)
{
    const size_t d = (size_t)p->layer->d_v, row = (size_t)p->plain->d_model;
    if (!layer_rounds_rows(p->plain))
        take_operand(&p->s, error, rows, (size_t)p->layer->d_in_kv, d);
    else if (p->exact.worst == NULL || p->plain->cross)
        fill(error, p->phi, rows * d);
    else
        for (size_t r = 0; r < rows; r++)
            memcpy(error + r * d, p->exact.worst + (head->b * p->in->n + r) * row + first, d * sizeof *error);
}

/* K and V, unless they are rows of the source; nothing is added for rows of a cache. */
static void key_value_errors(struct propagation *p, const struct reference_head *head)
{
    const size_t in = (size_t)p->layer->d_in_kv, cached = head->cached, fresh = head->keys - cached;
    const size_t d_k = (size_t)p->layer->d_k, d_v = (size_t)p->layer->d_v;
    const size_t h_kv = (size_t)p->layer->h_kv, i = head->i * h_kv / (size_t)p->layer->h;
    const enum layer_tensor w_k = p->layer->tied ? TENSOR_W_Q : TENSOR_W_K;
    const struct projection k = {.a = head->s, .w = head->w_k, .b = head->b_k, .rows = fresh, .in = in, .d = d_k,
                                 .operand = &p->s, .tensor = w_k, .i = i, .heads = h_kv, .factor = 1};
    const struct projection v = {.a = head->s, .w = head->w_v, .b = head->b_v, .rows = fresh, .in = in, .d = d_v,
                                 .operand = &p->s, .tensor = TENSOR_W_V, .i = i, .heads = h_kv, .factor = 1};
    double *const of_k = p->k + cached * d_k, *const of_v = p->v + cached * d_v;
    if (p->layer->projected || cached > 0)
        start_exact(p, p->layer->projected ? head->keys : cached);
    if (p->layer->projected) {
        finish_row_errors(p, p->layer, &head->finish_k, of_k, d_k, 1, 0, true, p->k_open + cached);
        return;
    }
    errors_of_all(p, head, true, NULL, fresh);
    gather_operand(p, &p->s, head, p->layer->split ? i * in : 0, in, NULL, fresh);
    if (p->folded.folds.scores)
        take_operand(&p->s, of_k, fresh, in, d_k);
    if (p->layer->identity)
        take_values(p, head, of_v, fresh, p->plain->split ? i * in : 0);
    for (size_t j = cached; j < head->keys; j++)
        p->k_open[j] = p->v_open[j] = p->s.open != NULL && p->s.open[j - cached];
    if (!p->folded.folds.scores)
        projection_error(p, of_k, p->k_size + cached * d_k, &k, p->k_open + cached);
    if (!p->layer->identity && !p->layer->shares)
        projection_error(p, of_v, p->v_size + cached * d_v, &v, p->v_open + cached);
    finish_row_errors(p, p->layer, &head->finish_k, of_k, d_k, 1, in, true, p->k_open + cached);
}

/* Errors of new keys and values after rounding to the cache's type: none, or a step where a midpoint between two
 * numbers is within reach */
static void round_errors(struct propagation *p, const struct reference_head *head)
{
    for (int values = 0; values < layer_cached_rows(p->layer); values++) {
        const size_t d = inputs_cache_width(p->layer, values);
        for (size_t j = head->cached; j < head->keys; j++) {
            const double *made = head->made[values] + (j - head->cached) * d;
            double *error = (values ? p->v : p->k) + j * d;
            unsigned char *open = (values ? p->v_open : p->k_open) + j;
            stored_row_error(p->layer->cache_type, made, error, error, d);
            for (size_t c = 0; c < d; c++) {
                *open |= !isfinite(error[c]) && isfinite(made[c]);
                error[c] += p->phi;
            }
        }
    }
}

/* Integer scores: errors of rows of queries, times c, or of keys, after rounding */
static void score_row_errors(struct propagation *p, double *error, const double *exact, const double *rounded,
                             size_t rows, double factor, unsigned char *open)
{
    const size_t d = (size_t)p->plain->d_k, count = rows * d;
    HEAP double *work = memory_get(2 * count, sizeof *work);
    for (size_t at = 0; at < count; at++) {
        work[at] = factor * exact[at];
        work[count + at] = factor * rounded[at];
    }
    block_whole_errors(p->in, (double)layer_score_levels(p->plain, p->in->pairs), work, work + count, rows, d, error);
    for (size_t r = 0; r < rows; r++)
        open[r] |= spread_infinity(error + r * d, d);
}

/* Errors of values after rounding for weighted sums, and bounds of their scales */
static void round_value_errors(struct propagation *p, const struct reference_head *head)
{
    const size_t d = (size_t)p->plain->d_v;
    const double levels = (double)layer_value_levels(p->plain, p->in->pairs);
    if (head->exact_v == NULL)
        return;
    for (size_t j = 0; j < head->keys; j++) {
        double most = 0x1p-100, least = 0x1p-100;
        for (size_t c = j * d; c < (j + 1) * d; c++) {
            most = fmax(most, fabs(head->exact_v[c]) + p->v[c]);
            least = fmax(least, fabs(head->exact_v[c]) - p->v[c]);
        }
        p->v_unit[j] = most / levels * (1 + 4 * U);
        p->v_unit_least[j] = least / levels * (1 - 4 * U);
    }
    block_whole_errors(p->in, levels, head->exact_v, head->v, head->keys, d, p->v);
    for (size_t j = 0; j < head->keys; j++)
        spread_infinity(p->v + j * d, d);
}

/* Errors of cache rows that the call writes; storing is exact. */
static void cache_errors(const struct propagation *p, const struct reference_head *head)
{
    const size_t h_kv = (size_t)p->layer->h_kv, i = head->i * h_kv / (size_t)p->layer->h;
    for (int values = 0; values < layer_cached_rows(p->layer); values++) {
        const size_t d = (size_t)(values ? p->layer->d_v : p->layer->d_k);
        const double *error = values ? p->v : p->k;
        for (size_t j = head->cached; j < head->keys; j++)
            for (size_t c = 0; c < d; c++) {
                const size_t to = ((head->b * h_kv + i) * p->in->n + j - head->cached) * d + c;
                p->bounds->cache[values].worst[to] = error[j * d + c];
                p->bounds->cache[values].open[to] = values ? p->v_open[j] : p->k_open[j];
            }
    }
}

/* w_v = keys: errors of values are those of the key's columns. */
static void share_errors(struct propagation *p, const struct reference_head *head)
{
    const size_t d_k = (size_t)p->layer->d_k, d_v = (size_t)p->layer->d_v;
    for (size_t j = 0; j < head->keys; j++) {
        memcpy(p->v + j * d_v, p->k + j * d_k, d_v * sizeof *p->v);
        p->v_open[j] = p->k_open[j];
    }
}

/* z times the sigmoid of its gates, whose sums have errors like those of keys. Where a sum may overflow, a gate may be
 * anything from 0 to 1, or NaN. */
static void gate_errors(struct propagation *p, const struct reference_head *head, size_t rows)
{
    const size_t in = (size_t)p->layer->d_in_q, d_v = (size_t)p->layer->d_v, width = (size_t)layer_gate_width(p->layer);
    const double reach = (1 + gamma_of(in + 2 + block_more_roundings(p->plain))) * inputs_spread(p->in, TENSOR_W_GATE);
    const struct projection gate = {.a = head->x, .w = head->w_gate, .b = head->b_gate, .rows = rows, .in = in,
                                    .d = width, .operand = &p->x, .tensor = TENSOR_W_GATE, .i = head->i,
                                    .heads = (size_t)p->layer->h, .factor = 1};
    projection_error(p, p->gates, p->gate_size, &gate, NULL);
    for (size_t at = 0; at < rows * d_v; at++) {
        const size_t from = width == d_v ? at : at / d_v;
        const double a = head->gates[from], share = isnan(a) ? 0 : 1 / (1 + exp(-a)), z = fabs(head->bare_z[at]);
        const bool any = z != 0 || p->z[at] != 0; /* else it is 0, whatever its gate */
        const bool open = any && (overflows(p->gate_size + from, reach, 1) ||
                                  (p->x.open != NULL && p->x.open[at / d_v]));
        const double rounded = share * (1 - share) * 2 * U * fabs(a); /* the exponential's argument */
        const double off = open ? 1 : fmin(1, sigmoid_share_error(share, p->gates[from]) + rounded);
        const double last = U * share * (z + p->z[at]) + p->omega + p->phi;
        p->z[at] = p->z[at] * fmin(1, share + off) + z * off + last;
        p->z_open[at] = fmax(p->z_open[at], open);
    }
}

static void observe(void *context, const struct reference *reference, const struct reference_head *plain)
{
    struct propagation *p = context;
    const size_t rows = reference->z_rows.count;
    const double c = fabs(p->plain->scale) * LOG2_E;
    if (p->bounds->y_worst == NULL) {
        make_all(p, reference);
        start_exact(p, inputs_most_rows(p->layer, p->in));
    }
    folded_see(&p->folded, plain, rows);
    const struct reference_head *head = &p->folded.head;
    const bool expands = head->latent != NULL &&
                         latent_expands(&p->folds.expands, p->in->n, inputs_past(p->in, head->b));
    query_errors(p, head, &reference->z_rows, c, expands);
    if (head->new_kv)
        (head->latent != NULL ? latent_key_errors : key_value_errors)(p, head);
    if (head->new_kv && layer_stores_cache(p->layer))
        round_errors(p, head);
    if (head->new_kv && layer_has_cache(p->layer))
        cache_errors(p, head);
    if (head->new_kv && p->layer->shares)
        share_errors(p, head);
    if (head->new_kv)
        round_value_errors(p, head);
    if (head->exact_q != NULL)
        score_row_errors(p, p->q, head->exact_q, head->q, rows, c, p->q_open);
    if (head->exact_q != NULL && head->new_kv)
        score_row_errors(p, p->k, head->exact_k, head->k, head->keys, 1, p->k_open);
    if (expands) {
        expanded_errors(p, reference, head, c);
        return;
    }
    propagation_scores(p, head, &reference->z_rows, c);
    if (head->bare_z != NULL) {
        struct reference_head bare = *head;
        bare.z = head->bare_z;
        propagation_attention(p, reference, &bare);
        gate_errors(p, head, rows);
    } else {
        propagation_attention(p, reference, head);
    }
    if (head->latent != NULL) {
        double *const z = p->z;
        double *const open = p->z_open;
        struct reference_head merged = *head;
        latent_sum_errors(p, reference, head);
        merged.z = head->latent->up;
        p->z = p->up;
        p->z_open = p->up_open;
        merge_errors(p, reference, &merged);
        p->z = z;
        p->z_open = open;
    } else if (head->all_z == NULL)
        merge_errors(p, reference, head);
    else
        keep_errors(p, head, rows);
    if (head->all_z != NULL && head->i + 1 == (size_t)p->plain->h)
        merge_all_errors(p, reference, head);
}

/* From attention's errors to those of y; without attention from zero errors */
static void block_tail_errors(const struct propagation *p, const struct reference *reference)
{
    const struct norm_rounding rounding = rounding_of(p);
    const size_t d = (size_t)p->plain->d_out, all = p->in->batch * reference->y_rows.count;
    const struct bounds *b = p->bounds;
    OWNED(pool_free) struct pool pool = {0};
    struct block_chunk chunk = block_chunk_make(&pool, p->plain);
    struct block_error e = block_error_make(&pool, BLOCK_ROWS, d);
    for (size_t first = 0; first < all; first += BLOCK_ROWS) {
        reference_chunk(reference, p->plain, p->in, first, &chunk);
        double most[BLOCK_ROWS] = {0}; /* the largest y_open of each row, as a norm mixes all of its columns */
        memset(e.open, 0, chunk.rows);
        for (size_t at = 0; at < chunk.rows * d; at++) {
            e.worst[at] = b->y_worst[first * d + at];
            e.open[at / d] |= b->y_open[first * d + at] != 0;
            most[at / d] = fmax(most[at / d], b->y_open[first * d + at]);
        }
        block_compute(&chunk, p->plain, p->in);
        block_errors(&chunk, p->plain, p->in, &rounding, &e);
        for (size_t at = 0; at < chunk.rows * d; at++) {
            b->y_worst[first * d + at] = e.worst[at];
            b->y_open[first * d + at] = e.open[at / d];
            if (isinf(most[at / d]))
                promise_nothing(b->y_worst, b->y_open, first * d + at);
        }
    }
}

/* Rows of padding have no errors. */
static void clear_errors(const struct propagation *p, const struct reference *reference)
{
    const struct layer *layer = p->plain;
    const size_t h = (size_t)layer->h, widths[] = {(size_t)layer->d_out, inputs_columns(layer, p->in), 1};
    for (int i = 0; i < OUTPUT_CACHE; i++)
        if (reference->of[i] != NULL) { /* else there are none, but no NULL */
            const struct rows *const rows = i == OUTPUT_Y ? &reference->y_rows : &reference->z_rows;
            reference_clear_padding(layer, p->in, rows, i == OUTPUT_Y ? 1 : h, widths[i], p->bounds->of[i].worst);
            reference_clear_padding(layer, p->in, rows, i == OUTPUT_Y ? 1 : h, widths[i], p->bounds->of[i].open);
        }
}

/* The reference again, with the errors of its states, and of a block around them */
static void state_errors(struct propagation *p, struct reference *reference)
{
    const struct norm_rounding rounding = rounding_of(p);
    for (int part = 0; part < inputs_compared(p->plain); part++) {
        const size_t count = inputs_count(p->plain, p->in, inputs_cache_of(p->plain, part));
        p->bounds->cache[part] = (struct bound_of){pool_doubles(p->lasting, count), pool_doubles(p->lasting, count)};
    }
    recurrent_compute(reference, p->bounds, p->plain, p->in, &rounding);
    if (layer_has_block(p->plain))
        block_tail_errors(p, reference);
}

/* Errors of the bias and the last sum, once all heads are merged; and of the block around them */
static void finish(struct propagation *p, const struct reference *reference)
{
    const struct layer *layer = p->layer;
    const size_t d_out = (size_t)layer->d_out, count = p->in->batch * reference->y_rows.count * d_out;
    const size_t length = merge_length(layer);
    const double worst = merge_gamma(p);
    const double taps = layer->w_o == W_O_CONV ? (double)layer->conv_width : 1;
    const double denormal = (double)(length + 1) * p->omega + taps * p->heads.small;
    const float *b_o = inputs_floats(p->in, TENSOR_B_O);
    for (size_t at = 0; at < count; at++) {
        const double bias = b_o != NULL ? fabs((double)b_o[at % d_out]) : 0, size = p->y_size[at] + bias;
        double *y_worst = &p->bounds->y_worst[at];
        if (layer->w_o != W_O_NONE)
            *y_worst += worst * bias + denormal;
        if (p->in->packed != NULL && layer->qk_norm == NORM_RMS_ALL)
            *y_worst = INFINITY;
        if (!((size + *y_worst) * inputs_spread(p->in, TENSOR_W_O) <= FLT_MAX))
            p->bounds->y_open[at] = fmax(p->bounds->y_open[at], 1);
    }
    if (layer_has_block(layer))
        block_tail_errors(p, reference);
}

/* Numbers that a kernel rounds once to tensor_type or cache_type become the rounded ones, and errors the distance to
 * other possible results. Numbers that may become infinite have no bound. */
static void round_numbers(enum tensor_element type, double *numbers, const struct bound_of *bound, size_t count)
{
    double *const worst = bound->worst, *const open = bound->open;
    for (size_t at = 0; at < count; at++) {
        const double seen = worst[at] != 0 ? DBL_MIN : 0; /* 0 is of hidden keys alone */
        const bool finite = isfinite(numbers[at]);
        stored_row_error(type, &numbers[at], &worst[at], &worst[at], 1);
        stored_row(type, &numbers[at], &numbers[at], 1);
        worst[at] = fmax(worst[at], seen);
        if (finite && !isfinite(worst[at]))
            open[at] = INFINITY;
    }
}

static void round_outputs(const struct propagation *p, const struct reference *reference)
{
    const struct layer *layer = p->plain;
    const struct bounds *b = p->bounds;
    const size_t y = p->in->batch * reference->y_rows.count * (size_t)layer->d_out;
    const size_t attn = p->in->batch * (size_t)layer->h * reference->z_rows.count * inputs_columns(layer, p->in);
    for (int part = 0; layer_rounds_states(layer) && part < inputs_compared(layer); part++)
        round_numbers(layer->cache_type, reference->cache[part], &b->cache[part],
                      inputs_count(layer, p->in, inputs_cache_of(layer, part)));
    if (layer_types_tensors(layer) && b->y_worst != NULL)
        round_numbers(layer->tensor_type, reference->y, &b->of[OUTPUT_Y], y);
    if (layer_types_tensors(layer) && reference->attn != NULL && b->attn_worst != NULL)
        round_numbers(layer->tensor_type, reference->attn, &b->of[OUTPUT_ATTN], attn);
}

/* Whether the calling thread computes with FTZ, or FZ on Arm. */
static bool flushes_to_zero(void)
{
    volatile float min = FLT_MIN, half;
    half = min / 2;
    return half == 0;
}

/* `given`: around the given weights, otherwise around the packed ones */
static void compute(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                    const struct inputs *inputs, struct folds folds, bool sample, bool given)
{
    const bool flushes = flushes_to_zero() || layer->precision == PRECISION_BF16; /* as dot products of bf16 do */
    struct inputs in;
    struct propagation p = {.plain = layer, .folds = folds, .in = &in, .bounds = bounds, .lasting = &reference->memory,
                            .omega = flushes ? 3 * (double)FLT_MIN : 0x1p-149, .phi = flushes ? FLT_MIN : 0};
    fenv_t callers;
    *bounds = (struct bounds){0};
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV); /* the reference keeps subnormal numbers and rounds to nearest, whatever kernels do */
    struct inputs packed = stored_make(&p.work, layer, inputs);
    in = given ? *inputs : packed;
    in.packed = given ? &packed : NULL;
    memcpy(in.unit, packed.unit, sizeof in.unit);
    reference_compute(reference, layer, &in, sample, observe, &p);
    if (!layer_attends(layer)) {
        make_bounds(&p, in.batch * reference->y_rows.count * (size_t)layer->d_out, 0, 0);
        if (layer_keeps_states(layer))
            state_errors(&p, reference);
        else
            block_tail_errors(&p, reference);
    } else if (bounds->y_worst != NULL) { /* an empty batch has no head */
        finish(&p, reference);
    }
    if (bounds->y_worst != NULL)
        clear_errors(&p, reference);
    round_outputs(&p, reference);
    fesetenv(&callers);
    pool_free(&p.work);
}

void bounds_compute(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                    const struct inputs *inputs, struct folds folds, bool sample)
{
    compute(reference, bounds, layer, inputs, folds, sample, false);
}

void bounds_compute_given(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                          const struct inputs *inputs, bool sample)
{
    compute(reference, bounds, layer, inputs, (struct folds){0}, sample, true);
}
