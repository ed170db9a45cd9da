#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doc/porting.md: its program compiles after each step, and its commands print what it
shows there.

A block of C is the program. A block of "diff" changes it: each part, which "@@" begins,
replaces lines that are there once. A command below <!-- run --> is run with the program of
that step; each line shown must be printed, in that order, except those with "...".
Numbers and addresses are not compared. With <!-- run slow --> the disk
takes its time, by tests/help/slow.c.

Environment: that of pagelib.
"""

import os
import re
import subprocess
import unittest

import pagelib
from pagelib import B, LIMIT, ROOT
from serverlib import listens, until

BLOCK = re.compile(r"(?:<!-- (run.*?) -->\n)?```(\w*)\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.S)
# As it is on the page, but that all compilers name the same calls.
OPTIONS = "-fno-inline", "-Wall", "-Wextra", "-Werror"


class Porting(pagelib.Page):
    page, machine, programs = "porting.md", "calls", ("socat", "nm")
    numbers = r"@GLIBC\S*|-?\b[0-9a-f]*\d[0-9a-f]*\b(\.\d+)?"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.symlink(ROOT, f"{cls.place}/usched")
        cls.preloaded("debug/ulocks", "tests/help/slow")

    def build(self, program, step):
        with open(f"{self.place}/journal.c", "w") as file:
            file.write(program)
        if step == 0:
            self.compile(*OPTIONS, "journal.c", "-o", "journal", at=self.place)
            return
        for name, library in zip(("journal", "journal-check"), pagelib.LIBRARIES):
            self.compile(*OPTIONS, "-I.", "journal.c", f"{B}/lib{library}.a",
                         pagelib.PRELOADED, "-o", name, at=self.place)

    def run_commands(self, commands, slow, times):
        commands = self.slowed(commands.replace("7000", str(pagelib.a_port())), times)
        if slow:
            commands = commands.replace("./ulocks.so", "'./ulocks.so ./slow.so'")
        with open(f"{self.place}/said", "w+") as said:
            subprocess.run(["sh", "-c", f"{commands}\nwait"], cwd=self.place, stdout=said,
                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=LIMIT)
            said.seek(0)
            return said.read()

    def test_steps(self):
        program, steps, runs = None, 0, 0
        for how, language, text, shown in BLOCK.findall(self.text):
            if language in ("c", "diff"):
                program = text if language == "c" else pagelib.changed(program, text)
                with self.subTest(step=steps):
                    self.build(program, steps)
                steps += 1
            elif how:
                runs += 1
                with self.subTest(commands=text):
                    self.says(lambda times: self.run_commands(text, how == "run slow", times),
                              shown)
        self.assertEqual((steps, runs), (7, self.text.count("<!-- run")))

    def test_server(self):
        """The first and the last step: every line of many clients is answered, once."""
        program, steps = None, 0
        for _, language, text, _ in BLOCK.findall(self.text):
            if language in ("c", "diff"):
                program = text if language == "c" else pagelib.changed(program, text)
                steps += 1
                if steps in (1, 7):
                    self.build(program, steps - 1)
                    self.talk("" if steps == 1 else ":")

    def talk(self, before):
        file = f"{self.place}/stored"
        for _ in range(20):
            port = pagelib.a_port()
            server = subprocess.Popen([f"{self.place}/journal", f"{before}{port}", file])
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            until(lambda: server.poll() is not None or listens(port), "a listener")
            if server.poll() is None:
                break                   # else the port was taken
        clients = [subprocess.Popen(
            ["socat", "-t600", "-", f"TCP:127.0.0.1:{port}"],
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
