# SPDX-License-Identifier: MIT
"""oneDNN: matmul and softmax primitives (c/onednn.cpp), with the system's library (Debian: version 2.6, OpenMP)."""
import ctypes
import os

from adapters.base import Peer
from adapters.native import C_FOLDER, NativeRunner, compile_shared


class OneDnn(Peer):
    name = "onednn"
    formulations = ("whole", "blocks")
    typed = ("int8-whole", "int8-blocks")

    def environment(self, threads, cpu):
        return {"OMP_PROC_BIND": "true"}

    def why_not(self, case, formulation, threads):
        if case.w_o == "conv":
            return "the driver has no convolution"
        if formulation.endswith("blocks") and case.n <= 128:
            return "one block is the whole sequence"
        return None

    def versions(self):
        self.library.peer_version.restype = ctypes.c_char_p
        return {"onednn": self.library.peer_version().decode()}

    def prepare(self, job, tensors, formulation):
        # rows become whole numbers, and sums f32, in the driver: vectors of this machine
        flags = ("-O3", "-march=native", "-fno-math-errno", "-ffinite-math-only", "-fassociative-math", "-fno-signed-zeros",
                 "-fno-trapping-math") if formulation in self.typed else ("-O2",)
        library = compile_shared(os.path.join(job.folder, f"onednn-{flags[0]}.so"), [os.path.join(C_FOLDER, "onednn.cpp")],
                                 "g++", ("-std=c++17", *flags), ["-ldnnl"])
        runner = NativeRunner(library, job, tensors, formulation)
        self.library = runner.lib
        return runner
