#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Wheels and the source distribution of the Python package: `make wheel`, and the PEP 517 backend inside the latter.

    backend.py --made BUILD --out FOLDER [--zig COMMAND] [--lua FILE] [--target TAG]...

A wheel holds the module and both programs. Lua is compiled into attngen from the source that lupa's source
distribution on PyPI carries, and zig, also from PyPI, compiles for every platform. Both are downloaded once, with the
checksums of tools.txt, into FOLDER/tools; after that nothing needs a network. What make makes (names.h, embedded files,
the lists of sources) is read from BUILD.

Left out on purpose: Windows and macOS, for whose processes and signals attnrun has no code; building a wheel from a
checkout by pip, which could not see what make makes.
"""
import argparse
import base64
import gzip
import hashlib
import io
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MADE = ROOT / "made"  # in a source distribution: what make made
LUA = "lua"  # its folder there

# Tag of a platform: zig's target. With musl zig links statically, which suits attngen; attnrun loads the kernels that
# it compiles, and so is linked dynamically.
TARGETS = {
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "musllinux_1_1_x86_64": "x86_64-linux-musl",
    "musllinux_1_1_aarch64": "aarch64-linux-musl",
}
PROGRAMS = ("attngen", "attnrun")
GENERATED = ("gen/emit/names.h", "gen/embedded.c", "runtime/embedded.c", "wheel/sources")
SOURCES = ("gen", "runtime", "templates", "packaging/python")
EPOCH = (1980, 1, 1, 0, 0, 0)  # of files in archives, whose bytes depend on no date


def version():
    text = (ROOT / "gen/base/version.h").read_text()
    return re.search(r'ATTNGEN_VERSION "(.*)"', text).group(1)


def metadata():
    description = (HERE / "README.md").read_text()
    return f"""Metadata-Version: 2.1
Name: attngen
Version: {version()}
Summary: Attention layers in C, written for one shape, checked and timed
License: MIT
Requires-Python: >=3.9
Provides-Extra: compiler
Requires-Dist: ziglang<0.18,>=0.17; extra == "compiler"
Description-Content-Type: text/markdown

{description}"""


# ---- programs ----


def compile_programs(out, made, lua, compiler, dynamic=()):
    """Compiles both programs into the folder `out` with the words `compiler`; `dynamic` are flags of attnrun alone."""
    include = ["-I" + str(path) for path in (ROOT / "gen", ROOT / "runtime", ROOT / "templates", made / "gen",
                                                lua)]
    for line in (made / "wheel/sources").read_text().splitlines():
        program, *sources = line.split()
        files = [str(made / name if name.endswith("/embedded.c") else ROOT / name) for name in sources]
        if program == "attngen":
            files += sorted(str(path) for path in lua.glob("*.c"))
        libraries = ["-lm"] if program == "attngen" else ["-ldl", "-lm", "-lpthread"]
        flags = ["-std=c11", "-O2", "-s", "-w", "-D_GNU_SOURCE", "-DLUA_USE_POSIX", *include]
        flags += dynamic if program == "attnrun" else ()
        subprocess.run([*compiler, *flags, "-o", str(out / program), *files, *libraries], check=True)


def unpack_lua(archive, folder):
    """Writes the sources of Lua's library, and its licence, which stands at the end of lua.h."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    programs = {"lua.c", "luac.c", "onelua.c", "ltests.c", "ltests.h"}
    with tarfile.open(archive) as files:
        for member in files:
            path = Path(member.name)
            is_ours = path.parts[1:-1] == ("third-party", "lua54") and path.name not in programs
            if is_ours and path.suffix in (".c", ".h"):
                (folder / path.name).write_bytes(files.extractfile(member).read())
    notice = re.search(r"\n/\*+\n(\* Copyright .*?)\n\*+/", (folder / "lua.h").read_text(), re.S).group(1)
    (folder / "LICENSE").write_text(re.sub(r"(?m)^\* ?", "", notice) + "\n")


def host_compiler():
    """Words of the C compiler of this machine: $CC, cc, gcc, clang, or zig from PyPI."""
    if os.environ.get("CC", "").strip():
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"]


# ---- archives ----


def module_files():
    yield from sorted(path for path in (HERE / "attngen").iterdir() if path.suffix in (".py", ".c", ".typed"))


