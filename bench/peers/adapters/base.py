# SPDX-License-Identifier: MIT
"""What every peer offers to the benchmark.

A peer is a library; a formulation is one way to express the layer with it; a system, "peer/formulation", is what is
timed. Each system runs in a process of its own (worker.py).
"""
import time

import machine

# layers.Case.kinds but "cache" and "train"
ALL_KINDS = frozenset(("projected", "rope", "qk_norm", "softcap", "alibi", "relative", "sink", "block"))
FIRST = frozenset(("heads_first",))  # of those that can read a head's rows side by side
CACHED = frozenset(("projected", "cache"))  # of formulations that are made for a cache
TRAINED = frozenset(("train",))             # of those that compute gradients


class Unsupported(Exception):
    """The peer cannot express this layer; the message says what it lacks."""


class Runner:
    """One system, ready to run one case again and again on the same buffers."""

    def __init__(self, call, output, keep=()):
        """`call()` computes the layer once; `output()` is y of the last call as an array; `keep` is held alive."""
        self.call, self.output, self.keep = call, output, keep

    def run(self, calls):
        """Nanoseconds of `calls` calls back to back."""
        call = self.call
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return time.perf_counter_ns() - start

    def passes(self):
        """Nanoseconds of the passes of all calls of the last run(), {"forward": ..., "backward": ...}; {}: there is one."""
        return {}

    def gradients(self):
        """name -> gradient of the last call, as layers.gradients names them, of a layer that has them."""
        return {}

    def waited(self):
        """Nanoseconds so far that something else had the core in what run() times."""
        return machine.waited_ns()

    def memory(self):
        """(bytes of packed weights, bytes of scratch), where the library says them exactly; None: to be measured."""
        return None


class Peer:
    """A library. Subclasses import it inside their methods only, so that the table of peers loads without any."""
    name = ""
    formulations = ()
    beside = ()  # further ones, where another attngen is named
    typed = ()   # those with weights, operands or caches of fewer bits, in place of all others with --types
    computes = True  # False: y is not looked at

    def environment(self, threads, cpu):
        """Environment variables that the worker starts with; `cpu` is a machine.Cpu."""
        return {}

    def kinds(self, formulation):
        """The kinds of layers (layers.Case.kinds) that this formulation can say."""
        return frozenset()

    def lacks(self, case, formulation, threads):
        """None, or why this system has no row of numbers for this case."""
        lacking = case.kinds - self.kinds(formulation)
        if lacking:
            return "not written down here: " + ", ".join(sorted(lacking))
        return self.why_not(case, formulation, threads)

    def why_not(self, case, formulation, threads):
        """None, or what else keeps the system from this case; decided without the library."""
        return None

    def load(self):
        """Imports the library, in the worker, before memory is counted. ImportError: it is not installed."""

    def versions(self):
        """name -> version of what is measured. Called in a worker."""
        return {}

    def prepare(self, job, tensors, formulation):
        """A Runner; Unsupported if the library turns out not to express the layer. `job` is a worker.Job."""
        raise NotImplementedError
