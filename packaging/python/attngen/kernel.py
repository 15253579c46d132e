# SPDX-License-Identifier: MIT
"""A compiled layer: a shared object kept under a hash of what it was made from, and calls of it with arrays by name.

Left out on purpose: parts of a call for threads; page tables made here: a layer with cache = paged takes its tensors by
name; `kept` of a layer with source_kept = true: each of its calls brings the source.
"""
from __future__ import annotations

import ctypes
import operator
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple, Union

from .programs import MachineError, value_text
from .native import Array, Block, CallError, OneCall, Tensor, address_of, array_of, fit, load_folder, new_like

Isa = Union[None, str, Sequence[str]]
Folder = Union[None, str, "os.PathLike[str]"]


def compile_layer(layer: Any, isa: Isa, options: Mapping[str, Any], cache: Folder) -> "Tuple[ctypes.CDLL, Path]":
    """The shared object of the layer's pair, and its path."""
    with tempfile.TemporaryDirectory(prefix="attngen-") as made:
        layer.emit(made, isa, shim=True, **options)
        shim, glue = Path(made, f"{layer.name}_shim.c"), Path(__file__).with_name("glue.c").read_text()
        Path(made, "python-glue.h").write_bytes(shim.read_bytes())  # no layer's name has a hyphen
        shim.unlink()
        Path(made, "python-glue.c").write_text(f'#include "python-glue.h"\n#define PAIR {layer.name}_table\n{glue}')
        return load_folder(Path(made), layer.name, cache)


class Kernel:
    """A layer's shared object. `tensors` has what it takes and gives, by name; pack() binds weights to it."""

    def __init__(self, layer: Any, isa: Isa = None, cache: Folder = None, **options: Any):
        self.layer, self.name, self._isa = layer, layer.name, isa
        self.library, self.path = compile_layer(layer, isa, options, cache)
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        call = [pointer, pointer, pointer, pointer, ctypes.c_uint64]
        for name, result, arguments in (
                ("count", size, []), ("text", ctypes.c_char_p, [size, ctypes.c_int]),
                ("fact", ctypes.c_int, [size, ctypes.c_int]), ("size", size, [ctypes.c_int, size]),
                ("error", ctypes.c_char_p, [ctypes.c_int]), ("isa", ctypes.c_char_p, [pointer]),
                ("isa_number", ctypes.c_int, [ctypes.c_char_p]),
                ("pack", ctypes.c_int, [pointer, pointer, ctypes.c_int, ctypes.c_int]),
                ("forward", ctypes.c_int, [*call, pointer]),
                ("backward", ctypes.c_int, [*call, pointer, pointer, pointer]),
                ("cache", ctypes.c_int, [pointer, size, pointer])):
            function = getattr(self.library, f"py_{name}")
            function.restype, function.argtypes = result, arguments
        text, fact = self.library.py_text, self.library.py_fact
        self._order = [
            Tensor(*(text(i, what).decode() for what in range(3)), *(bool(fact(i, what)) for what in range(4)))
            for i in range(self.library.py_count())]
        self.tensors = {tensor.name: tensor for tensor in self._order}
        self._place = {tensor.name: i for i, tensor in enumerate(self._order)}
        tables = [self._place[key[len("table."):]] for key, _ in layer._keys() if key.startswith("table.")]
        self._first_table = min(tables, default=-1)

    def _check(self, error: int) -> None:
        if error != 0:
            raise CallError(self.library.py_error(error).decode())

    def _take(self, given: Mapping[str, Any], packed: bool) -> "tuple[list[Optional[Array]], dict[str, int]]":
        """Arrays by place, and the sizes that their shapes have: batch, n, m, pages."""
        arrays: "list[Optional[Array]]" = [None] * len(self._order)
        sizes: "dict[str, int]" = {}
        of_all: "list[tuple[Tensor, Array]]" = []
        for name, value in given.items():
            if value is None:
                continue
            tensor = self.tensors.get(name)
            if tensor is None or tensor.packed != packed:
                names = ", ".join(known.name for known in self._order if known.packed == packed)
                raise TypeError(f"{self.name} has no {'weight' if packed else 'tensor'} {name}; it has {names}")
            array = array_of(value, tensor)
            if tensor.type == "i32" and tensor.extents[:1] == ["batch"] and len(array.shape) == len(tensor.extents) - 1:
                of_all.append((tensor, array))  # the same numbers for each sequence
                continue
            fit("this layer", tensor, array.shape, sizes)
            arrays[self._place[name]] = array
        for tensor, array in of_all:
            arrays[self._place[tensor.name]] = array = array.repeated(sizes.get("batch", 1))
            fit("this layer", tensor, array.shape, sizes)
        return arrays, sizes

    def _need(self, missing: "list[Tensor]") -> None:
        if missing:
            raise TypeError(f"{self.name} needs {', '.join(f'{one.name} {one.shape}' for one in missing)}")

    def _addresses(self, arrays: "list[Optional[Array]]") -> Any:
        return (ctypes.c_void_p * len(arrays))(*(array.address if array is not None else None for array in arrays))

    def pack(self, weights: Optional[Mapping[str, Any]] = None, /, **more: Any) -> "Packed":
        """Copies the weights, by name, into the order that the kernels read: of the first instruction set that
        compile() was given, else of the best one of this machine."""
        arrays, _ = self._take({**(weights or {}), **more}, packed=True)
        self._need([one for one, array in zip(self._order, arrays)
                    if one.packed and not one.optional and array is None])
        isa = 0
        first = value_text(self._isa).split(",")[0]
        if first not in ("none", "all"):
            isa = self.library.py_isa_number(first.encode())
            if isa == 0:
                raise MachineError(f"the layer was not compiled for {first}")
        return Packed(self, arrays, isa)


