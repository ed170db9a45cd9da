# SPDX-License-Identifier: MIT
"""The create workload with generators. Dropping the last reference frees one."""

from time import perf_counter

import peer


def give(n):
    yield n


def main():
    (threads,) = peer.arguments("THREADS")
    start = perf_counter()
    total = sum(map(next, map(give, range(threads))))
    peer.report(perf_counter() - start, total)


peer.run(main)
