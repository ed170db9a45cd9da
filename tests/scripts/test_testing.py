#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doc/testing.md: its programs compile, and its commands print what it shows there.

A block of C is a file, named in its first line. A command below <!-- run --> is run in the
directory with these; each line shown must be printed, in that order, except those with
"...". Numbers are not compared.

Environment: that of pagelib.
"""

import os
import re
import subprocess
import unittest

import pagelib
from pagelib import B, LIMIT

BLOCK = re.compile(r"(?:<!-- (run) -->\n)?```(\w*)\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.S)


class Testing(pagelib.Page):
    page, machine = "testing.md", "steps"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_simulation()
        cls.environment = {**os.environ, "LIBRARY_PATH": B, "C_INCLUDE_PATH": cls.place,
                           "LD_LIBRARY_PATH": B, "PATH": f"{cls.place}:{os.environ['PATH']}",
                           "USCHED_SIM_LIBRARY": f"{B}/libusched-sim.so"}

    def run_commands(self, commands):
        done = subprocess.run(["sh", "-c", commands], cwd=self.place, timeout=LIMIT,
                              env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout

    def test_page(self):
        runs = 0
        for run, language, text, shown in BLOCK.findall(self.text):
            if language == "c":
                name = re.match(r"/\* (\S+) \*/", text).group(1)
                with open(f"{self.place}/{name}", "w") as file:
                    file.write(text)
            elif run:
                runs += 1
                with self.subTest(commands=text):
                    self.says(lambda _: self.run_commands(text), shown)
        self.assertEqual(runs, self.text.count("<!-- run"))
        self.assertGreater(runs, 4)


if __name__ == "__main__":
    unittest.main()
