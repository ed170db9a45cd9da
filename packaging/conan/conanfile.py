# SPDX-License-Identifier: MIT
"""A recipe for Conan 2: `conan create packaging/conan` in a checkout or an unpacked release."""

import os
import re

from conan import ConanFile
from conan.tools.files import copy, load, rm
from conan.tools.gnu import Autotools, AutotoolsToolchain


class Usched(ConanFile):
    name = "usched"
    license = "MIT"
    description = "Cooperative threads that share stacks: cheap blocking threads for servers"
    topics = ("threads", "coroutines", "scheduler")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]
    languages = "C"

    def _top(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self._top(), "usched.h"))
        self.version = re.search('define USCHED_VERSION "(.*)"', header).group(1)

    def export_sources(self):
        for files in ("Makefile", "LICENSE", "*.c", "*.h", "*.hh", "*.S", "*.in", "*.mk",
                      "doc/*", "scripts/*", "tools/*", "packaging/cmake/*"):
            copy(self, files, self._top(), self.export_sources_folder,
                 excludes=("build*", "results*", ".*"))

    def generate(self):
        AutotoolsToolchain(self).generate()

    def build(self):
        Autotools(self).make("checked")

    def package(self):
        root = self.package_folder
        Autotools(self).make("install", args=[
            "prefix=/", "libdir=/lib", "includedir=/include", "bindir=/bin",
            "datadir=/share", "mandir=/share/man", "DESTDIR=" + root])
        rm(self, "*.a" if self.options.shared else "*.so*", os.path.join(root, "lib"))
        copy(self, "LICENSE", self.source_folder, os.path.join(root, "licenses"))

    def package_info(self):
        for name, library in ("usched", "usched"), ("check", "usched-check"):
            part = self.cpp_info.components["lib" + library]
            part.libs = [library]
            part.includedirs = ["include", "include/usched"]
            part.system_libs = ["pthread"]
            part.set_property("cmake_target_name", "usched::" + name)
            part.set_property("pkg_config_name", library)
        self.cpp_info.set_property("cmake_target_name", "usched::all")
        self.cpp_info.set_property("pkg_config_name", "usched-all")
