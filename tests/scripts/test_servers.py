#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/04-echo.c, 07-proxy.c and 10-https.c, with socat, ncat and curl as clients, and connections
of our own. Whatever they do, what was sent must come back, no other client may suffer, and
the server must have as many descriptors as before.

Environment: that of serverlib.
"""

import contextlib
import os
import re
import socket
import ssl
import subprocess
import threading
import time
import unittest

import serverlib
from serverlib import HERE, content, until

ECHO, PROXY = serverlib.example("04-echo"), serverlib.example("07-proxy")
HTTPS = serverlib.example("10-https")
SIZES = 1, 2, 1000, 16383, 16384, 16385, 300000, 1048576, 10485760
SHORT = r"^(#define [A-Z]* *)\([0-9]* \* USYNC_SECOND", r"\1(2 * USYNC_SECOND"
FEW = r"^(\tCONNECTIONS *= )[0-9]*", r"\g<1>4"
made = {}               # edited servers, by name
data = os.urandom(max(SIZES))


def setUpModule():
    global directory
    serverlib.need("socat", "ncat", "curl", ECHO, PROXY)
    serverlib.more_descriptors()
    directory = serverlib.directory()


def edited(name, edit):
    to = f"{directory}/{name}.{'short' if edit is SHORT else 'few'}"
    if to not in made:
        made[to] = serverlib.compiled(name, to, edits=[edit])
    return made[to]


class Servers(serverlib.Case):
    def echo(self, program=ECHO, processors=1, **options):
        return self.start(program, processors, **options)

    def proxy(self, port, program=PROXY, processors=1, host=HERE, **options):
        return self.start(program, f"{host}:{port}", processors, **options)

    def echoes(self, server, size):
        """With socat, both directions at once."""
        said = self.talk(server, data[:size], ok=True)
        self.assertTrue(said == data[:size], f"{size} bytes: others came back")

    def receives(self, client, text):
        self.assertEqual(serverlib.receive(client, len(text)), text)

    def dribbles(self, server, count, pause):
        """A byte at a time."""
        client = self.dial(server)
        serverlib.dribble(client, data[:count], pause)
        client.shutdown(socket.SHUT_WR)
        return serverlib.receive_all(client) == data[:count]

    def never_reads(self, server):
        return self.behind("socat", "-u", "/dev/zero", f"TCP:{HERE}:{server.port}",
                           stderr=subprocess.DEVNULL)


class Clients:
    """Of echo, and of the proxy in front of it, on so many processors."""

    processors = 1

    def setUp(self):
        super().setUp()
        self.server = self.echo(processors=self.processors)

    def test_socat(self):
        for size in SIZES:
            self.echoes(self.server, size)

    def test_ncat(self):
        for size in 1, 1000, 300000:
            said = self.client("ncat", HERE, str(self.server.port), input=data[:size])
            self.assertTrue(said == data[:size], size)

    def test_hundred(self):
        """At the same time, each with other bytes."""
        clients = []
        for i in range(100):
            name = self.path(f"in.{i}")
            with open(name, "wb") as file:
                file.write(data[i * 1000:i * 1000 + 9000])
            with open(name, "rb") as file, open(f"{name}.out", "wb") as out:
                clients.append((name, self.behind("socat", "-t600", "-",
                                                  f"TCP:{HERE}:{self.server.port}", stdin=file,
                                                  stdout=out)))
        for name, client in clients:
            self.assertEqual(client.wait(), 0)
            self.assertTrue(content(name) == content(f"{name}.out"), name)

    def test_many_open(self):
        """Each says something, and then each gets it back."""
        clients = [self.dial(self.server) for _ in range(500)]
        for i, client in enumerate(clients):
            client.sendall(b"this is %d\n" % i)
        for i, client in enumerate(clients):
            self.receives(client, b"this is %d\n" % i)

    def test_resets(self):
        """In the middle of what comes back."""
        for _ in range(10):
            self.client("socat", "-u", "-", f"TCP:{HERE}:{self.server.port},linger=0,shut-close",
                        ok=False, input=data[:300000], stderr=subprocess.DEVNULL)
        self.echoes(self.server, 1000)

    def test_dribble(self):
        self.assertTrue(self.dribbles(self.server, 100, 0.01))

    def test_never_read(self):
        """Two that send and never read, and another meanwhile."""
        self.never_reads(self.server)
        self.never_reads(self.server)
        self.echoes(self.server, 1048576)


class Echo1(Clients, Servers):
    def test_address(self):
        """In place of a port."""
        server = self.echo(before=("sh", "-c", f'exec "$1" "{HERE}:$2" "$3"', "sh"))
        self.echoes(server, 1000)
        for wrong in "", "0", "65536", "x", f"{HERE}:65536", HERE:
            said = subprocess.run([ECHO, wrong], timeout=600, stderr=subprocess.PIPE)
            self.assertEqual(said.returncode, 2, wrong)
            self.assertIn(b"usage: ", said.stderr)


class Echo2(Clients, Servers):
    processors = 2


class Proxy1(Clients, Servers):
    def setUp(self):
        super().setUp()
        self.server = self.proxy(self.server.port, processors=self.processors)


class Proxy2(Proxy1):
    processors = 2


class Usage(Servers):
    def check(self, program, *more):
        wrong = "0", "-1", "x", "7x", "65536", "99999999999999999999", ""
        for arguments in [], ["", *more], *([word, *more] for word in wrong), *(
                ["7000", *more, word] for word in wrong), ["7000", *more, "1", "1"]:
            with self.subTest(arguments=arguments):
                self.usage(program, *arguments)

    def test_echo(self):
        self.check(ECHO)

    def test_proxy(self):
        self.check(PROXY, "127.0.0.1:7000")
        self.usage(PROXY, "7000", "nothing")


class End(Servers):
    """SIGTERM while there is much to echo."""

    def flood(self, client):
        """Sends more than all queues take; until the server ends."""
        def send():
            try:
                for _ in range(8):
                    client.sendall(data)
            except OSError:
                pass                    # the server has ended
        thread = threading.Thread(target=send)
        thread.start()
        return thread

    def begin(self, processors):
        name = f"{directory}/echo.patient"
        if name not in made:
            made[name] = serverlib.patient("04-echo", name, deadlines="STALL|GRACE")
        server = self.echo(made[name], processors)
        return server, self.dial(server)

    def ended(self, server, said):
        self.assertTrue(said == (data * 8)[:len(said)], "others came back")
        self.assertEqual(server.process.wait(), 0)
        self.assertEqual(server.errors(), "")

    def received(self, server):
        """How many bytes the server has received from its client, and the client has not
        read yet, except what is in the server itself: both queues of its end, and one of
        the client's."""
        return sum(unread + (unsent if here == server.port else 0)
                   for here, there, state, unsent, unread in serverlib.connections()
                   if state == "01" and server.port in (here, there))

    def check_middle(self, processors):
        """The client sends until it has to wait, and does not read before the server was
        told to end: so the server waits, too, and has more to read. All of that must come."""
        server, client = self.begin(processors)
        thread = self.flood(client)
        before, last = None, 0

        def all_received():
            nonlocal before, last
            time.sleep(0.1)
            before, last = last, self.received(server)
            return last > 100000 and last == before
        until(all_received, "a full queue")
        server.signal()
        said = serverlib.receive_all(client)
        thread.join()
        client.close()
        self.assertGreaterEqual(len(said), last)
        self.ended(server, said)

    def check_flood(self, processors):
        """The client goes on sending, as fast as it can."""
        server, client = self.begin(processors)
        thread = self.flood(client)
        said = client.recv(1)
        server.signal()
        said += serverlib.receive_all(client)
        thread.join()
        client.close()
        self.ended(server, said)

    def test_middle(self):
        self.check_middle(1)

    def test_middle_2(self):
        self.check_middle(2)

    def test_flood(self):
        self.check_flood(1)

    def test_flood_2(self):
        self.check_flood(2)

    def test_never_reads(self):
        server = self.echo(edited("04-echo", SHORT))
        self.never_reads(server)
        until(lambda: server.descriptors() == server.opened + 1, "a connection")
        self.end(server)


