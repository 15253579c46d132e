# SPDX-License-Identifier: MIT
"""Kernel: compiled layers called with arrays, caches, gradients, and the folder of compiled objects."""
import array
import ctypes
import gc
import os
import random
import struct
import subprocess
import sys
import stat
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import attngen
from attngen import flex, kernel, native, tensors
import flex_examples
from compare import furthest, numbers_of
from test_flex import B, D, H, N, as_call, attention, draw, tensor

try:
    import numpy
except ImportError:
    numpy = None

D_MODEL = 8
WEIGHTS = ("w_q", "w_k", "w_v", "w_o")


def floats(values):
    """Nested lists as a view that the kernel reads where it lies."""
    return tensors.typed_view(values)[0]


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
        expected = self.reference(made.layer, {"x": x, "lengths": lengths, **self.weights})["y"]
        packed = made.pack(self.weights)
        self.assertEqual(packed.isa, "scalar")
        for given in (x, floats(x), array_of_floats(x)):
            y = packed(x=given, lengths=array.array("i", lengths))
            self.assertEqual(y.shape, (2, 5, D_MODEL))
            self.assertLess(furthest(y, expected), 1e-5)
        out = floats(draw(2, 5, D_MODEL))
        self.assertIs(packed(x=x, lengths=lengths, y=out), out)
        self.assertLess(furthest(out, expected), 1e-5)

    def test_bound_call_reads_where_arrays_lie(self):
        packed = self.compile(mask="padding").pack(self.weights)
        first, second = draw(2, 5, D_MODEL), draw(2, 5, D_MODEL)
        x, lengths = floats(first), array.array("i", [5, 3])
        call, outputs = packed.bind(x=x, lengths=lengths)
        call()
        self.assertEqual(outputs["y"].tolist(), packed(x=first, lengths=lengths).tolist())
        x.cast("B")[:] = floats(second).cast("B")
        lengths[1] = 4
        call()
        self.assertEqual(outputs["y"].tolist(), packed(x=second, lengths=lengths).tolist())
        for wrong, name in ((dict(x=first, lengths=lengths), "x"), (dict(x=x, lengths=[5, 3]), "lengths"),
                            (dict(x=floats(draw(4, 5, D_MODEL))[::2], lengths=lengths), "x")):
            with self.assertRaisesRegex(TypeError, f"bind needs row-major arrays.*; {name} is none"):
                packed.bind(**wrong)

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
        with self.assertRaisesRegex(ValueError, r"x: nested lists differ in length: \[7\], \[8\]"):
            packed(x=[[x[0][0], x[0][1][:7], x[0][2]]])
        with self.assertRaisesRegex(TypeError, "x is f32, which None is not"):
            packed(x=[[[None] * D_MODEL]])
        with self.assertRaisesRegex(TypeError, "x is a str; give an array"):
            packed(x="text")
        with self.assertRaisesRegex(ValueError, r"x has shape \[0\]; this layer"):
            packed(x=[])
        with self.assertRaisesRegex(TypeError, "mine takes arrays by name"):
            packed(x)
        for name in ("cache", "saved"):
            with self.assertRaisesRegex(TypeError, f"{name} is an attngen.{name.title()}, which"):
                packed(x=x, **{name: [1]})
        with self.assertRaisesRegex(TypeError, "y is written, and a list is copied"):
            packed(x=x, y=draw(1, 3, D_MODEL))
        with self.assertRaisesRegex(attngen.CallError, "outside the limits"):
            packed(x=draw(1, 7, D_MODEL))
        with self.assertRaisesRegex(attngen.CallError, "NaN or infinite"):
            made.pack({**self.weights, "w_k": [[float("nan")] * D_MODEL] * D_MODEL})
        with self.assertRaisesRegex(TypeError, r"^mine needs w_k \[8\]\[8\], w_v \[8\]\[8\], w_o \[8\]\[8\]$"):
            made.pack({"w_q": self.weights["w_q"]})

    def test_numbers_are_not_rounded(self):
        padded = self.compile(mask="padding").pack(self.weights)
        for lengths, reason in (([1.5], "lengths is i32, which 1.5 is not"), ([2 ** 31], "lengths is i32, which 2")):
            with self.assertRaisesRegex(TypeError, reason):
                padded(x=draw(1, 3, D_MODEL), lengths=lengths)
        masked = self.compile(mask="bool").pack(self.weights)
        x, seen = draw(1, 2, D_MODEL), [[[[True, False], [1, 2]]]]
        kept = masked(x=x, mask_bool=array_of("B", [1, 0, 1, 1], (1, 1, 2, 2)))
        self.assertEqual(masked(x=x, mask_bool=seen).tolist(), kept.tolist())
        with self.assertRaisesRegex(TypeError, "mask_bool is bool, which 0.5 is not"):
            masked(x=x, mask_bool=[[[[True, 0.5], [1, 1]]]])

    def test_half_precision(self):
        x = [[[(3 * t + c) % 7 / 4 for c in range(D_MODEL)] for t in range(3)]]  # exact as f16
        wide = self.compile().pack(self.weights)(x=x)
        made = self.compile(tensor_type="f16")
        packed = made.pack(self.weights)
        bits = array_of("H", [struct.unpack("H", struct.pack("e", one))[0] for one in numbers_of(x)], (1, 3, D_MODEL))
        strided = array_of("H", [one for one in numbers_of(bits) for _ in range(2)], (3 * D_MODEL * 2,))[::2]
        self.assertEqual(native.array_of(strided, made.tensors["x"]).owner.tolist(), numbers_of(bits))
        for given in (x, bits):
            y = packed(x=given)
            self.assertEqual(y.format, "e" if sys.version_info >= (3, 12) else "H")
            numbers = struct.unpack(f"{3 * D_MODEL}e", y.tobytes())
            self.assertLess(furthest(numbers, wide), 2e-3 * max(map(abs, numbers)))
        with self.assertRaisesRegex(TypeError, "x is f16, which 1000000.0 is not"):
            packed(x=[[[1e6] * D_MODEL]])
        path = Path(self.folder, "half")
        header = b'{"x":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}}'
        path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("4e", 1, 2, 3, -4))
        read = tensors.read(path)["x"]
        self.assertEqual((read.shape, struct.unpack("4e", read.tobytes())), ((2, 2), (1, 2, 3, -4)))

    def test_array_interface_without_flags(self):
        class Foreign:
            """Has its address and no more of what numpy's arrays have."""
            __array_interface__ = dict(shape=(1, 3, D_MODEL), typestr="<f4", data=(0, True), version=3)

        packed, x = self.compile().pack(self.weights), draw(1, 3, D_MODEL)
        with self.assertRaisesRegex(TypeError, "x is a Foreign; give an array"):
            packed(x=Foreign())

    def test_dlpack(self):
        class Foreign:
            """Numbers that nothing but DLPack tells of."""
            def __init__(self, values, shape, code=2, strides=None, device=1):
                self.values, extents = values, ctypes.c_int64 * len(shape)
                self.tensor = tensors.DLTensor(
                    ctypes.addressof(values), device, 0, len(shape), code, 8 * ctypes.sizeof(values._type_), 1,
                    extents(*shape), extents(*strides) if strides else None, 0)

            def __dlpack__(self):
                make = ctypes.pythonapi.PyCapsule_New
                make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
                return make(ctypes.addressof(self.tensor), b"dltensor", None)

        packed, x = self.compile().pack(self.weights), draw(1, 3, D_MODEL)
        shape, floats = (1, 3, D_MODEL), (ctypes.c_float * (3 * D_MODEL))(*numbers_of(x))
        expected, y = packed(x=x).tolist(), (ctypes.c_float * len(floats))()
        self.assertEqual(packed(x=Foreign(floats, shape)).tolist(), expected)
        packed(x=Foreign(floats, shape, strides=(7, D_MODEL, 1)), y=Foreign(y, shape))  # an extent of 1 has any stride
        self.assertEqual(list(y), numbers_of(expected))
        for more, says in (({"strides": (3, 1, 3)}, "not row-major"), ({"device": 2}, "not on the CPU"),
                           ({"code": 0}, "x is int32; this layer takes f32"), ({"code": 5}, "type 5 with 32 bits")):
            with self.subTest(more), self.assertRaisesRegex(TypeError, says):
                packed(x=Foreign(floats, shape, **more))

    def test_layer_named_as_files_of_the_module(self):
        x = draw(1, 3, D_MODEL)
        expected = self.compile().pack(self.weights)(x=x).tolist()
        for name in ("glue", "python"):
            self.assertEqual(self.compile(name=name).pack(self.weights)(x=x).tolist(), expected)

    def test_first_set_is_packed_for(self):
        layer = attngen.Layer(name="mine", d_model=D_MODEL, h=2, seq_len=6)
        self.assertEqual(layer.compile("scalar,avx2,neon").pack(self.weights).isa, "scalar")
        self.assertEqual(layer.compile(["scalar", "avx2"]).pack(self.weights).isa, "scalar")
        best = layer.compile("all").pack(self.weights).isa
        self.assertEqual(layer.compile(f"{best},scalar").pack(self.weights).isa, best)
        self.assertEqual(layer.compile().pack(self.weights).isa, best)

    def test_kept_source_is_brought_by_each_call(self):
        keys = dict(attention="cross", source_len=5)
        x, source = draw(2, 3, D_MODEL), draw(2, 5, D_MODEL)
        packed = self.compile(source_kept=True, **keys).pack(self.weights)
        expected = self.compile(**keys).pack(self.weights)(x=x, source=source)
        self.assertLess(furthest(packed(x=x, source=source), expected), 1e-5)
        with self.assertRaisesRegex(TypeError, "mine has no tensor kept"):
            packed(x=x, kept=source)
        with self.assertRaisesRegex(attngen.CallError, "source or kept"):
            packed(x=x)

    def test_one_call_at_a_time(self):
        packed = self.compile().pack(self.weights)
        call, _ = packed.bind(x=floats(draw(1, 3, D_MODEL)))
        call()
        with packed._one:
            for again in (call, lambda: packed(x=draw(1, 3, D_MODEL))):
                self.assertRaisesRegex(attngen.CallError, "mine is in a call of another thread", again)
        call()
        self.assertRaises(attngen.CallError, packed, x=draw(1, 7, D_MODEL))
        call()  # neither a call that is refused nor one that fails holds the object

    def test_threads_get_right_numbers_or_an_error(self):
        packed = self.compile(seq_len=256).pack(self.weights)
        xs = [floats(draw(1, 256, D_MODEL)) for _ in range(2)]
        expected, bad, refused = [packed(x=x).tobytes() for x in xs], [], []
        end = time.monotonic() + 0.5

        def work(which):
            call, outputs = packed.bind(x=xs[which])
            while time.monotonic() < end:
                try:
                    call()
                    bad.extend([] if outputs["y"].tobytes() == expected[which] else [which])
                except attngen.CallError:
                    refused.append(which)
        threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(bad, [])

    def test_bound_call_keeps_its_arrays(self):
        call, outputs = self.compile().pack(self.weights).bind(x=floats(draw(1, 3, D_MODEL)))
        self.assertRaises(TypeError, call, None)
        gc.collect()
        call()
        self.assertNotEqual(set(outputs["y"].tobytes()), {0})

    # ---- caches ----

    def test_steps_are_the_whole(self):
        for keys in (dict(), dict(cache_type="i8")):
            packed = self.compile(cache="rows", cache_len=6, mask="causal", **keys).pack(self.weights)
            x = draw(2, 6, D_MODEL)
            whole = packed(x=x, cache=packed.cache(2))
            cache = packed.cache(2)
            parts = [packed(x=[row[t:t + 2] for row in x], cache=cache).tolist() for t in (0, 2, 4)]
            steps = [[row for part in parts for row in part[b]] for b in range(2)]
            self.assertLess(furthest(steps, whole), 1e-4)
            self.assertEqual(cache.past.tolist(), [6, 6])
            cache.reset()
            self.assertEqual(cache.past.tolist(), [0, 0])
            again = packed(x=[row[:2] for row in x], cache=cache).tolist()
            self.assertEqual(again, parts[0])
            self.assertRaisesRegex(attngen.CallError, "past", packed, x=draw(2, 5, D_MODEL), cache=cache)
            self.assertEqual(cache.past.tolist(), [2, 2])

    def test_caches_refused(self):
        packed = self.compile(cache="rows", cache_len=6, mask="causal").pack(self.weights)
        for batch, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError)):
            self.assertRaises(error, packed.cache, batch)
        with self.assertRaisesRegex(TypeError, "past: cache= brings it"):
            packed(x=draw(1, 2, D_MODEL), cache=packed.cache(1), past=[1])

    def test_moved_sequence(self):
        packed = self.compile(cache="rows", cache_len=6, mask="causal").pack(self.weights)
        x = draw(2, 3, D_MODEL)
        cache, next_row = packed.cache(2), draw(1, D_MODEL)
        packed(x=x, cache=cache)
        cache.move([1, 1])
        y = packed(x=[next_row] * 2, cache=cache).tolist()
        self.assertEqual(y[0], y[1])
        whole = packed(x=[x[1] + next_row], cache=packed.cache(1)).tolist()
        self.assertLess(furthest(y[0], whole[0][-1:]), 1e-5)
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
            return sum(a * b for a, b in zip(numbers_of(y), numbers_of(dy)))
        step = 1e-2
        for name, row, column in (("x", 1, 2), ("x", 3, 0), ("w_q", 0, 3), ("w_k", 4, 6), ("w_v", 5, 1), ("w_o", 7, 7)):
            values = []
            for sign in (1, -1):
                changed = {"x": [[list(r) for r in x[0]]], **{w: [list(r) for r in self.weights[w]] for w in WEIGHTS}}
                (changed[name][0] if name == "x" else changed[name])[row][column] += sign * step
                values.append(loss(changed.pop("x"), changed))
            got = gradients[name].tolist()
            got = (got[0] if name == "x" else got)[row][column]
            self.assertAlmostEqual(got, (values[0] - values[1]) / (2 * step), delta=0.01 * abs(got), msg=name)

    def test_nothing_is_saved_by_a_call_that_failed(self):
        packed = self.compile(train=True).pack(self.weights)
        saved, dy = kernel.Saved(), draw(1, 4, D_MODEL)
        packed(x=draw(1, 4, D_MODEL), saved=saved)
        self.assertIn("w_q", saved.backward(dy))
        self.assertRaisesRegex(attngen.CallError, "outside the limits", packed, x=draw(1, 7, D_MODEL), saved=saved)
        self.assertRaisesRegex(TypeError, "nothing is saved yet", saved.backward, dy)

    def test_seed_is_that_of_the_call(self):
        packed = self.compile(train=True, dropout=0.5).pack(self.weights)
        x, dy, found = draw(1, 4, D_MODEL), draw(1, 4, D_MODEL), []
        for later in (7, 8):
            saved = kernel.Saved(7)
            packed(x=x, saved=saved)
            saved.seed = later
            found.append(saved.backward(dy)["x"].tolist())
        self.assertEqual(*found)
        for seed, error in ((-1, ValueError), (1 << 64, ValueError), ("a", TypeError), (1.5, TypeError)):
            self.assertRaises(error, kernel.Saved, seed)

    def test_gradients_are_added_to_those_of_weights(self):
        packed = self.compile(train=True).pack(self.weights)
        saved, dy = kernel.Saved(), draw(1, 4, D_MODEL)
        packed(x=draw(1, 4, D_MODEL), saved=saved)
        alone = {name: one.tolist() for name, one in saved.backward(dy).items()}
        given = {"x": floats(draw(1, 4, D_MODEL)), "w_v": floats([[1.0] * D_MODEL] * D_MODEL)}
        self.assertEqual(set(saved.backward(dy, given)), {"x", "w_v"})
        self.assertEqual(given["x"].tolist(), alone["x"])
        self.assertLess(furthest(given["w_v"], [[1 + one for one in row] for row in alone["w_v"]]), 1e-5)

    def test_gradients_of_other_shapes_are_refused(self):
        packed = self.compile(train=True).pack(self.weights)
        saved = kernel.Saved()
        self.assertRaisesRegex(TypeError, "nothing is saved yet", saved.backward, draw(1, 4, D_MODEL))
        packed(x=draw(1, 4, D_MODEL), saved=saved)
        dy = draw(1, 4, D_MODEL)
        self.assertRaisesRegex(ValueError, "dy has shape", saved.backward, draw(1, 1, D_MODEL))
        wide = memoryview(bytes(8 * 4 * D_MODEL)).cast("d", (1, 4, D_MODEL))
        self.assertRaisesRegex(TypeError, "^dy is d; this layer takes f32", saved.backward, wide)
        self.assertRaisesRegex(TypeError, "gradient of w_q is written, and a list", saved.backward, dy,
                               {"w_q": draw(D_MODEL, D_MODEL)})
        for name, rows, error, reason in (("w_q", 1, ValueError, "the gradient of w_q has shape"),
                                          ("w_z", D_MODEL, TypeError, "no gradient of w_z")):
            room = memoryview(bytearray(4 * rows * D_MODEL)).cast("f", (rows, D_MODEL))
            self.assertRaisesRegex(error, reason, saved.backward, dy, {name: room})

    # ---- FlexAttention's functions ----

    def test_flex(self):
        for example in (flex_examples.alibi_of_slopes, flex_examples.prefix_lm, flex_examples.documents,
                        flex_examples.t5_bias, flex_examples.bias_of_sequences, flex_examples.documents_with_prefix):
            with self.subTest(example.__name__):
                score_mod, mask_mod = example(flex, tensor)
                layer = attngen.from_flex(score_mod, mask_mod, h=H, seq_len=N, d_k=D, name=example.__name__)
                q, k, v = (draw(B, H, N, D) for _ in range(3))
                y = layer.compile(isa="scalar").pack(layer.flex.weights)(q=q, k=k, v=v, **as_call(layer.flex))
                expected = attention(score_mod, mask_mod, q, k, v)
                self.assertLess(furthest(y, expected), 2e-5)

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

    def test_damaged_object_is_compiled_again(self):
        code = ("import sys, attngen\n"
                "print(attngen.Layer(name='mine', d_model=8, h=2, seq_len=6).compile('scalar', sys.argv[1]).path)")
        def compiled():
            """In a process that has not loaded it yet."""
            return Path(subprocess.check_output([sys.executable, "-c", code, self.folder], text=True).strip())
        path = compiled()
        for bad in (b"", b"not ELF"):
            path.unlink()
            path.write_bytes(bad)
            path.chmod(0o700)
            self.assertEqual(compiled(), path)
            self.assertGreater(path.stat().st_size, 1000)

    def test_object_of_others_is_compiled_again(self):
        layer = attngen.Layer(name="mine", d_model=D_MODEL, h=2, seq_len=6)
        path = layer.compile("scalar", self.folder).path
        path.chmod(0o666)
        before = path.stat().st_ino
        layer.compile("scalar", self.folder)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o022, 0)
        self.assertNotEqual(path.stat().st_ino, before)

    def test_folders_made_are_own(self):
        umask = os.umask(0)
        try:
            attngen.Layer(d_model=D_MODEL, h=2, seq_len=6).compile("scalar", Path(self.folder, "a", "b"))
        finally:
            os.umask(umask)
        for path in (Path(self.folder, "a"), Path(self.folder, "a", "b"), *Path(self.folder, "a", "b").iterdir()):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o700, path)

    def test_folders_that_cannot_be(self):
        layer, file = attngen.Layer(d_model=D_MODEL, h=2, seq_len=6), Path(self.folder, "file")
        file.write_text("")
        for cache in (file, file / "below"):
            with self.assertRaisesRegex(attngen.MachineError, "cannot be made.*; name another folder in cache="):
                layer.compile("scalar", cache)
        with mock.patch.dict(os.environ), mock.patch("os.path.expanduser", side_effect=lambda path: path), \
                self.assertRaisesRegex(attngen.MachineError, "no home folder.*; name another folder in cache="):
            os.environ.pop("XDG_CACHE_HOME", None)
            layer.compile("scalar")
        self.assertFalse(os.path.exists("~"))

    def test_relative_folders(self):
        layer, here = attngen.Layer(d_model=D_MODEL, h=2, seq_len=6), os.getcwd()
        relative = os.path.relpath(self.folder, here)
        self.assertEqual(layer.compile("scalar", relative).path.parent, Path(self.folder).resolve())
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=relative):
            found = layer.compile("scalar").path.parent
        self.assertEqual(found, Path(self.folder).resolve() / "attngen" / "python")

    def test_folder_of_others(self):
        os.chmod(self.folder, 0o777)
        with self.assertRaisesRegex(attngen.MachineError, "may be written by others"):
            attngen.Layer(d_model=D_MODEL, h=2, seq_len=6).compile("scalar", self.folder)

    def test_compiler_that_fails(self):
        with mock.patch.dict(os.environ, CFLAGS="-no-such-flag"), \
                self.assertRaisesRegex(attngen.MachineError, "no-such"):
            attngen.Layer(d_model=D_MODEL, h=2, seq_len=6).compile("scalar", self.folder)

    # ---- numpy ----

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy(self):
        weights = {name: numpy.asarray(one, "f4") for name, one in self.weights.items()}
        packed = self.compile().pack(weights)
        x = numpy.asarray(draw(2, 5, D_MODEL), "f4")
        y = packed(x=x)
        self.assertIsInstance(y, numpy.ndarray)
        self.assertEqual(y.tolist(), packed(x=x.tolist()).tolist())
        half = self.compile(tensor_type="f16").pack(weights)(x=x.astype("f2"))
        self.assertEqual((half.dtype, half.shape), (numpy.float16, y.shape))
        self.assertLess(furthest(half, y), 2e-3 * numpy.abs(y).max())
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


def array_of(code, numbers, shape):
    """Numbers as a view of that shape."""
    return memoryview(array.array(code, numbers)).cast("B").cast(code, shape)
