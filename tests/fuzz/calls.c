/* SPDX-License-Identifier: MIT */
/* Calls of emitted pairs, right and wrong: sizes, pointers, lengths, extents, blocks and numbers drawn from the input.
 *
 * Which errors a call may give is worked out here from the header's words alone: a call with none must give none, one with
 * some must give one of them and write nothing. Every tensor is as large as it has to be and no larger, and of a source that
 * lengths cut short the rest cannot be read, nor of a cache the rows that the call has nothing to do with (AddressSanitizer
 * sees both). A good call gives the same bits in parts, in any order, by any number of workers, whatever the scratch holds,
 * and changes no row of a cache but those of new tokens. What cache_move says is compared with what the caches held.
 *
 * Left out on purpose: whether the numbers are right (attnrun check), and instruction sets that this machine lacks.
 */
#include "fuzz.h"

#include <math.h>
#include <sanitizer/asan_interface.h>

#include "../../runtime/kernels/load.h"

#include "conv.h"
#include "cross.h"
#include "given.h"
#include "masks.h"
#include "paged.h"
#include "ring.h"
#include "rows.h"

#define MAX_BATCH 3
#define MAX_WORKERS 3
#define PATTERN 0xA5

/* GIVEN: q, k and v of a call, and no projection; TABLE: rel_bias */
enum has { SOURCE = 1, LENGTHS = 2, MASK_OF_BOOL = 4, MASK_OF_FLOATS = 8, ATTN = 16, BIAS = 32, SPLIT = 64, GIVEN = 128,
           PAST = 256, PREFIX = 512, SEGMENTS = 1024, LSE = 2048, TABLE = 4096, SINK = 8192, CACHE = 16384 };
#define DISTANCES 6 /* of given: rel_left 3, rel_right 2 */

static const struct pair {
    unsigned has;
    size_t d_model, h, h_kv, d_k, d_v, d_source, d_out, seq_len, source_len, taps;
    const struct kernel_table *call;
    size_t cache_len, page_len, left; /* of a cache; page_len 0: no pages; left: of a ring, what its window shows behind p */
} pairs[];

/* ---- the pairs ------------------------------------------------------------------------------------------------- */

#define EACH(n, N, has, d_source, source_len, taps) \
    has, N##_D_MODEL, N##_H, N##_H_KV, N##_D_K, N##_D_V, d_source, N##_D_OUT, N##_SEQ_LEN, source_len, taps, &n##_table
