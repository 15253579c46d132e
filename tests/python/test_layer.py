# SPDX-License-Identifier: MIT
"""Layer: specs from keywords, texts and files, what attngen writes, and what attnrun says of them."""
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import attngen
from attngen import programs

TINY = dict(d_model=16, h=2, seq_len=8)


class Specs(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def test_three_ways_give_the_same_pair(self):
        text = "name = mine\nd_model = 16\nh = 2 # heads\nseq_len = 8\n"
        (self.folder / "mine.layer").write_text(text)
        ways = [attngen.Layer(name="mine", **TINY), attngen.Layer(text), attngen.Layer(self.folder / "mine.layer")]
        pairs = [layer.emit(self.folder / str(way), isa="scalar") for way, layer in enumerate(ways)]
        self.assertEqual([path.name for path in pairs[0]], ["mine.h", "mine.c"])
        self.assertEqual(pairs[0][0].read_bytes(), pairs[1][0].read_bytes())
        self.assertEqual(pairs[0][0].read_bytes(), pairs[2][0].read_bytes())

    def test_values(self):
        layer = attngen.Layer(bias=True, softcap=None, scale=0.5, score="s + t[i][0]", table={"t": (2, 3)},
                              plan={"fold": "off"}, mask="causal", **TINY)
        for line in ("bias = true", "softcap = none", "scale = 0.5", "table.t = 2, 3", "plan.fold = off"):
            self.assertIn(line, layer.text)

    def test_keyword_overrides_a_line(self):
        layer = attngen.Layer("d_model = 16\nh = 2\nseq_len = 8", h=4, bias=True)
        self.assertIn("h = 4 heads", layer.explain())
        self.assertIn("bias true", layer.explain())

    def test_with_keys(self):
        layer = attngen.Layer("d_model = 16\nh = 2\nseq_len = 8", h=4).with_keys(d_model=32, seq_len=9)
        self.assertIn("d_model = 32, h = 4 heads", layer.explain())

    def test_refusals_carry_the_message(self):
        with self.assertRaisesRegex(attngen.SpecError, r"^layer.layer:2: error: h = 3 does not divide d_model = 16"):
            attngen.Layer(d_model=16, h=3, seq_len=8)
        with self.assertRaisesRegex(attngen.SpecError, "unknown key"):
            attngen.Layer(heads_of_mine=3, **TINY)
        with self.assertRaises(OSError):
            attngen.Layer(self.folder / "none.layer")

    def test_split_emits_a_file_for_each_set(self):
        files = attngen.Layer(name="cut", **TINY).emit(self.folder, isa="scalar,avx2", split=True)
        self.assertTrue(all(path.exists() for path in files))
        self.assertIn("cut_avx2.c", [path.name for path in files])


class Programs(unittest.TestCase):
    def test_compiler_is_the_environment_s(self):
        with mock.patch.dict(os.environ, CC="some compiler -flag"):
            self.assertEqual(programs.environment()["CC"], "some compiler -flag")

    def test_a_machine_without_compiler(self):
        with mock.patch.dict(os.environ, CC="", PATH=""), mock.patch("importlib.util.find_spec", return_value=None):
            self.assertIsNone(programs.compiler())
        package = mock.Mock(origin="/nowhere/ziglang/__init__.py")
        with mock.patch.dict(os.environ, CC="", PATH=""), mock.patch("importlib.util.find_spec", return_value=package):
            self.assertRegex(programs.compiler(), "-m ziglang cc -mcpu=baseline$")

    def test_errors_by_exit_code(self):
        for code, error in ((1, attngen.CheckError), (2, attngen.SpecError), (3, attngen.MachineError)):
            with self.assertRaisesRegex(error, "what it said"):
                programs.raise_for(code, "what it said\n")
        with mock.patch.dict(os.environ, CC="false"), self.assertRaises(attngen.MachineError):
            attngen.Layer(**TINY).check(isa="scalar")


class Measurements(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.layer = attngen.Layer(name="mine", **TINY)

    def test_check(self):
        with mock.patch.dict(os.environ, CFLAGS="-O0"):
            checks = self.layer.check(isa="scalar")
        self.assertEqual([(check.status, check.name, check.isa) for check in checks], [("ok", "mine", "scalar")])

    def test_bench(self):
        with mock.patch.dict(os.environ, CFLAGS="-O0"):
            rows = self.layer.bench(isa="scalar", rounds=1, seconds=0)
        self.assertEqual(rows[0]["step"], "layer")
        self.assertGreater(rows[0]["us"], 0)

    def test_roof(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CFLAGS="-O0"):
            picture = Path(folder, "roof.svg")
            rows = self.layer.roof(picture, isa="scalar", rounds=1, seconds=0)
            self.assertIn("<svg", picture.read_text())
        self.assertEqual(rows[0]["step"], "layer")
        self.assertAlmostEqual(rows[0]["share"], rows[0]["roof_us"] / rows[0]["us"], delta=0.01 * rows[0]["share"])

    def test_sweep(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CFLAGS="-O0"):
            journal, options = Path(folder, "points.jsonl"), dict(isa="scalar", rounds=1, seconds=0)
            points = list(self.layer.sweep({"h": [1, 2]}, **options))
            self.assertEqual([(point["h"], point["status"]) for point in points], [(1, "ok"), (2, "ok")])
            kept = list(self.layer.sweep({"h": "1,2"}, journal, **options))
            again = list(self.layer.sweep({"h": "1,2"}, journal, **options))
            self.assertEqual([(point["h"], point["status"]) for point in kept], [(1, "ok"), (2, "ok")])
            self.assertEqual(kept, again)  # times too: nothing was measured again
            self.assertEqual(len(journal.read_text().splitlines()), 2)
            with self.assertRaisesRegex(attngen.SpecError, "no_key"):
                list(self.layer.sweep({"no_key": [1]}, **options))

    def test_heatmap(self):
        arrays = {"x": [[[0.1 * (t + c) for c in range(16)] for t in range(4)]]}
        arrays.update({name: [[(3 * r + c) % 7 / 7 for c in range(16)] for r in range(16)]
                       for name in ("w_q", "w_k", "w_v", "w_o")})
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CFLAGS="-O0"):
            both = self.layer.heatmap(Path(folder, "map.svg"), arrays, isa="scalar")
            one = self.layer.heatmap(Path(folder, "one.svg"), arrays, isa="scalar", head=1)
            maps = [ElementTree.parse(path).getroot() for path in (both, one)]
            self.assertEqual([len(re.findall("head [01]", "".join(root.itertext()))) for root in maps], [2, 1])
