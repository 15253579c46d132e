/* SPDX-License-Identifier: MIT */
/* The layer on OpenBLAS: matrix products by cblas_sgemm, softmax by loops that the compiler vectorizes (build with
 * -O3 -march=native -ffast-math, so that expf becomes glibc's vector expf).
 *
 * Threads are ours, each calling a single-threaded sgemm: on rows of the projections, on blocks of queries of a head in
 * between. Blocks keep the scores in cache and let causal and window skip what no query of the block sees. Left out:
 * conv output.
 */
#include "crew.h"
#include "problem.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#ifndef BLAS_PREFIX /* the wheel of PyPI renames every symbol */
#define BLAS(name) name
#else
#define BLAS_JOIN_(a, b) a##b
#define BLAS_JOIN(a, b) BLAS_JOIN_(a, b)
#define BLAS(name) BLAS_JOIN(BLAS_PREFIX, name)
#endif

enum { QUERY_BLOCK = 128 };

struct peer {
    struct problem p;
    int fused;                 /* q, k and v lie side by side, from one product */
    float *w_fused, *b_fused;  /* [d_model][q k v], [q k v] */
    float *qkv, *z;
    const float *q, *k, *v;    /* rows of tokens; what they point at is written by the projections */
    int64_t q_stride, k_stride, v_stride;
    float *scores;             /* [threads][QUERY_BLOCK][m] */
    int64_t calls;
    _Atomic int64_t next;
};

/* c[rows][columns] = alpha a[rows][depth] b + beta c, b as [depth][columns] or transposed */
static void multiply(CBLAS_TRANSPOSE trans, int64_t rows, int64_t columns, int64_t depth, float alpha, const float *a,
                     int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c, int64_t c_stride)
{
    if (rows > 0 && columns > 0)
        BLAS(cblas_sgemm)(CblasRowMajor, CblasNoTrans, trans, (int)rows, (int)columns, (int)depth, alpha, a, (int)a_stride,
                          b, (int)b_stride, beta, c, (int)c_stride);
}

static float *allocate(int64_t floats)
{
    return aligned_alloc(64, ((size_t)floats * 4 + 63) / 64 * 64);
}

/* Copies w [d_model][columns], which begins at column `at` of w_fused. */
static void place(struct peer *peer, const float *w, const float *b, int64_t columns, int64_t at, int64_t all)
{
    for (int64_t i = 0; i < peer->p.d_model; i++)
        memcpy(peer->w_fused + i * all + at, w + i * columns, (size_t)columns * 4);
    if (b != NULL)
        memcpy(peer->b_fused + at, b, (size_t)columns * 4);
}

void *peer_open(const struct problem *p, const char *option, char *why, size_t size)
{
    (void)option;
    if (p->output == OUTPUT_CONV) {
        snprintf(why, size, "a convolution is no BLAS routine");
        return NULL;
    }
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return NULL;
    BLAS(openblas_set_num_threads)(1);
    peer->p = *p;
    const int64_t e_q = p->h * p->d_k, e_k = p->h_kv * p->d_k, e_v = p->w_v == NULL ? 0 : p->h_kv * p->d_v;
    const int64_t all = e_q + e_k + e_v, tokens = p->batch * p->n, keys = p->batch * p->m;
    peer->fused = p->source == p->x && !p->split;
    if (peer->fused) {
        peer->w_fused = allocate(p->d_model * all);
        peer->b_fused = allocate(all);
        place(peer, p->w_q, p->b_q, e_q, 0, all);
        place(peer, p->w_k, p->b_k, e_k, e_q, all);
        if (e_v > 0)
            place(peer, p->w_v, p->b_v, e_v, e_q + e_k, all);
        peer->qkv = allocate(tokens * all);
        peer->q = peer->qkv, peer->k = peer->qkv + e_q, peer->v = peer->qkv + e_q + e_k;
        peer->q_stride = peer->k_stride = peer->v_stride = all;
    } else {
        peer->qkv = allocate(tokens * e_q + keys * (e_k + e_v));
        peer->q = peer->qkv, peer->k = peer->q + tokens * e_q, peer->v = peer->k + keys * e_k;
        peer->q_stride = e_q, peer->k_stride = e_k, peer->v_stride = e_v;
    }
    if (p->w_v == NULL)
        peer->v = p->source, peer->v_stride = p->d_source;
    if (p->output == OUTPUT_DENSE)
        peer->z = allocate(tokens * p->h * p->d_v);
    peer->scores = allocate(p->threads * QUERY_BLOCK * p->m);
    return peer;
}

/* rows [from, to) of c[][e] = a w + b; under split each head multiplies columns of its own. */
static void project(const struct problem *p, const float *a, int64_t d, const float *w, const float *b, int64_t e, float *c,
                    int64_t c_stride, int64_t from, int64_t to, int split)
{
    if (b != NULL)
        for (int64_t t = from; t < to; t++)
            memcpy(c + t * c_stride, b, (size_t)e * 4);
    const int64_t heads = split ? p->h : 1, part = d / heads, width = e / heads;
    for (int64_t i = 0; i < heads; i++)
        multiply(CblasNoTrans, to - from, width, part, 1, a + from * d + i * part, d, w + i * part * width, width,
                 b != NULL, c + from * c_stride + i * width, c_stride);
}

