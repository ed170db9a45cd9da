#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doc/porting.md: its program compiles after each step, and its commands print what it
shows there.

A block of C is the program. A block of "diff" changes it: each part, which "@@" begins,
replaces lines that are there once. A command below <!-- run --> is run with the program of
that step; each line shown must be printed, in that order, but for those with "...".
Numbers and addresses are not compared. With <!-- run slow --> the disk
takes its time, by tests/slow.c.

    B      the build directory; default build
    CC     the compiler; default cc
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
B = os.path.join(ROOT, os.environ.get("B", "build"))
CC = shlex.split(os.environ.get("CC", "cc"))
LIMIT = 60              # seconds: a command that takes so long hangs
ATTEMPTS = 3
BLOCK = re.compile(r"(?:<!-- (run.*?) -->\n)?```(\w*)\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.S)
# As it is on the page, but that all compilers name the same calls.
OPTIONS = "-O1", "-g", "-fno-inline", "-Wall", "-Wextra", "-Werror", "-pthread"


def plain(line):
    line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
    return " ".join(re.sub(r"@GLIBC\S*|-?\b[0-9a-f]*\d[0-9a-f]*\b(\.\d+)?", "N", line).split())


def changed(text, diff):
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


class Porting(unittest.TestCase):
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
            raise unittest.SkipTest("calls of x86-64 are shown")
        if not shutil.which("socat") or not shutil.which("nm"):
            raise unittest.SkipTest("there is no socat, or no nm")
        os.symlink(ROOT, f"{cls.place}/usched")
        for name in "ulocks", "tests/slow":
            cls.compile("-shared", "-fPIC", "-I.", f"usched/{name}.c", "-o",
                        os.path.basename(name) + ".so")
        with open(f"{ROOT}/doc/porting.md") as file:
            cls.text = file.read()

    @classmethod
    def compile(cls, *words):
        subprocess.run([*CC, *OPTIONS, *words], check=True, timeout=LIMIT, cwd=cls.place)

    def build(self, program, step):
        with open(f"{self.place}/journal.c", "w") as file:
            file.write(program)
        if step == 0:
            self.compile("journal.c", "-o", "journal")
            return
        for name, library in ("journal", "usched"), ("journal-check", "usched-check"):
            self.compile("-I.", "journal.c", f"{B}/lib{library}.a", "-rdynamic", "-o", name)

    def run_commands(self, commands, slow):
        commands = commands.replace("7000", str(a_port()))
        if slow:
            commands = commands.replace("./ulocks.so", "'./ulocks.so ./slow.so'")
        with open(f"{self.place}/said", "w+") as said:
            subprocess.run(["sh", "-c", f"{commands}\nwait"], cwd=self.place, stdout=said,
                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=LIMIT)
            said.seek(0)
            return said.read()

    def check(self, how, commands, shown):
        """A busy machine may be late for some."""
        for left in reversed(range(ATTEMPTS)):
            said = self.run_commands(commands, how == "run slow")
            rest = iter([plain(line) for line in said.splitlines()])
            if all(plain(line) in rest for line in shown.splitlines() if "..." not in line):
                return
        self.fail(f"$ {commands}\nprints not what is shown, but\n{said}")

    def test_steps(self):
        program, steps, runs = None, 0, 0
        for how, language, text, shown in BLOCK.findall(self.text):
            if language in ("c", "diff"):
                program = text if language == "c" else changed(program, text)
                with self.subTest(step=steps):
                    self.build(program, steps)
                steps += 1
            elif how:
                runs += 1
                with self.subTest(commands=text):
                    self.check(how, text, shown)
        self.assertEqual((steps, runs), (7, self.text.count("<!-- run")))

    def test_server(self):
        """The first and the last step: every line of many clients is answered, once."""
        program, steps = None, 0
        for _, language, text, _ in BLOCK.findall(self.text):
            if language in ("c", "diff"):
                program = text if language == "c" else changed(program, text)
                steps += 1
                if steps in (1, 7):
                    self.build(program, steps - 1)
                    self.talk("" if steps == 1 else ":")

    def talk(self, before):
        port = a_port()
        file = f"{self.place}/stored"
        server = subprocess.Popen([f"{self.place}/journal", f"{before}{port}", file])
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        clients = [subprocess.Popen(
            ["socat", "-t60", "-", f"TCP:127.0.0.1:{port},retry=100,interval=0.1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(8)]
        for i, client in enumerate(clients):
            client.stdin.write(f"client{i}\n" + "".join(f"line {i} {n}\n" for n in range(20)))
            client.stdin.close()
        numbers = [int(line.split(",")[0]) for client in clients for line in client.stdout]
        for client in clients:
            client.stdout.close()
            client.wait()
        with open(file) as stored:
            lines = [line.split(maxsplit=1)[1] for line in stored if " line " in line]
        os.unlink(file)
        self.assertEqual(len(set(numbers)), 160)
        self.assertEqual(sorted(lines), sorted(f"line {i} {n}\n" for i in range(8)
                                               for n in range(20)))


if __name__ == "__main__":
    unittest.main()
