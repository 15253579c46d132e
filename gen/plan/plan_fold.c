/* SPDX-License-Identifier: MIT */
/* Products of weights that are taken when packing: which, by what they save in calls of full and of short length.
 *
 * Left out on purpose: how wide heads are tiled.
 */
#include "plan/planning.h"

#include <math.h>

#include "spec/score.h"
#include "spec/visible.h"

#define WEIGHT_READ 20           /* multiply-adds in the time of reading one weight from beyond L2: measured, Zen 5
                                  * with AVX-512 */
#define KEPT_WEIGHTS (512 * 1024) /* bytes: the smallest L2 that has AVX2 */
#define LEAST_EXPANDED 64        /* tokens of a call that are worth the keys and values of each head: without a past 32
                                  * take 7 % longer with them, 64 take 3 % less (Zen 5, AVX-512) */
#define SHORTEST_CALL 16         /* the shortest calls weighed are a 16th of the limits, unless plan.typical_n,
                                  * typical_m say */

/* A score is x W_Q (s W_K)^T = (x W_Q W_K^T) s^T, and what a head adds to y is A (s W_V) W_O = (A s)(W_V W_O). Weights
 * are known when they are packed, so their product costs nothing in a call: keys, or values, are then the input itself,
 * and a projection is gone. What folding costs is that the input is wider than a head. */

/* Numbers that are packed, without biases and padding */
double packed_weights(const struct layer *l, bool scores, bool values)
{
    const double heads = (double)l->h, heads_kv = (double)l->h_kv, in_q = (double)l->d_in_q, in = (double)l->d_in_kv;
    const double z = values ? in : (double)layer_z_width(l), out = (double)l->d_model;
    if (layer_keeps_states(l))
        return layer_parameters(l).total;
    if (!layer_attends(l))
        return out * (double)(layer_is_linear(l) ? l->d_out : l->d_ff * (layer_ffn_gated(l) ? 3 : 2));
    double size = l->w_o == W_O_DENSE ? heads * z * out : l->w_o == W_O_CONV ? (double)l->conv_width * z * out : 0;
    size += out * ((double)l->d_ff * (layer_ffn_gated(l) ? 3 : 2) + heads * (double)layer_gate_width(l));
    if (l->projected)
        return size;
    if (layer_is_latent(l)) {
        const struct layer_parameters p = layer_parameters(l);
        return size + (double)(p.of[TENSOR_W_Q] + p.of[TENSOR_W_DQ] + p.of[TENSOR_W_DKV] + p.of[TENSOR_W_UK] +
                               p.of[TENSOR_W_UV]);
    }
    size += heads * in_q * (scores ? in : (double)l->d_k);
    if (!scores && !(l->tied && !l->cross))
        size += heads_kv * in * (double)l->d_k;
    if (!values && !l->identity && !l->shares)
        size += heads_kv * in * (double)l->d_v;
    return size;
}

/* Cost of reading `weights` weights in a call, in multiply-adds: 0 where they stay in L2. */
static double reading(double weights)
{
    return weights * (double)element_size(OPERANDS) > KEPT_WEIGHTS ? WEIGHT_READ * weights : 0;
}

/* What folding saves in a call of n queries and m keys: multiply-adds, and, reading of weights included, as a share of
 * the plain layer's cost; negative where it costs. */
struct fold_savings {
    double scores, values;             /* multiply-adds */
    double scores_share, values_share; /* of all work */
};

static struct fold_savings fold_savings(const struct layer *l, int64_t n, int64_t m)
{
    const struct layer_cost cost = layer_multiply_adds(l, n, m);
    const double queries = (double)n * (double)l->h, in = (double)l->d_in_kv;
    const double pairs = (double)visible_pairs(l, n, m) * (double)l->h;
    const double merge = l->w_o == W_O_CONV ? cost.output / (double)l->d_v : queries * (double)l->d_model;
    const double k = l->source_kept ? 0 : cost.k, v = l->source_kept ? 0 : cost.v; /* kept: most calls have them */
    const double plain = reading(packed_weights(l, false, false));
    const double all = cost.total - (cost.k - k) - (cost.v - v) + plain;
    struct fold_savings s = {.scores = cost.q + k + cost.scores - in * (queries * (double)l->d_in_q + pairs),
                             .values = v + cost.values + cost.output - in * (pairs + merge)};
    s.scores_share = (s.scores - reading(packed_weights(l, true, false)) + plain) / all;
    s.values_share = (s.values - reading(packed_weights(l, false, true)) + plain) / all;
    return s;
}

