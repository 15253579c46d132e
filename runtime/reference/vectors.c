/* SPDX-License-Identifier: MIT */
/* Products with vectors of distances. */
#include "vectors.h"

#include <math.h>

#include "spec/relative.h"

/* Number d of row `row` of head i; of a tensor that the layer does not have, 0 */
static double number(const struct layer *l, const struct inputs *in, enum layer_tensor tensor, bool of_heads,
                     int64_t row, size_t i, int64_t d, bool sizes)
{
    const double x = layer_has_tensor(l, tensor)
                         ? (double)inputs_floats(in, tensor)[(of_heads ? row * l->h + (int64_t)i : row) * l->d_k + d]
                         : 0;
    return sizes ? fabs(x) : x;
}

double vectors_sum(const struct layer *l, const struct inputs *in, size_t b, size_t i, size_t t, size_t j,
                   const double *q, const double *k, double c, bool sizes)
{
    const int64_t back = inputs_position(l, in, b, t) - inputs_first(l, in, b) - (int64_t)j;
    const int64_t row = relative_row(l, back);
    double sum = 0;
    for (int64_t d = 0; layer_has_vectors(l) && d < l->d_k; d++) {
        const double v = c * number(l, in, TENSOR_REL_V, true, 0, i, d, sizes);
        const double u = number(l, in, TENSOR_REL_U, true, 0, i, d, sizes);
        const double r_k = number(l, in, TENSOR_REL_K, l->rel_keys == VECTORS_HEADS, row, i, d, sizes);
        const double r_q = number(l, in, TENSOR_REL_Q, l->rel_queries == VECTORS_HEADS, row, i, d, sizes);
        sum += (l->rel_keys != VECTORS_NONE ? (q[d] + v) * r_k : 0) + c * k[d] * (u + r_q);
    }
    return sum;
}
