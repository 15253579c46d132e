# SPDX-License-Identifier: MIT
"""make bench-peers: attngen's layers beside other libraries, side by side in one run.

For each shape and number of threads, every system gets a process of its own, prepares the layer and computes it; what
disagrees with a double-precision reference is not timed. Then come rounds: in each, every system is timed once, in
shuffled order, with the machine's multiply-add peak measured before and after. All other processes are stopped
meanwhile. README.md in this folder says how to read the results.
"""
import argparse
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import time

import numpy as np

import adapters
import layers
import machine
import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BASE = ("ours/gcc", "ours/gcc-sequences")  # ratios are over the faster one
FACTS = ("rms_error", "scratch_bytes", "held_bytes", "process_bytes", "memory_from", "gradient_error")  # of a worker, in its row
LARGEST_ERROR = 1e-4      # of the largest |y|; f32 layers come out at 1e-7 ... 1e-5
TYPES_ERROR = 0.25        # with --types: rms of the error over that of y. Another layer is off by 1 or more, 4 bits by 0.1
PREPARE_SECONDS = 400     # a compiler that takes longer is given up
SAMPLE_SECONDS = 0.01     # a sample is as many calls as fit, at least one
WARM_SECONDS = 0.005      # calls before each sample that are not timed
MOST_WAITED = 0.02        # share of a sample in which others had the core; it is taken again, at most twice
TIME_SECONDS = 120        # a single sample that takes longer is given up


class Worker:
    """The process of one system; stopped whenever it is not working for us."""

    def __init__(self, peer, formulation, run, paths, environment, log):
        here, there = socket.socketpair()
        here.settimeout(PREPARE_SECONDS)
        self.peer, self.formulation, self.system = peer, formulation, f"{peer}/{formulation}"
        self.log_path, self.y_path = log, paths["y"]
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "worker.py"), str(there.fileno()), peer, formulation, paths["job"],
                 paths["tensors"], paths["y"]],
                pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=HERE,
                env={**os.environ, **environment}, start_new_session=True, preexec_fn=lambda: machine.pin(run.cores))
        there.close()
        self.wire, self.socket = here.makefile("rw", encoding="utf-8"), here
        self.facts = self._answer()

    def _answer(self):
        """The next answer; afterwards the process is stopped. A process that died or hangs answers a failure."""
        try:
            line = self.wire.readline()
        except TimeoutError:
            self.close()
            return {"status": "failed", "reason": f"no answer within {self.socket.gettimeout():.0f} s"}
        if not line:
            code = self.process.wait()
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                last = [text.strip() for text in file if text.strip()][-1:]
            died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return {"status": "failed", "reason": ": ".join([f"the process died, {died}", *last])[:300]}
        self._signal(signal.SIGSTOP)
        return json.loads(line)

    def _signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def time(self, warm, calls):
        """(ns of one call, the mean of `calls` calls after `warm` others; share of the time that others had the core; ns of
        each pass of a call, if it has passes).

        (None, 0, {}) if the process failed."""
        self.socket.settimeout(TIME_SECONDS)
        self._signal(signal.SIGCONT)
        self.wire.write(json.dumps({"warm": warm, "calls": calls}) + "\n")
        self.wire.flush()
        answer = self._answer()
        self.facts.update(reason=answer.get("reason", ""))
        return answer.get("ns"), answer.get("waited", 0), answer.get("passes", {})

    def close(self):
        self._signal(signal.SIGKILL)
        self.process.wait()


