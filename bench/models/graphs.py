# SPDX-License-Identifier: MIT
"""The models as graphs for ONNX Runtime and OpenVINO: each family once, over a vocabulary that both have.

A vocabulary is a class with rows, linear, norm, gelu, silu, add, multiply, patches, attend, last, finish. Decoders bring keys
and values behind those that a cache has. Weights are [in][out]; q, k and v are one product.
"""
import numpy as np


def bert(g, w):
    d, layers, heads, _ = w.sizes
    eps = w.config["layer_norm_eps"]
    linear = lambda of, *names: _linear(g, w, of, *names)
    norm = lambda of, name: g.norm(of, w[name + ".weight"], w[name + ".bias"], eps)
    positions = w["embeddings.position_embeddings.weight"][:g.n] + w["embeddings.token_type_embeddings.weight"][0]
    x = g.add(g.rows(w["embeddings.word_embeddings.weight"], "ids"), g.constant(positions[None]))
    x = norm(x, "embeddings.LayerNorm")
    for i in range(layers):
        at = f"encoder.layer.{i}."
        z = g.attend(x, *_joint(w, [at + f"attention.self.{name}" for name in ("query", "key", "value")]), heads, i)
        u = norm(g.add(linear(z, at + "attention.output.dense"), x), at + "attention.output.LayerNorm")
        f = linear(g.gelu(linear(u, at + "intermediate.dense"), False), at + "output.dense")
        x = norm(g.add(f, u), at + "output.LayerNorm")
    return x


def modernbert(g, w):
    d, layers, heads, ff = w.sizes
    c = w.config
    norm = lambda of, name: g.norm(of, w[name + ".weight"], np.zeros(d, np.float32), c["norm_eps"])
    product = lambda of, name: g.linear(of, w[name + ".weight"].T)
    x = norm(g.rows(w["embeddings.tok_embeddings.weight"], "ids"), "embeddings.norm")
    for i, kind in enumerate(c["layer_types"]):
        at, near = f"layers.{i}.", None if kind == "full_attention" else c["local_attention"] // 2
        theta = c["rope_parameters"][kind]["rope_theta"]
        z = g.attend_turned(norm(x, at + "attn_norm") if i else x, w[at + "attn.Wqkv.weight"].T, heads, theta, near)
        u = g.add(product(z, at + "attn.Wo"), x)
        y, up = norm(u, at + "mlp_norm"), w[at + "mlp.Wi.weight"].T
        f = g.multiply(g.gelu(g.linear(y, up[:, :ff]), False), g.linear(y, up[:, ff:]))
        x = g.add(product(f, at + "mlp.Wo"), u)
    return norm(x, "final_norm")


def vit(g, w):
    d, layers, heads, _ = w.sizes
    c, eps = w.config, w.config["layer_norm_eps"]
    old = "vit.encoder.layer.0.layernorm_before.weight" in w.spans  # names before transformers 5
    linear = lambda of, *names: _linear(g, w, of, *names)
    norm = lambda of, name: g.norm(of, w[name + ".weight"], w[name + ".bias"], eps)
    x = g.patches(w["vit.embeddings.patch_embeddings.projection.weight"],
                  w["vit.embeddings.patch_embeddings.projection.bias"], w["vit.embeddings.cls_token"],
                  c["image_size"], c["patch_size"])
    x = g.add(x, g.constant(w["vit.embeddings.position_embeddings"]))
    for i in range(layers):
        at = f"vit.encoder.layer.{i}." if old else f"vit.layers.{i}."
        names = [f"attention.attention.{name}" for name in ("query", "key", "value")] if old else \
                [f"attention.{name}_proj" for name in "qkv"]
        out, up, down = ("attention.output.dense", "intermediate.dense", "output.dense") if old else \
                        ("attention.o_proj", "mlp.fc1", "mlp.fc2")
        z = g.attend(norm(x, at + "layernorm_before"), *_joint(w, [at + name for name in names]), heads, i)
        u = g.add(linear(z, at + out), x)
        f = g.gelu(linear(norm(u, at + "layernorm_after"), at + up), False)
        x = g.add(linear(f, at + down), u)
    return linear(norm(g.first(x), "vit.layernorm"), "classifier")


