# SPDX-License-Identifier: MIT
"""The systems of `make bench-models`, and the process that runs one of them for one model and a number of threads.

    systems.py SYSTEM ABOUT.json      reads requests, a line of JSON each, and answers so, by the file descriptor of `about`

A system has load(about), then prepare(case, inputs) for each case: (before or None, call, output). before() is not timed: it
sets a cache back; call() is; output() gives hidden states [batch][n][d], logits [batch][classes] or, of a decoder, those of the
last token. Each library is imported in load(), so that memory is counted from before it.
"""
import ctypes
import gc
import json
import mmap
import os
import socket
import sys
import time
import traceback

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "peers")]

import cases  # noqa: E402
import graphs  # noqa: E402
import machine  # noqa: E402
import llama_cpp  # noqa: E402


ENCODERS = ("bert", "modernbert", "vit")


class System:
    """WAYS: in f32. TYPED: in fewer bits."""
    TYPED = ()
    environment = {}      # of the process
    largest_error = 1e-4  # of its output in f32, of the largest number
    rms_error = 0.7       # in fewer bits, of the root mean square: numbers that have nothing in common are off by 1.4

    def __init__(self, way):
        self.way = way  # one of them

    @classmethod
    def why_not(cls, family, way):
        """None, or what keeps the library from a model."""
        return None

    def each(self):
        """Whether its logits of each token are worth computing: not of ways that differ from another by speed alone."""
        return True


class Reference(System):
    """transformers in double: what errors are beside. Its norms by root mean squares, rotation and patches round to f32."""
    WAYS = ("double",)

    def load(self, about):
        import torch
        torch.set_grad_enabled(False)
        self.torch, self.family = torch, about["checkpoint"].family
        self.model = transformers_model(about["checkpoint"]).double()

    def prepare(self, case, inputs):
        torch, keep = self.torch, {}
        if self.family == "vit":
            given = {"pixel_values": torch.from_numpy(inputs["pixels"]).double()}
        else:
            given = {"input_ids": torch.from_numpy(inputs["ids"].astype(np.int64))}
            given["attention_mask"] = (torch.arange(case.past + case.n) < torch.from_numpy(inputs["lengths"])[:, None]).long() \
                if case.shortest else None
        if self.family in ("gpt2", "llama"):
            given.update(use_cache=False, logits_to_keep=0 if case.every else 1)

        def call():
            keep["y"] = self.model(**given)

        return None, call, lambda: torch_output(keep["y"], self.family, case)


# options of attngen import for ours in fewer bits, each with a folder of its own
OPTIONS = {"i16": ("--precision", "i16"), "bf16": ("--precision", "bf16"), "i8": ("--precision", "i8"),
           "w-bf16": ("--weight-type", "bf16"), "w-i8": ("--weight-type", "i8"), "w-i4": ("--weight-type", "i4"),
           "w-i8-cache-i8": ("--weight-type", "i8", "--cache-type", "i8")}


