# SPDX-License-Identifier: MIT
"""Shared by the Python programs, and those of greenlet."""

import gc
import os
import sys


def arguments(*names):
    texts = sys.argv[1:]
    good = len(texts) == len(names) and all(
        len(t) <= 18 and t.isascii() and t.isdigit() and int(t) for t in texts
    )
    if not good:
        print("usage:", sys.argv[0], *names, file=sys.stderr)
        sys.exit(2)
    return [int(t) for t in texts]


def report(value, answer):
    print(f"{value:.6f}\n{answer}")


def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(main):
    try:
        main()
    except MemoryError:
        sys.exit("not enough memory")
