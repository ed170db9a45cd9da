# SPDX-License-Identifier: MIT
"""Schedulers, processors and threads, by the constant usched__layout.

src/proc/layout.h has the rules that are followed here.
"""

import struct
import time

from . import Problem, plain
from .target import AT_RANDOM, STACK_POINTER
from .unwind import Unwinder

MAGIC = b"usched layout\xa7\x1d\0"
VERSION = 2
POINTERS = ("self", "list", "names", "parked", "resumed", "return_at", "trace_at", "lists")
LISTS = 2
FORMS = {1: "B", 2: "H", 4: "I", 8: "Q"}
SCHEDULERS_MAX, PROCESSORS_MAX, ARENAS_MAX = 10000, 65536, 65536
NAMES_MAX = 1 << 28
NEVER = (1 << 63) - 1
GUARD = 64 << 10                # bytes below a stack, where one that overflows faults
NATIVE_MAX = 64 << 20           # bytes of a native stack that are frames of threads
HOLDER_BITS = 7                 # of a holder's word: not its name
MARKS = 4096                    # bytes around l_parked: marks, and no threads
TRIES = 5                       # until what changes is read twice alike

# glibc's jmp_buf: places of registers, and of those that are combined with a secret.
JUMPS = {
    "x86_64": ({3: 0, 6: 1, 12: 2, 13: 3, 14: 4, 15: 5, 7: 6, "pc": 7}, (6, 7, "pc"), 17),
    "aarch64": ({**{19 + i: i for i in range(11)}, 31: 13, "pc": 11}, (31, "pc"), 0),
}


