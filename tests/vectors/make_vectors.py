#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test vectors: small layers with drawn inputs and the answers of formulas in float64.

    python3 tests/vectors/make_vectors.py [FOLDER]        (default: beside this file; needs numpy)

Each vector is NAME.layer (the spec) and NAME.safetensors (inputs, weights, y, attn). They stand beside vectors that
came from elsewhere and reach what those do not: grouped heads, windows, mask tensors and their broadcasts, sequences
of length 0, calls that are smaller than the spec, empty calls, split and convolution with every other key, non-finite
values.

The formulas follow the definition of the layer row by row: the keys that a query sees are listed first, and nothing
else is ever read for that row. They share no code with the project. Sums are exactly rounded (math.fsum), so that the
files come out the same on every machine. Left out on purpose: speed.
"""
import itertools
import json
import math
import struct
import sys
import zlib
from pathlib import Path

import numpy as np

import score_terms

INF, NAN = float("inf"), float("nan")
DTYPES = {"float32": "F32", "int32": "I32", "uint64": "U64", "bool": "BOOL", "float16": "F16", "int8": "I8",
          "uint16": "BF16"}  # of bf16 the bits


# ---- safetensors -------------------------------------------------------------------------------------------------

def write_safetensors(path, tensors, metadata):
    """8 bytes of header length, a JSON header padded with blanks to a multiple of 8, then the tensors end to end."""
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        begin = len(data)
        data += np.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": DTYPES[tensor.dtype.name], "shape": list(tensor.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


# ---- what a spec means -------------------------------------------------------------------------------------------

def complete(name, spec):
    """The spec with every default filled in, and the widths that follow from it."""
    s = dict(name=name, width="narrow", input="shared", attention="self", mask="none", w_k="dense", w_v="dense",
             w_o="dense", conv_width=3, bias=False, scores=False, weight_layout="in_out", weight_type="f32",
             precision="f32", tensor_type="f32", window_left=None, window_right=None, gate="none")
    s.update(spec)
    s.setdefault("h_kv", s["h"])
    if s["input"] == "projected":
        s.setdefault("d_model", 0)
        s.setdefault("d_v", s["d_k"])
    s.setdefault("d_source", s["d_model"])
    s.setdefault("source_len", s["seq_len"])
    split = s["input"] == "split"
    per_head = s["d_model"] if s["width"] == "wide" else s["d_model"] // s["h"]
    s.setdefault("d_k", per_head)
    s["in_q"] = s["d_model"] // s["h"] if split else s["d_model"]
    s["in_kv"] = s["d_source"] // s["h"] if split else s["d_source"]
    if s["w_v"] == "identity":
        s["d_v"] = s["in_kv"]
    if s["w_v"] == "keys":
        s.setdefault("d_v", s["d_k"])
    s.setdefault("d_v", per_head)
    s.setdefault("scale", 1 / math.sqrt(s["d_k"]))
    s["masks"] = s["mask"].split("+")
    s["pairs"] = name.endswith("_pairs")  # as instruction sets pack columns of i8 that sum two products in 16 bits
    return s


def spec_text(name, spec, comment):
    written = {"name": name, **spec}
    lines = ["# " + comment]
    for key, value in written.items():
        lines.append(f"{key} = {str(value).lower() if isinstance(value, bool) else value}")
    return "\n".join(lines) + "\n"


def weight_shapes(s):
    """Shapes with weight_layout = in_out; only the tensors that the layer has."""
    h, h_kv, d_k, d_v, d_model = s["h"], s["h_kv"], s["d_k"], s["d_v"], s["d_model"]
    split = s["input"] == "split"
    shapes = {}
    if s["input"] != "projected":
        shapes = {"w_q": (h, s["in_q"], d_k) if split else (d_model, h * d_k), "b_q": (h * d_k,)}
    if shapes and s["w_k"] == "dense":
        shapes["w_k"] = (h, s["in_kv"], d_k) if split else (s["d_source"], h_kv * d_k)
        shapes["b_k"] = (h_kv * d_k,)
    if "w_q" in shapes and s["w_v"] == "dense":
        shapes["w_v"] = (h, s["in_kv"], d_v) if split else (s["d_source"], h_kv * d_v)
        shapes["b_v"] = (h_kv * d_v,)
    if s["w_o"] != "none":
        shapes["w_o"] = (h * d_v, d_model) if s["w_o"] == "dense" else (h, s["conv_width"], d_v, d_model // h)
        shapes["b_o"] = (d_model,)
    if s["gate"] != "none":
        shapes["b_gate"] = (h * d_v,) if s["gate"] == "features" else (h,)
        shapes["w_gate"] = (d_model, *shapes["b_gate"])
    return {name: shape for name, shape in shapes.items() if s["bias"] or name[0] == "w"}


# ---- weights in fewer bytes --------------------------------------------------------------------------------------

def rounded_unit(unit):
    """Rounded up to 16 significant bits, 2^-132 at least."""
    step = 2.0 ** max(math.frexp(unit)[1] - 16, -141)
    return max(math.ceil(unit / step) * step, 2.0 ** -132)


def stored_group(group):
    """Of i4: the first of the largest numbers becomes -8 units, and what would be 8 of them 7."""
    if not group.any():
        return np.zeros(len(group))
    largest = group[np.abs(group).argmax()]
    unit = math.copysign(rounded_unit(float(np.abs(largest) / np.float32(8))), -largest)
    return np.minimum(np.rint(group / np.float32(unit)).astype(np.float64), 7) * unit


def bf16_bits(numbers):
    """The upper half of an f32; of two that are as near, the even one."""
    bits = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    up = (bits & 0xffff) + ((bits >> 16) & 1) > 0x8000
    return ((bits >> 16) + up).astype(np.uint16)


def bf16_numbers(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def rounded(s, numbers):
    """An operand of a projection, with precision = bf16: below 2^-126 in size a number is 0."""
    if s["precision"] != "bf16":
        return numbers.astype(np.float64)
    return bf16_numbers(bf16_bits(np.where(np.abs(numbers) < 2.0 ** -126, 0, numbers)))


def whole(s):
    return s["precision"] in ("i8", "i16")


def levels(s, count):
    """The largest whole number of a row of so many."""
    return 127 if s["precision"] == "i8" else min(32767, math.isqrt(2 ** 33 // count))


def whole_row(row, most):
    """Multiples of the row's unit; all NaN where one of its numbers is not finite."""
    if not np.isfinite(row).all():
        return np.full(len(row), NAN)
    largest = max(np.float32(2.0 ** -100), np.abs(row).max().astype(np.float32))
    by, unit = np.float32(most) / largest, largest / np.float32(most)
    return np.rint(row.astype(np.float32) * by).astype(np.float64) * float(unit)


def whole_rows(s, rows):
    """Rows that a product reads, with precision = i8 or i16."""
    if not whole(s):
        return rows
    return np.array([whole_row(row, levels(s, len(row))) for row in rows]).reshape(rows.shape)


def of_bytes(s):
    """Whether scores and weighted sums take bytes: instruction sets that sum two products in 16 bits stay with i16."""
    return s["precision"] == "i8" and not s["pairs"]


def pays(s, width):
    """Whether sums over so many features are of whole numbers in attention's core."""
    many = (width - 6) * s["cache_len"] >= 512 if "cache" in s else width >= 8 and width * s["source_len"] >= 448
    return width >= 32 or (of_bytes(s) and many)


def whole_scores(s):
    return whole(s) and pays(s, s["d_k"]) and not s.get("few")


