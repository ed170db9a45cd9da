# SPDX-License-Identifier: MIT
"""sitelib.py: reads all pages of a site of make site, for site.sh: links and anchors that
lead nowhere, and what a page would load from elsewhere. Prints what is wrong.

usage: sitelib.py DIR

Exit status: 0, or 1 if something is wrong.
"""

import html.parser
import os
import posixpath
import sys
import urllib.parse

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


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


pages, wrong = links(os.path.abspath(sys.argv[1]))
print("\n".join(wrong) or f"{len(pages)} pages")
sys.exit(bool(wrong))
