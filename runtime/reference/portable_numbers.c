/* SPDX-License-Identifier: MIT */
/* See portable_numbers.h. Every operation is f32's but where `double` says otherwise. */
#include "portable_numbers.h"

#include <float.h>
#include <math.h>

#include "wide.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* ---- functions of one number ------------------------------------------------------------------------------------ */

/* 2^t, i the nearest whole number to t, of two the odd one */
float portable_power(float t)
{
    static const float of[] = {1.3276471998e-03f, 9.6755413344e-03f, 5.5507132735e-02f, 2.4022119724e-01f,
                               6.9314696706e-01f, 1.0000000717e+00f};
    const float magic = 0x1.8p23f + 127, bounded = larger(-127, smaller(128, t)), i = bounded + magic - magic;
    const float f = bounded - i;
    float p = of[0];
    for (int k = 1; k < 6; k++)
        p = fmaf(p, f, of[k]);
    return p * (i < -126 ? 0 : ldexpf(1, i > 127 ? 128 : (int)i));
}

/* x P(x^2) / Q(x^2) of coefficients from the highest on, P's times `factor`: their product is rounded once */
static float quotient(const double *p, const double *q, int count, float x, double factor)
{
    const float y = x * x;
    float of_p = (float)(p[0] * factor), of_q = (float)q[0];
    for (int k = 1; k < count; k++) {
        of_p = fmaf(of_p, y, (float)(p[k] * factor));
        of_q = fmaf(of_q, y, (float)q[k]);
    }
    return x * of_p / of_q;
}

/* factor tanh(x) */
float portable_tanh(float x, double factor)
{
    static const double p[] = {1.3354605833e-08, 2.0609050803e-05, 3.4955865873e-03, 1.3381024470e-01,
                               9.9999997949e-01};
    static const double q[] = {7.7765380790e-07, 3.2856320359e-04, 2.5876976729e-02, 4.6714340070e-01, 1};
    return quotient(p, q, 5, larger(-9, smaller(9, x)), factor);
}

static float gelu(float a)
{
    static const double p[] = {2.2749323924e-08, 6.3521247363e-06, 1.6882672881e-04, 4.6772670509e-03,
                               3.3852750865e-02, 3.9894223462e-01};
    static const double q[] = {1.1975032186e-06, 7.3647838096e-05, 1.8844508072e-03, 2.8645931344e-02,
                               2.5152218082e-01, 1};
    const float share = 0.5f + quotient(p, q, 6, larger(-5.5f, smaller(5.5f, a)), 1);
    return a <= -5.5f ? 0 : a * share;
}

float portable_sigmoid(float a) { return 1 / (1 + portable_power(a * (float)-LOG2_E)); }

float portable_silu(float a) { return larger(-200, a) * portable_sigmoid(a); }

float portable_activate(const struct layer *layer, float a)
{
    const double alpha = layer_alpha(layer), twice = 1.5957691216057308; /* sqrt(2 / pi) */
    const float least = alpha == 1 ? -200 : (float)fmax(-200 / alpha, (double)-FLT_MAX);
    if (layer->ffn_limit > 0)
        a = smaller((float)layer->ffn_limit, a);
    switch (layer_activation(layer)) {
    case ACTIVATION_RELU:
        return larger(0, a);
    case ACTIVATION_RELU2:
        return larger(0, a) * larger(0, a);
    case ACTIVATION_SIGMOID:
        return portable_sigmoid(a);
    case ACTIVATION_TANH:
        return portable_tanh(a, 1);
    case ACTIVATION_GELU:
        return gelu(a);
    case ACTIVATION_GELU_TANH:
        return larger(least, a) / (1 + portable_power(a * fmaf(a * a, (float)(-LOG2_E * twice * 0.044715),
                                                           (float)(-LOG2_E * twice))));
    case ACTIVATION_SILU: case ACTIVATION_QUICK_GELU:
        return larger(least, a) / (1 + portable_power(a * (float)(-LOG2_E * alpha)));
    default:
        return a;
    }
}

/* ln(x) */
static float logarithm(float x)
{
    if (!(x > 0) || x == INFINITY)
        return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    int exponent;
    const float m = 2 * frexpf(x, &exponent); /* from 1 on */
    const bool above = m > 1.41421356f;
    const float e = (float)(exponent - 1 + above), f = (above ? m * 0.5f : m) - 1, s = f / (f + 2), w = s * s;
    float p = (float)(2.0 / 11);
    for (int k = 9; k >= 3; k -= 2)
        p = fmaf(p, w, (float)(2.0 / k));
    return fmaf(e, 0.693359375f, s + s + fmaf(p * w, s, e * -2.12194440e-4f));
}

