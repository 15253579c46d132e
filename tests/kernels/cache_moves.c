/* SPDX-License-Identifier: MIT */
/* NAME_cache_reset and NAME_cache_move of one layer `kv` beside a naive model, in which a sequence is a list of
 * numbers, one for each token, and a token's rows follow from its number: random moves, tokens and truncations, one
 * behind the other. Every row that a sequence has must be that of its token, and no two sequences may write to one
 * page. See test_cache_moves.sh, which writes the specs; -DKIND_RING, -DKIND_PAGED.
 *
 *     cache_moves ROUNDS SEED
 *
 * Left out on purpose: kv_forward; here tokens are written by the program itself.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv.h"

enum { BATCH = 7, H = KV_H_KV, D_K = KV_D_K, D_V = KV_D_V, MOST = 3 * KV_CACHE_LEN };
#ifdef KIND_PAGED
enum { LEN = KV_PAGE_LEN, TABLE = KV_PAGES, UNITS = BATCH * TABLE + 3, END = KV_CACHE_LEN };
#elif defined KIND_RING
enum { LEN = KV_CACHE_LEN, TABLE = 1, UNITS = BATCH, END = MOST };
#else
enum { LEN = KV_CACHE_LEN, TABLE = 1, UNITS = BATCH, END = KV_CACHE_LEN };
#endif

struct sequence {
    int32_t length;
    uint32_t tokens[MOST];
};
static struct sequence sequences[BATCH];

/* Exactly as large as they must be, for the address sanitizer */
static float *k, *v;
static int32_t *past, *table, *free_pages;
static kv_cache cache;

static uint32_t state;
static uint32_t below(uint32_t limit)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

static void *get(size_t bytes)
{
    void *got = malloc(bytes);
    if (got == NULL)
        exit(3);
    return got;
}

static float number(uint32_t token, int head, int column)
{
    return (float)((token * 2654435761u + (uint32_t)(head * 131 + column) * 40503u) >> 8);
}

/* ---- where a position lies, and pages that nobody uses ---- */

static size_t row_of(int b, int head, int32_t position)
{
#ifdef KIND_PAGED
    return ((size_t)table[b * TABLE + position / LEN] * H + (size_t)head) * LEN + (size_t)(position % LEN);
#else
    return (size_t)((b * H + head) * LEN + position % LEN);
#endif
}

#ifdef KIND_PAGED
/* All pages that no sequence uses, in a random order */
static void list_free(void)
{
    size_t count = 0;
    for (int32_t page = 0; page < UNITS; page++) {
        int used = 0;
        for (int b = 0; b < BATCH; b++)
            for (int at = 0; at * LEN < past[b]; at++)
                used |= table[b * TABLE + at] == page;
        if (used)
            continue;
        const size_t place = below((uint32_t)++count);
        free_pages[count - 1] = free_pages[place];
        free_pages[place] = page;
    }
    cache.free_count = count;
}
#endif

/* A sequence has one token more, unless there is no room. */
static void append(int b, uint32_t token)
{
    struct sequence *s = &sequences[b];
    if (s->length == END)
        return;
#ifdef KIND_PAGED
    if (s->length % LEN == 0) {
        list_free();
        if (cache.free_count == 0)
            return;
        const int32_t page = free_pages[--cache.free_count];
        table[b * TABLE + s->length / LEN] = page;
        for (size_t i = 0; i < (size_t)H * LEN * D_K; i++) /* what lies in a new page is not to be relied on */
            k[(size_t)page * H * LEN * D_K + i] = NAN;
    }
#endif
    for (int head = 0; head < H; head++) {
        const size_t row = row_of(b, head, s->length);
        for (int i = 0; i < D_K; i++)
            k[row * D_K + (size_t)i] = number(token, head, i);
        for (int i = 0; i < D_V; i++)
            v[row * D_V + (size_t)i] = -number(token, head, i);
    }
    s->tokens[s->length++] = token;
    past[b] = s->length;
}

static int fails(const char *what, int b)
{
    printf("sequence %d: %s\n", b, what);
    return 0;
}

