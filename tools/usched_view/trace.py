# SPDX-License-Identifier: MIT
"""trace: has a process trace itself, and writes JSON trace events.

debug/trace.h has the events, and the rules by which they are read. The process 1 has a
track for each thread, the process 2 one for each processor:

        pid 1, tid 3    |run      |waits for mutex 0x5590 |runnable |run    |
                                                     wake /---------^
        pid 1, tid 7              |run                              |yields
        pid 2, tid 0    |thread 3 |thread 7                         |thread 3

A wait begins with a block and ends with the wake, and from there on the thread is runnable.
An arrow leads from the wake to the run. Evictions, loads and moves are instants.
"""

import ctypes
import json
import os
import re
import signal
import struct
import sys
import time
from types import SimpleNamespace

from . import Problem, plain
from .threads import Kind

(OFF, SWITCH, BLOCK, WAKE, POST, CREATE, START, END, MOVE) = range(1, 10)
GAP = 255                       # not of trace.h: events before this one are missing
WAITS, GRANT, JOINS, YIELDS, PREEMPTED = range(1, 6)
WHYS = {WAITS: "waits for a wake", JOINS: "joins", GRANT: "waits for a grant",
        YIELDS: "yields", PREEMPTED: "preempted"}
RECORD = "usched record 1\n"
MARGIN = 8                      # events at the end of a ring that may be half written
EVENT = struct.Struct("<4Q")
LOG_MIN, LOG_MAX = 6, 26
PAUSE = 0.005                   # seconds between two reads of the rings
NAMES_PAUSE = 0.1               # likewise of names, if that is quick
LAST_LOOK = 0.1                 # seconds for processors to end their traces
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ring:
    """Of a processor, or of native threads: what was read of it so far."""

    def __init__(self, layout, address, name, first):
        self.layout, self.address, self.name = layout, address, name
        self.next = first
        self.parts = []         # bytes of events, and None where some are missing
        self.lost = 0
        self.on = False

    def read(self):
        """Events that came since the last call. False: it cannot be read."""
        layout = self.layout
        try:
            ring = layout.get("utrace_ring", self.address, "rg_count", "rg_events", "rg_size",
                              "rg_begin", "rg_on")
        except Problem:
            return False
        self.on = bool(ring["rg_on"])
        if not ring["rg_events"] or not ring["rg_size"]:
            return True
        count, size = ring["rg_count"], ring["rg_size"]
        self.next = max(self.next, ring["rg_begin"])
        if count > self.next:
            self._read_events(ring["rg_events"], size, count)
        return True

    def _read_events(self, events, size, count):
        target = self.layout.target
        begin = max(self.next, count - (size - MARGIN))
        data, at = b"", begin
        while at < count:
            n = min(count - at, size - at % size)
            part = target.read(events + at % size * EVENT.size, n * EVENT.size)
            data += part
            at += n
            if len(part) < n * EVENT.size:
                break
        # What was overwritten meanwhile.
        now = self.layout.get("utrace_ring", self.address, "rg_count")["rg_count"]
        valid = max(begin, now - (size - MARGIN))
        if valid > self.next:
            self.lost += min(valid, count) - self.next
            self.parts.append(None)
        whole = len(data) // EVENT.size * EVENT.size
        self.parts.append(data[(valid - begin) * EVENT.size:whole])
        self.next = max(count, self.next)

    def kind(self, number):
        """What threads wait for."""
        offset = number - (1 << 32) if number >> 31 else number
        return Kind(self.layout, self.layout.self + offset)

    def events(self):
        """(time, ring, thread, other, what), the oldest first."""
        gap = False
        for part in self.parts:
            if part is None:
                gap = True
                continue
            for when, thread, other, what in EVENT.iter_unpack(part):
                if gap:
                    yield when, self, 0, 0, GAP
                    gap = False
                yield when, self, thread, other, what


