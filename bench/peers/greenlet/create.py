# SPDX-License-Identifier: MIT
"""The create workload with greenlets. Each is resumed to its end. Dropping the last
reference instead throws GreenletExit into it, and takes several times as long."""

from time import perf_counter

import peer
from greenlet import getcurrent, greenlet


def give(n, back):
    back(n)


def main():
    (threads,) = peer.arguments("THREADS")
    back = getcurrent().switch
    start = perf_counter()
    total = 0
    for i in range(threads):
        thread = greenlet(give)
        total += thread.switch(i, back)
        thread.switch()
    peer.report(perf_counter() - start, total)


peer.run(main)
