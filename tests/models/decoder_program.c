/* SPDX-License-Identifier: MIT */
/* A decoder's NAME_model.c, with an encoder or without, against what transformers answers, and its promises: program
 * ANSWERS CHECKPOINT…. See model_test.h; with -DENCODER=1 (an encoder of tokens) or 2 (of frames, -DFRAMES=100 numbers of an
 * input), -DPAGED, -DPAST=9 (maximum of tokens of a sequence). */
#define OVERLAPS
#include "model_test.h"

#ifdef ENCODER
enum { N = 7, STEP = 3, M = ENCODER == 1 ? 9 : CONSTANT(ENCODER_SEQ_LEN), VOCAB = CONSTANT(DECODER_VOCAB),
       SEQ_LEN = CONSTANT(DECODER_SEQ_LEN) };
#else
enum { N = 9, STEP = 5, VOCAB = CONSTANT(VOCAB), SEQ_LEN = CONSTANT(SEQ_LEN) };
#endif
enum { TOKENS = BATCH * N };
#ifdef PAGED
enum { UNITS = BATCH * CONSTANT(PAGES) + 1 };
#else
enum { UNITS = BATCH };
#endif

static int32_t ids[TOKENS], past[BATCH];
static float hidden[TOKENS * D], logits[TOKENS * VOCAB], last[BATCH * VOCAB], some[TOKENS * VOCAB];

static FUNCTION() model;
static FUNCTION(_args) args;
static unsigned char *arena;

/* What the calls of check_misuse() are given */
static struct {
    FUNCTION() *model;
    FUNCTION(_args) *args;
    FUNCTION(_cache) *cache;
    FUNCTION(_shard) *shards;
    void *arena, *file, *work;
    int32_t *from, *ids, *past;
    size_t count, bytes;
} given;

static int given_run(void) { return FUNCTION(_run)(given.model, given.args, given.arena); }
static int given_step(void) { return FUNCTION(_step)(given.model, given.args, given.ids, given.past, given.arena); }
static int given_move(void) { return FUNCTION(_cache_move)(given.cache, given.from, given.work); }
static int given_pack(void) { return FUNCTION(_pack)(given.file, given.shards, given.count, NULL, 1, given.work); }
static int given_open(void) { return FUNCTION(_open)(given.model, given.file, given.bytes); }

/* Every pointer of every function, from rows; nothing may be written. */
static void check_misuse(size_t cache_bytes)
{
    FUNCTION(_cache) moved = {.cache = args.cache, .past = past, .batch = BATCH};
    int32_t from[BATCH] = {0}, moving[CONSTANT(MODEL_MOVE_BYTES)(BATCH) / 4];
    char *const inside = (char *)args.cache + cache_bytes / 2 / 64 * 64;
    given.args = &args, given.arena = arena, given.model = &model;
    given.cache = &moved, given.from = from, given.work = moving, given.ids = ids, given.past = past;
#ifdef PAGED
    int32_t free_pages[BATCH] = {0};
    moved.page_table = (int32_t *)(uintptr_t)args.page_table, moved.pages = args.pages;
    moved.free_pages = free_pages, moved.free_count = BATCH;
#endif
    const struct pointer of_run[] = {
        {"model", &given.model, 1, 1, 0}, {"args", &given.args, 1, 1, 0}, {"arena", &given.arena, 64, 1, 1},
        {"ids", &args.ids, 4, 1, 1}, {"past", &args.past, 4, 1, 1}, {"cache", &args.cache, 4, 1, 0},
        {"lengths", &args.lengths, 4, 0, 1}, {"hidden", &args.hidden, 4, 0, 1}, {"logits", &args.logits, 4, 0, 1},
        {"last_logits", &args.last_logits, 4, 0, 1},
#ifdef PAGED
        {"page_table", &args.page_table, 4, 1, 1},
#endif
#ifdef ENCODER
        {"source", &args.source, 4, 1, 1}, {"kept", &args.kept, 64, 0, 0},
#endif
    };
    const struct pointer of_step[] = {
        {"model", &given.model, 1, 1, 0}, {"args", &given.args, 1, 1, 0}, {"arena", &given.arena, 64, 1, 0},
        {"ids", &given.ids, 4, 1, 1}, {"past", &given.past, 4, 1, 1}, {"cache", &args.cache, 4, 1, 0},
        {"last_logits", &args.last_logits, 4, 1, 1},
    };
    const struct pointer of_move[] = {
        {"cache", &given.cache, 1, 1, 0}, {"cache.cache", &moved.cache, 4, 1, 0}, {"past", &moved.past, 4, 1, 0},
        {"from", &given.from, 4, 1, 0}, {"work", &given.work, 4, 1, 0},
#ifdef PAGED
        {"page_table", &moved.page_table, 4, 1, 0}, {"free_pages", &moved.free_pages, 4, 1, 0},
#endif
    };
    const struct pointer of_pack[] = {
        {"file", &given.file, 64, 1, 0}, {"checkpoint", &given.shards, 1, 1, 0}, {"work", &given.work, 4, 1, 0},
        {"bytes of a shard", &given.shards->bytes, 1, 1, 0},
    };
    POINTERS("run", of_run, given_run, inside);
    float *const last_before = args.last_logits;
    args.last_logits = last;
    POINTERS("step", of_step, given_step, inside);
    args.last_logits = last_before;
    POINTERS("cache_move", of_move, given_move, NULL);
    moved.batch = SIZE_MAX / 2;
    check("cache_move: more sequences than memory has are an error", given_move() == ERROR(SIZE));
    given.work = given.file; /* it is refused before it is read */
    POINTERS("pack", of_pack, given_pack, NULL);
    const struct pointer of_open[] = {{"model", &given.model, 1, 1, 0}, {"file", &given.file, 1, 1, 0}};
    FUNCTION() other;
    given.model = &other;
    POINTERS("open", of_open, given_open, NULL);
}

