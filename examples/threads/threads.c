/* SPDX-License-Identifier: MIT */
/* One layer on several threads: its phases and parts driven from a pool of pthreads, from OpenMP and from a plain loop.
 *
 * A call is a few phases; the parts of one phase may run in any order on any threads, and all end before the next phase
 * begins. So a driver needs two things: somebody to take each part, and a barrier. The bits of y must not depend on the
 * driver or on the number of workers; the program asserts that, then prints times. Left out on purpose: layers that are
 * not like those of the Makefile (biases on all four projections), and sequences on threads of their own, which need no
 * phases.
 *
 *     threads [ROUNDS]        0: only the bits
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "layer.h"

enum { MAX_WORKERS = 16, MAX_ROUNDS = 1000, SPINS = 10000 };

struct call {
    const void *packed;
    layer_args args;
    void *scratch; /* LAYER_SCRATCH_BYTES_FOR(MAX_WORKERS) */
    atomic_int error;
};

static void run_part(struct call *call, size_t phase, size_t part, size_t worker)
{
    const int error = layer_run(call->packed, &call->args, call->scratch, phase, part, worker);
    if (error)
        atomic_store(&call->error, error);
}

/* ---- a pool of pthreads ---- */

/* A barrier that spins: a phase of a small layer takes microseconds, and waking a thread that sleeps takes tens. A
 * worker that waits long gives way, as there may be more workers than cores; a pool that is idle for long should
 * rather sleep. */
struct barrier {
    atomic_size_t arrived, turn;
    size_t workers, spins;
};

static struct pool {
    struct barrier barrier;
    atomic_size_t next; /* part of the phase that nobody has taken yet */
    struct call *call;  /* NULL: no more */
    pthread_t thread[MAX_WORKERS];
} pool;

static void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* The last one to arrive starts the next phase at part 0. */
static void wait_for_all(struct pool *p)
{
    struct barrier *b = &p->barrier;
    const size_t turn = atomic_load(&b->turn);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == b->workers) {
        atomic_store(&b->arrived, 0);
        atomic_store(&p->next, 0);
        atomic_store(&b->turn, turn + 1);
        return;
    }
    for (size_t spins = 0; atomic_load_explicit(&b->turn, memory_order_acquire) == turn; spins++)
        if (spins < b->spins)
            pause_a_little();
        else
            sched_yield();
}

/* Parts are taken as they come: some cost more than others (under a causal mask those of late queries), and so do cores
 * that somebody else needs. */
static void share_call(struct pool *p, size_t worker)
{
    struct call *call = p->call;
    const size_t phases = layer_phases(call->packed, &call->args);
    for (size_t phase = 0; phase < phases; phase++) {
        const size_t parts = layer_parts(call->packed, &call->args, phase);
        for (size_t part; (part = atomic_fetch_add(&p->next, 1)) < parts;)
            run_part(call, phase, part, worker);
        wait_for_all(p);
    }
}

static void *work(void *worker)
{
    for (;;) {
        wait_for_all(&pool); /* for the next call */
        if (pool.call == NULL)
            return NULL;
        share_call(&pool, (size_t)(uintptr_t)worker);
    }
}

/* Worker w on the w-th core that this program may use, all over again where they are fewer. */
static void pin(pthread_t thread, size_t worker, const cpu_set_t *allowed)
{
    size_t left = worker % (size_t)CPU_COUNT(allowed);
    int cpu = 0;
    while (!CPU_ISSET(cpu, allowed) || left-- > 0)
        cpu++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
}

static cpu_set_t allowed; /* the cores that this program may use */

/* The caller is worker 0. */
static int start_pool(size_t workers)
{
    const size_t cores = (size_t)CPU_COUNT(&allowed);
    atomic_store(&pool.barrier.arrived, 0);
    pool.barrier.workers = workers;
    pool.barrier.spins = workers > cores ? 0 : SPINS;
    pin(pthread_self(), 0, &allowed);
    for (size_t w = 1; w < workers; w++) {
        if (pthread_create(&pool.thread[w], NULL, work, (void *)(uintptr_t)w) != 0)
            return 0;
        pin(pool.thread[w], w, &allowed);
    }
    return 1;
}