#define PAIR_OF_SELF(n, N, has) {EACH(n, N, has, N##_D_MODEL, N##_SEQ_LEN, 1), 0, 0, 0}
#define PAIR_OF_CROSS(n, N, has, taps) {EACH(n, N, (has) | SOURCE, N##_D_SOURCE, N##_SOURCE_LEN, taps), 0, 0, 0}
#define PAIR_OF_GIVEN(n, N, has) {EACH(n, N, (has) | SOURCE | GIVEN, N##_D_MODEL, N##_SOURCE_LEN, 1), 0, 0, 0}
#define PAIR_OF_CACHED(n, N, has, page_len, left) \
    {EACH(n, N, (has) | PAST | CACHE, N##_D_MODEL, N##_SEQ_LEN, 1), N##_CACHE_LEN, page_len, left}

extern const struct kernel_table masks_table, cross_table, conv_table, given_table, rows_table, ring_table, paged_table;

static const struct pair pairs[] = {
    PAIR_OF_SELF(masks, MASKS, LENGTHS | MASK_OF_BOOL | MASK_OF_FLOATS | ATTN | BIAS),
    PAIR_OF_CROSS(cross, CROSS, ATTN | BIAS, 1),
    PAIR_OF_CROSS(conv, CONV, LENGTHS | ATTN | SPLIT, 4),
    PAIR_OF_GIVEN(given, GIVEN, LENGTHS | ATTN | PAST | PREFIX | SEGMENTS | LSE | TABLE | SINK),
    PAIR_OF_CACHED(rows, ROWS, LENGTHS | MASK_OF_FLOATS | ATTN | BIAS, 0, 0),
    PAIR_OF_CACHED(ring, RING, GIVEN | LSE | SINK, 0, 7),
    PAIR_OF_CACHED(paged, PAGED, MASK_OF_BOOL | ATTN | PREFIX | LSE, PAGED_PAGE_LEN, 0),
};
#define PAIRS (sizeof pairs / sizeof *pairs)

static bool has(const struct pair *pair, enum has what)
{
    return (pair->has & what) != 0;
}

static bool is_paged(const struct pair *p)
{
    return p->page_len > 0;
}

static bool is_ring(const struct pair *p)
{
    return p->left > 0;
}

/* Entries of a sequence in page_table */
static size_t table_len(const struct pair *p)
{
    return (p->cache_len + p->page_len - 1) / p->page_len;
}

/* Rows of so many sequences, or pages */
static size_t cache_rows(const struct pair *p, size_t units)
{
    return units * p->h_kv * (is_paged(p) ? p->page_len : p->cache_len);
}

/* The row of a position, as the header has it */
static size_t cache_row(const struct pair *p, const int32_t *table, size_t b, size_t head, size_t position)
{
    if (!is_paged(p))
        return (b * p->h_kv + head) * p->cache_len + position % p->cache_len;
    const size_t page = (size_t)table[b * table_len(p) + position / p->page_len];
    return (page * p->h_kv + head) * p->page_len + position % p->page_len;
}

/* ---- memory, freed behind each input ---------------------------------------------------------------------------- */

#define MAX_BLOCKS 96
static void *block[MAX_BLOCKS];
static size_t block_count;

static void *get(size_t bytes, size_t alignment)
{
    void *p = NULL;
    REQUIRE(block_count < MAX_BLOCKS && posix_memalign(&p, alignment, bytes) == 0);
    memset(p, PATTERN, bytes);
    return block[block_count++] = p;
}

static void free_blocks(void)
{
    while (block_count > 0)
        free(block[--block_count]);
}

static bool is_pattern(const void *p, size_t bytes)
{
    const unsigned char *c = p;
    for (size_t i = 0; i < bytes; i++)
        if (c[i] != PATTERN)
            return false;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

static float draw_float(uint32_t *state, unsigned way)
{
    static const float rare[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, 3.4e38f, -3.4e38f, 1e20f, -1e9f, 1e-30f};
    *state = *state * 1664525u + 1013904223u;
    const uint32_t bits = *state >> 8;
    if (way % 4 != 0 && bits % 64 < way % 16)
        return rare[bits / 64 % (sizeof rare / sizeof *rare)];
    return (float)((int)(bits % 2001) - 1000) / (way % 4 == 3 ? 1e-3f : 500.0f);
}

static float *draw_floats(struct bytes *in, size_t count)
{
    float *out = get(count * sizeof *out, 8);
    uint32_t state = take(in);
    const unsigned way = take(in);
    for (size_t i = 0; i < count; i++)
        out[i] = draw_float(&state, way);
    return out;
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

#define BIT(error) (1u << (error))

/* Now and then the pointer is NULL or misaligned; `wrong` gets what such a call must say. */
static void *spoil(struct bytes *in, const void *right, bool needed, unsigned *wrong)
{
    const unsigned way = take(in);
    if (way == 1) {
        *wrong |= needed || *wrong != 0 ? BIT(KERNEL_NULL) : 0; /* of several errors any may be found first */
        return NULL;
    }
    if (way == 2) {
        *wrong |= BIT(KERNEL_ALIGN);
        return (char *)right + 1 + take(in) % 3;
    }
    return (void *)right;
}


/* Matrices and their biases, rel_bias, sink */
static const enum layer_tensor weight_tensors[] = {TENSOR_W_Q, TENSOR_B_Q, TENSOR_W_K, TENSOR_B_K, TENSOR_W_V, TENSOR_B_V,
                                                   TENSOR_W_O, TENSOR_B_O, TENSOR_REL_BIAS, TENSOR_SINK};
#define WEIGHTS (sizeof weight_tensors / sizeof *weight_tensors)

static struct kernel_weights draw_weights(struct bytes *in, const struct pair *p, bool spoiled, unsigned *wrong)
{
    const size_t in_q = has(p, SPLIT) ? p->d_model : p->d_model * p->h;
    const size_t in_kv = has(p, SPLIT) ? p->d_source : p->d_source * p->h_kv;
    const size_t counts[WEIGHTS] = {in_q * p->d_k, p->h * p->d_k, in_kv * p->d_k, p->h_kv * p->d_k, in_kv * p->d_v,
                                    p->h_kv * p->d_v, p->taps * p->d_v * p->d_model * (p->taps > 1 ? 1 : p->h), p->d_model,
                                    p->h * DISTANCES, p->h};
    struct kernel_weights weights = {.tables = NULL};
    for (size_t i = 0; i < WEIGHTS; i++) {
        const enum layer_tensor tensor = weight_tensors[i];
        const bool lacks = tensor == TENSOR_REL_BIAS ? !has(p, TABLE) : tensor == TENSOR_SINK ? !has(p, SINK)
                                                     : has(p, GIVEN) || (i % 2 == 1 && !has(p, BIAS));
        if (lacks)
            continue;
        float *numbers = get(counts[i] * sizeof *numbers, 8);
        uint32_t state = take(in);
        for (size_t k = 0; k < counts[i]; k++)
            numbers[k] = draw_float(&state, 0) / 8;
        if (spoiled && take(in) == 3) {
            static const float bad[] = {NAN, INFINITY, -INFINITY};
            numbers[take_word(in) % counts[i]] = bad[take(in) % 3];
            *wrong |= BIT(KERNEL_NONFINITE);
        }
        weights.tensor[tensor] = spoiled ? spoil(in, numbers, true, wrong) : numbers;
    }
    return weights;
}

/* Blocks of all pairs for scalar code, and for the best that this machine has. */
static void *packed_blocks[PAIRS][2];

/* A copy of a block with its headers as another machine would have written them, and `next`. */
static void put_elsewhere(unsigned char *to, const struct pair *p, size_t best, uint64_t next)
{
    struct kernel_header header[KERNEL_HEADERS];
    memcpy(to, packed_blocks[p - pairs][best], p->call->packed_bytes);
    memcpy(header, to, sizeof header[0]);
    header[0].next = next;
    header[1] = header[0];
    header[0].magic = KERNEL_ELSEWHERE;
    header[1].magic = KERNEL_OPENED;
    memcpy(to, header, sizeof header);
}

static void pack_all(void)
{
    for (size_t i = 0; i < PAIRS; i++)
        for (int best = 0; best < 2; best++) {
            const uint8_t seeds[8] = {1, 2, 3, 4, 5, 6, 7, 8};
            struct bytes in = {seeds, seeds + sizeof seeds};
            unsigned wrong = 0;
            const struct kernel_weights weights = draw_weights(&in, &pairs[i], false, &wrong);
            REQUIRE(posix_memalign(&packed_blocks[i][best], KERNEL_ALIGNMENT, pairs[i].call->packed_bytes) == 0);
            REQUIRE(pairs[i].call->pack(packed_blocks[i][best], &weights, best ? 0 : 1) == KERNEL_OK);
            const void *packed;
            unsigned char *elsewhere = get(pairs[i].call->packed_bytes, KERNEL_ALIGNMENT);
            put_elsewhere(elsewhere, &pairs[i], (size_t)best, 0);
            REQUIRE(pairs[i].call->open(elsewhere, pairs[i].call->packed_bytes, &packed) == KERNEL_OK);
            REQUIRE(packed == elsewhere + sizeof(struct kernel_header));
            free_blocks();
        }
}

/* One call of pack: an error that it may give, or none; a block is one only where it gave none. */
static void try_pack(struct bytes *in, const struct pair *p)
{
    const int best = p->call->isa(packed_blocks[p - pairs][1]), isa = take(in) < 200 ? (int)take_below(in, 9) : (int)take_word(in);
    unsigned wrong = 0;
    struct kernel_weights weights = draw_weights(in, p, true, &wrong);
    unsigned char *packed = get(p->call->packed_bytes + KERNEL_ALIGNMENT, KERNEL_ALIGNMENT);
    const unsigned way = take(in);
    void *to = way == 1 ? NULL : way == 2 ? packed + 4 * (1 + take(in) % 15) : packed;
    const struct kernel_weights *from = take(in) == 1 ? NULL : &weights;
    wrong = from == NULL ? 0 : wrong;
    wrong |= to == NULL || from == NULL ? BIT(KERNEL_NULL) : way == 2 ? BIT(KERNEL_ALIGN) : 0;
    wrong |= isa != 0 && isa != 1 && isa != best ? BIT(KERNEL_ISA) : 0;
    const int error = p->call->pack(to, from, isa);
    REQUIRE(error == KERNEL_OK ? wrong == 0 : error < 32 && (wrong >> error & 1) != 0, "%s, may be %x",
            p->call->strerror(error), wrong);
    const int packed_isa = p->call->isa(packed);
    REQUIRE(error == KERNEL_OK ? packed_isa == (isa == 0 ? best : isa) : packed_isa == 0);
    REQUIRE(error == KERNEL_OK || error == KERNEL_NONFINITE || is_pattern(packed, p->call->packed_bytes));
    REQUIRE(is_pattern(packed + p->call->packed_bytes, KERNEL_ALIGNMENT));
    REQUIRE(p->call->isa_name(isa) == NULL || p->call->isa_name(isa)[0] != '\0');
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

struct call {
    struct kernel_args args;
    const void *packed;
    void *scratch;
    size_t scratch_bytes, y_bytes, attn_bytes, lse_bytes;
    float *y, *attn, *lse; /* as large as they must be, also where the call names others */
    unsigned wrong;
    /* keys and values of a cache, and what they held; a row's use is what a good call does with it */
    float *cache[2], *held[2];
    size_t cache_rows;
    unsigned char *use;
    const int32_t *lengths, *past, *table;
    bool clash; /* a new row that another sequence has too: any numbers */
};

enum use { USE_NONE, USE_READ, USE_NEW };

static size_t cache_bytes(const struct pair *p, const struct call *c, int values)
{
    return c->cache_rows * (values ? p->d_v : p->d_k) * sizeof(float);
}

/* Beyond its limit now and then; what is huge is so for a batch of empty sequences too. */
static size_t draw_extent(struct bytes *in, size_t limit)
{
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2 + 1, PTRDIFF_MAX / sizeof(float) + 1};
    const unsigned way = take(in);
    return way < 230 ? take_below(in, limit + 1) : way < 245 ? limit + 1 : huge[way % 3];
}

/* n, m and batch as the call names them; what is wrong with them. `*m`: the keys of a good call. */
static void draw_sizes(struct bytes *in, const struct pair *p, struct call *c, size_t *m)
{
    struct kernel_args *a = &c->args;
    a->n = draw_extent(in, p->seq_len);
    a->m = has(p, SOURCE) ? draw_extent(in, p->source_len) : take(in) < 128 ? a->n : take(in) < 200 ? 0 : take(in);
    const bool as_queries = has(p, CACHE) && has(p, GIVEN); /* m is n, and 0 does not stand for it */
    if (as_queries && take(in) < 250)
        a->m = a->n;
    a->batch = draw_extent(in, MAX_BATCH);
    *m = has(p, SOURCE) ? a->m : a->n;
    if (a->n > p->seq_len || *m > p->source_len || (!has(p, SOURCE) && (a->m != 0 || as_queries) && a->m != a->n) ||
        a->batch > MAX_BATCH + 1)
        c->wrong |= BIT(KERNEL_SIZE);
    if (!is_paged(p))
        return;
    const unsigned way = take(in);
    const size_t enough = MAX_BATCH * table_len(p); /* with fewer sequences share some */
    a->pages = way < 160 ? enough : way < 250 ? way % enough : SIZE_MAX >> way % 4;
    if (way >= 250)
        c->wrong |= BIT(KERNEL_SIZE);
}

/* A mask's extents: 1 or all. */
static void draw_extents(struct bytes *in, const struct pair *p, size_t *batch, size_t *h, bool used, struct call *c)
{
    const size_t full = c->args.batch;
    *batch = take(in) < 128 ? 1 : take(in) < 240 ? full : take_word(in);
    *h = take(in) < 128 ? 1 : take(in) < 240 ? p->h : take_word(in);
    if (used && ((*batch != 1 && *batch != full) || (*h != 1 && *h != p->h)))
        c->wrong |= BIT(KERNEL_BROADCAST);
}

static int32_t *draw_lengths(struct bytes *in, size_t batch, size_t m, struct call *c)
{
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX};
    int32_t *lengths = get(batch * sizeof *lengths, 8);
    for (size_t b = 0; b < batch; b++) {
        lengths[b] = (int32_t)take_below(in, m + 1);
        if (take(in) == 1) {
            lengths[b] = take(in) < 128 ? bad[take(in) % 3] : (int32_t)m + 1;
            c->wrong |= BIT(KERNEL_LENGTH);
        }
    }
    return lengths;
}

/* past, prefix: any from 0 on */
static int32_t *draw_counts(struct bytes *in, size_t batch, struct call *c)
{
    static const int32_t rare[] = {INT32_MAX, INT32_MAX - 1, 1 << 20, -1, INT32_MIN};
    int32_t *counts = get(batch * sizeof *counts, 8);
    for (size_t b = 0; b < batch; b++) {
        counts[b] = take(in) < 220 ? (int32_t)(take(in) % 24) : rare[take(in) % 5];
        c->wrong |= counts[b] < 0 ? BIT(KERNEL_LENGTH) : 0;
    }
    return counts;
}

/* Any numbers, mostly runs of the same. */
static int32_t *draw_segments(struct bytes *in, size_t count)
{
    int32_t *segments = get(count * sizeof *segments, 8), at = 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned way = take(in);
        at = way < 200 ? at : way < 240 ? at + 1 : way < 250 ? (int32_t)take_word(in) : INT32_MIN;
        segments[i] = at;
    }
    return segments;
}

/* ---- caches ---------------------------------------------------------------------------------------------------- */

/* Mostly so many that the new tokens have room. */
static int32_t *draw_past(struct bytes *in, const struct pair *p, size_t batch, struct call *c)
{
    static const int32_t rare[] = {INT32_MAX, INT32_MAX - 1, INT32_MAX - 6, 1 << 20, -1, INT32_MIN};
    int32_t *past = get(batch * sizeof *past, 8);
    for (size_t b = 0; b < batch; b++) {
        const unsigned way = take(in);
        const size_t fit = is_ring(p) ? 3 * p->cache_len : p->cache_len - c->args.n;
        past[b] = way < 200 ? (int32_t)take_below(in, fit + 1) : way < 235 ? (int32_t)(fit + take(in) % 4) : rare[way % 6];
        c->wrong |= past[b] < 0 ? BIT(KERNEL_LENGTH) : 0;
    }
    return past;
}

/* What a sequence has behind the call; of one with a good past and length */
static size_t all_tokens(const struct pair *p, const struct call *c, size_t b)
{
    return (size_t)c->past[b] + (has(p, LENGTHS) ? (size_t)c->lengths[b] : c->args.n);
}

/* Page numbers: those that are needed mostly good, the others anything. */
static int32_t *draw_table(struct bytes *in, const struct pair *p, size_t batch, struct call *c)
{
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX, 1 << 20};
    const size_t count = table_len(p), pages = c->args.pages, turn = take(in);
    int32_t *table = get(batch * count * sizeof *table, 8);
    for (size_t b = 0; b < batch; b++)
        for (size_t i = 0; i < count; i++) {
            const bool needed = c->args.n > 0 && c->past[b] >= 0 && i * p->page_len < (size_t)c->past[b] + c->args.n;
            const unsigned way = needed ? take(in) : 255;
            int32_t *entry = &table[b * count + i];
            *entry = way < 252 && pages > 0 ? (int32_t)((way < 200 ? b * count + i + turn : take(in)) % pages)
                     : way < 254            ? (int32_t)pages
                                            : bad[(turn + i) % 4];
            if (needed && (*entry < 0 || (size_t)*entry >= pages))
                c->wrong |= BIT(KERNEL_LENGTH);
        }
    return table;
}

static void draw_cache(struct bytes *in, const struct pair *p, struct call *c, size_t batch)
{
    struct kernel_args *a = &c->args;
    const bool sized = (c->wrong & BIT(KERNEL_SIZE)) == 0;
    c->past = draw_past(in, p, batch, c);
    for (size_t b = 0; b < batch && (c->wrong & BIT(KERNEL_LENGTH)) == 0; b++)
        if (is_ring(p) ? (size_t)c->past[b] + a->n > INT32_MAX : all_tokens(p, c, b) > p->cache_len)
            c->wrong |= BIT(KERNEL_LENGTH);
    c->table = is_paged(p) ? draw_table(in, p, batch, c) : NULL;
    c->cache_rows = sized ? cache_rows(p, is_paged(p) ? a->pages : batch) : 0;
    for (int values = 0; values < 2; values++)
        c->cache[values] = get(cache_bytes(p, c, values), 8);
    a->tensor[TENSOR_PAST] = spoil(in, c->past, batch > 0, &c->wrong);
    if (is_paged(p))
        a->tensor[TENSOR_PAGE_TABLE] = spoil(in, c->table, batch > 0, &c->wrong);
    a->tensor[is_paged(p) ? TENSOR_K_PAGES : TENSOR_K_CACHE] = spoil(in, c->cache[0], batch > 0, &c->wrong);
    a->tensor[is_paged(p) ? TENSOR_V_PAGES : TENSOR_V_CACHE] = spoil(in, c->cache[1], batch > 0, &c->wrong);
}

static void note_use(struct call *c, size_t row, enum use use)
{
    const enum use old = (enum use)c->use[row];
    c->clash = c->clash || old == USE_NEW || (use == USE_NEW && old != USE_NONE);
    c->use[row] = (unsigned char)(use > old ? use : old);
}

/* Good numbers in the memory of a cache */
static int32_t *put_numbers(void *to, const int32_t *numbers, size_t count)
{
    memcpy(to, numbers, count * sizeof *numbers);
    return to;
}

/* Now and then the cache is another tensor of the call as well. */
static void overlap_cache(struct bytes *in, const struct pair *p, struct call *c)
{
    struct kernel_args *a = &c->args;
    const unsigned way = take(in);
    const size_t at = take(in);
    void **const v = &a->tensor[is_paged(p) ? TENSOR_V_PAGES : TENSOR_V_CACHE];
    if (c->wrong != 0 || way == 0 || way > 9 || c->cache_rows == 0 || a->batch == 0 || a->n == 0)
        return;
    if (way == 6)
        a->tensor[TENSOR_PAST] = put_numbers(c->cache[0] + c->cache_rows * p->d_k - a->batch, c->past, a->batch);
    else if (way == 7 && is_paged(p))
        a->tensor[TENSOR_PAGE_TABLE] = put_numbers(c->cache[1], c->table, a->batch * table_len(p));
    else if (way == 8 && has(p, LENGTHS))
        a->tensor[TENSOR_LENGTHS] = put_numbers(c->cache[1], c->lengths, a->batch);
    else if (way >= 8 && has(p, MASK_OF_FLOATS))
        a->tensor[TENSOR_MASK_ADD] = c->cache[0];
    else if (way >= 8 && has(p, MASK_OF_BOOL))
        a->tensor[TENSOR_MASK_BOOL] = (unsigned char *)(c->cache[0] + c->cache_rows * p->d_k) - 1;
    else if (way == 1)
        *v = c->cache[0] + at % p->d_k;
    else if (way == 2)
        a->tensor[TENSOR_Y] = c->cache[0] + at % p->d_k;
    else if (way == 3 && has(p, LSE))
        a->tensor[TENSOR_LSE] = c->cache[1];
    else if (way == 4 && has(p, ATTN))
        a->tensor[TENSOR_ATTN] = c->cache[0] - 1; /* begins before it */
    else if (has(p, GIVEN))
        a->tensor[TENSOR_K] = c->cache[1] + at % p->d_v;
    else
        a->tensor[TENSOR_X] = c->cache[0];
    c->wrong |= BIT(KERNEL_OVERLAP);
}

/* What a good call does with each row; what it reads has numbers of all kinds. */
static void fill_cache(struct bytes *in, const struct pair *p, struct call *c)
{
    const size_t n = c->args.n;
    uint32_t state = take(in);
    const unsigned way = take(in);
    c->use = get(c->cache_rows, 8);
    memset(c->use, USE_NONE, c->cache_rows);
    for (size_t b = 0; c->wrong == 0 && n > 0 && b < c->args.batch; b++) {
        const size_t past = (size_t)c->past[b], end = all_tokens(p, c, b);
        for (size_t head = 0; head < p->h_kv; head++)
            for (size_t position = is_ring(p) && past > p->left ? past - p->left : 0; position < end; position++)
                note_use(c, cache_row(p, c->table, b, head, position), position < past ? USE_READ : USE_NEW);
    }
    for (int values = 0; values < 2; values++) {
        const size_t d = values ? p->d_v : p->d_k, bytes = cache_bytes(p, c, values);
        for (size_t row = 0; row < c->cache_rows; row++)
            for (size_t i = 0; c->use[row] == USE_READ && i < d; i++)
                c->cache[values][row * d + i] = draw_float(&state, way);
        c->held[values] = get(bytes, 8);
        memcpy(c->held[values], c->cache[values], bytes);
    }
}

static void draw_given(struct bytes *in, const struct pair *p, struct call *c, size_t batch, size_t n, size_t m)
{
    struct kernel_args *a = &c->args;
    const bool queries = batch > 0 && n > 0, keys = batch > 0 && m > 0;
    a->tensor[TENSOR_Q] = spoil(in, draw_floats(in, batch * n * p->h * p->d_k), queries, &c->wrong);
    a->tensor[TENSOR_K] = spoil(in, draw_floats(in, batch * m * p->h_kv * p->d_k), keys, &c->wrong);
    a->tensor[TENSOR_V] = spoil(in, draw_floats(in, batch * m * p->h_kv * p->d_v), keys, &c->wrong);
    if (has(p, SEGMENTS)) {
        a->tensor[TENSOR_SEGMENT_Q] = spoil(in, draw_segments(in, batch * n), queries, &c->wrong);
        a->tensor[TENSOR_SEGMENT_K] = spoil(in, draw_segments(in, batch * m), keys, &c->wrong);
    }
}

/* Every tensor; of a call with wrong sizes, as if it had no rows. */
static void draw_tensors(struct bytes *in, const struct pair *p, struct call *c, size_t m)
{
    struct kernel_args *a = &c->args;
    const bool sized = (c->wrong & BIT(KERNEL_SIZE)) == 0;
    const size_t batch = sized ? a->batch : 0, n = sized ? a->n : 0, keys = sized ? m : 0;
    const bool queries = batch > 0 && n > 0, sees = queries && keys > 0;
    draw_extents(in, p, &a->mask_batch[TENSOR_MASK_BOOL], &a->mask_h[TENSOR_MASK_BOOL], has(p, MASK_OF_BOOL) && sees, c);
    draw_extents(in, p, &a->mask_batch[TENSOR_MASK_ADD], &a->mask_h[TENSOR_MASK_ADD], has(p, MASK_OF_FLOATS) && sees, c);
    const size_t columns = has(p, CACHE) ? p->cache_len : keys;
    const size_t maps = sees && (c->wrong & BIT(KERNEL_BROADCAST)) == 0 ? n * columns : 0;
    if (has(p, GIVEN)) {
        draw_given(in, p, c, batch, n, keys);
    } else {
        a->tensor[TENSOR_X] = spoil(in, draw_floats(in, batch * n * p->d_model), queries, &c->wrong);
        if (has(p, SOURCE))
            a->tensor[TENSOR_SOURCE] = spoil(in, draw_floats(in, batch * keys * p->d_source), batch > 0 && keys > 0, &c->wrong);
    }
    c->lengths = has(p, LENGTHS) ? draw_lengths(in, batch, keys, c) : NULL;
    if (has(p, LENGTHS))
        a->tensor[TENSOR_LENGTHS] = spoil(in, c->lengths, batch > 0, &c->wrong);
    if (has(p, PREFIX))
        a->tensor[TENSOR_PREFIX] = spoil(in, draw_counts(in, batch, c), batch > 0, &c->wrong);
    if (has(p, CACHE))
        draw_cache(in, p, c, batch);
    else if (has(p, PAST))
        a->tensor[TENSOR_PAST] = spoil(in, draw_counts(in, batch, c), batch > 0, &c->wrong);
    if (has(p, MASK_OF_BOOL)) {
        unsigned char *mask = get(maps > 0 ? a->mask_batch[TENSOR_MASK_BOOL] * a->mask_h[TENSOR_MASK_BOOL] * maps : 0, 8);
        const unsigned dense = take(in);
        uint32_t state = take(in);
        for (size_t i = 0; maps > 0 && i < a->mask_batch[TENSOR_MASK_BOOL] * a->mask_h[TENSOR_MASK_BOOL] * maps; i++) {
            state = state * 1664525u + 1013904223u;
            mask[i] = (state >> 24) < dense ? (unsigned char)(1 + (state >> 16) % 255) : 0;
        }
        a->tensor[TENSOR_MASK_BOOL] = take(in) == 1 ? NULL : mask;
        c->wrong |= a->tensor[TENSOR_MASK_BOOL] == NULL && sees ? BIT(KERNEL_NULL) : 0;
    }
    if (has(p, MASK_OF_FLOATS)) {
        const size_t count = maps > 0 ? a->mask_batch[TENSOR_MASK_ADD] * a->mask_h[TENSOR_MASK_ADD] * maps : 0;
        a->tensor[TENSOR_MASK_ADD] = spoil(in, draw_floats(in, count), sees, &c->wrong);
    }
    c->y_bytes = batch * n * p->d_out * sizeof(float);
    c->attn_bytes = has(p, ATTN) ? batch * p->h * n * columns * sizeof(float) : 0;
    c->lse_bytes = has(p, LSE) ? batch * p->h * n * sizeof(float) : 0;
    c->y = get(c->y_bytes, 8);
    c->attn = get(c->attn_bytes, 8);
    c->lse = get(c->lse_bytes, 8);
    a->tensor[TENSOR_Y] = spoil(in, c->y, queries, &c->wrong);
    if (has(p, ATTN))
        a->tensor[TENSOR_ATTN] = spoil(in, c->attn, sees, &c->wrong);
    if (has(p, LSE))
        a->tensor[TENSOR_LSE] = spoil(in, c->lse, queries, &c->wrong);
    if (has(p, CACHE)) {
        overlap_cache(in, p, c);
        fill_cache(in, p, c);
    }
}

/* The block: right, none, misaligned, of another layer, or with a bit of its header changed. */
static void draw_block(struct bytes *in, const struct pair *p, struct call *c)
{
    const size_t which = (size_t)(p - pairs), best = take(in) % 2, bytes = p->call->packed_bytes;
    unsigned char *copy;
    c->packed = packed_blocks[which][best];
    switch (take(in)) {
    case 1:
        c->packed = NULL;
        c->wrong |= BIT(KERNEL_NULL);
        break;
    case 2:
        c->packed = (const char *)c->packed + 1 + take(in) % (KERNEL_ALIGNMENT - 1);
        c->wrong |= BIT(KERNEL_ALIGN);
        break;
    case 3:
        c->packed = packed_blocks[(which + 1) % PAIRS][best];
        c->wrong |= BIT(KERNEL_PACKED);
        break;
    case 4:
    case 5:
        copy = get(bytes, KERNEL_ALIGNMENT);
        memcpy(copy, c->packed, bytes);
        copy[take_below(in, offsetof(struct kernel_header, next))] ^= (unsigned char)(1u << take(in) % 8);
        c->packed = copy;
        c->wrong |= BIT(KERNEL_PACKED) | BIT(KERNEL_ISA);
        break;
    default:
        break;
    }
}

static void draw_scratch(struct bytes *in, const struct pair *p, size_t workers, struct call *c)
{
    c->scratch_bytes = p->call->scratch_bytes_for(workers);
    char *scratch = get(c->scratch_bytes, KERNEL_ALIGNMENT);
    const unsigned way = take(in);
    c->scratch = way == 1 ? NULL : way == 2 ? scratch + 4 * (1 + take(in) % 15) : scratch;
    c->wrong |= way == 1 ? BIT(KERNEL_NULL) : way == 2 ? BIT(KERNEL_ALIGN) : 0;
}

static void hide(const float *from, size_t count, bool hidden)
{
    if (hidden)
        ASAN_POISON_MEMORY_REGION(from, count * sizeof *from);
    else
        ASAN_UNPOISON_MEMORY_REGION(from, count * sizeof *from);
}

/* What lies past lengths[b] may not be touched but in self-attention. */
static void hide_padding(const struct pair *p, const struct call *c, bool hidden)
{
    const struct kernel_args *a = &c->args;
    for (size_t b = 0; c->wrong == 0 && has(p, SOURCE) && has(p, LENGTHS) && a->m > 0 && b < a->batch; b++) {
        const size_t length = (size_t)c->lengths[b], first = b * a->m + length, count = a->m - length;
        if (has(p, GIVEN)) {
            hide((const float *)a->tensor[TENSOR_K] + first * p->h_kv * p->d_k, count * p->h_kv * p->d_k, hidden);
            hide((const float *)a->tensor[TENSOR_V] + first * p->h_kv * p->d_v, count * p->h_kv * p->d_v, hidden);
        } else {
            hide((const float *)a->tensor[TENSOR_SOURCE] + first * p->d_source, count * p->d_source, hidden);
        }
    }
}

/* Rows that the call neither reads nor writes, and page numbers that it does not need, may not be touched. */
static void hide_cache(const struct pair *p, const struct call *c, bool hidden)
{
    for (int values = 0; values < 2; values++) {
        const size_t d = values ? p->d_v : p->d_k;
        for (size_t row = 0; c->wrong == 0 && row < c->cache_rows; row++)
            if (c->use[row] == USE_NONE)
                hide(c->cache[values] + row * d, d, hidden);
    }
    for (size_t b = 0; c->wrong == 0 && is_paged(p) && c->args.n > 0 && b < c->args.batch; b++) {
        const size_t needed = (all_tokens(p, c, b) + p->page_len - 1) / p->page_len;
        const void *behind = &c->table[b * table_len(p) + needed];
        hide(behind, table_len(p) - needed, hidden);
    }
}

/* Of rows that are not new every bit is what it was; the new ones are written. */
static void check_cache(const struct pair *p, const struct call *c)
{
    for (int values = 0; values < 2; values++) {
        const size_t bytes = (values ? p->d_v : p->d_k) * sizeof(float);
        for (size_t row = 0; row < c->cache_rows; row++) {
            const char *now = (const char *)c->cache[values] + row * bytes;
            if (c->use[row] == USE_NEW)
                REQUIRE(!is_pattern(now, bytes));
            else
                REQUIRE(memcmp(now, (const char *)c->held[values] + row * bytes, bytes) == 0);
        }
    }
}

static void check_untouched(const struct pair *p, const struct call *c)
{
    REQUIRE(is_pattern(c->y, c->y_bytes) && is_pattern(c->attn, c->attn_bytes) && is_pattern(c->lse, c->lse_bytes));
    for (int values = 0; has(p, CACHE) && values < 2; values++)
        REQUIRE(memcmp(c->cache[values], c->held[values], cache_bytes(p, c, values)) == 0);
    if (((uintptr_t)c->scratch & (KERNEL_ALIGNMENT - 1)) == 0 && c->scratch != NULL)
        REQUIRE(is_pattern(c->scratch, c->scratch_bytes));
}

static void check_error(const struct pair *p, const struct call *c, int error)
{
    REQUIRE(error == KERNEL_OK ? c->wrong == 0 : error > 0 && error < 32 && (c->wrong >> error & 1) != 0,
            "%s, may be %x", p->call->strerror(error), c->wrong);
}

/* The same call in phases, each phase's parts from one drawn on, by workers in turns. */
static void run_in_parts(struct bytes *in, const struct pair *p, const struct call *c, size_t workers)
{
    const size_t phases = p->call->phases(c->packed, &c->args);
    REQUIRE((phases > 0) == (c->args.batch > 0 && c->args.n > 0));
    for (size_t phase = 0; phase < phases; phase++) {
        const size_t parts = p->call->parts(c->packed, &c->args, phase), first = parts > 0 ? take_below(in, parts) : 0;
        REQUIRE(p->call->phase_name(phase) != NULL);
        for (size_t i = 0; i < parts; i++)
            REQUIRE(p->call->run(c->packed, &c->args, c->scratch, phase, (first + i) % parts, i % workers) == KERNEL_OK);
        REQUIRE(p->call->run(c->packed, &c->args, c->scratch, phase, parts + take(in), 0) == KERNEL_PART);
    }
    REQUIRE(p->call->run(c->packed, &c->args, c->scratch, phases + take(in), 0, 0) == KERNEL_PART);
    REQUIRE(p->call->parts(c->packed, &c->args, phases + take(in)) == 0);
}

static void check_same_bits(struct bytes *in, const struct pair *p, const struct call *c, size_t workers)
{
    float *const outputs[] = {c->y, c->attn, c->lse, c->cache[0], c->cache[1]};
    const size_t bytes[] = {c->y_bytes, c->attn_bytes, c->lse_bytes, cache_bytes(p, c, 0), cache_bytes(p, c, 1)};
    void *kept[5];
    hide_cache(p, c, false);
    for (size_t i = 0; i < 5 && (kept[i] = get(bytes[i], 8)) != NULL; i++)
        if (bytes[i] > 0) {
            memcpy(kept[i], outputs[i], bytes[i]);
            if (i < 3)
                memset(outputs[i], PATTERN, bytes[i]);
            else
                memcpy(outputs[i], c->held[i - 3], bytes[i]);
        }
    hide_cache(p, c, true);
    memset(c->scratch, take(in), c->scratch_bytes);
    run_in_parts(in, p, c, workers);
    hide_cache(p, c, false);
    for (size_t i = 0; i < 5; i++) /* of rows that two sequences write either may win */
        REQUIRE(bytes[i] == 0 || c->clash || memcmp(kept[i], outputs[i], bytes[i]) == 0);
    check_cache(p, c);
    hide_cache(p, c, true);
}

static void try_call(struct bytes *in, const struct pair *p)
{
    const size_t workers = 1 + take_below(in, MAX_WORKERS);
    struct call c = {.wrong = 0};
    size_t m;
    draw_block(in, p, &c);
    draw_scratch(in, p, workers, &c);
    draw_sizes(in, p, &c, &m);
    draw_tensors(in, p, &c, m);
    hide_padding(p, &c, true);
    hide_cache(p, &c, true);
    const int error = p->call->forward(c.packed, &c.args, c.scratch);
    check_error(p, &c, error);
    if (error == KERNEL_OK) {
        check_same_bits(in, p, &c, workers);
    } else {
        const size_t phase = take(in), part = take(in);
        check_error(p, &c, p->call->run(c.packed, &c.args, c.scratch, phase, part, workers - 1));
        if ((c.wrong & ~BIT(KERNEL_NULL) & ~BIT(KERNEL_ALIGN)) != 0) /* of these, the scratch's do not count here */
            REQUIRE(p->call->phases(c.packed, &c.args) == 0 && p->call->parts(c.packed, &c.args, phase) == 0);
        check_untouched(p, &c);
        REQUIRE(p->call->forward(c.packed, NULL, c.scratch) != KERNEL_OK && p->call->phases(c.packed, NULL) == 0);
    }
    hide_padding(p, &c, false);
    hide_cache(p, &c, false);
}

/* ---- moves of caches -------------------------------------------------------------------------------------------- */

/* A cache before a move, or after it. */
struct state {
    struct kernel_cache cache;
    float *k, *v;
    int32_t *past, *table, *from;
    size_t units, entries; /* sequences or pages; of the table */
};

static void *copy_of(const void *from, size_t bytes)
{
    void *copy = get(bytes, 8);
    memcpy(copy, from, bytes);
    return copy;
}

/* Each row has its number at both ends. */
static float *numbered_rows(size_t rows, size_t d)
{
    float *out = get(rows * d * sizeof *out, 8);
    for (size_t row = 0; row < rows; row++)
        out[row * d] = out[row * d + d - 1] = (float)row;
    return out;
}

static int32_t draw_number(struct bytes *in, size_t limit)
{
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX, 1 << 20};
    const unsigned way = take(in);
    return way < 245 && limit > 0 ? (int32_t)take_below(in, limit) : way < 250 ? (int32_t)limit : bad[way % 4];
}

