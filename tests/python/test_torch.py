# SPDX-License-Identifier: MIT
"""Layers on torch's tensors, and FlexAttention's functions beside torch's own flex_attention, in float64."""
import copy
import functools
import gc
import io
import os
import types
import unittest
from unittest import mock

import attngen
from attngen import native, tensors
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

    def near(self, a, b, tolerance, text=None):
        """Of one shape, without NaN, and nowhere further apart."""
        torch.testing.assert_close(a.double(), b.double(), atol=tolerance, rtol=0, msg=text and (lambda m: m + text))

    def test_views_of_torch(self):
        for kind, name, wide in ((torch.bfloat16, "BF16", 2), (torch.float16, "F16", 2), (torch.bool, "BOOL", 1),
                                 (torch.float32, "F32", 4)):
            given = torch.arange(6).reshape(2, 3).to(kind)
            view, called = tensors.typed_view(given)
            self.assertEqual((called, view.shape, view.nbytes), (name, (2, 3), 6 * wide))
            self.assertEqual(native.address_of(view), given.data_ptr())
            del given  # the view keeps the numbers
            self.assertTrue(torch.equal(torch.frombuffer(view, dtype=kind), torch.arange(6).to(kind)))
            turned, _ = tensors.typed_view(torch.arange(6).reshape(2, 3).to(kind).T)
            expected = torch.tensor([0, 3, 1, 4, 2, 5]).to(kind)
            self.assertTrue(torch.equal(torch.frombuffer(turned, dtype=kind), expected))

    def compare(self, example):
        score_mod, mask_mod = example(torch, torch.tensor)
        q, k, v = (torch.randn(B, H, N, D) for _ in range(3))
        block_mask = mask_mod and flex_attention.create_block_mask(mask_mod, B, H, N, N, device="cpu", BLOCK_SIZE=N)
        expected = flex_attention.flex_attention(q.double(), k.double(), v.double(), score_mod, block_mask)
        layer = attngen.from_flex(score_mod, mask_mod, h=H, seq_len=N, d_k=D, name=example.__name__)
        y = layer.compile(isa="scalar").pack(layer.flex.weights)(q=q, k=k, v=v, **layer.flex.tensors)
        self.assertIsInstance(y, torch.Tensor)
        self.near(y, expected, 5e-6, layer.text)

    def test_refused(self):
        for example, reason in flex_examples.REFUSED:
            reason = {"bernoulli": "a random number is drawn"}.get(reason, reason)
            with self.subTest(example.__name__), self.assertRaisesRegex(attngen.SpecError, reason):
                attngen.from_flex(*example(torch, torch.tensor), h=H, seq_len=N, d_k=D)

    def test_captured_in_other_ways(self):
        """Attributes, arguments of a partial, objects that are called, and what is computed of tensors alone."""
        slopes, pairs = torch.rand(H), torch.rand(N, N) > 0.3
        own = types.SimpleNamespace(slopes=slopes, pairs=pairs)

        class Scores:
            def __call__(self, s, b, h, q, kv):
                return s + slopes[h] * kv

            def scaled(self, s, b, h, q, kv):
                return s ** 2.0 + own.slopes[h]
        scores = [functools.partial(lambda slope, s, b, h, q, kv: s + slope[h], slopes), Scores(), Scores().scaled,
                  lambda s, b, h, q, kv: s + (slopes * 2)[h] + torch.exp(slopes)[h] - (1 - slopes)[h],
                  lambda s, b, h, q, kv: s + torch.div(q - kv, 4, rounding_mode="trunc") + (q * 0.3).int(),
                  lambda s, b, h, q, kv: s + torch.where(q > 0, torch.pow(q.float(), -0.5), 0.0)]
        for number, score in enumerate(scores):
            def example(xp, T, score=score):
                return score, lambda b, h, q, kv: own.pairs[q, kv] | (q == kv)
            example.__name__ = f"captured_{number}"
            with self.subTest(number):
                self.compare(example)
        rows = torch.rand(N, N)
        with self.assertRaisesRegex(attngen.SpecError, "rows is used with an index missing"):
            attngen.from_flex(lambda s, b, h, q, kv: s + torch.exp(rows[q])[kv], h=H, seq_len=N, d_k=D)

    def test_tensors_where_they_lie(self):
        layer = attngen.Layer(name="mine", d_model=D, h=2, seq_len=N, mask="padding")
        weights = {name: torch.randn(D, D) for name in ("w_q", "w_k", "w_v", "w_o")}
        lengths, x = torch.tensor([N, 3], dtype=torch.int32), torch.randn(B, N, D).bfloat16()
        wide = layer.compile(isa="scalar").pack(weights)(x=x.float(), lengths=lengths)
        for kind in (torch.bfloat16, torch.float16):
            narrow = layer.with_keys(tensor_type="bf16" if kind is torch.bfloat16 else "f16").compile(isa="scalar")
            given, y = x.to(kind), torch.zeros(B, N, D, dtype=kind)
            packed = narrow.pack(weights)
            self.assertIs(packed(x=given, lengths=lengths, y=y), y)
            self.near(y, wide, 1e-2 * wide.abs().max().item())
            self.assertTrue(torch.equal(packed(x=given, lengths=lengths), y))
            strided = given.transpose(1, 2).contiguous().transpose(1, 2)
            self.assertTrue(torch.equal(packed(x=strided, lengths=lengths), y))

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
            with self.subTest(f"{list(given)}, {'self' if other is None else 'cross'}"), torch.no_grad():
                for a, b in zip(ours(x, key, key, **given), theirs(x, key, key, **given), strict=True):
                    self.near(a, b, 1e-5)
        with torch.no_grad():
            causal = ours(x, is_causal=True, need_weights=False)[0]
            self.near(causal, theirs(x, x, x, attn_mask=hidden)[0], 1e-5)
        for key, given in ((None, {}), (source, {}), (None, dict(key_padding_mask=padding, attn_mask=hidden))):
            gradients = []
            for module in (ours, theirs):
                module.zero_grad()
                mine = x.clone().requires_grad_()
                other = mine if key is None else key.clone().requires_grad_()
                y = module(mine, other, other, need_weights=False, **given)[0]
                (y * torch.arange(D)).sum().backward()
                gradients.append([mine.grad, other.grad, *(one.grad for one in module.parameters())])
            for a, b in zip(*gradients, strict=True):
                self.near(a, b, 1e-4 * max(1, b.abs().max().item()))

    def test_backward_refuses_what_it_cannot_do(self):
        from attngen import nn
        ours = nn.MultiheadAttention(D, 2, seq_len=N, isa="scalar")
        for other in (None, torch.randn(1, N - 3, D)):
            x = torch.randn(1, N, D, requires_grad=True)
            held = x * 1
            key = held if other is None else other.clone()
            y = ours(held, key, key, need_weights=False)[0]
            with torch.no_grad():
                key.mul_(2)  # backward would read it where it lies
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.sum().backward()
        y = ours(x, need_weights=False)[0]
        first, = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "once_differentiable"):
            first.sum().backward()
        y = ours(x, need_weights=False)[0]
        y.sum().backward()
        with self.assertRaisesRegex(RuntimeError, "a second time"):
            y.sum().backward()
        with self.assertRaisesRegex(ValueError, "need_weights=False"):
            ours(x)
        with self.assertRaisesRegex(ValueError, "value is the tensor of key"):
            ours(x, x, x * 2, need_weights=False)

    def test_parameters_that_change_are_packed_again(self):
        from attngen import nn
        ours = nn.MultiheadAttention(D, 2, seq_len=N, isa="scalar")
        x = torch.randn(1, N, D)
        with torch.no_grad():
            before = ours(x, need_weights=False)[0]
            ours.out_proj.weight.mul_(2)
            ours.out_proj.bias.mul_(2)
            self.assertGreater(before.abs().min().item(), 1e-5)
            self.near(ours(x, need_weights=False)[0], 2 * before, 1e-5)

    def test_parameters_that_change_unseen_are_packed_again(self):
        from attngen import nn
        ours = nn.MultiheadAttention(D, 2, seq_len=N, isa="scalar")
        x = torch.randn(1, N, D)
        with torch.no_grad():
            before = ours(x, need_weights=False)[0]
            packed = next(iter(ours._packed.values()))[2]
            self.assertTrue(torch.equal(ours(x, need_weights=False)[0], before))
            self.assertIs(next(iter(ours._packed.values()))[2], packed)  # nothing changed
            for factor, change in ((2, lambda one: one.data.mul_(2)),
                                   (4, lambda one: torch.from_numpy(one.detach().numpy()).mul_(2))):
                change(ours.out_proj.weight)
                change(ours.out_proj.bias)
                self.near(ours(x, need_weights=False)[0], factor * before, 1e-5)
            for parameter in ours.parameters():
                parameter.data.zero_()
            self.assertEqual(ours(x, need_weights=False)[0].abs().max(), 0)

    def test_copies_of_modules(self):
        from attngen import nn
        ours = nn.MultiheadAttention(D, 2, 0.0, batch_first=True, seq_len=N, isa="scalar")
        x, file = torch.randn(1, N, D), io.BytesIO()
        with torch.no_grad():
            y = ours(x, need_weights=False)[0]
            torch.save(ours, file)
            file.seek(0)
            for other in (copy.deepcopy(ours), torch.load(file, weights_only=False)):
                self.assertTrue(torch.equal(other(x, need_weights=False)[0], y))
        with torch.inference_mode():
            made = nn.MultiheadAttention(D, 2, seq_len=N, isa="scalar")
            made.load_state_dict(ours.state_dict())
            self.assertTrue(torch.equal(made(x, need_weights=False)[0], y))
        for wrong in (dict(dropout=0.5), dict(batch_first=False)):
            with self.assertRaisesRegex(ValueError, "dropout is 0 and batch_first is True"):
                nn.MultiheadAttention(D, 2, seq_len=N, **wrong)

    def test_masks_of_integers_are_refused(self):
        from attngen import nn
        ours, x = nn.MultiheadAttention(D, 2, seq_len=N, isa="scalar"), torch.randn(1, N, D)
        for kind in (torch.uint8, torch.int64):
            for name, shape in (("attn_mask", (N, N)), ("key_padding_mask", (1, N))):
                with self.assertRaisesRegex(TypeError, f"{name} is {kind}; a mask is of bools, or of floats"):
                    ours(x, need_weights=False, **{name: torch.ones(shape, dtype=kind)})

    def test_operator_of_a_layer_that_is_gone(self):
        from attngen import nn
        made = attngen.Layer(name="mine", d_model=D, h=2, seq_len=N).compile(isa="scalar")
        weights = {name: torch.randn(D, D) for name in ("w_q", "w_k", "w_v", "w_o")}
        x, handles = torch.randn(B, N, D), set()
        for _ in range(20):
            function = nn.operator(made.pack(weights))
            handles.add(function.__closure__[0].cell_contents)
            del function
            gc.collect()
        self.assertEqual(len(handles), 20)
        for handle in handles:
            with self.assertRaisesRegex(RuntimeError, "the layer of this operator is gone"):
                torch.ops.attngen.forward(handle, x, D)

    def test_negative_views(self):
        packed = attngen.Layer(name="mine", d_model=D, h=2, seq_len=N).compile(isa="scalar").pack(
            {name: torch.randn(D, D) for name in ("w_q", "w_k", "w_v", "w_o")})
        x = torch.randn(B, N, D)
        self.assertTrue(torch.equal(packed(x=torch._neg_view(x)), packed(x=-x)))
        self.assertEqual(tensors.typed_view(torch._neg_view(x))[0].tolist(), (-x).tolist())
        with self.assertRaisesRegex(TypeError, "y is written, and its layout"):
            packed(x=x, y=torch._neg_view(torch.zeros(B, N, D)))

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
