# SPDX-License-Identifier: MIT
"""attngen and attnrun as a Conan tool, of this checkout: `conan create packaging/conan`, then
`tool_requires("attngen/…")`. Lua 5.4 is the system's."""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt, Dnf, PacMan

SOURCES = ("gen/*", "runtime/*", "templates/*", "packaging/*", "bench/*.mk", "docs/*.md", "docs/*.svg", "examples/*",
           "Makefile", "*.md", "LICENSE")


class Attngen(ConanFile):
    name = "attngen"
    description = "Attention layers as C, generated from a layer's spec"
    license = "MIT"
    package_type = "application"
    settings = "os", "arch", "compiler"

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "../../gen/base/version.h"))
        self.version = re.search(r'ATTNGEN_VERSION "(.*)"', text).group(1)

    def export_sources(self):
        for pattern in SOURCES:
            copy(self, pattern, os.path.join(self.recipe_folder, "../.."), self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("attnrun uses Linux's processes and signals")

    def package_id(self):
        del self.info.settings.compiler

    def system_requirements(self):
        Apt(self).install(["liblua5.4-dev", "pkgconf"])
        Dnf(self).install(["lua-devel", "pkgconf"])
        PacMan(self).install(["lua54", "pkgconf"])

    def build(self):
        self.run("make -j BUILD=build")

    def package(self):
        self.run(f"make install BUILD=build PREFIX= DESTDIR='{self.package_folder}'")

    def package_info(self):
        self.cpp_info.includedirs, self.cpp_info.libdirs = [], []
        self.cpp_info.builddirs = ["lib/cmake/attngen"]
        self.buildenv_info.prepend_path("PATH", os.path.join(self.package_folder, "bin"))
