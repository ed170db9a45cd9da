# SPDX-License-Identifier: MIT
"""A process or a core file.

That is its memory, the files that are mapped in it, and its native threads.

A process is read through /proc/PID/mem. It goes on meanwhile: only `stopped' stops it, or
one native thread of it, for registers.
"""

import bisect
import contextlib
import ctypes
import os
import re
import struct

from . import DAMAGE, Problem, damaged, plain
from .elf import ET_CORE, ET_EXEC, PT_LOAD, PT_NOTE, Elf, contents

NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE = 1, 3, 6, 0x46494C45
AT_PHDR, AT_PHENT, AT_PHNUM, AT_ENTRY, AT_RANDOM, AT_SYSINFO_EHDR = 3, 4, 5, 9, 25, 33
PAGE, PIECE = 4096, 1 << 20     # bytes of a page, and that are searched together
BLOCK = 1 << 14                 # bytes that are read together, if many are read

# Registers by their numbers in DWARF, in the order of the kernel. "pc" is where to go on,
# "block" the thread pointer.
REGISTERS = {
    "x86_64": [15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, None, "pc", None, None, 7, None,
               "block"],
    "aarch64": [*range(32), "pc"],
}
# In the order of gdb.
GDB_REGISTERS = {
    "x86_64": [0, 3, 2, 1, 4, 5, 6, 7, *range(8, 16), "pc"],
    "aarch64": [*range(32), "pc"],
}
STACK_POINTER = {"x86_64": 7, "aarch64": 31}
PR_REG = 112                    # bytes before the registers in NT_PRSTATUS


class Module:
    """A file that is mapped: `bias' is what to add to its own addresses."""

    def __init__(self, path, bias, start, end, elf):
        self.path, self.bias, self.start, self.end, self.elf = path, bias, start, end, elf
        self.name = plain(os.path.basename(path))

    def function(self, address):
        return self.elf.function(address - self.bias)