/* ---- sums ------------------------------------------------------------------------------------------------------- */

float portable_sum(const float *sum)
{
    float all = sum[0];
    for (int i = 1; i < PLACES; i++)
        all = all + sum[i];
    return all;
}

/* static: clang gives clones that other files call another name */
#define TOGETHER 4
WIDE_FMA static void multiply(float *restrict c, size_t c_row, const float *restrict a, size_t a_row,
                              const float *restrict w, size_t rows, size_t depth, size_t columns)
{
    for (size_t first = 0; first < rows; first += TOGETHER) {
        const size_t end = first + TOGETHER < rows ? first + TOGETHER : rows;
        for (size_t k = 0; k < depth; k++)
            for (size_t r = first; r < end; r++) {
                const float by = a[r * a_row + k];
                float *restrict to = c + r * c_row;
                for (size_t j = 0; j < columns; j++)
                    to[j] = fmaf(by, w[k * columns + j], to[j]);
            }
    }
}

/* c[r][j] = fma(a[r][k], w[k][j], c[r][j]), k ascending */
void portable_multiply(float *restrict c, size_t c_row, const float *restrict a, size_t a_row,
                       const float *restrict w, size_t rows, size_t depth, size_t columns)
{
    multiply(c, c_row, a, a_row, w, rows, depth, columns);
}

/* ---- expressions ------------------------------------------------------------------------------------------------ */

/* An operation on floats; those that are sums with a product are one fma. `values`: of the nodes so far */
static float of_floats(const struct expression *e, const struct expression_node *n,
                       const union expression_value *values)
{
    const struct expression_node *of_a = &e->nodes[n->a], *of_b = &e->nodes[n->b];
    float a = (float)values[n->a].number, b = (float)values[n->b].number;
    const bool extreme = n->op == NODE_MIN || n->op == NODE_MAX, swap = extreme && of_b->op == NODE_CONSTANT;
    if (swap) {
        const float kept = a;
        a = b;
        b = kept;
    }
    switch (n->op) {
    case NODE_ADD: case NODE_SUB: {
        const bool minus = n->op == NODE_SUB, first = !minus && of_b->op != NODE_MUL;
        const struct expression_node *product = first ? of_a : of_b;
        const float x = (float)values[product->a].number, y = (float)values[product->b].number;
        const bool constant = e->nodes[product->a].op == NODE_CONSTANT || e->nodes[product->b].op == NODE_CONSTANT;
        if (product->op != NODE_MUL || (minus && !constant))
            return minus ? a - b : a + b;
        return fmaf(minus ? -x : x, y, first ? b : a);
    }
    case NODE_MUL: return fmaf(a, b, 0);
    case NODE_DIV: return a / (b + 0);
    case NODE_NEG: return 0 - a;
    case NODE_ABS: return larger(0 - a, a);
    case NODE_MIN: return isnan(a) ? a : smaller(a, b);
    case NODE_MAX: return isnan(a) ? a : larger(a, b);
    case NODE_EXP2: return portable_power(a);
    case NODE_TANH: return portable_tanh(a, 1);
    case NODE_SQRT: return sqrtf(a);
    case NODE_LOG: return logarithm(a);
    default: return floorf(a) + 0;
    }
}

static union expression_value evaluate(const struct expression *e, const struct inputs *in, struct expression_pair pair,
                                       float s)
{
    union expression_value values[EXPRESSION_FORM];
    const struct expression_point at = expressions_point(in, pair, (double)s);
    for (int i = 0; i < e->count; i++) {
        const struct expression_node *n = &e->nodes[i];
        const bool held = n->op <= NODE_TABLE || n->op == NODE_WHERE;
        if (n->type != EXPRESSION_FLOAT || held)
            values[i] = expression_node_value(e, i, &at, values);
        else if (n->op == NODE_FLOAT)
            values[i].number = (double)(float)values[n->a].integer;
        else
            values[i].number = (double)of_floats(e, n, values);
        if (n->type == EXPRESSION_FLOAT && n->op == NODE_CONSTANT && !isinf(n->number))
            values[i].number = expressions_held(n->number);
    }
    return values[e->root];
}

float portable_score(const struct layer *layer, const struct inputs *in, struct expression_pair pair, float s)
{
    return (float)evaluate(layer->score_kernel, in, pair, s).number;
}

bool portable_sees(const struct layer *layer, const struct inputs *in, struct expression_pair pair)
{
    return layer->visible_kernel == NULL || evaluate(layer->visible_kernel, in, pair, 0).integer != 0;
}
