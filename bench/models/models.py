#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whole models: attngen's C beside ONNX Runtime, OpenVINO, PyTorch and llama.cpp. `make bench-models` calls it.

    models.py --attngen PROGRAM --models DIR --out DIR [--cases WORDS] [--systems WORDS] [--rounds N] [--cores 0,1] [--isa avx2]
              [--untimed]

Each system is a process (systems.py) that is stopped while others are measured. Before a case is timed, what a system puts
out is compared with what transformers computes in double: in f32 off by more than 1e-4 of the largest number, it is not timed
(llama.cpp: 5e-3, see systems.py), in fewer bits by a root mean square of 0.7. In each round every system is timed once, in
shuffled order; figures are medians, ratios the medians of the rounds' ratios.
A prefill writes keys and values of all tokens and logits of the last one; each timed step is the same one, at the same past.
"""
import argparse
import ctypes
import glob
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(HERE, "..", "peers")]

import cases  # noqa: E402
import machine  # noqa: E402
import systems  # noqa: E402
from adapters import native  # noqa: E402

SECONDS = 0.1           # of a sample, at least one call
PREPARE_SECONDS = 1800  # torch.compile takes minutes
NO_MORE = 1.05          # of a peer's error: who is as far off within noise of the data counts as equal
PEERS = [name for name in systems.SYSTEMS if name != "attngen"]
OURS = "attngen/read"
# what holds libraries to AVX2: oneDNN (in OpenVINO and PyTorch too), PyTorch, MKL. ONNX Runtime has no such variable
LIMITS = {"avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}}


def get(name, folder):
    """MiniLM's weights are real, the others drawn."""
    if os.path.exists(os.path.join(folder, "config.json")):
        return
    if name != "minilm":
        subprocess.run([sys.executable, "-B", os.path.join(ROOT, "examples", "draw_model.py"), name, folder], check=True)
        return
    subprocess.run(["make", "-s", "-C", os.path.join(ROOT, "examples", "minilm"), "OUT=" + folder, "PYTHON=" + sys.executable,
                    "model"], check=True)
    for file in os.listdir(os.path.join(folder, "model")):
        os.rename(os.path.join(folder, "model", file), os.path.join(folder, file))


# ---- ours, from a checkpoint to a shared object and a packed file ----

