# SPDX-License-Identifier: MIT
"""emx-onnx-cgen: an ONNX model turned into C, compiled by gcc. It has no threads."""
import ctypes
import importlib.metadata
import os
import subprocess
import sys

import numpy as np

from adapters import onnx_graph
from adapters.base import Peer, Runner, Unsupported
from adapters.native import aligned, compile_shared

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffast-math", "-w")


class Emx(Peer):
    name = "emx-onnx-cgen"
    formulations = ("standard", "plain")

    def why_not(self, case, formulation, threads):
        if threads > 1:
            return "its code has no threads"
        return onnx_graph.why_not(case, formulation)

    def load(self):
        import onnx  # noqa: F401

    def versions(self):
        return {"emx-onnx-cgen": importlib.metadata.version("emx-onnx-cgen")}

    def prepare(self, job, tensors, formulation):
        case, folder = job.case, os.path.join(job.folder, "emx-" + formulation)
        os.makedirs(folder, exist_ok=True)
        for left in os.listdir(folder):
            os.remove(os.path.join(folder, left))
        with open(os.path.join(folder, "model.onnx"), "wb") as file:
            file.write(onnx_graph.build(case, tensors, formulation))
        program = os.path.join(os.path.dirname(sys.executable), "emx-onnx-cgen")
        if not os.path.exists(program):
            raise ImportError("no emx-onnx-cgen")
        done = subprocess.run([program, "compile", "model.onnx", "model.c", "--model-name", "model"], cwd=folder,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Unsupported("emx-onnx-cgen: " + ((done.stderr or done.stdout).strip().splitlines() or ["?"])[-1][:200])
        library = ctypes.CDLL(compile_shared(os.path.join(folder, "model.so"), [os.path.join(folder, "model.c")], "gcc",
                                             FLAGS, ["-lm"]))
        weights = [name for name in os.listdir(folder) if name.endswith(".bin")]
        if weights and not library.model_load(os.path.join(folder, weights[0]).encode()):
            raise RuntimeError("its weights file does not load")
        inputs = [aligned(tensors[name]) for name in ("x", "source") if name in tensors]
        y = aligned(np.zeros((case.batch, case.n, case.d_out), np.float32))
        arguments = [ctypes.c_void_p(array.ctypes.data) for array in (*inputs, y)]
        library.model.restype = None
        return Runner(lambda: library.model(*arguments), lambda: y, (inputs, library))
