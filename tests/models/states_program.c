/* SPDX-License-Identifier: MIT */
/* The NAME_model.c of a model with recurrent layers, against what transformers answers, and its promises: program
 * ANSWERS CHECKPOINT…. See model_test.h; with -DPAGED, or -DALONE where no layer has keys. */
#define OVERLAPS
#include "model_test.h"

#include <setjmp.h>

enum { N = 9, VOCAB = CONSTANT(VOCAB), TOKENS = BATCH * N };
#ifdef PAGED
enum { UNITS = BATCH * CONSTANT(PAGES) };
#else
enum { UNITS = BATCH };
#endif
#ifdef ALONE
#define CACHED(...)
#else
#define CACHED(...) __VA_ARGS__
#endif
#ifndef CLOSE
#define CLOSE 2e-5f /* how far logits are from those of the same tokens in other calls; states of 16 bits make it more */
#endif

static int32_t ids[TOKENS], past[BATCH];
static float hidden[TOKENS * D], logits[TOKENS * VOCAB], last[BATCH * VOCAB], some[TOKENS * VOCAB];
static FUNCTION() model;
static FUNCTION(_args) args;
static unsigned char *arena;
static size_t state_bytes CACHED(, cache_bytes);

/* What the calls of check_pointers() are given */
static struct {
    FUNCTION() *model;
    FUNCTION(_args) *args;
    FUNCTION(_cache) *cache;
    void *arena, *work;
    int32_t *from;
} given;

static int given_run(void) { return FUNCTION(_run)(given.model, given.args, given.arena); }
static int given_move(void) { return FUNCTION(_cache_move)(given.cache, given.from, given.work); }

/* Tokens `from` to before `to` of `count` sequences from `first` on, their logits into `to_logits` [count][to - from] */
static int chunk(size_t first, size_t count, int from, int to, float *to_logits)
{
    int32_t part[TOKENS];
    FUNCTION(_args) call = args;
    for (size_t s = 0; s < count; s++) {
        past[first + s] = from;
        for (int i = from; i < to; i++)
            part[s * (size_t)(to - from) + (size_t)(i - from)] = ids[(first + s) * N + (size_t)i];
    }
    call.ids = part, call.n = (size_t)(to - from), call.hidden = NULL, call.last_logits = NULL, call.logits = to_logits;
    call.batch = count, call.past += first, call.lengths = NULL;
    call.states += first * CONSTANT(MODEL_STATES_BYTES)(1) / sizeof(float);
#ifdef PAGED
    call.page_table += first * CONSTANT(PAGES);
#else
    CACHED(call.cache += first * CONSTANT(MODEL_CACHE_BYTES)(1) / sizeof(float);)
#endif
    return FUNCTION(_run)(&model, &call, arena);
}

/* Whether `of` has the logits of tokens `from` to before `to` of sequence s */
static int is_chunk(const float *of, int s, int from, int to)
{
    return largest_difference(of, logits + (s * N + from) * VOCAB, (size_t)(to - from) * VOCAB) <= CLOSE;
}

static int are_chunks(int from, int to)
{
    return is_chunk(some, 0, from, to) && is_chunk(some + (to - from) * VOCAB, 1, from, to);
}

static void forget(void) /* what is not there may be anything */
{
    memset(args.states, 0xff, state_bytes);
    CACHED(memset(args.cache, 0xff, cache_bytes);)
}

static void check_cuts(void)
{
    forget();
    check("four tokens run, with the logits that they have among more", chunk(0, 2, 0, 4, some) == 0 && are_chunks(0, 4));
    check("one more", chunk(0, 2, 4, 5, some) == 0 && are_chunks(4, 5));
    check("three more", chunk(0, 2, 5, 8, some) == 0 && are_chunks(5, 8));
    check("the last one", chunk(0, 2, 8, 9, some) == 0 && are_chunks(8, 9));

    int32_t next[BATCH] = {ids[0], ids[N]};
    FUNCTION(_args) call = args;
    call.logits = NULL, call.hidden = NULL;
    past[0] = past[1] = 0;
    int good = 1;
    for (int i = 0; i < 3; i++) { /* a step is a call of one token, and leaves the next one's id */
        for (int s = 0; s < BATCH; s++)
            next[s] = ids[s * N + i];
        good &= FUNCTION(_step)(&model, &call, next, past, arena) == 0 && past[0] == i + 1 && past[1] == i + 1;
    }
    check("three steps run", good);
    check("with the last one's logits", is_chunk(last, 0, 2, 3) && is_chunk(last + VOCAB, 1, 2, 3));

    forget();
    int32_t lengths[BATCH] = {5, 2};
    call = args, call.lengths = lengths, call.n = 5, call.hidden = NULL, call.last_logits = NULL, call.logits = some;
    int32_t part[BATCH * 5];
    for (int s = 0; s < BATCH; s++)
        memcpy(part + 5 * s, ids + s * N, 5 * sizeof *part);
    call.ids = part, past[0] = past[1] = 0;
    check("sequences of other lengths run", FUNCTION(_run)(&model, &call, arena) == 0);
    check("with their logits", is_chunk(some, 0, 0, 5) && is_chunk(some + 5 * VOCAB, 1, 0, 2));
    check("and go on from there", chunk(0, 1, 5, 9, some) == 0 && is_chunk(some, 0, 5, 9) &&
                                      chunk(1, 1, 2, 9, some) == 0 && is_chunk(some, 1, 2, 9));
}

