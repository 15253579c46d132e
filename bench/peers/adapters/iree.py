# SPDX-License-Identifier: MIT
"""IREE: the plain ONNX model compiled ahead of time for this CPU, with and without weights laid out for its tiles."""
import importlib.metadata
import os
import subprocess
import sys

from adapters import onnx_graph
from adapters.base import Peer, Runner, Unsupported


def _tool(*command):
    """Runs a program of the virtual environment; its first error is the exception's text."""
    program = os.path.join(os.path.dirname(sys.executable), command[0])
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [f"exit code {done.returncode}"]
        raise Unsupported(f"{command[0]}: {errors[0][:200]}")


class Iree(Peer):
    name = "iree"
    formulations = ("plain", "tiled")

    def load(self):
        import iree.compiler  # noqa: F401
        import iree.runtime  # noqa: F401
        import onnx  # noqa: F401

    def versions(self):
        return {"iree": importlib.metadata.version("iree-base-compiler")}

    def prepare(self, job, tensors, formulation):
        import iree.runtime as rt
        case = job.case
        path = os.path.join(job.folder, f"iree-{formulation}")
        with open(path + ".onnx", "wb") as file:
            file.write(onnx_graph.build(case, tensors, "plain"))
        _tool("iree-import-onnx", path + ".onnx", "-o", path + ".mlir")
        _tool("iree-compile", path + ".mlir", "-o", path + ".vmfb", "--iree-hal-target-device=local",
              "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3",
              *(["--iree-opt-data-tiling"] if formulation == "tiled" else []))
        if job.threads > 1:
            rt.flags.parse_flags("--task_topology_cpu_ids=" + ",".join(map(str, job.cores)))
        config = rt.Config("local-task" if job.threads > 1 else "local-sync")
        with open(path + ".vmfb", "rb") as file:
            context = rt.SystemContext(config=config)
            context.add_vm_module(rt.VmModule.copy_buffer(context.instance, file.read()))
        function = context.modules.module[case.name]
        inputs = [rt.asdevicearray(config.device, tensors[name]) for name in ("x", "source") if name in tensors]
        keep = {}

        def call():
            keep["y"] = function(*inputs)

        return Runner(call, lambda: keep["y"].to_host(), (context, inputs))
