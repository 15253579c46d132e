/* SPDX-License-Identifier: MIT */
/* What a server does with a decoder's NAME_model.c: sequences in places of a cache that join, leave, are stepped in any
 * order, saved and restored, each with the bits that it has alone; and tokens that are drawn. program ANSWERS
 * CHECKPOINT…; see model_test.h; with -DPAGED, -DWITH_STATES, -DCACHED=0 (states alone). */
#include "model_test.h"

#ifndef CACHED
#define CACHED 1
#endif
enum { SEQUENCES = 3, PLACES = 5, PROMPT = 4, STEPS = 6, N = PROMPT + STEPS, VOCAB = CONSTANT(VOCAB) };
#ifdef PAGED
enum { UNITS = PLACES * CONSTANT(PAGES) };
#else
enum { UNITS = PLACES };
#endif

static int32_t ids[SEQUENCES * N];
static float alone[SEQUENCES][STEPS][VOCAB]; /* logits of each step of each sequence */
static FUNCTION() model;
static FUNCTION(_cache) all; /* of all places */
static unsigned char *arena;
static int in_order; /* sequence b of a call has place b, without slots */

static FUNCTION(_args) args_in(int32_t *slots)
{
    FUNCTION(_args) args = {.batch = 1};
#if CACHED
    args.cache = all.cache;
#endif
#ifdef WITH_STATES
    args.states = all.states;
#endif
#ifdef PAGED
    args.pages = UNITS;
#endif
#if defined WITH_STATES || !defined PAGED
    args.slots = in_order ? NULL : slots, args.slot_count = in_order ? 0 : PLACES;
#endif
    (void)slots;
    return args;
}

/* Tokens `from` to before `to` of the sequences `which`, in these places, whose past they have: their last ones' logits */
static int run(size_t count, const int *which, int32_t *slots, int from, int to, float *last)
{
    int32_t part[SEQUENCES * N], past[SEQUENCES];
    FUNCTION(_args) args = args_in(slots);
#ifdef PAGED
    int32_t table[SEQUENCES * CONSTANT(PAGES)];
#endif
    for (size_t i = 0; i < count; i++) {
        memcpy(part + i * (size_t)(to - from), ids + which[i] * N + from, (size_t)(to - from) * sizeof *ids);
        past[i] = from;
#ifdef PAGED
        const int32_t place = slots[i] < 0 || slots[i] >= PLACES ? 0 : slots[i];
        memcpy(table + i * CONSTANT(PAGES), all.page_table + place * CONSTANT(PAGES), CONSTANT(PAGES) * sizeof *table);
#endif
    }
#ifdef PAGED
    args.page_table = table;
#endif
    args.ids = part, args.past = past, args.last_logits = last, args.batch = count, args.n = (size_t)(to - from);
    return FUNCTION(_run)(&model, &args, arena);
}

static void forget(void)
{
#if CACHED
    memset(all.cache, 0xff, CONSTANT(MODEL_CACHE_BYTES)(UNITS));
#endif
#ifdef WITH_STATES
    memset(all.states, 0xff, CONSTANT(MODEL_STATES_BYTES)(PLACES));
#endif
    memset(arena, 0xff, CONSTANT(MODEL_ARENA_BYTES)(1));
}

/* One more token of each of these sequences, all of which have had as many steps, with the bits that each has alone */
static int steps(size_t count, const int *which, int32_t *slots, int step)
{
    float last[SEQUENCES * VOCAB];
    int good = run(count, which, slots, PROMPT + step, PROMPT + step + 1, last) == 0;
    for (size_t i = 0; i < count; i++)
        good &= memcmp(last + i * VOCAB, alone[which[i]][step], sizeof alone[0][0]) == 0;
    return good;
}

static int joins(int which, int32_t slot)
{
    float last[VOCAB];
    return run(1, &which, &slot, 0, PROMPT, last) == 0;
}

