/* SPDX-License-Identifier: MIT */
/* Packed files of emitted models, and checkpoints, spoilt: what opens runs and reads nothing outside the file
 * (AddressSanitizer sees it), what packs has read nothing outside the checkpoint, and what NAME_model_open refuses as no
 * whole file NAME_model_verify refuses too.
 *
 * Left out on purpose: weights that are others (a file of them is a legal one), and whether numbers are right.
 */
#include "fuzz.h"

#include "bert_model.h"
#include "gpt2_model.h"

enum { ALIGNMENT = 64, HEADER = 32, BATCH = 2, TOKENS = 3, ISA = 7, NONFINITE = 8, PACKED = 9, CHECKPOINT = 22 };

struct shard {
    const void *bytes;
    size_t size;
};

static const struct model {
    const char *checkpoint;
    size_t common, of_isa, parts;
    int (*pack)(void *file, const struct shard *shard, const int *isas, size_t count, void *work);
    int (*open)(void *model, const void *file, size_t bytes);
    int (*verify)(const void *file, size_t bytes);
    int (*run)(const void *model);
    size_t work;
} models[];

static const int32_t ids[BATCH * TOKENS] = {2, 3, 4, 5, 6, 7}, past[BATCH];
static float hidden[BATCH * TOKENS * 64];

