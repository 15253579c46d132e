/* SPDX-License-Identifier: MIT */
/* One sequence through a layer with a cache: its first tokens in one call, the others one by one. Then all of it in the
 * longest calls that the layer takes, the cache full of NaN before: y must be the same. -DPAGED: cache = paged. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "layer.h"

enum { TOKENS = 1024, PROMPT = 128, D = LAYER_D_MODEL };
static _Alignas(64) unsigned char packed[LAYER_PACKED_BYTES], scratch[LAYER_SCRATCH_BYTES];
static float x[TOKENS * D], y[TOKENS * D], y_whole[TOKENS * D], w[4][D * D], b[4][D];
static float k[LAYER_CACHE_BYTES / 8], v[LAYER_CACHE_BYTES / 8]; /* of one sequence; rows of both are equally long */
#ifdef PAGED
static int32_t page_table[LAYER_PAGES]; /* the last page first: any order will do */
#define CACHE .k_pages = k, .v_pages = v, .page_table = page_table, .pages = LAYER_PAGES
#else
#define CACHE .k_cache = k, .v_cache = v
#endif

/* Tokens at ... at+n-1 in one call. */
static int feed(float *to, int32_t at, int32_t n)
{
    const layer_args args = {.x = x + at * D, .past = &at, .y = to + at * D, .batch = 1, .n = (size_t)n, CACHE};
    return layer_forward(packed, &args, scratch);
}

static void fill(float *to, size_t count, float size)
{
    for (size_t i = 0; i < count; i++)
        to[i] = size * (float)((i * 2654435761u >> 8) % 2001) / 1000.0f - size;
}

int main(void)
{
    fill(x, sizeof x / sizeof *x, 1.0f);
    fill(w[0], sizeof w / sizeof(float), 0.05f);
#ifdef PAGED
    for (int32_t page = 0; page < LAYER_PAGES; page++)
        page_table[page] = LAYER_PAGES - 1 - page;
#endif
    const layer_weights weights = {w[0], b[0], w[1], b[1], w[2], b[2], w[3], b[3]};
    int error = layer_pack(packed, &weights, LAYER_ISA_AUTO), different = 0, wrong = 0;
    error = error ? error : feed(y, 0, PROMPT);
    for (int32_t past = PROMPT, from = PROMPT; !error && past < TOKENS; from = past) {
        const clock_t start = clock();
        for (; !error && past < 2 * from; past++)
            error = feed(y, past, 1);
        const double us = 1e6 * (double)(clock() - start) / CLOCKS_PER_SEC / from;
        printf("one token behind %d ... %d: %.0f us\n", (int)from, (int)past - 1, us);
    }
    memset(k, 0xff, sizeof k); /* NaN: what no call has written is not read */
    memset(v, 0xff, sizeof v);
    for (int32_t past = 0; !error && past < TOKENS; past += LAYER_SEQ_LEN)
        error = feed(y_whole, past, LAYER_SEQ_LEN);
    for (int i = 0; i < TOKENS * D; different += y[i] != y_whole[i], i++)
        wrong += !(y[i] - y_whole[i] > -1e-5f && y[i] - y_whole[i] < 1e-5f);
    printf("%s y as from calls of %d tokens: %s\n", wrong ? "not the same" : "the same", LAYER_SEQ_LEN,
           error ? layer_strerror(error) : different ? "not every bit" : "every bit");
    return error || wrong || (LAYER_FEW_QUERIES == 0 && different); /* promised with plan.exact_chunks = true */
}
