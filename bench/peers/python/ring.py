# SPDX-License-Identifier: MIT
"""The ring workload with generators. A generator only yields to its caller, so a loop
passes the token from one to the next."""

from time import perf_counter

import peer

THREADS = 503


def member(number, ring):
    token = yield
    send = ring[number % THREADS]
    while token:
        token = yield send, token - 1
    yield None, number


def main():
    (token,) = peer.arguments("PASSES")
    ring = []
    for number in range(1, THREADS + 1):
        thread = member(number, ring)
        next(thread)
        ring.append(thread.send)
    start = perf_counter()
    send = ring[0]
    while send:
        send, token = send(token)
    peer.report(perf_counter() - start, token)


peer.run(main)