/* Tokens `from` to before `to` of both sequences, behind those; their logits into `some`, one row for each. */
static int chunk(int from, int to)
{
    int32_t part[TOKENS];
    FUNCTION(_args) call = args;
    for (int s = 0; s < BATCH; s++) {
        past[s] = from;
        for (int i = from; i < to; i++)
            part[s * (to - from) + i - from] = ids[s * N + i];
    }
    call.ids = part, call.n = (size_t)(to - from), call.hidden = NULL, call.last_logits = NULL, call.logits = some;
    const int error = FUNCTION(_run)(&model, &call, arena);
    for (int s = 0; s < BATCH; s++)
        past[s] = 0;
    return error;
}

/* Whether `some` has the logits of tokens `from` to before `to` */
static int is_chunk(int from, int to, float within)
{
    float most = 0;
    for (int s = 0; s < BATCH; s++) {
        const float off = largest_difference(some + s * (to - from) * VOCAB, logits + (s * N + from) * VOCAB,
                                             (size_t)(to - from) * VOCAB);
        most = off <= most ? most : off;
    }
    return most <= within;
}

#ifdef THREADED
/* A call of a thread of its own: all that it writes is its own, the model is shared */
struct apart {
    FUNCTION(_args) args;
    unsigned char *arena;
    int error;
};

static void *run_apart(void *of)
{
    struct apart *a = of;
    a->error = FUNCTION(_run)(&model, &a->args, a->arena);
    return NULL;
}

/* Two threads run the same call of one model at once; `many` has the bits that it must give. */
static void check_threads(const FUNCTION(_args) *many, size_t cache_bytes)
{
    struct apart two[2];
    pthread_t threads[2];
    int same = 1;
    for (int i = 0; i < 2; i++) {
        two[i] = (struct apart){.args = *many, .arena = aligned(CONSTANT(MODEL_ARENA_BYTES)(3))};
        two[i].args.cache = aligned(cache_bytes);
        memcpy(two[i].args.cache, many->cache, cache_bytes);
        two[i].args.hidden = aligned(TOKENS * D * sizeof(float));
        two[i].args.logits = aligned(TOKENS * VOCAB * sizeof(float));
        two[i].args.last_logits = aligned(BATCH * VOCAB * sizeof(float));
    }
    for (int i = 0; i < 2; i++)
        same &= pthread_create(&threads[i], NULL, run_apart, &two[i]) == 0;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        same &= two[i].error == 0 && memcmp(two[i].args.logits, many->logits, TOKENS * VOCAB * sizeof(float)) == 0;
        free(two[i].arena), free(two[i].args.cache), free(two[i].args.hidden);
        free(two[i].args.logits), free(two[i].args.last_logits);
    }
    check("two threads run one model at once, with the same bits", same);
}
#endif

#ifdef ENCODER
static void swap_sources(float *source)
{
    for (int i = 0; i < M * D; i++) {
        const float one = source[i];
        source[i] = source[M * D + i];
        source[M * D + i] = one;
    }
}

/* A step of token `at` of each sequence, whatever the arena holds */
static int one_step(const FUNCTION(_args) *call, int at)
{
    FUNCTION(_args) step = *call;
    int32_t next[BATCH];
    for (int s = 0; s < BATCH; s++) {
        past[s] = at;
        next[s] = ids[s * N + at];
    }
    step.hidden = NULL, step.logits = NULL, step.lengths = NULL;
    memset(arena, 0xff, CONSTANT(MODEL_ARENA_BYTES)(3));
    const int error = FUNCTION(_step)(&model, &step, next, past, arena);
    past[0] = past[1] = 0;
    return error;
}

