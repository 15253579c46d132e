/* SPDX-License-Identifier: MIT */
/* The equations of docs/spec.md in double: the executable definition of a layer.
 *
 * It knows neither plan nor templates. Left out on purpose: more speed than needed, and rounding (bound.h: how far a
 * kernel in f32 may be off).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "block.h"
#include "expressions.h"
#include "finish.h"
#include "inputs/inputs.h"

/* Some query rows, ascending. */
struct rows {
    size_t *row;
    size_t count;
};

/* y is computed for y_rows only, attn for z_rows only: those that y_rows need (a convolution needs neighbours). */
struct reference {
    struct pool memory; /* of all that follows, and of bounds around it (bound.h) */
    struct rows y_rows, z_rows;
    union {
        double *of[OUTPUTS_COMPARED]; /* by enum call_output */
        struct {
            double *y;        /* [batch][y_rows.count][d_out] */
            double *attn;     /* [batch][h][z_rows.count][inputs_columns()], weights or the scores that the layer shows;
                               * NULL: none */
            double *lse;      /* [batch][h][z_rows.count]; NULL unless the layer writes it */
            double *cache[2]; /* [batch][h_kv][n][d_k] and [d_v]: the new keys and values; of a recurrent layer those
                               * of inputs_cache_of() after the call; NULL without a cache */
        };
    };
    double *attention; /* [batch][y_rows.count][d_out], before the block's part; NULL without a block */
    double *normed;    /* [batch][n][d_model], x as attention reads it; NULL: unchanged */
    double *exact;     /* the same before its rows are rounded, as values that are the input; NULL: they are x itself */
};

/* Everything that the equations name for one sequence and head; rows of q, scores, weights, z are z_rows. */
struct reference_head {
    size_t b, i;
    size_t keys;                      /* rows of k, v that may be read: m, or lengths[b] */
    size_t cached;                    /* how many of them, from the first, are rows of a cache */
    bool new_kv;                      /* k and v differ from those of the previous head (h_kv heads share them) */
    const double *normed, *exact;     /* those of struct reference */
    double *x, *s;                    /* [rows][d_in_q], [keys - cached][d_in_kv]: what the head reads */
    double *w_q, *w_k, *w_v, *w_o;    /* in_out; w_o [d_v][d_model] or [conv_width][d_v][d_model/h] */
    double *b_q, *b_k, *b_v;          /* zeros without bias */
    double *q, *k, *v;                /* [rows][d_k], [keys][d_k], [keys][d_v] */
    double *exact_q, *exact_k;        /* q and k before they are rounded for scores; NULL: they are not */
    double *exact_v;                  /* v before it is rounded for weighted sums; NULL: it is not */
    double *made[2];                  /* new rows of k and v before they are rounded for a cache; NULL: they are not */
    struct finish finish_q, finish_k; /* q and k before norm and rotation, if there are any */
    unsigned char *visible;           /* [rows][keys] */
    double *operand[SCORE_TERMS];     /* [rows][keys] of each term whose hook sees every score; NULL: it has none */
    double *raw;                      /* [rows][keys] scale q k^T, */
    double *scores;                   /* scores after all terms; undefined for hidden keys */
    double *shown;                    /* [rows][keys] what attn shows in place of weights; NULL: weights */
    double sink;                      /* one more score of each row, without a value; -infinity: none */
    double *weights;                  /* [rows][keys] softmax; 0 where hidden */
    double *kept;                     /* [rows][keys] dropout's factors on them; NULL: none */
    double *lse;                      /* [rows] logarithm of the sum of exponentials; -infinity: no summand */
    double *z;                        /* [rows][d_v] */
    struct latent *latent;            /* of latent attention; NULL: it is another */
    double *w_gate, *b_gate, *gates;  /* [d_model][g], [g], [rows][g] x W + b, g numbers that gate a head's z; NULL: */
    double *bare_z;                   /* none; z before it is gated */
    double *all_z, *whole_z;          /* [rows][h d_v] under precision: z of all heads so far; and rounded, as W_O
                                       * reads it, once all are computed. NULL: W_O reads z */
};

/* The array that heads are merged into */
static inline double *reference_attention(const struct reference *reference)
{
    return reference->attention != NULL ? reference->attention : reference->y;
}

typedef void reference_observer(void *context, const struct reference *reference, const struct reference_head *head);

/* Computes all rows, or with `sample` at most about 64 of them if n is large. The observer, if any, is called for each
 * head before it is merged into y, under precision for all heads of a sequence before any is merged. */
void reference_compute(struct reference *reference, const struct layer *layer, const struct inputs *inputs,
                       bool sample, reference_observer *observer, void *context);
void reference_free(struct reference *reference);
/* pad_rows = skipped: zeroes rows past lengths[b] of y, or of arrays of y's shape. */
void reference_clear_padding(const struct layer *layer, const struct inputs *inputs, const struct rows *rows,
                             size_t heads, size_t width, double *numbers);

/* Positions of query t of sequence b and the key of row j */
struct expression_pair reference_pair(const struct layer *layer, const struct inputs *inputs, size_t b, size_t i,
                                      size_t t, size_t j);
/* Whether query t of sequence b and head i sees key j, apart from keys hidden by their score */
bool reference_visible(const struct layer *layer, const struct inputs *inputs, size_t b, size_t i, size_t t, size_t j);
/* Whether no mask hides it, whatever the spec's expressions say */
bool reference_unmasked(const struct layer *layer, const struct inputs *inputs, size_t b, size_t i, size_t t, size_t j);
/* The last term of the scores that attn shows: raw, capped or biased. */
enum score_name reference_shown(const struct layer *layer);
/* First and past-the-last row of z that row t of y depends on: t itself, or the convolution's taps */
void reference_taps(const struct layer *layer, const struct inputs *inputs, size_t b, size_t t, size_t *first,
                    size_t *end);
/* Takes x and attention of rows of y, [batch][y_rows.count], from `first` on: as many as fit. */
void reference_chunk(const struct reference *reference, const struct layer *layer, const struct inputs *inputs,
                     size_t first, struct block_chunk *chunk);
/* Head i's columns of a projection [in][d], of `heads` in all, in in_out. */
void reference_projection(double *out, const struct layer *layer, const float *w, size_t in, size_t d, size_t i,
                          size_t heads);
/* Head i's columns of rows [h d_v] of all heads, as rows [d_v]; and back. */
void reference_take_head(double *to, const double *all, const struct layer *layer, size_t i, size_t rows);
void reference_keep_head(double *all, const double *from, const struct layer *layer, size_t i, size_t rows);
/* Head i's rows of W_O [h d_v][d_model], or its taps [conv_width][d_v][d_model/h]; nothing without one. */
void reference_output(double *out, const struct layer *layer, const float *w, size_t i);
/* y += z merged by w for head i, as the layer's w_o says; also for |values| and squares. z [z_rows][d_v], w as in
 * reference_head (ignored with w_o = none), y [y_rows][d_out]. */
void reference_merge(const struct reference *reference, const struct layer *layer, const struct inputs *inputs,
                     size_t b, size_t i, const double *z, const double *w, double *y);
