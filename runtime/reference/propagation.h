/* SPDX-License-Identifier: MIT */
/* Errors on their way through one head: what docs/bound.md derives, step by step, and attention_error.c continues from
 * scores to weights, their sums and z.
 *
 * Left out on purpose: blocks (block_error.h), norm and rotation (finish_error.h).
 */
#pragma once

#include <float.h>

#include "block_error.h"
#include "fold.h"
#include "roundoff.h"

struct bounds;

#define U BOUND_U
#define LOG2_E BOUND_LOG2_E

struct propagation {
    const struct layer *plain; /* as the spec has it */
    struct folds folds;        /* asked for */
    struct folded folded;      /* as the kernel computes it */
    const struct layer *layer; /* folded.layer, once there is one */
    const struct inputs *in;
    struct bounds *bounds;
    struct pool *lasting, work; /* memory of the bounds; of what follows */
    double omega, phi;               /* error of an underflow, and of reading a subnormal operand as 0 */
    double *y_size;                  /* sum |Z||W| + |b| */
    double *absolute_a, *absolute_b; /* |operands|, as large as the largest */
    double *q, *k, *v, *z;           /* errors of c Q, K, V, Z */
    double *q_size, *k_size, *v_size;
    double *gates, *gate_size;       /* errors of x W_gate + b_gate */
    double *v_unit, *v_unit_least;   /* [keys]: scale of a value in weighted sums of whole numbers, at most and least */
    double *q_reach;                 /* [rows]: the largest sum over the integers of an i8 cache; else 0 */
    unsigned char *q_open;           /* [rows]: not 0 where f32 may overflow on the way to Q and c Q */
    struct block_error normed;       /* [batch * n][d_model] of x as attention sees it; NULL: it is exact */
    struct block_error exact;        /* before rows are rounded, as values that are the input */
    struct block_error x, s;         /* of a head's input; NULL: exact, as the source in cross-attention is */
    double *all[2];                  /* rms_all, [rows][heads d_k]: what errors of x add to all heads' columns of
                                      * queries, of keys; else NULL */
    /* latent attention: errors of z W_UV; of one product after another errors, sizes, and errors that it reads */
    double *up, *up_open, *stage, *stage_size, *no_bias;
    struct block_error of_stage;
    double *z_open;                  /* [rows][d_v]: as y_open */
    unsigned char *k_open, *v_open;  /* [keys] the same of K and, in some column, of V */
    size_t shown_rows; /* of attn */
    double *t_size, *t_worst; /* [rows][keys]: sum |cQ||K|, the same with errors */
    double *moved[2]; /* how far packing moves a head's weights */
    struct {
        double *z, *open; /* [rows][h d_v] of all heads of a sequence, under precision */
        double small;     /* error in y of products of scales that are subnormal */
    } heads;
    struct {                         /* keys [keys][d_head] and values [keys][d_value] of a head from latents */
        double *k, *v, *v_size, *zeros; /* errors of both; zeros: as q_reach */
        unsigned char *open;
    } made;
};

/* sum |cQ||K| of all scores, also with errors; c = scale log2(e) */
void propagation_scores(struct propagation *p, const struct reference_head *head, const struct rows *rows, double c);
/* attn, lse and z of a head */
void propagation_attention(struct propagation *p, const struct reference *reference,
                           const struct reference_head *head);

/* Whether the sums that make one row may overflow in f32. */
static inline bool overflows(const double *row_size, double factor, size_t d)
{
    bool fits = true;
    for (size_t c = 0; c < d; c++)
        fits = fits && factor * row_size[c] <= FLT_MAX;
    return !fits;
}

static inline void promise_nothing(double *worst, double *open, size_t at)
{
    worst[at] = open[at] = INFINITY;
}
