# SPDX-License-Identifier: MIT
"""What emitted C needs to be called from Python: a folder of compiled objects, and arrays where they lie in memory.

An array is whatever has its numbers in this process's memory: numpy, torch (CPU), the buffer protocol, DLPack. It is
read where it lies; nested lists, and inputs of numpy, torch or a buffer whose layout is not row-major, are copied. Its
type must be the tensor's.

Left out on purpose: what is computed; kernel.py and model.py have the calls.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import math
import operator
import os
import re
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Tuple, Union

from . import programs, tensors

FLAGS = ["-O2", "-fPIC", "-shared"]
VIEWS = {"f32": "f", "i32": "i", "bool": "B", "bf16": "H", "f16": tensors.HALF, "i8": "b"}  # codes of views made here
BYTES = {kind: struct.calcsize(code) for kind, code in VIEWS.items()}
# names of types: torch's, numpy's, and codes of the buffer protocol
TYPES = {"f32": ("float32", "f"), "i32": ("int32", "i"), "bool": ("bool", "uint8", "?", "B"), "i8": ("int8", "b"),
         "bf16": ("bfloat16", "uint16", "H"), "f16": ("float16", "uint16", "e", "H")}
ALIGNMENT = 64


class CallError(programs.Error, ValueError):
    """A call was refused: by the pair, whose message it has, or as the object is in another call."""


class OneCall:
    """Entered by one call at a time: its memory is an object's. Another call meanwhile is a CallError."""

    def __init__(self, name: str):
        self.name, self.lock = name, threading.Lock()

    def __enter__(self) -> None:
        if not self.lock.acquire(False):
            self.refuse()

    def __exit__(self, *_: Any) -> None:
        self.lock.release()

    def refuse(self) -> None:
        raise CallError(f"{self.name} is in a call of another thread, and its memory is for one; make an object for "
                        "each thread")


@dataclass(frozen=True)
class Tensor:
    """A tensor of a layer: its name, type ("f32"), shape ("[batch][n][256]"), and what a call does with it."""

    name: str
    type: str
    shape: str
    packed: bool  # a weight
    written: bool  # an output, or a cache
    optional: bool
    gradient: bool

    @property
    def extents(self) -> "list[str]":
        return re.findall(r"\[([^]]*)\]", self.shape)


# ---- compiling ----


