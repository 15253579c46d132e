/* SPDX-License-Identifier: MIT */
/* rel_keys and rel_queries: what vectors of distances add to a score before its scale, in double.
 *
 *   q·k becomes (q + rel_u_i)·k + (q + rel_v_i)·rel_k(p - j) + k·rel_q(p - j)
 */
#pragma once

#include "inputs/inputs.h"

/* What is added to q·k of query t and the key of row j of a sequence and head, whose rows are q and k [d_k]. `sizes`:
 * that sum with the size of each number, times c, which is in q already. */
double vectors_sum(const struct layer *layer, const struct inputs *inputs, size_t b, size_t i, size_t t, size_t j,
                   const double *q, const double *k, double c, bool sizes);
