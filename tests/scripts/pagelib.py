# SPDX-License-Identifier: MIT
"""Pages of doc/ whose programs are compiled here, and whose commands print what is shown.

Environment:

  B      the build directory; default build
  CC     the compiler; default cc
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
B = os.path.join(ROOT, os.environ.get("B", "build"))
CC = shlex.split(os.environ.get("CC", "cc"))
LIMIT = 600             # seconds: a command that takes so long hangs
TIMES = 1, 4, 16        # attempts: how much longer each takes
LIBRARIES = "usched", "usched-check"

# Of -rdynamic, what ulocks.so needs of a static library: no names of functions.
PRELOADED = "-Wl," + ",".join(f"--export-dynamic-symbol={name}" for name in (
    "usched__here", "usched__observer", "ustack_get_name"))


def changed(text, diff):
    """Each part, which "@@" begins, replaces lines that are there once."""
    for part in diff.split("@@\n")[1:]:
        lines = part.splitlines()
        old, new = ("".join(line[1:] + "\n" for line in lines if line[:1] != other)
                    for other in "+-")
        assert text.count(old) == 1, f"there {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    return text


def a_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Page(unittest.TestCase):
    """Of a page: its `text', and `place', a directory."""

    page = None         # its file in doc/
    machine = None      # what it shows of x86-64
    programs = ()       # that its commands need
    numbers = r"-?\d+(\.\d+)?"  # these are not compared,
    hidden = None       # nor lines with this

    @classmethod
    def make_simulation(cls):
        """usched-run, and <usched/sim/sim.h>, in `place'."""
        made = subprocess.run(["make", "-s", f"B={B}", "sim"], cwd=ROOT, timeout=LIMIT,
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        os.symlink(ROOT, f"{cls.place}/usched")
        os.symlink(f"{ROOT}/posix/usched-run", f"{cls.place}/usched-run")

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(f"{B}/libusched-check.a"):
            raise unittest.SkipTest(f"no libraries in {B}: run make first")
        with open(f"{B}/flags") as file:
            flags = file.read()
        if "-fsanitize" in flags or "SWITCH=setjmp" in flags or "SINGLE_THREAD" in flags:
            raise unittest.SkipTest("what is shown is that of a plain build")
        if os.uname().machine != "x86_64":
            raise unittest.SkipTest(f"{cls.machine} of x86-64 are shown")
        for program in cls.programs:
            if not shutil.which(program):
                raise unittest.SkipTest(f"there is no {program}")
        cls.place = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.place)
        with open(f"{ROOT}/doc/{cls.page}") as file:
            cls.text = file.read()

    @classmethod
    def compile(cls, *words, at=None):
        """In the directory of the sources, or `at' another."""
        subprocess.run([*CC, "-O1", "-g", *words, "-pthread"], check=True, timeout=LIMIT,
                       cwd=at or ROOT)

    @classmethod
    def preloaded(cls, *names):
        """Libraries of sources that have the same names, such as debug/ulocks."""
        for name in names:
            cls.compile("-std=c11", "-shared", "-fPIC", "-I.", f"{name}.c", "-o",
                        f"{cls.place}/{os.path.basename(name)}.so")

    @staticmethod
    def slowed(commands, times):
        """All that is in seconds takes so much longer."""
        return re.sub(r"((?:timeout|sleep|socat -t|--seconds|trace \$pid) |interval=)([0-9.]+)",
                      lambda found: found.group(1) + str(float(found.group(2)) * times), commands)

    def plain(self, line):
        """Without numbers, what follows from them, and the blanks that line columns up."""
        line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
        line = re.sub(r"\b([0-9]+ (?:choice|run|step))s?\b", r"\1", line).replace(" makes it ", " make it ")
        return " ".join(re.sub(self.numbers, "N", line).split())

    def missing(self, shown, said):
        """The first line that is shown and not said, in that order; or None."""
        rest = iter([self.plain(line) for line in said.splitlines()])
        for line in shown.splitlines():
            hidden = "..." in line or (self.hidden and self.hidden.search(line))
            if not hidden and self.plain(line) not in rest:
                return line
        return None

    def says(self, run, shown):
        """run(times) returns what is shown, with so much more time: a busy machine may be
        late for some of it."""
        for times in TIMES:
            said = run(times)
            line = self.missing(shown, said)
            if line is None:
                return
        self.fail(f"'{line}' is not printed:\n{said}")
