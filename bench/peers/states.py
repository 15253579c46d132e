#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times recurrent layers: the gated delta rule alone, and the whole layer of Qwen3.5-0.8B's shape, beside what this
Python has of PyTorch with transformers (chunked and recurrent rule, eager and compiled), of ONNX Runtime with LinearAttention and of
llama.cpp's ggml (adapters/ggml.py). Systems take turns in one process; medians. An answer that is off is not timed.

    make bench-states                          # or: bench/peers/states.py build/attngen [--n 1,16] [--threads 2]
"""
import argparse
import ctypes
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

SHAPES = {"rule, 16 and 32 heads of 128": (16, 32, 128), "rule, 8 heads of 64": (8, 8, 64)}
LAYER = {"d_model": 1024, "h": 16, "h_v": 16, "d_k": 128, "d_v": 128, "conv_taps": 4, "qk_norm": "l2_sum",
         "qk_norm_eps": "1e-6", "out_gate": "silu", "out_norm_eps": "1e-6", "weight_layout": "out_in"}
MOST_UNROLLED = 16  # tokens of a compiled recurrent rule, which unrolls them
ISAS = {"scalar": 1, "avx2": 2, "avx512": 3}


def zero_bytes(count):
    whole = np.zeros(count + 64, np.uint8)
    return whole[-whole.ctypes.data % 64:][:count]


def zeros(*shape):
    """On a cache line, where numpy's own often are not"""
    return zero_bytes(4 * int(np.prod(shape))).view(np.float32).reshape(shape)


def on_lines(array):
    copy = zeros(*array.shape)
    copy[...] = array
    return copy


class Pair:
    """A pair, compiled: its call with numpy arrays by the names of the header."""

    def __init__(self, attngen, folder, name, keys, isa=0, weights=None):
        spec = "".join(f"{key} = {value}\n" for key, value in {"name": name, "layer": "recurrent", **keys}.items())
        (folder / f"{name}.layer").write_text(spec)
        subprocess.run([attngen, "-o", folder, folder / f"{name}.layer"], check=True)
        library = folder / f"{name}.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, folder / f"{name}.c", "-lm"], check=True)
        self.name, self.library = name, ctypes.CDLL(str(library))
        header = (folder / f"{name}.h").read_text()
        self.args, self.weights = self.struct(header, "args")(), self.struct(header, "weights")()
        self.kept = dict(weights or {})
        self.fill(self.weights, self.kept)
        self.packed, self.scratch = (zero_bytes(self.number(folder, part)) for part in ("PACKED", "SCRATCH"))
        assert self.call("pack", self.packed, ctypes.byref(self.weights), isa) == 0, "pack"

    def struct(self, header, which):
        body = re.search(rf"typedef struct {self.name}_{which} {{(.*?)}} {self.name}_{which};", header, re.S)[1]
        fields = []
        for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
            if "*" in line:
                fields += [(re.search(r"\*\s*(\w+)\s*$", line)[1], ctypes.c_void_p)]
            elif line.strip():
                fields += [(word.strip(), ctypes.c_size_t) for word in line.replace("size_t", "").split(",")]
        return type(which, (ctypes.Structure,), {"_fields_": fields})

    def number(self, folder, part):
        program = f'#include "{self.name}.h"\n#include <stdio.h>\nint main(void){{printf("%zu", (size_t)' \
                  f"{self.name.upper()}_{part}_BYTES);}}\n"
        (folder / "number.c").write_text(program)
        subprocess.run(["cc", "-o", folder / "number", folder / "number.c"], check=True)
        return int(subprocess.run([folder / "number"], check=True, capture_output=True).stdout)

    def fill(self, struct, arrays):
        for name, value in arrays.items():
            setattr(struct, name, value.ctypes.data if isinstance(value, np.ndarray) else value)

    def call(self, function, *arguments):
        pointers = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in arguments]
        return getattr(self.library, f"{self.name}_{function}")(*pointers)

    def run(self, arrays):
        self.fill(self.args, arrays)
        assert self.call("forward", self.packed, ctypes.byref(self.args), self.scratch) == 0, "forward"


