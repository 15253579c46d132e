/* SPDX-License-Identifier: MIT */
/* The text of an expression -> nodes: words, then what stands where by Python's grammar, then types.
 *
 * The first mistake ends the reading: what follows would often only repeat it.
 */
#include "expression/expression.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/number.h"
#include "base/text.h"

enum word { WORD_END, WORD_INTEGER, WORD_FLOAT, WORD_NAME, WORD_SIGN, WORD_BAD };

struct reader {
    const struct expression_scope *scope;
    struct diag *diag;
    struct expression *e;
    const char *text;
    bool failed;
    int depth;

    /* the word that is next */
    enum word word;
    const char *start;
    size_t length;
    int64_t integer;
    double number;
};

/* ---- messages -------------------------------------------------------------------------------------------- */

static size_t column_of(const struct reader *r, const char *at) { return r->scope->column + (size_t)(at - r->text); }

/* Keeps the first mistake; `at`: where it stands. */
#define FAIL(r, at, ...) \
    do { \
        char place_[400]; \
        if (!(r)->failed) { \
            snprintf(place_, sizeof place_, "%s:%zu", (r)->scope->place, (at)); \
            diag_error((r)->diag, place_, __VA_ARGS__); \
        } \
        (r)->failed = true; \
    } while (0)

/* ---- words ----------------------------------------------------------------------------------------------- */

static bool begins_name(char c) { return is_letter(c) || c == '_'; }

/* Digits with a point or an exponent are a float, others an integer. */
static void read_number(struct reader *r)
{
    const char *c = r->start;
    while (is_digit(*c))
        c++;
    const size_t whole = (size_t)(c - r->start);
    bool is_float = *c == '.';
    for (c += is_float; is_float && is_digit(*c);)
        c++;
    const char *sign = c + 1 + (c[0] != '\0' && (c[1] == '+' || c[1] == '-'));
    if ((*c == 'e' || *c == 'E') && is_digit(*sign)) {
        is_float = true;
        for (c = sign; is_digit(*c);)
            c++;
    }
    r->length = (size_t)(c - r->start);
    r->word = is_float ? WORD_FLOAT : WORD_INTEGER;
    const size_t at = column_of(r, r->start);
    if (begins_name(*c) || *c == '.') {
        while (begins_name(*c) || is_digit(*c) || *c == '.')
            c++;
        FAIL(r, at, "'%s' is not a number; write digits, perhaps with a point and an exponent as in 2.5e-3",
             text_show(r->start, (size_t)(c - r->start)).text);
    } else if (!is_float) {
        uint64_t value = 0;
        size_t zeros = 0;
        while (zeros + 1 < whole && r->start[zeros] == '0')
            zeros++;
        if (zeros > 0 && r->start[zeros] != '0')
            FAIL(r, at, "%s begins with 0; write %s", text_show(r->start, whole).text,
                 text_show(r->start + zeros, whole - zeros).text);
        else if (!number_whole(r->start + zeros, whole - zeros, 0, INT64_MAX, &value))
            FAIL(r, at, "%s is above 2^63 - 1; write it as a float, with a point", text_show(r->start, whole).text);
        r->integer = (int64_t)value;
    } else {
        HEAP char *copy = text_part(r->start, r->length);
        (void)number_real(copy, &r->number); /* 1e999 is infinity, as in Python */
        if (isfinite(r->number) && r->number > (double)FLT_MAX)
            FAIL(r, at, "%s is not finite in f32; write a number below 3.4e38, or 1e999 for infinity",
                 text_show(r->start, r->length).text);
    }
}

/* The signs, those of two characters first; then what other languages write, and what is meant. */
static const char *const signs[] = {"//", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "<", ">", "(", ")", "[",
                                    "]", ",", NULL};
static const struct {
    const char *sign, *right;
} foreign[] = {
    {"**", "write a product, or exp"}, {"<>", "write !="}, {"&&", "write and"}, {"||", "write or"},
    {"<<", "write a product"}, {">>", "write //"}, {"&", "write and"}, {"|", "write or"}, {"!", "write not"},
    {"~", "write not"}, {"=", "write =="},
    {"^", "write a product, or exp"}, {"?", "write where(condition, a, b)"}, {"{", "write ("}, {"}", "write )"},
    {".", "write a number as 0.5"}};