def pack_wheel(out, tag, programs, lua):
    """Writes the wheel of the platform `tag` with the programs of that folder; returns its name."""
    name = f"attngen-{version()}-py3-none-{tag}.whl"
    info = f"attngen-{version()}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: attngen\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    entries = [(f"attngen/{path.name}", path.read_bytes(), 0o644) for path in module_files()]
    entries += [(f"attngen/bin/{program}", (programs / program).read_bytes(), 0o755) for program in PROGRAMS]
    entries += [
        (f"{info}/METADATA", metadata().encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
        (f"{info}/entry_points.txt", "".join(["[console_scripts]\n"] + [
            f"{program} = attngen.programs:{program}\n" for program in PROGRAMS]).encode(), 0o644),
        (f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644),
        (f"{info}/licenses/LICENSE.lua", (lua / "LICENSE").read_bytes(), 0o644),
    ]
    record = ""
    for path, data, _ in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    entries.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644))
    whole = Path(out) / name
    with zipfile.ZipFile(f"{whole}.new", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data, mode in entries:
            member = zipfile.ZipInfo(path, EPOCH)
            member.create_system = 3
            member.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED, 9)
    os.replace(f"{whole}.new", whole)
    return name


def pack_sources(out, made, lua):
    """Writes the source distribution, which needs a C compiler and nothing else; returns its name."""
    top = f"attngen-{version()}"
    files = {"PKG-INFO": metadata().encode(), "pyproject.toml": (HERE / "pyproject.toml").read_bytes()}
    for name in ("LICENSE", "README.md"):
        files[name] = (ROOT / name).read_bytes()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                files[str(path.relative_to(ROOT))] = path.read_bytes()
    for name in GENERATED:
        files[f"{MADE.name}/{name}"] = (made / name).read_bytes()
    for path in lua.iterdir():
        files[f"{MADE.name}/{LUA}/{path.name}"] = path.read_bytes()
    name = f"{top}.tar.gz"
    whole = Path(out) / name
    with open(f"{whole}.new", "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(files):
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(files[path])
            archive.addfile(member, io.BytesIO(files[path]))
    os.replace(f"{whole}.new", whole)
    return name


# ---- PEP 517: a source distribution becomes a wheel of this machine ----


def get_requires_for_build_wheel(config_settings=None):
    words = host_compiler()
    return ["ziglang<0.18,>=0.17"] if words[1:3] == ["-m", "ziglang"] else []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if not MADE.is_dir():
        raise SystemExit("attngen: error: this is a checkout; run make wheel, and install what it writes")
    programs = MADE / "programs"
    programs.mkdir(exist_ok=True)
    compile_programs(programs, MADE, MADE / LUA, host_compiler())
    tag = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return pack_wheel(wheel_directory, tag, programs, MADE / LUA)


def build_sdist(sdist_directory, config_settings=None):
    if not MADE.is_dir():
        raise SystemExit("attngen: error: this is a checkout; run make wheel, which writes a source distribution")
    return pack_sources(sdist_directory, MADE, MADE / LUA)


# ---- make wheel ----


def fetch_tools(tools, lua, zig):
    """Lua's archive and zig's words; those that are not given are downloaded, unless they are there."""
    archive, program = tools / "lupa-2.4.tar.gz", tools / "ziglang/zig"
    if not (lua or archive.exists()) or not (zig or program.exists()):
        tools.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes",
                        "-d", str(tools), "-r", str(HERE / "tools.txt")], check=True)
        for wheel in tools.glob("ziglang-*.whl"):
            with zipfile.ZipFile(wheel) as files:
                files.extractall(tools)
            program.chmod(0o755)
            wheel.unlink()
    return Path(lua) if lua else archive, shlex.split(zig) if zig else [str(program)]


def main():
    parser = argparse.ArgumentParser(description="Writes wheels and the source distribution; see make wheel.")
    parser.add_argument("--made", type=Path, required=True, help="the folder of make's products")
    parser.add_argument("--out", type=Path, required=True, help="the folder of wheels")
    parser.add_argument("--zig", help="zig's command; default: downloaded")
    parser.add_argument("--lua", help="lupa's source distribution; default: downloaded")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="a platform; default: all")
    options = parser.parse_args()
    archive, zig = fetch_tools(options.out / "tools", options.lua, options.zig)
    lua = options.out / LUA
    unpack_lua(archive, lua)
    names = [pack_sources(options.out, options.made, lua)]
    for tag in options.target or TARGETS:
        programs = options.out / tag
        programs.mkdir(exist_ok=True)
        compile_programs(programs, options.made, lua, [*zig, "cc", "-target", TARGETS[tag]], ["-dynamic"])
        names.append(pack_wheel(options.out, tag, programs, lua))
    for name in names:
        path = options.out / name
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"make wheel: error: {error.cmd[0]} ended with exit code {error.returncode}; its message stands above")
