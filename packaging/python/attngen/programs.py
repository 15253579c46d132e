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
    if given:
        return str(Path(given).resolve()) if os.sep in given else given  # programs run in folders of their own
    found = str(packed) if packed.exists() else shutil.which(program)
    if found is None:
        raise MachineError(f"{program} is not here; install a wheel of attngen, or name it in {program.upper()}")
    return found


def compiler() -> Optional[str]:
    """The C compiler as $CC has it, words separated by blanks: $CC, cc, gcc, clang, or zig of the package ziglang."""
    if os.environ.get("CC", "").strip():
        return os.environ["CC"]
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return name
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        return None
    # without the flag zig would compile the scalar code for this processor alone; blanks separate words
    zig = Path(package.origin).with_name("zig")
    command = str(zig) if zig.exists() and not set(str(zig)) & set(" \t\n") else f"{sys.executable} -m ziglang"
    return f"{command} cc -mcpu=baseline"


def environment() -> "dict[str, str]":
    """The environment of the programs: this one, and what tells of the compiler and of both programs."""
    variables = dict(os.environ)
    words = compiler()
    if words is not None:
        variables["CC"] = words
    variables["ATTNGEN"], variables["ATTNRUN"] = path_of("attngen"), path_of("attnrun")
    return variables


def raise_for(code: int, message: str) -> None:
    """Raises the exception of an exit code other than 0."""
    if code != 0:
        raise ERRORS.get(code, Error)(message.strip() or f"ended with exit code {code}")


def run(program: str, words: Sequence[str], folder: Optional[str] = None) -> str:
    """Runs a program, by default in this folder, and returns what it printed; raises its message."""
    result = subprocess.run([path_of(program), *words], env=environment(), cwd=folder, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    raise_for(result.returncode, result.stderr or result.stdout)
    return result.stdout


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
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(value_text(item) for item in value)
    return repr(float(value)) if isinstance(value, float) else str(value)


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
        option = "--" + name.replace("_", "-")
        if value is True:
            yield option
        elif value is not None and value is not False:
            separator = "," if isinstance(value, (list, tuple)) else ""
            yield f"{option}={separator.join(map(value_text, value)) if separator else value_text(value)}"
