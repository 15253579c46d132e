#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Latency beside quality: a row for each layer that run.py trained, and which of them no other beats in both.

    front.py [--out DIR] [--results DIR] [--tasks sort,text] [--kinds narrow,wide] [--heads 1,4] [--isa avx2]
             [--batch B] [--seconds S]

attnrun roof times each layer, and finds the least that this core could take for it. Losses are those of results.jsonl
in the other DIR, by default what lies beside this program. The table goes to the standard output, DIR/front.jsonl has its rows, DIR/front.svg is the
picture. ATTNRUN, ATTNGEN and CC are read from the environment.
"""
import argparse
import json
import os
import pathlib

import run

COLUMNS = ("task", "kind", "h", "d_model", "d_k", "parameters", "us", "roof_us", "share", "loss", "low", "high", "front")
HEADINGS = ("task", "kind", "heads", "d_model", "d_k", "parameters", "µs", "roof µs", "share", "loss", "lowest",
            "highest", "front")
TEXTS = {"us": "{:.2f}", "roof_us": "{:.2f}", "share": "{:.0%}", "parameters": "{:,}", "loss": "{:.4f}",
         "low": "{:.4f}", "high": "{:.4f}"}


def timed(out, sizes, options):
    """What attnrun roof tells of a layer without training; `sizes`: kind, heads, d_model, d_k."""
    spec = out / ("-".join(map(str, sizes)) + ".layer")
    spec.write_text(run.spec_text(*sizes))
    said = run.programs.run([os.environ.get("ATTNRUN", "attnrun"), "roof", "--json", *options, spec])
    return next(row for row in map(json.loads, said.splitlines()) if row["step"] == "layer")


def mark_front(rows):
    """A row is of the front where no other of its task has both fewer µs and a lower mean loss."""
    for row in rows:
        row["front"] = not any(other["us"] <= row["us"] and other["loss"] <= row["loss"] and
                               (other["us"], other["loss"]) != (row["us"], row["loss"])
                               for other in rows if other["task"] == row["task"])


def rows_of(out, groups, options):
    rows, found = [], {}
    for group in {group.sizes: group for group in groups}.values():  # a cell of two budgets is one row
        sizes = group.sizes[1:]
        if sizes not in found:
            run.say(f"attnrun roof: {', '.join(map(str, sizes))}")
            found[sizes] = timed(out, sizes, options)
        rows.append({**dict(zip(COLUMNS, group.sizes)), "parameters": run.parameters(*group.sizes),
                     **{key: found[sizes].get(key) for key in ("us", "roof_us", "share", "held_by", "isa")},
                     "loss": group.mean, "low": group.low, "high": group.high, "seeds": len(group.rows)})
    run.say("")
    mark_front(rows)
    return sorted(rows, key=lambda row: (tuple(run.WORDS).index(row["task"]), row["us"]))


def table(rows):
    text = lambda row, key: ("*" if row[key] else "") if key == "front" else \
        "" if row[key] is None else TEXTS.get(key, "{}").format(row[key])
    lines = [HEADINGS, *([text(row, key) for key in COLUMNS] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def panel(rows, x):
    """Of a task: µs to the right, mean losses upwards with the range of the seeds; a line joins the front."""
    width, left, bottom = 420, x + 52, 262
    at_x, xs = run.axis([row["us"] for row in rows], left, x + width - 70)
    at_y, ys = run.axis([row[key] for row in rows for key in ("low", "high")], bottom, 24)
    parts = [f'<text x="{left}" y="14" font-weight="bold">{rows[0]["task"]}: loss</text>']
    parts += [f'<path class="grid" d="M{tick:.1f} 24V{bottom}"/>' + run.label(tick, bottom + 14, "middle", text)
              for tick, text in xs]
    parts += [f'<path class="grid" d="M{left} {tick:.1f}H{x + width - 12}"/>' +
              run.label(left - 4, tick + 4, "end", text) for tick, text in ys]
    steps = [f"{at_x(row['us']):.1f} {at_y(row['loss']):.1f}" for row in rows if row["front"]]
    stairs = "M" + "".join(step if i == 0 else f"H{step.split()[0]}V{step.split()[1]}" for i, step in enumerate(steps))
    parts.append(f'<path fill="none" stroke="#444" stroke-dasharray="4 3" d="{stairs}H{x + width - 12}"/>')
    for row in rows:
        here, name, colour = at_x(row["us"]), f"{row['kind']}, {row['h']}", run.COLOURS[row["kind"]]
        parts.append(f'<path stroke="{colour}" d="M{here:.1f} {at_y(row["low"]):.1f}V{at_y(row["high"]):.1f}"/><circle '
                     f'cx="{here:.1f}" cy="{at_y(row["loss"]):.1f}" r="5" stroke="{colour}" '
                     f'fill="{colour if row["front"] else "#fff"}"><title>{name}: {row["us"]:.2f} µs, {row["loss"]:.4g}'
                     f'</title></circle>' + run.label(here + 8, at_y(row["loss"]) - 6, "start", name))
    parts.append(f'<path class="axis" d="M{left} 24V{bottom}H{x + width - 12}"/>' +
                 run.label((left + x + width) / 2, bottom + 30, "middle", "µs of a layer, one core"))
    return parts


def picture(rows):
    tasks = [[row for row in rows if row["task"] == task] for task in run.WORDS]
    tasks = list(filter(None, tasks))
    parts = sum((panel(of_task, 420 * i) for i, of_task in enumerate(tasks)), [])
    key = ("filled: no layer of the task is both faster and of a lower mean loss", "a bar: from the lowest to the highest seed")
    parts += [run.label(12, 316 + 14 * i, "start", line) for i, line in enumerate(key)]
    return run.svg(420 * len(tasks), 340, "latency and loss of layers", parts)


def main():
    of = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    of.add_argument("--results", type=pathlib.Path, default=run.HERE, metavar="DIR")
    for name, legal, word in (("tasks", tuple(run.WORDS), str), ("kinds", tuple(run.KINDS), str),
                              ("heads", tuple(range(1, 65)), int)):
        of.add_argument("--" + name, type=run.listed(word, legal), default=legal)
    for name in ("isa", "batch", "seconds"):
        of.add_argument("--" + name, help="of attnrun roof")
    given = of.parse_args()
    groups = [group for group in run.groups_of(run.read_results(given.results).values())
              if group.task in given.tasks and group.kind in given.kinds and group.h in given.heads]
    if not groups:
        raise SystemExit(f"{given.results / 'results.jsonl'}: there are no results of these layers")
    given.out.mkdir(parents=True, exist_ok=True)
    options = [word for name in ("isa", "batch", "seconds") if getattr(given, name)
               for word in ("--" + name, getattr(given, name))]
    rows = rows_of(given.out, groups, options)
    (given.out / "front.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (given.out / "front.svg").write_text(picture(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
