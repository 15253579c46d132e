/* SPDX-License-Identifier: MIT */
/* What layer = recurrent promises of its states: cuts of a sequence into calls, what a number reaches, numbers at the
 * ends of f32.
 */
#include "trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/memory.h"
#include "inputs/elements.h"
#include "plan/rule.h"
#include "reference/compare.h"

/* ---- a sequence in several calls ------------------------------------------------------------------------------- */

/* The states of a stream that is fed call by call, and all rows of y so far */
struct stream {
    void *states[2];
    float *y;
};

static void stream_free(struct stream *stream)
{
    free(stream->y);
    free(stream->states[0]);
    free(stream->states[1]);
}

/* Tokens first … first + part->n - 1 of all sequences, and the states so far */
static void take_tokens(const struct trial *t, struct inputs *part, size_t first, const struct stream *stream)
{
    int32_t *const lengths = part->tensor[TENSOR_LENGTHS];
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        const unsigned char *const from = t->in->tensor[tensor];
        if (from != NULL && (layer_rounds_states(t->layer) || t->layer->portable) &&
            tensor_is_packed(layer_tensor_row(tensor)->kind))
            memcpy(part->tensor[tensor], from, inputs_bytes(t->layer, t->in, tensor)); /* for the reference */
        if (from == NULL || !(layer_tensor_has_axis(t->layer, tensor, "n") ||
                              layer_tensor_has_axis(t->layer, tensor, "m")))
            continue;
        const size_t row = inputs_bytes(t->layer, t->in, tensor) / t->in->batch / t->in->n;
        for (size_t b = 0; b < t->in->batch; b++)
            memcpy((unsigned char *)part->tensor[tensor] + b * part->n * row, from + (b * t->in->n + first) * row,
                   part->n * row);
    }
    for (size_t b = 0; lengths != NULL && b < t->in->batch; b++) {
        const size_t all = inputs_keys(t->in, b);
        lengths[b] = (int32_t)(all > first ? min_size(all - first, part->n) : 0);
    }
    for (int k = 0; k < inputs_compared(t->layer); k++)
        memcpy(part->tensor[inputs_cache_of(t->layer, k)], stream->states[k], trial_cache_bytes(t, k));
}

/* y and states after calls, beside those of the reference */
static bool near_reference(struct trial *t, const struct stream *stream, const struct reference *reference,
                           const struct bounds *bounds, size_t most)
{
    struct comparison of[OUTPUTS_COMPARED] = {{0}};
    char text[COMPARE_TEXT];
    const void *const outputs[OUTPUTS] = {[OUTPUT_Y] = stream->y, [OUTPUT_CACHE] = stream->states[0],
                                          stream->states[1]};
    const struct comparison *const missed = compare_outputs(of, t->layer, t->in, reference, bounds, outputs);
    return missed == NULL || violated(t, "calls of at most %zu tokens: %s", most,
                                      compare_miss_text(missed, "the reference", text));
}

/* One call of some tokens of all sequences, with which the stream goes on */
static bool call_of_tokens(struct trial *t, size_t first, size_t count, const struct stream *stream)
{
    struct trial own = *t;
    OWNED(inputs_free) struct inputs part = *t->in;
    const size_t row = (size_t)t->layer->d_out;
    part.n = part.m = count;
    part.borrows_weights = false;
    inputs_allocate(&part, t->layer);
    take_tokens(t, &part, first, stream);
    own.in = &part;
    own.now = (struct outputs){0};
    own.scratch = (struct guarded){0};
    trial_prepare(&own, 4, 1);
    const bool good = trial_forward(&own, &part, "some of the tokens") &&
                      (!layer_rounds_states(t->layer) ||
                       trial_compare(&own, &part, OUTPUT_Y, OUTPUTS_COMPARED, "some of the tokens"));
    for (size_t b = 0; good && b < part.batch; b++)
        memcpy(stream->y + (b * t->in->n + first) * row, (const float *)own.now.y.data + b * count * row,
               count * row * sizeof(float));
    for (int k = 0; good && k < inputs_compared(t->layer); k++)
        memcpy(stream->states[k], own.now.cache[k].data, own.now.cache[k].bytes);
    trial_release(&own);
    return good;
}

