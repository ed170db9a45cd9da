#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/11-crawler.c against a web server that counts: what is fetched, how much of it
at a time, deadlines, and the end by a signal.

Environment: that of serverlib.
"""

import collections
import http.server
import resource
import signal
import subprocess
import threading
import time
import unittest

import serverlib

CRAWLER = serverlib.example("11-crawler")


def setUpModule():
    global directory
    serverlib.need(CRAWLER)
    directory = serverlib.directory()


class Site(http.server.ThreadingHTTPServer):
    """Pages of HTML, by path: text; a number is a redirection to /NUMBER.html, None a page
    that does not come."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, pages, delay=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages, self.delay, self.lock = pages, delay, threading.Lock()
        self.asked, self.now, self.most, self.connections = collections.Counter(), 0, 0, 0
        self.awaited = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self.thread.start()

    def wait_for_others(self):
        """Until as many have come as come at a time, if that is to be seen."""
        serverlib.until(lambda: self.most >= self.awaited, "as many requests as may be")

    def address(self, host="127.0.0.1"):
        return f"http://{host}:{self.server_address[1]}"

    def close(self):
        self.over.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1               # head and body at once

    def setup(self):
        super().setup()
        self.server.connections += 1

    def do_GET(self):
        site = self.server
        with site.lock:
            site.asked[self.path] += 1
            site.now += 1
            site.most = max(site.most, site.now)
        page = site.pages.get(self.path.partition("?")[0], "missing")
        if page is None:
            site.over.wait()
        elif self.path != "/":
            site.wait_for_others()
            time.sleep(site.delay)
        with site.lock:
            site.now -= 1
        if page is None:
            self.close_connection = True
            return
        text = page.encode() if isinstance(page, str) else b""
        self.send_response(404 if page == "missing" else 301 if text == b"" else 200)
        if not text:
            self.send_header("Location", f"/{page}.html")
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Crawler(serverlib.Case):
    def site(self, pages, **options):
        site = Site(pages, **options)
        self.addCleanup(site.close)
        return site

    def crawl(self, address, count=4, program=CRAWLER, status=0):
        """The lines that it prints, sorted, except the last one."""
        done = subprocess.run([program, address, str(count)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (status, ""))
        *lines, last = done.stdout.splitlines()
        return sorted(lines), last

    def edited(self, **seconds):
        edits = [(rf"^(#define {name} +\()[0-9]+", rf"\g<1>{value}")
                 for name, value in seconds.items()]
        name = "".join(f".{name}{value}" for name, value in seconds.items())
        return serverlib.compiled("11-crawler", f"{directory}/crawler{name}", "-lcurl",
                                  edits=edits)

    def test_links(self):
        site = self.site({
            "/": "<a href='a.html'>a</a><A HREF=\"/b.html#x\">b</A><a href=sub/>s</a>"
                 "<a href='http://127.0.0.2:1/'>elsewhere</a><a href='ftp://127.0.0.1/'>f</a>"
                 "<a href='none.html'>n</a><a href='" + "x" * 3000 + "'>long</a>"
                 "<a href='mailto:a@b'>m</a><a href=''>self</a><a href='http://[/'>wrong</a>",
            "/a.html": "<a href='/b.html#y'>b</a><a href='q?x=1&amp;y=2'>q</a>",
            "/b.html": "<a href='/'>back</a><a href",
            "/sub/": "<a href='../a.html'>a</a><a href='moved'>m</a>",
            "/sub/moved": 7, "/7.html": "seven", "/q": "q"})
        site.pages["/b.html"] += f"<a href='{site.address('127.0.0.2')}/other'>o</a>"
        for host in "127.0.0.1", "localhost":
            site.asked.clear()
            base = site.address(host)
            lines, last = self.crawl(base)
            self.assertEqual(lines, sorted(
                f"{status} {base}{path}, {size} bytes" for status, path, size in (
                    (200, "/", len(site.pages["/"])), (200, "/7.html", 5),
                    (200, "/a.html", len(site.pages["/a.html"])),
                    (200, "/b.html", len(site.pages["/b.html"])), (200, "/q?x=1&y=2", 1),
                    (200, "/sub/", len(site.pages["/sub/"])), (301, "/sub/moved", 0),
                    (404, "/none.html", 7))))
            self.assertRegex(last, "^8 pages, 0 of them without an answer, [0-9]+ bytes$")
            self.assertEqual(set(site.asked.values()), {1})

    def wide(self, count, **options):
        pages = {f"/{i}": f"page {i}" for i in range(count)}
        pages["/"] = "".join(f"<a href={path}>x</a>" for path in pages)
        return self.site(pages, **options)

    def test_at_a_time(self):
        """So many, and no more; and their connections are used again."""
        site = self.wide(40, delay=0.02)
        for count in 1, 8:
            site.most = site.connections = 0
            site.awaited = count
            lines, _ = self.crawl(site.address(), count)
            self.assertEqual(len(lines), 41)
            self.assertEqual(site.most, count)
            self.assertLessEqual(site.connections, count)

    def test_large(self):
        site = self.site({"/": "<a href=a>" + " " * 3000000 + "<a href=b>", "/a": "a"})
        self.assertEqual(len(self.crawl(site.address())[0]), 2)

    def test_links_without_end(self):
        """Each takes no longer than a link may be, and not to the end of the page."""
        program = serverlib.compiled("11-crawler", f"{directory}/crawler.large", "-lcurl",
                                     edits=[(r"(BODY += 1 << )20", r"\g<1>24")])
        seconds = []
        for link in f"{'href=x':64}", "href=":
            site = self.site({"/": link * ((1 << 24) // len(link))})
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            self.crawl(site.address(), program=program)
            seconds.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        self.assertLess(seconds[1], seconds[0])

    def test_page_that_does_not_come(self):
        site = self.wide(5)
        site.pages["/3"] = None
        for seconds in 1, 10, 60:               # for others, on a slow machine
            lines, last = self.crawl(site.address(), 2, self.edited(PAGE=seconds), 1)
            if last.startswith("6 pages, 1 of"):
                break
        self.assertEqual(lines[0], f"--- {site.address()}/3: the deadline has passed")
        self.assertEqual(len(lines), 6)
        self.assertRegex(last, "^6 pages, 1 of them without an answer, [0-9]+ bytes$")

    def test_all_take_too_long(self):
        site = self.wide(100, delay=0.1)
        lines, last = self.crawl(site.address(), 1, self.edited(ALL=1), 1)
        self.assertLess(len(lines), 50)
        self.assertRegex(last, "; the deadline has passed$")

    def test_signal(self):
        site = self.wide(20)
        for i in range(20):
            site.pages[f"/{i}"] = None
        for number in signal.SIGINT, signal.SIGTERM:
            site.now = 0
            process = self.behind(CRAWLER, site.address(), "8", stdout=subprocess.PIPE)
            serverlib.until(lambda: site.now == 8, "eight requests")
            process.send_signal(number)
            said = process.communicate()[0].decode().splitlines()
            self.assertEqual(process.returncode, 1)
            self.assertEqual(len([line for line in said if "cancelled" in line]), 9)
            self.assertRegex(said[-1], "; the thread or its scope was cancelled$")

    def test_no_server(self):
        site = self.site({})
        address = site.address()
        site.server_close()
        lines, _ = self.crawl(address, status=1)
        self.assertEqual(len(lines), 1)
        done = subprocess.run([CRAWLER, "http://no-such-host.invalid/", "1"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^crawler: no-such-host.invalid: ")

    def test_usage(self):
        for arguments in ([], ["http://x/"], ["http://x/", "0"], ["http://x/", "x"],
                          ["http://x/", "1", "1"], ["ftp://x/", "1"], ["", "1"],
                          ["http://x/", "1001"]):
            self.usage(CRAWLER, *arguments)


if __name__ == "__main__":
    unittest.main()
