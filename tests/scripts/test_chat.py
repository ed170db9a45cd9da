#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/09-chat.c: rooms, names, clients that are slow, idle or rude, and the end.

Environment: that of serverlib.
"""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

import serverlib
from serverlib import HERE

CHAT = serverlib.example("09-chat")


def setUpModule():
    global directory
    serverlib.need(CHAT)
    directory = serverlib.directory()


class Chat(serverlib.Case):
    def setUp(self):
        super().setUp()
        self.files = {}

    def join(self, server, name, room=None, **options):
        """A client in a room; all it was greeted with is read."""
        client = self.dial(server, **options)
        self.files[client] = self.enter(client.makefile("rb"))
        self.say(client, f"/name {name}", *([f"/join {room}"] if room else []))
        self.hears_at_last(client, f"* {name} joins {room}" if room else f"is now {name}")
        return client

    def say(self, client, *lines):
        client.sendall("".join(line + "\n" for line in lines).encode())

    def hears(self, client, *lines):
        for line in lines:
            self.assertEqual(self.files[client].readline().decode(), line + "\n")

    def hears_at_last(self, client, end):
        while line := self.files[client].readline().decode():
            if line.endswith(end + "\n"):
                return
        self.fail(f"the end comes before '{end}'")

    def ends(self, client, *lines):
        self.hears(client, *lines)
        self.assertEqual(self.files[client].readline(), b"")

    def test_rooms(self):
        server = self.start(CHAT)
        ann, bob = self.join(server, "ann", "tea"), self.join(server, "bob", "tea")
        eve = self.join(server, "eve", "coffee")
        self.hears(ann, "* bob joins tea")
        self.say(ann, "hello")
        for client in ann, bob:
            self.hears(client, "ann: hello")
        self.say(eve, "/name ann", "/name", "/name a\x01b", "/nonsense", "\x1b[2J", "/who",
                 "/name " + "x" * 24, "/name " + "x" * 23)
        self.hears(eve, *["! no such command, or no good name"] * 4, "eve: ?[2J", "= eve",
                   "! no such command, or no good name", "* eve is now " + "x" * 23)
        self.say(eve, "/join tea", "/quit")
        self.hears(bob, f"* {'x' * 23} joins tea", f"* {'x' * 23} leaves tea")
        self.hears_at_last(eve, f"* {'x' * 23} leaves tea")
        self.ends(eve, "* bye")
        self.say(bob, "/who")
        self.assertEqual({self.files[bob].readline(), self.files[bob].readline()}, {b"= ann\n", b"= bob\n"})
        bob.shutdown(socket.SHUT_WR)
        self.hears(bob, "* bob leaves tea")
        self.ends(bob, "* bye")

    def test_many_lines(self):
        """At once, by several clients: each line comes to each once, in order."""
        server = self.start(CHAT)
        clients = [self.join(server, f"c{i}", "room") for i in range(8)]
        threads = [threading.Thread(target=self.say, args=(
            client, *(f"{i} {n}" for n in range(300)))) for i, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        for client in clients:
            heard = [0] * len(clients)
            while sum(heard) < 300 * len(clients):
                line = self.files[client].readline().decode()
                if line.startswith("*"):
                    continue
                i, n = line.split(": ")[1].split()
                self.assertEqual(int(n), heard[int(i)])
                heard[int(i)] += 1
        for thread in threads:
            thread.join()

    def test_many_rooms(self):
        """More than there are lists of members."""
        server = self.start(CHAT)
        clients = [self.join(server, f"c{i}", f"room{i}") for i in range(300)]
        for i, client in enumerate(clients):
            self.say(client, str(i), "/who")
        for i, client in enumerate(clients):
            self.hears(client, f"c{i}: {i}", f"= c{i}")

    def test_slow(self):
        """One that does not read is dropped; the others get all."""
        server = self.start(CHAT)
        slow = self.join(server, "slow", "room", receive=4096)
        fast = self.join(server, "fast", "room")
        before, line = server.descriptors(), "x" * 500
        for n in range(0, 100000):
            self.say(fast, line)
            said = self.files[fast].readline()
            if said.startswith(b"* slow leaves"):
                break
            self.assertEqual(said.decode(), f"fast: {line}\n")
        self.assertLess(n, 10000, "a client that does not read is not dropped")
        serverlib.until(lambda: server.descriptors() < before, "its end")
        slow.close()

    def test_late(self):
        """Those that read late get what their sockets did not hold, and no bell rings then.
        The server sleeps until they read."""
        program = serverlib.compiled("09-chat", f"{directory}/late",
                                     edits=[(r"^(\tQUEUE = )65536", r"\g<1>1 << 24")])
        server = self.start(program)
        slow = [self.join(server, f"slow{i}", "room", receive=4096) for i in range(2)]
        fast = self.join(server, "fast", "room")
        self.hears(slow[0], "* slow1 joins room")
        for client in slow:
            self.hears(client, "* fast joins room")
        lines = [f"{i} " + "x" * 490 for i in range(10000)]     # tcp_wmem is 4 MiB
        for i in range(0, len(lines), 100):
            self.say(fast, *lines[i:i + 100])
            self.hears(fast, *("fast: " + line for line in lines[i:i + 100]))
        serverlib.until(server.asleep, "the server's sleep")
        for client in slow:
            self.hears(client, *("fast: " + line for line in lines))

    def test_rude(self):
        server = self.start(CHAT)
        ann = self.join(server, "ann")
        for data in b"x" * 511 + b"\n", b"x" * 600, b"/join tea", b"\n\n\0\n", b"/who\n" * 999:
            rude = self.dial(server)
            rude.sendall(data)
            serverlib.reset(rude)
        self.say(ann, "/name still.here", "/name here")
        self.hears_at_last(ann, "* ann is now here")
        long = self.join(server, "long", "room")
        self.say(long, "x" * 600)
        self.hears(long, "* long leaves room")
        self.ends(long, "* that line is too long")

    def test_idle(self):
        program = serverlib.compiled("09-chat", f"{directory}/idle",
                                     edits=[(r"^(#define IDLE *\()600", r"\g<1>1")])
        server = self.start(program)
        for _ in range(100):
            began = time.monotonic()
            with contextlib.suppress(AssertionError, OSError):
                idle = self.join(server, "idle", "room")
                break                   # else it was idle before it joined
        self.hears(idle, "* idle leaves room")
        self.ends(idle, "* idle for too long")
        self.assertGreater(time.monotonic() - began, 0.5)

    def test_goodbye(self):
        """To all; it waits until they have closed, but not for ever."""
        for grace in 600, 1:
            program = serverlib.compiled("09-chat", f"{directory}/end{grace}",
                                         edits=[(r"^(#define GRACE *\()3", rf"\g<1>{grace}")])
            server = self.start(program)
            clients = [self.join(server, f"c{i}", "room") for i in range(20 if grace > 1 else 0)]
            stays = self.dial(server)
            serverlib.until(lambda: server.descriptors() == server.opened + len(clients) + 1)
            began = time.monotonic()
            server.signal()
            for client in clients:
                self.hears_at_last(client, "* the server ends, goodbye")
                self.files[client].close()
                client.close()
            if grace > 1:
                time.sleep(0.5)
                self.assertIsNone(server.process.poll(), "it does not wait for a close")
                stays.close()
            self.assertEqual(server.process.wait(), 0)
            self.assertEqual(server.errors(), "")
            self.assertGreater(time.monotonic() - began, 0.5, "it does not wait for a close")
            stays.close()

    def test_end_while_one_comes(self):
        """A signal and a client, in this order, are found at once."""
        server = self.start(CHAT)
        ann = self.join(server, "ann")
        server.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, server.process.pid, os.WSTOPPED)
        server.signal()
        self.dial(server)
        server.signal(signal.SIGCONT)
        self.hears_at_last(ann, "* the server ends, goodbye")
        ann.close()
        self.assertEqual(server.process.wait(), 0)
        self.assertEqual(server.errors(), "")

    def test_usage(self):
        for arguments in [], [""], ["x"], ["65536"], ["7100", "more"]:
            self.usage(CHAT, *arguments)

    def test_port_taken(self):
        server = self.start(CHAT)
        taken = self.client(CHAT, str(server.port), ok=False, stderr=subprocess.STDOUT)
        self.assertIn(f"chat: {HERE}:{server.port}: ".encode(), taken)


if __name__ == "__main__":
    unittest.main()