static void check_places(void)
{
    forget();
    check("prompts run in places 3 and 0", joins(0, 3) && joins(1, 0));
    check("both are stepped at once, without a move", steps(2, (int[]){0, 1}, (int32_t[]){3, 0}, 0));
    check("a third one joins in place 4", joins(2, 4));
    check("and is stepped alone", steps(1, (int[]){2}, (int32_t[]){4}, 0));
    check("all are stepped, in another order", steps(3, (int[]){2, 1, 0}, (int32_t[]){4, 0, 3}, 1));
    check("one leaves, and its place is another one's", joins(0, 0) && steps(1, (int[]){0}, (int32_t[]){0}, 0));
    check("which changes no other", steps(2, (int[]){0, 2}, (int32_t[]){3, 4}, 2));
    forget();
    float last[SEQUENCES * VOCAB];
    check("prompts run at once, some after others, as a call's arena has room", 3 * PROMPT > CONSTANT(SEQ_LEN) &&
              run(3, (int[]){2, 0, 1}, (int32_t[]){4, 0, 2}, 0, PROMPT, last) == 0);
    check("and all are stepped", steps(3, (int[]){0, 1, 2}, (int32_t[]){0, 2, 4}, 0));
    forget();
    in_order = 1;
    check("so do prompts without slots", run(3, (int[]){1, 2, 0}, (int32_t[]){0, 1, 2}, 0, PROMPT, last) == 0 &&
                                             steps(3, (int[]){1, 2, 0}, (int32_t[]){0, 1, 2}, 0));
    in_order = 0;
}

static void check_saving(void)
{
    size_t bytes = 0, fewer = 0;
    forget();
    int good = joins(2, 1); /* of a ring until its first rows are others */
    for (int step = 0; step < STEPS - 1; step++)
        good &= steps(1, (int[]){2}, (int32_t[]){1}, step);
    check("a prompt runs in place 1, and steps", good);
    all.past[1] = N - 1, all.past[2] = 0;
    check("its bytes are counted", FUNCTION(_cache_save)(&all, 1, NULL, &bytes) == 0 && bytes > 0);
    unsigned char *const saved = aligned(bytes + 64) + 1; /* on any address */
    memset(saved - 1, 0x55, bytes + 64);
    check("it is saved", FUNCTION(_cache_save)(&all, 1, saved, &bytes) == 0 && saved[bytes] == 0x55);
    check("an empty one is shorter, where a cache is kept", FUNCTION(_cache_save)(&all, 2, NULL, &fewer) == 0 &&
                                                                   (fewer < bytes || !CACHED));
    forget();
    all.past[4] = 0;
    check("a neighbour runs in place 3", joins(1, 3));
    check("what was saved comes back in another place", FUNCTION(_cache_restore)(&all, 4, saved, bytes) == 0 &&
                                                            all.past[4] == N - 1);
    check("and goes on", steps(1, (int[]){2}, (int32_t[]){4}, STEPS - 1));
    check("beside a neighbour that goes on too", steps(1, (int[]){1}, (int32_t[]){3}, 0));

    all.past[4] = 77;
    unsigned char *whole = aligned(bytes);
    memcpy(whole, saved, bytes);
    check("fewer bytes are an error", FUNCTION(_cache_restore)(&all, 4, whole, bytes - 1) == ERROR(SAVED) &&
                                          FUNCTION(_cache_restore)(&all, 4, whole, 3) == ERROR(SAVED));
    whole[0] ^= 1;
    check("and another model's", FUNCTION(_cache_restore)(&all, 4, whole, bytes) == ERROR(SAVED));
    whole[0] ^= 1, whole[16] ^= 1;
    check("and another number of bytes", FUNCTION(_cache_restore)(&all, 4, whole, bytes) == ERROR(SAVED));
    whole[16] ^= 1, whole[8] ^= 1;
    check("and another number of tokens", FUNCTION(_cache_restore)(&all, 4, whole, bytes) == (CACHED ? ERROR(SAVED) : 0));
    whole[15] ^= 0x40;
    check("and more than there are", FUNCTION(_cache_restore)(&all, 4, whole, bytes) == ERROR(LENGTH));
    check("so is a sequence that there is not", FUNCTION(_cache_restore)(&all, PLACES, saved, bytes) == ERROR(LENGTH) &&
                                                    FUNCTION(_cache_save)(&all, PLACES, saved, &bytes) == ERROR(LENGTH));
    check("which sets no past", all.past[4] == (CACHED ? 77 : (N - 1) ^ 1));
    all.past[1] = -1;
    check("a negative past is an error", FUNCTION(_cache_save)(&all, 1, NULL, &bytes) == ERROR(LENGTH));
    check("and a pointer that is missing", FUNCTION(_cache_save)(&all, 4, saved, NULL) == ERROR(NULL) &&
                                               FUNCTION(_cache_restore)(&all, 4, NULL, bytes) == ERROR(NULL) &&
                                               FUNCTION(_cache_save)(NULL, 4, saved, &bytes) == ERROR(NULL));
#ifdef PAGED
    all.page_table[CONSTANT(PAGES)] = UNITS, all.past[1] = 1;
    check("so is a page that there is not", FUNCTION(_cache_save)(&all, 1, NULL, &bytes) == ERROR(LENGTH));
    all.page_table[CONSTANT(PAGES)] = CONSTANT(PAGES);
#endif
    printf("saved ");
    for (int i = 0; i < 8; i++) /* the number of the model */
        printf("%02x", (unsigned)saved[i]);
    puts("");
    free(whole), free(saved - 1);
}