static int agree(void)
{
    for (int b = 0; b < BATCH; b++) {
        const struct sequence *s = &sequences[b];
        if (past[b] != s->length)
            return fails("another length", b);
        for (int32_t p = s->length > LEN && TABLE == 1 ? s->length - LEN : 0; p < s->length; p++)
            for (int head = 0; head < H; head++) {
                const size_t row = row_of(b, head, p);
                for (int i = 0; i < D_K; i++)
                    if (!(k[row * D_K + (size_t)i] == number(s->tokens[p], head, i)))
                        return fails("another key", b);
                for (int i = 0; i < D_V; i++)
                    if (!(v[row * D_V + (size_t)i] == -number(s->tokens[p], head, i)))
                        return fails("another value", b);
            }
#ifdef KIND_PAGED
        for (int other = 0; past[b] % LEN != 0 && other < BATCH; other++)
            for (int at = 0; other != b && at * LEN < past[other]; at++)
                if (table[other * TABLE + at] == table[b * TABLE + past[b] / LEN])
                    return fails("its next token goes to a page of another one", b);
#endif
    }
    return 1;
}

/* ---- moves ---- */

/* Where each sequence comes from: anything, a permutation, one circle, a chain, two sequences only, itself */
static void draw_moves(int32_t *from)
{
    const uint32_t kind = below(6);
    for (int b = 0; b < BATCH; b++)
        from[b] = kind == 0 ? (int32_t)below(BATCH + 2) - 2 : kind == 2 ? (b + 3) % BATCH : kind == 3 && b > 0 ? b - 1
                : kind == 4 ? (int32_t)below(2) : b;
    for (uint32_t b = BATCH - 1; kind == 1 && b > 0; b--) {
        const uint32_t other = below(b + 1);
        const int32_t kept = from[b];
        from[b] = from[other], from[other] = kept;
    }
}

/* What the call must leave alone where it returns an error, in one piece */
static unsigned char *image(const int32_t *from, size_t *bytes)
{
    const struct { const void *at; size_t bytes; } parts[] = {
        {k, sizeof(float) * UNITS * H * LEN * D_K}, {v, sizeof(float) * UNITS * H * LEN * D_V},
        {past, sizeof(int32_t) * BATCH}, {table, sizeof(int32_t) * BATCH * TABLE},
        {from, sizeof(int32_t) * BATCH}, {&cache, sizeof cache}};
    *bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        *bytes += parts[i].bytes;
    unsigned char *all = get(*bytes), *to = all;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; to += parts[i++].bytes)
        memcpy(to, parts[i].at, parts[i].bytes);
    return all;
}

static int refuses(int32_t *from, int wanted)
{
    size_t bytes;
    unsigned char *before = image(from, &bytes);
    const int got = kv_cache_move(&cache, from);
    unsigned char *after = image(from, &bytes);
    const int same = memcmp(before, after, bytes) == 0;
    free(before);
    free(after);
    if (got != wanted || !same)
        printf("error %d is to be %d%s\n", got, wanted, same ? "" : ", and something is written");
    return got == wanted && same;
}

static int move(void)
{
    static struct sequence old[BATCH];
    int32_t *from = get(sizeof *from * BATCH), wanted[BATCH];
    draw_moves(from);
    memcpy(wanted, from, sizeof wanted);
    memcpy(old, sequences, sizeof old);
#ifdef KIND_PAGED
    /* how many copies: of each page that several are to write to one less, of one that another has in full all */
    size_t copies = 0;
    for (int b = 0; b < BATCH; b++) {
        int needs = 0;
        const int32_t length = from[b] < 0 ? 0 : past[from[b]], at = length / LEN;
        for (int other = 0; length % LEN != 0 && other < BATCH; other++)
            if (other != b && from[other] >= 0 && past[from[other]] > at * LEN &&
                table[from[other] * TABLE + at] == table[from[b] * TABLE + at])
                needs |= other < b || past[from[other]] >= (at + 1) * LEN;
        copies += (size_t)needs;
    }
    list_free();
    const size_t there = cache.free_count;
    if (copies > 0) {
        cache.free_count = below((uint32_t)(copies < there ? copies : there + 1));
        const int good = refuses(from, KV_ERROR_SIZE);
        cache.free_count = there;
        if (!good || copies > there) {
            free(from);
            return good;
        }
    }
#endif
    const int error = kv_cache_move(&cache, from);
    free(from);
    if (error != KV_OK) {
        printf("move returns \"%s\"\n", kv_strerror(error));
        return 0;
    }
#ifdef KIND_PAGED
    if (cache.free_count != there - copies) {
        printf("%zu pages were taken, not %zu\n", there - cache.free_count, copies);
        return 0;
    }
#endif
    for (int b = 0; b < BATCH; b++) {
        if (wanted[b] >= 0)
            sequences[b] = old[wanted[b]];
        else
            sequences[b].length = 0;
    }
    return agree();
}

