# SPDX-License-Identifier: MIT
"""ggml's CPU backend: one graph for the layer, in the memory that its own allocator plans.

The library is the one of llama-cpp-python, if `install.sh … ggml-native` has built that for this machine, else the one
inside xllamacpp: built for AVX2, with llamafile's sgemm. Both are Python packages of llama.cpp. It is called
through its C interface (ggml.h, ggml-alloc.h, ggml-backend.h, ggml-cpu.h). Sizes stand as ggml writes them, innermost first.
"""
import ctypes
import glob
import importlib.util
import math
import os

import numpy as np

from adapters.base import ALL_KINDS, CACHED, Peer, Runner

F32, F16, I32 = 0, 1, 26  # enum ggml_type
WEIGHTS = {"q8_0": (8, 34), "q4_0": (2, 18)}  # of weights: that, and the bytes of 32 numbers with their scale
TYPES = {"float32": F32, "float16": F16, "int32": I32}
ADJACENT, HALVES = 0, 2   # modes of rope_ext: pairs of neighbours, or GGML_ROPE_TYPE_NEOX
LARGEST_BIAS = 8     # ALiBi's slopes begin at 2^-(8/h)
PRECISE = 10         # GGML_PREC_F32
MASK_ROWS = 64       # flash attention wants rows of its mask in multiples of it
TENSORS = 256        # in a graph, more than any layer here has
FEATURES = ("avx2", "avx512", "avx512_vnni", "fma", "llamafile")  # what the build has, for the table of versions

_pointer, _int, _long, _size, _float = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t, ctypes.c_float


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", _size), ("mem_buffer", _pointer), ("no_alloc", ctypes.c_bool)]


# function -> (result, arguments)
_FUNCTIONS = {
    "init": (_pointer, (InitParams,)),
    "tensor_overhead": (_size, ()),
    "graph_overhead": (_size, ()),
    "version": (ctypes.c_char_p, ()),
    "new_tensor_4d": (_pointer, (_pointer, _int, _long, _long, _long, _long)),
    "view_4d": (_pointer, (_pointer, _pointer, _long, _long, _long, _long, _size, _size, _size, _size)),
    "reshape_4d": (_pointer, (_pointer, _pointer, _long, _long, _long, _long)),
    "cont_4d": (_pointer, (_pointer, _pointer, _long, _long, _long, _long)),
    "cont": (_pointer, (_pointer, _pointer)),
    "cpy": (_pointer, (_pointer, _pointer, _pointer)),
    "permute": (_pointer, (_pointer, _pointer, _int, _int, _int, _int)),
    "mul_mat": (_pointer, (_pointer, _pointer, _pointer)),
    "add": (_pointer, (_pointer, _pointer, _pointer)),
    "rms_norm": (_pointer, (_pointer, _pointer, _float)),
    "norm": (_pointer, (_pointer, _pointer, _float)),
    "relu": (_pointer, (_pointer, _pointer)),
    "silu": (_pointer, (_pointer, _pointer)),
    "gelu": (_pointer, (_pointer, _pointer)),
    "gelu_erf": (_pointer, (_pointer, _pointer)),
    "mul": (_pointer, (_pointer, _pointer, _pointer)),
    "scale": (_pointer, (_pointer, _pointer, _float)),
    "tanh": (_pointer, (_pointer, _pointer)),
    "rope_ext": (_pointer, (_pointer, _pointer, _pointer, _pointer, _int, _int, _int, *(_float,) * 6)),
    "gated_delta_net": (_pointer, (*(_pointer,) * 7, _long)),
    "soft_max_add_sinks": (None, (_pointer, _pointer)),
    "flash_attn_ext_add_sinks": (None, (_pointer, _pointer)),
    "soft_max_ext": (_pointer, (_pointer, _pointer, _pointer, _float, _float)),
    "flash_attn_ext": (_pointer, (_pointer, _pointer, _pointer, _pointer, _pointer, _float, _float, _float)),
    "flash_attn_ext_set_prec": (None, (_pointer, _int)),
    "set_output": (None, (_pointer,)),
    "quantize_chunk": (_size, (_int, _pointer, _pointer, _long, _long, _long, _pointer)),
    "new_graph": (_pointer, (_pointer,)),
    "build_forward_expand": (None, (_pointer, _pointer)),
    "gallocr_new": (_pointer, (_pointer,)),
    "gallocr_alloc_graph": (ctypes.c_bool, (_pointer, _pointer)),
    "backend_alloc_ctx_tensors": (_pointer, (_pointer, _pointer)),
    "backend_tensor_set": (None, (_pointer, _pointer, _size, _size)),
    "backend_tensor_get": (None, (_pointer, _pointer, _size, _size)),
    "backend_graph_compute": (_int, (_pointer, _pointer)),
    "backend_cpu_init": (_pointer, ()),
    "backend_cpu_buffer_type": (_pointer, ()),
    "backend_cpu_set_n_threads": (None, (_pointer, _int)),
    **{f"cpu_has_{feature}": (_int, ()) for feature in FEATURES},
}


