# SPDX-License-Identifier: MIT
"""The layer as an ONNX model, in several formulations; for the peers that read ONNX.

    plain        MatMul, Softmax, MatMul on [batch][h][n][d]: any layer
    standard     ai.onnx Attention (opset 23) between MatMul projections
    attention    com.microsoft.Attention: projections of q, k and v inside
    multihead    com.microsoft.MultiHeadAttention between MatMul projections
    grouped      com.microsoft.GroupQueryAttention between MatMul projections; rotary positions and sinks inside
    cached       the same with past and present keys and values, for layers that have a cache

Elsewhere rotary positions are RotaryEmbedding, norms RMSNormalization, and a sink is one more key, zero like its value, whose
score the mask brings.
"""
import numpy as np

from adapters.base import ALL_KINDS, CACHED

OPSET = 23


KINDS = {"plain": ALL_KINDS, "standard": ALL_KINDS, "grouped": ALL_KINDS, "cached": CACHED,
         "multihead": ALL_KINDS - {"softcap", "sink"}, "attention": frozenset(("alibi", "relative", "block"))}


def why_not(case, formulation):
    """None, or what keeps this formulation from expressing the layer."""
    c = case
    dense = not (c.split or c.tied or c.identity or c.w_o == "conv")
    if formulation == "plain":
        return None
    if formulation == "cached" and c.past is None:
        return "for layers with a cache"
    if formulation == "standard":
        return "projections of its own kind; see plain" if c.split or c.tied or c.identity or c.w_o == "conv" else None
    if not dense:
        return "the operator expects dense projections"
    if formulation in ("grouped", "cached"):
        if c.positional not in ({"causal"}, {"causal", "window"}) and not (c.relative and not c.positional) or c.cross:
            return "the operator is causal self-attention"
        if c.window[1] is not None and "window" in c.mask:
            return "the operator's window looks back only"
        return "the operator wants heads of a multiple of 8" if c.d_k % 8 or c.d_k != c.d_v else None
    if c.h_kv != c.h:
        return "the operator has no grouped heads"
    if formulation == "attention" and c.cross:
        return "the operator is self-attention"
    if c.positional - {"causal"}:
        return "the operator has only the causal mask"
    if "causal" in c.mask and c.n != c.m:
        return "the operator aligns a causal mask differently"
    return None


class _Graph:
    """Nodes and constants as they are added; every method returns the name of a value."""

    def __init__(self, onnx):
        self.onnx, self.nodes, self.constants, self.count = onnx, [], [], 0

    def constant(self, array):
        self.count += 1
        name = f"c{self.count}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def shape(self, *extents):
        return self.constant(np.array(extents, np.int64))

    def op(self, kind, *inputs, outputs=1, domain="", **attributes):
        self.count += 1
        names = [f"v{self.count}_{i}" for i in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0]


def _normed(g, c, tensors, of, which):
    """Norm of queries or keys, [batch][positions][heads d_k]."""
    heads, positions = (c.h, c.n) if which == "q" else (c.h_kv, c.m)
    y = g.op("Reshape", of, g.shape(c.batch, positions, heads, c.d_k))
    y = g.op("RMSNormalization", y, g.constant(tensors["g_" + which]), axis=-1, epsilon=c.norm_eps)
    return g.op("Reshape", y, g.shape(c.batch, positions, heads * c.d_k))


def _finish(g, c, tensors, of, which):
    """Norm and rotation."""
    heads, positions = (c.h, c.n) if which == "q" else (c.h_kv, c.m)
    of = _normed(g, c, tensors, of, which) if c.norm else of
    if c.rope:
        cos, sin = (g.constant(array.astype(np.float32)) for array in c.rope.turns(positions))
        rows = g.constant(np.tile(np.arange(positions, dtype=np.int64), (c.batch, 1)))
        of = g.op("RotaryEmbedding", of, cos, sin, rows, num_heads=heads, interleaved=int(c.rope.kind == "interleaved"),
                  rotary_embedding_dim=c.rope.dims if c.rope.dims < c.d_k else None)
    return of


def _mask(c, tensors):
    """What is added to scores, [1][1 or h][n][m, or m + 1 with a sink]; None: nothing."""
    mask = c.score_mask(tensors)
    if c.sink:
        mask = np.zeros((1, c.n, c.m), np.float32) if mask is None else mask
        mask = np.broadcast_to(mask, (c.h, c.n, c.m))
        mask = np.concatenate((mask, np.broadcast_to(tensors["sink"][:, None, None], (c.h, c.n, 1))), -1)
    return None if mask is None else mask[None]