class Limits(Servers):
    def check_deadlines(self, server):
        """Each of these ends only because the server ends it."""
        self.client("socat", "-u", f"TCP:{HERE}:{server.port}", "-")
        self.never_reads(server).wait()
        self.all_closed(server)
        # Where nothing comes about for two seconds, a slow client is idle.
        for _ in range(30):
            try:
                if self.dribbles(server, 8, 0.4):
                    return
            except OSError:
                pass
        self.fail("a client that is slow, but not idle")

    def check_connections(self, server):
        """Of five, the fifth has to wait until the first has gone."""
        *four, fifth = [self.dial(server) for _ in range(5)]
        for i, client in enumerate(four):
            client.sendall(b"%d\n" % i)
            self.receives(client, b"%d\n" % i)
        fifth.sendall(b"5\n")
        fifth.settimeout(0.3)
        self.assertRaises(socket.timeout, fifth.recv, 1)
        fifth.settimeout(600)
        four[0].close()
        self.receives(fifth, b"5\n")

    def test_deadlines_of_echo(self):
        self.check_deadlines(self.echo(edited("04-echo", SHORT)))

    def test_deadlines_of_proxy(self):
        self.check_deadlines(self.proxy(self.echo().port, edited("07-proxy", SHORT)))

    def test_connections_of_echo(self):
        self.check_connections(self.echo(edited("04-echo", FEW)))

    def test_connections_of_proxy(self):
        self.check_connections(self.proxy(self.echo().port, edited("07-proxy", FEW)))

    def test_descriptors(self):
        """With fewer than clients: later ones wait, and are served when others have gone."""
        server = self.echo(before=("sh", "-c", 'ulimit -n 40; exec "$@"', "few"))
        clients = [self.dial(server) for _ in range(60)]
        for i, client in enumerate(clients):
            client.sendall(b"this is %d\n" % i)
        for i, client in enumerate(clients):
            self.receives(client, b"this is %d\n" % i)
            client.close()


