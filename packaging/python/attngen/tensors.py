# SPDX-License-Identifier: MIT
"""Files of tensors, safetensors, with the standard library alone: what attnrun reads and writes.

A tensor here is anything with the buffer protocol (numpy, array.array, memoryview), a torch tensor, or nested lists of
numbers. Left out on purpose: types that no layer has.
"""
from __future__ import annotations

import array
import json
import math
import os
import struct
import sys
from typing import Any, Mapping, Tuple, Union

CODES = {"f": "F32", "d": "F64", "i": "I32", "q": "I64", "l": "I64", "B": "U8", "b": "I8", "?": "BOOL", "e": "F16",
         "h": "I16", "H": "BF16"}
HALF = "e" if sys.version_info >= (3, 12) else "H"  # f16 in views that are made here: before 3.12 its bits
FORMATS = {**{kind: code for code, kind in reversed(list(CODES.items()))}, "F16": HALF}


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


def view_of(tensor: Any) -> memoryview:
    """The tensor's numbers as a view with its shape; nested lists are copied: integers as i32, else f32."""
    if isinstance(tensor, (list, tuple)):
        numbers, shape = flat(tensor), shape_of(tensor)
        code = "?" if all(isinstance(one, bool) for one in numbers) else \
            "i" if all(isinstance(one, int) for one in numbers) else "f"
        if code == "?":
            return memoryview(bytes(numbers)).cast("B").cast("?", shape) if numbers else memoryview(b"").cast("?")
        return memoryview(array.array(code, numbers)).cast("B").cast(code, shape or (1,))
    if hasattr(tensor, "detach"):  # torch
        tensor = tensor.detach().cpu().numpy()
    return memoryview(tensor)


def write(path: Union[str, "os.PathLike[str]"], tensors: Mapping[str, Any]) -> None:
    """Writes the tensors by name; uint16 is the bits of BF16."""
    header, data = {}, []
    begin = 0
    for name, tensor in tensors.items():
        view = view_of(tensor)
        header[name] = {"dtype": CODES[view.format.strip("@=<")], "shape": list(view.shape),
                        "data_offsets": [begin, begin + view.nbytes]}
        begin += view.nbytes
        data.append(view.tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def read(path: Union[str, "os.PathLike[str]"]) -> "dict[str, memoryview]":
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
            body = memoryview(whole)[8 + size + first:8 + size + last].cast(code)
            tensors[name] = body.cast("B").cast(code, row["shape"]) if math.prod(row["shape"]) else body
    return tensors
