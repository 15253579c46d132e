/* SPDX-License-Identifier: MIT */
/* Values and errors of expressions, node by node. Errors are those of the form that kernels compute, in base 2.
 *
 * For each float: its value in double; `worst`, the largest distance of f32 from it. Integers, and conditions on them,
 * are exact: floats affect them only through `where`. A comparison of floats that are closer than their errors is
 * undecided, and `where` may choose either operand.
 */
#include "expressions.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "roundoff.h"

#define U BOUND_U
#define SMALLEST 0x1p-124 /* the largest error of underflow, or of flushing to zero, in one operation */
#define LARGE_INTEGER 0x1p24 /* from here on f32 rounds integers */

struct expression_point expressions_point(const struct inputs *in, struct expression_pair pair, double s)
{
    /* void * and float * have one representation wherever this runs */
    return (struct expression_point){s, (int64_t)pair.i, pair.p, pair.j,
                                     (const float *const *)&in->tensor[TENSOR_TABLE]};
}

static union expression_value value_of(const struct expression *e, const struct inputs *in, struct expression_pair pair,
                                       double s)
{
    union expression_value values[EXPRESSION_FORM];
    const struct expression_point at = expressions_point(in, pair, s);
    expression_evaluate(e, &at, values);
    return values[e->root];
}

double expressions_score(const struct layer *layer, const struct inputs *in, struct expression_pair pair, double score)
{
    return layer->score != NULL ? value_of(layer->score, in, pair, score).number : score;
}

bool expressions_hide(const struct layer *layer, const struct inputs *in, struct expression_pair pair)
{
    static const double scores[] = {NAN, 0, 1, -1, 1e30, -1e30};
    bool hides = layer->score != NULL;
    for (size_t k = 0; hides && k < sizeof scores / sizeof *scores; k++)
        hides = expressions_score(layer, in, pair, scores[k]) == -INFINITY;
    return hides;
}

/* ---- errors ---- */

struct error {
    double worst;
    bool unsure; /* of an integer or a condition */
    bool open;   /* f32 may overflow, or leave the numbers, on the way */
};

/* One rounding of a value; none where operands are exact and f32 holds the result. */
static void round_off(struct error *out, double value)
{
    if (out->worst == 0 && value == (double)(float)value && isfinite(value))
        return;
    out->worst += U * (fabs(value) + out->worst) + SMALLEST;
    out->open = out->open || !(fabs(value) + out->worst <= FLT_MAX);
}

/* An infinity that f32 has as well, from an infinite constant or a division by an exact 0: its error is 0. */
static bool stays_infinite(struct error *out, double value, bool sure)
{
    if (!isinf(value) || !sure)
        return false;
    out->worst = 0;
    return true;
}

/* A sum or a difference */
static void add(struct error *out, const struct error *a, const struct error *b, double value)
{
    out->worst = a->worst + b->worst;
    if (!stays_infinite(out, value, out->worst < INFINITY && !out->open))
        round_off(out, value);
}

static void multiply(struct error *out, const struct error *a, const struct error *b, double x, double y)
{
    if ((isinf(x) || isinf(y)) && stays_infinite(out, x * y, fabs(x) > a->worst && fabs(y) > b->worst && !out->open))
        return;
    out->worst = fabs(y) * a->worst + fabs(x) * b->worst + a->worst * b->worst;
    round_off(out, x * y);
}

static void divide(struct error *out, const struct error *a, const struct error *b, double x, double y)
{
    const double quotient = x / y, least = fabs(y) - b->worst;
    if (y == 0 && stays_infinite(out, quotient, b->worst == 0 && fabs(x) > a->worst && !out->open))
        return;
    out->worst = least > 0 ? (a->worst + fabs(quotient) * b->worst) / least : INFINITY;
    out->open = out->open || !(least > 0);
    round_off(out, quotient);
}

/* The larger or the smaller operand; either one, if they are closer than their errors */
static void choose(struct error *out, const struct error *a, const struct error *b, bool first, double distance)
{
    out->worst = distance > a->worst + b->worst ? (first ? a : b)->worst : fmax(a->worst, b->worst);
}

