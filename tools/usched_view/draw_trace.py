# SPDX-License-Identifier: MIT
"""A picture of a file of `uthreads trace'."""

import json
from collections import namedtuple

from . import Problem
from .picture import COLOURS, new_figure, titles

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
            raise Problem("no thread runs in this trace")
        last = len(runs) // 2
        first = runs[max(0, last - RUNS)]
        self.start, self.end = times or (first.start, runs[last].end)
        self.used = sorted({s.on for s in runs if self.has(s)})
        if not self.used or self.start >= self.end:
            raise Problem("no thread runs in this part of the trace")

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


def read(name, times):
    try:
        with open(name, encoding="utf-8") as file:
            return Trace(json.load(file)["traceEvents"], times)
    except OSError as error:
        raise Problem(f"{name}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, IndexError):
        raise Problem(f"{name}: no trace of usched") from None


def draw(trace):
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
