/* SPDX-License-Identifier: MIT */
/* A call that portable.c computes, and what its parts share. */
#pragma once

#include "portable.h"

/* A call under way */
struct run {
    const struct layer *layer;
    const struct inputs *in;
    struct portable *of;
    struct pool memory;
    size_t rows, keys;   /* of the queries, of the call's own keys, of all sequences */
    float *x, *source;   /* as attention reads them: [rows][d_model], [keys][d_source]; normed, or the caller's */
    float *q, *k, *v;    /* [rows][h d_k], scaled; [keys][h_kv d_k], [keys][h_kv d_v] */
    float *z;            /* [rows][h d_v] */
    float *raw_q, *raw_k; /* in training, of qk_norm: before the norm */
    float *weights, *slope, *sunk; /* in training: [batch][h][n][m] weights, -0 of hidden keys, and slopes of a term
                                    * that bends scores, NULL: none does; [batch][h][n] weights of the sink, -0 where no
                                    * key is seen */
};

/* A weight's matrix, [depth][columns], all taps of a convolution one after the other. Packed in fewer bytes: multiples
 * of unit [depth][columns], one for `group` rows of a tap, in the first of them; else unit is NULL. whole: the layer
 * whose precision makes each tap's rows whole numbers, too */
struct matrix {
    float *w, *unit;
    size_t depth, columns, tap, group;
    const struct layer *whole;
};

/* Matrix number `number` of a tensor, times `scale`: its units, or without these its numbers; both of memory_get() */
struct matrix portable_matrix(const struct run *run, enum layer_tensor tensor, size_t number, float scale);
/* The value of a token for a head of keys: its projection, given, or the head's input */
const float *portable_value(const struct run *run, size_t token, size_t g);
/* Turns columns of `heads` heads `step` apart, or turns them back, by the position of token t: a query, or a key */
void portable_turn(struct run *run, float *row, size_t heads, size_t step, size_t b, size_t t, bool of_query,
                   bool back);

/* qk_norm of `together` heads of d numbers: what is subtracted from them, what they are multiplied by, l2's by `scale`
 * too, and the root of the sum of squares */
struct head_norm {
    float mean, by, root;
};
struct head_norm portable_head_norm(const struct layer *layer, const float *row, size_t d, size_t together,
                                    float scale);

float *portable_floats(struct run *run, size_t count);
/* What a call brings, as floats */
float *portable_given(struct run *run, enum layer_tensor tensor);
/* [rows][columns]: rows of d_in numbers, under split of each head, times w, plus b (TENSOR_COUNT: none), by scale */
float *portable_project(struct run *run, const float *from, size_t rows, int64_t d_in, enum layer_tensor w,
                        enum layer_tensor b, size_t columns, float scale, size_t heads);

/* layer = recurrent: what W_O or, of given q, k and v, the rule leaves; and layer = conv: [rows][d_out], and states */
float *portable_recurrence(struct run *run);
float *portable_convolution(struct run *run);
/* Gradients, of a training call that has been computed */
void portable_back(struct run *run, const float *dy);
