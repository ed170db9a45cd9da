# SPDX-License-Identifier: MIT
"""A remote target for gdb: each thread of usched is one of gdb's.

Memory is answered as the thread sees it that gdb has selected: the frames of a blocked
thread that was evicted are read from its image. Nothing can be written or resumed. A
process is stopped until gdb detaches, or goes away.
"""

import os
import signal
import socket
import struct
import subprocess
import sys

from . import Problem
from .show import Names, doing, selected
from .target import GDB_REGISTERS, STACK_POINTER
from .threads import registers_of

FIRST = 1 << 24                 # numbers of threads in gdb: beyond those of native threads
PACKET = 1 << 14
BLOCK_WITHIN = 512              # bytes of frames: those of the switch and of its caller
THREAD_DB = "_thread_db_link_map_"

SIGNATURE = 0xFF7F << 48        # bits of an address that AArch64 may have for one
ARCHITECTURE = {"x86_64": "i386:x86-64", "aarch64": "aarch64"}


class Description:
    """For gdb: what registers there are. `text' is XML, `values' those beyond GDB_REGISTERS."""

    def __init__(self, machine):
        self.values = ""
        self.text = '<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target>' \
                    f"<architecture>{ARCHITECTURE[machine]}</architecture>" \
                    "<osabi>GNU/Linux</osabi>"
        for name in FEATURES[machine]:
            self.text += f'<feature name="org.gnu.gdb.{name}">'
            self.text += '<vector id="v16" type="int8" count="16"/>'
            for register in FEATURES[machine][name]:
                self._register(*register)
            self.text += "</feature>"
        self.text += "</target>"

    def _register(self, name, bits, kind="int", value=None):
        """`value': None for what GDB_REGISTERS has, else it is written in hexadecimal."""
        self.text += f'<reg name="{name}" bitsize="{bits}" type="{kind}"/>'
        self.values += value or ""


