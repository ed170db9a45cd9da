#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""graph.py: pictures and tables of the results of bench.sh.

    ./bench.sh | tee -a results
    grep -h '^ *[2N],' results | python3 graph.py c2.svg > c2-table.md
    cat runs/*/ring.csv runs/*/memory.csv | python3 graph.py others.png

usage: graph.py [--columns 'N, R, M, ...'] [PICTURE.svg | PICTURE.png | PICTURE.pdf]...

Reads the rows of bench.sh from standard input: one run or several one after the
other, one workload or several, with any columns. Prints tables in Markdown and
draws the same into each picture named. --columns stands for the header of rows that
come without one. A header may have P, a number of processors, and machine, a name,
after the parameters. Only runs with equal parameters, P and machine are averaged.

Cycle: the mean over the runs of the rate N*R*M / seconds, in millions of operations
per second, for each implementation and each number of threads N*R, or `-' if there is
none. Drawn as lines, with bars from the lowest rate to the highest, and a step of the
x axis for each number of threads. A cell NUMBER@SIZE was measured with M = SIZE. Each N
has a table, and a part of each picture. What runs on all processors and on one, as U
and U1T, has one colour, solid and dashed.

Threads, depth and stacks: the median over the runs of the time of a message, in
nanoseconds, against the number of threads N*R, the bytes D that each holds on its
stack, or the number of stacks. Each N, or N and R, has a table, and a part of each
picture. A row of these tables is a point of the lines.

Uneven: likewise, microseconds that a part of the short requests took at most, against
the number of connections.

Http and echo: likewise, thousands of requests or round trips per second,
against the number of connections.

The other workloads: the median over the runs of the time of one operation, the lowest
first, or for redis thousands of requests per second, the highest first. Each set of
parameters has a table, and a part of each picture, drawn as bars, with whiskers from
the least to the most. A cell NUMBER@SIZE was measured with SIZE in place of the last
parameter; the table and the picture say so.

A failed cell has no point: fail:reason, a number that is not positive, or one from
100000 (seconds) on, the published form of results whose programs had crashed. An
implementation with fail:missing only is named below the table.

Exit status: 0; 1 if the input is empty or wrong (then nothing is written), or a
picture cannot be written; 2 if the arguments are wrong.
"""

import math
import os
import re
import statistics
import sys
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "bench"), os.path.join(HERE, "tools")]
from usched_view import Problem as Bad  # noqa: E402
from usched_view.picture import (  # noqa: E402
    COLOURS, FORMATS, kind_of, new_figure, render, short, span, ticks, titles, whiskers, write)
from workloads import THREADS, WORKLOADS  # noqa: E402

LEAST = 1e-9  # programs print six digits: smaller numbers are zero
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
OURS = re.compile(r"U[DJL]?([0-9][0-9A-Z]*)?|UCO")  # U, U10K, U1TS; not UV, UCONTEXT
ONE = "1T"  # ends names of implementations on one processor
COMMANDS = ("GET", "SET")  # of redis
SETTING = ("P", "machine")  # cells that a header may have after the parameters


# Of one run: the value or None; the reason of a failure; the last parameter.
Cell = namedtuple("Cell", "value reason size")


class Part:
    """A table and a part of the picture: of one N in cycle, of one set of leading
    parameters for a curve, of one set of parameters in other workloads. Of one number
    of processors, and of one machine."""

    def __init__(self, workload, parameters, setting, names):
        self.workload, self.parameters = workload, parameters
        self.processors, self.machine = setting
        self.kind = WORKLOADS[workload]
        self.names = names  # the columns of all parts of the workload
        self.cells = {}  # name -> place -> [Cell]; see row()

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
        bars = [Bar(name, statistics.median(values), min(values), max(values), len(values),
                    len(values) + sum(c.value is None for c in self.runs(name)), size)
                for name, cells in self.measured() for size, values in cells.items()]
        return sorted(bars, key=lambda bar: bar.median,
                      reverse=self.kind.better == "higher")

    def is_smaller(self, bar):
        return bar.size != self.parameters[-1]

    def heading(self):
        return ", ".join([*map("{} = {}".format, self.kind.parameters, self.parameters),
                          *self.setting()])

    def setting(self):
        """What is known of it."""
        return [f"P = {self.processors}"] * bool(self.processors) + (
            [self.machine] * bool(self.machine))


# Of an implementation; `size' is the value of the last parameter.
Bar = namedtuple("Bar", "name median least most runs of size")


