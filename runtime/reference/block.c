/* SPDX-License-Identifier: MIT */
/* docs/block.md's equations, without attention itself:
 *
 *   post      u = n1(x + att)                 y = n2(u + ffn(u))
 *   outputs   u = x + n1(att)                 y = u + n2(ffn(u))
 *   pre       u = x + att                     y = u + ffn(n2(u))          att of n1(x)
 *   parallel  y = (x + att) + ffn(n2(x))                                  att of n1(x); n2 may be n1
 *   sandwich  u = x + n2(att)                 y = u + n4(ffn(n3(u)))      att of n1(x)
 *
 * Each is a part of this sequence: norm of attention, add x, norm, norm, feed-forward, norm, add its input, norm.
 */
#include "block.h"

#include <math.h>
#include <string.h>

#include "product.h"
#include "stored.h"

#define PANEL 32 /* columns of a weight that are converted to double at a time */

struct block_norms block_norms(const struct layer *layer)
{
    const bool ffn = layer_has_ffn(layer);
    if (!layer_mixes(layer)) /* u is x */
        return (struct block_norms){.before_ffn = layer_norms_first(layer) ? 1 : 0, .ffn_of_x = true,
                                    .behind_ffn = layer_norms_outputs(layer) ? layer_norms(layer) : 0,
                                    .behind_both = layer->block == BLOCK_POST ? 1 : 0,
                                    .alone = !layer_has_block(layer)};
    switch (layer->block) {
    case BLOCK_POST:
        return (struct block_norms){.behind_sum = 1, .behind_both = ffn ? 2 : 0};
    case BLOCK_OUTPUTS:
        return (struct block_norms){.behind_attention = 1, .behind_ffn = ffn ? 2 : 0};
    case BLOCK_PRE:
        return (struct block_norms){.before_attention = layer->input_norm, .before_ffn = layer->input_norm ? 2 : 1};
    case BLOCK_PARALLEL:
        return (struct block_norms){.before_attention = 1, .before_ffn = layer->norm_shared ? 1 : 2, .ffn_of_x = true};
    case BLOCK_SANDWICH:
        return (struct block_norms){.before_attention = 1, .behind_attention = 2, .before_ffn = 3, .behind_ffn = 4};
    default:
        return (struct block_norms){0};
    }
}

/* ---- norms ----------------------------------------------------------------------------------------------------- */

struct norm block_norm(const struct layer *layer)
{
    return (struct norm){layer->block_rms ? NORM_ROW_RMS : NORM_ROW_LAYER, layer->norm_eps};
}

const float *block_gains(const struct inputs *in, int number)
{
    static const enum layer_tensor of[] = {TENSOR_N1_G, TENSOR_N2_G, TENSOR_N3_G, TENSOR_N4_G};
    return inputs_floats(in, of[number - 1]);
}

const float *block_shifts(const struct inputs *in, int number)
{
    static const enum layer_tensor of[] = {TENSOR_N1_B, TENSOR_N2_B, TENSOR_N3_B, TENSOR_N4_B};
    return inputs_floats(in, of[number - 1]);
}

void block_normalise(const struct layer *layer, const struct inputs *in, int number, const double *from,
                     size_t rows, double *to)
{
    const size_t d = (size_t)layer->d_model;
    const struct norm norm = block_norm(layer);
    if (number == 0) {
        memcpy(to, from, rows * d * sizeof *to);
        return;
    }
    const float *gains = block_gains(in, number), *shifts = block_shifts(in, number);
    for (size_t r = 0; r < rows; r++) {
        const struct norm_row by = norm_of(&norm, from + r * d, d);
        for (size_t c = 0; c < d; c++)
            to[r * d + c] = (from[r * d + c] - by.middle) / by.divisor * gains[c] + (shifts != NULL ? shifts[c] : 0);
    }
}

/* ---- activations ----------------------------------------------------------------------------------------------- */

#define ROOT_HALF 0.70710678118654752
#define ROOT_2_BY_PI 0.79788456080286536
#define GELU_CUBE 0.044715

/* At infinity its limit, as 0 times infinity would be NaN */
double block_activation(enum layer_activation activation, double a)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return a < 0 ? 0 : a; /* NaN stays */
    case ACTIVATION_GELU: /* not 1 + erf(x), which loses small numbers */
        return a < -50 ? 0 : 0.5 * a * erfc(-a * ROOT_HALF);
    case ACTIVATION_GELU_TANH: /* (1 + tanh(t)) / 2 = 1 / (1 + exp(-2 t)) */
        return a < -50 ? 0 : a / (1 + exp(-2 * ROOT_2_BY_PI * (a + GELU_CUBE * a * a * a)));
    case ACTIVATION_SILU:
        return a < -700 ? 0 : a / (1 + exp(-a));
    case ACTIVATION_QUICK_GELU:
        return block_activation(ACTIVATION_SILU, QUICK_GELU * a) / QUICK_GELU;
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-a));
    case ACTIVATION_RELU2:
        return a < 0 ? 0 : a * a;
    case ACTIVATION_TANH:
        return tanh(a);
    default:
        return a;
    }
}

