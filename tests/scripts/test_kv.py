#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/06-kv.c, with Redis' own clients: each command and each error, pipelines,
blocked clients, subscribers, expiry, limits, garbage, clients that die, SIGTERM under load.

Environment: that of serverlib.
"""

import contextlib
import os
import random
import re
import select
import shlex
import signal
import subprocess
import tempfile
import time
import unittest

import serverlib
from serverlib import content, until

KV = serverlib.example("06-kv")
RANGE = "(error) ERR value is not an integer or out of range"
WRONGTYPE = "(error) WRONGTYPE Operation against a key holding the wrong kind of value"
OVERFLOW = "(error) ERR increment or decrement would overflow"
BENCHMARK = "ping,set,get,incr,lpush,lpop"


def setUpModule():
    serverlib.need("redis-cli", "redis-benchmark", "socat", KV)


def words(text):
    return " ".join(text.decode("latin-1").split())


def command(*arguments):
    """As clients send it."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        parts.append(b"$%d\r\n%b\r\n" % (len(argument), argument))
    return b"".join(parts)


class Kv(serverlib.Case):
    """The server. At the end of each test it has no client."""

    program = KV
    arguments = ()
    options = {}

    def setUp(self):
        super().setUp()
        self.server = self.start(self.program, *self.arguments, by=signal.SIGINT,
                                 **self.options)
        self.port = str(self.server.port)
        self.addCleanup(self.alone)

    def alone(self):
        if self.server.process.returncode is None:
            self.info_is("connected_clients", 1)

    def cli(self, *arguments):
        """What redis-cli prints, in one line."""
        said = self.client("redis-cli", "-p", self.port, "--no-raw", *arguments, ok=False)
        return re.sub("\n+", " ", said.decode()).rstrip(" ")

    def replies(self, text):
        """Lines of COMMAND => what redis-cli prints."""
        for line in text.strip().splitlines():
            asked, reply = line.strip().split(" => ")
            self.assertEqual(self.cli(*shlex.split(asked)), reply, asked)

    def refused(self, reply, *commands):
        for asked in commands:
            self.assertEqual(self.cli(*shlex.split(asked)), reply, asked)

    def becomes(self, reply, asked):
        """In the end."""
        until(lambda: self.cli(*shlex.split(asked)) == reply, f"{reply} upon {asked}")

    def raw(self, data, *options):
        return words(self.talk(self.server, data, *options))

    def info(self, name):
        said = self.client("redis-cli", "-p", self.port, "info").decode()
        return int(re.search(rf"(?m)^{name}:(\d+)\r?$", said).group(1))

    def info_is(self, name, number):
        until(lambda: self.info(name) == number, f"{name} {number}")

    def cli_behind(self, *arguments):
        """redis-cli, which goes on; the file is for what it prints."""
        out = self.path(f"cli.{time.monotonic_ns()}")
        with open(out, "wb") as file:
            return self.behind("redis-cli", "-p", self.port, *arguments, stdout=file,
                               stderr=subprocess.STDOUT), out

    def said(self, out, text):
        until(lambda: words(content(out)) == text, text)

    def benchmark(self, *options):
        done = subprocess.run(["redis-benchmark", "-p", self.port, "-q", "-t", BENCHMARK, *options],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 0, said)
        self.assertEqual(len(re.findall("requests per second", said)), 7, said)
        for line in said.splitlines():
            if "Could not fetch server CONFIG" not in line:
                self.assertNotRegex(line.lower(), "error|warning")


