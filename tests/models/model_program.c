/* SPDX-License-Identifier: MIT */
/* NAME_model.c against what transformers answers, and its promises: program CHECKPOINT ANSWERS, "ok TEXT" or "not TEXT" a
 * line. Compiled with -DNAME=bert -DPREFIX=BERT -DHEADER='"bert_model.h"' and, where there are, -DTYPES and -DPOOLER. */
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

enum { D = CONSTANT(D_MODEL), BATCH = 2, N = 9, TOKENS = BATCH * N, SCALAR = 1 };

static int failed;

static void check(const char *text, int good)
{
    printf("%s %s\n", good ? "ok" : "not", text);
    failed |= !good;
}

static unsigned char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = malloc(1 << 20);
    if (file == NULL || bytes == NULL)
        exit(3);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
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

static unsigned char *aligned(size_t bytes)
{
    unsigned char *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return memory != NULL ? memory : (exit(3), NULL);
}

int main(int argc, char **argv)
{
    size_t size, answers_size;
    if (argc != 3)
        return 2;
    unsigned char *bytes = read_all(argv[1], &size), *of_answers = read_all(argv[2], &answers_size);
    const float *answers = (const float *)(const void *)of_answers;
    const size_t file_bytes = CONSTANT(MODEL_BYTES)(2);
    unsigned char *file = aligned(file_bytes), *arena = aligned(CONSTANT(MODEL_ARENA_BYTES)(3));
    void *work = malloc(CONSTANT(MODEL_WORK_BYTES));
    FUNCTION(_shard) shard = {bytes, size};
    int isas[2] = {SCALAR, SCALAR};
    FUNCTION() model;

    int32_t ids[TOKENS], types[TOKENS], lengths[BATCH] = {9, 6};
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < N; i++) {
            ids[s * N + i] = 2 + (3 + 5 * i + 7 * s) % 17;
            types[s * N + i] = i % 2;
        }
    static float hidden[TOKENS * D], again[TOKENS * D], mean[BATCH * D];
    FUNCTION(_args) args = {.ids = ids, .lengths = lengths, .hidden = hidden, .mean = mean, .batch = BATCH, .n = N};
#ifdef TYPES
    args.types = types;
#endif
#ifdef POOLER
    static float pooled[BATCH * D];
    args.pooled = pooled;
