# SPDX-License-Identifier: MIT
"""No library: the time that reading a cache and the weights takes, in the same run. Its ratio to ours is ours' share of
that bound."""
import os

from adapters.base import CACHED, Peer
from adapters.native import C_FOLDER, NativeRunner, compile_shared


class Bound(Peer):
    name = "bound"
    formulations = ("plain", "ahead")
    computes = False

    def kinds(self, formulation):
        return CACHED

    def why_not(self, case, formulation, threads):
        return "for layers with a cache" if case.past is None else "one core reads" if threads > 1 else None

    def prepare(self, job, tensors, formulation):
        library = compile_shared(os.path.join(job.folder, "bound.so"), [os.path.join(C_FOLDER, "bound.c")], "gcc",
                                 ("-std=gnu11", "-O2", "-march=native"))
        return NativeRunner(library, job, tensors, formulation)