def unknown(names, bits, kind="int"):
    return [(name, bits, kind, "xx" * (bits // 8)) for name in names]


# gdb takes the target for Linux only if it has orig_rax; and without vectors gdb 13 takes
# a register of the next feature for one.
FEATURES = {
    "x86_64": {
        "i386.core": [
            *[(name, 64, {"rip": "code_ptr", "rsp": "data_ptr"}.get(name, "int64")) for name in
              "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()],
            *unknown("eflags cs ss ds es fs gs".split(), 32),
            *unknown([f"st{i}" for i in range(8)], 80, "i387_ext"),
            *unknown("fctrl fstat ftag fiseg fioff foseg fooff fop".split(), 32)],
        "i386.sse": [*unknown([f"xmm{i}" for i in range(16)], 128, "v16"),
                     *unknown(["mxcsr"], 32)],
        "i386.linux": unknown(["orig_rax"], 64),
    },
    "aarch64": {
        "aarch64.core": [*[(f"x{i}", 64) for i in range(31)], ("sp", 64, "data_ptr"),
                         ("pc", 64, "code_ptr"), *unknown(["cpsr"], 32)],
        "aarch64.fpu": [*unknown([f"v{i}" for i in range(32)], 128, "v16"),
                        *unknown(["fpsr", "fpcr"], 32)],
        "aarch64.pauth": [(name, 64, "int", SIGNATURE.to_bytes(8, "little").hex())
                          for name in ("pauth_dmask", "pauth_cmask")],
    },
}


class Shown:
    """A thread of gdb's: registers, and bytes that are elsewhere for it."""

    def __init__(self, name, registers, block, start=0, end=0, image=None, floor=0):
        self.name, self.registers = name, registers
        self.block = block      # of thread-local variables; None: there is none of its own
        self.start, self.end, self.image = start, end, image
        self.floor = floor      # from here to `start' another thread has its frames


class Stub:
    def __init__(self, target, views, natives, options):
        self.target = target
        self.description = Description(target.machine)
        self.threads = {}
        self.current = None
        self._add_threads(views, natives, options)
        self.threads_text = self._list()

    def _add_threads(self, views, natives, options):
        sp = STACK_POINTER[self.target.machine]
        functions = Names(self.target)
        ours = {}               # native threads, by the thread that runs there
        running, others, left = [], [], 0
        for thread in selected(views, (), options.filter, functions):
            if thread.runs:
                running.append(thread)
            elif thread.blocked and (options.limit is None or len(others) < options.limit):
                others.append(thread)
            elif thread.blocked:
                left += 1
        for thread in running:
            bottom, size = thread.stack.bottom, thread.stack.size
            near = [(bottom - r[sp], tid) for tid, r in natives.items()
                    if 0 <= bottom - r[sp] <= size]
            if near:
                ours[min(near)[1]] = thread
        for tid, registers in natives.items():
            name = f"native {tid}"
            if tid in ours:
                name = f"{self._name(ours[tid], functions)}, native {tid}"
            self.threads[tid] = Shown(name, registers, registers.get("block"))
        for thread in others:
            self.threads[FIRST + thread.number] = self._blocked(thread, functions)
        if left:
            print(f"uthreads: {left} threads are not shown: --limit or --filter", file=sys.stderr)
        self.current = next(iter(self.threads), 0)

    def _name(self, thread, functions):
        name = thread.view.names().get(thread.address) or functions[thread.function]
        return f"{name} {thread.address:#x} {doing(thread)}"

    def _blocked(self, thread, functions):
        top, bottom = thread.sp, thread.stack.bottom
        image = None if thread.in_place else thread.saved

        def read(address, size):
            if image is not None and top <= address < bottom:
                return image(address - top, min(size, bottom - address))
            return self.target.read(address, size)

        where = "" if thread.in_place else ", evicted"
        registers = registers_of(thread, read) or {"pc": thread.pc}
        return Shown(self._name(thread, functions) + where, registers,
                     self._find_block(registers, read(top, min(BLOCK_WITHIN, bottom - top))),
                     top, bottom, image,
                     bottom - thread.stack.size if image is not None else top)

    def _find_block(self, registers, frames):
        """The TLS block of a blocked thread, which its innermost frames keep; or None. On
        x86-64 a block has its own address in its first and third word."""
        if self.target.machine == "x86_64":
            words = struct.unpack(f"<{len(frames) // 8}Q", frames[:len(frames) // 8 * 8])
            for word in [registers.get(6, 0), registers.get(3, 0), *words]:
                if word and self.target.word(word) == word == self.target.word(word + 16):
                    return word
        return None

    def _variable(self, number, offset, link_map):
        """Where a thread-local variable of an object is for a thread; None: nowhere. libc
        tells debuggers where to look."""
        module = next((m for m in self.target.modules()
                       if m.elf.find_symbol(THREAD_DB + "l_tls_offset")), None)
        block = self.threads[number].block if number in self.threads else None
        if not module or not block:
            return None

        def member(name):
            at = module.bias + module.elf.find_symbol(THREAD_DB + name)
            return self.target.word(link_map + (self.target.word(at + 8) & 0xFFFFFFFF))

        distance = member("l_tls_offset")
        if 0 < distance < 1 << 63:
            return block - distance + offset
        at = self.target.word(self.target.word(block + 8) + 16 * member("l_tls_modid"))
        return at + offset if 0 < at < 1 << 63 else None

    def _list(self):
        text = '<?xml version="1.0"?><threads>'
        for number, thread in self.threads.items():
            name = thread.name.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
            text += f'<thread id="{number:x}" name="{name}"/>'
        return text + "</threads>"

    def registers(self):
        known = self.threads[self.current].registers if self.current in self.threads else {}
        text = ""
        for name in GDB_REGISTERS[self.target.machine]:
            value = known.get(name)
            text += "xx" * 8 if value is None else value.to_bytes(8, "little").hex()
        return text + self.description.values

    def memory(self, address, size):
        """As the selected thread sees it."""
        thread = self.threads.get(self.current)
        if thread is None or thread.image is None:
            return self.target.read(address, size)
        found = b""
        while size > 0:
            if thread.start <= address < thread.end:
                data = thread.image(address - thread.start,
                                    min(size, thread.end - address))
            elif thread.floor <= address < thread.start:
                data = b""
            else:
                below = thread.floor - address if address < thread.floor else size
                data = self.target.read(address, min(size, below))
            if not data:
                break
            found += data
            address, size = address + len(data), size - len(data)
        return found

    def answer(self, packet):
        """The reply to a packet of gdb; None: it goes away."""
        if packet.startswith("qXfer:"):
            return self._transfer(packet)
        kind = packet[:1]
        if kind == "m":
            address, size = (int(part, 16) for part in packet[1:].split(","))
            return self.memory(address, min(size, PACKET // 2 - 8)).hex() or "E01"
        if kind == "g":
            return self.registers()
        if packet.startswith("Hg"):
            return self._select(packet[2:])
        if packet.startswith("Hc"):
            return "OK"
        if kind == "T":
            return "OK" if int(packet[1:], 16) in self.threads else "E01"
        if kind == "?":
            number = getattr(self.target, "signal", 0) or 5
            return f"T{number:02x}thread:{self.current:x};"
        if kind in "Dk":
            return None
        if kind in "MXGPcCsS":          # writing, going on
            return "E01"
        return self._query(packet)

    def _query(self, packet):
        if packet.startswith("qSupported"):
            return f"PacketSize={PACKET:x};qXfer:threads:read+;qXfer:auxv:read+;" \
                   "qXfer:features:read+;qXfer:exec-file:read+;QStartNoAckMode+"
        if packet == "qC":
            return f"QC{self.current:x}"
        if packet.startswith("qGetTLSAddr:") and self.target.machine == "x86_64":
            at = self._variable(*(int(part, 16) for part in packet[12:].split(",")))
            return "E01" if at is None else f"{at:x}"
        return {"qAttached": "1", "QStartNoAckMode": "OK", "qSymbol::": "OK"}.get(packet, "")

    def _select(self, text):
        number = int(text, 16)
        if number > 0:
            if number not in self.threads:
                return "E01"
            self.current = number
        return "OK"

    def _transfer(self, packet):
        _, what, _, _, where = packet.split(":", 4)
        texts = {"threads": self.threads_text.encode, "auxv": self.target.auxv_bytes,
                 "features": self.description.text.encode,
                 "exec-file": lambda: os.path.abspath(
                     self.target.program or self.target.executable()).encode()}
        if what not in texts:
            return ""
        data = texts[what]()
        at, size = (int(part, 16) for part in where.split(","))
        part = data[at:at + min(size, PACKET // 2)]
        return (b"m" if at + len(part) < len(data) else b"l") + escape(part)


def escape(data):
    if not any(byte in data for byte in b"#$}*"):
        return bytes(data)
    return b"".join(bytes([0x7D, byte ^ 0x20]) if byte in b"#$}*" else bytes([byte])
                    for byte in data)


def talk(stub, read, write):
    """Packets in, packets out, until gdb goes away. `read' gives a byte or b""."""
    acknowledge = True
    while True:
        byte = read(1)
        if not byte:
            return
        if byte != b"$":
            continue
        packet = b""
        while (byte := read(1)) not in (b"#", b""):
            packet += byte
        read(2)
        if acknowledge:
            write(b"+")
        text = packet.decode("latin-1")
        reply = stub.answer(text)
        if text.startswith("QStartNoAckMode"):
            acknowledge = False
        data = b"OK" if reply is None else reply if isinstance(reply, bytes) else reply.encode()
        write(b"$" + data + b"#%02x" % (sum(data) & 255))
        if reply is None:
            return


def serve(target, views, options):
    if options.port:
        return serve_port(target, views, options)
    signal.signal(signal.SIGINT, signal.SIG_IGN)        # it is meant for gdb
    talk_stopped(target, views, options, sys.stdin.buffer, sys.stdout.buffer)
    return 0


def serve_port(target, views, options):
    with socket.create_server(("127.0.0.1", options.port)) as server:
        print(f"uthreads: (gdb) target remote :{server.getsockname()[1]}", file=sys.stderr,
              flush=True)
        connection, _ = server.accept()
    with connection, connection.makefile("rb") as r, connection.makefile("wb") as w:
        talk_stopped(target, views, options, r, w)
    return 0


def talk_stopped(target, views, options, r, w):
    def write(data):
        w.write(data)
        w.flush()

    with target.all_stopped() as natives:
        for view in views:
            view.refresh()
        stub = Stub(target, views, natives, options)
        try:
            talk(stub, r.read, write)
        except (BrokenPipeError, ConnectionResetError):
            pass


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def run_gdb(options, script):
    """gdb with this program behind a pipe. Caches are off: threads see different bytes."""
    serve_command = [sys.executable, script, "gdb", "--serve", options.target]
    for name in ("filter", "program", "root"):
        if getattr(options, name):
            serve_command += [f"--{name}", getattr(options, name)]
    serve_command += ["--limit", str(options.limit)]
    root = options.root or "/"
    command = [options.gdb, "-ex", "set remotetimeout 600", "-ex", "set stack-cache off",
               "-ex", "set code-cache off", "-ex", f"set sysroot {root}"]
    if options.program:
        command += ["-ex", f"file {options.program}"]
    command += ["-ex", "target remote | exec " + " ".join(map(quote, serve_command)),
                *options.arguments]
    try:
        return subprocess.call(command)
    except OSError as error:
        raise Problem(f"{options.gdb}: {error.strerror}") from None
    except KeyboardInterrupt:
        return 130