/* The most tokens that a sequence can have, by what can be saved */
static int32_t most_tokens(void)
{
    int32_t low = 0, high = INT32_MAX;
    size_t bytes;
    while (low < high) {
        all.past[1] = low + (high - low) / 2 + 1;
        const int good = FUNCTION(_cache_save)(&all, 1, NULL, &bytes) == 0;
        *(good ? &low : &high) = all.past[1] - !good;
    }
    all.past[1] = 0;
    return low;
}

static void check_most(void)
{
    float last[VOCAB];
    int32_t id = 1, past, slot = 1, work[CONSTANT(MODEL_MOVE_BYTES)(PLACES) / 4], from[PLACES] = {1, 0, 2, 3, 4};
    FUNCTION(_args) args = args_in(&slot);
    const int32_t most = most_tokens();
    if (most == INT32_MAX) /* states, and rings */
        return;
    args.ids = &id, args.past = &past, args.last_logits = last, args.batch = args.n = 1;
#ifdef PAGED
    args.page_table = all.page_table + CONSTANT(PAGES);
#endif
    past = most - 1;
    check("a cache has room for as many tokens as can be saved", FUNCTION(_run)(&model, &args, arena) != ERROR(LENGTH));
    past = most;
    check("and for no more", FUNCTION(_run)(&model, &args, arena) == ERROR(LENGTH));
#if CACHED
    const size_t bytes = CONSTANT(MODEL_CACHE_BYTES)(UNITS);
    unsigned char *const before = aligned(bytes);
    for (size_t i = 0; i < bytes; i++)
        before[i] = (unsigned char)(i * 2654435761u >> 13);
    memcpy(all.cache, before, bytes);
    for (int i = 0; i < PLACES; i++)
        all.past[i] = i == 2 ? most + 1 : 1;
    check("so are more for cache_move", FUNCTION(_cache_move)(&all, from, work) == ERROR(LENGTH));
    check("which moves nothing, of no layer", memcmp(before, all.cache, bytes) == 0);
    free(before);
#endif
}

