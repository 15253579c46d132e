# SPDX-License-Identifier: MIT
"""A layer as an object: its spec from keywords, a text or a file, and what both programs do with it.

Left out on purpose: the keys and their meaning, which docs/spec.md has and attngen checks.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence, Tuple, Union

from . import programs, tensors
from .programs import option_words, spec_lines, value_text

if TYPE_CHECKING:
    from .kernel import Kernel

Folder = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Check:
    """One line of attnrun check: what became of one instruction set."""

    status: str  # "ok" or "skipped"; a failure is raised
    name: str
    isa: str
    text: str


class Layer:
    """A layer.

    Layer(d_model=256, h=8, seq_len=200, mask="causal+padding")   keys of a spec (docs/spec.md)
    Layer("mine.layer", h=3)                                      a file, and keys that override its lines
    Layer("d_model = 256\\nh = 8\\nseq_len = 200")                  a text

    True, False and None are true, false and none; table={"slope": 12} is table.slope = 12, plan={"fold": "off"} is
    plan.fold = off.
    Raises SpecError with attngen's message if the spec is wrong.
    """

    def __init__(self, spec: Union[None, str, "os.PathLike[str]"] = None, /, **keys: Any):
        lines = dict(spec_lines(keys))
        text, name = "", "layer"
        if spec is not None:
            is_text = isinstance(spec, str) and ("=" in spec or "\n" in spec)
            text = str(spec) if is_text else Path(spec).read_text(encoding="utf-8")
            name = name if is_text else Path(spec).stem
        self._set = {}  # what overrides a line of the text; other keys are lines of their own
        for key, value in lines.items():
            if re.search(rf"(?m)^[ \t]*{re.escape(key)}[ \t]*=", text):
                self._set[key] = value
        added = [f"{key} = {value}\n" for key, value in lines.items() if key not in self._set]
        self.text = (text if not text or text.endswith("\n") else text + "\n") + "".join(added)
        named = re.search(r"(?m)^[ \t]*name[ \t]*=[ \t]*(\w+)", self.text)
        self.name = self._set.get("name") or (named.group(1) if named else name)
        self._file = f"{self.name}.layer"
        self._generate(["--explain", "--isa", "scalar"])

    def __repr__(self) -> str:
        return f"<attngen.Layer {self.name}>"

    def with_keys(self, **keys: Any) -> "Layer":
        """The same layer with other values of these keys."""
        other = object.__new__(Layer)
        merged = {**dict(self._keys()), **dict(spec_lines(keys))}
        Layer.__init__(other, "".join(f"{key} = {value}\n" for key, value in merged.items()))
        return other

    def _keys(self) -> Iterator[Tuple[str, str]]:
        for line in self.text.splitlines():
            key, equals, value = line.split("#")[0].partition("=")
            if equals:
                yield key.strip(), self._set.get(key.strip(), value.strip())
        if not re.search(r"(?m)^[ \t]*name[ \t]*=", self.text):
            yield "name", self.name

    # ---- the programs ----

    @contextlib.contextmanager
    def _spec(self) -> Iterator[Tuple[str, "list[str]"]]:
        """A folder with the spec, and the words that name it; the folder goes afterwards."""
        with tempfile.TemporaryDirectory(prefix="attngen-") as folder:
            Path(folder, self._file).write_text(self.text, encoding="utf-8")
            words = [word for key, value in self._set.items() for word in ("--set", f"{key}={value}")]
            yield folder, [*words, "--", self._file]

    def _run(self, program: str, words: Sequence[str]) -> str:
        with self._spec() as (folder, spec):
            return programs.run(program, [*words, *spec], folder)

    def _generate(self, words: Sequence[str]) -> str:
        return self._run("attngen", words)

    def explain(self, isa: str = "scalar", batch: int = 1, **options: Any) -> str:
        """Each step with shapes, parameters and multiply-adds, and the plan of the instruction sets `isa`."""
        return self._generate(["--explain", *option_words({"isa": isa, "batch": batch, **options})])

    def emit(self, folder: Folder = ".", isa: Optional[str] = None, **options: Any) -> Tuple[Path, ...]:
        """Writes the layer's .h and .c into the folder and returns their paths; split=True, size="small", plan=FILE as
        attngen has them. A file that would not change is not written."""
        folder = Path(folder).resolve()
        if "plan" in options:
            options["plan"] = Path(options["plan"]).resolve()
        self._generate(["-o", str(folder), *option_words({"isa": isa, **options})])
        parts = [folder / f"{self.name}_internal.h", *sorted(folder.glob(f"{self.name}_*.c"))]
        return (folder / f"{self.name}.h", folder / f"{self.name}.c", *(parts if options.get("split") else ()))

    def check(self, isa: Optional[str] = None, **options: Any) -> "list[Check]":
        """Runs each instruction set against the reference, and tests the promises; raises CheckError with the lines of
        what failed. Options are those of attnrun check: batch=3, n=17, seed=2, against="f32"."""
        said = self._run("attnrun", ["check", *option_words({"isa": isa, **options})])
        pattern = re.compile(r"(?m)^(ok|skipped)\s+(\S+) (\S+)\s+(.*)$")
        return [Check(*found.groups()) for found in pattern.finditer(said)]

    def bench(self, isa: Optional[str] = None, **options: Any) -> "list[dict[str, Any]]":
        """Times the layer and each step: a dict for each instruction set and step, with name, isa, step ("layer" is
        the whole), us, gflops, share of the core's peak and more. Options: those of attnrun bench, as in n=[1, 64]."""
        said = self._run("attnrun", ["bench", "--json", *option_words({"isa": isa, **options})])
        return [json.loads(line) for line in said.splitlines()]

    def roof(self, out: Optional[Folder] = None, isa: Optional[str] = None, **options: Any) -> "list[dict[str, Any]]":
        """Times the layer and each step beside the least that this core could take for them: a dict for each, with us,
        flops, bytes, roof_us, held_by and share, where they are known. `out`: a picture, as SVG. Options: those of
        attnrun roof, as in n=[1, 64]."""
        words = ["roof", "--json", *option_words({"isa": isa, **options})]
        said = self._run("attnrun", words if out is None else [*words, "--out", str(Path(out).resolve())])
        return [json.loads(line) for line in said.splitlines()]

    def tune(self, out: Folder, isa: Optional[str] = None, **options: Any) -> "list[dict[str, Any]]":
        """Measures other plans, for budget=60 seconds an instruction set, and writes the plan file `out`, which
        emit(plan=…) reads. Returns what was measured."""
        words = ["tune", "--json", "--out", str(Path(out).resolve()), *option_words({"isa": isa, **options})]
        said = self._run("attnrun", words)
        return [json.loads(line) for line in said.splitlines()]

    def sweep(self, vary: Mapping[str, Any], journal: Optional[Folder] = None, progress: bool = False,
              **options: Any) -> "Iterator[dict[str, Any]]":
        """Compiles, checks and times every combination of values: an iterator of records, a dict for each point.

        vary={"h": [1, 2, 4], "width": ["narrow", "wide"]}; values may be a text as attnrun has it, "256:1024:64". With
        `journal`, a file of JSON lines, points are kept there, and those that it has already are not measured again.
        progress=True shows attnrun's progress on the standard error.
        pandas.DataFrame(layer.sweep(…)) is the table.
        """
        words = ["sweep"]
        for key, values in vary.items():
            text = values if isinstance(values, str) else ",".join(map(value_text, values))
            words += ["--vary", f"{key}={text}"]
        words += option_words(options)
        with self._spec() as (folder, spec), contextlib.ExitStack() as stack:
            record = "-" if journal is None else str(Path(journal).resolve())
            words += ["--json", record, *(["--resume"] if os.path.exists(record) else []), *spec]
            said = None if progress else stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
            process = stack.enter_context(subprocess.Popen(
                [programs.path_of("attnrun"), *words], env=programs.environment(), cwd=folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=said, text=True, encoding="utf-8"))
            try:
                for line in process.stdout:
                    if journal is None:
                        yield json.loads(line)
                code = process.wait()
            except BaseException:
                process.terminate()
                raise
            if code not in (0, 1):  # 1: a point failed, and its record says so
                message = "the sweep failed; its message stands above"
                if said is not None:
                    said.seek(0)
                    message = said.read()
                programs.raise_for(code, message)
            if journal is not None:
                for line in Path(record).read_text(encoding="utf-8").splitlines():
                    yield json.loads(line)

    def compile(self, isa: Optional[str] = None, cache: Optional[str] = None, **options: Any) -> "Kernel":
        """Compiles the pair, unless the cache has it, and loads it: the best instruction set of this machine, or `isa`.

        f = layer.compile().pack({"w_q": w_q, …}); y = f(x=x). `tensors` of the result lists names, types and shapes.
        """
        from .kernel import Kernel
        return Kernel(self, isa, cache, **options)

    def heatmap(self, out: Folder, arrays: Mapping[str, Any], **options: Any) -> Path:
        """Draws the attention weights of each head as SVG, of a call with these weights and tensors by name. Options
        are those of attnrun heatmap: head=2, sequence=0, scale="log", labels=FILE."""
        path = Path(out).resolve()
        with self._spec() as (folder, spec):
            tensors.write(Path(folder, "in.safetensors"), arrays)
            words = ["heatmap", *option_words(options), "--in", "in.safetensors", "-o", str(path)]
            programs.run("attnrun", [*words, *spec], folder)
        return path
