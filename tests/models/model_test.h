/* SPDX-License-Identifier: MIT */
/* What the programs around NAME_model.c share: compiled with -DNAME=bert -DPREFIX=BERT -DHEADER='"bert_model.h"' and
 * -DHEADS='HEAD(pooler,1,16)', of each head's field the name, how many rows it has of a sequence (1 or N), and its width.
 * They print "ok TEXT" or "not TEXT" a line. */
#include HEADER

#include <math.h>
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

static unsigned char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = malloc(1 << 20);
    if (file == NULL || bytes == NULL) {
        perror(path);
        exit(3);
    }
    *size = fread(bytes, 1, 1 << 20, file);
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

/* Every part, the last one first, by three workers in turns */
static void backwards(void *context, void (*part)(void *of, size_t i, size_t worker), void *of, size_t parts)
{
    ++*(size_t *)context;
    for (size_t i = parts; i-- > 0;)
        part(of, i, i % 3);
}

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