class Results:
    """Workloads and their parts, in order of appearance."""

    def __init__(self):
        self.names = {}  # workload -> columns of all its headers
        self.columns = {}  # workload -> cells of its last header after the parameters
        self.found = {}  # workload -> parameters, (processors, machine) -> Part

    def part(self, workload, parameters, setting):
        curve = WORKLOADS[workload].curve
        key = parameters[:curve.lead] if curve else parameters
        parts = self.found.setdefault(workload, {})
        if (key, setting) not in parts:
            parts[key, setting] = Part(workload, key, setting, self.names[workload])
        return parts[key, setting]

    def parts(self):
        """All parts; those with lines sorted."""
        for workload, parts in self.found.items():
            curve = WORKLOADS[workload].curve
            yield from map(parts.get, sorted(parts) if curve else parts)


def mean(values):
    return math.fsum(values) / len(values)


# Reading


def read(lines, first=1):
    results = Results()
    for number, line in enumerate(lines, first):
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
            where = f"line {number}" if number > 0 else "--columns"
            raise Bad(f"{where}: {bad}") from None
    if not results.found:
        raise Bad("no results on standard input: " + (
            "only headers" if results.columns else "it is empty"))
    if not any(cells for part in results.parts() for _, cells in part.measured()):
        raise Bad("no results on standard input: every cell has failed")
    if len({part.machine for part in results.parts()}) == 1:
        for part in results.parts():
            part.machine = ""  # it need not be told
    return results


def lead(workload):
    """The cells of its headers before the columns."""
    name = [] if workload == "cycle" else [workload]
    return name + list(WORKLOADS[workload].parameters)


def header(results, workload, cells):
    first = lead(workload)
    columns = cells[len(first):]
    names = [name for name in columns if name not in SETTING]
    if cells[:len(first)] != first or not names:
        raise Bad(f"a header is {', '.join(first)} and the names of columns")
    for i, name in enumerate(columns):
        if not name:
            raise Bad(f"column {len(first) + i + 1} has no name")
        if name in columns[:i]:
            raise Bad(f"two columns are named {name}")
    results.columns[workload] = columns
    known = results.names.setdefault(workload, [])
    known += [name for name in names if name not in known]


def row(results, workload, cells):
    """The place of a cell is that on the x axis, and M, or the size of a bar."""
    first, columns = lead(workload), results.columns.get(workload)
    if columns is None:
        raise Bad(f"it comes before any header ({', '.join(first)}, ...), "
                  "and without --columns")
    if len(cells) != (expected := len(first) + len(columns)):
        raise Bad(f"the header has {expected} cells, this line {len(cells)}")
    kind, cells = WORKLOADS[workload], cells[len(first) - len(WORKLOADS[workload].parameters):]
    sizes = tuple(map(count, kind.parameters, cells))
    named = dict(zip(columns, cells[len(sizes):]))
    setting = count("P", named.pop("P")) if "P" in named else 0, named.pop("machine", "")
    measured = {name: measurement(name, cell, workload, sizes)
                for name, cell in named.items()}
    part = results.part(workload, sizes, setting)
    for name, cell in measured.items():
        part.add(name, (kind.curve.place(*sizes), dict(zip(kind.parameters, sizes)).get("M"))
                 if kind.curve else cell.size, cell)


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
    if not NUMBER.fullmatch(number) or at and kind.curve and kind.parameters[-1] != "M":
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
    rows.insert(0, [part.kind.curve.name] + [label(place, places) for place in places])
    return rows if part.workload == "cycle" else list(zip(*rows))