def whole_heads(s, q, k):
    """A head's queries, in base 2, and keys, where scores are sums of whole numbers."""
    if not whole_scores(s):
        return q, k
    c, most = abs(s["scale"]) / math.log(2), 127 if of_bytes(s) else math.isqrt((2 ** 31 - 1) // s["d_k"])
    return (np.array([whole_row(row * c, most) / c for row in q]).reshape(q.shape),
            np.array([whole_row(row, most) for row in k]).reshape(k.shape))


def whole_values(s, v):
    """A head's values, where weighted sums are of whole numbers; weights are not rounded here: the bound has that."""
    if not whole_scores(s) or not pays(s, s["d_v"]):
        return v
    return np.array([whole_row(row, 127 if of_bytes(s) else 4095) for row in v]).reshape(v.shape)


def whole_column(s, column, tap):
    """Multiples of a unit: the largest number of i8 has 127, or with pairs two neighbours; sums of i16 stay below 2^31."""
    wanted = np.float32(0)
    for first in range(0, len(column), tap):
        sizes = np.abs(column[first:first + tap]).astype(np.float32)
        if s["precision"] == "i8":
            if s["pairs"]:
                both = np.append(sizes, np.zeros(tap % 2, np.float32)).reshape(-1, 2)
                sizes = both[:, 0] + both[:, 1]
            wanted = max(wanted, (sizes * np.float32(float.fromhex("0x1.020408p-7"))).max())
            continue
        room = 0.99 * ((2 ** 31 - 1) / levels(s, tap) - 0.5 * tap)
        most = 32767 if tap < 192 else 8191 # four of which add up in 16 bits
        wanted = max(wanted, np.float32(float(sizes.max()) / most), np.float32(sizes.astype(np.float64).sum() / room))
    if wanted == 0:
        return np.zeros(len(column))
    bits = 16 if s["precision"] == "i8" else 9
    step = 2.0 ** max(math.frexp(float(wanted))[1] - bits, 24 - bits - 149)
    unit = max(math.ceil(float(wanted) / step) * step, 2.0 ** -132)
    return np.rint(column / np.float32(unit)).astype(np.float64) * unit


def stored_column(kind, column, tap):
    """What packing leaves of a column, as float64; `tap` rows of it are a tap's."""
    if kind == "f16":
        return column.astype(np.float16).astype(np.float64)
    if kind == "bf16":
        return bf16_numbers(bf16_bits(column))
    if kind == "i4":
        taps = [column[first:first + tap] for first in range(0, len(column), tap)]
        return np.concatenate([stored_group(of[k:k + 32]) for of in taps for k in range(0, tap, 32)])
    if not column.any():
        return np.zeros(len(column))
    unit = rounded_unit(float(np.abs(column).max() / np.float32(127)))
    return np.rint(column / np.float32(unit)).astype(np.float64) * unit


def stored(kind, matrix, s=None):
    """Columns of the last axis, through all rows; a convolution's also through its taps."""
    groups = matrix.reshape((-1, matrix.shape[-2], matrix.shape[-1]))
    if matrix.ndim == 4:
        groups = matrix.reshape((matrix.shape[0], -1, matrix.shape[-1]))
    out = np.empty(groups.shape)
    for g, group in enumerate(groups):
        for c in range(group.shape[1]):
            column, tap = np.ascontiguousarray(group[:, c]), matrix.shape[-2]
            out[g, :, c] = whole_column(s, column, tap) if s else stored_column(kind, column, tap)
    return out.reshape(matrix.shape)


# ---- the equations -----------------------------------------------------------------------------------------------

def exact_sum(values):
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):  # infinities of both signs
        return NAN


def project(rows, matrix, bias):
    """rows @ matrix + bias, each component exactly rounded."""
    out = np.empty((len(rows), matrix.shape[1]))
    columns = np.ascontiguousarray(matrix.T)
    for r, row in enumerate(rows):
        products = (columns * row).tolist()
        for c, terms in enumerate(products):
            out[r, c] = exact_sum(terms if bias is None else terms + [float(bias[c])])
    return out


def one_head(s, w, i, x, source):
    """Q_i, K_i, V_i of one sequence. w holds float64 weights, in_out."""
    d_k, d_v, j = s["d_k"], s["d_v"], i * s["h_kv"] // s["h"]
    keys, queries = slice(j * d_k, (j + 1) * d_k), slice(i * d_k, (i + 1) * d_k)
    values = slice(j * d_v, (j + 1) * d_v)
    split = s["input"] == "split"
    x_i = x[:, i * s["in_q"]:(i + 1) * s["in_q"]] if split else x
    s_i = source[:, i * s["in_kv"]:(i + 1) * s["in_kv"]] if split else source

    values_in, x_i, s_i = s_i, whole_rows(s, x_i), whole_rows(s, s_i)

    def matrix(name, columns):
        return w[name][i] if split else w[name][:, columns]

    def bias(name, columns):
        return w[name][columns] if s["bias"] else None

    q = project(x_i, matrix("w_q", queries), bias("b_q", queries))
    if s["w_k"] == "tied":
        k = project(s_i, matrix("w_q", queries), bias("b_q", queries))
    else:
        k = project(s_i, matrix("w_k", keys), bias("b_k", keys))
    if s["w_v"] == "keys":
        return q, k, k[:, :d_v]
    v = values_in if s["w_v"] == "identity" else project(s_i, matrix("w_v", values), bias("b_v", values))
    return q, k, v


def given_head(s, tensors, b, i):
    """The same where a call brings them."""
    j = i * s["h_kv"] // s["h"]
    q, k = (from_cache(tensors[name][b, :, head]) for name, head in (("q", i), ("k", j)))
    return q, k, k[:, :s["d_v"]] if s["w_v"] == "keys" else from_cache(tensors["v"][b, :, j])


def visible(s, t, tensors, b, i, m):
    keys = [j for j in range(m) if score_terms.sees(s["masks"], t, j, (s["window_left"], s["window_right"]))]
    for mask, (_, shows) in score_terms.BROUGHT.items():
        if mask in s["masks"]:
            keys = [j for j in keys if shows(score_terms.number(tensors, mask, b, i, t, j), j)]
    return keys


def attend(s, tensors, b, i, q, k, v, first=0):
    """Weights [n][m] and Z [n][d_v] of one head; a row that sees no key is zero in both. first: position of query 0"""
    (q, k), v = whole_heads(s, q, k), whole_values(s, v)
    weights, z = np.zeros((len(q), len(k))), np.zeros((len(q), s["d_v"]))
    for t in range(len(q)):
        keys = visible(s, first + t, tensors, b, i, len(k))
        if not keys:
            continue
        scores = [s["scale"] * exact_sum((q[t] * k[j]).tolist()) for j in keys]
        for word, value in score_terms.TERMS.items():
            if word in s["masks"]:
                scores = [value(score, score_terms.number(tensors, word, b, i, t, j)) for score, j in zip(scores, keys)]
        if any(math.isnan(score) or score == INF for score in scores) or max(scores) == -INF:
            weights[t, keys] = NAN
            z[t] = NAN
            continue
        e = [math.exp(score - max(scores)) for score in scores]
        total = exact_sum(e)
        weights[t, keys] = [value / total for value in e]
        for c in range(s["d_v"]):
            z[t, c] = exact_sum((weights[t, keys] * v[keys, c]).tolist())
    return weights, z


def gated(s, w, x, z):
    """Z [h][n][d_v] of one sequence times the sigmoid of x W_gate + b_gate: a number for each feature, or each head."""
    if s["gate"] == "none":
        return z
    a = project(whole_rows(s, x), w["w_gate"], w["b_gate"] if s["bias"] else None)
    shares = np.array([[1 / (1 + math.exp(-number)) for number in row] for row in a])
    return np.array(z) * shares.reshape(len(x), s["h"], -1).transpose(1, 0, 2)


