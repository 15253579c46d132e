#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/vectors/kinds/rope_*.layer and .safetensors: layers whose frequencies are scaled as transformers' longrope and
dynamic say (modeling_rope_utils.py), in float64 with numpy. No code is shared with the project.

    tests/vectors/rope_scalings.py tests/vectors/kinds
"""
import json
import struct
import sys
from pathlib import Path

import numpy

D, H, N = 32, 4, 21
SHORT, LONG = [1, 1.125, 1.5, 2], [1.25, 2, 5.5, 31]
LAYERS = {
    "rope_longrope_short": dict(rope_factors=SHORT, rope_long_factors=LONG, rope_original_len=64, rope_attention_factor=1.1875),
    "rope_longrope_long": dict(rope_factors=SHORT, rope_long_factors=LONG, rope_original_len=16, rope_attention_factor=1.1875),
    "rope_dynamic": dict(rope_scaling="dynamic", rope_factor=4, rope_original_len=16, rope_len=N),
    "rope_dynamic_unscaled": dict(rope_scaling="dynamic", rope_factor=4, rope_original_len=64, rope_theta=500),
}


def frequencies(spec, dims):
    base = float(spec.get("rope_theta", 10000))
    if spec.get("rope_scaling") == "dynamic":
        length = spec["rope_original_len"]
        base *= (spec["rope_factor"] * max(N, length) / length - (spec["rope_factor"] - 1)) ** (dims / (dims - 2))
        return base ** (-numpy.arange(0, dims, 2) / dims)
    factors = spec["rope_long_factors"] if N > spec["rope_original_len"] else spec["rope_factors"]
    return 1 / (numpy.array(factors) * base ** (numpy.arange(0, dims, 2) / dims))


def turned(x, f, times):
    angle = numpy.outer(numpy.arange(len(x)), f)
    cos, sin, half = times * numpy.cos(angle), times * numpy.sin(angle), len(f)
    a, b = x[:, :half], x[:, half:]
    return numpy.concatenate([a * cos - b * sin, a * sin + b * cos], 1)


def main():
    for seed, (name, spec) in enumerate(LAYERS.items()):
        random, d = numpy.random.default_rng(seed), D // H
        tensors = {"x": random.standard_normal((1, N, D))}
        tensors.update({w: random.standard_normal((D, D)) / D ** 0.5 for w in ("w_q", "w_k", "w_v", "w_o")})
        tensors = {key: t.astype(numpy.float32) for key, t in tensors.items()}
        x, w = tensors["x"][0].astype(float), {key: t.astype(float) for key, t in tensors.items()}
        f, times, z = frequencies(spec, d), spec.get("rope_attention_factor", 1), []
        for i in range(H):
            q, k, v = (x @ w[of][:, i * d:(i + 1) * d] for of in ("w_q", "w_k", "w_v"))
            s = turned(q, f, times) @ turned(k, f, times).T / d ** 0.5
            s = numpy.where(numpy.tril(numpy.ones((N, N), bool)), s, -numpy.inf)
            p = numpy.exp(s - s.max(1, keepdims=True))
            z.append(p / p.sum(1, keepdims=True) @ v)
        tensors["y"] = (numpy.concatenate(z, 1) @ w["w_o"])[None].astype(numpy.float32)
        lines = ["# frequencies as transformers scales them: numpy in float64", f"name = {name}", f"d_model = {D}",
                 f"h = {H}", f"seq_len = {N}", "mask = causal", "rope = half"]
        lines += [f"{key} = {', '.join(map(str, value)) if isinstance(value, list) else value}" for key, value in spec.items()]
        folder = Path(sys.argv[1])
        (folder / f"{name}.layer").write_text("\n".join(lines) + "\n")
        header, data = {}, b""
        for key, t in tensors.items():
            header[key] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
            data += t.tobytes()
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (folder / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


main()