class Target:
    """What both have in common. `maps' are start, end, offset in the file, and path."""

    def __init__(self, program=None, root=""):
        self.program, self.root = program, root
        self.missing = []
        self._modules = None
        self._starts = []
        self._blocks = {}

    def read(self, address, size):
        """As many bytes as can be read: perhaps none."""
        raise NotImplementedError

    def word(self, address):
        data = self.read(address, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else 0

    def read_near(self, address, size):
        """As read(), from blocks that are kept until forget()."""
        number, at = divmod(address, BLOCK)
        if at + size > BLOCK:
            return self.read(address, size)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = self.read(number * BLOCK, BLOCK)
        data = block[at:at + size]
        return data if len(data) == size else self.read(address, size)

    def forget(self):
        self._blocks = {}

    def freeze(self):
        """Keeps the writable memory as it is now, for all reads that follow."""

    def writable(self):
        """Start and end of the memory that the program can write to."""
        raise NotImplementedError

    def present(self, start, end):
        """Bytes of an interval of that, except pages that never were written."""
        while start < end:
            data = self.read(start, min(end - start, PIECE))
            if not data:
                return
            yield data
            start += PIECE

    def text(self, address, limit=64):
        """A string of C; "" if it is none."""
        data = self.read(address, limit)
        end = data.find(b"\0")
        text = data[:end] if end >= 0 else b""
        return text.decode() if text.isascii() and text.decode().isprintable() else ""

    def modules(self):
        if self._modules is None:
            self._modules = sorted(self._find_modules(), key=lambda m: m.start)
            self._starts = [m.start for m in self._modules]
        return self._modules

    def module_at(self, address):
        modules = self.modules()
        i = bisect.bisect_right(self._starts, address) - 1
        return modules[i] if i >= 0 and address < modules[i].end else None

    def symbol(self, address):
        """The function at an address: "name+0x12", or "" ."""
        module = self.module_at(address)
        found = module.function(address) if module else None
        if not found:
            return ""
        name, offset = found
        return f"{name}+{offset:#x}" if offset else name

    def local_path(self, path):
        """Where a file of the target is here."""
        return self.root + path if self.root else path

    def paths(self, path):
        """Where a file of the target may be here."""
        return [self.program if self.program and path == self.executable()
                else self.local_path(path)]

    def _find_modules(self):
        files = {}
        for start, end, offset, path in self.maps():
            if path.startswith("/") and not path.startswith(("/dev/", "/memfd:", "/SYSV")):
                files.setdefault(path, []).append((start, end, offset))
        executable = self.executable()
        for path, maps in files.items():
            if self.read(maps[0][0], 4) not in (b"\x7fELF", b""):
                continue
            here = self.program if self.program and path == executable else self.local_path(path)
            try:
                elf = Elf(here, self.mapped_file(here, maps[0]))
                for module in self._place(path, elf, maps):
                    if self._is_same(module):
                        yield module
                    else:
                        self.missing.append(f"{here} is not the file that was mapped")
            except Problem as problem:
                if path == executable or any(offset == 0 for _, _, offset in maps):
                    self.missing.append(str(problem))
            except DAMAGE as error:
                self.missing.append(damaged(here, error))
        if not files and self.program:
            yield from self._by_auxv()
        vdso = self.auxv().get(AT_SYSINFO_EHDR)
        if vdso:
            with contextlib.suppress(Problem, *DAMAGE):
                elf = Elf("[vdso]", self.read(vdso, 2 * 4096))
                yield Module("[vdso]", vdso - elf.base(), vdso, vdso + 2 * 4096, elf)

    def _is_same(self, module):
        """Whether the file's notes, such as its build ID, are those in memory, if any are."""
        for s in module.elf.segments:
            if s.type == PT_NOTE and s.size:
                here = bytes(module.elf.data[s.offset:s.offset + s.size])
                there = self.read_memory(module.bias + s.address, s.size)
                if len(there) == len(here) and there != here:
                    return False
        return True

    def read_memory(self, address, size):
        """As read(), but of the memory alone."""
        return self.read(address, size)

    @staticmethod
    def _place(path, elf, maps):
        if not elf.loads:
            return
        start, _, offset = min(maps)
        bias = 0 if elf.type == ET_EXEC else start - offset - elf.base()
        last = max(s.address + s.memory for s in elf.loads)
        yield Module(path, bias, start, max(bias + last, max(end for _, end, _ in maps)), elf)

    def _by_auxv(self):
        """The program alone, for cores that do not name files."""
        elf = Elf(self.program)
        entry = self.auxv().get(AT_ENTRY, elf.entry)
        bias = entry - elf.entry
        yield Module(self.program, bias, bias + elf.base(),
                     bias + max(s.address + s.memory for s in elf.loads), elf)

    def mapped_file(self, path, first):
        return None

    def executable(self):
        """The path of the program in the target."""
        return self.program or ""

    def may_be_on(self, tid, low, high):
        return True


class Process(Target):
    def __init__(self, pid, program=None, root=""):
        super().__init__(program, root)
        self.pid = pid
        self.proc = f"/proc/{pid}"
        try:
            self.memory = os.open(self.proc + "/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Problem(f"process {pid}: {error.strerror}") from None
        self.machine = Elf(self.proc + "/exe").machine
        self.where = f"process {pid}"
        self.live = True
        self._auxv = None
        self._frozen, self._runs = [], []

    def writable(self):
        with open(self.proc + "/maps") as lines:
            for line in lines:
                bounds, rights, *_ = line.split()
                if rights.startswith("rw"):
                    start, end = (int(part, 16) for part in bounds.split("-"))
                    yield start, end

    def freeze(self):
        maps, runs = list(self.writable()), []
        with open(self.proc + "/pagemap", "rb") as file:
            for start, end in maps:
                file.seek(start // PAGE * 8)
                pages = memoryview(file.read((end - start) // PAGE * 8)).cast("Q")
                begin = None
                for i, page in enumerate([*pages, 0]):
                    if page >> 62 and begin is None:            # present, or swapped out
                        begin = start + i * PAGE
                    elif not page >> 62 and begin is not None:
                        runs.append((begin, self.read(begin, start + i * PAGE - begin)))
                        begin = None
        self._frozen, self._runs = maps, runs
        self.live = False

    def _runs_in(self, start, end):
        """Addresses and bytes, in order."""
        i = max(bisect.bisect_right(self._runs, start, key=lambda run: run[0]) - 1, 0)
        for at, data in self._runs[i:]:
            if at >= end:
                return
            part = data[max(start - at, 0):end - at]
            if part:
                yield max(start, at), part

    def present(self, start, end):
        for _, data in self._runs_in(start, end):
            yield data

    def _read_frozen(self, address, size):
        """None: it is not of what was kept."""
        i = bisect.bisect_right(self._frozen, address, key=lambda part: part[0]) - 1
        if i < 0 or address >= self._frozen[i][1]:
            return None
        size = min(size, self._frozen[i][1] - address)
        found = bytearray(size)
        for at, data in self._runs_in(address, address + size):
            found[at - address:at - address + len(data)] = data
        return bytes(found)

    def read(self, address, size):
        if self._frozen:
            found = self._read_frozen(address, size)
            if found is not None:
                return found if len(found) == size else found + self.read(
                    address + len(found), size - len(found))
        try:
            return os.pread(self.memory, size, address)
        except (OSError, OverflowError):
            return self._read_part(address, size)

    def _read_part(self, address, size):
        """Up to the first page that is not there: the kernel may refuse all of it."""
        found = b""
        while size > 0:
            n = min(size, 4096 - address % 4096)
            try:
                data = os.pread(self.memory, n, address)
            except (OSError, OverflowError):
                break
            found += data
            address, size = address + n, size - n
        return found

    def maps(self):
        try:
            with open(self.proc + "/maps") as lines:
                for line in lines:
                    fields = line.rstrip("\n").split(None, 5)
                    if len(fields) == 6:
                        start, end = (int(part, 16) for part in fields[0].split("-"))
                        yield start, end, int(fields[2], 16), fields[5]
        except OSError as error:
            raise Problem(f"process {self.pid}: {error.strerror}") from None

    def mapped_file(self, path, first):
        """The file as it is mapped, if another one has its name by now."""
        if self.program and path == self.program:
            return None
        tries = [f"{self.proc}/map_files/{first[0]:x}-{first[1]:x}"]
        if path == self.executable():
            tries.append(self.proc + "/exe")
        if not self.root:
            tries.append(f"{self.proc}/root{path}")     # it may see other files
        for name in tries:
            with contextlib.suppress(Problem):
                return contents(name)
        return None

    def paths(self, path):
        return super().paths(path) + [f"{self.proc}/root{path}"]

    def executable(self):
        return os.readlink(self.proc + "/exe")

    def auxv(self):
        if self._auxv is None:
            with open(self.proc + "/auxv", "rb") as file:
                self._auxv = parse_auxv(file.read())
        return self._auxv

    def auxv_bytes(self):
        with open(self.proc + "/auxv", "rb") as file:
            return file.read()

    def natives(self):
        try:
            return sorted(int(tid) for tid in os.listdir(self.proc + "/task"))
        except OSError:
            raise Problem(f"process {self.pid} has ended") from None

    def may_be_on(self, tid, low, high):
        """Whether a native thread may run on such a stack, as far as is known unasked."""
        try:
            with open(f"{self.proc}/task/{tid}/syscall") as file:
                words = file.read().split()
            return len(words) < 3 or low <= int(words[-2], 16) <= high
        except (OSError, ValueError):
            return True

    @contextlib.contextmanager
    def stopped(self, tid):
        """Stops a native thread, and gives its registers; None: it has ended."""
        tracer = Tracer(self.machine)
        try:
            yield tracer.stop(tid)
        finally:
            tracer.release()

    @contextlib.contextmanager
    def all_stopped(self):
        """Stops all native threads, also those that start meanwhile, and gives registers."""
        tracer, registers = Tracer(self.machine), {}
        try:
            while True:
                new = [tid for tid in self.natives() if tid not in registers]
                if not new:
                    break
                for tid in new:
                    registers[tid] = tracer.stop(tid)
            yield {tid: r for tid, r in registers.items() if r}
        finally:
            tracer.release()


class Tracer:
    """ptrace(2), which only reads here."""

    SEIZE, INTERRUPT, DETACH, GETREGSET = 0x4206, 0x4207, 17, 0x4204
    EVENT_STOP, ALL = 128, 0x40000000           # PTRACE_EVENT_STOP, __WALL

    def __init__(self, machine):
        self.ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self.ptrace.restype = ctypes.c_long
        self.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.machine = machine
        self.held = {}          # native thread: the signal that it was about to get, or 0

    def _call(self, request, tid, address=0, data=0):
        if self.ptrace(request, tid, address, data) == 0:
            return True
        error = ctypes.get_errno()
        if error == 1:
            raise Problem(f"native thread {tid} may not be traced, or a debugger has it")
        return False

    def stop(self, tid):
        if not self._call(self.SEIZE, tid):
            return None
        self.held[tid] = 0
        self._call(self.INTERRUPT, tid)
        try:
            _, status = os.waitpid(tid, self.ALL)
        except ChildProcessError:
            status = 0
        if not os.WIFSTOPPED(status):
            del self.held[tid]
            return None
        if status >> 16 != self.EVENT_STOP:
            self.held[tid] = os.WSTOPSIG(status)
        return self._registers(tid)

    def _registers(self, tid):
        buffer = ctypes.create_string_buffer(1024)
        vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), len(buffer))
        if not self._call(self.GETREGSET, tid, NT_PRSTATUS, ctypes.addressof(vector)):
            return None
        return parse_registers(self.machine, buffer.raw)

    def release(self):
        for tid, signal in self.held.items():
            self._call(self.DETACH, tid, 0, signal)
        self.held = {}


class Core(Target):
    def __init__(self, path, program=None, root=""):
        super().__init__(program, root)
        self.core = Elf(path)
        if self.core.type != ET_CORE:
            raise Problem(f"{path}: no core file")
        self.machine = self.core.machine
        self.where = f"core {path}"
        self.live = False
        self.signal = 0
        self._registers, self._files, self._auxv, self._args = {}, [], b"", ""
        self._crashed = None
        self._read_notes()
        loads = sorted((s for s in self.core.segments if s.type == PT_LOAD),
                       key=lambda s: s.address)
        self._loads = [(s.address, s.address + s.size, s.offset) for s in loads]
        self._load_starts = [s[0] for s in self._loads]
        self._file_starts = [f[0] for f in self._files]
        self._file_data = {}

    def writable(self):
        for s in self.core.segments:
            if s.type == PT_LOAD and s.flags & 2:
                yield s.address, s.address + s.size

    def _read_notes(self):
        for owner, kind, data in self.core.notes():
            if owner == b"CORE" and kind == NT_PRSTATUS:
                tid, = struct.unpack_from("<i", data, 32)
                if self._crashed is None:       # the kernel writes it first
                    self._crashed = tid
                    self.signal, = struct.unpack_from("<h", data, 12)
                self._registers[tid] = parse_registers(self.machine, data[PR_REG:])
            elif owner == b"CORE" and kind == NT_AUXV:
                self._auxv = bytes(data)
            elif owner == b"CORE" and kind == NT_FILE:
                self._files = sorted(parse_files(data))

    def read(self, address, size):
        found = b""
        while size > 0:
            data = self._read_dumped(address, size) or self._read_file(address, size) \
                or self._read_module(address, size)
            if not data:
                break
            found = found + data if found else data
            address, size = address + len(data), size - len(data)
        return bytes(found)

    def _read_dumped(self, address, size):
        i = bisect.bisect_right(self._load_starts, address) - 1
        if i < 0 or address >= self._loads[i][1]:
            return b""
        start, end, offset = self._loads[i]
        at = offset + address - start
        return self.core.data[at:at + min(size, end - address)]

    def read_memory(self, address, size):
        return bytes(self._read_dumped(address, size))

    def _read_file(self, address, size):
        """What was not written to, the core does not have."""
        i = bisect.bisect_right(self._file_starts, address) - 1
        if i < 0 or address >= self._files[i][1]:
            return b""
        start, end, offset, path = self._files[i]
        if path not in self._file_data:
            here = self.program if self.program and path == self.executable() \
                else self.local_path(path)
            try:
                self._file_data[path] = contents(here)
            except Problem:
                self._file_data[path] = b""
        at = offset + address - start
        return self._file_data[path][at:at + min(size, end - address)]

    def _read_module(self, address, size):
        """Of cores that do not name files: what the program has, as long as it is there."""
        module = self.module_at(address) if self._modules and not self._files else None
        return module.elf.read(address - module.bias, size) if module else b""

    def maps(self):
        return self._files

    def executable(self):
        """The mapped file with the program's entry."""
        entry = self.auxv().get(AT_ENTRY, 0)
        for start, end, _, path in self._files:
            if start <= entry < end:
                return path
        return self.program or ""

    def auxv(self):
        return parse_auxv(self._auxv)

    def auxv_bytes(self):
        return self._auxv

    def natives(self):
        return list(self._registers)

    @contextlib.contextmanager
    def stopped(self, tid):
        yield self._registers.get(tid)

    @contextlib.contextmanager
    def all_stopped(self):
        yield dict(self._registers)


def parse_registers(machine, data):
    names = REGISTERS[machine]
    values = struct.unpack_from(f"<{len(names)}Q", data)
    registers = {name: value for name, value in zip(names, values) if name is not None}
    if machine == "x86_64":
        registers[16] = registers["pc"]
    return registers


def parse_auxv(data):
    whole = len(data) // 16 * 16
    return {kind: value for kind, value in struct.iter_unpack("<QQ", data[:whole]) if kind}


def parse_files(data):
    """Of NT_FILE: start, end, offset, path."""
    count, page = struct.unpack_from("<QQ", data)
    paths = bytes(data[16 + 24 * count:]).split(b"\0")
    for i in range(count):
        start, end, offset = struct.unpack_from("<QQQ", data, 16 + 24 * i)
        yield start, end, offset * page, os.fsdecode(paths[i])


def open_target(text, program=None, root=""):
    """A process by its number, or a core file by its path."""
    if re.fullmatch(r"[0-9]+", text) and not os.path.exists(text):
        return Process(int(text), program, root)
    return Core(text, program, root)
