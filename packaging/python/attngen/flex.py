# SPDX-License-Identifier: MIT
"""FlexAttention's functions as a layer: score_mod and mask_mod are run once, on symbols, and become expressions.

A symbol records what is done to it; the record is printed in the language of docs/expressions.md. Tensors that a
function captures become tables of the layer, or tensors of its calls where they have an axis of sequences: lengths[b],
document[b, position], prefix[b], a mask or a bias of all pairs. An operation that the language lacks becomes a table of
its values where it depends on integers alone, as log(abs(q_idx - kv_idx) + 1) does.

The functions here (where, minimum, maximum, clamp, exp, tanh …) take numbers and symbols; torch's and numpy's of the
same names do too. Left out on purpose: control flow that depends on a symbol, which a trace cannot see; it is refused.
"""
from __future__ import annotations

import functools
import itertools
import math
import operator
import random
import re
import sys
import types
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence

from . import tensors
from .layer import Layer
from .programs import SpecError

MOST = 1 << 20  # numbers of a table made here
AXES = 4  # and its axes, as docs/expressions.md has them
WORDS = {"i": "h", "p": "q_idx", "j": "kv_idx"}  # FlexAttention's names
TAKEN = {"s", "i", "p", "j", "min", "max", "abs", "exp", "tanh", "sqrt", "log", "floor", "sigmoid", "where", "and",
         "or", "not", "true", "false"}


class FlexError(SpecError):
    """A function that cannot be an expression; the message begins with the line that did it."""


class NotFinite(FlexError):
    """A table that would have an infinite number or NaN."""


def refuse(text: str) -> "FlexError":
    """The error, with the place outside of this file that led here."""
    frame: Any = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename == __file__ or "/torch/" in frame.f_code.co_filename):
        frame = frame.f_back
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}: " if frame is not None else ""
    return FlexError(f"{place}error: {text}")


# ---- symbols ----


def quiet(function: Callable) -> Callable:
    """The function with infinity and NaN, as torch has them, where Python's raises."""
    def of(*args: Any) -> Any:
        try:
            value = function(*args)
        except OverflowError:
            return math.inf
        except ZeroDivisionError:
            return math.copysign(math.inf, args[0])
        except ValueError:
            return math.nan
        return math.nan if isinstance(value, complex) else value
    return of


def logarithm(function: Callable, pole: float = 0) -> Callable:
    return lambda x: function(x) if x > pole else -math.inf if x == pole else math.nan


def rounded(function: Callable) -> Callable:
    return lambda x: float(function(x)) if math.isfinite(x) else x


def quotient(a: Any, b: Any) -> Any:
    return a / b if b else math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


def floored(a: Any, b: Any) -> Any:
    if b == 0 and isinstance(b, int):
        raise FlexError("error: an integer is divided by zero")
    return a // b if b and math.isfinite(a) else rounded(math.floor)(quotient(a, b))


def remainder(a: Any, b: Any) -> Any:
    if b == 0 and isinstance(b, int):
        raise FlexError("error: the remainder of an integer by zero")
    return a % b if b and math.isfinite(a) else math.nan


def to_integer(x: Any) -> int:
    """Without a fraction; what no 64 bits hold as torch has it on x86."""
    return math.trunc(x) if math.isfinite(x) and abs(x) < 2.0 ** 63 else -2 ** 63


def truncated(a: Any, b: Any) -> int:
    if b == 0:
        raise FlexError("error: an integer is divided by zero")
    return math.trunc(a / b)


def power_of_two(x: int) -> Any:
    return 2 ** x


COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
               "!=": operator.ne}
BINARY = {**COMPARISONS, "+": operator.add, "-": operator.sub, "*": operator.mul, "//": floored,
          "/": quotient, "%": remainder, "and": lambda a, b: a and b, "or": lambda a, b: a or b}
LOG, LOG2, LOG1P = logarithm(math.log), logarithm(math.log2), logarithm(math.log1p, -1)
FLOOR, CEIL, ROUND, TRUNC = map(rounded, (math.floor, math.ceil, round, math.trunc))
POWER, SINE, COSINE = map(quiet, (pow, math.sin, math.cos))
UNARY = {"neg": operator.neg, "not": operator.not_, "abs": abs, "exp": quiet(math.exp), "tanh": math.tanh,
         "sqrt": quiet(math.sqrt), "log": LOG, "floor": FLOOR}
RANK = {"or": 1, "and": 2, "not": 3, **dict.fromkeys(COMPARISONS, 4), "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6,
        "neg": 7}


class Symbol:
    """A node of the record: `op` of `args`. Its kind is "int", "float" or "bool"; `key` is equal for equal nodes."""

    __slots__ = ("op", "args", "kind", "key")
    __array_priority__ = 1000

    def __init__(self, op: str, args: tuple, kind: str):
        self.op, self.args, self.kind = op, args, kind
        self.key = (op, kind, *(arg.key if isinstance(arg, Symbol) else id(arg) if isinstance(arg, Table)
                                else (type(arg).__name__, arg) for arg in args))

    def __bool__(self):
        raise refuse("if, and, or, not, min, max and chained comparisons need a value, and this one depends on "
                     "positions; write &, |, ~, where, minimum, maximum")

    def __index__(self):
        raise refuse("a position is needed as a number here; a tensor that it indexes must be a variable of the "
                     "function's module or of the functions around it, not an attribute or an element of something")

    __int__ = __float__ = __index__
    __hash__ = None

    def __getattr__(self, name):
        method = METHODS.get(name)
        if method is None:
            raise refuse(f"symbols have no .{name}")
        return lambda *args, **more: method(self, *args, **more)

    @property
    def dtype(self):
        torch = sys.modules.get("torch")
        name = {"int": "int64", "float": "float32", "bool": "bool"}[self.kind]
        return getattr(torch, name) if torch is not None else name

    @property
    def device(self):
        return "cpu"

    @property
    def shape(self):
        return ()

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        return named(ufunc.__name__)(*map(plain, inputs))

    def __array_function__(self, func, kinds, args, more):
        return named(func.__name__)(*args, **more)

    @classmethod
    def __torch_function__(cls, func, kinds, args=(), kwargs=None):
        if func.__name__ == "__getitem__":  # of a tensor that is no variable: an attribute, an element of something
            return Table("captured", args[0])[args[1]]
        return named(func.__name__)(*map(plain, args), **(kwargs or {}))