static struct state draw_state(struct bytes *in, const struct pair *p, unsigned *wrong)
{
    const size_t batch = take_below(in, MAX_BATCH + 2), entries = is_paged(p) ? batch * table_len(p) : 0;
    const size_t units = is_paged(p) ? 1 + take_below(in, MAX_BATCH * table_len(p)) : batch, limit = is_paged(p) ? units : 0;
    struct state s = {.units = units, .entries = entries};
    s.k = numbered_rows(cache_rows(p, units), p->d_k);
    s.v = numbered_rows(cache_rows(p, units), p->d_v);
    s.past = get(batch * sizeof *s.past, 8);
    s.from = get(batch * sizeof *s.from, 8);
    s.table = get(entries * sizeof *s.table, 8);
    for (size_t b = 0; b < batch; b++) {
        s.past[b] = draw_number(in, (is_ring(p) ? 3 : 1) * p->cache_len + 1);
        s.from[b] = take(in) < 20 ? -(int32_t)take(in) : draw_number(in, batch);
        if (s.past[b] < 0 || (!is_ring(p) && (size_t)s.past[b] > p->cache_len) ||
            (s.from[b] >= 0 && (size_t)s.from[b] >= batch))
            *wrong |= BIT(KERNEL_LENGTH);
        for (size_t i = 0; is_paged(p) && i < table_len(p); i++) {
            const int32_t page = i * p->page_len < (size_t)s.past[b] ? draw_number(in, limit) : -7;
            s.table[b * table_len(p) + i] = page;
            if (s.past[b] > 0 && i * p->page_len < (size_t)s.past[b] && (page < 0 || (size_t)page >= limit))
                *wrong |= BIT(KERNEL_LENGTH);
        }
    }
    const size_t free_count = is_paged(p) ? take_below(in, batch + 2) : 0;
    int32_t *free_pages = get(free_count * sizeof *free_pages, 8);
    for (size_t i = 0; i < free_count; i++) {
        free_pages[i] = draw_number(in, limit);
        if (free_pages[i] < 0 || (size_t)free_pages[i] >= limit)
            *wrong |= batch > 0 ? BIT(KERNEL_LENGTH) : 0;
    }
    s.cache = (struct kernel_cache){.k = s.k, .v = s.v, .past = s.past, .batch = batch, .pages = limit};
    if (is_paged(p)) {
        s.cache.page_table = s.table;
        s.cache.free_pages = free_pages;
        s.cache.free_count = free_count;
    }
    return s;
}

