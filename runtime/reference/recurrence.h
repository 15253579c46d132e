/* SPDX-License-Identifier: MIT */
/* The states of layer = recurrent in double, token by token, and how far a kernel in f32 may be from them.
 *
 * Left out on purpose: what is made of x before, and of the outputs after (recurrent.h); chunks: the recurrence alone
 * defines the layer.
 */
#ifndef ATTNRUN_RECURRENCE_H
#define ATTNRUN_RECURRENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "spec/layer.h"

/* Roundings of random size: normal numbers in units of about a rounding's deviation. NULL stands for exact numbers. */
#define JITTERS 4096
struct jitter {
    double table[JITTERS];
    size_t at;
};
static inline double jitter_of(struct jitter *jitter, double size)
{
    return jitter == NULL ? 0 : size * jitter->table[jitter->at++ % JITTERS];
}

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
    struct jitter *jitter;
    double omega, phi; /* of f32: the least size of a product's error; below which numbers may be taken as 0 */
    struct made q, k, v;        /* [tokens][h*d_k], [h_kv*d_k], [h_v*d_v] */
    struct made decay, beta;    /* logarithms [tokens][h_v] or [h_v*d_k], shares [h_v]; where the rule has them */
    const float *skip;          /* [h_out]: times values it is added to outputs; NULL: nothing is */
    struct made out;            /* [tokens][h_out*d_v] */
    double *drawn;              /* of out's errors, as a random walk, where those of what is read are small */
    double *state;              /* [states][h_v][d_k][d_v], before and after */
    double *state_error, *state_drawn; /* after */
};

/* Errors that are infinite or NaN: f32 may overflow on the way. */
void recurrence_run(struct recurrence *of);

#endif
