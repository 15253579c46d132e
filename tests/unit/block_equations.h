/* SPDX-License-Identifier: MIT */
/* The equations of a layer of self-attention by full heads and of the block around it, or of one without attention, for
 * one type of number: whoever includes this defines NUMBER, the type, OWN(name), what names begin with, and ERF, TANH,
 * EXP and ROOT. Included twice by test_block.c.
 *
 * Left out on purpose: speed.
 */
#define ROOMS 64 /* more than a block asks for */

static void *OWN(rooms)[ROOMS];
static size_t OWN(room_count);

struct OWN(of) {
    const struct layer *layer;
    const struct inputs *in;
    enum mutant mutant;
    int order;
};
static NUMBER *OWN(room)(size_t count)
{
    NUMBER *p = calloc(count + 1, sizeof *p);
    assert_true(p != NULL && OWN(room_count) < ROOMS);
    OWN(rooms)[OWN(room_count)++] = p;
    return p;
}

static void OWN(free)(void)
{
    while (OWN(room_count) > 0)
        free(OWN(rooms)[--OWN(room_count)]);
}

/* rows of a [in] times a matrix [in][out], plus a bias if there is one */
static NUMBER *OWN(affine)(const struct OWN(of) *k, const NUMBER *a, size_t rows, size_t inner, size_t columns,
                           enum layer_tensor w_of, enum layer_tensor b_of)
{
    const float *w = inputs_floats(k->in, w_of), *b = inputs_floats(k->in, b_of);
    NUMBER *out = OWN(room)(rows * columns);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            NUMBER sum[2] = {0, 0};
            for (size_t i = 0; i < inner; i++) {
                const size_t at = k->order == 1 ? inner - 1 - i : i;
                NUMBER *to = &sum[k->order == 2 ? i % 2 : 0];
                if (w_of == TENSOR_W_2 && k->mutant == LAST_COLUMN_DROPPED && at == inner - 1)
                    continue;
                *to += a[r * inner + at] * (NUMBER)w[k->layer->out_in ? c * inner + at : at * columns + c];
            }
            out[r * columns + c] = sum[0] + sum[1];
            if (b != NULL && !(b_of == TENSOR_B_2 && k->mutant == B_2_DROPPED))
                out[r * columns + c] += (NUMBER)b[c];
        }
    return out;
}

static NUMBER *OWN(norm)(const struct OWN(of) *k, const NUMBER *a, size_t rows, enum layer_tensor gain,
                         enum layer_tensor shift)
{
    const size_t d = (size_t)k->layer->d_model;
    const enum layer_tensor number = k->mutant == NORM_OF_FIRST_NUMBER ? TENSOR_N1_G : gain;
    const float *g = inputs_floats(k->in, number), *b = inputs_floats(k->in, shift);
    NUMBER *out = OWN(room)(rows * d);
    for (size_t r = 0; r < rows; r++) {
        NUMBER mean = 0, squares = 0;
        for (size_t c = 0; !k->layer->block_rms && k->mutant != MEAN_KEPT && c < d; c++)
            mean += a[r * d + c];
        mean /= (NUMBER)d;
        for (size_t c = 0; c < d; c++)
            squares += (a[r * d + c] - mean) * (a[r * d + c] - mean);
        const NUMBER eps = k->mutant == NO_EPS ? 0 : (NUMBER)k->layer->norm_eps;
        const NUMBER by = 1 / ROOT(squares / (NUMBER)d + eps);
        for (size_t c = 0; c < d; c++) {
            NUMBER *to = &out[r * d + c];
            *to = (a[r * d + c] - mean) * by;
            *to *= k->mutant == GAIN_DROPPED ? 1 : (NUMBER)g[c];
            *to += b == NULL || k->mutant == SHIFT_DROPPED ? 0 : (NUMBER)b[c];
        }
    }
    return out;
}

static NUMBER OWN(activation)(const struct OWN(of) *k, NUMBER a)
{
    const NUMBER cube = k->mutant == GELU_COEFFICIENT ? (NUMBER)0.02 : (NUMBER)0.044715;
    const NUMBER half = k->mutant == GELU_COEFFICIENT ? (NUMBER)0.6 : (NUMBER)0.70710678118654752440L;
    const NUMBER root = (NUMBER)0.79788456080286535588L;
    if (k->layer->kind != LAYER_ATTENTION && layer_activation(k->layer) == ACTIVATION_GELU_TANH)
        return a / (1 + EXP(-2 * root * (a + cube * a * a * a))); /* few others hide what that loses */
    switch (layer_activation(k->layer)) {
    case ACTIVATION_RELU: return a > 0 ? a : 0;
    case ACTIVATION_GELU: return a * ((1 + ERF(a * half)) / 2);
    case ACTIVATION_GELU_TANH: return a * ((1 + TANH(root * (a + cube * a * a * a))) / 2);
    case ACTIVATION_TANH: return TANH(a);
    case ACTIVATION_QUICK_GELU: return a / (1 + EXP(-(NUMBER)1.702L * a));
    case ACTIVATION_SIGMOID: return 1 / (1 + EXP(-a));
    case ACTIVATION_RELU2: return a > 0 ? a * a : 0;
    case ACTIVATION_NONE: return a;
    default: return a / (1 + EXP(-a));
    }
}

