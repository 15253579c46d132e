# SPDX-License-Identifier: MIT
"""examples/notebook.ipynb, run without Jupyter: each cell, its pictures, and that Jupyter would open it."""
import json
import os
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from unittest import mock

import notebook

FILE = Path(__file__).parents[2] / "examples/notebook.ipynb"


class Notebook(unittest.TestCase):
    def test_it_runs(self):
        with mock.patch.dict(os.environ, CFLAGS="-O0"):
            made = notebook.run(FILE)
        said = "".join("".join(output.get("text", ())) for cell in made["cells"] for output in cell.get("outputs", ()))
        for text in ("ok narrow scalar", "ok wide scalar", "of the peak", "layer ", "front", "y (1, 24, 64)"):
            self.assertIn(text, said)
        titles = []
        for picture in notebook.pictures_of(made):
            root = xml.fromstring(picture)
            self.assertTrue(root.tag.endswith("}svg"))
            titles.append(" ".join(root.itertext()))
        self.assertEqual(len(titles), 4)
        for text, title in zip(("8, wide", "GFLOP/s", "wide, 4", "head 3"), titles):
            self.assertIn(text, title)

    def test_its_form(self):
        file = json.loads(FILE.read_text(encoding="utf-8"))
        self.assertEqual((file["nbformat"], file["metadata"]["kernelspec"]["name"]), (4, "python3"))
        for cell in file["cells"]:
            self.assertLessEqual({"cell_type", "id", "metadata", "source"}, set(cell))
            self.assertEqual(cell["cell_type"] == "code", "outputs" in cell)
            self.assertLessEqual(max(map(len, cell["source"])), 141)

    def test_a_cell(self):
        names = {}
        self.assertEqual(notebook.run_cell("a = 1\nprint(a)\na + 1", names)[1]["data"], {"text/plain": ["2"]})
        self.assertEqual(notebook.run_cell("a = 2", names), [])
        with self.assertRaises(NameError):
            notebook.run_cell("b", names)


if __name__ == "__main__":
    unittest.main()