def _attend_plain(g, c, tensors, x, source):
    """Z [batch][h][n][d_v], from matrix products."""
    group = c.h // c.h_kv

    def project(of, which, heads, width, positions, transposed):
        if c.projected or c.norm or c.rope:
            y = which if c.projected else g.op("MatMul", of, g.constant(tensors["w_" + which]))
            y = g.op("Add", y, g.constant(tensors["b_" + which])) if c.bias and not c.projected else y
            y = y if which == "v" else _finish(g, c, tensors, y, which)
            y = g.op("Mul", y, g.constant(np.float32(c.scale))) if which == "q" else y
            return split_heads(y, heads, width, positions, transposed)
        w, b = tensors["w_" + which], tensors.get("b_" + which)
        if which == "q" and not transposed:
            w, b = w * np.float32(c.scale), None if b is None else b * np.float32(c.scale)
        if c.split:
            part = (c.d_model if of == x else c.d_source) // c.h
            of = g.op("Reshape", of, g.shape(c.batch, positions, c.h, part))
            of = g.op("Transpose", of, perm=[0, 2, 1, 3])
            y = g.op("MatMul", of, g.constant(w))
            y = y if b is None else g.op("Add", y, g.constant(b.reshape(c.h, 1, width)))
            return g.op("Transpose", y, perm=[0, 1, 3, 2]) if transposed else y
        y = g.op("MatMul", of, g.constant(w))
        y = y if b is None else g.op("Add", y, g.constant(b))
        return split_heads(y, heads, width, positions, transposed)

    def split_heads(y, heads, width, positions, transposed):
        if c.heads_first: # [batch][heads][positions][width]; a group's query heads are rows of one matrix more
            y = y if group == 1 else g.op("Reshape", y, g.shape(c.batch, c.h_kv, heads // c.h_kv, positions, width))
            return g.op("Transpose", y, perm=[0, 1, 3, 2] if group == 1 else [0, 1, 2, 4, 3]) if transposed else y
        if group == 1:
            y = g.op("Reshape", y, g.shape(c.batch, positions, heads, width))
            return g.op("Transpose", y, perm=[0, 2, 3, 1] if transposed else [0, 2, 1, 3])
        y = g.op("Reshape", y, g.shape(c.batch, positions, c.h_kv, heads // c.h_kv, width))
        return g.op("Transpose", y, perm=[0, 2, 3, 4, 1] if transposed else [0, 2, 3, 1, 4])

    q = project(x, "q", c.h, c.d_k, c.n, False)
    k = project(source, "q" if c.tied else "k", c.h_kv, c.d_k, c.m, True)
    if not c.identity:
        v = project(source, "v", c.h_kv, c.d_v, c.m, False)
    elif c.split:
        v = g.op("Transpose", g.op("Reshape", source, g.shape(c.batch, c.m, c.h, c.d_v)), perm=[0, 2, 1, 3])
    else:
        v = g.op("Reshape", source, g.shape(c.batch, 1, c.m, c.d_v))
    if c.sink:
        ones = (c.batch, c.h_kv) + ((1,) if group > 1 else ())
        k = g.op("Concat", k, g.constant(np.zeros((*ones, c.d_k, 1), np.float32)), axis=-1)
        v = g.op("Concat", v, g.constant(np.zeros((*ones, 1, c.d_v), np.float32)), axis=-2)
    s = g.op("MatMul", q, k)
    if c.softcap:
        s = g.op("Tanh", g.op("Mul", s, g.constant(np.float32(1 / c.softcap))))
        s = g.op("Mul", s, g.constant(np.float32(c.softcap)))
    mask = _mask(c, tensors)
    if mask is not None:
        if group > 1 and mask.shape[1] > 1:
            mask = mask.reshape(1, c.h_kv, group, *mask.shape[2:])
        s = g.op("Add", s, g.constant(mask))
    z = g.op("MatMul", g.op("Softmax", s, axis=-1), v)
    return z if group == 1 else g.op("Reshape", z, g.shape(c.batch, c.h, c.n, c.d_v))


def _attend_operator(g, c, tensors, x, source, formulation):
    """Z [batch][n][h d_v], from one of the attention operators."""
    def project(of, which):
        y = which if c.projected else g.op("MatMul", of, g.constant(tensors["w_" + which]))
        return g.op("Add", y, g.constant(tensors["b_" + which])) if c.bias and not c.projected else y

    bias = c.score_bias(tensors)
    bias = "" if bias is None else g.constant(bias[None].astype(np.float32))
    causal = int("causal" in c.mask)
    if formulation == "attention":
        w = np.concatenate([tensors["w_" + which] for which in "qkv"], -1)
        b = np.concatenate([tensors["b_" + which] for which in "qkv"]) if c.bias else np.zeros(w.shape[1], np.float32)
        sizes = None if c.d_k == c.d_v else [c.h * c.d_k, c.h * c.d_k, c.h * c.d_v]
        more = ["", "", bias] if bias else []
        return g.op("Attention", x, g.constant(w), g.constant(b), *more, domain="com.microsoft", num_heads=c.h,
                    scale=c.scale, unidirectional=causal, qkv_hidden_sizes=sizes)
    if formulation == "multihead":
        if c.norm or c.rope:
            q, k, v = (project(of, which) for which, of in (("q", x), ("k", source), ("v", source)))
            q, k, inside = _finish(g, c, tensors, q, "q"), _finish(g, c, tensors, k, "k"), ""
        else:
            q, k, v = (which if c.projected else g.op("MatMul", of, g.constant(tensors["w_" + which]))
                       for which, of in (("q", x), ("k", source), ("v", source)))
            inside = (g.constant(np.concatenate([tensors["b_" + which] for which in "qkv"]))
                      if c.bias and not c.projected else "")
        more = [inside, "", bias] if bias else [inside] if inside else []
        return g.op("MultiHeadAttention", q, k, v, *more, domain="com.microsoft", num_heads=c.h, scale=c.scale,
                    unidirectional=causal)
    q, k, v = project(x, "q"), project(source, "k"), project(source, "v")
    if formulation == "cached":
        last, total = (g.constant(array) for array in (np.full(c.batch, c.m - 1, np.int32), np.array(c.m, np.int32)))
        names = ["z", "k_present", "v_present"]
        g.nodes.append(g.onnx.helper.make_node(
            "GroupQueryAttention", [q, k, v, "k_cache", "v_cache", last, total], names, domain="com.microsoft",
            num_heads=c.h, kv_num_heads=c.h_kv, scale=c.scale))
        return "z"
    if formulation == "grouped":
        last = g.constant(np.full(c.batch, c.n - 1, np.int32))
        total = g.constant(np.array(c.n, np.int32))
        window = c.window[0] + 1 if "window" in c.mask and c.window[0] is not None else -1
        more, settings = [], {}
        if c.norm:  # q_norm_weight and k_norm_weight of the operator are not for the CPU
            q, k = _normed(g, c, tensors, q, "q"), _normed(g, c, tensors, k, "k")
        if c.kinds:
            turns = [g.constant(array.astype(np.float32)) for array in c.rope.turns(c.n)] if c.rope else ["", ""]
            more = [*turns, "", bias, g.constant(tensors["sink"]) if c.sink else ""]
            while more and not more[-1]:
                more.pop()
            settings = {"softcap": c.softcap, "do_rotary": int(c.rope is not None),
                        "rotary_interleaved": int(c.rope is not None and c.rope.kind == "interleaved"),
                        "causal": None if causal else 0}
        return g.op("GroupQueryAttention", q, k, v, "", "", last, total, *more, outputs=3, domain="com.microsoft",
                    num_heads=c.h, kv_num_heads=c.h_kv, scale=c.scale, local_window_size=window, **settings)
    q, k = _finish(g, c, tensors, q, "q"), _finish(g, c, tensors, k, "k")
    only_causal = c.positional == {"causal"} and not (bias or c.sink)
    if bias or c.sink:
        mask = [g.constant(_mask(c, tensors))]
    else:
        mask = [g.constant(c.visible())] if c.positional and not only_causal else []
    if c.sink:
        k, v = (g.op("Concat", of, g.constant(np.zeros((c.batch, 1, c.h_kv * width), np.float32)), axis=1)
                for of, width in ((k, c.d_k), (v, c.d_v)))
    heads = {} if c.heads_first else {"q_num_heads": c.h, "kv_num_heads": c.h_kv}
    return g.op("Attention", q, k, v, *mask, **heads, scale=c.scale,
                is_causal=int(only_causal), softcap=c.softcap)


def _attention(g, c, tensors, x, formulation):
    """The attention of the rows x, to behind W_O."""
    source = "source" if c.cross else x
    if formulation == "plain":
        z = _attend_plain(g, c, tensors, x, source)
        if c.w_o != "conv" and not c.heads_first:
            z = g.op("Reshape", g.op("Transpose", z, perm=[0, 2, 1, 3]), g.shape(c.batch, c.n, c.h * c.d_v))
    else:
        z = _attend_operator(g, c, tensors, x, source, formulation)
    if c.w_o == "dense":
        z = g.op("MatMul", z, g.constant(tensors["w_o"]))
        z = g.op("Add", z, g.constant(tensors["b_o"])) if c.bias else z
    elif c.w_o == "conv":  # [h][tap][d_v][d] -> [h d][d_v][tap]
        d = c.d_model // c.h
        w = tensors["w_o"].transpose(0, 3, 2, 1).reshape(c.h * d, c.d_v, c.conv_width)
        left = c.conv_width - 1 if "causal" in c.mask else (c.conv_width - 1) // 2
        z = g.op("Reshape", g.op("Transpose", z, perm=[0, 1, 3, 2]), g.shape(c.batch, c.h * c.d_v, c.n))
        bias = [g.constant(tensors["b_o"])] if c.bias else []
        z = g.op("Conv", z, g.constant(w), *bias, group=c.h, pads=[left, c.conv_width - 1 - left])
        z = g.op("Transpose", z, perm=[0, 2, 1])
    return z


def _block(g, c, tensors, attend):
    """Norms, residual sums and a feed-forward around attend(rows)."""
    block = c.block

    def norm(number, of):
        weights = [g.constant(tensors[f"n{number}_{which}"]) for which in ("g" if block.rms else "gb")]
        return g.op("RMSNormalization" if block.rms else "LayerNormalization", of, *weights, axis=-1, epsilon=block.eps)

    def product(which, of):
        y = g.op("MatMul", of, g.constant(tensors["w_" + which]))
        return g.op("Add", y, g.constant(tensors["b_" + which])) if block.bias else y

    def activate(of):
        if block.activation == "silu":
            return g.op("Mul", of, g.op("Sigmoid", of))
        if block.activation == "relu":
            return g.op("Relu", of)
        return g.op("Gelu", of, approximate="tanh" if block.activation == "gelu_tanh" else "none")

    add, multiply = (lambda a, b, kind=kind: g.op(kind, a, b) for kind in ("Add", "Mul"))
    return block.around("x", attend, norm, lambda of: block.feed(of, product, activate, multiply), add)


def build(case, tensors, formulation):
    """The model, serialized. Inputs: x, and source in cross-attention; output: y. All shapes are constant."""
    import onnx
    c, g = case, _Graph(onnx)
    attend = lambda of: _attention(g, c, tensors, of, formulation)
    z = _block(g, c, tensors, attend) if c.block else attend("x")
    g.nodes.append(onnx.helper.make_node("Identity", [z], ["y"]))
    value = lambda name, *shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    if c.projected:
        new = c.m if c.past is None else c.n
        sizes = (("q", c.h, c.n, c.d_k), ("k", c.h_kv, new, c.d_k), ("v", c.h_kv, new, c.d_v))
        inputs = [value("q", c.batch, c.n, c.h * c.d_k), value("k", c.batch, new, c.h_kv * c.d_k),
                  value("v", c.batch, new, c.h_kv * c.d_v)]
        inputs = [value(name, c.batch, *shape) for name, *shape in sizes] if c.heads_first else inputs
    else:
        inputs = [value("x", c.batch, c.n, c.d_model)] + ([value("source", c.batch, c.m, c.d_source)] if c.cross else [])
    outputs = [value("y", c.batch, c.h, c.n, c.d_v) if c.heads_first else value("y", c.batch, c.n, c.d_out)]
    if formulation == "cached":
        inputs += [value(letter + "_cache", c.batch, c.h_kv, c.cache_len, c.d_k) for letter in "kv"]
        outputs += [value(letter + "_present", c.batch, c.h_kv, c.cache_len, c.d_k) for letter in "kv"]
    graph = onnx.helper.make_graph(g.nodes, c.name, inputs, outputs, g.constants)
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    if formulation in ("attention", "multihead", "grouped", "cached"):
        opsets.append(onnx.helper.make_opsetid("com.microsoft", 1))
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 11  # the version that goes with opset 23
    return model.SerializeToString()
