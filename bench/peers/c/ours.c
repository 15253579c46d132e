/* SPDX-License-Identifier: MIT */
/* An emitted layer behind the interface of problem.h.
 *
 * -DNAME=tiny -DPREFIX=TINY -DHEADER='"tiny.h"'. peer_open's option says how threads share the work: "parts" of each
 * phase, or "sequences" of the batch, a mine_forward each. "avx2": parts, by that instruction set. -DTRAIN: of a layer with
 * train = true, whose call is a step of training: weights are packed, gradients cleared, in parts, then come both passes.
 * -DSHIM: tensors are given by name through NAME_table; without it the pair has interface 3.
 */
#include "crew.h"
#include "problem.h"

#include HEADER
#ifdef SHIM
#include "../../../templates/interface/table.h.in"
#endif

#include <math.h>
#include <stdio.h>
#include <string.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FUNCTION(name) JOIN(NAME, name)
#define CONSTANT(name) JOIN(PREFIX, name)

struct peer {
    struct problem problem;
    FUNCTION(args) args;
    void *packed, *scratch;
    size_t scratch_bytes, scratch_stride; /* a worker's own scratch, for "sequences" */
    int sequences;
    int64_t calls;
    _Atomic int error;
    _Atomic size_t next[2]; /* the next part of this phase; the other is being made ready */
    FUNCTION(weights) weights;
#ifdef TRAIN
    FUNCTION(grads) grads;
#endif
    int64_t ns[PASSES];
};

#ifdef CACHE_I8
/* Rows of f32 as a cache of i8 has them: whole numbers, and the scale of each row. NULL without memory. */
static int8_t *whole_rows(const float *from, size_t rows, size_t width, float **scales)
{
    int8_t *to = malloc(rows * width);
    *scales = malloc(rows * sizeof(float));
    for (size_t r = 0; to != NULL && *scales != NULL && r < rows; r++) {
        float largest = 0;
        for (size_t c = 0; c < width; c++)
            largest = fmaxf(largest, fabsf(from[r * width + c]));
        const float scale = largest / 127;
        for (size_t c = 0; c < width; c++)
            to[r * width + c] = (int8_t)(scale > 0 ? nearbyintf(from[r * width + c] / scale) : 0);
        (*scales)[r] = scale;
    }
    return *scales != NULL ? to : NULL;
}
#endif