def plain(value: Any) -> Any:
    """A number in place of a tensor or an array without axes, or of a constant; anything else as it is."""
    if isinstance(value, Symbol) and value.op == "const":
        return value.args[0]
    return value.item() if getattr(value, "shape", None) == () and not isinstance(value, Symbol) else value


def kind_of(value: Any) -> str:
    if isinstance(value, Symbol):
        return value.kind
    if isinstance(value, bool):
        return "bool"
    return "int" if isinstance(value, int) else "float"


def symbol(value: Any) -> Symbol:
    """A constant as a symbol."""
    value = plain(value)
    if isinstance(value, Symbol):
        return value
    if isinstance(value, Table):
        raise refuse(f"the tensor {value.name} of shape {value.shape} is used as a number; index all of its axes")
    if not isinstance(value, (bool, int, float)):
        raise refuse(f"a value of type {type(value).__name__} cannot be part of an expression")
    if value != value:
        raise refuse("NaN cannot be part of an expression")
    return Symbol("const", (value,), kind_of(value))


def number(value: Any) -> Any:
    """A condition as 1 or 0 where a number is needed."""
    if kind_of(value) != "bool":
        return value
    return where(value, 1, 0) if isinstance(value, Symbol) else int(value)


def symbolic(*values: Any) -> bool:
    return any(isinstance(value, (Symbol, Table)) for value in values)


def binary(op: str, a: Any, b: Any) -> Any:
    a, b = plain(a), plain(b)
    if not symbolic(a, b):
        return BINARY[op](a, b)
    if op not in ("and", "or", "==", "!=") or {kind_of(a), kind_of(b)} != {"bool"}:
        a, b = number(a), number(b)
    a, b = symbol(a), symbol(b)
    kinds = {a.kind, b.kind}
    if op in ("//", "%") and "float" in kinds:
        low = call("floor", FLOOR, binary("/", a, b))
        return low if op == "//" else a - b * low
    kind = "bool" if op in ("and", "or", *COMPARISONS) else "float" if op == "/" or "float" in kinds else "int"
    return Symbol(op, (a, b), kind)


def unary(op: str, a: Any) -> Any:
    a = plain(a)
    if not symbolic(a):
        return UNARY[op](a)
    a = symbol(number(a) if op != "not" else a)
    return Symbol(op, (a,), "float" if op in ("exp", "tanh", "sqrt") else a.kind)


def call(name: str, function: Callable, *args: Any, kind: str = "float") -> Any:
    """A function that the language lacks, or log or floor: of integers alone its values become a table."""
    args = tuple(map(plain, args))
    if not symbolic(*args):
        return function(*args)
    node = Symbol("call", (name, function, *(symbol(number(arg)) for arg in args)), kind)
    if any(leaf.op == "s" for leaf in leaves(node)):
        if name in ("log", "floor"):
            return Symbol(name, node.args[2:], "float")
        raise refuse(f"{name} of the score has no expression; docs/expressions.md lists what there is")
    return node


def bitwise(op: str, function: Callable, a: Any, b: Any) -> Any:
    """& | ^ of conditions; of integers by a table, or as a remainder."""
    a, b = plain(a), plain(b)
    if kind_of(a) == kind_of(b) == "bool":
        word = {"&": "and", "|": "or", "^": "!="}[op]
        for one, other in ((a, b), (b, a)):
            if not symbolic(one) and op != "^":
                return other if bool(one) == (op == "&") else one
        return binary(word, a, b)
    if op == "&" and not symbolic(b) and b >= 0 and (b & (b + 1)) == 0:
        return binary("%", a, b + 1)
    return call(op, function, a, b, kind="int")


# ---- functions of numbers and symbols ----