static void next_word(struct reader *r)
{
    const char *c = r->start + r->length;
    while (*c == ' ' || *c == '\t')
        c++;
    r->start = c;
    r->length = 1;
    if (*c == '\0') {
        r->word = WORD_END;
        r->length = 0;
    } else if (is_digit(*c) || (*c == '.' && is_digit(c[1]))) {
        read_number(r);
    } else if (begins_name(*c)) {
        while (begins_name(*c) || is_digit(*c))
            c++;
        r->length = (size_t)(c - r->start);
        r->word = WORD_NAME;
    } else {
        for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
            if (strlen(foreign[i].sign) == 2 && strncmp(c, foreign[i].sign, 2) == 0)
                FAIL(r, column_of(r, c), "there is no '%s'; %s", foreign[i].sign, foreign[i].right);
        r->word = WORD_BAD;
        for (size_t i = 0; signs[i] != NULL && r->word == WORD_BAD; i++)
            if (strncmp(c, signs[i], strlen(signs[i])) == 0) {
                r->word = WORD_SIGN;
                r->length = strlen(signs[i]);
            }
        for (size_t i = 0; r->word == WORD_BAD && i < sizeof foreign / sizeof *foreign; i++)
            if (*c == foreign[i].sign[0] && foreign[i].sign[1] == '\0')
                FAIL(r, column_of(r, c), "there is no '%s'; %s", foreign[i].sign, foreign[i].right);
        if (r->word == WORD_BAD)
            FAIL(r, column_of(r, c), "'%s' is no part of an expression; write numbers, names, operators and brackets",
                 text_show(c, 1).text);
    }
}

static bool is_word(const struct reader *r, enum word kind, const char *word)
{
    return r->word == kind && strlen(word) == r->length && memcmp(r->start, word, r->length) == 0;
}
static bool is_sign(const struct reader *r, const char *sign) { return is_word(r, WORD_SIGN, sign); }
static bool is_name(const struct reader *r, const char *name) { return is_word(r, WORD_NAME, name); }

/* "'+'", "the end" */
static struct shown next_shown(const struct reader *r)
{
    struct shown shown = text_show(r->start, r->length);
    if (r->word == WORD_END) {
        strcpy(shown.text, "the end");
    } else {
        memmove(shown.text + 1, shown.text, strlen(shown.text) + 1);
        shown.text[0] = '\'';
        strcat(shown.text, "'");
    }
    return shown;
}

static void expect(struct reader *r, const char *sign, const char *behind)
{
    if (is_sign(r, sign))
        next_word(r);
    else
        FAIL(r, column_of(r, r->start), "%s where %s should end; write '%s'", next_shown(r).text, behind, sign);
}

/* ---- operators ------------------------------------------------------------------------------------------- */

/* From those that bind least; operators of one level are taken from the left. */
enum level { LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARISON, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_SIGN };

static const struct operator {
    const char *word;
    enum level level;
    enum expression_op op;
    bool swapped; /* its operands are those of `op`, exchanged */
} operators[] = {
    {"or", LEVEL_OR, NODE_OR, false}, {"and", LEVEL_AND, NODE_AND, false},
    {"==", LEVEL_COMPARISON, NODE_EQ, false}, {"!=", LEVEL_COMPARISON, NODE_NE, false},
    {"<=", LEVEL_COMPARISON, NODE_LE, false}, {">=", LEVEL_COMPARISON, NODE_LE, true},
    {"<", LEVEL_COMPARISON, NODE_LT, false}, {">", LEVEL_COMPARISON, NODE_LT, true},
    {"+", LEVEL_SUM, NODE_ADD, false}, {"-", LEVEL_SUM, NODE_SUB, false},
    {"*", LEVEL_PRODUCT, NODE_MUL, false}, {"/", LEVEL_PRODUCT, NODE_DIV, false},
    {"//", LEVEL_PRODUCT, NODE_FLOOR_DIV, false}, {"%", LEVEL_PRODUCT, NODE_MOD, false}};

/* The operator of this level that is next; NULL: none is. */
static const struct operator *next_operator(const struct reader *r, enum level level)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].level == level && (is_sign(r, operators[i].word) || is_name(r, operators[i].word)))
            return &operators[i];
    return NULL;
}

/* ---- nodes ----------------------------------------------------------------------------------------------- */

static const char *const type_names[] = {"an integer", "a float", "a condition"};

static enum expression_type type_at(const struct reader *r, int node) { return r->e->nodes[node].type; }

