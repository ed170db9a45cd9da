#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""site.py: make site. Makes a site of the documents, the manual and the results.

usage: site.py DIR SITE PAGE...

Run from the top directory by the Python that has MkDocs. The PAGEs are the pages of the
manual as they are installed. Writes what MkDocs gets to DIR, and has it make SITE of that.

A document is a page, with the place that it has here. Sources and tests that a document
links to are pages, too. Each name of a call leads to its description in the manual.
"""

import collections
import html
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "scripts")]
sys.dont_write_bytecode = True
import graph  # noqa: E402
import report  # noqa: E402

HERE = "doc/site"
RESULTS = "bench/results"
GUIDE = ["doc/README.md", "doc/tutorial.md", "doc/recipes.md", "doc/porting.md",
         "doc/testing.md", "doc/debugging.md", "examples/README.md"]
NUMBERS = ["doc/benchmarks.md", "doc/comparison.md", "doc/servers.md"]
BACKGROUND = ["doc/guarantees.md", "doc/lineage.md", "doc/design.md", "doc/tried.md",
              "doc/map.md"]
PROJECT = ["CONTRIBUTING.md", "CHANGES.md", "SECURITY.md"]
LANGUAGES = {".S": "gas", ".awk": "awk", ".c": "c", ".cc": "cpp", ".h": "c", ".hh": "cpp",
             ".go": "go", ".mk": "make", ".py": "python", ".sh": "sh"}
NOTE = """[Benchmarks](../../doc/benchmarks.md) says what the workloads and the names are, and
what to make of the numbers; [machine.txt]({}/machine.txt), where they are from. Each has the
command that measures it on your machine, after `make peers`, which builds the other systems.
"""
BARE = "---\nsearch: {exclude: true}\nhide: [navigation, toc]\n---\n\n"
SECTIONS = {"7": "Overviews", "1": "Commands", "3": "Calls"}
CALLS = re.compile(r'\s*<dt[^>]*><code class="Fn">')     # how a list of them begins
CALL = r"[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def explained(text, known):
    """The text, where columns of tables have titles, and legends below."""
    return "\n\n".join(
        report.table_to_html(block.splitlines(), known) if block.startswith("|") else block
        for block in text.strip().split("\n\n")) + "\n"


class Manual:
    """Pages of the manual: `pages', {name: (title, HTML)}; `calls', {call: page#anchor};
    `headers', the files that they name."""

    def __init__(self, paths):
        self.pages, self.calls, self.headers = {}, {}, set()
        for path in sorted(paths, key=by_map):
            name = os.path.basename(path)
            body = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,man=%N.%S", path],
                                  check=True, capture_output=True, text=True).stdout
            body = re.sub(r"(?s)<table class=\"(head|foot)\">.*?</table>", "", body)
            title = re.search(r'(?s)<span class="Nd">(.*?)</span>', body)[1]
            self.pages[name] = (" ".join(title.split()), body)
            if name.endswith(".3"):
                names = re.search(r"(?s)NAME</a></h1>(.*?)</p>", body)[1]
                for call in re.findall(r'<code class="Nm">(\w+)</code>', names):
                    self.calls[call] = f"{name}.md#{call}"

    def page(self, name):
        """The Markdown of a page."""
        title, body = self.pages[name]
        self.own = {call for call, place in self.calls.items()
                    if place.startswith(f"{name}.md#")}
        self.described = set()
        # Places within a page are those of headings and calls.
        body = re.sub(r'(<(?!h[12])[^>]*?) id="[^"]*"', r"\1", body)
        body = re.sub(r'(?s)<a class="permalink"[^>]*>(.*?)</a>', r"\1", body)
        body = re.sub(r"</?section[^>]*>|</?div[^>]*>", "", body)
        body = re.sub(r'<a class="In">usched/([^<]*)</a>', self.header, body)
        body = re.sub(r'(?s)<a class="Xr" href="([^"]*)">(.*?)</a>', self.reference, body)
        parts = re.split(r'(?s)(<h[12] class="S[hs]" id="[^"]*">.*?</h[12]>)', body)
        text, section = f"# {shown(name)}\n\n", ""
        for part in parts:
            heading = re.fullmatch(r'(?s)<h([12]).*?id="([^"]*)">(.*?)</h.>', part)
            if heading:
                words = " ".join(re.sub("<[^>]*>", "", heading[3]).split())
                if heading[1] == "1":
                    section, words = words, words.capitalize()
                text += f"{'#' * (int(heading[1]) + 1)} {words} {{#{heading[2]}}}\n\n"
            elif part.strip():
                text += self.part(part, section)
        for call in self.own - self.described:
            text = text.replace(f'<code class="Fn">{call}</code>',
                                f'<code class="Fn" id="{call}">{call}</code>', 1)
        return re.sub(r'<code class="(?:Fn|Nm)">(\w+)</code>', self.link, text)

    def part(self, body, section):
        """A part of a page without headings; a description of a call gets one."""
        kind = " synopsis" if section == "SYNOPSIS" else ""
        if section != "DESCRIPTION":
            return block(body, kind)
        text, lists, begin = "", [], 0
        for tag in re.finditer(r"</?(dl|dt|dd)\b[^>]*>", body):
            if tag[0].startswith("<dl"):
                lists.append(not lists and CALLS.match(body, tag.end()) is not None)
            ours = lists[-1]
            if tag[0] == "</dl>":
                lists.pop()
            if ours:
                text += (self.heading if tag[0] == "</dt>" else block)(body[begin:tag.start()])
                begin = tag.end()
        return text + block(body[begin:])

    def heading(self, term):
        """The heading of a description, with a place for each call."""
        words = " ".join(re.sub("<[^>]*>", "", term).split())
        new = [call for call in re.findall(r"\w+", words)
               if call in self.own and call not in self.described]
        self.described.update(new)
        more = "".join(f'<a id="{call}"></a>' for call in new[1:])
        words = re.sub(r"(\w+\(\))", r"`\1`", html.unescape(words))
        return f"#### {words}{more}" + (f" {{#{new[0]}}}" if new else "") + "\n\n"

    def reference(self, match):
        """A reference to another page; without a link if it is not ours."""
        return f'<a href="{match[1]}.html">{match[2]}</a>' if match[1] in self.pages \
            else match[2]

    def header(self, match):
        self.headers.add(match[1])
        return f'<a class="In" href="../{match[1]}.html">usched/{match[1]}</a>'

    def link(self, match):
        place = self.calls.get(match[1])
        return match[0] if not place else \
            f'<a href="{place.replace(".md#", ".html#")}">{match[0]}</a>'

    def index(self):
        text = "# Manual\n\nSection 3 explains the calls, by the comments of their headers.\n"
        for section, heading in SECTIONS.items():
            text += f"\n## {heading}\n\n| page | |\n|---|---|\n"
            for name, (title, _) in self.pages.items():
                if name.endswith(section):
                    text += f"| [{shown(name)}]({name}.md) | {html.unescape(title)} |\n"
        text += "\n## All calls\n"
        groups = collections.defaultdict(list)
        for call, place in sorted(self.calls.items()):
            groups[call.split("_")[0]].append(f"[`{call}`]({place})")
        return text + "".join(f"\n**{group}**: {', '.join(calls)}\n"
                              for group, calls in groups.items())


def by_map(page):
    """The order of pages of the manual: where doc/map.md names them first."""
    name = "(" + os.path.basename(page)
    return (read("doc/map.md") + name).find(name)


def title_of(path):
    """The title of a document; None of other files."""
    title = re.search(r"(?m)^# (.*)", read(path)) if path.endswith(".md") else None
    return title and title[1]


def shown(name):
    return re.sub(r"\.(\d)$", r"(\1)", name)


def block(body, kind=""):
    """A block of HTML in Markdown; programs that are in no list are Markdown, too."""
    text, begin = "", 0
    for program in re.finditer(r"(?s)<pre>(.*?)</pre>", body):
        before = body[begin:program.start()]
        if len(re.findall("<[du]l", before)) == len(re.findall("</[du]l", before)):
            text += block(before, kind)
            code = html.unescape(re.sub("<[^>]*>", "", program[1]))
            language = "c" if ";\n" in f"{code}\n" else "text"
            text += f"```{language}\n{code}\n```\n\n"
            begin = program.end()
    rest = re.sub("<p[^>]*>\\s*</p>", "", body[begin:]).strip()
    rest = rest.replace("<pre>", "<pre><code>").replace("</pre>", "</code></pre>")
    return text + (f'<div class="manual{kind}">\n{rest}\n</div>\n\n' if rest else "")


class Site:
    def __init__(self, source, manual):
        self.source, self.manual = source, manual
        self.seen, self.waiting = set(), []

    def write(self, path, text):
        path = os.path.join(self.source, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def place(self, path):
        """Where a file of ours is in the site; None if it is not there."""
        page = re.fullmatch(r"doc/(.*\.[137])(\.in)?", path)
        result = re.fullmatch(rf"({RESULTS}/\w+)(/(\w+)\.md)?", path)
        if page:
            return f"manual/{page[1]}.md"
        if result:
            return result[1] + ".md" + (f"#{result[3]}" if result[3] else "")
        if os.path.isdir(path):
            path = os.path.join(path, "README.md")
        if not os.path.isfile(path):
            return None
        if path not in self.seen:
            self.seen.add(path)
            self.waiting.append(path)
        if path == "README.md":
            return "index.md"
        if path.endswith("/README.md"):  # else the index of its section
            return path[:-len("/README.md")] + ".md"
        return path if path.endswith((".md", ".svg", ".csv")) else f"{path}.md"

    def convert(self, text, path, page):
        """Markdown of the file `path' for the page `page': links, calls, indents of lists."""
        def link(match):
            target, mark, anchor = match[2].partition("#")
            if not target or re.match(r"[a-z]+:", target):
                return match[0]
            file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            place = self.place(file)
            if place is None:
                return match[1]
            place = posixpath.relpath(place, posixpath.dirname(page) or ".")
            words = match[1] == target and title_of(file) or match[1]
            return f"[{words}]({place}{mark}{anchor})"

        def call(match):
            place = self.manual.calls.get(match[1])
            base = posixpath.relpath("manual", posixpath.dirname(page) or ".")
            return f"[{match[0]}]({base}/{place})" if place else match[0]

        lines, fence, in_list = [], False, False
        for line in text.split("\n"):
            if line.lstrip().startswith("```"):
                fence = not fence
            elif not fence:
                in_list = bool(re.match(r"([-*]|\d+\.) ", line)) or in_list and \
                    (line.startswith(" ") or not line)
                line = re.sub(r"\[([^]]*)\]\(([^)\s]+)\)", link, line)
                if not line.startswith("#"):
                    line = re.sub(rf"(?<!\[)`({CALL})\([^`]*\)`(?!\])", call, line)
            # MkDocs takes four columns for a part of an item, GitHub two or three.
            indent = len(line) - len(line.lstrip())
            if in_list and 2 <= indent <= 3:
                line = " " * (4 - indent) + line
            lines.append(line)
        return "\n".join(lines)

    def document(self, path, page, text=None):
        self.write(page, self.convert(read(path) if text is None else text, path, page))

    def results(self, machine):
        """A page of a directory of results: pictures, tables, and the command of each."""
        base = f"{RESULTS}/{machine}"
        text = f"# Results: {machine}\n\n{NOTE.format(machine)}"
        known = report.explanations()
        for workload, kind in graph.WORKLOADS.items():
            for name in ("c2", "c8") if workload == "cycle" else (workload,):
                if not os.path.exists(f"{base}/{name}.md"):
                    continue
                title, unit = kind.title, ""
                if name != workload:
                    title, unit = f"{title}, N = {name[1:]}", f"{kind.unit.capitalize()}:\n\n"
                text += (f"\n## {title} {{#{name}}}\n\n"
                         f"```sh\nmake bench FULL=1 WORKLOAD={workload}\n```\n\n"
                         f"![{title}]({machine}/{name}.svg)\n\n"
                         f"{unit}{explained(read(f'{base}/{name}.md'), known)}\n"
                         f"The numbers: [{workload}.csv]({machine}/{workload}.csv).\n")
        if os.path.exists(f"{base}/compare.md"):
            text += ("\n## Against the aims {#compare}\n\n```sh\nbench/compare.sh\n```\n\n"
                     + read(f"{base}/compare.md"))
        self.document(f"{base}.md", f"{base}.md", text)

    def listed(self, paths):
        return [self.place(path) for path in paths if os.path.exists(path)]

    def fill(self):
        """Writes all pages; returns the contents."""
        for name in self.manual.pages:
            self.write(f"manual/{name}.md", self.manual.page(name))
        self.write("manual/index.md", self.manual.index())
        machines = sorted(name for name in os.listdir(RESULTS)
                          if os.path.isdir(os.path.join(RESULTS, name)))
        for machine in machines:
            self.results(machine)
        for name in self.manual.headers:
            self.place(name)
        known = GUIDE + NUMBERS + BACKGROUND
        others = sorted(f"doc/{name}" for name in os.listdir("doc") if name.endswith(".md"))
        pages = [{heading: [{shown(name): f"manual/{name}.md"}
                            for name in self.manual.pages if name.endswith(section)]}
                 for section, heading in SECTIONS.items()]
        contents = [
            {"Start": self.place("README.md")},
            {"Guide": self.listed(GUIDE)},
            {"Manual": ["manual/index.md"] + pages},
            {"Benchmarks": self.listed(NUMBERS) + [f"{RESULTS}/{name}.md" for name in machines]},
            {"Background": self.listed(
                BACKGROUND + [path for path in others if path not in known] + PROJECT)}]
        while self.waiting:
            path = self.waiting.pop()
            page = self.place(path)
            if path.endswith(".md"):
                self.document(path, page)
            elif page == path:
                os.makedirs(os.path.dirname(os.path.join(self.source, path)), exist_ok=True)
                shutil.copy(path, os.path.join(self.source, path))
            else:
                language = LANGUAGES.get(os.path.splitext(path)[1], "text")
                self.write(page, f"{BARE}# {path}\n\n`````{language}\n{read(path)}`````\n")
        for name in "site.css", "iframe-worker.js":
            shutil.copy(f"{HERE}/{name}", self.source)
        return contents


def main():
    target, site = sys.argv[1:3]
    shutil.rmtree(f"{target}/source", ignore_errors=True)
    contents = Site(f"{target}/source", Manual(sys.argv[3:])).fill()
    config = {"INHERIT": os.path.abspath(f"{HERE}/mkdocs.yml"), "docs_dir": "source",
              "site_dir": os.path.relpath(site, target), "nav": contents}
    with open(f"{target}/mkdocs.yml", "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict",
                           "-f", f"{target}/mkdocs.yml"])
    if done.returncode:
        sys.exit(done.returncode)
    for name in "404.html", "sitemap.xml", "sitemap.xml.gz":  # need the address of the site
        os.remove(f"{site}/{name}")


main()