static void run_pool(struct call *call, size_t workers)
{
    (void)workers;
    pool.call = call;
    wait_for_all(&pool);
    share_call(&pool, 0);
}

static void stop_pool(void)
{
    pool.call = NULL;
    wait_for_all(&pool);
    for (size_t w = 1; w < pool.barrier.workers; w++)
        pthread_join(pool.thread[w], NULL);
    pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
}

/* ---- OpenMP ---- */

#ifdef _OPENMP
static void run_openmp(struct call *call, size_t workers)
{
    const size_t phases = layer_phases(call->packed, &call->args);
#pragma omp parallel num_threads((int)workers)
    for (size_t phase = 0; phase < phases; phase++) {
        const size_t parts = layer_parts(call->packed, &call->args, phase);
#pragma omp for schedule(dynamic) /* ends with a barrier */
        for (size_t part = 0; part < parts; part++)
            run_part(call, phase, part, (size_t)omp_get_thread_num());
    }
}
#endif

/* ---- a plain loop ---- */

/* As `workers` cores without an operating system would do it, one after the other: parts are dealt out beforehand. */
static void run_loop(struct call *call, size_t workers)
{
    const size_t phases = layer_phases(call->packed, &call->args);
    for (size_t phase = 0; phase < phases; phase++) {
        const size_t parts = layer_parts(call->packed, &call->args, phase);
        for (size_t worker = 0; worker < workers; worker++)
            for (size_t part = worker; part < parts; part += workers)
                run_part(call, phase, part, worker);
    }
}

static void run_forward(struct call *call, size_t workers)
{
    (void)workers;
    const int error = layer_forward(call->packed, &call->args, call->scratch);
    if (error)
        atomic_store(&call->error, error);
}

/* ---- the program ---- */

static const struct driver {
    const char *name;
    int pooled, threaded;
    void (*run)(struct call *call, size_t workers);
} drivers[] = {
    {"layer_forward", 0, 0, run_forward},
    {"plain loop", 0, 0, run_loop},
    {"pthreads", 1, 1, run_pool},
#ifdef _OPENMP
    {"OpenMP", 0, 1, run_openmp},
#endif
};
enum { DRIVERS = sizeof drivers / sizeof drivers[0] };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "threads: error: %s: %s\n", what, why);
    exit(1);
}

/* The seconds of the second of two calls; the first one warms up. */
static double drive(const struct driver *driver, struct call *call, size_t workers)
{
    if (driver->pooled && !start_pool(workers))
        fail(driver->name, "a thread could not be started");
    driver->run(call, workers);
    const double start = seconds();
    driver->run(call, workers);
    const double took = seconds() - start;
    if (driver->pooled)
        stop_pool();
    if (atomic_load(&call->error))
        fail(driver->name, layer_strerror(atomic_load(&call->error)));
    return took;
}

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(LAYER_ALIGNMENT, (bytes + LAYER_ALIGNMENT) / LAYER_ALIGNMENT * LAYER_ALIGNMENT);
    if (memory == NULL)
        fail("memory", "there is none");
    return memory;
}

/* `count` floats evenly from -limit … limit. */
static float *draw(size_t count, float limit)
{
    static uint32_t state = 1;
    float *numbers = allocate(count * sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = limit * ((float)(state >> 8) / 8388608.0f - 1.0f);
    }
    return numbers;
}

static void *pack(void)
{
    enum { D = LAYER_D_MODEL, Q = LAYER_H * LAYER_D_K, K = LAYER_H_KV * LAYER_D_K, V = LAYER_H_KV * LAYER_D_V };
    void *packed = allocate(LAYER_PACKED_BYTES);
    const layer_weights weights = {
        .w_q = draw((size_t)D * Q, 0.06f), .b_q = draw(Q, 0.1f),
        .w_k = draw((size_t)D * K, 0.06f), .b_k = draw(K, 0.1f),
        .w_v = draw((size_t)D * V, 0.06f), .b_v = draw(V, 0.1f),
        .w_o = draw((size_t)LAYER_H * LAYER_D_V * D, 0.06f), .b_o = draw(D, 0.1f),
    };
    const int error = layer_pack(packed, &weights, LAYER_ISA_AUTO);
    if (error)
        fail("layer_pack", layer_strerror(error));
    const float *const all[] = {weights.w_q, weights.b_q, weights.w_k, weights.b_k,
                                weights.w_v, weights.b_v, weights.w_o, weights.b_o};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free((void *)(uintptr_t)all[i]);
    return packed;
}

