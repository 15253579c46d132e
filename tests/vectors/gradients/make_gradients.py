#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test vectors of gradients: PyTorch's autograd in float64, rounded to float32 once.

    python3 tests/vectors/gradients/make_gradients.py [FOLDER]        (default: beside this file; needs numpy, torch)

Those that are called mha_… are torch.nn.MultiheadAttention itself. For keys that it does not have, layer() below
computes y by torch operations, as docs/spec.md defines the layer. Either way the gradients are autograd's: no formula
of them stands here. Left out on purpose: keys that have no gradient.
"""
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from make_vectors import write_safetensors  # noqa: E402

INF = float("inf")


def drawn(rng, *shape, size=1.0):
    """A tensor of f32 numbers, in float64, that has a gradient."""
    numbers = (rng.standard_normal(shape) * size).astype(np.float32)
    return torch.tensor(numbers.astype(np.float64), requires_grad=True)


def philox(key, counter):
    """Philox 4x32-10 of Salmon et al.: four arrays of words from two words of a key and four arrays of counters."""
    low = np.uint64(0xffffffff)
    k = [np.uint64(word) for word in key]
    c = [np.asarray(word, np.uint64) for word in counter]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xd2511f53), c[2] * np.uint64(0xcd9e8d57)
        c = [b >> np.uint64(32) ^ c[1] ^ k[0], b & low, a >> np.uint64(32) ^ c[3] ^ k[1], a & low]
        k = [k[0] + np.uint64(0x9e3779b9) & low, k[1] + np.uint64(0xbb67ae85) & low]
    return c


assert [int(word) for word in philox((0xa4093822, 0x299f31d0), (0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344))] == \
    [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]


def kept(seed, p, batch, i, n, m):
    """What dropout multiplies the weights [batch][n][m] of head i by."""
    b, t, j = np.meshgrid(np.arange(batch), np.arange(n), np.arange(m), indexing="ij")
    words = philox((seed & 0xffffffff, seed >> 32), (b, np.full_like(b, i), t, j // 4))
    word = np.select([j % 4 == k for k in range(4)], words)
    return torch.tensor(np.where(word < np.uint64(np.floor(p * 2.0 ** 32)), 0, 1 / (1 - p)))


def save(folder, name, spec, tensors, y, dy, more=None):
    """Inputs, y, and the gradients of sum(dy y)."""
    (y * dy).sum().backward()
    out = {key: t.detach().numpy().astype(np.float32) for key, t in tensors.items()}
    out.update(more or {})
    out["y"] = y.detach().numpy().astype(np.float32)
    out["dy"] = dy.numpy().astype(np.float32)
    out.update({"d" + key: t.grad.numpy().astype(np.float32) for key, t in tensors.items()})
    lines = [f"name = {name}", "train = true"]
    lines += [f"{key} = {str(value).lower()}" for key, value in spec.items()]
    (folder / f"{name}.layer").write_text("\n".join(lines) + "\n")
    write_safetensors(folder / f"{name}.safetensors", out, {"made": "torch.autograd, float64"})


def multihead(folder, name, d_model, h, batch, n, m=None, d_source=None, bias=True, mask="none"):
    """nn.MultiheadAttention: its weights are [out][in], and those of q, k and v lie one behind the other."""
    rng = np.random.default_rng(sum(name.encode()))
    cross, d_source = m is not None, d_source or d_model
    module = torch.nn.MultiheadAttention(d_model, h, bias=bias, batch_first=True, kdim=d_source, vdim=d_source,
                                         dtype=torch.float64)
    same = module.in_proj_weight is not None
    widths = {"w_q": d_model, "w_k": d_source, "w_v": d_source}
    tensors = {key: drawn(rng, d_model, width, size=width ** -0.5) for key, width in widths.items()}
    tensors["w_o"] = drawn(rng, d_model, d_model, size=d_model ** -0.5)
    if bias:
        tensors.update({key: drawn(rng, d_model, size=0.3) for key in ("b_q", "b_k", "b_v", "b_o")})
    x = drawn(rng, batch, n, d_model)
    source = drawn(rng, batch, m, d_source) if cross else x
    inputs = {"x": x, "source": source} if cross else {"x": x}
    keys = m if cross else n
    more, given = {}, {}
    if mask == "causal":
        given["attn_mask"] = torch.triu(torch.ones(n, keys, dtype=torch.bool), 1)
    if mask == "padding":
        lengths = rng.integers(1, keys + 1, size=batch)
        more["lengths"] = lengths.astype(np.int32)
        given["key_padding_mask"] = torch.arange(keys)[None, :] >= torch.tensor(lengths)[:, None]
    parameters = {"out_proj.weight": tensors["w_o"]}
    if same:
        parameters["in_proj_weight"] = torch.cat([tensors["w_q"], tensors["w_k"], tensors["w_v"]])
    else:
        parameters.update({f"{c}_proj_weight": tensors[f"w_{c}"] for c in "qkv"})
    if bias:
        parameters["in_proj_bias"] = torch.cat([tensors["b_q"], tensors["b_k"], tensors["b_v"]])
        parameters["out_proj.bias"] = tensors["b_o"]
    y, _ = torch.func.functional_call(module, parameters, (x, source, source), {**given, "need_weights": False})
    dy = torch.tensor(rng.standard_normal((batch, n, d_model)).astype(np.float32).astype(np.float64))
    spec = dict(d_model=d_model, h=h, seq_len=n, bias=bias, mask=mask, weight_layout="out_in")
    if cross:
        spec.update(attention="cross", source_len=m, d_source=d_source)
    save(folder, name, spec, {**inputs, **tensors}, y, dy, more)


def visible(i, p, j):
    """What `visible` is wherever a layer below has it."""
    return ((p + 2 * j) % 3 != 0) | ((i == 1) & (j < p))


def t5_bucket(spec, d):
    """The bucket of T5 for distances d = j - p, none of which is at an edge of a logarithm."""
    both, side = "causal" not in spec["mask"].split("+"), spec["rel_buckets"]
    side = side // 2 if both else side
    away = d.abs() if both else (-d).clamp(min=0)
    e = side // 2
    wide = e + (torch.log(away.clamp(min=1) / e) / np.log(spec["rel_distance"] / e) * e).floor().long()
    return torch.where(away < e, away, wide.clamp(max=side - 1)) + (side * (d > 0) if both else 0)


VISIBLE = "(p + 2 * j) % 3 != 0 or i == 1 and j < p"


def layer(spec, t, lengths, mask_bool, mask_add, given):
    """y of the layer, heads one by one; given: other tensors of the call."""
    h, h_kv, d_model = spec["h"], spec["h_kv"], spec["d_model"]
    split, swapped = spec["input"] == "split", spec["weight_layout"] == "out_in"
    x, source = t["x"], t.get("source", t["x"])
    batch, n, m = x.shape[0], x.shape[1], source.shape[1]

    def own(tensor, i, of):
        if not split:
            return tensor
        width = tensor.shape[2] // of
        return tensor[:, :, i * width:(i + 1) * width]

    def project(tensor, w, b, i, heads, d):
        matrix = t[w][i] if split else t[w]
        matrix = matrix.T if swapped else matrix
        columns = matrix if split else matrix[:, i * d:(i + 1) * d]
        result = own(tensor, i, h) @ columns
        return result + t[b][i * d:(i + 1) * d] if b in t else result

    p, j = torch.arange(n)[None, :, None].expand(batch, n, 1), torch.arange(m)[None, None, :]
    masks = spec["mask"].split("+")
    if spec.get("offset") == "past":
        p = p + torch.tensor(given["past"])[:, None, None]
    if spec.get("offset") == "end":
        p = p - n + (torch.tensor(lengths)[:, None, None] if "padding" in masks else m)
    sees = torch.ones(batch, n, m, dtype=torch.bool)
    if "causal" in masks:
        sees &= j <= p
    if "prefix" in masks:
        sees |= j < torch.tensor(given["prefix"])[:, None, None]
    if "segments" in masks:
        of_q, of_k = (given["segment_q"], given["segment_k"]) if "source" in t else [given["segment"]] * 2
        sees &= torch.tensor(of_q)[:, :, None] == torch.tensor(of_k)[:, None, :]
    if "no_self" in masks:
        sees &= j != p
    if "window" in masks:
        sees &= (j >= p - spec.get("window_left", INF)) & (j <= p + spec.get("window_right", INF))
    if "padding" in masks:
        sees &= j < torch.tensor(lengths)[:, None, None]

    def turned(rows):
        """Rotary positions of rows [batch][n][d_k]."""
        dims = spec.get("rope_dims", rows.shape[2])
        positions = torch.tensor(given["positions"]) if "positions" in given else torch.arange(rows.shape[1])[None, :]
        angle = positions[:, :, None] * 10000.0 ** (-2 * torch.arange(dims // 2).double() / dims)
        ends = (rows[..., :dims // 2], rows[..., dims // 2:dims]) if spec["rope"] == "half" else \
            (rows[..., 0:dims:2], rows[..., 1:dims:2])
        a, b = ends[0] * angle.cos() - ends[1] * angle.sin(), ends[0] * angle.sin() + ends[1] * angle.cos()
        both = torch.cat([a, b], 2) if spec["rope"] == "half" else torch.stack([a, b], 3).flatten(2)
        return torch.cat([both, rows[..., dims:]], 2)

    def normed(rows, of):
        """Queries or keys [head][batch][row][d_k] behind their norm."""
        kind, eps, d = spec["qk_norm"], spec.get("norm_eps", 1e-6), spec["d_k"]
        if kind == "rms":
            return torch.nn.functional.rms_norm(rows, (d,), t["g_" + of], eps)
        if kind == "layer":
            return torch.nn.functional.layer_norm(rows, (d,), t["g_" + of], t["c_" + of], eps)
        if kind == "l2":
            return torch.nn.functional.normalize(rows, dim=3, eps=eps)
        all_of = torch.cat(list(rows), 2)
        all_of = torch.nn.functional.rms_norm(all_of, (all_of.shape[2],), t["g_" + of], eps)
        return torch.stack(all_of.split(d, 2))

    tied = spec["w_k"] == "tied"

    def query(i):
        return project(x, "w_q", "b_q", i, h, spec["d_k"])

    def key(g):
        return project(source, "w_q" if tied else "w_k", "b_q" if tied else "b_k", g, h_kv, spec["d_k"])

    norms = "qk_norm" in spec
    queries = normed(torch.stack([query(i) for i in range(h)]), "q") if norms else None
    keys = normed(torch.stack([key(i) for i in range(h_kv)]), "k") if norms else None
    heads = []
    for i in range(h):
        g = i * h_kv // h
        q, k = (queries[i], keys[g]) if norms else (query(i), key(g))
        if "rope" in spec:
            q, k = turned(q), turned(k)
        v = own(source, i, h) if spec["w_v"] == "identity" else project(source, "w_v", "b_v", g, h_kv, spec["d_v"])
        scores, seen = q @ k.transpose(1, 2) * spec["scale"], sees
        if "visible" in spec:
            seen = seen & visible(i, p, j)
        if "softcap" in spec:
            scores = spec["softcap"] * torch.tanh(scores / spec["softcap"])
        if spec.get("relative") == "t5":
            scores = scores + t["rel_bias"][t5_bucket(spec, j - p), i]
        if spec.get("relative") == "table":
            scores = scores + t["rel_bias"][i][(j - p).clamp(-spec["rel_left"], spec["rel_right"]) + spec["rel_left"]]
        if spec.get("alibi"):  # of a power of two heads
            scores = scores - 2.0 ** (-8 * (i + 1) / h) * (p - j).abs()
        if mask_bool is not None:
            seen = seen & torch.tensor(mask_bool[:, i % mask_bool.shape[1]])
        if mask_add is not None:
            added = torch.tensor(mask_add[:, i % mask_add.shape[1]].astype(np.float64))
            seen = seen & (added > -INF)
            scores = scores + added.masked_fill(added == -INF, 0)
        some = seen.any(2, keepdim=True)
        scores = scores.masked_fill(some & ~seen, -INF)
        if "sink" in t:  # one more key
            sink = t["sink"][i].expand(*scores.shape[:2], 1)
            weights = torch.softmax(torch.cat([scores, sink], 2), 2)[..., :-1]
        else:
            weights = torch.softmax(scores, 2)
        weights = weights.masked_fill(~seen, 0)
        if "dropout" in spec:
            weights = weights * kept(spec["seed"], spec["dropout"], batch, i, n, m)
        heads.append(weights @ v)
    if spec["w_o"] == "none":
        return torch.cat(heads, 2)
    if spec["w_o"] == "dense":
        y = torch.cat(heads, 2) @ (t["w_o"].T if swapped else t["w_o"])
        return y + t["b_o"] if "b_o" in t else y
    taps, blocks = spec["conv_width"], []
    pad = taps - 1 if "causal" in masks else (taps - 1) // 2
    for i, z in enumerate(heads):
        if "padding" in masks:
            z = z.masked_fill((torch.arange(n)[None, :] >= torch.tensor(lengths)[:, None])[:, :, None], 0)
        padded = torch.cat([z.new_zeros(batch, pad, z.shape[2]), z, z.new_zeros(batch, taps - 1 - pad, z.shape[2])], 1)
        kernel = [t["w_o"][i][r].T if swapped else t["w_o"][i][r] for r in range(taps)]
        blocks.append(sum(padded[:, r:r + n] @ kernel[r] for r in range(taps)))
    y = torch.cat(blocks, 2)
    return y + t["b_o"] if "b_o" in t else y


def drawn_layer(folder, name, batch, n, m=None, **keys):
    name = "train_" + name
    rng = np.random.default_rng(sum(name.encode()))
    s = dict(h_kv=keys["h"], input="shared", w_k="dense", w_v="dense", w_o="dense", mask="none", bias=False,
             weight_layout="in_out", conv_width=3, d_source=keys["d_model"])
    s.update(keys)
    cross, split, swapped = m is not None, s["input"] == "split", s["weight_layout"] == "out_in"
    h, h_kv, d_model, d_source = s["h"], s["h_kv"], s["d_model"], s["d_source"]
    in_q, in_kv = (d_model // h, d_source // h) if split else (d_model, d_source)
    s.setdefault("d_k", d_model if s.get("width") == "wide" else d_model // h)
    d_v = in_kv if s["w_v"] == "identity" else s.get("d_v", d_model if s.get("width") == "wide" else d_model // h)
    s["d_v"] = d_v
    s.setdefault("scale", s["d_k"] ** -0.5)
    keys_count = m if cross else n

    def matrix(inputs, outputs, *before):
        shape = (outputs, inputs) if swapped else (inputs, outputs)
        return drawn(rng, *before, *shape, size=inputs ** -0.5)

    def projection(inputs, heads, d):
        return matrix(inputs, d, heads) if split else matrix(inputs, heads * d)

    t = {"x": drawn(rng, batch, n, d_model)}
    if cross:
        t["source"] = drawn(rng, batch, m, d_source)
    t["w_q"] = projection(in_q, h, s["d_k"])
    if s["w_k"] == "dense":
        t["w_k"] = projection(in_kv, h_kv, s["d_k"])
    if s["w_v"] == "dense":
        t["w_v"] = projection(in_kv, h_kv, d_v)
    if s["w_o"] == "dense":
        t["w_o"] = matrix(h * d_v, d_model)
    elif s["w_o"] == "conv":
        t["w_o"] = matrix(d_v, d_model // h, h, s["conv_width"])
    if s["bias"]:
        widths = {"b_q": h * s["d_k"], "b_k": h_kv * s["d_k"], "b_v": h_kv * d_v, "b_o": d_model}
        t.update({b: drawn(rng, width, size=0.3) for b, width in widths.items() if b.replace("b", "w") in t})
    if s.get("relative") == "t5":
        t["rel_bias"] = drawn(rng, s["rel_buckets"], h)
    if s.get("relative") == "table":
        t["rel_bias"] = drawn(rng, h, s["rel_left"] + s["rel_right"] + 1)
    if s.get("sink"):
        t["sink"] = drawn(rng, h)
    for of, heads in (("q", h), ("k", h_kv)):
        if s.get("qk_norm", "l2") != "l2":
            t["g_" + of] = drawn(rng, s["d_k"] * (heads if s["qk_norm"] == "rms_all" else 1))
        if s.get("qk_norm") == "layer":
            t["c_" + of] = drawn(rng, s["d_k"])
    more, lengths, flags, added = {}, None, None, None
    masks = s["mask"].split("+")
    if "padding" in masks:
        lengths = rng.integers(0, keys_count + 1, size=batch)
        more["lengths"] = lengths.astype(np.int32)
    if "bool" in masks:
        flags = rng.random((batch, h, n, keys_count)) < 0.6
        flags[0, 0, 0] = False  # a row that sees nothing
        more["mask_bool"] = flags
    if "additive" in masks:
        added = rng.standard_normal((batch, 1, n, keys_count)).astype(np.float32)
        added[rng.random(added.shape) < 0.2] = -INF
        more["mask_add"] = added
    if "dropout" in s:
        s["seed"] = int(rng.integers(2 ** 63)) * 2 + 1
        more["seed"] = np.array([s["seed"]], np.uint64)
    given = {}
    if s.get("offset") == "past":
        given["past"] = rng.integers(0, keys_count, size=batch).astype(np.int32)
    if "prefix" in masks:
        given["prefix"] = rng.integers(0, keys_count, size=batch).astype(np.int32)
    if "segments" in masks:
        for name_of, count in (("segment_q", n), ("segment_k", m)) if cross else (("segment", n),):
            given[name_of] = np.sort(rng.integers(0, 3, size=(batch, count))).astype(np.int32)
    if s.get("rope_positions") == "given":
        given["positions"] = rng.integers(-5, 3 * n, size=(batch, n)).astype(np.int32)
    more.update(given)
    y = layer(s, t, lengths, flags, added, given)
    if s.get("pad_rows") == "skipped":
        y = y.masked_fill((torch.arange(n)[None, :] >= torch.tensor(lengths)[:, None])[:, :, None], 0)
    dy = torch.tensor(rng.standard_normal(tuple(y.shape)).astype(np.float32).astype(np.float64))
    spec = dict(keys, seq_len=n)
    if cross:
        spec.update(attention="cross", source_len=m)
    save(folder, name, spec, t, y, dy, more)


def main(folder):
    torch.set_num_threads(1)
    multihead(folder, "mha_self", 24, 3, 2, 9)
    multihead(folder, "mha_no_bias", 16, 4, 1, 21, bias=False)
    multihead(folder, "mha_causal", 20, 2, 2, 19, mask="causal")
    multihead(folder, "mha_padding", 16, 2, 3, 12, mask="padding")
    multihead(folder, "mha_cross", 16, 2, 2, 7, m=13, d_source=10)
    multihead(folder, "mha_cross_padding", 12, 3, 3, 5, m=18, mask="padding")
    drawn_layer(folder, "wide", 2, 11, d_model=10, h=2, width="wide", bias=True)
    drawn_layer(folder, "split_out_in", 2, 9, d_model=12, h=3, input="split", bias=True, weight_layout="out_in")
    drawn_layer(folder, "tied_no_self", 2, 17, d_model=12, h=2, w_k="tied", mask="no_self", bias=True)
    drawn_layer(folder, "tied_cross", 2, 6, 9, d_model=12, h=2, w_k="tied")
    drawn_layer(folder, "identity", 2, 10, d_model=8, h=2, w_v="identity", bias=True)
    drawn_layer(folder, "identity_split_concat", 1, 14, d_model=8, h=2, w_v="identity", input="split", w_o="none")
    drawn_layer(folder, "first_step", 2, 13, d_model=6, h=2, w_k="tied", w_v="identity", w_o="none", mask="no_self")
    drawn_layer(folder, "grouped_causal", 2, 20, d_model=16, h=4, h_kv=2, mask="causal", bias=True)
    drawn_layer(folder, "grouped_cross_one", 1, 8, 15, d_model=12, h=3, h_kv=1, d_source=7)
    drawn_layer(folder, "d_k_d_v_window", 2, 33, d_model=14, h=2, d_k=5, d_v=9, mask="causal+window", window_left=4)
    drawn_layer(folder, "bool_rows_of_nothing", 2, 7, d_model=8, h=2, mask="bool", bias=True)
    drawn_layer(folder, "additive_padding", 3, 9, 11, d_model=8, h=2, mask="padding+additive", d_source=6, bias=True)
    drawn_layer(folder, "conv", 2, 12, d_model=12, h=3, w_o="conv", bias=True)
    drawn_layer(folder, "conv_causal_even_out_in", 2, 12, d_model=8, h=2, w_o="conv", conv_width=4, mask="causal",
                weight_layout="out_in")
    drawn_layer(folder, "conv_padding", 3, 9, d_model=8, h=2, w_o="conv", conv_width=5, mask="padding", bias=True)
    drawn_layer(folder, "scale_zero", 1, 6, d_model=8, h=2, scale=0)
    drawn_layer(folder, "rope_half", 2, 17, d_model=20, h=2, rope="half", bias=True, mask="causal")
    drawn_layer(folder, "rope_interleaved", 2, 14, d_model=24, h=4, h_kv=2, rope="interleaved", rope_dims=4, dropout=0.2)
    drawn_layer(folder, "rope_tied", 2, 9, d_model=16, h=2, rope="half", rope_dims=6, w_k="tied", mask="padding")
    drawn_layer(folder, "alibi_causal", 2, 19, d_model=16, h=4, alibi=True, mask="causal")
    drawn_layer(folder, "alibi_cross_additive", 2, 7, 12, d_model=8, h=2, alibi=True, mask="additive", dropout=0.3)
    drawn_layer(folder, "prefix", 2, 18, d_model=12, h=2, mask="causal+prefix", bias=True)
    drawn_layer(folder, "segments", 2, 40, d_model=8, h=2, mask="causal+segments")
    drawn_layer(folder, "segments_cross", 2, 9, 23, d_model=8, h=2, mask="segments+padding", bias=True)
    drawn_layer(folder, "visible", 2, 19, d_model=12, h=2, visible=VISIBLE, mask="no_self")
    drawn_layer(folder, "past", 2, 9, 24, d_model=8, h=2, offset="past", mask="causal+no_self", alibi=True)
    drawn_layer(folder, "end", 3, 7, 21, d_model=8, h=2, offset="end", mask="causal+padding", bias=True)
    drawn_layer(folder, "rope_given", 2, 15, d_model=16, h=2, rope="half", rope_positions="given", mask="causal")
    drawn_layer(folder, "padding_skipped", 4, 23, d_model=12, h=2, mask="padding", pad_rows="skipped", bias=True)
    drawn_layer(folder, "softcap", 2, 17, d_model=16, h=2, softcap=1.5, bias=True, mask="causal")
    drawn_layer(folder, "sink", 2, 15, d_model=12, h=3, sink=True, mask="bool", bias=True, dropout=0.2)
    drawn_layer(folder, "t5", 2, 37, d_model=12, h=2, relative="t5", rel_buckets=12, rel_distance=31)
    drawn_layer(folder, "t5_causal", 2, 29, d_model=8, h=4, h_kv=2, relative="t5", rel_buckets=8, rel_distance=23,
                mask="causal+padding", sink=True)
    drawn_layer(folder, "table_softcap", 2, 13, 19, d_model=8, h=2, relative="table", rel_left=4, rel_right=9, softcap=2,
                mask="padding")
    drawn_layer(folder, "rms", 2, 19, d_model=16, h=4, h_kv=2, qk_norm="rms", rope="half", mask="causal")
    drawn_layer(folder, "layer", 2, 13, d_model=12, h=2, qk_norm="layer", bias=True, norm_eps=0.01)
    drawn_layer(folder, "l2_tied", 2, 14, d_model=10, h=2, qk_norm="l2", w_k="tied", scale=4, bias=True)
    drawn_layer(folder, "l2_short", 2, 9, d_model=8, h=2, qk_norm="l2", norm_eps=2, rope="interleaved")
    drawn_layer(folder, "rms_all", 2, 17, d_model=18, h=3, qk_norm="rms_all", rope="interleaved", mask="padding")
    drawn_layer(folder, "rms_all_cross", 2, 8, 21, d_model=12, h=4, h_kv=2, qk_norm="rms_all", d_k=5, bias=True)
    drawn_layer(folder, "rms_tied_skipped", 3, 15, d_model=12, h=2, qk_norm="rms", w_k="tied", mask="padding",
                pad_rows="skipped")
    drawn_layer(folder, "dropout", 2, 21, d_model=12, h=3, dropout=0.1, bias=True)
    drawn_layer(folder, "dropout_causal_grouped", 3, 18, d_model=16, h=4, h_kv=2, dropout=0.5, mask="causal")
    drawn_layer(folder, "dropout_cross_padding", 3, 7, 27, d_model=8, h=2, dropout=0.25, mask="padding", d_source=6)
    drawn_layer(folder, "dropout_conv_bool", 2, 13, d_model=8, h=2, dropout=0.9, mask="bool", w_o="conv", bias=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
