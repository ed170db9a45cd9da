#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uthreads draw: the pictures that it makes of a trace and of a simulation which are made up.
Pictures are skipped without matplotlib.
"""

import contextlib
import io
import json
import os
import unittest

from test_graph import NO_PICTURES, Case, Drawing, bytes_of
from usched_view import draw_sim, draw_trace
from usched_view.main import main


class Drawn(Case):
    def uthreads(self, *arguments):
        """Runs uthreads draw in this process: its status, output and complaints."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main(["draw", *arguments], "uthreads")
            except SystemExit as end:
                status = end.code
        return status, out.getvalue(), err.getvalue()


def made_up_trace():
    """Two threads on two processors wake each other; a third one waits."""
    events = [{"ph": "M", "pid": 1, "tid": t, "name": "thread_name",
               "args": {"name": f"thread <{t}>"}} for t in (1, 2, 3)]
    events += [{"ph": "M", "pid": 2, "tid": t, "name": "thread_name",
                "args": {"name": f"processor 0.{t}"}} for t in (0, 1)]

    def add(ph, tid, ts, name, **more):
        events.append({"ph": ph, "pid": 1, "tid": tid, "ts": ts, "name": name, **more})

    for i in range(10):
        for tid in 1, 2:
            begin, on = 1000 * i + 500 * (tid - 1), {"processor": tid - 1}
            for name, at, took in (("run", 0, 480), ("waits for a wake", 480, 400),
                                   ("runnable", 880, 120)):
                add("X", tid, begin + at, name, dur=took, args=on)
            add("i", tid, begin + 600, "evict", s="t", args={**on, "bytes": 80})
            add("i", tid, begin + 990, "load", s="t", args={**on, "bytes": 80})
        add("s", 1, 1000 * i + 400, "wake", cat="wake", id=i)
        add("f", 2, 1000 * i + 500, "wake", cat="wake", id=i, bp="e")
    return {"otherData": {"lost": 0}, "traceEvents": events}


class Traces(Drawn):
    """Of uthreads trace."""

    def setUp(self):
        super().setUp()
        self.write("trace.json", made_up_trace())

    def write(self, name, trace):
        with open(name, "w") as file:
            json.dump(trace, file)

    def test_errors(self):
        self.write("empty.json", {"traceEvents": []})
        self.write("other.json", [1])
        for status, words in ((2, []), (2, ["trace.json"]), (2, ["trace.json", "t.gif"]),
                              (2, ["trace.json", "t.svg", "2-1"]),
                              (1, ["absent.json", "t.svg"]), (1, ["empty.json", "t.svg"]),
                              (1, ["other.json", "t.svg"]), (1, ["trace.json", "t.svg", "90-91"])):
            with self.subTest(words):
                done = self.uthreads(*words)
                self.assertEqual(done[:2], (status, ""))
                self.assertTrue(status == 2 or done[2].count("\n") == 1, done[2])
                self.assertFalse(os.path.exists("t.svg"))

    def test_parts(self):
        """What is drawn: cut at both ends, and how many are runnable."""
        trace = draw_trace.read("trace.json", (1.0, 2.95))
        self.assertEqual(trace.used, [0, 1])
        self.assertEqual(trace.rows(), [1, 2])
        for on in 0, 1:
            runs = [s for s in trace.cut("run") if s.on == on]
            self.assertEqual(len(runs), 2)
            self.assertTrue(all(0 <= s.start < s.end <= 1.951 for s in runs))
        times, counts = trace.queue(0)
        self.assertEqual(counts, [0, 1, 0, 1, 0, 0])
        self.assertEqual([round(t, 3) for t in times], [0, 0.88, 1, 1.88, 1.95, 1.95])
        self.assertEqual(sum(trace.start < w.start and w.end < trace.end for w in trace.wakes), 2)

    @unittest.skipIf(NO_PICTURES, NO_PICTURES)
    def test_picture(self):
        for name in "a.svg", "b.svg":
            self.assertEqual(self.uthreads("trace.json", name), (0, "", ""))
        self.assertEqual(bytes_of("a.svg"), bytes_of("b.svg"))
        texts = Drawing("a.svg").texts
        for text in ("Processor 0.0", "Processor 0.1", "Threads", "thread <1>", "thread <2>",
                     "runs", "runnable", "waits", "evict", "load"):
            self.assertIn(text, texts)
        self.assertNotIn("thread <3>", texts)
        self.assertEqual(self.uthreads("trace.json", "c.png", "0-2"), (0, "", ""))


