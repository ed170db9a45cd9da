# SPDX-License-Identifier: MIT
"""Commands inside of gdb, for those who attach to a process or load a core directly.

    info ustacks [REGEX]    lists threads of usched, as uthreads ps does
    ustack N bt             where thread N is; N may be an address or a name

gdb reads memory as the native thread sees it. So frames of an evicted thread are found
here, and gdb says which function and line they are in. `uthreads gdb' shows locals, too.
"""

import contextlib
import re

import gdb

from . import DAMAGE, Problem, damaged, show
from .target import Core, Process
from .threads import Reader, open_views

NAMES = {
    "x86_64": dict(zip(range(16), "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15"
                       .split())),
    "aarch64": {**{i: f"x{i}" for i in range(31)}, 31: "sp"},
}


class ByGdb:
    """Registers of native threads: gdb has stopped them."""

    def natives(self):
        return [t.ptid[1] or t.ptid[0] for t in gdb.selected_inferior().threads()]

    @contextlib.contextmanager
    def stopped(self, tid):
        selected, names = gdb.selected_thread(), NAMES[self.machine]
        registers = None
        for thread in gdb.selected_inferior().threads():
            if tid in thread.ptid:
                thread.switch()
                frame = gdb.newest_frame()
                registers = {number: int(frame.read_register(name)) & (1 << 64) - 1
                             for number, name in names.items()}
                registers["pc"] = frame.pc()
        if selected:
            selected.switch()
        yield registers


class DebuggedProcess(ByGdb, Process):
    pass


class DebuggedCore(ByGdb, Core):
    pass


def open_debugged():
    inferior = gdb.selected_inferior()
    program = gdb.current_progspace().filename
    core = re.search(r"core dump file:\s*[`'](.*)', file type",
                     gdb.execute("info files", False, True))
    if core:
        target = DebuggedCore(core.group(1), program)
    elif inferior.pid:
        target = DebuggedProcess(inferior.pid)
        target.live = False             # it is stopped: nothing changes while it is read
    else:
        raise Problem("there is neither a process of this machine nor a core file")
    return open_views(target)


def say(address, number):
    """What gdb knows of an address: function, file and line."""
    at = address if number == 0 else address - 1
    block, line = gdb.block_for_pc(at), gdb.find_pc_line(at)
    functions = []              # the innermost first: all but the last are inlined
    while block:
        if block.function:
            functions.append(f"{block.function.print_name} ()")
        block = block.superblock
    if not functions:
        return None
    text = "in " + ", inlined in ".join(functions)
    return f"{text} at {line.symtab.filename}:{line.line}" if line.symtab else text


class Command(gdb.Command):
    def invoke(self, argument, from_tty):
        self.dont_repeat()
        try:
            self.run(gdb.string_to_argv(argument))
        except (Problem, OSError) as problem:
            raise gdb.GdbError(f"usched: {problem}") from None
        except DAMAGE as error:
            raise gdb.GdbError(f"usched: {damaged('what gdb debugs', error)}") from None


class Out:
    """Standard output of gdb, which has pages."""

    @staticmethod
    def write(text):
        gdb.write(text)


class InfoUstacks(Command):
    """Lists the threads of usched, those with REGEX in their line.

info ustacks [REGEX]"""

    def __init__(self):
        super().__init__("info ustacks", gdb.COMMAND_STACK)

    def run(self, words):
        show.ps(open_debugged(), words[0] if words else None, out=Out)


class Ustack(Command):
    """Shows where a thread of usched is.

ustack N bt

N is the number or address that `info ustacks' shows, or the thread's name."""

    def __init__(self):
        super().__init__("ustack", gdb.COMMAND_STACK)

    def run(self, words):
        if len(words) not in (1, 2) or words[1:] not in ([], ["bt"]):
            raise gdb.GdbError("ustack N bt")
        views = open_debugged()
        if not show.bt(views, words[:1], out=Out, reader=Reader(views), describe=say):
            raise gdb.GdbError(f"usched: there is no thread {words[0]}")


def install():
    InfoUstacks()
    Ustack()
