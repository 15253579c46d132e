/* SPDX-License-Identifier: MIT */
/* Expressions: nodes, values, ranges, and what kernels make of them. The text is read by expression_read.c. */
#include "expression/expression.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/memory.h"

#define LOG2_E 1.4426950408889634
#define LN_2 0.6931471805599453
#define WIDER 1e-6 /* relative, of a range of floats at each operation: more than f32 rounds */

/* ---- operations ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int operands;
    bool commutes;
} operations[NODE_OPS] = {
    [NODE_CONSTANT] = {"constant", 0, false}, [NODE_S] = {"s", 0, false}, [NODE_I] = {"i", 0, false},
    [NODE_P] = {"p", 0, false}, [NODE_J] = {"j", 0, false}, [NODE_TABLE] = {"table", 1, false},
    [NODE_FLOAT] = {"float", 1, false}, [NODE_ADD] = {"add", 2, true}, [NODE_SUB] = {"sub", 2, false},
    [NODE_MUL] = {"mul", 2, true}, [NODE_MIN] = {"min", 2, true}, [NODE_MAX] = {"max", 2, true},
    [NODE_NEG] = {"neg", 1, false}, [NODE_ABS] = {"abs", 1, false}, [NODE_FLOOR_DIV] = {"floor_div", 2, false},
    [NODE_MOD] = {"mod", 2, false}, [NODE_DIV] = {"div", 2, false}, [NODE_EXP] = {"exp", 1, false},
    [NODE_TANH] = {"tanh", 1, false}, [NODE_SQRT] = {"sqrt", 1, false},
    [NODE_LOG] = {"log", 1, false}, [NODE_FLOOR] = {"floor", 1, false}, [NODE_EXP2] = {"exp2", 1, false},
    [NODE_EQ] = {"eq", 2, true}, [NODE_NE] = {"ne", 2, true}, [NODE_LT] = {"lt", 2, false},
    [NODE_LE] = {"le", 2, false}, [NODE_AND] = {"and", 2, true}, [NODE_OR] = {"or", 2, true},
    [NODE_NOT] = {"not", 1, false}, [NODE_WHERE] = {"where", 3, false},
};

int expression_operands(enum expression_op op) { return operations[op].operands; }
const char *expression_op_name(enum expression_op op) { return operations[op].name; }

static bool is_constant(const struct expression *e, int node) { return e->nodes[node].op == NODE_CONSTANT; }
static bool is_integer(const struct expression *e, int node, int64_t value)
{
    const struct expression_node *n = &e->nodes[node];
    return n->op == NODE_CONSTANT && n->type != EXPRESSION_FLOAT && n->integer == value;
}
static bool is_float(const struct expression *e, int node, double value)
{
    const struct expression_node *n = &e->nodes[node];
    return n->op == NODE_CONSTANT && n->type == EXPRESSION_FLOAT && n->number == value;
}

/* ---- integers -------------------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return a == INT64_MIN ? a : -a;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b == 0 ? a : 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* False where the value leaves 64 bits, and wraps. */
static bool integer_value(enum expression_op op, int64_t a, int64_t b, int64_t *value)
{
    switch (op) {
    case NODE_ADD: return !__builtin_add_overflow(a, b, value);
    case NODE_SUB: return !__builtin_sub_overflow(a, b, value);
    case NODE_MUL: return !__builtin_mul_overflow(a, b, value);
    case NODE_NEG: return !__builtin_sub_overflow((int64_t)0, a, value);
    case NODE_ABS: return integer_value(a < 0 ? NODE_NEG : NODE_MAX, a, a, value);
    case NODE_MIN: *value = min(a, b); return true;
    case NODE_MAX: *value = max(a, b); return true;
    case NODE_FLOOR_DIV: *value = floor_div(a, b); return a != INT64_MIN || b != -1;
    case NODE_MOD: *value = floor_mod(a, b); return true;
    default: *value = 0; return true;
    }
}

/* ---- making nodes ---------------------------------------------------------------------------------------- */

struct expression *expression_new(void)
{
    struct expression *e = memory_get(1, sizeof *e);
    e->room = 64;
    e->nodes = memory_get((size_t)e->room, sizeof *e->nodes);
    return e;
}