static NUMBER *OWN(ffn)(const struct OWN(of) *k, const NUMBER *u, size_t rows)
{
    const size_t d = (size_t)k->layer->d_model, d_ff = (size_t)k->layer->d_ff;
    const bool gated = layer_ffn_gated(k->layer), swapped = k->mutant == GATE_FOR_UP;
    NUMBER *up = OWN(affine)(k, u, rows, d, d_ff, TENSOR_W_1, TENSOR_B_1);
    NUMBER *gate = gated ? OWN(affine)(k, u, rows, d, d_ff, TENSOR_W_G, TENSOR_B_G) : NULL;
    const NUMBER limit = (NUMBER)k->layer->ffn_limit, alpha = (NUMBER)k->layer->ffn_alpha;
    for (size_t at = 0; at < rows * d_ff && limit > 0; at++) {
        const NUMBER g = swapped ? up[at] : gate[at], u = swapped ? gate[at] : up[at], cut = g < limit ? g : limit;
        up[at] = (1 + (u > limit ? limit : u < -limit ? -limit : u)) * cut / (1 + EXP(-alpha * cut));
    }
    for (size_t at = 0; at < rows * d_ff && limit == 0; at++)
        up[at] = !gated ? OWN(activation)(k, up[at])
                 : swapped ? OWN(activation)(k, up[at]) * gate[at] : OWN(activation)(k, gate[at]) * up[at];
    NUMBER *out = OWN(affine)(k, up, rows, d_ff, d, TENSOR_W_2, TENSOR_B_2);
    return out;
}

/* of all sequences' rows */
static NUMBER *OWN(attention)(const struct OWN(of) *k, const NUMBER *x)
{
    const struct layer *l = k->layer;
    const size_t n = k->in->n, rows = k->in->batch * n, h = (size_t)l->h, d = (size_t)l->d_k, width = h * d;
    NUMBER *q = OWN(affine)(k, x, rows, (size_t)l->d_model, width, TENSOR_W_Q, TENSOR_B_Q);
    NUMBER *keys = OWN(affine)(k, x, rows, (size_t)l->d_model, width, TENSOR_W_K, TENSOR_B_K);
    NUMBER *v = OWN(affine)(k, x, rows, (size_t)l->d_model, width, TENSOR_W_V, TENSOR_B_V);
    NUMBER *z = OWN(room)(rows * width), *p = OWN(room)(n);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < h; i++) {
            const size_t first = r / n * n, seen = (l->mask & MASK_CAUSAL) != 0 ? r - first + 1 : n;
            NUMBER sum = 0, most = -INFINITY;
            for (size_t j = 0; j < seen; j++) {
                p[j] = 0;
                for (size_t c = i * d; c < (i + 1) * d; c++)
                    p[j] += q[r * width + c] * keys[(first + j) * width + c];
                p[j] *= (NUMBER)l->scale;
                most = p[j] > most ? p[j] : most;
            }
            for (size_t j = 0; j < seen; j++) {
                p[j] = EXP(p[j] - most);
                sum += p[j];
            }
            for (size_t j = 0; j < seen; j++)
                for (size_t c = i * d; c < (i + 1) * d; c++)
                    z[r * width + c] += p[j] / sum * v[(first + j) * width + c];
        }
    NUMBER *out = OWN(affine)(k, z, rows, width, (size_t)l->d_model, TENSOR_W_O, TENSOR_B_O);
    return out;
}

static NUMBER *OWN(sum)(const struct OWN(of) *k, const NUMBER *a, const NUMBER *b)
{
    const size_t count = k->in->batch * k->in->n * (size_t)k->layer->d_model;
    NUMBER *out = OWN(room)(count);
    for (size_t at = 0; at < count; at++)
        out[at] = k->mutant == RESIDUAL_DROPPED ? b[at] : a[at] + b[at];
    return out;
}