class Tracer:
    """Has processors of a process trace, and reads their rings."""

    def __init__(self, views, events):
        self.views = [v for v in views if v.layout.trace
                      and "utrace_control.tc_asked" in v.layout.names_of]
        self.target = views[0].target
        if not self.views:
            raise Problem(f"{self.target.where} cannot trace: utrace.c is not in it; link with"
                          " libusched.so, or with -Wl,-u,utrace__control")
        self.log = min(max(max(events, 2) - 1, 1).bit_length(), LOG_MAX)
        self.log = max(self.log, LOG_MIN)
        self.rings, self.processors = {}, []
        self.names, self.functions = {}, {}
        self.names_at = 0.0
        self.ended = False
        self.seconds = 0.0
        self.find(first=True)

    def ask(self, log):
        """The word that processors compare at their looks. 0: what it was at the start."""
        for view in self.views:
            asked, usual = (view.layout.trace + view.layout.offset(f"utrace_control.tc_{name}")
                            for name in ("asked", "usual"))
            write_word(self.target, asked, log or self.target.word(usual) & 0xffffffff)

    def find(self, first=False):
        """Rings come with the first trace, and go with their schedulers."""
        self.processors = []
        for view in self.views:
            if not first:
                view.refresh()
            number = -1
            for number, (_, processors) in enumerate(view.schedulers):
                for i, p in enumerate(processors):
                    name = f"{view.prefix}{number}.{i}"
                    ring = view.layout.get("uproc", p.address, "p_ring", "p_inbox")
                    self.processors.append((name, view, p, ring))
                    self._keep(view, ring["p_ring"], name, first)
            at = view.layout.trace + view.layout.offset("utrace_control.tc_mail")
            self._keep(view, self.target.word(at), None, first)

    def _keep(self, view, address, name, first):
        """What is there before the first is of an earlier trace."""
        key = address, name
        if not address or key in self.rings:
            return
        count = view.layout.get("utrace_ring", address, "rg_count")["rg_count"] if first else 0
        self.rings[key] = Ring(view.layout, address, name, count)

    def read(self):
        """False: the process has ended."""
        try:
            self.find()
            self._read_names()
        except (Problem, OSError):
            self.ended = True
        for ring in self.rings.values():
            try:
                ring.read()
            except Problem:
                pass            # its scheduler was destroyed
        if not self.ended and not any(self.target.word(v.layout.self) for v in self.views):
            self.ended = True
        return not self.ended

    def _read_names(self, again=False):
        now = time.monotonic()
        if now < self.names_at and not again:
            return
        for view in self.views:
            self.names.update(view.names())
        took = time.monotonic() - now
        self.names_at = now + max(NAMES_PAUSE, 20 * took)

    def run(self, seconds):
        """Until then, or a signal, or the end of the process."""
        asked = []
        before = {n: signal.signal(n, lambda n, _: asked.append(n)) for n in SIGNALS}
        began = time.monotonic()
        try:
            self.ask(self.log)
            try:
                while self.read() and not asked and time.monotonic() - began < seconds:
                    time.sleep(PAUSE)
                self.late = [] if self.ended else list(self.not_begun())
            finally:
                if not self.ended:
                    self.ask(0)
            self.seconds = time.monotonic() - began
            self._read_last()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _read_last(self):
        """Up to where processors have ended their traces."""
        end = time.monotonic() + LAST_LOOK
        while self.read() and time.monotonic() < end:
            if not any(r.on for r in self.rings.values() if r.name):
                break
            time.sleep(PAUSE / 5)
        if not self.ended:
            self._read_names(again=True)

    def not_begun(self):
        """Processors that have not looked since, with what runs there."""
        for name, view, p, values in self.processors:
            ring = self.rings.get((values["p_ring"], name))
            if (not ring or not ring.on) and p.current \
                    and values["p_inbox"] != view.layout.parked:
                yield name, p.current

    def name(self, thread):
        """For a thread without a name, that of its function."""
        name = self.names.get(thread) or self.functions.get(thread)
        if name is None:
            name = self.functions[thread] = self._function(thread)
        return f"{name} {thread:#x}" if name else f"{thread:#x}"

    def started(self, thread, function):
        if function:
            self.functions[thread] = self.target.symbol(function)

    def _function(self, thread):
        """Of a thread that began before and still exists."""
        for view in self.views:
            data = self.target.read(thread, view.record_form.size) if not self.ended else b""
            if len(data) == view.record_form.size:
                values = view.record_form.unpack(data)
                if values[view.record_order.index("u_func")]:
                    return self.target.symbol(view._thread(thread, values, 0).function)
        return ""


