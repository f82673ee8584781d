"""A client whose machine vanishes while it waits, without a word: it is found, and gets no item.

    ghost_test.py CALMQ LOOP

The machine is a network namespace, whose link goes down. Exit 77 without root, ip or namespaces.
"""

import os
import subprocess
import sys
import time
import unittest

from support import ROOT, Client, Server, encode

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
sys.dont_write_bytecode = True

import needs  # noqa: E402

PROGRAM, LOOP = sys.argv[1:3]
NUMBER = os.getpid() % 250 + 1
SPACE, HERE, THERE = "calmq%d" % os.getpid(), "cqa%d" % os.getpid(), "cqb%d" % os.getpid()
NEAR, FAR = "10.231.%d.1" % NUMBER, "10.231.%d.2" % NUMBER

# Runs there: asks, says so, and then does nothing, nor will it end its connection.
GHOST = (
    "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); "
    "s.sendall(bytes.fromhex(sys.argv[3])); print('asked', flush=True); sys.stdin.read()"
)


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


def remove():
    ip("link", "del", HERE)
    ip("netns", "del", SPACE)


def make():
    """False where that cannot be done."""
    steps = (
        ("netns", "add", SPACE),
        ("link", "add", HERE, "type", "veth", "peer", "name", THERE),
        ("link", "set", THERE, "netns", SPACE),
        ("addr", "add", NEAR + "/24", "dev", HERE),
        ("link", "set", HERE, "up"),
        ("-n", SPACE, "addr", "add", FAR + "/24", "dev", THERE),
        ("-n", SPACE, "link", "set", THERE, "up"),
    )
    return all(ip(*step).returncode == 0 for step in steps)


class Ghost(unittest.TestCase):
    def setUp(self):
        self.assertTrue(make())
        self.addCleanup(remove)
        self.server = Server(PROGRAM, "--bind", NEAR, "--cores", "2", "--keepalive", "2", loop=LOOP, host=NEAR)
        self.addCleanup(self.server.end, True)
        self.client = self.server.client(is_unix=True)
        self.addCleanup(self.client.close)

    def haunt(self, data):
        """A machine asks and is gone as soon as it waits."""
        ghost = subprocess.Popen(
            ["ip", "netns", "exec", SPACE, sys.executable, "-c", GHOST, NEAR, str(self.server.port), data.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(ghost.communicate)
        self.addCleanup(ghost.kill)
        self.assertEqual(ghost.stdout.readline(), b"asked\n")
        self.server.wait_for("waiting", 1)
        self.assertEqual(ip("-n", SPACE, "link", "set", THERE, "down").returncode, 0)

    def test_who_waits_and_vanishes_gets_no_item(self):
        # Seen to fail: without set_keepalive().
        for number, key in enumerate(("jobs", "other", "third")):  # keys of either core
            if number > 0:
                ip("-n", SPACE, "link", "set", THERE, "up")
            self.haunt(encode("BRPOP", key, "0"))
            self.server.wait_for("waiting", 0)
            self.assertEqual(self.client.ask("LPUSH", key, "important"), 1)
            self.assertEqual(self.client.ask("RPOP", key), b"important")

    def test_who_vanishes_with_a_reply_in_flight_gets_no_more(self):
        # Seen to fail: with an is_machine_gone() that is false; keepalive rests while something is in flight.
        self.haunt(encode("BRPOP", "first", "0") + encode("BRPOP", "second", "0"))
        self.assertEqual(self.client.ask("LPUSH", "first", "lost"), 1)
        self.server.wait_for("waiting", 1)  # for the second
        self.server.wait_for("waiting", 0)
        self.assertEqual(self.client.ask("LPUSH", "second", "important"), 1)
        self.assertEqual(self.client.ask("RPOP", "second"), b"important")

    def test_who_vanished_before_its_reply_is_closed_too(self):
        # Seen to fail: closed by the kernel alone, after a quarter of an hour.
        self.haunt(encode("BRPOP", "late", "0"))
        self.assertEqual(self.client.ask("LPUSH", "late", "lost"), 1)
        self.server.wait_for("waiting", 0)
        self.server.wait_for("clients", 2)  # who asks here, and there

    def test_who_is_there_and_waits_stays(self):
        ghost = Client(self.server.port, host=NEAR)
        ghost.send(encode("BRPOP", "late", "0"))
        self.server.wait_for("waiting", 1)
        time.sleep(5)  # more than twice the time of keepalive
        self.assertEqual(self.client.ask("LPUSH", "late", "x"), 1)
        self.assertEqual(ghost.read(), [b"late", b"x"])
        ghost.close()


if __name__ == "__main__":
    needs.need("ip")
    if os.geteuid() != 0 or not make():
        print("skipped: network namespaces need root, and a kernel that gives them")
        remove()
        sys.exit(77)
    remove()
    try:
        Server(PROGRAM, "--port", "0", loop=LOOP).end()
    except RuntimeError as trouble:
        if "--loop io_uring" in str(trouble):
            print("skipped: this system or this build has no io_uring")
            sys.exit(77)
        raise
    unittest.main(argv=sys.argv[:1])
