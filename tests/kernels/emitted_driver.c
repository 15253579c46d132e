/* SPDX-License-Identifier: MIT */
/* Any one emitted pair, driven without knowing its layer: which tensors it takes is found out by asking. For what only a
 * program of its own can look at: how deep the stack gets, and what memory checkers and small compilers make of the code.
 *
 *   cc -DNAME=tiny -DPREFIX=TINY -DHEADER='"tiny.h"' [-DALONE] [-DWORKERS=4] emitted_driver.c tiny.c
 *
 * For each instruction set of the machine: packs, runs, and prints its name, the bytes of stack that pack and forward touched
 * (ALONE: 0; it then needs no threads), and a checksum of y. With WORKERS, so many threads then do the same in parts, for
 * ThreadSanitizer to watch, and must arrive at the same sum. The input makes a call go through every slow path: a row with NaN, and
 * rows whose scores outgrow their first reference. Left out on purpose: right and wrong numbers.
 */
#if !defined(ALONE) || defined(WORKERS)
#include <pthread.h>
#endif
#ifdef WORKERS
#include <stdatomic.h>
#else
#define WORKERS 1
#define NO_WORKERS
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define OF(name) JOIN(NAME, name)
#define THE(name) JOIN(PREFIX, name)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

enum {
    BATCH = 2,
    N = MIN(THE(_SEQ_LEN), 75),
    M = MIN(THE(_SOURCE_LEN), 75),
    TAPS = 8, /* more than any convolution here has */
    HEAD = MAX(THE(_D_K), THE(_D_V)),
    OF_HEADS = TAPS * THE(_H) * HEAD * MAX(THE(_D_MODEL), THE(_D_SOURCE)),
    WEIGHTS = MAX(OF_HEADS, THE(_PACKED_BYTES) / 4), /* of a tensor, at most; what is not folded is packed */
    STACK = 1 << 20
};

static struct call {
    OF(_weights) weights;
    OF(_args) args;
    OF(_isa_id) isa;
    int error;
    void *packed, *scratch;
} call;

static void *room(size_t bytes)
{
    char *block = malloc(bytes + 64); /* never freed: the program ends with its last use */
    if (block == NULL) {
        puts("out of memory");
        exit(3);
    }
    return block + (64 - (uintptr_t)block % 64);
}

static float *draw(size_t count, float scale)
{
    float *values = room(count * sizeof *values);
    uint32_t seed = 1;
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = scale * ((float)(seed >> 8) / 16777216.0f - 0.5f);
    }
    return values;
}

/* Whatever was written to y enters, so that a memory checker sees what was not. */
static uint32_t checksum(void)
{
    uint32_t sum = 1;
    for (size_t i = 0; i < (size_t)BATCH * N * THE(_D_OUT); i++) {
        uint32_t bits;
        memcpy(&bits, call.args.y + i, sizeof bits);
        sum = sum * 31u + (bits == 0x80000000u ? 0 : bits);
    }
    return sum;
}

/* The weights that the layer takes: those without which, all others given, it misses one. */
static int find_weights(const float *w)
{
    enum {
        FIELDS = sizeof(OF(_weights)) / sizeof(const float *),
        TABLES = offsetof(OF(_weights), tables) / sizeof(const float *) /* no layer here has any */
    };
    const float *all[FIELDS], *used[FIELDS];
    for (size_t i = 0; i < FIELDS; i++)
        all[i] = i != TABLES ? w : NULL;
    for (size_t i = 0; i < FIELDS; i++) {
        all[i] = NULL;
        memcpy(&call.weights, all, sizeof all);
        used[i] = OF(_pack)(call.packed, &call.weights, THE(_ISA_AUTO)) == THE(_ERROR_NULL) ? w : NULL;
        all[i] = i != TABLES ? w : NULL;
    }
    memcpy(&call.weights, used, sizeof used);
    return call.error = OF(_pack)(call.packed, &call.weights, THE(_ISA_AUTO));
}

/* The same for the tensors of a call. */
static int find_args(void)
{
    static int32_t lengths[BATCH] = {M, M / 2}, positions[BATCH * N];
    const size_t scores = (size_t)BATCH * THE(_H) * N * M;
    float *x = draw((size_t)BATCH * N * THE(_D_MODEL), 2.0f), *source = draw((size_t)BATCH * M * THE(_D_SOURCE), 2.0f);
    float *mask = draw(scores, 1.0f), *y = room((size_t)BATCH * N * THE(_D_OUT) * sizeof *y), *attn = room(scores * sizeof *attn);
    unsigned char *bytes = room(scores);
    memset(bytes, 1, scores);
    for (size_t i = 0; i < scores; i += 7)
        bytes[i] = 0;
    x[0] = x[0] * 0.0f / 0.0f;              /* one row with NaN */
    source[0] = x[0];
    for (size_t t = N / 2; t < N; t++) {    /* scores that grow and grow: many times what a first tile saw */
        for (size_t i = 0; i < THE(_D_MODEL); i++)
            x[t * THE(_D_MODEL) + i] *= 1000.0f;
    }
    for (size_t t = M / 2; t < M; t++)
        for (size_t i = 0; i < THE(_D_SOURCE); i++)
            source[t * THE(_D_SOURCE) + i] *= 1000.0f;
    for (size_t at = 0; at < (size_t)BATCH * N; at++)
        positions[at] = at % 5 == 0 ? (int32_t)at * -100000 : (int32_t)at;
    for (unsigned set = 64; set-- > 0;) { /* large ones first: without a source a call may have no keys */
        call.args = (OF(_args)){.x = x, .y = y, .batch = BATCH, .n = N};
        call.args.source = set & 1 ? source : NULL;
        call.args.m = set & 1 ? M : 0;
        call.args.lengths = set & 2 ? lengths : NULL;
        call.args.mask_bool = set & 4 ? bytes : NULL;
        call.args.mask_bool_batch = call.args.mask_bool_h = set & 4 ? 1 : 0;
        call.args.mask_add = set & 8 ? mask : NULL;
        call.args.mask_add_batch = call.args.mask_add_h = set & 8 ? 1 : 0;
        call.args.attn = set & 16 ? attn : NULL;
        call.args.positions = set & 32 ? positions : NULL;
        call.error = OF(_forward)(call.packed, &call.args, call.scratch);
        if (call.error != THE(_ERROR_NULL) && call.error != THE(_ERROR_UNUSED) && call.error != THE(_ERROR_BROADCAST))
            return call.error;
    }
    return call.error;
}

