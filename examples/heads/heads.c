/* SPDX-License-Identifier: MIT */
/* heads TASK STEPS SEED RATE CHECKPOINT [TEXT]: trains a model whose attention is an emitted pair, "attention", and prints one
 * JSON object: what it learned, how long it took. A run that was ended goes on from its checkpoint.
 *
 *     x = word[id] + place[t];    x += attention(norm(x)) in each layer;    logits = norm(x) output
 *     norm(x) = x / sqrt(mean of x^2 + 1e-6) gain
 *
 * Compiled by run.py with -DLAYERS, -DFIELDS='FIELD(w_q, numbers, inputs) …' of each weight (a bias has no inputs), and
 * -DSCORES where the pair writes attention weights: then those are what it prints, and nothing is trained. */
#include "attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { D = ATTENTION_D_MODEL, N = ATTENTION_SEQ_LEN, BATCH = 32, TOKENS = BATCH * N, MOST_WORDS = 96, POINTS = 20,
       VALIDATION = 16 /* batches */ };

/* ---- parameters: word, place, of each layer gain and the pair's weights, gain, output [D][words] ---- */

#define FIELD(name, numbers, inputs) +(numbers)
enum { OF_LAYER = D FIELDS };
#undef FIELD

static size_t words; /* of the task */
static size_t at_layer(size_t layer) { return (words + N) * D + layer * OF_LAYER; }
static size_t parameters(void) { return at_layer(LAYERS) + D + D * words; }

static void must(int good, const char *what)
{
    if (!good)
        exit((fprintf(stderr, "heads: %s\n", what), 3));
}
static void check(int error) { must(error == 0, attention_strerror(error)); }

/* On 64 bytes, for the program's whole life; C11's aligned_alloc is not on Windows. */
static float *memory(size_t floats)
{
    char *at = calloc(floats + 16, sizeof(float));
    must(at != NULL, "no memory");
    return (float *)(void *)(at + (-(uintptr_t)at & 63));
}