/* Gains are averaged over lengths as logarithms, so that twice as slow at one outweighs twice as fast at another. The
 * share is bounded, as the other pair may save what this one costs. */
static double log_gain(double share) { return -log(fmax(0.01, 1 - share)); }

/* Multiply-adds of a head in a causal call of n tokens behind P, of which pairs = n P + n (n + 1) / 2 meet:
 *   absorbed  n rank (nope + value) + pairs (2 rank + dims)
 *   expanded  (P + n) rank (nope + value) + pairs (nope + dims + value) */
static struct latent_form latent_form(const struct layer *l, const struct plan_request *request)
{
    const int64_t made = l->latent.d_nope + l->latent.d_value, gain = 2 * l->latent.rank - made;
    const int64_t price = 2 * l->latent.rank * made, asked = request_or(request, PLAN_LATENT, PLAN_AUTO);
    if (!layer_may_expand(l) || asked == PLAN_ABSORBED)
        return (struct latent_form){0};
    if (asked == PLAN_EXPANDED)
        return (struct latent_form){.least = 1, .gain = 1};
    if (gain <= 0 || l->seq_len < LEAST_EXPANDED || layer_exact_chunks(l) || request_is_small(request))
        return (struct latent_form){0};
    const int64_t common = (int64_t)divisor_of((size_t)gain, (size_t)price);
    return (struct latent_form){.least = LEAST_EXPANDED, .gain = gain / common, .price = price / common};
}

struct plan_fold plan_fold(const struct layer *l, const struct plan_request *request)
{
    struct plan_fold f = {.d_score = l->d_k, .d_value = l->d_v, .d_z = l->d_v, .expands = latent_form(l, request)};
    if (!layer_attends(l))
        return f;
    const struct fold_savings full = fold_savings(l, l->seq_len, l->source_len);
    double scores = 0, values = 0;
    f.saved_scores = full.scores;
    f.saved_values = full.values;
    if (l->projected) /* no weights before the scores, and none before the values */
        return f;
    f.q_is_k = l->tied && !l->cross && !layer_has_tensor(l, TENSOR_G_Q);
    if (layer_has_cache(l) || l->train || layer_stores_weights(l) || l->shares) /* keys and values are cached; gradients
                                   * are of the weights; it is weights that are rounded; keys are read as values too */
        return f;
    for (int64_t part = 1; part <= SHORTEST_CALL; part *= 4) {
        const int64_t n = request_within(request, PLAN_TYPICAL_N, l->seq_len);
        const int64_t m = request_within(request, PLAN_TYPICAL_M, l->source_len);
        const int64_t queries = request_asks(request, PLAN_TYPICAL_N) ? n : ceil_div(l->seq_len, part);
        const int64_t keys = l->self ? queries
                           : request_asks(request, PLAN_TYPICAL_M) ? m : ceil_div(l->source_len, part);
        const struct fold_savings s = fold_savings(l, queries, keys);
        scores += log_gain(s.scores_share);
        values += log_gain(s.values_share);
        f.short_n = queries;
        f.short_m = keys;
        f.short_scores = 1 - s.scores_share;
        f.short_values = 1 - s.values_share;
    }
    const bool exact = l->bias && score_is_absolute(l); /* folded scores lack scale Q b_K, the same for a row's keys */
    f.scores = !layer_finishes(l) && !exact && !layer_has_vectors(l) &&
               request_or(request, PLAN_FOLD, scores > 0);
    f.values = l->w_o != W_O_NONE && !l->identity && l->gate == GATE_NONE && request_or(request, PLAN_FOLD, values > 0);
    if (f.scores)
        f.d_score = l->d_in_kv;
    f.q_is_k = f.q_is_k && !f.scores;
    if (f.values) {
        f.d_value = l->d_in_kv;
        f.d_z = l->d_in_kv + (l->bias ? 1 : 0);
    }
    return f;
}