static int made(struct reader *r, int node, size_t at)
{
    if (r->e->overflow)
        FAIL(r, at, "these constants leave 64 bits; write one of them as a float, with a point");
    if (r->e->count > EXPRESSION_NODES)
        FAIL(r, at, "more than %d operations, names and numbers; write a shorter expression, or a table",
             EXPRESSION_NODES);
    return r->failed ? 0 : node;
}

static int build(struct reader *r, enum expression_op op, int a, int b, int c, size_t at)
{
    return r->failed ? 0 : made(r, expression_make(r->e, op, a, b, c, at), at);
}

/* Converts both to float where one of them is. */
static void meet(struct reader *r, int *a, int *b)
{
    if (r->failed || type_at(r, *a) == type_at(r, *b))
        return;
    *a = expression_as_float(r->e, *a);
    *b = expression_as_float(r->e, *b);
}

static void need_number(struct reader *r, int node, const char *what, size_t at)
{
    if (!r->failed && type_at(r, node) == EXPRESSION_CONDITION)
        FAIL(r, at, "%s is of numbers, and this is a condition; write where(condition, 1, 0)", what);
}

static void need_condition(struct reader *r, int node, const char *what, size_t at)
{
    if (!r->failed && type_at(r, node) != EXPRESSION_CONDITION)
        FAIL(r, at, "%s takes conditions, and this is %s; write a comparison, as in x != 0", what,
             type_names[type_at(r, node)]);
}

static bool is_zero(const struct reader *r, int node)
{
    const struct expression_node *n = &r->e->nodes[node];
    return !r->failed && n->op == NODE_CONSTANT &&
           (n->type == EXPRESSION_FLOAT ? n->number == 0 : n->integer == 0);
}

static int arithmetic(struct reader *r, enum expression_op op, const char *name, int a, int b, size_t at, size_t at_a,
                      size_t at_b)
{
    const bool of_integers = op == NODE_FLOOR_DIV || op == NODE_MOD, divides = of_integers || op == NODE_DIV;
    need_number(r, a, name, at_a);
    need_number(r, b, name, at_b);
    if (!r->failed && of_integers && (type_at(r, a) == EXPRESSION_FLOAT || type_at(r, b) == EXPRESSION_FLOAT))
        FAIL(r, type_at(r, a) == EXPRESSION_FLOAT ? at_a : at_b,
             "%s is of integers, and this is a float; write integers, or / for floats", name);
    if (!r->failed && divides && is_zero(r, b))
        FAIL(r, at_b, "division by a constant zero; write another divisor");
    if (r->failed)
        return 0;
    if (op == NODE_DIV) {
        a = expression_as_float(r->e, a);
        b = expression_as_float(r->e, b);
    }
    meet(r, &a, &b);
    return build(r, op, a, b, 0, at);
}

static int both(struct reader *r, int a, int b, size_t at) { return build(r, NODE_AND, a, b, 0, at); }
static int either(struct reader *r, int a, int b, size_t at) { return build(r, NODE_OR, a, b, 0, at); }
static int no(struct reader *r, int a, size_t at) { return build(r, NODE_NOT, a, 0, 0, at); }

/* condition ? a : b of conditions */
static int choose(struct reader *r, int condition, int a, int b, size_t at)
{
    return either(r, both(r, condition, a, at), both(r, no(r, condition, at), b, at), at);
}

static int compare(struct reader *r, const struct operator *o, int a, int b, size_t at, size_t at_a, size_t at_b)
{
    const bool equality = o->op == NODE_EQ || o->op == NODE_NE;
    if (!r->failed && equality && type_at(r, a) == EXPRESSION_CONDITION && type_at(r, b) == EXPRESSION_CONDITION)
        return o->op == NODE_NE ? choose(r, a, no(r, b, at), b, at) : choose(r, a, b, no(r, b, at), at);
    need_number(r, a, o->word, at_a);
    need_number(r, b, o->word, at_b);
    meet(r, &a, &b);
    return o->swapped ? build(r, o->op, b, a, 0, at) : build(r, o->op, a, b, 0, at);
}

/* Of any level. */
static int combine(struct reader *r, const struct operator *o, int a, int b, size_t at, size_t at_a, size_t at_b)
{
    if (o->level == LEVEL_COMPARISON)
        return compare(r, o, a, b, at, at_a, at_b);
    if (o->level >= LEVEL_SUM)
        return arithmetic(r, o->op, o->word, a, b, at, at_a, at_b);
    need_condition(r, a, o->word, at_a);
    need_condition(r, b, o->word, at_b);
    return build(r, o->op, a, b, 0, at);
}

