# SPDX-License-Identifier: MIT
"""OpenVINO on the CPU, from ONNX models; `sdpa` builds its own fused operator by the API between matrix products."""
import math
import time

import numpy as np

import layers
import machine
from adapters import onnx_graph
from adapters.base import CACHED, Peer, Runner, Unsupported


def _block(ops, c, constant, tensors, attend, x):
    """Norms, residual sums and a feed-forward around attend(rows)."""
    block, last = c.block, np.array([-1], np.int64)

    def norm(number, of):
        gain = constant(tensors[f"n{number}_g"])
        if block.rms:
            mean = ops.reduce_mean(ops.power(of, constant(np.float32(2))), constant(last), True)
            root = ops.sqrt(ops.add(mean, constant(np.float32(block.eps))))
            return ops.multiply(gain, ops.divide(of, root))
        y = ops.mvn(of, constant(last), True, block.eps, "INSIDE_SQRT")
        return ops.add(ops.multiply(y, gain), constant(tensors[f"n{number}_b"]))

    def product(which, of):
        y = ops.matmul(of, constant(tensors["w_" + which]), False, False)
        return ops.add(y, constant(tensors["b_" + which])) if block.bias else y

    activate = {"relu": ops.relu, "silu": ops.swish, "gelu": lambda of: ops.gelu(of, "erf"),
                "gelu_tanh": lambda of: ops.gelu(of, "tanh")}.get(block.activation)
    return block.around(x, attend, norm, lambda of: block.feed(of, product, activate, ops.multiply), ops.add)


def _plain(ops, constant, of, w):
    return ops.matmul(of, constant(w), False, False)


def compressed(ops, constant, of, w):
    """Weights s8 [out][in] with a scale for each column, as NNCF's compress_weights writes them."""
    scale = np.abs(w).max(0)[:, None] / np.float32(127)
    whole = ops.convert(constant(np.rint(w.T / scale).astype(np.int8)), np.float32)
    return ops.matmul(of, ops.multiply(whole, constant(scale)), False, True)


def static(ranges):
    """Weights and operands behind FakeQuantize, as NNCF's quantize writes them: s8 with a scale for each column, and 256 levels
    for each tensor, between the ends (least, most) that `ranges` has for it, product after product."""
    def product(ops, constant, of, w):
        ends = next(ranges)
        low, high = (constant(np.float32(end)) for end in ends)
        of = ops.fake_quantize(of, low, high, low, high, 256)
        most = np.abs(w).max(0)[:, None]
        wide = [constant(most * np.float32(sign)) for sign in (-1, 1)]
        return ops.matmul(of, ops.fake_quantize(constant(np.ascontiguousarray(w.T)), *wide, *wide, 255), False, True)
    return product


def _sdpa_model(openvino, case, tensors, product=_plain):
    """The layer with opset13.scaled_dot_product_attention."""
    import openvino.opset13 as ops
    c = case
    constant = lambda array: ops.constant(np.ascontiguousarray(array))
    x = ops.parameter([c.batch, c.n, c.d_model], np.float32, name="x")
    source = ops.parameter([c.batch, c.m, c.d_source], np.float32, name="source") if c.cross else None
    attend = lambda of: _sdpa(ops, c, constant, tensors, of, of if source is None else source, product)
    y = _block(ops, c, constant, tensors, attend, x) if c.block else attend(x)
    return openvino.Model([y], [x, source] if c.cross else [x], c.name)


def _sdpa(ops, c, constant, tensors, x, source, product=_plain):
    """Attention, to behind W_O."""

    def heads(of, which, count, width):
        # the operator takes a scale only with a mask; without, it is 1/sqrt(d_k)
        factor = np.float32(c.scale * math.sqrt(c.d_k) if which == "q" else 1)
        y = product(ops, constant, of, tensors["w_" + which] * factor)
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
        z = product(ops, constant, z, tensors["w_o"])
        z = ops.add(z, constant(tensors["b_o"])) if c.bias else z
    return z


