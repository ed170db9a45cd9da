# SPDX-License-Identifier: MIT
"""The programs of Python's generators. sum() and map() resume them."""

from itertools import islice
from time import perf_counter

from peer import THREADS, arguments, memory, report, run


def count(n):
    yield
    while True:
        yield n
        n += 1


def counters():
    number, calls = arguments("COUNTERS", "CALLS")
    threads = [count(i) for i in range(number)]
    for thread in threads:
        next(thread)
    start = perf_counter()
    total = 0
    for _ in range(calls):
        total += sum(map(next, threads))
    report(perf_counter() - start, total)


def pingpong():
    (pairs,) = arguments("PAIRS")
    thread = count(0)
    next(thread)
    start = perf_counter()
    total = sum(islice(thread, pairs))
    report(perf_counter() - start, total)


def give(n):
    yield n


def create():
    """Dropping the last reference frees one."""
    (threads,) = arguments("THREADS")
    start = perf_counter()
    total = sum(map(next, map(give, range(threads))))
    report(perf_counter() - start, total)


ended = 0


def block():
    global ended
    yield
    ended += 1


def blocked():
    thread = block()
    next(thread)
    return thread


def end(thread):
    before = ended
    next(thread, None)
    return ended - before


def member(number, ring):
    token = yield
    send = ring[number % THREADS]
    while token:
        token = yield send, token - 1
    yield None, number


def pass_round():
    """A generator only yields to its caller, so a loop passes the token on."""
    (token,) = arguments("PASSES")
    ring = []
    for number in range(1, THREADS + 1):
        thread = member(number, ring)
        next(thread)
        ring.append(thread.send)
    start = perf_counter()
    send = ring[0]
    while send:
        send, token = send(token)
    report(perf_counter() - start, token)


run({"counters": counters, "pingpong": pingpong, "create": create, "ring": pass_round,
     "memory": lambda: memory(blocked, end)})