#endif
    check("a file is packed for this machine", FUNCTION(_pack)(file, &shard, 1, NULL, 1, work) == 0);
    check("and opens", FUNCTION(_open)(&model, file, CONSTANT(MODEL_BYTES)(1)) == 0);
    const int best = isas[1] = (int)JOIN(NAME, _layer_isa)(model.layer[0]);
    check("a file is packed for two instruction sets", FUNCTION(_pack)(file, &shard, 1, isas, 2, work) == 0);
    check("its checksum is right", FUNCTION(_verify)(file, file_bytes) == 0);
    check("it opens", FUNCTION(_open)(&model, file, file_bytes) == 0);
    check("by the best of its instruction sets", JOIN(NAME, _layer_isa)(model.layer[0]) == best);
    args.parallel = backwards;
    args.context = &isas;
    args.hidden = (float *)(void *)((char *)hidden + 2);
    check("hidden states beside their boundary are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(ALIGNMENT));
    args.parallel = NULL;
    args.hidden = hidden;
    check("it runs", FUNCTION(_run)(&model, &args, arena) == 0);
    printf("    off by %.3g\n", (double)largest_difference(hidden, answers, TOKENS * D));
    check("hidden states are those of transformers", largest_difference(hidden, answers, TOKENS * D) < 2e-5f);
#ifdef POOLER
    check("so is what the pooler makes of them",
          largest_difference(pooled, answers + TOKENS * D, BATCH * D) < 2e-5f &&
              answers_size == (TOKENS + BATCH) * D * sizeof(float));
#endif
    float sums[BATCH * D] = {0};
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < lengths[s]; i++)
            for (int d = 0; d < D; d++)
                sums[s * D + d] += answers[(s * N + i) * D + d] / (float)lengths[s];
    check("the mean is that of tokens that exist", largest_difference(mean, sums, BATCH * D) < 2e-5f);

    size_t phases = 0;
    args.hidden = again;
    args.parallel = backwards;
    args.context = &phases;
    memset(arena, 0xff, CONSTANT(MODEL_ARENA_BYTES)(3));
    check("several workers run it", FUNCTION(_run)(&model, &args, arena) == 0 && phases > 0);
    check("with the same bits", memcmp(hidden, again, sizeof hidden) == 0);
    args.parallel = NULL;
    for (size_t s = 0; s < BATCH; s++) {
        FUNCTION(_args) one = args;
        one.ids += s * N, one.lengths += s, one.hidden += s * N * D, one.mean += s * D, one.batch = 1;
#ifdef TYPES
        one.types += s * N;
#endif
#ifdef POOLER
        one.pooled += s * D;
#endif
        memset(one.hidden, 0, N * D * sizeof(float));
        check("a sequence alone runs", FUNCTION(_run)(&model, &one, arena) == 0);
    }
    check("with the same bits as together", memcmp(hidden, again, sizeof hidden) == 0);

    memset(again, 0x55, sizeof again);
    float untouched[TOKENS * D];
    memcpy(untouched, again, sizeof again);
    ids[3] = CONSTANT(VOCAB);
    check("an id out of range is an error", FUNCTION(_run)(&model, &args, arena) == ERROR(ID));
    ids[3] = -1;
    check("a negative one too", FUNCTION(_run)(&model, &args, arena) == ERROR(ID));
    ids[3] = 2;
    ids[N + 7] = -5;
    check("behind a sequence's end nobody looks", FUNCTION(_run)(&model, &args, arena) == 0);
    memcpy(again, untouched, sizeof again);
    lengths[1] = N + 1;
    check("a length above n is an error", FUNCTION(_run)(&model, &args, arena) == ERROR(LENGTH));
    lengths[1] = 6;
    args.n = CONSTANT(SEQ_LEN) + 1;
    check("more tokens than the model has are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(SIZE));
    args.n = N;
    check("an arena beside its alignment is an error", FUNCTION(_run)(&model, &args, arena + 4) == ERROR(ALIGNMENT));
    check("nothing was written then", memcmp(again, untouched, sizeof again) == 0);
    args.batch = 0;
    check("no sequence is no error", FUNCTION(_run)(&model, &args, arena) == 0);
    args.batch = BATCH;

    file[file_bytes / 2] ^= 1;
    check("a changed byte is noticed", FUNCTION(_verify)(file, file_bytes) == ERROR(PACKED));
    file[file_bytes / 2] ^= 1;
    check("a file that is cut off is not opened", FUNCTION(_open)(&model, file, file_bytes - 64) == ERROR(PACKED));
    check("and leaves no model", FUNCTION(_run)(&model, &args, arena) == ERROR(NULL));
    file[0] ^= 1;
    check("nor one of another kind", FUNCTION(_open)(&model, file, file_bytes) == ERROR(PACKED));
    const size_t header = 8 + (bytes[0] | (size_t)bytes[1] << 8);
    int refused = 1, known = 1;
    for (size_t cut = 0; cut < size; cut += 1 + size / 400) {
        unsigned char *part = malloc(cut + 1); /* so that a tool sees what is read behind it */
        memcpy(part, bytes, cut);
        FUNCTION(_shard) some = {part, cut};
        const int error = FUNCTION(_pack)(file, &some, 1, isas, 2, work);
        refused &= error == ERROR(CHECKPOINT) || cut > header;
        known &= error == ERROR(CHECKPOINT) || error == 0; /* the last tensors may be another model's */
        free(part);
    }
    check("a checkpoint that is cut off in its header is refused", refused);
    check("and behind it, or what is missing is not needed", known);
    FUNCTION(_shard) none = {bytes, header};
    check("without numbers it is refused", FUNCTION(_pack)(file, &none, 1, isas, 2, work) == ERROR(CHECKPOINT));
    check("and leaves no file", FUNCTION(_open)(&model, file, file_bytes) == ERROR(PACKED));
    check("instruction sets that there are not are refused",
          FUNCTION(_pack)(file, &shard, 1, (const int[]){99}, 1, work) == ERROR(ISA));
    memset(bytes + header, 0xff, size - header); /* NaN in every type */
    check("a weight that is NaN is refused", FUNCTION(_pack)(file, &shard, 1, isas, 2, work) == ERROR(NONFINITE));
    free(bytes), free(of_answers), free(file), free(arena), free(work);
    return failed;
}
