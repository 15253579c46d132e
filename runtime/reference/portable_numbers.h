/* SPDX-License-Identifier: MIT */
/* Single numbers, sums and expressions in the order of exact = portable; portable.c computes layers with them. */
#pragma once

#include "expressions.h"
#include "inputs/inputs.h"

#define LOG2_E 1.4426950408889634
#define PLACES 16 /* sums that numbers of a row go to in turn */

static inline float larger(float a, float b) { return a > b ? a : b; } /* b where one is NaN, as of all sets */
static inline float smaller(float a, float b) { return a < b ? a : b; }

float portable_power(float t);                    /* 2^t */
float portable_tanh(float x, double factor);      /* factor tanh(x), whose product is that of coefficients */
float portable_sigmoid(float a);
float portable_silu(float a);                     /* of a recurrent layer; a feed-forward's is a quotient */
float portable_activate(const struct layer *layer, float a); /* of the layer's feed-forward or rows */

/* sum[0] + sum[1] + ... + sum[PLACES - 1], in this order */
float portable_sum(const float *sum);
/* c[r][j] = fma(a[r][k], w[k][j], c[r][j]), k ascending; w [depth][columns] */
void portable_multiply(float *restrict c, size_t c_row, const float *restrict a, size_t a_row, const float *restrict w,
                       size_t rows, size_t depth, size_t columns);

/* The layer's expressions: `score` of a score so far, in base 2, and `visible`, true if there is none */
float portable_score(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair, float s);
bool portable_sees(const struct layer *layer, const struct inputs *inputs, struct expression_pair pair);