class Layout:
    """usched__layout of one copy of the library."""

    def __init__(self, target, address):
        self.target = target
        head = target.read(address, 96)
        if len(head) < 96 or head[:16] != MAGIC:
            raise Problem("usched__layout cannot be read")
        version, = struct.unpack_from("<I", head, 16)
        if version != VERSION:
            raise Problem(f"usched__layout has version {version}, and this program knows"
                          f" {VERSION}")
        for name, value in zip(POINTERS, struct.unpack_from("<8Q", head, 32)):
            setattr(self, name, value)
        self.names_of = {}
        self.read_names(address + 96)
        self.trace = 0          # the control word of debug/utrace.c, if that is there
        trace = target.word(self.trace_at)
        if trace:
            self.trace = target.word(trace)
            self.read_names(trace + 16)
        # The portable switch saves registers by setjmp.
        self.portable = target.read(self.return_at, 4) == b"\xff\xff\xff\xff"

    def read_names(self, address):
        data = self.target.read(address, 32 * 256)
        for text, offset, size in struct.iter_unpack("<24sII", data[:len(data) // 32 * 32]):
            if not text[0]:
                break
            self.names_of[plain(text.rstrip(b"\0"))] = offset, size

    def named(self, name):
        try:
            return self.names_of[name]
        except KeyError:
            raise Problem(f"usched__layout does not name {name}") from None

    def offset(self, name):
        return self.named(name)[0]

    def number(self, name):
        value = self.offset(name)
        return value - (1 << 32) if value >> 31 else value

    def fields(self, kind, members, size=None):
        """A struct.Struct of some members, in order of offset, up to `size' bytes."""
        places = sorted((*self.named(f"{kind}.{m}"), m) for m in members)
        form, at, order = "<", 0, []
        for offset, width, member in places:
            form += f"{offset - at}x{FORMS[width]}"
            at = offset + width
            order.append(member)
        if size:
            form += f"{size - at}x"
        return struct.Struct(form), order

    def get(self, kind, address, *members):
        """Values of members, by name."""
        form, order = self.fields(kind, members)
        data = self.target.read(address, form.size)
        if len(data) < form.size:
            raise Problem(f"{kind} at {address:#x} cannot be read")
        return dict(zip(order, form.unpack(data)))


def find_layouts(target):
    """Of all copies of the library in a process: most often one."""
    found = {}
    for module in target.modules():
        if module.path == "[vdso]":
            continue
        value = module.elf.find_symbol("usched__layout")
        places = [value] if value is not None else module.elf.find(MAGIC, 16)
        for place in places:
            address = place + module.bias
            if target.word(address + 32) == address:
                found[address] = Layout(target, address)
    return list(found.values())


class Processor:
    def __init__(self, layout, address, name):
        self.layout, self.address, self.name = layout, address, name
        self.new = address + layout.offset("usched.s_new")
        self.native = address + layout.offset("usched.s_native")
        self.read()

    def read(self):
        values = self.layout.get("usched", self.address, "s_current", "s_room")
        self.current, self.room = values["s_current"], values["s_room"]


class Stack:
    __slots__ = ("address", "bottom", "resident", "size", "processor")


class Thread:
    """A thread as it was when it was read."""

    __slots__ = ("view", "address", "top", "pc", "stack_at", "fp", "bp", "func", "deep",
                 "tokens", "frames_at", "image_size", "number", "stack",
                 "size", "room")

    def key(self):
        return (self.top, self.pc, self.stack_at, self.func, self.tokens, self.frames_at,
                self.stack.resident == self.address)

    @property
    def sp(self):
        return self.top & ~1

    @property
    def is_new(self):
        return self.stack_at == self.stack.processor.new if self.stack.processor else True

    @property
    def outside(self):
        return self.deep & self.view.OUTSIDE

    @property
    def joins(self):
        view = self.view
        return view.JOINING <= self.tokens < view.WAITING and not self.tokens & view.NEWS

    @property
    def waits(self):
        return self.tokens == self.view.WAITING or self.joins

    @property
    def is_current(self):
        """The one that runs, or that blocked last and below which its processor sleeps."""
        return self.stack.processor is not None and self.stack.processor.current == self.address

    @property
    def runs(self):
        return self.is_current and not self.waits

    @property
    def blocked(self):
        return not self.is_new and not self.runs

    @property
    def state(self):
        tokens, processor, view = self.tokens, self.stack.processor, self.view
        if tokens == view.WAITING:
            return "waiting"
        if self.joins:
            return "joining"
        if processor and processor.current == self.address:
            return "running"
        return "new" if self.is_new else "ready"

    @property
    def depth(self):
        """Bytes of frames of a blocked thread."""
        return self.stack.bottom - self.sp if self.blocked else 0

    @property
    def in_place(self):
        return self.stack.resident == self.address

    def saved(self, at, size):
        """Bytes of the frames that are in the image, from the offset `at' on."""
        view, near = self.view, 0
        image = self.address + view.layout.offset("ustack.u_image")
        if not self.outside:
            return view.target.read(image + at, size)
        if view.near and self.stack.processor:
            near = (self.stack.processor.room - view.near) & ~7
        data = b""
        if at < near:
            data = view.target.read(image + view.near + at, min(size, near - at))
        if at + len(data) >= near and len(data) < size:
            data += view.target.read(self.frames_at + at + len(data) - near,
                                     size - len(data))
        return data

    @property
    def function(self):
        """Of the thread: an address."""
        if not self.deep & self.view.ATTACHED:
            return self.func
        return self.view.word(self.func + self.view.layout.offset("uwaiter.a_func"))

    @property
    def processor(self):
        return self.stack.processor.name if self.stack.processor else "?"


class View:
    """All threads of the schedulers of one copy of the library."""

    MEMBERS = {"u_top": "top", "u_pc": "pc", "u_stack": "stack_at", "u_fp": "fp", "u_bp": "bp",
               "u_func": "func", "u_deep": "deep", "u_tokens": "tokens",
               "i_frames": "frames_at", "i_size": "image_size"}

    def __init__(self, target, layout, prefix=""):
        self.target, self.layout, self.prefix = target, layout, prefix
        number = layout.number
        self.ATTACHED, self.OUTSIDE = number("USTACK_ATTACHED"), number("USTACK_OUTSIDE")
        self.WAITING, self.JOINING = number("UPROC_WAITING"), number("UPROC_JOINING")
        self.NEWS = number("UPROC_NEWS")
        # Bytes from u_image to the frames behind it, if an image from s_alloc has the rest.
        self.near = number("USCHED_NEAR") and \
            layout.offset("ustack.i_size") + 8 - layout.offset("ustack.u_image")
        self.granted = number("UWAITER_IDLE"), number("UWAITER_WAKING")
        self.chunk, self.head = number("UIMAGE_CHUNK"), number("UIMAGE_HEAD")
        self.record_form, self.record_order = layout.fields("ustack", self.MEMBERS)
        if self.record_order != list(self.MEMBERS):
            raise Problem("usched__layout: members of a thread are in another order")
        self.waiter_form, self.waiter_order = layout.fields(
            "uwaiter", ["w_thread", "w_kind", "w_object", "w_where", "w_state", "w_deadline"])
        self.stack_form, self.stack_order = layout.fields(
            "usched_stack", ["k_bottom", "k_resident", "k_sched", "k_size"])
        self.refresh()

    def refresh(self):
        """Forgets what may have changed."""
        self.target.forget()
        self.stacks, self.kinds = {}, {}
        self._names = self._joined = self._threads = None
        self.moving = []        # what threads belong to that are between processors
        self.schedulers = list(self._find_schedulers())
        self.processors = {p.address: p for p in self.moving}
        self.processors.update((p.address, p) for _, ps in self.schedulers for p in ps)

    def word(self, address):
        data = self.target.read_near(address, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else 0

    def _find_schedulers(self):
        layout, found = self.layout, []
        at = self.target.word(layout.list)
        while at and len(found) < SCHEDULERS_MAX and at not in found:
            found.append(at)
            at = self.target.word(at + layout.offset("uprocs.r_other"))
        for number, at in enumerate(reversed(found)):
            prefix = f"{number}." if len(found) > 1 else ""
            values = layout.get("uprocs", at, "r_proc", "r_stride", "r_moving", "c_processors")
            self.moving.append(Processor(layout, values["r_moving"], "moving"))
            yield at, [Processor(layout, values["r_proc"] + i * values["r_stride"],
                                 f"{self.prefix}{prefix}{i}")
                       for i in range(min(values["c_processors"], PROCESSORS_MAX))]

    def _chunks(self):
        """The heads of chunks, and the bytes from the first record on that are used."""
        layout, read = self.layout, self.target.read
        for scheduler, _ in self.schedulers:
            arena = self.target.word(scheduler + layout.offset("uprocs.cl_arenas"))
            for _ in range(ARENAS_MAX):
                if not arena:
                    break
                values = layout.get("uimage_arena", arena, "ar_next", "ar_size", "ar_carved")
                for at in range(arena, min(values["ar_carved"], arena + values["ar_size"]),
                                self.chunk):
                    data = read(at, min(self.chunk, values["ar_carved"] - at))
                    if len(data) > self.head:
                        yield at, data
                arena = values["ar_next"]

    def _chunk_plan(self, data):
        form, order = self.layout.fields("uimage_chunk", ["ik_first", "ik_size", "ik_rest", "ik_count"])
        return dict(zip(order, form.unpack_from(data)))

    def threads(self):
        """All that have not ended, by address of arena and record."""
        number = 0
        ended = self.record_order.index("u_func")
        for at, data in self._chunks():
            plan = self._chunk_plan(data)
            first, size = plan["ik_first"], plan["ik_size"]
            if size < self.record_form.size:
                continue
            form, _ = self.layout.fields("ustack", self.MEMBERS, size)
            count = min((len(data) - first) // size, plan["ik_count"])
            if count <= 0:
                continue
            whole = memoryview(data)[first:first + count * size]
            for i, values in enumerate(form.iter_unpack(whole)):
                if values[ended]:
                    thread = self._thread(at + first + i * size, values, number)
                    thread.size = size
                    rest = at + self.head + i * plan["ik_rest"]
                    thread.room = rest + 16, rest + plan["ik_rest"]
                    yield thread
                    number += 1

    def _thread(self, address, values, number):
        t = Thread()
        t.view, t.address, t.number = self, address, number
        (t.top, t.pc, t.stack_at, t.fp, t.bp, t.func, t.deep, t.tokens, t.frames_at,
         t.image_size) = values
        if t.tokens >> 31:
            t.tokens -= 1 << 32
        t.stack = self.stacks.get(t.stack_at) or self._stack(t.stack_at)
        return t

    def _stack(self, address):
        data = self.target.read_near(address, self.stack_form.size)
        stack = Stack()
        stack.address, stack.processor = address, None
        stack.bottom = stack.resident = stack.size = 0
        if len(data) == self.stack_form.size:
            stack.bottom, stack.resident, scheduler, stack.size = self.stack_form.unpack(data)
            stack.processor = self.processors.get(scheduler)
        self.stacks[address] = stack
        return stack

    def again(self, thread):
        """The thread as it is now; None: it has ended."""
        self.target.forget()
        self.stacks.pop(thread.stack_at, None)
        for p in self.processors.values():
            p.read()
        data = self.target.read(thread.address, self.record_form.size)
        if len(data) < self.record_form.size:
            return None
        values = self.record_form.unpack(data)
        if not values[self.record_order.index("u_func")]:
            return None
        self.stacks.pop(values[self.record_order.index("u_stack")], None)
        return self._thread(thread.address, values, thread.number)

    def names(self):
        """Of threads that have one: by address."""
        if self._names is None:
            for _ in range(TRIES):
                self._names = self._read_names()
                if self._names is not None or not self.target.live:
                    break
            self._names = self._names or {}
        return self._names

    def _read_names(self):
        """None: it has changed meanwhile."""
        layout, found = self.layout, {}
        self.name_places = []
        form, _ = layout.fields("uproc_name", ["nm_next", "nm_thread"])
        text, size = layout.names_of["uproc_name.nm_text"]
        next_first = layout.offset("uproc_name.nm_next") < layout.offset("uproc_name.nm_thread")
        whole = max(form.size, text + size)
        lists = self.target.read(layout.names, 8 * layout.offset("UPROC_NAME_LISTS"))
        for (at,) in struct.iter_unpack("<Q", lists):
            while at and len(found) < NAMES_MAX:
                data = self.target.read_near(at, whole)
                if len(data) < whole:
                    return None
                self.name_places.append(at)
                values = form.unpack_from(data)
                at, thread = values if next_first else values[::-1]
                if thread in found:
                    return None
                found[thread] = plain(data[text:text + size].split(b"\0")[0])
        return found

    def joined(self):
        """By the address of a thread that joins: the thread that it joins."""
        if self._joined is None:
            self._joined = {}
            for at, data in self._chunks():
                plan = self._chunk_plan(data)
                rests = data[self.head:self.head + plan["ik_count"] * plan["ik_rest"]]
                offset = self.layout.offset("uproc_rest.re_joiner")
                form = struct.Struct(f"<{offset}xQ{plan['ik_rest'] - offset - 8}x")
                for i, (joiner,) in enumerate(form.iter_unpack(rests)):
                    if joiner and abs(joiner - self.layout.parked) > MARKS:
                        self._joined[joiner] = at + plan["ik_first"] + i * plan["ik_size"]
        return self._joined

    def waits_for(self, thread):
        """In words; "": it does not wait."""
        if thread.joins:
            other = self.joined().get(thread.address)
            return f"thread {other:#x}" if other else "a thread"
        if thread.tokens != self.WAITING:
            return ""
        if not thread.deep & self.ATTACHED:
            return "a wake"
        data = self.target.read_near(thread.func, self.waiter_form.size)
        if len(data) < self.waiter_form.size:
            return "?"
        w = dict(zip(self.waiter_order, self.waiter_form.unpack(data)))
        if w["w_thread"] != thread.address or w["w_state"] in self.granted:
            return "a wake"
        if not w["w_kind"]:
            return "a grant"
        kind = self._kind(w["w_kind"])
        text = self._wait_text(kind, w["w_object"])
        if w["w_deadline"] == NEVER:
            return text
        if kind.name == "a time that never comes":
            text = "a time"
        if not self.target.live:
            return text
        left = w["w_deadline"] / 1e9 - time.clock_gettime(time.CLOCK_MONOTONIC)
        return f"{text}, {left:.1f} s left"

    def _kind(self, address):
        kind = self.kinds.get(address)
        if kind is None:
            kind = self.kinds[address] = Kind(self.layout, address)
        return kind

    def _wait_text(self, kind, at):
        """Without a deadline."""
        if kind.number:
            return f"{kind.name} {signed(at)}{kind.how}"
        if not at:
            return kind.name
        text = f"{kind.name} {at:#x}{kind.how}"
        holder = self.word(at) & ~HOLDER_BITS if kind.held else 0
        if not holder:
            return text
        if holder not in self._handles():
            return f"{text}, held by an outsider, {holder:#x}"
        name = self.names().get(holder)
        return f"{text}, held by thread {holder:#x}{f' {name!r}' if name else ''}"

    def _handles(self):
        """Addresses of all threads."""
        if self._threads is None:
            self._threads = {thread.address for thread in self.threads()}
        return self._threads


class Kind:
    """What a thread waits for: a struct uwait_kind."""

    def __init__(self, layout, address):
        target = layout.target

        def member(name):
            known = f"uwait_kind.{name}" in layout.names_of
            return address + layout.offset(f"uwait_kind.{name}") if known else None

        how = member("kd_how")
        number, held = member("kd_number"), member("kd_held")
        self.name = target.text(target.word(member("kd_name"))) or "?"
        self.how = target.text(target.word(how)) if how and target.word(how) else ""
        self.number = number is not None and target.read(number, 1) == b"\1"
        self.held = held is not None and target.read(held, 1) == b"\1"


def signed(value):
    return value - (1 << 64) if value >> 63 else value


class Snapshot:
    """Registers and frames of one thread, which agree with each other."""

    def __init__(self, thread, registers, start, frames):
        self.thread, self.registers = thread, registers
        self.start, self.frames = start, frames         # bytes from `start' on

    def word(self, address):
        at = address - self.start
        if 0 <= at <= len(self.frames) - 8:
            return int.from_bytes(self.frames[at:at + 8], "little")
        data = self.thread.view.target.read_near(address, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else None


def registers_of(thread, read):
    """Of a blocked thread. `read' gives bytes as that thread sees them."""
    layout, target = thread.view.layout, thread.view.target
    sp = STACK_POINTER[target.machine]
    registers = {"pc": thread.pc, sp: thread.sp}
    if target.machine == "x86_64":
        registers.update({6: thread.fp, 3: thread.bp})
    else:
        registers.update({29: thread.fp, 19: thread.bp})
    if not layout.portable or thread.pc != layout.resumed:
        return registers
    places, secret, turn = JUMPS[target.machine]
    frame = int.from_bytes(read(thread.sp, 8), "little")
    words = read(frame, 8 * (max(places.values()) + 1))
    values = struct.unpack(f"<{len(words) // 8}Q", words)
    if len(values) <= max(places.values()):
        return None
    registers = {name: values[place] for name, place in places.items()}
    if not thread.sp <= registers[sp] < thread.stack.bottom:        # musl has no secret
        guard = target.word(target.auxv().get(AT_RANDOM, 0) + 8)
        for name in secret:
            registers[name] = turned(registers[name], turn) ^ guard
    return registers


def turned(value, n):
    """Rotated to the right."""
    return (value >> n | value << 64 - n) & (1 << 64) - 1


class Reader:
    """Traces of threads."""

    def __init__(self, views):
        self.views = views
        self.target = views[0].target
        self.unwinder = Unwinder(self.target)

    def trace(self, thread, limit=1000):
        """The thread as it was then, and addresses of code; None: there are none."""
        snapshot = self.snapshot(thread)
        if snapshot is None:
            return None, None
        t = snapshot.thread
        if snapshot.registers is None:
            return t, []
        end = t.stack.bottom
        return t, self.unwinder.trace(snapshot.registers, snapshot.word, end, limit)

    def snapshot(self, thread):
        """None: it has ended. Registers are None where nothing is known."""
        for attempt in range(TRIES):
            if thread is None:
                return None
            if thread.is_new:
                return Snapshot(thread, None, 0, b"")
            if thread.runs:
                found = self._running(thread)
            else:
                found = self._blocked(thread)
            if found or not self.target.live:
                return found or Snapshot(thread, None, 0, b"")
            thread = thread.view.again(thread)
        return Snapshot(thread, None, 0, b"") if thread else None

    def _blocked(self, thread):
        """Read twice, as it may go on meanwhile; None: it did."""
        frames = self._frames(thread)
        if frames is None:
            return None
        if self.target.live:
            now = thread.view.again(thread)
            if now is None or now.key() != thread.key() or self._frames(thread) != frames:
                return None

        def read(address, size):
            at = address - thread.sp
            return frames[at:at + size] if 0 <= at else b""

        return Snapshot(thread, registers_of(thread, read), thread.sp, frames)

    def _frames(self, thread):
        depth = thread.depth
        if not 0 < depth <= max(thread.stack.size, 1):
            return None
        data = self.target.read(thread.sp, depth) if thread.in_place else \
            thread.saved(0, depth)
        return data if len(data) == depth else None

    def _running(self, thread):
        """Of the native thread whose stack pointer is nearest below the bottom."""
        sp = STACK_POINTER[self.target.machine]
        best, stack = None, thread.stack
        for tid in self.target.natives():
            if not self.target.may_be_on(tid, stack.bottom - stack.size - GUARD, stack.bottom):
                continue
            with self.target.stopped(tid) as registers:
                distance = stack.bottom - registers[sp] if registers else -1
                if not 0 <= distance <= stack.size + GUARD or best and distance > best[0]:
                    continue
                if self.target.live:
                    now = thread.view.again(thread)
                    if now is None or not now.runs:
                        return None
                start = registers[sp] - 128
                best = distance, registers, start, self.target.read(start, stack.bottom - start)
                if stack.size < NATIVE_MAX:
                    break
        if best or self.target.live:
            return Snapshot(thread, *best[1:]) if best else None
        return self._in_handler(thread)

    def _in_handler(self, thread):
        """Of a signal that has a stack of its own: its frames lead to the thread's."""
        low, high = thread.stack.bottom - thread.stack.size, thread.stack.bottom
        for tid in self.target.natives():
            with self.target.stopped(tid) as registers:
                snapshot = Snapshot(thread, registers, 0, b"")
                if registers and self.unwinder.passes(registers, snapshot.word, low, high):
                    return snapshot
        return None


def open_views(target):
    layouts = find_layouts(target)
    if not layouts:
        reasons = "".join(f"\n  {reason}" for reason in target.missing)
        raise Problem(f"{target.where}: no usched__layout in what is mapped there{reasons}")
    return [View(target, layout, f"{i}:" if len(layouts) > 1 else "")
            for i, layout in enumerate(layouts)]
