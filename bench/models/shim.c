/* SPDX-License-Identifier: MIT */
/* An emitted model behind one interface for all: -DNAME=gpt2 -DPREFIX=GPT2 -DHEADER='"gpt2_model.h"', and -DDECODER or
 * -DPIXELS with -DOUTPUT=last_logits, classifier or hidden. And threads that share the parts of each phase. */
#include "crew.h"
#include HEADER

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define OF(what) JOIN(NAME, _model##what)
#define CONSTANT(what) JOIN(PREFIX, _MODEL_##what)

/* ---- threads: they spin between phases, pinned to their cores, and live as long as the process ---- */

enum { MOST = 64 };

struct pool {
    size_t threads;
    _Atomic size_t generation, next, done;
    void (*part)(void *of, size_t i, size_t worker);
    void *of;
    size_t parts;
};

static struct pool pool = {.threads = 1};
static struct {
    size_t worker;
    int core;
} members[MOST];

static void take_parts(size_t worker)
{
    for (size_t i; (i = atomic_fetch_add(&pool.next, 1)) < pool.parts;)
        pool.part(pool.of, i, worker);
}

static void wait_while(_Atomic size_t *at, size_t value)
{
    for (int64_t spins = 0; atomic_load(at) == value; spins++)
        if (spins < 4000)
            __builtin_ia32_pause();
        else
            sched_yield();
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* a refusal costs only accuracy */
}

static void *member(void *of)
{
    const size_t worker = *(size_t *)of;
    pin(members[worker].core);
    for (size_t seen = 0;; seen++) {
        wait_while(&pool.generation, seen);
        take_parts(worker);
        atomic_fetch_add(&pool.done, 1);
    }
    return NULL;
}

static void parallel(void *context, void (*part)(void *of, size_t i, size_t worker), void *of, size_t parts)
{
    (void)context;
    if (parts == 1) {
        part(of, 0, 0);
        return;
    }
    pool.part = part, pool.of = of, pool.parts = parts;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.done, 0);
    atomic_fetch_add(&pool.generation, 1);
    take_parts(0);
    for (size_t done; (done = atomic_load(&pool.done)) < pool.threads - 1;)
        wait_while(&pool.done, done);
}

/* 0, or -1: not so many threads can be started. The first one is the caller's. */
int bench_threads(size_t threads, const int32_t *cores)
{
    if (threads < 1 || threads > MOST)
        return -1;
    pool.threads = threads;
    for (size_t w = 0; w < threads; w++)
        members[w].worker = w, members[w].core = cores[w];
    pin(cores[0]);
    pthread_t handle;
    for (size_t w = 1; w < threads; w++)
        if (pthread_create(&handle, NULL, member, &members[w].worker) != 0)
            return -1;
    return 0;
}

/* ---- the model ---- */

static OF() model;

struct call {
    const int32_t *ids, *lengths, *past;
    const float *pixels;
    float *cache, *output, *every; /* every: logits of each token, or NULL */
    size_t batch, n;
};

/* Bytes of the packed file, of what packing needs, of the arena, of a sequence's cache */
size_t bench_bytes(int of)
{
#ifdef DECODER
    if (of == 3)
        return CONSTANT(CACHE_BYTES)(1);
#endif
    return of == 0 ? CONSTANT(BYTES)(1) : of == 1 ? CONSTANT(WORK_BYTES) : of == 2 ? CONSTANT(ARENA_BYTES)(pool.threads) : 0;
}

int bench_pack(void *file, const void *checkpoint, size_t size, void *work)
{
    return OF(_pack)(file, &(OF(_shard)){checkpoint, size}, 1, NULL, 1, work);
}

int bench_open(const void *file, size_t size)
{
    return OF(_open)(&model, file, size);
}

int bench_run(const struct call *c, void *arena)
{
    OF(_args) args = {.OUTPUT = c->output, .batch = c->batch};
#ifdef PIXELS
    args.pixels = c->pixels;
#else
    args.ids = c->ids, args.lengths = c->lengths, args.n = c->n;
#endif
#ifdef DECODER
    args.past = c->past, args.cache = c->cache, args.logits = c->every;
#endif
    args.parallel = pool.threads > 1 ? parallel : NULL;
    return OF(_run)(&model, &args, arena);
}
