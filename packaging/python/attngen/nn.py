# SPDX-License-Identifier: MIT
"""Modules for torch: MultiheadAttention with torch's parameters, and an operator that torch.compile leaves whole.

Left out on purpose: attention dropout, attn_mask of one head at a time, and keys of another width than queries.
"""
from __future__ import annotations

import ctypes
import secrets
import weakref
from typing import Any, Callable, Optional

import torch
from torch.autograd.function import once_differentiable

from .kernel import Isa, Kernel, Packed, Saved
from .layer import Layer

NAMES = ("w_q", "w_k", "w_v", "b_q", "b_k", "b_v")


class _Attention(torch.autograd.Function):
    """The layer, and its gradients by x, source and the parameters."""

    @staticmethod
    def forward(ctx: Any, packed: Packed, given: "dict[str, Any]", x: Any, source: Any, *parameters: Any) -> Any:
        ctx.saved = Saved()
        ctx.has_source, ctx.count = source is not None, len(parameters)
        ctx.save_for_backward(x, source)  # backward reads both where they lie
        return packed(saved=ctx.saved, x=x.detach(), **({"source": source.detach()} if ctx.has_source else {}), **given)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Any) -> Any:
        ctx.saved_tensors  # raises if one was changed in place since, or the graph is freed
        found = ctx.saved.backward(dy)
        weights = [torch.cat([found[name] for name in NAMES[:3]]), found["w_o"]]
        if ctx.count == 4:
            weights += [torch.cat([found[name] for name in NAMES[3:]]), found["b_o"]]
        return (None, None, found["x"], found["source"] if ctx.has_source else None, *weights)


_compare = ctypes.CDLL(None).memcmp  # a quarter of the time of torch.equal()
_compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def same_bits(a: Any, b: Any) -> bool:
    """Of two tensors; False where a cannot be looked at in one piece."""
    return bool(a.shape == b.shape and a.dtype == b.dtype and a.device.type == "cpu" and a.is_contiguous()
                and _compare(a.data_ptr(), b.data_ptr(), a.numel() * a.element_size()) == 0)


