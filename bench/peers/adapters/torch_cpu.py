# SPDX-License-Identifier: MIT
"""PyTorch on the CPU: nn.MultiheadAttention, and projections around F.scaled_dot_product_attention or flex_attention."""
import dataclasses
import os
import time

import numpy as np

import kinds
from adapters.base import ALL_KINDS, CACHED, FIRST, TRAINED, Peer, Runner


def _flex(torch, case, tensors):
    """attend(q, k, v) -> Z [batch][h][n][d_v], by flex_attention: terms are a score_mod, masks of positions a BlockMask."""
    from torch.nn.attention import flex_attention as flex
    F, c = torch.nn.functional, case
    constant = lambda array: torch.from_numpy(np.ascontiguousarray(array, np.float32))
    slopes = constant(kinds.slopes(c.h)) if c.alibi else None
    table = constant(dataclasses.replace(c, alibi=False).score_bias(tensors)) if c.relative else None
    sink = constant(tensors["sink"]) if c.sink else None
    left, right = (None, None) if "window" not in c.mask else c.window

    def visible(batch, head, p, j):
        see = p >= 0
        if "causal" in c.mask:
            see = see & (j <= p)
        if "no_self" in c.mask:
            see = see & (j != p)
        if left is not None:
            see = see & (j >= p - left)
        if right is not None:
            see = see & (j <= p + right)
        return see | (j == c.m) if c.sink else see

    def score(s, batch, head, p, j):
        if c.softcap:
            s = c.softcap * torch.tanh(s / c.softcap)
        if c.alibi:
            s = s - slopes[head] * torch.abs(p - j)
        if c.relative:
            s = s + table[head, p, j]
        return torch.where(j == c.m, sink[head], s) if c.sink else s

    changed = c.softcap or c.alibi or c.relative or c.sink
    keys = c.m + (1 if c.sink else 0)
    blocks = flex.create_block_mask(visible, None, None, c.n, keys, device="cpu") if c.positional else None

    def attend(q, k, v):
        if c.sink:  # a key of its own
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        v = v.contiguous()  # compiled by 2.15.0 for the CPU, a view into the joint product gives wrong numbers
        return flex.flex_attention(q, k, v, score_mod=score if changed else None, block_mask=blocks, scale=c.scale,
                                   enable_gqa=c.h_kv != c.h)

    return attend


def _sdpa(torch, case, tensors):
    """The same by scaled_dot_product_attention. A sink is one more key, zero like its value, whose score the mask brings."""
    F, c = torch.nn.functional, case
    causal = c.positional == {"causal"} and not (c.alibi or c.relative or c.sink)
    mask = None
    if c.alibi or c.relative or c.sink:
        numbers = c.score_mask(tensors)
        mask = torch.from_numpy(np.zeros((1, c.n, c.m), np.float32) if numbers is None else numbers)
        if c.sink:
            column = torch.from_numpy(tensors["sink"]).view(c.h, 1, 1).expand(c.h, c.n, 1)
            mask = torch.cat((mask.expand(c.h, c.n, c.m), column), -1)
        mask = mask.unsqueeze(0).contiguous()
    elif c.positional and not causal:
        mask = torch.from_numpy(case.visible())

    def attend(q, k, v):
        if c.sink:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=c.scale,
                                              enable_gqa=c.h_kv != c.h)

    return attend


