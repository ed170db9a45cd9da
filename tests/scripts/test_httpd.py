#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/05-httpd.c, with curl, wrk, h2load, socat and ncat as clients: its answers to
requests that are right, wrong, slow, early, endless or cut off; that it returns to its
descriptors and its memory; and that it ends without losing a request.

Environment: that of serverlib, and CONNECTIONS, at a time: 9000 if there are descriptors.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import serverlib
from serverlib import content, until

HTTPD = serverlib.example("05-httpd")
LARGE = 20000000
CONNECTIONS = min(int(os.environ.get("CONNECTIONS", 9000)), serverlib.more_descriptors() - 200)
HOST = "Host: x\r\n"
CLOSE = "Host: x\r\nConnection: close\r\n"
TYPES = (("/style.css", "text/css"), ("/index.html", "text/html"))


def setUpModule():
    serverlib.need("curl", "wrk", "h2load", "socat", "ncat", HTTPD)


def request(path, fields=HOST, method="GET"):
    return f"{method} {path} HTTP/1.1\r\n{fields}\r\n"


def statuses(text):
    return " ".join(re.findall(r"HTTP/1\.1 (\d+) ", text))


class Httpd(serverlib.Case):
    """The server, and a directory for it."""

    program = HTTPD
    options = {}
    many = 300

    @classmethod
    def setUpClass(cls):
        cls.files = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.files.cleanup)
        cls.www = f"{cls.files.name}/www"
        os.makedirs(f"{cls.www}/sub")
        os.mkdir(f"{cls.www}/bare")
        for name, data in (
                ("1.txt", b"one\n"), ("2.txt", b"two\n"), ("empty", b""),
                ("index.html", b"<p>index</p>\n"), ("sub/index.html", b"<p>sub</p>\n"),
                ("style.css", b"p { }\n"), ("1k", b"0123456789abcdef" * 64),
                ("with space.txt", b"space\n"), ("locked", b"secret\n"),
                ("64k.png", os.urandom(65536)), ("65k", os.urandom(65537)),
                ("big", os.urandom(LARGE)), ("../much", bytes(1200000)),
                ("../secret", b"secret\n")):
            with open(f"{cls.www}/{name}", "wb") as file:
                file.write(data)
        cls.much, cls.secret = f"{cls.files.name}/much", f"{cls.files.name}/secret"
        os.chmod(f"{cls.www}/locked", 0)
        for name, target in (("escape", "../secret"), ("absolute", cls.secret), ("up", ".."),
                             ("inside", "1.txt")):
            os.symlink(target, f"{cls.www}/{name}")
        os.mkfifo(f"{cls.www}/fifo")

    def setUp(self):
        super().setUp()
        self.server = self.start(self.program, self.www, **self.options)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def get(self, status, path, *options):
        """A request with curl: sets body, and field, by lower-case names."""
        body = self.path("body")
        open(body, "wb").close()
        said = self.client("curl", "-s", "--path-as-is", "-D", self.path("head"), "-o", body,
                           "-w", "%{http_code}", *options, self.url + path, ok=False)
        self.assertEqual(said.decode(), str(status), (path, *options))
        head = content(self.path("head")).decode("latin-1")
        self.field = {name.lower(): value
                      for name, value in re.findall(r"(?m)^([\w-]+): (.*)\r$", head)}
        self.body = content(body)

    def raw(self, text, *options):
        """Bytes as they are; what comes back until the server closes, as text."""
        return self.talk(self.server, text.encode("latin-1"), *options).decode("latin-1")

    def check_conditions(self):
        self.get(200, "/1k")
        etag, date = self.field["etag"], self.field["last-modified"]
        for status, *fields in (
                (304, f"If-None-Match: {etag}"),
                (304, "If-None-Match: *"), (200, 'If-None-Match: "x"'),
                (304, f"If-Modified-Since: {date}"),
                (200, "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT"),
                (200, 'If-None-Match: "x"', f"If-Modified-Since: {date}"),
                (200, 'If-Match: "x", ' + etag), (412, 'If-Match: "x"'), (412, f"If-Match: W/{etag}"),
                (412, 'If-Match: "x"', f"If-None-Match: {etag}"),
                (412, "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT"),
                (412, "If-Unmodified-Since: Saturday, 01-Jan-00 00:00:00 GMT"),
                (200, f"If-Match: {etag}", "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT")):
            with self.subTest(fields=fields):
                self.get(status, "/1k", *(word for field in fields for word in ("-H", field)))
                self.assertEqual(self.field["etag"], etag)

    def check_ranges(self):
        for name in "1k", "65k":
            data = content(f"{self.www}/{name}")
            size = len(data)
            for asked in f"{size}-", f"{size}-{size + 1}", "-0", "9" * 30 + "-":
                with self.subTest(name=name, range=asked):
                    self.get(416, f"/{name}", "-r", asked)
                    self.assertEqual(self.field["content-range"], f"bytes */{size}")
            for asked in ("bytes= -5", "bytes=5", "bytes=-", "bytes=", "bytes=5-4", "bytes=5-x",
                          "bytes=--5", "bytes=+1-5", "lines=0-1", "bytes"):
                with self.subTest(name=name, field=asked):
                    self.get(200, f"/{name}", "-H", f"Range: {asked}")
                    self.assertTrue(self.body == data, "wrong bytes")
            for asked, first, last in (
                    ("bytes=0-0", 0, 0), ("bytes=10-", 10, size - 1), ("bytes=-10", size - 10, size - 1),
                    (f"bytes=5-{size + 5}", 5, size - 1), ("BYTES=1-2", 1, 2), ("bytes=1-2, 5-6", 1, 2),
                    ("bytes=-" + "9" * 30, 0, size - 1)):
                with self.subTest(name=name, field=asked):
                    self.get(206, f"/{name}", "-H", f"Range: {asked}")
                    self.assertTrue(self.body == data[first:last + 1], "wrong bytes")
                    self.assertEqual(self.field["content-range"], f"bytes {first}-{last}/{size}")

    def check_connections(self):
        text = self.raw(
            request("/1.txt") + request("/1k", method="HEAD") + request("/none")
            + request("/", HOST + "Transfer-Encoding: chunked\r\n", "POST")
            + "3\r\nabc\r\n0\r\na: b\r\n\r\n" + request("/1k", HOST + "Range: bytes=-5\r\n")
            + request("/1k", HOST + "If-None-Match: *\r\n") + request("/index.html", CLOSE)
            + request("/1k"))
        self.assertEqual(statuses(text), "200 200 404 405 206 304 200")
        self.assertEqual(re.findall("(?m)^one$|^bcdef|^<p>.*", text),
                         ["one", "bcdef", "<p>index</p>"])
        self.assertIn("\nConnection: close\r\n", text)
        text = self.raw(request("/64k.png") * self.many + request("/", CLOSE))
        self.assertGreater(len(text), self.many * 65536)
        self.assertEqual(text.count("HTTP/1.1 200 OK"), self.many + 1)
        self.assertEqual(self.client("curl", "-s", "-o", self.path("body"), "-o", self.path("body"),
                                     "-w", "%{num_connects} ", f"{self.url}/1k",
                                     f"{self.url}/1.txt"), b"1 0 ")
        two = request("/1.txt") + request("/1k")
        self.assertEqual(statuses(self.raw(two, "nodelay")), "200 200")
        client = self.dial(self.server)
        serverlib.dribble(client, two.encode(), 0.001)
        client.shutdown(1)
        self.assertEqual(statuses(serverlib.receive_all(client).decode()), "200 200")
        text = self.client("ncat", "127.0.0.1", str(self.server.port),
                           input=request("/1.txt").encode())
        self.assertEqual(statuses(text.decode()), "200")

    def h2load(self, requests, clients, path, *options):
        text = self.client("h2load", "--h1", f"-n{requests}", f"-c{clients}", *options,
                           self.url + path, stderr=subprocess.STDOUT, ok=False).decode()
        self.assertIn(f"{requests} succeeded, 0 failed, 0 errored, 0 timeout", text)
        self.assertIn(f"status codes: {requests} 2xx", text)

    def leave_early(self):
        """Takes a part of a large answer."""
        client = self.behind("curl", "-s", f"{self.url}/big", stdout=subprocess.PIPE)
        self.assertEqual(len(client.stdout.read(100000)), 100000)
        client.stdout.close()
        client.wait()