/* number tanh(a / number); a if that is 0 */
static double block_cap(double number, double a) { return number == 0 ? a : number * tanh(a / number); }

double block_slope(enum layer_activation activation, double a)
{
    const double far = activation == ACTIVATION_SILU ? 700 : 50;
    if (activation == ACTIVATION_TANH)
        return 1 - tanh(a) * tanh(a);
    if (activation == ACTIVATION_NONE)
        return 1;
    if (activation == ACTIVATION_QUICK_GELU)
        return block_slope(ACTIVATION_SILU, QUICK_GELU * a);
    if (activation == ACTIVATION_SIGMOID)
        return exp(-fabs(a)) / ((1 + exp(-fabs(a))) * (1 + exp(-fabs(a))));
    if (activation == ACTIVATION_RELU2)
        return a > 0 ? 2 * a : 0;
    if (activation == ACTIVATION_RELU || fabs(a) > far)
        return a > 0;
    switch (activation) {
    case ACTIVATION_GELU:
        return 0.5 * erfc(-a * ROOT_HALF) + a * exp(-a * a / 2) * ROOT_2_BY_PI / 2;
    case ACTIVATION_GELU_TANH: {
        const double gate = 1 / (1 + exp(-2 * ROOT_2_BY_PI * (a + GELU_CUBE * a * a * a)));
        return gate + a * gate * (1 - gate) * 2 * ROOT_2_BY_PI * (1 + 3 * GELU_CUBE * a * a);
    }
    case ACTIVATION_SILU: {
        const double gate = 1 / (1 + exp(-a));
        return gate + a * gate * (1 - gate);
    }
    default:
        return 1;
    }
}

double block_gate(const struct layer *layer, double a)
{
    const double limit = layer->ffn_limit, alpha = layer->ffn_alpha;
    return limit == 0 ? block_activation(layer_activation(layer), a)
                      : block_activation(ACTIVATION_SILU, alpha * (a > limit ? limit : a)) / alpha; /* NaN stays */
}

double block_gate_slope(const struct layer *layer, double a)
{
    const double limit = layer->ffn_limit;
    return limit == 0 ? block_slope(layer_activation(layer), a)
                      : block_slope(ACTIVATION_SILU, layer->ffn_alpha * (a > limit ? limit : a));
}

double block_up(const struct layer *layer, double a)
{
    const double limit = layer->ffn_limit;
    return limit == 0 ? a : 1 + (a > limit ? limit : a < -limit ? -limit : a);
}

/* ---- products -------------------------------------------------------------------------------------------------- */

struct block_matrix block_matrix(const struct layer *layer, const struct inputs *in, enum layer_tensor tensor)
{
    const size_t d_model = (size_t)layer->d_model, d_ff = (size_t)layer->d_ff;
    const bool down = tensor == TENSOR_W_2;
    const float *packed = in->packed != NULL ? inputs_floats(in->packed, tensor) : NULL;
    if (tensor == TENSOR_W)
        return (struct block_matrix){inputs_floats(in, tensor), packed, d_model, (size_t)layer->d_out, layer->out_in,
                                     0};
    return (struct block_matrix){inputs_floats(in, tensor), packed, down ? d_ff : d_model, down ? d_model : d_ff,
                                 layer->out_in, 0};
}

/* panel [in][columns]: `columns` columns of the matrix from `first` on */
static void fill_panel(double *panel, const struct block_matrix *m, size_t first, size_t columns,
                       enum block_weight which)
{
    for (size_t k = 0; k < m->in; k++)
        for (size_t c = 0; c < columns; c++) {
            const size_t at = m->out_in ? (first + c) * m->in + k : k * m->columns + first + c;
            const double w = m->w[at], moved = m->packed != NULL ? fabs(m->packed[at] - w) : 0;
            panel[k * columns + c] = which == BLOCK_VALUE ? w
                                     : which == BLOCK_SIZE ? fabs(w) + moved + m->more : moved;
        }
}

void block_product(double *out, const double *a, size_t rows, const struct block_matrix *m, enum block_weight which)
{
    HEAP double *panel = memory_get(m->in * PANEL, sizeof *panel);
    for (size_t first = 0; first < m->columns; first += PANEL) {
        const size_t columns = m->columns - first < PANEL ? m->columns - first : PANEL;
        fill_panel(panel, m, first, columns, which);
        product_add(out + first, m->columns, a, m->in, panel, columns, rows, m->in, columns);
    }
}

