# SPDX-License-Identifier: MIT
"""attngen: the emitted pair, compiled at the default flags."""
import os
import subprocess

from adapters.base import ALL_KINDS, CACHED, FIRST, TRAINED, Peer, Unsupported
from adapters.native import C_FOLDER, NativeRunner, compile_shared

FLAGS = ("-O2",)  # what attnrun and the Makefile use


# formulation -> keys that its layer has besides. w-: of weights alone
TYPES = {"i16": {"precision": "i16"}, "i8": {"precision": "i8"}, "bf16": {"precision": "bf16"},
         "avx2": {}, "avx2-i16": {"precision": "i16"}, "avx2-i8": {"precision": "i8"},
         "avxvnni-i16": {"precision": "i16"}, "avxvnni-i8": {"precision": "i8"}, "amx-i8": {"precision": "i8"},
         "w-bf16": {"weight_type": "bf16"}, "w-i8": {"weight_type": "i8"}, "w-i4": {"weight_type": "i4"},
         "w-i8-cache-i8": {"weight_type": "i8", "cache_type": "i8"},
         "w-i4-cache-i8": {"weight_type": "i4", "cache_type": "i8"}}


# sets that a pair's best one is not, and what /proc/cpuinfo calls them
SETS = {"avxvnni": "avx_vnni", "amx": "amx_int8"}


def set_of(formulation):
    """The instruction set of SETS that a formulation's name begins with, or None."""
    name = formulation.split("-")[0]
    return name if name in SETS else None


def machine_has(flag):
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return any(line.startswith("flags") and flag in line.split() for line in file)


class Ours(Peer):
    name = "ours"
    formulations = ("gcc", "clang", "gcc-sequences", "gcc-avx2")
    typed = tuple(TYPES)
    beside = ("gcc-again", "gcc-before")  # only where another attngen is named: the same once more, and what that one emits

    def kinds(self, formulation):
        return ALL_KINDS | CACHED | FIRST | TRAINED

    def why_not(self, case, formulation, threads):
        if formulation == "gcc-sequences" and threads == 1:
            return "only for several threads: it deals the batch's sequences out to them"
        if formulation == "gcc-sequences" and (case.batch < threads or case.train):
            return "weights' gradients are sums over sequences" if case.train else f"a batch of {case.batch}"
        if formulation == "gcc-avx2" and case.past is None and not case.train:
            return "only for layers with a cache or gradients"
        if set_of(formulation) and not machine_has(SETS[set_of(formulation)]):
            return f"this machine has no {SETS[set_of(formulation)]}"
        if formulation.startswith("w-") and case.past is None:
            return "for steps, which read each weight once"
        return None

    def prepare(self, job, tensors, formulation):
        case = job.case
        before = formulation == "gcc-before"
        types = TYPES.get(formulation, {})
        folder = os.path.join(job.folder, case.name, "before" if before else formulation if types else "now")
        os.makedirs(folder, exist_ok=True)
        spec = os.path.join(folder, "spec.layer")
        with open(spec, "w", encoding="utf-8") as file:
            file.writelines(f"{key} = {value}\n" for key, value in (*case.spec, *types.items()))
        sets = ("--isa", f"scalar,{set_of(formulation)}") if set_of(formulation) else ()
        program = job.before if before else job.attngen
        done = subprocess.run([program, *sets, "--shim", "-o", folder, spec], capture_output=True, text=True)
        shim = "--shim" not in done.stderr  # an older attngen: interface 3, whose structs are those of every layer
        if not shim:
            done = subprocess.run([program, *sets, "-o", folder, spec], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unsupported(done.stderr.strip())
        cc = "gcc" if formulation in TYPES else formulation.split("-")[0]
        definitions = (f"-DNAME={case.name}", f"-DPREFIX={case.name.upper()}", f'-DHEADER="{case.name}.h"',
                       *(("-DTRAIN",) if case.train else ()), *(("-DBIAS",) if case.bias else ()),
                       *(("-DCACHE_I8",) if "cache_type" in types else ()),
                       *(("-DSHIM",) if shim else ()))
        sources = (os.path.join(C_FOLDER, "ours.c"), f"{folder}/{case.name}.c",
                   *((f"{folder}/{case.name}_shim.c",) if shim else ()))
        library = compile_shared(
            os.path.join(folder, f"{cc if formulation in TYPES else formulation}.so"), sources, cc,
             ("-std=gnu11", *FLAGS, "-I" + folder, *definitions))
        option = {"gcc-sequences": "sequences", "gcc-avx2": "avx2"}.get(formulation, "parts")
        option = "avx2" if formulation.startswith("avx2") else option
        return NativeRunner(library, job, tensors, option)
