/* SPDX-License-Identifier: MIT */
// The layer on oneDNN: matmul primitives with weights in the layout that the library chooses, and softmax primitives.
//
// Option "whole": all scores at once, [batch][h][n][m]. Option "blocks": QUERY_BLOCK queries at a time, so that scores
// are smaller and keys that causal or window hide from a whole block are skipped. For versions 2 and 3 of the library;
// threads are its own (OpenMP, TBB). "int8-whole", "int8-blocks": products with weights have operands u8 with a scale for each
// row, found here in each call, and weights s8 with a scale for each column; sums become f32 here. Left out: conv output.
#include "problem.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

namespace {

using dnnl::memory;
using dims = memory::dims;
using args = std::unordered_map<int, memory>;

constexpr int64_t QUERY_BLOCK = 128;

struct peer {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::vector<std::function<void(peer &)>> steps;
    bool whole_numbers = false;
    std::vector<std::vector<uint8_t>> bytes; // likewise
    std::vector<std::vector<float>> owned; // what memory objects point at; inner vectors never move
};

memory::desc desc(const dims &shape, const dims &strides) { return {shape, memory::data_type::f32, strides}; }

dims dense_strides(const dims &shape)
{
    dims strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i > 0; i--)
        strides[i - 1] = strides[i] * shape[i];
    return strides;
}

dims view_dims(const memory &m)
{
#if DNNL_VERSION_MAJOR >= 3
    return m.get_desc().get_dims();
#else
    return m.get_desc().dims();
#endif
}

// A tensor at `data` of some shape and strides.
memory view(peer &p, const float *data, const dims &shape, const dims &strides)
{
    return {desc(shape, strides), p.engine, const_cast<float *>(data)};
}

memory view(peer &p, const float *data, const dims &shape) { return view(p, data, shape, dense_strides(shape)); }

float *own(peer &p, int64_t floats)
{
    p.owned.emplace_back(static_cast<size_t>(floats));
    return p.owned.back().data();
}

void add_step(peer &p, const dnnl::primitive &primitive, const args &a)
{
    p.steps.emplace_back([=](peer &q) { primitive.execute(q.stream, a); });
}

// dst = src weights (+ bias) (+ added); `constant` weights are copied into the layout that the primitive likes best.
void add_matmul(peer &p, const memory &src, const memory &weights, const memory *bias, const memory &dst, bool constant,
                const memory *added = nullptr)
{
    memory::desc any(weights.get_desc());
    if (constant)
        any = memory::desc(view_dims(weights), memory::data_type::f32, memory::format_tag::any);
    dnnl::primitive_attr attr;
    if (added) {
        dnnl::post_ops ops;
        ops.append_binary(dnnl::algorithm::binary_add, added->get_desc());
        attr.set_post_ops(ops);
    }
    const memory::desc none;
    const memory::desc b = bias ? bias->get_desc() : none;
#if DNNL_VERSION_MAJOR >= 3
    dnnl::matmul::primitive_desc pd(p.engine, src.get_desc(), any, b, dst.get_desc(), attr);
#else
    dnnl::matmul::primitive_desc pd({src.get_desc(), any, b, dst.get_desc()}, attr, p.engine);
#endif
    memory w = weights;
    if (constant && pd.weights_desc() != weights.get_desc()) {
        w = memory(pd.weights_desc(), p.engine);
        dnnl::reorder(weights, w).execute(p.stream, const_cast<memory &>(weights), w);
        p.stream.wait();
    }
    args a{{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, dst}};
    if (bias)
        a.insert({DNNL_ARG_BIAS, *bias});
    if (added)
        a.insert({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, *added});
    add_step(p, dnnl::matmul(pd), a);
}

// Rows [tokens][k], `stride` apart, as numbers q + 128 of a scale each: q from -127 to 127.
void quantise_rows(const float *from, int64_t tokens, int64_t k, int64_t stride, uint8_t *to, float *scales)
{
    for (int64_t t = 0; t < tokens; t++) {
        const float *row = from + t * stride;
        float most = 0;
        for (int64_t i = 0; i < k; i++)
            most = std::max(most, std::fabs(row[i]));
        const float by = most > 0 ? 127 / most : 0;
        for (int64_t i = 0; i < k; i++)
            to[t * k + i] = static_cast<uint8_t>(static_cast<int32_t>(row[i] * by + 128.5f)); // positive: it rounds
        scales[t] = most / 127;
    }
}

