#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test vectors of what one family alone does to heads: gates of outputs, gains and norms of each head, positions
of several axes.

    python3 tests/vectors/make_heads.py [FOLDER]     (default: kinds/ beside this file; needs numpy, torch, transformers)

Answers are those of transformers' attention modules, with their float32 read as float64.
"""
import inspect
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from transformers.models.cohere import modeling_cohere as cohere
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3_vl

from make_vectors import spec_text, write_safetensors

D_MODEL, H, H_KV, D_K, N = 40, 4, 2, 16, 21


def in_float64(module, name):
    scope = dict(vars(module), __name__=module.__name__)
    source = inspect.getsource(getattr(module, name))
    exec(source.replace("torch.float32", "torch.float64").replace(".float()", ".double()"), scope)
    setattr(module, name, scope[name])
    return scope[name]


def config(**more):
    return SimpleNamespace(**dict(dict(hidden_size=D_MODEL, num_attention_heads=H, num_key_value_heads=H_KV,
                                       head_dim=D_K, attention_dropout=0.0, _attn_implementation="eager"), **more))


def drawn(attention, name):
    """The module in float64, its numbers drawn and those of f32."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    state = {key: torch.from_numpy((random.standard_normal(tuple(of.shape)) / (of.shape[-1] ** 0.5 if "proj" in key else 1))
                                   .astype(np.float32)).double() for key, of in attention.state_dict().items()}
    attention = attention.double().eval()
    attention.load_state_dict(state)
    x = random.standard_normal((2, N, attention.q_proj.in_features)).astype(np.float32)
    return attention, {key: of.numpy() for key, of in state.items()}, x


def answer(attention, x, dims, interleaved):
    angles = torch.arange(N, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, dims, 2).double() / dims)
    angles = torch.repeat_interleave(angles, 2, dim=-1) if interleaved else torch.cat((angles, angles), dim=-1)
    return answer_turned(attention, x, angles.cos().expand(len(x), -1, -1), angles.sin().expand(len(x), -1, -1))


def answer_turned(attention, x, cosines, sines):
    hidden = torch.full((N, N), float("-inf"), dtype=torch.float64).triu(1)
    with torch.no_grad():
        return attention(torch.from_numpy(x).double(), position_embeddings=(cosines, sines),
                         attention_mask=hidden[None, None])[0].numpy()


def qwen3_next_gate(name):
    for of in ("Qwen3NextRMSNorm", "eager_attention_forward"):
        in_float64(qwen3_next, of)
    made = qwen3_next.Qwen3NextAttention(config(attention_bias=True, rms_norm_eps=1e-6), 0)
    attention, w, x = drawn(made, name)
    both, bias = w["q_proj.weight"].reshape(H, 2, D_K, D_MODEL), w["q_proj.bias"].reshape(H, 2, D_K)
    tensors = {"w_q": both[:, 0].reshape(-1, D_MODEL), "b_q": bias[:, 0].reshape(-1),
               "w_gate": both[:, 1].reshape(-1, D_MODEL), "b_gate": bias[:, 1].reshape(-1),
               "g_q": 1 + w["q_norm.weight"], "g_k": 1 + w["k_norm.weight"]}
    for ours, theirs in (("k", "k_proj"), ("v", "v_proj"), ("o", "o_proj")):
        tensors["w_" + ours], tensors["b_" + ours] = w[theirs + ".weight"], w[theirs + ".bias"]
    for gain, norm in (("g_q", attention.q_norm), ("g_k", attention.k_norm)):  # 1 + weight, rounded to f32
        tensors[gain] = tensors[gain].astype(np.float32)
        norm.weight.data = torch.from_numpy(tensors[gain].astype(np.float64) - 1)
    keys = dict(bias=True, gate="features", qk_norm="rms", rope="half", rope_dims=4)
    return keys, tensors, x, answer(attention, x, 4, False)


