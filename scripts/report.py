#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""report.py: tables, pictures and one page of the results of bench.sh.

usage: report.py DIR

DIR is a directory of bench.sh, with WORKLOAD.csv, machine.txt and, if a program
failed, failures.txt. Writes WORKLOAD.md, WORKLOAD.svg and WORKLOAD.png to it for each
workload. Cycle has c2 and c8, for cycles of two and of eight threads. Writes report.md
and report.html: one page with all of these, and the machine. report.html contains its
pictures. Prints the tables.

Exit status: 0; 1 if a workload has no results or no picture (the page says so), or if a
file cannot be read or written; 2 if the arguments are wrong.
"""

import html
import os
import re
import sys
from xml.sax.saxutils import quoteattr

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
sys.path.insert(0, TOP)
import graph  # noqa: E402

NARROW = 4.5  # inches: the width of pictures for narrow screens
# Of the tables; doc/benchmarks.md has the implementations.
WORDS = {
    "implementation": "the system, or the way in which usched is used",
    "median": "the median of the runs, in the unit of the heading",
    "min": "the least of the runs", "max": "the most of the runs",
    "times the best": "the median, divided by that of the first row",
    "runs": "how many runs have succeeded, and of how many if some have not",
    "threads": "how many threads there are", "connections": "how many clients there are",
    "D": "bytes that each thread holds on its stack",
    "stacks": "how many stacks the threads of the processor share",
    "passes": "how often the token is passed on",
    "what": "a line of machine.txt", "value": "what it says",
}
STYLE = """
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;
color:#222;background:#fff}
h2{margin-top:2em;border-bottom:1px solid #ddd}
table{display:block;overflow-x:auto;border-collapse:collapse;margin:1em 0;font-size:80%}
th,td{padding:.15em .5em;text-align:left;border-bottom:1px solid #ddd;
font-variant-numeric:tabular-nums}
.n{text-align:right}
.U{color:#0072b2;font-weight:bold}
pre{font-size:85%;white-space:pre-wrap}
figure{margin:1em 0}
svg{max-width:100%;height:auto}
[title]{cursor:help}
details{font-size:85%}
dt{font-weight:bold}
.narrow{display:none}
@media(max-width:640px){.wide{display:none}.narrow{display:block}}
"""
NOTE = ("Names that begin with U are usched's. doc/benchmarks.md says what each name "
        "stands for, what the workloads are, and how they are measured.")


def read_lines(directory, name):
    """The lines of a file of bench.sh; none without the file."""
    try:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise graph.Bad(f"cannot read {directory}/{name}: {error.strerror}") from None


def measured(directory):
    """(NAME, title, lines) for each part of the page, in graph.py's order."""
    for workload, kind in graph.WORKLOADS.items():
        lines = read_lines(directory, f"{workload}.csv")
        if workload != "cycle":
            if lines:
                yield workload, kind.title, lines
            continue
        for n in ("2", "8"):
            rows = [line for line in lines if line.split(",")[0].strip() in ("N", n)]
            if any(line.split(",")[0].strip() == n for line in rows):
                yield f"c{n}", f"{kind.title}, N = {n}", rows


def section(name, title, lines, files, narrow):
    """Adds its files, prints its table. Returns its Markdown, and an error or None."""
    text, wrong = f"## {title}\n\n", None
    try:
        results = graph.read(lines)
        table = graph.tables(results)
        files[f"{name}.md"] = table.encode()
        # Tables of other workloads have their units in their headings.
        unit = "" if name in graph.WORKLOADS else f", {graph.WORKLOADS['cycle'].unit}"
        print(f"\n{name}{unit}:\n\n{table}", end="")
        try:
            figure = graph.draw(results)
            for kind in ("svg", "png"):
                files[f"{name}.{kind}"] = graph.render(figure, kind)
            narrow[f"{name}.svg"] = graph.render(graph.draw(results, NARROW), "svg")
            text += f"![{name}]({name}.svg)\n\n"
        except graph.Bad as bad:
            wrong = f"No picture of {name}: {bad}"
            text += f"{wrong}.\n\n"
        return f"{text}{table}\n", wrong
    except graph.Bad as bad:
        wrong = f"No results of {name}: {bad}"
        return f"{text}{wrong}.\n\n", wrong


def pairs_of(machine):
    """[(name, value)]; a line without a colon is a value."""
    split = [line.partition(":") for line in machine]
    pairs = [(what.strip(), value.strip()) if colon else ("", what.strip())
             for what, colon, value in split]
    return [pair for pair in pairs if pair[1]]


def summary(pairs):
    known = dict(reversed(pairs))  # the first of each
    said = [known.get("date", "")[:16], known.get("cpu"),
            known.get("cores") and f"{known['cores']} cores", known.get("kernel"),
            known.get("compiler"), known.get("CFLAGS"),
            known.get("commit") and f"commit {known['commit'][:12]}",
            "quick run" if known.get("quick") == "yes" else None]
    return ", ".join(filter(None, said))


def page(machine, failures, sections):
    pairs = pairs_of(machine)
    rows = "".join(f"| {cell(what)} | {cell(value)} |\n" for what, value in pairs)
    text = f"# Benchmarks of usched {dict(pairs).get('usched', '')}".rstrip() + "\n\n"
    text += f"{summary(pairs) or 'The machine is unknown'}.\n\n{NOTE}\n\n"
    text += "".join(sections)
    text += f"## Machine\n\n| what | value |\n| :--- | :---- |\n{rows}\n" if rows else ""
    failed = "\n".join(failures)
    text += f"## Failures\n\n```\n{failed}\n```\n" if failures else ""
    return text.rstrip() + "\n"


def cell(text):
    return text.replace("|", "\\|")


def explanations():
    """name -> text, of the columns of the tables."""
    known = dict(WORDS)
    lines = read_lines(os.path.join(TOP, "doc"), "benchmarks.md")
    for line in lines[lines.index("## The implementations") + 1:]:
        row = re.fullmatch(r"\| ([A-Z].*?) \| (.*) \|", line)
        for name in re.findall(r"[A-Z][A-Z0-9+-]*", row[1]) if row else ():
            known.setdefault(name, re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row[2]).replace("`", ""))
    return known


def explain(text, known):
    """Of a cell that names a column or an implementation; a number is one of threads."""
    if text.replace(", M = ", "").isdigit():
        return (f"{text} threads, N·R: million operations per second, the mean of the runs")
    return known.get(text, "")


def to_html(markdown, files, narrow):
    """HTML of the Markdown of page() only: blocks with a blank line between them."""
    blocks = markdown.strip().split("\n\n")
    title = html.escape(blocks[0].lstrip("# "))
    known = explanations()
    body = "\n".join(block_to_html(block, files, narrow, known) for block in blocks)
    return (f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width">\n'
            f"<title>{title}</title>\n<style>{STYLE}</style>\n{body}\n</html>\n")


def block_to_html(block, files, narrow, known):
    picture = re.fullmatch(r"!\[.*\]\((.*)\)", block)
    if picture:
        return "\n".join(f'<figure class="{name}">{pictures[picture[1]].decode()}</figure>'
                         for name, pictures in (("wide", files), ("narrow", narrow)))
    if block.startswith("```\n"):
        return f"<pre>{html.escape(block[4:-4])}</pre>"
    if block.startswith("|"):
        return table_to_html(block.splitlines(), known)
    signs, space, text = block.partition(" ")
    if space and not signs.strip("#"):
        return f"<h{len(signs)}>{html.escape(text)}</h{len(signs)}>"
    return f"<p>{html.escape(block)}</p>"


def table_to_html(lines, known):
    """The table, with titles, and a legend of what its columns and rows are."""
    rows = [[text.strip().replace("\\|", "|") for text in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in lines]
    right = [mark.endswith(":") for mark in rows[1]]
    rows = [rows[0]] + rows[2:]
    says = {text: explain(text, known) for text in rows[0] + [row[0] for row in rows[1:]]}
    if rows[0][0] in ("threads", "what"):
        says.update((row[0], known.get(row[0], "")) for row in rows[1:])
    body = "\n".join("<tr>" + "".join(
        td(text, "th" if row is rows[0] else "td", is_right,
           says[text] if row is rows[0] or i == 0 else "")
        for i, (text, is_right) in enumerate(zip(row, right))) + "</tr>" for row in rows)
    legend = "\n".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>"
                       for name, text in says.items() if text and not name[0].isdigit())
    legend = f"<details><summary>What these are</summary><dl>\n{legend}\n</dl></details>"
    return f"<table>\n{body}\n</table>\n{legend * (rows[0][0] != 'what')}"


def td(text, tag, is_right, says):
    names = ["n"] * is_right + ["U"] * graph.is_ours(text)
    classes = f' class="{" ".join(names)}"' if names else ""
    title = f" title={quoteattr(says)}" if says else ""
    return f"<{tag}{classes}{title}>{html.escape(text)}</{tag}>"


def main(arguments):
    if arguments in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    directory, files, narrow, sections, faults = arguments[0], {}, {}, [], []
    try:
        for name, title, lines in measured(directory):
            text, wrong = section(name, title, lines, files, narrow)
            sections.append(text)
            faults += [wrong] if wrong else []
        markdown = page(read_lines(directory, "machine.txt"),
                        list(filter(str.strip, read_lines(directory, "failures.txt"))),
                        sections)
        files["report.md"] = markdown.encode()
        files["report.html"] = to_html(markdown, files, narrow).encode()
        graph.write({os.path.join(directory, name): data for name, data in files.items()})
    except graph.Bad as bad:
        faults.append(str(bad))
    for fault in faults:
        print(f"report.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