/* Leaves a call from within its seventh phase of several parts. */
static jmp_buf halfway;
static void leaves(void *context, void part(void *of, size_t i, size_t worker), void *of, size_t parts)
{
    for (size_t i = 0; i < parts; i++)
        part(of, i, 0);
    if (++*(size_t *)context == 7)
        longjmp(halfway, 1);
}

static void check_refusals(void)
{
    static size_t phases;
    unsigned char *const before = aligned(state_bytes);
    past[0] = past[1] = 0;
    check("four tokens run", chunk(0, 2, 0, 4, some) == 0);
    memcpy(before, args.states, state_bytes);
    memset(some, 0x55, sizeof some);
    const unsigned char *bytes = (const unsigned char *)some;
    int refused = 1;
    for (int at = 1; at < 8; at++)
        refused &= at == 4 || chunk(0, 2, at, at + 1, some) == ERROR(STATES);
    check("states that hold another number of tokens are an error", refused);
    check("which writes nothing", bytes[0] == 0x55 && memcmp(bytes, bytes + 1, sizeof some - 1) == 0 &&
                                      memcmp(before, args.states, state_bytes) == 0);
    check("a negative past is an error", (past[0] = -1, given_run() == ERROR(LENGTH)));
    past[0] = past[1] = 4;
    args.n = 0;
    check("no tokens change no states", given_run() == 0 && memcmp(before, args.states, state_bytes) == 0);
    args.n = N;
    args.parallel = leaves, args.context = &phases;
    if (setjmp(halfway) == 0)
        (void)chunk(0, 2, 4, 8, some);
    args.parallel = NULL;
    for (int at = 1; at < 8; at++)
        refused &= chunk(0, 2, at, at + 1, some) == ERROR(STATES);
    check("states of a call that was left halfway hold no tokens", phases == 7 && refused);
    past[0] = past[1] = 0;
    free(before);
}

/* States and caches change places, and one sequence becomes two. */
static void check_moves(void)
{
    int32_t from[BATCH] = {1, 0}, moving[CONSTANT(MODEL_MOVE_BYTES)(BATCH) / 4];
    FUNCTION(_cache) moved = {CACHED(.cache = args.cache,) .states = args.states, .past = past, .batch = BATCH};
#ifdef PAGED
    int32_t free_pages[UNITS] = {0};
    moved.page_table = (int32_t *)(uintptr_t)args.page_table, moved.pages = args.pages;
    moved.free_pages = free_pages;
#endif
    given.cache = &moved, given.from = from, given.work = moving;
    chunk(0, 2, 0, 4, some);
    chunk(0, 1, 4, 5, some);
    past[0] = 5, past[1] = 4;
    check("sequences change places", given_move() == 0 && past[0] == 4 && past[1] == 5);
    int32_t swapped[N];
    memcpy(swapped, ids, sizeof swapped);
    memcpy(ids, ids + N, sizeof swapped);
    memcpy(ids + N, swapped, sizeof swapped);
    check("and go on as the other ones", chunk(0, 1, 4, 9, some) == 0 && is_chunk(some, 1, 4, 9) &&
                                             chunk(1, 1, 5, 9, some) == 0 && is_chunk(some, 0, 5, 9));
    memcpy(ids + N, ids, sizeof swapped);
    memcpy(ids, swapped, sizeof swapped);
#ifndef PAGED
    chunk(0, 2, 0, 4, some);
    past[0] = past[1] = 4;
    from[0] = from[1] = 0;
    check("a sequence is copied", given_move() == 0 && past[1] == 4);
    memcpy(swapped, ids + N, sizeof swapped);
    memcpy(ids + N, ids, sizeof swapped);
    check("and both go on", chunk(0, 2, 4, 9, some) == 0 && is_chunk(some, 0, 4, 9) && is_chunk(some + 5 * VOCAB, 0, 4, 9));
    memcpy(ids + N, swapped, sizeof swapped);
    chunk(0, 2, 0, 4, some);
    past[0] = past[1] = 4;
    from[0] = 0, from[1] = -1;
    check("a sequence is dropped", given_move() == 0 && past[0] == 4 && past[1] == 0);
    check("the other one goes on", chunk(0, 1, 4, 9, some) == 0 && is_chunk(some, 0, 4, 9));
    check("and a new one begins", chunk(1, 1, 0, 9, some) == 0 && is_chunk(some, 1, 0, 9));
#endif
    past[0] = past[1] = 4;
    from[0] = 0, from[1] = BATCH;
    check("a sequence that there is not is an error", given_move() != 0 && past[0] == 4 && past[1] == 4);
    from[1] = 1;
    const struct pointer of_move[] = {
        {"cache", &given.cache, 1, 1, 0}, CACHED({"cache.cache", &moved.cache, 4, 1, 0},) {"cache.states", &moved.states, 4, 1, 0},
        {"past", &moved.past, 4, 1, 0}, {"from", &given.from, 4, 1, 0}, {"work", &given.work, 4, 1, 0},
    };
    POINTERS("cache_move", of_move, given_move, NULL);
    past[0] = past[1] = 0;
}

