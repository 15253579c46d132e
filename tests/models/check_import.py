#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Computes the models of imports/ from nothing but the specs and NAME.layers that `attngen import` writes and the files
of weights that NAME.layers names, in float64 by the equations of docs/spec.md, and compares with transformers.

    python3 check_import.py ATTNGEN [NAME…]      needs the packages of requirements.txt

A line each: the largest difference of any output, relative to the largest number. So NAME.layers says enough, and says
it right. A key, a value or a word that this file does not know is an error: it would not be computed. check_keys.py has
keys of config.json off their defaults. Left out on purpose: kernels (test_models.sh has attention, attnrun check the
blocks), caches, other lengths.
"""
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import transformers as t
from safetensors.torch import load_file

import gated_delta

HERE = pathlib.Path(__file__).parent / "imports"
CLOSE = 1e-5  # what float32 within transformers (rms norms, rotation, ViT) leaves is below 1e-6
F = torch.nn.functional
BATCH, TOKENS = 2, 9
LENGTHS = torch.tensor([TOKENS, 6])
ACT = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu2": lambda x: F.relu(x) ** 2,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x)}
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "reglu": "relu", "quick_geglu": "quick_gelu",
         "glu": "sigmoid"}
ACT.update({gated: ACT[plain] for gated, plain in GATED.items()})


# ---- the two kinds of files ----

# Keys of a spec and of the sections of NAME.layers: those that are computed here, with the values that are known where
# they are words, and those that change nothing that is compared.
SPEC = dict(
    layer={"linear", "recurrent", "ffn"}, bias={"true", "false"}, ffn_bias={"true", "false"}, norm={"layer", "rms"},
    block={"post", "pre", "outputs", "sandwich", "parallel"}, ffn={"none", *ACT}, activation=set(ACT), attention={"self", "cross"},
    rope={"none", "half", "interleaved"}, relative={"none", "t5"}, alibi={"true", "false"},
    norm_shared={"true", "false"}, norm_bias={"true", "false"}, input_norm={"true", "false"},
    qk_norm={"none", "rms", "rms_all", "l2_sum", "layer"}, qk_norm_gains={"shared", "heads"}, qk_norm_bias={"true", "false"},
    gate={"none", "features"}, out_gate={"silu", "sigmoid"}, decay={"head", "column"}, weight_layout={"in_out", "out_in"}, rope_truncate={"true", "false"},
    rope_scaling={"none", "linear", "llama3", "yarn", "dynamic", "longrope"},
    mask={"none", "padding", "padding+window", "causal+padding", "causal+padding+window", "causal+window+padding"},
    **dict.fromkeys("d_model h h_kv d_k d_v d_ff d_in d_out scale softcap norm_eps window_left window_right rope_theta rope_dims "
                    "rope_factor "
                    "rope_original_len rope_low rope_high rope_beta_fast rope_beta_slow rope_attention_factor "
                    "decay_rank gate_rank rope_factors rope_long_factors rope_len rel_buckets rel_distance h_v conv_taps qk_norm_eps out_norm_eps beta_scale "
                    "dt_min dt_max out_norm_groups rel_left rel_right kv_rank q_rank".split()),
    rule={"gated", "gated_delta"}, conv_bias={"true", "false"}, dt_values={"true"}, skip={"true"},
    norm_before_gate={"false"}, rel_keys={"none", "heads"}, rel_queries={"none", "heads"}, rel_rows={"clamped", "log"},
    **dict.fromkeys("name seq_len source_len source_kept pad_rows cache cache_len page_len cache_type".split()))
NORM = "norm norm_eps norm_g norm_b "
SECTIONS = {
    "": "format name family d_model", "weights": "file", "labels": " ".join(map(str, range(2000))), "encoder patches": "spec w b", "ends": "ids",
    "encoder conv_": "spec w b stride", "head ": NORM + "from rows scale spec w b", " norm": NORM,
    " embedding": NORM + "word scale position type class distillation registers", " pooling": "kind normalize probe",
    " probe": None, " pooled": None, " projection": "spec w b position", " layer ": None,  # the spec's tensors: see Model.stack
    " input": "kind needs vocab types seq_len positions image_size patch_size channels mel frames"}


def known(value, of, where):
    if value not in of:
        sys.exit(f"{where}: check_import.py does not know {value}, and would not compute it; known: "
                 f"{' '.join(map(str, sorted(of)))}")


def lines(text):
    for line in text.splitlines():
        line = line.split("    #")[0].strip()
        if line and not line.startswith("#"):
            yield line


def read_spec(path):
    spec = dict(bias="false", norm="layer", ffn="none", mask="none", attention="self", rope="none", relative="none",
                softcap="none", qk_norm="none", weight_layout="in_out", norm_eps=1e-6)
    for line in lines(path.read_text()):
        key, value = (part.strip() for part in line.split("=", 1))
        known(key, SPEC, path.name)
        if SPEC[key]:
            known(value, SPEC[key], f"{path.name}: {key}")
        spec[key] = value
    return spec


def read_layers(path):
    sections = {"": {}}
    at, keys = sections[""], SECTIONS[""]
    for line in lines(path.read_text()):
        if line.startswith("["):
            at = sections[line[1:-1]] = {}
            kinds = [kind for kind in SECTIONS if kind and kind in line]
            known(bool(kinds), {True}, f"{path.name}: section {line}: ")
            keys = SECTIONS[kinds[0]]
        else:
            key, value = (part.strip() for part in line.split("=", 1))
            if keys is not None:
                known(key, keys.split(), f"{path.name}: {line}")
            at[key] = at.get(key, []) + [value] if key == "file" else value
    return sections


class Weights:
    def __init__(self, folder, files):
        self.tensors, self.files = {}, [load_file(folder / json.loads(file)) for file in files]
        for tensors in self.files:
            self.tensors.update(tensors)

    def get(self, value, transpose=True):
        """A tensor as [in][out]; None for zeros, and ones of gains."""
        if value in ("zeros", "ones"):
            return None
        name, _, words = value[1:].partition('"')
        words = words.split()
        for at, word in enumerate(words):
            if at == 0 or words[at - 1] not in ("columns", "of", "times", "from", "in"):
                known(word, {"out_in", "in_out", "columns", "of", "times", "plus_one", "tied", "from", "in"},
                      f"words of {name}")
        tensors = self.files[int(words[words.index("in") + 1]) - 1] if "in" in words else self.tensors
        tensor = tensors[name].double()
        if transpose and "out_in" in words:
            tensor = tensor.T
        if "columns" in words:
            tensor = tensor.flatten() if tensor.dim() > 2 else tensor  # of a convolution or of heads: numbers
            begin, end = words[words.index("columns") + 1].split("..")
            each = int(words[words.index("of") + 1]) if "of" in words else tensor.shape[-1]
            tensor = tensor.unflatten(-1, (-1, each))[..., int(begin):int(end)].flatten(-2)
        if "times" in words:
            tensor = tensor * float(words[words.index("times") + 1])
        return tensor + 1 if "plus_one" in words else tensor


# ---- the equations of docs/spec.md ----

def norm(x, kind, eps, gain, shift=None):
    if kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + float(eps)) * (1 if gain is None else gain)
    return x if shift is None else x + shift


def linear(x, w, b):
    return x @ w if b is None else x @ w + b


def turn(x, spec):
    d, theta = int(spec.get("rope_dims", x.shape[-1])), float(spec.get("rope_theta", 10000))
    f = theta ** (-torch.arange(0, d, 2).double() / d)
    factor, scaling = float(spec.get("rope_factor", 1)), spec.get("rope_scaling", "none")
    size = float(spec.get("rope_attention_factor", 0.1 * math.log(factor) + 1 if scaling == "yarn" else 1))
    if scaling in ("dynamic", "longrope"):
        length, original = (float(spec[key]) for key in ("rope_len", "rope_original_len"))
    if scaling == "dynamic" and length > original:
        f = f * (factor * length / original - (factor - 1)) ** (-torch.arange(0, d, 2).double() / (d - 2))
    elif scaling == "longrope":
        f = f / torch.tensor([float(x) for x in spec["rope_long_factors" if length > original else "rope_factors"].split(",")])
    elif scaling == "linear":
        f = f / factor
    elif scaling == "llama3":
        w, length = 2 * math.pi / f, float(spec["rope_original_len"])
        low, high = float(spec["rope_low"]), float(spec["rope_high"])
        r = (length / w - low) / (high - low)
        f = torch.where(w < length / high, f, torch.where(w > length / low, f / factor, (1 - r) * f / factor + r * f))
    elif scaling == "yarn":
        length = float(spec["rope_original_len"])
        lo, hi = (d * math.log(length / (2 * math.pi * float(spec[b]))) / (2 * math.log(theta))
                  for b in ("rope_beta_fast", "rope_beta_slow"))
        if spec["rope_truncate"] == "true":
            lo, hi = math.floor(lo), math.ceil(hi)
        lo, hi = max(lo, 0), min(hi, d - 1)
        ramp = ((torch.arange(d // 2) - lo) / (hi - lo or 0.001)).clamp(0, 1)
        f = ramp * f / factor + (1 - ramp) * f
    angle = torch.arange(x.shape[-2]).double()[:, None] * f
    cos, sin, (rows, rest) = size * angle.cos(), size * angle.sin(), x.split((d, x.shape[-1] - d), -1)
    if spec["rope"] == "interleaved":
        a, b = rows[..., ::2], rows[..., 1::2]
        return torch.cat([torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2), rest], -1)
    a, b = rows.split(d // 2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def slopes(h):
    """Of alibi, by heads."""
    power = 2 ** (h.bit_length() - 1)
    first = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    return torch.tensor(first + [2.0 ** (-4 * (2 * i + 1) / power) for i in range(h - power)]).double()


def buckets(spec, n, m):
    count, far = int(spec["rel_buckets"]), int(spec["rel_distance"])
    d = torch.arange(m) - torch.arange(n)[:, None]
    add = 0
    if "causal" in spec["mask"]:
        d = (-d).clamp(min=0)
    else:
        count //= 2
        add, d = (d > 0) * count, d.abs()
    half = count // 2
    log = half + (torch.log(d.clamp(min=1) / half) / math.log(far / half) * half + 1e-12).floor().long()
    return add + torch.where(d < half, d, log.clamp(max=count - 1))


def distances(spec, n, m):
    """Rows of vectors of distances, for each query and key: docs/positions.md."""
    d = torch.arange(n)[:, None] - torch.arange(m)
    if spec.get("rel_rows", "clamped") == "clamped":
        left, right = (int(spec.get(key, 0)) for key in ("rel_left", "rel_right"))
        return d.clamp(-right, left) + right
    count, far = int(spec["rel_buckets"]), int(spec["rel_distance"])
    e = count // 2
    away = d.abs().clamp(min=e).double()
    log = e + (torch.log(away / e) / math.log((far - 1) / e) * (e - 1) - 1e-12).ceil()
    return torch.where(d.abs() <= e, d, log.long() * d.sign()).clamp(-count, count - 1) + count


def vectors(spec, w, q, k):
    """What vectors of distances add to q k, [batch][h][n][m]."""
    c, s = distances(spec, q.shape[-2], k.shape[-2]), 0
    for key, field, rows, axis in (("rel_keys", "rel_k", q, 2), ("rel_queries", "rel_q", k, 3)):
        if spec.get(key, "none") != "none":  # a product of each token with each vector, then the pair's own
            products = torch.einsum("bhnd,rhd->bhnr", rows, w[field].unflatten(-1, (rows.shape[1], -1)))
            products = products.unsqueeze(5 - axis).expand(-1, -1, *c.shape, -1)
            s = s + products.gather(-1, c[None, None, ..., None].expand(*products.shape[:-1], 1))[..., 0]
    return s


def latent(spec, w, x):
    """q, k, v of heads out of latents: docs/latent.md."""
    h, d, d_v, r, dims = (int(spec[key]) for key in ("h", "d_k", "d_v", "kv_rank", "rope_dims"))

    def turned(rows):
        rest, last = rows.split((rows.shape[-1] - dims, dims), -1)
        return torch.cat([rest, turn(last, spec)], -1) if spec["rope"] != "none" else rows
    rows = norm(linear(x, w["w_dq"], w.get("b_dq")), "rms", spec["qk_norm_eps"], w["g_dq"]) if "q_rank" in spec else x
    q = turned((rows @ w["w_q"]).unflatten(-1, (h, d)).transpose(1, 2))
    c, shared = linear(x, w["w_dkv"], w.get("b_dkv")).split((r, dims), -1)
    c, shared = norm(c, "rms", spec["qk_norm_eps"], w["g_dkv"]), turned(shared)
    k, v = ((c @ w[key]).unflatten(-1, (h, -1)).transpose(1, 2) for key in ("w_uk", "w_uv"))
    assert v.shape[-1] == d_v
    return q, torch.cat([k, shared[:, None].expand(-1, h, -1, -1)], -1), v


def attention(spec, w, x, source, lengths):
    if "kv_rank" in spec:
        return attended(spec, w, x, lengths, *latent(spec, w, x))
    h, width = int(spec["h"]), int(spec["d_model"])
    kv, d = int(spec.get("h_kv", h)), int(spec.get("d_k", width // h))

    def heads(name, rows, count):
        rows = linear(rows, w["w_" + name], w.get("b_" + name))
        if spec["qk_norm"] == "rms_all" and name != "v":
            rows = norm(rows, "rms", spec["norm_eps"], w["g_" + name])
        return rows.unflatten(-1, (count, d)).transpose(1, 2)
    q, k, v = heads("q", x, h), heads("k", source, kv), heads("v", source, kv)
    if spec["qk_norm"] == "rms":
        q, k = norm(q, "rms", spec["norm_eps"], w["g_q"]), norm(k, "rms", spec["norm_eps"], w["g_k"])
    if spec["qk_norm"] == "layer":
        gains = [w[key] if spec.get("qk_norm_gains") != "heads" else w[key].reshape(-1, 1, d) for key in ("g_q", "g_k")]
        q, k = (norm(rows, "layer", spec["norm_eps"], gain, w.get(shift, torch.zeros(d).double()))
                for rows, gain, shift in ((q, gains[0], "c_q"), (k, gains[1], "c_k")))
    if spec["rope"] != "none":
        q, k = turn(q, spec), turn(k, spec)
    k, v = (rows.repeat_interleave(h // kv, 1) for rows in (k, v))
    return attended(spec, w, x, lengths, q, k, v)


def attended(spec, w, x, lengths, q, k, v):
    h = q.shape[1]
    s = (q @ k.transpose(-1, -2) + vectors(spec, w, q, k)) * float(spec.get("scale", q.shape[-1] ** -0.5))
    if spec["softcap"] != "none":
        s = float(spec["softcap"]) * torch.tanh(s / float(spec["softcap"]))
    if spec["relative"] == "t5":
        s = s + w["rel_bias"][buckets(spec, *s.shape[-2:])].permute(2, 0, 1)
    p, j = torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])
    if spec.get("alibi") == "true":
        s = s - slopes(h)[:, None, None] * (p - j).abs()
    seen = torch.ones(1, 1, *s.shape[-2:], dtype=torch.bool)
    if "causal" in spec["mask"]:
        seen = seen & (j <= p)
    if "window" in spec["mask"]:
        seen = seen & (j >= p - int(spec["window_left"])) & (j <= p + int(spec.get("window_right", 2 ** 31)))
    if "padding" in spec["mask"]:
        seen = seen & (j < lengths[:, None, None, None])
    a = torch.softmax(s.masked_fill(~seen, -math.inf), -1).masked_fill(~seen.any(-1, keepdim=True), 0)
    z = (a @ v).transpose(1, 2).flatten(2)
    if spec.get("gate") == "features":
        z = z * torch.sigmoid(linear(x, w["w_gate"], w.get("b_gate")))
    return linear(z, w["w_o"], w.get("b_o"))


def recurrent(spec, w, x):
    h, states, d_k, d_v = (int(spec[key]) for key in ("h", "h_v", "d_k", "d_v"))
    taps = int(spec.get("conv_taps", 0))

    def rows(name, heads, d):
        u = linear(x, w["w_" + name], w.get("b_" + name))
        by = w["conv_" + name].reshape(heads * d, 1, taps)
        u = F.conv1d(F.pad(u.transpose(1, 2), (taps - 1, 0)), by, w.get(f"conv_{name}_b"), groups=heads * d).transpose(1, 2)
        return F.silu(u).unflatten(-1, (heads, d))
    q, k, v = rows("q", h, d_k), rows("k", h, d_k), rows("v", states, d_v)
    if spec.get("rule") == "gated":  # Mamba-2, and no other
        assert float(spec["scale"]) == 1 and {spec[key] for key in ("dt_values", "skip")} == {"true"}
        o = gated_delta.scan(v, linear(x, w["w_a"], w.get("b_a")), -w["a_log"].exp(), k, q, D=w["skip"], dt_bias=w["dt_b"],
                             dt_limit=(float(spec.get("dt_min", 0)), float(spec.get("dt_max", "inf"))))
        u = (o.flatten(2) * F.silu(linear(x, w["w_z"], w.get("b_z")))).unflatten(-1, (int(spec["out_norm_groups"]), -1))
        return linear(norm(u, "rms", spec["norm_eps"], None).flatten(2) * w["g_o"], w["w_o"], w.get("b_o"))
    assert spec["qk_norm"] == "l2_sum" and float(spec["qk_norm_eps"]) == 1e-6  # as gated_delta.rule() has it
    columns = d_k if spec.get("decay") == "column" else 1
    made = (linear(x, w["w_da"], None) if "decay_rank" in spec else x) @ w["w_a"] + w["dt_b"]
    g = -w["a_log"].exp()[:, None] * F.softplus(made).unflatten(-1, (states, columns))
    beta = float(spec.get("beta_scale", 1)) * torch.sigmoid(linear(x, w["w_b"], None))
    o = norm(gated_delta.rule(q, k, v, g, beta)[0], "rms", spec.get("out_norm_eps", spec["norm_eps"]), w["g_o"])
    z = (linear(x, w["w_dz"], None) if "gate_rank" in spec else x) @ w["w_z"]
    return linear(o.flatten(2) * (torch.sigmoid if spec["out_gate"] == "sigmoid" else F.silu)(z), w["w_o"], None)


def block(spec, w, x, source=None, lengths=None):
    def n(i, rows):
        return norm(rows, spec["norm"], spec["norm_eps"], w[f"n{i}_g"], w.get(f"n{i}_b"))

    def att(rows):
        if spec.get("layer") == "recurrent":
            return recurrent(spec, w, rows)
        return attention(spec, w, rows, rows if source is None else source, lengths)

    def ffn(rows):
        act, up = ACT[spec["ffn"]], linear(rows, w["w_1"], w.get("b_1"))
        gated = spec["ffn"] in GATED
        return linear(act(linear(rows, w["w_g"], w.get("b_g"))) * up if gated else act(up), w["w_2"], w.get("b_2"))
    kind, fed = spec.get("block", "none"), spec["ffn"] != "none"
    if kind == "none":
        return att(x)
    if spec.get("layer") == "ffn":
        assert kind == "pre"
        return x + ffn(n(1, x))
    if kind == "post":
        u = n(1, x + att(x))
        return n(2, u + ffn(u)) if fed else u
    if kind == "outputs":
        u = x + n(1, att(x))
        return u + n(2, ffn(u)) if fed else u
    if kind == "pre" and spec.get("input_norm") == "false":
        u = x + att(x)
        return u + ffn(n(1, u))
    if kind == "pre":
        u = x + att(n(1, x))
        return u + ffn(n(2, u)) if fed else u
    if kind == "parallel":
        return x + att(n(1, x)) + ffn(n(1 if spec.get("norm_shared") == "true" else 2, x))
    assert kind == "sandwich"
    u = x + n(2, att(n(1, x)))
    return u + n(4, ffn(n(3, u))) if fed else u


# ---- the model, from NAME.layers ----

class Model:
    def __init__(self, folder, out):
        self.sections = read_layers(next(out.glob("*.layers")))
        self.weights = Weights(folder, self.sections["weights"]["file"])
        self.specs = {path.name: read_spec(path) for path in out.glob("*.layer")}

    def normed(self, section, x):
        if "norm" not in section:
            return x
        shift = section.get("norm_b")
        return norm(x, section["norm"], section["norm_eps"], self.weights.get(section["norm_g"]),
                    None if shift is None else self.weights.get(shift))

    def embed(self, stack, data, types):
        e, kind, get = self.sections[stack + " embedding"], self.sections[stack + " input"]["kind"], self.weights.get
        if kind == "patches":
            of = self.sections[stack + " patches"]
            w = get(of["w"], transpose=False)
            x = F.conv2d(data, w, get(of["b"]) if "b" in of else None, stride=w.shape[-1]).flatten(2).transpose(1, 2)
            first = [get(e[key]).reshape(1, -1, x.shape[-1]).expand(len(x), -1, -1) for key in ("class", "distillation") if key in e]
            self.leading = sum(rows.shape[1] for rows in first) + ("registers" in e and get(e["registers"]).shape[-2])
            x = torch.cat([*first, x], 1)
        elif kind == "frames":
            x = data
            for i in "12":
                of = self.sections[f"{stack} conv_{i}"]
                x = F.conv1d(x, get(of["w"], transpose=False), get(of["b"]), int(of["stride"]), padding=1)
                x = ACT[self.specs[of["spec"]]["activation"]](x)
            x = x.transpose(1, 2)
        else:
            x = get(e["word"])[data]
        x = x * float(e.get("scale", 1))
        x = x + self.positions(e, x)
        if "registers" in e:  # without positions, behind the class
            x = torch.cat([x[:, :1], get(e["registers"]).expand(len(x), -1, -1), x[:, 1:]], 1)
        if "type" in e:
            x = x + get(e["type"])[types]
        x, by = self.normed(e, x), self.sections.get(stack + " projection")
        if by is None:
            return x
        x = linear(x, get(by["w"]), get(by["b"]) if "b" in by else None)
        return x + self.positions(by, x)

    def positions(self, section, x):
        """Of as many tokens as x has."""
        where = section.get("position", "")
        first = int(where.partition(" from ")[2] or 0)
        if where.startswith("sinusoids"):
            half, over = x.shape[-1] // 2, float(where.split()[2])
            angles = (first + torch.arange(x.shape[1]).double())[:, None] * 10000 ** (-torch.arange(half).double() / over)
            return torch.cat([angles.sin(), angles.cos()], -1)
        return self.weights.get(where).flatten(0, -2)[first:first + x.shape[1]] if where else 0

    def stack(self, stack, data, source, lengths, types=None):
        x, i = self.embed(stack, data, types), 0
        while (section := self.sections.get(f"{stack} layer {i}")) is not None:
            x, i = block(*self.layer(section), x, source if section.get("source") else None, lengths), i + 1
        return self.normed(self.sections.get(stack + " norm", {}), x)

    def layer(self, section):
        """→ its spec, its tensors"""
        spec, get = self.specs[section["spec"]], self.weights.get
        more = {key: value for key, value in section.items() if re.search("_by$|^rel_[kq]_", key)}
        w = {key: get(value) for key, value in section.items() if key not in ("spec", "source") and key not in more}
        pieces = (re.fullmatch(r"(.+)_(\d+)", key) for key in list(w))  # of g_q_2 the first one is g_q
        for piece in sorted((p for p in pieces if p and p[1] in w), key=lambda p: int(p[2])):
            w[piece[1]] = torch.cat([w[piece[1]].flatten(), w.pop(piece[0])])
        for key in [key for key in more if key.endswith("_by")]:  # a factor for each output
            w[key[:-3]] = w[key[:-3]] * get(more.pop(key))
        for key in "rel_k", "rel_q":  # rows that are normed, then multiplied
            gain, shift, eps, by, bias = (more.pop(f"{key}_{of}", None)
                                          for of in ("norm_g", "norm_b", "norm_eps", "w", "b"))
            if gain:
                w[key] = norm(w[key], "layer", eps, get(gain), get(shift))
            if by:
                w[key] = linear(w[key], get(by, transpose=False).T, get(bias) if bias else None)
        known(bool(more), {False}, f"{section['spec']}: {' '.join(more)}")
        return spec, w

    def pooled(self, stack, rows):
        """The embedding of each picture or text, of those ways that no call of sentences is needed for."""
        section = self.sections[stack + " pooling"]
        known(section["kind"], {"probe", "last"}, "kind of pooling")
        known(section["normalize"], {"false"}, "normalize")
        if section["kind"] == "last":
            return rows[:, -1]
        (spec, w), query = self.layer(self.sections[stack + " probe"]), self.weights.get(section["probe"])
        x = block(spec, w, query.reshape(1, 1, -1).expand(len(rows), -1, -1), rows)
        return block(*self.layer(self.sections[stack + " pooled"]), x)[:, 0]

    def head(self, name, stacks):
        section = self.sections["head " + name]
        source = section["from"]
        x = stacks[source] if source in stacks else self.head(source.removeprefix("head "), stacks)
        known(section["rows"], {"all", "first", "second", "mean", "first_and_mean"}, f"head {name}: rows")
        if x.dim() == 3 and section["rows"] != "all":
            if self.sections["encoder input"]["kind"] == "tokens":
                seen = torch.arange(x.shape[1]) < self.lengths[:, None]
                mean = (x * seen[..., None]).sum(1) / seen.sum(1)[:, None]
            else:
                mean = x[:, self.leading:].mean(1)  # of patches
            x = {"first": x[:, 0], "second": x[:, min(1, x.shape[1] - 1)], "mean": mean,
                 "first_and_mean": torch.cat([x[:, 0], mean], -1)}[section["rows"]]
        x = linear(x * float(section.get("scale", 1)), self.weights.get(section["w"]),
                   self.weights.get(section["b"]) if "b" in section else None)
        spec = self.specs[section["spec"]]
        x = ACT[spec["activation"]](x) if "activation" in spec else x
        cap = float(spec["softcap"]) if spec["softcap"] != "none" else None
        return self.normed(section, x if cap is None else cap * torch.tanh(x / cap))


# ---- the same by transformers ----

class NoAnswer(Exception):
    """transformers cannot compute the model."""


def draw(ours, config):
    """What a call brings, by the names of transformers: ids without that of padding, which is behind a text's end."""
    pad = getattr(config, "pad_token_id", None)
    torch.manual_seed(1)
    stack = ours.sections.get("encoder input", ours.sections.get("decoder input"))
    mask = (torch.arange(TOKENS) < LENGTHS[:, None]).long()

    vocab = int(ours.sections.get("decoder input", stack).get("vocab", 0))
    pad = pad if pad in range(vocab) else 0

    def ids(count):
        rows = torch.randint(3, vocab - 1, (BATCH, count))
        return rows + (rows == pad).long()
    if stack["kind"] == "patches":
        return {"pixel_values": torch.randn(BATCH, int(stack["channels"]), *[int(stack["image_size"])] * 2).double()}
    if stack["kind"] == "frames":
        return {"input_features": torch.randn(BATCH, int(stack["mel"]), int(stack["frames"])).double(),
                "decoder_input_ids": ids(TOKENS)}
    if "encoder input" not in ours.sections:
        rows = ids(TOKENS)
        if "head text_embeds" in ours.sections:  # of a text's end mark: the id 2 means the largest one
            end = config.eos_token_id
            rows[rows == end] = 3 + (end == 3)
            rows[:, -1] = vocab - 1 if end == 2 else end
        return {"input_ids": rows}
    if "lengths" not in stack["needs"].split():
        return {"input_ids": ids(int(stack["seq_len"]))}
    call = {"input_ids": ids(TOKENS) * mask + (1 - mask) * pad, "attention_mask": mask}
    if "decoder input" in ours.sections:
        call["decoder_input_ids"] = ids(TOKENS - 2)
    if "types" in stack["needs"].split():
        call["token_type_ids"] = torch.randint(0, int(stack["types"]), (BATCH, TOKENS))
    return call


