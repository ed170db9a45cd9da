#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""graph.py: the pictures that it makes of results which are made up, and its arguments.
golden.sh has its tables. Pictures are skipped without matplotlib.
"""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# matplotlib may complain of the user's directory, and of its first look for fonts. Programs
# that are run here find this directory as it is after that.
_config = tempfile.TemporaryDirectory()
os.environ["MPLCONFIGDIR"] = _config.name
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True
import graph  # noqa: E402

try:
    import matplotlib.font_manager  # noqa: F401
    NO_PICTURES = ""
except ImportError:
    NO_PICTURES = "there is no matplotlib"

SVG = "{http://www.w3.org/2000/svg}"

RESULTS = """\
N, R, M, U, C++, <a & "b">, POSIX
2, 2, 1000000, 1.0, 0.5, 0.7, 7
2, 100, 1000000, 30.0, 25.0, 24.0, 100000.000
2, 1000000, 100, fail:timeout, 5.0, 6.0, 100000.000
N, R, M, U, C++
2, 2, 1000000, 1.5, 0.6
2, 100, 1000000, 32.0, 35.0
"""


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(scratch.name)

    def graph(self, results, *arguments):
        """Runs graph.py in this process: its status, output and complaints."""
        out, err, before = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(results.encode()))
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = graph.main(list(arguments))
        finally:
            sys.stdin = before
        return status, out.getvalue(), err.getvalue()

    def program(self, results, *arguments, **environment):
        """Runs graph.py as a program."""
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "graph.py"), *arguments], input=results,
            capture_output=True, text=True, env={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr


def clone(directory, *names):
    """What graph.py needs, and more files of those names."""
    for name in "graph.py", "bench/workloads.py", *names:
        os.makedirs(os.path.join(directory, os.path.dirname(name)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, name), os.path.join(directory, name))
    shutil.copytree(os.path.join(ROOT, "tools/usched_view"),
                    os.path.join(directory, "tools/usched_view"))


def text_of(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def bytes_of(name):
    with open(name, "rb") as file:
        return file.read()


class Refusals(Case):
    def test_arguments(self):
        self.assertEqual(self.graph(RESULTS, "--wide")[0], 2)
        for name in "c2", "c2.jpg", "c2.svgz", ".svg":
            with self.subTest(name=name):
                status, out, err = self.graph(RESULTS, "c2.png", name)
                self.assertEqual((status, out, os.listdir()), (2, "", []))
                self.assertIn(f"'{name}'", err)
        status, out, _ = self.program("", "--help")
        self.assertEqual(status, 0)
        self.assertRegex(out, "(?m)^usage: ")

    def test_without_matplotlib(self):
        os.mkdir("empty")
        with open("empty/matplotlib.py", "w") as file:
            file.write('raise ImportError("not here")\n')
        path = os.path.abspath("empty")
        self.assertEqual(self.program(RESULTS, PYTHONPATH=path)[0], 0)
        clone("clone")

        def draw():
            done = subprocess.run([sys.executable, "clone/graph.py", "none.svg"],
                                  input=RESULTS, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": path})
            self.assertEqual((done.returncode, done.stdout, sorted(os.listdir())),
                             (1, "", ["clone", "empty"]))
            return done.stderr

        self.assertRegex(draw(), "^graph.py: .*pip install matplotlib")
        os.makedirs("clone/.venv/bin")
        os.symlink(sys.executable, "clone/.venv/bin/python3")
        self.assertEqual(draw(), "graph.py: pictures need matplotlib: run this with "
                         "clone/.venv/bin/python3\n")


@unittest.skipIf(NO_PICTURES, NO_PICTURES)
class Published(Case):
    """The commands of doc/benchmarks.md, as they stand there, with programs that are made up."""

    def commands(self, *words):
        return subprocess.run(words, capture_output=True, text=True, env={
            **{name: value for name, value in os.environ.items() if name != "BUILD"},
            "PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}", "PROCS": "2"})

    def test_commands(self):
        clone(".", "bench.sh", "bench/workloads.sh", "usched.h", "scripts/report.py",
              "scripts/report.sh", "doc/benchmarks.md")
        lines = re.search(r"^\./bench\.sh \| .*\n.*graph\.py.*\n",
                          text_of("doc/benchmarks.md"), re.M)[0]
        self.assertIn(lines.splitlines()[1], text_of("graph.py"))
        texts = {"bin/python3": f'exec {sys.executable} "$@"'}
        texts.update((f"build/{name}", "echo 0.5") for name in (
            "rmain", "rmain.1t", "rmain.readme", "lmain", "lmain.setjmp"))
        for name, text in texts.items():
            os.makedirs(os.path.dirname(name), exist_ok=True)
            with open(name, "w") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(name, 0o755)
        done = self.commands("sh", "scripts/report.sh")  # what make bench does
        self.assertEqual(done.returncode, 0, done.stderr)
        for times in 1, 2:
            done = self.commands("bash", "-e", "-o", "pipefail", "-c", lines)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(text_of("results").count("\n"), 32 * times)
            self.assertEqual(len([line for line in text_of("c2-table.md").splitlines()
                                  if line.startswith("| U")]), 9)
            self.assertIn("one run" if times == 1 else "mean of 2 runs",
                          " ".join(Drawing("c2.svg").texts))
        self.assertEqual(len(os.listdir("runs")), 3)


class Drawing:
    """An SVG that was written."""

    def __init__(self, name):
        self.root = ElementTree.parse(name).getroot()
        self.style = dict(re.findall(r"\.(\w+)\{(.*)\}", self.root.find(f"{SVG}style").text))
        self.texts = [element.text for element in self.root.iter(f"{SVG}text")]
        # The implementations, from the top.
        self.names = [text for text in self.texts if re.fullmatch("[A-Z][A-Z0-9+]*", text)]

    def styled(self, *rules):
        """Elements of which the style has each of these rules."""
        return [element for element in self.root.iter() if all(
            rule in self.style.get(element.get("class"), "").split(";") for rule in rules)]

    def our_lines(self):
        return len(self.styled("stroke-width:2.4"))

    def other_lines(self):
        return len([line for line in self.styled("stroke-width:1.1")
                    if "stroke-dasharray" in self.style[line.get("class")]])


@unittest.skipIf(NO_PICTURES, NO_PICTURES)
class Pictures(Case):
    def draw(self, results, name="picture.svg"):
        status, _, err = self.graph(results, name)
        self.assertEqual((status, err), (0, ""))
        return Drawing(name)

    def says(self, drawing, *words):
        for word in words:
            self.assertTrue(any(re.search(word, text) for text in drawing.texts),
                            f"'{word}' is not in {drawing.texts}")

    def test_kinds(self):
        names = "one.svg", "one.png", "one.PDF"
        self.assertEqual(self.graph(RESULTS, *names)[::2], (0, ""))
        for name, start in zip(names, (b"<svg ", b"\x89PNG", b"%PDF-")):
            self.assertTrue(bytes_of(name).startswith(start), name)
        drawing = Drawing("one.svg")
        self.assertEqual(drawing.root.tag, f"{SVG}svg")
        self.says(drawing, "^U$", r"^C\+\+$", '^<a & "b">$', "^POSIX$", "million operations",
                  "^threads", "N = 2")

    # Nothing is written if something cannot be; no other file is left either.
    def test_all_or_none(self):
        os.mkdir("taken.png")
        for name in "absent/c2.svg", "taken.png":
            with self.subTest(name=name):
                status, out, err = self.graph(RESULTS, "first.svg", name)
                self.assertEqual((status, out, os.listdir()), (1, "", ["taken.png"]))
                self.assertRegex(err, f"^graph.py: cannot write {name}: ")

    # Bars: the lowest first, in the colours of their columns; none for what has no value.
    def test_bars(self):
        bars = self.draw("ring, passes, UCONTEXT, U10K, GO, LUA, X\n"
                         "ring, 1000, 3e-6, 2e-6, 40e-6@20000, fail:missing, fail:memory\n"
                         "ring, 1000, 5e-6, 2e-6, 60e-6@20000, fail:missing, fail:memory\n")
        self.assertEqual(bars.names, ["U10K", "GO", "UCONTEXT"])
        self.says(bars, "ns per pass", r"2\.50 \(with 20k passes\)", r"4\.00", r"2\.00",
                  "passes = 1000; lower is better; median of 2 runs")
        self.assertEqual([len([bar for bar in bars.styled(f"fill:{colour}")
                               if bar.tag == f"{SVG}path"])
                          for colour in ("#56b4e9", "#777777", "#6699cc")], [1, 1, 1])
        self.assertFalse([text for text in bars.texts if "logarithmic" in text])

    # Lines of ours are heavy, of the others dashed; logarithmic from a factor of 50 on.
    def test_lines(self):
        results = ("N, R, M, UL, UCONTEXT, GO\n"
                   "2, 2, 1000000, 1, 49, 2\n2, 200, 10000, 1, 49, 2\n")
        lines = self.draw(results)
        self.assertEqual(lines.our_lines(), 2)  # with that in the legend
        self.assertEqual(lines.other_lines(), 4)
        self.says(lines, r"^0\.0$")
        wide = self.draw(results.replace("49", "51"))
        self.assertNotIn("0.0", wide.texts)
        self.says(wide, r"0\.1")


if __name__ == "__main__":
    unittest.main()