void expression_free(struct expression *e)
{
    if (e == NULL)
        return;
    free(e->text);
    free(e->nodes);
    free(e);
}

static bool same_node(const struct expression_node *a, const struct expression_node *b)
{
    return a->op == b->op && a->type == b->type && a->a == b->a && a->b == b->b && a->c == b->c &&
           a->table == b->table && a->integer == b->integer && memcmp(&a->number, &b->number, sizeof a->number) == 0;
}

/* Index of the new node, or of an equal one that exists. */
static int add_node(struct expression *e, struct expression_node node)
{
    for (int i = 0; i < e->count; i++)
        if (same_node(&e->nodes[i], &node))
            return i;
    if (e->count == e->room) {
        e->room *= 2;
        e->nodes = memory_grow(e->nodes, (size_t)e->room, sizeof *e->nodes);
    }
    const int operands = operations[node.op].operands;
    static const unsigned own[NODE_OPS] = {
        [NODE_S] = READS_S, [NODE_I] = READS_I, [NODE_P] = READS_P, [NODE_J] = READS_J, [NODE_TABLE] = READS_TABLE};
    node.reads = own[node.op] | (operands > 0 ? e->nodes[node.a].reads : 0) |
                 (operands > 1 ? e->nodes[node.b].reads : 0) | (operands > 2 ? e->nodes[node.c].reads : 0);
    e->nodes[e->count] = node;
    return e->count++;
}

int expression_integer(struct expression *e, int64_t value, size_t column)
{
    return add_node(e, (struct expression_node){.op = NODE_CONSTANT, .type = EXPRESSION_INTEGER, .integer = value,
                                                .column = column});
}

int expression_number(struct expression *e, double value, size_t column)
{
    return add_node(e, (struct expression_node){.op = NODE_CONSTANT, .type = EXPRESSION_FLOAT,
                                                .number = value == 0 ? 0 : value, .column = column});
}

static int condition(struct expression *e, bool value, size_t column)
{
    return add_node(e, (struct expression_node){.op = NODE_CONSTANT, .type = EXPRESSION_CONDITION, .integer = value,
                                                .column = column});
}

int expression_leaf(struct expression *e, enum expression_op op, size_t column)
{
    const enum expression_type type = op == NODE_S ? EXPRESSION_FLOAT : EXPRESSION_INTEGER;
    return add_node(e, (struct expression_node){.op = op, .type = type, .column = column});
}

int expression_element(struct expression *e, int table, int index, size_t column)
{
    return add_node(e, (struct expression_node){.op = NODE_TABLE, .type = EXPRESSION_FLOAT, .a = index, .table = table,
                                                .column = column});
}

static enum expression_type type_of(const struct expression *e, enum expression_op op, int a, int b)
{
    if (op >= NODE_EQ && op <= NODE_NOT)
        return EXPRESSION_CONDITION;
    if (op >= NODE_DIV && op <= NODE_EXP2)
        return EXPRESSION_FLOAT;
    return op == NODE_FLOAT ? EXPRESSION_FLOAT : e->nodes[op == NODE_WHERE ? b : a].type;
}

/* The constant that the operation gives on constant operands; -1: an operand is not constant, or it overflows. */
static int fold(struct expression *e, const struct expression_node *n)
{
    const int operands = operations[n->op].operands;
    if (operands == 0 || n->op == NODE_TABLE || !is_constant(e, n->a) || (operands > 1 && !is_constant(e, n->b)) ||
        (operands > 2 && !is_constant(e, n->c)))
        return -1;
    const int of[] = {n->a, n->b, n->c};
    union expression_value values[3] = {{0}};
    for (int i = 0; i < 3; i++) /* what there is none of stands for node 0, and is not read */
        if (e->nodes[of[i]].type == EXPRESSION_FLOAT)
            values[i].number = e->nodes[of[i]].number;
        else
            values[i].integer = e->nodes[of[i]].integer;
    int64_t result;
    if (n->type == EXPRESSION_INTEGER && !integer_value(n->op, values[0].integer, values[1].integer, &result)) {
        e->overflow = true;
        return -1;
    }
    /* the operation alone, on three constants */
    struct expression_node nodes[4] = {e->nodes[n->a], e->nodes[n->b], e->nodes[n->c], *n};
    nodes[3].a = 0, nodes[3].b = 1, nodes[3].c = 2;
    const struct expression alone = {.nodes = nodes, .count = 4};
    const union expression_value value = expression_node_value(&alone, 3, NULL, values);
    return n->type == EXPRESSION_FLOAT ? expression_number(e, value.number, n->column)
           : n->type == EXPRESSION_INTEGER ? expression_integer(e, value.integer, n->column)
                                           : condition(e, value.integer != 0, n->column);
}

