#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test vectors of blocks and of layers without attention: small ones with drawn inputs and PyTorch's answers
in float64.

    python3 tests/vectors/blocks/make_blocks.py [FOLDER]        (default: beside this file; needs torch)

Each is NAME.layer and NAME.safetensors (inputs, weights, y). The two plain ones are torch.nn.TransformerEncoderLayer
as it stands; the others are made of torch.nn.functional's layer_norm, rms_norm, gelu, silu, relu, linear and
scaled_dot_product_attention, as the models that they are named after put them together. No code is shared with the
project. Rows of padding that are computed attend to the keys that exist, like all others.
"""
import json
import struct
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

BATCH, D_MODEL, D_FF = 2, 40, 77


def write_safetensors(path, tensors, metadata):
    """8 bytes of header length, a JSON header padded with blanks to a multiple of 8, then the tensors end to end."""
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        begin = len(data)
        data += tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": {torch.float32: "F32", torch.int32: "I32"}[tensor.dtype],
                        "shape": list(tensor.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Vector:
    """The tensors of one layer as they are drawn, by name, and what it takes to compute with them."""

    def __init__(self, name, about, seed, **spec):
        sizes = {} if spec.get("layer") == "linear" else dict(d_model=D_MODEL)
        self.name, self.about, self.spec = name, about, {**sizes, **spec}
        self.tensors = {}
        self.random = torch.Generator().manual_seed(seed)

    def draw(self, name, *shape, size=1.0, mean=0.0):
        drawn = mean + size * torch.randn(shape, generator=self.random, dtype=torch.float64)
        self.tensors[name] = drawn.float()
        return self.tensors[name].double()

    def weight(self, name, inner, columns):
        """[inner][columns], or as torch.nn.Linear has it; what is returned is always for F.linear."""
        out_in = self.spec.get("weight_layout") == "out_in"
        drawn = self.draw(name, *((columns, inner) if out_in else (inner, columns)), size=inner ** -0.5)
        return drawn if out_in else drawn.T

    def linear(self, x, w, b, inner, columns, bias):
        return F.linear(x, self.weight(w, inner, columns),
                        self.draw(b, columns, size=0.1) if bias else None)

    def norm(self, number, x):
        gain = self.draw(f"n{number}_g", D_MODEL, size=0.3, mean=1.0)
        eps = self.spec.get("norm_eps", 1e-6)
        if self.spec.get("norm") == "rms":
            return F.rms_norm(x, (D_MODEL,), gain, eps)
        shift = self.draw(f"n{number}_b", D_MODEL, size=0.3) if self.spec.get("norm_bias", True) else None
        return F.layer_norm(x, (D_MODEL,), gain, shift, eps)

    def write(self, folder, y):
        lines = [f"# {self.about}: PyTorch in float64", f"name = {self.name}"]
        lines += [f"{key} = {str(value).lower()}" for key, value in self.spec.items()]
        (folder / f"{self.name}.layer").write_text("\n".join(lines) + "\n")
        write_safetensors(folder / f"{self.name}.safetensors", {**self.tensors, "y": y.float()}, {"made_by": "PyTorch"})


# ---- parts -------------------------------------------------------------------------------------------------------

def turned(x, theta=10000.0):
    """Rotary positions 0 … n-1, the first half of a head's columns with the second."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64),
                         theta ** (-torch.arange(half, dtype=torch.float64) / half))
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def attention(v, x, source=None, mask=None):
    """Of heads side by side; mask: True where a key is seen."""
    spec, own = v.spec, source is None
    h, bias = spec["h"], spec.get("bias", False)
    h_kv, d = spec.get("h_kv", spec["h"]), D_MODEL // spec["h"]
    keys = x if own else source

    def heads(rows, w, b, count):
        return v.linear(rows, w, b, rows.shape[-1], count * d, bias).unflatten(-1, (count, d)).transpose(1, 2)

    q, k, values = heads(x, "w_q", "b_q", h), heads(keys, "w_k", "b_k", h_kv), heads(keys, "w_v", "b_v", h_kv)
    if spec.get("rope") == "half":
        q, k = turned(q), turned(k)
    if "softcap" in spec: # not in scaled_dot_product_attention
        k, values = (t.repeat_interleave(h // h_kv, 1) for t in (k, values))
        scores = spec["softcap"] * torch.tanh(q @ k.transpose(-1, -2) * d ** -0.5 / spec["softcap"])
        z = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ values
    else:
        z = F.scaled_dot_product_attention(q, k, values, attn_mask=mask, enable_gqa=h != h_kv)
    return v.linear(z.transpose(1, 2).flatten(2), "w_o", "b_o", h * d, D_MODEL, bias)


ACTIVATIONS = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"), "silu": F.silu,
    "quick_gelu": lambda a: a * torch.sigmoid(1.702 * a), "relu2": lambda a: F.relu(a) ** 2,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "none": lambda a: a}
GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "reglu": "relu", "quick_geglu": "quick_gelu",
         "glu": "sigmoid"}