def _stateful_model(openvino, case):
    """Attention with keys and values that are the model's state, in the pattern that the CPU plugin fuses into one
    operator: ReadValue, Gather by a beam, Concat, Assign, scaled_dot_product_attention."""
    import openvino.opset13 as ops
    c, group = case, case.h // case.h_kv
    q, k, v = (ops.parameter([c.batch, -1, heads, width], np.float32, name=which)
               for which, heads, width in (("q", c.h, c.d_k), ("k", c.h_kv, c.d_k), ("v", c.h_kv, c.d_v)))
    beam = ops.parameter([c.batch], np.int32, name="beam")
    mask = ops.parameter([1, 1, -1, -1], np.float32, name="mask") if c.n > 1 else None
    constant = lambda *numbers: ops.constant(np.array(numbers, np.int64))
    heads_first = lambda of: ops.transpose(of, constant(0, 2, 1, 3))
    sinks, states = [], []
    for new, width in ((k, c.d_k), (v, c.d_v)):
        name = new.get_friendly_name()
        info = openvino.op.util.VariableInfo()
        info.data_shape, info.data_type = openvino.PartialShape([c.batch, c.h_kv, -1, width]), openvino.Type.f32
        info.variable_id = name
        variable = openvino.op.util.Variable(info)
        nothing = ops.broadcast(ops.constant(np.float32(0)), constant(c.batch, c.h_kv, 0, width))
        held = ops.gather(ops.read_value(nothing, variable), beam, constant(0))
        joined = ops.concat([held, heads_first(new)], 2)
        sinks.append(ops.assign(joined, variable))
        if group > 1:
            ones = ops.constant(np.ones((1, 1, group, 1, 1), np.float32))
            joined = ops.multiply(ops.unsqueeze(joined, constant(2)), ones)
            joined = ops.reshape(joined, constant(0, c.h, -1, width), True)
        states.append(joined)
    z = ops.scaled_dot_product_attention(heads_first(q), *states, mask, causal=False)
    z = ops.reshape(heads_first(z), constant(0, 0, c.h * c.d_v), True)
    return openvino.Model([ops.result(z)], sinks, [q, k, v, beam] + [mask] * (c.n > 1), c.name)


