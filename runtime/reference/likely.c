/* SPDX-License-Identifier: MIT */
/* A sum of K products in f32 is the exact sum of numbers that are off by a few sqrt(K) u each. So copies of the
 * inputs, each number off by a random share of itself, sqrt(K) u in root mean square, K the longest sum, go through
 * the reference: what y moves by is about what the roundings of a kernel move it by, and grows with the condition of
 * scores, norms and states as they do. The gate is FACTOR times the root of the mean square of that over the copies
 * and over a row, or of an element alone, whichever is more; and no less than what the call's rows have of their bounds
 * on average, as all columns of a row may move as one, and few copies may happen to move it little. A row whose bound
 * is more than half its size has none: its weights may be almost anything.
 */
#include "likely.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "roundoff.h"
#include "spec/score.h"
#include "stored.h"

#define COPIES 2
#define SAMPLES 16 /* copies and rows: calls of few rows have more copies */
#define FACTOR 12
#define LEAST_TERMS 64   /* so that a number moves by no less than polynomials are off by */
#define LEAST_COLUMNS 16 /* fewer have no mean to rely on, and a bound that is near */

/* Products of the longest sum */
static size_t longest_sum(const struct layer *layer, const struct inputs *in)
{
    const int64_t widths[] = {layer->d_model, layer->d_source, layer->h * layer->d_v, layer->d_ff, layer->d_k,
                              (int64_t)in->m, (int64_t)in->n};
    int64_t most = LEAST_TERMS;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        most = widths[i] > most ? widths[i] : most;
    return (size_t)most;
}

/* Multiplies each f32 of all tensors by 1 + a number that is uniform with this root mean square. */
static void move(struct inputs *in, const struct layer *layer, struct random *random, double deviation)
{
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (in->tensor[t] != NULL && layer_tensor_element(layer, t) == TENSOR_F32)
            for (size_t at = 0, count = inputs_count(layer, in, t); at < count; at++)
                ((float *)in->tensor[t])[at] *= (float)(1 + deviation * sqrt(12) * (random_uniform(random) - 0.5));
}

/* Not where a curve may be flat, so that nothing moves where its polynomial is off: activations of y, caps. */
static bool is_measured(const struct layer *layer, const struct bounds *bounds)
{
    const bool bends = layer->activation != ACTIVATION_NONE || layer->cap != 0 || score_has(layer, SCORE_SOFTCAP);
    return bounds->y_worst != NULL && !bends && layer->d_out >= LEAST_COLUMNS && layer->score == NULL &&
           !layer_rounds(layer) && !layer_types_tensors(layer) && !layer_stores_cache(layer);
}

void likely_measure(struct reference *reference, struct bounds *bounds, const struct layer *layer,
                    const struct inputs *inputs, bool sample)
{
    const size_t d = (size_t)layer->d_out, count = inputs->batch * reference->y_rows.count * d;
    const double deviation = sqrt((double)longest_sum(layer, inputs)) * BOUND_U;
    struct random random = {0x6d6f7665};
    OWNED(pool_free) struct pool work = {0};
    if (!is_measured(layer, bounds))
        return;
    double *const likely = bounds->y_likely = pool_doubles(&reference->memory, count);
    const int copies = max(COPIES, (int)(SAMPLES / max(count / d, 1)));
    double share = 0, shares = 0; /* of the rows' bounds, squared */
    const struct inputs packed = stored_make(&work, layer, inputs);
    for (int copy = 0; copy < copies; copy++) {
        OWNED(inputs_free) struct inputs moved;
        inputs_copy(&moved, layer, &packed);
        move(&moved, layer, &random, deviation);
        OWNED(reference_free) struct reference other;
        reference_compute(&other, layer, &moved, sample, NULL, NULL);
        for (size_t at = 0; at < count; at++)
            likely[at] += square(other.y[at] - reference->y[at]) / copies;
    }
    for (int pass = 0; pass < 2; pass++)
        for (size_t row = 0; row < count; row += d) {
            double moved = 0, bound = 0, size = 0;
            for (size_t at = row; at < row + d; at++) {
                moved += likely[at];
                bound += square(bounds->y_worst[at]);
                size += square(reference->y[at]);
            }
            const bool measured = 4 * bound < size;
            if (pass == 0 && measured && bound > 0)
                share += moved / bound, shares++;
            const double least = fmax(moved, bound * share / fmax(shares, 1)) / (double)d;
            for (size_t at = row; pass == 1 && at < row + d; at++)
                likely[at] = measured ? FACTOR * sqrt(fmax(likely[at], least)) : 0;
        }
}
