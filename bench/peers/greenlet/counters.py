# SPDX-License-Identifier: MIT
"""The counters workload with greenlets."""

from time import perf_counter

import peer
from greenlet import getcurrent, greenlet


def count(n, back):
    back()
    while True:
        back(n)
        n += 1


def main():
    counters, calls = peer.arguments("COUNTERS", "CALLS")
    back = getcurrent().switch
    switches = [greenlet(count).switch for _ in range(counters)]
    for i, switch in enumerate(switches):
        switch(i, back)
    start = perf_counter()
    total = 0
    for _ in range(calls):
        for switch in switches:
            total += switch()
    peer.report(perf_counter() - start, total)


peer.run(main)
