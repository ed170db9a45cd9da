# SPDX-License-Identifier: MIT
"""The memory workload with generators."""

import peer


ended = 0


def block():
    global ended
    yield
    ended += 1


def main():
    (threads,) = peer.arguments("THREADS")
    before = peer.resident()
    blocked = []
    for _ in range(threads):
        thread = block()
        next(thread)
        blocked.append(thread)
    grown = max(0, peer.resident() - before)
    for thread in blocked:
        next(thread, None)
    peer.report(grown / threads, ended)


peer.run(main)