/* Every driver gives the bits of layer_forward, whatever the number of workers. */
static void compare_bits(struct call *call)
{
    static const size_t workers[] = {1, 2, 3, 7, 16};
    const size_t bytes = (size_t)LAYER_SEQ_LEN * LAYER_D_OUT * sizeof(float);
    float *expected = allocate(bytes);
    drive(&drivers[0], call, 1);
    memcpy(expected, call->args.y, bytes);
    for (size_t d = 1; d < DRIVERS; d++)
        for (size_t w = 0; w < sizeof workers / sizeof workers[0]; w++) {
            memset(call->args.y, 0xff, bytes); /* nothing of an earlier call may pass for this one's */
            memset(call->scratch, 0xff, LAYER_SCRATCH_BYTES_FOR(MAX_WORKERS));
            drive(&drivers[d], call, workers[w]);
            if (memcmp(expected, call->args.y, bytes) != 0)
                fail(drivers[d].name, "y has other bits than layer_forward's");
        }
    free(expected);
    printf("%s: the same bits from", LAYER);
    for (size_t d = 1; d < DRIVERS; d++)
        printf("%s %s", d > 1 ? "," : "", drivers[d].name);
    printf(" with 1, 2, 3, 7 and 16 workers\n");
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Medians over rounds in which every driver takes its turn. */
static void compare_times(struct call *call, size_t rounds)
{
    static double took[DRIVERS][2][MAX_ROUNDS];
    for (size_t r = 0; r < rounds; r++)
        for (size_t d = 0; d < DRIVERS; d++)
            for (size_t w = 0; w < (drivers[d].threaded ? 2 : 1); w++)
                took[d][w][r] = drive(&drivers[d], call, w + 1);
    printf("%s, %s, milliseconds:\n%-14s %10s %10s %8s\n", LAYER, layer_isa_name(layer_isa(call->packed)), "",
           "1 thread", "2 threads", "speedup");
    for (size_t d = 0; d < DRIVERS; d++) {
        for (size_t w = 0; w < 2; w++)
            qsort(took[d][w], rounds, sizeof took[d][w][0], by_size);
        printf("%-14s %10.3f", drivers[d].name, 1e3 * took[d][0][rounds / 2]);
        if (drivers[d].threaded)
            printf(" %10.3f %7.2fx", 1e3 * took[d][1][rounds / 2], took[0][0][rounds / 2] / took[d][1][rounds / 2]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 21;
    if (rounds < 0 || rounds > MAX_ROUNDS || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        fail("usage", "threads [ROUNDS], at most 1000, on a system of up to 1024 cores");
    struct call call = {.packed = pack(), .scratch = allocate(LAYER_SCRATCH_BYTES_FOR(MAX_WORKERS))};
    float *x = draw((size_t)LAYER_SEQ_LEN * LAYER_D_MODEL, 2);
    float *y = allocate((size_t)LAYER_SEQ_LEN * LAYER_D_OUT * sizeof *y);
    call.args = (layer_args){.x = x, .y = y, .batch = 1, .n = LAYER_SEQ_LEN};
#ifdef PADDING
    static const int32_t lengths[1] = {LAYER_SEQ_LEN};
    call.args.lengths = lengths;
#endif
    compare_bits(&call);
    if (rounds > 0)
        compare_times(&call, (size_t)rounds);
    free((void *)(uintptr_t)call.packed);
    free(call.scratch);
    free(x);
    free(y);
    return fflush(stdout) != 0;
}
