/* SPDX-License-Identifier: MIT */
/* generate MODEL.packed COUNT < PROMPTS: a prompt a line, as the ids of its tokens; prints the ids of the COUNT tokens that
 * the model finds likeliest behind each, a line each. All prompts are under way at once: one call, then a step for all. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "llama_model.h"
#include "map.h"

enum { MOST = 32, LINE = 1 << 16 }; /* prompts */

/* On 64 bytes, for the program's whole life; C11's aligned_alloc is not on Windows. */
static void *aligned(size_t bytes)
{
    char *memory = malloc(bytes + 63);
    return memory != NULL ? memory + (-(uintptr_t)memory & 63) : NULL;
}

int main(int argc, char **argv)
{
    size_t size = 0;
    const void *packed = argc == 3 ? map(argv[1], &size) : NULL;
    if (packed == NULL)
        return fprintf(stderr, "usage: generate MODEL.packed COUNT < PROMPTS, with a file that can be read\n"), 2;
    const size_t count = (size_t)strtoul(argv[2], NULL, 10);
    llama_model m;
    int error = llama_model_open(&m, packed, size);

    static char line[LINE];
    static int32_t prompt[MOST][LLAMA_SEQ_LEN], lengths[MOST], past[MOST], ids[MOST];
    size_t batch = 0, n = 0;
    for (; batch < MOST && fgets(line, sizeof line, stdin) != NULL; batch++) {
        size_t length = 0;
        for (char *at = strtok(line, " \n"); at != NULL && length < LLAMA_SEQ_LEN; at = strtok(NULL, " \n"))
            prompt[batch][length++] = (int32_t)atoi(at);
        lengths[batch] = (int32_t)length;
        n = length > n ? length : n;
    }
    int32_t *text = malloc((batch * n + 1) * sizeof *text), *made = malloc((batch * count + 1) * sizeof *made);
    float *cache = aligned(LLAMA_MODEL_CACHE_BYTES(batch)), *logits = malloc((batch * LLAMA_VOCAB + 1) * sizeof *logits);
#ifdef LLAMA_MODEL_STATES_BYTES /* a model with recurrent layers */
    float *states = aligned(LLAMA_MODEL_STATES_BYTES(batch));
    if (states == NULL)
        return fprintf(stderr, "no memory\n"), 3;
#endif
    void *arena = aligned(LLAMA_MODEL_ARENA_BYTES(1));
    if (!text || !made || !cache || !logits || !arena || n + count > LLAMA_CACHE_LEN)
        return fprintf(stderr, "no memory, or more than %d tokens\n", LLAMA_CACHE_LEN), 3;
    for (size_t s = 0; s < batch; s++)
        memcpy(text + s * n, prompt[s], n * sizeof *text); /* behind a prompt's end nobody looks */
    const llama_model_args args = {.ids = text, .lengths = lengths, .past = past, .cache = cache, .last_logits = logits,
#ifdef LLAMA_MODEL_STATES_BYTES
                                   .states = states,
#endif
                                   .batch = batch, .n = n};
    error = error ? error : llama_model_run(&m, &args, arena);
    for (size_t s = 0; s < batch; s++) {
        ids[s] = llama_model_argmax(logits + s * LLAMA_VOCAB);
        past[s] = lengths[s];
    }
    for (size_t i = 0; i < count && !error; i++) {
        for (size_t s = 0; s < batch; s++)
            made[s * count + i] = ids[s];
        error = llama_model_step(&m, &args, ids, past, arena);
    }
    for (size_t i = 0; i < batch * count && !error; i++)
        printf("%d%c", made[i], (i + 1) % count == 0 ? '\n' : ' ');
    return error ? fprintf(stderr, "%s\n", llama_model_strerror(error)), 1 : 0;
}
