# SPDX-License-Identifier: MIT
"""What the pictures of graph.py and of `uthreads draw' have in common: figures of
matplotlib, axes, and the bytes of files."""

import io
import math
import os
import re
import sys
import textwrap
import zlib
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from . import Problem

FORMATS = ("svg", "png", "pdf")
FONTS = ("DejaVu Sans", "Verdana", "sans-serif")  # the first is measured; equal widths
# Those of Okabe and Ito, which colour-blind readers can tell apart, and one more.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
           "#6A3D9A")


def new_figure(width, height):
    """Without pyplot, so never a window."""
    os.environ["MPLBACKEND"] = "Agg"
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise Problem(no_matplotlib()) from None
    matplotlib.rcdefaults()  # independent of the user's settings
    matplotlib.rcParams.update({
        "svg.hashsalt": "usched", "svg.fonttype": "none", "font.sans-serif": FONTS,
        "text.parse_math": False,
        "font.size": 10, "axes.titlesize": 13,
        "axes.spines.top": False, "axes.spines.right": False})
    return Figure(figsize=(width, height), layout="constrained")


def no_matplotlib():
    """`make bench' installs it in .venv of the directory that has graph.py."""
    directory = os.path.dirname(os.path.abspath(sys.argv[0]))
    for python in (f"{top}/.venv/bin/python3" for top in (directory, f"{directory}/..")):
        if os.access(python, os.X_OK):
            return f"pictures need matplotlib: run this with {os.path.relpath(python)}"
    return ("pictures need matplotlib: python3 -m pip install matplotlib; "
            "tables need nothing")


def titles(axes, title, text, beside=0.8):
    """Above the axes, in as many lines as they need with so many inches beside them."""
    width = axes.figure.get_figwidth() - beside
    text = textwrap.fill(text, int(14 * width))
    axes.set_title(textwrap.fill(title, int(10.5 * width)), loc="left",
                   pad=22 + 14 * text.count("\n"))
    axes.annotate(text, (0, 1), xytext=(0, 8), xycoords="axes fraction",
                  textcoords="offset points", color="0.35")


def span(places):
    """The limits of an axis: room at the sides, and at least one power of ten."""
    first, last = places[0], places[-1]
    if last / first < 10:
        low = 10 ** math.floor(math.log10(first))
        return low, 100 * low if last > 10 * low else 10 * low
    return first / 1.5, last * 1.5


def short(value):
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def ticks(axis, low, high):
    """Ticks of a logarithmic axis: 1, 2, 5, 10, ..., or powers of ten if it is long."""
    from matplotlib.ticker import LogLocator, NullFormatter
    narrow = axis.axis_name == "x" and axis.axes.figure.get_figwidth() < 6
    steps = (1,) if high > (50 if narrow else 20000) * low else (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axis.set_major_formatter(lambda value, _: short(value))
    axis.set_minor_formatter(NullFormatter())


def whiskers(axes, points, colour):
    """Whiskers from the least to the most of the runs of each point."""
    if points:
        places, averages, runs = zip(*points)
        # The mean of equal numbers may be rounded up or down.
        below = [max(0, a - min(values)) for a, values in zip(averages, runs)]
        above = [max(0, max(values) - a) for a, values in zip(averages, runs)]
        axes.errorbar(places, averages, yerr=(below, above), fmt="none", ecolor=colour,
                      elinewidth=1, capsize=3)


def render(figure, kind):
    """The bytes of a picture. Without a date: equal results give equal bytes."""
    metadata = {"svg": dict.fromkeys(("Date", "Creator", "Format", "Type")), "png": {},
                "pdf": {"CreationDate": None}}
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=160, metadata=metadata[kind])
    return Compact(out.getvalue()).text.encode() if kind == "svg" else out.getvalue()


SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