def feed_forward(v, u):
    d_ff, ffn = v.spec["d_ff"], v.spec["ffn"]
    bias = v.spec.get("ffn_bias", v.spec.get("bias", False))
    hidden = v.linear(u, "w_1", "b_1", D_MODEL, d_ff, bias)
    if "ffn_limit" in v.spec: # as in gpt-oss
        gate = v.linear(u, "w_g", "b_g", D_MODEL, d_ff, bias).clamp(max=v.spec["ffn_limit"])
        hidden = hidden.clamp(-v.spec["ffn_limit"], v.spec["ffn_limit"])
        hidden = (hidden + 1) * gate * torch.sigmoid(v.spec["ffn_alpha"] * gate)
    elif ffn in GATES:
        hidden = ACTIVATIONS[GATES[ffn]](v.linear(u, "w_g", "b_g", D_MODEL, d_ff, bias)) * hidden
    else:
        hidden = ACTIVATIONS[ffn](hidden)
    return v.linear(hidden, "w_2", "b_2", d_ff, D_MODEL, bias)


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


# ---- the vectors -------------------------------------------------------------------------------------------------

def encoder_layer(v, n, norm_first, activation, **how):
    """torch.nn.TransformerEncoderLayer itself."""
    layer = torch.nn.TransformerEncoderLayer(D_MODEL, v.spec["h"], v.spec["d_ff"], dropout=0.0, activation=activation,
                                             layer_norm_eps=v.spec["norm_eps"], batch_first=True,
                                             norm_first=norm_first, dtype=torch.float64)
    layer.train() # the path in plain operations
    x = v.draw("x", BATCH, n, D_MODEL)
    w = [v.draw(f"w_{part}", D_MODEL, D_MODEL, size=D_MODEL ** -0.5) for part in "qkv"]
    b = [v.draw(f"b_{part}", D_MODEL, size=0.1) for part in "qkv"]
    state = {
        "self_attn.in_proj_weight": torch.cat(w), "self_attn.in_proj_bias": torch.cat(b),
        "self_attn.out_proj.weight": v.draw("w_o", D_MODEL, D_MODEL, size=D_MODEL ** -0.5),
        "self_attn.out_proj.bias": v.draw("b_o", D_MODEL, size=0.1),
        "linear1.weight": v.draw("w_1", D_FF, D_MODEL, size=D_MODEL ** -0.5),
        "linear1.bias": v.draw("b_1", D_FF, size=0.1),
        "linear2.weight": v.draw("w_2", D_MODEL, D_FF, size=D_FF ** -0.5),
        "linear2.bias": v.draw("b_2", D_MODEL, size=0.1)}
    for number in (1, 2):
        state[f"norm{number}.weight"] = v.draw(f"n{number}_g", D_MODEL, size=0.3, mean=1.0)
        state[f"norm{number}.bias"] = v.draw(f"n{number}_b", D_MODEL, size=0.3)
    layer.load_state_dict(state)
    return layer(x, **how)


