# SPDX-License-Identifier: MIT
"""--lost: threads that nothing can wake any more.

A thread is alive if it runs, is ready, has mail, a deadline or a scope, or waits for a
descriptor, the pool or anything else that memory does not tell. A thread that waits for a
wake, an object of usync.h or the end of a thread is alive if what is alive leads there: a
word that points into the thread's record or frames (unless the stack has frames of several
threads, into which no pointer may lead), into the object, or into the block of malloc()
around that; or if the thread that it joins is alive. All others are lost.

Marks begin at registers of native threads and at all writable memory, except what is
followed only from where it belongs: heaps of glibc, in blocks, and records, images and
stacks of threads. What links TLS blocks, or records of posix/, is not followed. A word
that looks like a pointer is one. The memory is that of one moment. So what is lost stays
so, unless the program hides pointers, for example with bits in them or as offsets, or has
them in files or other processes. Objects in static memory are never lost, for code knows
their addresses; nor are those of other allocators.
"""

import bisect
import contextlib
import struct
from collections import Counter

from . import Problem
from .target import STACK_POINTER
from .threads import LISTS, NEVER

OBJECTS = {"mutex", "reader-writer lock", "condition", "semaphore", "group", "scope", "channel"}
MAIL = ~(1 | 2 | 4 | 8 | 16)    # bits of u_mail that are mail: UPROC_MAIL_NONE has the others
HEAP_MAX = 64 << 20             # glibc: alignment of heaps other than the first
STATE = range(0x800, 0x900, 16) # glibc: where blocks may begin behind an arena's state
INFO = range(0x20, 0x60, 16)    # glibc: likewise behind a heap's head
SMALLEST, FLAGS, IN_USE, MAPPED = 32, 7, 1, 2
RED_ZONE = 128                  # bytes below SP that functions use
CACHE = struct.Struct("<64H64Q")


def words_of(data):
    return memoryview(data)[:len(data) & ~7].cast("Q")


class Ranges:
    """Intervals that do not overlap, by address."""

    def __init__(self, pairs):
        self.starts, self.ends = [], []
        for start, end in sorted(p for p in pairs if p[0] < p[1]):
            if self.ends and start < self.ends[-1]:
                self.ends[-1] = max(self.ends[-1], end)
            else:
                self.starts.append(start)
                self.ends.append(end)

    def has(self, address):
        i = bisect.bisect_right(self.starts, address) - 1
        return i >= 0 and address < self.ends[i]

    def outside(self, start, end):
        """The parts of an interval that are in none."""
        i = bisect.bisect_right(self.ends, start)
        while start < end and i < len(self.starts) and self.starts[i] < end:
            if start < self.starts[i]:
                yield start, self.starts[i]
            start = self.ends[i]
            i += 1
        if start < end:
            yield start, end