def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition is true, else b."""
    condition, a, b = plain(condition), plain(a), plain(b)
    if not symbolic(condition):
        return a if condition else b
    if not kind_of(a) == kind_of(b) == "bool":
        a, b = number(a), number(b)
    a, b = symbol(a), symbol(b)
    return Symbol("where", (condition, a, b), "float" if "float" in (a.kind, b.kind) else a.kind)


def minimum(a: Any, b: Any) -> Any:
    return extreme("min", min, a, b)


def maximum(a: Any, b: Any) -> Any:
    return extreme("max", max, a, b)


def extreme(op: str, function: Callable, a: Any, b: Any) -> Any:
    a, b = number(plain(a)), number(plain(b))
    if not symbolic(a, b):
        return function(a, b)
    a, b = symbol(a), symbol(b)
    return Symbol(op, (a, b), "float" if "float" in (a.kind, b.kind) else "int")


def clamp(a: Any, min: Any = None, max: Any = None) -> Any:  # torch's names
    a = a if min is None else maximum(a, min)
    return a if max is None else minimum(a, max)


def exp(a: Any) -> Any:
    return unary("exp", a)


def tanh(a: Any) -> Any:
    return unary("tanh", a)


def sqrt(a: Any) -> Any:
    return unary("sqrt", a)


def absolute(a: Any) -> Any:
    return unary("abs", a)


def exp2(a: Any) -> Any:
    return unary("exp", binary("*", a, math.log(2)))


def log(a: Any) -> Any:
    return call("log", LOG, a)


def sigmoid(a: Any) -> Any:
    return binary("/", 1.0, binary("+", 1.0, unary("exp", unary("neg", a))))


def power(a: Any, b: Any) -> Any:
    a, b = plain(a), plain(b)
    if symbolic(a, b):
        if isinstance(b, float) and b.is_integer():
            return power(a if kind_of(a) == "float" else binary("*", a, 1.0), int(b))
        if isinstance(b, int) and 0 < b <= 8:
            return a if b == 1 else binary("*", power(a, b - 1), a)
        if b == 0.5:
            return unary("sqrt", a)
        if not symbolic(a) and a > 0:
            return unary("exp", binary("*", b, math.log(a)))
    return call("pow", POWER, a, b)


def sign(a: Any) -> Any:
    return where(binary(">", a, 0), 1, where(binary("<", a, 0), -1, 0))


def convert(a: Any, kind: Any = None, *_: Any, **__: Any) -> Any:
    """a.to(dtype), a.float() …: the kind alone matters."""
    name = str(kind)
    if not isinstance(a, Symbol) or kind is None or name in ("cpu", "cuda"):
        return a
    if "bool" in name:
        return a if a.kind == "bool" else binary("!=", a, 0)
    if "float" in name or "half" in name or "double" in name:
        return number(a) if a.kind == "float" else binary("*", number(a), 1.0)
    if "int" in name or "long" in name:
        return call("to_integer", to_integer, a, kind="int") if a.kind == "float" else number(a)
    return a


def divide(a: Any, b: Any, rounding_mode: Optional[str] = None) -> Any:
    if rounding_mode == "trunc":
        return call("trunc", truncated, a, b, kind="int") if kind_of(a) == kind_of(b) == "int" else \
            call("trunc", TRUNC, binary("/", a, b))
    return binary("//" if rounding_mode == "floor" else "/", a, b)


def whole(name: str, function: Callable) -> Callable:
    return lambda a: a if kind_of(a) == "int" else call(name, function, a)


def same(a: Any, *_: Any, **__: Any) -> Any:
    return a


METHODS: "dict[str, Callable]" = {
    "where": where, "minimum": minimum, "maximum": maximum, "fmin": minimum, "fmax": maximum, "min": minimum,
    "max": maximum, "clamp": clamp, "clip": clamp, "abs": absolute, "absolute": absolute, "exp": exp, "tanh": tanh,
    "sqrt": sqrt, "exp2": exp2, "log": log, "sigmoid": sigmoid, "pow": power, "power": power, "float_power": power,
    "sign": sign, "square": lambda a: binary("*", a, a), "rsqrt": lambda a: binary("/", 1.0, unary("sqrt", a)),
    "relu": lambda a: maximum(a, 0.0), "neg": lambda a: unary("neg", a), "negative": lambda a: unary("neg", a),
    "add": lambda a, b: binary("+", a, b), "sub": lambda a, b: binary("-", a, b),
    "rsub": lambda a, b: binary("-", b, a),
    "subtract": lambda a, b: binary("-", a, b), "mul": lambda a, b: binary("*", a, b), "div": divide,
    "multiply": lambda a, b: binary("*", a, b), "true_divide": divide, "divide": divide,
    "floor_divide": lambda a, b: binary("//", a, b), "remainder": lambda a, b: binary("%", a, b),
    "eq": lambda a, b: binary("==", a, b), "ne": lambda a, b: binary("!=", a, b), "lt": lambda a, b: binary("<", a, b),
    "le": lambda a, b: binary("<=", a, b), "gt": lambda a, b: binary(">", a, b), "ge": lambda a, b: binary(">=", a, b),
    "equal": lambda a, b: binary("==", a, b), "not_equal": lambda a, b: binary("!=", a, b),
    "less": lambda a, b: binary("<", a, b), "less_equal": lambda a, b: binary("<=", a, b),
    "greater": lambda a, b: binary(">", a, b), "greater_equal": lambda a, b: binary(">=", a, b),
    "logical_and": lambda a, b: bitwise("&", operator.and_, convert(a, "bool"), convert(b, "bool")),
    "logical_or": lambda a, b: bitwise("|", operator.or_, convert(a, "bool"), convert(b, "bool")),
    "logical_not": lambda a: unary("not", convert(a, "bool")),
    "logical_xor": lambda a, b: bitwise("^", operator.xor, convert(a, "bool"), convert(b, "bool")),
    "bitwise_and": lambda a, b: bitwise("&", operator.and_, a, b),
    "bitwise_or": lambda a, b: bitwise("|", operator.or_, a, b),
    "bitwise_not": lambda a: unary("not", a) if kind_of(a) == "bool" else binary("-", -1, a),
    "invert": lambda a: unary("not", a) if kind_of(a) == "bool" else binary("-", -1, a),
    "sin": lambda a: call("sin", SINE, a), "cos": lambda a: call("cos", COSINE, a),
    "log1p": lambda a: call("log1p", LOG1P, a), "log2": lambda a: call("log2", LOG2, a),
    "floor": whole("floor", FLOOR), "ceil": whole("ceil", CEIL), "round": whole("round", ROUND),
    "trunc": whole("trunc", TRUNC), "to": convert, "type": convert, "astype": convert, "type_as": same,
    "float": lambda a: convert(a, "float"), "double": lambda a: convert(a, "float"),
    "half": lambda a: convert(a, "float"),
    "int": lambda a: convert(a, "int"), "long": lambda a: convert(a, "int"), "bool": lambda a: convert(a, "bool"),
    "clone": same, "contiguous": same, "detach": same, "squeeze": same, "item": same,
    "new_ones": lambda a, *_, **more: convert_number(1, {"dtype": a.dtype, **more}),
    "new_zeros": lambda a, *_, **more: convert_number(0, {"dtype": a.dtype, **more}),
    "ones_like": lambda a, **more: convert_number(1, {"dtype": a.dtype, **more}),
    "zeros_like": lambda a, **more: convert_number(0, {"dtype": a.dtype, **more}),
    "full_like": lambda a, value, **more: convert_number(value, {"dtype": a.dtype, **more}),
    "new_full": lambda a, _, value, **more: convert_number(value, {"dtype": a.dtype, **more}),
}


def convert_number(value: Any, more: "dict[str, Any]") -> Any:
    """A constant of that type, for functions that take tensors alone."""
    name = str(more.get("dtype"))
    return symbol(bool(value) if "bool" in name else int(value) if "int" in name else float(value))


def named(name: str) -> Callable:
    """torch's or numpy's function of that name, for symbols; __and__ and and_ are &."""
    method = METHODS.get(name)
    dunder = f"__{name.strip('_')}__"
    if method is None and hasattr(Symbol, dunder):
        method = getattr(Symbol, dunder)
    if method is None:
        raise refuse(f"{name} has no expression; docs/expressions.md lists what there is")
    return method


def power_of_2(a: Any) -> Any:
    return call("2**", power_of_two, a, kind="int")


def add_operators() -> None:
    def both(name: str, function: Callable) -> None:
        setattr(Symbol, f"__{name}__", lambda a, b: function(a, b))
        setattr(Symbol, f"__r{name}__", lambda a, b: function(b, a))

    for name, op in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%")):
        both(name, lambda a, b, op=op: binary(op, a, b))
    for name, op, function in (("and", "&", operator.and_), ("or", "|", operator.or_), ("xor", "^", operator.xor)):
        both(name, lambda a, b, op=op, function=function: bitwise(op, function, a, b))
    both("pow", power)
    both("lshift", lambda a, b: binary("*", a, power_of_2(b)))
    both("rshift", lambda a, b: binary("//", a, power_of_2(b)))
    for name, op in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
        setattr(Symbol, f"__{name}__", lambda a, b, op=op: binary(op, a, b))
    Symbol.__neg__ = lambda a: unary("neg", a)
    Symbol.__pos__ = lambda a: a
    Symbol.__abs__ = absolute
    Symbol.__invert__ = METHODS["invert"]


add_operators()


# ---- captured tensors ----


class Table:
    """A captured tensor: indexed by positions it is an element, indexed by numbers alone its own value."""

    def __init__(self, name: str, tensor: Any, indexes: tuple = ()):
        self.name, self.tensor, self.indexes = name, tensor, indexes
        self.sizes = extents(tensor)

    @property
    def shape(self) -> tuple:
        return self.sizes[len(self.indexes):]

    def __getitem__(self, index: Any) -> Any:
        index = tuple(map(plain, index if isinstance(index, tuple) else (index,)))
        for one in index:
            if isinstance(one, slice) or one is None or one is Ellipsis:
                raise refuse(f"a slice of {self.name} is no number; index its axes by integers")
            if kind_of(one) != "int":
                raise refuse(f"an index of {self.name} is not an integer")
        indexes = self.indexes + index
        if len(indexes) > len(self.sizes):
            raise refuse(f"{self.name} has {len(self.sizes)} axes, and {len(indexes)} indexes")
        if len(indexes) < len(self.sizes):
            return Table(self.name, self.tensor, indexes)
        if not any(isinstance(one, Symbol) for one in indexes):
            return element(self.tensor, indexes)
        return Symbol("element", (self, *map(symbol, indexes)), kind_of(element(self.tensor, [0] * len(indexes))))

    @property
    def own(self) -> Any:
        """The tensor, or its part at indexes that are numbers."""
        if any(isinstance(one, Symbol) for one in self.indexes):
            raise refuse(f"{self.name} is used with an index missing")
        return functools.reduce(operator.getitem, self.indexes, self.tensor)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.own, name)
        return self.again(value) if callable(value) else value

    def __len__(self) -> int:
        return self.shape[0]

    def again(self, function: Callable) -> Callable:
        """The function with tables as their tensors; its result is a table if it is a tensor."""
        def of(*args: Any, **more: Any) -> Any:
            if any(isinstance(arg, Symbol) for arg in args):
                raise refuse(f"{self.name} is used with an index missing")
            value = function(*map(own_of, args), **{key: own_of(arg) for key, arg in more.items()})
            return Table(self.name, value) if is_tensor(value) else value
        return of

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        return self.again(getattr(ufunc, method))(*inputs, **more)

    def __array_function__(self, func, kinds, args, more):
        return self.again(func)(*args, **more)

    @classmethod
    def __torch_function__(cls, func, kinds, args=(), kwargs=None):
        first = next((arg for arg in (*args, *(kwargs or {}).values()) if isinstance(arg, Table)), None)
        if first is None:
            raise refuse(f"{func.__name__} of lists of tensors has no expression; compute it outside of the function")
        return first.again(func)(*args, **(kwargs or {}))


def own_of(value: Any) -> Any:
    return value.own if isinstance(value, Table) else value


def add_table_operators() -> None:
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lt", "le",
                 "gt", "ge", "eq", "ne"):
        function, word = getattr(operator, name), name.strip("_")
        setattr(Table, f"__{word}__", lambda a, b, function=function: a.again(function)(a, b))
        setattr(Table, f"__r{word}__", lambda a, b, function=function: a.again(function)(b, a))
    for name in ("neg", "pos", "abs", "invert"):
        setattr(Table, f"__{name}__", lambda a, function=getattr(operator, name): a.again(function)(a))
    Table.__hash__ = object.__hash__


add_table_operators()


def extents(tensor: Any) -> tuple:
    """Shape of a tensor, an array or nested lists."""
    return tuple(tensor.shape) if hasattr(tensor, "shape") else tensors.shape_of(tensor)


def element(tensor: Any, indexes: Sequence[int]) -> Any:
    """One number of it; indexes below 0 count from the end."""
    if hasattr(tensor, "shape"):
        return tensor[tuple(indexes)].item()
    for index in indexes:
        tensor = tensor[index]
    return tensor


def is_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        try:
            tensors.shape_of(value)
        except ValueError:  # rows of several lengths: each is a tensor of its own
            return False
        return isinstance(next(iter(tensors.flat(value)), None), (bool, int, float))
    return all(hasattr(value, name) for name in ("shape", "dtype", "__getitem__")) and len(value.shape) > 0


def with_tables(function: Callable, seen: "dict[int, Any]") -> Callable:
    """The function with captured tensors as tables, also in the functions that it calls."""
    if id(function) in seen:
        return seen[id(function)]
    if isinstance(function, types.MethodType):
        return types.MethodType(with_tables(function.__func__, seen), function.__self__)
    if isinstance(function, functools.partial):
        given = [Table("captured", arg) if is_tensor(arg) else arg for arg in function.args]
        named_ones = {key: Table(key, arg) if is_tensor(arg) else arg for key, arg in function.keywords.items()}
        return functools.partial(with_tables(function.func, seen), *given, **named_ones)
    if not isinstance(function, types.FunctionType):
        call_method = getattr(type(function), "__call__", None)
        is_object = isinstance(call_method, types.FunctionType)
        return types.MethodType(with_tables(call_method, seen), function) if is_object else function

    def wrap(name: str, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            is_library = (value.__module__ or "").startswith(("torch", "numpy", "attngen"))
            return with_tables(value, seen) if value.__closure__ or not is_library else value
        if is_tensor(value):
            return Table(name, value)
        if isinstance(value, (list, tuple)):
            make = getattr(value, "_make", type(value))  # _make: of a named tuple
            return make(wrap(name, item) for item in value)
        return value

    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    names = dict(function.__globals__)
    copy = types.FunctionType(function.__code__, names, function.__name__, None, cells or None)
    seen[id(function)] = copy
    copy.__kwdefaults__ = function.__kwdefaults__ and {k: wrap(k, v) for k, v in function.__kwdefaults__.items()}
    arguments = function.__code__.co_varnames[:function.__code__.co_argcount]
    copy.__defaults__ = function.__defaults__ and tuple(
        wrap(name, value) for name, value in zip(arguments[-len(function.__defaults__):], function.__defaults__))
    for cell, own, name in zip(function.__closure__ or (), cells, function.__code__.co_freevars):
        try:
            own.cell_contents = wrap(name, cell.cell_contents)
        except ValueError:  # not assigned yet
            pass
    for name in all_names(function.__code__):
        if name in names:
            names[name] = wrap(name, names[name])
    return copy


def all_names(code: types.CodeType) -> "set[str]":
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= all_names(constant)
    return names


# ---- from the record to expressions ----


def leaves(node: Symbol) -> "list[Symbol]":
    inner = [arg for arg in node.args if isinstance(arg, Symbol)]
    return [leaf for arg in inner for leaf in leaves(arg)] if inner else [node]


def evaluate(node: Symbol, values: "dict[Any, Any]") -> Any:
    """The value of a node, given those of the nodes whose keys `values` has."""
    if node.key in values:
        return values[node.key]
    if node.op == "const":
        return node.args[0]
    if node.op == "element":
        indexes = [evaluate(arg, values) for arg in node.args[1:]]
        table = node.args[0]
        return element(table.tensor, [max(-size, min(size - 1, at)) for at, size in zip(indexes, table.sizes)])
    if node.op == "call":
        return node.args[1](*(evaluate(arg, values) for arg in node.args[2:]))
    if node.op == "where":  # the other value may be none: log(0), a quotient by zero
        return evaluate(node.args[1 if evaluate(node.args[0], values) else 2], values)
    args = [evaluate(arg, values) for arg in node.args]
    if node.op in ("min", "max"):
        return {"min": min, "max": max}[node.op](args)
    return BINARY[node.op](*args) if node.op in BINARY else UNARY[node.op](*args)


@dataclass
class Flex:
    """What from_flex found: `keys` of the spec, `weights` (tables of floats, nested lists or tensors as captured) and
    `tensors` of each call (lengths, prefix, segment, mask_bool, mask_add)."""

    keys: "dict[str, Any]" = field(default_factory=dict)
    weights: "dict[str, Any]" = field(default_factory=dict)
    tensors: "dict[str, Any]" = field(default_factory=dict)


class Writer:
    """Prints a record; `sizes` are the numbers of heads, queries and keys, `taken` what no table may be called."""

    def __init__(self, sizes: "dict[str, int]", found: Flex, taken: "set[str]"):
        self.sizes, self.found, self.taken = sizes, found, taken
        self.names: "dict[Any, str]" = {}

    # -- ranges of integers --

    def bounds(self, node: Symbol) -> "Optional[tuple[int, int]]":
        """Smallest and largest value of an integer; None if unknown."""
        if node.op in self.sizes:
            return 0, self.sizes[node.op] - 1
        if node.op == "const":
            return node.args[0], node.args[0]
        if node.op == "where":
            inner = [self.bounds(arg) for arg in node.args[1:]]
        elif node.op == "element":
            numbers = flatten(node.args[0].tensor)
            return min(numbers), max(numbers)
        else:
            inner = [self.bounds(arg) for arg in node.args if isinstance(arg, Symbol)]
        if node.kind != "int" or any(pair is None for pair in inner):
            return None
        if node.op == "where":
            return min(a for a, _ in inner), max(b for _, b in inner)
        if node.op == "neg":
            return -inner[0][1], -inner[0][0]
        if node.op == "abs":
            low, high = inner[0]
            return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        if node.op == "%" and inner[1][0] == inner[1][1] > 0:
            return 0, inner[1][0] - 1
        if node.op in ("+", "-", "*", "min", "max") or (node.op == "//" and not inner[1][0] <= 0 <= inner[1][1]):
            function = BINARY.get(node.op) or {"min": min, "max": max}[node.op]
            ends = [function(a, b) for a in inner[0] for b in inner[1]]
            return min(ends), max(ends)
        return None

    # -- tables --

    def name(self, wanted: str, key: Any, tensor: Any) -> str:
        """The name of a table, which is new or known by its key."""
        if key not in self.names:
            base = re.sub(r"\W", "_", wanted).strip("_") or "table"
            base = "table_" + base if base in self.taken or not base[0].isalpha() else base
            name = base[:48]
            for count in itertools.count(2):
                if name not in self.found.weights:
                    break
                name = f"{base[:48]}_{count}"
            self.names[key] = name
            self.found.weights[name] = as_floats(tensor)
            self.found.keys.setdefault("table", {})[name] = extents(tensor)
        return self.names[key]

    def integers(self, node: Symbol) -> "dict[Any, Symbol]":
        """The largest integer parts of a node that the language has and whose range is known: what it depends on."""
        if node.kind == "int" and node.op != "const" and not self.needs_table(node) and self.bounds(node) is not None:
            return {node.key: node}
        inner = [arg for arg in node.args if isinstance(arg, Symbol)]
        return {key: part for arg in inner for key, part in self.integers(arg).items()}

    def needs_table(self, node: Symbol) -> bool:
        """Whether some part of it is not in the language: a function, or an integer of a table that is used as one."""
        if node.op == "call" or (node.op == "element" and node.kind == "int"):
            return True
        return any(self.needs_table(arg) for arg in node.args if isinstance(arg, Symbol))

    def tabulate(self, node: Symbol, wanted: str) -> str:
        """An element of a new table of the node's values over the integers that it depends on."""
        found = list(self.integers(node).values())
        parts = [part for part in found if not any(other is not part and depends_on(part, other) for other in found)]
        ranges = [self.bounds(part) for part in parts]
        count = math.prod(high - low + 1 for low, high in ranges)
        if any(leaf.op == "s" for leaf in leaves(node)):
            raise FlexError(f"error: {wanted} of the score has no expression")
        if not parts or len(parts) > AXES or count > MOST:
            raise FlexError(f"error: {wanted} has no expression, and {count} values of {len(parts)} integers are too "
                            f"many for a table; at most {MOST} of {AXES}")
        keys = [part.key for part in parts]

        def fill(axis: int, values: "dict[Any, Any]") -> Any:
            if axis == len(parts):
                return float(evaluate(node, values))
            low, high = ranges[axis]
            return [fill(axis + 1, {**values, keys[axis]: at}) for at in range(low, high + 1)]

        known = ("table", node.key)
        values = None if known in self.names else fill(0, {})
        odd = next((value for value in tensors.flat(values or []) if not math.isfinite(value)), None)
        if odd is not None:
            raise NotFinite(f"error: {wanted} has the value {odd}, and numbers of a table are finite; hide these pairs "
                            "by mask_mod, or take another value there by where()")
        name = self.name(wanted, known, values)
        return name + "".join(f"[{self.text(part - low if low else part, 0)}]" for part, (low, _) in zip(parts, ranges))

    # -- text --

    def text(self, node: Symbol, rank: int = 0) -> str:
        """The node as an expression; in brackets if it binds less than `rank`."""
        if node.op == "const":
            value = node.args[0]
            if isinstance(value, bool):
                return "0 == 0" if value and rank < 4 else "(0 == 0)" if value else "(0 == 1)"
            text = repr(abs(value)) if abs(value) != math.inf else "1e999"
            negative = math.copysign(1, value) < 0
            return f"(-{text})" if negative and rank > RANK["neg"] else f"-{text}" if negative else text
        if node.op == "b":
            raise FlexError("error: the number of the sequence, b, has no expression; it may index lengths (kv_idx < "
                            "lengths[b]), prefixes, documents (id[b, q_idx] == id[b, kv_idx]), masks and biases of "
                            "pairs")
        if node.op in ("s", "i", "p", "j"):
            return node.op
        if node.op == "element":
            return self.element_text(node, rank)
        if node.op == "call":
            return self.tabulate(node, "table_of_" + re.sub(r"\W", "", node.args[0]))
        if node.op in ("//", "%") and any(map(self.needs_table, node.args)): # of integers, and tables have floats
            return self.tabulate(node, "quotients" if node.op == "//" else "remainders")
        if node.op == "where":
            return self.where_text(node)
        if node.op in ("min", "max", "abs", "exp", "tanh", "sqrt", "log", "floor"):
            return f"{node.op}({', '.join(self.text(arg) for arg in node.args)})"
        own = RANK[node.op]
        if node.op in ("neg", "not"):
            text = ("-" if node.op == "neg" else "not ") + self.text(node.args[0], own + (node.op == "neg"))
        else:
            first = own + 1 if node.op in COMPARISONS else own
            text = f"{self.text(node.args[0], first)} {node.op} {self.text(node.args[1], own + 1)}"
        return f"({text})" if own < rank else text

    def where_text(self, node: Symbol) -> str:
        """Where one of both values is finite where it is taken alone, both are one table."""
        kept = dict(self.names), dict(self.found.weights), dict(self.found.keys.get("table", {}))
        try:
            return f"where({', '.join(self.text(arg) for arg in node.args)})"
        except NotFinite:
            if any(leaf.op == "s" for leaf in leaves(node)):
                raise
            self.names, self.found.weights, tables = kept
            self.found.keys.pop("table", None)
            self.found.keys.update({"table": tables} if tables else {})
            return self.tabulate(node, "table_of_where")

    def element_text(self, node: Symbol, rank: int) -> str:
        table, indexes = node.args[0], node.args[1:]
        bounds = [self.bounds(index) for index in indexes]
        if any(self.needs_table(index) for index in indexes) or len(indexes) > AXES:
            text = self.tabulate(node, table.name)
        else:
            places = []
            for index, pair, size in zip(indexes, bounds, table.sizes):
                if pair is not None and (pair[0] < -size or pair[1] >= size):
                    self.refuse_outside(index, table, size)
                may_wrap = pair is None or pair[0] < 0
                places.append(self.text(where(index < 0, index + size, index) if may_wrap else index))
            text = self.name(table.name, ("captured", id(table.tensor)), table.tensor)
            text += "".join(f"[{place}]" for place in places)
        if node.kind != "bool":
            return text
        return f"({text} != 0.0)" if rank >= RANK["!="] else f"{text} != 0.0"

    def refuse_outside(self, index: Symbol, table: Table, size: int) -> None:
        """Refuses an index that some positions put outside of the axis; what bounds() says may be too wide."""
        names = sorted({leaf.op for leaf in leaves(index)} & set(self.sizes))
        if math.prod(self.sizes[name] for name in names) > MOST:
            return
        keys = [Symbol(name, (), "int").key for name in names]
        for values in itertools.product(*(range(self.sizes[name]) for name in names)):
            at = evaluate(index, dict(zip(keys, values)))
            if not -size <= at < size:
                where_at = ", ".join(f"{WORDS[name]} = {value}" for name, value in zip(names, values))
                raise FlexError(f"error: {table.name} of shape {list(table.sizes)} is indexed by {at}, at {where_at}")

    # -- what has keys of its own --

    def is_element(self, node: Symbol, *indexes: str) -> bool:
        """Whether it is an element of a tensor at just these indexes."""
        return node.op == "element" and [arg.op for arg in node.args[1:]] == list(indexes)

    def tensor_of(self, name: str, tensor: Any) -> bool:
        """Takes the tensor as one of a call, unless another has its place."""
        known = self.found.tensors.setdefault(name, tensor)
        return known is tensor

    def below(self, node: Symbol) -> "Optional[Any]":
        """Of j < T[b] the tensor T."""
        if node.op == ">":
            node = Symbol("<", node.args[::-1], "bool")
        if node.op == "<" and node.args[0].op == "j" and self.is_element(node.args[1], "b"):
            return node.args[1].args[0].tensor
        return None

    def mask_of(self, node: Symbol) -> "Optional[str]":
        """The mask that a condition is, if its tensor comes with each call."""
        lengths = self.below(node)
        if lengths is not None:
            return "padding" if self.tensor_of("lengths", lengths) else None
        if node.op == "or":
            for causal, other in (node.args, node.args[::-1]):
                prefix = self.below(other)
                is_causal = causal.op in ("<=", ">=") and tuple(arg.op for arg in causal.args) == \
                (("p", "j") if causal.op == ">=" else ("j", "p"))
                if is_causal and prefix is not None and self.tensor_of("prefix", prefix):
                    return "causal+prefix"
        if node.op == "==" and node.args[0].op == node.args[1].op == "element":
            a, b = sorted(node.args, key=lambda arg: arg.args[-1].op, reverse=True)
            for places in (("b", "p"), ("b", "j")), (("p",), ("j",)):
                if a.args[0].tensor is b.args[0].tensor and self.is_element(a, *places[0]) and \
                        self.is_element(b, *places[1]) and a.kind == "int" and self.sizes["p"] == self.sizes["j"]:
                    return "segments" if self.tensor_of("segment", a.args[0].tensor) else None
        if node.kind == "bool" and (self.is_element(node, "b", "i", "p", "j")):
            return "bool" if self.tensor_of("mask_bool", node.args[0].tensor) else None
        return None