static void *aligned(size_t bytes)
{
    const size_t alignment = CONSTANT(ALIGNMENT);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

#ifdef SHIM
extern const struct kernel_table FUNCTION(table);

/* The tensors that the layer has */
static void give_tensors(struct peer *peer)
{
    const struct problem *p = &peer->problem;
    const struct { const char *name; const void *at; } all[] = {
        {"w_q", p->w_q}, {"b_q", p->b_q}, {"w_k", p->w_k}, {"b_k", p->b_k}, {"w_v", p->w_v}, {"b_v", p->b_v},
        {"w_o", p->w_o}, {"b_o", p->b_o}, {"g_q", p->g_q}, {"g_k", p->g_k}, {"rel_bias", p->rel_bias}, {"sink", p->sink},
        {"n1_g", p->n_g[0]}, {"n1_b", p->n_b[0]}, {"n2_g", p->n_g[1]}, {"n2_b", p->n_b[1]}, {"n3_g", p->n_g[2]},
        {"n3_b", p->n_b[2]}, {"n4_g", p->n_g[3]}, {"n4_b", p->n_b[3]}, {"w_1", p->w_1}, {"b_1", p->b_1}, {"w_g", p->w_g},
        {"b_g", p->b_g}, {"w_2", p->w_2}, {"b_2", p->b_2}, {"x", p->x}, {"source", p->source}, {"q", p->q}, {"k", p->k},
        {"v", p->v}, {"lengths", p->lengths}, {"y", p->y}, {"past", p->past}, {"k_cache", p->k_cache},
        {"v_cache", p->v_cache}};
    struct kernel_weights weights = {.tables = NULL};
    struct kernel_args args = {.batch = (size_t)p->batch, .n = (size_t)p->n,
                               .m = (size_t)(p->past != NULL ? p->n : p->m)};
    for (size_t i = 0; i < FUNCTION(table).tensor_count; i++) {
        const struct kernel_tensor *tensor = &FUNCTION(table).tensors[i];
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            if (strcmp(tensor->name, all[k].name) == 0)
                (tensor->packed ? weights.tensor : args.tensor)[tensor->number] = (void *)all[k].at;
    }
    FUNCTION(table).weights_of(&weights, &peer->weights);
    FUNCTION(table).args_of(&args, &peer->args);
}
#else
static void give_tensors(struct peer *peer)
{
    const struct problem *p = &peer->problem;
    peer->weights = (FUNCTION(weights)){
        .w_q = p->w_q, .b_q = p->b_q, .w_k = p->w_k == p->w_q ? NULL : p->w_k, .b_k = p->b_k == p->b_q ? NULL : p->b_k,
        .w_v = p->w_v, .b_v = p->b_v, .w_o = p->w_o, .b_o = p->b_o, .g_q = p->g_q, .g_k = p->g_k,
        .rel_bias = p->rel_bias, .sink = p->sink, .n1_g = p->n_g[0], .n1_b = p->n_b[0], .n2_g = p->n_g[1],
        .n2_b = p->n_b[1], .n3_g = p->n_g[2], .n3_b = p->n_b[2], .n4_g = p->n_g[3], .n4_b = p->n_b[3], .w_1 = p->w_1,
        .b_1 = p->b_1, .w_g = p->w_g, .b_g = p->b_g, .w_2 = p->w_2, .b_2 = p->b_2};
    peer->args = (FUNCTION(args)){
        .x = p->x, .source = p->source == p->x ? NULL : p->source, .q = p->q, .k = p->k, .v = p->v,
        .lengths = p->lengths, .y = p->y, .past = p->past,
#ifndef CACHE_I8
        .k_cache = p->k_cache, .v_cache = p->v_cache,
#endif
        .batch = (size_t)p->batch, .n = (size_t)p->n, .m = (size_t)(p->past != NULL ? p->n : p->m)};
}
#endif

void *peer_open(const struct problem *p, const char *option, char *why, size_t size)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return NULL;
    peer->problem = *p;
    peer->sequences = strcmp(option, "sequences") == 0;
    const size_t alignment = CONSTANT(ALIGNMENT);
    peer->scratch_stride = (CONSTANT(SCRATCH_BYTES) + alignment - 1) / alignment * alignment;
    peer->scratch_bytes = peer->sequences ? (size_t)p->threads * peer->scratch_stride
                                          : CONSTANT(SCRATCH_BYTES_FOR)(p->threads);
#ifdef TRAIN
    if (peer->scratch_bytes < CONSTANT(BACKWARD_SCRATCH_BYTES_FOR)(p->threads))
        peer->scratch_bytes = CONSTANT(BACKWARD_SCRATCH_BYTES_FOR)(p->threads);
    peer->grads = (FUNCTION(grads)){
#ifdef BIAS
        .db_q = p->db_q, .db_k = p->db_k, .db_v = p->db_v, .db_o = p->db_o,
#endif
        .dy = p->dy, .dx = p->dx, .dw_q = p->dw_q, .dw_k = p->dw_k, .dw_v = p->dw_v, .dw_o = p->dw_o};
    float *saved = malloc((size_t)(p->batch * p->n) * CONSTANT(SAVED_FLOATS) * sizeof(float));
    if (saved == NULL)
        return NULL;
#endif
    peer->packed = aligned(CONSTANT(PACKED_BYTES));
    peer->scratch = aligned(peer->scratch_bytes);
    give_tensors(peer);
#ifdef TRAIN
    peer->args.saved = saved;
#endif
#ifdef CACHE_I8
    const size_t rows = (size_t)(p->batch * p->h_kv * p->cache_len);
    peer->args.k_cache = whole_rows(p->k_cache, rows, (size_t)p->d_k, &peer->args.k_scale);
    peer->args.v_cache = whole_rows(p->v_cache, rows, (size_t)p->d_v, &peer->args.v_scale);
    if (peer->args.k_cache == NULL || peer->args.v_cache == NULL)
        return NULL;
#endif
    int error = CONSTANT(ERROR_NULL);
    if (peer->packed != NULL && peer->scratch != NULL)
        error = FUNCTION(pack)(peer->packed, &peer->weights,
                               strcmp(option, "avx2") == 0 ? CONSTANT(ISA_AVX2) : CONSTANT(ISA_AUTO));
    if (error == 0)
        return peer;
    snprintf(why, size, "%s", FUNCTION(strerror)(error));
    return NULL;
}

