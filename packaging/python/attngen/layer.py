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
from .programs import MachineError, SpecError, option_words, spec_lines, value_text

if TYPE_CHECKING:
    from .kernel import Isa, Kernel

Folder = Union[str, "os.PathLike[str]"]
# options of both programs that name a file or folder; the programs run in a folder of their own
PATHS = {"cache", "csv", "deps", "html", "labels", "out", "plan", "source_labels", "templates", "weights"}


@dataclass(frozen=True)
class Check:
    """One line of attnrun check: what became of one instruction set."""

    status: str  # "ok" or "skipped"; a failure is raised
    name: str
    isa: str
    text: str


def words_of(isa: "Isa" = None, **options: Any) -> "list[str]":
    """Options as words; paths are those of the caller's folder."""
    return list(option_words({"isa": isa, **{
        name: os.path.abspath(value) if name in PATHS and isinstance(value, (str, os.PathLike)) else value
        for name, value in options.items()}}))


def lines_of(text: str) -> Iterator[Tuple[str, str]]:
    """Keys and values of a spec's text."""
    for line in text.split("\n"):
        key, equals, value = line.split("#")[0].partition("=")
        if equals:
            yield key.strip(), value.strip()


def read_spec(spec: Union[None, str, "os.PathLike[str]"]) -> Tuple[str, str]:
    """The text of a spec, a text or a file, and the name that a layer has without a key `name`."""
    if spec is None or spec == "":
        return "", "layer"
    if isinstance(spec, str) and ("\n" in spec or ("=" in spec and not os.path.isfile(spec))):
        return spec.removeprefix("\ufeff"), "layer"
    try:
        return Path(spec).read_text(encoding="utf-8-sig"), Path(spec).stem
    except OSError as error:
        raise MachineError(f"{spec} cannot be read: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, or a path with NUL
        raise SpecError(f"{spec!r}: {error}") from None


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
        text, name = read_spec(spec)
        there, lines = dict(lines_of(text)), dict(spec_lines(keys))
        self._set = {key: value for key, value in lines.items() if key in there}  # other keys are lines of their own
        added = [f"{key} = {value}\n" for key, value in lines.items() if key not in there]
        self.text = (text if not text or text.endswith("\n") else text + "\n") + "".join(added)
        self.name = self._set.get("name") or dict(lines_of(self.text)).get("name") or name
        is_plain = re.fullmatch(r"\w{1,200}", self.name, re.ASCII)  # a key may not say where files are written
        self._file = f"{self.name if is_plain else name}.layer"
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
        yield from {"name": self.name, **dict(lines_of(self.text)), **self._set}.items()

    # ---- the programs ----

    @contextlib.contextmanager
    def _spec(self) -> Iterator[Tuple[str, "list[str]"]]:
        """A folder with the spec, and the words that name it; the folder goes afterwards."""
        with tempfile.TemporaryDirectory(prefix="attngen-") as folder:
            try:
                Path(folder, self._file).write_text(self.text, encoding="utf-8")
            except UnicodeEncodeError as error:
                raise SpecError(f"the spec has a character that UTF-8 has not: {error}") from None
            words = [word for key, value in self._set.items() for word in ("--set", f"{key}={value}")]
            yield folder, [*words, "--", self._file]

    def _run(self, program: str, words: Sequence[str]) -> str:
        with self._spec() as (folder, spec):
            return programs.run(program, [*words, *spec], folder)

    def _generate(self, words: Sequence[str]) -> str:
        return self._run("attngen", words)

    def explain(self, isa: "Isa" = "scalar", batch: int = 1, **options: Any) -> str:
        """Each step with shapes, parameters and multiply-adds, and the plan of the instruction sets `isa`."""
        return self._generate(["--explain", *words_of(isa, batch=batch, **options)])

    def emit(self, folder: Folder = ".", isa: "Isa" = None, **options: Any) -> Tuple[Path, ...]:
        """Writes the layer's .h and .c into the folder and returns their paths; split=True, size="small", plan=FILE as
        attngen has them. A file that would not change is not written."""
        folder = Path(folder).resolve()
        with self._spec() as (made, spec):
            rules = Path(made, "rules").resolve()
            words = words_of(isa, **{"deps": rules, **options})
            programs.run("attngen", ["-o", str(folder), *words, *spec], made)
            text = Path(options.get("deps", rules)).read_text(encoding="utf-8")
        first = [f"{self.name}.h", f"{self.name}.c"]
        names = sorted(set(re.findall(rf"/({self.name}\w*\.[ch])(?=[ :])", text)) - set(first))
        return tuple(folder / name for name in [*first, *names])

    def check(self, isa: "Isa" = None, **options: Any) -> "list[Check]":
        """Runs each instruction set against the reference, and tests the promises; raises CheckError with the lines of
        what failed. Options are those of attnrun check: batch=3, n=17, seed=2, against="f32"."""
        said = self._run("attnrun", ["check", *words_of(isa, **options)])
        pattern = re.compile(r"(?m)^(ok|skipped)\s+(\S+) (\S+)\s+(.*)$")
        return [Check(*found.groups()) for found in pattern.finditer(said)]

    def bench(self, isa: "Isa" = None, **options: Any) -> "list[dict[str, Any]]":
        """Times the layer and each step: a dict for each instruction set and step, with name, isa, step ("layer" is
        the whole), us, gflops, share of the core's peak and more. Options: those of attnrun bench, as in n=[1, 64]."""
        said = self._run("attnrun", ["bench", "--json", *words_of(isa, **options)])
        return [json.loads(line) for line in said.splitlines()]

    def roof(self, out: Optional[Folder] = None, isa: "Isa" = None, **options: Any) -> "list[dict[str, Any]]":
        """Times the layer and each step beside the least that this core could take for them: a dict for each, with us,
        flops, bytes, roof_us, held_by and share, where they are known. `out`: a picture, as SVG. Options: those of
        attnrun roof, as in n=[1, 64]."""
        said = self._run("attnrun", ["roof", "--json", *words_of(isa, out=out, **options)])
        return [json.loads(line) for line in said.splitlines()]

    def tune(self, out: Folder, isa: "Isa" = None, **options: Any) -> "list[dict[str, Any]]":
        """Measures other plans, for budget=60 seconds an instruction set, and writes the plan file `out`, which
        emit(plan=…) reads. Returns what was measured."""
        said = self._run("attnrun", ["tune", "--json", *words_of(isa, out=out, **options)])
        return [json.loads(line) for line in said.splitlines()]

    def sweep(self, vary: Mapping[str, Any], journal: Optional[Folder] = None, progress: bool = False,
              **options: Any) -> "Iterator[dict[str, Any]]":
        """Compiles, checks and times every combination of values: an iterator of records, a dict for each point.

        vary={"h": [1, 2, 4], "width": ["narrow", "wide"]}; values may be a text as attnrun has it, "256:1024:64". With
        `journal`, a file of JSON lines, points are kept there, and those that it has already are not measured again.
        progress=True shows attnrun's progress on the standard error.
        pandas.DataFrame(layer.sweep(…)) is the table.
        """
        if "json" in options or "resume" in options:
            raise TypeError("journal= names the file of points; json= and resume= are not options of sweep() here")
        words = ["sweep"]
        for key, values in vary.items():
            text = values if isinstance(values, str) else ",".join(map(value_text, values))
            words += ["--vary", f"{key}={text}"]
        words += words_of(**options)
        with self._spec() as (folder, spec), contextlib.ExitStack() as stack:
            record = "-" if journal is None else str(Path(journal).resolve())
            words += ["--json", record, *(["--resume"] if os.path.exists(record) else []), *spec]
            said = None if progress else stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
            process = stack.enter_context(subprocess.Popen(
                **programs.process("attnrun", words), cwd=folder, stdout=subprocess.PIPE, stderr=said))
            try:
                for line in process.stdout or ():
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

    def compile(self, isa: "Isa" = None, cache: Optional[Folder] = None, **options: Any) -> "Kernel":
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
            words = ["heatmap", *words_of(**options), "--in", "in.safetensors", "-o", str(path)]
            programs.run("attnrun", [*words, *spec], folder)
        return path