/* Older states of a window, which are those of the last call, become those of one call. */
static void take_older_states(const struct trial *t, const struct stream *stream)
{
    if (t->layer->state_window == 0)
        return;
    const size_t each = trial_cache_bytes(t, 0) / t->in->batch, one = each / (size_t)t->layer->states;
    for (size_t b = 0; b < t->in->batch; b++)
        memcpy((char *)stream->states[0] + b * each + one, (const char *)t->base.cache[0].data + b * each + one,
               each - one);
}

/* The same bits as those of one call */
static bool same_stream(struct trial *t, const struct stream *stream, size_t most)
{
    if (memcmp(stream->y, t->base.y.data, trial_bytes(t, TENSOR_Y)) != 0)
        return violated(t, "calls of at most %zu tokens: y has other bits than that of one call", most);
    for (int k = 0; k < inputs_compared(t->layer); k++)
        if (memcmp(stream->states[k], t->base.cache[k].data, trial_cache_bytes(t, k)) != 0)
            return violated(t, "calls of at most %zu tokens: %s has other bits than that of one call", most,
                            layer_tensor_name(inputs_cache_of(t->layer, k)));
    return true;
}

/* The same bits of y and of the states, however tokens are cut into calls; where tokens go through a state in chunks,
 * of cuts between whole chunks, and else the bound. Of rounded states the bound of each call */
static bool cuts_agree(struct trial *t)
{
    struct random random = {t->seed ^ 0x6375};
    const int parts = inputs_compared(t->layer);
    const size_t chunk = (size_t)rule_chunk(t->layer, NULL);
    OWNED(stream_free) struct stream stream = {.y = memory_get(trial_count(t, TENSOR_Y), sizeof(float))};
    OWNED(reference_free) struct reference reference = {.y = NULL};
    struct bounds bounds = {.y_worst = NULL};
    bool good = true;
    if (chunk > 1)
        bounds_compute(&reference, &bounds, t->layer, t->in, kernel_folds(t->kernel), false);
    for (int k = 0; k < parts; k++)
        stream.states[k] = memory_get(trial_cache_bytes(t, k), 1);
    for (size_t most = 1, way = 0; good && most < t->in->n; most = way++ % 2 == 0 ? most : 4 * most + 1) {
        const bool whole = chunk > 1 && way % 2 == 1 && t->layer->state_window == 0;
        for (int k = 0; k < parts; k++)
            memcpy(stream.states[k], t->in->tensor[inputs_cache_of(t->layer, k)], trial_cache_bytes(t, k));
        for (size_t first = 0, count; good && first < t->in->n; first += count) {
            count = (1 + random_bits(&random) % most) * (whole ? chunk : 1);
            count = min_size(count, t->in->n - first);
            good = call_of_tokens(t, first, count, &stream);
        }
        take_older_states(t, &stream);
        good = good && (layer_rounds_states(t->layer) ||
                        (chunk > 1 && !whole ? near_reference(t, &stream, &reference, &bounds, most)
                                           : same_stream(t, &stream, most)));
    }
    return good;
}