def cohere_norm(name):
    for of in ("CohereLayerNorm", "eager_attention_forward", "apply_rotary_pos_emb"):
        in_float64(cohere, of)
    made = cohere.CohereAttention(config(attention_bias=False, use_qk_norm=True, layer_norm_eps=1e-5), 0)
    attention, w, x = drawn(made, name)
    tensors = {"w_" + letter: w[letter + "_proj.weight"] for letter in "qkvo"}
    tensors.update(g_q=w["q_norm.weight"], g_k=w["k_norm.weight"])
    keys = dict(qk_norm="layer", qk_norm_gains="heads", qk_norm_bias=False, norm_eps=1e-5, rope="interleaved")
    return keys, tensors, x, answer(attention, x, D_K, True)


def of_axes(name, rotary, made, sections, **keys):
    """Of modules whose tokens have three positions: those of a text, and of rows and columns of a picture in it"""
    attention, w, x = drawn(made, name)
    positions = np.random.RandomState(zlib.crc32(name.encode())).randint(0, 2 * N, (2, N, 3)).astype(np.int32)
    positions[:, :5] = np.arange(5)[:, None]
    f = 10000.0 ** (-torch.arange(0, D_K, 2, dtype=torch.float64) / D_K)
    angles = torch.from_numpy(positions.astype(np.float64)).permute(2, 0, 1)[..., None] * f
    cosines, sines = (rotary.recomposition_frequencies(SimpleNamespace(mrope_section=sections), of.clone())
                      for of in (angles.cos(), angles.sin()))
    tensors = {"w_" + letter: w[letter + "_proj.weight"] for letter in "qkvo"}
    tensors["positions"] = positions
    keys.update(rope="half", rope_positions="given", rope_sections=", ".join(map(str, sections)))
    return keys, tensors, w, x, answer_turned(attention, x, cosines, sines)


def qwen2_vl_axes(name):
    in_float64(qwen2_vl, "eager_attention_forward")
    made = qwen2_vl.Qwen2VLAttention(config(hidden_size=H * D_K, rope_parameters={}), 0)
    keys, tensors, w, x, y = of_axes(name, qwen2_vl.Qwen2VLRotaryEmbedding, made, [2, 3, 3], bias=True)
    tensors.update({"b_" + letter: w[letter + "_proj.bias"] for letter in "qkv"})
    tensors["b_o"] = np.zeros(H * D_K)
    return keys, tensors, x, y


def qwen3_vl_axes(name):
    for of in ("Qwen3VLTextRMSNorm", "eager_attention_forward"):
        in_float64(qwen3_vl, of)
    made = qwen3_vl.Qwen3VLTextAttention(config(attention_bias=False, rms_norm_eps=1e-6), 0)
    keys, tensors, w, x, y = of_axes(name, qwen3_vl.Qwen3VLTextRotaryEmbedding, made, [4, 2, 2], qk_norm="rms",
                                     rope_section_order="interleaved")
    tensors.update(g_q=w["q_norm.weight"], g_k=w["k_norm.weight"])
    return keys, tensors, x, y


VECTORS = (("hf_qwen3_next_gate", "Qwen3NextAttention: queries and gates from one projection", qwen3_next_gate),
           ("hf_cohere_norm", "CohereAttention: norms without shift, gains of each head", cohere_norm),
           ("hf_qwen2_vl_axes", "Qwen2VLAttention: positions of three axes, by sections", qwen2_vl_axes),
           ("hf_qwen3_vl_axes", "Qwen3VLTextAttention: positions of three axes that take turns", qwen3_vl_axes))


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "kinds"
    folder.mkdir(parents=True, exist_ok=True)
    for name, comment, make in VECTORS:
        keys, tensors, x, y = make(name)
        spec = dict(d_model=x.shape[-1], h=H, h_kv=H_KV, d_k=D_K, d_v=D_K, seq_len=N, mask="causal",
                    weight_layout="out_in", **keys)
        tensors.update(x=x, y=y)
        (folder / f"{name}.layer").write_text(spec_text(name, spec, comment))
        write_safetensors(folder / f"{name}.safetensors",
                          {key: of if of.dtype == np.int32 else of.astype(np.float32)
                           for key, of in tensors.items()},
                          {"source": f"transformers 5.23.0, {comment} (make_heads.py)"})
    print(f"{len(VECTORS)} vectors in {folder}")


if __name__ == "__main__":
    main()
