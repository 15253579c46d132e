/* SPDX-License-Identifier: MIT */
/* What a kernel with folded weights computes, as the same layer with other weights: the bound's one derivation then
 * holds for it as it stands.
 *
 * For head i, with c = scale log2(e), g its key and value head, and D_s the width of the rows s that it reads:
 *
 *   scores   c G = c W_Q W_K^T [d_in_q][D_s],  c b' = c b_Q W_K^T [D_s],  Q' = x G + b',  K' = s,  d_k' = D_s
 *            Q' K'^T = Q K^T - Q b_K: the last term is the same for all keys of a row, and softmax does not see it
 *   values   H = W_V W_O [D_s][d_model], or so for each tap,  V' = s,  Z' = A s,  d_v' = D_s; with biases the rows of
 *            V' end in a 1, those of Z' in 1 or, where a row sees nothing, 0, and b_V W_O is the last row of H:
 *            d_v' = D_s + 1
 *
 * The two are independent. W_V = identity has no values to fold, and W_O = none nothing to fold them into.
 *
 * Left out on purpose: f32. The weights here are exact, but for the rounding of double precision.
 */
#pragma once

#include "reference.h"

struct folds {
    bool scores, values;
    struct latent_form expands; /* of latent attention: calls with keys and values of heads */
};

struct folded {
    struct folds folds;         /* those asked for that the layer has */
    struct layer layer;         /* d_k, d_v and identity are those of the folded layer; owns nothing */
    struct reference_head head; /* the last one seen; what is not folded is the plain head's */
    /* |weights| and, in units of u = 2^-24, what packing in double and underflow in f32 may add; NULL: not folded */
    double *w_q_size, *b_q_size, *w_o_size;

    bool indicator;  /* Z' and H have the additional last element */
    size_t d_k, d_v; /* the plain ones */
    double phi;
    double *dropped; /* [rows] |scale| sum |Q||b_K|: the size of what the reference's scores have and the folded lack */
    double *g, *q, *raw, *scores, *h, *v, *z, *left, *right, *column;
};

/* For heads with `rows` rows and at most m keys; phi is what reading a denormal weight as 0 may add, 0 where it is
 * read as it is. */
struct folded folded_make(struct pool *pool, const struct layer *layer, struct folds folds, size_t rows, size_t m,
                          double phi);
/* `head` from the plain layer's; W_K, W_V and their biases are NULL where they are folded. */
void folded_see(struct folded *folded, const struct reference_head *plain, size_t rows);
