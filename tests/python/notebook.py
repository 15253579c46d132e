#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a notebook without Jupyter, by the standard library: notebook.py FILE.ipynb [--pictures DIR] [--write].

Each cell of code runs in one namespace, in the notebook's folder; what it prints and the value of its last expression
are its output. DIR gets the pictures; --write keeps the outputs in the file. Left out on purpose: lines that begin with
% or !, which are not Python.
"""
import argparse
import ast
import contextlib
import io
import json
import os
from pathlib import Path


def run_cell(source, names):
    """Outputs of a cell, as a notebook has them."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(last, "cell", "eval"), names)
    outputs = [{"name": "stdout", "output_type": "stream", "text": said.getvalue().splitlines(True)}]
    if value is not None:
        is_picture = hasattr(value, "_repr_svg_")
        data = {"image/svg+xml": value._repr_svg_()} if is_picture else {"text/plain": repr(value)}
        outputs.append({"data": {kind: text.splitlines(True) for kind, text in data.items()}, "metadata": {},
                        "output_type": "execute_result"})
    return [output for output in outputs if output.get("text") != []]


def run(path):
    """The notebook with the outputs of its cells."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names, before = {"__name__": "__main__"}, os.getcwd()
    os.chdir(path.parent)
    try:
        for count, cell in enumerate([cell for cell in notebook["cells"] if cell["cell_type"] == "code"], 1):
            cell["outputs"], cell["execution_count"] = run_cell("".join(cell["source"]), names), count
            for output in cell["outputs"]:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = count
    finally:
        os.chdir(before)
    return notebook


def pictures_of(notebook):
    return ["".join(output["data"]["image/svg+xml"]) for cell in notebook["cells"] for output in cell.get("outputs", ())
            if "image/svg+xml" in output.get("data", {})]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pictures", type=Path, metavar="DIR")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    notebook = run(given.file)
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
        for i, picture in enumerate(pictures_of(notebook)):
            (given.pictures / f"{i}.svg").write_text(picture, encoding="utf-8")
    if given.write:
        given.file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
