#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test vectors of whole recurrent layers: drawn weights, inputs and states, and the answers of transformers.

    python3 tests/vectors/make_mixers.py [FOLDER]    (default: states/ beside this file; needs numpy, torch, transformers)

Answers are those of transformers' modules, with their float32 read as float64; states are those that their caches get.
"""
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.mamba2 import modeling_mamba2 as mamba2

from make_heads import in_float64
from make_vectors import spec_text, write_safetensors

BATCH, N, TAPS = 2, 21, 4
for name in ("MambaRMSNormGated", "mamba2_chunk_scan", "Mamba2Mixer"):
    in_float64(mamba2, name)
for name in ("l2norm", "chunk_kimi_delta_attention", "KimiLinearForgetGate", "KimiLinearRMSNormGated",
             "KimiLinearDeltaAttention"):
    in_float64(kimi, name)


class Kept:
    """A cache: conv [batch][columns][taps - 1], and the state of each head"""
    def __init__(self, conv, state):
        self.conv, self.state = conv, state

    def get_conv_state(self, *_, **__):
        return self.conv

    def get_recurrent_state(self, *_, **__):
        return self.state

    def update_conv_state(self, columns, *_, **__):
        columns = torch.cat((self.conv, columns), dim=-1)
        self.conv = columns[..., 1 - TAPS:]
        return columns

    def update_recurrent_state(self, state, *_, **__):
        self.state = state


def drawn(module, random):
    """The module in float64, its numbers those of f32: rates of decay near 1, matrices that keep sizes"""
    module = module.double().eval()
    numbers = {key: random.standard_normal(tuple(of.shape)) / (of.shape[-1] ** 0.5 if "proj" in key else 1)
               for key, of in module.state_dict().items()}
    w = {key: of.astype(np.float32) for key, of in numbers.items()}
    module.load_state_dict({key: torch.from_numpy(of).double() for key, of in w.items()})
    return module, w


def answer(module, x, conv, state):
    kept = Kept(torch.from_numpy(conv).double(), torch.from_numpy(state).double())
    with torch.no_grad():
        y = module(torch.from_numpy(x).double(), cache_params=kept)
    return y.numpy(), kept.conv.numpy(), kept.state.numpy()


def of_mamba2(random, d_model, h, d_v, groups, d_k, **more):
    config = SimpleNamespace(**{**dict(
        num_heads=h, hidden_size=d_model, state_size=d_k, conv_kernel=TAPS, expand=h * d_v / d_model, time_step_rank=1,
        use_conv_bias=True, use_bias=False, hidden_act="silu", layer_norm_epsilon=1e-5, n_groups=groups, head_dim=d_v,
        chunk_size=8, time_step_limit=(0.0, float("inf")), time_step_min=0.001, time_step_max=0.1,
        time_step_floor=1e-4, layer_types=["mamba"]), **more})
    module, w = drawn(mamba2.Mamba2Mixer(config, 0), random)
    x = random.standard_normal((BATCH, N, d_model)).astype(np.float32)
    wide, keys = h * d_v, groups * d_k
    conv = random.standard_normal((BATCH, wide + 2 * keys, TAPS - 1)).astype(np.float32)
    state = random.standard_normal((BATCH, h, d_v, d_k)).astype(np.float32)
    y, conv_after, state_after = answer(module, x, conv, state)

    def three(rows, axis=0): # theirs are values, keys, queries
        v, k, q = np.split(rows, [wide, wide + keys], axis)
        return {"q": q, "k": k, "v": v}

    def ours(rows):
        parts = three(rows, 1)
        return np.concatenate([parts[letter] for letter in "qkv"], 1)

    t = {"x": x, "y": y, "conv_state": ours(conv), "expect.conv_state": ours(conv_after),
         "state": state.swapaxes(2, 3), "expect.state": state_after.swapaxes(2, 3), "w_o": w["out_proj.weight"],
         "a_log": w["A_log"], "dt_b": w["dt_bias"], "skip": w["D"], "g_o": w["norm.weight"]}
    for kind, letter in (("weight", "w"), ("bias", "b")):
        if "in_proj." + kind in w:
            z, columns, a = np.split(w["in_proj." + kind], [wide, 2 * wide + 2 * keys])
            t.update({f"{letter}_{key}": of for key, of in dict(three(columns), z=z, a=a).items()})
        if "conv1d." + kind in w:
            for key, rows in three(w["conv1d." + kind]).items():
                t[f"conv_{key}_b" if letter == "b" else f"conv_{key}"] = rows.squeeze(1) if rows.ndim > 1 else rows
    if "out_proj.bias" in w:
        t["b_o"] = w["out_proj.bias"]
    spec = dict(layer="recurrent", rule="gated", d_model=d_model, h=groups, h_v=h, d_k=d_k, d_v=d_v, scale=1,
                conv_taps=TAPS, conv_bias=config.use_conv_bias, bias=config.use_bias, dt_values=True, skip=True,
                out_gate="silu", norm_before_gate=False, out_norm_groups=groups, out_norm_eps=1e-5, seq_len=N,
                weight_layout="out_in")
    low, high = config.time_step_limit
    spec.update({key: of for key, of in (("dt_min", low), ("dt_max", high)) if 0 < of < float("inf")})
    return spec, t


def of_kimi(random, d_model, h, d):
    config = SimpleNamespace(hidden_size=d_model, linear_num_heads=h, linear_head_dim=d, linear_conv_kernel_dim=TAPS,
                             hidden_act="silu", rms_norm_eps=1e-5, layer_types=["linear_attention"])
    module, w = drawn(kimi.KimiLinearDeltaAttention(config, 0), random)
    x = random.standard_normal((BATCH, N, d_model)).astype(np.float32)
    conv = random.standard_normal((BATCH, 3 * h * d, TAPS - 1)).astype(np.float32)
    state = random.standard_normal((BATCH, h, d, d)).astype(np.float32)
    y, conv_after, state_after = answer(module, x, conv, state)
    t = {"x": x, "y": y, "conv_state": conv, "expect.conv_state": conv_after, "state": state, "expect.state": state_after,
         "a_log": w["forget_gate.A_log"].reshape(h), "dt_b": w["forget_gate.dt_bias"], "g_o": w["o_norm.weight"],
         "w_da": w["forget_gate.f_a_proj.weight"], "w_a": w["forget_gate.f_b_proj.weight"],
         "w_dz": w["g_a_proj.weight"], "w_z": w["g_b_proj.weight"], "w_b": w["b_proj.weight"], "w_o": w["o_proj.weight"]}
    for letter, rows in zip("qkv", np.split(w["conv1d.weight"].squeeze(1), 3)):
        t["w_" + letter], t["conv_" + letter] = w[letter + "_proj.weight"], rows
    return dict(layer="recurrent", decay="column", decay_rank=d, gate_rank=d, d_model=d_model, h=h, d_k=d, conv_taps=TAPS,
                qk_norm="l2_sum", qk_norm_eps=1e-6, out_gate="sigmoid", out_norm_eps=1e-5, seq_len=N,
                weight_layout="out_in"), t


VECTORS = (
    ("state_kimi", "KimiLinearDeltaAttention", of_kimi, dict(d_model=20, h=3, d=12)),
    ("state_mamba2", "Mamba2Mixer: four heads, two groups", of_mamba2, dict(d_model=24, h=4, d_v=12, groups=2, d_k=10)),
    ("state_mamba2_bias", "Mamba2Mixer: biases, limits of dt, one group", of_mamba2,
     dict(d_model=20, h=3, d_v=20, groups=1, d_k=16, use_bias=True, time_step_limit=(0.2, 1.5))),
    ("state_mamba2_bare", "Mamba2Mixer: no bias of the convolution, heads with keys of their own", of_mamba2,
     dict(d_model=18, h=3, d_v=12, groups=3, d_k=7, use_conv_bias=False)),
)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "states"
    folder.mkdir(parents=True, exist_ok=True)
    for name, comment, make, sizes in VECTORS:
        spec, t = make(np.random.RandomState(zlib.crc32(name.encode())), **sizes)
        (folder / f"{name}.layer").write_text(spec_text(name, spec, comment))
        write_safetensors(folder / f"{name}.safetensors", {key: of.astype(np.float32) for key, of in t.items()},
                          {"source": f"transformers 5.23.0, {comment} (make_mixers.py)"})
    print(f"{len(VECTORS)} vectors in {folder}")


if __name__ == "__main__":
    main()