class Run:
    """One invocation: what was asked for, and where results go."""

    def __init__(self, options):
        self.options, self.cpu = options, machine.cpu()
        self.folder = os.path.abspath(options.out)
        for name in ("work", "log"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        self.cores, self.rows, self.versions = (), [], {}
        peak = os.path.join(self.folder, "work", "peak.so")
        subprocess.run([*shlex.split(options.cc), "-O2", "-std=gnu11", "-fPIC", "-shared", "-pthread",
                        "-I" + os.path.join(ROOT, "runtime"), "-o", peak, os.path.join(HERE, "c", "peak.c"),
                        *(os.path.join(ROOT, "runtime", *of) for of in (("timing", "peak.c"), ("system", "clock.c")))], check=True)
        self.peak_library = peak
        self.raw = open(os.path.join(self.folder, "results.jsonl"), "w", encoding="utf-8")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def add(self, row):
        self.rows.append(row)
        self.raw.write(json.dumps(row) + "\n")
        self.raw.flush()


def wanted(name, words):
    """Does a system "peer/formulation" match one of the words, each a peer or a system? No words match everything."""
    return not words or name in words or name.split("/")[0] in words


def formulations(peer, options):
    if options.types:
        return (*(("gcc",) if peer.name == "ours" else ()), *peer.typed)
    return (*peer.formulations, *(peer.beside if options.before else ()))


def gradient_error(found, gradients):
    """What gradients change of a worker's facts: the largest error of any, of its largest number (db_k, a sum that is zero but
    for rounding, of db_q's)."""
    largest = lambda name: np.abs(gradients["db_q" if name == "db_k" else name]).max()
    errors = {name: float(np.abs(found[name] - right).max() / largest(name))
              if name in found and found[name].shape == right.shape else np.inf for name, right in gradients.items()}
    worst = max(errors, key=lambda name: np.nan_to_num(errors[name], nan=np.inf))
    if errors[worst] <= LARGEST_ERROR:
        return {"gradient_error": errors[worst]}
    return {"status": "wrong", "reason": f"{worst} differs by {errors[worst]:.2g} of its largest number"}


def prepare(run, case, keys, threads, tensors_path, reference, gradients):
    """The workers of all systems of one case, those whose y is right; the others are rows already."""
    largest = float(np.abs(reference).max())
    job_path = run.path("work", "job.json")
    with open(job_path, "w", encoding="utf-8") as file:
        json.dump({"name": case.name, "keys": keys, "threads": threads, "cores": run.cores,
                   "folder": run.path("work"), "attngen": os.path.abspath(run.options.attngen),
                   "before": os.path.abspath(run.options.before) if run.options.before else ""}, file)
    workers = []
    for name in adapters.PEERS:
        try:
            peer = adapters.peer(name)
        except Exception as error:  # an adapter that does not even load
            run.add(row(case, threads, f"{name}/", status="failed", reason=str(error)))
            continue
        for formulation in formulations(peer, run.options):
            system = f"{name}/{formulation}"
            if not (wanted(system, run.options.systems) or system == "ours/gcc" or formulation in peer.beside):
                continue
            reason = peer.lacks(case, formulation, threads)
            if reason:
                run.add(row(case, threads, system, status="unsupported", reason=reason))
                continue
            show(f"{case.name}, {threads} thread{'s' * (threads > 1)}: preparing {system}")
            paths = {"job": job_path, "tensors": tensors_path, "y": run.path("work", system.replace("/", "-") + ".npy")}
            environment = {"GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),  # huge pages
                           "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1",
                           "PYTHONDONTWRITEBYTECODE": "1", **peer.environment(threads, run.cpu)}
            log = run.path("log", f"{case.name}-{threads}-{system.replace('/', '-')}.log")
            worker = Worker(name, formulation, run, paths, environment, log)
            facts = worker.facts
            if facts["status"] == "ok":
                run.versions.update(facts.pop("versions"))
                y = np.load(worker.y_path)
                worker.error = float(np.abs(y - reference).max()) / largest if y.shape == reference.shape else np.inf
                off = lambda of: float(np.sqrt(np.square(of).mean()))
                facts["rms_error"] = off(y - reference) / off(reference) if y.shape == reference.shape else np.inf
                if not peer.computes:
                    worker.error = 0.0
                elif run.options.types:
                    if not facts["rms_error"] <= TYPES_ERROR:
                        facts = {"status": "wrong", "reason": f"y is off by {facts['rms_error']:.2g} of its root mean square"}
                elif not worker.error <= LARGEST_ERROR:  # NaN too
                    facts = {"status": "wrong", "reason": f"y differs by {worker.error:.2g} of the largest |y|"}
                elif case.train:
                    with np.load(worker.y_path[:-len(".npy")] + "_gradients.npz") as found:
                        facts.update(gradient_error(found, gradients))
            if facts["status"] == "ok":
                workers.append(worker)
            else:
                worker.close()
                run.add(row(case, threads, system, **facts))
    return workers


def row(case, threads, system, **fields):
    peer, _, formulation = system.partition("/")
    return {"shape": case.name, "sizes": case.describe(), "threads": threads, "system": system, "peer": peer,
            "formulation": formulation, "multiply_adds": case.multiply_adds(), "n": case.n, "past": case.past, **fields}


def measure(run, case, threads, workers):
    """Rounds over the workers; a row for each."""
    options, peak = run.options, machine.Peak(run.peak_library, run.cpu.isa, run.cores)
    order, samples, plans = list(workers), {w.system: [] for w in workers}, {}
    for worker in workers:  # how long is one call?
        first = worker.time(0, 1)[0]
        again = first and worker.time(*((1, 5) if first < 1e7 else (0, 1)))[0]
        if not again:
            run.add(row(case, threads, worker.system, status="failed", reason=worker.facts["reason"]))
            order.remove(worker)
            continue
        seconds = 1e-9 * again
        plans[worker.system] = (max(1, round(WARM_SECONDS / seconds)) if seconds < 1 else 0,
                                max(1, round(SAMPLE_SECONDS / seconds)), seconds)
    slowest = max((plan[2] for plan in plans.values()), default=0)
    rounds = options.rounds or (15 if slowest < 0.1 else 9 if slowest < 0.5 else 5)
    rng = random.Random(options.seed)
    try:
        for number in range(rounds):
            show(f"{case.name}, {threads} thread{'s' * (threads > 1)}: round {number + 1} of {rounds}, {len(order)} systems")
            rng.shuffle(order)
            for worker in list(order):
                warm, calls, seconds = plans[worker.system]
                # very slow systems: five samples are enough, if they fit into the budget of time; never fewer than two
                if number >= 2 and number * seconds * (calls + warm) > options.budget:
                    continue
                sample = undisturbed(peak, worker, warm, calls)
                if sample is None:
                    order.remove(worker)
                else:
                    samples[worker.system].append(sample)
    finally:  # Ctrl-C keeps what there is
        finish(run, case, threads, workers, samples)


def undisturbed(peak, worker, warm, calls):
    """(us of a call, GFLOP/s of the peak around it, share of time lost to others, us of each of its passes if it has any);
    None if the process failed.

    A sample during which something else ran on the core is taken again; the least disturbed of three counts."""
    tries = []
    while not tries or tries[-1][2] > MOST_WAITED and len(tries) < 3:
        before = peak.gflops()
        ns, waited, passes = worker.time(warm, calls)
        if ns is None:
            return None
        tries.append((1e-3 * ns, (before + peak.gflops()) / 2, waited, *(1e-3 * of for of in passes.values())))
    return min(tries, key=lambda sample: sample[2])


def finish(run, case, threads, workers, samples):
    """A row of statistics for each worker that has samples."""
    taken = [(worker, *np.array(samples[worker.system]).T) for worker in workers if samples[worker.system]]
    base, *base_passes = min(((us, *passes) for worker, us, _, _, *passes in taken if worker.system in BASE),
                             key=lambda of: np.median(of[0]), default=((),))
    flops = 2e-3 * case.multiply_adds()  # GFLOP/s is flops / us
    for worker, us, peaks, waited, *passes in taken:
        both = min(len(us), len(base))  # rounds; the n-th sample of every system is from the n-th
        facts = {key: worker.facts[key] for key in FACTS if key in worker.facts}
        if both:
            facts.update(ratio=float(np.median(us[:both] / base[:both])), ratio_rounds=both)
        for (name, of), each, ours in zip(case.passes().items() if passes else (), passes, base_passes):
            facts.update({f"{name}_us": float(np.median(each)), f"{name}_ratio": float(np.median(each[:both] / ours[:both])),
                          f"{name}_share": float(np.median(2e-3 * of / each / peaks))})
        run.add(row(case, threads, worker.system, status="ok", us=float(np.median(us)), us_min=float(us.min()),
                    us_q1=float(np.quantile(us, 0.25)), us_q3=float(np.quantile(us, 0.75)), samples=len(us),
                    share=float(np.median(flops / us / peaks)), share_fastest=float(flops / us.min() / peaks.max()),
                    peak_gflops=float(np.median(peaks)),
                    error=worker.error, disturbed=int((waited > MOST_WAITED).sum()), sample_us=us.round(3).tolist(),
                    sample_peaks=peaks.round(2).tolist(), **facts))


def show(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def bench(run, shapes):
    options = run.options
    for name in options.shapes:
        case = shapes[name]
        tensors = layers.draw_tensors(case, options.seed)
        reference, gradients = layers.reference(case, tensors), layers.gradients(case, tensors) if case.train else {}
        tensors_path = run.path("work", "tensors.npz")
        np.savez(tensors_path, **tensors)
        keys = {**dict(case.spec), "batch": case.batch, "n": case.n, "m": case.m,
                **({} if case.past is None else {"past": case.past})}
        for threads in options.threads:
            run.cores = options.cores[:threads]
            workers = []
            machine.pin(run.cores)
            try:
                workers = prepare(run, case, keys, threads, tensors_path, reference, gradients)
                measure(run, case, threads, workers)
            finally:
                for worker in workers:
                    worker.close()
                machine.pin(options.cores)
            show("")
            print(report.table([r for r in run.rows if r["shape"] == name and r["threads"] == threads]), flush=True)


def parse(arguments):
    usable = sorted(os.sched_getaffinity(0))
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words = lambda text: text.replace(",", " ").split()
    p.add_argument("--attngen", required=True, help="the program")
    p.add_argument("--before", default="", help="another attngen, whose layers are measured too")
    p.add_argument("--out", required=True, help="folder of the results")
    p.add_argument("--cc", default="gcc")
    p.add_argument("--examples", default=os.path.join(ROOT, "examples"), help="folder of specs; empty: none")
    p.add_argument("--table", default=os.path.join(HERE, "shapes.txt"), help="shapes besides the examples")
    p.add_argument("--types", action="store_true", help="formulations with weights and operands of fewer bits")
    p.add_argument("--shapes", type=words, default=[], help="names; default: all")
    p.add_argument("--systems", type=words, default=[], help="peers or peer/formulation; default: all; ours always")
    p.add_argument("--rounds", type=int, default=0, help="default: 5 to 15, more for small layers")
    p.add_argument("--threads", type=words, default=["1", "2"])
    p.add_argument("--cores", type=words, default=usable, help="which cores, the first for one thread")
    p.add_argument("--budget", type=float, default=20, help="seconds that a slow system may take for a shape")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--list", action="store_true", help="say which shapes and systems there are")
    p.add_argument("--command", default="", help="what to print as the command of this run")
    options = p.parse_args([a for a in arguments if a])
    options.cores = [int(core) for core in options.cores]
    options.threads = [int(t) for t in options.threads]
    enough = [t for t in options.threads if t <= len(options.cores)]
    for t in set(options.threads) - set(enough):
        print(f"bench-peers: {t} threads left out: only {len(options.cores)} core(s) (PEERS_CORES)", file=sys.stderr)
    options.threads = enough
    return options


def main():
    options = parse(sys.argv[1:])
    shapes = layers.read_shapes(options.examples, options.table)
    if options.list:
        for name, case in shapes.items():
            print(f"{name:18} {case.describe()}")
        for name in adapters.PEERS:
            print(name + ": " + ", ".join(formulations(adapters.peer(name), options)))
        return 0
    options.shapes = options.shapes or list(shapes)
    unknown = [name for name in options.shapes if name not in shapes]
    known = [f"{name}/{f}" for name in adapters.PEERS for f in formulations(adapters.peer(name), options)]
    unknown += [word for word in options.systems if word not in known and word not in adapters.PEERS]
    if unknown:
        print("bench-peers: unknown: " + " ".join(unknown) + "; PEERS_LIST=1 lists what there is", file=sys.stderr)
        return 2
    if options.before and not (os.path.isfile(options.before) and os.access(options.before, os.X_OK)):
        print(f"bench-peers: {options.before} cannot be run; PEERS_BEFORE names an attngen", file=sys.stderr)
        return 2
    run = Run(options)
    started = time.strftime("%Y-%m-%d %H:%M")
    code = 0
    try:
        bench(run, shapes)
    except KeyboardInterrupt:
        print("\nbench-peers: interrupted; what has been measured is kept", file=sys.stderr)
        code = 130
    try:
        import plot
        plot.write(run, started)
    except ImportError as error:
        print(f"bench-peers: no plot: {error}")
    report.write(run, started)
    return code


if __name__ == "__main__":
    sys.exit(main())