def as_taken(name: str, tensor: Any) -> Any:
    """A tensor of a call in the type that the layer takes: i32, f32, conditions as they are."""
    if name == "mask_add":
        return as_floats(tensor)
    if name == "mask_bool" or isinstance(tensor, (list, tuple)):
        return tensor
    return tensor.astype("int32") if hasattr(tensor, "astype") else tensor.int() if hasattr(tensor, "int") else tensor


def random_states() -> "list[Any]":
    """Those of the generators that a function may draw from."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return [random.getstate(), torch.get_rng_state().tolist() if torch is not None else None,
            [part.tolist() if hasattr(part, "tolist") else part for part in numpy.random.get_state()]
            if numpy is not None else None]


def as_floats(tensor: Any) -> Any:
    """The same numbers as f32, or as Python's floats."""
    if isinstance(tensor, (list, tuple)):
        return [as_floats(item) for item in tensor]
    return tensor.astype("float32") if hasattr(tensor, "astype") else tensor.float() if hasattr(tensor, "float") else \
        float(tensor)


def flatten(tensor: Any) -> "list[Any]":
    return tensors.flat(tensor.tolist() if hasattr(tensor, "tolist") else tensor)


def depends_on(node: Symbol, part: Symbol) -> bool:
    """Whether the node is known where the part is."""
    if node.key == part.key or node.op == "const":
        return True
    inner = [arg for arg in node.args if isinstance(arg, Symbol)]
    return bool(inner) and all(depends_on(arg, part) for arg in inner)