/* Calls that bring no source have the bits of calls that do. `lengths`: of sources, or NULL. */
static void check_kept(float *source, int32_t *lengths)
{
    static float all[TOKENS * VOCAB], two[2][BATCH * VOCAB];
    enum { BLOCKS = BATCH + 1 };
    const FUNCTION(_args) before = args;
    unsigned char *kept = aligned(CONSTANT(MODEL_KEPT_BYTES)(BLOCKS));
    int32_t blocks[BATCH] = {2, 0}, moving[CONSTANT(MODEL_MOVE_BYTES)(BATCH) / 4];
    size_t phases = 0;
    past[0] = past[1] = 0;
    memset(kept, 0xff, CONSTANT(MODEL_KEPT_BYTES)(BLOCKS));
    args.hidden = NULL, args.logits = all, args.last_logits = two[0];
    check("a call that keeps nothing runs", FUNCTION(_run)(&model, &args, arena) == 0 && one_step(&args, N - 1) == 0);
    memset(args.cache, 0xff, CONSTANT(MODEL_CACHE_BYTES)(UNITS));
    args.kept = kept, args.kept_of = blocks, args.kept_blocks = BLOCKS, args.source = NULL;
    args.logits = some, args.last_logits = two[1];
    memset(some, 0x55, sizeof some);
    check("no source is an error where none was kept", FUNCTION(_run)(&model, &args, arena) == ERROR(KEPT));
    memset(kept, 0, CONSTANT(MODEL_KEPT_BYTES)(BLOCKS));
    check("and in zeros", FUNCTION(_run)(&model, &args, arena) == ERROR(KEPT));
    const unsigned char *bytes = (const unsigned char *)some, *held = (const unsigned char *)args.cache;
    check("which writes nothing", bytes[0] == 0x55 && memcmp(bytes, bytes + 1, sizeof some - 1) == 0 && held[0] == 0xff &&
                                      memcmp(held, held + 1, CONSTANT(MODEL_CACHE_BYTES)(UNITS) - 1) == 0);
    args.source = source;
    check("a call that keeps its sources runs", FUNCTION(_run)(&model, &args, arena) == 0);
    check("with the same bits", memcmp(some, all, sizeof all) == 0);
    args.source = NULL;
    memset(args.cache, 0xff, CONSTANT(MODEL_CACHE_BYTES)(UNITS));
    args.parallel = backwards, args.context = &phases;
    check("the same tokens without sources, by several workers", FUNCTION(_run)(&model, &args, arena) == 0 && phases > 0);
    check("have the same bits", memcmp(some, all, sizeof all) == 0);
    args.parallel = NULL, args.context = NULL;
    memset(args.cache, 0xff, CONSTANT(MODEL_CACHE_BYTES)(UNITS));
    check("chunks without sources run", chunk(0, 4) == 0 && is_chunk(0, 4, 2e-5f) && chunk(4, 6) == 0 &&
                                            is_chunk(4, 6, 2e-5f) && chunk(6, N) == 0 && is_chunk(6, N, 2e-5f));
    past[0] = past[1] = 0; /* few tokens at once go another path, whose bits are others */
    memset(args.cache, 0xff, CONSTANT(MODEL_CACHE_BYTES)(UNITS));
    check("and a step", FUNCTION(_run)(&model, &args, arena) == 0 && one_step(&args, N - 1) == 0);
    check("with the bits of one with sources", memcmp(two[0], two[1], sizeof two[0]) == 0);

    /* of other lengths */
    if (lengths != NULL)
        lengths[1]--;
    else
        args.m--;
    check("another length is an error", one_step(&args, N - 1) == ERROR(KEPT));
    if (lengths != NULL)
        lengths[1]++;
    else
        args.m++;
    blocks[1] = BLOCKS;
    check("so is a block that there is not", one_step(&args, N - 1) == ERROR(LENGTH));
    blocks[1] = -1;
    check("and a negative one", one_step(&args, N - 1) == ERROR(LENGTH));
    blocks[1] = 0;
    args.kept_of = NULL, args.kept_blocks = BATCH - 1;
    check("fewer blocks than sequences are an error", one_step(&args, N - 1) == ERROR(SIZE));
    args.kept_of = blocks, args.kept = kept + 4, args.kept_blocks = BLOCKS;
    check("so is a place beside its alignment", one_step(&args, N - 1) == ERROR(ALIGNMENT));
    args.kept = NULL;
    check("and none at all", one_step(&args, N - 1) == ERROR(NULL));
    args.kept = kept;

    /* sequences change places, and share a source */
    int32_t from[BATCH] = {1, 0};
    FUNCTION(_cache) moved = {.cache = args.cache, .past = past, .kept_of = blocks, .batch = BATCH};
    past[0] = past[1] = N - 1;
    check("sequences change places with what they keep", FUNCTION(_cache_move)(&moved, from, moving) == 0);
    check("by the numbers of blocks", blocks[0] == 0 && blocks[1] == 2);
    int32_t first[N];
    memcpy(first, ids, sizeof first);
    memcpy(ids, ids + N, sizeof first);
    memcpy(ids + N, first, sizeof first);
    const int32_t length = lengths != NULL ? lengths[0] : 0;
    if (lengths != NULL)
        lengths[0] = lengths[1], lengths[1] = length;
    check("a step runs then, without sources", one_step(&args, N - 1) == 0);
    check("and has the other one's bits", memcmp(two[1], two[0] + VOCAB, sizeof two[0] / BATCH) == 0 &&
                                              memcmp(two[1] + VOCAB, two[0], sizeof two[0] / BATCH) == 0);
    past[0] = past[1] = N - 1;
    from[0] = from[1] = 1;
    check("a sequence is copied", FUNCTION(_cache_move)(&moved, from, moving) == 0 && blocks[0] == 2 && blocks[1] == 2);
    const int32_t other = lengths != NULL ? lengths[0] : 0;
    if (lengths != NULL)
        lengths[0] = lengths[1];
    memcpy(ids, ids + N, sizeof first);
    check("both go on from one source", one_step(&args, N - 1) == 0);
    check("with the same bits", memcmp(two[1], two[0], sizeof two[0] / BATCH) == 0 &&
                                    memcmp(two[1] + VOCAB, two[0], sizeof two[0] / BATCH) == 0);
    memcpy(ids, first, sizeof first);
    if (lengths != NULL)
        lengths[0] = other;
    past[0] = past[1] = 0;

    /* another source in the same blocks, as if no one had been there */
    blocks[0] = 0, blocks[1] = 1;
    args.kept_of = NULL, args.source = source; /* of the sequences as they were: those of `ids` have changed places */
    args.kept = NULL, args.kept_blocks = 0;
    check("a call with other sources runs", FUNCTION(_run)(&model, &args, arena) == 0 && one_step(&args, N - 1) == 0);
    memcpy(two[0], two[1], sizeof two[0]);
    args.kept = kept, args.kept_blocks = BLOCKS;
    check("and keeps them over the old ones", FUNCTION(_run)(&model, &args, arena) == 0);
    args.source = NULL;
    check("of which a step has the bits", one_step(&args, N - 1) == 0 && memcmp(two[0], two[1], sizeof two[0]) == 0);

    memcpy(first, ids, sizeof first);
    memcpy(ids, ids + N, sizeof first);
    memcpy(ids + N, first, sizeof first);
    if (lengths != NULL)
        lengths[1] = lengths[0], lengths[0] = length;
    args = before;
    free(kept);
}
#endif