/* ---- grammar --------------------------------------------------------------------------------------------- */

static int read_level(struct reader *r, enum level level);

static bool enter(struct reader *r)
{
    if (r->depth > EXPRESSION_DEPTH) /* the innermost operand is one more */
        FAIL(r, column_of(r, r->start), "more than %d brackets, calls and signs inside each other; write fewer",
             EXPRESSION_DEPTH);
    r->depth++;
    return !r->failed;
}

struct argument { int node; size_t at; };

/* The `count` arguments of a call, up to its closing bracket. */
static void read_arguments(struct reader *r, const char *name, int count, const char *form, struct argument *arguments)
{
    next_word(r);
    if (!is_sign(r, "("))
        FAIL(r, column_of(r, r->start), "%s after %s; write %s", next_shown(r).text, name, form);
    for (int i = 0; i < count && !r->failed; i++) {
        next_word(r);
        arguments[i].at = column_of(r, r->start);
        if (is_sign(r, ")"))
            FAIL(r, arguments[i].at, "%s has too few arguments; write %s", name, form);
        arguments[i].node = read_level(r, LEVEL_OR);
        if (i + 1 < count && !r->failed && !is_sign(r, ","))
            FAIL(r, column_of(r, r->start), "%s where %s should continue; write %s", next_shown(r).text, name, form);
    }
    if (!r->failed && is_sign(r, ","))
        FAIL(r, column_of(r, r->start), "%s has too many arguments; write %s", name, form);
    if (!r->failed)
        expect(r, ")", "the call");
}

/* A constant that is a whole number other than 0, as an integer; -1: it is none */
static int whole_constant(struct reader *r, int node)
{
    const struct expression_node *n = &r->e->nodes[node];
    if (n->op != NODE_CONSTANT || !(fabs(n->number) < 0x1p53) || n->number != floor(n->number) || n->number == 0)
        return -1;
    return expression_integer(r->e, (int64_t)n->number, n->column);
}

/* Of an integer over a whole constant the quotient is one of integers, which is exact. */
static int call_floor(struct reader *r, int a, size_t at)
{
    const struct expression_node n = r->e->nodes[a];
    const int by = n.op == NODE_DIV && r->e->nodes[n.a].op == NODE_FLOAT ? whole_constant(r, n.b) : -1;
    if (by < 0)
        return build(r, NODE_FLOOR, a, 0, 0, at);
    return expression_as_float(r->e, build(r, NODE_FLOOR_DIV, r->e->nodes[n.a].a, by, 0, at));
}

static int call_sigmoid(struct reader *r, int a, size_t at)
{
    const int one = expression_number(r->e, 1, at), minus = build(r, NODE_NEG, a, 0, 0, at);
    const int power = build(r, NODE_EXP, minus, 0, 0, at);
    return build(r, NODE_DIV, one, build(r, NODE_ADD, one, power, 0, at), 0, at);
}

static int call_of_one(struct reader *r, enum expression_op op, const struct argument *of, size_t at)
{
    need_number(r, of->node, op == NODE_DIV ? "sigmoid" : expression_op_name(op), of->at);
    if (r->failed)
        return 0;
    if (op == NODE_FLOOR || op == NODE_DIV)
        return (op == NODE_DIV ? call_sigmoid : call_floor)(r, expression_as_float(r->e, of->node), at);
    return build(r, op, op == NODE_ABS ? of->node : expression_as_float(r->e, of->node), 0, 0, at);
}

static int call_where(struct reader *r, struct argument *of, size_t at)
{
    int a = of[1].node, b = of[2].node;
    need_condition(r, of[0].node, "where's first argument", of[0].at);
    if (r->failed)
        return 0;
    const bool first = type_at(r, a) == EXPRESSION_CONDITION, second = type_at(r, b) == EXPRESSION_CONDITION;
    if (first && second)
        return choose(r, of[0].node, a, b, at);
    if (first != second) {
        FAIL(r, of[2].at, "where chooses between %s and %s; write two numbers or two conditions",
             type_names[type_at(r, a)], type_names[type_at(r, b)]);
        return 0;
    }
    meet(r, &a, &b);
    return build(r, NODE_WHERE, of[0].node, a, b, at);
}