int main(int argc, char **argv)
{
    FUNCTION(_shard) shards[MOST_SHARDS];
    const size_t count = argc > 2 ? read_shards(argc, argv, shards) : 0;
    if (count == 0)
        return 2;
    const size_t file_bytes = CONSTANT(MODEL_BYTES)(1);
    unsigned char *file = aligned(file_bytes);
    void *work = malloc(CONSTANT(MODEL_WORK_BYTES));
    CACHED(cache_bytes = CONSTANT(MODEL_CACHE_BYTES)(UNITS);)
    state_bytes = CONSTANT(MODEL_STATES_BYTES)(BATCH);
    arena = aligned(CONSTANT(MODEL_ARENA_BYTES)(3));
    check("every tensor can be taken", FUNCTION(_fault)(shards, count, (char[512]){0}) == NULL);
    check("a file is packed", FUNCTION(_pack)(file, shards, count, NULL, 1, work) == 0);
    check("it opens", FUNCTION(_open)(&model, file, file_bytes) == 0);
    draw_ids(ids, N, 5);
    args = (FUNCTION(_args)){.ids = ids, .past = past, CACHED(.cache = aligned(cache_bytes),) .states =
                             aligned(state_bytes), .hidden = hidden, .logits = logits, .last_logits = last, .batch = BATCH, .n = N};
#ifdef PAGED
    int32_t table[UNITS];
    for (int i = 0; i < UNITS; i++)
        table[i] = UNITS - 1 - i;
    args.page_table = table, args.pages = UNITS;
#endif
    given.args = &args, given.arena = arena, given.model = &model;
    forget();
    check("it runs", given_run() == 0);
    check("hidden states are those of transformers", is_answer(argv[1], "hidden", hidden, TOKENS * D));
    check("logits are those of transformers", is_answer(argv[1], "logits", logits, TOKENS * VOCAB));

    size_t phases = 0;
    forget();
    args.parallel = backwards, args.context = &phases, args.logits = some;
    check("several workers run it, with the same bits",
          given_run() == 0 && phases > 0 && memcmp(some, logits, sizeof logits) == 0);
    args.parallel = NULL, args.logits = logits;

    check_cuts();
    check_refusals();
    check_moves();

    const struct pointer of_run[] = {
        {"model", &given.model, 1, 1, 0}, {"args", &given.args, 1, 1, 0}, {"arena", &given.arena, 64, 1, 1},
        {"ids", &args.ids, 4, 1, 1}, {"past", &args.past, 4, 1, 1}, CACHED({"cache", &args.cache, 4, 1, 1},)
        {"states", &args.states, 4, 1, 0}, {"hidden", &args.hidden, 4, 0, 1}, {"logits", &args.logits, 4, 0, 1},
        {"last_logits", &args.last_logits, 4, 0, 1},
    };
    POINTERS("run", of_run, given_run, (char *)args.states + state_bytes / 2 / 64 * 64);
    free(file), free(work), free(arena), free(args.states);
    CACHED(free(args.cache);)
    return failed;
}