def _few_bits(torch, case, tensors, formulation):
    """call() -> y of plain attention, with a cache of rows or without: bf16 throughout, or nn.Linear by quantize_dynamic, whose
    weights are s8 with a scale for each column and whose operands have one a tensor, found in each call."""
    F, c = torch.nn.functional, case
    tensor = {name: torch.from_numpy(array) for name, array in tensors.items()}
    group, end = c.h // c.h_kv, (c.past or 0) + c.n

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            w = torch.cat([tensor["w_" + which] for which in "qkv"], -1).t().contiguous()
            b = torch.cat([tensor["b_" + which] for which in "qkv"]) if c.bias else None
            self.qkv, self.out = self.linear(w, b), self.linear(tensor["w_o"].t().contiguous(), tensor.get("b_o"))

        def linear(self, w, b):
            of = torch.nn.Linear(w.shape[1], w.shape[0], bias=b is not None)
            of.weight = torch.nn.Parameter(w, requires_grad=False)
            of.bias = None if b is None else torch.nn.Parameter(b, requires_grad=False)
            return of

        def forward(self, x, k_cache, v_cache):
            q, k, v = self.qkv(x).split((c.h * c.d_k, c.h_kv * c.d_k, c.h_kv * c.d_v), -1)
            q, k, v = (of.view(c.batch, c.n, heads, -1).transpose(1, 2) for of, heads in ((q, c.h), (k, c.h_kv), (v, c.h_kv)))
            if c.past is not None:
                k_cache[:, :, c.past:end] = k
                v_cache[:, :, c.past:end] = v
                k, v = k_cache[:, :, :end], v_cache[:, :, :end]
            z = F.scaled_dot_product_attention(q, k, v, is_causal="causal" in c.mask and c.n > 1, scale=c.scale,
                                               enable_gqa=group > 1)
            return self.out(z.transpose(1, 2).reshape(c.batch, c.n, c.h * c.d_v))

    layer, caches = Layer().eval(), (tensor.get("k_cache"), tensor.get("v_cache"))
    if formulation == "bf16":
        layer, caches = layer.bfloat16(), tuple(of if of is None else of.bfloat16() for of in caches)
        return lambda: layer(tensor["x"].bfloat16(), *caches).float()
    torch.backends.quantized.engine = formulation.split("-")[1]
    mapping = {torch.nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig}
    layer = torch.ao.quantization.quantize_dynamic(layer, mapping, dtype=torch.qint8)
    return lambda: layer(tensor["x"], *caches)


STATIC = ("static", "static-repeated", "static-folded")


def _static(torch, case, tensors, formulation):
    """call() -> y, with a cache of cache_len rows: the new ones are written into it, a view of it is attended to.

    Grouped heads: by enable_gqa; repeated for each query head; or those of a group as further queries of one head."""
    F, c = torch.nn.functional, case
    tensor = {name: torch.from_numpy(array) for name, array in tensors.items()}
    group, end = c.h // c.h_kv, c.past + c.n
    k_cache, v_cache = tensor["k_cache"], tensor["v_cache"]
    mask = None
    if c.n > 1:
        mask = np.where(c.visible(), 0, -np.inf).astype(np.float32)
        mask = torch.from_numpy(np.tile(mask, (group, 1)) if formulation == "static-folded" else mask)
    widths = [c.h * c.d_k, c.h_kv * c.d_k, c.h_kv * c.d_v]
    if not c.projected:
        w = torch.cat([tensor["w_" + which] for which in "qkv"], -1).t().contiguous()
        b = torch.cat([tensor["b_" + which] for which in "qkv"]) if c.bias else None
        w_o = tensor["w_o"].t().contiguous() if c.w_o == "dense" else None

    def call():
        q, k, v = (tensor[which] for which in "qkv") if c.projected else F.linear(tensor["x"], w, b).split(widths, -1)
        q = q.view(c.batch, c.n, c.h, c.d_k).transpose(1, 2)
        k_cache[:, :, c.past:end] = k.view(c.batch, c.n, c.h_kv, c.d_k).transpose(1, 2)
        v_cache[:, :, c.past:end] = v.view(c.batch, c.n, c.h_kv, c.d_v).transpose(1, 2)
        k, v = k_cache[:, :, :end], v_cache[:, :, :end]
        if formulation == "static-folded":
            q = q.reshape(c.batch, c.h_kv, group * c.n, c.d_k)
        elif formulation == "static-repeated":
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=c.scale,
                                           enable_gqa=formulation == "static" and group > 1)
        z = z.reshape(c.batch, c.h, c.n, c.d_v).transpose(1, 2).reshape(c.batch, c.n, c.h * c.d_v)
        return z if c.projected else F.linear(z, w_o, tensor.get("b_o"))

    return call


