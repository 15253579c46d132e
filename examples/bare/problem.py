# SPDX-License-Identifier: MIT
"""Writes what the example starts from: weights.safetensors, as torch.nn.MultiheadAttention would save it in half
precision, and expected.h, the layer's output by its equations in double precision.

    python3 problem.py
"""
import json
import math
import struct

D, HEADS, N = 16, 2, 6
WIDTH = D // HEADS

state = 1


def draw():
    """a multiple of 1/256 in -1/2 .. 1/2, which half precision holds exactly"""
    global state
    state = (state * 1103515245 + 12345) % 2**31
    return (state // 2**15 % 257 - 128) / 256


tensors = {
    "in_proj_weight": [[draw() for _ in range(D)] for _ in range(3 * D)],
    "in_proj_bias": [draw() for _ in range(3 * D)],
    "out_proj.weight": [[draw() for _ in range(D)] for _ in range(D)],
    "out_proj.bias": [draw() for _ in range(D)],
}


def flat(values):
    return [x for row in values for x in row] if isinstance(values[0], list) else values


def shape(values):
    return [len(values), len(values[0])] if isinstance(values[0], list) else [len(values)]


header, data = {}, b""
for name, values in tensors.items():
    numbers = struct.pack(f"<{len(flat(values))}e", *flat(values))
    header[name] = {"dtype": "F16", "shape": shape(values), "data_offsets": [len(data), len(data) + len(numbers)]}
    data += numbers
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open("weights.safetensors", "wb") as out:
    out.write(struct.pack("<Q", len(text)) + text + data)


def linear(rows, weight, bias):
    """y = x W^T + b"""
    return [[b + sum(a * w for a, w in zip(row, line)) for line, b in zip(weight, bias)] for row in rows]


x = [[((i * D + j) * 37 % 64 - 32) / 16 for j in range(D)] for i in range(N)]  # as main.c has it
both = linear(x, tensors["in_proj_weight"], tensors["in_proj_bias"])
z = [[0.0] * D for _ in range(N)]
for head in range(HEADS):
    q, k, v = ([row[part * D + head * WIDTH:][:WIDTH] for row in both] for part in range(3))
    for t in range(N):
        scores = [sum(a * b for a, b in zip(q[t], k[j])) / math.sqrt(WIDTH) for j in range(t + 1)]
        weights = [math.exp(s - max(scores)) for s in scores]
        for c in range(WIDTH):
            z[t][head * WIDTH + c] = sum(w * v[j][c] for j, w in enumerate(weights)) / sum(weights)
y = linear(z, tensors["out_proj.weight"], tensors["out_proj.bias"])
with open("expected.h", "w") as out:
    out.write("/* SPDX-License-Identifier: MIT */\n/* y[6][16] of the layer, by problem.py */\nstatic const float expected[6][16] = {\n")
    for row in y:
        lines = [", ".join(f"{a:.8e}f" for a in row[i:i + 4]) for i in range(0, D, 4)]
        out.write("    {" + ",\n     ".join(lines) + "},\n")
    out.write("};\n")
