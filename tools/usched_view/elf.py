# SPDX-License-Identifier: MIT
"""ELF files of 64 bits, little-endian: segments, symbols, notes.

Addresses here are those of the file. A program or library may be mapped elsewhere.
"""

import bisect
import mmap
import os
import struct

from . import Problem, plain

PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME = 1, 4, 0x6474E550
SHT_SYMTAB, SHT_DYNSYM, SHT_NOBITS = 2, 11, 8
STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC = 0, 2, 10
ET_EXEC, ET_CORE = 2, 4
MACHINES = {62: "x86_64", 183: "aarch64"}

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
NOTE = struct.Struct("<III")


class Segment:
    def __init__(self, fields):
        self.type, self.flags, self.offset, self.address, _, self.size, self.memory, _ = fields


class Elf:
    """A file, or with `data' what is known of one, as of the vdso."""

    def __init__(self, path, data=None):
        self.path = path
        self.data = data if data is not None else contents(path)
        if len(self.data) < HEADER.size or self.data[:6] != b"\x7fELF\x02\x01":
            raise Problem(f"{path}: no ELF file of 64 bits, little-endian")
        (_, self.type, machine, _, self.entry, at, sections, _, _, size, count, self.section_size,
         self.section_count, self.section_names) = HEADER.unpack_from(self.data)
        if machine not in MACHINES:
            raise Problem(f"{path}: neither x86-64 nor AArch64")
        self.machine = MACHINES[machine]
        self.sections_at = sections
        if count == 0xFFFF and sections:        # more than fit: the first section has them
            count = SECTION.unpack_from(self.data, sections)[7]
        self.segments = [Segment(SEGMENT.unpack_from(self.data, at + i * size))
                         for i in range(count)]
        self.loads = [s for s in self.segments if s.type == PT_LOAD]
        self._functions = None

    def base(self):
        """Where the first page is mapped, if nothing is moved."""
        return min((s.address - s.offset for s in self.loads), default=0)

    def read(self, address, size):
        for s in self.loads:
            if s.address <= address < s.address + s.size:
                at = s.offset + address - s.address
                return self.data[at:at + min(size, s.address + s.size - address)]
        return b""

    def sections(self):
        """Name, type, address, offset, size, link."""
        if not self.sections_at or self.sections_at >= len(self.data):
            return
        found = []
        for i in range(self.section_count):
            at = self.sections_at + i * self.section_size
            if at + SECTION.size > len(self.data):
                return
            found.append(SECTION.unpack_from(self.data, at))
        names = found[self.section_names] if self.section_names < len(found) else None
        for name, kind, _, address, offset, size, link, _, _, _ in found:
            text = self.text(names[4] + name) if names else ""
            yield text, kind, address, offset, size, (found[link] if link < len(found) else None)

    def text(self, at):
        end = self.data.find(b"\0", at)
        return plain(bytes(self.data[at:end])) if end >= 0 else ""

    def symbols(self):
        """Value, size, type and place of the name; of the larger table, if there are two."""
        tables = [s for s in self.sections() if s[1] in (SHT_SYMTAB, SHT_DYNSYM)]
        for _, kind, _, offset, size, strings in sorted(tables, key=lambda s: s[1])[:1]:
            if not strings:
                continue
            whole = size // SYMBOL.size * SYMBOL.size
            for name, info, _, section, value, length in SYMBOL.iter_unpack(
                    self.data[offset:offset + whole]):
                if section:
                    yield value, length, info & 15, strings[4] + name

    def find_symbol(self, wanted):
        for value, _, _, name in self.symbols():
            if self.text(name) == wanted:
                return value
        return None

    def find(self, text, align):
        """Addresses at which the text begins."""
        for s in self.loads:
            at = self.data.find(text, s.offset, s.offset + s.size)
            while at >= 0:
                address = s.address + at - s.offset
                if address % align == 0:
                    yield address
                at = self.data.find(text, at + 1, s.offset + s.size)

    def function(self, address):
        """The name of the function with the address, and the offset in it; or None."""
        if self._functions is None:
            # Of two at one address the last is taken: a function, and not a label.
            self._functions = sorted(
                (value, kind != STT_NOTYPE, size, name) for value, size, kind, name
                in self.symbols() if kind in (STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC))
            self._starts = [f[0] for f in self._functions]
        i = bisect.bisect_right(self._starts, address) - 1
        label = None
        for i in range(i, max(i - 8, -1), -1):
            start, is_function, size, name = self._functions[i]
            if is_function and address < start + size:
                return self.text(name), address - start
            if label is None and (size == 0 or address < start + size):
                label = name, start
        return (self.text(label[0]), address - label[1]) if label else None

    def eh_frame(self):
        """Address of .eh_frame_hdr or None, and address and size of .eh_frame or None."""
        header = next((s.address for s in self.segments if s.type == PT_GNU_EH_FRAME), None)
        frames = next(((address, size) for name, kind, address, _, size, _ in self.sections()
                       if name == ".eh_frame" and kind != SHT_NOBITS), None)
        return header, frames

    def notes(self):
        """Owner, type and bytes of each."""
        for s in self.segments:
            if s.type == PT_NOTE:
                yield from notes_in(self.data[s.offset:s.offset + s.size])


def notes_in(data):
    at = 0
    while at + NOTE.size <= len(data):
        owner, size, kind = NOTE.unpack_from(data, at)
        name = at + NOTE.size
        start = name + (owner + 3 & ~3)
        yield bytes(data[name:name + owner]).rstrip(b"\0"), kind, data[start:start + size]
        at = start + (size + 3 & ~3)


def contents(path):
    """Of a file, mapped."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size == 0:
                return b""
            return mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Problem(f"{path}: {reason}") from None
