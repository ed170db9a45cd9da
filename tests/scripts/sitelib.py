# SPDX-License-Identifier: MIT
"""sitelib.py: looks at a site of make site, for site.sh.

usage: sitelib.py DIR [PAGE...]

First reads all pages of DIR, for links and anchors that lead nowhere, and for what a page
would load from elsewhere. Then headless Chromium opens the PAGEs, or all, as files at each
of WIDTHS: no error on the console, no request to a server, nothing wider than the window.
It searches, also where the site comes from a server, below a path. Prints what is wrong.
With SHOTS=DIR it leaves pictures in DIR, of the dark scheme as well.

Exit status: 0, or 1 if something is wrong.
"""

import base64
import functools
import html.parser
import http.server
import json
import os
import posixpath
import subprocess
import sys
import tempfile
import threading
import urllib.parse

WIDTHS = 420, 1280      # pixels
LIMIT = 60              # seconds, for an answer of the browser
CALL = "usync_chan_send"
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}

# What sticks out and cannot be scrolled to, in the page's words.
CUT = """(() => {
    const width = document.scrollingElement.clientWidth, bad = [];
    if (document.scrollingElement.scrollWidth > width)
        bad.push(`scrolls to ${document.scrollingElement.scrollWidth} of ${width}`);
    for (const e of document.querySelectorAll(".md-content *")) {
        let box = e;
        while (box != document.body && !/auto|scroll/.test(getComputedStyle(box).overflowX))
            box = box.parentElement;
        const r = e.getBoundingClientRect();
        const right = r.left + Math.max(r.width, e.scrollWidth);
        if (box == document.body && r.width > 1 && right > width + 1)
            bad.push(`${e.tagName} ends at ${Math.round(right)}: ${e.textContent.slice(0, 30)}`);
    }
    return bad.slice(0, 3);
})()"""
FOUND = """new Promise(done => {
    const look = () => {
        const links = [...document.querySelectorAll("a.md-search-result__link")];
        links.length ? done(links.slice(0, 4).map(link => link.href)) : setTimeout(look, 50);
    };
    setTimeout(() => done([]), 20000);
    look();
})"""


class Page(html.parser.HTMLParser):
    """Of a page: `anchors', its `links', and what it has `loaded'."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loaded = {"", "__top"}, [], []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            if attrs["id"] in self.anchors:
                self.links.append(f"#twice:{attrs['id']}")  # is found nowhere
            self.anchors.add(attrs["id"])
        if tag in LOADED and attrs.get("rel") != "canonical":
            self.loaded.append(attrs.get(LOADED[tag]) or "")
        elif tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])


def links(root):
    """The pages of a site, and what is wrong with their links."""
    files = {os.path.relpath(os.path.join(place, name), root)
             for place, _, names in os.walk(root) for name in names}
    pages = {name: Page(os.path.join(root, name)) for name in sorted(files)
             if name.endswith(".html")}
    wrong = []
    for name, page in pages.items():
        wrong += [f"{name} loads {link}" for link in page.loaded
                  if urllib.parse.urlsplit(link).netloc]
        for link in page.links + page.loaded:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            target = posixpath.join(posixpath.dirname(name), urllib.parse.unquote(parts.path))
            target = posixpath.normpath(target) if parts.path else name
            anchor = urllib.parse.unquote(parts.fragment)
            if target not in files or parts.path.startswith("/"):
                wrong.append(f"{name}: {link} is not there")
            elif target in pages and anchor not in pages[target].anchors:
                wrong.append(f"{name}: {link} has no such anchor")
    return list(pages), wrong


class Browser:
    """Headless Chromium, by the DevTools protocol over two pipes: numbers 3 and 4 there."""

    def __init__(self, program):
        self.place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        down, self.down = os.pipe()
        self.up, up = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{down} 4>&{up}', "sh", program, "--headless",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.place.name}", "about:blank"],
            pass_fds=(down, up), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(down)
        os.close(up)
        self.number, self.rest, self.session, self.events = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(f"{domain}.enable")

    def message(self):
        """The next one. Without one in time the browser is ended."""
        timer = threading.Timer(LIMIT, self.process.kill)
        timer.start()
        while b"\0" not in self.rest:
            data = os.read(self.up, 1 << 20)
            if not data:
                sys.exit("sitelib.py: the browser has ended, or did not answer in time")
            self.rest += data
        timer.cancel()
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.down, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"sitelib.py: {method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        return result["result"].get("value", result.get("exceptionDetails"))

    def open(self, url, base):
        """Opens a page; returns what is wrong with it."""
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        self.value("new Promise(done => setTimeout(done, 20))")
        return [text for event in self.events for text in told(event, base)]

    def wide(self, width, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def shot(self, path):
        data = self.call("Page.captureScreenshot")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.place.cleanup()


def told(event, base):
    """What an event tells of an error, or of a request that leaves the site."""
    params = event.get("params", {})
    if event["method"] == "Runtime.exceptionThrown":
        yield f"exception: {params['exceptionDetails'].get('text')}"
    elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
        yield f"console: {params['args']}"
    elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
        yield f"{params['entry']['text']} {params['entry'].get('url', '')}"
    elif event["method"] == "Network.requestWillBeSent":
        url = params["request"]["url"]
        if not url.startswith((base, "about:", "data:", "blob:")):
            yield f"asks for {url}"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(root):
    """A server that has the site below a path; returns the address of the site."""
    handler = functools.partial(Quiet, directory=os.path.dirname(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/{os.path.basename(root)}/"


def search(browser, base):
    wrong = browser.open(f"{base}index.html?q={CALL}", base)
    found = browser.value(FOUND)
    if not any(f"#{CALL}" in link for link in found):
        wrong.append(f"{base}: a search finds {found}")
    return wrong


def main():
    root, shots = os.path.abspath(sys.argv[1]), os.environ.get("SHOTS")
    pages, wrong = links(root)
    chosen = sys.argv[2:] or pages
    browser = Browser(os.environ.get("BROWSER", "chromium"))
    base = f"file://{root}/"
    for width in WIDTHS:
        for scheme in ("light", "dark") if shots else ("light",):
            browser.wide(width, scheme)
            for page in chosen:
                seen = browser.open(base + page, base) + browser.value(CUT)
                wrong += [f"{page} at {width}: {text}" for text in seen]
                if shots:
                    name = f"{page.replace('/', '_')}-{width}-{scheme}.png"
                    browser.shot(os.path.join(shots, name))
    for place in (base, serve(root)) if "index.html" in pages else ():
        wrong += search(browser, place)
    browser.end()
    print("\n".join(wrong) or f"{len(pages)} pages, {len(chosen)} of them seen in Chromium")
    sys.exit(bool(wrong))


main()