def bert():
    v = Vector("block_bert", "a post-norm block with gelu and padding, as in BERT", 1, h=5, seq_len=11, mask="padding",
               bias=True, weight_layout="out_in", block="post", norm_eps=1e-12, ffn="gelu", d_ff=D_FF)
    lengths = torch.tensor([7, 9], dtype=torch.int32)
    y = encoder_layer(v, 9, False, "gelu", src_key_padding_mask=torch.arange(9)[None, :] >= lengths[:, None])
    v.tensors["lengths"] = lengths
    return v, y


def bert_skipped():
    v, y = bert()
    v.name, v.about = "block_bert_skipped", "a post-norm block as in BERT, whose rows of padding are skipped"
    v.spec["pad_rows"] = "skipped"
    for b, length in enumerate(v.tensors["lengths"]):
        y[b, length:] = 0
    return v, y


def gpt2():
    v = Vector("block_gpt2", "a pre-norm block with gelu_tanh, causal, as in GPT-2", 2, h=4, seq_len=13, mask="causal",
               bias=True, weight_layout="out_in", block="pre", norm_eps=1e-5, ffn="gelu_tanh", d_ff=D_FF)
    y = encoder_layer(v, 13, True, ACTIVATIONS["gelu_tanh"],
                      src_mask=torch.zeros(13, 13, dtype=torch.float64).masked_fill(~causal(13), -torch.inf))
    return v, y


def llama():
    v = Vector("block_llama", "pre-norm rms, swiglu, rotary positions, grouped heads, as in Llama", 3, h=4, h_kv=2,
               seq_len=9, mask="causal", rope="half", block="pre", norm="rms", norm_eps=1e-5, ffn="swiglu", d_ff=D_FF)
    x = v.draw("x", BATCH, 9, D_MODEL)
    u = x + attention(v, v.norm(1, x), mask=causal(9))
    return v, u + feed_forward(v, v.norm(2, u))


def falcon():
    v = Vector("block_falcon", "attention and feed-forward side by side behind one norm, as in Falcon", 4, h=5, h_kv=1,
               seq_len=8, mask="causal", rope="half", block="parallel", norm_shared=True, norm_eps=1e-5, ffn="gelu",
               d_ff=D_FF)
    x = v.draw("x", BATCH, 8, D_MODEL)
    normed = v.norm(1, x)
    return v, x + attention(v, normed, mask=causal(8)) + feed_forward(v, normed)


def neox():
    v = Vector("block_neox", "attention and feed-forward side by side, each behind a norm, as in GPT-NeoX", 5, h=2,
               seq_len=6, mask="causal", rope="half", bias=True, block="parallel", norm_eps=1e-5, ffn="gelu", d_ff=33)
    x = v.draw("x", BATCH, 6, D_MODEL)
    return v, x + attention(v, v.norm(1, x), mask=causal(6)) + feed_forward(v, v.norm(2, x))


def gemma2():
    v = Vector("block_gemma2", "norms before and behind both halves, geglu_tanh, softcap, as in Gemma 2", 6, h=4,
               h_kv=2, seq_len=10, mask="causal+window", window_left=3, rope="half", softcap=5.0, block="sandwich",
               norm="rms", ffn="geglu_tanh", d_ff=D_FF)
    x = v.draw("x", BATCH, 10, D_MODEL)
    u = x + v.norm(2, attention(v, v.norm(1, x), mask=causal(10) & ~torch.ones(10, 10, dtype=torch.bool).tril(-4)))
    return v, u + v.norm(4, feed_forward(v, v.norm(3, u)))


def cross(name, block, about, seed):
    v = Vector(name, about, seed, h=4, attention="cross", d_source=24, seq_len=7, source_len=12, bias=True, block=block,
               norm_eps=1e-5)
    x, source = v.draw("x", BATCH, 7, D_MODEL), v.draw("source", BATCH, 11, 24)
    if block == "post":
        return v, v.norm(1, x + attention(v, x, source))
    return v, x + attention(v, v.norm(1, x), source)