def gpt2(g, w):
    d, layers, heads, _ = w.sizes
    eps = w.config["layer_norm_epsilon"]
    product = lambda of, name: g.linear(of, w[name + ".weight"], w[name + ".bias"])
    norm = lambda of, name: g.norm(of, w[name + ".weight"], w[name + ".bias"], eps)
    x = g.add(g.rows(w["wte.weight"], "ids"), g.rows(w["wpe.weight"], "positions"))
    for i in range(layers):
        at = f"h.{i}."
        z = g.attend(norm(x, at + "ln_1"), w[at + "attn.c_attn.weight"], w[at + "attn.c_attn.bias"], heads, i)
        u = g.add(product(z, at + "attn.c_proj"), x)
        f = g.gelu(product(norm(u, at + "ln_2"), at + "mlp.c_fc"), True)
        x = g.add(product(f, at + "mlp.c_proj"), u)
    return g.linear(norm(g.last(x), "ln_f"), w["wte.weight"].T)


def llama(g, w):
    d, layers, heads, _ = w.sizes
    eps, linear = w.config["rms_norm_eps"], lambda of, *names: _linear(g, w, of, *names)
    norm = lambda of, name: g.norm(of, w[name + ".weight"], None, eps)
    theta = (w.config.get("rope_parameters") or w.config)["rope_theta"]
    x = g.rows(w["embed_tokens.weight"], "ids")
    for i in range(layers):
        at = f"layers.{i}."
        z = g.attend(norm(x, at + "input_layernorm"), *_joint(w, [at + f"self_attn.{name}_proj" for name in "qkv"]), heads, i,
                     theta)
        u = g.add(linear(z, at + "self_attn.o_proj"), x)
        y = norm(u, at + "post_attention_layernorm")
        f = g.multiply(g.silu(linear(y, at + "mlp.gate_proj")), linear(y, at + "mlp.up_proj"))
        x = g.add(linear(f, at + "mlp.down_proj"), u)
    return g.linear(norm(g.last(x), "norm"), w["embed_tokens.weight"].T)


FAMILIES = {"bert": bert, "modernbert": modernbert, "vit": vit, "gpt2": gpt2, "llama": llama}


def _linear(g, w, of, name):
    return g.linear(of, w[name + ".weight"].T, w[name + ".bias"] if has(w, name + ".bias") else None)


def _joint(w, names):
    """([in][q k v], its bias or None) of matrices that lie [out][in]."""
    biases = [w[name + ".bias"] for name in names] if has(w, names[0] + ".bias") else None
    return np.concatenate([w[name + ".weight"] for name in names]).T, None if biases is None else np.concatenate(biases)


def has(w, name):
    return name in w.spans or w.prefix + name in w.spans