/* ---- random numbers: SplitMix64 of Steele, Lea and Flood ---- */

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u, z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static int below(uint64_t *state, int n) { return (int)(next(state) % (uint64_t)n); }
static float normal(uint64_t *state)
{
    const double u = ((double)(next(state) >> 11) + 1) * 0x1p-53, v = (double)(next(state) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* ---- tasks: ids of a batch, and of each token what should follow it; -1: nothing is asked ---- */

static char text[1 << 24];
static size_t text_length;

static void shuffle(uint64_t *state, int *of, int n)
{
    for (int i = 0, j; i < n; of[j] = i++) /* from the inside out */
        of[i] = of[j = below(state, i + 1)];
}

/* Pairs of a key and a value, then keys among them again and again: which value did each have? */
static void draw_recall(uint64_t *state, int held_out, int *ids, int *wanted)
{
    enum { KEYS = 32, PAIRS = 8 };
    int keys[KEYS] = {0}, values[PAIRS] = {0};
    (void)held_out;
    shuffle(state, keys, KEYS);
    for (int i = 0; i < N / 2; i++) {
        const int pair = i < PAIRS ? i : below(state, PAIRS);
        values[pair] = i < PAIRS ? KEYS + below(state, KEYS) : values[pair];
        wanted[2 * i] = i < PAIRS ? -1 : values[pair];
        ids[2 * i] = keys[pair], ids[2 * i + 1] = values[pair];
    }
}

/* Numbers below 64, an end, and the numbers again in their order. */
static void draw_sort(uint64_t *state, int held_out, int *ids, int *wanted)
{
    enum { COUNT = N / 2, END = 64 };
    int counts[END] = {0}, at = COUNT;
    (void)held_out;
    for (int i = 0; i < COUNT; i++)
        counts[ids[i] = below(state, END)]++;
    for (int number = 0; number < END; number++)
        for (; counts[number] > 0; counts[number]--, at++)
            wanted[at] = ids[at + 1 < N ? at + 1 : COUNT] = number;
    ids[COUNT] = END; /* over the last number, which nothing follows */
}

static int character(char c) { return c >= ' ' && c <= '~' ? c - ' ' + 1 : 0; }
/* What character follows? The last tenth of the text is held out. */
static void draw_text(uint64_t *state, int held_out, int *ids, int *wanted)
{
    const size_t train = text_length / 10 * 9;
    const size_t from = held_out ? train + next(state) % (text_length - train - N - 1) : next(state) % (train - N - 1);
    for (size_t i = 0; i < N; i++)
        ids[i] = character(text[from + i]), wanted[i] = character(text[from + i + 1]);
}

static const struct task { const char *name; size_t words; void (*draw)(uint64_t *, int, int *, int *); } *task,
    tasks[] = {{"recall", 64, draw_recall}, {"sort", 65, draw_sort}, {"text", MOST_WORDS, draw_text}};

static void draw_batch(uint64_t *state, int held_out, int *ids, int *wanted)
{
    memset(wanted, 0xff, TOKENS * sizeof *wanted); /* -1 */
    for (size_t s = 0; s < BATCH; s++)
        task->draw(state, held_out, ids + s * N, wanted + s * N);
}

/* ---- the model ---- */

static struct {
    float *x[LAYERS + 1], *r[LAYERS + 1], *scale[LAYERS + 1]; /* of each layer its input, that normed, and by what */
    float *y, *dx, *dr, *saved[LAYERS], *attn, *packed[LAYERS], *scratch, *back, *transposed;
} s;

static attention_weights weights_of(const float *at)
{
#define FIELD(name, numbers, inputs) w.name = at, at += (numbers);
    attention_weights w = {0};
    FIELDS
    return w;
#undef FIELD
}

static attention_grads gradients_at(float *at)
{
#define FIELD(name, numbers, inputs) g.d##name = at, at += (numbers);
    attention_grads g = {.dy = s.dx, .dx = s.dr};
    FIELDS
    return g;
#undef FIELD
}

static void prepare(void)
{
    for (size_t i = 0; i <= LAYERS; i++) {
        s.x[i] = memory(TOKENS * D), s.r[i] = memory(TOKENS * D), s.scale[i] = memory(TOKENS);
        if (i < LAYERS)
            s.packed[i] = memory(ATTENTION_PACKED_BYTES / 4), s.saved[i] = memory(TOKENS * ATTENTION_SAVED_FLOATS);
    }
    s.y = memory(TOKENS * D), s.dx = memory(TOKENS * D), s.dr = memory(TOKENS * D);
    s.attn = memory((size_t)TOKENS * N * ATTENTION_H), s.transposed = memory(D * MOST_WORDS);
    s.scratch = memory(ATTENTION_SCRATCH_BYTES / 4), s.back = memory(ATTENTION_BACKWARD_SCRATCH_BYTES / 4);
}

static void norm(const float *x, const float *gain, float *r, float *scale)
{
    for (size_t t = 0; t < TOKENS; t++, x += D, r += D) {
        scale[t] = 0;
        for (size_t d = 0; d < D; d++)
            scale[t] += x[d] * x[d] / D;
        scale[t] = 1.0f / sqrtf(scale[t] + 1e-6f);
        for (size_t d = 0; d < D; d++)
            r[d] = x[d] * scale[t] * gain[d];
    }
}

/* dx += of the norm, from dr; dgain += */
static void norm_back(const float *x, const float *gain, const float *scale, const float *dr, float *dx, float *dgain)
{
    for (size_t t = 0; t < TOKENS; t++, x += D, dr += D, dx += D) {
        float dot = 0;
        for (size_t d = 0; d < D; d++)
            dot += dr[d] * gain[d] * x[d], dgain[d] += dr[d] * x[d] * scale[t];
        dot *= scale[t] * scale[t] / D;
        for (size_t d = 0; d < D; d++)
            dx[d] += scale[t] * (dr[d] * gain[d] - x[d] * dot);
    }
}

static attention_args call_of(size_t layer)
{
    return (attention_args){.x = s.r[layer], .y = s.y, .saved = s.saved[layer], .batch = BATCH, .n = N,
#ifdef SCORES
                            .attn = s.attn,
#endif
    };
}

/* The logits of one token in place of its exponentials' shares; the loss */
static double share_out(float *logits, int wanted, int *right)
{
    float most = logits[0], sum = 0, of = logits[wanted];
    for (size_t j = 1; j < words; j++)
        most = logits[j] > most ? logits[j] : most;
    for (size_t j = 0; j < words; j++)
        sum += logits[j] = expf(logits[j] - most);
    for (size_t j = 0; j < words; j++)
        logits[j] /= sum;
    *right += of == most;
    return (double)(most - of) + log((double)sum);
}

/* The mean loss of rows `r` behind the last norm; with `g` the gradient of the output, added, and s.dr that of r */
static double ask(const float *output, float *g, const int *wanted, double *accuracy)
{
    double loss = 0;
    int asked = 0, right = 0;
    for (size_t t = 0; t < TOKENS; t++)
        asked += wanted[t] >= 0;
    for (size_t d = 0; d < D; d++)
        for (size_t j = 0; j < words; j++)
            s.transposed[j * D + d] = output[d * words + j];
    memset(s.dr, 0, TOKENS * D * sizeof(float));
    for (size_t t = 0; t < TOKENS; t++) {
        const float *row = s.r[LAYERS] + t * D;
        float logits[MOST_WORDS] = {0};
        if (wanted[t] < 0)
            continue;
        for (size_t d = 0; d < D; d++)
            for (size_t j = 0; j < words; j++)
                logits[j] += row[d] * output[d * words + j];
        loss += share_out(logits, wanted[t], &right) / asked;
        logits[wanted[t]] -= 1;
        for (size_t j = 0; j < words && g != NULL; j++) {
            logits[j] /= (float)asked;
            for (size_t d = 0; d < D; d++)
                s.dr[t * D + d] += logits[j] * s.transposed[j * D + d];
        }
        for (size_t d = 0; d < D && g != NULL; d++)
            for (size_t j = 0; j < words; j++)
                g[d * words + j] += row[d] * logits[j];
    }
    *accuracy = (double)right / asked;
    return loss;
}

/* The mean loss of a batch; with `g` its gradient, added */
static double pass(const float *p, float *g, const int *ids, const int *wanted, double *accuracy)
{
    const size_t end = at_layer(LAYERS);
    for (size_t i = 0; i < TOKENS * D; i++)
        s.x[0][i] = p[(size_t)ids[i / D] * D + i % D] + p[(words + i / D % N) * D + i % D];
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const attention_weights w = weights_of(p + at_layer(layer) + D);
        const attention_args args = call_of(layer);
        norm(s.x[layer], p + at_layer(layer), s.r[layer], s.scale[layer]);
        check(attention_pack(s.packed[layer], &w, ATTENTION_ISA_AUTO));
        check(attention_forward(s.packed[layer], &args, s.scratch));
        for (size_t i = 0; i < TOKENS * D; i++)
            s.x[layer + 1][i] = s.x[layer][i] + s.y[i];
    }
    norm(s.x[LAYERS], p + end, s.r[LAYERS], s.scale[LAYERS]);
    const double loss = ask(p + end + D, g != NULL ? g + end + D : NULL, wanted, accuracy);
    if (g == NULL)
        return loss;
    memset(s.dx, 0, TOKENS * D * sizeof(float));
    norm_back(s.x[LAYERS], p + end, s.scale[LAYERS], s.dr, s.dx, g + end);
    for (size_t layer = LAYERS; layer-- > 0;) {
        const attention_args args = call_of(layer);
        const attention_grads grads = gradients_at(g + at_layer(layer) + D);
        check(attention_backward(s.packed[layer], &args, &grads, s.back));
        norm_back(s.x[layer], p + at_layer(layer), s.scale[layer], s.dr, s.dx, g + at_layer(layer));
    }
    for (size_t i = 0; i < TOKENS * D; i++) {
        g[(size_t)ids[i / D] * D + i % D] += s.dx[i];
        g[(words + i / D % N) * D + i % D] += s.dx[i];
    }
    return loss;
}

static void start(float *p, uint64_t *state)
{
    for (size_t i = 0; i < at_layer(0); i++)
        p[i] = 0.1f * normal(state);
    for (size_t i = 0; i < (LAYERS + 1) * (size_t)D; i++)
        p[at_layer(i / D) + i % D] = 1;
    for (size_t layer = 0; layer < LAYERS; layer++) {
        float *at = p + at_layer(layer) + D;
#define FIELD(name, numbers, inputs) \
    for (size_t i = 0; i < (numbers); i++) \
        *at++ = (inputs) > 0 ? normal(state) / sqrtf((float)((inputs) + ((inputs) == 0))) : 0;
        FIELDS
#undef FIELD
    }
    for (size_t i = at_layer(LAYERS) + D; i < parameters(); i++)
        p[i] = normal(state) / sqrtf((float)D);
}

/* AdamW of Loshchilov and Hutter: a warm-up of a twentieth of the steps, then half a cosine */
static void adamw(float *p, const float *g, float *m, float *v, size_t step, size_t steps, double most)
{
    const double pi = 3.141592653589793, warm = (double)steps / 20 + 1, t = (double)step + 1;
    const double rate = most * (t < warm ? t / warm : 0.5 * (1 + cos(pi * (t - warm) / ((double)steps - warm + 1))));
    const float by = (float)(rate * sqrt(1 - pow(0.98, t)) / (1 - pow(0.9, t))), decay = (float)(1 - 0.01 * rate);
    for (size_t i = 0; i < parameters(); i++) {
        m[i] += 0.1f * (g[i] - m[i]);
        v[i] += 0.02f * (g[i] * g[i] - v[i]);
        p[i] = p[i] * decay - by * m[i] / (sqrtf(v[i]) + 1e-8f);
    }
}

struct progress {
    uint64_t state, parameters, step, points;
    double seconds, losses[POINTS + 1], accuracies[POINTS + 1];
};

static void validate(const float *p, int *ids, int *wanted, double *loss, double *accuracy)
{
    uint64_t state = 1;
    double right;
    for (int i = 0; i < VALIDATION; i++) {
        draw_batch(&state, 1, ids, wanted);
        *loss += pass(p, NULL, ids, wanted, &right) / VALIDATION;
        *accuracy += right / VALIDATION;
    }
}

/* Parameters and both moments; beside its place first, so that a run that is ended leaves the old file. */
static void save(const char *path, const struct progress *at, const float *p)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "wb");
    must(file != NULL && fwrite(at, sizeof *at, 1, file) == 1 && fwrite(p, 12 * parameters(), 1, file) == 1 &&
             fclose(file) == 0 && rename(part, path) == 0, "the checkpoint cannot be written");
}

