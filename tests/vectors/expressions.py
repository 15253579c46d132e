#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Writes tests/vectors/kinds/expression_*.layer and .safetensors: layers whose spec has score and visible, computed in double
# with numpy, the expressions by Python's own eval. Needs numpy.
#
#   tests/vectors/expressions.py tests/vectors/kinds
import json
import math
import os
import struct
import sys

import numpy


class Clamped:
    """A table whose indices are clamped."""

    def __init__(self, of):
        self.of = of

    def __getitem__(self, at):
        part = self.of[min(max(at, 0), len(self.of) - 1)]
        return Clamped(part) if part.ndim else float(part)


LAYERS = {
    # every operation, in lanes and for keys and heads alone
    "words": dict(
        keys="d_model = 16\nh = 2\nseq_len = 41\nmask = causal\n", n=37,
        score="where(p // 3 == j // 3 or p // (j + 2) < i, s, 5 * tanh(s / 5)) - bias[i][p - j + 4] * sqrt(abs(p * j - 7)) "
              "/ (10 + i) + exp(-abs(p - j) / 8) + min(max(s, -1), (j - p) % 5 - (p * j) // -90) * 0.25",
        visible="not (p % 7 == j % 7) or keep[j] > 0.0 and i == 0 or p - j <= 1 != (j // 4 % 2 == 1)".replace(
            "p - j <= 1 != (j // 4 % 2 == 1)", "(p - j <= 1) != (j // 4 % 2 == 1)"),
        tables={"bias": (2, 9), "keep": (41,)}),
    # -infinity hides, by position and by the score itself; some rows see nothing
    "hides": dict(
        keys="d_model = 12\nh = 3\nseq_len = 40\nscores = true\n", n=29,
        score="where(p % 5 == 4 or s < -0.75 and j > 2, -1e999, s * tau[i])", visible=None, tables={"tau": (3,)}),
    # integers beyond what f32 counts
    "wide": dict(
        keys="d_model = 8\nh = 2\nseq_len = 300\n", n=290,
        score="s + (p * p * p * 1000 + j) % 7 * 0.1", visible="(p * p * j * 4097 + i) % 3 != 1 or j == p", tables={}),
    # blocks that all see, some see and nobody sees
    "blocks": dict(
        keys="d_model = 8\nh = 2\nseq_len = 400\n", n=333, score=None,
        visible="p // 64 == j // 64 or j // 16 == 5 or i == 1 and j // 32 == p // 32 - 3", tables={}),
    # llama4's temperature of queries, and the functions on scores, tables, and positions
    "log": dict(
        keys="d_model = 16\nh = 2\nseq_len = 60\nmask = causal\n", n=59,
        score="s * (1 + 0.1 * log(1 + floor((p + 1) / 8))) - 0.3 * log(1 + abs(p - j)) * sigmoid(tau[i] + s) + "
              "0.25 * floor(2 * s + tau[i])", visible="floor(p / 2.5) != floor(j / 7) + 3 or log(j + 1) < 1.5",
        tables={"tau": (2,)}),
}
NAMES = dict(min=min, max=max, abs=abs, exp=math.exp, tanh=math.tanh, sqrt=math.sqrt, log=math.log, floor=math.floor,
             sigmoid=lambda a: 1 / (1 + math.exp(-a)),
             where=lambda c, a, b: a if c else b, __builtins__={})


def key_of(text, name):
    for line in text.splitlines():
        if line.startswith(name + " ="):
            return line.split("=")[1].strip()


def compute(of, random):
    d, h, n = int(key_of(of["keys"], "d_model")), int(key_of(of["keys"], "h")), of["n"]
    tensors = {"x": random.standard_normal((1, n, d))}
    for w in ("w_q", "w_k", "w_v", "w_o"):
        tensors[w] = random.standard_normal((d, d)) / math.sqrt(d)
    for name, shape in of["tables"].items():
        tensors[name] = random.standard_normal(shape)
    tensors = {name: t.astype(numpy.float32) for name, t in tensors.items()}
    t = {name: v.astype(numpy.float64) for name, v in tensors.items()}
    width = d // h
    q, k, v = (t["x"][0] @ t[w] for w in ("w_q", "w_k", "w_v"))
    names = dict(NAMES, **{name: Clamped(t[name]) for name in of["tables"]})
    score = compile(of["score"], "score", "eval") if of["score"] else None
    visible = compile(of["visible"], "visible", "eval") if of["visible"] else None
    causal = key_of(of["keys"], "mask") == "causal"
    z, attn = numpy.zeros((n, d)), numpy.zeros((h, n, n))
    for i in range(h):
        part = slice(i * width, (i + 1) * width)
        s = q[:, part] @ k[:, part].T / math.sqrt(width)
        for p in range(n):
            row = numpy.full(n, -math.inf)
            for j in range(p + 1 if causal else n):
                at = dict(names, s=s[p, j], i=i, p=p, j=j)
                if visible is None or eval(visible, at):
                    row[j] = eval(score, at) if score else s[p, j]
            if row.max() > -math.inf:
                e = numpy.exp(row - row.max())
                attn[i, p] = e / e.sum()
        z[:, part] = attn[i] @ v[:, part]
    tensors["y"] = (z @ t["w_o"])[None].astype(numpy.float32)
    if key_of(of["keys"], "scores"):
        tensors["attn"] = attn[None].astype(numpy.float32)
    return tensors


def write(path, tensors):
    header, data = {}, b""
    for name in sorted(tensors):
        raw = numpy.ascontiguousarray(tensors[name]).tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


for number, (name, of) in enumerate(LAYERS.items()):
    path = os.path.join(sys.argv[1], "expression_" + name)
    with open(path + ".layer", "w") as out:
        out.write(of["keys"])
        for key in ("score", "visible"):
            if of[key]:
                out.write(f"{key} = {of[key]}\n")
        for table, shape in of["tables"].items():
            out.write(f"table.{table} = {', '.join(map(str, shape))}\n")
    write(path + ".safetensors", compute(of, numpy.random.default_rng(number)))
