/* SPDX-License-Identifier: MIT */
/* The interface of the peers that are driven from C: each is one shared object that defines peer_open and peer_run.
 * adapters/native.py mirrors struct problem field by field.
 */
#ifndef PEERS_PROBLEM_H
#define PEERS_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum output { OUTPUT_DENSE, OUTPUT_NONE, OUTPUT_CONV };

/* One call of one layer. Tensors as docs/spec.md shapes them; NULL where the layer has none. */
struct problem {
    int64_t d_model, h, h_kv, d_k, d_v, d_source;
    int64_t batch, n, m;
    int64_t causal, no_self;
    int64_t window_left, window_right; /* -1: unbounded */
    int64_t split, output, conv_width;
    int64_t threads;
    const int32_t *cores;              /* [threads] */
    float scale;
    const float *x, *source;           /* source is x in self-attention */
    const int32_t *lengths;
    const float *w_q, *b_q, *w_k, *b_k, *w_v, *b_v, *w_o, *b_o; /* tied: w_k is w_q; identity: w_v is NULL */
    float *y;
    /* of layers that a driver may refuse: */
    const float *q, *k, *v;            /* given queries, keys and values, in place of x and source */
    const float *g_q, *g_k, *rel_bias, *sink;
    const float *n_g[4], *n_b[4];      /* of a block's norms n1 ... n4 */
    const float *w_1, *b_1, *w_g, *b_g, *w_2, *b_2;
    float *k_cache, *v_cache;          /* [batch][h_kv][cache_len][d]: past[b] = m - n rows are there, the call adds n */
    const int32_t *past;               /* NULL: no cache */
    int64_t cache_len;
    const float *dy;                   /* NULL: no gradients. Else a call is a step: forward, then the gradients below */
    float *dx, *dw_q, *db_q, *dw_k, *db_k, *dw_v, *db_v, *dw_o, *db_o; /* NULL where the layer has none */
};

enum pass { PASS_FORWARD, PASS_BACKWARD, PASSES };

/* Packs weights and allocates; NULL, and the reason in why[size], if it cannot. Tensors stay where they are. */
void *peer_open(const struct problem *problem, const char *option, char *why, size_t size);

/* Runs the layer `calls` times back to back; the nanoseconds that took, -1 if a call failed. */
int64_t peer_run(void *peer, int64_t calls);

/* Of a peer with gradients: the nanoseconds of each pass of all calls of the last run. What a step wants besides, weights
 * packed and gradients cleared, is in peer_run's time alone. */
void peer_passes(const void *peer, int64_t ns[PASSES]);

/* Bytes of packed weights and of scratch; -1 where the library does not say. */
void peer_memory(const void *peer, int64_t *packed, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
