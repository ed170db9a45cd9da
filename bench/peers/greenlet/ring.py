# SPDX-License-Identifier: MIT
"""The ring workload with greenlets, which switch to the next directly."""

from time import perf_counter

import peer
from greenlet import getcurrent, greenlet

THREADS = 503


def member(number, ring, back):
    token = back()
    switch = ring[number % THREADS]
    while token:
        token = switch(token - 1)
    back(number)


def main():
    (passes,) = peer.arguments("PASSES")
    back = getcurrent().switch
    ring = []
    for number in range(1, THREADS + 1):
        switch = greenlet(member).switch
        switch(number, ring, back)
        ring.append(switch)
    start = perf_counter()
    last = ring[0](passes)
    peer.report(perf_counter() - start, last)


peer.run(main)
