# SPDX-License-Identifier: MIT
"""Servers that tests start and end, and their clients.

Environment:

  B      the build directory: the servers are B/examples/NN-name; default build
  CC     the compiler of edited copies; default: that of B
"""

import atexit
import contextlib
import itertools
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
B = os.environ.get("B", "build")
LIMIT = 1200            # seconds: a test that takes so long hangs
HERE = "127.0.0.1"
os.environ["no_proxy"] = "*"    # for curl: there is nothing between it and the server
os.environ["LC_ALL"] = "C"


def block(size=200, blocks=60):
    """The ports of a block which is this process's while its first one is bound. They are
    below those that the system gives to clients: a client that dials such a port of its own
    is connected with itself."""
    for k in range(blocks):
        first = 10000 + (os.getpid() + k) % blocks * size
        with contextlib.suppress(OSError):
            held = socket.socket()
            held.bind((HERE, first))
            atexit.register(held.close)
            return iter(range(first + 1, first + size))
    raise AssertionError("all ports are taken")


ports = block()

VALGRIND = ("valgrind", "-q", "--error-exitcode=99", "--leak-check=full", "--fair-sched=yes")


def example(name):
    return f"{B}/examples/{name}"


def need(*programs):
    """Skips the whole file unless these are there."""
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest(f"there is no {program}")


def directory():
    """A new one, which is removed when the whole file is done."""
    files = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(files.cleanup)
    return files.name


def need_valgrind():
    need("valgrind")
    if not os.path.exists("/usr/include/valgrind/memcheck.h"):
        raise unittest.SkipTest("there is no valgrind/memcheck.h")