class Proxy(Servers):
    """In front of a server that is there, is not, or ends as it likes."""

    host = HERE

    def setUp(self):
        super().setUp()
        self.target = self.enter(socket.socket())
        self.target.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.target.settimeout(600)
        self.target.bind((HERE, 0))
        self.server = self.proxy(self.target.getsockname()[1], host=self.host)

    def both(self):
        """A client, and the connection that the proxy makes for it."""
        self.target.listen()
        client = self.dial(self.server)
        behind = self.enter(self.target.accept()[0])
        behind.settimeout(600)
        return client, behind

    def test_nothing_behind(self):
        """The client is not left waiting, nor told that the answer is empty."""
        for _ in range(3):
            status = subprocess.run(["curl", "-s", f"http://{HERE}:{self.server.port}/"]).returncode
            # It could not connect, or was reset later: how fast is the reset?
            self.assertIn(status, (7, 55, 56))
        self.all_closed(self.server)
        self.assertIn("Connection refused", self.server.errors())
        open(self.server.said, "w").close()

    def test_few_lines(self):
        """However many clients it cannot serve, it tells that once a second, with a count."""
        began = time.monotonic()
        for _ in range(300):
            with socket.socket() as client:
                client.connect_ex((HERE, self.server.port))
        with socket.socket() as last, contextlib.suppress(ConnectionError):
            last.connect((HERE, self.server.port))
            last.recv(1)                # it is served after all others
        self.all_closed(self.server)
        lines = self.server.errors().splitlines()
        self.assertLessEqual(len(lines), time.monotonic() - began + 1)
        for line in lines:
            self.assertRegex(line, r"Connection refused \([0-9]+ times\)$")
        open(self.server.said, "w").close()

    def test_other_way_first(self):
        """The server is the one that says first that it has no more to send."""
        client, behind = self.both()
        behind.sendall(b"done\n")
        behind.shutdown(socket.SHUT_WR)
        self.assertEqual(serverlib.receive_all(client), b"done\n")
        sender = threading.Thread(target=lambda: (client.sendall(data), client.close()))
        sender.start()
        said = serverlib.receive_all(behind)
        sender.join()
        self.assertTrue(said == data, "others came")

    def test_server_resets(self):
        client, behind = self.both()
        client.sendall(b"hello\n")
        self.receives(behind, b"hello\n")
        behind.sendall(b"abc\n")
        self.receives(client, b"abc\n")
        serverlib.reset(behind)
        self.assertRaises(ConnectionResetError, client.recv, 1)

    def test_client_resets(self):
        client, behind = self.both()
        client.sendall(b"hello\n")
        self.receives(behind, b"hello\n")
        serverlib.reset(client)
        self.assertRaises(ConnectionResetError, behind.recv, 1)


class ProxyByName(Proxy):
    host = "localhost"

    @classmethod
    def setUpClass(cls):
        try:
            socket.getaddrinfo(cls.host, None)
        except OSError:
            raise unittest.SkipTest("localhost has no address")


