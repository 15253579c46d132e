/* SPDX-License-Identifier: MIT */
/* exact = portable: what a model computes, as a digest of its bits: program NAME CHECKPOINT…, of each instruction set, by
 * 1, 2 and 5 workers. See model_test.h; -DLENGTH: tokens of a sequence; with -DDECODER of a decoder, whose tokens go in
 * whole, in chunks and one by one.
 */
#include "model_test.h"

#ifndef LENGTH
#define LENGTH 11
#endif
enum { N = LENGTH, TOKENS = BATCH * N };

static FUNCTION() model;
static FUNCTION(_args) args;
static unsigned char *arena;
static int workers;

/* All parts, the last one first, by `workers` workers in turn */
static void in_turn(void *context, void (*part)(void *of, size_t i, size_t worker), void *of, size_t parts)
{
    (void)context;
    while (parts-- > 0)
        part(of, parts, parts % (size_t)workers);
}

static uint64_t digest_of(const float *numbers, size_t count)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        for (int byte = 0; byte < 4; byte++, bits >>= 8)
            digest = (digest ^ (bits & 0xff)) * UINT64_C(0x100000001b3);
    }
    return digest;
}

static void run(void)
{
    if (FUNCTION(_run)(&model, &args, arena) != 0)
        exit(3);
}

#ifdef DECODER
enum { VOCAB = CONSTANT(VOCAB) };

/* The logits of all tokens of a sequence, in calls of `most` tokens; sequences together, or one by one */
static uint64_t fed_in(const int32_t *ids, int most, int together)
{
    static float logits[TOKENS * VOCAB], some[TOKENS * VOCAB];
    int32_t past[BATCH] = {0}, of_call[TOKENS];
    float *cache = aligned(CONSTANT(MODEL_CACHE_BYTES)(BATCH));
    for (int s = 0; s < BATCH; s += together ? BATCH : 1) {
        args.batch = together ? BATCH : 1, args.cache = cache, args.logits = some, args.past = past, args.ids = of_call;
        past[0] = past[1] = 0;
        for (int t = 0, n; t < N; t += n) {
            n = N - t < most ? N - t : most;
            for (int at = 0; at < (int)args.batch * n; at++)
                of_call[at] = ids[(s + at / n) * N + t + at % n];
            args.n = (size_t)n;
            run();
            for (int at = 0; at < (int)args.batch * n; at++)
                memcpy(logits + ((s + at / n) * N + t + at % n) * VOCAB, some + at * VOCAB, VOCAB * sizeof *some);
            past[0] += n, past[1] += n;
        }
    }
    free(cache);
    return digest_of(logits, TOKENS * VOCAB);
}
#endif

static uint64_t digest_of_model(const int32_t *ids)
{
#ifdef DECODER
    const uint64_t digest = fed_in(ids, N, 1);
    for (int most = 1; most < N; most += N / 3)
        for (int together = 0; together < 2; together++)
            check("logits have the same bits in calls of any sizes", fed_in(ids, most, together) == digest);
    return digest;
#else
    static float hidden[TOKENS * D], mean[BATCH * D];
    const int32_t lengths[BATCH] = {N, 6};
    args.ids = ids, args.lengths = lengths, args.n = N, args.batch = BATCH, args.hidden = hidden, args.mean = mean;
    run();
    return digest_of(hidden, TOKENS * D) ^ digest_of(mean, BATCH * D) << 1;
#endif
}

int main(int argc, char **argv)
{
    static const int of_workers[] = {1, 2, 5};
    FUNCTION(_shard) shard[MOST_SHARDS];
    int32_t ids[TOKENS];
    if (argc < 3)
        return 2;
    const size_t shards = read_shards(argc, argv, shard), bytes = CONSTANT(MODEL_BYTES)(1);
    unsigned char *file = aligned(bytes), *work = malloc(CONSTANT(MODEL_WORK_BYTES));
    arena = aligned(CONSTANT(MODEL_ARENA_BYTES)(5));
    draw_ids(ids, N, 5);
    args.parallel = in_turn;
    int packed = 0;
    for (int isa = 1; isa < 32; isa++) {
        if (FUNCTION(_pack)(file, shard, shards, &isa, 1, work) != 0 || FUNCTION(_open)(&model, file, bytes) != 0)
            continue;
        packed = 1;
        for (int w = 0; w < 3; w++) {
            workers = of_workers[w];
            printf("%016llx\n", (unsigned long long)digest_of_model(ids));
        }
    }
    check("a set of this machine is packed", packed);
    return failed;
}
