# SPDX-License-Identifier: MIT
"""The pingpong workload with a generator, which sum() calls."""

from itertools import islice
from time import perf_counter

import peer


def count():
    n = 0
    yield
    while True:
        yield n
        n += 1


def main():
    (pairs,) = peer.arguments("PAIRS")
    thread = count()
    next(thread)
    start = perf_counter()
    total = sum(islice(thread, pairs))
    peer.report(perf_counter() - start, total)


peer.run(main)
