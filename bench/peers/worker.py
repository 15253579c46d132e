# SPDX-License-Identifier: MIT
"""The process of one system: prepares it, then times it whenever the benchmark asks.

    worker.py FD PEER FORMULATION JOB.json TENSORS.npz Y.npy

FD is a socket; each request and each answer is a line of JSON. The benchmark stops this process (SIGSTOP) between its
turns, so libraries may let their threads spin as they like.
"""
import dataclasses
import gc
import json
import os
import socket
import sys
import traceback

import numpy as np

import adapters
import layers
import machine
from adapters.base import Unsupported

FIRST_CALLS = 3  # over which the peak of memory is watched


@dataclasses.dataclass(frozen=True)
class Job:
    case: layers.Case
    threads: int
    cores: tuple     # as many as threads
    folder: str      # for what adapters compile
    attngen: str     # the program
    before: str      # another one, to compare with; empty: none
    cpu: machine.Cpu


def prepare(peer, formulation, job, tensors, y_path):
    """A warm Runner, and what it holds: y is written to y_path."""
    peer.load()
    gc.collect()
    before = machine.memory()
    runner = peer.prepare(job, tensors, formulation)
    gc.collect()
    machine.reset_memory_peak()
    ready = machine.memory()
    for _ in range(FIRST_CALLS):
        runner.run(1)
    after = machine.memory()
    if job.case.train:
        np.savez(y_path[:-len(".npy")] + "_gradients.npz", **runner.gradients())
    rise = after["VmHWM"] - ready["VmRSS"] - max(0, after["RssFile"] - ready["RssFile"])
    exact = runner.memory()
    np.save(y_path, np.asarray(runner.output(), np.float32))
    return runner, {
        "versions": peer.versions(),
        "scratch_bytes": exact[1] if exact else max(0, rise),
        "held_bytes": sum(exact) if exact else max(0, after["RssAnon"] - before["RssAnon"]),
        "process_bytes": after["VmHWM"] - before["VmRSS"],
        "memory_from": "constants" if exact else "VmHWM"}


def main():
    fd, name, formulation, job_path, tensors_path, y_path = sys.argv[1:]
    wire = socket.socket(fileno=int(fd)).makefile("rw", encoding="utf-8")

    def answer(**fields):
        wire.write(json.dumps(fields) + "\n")
        wire.flush()

    with open(job_path, encoding="utf-8") as file:
        fields = json.load(file)
    case = layers.make_case(fields["name"], fields["keys"])
    cpu = machine.cpu()
    job = Job(case, fields["threads"], tuple(fields["cores"]), fields["folder"], fields["attngen"], fields["before"], cpu)
    with np.load(tensors_path) as file:
        tensors = {key: file[key] for key in file.files}
    try:
        runner, facts = prepare(adapters.peer(name), formulation, job, tensors, y_path)
    except Unsupported as error:
        return answer(status="unsupported", reason=str(error))
    except ImportError as error:
        return answer(status="not installed", reason=str(error))
    except Exception as error:  # whatever a library throws becomes a row of the table
        traceback.print_exc()
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return answer(status="failed", reason=f"{type(error).__name__}: {lines[0] if lines else ''}"[:300])
    answer(status="ok", **facts)
    for line in wire:
        request = json.loads(line)
        if request["warm"]:
            runner.run(request["warm"])
        waited = runner.waited()
        ns = max(1, runner.run(request["calls"]))
        waited = min(runner.waited() - waited, ns)
        own = max(1, ns - waited) if job.threads == 1 else ns  # among several threads, who waited for whom is not known
        answer(ns=own / request["calls"], waited=waited / ns,
               passes={name: of / request["calls"] for name, of in runner.passes().items()})


if __name__ == "__main__":
    sys.stdout.flush()
    os.dup2(2, 1)  # what libraries print belongs into the log
    main()
    os._exit(0)  # no library gets the chance to hang in its destructors
