/* SPDX-License-Identifier: MIT */
/* What no step can undercut that reads the same numbers: the weights, and the keys and values of a cache, once each,
 * by one core. Behind the interface of problem.h; y is left alone. peer_open's option: "plain", or "ahead", with prefetches.
 */
#include "crew.h"
#include "problem.h"
#include "read.h"

#include <stdio.h>
#include <string.h>

enum { HEADS = 4096, RUNS = 4 + 2 * HEADS };

struct run {
    const float *from;
    size_t count;
};

struct peer {
    struct problem problem;
    struct run runs[RUNS];
    size_t count;
    int ahead;
    int64_t calls;
    float sum; /* so that no compiler leaves the reading out */
};

static void add(struct peer *peer, const float *from, int64_t count)
{
    if (from != NULL && count > 0 && peer->count < RUNS)
        peer->runs[peer->count++] = (struct run){from, (size_t)count};
}

void *peer_open(const struct problem *p, const char *option, char *why, size_t size)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return NULL;
    if (p->past == NULL || p->batch * p->h_kv > HEADS || p->threads != 1) {
        snprintf(why, size, "for caches, of at most 4,096 heads in a batch, and one thread");
        free(peer);
        return NULL;
    }
    peer->problem = *p;
    peer->ahead = strcmp(option, "ahead") == 0;
    const int64_t rows = p->past[0] + p->n;
    add(peer, p->w_q, p->d_model * p->h * p->d_k);
    add(peer, p->w_k, p->d_model * p->h_kv * p->d_k);
    add(peer, p->w_v, p->d_model * p->h_kv * p->d_v);
    add(peer, p->w_o, p->h * p->d_v * p->d_model);
    for (int64_t head = 0; head < p->batch * p->h_kv; head++) {
        add(peer, p->k_cache + head * p->cache_len * p->d_k, rows * p->d_k);
        add(peer, p->v_cache + head * p->cache_len * p->d_v, rows * p->d_v);
    }
    return peer;
}

static void work(struct crew *crew, int64_t worker, void *pointer)
{
    struct peer *peer = pointer;
    (void)crew, (void)worker;
    for (int64_t call = 0; call < peer->calls; call++) {
        for (size_t i = 0; i < peer->count; i++)
            peer->sum += read_floats(peer->runs[i].from, peer->runs[i].count, peer->ahead);
    }
}

int64_t peer_run(void *pointer, int64_t calls)
{
    struct peer *peer = pointer;
    peer->calls = calls;
    return crew_time(1, peer->problem.cores, work, peer);
}

void peer_memory(const void *peer, int64_t *packed, int64_t *scratch)
{
    (void)peer;
    *packed = *scratch = 0;
}
