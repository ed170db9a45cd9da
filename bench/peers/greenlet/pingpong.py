# SPDX-License-Identifier: MIT
"""The pingpong workload with a greenlet."""

from time import perf_counter

import peer
from greenlet import getcurrent, greenlet


def count(back):
    n = 0
    back()
    while True:
        back(n)
        n += 1


def main():
    (pairs,) = peer.arguments("PAIRS")
    switch = greenlet(count).switch
    switch(getcurrent().switch)
    start = perf_counter()
    total = 0
    for _ in range(pairs):
        total += switch()
    peer.report(perf_counter() - start, total)


peer.run(main)