/* Some sequences are cut, as by speculative decoding, or made to share pages as one prompt is by all; a move of each to
 * itself then parts their pages. */
static int cut(void)
{
    int32_t *from = get(sizeof *from * BATCH);
    for (int b = 0; b < BATCH; b++) {
        from[b] = b;
        const int32_t length = sequences[b].length, kept = length - (int32_t)below(4);
        if (kept >= 0 && ((int)END != (int)MOST || length <= LEN)) /* (of a ring older rows are gone) */
            past[b] = sequences[b].length = kept;
    }
#ifdef KIND_PAGED
    for (uint32_t b = below(2) * below(BATCH + 1), of = below(BATCH), other; b > 0; b--) {
        other = below(BATCH);
        memcpy(table + other * TABLE, table + of * TABLE, (of == other ? 0 : TABLE) * sizeof *table);
        sequences[other] = sequences[of];
        past[other] = past[of];
    }
    list_free();
#endif
    const int error = kv_cache_move(&cache, from);
    free(from);
    return error == KV_OK ? agree() : error == KV_ERROR_SIZE ? -1 : 0;
}

static int errors(void)
{
    int32_t *from = get(sizeof *from * BATCH);
    for (int b = 0; b < BATCH; b++)
        from[b] = (b + 1) % BATCH;
    int good = kv_cache_move(NULL, from) == KV_ERROR_NULL && kv_cache_reset(NULL) == KV_ERROR_NULL;
    good = good && kv_cache_move(&cache, NULL) == KV_ERROR_NULL;
    from[BATCH - 1] = BATCH;
    good = good && refuses(from, KV_ERROR_LENGTH);
    from[BATCH - 1] = 0;
    const int32_t kept = past[2];
    past[2] = -1;
    good = good && refuses(from, KV_ERROR_LENGTH);
    past[2] = KV_CACHE_LEN + 1;
    good = good && ((int)END == (int)MOST || refuses(from, KV_ERROR_LENGTH)); /* a ring's past has no such end */
    past[2] = kept;
    cache.v = NULL;
    good = good && refuses(from, KV_ERROR_NULL);
    cache.v = v;
    cache.k = (float *)(void *)((char *)k + 2);
    good = good && refuses(from, KV_ERROR_ALIGNMENT);
    cache.k = k;
    cache.batch = SIZE_MAX / 8;
    good = good && refuses(from, KV_ERROR_SIZE);
    cache.batch = BATCH;
#ifdef KIND_PAGED
    const int32_t page = table[3 * TABLE];
    past[3] += past[3] == 0;
    for (int wrong = 0; wrong < 2; wrong++) {
        table[3 * TABLE] = wrong ? UNITS : -1;
        good = good && refuses(from, KV_ERROR_LENGTH);
    }
    table[3 * TABLE] = page;
    past[3] -= sequences[3].length == 0;
    list_free();
    free_pages[0] = UNITS;
    good = good && (cache.free_count == 0 || refuses(from, KV_ERROR_LENGTH));
    cache.page_table = NULL;
    good = good && refuses(from, KV_ERROR_NULL);
    cache.page_table = table;
    cache.pages = (size_t)INT32_MAX + 1;
    good = good && refuses(from, KV_ERROR_SIZE);
    cache.pages = UNITS;
#endif
    kv_cache none = cache;
    none.batch = 0;
    good = good && kv_cache_move(&none, NULL) == KV_OK;
#ifdef KIND_PAGED
    none.pages = 0;
#endif
    good = good && kv_cache_move(&none, NULL) == KV_OK && kv_cache_reset(&none) == KV_OK;
#ifdef KIND_PAGED
    none.pages = cache.pages;
    none.k = NULL;
    good = good && kv_cache_reset(&none) == KV_ERROR_NULL;
#endif
    free(from);
    return good && agree();
}

