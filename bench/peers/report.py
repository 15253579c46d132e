# SPDX-License-Identifier: MIT
"""Tables and files from the rows of a run."""
import csv
import os
import platform

import machine

COLUMNS = (  # heading, width, text of a row that has numbers
    ("shape", -17, lambda r: r["shape"]),
    ("thr", 3, lambda r: str(r["threads"])),
    ("system", -26, lambda r: r["system"]),
    ("us", 11, lambda r: f"{r['us']:.1f}"),
    ("min", 11, lambda r: f"{r['us_min']:.1f}"),
    ("spread", 9, lambda r: f"{r['us_q3'] - r['us_q1']:.1f}"),
    ("share", 6, lambda r: f"{100 * r['share']:.1f}%"),
    ("ratio", 6, lambda r: f"{r['ratio']:.2f}" if "ratio" in r else ""),
    ("lost", 5, lambda r: f"{r['disturbed']}/{r['samples']}" if r["disturbed"] else ""),
    ("error", 8, lambda r: f"{r['error']:.1e}"),
    ("scratch", 9, lambda r: size(r["scratch_bytes"])),
    ("held", 9, lambda r: size(r["held_bytes"])),
)


def size(count):
    """Bytes for a reader: KiB below one MiB."""
    return f"{count / 1024:.0f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def _pad(text, width):
    return text.ljust(-width) if width < 0 else text.rjust(width)


def _line(cells):
    return "  ".join(_pad(text, width) for text, (_, width, _) in zip(cells, COLUMNS)).rstrip()


def table(rows):
    """An aligned text table: rows with numbers, fastest first, then the reasons of the others."""
    good = sorted((r for r in rows if r["status"] == "ok"), key=lambda r: r["us"])
    lines = [_line(heading for heading, _, _ in COLUMNS)]
    lines += [_line(text(r) for _, _, text in COLUMNS) for r in good]
    for r in rows:
        if r["status"] != "ok":
            lines.append(_line([r["shape"], str(r["threads"]), r["system"]]) + f"  {r['status']}: {r['reason']}")
    return "\n".join(lines) + "\n"


def groups(rows):
    """(shape, threads) -> its rows, in the order measured."""
    found = {}
    for r in rows:
        found.setdefault((r["shape"], r["threads"]), []).append(r)
    return found


def best(rows):
    """peer -> its fastest row, by ratio where there are ratios."""
    time = lambda r: r.get("ratio", r["us"])
    fastest = {}
    for r in rows:
        if r["status"] == "ok" and (r["peer"] not in fastest or time(r) < time(fastest[r["peer"]])):
            fastest[r["peer"]] = r
    return fastest


def facts(run, started):
    """What the numbers belong to, as lines of text."""
    compilers = [line for cc in ("gcc", "clang") if (line := machine.first_line(cc, "--version"))]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    return [f"Date      {started}", f"CPU       {run.cpu.model}, cores {', '.join(map(str, run.options.cores))}",
            f"System    {platform.system()} {platform.release()}, Python {platform.python_version()}",
            f"Peak      {run.cpu.isa} multiply-adds in registers", f"Compilers {'; '.join(compilers)}",
            f"Versions  {versions}", f"Command   {run.options.command}",
            "Caches    warm: the same buffers at every call"]


def peers_in_order(rows):
    import adapters
    present = {r["peer"] for r in rows if r["status"] == "ok"}
    return [name for name in adapters.PEERS if name in present]


def markdown(run, started):
    """In Markdown: for each shape and number of threads, ours by gcc in us and each peer's best as a multiple of it."""
    peers = [p for p in peers_in_order(run.rows) if p != "ours"]
    lines = ["| layer | | threads | ours, µs | share of peak | fastest call | " + " | ".join(peers) + " |",
             "| --- | --- | --: | --: | --: | --: |" + " --: |" * len(peers)]
    for (shape, threads), rows in groups(run.rows).items():
        fastest = best(rows)
        ours = next((r for r in rows if r["system"] == "ours/gcc" and r["status"] == "ok"), None)
        if ours:
            digits = 1 if ours["us"] < 1000 else 0
            us = "{us:.{d}f} ({us_q1:.{d}f} … {us_q3:.{d}f})".format(d=digits, **ours)
            ratio = lambda p: f"{fastest[p]['ratio']:.2f}" if p in fastest else "–"
            lines.append(f"| {shape} | {ours['sizes']} | {threads} | {us} | {100 * ours['share']:.0f} % | "
                         f"{100 * ours['share_fastest']:.0f} % | "
                         + " | ".join(ratio(p) for p in peers) + " |")
    about = "\n".join("    " + line for line in facts(run, started))
    return ("\n".join(lines) + "\n\nOurs: median and quartiles. Each peer: its fastest formulation's time over ours in the same "
            "round, median of the rounds.\n\n" + about + "\n")


