/* SPDX-License-Identifier: MIT */
/* What the programs around NAME_model.c share: compiled with -DNAME=bert -DPREFIX=BERT -DHEADER='"bert_model.h"' and
 * -DHEADS='HEAD(pooler,1,16)', of each head's field the name, how many rows it has of a sequence (1 or N), and its width.
 * They print "ok TEXT" or "not TEXT" a line. */
#include HEADER

#include <math.h>
#ifdef THREADED
#include <pthread.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define FUNCTION(name) JOIN(NAME, _model##name)
#define CONSTANT(name) JOIN(PREFIX, _##name)
#define ERROR(name) JOIN(PREFIX, _MODEL_ERROR_##name)

enum { D = CONSTANT(D_MODEL), BATCH = 2, SCALAR = 1 };

#ifndef ANSWERED
#define ANSWERED 2e-5f /* how far from an answer numbers may be; weights of fewer bytes make it more */
#endif

static int failed;

static void check(const char *text, int good)
{
    printf("%s %s\n", good ? "ok" : "not", text);
    failed |= !good;
}

static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return memory != NULL ? memory : (exit(3), NULL);
}

enum { MOST_SHARDS = 4 };
static size_t shard_sizes[MOST_SHARDS];
static unsigned char *shard_bytes[MOST_SHARDS];

#ifndef SHARD_BYTES
#define SHARD_BYTES (1 << 20) /* at most */
#endif
static unsigned char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = malloc(SHARD_BYTES);
    if (file == NULL || bytes == NULL) {
        perror(path);
        exit(3);
    }
    *size = fread(bytes, 1, SHARD_BYTES, file);
    fclose(file);
    return bytes;
}

/* Of all the files behind argv[1]: the shards of a checkpoint */
static size_t read_shards(int argc, char **argv, FUNCTION(_shard) *shards)
{
    size_t count = 0;
    for (int i = 2; i < argc && count < MOST_SHARDS; i++, count++) {
        shard_bytes[count] = read_all(argv[i], &shard_sizes[count]);
        shards[count] = (FUNCTION(_shard)){shard_bytes[count], shard_sizes[count]};
    }
    return count;
}

#ifdef THREADED
/* A worker of a phase: it takes every third part, so that each has some. */
struct worker {
    size_t number, parts;
    void (*part)(void *of, size_t i, size_t worker);
    void *of;
};

static void *work_on(void *worker)
{
    const struct worker *w = worker;
    for (size_t i = w->number; i < w->parts; i += 3)
        w->part(w->of, i, w->number);
    return NULL;
}

/* Every part, by three threads at once */
static void backwards(void *context, void (*part)(void *of, size_t i, size_t worker), void *of, size_t parts)
{
    ++*(size_t *)context;
    struct worker workers[3];
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) {
        workers[i] = (struct worker){i, parts, part, of};
        if (pthread_create(&threads[i], NULL, work_on, &workers[i]) != 0)
            exit(3);
    }
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
#else
/* Every part, the last one first, by three workers in turns */
static void backwards(void *context, void (*part)(void *of, size_t i, size_t worker), void *of, size_t parts)
{
    ++*(size_t *)context;
    for (size_t i = parts; i-- > 0;)
        part(of, i, i % 3);
}
#endif

static float largest_difference(const float *a, const float *b, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = !(fabsf(a[i] - b[i]) <= most) ? fabsf(a[i] - b[i]) : most;
    return most;
}

/* Whether these numbers are those of FOLDER/NAME.f32 */
static int is_answer(const char *folder, const char *name, const float *of, size_t count)
{
    char path[1000];
    size_t size;
    snprintf(path, sizeof path, "%s/%s.f32", folder, name);
    unsigned char *bytes = read_all(path, &size);
    const float off = size == count * sizeof *of ? largest_difference(of, (const float *)(const void *)bytes, count) : -1;
    printf("    %s is off by %.3g\n", name, (double)off);
    free(bytes);
    return off >= 0 && off < ANSWERED;
}

static void draw_ids(int32_t *ids, int n, int step)
{
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < n; i++)
            ids[s * n + i] = 2 + (3 + step * i + 7 * s) % 17;
}

static void draw_numbers(float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(i * 7919 % 2048) / 1024.0f - 1.0f;
}

/* Headers of a file of two instruction sets, which opening must compare: the file is as one that was packed elsewhere, and
 * each of its headers stands in the place of each other one, and is exchanged with it. What opens must run: `run`, with
 * these arguments, under a tool that sees where it reads. */
