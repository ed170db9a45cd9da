#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""graph.py: pictures and a table of what bench.sh measured.

    grep -h '^ *[2N],' results/*/cycle.csv | python3 graph.py c2.svg > c2.md

usage: graph.py [PICTURE.svg | PICTURE.png | PICTURE.pdf]...

Reads the rows of bench.sh, of one run or of many one after the other, whatever
their columns, from standard input. Prints a table in Markdown: for each
implementation and each number of threads N*R the mean, over the runs, of the
rate N*R*M / seconds, in millions of operations per second, or `-' if there is
none. Draws the same into each picture named, with bars from the lowest rate to
the highest. With several N there is a table, and a part of each picture, for each.

A cell that failed is no measurement and has no point: one that says fail:reason,
a number that is not positive, or one from 100000 (seconds) on, which is how
results were published whose programs had crashed.

Exit status: 0; 1 if the input is empty or wrong (then nothing is written), or a
picture cannot be written; 2 if the arguments are wrong.
"""

import io
import math
import os
import re
import sys

FORMATS = ("svg", "png", "pdf")
FAILED_SECONDS = 100000  # more than a day: no run takes that, see above
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


class Bad(Exception):
    """What is wrong with the input, or the outside; the message says it all."""


class Results:
    """Rates by N, implementation and number of threads, in order of appearance."""

    def __init__(self):
        self.names = []
        self.rates = {}  # N -> name -> threads -> list, empty if all runs failed

    def add(self, n, r, m, name, seconds):
        threads = self.rates.setdefault(n, {}).setdefault(name, {})
        runs = threads.setdefault(n * r, [])
        if seconds is not None:
            runs.append(n * r * m / seconds / 1e6)

    def measured(self, n):
        """[(name, {threads: rates})] of N, cells without a rate left out."""
        for name in self.names:
            cells = self.rates[n].get(name, {})
            yield name, {t: runs for t, runs in sorted(cells.items()) if runs}

    def threads(self, n):
        return sorted({t for cells in self.rates[n].values() for t in cells})


def mean(values):
    return math.fsum(values) / len(values)


# Reading


def read(lines):
    results, columns = Results(), None
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split(",")]
        if cells == [""]:
            continue
        try:
            if cells[0] == "N":
                columns = header(cells)
                results.names += [c for c in columns if c not in results.names]
            else:
                row(results, columns, cells)
        except Bad as bad:
            raise Bad(f"line {number}: {bad}") from None
    if not results.rates:
        raise Bad("no results on standard input: " + (
            "only headers" if columns else "it is empty"))
    if not any(cells for n in results.rates for _, cells in results.measured(n)):
        raise Bad("no results on standard input: every cell has failed")
    return results


def header(cells):
    columns = cells[3:]
    if cells[:3] != ["N", "R", "M"] or not columns:
        raise Bad("a header is N, R, M and the names of columns")
    for i, name in enumerate(columns):
        if not name:
            raise Bad(f"column {i + 4} has no name")
        if name in columns[:i]:
            raise Bad(f"two columns are named {name}")
    return columns


def row(results, columns, cells):
    if columns is None:
        raise Bad("it comes before any header (N, R, M, ...)")
    if len(cells) != len(columns) + 3:
        raise Bad(f"the header has {len(columns) + 3} cells, this line {len(cells)}")
    n, r, m = (count(what, cell) for what, cell in zip("NRM", cells))
    times = [seconds(name, cell) for name, cell in zip(columns, cells[3:])]
    for name, time in zip(columns, times):
        results.add(n, r, m, name, time)


def count(what, cell):
    # No more digits than that: what comes of them has to fit a float.
    if not (cell.isascii() and cell.isdigit() and len(cell) < 16 and int(cell) > 0):
        raise Bad(f"{what} is '{cell}', not a positive whole number")
    return int(cell)


def seconds(name, cell):
    """None for a failure."""
    if cell.startswith("fail:"):
        return None
    if not NUMBER.fullmatch(cell):
        raise Bad(f"column {name}: '{cell}' is neither seconds nor fail:reason")
    return float(cell) if 0 < float(cell) < FAILED_SECONDS else None


# The table


def table(results, n):
    threads = results.threads(n)
    rows = [["threads"] + [str(t) for t in threads]]
    for name, cells in results.measured(n):
        if name in results.rates[n]:
            rows.append([name] + [
                f"{mean(cells[t]):.2f}" if t in cells else "-" for t in threads])
    widths = [max(4, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    rows.insert(1, [":" + "-" * (widths[0] - 1)] + [
        "-" * (width - 1) + ":" for width in widths[1:]])
    return "".join("| " + " | ".join(
        [row[0].ljust(widths[0])] + [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:])
        ]) + " |\n" for row in rows)


def tables(results):
    if len(results.rates) == 1:
        return table(results, *results.rates)
    return "\n".join(f"N = {n}\n\n{table(results, n)}" for n in sorted(results.rates))


# The picture


# The i-th implementation has the i-th of each, again from the first after the last:
# neighbours differ in all three, and 12 and 13 have no common divisor, so that no
# two of 156 look the same. The first seven colours are Okabe and Ito's, made to be
# told apart also by the colour-blind.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
           "#000000", "#882255", "#999933", "#332288", "#888888", "#8C510A")
MARKERS = (  # with the sizes at which they look equally large
    ("o", 7), ("s", 6.5), ("^", 8), ("D", 6.5), ("v", 8), ("P", 8.5), ("X", 8.5),
    ("<", 8), (">", 8), ("p", 8.5), ("*", 11), ("h", 8), ("d", 8.5))
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


def draw(results):
    """A figure; never a window, for matplotlib's pyplot has no part in it."""
    os.environ["MPLBACKEND"] = "Agg"
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise Bad("pictures need matplotlib: python3 -m pip install matplotlib; "
                  "without the names of pictures, the table needs nothing") from None
    matplotlib.rcdefaults()  # the same picture for everybody
    matplotlib.rcParams.update({
        "svg.hashsalt": "usched", "font.size": 10, "axes.titlesize": 13,
        "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(9, 5.2 * len(results.rates)), layout="constrained")
    parts = figure.subplots(len(results.rates), 1, squeeze=False)[:, 0]
    for axes, n in zip(parts, sorted(results.rates)):
        plot(axes, results, n)
    return figure


def plot(axes, results, n):
    runs, lines = set(), []
    for i, (name, cells) in enumerate(results.measured(n)):
        if cells:
            runs.update(len(rates) for rates in cells.values())
            lines.append(line(axes, i, name, cells))
    axes.set_xscale("log")
    axes.set_xlim(*span(results.threads(n)))
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.set_ylim(bottom=0)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("threads, N·R")
    axes.set_ylabel("million operations per second")
    axes.set_title(f"Cycle benchmark, cycles of N = {n} threads", loc="left", pad=22)
    axes.text(0, 1.02, f"higher is better; {explain(runs)}", color="0.35",
              transform=axes.transAxes)
    legend(axes, lines)


def line(axes, i, name, cells):
    threads = list(cells)
    means = [mean(rates) for rates in cells.values()]
    below = [m - min(rates) for m, rates in zip(means, cells.values())]
    above = [max(rates) - m for m, rates in zip(means, cells.values())]
    colour = COLOURS[i % len(COLOURS)]
    marker, size = MARKERS[i % len(MARKERS)]
    axes.errorbar(threads, means, yerr=(below, above), fmt="none", ecolor=colour,
                  elinewidth=1, capsize=3)
    return axes.plot(
        threads, means, label=name, color=colour, linestyle=DASHES[i % len(DASHES)],
        linewidth=1.5, marker=marker, markersize=size, markeredgecolor="white",
        markeredgewidth=0.7, clip_on=False, zorder=3)[0]


def legend(axes, lines):
    """Beside the plot, in the order in which the lines end at its right."""
    lines.sort(key=lambda line: line.get_ydata()[-1], reverse=True)
    axes.legend(handles=lines, loc="upper left", bbox_to_anchor=(1.01, 1),
                frameon=False, handlelength=4)


def span(threads):
    """The axis: some room at the sides, and a power of ten on it, with its label."""
    first, last = threads[0], threads[-1]
    if last / first < 10:
        low = 10 ** math.floor(math.log10(first))
        return low, 100 * low if last > 10 * low else 10 * low
    return first / 1.5, last * 1.5


def short(value):
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def explain(runs):
    if not runs:
        return "every cell has failed"
    least, most = min(runs), max(runs)
    if most == 1:
        return "one run"
    many = most if least == most else f"{least} to {most}"
    return f"mean of {many} runs, bars from min to max"


def render(figure, kind):
    """The bytes of a picture; the same for the same results, so without a date."""
    metadata = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=160, metadata=metadata[kind])
    return out.getvalue()


# The files


def kind_of(name):
    return os.path.splitext(name)[1].lstrip(".").lower()


def write(pictures):
    """All or none: every file is complete before the first takes its name."""
    parts = {name: f"{name}.{os.getpid()}.part" for name in pictures}
    try:
        for name, part in parts.items():
            if os.path.isdir(name):
                raise IsADirectoryError(0, "it is a directory")
            with open(part, "wb") as file:
                file.write(pictures[name])
        for name, part in parts.items():
            os.replace(part, name)
    except OSError as error:
        raise Bad(f"cannot write {name}: {error.strerror}") from None
    finally:
        for part in parts.values():
            if os.path.exists(part):
                os.remove(part)


def main(names):
    if names in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    for name in names:
        if name.startswith("-") or kind_of(name) not in FORMATS:
            print(f"graph.py: '{name}': a picture is a .svg, a .png or a .pdf",
                  file=sys.stderr)
            return 2
    if sys.stdin.isatty() and not names:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        results = read(sys.stdin)
        if names:
            figure = draw(results)
            write({name: render(figure, kind_of(name)) for name in names})
    except Bad as bad:
        print(f"graph.py: {bad}", file=sys.stderr)
        return 1
    print(tables(results), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