/* An existing node or a constant that equals `n` by identities that hold for all integers and floats, NaN included; -1:
 * none. The sign of a zero may differ. */
static int simplify(struct expression *e, const struct expression_node *n)
{
    const int a = n->a, b = n->b;
    const bool integers = n->type == EXPRESSION_INTEGER;
    const bool compares = n->op == NODE_LE || n->op == NODE_LT || n->op == NODE_EQ || n->op == NODE_NE;
    switch (n->op) {
    case NODE_ADD:
        return is_integer(e, a, 0) || is_float(e, a, 0) ? b : is_integer(e, b, 0) || is_float(e, b, 0) ? a : -1;
    case NODE_SUB:
        return is_integer(e, b, 0) || is_float(e, b, 0) ? a : integers && a == b ? expression_integer(e, 0, n->column)
                                                                                 : -1;
    case NODE_MUL:
        if (is_integer(e, a, 1) || is_float(e, a, 1))
            return b;
        if (is_integer(e, b, 1) || is_float(e, b, 1))
            return a;
        return is_integer(e, a, 0) || is_integer(e, b, 0) ? expression_integer(e, 0, n->column) : -1;
    case NODE_DIV:
        return is_float(e, b, 1) ? a : -1;
    case NODE_FLOOR_DIV:
        return is_integer(e, b, 1) ? a : -1;
    case NODE_MOD:
        return is_integer(e, b, 1) || is_integer(e, b, -1) ? expression_integer(e, 0, n->column) : -1;
    case NODE_MIN: case NODE_MAX:
        return a == b ? a : -1;
    case NODE_NEG: case NODE_NOT:
        return e->nodes[a].op == n->op ? e->nodes[a].a : -1;
    case NODE_ABS:
        return e->nodes[a].op == NODE_ABS ? a : -1;
    case NODE_AND:
        return a == b || is_integer(e, b, 1) ? a : is_integer(e, a, 1) ? b : is_integer(e, a, 0) ? a
               : is_integer(e, b, 0) ? b : -1;
    case NODE_OR:
        return a == b || is_integer(e, b, 0) ? a : is_integer(e, a, 0) ? b : is_integer(e, a, 1) ? a
               : is_integer(e, b, 1) ? b : -1;
    case NODE_WHERE:
        return is_integer(e, a, 1) || b == n->c ? b : is_integer(e, a, 0) ? n->c : -1;
    default:
        return compares && a == b && e->nodes[a].type == EXPRESSION_INTEGER
                   ? condition(e, n->op == NODE_LE || n->op == NODE_EQ, n->column) : -1;
    }
}

int expression_make(struct expression *e, enum expression_op op, int a, int b, int c, size_t column)
{
    if (operations[op].commutes && a > b) {
        const int first = a;
        a = b;
        b = first;
    }
    const int operands = operations[op].operands;
    const struct expression_node node = {.op = op, .type = type_of(e, op, a, b), .a = a, .b = operands > 1 ? b : 0,
                                         .c = operands > 2 ? c : 0, .column = column};
    const int constant = fold(e, &node);
    if (constant >= 0 || e->overflow)
        return constant >= 0 ? constant : 0;
    const int simple = simplify(e, &node);
    return simple >= 0 ? simple : add_node(e, node);
}

int expression_as_float(struct expression *e, int node)
{
    return e->nodes[node].type == EXPRESSION_INTEGER ? expression_make(e, NODE_FLOAT, node, 0, 0, e->nodes[node].column)
                                                     : node;
}

