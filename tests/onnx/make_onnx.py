#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns the node tests of ONNX's Attention, FlexAttention, LinearAttention and CausalConvWithState, as the `onnx` package
makes them, into specs and tensors.

    python3 -m venv /tmp/onnx && /tmp/onnx/bin/pip install onnx==1.23.2
    /tmp/onnx/bin/python tests/onnx/make_onnx.py          writes cases.txt and README.md beside this file

A case of cases.txt is a line "== NAME", the spec, and a line "data BASE64", a safetensors file under the contract's names.
Its y and attn are those of the operator's own function on the same inputs in float64, once that has been found to agree
with what the node test expects, to the node test's tolerance; the tests' own numbers have the rounding of f32, f16 or bf16.

Left out on purpose: the "_expanded" tests, whose inputs and answers are those of the test without that word.
"""
import base64
import inspect
import json
import struct
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases
from onnx.reference.ops.op_attention import _compute_attention
from onnx.reference.ops.op_linear_attention import LinearAttention

DTYPES = {"float32": "F32", "int32": "I32", "bool": "BOOL"}
SCORES = {0: "raw", 1: "capped", 2: "biased", 3: "weights"}
TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 4e-3, "bfloat16": 3e-2}

# A subgraph of FlexAttention as an expression of the contract, by the operators that it is made of.
SCORE_MODS = {
    "Add": lambda graph: {"score": f"s + {constant(graph, 'bias')}"},
    "Div Tanh Mul": lambda graph: {"score": f"tanh(s / {constant(graph, 'cap')}) * {constant(graph, 'cap')}"},
    "Shape Gather Gather Range Reshape Range Reshape GreaterOrEqual Where": lambda graph: {"visible": "p >= j"},
    "Shape Gather Gather Range Reshape Range Reshape Sub Cast Add": lambda graph: {"score": "s + (p - j)"},
}


def constant(graph, name):
    return float(next(onnx.numpy_helper.to_array(t) for t in graph.initializer if t.name == name))


def safetensors(tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        begin = len(data)
        data += np.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": DTYPES[tensor.dtype.name], "shape": list(tensor.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def heads_first(x, heads):
    """[batch][heads][tokens][width] of either form."""
    if x.ndim == 4:
        return x
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def full_mask(mask, n, m):
    """[batch or 1][h or 1][n][m]; keys behind its end are hidden."""
    short = m - mask.shape[-1]
    if short > 0:
        hidden = False if mask.dtype == bool else -np.inf
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, short)], constant_values=hidden)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    return np.ascontiguousarray(np.broadcast_to(mask, mask.shape[:2] + (n, m)))


def wide(x):
    return x.astype(np.float64) if x is not None and x.dtype != bool and x.dtype.kind != "i" else x


def padded(x, rows, value):
    """[batch][heads][rows][…], rows that are missing filled with a value."""
    more = [(0, 0)] * x.ndim
    more[2] = (0, rows - x.shape[2])
    return np.pad(x, more, constant_values=value)


def answers(call, attributes, score_mod):
    """y and attn of the operator's function in float64, on inputs without a shape that is left to broadcasting."""
    q, k, v, mask, lengths = (wide(call[name]) for name in ("q", "k", "v", "mask", "lengths"))
    past = None if call["past_key"] is None else (wide(call["past_key"]), wide(call["past_value"]))
    more = None
    if score_mod is not None: # of the tests that there are, as an additive mask of the scores that they make
        s = np.einsum("bhtd,bhjd->bhtj", q, np.repeat(k, q.shape[1] // k.shape[1], axis=1))
        s = s * (attributes.get("scale") or q.shape[-1] ** -0.5)
        i = np.arange(s.shape[2])[:, None]
        j = np.arange(s.shape[3])[None, :]
        scope = {"s": s, "p": i, "j": j, "tanh": np.tanh}
        with np.errstate(invalid="ignore"):
            more = (eval(score_mod["score"], scope) - s) if "score" in score_mod else np.where(
                eval(score_mod["visible"], scope), 0.0, -np.inf)
    keys = {name: attributes[name] for name in ("scale", "is_causal", "softcap", "qk_matmul_output_mode",
                                                "left_window_size", "right_window_size") if name in attributes}
    y, _, _, attn = _compute_attention(q, k, v, attn_mask=more if more is not None else mask,
                                       past_key=past and past[0], past_value=past and past[1],
                                       nonpad_kv_seqlen=lengths, **keys)
    return y, attn


def spec_of(call, attributes, score_mod, last):
    q, k, v = call["q"], call["k"], call["v"]
    masks, spec = [], {"name": "onnx_case", "input": "projected", "heads": "last" if last else "first", "w_o": "none"}
    spec.update(h=q.shape[1], d_k=q.shape[3], seq_len=q.shape[2])
    if call["past_key"] is not None: # keys and values of before are in a cache that is just large enough
        spec.update(cache="rows", cache_len=call["past_key"].shape[2] + call["new_keys"])
    else:
        spec["source_len"] = k.shape[2]
    if k.shape[1] != q.shape[1]:
        spec["h_kv"] = k.shape[1]
    if v.shape[3] != q.shape[3]:
        spec["d_v"] = v.shape[3]
    if attributes.get("scale"):
        spec["scale"] = repr(float(attributes["scale"]))
    if attributes.get("is_causal"):
        masks.append("causal")
    window = [attributes.get(side + "_window_size", -1) for side in ("left", "right")]
    if max(window) >= 0:
        masks.append("window")
        for side, reach in zip(("left", "right"), window):
            if reach >= 0:
                spec[f"window_{side}"] = reach
    if call["lengths"] is not None:
        masks.append("padding")
        if call["past_key"] is None:
            spec["offset"] = "end"
    if call["mask"] is not None:
        masks.append("bool" if call["mask"].dtype == bool else "additive")
    if masks:
        spec["mask"] = "+".join(masks)
    if attributes.get("softcap", 0) > 0:
        spec["softcap"] = repr(float(attributes["softcap"]))
    spec.update(score_mod or {})
    return spec


def convert(case):
    """The spec and the tensors of a test, or the reason why it is left out."""
    node = case.model.graph.node[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if "prob_mod" in attributes:
        return "prob_mod changes the weights after the softmax, which no layer here does"
    score_mod = None
    if "score_mod" in attributes:
        graph = attributes["score_mod"]
        score_mod = SCORE_MODS[" ".join(n.op_type for n in graph.node)](graph)
    inputs, outputs = case.data_sets[0]
    given = dict(zip([i for i in node.input if i], inputs))
    wanted = dict(zip([o for o in node.output if o], outputs))
    last = given["Q"].ndim == 3
    h, h_kv = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    call = {"q": heads_first(given["Q"], h), "k": heads_first(given["K"], h_kv), "v": heads_first(given["V"], h_kv),
            "past_key": given.get("past_key"), "past_value": given.get("past_value"),
            "lengths": given.get("nonpad_kv_seqlen"), "mask": given.get("attn_mask")}
    n, m = call["q"].shape[2], call["k"].shape[2] + (0 if call["past_key"] is None else call["past_key"].shape[2])
    if call["mask"] is not None:
        call["mask"] = full_mask(call["mask"], n, m)
    call["new_keys"], kind = call["k"].shape[2], given["Q"].dtype.name
    if call["past_key"] is not None and call["new_keys"] > n: # a query for each new key: more of them, of zeros
        call["q"] = padded(wide(call["q"]), call["new_keys"], 0)
        if call["mask"] is not None:
            call["mask"] = padded(call["mask"], call["new_keys"], call["mask"].dtype == bool)
    y, attn = answers(call, attributes, score_mod)
    agree(case, "y", heads_first(wide(wanted["Y"]), h), y[:, :, :n], kind)

    past = None if call["past_key"] is None else call["past_key"].shape[2]
    caches = {}
    if past is not None:
        all_keys = np.concatenate([call["past_key"], call["k"]], axis=2)
        all_values = np.concatenate([call["past_value"], call["v"]], axis=2)
        agree(case, "present_key", wide(wanted["present_key"]), wide(all_keys), "float64")
        agree(case, "present_value", wide(wanted["present_value"]), wide(all_values), "float64")
        for name, rows in (("k_cache", all_keys), ("v_cache", all_values)):
            caches["expect." + name] = rows.astype(np.float32)
            caches[name] = np.where(np.arange(m)[:, None] < past, caches["expect." + name], np.float32("nan"))
        if call["new_keys"] < n: # the other tokens are padding: theirs are not read
            assert call["lengths"] is None
            call["lengths"] = np.full(len(call["q"]), call["new_keys"])
            for name in "kv":
                call[name] = padded(wide(call[name]), n, np.nan)
    spec = spec_of(call, attributes, score_mod, last)
    order = (0, 2, 1, 3) if last else (0, 1, 2, 3)
    tensors = {name: call[name].transpose(order).astype(np.float32) for name in "qkv"}
    if past is not None:
        tensors["past"] = np.full(len(call["q"]), past, dtype=np.int32)
    tensors.update(caches)
    if call["lengths"] is not None:
        tensors["lengths"] = call["lengths"].astype(np.int32)
    if call["mask"] is not None:
        is_bool = call["mask"].dtype == bool
        tensors["mask_bool" if is_bool else "mask_add"] = call["mask"] if is_bool else call["mask"].astype(np.float32)
    tensors["y"] = y.transpose(order).astype(np.float32)
    if "qk_matmul_output" in wanted:
        agree(case, "attn", wide(wanted["qk_matmul_output"]), attn[:, :, :n], kind)
        spec["scores"] = SCORES[attributes.get("qk_matmul_output_mode", 0)]
        tensors["attn"] = attn.astype(np.float32)
    return spec, tensors


def linear_answers(given, attributes):
    """output and present_state of the operator's function, with its float32 read as float64."""
    source = inspect.getsource(LinearAttention._run).replace("np.float32", "np.float64")
    scope = dict(vars(sys.modules[LinearAttention.__module__]))
    exec(textwrap.dedent(source), scope)
    names = ("query", "key", "value", "past_state", "decay", "beta")
    return scope["_run"](None, *(wide(given.get(name)) for name in names), **attributes)


def convert_linear(case):
    """The same of LinearAttention; a beta for all heads is repeated, a state that is missing is zeros."""
    node = case.model.graph.node[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    rule = attributes["update_rule"] = attributes.get("update_rule", b"gated_delta").decode()
    inputs, outputs = case.data_sets[0]
    given = dict(zip([i for i in node.input if i], inputs))
    wanted = dict(zip([o for o in node.output if o], outputs))
    y, state = linear_answers(given, attributes)
    agree(case, "output", wide(wanted["output"]), y, given["query"].dtype.name)
    agree(case, "present_state", wide(wanted["present_state"]), state, given["query"].dtype.name)

    h, h_v = attributes["q_num_heads"], attributes["kv_num_heads"]
    batch, n = y.shape[:2]
    split = lambda x, heads: np.ascontiguousarray(x.reshape(batch, n, heads, -1), dtype=np.float32)
    tensors = {"q": split(given["query"], h), "k": split(given["key"], h_v), "v": split(given["value"], h_v)}
    spec = {"name": "onnx_case", "layer": "recurrent", "input": "projected", "rule": rule, "h": h, "h_kv": h_v,
            "d_k": tensors["q"].shape[3], "d_v": tensors["v"].shape[3], "seq_len": n}
    if "decay" in given:
        by_column = given["decay"].shape[2] != h_v
        spec["decay"] = "column" if by_column else "head"
        tensors["decay"] = split(given["decay"], h_v) if by_column else given["decay"].astype(np.float32)
    if "beta" in given:
        tensors["beta"] = np.broadcast_to(given["beta"], (batch, n, h_v)).astype(np.float32)
    if attributes.get("scale"):
        spec["scale"] = repr(float(attributes["scale"]))
    tensors["state"] = given.get("past_state", np.zeros(state.shape)).astype(np.float32)
    tensors["y"], tensors["expect.state"] = split(y, h), state.astype(np.float32)
    return spec, tensors


def convert_conv(case):
    """The same of CausalConvWithState, by a sum in float64; its [batch][channels][n] become [batch][n][channels]."""
    node = case.model.graph.node[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    inputs, outputs = case.data_sets[0]
    given = dict(zip([i for i in node.input if i], inputs))
    wanted = dict(zip([o for o in node.output if o], outputs))
    x, taps = wide(given["input"]), wide(given["weight"])[:, 0]
    channels, k = taps.shape
    past = wide(given.get("past_state", np.zeros((len(x), channels, k - 1))))
    rows = np.concatenate([past, x], axis=2)
    y = sum(taps[:, j, None] * rows[:, :, j:j + x.shape[2]] for j in range(k)) + wide(given.get("bias", np.zeros(channels)))[:, None]
    silu = attributes.get("activation", b"none") != b"none"
    y = y / (1 + np.exp(-y)) if silu else y
    state = rows[:, :, x.shape[2]:]
    agree(case, "output", wide(wanted["output"]), y, given["input"].dtype.name)
    agree(case, "present_state", wide(wanted["present_state"]), state, given["input"].dtype.name)

    spec = {"name": "onnx_case", "layer": "conv", "channels": channels, "conv_taps": k, "seq_len": x.shape[2]}
    tensors = {"x": x.transpose(0, 2, 1), "conv_x": taps, "y": y.transpose(0, 2, 1)}
    if "bias" in given:
        spec["bias"], tensors["b"] = "true", given["bias"]
    if silu:
        spec["activation"] = "silu"
    if k > 1:
        tensors.update({"conv_state": past, "expect.conv_state": state})
    return spec, {name: np.ascontiguousarray(of, dtype=np.float32) for name, of in tensors.items()}


def agree(case, what, expected, found, kind):
    tolerance = max(TOLERANCE[kind], case.rtol)
    if expected.shape != found.shape or not np.allclose(found, expected, rtol=tolerance, atol=max(case.atol, tolerance / 10)):
        worst = np.max(np.abs(expected - found)) if expected.shape == found.shape else (expected.shape, found.shape)
        sys.exit(f"{case.name}: {what} of the node test is not what the operator's function says in float64: {worst}")


def main():
    folder = Path(__file__).parent
    np.random.seed(25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases()
    cases = sorted((c for c in cases if c.name.startswith(("test_attention", "test_flexattention", "test_linear_attention", "test_causal_conv_with_state"))), key=lambda c: c.name)
    text, left_out, expanded = [], [], 0
    for case in cases:
        if "_expanded" in case.name:
            expanded += 1
            continue
        converters = {"LinearAttention": convert_linear, "CausalConvWithState": convert_conv}
        result = converters.get(case.model.graph.node[0].op_type, convert)(case)
        if isinstance(result, str):
            left_out.append((case.name, result))
            continue
        spec, tensors = result
        lines = [f"{key} = {value}" for key, value in spec.items()]
        data = base64.b64encode(safetensors(tensors)).decode()
        text.append("\n".join([f"== {case.name.removeprefix('test_')}", *lines, f"data {data}", ""]))
    (folder / "cases.txt").write_text(
        f"# Made by make_onnx.py from onnx {onnx.__version__} (Apache-2.0); see there.\n" + "".join(text))
    rows = "".join(f"| `{name}` | {why} |\n" for name, why in left_out)
    (folder / "README.md").write_text(f"""# ONNX's own tests of attention and states

`cases.txt` has the node tests of the operators Attention, FlexAttention, LinearAttention and CausalConvWithState, as the
`onnx` package {onnx.__version__} makes them: its random inputs, and the answers of its own function in float64.
`make_onnx.py` turns them into specs and tensors, and `test_onnx.sh` runs each by the reference and by every instruction set
of the machine. Those in f16 and bf16 are run in f32 on converted tensors. Past keys and values are in a cache, which after
the call must equal the test's present ones. A call brings a key for each query: where a test has more keys, queries of zeros
are added; where it has fewer, `lengths` says so. States of LinearAttention and CausalConvWithState are compared as they are
after the call; where a test has none, it begins with zeros. A beta for all heads is repeated for each, and what is
[batch][channels][length] becomes [batch][length][channels].

{len(text)} of {len(text) + len(left_out)} are run. Another {expanded} tests named `…_expanded` have the inputs and answers of the tests
without that word. Not run:

| test | why |
| --- | --- |
{rows}| `test_rotary_embedding…` | their cosines and sines are random numbers, which belong to no angle |

The onnx package is under the Apache License 2.0.
""")
    print(f"{len(text)} cases, {len(left_out)} left out, {sum(map(len, text))} bytes")


main()