def made_up_run(steps=12, failure="3 deposited, and 4 in the account"):
    """A client asks a server again and again, and sleeps once; the last answer is lost."""
    rows = ["step,ns,host,thread,event,what,place,choice,message,to,arrival"]
    for step in range(1, steps + 1):
        client = step % 2
        host, other = ("client 10.0.0.2", "<server>")[::2 * client - 1]
        now = 60000 * step + 10**11 * (step > 6)
        rows.append(f'{step},{now},"{host}",{2 - client},step,"unet_read_all",f run+0x12,'
                    f'{int(step == 4)},0," ",{now}')
        if step > 1:
            rows.append(f'{step},{now},"{host}",{2 - client},receive,"",,0,{step - 1},'
                        f'"{host}",{now}')
        rows.append(f'{step},{now},"{host}",{2 - client},send,"",,0,{step},"{other}",'
                    f'{now + 50000}')
    rows.append(f'{steps},{now + 500},"<server>",9,fault,"crash",,0,0," ",{now}')
    rows.append(f',,,,end,"{failure}",,,,,')
    return "\n".join(rows) + "\n"


class Runs(Drawn):
    """Of usched-run --sim --trace."""

    def write(self, text):
        with open("run.csv", "w") as file:
            file.write(text)

    def test_errors(self):
        run = made_up_run()
        head = run.split("\n", 1)[0] + "\n"
        for text, says in (("", "no trace"), ("a,b\n", "no trace"), (head, "no steps"),
                           (run + "1,2\n", "line 39: the header has 11 cells, this line 2"),
                           (run.replace("\n2,", "\nx,", 1), "line 4: step is 'x', not a number"),
                           (run.replace("fault", "what"), "line 37: event is 'what'")):
            with self.subTest(says):
                self.write(text)
                status, out, complaint = self.uthreads("run.csv", "t.svg")
                self.assertEqual((status, out), (1, ""))
                self.assertIn(says, complaint)
                self.assertEqual(complaint.count("\n"), 1)
        self.write(run)
        for status, words in ((2, []), (2, ["run.csv"]), (2, ["run.csv", "t.gif"]),
                              (2, ["run.csv", "t.svg", "1-x"]), (1, ["absent.csv", "t.svg"]),
                              (1, ["run.csv", "t.svg", "13-20"])):
            with self.subTest(words):
                self.assertEqual(self.uthreads(*words)[:2], (status, ""))
        self.assertFalse(os.path.exists("t.svg"))

    def test_parts(self):
        """Places, gaps, and which message is read where."""
        self.write(made_up_run())
        run = draw_sim.read("run.csv", None)
        self.assertEqual(run.hosts, {"client 10.0.0.2": [1], "<server>": [2]})
        self.assertEqual(len(run.gaps), 11)
        self.assertEqual([gap.ns for gap in run.long_gaps()], [10**11 + 60000])
        self.assertEqual([(s.step, r and r.step) for s, r in run.messages()],
                         [(i, i + 1) for i in range(1, 12)] + [(12, None)])
        self.assertLess(run.places[7] - run.places[6], 20)
        self.assertEqual(run.fault_place(run.faults[0]), run.step_place(run.steps[-1]))
        some = draw_sim.read("run.csv", (3, 5))
        self.assertEqual((len(some.steps), some.total, some.fails), (3, 12, False))
        self.assertEqual(len(draw_sim.read("run.csv", (12, 99)).sends), 1)

    def test_twice(self):
        """A message that comes in parts, or twice."""
        run = made_up_run(3)
        self.write(run.replace("\n3,", '\n2,7,h,2,receive,,,0,1,"h",8\n3,', 1))
        self.assertEqual([(s.step, r and r.step) for s, r in
                          draw_sim.read("run.csv", None).messages()],
                         [(1, 2), (1, 2), (2, 3), (3, None)])

    @unittest.skipIf(NO_PICTURES, NO_PICTURES)
    def test_picture(self):
        self.write(made_up_run())
        for name in "a.svg", "b.svg":
            self.assertEqual(self.uthreads("run.csv", name), (0, "", ""))
        self.assertEqual(bytes_of("a.svg"), bytes_of("b.svg"))
        few = Drawing("a.svg").texts
        for text in ("A run that fails: 3 deposited, and 4 in the account", "<server>",
                     "client 10.0.0.2", "thread 1", "thread 2", "crash", "fails", "no step",
                     "message", "step", "by choice", "fault", "failure", "100 s",
                     "virtual time, s"):
            self.assertIn(text, few)
        self.assertEqual(few.count("unet_read_all"), 12)
        self.write(made_up_run(200, ""))
        self.assertEqual(self.uthreads("run.csv", "c.svg"), (0, "", ""))
        many = Drawing("c.svg").texts
        self.assertEqual(many.count("unet_read_all"), 1)  # the choice
        self.assertIn("A run", many)
        self.assertNotIn("fails", many)
        self.assertEqual(self.uthreads("run.csv", "d.png", "2-9"), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