class Commands(Kv):
    def test_arguments(self):
        for arguments in [], ["x"], ["70000"], ["-1"], ["7400x"], ["7400", "x"], ["7400", "0"], \
                ["7400", "1", "2"]:
            self.usage(KV, *arguments)
        done = subprocess.run([KV, self.port], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr)

    def test_strings(self):
        self.replies("""
            ping => PONG
            ping 'hello there' => "hello there"
            EcHo x => "x"
            set a 1 => OK
            GET a => "1"
            get none => (nil)
            set a 'two words' => OK
            get a => "two words"
            set a 3 => OK
            set b 4 => OK
            mget a none b => 1) "3" 2) (nil) 3) "4"
            mset a 5 c 6 => OK
            mget a c => 1) "5" 2) "6"
            exists a b none a => (integer) 3
            del a b none => (integer) 2
            exists a b => (integer) 0
            set empty '' => OK
            get empty => ""
            """)

    def test_counters(self):
        self.replies("""
            incr counter => (integer) 1
            incr counter => (integer) 2
            set counter -5 => OK
            incr counter => (integer) -4
            set counter 9223372036854775806 => OK
            incr counter => (integer) 9223372036854775807
            """)
        self.refused(OVERFLOW, "incr counter", "incrby counter 1", "decrby counter -1")
        self.replies("""
            incrby sum 5 => (integer) 5
            incrby sum -7 => (integer) -2
            decrby sum 8 => (integer) -10
            decr sum => (integer) -11
            decr none => (integer) -1
            set low -9223372036854775808 => OK
            """)
        self.refused(OVERFLOW, "decr low", "decrby low 1", "incrby low -1",
                     "decrby counter -9223372036854775808")
        self.refused(RANGE, "incrby sum x", "incrby sum 9223372036854775808", "decrby sum 1.0")
        for text in "9223372036854775808", "1x", " 1", "1 ", "01", "+1", "-0", "", "x", "1.0":
            self.assertEqual(self.cli("set", "counter", text), "OK")
            self.assertEqual(self.cli("incr", "counter"), RANGE, text)

    def test_binary(self):
        binary, large = b"a\0b\r\nc\377", os.urandom(20000000)
        for key, value in ("bin", binary), ("large", large):
            self.assertEqual(self.client("redis-cli", "-p", self.port, "-x", "set", key,
                                         input=value), b"OK\n")
            said = self.client("redis-cli", "-p", self.port, "get", key)
            self.assertTrue(said == value + b"\n", f"{key} came back otherwise")
        self.assertEqual(self.raw(command(b"SET", b"k\0001", b"x")), "+OK")
        self.assertEqual(self.raw(command(b"get", b"k\0001")), "$1 x")
        self.assertEqual(self.raw(command(b"get", b"k\0002")), "$-1")
        self.assertEqual(len(self.talk(self.server, b"GET large\n" * 8)), 160000104)
        self.assertEqual(self.raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$70000000\r\n"
                                  + bytes(70000000)), "-ERR Protocol error")
        self.replies("del large => (integer) 1")

    def test_expiry(self):
        self.replies("""
            ttl none => (integer) -2
            set e 1 => OK
            ttl e => (integer) -1
            expire e 1000 => (integer) 1
            """)
        self.assertRegex(self.cli("ttl", "e"), r"^\(integer\) (1000|[1-9]..)$")
        self.replies("""
            set e 2 => OK
            ttl e => (integer) -1
            expire none 10 => (integer) 0
            expire e -1 => (integer) 1
            get e => (nil)
            set e 3 PX 1 => OK
            """)
        self.becomes("(nil)", "get e")
        self.refused(RANGE, "set e 1 ex 0", "set e 1 px -1", "expire e 9223372036854775807",
                     "set e 1 ex 1x", "expire e x")
        self.refused("(error) ERR syntax error", "set e 1 ex", "set e 1 ex 1 px 1",
                     "set e 1 keep", "set e 1 keep 1")

    def test_expiry_of_many(self):
        """No command touches them, and yet they go."""
        self.replies("set stays 1 => OK")
        keys = self.info("keys")
        lines = "".join(f"SET gone:{i} 1 PX 200\n" for i in range(5000))
        said = self.client("redis-cli", "-p", self.port, input=lines.encode())
        self.assertEqual(said.count(b"OK"), 5000)
        self.info_is("keys", keys)

    def test_lists(self):
        self.replies("""
            lpush l 1 2 => (integer) 2
            lpush l 3 => (integer) 3
            lpop l => "3"
            lpop l => "2"
            lpop l => "1"
            lpop l => (nil)
            exists l => (integer) 0
            lpush l x => (integer) 1
            blpop none l 0 => 1) "l" 2) "x"
            blpop none other 0.05 => (nil)
            """)
        self.refused("(error) ERR timeout is not a float or out of range", "blpop l -1",
                     "blpop l x", "blpop l 1x", "blpop l nan")

    def test_set_options(self):
        self.replies("""
            set k 1 XX => (nil)
            set k 1 nx => OK
            set k 2 nx => (nil)
            set k 2 xx get => "1"
            set k 4 nx get => "2"
            set new 1 get => (nil)
            set k 5 ex 1000 => OK
            set k 6 keepttl => OK
            """)
        self.assertRegex(self.cli("ttl", "k"), r"^\(integer\) (1000|[1-9]..)$")
        self.replies(f"""
            set k 7 pxat {int(time.time() * 1000) + 500000} xx => OK
            set past 1 exat 1 => OK
            get past => (nil)
            """)
        self.assertRegex(self.cli("ttl", "k"), r"^\(integer\) (500|4..)$")
        self.refused("(error) ERR syntax error", "set k 1 nx xx", "set k 1 ex 1 keepttl",
                     "set k 1 ex 1 px 1", "set k 1 ex", "set k 1 nx nope")

    def test_collections(self):
        self.replies("""
            rpush l 1 2 3 => (integer) 3
            lpush l 0 -1 => (integer) 5
            llen l => (integer) 5
            lrange l 0 -1 => 1) "-1" 2) "0" 3) "1" 4) "2" 5) "3"
            lrange l -2 100 => 1) "2" 2) "3"
            lrange l 3 1 => (empty array)
            rpop l => "3"
            rpush l 7 8 9 10 => (integer) 8
            lrange l 0 -1 => 1) "-1" 2) "0" 3) "1" 4) "2" 5) "7" 6) "8" 7) "9" 8) "10"
            del l => (integer) 1
            rpop l => (nil)
            sadd s a b a => (integer) 2
            sismember s b => (integer) 1
            sismember s d => (integer) 0
            smembers s => 1) "a" 2) "b"
            srem s a d => (integer) 1
            scard s => (integer) 1
            spop s => "b"
            exists s => (integer) 0
            spop s => (nil)
            hset h a 1 b 2 => (integer) 2
            hset h b 3 c 4 => (integer) 1
            hget h b => "3"
            hlen h => (integer) 3
            hgetall h => 1) "a" 2) "1" 3) "b" 4) "3" 5) "c" 6) "4"
            hdel h a b c x => (integer) 3
            exists h => (integer) 0
            zadd z 3 c 1 a 2 b => (integer) 3
            zadd z 0.5 c 7 d => (integer) 1
            zscore z c => "0.5"
            zcard z => (integer) 4
            zpopmin z => 1) "c" 2) "0.5"
            zadd z 1 aa => (integer) 1
            zpopmin z => 1) "a" 2) "1"
            del z => (integer) 1
            zpopmin z => (empty array)
            xlen x => (integer) 0
            """)
        self.assertRegex(self.cli("xadd", "x", "*", "a", "1"), r'^"[0-9]{13}-[0-9]+"$')
        self.refused(RANGE, "lrange l x 1", "lrange l 0 1.5")
        self.refused("(error) ERR syntax error", "hset h a 1 b")
        self.refused("(error) ERR value is not a valid float", "zadd z x m", "zadd z nan m")
        self.refused("(error) ERR only the ID * is supported", "xadd x 1-1 a 1")
        scores = random.Random(1).sample(range(300), 300)
        for score in scores, range(600, 300, -1):
            self.raw(b"".join(command(b"ZADD", b"z", b"%d" % s, b"m%d" % s) for s in score))
        said = self.raw(command(b"ZPOPMIN", b"z") * 600).split()
        self.assertEqual([int(score) for score in said[4::5]], [*range(300), *range(301, 601)])

    def test_hello(self):
        fields = "$6 server $5 redis $7 version $5 7.0.0 $5 proto :{} $2 id :{} " \
            "$4 mode $10 standalone $4 role $6 master $7 modules *0"
        for asked, shape, protocol in (("HELLO", "*14", 2), ("HELLO 2", "*14", 2),
                                       ("HELLO 3", "%7", 3),
                                       ("HELLO 3 AUTH default x SETNAME me", "%7", 3)):
            said = self.raw(f"{asked}\r\nCLIENT ID\r\n".encode())
            number = said.rsplit(":", 1)[1]
            self.assertEqual(said, f"{shape} {fields.format(protocol, number)} :{number}", asked)
        for asked, reply in (("HELLO 4", "-NOPROTO unsupported protocol version"),
                             ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
                             ("HELLO 3 nope", "-ERR syntax error"),
                             ("HELLO 3 SETNAME", "-ERR syntax error"),
                             ("HELLO 3 AUTH a b", "-WRONGPASS invalid username-password pair or user"
                              " is disabled.")):
            self.assertEqual(self.raw(f"{asked}\r\nGET none\r\n".encode()), f"{reply} $-1", asked)
        said = self.raw(b"HELLO 3\r\nGET none\r\nSADD s a\r\nSMEMBERS s\r\nZADD z 1.5 m\r\n"
                        b"ZSCORE z m\r\nSUBSCRIBE c\r\nPING\r\n")
        self.assertEqual(said.split(" *0 ", 1)[1],
                         "_ :1 ~1 $1 a :1 ,1.5 >3 $9 subscribe $1 c :1 +PONG")

    def test_client(self):
        self.replies("""
            client setname me => OK
            client setinfo lib-name x => OK
            client getname => (nil)
            select 0 => OK
            """)
        self.refused("(error) ERR DB index is out of range", "select 1", "select x")
        self.refused("(error) ERR unknown subcommand, or wrong number of arguments",
                     "client kill", "client setname")
        self.assertRegex(self.cli("client", "id"), r"^\(integer\) [1-9]")

    def test_types(self):
        self.replies("""
            set s 1 => OK
            lpush l 1 => (integer) 1
            sadd m 1 => (integer) 1
            hset h a 1 => (integer) 1
            zadd z 1 a => (integer) 1
            """)
        self.refused(WRONGTYPE, "get m", "incr h", "lpush z a", "sadd l a", "hget s a",
                     "zadd h 1 a", "blpop m 0", "spop z", "xadd s * a 1", "llen m",
                     "blpop none s 0", "set l 1 get")
        self.replies("""
            mget l s => 1) (nil) 2) "1"
            set l string => OK
            get l => "string"
            """)

    def test_errors(self):
        self.refused("(error) ERR unknown command", "mad a b")
        for asked in ("get", "get a b", "set", "set a", "incr", "incr a b", "del", "exists", "mget",
                      "mset", "mset a", "echo", "echo a b", "expire", "expire a", "ttl", "lpush",
                      "lpush a", "lpop", "lpop a 1", "blpop", "blpop a", "publish", "publish a"):
            name = asked.split()[0]
            self.refused(f"(error) ERR wrong number of arguments for '{name}' command", asked)
        self.refused("(error) ERR syntax error", "mset a 1 b")
        self.refused("(error) ERR too many keys", "blpop" + " a" * 65 + " 1")
        self.replies("set a 1 => OK")
        said = self.client("redis-cli", "-p", self.port, "command").decode()
        self.assertEqual(len(re.findall("(?m)^[a-z]", said)), len(re.findall(r"\{ \"[a-z]+\", -?[0-9]", content("examples/06-kv.h", "r"))))
        self.assertRegex(self.cli("info"), "redis_version:.*keys:[1-9].*connected_clients:[1-9]")

    def test_protocol(self):
        for data, reply in (
                (b"QUIT\r\nPING\r\n", "+OK"),
                (b'SET k "two w"\nGET k\r\n\r\n  PING  \r\n', "+OK $5 two w +PONG"),
                (b"x" * 200000, "-ERR Protocol error"),
                (b"*0\r\n*-1\r\n" + command(b"PING"), "+PONG"),
                # Lines: either end, blanks, both quotes, escapes, nothing.
                (b"PING\nping\r\n \t\r\n\n\tPING  a\r\n", "+PONG +PONG $1 a"),
                (b'SET k "a\\x41\\t\\"\\\\"\r\nGET k\r\n', '+OK $5 aA "\\'),
                (b"SET k 'a\\'\\x'\r\nGET k\r\nECHO ''\r\n", "+OK $4 a'\\x $0"),
                # Arrays: nothing is a word, bytes are counted, not looked at.
                (b"*1\r\n$0\r\n\r\n", "-ERR unknown command"),
                (b"*2\r\n$4\r\necho\r\n$0\r\n\r\n", "$0"),
                (command(b"echo", b"*1\r\n$4\r\nPING\r\n"), "$14 *1 $4 PING"),
                (command(b"pi\r\n-x", b"a"), "-ERR unknown command"),
                # Not of requests, so these are words; or not whole, at the end.
                (b"%1\r\n~1\r\n:1\r\n", " ".join(["-ERR unknown command"] * 3)),
                (b"*1\n$4\nPING\n", ""), (b"*2\r\n$4\r\nPING\r\n", ""), (b"PING", "")):
            self.assertEqual(self.raw(data), reply, data[:100])
        # It closes: what is behind is not answered.
        sizes = (b"x", b"-2", b"+4", b" 4", b"4 ", b"04", b"0x4", b"4.0", b"", b"-", b"4\r",
                 b"9223372036854775808", b"1" * 33)
        for data in (b"*1\r\n:5\r\nPING\r\n", b"*2\r\n$4\r\nPING\r\n*1\r\n$1\r\na\r\n",
                     b"*2\r\nxyz\r\n", b"*1\r\n+PING\r\n", b"*1\r\n_\r\n", b"*1\r\n*-1\r\n",
                     b"*1\r\n$-1\r\n", b"*1048577\r\n", b"*1\r\n$67108865\r\nPING\r\n",
                     b"*1\r\n$9223372036854775807\r\nPING\r\n", b"*" + b"1" * 40,
                     b"*1\r\n$" + b"1" * 40, b'SET k "two\r\nPING\r\n', b'SET k "a"b\r\n',
                     b"SET k 'two\r\nPING\r\n",
                     *(b"*" + size + b"\r\n$4\r\nPING\r\n" for size in sizes),
                     *(b"*1\r\n$" + size + b"\r\nPING\r\n" for size in sizes)):
            with self.subTest(data):
                self.assertEqual(self.raw(b"PING\r\n" + data), "+PONG -ERR Protocol error")

    def test_splits(self):
        """However the bytes come together."""
        data = (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n*0\r\nget 'a'\r\n\r\n"
                b"*2\r\n$4\r\necho\r\n$0\r\n\r\nPING\n")
        for i in range(1, len(data)):
            client = self.dial(self.server)
            client.sendall(data[:i])
            time.sleep(0.005)
            client.sendall(data[i:])
            client.shutdown(1)
            self.assertEqual(serverlib.receive_all(client),
                             b"+OK\r\n$2\r\n\r\n\r\n$0\r\n\r\n+PONG\r\n", i)

    def test_atomic(self):
        """Long commands give way, but not in favour of other commands."""
        keys = [b"atomic:%d" % i for i in range(2000)]
        clients = self.dial(self.server), self.dial(self.server)
        wrote, read = (client.makefile("rb") for client in clients)
        for i in range(50):
            value = b"%d" % i
            clients[0].sendall(command(b"MSET", *(word for key in keys for word in (key, value))))
            clients[1].sendall(command(b"MGET", *keys))
            self.assertEqual(wrote.readline(), b"+OK\r\n")
            self.assertEqual(read.readline(), b"*2000\r\n")
            sizes = (read.readline() for _ in keys)
            found = {size if size == b"$-1\r\n" else read.readline() for size in sizes}
            self.assertEqual(len(found), 1)

    def test_pipelines(self):
        data = b"".join(command(b"SET", b"pipe:%d" % i, b"%d" % i) for i in range(1, 20001))
        said = self.client("redis-cli", "-p", self.port, "--pipe", input=data).decode()
        self.assertEqual(said.splitlines()[-1], "errors: 0, replies: 20000")
        self.replies('get pipe:17321 => "17321"')
        get = command(b"GET", b"pipe:17321")
        self.assertEqual(self.raw(b"PING\r\nGET pipe:17321\r\n" + command(b"GET", b"ab")[:-4]),
                         "+PONG $5 17321")
        client = self.dial(self.server)
        serverlib.dribble(client, command(b"PING") + get + b"ping\r\n", 0.005)
        client.shutdown(1)
        self.assertEqual(words(serverlib.receive_all(client)), "+PONG $5 17321 +PONG")

    def test_garbage(self):
        for _ in range(20):
            self.talk(self.server, os.urandom(50000))
            self.talk(self.server, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100\r\nxyz", "linger=0")
            client = self.dial(self.server)
            client.sendall(command(b"SET", b"a", b"x" * 100)[:40])
            serverlib.reset(client)
        self.replies("ping => PONG")

    def test_benchmark(self):
        for depth in "1", "16":
            self.benchmark("-n", "20000", "-P", depth)
        self.replies("""
            get counter:__rand_int__ => "40000"
            exists mylist => (integer) 0
            """)
        done = subprocess.run(["redis-benchmark", "-p", self.port, "-q", "-n", "500"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 0, said)
        self.assertGreaterEqual(said.count("requests per second"), 20, said)
        self.assertNotIn("Error from server", said)


class Blocked(Kv):
    def test_order(self):
        """Each gets one element, first come, first served."""
        clients = []
        for i in range(1, 51):
            clients.append(self.cli_behind("blpop", f"only.{i}", "queue", "queue", "0"))
            self.info_is("blocked_clients", i)
        for i in range(1, 41):
            self.replies(f"lpush queue {i} => (integer) 1")
        rest = " ".join(map(str, range(52, 40, -1)))
        self.replies(f"lpush queue {rest} => (integer) 12")
        for i, (_, out) in enumerate(clients, 1):
            self.said(out, f"queue {i}")
        self.replies("""
            lpop queue => "51"
            lpop queue => "52"
            exists queue => (integer) 0
            """)
        self.assertEqual(self.info("blocked_clients"), 0)

    def test_pipeline(self):
        """What is before it and behind it; and deadlines."""
        client = self.dial(self.server)
        client.sendall(b"PING\r\nBLPOP q 0.1\r\nLPUSH q x\r\nBLPOP q 0\r\nPING\r\n")
        expected = b"+PONG\r\n*-1\r\n:1\r\n*2\r\n$1\r\nq\r\n$1\r\nx\r\n+PONG\r\n"
        self.assertEqual(serverlib.receive(client, len(expected)), expected)
        client.shutdown(1)
        self.assertEqual(serverlib.receive_all(client), b"")

    def test_dead(self):
        """A client that ends while it is blocked is gone, and takes nothing along."""
        dead, _ = self.cli_behind("blpop", "queue", "0")
        self.info_is("blocked_clients", 1)
        _, alive = self.cli_behind("blpop", "queue", "0")
        self.info_is("blocked_clients", 2)
        dead.kill()
        dead.wait()
        until(lambda: len(serverlib.established(self.server.port)) == 1, "one connection")
        self.replies("lpush queue one => (integer) 1")
        self.said(alive, "queue one")
        self.info_is("blocked_clients", 0)
        dead, _ = self.cli_behind("blpop", "queue", "0")
        self.info_is("blocked_clients", 1)
        dead.kill()
        dead.wait()
        until(lambda: not serverlib.established(self.server.port), "no connection")
        self.replies("""
            lpush queue two => (integer) 1
            lpop queue => "two"
            """)
        self.info_is("blocked_clients", 0)


class Channels(Kv):
    def test_channels(self):
        self.replies("publish news nobody => (integer) 0")
        clients = [self.cli_behind("subscribe", "news", f"other.{i}") for i in range(3)]
        for i, (_, out) in enumerate(clients):
            until(lambda: f"other.{i}\n" in content(out, "r"), "a subscription")
            self.replies(f"publish other.{i} a => (integer) 1")
        self.replies("""
            publish news 'first message' => (integer) 3
            publish news second => (integer) 3
            """)
        for i, (_, out) in enumerate(clients):
            self.said(out, f"subscribe news 1 subscribe other.{i} 2 message other.{i} a"
                      " message news first message message news second")
        clients[0][0].terminate()
        self.becomes("(integer) 2", "publish news third")

    def test_protocol(self):
        self.assertEqual(self.raw(b"SUBSCRIBE a b\r\nPING\r\n"),
                         "*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2 *2 $4 pong $0")
        said = self.raw(b"SUBSCRIBE a b\r\nUNSUBSCRIBE a none\r\n"
                        b"UNSUBSCRIBE\r\nUNSUBSCRIBE\r\nPING\r\n").split(" :2 ", 1)[1]
        left = "*3 $11 unsubscribe"
        self.assertEqual(said, f"{left} $1 a :1 {left} $4 none :1 {left} $1 b :0 {left} $-1 :0"
                         " +PONG")

    def test_slow_subscriber(self):
        """One that does not read is disconnected in the end; others do not notice."""
        slow = self.dial(self.server)
        slow.sendall(b"SUBSCRIBE flood\r\n")
        self.assertIn(b"flood", slow.recv(100))
        for _ in range(100):
            self.client("redis-cli", "-p", self.port, "-x", "publish", "flood",
                        input=b"x" * 1000000)
        self.replies("publish flood a => (integer) 0")
        self.assertLess(self.server.memory("VmRSS"), 100000)


class Work(Kv):
    """What one client asks for is no burden for the others."""

    def asked(self, client, *arguments):
        client.sendall(command(*arguments))
        return client.recv(100)

    def test_ping_beside_long_command(self):
        """A command without data does not wait for one that goes through a list."""
        client, other = self.dial(self.server), self.dial(self.server)
        items = [b"x"] * 500000
        for i in range(1, 5):
            self.assertEqual(self.asked(client, b"RPUSH", b"list", *items),
                             b":%d\r\n" % (i * len(items)))
        for _ in range(20):
            client.sendall(command(b"LRANGE", b"list", b"0", b"-1"))
            time.sleep(0.01)
            self.assertEqual(self.asked(other, b"PING"), b"+PONG\r\n")
            early = not select.select([client], [], [], 0)[0]
            left = len(b"*%d\r\n" % (4 * len(items))) + 4 * len(items) * len(b"$1\r\nx\r\n")
            while left > 0:
                left -= len(client.recv(1 << 20))
            if early:
                break
        else:
            self.fail("PING waits for LRANGE")
        client.close()
        other.close()


class Deadlines(Kv):
    """Clients that are idle, or take no replies, are closed after a second."""

    arguments = (1,)

    def test_silent(self):
        client = self.dial(self.server)
        self.assertEqual(serverlib.receive_all(client), b"")

    def test_parts(self):
        """Bytes that are no whole command do not count."""
        client = self.dial(self.server)
        with contextlib.suppress(OSError):
            for byte in b"*1\r\n$100000\r\n" + b"x" * 1000:
                client.sendall(bytes([byte]))
                time.sleep(0.05)
            self.fail("a client goes on without a command")

    def test_unread(self):
        """Replies that are not taken, of a client that goes on to send."""
        client = self.dial(self.server)
        client.settimeout(60)
        self.replies(f"set large {'x' * 100000} => OK")
        with contextlib.suppress(OSError):
            while True:
                client.sendall(b"GET large\r\n" * 100)
        until(lambda: len(serverlib.established(self.server.port)) == 0, "no connection")
        client.close()

    def test_patient(self):
        """A subscriber and a blocked client wait for longer."""
        subscriber, popper = self.dial(self.server), self.dial(self.server)
        subscriber.sendall(b"SUBSCRIBE news\r\n")
        popper.sendall(b"BLPOP queue 0\r\n")
        self.assertIn(b"news", subscriber.recv(100))
        self.info_is("blocked_clients", 1)
        self.assertEqual(serverlib.receive_all(self.dial(self.server)), b"")
        self.assertEqual(serverlib.receive_all(self.dial(self.server)), b"")
        self.replies("""
            publish news a => (integer) 1
            lpush queue one => (integer) 1
            """)
        self.assertIn(b"one", popper.recv(100))
        self.assertIn(b"$1\r\na", subscriber.recv(100))
        subscriber.close()
        popper.close()


class End(Kv):
    @classmethod
    def setUpClass(cls):
        files = tempfile.TemporaryDirectory()
        cls.addClassCleanup(files.cleanup)
        cls.program = serverlib.patient("06-kv", f"{files.name}/kv", "-lhiredis",
                                        "-lsodium", deadlines="LINGER")

    def test_under_load(self):
        """What was answered is all that was done, without a gap."""
        self.behind("redis-benchmark", "-p", self.port, "-t", "set", "-n", "100000000", "-P", "16",
                    "-q", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, blocked = self.cli_behind("blpop", "nothing", "0")
        self.info_is("blocked_clients", 1)
        _, subscribed = self.cli_behind("subscribe", "news")
        until(lambda: b"news" in content(subscribed), "a subscription")
        # Its 50 connections: it does not bear that one is never accepted.
        until(lambda: self.info("connected_clients") >= 53, "the benchmark's clients")
        out = self.path("load")
        with open(out, "wb") as file:
            yes = self.behind("yes", "INCR load", stdout=subprocess.PIPE)
            load = self.behind("socat", "-t600", "-", f"TCP:127.0.0.1:{self.port}",
                               stdin=yes.stdout, stdout=file, stderr=subprocess.DEVNULL)
        until(lambda: b"\n:10000\r" in content(out), "the load")
        self.server.signal()
        until(lambda: not serverlib.listens(self.server.port), "no listener")
        yes.stdout.close()
        yes.kill()
        self.assertEqual(self.server.process.wait(), 0)
        self.assertEqual(self.server.errors(), "")
        load.wait()
        said = content(out).decode()
        count = said.count("\n")
        self.assertTrue(said == "".join(f":{i}\r\n" for i in range(1, count + 1)), said[-100:])
        until(lambda: re.search("ERR|closed", content(blocked, "r"), re.IGNORECASE), "its error")


class Valgrind(Kv):
    options = {"before": (*serverlib.VALGRIND, "--errors-for-leak-kinds=definite")}

    @classmethod
    def setUpClass(cls):
        serverlib.need_valgrind()
        files = tempfile.TemporaryDirectory()
        cls.addClassCleanup(files.cleanup)
        cls.program = serverlib.compiled("06-kv", f"{files.name}/kv", "-lhiredis", "-lsodium",
                                         build=serverlib.library(f"{files.name}/build"))

    def test_leaks(self):
        self.replies("""
            set a 1 => OK
            set a 2 ex 100 => OK
            mset b 3 c 4 => OK
            lpush l 1 2 => (integer) 2
            lpush l2 1 => (integer) 1
            blpop l 0 => 1) "l" 2) "2"
            blpop none 0.01 => (nil)
            """)
        self.cli_behind("blpop", "a1", "a2", "0")
        self.info_is("blocked_clients", 1)
        self.replies("lpush a2 x => (integer) 1")
        self.info_is("blocked_clients", 0)
        self.cli_behind("blpop", "a1", "a2", "0")
        self.cli_behind("subscribe", "c1", "c2")
        self.becomes("(integer) 1", "publish c2 x")
        for data in (b"*3\r\n$3\r\nSET\r\n$100\r\nabc",
                     b"SUBSCRIBE x y z\r\nUNSUBSCRIBE y\r\n", b"*1\r\n:5\r\n"):
            self.talk(self.server, data)
        self.benchmark("-n", "1000", "-P", "16")
        self.info_is("blocked_clients", 1)
        self.end(self.server)           # with clients: one blocked, one subscribed


if __name__ == "__main__":
    unittest.main()
