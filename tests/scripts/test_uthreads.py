#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/uthreads: what it shows of threads is what these noted of themselves.

traced.c is the program: its threads print the return addresses of their frames and then
block. It is looked at as a process, as a core file and with gdb; with the switch of the
machine, the portable one, and in the stress build; as PIE, static and stripped.

    B      the build directory; default build
    CC     the compiler; default that of B
"""

import contextlib
import glob
import json
import os
import random
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
import serverlib
from serverlib import B, ROOT, until

UTHREADS = os.path.join(ROOT, "tools", "uthreads")
LIMIT = 300             # seconds: a command that takes so long hangs
THREADS, SEED = 20, 7
NOTED = re.compile(r"^trace (0x[0-9a-f]+) (\d+) ?(.*)$", re.M)
MODULES = sorted(os.path.relpath(p, ROOT)[:-2] for p in glob.glob(f"{ROOT}/u*.c")
                 + glob.glob(f"{ROOT}/src/*/*.c")) + ["rr"]


VARIABLES = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__thread volatile int mine, other[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;

static void *keep(void *number)
{
	mine = 700 + (int)(long)number;
	other[1] = 900 + (int)(long)number;
	pthread_barrier_wait(&all);
	pthread_mutex_lock(&mutex);
	return number;
}

int main(int argc, char **argv)
{
	pthread_t t;

	pthread_mutex_lock(&mutex);
	pthread_barrier_init(&all, NULL, 5);
	for (long i = 0; i < 4; i++)
		pthread_create(&t, NULL, keep, (void *)i);
	pthread_barrier_wait(&all);
	if (strcmp(argv[argc - 1], "end") == 0)
		return 0;
	usleep(200000);
	puts("ready");
	fflush(stdout);
	if (strcmp(argv[argc - 1], "crash") == 0)
		abort();
	pause();
}
"""


BOXES = """
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BOXES = 40 };

static struct box { char head[40]; sem_t sem; } *volatile boxes[BOXES];
static __thread struct box *volatile mine;
static volatile pthread_t handles[BOXES];
static int begun;

static void say(const char *how)
{
	pthread_setname_np(pthread_self(), how);
	__atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
}

static void start(void *(*func)(void *), void *arg, int detached)
{
	pthread_t t;

	pthread_create(&t, NULL, func, arg);
	if (detached)
		pthread_detach(t);
}

static void *hold(void *box)
{
	say("kept");
	sleep(1000);
	sem_post(&((struct box *)box)->sem);
	return NULL;
}

static void *join(void *thread)
{
	say("lost");
	pthread_join((pthread_t)thread, NULL);
	return NULL;
}

static void *await(void *number)
{
	struct box *b = calloc(1, sizeof *b);
	long n = (long)number;

	sem_init(&b->sem, 0, 0);
	mine = b;
	if (n % 8 == 0)
		boxes[n] = b;
	if (n % 8 == 4)
		handles[n] = pthread_self();
	if (n % 4 == 1)
		start(hold, b, 1);
	if (n % 4 == 3)
		start(join, (void *)pthread_self(), 1);
	say(n % 4 < 2 ? "kept" : "lost");
	sem_wait(&b->sem);
	return NULL;
}

static void *lose(void *unused)
{
	for (long n = 0; n < BOXES; n++)
		start(await, (void *)n, n % 4 != 3);
	return unused;
}

int main(int argc, char **argv)
{
	start(lose, NULL, 1);
	while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < BOXES * 3 / 2)
		usleep(1000);
	usleep(200000);
	puts("ready");
	fflush(stdout);
	if (strcmp(argv[argc - 1], "crash") == 0)
		abort();
	for (;;)
		pause();
}
"""


def patiently(check):
    """check(1), or with more time. A busy machine lets neither the tool nor the process do
    much in a moment."""
    for times in 1, 10:
        with contextlib.suppress(AssertionError):
            return check(times)
    return check(60)


def setting(name):
    with open(f"{B}/flags") as lines:
        return next((line.rstrip("\n").split("=", 1)[1] for line in lines
                     if line.startswith(name + "=")), "")