class MultiheadAttention(torch.nn.MultiheadAttention):
    """torch.nn.MultiheadAttention, batch first, by a layer made for this shape.

    It has torch's parameters, so load_state_dict takes torch's. query [batch][n][embed_dim], key and value the same
    tensor [batch][m][embed_dim]; n up to seq_len, m up to source_len. Gradients come from the layer's own backward.
    Masks are torch's: True in a mask of bools hides. Returns (y, weights averaged over heads, or None). One call at a
    time: another thread's is a CallError.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, *, seq_len: int,
                 source_len: Optional[int] = None, batch_first: bool = True, isa: Isa = None, device: Any = None,
                 dtype: Any = None):
        if dropout != 0 or not batch_first:
            raise ValueError("dropout is 0 and batch_first is True here")
        super().__init__(embed_dim, num_heads, bias=bias, batch_first=True, device=device, dtype=dtype)
        self.seq_len, self.source_len, self.isa = seq_len, source_len or seq_len, isa
        self._forget()

    def _forget(self) -> None:
        self._packed: "dict[Any, tuple[Kernel, Any, Packed]]" = {}
        self._copies: "list[Any]" = []  # of the parameters that _packed has

    def __getstate__(self) -> "dict[str, Any]":
        """For copy and pickle: without addresses of this process."""
        return {key: value for key, value in self.__dict__.items() if key not in ("_packed", "_copies")}

    def __setstate__(self, state: "dict[str, Any]") -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._forget()

    def _parameters_now(self) -> "list[Any]":
        biased = self.in_proj_bias is not None
        return [self.in_proj_weight, self.out_proj.weight, *((self.in_proj_bias, self.out_proj.bias) if biased else ())]

    def _unchanged(self) -> "list[Any]":
        """Copies of the parameters: a new list when one bit of them is another. Versions of tensors would miss what is
        written by .data or numpy."""
        now = [one.detach() for one in self._parameters_now()]
        if len(now) != len(self._copies) or not all(map(same_bits, now, self._copies)):
            self._copies = [one.clone(memory_format=torch.contiguous_format) for one in now]
        return self._copies

    def _layer(self, cross: bool, mask: str, train: bool, scores: bool) -> Packed:
        """The compiled layer with the parameters as they are now."""
        key, copies = (cross, mask, train, scores), self._unchanged()
        known = self._packed.get(key)
        if known is not None and known[1] is copies:
            return known[2]
        if known is not None:
            kernel = known[0]
        else:
            more = {"attention": "cross", "source_len": self.source_len} if cross else {}
            kernel = Layer(name="attention", d_model=self.embed_dim, h=self.num_heads, seq_len=self.seq_len, mask=mask,
                           bias=self.in_proj_bias is not None, weight_layout="out_in", train=train, scores=scores,
                           **more).compile(self.isa)
        weights = dict(zip((*NAMES[:3], "w_o"), (*copies[0].chunk(3), copies[1])))
        if len(copies) == 4:
            weights.update(zip((*NAMES[3:], "b_o"), (*copies[2].chunk(3), copies[3])))
        packed = kernel.pack(weights)
        self._packed[key] = kernel, copies, packed
        return packed

    def forward(self, query: Any, key: Any = None, value: Any = None, key_padding_mask: Any = None,
                need_weights: bool = True, attn_mask: Any = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> Any:
        if query.dim() != 3 or (value is not None and value is not key):
            raise ValueError("query is [batch][n][embed_dim], and value is the tensor of key")
        cross = key is not None and key is not query
        (batch, n, _), m = query.shape, (key if cross else query).shape[1]
        for name, one in (("attn_mask", attn_mask), ("key_padding_mask", key_padding_mask)):
            if one is not None and one.dtype != torch.bool and not one.dtype.is_floating_point:
                raise TypeError(f"{name} is {one.dtype}; a mask is of bools, or of floats that are added to the scores")
        given: "dict[str, Any]" = {}
        mask = "none"
        if is_causal and key_padding_mask is None and not cross:
            mask = "causal"
        elif attn_mask is not None or key_padding_mask is not None or is_causal:
            hidden = torch.zeros(1, 1, n, m)
            if is_causal and attn_mask is None:
                attn_mask = torch.ones(n, m, dtype=torch.bool).triu(1)
            for one in (attn_mask, key_padding_mask[:, None, None] if key_padding_mask is not None else None):
                if one is not None:
                    one = one.view(batch, self.num_heads, n, m) if one.dim() == 3 else one
                    if one.dtype == torch.bool:
                        one = torch.zeros(one.shape).masked_fill(one, -torch.inf)
                    hidden = hidden + one
            mask, given["mask_add"] = "additive", hidden.float().expand(-1, -1, n, m).contiguous()
        parameters = self._parameters_now()
        known = [one for one in (query, key, *parameters) if one is not None]
        train = torch.is_grad_enabled() and any(one.requires_grad for one in known)
        packed = self._layer(cross, mask, train, need_weights)
        if train and not need_weights:
            return _Attention.apply(packed, given, query, key if cross else None, *parameters), None
        if train:
            raise ValueError("weights have no gradient; give need_weights=False, or call under torch.no_grad()")
        found = packed(x=query, **({"source": key} if cross else {}), **given)
        if not need_weights:
            return found, None
        return found["y"], found["attn"].mean(1) if average_attn_weights else found["attn"]


# ---- an operator that torch.compile does not look into ----

_KNOWN: "weakref.WeakValueDictionary[int, Packed]" = weakref.WeakValueDictionary()


@torch.library.custom_op("attngen::forward", mutates_args=())
def _forward(handle: int, x: torch.Tensor, width: int) -> torch.Tensor:
    packed = _KNOWN.get(handle)
    if packed is None:
        raise RuntimeError("the layer of this operator is gone, or of another process; keep what operator() returned")
    y: torch.Tensor = packed(x=x)
    return y


@_forward.register_fake
def _(handle: int, x: torch.Tensor, width: int) -> torch.Tensor:
    return x.new_empty((*x.shape[:2], width))


def operator(packed: Packed) -> "Callable[[torch.Tensor], torch.Tensor]":
    """The layer, whose one tensor is x, as a function of x that torch.compile takes: f = operator(packed); y = f(x)."""
    # graphs that torch exported hold the handle: no other layer may have it, here or in the next process
    handle, width = secrets.randbits(62), int(packed.kernel.tensors["y"].extents[-1])
    _KNOWN[handle] = packed

    def call(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.attngen.forward(handle, x, width)
        return y
    setattr(call, "packed", packed)
    return call
