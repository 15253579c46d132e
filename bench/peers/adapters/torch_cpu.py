# SPDX-License-Identifier: MIT
"""PyTorch on the CPU: nn.MultiheadAttention, and projections around F.scaled_dot_product_attention."""
import os

from adapters.base import Peer, Runner


def _sdpa_layer(torch, case, tensors):
    """A module for any layer: Linear projections as far as the layer has dense ones, and one fused attention."""
    F, c = torch.nn.functional, case
    tensor = {name: torch.from_numpy(array) for name, array in tensors.items()}

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            # q, k and v of one input are one product
            self.fused = not (c.split or c.cross or c.tied or c.identity)
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
            self.causal = c.positional == {"causal"}
            masked = c.positional and not self.causal
            self.register_buffer("mask", torch.from_numpy(case.visible()) if masked else None)

        def own(self, name, value):
            self.register_parameter(name, None if value is None else torch.nn.Parameter(value, requires_grad=False))

        def heads(self, of, group, heads, width):
            """[batch][heads][positions][width] of one projection."""
            w, b = getattr(self, "w_" + group), getattr(self, "b_" + group)
            if not c.split:
                return F.linear(of, w, b).view(c.batch, -1, heads, width).transpose(1, 2)
            parts = of.view(c.batch, -1, c.h, of.shape[-1] // c.h).transpose(1, 2)
            return torch.matmul(parts, w) if b is None else torch.matmul(parts, w) + b

        def forward(self, x, source):
            if self.fused:
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
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.causal, scale=c.scale,
                                               enable_gqa=c.h_kv != c.h)
            if c.w_o == "conv":
                left = c.conv_width - 1 if "causal" in c.mask else (c.conv_width - 1) // 2
                z = z.transpose(2, 3).reshape(c.batch, c.h * c.d_v, c.n)
                y = F.conv1d(F.pad(z, (left, c.conv_width - 1 - left)), self.w_out, self.b_out, groups=c.h)
                return y.transpose(1, 2)
            z = z.transpose(1, 2).reshape(c.batch, c.n, c.h * c.d_v)
            return z if c.w_o == "none" else F.linear(z, self.w_out, self.b_out)

    return Layer()


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


class Torch(Peer):
    name = "torch"
    formulations = ("module", "sdpa", "compiled")

    def environment(self, threads, cpu):
        return {"OMP_PROC_BIND": "true", "TORCHINDUCTOR_FREEZING": "1"}

    def why_not(self, case, formulation, threads):
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
        torch.set_grad_enabled(False)
        case = job.case
        x = torch.from_numpy(tensors["x"])
        source = torch.from_numpy(tensors["source"]) if case.cross else x
        if formulation == "module":
            module = _module(torch, case, tensors).eval()
            mask = torch.from_numpy(~case.visible()) if case.positional else None
            causal = case.positional == {"causal"} and case.n == case.m
            call = lambda: module(x, source, source, need_weights=False, attn_mask=mask, is_causal=causal)[0]
        else:
            module = _sdpa_layer(torch, case, tensors).eval()
            if formulation == "compiled":
                os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(job.folder, "inductor"))
                import torch._inductor.config as inductor
                inductor.freezing = True  # weights become constants in the library's own layout
                module = torch.compile(module, fullgraph=True, dynamic=False)
                module(x, source)  # what compiling takes is not the scratch of a call
            call = lambda: module(x, source)
        keep = {}

        def step():
            keep["y"] = call()

        return Runner(step, lambda: keep["y"].numpy(), (module, x, source))