/* One call, its sequences dealt out in equal runs. */
static void run_sequences(struct peer *peer, int64_t worker)
{
    const struct problem *p = &peer->problem;
    struct peer of = *peer; /* of these sequences alone */
    const int64_t first = p->batch * worker / p->threads, new = p->past != NULL ? p->n : p->m;
    of.problem.batch = p->batch * (worker + 1) / p->threads - first;
    of.problem.x = p->x != NULL ? p->x + first * p->n * p->d_model : NULL;
    of.problem.source = p->source != NULL ? p->source + first * p->m * p->d_source : NULL;
    of.problem.q = p->q != NULL ? p->q + first * p->n * p->h * p->d_k : NULL;
    of.problem.k = p->k != NULL ? p->k + first * new * p->h_kv * p->d_k : NULL;
    of.problem.v = p->v != NULL ? p->v + first * new * p->h_kv * p->d_v : NULL;
    of.problem.lengths = p->lengths != NULL ? p->lengths + first : NULL;
    of.problem.past = p->past != NULL ? p->past + first : NULL;
    of.problem.k_cache = p->k_cache != NULL ? p->k_cache + first * p->h_kv * p->cache_len * p->d_k : NULL;
    of.problem.v_cache = p->v_cache != NULL ? p->v_cache + first * p->h_kv * p->cache_len * p->d_v : NULL;
    of.problem.y = p->y + first * p->n * CONSTANT(D_OUT);
    give_tensors(&of);
    FUNCTION(args) args = of.args;
    const int error = FUNCTION(forward)(peer->packed, &args, (char *)peer->scratch + (size_t)worker * peer->scratch_stride);
    if (error != 0)
        peer->error = error;
}

#ifdef TRAIN
#define OF_PASS(backward, forward) (pass == PASS_BACKWARD ? (backward) : (forward))
#else
#define OF_PASS(backward, forward) ((void)pass, (forward))
#endif

/* One pass, phase by phase; who is free takes the next part. `step` counts the phases of all calls. */
static void run_parts(struct peer *peer, struct crew *crew, enum pass pass, int64_t worker, size_t *step)
{
    const FUNCTION(args) *const args = &peer->args;
    const size_t phases =
        OF_PASS(FUNCTION(backward_phases)(peer->packed, args), FUNCTION(phases)(peer->packed, args));
    for (size_t phase = 0; phase < phases; phase++, ++*step) {
        const size_t parts =
            OF_PASS(FUNCTION(backward_parts)(peer->packed, args, phase), FUNCTION(parts)(peer->packed, args, phase));
        _Atomic size_t *next = &peer->next[*step % 2];
        if (worker == 0)
            atomic_store(&peer->next[(*step + 1) % 2], 0);
        for (size_t part; (part = atomic_fetch_add(next, 1)) < parts;) {
            const int error = OF_PASS(
                FUNCTION(backward_run)(peer->packed, args, &peer->grads, peer->scratch, phase, part, (size_t)worker),
                FUNCTION(run)(peer->packed, args, peer->scratch, phase, part, (size_t)worker));
            if (error != 0)
                peer->error = error;
        }
        crew_barrier(crew);
    }
}

