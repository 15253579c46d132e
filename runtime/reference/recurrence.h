/* SPDX-License-Identifier: MIT */
/* The states of layer = recurrent in double, token by token, and how far a kernel in f32 may be from them.
 *
 * Left out on purpose: what is made of x before, and of the outputs after (recurrent.h); chunks: the recurrence alone
 * defines the layer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "spec/layer.h"

/* Numbers [tokens][columns], and how far a kernel's may be from them, at most */
struct made {
    double *value, *error;
    size_t columns;
};

/* One sequence: what the recurrence reads and writes. */
struct recurrence {
    const struct layer *layer;
    size_t tokens;
    bool bounds;       /* errors are asked for */
    double omega, phi; /* of f32: the least size of a product's error; below which numbers may be taken as 0 */
    struct made q, k, v;        /* [tokens][h*d_k], [h_kv*d_k], [h_v*d_v] */
    struct made decay, beta;    /* logarithms [tokens][h_v] or [h_v*d_k], shares [h_v]; where the rule has them */
    const float *skip;          /* [h_out]: times values it is added to outputs; NULL: nothing is */
    struct made out;            /* [tokens][h_out*d_v] */
    double *state;              /* [states][h_v][d_k][d_v], before and after */
    double *state_error;        /* after */
};

/* Errors that are infinite or NaN: f32 may overflow on the way. */
void recurrence_run(struct recurrence *of);
