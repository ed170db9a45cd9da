# SPDX-License-Identifier: MIT
"""The command line."""

import argparse
import os
import re
import sys

from . import DAMAGE, Problem, damaged, picture, plain, show
from .target import open_target
from .threads import open_views


def arguments():
    parser = argparse.ArgumentParser(
        prog="uthreads", description="Shows the threads of usched in a process or a core file.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("target", metavar="PID|CORE",
                         help="a process, or a core file")
        sub.add_argument("--program", metavar="FILE",
                         help="the program, if it is not where the target says")
        sub.add_argument("--root", metavar="DIR", default="",
                         help="a directory before the paths of all other files")
        return sub

    def filtered(sub, limit):
        sub.add_argument("--filter", metavar="REGEX", type=pattern,
                         help="threads with such a line in ps only")
        sub.add_argument("--limit", metavar="N", type=int, default=limit,
                         help="so many threads, or groups, at most" + (f"; default {limit}" if limit else ""))

    def limited(sub):
        filtered(sub, None)
        sub.add_argument("--lost", action="store_true",
                         help="threads that nothing can wake any more; stops the process meanwhile")

    limited(command("ps", "lists threads; does not stop the process"))
    sub = command("bt", "shows where threads are")
    sub.add_argument("threads", nargs="*", metavar="THREAD",
                     help="a number or an address as in ps, or a name; default: all")
    sub.add_argument("--group", action="store_true", help="each different trace once")
    limited(sub)
    sub = command("trace", "has a process trace itself, for Perfetto and Chrome, without stopping it")
    sub.add_argument("seconds", nargs="?", type=float, help="default 1")
    sub.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    sub.add_argument("--events", type=int, default=1 << 18, metavar="N",
                     help="that processors have room for until they are read; default 262144")
    sub = commands.add_parser("lines", help=(text := "adds files and lines to a report that comes "
                              "on standard input"), description=text)
    sub.add_argument("target", metavar="FILE", help="the program that has made the report")
    sub.add_argument("more", nargs="*", metavar="FILE", help="its libraries")
    sub = commands.add_parser("draw", help=(text := "draws a file of trace, or of usched-run --sim "
                              "--trace; needs matplotlib"), description=text)
    sub.add_argument("target", metavar="FILE")
    sub.add_argument("picture", type=picture_name, metavar="PICTURE", help="a .svg, a .png or a .pdf")
    sub.add_argument("part", nargs="?", type=from_to, metavar="FROM-TO",
                     help="ms of a trace, or steps of a simulation; default: some")
    sub = command("gdb", "runs gdb; each thread is one of gdb's")
    filtered(sub, 1000)
    sub.add_argument("--serve", action="store_true",
                     help="no gdb: speaks its remote protocol on standard input and output")
    sub.add_argument("--port", type=int, metavar="PORT",
                     help="likewise, to the first that connects to that port of localhost")
    sub.add_argument("--gdb", default="gdb", metavar="COMMAND", help="the gdb to run")
    sub.epilog = "What comes behind -- are arguments of gdb."
    return parser


def pattern(text):
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None
    return text


def picture_name(text):
    if picture.kind_of(text) not in picture.FORMATS:
        raise argparse.ArgumentTypeError(f"{text} is no .svg, .png or .pdf")
    return text


def from_to(text):
    match = re.fullmatch(r"([0-9]+\.?[0-9]*)-([0-9]+\.?[0-9]*)", text)
    if not match or float(match[1]) > float(match[2]):
        raise argparse.ArgumentTypeError(f"{text} is no FROM-TO")
    return float(match[1]), float(match[2])


def draw(file, name, part):
    """A trace is JSON, a simulation CSV."""
    from . import draw_sim, draw_trace
    with open(file, "rb") as opened:
        kind = draw_trace if opened.read(1) == b"{" else draw_sim
    figure = kind.draw(kind.read(file, part))
    picture.write({name: picture.render(figure, picture.kind_of(name))})


def run(options, script):
    if options.command == "draw":
        draw(options.target, options.picture, options.part)
        return 0
    if options.command == "lines":
        show.lines([options.target, *options.more], sys.stdin)
        return 0
    if options.command == "gdb":
        from . import stub
        if not (options.serve or options.port):
            return stub.run_gdb(options, script)
    if options.command == "trace" and os.path.isfile(options.target):
        from . import trace
        if trace.show_record(options.target, options.output):
            return 0
    return show_target(open_target(options.target, options.program, options.root), options)


def show_target(target, options):
    views = open_views(target)
    for reason in target.missing:
        print(f"uthreads: {plain(reason)}", file=sys.stderr)
    only = None
    if options.command in ("ps", "bt") and options.lost:
        from .lost import lost
        only = lost(views)
    if options.command == "ps":
        show.ps(views, options.filter, options.limit, only=only)
    elif options.command == "bt":
        shown = show.bt(views, options.threads, options.filter, options.group, options.limit,
                        only=only)
        if options.threads and not shown:
            raise Problem("there is no such thread")
    elif options.command == "trace":
        from . import trace
        trace.trace(views, options.seconds or 1.0, options.events, options.output)
    else:
        from . import stub
        return stub.serve(target, views, options)
    return 0


def main(argv, script):
    parser = arguments()
    cut = argv.index("--") if "--" in argv else len(argv)
    options, rest = parser.parse_known_args(argv[:cut])
    options.arguments = argv[cut + 1:]
    # Threads, or seconds, may come behind options.
    if options.command == "bt" and not any(word.startswith("-") for word in rest):
        options.threads.extend(rest)
    elif options.command == "trace" and options.seconds is None and len(rest) == 1 and \
            re.fullmatch(r"[0-9.]+", rest[0]):
        options.seconds = float(rest[0])
    elif rest or options.arguments and options.command != "gdb":
        parser.error("unrecognized arguments: " + " ".join(rest or options.arguments))
    try:
        return run(options, script)
    except Problem as problem:
        reason = str(problem)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        reason = f"{error.filename or options.target}: {error.strerror}"
    except DAMAGE as error:
        reason = damaged(options.target, error)
    print("uthreads: " + "\n".join(map(plain, reason.split("\n"))), file=sys.stderr)
    return 1
