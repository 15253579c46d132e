# SPDX-License-Identifier: MIT
"""What a wheel is made of, by the compiler that is here: backend.py's list of sources, folders and flags compile both
programs. Left out on purpose: linking, and other platforms, as make wheel does it.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "packaging/python"))
import backend  # noqa: E402

BUILD = Path(os.environ.get("BUILD", "build"))


def lua_folder():
    for name in ("lua5.4", "lua-5.4", "lua54", "lua"):
        found = subprocess.run(["pkg-config", "--cflags-only-I", name], capture_output=True, text=True)
        if found.returncode == 0:
            return Path(found.stdout.strip()[2:] or "/usr/include")
    return None


class Checkout(unittest.TestCase):
    def test_pip_is_told_of_make_wheel(self):
        text = (ROOT / "packaging/python/pyproject.toml").read_text()
        folders = re.findall(r'"([^"]+)"', re.search("backend-path = (.*)", text)[1])
        for root in (ROOT, ROOT / "packaging/python"):  # of a source distribution, of a checkout
            self.assertTrue(any((root / folder / "backend.py").exists() for folder in folders), root)
        with self.assertRaisesRegex(SystemExit, "this is a checkout; run make wheel"):
            backend.build_wheel("/none")


@unittest.skipIf(not shutil.which("make") or not shutil.which("pkg-config") or lua_folder() is None, "no make or Lua")
class Package(unittest.TestCase):
    def test_sources_compile(self):
        made = [str(BUILD / name) for name in backend.GENERATED]
        subprocess.run(["make", "-s", f"BUILD={BUILD}", "LUA=packed", *made], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
        with tempfile.TemporaryDirectory() as out:
            words = [os.environ.get("CC", "cc"), "-fsyntax-only"]
            backend.compile_programs(Path(out), (ROOT / BUILD).resolve(), lua_folder(), words)


if __name__ == "__main__":
    unittest.main()