static void power(struct error *out, const struct error *a, double x)
{
    const double value = exp2(x), steepest = exp2(a->worst);
    out->worst = value * (steepest - 1) + BOUND_EXP2 * value * steepest + SMALLEST;
    round_off(out, value);
}

static void hyperbolic_tangent(struct error *out, const struct error *a, double x)
{
    const double nearest = fmax(0, fabs(x) - a->worst), steepest = 1 / (cosh(nearest) * cosh(nearest)), value = tanh(x);
    const double carried = steepest * a->worst;
    out->worst = fmin(carried, 2) + BOUND_TANH * fmin(1, fabs(value) + carried);
}

static void square_root(struct error *out, const struct error *a, double x)
{
    const double value = sqrt(x), least = sqrt(fmax(0, x - a->worst));
    out->worst = a->worst > 0 ? a->worst / (value + least) : 0;
    out->open = out->open || x < a->worst;
    round_off(out, value);
}

/* ln(x); below 0 it is NaN, however far */
static void logarithm(struct error *out, const struct error *a, double x)
{
    const double value = log(x), least = x - a->worst;
    if (x == 0 && a->worst == 0 && stays_infinite(out, value, !out->open))
        return;
    out->worst = least > 0 ? log(x / least) : INFINITY;
    out->worst += BOUND_LN * (fabs(value) + out->worst);
    out->open = out->open || !(least > FLT_MIN || x + a->worst < 0);
}

/* What is close to a whole number may be rounded to another one. */
static void round_down(struct error *out, const struct error *a, double x)
{
    const double value = floor(x), jump = fmax(floor(x + a->worst) - value, value - floor(x - a->worst));
    out->worst = jump > 0 ? jump : 0;
    out->unsure = jump > 0;
    if (isinf(a->worst) || isnan(jump))
        out->worst = isinf(x) && a->worst == 0 ? 0 : INFINITY;
}

/* Whether f32 may order the values differently */
static bool compare_unsure(const struct error *a, const struct error *b, double x, double y)
{
    return (a->worst > 0 || b->worst > 0) && !(fabs(x - y) > a->worst + b->worst) && !(x == y && isinf(x));
}

static void choose_where(struct error *out, const struct error *condition, const struct error *a, const struct error *b,
                         bool first, double x, double y)
{
    *out = first ? *a : *b;
    out->unsure = (first ? a : b)->unsure;
    if (!condition->unsure || x == y)
        return;
    out->unsure = true;
    out->worst = fabs(x - y) + fmax(a->worst, b->worst);
    out->open = out->open || x == INFINITY || y == INFINITY || isnan(x) || isnan(y); /* (-infinity hides instead) */
}

/* An integer or a condition: exact, or undecided */
static void exact(const struct expression_node *n, struct error *out, const struct error *of[3],
                  const union expression_value *values)
{
    const int operands = expression_operands(n->op);
    const bool a = operands > 0 && of[0]->unsure, b = operands > 1 && of[1]->unsure;
    out->unsure = a || b || (operands > 2 && of[2]->unsure);
    if (n->op == NODE_AND && ((!a && values[n->a].integer == 0) || (!b && values[n->b].integer == 0)))
        out->unsure = false;
    if (n->op == NODE_OR && ((!a && values[n->a].integer != 0) || (!b && values[n->b].integer != 0)))
        out->unsure = false;
    if (n->op == NODE_WHERE)
        out->unsure = (values[n->a].integer != 0 ? b : of[2]->unsure) ||
                      (a && values[n->b].integer != values[n->c].integer) || (a && (b || of[2]->unsure));
}

double expressions_held(double number) { return (double)(float)fmax(-FLT_MAX, fmin(number, FLT_MAX)); }