static void *use(void *unused)
{
    (void)unused;
    call.error = OF(_pack)(call.packed, &call.weights, call.isa);
    if (!call.error)
        call.error = OF(_forward)(call.packed, &call.args, call.scratch);
    return NULL;
}

#ifdef ALONE
static long depth_of(void *(*function)(void *))
{
    function(NULL);
    return 0;
}
#else
static void *nothing(void *unused) { return unused; }

/* Bytes that a thread touches of a painted stack. */
static long depth_of(void *(*function)(void *))
{
    enum { PAINT = 0xa5 };
    static _Alignas(4096) unsigned char stack[STACK];
    pthread_attr_t attributes;
    pthread_t thread;
    size_t untouched = 0;
    memset(stack, PAINT, sizeof stack);
    if (pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, sizeof stack) ||
        pthread_create(&thread, &attributes, function, NULL) || pthread_join(thread, NULL))
        return -1;
    pthread_attr_destroy(&attributes);
    while (untouched < sizeof stack && stack[untouched] == PAINT)
        untouched++;
    return untouched > 0 ? (long)(sizeof stack - untouched) : -1;
}
#endif

#ifdef NO_WORKERS
static int threads_agree(uint32_t sum)
{
    (void)sum;
    return 1;
}
#else
static struct {
    size_t phase, parts;
    atomic_size_t next;
    atomic_int error;
} crew;

/* Parts of the phase under way, as long as there are some */
static void *do_parts(void *worker)
{
    for (size_t part; (part = atomic_fetch_add(&crew.next, 1)) < crew.parts;) {
        const int error = OF(_run)(call.packed, &call.args, call.scratch, crew.phase, part, (size_t)(uintptr_t)worker);
        if (error)
            crew.error = error;
    }
    return NULL;
}

static int threads_agree(uint32_t sum)
{
    const size_t phases = OF(_phases)(call.packed, &call.args);
    memset(call.args.y, 0, (size_t)BATCH * N * THE(_D_OUT) * sizeof *call.args.y);
    for (crew.phase = 0; crew.phase < phases; crew.phase++) {
        pthread_t threads[WORKERS];
        crew.parts = OF(_parts)(call.packed, &call.args, crew.phase);
        crew.next = 0;
        for (uintptr_t i = 0; i < WORKERS; i++)
            if (pthread_create(&threads[i], NULL, do_parts, (void *)i))
                return 0;
        for (size_t i = 0; i < WORKERS; i++)
            if (pthread_join(threads[i], NULL))
                return 0;
    }
    return phases > 0 && !crew.error && checksum() == sum;
}
#endif

int main(void)
{
    int ran = 0;
    call.packed = room(THE(_PACKED_BYTES));
    call.scratch = room(THE(_SCRATCH_BYTES_FOR)(WORKERS));
    if (find_weights(draw(WEIGHTS, 0.1f)) || find_args()) {
        printf("the layer refuses its tensors: %s\n", OF(_strerror)(call.error));
        return 1;
    }
    for (int isa = 1; isa < 32; isa++) {
        call.isa = (OF(_isa_id))isa;
        use(NULL);
        if (call.error == THE(_ERROR_ISA))
            continue; /* not in this pair, or not on this machine */
#ifdef ALONE
        const long empty = 0;
#else
        const long empty = depth_of(nothing);
#endif
        const long deep = depth_of(use);
        if (call.error || empty < 0 || deep < 0) {
            printf("%s: %s\n", OF(_isa_name)(call.isa), call.error ? OF(_strerror)(call.error) : "no painted stack");
            return 1;
        }
        const uint32_t sum = checksum();
        printf("%s %ld %08lx\n", OF(_isa_name)(OF(_isa)(call.packed)), deep - empty, (unsigned long)sum);
        if (!threads_agree(sum)) {
            printf("%s: threads compute something else\n", OF(_isa_name)(call.isa));
            return 1;
        }
        ran++;
    }
    return ran > 0 ? 0 : 1;
}
