# SPDX-License-Identifier: MIT
"""The memory workload with greenlets."""

import peer
from greenlet import getcurrent, greenlet


def block(back):
    back()
    return 1


def main():
    (threads,) = peer.arguments("THREADS")
    back = getcurrent().switch
    before = peer.resident()
    blocked = []
    for _ in range(threads):
        thread = greenlet(block)
        thread.switch(back)
        blocked.append(thread)
    grown = max(0, peer.resident() - before)
    ended = sum(thread.switch() for thread in blocked)
    peer.report(grown / threads, ended)


peer.run(main)