class Packed:
    """A layer with its weights: call it with arrays by name."""

    def __init__(self, kernel: Kernel, weights: "list[Optional[Array]]", isa: int):
        library = kernel.library
        self.kernel = kernel
        self.block = Block(library.py_size(0, 1))
        self.scratch, self._one = Block(library.py_size(1, 1)), OneCall(kernel.name)
        kernel._check(library.py_pack(self.block.address, kernel._addresses(weights), kernel._first_table, isa))
        self.isa = library.py_isa(self.block.address).decode()

    def _prepare(self, given: Mapping[str, Any], cache: "Optional[Cache]") -> \
            "tuple[Any, Any, dict[str, Any], list[Optional[Array]]]":
        kernel = self.kernel
        kept = cache.arrays if cache is not None else {}
        if kept.keys() & given.keys():
            raise TypeError(f"{', '.join(sorted(kept.keys() & given.keys()))}: cache= brings it")
        given = {**given, **kept}
        arrays, sizes = kernel._take(given, packed=False)
        sample = next((value for value in given.values() if value is not None), None)
        outputs = {}
        for place, tensor in enumerate(kernel._order):
            if tensor.packed or arrays[place] is not None:
                if tensor.written and tensor.name in given and tensor.name not in kept:
                    outputs[tensor.name] = given[tensor.name]
                continue
            if not tensor.written or any(word in tensor.name for word in ("_cache", "_pages", "_scale")):
                kernel._need([] if tensor.optional else [tensor])
                continue
            if not tensor.optional:
                shape = tuple(int(extent) if extent.isdigit() else sizes.get(extent, sizes.get("n", 0))
                              for extent in (one.split(" or ")[0] for one in tensor.extents))
                outputs[tensor.name] = new_like(sample, tensor.type, shape)
                arrays[place] = array_of(outputs[tensor.name], tensor)
        sizes.setdefault("m", sizes.get("n", 0))  # of self-attention
        extents = [sizes.get(name, 0) for name in ("batch", "n", "m", "pages")]
        for place, tensor in enumerate(kernel._order):
            array = arrays[place]
            extents += array.shape[:2] if "or 1" in tensor.shape and array is not None else (0, 0)
        return kernel._addresses(arrays), (ctypes.c_size_t * len(extents))(*extents), outputs, arrays

    def __call__(self, *unnamed: Any, cache: "Optional[Cache]" = None, saved: "Optional[Saved]" = None,
                 **given: Any) -> Any:
        """The layer on arrays by name, as in f(x=x, lengths=lengths). Outputs that are not given are new arrays, of the
        kind of the first input. Returns y, or a dict by name where the layer has more outputs. `saved`, of a layer that
        trains, takes what backward needs. A cache has the call's tokens afterwards."""
        if unnamed:
            raise TypeError(f"{self.kernel.name} takes arrays by name, as in f(x=x)")
        for value, kind in ((cache, Cache), (saved, Saved)):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{kind.__name__.lower()} is an attngen.{kind.__name__}, which {value!r} is not")
        addresses, extents, outputs, arrays = self._prepare(given, cache)
        with self._one:
            kept, seed = (saved._room(self, extents), saved.seed) if saved is not None else (None, 0)
            self.kernel._check(self.kernel.library.py_forward(self.block.address, addresses, extents, kept, seed,
                                                              self.scratch.address))
            if saved is not None:
                saved._call = (self, extents, addresses, arrays, seed)
            if cache is not None:
                cache._advance(given.get("lengths"), extents[1])
        return outputs["y"] if list(outputs) == ["y"] else outputs

    def bind(self, **given: Any) -> "tuple[Callable[[], None], dict[str, Any]]":
        """A function without arguments that calls the layer on these arrays again, for calls that are short beside the
        time in which arrays are looked at. Change what they hold, not where they lie. Returns it and the outputs. What
        would be copied, lists and layouts that are not row-major, is refused."""
        addresses, extents, outputs, arrays = self._prepare(given, None)
        for tensor, array in zip(self.kernel._order, arrays):
            if array is not None and array.copied:
                raise TypeError(f"bind needs row-major arrays, which it reads where they lie; {tensor.name} is none")
        forward, block, scratch = self.kernel.library.py_forward, self.block.address, self.scratch.address
        acquire, release, held = self._one.lock.acquire, self._one.lock.release, (self, arrays)

        def call() -> None:
            if not acquire(False):
                self._one.refuse()
            try:
                error = forward(block, addresses, extents, None, 0, scratch)
            finally:
                release()
            if error:
                held[0].kernel._check(error)
        return call, outputs

    def cache(self, batch: int) -> "Cache":
        """An empty cache of rows or a ring for that many sequences."""
        return Cache(self, batch)


