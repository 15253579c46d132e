/* SPDX-License-Identifier: MIT */
/* Calls of emitted pairs, right and wrong: sizes, pointers, lengths, extents, blocks and numbers drawn from the input.
 *
 * Which errors a call may give is worked out here from the header's words alone: a call with none must give none, one with
 * some must give one of them and write nothing. Every tensor is as large as it has to be and no larger, and of a source that
 * lengths cut short the rest cannot be read (AddressSanitizer sees both). A good call gives the same bits in parts, in any
 * order, by any number of workers, whatever the scratch holds.
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

#define MAX_BATCH 3
#define MAX_WORKERS 3
#define PATTERN 0xA5

/* GIVEN: q, k and v of a call, with past, prefix, segments, lse, a sink and a table of distances, and no projection */
enum has { SOURCE = 1, LENGTHS = 2, MASK_OF_BOOL = 4, MASK_OF_FLOATS = 8, ATTN = 16, BIAS = 32, SPLIT = 64, GIVEN = 128 };
#define DISTANCES 6 /* of given: rel_left 3, rel_right 2 */

static const struct pair {
    unsigned has;
    size_t d_model, h, h_kv, d_k, d_v, d_source, d_out, seq_len, source_len, taps;
    struct kernel_table call; /* without the sizes of structs and folding */
    int (*open)(const void *blocks, size_t bytes, const void **packed);
} pairs[];

/* ---- the pairs ------------------------------------------------------------------------------------------------- */