def command(*words, status=0, **more):
    """Standard output of a program. Standard error goes to the log."""
    done = subprocess.run(words, stdout=subprocess.PIPE, timeout=LIMIT, text=True,
                          stdin=subprocess.DEVNULL, **more)
    if done.returncode != status:
        raise AssertionError(f"{words}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def setUpModule():
    global directory, compiler, switch
    if not os.path.exists(f"{B}/flags"):
        raise unittest.SkipTest(f"nothing in {B}: run make first")
    switch = setting("SWITCH")
    compiler = shlex.split(os.environ.get("CC") or setting("CC"))
    flags = setting("CFLAGS")
    if "-fsanitize" in flags:
        raise unittest.SkipTest("sanitizers keep cores and stacks of their own")
    if switch not in ("x86_64", "aarch64") and os.uname().machine not in ("x86_64", "aarch64"):
        raise unittest.SkipTest("uthreads knows x86-64 and AArch64")
    directory = tempfile.mkdtemp()
    unittest.addModuleCleanup(shutil.rmtree, directory)
    os.environ["PYTHONPYCACHEPREFIX"] = f"{directory}/cache"


def objects(kind):
    """Those of a build of make check, or of one that is made here."""
    if kind == "default":
        return [f"{B}/libusched.a"]
    sources = [f"{m}.c" for m in MODULES]
    arch, options = switch, []
    if kind == "setjmp":
        arch = "setjmp"
    else:
        options = ["-DUSCHED_CHECK", "-DUSCHED_STRESS"]
    machine = f"arch/{arch}.c" if arch == "setjmp" else f"arch/{arch}.S"
    built = [f"{B}/{kind}/{m}.o" for m in MODULES] + [f"{B}/{kind}/arch/{arch}.o"]
    return built if all(map(os.path.exists, built)) else [*options, *sources, machine]


def build(name, kind="default", *options):
    path = f"{directory}/{name}"
    command(*compiler, "-std=c11", "-D_DEFAULT_SOURCE", "-O1", "-g", "-I.", "tests/help/traced.c", "-o",
            path, *options, *objects(kind), "-pthread", "-lm")
    return path


def noted(text):
    """Traces by handle."""
    return {handle: frames.split() for handle, _, frames in NOTED.findall(text)}


def parsed(text):
    """Of bt: by handle, addresses without leading zeros."""
    found, frames = {}, None
    for line in text.splitlines():
        head = re.match(r"thread \d+, (0x[0-9a-f]+)", line)
        frame = re.match(r" +#\d+ +0x0*([0-9a-f]+) ", line)
        if head:
            frames = found[head.group(1)] = []
        elif frame:
            frames.append("0x" + frame.group(1))
    return found


def parsed_gdb(text):
    """Of thread apply all bt. Inlined frames and the innermost have no address."""
    found, frames = {}, None
    for line in text.splitlines():
        head = re.match(r'Thread \d+ \(.*? (0x[0-9a-f]+) ', line)
        frame = re.match(r"#\d+ +0x0*([0-9a-f]+) in ", line)
        if head:
            frames = found[head.group(1)] = []
        elif line.startswith("Thread "):
            frames = []
        elif frame:
            frames.append("0x" + frame.group(1))
    return found


@contextlib.contextmanager
def running(*words, stderr=subprocess.DEVNULL):
    """A process that has said that it is ready, and what it printed before."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, stderr=stderr)
    try:
        text = ""
        while (line := process.stdout.readline()) != "ready\n":
            if not line:
                raise AssertionError(f"{words} ended")
            text += line
        yield process.pid, text
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def dumps():
    """Whether the kernel writes core files into the directory of the process."""
    with open("/proc/sys/kernel/core_pattern") as file:
        pattern = file.read()
    return not pattern.startswith(("|", "/")) and \
        resource.getrlimit(resource.RLIMIT_CORE)[1] != 0


def allow_core():
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def core_of(place, name="*core*"):
    found = glob.glob(f"{place}/{name}")
    if not found:
        raise unittest.SkipTest("there is no core file")
    return found[0]


def crashed(*words, name="*core*"):
    """What a program printed that crashes, and its core file."""
    if not dumps():
        raise unittest.SkipTest("core files do not go to the directory of the process")
    place = tempfile.mkdtemp(dir=directory)
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=LIMIT, cwd=place,
                          preexec_fn=allow_core, stderr=subprocess.DEVNULL)
    if done.returncode >= 0:
        raise AssertionError(f"{words}: exit status {done.returncode}, and no crash")
    return done.stdout, core_of(place, name)


class Traces(unittest.TestCase):
    def compare(self, wanted, found):
        """Inner frames of the wait come first, and the switch's own last."""
        self.assertTrue(wanted)
        for handle, frames in wanted.items():
            self.assertIn(handle, found)
            trace = found[handle]
            self.assertIn(frames[0], trace, (handle, frames, trace))
            at = trace.index(frames[0])
            self.assertLessEqual(at, 8, trace)
            self.assertEqual(trace[at:at + len(frames)], frames)

    def look(self, program, *stacks):
        """As a core file and as a process."""
        for count, processors in stacks:
            words = program, str(THREADS), str(count), str(processors), str(SEED + count)
            with self.subTest(stacks=count, how="core"):
                text, core = crashed(*words, "crash")
                self.compare(noted(text), parsed(command(UTHREADS, "bt", core)))
                os.unlink(core)
            with self.subTest(stacks=count, how="process"), running(*words, "stay") as \
                    (pid, text):
                self.compare(noted(text), parsed(command(UTHREADS, "bt", str(pid))))

    def test_default(self):
        self.look(build("default"), (1, 1), (1024, 2))

    def test_setjmp(self):
        self.look(build("setjmp", "setjmp"), (0, 1))

    def test_stress(self):
        self.look(build("stress", "stress"), (3, 2))

    def test_stripped(self):
        """Without symbols and debug information, at fixed addresses and moved."""
        for name, options in (("static", ["-static"]), ("fixed", ["-no-pie"])):
            try:
                program = build(name, "default", "-s", *options)
            except AssertionError:
                continue                # there is no static libc
            with self.subTest(name):
                self.look(program, (2, 1))


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = build("commands")

    def start(self, *words):
        return running(self.program, str(THREADS), "2", "2", str(SEED), "stay", *words)

    def test_ps(self):
        with self.start() as (pid, text):
            listed = command(UTHREADS, "ps", str(pid)).splitlines()
            named = command(UTHREADS, "ps", str(pid), "--filter", "the first")
            few = command(UTHREADS, "ps", str(pid), "--limit", "3")
        self.assertEqual(len(listed), 1 + THREADS + 3, listed)
        for handle in noted(text):
            line = next(line for line in listed if handle in line)
            self.assertIn(" work ", line)
            self.assertRegex(line, "semaphore 0x[0-9a-f]+, [0-9.]+ s left|a wake")
        self.assertEqual(sum("semaphore" in line for line in listed), THREADS // 4)
        self.assertEqual(sum(" keep " in line and " running " in line for line in listed), 1)
        self.assertRegex(named, " the first +work ")
        self.assertEqual(len(named.splitlines()), 2)
        self.assertEqual(len(few.splitlines()), 5)

    def test_waits(self):
        """Each kind of wait, with its object and the holder of that."""
        with running(self.program, "1", "64", "1", str(SEED), "waits") as (pid, text):
            listed = command(UTHREADS, "ps", str(pid))
        at = dict(re.findall(r"^object (\w+) (\S+)$", text, re.M))
        found = dict(re.findall(r" (\w+) +((?:channel|descriptor|mutex|a |semaphore).*)$", listed,
                                re.M))
        self.assertEqual(found["receive"], f"channel {at['chan']} to receive")
        self.assertRegex(found["choose"],
                         f"^channel {at['chan']} to receive, or others, [0-9.]+ s left$")
        self.assertEqual(found["poll_two"], f"descriptor {at['pipe']} to read, or others")
        self.assertEqual(found["read_pipe"], f"descriptor {at['pipe']} to read")
        holder = re.search(r"(0x[0-9a-f]+) .* hold_mutex ", listed).group(1)
        self.assertEqual(found["want_mutex"],
                         f"mutex {at['mutex']}, held by thread {holder} 'holder'")
        self.assertRegex(found["in_scope"], "^semaphore 0x[0-9a-f]+$")

    def test_running(self):
        """A thread that runs is stopped for a moment, and goes on."""
        with self.start() as (pid, _):
            text = command(UTHREADS, "bt", str(pid), "--filter", " keep ")
            self.assertRegex(text, "#[1-9] +0x[0-9a-f]+ keep.*\n")
            with open(f"/proc/{pid}/status") as file:
                self.assertRegex(file.read(), r"State:\t[RS][^$]*TracerPid:\t0\n")
            self.assertRegex(command(UTHREADS, "bt", str(pid), "the first"), " work")

    def test_interrupted(self):
        """Threads that a signal has interrupted, one of which runs, but in an instant
        between them."""
        if switch == "setjmp":
            self.skipTest("the portable switch has no slices")
        patiently(self.check_interrupted)

    def check_interrupted(self, _):
        words = self.program, str(THREADS), "2", "1", str(SEED)
        text, core = crashed(*words, "slices")
        self.assertEqual(len(noted(text)), THREADS)
        shown = command(UTHREADS, "bt", core, "--filter", " compute_in_slices ")
        traces = shown.split("\n\n")[:-1]
        self.assertEqual(len(traces), 3)
        for trace in traces:
            self.assertRegex(trace, "#[0-9]+ +0x[0-9a-f]+ compute")
        self.assertEqual(shown.count(" running,"), 1)

    def test_overflow(self):
        _, core = crashed(self.program, str(THREADS), "2", "1", str(SEED), "overflow")
        shown = command(UTHREADS, "bt", core, "--filter", " overflow ")
        self.assertGreater(shown.count(" outgrow+"), 500)

    def test_group(self):
        with self.start() as (pid, _):
            text = command(UTHREADS, "bt", str(pid), "--group", "--filter", " work ")
        counts = [int(n) for n in re.findall(r"^(\d+) threads?, ", text, re.M)]
        self.assertEqual(sum(counts), THREADS)
        self.assertLess(len(counts), THREADS)
        self.assertRegex(text, r" work\+0x\w+ in commands at traced\.c:\d+\n")

    def test_lines(self):
        """Of a program that is moved, and of one at fixed addresses."""
        with open(os.path.join(ROOT, "tests/help/traced.c")) as file:
            at = next(n for n, line in enumerate(file, 1) if "void work(" in line)
        for name, option, base in ("moved", "-pie", 0), ("fixed", "-no-pie", 0x400000):
            program = build(name, "default", option)
            first, = re.findall(r"^(\w+) . work$", command("nm", program), re.M)
            report = f"usched: at 1 ({name}+{int(first, 16) - base:#x} work), (b+0x1 f)\n(c) d+0x1\n"
            done = subprocess.run([UTHREADS, "lines", program], input=report, text=True,
                                  stdout=subprocess.PIPE, timeout=LIMIT, check=True)
            self.assertIn(done.stdout, [report.replace("work)", f"work) at traced.c:{n}")
                                        for n in (at, at + 1)])

    def test_group_limit(self):
        """A limit is one of groups, which have all their threads."""
        with self.start() as (pid, _):
            words = UTHREADS, "bt", str(pid), "--group", "--filter", " work "
            whole, cut = command(*words), command(*words, "--limit", "1")
        counts, shown = ([int(n) for n in re.findall(r"^(\d+) threads?, ", text, re.M)]
                         for text in (whole, cut))
        self.assertGreater(counts[0], 1)
        self.assertEqual(shown, counts[:1])
        self.assertIn(f"groups that --limit leaves out: {len(counts) - 1}\n", cut)

    def test_group_functions(self):
        """Functions that end in a jump are in no frame, and still are told apart."""
        program = build("jumps", "default", "-foptimize-sibling-calls")
        with running(program, "1", "64", "1", str(SEED), "waits") as (pid, _):
            text = command(UTHREADS, "bt", str(pid), "--group")
        found = re.findall(r"^1 thread, waiting, such as .* function (\w+)$", text, re.M)
        self.assertLessEqual({"hold_mutex", "want_mutex"}, set(found), text)

    def test_errors(self):
        for words in (["ps", str(os.getpid())], ["ps", "/bin/sh"], ["bt", "/nowhere"]):
            with self.subTest(words):
                command(UTHREADS, *words, status=1, stderr=subprocess.DEVNULL)


def posix(test, source, name):
    """The command that runs a program's threads of POSIX."""
    library, program = f"{B}/libusched-posix.so", f"{directory}/{name}"
    if not os.path.exists(library):
        test.skipTest(f"there is no {library}: run make posix first")
    with open(f"{program}.c", "w") as file:
        file.write(source)
    command(*compiler, "-g", "-D_GNU_SOURCE", f"{program}.c", "-o", program, "-pthread")
    os.environ["USCHED_POSIX"] = os.path.abspath(library)
    test.addCleanup(os.environ.pop, "USCHED_POSIX")
    return os.path.join(ROOT, "posix", "usched-run"), program


class Lost(unittest.TestCase):
    """No thread that can be woken is lost. A word that is left somewhere may hide some that
    are."""

    def check(self, text, target):
        found = set(re.findall(r"^ +\d+ +(0x\w+)", command(UTHREADS, "ps", "--lost", target), re.M))
        wanted = {how: set(re.findall(rf"^{how} (0x\w+)", text, re.M)) for how in ("kept", "lost")}
        self.assertFalse(found & wanted["kept"])
        self.assertLessEqual(found, wanted["lost"])
        self.assertGreater(len(found), len(wanted["lost"]) // 2)

    def test_lost(self):
        program = build("lost")
        for stacks, processors in (1024, 1), (1024, 2), (2, 2):
            words = program, "1", str(stacks), str(processors), str(SEED)
            with self.subTest(stacks=stacks, processors=processors):
                with running(*words, "lost") as (pid, text):
                    self.check(text, str(pid))
                text, core = crashed(*words, "lost-crash")
                self.check(text, core)
                os.unlink(core)


    def check_names(self, look):
        """The name of each tells how it should be. Words that a switch has left in frames
        may lead from each thread to the next, which then hides all: another process may do."""
        for _ in range(5):
            said = look()
            self.assertNotIn(" kept ", said)
            if said.count(" lost ") > 15:
                return
        self.fail(said)

    def test_posix(self):
        """Threads of POSIX: in a semaphore on the heap, or joining such a thread."""
        words = posix(self, BOXES, "boxes")

        def look():
            with running(words[0], *options, words[1], "stay") as (pid, _):
                return command(UTHREADS, "ps", "--lost", str(pid))

        for options in [], ["--processors", "1", "--tls", "none"]:
            with self.subTest(options):
                self.check_names(look)
        self.check_names(lambda: command(UTHREADS, "ps", "--lost",
                                         crashed(*words, "crash", name="*")[1]))

    def test_dump(self):
        """By the process itself, upon SIGQUIT."""
        words, path = posix(self, BOXES, "boxes"), f"{directory}/dump"

        def groups():
            with open(path) as file:
                said = file.read().partition("threads that nothing can wake:\n")[2]
            return re.findall(r"^(\d+) threads?, .*'(\w+)'.* function (\w+)$", said, re.M)

        os.environ["USCHED_LOST"] = UTHREADS
        self.addCleanup(os.environ.pop, "USCHED_LOST")
        with open(path, "w") as file, running(*words, "stay", stderr=file) as (pid, _):
            os.kill(pid, signal.SIGQUIT)
            until(groups, "the dump")
        self.assertEqual({g[1] for g in groups()}, {"lost"})


class Damaged(unittest.TestCase):
    """Core files and traces with bytes that are not what they should be. There are answers
    or a line that says what is wrong, and what is printed is text."""

    SEEDS = 12

    def setUp(self):
        self.random = random.Random(1)
        self.copy = f"{directory}/copy"

    def ends_well(self, data, *arguments, name="bt"):
        with open(self.copy, "wb") as file:
            file.write(data)
        done = subprocess.run([UTHREADS, name, self.copy, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=LIMIT, stdin=subprocess.DEVNULL)
        said = done.stderr.decode()
        self.assertIn(done.returncode, (0, 1), said)
        self.assertNotIn("Traceback", said)
        if done.returncode:
            self.assertRegex(said, "^uthreads: .*\n")
        text = done.stdout.decode() + said
        self.assertTrue(text.replace("\n", "").isprintable(), text)
        return done.stdout.decode(), done.returncode

    def damage(self, data, places):
        """Some words, at places that are (offset, size)."""
        data = bytearray(data)
        for _ in range(self.random.choice((1, 3, 20))):
            at, size = self.random.choice(places)
            at += self.random.randrange(size // 8 or 1) * 8
            data[at:at + 8] = self.random.choice(
                (bytes(8), b"\xff" * 8, self.random.randbytes(8), struct.pack("<q", 1 << 62),
                 struct.pack("<Q", self.random.randrange(1 << 16))))
        return bytes(data)

    def test_core(self):
        text, core = crashed(build("damaged"), str(THREADS), "2", "2", str(SEED), "crash")
        with open(core, "rb") as file:
            data = file.read()
        count, = struct.unpack_from("<H", data, 56)
        loads, notes = [], []
        for i in range(count):
            kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, 64 + 56 * i)
            (notes if kind == 4 else loads).append((offset, address, size))
        records = [(offset + at - address, 160) for at in (int(h, 16) for h in noted(text))
                   for offset, address, size in loads if address <= at < address + size]
        layouts = [(m.start(), 4096) for m in re.finditer(b"usched layout\xa7", data)]
        self.assertTrue(records and layouts)
        wrong = 0
        for places in [(0, 64), (64, 56 * count)], [(at, size) for at, _, size in notes], \
                records, layouts:
            for _ in range(self.SEEDS // 3):
                wrong += self.ends_well(self.damage(data, places))[1]
        for _ in range(self.SEEDS // 3):
            size = self.random.choice((len(data), 1 << 16, 4096))
            wrong += self.ends_well(data[:self.random.randrange(size)])[1]
        self.assertGreater(wrong, 0)

    def test_names(self):
        """Of a process that does not keep to what ustack_name() leaves."""
        _, core = crashed(build("named"), "1", "2", "1", str(SEED), "crash")
        with open(core, "rb") as file:
            data = file.read()
        shown, status = self.ends_well(data.replace(b"the first", b"\033[2J\n\xff\xc2\x9b!"))
        self.assertEqual(status, 0)
        self.assertIn(" '?[2J?\ufffd?!',", shown)


class Trace(Traces):
    """Of a process that goes on."""

    test_default = test_setjmp = test_stress = test_stripped = None

    @classmethod
    def setUpClass(cls):
        cls.program = build("trace", "default", "-Wl,-u,utrace__control")
        cls.words = cls.program, str(THREADS), "2", "2", str(SEED)
        cls.count = 0

    def trace(self, pid, *words, **more):
        """What was written, and what was said of it."""
        Trace.count += 1
        path = f"{directory}/trace{self.count}.json"
        said = command(UTHREADS, "trace", str(pid), *words, "-o", path, **more)
        with open(path) as file:
            return json.load(file), said

    def slices(self, trace, pid):
        """By track: (start, end, name), in their order."""
        found = {}
        for e in trace["traceEvents"]:
            if e["ph"] == "X" and e["pid"] == pid:
                found.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"], e["name"]))
        return {track: sorted(slices) for track, slices in found.items()}

    def check(self, trace):
        """Slices of a track do not overlap; flows lead from one run to another."""
        for pid in 1, 2:
            for slices in self.slices(trace, pid).values():
                for one, other in zip(slices, slices[1:]):
                    self.assertLess(one[1], other[0] + 0.0005, (one, other))
        threads, ends = self.slices(trace, 1), {}
        for e in trace["traceEvents"]:
            if e["ph"] in "sf":
                ends.setdefault(e["id"], {})[e["ph"]] = e
                self.assertTrue(any(start - 0.0005 < e["ts"] < end + 0.0005 and name == "run"
                                    for start, end, name in threads[e["tid"]]), e)
        for flow in ends.values():
            self.assertEqual(set(flow), set("sf"))
            self.assertLessEqual(flow["s"]["ts"], flow["f"]["ts"])
        return ends

    def test_live(self):
        patiently(self.check_live)

    def check_live(self, times):
        with running(*self.words, "stay") as (pid, text):
            trace, said = self.trace(pid, str(0.3 * times))
            again, _ = self.trace(pid, str(0.1 * times))
            self.assertEqual(self.asked(pid), 0)
            self.compare(noted(text), parsed(command(UTHREADS, "bt", str(pid))))
            with open(f"/proc/{pid}/status") as file:
                self.assertRegex(file.read(), r"TracerPid:\s0\n")
        self.check(trace)
        self.check(again)
        self.assertRegex(said, r"\d+ events of 2 processors in \d+\.\d+ s, none lost\n")
        self.assertRegex(said, r"processor 0\.1 has not begun: keep 0x[0-9a-f]+ keeps it")
        self.assertRegex(said, r"longest run: .* take_turns 0x[0-9a-f]+, processor 0\.0")
        names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
        self.assertEqual(sum(name.startswith("take_turns 0x") for name in names), 2)
        self.assertIn("processor 0.0", names)
        runs = self.slices(trace, 2)[0]
        self.assertGreater(len(runs), 20)
        self.assertGreater(runs[-1][1] - runs[0][0], 150000)        # us
        self.assertGreater(runs[-1][1] - runs[0][0],
                           self.slices(again, 2)[0][-1][1] - self.slices(again, 2)[0][0][0])

    @staticmethod
    def asked(pid):
        """Whether processors are to trace."""
        sys.path.insert(0, os.path.dirname(UTHREADS))
        from usched_view.target import Process
        from usched_view.threads import find_layouts
        target = Process(pid)
        layout, = find_layouts(target)
        at = layout.trace + layout.offset("utrace_control.tc_asked")
        return int.from_bytes(target.read(at, 4), "little")

    def test_signals(self):
        """It ends in time, and what was read is written."""
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(number):
                patiently(lambda times: self.check_signal(number, times))

    def check_signal(self, number, times):
        with running(*self.words, "stay") as (pid, _):
            path = f"{directory}/interrupted.json"
            tool = subprocess.Popen([UTHREADS, "trace", str(pid), "3600", "-o", path],
                                    stdout=subprocess.DEVNULL)
            until(lambda: self.asked(pid), "the trace")
            time.sleep(0.1 * times)
            tool.send_signal(number)
            self.assertEqual(tool.wait(LIMIT), 0)
            self.assertEqual(self.asked(pid), 0)
            with open(path) as file:
                self.assertTrue(self.slices(json.load(file), 2))

    def test_lost(self):
        """What is overwritten before it is read is counted, and nothing is made up."""
        patiently(self.check_lost)

    def check_lost(self, times):
        with running(*self.words, "stay") as (pid, _):
            path = f"{directory}/lost.json"
            tool = subprocess.Popen([UTHREADS, "trace", str(pid), str(0.9 * times), "-o", path,
                                     "--events", "64"], stdout=subprocess.PIPE, text=True)
            until(lambda: self.asked(pid) or tool.poll() is not None, "the trace")
            time.sleep(0.1 * times)
            tool.send_signal(signal.SIGSTOP)
            time.sleep(0.5 * times)
            tool.send_signal(signal.SIGCONT)
            said = tool.communicate(timeout=LIMIT)[0]
        with open(path) as file:
            trace = json.load(file)
        self.assertGreater(trace["otherData"]["lost"], 50)
        self.assertIn(f", {trace['otherData']['lost']} lost\n", said)
        self.check(trace)
        last = max(e["dur"] for e in trace["traceEvents"] if e["ph"] == "X")
        self.assertLess(last, 400000 * times)   # us: what was lost belongs to no slice

    def test_server(self):
        """Of a server, whose answers are the same; it ends in the trace."""
        program = f"{directory}/echo"
        command(*compiler, "-std=c11", "-D_DEFAULT_SOURCE", "-O1", "-I.", "examples/04-echo.c",
                "-o", program, "-Wl,-u,utrace__control", *objects("default"), "-pthread", "-lm")
        patiently(lambda times: self.check_server(program, times))

    def check_server(self, program, times):
        path = f"{directory}/server.json"
        with contextlib.ExitStack() as stack:
            server = serverlib.Server(directory, program, 2)
            stack.callback(server.kill)
            process = server.process
            sockets = [stack.enter_context(Server.dial(server)) for _ in range(20)]
            tool = stack.enter_context(subprocess.Popen(
                [UTHREADS, "trace", str(process.pid), "3600", "-o", path],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            until(lambda: self.asked(process.pid), "the trace")
            sockets.append(stack.enter_context(Server.dial(server)))
            for i in range(50):
                for k, s in enumerate(sockets):
                    s.sendall(b"%d %d" % (i, k))
                for k, s in enumerate(sockets):
                    self.assertEqual(s.recv(100), b"%d %d" % (i, k))
            time.sleep(0.1 * times)
            process.kill()
            process.wait()
            said = tool.communicate(timeout=LIMIT)[0]
            self.assertEqual(tool.returncode, 0, said)
        with open(path) as file:
            trace = json.load(file)
        self.check(trace)
        self.assertIn(" has ended meanwhile\n", said)
        runs = [e for e in trace["traceEvents"] if e["name"] == "run"]
        self.assertGreater(len(runs), 200)
        self.assertTrue(any(e["name"] == "runnable" for e in trace["traceEvents"]))
        self.assertTrue(any(e["name"].startswith("talk ") for e in trace["traceEvents"]
                            if e["ph"] == "X" and e["pid"] == 2))

    def test_errors(self):
        def said(*words):
            done = subprocess.run([UTHREADS, "trace", *words], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 1, done.stderr)
            return done.stderr

        self.assertIn("no usched__layout", said(str(os.getpid()), "0.1"))
        with running(build("plain"), *self.words[1:], "stay") as (pid, _):
            self.assertIn("utrace.c is not in it", said(str(pid), "0.1"))
        with running(*self.words, "stay") as (pid, _):
            self.assertIn("/nowhere/x: ", said(str(pid), "0.1", "-o", "/nowhere/x"))
            self.assertEqual(self.asked(pid), 0)


@unittest.skipUnless(shutil.which("gdb"), "there is no gdb")
class Gdb(Traces):
    @classmethod
    def setUpClass(cls):
        cls.program = build("gdb")
        cls.words = cls.program, str(THREADS), "2", "2", str(SEED)

    test_default = test_setjmp = test_stress = test_stripped = None

    def gdb(self, target, *commands):
        words = [word for c in commands for word in ("-ex", c)]
        return command(UTHREADS, "gdb", target, "--", "-nx", "-batch", *words,
                       stderr=subprocess.STDOUT)

    def test_core(self):
        text, core = crashed(*self.words, "crash")
        shown = self.gdb(core, "thread apply all bt", "set var sink = 1", "stepi",
                         "thread apply all -s -q frame apply 7 -s -q p text")
        self.compare(noted(text), parsed_gdb(shown))
        self.assertRegex(shown, "Cannot access memory|E01")
        texts = set(re.findall(r'"(thread \d+ waits)', shown))
        self.assertEqual(texts, {f"thread {i} waits" for i in range(THREADS)})

    def test_process(self):
        with running(*self.words, "stay") as (pid, text):
            shown = self.gdb(str(pid), "thread apply all bt", "info threads")
            self.compare(noted(text), parsed_gdb(shown))
            # It goes on, and no debugger has it.
            with open(f"/proc/{pid}/status") as file:
                self.assertRegex(file.read(), r"TracerPid:\s0\n")
            self.assertNotIn(" T ", command("ps", "-L", "-o", "stat=", str(pid)))
        self.assertIn("the first", shown)

    def test_variables(self):
        """Thread-local ones, in a process and in a core file, of threads of POSIX."""
        words = posix(self, VARIABLES, "mine")
        said = command(*words, "end", stderr=subprocess.STDOUT)
        if "variables of their own" not in said:
            self.skipTest(said)
        asked = "thread apply all -s -q p mine", "thread apply all -s -q p other[1]"
        with running(*words, "stay") as (pid, _):
            live = self.gdb(str(pid), *asked)
        _, core = crashed(*words, "crash", name="*")
        for shown in live, self.gdb(core, *asked):
            found = [int(n) for n in re.findall(r"^\$\d+ = (\d+)$", shown, re.M)]
            for first in 700, 900:
                self.assertEqual(sorted(n for n in found if first <= n < first + 100),
                                 [first + i for i in range(4)], shown)

    def test_commands(self):
        """For a gdb that has the process itself."""
        with running(*self.words, "stay") as (pid, text):
            script = os.path.join(ROOT, "tools", "usched-gdb.py")
            wanted = dict(list(noted(text).items())[::5])
            shown = command("gdb", "-nx", "-batch", "-ex", f"source {script}",
                            "-ex", "info ustacks", "-p", str(pid),
                            *(word for h in wanted for word in ("-ex", f"ustack {h} bt")),
                            stderr=subprocess.STDOUT)
        self.compare(wanted, parsed(shown))
        self.assertRegex(shown, r"in descend \(\) at tests/help/traced.c:\d+")
        self.assertRegex(shown, "the first +work ")


class Emulated(Traces):
    """AArch64, by the core files that qemu writes, which do not name files."""

    test_default = test_setjmp = test_stress = test_stripped = None
    EMULATOR = next(filter(shutil.which, ("qemu-aarch64-static", "qemu-aarch64")), None)

    def test_aarch64(self):
        cross = "aarch64-linux-gnu-gcc"
        if not shutil.which(cross) or not self.EMULATOR:
            self.skipTest(f"there is no {cross}, or no qemu")
        for arch in ("arch/aarch64.S", "arch/setjmp.c"):
            with self.subTest(arch):
                program = f"{directory}/aarch64"
                command(cross, "-static", "-std=c11", "-D_DEFAULT_SOURCE", "-O1", "-I.",
                        "tests/help/traced.c", *(f"{m}.c" for m in MODULES), arch, "-o", program,
                        "-pthread", "-lm")
                text, core = crashed(self.EMULATOR, program, str(THREADS), "3", "1", str(SEED),
                                     "crash", name="qemu_*.core")
                self.compare(noted(text), parsed(command(UTHREADS, "bt", "--program", program,
                                                         core)))


class Server(unittest.TestCase):
    CONNECTIONS = 100

    def test_crash(self):
        """A server crashes under load: its core has where each connection was."""
        program = os.path.abspath(f"{B}/examples/04-echo")
        if not os.path.exists(program):
            self.skipTest("the echo server is not built")
        if not dumps():
            self.skipTest("core files do not go to the directory of the process")
        place = tempfile.mkdtemp(dir=directory)
        with contextlib.ExitStack() as stack:
            server = serverlib.Server(directory, program, 2, cwd=place, preexec_fn=allow_core)
            stack.callback(server.kill)
            process = server.process
            sockets = [stack.enter_context(self.dial(server)) for _ in range(self.CONNECTIONS)]
            for _ in range(20):                 # each has been served
                for s in sockets:
                    s.sendall(b"x" * 100)
                for s in sockets:
                    self.assertTrue(s.recv(1000))
            for s in sockets:
                s.sendall(b"y" * 1000)
            process.send_signal(signal.SIGSEGV)
            process.wait(LIMIT)
        text = command(UTHREADS, "bt", core_of(place))
        traces = [t for t in text.split("\n\n") if "function talk" in t]
        self.assertEqual(len(traces), self.CONNECTIONS, text)
        for trace in traces:
            self.assertRegex(trace, r"#\d+ +0x[0-9a-f]+ talk")

    @staticmethod
    def dial(server):
        s = server.dial()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return s


if __name__ == "__main__":
    unittest.main()