def _layer(torch, case, tensors, attend):
    """A module for any layer: Linear projections as far as the layer has dense ones, and one fused attention."""
    F, c = torch.nn.functional, case
    tensor = {name: torch.from_numpy(array) for name, array in tensors.items()}

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            # q, k and v of one input are one product
            self.fused = not (c.split or c.cross or c.tied or c.identity or c.projected)
            groups = {"qkv": ("q", "k", "v")} if self.fused else {"q": "q", "k": "k", "v": "v"}
            for group, names in groups.items():
                names = [which for which in names if "w_" + which in tensor]
                if not names:
                    continue
                weight = torch.cat([tensor["w_" + which] for which in names], -1)
                bias = torch.cat([tensor["b_" + which] for which in names]) if c.bias else None
                if not c.split:
                    weight = weight.t().contiguous()  # as Linear stores it
                elif c.bias:
                    bias = bias.view(c.h, 1, -1)
                self.own("w_" + group, weight)
                self.own("b_" + group, bias)
            if c.w_o == "dense":
                self.own("w_out", tensor["w_o"].t().contiguous())
            elif c.w_o == "conv":  # [h][tap][d_v][d] -> [h d][d_v][tap]
                d = c.d_model // c.h
                self.own("w_out", tensor["w_o"].permute(0, 3, 2, 1).reshape(c.h * d, c.d_v, c.conv_width).contiguous())
            self.own("b_out", tensor.get("b_o"))
            self.own("g_q", tensor.get("g_q"))
            self.own("g_k", tensor.get("g_k"))
            turns = c.rope.turns(max(c.n, c.m)) if c.rope else ()  # [positions][1][pairs]
            self.turns = [torch.from_numpy(array).float().unsqueeze(1) for array in turns]

        def own(self, name, value):
            self.register_parameter(name, None if value is None else torch.nn.Parameter(value, requires_grad=False))

        def heads(self, of, group, heads, width):
            """[batch][heads][positions][width] of one projection."""
            w, b = getattr(self, "w_" + group), getattr(self, "b_" + group)
            if not c.split:
                return F.linear(of, w, b).view(c.batch, -1, heads, width).transpose(1, 2)
            parts = of.view(c.batch, -1, c.h, of.shape[-1] // c.h).transpose(1, 2)
            return torch.matmul(parts, w) if b is None else torch.matmul(parts, w) + b

        def turned(self, x):
            """Rotary positions, [batch][positions][heads][d_k]."""
            cos, sin = (array[:x.shape[1]] for array in self.turns)
            dims = c.rope.dims
            turning, rest = (x, None) if dims == x.shape[-1] else (x[..., :dims], x[..., dims:])
            if c.rope.kind == "half":
                a, b = turning.chunk(2, -1)
                y = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
            else:
                a, b = turning[..., 0::2], turning[..., 1::2]
                y = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
            return y if rest is None else torch.cat((y, rest), -1)

        def finish(self, of, gain):
            """Norm and rotation of queries or keys, [batch][heads][positions][d_k]."""
            of = of.transpose(1, 2)
            of = F.rms_norm(of, (c.d_k,), gain, c.norm_eps) if c.norm else of
            of = self.turned(of) if c.rope else of
            return of.transpose(1, 2)

        def forward(self, x, source, *given):
            if c.projected:
                q, k, v = (tensor.transpose(1, 2) for tensor in (x, source, *given))
            elif self.fused:
                q, k, v = F.linear(x, self.w_qkv, self.b_qkv).split(
                    (c.h * c.d_k, c.h_kv * c.d_k, c.h_kv * c.d_v), -1)
                q = q.view(c.batch, c.n, c.h, c.d_k).transpose(1, 2)
                k = k.view(c.batch, c.m, c.h_kv, c.d_k).transpose(1, 2)
                v = v.view(c.batch, c.m, c.h_kv, c.d_v).transpose(1, 2)
            else:
                q = self.heads(x, "q", c.h, c.d_k)
                k = self.heads(source, "q" if c.tied else "k", c.h_kv, c.d_k)
                if not c.identity:
                    v = self.heads(source, "v", c.h_kv, c.d_v)
                elif c.split:
                    v = source.view(c.batch, c.m, c.h, c.d_v).transpose(1, 2)
                else:
                    v = source.unsqueeze(1).expand(c.batch, c.h, c.m, c.d_v)
            if c.norm or c.rope:
                q, k = self.finish(q, self.g_q), self.finish(k, self.g_k)
            z = attend(q, k, v)
            if c.w_o == "conv":
                left = c.conv_width - 1 if "causal" in c.mask else (c.conv_width - 1) // 2
                z = z.transpose(2, 3).reshape(c.batch, c.h * c.d_v, c.n)
                y = F.conv1d(F.pad(z, (left, c.conv_width - 1 - left)), self.w_out, self.b_out, groups=c.h)
                return y.transpose(1, 2)
            z = z.transpose(1, 2)
            if c.heads_first: # as it is
                return z
            z = z.reshape(c.batch, c.n, c.h * c.d_v)
            return z if c.w_o == "none" else F.linear(z, self.w_out, self.b_out)

    return Layer()


def _block(torch, case, tensors, attention):
    """The module `attention` with norms, residual sums and a feed-forward around it."""
    F, c, block = torch.nn.functional, case, case.block
    own = {name: torch.from_numpy(array) for name, array in tensors.items() if name[0] == "n" or name[2:] in ("1", "g", "2")}
    activate = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda of: F.gelu(of, approximate="tanh"),
                "silu": F.silu}.get(block.activation)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention
            for name, tensor in own.items():
                tensor = tensor.t().contiguous() if name[0] == "w" else tensor
                self.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))

        def norm(self, number, of):
            gain = getattr(self, f"n{number}_g")
            if block.rms:
                return F.rms_norm(of, (c.d_model,), gain, block.eps)
            return F.layer_norm(of, (c.d_model,), gain, getattr(self, f"n{number}_b"), block.eps)

        def product(self, which, of):
            return F.linear(of, getattr(self, "w_" + which), getattr(self, "b_" + which, None))

        def forward(self, x, source):
            attend = lambda of: self.attention(of, source if c.cross else of)
            feed = lambda of: block.feed(of, self.product, activate, torch.mul)
            return block.around(x, attend, self.norm, feed, torch.add)

    return Block()