def t5():
    v = Vector("block_t5", "a pre-norm block with relu and no bias anywhere, and a large eps", 9, h=4, seq_len=5,
               mask="none", block="pre", norm="rms", norm_eps=0.25, ffn="relu", d_ff=D_FF, weight_layout="out_in")
    x = v.draw("x", BATCH, 5, D_MODEL)
    u = x + attention(v, v.norm(1, x))
    return v, u + feed_forward(v, v.norm(2, u))


def silu_post():
    v = Vector("block_silu", "a post-norm block with silu, rms, and biases in the feed-forward alone", 10, h=2,
               seq_len=5, mask="none", block="post", norm="rms", ffn="silu", d_ff=1, ffn_bias=True)
    x = v.draw("x", BATCH, 5, D_MODEL)
    u = v.norm(1, x + attention(v, x))
    return v, v.norm(2, u + feed_forward(v, u))


def geglu_sandwich():
    v = Vector("block_geglu", "sandwich with layer norms, geglu and biases", 11, h=8, seq_len=4, mask="none", bias=True,
               block="sandwich", norm="layer", ffn="geglu", d_ff=18)
    x = v.draw("x", BATCH, 4, D_MODEL, size=3.0, mean=1.0)
    u = x + v.norm(2, attention(v, v.norm(1, x)))
    return v, u + v.norm(4, feed_forward(v, v.norm(3, u)))


def olmo2():
    v = Vector("block_olmo2", "norms of what attention and feed-forward give alone, as in OLMo 2", 12, h=4, h_kv=2,
               seq_len=9, mask="causal", rope="half", block="outputs", norm="rms", ffn="swiglu", d_ff=D_FF)
    x = v.draw("x", BATCH, 9, D_MODEL)
    u = x + v.norm(1, attention(v, x, mask=causal(9)))
    return v, u + v.norm(2, feed_forward(v, u))


def modernbert():
    v = Vector("block_modernbert", "attention of rows without a norm, a norm without shift, as ModernBERT's first", 13,
               h=5, seq_len=7, mask="none", rope="half", block="pre", norm_bias=False, input_norm=False, norm_eps=1e-5,
               ffn="geglu", d_ff=D_FF)
    x = v.draw("x", BATCH, 7, D_MODEL)
    u = x + attention(v, x)
    return v, u + feed_forward(v, v.norm(1, u))


def cohere():
    v = Vector("block_cohere", "attention and feed-forward behind one norm without shift, as in Cohere", 14, h=4, h_kv=2,
               seq_len=8, mask="causal", rope="half", block="parallel", norm_shared=True, norm_bias=False,
               norm_eps=1e-5, ffn="swiglu", d_ff=D_FF)
    x = v.draw("x", BATCH, 8, D_MODEL)
    normed = v.norm(1, x)
    return v, x + attention(v, normed, mask=causal(8)) + feed_forward(v, normed)


# ---- without attention -------------------------------------------------------------------------------------------

def skipped(v, y, lengths):
    """Rows from lengths[b] on are zero."""
    v.tensors["lengths"] = torch.tensor(lengths, dtype=torch.int32)
    for b, length in enumerate(lengths):
        y[b, length:] = 0
    return v, y


def linear(name, about, seed, n, d_out, **spec):
    v = Vector(name, about, seed, layer="linear", d_in=D_MODEL, d_out=d_out, seq_len=n + 1, **spec)
    y = v.draw("x", BATCH, n, D_MODEL)
    if spec.get("norm", "none") != "none":
        y = v.norm(1, y)
    y = v.linear(y, "w", "b", D_MODEL, d_out, spec.get("bias", False))
    y = ACTIVATIONS[spec.get("activation", "none")](y)
    return v, spec["softcap"] * torch.tanh(y / spec["softcap"]) if "softcap" in spec else y