def turns(theta, width, positions):
    """cos and sin [positions][width / 2]"""
    angles = np.arange(positions)[:, None] * theta ** (-2.0 * np.arange(width // 2) / width)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class Onnx:
    """A graph of constant shapes. operators: com.microsoft's Attention, or GroupQueryAttention of decoders; else products."""

    def __init__(self, onnx_graph, onnx, case, inputs, decodes, operators):
        self.onnx, self.g, self.case, self.operators = onnx, onnx_graph._Graph(onnx), case, operators
        self.batch, self.n, self.decodes = case.batch, case.n, decodes
        self.length = case.past + case.n  # of a cache
        self.inputs, self.outputs, self.lengths = [], [], inputs.get("lengths")
        self.padded = case.shortest > 0
        if self.n:
            self.value("ids", onnx.TensorProto.INT64, (self.batch, self.n))
        self.op, self.constant = self.g.op, self.g.constant

    def value(self, name, kind, shape, at=None):
        (self.inputs if at is None else at).append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def rows(self, table, of):
        if of == "positions":
            return self.constant(table[None, self.case.past:self.length])
        return self.op("Gather", self.constant(table), "ids", axis=0)

    def linear(self, of, w, b=None):
        y = self.op("MatMul", of, self.constant(w))
        return y if b is None else self.op("Add", y, self.constant(b))

    def norm(self, of, gain, bias, eps):
        if bias is None:
            return self.op("SimplifiedLayerNormalization", of, self.constant(gain), axis=-1, epsilon=eps)
        return self.op("LayerNormalization", of, self.constant(gain), self.constant(bias), axis=-1, epsilon=eps)

    def gelu(self, of, tanh):
        return self.op("Gelu", of, approximate="tanh" if tanh else "none")

    def silu(self, of):
        return self.op("QuickGelu", of, domain="com.microsoft", alpha=1.0)

    def add(self, a, b):
        return self.op("Add", a, b)

    def multiply(self, a, b):
        return self.op("Mul", a, b)

    def patches(self, w, b, first, image, patch):
        pixels = self.value("pixels", self.onnx.TensorProto.FLOAT, (self.batch, w.shape[1], image, image))
        y = self.op("Conv", pixels, self.constant(w), self.constant(b), strides=[patch, patch])
        self.n = (image // patch) ** 2 + 1
        y = self.op("Transpose", self.op("Reshape", y, self.g.shape(self.batch, len(b), self.n - 1)), perm=[0, 2, 1])
        return self.op("Concat", self.constant(np.tile(first, (self.batch, 1, 1))), y, axis=1)

    def slice(self, of, first, last):
        return self.op("Slice", of, self.g.shape(first), self.g.shape(last), self.g.shape(1))

    def first(self, of):
        return self.slice(of, 0, 1)

    def last(self, of):
        return self.slice(of, self.n - 1, self.n) if self.n > 1 and not self.case.every else of

    def attend(self, x, w, b, heads, layer, theta=None):
        batch, n, d = self.batch, self.n, w.shape[1] // 3
        if self.operators and not self.decodes:
            mask = [self.constant(self.lengths)] if self.padded else []
            return self.op("Attention", x, self.constant(w), self.constant(b), *mask, domain="com.microsoft", num_heads=heads)
        if self.decodes:
            width, kind = d // heads, self.onnx.TensorProto.FLOAT
            shape = (batch, heads, self.length, width)
            past = [self.value(f"{letter}_{layer}", kind, shape) for letter in "kv"]
            now = [self.value(f"{letter}_{layer}_now", kind, shape, self.outputs) for letter in "kv"]
            more = [self.constant(of) for of in turns(theta, width, self.length)] if theta else []
            z, last = f"z_{layer}", self.constant(np.full(batch, self.length - 1, np.int32))
            total = self.constant(np.array(self.length, np.int32))
            self.g.nodes.append(self.onnx.helper.make_node(
                "GroupQueryAttention", [self.linear(x, w, b), "", "", *past, last, total, *more], [z, *now],
                domain="com.microsoft", num_heads=heads, kv_num_heads=heads, do_rotary=int(theta is not None)))
            return z
        parts = []
        for part, perm in enumerate(([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])):
            y = self.linear(x, w[:, part * d:(part + 1) * d], b[part * d:(part + 1) * d])
            parts.append(self.op("Transpose", self.op("Reshape", y, self.g.shape(batch, n, heads, d // heads)), perm=perm))
        s = self.op("Div", self.op("MatMul", parts[0], parts[1]), self.constant(np.float32(np.sqrt(d // heads))))
        if self.padded:
            s = self.op("Add", s, self.constant(hidden_keys(self.lengths, n)))
        z = self.op("MatMul", self.op("Softmax", s, axis=-1), parts[2])
        return self.op("Reshape", self.op("Transpose", z, perm=[0, 2, 1, 3]), self.g.shape(batch, n, d))

    def attend_turned(self, x, w, heads, theta, near):
        """Rows that see both ways, at most `near` far; q and k are rotated."""
        batch, n, d = self.batch, self.n, w.shape[1] // 3
        q, k, v = (self.linear(x, w[:, part * d:(part + 1) * d]) for part in range(3))
        positions = self.constant(np.tile(np.arange(n), (batch, 1)))
        tables = [self.constant(of) for of in turns(theta, d // heads, n)]
        q, k = (self.op("RotaryEmbedding", of, positions, *tables, domain="com.microsoft", num_heads=heads) for of in (q, k))
        hidden = self.constant(far_keys(self.lengths, n, near))
        if self.operators:
            return self.op("MultiHeadAttention", q, k, v, "", "", hidden, domain="com.microsoft", num_heads=heads)
        q, k, v = (self.op("Transpose", self.op("Reshape", of, self.g.shape(batch, n, heads, d // heads)), perm=perm)
                   for of, perm in ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3])))
        s = self.op("Add", self.op("Div", self.op("MatMul", q, k), self.constant(np.float32(np.sqrt(d // heads)))), hidden)
        z = self.op("MatMul", self.op("Softmax", s, axis=-1), v)
        return self.op("Reshape", self.op("Transpose", z, perm=[0, 2, 1, 3]), self.g.shape(batch, n, d))

    def finish(self, of):
        self.g.nodes.append(self.onnx.helper.make_node("Identity", [of], ["y"]))
        self.value("y", self.onnx.TensorProto.FLOAT, None, self.outputs)
        helper = self.onnx.helper
        graph = helper.make_graph(self.g.nodes, "model", self.inputs, self.outputs, self.g.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])
        model.ir_version = 9
        return model.SerializeToString()


def hidden_keys(lengths, n):
    """f32 [batch][1][1][n]: -infinity where there is no key"""
    return np.where(np.arange(n) < lengths[:, None], 0, -np.inf).astype(np.float32)[:, None, None, :]


def far_keys(lengths, n, near):
    """f32 [batch][1][n][n]: a number far below 0 where there is no key, or it is further away than `near`"""
    hidden = np.arange(n)[None, None] >= lengths[:, None, None]
    if near is not None:
        hidden = hidden | (np.abs(np.arange(n)[:, None] - np.arange(n)) > near)
    return np.where(np.broadcast_to(hidden, (len(lengths), n, n)), -1e9, 0).astype(np.float32)[:, None]


def plain(ops, constant, of, w):
    return ops.matmul(of, constant(w.T), False, True)  # [out][in], as other frontends bring it


class OpenVino:
    """A graph by OpenVINO's API, around scaled_dot_product_attention. Keys and values of decoders are states, in the pattern
    that the CPU plugin fuses. product(ops, constant, rows, w): the products with weights, as they are, or in fewer bits."""

    def __init__(self, openvino, case, inputs, decodes, product=None):
        import openvino.opset13 as ops
        self.openvino, self.ops, self.case, self.decodes = openvino, ops, case, decodes
        self.product = product or plain
        self.batch, self.n, self.sinks, self.held, self.lengths = case.batch, case.n, [], {}, inputs.get("lengths")
        self.mask = self.constant(hidden_keys(inputs["lengths"], case.n)) if case.shortest else None
        self.parameters = {}
        for name in ("ids", *(("positions",) if decodes else ())) if self.n else ():
            self.parameters[name] = ops.parameter([self.batch if name == "ids" else 1, self.n], np.int32, name=name)
        if decodes:
            self.parameters["beam"] = ops.parameter([self.batch], np.int32, name="beam")
        self.add, self.multiply = ops.add, ops.multiply

    def constant(self, array):
        return self.ops.constant(np.ascontiguousarray(array))

    def integers(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def rows(self, table, of):
        return self.ops.gather(self.constant(table), self.parameters[of], self.constant(np.int64(0)))

    def linear(self, of, w, b=None):
        y = self.product(self.ops, self.constant, of, w)
        return y if b is None else self.ops.add(y, self.constant(b))

    def norm(self, of, gain, bias, eps):
        ops = self.ops
        if bias is None:
            mean = ops.reduce_mean(ops.power(of, self.constant(np.float32(2))), self.integers(-1), True)
            root = ops.sqrt(ops.add(mean, self.constant(np.float32(eps))))
            return ops.multiply(self.constant(gain), ops.multiply(of, ops.divide(self.constant(np.float32(1)), root)))
        y = ops.mvn(of, self.integers(-1), True, eps, "INSIDE_SQRT")
        return ops.add(ops.multiply(y, self.constant(gain)), self.constant(bias))

    def gelu(self, of, tanh):
        return self.ops.gelu(of, "tanh" if tanh else "erf")

    def silu(self, of):
        return self.ops.swish(of)

    def patches(self, w, b, first, image, patch):
        ops = self.ops
        self.parameters["pixels"] = pixels = ops.parameter([self.batch, w.shape[1], image, image], np.float32, name="pixels")
        y = ops.convolution(pixels, self.constant(w), [patch, patch], [0, 0], [0, 0], [1, 1])
        y = ops.add(y, self.constant(b[None, :, None, None]))
        self.n = (image // patch) ** 2 + 1
        y = ops.transpose(ops.reshape(y, self.integers(0, 0, -1), True), self.integers(0, 2, 1))
        return ops.concat([self.constant(np.tile(first, (self.batch, 1, 1))), y], 1)

    def slice(self, of, first, last):
        return self.ops.slice(of, self.integers(first), self.integers(last), self.integers(1), self.integers(1))

    def first(self, of):
        return self.slice(of, 0, 1)

    def last(self, of):
        return self.slice(of, self.n - 1, self.n) if self.n > 1 and not self.case.every else of

    def turned(self, of, width, tables):
        """Halves of each head, by the pattern that the plugin fuses; of: [batch][heads][n][width]."""
        ops, half = self.ops, width // 2
        part = lambda a, b: ops.slice(of, self.integers(a), self.integers(b), self.integers(1), self.integers(3))
        other = ops.concat([ops.multiply(part(half, width), self.constant(np.float32([[[[-1]]]]))), part(0, half)], 3)
        return ops.add(ops.multiply(of, tables[0]), ops.multiply(other, tables[1]))

    def state(self, new, name, heads, width):
        """The keys or values of a layer, the new ones behind the others."""
        ops, info = self.ops, self.openvino.op.util.VariableInfo()
        info.data_shape = self.openvino.PartialShape([self.batch, heads, -1, width])
        info.data_type, info.variable_id = self.openvino.Type.f32, name
        variable = self.openvino.op.util.Variable(info)
        nothing = ops.broadcast(ops.constant(np.float32(0)), self.integers(self.batch, heads, 0, width))
        held = ops.gather(ops.read_value(nothing, variable), self.parameters["beam"], self.constant(np.int64(0)))
        joined = ops.concat([held, new], 2)
        self.sinks.append(ops.assign(joined, variable))
        return joined

    def attend(self, x, w, b, heads, layer, theta=None):
        ops, d = self.ops, w.shape[1] // 3
        width = d // heads
        parts = []
        for part in range(3):
            at = slice(part * d, part * d + d)
            y = ops.reshape(self.linear(x, w[:, at], None if b is None else b[at]), self.integers(0, 0, heads, width), True)
            parts.append(ops.transpose(y, self.integers(0, 2, 1, 3)))
        if theta is not None:
            if layer == 0:
                self.tables = [ops.unsqueeze(self.rows(np.concatenate((of, of), 1), "positions"), self.integers(1))
                               for of in turns(theta, width, self.case.past + self.n)]
            parts[:2] = [self.turned(of, width, self.tables) for of in parts[:2]]
        if self.decodes:
            parts[1:] = [self.state(of, f"{letter}_{layer}", heads, width) for of, letter in zip(parts[1:], "kv")]
        z = ops.scaled_dot_product_attention(*parts, self.mask, causal=self.decodes and self.n > 1)
        return ops.reshape(ops.transpose(z, self.integers(0, 2, 1, 3)), self.integers(0, 0, d), True)

    def attend_turned(self, x, w, heads, theta, near):
        ops, d = self.ops, w.shape[1] // 3
        width, parts, key = d // heads, [], (theta, near)
        if key not in self.held:
            tables = [self.constant(np.concatenate((of, of), 1)[None, None]) for of in turns(theta, width, self.n)]
            self.held[key] = tables, self.constant(far_keys(self.lengths, self.n, near))
        tables, hidden = self.held[key]
        for part in range(3):
            y = ops.reshape(self.linear(x, w[:, part * d:part * d + d]), self.integers(0, 0, heads, width), True)
            parts.append(ops.transpose(y, self.integers(0, 2, 1, 3)))
        parts[:2] = [self.turned(of, width, tables) for of in parts[:2]]
        z = ops.scaled_dot_product_attention(*parts, hidden, causal=False)
        return ops.reshape(ops.transpose(z, self.integers(0, 2, 1, 3)), self.integers(0, 0, d), True)

    def finish(self, of):
        return self.openvino.Model([self.ops.result(of)], self.sinks, list(self.parameters.values()), "model")
