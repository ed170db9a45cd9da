#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/report.py and report.sh: the page that they make of a directory of results.

What is about pictures is skipped without matplotlib.
"""

import html.parser
import os
import subprocess
import sys
import unittest

from test_graph import NO_PICTURES, ROOT, Case, clone, text_of

MACHINE = """\
date: 2026-01-02 03:04:05 +0000
host: here
cpu: Fast | <Cold> CPU
cores: 2
kernel: Linux 6.1
CC: cc
CFLAGS: -O2 -g
CPPFLAGS:
compiler: cc 12
usched: 1.2.3
commit: 0123456789abcdef0123456789abcdef01234567
quick: yes
peer: go: go1.99
peer: lua: Lua 5.4
skipped of ring: LISP
"""
CYCLE = """\
N, R, M, U, GO
2, 2, 1000000, 1.0, 2.0
N, R, M, U, GO
8, 2, 1000000, 4.0, 8.0
"""
RING = """\
ring, passes, U1T, <a & "b">
ring, 1000, 1e-6, 2e-6
"""
VOID = {"meta", "link", "img", "br", "path", "use"}


class Page(html.parser.HTMLParser):
    """What is in a page; each tag must be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.links, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        assert tag in VOID, tag

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.texts.append(data)

    def count(self, tag):
        return len([name for name, _ in self.found if name == tag])


class Report(Case):
    def setUp(self):
        super().setUp()
        os.mkdir("results")

    def keep(self, **files):
        for name, text in files.items():
            kind = "txt" if name in ("machine", "failures") else "csv"
            with open(f"results/{name}.{kind}", "w") as file:
                file.write(text)

    def run_report(self, *arguments, **environment):
        return subprocess.run(
            [sys.executable, os.path.join(ROOT, "scripts/report.py"), *arguments],
            capture_output=True, text=True, env={**os.environ, **environment})

    def report(self, status=0, **environment):
        done = self.run_report("results", **environment)
        self.assertEqual(done.returncode, status, done.stderr)
        if NO_PICTURES == "" or status:
            self.assertEqual(done.stderr == "", status == 0, done.stderr)
        return done

    def page(self):
        return Page(text_of("results/report.html"))

    def without_matplotlib(self):
        os.mkdir("empty")
        with open("empty/matplotlib.py", "w") as file:
            file.write('raise ImportError("not here")\n')
        return {"PYTHONPATH": os.path.abspath("empty")}