#if defined WITH_STATES || !defined PAGED
static void check_wrong_slots(void)
{
    const int two[2] = {0, 1};
    float last[2 * VOCAB];
    memset(last, 0x55, sizeof last);
    check("a place of two sequences is an error", run(2, two, (int32_t[]){2, 2}, 0, PROMPT, last) == ERROR(LENGTH));
    check("and one that there is not", run(2, two, (int32_t[]){0, PLACES}, 0, PROMPT, last) == ERROR(LENGTH) &&
                                           run(2, two, (int32_t[]){-1, 1}, 0, PROMPT, last) == ERROR(LENGTH));
    check("which writes nothing", memcmp(last, (char *)last + 1, sizeof last - 1) == 0);
    int32_t one = 0, past = 0, slots[2] = {0, 0};
    FUNCTION(_args) args = args_in(slots);
    args.ids = &one, args.past = &past, args.last_logits = last, args.n = 1;
#ifdef PAGED
    args.page_table = all.page_table;
#endif
    args.slot_count = SIZE_MAX / 2;
    check("more places than memory has are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(SIZE));
    args.slot_count = PLACES, args.slots = (const int32_t *)(const void *)((char *)slots + 1);
    check("so are slots off their boundary", FUNCTION(_run)(&model, &args, arena) == ERROR(ALIGNMENT));
}
#endif

static int32_t work[VOCAB];

static int32_t drawn(const float *logits, float temperature, size_t k, float p, double u)
{
    return FUNCTION(_sample)(logits, temperature, k, p, (uint64_t)(u * 0x1p32) << 32, work);
}

/* How often each token is drawn, by random numbers that are evenly spread: a token's share, to 1 / 4096 */
static int has_shares(const float *logits, float temperature, size_t k, float p, const double *shares)
{
    enum { DRAWS = 4096 };
    int counts[VOCAB] = {0}, good = 1;
    for (int i = 0; i < DRAWS; i++) {
        const int32_t token = drawn(logits, temperature, k, p, (i + 0.5) / DRAWS);
        counts[token >= 0 && token < VOCAB ? token : 0]++;
    }
    for (int i = 0; i < VOCAB; i++)
        good &= fabs(counts[i] - shares[i] * DRAWS) <= 1.0001;
    return good;
}

static void check_sampling(void)
{
    float logits[VOCAB];
    double shares[VOCAB] = {0};
    for (int i = 0; i < VOCAB; i++)
        logits[i] = -INFINITY;
    logits[3] = logf(1), logits[5] = logf(2), logits[6] = logf(4), logits[9] = logf(1);
    shares[3] = 1 / 8.0, shares[5] = 2 / 8.0, shares[6] = 4 / 8.0, shares[9] = 1 / 8.0;
    check("shares are those of exp(logits)", has_shares(logits, 1, 0, 1, shares) && has_shares(logits, 1, 4, 1, shares));
    check("top_k and top_p that leave all out are none", has_shares(logits, 1, VOCAB + 9, 2, shares) &&
                                                             has_shares(logits, 1, 0, NAN, shares));
    shares[3] = shares[9] = 1 / 22.0, shares[5] = 4 / 22.0, shares[6] = 16 / 22.0;
    check("of a temperature", has_shares(logits, 0.5f, 0, 1, shares));
    shares[3] = shares[9] = shares[5] = shares[6] = 1 / 4.0;
    check("of an infinite one", has_shares(logits, INFINITY, 0, 1, shares));
    memset(shares, 0, sizeof shares);
    shares[3] = 1 / 7.0, shares[5] = 2 / 7.0, shares[6] = 4 / 7.0;
    check("of equal ones top_k takes the lower number", has_shares(logits, 1, 3, 1, shares));
    check("and so does top_p", has_shares(logits, 1, 0, 0.76f, shares) && has_shares(logits, 1, 4, 0.86f, shares));
    memset(shares, 0, sizeof shares);
    shares[5] = shares[6] = 1 / 2.0;
    check("of equal shares it takes no more than it names", has_shares(logits, INFINITY, 0, 0.5f, shares) &&
                                                                has_shares(logits, INFINITY, 4, 0.5f, shares));
    shares[3] = 0, shares[5] = 1 / 3.0, shares[6] = 2 / 3.0;
    check("top_p of a share that is reached takes no more", has_shares(logits, 1, 0, 0.75f, shares));
    check("top_p counts shares of what top_k leaves", has_shares(logits, 1, 3, 0.75f, shares));
    shares[5] = 0, shares[6] = 1;
    check("top_p takes one at least", has_shares(logits, 1, 0, 0, shares) && has_shares(logits, 1, 0, -1, shares) &&
                                          has_shares(logits, 1, 2, 1e-9f, shares));
    check("a temperature of 0, below or NaN is the largest", has_shares(logits, 0, 0, 1, shares) &&
              has_shares(logits, -1, 0, 1, shares) && has_shares(logits, NAN, 0, 1, shares) &&
              has_shares(logits, 1e-30f, 0, 1, shares));
    logits[1] = NAN, logits[2] = INFINITY, logits[4] = INFINITY;
    shares[6] = 0, shares[2] = shares[4] = 1 / 2.0;
    check("infinite logits share, NaN is not drawn", has_shares(logits, 1, 0, 1, shares) &&
              has_shares(logits, INFINITY, 0, 1, shares) && has_shares(logits, 1, 7, 0.99f, shares));
    for (int i = 0; i < VOCAB; i++)
        logits[i] = i == 2 ? -INFINITY : NAN;
    shares[4] = 0, shares[2] = 1;
    check("nothing but -infinity is the first", has_shares(logits, 1, 3, 0.5f, shares));
    logits[2] = NAN;
    check("nothing at all is the first token", drawn(logits, 1, 0, 1, 0.5) == 0 && FUNCTION(_argmax)(logits) == 0);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)(i * 7 % VOCAB) / 8, shares[i] = exp(i * 7 % VOCAB / 8.0);
    int right = 1;
    for (size_t k = 1; k <= VOCAB; k++) { /* the k largest, by another way */
        double some[VOCAB], sum = 0;
        for (int i = 0; i < VOCAB; i++) {
            size_t larger = 0;
            for (int j = 0; j < VOCAB; j++)
                larger += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
            some[i] = larger < k ? shares[i] : 0;
            sum += some[i];
        }
        for (int i = 0; i < VOCAB; i++)
            some[i] /= sum;
        right &= has_shares(logits, 1, k, 1, some);
    }
    check("each top_k has the shares of the largest", right);
    for (int step = 1; step < VOCAB; step++) { /* a prime; the last random bits draw the last token of the order */
        for (int i = 0; i < VOCAB; i++)
            logits[i] = (float)(i * step % VOCAB) / 8;
        for (int k = 1; k < VOCAB; k++)
            right &= FUNCTION(_sample)(logits, 1, (size_t)k, 1, UINT64_MAX, work) * step % VOCAB == VOCAB - k;
    }
    check("in whatever order they lie", right);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = i < 3 ? 0 : -INFINITY;
    const uint64_t third = ((UINT64_C(1) << 53) + 1) / 3; /* of 53 bits */
    check("53 random bits count", FUNCTION(_sample)(logits, 1, 0, 1, third << 11, work) == 1 &&
                                      FUNCTION(_sample)(logits, 1, 0, 1, (third - 1) << 11, work) == 0);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)(i * 7 % VOCAB) / 8;
    check("the last random bits are the last token", FUNCTION(_sample)(logits, 1, 0, 1, UINT64_MAX, work) == VOCAB - 1);