def more_descriptors():
    """As many as the system permits; how many those are."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def content(path, mode="rb"):
    with open(path, mode) as file:
        return file.read()


def until(condition, what="what is waited for"):
    """Tries again and again. The time is there for a test that fails to come to an end."""
    end = time.monotonic() + 600
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} does not come about")
        time.sleep(0.02)


# ---- What the system says ----

def connections(family="tcp"):
    """Of IPv4, or IPv6: local port, remote port, state, bytes unsent, bytes unread."""
    path = f"/proc/net/{family}"
    for line in content(path, "r").splitlines()[1:] if os.path.exists(path) else []:
        _, here, there, state, queues = line.split()[:5]
        unsent, unread = queues.split(":")
        yield (int(here.split(":")[1], 16), int(there.split(":")[1], 16), state,
               int(unsent, 16), int(unread, 16))


def listens(port):
    return any(here == port and state == "0A" for family in ("tcp", "tcp6")
               for here, _, state, _, _ in connections(family))


def established(port):
    """Bytes unread of each connection to a port that neither end has closed."""
    return [unread for here, _, state, _, unread in connections()
            if here == port and state == "01"]


def compiled(name, to, *options, edits=(), build=None):
    """The server `to' is examples/NAME.c with (pattern, replacement) edits, each of
    which must change it, and the library of a build directory."""
    build = build or B
    flags = dict(line.split("=", 1) for line in content(f"{build}/flags", "r").splitlines())
    text = content(f"examples/{name}.c", "r")
    for pattern, replacement in edits:
        edited = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        assert edited != text, f"{name}.c: nothing to edit by {pattern}"
        text = edited
    with open(f"{to}.c", "w") as file:
        file.write(text)
    words = [flags["CC"], flags["CPPFLAGS"], flags["CFLAGS"], flags["LDFLAGS"]]
    subprocess.run([*shlex.split(" ".join(words)), "-DUSCHED_DEBUG", "-I.", "-Iexamples",
                    f"{to}.c", f"{build}/libusched.a", "-o", to, "-pthread", "-lm", *options], check=True)
    return to


def patient(name, to, *options, deadlines="STALL"):
    """With so long deadlines that no client is late which is only slow."""
    return compiled(name, to, *options,
                    edits=[(rf"^(#define ({deadlines}) +\()[0-9]+ ", r"\g<1>600 ")])


def library(build):
    """A build directory with a library for valgrind: B, or, if that has other options or is
    of a clang whose debugging information valgrind may not know, this one."""
    with open(f"{B}/flags") as file:
        flags = file.read()
    if "\nCFLAGS=-O2 -g\n" in flags and "clang" not in flags:
        return B
    command = [os.environ.get("MAKE", "make"), "-s", "--no-print-directory", f"B={build}",
               "CFLAGS=-O1 -g -gdwarf-4", "CPPFLAGS=", "LDFLAGS="]
    command += [f"{name}={os.environ[name]}" for name in ("CC", "SWITCH") if name in os.environ]
    subprocess.run([*command, f"{build}/libusched.a"], check=True)
    return build


# ---- Servers ----

class Server:
    """A process that has said that it is ready, on the first port that is free. The port
    comes before its arguments. `opened' is how many descriptors it had then."""

    def __init__(self, directory, program, *arguments, before=(), **options):
        for self.port in itertools.islice(ports, 20):
            self.said = os.path.join(directory, f"said.{self.port}")
            with open(self.said, "wb") as errors:
                self.process = subprocess.Popen(
                    [*before, program, str(self.port), *map(str, arguments)],
                    stdout=subprocess.PIPE, stderr=errors, **options)
            if self.process.stdout.readline() == b"ready\n":
                until(self.asleep, "the server's sleep")
                self.opened = self.descriptors()
                return
            self.kill()
            if "in use" not in self.errors():
                break
        raise AssertionError(f"{program} does not get ready: {self.errors()}")

    def states(self):
        """Of its native threads: whether they sleep, and how often they were switched to."""
        tasks = f"/proc/{self.process.pid}/task"
        return {task: re.findall(r"(?m)^State:.*|.*ctxt_switches:.*",
                                 content(f"{tasks}/{task}/status", "r"))
                for task in os.listdir(tasks)}

    def asleep(self):
        """All its native threads, at the same time: what it needs to begin with is open
        then. None was switched to between two looks."""
        with contextlib.suppress(OSError):
            states = self.states()
            return all("S (" in words[0] for words in states.values()) and \
                states == self.states()
        return False

    def errors(self):
        """Without what valgrind remarks on system calls that it does not know."""
        return re.sub(r"(?m)^--[0-9]+-- .*\n", "", content(self.said, "rb").decode("latin-1"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self, what):
        """KiB, of a field such as VmRSS."""
        status = content(f"/proc/{self.process.pid}/status", "r")
        return int(re.search(rf"(?m)^{what}:\s*(\d+)", status).group(1))

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def kill(self):
        if self.process.returncode is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def dial(self, receive=None):
        """A connection; `receive' limits what can arrive before it is read."""
        client = socket.socket()
        if receive:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        client.settimeout(600)
        client.connect((HERE, self.port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client


# ---- Clients ----

def reset(client):
    """Closes a connection by a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def receive(client, size):
    """So many bytes, or fewer at the end."""
    parts = []
    while size:
        part = client.recv(min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive_all(client):
    return receive(client, 1 << 62)


def dribble(client, data, pause, size=1):
    """Sends so many bytes at a time."""
    for i in range(0, len(data), size):
        client.sendall(data[i:i + size])
        time.sleep(pause)


class Case(unittest.TestCase):
    """A test with servers. Each of these must have its descriptors back at the end, exit
    with 0 upon a signal, and have said nothing."""

    longMessage = True

    def setUp(self):
        def late(*_):
            raise AssertionError(f"takes more than {LIMIT} seconds")
        signal.signal(signal.SIGALRM, late)
        signal.alarm(LIMIT)
        self.addCleanup(signal.alarm, 0)
        self.dir = self.enter(tempfile.TemporaryDirectory())

    def enter(self, context):
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, program, *arguments, ends=True, by=signal.SIGTERM, **options):
        """A server. Unless the test has ended it, it is ended, and looked at then."""
        server = Server(self.dir, program, *arguments, **options)
        self.addCleanup(server.kill)
        if ends:
            self.addCleanup(self.end_of, server, by)
        return server

    def end_of(self, server, by):
        if server.process.returncode is None:
            self.all_closed(server)
            self.end(server, by)

    def all_closed(self, server):
        until(lambda: server.descriptors() == server.opened, "the end of all descriptors")

    def end(self, server, by=signal.SIGTERM, status=0):
        server.signal(by)
        self.assertEqual(server.process.wait(), status, "exit status")
        self.assertEqual(server.errors(), "", "standard error")

    def dial(self, server, **options):
        return self.enter(server.dial(**options))

    def client(self, *command, ok=True, **options):
        """What a command prints. It must exit with 0, unless `ok' is False."""
        done = subprocess.run(command, stdout=subprocess.PIPE, **options)
        if ok:
            self.assertEqual(done.returncode, 0, command)
        return done.stdout

    def behind(self, *command, **options):
        """A client that is ended with the test if it has not come to its end by then."""
        process = subprocess.Popen(command, **options)

        def close():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()
        self.addCleanup(close)
        return process

    def talk(self, server, data, *options, ok=False):
        """What comes back for some bytes, through socat, until the server closes."""
        address = ",".join([f"TCP:{HERE}:{server.port}", *options])
        return self.client("socat", "-t600", "-", address, ok=ok, input=data,
                           stderr=subprocess.DEVNULL)

    def usage(self, *command):
        """Status 2, a usage on standard error, and nothing else."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout), (2, b""), command)
        self.assertRegex(done.stderr, b"(?m)^usage: ", command)
