/* SPDX-License-Identifier: MIT */
/* bge embed MODEL.safetensors < TEXTS: a text a line, as the ids of its tokens; prints how alike each is to the first one,
 * the cosine of their embeddings. bge rerank MODEL.safetensors < PAIRS: a query and a text a line, as the ids that the
 * model's tokenizer makes of the pair; prints the numbers of the lines, the best one first, with their scores. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bge_model.h"
#include "rerank_model.h"

enum { MOST = 64, LONGEST = BGE_SEQ_LEN > RERANK_SEQ_LEN ? BGE_SEQ_LEN : RERANK_SEQ_LEN };

/* Texts side by side, padded to the longest one's n */
static struct texts {
    int32_t ids[MOST * LONGEST], lengths[MOST];
    size_t count, n;
} texts;

static void stop(const char *text, const char *name)
{
    fprintf(stderr, "%s%s\n", name, text);
    exit(2);
}

/* On 64 bytes, for the program's whole life; C11's aligned_alloc is not on Windows. */
static void *aligned(size_t bytes)
{
    char *memory = malloc(bytes + 63);
    if (memory == NULL)
        stop("no memory", "");
    return memory + (-(uintptr_t)memory & 63);
}

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        stop(" cannot be read", path);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = aligned(*size);
    if (fread(bytes, 1, *size, file) != *size)
        stop(" cannot be read", path);
    fclose(file);
    return bytes;
}

static void read_texts(struct texts *of, size_t longest)
{
    static char line[1 << 16];
    static int32_t rows[MOST][LONGEST];
    for (; of->count < MOST && fgets(line, sizeof line, stdin) != NULL; of->count++) {
        size_t length = 0;
        for (char *at = strtok(line, " \n"), *end; at != NULL; at = strtok(NULL, " \n")) {
            const long id = strtol(at, &end, 10);
            if (*end != '\0' || id < 0 || id > INT32_MAX)
                stop(" is no id of a token; ids come from the model's tokenizer", at);
            if (length == longest)
                stop("a text has too many tokens", "");
            rows[of->count][length++] = (int32_t)id;
        }
        of->lengths[of->count] = (int32_t)length;
        of->n = length > of->n ? length : of->n;
    }
    for (size_t i = 0; i < of->count; i++)
        memcpy(of->ids + i * of->n, rows[i], of->n * sizeof *of->ids);
}

static int embed(const bge_model_shard *shard)
{
    static float rows[MOST][BGE_D_MODEL];
    bge_model model;
    void *file = aligned(BGE_MODEL_BYTES(1)), *arena = aligned(BGE_MODEL_ARENA_BYTES(1));
    int error = bge_model_pack(file, shard, 1, NULL, 1, aligned(BGE_MODEL_WORK_BYTES));
    error = error ? error : bge_model_open(&model, file, BGE_MODEL_BYTES(1));
    read_texts(&texts, BGE_SEQ_LEN);
    error = error ? error : bge_model_embed(&model, texts.ids, texts.lengths, texts.count, texts.n, rows[0], arena);
    for (size_t i = 0; i < texts.count && !error; i++) {
        double dot = 0; /* rows have length 1 */
        for (size_t d = 0; d < BGE_D_MODEL; d++)
            dot += (double)rows[0][d] * rows[i][d];
        printf("%zu: %d tokens, cosine %.4f\n", i, texts.lengths[i], dot);
    }
    return error ? fprintf(stderr, "%s\n", bge_model_strerror(error)), 1 : 0;
}

static float scores[MOST][RERANK_CLASSIFIER_WIDTH];

static int by_score(const void *a, const void *b)
{
    const float x = scores[*(const size_t *)a][0], y = scores[*(const size_t *)b][0];
    return x < y ? 1 : x > y ? -1 : 0;
}

static int rerank(const rerank_model_shard *shard)
{
    size_t order[MOST];
    rerank_model model;
    void *file = aligned(RERANK_MODEL_BYTES(1)), *arena = aligned(RERANK_MODEL_ARENA_BYTES(1));
    int error = rerank_model_pack(file, shard, 1, NULL, 1, aligned(RERANK_MODEL_WORK_BYTES));
    error = error ? error : rerank_model_open(&model, file, RERANK_MODEL_BYTES(1));
    read_texts(&texts, RERANK_SEQ_LEN);
    const rerank_model_args args = {.ids = texts.ids, .lengths = texts.lengths, .classifier = scores[0],
                                    .batch = texts.count, .n = texts.n};
    error = error ? error : rerank_model_run(&model, &args, arena);
    for (size_t i = 0; i < texts.count; i++)
        order[i] = i;
    qsort(order, texts.count, sizeof *order, by_score);
    for (size_t i = 0; i < texts.count && !error; i++)
        printf("%zu: score %.4f\n", order[i], (double)scores[order[i]][0]);
    return error ? fprintf(stderr, "%s\n", rerank_model_strerror(error)), 1 : 0;
}

int main(int argc, char **argv)
{
    const int embeds = argc == 3 && strcmp(argv[1], "embed") == 0;
    size_t size;
    if (!embeds && (argc != 3 || strcmp(argv[1], "rerank") != 0))
        stop("usage: bge embed|rerank MODEL.safetensors < IDS", "");
    const void *bytes = read_file(argv[2], &size);
    return embeds ? embed(&(bge_model_shard){bytes, size}) : rerank(&(rerank_model_shard){bytes, size});
}
