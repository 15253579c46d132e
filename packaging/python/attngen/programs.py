# SPDX-License-Identifier: MIT
"""The programs attngen and attnrun: where they are, how their options and specs are spelled, how they are run, and what
becomes of their exit codes.

The programs lie in the package's folder bin, or where $ATTNGEN and $ATTNRUN say. A machine without a C compiler uses
zig, if the package ziglang is installed: `pip install attngen[compiler]`.

Left out on purpose: rules of specs and options. The programs refuse what is wrong; their message is the exception's.
"""
from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple


class Error(Exception):
    """A program's message. Each subclass is one of its exit codes (docs/programs.md)."""


class CheckError(Error):
    """Exit code 1: a check failed."""


class SpecError(Error, ValueError):
    """Exit code 2: the spec or an option is wrong; the message names the line and what would be right."""


class MachineError(Error, OSError):
    """Exit code 3: it cannot be done here: no compiler, no memory, an unreadable file, no such instruction set."""


ERRORS = {1: CheckError, 2: SpecError, 3: MachineError}


def path_of(program: str) -> str:
    """The path of the program "attngen" or "attnrun"."""
    given = os.environ.get(program.upper())
    packed = Path(__file__).parent / "bin" / program
    found = shutil.which(given or program) if given or not packed.exists() else str(packed)
    if found is None:
        raise MachineError(f"{given or program} is not here; install a wheel of attngen, or name {program} in "
                           f"{program.upper()}")
    return os.path.abspath(found)  # programs run in folders of their own


def find_compiler() -> "Tuple[Optional[str], str]":
    """The C compiler as $CC has it, words separated by blanks: $CC, cc, gcc, clang, or zig of the package ziglang; and
    the folder that PATH needs for it, whose name may have blanks."""
    if os.environ.get("CC", "").strip():
        return os.environ["CC"], ""
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return name, ""
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        return None, ""
    zig, python = Path(package.origin).with_name("zig"), Path(sys.executable)
    folder, words = (zig.parent, "zig") if zig.exists() else (python.parent, f"{python.name} -m ziglang")
    # without the flag zig would compile the scalar code for this processor alone
    return f"{words} cc -mcpu=baseline", str(folder)


def compiler() -> str:
    """The words of find_compiler(); raises MachineError if there is none."""
    words = find_compiler()[0]
    if words is None:
        raise MachineError("there is no C compiler; set CC, or pip install attngen[compiler], which installs zig")
    return words


def environment() -> "dict[str, str]":
    """The environment of the programs: this one, and what tells of the compiler and of both programs."""
    variables = dict(os.environ)
    words, folder = find_compiler()
    if words is not None:
        variables["CC"] = words
    if folder:
        variables["PATH"] = os.pathsep.join([folder, variables.get("PATH", os.defpath)])
    variables["ATTNGEN"], variables["ATTNRUN"] = path_of("attngen"), path_of("attnrun")
    return variables


def raise_for(code: int, message: str) -> None:
    """Raises the exception of an exit code other than 0."""
    if code != 0:
        raise ERRORS.get(code, Error)(message.strip() or f"ended with exit code {code}")


def run(program: str, words: Sequence[str], folder: Optional[str] = None) -> str:
    """Runs a program, by default in this folder, and returns what it printed; raises its message."""
    result = subprocess.run(**process(program, words), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    raise_for(result.returncode, result.stderr or result.stdout)
    return str(result.stdout)


def process(program: str, words: Sequence[str]) -> "dict[str, Any]":
    """What subprocess needs to run a program."""
    if program == "attnrun":
        compiler()
    for word in words:
        if "\0" in word:
            raise SpecError(f"{word!r} has a character NUL")
    return {"args": [path_of(program), *words], "env": environment(), "stdin": subprocess.DEVNULL, "text": True,
            "encoding": "utf-8", "errors": "replace"}


def become(program: str) -> None:
    """Runs the program in place of this one, with the same arguments."""
    try:
        path, variables = path_of(program), environment()
        os.execve(path, [program, *sys.argv[1:]], variables)
    except OSError as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        sys.exit(3)


def attngen() -> None:
    """The command attngen."""
    become("attngen")


def attnrun() -> None:
    """The command attnrun."""
    become("attnrun")


def value_text(value: Any) -> str:
    """A value as a spec has it: True as true, a sequence of sizes as 2, 8, None as none."""
    value = plain(value)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(value_text(item) for item in value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def plain(value: Any) -> Any:
    """Python's number or list of what numpy and torch have for it."""
    return value.tolist() if hasattr(value, "tolist") else value


def spec_lines(keys: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """Keys and values of a spec; table and plan are mappings, whose names follow a point: table.slope."""
    for key, value in keys.items():
        if isinstance(value, Mapping):
            for name, inner in value.items():
                yield f"{key}.{name}", value_text(inner)
        else:
            yield key, value_text(value)


def option_words(options: Mapping[str, Any]) -> Iterator[str]:
    """Options of a program: rounds=3 is --rounds 3, True is the option alone, False and None are nothing."""
    for name, value in options.items():
        option, value = "--" + name.replace("_", "-"), plain(value)
        if value is True:
            yield option
        elif value is not None and value is not False:
            separator = "," if isinstance(value, (list, tuple)) else ""
            yield f"{option}={separator.join(map(value_text, value)) if separator else value_text(value)}"