// c[t][j] = (sums[t][j] - 128 Σ_i q_ij) s_t u_j + b_j
void scale_rows(const int32_t *sums, int64_t tokens, int64_t e, const float *scales, const int32_t *offsets,
                const float *units, const float *b, float *c, int64_t stride)
{
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t j = 0; j < e; j++)
            c[t * stride + j] = static_cast<float>(sums[t * e + j] - offsets[j]) * (scales[t] * units[j]) + b[j];
}

// c[tokens][e] of `stride` = a[tokens][d] w + b in whole numbers
void add_whole_product(peer &p, const float *a, int64_t tokens, int64_t d, const float *w, const float *b, int64_t e, float *c,
                       int64_t stride)
{
    auto bytes = [&](int64_t count) {
        p.bytes.emplace_back(static_cast<size_t>(count));
        return p.bytes.back().data();
    };
    uint8_t *rows = bytes(tokens * d), *whole = bytes(d * e);
    int32_t *sums = reinterpret_cast<int32_t *>(bytes(tokens * e * 4)), *offsets = reinterpret_cast<int32_t *>(bytes(e * 4));
    float *scales = own(p, tokens), *units = own(p, e), *bias = own(p, e);
    for (int64_t j = 0; j < e; j++) {
        float most = 0;
        for (int64_t i = 0; i < d; i++)
            most = std::max(most, std::fabs(w[i * e + j]));
        units[j] = most / 127;
        for (int64_t i = 0; i < d; i++) {
            const int q = most > 0 ? static_cast<int>(std::nearbyint(w[i * e + j] / units[j])) : 0;
            reinterpret_cast<int8_t *>(whole)[i * e + j] = static_cast<int8_t>(q);
            offsets[j] += 128 * q;
        }
        bias[j] = b ? b[j] : 0;
    }
    using type = memory::data_type;
    const memory::desc src({tokens, d}, type::u8, dims{d, 1}), dst({tokens, e}, type::s32, dims{e, 1});
    const memory::desc plain({d, e}, type::s8, dims{e, 1}), any({d, e}, type::s8, memory::format_tag::any);
#if DNNL_VERSION_MAJOR >= 3
    dnnl::matmul::primitive_desc pd(p.engine, src, any, dst);
#else
    dnnl::matmul::primitive_desc pd({src, any, dst}, p.engine);
#endif
    memory given(plain, p.engine, whole), packed(pd.weights_desc(), p.engine);
    dnnl::reorder(given, packed).execute(p.stream, given, packed);
    p.stream.wait();
    p.steps.emplace_back([=](peer &) { quantise_rows(a, tokens, d, d, rows, scales); });
    add_step(p, dnnl::matmul(pd),
             {{DNNL_ARG_SRC, {src, p.engine, rows}}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, {dst, p.engine, sums}}});
    p.steps.emplace_back([=](peer &q) {
        q.stream.wait();
        scale_rows(sums, tokens, e, scales, offsets, units, bias, c, stride);
    });
}

// scores += added, broadcast
void add_addition(peer &p, const memory &scores, const memory &added)
{
    const memory::desc d = scores.get_desc();
#if DNNL_VERSION_MAJOR >= 3
    dnnl::binary::primitive_desc pd(p.engine, dnnl::algorithm::binary_add, d, added.get_desc(), d);
#else
    dnnl::binary::primitive_desc pd({dnnl::algorithm::binary_add, d, added.get_desc(), d}, p.engine);
#endif
    add_step(p, dnnl::binary(pd), {{DNNL_ARG_SRC_0, scores}, {DNNL_ARG_SRC_1, added}, {DNNL_ARG_DST, scores}});
}

void add_softmax(peer &p, const memory &scores)
{
    const int axis = static_cast<int>(view_dims(scores).size()) - 1;
    const memory::desc d = scores.get_desc();
#if DNNL_VERSION_MAJOR >= 3
    dnnl::softmax_forward::primitive_desc pd(p.engine, dnnl::prop_kind::forward_inference,
                                             dnnl::algorithm::softmax_accurate, d, d, axis);
#else
    dnnl::softmax_forward::primitive_desc pd({dnnl::prop_kind::forward_inference, d, axis}, p.engine);
#endif
    add_step(p, dnnl::softmax_forward(pd), {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, scores}});
}

