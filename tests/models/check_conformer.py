#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A layer of a Conformer out of layers of attngen, as docs/models.md says, beside transformers in float64.

    python3 check_conformer.py ATTNGEN      needs the packages of requirements.txt

Parakeet's encoder layer: half a feed-forward, attention with vectors of distances, a convolution, half a feed-forward, a norm.
"""
import os
import pathlib
import sys

import numpy as np
import torch
from transformers import ParakeetEncoderConfig
from transformers.models.parakeet import modeling_parakeet as parakeet

os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.argv[1]).resolve().parent), os.environ["PATH"]])
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "packaging/python"))
import attngen  # noqa: E402

D, H, FF, N, TAPS, PAD = 32, 4, 48, 21, 9, 4
CLOSE = 2e-5


def layer(weights, **keys):
    if keys.get("layer") != "conv":
        keys["weight_layout"] = "out_in"
    keys["d_in" if keys.get("layer") == "linear" else "channels" if keys.get("layer") == "conv" else "d_model"] = D
    kernel = attngen.Layer(**keys).compile(isa="scalar")
    return kernel.pack({name: np.ascontiguousarray(rows, dtype=np.float32) for name, rows in weights.items()})


def main():
    torch.manual_seed(0)
    config = ParakeetEncoderConfig(hidden_size=D, num_attention_heads=H, intermediate_size=FF, conv_kernel_size=TAPS,
                                   num_hidden_layers=1, attention_bias=True, convolution_bias=True)
    config._attn_implementation = "eager"
    theirs = parakeet.ParakeetEncoderBlock(config, 0).double().eval()
    x = torch.randn(2, N, D).double()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
        theirs.conv.norm.running_mean.normal_()
        theirs.conv.norm.running_var.uniform_(0.5, 2)
        positions = parakeet.ParakeetEncoderRelPositionalEncoding(config).double()(x)
        wanted = theirs(x, position_embeddings=positions).numpy()
    w = {name: rows.numpy() for name, rows in theirs.state_dict().items()}
    norm = {"norm": "layer", "norm_eps": 1e-5}

    def gains(name):
        return {"n1_g": w[f"norm_{name}.weight"], "n1_b": w[f"norm_{name}.bias"]}

    def half(i, rows):
        at = f"feed_forward{i}."
        return layer({**gains(at[:-1]), "w_1": w[at + "linear1.weight"], "b_1": w[at + "linear1.bias"],
                      "w_2": w[at + "linear2.weight"] / 2, "b_2": w[at + "linear2.bias"] / 2}, layer="ffn", seq_len=N,
                     block="pre", **norm, ffn="silu", d_ff=FF, ffn_bias=True)(x=rows)

    def attention(rows):
        at = "self_attn."
        r = positions[0].numpy() @ w[at + "relative_k_proj.weight"].T  # the largest p - j first
        names = {letter: at + f"{letter}_proj." for letter in "qkvo"}
        return layer({**gains("self_att"), "rel_k": r.reshape(-1, H, D // H)[::-1], "rel_u": w[at + "bias_u"],
                      "rel_v": w[at + "bias_v"], **{"w_" + key: w[of + "weight"] for key, of in names.items()},
                      **{"b_" + key: w[of + "bias"] for key, of in names.items()}},
                     h=H, seq_len=N, bias=True, rel_keys="heads", rel_biases=True, rel_left=N - 1, rel_right=N - 1,
                     block="pre", **norm)(x=rows)

    def convolution(rows):
        first, second, of = "conv.pointwise_conv1.", "conv.pointwise_conv2.", "conv.norm."
        u = layer({**gains("conv"), "w": w[first + "weight"][..., 0], "b": w[first + "bias"]}, layer="linear", d_out=2 * D,
                  seq_len=N, bias=True, **norm)(x=rows)
        u = u[..., :D] / (1 + np.exp(-u[..., D:]))
        u = np.concatenate([u, np.zeros((len(u), PAD, D), np.float32)], 1)  # the tap of a row itself is the middle one
        by = w[of + "weight"] / np.sqrt(w[of + "running_var"] + 1e-5)
        bias = (w["conv.depthwise_conv.bias"] - w[of + "running_mean"]) * by + w[of + "bias"]
        v = layer({"conv_x": w["conv.depthwise_conv.weight"][:, 0] * by[:, None], "b": bias}, layer="conv", seq_len=N + PAD,
                  conv_taps=TAPS, bias=True, activation="silu")(
                      x=u, conv_state=np.zeros((len(u), D, TAPS - 1), np.float32))["y"]
        return rows + layer({"w": w[second + "weight"][..., 0], "b": w[second + "bias"]}, layer="linear", d_out=D, seq_len=N,
                            bias=True)(x=np.ascontiguousarray(v[:, PAD:]))
    y = half(2, convolution(attention(half(1, x.float().numpy()))))
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5) * w["norm_out.weight"] + w["norm_out.bias"]
    worst = abs(y - wanted).max() / abs(wanted).max()
    print(f"parakeet's encoder layer: off by {worst:.1e}")
    return int(worst > CLOSE)


sys.exit(main())