static const struct function {
    const char *name, *form;
    int arguments;
    enum expression_op op;
} functions[] = {
    {"min", "min(a, b)", 2, NODE_MIN}, {"max", "max(a, b)", 2, NODE_MAX}, {"abs", "abs(a)", 1, NODE_ABS},
    {"exp", "exp(a)", 1, NODE_EXP}, {"tanh", "tanh(a)", 1, NODE_TANH}, {"sqrt", "sqrt(a)", 1, NODE_SQRT},
    {"log", "log(a)", 1, NODE_LOG}, {"floor", "floor(a)", 1, NODE_FLOOR},
    {"sigmoid", "sigmoid(a)", 1, NODE_DIV}, /* 1 / (1 + exp(-a)) */
    {"where", "where(condition, a, b)", 3, NODE_WHERE}};
#define FUNCTIONS (sizeof functions / sizeof *functions)

static int read_call(struct reader *r, const struct function *f)
{
    struct argument of[3] = {{0}};
    const size_t at = column_of(r, r->start);
    read_arguments(r, f->name, f->arguments, f->form, of);
    if (r->failed)
        return 0;
    return f->op == NODE_WHERE ? call_where(r, of, at)
           : f->arguments == 1 ? call_of_one(r, f->op, of, at)
                               : arithmetic(r, f->op, f->name, of[0].node, of[1].node, at, of[0].at, of[1].at);
}

static int read_index(struct reader *r)
{
    const size_t at = column_of(r, r->start);
    const int index = read_level(r, LEVEL_OR);
    if (!r->failed && type_at(r, index) != EXPRESSION_INTEGER)
        FAIL(r, at, "an index is an integer, and this is %s; write an integer", type_names[type_at(r, index)]);
    return index;
}

/* At the comma of "NAME[i, p]", whose bracket is `open`: as many indices would be right if each had brackets of its
 * own. The number of the commas. */
static int read_commas(struct reader *r, const char *name, const char *open, int axes)
{
    char right[(EXPRESSION_AXES + 1) * (sizeof(struct shown) + 2)];
    const size_t at = column_of(r, r->start);
    size_t used = (size_t)sprintf(right, "%s", text_show(name, (size_t)(open - name)).text);
    const char *start = open + 1;
    int commas = 0;
    while (!r->failed) {
        const char *end = r->start;
        for (; start < end && (*start == ' ' || *start == '\t'); start++)
            ;
        for (; end > start && (end[-1] == ' ' || end[-1] == '\t'); end--)
            ;
        if (commas < EXPRESSION_AXES)
            used += (size_t)sprintf(right + used, "[%s]", text_show(start, (size_t)(end - start)).text);
        if (!is_sign(r, ","))
            break;
        commas++;
        start = r->start + 1;
        next_word(r);
        read_index(r);
    }
    if (commas + 1 == axes)
        FAIL(r, at, "a comma where the index should end; write %s", right);
    return commas;
}

/* NAME[index]…[index]: the indices clamped, and the element's place in the table. */
static int read_table(struct reader *r, int which)
{
    const struct expression_table *table = &r->scope->tables[which];
    const char *name = r->start;
    const size_t at = column_of(r, name);
    int place = made(r, expression_integer(r->e, 0, at), at), axis = 0;
    r->e->named |= 1u << which;
    next_word(r);
    for (; !r->failed && is_sign(r, "["); axis++) {
        const char *open = r->start;
        next_word(r);
        int index = read_index(r);
        if (!r->failed && is_sign(r, ","))
            axis += read_commas(r, name, open, table->axes - axis);
        if (!r->failed)
            expect(r, "]", "the index");
        if (r->failed || axis >= table->axes) {
            axis += !r->failed;
            break;
        }
        const int64_t extent = table->extent[axis];
        const int zero = made(r, expression_integer(r->e, 0, at), at);
        const int last = made(r, expression_integer(r->e, extent - 1, at), at);
        const int size = made(r, expression_integer(r->e, extent, at), at);
        index = build(r, NODE_MIN, build(r, NODE_MAX, index, zero, 0, at), last, 0, at);
        place = build(r, NODE_ADD, build(r, NODE_MUL, place, size, 0, at), index, 0, at);
    }
    if (!r->failed && axis != table->axes) {
        char form[8 * EXPRESSION_AXES + 1] = "";
        for (int i = 0; i < table->axes; i++)
            strcat(form, "[index]");
        FAIL(r, at, "table %s has %d %s, and this is %s; write %s%s", table->name, table->axes,
             table->axes == 1 ? "axis" : "axes", axis > table->axes ? "more" : axis == 0 ? "none of them" : "fewer",
             table->name, form);
    }
    return r->failed ? 0 : made(r, expression_element(r->e, which, place, at), at);
}