/* Tokens that are taken back and come once more: states are those of before, and give the same bits of y. */
static bool tokens_come_back(struct trial *t)
{
    const size_t batch = t->in->batch, n = t->in->n, row = (size_t)t->layer->d_out;
    const size_t most = min_size((size_t)t->layer->state_window, n);
    OWNED(stream_free) struct stream stream = {.y = memory_get(trial_count(t, TENSOR_Y), sizeof(float))};
    struct kernel_states states = {.batch = batch};
    HEAP int32_t *const tokens = memory_get(batch, sizeof *tokens);
    bool good = true, whole = true;
    for (size_t b = 0; b < batch; b++)
        whole = whole && inputs_keys(t->in, b) == n;
    for (int k = 0; k < inputs_compared(t->layer); k++)
        states.tensor[k] = stream.states[k] = memory_get(trial_cache_bytes(t, k), 1);
    const size_t each = trial_cache_bytes(t, 0) / batch, one = each / (size_t)t->layer->states;
    for (size_t back = 1; good && back <= most; back++) {
        for (size_t b = 0; b < batch; b++)
            tokens[b] = (int32_t)back;
        for (int k = 0; k < inputs_compared(t->layer); k++)
            memcpy(stream.states[k], t->base.cache[k].data, trial_cache_bytes(t, k));
        good = t->kernel->call->state_back(&states, tokens) == KERNEL_OK;
        for (size_t b = 0; good && b < batch; b++)
            good = memcmp((char *)states.tensor[0] + b * each, (char *)t->base.cache[0].data + b * each + back * one,
                          one) == 0;
        if (!whole || layer_rounds_states(t->layer)) /* which the reference alone knows: compare_call() */
            continue;
        memcpy(stream.y, t->base.y.data, trial_bytes(t, TENSOR_Y));
        for (size_t b = 0; b < batch; b++)
            memset(stream.y + (b * n + n - back) * row, 0, back * row * sizeof *stream.y);
        good = good && call_of_tokens(t, n - back, back, &stream);
        take_older_states(t, &stream);
        good = good && same_stream(t, &stream, back);
    }
    tokens[0] = (int32_t)t->layer->state_window + 1;
    good = good && t->kernel->call->state_back(&states, tokens) == KERNEL_LENGTH &&
           t->kernel->call->state_back(&states, NULL) == KERNEL_NULL;
    return good || violated(t, "state_back: tokens that are taken back leave another state than that before them");
}

/* ---- what a number reaches ------------------------------------------------------------------------------------- */

/* A number that is spoiled: of sequence b, token t, head or state `head`, column (STATE: of d_v) */
struct spoiled {
    enum layer_tensor tensor;
    size_t b, t, head, column;
};

/* Whether it reaches y of this sequence, token, head and column */
static bool reaches(const struct layer *layer, const struct spoiled *of, size_t b, size_t t, size_t o, size_t column)
{
    const size_t h = (size_t)layer->h, h_kv = (size_t)layer->h_kv, h_v = (size_t)layer->h_v;
    const size_t h_out = (size_t)layer->h_out, state = o * h_v / h_out;
    if (b != of->b || (of->tensor == TENSOR_Q ? t != of->t : t < of->t))
        return false;
    switch (of->tensor) {
    case TENSOR_Q: return o * h / h_out == of->head;
    case TENSOR_K: return state * h_kv / h_v == of->head;
    case TENSOR_V: case TENSOR_STATE: return state == of->head && column == of->column;
    default: return state == of->head;
    }
}

/* y where the number reaches is not finite; all else, and the states of others, have the bits of before. */
static bool check_reach(struct trial *t, const struct spoiled *of, bool nan)
{
    const struct layer *layer = t->layer;
    const size_t h_out = (size_t)layer->h_out, d_v = (size_t)layer->d_v, h_v = (size_t)layer->h_v;
    const float *const now = t->now.y.data, *const base = t->base.y.data;
    for (size_t at = 0; at < trial_count(t, TENSOR_Y); at++) {
        const size_t b = at / d_v / h_out / t->in->n, token = at / d_v / h_out % t->in->n;
        const bool reached = token < inputs_keys(t->in, b) &&
                             reaches(layer, of, b, token, at / d_v % h_out, at % d_v);
        if (reached ? nan && isfinite(now[at]) : memcmp(&now[at], &base[at], sizeof *now) != 0)
            return violated(t, "%s in %s of token %zu, head %zu: y[%zu][%zu][%zu][%zu] is %.9g, before it was %.9g",
                            nan ? "NaN" : "infinity", layer_tensor_name(of->tensor), of->t, of->head, b, token,
                            at / d_v % h_out, at % d_v, (double)now[at], (double)base[at]);
    }
    const size_t each = (size_t)layer->d_k * d_v * layer_tensor_size(layer, TENSOR_STATE);
    const size_t states = h_v * (size_t)layer->states; /* of a sequence */
    for (size_t s = 0; s < t->in->batch * states; s++) {
        const size_t head = of->tensor == TENSOR_K ? s % h_v * (size_t)layer->h_kv / h_v : s % h_v;
        const bool own = of->tensor != TENSOR_Q && s / states == of->b && head == of->head;
        if (!own && memcmp((const char *)t->now.cache[0].data + s * each,
                           (const char *)t->base.cache[0].data + s * each, each) != 0)
            return violated(t, "%s in %s of token %zu, head %zu changed another state, %zu of sequence %zu",
                            nan ? "NaN" : "infinity", layer_tensor_name(of->tensor), of->t, of->head, s % h_v,
                            s / states);
    }
    return true;
}