#ifdef TRAIN
/* A part of what begins a step: weights have changed since the last one, and gradients are added to what stands there. */
static void begin_part(struct peer *peer, size_t part, size_t parts)
{
    const struct problem *p = &peer->problem;
    const size_t q = (size_t)(p->h * p->d_k), k = (size_t)(p->h_kv * p->d_k), v = (size_t)(p->h_kv * p->d_v);
    const size_t z = (size_t)(p->h * p->d_v), d = (size_t)p->d_model;
    const struct { float *at; size_t numbers; } all[] = {
        {p->dw_q, d * q}, {p->db_q, q}, {p->dw_k, d * k}, {p->db_k, k}, {p->dw_v, d * v}, {p->db_v, v}, {p->dw_o, z * d},
        {p->db_o, d}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].at != NULL) {
            const size_t from = all[i].numbers / parts * part, each = all[i].numbers / parts;
            memset(all[i].at + from, 0, (part + 1 < parts ? each : all[i].numbers - from) * sizeof(float));
        }
    const int error = FUNCTION(pack_part)(peer->packed, &peer->weights, part, parts);
    if (error != 0)
        peer->error = error;
}

static void begin_step(struct peer *peer, struct crew *crew, int64_t worker, size_t *step)
{
    const size_t parts = crew->threads > 1 ? 8 * (size_t)crew->threads : 1;
    if (worker == 0)
        atomic_store(&peer->next[(*step + 1) % 2], 0);
    for (size_t part; (part = atomic_fetch_add(&peer->next[*step % 2], 1)) < parts;)
        begin_part(peer, part, parts);
    crew_barrier(crew);
    ++*step;
}

static void run_pass(struct peer *peer, struct crew *crew, enum pass pass, int64_t worker, size_t *step)
{
    const int64_t start = crew_now();
    if (crew->threads == 1) {
        const int error =
            OF_PASS(FUNCTION(backward)(peer->packed, &peer->args, &peer->grads, peer->scratch),
                    FUNCTION(forward)(peer->packed, &peer->args, peer->scratch));
        if (error != 0)
            peer->error = error;
    } else {
        run_parts(peer, crew, pass, worker, step);
    }
    if (worker == 0)
        peer->ns[pass] += crew_now() - start;
}
#endif

static void work(struct crew *crew, int64_t worker, void *pointer)
{
    struct peer *peer = pointer;
    size_t step = 0;
    for (int64_t call = 0; call < peer->calls; call++) {
#ifdef TRAIN
        begin_step(peer, crew, worker, &step);
        for (enum pass pass = PASS_FORWARD; pass < PASSES; pass++)
            run_pass(peer, crew, pass, worker, &step);
        continue;
#endif
        if (crew->threads == 1) {
            const int error = FUNCTION(forward)(peer->packed, &peer->args, peer->scratch);
            if (error != 0)
                peer->error = error;
        } else if (peer->sequences) {
            run_sequences(peer, worker);
            crew_barrier(crew);
        } else {
            run_parts(peer, crew, PASS_FORWARD, worker, &step);
        }
    }
}

int64_t peer_run(void *pointer, int64_t calls)
{
    struct peer *peer = pointer;
    peer->calls = calls;
    peer->error = 0;
    peer->next[0] = peer->next[1] = 0;
    memset(peer->ns, 0, sizeof peer->ns);
    const int64_t ns = crew_time(peer->problem.threads, peer->problem.cores, work, peer);
    return peer->error == 0 ? ns : -1;
}

void peer_passes(const void *pointer, int64_t ns[PASSES])
{
    memcpy(ns, ((const struct peer *)pointer)->ns, PASSES * sizeof *ns);
}

void peer_memory(const void *pointer, int64_t *packed, int64_t *scratch)
{
    const struct peer *peer = pointer;
    *packed = (int64_t)CONSTANT(PACKED_BYTES);
    *scratch = (int64_t)peer->scratch_bytes;
}