def conjuncts(node: Symbol) -> "list[Symbol]":
    return [part for arg in node.args for part in conjuncts(arg)] if node.op == "and" else [node]


def trace(score_mod: Optional[Callable], mask_mod: Optional[Callable], h: int, seq_len: int,
          source_len: Optional[int] = None, taken: "set[str]" = TAKEN) -> Flex:
    """The keys, tables and tensors of the functions, for that many heads, queries and keys; tables are called
    otherwise than `taken`."""
    found = Flex()
    writer = Writer({"i": h, "p": seq_len, "j": source_len or seq_len}, found, taken)
    s, b, i, p, j = (Symbol(name, (), "float" if name == "s" else "int") for name in "sbipj")
    seen: "dict[int, Any]" = {}

    def placed(function: Callable, error: Any) -> FlexError:
        """The error with the function's first line, unless it has a line."""
        inner = getattr(function, "func", getattr(function, "__func__", function))  # of a partial, a method, an object
        code = getattr(inner, "__code__", None) or getattr(getattr(inner, "__call__", None), "__code__", None)
        place = f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
        return FlexError(place + str(error) if str(error).startswith("error") else str(error))

    def run(function: Callable, *args: Symbol) -> Symbol:
        before = random_states()
        try:
            value = with_tables(function, seen)(*args)
            node = symbol(number(value) if len(args) == 5 else value)
        except FlexError as error:
            raise placed(function, error) from None
        if random_states() != before:
            raise placed(function, "error: a random number is drawn once, while it is traced; draw it outside, as a "
                                   "tensor")
        return node

    def write(function: Callable, node: Symbol) -> str:
        try:
            return writer.text(node)
        except FlexError as error:
            raise placed(function, error) from None

    if mask_mod is not None:
        node = run(mask_mod, b, i, p, j)
        if node.kind != "bool":
            raise placed(mask_mod, "error: mask_mod returns a number; a mask is a condition")
        masks, rest = [], []
        for part in conjuncts(node):
            mask = writer.mask_of(part)
            (masks if mask else rest).append(mask or part)
        if masks:
            found.keys["mask"] = "+".join(dict.fromkeys("+".join(masks).split("+")))
        rest = [part for part in rest if not (part.op == "const" and part.args[0] is True)]
        if rest:
            whole_mask = rest[0]
            for part in rest[1:]:
                whole_mask = Symbol("and", (whole_mask, part), "bool")
            found.keys["visible"] = write(mask_mod, whole_mask)
    if score_mod is not None:
        node = run(score_mod, s, b, i, p, j)
        if node.op == "+" and node.args[0].op == "s" and writer.is_element(node.args[1], "b", "i", "p", "j"):
            found.tensors["mask_add"] = node.args[1].args[0].tensor
            found.keys["mask"] = "+".join(filter(None, [found.keys.get("mask"), "additive"]))
        elif node.op != "s":
            found.keys["score"] = write(score_mod, node)
    found.tensors = {name: as_taken(name, tensor) for name, tensor in found.tensors.items()}
    return found


