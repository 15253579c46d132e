/* SPDX-License-Identifier: MIT */
/* chat MODEL.packed COUNT TEMPERATURE TOP_K TOP_P SEED < PROMPTS: a prompt a line, as the ids of its tokens; prints the
 * number of each prompt and the tokens that are drawn after it, COUNT or up to an end mark, as soon as it is done. What a
 * server does, in one loop: a prompt joins when one of PLACES is free and goes through the model in pieces of CHUNK tokens,
 * while all others take a step; who is done leaves. Tokens depend on the seed, the prompt and its number alone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "chat_model.h"
#include "../llama/map.h"
#include "pool.h"

#ifndef PLACES
#define PLACES 4
#endif
#ifndef THREADS
#define THREADS 2
#endif
enum { CHUNK = CHAT_SEQ_LEN < 16 ? CHAT_SEQ_LEN : 16 };

/* What is known of the sequence in a place: its tokens, how many the cache has, how many were the prompt's; 0: it is free */
static struct sequence {
    uint64_t number;
    int32_t ids[CHAT_CACHE_LEN], past;
    size_t prompt, length;
} sequences[PLACES];

static uint64_t random_bits(uint64_t seed) /* splitmix64 */
{
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebu;
    return seed ^ seed >> 31;
}

/* The next prompt into a free place; 0: there is none */
static int join(struct sequence *s, size_t count)
{
    static char line[1 << 16];
    static uint64_t number;
    if (fgets(line, sizeof line, stdin) == NULL)
        return 0;
    *s = (struct sequence){.number = number++};
    for (char *at = strtok(line, " \n"); at != NULL; at = strtok(NULL, " \n")) {
        if (s->length + count >= CHAT_CACHE_LEN) {
            fprintf(stderr, "prompt %d: too long for %d tokens\n", (int)s->number, CHAT_CACHE_LEN);
            exit(2);
        }
        s->ids[s->length++] = (int32_t)atoi(at);
    }
    s->prompt = s->length;
    return s->length > 0 || join(s, count); /* an empty line is none */
}

static int is_end(int32_t id)
{
#ifdef CHAT_EOS
    static const int32_t ends[] = {CHAT_EOS};
    for (size_t i = 0; i < CHAT_EOS_COUNT; i++)
        if (id == ends[i])
            return 1;
#endif
    return id < 0;
}

/* On 64 bytes, for the program's whole life */
static void *aligned(size_t bytes)
{
    char *memory = malloc(bytes + 63);
    return memory != NULL ? memory + (-(uintptr_t)memory & 63) : (exit(3), NULL);
}

int main(int argc, char **argv)
{
    size_t size = 0;
    const void *packed = argc == 7 ? map(argv[1], &size) : NULL;
    if (packed == NULL)
        return fprintf(stderr, "usage: chat MODEL.packed COUNT TEMPERATURE TOP_K TOP_P SEED < PROMPTS\n"), 2;
    const size_t count = strtoul(argv[2], NULL, 10), top_k = strtoul(argv[4], NULL, 10);
    const float temperature = strtof(argv[3], NULL), top_p = strtof(argv[5], NULL);
    const uint64_t seed = random_bits(strtoull(argv[6], NULL, 10) + 1);
    chat_model model;
    int error = chat_model_open(&model, packed, size);
    void *arena = aligned(CHAT_MODEL_ARENA_BYTES(THREADS));
    float *logits = aligned(PLACES * CHAT_VOCAB * sizeof *logits);
    int32_t *work = aligned(CHAT_VOCAB * sizeof *work), ids[PLACES], past[PLACES], slots[PLACES];
    chat_model_args args = {.cache = aligned(CHAT_MODEL_CACHE_BYTES(PLACES)), .slots = slots, .slot_count = PLACES,
#ifdef CHAT_MODEL_STATES_BYTES /* a model with recurrent layers */
                            .states = aligned(CHAT_MODEL_STATES_BYTES(PLACES)),
#endif
                            .past = past, .last_logits = logits};
    pthread_t thread;
    if (THREADS > 1 && pthread_create(&thread, NULL, help, NULL) == 0)
        args.parallel = by_two;
    for (int more = 1, active = 1; active && !error;) {
        int32_t reading = -1;
        args.batch = active = 0;
        for (int32_t p = 0; p < PLACES; p++) {
            struct sequence *s = &sequences[p];
            if (s->length == 0 && more)
                more = join(s, count);
            active |= s->length > 0;
            if (s->length == 0)
                continue;
            if (s->past + 1 < (int32_t)s->length) { /* the prompt is not read yet, up to its last token */
                reading = reading < 0 ? p : reading;
                continue;
            }
            slots[args.batch] = p, past[args.batch] = s->past, ids[args.batch++] = s->ids[s->past];
        }
        args.ids = ids, args.n = 1, args.last_logits = logits;
        if (args.batch > 0)
            error = chat_model_run(&model, &args, arena);
        for (size_t i = 0; i < args.batch && !error; i++) {
            struct sequence *s = &sequences[slots[i]];
            const uint64_t bits = random_bits(seed + (s->number << 32 | s->length));
            s->ids[s->length++] = chat_model_sample(logits + i * CHAT_VOCAB, temperature, top_k, top_p, bits, work);
            s->past++;
            if (s->length < s->prompt + count && !is_end(s->ids[s->length - 1]))
                continue;
            printf("%d:", (int)s->number);
            for (size_t t = s->prompt; t < s->length; t++)
                printf(" %d", s->ids[t]);
            printf("\n");
            s->length = 0; /* it leaves */
        }
        if (reading >= 0 && !error) { /* one piece of one prompt, beside the steps of the others */
            struct sequence *s = &sequences[reading];
            const size_t left = s->length - 1 - (size_t)s->past, n = left < CHUNK ? left : CHUNK;
            slots[0] = reading, past[0] = s->past;
            args.ids = s->ids + s->past, args.n = n, args.batch = 1, args.last_logits = NULL;
            error = chat_model_run(&model, &args, arena);
            s->past += (int32_t)n;
        }
    }
    return error ? fprintf(stderr, "%s\n", chat_model_strerror(error)), 1 : 0;
}