STEP_COLUMNS = (  # of steps(): heading, the systems of which the fastest counts
    ("ours, AVX2", ("ours/gcc-avx2",)), ("ONNX Runtime", ("onnxruntime/cached",)),
    ("PyTorch", ("torch/static", "torch/static-folded", "torch/static-repeated")),
    ("OpenVINO", ("openvino/stateful",)), ("ggml", ("ggml/softmax",)), ("ggml flash", ("ggml/flash",)))


def steps(run, started):
    """In Markdown: layers with a cache, beside what reading it takes and beside the peers, as multiples of ours."""
    lines = ["| layer | | new | cached | bound, µs | ours, µs | share of bound | share of peak | "
             + " | ".join(heading for heading, _ in STEP_COLUMNS) + " |",
             "| --- | --- | --: | --: | --: | --: | --: | --: |" + " --: |" * len(STEP_COLUMNS)]
    for (shape, _), rows in groups(run.rows).items():
        found = {r["system"]: r for r in rows if r["status"] == "ok"}
        ours, bound = found.get("ours/gcc"), best(rows).get("bound")
        if not ours or not bound or "ratio" not in bound:
            continue
        cells = []
        for _, systems in STEP_COLUMNS:
            ratios = [found[s]["ratio"] for s in systems if "ratio" in found.get(s, ())]
            cells.append(f"{min(ratios):.2f}" if ratios else "–")
        sizes = ours["sizes"].split(", ")[1]
        lines.append(f"| {shape.rsplit('_', 2)[0]} | {sizes} | {ours['n']} | {ours['past']} | {bound['us']:.1f} | "
                     f"{ours['us']:.1f} | {100 * bound['ratio']:.0f} % | {100 * ours['share']:.0f} % | " + " | ".join(cells) + " |")
    about = "\n".join("    " + line for line in facts(run, started))
    return ("\n".join(lines) + "\n\nBound: reading the weights, and the keys and values of the cache, once, on the same core, "
            "the faster of two ways. Share of bound: bound over ours, the median of the rounds; of peak: multiply-adds. The "
            "others: their time over ours in the same round, median of the rounds; where a library has several ways, the "
            "fastest.\n\n" + about + "\n")


def training(run, started):
    """In Markdown: steps of training, each pass beside the peers', memory and errors of the gradients."""
    systems = [s for s in dict.fromkeys(r["system"] for r in run.rows if r["status"] == "ok") if s != "ours/gcc"]
    theirs = lambda text: "".join(f" {text(s)} |" for s in systems)
    lines = ["| layer | threads | forward, ms | backward, ms | step, ms | share of peak: forward | backward |"
             + theirs(lambda s: s + ": forward, backward, step"),
             "| --- | --: | --: | --: | --: | --: | --: |" + theirs(lambda s: "--:")]
    memory = ["| layer | threads | ours/gcc |" + theirs(str), "| --- | --: | --: |" + theirs(lambda s: "--:")]
    errors = list(memory)
    for (shape, threads), rows in groups(run.rows).items():
        found = {r["system"]: r for r in rows if r["status"] == "ok"}
        ours = found.get("ours/gcc")
        if not ours:
            continue
        cell = lambda s, text: text(found[s]) if s in found else "–"
        ratios = lambda r: ", ".join(f"{r[key]:.2f}" for key in ("forward_ratio", "backward_ratio", "ratio"))
        lines.append(f"| {shape} | {threads} | {1e-3 * ours['forward_us']:.2f} | {1e-3 * ours['backward_us']:.2f} | "
                     f"{1e-3 * ours['us']:.2f} | {100 * ours['forward_share']:.0f} % | {100 * ours['backward_share']:.0f} % |"
                     + theirs(lambda s: cell(s, ratios)))
        for table_of, text in ((memory, lambda r: f"{r['process_bytes'] / 1e6:.0f}"),
                               (errors, lambda r: f"{r['gradient_error']:.1e}")):
            table_of.append(f"| {shape} | {threads} | {text(ours)} |" + theirs(lambda s: cell(s, text)))
    reasons = dict.fromkeys(f"- {r['shape']}, {r['system']}: {r['reason']}" for r in run.rows if r["status"] in ("wrong", "failed"))
    about = "\n".join("    " + line for line in facts(run, started))
    return ("\n".join(lines) + "\n\nOurs: medians of the rounds. Step: forward and backward; of ours also packing the weights, "
            "which the last step has changed, and clearing their gradients. The others: their time over ours in the same round, "
            "median of the rounds.\n\nMemory of the process at its largest, less what it took before the layer, MB: weights, "
            "gradients, what is kept, scratch.\n\n" + "\n".join(memory) + "\n\nLargest error of a gradient beside double "
            "precision, of the largest number of the same gradient.\n\n" + "\n".join([*errors, "", *reasons]) + "\n\n"
            + about + "\n")