class Answers(Httpd):
    def test_arguments(self):
        port = str(self.server.port)
        for arguments in ([], [port], ["x", self.dir], ["0", self.dir], ["99999", self.dir],
                          [port, self.dir, "1"]):
            self.usage(HTTPD, *arguments)
        for directory, words in ((self.path("none"), b"No such file"), (self.dir, b"in use")):
            done = subprocess.run([HTTPD, port, directory], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 1, directory)
            self.assertIn(words, done.stderr)

    def test_files(self):
        for name in "1.txt", "1k", "empty", "64k.png", "65k", "big", "index.html":
            with self.subTest(name=name):
                data = content(f"{self.www}/{name}")
                self.get(200, f"/{name}")
                self.assertTrue(self.body == data, "not what was sent")
                self.assertEqual(self.field["content-length"], str(len(data)))
                self.get(200, f"/{name}", "-I")
                self.assertEqual(self.field["content-length"], str(len(data)))
                for field in "date", "last-modified", "etag":
                    self.assertTrue(self.field[field])
        for path, kind in TYPES:
            self.get(200, path)
            self.assertTrue(self.field["content-type"].startswith(kind), path)

    def test_paths(self):
        for status, path, *body in (
                (200, "/", b"<p>index</p>\n"), (200, "/sub/", b"<p>sub</p>\n"), (404, "/sub"),
                (404, "/bare/"), (404, "/none"), (404, "/1.txt/"), (200, "/1.txt?query"),
                (200, "/%31%2etxt"), (200, "/with%20space.txt"), (200, "///1.txt"),
                (200, "/sub/../1.txt"), (200, "/inside"), (404, "/fifo"), (404, "/%"),
                (404, "/%zz"), (404, "/1.txt%00.html")):
            with self.subTest(path=path):
                self.get(status, path)
                if body:
                    self.assertEqual(self.body, body[0])
        if os.getuid() != 0:
            self.get(404, "/locked")

    def test_escapes(self):
        for path in ("/../secret", "/%2e%2e/secret", "/sub/../../secret", "/..%2fsecret",
                     "/escape", "/absolute", "/up/secret", f"/{self.files.name}/secret",
                     f"//{self.files.name}/secret"):
            with self.subTest(path=path):
                self.get(404, path)
                self.assertNotIn(b"secret", self.body)

    def test_changes(self):
        name = f"{self.www}/2.txt"
        for text in "changed\n", "and again\n":
            with open(name, "w") as file:
                file.write(text)
            self.get(200, "/2.txt")
            self.assertEqual(self.body.decode(), text)
            time.sleep(1.1)                     # it looks once a second
        os.unlink(name)
        self.get(404, "/2.txt")

    def test_conditions(self):
        self.check_conditions()

    def test_ranges(self):
        self.check_ranges()

    def test_if_range(self):
        self.get(200, "/1k")
        etag = self.field["etag"]
        for status, *options in (
                (206, "-r", "0-9", "-H", f"If-Range: {etag}"),
                (200, "-r", "0-9", "-H", 'If-Range: "x"'),
                (200, "-H", "Range: lines=0-9"), (200, "-I", "-r", "0-9"),
                (206, "-r", "0-9,20-29")):
            with self.subTest(options=options):
                self.get(status, "/1k", *options)
        self.assertTrue(self.field["content-range"].startswith("bytes 0-9/"))
        self.get(416, "/empty", "-r", "0-0")

    def test_methods(self):
        for method in "POST", "PUT", "DELETE", "OPTIONS", "PATCH":
            with self.subTest(method=method):
                self.get(405, "/1.txt", "-X", method, "-d", "body")
                self.assertEqual(self.field["allow"], "GET, HEAD")
        chunked = "-H", "Transfer-Encoding: chunked"
        self.get(405, "/", "-T", self.secret, *chunked)
        self.get(200, "/1.txt", "-X", "GET", "-d", "body")
        self.get(200, "/1.txt", "-X", "GET", "-d", "body", *chunked)
        for more in chunked, ("-H", "Expect:"), ():
            self.get(413, "/", "-X", "POST", "--data-binary", f"@{self.much}", *more)

    def test_versions(self):
        self.get(200, "/1.txt", "-0")
        self.assertEqual(self.field["connection"], "close")
        self.get(200, "/1.txt", "-0", "-H", "Connection: keep-alive")
        self.assertEqual(self.field["connection"], "keep-alive")
        self.get(200, "/1.txt", "--http2")      # an upgrade that it does not know

    def test_requests(self):
        chunked = HOST + "Transfer-Encoding: chunked\r\n"
        for what, status, text in (
                ("no host", "400", request("/1.txt", "")),
                ("two lengths", "400", request("/", chunked + "Content-Length: 1\r\n", "POST")),
                ("wrong chunk", "400", request("/", chunked, "POST") + "x\r\n"),
                *((what, "400", request("/", chunked, "POST") + text) for what, text in (
                    ("other bytes after a chunk", "5\r\nhelloXX0\r\n\r\n"),
                    ("a line feed after a chunk", "5\r\nhello\n\n0\r\n\r\n"),
                    ("a line feed after a size", "5\nhello\r\n0\r\n\r\n"),
                    ("a space after a size", "5 \r\nhello\r\n0\r\n\r\n"),
                    ("words after a size", "5 a\r\nhello\r\n0\r\n\r\n"),
                    ("a sign before a size", "+5\r\nhello\r\n0\r\n\r\n"),
                    ("a size with 0x", "0x5\r\nhello\r\n0\r\n\r\n"),
                    ("a size that is too large", "f" * 17 + "\r\nhello\r\n0\r\n\r\n"),
                    ("a line feed at the end", "0\r\nField: a\n\r\n"),
                    ("a field without a colon", "0\r\nField\r\n\r\n"))),
                ("garbage", "400", "\1\2\3\r\n\r\n"),
                ("half a request", "", "GET /1.txt HTT"),
                ("nothing", "", ""),
                ("bare line feeds", "400", "GET /1.txt HTTP/1.1\nHost: x\n\n"),
                ("one bare line feed", "400", "GET /1.txt HTTP/1.1\r\nA: b\nHost: x\r\n\r\n"),
                ("two hosts", "400", request("/1.txt", HOST + "host: y\r\n")),
                ("the same of a coding", "400",
                 request("/1.txt", HOST + "Transfer-Encoding : chunked\r\n") + "0\r\n\r\n"),
                ("codings in two fields", "400",
                 request("/", chunked + "Transfer-Encoding: chunked\r\n", "POST") + "0\r\n\r\n"),
                ("a coding in HTTP/1.0", "400",
                 f"POST / HTTP/1.0\r\n{chunked}\r\n0\r\n\r\n"),
                ("other versions", "505", f"GET /1.txt HTTP/9.9\r\n{HOST}\r\n"),
                ("a later minor version", "200", f"GET /1.txt HTTP/1.7\r\n{CLOSE}\r\n"),
                ("absolute form", "200 200 200 404",
                 request("http://x/1.txt") + request("http://x:80?a") + request("HTTP://x/sub/?/#/")
                 + request("http://x/none", CLOSE)),
                ("a host only", "400", request("//")[:9] + "x\r\n\r\n"),
                ("a line that ends in a lone CR", "400", "GET /1.txt\r\nH:\rm\r\nx"),
                ("long field", "200", request("/", HOST + f"Range: {'a' * 3000}\r\n")),
                ("long field of no use", "200",
                 request("/", HOST + f"Cookie: {'a' * 6000}\r\n"))):
            with self.subTest(what):
                self.assertEqual(statuses(self.raw(text)), status)

    def test_rfc(self):
        """A request, and one behind it; what the RFCs, 9112 unless 9110 is said, ask for."""
        more = request("/1.txt", CLOSE)
        post = "POST / HTTP/1.1\r\n" + HOST
        body = "5\r\nhello\r\n0\r\n\r\n"
        for section, status, text in (
                # Messages
                ("2.2 empty lines before", "200", "\r\n\r\n"),
                ("2.2 too many of them", "400", "\r\n" * 8000),
                ("2.2 a bare CR in a field", "400", request("/1.txt", HOST + "A: b\rc\r\n")),
                ("2.2 a bare CR in a line", "400", f"GET /1.txt\rHTTP/1.1\r\n{HOST}\r\n"),
                ("2.2 space before the first field", "400", f"GET / HTTP/1.1\r\n {HOST}\r\n"),
                *(("2.3 version " + version, "400", f"GET / {version}\r\n{HOST}\r\n")
                  for version in ("http/1.1", "HTTP/1.", "HTTP/1", "HTTP/ 1.1", "HTTP/1.1 ",
                                  "HTTP/01.1", "HTTP/1.1x", "XHTTP/1.1", "ICY/1.1")),
                ("3.1 the preface of HTTP/2", "501", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
                ("2.3 zero", "400", "GET / HTTP/0.9\r\n\r\n"),
                # Request lines
                ("3 no version", "400", f"GET /\r\n{HOST}\r\n"),
                ("3 a space in the target", "400", request("/1.txt b")),
                ("3 a tab", "400", f"GET\t/\tHTTP/1.1\r\n{HOST}\r\n"),
                ("3 a target of 3000 bytes", "414", request("/" + "a" * 3000)),
                ("3 a target of 20000 bytes", "414", request("/" + "a" * 20000)),
                ("3.1 a method in small letters", "501", request("/", method="get")),
                ("3.1 an unknown one", "501", request("/", method="BREW")),
                *((f"3.2 host '{host}'", status, request("/1.txt", f"Host:{host}\r\n"))
                  for host, status in (
                      ("", "200 200"), (" x.y:80", "200 200"), (" [::1]:80", "200 200"),
                      ("a%20b", "200 200"), ("x:", "200 200"), (" a b", "400"), (" a/b", "400"),
                      (" a@b", "400"), (" x:y", "400"), (" x, y", "400"), (" [::1", "400"))),
                ("3.2.2 no host beside", "400", request("http://x/1.txt", "")),
                ("9110, 4.2.1 an empty host", "400", request("http:///1.txt")),
                ("3.2.3 authority-form", "405 200", request("x:80", method="CONNECT")),
                ("3.2.3 of another method", "400", request("x:80")),
                ("3.2.4 asterisk-form", "405 200", request("*", method="OPTIONS")),
                ("3.2.4 of another method", "400", request("*")),
                ("3.2.1 no slash", "400", request("1.txt")),
                # Fields
                *((f"5 name {name!r}", "400", request("/1.txt", HOST + name + ": b\r\n"))
                  for name in ("", "A ", "A\t", " A", "A(", "A@b", "A\1", "\xff")),
                ("5 a line without a colon", "400", request("/1.txt", HOST + "A\r\n")),
                ("5.1 no value, blanks around", "200 200",
                 request("/1.txt", HOST + "A:\r\nB: \t c \t \r\n")),
                ("9110, 5.5 a NUL", "400", request("/1.txt", HOST + "A: b\0c\r\n")),
                ("5.2 a fold", "400", request("/1.txt", HOST + "A: b\r\n\tc\r\n")),
                ("5.4 a long head", "431", request("/", HOST + f"A: {'b' * 9000}\r\n")),
                # Bodies
                *((f"6.1 coding {coding!r}", status,
                   post + f"Transfer-Encoding: {coding}\r\n\r\n" + body)
                  for coding, status in (
                      ("chunked", "405 200"), ("CHUNKED ", "405 200"), ("chunked, gzip", "400"),
                      ("chunked, chunked", "400"), ("gzip, chunked", "501"), ("identity", "400"),
                      ("xchunked", "400"), ("", "400"))),
                *((f"6.2 length {length!r}", status,
                   post + f"Content-Length: {length}\r\n\r\nhello")
                  for length, status in (
                      ("5", "405 200"), ("0005", "405 200"), ("+5", "400"), ("-1", "400"), ("5, 6", "400"),
                      ("5 5", "400"), ("0x5", "400"), ("", "400"), ("5a", "400"), ("5.0", "400"),
                      ("18446744073709551621", "400"))),
                ("6.3 two lengths", "400", post + "Content-Length: 5\r\n" * 2 + "\r\nhello"),
                ("6.3 two that differ", "400",
                 post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
                ("6.3 no body", "405 200", post + "\r\n"),
                ("6.3 a body of GET", "200 200",
                 request("/1.txt", HOST + "Content-Length: 5\r\n") + "hello"),
                ("7.1 sizes, extensions", "405 200",
                 post + "Transfer-Encoding: chunked\r\n\r\n"
                 "00A;a;b=\"c\"\r\n0123456789\r\na\r\n0123456789\r\n000\r\n\r\n"),
                ("7.1.2 fields behind", "405 200",
                 post + "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: y\r\n"
                 "Content-Length: 9\r\n\r\n"),
                # Connections
                ("9.3 of HTTP/1.0", "200", "GET /1.txt HTTP/1.0\r\n\r\n"),
                ("9.3 kept", "200 200", "GET /1.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"),
                *(("9.6 closed", "200", request("/1.txt", HOST + f"Connection: {close}\r\n"))
                  for close in ("CLOSE", "x, close", "close, x", "x\r\nConnection: close")),
                ("9110, 7.8 an upgrade", "200 200",
                 request("/1.txt", HOST + "Connection: Upgrade\r\nUpgrade: h2c\r\n")),
                ("9110, 9.3.8 TRACE", "405 200", request("/1.txt", method="TRACE")),
                # Expectations
                ("9110, 10.1.1", "100 405 200",
                 post + "Content-Length: 5\r\nExpect: 100-Continue\r\n\r\nhello"),
                ("9110, 10.1.1 no body", "405 200", post + "Expect: 100-continue\r\n\r\n"),
                ("9110, 10.1.1 of HTTP/1.0", "405",
                 "POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello"),
                ("9110, 10.1.1 another one", "405 200",
                 post + "Content-Length: 5\r\nExpect: a\r\n\r\nhello")):
            with self.subTest(section):
                self.assertEqual(statuses(self.raw(text + more)), status)

    def test_metrics(self):
        """For Prometheus, whose own tool reads it, if there is one."""
        self.get(200, "/metrics")
        self.assertEqual(self.field["content-type"], "text/plain; version=0.0.4")
        self.assertIn(b'\nusched_launches_total{scheduler="0",processor="0"} ', self.body)
        self.get(405, "/metrics", "-X", "DELETE")
        if not shutil.which("promtool"):
            self.skipTest("there is no promtool")
        self.get(200, "/metrics?again")
        with open(self.path("body"), "rb") as body:
            said = subprocess.run(["promtool", "check", "metrics"], stdin=body,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual((said.returncode, said.stdout), (0, b""))

    def test_connections(self):
        self.check_connections()

    def test_bad_clients(self):
        """Clients that never read, or go away in the middle, while others are served;
        and one with a slow head, which is refused in the end."""
        slow = self.dial(self.server)
        slow.sendall(b"GET /1.txt HTTP/1.1\r\nHos")
        deaf = self.behind("ncat", "127.0.0.1", str(self.server.port), stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        deaf.stdin.write(request("/big").encode())
        deaf.stdin.flush()
        for turn in range(5):
            self.leave_early()
            self.client("timeout", "0.2", "curl", "-s", "--limit-rate", "10000",
                        f"{self.url}/65k", ok=False)
            self.client("socat", "-u", "-", f"TCP:127.0.0.1:{self.server.port},linger=0",
                        ok=False, input=request("/big").encode())
            self.get(200, f"/big?{turn}")
        self.assertRegex(serverlib.receive_all(slow), b"^HTTP/1.1 408")


class Load(Httpd):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = serverlib.patient("05-httpd", f"{cls.files.name}/httpd", "-lhttp_parser")

    def test_wrk(self):
        text = self.client("wrk", "-t1", "-c64", "-d2s", "--timeout", "600s",
                           f"{self.url}/1k").decode()
        self.assertNotRegex(text, "Socket errors|Non-2xx")
        self.assertIn("requests in", text)

    def test_h2load(self):
        for path in "/1k", "/65k":
            self.h2load(10000, 64, path, "-m4")

    def test_memory(self):
        """A leak goes on. More than ever may be open at once if a turn was slow."""
        least = 0
        for turn in range(8):
            self.h2load(2 * CONNECTIONS, CONNECTIONS, "/1k")
            self.all_closed(self.server)
            memory = self.server.memory("RssAnon")
            if turn >= 2 and memory <= least + 1024:
                return
            least = memory
        self.fail(f"{memory} KiB after {turn + 1} loads, and still more each time")

    def test_calls(self):
        """Once warm: a read and a write for each request, and hardly anything else."""
        if not shutil.which("strace") or subprocess.run(["strace", "-qq", "true"],
                                                        stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no strace, or not allowed: system calls are not counted")
        self.h2load(64, 64, "/1k")
        pid, counts = self.server.process.pid, self.path("calls")
        tracer = self.behind("strace", "-f", "-qq", "-c", "-o", counts, "-p", str(pid),
                             stderr=subprocess.DEVNULL)
        until(lambda: tracer.poll() is not None or f"TracerPid:\t{tracer.pid}\n"
              in content(f"/proc/{pid}/status", "r"), "the tracer")
        if tracer.poll() is not None:           # the system may permit it to parents only
            self.skipTest("strace may not attach: system calls are not counted")
        self.h2load(10000, 10, "/1k")
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        calls = {"write": 0, "read": 0, "epoll": 0, "open": 0, "other": 0}
        for line in content(counts, "r").splitlines():
            words = line.split()
            if words and words[0][0].isdigit() and words[-1] != "total":
                kind = re.match("(write|send)|(read|recv)|(epoll)|(open)|",
                                words[-1]).lastindex
                calls[("other", "write", "read", "epoll", "open")[kind or 0]] += int(words[3])
        # Beside one for each request, two reads that find the end of each connection, and
        # a write that wakes a processor. The file is looked at again each second, with a
        # dozen calls; how many seconds this takes is the machine's affair.
        for kind in "write", "read":
            self.assertTrue(10000 <= calls[kind] <= 10100, calls)
        self.assertLess(calls["other"], 200 + 12 * calls["open"], content(counts, "r"))


class FewDescriptors(Httpd):
    options = {"before": ("sh", "-c", 'ulimit -n 100; exec "$@"', "few")}

    def test_limits(self):
        """Its slots are used up, then its descriptors: later clients wait for them."""
        self.h2load(300, 300, "/1k")


class End(Httpd):
    """Requests that are received, even in part, are answered; then it ends."""

    def curls(self, loop):
        """Requests with curl; for each its status, and that of curl."""
        out = self.enter(open(self.path(f"curl.{time.monotonic_ns()}"), "w+b"))
        command = "curl -s -o /dev/null -w '%{http_code} %{exitcode}\\n' " + f"{self.url}/1k"
        if loop:
            command = f"while {command}; do :; done"
        return self.behind("sh", "-c", command, stdout=out), out.name

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = serverlib.patient("05-httpd", f"{cls.files.name}/httpd", "-lhttp_parser")

    def test_under_load(self):
        wrk = self.behind("wrk", "-t1", "-c64", "-d4s", "--timeout", "600s", f"{self.url}/1k",
                          stdout=subprocess.PIPE)
        curls = [self.curls(loop=True) for _ in range(4)]
        large = self.path("large")
        clients = [curl for curl, _ in curls] + [
            self.behind("curl", "-s", "--limit-rate", "10M", "-o", large, f"{self.url}/big")]
        for name in [*(name for _, name in curls), large]:
            until(lambda: os.path.exists(name) and os.path.getsize(name), name)
        until(lambda: wrk.poll() is not None
              or len(serverlib.established(self.server.port)) > 64, "the connections of wrk")
        half = self.dial(self.server)
        half.sendall(request("/empty").encode() + b"GET /1.txt HTT")
        text = half.recv(1)                     # so it has the other half as well
        self.server.signal()
        until(lambda: not serverlib.listens(self.server.port), "no listener")
        half.sendall(b"P/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(self.server.process.wait(), 0)
        self.assertEqual(self.server.errors(), "")
        text = (text + serverlib.receive_all(half)).decode()
        self.assertEqual(statuses(text), "200 200")
        self.assertIn("\nConnection: close\r\n", text)
        for client in clients:
            client.wait()
        self.assertTrue(content(large) == content(f"{self.www}/big"), "cut off on its way")
        text = wrk.communicate()[0].decode()
        self.assertIn("requests in", text)
        self.assertNotRegex(text, "timeout [1-9]|Non-2xx")      # others: nothing listens
        for _, name in curls:
            *answers, last = content(name, "r").splitlines()
            # The last finds no listener, or is reset or closed: it came between the last
            # look for others and the end of that, or asked too late.
            self.assertIn(last, ("000 7", "000 52", "000 55", "000 56"))
            self.assertEqual(set(answers), {"200 0"})

    def test_accepted(self):
        """The system has accepted them before the server sees that it is to end."""
        self.server.signal(signal.SIGSTOP)
        self.server.signal()
        curls = [self.curls(loop=False) for _ in range(6)]
        until(lambda: sum(unread > 0 for unread in serverlib.established(self.server.port)) == 6,
              "six requests")
        self.server.signal(signal.SIGCONT)
        for curl, name in curls:
            curl.wait()
            self.assertEqual(content(name), b"200 0\n")
        self.assertEqual(self.server.process.wait(), 0)
        self.assertEqual(self.server.errors(), "")


class Stalled(Httpd):
    """A server that gives clients a second to take answers."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = serverlib.compiled("05-httpd", f"{cls.files.name}/httpd",
                                         "-lhttp_parser",
                                         edits=[(r"^(#define STALL +\()10 ", r"\g<1>1 ")])

    def test_hole(self):
        """What a stalled client has got is the beginning of its answers, without a hole,
        and the connection is closed."""
        client = self.dial(self.server, receive=65536)
        client.sendall(request("/big").encode() * 2)
        text = client.recv(1)
        until(lambda: not serverlib.established(self.server.port), "no connection")
        with contextlib.suppress(ConnectionError):
            while data := client.recv(1 << 16):
                text += data
        head, _, body = text.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200"))
        self.assertLess(len(body), LARGE)
        self.assertTrue(content(f"{self.www}/big").startswith(body), "a hole")
        self.get(200, "/1.txt")


class Cut(Httpd):
    def test_cut(self):
        """A client that takes its answer, but slowly, is cut off in the end."""
        client = self.dial(self.server, receive=65536)
        client.sendall(request("/big").encode())
        client.recv(1)
        self.server.signal(signal.SIGINT)
        with contextlib.suppress(ConnectionError):
            while self.server.process.poll() is None:
                client.recv(65536)
                time.sleep(0.25)
        self.assertEqual(self.server.process.wait(), 1)


class Valgrind(Httpd):
    many = 30
    options = {"before": (*serverlib.VALGRIND, "--errors-for-leak-kinds=definite",
                          "--show-leak-kinds=definite")}

    @classmethod
    def setUpClass(cls):
        serverlib.need_valgrind()
        super().setUpClass()
        # Many a valgrind does not know openat2().
        cls.program = serverlib.compiled(
            "05-httpd", f"{cls.files.name}/httpd", "-lhttp_parser",
            build=serverlib.library(f"{cls.files.name}/build"),
            edits=[(re.escape("syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how)"),
                    "open(path + 1, O_RDONLY)")])

    def test_leaks(self):
        self.check_conditions()
        self.check_ranges()
        self.check_connections()
        self.h2load(300, 30, "/1k")
        self.get(413, "/", "-X", "POST", "--data-binary", f"@{self.much}")
        self.leave_early()


if __name__ == "__main__":
    unittest.main()