/* Where sequence s has its cache, whatever batch a call has */
static void *cache_of(void *cache, size_t s)
{
#ifdef PAGED
    (void)s;
    return cache;
#else
    return (unsigned char *)cache + s * CONSTANT(MODEL_CACHE_BYTES)(1);
#endif
}

/* Runs the first N - 1 tokens of sequence s alone and then its last one, with logits of that; past is N - 1 then. */
static int run_alone(const FUNCTION(_args) *of, size_t s, void *its_cache, float *its_last)
{
    FUNCTION(_args) one = *of;
    int32_t id = ids[s * N + N - 1];
    one.batch = 1, one.n = N - 1, one.ids += s * N, one.past += s, one.cache = its_cache;
    one.hidden = NULL, one.logits = NULL, one.last_logits = its_last;
#ifdef PAGED
    one.page_table += s * CONSTANT(PAGES);
#endif
#ifdef ENCODER
    one.source += s * M * D;
#if ENCODER == 1
    one.source_lengths += s;
#endif
#endif
    past[s] = 0;
    int error = FUNCTION(_run)(&model, &one, arena);
    past[s] = N - 1;
    error = error ? error : FUNCTION(_step)(&model, &one, &id, past + s, arena);
    past[s] = N - 1;
    return error;
}

/* Sequences that were computed alone, each in its place of the cache, go on as a batch, and are copied and saved. */
static void check_joining(void *cache, size_t cache_bytes)
{
    float alone[BATCH * VOCAB], together[BATCH * VOCAB];
    FUNCTION(_args) step = args;
    int32_t next[BATCH];
    memset(cache, 0xff, cache_bytes);
    for (size_t s = 0; s < BATCH; s++) {
        check("a sequence runs alone", run_alone(&args, s, cache_of(cache, s), alone + s * VOCAB) == 0);
        next[s] = ids[s * N + N - 1];
    }
    step.hidden = NULL, step.logits = NULL, step.last_logits = together;
    check("and both go on together", FUNCTION(_step)(&model, &step, next, past, arena) == 0);
    check("with the bits that each has alone", memcmp(alone, together, sizeof alone) == 0);
#ifndef PAGED
    unsigned char *const saved = aligned(CONSTANT(MODEL_CACHE_BYTES)(1)), *const held = cache;
    memcpy(saved, cache_of(cache, 1), CONSTANT(MODEL_CACHE_BYTES)(1));
    memset(cache, 0xff, cache_bytes);
    memcpy(held, saved, CONSTANT(MODEL_CACHE_BYTES)(1));
    free(saved);
    FUNCTION(_args) one = step;
    one.batch = 1, next[0] = ids[N + N - 1], past[0] = N - 1;
#ifdef ENCODER
    one.source += M * D;
#if ENCODER == 1
    one.source_lengths++;
#endif
#endif
    check("what was saved of one goes on in another's place", FUNCTION(_step)(&model, &one, next, past, arena) == 0 &&
                                                                 memcmp(together, alone + VOCAB, sizeof alone / BATCH) == 0);
#endif
#ifndef ENCODER
    int32_t from[BATCH] = {0, 0}, moving[CONSTANT(MODEL_MOVE_BYTES)(BATCH) / 4];
    FUNCTION(_cache) moved = {.cache = cache, .past = past, .batch = BATCH};
#ifdef PAGED
    int32_t table[BATCH * CONSTANT(PAGES)];
    static const int32_t free_pages[] = {0};
    memcpy(table, args.page_table, sizeof table);
    moved.page_table = table, moved.pages = UNITS, moved.free_pages = free_pages, moved.free_count = 1;
    step.page_table = table;
#endif
    memset(cache, 0xff, cache_bytes);
    check("a prompt runs alone", run_alone(&args, 0, cache, together) == 0);
    past[1] = 0;
    check("is copied to a second sequence", FUNCTION(_cache_move)(&moved, from, moving) == 0);
    next[0] = next[1] = ids[N - 1];
    check("and both go on from it", FUNCTION(_step)(&model, &step, next, past, arena) == 0);
    check("with the bits that it has alone", memcmp(alone, together, sizeof alone / BATCH) == 0 &&
                                                 memcmp(alone, together + VOCAB, sizeof alone / BATCH) == 0);
#endif
    past[0] = past[1] = 0;
}

