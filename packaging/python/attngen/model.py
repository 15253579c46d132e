# SPDX-License-Identifier: MIT
"""A model's folder as Hugging Face's libraries save it, as C that is compiled and called: hidden states, logits, ids.

Left out on purpose: tokenizers, sampling but the likeliest token, threads, encoders with decoders, caches with pages.
"""
from __future__ import annotations

import ctypes
import math
import mmap
import operator
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence, Union

from . import programs
from .programs import option_words
from .native import BYTES, VIEWS, Array, Block, CallError, OneCall, Tensor, address_of, array_of, fit, load_folder, \
    new_like

C_TYPES = {"float": "f32", "int32_t": "i32", "void": "i8"}  # void: a cache of numbers that are not f32, as bytes
CACHE_KINDS = ("rows", "ring", "paged", "none")
KEPT = ("cache", "states")  # what a call goes on from: its bytes depend on the batch
KEPT_SHAPE = "[bytes]"
SIZES = ("file", "work", "model", "arena", *KEPT, "seq_len", "cache_len")

GLUE = """
#include "@n_model.h"
#define EXPORT __attribute__((visibility("default")))
#ifndef @N_MODEL_CACHE_BYTES
#define @N_MODEL_CACHE_BYTES(sequences) (0 * (sequences))
#endif
#ifndef @N_MODEL_STATES_BYTES
#define @N_MODEL_STATES_BYTES(sequences) (0 * (sequences))
#endif
#ifndef @N_SEQ_LEN
#define @N_SEQ_LEN 0
#endif
#ifndef @N_CACHE_LEN
#define @N_CACHE_LEN 0
#endif
EXPORT size_t py_size(int what, size_t count)
{
    switch (what) {
    case 0: return @N_MODEL_BYTES(1);
    case 1: return @N_MODEL_WORK_BYTES;
    case 2: return sizeof(@n_model);
    case 3: return @N_MODEL_ARENA_BYTES(1);
    case 4: return @N_MODEL_CACHE_BYTES(count);
    case 5: return @N_MODEL_STATES_BYTES(count);
    case 6: return @N_SEQ_LEN;
    default: return @N_CACHE_LEN;
    }
}
EXPORT const char *py_error(int error) { return @n_model_strerror(error); }
EXPORT int py_pack(void *file, const @n_model_shard *shards, size_t count, void *work)
{
    return @n_model_pack(file, shards, count, NULL, 1, work);
}
EXPORT const char *py_fault(const @n_model_shard *shards, size_t count, char name[512])
{
    return @n_model_fault(shards, count, name);
}
EXPORT int py_open(@n_model *model, const void *file, size_t bytes) { return @n_model_open(model, file, bytes); }
EXPORT int py_run(const @n_model *model, void *const *field, const size_t *size, void *arena)
{
    @n_model_args args = {0};
@assignments
    return @n_model_run(model, &args, arena);
}
"""


