# SPDX-License-Identifier: MIT
"""ps and bt: text about threads. lines: text of reports."""

import contextlib
import os
import re
import subprocess
import sys

from . import Problem, plain
from .elf import ET_EXEC, Elf, contents
from .threads import Reader

COLUMNS = f"{'N':>7}  {'THREAD':<14}  {'CPU':<5}  {'STATE':<7}  {'DEPTH':>7}  {'IMAGE':>7}  " \
          f"{'FRAMES':<6}  {'NAME':<16}  {'FUNCTION':<20}  WAITS FOR"


class Names:
    """Functions of addresses, each looked up once."""

    def __init__(self, target):
        self.target, self.known = target, {}

    def __getitem__(self, address):
        name = self.known.get(address)
        if name is None:
            name = self.known[address] = self.target.symbol(address) or f"{address:#x}"
        return name


class Lines:
    """Files and lines of addresses, each looked up once; by addr2line(1), if that is there."""

    def __init__(self):
        self.known, self.running, self.files = {}, {}, {}

    def at(self, path, address):
        """" at FILE:LINE", or "" without debug information."""
        key = path, address
        if key not in self.known:
            found = re.match(r"(?!\?)(.+):([1-9][0-9]*)", self._ask(path, address))
            self.known[key] = f" at {plain(found[1])}:{found[2]}" if found else ""
        return self.known[key]

    def _ask(self, path, address):
        if path not in self.running:
            try:
                self.running[path] = subprocess.Popen(
                    ["addr2line", "-s", "-e", path], stdin=subprocess.PIPE, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, errors="replace")
            except OSError:
                self.running[path] = None
        process = self.running[path]
        if process:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(f"{address:#x}\n")
                process.stdin.flush()
                return process.stdout.readline()
        return ""

    def in_target(self, target, address):
        """As at(), of an address in memory, if the file is the one that is mapped."""
        module = target.module_at(address)
        if module and module not in self.files:
            self.files[module] = next((path for path in target.paths(module.path)
                                       if begins_alike(path, module.elf)), None)
        path = self.files.get(module)
        return self.at(path, address - module.bias) if path else ""


def begins_alike(path, elf):
    with contextlib.suppress(Problem):
        return contents(path)[:64] == elf.data[:64]
    return False


def lines(paths, reports, out=sys.stdout):
    """Adds files and lines to what reports of a process say: (server+0x1290 serve)."""
    found, known = {}, Lines()
    for path in paths:
        elf = Elf(path)
        found[os.path.basename(path)] = path, elf.base() if elf.type == ET_EXEC else 0

    def more(place):
        path, base = found.get(place[1], (None, 0))
        return place[0] + (known.at(path, base + int(place[2], 16)) if path else "")

    for text in reports:
        out.write(re.sub(r"\(([^\s()]+)\+(0x[0-9a-f]+)(?: [^()]*)?\)", more, text))


def all_threads(views, only=None):
    """Or those whose addresses are in `only'."""
    number = 0
    for view in views:
        for thread in view.threads():
            thread.number = number
            number += 1
            if only is None or thread.address in only:
                yield thread


def line(thread, functions):
    """As in ps. A million threads want it quick."""
    view, state = thread.view, thread.state
    frames = depth = image = "-"
    if state not in ("new", "running"):
        frames = "stack" if thread.in_place else "image"
        depth = thread.stack.bottom - thread.sp
    if thread.outside:
        image = thread.image_size
    waits = view.waits_for(thread) if state in ("waiting", "joining") else "-"
    return f"{thread.number:7}  {thread.address:<#14x}  {thread.processor:<5}  {state:<7}  " \
           f"{depth:>7}  {image:>7}  {frames:<6}  " \
           f"{view.names().get(thread.address, '-'):<16}  " \
           f"{functions[thread.function]:<20}  {waits}"


