#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test vectors of latent attention.

    python3 tests/vectors/make_latent.py [FOLDER]    (default: kinds/ beside this file; needs numpy, torch, transformers)

Answers are those of transformers' attention modules, with their float32 read as float64.
"""
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as deepseek_v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek_v3
from transformers.models.minicpm3 import modeling_minicpm3 as minicpm3

from make_heads import in_float64
from make_vectors import spec_text, write_safetensors

D_MODEL, H, N = 40, 4, 21
RANK, NOPE, ROPE, VALUE = 24, 12, 8, 10


READ = set()  # modules that compute in float64


class Kept:
    """What a module gives its cache: latents and rotated keys of all tokens, one head of each"""
    def update(self, latents, keys, layer):
        self.rows = torch.cat((latents, keys), dim=-1)[:, 0]
        return latents, keys


def made(module, name, q_rank, bias):
    """The module in float64, its numbers drawn and those of f32; and x"""
    prefix = "" if module in READ else name.split("Attention")[0]
    READ.add(module)
    for of in (prefix + "RMSNorm", "eager_attention_forward", "apply_rotary_pos_emb", "apply_rotary_emb"):
        if prefix and hasattr(module, of):
            in_float64(module, of)
    config = SimpleNamespace(hidden_size=D_MODEL, num_attention_heads=H, num_key_value_heads=H, q_lora_rank=q_rank,
                             kv_lora_rank=RANK, qk_rope_head_dim=ROPE, qk_nope_head_dim=NOPE, v_head_dim=VALUE,
                             attention_bias=bias, attention_dropout=0.0, rope_interleave=True,
                             rope_parameters={"rope_type": "default"}, _attn_implementation="eager")
    attention = getattr(module, name)(config, 0).double().eval()
    random = np.random.RandomState(zlib.crc32(name.encode()))
    state = {key: torch.from_numpy((random.standard_normal(tuple(of.shape)) /
                                    (of.shape[-1] ** 0.5 if "proj" in key else 1)).astype(np.float32)).double()
             for key, of in attention.state_dict().items()}
    attention.load_state_dict(state)
    return attention, {key: of.numpy() for key, of in state.items()}, \
        random.standard_normal((2, N, D_MODEL)).astype(np.float32)


def weights(w):
    both = w["kv_b_proj.weight"].reshape(H, NOPE + VALUE, RANK)
    tensors = {"w_dkv": w["kv_a_proj_with_mqa.weight"], "g_dkv": w["kv_a_layernorm.weight"],
               "w_uk": both[:, :NOPE].reshape(-1, RANK), "w_uv": both[:, NOPE:].reshape(-1, RANK),
               "w_o": w["o_proj.weight"]}
    tensors.update({ours: w[theirs + ".bias"] for ours, theirs in (("b_dq", "q_a_proj"), ("b_dkv", "kv_a_proj_with_mqa"),
                                                                   ("b_o", "o_proj")) if theirs + ".bias" in w})
    if "q_proj.weight" in w:
        return dict(tensors, w_q=w["q_proj.weight"])
    return dict(tensors, w_dq=w["q_a_proj.weight"], g_dq=w["q_a_layernorm.weight"], w_q=w["q_b_proj.weight"])


def answer(attention, x, positions, kept):
    """positions: (cosines, sines), or complex numbers of one factor"""
    hidden = torch.full((N, N), float("-inf"), dtype=torch.float64).triu(1)
    angles = torch.arange(N, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, ROPE, 2).double() / ROPE)
    turns = positions(angles)
    with torch.no_grad():
        return attention(torch.from_numpy(x).double(), position_embeddings=turns, past_key_values=kept,
                         attention_mask=hidden[None, None])[0].numpy()


def cosines(angles):
    both = torch.cat((angles, angles), dim=-1)[None].expand(2, -1, -1)
    return both.cos(), both.sin()


def circle(angles):
    return torch.polar(torch.ones_like(angles), angles)[None].expand(2, -1, -1)


VECTORS = (("hf_deepseek_v2", "DeepseekV2Attention: queries straight from x", deepseek_v2, "DeepseekV2Attention", None,
            "interleaved", circle),
           ("hf_deepseek_v3", "DeepseekV3Attention: queries from a latent", deepseek_v3, "DeepseekV3Attention", 28,
            "interleaved", cosines),
           ("hf_minicpm3", "MiniCPM3Attention: rotated halves", minicpm3, "MiniCPM3Attention", 28, "half", cosines),
           ("hf_minicpm3_bias", "MiniCPM3Attention with attention_bias", minicpm3, "MiniCPM3Attention", 28, "half", cosines))


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "kinds"
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, comment, spec, tensors):
        (folder / f"{name}.layer").write_text(spec_text(name, spec, comment))
        write_safetensors(folder / f"{name}.safetensors",
                          {key: of if of.dtype == np.int32 else of.astype(np.float32) for key, of in tensors.items()},
                          {"source": f"transformers 5.23.0, {comment} (make_latent.py)"})

    for name, comment, module, attention, q_rank, rope, positions in VECTORS:
        of, w, x = made(module, attention, q_rank, name.endswith("bias"))
        kept = Kept()
        y = answer(of, x, positions, kept)
        spec = dict(d_model=D_MODEL, h=H, d_k=NOPE + ROPE, d_v=VALUE, kv_rank=RANK, rope=rope, rope_dims=ROPE, seq_len=N,
                    mask="causal", weight_layout="out_in")
        spec.update(dict(q_rank=q_rank) if q_rank else {}, **dict(bias="true") if "b_dkv" in weights(w) else {})
        write(name, comment, spec, dict(weights(w), x=x, y=y))
        if module is deepseek_v3:  # which stores rotated columns in another order
            continue
        past, length = (13, 17), 24  # of each sequence the last four tokens, behind what the module had cached
        new = [slice(p, p + 4) for p in past]
        cache = np.full((2, 1, length, RANK + ROPE), np.nan)
        after = cache.copy()
        for b, p in enumerate(past):
            cache[b, 0, :p] = after[b, 0, :p] = kept.rows[b, :p]
            after[b, 0, p:p + 4] = kept.rows[b, p:p + 4]
        spec.update(seq_len=4, cache="rows", cache_len=length)
        write(name + "_cache", comment + ", over a cache", spec,
              dict(weights(w), x=np.stack([x[b, at] for b, at in enumerate(new)]), past=np.array(past, np.int32),
                   k_cache=cache, y=np.stack([y[b, at] for b, at in enumerate(new)]), **{"expect.k_cache": after}))
    print(f"vectors in {folder}")


if __name__ == "__main__":
    main()