class _Steps(Runner):
    """A state grows with each inference. So the state is set to fewer tokens than the case has, an inference that is
    not timed lets the library make room, and several that are timed follow, around the case's number of cached ones."""
    MOST = 16

    def __init__(self, openvino, compiled, case, tensors):
        self.request, self.case, self.tensors = compiled.create_infer_request(), case, tensors
        n = case.n
        half = max(0, min(self.MOST // 2, (case.past - n) // n - 1))  # inferences before the case's own
        self.first, self.steps = case.past - n * half, 2 * half + 1
        self.openvino, tensor = openvino, lambda array: openvino.Tensor(np.ascontiguousarray(array), shared_memory=True)
        self.new = [tensor(tensors[which]) for which in "qkv"]
        self.last = self.before(self.first)
        self.request.set_input_tensor(3, tensor(np.zeros(case.batch, np.int32)))
        self.masks = [tensor(self.mask(self.first + n * i)) for i in range(-1, self.steps)]
        self.keep, self.lost = compiled, 0

    def mask(self, past):
        n = self.case.n
        sees = np.arange(past + n)[None, :] <= past + np.arange(n)[:, None]
        return np.where(sees, 0, -np.inf).astype(np.float32)[None, None]

    def before(self, end):
        """Keys and values that the cache has before position `end`, as many as a call brings."""
        rows = [self.tensors[which + "_cache"][:, :, end - self.case.n:end].swapaxes(1, 2) for which in "kv"]
        return [self.openvino.Tensor(np.ascontiguousarray(of)) for of in rows]

    def infer(self, mask):
        if self.case.n > 1:
            self.request.set_input_tensor(4, mask)
        self.request.infer()

    def begin(self):
        """The first tokens are the state; those of them that one call brings come by an inference."""
        for state in self.request.query_state():
            rows = self.tensors[("k" if "k" in state.name else "v") + "_cache"][:, :, :self.first - self.case.n]
            state.state = self.openvino.Tensor(np.ascontiguousarray(rows))
        for index, tensor in enumerate((self.new[0], *self.last)):
            self.request.set_input_tensor(index, tensor)
        self.infer(self.masks[0])
        for index, tensor in enumerate(self.new):
            self.request.set_input_tensor(index, tensor)

    def run(self, calls):
        total = 0
        while calls > 0:
            self.begin()
            for mask in self.masks[1:calls + 1]:
                self.lost -= machine.waited_ns()
                start = time.perf_counter_ns()
                self.infer(mask)
                total += time.perf_counter_ns() - start
                self.lost += machine.waited_ns()
            calls -= self.steps
        return total

    def waited(self):
        return self.lost

    def output(self):
        """y of the case itself, by inferences of which those before it bring what the cache has there"""
        first, self.first = self.first, self.case.past
        last, n = self.last, self.case.n
        self.last = self.before(self.first)
        masks, self.masks = self.masks, [self.openvino.Tensor(self.mask(self.first - n))]
        self.begin()
        self.infer(self.openvino.Tensor(self.mask(self.first)))
        self.first, self.last, self.masks = first, last, masks
        return np.array(self.request.get_output_tensor(0).data)


class OpenVino(Peer):
    name = "openvino"
    formulations = ("sdpa", "standard", "plain", "stateful")
    typed = ("bf16", "compressed", "compressed-32", "static")

    def kinds(self, formulation):
        return CACHED if formulation == "stateful" else frozenset(("block",))

    def why_not(self, case, formulation, threads):
        if formulation == "stateful":
            if case.past is None or not case.projected:
                return "for layers with a cache, queries, keys and values given"
            if case.scale != 1 / math.sqrt(case.d_k):
                return "the operator takes a scale only with a mask"
            return "a state of so few tokens" if case.past < 2 * case.n else None
        sdpa = formulation == "sdpa" or formulation in self.typed
        if sdpa and case.h_kv != case.h:
            return "the operator has no grouped heads"
        return onnx_graph.why_not(case, "standard" if sdpa else formulation)

    def load(self):
        import onnx  # noqa: F401
        import openvino  # noqa: F401

    def versions(self):
        import openvino
        return {"openvino": openvino.__version__.split("-")[0]}

    def prepare(self, job, tensors, formulation):
        import openvino
        core = openvino.Core()
        if formulation == "stateful":
            model = _stateful_model(openvino, job.case)
        elif formulation in ("sdpa", "bf16"):
            model = _sdpa_model(openvino, job.case, tensors)
        elif formulation == "static":
            z = layers.attended(job.case, tensors)
            ends = [(float(of.min()), float(of.max())) for of in (*[tensors["x"]] * 3, z)]
            model = _sdpa_model(openvino, job.case, tensors, static(iter(ends)))
        elif formulation in self.typed:
            model = _sdpa_model(openvino, job.case, tensors, compressed)
        else:
            model = core.read_model(onnx_graph.build(job.case, tensors, formulation))
        # operands are s8 too: with a scale for each row, or for each 32 numbers of one
        group = {"compressed": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": str(2 ** 64 - 1)},
                 "compressed-32": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": "32"}}.get(formulation, {})
        compiled = core.compile_model(model, "CPU", {
            **group, "INFERENCE_PRECISION_HINT": "bf16" if formulation == "bf16" else "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(job.threads), "KV_CACHE_PRECISION": "f32"})
        if formulation == "stateful":
            nodes = compiled.get_runtime_model().get_ordered_ops()
            kinds = {str(node.get_rt_info()["layerType"].value) for node in nodes}
            if "ScaledDotProductAttention" not in kinds or "Concatenation" in kinds:
                raise Unsupported("the plugin did not fuse the state: " + ", ".join(sorted(kinds)))
            return _Steps(openvino, compiled, job.case, tensors)
        request, case = compiled.create_infer_request(), job.case
        y = np.zeros((case.batch, case.n, case.d_out), np.float32)
        shared = [openvino.Tensor(tensors[name], shared_memory=True) for name in ("x", "source") if name in tensors]
        for index, tensor in enumerate(shared):
            request.set_input_tensor(index, tensor)
        request.set_output_tensor(0, openvino.Tensor(y, shared_memory=True))
        return Runner(request.infer, lambda: y, (core, compiled, shared))