static struct state state_of(const struct pair *p, const struct state *s)
{
    struct state copy = *s;
    copy.k = copy_of(s->k, cache_rows(p, s->units) * p->d_k * sizeof(float));
    copy.v = copy_of(s->v, cache_rows(p, s->units) * p->d_v * sizeof(float));
    copy.past = copy_of(s->past, s->cache.batch * sizeof *s->past);
    copy.from = copy_of(s->from, s->cache.batch * sizeof *s->from);
    copy.table = copy_of(s->table, s->entries * sizeof *s->table);
    return copy;
}

static bool same_rows(const struct pair *p, const struct state *a, size_t row, const struct state *b, size_t other)
{
    return memcmp(a->k + row * p->d_k, b->k + other * p->d_k, p->d_k * sizeof(float)) == 0 &&
           memcmp(a->v + row * p->d_v, b->v + other * p->d_v, p->d_v * sizeof(float)) == 0;
}

/* Whether a page is a free one and one that a sequence uses, or twice free: what such a page holds is not known. */
static bool free_in_use(const struct pair *p, const struct state *s)
{
    for (size_t i = 0; i < s->cache.free_count; i++) {
        for (size_t other = 0; other < i; other++)
            if (s->cache.free_pages[i] == s->cache.free_pages[other])
                return true;
        for (size_t b = 0; b < s->cache.batch; b++)
            for (size_t page = 0; page * p->page_len < (size_t)s->past[b]; page++)
                if (s->table[b * table_len(p) + page] == s->cache.free_pages[i])
                    return true;
    }
    return false;
}

