"""calmq driven by redis-cli, redis-benchmark and redis-py, unchanged.

    clients_test.py CALMQ

Exit 77 when none of them is there.
"""
import shutil
import subprocess
import sys
import unittest

from support import Server

PROGRAM = sys.argv[1]
LOOP = "epoll"
try:
    import redis
except ImportError:
    redis = None


class Clients(unittest.TestCase):
    def setUp(self):
        self.server = Server(PROGRAM, "--cores", "2", loop=LOOP)
        self.addCleanup(self.server.end, True)

    def run_tool(self, name, *words):
        if shutil.which(name) is None:
            self.skipTest("no %s; apt-get install redis-tools" % name)
        done = subprocess.run([name, "-p", str(self.server.port), *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_redis_cli(self):
        self.assertEqual(self.run_tool("redis-cli", "lpush", "q", "a", "b"), "2\n")
        self.assertEqual(self.run_tool("redis-cli", "brpop", "q", "1"), "q\na\n")
        self.assertIn("core0:blocks=", self.run_tool("redis-cli", "info"))

    def test_redis_benchmark(self):
        for words in ((), ("-P", "16")):
            out = self.run_tool("redis-benchmark", "-t", "ping,lpush,rpop", "-n", "20000", "--csv", *words)
            self.assertEqual(len(out.splitlines()), 5, out)
            self.assertNotIn("rror", out)

    @unittest.skipIf(redis is None, "no redis-py; pip install redis")
    def test_redis_py(self):
        client = redis.Redis(port=self.server.port)
        self.assertTrue(client.ping())
        self.assertEqual(client.lpush("q", "a", "b"), 2)
        self.assertEqual((client.llen("q"), client.rpop("q"), client.brpop("q", 1)), (2, b"a", (b"q", b"b")))
        self.assertIsNone(client.brpop("q", 0.1))
        job = client.execute_command("SUBMIT", "jobs", "x")
        self.assertEqual(client.execute_command("RESULT", job, "y"), b"OK")
        self.assertEqual(client.brpop(job, 1), (job, b"y"))
        self.assertGreater(client.info()["core0"]["blocks"], 0)
        with client.pipeline(transaction=False) as pipe:
            for number in range(100):
                pipe.lpush("p%d" % number, number)
            self.assertEqual(pipe.execute(), [1] * 100)
        self.assertEqual(client.delete(*("p%d" % number for number in range(100))), 100)


if __name__ == "__main__":
    if redis is None and shutil.which("redis-cli") is None:
        print("skipped: neither redis-py nor redis-cli; pip install redis, apt-get install redis-tools")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
