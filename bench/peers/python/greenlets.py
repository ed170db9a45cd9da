# SPDX-License-Identifier: MIT
"""The programs of greenlets."""

from time import perf_counter

from greenlet import getcurrent, greenlet
from peer import THREADS, arguments, memory, report, run

back = getcurrent().switch


def count(n):
    back()
    while True:
        back(n)
        n += 1


def counters():
    number, calls = arguments("COUNTERS", "CALLS")
    switches = [greenlet(count).switch for _ in range(number)]
    for i, switch in enumerate(switches):
        switch(i)
    start = perf_counter()
    total = 0
    for _ in range(calls):
        for switch in switches:
            total += switch()
    report(perf_counter() - start, total)


def pingpong():
    (pairs,) = arguments("PAIRS")
    switch = greenlet(count).switch
    switch(0)
    start = perf_counter()
    total = 0
    for _ in range(pairs):
        total += switch()
    report(perf_counter() - start, total)


def give(n):
    back(n)


def create():
    """Each is resumed to its end. Dropping the last reference instead throws GreenletExit
    into it, and takes several times as long."""
    (threads,) = arguments("THREADS")
    start = perf_counter()
    total = 0
    for i in range(threads):
        thread = greenlet(give)
        total += thread.switch(i)
        thread.switch()
    report(perf_counter() - start, total)


def block():
    back()
    return 1


def blocked():
    thread = greenlet(block)
    thread.switch()
    return thread


def member(number, ring):
    token = back()
    switch = ring[number % THREADS]
    while token:
        token = switch(token - 1)
    back(number)


def pass_round():
    """They switch to the next directly."""
    (passes,) = arguments("PASSES")
    ring = []
    for number in range(1, THREADS + 1):
        switch = greenlet(member).switch
        switch(number, ring)
        ring.append(switch)
    start = perf_counter()
    last = ring[0](passes)
    report(perf_counter() - start, last)


run({"counters": counters, "pingpong": pingpong, "create": create, "ring": pass_round,
     "memory": lambda: memory(blocked, greenlet.switch)})