class Ours(System):
    """The packed file read into memory, huge pages where there are any; or `mapped`, as it lies in the page cache."""
    WAYS = ("read", "mapped")
    TYPED = tuple(OPTIONS)

    class Call(ctypes.Structure):
        _fields_ = [(name, ctypes.c_void_p) for name in ("ids", "lengths", "past", "pixels", "cache", "output", "every")] + \
                   [("batch", ctypes.c_size_t), ("n", ctypes.c_size_t)]

    def load(self, about):
        folder = os.path.join(about["folder"], self.way if self.way in self.TYPED else "")
        lib = self.lib = ctypes.CDLL(os.path.join(folder, "bench.so"))
        lib.bench_bytes.restype = ctypes.c_size_t
        lib.bench_open.argtypes = ctypes.c_void_p, ctypes.c_size_t
        lib.bench_run.argtypes = ctypes.c_void_p, ctypes.c_void_p
        if lib.bench_threads(ctypes.c_size_t(about["threads"]), (ctypes.c_int32 * about["threads"])(*about["cores"])) != 0:
            raise RuntimeError("no threads")
        packed, checkpoint = os.path.join(folder, "packed.bin"), about["checkpoint"]
        size = lib.bench_bytes(0)
        start = time.perf_counter()
        with open(packed, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self.file = np.frombuffer(mapped, np.uint8)
        if lib.bench_open(self.at(self.file), size) != 0:
            raise RuntimeError("the packed file does not open")
        self.facts = {"open_ms": 1e3 * (time.perf_counter() - start), "packed": size, "arena": lib.bench_bytes(2)}
        if self.way != "mapped":
            self.file = huge(size)
            with open(packed, "rb") as file:
                file.readinto(self.file)
            lib.bench_open(self.at(self.file), size)
        self.arena, self.model = huge(lib.bench_bytes(2)), checkpoint

    @classmethod
    def why_not(cls, family, way):
        return "no cache" if "cache" in way and family in ENCODERS else None

    @staticmethod
    def at(array):
        return None if array is None else array.ctypes.data

    def prepare(self, case, inputs):
        c, w = case, self.model
        cache = huge(c.batch * self.lib.bench_bytes(3)) if w.decodes else None
        past, ids = np.zeros(c.batch, np.int32), inputs.get("ids")
        width = w.config["vocab_size"] if w.decodes else w.sizes[0]
        output = np.zeros((c.batch, w["classifier.bias"].size) if w.family == "vit" else
                          (c.batch, width) if w.decodes else (c.batch, c.n, width), np.float32)
        every = np.zeros((c.n, width), np.float32) if c.every else None

        def run(some, n):
            call = self.Call(*map(self.at, (some, None if w.decodes else inputs.get("lengths"), past, inputs.get("pixels"),
                                            cache, output, every)), c.batch, n)
            return lambda: self.lib.bench_run(ctypes.addressof(call), self.at(self.arena))

        if c.past:
            first = np.ascontiguousarray(ids[:, :c.past])
            at = 0
            while at < c.past:
                n = min(512, c.past - at)
                some = np.ascontiguousarray(first[:, at:at + n])
                past[:] = at
                assert run(some, n)() == 0
                at += n
            past[:] = c.past
        new = np.ascontiguousarray(ids[:, c.past:]) if ids is not None else None
        call = run(new, c.n)
        return None, checked(call), lambda: (inputs, new, past, cache, output if every is None else every)[-1]


def huge(size):
    """Bytes that begin on 2 MiB, in huge pages where the system has them for whom asks."""
    memory = mmap.mmap(-1, size + (2 << 20), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(memory, np.uint8)
    return array[-array.ctypes.data % (2 << 20):][:size]


def checked(call):
    def checking():
        if call() != 0:
            raise RuntimeError("an error of the call")
    return checking


class OnnxRuntime(System):
    """Its own operators of attention, or plain products; bound inputs and outputs; a cache is one buffer, past and present."""
    WAYS, TYPED = ("operators", "plain"), ("dynamic", "nbits8", "nbits4")

    @classmethod
    def why_not(cls, family, way):
        return "decoders: by operators" if way == "plain" and family in ("gpt2", "llama") else None

    def load(self, about):
        import onnx
        import onnxruntime
        from adapters import onnx_graph, onnx_types
        onnxruntime.set_default_logger_severity(3)
        self.onnx, self.ort, self.graph, self.types, self.about = onnx, onnxruntime, onnx_graph, onnx_types, about
        self.version = onnxruntime.__version__

    def session(self, case, inputs):
        w, options = self.about["checkpoint"], self.ort.SessionOptions()
        g = graphs.Onnx(self.graph, self.onnx, case, inputs, w.decodes, self.way in ("operators", "dynamic") or w.decodes)
        options.intra_op_num_threads, options.inter_op_num_threads = self.about["threads"], 1
        options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        model = g.finish(graphs.FAMILIES[w.family](g, w))
        model = self.types.quantized(model, self.way) if self.way in self.TYPED else model
        session = self.ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding, held = session.io_binding(), []
        for given in session.get_inputs():
            name = given.name
            if name == "ids":
                array = inputs["ids"][:, case.past:].astype(np.int64)
            else:
                array = inputs[name] if name in inputs else np.zeros(given.shape, np.float32)
            value = self.ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            binding.bind_ortvalue_input(name, value)
            held.append(value)
            if w.decodes and name != "ids":
                binding.bind_ortvalue_output(name + "_now", value)
        binding.bind_output("y", "cpu")
        return session, binding, held

    def prepare(self, case, inputs):
        if case.past:  # keys and values of the tokens before
            import dataclasses
            before = dataclasses.replace(case, n=case.past, past=0)
            session, binding, held = self.session(before, {**inputs, "ids": inputs["ids"][:, :case.past]})
            session.run_with_iobinding(binding)
            rows = [np.array(of.numpy()) for of in held[1:]]  # copies: the memory goes with the session
            del session, binding, held
        session, binding, held = self.session(case, inputs)
        if case.past:
            for value, array in zip(held[1:], rows):
                full = np.zeros(value.shape(), np.float32)
                full[:, :, :case.past] = array
                value.update_inplace(full)
        return None, lambda: session.run_with_iobinding(binding), lambda: (held, binding.get_outputs()[-1].numpy())[1]


class OpenVino(System):
    """Its own operator of attention; keys and values of decoders are states that the plugin fuses with it."""
    WAYS, TYPED = ("sdpa",), ("bf16", "compressed", "compressed-32", "static")

    @classmethod
    def why_not(cls, family, way):
        return "ends of operands are found for encoders alone" if way == "static" and family in ("gpt2", "llama") else None

    def load(self, about):
        import openvino
        from adapters import open_vino
        self.openvino, self.types, self.about, self.core = openvino, open_vino, about, openvino.Core()
        self.version = openvino.__version__.split("-")[0]

    def request(self, case, inputs):
        w, product, more = self.about["checkpoint"], None, {}
        if self.way.startswith("compressed"):  # operands s8 with a scale for each row, or for each 32 numbers of one
            product = self.types.compressed
            more["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "32" if self.way == "compressed-32" else str(2 ** 64 - 1)
        elif self.way == "static":
            product = self.types.static(iter(self.ends(case, inputs)))
        g = graphs.OpenVino(self.openvino, case, inputs, w.decodes, product)
        precision = "bf16" if self.way == "bf16" else "f32"
        compiled = self.core.compile_model(g.finish(graphs.FAMILIES[w.family](g, w)), "CPU", {
            **more, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(self.about["threads"]), "KV_CACHE_PRECISION": precision})
        if w.decodes:
            kinds = {str(node.get_rt_info()["layerType"].value) for node in compiled.get_runtime_model().get_ordered_ops()}
            if "ScaledDotProductAttention" not in kinds:
                raise RuntimeError("the plugin did not fuse the state: " + ", ".join(sorted(kinds)))
        return compiled, compiled.create_infer_request(), list(g.parameters)

    def ends(self, case, inputs):
        """(least, most) of the rows of each product, in f32, in this very case."""
        import openvino.opset13 as ops
        rows, w = [], self.about["checkpoint"]

        def product(ops, constant, of, w):
            rows.append(of)
            return graphs.plain(ops, constant, of, w)
        g = graphs.OpenVino(self.openvino, case, inputs, w.decodes, product)
        graphs.FAMILIES[w.family](g, w)
        model = self.openvino.Model([ops.result(of) for of in rows], [], list(g.parameters.values()), "ends")
        compiled = self.core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = compiled([inputs["ids"] if "ids" in inputs else inputs["pixels"]])
        return [(float(found[i].min()), float(found[i].max())) for i in range(len(rows))]

    def given(self, request, names, ids, first):
        arrays = {"ids": ids, "positions": np.arange(first, first + ids.shape[1], dtype=np.int32)[None],
                  "beam": np.zeros(len(ids), np.int32)}
        for index, name in enumerate(names):
            request.set_input_tensor(index, self.openvino.Tensor(np.ascontiguousarray(arrays[name])))

    def prepare(self, case, inputs):
        import dataclasses
        decodes, ids = self.about["checkpoint"].decodes, inputs.get("ids")
        compiled, request, names = self.request(case, inputs)
        before = None
        if case.past:  # a state of one token less, then one inference that lets the library make room
            some, first, its_names = self.request(dataclasses.replace(case, n=case.past - 1, past=0), inputs)
            self.given(first, its_names, ids[:, :case.past - 1], 0)
            first.infer()
            states = {state.name: np.array(state.state.data) for state in first.query_state()}
            del some, first

            def before():
                for state in request.query_state():
                    state.state = self.openvino.Tensor(states[state.name])
                self.given(request, names, ids[:, case.past - 1:case.past], case.past - 1)
                request.infer()
                self.given(request, names, ids[:, case.past:], case.past)
        elif decodes:
            def before():
                request.reset_state()
            self.given(request, names, ids, 0)
        elif ids is not None:
            request.set_input_tensor(0, self.openvino.Tensor(np.ascontiguousarray(ids)))
        else:
            request.set_input_tensor(0, self.openvino.Tensor(inputs["pixels"]))
        return before, request.infer, lambda: (compiled, np.array(request.get_output_tensor(0).data, np.float32))[1]


def transformers_model(w):
    import torch
    import transformers as t
    kind = {"bert": t.BertModel, "modernbert": t.ModernBertModel, "vit": t.ViTForImageClassification, "gpt2": t.GPT2LMHeadModel,
            "llama": t.LlamaForCausalLM}[w.family]
    more = {"add_pooling_layer": False} if w.family == "bert" else {}
    return kind.from_pretrained(os.path.dirname(w.path), attn_implementation="sdpa", dtype=torch.float32, **more).eval()


def torch_output(y, family, case):
    y = y.last_hidden_state if family in ENCODERS[:2] else y.logits if case.every or family == "vit" else y.logits[:, -1]
    return y.double().numpy()


class Torch(System):
    """transformers with sdpa, as its authors call it. Decoders: a StaticCache as long as the case needs, or `dynamic`, a
    DynamicCache that is cropped. compiled: by torch.compile, weights frozen; tuned: with products of its own where they are
    faster than the library's (max_autotune). bf16: all of it, weights and cache too; int8: nn.Linear by quantize_dynamic."""
    WAYS, TYPED = ("eager", "dynamic", "compiled", "tuned"), ("bf16", "bf16-compiled", "int8")
    environment = {"OMP_PROC_BIND": "true", "TORCHINDUCTOR_FREEZING": "1", "HF_HUB_OFFLINE": "1",
                   "TRANSFORMERS_VERBOSITY": "error"}

    @classmethod
    def why_not(cls, family, way):
        if way == "int8" and family == "gpt2":
            return "its products are no nn.Linear"
        return "without a cache: eager" if way == "dynamic" and family in ENCODERS else None

    def each(self):
        return not self.compiles

    def load(self, about):
        import torch
        import transformers as t
        torch.set_num_threads(about["threads"])
        torch.set_grad_enabled(False)
        self.torch, self.t, w = torch, t, about["checkpoint"]
        self.model, self.type = transformers_model(w), torch.float32
        if self.way.startswith("bf16"):
            self.model, self.type = self.model.bfloat16(), torch.bfloat16
        elif self.way == "int8":
            mapping = {torch.nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig}
            torch.backends.quantized.engine = "x86"
            self.model = torch.ao.quantization.quantize_dynamic(self.model, mapping, dtype=torch.qint8)
        self.decodes, self.family = w.decodes, w.family
        self.compiles = self.way in ("compiled", "tuned", "bf16-compiled")
        if self.compiles:
            import torch._inductor.config as inductor
            inductor.freezing = True
            inductor.max_autotune = self.way == "tuned"
        self.version = f"{torch.__version__} and transformers {t.__version__}"

    def prepare(self, case, inputs):
        torch, model = self.torch, self.model
        torch._dynamo.reset()
        forward = torch.compile(model.forward, dynamic=False) if self.compiles else model.forward
        keep, before, given = {}, None, {}
        if self.family == "vit":
            given["pixel_values"] = torch.from_numpy(inputs["pixels"]).to(self.type)
        else:
            ids = torch.from_numpy(inputs["ids"].astype(np.int64))
            given["input_ids"] = ids[:, case.past:].contiguous()
        if case.shortest:
            given["attention_mask"] = (torch.arange(case.n) < torch.from_numpy(inputs["lengths"])[:, None]).long()
        if self.decodes:
            given.update(logits_to_keep=0 if case.every else 1, use_cache=True)
            if self.way == "dynamic":
                held = {}

                def before():
                    if case.past and "cache" in held:
                        held["cache"].crop(-1)
                        return
                    given["past_key_values"] = held["cache"] = self.t.DynamicCache(config=model.config)
                    if case.past:
                        model(ids[:, :case.past], past_key_values=held["cache"], use_cache=True, logits_to_keep=1)
            else:
                cache = given["past_key_values"] = self.t.StaticCache(config=model.config, max_cache_len=case.past + case.n)
                heads = model.config.num_attention_heads
                cache.early_initialization(case.batch, heads, model.config.hidden_size // heads, self.type, "cpu")
                if case.past:
                    model(ids[:, :case.past], past_key_values=cache, use_cache=True, logits_to_keep=1)

                def before():
                    for layer in cache.layers:
                        layer.cumulative_length.fill_(case.past)

        def call():
            keep["y"] = forward(**given)

        return before, call, lambda: torch_output(keep["y"], self.family, case)


class LlamaCpp(System):
    """Weights and cache in f32; softmax: products and soft_max, or flash attention. Sequences of several lengths come without
    padding; alone: one after the other; q8_0, q4_0: matrices of the layers, softmax. Its GELU is a table in f16 of the formula
    with tanh, for BERT too, hence a larger error."""
    WAYS, TYPED = ("softmax", "flash", "alone"), ("q8_0", "q4_0")
    largest_error = 5e-3
    environment = {"OMP_PROC_BIND": "true"}

    @classmethod
    def why_not(cls, family, way):
        if way == "alone" and family != "bert":
            return "one sequence"
        return None if family in llama_cpp.ARCHITECTURES else "llama.cpp has this model only in front of a language model"

    def load(self, about):
        self.lib, self.about = llama_cpp.Library(), about
        kind = self.way if self.way in self.TYPED else "f32"
        path = os.path.join(about["folder"], f"model-{kind}.gguf")
        if not os.path.exists(path):
            llama_cpp.write_gguf(about["checkpoint"], path, kind)
        self.model, self.context = self.lib.load(path), None
        import importlib.metadata
        self.version = "in xllamacpp " + importlib.metadata.version("xllamacpp")

    def prepare(self, case, inputs):
        lib, w, ids, c = self.lib, self.about["checkpoint"], inputs["ids"], case
        if self.context:
            lib.free(self.context)
        lengths = inputs["lengths"] if c.shortest else [c.past + c.n] * c.batch
        context = self.context = lib.context(self.model, max(int(sum(lengths)), 1), c.batch, self.about["threads"],
                                             self.way == "flash", not w.decodes)
        before = None
        if w.decodes:
            memory = lib.get_memory(context)

            def before():
                lib.memory_seq_rm(memory, 0, c.past, -1)
            if c.past:
                first = lib.batch(ids[:, :c.past], 0, False)
                if lib.decode(context, first) != 0:
                    raise RuntimeError("llama_decode failed")
        rows = [row[c.past:length] for row, length in zip(ids, lengths)]
        groups = [[row] for row in rows] if self.way == "alone" else [rows]
        batches = [lib.batch(group, c.past, not w.decodes or c.every) for group in groups]
        step, d = lib.decode if w.decodes else lib.encode, w.sizes[0]
        y = np.zeros((c.batch, c.n, d), np.float32)

        def call():
            for batch in batches:
                if step(context, batch) != 0:
                    raise RuntimeError("the call failed")
                lib.synchronize(context)

        def output():
            if c.every:
                return np.stack([np.ctypeslib.as_array(lib.get_logits_ith(context, i), (w.config["vocab_size"],))
                                 for i in range(c.n)])
            if w.decodes:
                return np.ctypeslib.as_array(lib.get_logits_ith(context, -1), (w.config["vocab_size"],)).copy()[None]
            sequences = iter(y)
            for group, batch in zip(groups, batches):
                step(context, batch)
                at = 0
                for row, into in zip(group, sequences):
                    for t in range(len(row)):
                        into[t] = np.ctypeslib.as_array(lib.get_embeddings_ith(context, at), (d,))
                        at += 1
            return y

        return before, call, output


ORIGIN = "transformers"  # no system that is timed
SYSTEMS = {"attngen": Ours, "ONNX Runtime": OnnxRuntime, "OpenVINO": OpenVino, "PyTorch": Torch, "llama.cpp": LlamaCpp}
FIRST_CALLS = 2


def measure(before, call, seconds, threads):
    """ms of each call, as many as fill the time, the first one for nothing. With one thread, what time others had its core is
    not counted."""
    times = []
    while len(times) < 2 or sum(times) < 1e3 * seconds:
        if before:
            before()
        waited = machine.waited_ns()
        start = time.perf_counter_ns()
        call()
        taken = time.perf_counter_ns() - start
        times.append(1e-6 * (taken - (machine.waited_ns() - waited if threads == 1 else 0)))
    return times[1:]


def main():
    name, way = sys.argv[1].split("/")
    with open(sys.argv[2], encoding="utf-8") as file:
        about = json.load(file)
    wire = socket.socket(fileno=int(sys.argv[3])).makefile("rw", encoding="utf-8")
    about["checkpoint"] = cases.Checkpoint(about["model"])
    start, system, ready = machine.memory()["VmRSS"], {**SYSTEMS, ORIGIN: Reference}[name](way), None

    def answer(**fields):
        wire.write(json.dumps(fields) + "\n")
        wire.flush()

    try:
        begun = time.perf_counter()
        system.load(about)
        answer(load_s=time.perf_counter() - begun, version=getattr(system, "version", ""), facts=getattr(system, "facts", {}))
    except Exception as error:  # whatever a library throws becomes a row of the table
        traceback.print_exc()
        return answer(error=f"{type(error).__name__}: {error}"[:300])
    for line in wire:
        request = json.loads(line)
        try:
            if "case" in request:
                ready = None
                gc.collect()
                case = cases.CASES[request["case"]]
                if case.every and not system.each():
                    answer(memory=0)
                    continue
                ready = system.prepare(case, cases.inputs(case, about["checkpoint"]))
                about["checkpoint"].forget()
                gc.collect()
                machine.reset_memory_peak()
                for _ in range(1 if case.every or name == ORIGIN else FIRST_CALLS):
                    if ready[0]:
                        ready[0]()
                    ready[1]()
                np.save(request["output"], ready[2]())
                answer(memory=machine.memory()["VmHWM"] - start)
            else:
                answer(ms=measure(*ready[:2], request["seconds"], about["threads"]))
        except Exception as error:
            traceback.print_exc()
            answer(error=f"{type(error).__name__}: {error}"[:300])


if __name__ == "__main__":
    sys.stdout.flush()
    os.dup2(2, 1)  # what libraries print belongs into the log
    main()
    os._exit(0)  # no library gets the chance to hang in its destructors
