/* SPDX-License-Identifier: MIT */
/* One layer with three caches: sequences go through kv_rows, kv_ring and kv_paged in calls of several sizes, and all
 * must give the same bits of y and lse, and leave the same rows; see test_cached.sh, which writes the specs.
 *
 * With -DELEMENT=uint16_t, or int8_t and -DSCALED, they are caches of fewer bytes.
 *
 * Left out on purpose: whether they are right; attnrun check says that.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_paged.h"
#include "kv_ring.h"
#include "kv_rows.h"

enum { BATCH = 3, TOKENS = 50, H = KV_ROWS_H, H_KV = KV_ROWS_H_KV, D = KV_ROWS_D_MODEL, OUT = KV_ROWS_D_OUT };
enum { D_K = KV_ROWS_D_K, D_V = KV_ROWS_D_V, LEN = 64, RING = PROGRAM_LEFT + KV_ROWS_SEQ_LEN, PAGE = PROGRAM_PAGE };
enum { PAGES = (LEN + PAGE - 1) / PAGE, ALL_PAGES = BATCH * PAGES + 2, MOST = KV_ROWS_SEQ_LEN, WEIGHTS = 16 };

#ifndef ELEMENT
#define ELEMENT float
#endif
typedef ELEMENT element; /* of a cache */

/* ---- inputs ---- */

static uint32_t state = 1;
static float number(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state / 2147483648.0f;
}

static float *numbers(size_t count, float scale)
{
    float *all = malloc((count + 1) * sizeof *all);
    for (size_t i = 0; all != NULL && i < count; i++)
        all[i] = scale * number();
    if (all == NULL)
        exit(3);
    return all;
}

static float *x;                                     /* [BATCH][TOKENS][D] */
static int32_t table[BATCH][PAGES];                  /* in no order, and pages that nobody uses */

static void draw_table(void)
{
    for (int b = 0; b < BATCH; b++)
        for (int page = 0; page < PAGES; page++)
            table[b][page] = (int32_t)((b * PAGES + page) * 7 % ALL_PAGES);
}

/* ---- one kind of cache ---- */

/* What a way of feeding leaves. */
struct fed {
    float y[BATCH][TOKENS][OUT], lse[BATCH][H][TOKENS];
    element k[BATCH][H_KV][LEN][D_K], v[BATCH][H_KV][LEN][D_V]; /* by position, whatever the layout is */
    float k_scale[BATCH][H_KV][LEN], v_scale[BATCH][H_KV][LEN];
};

/* Tokens of the next call: the same number again and again, or, of 0, another one each time. */
static size_t next_size(size_t size, size_t at)
{
    static const size_t mixed[] = {3, 1, 8, 1, 1, 5, 2, 7, 4, 6};
    const size_t wanted = size > 0 ? size : mixed[at * 7 % 10], left = TOKENS - at;
    return wanted < left ? wanted : left;
}

static void keep(struct fed *fed, size_t at, size_t n, const float *y, const float *lse)
{
    for (size_t b = 0; b < BATCH; b++)
        for (size_t t = 0; t < n; t++) {
            memcpy(fed->y[b][at + t], y + (b * n + t) * OUT, sizeof fed->y[b][at + t]);
            for (size_t i = 0; i < H; i++)
                fed->lse[b][i][at + t] = lse[(b * H + i) * n + t];
        }
}

/* What all kinds share of a call. */
#define FEED(kind, KIND, CACHE)                                                                                        \
    static int feed_##kind(struct fed *fed, const void *packed, void *scratch, element *k, element *v, size_t size)    \
    {                                                                                                                  \
        static float tokens[BATCH * MOST * D], y[BATCH * MOST * OUT], lse[BATCH * H * MOST];                           \
        for (size_t at = 0, n; at < TOKENS; at += n) {                                                                 \
            int32_t past[BATCH];                                                                                       \
            n = next_size(size, at);                                                                                   \
            for (size_t b = 0; b < BATCH; b++) {                                                                       \
                past[b] = (int32_t)at;                                                                                 \
                memcpy(tokens + b * n * D, x + (b * TOKENS + at) * D, n * D * sizeof(float));                          \
            }                                                                                                          \
            const kind##_args args = {.x = tokens, .past = past, .y = y, .lse = lse, .batch = BATCH, .n = n, .m = n,   \
                                      CACHE};                                                                          \
            const int error = (int)kind##_forward(packed, &args, scratch);                                             \
            if (error != 0) {                                                                                          \
                printf("%s: forward returns \"%s\"\n", #kind, kind##_strerror(error));                                 \
                return 0;                                                                                              \
            }                                                                                                          \
            keep(fed, at, n, y, lse);                                                                                  \
        }                                                                                                              \
        return 1;                                                                                                      \
    }

static float *k_scale, *v_scale; /* of the kind at hand */
#ifdef SCALED
#define SCALES .k_scale = k_scale, .v_scale = v_scale,
#else
#define SCALES
#endif
#define ROWS SCALES .k_cache = k, .v_cache = v
#define PAGED SCALES .k_pages = k, .v_pages = v, .page_table = &table[0][0], .pages = ALL_PAGES
FEED(kv_rows, KV_ROWS, ROWS)
FEED(kv_ring, KV_RING, ROWS)
FEED(kv_paged, KV_PAGED, PAGED)