static int unknown_name(struct reader *r)
{
    static const char *const infinite[] = {"inf", "Inf", "INF", "infinity", "Infinity", "INFINITY"};
    char text[NEAREST_TEXT];
    for (size_t i = 0; i < sizeof infinite / sizeof *infinite; i++)
        if (is_name(r, infinite[i]))
            FAIL(r, column_of(r, r->start), "unknown name '%s'; write 1e999 for infinity", infinite[i]);
    struct nearest nearest = nearest_to(r->start, r->length);
    for (size_t i = 0; i < FUNCTIONS; i++)
        nearest_offer(&nearest, functions[i].name);
    for (int i = 0; i < r->scope->table_count; i++)
        nearest_offer(&nearest, r->scope->tables[i].name);
    FAIL(r, column_of(r, r->start), "unknown name '%s'; %s", text_show(r->start, r->length).text,
         nearest_ask(&nearest, text,
                     r->scope->score
                     ? "write s, i, p, j, min, max, abs, exp, tanh, sqrt, where, or a table that table.NAME declares"
                     : "write i, p, j, min, max, abs, exp, tanh, sqrt, where, or a table that table.NAME declares"));
    return 0;
}

static int read_name(struct reader *r)
{
    static const struct { const char *name; enum expression_op op; } leaves[] = {
        {"s", NODE_S}, {"i", NODE_I}, {"p", NODE_P}, {"j", NODE_J}};
    const size_t at = column_of(r, r->start);
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if (is_name(r, leaves[i].name)) {
            if (leaves[i].op == NODE_S && !r->scope->score)
                FAIL(r, at, "visible does not read s; write a condition on i, p and j");
            next_word(r);
            if (!r->failed && (is_sign(r, "(") || is_sign(r, "[")))
                FAIL(r, column_of(r, r->start), "%s is a number; write an operator after it", leaves[i].name);
            return r->failed ? 0 : made(r, expression_leaf(r->e, leaves[i].op, at), at);
        }
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (is_name(r, functions[i].name))
            return read_call(r, &functions[i]);
    for (int i = 0; i < r->scope->table_count; i++)
        if (is_name(r, r->scope->tables[i].name))
            return read_table(r, i);
    if (is_name(r, "and") || is_name(r, "or") || is_name(r, "not")) {
        FAIL(r, at, "'%s' where an operand should begin; write %s", text_show(r->start, r->length).text,
             is_name(r, "not") ? "brackets around not ..." : "what it joins before it");
        return 0;
    }
    return unknown_name(r);
}

static int read_operand(struct reader *r)
{
    const size_t at = column_of(r, r->start);
    int node = 0;
    if (!enter(r))
        return 0;
    if (r->word == WORD_INTEGER || r->word == WORD_FLOAT) {
        node = r->word == WORD_INTEGER ? expression_integer(r->e, r->integer, at)
                                       : expression_number(r->e, r->number, at);
        node = made(r, node, at);
        next_word(r);
    } else if (r->word == WORD_NAME) {
        node = read_name(r);
    } else if (is_sign(r, "(")) {
        next_word(r);
        node = read_level(r, LEVEL_OR);
        if (!r->failed)
            expect(r, ")", "the bracket");
    } else if (is_sign(r, "+")) {
        FAIL(r, at, "there is no sign +; leave it out");
    } else {
        FAIL(r, at, "%s where an operand should begin; write a number, a name or a bracket", next_shown(r).text);
    }
    r->depth--;
    return node;
}

/* "-" or "not", as often as it is there, in front of an operand of its level. */
static int read_prefix(struct reader *r, enum level level)
{
    const char *const word = level == LEVEL_SIGN ? "-" : "not";
    const size_t at = column_of(r, r->start);
    if (!is_sign(r, word) && !is_name(r, word))
        return level == LEVEL_SIGN ? read_operand(r) : read_level(r, level + 1);
    if (!enter(r))
        return 0;
    next_word(r);
    const size_t at_operand = column_of(r, r->start);
    const int node = r->failed ? 0 : read_prefix(r, level);
    r->depth--;
    if (level == LEVEL_SIGN)
        need_number(r, node, word, at_operand);
    else
        need_condition(r, node, word, at_operand);
    return build(r, level == LEVEL_SIGN ? NODE_NEG : NODE_NOT, node, 0, 0, at);
}

