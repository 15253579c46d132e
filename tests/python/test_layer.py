# SPDX-License-Identifier: MIT
"""Layer: specs from keywords, texts and files, what attngen writes, and what attnrun says of them."""
import os
import re
import shutil
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
        latin = self.folder / "latin.layer"
        latin.write_bytes(b"d_model = 16 # \xe9\n")
        for spec, error, text in ((self.folder / "none.layer", attngen.MachineError, "cannot be read: No such file"),
                                  (self.folder, attngen.MachineError, "cannot be read: Is a directory"),
                                  (latin, attngen.SpecError, "latin.layer.*utf-8"),
                                  ("", attngen.SpecError, "d_model is missing"),
                                  ("d_model = 16 # \udce9\n", attngen.SpecError, "UTF-8")):
            with self.subTest(spec), self.assertRaisesRegex(error, text):
                attngen.Layer(spec)
        with self.assertRaisesRegex(attngen.SpecError, "has a character NUL"):
            attngen.Layer("d_model = 16\nh = 2\nseq_len = 8", h="1\0")

    def test_a_name_does_not_say_where_files_are_written(self):
        kept = self.folder / "kept.layer"
        kept.write_text("mine")
        before = set(os.listdir(tempfile.gettempdir()))
        for name in (str(self.folder / "kept"), "../evil_out", "..", "/"):
            for spec in ("", "name = x\n"):
                with self.subTest(name), self.assertRaisesRegex(attngen.SpecError, "not a C identifier"):
                    attngen.Layer(f"{spec}d_model = 8\nh = 1\nseq_len = 4", name=name)
        self.assertEqual((kept.read_text(), os.listdir(self.folder)), ("mine", ["kept.layer"]))
        self.assertNotIn("evil_out.layer", set(os.listdir(tempfile.gettempdir())) - before)

    def test_path_with_an_equals_sign(self):
        (self.folder / "a=b").mkdir()
        path = self.folder / "a=b" / "mine.layer"
        path.write_text("d_model = 16\nh = 2\nseq_len = 8\n")
        self.assertEqual(attngen.Layer(str(path)).name, "mine")

    def test_byte_order_mark(self):
        path = self.folder / "mine.layer"
        text = "\ufeffd_model = 16\nh = 2\nseq_len = 8\n"
        path.write_text(text, encoding="utf-8")
        for spec in (path, text):
            for layer in (attngen.Layer(spec, d_model=32), attngen.Layer(spec).with_keys(d_model=32)):
                self.assertIn("d_model = 32, h = 2 heads", layer.explain())

    def test_values_of_numpy(self):
        class Scalar:
            """As numpy.bool_ is."""
            def __init__(self, value):
                self.tolist = lambda: value
        self.assertIn("bias = true", attngen.Layer(bias=Scalar(True), **TINY).text)
        self.assertEqual(list(programs.option_words({"digest": Scalar(True), "quiet": Scalar(False)})), ["--digest"])
        self.assertEqual(list(programs.option_words({"n": Scalar([1, 2])})), ["--n=1,2"])

    def test_split_emits_a_file_for_each_set(self):
        files = attngen.Layer(name="cut", **TINY).emit(self.folder, isa="scalar,avx2", split=True)
        self.assertTrue(all(path.exists() for path in files))
        self.assertIn("cut_avx2.c", [path.name for path in files])
        (self.folder / "cut_test.c").write_text("of another program")
        for split in (True, False):
            again = attngen.Layer(name="cut", **TINY).emit(self.folder, isa="scalar", split=split)
            self.assertEqual({path.name for path in again},
                             {"cut.h", "cut.c", *(("cut_internal.h", "cut_scalar.c") if split else ())})


