#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/18-log.c: three processes, one of which is killed at a time.

Environment: that of serverlib.
"""

import os
import socket
import subprocess
import unittest

import serverlib
from serverlib import HERE

LOG = serverlib.example("18-log")


def setUpModule():
    global directory
    serverlib.need(LOG)
    directory = serverlib.directory()


class Log(unittest.TestCase):
    def setUp(self):
        self.ports = [next(serverlib.ports) for _ in range(3)]
        self.nodes = [None] * 3
        for k in range(3):
            os.mkdir(f"{directory}/{self.ports[k]}")
            self.start(k)

    def tearDown(self):
        for node in self.nodes:
            node.kill()
            node.wait()

    def start(self, k):
        addresses = [f"{HERE}:{port}" for port in self.ports]
        self.nodes[k] = subprocess.Popen([LOG, str(k + 1), f"{directory}/{self.ports[k]}", *addresses],
                                         stdout=subprocess.PIPE)
        with self.nodes[k].stdout as out:
            self.assertEqual(out.readline(), b"ready\n")

    def stop(self, k):
        self.nodes[k].kill()
        self.nodes[k].wait()

    def ask(self, k, line):
        """Of one node; nothing: it does not answer."""
        try:
            with socket.create_connection((HERE, self.ports[k]), 60) as s:
                s.sendall(line.encode() + b"\n")
                with s.makefile() as answers:
                    return answers.readline().rstrip("\n")
        except OSError:
            return ""

    def call(self, line, good):
        """Asks the nodes until one gives an answer that is good. The answer, and its node."""
        answer = node = None

        def is_answered():
            nonlocal answer, node
            for node in range(3):
                answer = self.ask(node, line)
                if answer.split(" ")[0] in good:
                    return True
            return False

        serverlib.until(is_answered, line)
        return answer, node

    def append(self, text):
        answer, node = self.call(f"append {text}", ["ok"])
        return int(answer.split()[1]), node

    def test_crashes(self):
        known = {}
        for i in range(4):
            index, leader = self.append(f"text {i}")
            known[index] = f"ok text {i}"
            self.stop(leader)
            index, _ = self.append(f"more {i}")
            known[index] = f"ok more {i}"
            self.start(leader)
            for index, answer in known.items():
                self.assertEqual(self.call(f"read {index}", ["ok", "end"])[0], answer)
        self.assertEqual(self.call("read 1000", ["ok", "end"])[0], "end")
        serverlib.until(lambda: len({self.ask(k, "status").split(" ", 2)[2]
                                     for k in range(3)}) == 1, "the same state")

    def test_answers(self):
        index, leader = self.append("3 1 4 1 5 9 2")
        self.assertEqual(self.ask(leader, f"read {index}"), "ok 3 1 4 1 5 9 2")
        self.assertRegex(self.ask((leader + 1) % 3, "append x"),
                         f"^leader {HERE}:{self.ports[leader]}$")
        self.assertEqual(self.ask(leader, "append " + "x" * 1025), "error too long")
        self.assertEqual(self.ask(leader, "nothing"), "")

    def test_usage(self):
        for words in [], ["1"], ["4", "/tmp", "a", "b", "c"], ["0", "/tmp", "a", "b", "c"]:
            done = subprocess.run([LOG, *words], capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(b"usage: log ", done.stderr)


if __name__ == "__main__":
    unittest.main()