def build(attngen, name, model, folder, isa, options=()):
    """What there is to say of the sizes: {"c": …, "object": …}, bytes. options: of import."""
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(os.path.join(folder, name + "_*")):
        os.remove(old)
    subprocess.run([attngen, "import", "--specs", model, "-o", folder, "--name", name, *options], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([attngen, "model", os.path.join(folder, name + ".layers"), "-o", folder, "--isa", isa], check=True)
    sources, objects = sorted(glob.glob(os.path.join(folder, name + "_*.c"))), []
    for source in sources:
        objects.append(source[:-2] + ".o")
        subprocess.run(["gcc", "-std=c11", "-O2", "-fPIC", "-c", "-I" + folder, "-o", objects[-1], source], check=True)
    family = cases.Checkpoint(model).family
    output = {"bert": ["-DOUTPUT=hidden"], "modernbert": ["-DOUTPUT=hidden"], "vit": ["-DPIXELS", "-DOUTPUT=classifier"]}
    output = output.get(family, ["-DDECODER", "-DOUTPUT=last_logits"])
    native.compile_shared(os.path.join(folder, "bench.so"), [os.path.join(HERE, "shim.c"), *objects], flags=[
        "-std=gnu11", "-O2", "-Wall", "-Wextra", "-I" + folder, f"-DNAME={name}", f"-DPREFIX={name.upper()}",
        f'-DHEADER="{name}_model.h"', *output], libraries=["-lm"])
    pack(folder, model)
    lines = subprocess.run(["size", *objects], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    return {"c": sum(map(os.path.getsize, sources)), "object": sum(int(n) for line in lines for n in line.split()[:2])}


def pack(folder, model):
    """In a process of its own, whose memory goes with it."""
    child = os.fork()
    if child == 0:
        error = 1
        try:
            lib, checkpoint = ctypes.CDLL(os.path.join(folder, "bench.so")), cases.Checkpoint(model).bytes
            lib.bench_bytes.restype = ctypes.c_size_t
            file, work = systems.huge(lib.bench_bytes(0)), systems.huge(lib.bench_bytes(1))
            at = lambda array: ctypes.c_void_p(array.ctypes.data)
            error = lib.bench_pack(at(file), at(checkpoint), ctypes.c_size_t(checkpoint.size), at(work))
            if error == 0:
                file.tofile(os.path.join(folder, "packed.bin"))
        finally:
            os._exit(error != 0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit(f"bench-models: {model} cannot be packed")


# ---- the process of a system ----

class Worker:
    def __init__(self, system, about_path, environment, cores, log):
        self.system, self.log = system, log
        here, there = socket.socketpair()
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-B", os.path.join(HERE, "systems.py"), system, about_path, str(there.fileno())],
                pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, **environment}, start_new_session=True, preexec_fn=lambda: machine.pin(cores))
        there.close()
        here.settimeout(PREPARE_SECONDS)
        self.wire = here.makefile("rw", encoding="utf-8")
        self.facts = self.answer()

    def answer(self):
        """The next answer; afterwards the process is stopped."""
        try:
            line = self.wire.readline()
        except TimeoutError:
            line = ""
        if not line:
            self.close()
            return {"error": f"the process died or hangs, see {self.log}"}
        self.signal(signal.SIGSTOP)
        return json.loads(line)

    def ask(self, **request):
        self.signal(signal.SIGCONT)
        try:
            self.wire.write(json.dumps(request) + "\n")
            self.wire.flush()
        except BrokenPipeError:
            pass
        return self.answer()

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def close(self):
        self.signal(signal.SIGKILL)
        self.process.wait()


# ---- a run ----

def ways_of(kind):
    return (*kind.WAYS, *kind.TYPED)


def chosen(run, family):
    """(library, way) of the systems that were asked for: ours in f32 first, always; notes of those that have not this model."""
    for library, kind in systems.SYSTEMS.items():
        for way in ways_of(kind):
            system = f"{library}/{way}"
            if system != OURS and run.systems and not {library, system} & set(run.systems):
                continue
            reason = kind.why_not(family, way)
            if reason:
                run.notes.setdefault(f"{family}, {system}: {reason}")
            else:
                yield library, way


def start(run, name, threads):
    """The workers of a model that load."""
    folder, workers = os.path.join(run.out, name), []
    about = {"model": os.path.join(run.models, name), "folder": folder, "threads": threads, "cores": run.cores[:threads]}
    path = os.path.join(folder, "about.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(about, file)
    family = cases.Checkpoint(about["model"]).family
    for library, way in chosen(run, family):
        kind, system = systems.SYSTEMS[library], f"{library}/{way}"
        show(f"{name}, {threads} thread(s): loading {system}")
        environment = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "OMP_NUM_THREADS": str(threads),
                       "MKL_NUM_THREADS": str(threads), **run.limits, **kind.environment}
        log = os.path.join(folder, f"{system}-{threads}.log".replace("/", "-").replace(" ", "_"))
        worker = Worker(system, path, environment, run.cores[:threads], log)
        if "error" in worker.facts:
            run.notes.setdefault(f"{name}, {system}: {worker.facts['error']}")
            worker.close()
        else:
            if worker.facts["version"]:
                run.versions[library] = worker.facts["version"]
            workers.append(worker)
    return workers


def in_double(run, name):
    """Writes what transformers computes in double of each case of a model."""
    show(f"{name}: transformers in double")
    folder = os.path.join(run.out, name)
    path = os.path.join(folder, "about.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"model": os.path.join(run.models, name), "folder": folder}, file)
    worker = Worker(f"{systems.ORIGIN}/double", path, {}, run.usable, os.path.join(folder, "double.log"))
    try:
        for case in (case for case in run.cases if case.model == name):
            answer = worker.ask(case=cases.CASES.index(case), output=right_of(run, case)) if "error" not in worker.facts \
                else worker.facts
            if "error" in answer:
                raise SystemExit(f"bench-models: {case.label}: transformers in double: {answer['error']}")
    finally:
        worker.close()


def right_of(run, case):
    return os.path.join(run.out, case.model, f"double-{cases.CASES.index(case)}.npy")


def errors(output, right, lengths):
    """largest: of the largest number; rms: of the root mean square; cosine, of encoders of text: the least one of a sentence's
    mean row beside that in double; same, of classes and next tokens: the share of rows whose largest number is the same."""
    if lengths is None:
        some, others, more = right, output, {"same": float((output.argmax(-1) == right.argmax(-1)).mean())}
    else:
        seen = np.arange(right.shape[1]) < lengths[:, None]
        means = [(of * seen[..., None]).sum(1) / lengths[:, None] for of in (output, right)]
        cosines = (means[0] * means[1]).sum(-1) / np.sqrt(np.square(means[0]).sum(-1) * np.square(means[1]).sum(-1))
        some, others, more = right[seen], output[seen], {"cosine": float(cosines.min())}
    off = others - some
    return {"largest": float(np.abs(off).max() / np.abs(some).max()),
            "rms": float(np.sqrt(np.square(off).mean() / np.square(some).mean())), **more}


def prepare(run, case, workers):
    """The workers whose output is right; {system: bytes of memory}; {system: errors}."""
    ready, memory, off = [], {}, {}
    path, checkpoint = os.path.join(run.out, case.model, "output.npy"), cases.Checkpoint(os.path.join(run.models, case.model))
    right = np.load(right_of(run, case))
    lengths = cases.inputs(case, checkpoint).get("lengths") if checkpoint.family in systems.ENCODERS[:2] else None
    for worker in workers:  # ours first
        show(f"{case.label}: preparing {worker.system}")
        if os.path.exists(path):
            os.remove(path)
        answer = worker.ask(case=cases.CASES.index(case), output=path)
        if "error" in answer:
            run.notes.setdefault(f"{case.label}, {worker.system}: {answer['error']}")
            continue
        if not os.path.exists(path):
            continue  # it has an output like another's
        output = np.load(path)
        if output.size != right.size:
            run.notes.setdefault(f"{case.label}, {worker.system}: an output of {output.shape}")
            continue
        off[worker.system] = of = errors(output.astype(np.float64).reshape(right.shape), right, lengths)
        library, way = worker.system.split("/")
        kind = systems.SYSTEMS[library]
        which, most = ("rms", kind.rms_error) if way in kind.TYPED else ("largest", kind.largest_error)
        if not of[which] <= most:  # NaN too
            run.notes.setdefault(f"{case.label}, {worker.system}: {which} error {of[which]:.2g}; not timed")
            continue
        memory[worker.system] = answer["memory"]
        ready.append(worker)
    return ready, memory, off


def measure(run, case, threads, workers):
    """{system: ms of each round}, GFLOP/s of each round's peak"""
    peak, order = machine.Peak(run.peak_library, run.isa, run.cores[:threads]), list(workers)
    times, peaks, rng = {worker.system: [] for worker in workers}, [], random.Random(1)
    for number in range(run.rounds):
        show(f"{case.label}, {threads} thread(s): round {number + 1} of {run.rounds}")
        rng.shuffle(order)
        peaks.append(peak.gflops())
        for worker in list(order):
            answer = worker.ask(seconds=run.seconds)
            if "error" in answer:
                run.notes.setdefault(f"{case.label}, {worker.system}: {answer['error']}")
                order.remove(worker)
                times.pop(worker.system)
            else:
                times[worker.system].append(float(np.median(answer["ms"])))
    if not fastest(times, "attngen"):
        raise SystemExit("bench-models: " + "; ".join(run.notes))
    return {system: np.array(of) for system, of in times.items()}, np.array(peaks)


def fastest(times, library):
    """(way, ms of each round) of a library's fastest way in f32, or None."""
    of = [(way, times[f"{library}/{way}"]) for way in systems.SYSTEMS[library].WAYS if f"{library}/{way}" in times]
    return min(of, key=lambda way_ms: np.median(way_ms[1]), default=None)


def bench(run):
    for name in dict.fromkeys(case.model for case in run.cases):
        show(f"{name}: emitting, compiling, packing")
        model = os.path.join(run.models, name)
        get(name, model)
        folder = os.path.join(run.out, name)
        run.sizes[name] = build(run.attngen, name, model, folder, run.isa)
        for library, way in chosen(run, cases.Checkpoint(model).family):
            if library == "attngen" and way in systems.OPTIONS:
                show(f"{name}: emitting, compiling, packing {way}")
                build(run.attngen, name, model, os.path.join(folder, way), run.isa, systems.OPTIONS[way])
        in_double(run, name)
        for threads in run.threads:
            machine.pin(run.cores[:threads])
            workers = start(run, name, threads)
            try:
                for worker in workers:
                    if worker.system == OURS:
                        run.sizes[name].update({f"{key}_{threads}": value for key, value in worker.facts["facts"].items()})
                for case in (case for case in run.cases if case.model == name):
                    if case.every and threads > run.threads[0]:
                        continue
                    ready, memory, off = prepare(run, case, workers)
                    if not ready or ready[0].system != OURS:
                        raise SystemExit("bench-models: " + "; ".join(run.notes))
                    row = {"case": case.label, "threads": threads, "errors": off, "memory": memory}
                    if case.every:
                        run.tokens[name] = off
                        continue
                    if run.untimed:
                        run.rows.append(row)
                        continue
                    times, peaks = measure(run, case, threads, ready)
                    flops = 2e-6 * cases.multiply_adds(case, cases.Checkpoint(model))  # GFLOP/s is flops / ms
                    row.update(flops=flops, peaks=peaks.tolist(), ms={system: of.tolist() for system, of in times.items()})
                    run.rows.append(row)
                    with open(os.path.join(run.out, "results.json"), "w", encoding="utf-8") as file:
                        json.dump({"rows": run.rows, "sizes": run.sizes, "versions": run.versions, "tokens": run.tokens}, file)
                    show("")
                    print(line(row), flush=True)
            finally:
                for worker in workers:
                    worker.close()
                machine.pin(run.usable)


# ---- tables ----

def heading():
    return "| model: case | threads | attngen, ms | share of peak | " + " | ".join(PEERS) + " |\n" + \
           "| --- | --: | --: | --: |" + " --: |" * len(PEERS)


def line(row):
    times = {system: np.array(ms) for system, ms in row["ms"].items()}
    ours = fastest(times, "attngen")[1]
    share = np.median(row["flops"] / ours / np.array(row["peaks"]))
    ratios = []
    for library in PEERS:
        found = fastest(times, library)
        ratios.append(f"{np.median(found[1] / ours):.2f}" if found else "–")
    return f"| {row['case']} | {row['threads']} | {np.median(ours):.2f} | {100 * share:.0f} % | " + " | ".join(ratios) + " |"


def beside_types(run, row):
    """Every system of a case with its time and its errors, by time; of a peer also its time over the fastest of ours that is off
    by no more."""
    times = {system: np.array(ms) for system, ms in row["ms"].items()}
    f32 = fastest(times, "attngen")[1]
    ratios = {system: float(np.median(ms / f32)) for system, ms in times.items()}
    order = sorted(times, key=ratios.get)
    every = run.tokens.get(row["case"].split(":")[0], {})
    for system in order:
        off, equal = row["errors"][system], None
        if not system.startswith("attngen/"):
            equal = next((of for of in order if of.startswith("attngen/")
                          and row["errors"][of]["rms"] <= NO_MORE * off["rms"]), None)
        also = every.get(system, {}).get("same")
        also = f"{off['cosine']:.5f}" if "cosine" in off else "–" if also is None else f"{100 * also:.1f} %"
        beside = f"{np.median(times[system] / times[equal]):.2f} ({equal.split('/')[1]})" if equal else ""
        yield f"| {row['case']} | {row['threads']} | {system} | {np.median(times[system]):.2f} | {ratios[system]:.2f} | " \
              f"{off['rms']:.1e} | {also} | {beside} |"


def largest_errors(run):
    found = {}
    for row in run.rows:
        for system in row["ms"]:
            found[system] = max(found.get(system, 0), row["errors"][system]["largest"])
    return ", ".join(f"{system} {error:.1e}" for system, error in found.items())


def report(run, command):
    one = lambda row, system: f"{np.median(row['ms'][system]):.2f}" if system in row["ms"] else "–"
    every = [f"{library}/{way}" for library, kind in systems.SYSTEMS.items() for way in ways_of(kind)
             if any(f"{library}/{way}" in row["ms"] for row in run.rows)]
    plain = [system for system in every if system.split("/")[1] in systems.SYSTEMS[system.split("/")[0]].WAYS]
    lines = [f"{run.cpu.model}, {run.isa}, {time.strftime('%Y-%m-%d')}, `{command}`, medians of {run.rounds} rounds.",
             "Versions: " + "; ".join(f"{library} {version}" for library, version in run.versions.items()) + ".", "",
             "In f32, of each library the fastest way; its figure is its time over ours.", "",
             heading(), *(line(row) for row in run.rows), "",
             "Every way in f32, ms:", "", "| model: case | threads | " + " | ".join(plain) + " |",
             "| --- | --: |" + " --: |" * len(plain)]
    lines += [f"| {row['case']} | {row['threads']} | " + " | ".join(one(row, system) for system in plain) + " |"
              for row in run.rows]
    if plain != every:
        lines += ["", "In f32 and in fewer bits, by time. Of ours in f32: over the faster of read and mapped in the same round. "
                  "Errors are beside transformers in double: root mean square over that of the output; the least cosine of a "
                  "sentence's mean row, or how many next tokens are the same behind each of 512. The last column: a peer's time "
                  f"over that of the fastest of ours whose rms error is at most {NO_MORE} of the peer's.", "",
                  "| model: case | threads | system | ms | of ours in f32 | rms error | cosine, or tokens | "
                  "over ours at no more error |",
                  "| --- | --: | --- | --: | --: | --: | --: | --- |"]
        lines += [text for row in run.rows for text in beside_types(run, row)]
    lines += ["", f"Largest error beside transformers in double, of the largest number: {largest_errors(run)}.", "",
              f"C and object: {run.isa} and the scalar code that is always there, gcc -O2, code and constants. Memory: the "
              "largest of the process over its cases, less what Python took before the library, MB.", "",
              "| model | C, KB | object, KB | packed file, MB | arena, MB | opening, ms | " + " | ".join(every) + " |",
              "| --- |" + " --: |" * (5 + len(every))]
    for name, sizes in run.sizes.items():
        most = max(run.threads)
        rows = [row["memory"] for row in run.rows if row["case"].startswith(name + ":")]
        memory = [max((row[system] for row in rows if system in row), default=None) for system in every]
        lines.append(f"| {name} | {sizes['c'] / 1e3:.0f} | {sizes['object'] / 1e3:.0f} | {sizes[f'packed_{most}'] / 1e6:.1f} | "
                     f"{sizes[f'arena_{most}'] / 1e6:.1f} | {sizes[f'open_ms_{most}']:.2f} | " +
                     " | ".join("–" if of is None else f"{of / 1e6:.0f}" for of in memory) + " |")
    lines += ["", *(f"- {note}" for note in run.notes)]
    with open(os.path.join(run.out, "results.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines))


def agreement(run):
    """How far each system's output is off, models side by side: in place of a report where nothing was timed."""
    found = {}  # {model: {system: largest errors of the cases}}
    for row in run.rows:
        of = found.setdefault(row["case"].split(":")[0], {})
        for system, off in row["errors"].items():
            worst = of.setdefault(system, dict(off))
            worst.update(rms=max(worst["rms"], off["rms"]),
                         **({"cosine": min(worst["cosine"], off["cosine"])} if "cosine" in off else {}))
    for name, of in run.tokens.items():
        found.setdefault(name, {}).update(of)
    order = dict.fromkeys(system for of in found.values() for system in of)
    last = {name: "least cosine" if any("cosine" in off for off in of.values()) else
            "same tokens" if name in run.tokens else "same classes" for name, of in found.items()}
    lines = ["| system | " + " | ".join(f"{name}: rms error | {last[name]}" for name in found) + " |",
             "| --- |" + " --: |" * (2 * len(found))]
    for system in order:
        cells = []
        for name, of in found.items():
            off = of.get(system)
            cells += [f"{off['rms']:.1e}", f"{off['cosine']:.5f}" if "cosine" in off else f"{100 * off['same']:.1f} %"] \
                if off else ["–", "–"]
        lines.append(f"| {system} | " + " | ".join(cells) + " |")
    print("\n" + "\n".join(lines + ["", *(f"- {note}" for note in run.notes)]))


def show(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main():
    usable = sorted(os.sched_getaffinity(0))
    words = lambda text: [word.strip() for word in text.split(",") if word.strip()]
    numbers = lambda text: [int(word) for word in text.replace(",", " ").split()]
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--attngen", required=True, help="the program")
    p.add_argument("--models", required=True, help="folder of the models' folders; what is missing is fetched or drawn")
    p.add_argument("--out", required=True, help="folder of the results")
    p.add_argument("--cases", type=words, default=[], help="parts of cases' names: 'minilm: 1 x 16, step at 64'; default: all")
    p.add_argument("--systems", type=words, default=[], help="libraries, or ways of them: PyTorch/compiled, llama.cpp")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--seconds", type=float, default=SECONDS, help="of a sample")
    p.add_argument("--cores", type=numbers, default=usable, help="the first one for one thread")
    p.add_argument("--threads", type=numbers, default=[1, 2], help="those for which there are cores")
    p.add_argument("--isa", default="", help="ours for this set, and libraries held to it where they can be; default: the best")
    p.add_argument("--untimed", action="store_true", help="only how far outputs are off, in one table")
    p.add_argument("--list", action="store_true", help="say which cases and systems there are")
    p.add_argument("--command", default="models.py")
    run = p.parse_args()
    run.cases = [case for case in cases.CASES if not run.cases or any(word in case.label for word in run.cases)]
    ways = [f"{library}/{way}" for library, kind in systems.SYSTEMS.items() for way in ways_of(kind)]
    if run.list:
        print("\n".join([case.label for case in run.cases] + ways))
        return 0
    unknown = [word for word in run.systems if word not in ways and word not in systems.SYSTEMS]
    if unknown or not run.cases:
        print("bench-models: unknown: " + (", ".join(unknown) or "these cases") + "; MODELS_LIST=1 lists what there is",
              file=sys.stderr)
        return 2
    run.threads = [n for n in run.threads if n <= len(run.cores)]
    run.usable, run.cpu, run.out = usable, machine.cpu(), os.path.abspath(run.out)
    run.models, run.isa = os.path.abspath(run.models), run.isa or run.cpu.isa
    run.limits = LIMITS.get(run.isa, {}) if run.isa != run.cpu.isa else {}
    run.rows, run.sizes, run.versions, run.tokens, run.notes = [], {}, {}, {}, {}
    os.makedirs(run.out, exist_ok=True)
    peers = os.path.join(HERE, "..", "peers", "c", "peak.c")
    run.peak_library = native.compile_shared(
        os.path.join(run.out, "peak.so"), [peers, *(os.path.join(ROOT, "runtime", *of) for of in (("timing", "peak.c"), ("system", "clock.c")))],
        flags=["-std=gnu11", "-O2", "-I" + os.path.join(ROOT, "runtime")])
    if not run.untimed:
        print(heading(), flush=True)
    code = 0
    try:
        bench(run)
    except KeyboardInterrupt:
        print("\nbench-models: interrupted; what has been measured is kept", file=sys.stderr)
        code = 130
    if run.untimed:
        agreement(run)
    elif run.rows:
        report(run, run.command)
    return code


if __name__ == "__main__":
    sys.exit(main())
