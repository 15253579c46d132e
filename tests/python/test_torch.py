# SPDX-License-Identifier: MIT
"""Layers on torch's tensors, and FlexAttention's functions beside torch's own flex_attention, in float64."""
import os
import unittest
from unittest import mock

import attngen
import flex_examples
from flex_examples import B, H, N

try:
    import torch
    from torch.nn.attention import flex_attention
except ImportError:
    torch = None

D = 8


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        patch = mock.patch.dict(os.environ, CFLAGS="-O0")
        patch.start()
        self.addCleanup(patch.stop)

    def compare(self, example):
        score_mod, mask_mod = example(torch, torch.tensor)
        q, k, v = (torch.randn(B, H, N, D) for _ in range(3))
        block_mask = mask_mod and flex_attention.create_block_mask(mask_mod, B, H, N, N, device="cpu", BLOCK_SIZE=N)
        expected = flex_attention.flex_attention(q.double(), k.double(), v.double(), score_mod, block_mask)
        layer = attngen.from_flex(score_mod, mask_mod, h=H, seq_len=N, d_k=D, name=example.__name__)
        call = {name: one.to({"mask_bool": torch.bool, "mask_add": torch.float}.get(name, torch.int32)).contiguous()
                for name, one in layer.flex.tensors.items()}
        for name in ("segment_q", "segment_k"):
            if name in call and call[name].dim() == 1:
                call[name] = call[name].expand(B, N).contiguous()
        y = layer.compile(isa="scalar").pack(layer.flex.weights)(q=q, k=k, v=v, **call)
        self.assertIsInstance(y, torch.Tensor)
        self.assertLess((y - expected).abs().max().item(), 5e-6, layer.text)

    def test_refused(self):
        for example, reason in flex_examples.REFUSED:
            reason = {"bernoulli": "rand|bernoulli"}.get(reason, reason)
            if example is flex_examples.random_dropout:
                continue  # torch.rand is a tensor of this process: the trace would keep one number of it
            with self.subTest(example.__name__), self.assertRaisesRegex(attngen.SpecError, reason):
                attngen.from_flex(*example(torch, torch.tensor), h=H, seq_len=N, d_k=D)

    def test_tensors_where_they_lie(self):
        layer = attngen.Layer(name="mine", d_model=D, h=2, seq_len=N, mask="padding", tensor_type="bf16")
        packed = layer.compile(isa="scalar").pack({name: torch.randn(D, D) for name in ("w_q", "w_k", "w_v", "w_o")})
        x, y = torch.randn(B, N, D).bfloat16(), torch.zeros(B, N, D).bfloat16()
        out = packed(x=x, lengths=torch.tensor([N, 3], dtype=torch.int32), y=y)
        self.assertIs(out, y)
        self.assertGreater(y.abs().sum().item(), 0)

    def test_multihead_attention(self):
        from attngen import nn
        theirs = torch.nn.MultiheadAttention(D, 2, batch_first=True)
        ours = nn.MultiheadAttention(D, 2, seq_len=N, isa="scalar")
        ours.load_state_dict(theirs.state_dict())
        x, source = torch.randn(B, N, D), torch.randn(B, N - 3, D)
        padding = torch.arange(N)[None] >= torch.tensor([N, 5])[:, None]
        hidden = torch.ones(N, N, dtype=torch.bool).triu(1)
        for given, other in ((dict(), None), (dict(key_padding_mask=padding), None), (dict(attn_mask=hidden), None),
                             (dict(attn_mask=torch.randn(N, N), key_padding_mask=padding), None), (dict(), source)):
            key = x if other is None else other
            with self.subTest(str(list(given))), torch.no_grad():
                for a, b in zip(ours(x, key, key, **given), theirs(x, key, key, **given), strict=True):
                    self.assertLess((a - b).abs().max().item(), 1e-5)
        with torch.no_grad():
            causal = ours(x, is_causal=True, need_weights=False)[0]
            self.assertLess((causal - theirs(x, x, x, attn_mask=hidden)[0]).abs().max().item(), 1e-5)
        for key in (None, source):
            gradients = []
            for module in (ours, theirs):
                module.zero_grad()
                mine = x.clone().requires_grad_()
                other = mine if key is None else key.clone().requires_grad_()
                y = module(mine, other, other, need_weights=False)[0]
                (y * torch.arange(D)).sum().backward()
                gradients.append([mine.grad, other.grad, *(one.grad for one in module.parameters())])
            for a, b in zip(*gradients):
                self.assertLess((a - b).abs().max().item(), 1e-4 * max(1, b.abs().max().item()))

    def test_parameters_that_change_are_packed_again(self):
        from attngen import nn
        ours = nn.MultiheadAttention(D, 2, seq_len=N, isa="scalar")
        x = torch.randn(1, N, D)
        with torch.no_grad():
            before = ours(x, need_weights=False)[0]
            ours.out_proj.weight.mul_(2)
            ours.out_proj.bias.mul_(2)
            self.assertLess((ours(x, need_weights=False)[0] - 2 * before).abs().max().item(), 1e-5)

    def test_compiled_by_torch(self):
        from attngen import nn
        weights = {name: torch.randn(D, D) for name in ("w_q", "w_k", "w_v", "w_o")}
        packed = attngen.Layer(name="mine", d_model=D, h=2, seq_len=N).compile(isa="scalar").pack(weights)
        function, x = nn.operator(packed), torch.randn(B, N, D)
        compiled = torch.compile(lambda x: function(x) * 2, backend="eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(x), packed(x=x) * 2))


def add_tests():
    for example in flex_examples.TRACED:
        setattr(Torch, f"test_{example.__name__}", lambda self, e=example: self.compare(e))


add_tests()