/* Keeps only the nodes that the root needs, in order. */
void expression_compact(struct expression *e)
{
    HEAP int *place = memory_get((size_t)e->count, sizeof *place);
    int kept = 0;
    place[e->root] = 1;
    for (int i = e->count; i-- > 0;) {
        const int of[] = {e->nodes[i].a, e->nodes[i].b, e->nodes[i].c};
        for (int k = 0; place[i] != 0 && k < 3 && k < operations[e->nodes[i].op].operands; k++)
            place[of[k]] = 1;
    }
    for (int i = 0; i < e->count; i++) {
        if (place[i] == 0)
            continue;
        struct expression_node node = e->nodes[i];
        const int operands = operations[node.op].operands;
        node.a = operands > 0 ? place[node.a] : 0;
        node.b = operands > 1 ? place[node.b] : 0;
        node.c = operands > 2 ? place[node.c] : 0;
        place[i] = kept;
        e->nodes[kept++] = node;
    }
    e->root = kept - 1;
    e->count = kept;
}

/* ---- values ---------------------------------------------------------------------------------------------- */

static double least_of(double a, double b) { return isnan(a) ? a : isnan(b) ? b : a < b ? a : b; }
static double most_of(double a, double b) { return isnan(a) ? a : isnan(b) ? b : a > b ? a : b; }

static double float_value(enum expression_op op, double a, double b)
{
    switch (op) {
    case NODE_ADD: return a + b;
    case NODE_SUB: return a - b;
    case NODE_MUL: return a * b;
    case NODE_DIV: return a / (b + 0.0); /* zero is +0 */
    case NODE_NEG: return -a;
    case NODE_ABS: return fabs(a);
    case NODE_MIN: return least_of(a, b);
    case NODE_MAX: return most_of(a, b);
    case NODE_EXP: return exp(a);
    case NODE_EXP2: return exp2(a);
    case NODE_TANH: return tanh(a);
    case NODE_SQRT: return sqrt(a);
    case NODE_LOG: return log(a);
    case NODE_FLOOR: return floor(a);
    default: return 0;
    }
}

static bool compare(enum expression_op op, bool floats, union expression_value a, union expression_value b)
{
    switch (op) {
    case NODE_EQ: return floats ? a.number == b.number : a.integer == b.integer;
    case NODE_NE: return floats ? a.number != b.number : a.integer != b.integer;
    case NODE_LT: return floats ? a.number < b.number : a.integer < b.integer;
    default: return floats ? a.number <= b.number : a.integer <= b.integer;
    }
}

union expression_value expression_node_value(const struct expression *e, int node, const struct expression_point *at,
                                             const union expression_value *values)
{
    const struct expression_node *n = &e->nodes[node];
    const union expression_value a = values[n->a], b = values[n->b], c = values[n->c];
    union expression_value value = {.integer = 0};
    switch (n->op) {
    case NODE_CONSTANT:
        if (n->type == EXPRESSION_FLOAT)
            value.number = n->number;
        else
            value.integer = n->integer;
        break;
    case NODE_S: value.number = at->s; break;
    case NODE_I: value.integer = at->i; break;
    case NODE_P: value.integer = at->p; break;
    case NODE_J: value.integer = at->j; break;
    case NODE_TABLE: value.number = at->tables[n->table][a.integer]; break;
    case NODE_FLOAT: value.number = (double)a.integer; break;
    case NODE_EQ: case NODE_NE: case NODE_LT: case NODE_LE:
        value.integer = compare(n->op, e->nodes[n->a].type == EXPRESSION_FLOAT, a, b);
        break;
    case NODE_AND: value.integer = a.integer & b.integer; break;
    case NODE_OR: value.integer = a.integer | b.integer; break;
    case NODE_NOT: value.integer = !a.integer; break;
    case NODE_WHERE: value = a.integer != 0 ? b : c; break;
    default:
        if (n->type == EXPRESSION_FLOAT)
            value.number = float_value(n->op, a.number, b.number);
        else
            (void)integer_value(n->op, a.integer, b.integer, &value.integer); /* expression_ranges refuses what wraps */
    }
    return value;
}

void expression_evaluate(const struct expression *e, const struct expression_point *at, union expression_value *values)
{
    for (int i = 0; i < e->count; i++) {
        values[i].integer = 0;
        values[i] = expression_node_value(e, i, at, values);
    }
}

/* ---- ranges ---------------------------------------------------------------------------------------------- */

static struct expression_range integers(int64_t low, int64_t high)
{
    return (struct expression_range){.low = low, .high = high};
}