def convolve(s, w, tensors, b, z):
    """y[t, block i] = sum_r Z_i[t + r - pad] W_O,i[r]; z is [h][n][d_v]. Rows of Z that count as zero are not read."""
    n, d_block = z.shape[1], s["d_model"] // s["h"]
    end = min(n, int(tensors["lengths"][b])) if "padding" in s["masks"] else n
    pad = score_terms.conv_pad(s["conv_width"], s["masks"])
    z = np.array([whole_rows(s, of) for of in z])
    y = np.empty((n, s["d_model"]))
    for t, i in itertools.product(range(n), range(s["h"])):
        taps = [r for r in range(s["conv_width"]) if 0 <= t + r - pad < end]
        for c in range(d_block):
            terms = [float(w["b_o"][i * d_block + c])] if s["bias"] else [0.0]
            for r in taps:
                terms += (z[i, t + r - pad] * w["w_o"][i, r, :, c]).tolist()
            y[t, i * d_block + c] = exact_sum(terms)
    return y


def layer_weights(s, tensors):
    """As the layer has them, in float64 and in_out."""
    w = {name: tensors[name] for name in weight_shapes(s)}
    if s["weight_layout"] == "out_in":
        w = {name: np.swapaxes(a, -1, -2) if name[0] == "w" else a for name, a in w.items()}
    if s["weight_type"] != "f32":
        w = {name: stored(s["weight_type"], a) if name[0] == "w" else a for name, a in w.items()}
    if whole(s):
        w = {name: stored(None, a, s) if name[0] == "w" else a for name, a in w.items()}
    return {name: rounded(s, a) if name[0] == "w" else a.astype(np.float64) for name, a in w.items()}


def layer(s, tensors):
    """y and attn in float64."""
    w, given = layer_weights(s, tensors), s["input"] == "projected"
    x = None if given else rounded(s, from_cache(tensors["x"]))
    source = rounded(s, from_cache(tensors["source"])) if s["attention"] == "cross" else x
    (batch, n), m = (tensors["q"] if given else x).shape[:2], (tensors["k"] if given else source).shape[1]
    d_out = s["h"] * s["d_v"] if s["w_o"] == "none" else s["d_model"]
    y, attn = np.zeros((batch, n, d_out)), np.zeros((batch, s["h"], n, m))
    for b in range(batch):
        z = np.zeros((s["h"], n, s["d_v"]))
        for i in range(s["h"]):
            head = given_head(s, tensors, b, i) if given else one_head(s, w, i, x[b], source[b])
            attn[b, i], z[i] = attend(s, tensors, b, i, *head)
        z = gated(s, w, x[b], z) if not given else z
        concatenated = np.concatenate(list(z), axis=1)
        if s["w_o"] == "none":
            y[b] = concatenated
        elif s["w_o"] == "dense":
            y[b] = project(whole_rows(s, rounded(s, concatenated)), w["w_o"], w["b_o"] if s["bias"] else None)
        else:
            y[b] = convolve(s, w, tensors, b, z)
    return y.reshape(batch, n, s["h"], s["d_v"]) if given and s["w_o"] == "none" else y, attn


# ---- a cache ------------------------------------------------------------------------------------------------------

