/* SPDX-License-Identifier: MIT */
/* A call that portable.c computes, and what its parts share. */
#ifndef ATTNRUN_PORTABLE_LAYER_H
#define ATTNRUN_PORTABLE_LAYER_H

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
};

float *portable_floats(struct run *run, size_t count);
/* What a call brings, as floats */
float *portable_given(struct run *run, enum layer_tensor tensor);
/* [rows][columns]: rows of d_in numbers, under split of each head, times w, plus b (TENSOR_COUNT: none), by scale */
float *portable_project(struct run *run, const float *from, size_t rows, int64_t d_in, enum layer_tensor w,
                        enum layer_tensor b, size_t columns, float scale, size_t heads);

/* layer = recurrent: what W_O or, of given q, k and v, the rule leaves; and layer = conv: [rows][d_out], and states */
float *portable_recurrence(struct run *run);
float *portable_convolution(struct run *run);

#endif