def selected(views, wanted, pattern, functions, only=None):
    """Threads whose line has the pattern; `wanted' are numbers, addresses or names."""
    match = re.compile(pattern).search if pattern else None
    for thread in all_threads(views, only):
        if wanted and not (str(thread.number) in wanted or f"{thread.address:#x}" in wanted
                           or thread.view.names().get(thread.address, "") in wanted):
            continue
        if not match or match(line(thread, functions)):
            yield thread


def ps(views, pattern=None, limit=None, out=sys.stdout, only=None):
    functions = Names(views[0].target)
    match = re.compile(pattern).search if pattern else None
    shown = more = 0
    lines = [COLUMNS]
    for thread in all_threads(views, only):
        if limit is not None and shown >= limit and not match:
            more += 1
            continue
        text = line(thread, functions)
        if match and not match(text):
            continue
        if limit is not None and shown >= limit:
            more += 1
            continue
        shown += 1
        lines.append(text)
        if len(lines) >= 1000:
            out.write("\n".join(lines) + "\n")
            lines = []
    if more:
        lines.append(f"and {more} more: --limit shows them")
    out.write("".join(f"{text}\n" for text in lines))
    return shown


def head(thread, functions):
    """The first line of a trace."""
    name = thread.view.names().get(thread.address)
    return f"thread {thread.number}, {thread.address:#x}{f' {name!r}' if name else ''}, " \
           f"{doing(thread)}, processor {thread.processor}, " \
           f"function {functions[thread.function]}"


def doing(thread):
    """Its state, in words."""
    waits = thread.view.waits_for(thread)
    if thread.joins:
        return f"joins {waits}"
    return f"waits for {waits}" if waits else thread.state


def frame_lines(target, trace, known_lines, describe=None):
    """`describe' says more of an address, if it can: as gdb does."""
    for number, address in enumerate(trace):
        # A call may be the last instruction of its function.
        known = describe(address, number) if describe else None
        if known is None:
            name = target.symbol(address) if number == 0 else called(target, address)
            module = target.module_at(address)
            known = name or "??"
            if module:
                known += f" in {module.name}" + ("" if name else f"+{address - module.bias:#x}")
                known += known_lines.in_target(target, address - (number > 0))
        yield f"  #{number:<3} {address:#018x} {known}"


def called(target, address):
    """As target.symbol(), of a return address."""
    module = target.module_at(address - 1)
    found = module.function(address - 1) if module else None
    return f"{found[0]}+{found[1] + 1:#x}" if found else ""


def bt(views, wanted=(), pattern=None, group=False, limit=None, out=sys.stdout, reader=None,
       describe=None, only=None):
    target = views[0].target
    functions, known_lines, reader = Names(target), Lines(), reader or Reader(views)
    groups, shown = {}, 0
    for thread in selected(views, wanted, pattern, functions, only):
        if limit is not None and shown >= limit and not group:
            out.write("and more: --limit shows them\n")
            break
        now, trace = reader.trace(thread)
        if now is None:
            continue
        shown += 1
        if group:
            key = now.state, now.function, tuple(trace)
            groups.setdefault(key, []).append(now)
            continue
        lines = [head(now, functions), *frame_lines(target, trace, known_lines, describe)]
        if not trace:
            lines.append("  not started yet" if now.is_new else "  no frames could be read")
        out.write("\n".join(lines) + "\n\n")
    show_groups(target, groups, limit, functions, known_lines, describe, out)
    return shown


def show_groups(target, groups, limit, functions, known_lines, describe, out):
    """The largest first."""
    order = sorted(groups.items(), key=lambda item: -len(item[1]))
    for (state, _, trace), members in order[:limit]:
        count = f"{len(members)} thread" + "s" * (len(members) > 1)
        out.write(f"{count}, {state}, such as {head(members[0], functions)}\n")
        out.write("".join(f"{text}\n" for text in
                          frame_lines(target, trace, known_lines, describe)) + "\n")
    if len(order) > len(order[:limit]):
        out.write(f"groups that --limit leaves out: {len(order) - limit}\n")