class FlexLayer(Layer):
    """A layer of FlexAttention's functions; `flex` has what was found in them."""

    flex: Flex

    def with_keys(self, **keys: Any) -> "FlexLayer":
        other = super().with_keys(**keys)
        other.__class__, other.flex = FlexLayer, self.flex
        return other


def joined(found: Flex, keys: "dict[str, Any]") -> "dict[str, Any]":
    """The keys found and those given; what both have is joined, or refused."""
    both = {**found.keys, **keys}
    for name in found.keys.keys() & keys.keys():
        ours, given = found.keys[name], keys[name]
        if name == "mask":
            both[name] = f"{given}+{ours}"
        elif name == "visible":
            both[name] = f"({given}) and ({ours})"
        elif name == "table" and not given.keys() & ours.keys():
            both[name] = {**given, **ours}
        else:
            raise FlexError(f"error: {name} is given, and follows from the function too; leave one of them out")
    return both


def from_flex(score_mod: Optional[Callable] = None, mask_mod: Optional[Callable] = None, *, h: int, seq_len: int,
              **keys: Any) -> FlexLayer:
    """A layer whose scores and mask are FlexAttention's functions.

    score_mod(score, b, h, q_idx, kv_idx) returns the score, mask_mod(b, h, q_idx, kv_idx) whether q_idx sees kv_idx.
    With d_k and without d_model the layer takes q [batch][h][n][d_k], k [batch][h_kv][m][d_k], v [batch][h_kv][m][d_v],
    as flex_attention does. `layer.flex` has what was found: keys, weights (the tables) and tensors of each call.
    """
    if "d_model" not in keys:
        keys = {"input": "projected", "heads": "first", "w_o": "none", **keys}
    taken = set(TAKEN)
    while True:
        found = trace(score_mod, mask_mod, h, seq_len, keys.get("source_len"), taken)
        if "segment" in found.tensors and (keys.get("input") == "projected" or keys.get("attention") == "cross"):
            found.tensors["segment_q"] = found.tensors["segment_k"] = found.tensors.pop("segment")
        try:
            layer = FlexLayer(h=h, seq_len=seq_len, **joined(found, keys))
        except SpecError as error:
            clash = re.search(r"the name of table\.(\w+) is another tensor's name", str(error))
            if clash is None or clash.group(1) in taken or clash.group(1) not in found.weights:
                raise
            taken.add(clash.group(1))
            continue
        layer.flex = found
        return layer
