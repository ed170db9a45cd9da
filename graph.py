#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""graph.py: pictures and tables of the results of bench.sh, and pictures of traces
and of simulations.

    grep -h '^ *[2N],' results/*/cycle.csv | python3 graph.py c2.svg > c2.md
    cat results/*/ring.csv results/*/memory.csv | python3 graph.py others.png
    python3 graph.py trace trace.json trace.svg
    python3 graph.py sim run.csv run.svg

usage: graph.py [PICTURE.svg | PICTURE.png | PICTURE.pdf]...
       graph.py trace FILE.json PICTURE [FROM-TO]
       graph.py sim FILE.csv PICTURE [FROM-TO]

Reads the rows of bench.sh from standard input: one run or several one after the
other, one workload or several, with any columns. Prints tables in Markdown and
draws the same into each picture named.

Cycle: the mean over the runs of the rate N*R*M / seconds, in millions of operations
per second, for each implementation and each number of threads N*R, or `-' if there is
none. Drawn as lines, with bars from the lowest rate to the highest, and a step of the
x axis for each number of threads. Each N has a table, and a part of each picture. What
runs on all processors and on one, as U and U1T, has one colour, solid and dashed.

Threads, depth and stacks: the median over the runs of the time of a message, in
nanoseconds, against the number of threads N*R, the bytes D that each holds on its
stack, or the number of stacks. Each N, or N and R, has a table, and a part of each
picture. A row of these tables is a point of the lines.

Uneven: likewise, microseconds that a part of the short requests took at most, against
the number of connections.

Http, h2load and echo: likewise, thousands of requests or round trips per second,
against the number of connections.

The other workloads: the median over the runs of the time of one operation, the lowest
first, or for redis thousands of requests per second, the highest first. Each set of
parameters has a table, and a part of each picture, drawn as bars, with whiskers from
the least to the most. A cell NUMBER@SIZE was measured with SIZE in place of the last
parameter; the table and the picture say so.

A failed cell has no point: fail:reason, a number that is not positive, or one from
100000 (seconds) on, the published form of results whose programs had crashed. An
implementation with fail:missing only is named below the table.

Trace: FILE.json is of `uthreads trace'; FROM and TO are ms of it,
by default some runs before its middle. What ran on each processor, a colour for each
thread, and how many threads were runnable and did not run; below, some
of the threads, and arrows where a wake of one led to the run of another.

Sim: FILE.csv is of `usched-run --sim --trace'; FROM and TO are steps, by default the last
300. A row for each thread, by hosts; a mark for each step, with a ring if it was chosen in
place of the usual one; arrows for messages, broken if no thread of the picture reads them;
faults by name. Time in which no thread runs is grey and short; below is the virtual time.

Exit status: 0; 1 if the input is empty or wrong (then nothing is written), or a
picture cannot be written; 2 if the arguments are wrong.
"""

import csv
import io
import json
import math
import os
import re
import statistics
import sys
import textwrap
import zlib
from collections import namedtuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

FORMATS = ("svg", "png", "pdf")
FAILED_SECONDS = 100000  # more than a day: no run takes that, see above
FAILED_NUMBER = 1e18  # for counts and rates: larger than any
LEAST = 1e-9  # programs print six digits: smaller numbers are zero
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
OURS = re.compile(r"U[DJL]?([0-9][0-9A-Z]*)?|UCO")  # U, U10K, U1TS; not UV, UCONTEXT
ONE = "1T"  # ends names of implementations on one processor
COMMANDS = ("GET", "SET")  # of redis


class Bad(Exception):
    """An error in the input or outside; the message describes it."""


# A workload that is drawn as lines: the place on the x axis, by the parameters; the
# axis's name in tables, and its label; the number of leading parameters that make a part.
Curve = namedtuple("Curve", "place name label lead")
THREADS = Curve(lambda n, r, m: n * r, "threads", "threads, N·R", 1)
DEPTH = Curve(
    lambda n, r, m, d: d, "D", "D, bytes that each thread holds on its stack", 2)
STACKS = Curve(lambda n, r, m, stacks: stacks, "stacks", "stacks of the processor", 2)
UNEVEN = Curve(
    lambda permille, load, connections: connections, "connections", "connections", 2)
CONNECTIONS = Curve(lambda connections: connections, "connections", "connections", 0)


def per_message(seconds, n, r, m, *_):
    return seconds * 1e9 / (n * r * m)


def thousands(rate, *_):
    return rate / 1000


def as_it_is(number, *_):
    return number


# The workloads of bench.sh. `value' makes the number shown, of a cell and the parameters;
# `curve' is None for bars; `better' is higher, lower or None.
Workload = namedtuple("Workload", "parameters title unit limit value curve better",
                      defaults=(None, "lower"))
WORKLOADS = {
    "cycle": Workload(
        ("N", "R", "M"), "Cycle benchmark", "million operations per second",
        FAILED_SECONDS, lambda s, n, r, m: n * r * m / s / 1e6, THREADS, "higher"),
    "ring": Workload(
        ("passes",), "Ring: a token is passed round 503 threads", "ns per pass",
        FAILED_SECONDS, lambda s, passes: s * 1e9 / passes),
    "counters": Workload(
        ("counters", "calls"), "Counters: many threads are called in turn",
        "ns per call", FAILED_SECONDS, lambda s, n, calls: s * 1e9 / (n * calls)),
    "pingpong": Workload(
        ("pairs",), "Ping-pong: one thread is resumed and suspends itself",
        "ns per pair", FAILED_SECONDS, lambda s, pairs: s * 1e9 / pairs),
    "create": Workload(
        ("threads",), "Create: threads are made, run and dropped", "ns per thread",
        FAILED_SECONDS, lambda s, threads: s * 1e9 / threads),
    "walk": Workload(
        ("nodes",), "Walk: a tree is walked by recursion, and gives each value",
        "ns per node", FAILED_SECONDS, lambda s, nodes: s * 1e9 / nodes),
    "clone": Workload(
        ("clones",), "Clone: what is suspended goes on many times", "ns per clone",
        FAILED_SECONDS, lambda s, clones: s * 1e9 / clones),
    "alternate": Workload(
        ("repetitions", "yields"), "Alternate: two threads are made, yield in turn, end",
        "ns per turn", FAILED_SECONDS, lambda s, n, y: s * 1e9 / (2 * n * y)),
    "memory": Workload(
        ("threads",), "Memory: what a blocked thread needs", "bytes per thread",
        FAILED_NUMBER, as_it_is),
    "blocks": Workload(
        ("N", "R", "M"), "Blocks: how often threads block in the cycle benchmark",
        "blocks per message", FAILED_NUMBER, lambda b, n, r, m: b / (n * r * m),
        better=None),
    "threads": Workload(
        ("N", "R", "M"), "Threads: what more of them cost", "ns per message",
        FAILED_SECONDS, per_message, THREADS),
    "depth": Workload(
        ("N", "R", "M", "D"), "Depth: what bytes on the stacks cost",
        "ns per message", FAILED_SECONDS, per_message, DEPTH),
    "stacks": Workload(
        ("N", "R", "M", "stacks"), "Stacks: what more of them save",
        "ns per message", FAILED_SECONDS, per_message, STACKS),
    "uneven": Workload(
        ("permille", "load", "connections"),
        "Uneven: short requests beside long ones",
        "us that so many of 1000 took at most", FAILED_NUMBER, as_it_is, UNEVEN),
    "requests": Workload(
        ("permille", "percent", "connections"),
        "Requests: short ones beside long ones, over sockets, at percents of each peak",
        "us that so many of 1000 took at most", FAILED_NUMBER, as_it_is),
    "channel": Workload(
        ("capacity", "values"), "Channel: values go from one processor to another",
        "ns per value", FAILED_SECONDS, lambda s, capacity, values: s * 1e9 / values),
    "http": Workload(
        ("connections",), "HTTP: a file of 1 KB, asked for by wrk",
        "thousand requests per second", FAILED_NUMBER, thousands, CONNECTIONS, "higher"),
    "h2load": Workload(
        ("connections",), "HTTP: a file of 1 KB, asked for by h2load",
        "thousand requests per second", FAILED_NUMBER, thousands, CONNECTIONS, "higher"),
    "latency": Workload(
        ("connections", "percent"),
        "HTTP at percents of EPOLL's peak rate: 99th percentile",
        "us per request", FAILED_NUMBER, as_it_is),
    "echo": Workload(
        ("connections",), "Echo: 64 bytes go to the server and come back",
        "thousand round trips per second", FAILED_NUMBER, thousands, CONNECTIONS,
        "higher"),
    "redis": Workload(
        ("clients", "command", "pipeline"), "Redis protocol: values of 3 bytes",
        "thousand requests per second", FAILED_NUMBER, thousands, None, "higher"),
    "idle": Workload(
        ("connections",), "Idle: memory for an HTTP connection that is kept",
        "bytes per connection", FAILED_NUMBER, as_it_is),
}
# Of one run: the value or None; the reason of a failure; the last parameter.
Cell = namedtuple("Cell", "value reason size")


class Part:
    """A table and a part of the picture: of one N in cycle, of one set of leading
    parameters for a curve, of one set of parameters in other workloads."""

    def __init__(self, workload, parameters, names):
        self.workload, self.parameters = workload, parameters
        self.kind = WORKLOADS[workload]
        self.names = names  # the columns of all parts of the workload
        self.cells = {}  # name -> place on the x axis, 0 for bars -> [Cell]

    def add(self, name, place, cell):
        self.cells.setdefault(name, {}).setdefault(place, []).append(cell)

    def runs(self, name):
        return [cell for cells in self.cells.get(name, {}).values() for cell in cells]

    def is_missing(self, name):
        return all(cell.reason == "missing" for cell in self.runs(name))

    def measured(self):
        """[(name, {place: values})], without cells that have no value."""
        for name in self.names:
            values = {place: [cell.value for cell in cells if cell.value is not None]
                      for place, cells in sorted(self.cells.get(name, {}).items())}
            yield name, {place: runs for place, runs in values.items() if runs}

    def places(self):
        return sorted({place for cells in self.cells.values() for place in cells})

    def average(self, values):
        """The mean of rates, the median of others."""
        return mean(values) if self.workload == "cycle" else statistics.median(values)

    def bars(self):
        """[Bar], the best first."""
        bars = [Bar(name, statistics.median(values), min(values), max(values),
                    len(values), len(self.runs(name)),
                    sorted({c.size for c in self.runs(name) if c.value is not None}))
                for name, cells in self.measured() for values in cells.values()]
        return sorted(bars, key=lambda bar: bar.median,
                      reverse=self.kind.better == "higher")

    def is_smaller(self, bar):
        return bar.sizes != [self.parameters[-1]]

    def heading(self):
        return ", ".join(map("{} = {}".format, self.kind.parameters, self.parameters))


# Of an implementation; `sizes' are the values of the last parameter.
Bar = namedtuple("Bar", "name median least most runs of sizes")


class Results:
    """Workloads and their parts, in order of appearance."""

    def __init__(self):
        self.names = {}  # workload -> columns of all its headers
        self.columns = {}  # workload -> columns of its last header
        self.found = {}  # workload -> parameters -> Part

    def part(self, workload, parameters):
        curve = WORKLOADS[workload].curve
        key = parameters[:curve.lead] if curve else parameters
        parts = self.found.setdefault(workload, {})
        if key not in parts:
            parts[key] = Part(workload, key, self.names[workload])
        return parts[key]

    def parts(self):
        """All parts; those with lines sorted."""
        for workload, parts in self.found.items():
            curve = WORKLOADS[workload].curve
            yield from map(parts.get, sorted(parts) if curve else parts)


def mean(values):
    return math.fsum(values) / len(values)


# Reading


def read(lines):
    results = Results()
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split(",")]
        if cells == [""]:
            continue
        # Cycle's lines do not begin with its name, but with N.
        workload = cells[0] if cells[0] in WORKLOADS else "cycle"
        begins = cells[0] if workload == "cycle" else "".join(cells[1:2])
        try:
            if begins == "N" or workload != "cycle" and begins[:1].isalpha():
                header(results, workload, cells)
            else:
                row(results, workload, cells)
        except Bad as bad:
            raise Bad(f"line {number}: {bad}") from None
    if not results.found:
        raise Bad("no results on standard input: " + (
            "only headers" if results.columns else "it is empty"))
    if not any(cells for part in results.parts() for _, cells in part.measured()):
        raise Bad("no results on standard input: every cell has failed")
    return results


def lead(workload):
    """The cells of its headers before the columns."""
    name = [] if workload == "cycle" else [workload]
    return name + list(WORKLOADS[workload].parameters)


def header(results, workload, cells):
    first = lead(workload)
    columns = cells[len(first):]
    if cells[:len(first)] != first or not columns:
        raise Bad(f"a header is {', '.join(first)} and the names of columns")
    for i, name in enumerate(columns):
        if not name:
            raise Bad(f"column {len(first) + i + 1} has no name")
        if name in columns[:i]:
            raise Bad(f"two columns are named {name}")
    results.columns[workload] = columns
    names = results.names.setdefault(workload, [])
    names += [name for name in columns if name not in names]


def row(results, workload, cells):
    first, columns = lead(workload), results.columns.get(workload)
    if columns is None:
        raise Bad(f"it comes before any header ({', '.join(first)}, ...)")
    if len(cells) != (expected := len(first) + len(columns)):
        raise Bad(f"the header has {expected} cells, this line {len(cells)}")
    kind = WORKLOADS[workload]
    sizes = tuple(map(count, kind.parameters, cells[len(first) - len(kind.parameters):]))
    measured = [measurement(name, cell, workload, sizes)
                for name, cell in zip(columns, cells[len(first):])]
    part = results.part(workload, sizes)
    place = kind.curve.place(*sizes) if kind.curve else 0
    for name, cell in zip(columns, measured):
        part.add(name, place, cell)


def count(what, cell):
    # Products of numbers with so few digits fit a float. Only D and a capacity can be 0.
    if what == "command":
        if cell not in COMMANDS:
            raise Bad(f"{what} is '{cell}', none of {', '.join(COMMANDS)}")
        return cell
    if not (cell.isascii() and cell.isdigit() and len(cell) < 16
            and (int(cell) > 0 or what in ("D", "capacity"))):
        raise Bad(f"{what} is '{cell}', not a positive whole number")
    return int(cell)


def measurement(name, cell, workload, sizes):
    kind = WORKLOADS[workload]
    if cell.startswith("fail:"):
        return Cell(None, cell[len("fail:"):], sizes[-1])
    number, at, size = cell.partition("@")
    if not NUMBER.fullmatch(number) or at and kind.curve:
        raise Bad(f"column {name}: '{cell}' is neither a number nor fail:reason")
    if at:
        sizes = sizes[:-1] + (count(f"column {name}: the size", size),)
    if not LEAST <= float(number) < kind.limit:
        return Cell(None, "number", sizes[-1])
    return Cell(kind.value(float(number), *sizes), None, sizes[-1])


# The tables


def line_rows(part):
    """A column for each implementation, except in cycle, where it is a row."""
    places, rows = part.places(), []
    for name, cells in part.measured():
        if name in part.cells and not part.is_missing(name):
            averages = {place: part.average(values) for place, values in cells.items()}
            rows.append([name] + [
                "-" if place not in averages
                else f"{averages[place]:.2f}" if part.workload == "cycle"
                else digits(averages[place]) for place in places])
    rows.insert(0, [part.kind.curve.name] + [str(place) for place in places])
    return rows if part.workload == "cycle" else list(zip(*rows))


def other_rows(part):
    bars, parameter = part.bars(), part.kind.parameters[-1]
    rows = [["implementation", "median", "min", "max", "times the best", "runs",
             parameter]]
    for bar in bars:
        rows.append([
            bar.name, digits(bar.median), digits(bar.least), digits(bar.most),
            f"{bar.median / bars[0].median:.2f}",
            f"{bar.runs} of {bar.of}" if bar.runs < bar.of else f"{bar.runs}",
            ", ".join(map(str, bar.sizes))])
    for name, cells in part.measured():
        if name in part.cells and not cells and not part.is_missing(name):
            rows.append([name, *"----", f"0 of {len(part.runs(name))}", "-"])
    if not any(part.is_smaller(bar) for bar in bars):
        rows = [row[:-1] for row in rows]  # the size is in the heading
    if not part.kind.better:
        rows = [row[:4] + row[5:] for row in rows]
    return rows


def digits(value):
    """At least three significant digits."""
    decimals = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{decimals}f}" if decimals < 7 else f"{value:.2e}"


def table(part):
    rows = line_rows(part) if part.kind.curve else other_rows(part)
    widths = [max(4, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    rows.insert(1, [":" + "-" * (widths[0] - 1)] + [
        "-" * (width - 1) + ":" for width in widths[1:]])
    text = "".join("| " + " | ".join(
        [row[0].ljust(widths[0])] + [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:])
        ]) + " |\n" for row in rows)
    missing = ", ".join(f"{name} (missing)" for name in part.names
                        if name in part.cells and part.is_missing(name))
    return text + (f"\nNot measured: {missing}.\n" if missing else "")


def tables(results):
    """With headings, except for a single table of cycle."""
    parts = list(results.parts())
    if [part.workload for part in parts] == ["cycle"]:
        return table(parts[0])
    return "\n".join(f"{heading(part, results)}\n\n{table(part)}" for part in parts)


def heading(part, results):
    if list(results.found) == ["cycle"]:
        return part.heading()
    return f"{', '.join(filter(None, (part.workload, part.heading())))}: {part.kind.unit}"


# The pictures


# The i-th line of ours, or of the others, has the i-th marker and colour, modulo their
# numbers, which have no common divisor. So neighbours differ in both, and no two of 104
# of ours or 143 others look the same. Ours are solid; the first seven have the colours of
# Okabe and Ito, which colour-blind readers can tell apart. The others are thin, dashed
# and hollow. An implementation that runs on all processors and on one, as U and U1T, has
# one marker and colour: its line is solid on all, and dashed and hollow on one.
MARKERS = (  # with sizes that look equal
    ("o", 7), ("s", 6.5), ("^", 8), ("D", 6.5), ("v", 8), ("P", 8.5), ("X", 8.5),
    ("<", 8), (">", 8), ("p", 8.5), ("*", 11), ("h", 8), ("d", 8.5))
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
           "#6A3D9A")
OTHER_COLOURS = ("#777777", "#882255", "#999933", "#332288", "#8C510A", "#44AA99",
                 "#AA4466", "#117733", "#6699CC", "#555555", "#AA8800")
ONE_DASHES = (0, (2.5, 1))
OTHER_DASHES = ((0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
OUR_BAR, OTHER_BAR = "#0072B2", "#B8B8B8"
FONTS = ("DejaVu Sans", "Verdana", "sans-serif")  # the first is measured; equal widths


def both(name, names):
    """The names on all processors and on one, if both are there; else the name alone."""
    pair = name.removesuffix(ONE), name.removesuffix(ONE) + ONE
    return pair if set(pair) <= set(names) else (name,)


def is_ours(name):
    return OURS.fullmatch(name) is not None


def draw(results):
    parts = list(results.parts())
    heights = [4.2 if part.kind.curve else 0.27 * max(1, len(part.bars()))
               for part in parts]
    figure = new_figure(9, sum(heights) + len(parts))
    grid = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)
    for axes, part in zip(grid[:, 0], parts):
        (plot_lines if part.kind.curve else plot_bars)(axes, part)
    return figure


def new_figure(width, height):
    """Without pyplot, so never a window."""
    os.environ["MPLBACKEND"] = "Agg"
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise Bad("pictures need matplotlib: python3 -m pip install matplotlib; "
                  "without the names of pictures, the table needs nothing") from None
    matplotlib.rcdefaults()  # independent of the user's settings
    matplotlib.rcParams.update({
        "svg.hashsalt": "usched", "svg.fonttype": "none", "font.sans-serif": FONTS,
        "text.parse_math": False,
        "font.size": 10, "axes.titlesize": 13,
        "axes.spines.top": False, "axes.spines.right": False})
    return Figure(figsize=(width, height), layout="constrained")


def titles(axes, title, text):
    axes.set_title(title, loc="left", pad=22)
    axes.annotate(text, (0, 1), xytext=(0, 8), xycoords="axes fraction",
                  textcoords="offset points", color="0.35")


def plot_lines(axes, part):
    lines, looks = [], {True: [], False: []}
    for name, cells in part.measured():
        pair, look = both(name, part.names), looks[is_ours(name)]
        if pair not in look:
            look.append(pair)  # the same in every part
        if cells:
            lines.append(line(axes, look.index(pair), name, cells, part))
    points = [values for _, cells in part.measured() for values in cells.values()]
    place_axis(axes, part)
    value_axis(axes, [value for values in points for value in values])
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(part.kind.curve.label)
    axes.set_ylabel(part.kind.unit)
    numbers = set(map(len, points))
    if part.workload == "cycle":
        titles(axes, f"{part.kind.title}, cycles of N = {part.parameters[0]} threads",
               f"higher is better; {explain(numbers, 'mean')}")
    else:
        threads = math.prod(part.parameters)  # R is in the parameters then
        lead = f"{threads} threads, " if part.kind.curve.lead > 1 else ""
        titles(axes, part.kind.title, subtitle(lead + part.heading(), part, numbers))
    legend(axes, lines)


def subtitle(first, part, numbers):
    better = part.kind.better and f"{part.kind.better} is better"
    return "; ".join(filter(None, (first, better, explain(numbers, "median"))))


def place_axis(axes, part):
    """The x axis: logarithmic, with zero at half of the next place. In cycle it has a
    step for each place, so that few threads have as much room as many."""
    places = part.places()
    drawn = [position(place, part) for place in places]
    if part.workload == "cycle":
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.set_xticks(drawn, map(short, places))
        return
    axes.set_xscale("log")
    axes.set_xlim(*span(drawn))
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    if part.kind.curve is not THREADS and len(places) < 15:  # few: label each
        axes.set_xticks(drawn, [str(p) if p % 1000 else short(p) for p in places])
        axes.minorticks_off()


def position(place, part):
    if part.workload == "cycle":
        return part.places().index(place)
    return place or min(filter(None, part.places()), default=2) / 2


def value_axis(axes, values):
    """The y axis: from zero, or logarithmic if values differ very much."""
    if values and max(values) > 50 * min(values):
        axes.set_yscale("log")
        axes.set_ylim(min(values) / 1.4, max(values) * 1.4)
        ticks(axes.yaxis, min(values), max(values))
    else:
        axes.set_ylim(bottom=0)


def ticks(axis, low, high):
    """Ticks of a logarithmic axis: 1, 2, 5, 10, ..., or powers of ten if it is long."""
    from matplotlib.ticker import LogLocator, NullFormatter
    steps = (1,) if high > 20000 * low else (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axis.set_major_formatter(lambda value, _: short(value))
    axis.set_minor_formatter(NullFormatter())


def line(axes, i, name, cells, part):
    places = [position(place, part) for place in cells]
    runs = cells.values()
    averages = [part.average(values) for values in runs]
    ours, (marker, size) = is_ours(name), MARKERS[i % len(MARKERS)]
    pair = both(name, part.names)
    palette = COLOURS if ours else OTHER_COLOURS
    colour = palette[i % len(palette)]
    whiskers(axes, [point for point in zip(places, averages, runs) if len(point[2]) > 1],
             colour)
    if ours:
        style = dict(linestyle="-", linewidth=2.4, markersize=size, zorder=4,
                     markeredgecolor="white", markeredgewidth=0.7)
    else:
        style = dict(linestyle=OTHER_DASHES[i % len(OTHER_DASHES)], linewidth=1.1,
                     markersize=0.75 * size, markerfacecolor="white", zorder=3)
    if name in pair[1:]:
        style.update(linestyle=ONE_DASHES, markerfacecolor="white", markeredgecolor=colour)
    elif pair[1:]:
        style.update(linestyle="-")
    return axes.plot(places, averages, label=name, color=colour, marker=marker,
                     clip_on=False, **style)[0]


def whiskers(axes, points, colour):
    """Whiskers from the least to the most of the runs of each point."""
    if points:
        places, averages, runs = zip(*points)
        # The mean of equal numbers may be rounded up or down.
        below = [max(0, a - min(values)) for a, values in zip(averages, runs)]
        above = [max(0, max(values) - a) for a, values in zip(averages, runs)]
        axes.errorbar(places, averages, yerr=(below, above), fmt="none", ecolor=colour,
                      elinewidth=1, capsize=3)


def legend(axes, lines):
    """A legend beside the plot, in the order of the right ends of the lines."""
    lines.sort(key=lambda line: line.get_ydata()[-1], reverse=True)
    axes.legend(handles=lines, loc="upper left", bbox_to_anchor=(1.01, 1),
                frameon=False, handlelength=4)


def plot_bars(axes, part):
    entries = part.bars()
    titles(axes, part.kind.title,
           subtitle(part.heading(), part, {bar.runs for bar in entries}))
    axes.set_xlabel(part.kind.unit)
    axes.set_yticks(range(len(entries)), [bar.name for bar in entries])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_ylim(len(entries) - 0.4, -0.6)  # the first on top
    left = extent(axes, entries) if entries else 0
    for y, bar in enumerate(entries):
        draw_bar(axes, y, bar, left, part)


def extent(axes, entries):
    """The x axis, with room for the values. Returns the start of the bars."""
    low = min(bar.least for bar in entries)
    high = max(bar.most for bar in entries)
    if high <= 20 * low:
        axes.set_xlim(0, high * 1.2)
        return 0
    # The shortest bar stays visible; bars start at 1, 2 or 5.
    power = 10.0 ** math.floor(math.log10(low / 1.5))
    left = max([power] + [step * power for step in (2, 5) if step * power < low / 1.5])
    axes.set_xscale("log")
    axes.set_xlim(left, high * (high / left) ** 0.2)
    axes.set_xlabel(f"{axes.get_xlabel()}, logarithmic")
    ticks(axes.xaxis, left, high)
    return left


def draw_bar(axes, y, bar, left, part):
    ours = is_ours(bar.name)
    colour = OUR_BAR if ours else OTHER_BAR
    axes.barh(y, bar.median - left, left=left, height=0.7, color=colour)
    if bar.runs > 1:
        axes.errorbar(bar.median, y, fmt="none", ecolor="black", capsize=2.5,
                      xerr=([bar.median - bar.least], [bar.most - bar.median]),
                      elinewidth=1)
    text = digits(bar.median)
    if part.is_smaller(bar):
        sizes = ", ".join(map(short, bar.sizes))
        text += f" (with {sizes} {part.kind.parameters[-1]})"
    axes.annotate(text, (bar.most, y), xytext=(5, 0), textcoords="offset points",
                  va="center", fontsize=9, fontweight="bold" if ours else "normal")
    if ours:
        axes.get_yticklabels()[y].set(color=OUR_BAR, fontweight="bold")


def span(places):
    """The limits of an axis: room at the sides, and at least one power of ten."""
    first, last = places[0], places[-1]
    if last / first < 10:
        low = 10 ** math.floor(math.log10(first))
        return low, 100 * low if last > 10 * low else 10 * low
    return first / 1.5, last * 1.5


def short(value):
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def explain(runs, average):
    if not runs:
        return "every cell has failed"
    least, most = min(runs), max(runs)
    if most == 1:
        return "one run"
    many = most if least == most else f"{least} to {most}"
    return f"{average} of {many} runs, bars from min to max"


# Traces


RUNS = 150  # in the picture, unless its times are given
ROWS = 14  # threads
BLUE, ORANGE, GREY, RED, GREEN = "#0072B2", "#E69F00", "#DDDDDD", "#D55E00", "#009E73"
# start, end: ms; kind: run, runnable, or another wait; on: number of a processor
Slice = namedtuple("Slice", "start end kind on thread")
# at: ms; of evict and load
Instant = namedtuple("Instant", "at kind on thread")
# (ms, thread) of both ends
Wake = namedtuple("Wake", "start source end thread")


class Trace:
    """What is drawn of a file of trace events: all of it, or from `start' to `end'."""

    def __init__(self, events, times):
        self.names, self.processors = {}, {}
        self.slices, self.instants, self.wakes = [], [], []
        starts = {}
        for e in events:
            at, thread = e.get("ts", 0) / 1000, e.get("tid")
            if e["ph"] == "M" and e["name"] == "thread_name":
                (self.names, self.processors)[e["pid"] - 1][thread] = e["args"]["name"]
            elif e["ph"] == "X" and e["pid"] == 1:
                self.slices.append(Slice(at, at + e["dur"] / 1000, e["name"],
                                         e["args"]["processor"], thread))
            elif e["ph"] == "i":
                self.instants.append(Instant(at, e["name"], e["args"]["processor"],
                                             thread))
            elif e["ph"] == "s":
                starts[e["id"]] = at, thread
            elif e["ph"] == "f" and e["id"] in starts:
                self.wakes.append(Wake(*starts[e["id"]], at, thread))
        self.slices.sort()
        runs = [s for s in self.slices if s.kind == "run"]
        if not runs:
            raise Bad("no thread runs in this trace")
        last = len(runs) // 2
        first = runs[max(0, last - RUNS)]
        self.start, self.end = times or (first.start, runs[last].end)
        self.used = sorted({s.on for s in runs if self.has(s)})
        if not self.used:
            raise Bad("no thread runs in this part of the trace")

    def has(self, slice):
        return slice.end > self.start and slice.start < self.end

    def cut(self, *kinds):
        """The visible parts of slices of these kinds, or of other ones than that."""
        for s in self.slices:
            if self.has(s) and (s.kind in kinds if kinds else
                                s.kind not in ("run", "runnable")):
                yield s._replace(start=max(s.start, self.start) - self.start,
                                 end=min(s.end, self.end) - self.start)

    def queue(self, on):
        """Times, and how many threads were runnable on a processor from then on."""
        changes = [change for s in self.cut("runnable", "yields", "preempted") if s.on == on
                   for change in ((s.start, 1), (s.end, -1))]
        times, counts, count = [0], [0], 0
        for at, change in sorted(changes):
            count += change
            if at == times[-1]:
                counts[-1] = count
            else:
                times.append(at)
                counts.append(count)
        return times + [self.end - self.start], counts + [count]

    def rows(self):
        """Some threads of each processor, in the order of their first runs."""
        chosen = []
        for on in self.used:
            first = {s.thread: s.start for s in reversed(list(self.cut("run"))) if s.on == on}
            ran = sorted((t for t in first if t not in chosen), key=first.get)
            most = max(1, ROWS // len(self.used))
            chosen += [ran[i * len(ran) // most] for i in range(most)] \
                if len(ran) > most else ran
        return chosen


def read_trace(name, times):
    try:
        with open(name, encoding="utf-8") as file:
            return Trace(json.load(file)["traceEvents"], times)
    except OSError as error:
        raise Bad(f"{name}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, IndexError):
        raise Bad(f"{name}: no trace of usched") from None


def draw_trace(trace):
    rows = trace.rows()
    heights = [1.5] * len(trace.used) + [0.24 * len(rows) + 0.3]
    figure = new_figure(9, sum(heights) + 1.6)
    grid = figure.subplots(len(heights), 1, squeeze=False, sharex=True,
                           height_ratios=heights)[:, 0]
    for axes, on in zip(grid, trace.used):
        plot_processor(axes, trace, on)
    plot_threads(grid[-1], trace, rows)
    grid[-1].set_xlim(0, trace.end - trace.start)
    grid[-1].set_xlabel(f"ms, from {trace.start:.1f} ms of the trace on")
    return figure


def plot_processor(axes, trace, on):
    """What runs, a colour for each thread; below, the queue."""
    times, counts = trace.queue(on)
    most = max(max(counts), 1)
    runs = [s for s in trace.cut("run") if s.on == on]
    for i, colour in enumerate(COLOURS):
        some = [(s.start, s.end - s.start) for s in runs if s.thread % len(COLOURS) == i]
        axes.broken_barh(some, (1.12 * most, 0.4 * most), facecolor=colour, linewidth=0)
    axes.fill_between(times, counts, step="post", color=ORANGE, alpha=0.55, linewidth=0)
    axes.set_ylim(0, 1.6 * most)
    axes.set_yticks([0, most])
    axes.set_ylabel("runnable")
    share = 100 * sum(s.end - s.start for s in runs) / (trace.end - trace.start)
    moved = [sum((i.kind, i.on) == (kind, on) and trace.start <= i.at <= trace.end
                 for i in trace.instants) for kind in ("evict", "load")]
    titles(axes, trace.processors.get(on, f"processor {on}").capitalize(),
           f"runs: {len(runs)}, a colour for each thread; busy {share:.0f} %; "
           f"evictions: {moved[0]}, loads: {moved[1]}")


def plot_threads(axes, trace, rows):
    place = {thread: y for y, thread in enumerate(rows)}
    kinds = ((trace.cut(), GREY, 0.3, "waits"),
             (trace.cut("runnable", "yields", "preempted"), ORANGE, 0.5, "runnable"),
             (trace.cut("run"), BLUE, 0.8, "runs"))
    for slices, colour, height, label in kinds:
        slices = [s for s in slices if s.thread in place]
        for thread, y in place.items():
            axes.broken_barh([(s.start, s.end - s.start) for s in slices if s.thread == thread],
                             (y - height / 2, height), facecolor=colour, linewidth=0,
                             label=label if y == 0 else None)
    for kind, marker, colour in ("load", "^", GREEN), ("evict", "v", RED):
        points = [(i.at - trace.start, place[i.thread]) for i in trace.instants
                  if i.kind == kind and i.thread in place and trace.start < i.at < trace.end]
        if points:
            axes.plot(*zip(*points), linestyle="", marker=marker, markersize=4, color=colour,
                      label=kind)
    for wake in trace.wakes:
        if wake.source in place and wake.thread in place and trace.start < wake.start \
                and wake.end < trace.end:
            axes.annotate("", (wake.end - trace.start, place[wake.thread]),
                          (wake.start - trace.start, place[wake.source]),
                          arrowprops=dict(arrowstyle="->", color="0.3", linewidth=0.8))
    axes.set_yticks(range(len(rows)), [trace.names.get(t, f"{t}") for t in rows], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    titles(axes, "Threads", "some of those that ran then")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=5, frameon=False,
                borderaxespad=0.2, handlelength=1.4, columnspacing=1)


def main_trace(names):
    times = None
    if len(names) == 3 and re.fullmatch(r"[0-9.]+-[0-9.]+", names[2]):
        times = tuple(map(float, names.pop().split("-")))
    if len(names) != 2 or kind_of(names[1]) not in FORMATS or times and times[0] >= times[1]:
        print("usage: graph.py trace FILE.json PICTURE [FROM-TO]", file=sys.stderr)
        return 2
    try:
        figure = draw_trace(read_trace(names[0], times))
        write({names[1]: render(figure, kind_of(names[1]))})
    except Bad as bad:
        print(f"graph.py: {bad}", file=sys.stderr)
        return 1
    return 0


# Runs of a simulation


STEPS = 300  # in the picture, unless they are given
NAMED = 40  # with up to so many steps each has its name
IDLE = 5000  # ns: more between two steps is time in which no thread could run
CHOICE = "#B06000"
UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"))
LONG = 10**6  # ns: the picture says how long it is
Event = namedtuple("Event", "step ns host thread event what place choice message to arrival")
Gap = namedtuple("Gap", "start end ns")  # x of both ends


class Run:
    """What is drawn of a file of `usched-run --sim --trace'. The place of a step on the
    x axis is its time, except that time without steps is short, and that a step has at
    least 1."""

    def __init__(self, events, failure, steps):
        self.failure, self.total = failure, events[-1].step
        first, last = steps or (self.total - STEPS + 1, self.total)
        events = [e for e in events if first <= e.step <= last]
        self.steps, self.faults = ([e for e in events if e.event == event]
                                   for event in ("step", "fault"))
        if not self.steps:
            raise Bad("the run has no such steps")
        self.fails = bool(failure) and last >= self.total
        self.hosts = {}  # -> threads
        for thread, host in sorted({e.thread: e.host for e in self.steps}.items()):
            self.hosts.setdefault(host, []).append(thread)
        self.lanes = {}  # thread -> y, with room between hosts
        for i, threads in enumerate(self.hosts.values()):
            for thread in threads:
                self.lanes[thread] = len(self.lanes) + 0.5 * i
        self.places, self.gaps = {}, []
        x, before = 0, self.steps[0].ns
        for e in self.steps:
            if e.ns - before > IDLE:
                wide = 0.8 * math.log10((e.ns - before) / 1000)
                self.gaps.append(Gap(x - 0.5, x - 0.5 + wide, e.ns - before))
                x += wide
            self.places[e.step], before = x, e.ns
            x += 1
        self.width = x
        self.sends, self.reads = (
            [e for e in events if (e.event, e.step in self.places) == (event, True)
             and e.thread in self.lanes] for event in ("send", "receive"))

    def long_gaps(self):
        return [gap for gap in self.gaps if gap.ns >= LONG]

    def step_place(self, e):
        return self.places[e.step], self.lanes[e.thread]

    def fault_place(self, e):
        """Beside the step, or when it came; with a thread of the host, if that is named."""
        step = next((s for s in self.steps if s.step == e.step), None)
        x = self.places[e.step] if step and e.ns - step.ns < IDLE else self.place(e.ns)
        threads = self.hosts.get(e.host) if e.host else None
        thread = e.thread if not threads or e.thread in threads else threads[0]
        return x, self.lanes.get(thread, 0)

    def place(self, ns):
        """Of a time between steps, or after the last one."""
        after = next((i for i, e in enumerate(self.steps) if e.ns > ns), None)
        if not after:
            return self.width if after is None else 0
        low, high = self.steps[after - 1], self.steps[after]
        start, end = self.places[low.step], self.places[high.step]
        return start + (end - start) * (ns - low.ns) / (high.ns - low.ns)

    def messages(self):
        """[(send, receive)], or None if no thread of the picture reads it. A message that
        comes twice, or in parts, is read more than once."""
        unread, last = {}, {}
        for e in self.sends:
            unread.setdefault(e.message, []).append(e)
            last[e.message] = e
        for e in self.reads:
            if e.message in last:
                yield (unread[e.message] or [last[e.message]]).pop(0), e
        for sends in unread.values():
            yield from ((e, None) for e in sends)

    def arrival_place(self, sent):
        """With the nearest thread of the host."""
        here = self.lanes[sent.thread]
        there = (self.lanes[t] for t in self.hosts.get(sent.to, ()))
        return self.place(sent.arrival), min(there, key=lambda y: abs(y - here), default=here)


def sim_event(cells):
    if len(cells) != len(Event._fields):
        raise Bad(f"the header has {len(Event._fields)} cells, this line {len(cells)}")
    named = dict(zip(Event._fields, map(str.strip, cells)))
    for name in "step", "ns", "thread", "choice", "message", "arrival":
        if not (named[name].isascii() and named[name].isdigit()):
            raise Bad(f"{name} is '{named[name]}', not a number")
        named[name] = int(named[name])
    if named["event"] not in ("step", "fault", "send", "receive"):
        raise Bad(f"event is '{named['event']}', none of step, fault, send, receive, end")
    return Event(**named)


def read_run(name, steps):
    events, failure = [], ""
    try:
        with open(name, encoding="utf-8", errors="replace", newline="") as file:
            rows = csv.reader(file)
            if next(rows, None) != list(Event._fields):
                raise Bad(f"{name}: no trace of usched-run --sim")
            for cells in rows:
                try:
                    if cells[4:5] == ["end"]:
                        failure = " ".join(cells[5:6])
                    else:
                        events.append(sim_event(cells))
                except Bad as bad:
                    raise Bad(f"{name}: line {rows.line_num}: {bad}") from None
    except OSError as error:
        raise Bad(f"{name}: {error.strerror}") from None
    except csv.Error as error:
        raise Bad(f"{name}: {error}") from None
    if not events:
        raise Bad(f"{name}: the run has no steps")
    return Run(events, failure, steps)


def draw_run(run):
    named = len(run.steps) <= NAMED
    lane = 0.24 + 0.032 * max(len(e.what) for e in run.steps) * named  # inches
    width = min(36, max(9, 0.08 * run.width))
    inches = (width - 1.8) / (run.width + 1.5)
    lanes = max(run.lanes.values()) + 1
    figure = new_figure(width, lane * lanes + 1.6)
    axes = figure.subplots()
    axes.set_xlim(-1, run.width + 0.5)
    below = 0.5 if run.long_gaps() else 0.15  # inches, for the times of gaps
    axes.set_ylim(lanes - 1 + below / lane, -0.75)
    plot_idle(axes, run, inches)
    plot_lanes(axes, run)
    plot_messages(axes, run)
    plot_steps(axes, run)
    plot_names(axes, run, named, inches, lane)
    some = f"{len(run.steps)} of " * (len(run.steps) < run.total)
    text = f"{some}{run.total} steps; time without steps is cut"
    failure = textwrap.shorten(run.failure, int(8 * width), placeholder=" ...")
    titles(axes, "A run" + f" that fails: {failure}" * run.fails, text)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=6, frameon=False,
                borderaxespad=0.2, handlelength=1.4, columnspacing=1)
    return figure


def plot_idle(axes, run, inches):
    """Gaps, how long the long ones are, and when steps go on."""
    last = run.steps[-1].ns
    unit, name = UNITS[0 if last >= 10**11 else 1 if last >= 10**6 else 2]
    ends = {gap.end + 0.5 for gap in run.gaps}
    times, places, free = [], [], -1
    for gap in run.gaps:
        axes.axvspan(gap.start, gap.end, color="0.93", linewidth=0,
                     label="no step" if gap is run.gaps[0] else None)
    for gap in run.long_gaps():
        text = next(f"{float(f'{gap.ns / u:.3g}'):g} {n}" for u, n in UNITS if gap.ns >= u)
        slant = 90 * (0.06 * len(text) > (gap.end - gap.start) * inches)
        axes.annotate(text, ((gap.start + gap.end) / 2, axes.get_ylim()[0]), xytext=(0, 3),
                      textcoords="offset points", ha="center", va="bottom", fontsize=7,
                      color="0.35", rotation=slant)
    for e in run.steps:
        x = run.places[e.step]
        text = f"{e.ns / unit:.3f}"
        wide = 0.065 * len(text) + 0.1
        if x * inches >= free + wide / 2 + 0.4 * (x not in ends) and text not in times[-1:]:
            times.append(text)
            places.append(x)
            free = x * inches + wide / 2
    axes.set_xticks(places, times, fontsize=7)
    axes.set_xlabel(f"virtual time, {name}")


def plot_lanes(axes, run):
    most = max(len(f"thread {t}") for t in run.lanes)
    for thread, y in run.lanes.items():
        there = [run.places[e.step] for e in run.steps if e.thread == thread]
        axes.plot((min(there), max(there)), (y, y), color="0.75", linewidth=0.8, zorder=1)
    for i, (host, threads) in enumerate(run.hosts.items()):
        middle = statistics.mean(run.lanes[t] for t in threads)
        if i:
            axes.axhline(run.lanes[threads[0]] - 0.75, color="0.8", linewidth=0.8)
        if len(run.hosts) > 1:
            axes.annotate(host or "no host", (0, middle), xytext=(-14 - 4.7 * most, 0),
                          ha="right", va="center", xycoords=axes.get_yaxis_transform(),
                          textcoords="offset points", fontsize=9, fontweight="bold")
    axes.set_yticks(list(run.lanes.values()), [f"thread {t}" for t in run.lanes], fontsize=8)
    axes.tick_params(axis="y", length=0)


def plot_messages(axes, run):
    for sent, read in run.messages():
        end = run.step_place(read) if read else run.arrival_place(sent)
        axes.annotate("", end, run.step_place(sent), arrowprops=dict(
            arrowstyle="->", color=GREEN, linewidth=0.7, shrinkA=0, shrinkB=2.5,
            linestyle="-" if read else (0, (3, 2)), mutation_scale=7), zorder=2)
    if run.sends:
        axes.plot([], [], color=GREEN, linewidth=0.8, marker=">", markersize=4,
                  label="message")


def plot_steps(axes, run):
    def mark(points, label, zorder=3, **style):
        if points:
            axes.plot(*zip(*points), linestyle="", label=label, zorder=zorder, **style)

    places = [run.step_place(e) for e in run.steps]
    mark(places, "step", marker="o", markersize=4, color=BLUE)
    mark([run.step_place(e) for e in run.steps if e.choice], "by choice", marker="o",
         markersize=8.5, markerfacecolor="none", color=ORANGE, markeredgewidth=1.5)
    mark([run.fault_place(e) for e in run.faults], "fault", 5, marker="X", markersize=7.5,
         color=RED, markeredgecolor="white", markeredgewidth=0.5)
    if run.fails:
        mark(places[-1:], "failure", 5, marker="s", markersize=7, color="black")


def plot_names(axes, run, named, inches, lane):
    """Of all steps, slanted, or of choices and faults, where there is room: x and y have
    so many inches. Those of faults come first, and are always there."""
    taken = [(run.places[e.step] * inches, run.lanes[e.thread] * lane, 0.03)
             for e in run.steps]
    taken = [(x - r, y - r, x + r, y + r) for x, y, r in taken]
    wanted = [(run.fault_place(e), e.what, RED) for e in run.faults]
    if run.fails:
        wanted.append((run.step_place(run.steps[-1]), "fails", "black"))
    if named:
        for e in run.steps:
            axes.annotate(e.what, run.step_place(e), xytext=(1, 5), fontsize=6.5,
                          textcoords="offset points", rotation=40, rotation_mode="anchor",
                          color=CHOICE if e.choice else "0.25")
    else:
        wanted += [(run.step_place(e), e.what, CHOICE) for e in run.steps if e.choice]
    for (x, y), text, colour in wanted:
        wide, high = 0.058 * len(text) + 0.03, 0.11
        for right, down in ((1, 1), (-1, 1), (1, -1), (-1, -1)) if named else (
                (1, -1), (1, 1), (-1, -1), (-1, 1)):
            left = x * inches + (0.07 if right > 0 else -0.07 - wide)
            top = y * lane + (0.04 if down > 0 else -0.04 - high)
            box = left - 0.03, top, left + wide, top + high
            if left > -inches and all(
                    box[2] < b[0] or b[2] < box[0] or box[3] < b[1] or b[3] < box[1]
                    for b in taken):
                break
        else:
            if colour == CHOICE:
                continue
        taken.append(box)
        axes.annotate(text, (x, y), xytext=(5 * right, 4 * -down), fontsize=7, color=colour,
                      textcoords="offset points", ha="left" if right > 0 else "right",
                      va="top" if down > 0 else "bottom", zorder=6,
                      fontweight="normal" if colour == CHOICE else "bold")


def main_run(names):
    steps = None
    if len(names) == 3 and re.fullmatch(r"[0-9]{1,15}-[0-9]{1,15}", names[2]):
        steps = tuple(map(int, names.pop().split("-")))
    if len(names) != 2 or kind_of(names[1]) not in FORMATS:
        print("usage: graph.py sim FILE.csv PICTURE [FROM-TO]", file=sys.stderr)
        return 2
    try:
        figure = draw_run(read_run(names[0], steps))
        write({names[1]: render(figure, kind_of(names[1]))})
    except Bad as bad:
        print(f"graph.py: {bad}", file=sys.stderr)
        return 1
    return 0


# The bytes


def render(figure, kind):
    """The bytes of a picture. Without a date: equal results give equal bytes."""
    metadata = {"svg": dict.fromkeys(("Date", "Creator", "Format", "Type")), "png": {},
                "pdf": {"CreationDate": None}}
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=160, metadata=metadata[kind])
    return Compact(out.getvalue()).text.encode() if kind == "svg" else out.getvalue()


SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


class Compact:
    """An SVG of matplotlib's in a tenth of its lines, with the same look.

    Coordinates have one decimal, those of markers two. Styles are classes. The name of a
    class depends on its rules, so pictures on one page do not disturb each other. Nothing
    lies outside of the axes, so there is no clipping. Most groups are left out."""

    WIDTH = 100  # columns, unless a tag is longer
    DROPPED = {f"{{{SVG}}}{tag}" for tag in ("metadata", "style", "clipPath")}

    def __init__(self, svg):
        root = ElementTree.fromstring(svg)
        self.classes = {}  # style -> name
        body = list(self.children(root, 1))
        rules = "\n".join(f".{name}{{{style}}}" for style, name in self.classes.items())
        fonts = ",".join(f"'{font}'" if " " in font else font for font in FONTS)
        self.text = "\n".join([
            f'<svg xmlns="{SVG}" xmlns:xlink="{XLINK}"',
            f'width="{root.get("width")}" height="{root.get("height")}" '
            f'viewBox="{root.get("viewBox")}"',
            f'font-family="{fonts}" stroke-linejoin="round">', "<style>", rules, "</style>",
            *self.lines(body), "</svg>\n"])

    def children(self, element, decimals):
        for child in element:
            if child.tag not in self.DROPPED:
                yield from self.tags(child, decimals)

    def tags(self, element, decimals):
        tag = element.tag.removeprefix(f"{{{SVG}}}")
        if tag == "text":
            attributes = self.attributes(element, decimals)
            yield f"<text{attributes}>{escape(element.text or '')}</text>"
        elif tag == "defs":
            inner = "".join(self.children(element, 2))
            if inner:
                yield f"<defs>{inner}</defs>"
        elif tag == "g":
            yield from self.group(element, decimals)
        else:
            yield f"<{tag}{self.attributes(element, decimals)}/>"

    def group(self, element, decimals):
        """Keeps a group if its marks share a style."""
        marks = [child for child in element if child.tag == f"{{{SVG}}}use"]
        style = marks[0].get("style") if marks else None
        if len(marks) < 2 or {mark.get("style") for mark in marks} != {style}:
            yield from self.children(element, decimals)
            return
        for mark in marks:
            del mark.attrib["style"]
        yield f'<g class="{self.class_of(style)}">'
        yield from self.children(element, decimals)
        yield "</g>"

    def attributes(self, element, decimals):
        found = dict(element.attrib)
        style = found.pop("style", None)
        found.pop("clip-path", None)
        if found.get("transform", "").startswith("rotate(-0 "):
            del found["transform"]
        if style and decimals == 1:  # a definition takes the style of its use
            found["class"] = self.class_of(style)
        return "".join(
            f" {name.replace(f'{{{XLINK}}}', 'xlink:')}="
            f"{quoteattr(self.numbers(name, value, decimals))}"
            for name, value in found.items())

    def class_of(self, style):
        rules = [rule for rule in style.split("; ") if not rule.startswith("font-family")]
        text = ";".join(rule.replace(": ", ":") for rule in rules)
        return self.classes.setdefault(text, f"s{zlib.crc32(text.encode()):x}")

    @staticmethod
    def numbers(name, value, decimals):
        if name not in ("d", "x", "y", "transform"):
            return value
        value = re.sub(r"-?\d+\.\d+", lambda number: (
            f"{float(number[0]):.{decimals}f}".rstrip("0").rstrip(".")), value)
        return re.sub(r" ?([MLQCz]) ?", r"\1", " ".join(value.split()))

    def lines(self, tags):
        line = ""
        for tag in tags:
            if line and len(line) + len(tag) > self.WIDTH:
                yield line
                line = ""
            line += tag
        if line:
            yield line


# The files


def kind_of(name):
    return os.path.splitext(name)[1].lstrip(".").lower()


def write(pictures):
    """Writes all or none: every file is complete before the first is renamed."""
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
    if names[:1] == ["trace"]:
        return main_trace(names[1:])
    if names[:1] == ["sim"]:
        return main_run(names[1:])
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