// c[tokens][columns from `at` of `stride`] = a w + b; under split one product a head.
void add_projection(peer &p, const problem &l, const float *a, int64_t tokens, int64_t d, const float *w, const float *b,
                    int64_t e, float *c, int64_t stride, float factor, bool split)
{
    if (factor != 1) { // the scale goes into W_Q and b_Q
        const int64_t count = d * e / (split ? l.h : 1);
        float *copy = own(p, count);
        std::transform(w, w + count, copy, [=](float v) { return v * factor; });
        w = copy;
        if (b) {
            copy = own(p, e);
            std::transform(b, b + e, copy, [=](float v) { return v * factor; });
            b = copy;
        }
    }
    const int64_t heads = split ? l.h : 1, part = d / heads, width = e / heads;
    if (p.whole_numbers && !split) {
        add_whole_product(p, a, tokens, d, w, b, e, c, stride);
        return;
    }
    for (int64_t i = 0; i < heads; i++) {
        const memory bias = view(p, b ? b + i * width : c, {1, width});
        add_matmul(p, view(p, a + i * part, {tokens, part}, {d, 1}), view(p, w + i * part * width, {part, width}),
                   b ? &bias : nullptr, view(p, c + i * width, {tokens, width}, {stride, 1}), true);
    }
}

bool sees(const problem &l, int64_t t, int64_t j)
{
    return !(l.causal && j > t) && !(l.no_self && j == t) && !(l.window_left >= 0 && j < t - l.window_left)
           && !(l.window_right >= 0 && j > t + l.window_right);
}

// Scores, softmax and weighted sums of queries [from, to), for all heads and sequences at once.
void add_attention(peer &p, const problem &l, const float *q, int64_t q_stride, const float *k, int64_t k_stride,
                   const float *v, int64_t v_stride, float *z, float *scores, int64_t from, int64_t to)
{
    int64_t first = l.m, last = 0;
    bool hidden = false;
    for (int64_t t = from; t < to; t++)
        for (int64_t j = 0; j < l.m; j++)
            if (sees(l, t, j)) {
                first = std::min(first, j);
                last = std::max(last, j + 1);
            }
    const int64_t rows = to - from, keys = last - first, group = l.h / l.h_kv, e = l.h * l.d_v;
    float *mask = own(p, rows * keys);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t j = 0; j < keys; j++) {
            const bool see = sees(l, from + t, first + j);
            hidden |= !see;
            mask[t * keys + j] = see ? 0 : -std::numeric_limits<float>::infinity();
        }
    // [batch][h_kv][queries of one key][...]; with one head of keys, or one for each query head, four extents are enough
    const bool grouped = group > 1 && l.h_kv > 1, shared_values = l.w_v == nullptr && !l.split;
    auto shape = [&](int64_t heads, int64_t of_head, int64_t rows_, int64_t columns) {
        return grouped ? dims{l.batch, heads, of_head, rows_, columns} : dims{l.batch, heads, rows_, columns};
    };
    auto strides = [&](int64_t batch, int64_t head, int64_t of_head, int64_t row, int64_t column) {
        return grouped ? dims{batch, head, of_head, row, column} : dims{batch, head, row, column};
    };
    const int64_t query_heads = grouped ? l.h_kv : l.h;
    const dims s_shape = shape(query_heads, group, rows, keys);
    const memory s = view(p, scores, s_shape);
    const memory add = view(p, mask, grouped ? dims{1, 1, 1, rows, keys} : dims{1, 1, rows, keys});
    add_matmul(p,
               view(p, q + from * q_stride, shape(query_heads, group, rows, l.d_k),
                    strides(l.n * q_stride, l.h / query_heads * l.d_k, l.d_k, q_stride, 1)),
               view(p, k + first * k_stride, shape(l.h_kv, 1, l.d_k, keys),
                    strides(l.m * k_stride, l.d_k, l.d_k, 1, k_stride)),
               nullptr, s, false, hidden && !grouped ? &add : nullptr);
    if (hidden && grouped) // with five extents and an addition the product would fall back to reference code
        add_addition(p, s, add);
    add_softmax(p, s);
    add_matmul(p, s,
               view(p, v + first * v_stride, shape(shared_values ? 1 : l.h_kv, 1, keys, l.d_v),
                    strides(l.m * v_stride, l.d_v, l.d_v, v_stride, 1)),
               nullptr,
               view(p, z + from * e, shape(query_heads, group, rows, l.d_v),
                    strides(l.n * e, l.h / query_heads * l.d_v, l.d_v, e, 1)),
               false);
}