static struct expression_range hull(struct expression_range a, struct expression_range b)
{
    return (struct expression_range){min(a.low, b.low), max(a.high, b.high), fmin(a.least, b.least),
                                     fmax(a.most, b.most)};
}

/* Of a monotone function of two integers, at the corners. */
static bool corners(enum expression_op op, struct expression_range a, struct expression_range b,
                    struct expression_range *out)
{
    const int64_t x[] = {a.low, a.high}, y[] = {b.low, b.high};
    bool fits = true;
    for (int i = 0; i < 4; i++) {
        int64_t value;
        fits = integer_value(op, x[i / 2], y[i % 2], &value) && fits;
        *out = i == 0 ? integers(value, value) : integers(min(out->low, value), max(out->high, value));
    }
    return fits;
}

/* Union over negative, zero and positive divisors. */
static bool divisor_ranges(enum expression_op op, struct expression_range a, struct expression_range b,
                           struct expression_range *out)
{
    bool any = false, fits = true;
    for (int sign = -1; sign <= 1; sign++) {
        const int64_t low = sign > 0 ? max(b.low, 1) : sign < 0 ? b.low : max(b.low, 0);
        const int64_t high = sign < 0 ? min(b.high, -1) : sign > 0 ? b.high : min(b.high, 0);
        struct expression_range part;
        if (low > high)
            continue;
        if (op == NODE_FLOOR_DIV) {
            fits = corners(op, a, integers(low, high), &part) && fits;
        } else if (sign == 0) {
            part = a;
        } else if (low == high && floor_div(a.low, low) == floor_div(a.high, low)) { /* within one period */
            part = integers(floor_mod(a.low, low), floor_mod(a.high, low));
        } else if (sign > 0) {
            part = integers(0, a.low >= 0 ? min(a.high, high - 1) : high - 1);
        } else {
            part = integers(a.high <= 0 ? max(a.low, low + 1) : low + 1, 0);
        }
        *out = any ? hull(*out, part) : part;
        any = true;
    }
    return fits;
}

static bool integer_range(const struct expression_node *n, struct expression_range a, struct expression_range b,
                          struct expression_range *out)
{
    if (n->op == NODE_FLOOR_DIV || n->op == NODE_MOD)
        return divisor_ranges(n->op, a, b, out);
    if (!corners(n->op, a, b, out))
        return false;
    if (n->op == NODE_ABS && a.low <= 0 && a.high >= 0)
        out->low = 0;
    if (n->op == NODE_MUL && n->a == n->b) /* a square */
        out->low = a.low > 0 || a.high < 0 ? min(a.low * a.low, a.high * a.high) : 0;
    return true;
}

static struct expression_range everything(void)
{
    return (struct expression_range){.least = -INFINITY, .most = INFINITY};
}

/* A little wider; NaN, of 0 times infinity, is everything. */
static struct expression_range floats(double least, double most)
{
    const struct expression_range out = {.least = least - WIDER * fabs(least) - 1e-37,
                                         .most = most + WIDER * fabs(most) + 1e-37};
    return isnan(out.least) || isnan(out.most) || fabs(least) > 1e37 || fabs(most) > 1e37 ? everything() : out;
}

static bool is_bounded(struct expression_range a) { return a.least > -INFINITY && a.most < INFINITY; }

/* Of a monotone function, at the corners. A range with an infinite end may hold NaN, and so may what is made of it,
 * even tanh or exp(-abs()). */
static struct expression_range float_range(const struct expression_node *n, struct expression_range a,
                                           struct expression_range b)
{
    const double x[] = {a.least, a.most}, y[] = {b.least, b.most};
    const bool exact = n->op == NODE_MIN || n->op == NODE_MAX || n->op == NODE_NEG || n->op == NODE_ABS;
    double least = INFINITY, most = -INFINITY;
    if (!is_bounded(a) || (operations[n->op].operands > 1 && !is_bounded(b)) ||
        (n->op == NODE_DIV && b.least <= 0 && b.most >= 0) || (n->op == NODE_SQRT && a.least < 0) ||
        (n->op == NODE_LOG && a.least <= 0))
        return everything();
    for (int i = 0; i < 4; i++) {
        const double value = float_value(n->op, x[i / 2], y[i % 2]);
        least = fmin(least, value);
        most = fmax(most, value);
    }
    if (n->op == NODE_ABS && a.least <= 0 && a.most >= 0)
        least = 0;
    return exact ? (struct expression_range){.least = least, .most = most} : floats(least, most);
}