static int run_it(const FUNCTION() *of)
{
    return FUNCTION(_run)(of, &args, arena);
}

int main(int argc, char **argv)
{
    FUNCTION(_shard) shards[MOST_SHARDS];
    const size_t count = argc > 2 ? read_shards(argc, argv, shards) : 0;
    if (count == 0)
        return 2;
    const size_t file_bytes = CONSTANT(MODEL_BYTES)(2), cache_bytes = CONSTANT(MODEL_CACHE_BYTES)(UNITS);
    unsigned char *file = aligned(file_bytes);
    void *work = malloc(CONSTANT(MODEL_WORK_BYTES));
    float *cache = aligned(cache_bytes);
    arena = aligned(CONSTANT(MODEL_ARENA_BYTES)(3));
    check("a file is packed for this machine", FUNCTION(_pack)(file, shards, count, NULL, 1, work) == 0);
    check("and opens", FUNCTION(_open)(&model, file, CONSTANT(MODEL_BYTES)(1)) == 0);
    const int isas[2] = {SCALAR, (int)JOIN(NAME, FIRST)(model.part[0])};
    check("a file is packed for two instruction sets", FUNCTION(_pack)(file, shards, count, isas, 2, work) == 0);
    check("its checksum is right", FUNCTION(_verify)(file, file_bytes) == 0);
    check("it opens", FUNCTION(_open)(&model, file, file_bytes) == 0);
    check("by the best of its instruction sets", (int)JOIN(NAME, FIRST)(model.part[0]) == isas[1]);

    draw_ids(ids, N, STEP);
    memset(cache, 0xff, cache_bytes); /* NaN */
    args = (FUNCTION(_args)){.ids = ids, .past = past, .cache = cache, .hidden = hidden, .logits = logits,
                             .last_logits = last, .batch = BATCH, .n = N};
#ifdef PAGED
    int32_t table[BATCH * CONSTANT(PAGES)];
    for (int i = 0; i < BATCH * CONSTANT(PAGES); i++)
        table[i] = UNITS - 1 - i;
    args.page_table = table, args.pages = UNITS;
#endif
#ifdef ENCODER
    static float source[BATCH * M * D];
    FUNCTION(_encode_args) encode = {.hidden = source, .batch = BATCH};
#if ENCODER == 1
    int32_t words[BATCH * M], lengths[BATCH] = {9, 6};
    draw_ids(words, M, 5);
    encode.ids = words, encode.lengths = lengths, encode.n = M;
    args.source_lengths = lengths;
#else
    static float frames[BATCH * FRAMES];
    draw_numbers(frames, BATCH * FRAMES);
    encode.frames = frames;
#endif
    check("it encodes", FUNCTION(_encode)(&model, &encode, arena) == 0);
    check("hidden states of the encoder are those of transformers",
          is_answer(argv[1], "encoder_hidden", source, BATCH * M * D));
    args.source = source, args.m = M;
#endif
    check("it runs", FUNCTION(_run)(&model, &args, arena) == 0);
    check("hidden states are those of transformers", is_answer(argv[1], "hidden", hidden, TOKENS * D));
    check("logits are those of transformers", is_answer(argv[1], "logits", logits, TOKENS * VOCAB));
    int same = 1;
    for (int s = 0; s < BATCH; s++)
        same &= largest_difference(last + s * VOCAB, logits + (s * N + N - 1) * VOCAB, VOCAB) < 2e-5f;
    check("last_logits are those of the last tokens", same);

    /* the same in pieces, behind NaN */
    memset(cache, 0xff, cache_bytes);
    check("four tokens run", chunk(0, 4) == 0);
    check("with the logits that they have among more", is_chunk(0, 4, 2e-5f));
    check("two more run", chunk(4, 6) == 0);
    check("with their logits", is_chunk(4, 6, 2e-5f));
    for (int i = 6; i < N; i++) {
        check("one more runs", chunk(i, i + 1) == 0);
        check("with its logits", is_chunk(i, i + 1, 2e-5f));
    }
    float last_step[BATCH * VOCAB];
    memcpy(last_step, some, sizeof last_step);

    /* the same step by the function for steps */
    int32_t next[BATCH];
    for (int s = 0; s < BATCH; s++) {
        past[s] = N - 1;
        next[s] = ids[s * N + N - 1];
    }
    FUNCTION(_args) step = args;
    step.hidden = NULL, step.logits = NULL, step.n = 5, step.ids = NULL, step.past = NULL;
    check("a step runs", FUNCTION(_step)(&model, &step, next, past, arena) == 0);
    check("its logits have the bits of a chunk of one token", memcmp(last, last_step, sizeof last) == 0);
    check("past is one more", past[0] == N && past[1] == N);
    same = 1;
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < VOCAB; i++)
            same &= last[s * VOCAB + next[s]] >= last[s * VOCAB + i];
    check("and ids are the likeliest", same && next[0] >= 0 && next[0] < VOCAB);
    /* new tokens of different number: those that are there have their logits, the others are zeros and store nothing */
    int32_t few[BATCH] = {4, 2};
    memset(cache, 0xff, cache_bytes);
    past[0] = past[1] = 0;
    FUNCTION(_args) ragged = args;
    static float ragged_hidden[TOKENS * D];
    ragged.lengths = few, ragged.logits = some, ragged.hidden = ragged_hidden, ragged.n = 4;
    int32_t part[BATCH * 4];
    for (int i = 0; i < BATCH * 4; i++)
        part[i] = i % 4 < few[i / 4] ? ids[i / 4 * N + i % 4] : -1;
    ragged.ids = part;
    check("sequences of four and two tokens run", FUNCTION(_run)(&model, &ragged, arena) == 0);
    check("with their logits", largest_difference(some, logits, 4 * VOCAB) < 2e-5f &&
                                   largest_difference(some + 4 * VOCAB, logits + N * VOCAB, 2 * VOCAB) < 2e-5f);
    static const float zeros[2 * VOCAB + 2 * D];
    check("and zeros behind", memcmp(some + 6 * VOCAB, zeros, 2 * VOCAB * sizeof(float)) == 0 &&
                                  memcmp(ragged_hidden + 6 * D, zeros, 2 * D * sizeof(float)) == 0);
    check("last_logits are those of the last ones", largest_difference(last, logits + 3 * VOCAB, VOCAB) < 2e-5f &&
                                                        largest_difference(last + VOCAB, logits + (N + 1) * VOCAB, VOCAB) < 2e-5f);
    few[1] = 0;
    memset(last, 0x55, sizeof last);
    check("a sequence without tokens has zeros", FUNCTION(_run)(&model, &ragged, arena) == 0 &&
              memcmp(last + VOCAB, zeros, VOCAB * sizeof *last) == 0 && memcmp(some + 4 * VOCAB, zeros, sizeof zeros) == 0);
    few[1] = 2;
    for (int i = 0; i < BATCH * 4; i++)
        part[i] = ids[i / 4 * N + (few[i / 4] + i % 4) % N];
    past[0] = few[0], past[1] = few[1], few[0] = 4, few[1] = 4;
    check("four more of each run", FUNCTION(_run)(&model, &ragged, arena) == 0);
    check("with their logits", largest_difference(some, logits + 4 * VOCAB, 3 * VOCAB) < 2e-5f &&
                                   largest_difference(some + 4 * VOCAB, logits + (N + 2) * VOCAB, 4 * VOCAB) < 2e-5f);
    past[0] = past[1] = 0;
    check("all tokens again", FUNCTION(_run)(&model, &args, arena) == 0);
    for (int s = 0; s < BATCH; s++)
        next[s] = ids[s * N + N - 1], past[s] = N - 1;
    check("and a step", FUNCTION(_step)(&model, &step, next, past, arena) == 0);

    /* sequences change places, or become copies, in every layer */
    int32_t from[BATCH] = {1, 0};
    int32_t moving[CONSTANT(MODEL_MOVE_BYTES)(BATCH) / 4];
    FUNCTION(_cache) moved = {.cache = cache, .past = past, .batch = BATCH};
    static int32_t free_pages[] = {0};
