/* SPDX-License-Identifier: MIT */
/* What a layer costs: multiply-adds, numbers that are learned, and their bytes. */
#include "spec/layer.h"

#include "base/arith.h"
#include "spec/score.h"
#include "spec/visible.h"

/* The pairs that a window of conv_width rows leaves visible. */
int64_t layer_conv_taps(const struct layer *layer, int64_t n)
{
    const int64_t pad = layer_conv_pad(layer);
    const struct layer window = {.mask = MASK_WINDOW, .window_left = pad, .window_right = layer->conv_width - 1 - pad};
    return visible_pairs(&window, n, n);
}

int64_t layer_conv_pad(const struct layer *layer)
{
    return (layer->mask & MASK_CAUSAL) != 0 ? layer->conv_width - 1 : (layer->conv_width - 1) / 2;
}

bool layer_may_expand(const struct layer *layer)
{
    const bool plain = !layer->scores && !score_everywhere(layer) && !score_placed(layer) &&
                       (layer->mask & MASK_SEGMENTS) == 0;
    const bool rounds = layer->scores && layer_types_tensors(layer); /* attn, of which a worker has a tile's rows */
    return layer_is_latent(layer) && !layer->portable && (layer_has_cache(layer) ? !rounds : plain);
}

/* Whether keys and values of heads made of m latents take fewer multiply-adds than queries and sums by W_UK and W_UV */
static bool fewer_expanded(const struct layer *l, double pairs, double queries, double m)
{
    const double made = (double)(l->latent.d_nope + l->latent.d_value), rank = (double)l->latent.rank;
    return (m - queries) * rank * made < pairs * (2 * rank - made);
}

struct layer_cost layer_multiply_adds(const struct layer *layer, int64_t n, int64_t m)
{
    const double heads = (double)layer->h, heads_kv = (double)layer->h_kv;
    const double d_k = (double)layer->d_k, d_v = (double)layer->d_v, d_model = (double)layer->d_model;
    const double queries = (double)n, keys_read = (double)(layer_has_cache(layer) ? n : m);
    const double pairs = (double)visible_pairs(layer, n, m);
    const bool k_is_q = layer->tied && !layer->cross;
    const bool projects = !layer->projected;