/* Whether all of a are below all of b, or equal to them where that is enough. */
static bool below(bool of_floats, struct expression_range a, struct expression_range b, bool or_equal)
{
    if (of_floats)
        return or_equal ? a.most <= b.least : a.most < b.least;
    return or_equal ? a.high <= b.low : a.high < b.low;
}

/* Of floats that may be NaN, only a result that NaN gives too is certain. */
static struct expression_range compared(enum expression_op op, bool of_floats, bool nan, struct expression_range a,
                                        struct expression_range b)
{
    bool always = false, never = false;
    if (op == NODE_LT || op == NODE_LE) {
        always = below(of_floats, a, b, op == NODE_LE);
        never = below(of_floats, b, a, op == NODE_LT);
    } else {
        const bool apart = below(of_floats, a, b, false) || below(of_floats, b, a, false);
        const bool same = !of_floats && a.low == a.high && b.low == b.high && a.low == b.low;
        always = op == NODE_EQ ? same : apart;
        never = op == NODE_EQ ? apart : same;
    }
    if (nan) {
        always = always && op == NODE_NE;
        never = never && op != NODE_NE;
    }
    return integers(always, !never);
}

bool expression_ranges(const struct expression *e, const struct expression_box *box, struct expression_range *ranges,
                       int *node)
{
    for (int i = 0; i < e->count; i++) {
        const struct expression_node *n = &e->nodes[i];
        const struct expression_range a = ranges[n->a], b = ranges[n->b], c = ranges[n->c];
        struct expression_range *out = &ranges[i];
        *out = integers(0, 0);
        *node = i;
        switch (n->op) {
        case NODE_CONSTANT:
            *out = n->type == EXPRESSION_FLOAT ? floats(n->number, n->number) : integers(n->integer, n->integer);
            break;
        case NODE_I: *out = box->i; break;
        case NODE_P: *out = box->p; break;
        case NODE_J: *out = box->j; break;
        case NODE_S: case NODE_TABLE: *out = everything(); break;
        case NODE_FLOAT: *out = floats((double)a.low, (double)a.high); break;
        case NODE_EQ: case NODE_NE: case NODE_LT: case NODE_LE: {
            const bool of_floats = e->nodes[n->a].type == EXPRESSION_FLOAT;
            *out = compared(n->op, of_floats, of_floats && !(is_bounded(a) && is_bounded(b)), a, b);
            break;
        }
        case NODE_AND: *out = integers(a.low & b.low, a.high & b.high); break;
        case NODE_OR: *out = integers(a.low | b.low, a.high | b.high); break;
        case NODE_NOT: *out = integers(!a.high, !a.low); break;
        case NODE_WHERE: *out = a.low == 1 ? b : a.high == 0 ? c : hull(b, c); break;
        default:
            if (n->type == EXPRESSION_FLOAT)
                *out = float_range(n, a, b);
            else if (!integer_range(n, a, b, out))
                return false;
        }
    }
    return true;
}

/* ---- what a score does --------------------------------------------------------------------------------------- */

bool expression_adds(const struct expression *e)
{
    int at = e->root;
    for (;;) {
        const struct expression_node *n = &e->nodes[at];
        const bool a = expression_operands(n->op) > 0 && (e->nodes[n->a].reads & READS_S) != 0;
        const bool b = expression_operands(n->op) > 1 && (e->nodes[n->b].reads & READS_S) != 0;
        if (n->op == NODE_S)
            return true;
        if ((n->op != NODE_ADD && n->op != NODE_SUB) || a == b || (n->op == NODE_SUB && b))
            return false;
        at = a ? n->a : n->b;
    }
}

/* An infinite constant, a logarithm of what may be 0, a division by p - j and the like, or what grows past f32 with
 * them: of learned numbers and of s it is taken that they are not 0 as divisors, nor so large. */
