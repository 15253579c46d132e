/* SPDX-License-Identifier: MIT */
/* How nodes of an expression are made: what is constant is folded, what is there already is shared.
 *
 * For expression.c and expression_read.c alone.
 */
#ifndef ATTNGEN_EXPRESSION_NODES_H
#define ATTNGEN_EXPRESSION_NODES_H

#include "expression/expression.h"

struct expression *expression_new(void);
int expression_integer(struct expression *expression, int64_t value, size_t column);
int expression_number(struct expression *expression, double value, size_t column);
int expression_leaf(struct expression *expression, enum expression_op op, size_t column);
int expression_element(struct expression *expression, int table, int index, size_t column);
/* Operands that the operation does not have are 0. Sets `overflow` where an integer leaves 64 bits. */
int expression_make(struct expression *expression, enum expression_op op, int a, int b, int c, size_t column);
int expression_as_float(struct expression *expression, int node);
/* Drops what `root` does not need; the root is the last node then. False without memory. */
bool expression_compact(struct expression *expression);

#endif