static void check_unmoved(const struct pair *p, const struct state *now, const struct state *before)
{
    REQUIRE(memcmp(now->k, before->k, cache_rows(p, now->units) * p->d_k * sizeof(float)) == 0);
    REQUIRE(memcmp(now->v, before->v, cache_rows(p, now->units) * p->d_v * sizeof(float)) == 0);
    REQUIRE(memcmp(now->past, before->past, now->cache.batch * sizeof *now->past) == 0);
    REQUIRE(memcmp(now->from, before->from, now->cache.batch * sizeof *now->from) == 0);
    REQUIRE(memcmp(now->table, before->table, now->entries * sizeof *now->table) == 0);
    REQUIRE(now->cache.free_count == before->cache.free_count);
}

/* Each sequence is what from[b] was. */
static void check_moved(const struct pair *p, const struct state *now, const struct state *before)
{
    const bool unknown = is_paged(p) && free_in_use(p, before);
    for (size_t b = 0; b < now->cache.batch; b++) {
        const int32_t from = before->from[b];
        REQUIRE(now->past[b] == (from < 0 ? 0 : before->past[from]));
        const size_t past = (size_t)now->past[b], rows = past < p->cache_len ? past : p->cache_len;
        for (size_t head = 0; !unknown && head < p->h_kv; head++)
            for (size_t position = 0; position < rows; position++)
                REQUIRE(same_rows(p, now, cache_row(p, now->table, b, head, position), before,
                                  cache_row(p, before->table, (size_t)from, head, position)));
    }
}

