#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Writes turns.txt: frequencies of rotary positions, cosines and sines of drawn positions and of those where they come
# nearest to 0, by mpmath (1.4.1 was used) with 300 bits, from the formulas of docs/positions.md. test_turns.sh compares what
# attngen emits with them, and needs neither this nor Python.
#
#   tests/turns/make_turns.py > tests/turns/turns.txt
import math
import random

from mpmath import cos, floor, log, ceil, mp, mpf, pi, sin

mp.prec = 300
LAYERS = [  # dims, key = value, …
    (64, {"rope": "half"}),
    (20, {"rope": "interleaved", "d_k": 31}),
    (2, {"rope": "half"}),
    (128, {"rope": "half", "rope_theta": "500000", "rope_scaling": "llama3", "rope_factor": "8",
           "rope_original_len": "8192"}),
    (24, {"rope": "half", "rope_theta": "5000", "rope_scaling": "llama3", "rope_factor": "8",
          "rope_original_len": "64", "rope_low": "2", "rope_high": "5"}),
    (64, {"rope": "interleaved", "rope_scaling": "yarn", "rope_factor": "40", "rope_original_len": "4096"}),
    (96, {"rope": "half", "rope_theta": "1000000", "rope_scaling": "yarn", "rope_factor": "1.7",
          "rope_original_len": "128", "rope_beta_fast": "20", "rope_beta_slow": "2", "rope_attention_factor": "1.25"}),
    (64, {"rope": "half", "rope_scaling": "linear", "rope_factor": "3"}),
    (64, {"rope": "half", "rope_theta": "150000", "rope_scaling": "yarn", "rope_factor": "32", "rope_original_len": "4096",
          "rope_truncate": "false"}),
]


def number(keys, name, default):
    return mpf(float(keys.get(name, default)))


def frequency(dims, keys, c):
    theta = number(keys, "rope_theta", 10000)
    factor, length = number(keys, "rope_factor", 1), number(keys, "rope_original_len", 1)
    f = theta ** (mpf(-2 * c) / dims)
    scaling = keys.get("rope_scaling")
    if scaling == "linear":
        return f / factor
    if scaling == "llama3":
        low, high = number(keys, "rope_low", 1), number(keys, "rope_high", 4)
        w = 2 * pi / f
        if w < length / high:
            return f
        if w > length / low:
            return f / factor
        r = (length / w - low) / (high - low)
        return (1 - r) * f / factor + r * f
    if scaling == "yarn":
        def dim(beta):
            return dims * log(length / (2 * pi * beta)) / (2 * log(theta))
        lo, hi = dim(number(keys, "rope_beta_fast", 32)), dim(number(keys, "rope_beta_slow", 1))
        if keys.get("rope_truncate") != "false":
            lo, hi = floor(lo), ceil(hi)
        lo, hi = max(lo, 0), min(hi, dims - 1)
        ramp = min(max((c - lo) / max(hi - lo, mpf("0.001")), 0), 1)
        return f / factor * ramp + f * (1 - ramp)
    return f


def times(keys):
    if keys.get("rope_scaling") != "yarn":
        return mpf(1)
    return number(keys, "rope_attention_factor", float(log(number(keys, "rope_factor", 1)) / 10 + 1))


def nearest_zeros(f, most, count):
    """Positions up to `most` that turn by nearly a number of quarters."""
    quarter = float(pi / 2 / f)
    off = [(abs(p / quarter - round(p / quarter)), p) for p in range(1, most)]
    return [p for _, p in sorted(off)[:count]]


random.seed(1)
for index, (dims, keys) in enumerate(LAYERS):
    print("layer", " ".join(f"{key}={value}" for key, value in keys.items()), f"rope_dims={dims}")
    fs = [frequency(dims, keys, c) for c in range(dims // 2)]
    for c, f in enumerate(fs):
        print("step", c, int(floor(f / (2 * pi) * 2**96)))
    cases = [(p, c) for p in (0, 1, -1, 2**20, 2**31 - 1, -2**31) for c in {0, dims // 4, dims // 2 - 1}]
    cases += [(random.randrange(2**random.randrange(1, 21)), random.randrange(dims // 2)) for _ in range(60)]
    for c in {0, dims // 4}:
        cases += [(p, c) for p in nearest_zeros(fs[c], 2**20, 6)]
    for p, c in cases:
        a = p * fs[c]
        print("turn", p, c, repr(float(times(keys) * cos(a))), repr(float(times(keys) * sin(a))))
