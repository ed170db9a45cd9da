# SPDX-License-Identifier: MIT
"""workloads.py: the workloads of bench.sh, as graph.py shows them: their parameters,
titles, units, and the numbers that it makes of cells. workloads.sh has the rest."""

from collections import namedtuple

FAILED_SECONDS = 100000  # more than a day: no run takes that, see graph.py
FAILED_NUMBER = 1e18  # for counts and rates: larger than any

# A workload that is drawn as lines: the place on the x axis, by the parameters; the
# axis's name in tables, and its label; the number of leading parameters that make a part.
Curve = namedtuple("Curve", "place name label lead")
THREADS = Curve(lambda n, r, m: n * r, "threads", "threads, N·R", 1)
DEPTH = Curve(
    lambda n, r, m, d: d, "D", "D, bytes that each thread holds on its stack", 2)
STACKS = Curve(lambda n, r, m, stacks: stacks, "stacks", "stacks of the processor", 2)
UNEVEN = Curve(
    lambda permille, load, connections: connections, "connections", "connections", 2)
CONNECTIONS = Curve(lambda connections: connections, "connections", "connections", 0)


def per_message(seconds, n, r, m, *_):
    return seconds * 1e9 / (n * r * m)


def thousands(rate, *_):
    return rate / 1000


def as_it_is(number, *_):
    return number


# The workloads of bench.sh. `value' makes the number shown, of a cell and the parameters;
# `curve' is None for bars; `better' is higher, lower or None.
Workload = namedtuple("Workload", "parameters title unit limit value curve better",
                      defaults=(None, "lower"))
WORKLOADS = {
    "cycle": Workload(
        ("N", "R", "M"), "Cycle benchmark", "million operations per second",
        FAILED_SECONDS, lambda s, n, r, m: n * r * m / s / 1e6, THREADS, "higher"),
    "ring": Workload(
        ("passes",), "Ring: a token is passed round 503 threads", "ns per pass",
        FAILED_SECONDS, lambda s, passes: s * 1e9 / passes),
    "counters": Workload(
        ("counters", "calls"), "Counters: many threads are called in turn",
        "ns per call", FAILED_SECONDS, lambda s, n, calls: s * 1e9 / (n * calls)),
    "pingpong": Workload(
        ("pairs",), "Ping-pong: one thread is resumed and suspends itself",
        "ns per pair", FAILED_SECONDS, lambda s, pairs: s * 1e9 / pairs),
    "create": Workload(
        ("threads",), "Create: threads are made, run and dropped", "ns per thread",
        FAILED_SECONDS, lambda s, threads: s * 1e9 / threads),
    "walk": Workload(
        ("nodes",), "Walk: a tree is walked by recursion, and gives each value",
        "ns per node", FAILED_SECONDS, lambda s, nodes: s * 1e9 / nodes),
    "alternate": Workload(
        ("repetitions", "yields"), "Alternate: two threads are made, yield in turn, end",
        "ns per turn", FAILED_SECONDS, lambda s, n, y: s * 1e9 / (2 * n * y)),
    "memory": Workload(
        ("threads",), "Memory: what a blocked thread needs", "bytes per thread",
        FAILED_NUMBER, as_it_is),
    "blocks": Workload(
        ("N", "R", "M"), "Blocks: how often threads block in the cycle benchmark",
        "blocks per message", FAILED_NUMBER, lambda b, n, r, m: b / (n * r * m),
        better=None),
    "threads": Workload(
        ("N", "R", "M"), "Threads: what more of them cost", "ns per message",
        FAILED_SECONDS, per_message, THREADS),
    "depth": Workload(
        ("N", "R", "M", "D"), "Depth: what bytes on the stacks cost",
        "ns per message", FAILED_SECONDS, per_message, DEPTH),
    "stacks": Workload(
        ("N", "R", "M", "stacks"), "Stacks: what more of them save",
        "ns per message", FAILED_SECONDS, per_message, STACKS),
    "uneven": Workload(
        ("permille", "load", "connections"),
        "Uneven: short requests beside long ones",
        "us that so many of 1000 took at most", FAILED_NUMBER, as_it_is, UNEVEN),
    "channel": Workload(
        ("capacity", "values"), "Channel: values go from one processor to another",
        "ns per value", FAILED_SECONDS, lambda s, capacity, values: s * 1e9 / values),
    "http": Workload(
        ("connections",), "HTTP: a file of 1 KB, asked for by wrk",
        "thousand requests per second", FAILED_NUMBER, thousands, CONNECTIONS, "higher"),
    "echo": Workload(
        ("connections",), "Echo: 64 bytes go to the server and come back",
        "thousand round trips per second", FAILED_NUMBER, thousands, CONNECTIONS,
        "higher"),
    "redis": Workload(
        ("clients", "command", "pipeline"), "Redis protocol: values of 3 bytes",
        "thousand requests per second", FAILED_NUMBER, thousands, None, "higher"),
    "idle": Workload(
        ("connections",), "Idle: memory for an HTTP connection that is kept",
        "bytes per connection", FAILED_NUMBER, as_it_is),
}
