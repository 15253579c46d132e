/* SPDX-License-Identifier: MIT */
/* embed MODEL.safetensors < IDS: a sentence a line, as the ids of its tokens; prints how alike each is to the first one,
 * the cosine of their embeddings, and the time of a sentence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "minilm_model.h"

enum { D = MINILM_D_MODEL };

int main(int argc, char **argv)
{
    FILE *model = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (model == NULL || fseek(model, 0, SEEK_END) != 0)
        return fprintf(stderr, "usage: embed MODEL.safetensors < IDS\n"), 2;
    minilm_model_shard checkpoint = {malloc((size_t)ftell(model)), (size_t)ftell(model)};
    void *file = aligned_alloc(64, MINILM_MODEL_BYTES(1)), *work = malloc(MINILM_MODEL_WORK_BYTES);
    void *arena = aligned_alloc(64, (MINILM_MODEL_ARENA_BYTES(1) + 63) / 64 * 64);
    rewind(model);
    if (!checkpoint.bytes || !file || !work || !arena ||
        fread((void *)checkpoint.bytes, 1, checkpoint.size, model) != checkpoint.size)
        return fprintf(stderr, "%s cannot be read, or no memory\n", argv[1]), 3;
    minilm_model m;
    int error = minilm_model_pack(file, &checkpoint, 1, NULL, 1, work);
    error = error ? error : minilm_model_open(&m, file, MINILM_MODEL_BYTES(1));
    static float mean[D], first[D];
    static char line[1 << 16];
    for (int sentence = 0; !error && fgets(line, sizeof line, stdin) != NULL; sentence++) {
        int32_t ids[MINILM_SEQ_LEN];
        size_t n = 0;
        for (char *at = line, *end; n < MINILM_SEQ_LEN; at = end, n++)
            if (ids[n] = (int32_t)strtol(at, &end, 10), end == at)
                break;
        const clock_t start = clock();
        error = minilm_model_run(&m, &(minilm_model_args){.ids = ids, .mean = mean, .batch = 1, .n = n}, arena);
        if (error || n == 0)
            continue;
        const double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
        double dot = 0, squares = 0;
        for (size_t d = 0; d < D; d++)
            squares += (double)mean[d] * mean[d];
        for (size_t d = 0; d < D; d++) {
            mean[d] = (float)(mean[d] / sqrt(squares));
            dot += (double)mean[d] * (sentence == 0 ? mean[d] : first[d]);
        }
        if (sentence == 0)
            memcpy(first, mean, sizeof first);
        printf("%d: %zu tokens, cosine %.4f, %.2f ms\n", sentence, n, dot, ms);
    }
    return error ? fprintf(stderr, "%s\n", minilm_model_strerror(error)), 1 : 0;
}
