/* SPDX-License-Identifier: MIT */
/* One sequence through a layer with a cache: its first tokens in one call, the others one by one. Then all of it in the
 * longest calls that the layer takes, into a cache that holds NaN before: y must be the same. -DPAGED: cache = paged.
 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "layer.h"

enum { TOKENS = 1024, PROMPT = 128, D = LAYER_D_MODEL };

static _Alignas(64) unsigned char packed[LAYER_PACKED_BYTES], scratch[LAYER_SCRATCH_BYTES];
static float x[TOKENS][D], y[TOKENS][D], y_whole[TOKENS][D], weights[4][D * D], bias[4][D];
static float k[LAYER_CACHE_BYTES / 8], v[LAYER_CACHE_BYTES / 8]; /* of one sequence; rows of both are equally long */
#ifdef PAGED
static int32_t page_table[LAYER_PAGES];
#define CACHE .k_pages = k, .v_pages = v, .page_table = page_table, .pages = LAYER_PAGES
#else
#define CACHE .k_cache = k, .v_cache = v
#endif

static void fill(float *to, size_t count, float size)
{
    static uint32_t state = 1;
    for (size_t i = 0; i < count; i++)
        to[i] = size * ((float)((state = state * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f);
}

/* Tokens at ... at+n-1 in one call. */
static int feed(float (*to)[D], int32_t at, int32_t n)
{
    const layer_args args = {.x = x[at], .past = &at, .y = to[at], .batch = 1, .n = (size_t)n, CACHE};
    return layer_forward(packed, &args, scratch);
}

static double microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

int main(void)
{
    fill(x[0], sizeof x / sizeof(float), 1.0f);
    fill(weights[0], sizeof weights / sizeof(float), 0.05f);
    fill(bias[0], sizeof bias / sizeof(float), 0.1f);
    const layer_weights all = {weights[0], bias[0], weights[1], bias[1], weights[2], bias[2], weights[3], bias[3],
                               .tables = NULL};
    int error = layer_pack(packed, &all, LAYER_ISA_AUTO);
#ifdef PAGED
    for (int32_t page = 0; page < LAYER_PAGES; page++)
        page_table[page] = LAYER_PAGES - 1 - page; /* in any order */
#endif
    printf("%s, a cache of %zu bytes\n", layer_isa_name(layer_isa(packed)), (size_t)LAYER_CACHE_BYTES);
    double start = microseconds();
    error = error ? error : feed(y, 0, PROMPT);
    printf("%d tokens in one call: %.0f us\n", (int)PROMPT, microseconds() - start);
    for (int32_t from = PROMPT; from < TOKENS; from *= 2) {
        start = microseconds();
        for (int32_t past = from; !error && past < 2 * from; past++)
            error = feed(y, past, 1);
        start = (microseconds() - start) / from;
        printf("one token behind %d ... %d: %.0f us\n", (int)from, (int)(2 * from - 1), start);
    }

    memset(k, 0xff, sizeof k); /* NaN: what no call has written is not read */
    memset(v, 0xff, sizeof v);
    for (int32_t past = 0; !error && past < TOKENS; past += LAYER_SEQ_LEN)
        error = feed(y_whole, past, LAYER_SEQ_LEN);

    int wrong = 0; /* bits are promised with plan.exact_chunks = true, which makes LAYER_FEW_QUERIES 0 */
    const int same = memcmp(y, y_whole, sizeof y) == 0;
    for (size_t i = 0; i < (size_t)TOKENS * D; i++) {
        const float difference = y[i / D][i % D] - y_whole[i / D][i % D];
        wrong |= !(difference > -1e-5f && difference < 1e-5f);
    }
    printf("%s y as from calls of %d tokens: %s\n", wrong ? "not the same" : "the same", LAYER_SEQ_LEN,
           error ? layer_strerror(error) : same ? "every bit" : "not every bit");
    return error || wrong || (LAYER_FEW_QUERIES == 0 && !same);
}