def ffn(name, about, seed, n, **spec):
    v = Vector(name, about, seed, layer="ffn", seq_len=n, d_ff=D_FF, **spec)
    x = v.draw("x", BATCH, n, D_MODEL)
    block = spec.get("block", "none")
    if block == "none":
        return v, feed_forward(v, x)
    if block == "post":
        return v, v.norm(1, x + feed_forward(v, x))
    if block == "outputs":
        return v, x + v.norm(1, feed_forward(v, x))
    y = feed_forward(v, v.norm(1, x))
    return v, x + (v.norm(2, y) if block == "sandwich" else y)


def without_attention():
    yield linear("linear_patches", "a linear layer with a bias, as a patch embedding", 20, 9, 24, bias=True)
    yield linear("linear_logits", "a normed row, its logits and a softcap, as at the end of Gemma 2", 21, 1, 51,
                 norm="rms", softcap=3.0, weight_layout="out_in")
    yield linear("linear_pooler", "a linear layer and tanh, as BERT's pooler", 22, 1, D_MODEL, bias=True,
                 activation="tanh", weight_layout="out_in")
    yield skipped(*linear("linear_skipped", "layer norm, a linear layer and gelu; rows of padding are skipped", 23, 8,
                          19, norm="layer", norm_eps=1e-5, bias=True, activation="gelu", mask="padding",
                          pad_rows="skipped"), [3, 0])
    yield linear("linear_silu", "a linear layer, silu and a softcap", 24, 5, 7, activation="silu", softcap=0.5)
    yield ffn("ffn_alone", "a feed-forward alone", 25, 6, ffn="relu", ffn_bias=True)
    yield ffn("ffn_llama", "the feed-forward of Llama", 26, 5, ffn="swiglu", block="pre", norm="rms", norm_eps=1e-5,
              weight_layout="out_in")
    yield skipped(*ffn("ffn_bert", "the feed-forward of BERT; rows of padding are skipped", 27, 7, ffn="gelu",
                       ffn_bias=True, block="post", norm_eps=1e-12, weight_layout="out_in", mask="padding",
                       pad_rows="skipped"), [7, 2])
    yield ffn("ffn_gemma2", "the feed-forward of Gemma 2", 28, 4, ffn="geglu_tanh", block="sandwich", norm="rms")
    yield ffn("ffn_clip", "the feed-forward of CLIP, quick_gelu", 29, 5, ffn="quick_gelu", ffn_bias=True, block="pre",
              norm_eps=1e-5, weight_layout="out_in")
    yield ffn("ffn_nemotron", "a feed-forward of squares, as in Nemotron", 30, 5, ffn="relu2", block="pre",
              norm_eps=1e-5, weight_layout="out_in")
    yield ffn("ffn_gpt_oss", "a clamped swiglu, as in gpt-oss", 31, 6, ffn="swiglu", ffn_limit=0.75, ffn_alpha=1.702,
              ffn_bias=True, block="pre", norm="rms", norm_eps=1e-5)
    yield ffn("ffn_outputs", "a feed-forward whose output is normed", 38, 3, ffn="swiglu", block="outputs", norm="layer",
              norm_bias=False)
    for seed, name in enumerate(("reglu", "quick_geglu", "glu")):
        yield ffn(f"ffn_{name}", "a feed-forward with a gate", 32 + seed, 3, ffn=name, ffn_bias=seed == 1)
    for seed, name in enumerate(("quick_gelu", "relu2", "sigmoid")):
        yield linear(f"linear_{name}", "a linear layer and an activation", 35 + seed, 4, 9, bias=True, activation=name)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    with torch.no_grad():
        for v, y in (bert(), bert_skipped(), gpt2(), llama(), falcon(), neox(), gemma2(), t5(), silu_post(),
                     geglu_sandwich(), olmo2(), modernbert(), cohere(),
                     cross("block_cross_post", "post", "cross-attention with a norm behind it and no feed-forward", 7),
                     cross("block_cross_pre", "pre", "cross-attention behind a norm and no feed-forward", 8),
                     *without_attention()):
            v.write(folder, y)


if __name__ == "__main__":
    main()
