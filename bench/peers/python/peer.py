# SPDX-License-Identifier: MIT
"""Shared by the programs of Python's generators and of greenlets: arguments, memory, and
what they print. Run as MODULE.py WORKLOAD ARGUMENT..."""

import gc
import os
import sys

THREADS = 503  # of ring


def arguments(*names):
    texts = sys.argv[2:]
    good = len(texts) == len(names) and all(
        len(t) <= 18 and t.isascii() and t.isdigit() and int(t) for t in texts
    )
    if not good:
        print("usage:", sys.argv[1], *names, file=sys.stderr)
        sys.exit(2)
    return [int(t) for t in texts]


def report(value, answer):
    print(f"{value:.6f}\n{answer}")


def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(block, end):
    """block() makes a thread that is blocked; end() resumes it, and returns 1."""
    (threads,) = arguments("THREADS")
    before = resident()
    blocked = [block() for _ in range(threads)]
    grown = max(0, resident() - before)
    report(grown / threads, sum(map(end, blocked)))


def run(workloads):
    try:
        workloads[sys.argv[1]]()
    except MemoryError:
        sys.exit("not enough memory")
