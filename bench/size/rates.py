#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fits the bytes of code that gen/isa.c states for each instruction set: struct isa_code.

    bench/size/rates.py ATTNGEN COMPILER… -- SPEC…      rates.py build/attngen gcc clang -- examples/*.layer

Emits each spec, fast and small, compiles it with each COMPILER -O2, and counts in each instruction set's section what
context.lua's code_bytes() counts. Prints, for each set and compiler, the rates that keep the largest relative error least
(by reweighted least squares, none below 0), and that error. Left out on purpose: instruction sets that the compilers
here do not make.
"""
import os
import re
import subprocess
import sys
import tempfile

COUNTED = [
    lambda text: len(re.findall(r"for \(", text)),
    lambda text: len(re.findall(r"transpose[A-Za-z0-9_]*\(", text)),
    lambda text: text.count(";") + sum(int(vecs) for vecs in re.findall(r"vec_row_(\d)", text)),
]


def measure(attngen, compilers, specs):
    """(isa, compiler) → [(counts, bytes, what)]"""
    rows = {}
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        for spec in specs:
            for size in "fast", "small":
                name = os.path.splitext(os.path.basename(spec))[0]
                subprocess.run([attngen, "--size", size, "-o", folder, spec], check=True)
                with open(f"{folder}/{name}.c") as file:
                    parts = re.split(r"^/\* ==== (\w+) ==== \*/$", file.read(), flags=re.M)
                text = dict(zip(parts[1::2], parts[2::2]))
                for compiler in compilers:
                    command = [compiler, "-O2", "-std=c11", "-c", "-o", f"{folder}/o", f"{folder}/{name}.c"]
                    subprocess.run(command, check=True)
                    listing = subprocess.run([f"{here}/bytes.sh", f"{folder}/o"], check=True, capture_output=True, text=True)
                    for line in listing.stdout.splitlines():
                        isa, size_there = line.split()
                        if isa in text:
                            counts = [count(text[isa]) for count in COUNTED]
                            rows.setdefault((isa, compiler), []).append((counts, int(size_there), f"{name}, {size}"))
    return rows


def least_squares(rows, weights, columns):
    """Rates for those columns that keep Σ (weight (predicted / measured - 1))² least."""
    n = len(columns)
    m = [[0.0] * (n + 1) for _ in columns]
    for (counts, measured, _), weight in zip(rows, weights):
        row = [weight * counts[c] / measured for c in columns] + [weight]
        for i in range(n):
            for j in range(n + 1):
                m[i][j] += row[i] * row[j]
    for i in range(n):
        for k in range(n):
            if k != i:
                factor = m[k][i] / m[i][i]
                m[k] = [a - factor * b for a, b in zip(m[k], m[i])]
    return [m[i][n] / m[i][i] for i in range(n)]


def not_negative(rows, weights):
    columns = list(range(len(COUNTED)))
    while True:
        rates = least_squares(rows, weights, columns)
        if min(rates) >= 0:
            return [rates[columns.index(c)] if c in columns else 0.0 for c in range(len(COUNTED))]
        columns.pop(rates.index(min(rates)))


def fit(rows):
    best, weights = None, [1.0] * len(rows)
    for _ in range(200):
        rates = not_negative(rows, weights)
        errors = [sum(r * c for r, c in zip(rates, counts)) / measured - 1 for counts, measured, _ in rows]
        worst = max(range(len(rows)), key=lambda i: abs(errors[i]))
        if best is None or abs(errors[worst]) < abs(best[1]):
            best = rates, errors[worst], rows[worst][2]
        weights = [w * (1 + 3 * abs(e)) for w, e in zip(weights, errors)]
        mean = sum(weights) / len(weights)
        weights = [w / mean for w in weights]
    return best


def main():
    split = sys.argv.index("--") if "--" in sys.argv else 0
    if split < 3 or split + 1 == len(sys.argv):
        sys.exit(__doc__)
    for (isa, compiler), rows in sorted(measure(sys.argv[1], sys.argv[2:split], sys.argv[split + 1:]).items()):
        rates, error, where = fit(rows)
        print(f"{isa:8} {compiler:8} {{{rates[0]:.1f}, {rates[1]:.0f}, {rates[2]:.1f}}}  {100 * error:+.0f} % at most ({where})")


if __name__ == "__main__":
    main()