/* Rows of all positions that a kind still has, the others zero. */
static void take_rows(struct fed *fed, int kind, const element *k, const element *v)
{
    for (size_t b = 0; b < BATCH; b++)
        for (size_t i = 0; i < H_KV; i++)
            for (size_t p = TOKENS - RING; p < TOKENS; p++) {
                const size_t page = (size_t)table[b][p / PAGE];
                const size_t row = kind == 0 ? (b * H_KV + i) * LEN + p : kind == 1 ? (b * H_KV + i) * RING + p % RING
                                 : (page * H_KV + i) * PAGE + p % PAGE;
                memcpy(fed->k[b][i][p], k + row * D_K, sizeof fed->k[b][i][p]);
                memcpy(fed->v[b][i][p], v + row * D_V, sizeof fed->v[b][i][p]);
#ifdef SCALED
                fed->k_scale[b][i][p] = k_scale[row];
                fed->v_scale[b][i][p] = v_scale[row];
#endif
            }
}

/* ---- all of them ---- */

static const char *const kind_names[] = {"rows", "ring", "paged"};

/* 1 good, 0 wrong, -1 this machine lacks the instruction set. `sizes`: so many ways. */
static int try_isa(int isa, const size_t *sizes, size_t count, const kv_rows_weights *weights)
{
    static struct fed first, fed;
    const size_t rows[] = {BATCH * H_KV * LEN, BATCH * H_KV * RING, ALL_PAGES * H_KV * PAGE};
    void *packed[3] = {aligned_alloc(64, KV_ROWS_PACKED_BYTES), aligned_alloc(64, KV_RING_PACKED_BYTES),
                       aligned_alloc(64, KV_PAGED_PACKED_BYTES)};
    void *scratch[3] = {aligned_alloc(64, KV_ROWS_SCRATCH_BYTES), aligned_alloc(64, KV_RING_SCRATCH_BYTES),
                        aligned_alloc(64, KV_PAGED_SCRATCH_BYTES)};
    int good = 1;
    if (kv_rows_pack(packed[0], weights, (kv_rows_isa_id)isa) == KV_ROWS_ERROR_ISA)
        return -1;
    kv_ring_weights of_ring;
    kv_paged_weights of_paged;
    memcpy(&of_ring, weights, sizeof of_ring); /* the same struct by another name */
    memcpy(&of_paged, weights, sizeof of_paged);
    good = kv_ring_pack(packed[1], &of_ring, (kv_ring_isa_id)isa) == 0 &&
           kv_paged_pack(packed[2], &of_paged, (kv_paged_isa_id)isa) == 0;
    for (size_t way = 0; good && way < count; way++)
        for (int kind = 0; good && kind < 3; kind++) {
            element *k = (void *)numbers(rows[kind] * D_K, 1), *v = (void *)numbers(rows[kind] * D_V, 1);
            k_scale = numbers(rows[kind], 1);
            v_scale = numbers(rows[kind], 1);
            memset(&fed, 0, sizeof fed);
            good = kind == 0   ? feed_kv_rows(&fed, packed[0], scratch[0], k, v, sizes[way])
                   : kind == 1 ? feed_kv_ring(&fed, packed[1], scratch[1], k, v, sizes[way])
                               : feed_kv_paged(&fed, packed[2], scratch[2], k, v, sizes[way]);
            take_rows(&fed, kind, k, v);
            if (way == 0 && kind == 0)
                first = fed;
            const struct { const char *name; const void *a, *b; size_t bytes; } parts[] = {
                {"y", first.y, fed.y, sizeof fed.y}, {"lse", first.lse, fed.lse, sizeof fed.lse},
                {"keys", first.k, fed.k, sizeof fed.k}, {"values", first.v, fed.v, sizeof fed.v},
                {"scales of keys", first.k_scale, fed.k_scale, sizeof fed.k_scale},
                {"scales of values", first.v_scale, fed.v_scale, sizeof fed.v_scale}};
            for (size_t i = 0; good && i < sizeof parts / sizeof *parts; i++)
                if (memcmp(parts[i].a, parts[i].b, parts[i].bytes) != 0) {
                    printf("%s: %s in calls of %zu tokens (0: mixed): %s has other bits than rows in calls of %zu\n",
                           kv_rows_isa_name((kv_rows_isa_id)isa), kind_names[kind], sizes[way], parts[i].name,
                           sizes[0]);
                    good = 0;
                }
            free(k_scale);
            free(v_scale);
            free(k);
            free(v);
        }
    for (int kind = 0; kind < 3; kind++) {
        free(packed[kind]);
        free(scratch[kind]);
    }
    return good;
}

int main(int argc, char **argv)
{
    const size_t in_q = (size_t)H * D_K, in_k = (size_t)H_KV * D_K, in_v = (size_t)H_KV * D_V;
    const kv_rows_weights weights = {.w_q = numbers(D * in_q, 0.5f), .b_q = numbers(in_q, 0.1f),
                                     .w_k = numbers(D * in_k, 0.5f), .b_k = numbers(in_k, 0.1f),
                                     .w_v = numbers(D * in_v, 0.5f), .b_v = numbers(in_v, 0.1f),
                                     .w_o = numbers((size_t)H * D_V * OUT, 0.3f), .b_o = numbers(OUT, 0.1f)};
    size_t sizes[WEIGHTS], count = 0;
    int tested = 0;
    for (int i = 1; i < argc && count < WEIGHTS; i++)
        sizes[count++] = (size_t)strtoul(argv[i], NULL, 10);
    x = numbers((size_t)BATCH * TOKENS * D, 1);
    draw_table();
    for (int isa = 1; isa < 32; isa++) {
        const int result = kv_rows_isa_name((kv_rows_isa_id)isa) != NULL ? try_isa(isa, sizes, count, &weights) : -1;
        if (result == 0)
            return 1;
        tested += result > 0;
    }
    printf("%d instruction sets\n", tested);
    return tested > 0 ? 0 : 1;
}
