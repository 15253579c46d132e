#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Draws expressions and what Python makes of them, for tests/unit/test_expression.c: tests/unit/expressions.txt.
#
#   tests/unit/expressions.py [COUNT [SEED]] >tests/unit/expressions.txt
#
# A line "score TEXT" or "visible TEXT", then four of "i p j s value". Two tables: flat [5], square [3][4], of small numbers,
# flat[a] = a - 2.5, square[a][b] = (4 a - b) / 8.
import math
import random
import sys

FLAT, SQUARE = 5, (3, 4)


class Flat:
    def __getitem__(self, at):
        return min(max(at, 0), FLAT - 1) - 2.5


class Row:
    def __init__(self, row):
        self.row = min(max(row, 0), SQUARE[0] - 1)

    def __getitem__(self, at):
        return (4 * self.row - min(max(at, 0), SQUARE[1] - 1)) / 8


class Square:
    def __getitem__(self, at):
        return Row(at)


def where(c, a, b):
    return a if c else b


NAMES = dict(min=min, max=max, abs=abs, exp=math.exp, tanh=math.tanh, sqrt=math.sqrt, where=where,
             log=math.log, floor=math.floor, sigmoid=lambda a: 1 / (1 + math.exp(-a)), flat=Flat(),
             square=Square(), __builtins__={})


def spaced(random, text):
    return random.choice(["", " "]) + text + random.choice(["", " "])


def integer(r, depth, score):
    if depth == 0 or r.random() < 0.15:
        return r.choice(["i", "p", "j", "p", "j", str(r.randrange(1, 9)), "0", "100"])
    kind = r.randrange(9)
    a, b = (lambda: integer(r, depth - 1, score)), (lambda: integer(r, depth - 1, score))
    if kind < 4:
        return f"{a()}{spaced(r, r.choice('+-*'))}{b()}"
    if kind == 4:
        return f"{a()} // {r.choice(['', '-'])}{r.randrange(1, 9)}"
    if kind == 5:
        return f"{a()} % {r.choice(['', '-'])}{r.randrange(1, 9)}"
    if kind == 6:
        return f"({a()})" if r.random() < 0.7 else f"-{b()}"
    if kind == 7:
        return r.choice([f"min({a()}, {b()})", f"max({a()},{b()})", f"abs({a()})", f"-({a()})"])
    return f"where({condition(r, depth - 1, score)}, {a()}, {b()})"


def number(r, depth, score):
    if depth == 0 or r.random() < 0.15:
        return r.choice((["s"] * 3 if score else []) + ["0.5", "1e-2", ".25", "2.", "3.5E+1", "1.5"])
    kind = r.randrange(12)
    a, b = (lambda: number(r, depth - 1, score)), (lambda: number(r, depth - 1, score))
    if kind < 4:
        return f"{a()} {r.choice('+-*')} {b()}"
    if kind == 4:
        return f"{a()} / {r.choice(['4', '0.3', '(1 + abs(' + b() + '))'])}"
    if kind == 5:
        return f"tanh({a()})"
    if kind == 6:
        return r.choice([f"exp(-abs({a()}))", f"sqrt(abs({a()}))", f"-({a()})", f"abs({a()})",
                         f"log(0.5 + abs({a()}))", f"floor({a()})", f"sigmoid({a()})",
                         f"floor(({integer(r, depth - 1, score)}) / {r.choice(['3', '7.', '-4'])})"])
    if kind == 7:
        return f"min({a()}, {b()})" if r.random() < 0.5 else f"max({a()}, {integer(r, depth - 1, score)})"
    if kind == 8:
        return f"where({condition(r, depth - 1, score)}, {a()}, {b()})"
    if kind == 9:
        return f"({integer(r, depth - 1, score)}) * {a()}" if r.random() < 0.5 else f"({integer(r, depth - 1, score)}) / 8"
    if kind == 10:
        return f"flat[{integer(r, depth - 1, score)}]"
    return f"square[{integer(r, depth - 1, score)}][{integer(r, depth - 1, score)}]"


def condition(r, depth, score):
    sign = r.choice(["<", "<=", ">", ">=", "==", "!="])
    if depth <= 1 or r.random() < 0.3:
        if r.random() < 0.75:
            return f"{integer(r, max(depth - 1, 0), score)} {sign} {integer(r, max(depth - 1, 0), score)}"
        return f"{number(r, max(depth - 1, 0), score)} {sign} {number(r, max(depth - 1, 0), score)}"
    kind = r.randrange(5)
    a, b = (lambda: condition(r, depth - 1, score)), (lambda: condition(r, depth - 1, score))
    if kind < 2:
        return f"{a()} {r.choice(['and', 'or'])} {b()}"
    if kind == 2:
        return f"not {a()}"
    if kind == 3:
        return f"({a()})"
    return f"({a()}) {r.choice(['==', '!='])} ({b()})"


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    r = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    while count > 0:
        score = r.random() < 0.5
        depth = r.randrange(1, 6)
        text = number(r, depth, True) if score else condition(r, depth, False)
        if len(text) > 180:
            continue
        lines = []
        try:
            for _ in range(4):
                i, p, j, s = r.randrange(6), r.randrange(-3, 40), r.randrange(40), r.uniform(-4, 4)
                value = eval(text, NAMES, dict(i=i, p=p, j=j, s=s))
                if not math.isfinite(value):
                    raise OverflowError
                lines.append(f"{i} {p} {j} {s!r} {float(value)!r}")
        except (OverflowError, SyntaxError):
            continue
        print("score" if score else "visible", text)
        print("\n".join(lines))
        count -= 1


main()
