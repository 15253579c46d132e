#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains small models whose attention differs, and makes a page of what they learnt: are wide heads better than narrow ones?

    run.py [--long] [--steps N] [--seeds N] [--heads 1,4,16] [--out DIR] [--jobs N] [--shard I/N] [--page]

It needs Python 3.9, a C compiler and attngen.
A run is a task, a kind of layer, a number of heads, a budget and a seed. What is done stands in DIR/results.jsonl and is not
done again; a run that was ended goes on from its checkpoint. --shard: each machine does its part, with a DIR of its own;
`cat */results.jsonl` joins them. --page: only the page, DIR/heads.html. ATTNGEN and CC are read from the environment.

Budgets: the same d_model as the layer of reference (narrow, 4 heads of 16); or the d_model at which all of the model has
nearly as many parameters, or a token as many multiply-adds, as with that.
"""
import argparse
import base64
import concurrent.futures
import itertools
import json
import os
import pathlib
import struct
import subprocess
import sys
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
LAYERS, N = 2, 64
WORDS = {"recall": 64, "sort": 65, "text": 96}
REFERENCE = ("narrow", 4, 64)
BUDGETS = ("d_model", "parameters", "multiply-adds")
# kind: what its spec has beside d_model and h
KINDS = {
    "narrow": {}, "wide": {"width": "wide"}, "split": {"input": "split"}, "tied": {"w_k": "tied"},
    "identity": {"w_v": "identity"}, "conv": {"w_o": "conv"}}
HEADS = (1, 2, 4, 8, 16)
SHORT = dict(heads=(1, 4, 8), seeds=2, steps=700, budgets=BUDGETS)
LONG = dict(heads=HEADS, seeds=5, steps=6000, budgets=BUDGETS)


# ---- what a layer has and costs ----

def fields(kind, h, d):
    """[(name, numbers, inputs of each number's column; 0: a bias)] by the table of tensors of docs/spec.md."""
    narrow, wide = d // h, kind == "wide"
    d_k = d if wide else narrow
    d_v = d if wide or kind == "identity" else narrow
    d_in = narrow if kind == "split" else d
    all_of = [("w_q", h * d_in * d_k, d_in), ("b_q", h * d_k, 0)]
    if kind != "tied":
        all_of += [("w_k", h * d_in * d_k, d_in), ("b_k", h * d_k, 0)]
    if kind != "identity":
        all_of += [("w_v", h * d_in * d_v, d_in), ("b_v", h * d_v, 0)]
    taps = 3 if kind == "conv" else 1
    columns = narrow if kind == "conv" else d
    return all_of + [("w_o", h * taps * d_v * columns, h * d_v if taps == 1 else taps * d_v), ("b_o", d, 0)]


def parameters(task, kind, h, d):
    of_layer = d + sum(numbers for _, numbers, _ in fields(kind, h, d))
    return (2 * WORDS[task] + N + 1) * d + LAYERS * of_layer


def multiply_adds(task, kind, h, d):
    """Of a token: products of weights, and scores and values with the (N + 1) / 2 keys that it sees on average."""
    weights = sum(numbers for _, numbers, inputs in fields(kind, h, d) if inputs)
    d_k = d if kind == "wide" else d // h
    d_v = d if kind in ("wide", "identity") else d // h
    return LAYERS * (weights + h * (d_k + d_v) * (N + 1) / 2) + d * WORDS[task]


def width_for(task, kind, h, budget):
    """The d_model of a budget: a multiple of h, and of 4 so that rows are whole vectors of some machine."""
    of_reference, heads, d = REFERENCE
    if budget == "d_model":
        return d if d % h == 0 else None
    cost = parameters if budget == "parameters" else multiply_adds
    wanted = cost(task, of_reference, heads, d)
    step = h * 4 // (4 if h % 4 == 0 else 2 if h % 2 == 0 else 1)
    return min(range(step, 513, step), key=lambda width: abs(cost(task, kind, h, width) - wanted))


def points(plan):
    """Runs, each with the budgets that it serves: narrow heads have the same d_model under all of them."""
    runs = {}
    for seed, task, h, kind, budget in itertools.product(range(1, plan["seeds"] + 1), WORDS, plan["heads"], KINDS,
                                                         plan["budgets"]):
        d = width_for(task, kind, h, budget)
        if d is not None and not (kind == "conv" and d % h):
            point = {"task": task, "kind": kind, "h": h, "d_model": d, "seed": seed, "steps": plan["steps"]}
            runs.setdefault(name_of(point), {**point, "budgets": []})["budgets"].append(budget)
    return list(runs.values())


def name_of(point):
    return "-".join(str(point[key]) for key in ("task", "kind", "h", "d_model", "seed", "steps"))


# ---- programs ----

def build(out, kind, h, d, scores=False):
    """The program of a layer, made once."""
    folder = out / "programs" / f"{kind}-{h}-{d}{'-scores' if scores else ''}"
    program = folder / "heads"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"name": "attention", "d_model": d, "h": h, "seq_len": N, "mask": "causal", "bias": "true", "train": "true",
            **KINDS[kind], **({"scores": "true"} if scores else {})}
    (folder / "attention.layer").write_text("".join(f"{key} = {value}\n" for key, value in spec.items()))
    run([os.environ.get("ATTNGEN", "attngen"), folder / "attention.layer", "-o", folder])
    flags = "".join(f"FIELD({name}, {numbers}, {inputs}) " for name, numbers, inputs in fields(kind, h, d))
    part, pair, compile = folder / "heads.part", folder / "attention.o", os.environ.get("CC", "cc").split()
    run([*compile, "-std=gnu11", "-O2", "-c", "-o", pair, folder / "attention.c"])
    run([*compile, "-std=gnu11", "-O3", "-march=native", "-I", folder, f"-DLAYERS={LAYERS}", f"-DFIELDS={flags}",
         *(["-DSCORES"] if scores else []), "-o", part, HERE / "heads.c", pair, "-lm"])
    part.rename(program)
    return program


def run(command):
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True)
    except OSError as error:
        raise SystemExit(f"{command[0]}: {error.strerror}; name it in ATTNGEN or CC")
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr.decode().strip()}\nends with {done.returncode}")
    return done.stdout


