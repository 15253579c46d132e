# SPDX-License-Identifier: MIT
"""import_model: small models whose answers are transformers' (tests/models/answers)."""
import array
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import attngen
from attngen import tensors

MODELS = Path(__file__).parents[1] / "models"
N, LENGTHS = 9, [9, 6]


def draw_ids():
    """As tests/models/model_test.h has them."""
    return [[2 + (3 + 5 * i + 7 * s) % 17 for i in range(N)] for s in range(2)]


def answer(model, name):
    numbers = array.array("f")
    numbers.frombytes((MODELS / "answers" / model / f"{name}.f32").read_bytes())
    return numbers


class Models(unittest.TestCase):
    def load(self, name):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        with mock.patch.dict(os.environ, CFLAGS="-O0"):
            return attngen.import_model(MODELS / "imports" / name, isa="scalar", cache=holder.name)

    def near(self, got, wanted):
        numbers = tensors.flat(got.tolist())
        self.assertEqual(len(numbers), len(wanted))
        self.assertLess(max(abs(a - b) for a, b in zip(numbers, wanted)), 2e-5)

    def test_bert(self):
        model = self.load("bert")
        types = [[i % 2 for i in range(N)]] * 2
        self.near(model.embed(draw_ids(), LENGTHS, types=types), answer("bert", "hidden"))
        self.near(model.embed(draw_ids(), LENGTHS, "pooler", types=types), answer("bert", "pooler"))
        with self.assertRaisesRegex(TypeError, "bert has no logits"):
            model.logits(draw_ids())
        with self.assertRaisesRegex(attngen.CallError, "id"):
            model.embed([[1000]])

    def test_gpt2(self):
        model = self.load("gpt2")
        self.near(model.embed(draw_ids()), answer("gpt2", "hidden"))
        self.near(model.logits(draw_ids()), answer("gpt2", "logits"))
        prompt = draw_ids()[0][:4]
        ids = list(model.generate(prompt, 5))
        for count in range(5):  # each is the likeliest after all that came before
            row = model.logits([prompt + ids[:count]]).tolist()[0][-1]
            self.assertEqual(ids[count], row.index(max(row)))
        self.assertEqual(list(model.generate(prompt, 5, end=ids[0])), ids[:1])
        self.assertEqual(len(list(model.generate(prompt, 100))), model.cache_len - len(prompt) + 1)

    def test_several_files(self):
        self.near(self.load("llama").logits(draw_ids()), answer("llama", "logits"))

    def test_refusals(self):
        with self.assertRaisesRegex(attngen.SpecError, "an encoder and a decoder"):
            self.load("t5")
        with self.assertRaises(attngen.Error):
            attngen.import_model(MODELS)
