#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test vectors of recurrent layers: drawn inputs, states, and the answers of others in float64.

    python3 tests/vectors/make_states.py [FOLDER]     (default: states/ beside this file; needs numpy, torch, transformers)

Answers of rule = gated_delta with decays of heads are those of transformers' functions for qwen3_next, token by token
and in chunks, with their float32 read as float64. All others are sums over earlier tokens, each carried by a product of
[d_k][d_k] matrices, and so share nothing with a loop that changes a state. Left out on purpose: speed.
"""
import inspect
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

from make_vectors import spec_text, write_safetensors


def in_float64(name):
    scope = dict(vars(qwen3_next))
    exec(inspect.getsource(getattr(qwen3_next, name)).replace("torch.float32", "torch.float64"), scope)
    return scope[name]


def of_transformers(name):
    def answers(s, t):
        given = {ours: torch.from_numpy(t[ours].astype(np.float64)) for ours in ("q", "k", "v", "decay", "beta", "state")}
        assert s["h"] == s["h_kv"]  # queries go with keys there
        y, state = in_float64(name)(given["q"], given["k"], given["v"], g=given["decay"], beta=given["beta"],
                                    initial_state=given["state"], output_final_state=True)
        return y.numpy(), state.numpy()
    return answers


def by_sums(s, t):
    """y_t = scale q_t M_t...M_1 S + sum over i <= t of scale (q_t M_t...M_i+1 k_i) beta_i v_i, with
    M_i = (I - beta_i k_i k_i^T) diag(e^decay_i); without a correction beta_i is 1 and M_i the diagonal alone."""
    batch, n = t["q"].shape[:2]
    out = max(s["h"], s["h_v"])
    y, state = np.zeros((batch, n, out, s["d_v"])), t["state"].astype(np.float64)
    eye = np.eye(s["d_k"])
    for b in range(batch):
        tokens = int(t["lengths"][b]) if "lengths" in t else n
        for o in range(out):
            q, head = t["q"][b, :, o * s["h"] // out].astype(np.float64), o * s["h_v"] // out
            k = t["k"][b, :, head * s["h_kv"] // s["h_v"]].astype(np.float64)
            v = t["v"][b, :, head].astype(np.float64)
            beta = t["beta"][b, :, head].astype(np.float64) if "beta" in t else np.ones(n)
            step = []
            for i in range(tokens):
                factors = np.exp(t["decay"][b, i, head].astype(np.float64)) if "decay" in t else 1.0
                step.append((eye - ("beta" in t) * beta[i] * np.outer(k[i], k[i])) * factors)
            for i in range(tokens):
                row = s["scale"] * q[i]
                for j in range(i, -1, -1):
                    y[b, i, o] += row @ k[j] * beta[j] * v[j]
                    row = row @ step[j]
                y[b, i, o] += row @ t["state"][b, head]
            after = t["state"][b, head].astype(np.float64)
            for i in range(tokens):
                after = step[i] @ after + beta[i] * np.outer(k[i], v[i])
            state[b, head] = after
    return y, state


def draw(s, random, batch, n, lengths):
    normal = lambda *shape: random.standard_normal(shape).astype(np.float32)
    keys = normal(batch, n, s["h_kv"], s["d_k"])
    t = {"q": normal(batch, n, s["h"], s["d_k"]), "k": keys / np.linalg.norm(keys, axis=-1, keepdims=True),
         "v": normal(batch, n, s["h_v"], s["d_v"])}
    if lengths:
        t["lengths"] = np.array(lengths, dtype=np.int32)
    if "gated" in s["rule"]:
        t["decay"] = -np.abs(normal(batch, n, s["h_v"], *((s["d_k"],) if s.get("decay") == "column" else ())))
    if "delta" in s["rule"]:
        t["beta"] = random.random_sample((batch, n, s["h_v"])).astype(np.float32)
    t["state"] = normal(batch, s["h_v"], s["d_k"], s["d_v"])
    return t


STEPS, CHUNKS = of_transformers("torch_recurrent_gated_delta_rule"), of_transformers("torch_chunk_gated_delta_rule")
VECTORS = (
    ("state_gated_delta", "qwen3_next, token by token: two states a key head", STEPS, 2, 9, None,
     dict(rule="gated_delta", h=2, h_v=4, d_k=12, d_v=20)),
    ("state_gated_delta_chunks", "qwen3_next, in chunks of 64", CHUNKS, 1, 70, None,
     {"rule": "gated_delta", "h": 1, "h_v": 2, "d_k": 9, "d_v": 17, "plan.exact_chunks": "false"}),
    ("state_gated_delta_step", "qwen3_next, one token", STEPS, 3, 1, None, dict(rule="gated_delta", h=2, d_k=16, d_v=48)),
    ("state_gated_delta_column", "decays of key columns, and padding", by_sums, 3, 11, (11, 0, 4),
     dict(rule="gated_delta", decay="column", h=2, h_kv=1, h_v=2, d_k=7, d_v=18, mask="padding", pad_rows="skipped")),
    ("state_delta", "no decays; more states than queries", by_sums, 2, 12, None,
     dict(rule="delta", h=2, h_v=4, d_k=10, d_v=33, scale=0.5)),
    ("state_gated", "decays of heads; two queries a state", by_sums, 2, 12, None,
     dict(rule="gated", h=4, h_kv=2, h_v=2, d_k=10, d_v=16)),
    ("state_gated_column", "decays of key columns; four queries a state, two states a key head", by_sums, 2, 12, None,
     dict(rule="gated", decay="column", h=8, h_kv=1, h_v=2, d_k=6, d_v=5)),
    ("state_linear", "sums alone", by_sums, 2, 12, None, dict(rule="linear", h=3, d_k=11, d_v=24, scale=1)),
)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "states"
    folder.mkdir(parents=True, exist_ok=True)
    for name, comment, answers, batch, n, lengths, keys in VECTORS:
        spec = {"layer": "recurrent", "input": "projected", **keys, "seq_len": n}
        s = {"h_kv": keys["h"], "scale": keys["d_k"] ** -0.5, **keys}
        s.setdefault("h_v", s["h_kv"])
        t = draw(s, np.random.RandomState(zlib.crc32(name.encode())), batch, n, lengths)
        y, state = answers(s, t)
        t["y"], t["expect.state"] = y.astype(np.float32), state.astype(np.float32)
        (folder / f"{name}.layer").write_text(spec_text(name, spec, comment))
        write_safetensors(folder / f"{name}.safetensors", t, {"source": f"{comment} (make_states.py)"})
    print(f"{len(VECTORS)} vectors in {folder}")


if __name__ == "__main__":
    main()