@functools.lru_cache(maxsize=None)
def version_of(compiler: str) -> str:
    try:
        return subprocess.run([*compiler.split(), "--version"], env=programs.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise programs.MachineError(f"the compiler '{compiler}' does not tell its version: {error}") from None


OTHER_FOLDER = "name another folder in cache= or XDG_CACHE_HOME"


def is_own(path: Path) -> bool:
    """Nobody else may write to it."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def cache_folder(given: "Union[None, str, os.PathLike[str]]" = None) -> Path:
    """The folder of compiled layers, which nobody else may write to."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(given) if given else Path(base, "attngen", "python")
    if folder.parts[:1] == ("~",):
        raise programs.MachineError(f"there is no home folder for compiled layers; {OTHER_FOLDER}")
    folder = folder.resolve()
    try:
        for one in [*reversed(folder.parents), folder]:  # mkdir(parents=True) would give the mode to the last alone
            if not one.is_dir():
                one.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise programs.MachineError(f"{folder} cannot be made: {error.strerror}; {OTHER_FOLDER}") from None
    if not is_own(folder):
        raise programs.MachineError(f"{folder} may be written by others; compiled code is kept in a folder of your own")
    return folder


def load_folder(made: Path, name: str, cache: "Union[None, str, os.PathLike[str]]") -> "Tuple[ctypes.CDLL, Path]":
    """The shared object of all C files of a folder, compiled unless the cache has it, and its path. What cannot be
    loaded, or may be another's, is compiled again."""
    path = compile_folder(made, name, cache)
    with contextlib.suppress(OSError):
        if is_own(path):
            return ctypes.CDLL(str(path)), path
    try:
        path.unlink(missing_ok=True)
        path = compile_folder(made, name, cache)
        return ctypes.CDLL(str(path)), path
    except OSError as error:
        raise programs.MachineError(f"{path} cannot be loaded: {error}") from None


def compile_folder(made: Path, name: str, cache: "Union[None, str, os.PathLike[str]]") -> Path:
    """The path of the shared object of all C files of a folder, compiled unless the cache has it."""
    compiler = programs.compiler()
    flags = [*FLAGS, *os.environ.get("CFLAGS", "").split()]
    digest = hashlib.sha256("\0".join([compiler, version_of(compiler), *flags]).encode())
    for path in sorted(made.glob("*.[ch]")):
        digest.update(path.read_bytes() + b"\0")
    kept = cache_folder(cache) / f"{name}-{digest.hexdigest()[:32]}.so"
    if not kept.exists():
        new = kept.with_name(f".{kept.name}.{os.getpid()}.{os.urandom(4).hex()}")
        words = [*compiler.split(), *flags, "-o", "python.so", *sorted(path.name for path in made.glob("*.c")), "-lm"]
        result = subprocess.run(words, cwd=made, env=programs.environment(), stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, errors="replace")
        programs.raise_for(3 if result.returncode else 0, f"{compiler} failed:\n{result.stderr}")
        try:
            new.write_bytes(Path(made, "python.so").read_bytes())
            new.chmod(0o700)  # whatever umask says
            os.replace(new, kept)  # whole or not at all, whoever else compiles it
        except OSError as error:
            raise programs.MachineError(f"{kept} cannot be written: {error.strerror}; {OTHER_FOLDER}") from None
        finally:
            new.unlink(missing_ok=True)
    return kept


# ---- memory ----


class PyBuffer(ctypes.Structure):
    """Python's Py_buffer."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def address_of(view: "memoryview[Any]") -> int:
    """Where a view's bytes are; read-only ones too."""
    buffer = PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0)
    address = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address or 0


class Block:
    """Bytes on a boundary of 64, zero at first."""

    def __init__(self, size: int):
        self.memory = ctypes.create_string_buffer(size + ALIGNMENT)
        begin = ctypes.addressof(self.memory)
        self.offset = -begin % ALIGNMENT
        self.address, self.size = begin + self.offset, size

    def view(self, code: str, shape: Tuple[int, ...]) -> "memoryview[Any]":
        return tensors.as_view(memoryview(self.memory).cast("B")[self.offset:self.offset + self.size], code, shape)


@dataclass
class Array:
    """Where an array's numbers lie; `owner` keeps them there. `copied`: not where the caller has them."""

    address: int
    shape: Tuple[int, ...]
    owner: Any
    copied: bool

    def repeated(self, count: int) -> "Array":
        """That many copies of its i32 numbers, as a first axis."""
        size = 4 * math.prod(self.shape)
        block = Block(max(1, count * size))
        for place in range(count):
            ctypes.memmove(block.address + place * size, self.address, size)
        return Array(block.address, (count, *self.shape), block, True)