/* out = a w + b */
static void affine(double *out, const double *a, size_t rows, const struct layer *layer, const struct inputs *in,
                   enum layer_tensor w, enum layer_tensor b)
{
    const struct block_matrix matrix = block_matrix(layer, in, w);
    const float *bias = inputs_floats(in, b);
    for (size_t at = 0; at < rows * matrix.columns; at++)
        out[at] = bias != NULL ? bias[at % matrix.columns] : 0;
    block_product(out, a, rows, &matrix, BLOCK_VALUE);
}

/* ---- a chunk --------------------------------------------------------------------------------------------------- */

struct block_chunk block_chunk_make(struct pool *pool, const struct layer *layer)
{
    const bool linear = layer_is_linear(layer), rounds = layer_rounds(layer);
    const size_t d = BLOCK_ROWS * (size_t)layer->d_model, d_out = BLOCK_ROWS * (size_t)layer->d_out;
    const size_t d_ff = linear ? d_out : BLOCK_ROWS * (size_t)layer->d_ff;
    struct block_chunk k = {0};
    double **const wide[] = {&k.x, &k.attention, &k.added, &k.sum, &k.u, &k.in};
    double **const out[] = {&k.ffn, &k.y, &k.more, &k.both};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        *wide[i] = pool_doubles(pool, d);
    for (size_t i = 0; i < (linear ? 2 : sizeof out / sizeof *out); i++)
        *out[i] = pool_doubles(pool, d_out);
    k.up = pool_doubles(pool, d_ff);
    k.gate = layer_ffn_gated(layer) ? pool_doubles(pool, d_ff) : k.up;
    k.hidden = pool_doubles(pool, d_ff);
    k.whole_in = rounds ? pool_doubles(pool, d) : k.in;
    k.whole_hidden = rounds ? pool_doubles(pool, d_ff) : k.hidden;
    return k;
}

static void add(double *to, const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = a[i] + b[i];
}

/* Rounds rows as a product reads them. */
static void round_rows(const struct layer *layer, const struct inputs *in, const double *from, double *to, size_t rows,
                       size_t columns)
{
    if (to == from)
        return;
    memcpy(to, from, rows * columns * sizeof *to);
    stored_rows(layer, in, to, rows, columns);
}

static void linear(struct block_chunk *k, const struct layer *layer, const struct inputs *in)
{
    round_rows(layer, in, k->in, k->whole_in, k->rows, (size_t)layer->d_model);
    affine(k->up, k->whole_in, k->rows, layer, in, TENSOR_W, TENSOR_B);
    for (size_t at = 0; at < k->rows * (size_t)layer->d_out; at++) {
        k->hidden[at] = block_gate(layer, k->up[at]);
        k->y[at] = k->ffn[at] = block_cap(layer->cap, k->hidden[at]);
    }
}

static void feed_forward(struct block_chunk *k, const struct layer *layer, const struct inputs *in)
{
    const bool gated = layer_ffn_gated(layer);
    round_rows(layer, in, k->in, k->whole_in, k->rows, (size_t)layer->d_model);
    affine(k->up, k->whole_in, k->rows, layer, in, TENSOR_W_1, TENSOR_B_1);
    if (gated)
        affine(k->gate, k->whole_in, k->rows, layer, in, TENSOR_W_G, TENSOR_B_G);
    for (size_t at = 0; at < k->rows * (size_t)layer->d_ff; at++)
        k->hidden[at] = block_gate(layer, k->gate[at]) * (gated ? block_up(layer, k->up[at]) : 1);
    round_rows(layer, in, k->hidden, k->whole_hidden, k->rows, (size_t)layer->d_ff);
    affine(k->ffn, k->whole_hidden, k->rows, layer, in, TENSOR_W_2, TENSOR_B_2);
}

void block_compute(struct block_chunk *k, const struct layer *layer, const struct inputs *in)
{
    const struct block_norms norms = block_norms(layer);
    const size_t count = k->rows * (size_t)layer->d_model;
    if (layer_mixes(layer)) {
        block_normalise(layer, in, norms.behind_attention, k->attention, k->rows, k->added);
        add(k->sum, k->x, k->added, count);
        block_normalise(layer, in, norms.behind_sum, k->sum, k->rows, k->u);
    } else {
        memcpy(k->u, k->x, count * sizeof *k->u);
    }
    if (!layer_has_ffn(layer) && layer_mixes(layer)) {
        memcpy(k->y, k->u, count * sizeof *k->y);
        return;
    }
    block_normalise(layer, in, norms.before_ffn, norms.ffn_of_x ? k->x : k->u, k->rows, k->in);
    if (layer_is_linear(layer)) {
        linear(k, layer, in);
        return;
    }
    feed_forward(k, layer, in);
    block_normalise(layer, in, norms.behind_ffn, k->ffn, k->rows, k->more);
    if (norms.alone)
        memcpy(k->both, k->more, count * sizeof *k->both);
    else
        add(k->both, k->u, k->more, count);
    block_normalise(layer, in, norms.behind_both, k->both, k->rows, k->y);
}