NO_MORE = 1.05  # of a peer's error: who is as far off within noise of the data counts as equal


def types(run, started):
    """In Markdown: every system of fewer bits with its time and its errors; of a peer also its time over the fastest of ours
    that is off by no more."""
    lines = ["| layer | system | µs | of ours in f32 | rms error | largest error | over ours at no more error |",
             "| --- | --- | --: | --: | --: | --: | --- |"]
    for (shape, _), rows in groups(run.rows).items():
        good = sorted((r for r in rows if r["status"] == "ok" and "ratio" in r), key=lambda r: r["ratio"])
        ours = [r for r in good if r["peer"] == "ours"]
        for r in good:
            equal = next((o for o in ours if o["rms_error"] <= NO_MORE * r["rms_error"]), None)
            beside = "" if r["peer"] == "ours" or equal is None else f"{r['ratio'] / equal['ratio']:.2f} ({equal['formulation']})"
            lines.append(f"| {shape} | {r['system']} | {r['us']:.1f} | {r['ratio']:.2f} | {r['rms_error']:.1e} | {r['error']:.1e} "
                         f"| {beside} |")
    reasons = dict.fromkeys(f"- {r['shape']}, {r['system']}: {r['reason']}" for r in run.rows if r["status"] in ("wrong", "failed"))
    about = "\n".join("    " + line for line in facts(run, started))
    return ("\n".join(lines) + "\n\nµs: median of the rounds. Of ours in f32: over ours/gcc in the same round, median of the rounds. "
            "Errors beside double precision: root mean square over that of y; largest over the largest |y|. The last column: a "
            f"peer's time over that of the fastest of ours whose rms error is at most {NO_MORE} of the peer's.\n\n"
            + "\n".join([*reasons, ""]) + "\n" + about + "\n")


def memory_table(run):
    """Scratch as the sequence grows: the shapes gpt2, gpt2_256, ..., one row a system."""
    lengths = {}
    for r in run.rows:
        if r["status"] == "ok" and r["shape"].split("_")[0] == "gpt2" and r["threads"] == min(run.options.threads):
            n = int(r["sizes"].split(" x ")[1].split()[0])
            lengths.setdefault(r["system"], {})[n] = r
    columns = sorted({n for found in lengths.values() for n in found})
    if len(columns) < 2:
        return ""
    lines = ["", "Scratch of gpt2 as n grows (held: with packed weights and what the library keeps):",
             "  ".join([_pad("system", -22)] + [_pad(f"n = {n}", 21) for n in columns])]
    for system, found in lengths.items():
        cells = [f"{size(found[n]['scratch_bytes'])} ({size(found[n]['held_bytes'])})" if n in found else "" for n in columns]
        lines.append("  ".join([_pad(system, -22)] + [_pad(cell, 21) for cell in cells]))
    return "\n".join(lines) + "\n"


def write(run, started):
    """All files of a run but its plot: results.txt, .csv, .jsonl and .md."""
    text = "\n".join(facts(run, started)) + "\n\n"
    text += "\n".join(table(rows) for rows in groups(run.rows).values()) + memory_table(run)
    with open(run.path("results.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    with open(run.path("results.md"), "w", encoding="utf-8") as file:
        trained = any("gradient_error" in r for r in run.rows)
        cached = any(r["past"] is not None for r in run.rows)
        file.write((types if run.options.types else training if trained else steps if cached else markdown)(run, started))
    keys = [key for key in dict.fromkeys(k for r in run.rows for k in r) if not key.startswith("sample_")]
    with open(run.path("results.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, keys, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(run.rows)
    print(memory_table(run) + "\n" + "\n".join(facts(run, started)))
    print("\nwritten: " + " ".join(os.path.relpath(run.path(name)) for name in (
        "results.txt", "results.md", "results.csv", "results.jsonl", "ratio.svg") if os.path.exists(run.path(name))))
