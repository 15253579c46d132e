# SPDX-License-Identifier: MIT
"""OpenBLAS: sgemm and a vectorized softmax (c/openblas.c), with the wheel of PyPI and with the system's library."""
import ctypes
import ctypes.util
import os

from adapters.base import Peer, Unsupported
from adapters.native import C_FOLDER, NativeRunner, compile_shared

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffast-math")


class OpenBlas(Peer):
    name = "openblas"
    formulations = ("wheel", "system")

    def environment(self, threads, cpu):
        # its own choice is right where it knows the CPU's model number; a newer CPU may get a kernel of 2008
        kernel = {"avx512": "SkylakeX", "avx2": "Haswell"}.get(cpu.isa)
        return {"OPENBLAS_CORETYPE": kernel} if kernel else {}

    def why_not(self, case, formulation, threads):
        return "a convolution is no BLAS routine" if case.w_o == "conv" else None

    def versions(self):
        words = self.library.peer_version().decode().split()
        return {f"openblas/{self.formulation}": f"{words[1]} ({self.library.peer_kernel().decode()} kernels)"}

    def prepare(self, job, tensors, formulation):
        libraries, flags = ["-lopenblas"], FLAGS
        if formulation == "wheel":
            import scipy_openblas32 as wheel
            folder, name = wheel.get_lib_dir(), wheel.get_library()
            flags = (*FLAGS, "-DBLAS_PREFIX=scipy_", "-I" + wheel.get_include_dir())
            libraries = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-l" + name]
        elif not ctypes.util.find_library("openblas"):
            raise Unsupported("no system library (Debian: libopenblas-dev)")
        library = compile_shared(os.path.join(job.folder, f"openblas-{formulation}.so"),
                                 [os.path.join(C_FOLDER, "openblas.c")], "gcc", flags, [*libraries, "-lm"])
        runner = NativeRunner(library, job, tensors)
        self.library, self.formulation = runner.lib, formulation
        self.library.peer_version.restype = self.library.peer_kernel.restype = ctypes.c_char_p
        return runner