def cache_row(s, tensors, b, position):
    """Where a position lies: the indices before and behind that of the head."""
    if s["cache"] == "paged":
        return int(tensors["page_table"][b, position // s["page_len"]]), position % s["page_len"]
    return b, position % s["cache_len"]


def cached_layer(s, tensors):
    """y, and the cache as the call leaves it. New keys and values are read as the cache has them."""
    w, x = layer_weights(s, tensors), from_cache(tensors["x"])
    batch, n = x.shape[:2]
    s = dict(s, few=n <= 16 * s["h_kv"] // s["h"])  # a call of few queries is f32
    kept = "k" if s["w_v"] == "keys" else "kv"
    names = [name + ("_pages" if s["cache"] == "paged" else "_cache") for name in kept]
    scales = [name + "_scale" for name in kept] if s["cache_type"] == "i8" else []
    after = {name: tensors[name].copy() for name in names + scales}
    y = np.zeros((batch, n, s["d_model"]))
    for b in range(batch):
        past, z = int(tensors["past"][b]), []
        first = max(0, past - s["window_left"]) if s["cache"] == "ring" else 0  # older ones are forgotten
        for i in range(s["h"]):
            head, rows = i * s["h_kv"] // s["h"], []
            q, *new = one_head(s, w, i, x[b], x[b])
            for name, scale, numbers in zip(names, scales or (None, None), new):
                rows.append(np.full((past + n, numbers.shape[1]), NAN))
                for position in range(past + n):
                    page, row = cache_row(s, tensors, b, position)
                    if position >= past and scale:
                        after[name][page, head, row], after[scale][page, head, row] = multiples(numbers[position - past])
                    elif position >= past:
                        after[name][page, head, row] = to_cache(s["cache_type"], numbers[position - past])
                    if position >= first:
                        rows[-1][position] = from_cache(after[name][page, head, row])
                        rows[-1][position] *= float(after[scale][page, head, row]) if scale else 1.0
            if kept == "k":
                rows.append(rows[0][:, :s["d_v"]])
            z.append(attend(s, tensors, b, i, q, *rows, first=past)[1])
        y[b] = project(whole_rows(s, np.concatenate(gated(s, w, x[b], z), axis=1)), w["w_o"], w["b_o"] if s["bias"] else None)
    return y, {"expect." + name: tensor for name, tensor in after.items()}


def to_cache(kind, row):
    return row.astype(np.float32) if kind == "f32" else bf16_bits(row) if kind == "bf16" else row.astype(np.float16)


def multiples(row):
    """Whole numbers, of two as near the even one, and the scale: a 127th of the largest size."""
    scale = np.float32(np.abs(row).max() / 127)
    if scale == 0:
        return np.zeros(len(row), np.int8), scale
    return np.rint(row / float(scale)).astype(np.int8), scale


def from_cache(row):
    return bf16_numbers(row) if row.dtype == np.uint16 else row.astype(np.float64)


def cache(past, pages=None):
    """A cache that holds `past` tokens of each sequence; a row that no token has is NaN. pages: the page table"""
    def change(tensors, random, s):
        tensors["past"] = np.array(past, dtype=np.int32)
        paged = s["cache"] == "paged"
        if paged:
            tensors["page_table"] = np.array(pages, dtype=np.int32)
        count, rows = (max(max(row) for row in pages) + 1, s["page_len"]) if paged else (len(past), s["cache_len"])
        for name, width in (("k", s["d_k"]), ("v", s["d_v"]))[:1 if s["w_v"] == "keys" else 2]:
            tensor = np.full((count, s["h_kv"], rows, width), NAN)
            for b, tokens in enumerate(past):
                for position in range(max(0, tokens - s.get("cache_len")), tokens):
                    page, row = cache_row(s, tensors, b, position)
                    tensor[page, :, row] = random.standard_normal((s["h_kv"], width))
            name += "_pages" if paged else "_cache"
            if s["cache_type"] == "i8":  # of a row that no token has the scale is NaN
                codes = random.randint(-127, 128, tensor.shape).astype(np.int8)
                scale = np.where(np.isnan(tensor[..., 0]), NAN, np.abs(tensor).max(axis=-1) / 127)
                tensors[name], tensors[name[0] + "_scale"] = codes, scale.astype(np.float32)
            else:
                tensors[name] = to_cache(s["cache_type"], tensor)
    return change


def zero_token(change, b, row):
    """x of a token is zero, so that without biases its keys and values are."""
    def both(tensors, random, s):
        change(tensors, random, s)
        tensors["x"][b, row] = 0
    return both


# ---- drawing -----------------------------------------------------------------------------------------------------

def draw(s, random, batch, n, m):
    """x, source and weights; the scale of a weight is 1/sqrt(its inputs), so that every stage is of order 1."""
    if s["input"] == "projected":
        tensors = {name: random.standard_normal((batch, tokens, heads, width)) for name, tokens, heads, width in
                   (("q", n, s["h"], s["d_k"]), ("k", m, s["h_kv"], s["d_k"]), ("v", m, s["h_kv"], s["d_v"]))
                   if (name, s["w_v"]) != ("v", "keys")}
    else:
        tensors = {"x": random.standard_normal((batch, n, s["d_model"]))}
    if s["attention"] == "cross":
        tensors["source"] = random.standard_normal((batch, m, s["d_source"]))
    for name, shape in weight_shapes(s).items():
        inputs = shape[-2] * (s["conv_width"] if len(shape) == 4 else 1) if name[0] == "w" else 4
        tensors[name] = random.standard_normal(shape) / math.sqrt(inputs)
        if name[0] == "w" and s["weight_layout"] == "out_in":
            tensors[name] = np.swapaxes(tensors[name], -1, -2)
    return {name: np.ascontiguousarray(tensor, dtype=np.float32) for name, tensor in tensors.items()}


def bool_mask(random, shape, hidden_rows=()):
    mask = random.random_sample(shape) < 0.6
    for row in hidden_rows:
        mask[..., row, :] = False
    return mask


def additive_mask(random, shape):
    """Drawn numbers, -inf here and there, and three rows of their own where they exist: all -inf; all -1e9 (that hides
    nothing); -1e9 at key 0 and -inf elsewhere (key 0 then has weight 1)."""
    mask = random.standard_normal(shape).astype(np.float32)
    mask[random.random_sample(shape) < 0.2] = -INF
    for row, fill in ((1, -INF), (3, -1e9), (5, -INF)):
        if row < shape[2]:
            mask[..., row, :] = fill
    if shape[2] > 5 and shape[3] > 0:
        mask[..., 5, 0] = -1e9
    return mask


# ---- the vectors -------------------------------------------------------------------------------------------------

VECTORS = []


def vector(name, comment, batch, n, m=None, change=None, scores=True, **spec):
    """One vector: the keys of the spec as keywords; change(tensors, random) adds lengths and masks or spoils values."""
    if scores:
        spec["scores"] = True
    VECTORS.append((name, comment, spec, batch, n, n if m is None else m, change))


def lengths(*values):
    def change(tensors, random):
        tensors["lengths"] = np.array(values, dtype=np.int32)
    return change


def masks(lengths=None, **shapes):
    """Mask tensors by their (batch, h, n, m)."""
    def change(tensors, random):
        if lengths is not None:
            tensors["lengths"] = np.array(lengths, dtype=np.int32)
        if "bool" in shapes:
            tensors["mask_bool"] = bool_mask(random, shapes["bool"], hidden_rows=[2])
        if "additive" in shapes:
            tensors["mask_add"] = additive_mask(random, shapes["additive"])
    return change


def spoil(tensor, rows, value, lengths=None, column=None):
    """Puts `value` (or several in turn) into whole rows, or one column of them, given as (batch, row)."""
    def change(tensors, random):
        if lengths is not None:
            tensors["lengths"] = np.array(lengths, dtype=np.int32)
        values = itertools.cycle(value if isinstance(value, tuple) else (value,))
        for b, row in rows:
            tensors[tensor][b, row, slice(None) if column is None else column] = next(values)
    return change


def outliers(tensors, random):
    """Of two panels of 8, 16 or 32 columns: their halves' largest numbers, whose signs add up in sums of four of them.
    Rows and columns of one size, whose signs make products of such sums leave 32 bits. A row of NaN, which no query
    sees."""
    for row, width in ((3, 8), (7, 16), (11, 32)):
        sign = np.where(np.arange(tensors["w_k"].shape[1]) // width % 2 == 0, -1, 1)
        tensors["w_k"][row, :], tensors["w_k"][96 + row, :] = sign * 0.9, -sign * 0.9
    tensors["source"][0, :, 3] *= 20
    for column in random.choice(196, 60, replace=False):
        tensors["w_k"][:96, column], tensors["w_k"][96:, column] = random.choice([-1, 1]), 1
    for row in random.choice(67, 24, replace=False):
        tensors["source"][0, row, :96], tensors["source"][0, row, 96:] = random.choice([-0.01, 0.01]), 0.01
    tensors["source"][0, 40, 9] = NAN
    tensors["mask_bool"] = np.ones((1, 1, 3, 67), bool)
    tensors["mask_bool"][..., 40] = False


def sizes(tensors, random):
    """Rows, and columns, of all sizes."""
    tensors["source"][0, 20:24] *= 1e-4
    tensors["source"][0, 30:50] *= 8
    tensors["w_v"][:, 70:80] *= 1e-3
    tensors["mask_bool"] = np.abs(np.arange(67) - 4 * np.arange(16)[:, None]) < 3
    tensors["mask_bool"].shape = 1, 1, 16, 67


def spoil_and_hide(tensor, columns, value, shape):
    """A bool mask that hides some keys from every query, and `value` in those keys."""
    def change(tensors, random):
        mask = bool_mask(random, shape)
        mask[..., columns] = False
        tensors["mask_bool"] = mask
        tensors[tensor][:, columns, :] = value
    return change


def list_vectors():
    # key/value heads that several query heads share
    vector("grouped_causal", "6 query heads on 2 key/value heads", 2, 19, d_model=48, h=6, h_kv=2, seq_len=19,
           mask="causal", bias=True)
    vector("grouped_one_head", "4 query heads on one key/value head, d_v wider than d_k", 3, 18,
           change=lengths(18, 7, 1), d_model=32, h=4, h_kv=1, d_k=8, d_v=12, seq_len=18, mask="padding",
           weight_layout="out_in")
    vector("grouped_cross", "grouped heads in cross-attention on a narrower source", 2, 9, 34, d_model=32, h=4,
           h_kv=2, attention="cross", d_source=20, seq_len=9, source_len=34, bias=True)

    # gates of outputs
    vector("gate_features", "gates of each feature, on 2 key/value heads", 2, 19, d_model=40, h=4, h_kv=2, d_k=16,
           d_v=11, seq_len=19, mask="causal", gate="features", bias=True)
    vector("gate_heads", "a gate of each head, weights as PyTorch has them", 2, 21, change=lengths(21, 6), d_model=33,
           h=3, seq_len=21, mask="padding", gate="heads", weight_layout="out_in")
    vector("gate_conv_cross", "gates of queries, under a convolution, in cross-attention", 2, 14, 23, d_model=32, h=4,
           attention="cross", d_source=20, seq_len=14, source_len=23, w_o="conv", gate="features", bias=True)
    vector("gate_i16", "gates by products of whole numbers", 2, 17, d_model=48, h=3, seq_len=17, gate="features",
           precision="i16", bias=True)
    vector("gate_cache", "gates behind a cache", 2, 7, scores=False, change=cache((0, 9)), d_model=32, h=4, h_kv=2,
           seq_len=8, cache="rows", cache_len=24, cache_type="f32", mask="causal", gate="heads")

    # windows
    vector("window_left", "only the query and the 3 keys before it, and all after", 2, 21, d_model=32, h=2,
           seq_len=21, mask="window", window_left=3)
    vector("window_right", "all keys before, and 2 after", 2, 21, d_model=32, h=2, seq_len=21, mask="window",
           window_right=2)
    vector("window_both_no_self", "5 before, 3 after, not the query itself", 1, 37, d_model=32, h=2, seq_len=37,
           mask="window+no_self", window_left=5, window_right=3, bias=True)
    vector("window_causal_padding",
           "a causal window that slides past the end of two sequences: late rows see nothing", 3, 23,
           change=lengths(23, 9, 2), d_model=32, h=2, seq_len=23, mask="causal+window+padding", window_left=4,
           bias=True)
    vector("window_nothing", "a window of the query alone, without the query: every row is b_o", 2, 9, d_model=16,
           h=2, seq_len=9, mask="window+no_self", window_left=0, window_right=0, bias=True)
    vector("window_long", "causal, 70 back, over many key tiles", 1, 300, scores=False, d_model=16, h=2, seq_len=300,
           mask="causal+window", window_left=70)
    vector("window_cross", "a window over a source that is shorter than the queries", 1, 26, 15, d_model=32, h=2,
           attention="cross", seq_len=26, source_len=15, mask="window", window_left=2, window_right=6, bias=True)

    # mask tensors
    vector("bool_each", "a bool mask for each sequence and head, row 2 sees nothing", 2, 17, d_model=24, h=3,
           seq_len=17, mask="bool", bias=True, change=masks(bool=(2, 3, 17, 17)))
    vector("bool_shared_causal", "one bool mask for all, with causal", 2, 18, d_model=32, h=2, seq_len=18,
           mask="bool+causal", change=masks(bool=(1, 1, 18, 18)))
    vector("bool_by_sequence_cross", "a bool mask for each sequence, shared by the heads", 3, 7, 20, d_model=32, h=4,
           attention="cross", seq_len=7, source_len=20, mask="bool", change=masks(bool=(3, 1, 7, 20)))
    vector("bool_by_head", "a bool mask for each head, shared by the sequences", 2, 16, d_model=32, h=4, seq_len=16,
           mask="bool", bias=True, change=masks(bool=(1, 4, 16, 16)))
    vector("additive_each", "an additive mask with -inf, a hidden row, and -1e9, which does not hide", 2, 17,
           d_model=24, h=3, seq_len=17, mask="additive", bias=True, change=masks(additive=(2, 3, 17, 17)))
    vector("additive_by_head_causal", "an additive mask for each head, with causal", 2, 13, d_model=32, h=4,
           seq_len=13, mask="causal+additive", change=masks(additive=(1, 4, 13, 13)))
    vector("additive_shared_cross", "one additive mask for all, in cross-attention", 2, 8, 33, d_model=32, h=2,
           attention="cross", seq_len=8, source_len=33, mask="additive", change=masks(additive=(1, 1, 8, 33)))
    vector("every_mask", "all six masks at once", 3, 22, d_model=32, h=2, seq_len=22,
           mask="causal+padding+no_self+window+bool+additive", window_left=15, window_right=1, bias=True,
           change=masks(lengths=(22, 13, 4), bool=(3, 1, 22, 22), additive=(1, 2, 22, 22)))

    # lengths and calls smaller than the spec
    vector("lengths_zero", "one sequence of length 0 between others: its rows are b_o", 4, 12, d_model=32, h=4,
           seq_len=12, mask="padding", bias=True, change=lengths(12, 0, 5, 1))
    vector("short_call", "n far below seq_len, and lengths below n", 2, 11, d_model=32, h=2, seq_len=64,
           mask="causal+padding", bias=True, change=lengths(11, 6))
    vector("short_call_cross", "n and m far below the limits", 2, 3, 7, d_model=32, h=2, attention="cross",
           seq_len=40, source_len=50, mask="bool", change=masks(bool=(2, 1, 3, 7)))
    vector("empty_sequence", "n = 0", 2, 0, d_model=16, h=2, seq_len=8, mask="padding", bias=True,
           change=lengths(0, 0))
    vector("empty_source", "m = 0: every row is b_o", 2, 5, 0, d_model=16, h=2, attention="cross", seq_len=8,
           source_len=8, mask="padding", bias=True, change=lengths(0, 0))
    vector("empty_batch", "batch = 0", 0, 5, d_model=16, h=2, seq_len=8, mask="causal")

    # every head its own columns
    vector("split_cross_padding", "split heads on a source of another width", 2, 9, 21, d_model=32, h=4,
           input="split", attention="cross", d_source=24, seq_len=9, source_len=21, mask="padding", bias=True,
           change=lengths(21, 4))
    vector("split_conv", "split heads, merged by a convolution", 2, 14, d_model=32, h=4, input="split", w_o="conv",
           seq_len=14, bias=True)
    vector("split_identity_causal", "split heads, values are the head's own columns", 2, 15, d_model=32, h=4,
           input="split", w_v="identity", seq_len=15, mask="causal")
    vector("split_wide_out_in", "split heads of full width, Linear layout", 1, 14, d_model=24, h=3, input="split",
           width="wide", seq_len=14, bias=True, weight_layout="out_in")
    vector("split_d_k_d_v_none", "split heads with odd widths, only concatenated", 2, 13, d_model=30, h=3,
           input="split", d_k=5, d_v=7, w_o="none", seq_len=13, mask="no_self", bias=True)
    vector("split_tied_identity_none", "split, tied, identity, no W_O", 2, 16, d_model=32, h=4, input="split",
           w_k="tied", w_v="identity", w_o="none", seq_len=16, mask="no_self", bias=True)
    vector("split_conv_cross_out_in", "split heads on a wider source, convolution, Linear layout", 2, 10, 17,
           d_model=24, h=3, input="split", attention="cross", d_source=36, w_o="conv", conv_width=4, d_v=9,
           seq_len=10, source_len=17, bias=True, weight_layout="out_in")

    # convolution
    vector("conv_padding", "convolution: rows of Z past each length count as zero", 3, 16, d_model=32, h=4,
           w_o="conv", conv_width=5, seq_len=16, mask="padding", bias=True, change=lengths(16, 9, 0))
    vector("conv_causal_even", "causal convolution with an even number of taps", 2, 17, d_model=32, h=2, w_o="conv",
           conv_width=4, seq_len=17, mask="causal", bias=True)
    vector("conv_even_padding_out_in", "even taps off centre, padding, Linear layout", 2, 13, d_model=24, h=2,
           w_o="conv", d_k=5, d_v=10, conv_width=6, seq_len=20, mask="padding", weight_layout="out_in",
           change=lengths(12, 5))
    vector("conv_more_taps_than_rows", "9 taps over 3 rows, causal and padding", 2, 3, d_model=16, h=2, w_o="conv",
           conv_width=9, seq_len=24, mask="causal+padding", bias=True, change=lengths(3, 2))
    vector("conv_cross_padding", "convolution in cross-attention: lengths end the keys and Z alike", 2, 12, 18,
           d_model=24, h=3, attention="cross", w_o="conv", seq_len=12, source_len=18, mask="padding", bias=True,
           change=lengths(18, 7))
    vector("conv_identity_one_tap", "one tap, values are x", 1, 12, d_model=16, h=2, w_o="conv", conv_width=1,
           w_v="identity", seq_len=12)

    # projections left out, scale, layouts
    vector("none_padding", "heads of their own widths concatenated", 2, 15, d_model=24, h=3, d_k=8, d_v=11,
           w_o="none", seq_len=15, mask="padding", bias=True, change=lengths(15, 6))
    vector("tied_cross_scale", "keys through W_Q, cross-attention, a scale of 0.7", 2, 8, 19, d_model=32, h=4,
           w_k="tied", attention="cross", seq_len=8, source_len=19, scale=0.7, bias=True)
    vector("tied_wide_negative_scale", "tied, wide, a negative scale, causal", 1, 14, d_model=16, h=2, width="wide",
           w_k="tied", seq_len=14, scale=-0.125, mask="causal")
    vector("scale_zero", "scale 0: the mean over the keys seen", 2, 18, d_model=32, h=2, seq_len=18, scale=0,
           mask="causal", bias=True)
    vector("out_in_cross_d_k_d_v", "Linear layout of every matrix, none of them square", 2, 10, 22, d_model=30, h=3,
           d_k=7, d_v=13, attention="cross", d_source=18, seq_len=10, source_len=22, bias=True,
           weight_layout="out_in")
    vector("cross_causal", "causal from the top left, more keys than queries", 2, 9, 20, d_model=32, h=2,
           attention="cross", seq_len=9, source_len=20, mask="causal")
    vector("cross_causal_no_self_padding", "fewer keys than queries; query 0 sees nothing", 2, 20, 9, d_model=32, h=2,
           attention="cross", seq_len=20, source_len=9, mask="causal+no_self+padding", bias=True,
           change=lengths(9, 3))

    # numbers at the edge
    def large(tensors, random):
        tensors["w_q"] *= np.float32(60)
        tensors["w_k"] *= np.float32(60)
    vector("large_scores", "scores up to about 1e4 of both signs", 2, 20, d_model=32, h=2, seq_len=20, bias=True,
           change=large)

    def same_large(tensors, random):
        tensors["x"][:] = tensors["x"][:, :1, :]
        large(tensors, random)
        large(tensors, random)
    vector("large_equal_scores", "scores of about 1e7, all equal: the mean", 1, 70, d_model=16, h=1, seq_len=70,
           change=same_large)

    # A kernel that measures all scores of a row against one of its first must notice when later ones exceed what an
    # exponential can hold, for some queries of a tile and not for their neighbours.
    def later(score, first):
        def change(tensors, random):
            tensors["source"][:, first:, :] *= np.float32(score / 0.35)
        return change
    for name, score in (("1", 1.0), ("50", 50.0), ("1e4", 1e4), ("1e30", 1e30)):
        vector(f"later_scores_{name}", f"scores from key 50 on are about {name} in size, of both signs; before, below 1",
               1, 37, 75, d_model=16, h=1, attention="cross", d_k=16, d_v=5, seq_len=37, source_len=75,
               change=later(score, 50))

    def later_masked(tensors, random):
        masks(bool=(1, 2, 35, 60))(tensors, random)
        later(300.0, 20)(tensors, random)
    vector("later_scores_masked", "the same with some keys hidden: 300 from key 20 on", 2, 35, 60, d_model=16, h=2,
           attention="cross", seq_len=35, source_len=60, mask="bool+window", window_left=30, window_right=20,
           change=later_masked)

    vector("nonfinite_past_length", "NaN and infinity past the lengths; in the empty sequence every row still is b_o",
           3, 14, scores=False, d_model=32, h=2, seq_len=14, mask="causal+padding", bias=True,
           change=spoil("x", [(0, 13), (1, 6), (1, 9), *((2, t) for t in range(14))], (NAN, INF, -INF),
                        lengths=(13, 6, 0)))
    vector("nonfinite_source_past_length", "NaN and infinity in memory past the lengths of a source", 2, 9, 20,
           d_model=32, h=2, attention="cross", seq_len=9, source_len=20, mask="padding", bias=True,
           change=spoil("source", [(0, 19), (1, 3), (1, 11), (1, 19)], (NAN, INF, -INF), lengths=(19, 3)))
    vector("nonfinite_future", "NaN and infinity in the last row of a causal layer reach that row only", 2, 18,
           d_model=32, h=2, seq_len=18, mask="causal", bias=True,
           change=spoil("x", [(0, 17), (1, 17)], (NAN, INF), column=5))
    vector("nonfinite_hidden_by_bool", "infinite keys that a bool mask hides from every query", 2, 7, 19, d_model=32,
           h=2, attention="cross", w_v="identity", d_k=16, seq_len=7, source_len=19, mask="bool",
           change=spoil_and_hide("source", [0, 8, 18], INF, (2, 2, 7, 19)))
    vector("nonfinite_window", "a NaN within reach of some windows only", 1, 40, scores=False, d_model=32, h=2,
           seq_len=40, mask="window", window_left=3, window_right=2, change=spoil("x", [(0, 20)], NAN, column=3))
    vector("nonfinite_conv",
           "a NaN that the convolution carries to its neighbours, and two past the length that it does not", 2, 12,
           scores=False, d_model=16, h=2, w_o="conv", conv_width=3, seq_len=12, mask="window+padding", window_left=1,
           window_right=1, bias=True, change=spoil("x", [(0, 6), (1, 5), (1, 8)], NAN, lengths=(12, 5)))
    vector("nonfinite_seen", "one infinite value that every query of one sequence sees", 2, 12, d_model=32, h=2,
           seq_len=12, change=spoil("x", [(0, 4)], INF, column=7))

    def additive_edges(tensors, random):
        mask = random.standard_normal((2, 1, 6, 21)).astype(np.float32)
        mask[:, :, :, 17] = -INF        # hides the spoiled key from all …
        mask[1, 0, 4, 17] = 0           # … but one query
        mask[0, 0, 2, :] = -1e30        # hides nothing
        mask[0, 0, 3, :] = -INF
        mask[0, 0, 3, 9] = 2e38         # the only key: weight 1 (times log2(e) it is still finite in f32)
        tensors["mask_add"] = mask
        tensors["source"][:, 17, :] = NAN
    vector("nonfinite_hidden_by_additive", "a NaN key under -inf, huge finite numbers in the mask", 2, 6, 21,
           scores=False, d_model=32, h=2, attention="cross", seq_len=6, source_len=21, mask="additive", bias=True,
           change=additive_edges)

    # weights in fewer bytes, and what is hard on a column
    def columns(tensors, random):
        w = tensors["w_v"]
        w[:, 0] = 0
        w[:, 1] = np.float32(0.0625)
        w[3, 2] *= np.float32(300)       # one outlier: all others are a unit of i8 at most
        w[:, 3] *= np.float32(2.0 ** -127)
        w[:, 4] = -0.0
        w[::2, 5] = np.float32(1.00390625)  # halfway between two bf16
        w[1::2, 5] = np.float32(1.01171875)
        w[:, 6] *= np.float32(1e-5)      # below what f16 has all bits of
        w[:, 7] = np.float32(2.0 ** -25)
        w[:, 8] = np.float32(1.00048828125)  # halfway between two f16
        tensors["w_o"][0, :] = 0
    for kind in ("bf16", "f16", "i8", "i4"):
        vector(f"types_{kind}", f"weights packed as {kind}: columns of zeros, of one number, with an outlier, of small ones",
               2, 9, d_model=20, h=2, seq_len=9, bias=True, weight_type=kind, change=columns)
    vector("types_i8_conv", "weights packed as i8: a convolution's columns have one scale for all taps", 2, 8, d_model=12,
           h=3, seq_len=8, w_o="conv", conv_width=4, weight_layout="out_in", weight_type="i8", mask="padding",
           change=lengths(8, 5))
    vector("types_i4_conv", "weights packed as i4: groups of rows begin anew with each tap", 2, 8, d_model=120,
           h=3, seq_len=8, w_o="conv", conv_width=3, weight_layout="out_in", weight_type="i4", mask="padding",
           change=lengths(8, 5))
    vector("types_i4_odd", "weights packed as i4: whole groups and one of an odd number of rows", 1, 5, d_model=99, h=3,
           seq_len=5, bias=True, weight_type="i4")
    def rows_of_all_sizes(tensors, random, s):
        cache([9, 0])(tensors, random, s)
        x = tensors["x"]
        x[0, 1, ::3] *= np.float32(1e5)   # groups of 32 with outliers
        x[0, 2] *= np.float32(1e-30)
        x[0, 3, :32] = 0
        x[1, 0] = np.float32(1.9999999)   # digits at their ends
        x[1, 1, 32:64] *= np.float32(1e-36)
    vector("types_i4_cached", "weights packed as i4, rows read in digits: outliers, zeros, small numbers, a short last group",
           2, 4, scores=False, d_model=75, h=3, d_k=25, d_v=23, seq_len=5, mask="causal", bias=True, cache="rows",
           cache_len=16, cache_type="f32", weight_type="i4", change=rows_of_all_sizes)
    vector("types_i8_cached", "weights packed as i8, rows read in digits: outliers, zeros, small numbers, a short last group",
           2, 4, scores=False, d_model=75, h=3, d_k=25, d_v=23, seq_len=5, mask="causal", bias=True, cache="rows",
           cache_len=16, cache_type="f32", weight_type="i8", change=rows_of_all_sizes)
    vector("types_i8_split", "weights packed as i8: each head has matrices of its own, keys are projected by w_q", 1, 7, 11,
           d_model=18, h=3, seq_len=7, source_len=11, input="split", attention="cross", w_k="tied", weight_type="i8")

    # products of bf16: odd sums, numbers halfway between two, an outlier, subnormal ones, what is hidden
    def pairs(tensors, random):
        tensors["lengths"] = np.array([9, 6], dtype=np.int32)
        x, w = tensors["x"], tensors["w_v"]
        x[0, 0, ::2], x[0, 0, 1::2] = np.float32(1.00390625), np.float32(-1.01171875)
        x[0, 1, 3] = 300
        x[0, 2] = np.float32(1e-39)
        x[0, 3, 5:7] = np.float32(2.0 ** -126 * (1 - 2.0 ** -23)), np.float32(2.0 ** -126)
        x[1, 6:] = NAN
        w[:, 0] = 0
        w[:, 1] = np.float32(1e-39)
        w[::2, 2], w[1::2, 2] = np.float32(1.00390625), np.float32(1.01171875)
        w[4, 3] = 1000
    vector("precision_i8", "products and scores of whole numbers: columns of zeros, of one number, with an outlier", 1, 9,
           d_model=64, h=2, seq_len=9, bias=True, mask="causal", precision="i8", change=columns)
    vector("precision_i16_values", "weighted sums of whole numbers: 33 features, a window whose blocks begin at odd keys, NaN hidden",
           1, 29, 41, d_model=66, h=2, d_v=35, seq_len=29, source_len=41, attention="cross", mask="bool+window",
           window_left=9, precision="i16", change=spoil_and_hide("source", [7, 20], NAN, (1, 1, 29, 41)))
    vector("precision_i8_values", "scores and weighted sums of bytes: 35 features, a window whose blocks begin at any key, NaN hidden",
           1, 29, 41, d_model=70, h=2, d_v=33, seq_len=29, source_len=41, attention="cross", mask="bool+window",
           window_left=9, precision="i8", change=spoil_and_hide("source", [7, 20], NAN, (1, 1, 29, 41)))
    narrow = dict(d_model=24, h=2, d_k=21, d_v=19, seq_len=18, source_len=43, attention="cross", mask="bool",
                  precision="i8", change=spoil_and_hide("source", [7, 20], NAN, (1, 1, 18, 43)))
    vector("precision_i8_narrow", "scores and weighted sums of bytes over 21 and 19 features, NaN hidden", 1, 18, 43, **narrow)
    vector("precision_i8_narrow_pairs", "the same where only products with matrices are of whole numbers", 1, 18, 43, **narrow)
    vector("precision_i8_narrowest", "scores and weighted sums of bytes over 9 and 10 features, as keys are many", 1, 5, 229,
           d_model=18, h=2, d_k=9, d_v=10, seq_len=5, source_len=229, attention="cross", mask="padding", precision="i8",
           change=lengths(228))
    vector("precision_i16_tied", "scores and weighted sums of whole numbers where queries are keys times the scale", 2, 19,
           d_model=30, h=2, d_k=35, d_v=33, seq_len=19, w_k="tied", bias=True, mask="causal+padding", precision="i16",
           change=lengths(19, 6))
    vector("precision_i16", "products and scores of whole numbers: 33 features, keys past a length, weights as torch has them",
           2, 7, 11, d_model=24, h=2, d_k=33, d_v=5, d_source=15, seq_len=7, source_len=11, attention="cross",
           mask="padding", weight_layout="out_in", precision="i16", change=lengths(11, 4))
    vector("precision_i16_fast", "fast products of keys: 67 rows, 196 columns, outliers whose sums of four fill 16 bits, NaN",
           1, 3, 67, d_model=24, h=1, d_k=196, d_v=5, d_source=192, seq_len=3, source_len=67, attention="cross",
           mask="bool", bias=True, precision="i16", scores=False, change=outliers,
           **{"plan.products": "fast"})
    vector("products_fast", "fast products of values: 67 rows of 96 numbers, some far larger than others, 196 columns; a query"
           " sees a few", 1, 16, 67, d_model=196, h=1, d_k=4, d_v=196, d_source=96, seq_len=16, source_len=67,
           attention="cross", w_o="none", mask="bool", bias=True, scores=False, change=sizes,
           **{"plan.fold": "off", "plan.products": "fast"})
    vector("precision_i8_conv", "products of whole numbers: each head's rows of a convolution, one of NaN", 2, 8, d_model=12,
           scores=False, h=3, seq_len=8, w_o="conv", conv_width=4, precision="i8", mask="padding",
           change=spoil("x", [(0, 6)], NAN, lengths=(8, 5)))
    vector("precision_i8_given", "scores and weighted sums of bytes, of rows that the call brings: grouped heads, NaN in a value",
           2, 7, 19, input="projected", h=4, h_kv=2, d_k=34, d_v=37, w_o="none", seq_len=7, source_len=19,
           mask="padding", precision="i8", change=spoil("v", [(1, 4), (0, 12)], NAN, lengths=(12, 17)))
    vector("precision_i16_identity", "weighted sums of whole numbers, of the source itself; a row of NaN behind its end", 2, 9, 13,
           d_model=20, h=2, d_k=32, d_source=41, w_v="identity", seq_len=9, source_len=13, attention="cross",
           mask="padding", precision="i16", change=spoil("source", [(1, 11)], NAN, lengths=(13, 11)))
    vector("precision_i8_pairs", "products of whole numbers, two neighbours of a column with 127 units: zeros, an outlier", 1,
           9, d_model=64, h=2, seq_len=9, bias=True, mask="causal", precision="i8", change=columns)
    vector("precision_i8_conv_pairs", "products of whole numbers: pairs begin anew with each tap of five numbers", 2, 8,
           d_model=15, h=3, seq_len=8, w_o="conv", conv_width=3, precision="i8", mask="padding", weight_layout="out_in",
           change=lengths(8, 5))
    vector("precision_i8_tiles", "products of whole numbers: 19 and 35 rows of 38 and 33 words, whole tiles of 16 x 16 and"
           " what is left; a hidden row of NaN", 1, 19, 35, d_model=150, h=1, d_k=33, d_v=20, d_source=131, seq_len=19,
           source_len=35, attention="cross", bias=True, mask="padding", precision="i8", scores=False,
           change=spoil("source", [(0, 34)], NAN, lengths=(33,)))
    vector("precision_bf16", "products of bf16: sums of 21, halfway numbers, an outlier, subnormal and hidden ones", 2, 9,
           d_model=21, h=3, d_k=5, d_v=6, seq_len=9, bias=True, w_o="none", mask="padding", precision="bf16",
           scores=False, change=pairs)
    vector("precision_bf16_split", "products of bf16: each head reads its own columns of x and of the source", 2, 7, 11,
           d_model=18, h=3, d_source=15, d_k=6, d_v=20, seq_len=7, source_len=11, input="split", attention="cross",
           weight_layout="out_in", precision="bf16")

    # tensors of two bytes
    def small_and_large(tensors, random):
        tensors["w_o"][:, 0] *= np.float32(1e-5)  # below what f16 has all bits of
        tensors["w_o"][:, 1] *= np.float32(1e-8)  # and below half of its least number
        tensors["b_o"][:2] = 0
        tensors["w_o"][:, 2:6] = 0
        tensors["b_o"][2:6] = (1.00048828125, 1.00146484375, -2.0 ** -25, 65519)  # half way between two; not infinity
        tensors["x"][1, 4] *= np.float32(1e-6)

    vector("tensors_f16", "x, y and attn as f16; numbers of y half way between two, small and large", 2, 9, d_model=26,
           h=2, seq_len=9, mask="causal", bias=True, tensor_type="f16", change=small_and_large)
    vector("tensors_bf16_cross", "x, source, y and attn as bf16; a source that ends, with NaN behind its end", 2, 7, 12,
           d_model=20, h=4, h_kv=2, d_source=13, attention="cross", seq_len=7, source_len=12, mask="padding",
           tensor_type="bf16", change=spoil("source", [(0, 11), (1, 5)], NAN, lengths=(11, 5)))
    vector("tensors_bf16_heads", "y as bf16 straight from attention; a row of NaN", 2, 6, scores=False, d_model=18, h=3, seq_len=6,
           d_k=5, d_v=7, w_o="none", mask="causal", tensor_type="bf16", change=spoil("x", [(1, 3)], NAN))
    vector("tensors_f16_ring", "x and y as f16, a ring of bf16", 2, 5, scores=False, d_model=22, h=2, seq_len=5,
           mask="causal+window", window_left=6, cache="ring", cache_type="bf16", tensor_type="f16", cache_len=12,
           change=cache([29, 3]))

    # caches in fewer bytes
    vector("cached_bf16_paged", "keys and values in pages of bf16; some sequences' pages are in no order", 3, 4,
           scores=False, d_model=24, h=4, h_kv=2, d_k=10, d_v=7, seq_len=6, mask="causal", bias=True, cache="paged",
           cache_type="bf16", cache_len=24, page_len=5,
           change=cache([7, 0, 11], [[6, 1, 4, -1, -1], [2, -1, -1, -1, -1], [0, 5, 3, -1, -1]]))
    vector("cached_i8_rows", "keys and values as multiples of a scale for each row, one of them zero", 3, 4, scores=False,
           d_model=30, h=3, d_k=11, d_v=8, seq_len=7, mask="causal", cache="rows", cache_type="i8", cache_len=17,
           change=zero_token(cache([13, 0, 6]), 1, 2))
    vector("cached_i8_paged", "multiples of scales in pages, for grouped heads", 2, 3, scores=False, d_model=32, h=4,
           h_kv=2, d_k=16, d_v=20, seq_len=3, mask="causal+window", window_left=9, bias=True, cache="paged",
           cache_type="i8", cache_len=16, page_len=4, change=cache([11, 2], [[3, 0, 5, 1], [4, 2, -1, -1]]))
    vector("cached_f16_ring", "keys and values in a ring of f16 that has been round", 2, 5, scores=False, d_model=36,
           h=2, seq_len=5, mask="causal+window", window_left=6, cache="ring", cache_type="f16", cache_len=12,
           change=cache([29, 3]))

    # values that are columns of the keys
    vector("keys_as_values", "values are the first columns of the keys; no W_V", 2, 13, d_model=26, h=4, h_kv=2, d_k=9, d_v=7,
           seq_len=13, mask="causal", bias=True, w_v="keys")
    vector("keys_as_values_split", "the same with heads that read their own columns, whole keys, a source", 2, 9, 14, d_model=24, h=3,
           d_source=30, attention="cross", input="split", seq_len=9, source_len=14, w_v="keys")
    vector("keys_as_values_given", "the same of q and k that a call brings; y is the heads' own", 2, 6, 11, h=4, h_kv=1, d_k=12,
           d_v=8, input="projected", w_o="none", seq_len=6, source_len=11, w_v="keys")
    vector("keys_as_values_i16", "whole-number scores and weighted sums of the same keys", 2, 19, d_model=40, h=2, d_k=36, d_v=34,
           seq_len=19, mask="causal", precision="i16", w_v="keys")
    vector("keys_as_values_i8_paged", "one cache, whose rows have one scale", 2, 4, scores=False, d_model=32, h=4, h_kv=2, d_k=16,
           d_v=12, seq_len=4, mask="causal", bias=True, w_v="keys", cache="paged", cache_type="i8", cache_len=16, page_len=4,
           change=cache([11, 2], [[3, 0, 5, 1], [4, 2, -1, -1]]))
    vector("keys_as_values_ring", "one ring of bf16 that has been round", 2, 5, scores=False, d_model=36, h=6, h_kv=1, d_k=20,
           d_v=16, seq_len=5, mask="causal+window", window_left=6, w_v="keys", cache="ring", cache_type="bf16", cache_len=12,
           change=cache([29, 3]))

    # scores and weighted sums of whole numbers over a cache, in a call of more than a few queries, and of a few
    paged = dict(scores=False, d_model=40, h=4, h_kv=2, d_k=33, d_v=35, seq_len=12, mask="causal", cache="paged",
                 cache_type="f32", cache_len=40, page_len=7)
    pages = [[6, 1, 4, 7, -1, -1], [2, 8, -1, -1, -1, -1], [0, 5, 3, 9, -1, -1]]
    vector("precision_i8_cached", "scores and weighted sums of bytes over pages that end within a word of keys", 3, 12,
           precision="i8", change=cache([14, 0, 11], pages), **paged)
    vector("precision_i8_cached_pairs", "the same in words of two", 3, 12, precision="i8",
           change=cache([14, 0, 11], pages), **paged)
    vector("precision_i16_cached_few", "a call of few queries, which has f32", 3, 8, precision="i16",
           change=cache([14, 0, 11], pages), **paged)
    vector("precision_i16_cached_ring", "sums of whole numbers over a ring of i8 that has been round; its numbers are rounded again", 2,
           19, scores=False, d_model=36, h=2, d_k=34, d_v=37, seq_len=19, mask="causal+window", window_left=21, cache="ring",
           cache_type="i8", cache_len=40, precision="i16", change=cache([61, 3]))


def check_rows(s, name, tensors):
    """A row is finite throughout or nowhere, so that no vector asks which part of a spoiled row is NaN; a convolution
    spreads a NaN over blocks."""
    for output in ("y", "attn"):
        if output in tensors and not (output == "y" and s["w_o"] == "conv"):
            finite = np.isfinite(from_cache(tensors[output]))
            assert (finite.all(axis=-1) | ~finite.any(axis=-1)).all(), name


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    list_vectors()
    for name, comment, spec, batch, n, m, change in VECTORS:
        s = complete(name, spec)
        random = np.random.RandomState(zlib.crc32(name.encode()))  # its stream never changes
        tensors = draw(s, random, batch, n, m)
        if "cache" in s:
            change(tensors, random, s)
        elif change:
            change(tensors, random)
        for given in {"x", "source"} & tensors.keys():
            tensors[given] = to_cache(s["tensor_type"], tensors[given])
        with np.errstate(invalid="ignore", over="ignore"):
            if "cache" in s:
                y, after = cached_layer(s, tensors)
                tensors.update(after)
            else:
                y, attn = layer(s, tensors)
            tensors["y"] = to_cache(s["tensor_type"], y)
            if s["scores"]:
                tensors["attn"] = to_cache(s["tensor_type"], attn)
        check_rows(s, name, tensors)
        (folder / f"{name}.layer").write_text(spec_text(name, spec, comment))
        write_safetensors(folder / f"{name}.safetensors", tensors,
                          {"source": f"{comment}; formulas in float64 (make_vectors.py)"})
    print(f"{len(VECTORS)} vectors in {folder}")


if __name__ == "__main__":
    main()