#ifdef PAGED
    moved.page_table = table, moved.pages = UNITS, moved.free_pages = free_pages, moved.free_count = 1;
#else
    (void)free_pages;
#endif
    past[0] = past[1] = N - 1;
    check("sequences change places", FUNCTION(_cache_move)(&moved, from, moving) == 0);
#ifdef ENCODER /* what they read changes places too */
    swap_sources(source);
#if ENCODER == 1
    lengths[0] = 6, lengths[1] = 9;
#endif
#endif
    for (int s = 0; s < BATCH; s++)
        next[s] = ids[(BATCH - 1 - s) * N + N - 1];
    memcpy(last_step, last, sizeof last);
    check("a step runs then", FUNCTION(_step)(&model, &step, next, past, arena) == 0);
    check("and has the other one's logits", memcmp(last, last_step + VOCAB, sizeof last / BATCH) == 0 &&
                                                memcmp(last + VOCAB, last_step, sizeof last / BATCH) == 0);
#ifdef ENCODER
    swap_sources(source);
#if ENCODER == 1
    lengths[0] = 9, lengths[1] = 6;
#endif
#else
    past[0] = past[1] = N - 1;
    from[0] = from[1] = 1;
    check("a sequence is copied", FUNCTION(_cache_move)(&moved, from, moving) == 0);
