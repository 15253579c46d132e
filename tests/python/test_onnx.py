# SPDX-License-Identifier: MIT
"""ONNX's cases of Attention and FlexAttention (tests/onnx) through the module: one in thirteen, or EVERYTHING=1."""
import base64
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import attngen
from attngen import tensors
from compare import furthest

CASES = Path(__file__).parents[1] / "onnx" / "cases.txt"
STEP = 1 if os.environ.get("EVERYTHING") else 13


class Cases(unittest.TestCase):
    def test_cases(self):
        cases = re.findall(r"(?ms)^== (\S+)\n(.*?)^data (\S+)$", CASES.read_text())
        self.assertGreater(len(cases), 100)
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CFLAGS="-O0"):
            for name, spec, data in cases[::STEP]:
                with self.subTest(name):
                    file = Path(folder, "data")
                    file.write_bytes(base64.b64decode(data))
                    self.one(attngen.Layer(spec, name="case_of_onnx"), tensors.read(file), folder)

    def one(self, layer, given, folder):
        kernel = layer.compile(isa="scalar", cache=folder)
        known = kernel.tensors
        packed = kernel.pack({name: given[name] for name in given if name in known and known[name].packed})
        inputs = {name: given[name] for name in given
                  if name in known and not known[name].packed and name not in ("y", "attn")}
        inputs.update({name: tensors.typed_view(given[name].tolist())[0] for name in inputs if known[name].written})
        outputs = packed(**inputs)
        outputs = outputs if isinstance(outputs, dict) else {"y": outputs}
        wanted = {name: given[name] for name in ("y", "attn") if name in given}
        wanted.update({name[len("expect."):]: given[name] for name in given if name.startswith("expect.")})
        self.assertIn("y", wanted)
        for name, one in wanted.items():
            self.assertLessEqual(furthest(outputs[name], one, relative=True), 2e-5, name)
