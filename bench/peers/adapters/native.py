# SPDX-License-Identifier: MIT
"""Peers driven from C: a source file behind the interface of c/problem.h, compiled for each job and loaded by ctypes."""
import ctypes
import hashlib
import os
import shlex
import subprocess

import layers
import numpy as np

from adapters.base import Runner, Unsupported

C_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "c")
TENSORS = ("w_q", "b_q", "w_k", "b_k", "w_v", "b_v", "w_o", "b_o")
FURTHER = ("q", "k", "v", "g_q", "g_k", "rel_bias", "sink", *(f"n{i}_{which}" for which in "gb" for i in range(1, 5)),
           "w_1", "b_1", "w_g", "b_g", "w_2", "b_2", "k_cache", "v_cache")  # behind y
GRADIENTS = ("dx", *("d" + name for name in TENSORS))
PASSES = ("forward", "backward")  # enum pass
POINTER = ctypes.POINTER(ctypes.c_float)


class Problem(ctypes.Structure):
    """struct problem of c/problem.h."""
    _fields_ = ([(name, ctypes.c_int64) for name in (
        "d_model", "h", "h_kv", "d_k", "d_v", "d_source", "batch", "n", "m", "causal", "no_self", "window_left",
        "window_right", "split", "output", "conv_width", "threads")]
        + [("cores", ctypes.POINTER(ctypes.c_int32)), ("scale", ctypes.c_float), ("x", POINTER), ("source", POINTER),
           ("lengths", ctypes.POINTER(ctypes.c_int32))] + [(name, POINTER) for name in TENSORS] + [("y", POINTER)]
        + [(name, POINTER) for name in FURTHER]
        + [("past", ctypes.POINTER(ctypes.c_int32)), ("cache_len", ctypes.c_int64), ("dy", POINTER)]
        + [(name, POINTER) for name in GRADIENTS])


def aligned(array):
    """A copy that begins on 64 bytes, as allocators of the peers would give it."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def compile_shared(output, sources, cc="gcc", flags=(), libraries=()):
    """Compiles C or C++ sources into the shared object `output`; the compiler's first error is the exception's text. What the
    same command made of the same files stays."""
    os.makedirs(os.path.dirname(output), exist_ok=True)
    command = [*shlex.split(cc), *flags, "-fPIC", "-shared", "-pthread", "-I" + C_FOLDER, "-o", output, *sources, *libraries, "-lm"]
    folders = [C_FOLDER, *(flag[2:] for flag in flags if flag.startswith("-I"))]
    headers = (os.path.join(folder, name) for folder in folders for name in os.listdir(folder) if name.endswith(".h"))
    files = sorted({*sources, *headers})
    state = hashlib.sha256(shlex.join(command).encode())
    for path in files:
        with open(path, "rb") as file:
            state.update(file.read())
    if os.path.exists(output) and os.path.exists(output + ".of"):
        with open(output + ".of", encoding="utf-8") as file:
            if file.read() == state.hexdigest():
                return output
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        with open(output + ".of", "w", encoding="utf-8") as file:
            file.write(state.hexdigest())
    else:
        errors = [line for line in done.stderr.splitlines() if "error" in line or "not found" in line]
        raise Unsupported("does not compile: " + (errors or done.stderr.splitlines() or ["?"])[0])
    return output


class NativeRunner(Runner):
    """A loaded shared object; the loop over calls is in C."""

    def __init__(self, library, job, tensors, option=""):
        case = job.case
        self.lib = ctypes.CDLL(library)
        self.lib.peer_open.restype = ctypes.c_void_p
        self.lib.peer_run.restype = ctypes.c_int64
        self.lib.peer_run.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        turned = ("q", "k", "v") if case.heads_first else ()
        tensors = {name: aligned(array.swapaxes(1, 2) if name in turned else array) for name, array in tensors.items()}
        self.y = aligned(np.zeros((case.batch, case.n, case.d_out), np.float32))
        rows = self.y.reshape(case.batch, case.h, case.n, -1) if case.heads_first else self.y
        self.of = {"d" + name: aligned(np.zeros_like(tensors[name])) for name in ("x", *TENSORS)
                   if case.train and name in tensors}
        cores = np.array(job.cores, np.int32)
        past = None if case.past is None else np.full(case.batch, case.past, np.int32)
        every = {**tensors, **self.of}
        at = lambda name: every[name].ctypes.data_as(POINTER) if name in every else None
        bound = lambda side: -1 if side is None or "window" not in case.mask else side
        problem = Problem(
            *(getattr(case, name) for name in (
                "d_model", "h", "h_kv", "d_k", "d_v", "d_source", "batch", "n", "m")),
            "causal" in case.mask, "no_self" in case.mask, bound(case.window[0]), bound(case.window[1]), case.split,
            ("dense", "none", "conv").index(case.w_o), case.conv_width, job.threads,
            cores.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)), case.scale, at("x"), at("source") or at("x"),
            tensors["lengths"].ctypes.data_as(ctypes.POINTER(ctypes.c_int32)) if "lengths" in tensors else None,
            *(at(name) or (at(name.replace("_k", "_q")) if case.tied and "_k" in name else None) for name in TENSORS),
            self.y.ctypes.data_as(POINTER), *map(at, FURTHER),
            None if past is None else past.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)), case.cache_len,
            at("dy"), *map(at, GRADIENTS))
        why = ctypes.create_string_buffer(300)
        self.peer = self.lib.peer_open(ctypes.byref(problem), option.encode(), why, ctypes.c_size_t(300))
        if not self.peer:
            raise Unsupported(why.value.decode() or "out of memory")
        super().__init__(lambda: self.run(1), lambda: layers.heads_last(case, rows), (tensors, cores, past, problem))

    def run(self, calls):
        ns = self.lib.peer_run(self.peer, calls)
        if ns < 0:
            raise RuntimeError("a call failed")
        return ns

    def passes(self):
        ns = (ctypes.c_int64 * len(PASSES))()
        if self.of:
            self.lib.peer_passes(ctypes.c_void_p(self.peer), ns)
        return dict(zip(PASSES, ns)) if self.of else {}

    def gradients(self):
        return self.of

    def memory(self):
        packed, scratch = ctypes.c_int64(-1), ctypes.c_int64(-1)
        self.lib.peer_memory(ctypes.c_void_p(self.peer), ctypes.byref(packed), ctypes.byref(scratch))
        return None if scratch.value < 0 else (packed.value, scratch.value)