def label(place, places, text=str):
    """With M where there are several."""
    several = sum(other[0] == place[0] for other in places) > 1
    return text(place[0]) + f", M = {place[1]}" * several


def other_rows(part):
    bars, parameter = part.bars(), part.kind.parameters[-1]
    rows = [["implementation", "median", "min", "max", "times the best", "runs",
             parameter]]
    for bar in bars:
        rows.append([
            bar.name, digits(bar.median), digits(bar.least), digits(bar.most),
            f"{bar.median / bars[0].median:.2f}",
            f"{bar.runs} of {bar.of}" if bar.runs < bar.of else f"{bar.runs}",
            str(bar.size)])
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


# A column has the same colour and marker in every picture: those of its place here, modulo
# their numbers, which have no common divisor. So neighbours differ in both; they should be
# those of one picture. Unknown columns follow. Ours are solid; the others are thin, dashed,
# hollow and, as bars, pale. An implementation that runs on all processors and on one, as U
# and U1T, has one colour: its line is solid on all, and dashed and hollow on one.
OUR_NAMES = "U UL U1K UD U1TS U10K UCO U1TC UJ".split()
OTHER_NAMES = """GO C++1TL POSIX C++ RUSTMIN TOKIO BOOST RUST C++POOL EPOLL ST UV NGINX C++20 MACROS
    CALLS COROSENSEI GENERATOR-RS REDIS C++23 BOOST-FIBER MINICORO LUA LUAJIT PYTHON GREENLET
    HASKELL LWT ERLANG LISP UCONTEXT COROUTINE2 U-SLICE POSIX-SEM MACROS-WORST
    BOOST-FP ERLANG-HIBERNATE PHOTON""".split()
MARKERS = (  # with sizes that look equal
    ("o", 7), ("s", 6.5), ("^", 8), ("D", 6.5), ("v", 8), ("P", 8.5), ("X", 8.5),
    ("<", 8), (">", 8), ("p", 8.5), ("*", 11), ("h", 8), ("d", 8.5))
OTHER_COLOURS = ("#777777", "#882255", "#999933", "#332288", "#8C510A", "#44AA99",
                 "#AA4466", "#117733", "#6699CC", "#555555", "#AA8800")
ONE_DASHES = (0, (2.5, 1))
OTHER_DASHES = ((0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


def both(name, names):
    """The names on all processors and on one, if both are there; else the name alone."""
    pair = name.removesuffix(ONE), name.removesuffix(ONE) + ONE
    return pair if set(pair) <= set(names) else (name,)


def is_ours(name):
    return OURS.fullmatch(name) is not None


def look(name, names):
    """Its colour, its place, and its marker with the size of that."""
    ours = is_ours(name)
    known = OUR_NAMES if ours else OTHER_NAMES
    more = [other for other in map(base, names) if is_ours(other) == ours and other not in known]
    i = [*known, *dict.fromkeys(more)].index(base(name))
    palette = (*COLOURS, "#5B3A1A") if ours else OTHER_COLOURS
    return palette[i % len(palette)], i, *MARKERS[i % len(MARKERS)]


def base(name):
    return name.removesuffix(ONE) or name


def draw(results, width=9):
    """With fewer inches than 6 legends are below the lines."""
    parts = list(results.parts())
    heights = [(4.2 if width > 6 else 3.4 + 0.11 * len(part.cells)) if part.kind.curve
               else 0.27 * max(1, len(part.bars())) for part in parts]
    figure = new_figure(width, sum(heights) + len(parts))
    grid = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)
    for axes, part in zip(grid[:, 0], parts):
        (plot_lines if part.kind.curve else plot_bars)(axes, part)
    return figure


def plot_lines(axes, part):
    lines = [line(axes, name, cells, part) for name, cells in part.measured() if cells]
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
               "; ".join(filter(None, (processors(part), "higher is better",
                                       explain(numbers, "mean")))))
    else:
        threads = math.prod(part.parameters)  # R is in the parameters then
        lead = f"{threads} threads, " if part.kind.curve.lead > 1 else ""
        titles(axes, part.kind.title, subtitle(lead + part.heading(), part, numbers))
    legend(axes, lines)