/* An operand of this level: operands of the next level, which binds tighter, joined by this level's operators. */
static int read_level(struct reader *r, enum level level)
{
    if (r->failed)
        return 0;
    if (level == LEVEL_NOT || level == LEVEL_SIGN)
        return read_prefix(r, level);
    const size_t at_a = column_of(r, r->start);
    int node = read_level(r, level + 1);
    for (const struct operator *o; !r->failed && (o = next_operator(r, level)) != NULL;) {
        const size_t at = column_of(r, r->start);
        next_word(r);
        const size_t at_b = column_of(r, r->start);
        const int b = read_level(r, level + 1);
        node = combine(r, o, node, b, at, at_a, at_b);
        if (!r->failed && level == LEVEL_COMPARISON && next_operator(r, level) != NULL)
            FAIL(r, column_of(r, r->start), "comparisons are not chained; write a < b and b < c");
    }
    return r->failed ? 0 : node;
}

/* Reports text after a complete expression. */
static void check_end(struct reader *r)
{
    const size_t at = column_of(r, r->start);
    if (r->word == WORD_END)
        return;
    if (is_sign(r, ")") || is_sign(r, "]"))
        FAIL(r, at, "%s closes nothing; leave it out", next_shown(r).text);
    else if (is_name(r, "if") || is_name(r, "else"))
        FAIL(r, at, "there is no '%s'; write where(condition, a, b)", text_show(r->start, r->length).text);
    else if (is_sign(r, ","))
        FAIL(r, at, "a comma outside of arguments; leave it out");
    else if (is_sign(r, "["))
        FAIL(r, at, "only tables have an index; declare table.NAME = extent, and write NAME[index]");
    else
        FAIL(r, at, "%s comes after a whole expression; write an operator before it", next_shown(r).text);
}

/* Kernels compute in f32: remaining constants must be finite there, or infinite where written so. */
static void check_constants(struct reader *r)
{
    for (int i = 0; !r->failed && i < r->e->count; i++) {
        const struct expression_node *n = &r->e->nodes[i];
        if (n->op == NODE_CONSTANT && n->type == EXPRESSION_FLOAT && isnan(n->number))
            FAIL(r, n->column, "this constant is not a number; write one that is");
        else if (n->op == NODE_CONSTANT && n->type == EXPRESSION_FLOAT && isfinite(n->number) &&
                 fabs(n->number) > (double)FLT_MAX)
            FAIL(r, n->column, "this constant is %g, not finite in f32; write one below 3.4e38, or 1e999 for infinity",
                 n->number);
    }
}

struct expression *expression_read(const char *text, const struct expression_scope *scope, struct diag *diag)
{
    struct reader r = {.scope = scope, .diag = diag, .e = expression_new(), .text = text, .start = text};
    next_word(&r);
    r.e->root = read_level(&r, LEVEL_OR);
    if (!r.failed)
        check_end(&r);
    if (scope->score)
        need_number(&r, r.e->root, "a score", scope->column);
    else
        need_condition(&r, r.e->root, "visible", scope->column);
    if (!r.failed && scope->score)
        r.e->root = made(&r, expression_as_float(r.e, r.e->root), scope->column);
    if (!r.failed) {
        r.e->text = text_copy(text);
        expression_compact(r.e);
        check_constants(&r);
    }
    if (!r.failed)
        return r.e;
    expression_free(r.e);
    return NULL;
}

const char *expression_name_fault(const char *name)
{
    static const char *const taken[] = {"s", "i", "p", "j", "and", "or", "not", "if", "else", "inf", "nan", "true",
                                        "false"};
    if (!begins_name(name[0]))
        return "does not begin with a letter";
    for (const char *c = name; *c != '\0'; c++)
        if (!begins_name(*c) && !is_digit(*c))
            return "has more than letters, digits and _";
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i]) == 0)
            return "means something else in an expression";
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (strcmp(name, functions[i].name) == 0)
            return "is a function of expressions";
    return NULL;
}
