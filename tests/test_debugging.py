#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doc/debugging.md: its commands are run, and print what it shows.

Above a command is a comment with the program that it looks at, such as

    <!-- night hang -->

which is started before, with its number in $pid; with "core" behind it, it has crashed
before. Each line shown must be printed, in that order. Numbers and addresses are not
compared, nor lines with "...", nor frames of libraries.

    B      the build directory; default build
    CC     the compiler; default cc
"""

import glob
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
B = os.path.join(ROOT, os.environ.get("B", "build"))
PAGE = os.path.join(ROOT, "doc", "debugging.md")
LIMIT = 60              # seconds: a command that takes so long hangs
QUESTIONS = 10
ATTEMPTS = 3
# Frames of libraries, which depend on what the compiler has inlined.
ELSEWHERE = re.compile(r"\b(uwait|usched_)_|libc\.so|0x\w+ \(night\+0x\w+\)$|Aborted|fault")
EXAMPLE = re.compile(r"<!-- night(.*?) -->\n```sh\n(.*?)```\n+```\n(.*?)```", re.S)


def plain(line):
    """Without numbers, and without the blanks that line columns up."""
    line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
    return " ".join(re.sub(r"-?\d+(\.\d+)?", "N", line).split())


def allow_core():
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def dumps():
    with open("/proc/sys/kernel/core_pattern") as file:
        return not file.read().startswith(("|", "/")) and \
            resource.getrlimit(resource.RLIMIT_CORE)[1] != 0


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.place)
        if not os.path.exists(f"{B}/libusched-check.a"):
            raise unittest.SkipTest(f"no libraries in {B}: run make first")
        with open(f"{B}/flags") as file:
            flags = file.read()
        if "-fsanitize" in flags or "SWITCH=setjmp" in flags or "SINGLE_THREAD" in flags:
            raise unittest.SkipTest("what is shown is that of a plain build")
        if os.uname().machine != "x86_64":
            raise unittest.SkipTest("uthreads of x86-64 is shown")
        for name, library in ("night", "usched"), ("night-check", "usched-check"):
            subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=c11", "-O1", "-g",
                            "-D_DEFAULT_SOURCE", "-I.", "tests/night.c", "-o",
                            f"{cls.place}/{name}", f"{B}/lib{library}.a", "-rdynamic",
                            "-Wl,-u,utrace_start", "-pthread"], check=True, timeout=LIMIT, cwd=ROOT)
        subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=c11", "-O1", "-g",
                        "-shared", "-fPIC", "-I.", "ulocks.c", "-o",
                        f"{cls.place}/ulocks.so", "-pthread"], check=True, timeout=LIMIT,
                       cwd=ROOT)
        with open(PAGE) as file:
            cls.text = file.read()
        cls.env = dict(os.environ, PATH=f"{ROOT}/tools:{os.environ['PATH']}",
                       PYTHONDONTWRITEBYTECODE="1", SHARE=f"{ROOT}/tools", LC_ALL="C")

    def start(self, words, log):
        process = subprocess.Popen(["./night", *words], cwd=self.place, stdout=subprocess.PIPE,
                                   stderr=log, stdin=subprocess.DEVNULL, text=True,
                                   preexec_fn=allow_core)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def printed(self, words, commands):
        """By the commands, and by the program."""
        env = dict(self.env)
        with open(f"{self.place}/log", "w+") as log:
            if words[1:] == ["core"]:
                for core in glob.glob(f"{self.place}/core*"):
                    os.unlink(core)
                self.start(words[:1], log).wait(LIMIT)
            elif words:
                process = self.start(words, log)
                self.assertEqual(process.stdout.readline(), "ready\n")
                env["pid"] = str(process.pid)
            done = subprocess.run(["sh", "-c", commands], cwd=self.place, env=env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, timeout=LIMIT)
            log.seek(0)
            return log.read() + done.stdout

    def compare(self, shown, found):
        rest = iter([plain(line) for line in found.splitlines()])
        for line in shown.splitlines():
            if line.strip() and "..." not in line and not ELSEWHERE.search(line):
                self.assertIn(plain(line), rest, f"'{line}' is not printed:\n{found}")

    def attempt(self, words, commands, shown):
        """A busy machine may be late for some."""
        for left in reversed(range(ATTEMPTS)):
            found = self.printed(words, commands)
            if SHOW:
                print(f"$ {commands}{found}")
            try:
                self.compare(shown, found)
                return
            except AssertionError:
                if not left:
                    raise

    def test_commands(self):
        examples = EXAMPLE.findall(self.text)
        for words, commands, shown in examples:
            words = words.split()
            if words[1:] == ["core"] and not dumps():
                continue
            if "gdb" in commands and not shutil.which("gdb"):
                continue
            with self.subTest(commands=commands):
                self.attempt(words, commands, shown)
        self.assertGreaterEqual(len(examples), QUESTIONS)
        self.assertEqual(self.text.count("\n```sh\n"), len(examples), "a command is not run")

    def test_questions(self):
        numbers = re.findall(r"^## (\d+)\. ", self.text, re.M)
        self.assertEqual(numbers, [str(i + 1) for i in range(QUESTIONS)])


SHOW = [word for word in sys.argv if word == "--show"]
if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word not in SHOW])