/* weights of one row in place: keys [first, last), without `hidden` (-1: none); zero from 0 to first and last to end. */
static void softmax(float *s, int64_t end, int64_t first, int64_t last, int64_t hidden)
{
    float max = -INFINITY, sum = 0;
    if (hidden >= first && hidden < last)
        s[hidden] = s[hidden == first ? hidden + 1 : first]; /* any visible one: it does not change the maximum */
    for (int64_t j = first; j < last; j++)
        max = s[j] > max ? s[j] : max;
    for (int64_t j = first; j < last; j++)
        s[j] = expf(s[j] - max);
    if (hidden >= first && hidden < last)
        s[hidden] = 0;
    for (int64_t j = first; j < last; j++)
        sum += s[j];
    const float by = 1 / sum;
    for (int64_t j = first; j < last; j++)
        s[j] *= by;
    for (int64_t j = 0; j < first; j++)
        s[j] = 0;
    for (int64_t j = last; j < end; j++)
        s[j] = 0;
}

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

/* The keys [*first, *last) that query t sees, no_self aside. */
static void visible(const struct problem *p, int64_t t, int64_t *first, int64_t *last)
{
    *first = p->window_left >= 0 ? min(max(0, t - p->window_left), p->m) : 0;
    *last = p->m;
    if (p->causal)
        *last = min(*last, t + 1);
    if (p->window_right >= 0)
        *last = min(*last, t + p->window_right + 1);
}

/* Z of one block of queries of one head of one sequence. */
static void attend(struct peer *peer, int64_t b, int64_t head, int64_t from, int64_t to, float *scores)
{
    const struct problem *p = &peer->p;
    const int64_t shared = head * p->h_kv / p->h;
    int64_t first, last, unused;
    visible(p, from, &first, &unused);
    visible(p, to - 1, &unused, &last);
    const int64_t keys = last - first;
    const float *q = peer->q + (b * p->n + from) * peer->q_stride + head * p->d_k;
    const float *k = peer->k + (b * p->m + first) * peer->k_stride + shared * p->d_k;
    const float *v = peer->v + (b * p->m + first) * peer->v_stride
                     + (p->w_v != NULL ? shared * p->d_v : p->split ? head * p->d_v : 0);
    float *z = (peer->z != NULL ? peer->z : p->y) + ((b * p->n + from) * p->h + head) * p->d_v;
    multiply(CblasTrans, to - from, keys, p->d_k, p->scale, q, peer->q_stride, k, peer->k_stride, 0, scores, keys);
    for (int64_t t = from; t < to; t++) {
        int64_t low, high;
        visible(p, t, &low, &high);
        softmax(scores + (t - from) * keys, keys, low - first, high - first, p->no_self ? t - first : -1);
    }
    multiply(CblasNoTrans, to - from, p->d_v, keys, 1, scores, keys, v, peer->v_stride, 0, z, p->h * p->d_v);
}

static void call(struct peer *peer, struct crew *crew, int64_t worker)
{
    const struct problem *p = &peer->p;
    const int64_t tokens = p->batch * p->n, keys = p->batch * p->m, threads = p->threads;
    const int64_t from = tokens * worker / threads, to = tokens * (worker + 1) / threads;
    if (worker == 0)
        peer->next = 0;
    if (peer->fused) {
        project(p, p->x, p->d_model, peer->w_fused, p->b_q != NULL ? peer->b_fused : NULL, peer->q_stride, peer->qkv,
                peer->q_stride, from, to, 0);
    } else {
        const int64_t low = keys * worker / threads, high = keys * (worker + 1) / threads;
        project(p, p->x, p->d_model, p->w_q, p->b_q, peer->q_stride, (float *)peer->q, peer->q_stride, from, to, p->split != 0);
        project(p, p->source, p->d_source, p->w_k, p->b_k, peer->k_stride, (float *)peer->k, peer->k_stride, low, high,
                p->split != 0);
        if (p->w_v != NULL)
            project(p, p->source, p->d_source, p->w_v, p->b_v, peer->v_stride, (float *)peer->v, peer->v_stride, low, high,
                    p->split != 0);
    }
    crew_barrier(crew);
    const int64_t blocks = (p->n + QUERY_BLOCK - 1) / QUERY_BLOCK;
    for (int64_t item; (item = peer->next++) < p->batch * p->h * blocks;) {
        const int64_t block = item % blocks * QUERY_BLOCK;
        attend(peer, item / blocks / p->h, item / blocks % p->h, block, min(p->n, block + QUERY_BLOCK),
               peer->scores + worker * QUERY_BLOCK * p->m);
    }
    crew_barrier(crew);
    if (p->output == OUTPUT_DENSE)
        project(p, peer->z, p->h * p->d_v, p->w_o, p->b_o, p->d_model, p->y, p->d_model, from, to, 0);
    crew_barrier(crew);
}

static void work(struct crew *crew, int64_t worker, void *peer)
{
    for (int64_t i = 0; i < ((struct peer *)peer)->calls; i++)
        call(peer, crew, worker);
}

int64_t peer_run(void *pointer, int64_t calls)
{
    struct peer *peer = pointer;
    peer->calls = calls;
    return crew_time(peer->p.threads, peer->p.cores, work, peer);
}

/* sgemm packs into buffers of its own, which this does not see. */
void peer_memory(const void *peer, int64_t *packed, int64_t *scratch)
{
    (void)peer;
    *packed = *scratch = -1;
}

/* What the library calls itself, for the table of versions. */
const char *peer_version(void) { return BLAS(openblas_get_config)(); }
const char *peer_kernel(void) { return BLAS(openblas_get_corename)(); }
