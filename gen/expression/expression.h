/* SPDX-License-Identifier: MIT */
/* Expressions of a spec: `score = s - 0.5 * abs(p - j)`, `visible = p // 64 == j // 64 or i == 0`.
 *
 *   text -> nodes in the order of evaluation, typed, constants folded, equal ones shared
 *
 * Precedence and associativity are Python's, comparisons are not chained. A number without point and exponent is an
 * integer; integers become floats where one is needed; / gives a float, // and % are of integers and round down, and
 * n // 0 is 0, n % 0 is n. Only conditions are truth values. min and max of NaN are NaN. An index out of range is
 * clamped, by nodes of its own.
 *
 * Left out on purpose: how kernels compute one (context.c, templates/), how far f32 is off (runtime/reference/).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

#define EXPRESSION_NODES 500  /* of a text, after sharing */
#define EXPRESSION_DEPTH 100  /* brackets, calls, signs inside each other */
#define EXPRESSION_AXES 4     /* of a table */

enum expression_type { EXPRESSION_INTEGER, EXPRESSION_FLOAT, EXPRESSION_CONDITION };

/* Operands are a, b, c. Those of an operation have one type, except where it says. */
enum expression_op {
    NODE_CONSTANT,                    /* of any type */
    NODE_S, NODE_I, NODE_P, NODE_J,   /* s is a float, the others are integers */
    NODE_TABLE,                       /* element a, an integer inside the table, of table `table` */
    NODE_FLOAT,                       /* integer a as a float */
    NODE_ADD, NODE_SUB, NODE_MUL, NODE_MIN, NODE_MAX, NODE_NEG, NODE_ABS,
    NODE_FLOOR_DIV, NODE_MOD,         /* integers */
    NODE_DIV, NODE_EXP, NODE_TANH, NODE_SQRT, NODE_LOG, NODE_FLOOR, /* floats */
    NODE_EXP2,                        /* of expression_in_base_2 alone */
    NODE_EQ, NODE_NE, NODE_LT, NODE_LE, /* conditions on numbers */
    NODE_AND, NODE_OR, NODE_NOT,
    NODE_WHERE,                       /* a ? b : c */
    NODE_OPS
};

enum { READS_S = 1, READS_I = 2, READS_P = 4, READS_J = 8, READS_TABLE = 16 };

struct expression_node {
    enum expression_op op;
    enum expression_type type;
    int a, b, c;      /* nodes before this one; 0 where the operation has none */
    int table;
    unsigned reads;   /* what it and its operands read */
    int64_t integer;  /* NODE_CONSTANT: an integer, or a condition as 0 or 1 */
    double number;    /* NODE_CONSTANT: a float */
    size_t column;    /* where the text first asked for it */
};

struct expression {
    char *text; /* as it was read; NULL of one that was made */
    struct expression_node *nodes;
    int count, room, root;
    unsigned named; /* bit by bit the tables that the text reads, of which folding may leave nothing */
    bool overflow; /* a constant left 64 bits */
};

struct expression_table {
    const char *name;
    int axes;
    int64_t extent[EXPRESSION_AXES];
};

/* What a text may name, and where it stands: column 1 of `place`, "file:line",
 * is its first byte where `column` is 1. */
struct expression_scope {
    bool score;  /* true: a score, of type float or integer, which may read s; false: a condition */
    const struct expression_table *tables;
    int table_count;
    const char *place;
    size_t column;
};

/* NULL, with an error in diag, where the text is no expression. */
struct expression *expression_read(const char *text, const struct expression_scope *scope, struct diag *diag);
void expression_free(struct expression *expression);

/* The number of operands of an operation, and its name: "add". */
int expression_operands(enum expression_op op);
const char *expression_op_name(enum expression_op op);
/* Why no table can have this name, for "table NAME ..."; NULL: it can. */
const char *expression_name_fault(const char *name);

/* ---- values ---- */

struct expression_point {
    double s;
    int64_t i, p, j;
    const float *const *tables;
};
union expression_value {
    int64_t integer; /* and conditions: 0 or 1 */
    double number;
};
/* All nodes' values, in double; the root's is values[expression->root]. */
void expression_evaluate(const struct expression *expression, const struct expression_point *at,
                         union expression_value *values);
/* One node's, from those of its operands. */
union expression_value expression_node_value(const struct expression *expression, int node,
                                             const struct expression_point *at, const union expression_value *values);

/* ---- ranges ---- */

/* Both ends belong to it. Of a condition 0 and 1: {0, 0} never, {1, 1} always, {0, 1} not known. Of floats least ...
 * most, which may be infinite, a little wider than f32 and double may round; not of NaN,
 * which a float then may be besides. */
struct expression_range {
    int64_t low, high;
    double least, most;
};
struct expression_box {
    struct expression_range i, p, j;
};
/* The range of every node over all points of the box; false where an integer may leave 64 bits: *node is its index. */
bool expression_ranges(const struct expression *expression, const struct expression_box *box,
                       struct expression_range *ranges, int *node);

/* ---- kernels ---- */

/* Whether a score is s plus what does not read s; whether it may be -infinity for a finite s and finite tables,
 * no zeros. */
bool expression_adds(const struct expression *expression);
bool expression_hides(const struct expression *expression, const struct expression_box *box);
/* Whether a comparison reads s. */
bool expression_decides(const struct expression *expression);
/* Operations that must be done for each pair of a query and a key: that read s, or both p and j. */
int expression_pair_operations(const struct expression *expression);

/* The same in the kernel's units: of a score, s is given times log2(e) and so is the result; exp is a power of 2, a
 * division by a constant is a product, and what the ranges make superfluous is gone. Constants may be up to log2(e)
 * FLT_MAX, and kernels take FLT_MAX for those above it. NULL without memory. */
struct expression *expression_for_kernel(const struct expression *expression, const struct expression_box *box);

/* ---- how nodes are made, for expression_read.c: what is constant is folded, what is there already is shared ---- */

struct expression *expression_new(void);
int expression_integer(struct expression *expression, int64_t value, size_t column);
int expression_number(struct expression *expression, double value, size_t column);
int expression_leaf(struct expression *expression, enum expression_op op, size_t column);
int expression_element(struct expression *expression, int table, int index, size_t column);
/* Operands that the operation does not have are 0. Sets `overflow` where an integer leaves 64 bits. */
int expression_make(struct expression *expression, enum expression_op op, int a, int b, int c, size_t column);
int expression_as_float(struct expression *expression, int node);
/* Drops what `root` does not need; the root is the last node then. False without memory. */
void expression_compact(struct expression *expression);
