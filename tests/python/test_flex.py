# SPDX-License-Identifier: MIT
"""from_flex: functions of flex_examples.py as layers, with the results of the same functions on numbers, in float64."""
import math
import random
import tempfile
import unittest
from pathlib import Path

import attngen
from attngen import flex, tensors
from attngen.programs import run
import flex_examples
from compare import furthest
from flex_examples import B, H, N

D = 4


class Number(float):
    """A score for functions that call methods of it."""


class Integer(int):
    """A position for functions that call methods of it."""

    def new_ones(self, shape, dtype=None):
        return True


def tensor(values):
    """Nested lists that take several indexes, as tensors do."""
    if not isinstance(values, list):
        return values

    class Nested(list):
        def __getitem__(self, index):
            for one in index if isinstance(index, tuple) else (index,):
                self = list.__getitem__(self, one)
            return self
    return Nested(map(tensor, values))


def draw(*shape):
    return [draw(*shape[1:]) for _ in range(shape[0])] if shape else random.uniform(-2, 2)


def attention(score_mod, mask_mod, q, k, v):
    """y [B][H][N][D] in float64, by the functions as they stand."""
    def row(b, h, t):
        scores = []
        for j in range(N):
            s = sum(x * y for x, y in zip(q[b][h][t], k[b][h][j])) / math.sqrt(D)
            s = float(score_mod(Number(s), b, h, Integer(t), Integer(j))) if score_mod else s
            seen = mask_mod(Integer(b), h, Integer(t), Integer(j)) if mask_mod else True
            scores.append(s if seen else -math.inf)
        top = max(scores)
        weights = [math.exp(s - top) if top > -math.inf else 0.0 for s in scores]
        total = sum(weights) or 1.0
        return [sum(w * v[b][h][j][c] for j, w in enumerate(weights)) / total for c in range(D)]
    return [[[row(b, h, t) for t in range(N)] for h in range(H)] for b in range(B)]


def as_call(found):
    """Tensors of a call with the axes of sequences that the layer has."""
    call = dict(found.tensors)
    for name in ("segment_q", "segment_k"):
        if name in call and not isinstance(call[name][0], list):
            call[name] = [call[name]] * B
    return call


class Traced(unittest.TestCase):
    def compare(self, example, words):
        score_mod, mask_mod = example(flex, tensor)
        layer = attngen.from_flex(score_mod, mask_mod, h=H, seq_len=N, d_k=D, name=example.__name__)
        random.seed(1)
        q, k, v = (draw(B, H, N, D) for _ in range(3))
        expected = attention(score_mod, mask_mod, q, k, v)
        with tempfile.TemporaryDirectory() as folder:
            spec, given, got = (str(Path(folder, name)) for name in (f"{layer.name}.layer", "in", "out"))
            Path(spec).write_text(layer.text)
            tensors.write(given, {"q": q, "k": k, "v": v, **as_call(layer.flex), **layer.flex.weights})
            run("attnrun", ["run", spec, "--in", given, "--out", got, *words])
            y = tensors.read(got)["y"].tolist()
        self.assertLess(furthest(y, expected), 2e-5, layer.text)


def add_tests():
    for number, example in enumerate(flex_examples.TRACED):
        words = ["--isa", "scalar"] if number % 8 == 0 else ["--reference"]
        setattr(Traced, f"test_{example.__name__}", lambda self, e=example, w=words: self.compare(e, w))


add_tests()


class Refused(unittest.TestCase):
    def test_reasons_and_places(self):
        for example, reason in flex_examples.REFUSED:
            with self.subTest(example.__name__), self.assertRaisesRegex(attngen.SpecError, reason) as caught:
                attngen.from_flex(*example(flex, tensor), h=H, seq_len=N, d_k=D)
            with self.subTest(example.__name__ + " names the line"):
                self.assertRegex(str(caught.exception), r"flex_examples.py:\d+: error")


class Texts(unittest.TestCase):
    def trace(self, score_mod=None, mask_mod=None):
        return flex.trace(score_mod, mask_mod, H, N).keys

    def test_precedence(self):
        keys = self.trace(lambda s, b, h, q, kv: s - (q - (kv - 1)) * -(2 * (h + 1)))
        self.assertEqual(keys["score"], "s - (p - (j - 1)) * -(2 * (i + 1))")
        keys = self.trace(mask_mod=lambda b, h, q, kv: ~((q > 1) & (kv > 1)) == (h != 0))
        self.assertEqual(keys["visible"], "(not (p > 1 and j > 1)) == (i != 0)")

    def test_masks_of_calls(self):
        for example, mask in ((flex_examples.padding, "padding"), (flex_examples.prefix_lm, "causal+prefix"),
                              (flex_examples.documents_of_all, "segments")):
            self.assertEqual(self.trace(*example(flex, tensor)), {"mask": mask})

    def test_keys_given_besides(self):
        def layer(**keys):
            return attngen.from_flex(None, lambda b, h, q, kv: q - kv < 3, h=H, seq_len=N, d_k=D, **keys)
        self.assertIn("visible = (p >= j) and (p - j < 3)", layer(visible="p >= j").text)
        self.assertEqual(layer().with_keys(d_k=8).flex.keys, {"visible": "p - j < 3"})
        with self.assertRaisesRegex(attngen.SpecError, "score is given, and follows from the function too"):
            attngen.from_flex(lambda s, b, h, q, kv: s + 1, h=H, seq_len=N, d_k=D, score="s")

    def test_identity_has_no_key(self):
        self.assertEqual(self.trace(lambda s, b, h, q, kv: s, lambda b, h, q, kv: b.new_ones((), dtype=bool)), {})
