/* SPDX-License-Identifier: MIT */
/* agree MODEL.safetensors < IDS: the likeliest next token behind each of the ids of a text, a line each, by the model that
 * attngen import made as "typed". See number_types.py. */
#include <stdio.h>
#include <stdlib.h>

#include "typed_model.h"

static void *aligned(size_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

int main(int argc, char **argv)
{
    FILE *model = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (model == NULL || fseek(model, 0, SEEK_END) != 0)
        return fprintf(stderr, "usage: agree MODEL.safetensors < IDS, with a model that can be read\n"), 2;
    const size_t size = (size_t)ftell(model);
    void *bytes = malloc(size), *work = malloc(TYPED_MODEL_WORK_BYTES), *file = aligned(TYPED_MODEL_BYTES(1));
    void *arena = aligned(TYPED_MODEL_ARENA_BYTES(1)), *cache = aligned(TYPED_MODEL_CACHE_BYTES(1));
    float *logits = malloc(sizeof *logits * TYPED_VOCAB);
    rewind(model);
    if (!bytes || !work || !file || !arena || !cache || !logits || fread(bytes, 1, size, model) != size)
        return fprintf(stderr, "%s cannot be read, or no memory\n", argv[1]), 3;
    typed_model m;
    int error = typed_model_pack(file, &(typed_model_shard){bytes, size}, 1, NULL, 1, work);
    error = error ? error : typed_model_open(&m, file, TYPED_MODEL_BYTES(1));
    int32_t past = 0, id;
    typed_model_args args = {.past = &past, .cache = cache, .last_logits = logits, .ids = &id, .batch = 1, .n = 1};
    for (; !error && past < TYPED_CACHE_LEN && scanf("%d", &id) == 1; past++) {
        error = typed_model_run(&m, &args, arena);
        if (!error)
            printf("%d\n", (int)typed_model_argmax(logits));
    }
    return error ? fprintf(stderr, "%s\n", typed_model_strerror(error)), 1 : 0;
}