def _module(torch, case, tensors):
    """nn.MultiheadAttention with this layer's weights."""
    c = case
    module = torch.nn.MultiheadAttention(c.d_model, c.h, bias=c.bias, batch_first=True, kdim=c.d_source, vdim=c.d_source)
    transposed = {which: torch.from_numpy(tensors["w_" + which]).t() for which in "qkvo"}
    biases = {which: torch.from_numpy(tensors["b_" + which]) for which in "qkvo"} if c.bias else {}
    state = {"out_proj.weight": transposed["o"]}
    if c.d_source == c.d_model:
        state["in_proj_weight"] = torch.cat([transposed[which] for which in "qkv"])
    else:
        state.update((f"{which}_proj_weight", transposed[which]) for which in "qkv")
    if biases:
        state.update({"in_proj_bias": torch.cat([biases[which] for which in "qkv"]), "out_proj.bias": biases["o"]})
    module.load_state_dict(state)
    return module


class Step(Runner):
    """A step of training: forward, backward. What it computes of gradients is freed before the next one, as optimisers do."""

    def __init__(self, torch, case, module, call, x, dy):
        self.module, self.x, self.ns, self.y = module, x.requires_grad_(True), [0, 0], None
        self.case = case

        def step():
            module.zero_grad(set_to_none=True)
            x.grad = None
            begin = time.perf_counter_ns()
            y = call()
            between = time.perf_counter_ns()
            y.backward(dy)
            self.ns = [self.ns[0] + between - begin, self.ns[1] + time.perf_counter_ns() - between]
            self.y = y.detach()

        super().__init__(step, lambda: self.y.numpy())

    def run(self, calls):
        self.ns = [0, 0]
        return super().run(calls)

    def passes(self):
        return dict(zip(("forward", "backward"), self.ns))

    def gradients(self):
        c = self.case
        sections = [c.h * c.d_k, c.h * c.d_k + c.h_kv * c.d_k]
        of = {name: parameter.grad.numpy() for name, parameter in self.module.named_parameters() if parameter.grad is not None}
        of = {name.replace("_orig_mod.", ""): gradient for name, gradient in of.items()}
        found = {"dx": self.x.grad.numpy()}
        for kind, names in (("dw_", ("w_qkv", "in_proj_weight")), ("db_", ("b_qkv", "in_proj_bias"))):
            for name in names:
                if name in of:
                    found.update((kind + which, part.T) for which, part in zip("qkv", np.split(of[name], sections)))
        for name, names in (("dw_o", ("w_out", "out_proj.weight")), ("db_o", ("b_out", "out_proj.bias"))):
            found.update((name, of[given].T) for given in names if given in of)
        return found


