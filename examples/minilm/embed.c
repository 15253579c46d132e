/* SPDX-License-Identifier: MIT */
/* embed MODEL.safetensors [vectors] < IDS: a sentence a line, as the ids of its tokens; prints how alike each is to the
 * first one, the cosine of their embeddings; or its embedding, of length 1. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "minilm_model.h"

/* On 64 bytes, for the program's whole life; C11's aligned_alloc is not on Windows. */
static void *aligned(size_t bytes)
{
    char *memory = malloc(bytes + 63);
    return memory != NULL ? memory + (-(uintptr_t)memory & 63) : NULL;
}

int main(int argc, char **argv)
{
    const int vectors = argc == 3 && strcmp(argv[2], "vectors") == 0;
    FILE *model = argc == 2 + vectors ? fopen(argv[1], "rb") : NULL;
    if (model == NULL || fseek(model, 0, SEEK_END) != 0)
        return fprintf(stderr, "usage: embed MODEL.safetensors [vectors] < IDS, with a model that can be read\n"), 2;
    const size_t size = (size_t)ftell(model);
    void *bytes = malloc(size), *work = malloc(MINILM_MODEL_WORK_BYTES);
    void *file = aligned(MINILM_MODEL_BYTES(1)), *arena = aligned(MINILM_MODEL_ARENA_BYTES(1));
    rewind(model);
    if (!bytes || !work || !file || !arena || fread(bytes, 1, size, model) != size)
        return fprintf(stderr, "%s cannot be read, or no memory\n", argv[1]), 3;
    minilm_model m;
    int error = minilm_model_pack(file, &(minilm_model_shard){bytes, size}, 1, NULL, 1, work);
    error = error ? error : minilm_model_open(&m, file, MINILM_MODEL_BYTES(1));
    static float first[MINILM_D_MODEL], other[MINILM_D_MODEL];
    static char line[1 << 16];
    for (int sentence = 0; !error && fgets(line, sizeof line, stdin) != NULL; sentence++) {
        int32_t ids[MINILM_SEQ_LEN];
        size_t n = 0;
        for (char *at = strtok(line, " \n"), *end; at != NULL; at = strtok(NULL, " \n")) {
            const long id = strtol(at, &end, 10);
            if (*end != '\0' || id < 0 || id > INT32_MAX || n == MINILM_SEQ_LEN)
                return fprintf(stderr, "line %d: %s is %s\n", sentence + 1, at, n == MINILM_SEQ_LEN ?
                               "one token too many" : "no id of a token; ids come from the model's tokenizer"), 2;
            ids[n++] = (int32_t)id;
        }
        float *mean = sentence == 0 ? first : other;
        error = minilm_model_run(&m, &(minilm_model_args){.ids = ids, .mean = mean, .batch = 1, .n = n}, arena);
        double dot = 0, a = 0, b = 0;
        for (size_t d = 0; d < MINILM_D_MODEL; d++) {
            dot += (double)mean[d] * first[d];
            a += (double)mean[d] * mean[d];
            b += (double)first[d] * first[d];
        }
        for (size_t d = 0; !error && vectors && d < MINILM_D_MODEL; d++)
            printf("%.6f%c", mean[d] / sqrt(a), d + 1 < MINILM_D_MODEL ? ' ' : '\n');
        if (!error && !vectors)
            printf("%d: %zu tokens, cosine %.4f\n", sentence, n, a * b > 0 ? dot / sqrt(a * b) : 0.0);
    }
    return error ? fprintf(stderr, "%s\n", minilm_model_strerror(error)), 1 : 0;
}
