# SPDX-License-Identifier: MIT
"""The machine: which CPU, which instruction set, its multiply-add peak, and what a process holds in memory."""
import ctypes
import dataclasses
import os
import platform
import subprocess

import numpy as np


@dataclasses.dataclass(frozen=True)
class Cpu:
    model: str
    isa: str           # "avx512", "avx2" or "scalar": attngen's names
    flags: frozenset


def cpu():
    model, flags = platform.processor() or platform.machine(), frozenset()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    model = value.strip()
                elif key.strip() == "flags":
                    flags = frozenset(value.split())
                    break
    except OSError:
        pass
    isa = "avx512" if "avx512f" in flags else "avx2" if {"avx2", "fma"} <= flags else "scalar"
    return Cpu(model, isa, flags)


def first_line(*command):
    """The first line a command prints, or None: for the versions of compilers."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else None


class Peak:
    """The FMA peak of the measured cores, from c/peak.c."""

    def __init__(self, library, isa, cores):
        self.lib = ctypes.CDLL(library)
        self.lib.cores_peak.restype = ctypes.c_double
        self.lib.cores_peak.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int32)]
        self.isa, self.cores = isa.encode(), np.array(cores, np.int32)

    def gflops(self):
        """GFLOP/s of all cores together, from about half a millisecond."""
        at = self.cores.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        return self.lib.cores_peak(self.isa, len(self.cores), at)


def memory():
    """This process's VmRSS, VmHWM, RssAnon and RssFile in bytes."""
    with open("/proc/self/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {key: int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM", "RssAnon", "RssFile")}


def reset_memory_peak():
    """Lets VmHWM begin again at VmRSS, once freed heap is given back to the system."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def waited_ns():
    """Nanoseconds that this process's main thread was ready to run while something else had the core; 0 if unknown."""
    try:
        with open("/proc/self/schedstat", encoding="utf-8") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0


def pin(cores):
    os.sched_setaffinity(0, set(cores))
