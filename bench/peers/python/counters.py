# SPDX-License-Identifier: MIT
"""The counters workload with generators, which sum() and map() call."""

from time import perf_counter

import peer


def count(n):
    yield
    while True:
        yield n
        n += 1


def main():
    counters, calls = peer.arguments("COUNTERS", "CALLS")
    threads = [count(i) for i in range(counters)]
    for thread in threads:
        next(thread)
    start = perf_counter()
    total = 0
    for _ in range(calls):
        total += sum(map(next, threads))
    peer.report(perf_counter() - start, total)


peer.run(main)