class ProxyOfHttpd(Servers):
    def test_files(self):
        serverlib.need(serverlib.example("05-httpd"))
        for size in 1, 1000, 300000, 1048576, 10485760:
            with open(self.path(str(size)), "wb") as file:
                file.write(data[:size])
        httpd = self.start(serverlib.example("05-httpd"), self.dir)
        server = self.start(PROXY, f"{HERE}:{httpd.port}")
        url = f"http://{HERE}:{server.port}"
        for size in 1, 1000, 1048576, 10485760:
            said = self.client("curl", "-sS", f"{url}/{size}")
            self.assertTrue(said == data[:size], size)
        said = self.client("curl", "-sS", f"{url}/1000", f"{url}/300000")   # one connection
        self.assertTrue(said == data[:1000] + data[:300000], "two requests")


class Https(Servers):
    """Requests that a proxy may take for others, and clients that say nothing."""

    def setUp(self):
        super().setUp()
        serverlib.need("openssl", HTTPS)
        self.client("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", self.path("key"), "-out", self.path("chain"),
                    stderr=subprocess.DEVNULL)
        with open(self.path("a"), "w") as file:
            file.write("hello")
        self.server = self.start(HTTPS, self.dir, self.path("chain"), self.path("key"))
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE

    def answers(self, text):
        """The statuses of the answers to some bytes, until the server ends the connection."""
        with self.context.wrap_socket(self.server.dial()) as client:
            client.sendall(text)
            said = serverlib.receive_all(client)
        return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]+) ", said)]

    def head(self, *lines):
        return b"\r\n".join([b"GET /a HTTP/1.1", b"Host: x", *lines, b"", b""])

    def test_bodies(self):
        """None is a request. What has none is answered, and the next one as well."""
        more = self.head() + self.head(b"Connection: close")
        self.assertEqual(self.answers(more), [200, 200])
        for none in b"Content-Length: 0", b"content-length:00 ", b"X-Content-Length: 5":
            self.assertEqual(self.answers(self.head(none) + more), [200, 200, 200], none)
        for body in (b"Content-Length: %d" % len(more), b"content-length:\t5", b"Content-Length: x",
                     b"Content-Length: 0\r\nContent-Length: 5", b"Content-Length: 0, 5",
                     b"Transfer-Encoding: chunked", b"TRANSFER-ENCODING:identity",
                     b"Content-Length: 0\r\nTransfer-Encoding: chunked"):
            self.assertEqual(self.answers(self.head() + self.head(body) + more), [200, 413], body)
        post = self.head(b"Content-Length: 1000000").replace(b"GET", b"POST")
        self.assertEqual(self.answers(post + more * 1000), [405])

    def test_malformed(self):
        for line in (b"Content-Length : 5", b" Content-Length: 5", b"a: b\r\n\tfolded", b"a",
                     b": a", b"a b: c", b"a: b\nContent-Length: 5", b"a: b\rContent-Length: 5",
                     b"a: b\0Content-Length: 5"):
            self.assertEqual(self.answers(self.head(line) + self.head()), [400], line)

    def test_silent(self):
        """Of many handshakes that do not go on, few have buffers."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with self.assertRaises(ssl.SSLWantReadError):
            self.context.wrap_bio(incoming, outgoing).do_handshake()
        hello, before = outgoing.read(), self.server.memory("VmRSS")
        clients = [self.dial(self.server) for _ in range(900)]
        until(lambda: self.server.descriptors() >= self.server.opened + 900, "900 clients")
        self.assertLess(self.server.memory("VmRSS") - before, 900 * 4)
        for client in clients:
            client.sendall(hello)
        until(lambda: sum(serverlib.established(self.server.port)) > 500 * len(hello)
              or self.server.descriptors() < self.server.opened + 900, "a full queue")
        self.assertLess(self.server.memory("VmRSS") - before, 900 * 16)
        for client in clients:
            client.close()


class Valgrind(Servers):
    def test_leaks(self):
        serverlib.need_valgrind()
        build = serverlib.library(f"{directory}/build")
        echo = self.echo(serverlib.compiled("04-echo", f"{directory}/echo", build=build), 2,
                         before=serverlib.VALGRIND)
        program = serverlib.compiled("07-proxy", f"{directory}/proxy", build=build)
        proxy = self.proxy(echo.port, program, 2, before=serverlib.VALGRIND)
        for size in 1, 16385, 1048576:
            self.echoes(proxy, size)
        for _ in range(10):
            self.client("socat", "-u", "-", f"TCP:{HERE}:{proxy.port},linger=0,shut-close",
                        ok=False, input=data[:300000], stderr=subprocess.DEVNULL)
        self.echoes(proxy, 1000)


if __name__ == "__main__":
    unittest.main()