bool expression_hides(const struct expression *e, const struct expression_box *box)
{
    struct expression_range ranges[8 * EXPRESSION_NODES] = {0};
    int node;
    const bool known = expression_ranges(e, box, ranges, &node);
    bool hides = false;
    for (int i = 0; i < e->count; i++) {
        const struct expression_node *n = &e->nodes[i];
        const int of = n->op == NODE_LOG ? n->a : n->b; /* where it is 0, the result is infinite */
        const bool by_places = n->op == NODE_LOG ||
                               (n->op == NODE_DIV && (e->nodes[of].reads & (READS_S | READS_TABLE)) == 0);
        const bool grows = n->op == NODE_ADD || n->op == NODE_SUB || n->op == NODE_MUL || n->op == NODE_EXP ||
                           n->op == NODE_EXP2;
        const bool overflows = grows && n->type == EXPRESSION_FLOAT && (n->reads & (READS_S | READS_TABLE)) == 0 &&
                               !(known && is_bounded(ranges[i]));
        hides = hides || overflows || (is_constant(e, i) && n->type == EXPRESSION_FLOAT && isinf(n->number)) ||
                (by_places && !(known && (ranges[of].least > 0 || ranges[of].most < 0)));
    }
    return hides;
}

bool expression_decides(const struct expression *e)
{
    bool decides = false;
    for (int i = 0; i < e->count; i++)
        decides = decides || ((e->nodes[i].type == EXPRESSION_CONDITION || e->nodes[i].op == NODE_FLOOR) &&
                              (e->nodes[i].reads & READS_S) != 0);
    return decides;
}

int expression_pair_operations(const struct expression *e)
{
    int count = 0;
    for (int i = 0; i < e->count; i++) {
        const unsigned reads = e->nodes[i].reads;
        const bool of_pair = (reads & READS_S) != 0 || ((reads & READS_P) != 0 && (reads & READS_J) != 0);
        count += of_pair && operations[e->nodes[i].op].operands > 0;
    }
    return count;
}

/* ---- kernels --------------------------------------------------------------------------------------------- */

/* Each node of the text in up to two forms: as it is, and times log2(e). */
struct rewriting {
    const struct expression *from;
    struct expression *to;
    const struct expression_range *ranges;
    int *plain, *scaled; /* by node of `from`; -1: not made yet */
};

static int make(struct rewriting *w, enum expression_op op, int a, int b, int c)
{
    return expression_make(w->to, op, a, b, c, 0);
}

/* A factor that f32 holds with digits to spare */
static bool is_moderate(double factor) { return fabs(factor) > 1e-30 && fabs(factor) < 1e30; }

static int times(struct rewriting *w, int node, double factor)
{
    const struct expression_node *n = &w->to->nodes[node];
    if (n->op == NODE_MUL && is_constant(w->to, n->a) && is_moderate(factor * w->to->nodes[n->a].number))
        return times(w, n->b, factor * w->to->nodes[n->a].number); /* one factor of two */
    if (n->op == NODE_MUL && is_constant(w->to, n->b) && is_moderate(factor * w->to->nodes[n->b].number))
        return times(w, n->a, factor * w->to->nodes[n->b].number);
    return make(w, NODE_MUL, expression_number(w->to, factor, 0), node, 0);
}

/* A constant that is no power of two loses a bit as its inverse; the error analysis knows. */
static int divided(struct rewriting *w, int a, int b)
{
    const struct expression_node *by = &w->to->nodes[b];
    return by->op == NODE_CONSTANT && is_moderate(by->number) ? times(w, a, 1 / by->number)
                                                              : make(w, NODE_DIV, a, b, 0);
}

static int multiplied(struct rewriting *w, int a, int b)
{
    if (is_constant(w->to, a) && w->to->nodes[a].type == EXPRESSION_FLOAT)
        return times(w, b, w->to->nodes[a].number);
    if (is_constant(w->to, b) && w->to->nodes[b].type == EXPRESSION_FLOAT)
        return times(w, a, w->to->nodes[b].number);
    return make(w, NODE_MUL, a, b, 0);
}