class RecordedRing:
    """As a Ring whose events were read."""

    def __init__(self, name):
        self.name, self.lost, self.kinds, self.lines = name, 0, {}, []

    def add(self, when, kind, why, thread, other, number, is_number, name):
        number = int(number)
        self.kinds[number] = SimpleNamespace(name=name, number=is_number == "1")
        what = int(kind) | int(why) << 8 | number << 32
        self.lines.append((int(when), self, int(thread, 16), int(other, 16), what))

    def kind(self, number):
        return self.kinds[number]

    def events(self):
        return self.lines


class Record(Tracer):
    """A record of the process itself: see write_record() in debug/utrace.c."""

    def __init__(self, lines):
        ring = RecordedRing(None)
        self.rings, self.processors, self.late = {None: ring}, [], []
        self.names, self.functions, self.symbols = {}, {}, {}
        for line in lines:
            word, rest = line.rstrip("\n").split(" ", 1)
            if word == "processor":
                ring = self.rings[rest] = RecordedRing(rest)
                self.processors.append((rest,))
            elif word == "function":
                address, *found = re.match(r"(\w+)(?: \(\S+ (.*)\))?", rest).groups()
                self.symbols[int(address, 16)] = plain(found[0] or address)
            elif word == "thread":
                thread, function, name = rest.split(" ", 2)
                self.names[int(thread, 16)] = plain(name)
                self.started(int(thread, 16), int(function, 16))
            else:
                ring.add(word, *rest.split(" ", 6))
        times = [event[0] for ring in self.rings.values() for event in ring.lines] or [0]
        self.seconds = (max(times) - min(times)) / 1e9

    def started(self, thread, function):
        self.functions[thread] = self.symbols.get(function, "")

    def _function(self, thread):
        return ""


def show_record(path, output):
    """False: it is none."""
    with open(path, errors="replace") as lines:
        if lines.readline() != RECORD:
            return False
        record = Record(lines)
    write(record, open_output(output))
    return True


def write_word(target, address, value):
    """Four bytes, into a process that goes on."""
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    call = ctypes.CDLL(None, use_errno=True).process_vm_writev
    call.restype = ctypes.c_ssize_t
    word = ctypes.c_uint32(value)
    here = Part(ctypes.addressof(word), 4)
    there = Part(address, 4)
    done = call(ctypes.c_int(target.pid), ctypes.byref(here), ctypes.c_ulong(1),
                ctypes.byref(there), ctypes.c_ulong(1), ctypes.c_ulong(0))
    if done != 4:
        error = ctypes.get_errno()
        if value:
            raise Problem(f"{target.where}: {os.strerror(error)}")


class Seen:
    """What is known of a thread."""

    __slots__ = ("number", "name", "on", "since", "runs", "what", "flow", "poster", "posted",
                 "ready")

    def __init__(self, number, name):
        self.number, self.name = number, name
        self.on = self.since = self.flow = self.poster = self.ready = None
        self.posted = 0
        self.runs, self.what = False, ""