def train(out, point):
    """Trains; of the first seed the attention weights too."""
    checkpoint = out / "checkpoints" / name_of(point)
    words = [point["task"], point["steps"], point["seed"], checkpoint, HERE / "shakespeare.txt"]
    found = json.loads(run([build(out, point["kind"], point["h"], point["d_model"]), *words]))
    task, kind, h, d = (point[key] for key in ("task", "kind", "h", "d_model"))
    assert found["parameters"] == parameters(task, kind, h, d), "heads.c and run.py count parameters alike"
    found["multiply_adds"] = multiply_adds(task, kind, h, d)
    if point["seed"] == 1 and "d_model" in point["budgets"]:
        checkpoint.with_suffix(".attn").write_bytes(run([build(out, kind, h, d, scores=True), *words]))
    return {**point, **found}


def read_results(out):
    path = out / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []
    return {name_of(row): row for row in rows}


def train_all(out, plan, jobs, shard):
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    done, todo = read_results(out), points(plan)[shard[0] - 1::shard[1]]
    todo = [point for point in todo if name_of(point) not in done]
    begin, finished = time.time(), 0
    programs = {(point["kind"], point["h"], point["d_model"], scores) for point in todo
                for scores in (False, point["seed"] == 1 and "d_model" in point["budgets"])}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool, open(out / "results.jsonl", "a+b") as results:
        if results.tell() > 0 and (results.seek(-1, os.SEEK_END), results.read())[1] != b"\n":
            results.write(b"\n")  # behind a line that a full disk or a kill cut
        list(pool.map(lambda of: build(out, *of), sorted(programs)))  # first: two runs must not make one program
        for future in concurrent.futures.as_completed([pool.submit(train, out, point) for point in todo]):
            row = future.result()
            results.write(json.dumps(row).encode() + b"\n")
            results.flush()
            finished += 1
            left = (time.time() - begin) / finished * (len(todo) - finished)
            print(f"\r{finished} of {len(todo)} runs, {left / 60:.0f} min remain; {name_of(row)}: "
                  f"{row['points'][-1][0]:.3f}   ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


# ---- the page ----

def mean_and_spread(rows, of):
    values = [of(row) for row in rows]
    return sum(values) / len(values), min(values), max(values)


def learned(rows):
    """Of how many seeds nine in ten were right, and the median of the steps after which they were."""
    steps = sorted(next((i + 1) * row["steps"] // len(row["points"]) for i, (_, right) in enumerate(row["points"])
                        if right >= .9) for row in rows if max(right for _, right in row["points"]) >= .9)
    return f"{len(steps)} of {len(rows)}" + (f", {steps[(len(steps) - 1) // 2]}" if steps else "")


COLOURS = dict(zip(KINDS, ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#ff7f0e")))


def plot(groups, task, of, label):
    """Loss against a cost, as SVG: a point for each kind, number of heads and budget, with the range of its seeds."""
    import math
    width, height, left, bottom = 420, 300, 48, 40
    shown = [(kind, h, budget, rows) for (t, kind, h, budget), rows in groups.items() if t == task]
    xs = [math.log10(of(rows[0])) for *_, rows in shown]
    ys = [row["points"][-1][0] for *_, rows in shown for row in rows]
    if not xs:
        return ""
    x0, x1, y0, y1 = min(xs) - .05, max(xs) + .05, min(ys), max(ys) * 1.02 + 1e-6
    at_x = lambda value: left + (math.log10(value) - x0) / (x1 - x0) * (width - left - 8)
    at_y = lambda value: height - bottom - (value - y0) / (y1 - y0) * (height - bottom - 8)
    out = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="loss against {label}">',
           f'<path d="M{left} 8V{height - bottom}H{width - 8}" fill="none" stroke="#888"/>',
           f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">{label}, logarithmic</text>',
           f'<text x="12" y="{height / 2}" transform="rotate(-90 12 {height / 2})" text-anchor="middle">loss</text>']
    for i in range(5):
        value = y0 + (y1 - y0) * i / 4
        out.append(f'<text x="{left - 4}" y="{at_y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for i in range(3):
        value = 10 ** (x0 + (x1 - x0) * (i + .5) / 3)
        out.append(f'<text x="{at_x(value):.1f}" y="{height - bottom + 14}" text-anchor="middle">{value:.3g}</text>')
    for kind, h, budget, rows in shown:
        mean, low, high = mean_and_spread(rows, lambda row: row["points"][-1][0])
        x = at_x(of(rows[0]))
        out.append(f'<path d="M{x:.1f} {at_y(low):.1f}V{at_y(high):.1f}" stroke="{COLOURS[kind]}"/>'
                   f'<circle cx="{x:.1f}" cy="{at_y(mean):.1f}" r="{2 + h ** .5:.1f}" fill="{COLOURS[kind]}" '
                   f'fill-opacity=".6"><title>{kind}, {h} heads, same {budget}: {mean:.3f}</title></circle>')
    return "".join(out) + "</svg>"


def png(weights, n):
    """[n][n] of 0 to 1 as a picture, dark where a key is attended to."""
    rows = b"".join(b"\0" + bytes(255 - min(255, int(255 * max(0, w) ** .5)) for w in weights[i * n:(i + 1) * n])
                    for i in range(n))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    data = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(data).decode()


def heatmaps(out, rows):
    text = []
    for row in sorted(rows, key=lambda row: (row["task"], list(KINDS).index(row["kind"]), row["h"])):
        path = out / "checkpoints" / (name_of(row) + ".attn")
        if row["seed"] != 1 or row["h"] > 4 or not path.exists():
            continue
        values = struct.unpack(f"<{LAYERS * row['h'] * N * N}f", path.read_bytes())
        maps = [png(values[i * N * N:(i + 1) * N * N], N) for i in range(LAYERS * row["h"])]
        text.append(f"<figure><figcaption>{row['task']}, {row['kind']}, {row['h']} head{'s' if row['h'] > 1 else ''}</figcaption>" + "".join(
            f'<img src="{of}" alt="layer {i // row["h"] + 1}, head {i % row["h"] + 1}">' for i, of in enumerate(maps)) +
            "</figure>")
    return "".join(text)


def matrix(groups, task, budget):
    """Mean losses, kinds by numbers of heads; the lowest in bold, and those whose range reaches into its range."""
    cells = {(kind, h): (*mean_and_spread(rows, lambda row: row["points"][-1][0]), rows)
             for (t, kind, h, of), rows in groups.items() if (t, of) == (task, budget)}
    if not cells:
        return ""
    best = min(cells.values(), key=lambda cell: cell[0])
    heads = sorted({h for _, h in cells})
    text = [f"<table><caption>the same {budget}</caption><tr><th>kind</th>" +
            "".join(f"<th>{h} head{'s' if h > 1 else ''}</th>" for h in heads) + "</tr>"]
    for kind in KINDS:
        text.append(f"<tr><td style='color:{COLOURS[kind]}'>{kind}</td>")
        for mean, low, high, rows in (cells.get((kind, h), (None,) * 4) for h in heads):
            if rows is None:
                text.append("<td></td>")
                continue
            near = ' class="near"' if low <= best[2] else ""
            text.append(f"<td{near}>{mean:.3f}<br><small>{low:.3f} … {high:.3f}<br>d {rows[0]['d_model']}; "
                        f"{learned(rows).partition(',')[0]}</small></td>")
        text.append("</tr>")
    return "".join(text) + "</table>"


def table(groups, task):
    text = ['<table><tr><th>kind</th><th>heads</th><th>same</th><th>d_model</th><th>parameters</th><th>multiply-adds a '
            'token</th><th>s</th><th>loss, mean</th><th>lowest … highest</th><th>right</th>'
            '<th>learned, steps</th></tr>']
    for (t, kind, h, budget), rows in sorted(groups.items(), key=lambda item: (
            BUDGETS.index(item[0][3]), min(row["points"][-1][0] for row in item[1]))):
        if t == task:
            mean, low, high = mean_and_spread(rows, lambda row: row["points"][-1][0])
            right = mean_and_spread(rows, lambda row: row["points"][-1][1])[0]
            seconds = mean_and_spread(rows, lambda row: row["seconds"])[0]
            text.append(f"<tr><td>{kind}</td><td>{h}</td><td>{budget}</td><td>{rows[0]['d_model']}</td>"
                        f"<td>{rows[0]['parameters']}</td><td>{rows[0]['multiply_adds']:.0f}</td><td>{seconds:.1f}</td>"
                        f"<td>{mean:.3f}</td><td>{low:.3f} … {high:.3f}</td><td>{100 * right:.1f} %</td>"
                        f"<td>{learned(rows)}</td></tr>")
    return "".join(text) + "</table>"


def page(out):
    rows, groups = list(read_results(out).values()), {}
    if not rows:
        raise SystemExit(f"{out / 'results.jsonl'}: there are no results")
    for row, budget in ((row, budget) for row in rows for budget in row["budgets"]):
        groups.setdefault((row["task"], row["kind"], row["h"], budget), []).append(row)
    costs = {"parameters": lambda row: row["parameters"], "multiply-adds a token": lambda row: row["multiply_adds"],
             "seconds of training": lambda row: row["seconds"]}
    key = " ".join(f'<span style="color:{colour}">● {kind}</span>' for kind, colour in COLOURS.items())
    body = "".join(
        f"<h2>{task}</h2><div class=row>" + "".join(matrix(groups, task, budget) for budget in BUDGETS) +
        f"</div><p>{key}; a larger dot has more heads, a line is the range of the seeds.</p><div class=row>" +
        "".join(plot(groups, task, of, label) for label, of in costs.items()) +
        f"</div><details><summary>all numbers of {task}</summary>{table(groups, task)}</details>" for task in WORDS)
    (out / "heads.html").write_text(f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Heads: what width buys</title>
<style>body{{font:15px/1.4 sans-serif;margin:1em auto;max-width:84em;padding:0 1em}}.row{{display:flex;flex-wrap:wrap;gap:1em}}
svg{{width:min(380px,100%);font-size:11px}}table{{border-collapse:collapse;display:block;overflow-x:auto}}
td,th{{padding:2px 6px;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}}
caption{{text-align:left;font-weight:bold}}.near{{font-weight:bold}}small{{font-weight:normal;color:#555}}
td:first-child,details td:nth-child(3){{text-align:left}}figure{{display:inline-block;margin:6px}}img{{width:96px;image-rendering:pixelated;margin:1px;border:1px solid #ccc}}</style>
<h1>Heads: what width buys</h1><p>{len(rows)} runs of {LAYERS} layers of attention, {N} tokens, no feed-forward; loss on what
was held out, at the end of training. A cell has the mean of the seeds, their range, d_model, and of how many seeds nine in ten
answers were right. In bold: the lowest mean, and all whose range reaches into its range.</p>{body}
<h2>What heads look at</h2><p>Queries downward, keys to the right, of one
sequence that was held out; the first half of the pictures is layer 1. Square root of the weight.</p>{heatmaps(out, rows)}""")
    print(out / "heads.html")


def main():
    of = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of.add_argument("--long", action="store_true", help="five seeds, 6,000 steps, every number of heads: a night")
    of.add_argument("--steps", type=int, help="of each run, in place of 700, or 6,000")
    of.add_argument("--seeds", type=int, help="of each point, in place of 2, or 5")
    of.add_argument("--heads", help="numbers of heads, as 1,4,16; in place of 1,4,8, or 1,2,4,8,16")
    of.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    of.add_argument("--jobs", type=int, default=os.cpu_count())
    of.add_argument("--shard", default="1/1")
    of.add_argument("--page", action="store_true")
    given = of.parse_args()
    index, _, count = given.shard.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        of.error("--shard is I/N, as 1/4")
    if not (given.steps is None or given.steps >= 20) or not (given.seeds is None or given.seeds >= 1):
        of.error("--steps is at least 20, --seeds at least 1")
    heads = tuple(int(h) for h in (given.heads or "").split(",") if h.isdigit() and 0 < int(h) <= 64)
    if given.heads is not None and (not heads or ",".join(map(str, heads)) != given.heads):
        of.error("--heads is numbers of at most 64 with commas between them, as 1,4,16")
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.page:
        plan = dict(LONG if given.long else SHORT)
        plan.update((key, of_plan) for key, of_plan in (("steps", given.steps), ("seeds", given.seeds), ("heads", heads))
                    if of_plan)
        train_all(given.out, plan, given.jobs, (int(index), int(count)))
    page(given.out)


main()
