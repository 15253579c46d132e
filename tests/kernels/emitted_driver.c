/* SPDX-License-Identifier: MIT */
/* Any one emitted pair, driven without knowing its layer: NAME_table of attngen --shim says which tensors it takes. For what
 * only a program of its own can look at: how deep the stack gets, and what memory checkers and small compilers make of the code.
 *
 *   cc -DNAME=tiny -DPREFIX=TINY -DHEADER='"tiny.h"' [-DALONE] [-DWORKERS=4] emitted_driver.c tiny.c tiny_shim.c
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
#include "../../templates/interface/table.h.in"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define OF(name) JOIN(NAME, name)
#define THE(name) JOIN(PREFIX, name)

enum { BATCH = 2, N = THE(_SEQ_LEN) < 75 ? THE(_SEQ_LEN) : 75, STACK = 1 << 20 };
extern const struct kernel_table OF(_table);

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

/* What the letters of a shape are in a call; a mask has its extents of 1. */
static size_t extent_of(const char *axis)
{
    static const struct { const char *letter; size_t extent; } letters[] = {{"batch]", BATCH}, {"n]", N}, {"m]", N}};
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (strncmp(axis, letters[i].letter, strlen(letters[i].letter)) == 0)
            return letters[i].extent;
    return strstr(axis, " or 1]") != NULL && strchr(axis, ']') > strstr(axis, " or 1]") ? 1 : (size_t)atol(axis);
}

/* Numbers for a tensor: floats with a row of NaN, and rows that grow to many times what a first tile saw; lengths and positions;
 * a mask with holes. */
static void *draw_tensor(const struct kernel_tensor *tensor)
{
    size_t count = 1, row = 1;
    for (const char *axis = tensor->shape; (axis = strchr(axis, '[')) != NULL;)
        count *= row = extent_of(++axis);
    if (strcmp(tensor->type, "bool") == 0) {
        unsigned char *mask = room(count);
        for (size_t i = 0; i < count; i++)
            mask[i] = i % 7 != 0;
        return mask;
    }
    if (strcmp(tensor->type, "i32") == 0) {
        int32_t *numbers = room(count * sizeof *numbers);
        const int lengths = strcmp(tensor->name, "lengths") == 0;
        for (size_t i = 0; i < count; i++)
            numbers[i] = lengths ? N / (int32_t)(i + 1) : i % 5 == 0 ? (int32_t)i * -100000 : (int32_t)i;
        return numbers;
    }
    float *values = draw(count, tensor->packed ? 0.1f : 2.0f);
    const int rows = strcmp(tensor->name, "x") == 0 || strcmp(tensor->name, "source") == 0;
    for (size_t i = 0; rows && i < count; i++)
        values[i] *= i == 0 ? 0.0f / (0.0f * values[i]) : i < row * N && i / row >= N / 2 ? 1000.0f : 1.0f;
    return values;
}

static void give_tensors(void)
{
    static struct kernel_weights weights;
    static struct kernel_args args;
    for (size_t i = 0; i < OF(_table).tensor_count; i++) {
        const struct kernel_tensor *tensor = &OF(_table).tensors[i];
        (tensor->packed ? weights.tensor : args.tensor)[tensor->number] = draw_tensor(tensor);
        args.mask_batch[tensor->number] = args.mask_h[tensor->number] = 1;
    }
    args.batch = BATCH;
    args.n = args.m = N;
    OF(_table).weights_of(&weights, &call.weights);
    OF(_table).args_of(&args, &call.args);
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
    give_tensors();
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