static void check_headers(unsigned char *file, size_t bytes, int (*run)(const FUNCTION() *model))
{
    enum { PARTS = sizeof(((FUNCTION() *)NULL)->part) / sizeof(void *), HEADERS = 4 * PARTS, EACH = 32 };
    FUNCTION() model;
    unsigned char *const kept = aligned(bytes), *header[HEADERS], *at = file + 64 + CONSTANT(MODEL_COMMON_BYTES);
    int named = 1, works = 1;
    memcpy(kept, file, bytes);
    for (size_t bit = 8 * 48; bit < 8 * 64; bit++) {
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
        named &= FUNCTION(_open)(&model, file, bytes) == ERROR(PACKED) && FUNCTION(_verify)(file, bytes) == ERROR(PACKED);
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    check("a bit that the header does not use is no bit to change", named);
    for (size_t part = 0; part < PARTS; part++) {
        uint64_t block;
        memcpy(&block, at + 16, sizeof block); /* the first of two says where the second begins */
        for (size_t i = 0; i < 2; i++, at += block) {
            header[4 * part + 2 * i] = at;
            header[4 * part + 2 * i + 1] = at + EACH;
            memcpy(at, "atte", 4);
            memcpy(at + EACH, at, EACH);
            memcpy(at + EACH, "atto", 4);
            memset(at + EACH + 16, 0, 8);
        }
    }
    check("a file that was packed elsewhere opens and runs",
          at == file + bytes && FUNCTION(_open)(&model, file, bytes) == 0 && run(&model) == 0);
    unsigned char good[2][EACH];
    named = 1;
    for (size_t from = 0; from < HEADERS; from++)
        for (size_t to = 0; to < HEADERS; to++)
            for (int both = 0; both < 2; both++) {
                memcpy(good[0], header[from], EACH);
                memcpy(good[1], header[to], EACH);
                memcpy(header[to], good[0], EACH);
                memcpy(header[from], good[both], EACH);
                const int error = FUNCTION(_open)(&model, file, bytes);
                named &= error == (memcmp(good[0], good[1], EACH) == 0 ? 0 : ERROR(PACKED));
                memcpy(header[from], good[0], EACH);
                memcpy(header[to], good[1], EACH);
            }
    check("a header in another one's place is noticed", named);
    for (size_t block = 0; block < HEADERS; block += 2) /* of both headers of a block the set alike: that of each other one */
        for (size_t other = 0; other < HEADERS; other += 2) {
            for (size_t i = 0; i < 2; i++) {
                memcpy(good[i], header[block + i], EACH);
                memcpy(header[block + i] + 4, header[other] + 4, 12);
            }
            const int error = FUNCTION(_open)(&model, file, bytes);
            works &= error == ERROR(PACKED) || error == ERROR(ISA) || (error == 0 && run(&model) == 0);
            memcpy(header[block], good[0], EACH);
            memcpy(header[block + 1], good[1], EACH);
        }
    check("a block of another set or layer is refused, or what opens runs", works);
    memcpy(file, kept, bytes);
    free(kept);
}

/* A pointer of a call: where it stands, its boundary, whether the call needs it, and whether it may lie in the cache. */
struct pointer {
    const char *name;
    void *at;
    size_t boundary;
    int needed, apart; /* apart: it must not lie in the cache */
};

/* Each pointer NULL, off its boundary and in the cache is that error of the call. `cache` may be NULL. */
static void check_pointers(const char *call_name, const struct pointer *rows, size_t count, int (*call)(void), char *cache)
{
    for (const struct pointer *row = rows; row < rows + count; row++) {
        char *given, *wrong = NULL, text[120];
        int good = 1;
        memcpy(&given, row->at, sizeof given);
        memcpy(row->at, &wrong, sizeof wrong);
        good &= !row->needed || call() == ERROR(NULL);
        for (size_t off = 1; given != NULL && off < row->boundary; off *= 2) {
            wrong = given + off;
            memcpy(row->at, &wrong, sizeof wrong);
            good &= call() == ERROR(ALIGNMENT);
        }
        wrong = cache;
        memcpy(row->at, &wrong, sizeof wrong);
#ifdef OVERLAPS
        good &= cache == NULL || !row->apart || call() == ERROR(OVERLAP);
#endif
        memcpy(row->at, &given, sizeof given);
        snprintf(text, sizeof text, "%s: %s NULL, off its boundary or in the cache is an error", call_name, row->name);
        check(text, good);
    }
}
#define POINTERS(name, rows, call, cache) check_pointers(name, rows, sizeof(rows) / sizeof *(rows), call, cache)
