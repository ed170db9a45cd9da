# SPDX-License-Identifier: MIT
"""The threads of usched, seen from outside of their process.

  elf.py       files: segments, symbols, notes
  target.py    a process or a core file: memory, mapped files, native threads
  unwind.py    from a frame to its caller, by .eh_frame
  threads.py   schedulers and threads, by the constant usched__layout
  show.py      ps, bt and lines
  lost.py      threads that nothing can wake any more
  trace.py     trace
  draw_trace.py, draw_sim.py   draw
  picture.py   what pictures have in common, those of graph.py too
  stub.py      a remote target for gdb, in which each thread is one of gdb's
  inside.py    commands inside of gdb: info ustacks, ustack
"""


import os
import struct

# What reading raises where bytes are no numbers, offsets or names as expected.
DAMAGE = (struct.error, LookupError, ValueError, ArithmeticError, TypeError, MemoryError)


class Problem(Exception):
    """What the user is told, in one line."""


def damaged(where, error):
    """The line for one of DAMAGE. The place is for those who mend this program."""
    last = error.__traceback__
    while last.tb_next:
        last = last.tb_next
    file = os.path.basename(last.tb_frame.f_code.co_filename)
    return f"{where} is damaged, or of another kind: {type(error).__name__} in {file}:{last.tb_lineno}"


def plain(text):
    """Text from a process or a file, as a terminal, a log and JSON may have it."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
