# SPDX-License-Identifier: MIT
"""import_model: small models whose answers are transformers' (tests/models/answers)."""
import array
import os
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import attngen
from attngen import native
from compare import furthest

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
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)

    def load(self, name, **options):
        """The model of a folder of tests/models/imports, or of another."""
        with mock.patch.dict(os.environ, CFLAGS="-O0", XDG_CACHE_HOME=str(self.folder / "kept")):
            return attngen.import_model(MODELS / "imports" / name, isa="scalar", **options)

    def near(self, got, wanted):
        self.assertLess(furthest(got, wanted), 2e-5)

    def test_bert(self):
        model = self.load("bert")
        types = [[i % 2 for i in range(N)]] * 2
        self.near(model.embed(draw_ids(), LENGTHS, types=types), answer("bert", "hidden"))
        self.near(model.embed(draw_ids(), LENGTHS, "pooler", types=types), answer("bert", "pooler"))
        with self.assertRaisesRegex(TypeError, "bert has no output logits; it has hidden, mean, pooler$"):
            model.logits(draw_ids())
        with self.assertRaisesRegex(attngen.CallError, "an id or a type"):
            model.embed([[1000]])
        with self.assertRaisesRegex(ValueError, r"lengths has shape \[1\]; this model takes \[batch\]"):
            model.embed(draw_ids(), LENGTHS[:1])
        with self.assertRaisesRegex(ValueError, r"ids: nested lists differ in length: \[8\], \[9\]"):
            model.embed([draw_ids()[0], draw_ids()[1][:8]])
        with self.assertRaisesRegex(TypeError, "ids is i32, which 1.5 is not"):
            model.embed([[1.5]])
        with self.assertRaisesRegex(TypeError, "mean is written, and a list is copied"):
            model.run(ids=draw_ids(), mean=[[0.0] * 16] * 2)
        with model._one, self.assertRaisesRegex(attngen.CallError, "bert is in a call of another thread"):
            model.embed(draw_ids(), LENGTHS, types=types)
        short = memoryview(bytearray(4 * 16)).cast("f", (1, 16))
        with self.assertRaisesRegex(ValueError, r"mean has shape \[1, 16\]; this model takes \[batch\]\[16\]"):
            model.run(ids=draw_ids(), mean=short)
        with self.assertRaisesRegex(TypeError, r"mean is \[batch\]\[16\], and no field that is given has batch"):
            model.run(["mean"])

    def test_embedding(self):
        """Modules of sentence-transformers: the field `embedding`, whose shape stands above it in the header."""
        folder = self.folder / "pooled"
        shutil.copytree(MODELS / "imports" / "bert", folder)
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
        (folder / "modules.json").write_text('[{"path": "", "type": "sentence_transformers.models.Transformer"}, '
                                             '{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]')
        model = self.load(folder)
        self.assertEqual(model.fields["embedding"].shape, "[batch][16]")
        found = model.run(["embedding", "hidden"], ids=draw_ids())
        self.assertEqual(found["embedding"].tolist(), [rows[0] for rows in found["hidden"].tolist()])
        room = memoryview(bytearray(4 * 16)).cast("f", (1, 16))
        with self.assertRaisesRegex(ValueError, r"embedding has shape \[1, 16\]"):
            model.run(ids=draw_ids(), embedding=room)
        self.assertEqual(set(room.tobytes()), {0})

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

        with self.assertRaisesRegex(TypeError, "^gpt2 needs past, cache$"):
            model.run(["logits"], ids=draw_ids())
        self.assertRaises(TypeError, next, model.generate([1.5], 1))
        self.assertRaisesRegex(ValueError, "at least one id", next, model.generate([], 1))

    def test_cache_is_as_long_as_the_batch_needs(self):
        for kind, name, answers in ((None, "float", 2e-5), ("bf16", "bf16", 2e-2), ("i8", "bytes", 5e-2)):
            with self.subTest(name):
                model = self.load("gpt2", cache_type=kind)
                self.assertEqual(model.fields["cache"].type, "f32" if kind is None else "i8")
                self.assertEqual(model.fields["cache"].shape, "[bytes]")
                self.assertLess(furthest(model.logits(draw_ids()), answer("gpt2", "logits")), answers)
                steps = {**model._kept(2), "past": array.array("i", [0, 0])}
                size, need = steps["cache"].nbytes, model._kept_bytes("cache", 2)
                self.assertEqual(size, need)
                parts = []
                for t in range(N):  # as one call, whatever the cache rounds
                    rows = model.run(["last_logits"], ids=[one[t:t + 1] for one in draw_ids()], **steps)["last_logits"]
                    parts.append(rows.tolist())
                    steps["past"][0] += 1
                    steps["past"][1] += 1
                whole = model.logits(draw_ids()).tolist()
                self.assertLess(furthest([[part[b] for part in parts] for b in range(2)], whole), 1e-5)
                self.assertEqual(len(list(model.generate(draw_ids()[0][:4], 5))), 5)
                short = native.Block(size).view(steps["cache"].format, (len(steps["cache"]),))[:-1]
                with self.assertRaisesRegex(ValueError, f"cache has {short.nbytes} bytes; 2 sequences need {need}"):
                    model.run(["logits"], ids=draw_ids(), past=[0, 0], cache=short)
                self.assertEqual(set(short.tobytes()), {0})

    def test_slots(self):
        model = self.load("gpt2")
        four = {"cache": model._kept(4)["cache"], "past": array.array("i", [0, 0])}
        whole = model.run(["last_logits"], ids=draw_ids(), **model._kept(2))["last_logits"]
        got = model.run(["last_logits"], ids=draw_ids(), slots=[3, 1], **four)["last_logits"]
        self.assertEqual(got.tobytes(), whole.tobytes())
        with self.assertRaisesRegex(attngen.CallError, "a slot is out of range or twice"):
            model.run(["last_logits"], ids=draw_ids(), slots=[4, 1], **four)

    def test_kinds_of_cache(self):
        with self.assertRaisesRegex(attngen.SpecError, "gpt2 has a cache with pages; write cache='rows'"):
            self.load("gpt2", cache="paged")
        model = self.load("gpt2", cache="none")
        self.assertNotIn("cache", model.fields)
        self.near(model.logits(draw_ids()), answer("gpt2", "logits"))
        self.assertRaisesRegex(TypeError, "or no cache", next, model.generate([1], 1))
        ring, rows = (list(self.load("mistral", cache=kind).generate([1, 2, 3], 50)) for kind in ("ring", "rows"))
        self.assertEqual((len(ring), ring[:len(rows)]), (50, rows))  # rows are full earlier
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.load("gpt2", cache=folder).path.parent, Path(folder))

    def test_states(self):
        model, ids = self.load("qwen3_5_text"), draw_ids()
        whole = model.logits(ids)
        self.near(whole, answer("qwen3_5_text", "logits"))
        kept = model._kept(2)
        for at, to in ((0, 4), (4, 5), (5, N)):
            last = model.run(["last_logits"], ids=[row[at:to] for row in ids], **kept)["last_logits"]
            self.near(last, [rows[to - 1] for rows in whole.tolist()])
            kept["past"][0] = kept["past"][1] = to
        kept["past"][0] = 3
        with self.assertRaisesRegex(attngen.CallError, "past is not the number of tokens"):
            model.run(["last_logits"], ids=[row[:1] for row in ids], **kept)
        short = native.Block(64).view("f", (16,))
        with self.assertRaisesRegex(ValueError, "states has 64 bytes; 2 sequences need "):
            model.run(["last_logits"], ids=ids, past=[0, 0], states=short)
        self.assertEqual(len(list(model.generate([3, 4, 5], 4))), 4)

    def test_several_files(self):
        self.near(self.load("llama").logits(draw_ids()), answer("llama", "logits"))

    def test_refusals(self):
        with self.assertRaisesRegex(attngen.SpecError, "an encoder and a decoder"):
            self.load("t5")
        with self.assertRaisesRegex(attngen.Error, "config.json"):
            attngen.import_model(MODELS)