static void try_move(struct bytes *in, const struct pair *p)
{
    unsigned wrong = 0;
    struct state now = draw_state(in, p, &wrong);
    const struct state before = state_of(p, &now);
    const bool some = now.cache.batch > 0, moves = take(in) < 220;
    wrong = moves ? wrong : 0; /* of a cache that is emptied numbers do not matter */
    wrong |= moves && is_paged(p) && now.cache.free_count < now.cache.batch ? BIT(KERNEL_SIZE) : 0;
    const unsigned required = wrong & ~BIT(KERNEL_SIZE);
    unsigned spoiled = 0;
    int32_t *from = now.from;
    if (some) { /* else they are not looked at */
        now.cache.k = (float *)spoil(in, now.k, true, &spoiled);
        now.cache.v = (float *)spoil(in, now.v, true, &spoiled);
        now.cache.past = (int32_t *)spoil(in, now.past, true, &spoiled);
        if (is_paged(p))
            now.cache.page_table = (int32_t *)spoil(in, now.table, true, &spoiled);
        if (moves)
            from = (int32_t *)spoil(in, now.from, true, &spoiled);
    }
    if (take(in) == 1) {
        now.cache.batch = SIZE_MAX / 2;
        spoiled |= BIT(KERNEL_SIZE);
    }
    const int error = moves ? p->call->cache_move(&now.cache, from) : p->call->cache_reset(&now.cache);
    const size_t batch = before.cache.batch;
    now.cache.batch = batch;
    REQUIRE(error == KERNEL_OK ? required == 0 && spoiled == 0
                               : error > 0 && error < 32 && ((wrong | spoiled) >> error & 1) != 0,
            "%s, may be %x", p->call->strerror(error), wrong | spoiled);
    if (error != KERNEL_OK || (!some && (moves || !is_paged(p)))) { /* all pages are emptied without sequences too */
        check_unmoved(p, &now, &before);
    } else if (moves) {
        check_moved(p, &now, &before);
    } else {
        for (size_t i = 0; i < cache_rows(p, now.units) * p->d_k; i++)
            REQUIRE(now.k[i] == 0);
        for (size_t b = 0; b < batch; b++)
            REQUIRE(now.past[b] == 0);
    }
}

