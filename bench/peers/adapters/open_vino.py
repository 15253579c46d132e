# SPDX-License-Identifier: MIT
"""OpenVINO on the CPU, from ONNX models; `sdpa` builds its own fused operator by the API between matrix products."""
import math

import numpy as np

from adapters import onnx_graph
from adapters.base import Peer, Runner


def _sdpa_model(openvino, case, tensors):
    """The layer with opset13.scaled_dot_product_attention."""
    import openvino.opset13 as ops
    c = case
    constant = lambda array: ops.constant(np.ascontiguousarray(array))
    x = ops.parameter([c.batch, c.n, c.d_model], np.float32, name="x")
    source = ops.parameter([c.batch, c.m, c.d_source], np.float32, name="source") if c.cross else x

    def heads(of, which, count, width):
        # the operator takes a scale only with a mask; without, it is 1/sqrt(d_k)
        factor = np.float32(c.scale * math.sqrt(c.d_k) if which == "q" else 1)
        y = ops.matmul(of, constant(tensors["w_" + which] * factor), False, False)
        y = ops.add(y, constant(tensors["b_" + which] * factor)) if c.bias else y
        y = ops.reshape(y, constant(np.array([0, 0, count, width], np.int64)), True)
        return ops.transpose(y, constant(np.array([0, 2, 1, 3], np.int64)))

    q, k, v = heads(x, "q", c.h, c.d_k), heads(source, "k", c.h_kv, c.d_k), heads(source, "v", c.h_kv, c.d_v)
    causal = c.positional == {"causal"}
    mask = None
    if c.positional and not causal:
        mask = constant(np.where(c.visible(), 0, -np.inf).astype(np.float32))
    z = ops.scaled_dot_product_attention(q, k, v, mask, causal=causal)
    z = ops.transpose(z, constant(np.array([0, 2, 1, 3], np.int64)))
    z = ops.reshape(z, constant(np.array([0, 0, c.h * c.d_v], np.int64)), True)
    if c.w_o == "dense":
        z = ops.matmul(z, constant(tensors["w_o"]), False, False)
        z = ops.add(z, constant(tensors["b_o"])) if c.bias else z
    return openvino.Model([z], [x, source] if c.cross else [x], c.name)


class OpenVino(Peer):
    name = "openvino"
    formulations = ("sdpa", "standard", "plain")

    def why_not(self, case, formulation, threads):
        if formulation == "sdpa" and case.h_kv != case.h:
            return "the operator has no grouped heads"
        return onnx_graph.why_not(case, "standard" if formulation == "sdpa" else formulation)

    def load(self):
        import onnx  # noqa: F401
        import openvino  # noqa: F401

    def versions(self):
        import openvino
        return {"openvino": openvino.__version__.split("-")[0]}

    def prepare(self, job, tensors, formulation):
        import openvino
        core = openvino.Core()
        if formulation == "sdpa":
            model = _sdpa_model(openvino, job.case, tensors)
        else:
            model = core.read_model(onnx_graph.build(job.case, tensors, formulation))
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(job.threads)})
        request, case = compiled.create_infer_request(), job.case
        y = np.zeros((case.batch, case.n, case.d_out), np.float32)
        shared = [openvino.Tensor(tensors[name], shared_memory=True) for name in ("x", "source") if name in tensors]
        for index, tensor in enumerate(shared):
            request.set_input_tensor(index, tensor)
        request.set_output_tensor(0, openvino.Tensor(y, shared_memory=True))
        return Runner(request.infer, lambda: y, (core, compiled, shared))