static void of_float(const struct expression_node *n, struct error *out, const struct error *of[3],
                     const union expression_value *values, double score_error)
{
    const double x = values[n->a].number, y = values[n->b].number;
    switch (n->op) {
    case NODE_CONSTANT: out->worst = isinf(n->number) ? 0 : fabs(n->number - expressions_held(n->number)); break;
    case NODE_S: out->worst = score_error; break;
    case NODE_TABLE: out->worst = of[0]->unsure ? INFINITY : 0; break;
    case NODE_FLOAT:
        out->worst = of[0]->unsure ? INFINITY : 0;
        if (llabs(values[n->a].integer) > (int64_t)LARGE_INTEGER)
            round_off(out, (double)values[n->a].integer);
        break;
    case NODE_ADD: add(out, of[0], of[1], x + y); break;
    case NODE_SUB: add(out, of[0], of[1], x - y); break;
    case NODE_MUL: multiply(out, of[0], of[1], x, y); break;
    case NODE_DIV: divide(out, of[0], of[1], x, y); break;
    case NODE_NEG: case NODE_ABS: out->worst = of[0]->worst; break;
    case NODE_MIN: choose(out, of[0], of[1], x < y, fabs(x - y)); break;
    case NODE_MAX: choose(out, of[0], of[1], x > y, fabs(x - y)); break;
    case NODE_EXP2: power(out, of[0], x); break;
    case NODE_TANH: hyperbolic_tangent(out, of[0], x); break;
    case NODE_SQRT: square_root(out, of[0], x); break;
    case NODE_LOG: logarithm(out, of[0], x); break;
    case NODE_FLOOR: round_down(out, of[0], x); break;
    default:
        choose_where(out, of[0], of[1], of[2], values[n->a].integer != 0, values[n->b].number, values[n->c].number);
    }
    if (isnan(out->worst))
        out->worst = INFINITY;
}

/* The root's error; `values` of all nodes. */
static struct error error_of(const struct expression *e, const union expression_value *values, double score_error)
{
    struct error errors[EXPRESSION_FORM]; /* each is set before a later node reads it; clearing all took long */
    for (int i = 0; i < e->count; i++) {
        const struct expression_node *n = &e->nodes[i];
        const struct error *of[3] = {&errors[n->a], &errors[n->b], &errors[n->c]};
        const int operands = expression_operands(n->op);
        struct error out = {0};
        for (int k = 0; k < operands && k < 3; k++) /* if f32 may have -infinity, the result may be anything */
            out.open = out.open || of[k]->open || (n->op != NODE_WHERE && of[k]->worst == INFINITY);
        if (n->type == EXPRESSION_FLOAT)
            of_float(n, &out, of, values, score_error);
        else if (n->op >= NODE_EQ && n->op <= NODE_LE && e->nodes[n->a].type == EXPRESSION_FLOAT)
            out.unsure = compare_unsure(of[0], of[1], values[n->a].number, values[n->b].number);
        else
            exact(n, &out, of, values);
        if (i == e->root)
            return out;
        errors[i] = out;
    }
    return (struct error){0};
}

bool expressions_visible(const struct layer *layer, const struct inputs *in, struct expression_pair pair, bool *unsure)
{
    const struct expression *e = layer->visible_kernel;
    union expression_value values[EXPRESSION_FORM];
    if (unsure != NULL)
        *unsure = false;
    if (e == NULL)
        return true;
    const struct expression_point at = expressions_point(in, pair, 0);
    expression_evaluate(e, &at, values);
    if (unsure != NULL)
        *unsure = error_of(e, values, 0).unsure;
    return values[e->root].integer != 0;
}

void expressions_error(const struct layer *layer, const struct inputs *in, struct expression_pair pair,
                       struct term_error *score)
{
    const struct expression *e = layer->score_kernel;
    union expression_value values[EXPRESSION_FORM];
    if (e == NULL)
        return;
    const struct expression_point at = expressions_point(in, pair, score->value);
    expression_evaluate(e, &at, values);
    const struct error error = error_of(e, values, score->worst);
    score->value = values[e->root].number;
    score->worst = error.worst;
    score->reach = fabs(score->value) + error.worst;
    score->open = score->open || error.open;
}
