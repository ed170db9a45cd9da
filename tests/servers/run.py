# SPDX-License-Identifier: MIT
"""Runs the programs of servers.py: starts each, asks it as a real client does, then with
many connections at a time, and ends it."""

import collections
import concurrent.futures
import contextlib
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scripts"))
import serverlib
from serverlib import B, HERE, content

PATIENCE = 60           # seconds: for a start, for an answer and for an end
COLUMNS = {"native": (), "usched-run": (f"{serverlib.ROOT}/posix/usched-run",)}
TESTS = os.path.dirname(os.path.abspath(__file__))

# What connections send again and again, and how the answer ends. `hello' is said once, as
# (bytes, pattern) pairs. A connection is closed after so many answers, if `each' is set.
Talk = collections.namedtuple("Talk", "ask answer hello udp tls each",
                              defaults=((), False, False, 0))


def http(path="/small", answer=rb"(?s)HTTP/1\.[01] 200.*\r\n\r\nhello", **options):
    return Talk(f"GET {path} HTTP/1.1\r\nHost: {HERE}\r\n\r\n".encode(), answer, **options)


def dns(name, answer):
    """A question for an address."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return Talk(b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1",
                rb"(?s)\x12\x34[\x80-\x87].*" + re.escape(socket.inet_aton(answer)),
                udp=True)


class Failed(Exception):
    pass


class Connection:
    def __init__(self, port, talk):
        self.talk = talk
        self.socket = socket.socket(type=socket.SOCK_DGRAM if talk.udp else socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        self.socket.connect((HERE, port))
        if talk.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.said = [(ask, self.ask(ask, answer)) for ask, answer in talk.hello]

    def ask(self, ask, answer):
        self.socket.sendall(ask)
        got = b""
        while not re.fullmatch(answer, got):
            part = self.socket.recv(1 << 16)
            if not part:
                raise Failed(f"the connection ends after {got[-300:]}")
            got += part
        return got

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def converse(port, talk, rounds):
    while rounds:
        with Connection(port, talk) as connection:
            for _ in range(talk.each or rounds):
                connection.ask(talk.ask, talk.answer)
                rounds -= 1


class Program:
    """name      in the table
    packages  of Debian
    start     its command; {dir}, {port}, {more}, a second port, {web}, that of a web
              server, {tests}, this directory, and {here} are filled in, as in all texts
    files     names and contents
    before    shell commands
    client    shell command, which must print what `says' matches
    talk      a Talk: many connections
    ready     tcp, udp, or a file that is there then
    needs     a program, or a file, without which there is no test; `start' is one
    busy      connections of a measurement that send messages; 0: it has none
    idle      those that send none after the first; 0: it has no room for many
    measures  functions of a Run, by what they measure, that return values of MEASURES; a
              measurement with the Talk is not among these
    front     a command, between a measurement's connections, at {more}, and the program
    stop      a signal, whose exit status is `status'; None: it ends by itself
    about     what it is"""

    files, before, client, says, talk, ready = {}, "", "", "", None, "tcp"
    stop, status, about, needs = signal.SIGTERM, 0, "", ""
    busy, idle, front, measures = 64, 1000, "", None

    def __init__(self, name, packages, start, **options):
        self.name, self.packages, self.start = name, packages, start
        self.__dict__.update(options)


class Run:
    """A program that runs, in a column."""

    def __init__(self, program, column, directory, web):
        self.program, self.column = program, column
        self.dir = directory
        os.chmod(directory, 0o777)
        free = (port for port in serverlib.ports if not serverlib.listens(port))
        self.port, self.more = next(free), next(free)
        self.values = dict(dir=directory, port=self.port, more=self.more, web=web,
                           tests=TESTS, here=HERE)
        self.environment = {**os.environ, "TMPDIR": directory}
        self.process = None

    def fill(self, text):
        for name, value in self.values.items():
            name, value = "{%s}" % name, str(value)
            text = (text.replace(name, value) if isinstance(text, str) else
                    text.replace(name.encode(), value.encode()))
        return text

    def shell(self, command, what):
        done = subprocess.run(self.fill(command), shell=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=10 * PATIENCE, cwd=self.dir,
                              stdin=subprocess.DEVNULL, errors="replace", env=self.environment)
        if done.returncode:
            raise Failed(f"{what}: status {done.returncode}: {done.stdout[:1000]} ... {done.stdout[-1000:]}")
        return done.stdout

    def said(self):
        return content(f"{self.dir}/said", "rb").decode(errors="replace")

    def begin(self):
        program = self.program
        for name, text in program.files.items():
            path = os.path.join(self.dir, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(self.fill(text))
        if program.before:
            self.shell(program.before, "before it")
        with open(f"{self.dir}/said", "wb") as said:
            self.process = subprocess.Popen(
                [*COLUMNS[self.column], *shlex.split(self.fill(program.start))],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self.dir,
                start_new_session=True, env={**self.environment, "UPOSIX_LOG": f"{self.dir}/log"},
                preexec_fn=lambda: os.sched_setaffinity(0, CPUS["server"]))
        end = time.monotonic() + PATIENCE
        while program.stop and not self.is_ready():
            if self.process.poll() is not None:
                raise Failed(f"it has ended with {self.process.returncode}: {self.said()[-1000:]}")
            if time.monotonic() > end:
                raise Failed(f"it does not get ready: {self.said()[-1000:]}")
            time.sleep(0.05)

    def is_ready(self):
        ready = self.program.ready
        if ready == "tcp":
            return serverlib.listens(self.port)
        if ready == "udp":
            return any(here == self.port for here, *_ in serverlib.connections("udp"))
        return os.path.exists(self.fill(ready))

    def clients(self, connections, rounds):
        program = self.program
        if program.client:
            said = self.shell(program.client, "client")
            if not re.search(program.says, said):
                raise Failed(f"client: {said[-1000:]}")
        if program.talk:
            talk = program.talk._replace(ask=self.fill(program.talk.ask))
            with concurrent.futures.ThreadPoolExecutor(connections) as pool:
                for each in [pool.submit(converse, self.port, talk, rounds)
                             for _ in range(connections)]:
                    each.result()

    def end(self):
        program = self.program
        if program.stop:
            self.process.send_signal(program.stop)
        status = self.process.wait(PATIENCE)
        if status != program.status:
            raise Failed(f"exit status {status}, not {program.status}: {self.said()[-1000:]}")
        end = time.monotonic() + PATIENCE
        while self.others():
            if time.monotonic() > end:
                raise Failed(f"processes are left: {self.others()}")
            time.sleep(0.05)

    def whole(self):
        """us of CPU, up to its end."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.process.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1e6 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)

    def others(self):
        """Processes of its session."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                stat = content(f"/proc/{pid}/stat", "r").rpartition(")")[2].split()
                if int(stat[3]) == self.process.pid and stat[0] != "Z":
                    found.append(int(pid))
        return found

    def kill(self):
        if self.process:
            for pid in self.others():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()

    def mode(self):
        """Who has thread-local variables, and what else the library says."""
        log = f"{self.dir}/log"
        lines = content(log, "r").splitlines() if os.path.exists(log) else []
        lines += [line for line in self.said().splitlines() if "usched: " in line]
        own = [line for line in lines if "variables of their own" in line]
        other = [line for line in lines
                 if line not in own and "do not choose their CPUs" not in line
                 and "its other threads wait" not in line]      # a slow disk
        if other:
            raise Failed(f"it says {other}")
        return "own" if own else "none"


def attempt(program, column, web):
    """What went wrong, or None; and the mode."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        run = Run(program, column, directory, web)
        try:
            run.begin()
            run.clients(20, 20)
            run.end()
            return None, run.mode()
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            return f"{type(error).__name__} {error}", ""
        finally:
            run.kill()


def load(run, *options):
    """Names and values of bench/load.c, with what the program's connections say."""
    program = run.program
    talk = program.talk._replace(ask=run.fill(program.talk.ask))
    with Connection(run.port, talk) as connection:
        said = [*connection.said, (talk.ask, connection.ask(talk.ask, talk.answer))]
    with open(f"{run.dir}/pairs", "wb") as file:
        for ask, got in said:
            end = b"" if talk.udp else got[-5:]
            file.write(bytes([len(ask)]) + ask + bytes([len(end)]) + end)
    command = [f"{B}/bench/load", "run", "-p", "udp" if talk.udp else "file",
               "-x", f"{run.dir}/pairs", "-t", str(PATIENCE), *map(str, options)]
    for pid in run.others():
        command += ["-w", str(pid)]
    done = subprocess.run([*command, str(run.more if program.front else run.port)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failed(f"load: status {done.returncode}: {done.stdout} {done.stderr}")
    words = done.stdout.split()
    return {name: float(value) for name, value in zip(words[::2], words[1::2])}


def measure_talk(run):
    """CPU of a message, us; p99, ms; memory of an idle connection, KiB: the program's, and
    the kernel's for native threads."""
    program = run.program
    if not program.busy:
        return {}
    if program.talk.each:
        busy = load(run, "-n", program.busy, "-k", 1, "-r", 5000 // program.busy)
        return dict(cpu=busy["open_us"], p99=busy["p99_us"] / 1000)
    busy = load(run, "-n", program.busy, "-s", 3)
    found = dict(cpu=busy["cpu_us"], p99=busy["p99_us"] / 1000)
    if program.idle and not program.talk.udp:
        idle = load(run, "-n", program.idle, "-i", 3)
        found.update(user=idle["user"], kernel=idle["kb"] - idle["user"])
    return found


def measure_program(program, web, runs):
    """Rows of doc/servers.md: medians of runs in turns."""
    values, mode = collections.defaultdict(list), ""
    measures = {**({"": measure_talk} if program.talk else {}), **(program.measures or {})}
    for column in list(COLUMNS) * runs:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            run = Run(program, column, directory, web)
            front = None
            try:
                run.begin()
                if program.stop:
                    run.clients(2, 2)
                if program.front:
                    front = subprocess.Popen(shlex.split(run.fill(program.front)),
                                             stderr=subprocess.DEVNULL)
                    serverlib.until(lambda run=run: serverlib.listens(run.more))
                for what, measure in measures.items():
                    for name, value in measure(run).items():
                        values[what, name, column].append(value)
                run.end()
                mode = run.mode()
            except (Failed, OSError) as error:
                print(f"{program.name}, {column}: {error}", file=sys.stderr)
                return
            finally:
                if front:
                    front.kill()
                    front.wait()
                run.kill()
    for what in measures:
        cells = [f"{program.name}{what and ', '}{what}", version(program), program.about, mode]
        cells += [" / ".join(f"{statistics.median(values[what, name, column]):.{digits}f}"
                             for column in COLUMNS)
                  if values[what, name, "native"] else "" for name, digits in MEASURES.items()]
        print("| " + " | ".join(cells) + " |")


CPUS = {"server": os.sched_getaffinity(0)}
MEASURES = {"cpu": 0, "p99": 1, "user": 1, "kernel": 1}         # and digits


def processor_time(run):
    """us, of all processes."""
    ticks = 0
    for pid in run.others():
        fields = content(f"/proc/{pid}/stat", "r").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks * 1e6 / os.sysconf("SC_CLK_TCK")


def version(program):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", program.packages.split()[0]],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return re.sub(r"^[0-9]+:|[-+~].*", "", done.stdout)


def missing(program):
    needs = [shlex.split(program.start)[0], *program.needs.split()]
    return not all("{" in each or shutil.which(each) or os.path.isfile(each) for each in needs)


@contextlib.contextmanager
def web_server():
    """The port of a web server with a small file and a page."""
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/small", "w") as file:
            file.write("hello")
        port = next(port for port in serverlib.ports if not serverlib.listens(port))
        server = subprocess.Popen([serverlib.example("05-httpd"), str(port), directory],
                                  stdout=subprocess.PIPE)
        server.stdout.readline()
        try:
            yield port
        finally:
            server.kill()
            server.communicate()


def main(table, few):
    sys.stdout.reconfigure(line_buffering=True)
    serverlib.more_descriptors()
    os.environ["PATH"] += ":/usr/sbin"
    runs = int(sys.argv.pop(2)) if sys.argv[1:2] == ["--measure"] else 0
    if runs and len(CPUS["server"]) > 1:
        CPUS["server"] = {min(CPUS["server"])}
        os.sched_setaffinity(0, os.sched_getaffinity(0) - CPUS["server"])
    names = sys.argv[2:] if runs else few if sys.argv[1:] == ["few"] else sys.argv[1:]
    failed = passed = 0
    left_out = []
    chosen = [each for each in table if not names or each.name in names]
    with web_server() as web:
        for program in chosen:
            if missing(program):
                left_out.append(program.name)
                continue
            if runs:
                measure_program(program, web, runs)
                continue
            for column in COLUMNS:
                began = time.monotonic()
                wrong, mode = attempt(program, column, web)
                if wrong:
                    print(f"servers: FAIL: {program.name}, {column}: {wrong}")
                    failed += 1
                else:
                    print(f"{program.name:20} {column:10} {time.monotonic() - began:5.1f} s  {mode}")
                    passed += 1
    if runs:
        return 0
    print(f"{passed} passed, {failed} failed" +
          (f"; without {' '.join(left_out)}" if left_out else ""))
    return failed != 0 or (77 if not passed else 0)