static int plain_form(struct rewriting *w, int node)
{
    const struct expression_node *n = &w->from->nodes[node];
    const struct expression_range *of = w->ranges;
    const int operands = operations[n->op].operands;
    const bool floats = n->type == EXPRESSION_FLOAT;
    const int a = operands > 0 ? w->plain[n->a] : 0, b = operands > 1 ? w->plain[n->b] : 0;
    if (n->type == EXPRESSION_INTEGER && operands > 0 && of[node].low == of[node].high)
        return expression_integer(w->to, of[node].low, 0);
    switch (n->op) {
    case NODE_CONSTANT: return add_node(w->to, *n);
    case NODE_S: return times(w, expression_leaf(w->to, NODE_S, 0), LN_2);
    case NODE_I: case NODE_P: case NODE_J: return expression_leaf(w->to, n->op, 0);
    case NODE_TABLE: return expression_element(w->to, n->table, a, 0);
    case NODE_MIN: case NODE_MAX:
        if (!floats && of[n->a].high <= of[n->b].low)
            return n->op == NODE_MIN ? a : b;
        if (!floats && of[n->b].high <= of[n->a].low)
            return n->op == NODE_MIN ? b : a;
        return make(w, n->op, a, b, 0);
    case NODE_ABS: return !floats && of[n->a].low >= 0 ? a : make(w, n->op, a, 0, 0);
    case NODE_MUL: return floats ? multiplied(w, a, b) : make(w, n->op, a, b, 0);
    case NODE_DIV: return divided(w, a, b);
    case NODE_FLOOR: /* a quotient is not made a product: where it is whole, it remains so */
        if (w->from->nodes[n->a].op != NODE_DIV)
            return make(w, n->op, a, 0, 0);
        n = &w->from->nodes[n->a];
        return make(w, NODE_FLOOR, make(w, NODE_DIV, w->plain[n->a], w->plain[n->b], 0), 0, 0);
    case NODE_EXP: return make(w, NODE_EXP2, times(w, a, LOG2_E), 0, 0);
    default: return make(w, n->op, a, b, operands > 2 ? w->plain[n->c] : 0);
    }
}

/* log2(e) times it, without a product where the operation passes factors on. */
static int scaled_form(struct rewriting *w, int node)
{
    const struct expression_node *n = &w->from->nodes[node];
    const int operands = operations[n->op].operands;
    const bool reads = (n->reads & READS_S) != 0;
    const bool of_a = operands > 0 && (w->from->nodes[n->a].reads & READS_S) != 0;
    const bool of_b = operands > 1 && (w->from->nodes[n->b].reads & READS_S) != 0;
    if (!reads || n->type != EXPRESSION_FLOAT)
        return n->type == EXPRESSION_FLOAT ? times(w, w->plain[node], LOG2_E) : -1;
    switch (n->op) {
    case NODE_S: return expression_leaf(w->to, NODE_S, 0);
    case NODE_ADD: case NODE_SUB: case NODE_MIN: case NODE_MAX:
        return make(w, n->op, w->scaled[n->a], w->scaled[n->b], 0);
    case NODE_NEG: case NODE_ABS: return make(w, n->op, w->scaled[n->a], 0, 0);
    case NODE_MUL: return of_a ? multiplied(w, w->scaled[n->a], w->plain[n->b])
                               : multiplied(w, w->plain[n->a], w->scaled[n->b]);
    case NODE_DIV: return of_a && !of_b ? divided(w, w->scaled[n->a], w->plain[n->b])
                                        : times(w, w->plain[node], LOG2_E);
    case NODE_WHERE: return make(w, n->op, w->plain[n->a], w->scaled[n->b], w->scaled[n->c]);
    default: return times(w, w->plain[node], LOG2_E);
    }
}

struct expression *expression_for_kernel(const struct expression *from, const struct expression_box *box)
{
    const size_t count = (size_t)from->count;
    struct expression *to = expression_new();
    HEAP struct expression_range *ranges = memory_get(count, sizeof *ranges);
    int *forms = memory_get(2 * count, sizeof *forms), node = 0;
    bool good = expression_ranges(from, box, ranges, &node);
    struct rewriting w = {from, to, ranges, forms, forms + count};
    for (int i = 0; good && i < from->count; i++) {
        w.plain[i] = plain_form(&w, i);
        w.scaled[i] = scaled_form(&w, i);
    }
    if (good) {
        const bool score = from->nodes[from->root].type == EXPRESSION_FLOAT;
        to->root = score ? w.scaled[from->root] : w.plain[from->root];
        good = !to->overflow;
        expression_compact(to);
    }
    free(forms);
    if (!good) {
        expression_free(to);
        to = NULL;
    }
    return to;
}
