#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The whole of all-MiniLM-L6-v2, on real weights: attngen's C beside ONNX Runtime, OpenVINO and PyTorch, one core.

    minilm.py FOLDER MODEL [ROUNDS]      FOLDER: minilm_model.c and its kin; MODEL: model.safetensors

`make bench-minilm` calls it. Systems take turns in one process, each with one thread on the core that the process is pinned to;
medians of the rounds. Peers begin behind the embeddings, which are theirs for nothing. Hidden states are compared with ours
first: 1e-4 of the largest one is refused. The last case is padded: peers get a mask of keys.
"""
import ctypes
import json
import os
import subprocess
import sys
import time

import numpy as np

CASES = (("1 x 16", 1, 16, None), ("1 x 128", 1, 128, None), ("8 x 32", 8, 32, None),
         ("32 x 8 to 64, padded", 32, 64, (8, 64)))
SHIM = """
#include "minilm_model.h"
size_t sizes(int i) { return i == 0 ? MINILM_MODEL_BYTES(1) : i == 1 ? MINILM_MODEL_WORK_BYTES : MINILM_MODEL_ARENA_BYTES(1); }
int run(const minilm_model *m, const int32_t *ids, const int32_t *lengths, float *hidden, size_t batch, size_t n, void *arena)
{
    return minilm_model_run(m, &(minilm_model_args){.ids = ids, .lengths = lengths, .hidden = hidden, .batch = batch, .n = n}, arena);
}
"""
H, D, EPS = 12, 384, 1e-12


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    get = lambda of: np.frombuffer(data, np.float32, (of["data_offsets"][1] - of["data_offsets"][0]) // 4,
                                   end + of["data_offsets"][0]).reshape(of["shape"])
    return data, {name: get(of) for name, of in header.items() if of["dtype"] == "F32"}


def aligned(size):
    raw = np.zeros(size + 64, np.uint8)
    return raw[-raw.ctypes.data % 64:][:size]


class Ours:
    def __init__(self, folder, data):
        shim, library = os.path.join(folder, "shim.c"), os.path.join(folder, "bench.so")
        with open(shim, "w", encoding="utf-8") as file:
            file.write(SHIM)
        subprocess.run(["gcc", "-std=c11", "-O2", "-fPIC", "-shared", "-I" + folder, "-o", library, shim,
                        *(os.path.join(folder, f"minilm_{part}.c") for part in ("model", "layer")), "-lm"], check=True)
        self.lib = ctypes.CDLL(library)
        self.lib.sizes.restype = ctypes.c_size_t
        self.file, work, self.arena = (aligned(self.lib.sizes(i)) for i in range(3))
        shard = (ctypes.c_void_p * 2)(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value, len(data))
        self.model = (ctypes.c_void_p * 16)()
        assert self.lib.minilm_model_pack(self.at(self.file), shard, ctypes.c_size_t(1), None, ctypes.c_size_t(1),
                                          self.at(work)) == 0
        start = time.perf_counter()
        assert self.lib.minilm_model_open(self.model, self.at(self.file), ctypes.c_size_t(self.file.size)) == 0
        self.open_ms = 1e3 * (time.perf_counter() - start)

    @staticmethod
    def at(array):
        return ctypes.c_void_p(array.ctypes.data)

    def prepare(self, ids, lengths):
        hidden = np.zeros((*ids.shape, D), np.float32)
        call = lambda: self.lib.run(self.model, self.at(ids), self.at(lengths), self.at(hidden),
                                    ctypes.c_size_t(ids.shape[0]), ctypes.c_size_t(ids.shape[1]), self.at(self.arena))
        return call, lambda: hidden


def embedded(w, ids):
    """float32 [batch][n][384], what the embeddings and their norm give."""
    x = w["embeddings.word_embeddings.weight"][ids].astype(np.float64)
    x = x + w["embeddings.position_embeddings.weight"][:ids.shape[1]] + w["embeddings.token_type_embeddings.weight"][0]
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
    return (x * w["embeddings.LayerNorm.weight"] + w["embeddings.LayerNorm.bias"]).astype(np.float32)


def onnx_model(w, batch, n, mask):
    import onnx
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers"))
    from adapters.onnx_graph import _Graph
    g = _Graph(onnx)

    def linear(of, name):
        return g.op("Add", g.op("MatMul", of, g.constant(w[name + ".weight"].T.copy())), g.constant(w[name + ".bias"]))

    def norm(of, name):
        return g.op("LayerNormalization", of, g.constant(w[name + ".weight"]), g.constant(w[name + ".bias"]), axis=-1, epsilon=EPS)

    def heads(of, transposed):
        y = g.op("Reshape", of, g.shape(batch, n, H, D // H))
        return g.op("Transpose", y, perm=[0, 2, 3, 1] if transposed else [0, 2, 1, 3])

    x = "x"
    for i in range(6):
        at = f"encoder.layer.{i}."
        q, k, v = (linear(x, at + "attention.self." + which) for which in ("query", "key", "value"))
        s = g.op("MatMul", heads(q, False), heads(k, True))
        s = g.op("Div", s, g.constant(np.float32(np.sqrt(D // H))))
        s = s if mask is None else g.op("Add", s, g.constant(mask))
        z = g.op("MatMul", g.op("Softmax", s, axis=-1), heads(v, False))
        z = g.op("Reshape", g.op("Transpose", z, perm=[0, 2, 1, 3]), g.shape(batch, n, D))
        u = norm(g.op("Add", linear(z, at + "attention.output.dense"), x), at + "attention.output.LayerNorm")
        f = g.op("Gelu", linear(u, at + "intermediate.dense"))
        x = norm(g.op("Add", linear(f, at + "output.dense"), u), at + "output.LayerNorm")
    g.nodes.append(onnx.helper.make_node("Identity", [x], ["y"]))
    value = lambda name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (batch, n, D))
    graph = onnx.helper.make_graph(g.nodes, "minilm", [value("x")], [value("y")], g.constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    model.ir_version = 9
    return model.SerializeToString()


def onnx_runtime(model, x):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    keep = {}

    def call():
        keep["y"] = session.run(None, {"x": x})[0]
        return 0

    return call, lambda: keep["y"]


def open_vino(model, x):
    import openvino
    compiled = openvino.Core().compile_model(openvino.Core().read_model(model), "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": "1"})
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))

    def call():
        request.infer()
        return 0

    return call, lambda: (compiled, np.array(request.get_output_tensor(0).data))[1]


def torch_model(w, x, mask):
    import torch
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    F, keep = torch.nn.functional, {}
    t = {name: torch.from_numpy(array.copy()) for name, array in w.items()}
    given, mask = torch.from_numpy(x), None if mask is None else torch.from_numpy(mask)
    linear = lambda of, name: F.linear(of, t[name + ".weight"], t[name + ".bias"])
    norm = lambda of, name: F.layer_norm(of, (D,), t[name + ".weight"], t[name + ".bias"], EPS)

    def call():
        y = given
        for i in range(6):
            at = f"encoder.layer.{i}."
            q, k, v = (linear(y, at + "attention.self." + which).view(*y.shape[:2], H, D // H).transpose(1, 2)
                       for which in ("query", "key", "value"))
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(y.shape)
            u = norm(linear(z, at + "attention.output.dense") + y, at + "attention.output.LayerNorm")
            y = norm(linear(F.gelu(linear(u, at + "intermediate.dense")), at + "output.dense") + u, at + "output.LayerNorm")
        keep["y"] = y
        return 0

    return call, lambda: keep["y"].numpy()


def main(folder, path, rounds):
    data, w = read_safetensors(path)
    ours, rng = Ours(folder, data), np.random.default_rng(1)
    print(f"opening the packed file: {ours.open_ms:.2f} ms\n\n| sentences x tokens | attngen, ms | ONNX Runtime | OpenVINO | PyTorch |")
    print("| --- | --: | --: | --: | --: |")
    for name, batch, n, reach in CASES:
        ids = rng.integers(1000, 30000, (batch, n)).astype(np.int32)
        lengths = np.full(batch, n, np.int32) if reach is None else rng.integers(reach[0], reach[1] + 1, batch).astype(np.int32)
        lengths[0] = n
        seen = np.arange(n)[None, :] < lengths[:, None]
        mask = None if reach is None else np.where(seen, 0, -np.inf).astype(np.float32)[:, None, None, :]
        x, model = embedded(w, ids), onnx_model(w, batch, n, mask)
        systems = [ours.prepare(ids, lengths), onnx_runtime(model, x), open_vino(model, x), torch_model(w, x, mask)]
        for call, _ in systems:
            assert call() == 0
        right = systems[0][1]()[seen]
        off = [float(np.abs(output()[seen] - right).max() / np.abs(right).max()) for _, output in systems[1:]]
        assert max(off) < 1e-4, off
        times = [[] for _ in systems]
        for _ in range(rounds):
            for index, (call, _) in enumerate(systems):
                call()
                start = time.perf_counter()
                call()
                times[index].append(1e3 * (time.perf_counter() - start))
        median = [float(np.median(of)) for of in times]
        print(f"| {name} | {median[0]:.2f} | " + " | ".join(f"{of / median[0]:.2f}" for of in median[1:]) + " |", flush=True)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 30)
