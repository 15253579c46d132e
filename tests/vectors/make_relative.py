#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test vectors of rel_keys and rel_queries: products of queries, and keys, with vectors of distances.

    python3 tests/vectors/make_relative.py [FOLDER]   (default: kinds/ beside this file; needs numpy, torch, transformers)

Answers are those of transformers' attention modules in float64. What a module makes vectors with, a product of
embeddings, is replaced by the vectors themselves.
"""
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta_v2
from transformers.models.parakeet import modeling_parakeet as parakeet
from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as conformer

from make_vectors import spec_text, write_safetensors

D_MODEL, H, D_K, N = 40, 4, 10, 27


class Given(torch.nn.Module):
    """In place of a product: its result"""
    def __init__(self, rows):
        super().__init__()
        self.rows = torch.from_numpy(rows).double()

    def forward(self, _):
        return self.rows[None]


def numbers(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def drawn(attention, random):
    state = {key: torch.from_numpy(numbers(random, *of.shape) / (D_MODEL ** 0.5 if key.endswith(".weight") else 1))
             .double() for key, of in attention.state_dict().items()}
    attention.double().eval().load_state_dict(state)
    return {key: of.numpy() for key, of in state.items()}


def weights(w, names, biased):
    of = dict(zip(names, ("q", "k", "v", "o")))
    tensors = {f"w_{of[name]}": w[name + ".weight"] for name in names}
    return dict(tensors, **({f"b_{of[name]}": w[name + ".bias"] for name in names} if biased else {}))


def disentangled(random, kinds, buckets, reach):
    """DeBERTa's: a scale of 1 over the root of so many d_k as there are products"""
    config = SimpleNamespace(hidden_size=D_MODEL, num_attention_heads=H, share_att_key=False, pos_att_type=kinds,
                             relative_attention=True, position_buckets=buckets, max_relative_positions=reach,
                             max_position_embeddings=N, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    attention = deberta_v2.DisentangledSelfAttention(config)
    w = drawn(attention, random)
    rows = 2 * (buckets if buckets > 0 else reach)
    tensors = weights(w, ("query_proj", "key_proj", "value_proj"), True)
    for kind, tensor, name in (("c2p", "rel_k", "pos_key_proj"), ("p2c", "rel_q", "pos_query_proj")):
        if kind in kinds:
            vectors = numbers(random, rows, D_MODEL)
            setattr(attention, name, Given(vectors))
            tensors[tensor] = vectors.reshape(rows, H, D_K)
    x, lengths = numbers(random, 2, N, D_MODEL), np.array((N, N - 6), np.int32)
    seen = torch.arange(N)[None] < torch.from_numpy(lengths)[:, None]
    mask = seen[:, None, None].expand(-1, 1, N, -1)
    with torch.no_grad():
        y = attention(torch.from_numpy(x).double(), mask, rel_embeddings=torch.zeros(rows, D_MODEL).double())[0]
    spec = dict(d_model=D_MODEL, h=H, seq_len=N, mask="padding", bias=True, w_o="none", weight_layout="out_in",
                scale=float(torch.sqrt(torch.tensor(float(D_K * (1 + len(kinds)))))) ** -1)
    spec.update({"rel_keys": "heads"} if "c2p" in kinds else {})
    spec.update({"rel_queries": "heads"} if "p2c" in kinds else {})
    spec.update(dict(rel_rows="log", rel_buckets=buckets, rel_distance=reach) if buckets > 0
                else dict(rel_left=reach - 1, rel_right=reach))
    return spec, dict(tensors, x=x, lengths=lengths, y=y.numpy())


def shifted(random, attention, names, product, u, v, h_kv, biased, call):
    """Transformer-XL's: a vector for each distance; the module has the largest p - j first."""
    w = drawn(attention, random)
    vectors, x = numbers(random, 2 * N - 1, D_MODEL), numbers(random, 2, N, D_MODEL)
    setattr(attention, product, Given(vectors[::-1].copy()))
    with torch.no_grad():
        y = call(torch.from_numpy(x).double())[0]
    spec = dict(d_model=D_MODEL, h=H, seq_len=N, weight_layout="out_in", bias=biased, rel_keys="heads",
                rel_biases=True, rel_left=N - 1, rel_right=N - 1)
    spec.update(dict(h_kv=h_kv) if h_kv < H else {})
    return spec, dict(weights(w, names, biased), rel_k=vectors.reshape(-1, H, D_K), rel_u=w[u], rel_v=w[v], x=x,
                      y=y.numpy())


def of_conformer(random):
    config = SimpleNamespace(hidden_size=D_MODEL, num_attention_heads=H, position_embeddings_type="relative",
                             attention_dropout=0.0, _attn_implementation="eager")
    attention = conformer.Wav2Vec2ConformerSelfAttention(config)
    positions = torch.zeros(1, 2 * N - 1, D_MODEL).double()
    return shifted(random, attention, ("linear_q", "linear_k", "linear_v", "linear_out"), "linear_pos", "pos_bias_u",
                   "pos_bias_v", H, True, lambda x: attention(x, relative_position_embeddings=positions))


def of_parakeet(random):
    config = SimpleNamespace(hidden_size=D_MODEL, num_attention_heads=H, num_key_value_heads=2, attention_dropout=0.0,
                             attention_bias=False, _attn_implementation="eager")
    attention = parakeet.ParakeetEncoderAttention(config, 0)
    both = lambda x: attention(x, torch.zeros(2, 2 * N - 1, D_MODEL).double(), None)
    given = Given.forward
    Given.forward = lambda self, like: given(self, like).expand(2, -1, -1)  # of both sequences
    result = shifted(random, attention, ("q_proj", "k_proj", "v_proj", "o_proj"), "relative_k_proj", "bias_u",
                     "bias_v", 2, False, both)
    Given.forward = given
    return result


VECTORS = (
    ("hf_deberta_v2", "DisentangledSelfAttention", lambda random: disentangled(random, ["p2c", "c2p"], 8, 22)),
    ("hf_deberta_v2_clamped", "DisentangledSelfAttention without buckets",
     lambda random: disentangled(random, ["c2p", "p2c"], -1, 9)),
    ("hf_deberta_v2_c2p", "DisentangledSelfAttention, c2p", lambda random: disentangled(random, ["c2p"], 10, 20)),
    ("hf_deberta_v2_p2c", "DisentangledSelfAttention, p2c", lambda random: disentangled(random, ["p2c"], 7, 24)),
    ("hf_wav2vec2_conformer", "Wav2Vec2ConformerSelfAttention", of_conformer),
    ("hf_parakeet", "ParakeetEncoderAttention", of_parakeet))


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "kinds"
    folder.mkdir(parents=True, exist_ok=True)
    for name, comment, made in VECTORS:
        spec, tensors = made(np.random.RandomState(zlib.crc32(name.encode())))
        (folder / f"{name}.layer").write_text(spec_text(name, spec, comment))
        write_safetensors(folder / f"{name}.safetensors",
                          {key: of if of.dtype == np.int32 else of.astype(np.float32) for key, of in tensors.items()},
                          {"source": f"transformers 5.23.0, {comment} (make_relative.py)"})
    print(f"vectors in {folder}")


if __name__ == "__main__":
    main()