class Torch(Peer):
    name = "torch"
    formulations = ("module", "sdpa", "compiled", "flex", *STATIC)
    typed = ("bf16", "dynamic-x86", "dynamic-onednn")

    def environment(self, threads, cpu):
        return {"OMP_PROC_BIND": "true", "TORCHINDUCTOR_FREEZING": "1"}

    def kinds(self, formulation):
        some = {**dict.fromkeys(self.typed, frozenset(("cache",))), "module": TRAINED, "flex": ALL_KINDS | FIRST, **dict.fromkeys(STATIC, CACHED)}
        return some.get(formulation, ALL_KINDS - {"softcap"} | FIRST | TRAINED)

    def why_not(self, case, formulation, threads):
        if formulation == "flex" and not case.kinds:
            return "as sdpa, for layers that have more than a mask"
        if formulation in STATIC and case.past is None:
            return "for layers with a cache"
        if formulation in STATIC[1:] and case.h_kv == case.h:
            return "as static, for grouped heads"
        if formulation == "module" and not case.ordinary:
            return "nn.MultiheadAttention has neither other widths, heads nor projections"
        return None

    def load(self):
        import torch  # noqa: F401

    def versions(self):
        import torch
        return {"torch": torch.__version__}

    def prepare(self, job, tensors, formulation):
        import torch
        torch.set_num_threads(job.threads)
        case = job.case
        torch.set_grad_enabled(case.train)
        if formulation in STATIC or formulation in self.typed:
            call, keep = (_static if formulation in STATIC else _few_bits)(torch, case, tensors, formulation), {}

            def one():
                keep["y"] = call()

            return Runner(one, lambda: keep["y"].numpy())
        if case.projected:
            inputs = tuple(torch.from_numpy(tensors[name]) for name in "qkv")
            if case.heads_first: # these shapes, of such memory
                inputs = tuple(of.transpose(1, 2).contiguous().transpose(1, 2) for of in inputs)
        else:
            x = torch.from_numpy(tensors["x"])
            inputs = x, torch.from_numpy(tensors["source"]) if case.cross else x
        if formulation == "module":
            module = _module(torch, case, tensors).eval()
            mask = torch.from_numpy(~case.visible()) if case.positional else None
            causal = case.positional == {"causal"} and case.n == case.m
            x, source = inputs
            call = lambda: module(x, source, source, need_weights=False, attn_mask=mask, is_causal=causal)[0]
        else:
            attend = (_flex if formulation == "flex" else _sdpa)(torch, case, tensors)
            module = _layer(torch, case, tensors, attend).eval()
            module = _block(torch, case, tensors, module).eval() if case.block else module
            module.requires_grad_(case.train)
            if formulation != "sdpa":
                os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(job.folder, "inductor"))
                import torch._inductor.config as inductor
                inductor.freezing = not case.train  # weights become constants in the library's own layout
                module = torch.compile(module, fullgraph=True, dynamic=False)
                first = module(*inputs)  # what compiling takes is not the scratch of a call
                if case.train:
                    first.sum().backward()
            call = lambda: module(*inputs)
        if case.train:
            return Step(torch, case, module, call, x, torch.from_numpy(tensors["dy"]))
        keep = {}

        def step():
            keep["y"] = call()

        return Runner(step, lambda: keep["y"].numpy().reshape(case.batch, case.n, -1), (module, inputs))