/* Spoils one number of the tensor; its place in memory is drawn. */
static size_t draw_place(const struct trial *t, struct spoiled *of, struct random *random)
{
    const struct layer *layer = t->layer;
    int64_t shape[4] = {1, 1, 1, 1};
    size_t index[4] = {of->b, 0, 0, 0};
    const int axes = inputs_shape(layer, t->in, of->tensor, shape);
    size_t at = of->b;
    for (int axis = 1; axis < axes; axis++) {
        const bool tokens = axis == 1 && of->tensor != TENSOR_STATE;
        const size_t extent = tokens ? inputs_keys(t->in, of->b)
                            : axis == 1 ? (size_t)layer->h_v : (size_t)shape[axis]; /* of a window the state alone */
        index[axis] = random_bits(random) % extent;
        at = at * (size_t)shape[axis] + index[axis];
    }
    of->t = of->tensor == TENSOR_STATE ? 0 : index[1];
    of->head = index[of->tensor == TENSOR_STATE ? 1 : 2];
    of->column = index[3];
    return at;
}

static bool numbers_stay(struct trial *t)
{
    static const enum layer_tensor tensors[] = {TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_DECAY, TENSOR_BETA, TENSOR_STATE};
    struct random random = {t->seed ^ 0x7265};
    bool good = true;
    for (size_t i = 0; good && i < 2 * sizeof tensors / sizeof *tensors; i++) {
        struct spoiled of = {.tensor = tensors[i / 2], .b = random_bits(&random) % t->in->batch};
        if (!layer_has_tensor(t->layer, of.tensor) || inputs_keys(t->in, of.b) == 0)
            continue;
        OWNED(inputs_free) struct inputs in;
        inputs_copy(&in, t->layer, t->in);
        const bool nan = i % 2 == 0;
        element_put(layer_tensor_element(t->layer, of.tensor), in.tensor[of.tensor], draw_place(t, &of, &random),
                    nan ? (double)NAN : (double)INFINITY);
        trial_prepare(t, 12, 1);
        good = trial_forward(t, &in, "a number that is not finite") && check_reach(t, &of, nan);
    }
    return good;
}

/* ---- numbers at the ends of f32 --------------------------------------------------------------------------------- */

/* Of token t: values and keys of zeros, huge, tiny and subnormal ones, decays of 0, 1 and beyond what f32 holds */
static void spoil_token(const struct trial *t, struct inputs *in, size_t row)
{
    static const float factors[] = {1, 0, 1e30f, 1e-30f, 1e-42f, 1, 1};
    static const float decays[] = {0, -1e-6f, -20, -87, -100, -3e38f, 0};
    const struct layer *layer = t->layer;
    const size_t kind = (row + t->seed) % (sizeof factors / sizeof *factors);
    const size_t v = (size_t)(layer->h_v * layer->d_v), k = (size_t)(layer->h_kv * layer->d_k);
    for (size_t c = 0; c < v; c++)
        ((float *)in->tensor[TENSOR_V])[row * v + c] *= factors[kind];
    for (size_t c = 0; kind == 1 && c < k; c++)
        ((float *)in->tensor[TENSOR_K])[row * k + c] = 0;
    const size_t d = layer_decays(layer) ? inputs_count(layer, in, TENSOR_DECAY) / in->batch / in->n : 0;
    for (size_t c = 0; c < d; c++)
        ((float *)in->tensor[TENSOR_DECAY])[row * d + c] = decays[(row / 2 + c) % (sizeof decays / sizeof *decays)];
    for (size_t c = 0; layer_corrects(layer) && c < (size_t)layer->h_v && kind > 4; c++)
        ((float *)in->tensor[TENSOR_BETA])[row * (size_t)layer->h_v + c] = kind == 5 ? 0 : 1;
}

