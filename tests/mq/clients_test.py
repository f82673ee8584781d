"""calmq driven by redis-cli and redis-benchmark, unchanged, and beside redis-server.

    clients_test.py CALMQ

Exit 77 when one of them is not there.
"""
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest

from support import Client, Refused, Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

PROGRAM = sys.argv[1]
LOOP = "epoll"
TOOLS = ("redis-cli", "redis-benchmark", "redis-server")


def said(path, line):
    """What a server answers to a line, by its kind where the words are each server's own."""
    client = Client(path)
    try:
        client.send(line)
        return client.read()
    except Refused as error:
        return "Protocol error" in str(error)
    finally:
        client.close()


class Clients(unittest.TestCase):
    def setUp(self):
        self.server = Server(PROGRAM, "--cores", "2", loop=LOOP)
        self.addCleanup(self.server.end, True)

    def run_tool(self, name, *words):
        done = subprocess.run([name, "-p", str(self.server.port), *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_redis_cli(self):
        self.assertEqual(self.run_tool("redis-cli", "lpush", "q", "a", "b"), "2\n")
        self.assertEqual(self.run_tool("redis-cli", "brpop", "q", "1"), "q\na\n")
        self.assertEqual(self.run_tool("redis-cli", "lpush", "{q}2", "c"), "1\n")
        self.assertEqual(self.run_tool("redis-cli", "brpop", "{q}1", "{q}2", "1"), "{q}2\nc\n")
        self.assertIn("core0:blocks=", self.run_tool("redis-cli", "info"))
        for words in (["hello", "2"], ["command", "docs"], ["client", "getname"], ["echo", "a b"]):
            self.assertNotIn("ERR", self.run_tool("redis-cli", *words))

    def test_redis_benchmark(self):
        for words in ((), ("-P", "16")):
            out = self.run_tool("redis-benchmark", "-t", "ping,lpush,rpop", "-n", "20000", "--csv", *words)
            self.assertEqual(len(out.splitlines()), 5, out)
            self.assertNotIn("rror", out)

    def test_inline_quotes_are_those_of_redis(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            try:
                while not os.path.exists(path):
                    time.sleep(0.01)
                draw = random.Random(1)
                for _ in range(1000):
                    line = b"ECHO " + bytes(draw.choice(b"ax4\\\"' \tn") for _ in range(draw.randint(1, 9))) + b"\r\n"
                    self.assertEqual(said(self.server.path, line), said(path, line), line)
            finally:
                server.kill()
                server.wait()


if __name__ == "__main__":
    needs.need(*TOOLS)
    unittest.main(argv=sys.argv[:1])