class Cache:
    """Keys and values of earlier tokens. `past` [batch] is how many each sequence has; calls move it on."""

    def __init__(self, packed: Packed, batch: int):
        kernel = packed.kernel
        names = [name for name in ("k_cache", "v_cache", "past", "k_scale", "v_scale") if name in kernel.tensors]
        if "k_cache" not in names:
            raise TypeError(f"{kernel.name} has no cache of rows or a ring")
        self.kernel, self.batch = kernel, operator.index(batch)
        if self.batch < 1:
            raise ValueError(f"a cache is of one sequence or more, not of {batch}")
        self.arrays: "dict[str, Any]" = {}
        for name in names:
            tensor = kernel.tensors[name]
            shape = tuple(int(extent) if extent.isdigit() else self.batch for extent in tensor.extents)
            self.arrays[name] = new_like(None, tensor.type, shape)
        self.past = self.arrays["past"]
        self.reset()

    def _parts(self) -> Any:
        return (ctypes.c_void_p * 5)(*(address_of(self.arrays[name]) if name in self.arrays else None
                                       for name in ("k_cache", "v_cache", "past", "k_scale", "v_scale")))

    def reset(self) -> None:
        """Empties it."""
        self.kernel._check(self.kernel.library.py_cache(self._parts(), self.batch, None))

    def move(self, sources: "list[int]") -> None:
        """Sequence b becomes what sequence sources[b] was: reordered or copied, as a beam search does."""
        if len(sources) != self.batch:
            raise ValueError(f"{len(sources)} sources for {self.batch} sequences")
        numbers = (ctypes.c_int32 * self.batch)(*sources)
        self.kernel._check(self.kernel.library.py_cache(self._parts(), self.batch, numbers))

    def _advance(self, lengths: Any, n: int) -> None:
        for b in range(self.batch):
            self.past[b] += int(lengths[b]) if lengths is not None else n


class Saved:
    """What forward keeps for backward, and the seed of dropout: f(x=x, saved=saved); saved.backward(dy)."""

    def __init__(self, seed: int = 0):
        self.seed = seed
        self._call: Any = None

    @property
    def seed(self) -> int:
        """Of the next call; backward() has the seed of its call."""
        return self._seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self._seed = operator.index(seed)
        if not 0 <= self._seed < 1 << 64:
            raise ValueError(f"a seed is from 0 to 2**64 - 1, which {seed} is not")

    def _room(self, packed: Packed, extents: Any) -> int:
        self._call = None  # until the call has succeeded
        floats = packed.kernel.library.py_size(2, 1)
        if floats == 0:
            raise TypeError(f"{packed.kernel.name} does not train; write train = true")
        self._block = Block(4 * floats * extents[0] * extents[1])
        return self._block.address

    def backward(self, dy: Any, gradients: Optional[Mapping[str, Any]] = None) -> "dict[str, Any]":
        """Gradients of L by tensors, given dy in the shape of y: a dict with the names of tensors. Those of `gradients`
        are written (x, source) or added to (weights) where they lie; if it is not given, all are new arrays."""
        if self._call is None:
            raise TypeError("nothing is saved yet: call the layer with saved= first")
        packed, extents, addresses, arrays, seed = self._call
        kernel = packed.kernel
        y = kernel.tensors["y"]
        incoming = array_of(dy, replace(y, name="dy", written=False))
        of_y = arrays[kernel._order.index(y)]
        if of_y is not None and incoming.shape != of_y.shape:
            raise ValueError(f"dy has shape {list(incoming.shape)}; y has {list(of_y.shape)}")
        found = dict(gradients or {})
        unknown = set(found) - {tensor.name for tensor in kernel._order if tensor.gradient}
        if unknown:
            raise TypeError(f"{kernel.name} has no gradient of {', '.join(sorted(unknown))}")
        places: "list[Optional[Array]]" = [None] * len(kernel._order)
        for place, tensor in enumerate(kernel._order):
            if not tensor.gradient or (gradients is not None and tensor.name not in found):
                continue
            array = arrays[place]
            shape = array.shape if array is not None else tuple(map(int, tensor.extents))
            if gradients is None:
                found[tensor.name] = new_like(dy, "f32", shape)
            name = f"the gradient of {tensor.name}"
            room = array_of(found[tensor.name], replace(tensor, name=name, type="f32", written=True))
            if room.shape != shape:
                raise ValueError(f"{name} has shape {list(room.shape)}; it needs {list(shape)}")
            places[place] = room
        scratch = Block(kernel.library.py_size(3, 1))
        kernel._check(kernel.library.py_backward(
            packed.block.address, addresses, extents, self._block.address, seed, incoming.address,
            kernel._addresses(places), scratch.address))
        return found
