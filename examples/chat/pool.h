/* SPDX-License-Identifier: MIT */
/* The parts of a model's steps on two threads. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

/* One more thread takes parts too. It does not sleep between calls, as a server's should. */
static struct {
    void (*part)(void *of, size_t i, size_t worker);
    void *of;
    size_t parts;
    atomic_size_t next, turn, done;
} pool;

static void take_parts(size_t worker)
{
    for (size_t i; (i = atomic_fetch_add(&pool.next, 1)) < pool.parts;)
        pool.part(pool.of, i, worker);
}

static void *help(void *unused)
{
    for (size_t turn = 1;; turn++) {
        while (atomic_load(&pool.turn) != turn)
            sched_yield();
        take_parts(1);
        atomic_store(&pool.done, turn);
    }
    return unused;
}

static void by_two(void *context, void (*part)(void *of, size_t i, size_t worker), void *of, size_t parts)
{
    (void)context;
    pool.part = part, pool.of = of, pool.parts = parts;
    atomic_store(&pool.next, 0);
    const size_t turn = atomic_fetch_add(&pool.turn, 1) + 1;
    take_parts(0);
    while (atomic_load(&pool.done) != turn)
        sched_yield();
}