static int load(const char *path, struct progress *at, float *p)
{
    const uint64_t wanted = at->parameters;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 0;
    must(fread(at, sizeof *at, 1, file) == 1 && at->parameters == wanted && fread(p, 12 * wanted, 1, file) == 1,
         "the checkpoint is another model's; remove it");
    return fclose(file) == 0;
}

#ifdef SCORES
/* The weights of one held-out sequence in each layer, [layer][head][query][key] f32 */
static int show(const float *p, int *ids, int *wanted)
{
    uint64_t state = 2;
    double accuracy;
    draw_batch(&state, 1, ids, wanted);
    pass(p, NULL, ids, wanted, &accuracy);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const attention_args args = call_of(layer);
        check(attention_forward(s.packed[layer], &args, s.scratch));
        fwrite(s.attn, (size_t)ATTENTION_H * N * N * sizeof(float), 1, stdout);
    }
    return fflush(stdout) == 0 ? 0 : 3;
}
#endif
int main(int argc, char **argv)
{
    static int ids[TOKENS], wanted[TOKENS];
    for (size_t i = 0; argc >= 6 && i < sizeof tasks / sizeof *tasks; i++)
        task = strcmp(argv[1], tasks[i].name) == 0 ? &tasks[i] : task;
    FILE *file = argc > 6 ? fopen(argv[6], "rb") : NULL;
    if (task == NULL || (task->draw == draw_text && file == NULL))
        return fputs("usage: heads recall|sort|text STEPS SEED RATE CHECKPOINT [TEXT]; text needs one\n", stderr), 2;
    if (file != NULL) {
        text_length = fread(text, 1, sizeof text, file), fclose(file);
        must(text_length > 20 * (N + 2), "the text is too short");
    }
    words = task->words;
    prepare();
    const size_t count = parameters(), steps = (size_t)strtoul(argv[2], NULL, 10);
    static float *p; /* parameters, their moments, their gradients */
    float *m = (p = memory(4 * count)) + count, *v = m + count, *g = v + count;
    struct progress at = {.state = strtoull(argv[3], NULL, 10) * 1000003 + 17, .parameters = count};
    double accuracy, rate = strtod(argv[4], NULL), begin = (double)clock();
    if (!load(argv[5], &at, p))
        start(p, &at.state);
#ifdef SCORES
    return show(p, ids, wanted);
#endif
    while (at.step < steps) {
        memset(g, 0, count * sizeof *g);
        draw_batch(&at.state, 0, ids, wanted);
        pass(p, g, ids, wanted, &accuracy);
        adamw(p, g, m, v, at.step++, steps, rate);
        if (at.step * POINTS / steps == at.points)
            continue;
        at.seconds += ((double)clock() - begin) / CLOCKS_PER_SEC; /* of training alone */
        validate(p, ids, wanted, &at.losses[at.points], &at.accuracies[at.points]), at.points++;
        save(argv[5], &at, p);
        begin = (double)clock();
    }
    printf("{\"parameters\": %zu, \"seconds\": %.3f, \"points\": [", count, at.seconds);
    for (size_t i = 0; i < at.points; i++)
        printf("%s[%.5f, %.5f]", i > 0 ? ", " : "", at.losses[i], at.accuracies[i]);
    printf("]}\n");
    return fflush(stdout) == 0 ? 0 : 3;
}