def array_of(value: Any, tensor: Tensor) -> Array:
    """The array's memory; raises TypeError for another type or an output that is not row-major."""
    is_list = isinstance(value, (list, tuple, int, float))
    if is_list and tensor.written:
        raise TypeError(f"{tensor.name} is written, and a {type(value).__name__} is copied; give an array")
    if is_list:
        value, shape = in_type(value, tensor)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        kind, contiguous = str(value.dtype).split(".")[-1], value.is_contiguous() and not value.is_neg()
        if value.device.type != "cpu":
            raise TypeError(f"{tensor.name} is on {value.device}; this layer runs on the CPU")
        owner = value.detach() if contiguous or tensor.written else value.detach().resolve_neg().contiguous()
        place = owner.data_ptr
    elif hasattr(value, "__array_interface__") and hasattr(getattr(value, "flags", None), "c_contiguous"):  # numpy's
        kind, contiguous = value.dtype.name, value.flags.c_contiguous
        if not value.dtype.isnative:
            raise TypeError(f"{tensor.name} has the other byte order; give it in this machine's")
        if tensor.written and not value.flags.writeable:
            raise TypeError(f"{tensor.name} is written, and this array is read-only")
        owner = value if contiguous or tensor.written else value.copy("C")
        place = (lambda: owner.__array_interface__["data"][0])
    elif hasattr(value, "__dlpack__"):
        try:
            owner, kind = tensors.of_dlpack(value)
        except ValueError as error:
            raise TypeError(f"{tensor.name}: {error}") from None
        contiguous = True
        place = (lambda: address_of(owner))
    else:
        try:
            owner = memoryview(value)
        except TypeError:
            raise TypeError(f"{tensor.name} is a {type(value).__name__}; give an array of numpy or torch, a buffer, or "
                            "nested lists") from None
        kind, contiguous = owner.format.strip("@=<"), owner.c_contiguous
        if not contiguous and not tensor.written:
            owner = tensors.as_view(owner.tobytes(), tensors.HALF if kind == "e" else kind, owner.shape or ())
        place = (lambda: address_of(owner))
        if tensor.written and owner.readonly:
            raise TypeError(f"{tensor.name} is written, and this buffer is read-only")
    if kind not in TYPES[tensor.type]:
        raise TypeError(f"{tensor.name} is {kind}; this layer takes {tensor.type}")
    if tensor.written and not contiguous:
        raise TypeError(f"{tensor.name} is written, and its layout is not row-major")
    return Array(place(), shape if is_list else tuple(owner.shape), owner, is_list or not contiguous)


def fit(who: str, tensor: Tensor, shape: Tuple[int, ...], sizes: "dict[str, int]") -> None:
    """Compares a shape with the tensor's, and adds the sizes that it has to those known: batch, n."""
    good = len(tensor.extents) == len(shape)
    for extent, size in zip(tensor.extents, shape):
        name, _, other = extent.partition(" or ")
        if other and size == 1:
            continue
        good = good and size == (int(name) if name.isdigit() else sizes.setdefault(name, size))
    if not good:
        known = "".join(f", {name} = {size}" for name, size in sizes.items())
        raise ValueError(f"{tensor.name} has shape {list(shape)}; {who} takes {tensor.shape}{known}")


def in_type(value: Any, tensor: Tensor) -> "tuple[memoryview[Any], Tuple[int, ...]]":
    """Nested lists as a flat view of the tensor's type, and their shape."""
    if tensor.type == "bf16":
        raise TypeError(f"{tensor.name} is bf16, which lists of numbers cannot be; give an array")
    try:
        numbers, shape, code = tensors.flat(value), tensors.shape_of(value), VIEWS[tensor.type]
    except ValueError as error:
        raise ValueError(f"{tensor.name}: {error}") from None
    block = Block(max(1, len(numbers)) * BYTES[tensor.type])
    whole = block.view(code, (len(numbers),))
    for place, one in enumerate(numbers):
        try:
            if tensor.type == "bool":
                one = int(operator.index(one) != 0)
            elif tensor.type in ("i32", "i8"):
                one = operator.index(one)
            elif code == "H":  # f16 by its bits
                one, = struct.unpack("H", struct.pack("e", one))
            whole[place] = one
        except (TypeError, ValueError, OverflowError, struct.error):
            raise TypeError(f"{tensor.name} is {tensor.type}, which {one!r} is not") from None
    return whole, shape or (1,)


def new_like(sample: Any, kind: str, shape: Tuple[int, ...]) -> Any:
    """A new array of zeros of the sample's library."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(sample, torch.Tensor):
        return torch.zeros(shape, dtype=getattr(torch, TYPES[kind][0]))
    if numpy is not None and isinstance(sample, numpy.ndarray):
        return numpy.zeros(shape, "e" if kind == "f16" else VIEWS[kind])
    return Block(math.prod(shape) * BYTES[kind]).view(VIEWS[kind], shape)