def turns(systems, seconds):
    """Medians in microseconds of {name: call}, in turns of a drawn order, each behind a call that warms caches."""
    times, names = {name: [] for name in systems}, list(systems)
    end = time.perf_counter() + seconds * len(systems)
    while time.perf_counter() < end or len(times[names[0]]) < 5:
        random.shuffle(names)
        for name in names:
            systems[name]()
            begin = time.perf_counter()
            systems[name]()
            times[name].append(time.perf_counter() - begin)
    return {name: 1e6 * statistics.median(all_) for name, all_ in times.items()}


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def rule_inputs(h, h_v, d, n):
    dice = np.random.default_rng(n)
    draw = lambda *shape: dice.standard_normal(shape, dtype=np.float32)
    q, k = unit(draw(1, n, h, d)), unit(draw(1, n, h, d))
    given = {"q": q, "k": k, "v": draw(1, n, h_v, d), "decay": -np.abs(draw(1, n, h_v)) * np.float32(0.2),
             "beta": 1 / (1 + np.exp(-draw(1, n, h_v)))}
    return {name: on_lines(array) for name, array in given.items()}


def rule_systems(options, folder, h, h_v, d, n):
    """Each as (call, y of a first call from zeros)."""
    given = rule_inputs(h, h_v, d, n)
    systems = {}
    keys = {"input": "projected", "h": h, "h_v": h_v, "d_k": d, "d_v": d, "seq_len": max(n, 16)}
    for isa in options.isas:
        for name, more in {"": {}, ", token by token": {"plan.exact_chunks": "true"}}.items():
            pair = Pair(options.attngen, folder, f"rule_{isa}_{len(systems)}_{h}_{n}", {**keys, **more}, ISAS[isa])
            y, state = zeros(1, n, h_v, d), zeros(1, h_v, d, d)
            call = lambda pair=pair, y=y, state=state: pair.run({**given, "y": y, "state": state, "batch": 1, "n": n})
            call()
            systems[f"ours {isa}{name}"] = (call, y.copy())
    systems["read and write the state"] = (memory_call([zeros(h_v * d * d)], []), None)
    try:
        import torch
        from transformers.models.qwen3_next import modeling_qwen3_next as model
    except ImportError as missing:
        print(f"no torch rules: {missing}")
    else:
        torch.set_num_threads(options.threads)
        tensors = [torch.from_numpy(given[name]) for name in ("q", "k", "v", "decay", "beta")]
        tensors[:2] = [x.repeat_interleave(h_v // h, dim=2) for x in tensors[:2]]
        rules = {"chunked": model.torch_chunk_gated_delta_rule, "recurrent": model.torch_recurrent_gated_delta_rule}
        state = torch.zeros(1, h_v, d, d)
        for name, rule in rules.items():
            ways = {"eager": rule}
            if options.compile and (name == "chunked" or n <= MOST_UNROLLED):
                ways["compiled"] = torch.compile(rule)
            for way, function in ways.items():
                def call(function=function):
                    with torch.no_grad():
                        return function(*tensors, initial_state=state, output_final_state=True)
                try:
                    systems[f"torch {name}, {way}"] = (call, call()[0].numpy())
                except Exception as failure:  # a compiler that is missing, say
                    print(f"torch {name}, {way}: {str(failure).splitlines()[0]}")
    add_onnx_runtime(systems, options, given, h, h_v, d, n)
    add_ggml(systems, options, given, h, h_v, d, n)
    return systems


def add_onnx_runtime(systems, options, given, h, h_v, d, n):
    try:
        import onnx
        import onnxruntime
    except ImportError as missing:
        print(f"no ONNX Runtime: {missing}")
        return
    names, helper = ("q", "k", "v", "state", "decay", "beta"), onnx.helper
    feeds = {name: np.ascontiguousarray(given[name].reshape(1, n, -1)) for name in names if name != "state"}
    feeds["state"] = zeros(1, h_v, d, d)
    node = helper.make_node("LinearAttention", names, ["y", "after"], update_rule="gated_delta", q_num_heads=h,
                            kv_num_heads=h_v, domain="com.microsoft")  # it has no other on CPU
    value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "rule", [value(name, feeds[name].shape) for name in names],
                              [value("y", None), value("after", None)])
    try:
        model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)])
        session_options = onnxruntime.SessionOptions()
        session_options.intra_op_num_threads = options.threads
        session = onnxruntime.InferenceSession(model.SerializeToString(), session_options, ["CPUExecutionProvider"])
        call = lambda: session.run(None, feeds)
        systems["ONNX Runtime"] = (call, call()[0].reshape(1, n, h_v, d))
    except Exception as failure:
        print(f"ONNX Runtime {onnxruntime.__version__}: {str(failure).splitlines()[0][:150]}")


