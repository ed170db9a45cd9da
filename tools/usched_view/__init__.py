# SPDX-License-Identifier: MIT
"""The threads of usched, seen from outside of their process.

  elf.py       files: segments, symbols, notes
  target.py    a process or a core file: memory, mapped files, native threads
  unwind.py    from a frame to its caller, by .eh_frame
  threads.py   schedulers and threads, by the constant usched__layout
  show.py      ps, bt and top
  trace.py     trace
  stub.py      a remote target for gdb, in which each thread is one of gdb's
  inside.py    commands inside of gdb: info ustacks, ustack
"""


class Problem(Exception):
    """What the user is told, in one line."""
