/* SPDX-License-Identifier: MIT */
/* An encoder's NAME_model.c against what transformers answers, and its promises: program ANSWERS CHECKPOINT. See
 * model_test.h; with -DTYPES where there are types of tokens, -DPIXELS=768 of an image for a ViT. */
#include "model_test.h"

#ifdef PIXELS
enum { N = CONSTANT(SEQ_LEN) };
#else
enum { N = 9 };
#endif
enum { TOKENS = BATCH * N };

static FUNCTION(_args) args;
static unsigned char *arena;

static int run_it(const FUNCTION() *of)
{
    return FUNCTION(_run)(of, &args, arena);
}

int main(int argc, char **argv)
{
    size_t size;
    if (argc != 3)
        return 2;
    unsigned char *bytes = read_all(argv[2], &size);
    const size_t file_bytes = CONSTANT(MODEL_BYTES)(2);
    unsigned char *file = aligned(file_bytes);
    arena = aligned(CONSTANT(MODEL_ARENA_BYTES)(3));
    void *work = malloc(CONSTANT(MODEL_WORK_BYTES));
    FUNCTION(_shard) shard = {bytes, size};
    int isas[2] = {SCALAR, SCALAR};
    FUNCTION() model;

    static float hidden[TOKENS * D], again[TOKENS * D];
#define HEAD(name, rows, width) static float name[BATCH * (rows) * (width)], name##_again[BATCH * (rows) * (width)];
    HEADS
#undef HEAD
    args = (FUNCTION(_args)){.hidden = hidden, .batch = BATCH};
#ifdef PIXELS
    static float pixels[BATCH * PIXELS];
    draw_numbers(pixels, BATCH * PIXELS);
    args.pixels = pixels;
#else
    int32_t ids[TOKENS], types[TOKENS], lengths[BATCH] = {9, 6};
    static float mean[BATCH * D];
    draw_ids(ids, N, 5);
    for (int i = 0; i < TOKENS; i++)
        types[i] = i % N % 2;
    args.ids = ids, args.lengths = lengths, args.n = N, args.mean = mean;
#endif
#ifdef TYPES
    args.types = types;
#elif !defined PIXELS
    (void)types;
#endif
#define HEAD(name, rows, width) args.name = name;
    HEADS
#undef HEAD
    check("a file is packed for this machine", FUNCTION(_pack)(file, &shard, 1, NULL, 1, work) == 0);
    check("and opens", FUNCTION(_open)(&model, file, CONSTANT(MODEL_BYTES)(1)) == 0);
    const int best = isas[1] = (int)JOIN(NAME, _layer_isa)(model.part[0]);
    check("a file is packed for two instruction sets", FUNCTION(_pack)(file, &shard, 1, isas, 2, work) == 0);
    check("its checksum is right", FUNCTION(_verify)(file, file_bytes) == 0);
    check("it opens", FUNCTION(_open)(&model, file, file_bytes) == 0);
    check("by the best of its instruction sets", JOIN(NAME, _layer_isa)(model.part[0]) == best);
    args.parallel = backwards;
    args.context = &isas;
    args.hidden = (float *)(void *)((char *)hidden + 2);
    check("hidden states beside their boundary are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(ALIGNMENT));
    args.parallel = NULL;
    args.hidden = hidden;
    check("it runs", FUNCTION(_run)(&model, &args, arena) == 0);
    check("hidden states are those of transformers", is_answer(argv[1], "hidden", hidden, TOKENS * D));
#define HEAD(name, rows, width) \
    check(#name " is that of transformers", is_answer(argv[1], #name, name, BATCH * (rows) * (width)));
    HEADS
#undef HEAD
#ifndef PIXELS
    float sums[BATCH * D] = {0};
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < lengths[s]; i++)
            for (int d = 0; d < D; d++)
                sums[s * D + d] += hidden[(s * N + i) * D + d] / (float)lengths[s];
    check("the mean is that of tokens that exist", largest_difference(mean, sums, BATCH * D) < 2e-6f);
#endif

#ifdef POOLED /* sequence s by column d: the sum of its n rows, its first, its last, its largest number */
    float pooled[BATCH * D], embedding[BATCH * D];
    args.embedding = embedding;
    check("it runs with its modules", FUNCTION(_run)(&model, &args, arena) == 0);
    args.embedding = NULL;
    for (int s = 0; s < BATCH; s++) {
        double squares = 0;
        for (int d = 0; d < D; d++) {
            const float *column = hidden + s * N * D + d;
            const int n = lengths[s];
            float sum = 0, largest = -INFINITY;
            for (int i = 0; i < n; i++) {
                sum += column[i * D];
                largest = fmaxf(largest, column[i * D]);
            }
            const float first = column[0], last = column[(n - 1) * D];
            (void)sum, (void)largest, (void)first, (void)last;
            pooled[s * D + d] = POOLED;
            squares += (double)pooled[s * D + d] * (double)pooled[s * D + d];
        }
        for (int d = 0; d < D; d++)
            pooled[s * D + d] /= (float)sqrt(squares);
    }
    check("embeddings are what the modules say", largest_difference(embedding, pooled, BATCH * D) < 2e-6f);
    const FUNCTION(_args) plain = {.ids = ids, .lengths = lengths, .embedding = embedding, .batch = BATCH, .n = N};
    check("one call gives them", FUNCTION(_run)(&model, &plain, arena) == 0 &&
              FUNCTION(_embed)(&model, ids, lengths, BATCH, N, pooled, arena) == 0 &&
              memcmp(pooled, embedding, sizeof pooled) == 0 &&
              FUNCTION(_embed)(&model, NULL, lengths, BATCH, N, pooled, arena) == ERROR(NULL) &&
              FUNCTION(_embed)(&model, ids, lengths, BATCH, N, NULL, arena) == ERROR(NULL));
#endif

    size_t phases = 0;
    args.hidden = again;
#define HEAD(name, rows, width) args.name = name##_again;
    HEADS
#undef HEAD
    args.parallel = backwards;
    args.context = &phases;
    memset(arena, 0xff, CONSTANT(MODEL_ARENA_BYTES)(3));
    check("several workers run it", FUNCTION(_run)(&model, &args, arena) == 0 && phases > 0);
    int same = memcmp(hidden, again, sizeof hidden) == 0;
#define HEAD(name, rows, width) same &= memcmp(name, name##_again, sizeof name) == 0;
    HEADS
#undef HEAD
    check("with the same bits", same);
    args.parallel = NULL;
    memset(again, 0, sizeof again);
#define HEAD(name, rows, width) memset(name##_again, 0, sizeof name);
    HEADS
#undef HEAD
    for (size_t s = 0; s < BATCH; s++) {
        FUNCTION(_args) one = args;
        one.batch = 1, one.hidden += s * N * D;
#ifdef PIXELS
        one.pixels += s * PIXELS;
#else
        one.ids += s * N, one.lengths += s, one.mean += s * D;
#endif
#ifdef TYPES
        one.types += s * N;
#endif
#define HEAD(name, rows, width) one.name += s * (rows) * (width);
        HEADS
#undef HEAD
        check("a sequence alone runs", FUNCTION(_run)(&model, &one, arena) == 0);
    }
    same = memcmp(hidden, again, sizeof hidden) == 0;
#define HEAD(name, rows, width) same &= memcmp(name, name##_again, sizeof name) == 0;
    HEADS
#undef HEAD
    check("with the same bits as together", same);
#ifndef PIXELS
    lengths[1] = 0;
    check("a sequence without tokens runs", FUNCTION(_run)(&model, &args, arena) == 0);
    same = memcmp(hidden, again, sizeof hidden / BATCH) == 0;
    for (int d = 0; d < D; d++)
        same &= mean[D + d] == 0.0f && again[(N + d % N) * D + d] == 0.0f;
#define HEAD(name, rows, width) \
    for (int i = 0; i < (rows) * (width); i++) \
        same &= name##_again[(rows) * (width) + i] == 0.0f;
    HEADS
#undef HEAD
    check("and has zeros", same);
#ifdef POOLED
    check("also of its modules", FUNCTION(_run)(&model, &plain, arena) == 0 && memcmp(embedding, pooled, sizeof pooled / BATCH) == 0 &&
              embedding[D] == 0.0f && memcmp(embedding + D, embedding + D + 1, (D - 1) * sizeof *embedding) == 0);
    FUNCTION(_args) empty = plain;
    empty.n = 0;
    check("and where all are without", FUNCTION(_run)(&model, &empty, arena) == 0 &&
              memcmp(embedding, embedding + D, sizeof embedding / BATCH) == 0);
#endif
    lengths[1] = 6;
    memset(again, 0, sizeof again);
#endif
#define HEAD(name, rows, width) args.name = NULL;
    HEADS
#undef HEAD

    memset(again, 0x55, sizeof again);
    float untouched[TOKENS * D];
    memcpy(untouched, again, sizeof again);
#ifndef PIXELS
    ids[3] = CONSTANT(VOCAB);
    check("an id out of range is an error", FUNCTION(_run)(&model, &args, arena) == ERROR(ID));
    ids[3] = -1;
    check("a negative one too", FUNCTION(_run)(&model, &args, arena) == ERROR(ID));
    ids[3] = 2;
    ids[N + 7] = -5;
    check("behind a sequence's end nobody looks", FUNCTION(_run)(&model, &args, arena) == 0);
    memcpy(again, untouched, sizeof again);
    lengths[1] = N + 1;
    check("a length above n is an error", FUNCTION(_run)(&model, &args, arena) == ERROR(LENGTH));
    lengths[1] = 6;
    args.n = CONSTANT(SEQ_LEN) + 1;
    check("more tokens than the model has are an error", FUNCTION(_run)(&model, &args, arena) == ERROR(SIZE));
    args.n = N;
#endif
    check("an arena beside its alignment is an error", FUNCTION(_run)(&model, &args, arena + 4) == ERROR(ALIGNMENT));
    check("nothing was written then", memcmp(again, untouched, sizeof again) == 0);
    args.batch = 0;
    check("no sequence is no error", FUNCTION(_run)(&model, &args, arena) == 0);
    args.batch = BATCH;

    /* Bits of the header and of each block's, which say how the rest is read: refused, or what opens runs */
    const unsigned char *heads[1 + sizeof model.part / sizeof *model.part] = {file};
    for (size_t i = 1; i < sizeof heads / sizeof *heads; i++)
        heads[i] = (const unsigned char *)model.part[i - 1] - 32;
    int named = 1, works = 1;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t bit = 0; bit < 8 * (i == 0 ? 64 + 64 : 64); bit++) {
            unsigned char *byte = file + (heads[i] - file) + bit / 8;
            *byte ^= (unsigned char)(1 << bit % 8);
            FUNCTION() other;
            const int error = FUNCTION(_open)(&other, file, file_bytes);
            named &= error == 0 || error == ERROR(PACKED) || error == ERROR(ISA);
            works &= error != 0 || FUNCTION(_run)(&other, &args, arena) == 0;
            *byte ^= (unsigned char)(1 << bit % 8);
        }
    check("a changed bit of a header is refused, or changes nothing that matters", named && works);
    check_headers(file, file_bytes, run_it);
    memcpy(again, untouched, sizeof again);

    file[file_bytes / 2] ^= 1;
    check("a changed byte is noticed", FUNCTION(_verify)(file, file_bytes) == ERROR(PACKED));
    file[file_bytes / 2] ^= 1;
    check("a file that is cut off is not opened", FUNCTION(_open)(&model, file, file_bytes - 64) == ERROR(PACKED));
    check("and leaves no model", FUNCTION(_run)(&model, &args, arena) == ERROR(NULL));
    file[0] ^= 1;
    check("nor one of another kind", FUNCTION(_open)(&model, file, file_bytes) == ERROR(PACKED));
    const size_t header = 8 + (bytes[0] | (size_t)bytes[1] << 8);
    int refused = 1, known = 1;
    for (size_t cut = 0; cut < size; cut += 1 + size / 400) {
        unsigned char *part = malloc(cut + 1); /* so that a tool sees what is read behind it */
        memcpy(part, bytes, cut);
        FUNCTION(_shard) some = {part, cut};
        const int error = FUNCTION(_pack)(file, &some, 1, isas, 2, work);
        refused &= error == ERROR(CHECKPOINT) || cut > header;
        known &= error == ERROR(CHECKPOINT) || error == 0; /* the last tensors may be another model's */
        free(part);
    }
    check("a checkpoint that is cut off in its header is refused", refused);
    check("and behind it, or what is missing is not needed", known);
    unsigned char *whole = malloc(size); /* so that a tool sees what is read behind it */
    memcpy(whole, bytes, size);
    known = 1;
    for (size_t bit = 0; bit < 8 * header; bit += bit < 64 ? 1 : 11) {
        FUNCTION(_shard) changed = {whole, size};
        whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
        const int error = FUNCTION(_pack)(file, &changed, 1, isas, 2, work);
        known &= error == ERROR(CHECKPOINT) || error == ERROR(NONFINITE) || error == 0;
        whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(whole);
    check("a changed bit of its header is refused, or reads numbers that are there", known);
    FUNCTION(_shard) none = {bytes, header};
    check("without numbers it is refused", FUNCTION(_pack)(file, &none, 1, isas, 2, work) == ERROR(CHECKPOINT));
    check("and leaves no file", FUNCTION(_open)(&model, file, file_bytes) == ERROR(PACKED));
    check("instruction sets that there are not are refused",
          FUNCTION(_pack)(file, &shard, 1, (const int[]){99}, 1, work) == ERROR(ISA));
    memset(bytes + header, 0xff, size - header); /* NaN in every type */
    check("a weight that is NaN is refused", FUNCTION(_pack)(file, &shard, 1, isas, 2, work) == ERROR(NONFINITE));
    free(bytes), free(file), free(arena), free(work);
    return failed;
}