# package -> its files that have ggml. llama_cpp is built from source for this machine, if it is there.
_PACKAGES = {"llama_cpp": "lib/libggml*.so", "xllamacpp": "xllamacpp*.so"}


def _files():
    for name, pattern in _PACKAGES.items():
        package = importlib.util.find_spec(name)
        found = sorted(glob.glob(os.path.join(package.submodule_search_locations[0], pattern))) if package else []
        if found:
            return found
    raise ImportError("neither llama_cpp nor xllamacpp has a library of ggml")


class Library:
    """The functions above, without their prefix ggml_."""

    def __init__(self):
        try:
            libraries = [ctypes.CDLL(file) for file in _files()]
        except OSError as error:  # libgomp.so.1 is the system's
            raise ImportError(str(error)) from error
        for name, (result, arguments) in _FUNCTIONS.items():
            holders = [library for library in libraries if hasattr(library, "ggml_" + name)]
            if not holders:
                raise ImportError("no ggml_" + name)
            function = getattr(holders[0], "ggml_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def features(self):
        return " ".join(name for name in FEATURES if getattr(self, "cpu_has_" + name)())


class _Layer:
    """The graph of one case, ready to be computed."""

    def __init__(self, ggml, case, tensors, threads, flash, weights=None):
        self.ggml, self.case, self.flash, self.loads, self.weights = ggml, case, flash, [], weights
        self.held, self.graph_context = self.context(), self.context()
        self.backend = ggml.backend_cpu_init()
        ggml.backend_cpu_set_n_threads(self.backend, threads)
        self.tensors, self.appends = tensors, []
        self.y = self.build()
        if not ggml.backend_alloc_ctx_tensors(self.held, self.backend):
            raise MemoryError("weights")
        for tensor, array in self.loads:
            ggml.backend_tensor_set(tensor, array.ctypes.data, 0, array.nbytes)
        self.loads = self.tensors = None
        ggml.set_output(self.y)
        self.graph = ggml.new_graph(self.graph_context)
        for append in self.appends:  # before what reads them
            ggml.build_forward_expand(self.graph, append)
        ggml.build_forward_expand(self.graph, self.y)
        self.memory = ggml.gallocr_new(ggml.backend_cpu_buffer_type())
        if not ggml.gallocr_alloc_graph(self.memory, self.graph):
            raise MemoryError("graph")

    def context(self):
        size = TENSORS * self.ggml.tensor_overhead() + self.ggml.graph_overhead()
        return self.ggml.init(InitParams(size, None, True))

    def own(self, array, *sizes):
        """A tensor with the numbers of `array`."""
        array = np.ascontiguousarray(array)
        tensor = self.ggml.new_tensor_4d(self.held, TYPES[array.dtype.name], *sizes, *(1,) * (4 - len(sizes)))
        self.loads.append((tensor, array))
        return tensor

    def matrix(self, w, rows, columns):
        """The matrix [out][in] = [columns][rows] in the type of weights."""
        if self.weights is None:
            return self.own(w, rows, columns)
        kind, size = WEIGHTS[self.weights]
        w, packed = np.ascontiguousarray(w, np.float32), np.empty(rows * columns // 32 * size, np.uint8)
        self.ggml.quantize_chunk(kind, w.ctypes.data, packed.ctypes.data, 0, columns, rows, None)
        tensor = self.ggml.new_tensor_4d(self.held, kind, rows, columns, 1, 1)
        self.loads.append((tensor, packed))
        return tensor

    def transposed(self, *letters):
        """[in, out], or [in, out, h] where every head has a matrix: of several projections, side by side."""
        w = np.concatenate([self.tensors["w_" + letter] for letter in letters], -1)
        if w.ndim == 2:
            return self.matrix(w.T, *w.shape)
        return self.own(w.swapaxes(-1, -2), w.shape[-2], w.shape[-1], *w.shape[:-2])

    def bias(self, *letters):
        if not self.case.bias:
            return None
        b = np.concatenate([self.tensors["b_" + letter] for letter in letters])
        return self.own(b, b.size // self.case.h, 1, self.case.h) if self.case.split else self.own(b, b.size)

    def product(self, of, *letters):
        context, ggml = self.graph_context, self.ggml
        y = ggml.mul_mat(context, self.transposed(*letters), of)
        b = self.bias(*letters)
        return y if b is None else ggml.add(context, y, b)

    def heads(self, of, width, heads, positions, row, first):
        """[width, heads, positions, batch]: numbers `first` ... of each row of `of`, which are `row` apart."""
        return self.ggml.view_4d(self.graph_context, of, width, heads, positions, self.case.batch, 4 * width, 4 * row,
                                 4 * row * positions, 4 * first)

    def finish(self, of, letter, positions):
        """Norm and rotation of queries or keys, [d_k, heads, positions, batch]."""
        c, ggml, context = self.case, self.ggml, self.graph_context
        if letter == "v":
            return of
        if c.norm:
            gain = self.own(self.tensors["g_" + letter], c.d_k)
            of = ggml.mul(context, ggml.rms_norm(context, of, c.norm_eps), gain)
        if c.rope:
            theta = 10000.0  # frequencies are 1 / (theta^(2c/dims) factor[c])
            plain = theta ** (-2.0 * np.arange(c.rope.dims // 2) / c.rope.dims)
            factors = self.own((plain / np.array(c.rope.frequencies)).astype(np.float32), c.rope.dims // 2)
            of = ggml.rope_ext(context, of, self.own(np.arange(positions, dtype=np.int32), positions), factors, c.rope.dims,
                               HALVES if c.rope.kind == "half" else ADJACENT, 0, theta, 1, 0, c.rope.magnitude, 0, 0)
        return of

    def project(self, x, source):
        """q, k, v: [width, positions, heads, batch] each."""
        c, ggml, context = self.case, self.ggml, self.graph_context
        swap = lambda of: ggml.permute(context, of, 0, 2, 1, 3)
        new = c.m if c.past is None else c.n
        if c.projected:
            given = {"q": (c.d_k, c.h, c.n), "k": (c.d_k, c.h_kv, new), "v": (c.d_v, c.h_kv, new)}
            return [swap(self.finish(self.own(self.tensors[letter], *sizes, c.batch), letter, sizes[-1]))
                    for letter, sizes in given.items()]
        q_is_k = c.tied and not c.cross
        if c.split:  # llamafile's sgemm takes a second operand that is contiguous
            parts = lambda of, positions, d: swap(self.heads(of, d // c.h, c.h, positions, d, 0))
            rows, source_rows = parts(x, c.n, c.d_model), parts(source, c.m, c.d_source)
            x = ggml.cont(context, rows)
            source = ggml.cont(context, source_rows) if c.cross else x
            q = self.product(x, "q")
            return (q, q if q_is_k else self.product(source, "q" if c.tied else "k"),
                    source_rows if c.identity else self.product(source, "v"))
        widths = {"q": (c.d_k, c.h, c.n), "k": (c.d_k, c.h_kv, new), "v": (c.d_v, c.h_kv, new)}
        if not (c.cross or c.tied or c.identity):
            row = sum(width * heads for width, heads, _ in widths.values())
            joint, first, out = self.product(x, *"qkv"), 0, []
            for letter, (width, heads, positions) in widths.items():
                part = self.heads(joint, width, heads, positions, row, first)
                out.append(swap(self.finish(part, letter, positions)))
                first += width * heads
            return out

        def part(of, which, letter):
            width, heads, positions = widths[which]
            y = self.heads(self.product(of, letter), width, heads, positions, width * heads, 0)
            return swap(self.finish(y, letter, positions))

        q = part(x, "q", "q")
        return (q, q if q_is_k else part(source, "k", "q" if c.tied else "k"),
                swap(self.heads(source, c.d_v, 1, c.m, c.d_v, 0)) if c.identity else part(source, "v", "v"))

    def cached(self, letter, new):
        """The keys or values of a cache, the new ones behind them: a view. Without flash attention values lie feature
        by feature, [d_v][cache_len] of each head, as llama.cpp has them."""
        c, ggml, context = self.case, self.ggml, self.graph_context
        rows = self.tensors[letter + "_cache"]
        across = letter == "v" and not self.flash
        rows_or_columns = rows.swapaxes(-1, -2) if across else rows
        held = self.own(rows_or_columns, *rows_or_columns.shape[:1:-1], c.h_kv, c.batch)
        row = 4 * (c.cache_len if across else rows.shape[-1])
        head = 4 * c.cache_len * rows.shape[-1]

        def view(first, count):
            sizes, at = ((count, c.d_v), 4 * first) if across else ((rows.shape[-1], count), row * first)
            return ggml.view_4d(context, held, *sizes, c.h_kv, c.batch, row, head, head * c.h_kv, at)

        new = ggml.permute(context, new, 1, 0, 2, 3) if across else new
        self.appends.append(ggml.cpy(context, new, view(c.past, c.n)))
        return view(0, c.m)

    def mask(self):
        """([1 or h][n][m] or None, the largest bias): what is added to scores. ALiBi's slopes are the library's."""
        c = self.case
        if not c.alibi:
            return c.score_mask(self.tensors), 0
        distances = np.abs((c.past or 0) + np.arange(c.n)[:, None] - np.arange(c.m)[None, :])
        return np.where(c.visible(), -distances, -np.inf).astype(np.float32)[None], LARGEST_BIAS

    def attend(self, q, k, v):
        """[d_v, h, n, batch], its heads side by side."""
        c, ggml, context = self.case, self.ggml, self.graph_context
        mask, alibi = self.mask()
        if c.past is not None:
            k, v = self.cached("k", k), self.cached("v", v)
            mask = None if c.n == 1 else mask
        sink = self.own(self.tensors["sink"], c.h) if c.sink else None
        if self.flash:
            if mask is not None:
                rows = math.ceil(c.n / MASK_ROWS) * MASK_ROWS
                mask = np.pad(mask, ((0, 0), (0, rows - c.n), (0, 0))).astype(np.float16)
                mask = self.own(mask, c.m, rows, len(mask))
            z = ggml.flash_attn_ext(context, q, k, v, mask, c.scale, alibi, c.softcap or 0)
            ggml.flash_attn_ext_set_prec(z, PRECISE)
            if sink:
                ggml.flash_attn_ext_add_sinks(z, sink)
            return z
        mask = None if mask is None else self.own(mask, c.m, c.n, len(mask))
        s, scale = ggml.mul_mat(context, k, ggml.cont(context, q)), c.scale
        if c.softcap:
            s = ggml.scale(context, ggml.tanh(context, ggml.scale(context, s, scale / c.softcap)), c.softcap)
            scale = 1
        a = ggml.soft_max_ext(context, s, mask, scale, alibi)
        if sink:
            ggml.soft_max_add_sinks(a, sink)
        v = v if c.past is not None else ggml.cont(context, ggml.permute(context, v, 1, 0, 2, 3))
        z = ggml.mul_mat(context, v, a)
        return ggml.permute(context, z, 0, 2, 1, 3)

    def build(self):
        c, ggml, context = self.case, self.ggml, self.graph_context
        x = None if c.projected else self.own(self.tensors["x"], c.d_model, c.n, c.batch)
        source = self.own(self.tensors["source"], c.d_source, c.m, c.batch) if c.cross else None
        attention = lambda of: self.attention(of, source or of)
        return self.block(x, attention) if c.block else attention(x)

    def block(self, x, attention):
        """Norms, residual sums and a feed-forward around attention(rows)."""
        c, block, ggml, context = self.case, self.case.block, self.ggml, self.graph_context

        def norm(number, of):
            y = (ggml.rms_norm if block.rms else ggml.norm)(context, of, block.eps)
            y = ggml.mul(context, y, self.own(self.tensors[f"n{number}_g"], c.d_model))
            return y if block.rms else ggml.add(context, y, self.own(self.tensors[f"n{number}_b"], c.d_model))

        def product(which, of):
            y = ggml.mul_mat(context, self.transposed(which), of)
            return ggml.add(context, y, self.own(self.tensors["b_" + which], len(self.tensors["b_" + which]))) if block.bias else y

        activate = {"relu": ggml.relu, "silu": ggml.silu, "gelu": ggml.gelu_erf, "gelu_tanh": ggml.gelu}.get(block.activation)
        add, multiply = (lambda a, b, by=by: by(context, a, b) for by in (ggml.add, ggml.mul))
        feed = lambda of: block.feed(of, product, lambda of: activate(context, of), multiply)
        return block.around(x, attention, norm, feed, add)

    def attention(self, x, source):
        c, ggml, context = self.case, self.ggml, self.graph_context
        z = self.attend(*self.project(x, source))
        z = (ggml.reshape_4d if self.flash else ggml.cont_4d)(context, z, c.h * c.d_v, c.n, c.batch, 1)
        if c.w_o == "none":
            return z
        y = ggml.mul_mat(context, self.matrix(self.tensors["w_o"].T, c.h * c.d_v, c.d_model), z)
        return ggml.add(context, y, self.own(self.tensors["b_o"], c.d_model)) if c.bias else y

    def compute(self):
        if self.ggml.backend_graph_compute(self.backend, self.graph) != 0:
            raise RuntimeError("the graph was not computed")

    def output(self):
        y = np.empty((self.case.batch, self.case.n, self.case.d_out), np.float32)
        self.ggml.backend_tensor_get(self.y, y.ctypes.data, 0, y.nbytes)
        return y


class Ggml(Peer):
    name = "ggml"
    formulations = ("softmax", "flash")
    typed = ("q8_0-softmax", "q8_0-flash", "q4_0-softmax", "q4_0-flash")

    def environment(self, threads, cpu):
        return {"OMP_PROC_BIND": "true"}

    def kinds(self, formulation):
        return ALL_KINDS | CACHED

    def why_not(self, case, formulation, threads):
        if case.alibi and case.relative:
            return "ALiBi takes the mask's place for other biases"
        if case.w_o == "conv":
            return "it has no grouped convolution over positions"
        if formulation in self.typed and (case.split or case.d_model % 32 or case.h * case.d_v % 32):
            return "groups are 32 numbers of a dense matrix"
        if formulation == "flash" and case.identity and not case.split and case.h_kv != 1:
            return "flash attention has as many heads of values as of keys"
        return None

    def load(self):
        self.ggml = Library()

    def versions(self):
        return {"ggml": f"{self.ggml.version().decode()} ({self.ggml.features()})"}

    def prepare(self, job, tensors, formulation):
        weights, _, attend = formulation.rpartition("-")
        layer = _Layer(self.ggml, job.case, tensors, job.threads, attend == "flash", weights or None)
        return Runner(layer.compute, layer.output, (layer,))