class Heap:
    """Blocks of malloc() in one mapping; `places' is empty if it is none."""

    def __init__(self, target, start, end, first):
        self.target, self.start, self.end, self.marked = target, start, end, set()
        data = words_of(target.read(start, end - start))
        self.places = []
        for at in first:
            self.places = list(self._walk(data, start + at))
            if self.places:
                self.used = [data[(b - start) // 8 + 1] & IN_USE for b in self.places[1:]] + [0]
                return

    def _walk(self, data, at):
        """The blocks up to the end, where the last is free or a mark; or none."""
        found = []
        while at < self.end:
            word = data[(at - self.start) // 8 + 1]
            size = word & ~FLAGS
            if word & MAPPED:           # a block that has its own mapping
                return []
            if size < SMALLEST or size % 16:
                return [*found, at] if found and self.end - at <= 2 * SMALLEST else []
            found.append(at)
            at += size
        return found if at == self.end else []

    def block(self, address):
        """Number, start and end of the block in use around an address; or None."""
        i = bisect.bisect_right(self.places, address) - 1
        if i < 0 or not self.used[i]:
            return None
        return i, self.places[i] + 16, self.places[i + 1] + 8


class Marks:
    def __init__(self, view, registers):
        self.view, self.target = view, view.target
        self.threads = {t.address: t for t in view.threads()}
        self.alive, self.todo = set(), []
        self.maps = list(self.target.writable())
        self.waits = {}         # thread that may be lost: what it waits for, 0, or a thread
        self.joiners = {}       # thread: those that join it
        self.framed = []        # (object in frames, thread that waits for it)
        self.blocks = {}        # bottom of a stack: TLS blocks of its thread there
        own = list(self._own())
        self.own = Ranges(own)
        self.heaps = [h for h in self._heaps() if h.places]
        self.heap_starts = [h.start for h in self.heaps]
        self._find_keys()
        for thread in self.threads.values():
            if thread.address not in self.waits:
                self.revive(thread.address)
        tops = [r[STACK_POINTER[self.target.machine]] for r in registers.values()]
        for t in self.threads.values():         # where processors do something
            p, (low, end) = t.stack.processor, self.stack_of(t)
            if t.is_current or p and t.stack_at == p.native and not p.current:
                top = min((top - RED_ZONE for top in tops if low < top <= end), default=low)
                self.todo.append((max(low, top), t.sp if t.blocked and t.is_current else end))
        for values in registers.values():
            self.mark(list(filter(None, values.values())))
        known = Ranges(own + [(h.start, h.end) for h in self.heaps])
        for start, end in self.maps:
            for part in known.outside(start, end):
                self.scan(*part)
        while self.todo:
            self.scan(*self.todo.pop())

    def _own(self):
        """What the library has of threads, and the stacks of threads."""
        view, get, size = self.view, self.view.layout.get, self.view.layout.offset
        for scheduler, processors in view.schedulers:
            arena = self.target.word(scheduler + size("uprocs.cl_arenas"))
            while arena:
                values = get("uimage_arena", arena, "ar_next", "ar_size")
                yield arena, arena + values["ar_size"]
                arena = values["ar_next"]
            for p in processors:
                values = get("uproc", p.address, "p_queue", "p_mask", "p_ring")
                yield values["p_queue"], values["p_queue"] + 8 * (values["p_mask"] + 1)
                if values["p_ring"] and view.layout.trace:
                    ring = get("utrace_ring", values["p_ring"], "rg_events", "rg_size")
                    yield ring["rg_events"], ring["rg_events"] + 32 * ring["rg_size"]
        view.names()
        for at in view.name_places:
            yield at, at + size("uproc_name")
        yield from self._links()
        for p in view.processors.values():
            yield p.address, p.address + size("usched")
        for t in self.threads.values():
            yield t.stack_at, t.stack_at + view.stack_form.size
            if t.deep & view.ATTACHED:
                yield t.func, t.func + size("uwaiter")
            if t.outside:
                yield t.frames_at, t.frames_at + t.image_size
            yield self.stack_of(t)
            with contextlib.suppress(Problem, ValueError):      # in a core, it just changes
                if self.may_be_lost(t):
                    self.waits[t.address] = self.object_of(t)

    def _links(self):
        """What links TLS blocks, and records of posix/."""
        word, lists = self.target.word, self.view.layout.lists
        bottoms = [0, *sorted(t.stack.bottom for t in self.threads.values())]
        for i in range(LISTS if lists else 0):
            at, links, size = (word(lists + 24 * i + 8 * k) for k in range(3))
            seen = set()
            while at and at not in seen:
                yield at, at + links
                if size and word(at + links):           # a block on a stack
                    yield at, at + size
                    bottom = bottoms[bisect.bisect_right(bottoms, at) - 1]
                    self.blocks.setdefault(bottom, []).append((at + links, at + size))
                seen.add(at)
                at = word(at)

    def stack_of(self, t):
        """Its stack, at most down to where the mapping begins."""
        if t.is_new:
            return 0, 0
        i = bisect.bisect_left(self.maps, (t.stack.bottom,)) - 1
        return max(t.stack.bottom - t.stack.size, self.maps[i][0]), t.stack.bottom

    def may_be_lost(self, t):
        view, layout = self.view, self.view.layout
        if not t.waits or self.target.word(t.address + layout.offset("ustack.u_mail")) & 0xffffffff & MAIL:
            return False
        if not t.stack.processor:
            return False        # it moves
        if not t.deep & view.ATTACHED:
            return True
        w = layout.get("uwaiter", t.func, "w_thread", "w_kind", "w_object", "w_deadline", "w_state",
                       "w_joins")
        flags, = self.target.read(t.func + layout.offset("uwaiter.w_state") - 1, 1)
        if w["w_thread"] != t.address or flags & layout.offset("UWAITER_SCOPED") or \
                w["w_deadline"] != NEVER and (w["w_joins"] or not t.joins):
            return False        # a join without a deadline leaves that of the wait before
        if t.joins or w["w_state"] in view.granted[:1]:
            return True
        kind = view._kind(w["w_kind"]) if w["w_kind"] else None
        return bool(kind and kind.name in OBJECTS and "others" not in kind.how and w["w_object"])

    def object_of(self, t):
        """What it waits for, or the thread that it joins."""
        view = self.view
        if t.joins:
            joined = view.joined().get(t.address, 0)
            self.joiners.setdefault(joined, []).append(t.address)
            return joined
        w = view.layout.get("uwaiter", t.func, "w_object", "w_state") \
            if t.deep & view.ATTACHED else {"w_object": 0, "w_state": view.granted[0]}
        return 0 if w["w_state"] in view.granted else w["w_object"]

    def _heaps(self):
        for start, end in self.maps:
            if start % HEAP_MAX:
                yield Heap(self.target, start, end, (0,))
            # The kernel may have merged what is before a heap with it.
            for at in range(start + -start % HEAP_MAX, end, HEAP_MAX):
                arena, _, size = (self.target.word(at + 8 * i) for i in range(3))
                if 0 < size <= end - at:
                    first = STATE if at < arena < at + 256 else INFO
                    base = arena & ~15 if first is STATE else at
                    yield Heap(self.target, at, at + size, [base - at + n for n in first])

    def heap_at(self, address):
        i = bisect.bisect_right(self.heap_starts, address) - 1
        return self.heaps[i] if i >= 0 and address < self.heaps[i].end else None

    def block_at(self, address):
        """As Heap.block()."""
        heap = self.heap_at(address)
        return heap.block(address) if heap else None

    def is_cache(self, start, end):
        """Whether a block is a list of glibc's of freed blocks, which no code reads."""
        if end - start != CACHE.size + 8:
            return False
        values = CACHE.unpack(self.target.read(start, CACHE.size))
        for i, (count, at) in enumerate(zip(values[:64], values[64:])):
            block = self.block_at(at) if at else None
            if bool(count) != bool(at) or at and (not block or block[1:] != (at, at + 16 * i + 24)):
                return False
        return True

    def _find_keys(self):
        """Where a pointer keeps which thread alive: intervals of addresses, by pages."""
        self.keys, static = {}, []
        on = Counter(t.stack_at for t in self.threads.values())
        size = self.view.record_form.size
        for address, thing in self.waits.items():
            t = self.threads[address]
            self._key(address, address + size, address)
            if on[t.stack_at] == 1:
                self._key(t.sp, t.stack.bottom, address)
            if t.deep & self.view.ATTACHED:
                self._key(t.func, t.func + self.view.layout.offset("uwaiter"), address)
            if thing and not t.joins:
                block = self.block_at(thing)
                if block:
                    self._key(block[1] - 16, block[2], address)
                elif self.own.has(thing):       # in frames
                    self.framed.append((thing, address))
                    self._key(thing, thing + 256, address)
                else:
                    static.append(address)      # or of another allocator
        self.framed.sort()
        for joined, joiners in self.joiners.items():
            if joined not in self.threads:
                static += joiners
        for address in static:
            self.revive(address)

    def _key(self, start, end, thread):
        for page in range(start >> 12, (end >> 12) + 1):
            self.keys.setdefault(page, []).append((start, end, thread))

    def revive(self, address):
        """The thread is alive: its frames, record and waiter may lead to others."""
        if address in self.alive:
            return
        self.alive.add(address)
        t, view = self.threads[address], self.view
        self.mark([t.fp, t.bp])
        self.todo.append((address + view.layout.offset("ustack.u_image"), address + t.size))
        self.todo.append(t.room)
        if t.deep & view.ATTACHED:
            self.todo.append((t.func, t.func + view.layout.offset("uwaiter")))
        low, end = (t.sp, t.stack.bottom) if t.blocked else self.stack_of(t)
        blocks = self.blocks.get(t.stack.bottom, [])
        self.todo.extend(blocks)
        for start, stop in (low, end), *blocks:
            first = bisect.bisect_left(self.framed, (start,))
            for _, waiter in self.framed[first:bisect.bisect_left(self.framed, (stop,))]:
                self.revive(waiter)     # the code knows where its own frames are
        if t.blocked and t.in_place:
            self.todo.append((low, end))
        elif t.outside:
            self.todo.append((t.frames_at, t.frames_at + t.image_size))
        for joiner in self.joiners.get(address, ()):
            self.revive(joiner)

    def scan(self, start, end):
        for data in self.target.present(start + 7 & ~7, end):
            self.mark(words_of(data))

    def mark(self, words):
        keys = self.keys
        for word in words:
            if word < 4096:
                continue
            for start, end, thread in keys.get(word >> 12, ()):
                if start <= word < end:
                    self.revive(thread)
            heap = self.heap_at(word)
            block = heap.block(word) if heap else None
            if block and block[0] not in heap.marked:
                heap.marked.add(block[0])
                if not self.is_cache(*block[1:]):
                    self.todo.extend(self.own.outside(*block[1:]))


def lost(views):
    """The target is as it is at this moment from now on."""
    found = set()
    with views[0].target.all_stopped() as registers:
        views[0].target.freeze()
    for view in views:
        view.refresh()
        marks = Marks(view, registers)
        found.update(marks.threads.keys() - marks.alive)
    return found