class Writer:
    """Makes JSON trace events of what rings had."""

    def __init__(self, tracer, out):
        self.tracer, self.out = tracer, out
        self.lines, self.comma = [], False
        self.seen, self.kinds = {}, {}
        self.tracks = {}        # name of a processor: its track
        self.running = {}       # track: the thread that runs there
        self.flows = 0
        self.delays = []        # (ns from runnable to running, thread)
        self.longest = 0, None, 0
        self.events = []
        for ring in tracer.rings.values():
            self.events += ring.events()
        for thread in {event[2] for event in self.events} - {0}:
            tracer.name(thread)         # it may end soon
        self.events.sort(key=lambda event: event[0])
        self.first = self.events[0][0] if self.events else 0

    def us(self, ns):
        return (ns - self.first) / 1000

    def emit(self, line):
        self.lines.append(line)
        if len(self.lines) >= 10000:
            self.flush()

    def flush(self):
        if self.lines:
            self.out.write((",\n" if self.comma else "") + ",\n".join(self.lines))
            self.comma, self.lines = True, []

    def write(self):
        lost = sum(r.lost for r in self.tracer.rings.values())
        self.out.write(f'{{"displayTimeUnit":"ns","otherData":{{"lost":{lost}}},\n'
                       '"traceEvents":[\n')
        for pid, name in ((1, "threads"), (2, "processors")):
            self.emit(f'{{"ph":"M","pid":{pid},"name":"process_name",'
                      f'"args":{{"name":"{name}"}}}}')
        for track, (name, *_) in enumerate(self.tracer.processors):
            self._track(name)
        for event in self.events:
            self._show(*event)
        self._finish()
        for thread, e in self.seen.items():
            self.emit(f'{{"ph":"M","pid":1,"tid":{e.number},"name":"thread_name",'
                      f'"args":{{"name":{json.dumps(self.tracer.name(thread))}}}}}')
        self.flush()
        self.out.write("\n]}\n")
        self.out.flush()

    def _track(self, name):
        if name not in self.tracks:
            self.tracks[name] = len(self.tracks)
            self.emit(f'{{"ph":"M","pid":2,"tid":{self.tracks[name]},"name":"thread_name",'
                      f'"args":{{"name":"processor {name}"}}}}')
        return self.tracks[name]

    def _see(self, thread):
        e = self.seen.get(thread)
        if e is None:
            e = self.seen[thread] = Seen(len(self.seen) + 1, self.tracer.name(thread))
        return e

    def _show(self, now, ring, thread, other, what):
        kind, why = what & 0xff, what >> 8 & 0xff
        track = self._track(ring.name) if ring.name is not None else None
        e = self._see(thread) if thread else None
        if kind == SWITCH:
            if other:
                self._instant(self._see(other), "evict", track, now)
            if what >> 32:
                self._instant(e, "load", track, now, what >> 32)
            self._run(e, thread, track, now)
        elif kind == BLOCK:
            self._end(e, now)
            e.since, e.what, e.on = now, self._describe(ring, why, other, what >> 32), track
            e.ready = now if why in (YIELDS, PREEMPTED) else None
        elif kind == END:
            self._end(e, now)
            e.flow = e.ready = None
        elif kind in (WAKE, CREATE):
            self._wake(e, other, track, now)
        elif kind == POST:
            e.poster, e.posted = other if track is not None else None, now
        elif kind == START:
            self.tracer.started(thread, other)
            e.name = self.tracer.name(thread)
        elif kind == MOVE:
            e.on = track
            self._instant(e, "move", track, now)
        elif kind == OFF and track in self.running:
            self._end(self.seen[self.running[track]], now)
        elif kind == GAP:
            self._forget(track)

    def _instant(self, e, name, track, now, size=0):
        self.emit(f'{{"ph":"i","s":"t","pid":1,"tid":{e.number},"ts":{self.us(now):.3f},'
                  f'"name":"{name}","args":{{"processor":{track},"bytes":{size}}}}}')

    def _forget(self, track):
        """What threads of this processor did meanwhile is not known."""
        for e in self.seen.values():
            if e.on == track:
                e.since = e.flow = e.ready = None
                e.runs = False
        self.running.pop(track, None)

    def _end(self, e, now):
        """A slice of the thread ends: a run, which is the processor's, too, or a wait."""
        if e.since is not None:
            start, time_us = self.us(e.since), self.us(now) - self.us(e.since)
            name = "run" if e.runs else e.what
            self.emit(f'{{"ph":"X","pid":1,"tid":{e.number},"ts":{start:.3f},'
                      f'"dur":{time_us:.3f},"name":{json.dumps(name)},'
                      f'"args":{{"processor":{e.on}}}}}')
            if e.runs:
                self.emit(f'{{"ph":"X","pid":2,"tid":{e.on},"ts":{start:.3f},'
                          f'"dur":{time_us:.3f},"name":{json.dumps(e.name)}}}')
                if now - e.since > self.longest[0]:
                    self.longest = now - e.since, e, e.on
        if e.runs:
            self.running.pop(e.on, None)
        e.since, e.runs = None, False

    def _run(self, e, thread, track, now):
        last = self.running.get(track)
        if last is not None:
            self._end(self.seen[last], now)
        self._end(e, now)
        if e.ready is not None:
            self.delays.append((now - e.ready, e))
        e.since, e.runs, e.on, e.ready = now, True, track, None
        self.running[track] = thread
        if e.flow:
            by, at = e.flow
            self.flows += 1
            for more, pid, when in (('"ph":"s"', by, at), ('"ph":"f","bp":"e"', e.number, now)):
                self.emit(f'{{{more},"pid":1,"tid":{pid},"ts":{self.us(when):.3f},'
                          f'"id":{self.flows},"name":"wake","cat":"wake"}}')
        e.flow = None

    def _wake(self, e, other, track, now):
        """By the thread that ran then; or, by mail, at the time when that was sent."""
        by, at = (other, now) if other else (e.poster, e.posted)
        e.poster = None
        e.flow = (self._see(by).number, at) if by else None
        if e.runs:
            return
        self._end(e, now)
        e.since, e.what, e.on, e.ready = now, "runnable", track, now

    def _finish(self):
        """What had not ended at the last event."""
        if self.events:
            for e in self.seen.values():
                self._end(e, self.events[-1][0])

    def _describe(self, ring, why, thing, number):
        """What a thread waits for."""
        if why != GRANT or not number:
            return WHYS.get(why, "waits")
        kind = self.kinds.get(number)
        if kind is None:
            kind = self.kinds[number] = ring.kind(number)
            if kind is None:
                return WHYS[GRANT]
        if kind.name == "a time that never comes":
            return "waits for a time"
        return f"waits for {kind.name} {thing if kind.number else f'{thing:#x}'}"

    def summary(self):
        """The answer to most questions, in some lines."""
        tracer = self.tracer
        lost = sum(r.lost for r in tracer.rings.values())
        yield f"{len(self.events)} events of {len(self.tracks)} processors in " \
              f"{tracer.seconds:.2f} s, {lost or 'none'} lost"
        for name, thread in tracer.late:
            yield f"processor {name} has not begun: {tracer.name(thread)} keeps it"
        took, e, track = self.longest
        if e:
            name = next(n for n, t in self.tracks.items() if t == track)
            yield f"longest run: {spell(took)}, {e.name}, processor {name}"
        if self.delays:
            order = sorted(self.delays, key=lambda pair: pair[0])
            middle, late = (order[int(len(order) * part)][0]
                            for part in (0.5, 0.99))
            yield f"runnable to running: median {spell(middle)}, 99 % {spell(late)}, longest " \
                  f"{spell(order[-1][0])}, {order[-1][1].name}"


def spell(ns):
    return f"{ns / 1e6:.3f} ms"


def trace(views, seconds, events, path):
    target = views[0].target
    if not target.live:
        raise Problem("trace needs a process")
    tracer = Tracer(views, events)
    out = open_output(path)
    tracer.run(seconds)
    if tracer.ended:
        print(f"uthreads: {target.where} has ended meanwhile", file=sys.stderr)
    write(tracer, out)


def open_output(path):
    try:
        return open(path, "w") if path else sys.stdout
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None


def write(tracer, out):
    writer = Writer(tracer, out)
    writer.write()
    report = sys.stderr
    if out is not sys.stdout:
        out.close()
        report = sys.stdout
    report.write("".join(f"{line}\n" for line in writer.summary()))