void build(peer &p, const problem &l, int64_t block)
{
    const int64_t e_q = l.h * l.d_k, e_k = l.h_kv * l.d_k, e_v = l.w_v ? l.h_kv * l.d_v : 0;
    const int64_t tokens = l.batch * l.n, keys = l.batch * l.m;
    float *q, *k, *z = l.y;
    const float *v;
    int64_t q_stride = e_q, k_stride = e_k, v_stride = e_v;
    if (l.source == l.x && !l.split) { // one product for q, k and v
        const int64_t all = e_q + e_k + e_v;
        float *w = own(p, l.d_model * all), *b = own(p, all);
        auto place = [&](const float *from, const float *bias, int64_t columns, int64_t at, float factor) {
            for (int64_t i = 0; i < l.d_model; i++)
                for (int64_t j = 0; j < columns; j++)
                    w[i * all + at + j] = factor * from[i * columns + j];
            for (int64_t j = 0; bias && j < columns; j++)
                b[at + j] = factor * bias[j];
        };
        place(l.w_q, l.b_q, e_q, 0, l.scale);
        place(l.w_k, l.b_k, e_k, e_q, 1);
        if (l.w_v)
            place(l.w_v, l.b_v, e_v, e_q + e_k, 1);
        q = own(p, tokens * all), k = q + e_q, v = q + e_q + e_k;
        q_stride = k_stride = v_stride = all;
        add_projection(p, l, l.x, tokens, l.d_model, w, l.b_q ? b : nullptr, all, q, all, 1, false);
    } else {
        q = own(p, tokens * e_q), k = own(p, keys * e_k);
        add_projection(p, l, l.x, tokens, l.d_model, l.w_q, l.b_q, e_q, q, e_q, l.scale, l.split);
        add_projection(p, l, l.source, keys, l.d_source, l.w_k, l.b_k, e_k, k, e_k, 1, l.split);
        float *values = own(p, keys * e_v);
        if (l.w_v)
            add_projection(p, l, l.source, keys, l.d_source, l.w_v, l.b_v, e_v, values, e_v, 1, l.split);
        v = values;
    }
    if (!l.w_v)
        v = l.source, v_stride = l.d_source;
    if (l.output == OUTPUT_DENSE)
        z = own(p, tokens * l.h * l.d_v);
    float *scores = own(p, l.batch * l.h * std::min(block, l.n) * l.m);
    for (int64_t from = 0; from < l.n; from += block)
        add_attention(p, l, q, q_stride, k, k_stride, v, v_stride, z, scores, from, std::min(l.n, from + block));
    if (l.output == OUTPUT_DENSE)
        add_projection(p, l, z, tokens, l.h * l.d_v, l.w_o, l.b_o, l.d_model, l.y, l.d_model, 1, false);
}

} // namespace

extern "C" void *peer_open(const struct problem *l, const char *option, char *why, size_t size)
{
    try {
        peer *p = new peer;
        p->whole_numbers = std::strncmp(option, "int8", 4) == 0;
        build(*p, *l, std::strstr(option, "blocks") != nullptr ? QUERY_BLOCK : l->n);
        return p;
    } catch (const dnnl::error &error) {
        std::snprintf(why, size, "%s (status %d)", error.message, static_cast<int>(error.status));
    }
    return nullptr;
}

extern "C" int64_t peer_run(void *pointer, int64_t calls)
{
    peer &p = *static_cast<peer *>(pointer);
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    try {
        for (int64_t call = 0; call < calls; call++) {
            for (auto &step : p.steps)
                step(p);
            p.stream.wait();
        }
    } catch (const dnnl::error &) {
        return -1;
    }
    return std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start).count();
}

extern "C" void peer_memory(const void *, int64_t *packed, int64_t *scratch) { *packed = *scratch = -1; }

extern "C" const char *peer_version()
{
    static std::string text;
    const dnnl_version_t *v = dnnl::version();
    text = std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
    return text.c_str();
}