static bool ends_are_right(struct trial *t)
{
    static const char what[] = "tokens of zeros, of huge and of tiny numbers";
    OWNED(inputs_free) struct inputs in;
    inputs_copy(&in, t->layer, t->in);
    for (size_t row = 0; row < in.batch * in.n; row++)
        spoil_token(t, &in, row);
    return trial_near(t, &in, OUTPUT_Y, OUTPUTS_COMPARED, what);
}

/* ---- x ---------------------------------------------------------------------------------------------------------- */

/* A number of x that is NaN reaches its own token and those after it, of its sequence alone; of a convolution those
 * that have it among their taps, in its column alone. */
static bool rows_stay(struct trial *t)
{
    const size_t d = (size_t)t->layer->d_out, n = t->in->n;
    struct random random = {t->seed ^ 0x726f};
    const size_t b = random_bits(&random) % t->in->batch, tokens = inputs_keys(t->in, b);
    const size_t token = tokens > 0 ? random_bits(&random) % tokens : 0;
    if (tokens == 0)
        return true;
    OWNED(inputs_free) struct inputs in;
    inputs_copy(&in, t->layer, t->in);
    const size_t width = (size_t)t->layer->d_model;
    const bool of_taps = layer_is_convolution(t->layer);
    const size_t column = random_bits(&random) % width, last = of_taps ? token + (size_t)t->layer->conv_history : n;
    ((float *)in.tensor[TENSOR_X])[(b * n + token) * width + column] = NAN;
    trial_prepare(t, 12, 1);
    bool good = trial_forward(t, &in, "NaN in x");
    const float *const now = t->now.y.data, *const base = t->base.y.data;
    for (size_t at = 0; good && at < trial_count(t, TENSOR_Y); at++) {
        const size_t row = at / d % n;
        const bool reached = at / d / n == b && row >= token && row < tokens && row <= last &&
                             (!of_taps || at % d == column);
        if (reached ? isfinite(now[at]) : memcmp(&now[at], &base[at], sizeof *now) != 0)
            good = violated(t, "NaN in x of token %zu of sequence %zu: y[%zu][%zu][%zu] is %.9g, before it was %.9g",
                            token, b, at / d / n, row, at % d, (double)now[at], (double)base[at]);
    }
    return good;
}

/* ---- reset and copy --------------------------------------------------------------------------------------------- */

static void *states_of(const struct kernel_states *states, int k, size_t b, const size_t *each)
{
    return states->tensor[k] != NULL ? (char *)states->tensor[k] + b * each[k] : NULL;
}