def processors(part):
    """The setting of a part of cycle, and that of names which end in 1T."""
    setting = ", ".join(part.setting())
    some = part.processors > 1 and any(name.endswith(ONE) for name in part.cells)
    return setting + f" ({ONE}: P = 1)" * some


def subtitle(first, part, numbers):
    better = part.kind.better and f"{part.kind.better} is better"
    return "; ".join(filter(None, (first, better, explain(numbers, "median"))))


def place_axis(axes, part):
    """The x axis: logarithmic, with zero at half of the next place. In cycle it has a
    step for each place, so that few threads have as much room as many."""
    places, width = part.places(), axes.figure.get_figwidth()
    drawn = [position(place, part) for place in places]
    if part.workload == "cycle":
        axes.set_xlim(-0.5, len(places) - 0.5)
        every = math.ceil(0.5 * len(places) / width)
        axes.set_xticks(drawn[::every], [label(p, places, short) for p in places[::every]])
        return
    axes.set_xscale("log")
    axes.set_xlim(*span(drawn))
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    if part.kind.curve is not THREADS and len(places) < min(15, 1.7 * width):  # few: label each
        axes.set_xticks(drawn, [str(p) if p % 1000 else short(p) for p, _ in places])
        axes.minorticks_off()


def position(place, part):
    if part.workload == "cycle":
        return part.places().index(place)
    return place[0] or min((p for p, _ in part.places() if p), default=2) / 2


def value_axis(axes, values):
    """The y axis: from zero, or logarithmic if values differ very much."""
    if values and max(values) > 50 * min(values):
        axes.set_yscale("log")
        axes.set_ylim(min(values) / 1.4, max(values) * 1.4)
        ticks(axes.yaxis, min(values), max(values))
    else:
        axes.set_ylim(bottom=0)


def line(axes, name, cells, part):
    places = [position(place, part) for place in cells]
    runs = cells.values()
    averages = [part.average(values) for values in runs]
    ours, pair = is_ours(name), both(name, part.names)
    colour, i, marker, size = look(name, part.names)
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


def legend(axes, lines):
    """A legend beside the plot, in the order of the right ends of the lines; or below."""
    lines.sort(key=lambda line: line.get_ydata()[-1], reverse=True)
    place = dict(loc="upper left", bbox_to_anchor=(1.01, 1)) if axes.figure.get_figwidth() > 6 \
        else dict(loc="upper left", bbox_to_anchor=(0, -0.16), ncols=2)
    axes.legend(handles=lines, frameon=False, handlelength=4, **place)


def plot_bars(axes, part):
    entries = part.bars()
    titles(axes, part.kind.title,
           subtitle(part.heading(), part, {bar.runs for bar in entries}), 1.5)
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
    colour = look(bar.name, part.names)[0]
    axes.barh(y, bar.median - left, left=left, height=0.7, color=colour,
              alpha=None if ours else 0.5)
    if bar.runs > 1:
        axes.errorbar(bar.median, y, fmt="none", ecolor="black", capsize=2.5,
                      xerr=([bar.median - bar.least], [bar.most - bar.median]),
                      elinewidth=1)
    text = digits(bar.median)
    if part.is_smaller(bar):
        text += f" (with {short(bar.size)} {part.kind.parameters[-1]})"
    axes.annotate(text, (bar.most, y), xytext=(5, 0), textcoords="offset points",
                  va="center", fontsize=9, fontweight="bold" if ours else "normal")
    if ours:
        axes.get_yticklabels()[y].set(color=COLOURS[0], fontweight="bold")


def explain(runs, average):
    if not runs:
        return "every cell has failed"
    least, most = min(runs), max(runs)
    if most == 1:
        return "one run"
    many = most if least == most else f"{least} to {most}"
    return f"{average} of {many} runs, bars from min to max"


def main(names):
    if names in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    columns = []
    while names[:1] == ["--columns"] and names[1:]:
        columns.append(names[1])
        names = names[2:]
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
        results = read([*columns, *sys.stdin], 1 - len(columns))
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