def add_ggml(systems, options, given, h, h_v, d, n):
    """llama.cpp's operator; the state that it leaves stands behind y. Its value head j has key head j % h."""
    try:
        from adapters import ggml as adapter
        ggml = adapter.Library()
    except ImportError as missing:
        print(f"no llama.cpp: {missing}")
        return
    turned = [j % h * (h_v // h) + j // h for j in range(h_v)]
    context, backend = ggml.init(adapter.InitParams(1 << 20, None, True)), ggml.backend_cpu_init()
    ggml.backend_cpu_set_n_threads(backend, options.threads)
    arrays = {"q": given["q"], "k": given["k"], "v": given["v"][:, :, turned],
              "decay": given["decay"][:, :, turned, None], "beta": given["beta"][:, :, turned, None],
              "state": zeros(1, h_v, d, d)}
    tensors = {name: ggml.new_tensor_4d(context, adapter.F32, *array.shape[::-1]) for name, array in arrays.items()}
    out = ggml.gated_delta_net(context, *tensors.values(), 1)
    ggml.backend_alloc_ctx_tensors(context, backend)
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        ggml.backend_tensor_set(tensors[name], array.ctypes.data, 0, array.nbytes)
    graph = ggml.new_graph(context)
    ggml.build_forward_expand(graph, out)
    call = lambda: ggml.backend_graph_compute(backend, graph)
    call()
    y, rows = np.empty((1, n, h_v, d), np.float32), np.empty((1, n, h_v, d), np.float32)
    ggml.backend_tensor_get(out, rows.ctypes.data, 0, rows.nbytes)
    y[:, :, turned] = rows
    systems[f"llama.cpp ({ggml.features()})"] = (call, y)


def memory_call(written, read):
    """Reads and writes, and reads, all of these, in numpy's loops."""
    def call():
        for array in written:
            np.multiply(array, np.float32(0.999), out=array)
        for array in read:
            array.max()
    return call


def layer_systems(options, folder, n):
    d_model, h_v, d, taps = (LAYER[key] for key in ("d_model", "h_v", "d_v", "conv_taps"))
    dice = np.random.default_rng(n)
    draw = lambda *shape, by=1.0: (by * dice.standard_normal(shape)).astype(np.float32)
    wide = h_v * d
    matrices = {f"w_{name}": draw(wide, d_model, by=0.03) for name in "qkvz"}
    weights = {**matrices, "w_o": draw(d_model, wide, by=0.03), "w_a": draw(h_v, d_model, by=0.03),
               "w_b": draw(h_v, d_model, by=0.03), "a_log": draw(h_v), "dt_b": draw(h_v),
               "g_o": 1 + draw(d, by=0.1), **{f"conv_{name}": draw(wide, taps, by=0.3) for name in "qkv"}}
    x, systems = on_lines(draw(1, n, d_model)), {}
    state, history = zeros(1, h_v, d, d), zeros(1, 3 * wide, taps - 1)
    for isa in options.isas:
        for name, more in {"": {}, ", token by token": {"plan.exact_chunks": "true"}}.items():
            keys = {**LAYER, "seq_len": max(n, 16), **more}
            pair = Pair(options.attngen, folder, f"layer_{isa}_{len(systems)}_{n}", keys, ISAS[isa], weights)
            arrays = {"x": x, "y": zeros(1, n, d_model), "state": on_lines(state),
                      "conv_state": on_lines(history), "batch": 1, "n": n}
            call = lambda pair=pair, arrays=arrays: pair.run(arrays)
            call()
            systems[f"ours {isa}{name}"] = (call, arrays["y"].copy())
    systems["read and write states, read weights"] = (memory_call([state, history], list(weights.values())), None)
    try:
        import torch
        from transformers.models.qwen3_5 import configuration_qwen3_5, modeling_qwen3_5 as model
    except ImportError as missing:
        print(f"no torch layer: {missing}")
        return systems
    torch.set_num_threads(options.threads)
    config = configuration_qwen3_5.Qwen3_5TextConfig(
        hidden_size=d_model, linear_num_key_heads=LAYER["h"], linear_num_value_heads=h_v, linear_key_head_dim=d,
        linear_value_head_dim=d, linear_conv_kernel_dim=taps, rms_norm_eps=1e-6)
    module = model.Qwen3_5GatedDeltaNet(config, 0).eval()
    rows = lambda names: torch.from_numpy(np.concatenate([weights[name] for name in names]))
    values = {"in_proj_qkv.weight": rows(["w_q", "w_k", "w_v"]), "in_proj_z.weight": rows(["w_z"]),
              "in_proj_b.weight": rows(["w_b"]), "in_proj_a.weight": rows(["w_a"]), "out_proj.weight": rows(["w_o"]),
              "conv1d.weight": rows(["conv_q", "conv_k", "conv_v"]).unsqueeze(1), "A_log": rows(["a_log"]),
              "dt_bias": rows(["dt_b"]), "norm.weight": rows(["g_o"])}
    module.load_state_dict(values)
    tokens = torch.from_numpy(x)
    ways = {"eager": module}
    if options.compile:
        ways["compiled"] = torch.compile(module)
    for way, function in ways.items():
        def call(function=function):
            with torch.no_grad():
                return function(tokens)
        try:
            systems[f"torch layer, {way}"] = (call, call().numpy())
        except Exception as failure:
            print(f"torch layer, {way}: {str(failure).splitlines()[0]}")
    return systems


def report(title, n, systems, options, multiply_adds):
    expected = next(y for call, y in systems.values() if y is not None)
    good = {}
    for name, (call, y) in systems.items():
        if y is not None and not np.allclose(y, expected, atol=2e-3 * np.abs(expected).max()):
            print(f"{name}: y is off by {np.abs(y - expected).max():.3g}: not timed")
            continue
        good[name] = call
    medians = turns(good, options.seconds)
    for name, median in medians.items():
        rate = f"{multiply_adds / median * 1e-3:8.1f}" if "read" not in name else ""
        print(f"{title:30} {n:5} {name:36} {median:12.1f} us {rate}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attngen")
    parser.add_argument("--n", default="1,16,64,512,4096", help="tokens of a call")
    parser.add_argument("--isas", default="avx512,avx2")
    parser.add_argument("--threads", type=int, default=1, help="of the other systems; ours has one")
    parser.add_argument("--seconds", type=float, default=2, help="for each system")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="without torch.compile")
    options = parser.parse_args()
    options.isas = options.isas.split(",")
    print(f"{'layer':30} {'n':>5} {'system':36} {'median':>15} GMAC/s (3 d_k d_v a token of each state)")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for n in map(int, options.n.split(",")):
            for title, (h, h_v, d) in SHAPES.items():
                report(title, n, rule_systems(options, folder, h, h_v, d, n), options, 3 * n * h_v * d * d)
            report("layer of Qwen3.5-0.8B", n, layer_systems(options, folder, n), options,
                   3 * n * LAYER["h_v"] * LAYER["d_k"] * LAYER["d_v"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