#ifdef PAGED
    check("whose last page takes the free one", moved.free_count == 0 && table[1] != table[1 + CONSTANT(PAGES)]);
#endif
    next[0] = next[1] = ids[N - 1];
    check("a step of copies runs", FUNCTION(_step)(&model, &step, next, past, arena) == 0);
    check("with the same logits", memcmp(last, last + VOCAB, sizeof last / BATCH) == 0 &&
                                      memcmp(last, last_step, sizeof last / BATCH) == 0);
#endif
    from[0] = BATCH, from[1] = 0;
    check("no such sequence is an error", FUNCTION(_cache_move)(&moved, from, moving) != 0);

    last[0] = NAN, last[5] = 1e30f;
    check("NaN is never the likeliest", FUNCTION(_argmax)(last) == 5);
    past[0] = past[1] = 0;

#ifdef ENCODER
#if ENCODER == 1
    check_kept(source, lengths);
#else
    check_kept(source, NULL);
#endif
#endif

#ifdef PAGED
    for (int i = 0; i < BATCH * CONSTANT(PAGES); i++)
        table[i] = UNITS - 1 - i;
#endif
    check_joining(cache, cache_bytes);

    /* other orders, the same bits */
    size_t phases = 0;
    static float hidden_again[TOKENS * D];
    args.hidden = hidden_again, args.logits = some, args.last_logits = last_step;
    FUNCTION(_run)(&model, &args, arena);
    FUNCTION(_args) many = args;
    many.hidden = hidden, many.logits = logits, many.last_logits = last;
    many.parallel = backwards, many.context = &phases;
    memset(arena, 0xff, CONSTANT(MODEL_ARENA_BYTES)(3));
    check("several workers run it", FUNCTION(_run)(&model, &many, arena) == 0 && phases > 0);
    check("with the same bits", memcmp(hidden, hidden_again, sizeof hidden) == 0 &&
                                    memcmp(logits, some, sizeof logits) == 0 && memcmp(last, last_step, sizeof last) == 0);

#ifdef THREADED
    check_threads(&args, cache_bytes);
