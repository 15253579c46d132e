# SPDX-License-Identifier: MIT
"""ONNX Runtime: its own attention operators, the standard one, and plain matrix products.

`cached`: GroupQueryAttention whose past and present are one buffer of cache_len rows, which it then does not copy.
"""
import layers
import numpy as np

from adapters import onnx_graph, onnx_types
from adapters.base import FIRST, Peer, Runner


class OnnxRuntime(Peer):
    name = "onnxruntime"
    formulations = ("attention", "multihead", "grouped", "standard", "plain", "cached")
    typed = ("dynamic-attention", "dynamic-multihead", "dynamic-plain", "dynamic-cached", "nbits8-multihead", "nbits8-cached",
             "nbits4-multihead", "nbits4-cached")

    def kinds(self, formulation):
        return onnx_graph.KINDS[formulation.split("-")[-1]] | (FIRST if formulation in ("standard", "plain") else set())

    def why_not(self, case, formulation, threads):
        return onnx_graph.why_not(case, formulation.split("-")[-1])

    def load(self):
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401

    def versions(self):
        import onnxruntime
        return {"onnxruntime": onnxruntime.__version__}

    def prepare(self, job, tensors, formulation):
        import onnxruntime as ort
        ort.set_default_logger_severity(3)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads, options.inter_op_num_threads = job.threads, 1
        options.enable_cpu_mem_arena = options.enable_mem_pattern = True
        how, _, graph = formulation.rpartition("-")
        model = onnx_graph.build(job.case, tensors, graph)
        model = onnx_types.quantized(model, how) if how else model
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding, case = session.io_binding(), job.case
        shape = (case.batch, case.h, case.n, case.d_v) if case.heads_first else (case.batch, case.n, case.d_out)
        y = np.zeros(shape, np.float32)
        if case.heads_first:
            tensors = {name: np.ascontiguousarray(tensors[name].swapaxes(1, 2)) for name in "qkv"}
        inputs = {name: ort.OrtValue.ortvalue_from_numpy(
            tensors[name] if case.heads_first else tensors[name].reshape(*tensors[name].shape[:2], -1))
                  for name in ("x", "source", "q", "k", "v") if name in tensors}
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        if case.past is not None:
            for letter in "kv":
                cache = inputs[letter + "_cache"] = ort.OrtValue.ortvalue_from_numpy(tensors[letter + "_cache"])
                binding.bind_ortvalue_input(letter + "_cache", cache)
                binding.bind_ortvalue_output(letter + "_present", cache)
        output = ort.OrtValue.ortvalue_from_numpy(y)
        binding.bind_ortvalue_output("y", output)
        return Runner(lambda: session.run_with_iobinding(binding), lambda: layers.heads_last(case, output.numpy()), (session, inputs))
