#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doc/debugging.md: its commands are run, and print what it shows.

Above a command is a comment with the program that it looks at, such as

    <!-- night hang -->

which is started before, with its number in $pid; with "core" behind it, it has crashed
before. Each line shown must be printed, in that order. Numbers and addresses are not
compared, nor lines with "...", nor frames of libraries.

Environment: that of pagelib.
"""

import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import unittest

import pagelib
from pagelib import B, LIMIT, ROOT

QUESTIONS = 10
# Frames of libraries, which depend on what the compiler has inlined; and empty lines.
ELSEWHERE = re.compile(r"^\s*$|\b(uwait|usched_)_|libc\.so|0x\w+ \(night\+0x\w+\)$|Aborted|fault")
EXAMPLE = re.compile(r"<!-- night(.*?) -->\n```sh\n(.*?)```\n+```\n(.*?)```", re.S)


def allow_core():
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def dumps():
    with open("/proc/sys/kernel/core_pattern") as file:
        return not file.read().startswith(("|", "/")) and \
            resource.getrlimit(resource.RLIMIT_CORE)[1] != 0


class Debugging(pagelib.Page):
    page, machine, hidden = "debugging.md", "frames", ELSEWHERE

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, library in zip(("night", "night-check"), pagelib.LIBRARIES):
            cls.compile("-std=c11", "-D_DEFAULT_SOURCE", "-I.", "tests/help/night.c", "-o",
                        f"{cls.place}/{name}", f"{B}/lib{library}.a",
                        "-Wl,-u,utrace__control", pagelib.PRELOADED)
        cls.preloaded("debug/ulocks")
        cls.env = dict(os.environ, PATH=f"{ROOT}/tools:{os.environ['PATH']}",
                       PYTHONDONTWRITEBYTECODE="1", SHARE=f"{ROOT}/tools", LC_ALL="C")

    def start(self, words, env, log):
        process = subprocess.Popen(["./night", *words], cwd=self.place, env=env,
                                   stdout=subprocess.PIPE,
                                   stderr=log, stdin=subprocess.DEVNULL, text=True,
                                   preexec_fn=allow_core)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def printed(self, words, commands, times):
        """By the commands, and by the program."""
        env = dict(self.env, TIMES=str(times))
        commands = self.slowed(commands, times)
        with open(f"{self.place}/log", "w+") as log:
            if words[1:] == ["core"]:
                for core in glob.glob(f"{self.place}/core*"):
                    os.unlink(core)
                self.start(words[:1], env, log).wait(LIMIT)
            elif words:
                process = self.start(words, env, log)
                self.assertEqual(process.stdout.readline(), "ready\n")
                env["pid"] = str(process.pid)
            done = subprocess.run(["sh", "-c", commands], cwd=self.place, env=env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, timeout=LIMIT)
            log.seek(0)
            found = log.read() + done.stdout
        if SHOW:
            print(f"$ {commands}{found}")
        return found

    def test_commands(self):
        examples = EXAMPLE.findall(self.text)
        for words, commands, shown in examples:
            words = words.split()
            if words[1:] == ["core"] and not dumps():
                continue
            if "gdb" in commands and not shutil.which("gdb"):
                continue
            with self.subTest(commands=commands):
                self.says(lambda times: self.printed(words, commands, times), shown)
        self.assertGreaterEqual(len(examples), QUESTIONS)
        self.assertEqual(self.text.count("\n```sh\n"), len(examples), "a command is not run")

    def test_questions(self):
        numbers = re.findall(r"^## (\d+)\. ", self.text, re.M)
        self.assertEqual(numbers, [str(i + 1) for i in range(QUESTIONS)])


SHOW = [word for word in sys.argv if word == "--show"]
if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word not in SHOW])
