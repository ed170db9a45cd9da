#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doc/tutorial.md: its commands print what it shows there, with the programs of
examples/tutorial/, and what it shows of these is in them. Then the recipe for child
processes in jobs.c, as a program of its own. doc/recipes.md: its programs, which are on the
page, compile without a warning, and its commands print what it shows.

A block of C is a part of one of the programs. A block of "diff" changes chat.c, as in
porting.md. A command below <!-- run --> is run in a copy of the directory; each line shown
must be printed, in that order, except those with "...". Numbers and hashes are not
compared. <!-- run tls --> needs OpenSSL's headers, <!-- run hiredis --> and the like a library
and its server.

Environment: that of pagelib.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import unittest

import pagelib
from pagelib import B, CC, LIMIT, ROOT
import serverlib
from serverlib import until

BLOCK = re.compile(r"(?:<!-- (run.*?) -->\n)?```(\w*)\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.S)
LIBRARIES = ("usched", "packaging/"), ("usched-sim", "packaging/"), ("usched-tls", "tls/")


class Tutorial(pagelib.Page):
    page, machine = "tutorial.md", "steps"
    programs = "socat", "openssl", "pkg-config"
    numbers = r"hash \w+|-?\d+(\.\d+)?"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_simulation()
        for file in glob.glob(f"{ROOT}/examples/tutorial/*.c"):
            shutil.copy(file, cls.place)
        for library, where in LIBRARIES:
            cls.describe(library, f"{ROOT}/{where}usched.pc.in")
        cls.has_tls = subprocess.run(
            [*CC, "-fPIC", "-shared", "-I.", "tls/utls.c", "tls/utls_context.c", "-o",
             f"{cls.place}/libusched-tls.so", "-lssl", "-lcrypto"], cwd=ROOT,
            stderr=subprocess.DEVNULL, check=False, timeout=LIMIT).returncode == 0
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": cls.place,
                           "LD_LIBRARY_PATH": f"{B}:{cls.place}",
                           "PATH": f"{cls.place}:{os.environ['PATH']}",
                           "USCHED_SIM_LIBRARY": f"{B}/libusched-sim.so"}

    @classmethod
    def describe(cls, library, source):
        """For pkg-config, as `make install' does."""
        with open(source) as file:
            text = file.read()
        for word, value in (("prefix", cls.place), ("includedir", cls.place), ("libs", ""),
                            ("libdir", cls.place if library == "usched-tls" else B),
                            ("version", "0"), ("name", library)):
            text = text.replace(f"@{word}@", value)
        with open(f"{cls.place}/{library}.pc", "w") as file:
            file.write(text)

    def run_commands(self, commands, times):
        commands = self.slowed(commands.replace("7000", str(pagelib.a_port())), times)
        with open(f"{self.place}/said", "w+") as said:
            subprocess.run(["sh", "-c", f"{commands}\nwait"], cwd=self.place, stdout=said,
                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                           env=self.environment, timeout=LIMIT)
            said.seek(0)
            return said.read()

    def test_page(self):
        with open(f"{self.place}/chat.c") as file:
            chat = file.read()
        programs = [serverlib.content(file, "r") for file in glob.glob(f"{self.place}/*.c")]
        runs = 0
        for how, language, text, shown in BLOCK.findall(self.text):
            if language == "c":
                self.assertTrue(any(text in program for program in programs), text)
            elif language == "diff":
                chat = pagelib.changed(chat, text)
                with open(f"{self.place}/chat.c", "w") as file:
                    file.write(chat)
            elif how:
                runs += 1
                if how == "run tls" and not self.has_tls:
                    continue
                with self.subTest(commands=text):
                    self.says(lambda times: self.run_commands(text, times), shown)
        self.assertEqual(runs, self.text.count("<!-- run"))
        self.assertGreater(runs, 7)


class Recipes(Tutorial):
    page, machine = "recipes.md", "recipes"
    needs = {"run hiredis": ("hiredis/hiredis.h", "redis-server"),
             "run libpq": ("libpq-fe.h", None), "run sqlite3": ("sqlite3.h", None)}

    def has(self, how):
        header, program = self.needs[how]
        flags = [] if how == "run hiredis" else subprocess.run(
            ["pkg-config", "--cflags", how.split()[1]], capture_output=True, text=True,
            check=False, timeout=LIMIT).stdout.split()
        return subprocess.run([*CC, *flags, "-include", header, "-fsyntax-only", "-xc",
                               "/dev/null"], stderr=subprocess.DEVNULL, check=False,
                              timeout=LIMIT).returncode == 0 and \
            (not program or shutil.which(program))

    def test_page(self):
        runs = 0
        for how, language, text, shown in BLOCK.findall(self.text):
            if language == "c":
                name = re.match(r"/\* (\S+) \*/", text).group(1)
                with open(f"{self.place}/{name}", "w") as file:
                    file.write(text)
            elif how:
                runs += 1
                if how in self.needs and not self.has(how):
                    continue
                text = text.replace("cc -O2", "cc -O2 -Wall -Wextra -Werror")
                with self.subTest(commands=text):
                    self.says(lambda times: self.run_commands(text, times), shown)
        self.assertEqual(runs, self.text.count("<!-- run"))
        self.assertEqual(runs, 5)


