# SPDX-License-Identifier: MIT
"""For gdb: the commands `info ustacks' and `ustack N bt'. See uthreads(1).

gdb loads it by itself for programs with the installed library; for others: source FILE.
"""

import os
import sys


def find(start):
    """The directory with the modules: beside this file, or where both are installed."""
    place = os.path.dirname(start)
    while place != os.path.dirname(place):
        for inner in ("", "share/usched", "tools"):
            found = os.path.join(place, inner)
            if os.path.isdir(os.path.join(found, "usched_view")):
                return found
        place = os.path.dirname(place)
    raise ImportError("usched: there is no usched_view near " + start)


where = find(os.path.realpath(__file__))
if where not in sys.path:
    sys.path.insert(0, where)
sys.dont_write_bytecode = True

from usched_view import inside  # noqa: E402

inside.install()
