# SPDX-License-Identifier: MIT
"""From a frame to its caller, by the unwinding information in .eh_frame.

What that says of an address is computed once: how to find the CFA, the stack pointer of
the caller, and each register of the caller.
"""

import bisect
import struct

from .target import STACK_POINTER

RETURN_ADDRESS = {"x86_64": 16, "aarch64": 30}
FRAME_POINTER = {"x86_64": 6, "aarch64": 29}
ADDRESS_BITS = (1 << 48) - 1    # AArch64 signs return addresses above
MASK = (1 << 64) - 1
FRAMES_MAX = 1000


class Bad(Exception):
    """The information is not understood."""


class Reader:
    """Walks through bytes that are mapped at an address."""

    def __init__(self, data, at, address):
        self.data, self.at, self.shift = data, at, address - at

    def take(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def leb(self):
        """A LEB128 number without its sign, and how many bits it has."""
        value = bits = 0
        while True:
            byte = self.take("B")
            value |= (byte & 127) << bits
            bits += 7
            if byte < 128:
                return value, bits

    def uleb(self):
        return self.leb()[0]

    def sleb(self):
        value, bits = self.leb()
        return value - (1 << bits) if value >> bits - 1 else value

    def bytes(self, size):
        self.at += size
        return bytes(self.data[self.at - size:self.at])

    FORMS = {0: "<Q", 2: "<H", 3: "<I", 4: "<Q", 10: "<h", 11: "<i", 12: "<q"}

    def pointer(self, encoding, base=0):
        """As DW_EH_PE says."""
        if encoding == 255:
            return 0
        here = self.at + self.shift
        kind = encoding & 15
        value = self.uleb() if kind == 1 else self.sleb() if kind == 9 else \
            self.take(self.FORMS[kind])
        relative = encoding & 0x70
        if relative == 0x10:
            value += here
        elif relative == 0x30:
            value += base
        elif relative:
            raise Bad(f"pointer encoding {encoding:#x}")
        return value & MASK


class Common:
    """A CIE."""

    def __init__(self, r, end):
        version = r.take("<B")
        start = r.at
        while r.data[r.at]:
            r.at += 1
        augmentation = bytes(r.data[start:r.at]).decode("latin-1")
        r.at += 1
        if version not in (1, 3) or augmentation not in ("",) and augmentation[0] != "z":
            raise Bad(f"CIE of version {version}, {augmentation}")
        self.code, self.data = r.uleb(), r.sleb()
        self.returns = r.take("<B") if version == 1 else r.uleb()
        self.encoding, self.language, self.signal = 0, 255, False
        self.augmented = augmentation.startswith("z")
        if self.augmented:
            r.uleb()
        for letter in augmentation[1:]:
            if letter == "R":
                self.encoding = r.take("<B")
            elif letter == "P":
                r.pointer(r.take("<B"))
            elif letter == "L":
                self.language = r.take("<B")
            elif letter == "S":
                self.signal = True
        self.program = r.at, end


class Row:
    """How to find the caller from an address: the CFA, and rules for registers."""

    def __init__(self, common):
        self.cfa = None                 # register and offset, or an expression
        self.rules = {}
        self.returns = common.returns
        self.signal = common.signal


class Frames:
    """.eh_frame of a file, with its own addresses."""

    def __init__(self, elf):
        self.elf = elf
        self.header, self.section = elf.eh_frame()
        self.commons = {}
        self.index = None               # sorted start addresses, and where their FDEs are
        if self.header is not None:
            self._read_header()
        if self.index is None:
            self._scan()

    def _reader(self, address):
        for s in self.elf.loads:
            if s.address <= address < s.address + s.size:
                return Reader(self.elf.data, s.offset + address - s.address, address)
        raise Bad(f"{address:#x} is not in the file")

    def _read_header(self):
        """A sorted table, if the linker has made one."""
        r = self._reader(self.header)
        version, pointer, count, table = r.bytes(4)
        if version != 1 or count == 255 or table != 0x3B:       # relative, of 32 bits
            return
        r.pointer(pointer)
        count = r.pointer(count)
        values = struct.unpack_from(f"<{2 * count}i", r.data, r.at)
        self.index = ([self.header + v for v in values[::2]],
                      [self.header + v for v in values[1::2]])

    def _scan(self):
        found = []
        if self.section:
            at, size = self.section
            end = at + size
            while at + 4 < end:
                r = self._reader(at)
                length = r.take("<I")
                if length in (0, 0xFFFFFFFF):
                    break
                if r.take("<I"):
                    try:
                        start, _, _, _ = self._read_fde(at)
                        found.append((start, at))
                    except (Bad, KeyError, struct.error):
                        pass
                at += 4 + length
        found.sort()
        self.index = [f[0] for f in found], [f[1] for f in found]

    def _read_fde(self, at):
        """Start, end, CIE and where the instructions are."""
        r = self._reader(at)
        end = r.take("<I") + r.at
        here = r.at
        back = r.take("<I")
        if back == 0:
            raise Bad("a CIE, and no FDE")
        common = self._common(here + r.shift - back)
        start = r.pointer(common.encoding)
        size = r.pointer(common.encoding & 15)
        if common.augmented:
            skip = r.uleb()
            r.at += skip
        return start, start + size, common, (r, r.at, end)

    def _common(self, address):
        if address not in self.commons:
            r = self._reader(address)
            end = r.take("<I") + r.at
            r.take("<I")
            self.commons[address] = Common(r, end)
        return self.commons[address]

    def row(self, address):
        """The row of an address, or None."""
        starts, places = self.index
        i = bisect.bisect_right(starts, address) - 1
        if i < 0:
            return None
        try:
            start, end, common, (r, at, limit) = self._read_fde(places[i])
            if not start <= address < end:
                return None
            row = Row(common)
            run(row, r, *common.program, common, start, address, None)
            run(row, r, at, limit, common, start, address, dict(row.rules))
            return row
        except (Bad, KeyError, IndexError, struct.error):
            return None


def run(row, r, at, limit, common, location, address, initial):
    """Executes instructions until they are about addresses beyond `address'."""
    stack = []
    r.at = at
    while r.at < limit:
        code = r.take("<B")
        high, low = code >> 6, code & 63
        if high == 1:
            location += low * common.code
        elif high == 2:
            row.rules[low] = "at", r.uleb() * common.data
        elif high == 3:
            restore(row, low, initial)
        elif code == 0x01:
            location = r.pointer(common.encoding)
        elif code in (0x02, 0x03, 0x04):
            location += r.take({2: "<B", 3: "<H", 4: "<I"}[code]) * common.code
        elif code == 0x05:
            row.rules[r.uleb()] = "at", r.uleb() * common.data
        elif code == 0x06:
            restore(row, r.uleb(), initial)
        elif code == 0x07:
            row.rules[r.uleb()] = "undefined", 0
        elif code == 0x08:
            row.rules[r.uleb()] = "same", 0
        elif code == 0x09:
            row.rules[r.uleb()] = "register", r.uleb()
        elif code == 0x0A:
            stack.append((row.cfa, dict(row.rules)))
        elif code == 0x0B:
            row.cfa, row.rules = stack.pop()
        elif code == 0x0C:
            row.cfa = r.uleb(), r.uleb()
        elif code == 0x0D:
            row.cfa = r.uleb(), row.cfa[1]
        elif code == 0x0E:
            row.cfa = row.cfa[0], r.uleb()
        elif code == 0x0F:
            row.cfa = r.bytes(r.uleb())
        elif code in (0x10, 0x16):
            register = r.uleb()
            row.rules[register] = ("read" if code == 0x10 else "value"), r.bytes(r.uleb())
        elif code == 0x11:
            row.rules[r.uleb()] = "at", r.sleb() * common.data
        elif code == 0x12:
            row.cfa = r.uleb(), r.sleb() * common.data
        elif code == 0x13:
            row.cfa = row.cfa[0], r.sleb() * common.data
        elif code in (0x14, 0x15):
            register = r.uleb()
            row.rules[register] = "offset", (r.uleb() if code == 0x14 else r.sleb()) * common.data
        elif code == 0x2E:
            r.uleb()
        elif code not in (0x00, 0x2D):          # 2D: the return address is signed, or not
            raise Bad(f"instruction {code:#x}")
        if location > address:
            return


def restore(row, register, initial):
    if initial and register in initial:
        row.rules[register] = initial[register]
    else:
        row.rules.pop(register, None)


def signed(value):
    return value - (1 << 64) if value >> 63 else value


BINARY = {
    0x1A: lambda a, b: a & b, 0x1C: lambda a, b: a - b, 0x1E: lambda a, b: a * b,
    0x21: lambda a, b: a | b, 0x22: lambda a, b: a + b, 0x24: lambda a, b: a << b,
    0x25: lambda a, b: a >> b, 0x26: lambda a, b: signed(a) >> b, 0x27: lambda a, b: a ^ b,
    0x29: lambda a, b: a == b, 0x2A: lambda a, b: signed(a) >= signed(b),
    0x2B: lambda a, b: signed(a) > signed(b), 0x2C: lambda a, b: signed(a) <= signed(b),
    0x2D: lambda a, b: signed(a) < signed(b), 0x2E: lambda a, b: a != b,
}
CONSTANTS = {0x08: "<B", 0x09: "<b", 0x0A: "<H", 0x0B: "<h", 0x0C: "<I", 0x0D: "<i",
             0x0E: "<Q", 0x0F: "<q"}


def evaluate(code, registers, read, stack):
    """An expression of DWARF. `read' gives the word at an address, or None."""
    r = Reader(code, 0, 0)
    while r.at < len(code):
        op = r.take("<B")
        if op in BINARY:
            b, a = stack.pop(), stack.pop()
            stack.append(int(BINARY[op](a, b)) & MASK)
        elif 0x70 <= op <= 0x8F:
            stack.append(known(registers, op - 0x70) + r.sleb() & MASK)
        elif op == 0x92:
            stack.append(known(registers, r.uleb()) + r.sleb() & MASK)
        elif 0x30 <= op <= 0x4F:
            stack.append(op - 0x30)
        elif op in CONSTANTS:
            stack.append(r.take(CONSTANTS[op]) & MASK)
        elif op == 0x10:
            stack.append(r.uleb())
        elif op == 0x11:
            stack.append(r.sleb() & MASK)
        elif op == 0x06:
            stack.append(known({0: read(stack.pop())}, 0))
        elif op == 0x12:
            stack.append(stack[-1])
        elif op == 0x13:
            stack.pop()
        elif op == 0x16:
            stack[-1], stack[-2] = stack[-2], stack[-1]
        elif op == 0x23:
            stack.append(stack.pop() + r.uleb() & MASK)
        elif op == 0x20:
            stack.append(~stack.pop() & MASK)
        elif op == 0x28:
            skip = r.take("<h")
            r.at += skip if stack.pop() else 0
        elif op == 0x2F:
            r.at += r.take("<h")
        elif op != 0x96:
            raise Bad(f"operation {op:#x}")
    return stack[-1]


def known(registers, number):
    value = registers.get(number)
    if value is None:
        raise Bad(f"register {number} is not known")
    return value


class Unwinder:
    def __init__(self, target):
        self.target = target
        self.machine = target.machine
        self.frames = {}                # module: its Frames
        self.rows = {}                  # address: its Row, or None

    def _row(self, pc):
        if pc not in self.rows:
            module = self.target.module_at(pc)
            if module and module not in self.frames:
                try:
                    self.frames[module] = Frames(module.elf)
                except (Bad, struct.error):
                    self.frames[module] = None
            frames = self.frames.get(module)
            self.rows[pc] = frames.row(pc - module.bias) if frames else None
        return self.rows[pc]

    def trace(self, registers, read, end, limit=FRAMES_MAX):
        """Addresses of code, from the innermost frame on: where each goes on.

        `read' gives the word at an address, or None. Frames are below `end'.
        """
        found = []
        for frame in self.walk(registers, read, end):
            found.append(frame["pc"])
            if len(found) == limit:
                break
        return found

    def passes(self, registers, read, low, high):
        """Whether a frame is on such a stack."""
        sp = STACK_POINTER[self.machine]
        return any(low <= frame[sp] <= high for frame in self.walk(registers, read, high))

    def walk(self, registers, read, end):
        """The registers of each frame."""
        sp, look = STACK_POINTER[self.machine], registers["pc"]
        for _ in range(FRAMES_MAX):
            yield registers
            row = self._row(look)
            try:
                caller = self._caller(row, registers, read) if row else \
                    self._by_frame_pointer(registers, read, end)
            except (Bad, IndexError):
                return
            signal = row is not None and row.signal     # it may come on another stack
            # The outermost frame has no caller.
            if not caller or not caller["pc"] \
                    or not signal and caller[sp] > end >= registers[sp] \
                    or not signal and caller[sp] < registers[sp] \
                    or caller[sp] == registers[sp] and caller["pc"] == registers["pc"]:
                return
            registers = caller
            look = registers["pc"] - (0 if signal else 1)

    def _caller(self, row, registers, read):
        if row.cfa is None:
            return None
        if isinstance(row.cfa, bytes):
            cfa = evaluate(row.cfa, registers, read, [])
        else:
            cfa = known(registers, row.cfa[0]) + row.cfa[1] & MASK
        caller = dict(registers)
        caller[STACK_POINTER[self.machine]] = cfa
        for register, (kind, value) in row.rules.items():
            if kind == "at":
                caller[register] = read(cfa + value & MASK)
            elif kind == "undefined":
                caller[register] = None
            elif kind == "register":
                caller[register] = registers.get(value)
            elif kind == "offset":
                caller[register] = cfa + value & MASK
            elif kind == "read":
                caller[register] = read(evaluate(value, registers, read, [cfa]))
            elif kind == "value":
                caller[register] = evaluate(value, registers, read, [cfa])
        pc = caller.get(row.returns)
        if pc is not None and self.machine == "aarch64":
            pc &= ADDRESS_BITS
        caller["pc"] = pc
        return caller

    def _by_frame_pointer(self, registers, read, end):
        """For code without information: a frame pointer leads to the caller's."""
        sp, fp = STACK_POINTER[self.machine], FRAME_POINTER[self.machine]
        at = registers.get(fp)
        if at is None or not registers[sp] <= at < end or at % 8:
            return None
        pc = read(at + 8)
        if pc is None or not self.target.module_at(pc & ADDRESS_BITS):
            return None
        caller = {fp: read(at), sp: at + 16, "pc": pc & ADDRESS_BITS}
        return caller
