/* SPDX-License-Identifier: MIT */
/* generate MODEL.safetensors COUNT < IDS: the ids of a prompt's tokens; prints the ids of the COUNT tokens that GPT-2 finds
 * likeliest behind it, one after the other. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "gpt2_model.h"

/* On 64 bytes, for the program's whole life; C11's aligned_alloc is not on Windows. */
static void *aligned(size_t bytes)
{
    char *memory = malloc(bytes + 63);
    return memory != NULL ? memory + (-(uintptr_t)memory & 63) : NULL;
}

int main(int argc, char **argv)
{
    FILE *model = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (model == NULL || fseek(model, 0, SEEK_END) != 0)
        return fprintf(stderr, "usage: generate MODEL.safetensors COUNT < IDS, with a model that can be read\n"), 2;
    const size_t size = (size_t)ftell(model);
    void *bytes = malloc(size), *work = malloc(GPT2_MODEL_WORK_BYTES), *file = aligned(GPT2_MODEL_BYTES(1));
    void *arena = aligned(GPT2_MODEL_ARENA_BYTES(1));
    float *cache = aligned(GPT2_MODEL_CACHE_BYTES(1)), *logits = malloc(GPT2_VOCAB * sizeof *logits);
    rewind(model);
    if (!bytes || !work || !file || !arena || !cache || !logits || fread(bytes, 1, size, model) != size)
        return fprintf(stderr, "%s cannot be read, or no memory\n", argv[1]), 3;
    gpt2_model m;
    int error = gpt2_model_pack(file, &(gpt2_model_shard){bytes, size}, 1, NULL, 1, work);
    error = error ? error : gpt2_model_open(&m, file, GPT2_MODEL_BYTES(1));
    free(bytes), free(work); /* the packed file has all */

    int32_t prompt[GPT2_CACHE_LEN], past = 0, id = 0;
    size_t count = 0;
    while (count < GPT2_CACHE_LEN && scanf("%d", &prompt[count]) == 1)
        count++;
    gpt2_model_args args = {.past = &past, .cache = cache, .last_logits = logits, .batch = 1};
    for (size_t at = 0; at < count && !error; at += args.n, past += (int32_t)args.n) { /* a call takes GPT2_SEQ_LEN */
        args.ids = prompt + at;
        args.n = count - at < GPT2_SEQ_LEN ? count - at : GPT2_SEQ_LEN;
        error = gpt2_model_run(&m, &args, arena);
        id = gpt2_model_argmax(logits);
    }
    for (int i = atoi(argv[2]); i > 0 && count > 0 && !error; i--) {
        printf("%d\n", id);
        error = i > 1 ? gpt2_model_step(&m, &args, &id, &past, arena) : 0;
    }
    return error ? fprintf(stderr, "%s\n", gpt2_model_strerror(error)), 1 : 0;
}
