"""calmq that is told no loop: io_uring where the kernel gives it, epoll where it refuses, as in many containers.

    fallback_test.py CALMQ REFUSER

REFUSER runs a program to which the kernel refuses io_uring_setup. Exit 77 where that cannot be done.
"""
import subprocess
import sys
import unittest

from support import Server

PROGRAM, REFUSER = sys.argv[1:3]


def start(*wrapper):
    return Server(PROGRAM, "--cores", "2", loop=None, wrapper=wrapper)


def has_uring():
    """By the server itself, which then takes no other."""
    try:
        return Server(PROGRAM, "--cores", "1").end() == 0
    except RuntimeError as trouble:
        if "--loop io_uring" in str(trouble):
            return False
        raise


class Fallback(unittest.TestCase):
    def check(self, server, loop):
        self.assertIn("; %s, 2 cores" % loop, server.said())
        self.assertEqual(server.info()["loop"], loop)
        for number in range(20):  # some keys are the other core's
            client = server.client(is_unix=number % 2 == 0)
            self.assertEqual(client.ask("LPUSH", "key%d" % number, "a", "b"), 2)
            self.assertEqual(client.ask("BRPOP", "key%d" % number, "1"), [b"key%d" % number, b"a"])
            self.assertEqual(client.ask("DEL", "key%d" % number), 1)
            client.close()
        self.assertEqual(server.end(), 0, server.said())

    def test_refused_io_uring_it_serves_by_epoll_and_says_so(self):
        # Seen to fail: with an is_available() that asks nobody.
        self.check(start(REFUSER), "epoll")

    def test_told_io_uring_it_does_not_take_another(self):
        # Seen to fail: with a choose_loop() that compares no names.
        done = subprocess.run([REFUSER, PROGRAM, "--port", "0", "--loop", "io_uring"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--loop io_uring: this system or this build has none", done.stderr)

    def test_else_it_serves_by_io_uring(self):
        # Seen to fail: with a choose_loop() that takes io_uring only when told.
        self.check(start(), "io_uring" if has_uring() else "epoll")


if __name__ == "__main__":
    probe = subprocess.run([REFUSER, "true"], capture_output=True, text=True)
    if probe.returncode == 77:
        print(probe.stderr.strip())
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
