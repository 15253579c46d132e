#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains small models whose attention differs, and makes a page of what they learnt: are wide heads better than narrow?

    run.py [--long] [--steps N] [--seeds N] [--heads 1,4,16] [--kinds narrow,wide] [--tasks sort,text]
           [--budgets d_model,parameters] [--rates 3e-3,1e-2] [--out DIR] [--jobs N] [--shard I/N] [--page]

It needs Python 3.9, a C compiler and attngen.
A cell is a task, a kind of layer, a number of heads and the sizes of a budget. It is trained once with each rate and a
seed of its own, then with the rate of the lowest loss and the seeds 1 to N. Each run is added to DIR/results.jsonl when it
ends and is not repeated; a run that was ended goes on from its checkpoint. --shard: each machine trains its part of the
cells, with a DIR of its own; `cat */results.jsonl` joins them. --page: only the page, DIR/heads.html, and its figure of
equal parameters, DIR/heads.svg. ATTNGEN and CC are read from the environment.

Budgets: the same d_model as the reference (narrow, 4 heads of 16); or d_model and d_k with which the whole model has as
many parameters as the reference, or as many multiply-adds a token. A cell that is off by more than 3 % is left out.
"""
import argparse
import base64
import concurrent.futures
import functools
import itertools
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
LAYERS, N = 2, 64
WORDS = {"recall": 64, "sort": 65, "text": 96}
REFERENCE = ("narrow", 4, 64, 16)  # kind, heads, d_model, d_k
BUDGETS = ("d_model", "parameters", "multiply-adds")
EQUAL = .03  # budgets that differ by more are not called equal
# kind: what its spec has beside d_model, h, d_k and d_v
KINDS = {
    "narrow": {}, "wide": {}, "split": {"input": "split"}, "tied": {"w_k": "tied"}, "identity": {"w_v": "identity"},
    "conv": {"w_o": "conv"}}
HEADS = (1, 2, 4, 8, 16)
TUNING = 101  # the seed with which rates are compared
SHORT = dict(heads=(1, 4, 8), seeds=2, steps=700, rates=(3e-3,))
LONG = dict(heads=HEADS, seeds=5, steps=3000, rates=(3e-3, 1e-2, 3e-2))


# ---- what a layer has and costs ----

def fields(kind, h, d, d_k):
    """[(name, numbers, inputs of each number's column; 0: a bias)] by the table of tensors of docs/spec.md."""
    d_v = d if kind == "identity" else d_k
    d_in = d // h if kind == "split" else d
    all_of = [("w_q", h * d_in * d_k, d_in), ("b_q", h * d_k, 0)]
    if kind != "tied":
        all_of += [("w_k", h * d_in * d_k, d_in), ("b_k", h * d_k, 0)]
    if kind != "identity":
        all_of += [("w_v", h * d_in * d_v, d_in), ("b_v", h * d_v, 0)]
    taps, columns = (3, d // h) if kind == "conv" else (1, d)
    return all_of + [("w_o", h * taps * d_v * columns, taps * d_v if kind == "conv" else h * d_v), ("b_o", d, 0)]


def parameters(task, kind, h, d, d_k):
    of_layer = d + sum(numbers for _, numbers, _ in fields(kind, h, d, d_k))
    return (2 * WORDS[task] + N + 1) * d + LAYERS * of_layer


def multiply_adds(task, kind, h, d, d_k):
    """Of a token: products of weights, and scores and values with the (N + 1) / 2 keys that it sees on average."""
    weights = sum(numbers for _, numbers, inputs in fields(kind, h, d, d_k) if inputs)
    d_v = d if kind == "identity" else d_k
    return LAYERS * (weights + h * (d_k + d_v) * (N + 1) / 2) + d * WORDS[task]


COSTS = {"parameters": parameters, "multiply-adds": multiply_adds}


@functools.lru_cache(None)
def sizes_for(task, kind, h, budget):
    """(d_model, d_k) of a budget, or None. A head of kind wide is about d_model wide, of the others about d_model / h;
    it departs from that, by at most a tenth, only where no d_model gives the budget."""
    of_reference = REFERENCE[2]
    natural = lambda d: d if kind == "wide" else d / h
    if budget == "d_model":
        return of_reference, round(natural(of_reference))
    cost = COSTS[budget]
    wanted, found = cost(task, *REFERENCE), []
    whole = kind in ("split", "conv")  # a head reads or writes d_model / h columns
    for d in range(h if whole else 8, 193, h if whole else 2):
        for d_k in range(max(1, round(natural(d) * .9)), round(natural(d) * 1.1) + 1):
            off = abs(cost(task, kind, h, d, d_k) / wanted - 1)
            if off <= EQUAL:
                found.append((round(abs(d_k / natural(d) - 1), 2), off, d, d_k))
    return min(found)[2:] if found else None


def cells(plan):
    """Cells of a plan, cheap and general comparisons first; what two budgets share, once."""
    found = {}
    for budget, kind, h, task in itertools.product(plan["budgets"], plan["kinds"], plan["heads"], plan["tasks"]):
        sizes = sizes_for(task, kind, h, budget)
        if sizes and not (kind in ("split", "wide") and h == 1):  # those are narrow
            found[(task, kind, h, *sizes)] = None
    return [dict(zip(("task", "kind", "h", "d_model", "d_k"), cell)) for cell in found]


def runs_of(cell, plan, rates, seeds):
    return [{**cell, "rate": rate, "seed": seed, "steps": plan["steps"]} for rate in rates for seed in seeds]


def name_of(point):
    return "-".join(str(point[key]) for key in ("task", "kind", "h", "d_model", "d_k", "rate", "seed", "steps"))


# ---- programs ----

class Stopped(Exception):
    pass


class Programs:
    """What runs, so that it can be ended."""
    def __init__(self):
        self.lock, self.running, self.stopped = threading.Lock(), set(), False

    def run(self, command):
        try:
            with self.lock:
                if self.stopped:
                    raise Stopped
                program = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.running.add(program)
        except OSError as error:
            raise SystemExit(f"{command[0]}: {error.strerror}; name it in ATTNGEN, ATTNRUN or CC")
        out, said = program.communicate()
        with self.lock:
            self.running.discard(program)
            if self.stopped:
                raise Stopped
        if program.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{said.decode().strip()}\nends with {program.returncode}")
        return out

    def stop(self):
        with self.lock:
            self.stopped = True
            for program in self.running:
                program.terminate()


programs = Programs()


def program_of(out, cell, scores=False):
    kind, h, d, d_k = (cell[key] for key in ("kind", "h", "d_model", "d_k"))
    return out / "programs" / f"{kind}-{h}-{d}-{d_k}{'-scores' if scores else ''}" / "heads", (kind, h, d, d_k, scores)


def spec_text(kind, h, d, d_k, **more):
    spec = {"name": "attention", "d_model": d, "h": h, "d_k": d_k, "d_v": d_k, "seq_len": N, "mask": "causal",
            "bias": "true", **KINDS[kind], **more}
    if kind == "identity":
        del spec["d_v"]
    return "".join(f"{key} = {value}\n" for key, value in spec.items())


def build(program, of):
    """The program of a layer, made once."""
    kind, h, d, d_k, scores = of
    folder = program.parent
    folder.mkdir(parents=True, exist_ok=True)
    more = {"train": "true", **({"scores": "true"} if scores else {})}
    (folder / "attention.layer").write_text(spec_text(kind, h, d, d_k, **more))
    programs.run([os.environ.get("ATTNGEN", "attngen"), folder / "attention.layer", "-o", folder])
    flags = "".join(f"FIELD({name}, {numbers}, {inputs}) " for name, numbers, inputs in fields(kind, h, d, d_k))
    part, pair, compile = folder / "heads.part", folder / "attention.o", os.environ.get("CC", "cc").split()
    programs.run([*compile, "-std=gnu11", "-O2", "-c", "-o", pair, folder / "attention.c"])
    programs.run([*compile, "-std=gnu11", "-O3", "-ffast-math", "-march=native", "-I", folder, f"-DLAYERS={LAYERS}",
                  f"-DFIELDS={flags}", *(["-DSCORES"] if scores else []), "-o", part, HERE / "heads.c", pair, "-lm"])
    part.rename(program)


# ---- training ----

def read_results(out):
    path = out / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []
    try:
        return {name_of(row): row for row in rows}
    except KeyError:
        raise SystemExit(f"{path}: results of another version of this program; name another --out")


class Training:
    def __init__(self, out, plan, todo):
        self.out, self.plan, self.done, self.lock = out, plan, read_results(out), threading.Lock()
        self.begin, self.cost, self.costs = time.time(), 0, [self.cost_of(cell) for cell in todo]
        self.results = open(out / "results.jsonl", "a+b")
        if self.results.tell() > 0 and (self.results.seek(-1, os.SEEK_END), self.results.read())[1] != b"\n":
            self.results.write(b"\n")  # after a line that a full disk or a kill cut

    def cost_of(self, cell):
        """About proportional to the seconds that remain: a multiply-add, and an exponential as 60 of them."""
        tuned = len(self.plan["rates"]) if len(self.plan["rates"]) > 1 else 0
        return (tuned + self.plan["seeds"]) * (multiply_adds(*cell.values()) + 60 * LAYERS * cell["h"] * N)

    def train(self, run):
        """Trains; of seed 1 and few heads the attention weights too."""
        if name_of(run) in self.done:
            return self.done[name_of(run)]
        checkpoint = self.out / "checkpoints" / name_of(run)
        words = [run["task"], run["steps"], run["seed"], run["rate"], checkpoint, HERE / "shakespeare.txt"]
        found = json.loads(programs.run([program_of(self.out, run)[0], *words]))
        sizes = [run[key] for key in ("task", "kind", "h", "d_model", "d_k")]
        assert found["parameters"] == parameters(*sizes), "heads.c and run.py count parameters alike"
        found["multiply_adds"] = multiply_adds(*sizes)
        if run["seed"] == 1 and run["h"] <= 4:
            pictures = programs.run([program_of(self.out, run, scores=True)[0], *words])
            pathlib.Path(f"{checkpoint}.attn").write_bytes(pictures)
        row = {**run, **found}
        with self.lock:
            self.results.write(json.dumps(row).encode() + b"\n")
            self.results.flush()
            self.done[name_of(run)] = row
        return row

    def train_cell(self, cell):
        rates, last = self.plan["rates"], lambda row: row["points"][-1][0]
        if len(rates) > 1:
            tried = [self.train(run) for run in runs_of(cell, self.plan, rates, (TUNING,))]
            rates = (min(tried, key=last)["rate"],)
        rows = [self.train(run) for run in runs_of(cell, self.plan, rates, range(1, self.plan["seeds"] + 1))]
        return cell, sum(map(last, rows)) / len(rows)


def in_parallel(jobs, of, todo):
    """Results as they come. What was not begun is not done when one fails or the user stops."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            for future in concurrent.futures.as_completed([pool.submit(of, *words) for words in todo]):
                yield future.result()
        except BaseException:
            programs.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def say(text):
    print(f"\r{text:100}", end="", file=sys.stderr, flush=True)


def train_all(out, plan, jobs, shard):
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    todo = cells(plan)[shard[0] - 1::shard[1]]
    needed = dict(program_of(out, cell, scores) for cell in todo for scores in (False, True)[:1 + (cell["h"] <= 4)])
    needed = [(program, of) for program, of in needed.items() if not program.exists()]
    for count, _ in enumerate(in_parallel(jobs, build, needed), 1):  # first: two runs must not make one program
        say(f"{count} of {len(needed)} programs built")
    training = Training(out, plan, todo)
    for count, (cell, loss) in enumerate(in_parallel(jobs, training.train_cell, [(cell,) for cell in todo]), 1):
        training.cost += training.cost_of(cell)
        left = (time.time() - training.begin) * (sum(training.costs) / training.cost - 1)
        name = "-".join(map(str, cell.values()))
        say(f"{count} of {len(todo)} cells, {left / 60:.0f} min remain; {name}: {loss:.3f}")
    print(file=sys.stderr)


# ---- the page ----

COLOURS = dict(zip(KINDS, ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#ff7f0e")))
MARKS = {  # of budgets: paths around 0, 0
    "d_model": "M-{0} 0a{0} {0} 0 1 0 {1} 0a{0} {0} 0 1 0 -{1} 0", "parameters": "M-{0} -{0}h{1}v{1}h-{1}z",
    "multiply-adds": "M0 -{1}L{1} {0}H-{1}z"}
STYLE = "svg{font:11px sans-serif}svg text{fill:#222}svg .grid{stroke:#ddd}svg .axis{stroke:#888;fill:none}"


def loss_of(row):
    return row["points"][-1][0]


class Group:
    """The seeds of a cell with the rate that was chosen, under a budget."""
    def __init__(self, task, kind, h, budget, rows):
        self.task, self.kind, self.h, self.budget, self.rows = task, kind, h, budget, rows
        self.sizes = (task, kind, h, rows[0]["d_model"], rows[0]["d_k"])
        losses = sorted(map(loss_of, rows))
        self.low, self.mean, self.high = losses[0], sum(losses) / len(losses), losses[-1]
        self.heads = f"{h} head{'s' if h > 1 else ''}"
        self.title = f"{kind}, {self.heads}, d_model {self.sizes[3]}, d_k {self.sizes[4]}"

    def off(self, cost):
        of_reference = COSTS[cost](self.task, *REFERENCE)
        return f"{100 * (COSTS[cost](*self.sizes) / of_reference - 1):+.1f} %".replace("+0.0", "0")

    def mean_of(self, key):
        return sum(key(row) for row in self.rows) / len(self.rows)

    def learned(self):
        """Of how many seeds nine in ten were right, and the median of the steps after which they were."""
        steps = sorted(next((i + 1) * row["steps"] // len(row["points"]) for i, (_, right) in enumerate(row["points"])
                            if right >= .9) for row in self.rows if max(right for _, right in row["points"]) >= .9)
        return f"{len(steps)} of {len(self.rows)}" + (f", {steps[(len(steps) - 1) // 2]}" if steps else "")


def groups_of(rows):
    """Groups in the order of KINDS and heads: of a cell the longest runs, and of these the rate with the most seeds."""
    alike = {}
    for row in rows:
        if row["seed"] < TUNING:
            cell = tuple(row[key] for key in ("task", "kind", "h", "d_model", "d_k"))
            alike.setdefault(cell, {}).setdefault((row["steps"], row["rate"]), []).append(row)
    for task, budget, kind, h in itertools.product(WORDS, BUDGETS, KINDS, sorted({cell[2] for cell in alike})):
        of_cell = alike.get((task, kind, h, *(sizes_for(task, kind, h, budget) or ())))
        if of_cell and not (kind in ("split", "wide") and h == 1):
            yield Group(task, kind, h, budget, max(of_cell.items(), key=lambda item: (item[0][0], len(item[1])))[1])


def axis(values, begin, end):
    """Where a value is, and ticks: 1, 2 and 5 times powers of ten; logarithmic if the ends differ by a factor of 8."""
    low, high = min(values), max(values)
    if low > 0 and high / low > 8:
        low, high = low / 1.15, high * 1.15
        scale = math.log10
        ticks = [m * 10. ** e for e in range(-9, 12) for m in (1, 2, 5) if low <= m * 10. ** e <= high]
    else:
        around = (high - low) * .08 or abs(high) * .05 or 1
        low, high = low - around, high + around
        scale = float
        step = min((m * 10. ** e for e in range(-9, 12) for m in (1, 2, 5) if m * 10. ** e * 6 >= high - low))
        ticks = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    at = lambda value: begin + (scale(value) - scale(low)) / (scale(high) - scale(low)) * (end - begin)
    return at, [(at(tick), f"{tick:,.10g}") for tick in ticks]


def svg(width, height, label, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{label}"><style>{STYLE}</style>' + "".join(parts) + "</svg>")


def label(x, y, anchor, text):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def dots(groups, title, x=0):
    """A row for each kind and number of heads: its seeds, and their mean as a line. (width, height, parts)"""
    left, width, row = 96, 330, 18
    bottom = 30 + row * len(groups)
    at, ticks = axis([loss_of(row) for group in groups for row in group.rows], x + left, x + width - 8)
    parts = [f'<text x="{x + left}" y="14" font-weight="bold">{title}</text>']
    parts += [f'<path class="grid" d="M{tick:.1f} 22V{bottom}"/>' + label(tick, bottom + 13, "middle", text)
              for tick, text in ticks]
    for i, group in enumerate(groups):
        y = 22 + row * (i + .7)
        parts.append(label(x + left - 6, y + 4, "end", f"{group.kind}, {group.h}"))
        parts.append(f'<g fill="{COLOURS[group.kind]}" stroke="{COLOURS[group.kind]}"><title>{group.title}: '
                     f'{group.mean:.4g}, {group.low:.4g} to {group.high:.4g}</title>')
        parts += [f'<circle cx="{at(loss_of(row)):.1f}" cy="{y:.1f}" r="3" fill-opacity=".5" stroke="none"/>'
                  for row in group.rows]
        parts.append(f'<path stroke-width="2" d="M{at(group.mean):.1f} {y - 7:.1f}v14"/></g>')
    parts.append(f'<path class="axis" d="M{x + left} 22V{bottom}H{x + width - 8}"/>')
    return width, bottom + 20, parts


def figure(groups, budget):
    """The tasks side by side."""
    shown = [[group for group in groups if (group.task, group.budget) == (task, budget)] for task in WORDS]
    panels = [dots(of_task, f"{of_task[0].task}: loss", 330 * i) for i, of_task in enumerate(filter(None, shown))]
    return panels and svg(sum(panel[0] for panel in panels), max(panel[1] for panel in panels),
                          f"loss of kinds of attention at the same {budget}", sum((panel[2] for panel in panels), []))


def plot(groups, of, name):
    """Mean loss against a cost: a mark for each group, with the range of its seeds."""
    width, height, left, bottom = 420, 300, 52, 262
    at_x, xs = axis([group.mean_of(of) for group in groups], left, width - 12)
    at_y, ys = axis([loss for group in groups for loss in (group.low, group.high)], bottom, 8)
    parts = [f'<path class="grid" d="M{x:.1f} 8V{bottom}"/>' + label(x, bottom + 14, "middle", text) for x, text in xs]
    parts += [f'<path class="grid" d="M{left} {y:.1f}H{width - 12}"/>' + label(left - 4, y + 4, "end", text)
              for y, text in ys]
    parts += [f'<path class="axis" d="M{left} 8V{bottom}H{width - 12}"/>', label(width / 2, height - 6, "middle", name),
              f'<text x="12" y="{height / 2}" transform="rotate(-90 12 {height / 2})" text-anchor="middle">loss</text>']
    for group in groups:
        x, colour, size = at_x(group.mean_of(of)), COLOURS[group.kind], 2 + group.h ** .5
        mark = MARKS[group.budget].format(size, 2 * size)
        parts.append(f'<path d="M{x:.1f} {at_y(group.low):.1f}V{at_y(group.high):.1f}" stroke="{colour}"/>'
                     f'<path transform="translate({x:.1f} {at_y(group.mean):.1f})" d="{mark}" fill="{colour}" '
                     f'fill-opacity=".5" stroke="{colour}"><title>{group.title}, same {group.budget}: '
                     f'{group.mean:.4g}</title></path>')
    return svg(width, height, "loss against " + name, parts)


def table(groups):
    columns = {
        "same": lambda of: of.budget, "kind": lambda of: of.kind, "heads": lambda of: of.h,
        "d_model": lambda of: of.sizes[3], "d_k": lambda of: of.sizes[4], "parameters": lambda of: f"{parameters(*of.sizes):,}",
        "off": lambda of: of.off("parameters"), "multiply-adds a token": lambda of: f"{multiply_adds(*of.sizes):,.0f}",
        "off ": lambda of: of.off("multiply-adds"), "s": lambda of: f"{of.mean_of(lambda row: row['seconds']):.1f}",
        "rate": lambda of: of.rows[0]["rate"], "seeds": lambda of: len(of.rows),
        "loss, mean": lambda of: f"{of.mean:.4f}",
        "lowest … highest": lambda of: f"{of.low:.4f} … {of.high:.4f}",
        "right": lambda of: f"{100 * of.mean_of(lambda row: row['points'][-1][1]):.1f} %",
        "learned, steps": Group.learned}
    text = ["<table><tr>", *(f"<th>{name}</th>" for name in columns), "</tr>"]
    for group in sorted(groups, key=lambda group: (BUDGETS.index(group.budget), group.mean)):
        best = min((of for of in groups if of.budget == group.budget), key=lambda of: of.mean)
        text.append("<tr class=near>" if group.low <= best.high else "<tr>")
        text += [f"<td>{of(group)}</td>" for of in columns.values()]
    return "".join(text) + "</table>"


def png(weights, n):
    """[n][n] of 0 to 1 as a picture, dark where a key is attended to."""
    rows = b"".join(b"\0" + bytes(255 - min(255, int(255 * max(0, w) ** .5)) for w in weights[i * n:(i + 1) * n])
                    for i in range(n))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    data = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(data).decode()


def heatmaps(out, groups):
    shown = {}
    for group in groups:
        row = group.rows[0]
        path, maps = out / "checkpoints" / (name_of(row) + ".attn"), LAYERS * group.h
        if row["seed"] == 1 and path.exists():
            values = struct.unpack(f"<{maps * N * N}f", path.read_bytes())
            pictures = [f'<img src="{png(values[i * N * N:(i + 1) * N * N], N)}" alt="layer {i // group.h + 1}, head '
                        f'{i % group.h + 1}">' for i in range(maps)]
            shown[path] = f"<figure><figcaption>{group.task}, {group.title}</figcaption><table>" + "".join(
                f"<tr><th>layer {layer + 1}</th><td>{''.join(pictures[layer * group.h:][:group.h])}</td></tr>"
                for layer in range(LAYERS)) + "</table></figure>"
    return "".join(shown.values())


def page(out):
    groups = list(groups_of(read_results(out).values()))
    if not groups:
        raise SystemExit(f"{out / 'results.jsonl'}: there are no results")
    costs = {"parameters": lambda row: row["parameters"], "multiply-adds a token": lambda row: row["multiply_adds"],
             "seconds of training": lambda row: row["seconds"]}
    mark = lambda budget: (f'<svg width="16" height="14" viewBox="-8 -7 16 14"><path d="{MARKS[budget].format(4, 8)}" '
                           f'fill="#888"/></svg> the same {budget}')
    key = (" ".join(f'<span style="color:{colour}">■ {kind}</span>' for kind, colour in COLOURS.items()) + "; " +
           ", ".join(map(mark, BUDGETS)) + "; a larger mark has more heads, a line is the range of the seeds.")
    body = "".join(f"<h2>Kinds and heads at the same {budget}</h2>" + figure(groups, budget)
                   for budget in BUDGETS if any(group.budget == budget for group in groups))
    for task in WORDS:
        of_task = [group for group in groups if group.task == task]
        if of_task:
            body += (f"<h2>{task}: loss against cost</h2><p>{key}</p><div class=row>" +
                     "".join(plot(of_task, of, name) for name, of in costs.items()) +
                     f"</div><details><summary>all numbers of {task}</summary>{table(of_task)}</details>")
    (out / "heads.svg").write_text(figure(groups, "parameters") or svg(1, 1, "nothing", []))
    steps = sorted({row["steps"] for group in groups for row in group.rows})
    (out / "heads.html").write_text(f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Heads: what width buys</title>
<style>body{{font:15px/1.4 sans-serif;margin:1em auto;max-width:84em;padding:0 1em}}
.row{{display:flex;flex-wrap:wrap;gap:1em}}.row svg{{width:min(400px,100%)}}
{STYLE}svg{{max-width:100%;height:auto}}details table{{font-size:12px;border-collapse:collapse;display:block;overflow-x:auto}}
details td,details th{{padding:2px 6px;text-align:right;border-bottom:1px solid #ddd}}details td{{white-space:nowrap}}
details td:first-child{{text-align:left}}.near{{font-weight:bold}}
figure{{display:inline-block;margin:6px}}figure th{{font-weight:normal;font-size:12px;white-space:nowrap}}
img{{width:96px;image-rendering:pixelated;margin:1px;border:1px solid #ccc}}</style>
<h1>Heads: what width buys</h1><p>Models of {LAYERS} layers of attention, {N} tokens, no feed-forward; loss on what
was held out, at the end of {' or '.join(map(str, steps))} steps. A dot is a seed, a line their mean. The tables have sizes,
real costs and how far they are off the reference ({REFERENCE[0]}, {REFERENCE[1]} heads of {REFERENCE[3]}), the rate, and of
how many seeds nine in ten answers were right; in bold the lowest mean of a budget, and all whose range reaches into its
range. A cell whose budget is off by more than {100 * EQUAL:.0f} % is left out.</p>{body}
<h2>What heads look at</h2><p>Queries downward, keys to the right, of one
sequence that was held out; seed 1. Square root of the weight.</p>{heatmaps(out, groups)}</html>""")
    print(out / "heads.html")


def listed(of, legal):
    """What reads words of an option, joined by commas."""
    return lambda text: tuple(legal[legal.index(of(word))] for word in text.split(","))


def main():
    of = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of.add_argument("--long", action="store_true", help="five seeds, 3,000 steps, three rates, all heads: a night")
    of.add_argument("--steps", type=int, help="of each run, in place of 700, or 3,000")
    of.add_argument("--seeds", type=int, help="of each cell, in place of 2, or 5")
    of.add_argument("--heads", type=listed(int, range(1, 65)), help="in place of 1,4,8, or 1,2,4,8,16")
    of.add_argument("--rates", type=lambda text: tuple(map(float, text.split(","))),
                    help="in place of 3e-3, or 3e-3,1e-2,3e-2")
    for name, legal in (("kinds", tuple(KINDS)), ("tasks", tuple(WORDS)), ("budgets", BUDGETS)):
        of.add_argument("--" + name, type=listed(str, legal), default=legal, help="of " + ",".join(legal))
    of.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    of.add_argument("--jobs", type=int, default=os.cpu_count())
    of.add_argument("--shard", default="1/1")
    of.add_argument("--page", action="store_true")
    given = of.parse_args()
    index, _, count = given.shard.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        of.error("--shard is I/N, as 1/4")
    if not (given.steps is None or given.steps >= 20) or not (given.seeds is None or 1 <= given.seeds < TUNING):
        of.error("--steps is at least 20, --seeds at least 1")
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.page:
        plan = {**(LONG if given.long else SHORT), **{key: value for key, value in vars(given).items() if value}}
        train_all(given.out, plan, given.jobs, (int(index), int(count)))
    page(given.out)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # KeyboardInterrupt, also where SIGINT is ignored
    try:
        main()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print("\nheads: interrupted; the same command goes on, --page makes the page of what there is", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGINT)
