# SPDX-License-Identifier: MIT
"""Files of tensors, safetensors, with the standard library alone: what attnrun reads and writes.

A tensor here is anything with the buffer protocol (numpy, array.array, memoryview), a torch tensor, or nested lists of
numbers. Left out on purpose: types that no layer has.
"""
from __future__ import annotations

import array
import ctypes
import json
import math
import os
import struct
import sys
from typing import Any, Mapping, Tuple, Union

# code of a view: the type's name in a file of safetensors
SAFETENSORS = {"f": "F32", "d": "F64", "i": "I32", "q": "I64", "l": "I64", "B": "U8", "b": "I8", "?": "BOOL",
               "e": "F16", "h": "I16", "H": "BF16"}
HALF = "e" if sys.version_info >= (3, 12) else "H"  # f16 in views that are made here: before 3.12 its bits
# DLPack's code and bits of a type: its name, and the code of a view
DLPACK = {(0, 8): ("int8", "b"), (0, 16): ("int16", "h"), (0, 32): ("int32", "i"), (0, 64): ("int64", "q"),
          (1, 8): ("uint8", "B"), (1, 16): ("uint16", "H"), (2, 16): ("float16", HALF), (2, 32): ("float32", "f"),
          (2, 64): ("float64", "d"), (4, 16): ("bfloat16", "H"), (6, 8): ("bool", "?")}
FORMATS = {**{kind: code for code, kind in reversed(list(SAFETENSORS.items()))}, "F16": HALF}


def shape_of(values: Any) -> Tuple[int, ...]:
    """Extents of nested lists; raises ValueError if lists beside each other differ in length."""
    if not isinstance(values, (list, tuple)):
        return ()
    inner = {shape_of(item) for item in values}
    if len(inner) > 1:
        raise ValueError("nested lists differ in length: " + ", ".join(sorted(str(list(one)) for one in inner)))
    return (len(values), *(inner.pop() if inner else ()))


def flat(values: Any) -> "list[Any]":
    return [one for item in values for one in flat(item)] if isinstance(values, (list, tuple)) else [values]


def as_view(whole: Any, code: str, shape: Tuple[int, ...]) -> "memoryview[Any]":
    """Bytes as a view of that shape; one without numbers is flat."""
    data: Any = memoryview(whole).cast("B")
    view: "memoryview[Any]" = data.cast(code, shape) if math.prod(shape) else data.cast(code)
    return view


class DLTensor(ctypes.Structure):
    """DLPack's struct of that name, with which DLManagedTensor begins."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


def of_dlpack(tensor: Any) -> "tuple[memoryview[Any], str]":
    """What __dlpack__() tells of a tensor: a view of its numbers where they lie, and the name of their type. Raises
    ValueError if they are not on the CPU or not row-major, TypeError for a type that no layer has."""
    capsule = tensor.__dlpack__()
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer",
                                                                                 ctypes.pythonapi))
    found = DLTensor.from_address(get(capsule, b"dltensor"))
    if found.device != 1:
        raise ValueError("the tensor is not on the CPU")
    if (found.code, found.bits) not in DLPACK or found.lanes != 1:
        raise TypeError(f"a tensor of DLPack's type {found.code} with {found.bits} bits is none of a layer")
    kind, code = DLPACK[found.code, found.bits]
    shape, apart = found.shape[:found.ndim], 1
    for axis in reversed(range(found.ndim)):
        if found.strides and shape[axis] != 1 and found.strides[axis] != apart:
            raise ValueError("the tensor is not row-major")
        apart *= shape[axis]
    block: Any = (ctypes.c_char * (apart * found.bits // 8)).from_address((found.data or 0) + found.byte_offset)
    block.owner = capsule  # which holds the numbers
    return as_view(block, code, tuple(shape)), kind


def typed_view(tensor: Any) -> "tuple[memoryview[Any], str]":
    """The tensor's numbers as a view with its shape, where they lie, and its type in a file of safetensors; of a torch
    tensor in BF16 the bits as uint16, and uint16 that is no torch tensor is BF16. Nested lists are copied: integers as
    i32, else f32; so are torch tensors that are not row-major. Raises TypeError for what is none of these."""
    if isinstance(tensor, (list, tuple)):
        numbers, shape = flat(tensor), shape_of(tensor)
        code = "?" if all(isinstance(one, bool) for one in numbers) else \
            "i" if all(isinstance(one, int) for one in numbers) else "f"
        view = as_view(bytes(numbers) if code == "?" else array.array(code, numbers), code, shape)
    elif hasattr(tensor, "detach"):  # torch
        view, kind = of_dlpack(tensor.detach().cpu().resolve_neg().contiguous())
        if kind == "float16":
            return view, "F16"
    else:
        view = memoryview(tensor)
    code = view.format.strip("@" if sys.byteorder == "big" else "@=<")
    if code not in SAFETENSORS:
        raise TypeError(f"its type {view.format} is none of a layer in this machine's byte order")
    return view, SAFETENSORS[code]


def write(path: Union[str, "os.PathLike[str]"], arrays: Mapping[str, Any]) -> None:
    """Writes the tensors by name; uint16 is the bits of BF16."""
    header, data = {}, []
    begin = 0
    for name, tensor in arrays.items():
        try:
            view, kind = typed_view(tensor)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{name}: {error}") from None
        header[name] = {"dtype": kind, "shape": list(view.shape or ()),
                        "data_offsets": [begin, begin + view.nbytes]}
        begin += view.nbytes
        data.append(view.tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def read(path: Union[str, "os.PathLike[str]"]) -> "dict[str, memoryview[Any]]":
    """Tensors by name: views with a shape, which numpy.asarray and torch.frombuffer take, and .tolist() nests. BF16,
    and before Python 3.12 F16, are the bits as uint16."""
    with open(path, "rb") as file:
        whole = file.read()
    size = struct.unpack("<Q", whole[:8])[0]
    tensors = {}
    for name, row in json.loads(whole[8:8 + size]).items():
        if name != "__metadata__":
            first, last = row["data_offsets"]
            code = FORMATS[row["dtype"]]
            tensors[name] = as_view(memoryview(whole)[8 + size + first:8 + size + last], code, tuple(row["shape"]))
    return tensors