class Shard(ctypes.Structure):
    """One safetensors file in memory, as NAME_model_shard."""

    _fields_ = [("bytes", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def read_args(header: str, name: str) -> "tuple[list[Tensor], list[str]]":
    """Pointers to numbers, and sizes, of the struct NAME_model_args. A field's shape is in the comment behind or above
    it; cache and states have none."""
    body = header.partition(f"typedef struct {name}_model_args {{")[2].partition("\n} ")[0]
    tensors: "list[Tensor]" = []
    sizes: "list[str]" = []
    above = ""
    for line in body.splitlines():
        field = re.match(r"\s*(const )?(\w+) \*(\w+);", line)
        if field and field.group(2) in C_TYPES and field.group(3) != "context":
            shape = re.search(r"/\* ((?:\[[^]]*\])+)", line) or re.match(r"\s*/\* ((?:\[[^]]*\])+)", above)
            if shape is None and field.group(3) not in KEPT:
                raise programs.SpecError(f"the shape of {field.group(3)} is unknown; call {name} from C")
            written = field.group(1) is None
            tensors.append(Tensor(field.group(3), C_TYPES[field.group(2)], shape.group(1) if shape else KEPT_SHAPE,
                                  False, written, True, False))
        above = line
        counts = re.match(r"\s*size_t ([\w, ]+);", line)
        sizes += counts.group(1).split(", ") if counts else []
    return tensors, sizes


class Model:
    """An imported model. `fields` has what run() takes and gives, by name: ids, lengths, past, hidden, logits …
    `cache`: the folder of compiled objects, or a kind as attngen import --cache has it."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"], cache: Optional[str] = None, **options: Any):
        folder = Path(folder).resolve()
        if cache in CACHE_KINDS:
            options["cache"], cache = cache, None
        with tempfile.TemporaryDirectory(prefix="attngen-") as made:
            programs.run("attngen", ["import", "-o", made, *option_words({"isa": None, **options}), "--", str(folder)])
            name = next(Path(made).glob("*.layers")).stem
            header = Path(made, f"{name}_model.h").read_text()
            if f"{name}_model_encode(" in header:
                raise programs.SpecError(f"{name} has an encoder and a decoder; call those from C, docs/models.md")
            self.name = name
            self._order, self._sizes = read_args(header, name)
            if "pages" in self._sizes:
                raise programs.SpecError(f"{name} has a cache with pages; write cache='rows', or call it from C")
            lines = [f"    args.{tensor.name} = field[{i}];" for i, tensor in enumerate(self._order)]
            lines += [f"    args.{size} = size[{i}];" for i, size in enumerate(self._sizes)]
            glue = GLUE.replace("@assignments", "\n".join(lines)).replace("@n", name).replace("@N", name.upper())
            Path(made, "python-glue.c").write_text(glue)  # no layer's name has a hyphen
            self.library, self.path = load_folder(Path(made), name, cache)
            names = re.findall(r"_MODEL_FILES \\\n((?:.*\\\n)*.*)", header)[0]
        self.fields = {tensor.name: tensor for tensor in self._order}
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        for what, result, arguments in (
                ("size", size, [ctypes.c_int, size]), ("error", ctypes.c_char_p, [ctypes.c_int]),
                ("pack", ctypes.c_int, [pointer, pointer, size, pointer]),
                ("open", ctypes.c_int, [pointer, pointer, size]),
                ("fault", ctypes.c_char_p, [pointer, size, ctypes.c_char_p]),
                ("run", ctypes.c_int, [pointer, pointer, pointer, pointer])):
            function = getattr(self.library, f"py_{what}")
            function.restype, function.argtypes = result, arguments
        self._size = {what: self.library.py_size(i, 1) for i, what in enumerate(SIZES)}
        self.seq_len, self.cache_len = self._size["seq_len"], self._size["cache_len"]
        self._file, self._model = Block(self._size["file"]), Block(self._size["model"])
        self._arena, self._one = Block(self._size["arena"]), OneCall(self.name)
        self._pack([folder / file for file in re.findall(r'"([^"]+)"', names)])

    def _check(self, error: int) -> None:
        if error != 0:
            raise CallError(self.library.py_error(error).decode())

    def _pack(self, paths: Sequence[Path]) -> None:
        views = []
        for path in paths:
            with open(path, "rb") as file:
                views.append(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
        shards = (Shard * len(views))(*(Shard(address_of(view), view.nbytes) for view in views))
        work = Block(self._size["work"])
        error = self.library.py_pack(self._file.address, shards, len(views), work.address)
        if error != 0:
            name = ctypes.create_string_buffer(512)
            fault = self.library.py_fault(shards, len(views), name)
            text = f"{name.value.decode()} {fault.decode()}" if fault else self.library.py_error(error).decode()
            raise CallError(text)
        self._check(self.library.py_open(self._model.address, self._file.address, self._size["file"]))

    def run(self, want: Sequence[str] = (), **given: Any) -> "dict[str, Any]":
        """One call on arrays by name; `want` names outputs that are new arrays, as in run(["logits"], ids=ids). Returns
        the outputs by name."""
        sizes: "dict[str, int]" = {}
        arrays: "dict[str, Array]" = {}
        for name, value in given.items():
            tensor = self.fields.get(name)
            if tensor is None:
                raise TypeError(f"{self.name} has no {name}; it has {', '.join(self.fields)}")
            arrays[name] = array_of(value, tensor)
            if name not in KEPT:
                fit("this model", tensor, arrays[name].shape, sizes)
        for name in [one for one in KEPT if one in arrays]:
            size = math.prod(arrays[name].shape) * BYTES[self.fields[name].type]
            needed = self._kept_bytes(name, sizes.get("batch", 0))
            if "slots" in arrays:  # places are as many as there is memory for
                sizes["slot_count"] = min(sizes.get("slot_count", size), size // self._kept_bytes(name, 1))
            elif size < needed:
                raise ValueError(f"{name} has {size} bytes; {sizes['batch']} sequences need {needed}")
        missing = [name for name in ("past", *KEPT) if name in self.fields and name not in given]
        if missing:
            raise TypeError(f"{self.name} needs {', '.join(missing)}")
        outputs = {name: given[name] for name in given if self.fields[name].written and name not in KEPT}
        sample = next(iter(given.values()), None)
        for name in want:
            known = [one for one in self.fields if self.fields[one].written and one not in KEPT]
            if name not in known:
                raise TypeError(f"{self.name} has no output {name}; it has {', '.join(known)}")
            extents = self.fields[name].extents
            unknown = [extent for extent in extents if not extent.isdigit() and extent not in sizes]
            if unknown:
                raise TypeError(f"{name} is {self.fields[name].shape}, and no field that is given has {unknown[0]}")
            shape = tuple(int(extent) if extent.isdigit() else sizes[extent] for extent in extents)
            outputs[name] = new_like(sample, self.fields[name].type, shape)
            arrays[name] = array_of(outputs[name], self.fields[name])
        addresses = (ctypes.c_void_p * len(self._order))(
            *(arrays[tensor.name].address if tensor.name in arrays else None for tensor in self._order))
        counts = (ctypes.c_size_t * max(1, len(self._sizes)))(*(sizes.get(name, 0) for name in self._sizes))
        with self._one:
            self._check(self.library.py_run(self._model.address, addresses, counts, self._arena.address))
        return outputs

    def embed(self, ids: Any, lengths: Any = None, output: str = "hidden", **given: Any) -> Any:
        """Hidden states [batch][n][d_model] behind the last layer, or another output: "mean", "pooler"."""
        cache = self._kept(len(ids)) if "past" in self.fields else {}
        given = given if lengths is None else {"lengths": lengths, **given}
        return self.run([output], ids=ids, **cache, **given)[output]

    def logits(self, ids: Any, lengths: Any = None) -> Any:
        """Logits [batch][n][vocabulary] of ids [batch][n]."""
        return self.embed(ids, lengths, "logits")

    def _kept_bytes(self, name: str, batch: int) -> int:
        return int(self.library.py_size(SIZES.index(name), batch))

    def _kept(self, batch: int) -> "dict[str, Any]":
        kept = {"past": new_like(None, "i32", (batch,))}
        for name in [one for one in KEPT if one in self.fields]:
            size, kind = self._kept_bytes(name, batch), self.fields[name].type
            kept[name] = Block(size).view(VIEWS[kind], (size // BYTES[kind],))
        return kept

    def generate(self, ids: Sequence[int], count: int, end: Optional[int] = None) -> Iterator[int]:
        """The likeliest next ids after `ids`, one at a time: `count` of them, or fewer where `end` comes or the cache
        is full. A prompt longer than a call takes is cut into calls."""
        if "last_logits" not in self.fields or "past" not in self.fields:
            raise TypeError(f"{self.name} has no logits of a last token, or no cache")
        state = self._kept(1)
        part = [operator.index(one) for one in ids]
        if not part:
            raise ValueError("a prompt has at least one id")
        for _ in range(count):
            while part:
                now, part = part[:self.seq_len], part[self.seq_len:]
                last = self.run(["last_logits"], ids=[now], **state)["last_logits"]
                state["past"][0] += len(now)
            row = last.tolist()[0]
            best = max(range(len(row)), key=lambda at: row[at] if not math.isnan(row[at]) else -math.inf)
            yield best
            if best == end or 0 < self.cache_len <= state["past"][0]:  # 0: a ring, which is never full
                return
            part = [best]


def import_model(folder: Union[str, "os.PathLike[str]"], **options: Any) -> Model:
    """A compiled model of a folder that Hugging Face's libraries saved: docs/models.md. Options are those of attngen
    import, as in isa="avx2". The weights are packed once, and held."""
    return Model(folder, **options)