/* NAME_state_reset and NAME_state_copy beside memset and memcpy, and what they refuse */
static bool moves_are_right(struct trial *t)
{
    const struct kernel_table *const call = t->kernel->call;
    const int parts = inputs_compared(t->layer);
    const size_t batch = t->in->batch;
    const int32_t one = (int32_t)(t->seed % batch), none = (int32_t)batch, below = -1, zero = 0;
    OWNED(pool_free) struct pool pool = {0};
    struct kernel_states own = {.batch = batch}, from = own, expected = {.batch = 1};
    int32_t *const which = pool_get(&pool, batch, sizeof *which);
    size_t each[2] = {0, 0};
    for (int k = 0; k < parts; k++) {
        each[k] = trial_cache_bytes(t, k) / batch;
        from.tensor[k] = t->in->tensor[inputs_cache_of(t->layer, k)];
        own.tensor[k] = pool_get(&pool, batch + 1, each[k]);
        expected.tensor[k] = pool_get(&pool, 1, each[k]);
        memcpy(own.tensor[k], from.tensor[k], batch * each[k]);
    }
    bool good = call->state_reset(&own, &one, 1) == KERNEL_OK;
    for (int k = 0; good && k < parts; k++)
        for (size_t b = 0; good && b < batch; b++)
            good = memcmp(states_of(&own, k, b, each),
                          (int32_t)b == one ? expected.tensor[k] : states_of(&from, k, b, each), each[k]) == 0;
    if (!good)
        return violated(t, "state_reset of sequence %d of %zu: not its states alone are zero", (int)one, batch);
    for (size_t b = 0; b < batch; b++) /* each has those of the one after it, but for one that stays as it is */
        which[b] = (int32_t)b == one ? -1 : (int32_t)((b + 1) % batch);
    good = call->state_copy(&own, &from, which) == KERNEL_OK;
    for (int k = 0; good && k < parts; k++)
        for (size_t b = 0; good && b < batch; b++)
            good = memcmp(states_of(&own, k, b, each), which[b] < 0 ? expected.tensor[k]
                                                   : states_of(&from, k, (size_t)which[b], each), each[k]) == 0;
    const struct kernel_states first = {{own.tensor[0], own.tensor[1]}, 1};
    const struct kernel_states next = {{states_of(&own, 0, 1, each), states_of(&own, 1, 1, each)}, 1};
    const struct kernel_states huge = {{own.tensor[0], own.tensor[1]}, SIZE_MAX / 4}, empty = {.batch = 0};
    const struct kernel_states missing = {.batch = batch};
    const size_t half = layer_tensor_size(t->layer, inputs_cache_of(t->layer, 0)) / 2;
    const struct kernel_states odd = {{(char *)own.tensor[0] + half, own.tensor[1]}, 1};
    const int32_t *const off = (const int32_t *)(const void *)((const char *)which + 2), last = none - 1;
    good = good && call->state_copy(&first, &from, &last) == KERNEL_OK &&
           call->state_reset(&own, off, 1) == KERNEL_ALIGN && call->state_copy(&first, &from, off) == KERNEL_ALIGN &&
           call->state_reset(&odd, &zero, 1) == KERNEL_ALIGN && call->state_copy(&odd, &from, &zero) == KERNEL_ALIGN &&
           call->state_copy(&first, &odd, &zero) == KERNEL_ALIGN &&
           call->state_copy(&first, &next, &zero) == KERNEL_OK &&
           call->state_reset(NULL, &one, 1) == KERNEL_NULL && call->state_reset(&missing, &one, 1) == KERNEL_NULL &&
           call->state_reset(&own, NULL, 1) == KERNEL_NULL && call->state_reset(&own, NULL, 0) == KERNEL_OK &&
           call->state_reset(&own, &none, 1) == KERNEL_LENGTH && call->state_reset(&own, &below, 1) == KERNEL_LENGTH &&
           call->state_reset(&huge, &one, 1) == KERNEL_SIZE &&
           call->state_copy(&first, &from, &none) == KERNEL_LENGTH &&
           call->state_copy(&first, &own, &zero) == KERNEL_OVERLAP &&
           call->state_copy(&first, &from, NULL) == KERNEL_NULL &&
           call->state_copy(&missing, &from, which) == KERNEL_NULL &&
           call->state_copy(&empty, &from, NULL) == KERNEL_OK;
    return good || violated(t, "state_reset or state_copy: another state or error than the header has");
}

bool states_hold(struct trial *t)
{
    if (!layer_keeps_states(t->layer) || t->in->batch * t->in->n == 0)
        return true;
    return cuts_agree(t) && (t->layer->state_window == 0 || tokens_come_back(t)) &&
           (inputs_compared(t->layer) == 0 || moves_are_right(t)) &&
           (t->layer->projected ? numbers_stay(t) && ends_are_right(t) : rows_stay(t));
}