class Programs(unittest.TestCase):
    def test_compiler_is_the_environment_s(self):
        with mock.patch.dict(os.environ, CC="some compiler -flag"):
            self.assertEqual(programs.environment()["CC"], "some compiler -flag")

    def test_a_machine_without_compiler(self):
        with mock.patch.dict(os.environ, CC="", PATH=""), mock.patch("importlib.util.find_spec", return_value=None):
            layer = attngen.Layer(**TINY)
            for call in (layer.compile, layer.check, layer.bench, lambda: next(layer.sweep({"h": [1]}))):
                with self.assertRaisesRegex(attngen.MachineError, r"no C compiler.*attngen\[compiler\]"):
                    call()
        package = mock.Mock(origin="/nowhere/ziglang/__init__.py")
        with mock.patch.dict(os.environ, CC="", PATH=""), mock.patch("importlib.util.find_spec", return_value=package):
            self.assertRegex(programs.compiler(), "-m ziglang cc -mcpu=baseline$")

    def test_zig_in_a_folder_with_a_blank(self):
        real = shutil.which("gcc") or shutil.which("cc")
        with tempfile.TemporaryDirectory(prefix="a b ") as folder:
            zig, package = Path(folder, "zig"), mock.Mock(origin=str(Path(folder, "__init__.py")))
            zig.write_text(f'#!/bin/sh\nshift\nPATH={os.environ["PATH"]}\n'
                           f'[ "$1" = -mcpu=baseline ] && shift\nexec {real} "$@"\n')
            zig.chmod(0o755)
            with mock.patch.dict(os.environ, CC="", PATH="", CFLAGS="-O0"), \
                    mock.patch("importlib.util.find_spec", return_value=package):
                self.assertEqual(programs.compiler(), "zig cc -mcpu=baseline")
                self.assertEqual(attngen.Layer(**TINY).check(isa="scalar")[0].status, "ok")
                attngen.Layer(**TINY).compile(isa="scalar", cache=folder)

    def test_programs_that_are_not_there(self):
        with mock.patch.dict(os.environ, ATTNGEN="/none/attngen"), \
                self.assertRaisesRegex(attngen.MachineError, "/none/attngen is not here"):
            attngen.Layer(**TINY)

    def test_version(self):
        text = (Path(__file__).parents[2] / "gen/base/version.h").read_text()
        self.assertIn(f'"{attngen.__version__}"', text)

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

    def test_paths_are_of_the_callers_folder(self):
        arrays = {"x": [[[0.1 * (t + c) for c in range(16)] for t in range(4)]],
                  **{name: [[(3 * r + c) % 7 / 7 for c in range(16)] for r in range(16)]
                     for name in ("w_q", "w_k", "w_v", "w_o")}}
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CFLAGS="-O0"):
            here = os.getcwd()
            self.addCleanup(os.chdir, here)
            for name in ("ATTNGEN", "ATTNRUN"):
                if name in os.environ:
                    os.environ[name] = os.path.abspath(os.environ[name])
            os.chdir(folder)
            options = dict(isa="scalar", rounds=1, seconds=0)
            list(self.layer.sweep({"h": [1]}, html="a.html", csv="a.csv", cache="kept", **options))
            self.layer.tune("mine.plan", isa="scalar", budget=0)
            for plan in ("mine.plan", Path("mine.plan")):
                self.layer.explain(plan=plan)
                self.layer.emit("out", plan=plan)
                self.layer.check(isa="scalar", plan=plan)
                self.layer.bench(plan=plan, **options)
            Path("words").write_text("a\nb\nc\nd\n")
            self.layer.roof("roof.svg", **options)
            self.layer.heatmap("map.svg", arrays, isa="scalar", labels="words")
            self.layer.compile("scalar", cache="objects")
            for name in ("a.html", "a.csv", "kept", "out/mine.h", "roof.svg", "map.svg", "objects"):
                self.assertTrue(os.path.exists(name), name)
            with self.assertRaisesRegex(TypeError, "journal= names the file"):
                next(self.layer.sweep({"h": [1]}, json="x"))
            os.chdir(here)

    def test_heatmap_names_the_tensor(self):
        for wrong in (None, "text", memoryview(bytes(64)).cast("I"), [["a"]], [1 << 40]):
            with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(TypeError, "^x: ", msg=repr(wrong)):
                self.layer.heatmap(Path(folder, "map.svg"), {"x": wrong})

    def test_heatmap(self):
        arrays = {"x": [[[0.1 * (t + c) for c in range(16)] for t in range(4)]]}
        arrays.update({name: [[(3 * r + c) % 7 / 7 for c in range(16)] for r in range(16)]
                       for name in ("w_q", "w_k", "w_v", "w_o")})
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CFLAGS="-O0"):
            both = self.layer.heatmap(Path(folder, "map.svg"), arrays, isa="scalar")
            one = self.layer.heatmap(Path(folder, "one.svg"), arrays, isa="scalar", head=1)
            maps = [ElementTree.parse(path).getroot() for path in (both, one)]
            self.assertEqual([len(re.findall("head [01]", "".join(root.itertext()))) for root in maps], [2, 1])