    struct layer_cost cost = {0};
    if (layer_is_linear(layer)) {
        cost.linear = cost.total = queries * d_model * (double)layer->d_out;
        return cost;
    }
    if (layer_is_convolution(layer)) {
        cost.taps = cost.total = queries * (double)(layer->conv_channels * layer->conv_taps);
        return cost;
    }
    if (layer_is_recurrent(layer)) { /* what is added, what each query reads, what is corrected */
        const double each = (layer_corrects(layer) ? 2 : 1) + (double)(layer->h_out / layer->h_v);
        cost.states = cost.total = queries * (double)layer->h_v * d_k * d_v * each;
        if (!projects)
            return cost;
        const double h_v = (double)layer->h_v, out = (double)layer->h_out * d_v;
        const double decays = !layer_decays(layer) ? 0 : layer->decay == DECAY_COLUMN ? h_v * d_k : h_v;
        cost.q = queries * d_model * heads * d_k;
        cost.k = queries * d_model * heads_kv * d_k;
        cost.v = queries * d_model * h_v * d_v;
        cost.gates = queries * ((double)layer->d_in_a * decays + (layer_corrects(layer) ? d_model * h_v : 0) +
                                (layer->out_gate != OUT_GATE_NONE ? (double)layer->d_in_z * out : 0) +
                                d_model * (double)(layer->decay_rank + layer->gate_rank));
        cost.taps = queries * (double)(layer->conv_channels * layer->conv_taps);
        cost.output = queries * out * d_model;
        cost.down = queries * d_model * (double)layer->d_ff;
        cost.ffn = cost.down * (layer_ffn_gated(layer) ? 3 : 2);
        cost.total += cost.q + cost.k + cost.v + cost.gates + cost.taps + cost.output + cost.ffn;
        return cost;
    }
    if (!layer_attends(layer)) {
        cost.down = queries * d_model * (double)layer->d_ff;
        cost.ffn = cost.total = cost.down * (layer_ffn_gated(layer) ? 3 : 2);
        return cost;
    }
    cost.q = !projects ? 0 : queries * (double)layer->d_in_q * heads * d_k;
    cost.k = !projects || k_is_q ? 0 : keys_read * (double)layer->d_in_kv * heads_kv * d_k;
    cost.v = !projects || layer->identity || layer->shares ? 0 : keys_read * (double)layer->d_in_kv * heads_kv * d_v;
    cost.scores = pairs * heads * d_k;
    cost.scores += heads * d_k * min(layer->rel_width, n + m - 1) *
                   ((layer->rel_keys != VECTORS_NONE ? n : 0) + (layer->rel_queries != VECTORS_NONE ? m : 0));
    cost.values = pairs * heads * d_v;
    if (layer->w_o == W_O_DENSE)
        cost.output = queries * heads * (double)layer_z_width(layer) * d_model;
    else if (layer->w_o == W_O_CONV)
        cost.output = (double)layer_conv_taps(layer, n) * d_v * d_model;
    if (layer_is_latent(layer)) { /* in the form with fewer */
        const double rank = (double)layer->latent.rank, q_rank = (double)layer->latent.q_rank;
        const double head = (double)layer->latent.d_head, latent = (double)layer->latent.d_latent;
        const double nope = heads * (double)layer->latent.d_nope, value = heads * (double)layer->latent.d_value;
        cost.q = queries * (d_model * q_rank + latent * heads * head);
        if (layer_may_expand(layer) && fewer_expanded(layer, pairs, queries, (double)m)) {
            cost.made_k = (double)m * rank * nope;
            cost.made_v = (double)m * rank * value;
            cost.scores = pairs * heads * head;
            cost.values = pairs * value;
        } else {
            cost.q += queries * nope * rank;
            cost.output += queries * value * rank;
        }
    }
    cost.gates = queries * d_model * heads * (double)layer_gate_width(layer);
    cost.down = queries * d_model * (double)layer->d_ff;
    cost.ffn = queries * d_model * (double)layer->d_ff * (layer_ffn_gated(layer) ? 3 : 2);
    cost.total = cost.q + cost.k + cost.v + cost.made_k + cost.made_v + cost.scores + cost.values + cost.gates +
                 cost.output + cost.ffn;
    return cost;
}

struct layer_parameters layer_parameters(const struct layer *layer)
{
    struct layer_parameters p = {0};
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        const enum tensor_kind kind = layer_tensor_row(tensor)->kind;
        int64_t shape[4], numbers = 1;
        const int axes = tensor_is_packed(kind) ? layer_weight_shape(layer, tensor, shape) : 0;
        for (int i = 0; i < axes; i++)
            numbers *= shape[i];
        p.of[tensor] = axes > 0 ? numbers : 0;
        p.total += p.of[tensor];
        p.matrices += kind == TENSOR_WEIGHT ? p.of[tensor] : 0;
    }
    return p;
}

double layer_packed_bytes(const struct layer *layer, int64_t of_matrices, int64_t others)
{
    const double whole = (double)element_size(layer->weight_type) / (double)layer_word(layer);
    const double scale = (double)element_size(TENSOR_F32);
    const double each = layer->weight_type == TENSOR_I4 ? 0.5 + scale / WEIGHT_GROUP : whole;
    return each * (double)of_matrices + scale * (double)others;
}

double layer_parameter_bytes(const struct layer *layer)
{
    const struct layer_parameters p = layer_parameters(layer);
    return layer_packed_bytes(layer, p.matrices, p.total - p.matrices);
}

int64_t layer_cached_bytes(const struct layer *layer)
{
    const int64_t numbers = layer_cached_numbers(layer) * (int64_t)element_size(layer->cache_type);
    const int64_t scales = layer_scales_cache(layer) ? layer_cached_rows(layer) * (int64_t)element_size(TENSOR_F32) : 0;
    return layer->h_kv * (numbers + scales);
}