class Pages(Report):
    """Those without pictures, for which matplotlib need not be there."""

    def report(self, status=1):
        return super().report(status, **self.without_matplotlib())

    def test_without_matplotlib(self):
        self.keep(cycle=CYCLE, ring=RING, machine=MACHINE)
        done = self.report()
        self.assertEqual(sorted(os.listdir("results")),
                         ["c2.md", "c8.md", "cycle.csv", "machine.txt", "report.html",
                          "report.md", "ring.csv", "ring.md"])
        self.assertEqual(done.stderr.count("report.py: No picture of"), 3)
        self.assertIn("No picture of ring: pictures need matplotlib",
                      text_of("results/report.md"))

    def test_tables(self):
        self.keep(cycle=CYCLE, ring=RING, machine=MACHINE)
        done = self.report()
        markdown, page = text_of("results/report.md"), self.page()
        for name, unit, results in (
                ("ring", "", RING),
                ("c2", ", million operations per second",
                 CYCLE.partition("N, R, M, U, GO\n8")[0])):
            _, table, _ = self.graph(results)
            self.assertEqual(text_of(f"results/{name}.md"), table)
            self.assertIn(f"\n{name}{unit}:\n\n{table}", done.stdout)
            self.assertIn(table, markdown)
        self.assertEqual(page.count("table"), 4)
        self.assertEqual([text for text in page.texts if text in ("U", "U1T", '<a & "b">')],
                         ["U", "U", "U", "U", "U1T", '<a & "b">', "U1T"])
        self.assertEqual([a for tag, a in page.found if tag == "td" and a.get("class") == "U"],
                         2 * [{"class": "U", "title": "rr on all processors"}]
                         + [{"class": "U", "title": "rr on one processor"}])
        self.assertIn(("th", {"class": "n", "title": "the most of the runs"}), page.found)
        self.assertIn(("th", {"class": "n", "title": "4 threads, N·R: million operations per "
                              "second, the mean of the runs"}), page.found)
        self.assertEqual([text for text in page.texts if text.startswith("rr on")],
                         ["rr on all processors", "rr on all processors",
                          "rr on one processor"])  # in the legends

    def test_machine(self):
        self.keep(ring=RING, machine=MACHINE)
        self.report()
        markdown, texts = text_of("results/report.md"), self.page().texts
        self.assertTrue(markdown.startswith("# Benchmarks of usched 1.2.3\n"))
        self.assertIn("2026-01-02 03:04, Fast | <Cold> CPU, 2 cores, Linux 6.1, cc 12, -O2 -g, "
                      "commit 0123456789ab, quick run.", texts)
        for row in (r"| cpu | Fast \| <Cold> CPU |", "| peer | go: go1.99 |",
                    "| peer | lua: Lua 5.4 |", "| skipped of ring | LISP |"):
            self.assertIn(f"\n{row}\n", markdown)
        self.assertIn("Fast | <Cold> CPU", texts)
        self.assertNotIn("CPPFLAGS", markdown)

    def test_failures(self):
        self.keep(ring=RING, failures="ring: X: <fail> & more\n\nring: Y: fail\n")
        self.report()
        self.assertIn("```\nring: X: <fail> & more\nring: Y: fail\n```\n",
                      text_of("results/report.md"))
        self.assertIn("ring: X: <fail> & more\nring: Y: fail", self.page().texts)

    # As where all that was asked for is skipped: there is a machine, and that is all.
    def test_no_results(self):
        self.keep(machine=MACHINE)
        done = super().report()
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.page().count("table"), 1)

    # No machine, and a workload of which every cell has failed: the others are kept.
    def test_bad_results(self):
        self.keep(ring=RING, create="create, threads, U\ncreate, 5, fail:timeout\n")
        done = self.report()
        self.assertIn("report.py: No results of create: no results", done.stderr)
        self.assertFalse(os.path.exists("results/create.md"))
        self.assertTrue(os.path.exists("results/ring.md"))
        for text in text_of("results/report.md"), "".join(self.page().texts):
            self.assertIn("No results of create: no results", text)
            self.assertIn("The machine is unknown.", text)

    def test_wrong_directory(self):
        done = self.run_report("absent")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^report.py: cannot write absent/report.md: ")

    def test_arguments(self):
        for arguments in (), ("--wide",), ("results", "more"):
            self.assertEqual(self.run_report(*arguments).returncode, 2)
        done = self.run_report("--help")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, "(?m)^usage: ")


@unittest.skipIf(NO_PICTURES, NO_PICTURES)
class Pictures(Report):
    def test_files(self):
        self.keep(cycle=CYCLE, ring=RING, machine=MACHINE)
        self.report()
        made = {f"{name}.{kind}" for name in ("c2", "c8", "ring")
                for kind in ("md", "svg", "png")}
        self.assertEqual(set(os.listdir("results")), made | {
            "cycle.csv", "ring.csv", "machine.txt", "report.md", "report.html"})
        self.assertEqual(self.graph(RING, "ring.svg")[0], 0)
        self.assertEqual(text_of("ring.svg"), text_of("results/ring.svg"))

    # The pictures are inside, and refer only to what is in them: nothing is fetched.
    def test_self_contained(self):
        self.keep(cycle=CYCLE, ring=RING)
        self.report()
        text, page = text_of("results/report.html"), self.page()
        self.assertEqual(page.count("svg"), 6)  # one for narrow screens, too
        self.assertTrue(page.links)
        self.assertEqual([link for link in page.links if link[0] != "#"], [])
        for word in "@import", "url(", "<script", "<img":
            self.assertNotIn(word, text)
        for name in "c2", "c8", "ring":
            self.assertIn(text_of(f"results/{name}.svg"), text)
            self.assertIn(f"\n![{name}]({name}.svg)\n", text_of("results/report.md"))

    # report.sh with a bench.sh that measures nothing, as make bench calls it.
    def test_make_bench(self):
        clone(".", "scripts/report.py", "scripts/report.sh", "doc/benchmarks.md")
        with open("bench.sh", "w") as file:
            file.write(f'#!/bin/sh\necho "$*" >&2\ncat >"results/ring.csv" <<END\n{RING}END\n')
        os.chmod("bench.sh", 0o755)
        done = subprocess.run(
            ["sh", "scripts/report.sh"], capture_output=True, text=True,
            env={**os.environ, "DIR": "results", "WORKLOAD": "ring", "PYTHON": sys.executable})
        self.assertEqual((done.returncode, done.stderr),
                         (0, "--quick --workload ring -o results\n"))
        self.assertIn("| U1T ", done.stdout)
        self.assertTrue(done.stdout.endswith(
            "\nNumbers, tables and pictures: results, all of it in results/report.html\n"))
        self.assertEqual(self.page().count("svg"), 2)


if __name__ == "__main__":
    unittest.main()