#ifdef KIND_PAGED
/* A page that a sequence uses is listed as free, which no call notices: sequences 0 and 1 share page 0, 2 has page 1.
 * What they read then is anything, but memory is safe: no page is taken behind the end of the list. */
static int misuse(void)
{
    int32_t from[BATCH] = {0, 1, 2, -1, -1, -1, -1};
    for (int b = 0; b < BATCH; b++) {
        past[b] = b < 3;
        table[b * TABLE] = b == 2;
    }
    free_pages[0] = 1;
    cache.free_count = 1;
    const int error = kv_cache_move(&cache, from);
    if (error != KV_OK || cache.free_count != 0)
        printf("a page that is used is listed as free: error %d, %zu pages are left\n", error, cache.free_count);
    return error == KV_OK && cache.free_count == 0;
}
#endif

/* Of memory that holds anything */
static int reset(void)
{
    memset(k, 0xff, sizeof(float) * UNITS * H * LEN * D_K);
    memset(v, 0xff, sizeof(float) * UNITS * H * LEN * D_V);
    memset(past, 0xff, sizeof(int32_t) * BATCH);
    memset(table, 0xff, sizeof(int32_t) * BATCH * TABLE);
#ifdef KIND_PAGED
    kv_cache pages = cache; /* without sequences all pages are emptied too, and nothing else is written */
    pages.batch = 0, pages.past = NULL, pages.page_table = NULL;
    if (kv_cache_reset(&pages) != KV_OK || k[UNITS * H * LEN * D_K - 1] != 0 || v[0] != 0 || past[0] != -1)
        return 0;
    memset(k, 0xff, sizeof(float) * UNITS * H * LEN * D_K);
#endif
    if (kv_cache_reset(&cache) != KV_OK)
        return 0;
    for (size_t i = 0; i < (size_t)UNITS * H * LEN * D_K; i++)
        if (!(k[i] == 0))
            return 0;
    for (size_t i = 0; i < (size_t)UNITS * H * LEN * D_V; i++)
        if (!(v[i] == 0))
            return 0;
    for (int b = 0; b < BATCH; b++)
        sequences[b].length = 0;
    memset(k, 0xff, sizeof(float) * UNITS * H * LEN * D_K); /* NaN, behind the end of every sequence */
    memset(v, 0xff, sizeof(float) * UNITS * H * LEN * D_V);
    return agree();
}

int main(int count, char **words)
{
    const int rounds = count > 1 ? atoi(words[1]) : 1000;
    state = count > 2 ? (uint32_t)atoi(words[2]) : 1;
    k = get(sizeof(float) * UNITS * H * LEN * D_K);
    v = get(sizeof(float) * UNITS * H * LEN * D_V);
    past = get(sizeof(int32_t) * BATCH);
    table = get(sizeof(int32_t) * BATCH * TABLE);
    free_pages = get(sizeof(int32_t) * UNITS);
    cache = (kv_cache){.k = k, .v = v, .past = past, .batch = BATCH};
#ifdef KIND_PAGED
    cache.page_table = table, cache.free_pages = free_pages, cache.pages = UNITS;
#endif
    int good = reset(), round = 0, moves = 0, short_of_pages = 0;
    uint32_t token = 1;
    for (; good && round < rounds; round++) {
        const uint32_t what = below(16);
        if (what < 8)
            for (uint32_t most = below(12), b; most > 0; most--)
                b = below(BATCH), append((int)b, token++);
        else if (what < 13)
            good = move(), moves++;
        else if (what < 15)
            good = cut(), short_of_pages += good < 0;
        else if (below(8) == 0)
            good = errors();
#ifdef KIND_PAGED
        else if (below(8) == 0)
            good = misuse() ? -1 : 0;
#endif
        else if (below(8) == 0)
            good = reset();
        good = good < 0 ? reset() : good && agree();
    }
    printf("%d rounds, %d moves, %d times too few pages: %s\n", round, moves, short_of_pages, good ? "ok" : "wrong");
    free(k), free(v), free(past), free(table), free(free_pages);
    return !good;
}