def answers(kind, model, call):
    """What the class puts out, by the names of attngen's heads; hidden: that of the last stack."""
    if kind.endswith("MultipleChoice"):  # of one question here
        return {"classifier": model(**{key: rows[None] for key, rows in call.items()}).logits.reshape(BATCH, 1)}
    out = model(**call)
    names = {"image_embeds": "image_embeds", "text_embeds": "text_embeds", "sop_logits": "order", "prediction_logits": "logits", "seq_relationship_logits": "seq_relationship", "pooler_output": "pooler",
             "last_hidden_state": "hidden", "logits": "classifier"}
    if kind.endswith(("LM", "LMHeadModel", "Generation", "MTModel")):
        names["logits"] = "logits"
    elif kind == "ElectraForPreTraining":
        return {"replaced": out.logits[..., None]}
    elif "NextSentence" in kind:
        names["logits"] = "seq_relationship"
    found = {ours: out[theirs] for theirs, ours in names.items() if out.get(theirs) is not None}
    if "cls_logits" in out:  # their mean is that of logits
        found = {"cls_classifier": out.cls_logits, "distillation_classifier": out.distillation_logits}
    if "start_logits" in out:
        found["qa_outputs"] = torch.stack([out.start_logits, out.end_logits], -1)
    return found


def compute(ours, call):
    """The same from NAME.layers, and of each head that stands there."""
    ours.lengths = lengths = LENGTHS if "attention_mask" in call else torch.full((BATCH,), 2 ** 31)
    stacks, data = {}, next(call[key] for key in ("pixel_values", "input_features", "input_ids") if key in call)
    if "encoder input" in ours.sections:
        stacks["encoder"] = ours.stack("encoder", data, None, lengths, call.get("token_type_ids"))
    if "decoder input" in ours.sections:
        ids = call.get("decoder_input_ids", call.get("input_ids"))
        stacks["decoder"] = ours.stack("decoder", ids, stacks.get("encoder"), lengths)
    found = {"hidden": stacks.get("decoder", stacks.get("encoder"))}
    if "encoder pooling" in ours.sections:
        found["embedding"] = stacks["encoder pooling"] = ours.pooled("encoder", found["hidden"])
    for title in ours.sections:
        if title.startswith("head "):
            found[title[5:]] = ours.head(title[5:], stacks)
    return found