/* A layer without attention */
static NUMBER *OWN(alone)(const struct OWN(of) *k, const NUMBER *x, size_t rows)
{
    const struct layer *l = k->layer;
    const bool norms = l->row_norm || l->block == BLOCK_PRE || l->block == BLOCK_SANDWICH;
    const NUMBER *u = norms ? OWN(norm)(k, x, rows, TENSOR_N1_G, TENSOR_N1_B) : x, cap = (NUMBER)l->cap;
    if (l->kind == LAYER_LINEAR) {
        NUMBER *y = OWN(affine)(k, u, rows, (size_t)l->d_model, (size_t)l->d_out, TENSOR_W, TENSOR_B);
        for (size_t at = 0; at < rows * (size_t)l->d_out; at++) {
            y[at] = OWN(activation)(k, y[at]);
            y[at] = cap != 0 ? cap * TANH(y[at] / cap) : y[at];
        }
        return y;
    }
    NUMBER *f = OWN(ffn)(k, u, rows);
    switch (l->block) {
    case BLOCK_NONE: return f;
    case BLOCK_POST: return OWN(norm)(k, OWN(sum)(k, x, f), rows, TENSOR_N1_G, TENSOR_N1_B);
    case BLOCK_PRE: return OWN(sum)(k, x, f);
    case BLOCK_OUTPUTS: return OWN(sum)(k, x, OWN(norm)(k, f, rows, TENSOR_N1_G, TENSOR_N1_B));
    default: return OWN(sum)(k, x, OWN(norm)(k, f, rows, TENSOR_N2_G, TENSOR_N2_B));
    }
}

/* y, good until OWN(free)() */
static NUMBER *OWN(block)(const struct OWN(of) *k)
{
    const size_t rows = k->in->batch * k->in->n, count = rows * (size_t)k->layer->d_model;
    const bool ffn = k->layer->ffn != FFN_NONE;
    NUMBER *x = OWN(room)(count), *u, *t, *f, *n1 = NULL;
    for (size_t at = 0; at < count; at++)
        x[at] = (NUMBER)inputs_floats(k->in, TENSOR_X)[at];
    if (k->layer->kind != LAYER_ATTENTION)
        return OWN(alone)(k, x, rows);
    if (k->layer->block != BLOCK_POST && k->layer->block != BLOCK_OUTPUTS)
        n1 = OWN(norm)(k, x, rows, TENSOR_N1_G, TENSOR_N1_B);
    switch (k->layer->block) {
    case BLOCK_POST:
        u = OWN(sum)(k, x, OWN(attention)(k, x));
        u = k->mutant == SUM_NOT_NORMED ? u : OWN(norm)(k, u, rows, TENSOR_N1_G, TENSOR_N1_B);
        return !ffn ? u : OWN(norm)(k, OWN(sum)(k, u, OWN(ffn)(k, u, rows)), rows, TENSOR_N2_G, TENSOR_N2_B);
    case BLOCK_OUTPUTS:
        u = OWN(sum)(k, x, OWN(norm)(k, OWN(attention)(k, x), rows, TENSOR_N1_G, TENSOR_N1_B));
        return !ffn ? u : OWN(sum)(k, u, OWN(norm)(k, OWN(ffn)(k, u, rows), rows, TENSOR_N2_G, TENSOR_N2_B));
    case BLOCK_PRE:
        if (!k->layer->input_norm) {
            u = OWN(sum)(k, x, OWN(attention)(k, x));
            return OWN(sum)(k, u, OWN(ffn)(k, OWN(norm)(k, u, rows, TENSOR_N1_G, TENSOR_N1_B), rows));
        }
        u = OWN(sum)(k, x, OWN(attention)(k, n1));
        if (!ffn)
            return u;
        t = OWN(norm)(k, u, rows, TENSOR_N2_G, TENSOR_N2_B);
        if (k->mutant == NORM_TWICE)
            t = OWN(norm)(k, t, rows, TENSOR_N2_G, TENSOR_N2_B);
        return OWN(sum)(k, u, OWN(ffn)(k, t, rows));
    case BLOCK_PARALLEL:
        u = OWN(sum)(k, x, OWN(attention)(k, n1));
        if (!ffn)
            return u;
        t = k->layer->norm_shared ? n1 : OWN(norm)(k, x, rows, TENSOR_N2_G, TENSOR_N2_B);
        return OWN(sum)(k, u, OWN(ffn)(k, t, rows));
    default:
        u = OWN(sum)(k, x, OWN(norm)(k, OWN(attention)(k, n1), rows, TENSOR_N2_G, TENSOR_N2_B));
        if (!ffn)
            return u;
        f = OWN(ffn)(k, OWN(norm)(k, u, rows, TENSOR_N3_G, TENSOR_N3_B), rows);
        return OWN(sum)(k, u, OWN(norm)(k, f, rows, TENSOR_N4_G, TENSOR_N4_B));
    }
}

#undef ROOMS