#define FUNCTIONS(n, N) \
    _Static_assert(sizeof(struct kernel_args) == sizeof(n##_args), "alike for every layer"); \
    _Static_assert(sizeof(struct kernel_weights) == sizeof(n##_weights), "alike for every layer"); \
    static size_t n##_of_scratch(size_t w) { return N##_SCRATCH_BYTES_FOR(w); } \
    static int n##_of_pack(void *p, const void *w, int i) { return (int)n##_pack(p, w, (n##_isa_id)i); } \
    static int n##_of_forward(const void *p, const void *a, void *s) { return (int)n##_forward(p, a, s); } \
    static size_t n##_of_phases(const void *p, const void *a) { return n##_phases(p, a); } \
    static size_t n##_of_parts(const void *p, const void *a, size_t f) { return n##_parts(p, a, f); } \
    static int n##_of_run(const void *p, const void *a, void *s, size_t f, size_t q, size_t w) \
    { return (int)n##_run(p, a, s, f, q, w); } \
    static int n##_of_isa(const void *p) { return (int)n##_isa(p); } \
    static const char *n##_of_name(int i) { return n##_isa_name((n##_isa_id)i); }
#define PAIR(n, N, has, taps) \
    {has, N##_D_MODEL, N##_H, N##_H_KV, N##_D_K, N##_D_V, N##_D_SOURCE, N##_D_OUT, N##_SEQ_LEN, N##_SOURCE_LEN, taps, \
     {.packed_bytes = N##_PACKED_BYTES, .scratch_bytes_for = n##_of_scratch, .pack = n##_of_pack, \
      .forward = n##_of_forward, .phases = n##_of_phases, .parts = n##_of_parts, .run = n##_of_run, \
      .phase_name = n##_phase_name, .isa = n##_of_isa, .isa_name = n##_of_name, .strerror = n##_strerror}, n##_open}

FUNCTIONS(masks, MASKS)
FUNCTIONS(cross, CROSS)
FUNCTIONS(conv, CONV)
FUNCTIONS(given, GIVEN)

static const struct pair pairs[] = {
    PAIR(masks, MASKS, LENGTHS | MASK_OF_BOOL | MASK_OF_FLOATS | ATTN | BIAS, 1),
    PAIR(cross, CROSS, SOURCE | ATTN | BIAS, 1),
    PAIR(conv, CONV, SOURCE | LENGTHS | ATTN | SPLIT, 4),
    PAIR(given, GIVEN, SOURCE | LENGTHS | ATTN | GIVEN, 1),
};
#define PAIRS (sizeof pairs / sizeof *pairs)

static bool has(const struct pair *pair, enum has what)
{
    return (pair->has & what) != 0;
}

/* ---- memory, freed behind each input ---------------------------------------------------------------------------- */

#define MAX_BLOCKS 64
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
static const void *spoil(struct bytes *in, const void *right, bool needed, unsigned *wrong)
{
    const unsigned way = take(in);
    if (way == 1) {
        *wrong |= needed || *wrong != 0 ? BIT(KERNEL_NULL) : 0; /* of several errors any may be found first */
        return NULL;
    }
    if (way == 2) {
        *wrong |= BIT(KERNEL_ALIGN);
        return (const char *)right + 1 + take(in) % 3;
    }
    return right;
}

#define WEIGHTS 14

static const float *const *unused_tables(unsigned *wrong)
{
    static const float *const none[1];
    *wrong |= BIT(KERNEL_UNUSED);
    return none;
}

static struct kernel_weights draw_weights(struct bytes *in, const struct pair *p, bool spoiled, unsigned *wrong)
{
    const size_t in_q = has(p, SPLIT) ? p->d_model : p->d_model * p->h;
    const size_t in_kv = has(p, SPLIT) ? p->d_source : p->d_source * p->h_kv;
    /* matrices and their biases, gains and shifts of the norms, rel_bias, sink */
    const size_t counts[WEIGHTS] = {in_q * p->d_k, p->h * p->d_k, in_kv * p->d_k, p->h_kv * p->d_k, in_kv * p->d_v,
                                    p->h_kv * p->d_v, p->taps * p->d_v * p->d_model * (p->taps > 1 ? 1 : p->h), p->d_model,
                                    1, 1, 1, 1, p->h * DISTANCES, p->h};
    const float *w[WEIGHTS];
    for (size_t i = 0; i < WEIGHTS; i++) {
        const bool unused = has(p, GIVEN) ? i < 12 : i >= 8 || (i % 2 == 1 && !has(p, BIAS));
        float *numbers = get(counts[i] * sizeof *numbers, 8);
        uint32_t state = take(in);
        for (size_t k = 0; k < counts[i]; k++)
            numbers[k] = draw_float(&state, 0) / 8;
        w[i] = unused ? NULL : numbers;
        if (!spoiled)
            continue;
        if (unused && take(in) == 3) {
            *wrong |= BIT(KERNEL_UNUSED);
            w[i] = numbers;
        } else if (!unused) {
            if (take(in) == 3) {
                static const float bad[] = {NAN, INFINITY, -INFINITY};
                numbers[take_word(in) % counts[i]] = bad[take(in) % 3];
                *wrong |= BIT(KERNEL_NONFINITE);
            }
            w[i] = spoil(in, numbers, true, wrong);
        }
    }
    return (struct kernel_weights){.w_q = w[0], .b_q = w[1], .w_k = w[2], .b_k = w[3], .w_v = w[4], .b_v = w[5], .w_o = w[6],
                                   .b_o = w[7], .g_q = w[8], .c_q = w[9], .g_k = w[10], .c_k = w[11], .rel_bias = w[12],
                                   .sink = w[13], .tables = spoiled && take(in) == 3 ? unused_tables(wrong) : NULL};
}

/* Blocks of all pairs for scalar code, and for the best that this machine has. */
static void *packed_blocks[PAIRS][2];

/* A copy of a block with its headers as another machine would have written them, and `next`. */
static void put_elsewhere(unsigned char *to, const struct pair *p, size_t best, uint64_t next)
{
    struct kernel_header header[KERNEL_HEADERS];
    memcpy(to, packed_blocks[p - pairs][best], p->call.packed_bytes);
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
            REQUIRE(posix_memalign(&packed_blocks[i][best], KERNEL_ALIGNMENT, pairs[i].call.packed_bytes) == 0);
            REQUIRE(pairs[i].call.pack(packed_blocks[i][best], &weights, best ? 0 : 1) == KERNEL_OK);
            const void *packed;
            unsigned char *elsewhere = get(pairs[i].call.packed_bytes, KERNEL_ALIGNMENT);
            put_elsewhere(elsewhere, &pairs[i], (size_t)best, 0);
            REQUIRE(pairs[i].open(elsewhere, pairs[i].call.packed_bytes, &packed) == KERNEL_OK);
            REQUIRE(packed == elsewhere + sizeof(struct kernel_header));
            free_blocks();
        }
}

/* One call of pack: an error that it may give, or none; a block is one only where it gave none. */
static void try_pack(struct bytes *in, const struct pair *p)
{
    const int best = p->call.isa(packed_blocks[p - pairs][1]), isa = take(in) < 200 ? (int)take_below(in, 9) : (int)take_word(in);
    unsigned wrong = 0;
    struct kernel_weights weights = draw_weights(in, p, true, &wrong);
    unsigned char *packed = get(p->call.packed_bytes + KERNEL_ALIGNMENT, KERNEL_ALIGNMENT);
    const unsigned way = take(in);
    void *to = way == 1 ? NULL : way == 2 ? packed + 4 * (1 + take(in) % 15) : packed;
    const struct kernel_weights *from = take(in) == 1 ? NULL : &weights;
    wrong = from == NULL ? 0 : wrong;
    wrong |= to == NULL || from == NULL ? BIT(KERNEL_NULL) : way == 2 ? BIT(KERNEL_ALIGN) : 0;
    wrong |= isa != 0 && isa != 1 && isa != best ? BIT(KERNEL_ISA) : 0;
    const int error = p->call.pack(to, from, isa);
    REQUIRE(error == KERNEL_OK ? wrong == 0 : error < 32 && (wrong >> error & 1) != 0, "%s, may be %x",
            p->call.strerror(error), wrong);
    const int packed_isa = p->call.isa(packed);
    REQUIRE(error == KERNEL_OK ? packed_isa == (isa == 0 ? best : isa) : packed_isa == 0);
    REQUIRE(error == KERNEL_OK || error == KERNEL_NONFINITE || is_pattern(packed, p->call.packed_bytes));
    REQUIRE(is_pattern(packed + p->call.packed_bytes, KERNEL_ALIGNMENT));
    REQUIRE(p->call.isa_name(isa) == NULL || p->call.isa_name(isa)[0] != '\0');
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

struct call {
    struct kernel_args args;
    const void *packed;
    void *scratch;
    size_t scratch_bytes, y_bytes, attn_bytes, lse_bytes;
    float *y, *attn, *lse; /* as large as they must be, also where the call names others */
    unsigned wrong;
};

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
    a->batch = draw_extent(in, MAX_BATCH);
    *m = has(p, SOURCE) ? a->m : a->n;
    if (a->n > p->seq_len || *m > p->source_len || (!has(p, SOURCE) && a->m != 0 && a->m != a->n) ||
        a->batch > MAX_BATCH + 1)
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

/* A pointer that the layer has no use for is now and then given. */
static const void *unused(struct bytes *in, struct call *c)
{
    if (take(in) != 1)
        return NULL;
    c->wrong |= BIT(KERNEL_UNUSED);
    return c;
}

static void draw_given(struct bytes *in, const struct pair *p, struct call *c, size_t batch, size_t n, size_t m)
{
    struct kernel_args *a = &c->args;
    const bool queries = batch > 0 && n > 0, keys = batch > 0 && m > 0;
    a->x = unused(in, c);
    a->source = unused(in, c);
    a->q = spoil(in, draw_floats(in, batch * n * p->h * p->d_k), queries, &c->wrong);
    a->k = spoil(in, draw_floats(in, batch * m * p->h_kv * p->d_k), keys, &c->wrong);
    a->v = spoil(in, draw_floats(in, batch * m * p->h_kv * p->d_v), keys, &c->wrong);
    a->past = spoil(in, draw_counts(in, batch, c), batch > 0, &c->wrong);
    a->prefix = spoil(in, draw_counts(in, batch, c), batch > 0, &c->wrong);
    a->segment_q = spoil(in, draw_segments(in, batch * n), queries, &c->wrong);
    a->segment_k = spoil(in, draw_segments(in, batch * m), keys, &c->wrong);
    c->lse_bytes = batch * p->h * n * sizeof(float);
    c->lse = get(c->lse_bytes, 8);
    a->lse = (float *)spoil(in, c->lse, queries, &c->wrong);
}

/* Every tensor; of a call with wrong sizes, as if it had no rows. */
static void draw_tensors(struct bytes *in, const struct pair *p, struct call *c, size_t m)
{
    struct kernel_args *a = &c->args;
    const bool sized = (c->wrong & BIT(KERNEL_SIZE)) == 0;
    const size_t batch = sized ? a->batch : 0, n = sized ? a->n : 0, keys = sized ? m : 0;
    const bool queries = batch > 0 && n > 0, sees = queries && keys > 0;
    draw_extents(in, p, &a->mask_bool_batch, &a->mask_bool_h, has(p, MASK_OF_BOOL) && sees, c);
    draw_extents(in, p, &a->mask_add_batch, &a->mask_add_h, has(p, MASK_OF_FLOATS) && sees, c);
    const size_t maps = sees && (c->wrong & BIT(KERNEL_BROADCAST)) == 0 ? n * keys : 0;
    if (has(p, GIVEN)) {
        draw_given(in, p, c, batch, n, keys);
    } else {
        a->x = spoil(in, draw_floats(in, batch * n * p->d_model), queries, &c->wrong);
        a->source = has(p, SOURCE) ? spoil(in, draw_floats(in, batch * keys * p->d_source), batch > 0 && keys > 0, &c->wrong)
                                   : unused(in, c);
        a->past = unused(in, c);
        a->segment_q = unused(in, c);
    }
    a->positions = unused(in, c);
    a->lengths = has(p, LENGTHS) ? spoil(in, draw_lengths(in, batch, keys, c), batch > 0, &c->wrong) : unused(in, c);
    if (has(p, MASK_OF_BOOL)) {
        unsigned char *mask = get(maps > 0 ? a->mask_bool_batch * a->mask_bool_h * maps : 0, 8);
        const unsigned dense = take(in);
        uint32_t state = take(in);
        for (size_t i = 0; maps > 0 && i < a->mask_bool_batch * a->mask_bool_h * maps; i++) {
            state = state * 1664525u + 1013904223u;
            mask[i] = (state >> 24) < dense ? (unsigned char)(1 + (state >> 16) % 255) : 0;
        }
        a->mask_bool = take(in) == 1 ? NULL : mask;
        c->wrong |= a->mask_bool == NULL && sees ? BIT(KERNEL_NULL) : 0;
    } else {
        a->mask_bool = unused(in, c);
    }
    a->mask_add = has(p, MASK_OF_FLOATS)
                ? spoil(in, draw_floats(in, maps > 0 ? a->mask_add_batch * a->mask_add_h * maps : 0), sees, &c->wrong)
                : unused(in, c);
    c->y_bytes = batch * n * p->d_out * sizeof(float);
    c->attn_bytes = batch * p->h * n * keys * sizeof(float);
    c->y = get(c->y_bytes, 8);
    c->attn = get(c->attn_bytes, 8);
    a->y = (float *)spoil(in, c->y, queries, &c->wrong);
    a->attn = (float *)spoil(in, c->attn, sees, &c->wrong);
}

/* The block: right, none, misaligned, of another layer, or with a bit of its header changed. */
static void draw_block(struct bytes *in, const struct pair *p, struct call *c)
{
    const size_t which = (size_t)(p - pairs), best = take(in) % 2, bytes = p->call.packed_bytes;
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
    c->scratch_bytes = p->call.scratch_bytes_for(workers);
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
        const size_t first = b * a->m + (size_t)a->lengths[b], count = a->m - (size_t)a->lengths[b];
        if (has(p, GIVEN)) {
            hide(a->k + first * p->h_kv * p->d_k, count * p->h_kv * p->d_k, hidden);
            hide(a->v + first * p->h_kv * p->d_v, count * p->h_kv * p->d_v, hidden);
        } else {
            hide(a->source + first * p->d_source, count * p->d_source, hidden);
        }
    }
}

static void check_untouched(const struct call *c)
{
    REQUIRE(is_pattern(c->y, c->y_bytes) && is_pattern(c->attn, c->attn_bytes) && is_pattern(c->lse, c->lse_bytes));
    if (((uintptr_t)c->scratch & (KERNEL_ALIGNMENT - 1)) == 0 && c->scratch != NULL)
        REQUIRE(is_pattern(c->scratch, c->scratch_bytes));
}

static void check_error(const struct pair *p, const struct call *c, int error)
{
    REQUIRE(error == KERNEL_OK ? c->wrong == 0 : error > 0 && error < 32 && (c->wrong >> error & 1) != 0,
            "%s, may be %x", p->call.strerror(error), c->wrong);
}

/* The same call in phases, each phase's parts from one drawn on, by workers in turns. */
static void run_in_parts(struct bytes *in, const struct pair *p, const struct call *c, size_t workers)
{
    const size_t phases = p->call.phases(c->packed, &c->args);
    REQUIRE((phases > 0) == (c->args.batch > 0 && c->args.n > 0));
    for (size_t phase = 0; phase < phases; phase++) {
        const size_t parts = p->call.parts(c->packed, &c->args, phase), first = parts > 0 ? take_below(in, parts) : 0;
        REQUIRE(p->call.phase_name(phase) != NULL);
        for (size_t i = 0; i < parts; i++)
            REQUIRE(p->call.run(c->packed, &c->args, c->scratch, phase, (first + i) % parts, i % workers) == KERNEL_OK);
        REQUIRE(p->call.run(c->packed, &c->args, c->scratch, phase, parts + take(in), 0) == KERNEL_PART);
    }
    REQUIRE(p->call.run(c->packed, &c->args, c->scratch, phases + take(in), 0, 0) == KERNEL_PART);
    REQUIRE(p->call.parts(c->packed, &c->args, phases + take(in)) == 0);
}

static void check_same_bits(struct bytes *in, const struct pair *p, const struct call *c, size_t workers)
{
    float *const outputs[] = {c->y, c->attn, c->lse};
    const size_t bytes[] = {c->y_bytes, c->attn_bytes, c->lse_bytes};
    void *kept[3];
    for (size_t i = 0; i < 3 && (kept[i] = get(bytes[i], 8)) != NULL; i++)
        if (bytes[i] > 0) {
            memcpy(kept[i], outputs[i], bytes[i]);
            memset(outputs[i], PATTERN, bytes[i]);
        }
    memset(c->scratch, take(in), c->scratch_bytes);
    run_in_parts(in, p, c, workers);
    for (size_t i = 0; i < 3; i++)
        REQUIRE(bytes[i] == 0 || memcmp(kept[i], outputs[i], bytes[i]) == 0);
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
    const int error = p->call.forward(c.packed, &c.args, c.scratch);
    check_error(p, &c, error);
    if (error == KERNEL_OK) {
        check_same_bits(in, p, &c, workers);
    } else {
        const size_t phase = take(in), part = take(in);
        check_error(p, &c, p->call.run(c.packed, &c.args, c.scratch, phase, part, workers - 1));
        if ((c.wrong & ~BIT(KERNEL_NULL) & ~BIT(KERNEL_ALIGN)) != 0) /* of these, the scratch's do not count here */
            REQUIRE(p->call.phases(c.packed, &c.args) == 0 && p->call.parts(c.packed, &c.args, phase) == 0);
        check_untouched(&c);
        REQUIRE(p->call.forward(c.packed, NULL, c.scratch) != KERNEL_OK && p->call.phases(c.packed, NULL) == 0);
    }
    hide_padding(p, &c, false);
}

/* ---- blocks that were packed elsewhere --------------------------------------------------------------------------- */

/* Some blocks in one file, bits of their headers changed, the file maybe cut: what is opened lies in the file and has all of
 * its numbers there, so that a call with it reads nothing else. */
static void try_open(struct bytes *in, const struct pair *p)
{
    const size_t count = 1 + take_below(in, 3), each = p->call.packed_bytes, whole = count * each;
    const size_t bytes = take(in) < 128 ? whole : take_word(in) % (whole + 1), scratch_bytes = p->call.scratch_bytes_for(1);
    unsigned char *all = get(whole, KERNEL_ALIGNMENT), *file = get(bytes, KERNEL_ALIGNMENT);
    for (size_t i = 0; i < count; i++) {
        put_elsewhere(all + i * each, p, take(in) % 2, i + 1 < count ? each : 0);
        for (unsigned flips = take(in) % 4; flips > 0; flips--)
            all[i * each + take_below(in, KERNEL_HEADERS * sizeof(struct kernel_header))] ^= (unsigned char)(1u << take(in) % 8);
    }
    memcpy(file, all, bytes);
    const void *packed = all;
    const int error = p->open(file, bytes, &packed);
    REQUIRE(error == KERNEL_OK || error == KERNEL_PACKED || error == KERNEL_ISA, "%s", p->call.strerror(error));
    REQUIRE((error == KERNEL_OK) == (packed != NULL));
    if (error != KERNEL_OK)
        return;
    REQUIRE((const unsigned char *)packed >= file && (const unsigned char *)packed < file + bytes);
    struct call c = {.packed = packed, .scratch = get(scratch_bytes, KERNEL_ALIGNMENT), .args = {.batch = 1, .n = 1, .m = 1}};
    c.wrong = BIT(KERNEL_PACKED) | BIT(KERNEL_ISA); /* the second header may say so */
    struct bytes none = {NULL, NULL};
    c.args.m = has(p, SOURCE) ? 1 : 0;
    draw_tensors(&none, p, &c, 1);
    const int called = p->call.forward(c.packed, &c.args, c.scratch);
    REQUIRE(called == KERNEL_OK || called == KERNEL_PACKED || called == KERNEL_ISA || called == KERNEL_ALIGN, "%s",
            p->call.strerror(called));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = {data, data + size};
    if (packed_blocks[0][0] == NULL)
        pack_all();
    const struct pair *p = &pairs[take_below(&in, PAIRS)];
    const unsigned way = take(&in) % 8;
    (way == 0 ? try_pack : way == 1 ? try_open : try_call)(&in, p);
    free_blocks();
    return 0;
}
