/* SPDX-License-Identifier: MIT */
/* Threads that work on the calls of one measurement: created for it, each pinned to its core, joined after it, so that
 * none spins while others are measured. Starting them is not in the time that crew_time returns.
 */
#ifndef PEERS_CREW_H
#define PEERS_CREW_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

struct crew {
    int64_t threads;
    const int32_t *cores;
    void (*work)(struct crew *crew, int64_t worker, void *argument);
    void *argument;
    _Atomic int64_t waiting, generation;
    int64_t start_ns, end_ns;
};

static inline int64_t crew_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins; yields after some thousand iterations, for machines on which threads have to share a core. */
static inline void crew_barrier(struct crew *c)
{
    if (c->threads == 1)
        return;
    const int64_t generation = atomic_load(&c->generation);
    if (atomic_fetch_add(&c->waiting, 1) == c->threads - 1) {
        atomic_store(&c->waiting, 0);
        atomic_fetch_add(&c->generation, 1);
        return;
    }
    for (int64_t spins = 0; atomic_load(&c->generation) == generation; spins++)
        if (spins < 4000)
            __builtin_ia32_pause();
        else
            sched_yield();
}

struct crew_member {
    struct crew *crew;
    int64_t worker;
};

static inline void *crew_member_run(void *pointer)
{
    struct crew_member *me = pointer;
    struct crew *c = me->crew;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(c->cores[me->worker], &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* a refusal costs only accuracy */
    crew_barrier(c);
    if (me->worker == 0)
        c->start_ns = crew_now();
    c->work(c, me->worker, c->argument);
    crew_barrier(c);
    if (me->worker == 0)
        c->end_ns = crew_now();
    return NULL;
}

/* work(crew, 0 ... threads-1, argument) on as many threads, the first of them the caller's; nanoseconds, -1 on failure. */
static inline int64_t crew_time(int64_t threads, const int32_t *cores, void (*work)(struct crew *, int64_t, void *),
                                void *argument)
{
    struct crew crew = {.threads = threads, .cores = cores, .work = work, .argument = argument};
    struct crew_member *members = calloc((size_t)threads, sizeof *members);
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    int64_t started = members != NULL && handles != NULL;
    for (int64_t w = 0; started && w < threads; w++)
        members[w] = (struct crew_member){&crew, w};
    while (started > 0 && started < threads) {
        if (pthread_create(&handles[started], NULL, crew_member_run, &members[started]) != 0)
            abort(); /* those that are started would wait for ever */
        started++;
    }
    if (started > 0)
        crew_member_run(&members[0]);
    for (int64_t w = 1; w < started; w++)
        pthread_join(handles[w], NULL);
    free(members);
    free(handles);
    return started > 0 ? crew.end_ns - crew.start_ns : -1;
}

#endif