class Compact:
    """An SVG of matplotlib's in a tenth of its lines, with the same look.

    Coordinates have one decimal, those of markers two. Styles are classes. The name of a
    class depends on its rules, so pictures on one page do not disturb each other. Nothing
    lies outside of the axes, so there is no clipping. Most groups are left out."""

    WIDTH = 100  # columns, unless a tag is longer
    DROPPED = {f"{{{SVG}}}{tag}" for tag in ("metadata", "style", "clipPath")}

    def __init__(self, svg):
        root = ElementTree.fromstring(svg)
        self.classes = {}  # style -> name
        body = list(self.children(root, 1))
        rules = "\n".join(f".{name}{{{style}}}" for style, name in self.classes.items())
        fonts = ",".join(f"'{font}'" if " " in font else font for font in FONTS)
        self.text = "\n".join([
            f'<svg xmlns="{SVG}" xmlns:xlink="{XLINK}"',
            f'width="{root.get("width")}" height="{root.get("height")}" '
            f'viewBox="{root.get("viewBox")}"',
            f'font-family="{fonts}" stroke-linejoin="round">', "<style>", rules, "</style>",
            *self.lines(body), "</svg>\n"])

    def children(self, element, decimals):
        for child in element:
            if child.tag not in self.DROPPED:
                yield from self.tags(child, decimals)

    def tags(self, element, decimals):
        tag = element.tag.removeprefix(f"{{{SVG}}}")
        if tag == "text":
            attributes = self.attributes(element, decimals)
            yield f"<text{attributes}>{escape(element.text or '')}</text>"
        elif tag == "defs":
            inner = "".join(self.children(element, 2))
            if inner:
                yield f"<defs>{inner}</defs>"
        elif tag == "g":
            yield from self.group(element, decimals)
        else:
            yield f"<{tag}{self.attributes(element, decimals)}/>"

    def group(self, element, decimals):
        """Keeps a group if its marks share a style."""
        marks = [child for child in element if child.tag == f"{{{SVG}}}use"]
        style = marks[0].get("style") if marks else None
        if len(marks) < 2 or {mark.get("style") for mark in marks} != {style}:
            yield from self.children(element, decimals)
            return
        for mark in marks:
            del mark.attrib["style"]
        yield f'<g class="{self.class_of(style)}">'
        yield from self.children(element, decimals)
        yield "</g>"

    def attributes(self, element, decimals):
        found = dict(element.attrib)
        style = found.pop("style", None)
        found.pop("clip-path", None)
        if found.get("transform", "").startswith("rotate(-0 "):
            del found["transform"]
        if style and decimals == 1:  # a definition takes the style of its use
            found["class"] = self.class_of(style)
        return "".join(
            f" {name.replace(f'{{{XLINK}}}', 'xlink:')}="
            f"{quoteattr(self.numbers(name, value, decimals))}"
            for name, value in found.items())

    def class_of(self, style):
        rules = [rule for rule in style.split("; ") if not rule.startswith("font-family")]
        text = ";".join(rule.replace(": ", ":") for rule in rules)
        return self.classes.setdefault(text, f"s{zlib.crc32(text.encode()):x}")

    @staticmethod
    def numbers(name, value, decimals):
        if name not in ("d", "x", "y", "transform"):
            return value
        value = re.sub(r"-?\d+\.\d+", lambda number: (
            f"{float(number[0]):.{decimals}f}".rstrip("0").rstrip(".")), value)
        return re.sub(r" ?([MLQCz]) ?", r"\1", " ".join(value.split()))

    def lines(self, tags):
        line = ""
        for tag in tags:
            if line and len(line) + len(tag) > self.WIDTH:
                yield line
                line = ""
            line += tag
        if line:
            yield line


def kind_of(name):
    return os.path.splitext(name)[1].lstrip(".").lower()


def write(pictures):
    """Writes all or none: every file is complete before the first is renamed."""
    parts = {name: f"{name}.{os.getpid()}.part" for name in pictures}
    try:
        for name, part in parts.items():
            if os.path.isdir(name):
                raise IsADirectoryError(0, "it is a directory")
            with open(part, "wb") as file:
                file.write(pictures[name])
        for name, part in parts.items():
            os.replace(part, name)
    except OSError as error:
        raise Problem(f"cannot write {name}: {error.strerror}") from None
    finally:
        for part in parts.values():
            if os.path.exists(part):
                os.remove(part)
