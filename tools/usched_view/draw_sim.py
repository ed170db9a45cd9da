# SPDX-License-Identifier: MIT
"""A picture of a file of `usched-run --sim --trace'."""

import csv
import math
import statistics
import textwrap
from collections import namedtuple

from . import Problem
from .picture import new_figure, titles

STEPS = 300  # in the picture, unless they are given
BLUE, ORANGE, RED, GREEN = "#0072B2", "#E69F00", "#D55E00", "#009E73"
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
            raise Problem("the run has no such steps")
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
        raise Problem(f"the header has {len(Event._fields)} cells, this line {len(cells)}")
    named = dict(zip(Event._fields, map(str.strip, cells)))
    for name in "step", "ns", "thread", "choice", "message", "arrival":
        if not (named[name].isascii() and named[name].isdigit()):
            raise Problem(f"{name} is '{named[name]}', not a number")
        named[name] = int(named[name])
    if named["event"] not in ("step", "fault", "send", "receive"):
        raise Problem(f"event is '{named['event']}', none of step, fault, send, receive, end")
    return Event(**named)


def read(name, steps):
    events, failure = [], ""
    try:
        with open(name, encoding="utf-8", errors="replace", newline="") as file:
            rows = csv.reader(file)
            if next(rows, None) != list(Event._fields):
                raise Problem(f"{name}: no trace of usched-run --sim")
            for cells in rows:
                try:
                    if cells[4:5] == ["end"]:
                        failure = " ".join(cells[5:6])
                    else:
                        events.append(sim_event(cells))
                except Problem as problem:
                    raise Problem(f"{name}: line {rows.line_num}: {problem}") from None
    except OSError as error:
        raise Problem(f"{name}: {error.strerror}") from None
    except csv.Error as error:
        raise Problem(f"{name}: {error}") from None
    if not events:
        raise Problem(f"{name}: the run has no steps")
    return Run(events, failure, steps)


def draw(run):
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