/* ---- blocks that were packed elsewhere --------------------------------------------------------------------------- */

/* Headers of so many blocks: some in the place of another one or exchanged with it, bits changed, the next block said to be
 * where another one is, or in the middle of one. */
static void spoil_headers(struct bytes *in, unsigned char *all, size_t count, size_t each)
{
    enum { HEADER = sizeof(struct kernel_header) };
    for (unsigned moves = take(in) % 4; moves > 0; moves--) {
        const size_t from = take_below(in, count * KERNEL_HEADERS), to = take_below(in, count * KERNEL_HEADERS);
        unsigned char kept[HEADER], *a = all + from / 2 * each + from % 2 * HEADER, *b = all + to / 2 * each + to % 2 * HEADER;
        const unsigned way = take(in);
        const size_t first = way < 64 ? 4 : 0, bytes = way < 64 ? 12 : HEADER; /* set and layer alone, or all */
        memcpy(kept, b, HEADER);
        memcpy(b + first, a + first, bytes);
        if (way % 2 == 1)
            memcpy(a + first, kept + first, bytes);
    }
    for (unsigned flips = take(in) % 4; flips > 0; flips--)
        all[take_below(in, count) * each + take_below(in, KERNEL_HEADERS * HEADER)] ^= (unsigned char)(1u << take(in) % 8);
    if (take(in) % 4 == 1) {
        const uint64_t next = take(in) % 2 == 1 ? take_below(in, count + 2) * each : take_word(in) % (each * count + 128) / 64 * 64;
        memcpy(all + take_below(in, count) * each + offsetof(struct kernel_header, next), &next, sizeof next);
    }
}