#ifdef ENDS
    const int32_t ends[] = {CONSTANT(EOS)};
    check("ids that end a text are those of the checkpoint", CONSTANT(EOS_COUNT) == ENDS && ends[0] == 2);
#endif
}

int main(int argc, char **argv)
{
    FUNCTION(_shard) shards[MOST_SHARDS];
    const size_t count = argc > 2 ? read_shards(argc, argv, shards) : 0;
    if (count == 0)
        return 2;
    unsigned char *file = aligned(CONSTANT(MODEL_BYTES)(1));
    void *work_of_packing = malloc(CONSTANT(MODEL_WORK_BYTES));
    int32_t pasts[PLACES] = {0};
    arena = aligned(CONSTANT(MODEL_ARENA_BYTES)(1));
    check("a file is packed", FUNCTION(_pack)(file, shards, count, NULL, 1, work_of_packing) == 0);
    check("it opens", FUNCTION(_open)(&model, file, CONSTANT(MODEL_BYTES)(1)) == 0);
    for (int i = 0; i < SEQUENCES * N; i++)
        ids[i] = 1 + (3 + 5 * i + i / N * 3) % 17;
    all.past = pasts, all.batch = PLACES;
#if CACHED
    all.cache = aligned(CONSTANT(MODEL_CACHE_BYTES)(UNITS));
#endif
#ifdef WITH_STATES
    all.states = aligned(CONSTANT(MODEL_STATES_BYTES)(PLACES));
#endif
#ifdef PAGED
    int32_t table[UNITS];
    for (int i = 0; i < UNITS; i++)
        table[i] = i;
    all.page_table = table, all.pages = UNITS;
#endif
    int good = 1;
    for (int s = 0; s < SEQUENCES; s++) {
        forget();
        good &= joins(s, 0);
        for (int i = 0; i < STEPS; i++)
            good &= run(1, &s, (int32_t[]){0}, PROMPT + i, PROMPT + i + 1, alone[s][i]) == 0;
    }
    check("each sequence runs alone", good && memcmp(alone[0], alone[1], sizeof alone[0]) != 0);
    check_places();
    check_saving();
    check_most();
#if defined WITH_STATES || !defined PAGED
    check_wrong_slots();
#endif
    check_sampling();
#if CACHED
    free(all.cache);
#endif
#ifdef WITH_STATES
    free(all.states);
#endif
    free(file), free(work_of_packing), free(arena);
    return failed;
}