class Jobs(unittest.TestCase):
    """examples/tutorial/jobs.c."""

    @classmethod
    def setUpClass(cls):
        Tutorial.setUpClass()
        cls.addClassCleanup(Tutorial.doClassCleanups)
        cls.place = Tutorial.place
        Tutorial.compile("-Wall", "-Wextra", "-Werror", "-I.", "examples/tutorial/jobs.c",
                         f"{B}/libusched.a", "-o", f"{cls.place}/pool")

    def start(self, commands, *arguments, **options):
        pool = subprocess.Popen([f"{self.place}/pool", *arguments], cwd=self.place,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                **options)
        self.addCleanup(pool.communicate)
        self.addCleanup(pool.kill)
        pool.stdin.write("".join(command + "\n" for command in commands))
        pool.stdin.close()
        pool.stdin = None
        return pool

    def says(self, commands, *arguments, **options):
        said = self.start(commands, *arguments, **options).communicate(timeout=LIMIT)[0]
        return said.splitlines()

    def processes(self, mark):
        """Those that have it in their environment; zombies have none."""
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    if f"JOBS_MARK={mark}".encode() in file.read().split(b"\0"):
                        found.append(path)
            except OSError:
                pass
        return found

    def test_at_once(self):
        """Never more than N: each command counts those that it finds."""
        command = "mkdir here.$$; ls -d here.* | wc -l; sleep 0.05; rmdir here.$$"
        said = self.says([command] * 40, "3", "600")
        counts = [int(line) for line in said if line.isdigit()]
        self.assertEqual(len(counts), 40)
        self.assertLessEqual(max(counts), 3)
        self.assertEqual(said.count(f"{command}: exit status 0"), 40)

    def test_child(self):
        """Its signals, its descriptors, its input; much output, of which some is kept."""
        said = self.says(["grep SigBlk /proc/self/status", "grep SigIgn /proc/self/status",
                          "ls /proc/self/fd", "cat",
                          "head -c 1000000 /dev/zero | tr '\\0' x"], "1", "600",
                         restore_signals=False)          # so SIGPIPE is ignored
        signals = {line[:6]: int(line[8:], 16) for line in said if line[:3] == "Sig"}
        of_libc = 3 << 31               # 32 and 33: glibc has children ignore them
        self.assertEqual(signals["SigBlk"], 0)
        self.assertEqual(signals["SigIgn"] & ~of_libc, 0)
        at = said.index("ls /proc/self/fd: exit status 0")
        self.assertEqual(said[at + 1:at + 5], ["0", "1", "2", "3"])     # 3 is that of ls
        self.assertEqual(said[at + 5], "cat: exit status 0")
        self.assertEqual(said[-1], "x" * 4096)

    def test_deadline(self):
        """What a command has started dies with it; one whose output stays open, too."""
        environment = {**os.environ, "JOBS_MARK": f"deadline{os.getpid()}"}
        pool = self.start(["sleep 600 & sleep 600", "sleep 600 &", "exec >&- 2>&-; sleep 600",
                           "trap '' TERM; while :; do sleep 1; done", "echo after"],
                          "4", "0.5", env=environment)
        said = pool.communicate(timeout=LIMIT)[0].splitlines()
        self.assertEqual(len([x for x in said if x.endswith(": the deadline has passed")]), 4)
        self.assertIn("after", said)
        until(lambda: not self.processes(environment["JOBS_MARK"]), "their end")

    def test_cancel(self):
        """SIGTERM ends all, those that run and those that have not begun."""
        environment = {**os.environ, "JOBS_MARK": f"cancel{os.getpid()}"}
        pool = self.start(["sleep 600"] * 20, "5", "600", env=environment)
        until(lambda: len(self.processes(environment["JOBS_MARK"])) >= 6, "children")
        pool.send_signal(signal.SIGTERM)
        said = pool.communicate(timeout=LIMIT)[0].splitlines()
        self.assertEqual(said, ["sleep 600: the thread or its scope was cancelled"] * 20)
        self.assertEqual(pool.returncode, 0)
        until(lambda: not self.processes(environment["JOBS_MARK"]), "their end")


if __name__ == "__main__":
    unittest.main()