def apart(rows, his):
    return ((rows - his).abs().max() / his.abs().max()).nan_to_num(math.inf).item()


def compare(folder, out, model):
    """(outputs, the largest difference), of what import wrote into `out` and the model that transformers reads."""
    ours, kind = Model(folder, out), type(model).__name__
    call, ends = draw(ours, model.config), None
    if kind.endswith("SequenceClassification") and "decoder_input_ids" in call:  # of the row of the end mark
        ids, ends, end = call["input_ids"], LENGTHS - 1, model.config.eos_token_id
        ids[:] = torch.where(ids == end, (end + 1) % 3 + 3, ids)
        ids[range(BATCH), ends] = end
        call["decoder_input_ids"] = torch.cat([call["decoder_input_ids"]] * 2, 1)[:, :TOKENS]
    with torch.no_grad():
        try:
            theirs = answers(kind, model, call)
            raw = dict(theirs)
        except Exception as error:  # whatever a model of an odd config.json says
            raise NoAnswer(error) from error
        mine = compute(ours, call)
    if "embedding" in mine:  # behind a head, where it has one
        theirs["embedding"] = theirs.pop("pooler")
        mine["embedding"] = mine.pop("dense", mine["embedding"])
    if "image_embeds" in theirs:  # ours is behind the last norm
        del theirs["hidden"]
    if "pooler" in theirs and "pooler" not in mine and not any("pooler." in name for name in ours.weights.tensors):
        del theirs["pooler"]  # drawn by transformers
    if "score" in mine and "classifier" in theirs:  # of a decoder
        theirs["score"] = theirs.pop("classifier")
    for name in ("score", "classifier", "text_embeds"):
        if name in mine and name in theirs and mine[name].dim() == theirs[name].dim() + 1:
            mine[name] = mine[name][:, -1] if ends is None else mine[name][range(BATCH), ends]  # the last token's
    if "project_out" in mine and "hidden" in theirs:
        theirs["project_out"] = theirs.pop("hidden")  # of words of another width
    for name in set(theirs) - set(mine) | set(mine) - set(theirs) - {"hidden", "pooler", "transform", "dense", "order", "summary",
                                                                     "project_out"}:
        raise ValueError(f"{name} is an output of one side alone")
    worst = 0
    for name, his in theirs.items():
        rows = mine[name]
        if rows.shape != his.shape:
            raise ValueError(f"{name} is {list(rows.shape)} and {list(his.shape)}")
        if rows.dim() == 3 and "attention_mask" in call:  # rows of padding are nobody's
            seen = torch.arange(rows.shape[1]) < LENGTHS[:, None]
            rows, his = rows[seen], his[seen]
        if not his.isfinite().all():  # a row of padding that sees no key in a window is NaN, and so are all behind it
            raise NoAnswer(f"transformers' {name} is not finite")
        worst = max(worst, apart(rows, his))
    if CLOSE < worst < math.inf and any(spec.get("layer") == "recurrent" for spec in ours.specs.values()):
        with torch.no_grad():  # norms of a head's outputs near 0 carry any rounding far: transformers' own in float32 counts
            rough = answers(kind, model.float(), call)
        worst /= max(1, 8 * max(apart(rough[name], his) for name, his in raw.items()) / CLOSE)
    return theirs, worst


def load(folder):
    kind = getattr(t, json.loads((folder / "config.json").read_text())["architectures"][0])
    return gated_delta.use(kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")).eval()


def check(name, attngen):
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([attngen, "import", "--specs", HERE / name, "-o", work], check=True)
        theirs, worst = compare(HERE / name, pathlib.Path(work), load(HERE / name))
    print(f"{name:16} {len(theirs)} outputs, off by {worst:.1e} at most")
    return worst


t.logging.set_verbosity_error()
t.logging.disable_progress_bar()
if __name__ == "__main__":
    names = sys.argv[2:] or sorted(path.name for path in HERE.iterdir() if path.is_dir())
    sys.exit(max([check(name, sys.argv[1]) for name in names]) > CLOSE)
