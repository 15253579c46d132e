# SPDX-License-Identifier: MIT
"""Kernel: compiled layers called with arrays, caches, gradients, and the folder of compiled objects."""
import array
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import attngen
from attngen import flex, kernel, native, tensors
import flex_examples
from test_flex import B, D, H, N, as_call, attention, draw, tensor

try:
    import numpy
except ImportError:
    numpy = None

D_MODEL = 8
WEIGHTS = ("w_q", "w_k", "w_v", "w_o")


def floats(values):
    """Nested lists as a view that the kernel reads where it lies."""
    return tensors.view_of(values)


def flat(view):
    return tensors.flat(view.tolist())


def furthest(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) if sys.version_info >= (3, 10) else \
        max(abs(x - y) for x, y in zip(a, b))


class Compiled(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        patch = mock.patch.dict(os.environ, CFLAGS="-O0")
        patch.start()
        self.addCleanup(patch.stop)
        random.seed(2)
        self.weights = {name: draw(D_MODEL, D_MODEL) for name in WEIGHTS}

    def compile(self, **keys):
        keys = {"name": "mine", "d_model": D_MODEL, "h": 2, "seq_len": 6, **keys}
        return attngen.Layer(**keys).compile(isa="scalar", cache=None)

    def reference(self, layer, given):
        spec, taken, got = (str(Path(self.folder, name)) for name in (f"{layer.name}.layer", "in", "out"))
        Path(spec).write_text(layer.text)
        tensors.write(taken, given)
        attngen.programs.run("attnrun", ["run", spec, "--in", taken, "--out", got, "--reference"])
        return tensors.read(got)

    # ---- calls ----

    def test_call_is_the_reference(self):
        made = self.compile(mask="causal+padding")
        x, lengths = draw(2, 5, D_MODEL), [5, 3]
        expected = flat(self.reference(made.layer, {"x": x, "lengths": lengths, **self.weights})["y"])
        packed = made.pack(self.weights)
        self.assertEqual(packed.isa, "scalar")
        for given in (x, floats(x), array_of_floats(x)):
            y = packed(x=given, lengths=array.array("i", lengths))
            self.assertEqual(y.shape, (2, 5, D_MODEL))
            self.assertLess(furthest(flat(y), expected), 1e-5)
        out = floats(draw(2, 5, D_MODEL))
        self.assertIs(packed(x=x, lengths=lengths, y=out), out)
        self.assertLess(furthest(flat(out), expected), 1e-5)
        call, outputs = packed.bind(x=floats(x), lengths=lengths)
        call()
        self.assertLess(furthest(flat(outputs["y"]), expected), 1e-5)

    def test_tensors_are_listed(self):
        made = self.compile(lse=True)
        self.assertEqual(made.tensors["x"].shape, "[batch][n][8]")
        self.assertTrue(made.tensors["w_q"].packed and made.tensors["lse"].written)
        outputs = made.pack(self.weights)(x=draw(1, 3, D_MODEL))
        self.assertEqual({name: one.shape for name, one in outputs.items()}, {"y": (1, 3, D_MODEL), "lse": (1, 2, 3)})

    def test_refusals(self):
        made = self.compile()
        packed = made.pack(self.weights)
        x = draw(1, 3, D_MODEL)
        with self.assertRaisesRegex(TypeError, "mine has no tensor z; it has x, y"):
            packed(x=x, z=x)
        with self.assertRaisesRegex(TypeError, r"mine needs x \[batch\]\[n\]\[8\]"):
            packed()
        with self.assertRaisesRegex(ValueError, r"x has shape \[1, 3, 4\]; this layer takes \[batch\]\[n\]\[8\]"):
            packed(x=draw(1, 3, 4))
        with self.assertRaisesRegex(TypeError, "x is d; this layer takes f32"):
            packed(x=memoryview(array.array("d", [0.0] * 24)).cast("B").cast("d", (1, 3, 8)))
        with self.assertRaisesRegex(TypeError, "y is written, and this buffer is read-only"):
            packed(x=x, y=memoryview(bytes(96)).cast("f", (1, 3, 8)))
        with self.assertRaisesRegex(attngen.CallError, "outside the limits"):
            packed(x=draw(1, 7, D_MODEL))
        with self.assertRaisesRegex(attngen.CallError, "NaN or infinite"):
            made.pack({**self.weights, "w_k": [[float("nan")] * D_MODEL] * D_MODEL})
        with self.assertRaisesRegex(attngen.CallError, "needed is NULL"):
            made.pack({"w_q": self.weights["w_q"]})

    # ---- caches ----

    def test_steps_are_the_whole(self):
        for keys in (dict(), dict(cache_type="i8")):
            packed = self.compile(cache="rows", cache_len=6, mask="causal", **keys).pack(self.weights)
            x = draw(2, 6, D_MODEL)
            whole = flat(packed(x=x, cache=packed.cache(2)))
            cache = packed.cache(2)
            parts = [packed(x=[row[t:t + 2] for row in x], cache=cache).tolist() for t in (0, 2, 4)]
            steps = [[row for part in parts for row in part[b]] for b in range(2)]
            self.assertLess(furthest(tensors.flat(steps), whole), 1e-4)
            self.assertEqual(cache.past.tolist(), [6, 6])
            cache.reset()
            self.assertEqual(cache.past.tolist(), [0, 0])

    def test_moved_sequence(self):
        packed = self.compile(cache="rows", cache_len=6, mask="causal").pack(self.weights)
        x = draw(2, 3, D_MODEL)
        cache = packed.cache(2)
        packed(x=x, cache=cache)
        cache.move([1, 1])
        y = packed(x=[draw(1, D_MODEL)] * 2, cache=cache).tolist()
        self.assertEqual(y[0], y[1])
        with self.assertRaises(ValueError):
            cache.move([0])

    # ---- training ----

    def test_gradients_are_differences(self):
        packed = self.compile(train=True).pack(self.weights)
        x, dy = draw(1, 4, D_MODEL), draw(1, 4, D_MODEL)
        saved = kernel.Saved()
        packed(x=x, saved=saved)
        gradients = saved.backward(dy)
        self.assertEqual(set(gradients), {"x", *WEIGHTS})

        def loss(x, weights):
            y = packed.kernel.pack(weights)(x=x)
            return sum(a * b for a, b in zip(flat(y), tensors.flat(dy)))
        step = 1e-2
        for name, row, column in (("x", 1, 2), ("w_q", 0, 3), ("w_v", 5, 1), ("w_o", 7, 7)):
            values = []
            for sign in (1, -1):
                changed = {"x": [[list(r) for r in x[0]]], **{w: [list(r) for r in self.weights[w]] for w in WEIGHTS}}
                (changed[name][0] if name == "x" else changed[name])[row][column] += sign * step
                values.append(loss(changed.pop("x"), changed))
            got = gradients[name].tolist()
            got = (got[0] if name == "x" else got)[row][column]
            self.assertAlmostEqual(got, (values[0] - values[1]) / (2 * step), delta=0.02 * max(1, abs(got)))

    def test_gradients_of_other_shapes_are_refused(self):
        packed = self.compile(train=True).pack(self.weights)
        saved = kernel.Saved()
        self.assertRaises(TypeError, saved.backward, draw(1, 4, D_MODEL))
        packed(x=draw(1, 4, D_MODEL), saved=saved)
        dy = draw(1, 4, D_MODEL)
        self.assertRaises(ValueError, saved.backward, draw(1, 1, D_MODEL))
        for name, rows, error in (("w_q", 1, ValueError), ("w_z", D_MODEL, TypeError)):
            room = memoryview(bytearray(4 * rows * D_MODEL)).cast("f", (rows, D_MODEL))
            self.assertRaises(error, saved.backward, dy, {name: room})

    # ---- FlexAttention's functions ----

    def test_flex(self):
        for example in (flex_examples.alibi_of_slopes, flex_examples.prefix_lm, flex_examples.documents,
                        flex_examples.t5_bias, flex_examples.bias_of_sequences, flex_examples.documents_with_prefix):
            with self.subTest(example.__name__):
                score_mod, mask_mod = example(flex, tensor)
                layer = attngen.from_flex(score_mod, mask_mod, h=H, seq_len=N, d_k=D, name=example.__name__)
                q, k, v = (draw(B, H, N, D) for _ in range(3))
                y = layer.compile(isa="scalar").pack(layer.flex.weights)(q=q, k=k, v=v, **as_call(layer.flex))
                expected = tensors.flat(attention(score_mod, mask_mod, q, k, v))
                self.assertLess(furthest(flat(y), expected), 2e-5)

    # ---- the folder of compiled objects ----

    def test_compiled_at_once_by_many(self):
        code = ("import sys, attngen\n"
                "attngen.Layer(name='mine', d_model=8, h=2, seq_len=6).compile('scalar', sys.argv[1])")
        many = [subprocess.Popen([sys.executable, "-c", code, self.folder]) for _ in range(4)]
        self.assertEqual([one.wait() for one in many], [0] * 4)
        self.assertRegex("".join(os.listdir(self.folder)), r"^mine-[0-9a-f]{32}\.so$")

    def test_kept_object_needs_no_compilation(self):
        layer = attngen.Layer(name="mine", d_model=D_MODEL, h=2, seq_len=6)
        first = layer.compile("scalar", self.folder).path
        before = first.stat().st_mtime_ns
        self.assertEqual(layer.compile("scalar", self.folder).path, first)
        self.assertEqual(first.stat().st_mtime_ns, before)

    def test_folder_of_others(self):
        os.chmod(self.folder, 0o777)
        with self.assertRaisesRegex(attngen.MachineError, "may be written by others"):
            attngen.Layer(d_model=D_MODEL, h=2, seq_len=6).compile("scalar", self.folder)

    def test_compiler_that_fails(self):
        with mock.patch.dict(os.environ, CFLAGS="-no-such-flag"), \
                self.assertRaisesRegex(attngen.MachineError, "no-such"):
            attngen.Layer(d_model=D_MODEL, h=2, seq_len=6).compile("scalar", self.folder)

    def test_heatmap(self):
        layer = attngen.Layer(name="mine", d_model=D_MODEL, h=2, seq_len=6)
        path = layer.heatmap(Path(self.folder, "map.svg"), {"x": draw(1, 4, D_MODEL), **self.weights}, isa="scalar")
        self.assertIn("<svg", path.read_text())

    # ---- numpy ----

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy(self):
        weights = {name: numpy.asarray(one, "f4") for name, one in self.weights.items()}
        packed = self.compile().pack(weights)
        x = numpy.asarray(draw(2, 5, D_MODEL), "f4")
        y = packed(x=x)
        self.assertIsInstance(y, numpy.ndarray)
        self.assertLess(numpy.abs(packed(x=x.transpose(1, 0, 2).copy().transpose(1, 0, 2)) - y).max(), 1e-9)
        given = native.array_of(x, packed.kernel.tensors["x"])
        self.assertEqual(given.address, x.ctypes.data)
        with self.assertRaisesRegex(TypeError, "x is float64; this layer takes f32"):
            packed(x=x.astype("f8"))
        with self.assertRaisesRegex(TypeError, "not row-major"):
            packed(x=x, y=numpy.empty((5, 2, D_MODEL), "f4").transpose(1, 0, 2))


def array_of_floats(values):
    """The same as a read-only buffer."""
    view = floats(values)
    return memoryview(view.tobytes()).cast("f", view.shape)
