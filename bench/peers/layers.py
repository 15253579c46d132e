# SPDX-License-Identifier: MIT
"""What is measured: layers, the sizes of a call, drawn tensors, and the number of useful multiply-adds.

A layer is read from a spec in attngen's own syntax (docs/spec.md). attngen checks specs; here only the keys
are resolved that a peer has to know. Left out: `scores`, `lse`, expressions, the masks that the call brings (but for
`padding`), `weight_layout` (weights are drawn [in][out]), and what kinds.py leaves out.
"""
import dataclasses
import math
import os
import sys

import numpy as np

import kinds

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "vectors"))
import score_terms  # noqa: E402

CALL_KEYS = ("batch", "n", "m", "past")  # of a shape, not of a spec


@dataclasses.dataclass(frozen=True)
class Case:
    """One layer and the sizes of one call. Widths and lengths are counts of f32 numbers and positions."""
    name: str
    spec: tuple        # (key, value) pairs, as attngen reads them
    d_model: int
    h: int
    h_kv: int
    d_k: int
    d_v: int
    d_source: int
    mask: frozenset
    window: tuple      # (left, right), None: unbounded
    split: bool
    cross: bool
    tied: bool
    identity: bool
    w_o: str
    conv_width: int
    bias: bool
    scale: float
    projected: bool    # the call brings q, k and v
    heads_first: bool  # those and y are [batch][heads][positions][width]
    rope: kinds.Rope   # None: none
    norm: bool         # of each head's queries and keys: rms
    norm_eps: float
    softcap: float     # None: none
    alibi: bool
    relative: tuple    # T5's (buckets, distance); None: none
    sink: bool
    batch: int
    n: int
    m: int
    past: int          # keys that a cache holds before the call, m - n of them; None: the layer has no cache
    cache_len: int     # rows that it has room for
    block: kinds.Block # None: attention alone
    train: bool        # gradients too: a call is a step of training

    @property
    def d_out(self):
        return self.h * self.d_v if self.w_o == "none" else self.d_model

    @property
    def ordinary(self):
        """The layer of Vaswani et al.: every projection one dense matrix, heads d_model / h wide."""
        return not (self.split or self.tied or self.identity or self.w_o != "dense"
                    or self.h_kv != self.h or self.d_k * self.h != self.d_model or self.d_v != self.d_k)

    @property
    def kinds(self):
        """What this layer has that not every peer, or not every formulation of it, can say."""
        has = {"projected": self.projected, "heads_first": self.heads_first, "rope": self.rope, "qk_norm": self.norm, "softcap": self.softcap,
               "alibi": self.alibi, "relative": self.relative, "sink": self.sink, "cache": self.past is not None,
               "block": self.block, "train": self.train}
        return frozenset(name for name, value in has.items() if value)

    @property
    def positional(self):
        """Masks that depend on positions only. Padding is none: every sequence of a case has its full length."""
        return self.mask & score_terms.POSITION.keys()

    def visible(self):
        """[n][m] bool: may query t see key j."""
        t, j = (self.past or 0) + np.arange(self.n)[:, None], np.arange(self.m)[None, :]
        return np.ones((self.n, self.m), bool) & score_terms.sees(self.mask, t, j, self.window)

    def score_bias(self, tensors):
        """[h][n][m]: what ALiBi and relative positions add to a score; None if nothing. Masks are not in it."""
        t, j = np.arange(self.n)[:, None], np.arange(self.m)[None, :]
        bias = 0.0
        if self.alibi:
            bias = bias - kinds.slopes(self.h)[:, None, None] * np.abs(t - j)
        if self.relative:
            bucket = kinds.t5_buckets(self.n, self.m, *self.relative, "causal" not in self.mask)
            bias = bias + tensors["rel_bias"].astype(np.float64)[bucket].transpose(2, 0, 1)
        return bias if self.alibi or self.relative else None

    def score_mask(self, tensors):
        """[1 or h][n][m] f32 to be added to scores: score_bias, and -infinity where a mask of positions hides. None: nothing."""
        bias = self.score_bias(tensors)
        if bias is None and not self.positional:
            return None
        return np.where(self.visible(), np.zeros((1, 1, 1)) if bias is None else bias, -np.inf).astype(np.float32)

    def multiply_adds(self):
        """Of one call, of the plain layer: only pairs that masks leave visible; norms and rotation are not counted."""
        return sum(self.passes().values())

    def passes(self):
        """The same of each pass. Backward: two products for each of forward's, and scores once more."""
        d_in, s_in = (w // self.h if self.split else w for w in (self.d_model, self.d_source))
        new = self.m if self.past is None else self.n  # keys and values that the call computes
        project = self.n * d_in * self.h * self.d_k + new * s_in * self.h_kv * self.d_k
        if not self.identity:
            project += new * s_in * self.h_kv * self.d_v
        if self.projected:
            project = 0
        pairs = int(self.visible().sum()) * self.h
        output = {"dense": self.n * self.h * self.d_v * self.d_model, "none": 0,
                  "conv": self.n * self.conv_width * self.d_v * self.d_model}[self.w_o]
        feed = self.n * self.d_model * self.block.d_ff * (3 if self.block.gated else 2) if self.block else 0
        forward = self.batch * (project + pairs * (self.d_k + self.d_v) + output + feed)
        return {"forward": forward, **({"backward": 2 * forward + self.batch * pairs * self.d_k} if self.train else {})}

    def describe(self):
        sizes = f"{self.batch} x {self.n}" + (f" to {self.m}" if self.cross else "")
        sizes += "" if self.past is None else f" behind {self.past}"
        heads = f"{self.h}" + (f"/{self.h_kv}" if self.h_kv != self.h else "")
        width = "" if self.projected else f" x {self.d_model}"
        width += f", {self.block.kind} {self.block.ffn} {self.block.d_ff}" if self.block else ""
        return f"{sizes}{width}, {heads} heads of {self.d_k}" + (
            f"/{self.d_v}" if self.d_v != self.d_k else "")


def read_spec(path):
    """The (key, value) pairs of a .layer file."""
    pairs = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line:
                key, value = (part.strip() for part in line.split("=", 1))
                pairs[key] = value
    return pairs


def make_case(name, keys):
    """A Case from a dictionary of spec keys and the sizes of a call (batch 1, full lengths unless given)."""
    spec = {k: v for k, v in keys.items() if k not in CALL_KEYS and not k.startswith("plan.")}
    spec["name"] = name
    number = lambda key, default: int(spec.get(key, default))
    known = {"rope", "qk_norm", "alibi", "relative", "sink", "softcap", "w_k", "w_v", "attention"}
    if spec.get("cache", "none") not in ("none", "rows") or "cache" in spec and spec.keys() & known:
        raise ValueError(f"{name}: only caches of rows, of plain self-attention, are written down here")
    d_model, h = number("d_model", 0), number("h", 0)
    plain = ("name", "d_model", "h", "seq_len", "bias", "train", "width", "d_k", "d_v", "mask", "h_kv", "scale", "plan")
    if spec.get("train") == "true" and set(spec) - set(plain):
        raise ValueError(f"{name}: gradients of plain layers alone are written down here")
    unknown = [f"{key} = {spec[key]}" for key, known in kinds.BUILT.items() if spec.get(key, known[0]) not in known]
    if unknown:
        raise ValueError(f"{name}: kinds.py does not know {', '.join(unknown)}")
    projected = spec.get("input") == "projected"
    split, identity = spec.get("input") == "split", spec.get("w_v") == "identity"
    cross = spec.get("attention") == "cross"
    width = d_model if spec.get("width") == "wide" else d_model // h
    d_source = number("d_source", d_model)
    d_k = number("d_k", width)
    d_v = (d_source // h if split else d_source) if identity else number("d_v", d_k if projected else width)
    seq_len = number("seq_len", 0)
    n = int(keys.get("n", seq_len))
    m = int(keys.get("m", spec.get("source_len", seq_len))) if cross or projected else n
    cached = spec.get("cache", "none") != "none"
    past = int(keys.get("past", 0)) if cached else None
    m = past + n if cached else m
    bound = lambda key: None if spec.get(key, "unbounded") == "unbounded" else int(spec[key])
    if spec.get("heads") == "first" and (not projected or cached or spec.keys() & known):
        raise ValueError(f"{name}: heads = first is written down here for plain attention of given q, k and v")
    return Case(name=name, spec=tuple(spec.items()), d_model=d_model, h=h, h_kv=number("h_kv", h), d_k=d_k, d_v=d_v,
                d_source=d_source, mask=frozenset(spec.get("mask", "none").split("+")) - {"none"},
                window=(bound("window_left"), bound("window_right")), split=split, cross=cross,
                tied=spec.get("w_k") == "tied", identity=identity, w_o=spec.get("w_o", "dense"),
                conv_width=number("conv_width", 3), bias=spec.get("bias") == "true",
                scale=float(spec.get("scale", 1 / math.sqrt(d_k))),
                projected=projected, heads_first=spec.get("heads") == "first", rope=kinds.read_rope(spec, d_k), norm=spec.get("qk_norm", "none") != "none",
                norm_eps=float(spec.get("norm_eps", 1e-6)),
                softcap=None if spec.get("softcap", "none") == "none" else float(spec["softcap"]),
                alibi=spec.get("alibi") == "true", sink=spec.get("sink") == "true",
                relative=(number("rel_buckets", 32), number("rel_distance", 128)) if "relative" in spec else None,
                batch=int(keys.get("batch", 1)), n=n, m=m, past=past, cache_len=number("cache_len", 0), block=kinds.read_block(spec),
                train=spec.get("train") == "true")


def read_shapes(examples, table):
    """name -> Case: every .layer of the folder `examples`, then the lines of the file `table`.

    A line of the table: a name, then `key=value` words: keys of the spec, `batch`, `n`, `m`, and `base=NAME`, a
    shape whose keys are taken first; `key=` takes one of them away.
    """
    keys = {file[:-len(".layer")]: read_spec(os.path.join(examples, file))
            for file in sorted(os.listdir(examples) if examples else ()) if file.endswith(".layer")}
    # examples: decode.txt has layers with a cache, models.py what has no attention
    others = {name for name, k in keys.items() if "cache" in k or k.get("layer", "attention") != "attention"}
    with open(table, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                own = dict(word.split("=", 1) for word in words[1:])
                own = {**keys.get(own.pop("base", None), {}), **own}
                keys[words[0]] = {key: value for key, value in own.items() if value}
    return {name: make_case(name, k) for name, k in keys.items() if name not in others}


def draw_tensors(case, seed):
    """name -> array, as docs/spec.md names and shapes them; numbers of unit size, weights of size 1/sqrt(fan-in)."""
    rng = np.random.default_rng(seed)
    c = case

    def draw(shape, fan_in=1.0):
        return (rng.standard_normal(shape) / math.sqrt(fan_in)).astype(np.float32)

    # without a norm, scores are of about unit size whatever the scale
    unit_scores = np.float32(1 if c.norm else 1 / (c.scale * math.sqrt(c.d_k)))

    def weight(d_in, heads, width):
        return draw((heads, d_in // c.h, width), d_in // c.h) if c.split else draw((d_in, heads * width), d_in)

    tensors, biases = {}, {}
    if "padding" in c.mask:
        tensors["lengths"] = np.full(c.batch, c.m, np.int32)
    if c.projected:
        tensors["q"] = draw((c.batch, c.n, c.h, c.d_k)) * unit_scores
        new = c.m if c.past is None else c.n
        tensors["k"], tensors["v"] = draw((c.batch, new, c.h_kv, c.d_k)), draw((c.batch, new, c.h_kv, c.d_v))
    else:
        tensors["x"] = draw((c.batch, c.n, c.d_model))
        if c.cross:
            tensors["source"] = draw((c.batch, c.m, c.d_source))
        tensors["w_q"], biases["b_q"] = weight(c.d_model, c.h, c.d_k) * unit_scores, c.h * c.d_k
        if not c.tied:
            tensors["w_k"], biases["b_k"] = weight(c.d_source, c.h_kv, c.d_k), c.h_kv * c.d_k
        if not c.identity:
            tensors["w_v"], biases["b_v"] = weight(c.d_source, c.h_kv, c.d_v), c.h_kv * c.d_v
    if c.past is not None:  # rows behind the cached ones stay zero: some peers read what they hide
        for letter, width in (("k", c.d_k), ("v", c.d_v)):
            tensors[letter + "_cache"] = np.zeros((c.batch, c.h_kv, c.cache_len, width), np.float32)
            tensors[letter + "_cache"][:, :, :c.past] = draw((c.batch, c.h_kv, c.past, width))
    if c.w_o == "dense":
        tensors["w_o"], biases["b_o"] = draw((c.h * c.d_v, c.d_model), c.h * c.d_v), c.d_model
    elif c.w_o == "conv":
        shape = (c.h, c.conv_width, c.d_v, c.d_model // c.h)
        tensors["w_o"], biases["b_o"] = draw(shape, c.conv_width * c.d_v), c.d_model
    if c.bias:
        tensors.update((name, draw(size)) for name, size in biases.items())
    if c.block:
        for number in c.block.norms:
            tensors[f"n{number}_g"] = 1 + draw(c.d_model, 100)
            if not c.block.rms:
                tensors[f"n{number}_b"] = draw(c.d_model, 100)
        for which in () if c.block.ffn == "none" else ("1", "g", "2") if c.block.gated else ("1", "2"):
            shape = (c.block.d_ff, c.d_model) if which == "2" else (c.d_model, c.block.d_ff)
            tensors["w_" + which] = draw(shape, shape[0])
            if c.block.bias:
                tensors["b_" + which] = draw(shape[1])
    if c.norm:
        tensors["g_q"], tensors["g_k"] = 1 + draw(c.d_k, 100), 1 + draw(c.d_k, 100)
    if c.relative:
        tensors["rel_bias"] = draw((c.relative[0], c.h))
    if c.sink:
        tensors["sink"] = draw(c.h)
    if c.train:
        tensors["dy"] = draw((c.batch, c.n, c.d_out))
    return tensors


def reference(case, tensors):
    """y in double precision, by the equations of docs/spec.md."""
    t = {name: array.astype(np.float64) for name, array in tensors.items() if name != "lengths"}
    block = case.block
    if block is None:
        return _attention(case, t, t.get("x"))

    def norm(number, of):
        gain = t[f"n{number}_g"]
        return kinds.rms(of, gain, block.eps) if block.rms else kinds.layer_norm(of, gain, t[f"n{number}_b"], block.eps)

    feed = lambda u: block.feed(u, lambda which, of: of @ t["w_" + which] + t.get("b_" + which, 0),
                                lambda of: kinds.activate(block.activation, of), np.multiply)
    return block.around(t["x"], lambda of: _attention(case, t, of), norm, feed, np.add)


def heads_last(case, y):
    """y as [batch][n][d_out], of a layer whose rows may be [batch][h][n][d_v]."""
    return (y.swapaxes(1, 2) if case.heads_first else y).reshape(case.batch, case.n, case.d_out)


def attended(case, tensors):
    """What W_O reads, of plain attention."""
    return reference(dataclasses.replace(case, w_o="none"), tensors)


def _attention(case, t, x):
    """Attention alone, of the rows x, one head at a time."""
    c = case
    source = t.get("source", x)
    see, bias = c.visible(), c.score_bias(t)

    def project(of, which, head, width):
        if c.projected:
            return t[which][:, :, head]
        w, b = t["w_" + which], t.get("b_" + which)
        columns = slice(head * width, (head + 1) * width)
        if c.split:
            part = of.shape[-1] // c.h
            y = of[..., head * part:(head + 1) * part] @ w[head]
        else:
            y = of @ w[:, columns]
        return y if b is None else y + b[columns]

    z = np.empty((c.batch, c.n, c.h, c.d_v))
    for head in range(c.h):
        shared = head * c.h_kv // c.h
        q = project(x, "q", head, c.d_k)
        k = project(source, "q" if c.tied else "k", shared, c.d_k)
        if not c.identity:
            v = project(source, "v", shared, c.d_v)
        else:
            v = source[..., head * c.d_v:(head + 1) * c.d_v] if c.split else source
        if c.past is not None:
            k = np.concatenate((t["k_cache"][:, shared, :c.past], k), 1)
            v = np.concatenate((t["v_cache"][:, shared, :c.past], v), 1)
        if c.norm:
            q, k = kinds.rms(q, t["g_q"], c.norm_eps), kinds.rms(k, t["g_k"], c.norm_eps)
        if c.rope:
            q, k = c.rope.apply(q), c.rope.apply(k)
        for b in range(c.batch):
            s = c.scale * (q[b] @ k[b].T)
            s = c.softcap * np.tanh(s / c.softcap) if c.softcap else s
            s = np.where(see, s if bias is None else s + bias[head], -np.inf)
            most = s.max(-1, keepdims=True)
            a = np.exp(s - most)
            besides = np.exp(t["sink"][head] - most) if c.sink else 0
            z[b, :, head] = a @ v[b] / (a.sum(-1, keepdims=True) + besides)
    if c.w_o == "none":
        return z.reshape(c.batch, c.n, -1)
    if c.w_o == "dense":
        return z.reshape(c.batch, c.n, -1) @ t["w_o"] + t.get("b_o", 0)
    pad = score_terms.conv_pad(c.conv_width, c.mask)
    padded = np.pad(z, ((0, 0), (pad, c.conv_width - 1 - pad), (0, 0), (0, 0)))
    y = sum(np.einsum("bnhv,hvd->bnhd", padded[:, r:r + c.n], t["w_o"][:, r], optimize=True) for r in range(c.conv_width))
    return y.reshape(c.batch, c.n, c.d_model) + t.get("b_o", 0)


def gradients(case, tensors):
    """{"dx": ..., "dw_q": ...} in double precision, by the formulas of docs/gradients.md, of plain self-attention."""
    c, t = case, {name: array.astype(np.float64) for name, array in tensors.items() if name != "lengths"}
    x, dy, see = t["x"], t["dy"], c.visible()
    of = lambda which: x @ t["w_" + which] + t.get("b_" + which, 0)
    q, k, v = of("q"), of("k"), of("v")
    z, d = np.empty((c.batch, c.n, c.h * c.d_v)), {"q": np.empty_like(q), "k": np.zeros_like(k), "v": np.zeros_like(v)}
    dz, turned = dy @ t["w_o"].T, lambda array: array.transpose(0, 2, 1)
    for head in range(c.h):
        shared = head * c.h_kv // c.h
        of_q, of_k = (slice(i * c.d_k, (i + 1) * c.d_k) for i in (head, shared))
        of_z, of_v = (slice(i * c.d_v, (i + 1) * c.d_v) for i in (head, shared))
        s = np.where(see, c.scale * q[..., of_q] @ turned(k[..., of_k]), -np.inf)
        a = np.exp(s - s.max(-1, keepdims=True))
        a /= a.sum(-1, keepdims=True)
        z[..., of_z] = a @ v[..., of_v]
        ds = dz[..., of_z] @ turned(v[..., of_v])
        ds = a * (ds - (dz[..., of_z] * z[..., of_z]).sum(-1, keepdims=True))
        d["q"][..., of_q] = c.scale * ds @ k[..., of_k]
        d["k"][..., of_k] += c.scale * turned(ds) @ q[..., of_q]
        d["v"][..., of_v] += turned(a) @ dz[..., of_z]
    flat = lambda array: array.reshape(-1, array.shape[-1])
    out = {"dx": sum(d[which] @ t["w_" + which].T for which in "qkv"), "dw_o": flat(z).T @ flat(dy)}
    out.update((f"dw_{which}", flat(x).T @ flat(d[which])) for which in "qkv")
    if c.bias:
        out.update((f"db_{which}", flat(array).sum(0)) for which, array in (*d.items(), ("o", dy)))
    return out