#define FUNCTIONS(model_, MODEL_, more) \
    _Static_assert(sizeof(model_##_model_shard) == sizeof(struct shard), "alike for every model"); \
    static int model_##_packs(void *f, const struct shard *s, const int *i, size_t c, void *w) \
    { const model_##_model_shard of = {s->bytes, s->size}; return model_##_model_pack(f, &of, 1, i, c, w); } \
    static int model_##_opens(void *m, const void *f, size_t b) { return model_##_model_open(m, f, b); } \
    static int model_##_runs(const void *m) \
    { \
        static _Alignas(64) unsigned char arena[MODEL_##_MODEL_ARENA_BYTES(1)]; \
        const model_##_model_args args = {.ids = ids, .hidden = hidden, .batch = BATCH, .n = TOKENS more}; \
        return model_##_model_run(m, &args, arena); \
    }
#define ROW(model_, MODEL_, checkpoint) \
    {checkpoint, MODEL_##_MODEL_COMMON_BYTES, MODEL_##_MODEL_ISA_BYTES, \
     sizeof(((model_##_model *)NULL)->part) / sizeof(void *), model_##_packs, model_##_opens, model_##_model_verify, \
     model_##_runs, MODEL_##_MODEL_WORK_BYTES}

static _Alignas(64) unsigned char cache[GPT2_MODEL_CACHE_BYTES(BATCH)];
FUNCTIONS(bert, BERT, )
#define GPT2_MORE , .past = past, .cache = (float *)(void *)cache
FUNCTIONS(gpt2, GPT2, GPT2_MORE)

static const struct model models[] = {
    ROW(bert, BERT, "tests/models/imports/bert/model.safetensors"),
    ROW(gpt2, GPT2, "tests/models/imports/gpt2/model.safetensors"),
};
#define MODELS (sizeof models / sizeof *models)

static union { bert_model bert; gpt2_model gpt2; } opened;

static struct {
    unsigned char *checkpoint, *file; /* file: for two sets, as if packed elsewhere */
    size_t checkpoint_bytes, bytes;
} good[MODELS];

static void *get(size_t bytes)
{
    void *p = NULL;
    REQUIRE(posix_memalign(&p, ALIGNMENT, bytes) == 0);
    return p;
}

/* Where the block of a part for a set begins, in a good file */
static size_t block_at(size_t m, size_t part, size_t set)
{
    uint64_t block = 0;
    size_t at = 64 + models[m].common;
    for (size_t i = 0; i <= part; i++, at += 2 * (size_t)block)
        memcpy(&block, good[m].file + at + 16, sizeof block);
    return at - (2 - set) * (size_t)block;
}

static void make_good(size_t m)
{
    const struct model *model = &models[m];
    FILE *in = fopen(model->checkpoint, "rb");
    void *work = get(model->work);
    REQUIRE(in != NULL, "%s: run it in the project's folder", model->checkpoint);
    good[m].checkpoint = get(1 << 20);
    good[m].checkpoint_bytes = fread(good[m].checkpoint, 1, 1 << 20, in);
    fclose(in);
    const struct shard shard = {good[m].checkpoint, good[m].checkpoint_bytes};
    good[m].bytes = 64 + model->common + 2 * model->of_isa;
    good[m].file = get(good[m].bytes);
    /* scalar, and avx2 if it is there */
    const int best = model->pack(good[m].file, &shard, (const int[]){1, 2}, 2, work) == 0 ? 2 : 1;
    REQUIRE(model->pack(good[m].file, &shard, (const int[]){1, best}, 2, work) == 0);
    REQUIRE(model->verify(good[m].file, good[m].bytes) == 0);
    for (size_t part = 0; part < model->parts; part++)
        for (size_t set = 0; set < 2; set++) {
            unsigned char *block = good[m].file + block_at(m, part, set);
            memcpy(block + HEADER, block, HEADER);
            memset(block + HEADER + 16, 0, 8);
            memcpy(block, "atte", 4);
            memcpy(block + HEADER, "atto", 4);
        }
    REQUIRE(model->open(&opened, good[m].file, good[m].bytes) == 0 && model->run(&opened) == 0);
    free(work);
}

/* A place that says how the rest is read: the file's header and the blocks' sizes, or a header of a block */
static unsigned char *place(struct bytes *in, size_t m, unsigned char *file)
{
    const size_t which = take_below(in, 4 * models[m].parts + 4);
    if (which < 4)
        return file + which * HEADER; /* the header, and 64 bytes with sizes of blocks */
    return file + block_at(m, (which - 4) / 4, which / 2 % 2) + which % 2 * HEADER;
}

static void try_open(struct bytes *in, size_t m)
{
    const struct model *model = &models[m];
    unsigned char kept[HEADER], *all = get(good[m].bytes);
    memcpy(all, good[m].file, good[m].bytes);
    for (unsigned changes = 1 + take(in) % 4; changes > 0; changes--) {
        unsigned char *to = place(in, m, all), *from = place(in, m, all);
        const unsigned way = take(in) % 8;
        const size_t word = take(in) % 4 * 8, first = way == 0 ? 4 : way < 3 ? 0 : word;
        const size_t bytes = way == 0 ? 12 : way < 3 ? (size_t)HEADER : 8; /* set and layer alone, all, or a word */
        memcpy(kept, to, HEADER);
        if (way < 4) {
            memcpy(to + first, from + first, bytes);
            if (way % 2 == 1)
                memcpy(from + first, kept + first, bytes);
        } else if (way < 6) {
            to[take(in) % HEADER] ^= (unsigned char)(1u << take(in) % 8);
        } else {
            uint64_t number = take_word(in);
            number = way == 6 ? number / 64 * 64 : number % 4 * model->of_isa + (64 + model->common) * (number % 2);
            memcpy(to + word, &number, sizeof number);
        }
    }
    size_t bytes = take(in) < 200 ? good[m].bytes : take_word(in) % (good[m].bytes + 1);
    unsigned char *file = get(bytes + 1);
    memcpy(file, all, bytes);
    free(all);
    if (take(in) % 4 == 1 && bytes >= 32) /* it says how long it is */
        memcpy(file + 24, &(uint64_t){bytes}, 8);
    const int error = model->open(&opened, file, bytes), verified = model->verify(file, bytes);
    REQUIRE(error == 0 || error == PACKED || error == ISA, "%d", error);
    REQUIRE(error != PACKED || verified == PACKED, "%d", verified);
    REQUIRE(error != 0 || model->run(&opened) == 0);
    free(file);
}

static void try_pack(struct bytes *in, size_t m)
{
    const struct model *model = &models[m];
    const size_t bytes = take(in) < 128 ? good[m].checkpoint_bytes : take_word(in) % (good[m].checkpoint_bytes + 1);
    unsigned char *file = get(64 + model->common + model->of_isa), *checkpoint = malloc(bytes + 1);
    void *work = get(model->work);
    uint64_t header = 0;
    REQUIRE(checkpoint != NULL);
    memcpy(checkpoint, good[m].checkpoint, bytes);
    memcpy(&header, good[m].checkpoint, sizeof header);
    for (unsigned changes = 1 + take(in) % 6; changes > 0 && bytes > 0; changes--) {
        const size_t at = take(in) % 8 == 1 ? take(in) % 8 : take_word(in) % ((size_t)header + 8);
        const unsigned byte = take(in);
        if (at < bytes)
            checkpoint[at] = (unsigned char)(byte < 32 ? "0123456789[]{}\",: \\eE-+.F16B\n\t"[byte % 31] : byte);
    }
    const struct shard shard = {checkpoint, bytes};
    const int error = model->pack(file, &shard, (const int[]){1}, 1, work);
    REQUIRE(error == 0 || error == CHECKPOINT || error == NONFINITE, "%d", error);
    REQUIRE((model->verify(file, 64 + model->common + model->of_isa) == 0) == (error == 0));
    free(checkpoint), free(file), free(work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = {data, data + size};
    for (size_t m = 0; m < MODELS && good[m].file == NULL; m++)
        make_good(m);
    const size_t m = take_below(&in, MODELS);
    (take(&in) % 4 == 0 ? try_pack : try_open)(&in, m);
    return 0;
}