/* Some blocks in one file, their headers spoilt, the file maybe cut: what is opened lies in the file and has all of its numbers
 * there, so that a call with it reads nothing else, and it needs no instruction that the machine lacks. */
static void try_open(struct bytes *in, const struct pair *p)
{
    const size_t count = 1 + take_below(in, 3), each = p->call->packed_bytes, whole = count * each;
    const size_t bytes = take(in) < 128 ? whole : take_word(in) % (whole + 1), scratch_bytes = p->call->scratch_bytes_for(1);
    unsigned char *all = get(whole, KERNEL_ALIGNMENT), *file = get(bytes, KERNEL_ALIGNMENT);
    for (size_t i = 0; i < count; i++)
        put_elsewhere(all + i * each, p, take(in) % 2, i + 1 < count ? each : 0);
    spoil_headers(in, all, count, each);
    memcpy(file, all, bytes);
    const void *packed = all;
    const int error = p->call->open(file, bytes, &packed);
    REQUIRE(error == KERNEL_OK || error == KERNEL_PACKED || error == KERNEL_ISA, "%s", p->call->strerror(error));
    REQUIRE((error == KERNEL_OK) == (packed != NULL));
    if (error != KERNEL_OK)
        return;
    REQUIRE((const unsigned char *)packed >= file && (const unsigned char *)packed < file + bytes);
    struct call c = {.packed = packed, .scratch = get(scratch_bytes, KERNEL_ALIGNMENT), .args = {.batch = 1, .n = 1, .m = 1}};
    struct bytes none = {NULL, NULL};
    c.args.m = has(p, SOURCE) || has(p, GIVEN) ? 1 : 0;
    c.args.pages = is_paged(p) ? 1 : 0;
    draw_tensors(&none, p, &c, 1);
    const int called = p->call->forward(c.packed, &c.args, c.scratch), isa = p->call->isa(packed);
    REQUIRE(called == KERNEL_OK, "%s", p->call->strerror(called)); /* what it trusts is what opening saw */
    REQUIRE(isa == p->call->isa(packed_blocks[p - pairs][0]) || isa == p->call->isa(packed_blocks[p - pairs][1]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = {data, data + size};
    if (packed_blocks[0][0] == NULL)
        pack_all();
    const struct pair *p = &pairs[take_below(&in, PAIRS)];
    const unsigned way = take(&in) % 8;
    (way == 0 ? try_pack : way == 1 ? try_open : way == 2 && has(p, CACHE) ? try_move : try_call)(&in, p);
    free_blocks();
    return 0;
}
