#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""As many heads as fit: sweeps the head counts of a layer, takes the largest one whose call is within a budget of time,
emits that layer, builds a program with it and runs it. The standard library only.

    autotune.py 256 1000                     d_model 256, 1000 microseconds a call
    autotune.py 256 1000 --choose widest     the widest heads that fit, so the fewest

Exit codes: 0 done, 1 nothing fits (the fastest is named), 2 wrong usage or spec, 3 the environment failed.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Stop(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def positive(kind):
    def convert(text):
        value = kind(text)
        if not 0 < value < float("inf"):
            raise ValueError
        return value
    convert.__name__ = f"{kind.__name__} above 0"
    return convert


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("d_model", type=positive(int))
    parser.add_argument("microseconds", type=positive(float), help="the budget of one call, of its median")
    parser.add_argument("--folder", type=pathlib.Path, help="where everything goes; ./autotune-D_MODEL if not given")
    parser.add_argument("--spec", type=pathlib.Path, default=HERE / "chosen.layer", help="the layer to start from")
    parser.add_argument("--heads", type=lambda text: [int(h) for h in text.split(",")],
                        help="the counts to try, 1,2,4; all that make heads at least 8 wide if not given")
    parser.add_argument("--choose", choices=["most", "widest"], default="most", help="the most heads, or the widest")
    parser.add_argument("--sweep", type=shlex.split, default=[], metavar="OPTIONS", help="more options for the sweep")
    parser.add_argument("--attngen", default=os.environ.get("ATTNGEN", "attngen"))
    parser.add_argument("--attnrun", default=os.environ.get("ATTNRUN", "attnrun"))
    chosen = parser.parse_args()
    chosen.folder = chosen.folder or pathlib.Path(f"autotune-{chosen.d_model}")
    chosen.heads = chosen.heads or [h for h in range(1, chosen.d_model + 1)
                                    if chosen.d_model % h == 0 and (h == 1 or chosen.d_model // h >= 8)]
    return chosen


def run(*command):
    """The exit status; a program that is not there is an error of the environment."""
    sys.stdout.flush()
    try:
        return subprocess.run([str(word) for word in command], check=False).returncode
    except OSError as error:
        raise Stop(3, f"{command[0]} cannot be started: {error.strerror}") from None


def sweep(want):
    """The good points: a list of (h, microseconds). One that fails is a line that says so, and status 1."""
    lines = want.folder / "sweep.jsonl"
    want.folder.mkdir(parents=True, exist_ok=True)
    lines.unlink(missing_ok=True)
    status = run(want.attnrun, "sweep", want.spec, "--set", f"d_model={want.d_model}",
                 "--vary", "h=" + ",".join(map(str, want.heads)), "--json", lines, *want.sweep)
    if status not in (0, 1):
        raise Stop(status if status in (2, 3) else 3, f"the sweep ended with status {status}")
    points = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    good = sorted((point for point in points if point["status"] == "ok"), key=lambda point: point["h"])
    disturbed = ", ".join(str(point["h"]) for point in good if point.get("disturbed"))
    if disturbed:
        print(f"autotune: warning: the machine was disturbed while h = {disturbed} was timed; on a quiet one more may fit",
              file=sys.stderr)
    return [(point["h"], point["us"]) for point in good]


def choose(want, points):
    if not points:
        raise Stop(1, "no point of the sweep is good; its table says why")
    fitting = [point for point in points if point[1] <= want.microseconds]
    if not fitting:
        h, us = min(points, key=lambda point: point[1])
        raise Stop(1, f"nothing fits in {want.microseconds:g} µs; the fastest is h = {h} with {us:g} µs")
    return fitting[-1] if want.choose == "most" else fitting[0]


def build(want, h):
    """Emits the layer and builds main.c with it; the program."""
    program, source = want.folder / "chosen", want.folder / "chosen.c"
    status = run(want.attngen, "--set", "name=chosen", "--set", f"d_model={want.d_model}", "--set", f"h={h}",
                 "-o", want.folder, want.spec)
    if status:
        raise Stop(status if status in (2, 3) else 3, f"attngen ended with status {status}")
    flags = shlex.split(os.environ["CC"]) + ["-std=c11", "-O2"] + shlex.split(os.environ.get("CFLAGS", ""))
    if run(*flags, f"-I{want.folder}", "-o", program, HERE / "main.c", source):
        raise Stop(3, "the program could not be built")
    return program


def main():
    os.environ.setdefault("CC", "cc")
    want = arguments()
    h, us = choose(want, sweep(want))
    print(f"autotune: h = {h} takes {us:g} µs, within {want.microseconds:g} µs")
    program = build(want, h)
    print(f"autotune: {program}.c and {program}.h; the program is {program}")
    if run(program.resolve()):
        raise Stop(3, f"{program} failed")


if __name__ == "__main__":
    try:
        main()
    except Stop as stop:
        print(f"autotune: error: {stop}", file=sys.stderr)
        sys.exit(stop.status)
    except OSError as error:
        print(f"autotune: error: {error}", file=sys.stderr)
        sys.exit(3)