#endif

    /* what is refused, and writes nothing */
    memset(some, 0x55, sizeof some);
    memset(hidden_again, 0x55, sizeof hidden_again);
    memcpy(hidden, hidden_again, sizeof hidden);
    memcpy(logits, some, sizeof logits);
    float *copy = aligned(cache_bytes), *spare = aligned(cache_bytes);
    memcpy(copy, cache, cache_bytes);
    args.last_logits = NULL;
    ids[N + 3] = VOCAB;
    check("an id out of range is an error", FUNCTION(_run)(&model, &args, arena) == ERROR(ID));
    ids[N + 3] = -1;
    check("a negative one too", FUNCTION(_run)(&model, &args, arena) == ERROR(ID));
    ids[N + 3] = 2;
    past[1] = PAST - N + 1;
    check("more tokens than a sequence can have are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(LENGTH));
    past[1] = -1;
    check("a negative past too", FUNCTION(_run)(&model, &args, arena) == ERROR(LENGTH));
    past[1] = 0;
    if (PAST < INT32_MAX) { /* the last position of each: of two tokens one exists */
        int32_t ones[BATCH] = {1, 1}, full[BATCH] = {PAST - 1, PAST - 1};
        FUNCTION(_args) close = args;
        close.lengths = ones, close.past = full, close.n = 2, close.hidden = NULL, close.logits = NULL;
        close.cache = spare;
        check("lengths are counted, not n, where the cache is nearly full", FUNCTION(_run)(&model, &close, arena) == 0);
        ones[1] = 2;
        check("and are an error where it has no room", FUNCTION(_run)(&model, &close, arena) == ERROR(LENGTH));
    }
    args.n = SEQ_LEN + 1;
    check("more tokens than a call can have are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(SIZE));
    args.n = N;
    unsigned char *const held = (unsigned char *)cache;
    args.hidden = (float *)(void *)(held + cache_bytes - 4);
    check("hidden states in the cache's last bytes are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(OVERLAP));
    args.hidden = hidden_again, args.logits = (float *)(void *)held;
    check("so are logits in its first", FUNCTION(_run)(&model, &args, arena) == ERROR(OVERLAP));
    args.logits = some, args.cache = (void *)((unsigned char *)ids + sizeof ids - 64);
    check("and a cache that begins in ids", FUNCTION(_run)(&model, &args, arena) == ERROR(OVERLAP));
    args.cache = (void *)((unsigned char *)past + sizeof past - cache_bytes);
    check("or ends in past", FUNCTION(_run)(&model, &args, arena) == ERROR(OVERLAP));
    args.cache = NULL;
    check("no cache is an error", FUNCTION(_run)(&model, &args, arena) == ERROR(NULL));
    args.cache = cache;
    check("an arena beside its alignment is an error", FUNCTION(_run)(&model, &args, arena + 4) == ERROR(ALIGNMENT));
#ifdef PAGED
    table[CONSTANT(PAGES)] = UNITS;
    check("a page out of range is an error", FUNCTION(_run)(&model, &args, arena) == ERROR(LENGTH));
    table[CONSTANT(PAGES)] = -1;
    check("a negative page too", FUNCTION(_run)(&model, &args, arena) == ERROR(LENGTH));
    table[CONSTANT(PAGES)] = 0;
#endif
#ifdef ENCODER
    args.m = M + SEQ_LEN + CONSTANT(ENCODER_SEQ_LEN);
    check("more rows of the encoder than there can be are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(SIZE));
    args.m = M;
    args.source = NULL;
    check("no rows of the encoder are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(NULL));
    args.source = source;
#if ENCODER == 1
    lengths[1] = M + 1;
    check("a length above m is an error", FUNCTION(_run)(&model, &args, arena) == ERROR(LENGTH));
    check("and above n of the encoder", FUNCTION(_encode)(&model, &encode, arena) == ERROR(LENGTH));
    lengths[1] = 6;
#endif
#endif
    given.file = file, given.shards = shards, given.count = count, given.bytes = file_bytes;
    check_misuse(cache_bytes);
    check("nothing was written then", memcmp(hidden_again, hidden, sizeof hidden) == 0 &&
                                          memcmp(some, logits, sizeof logits) == 0 && memcmp(copy, cache, cache_bytes) == 0);
    args.last_logits = last;
    args.n = 0;
    check("no token is no error", FUNCTION(_run)(&model, &args, arena) == 0 && last[0] == 0.0f);
    args.n = N, args.batch = 0;
    check("nor is no sequence", FUNCTION(_run)(&model, &args, arena) == 0);
    args.batch = BATCH;
    check_headers(file, file_bytes, run_it);
    file[file_bytes / 2] ^= 1;
    check("a changed byte is noticed", FUNCTION(_verify)(file, file_bytes) == ERROR(PACKED));
    file[0] ^= 1;
    check("a file of another kind is not opened", FUNCTION(_open)(&model, file, file_bytes) == ERROR(PACKED));
    for (size_t i = 0; i < count; i++)
        free(shard_bytes[i]);
    free(file), free(work), free(arena), free(cache), free(copy), free(spare);
    return failed;
}
