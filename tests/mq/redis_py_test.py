"""calmq driven by redis-py, unchanged.

    redis_py_test.py CALMQ VENV

VENV is where the pinned redis-py is installed the first time. Exit 77 when it is not to be had.
"""
import os
import sys
import unittest

from support import ROOT, Server

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
sys.dont_write_bytecode = True
import pinned  # noqa: E402

PROGRAM, VENV = sys.argv[1:3]
REQUIREMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "requirements.txt")


class RedisPy(unittest.TestCase):
    # Seen to fail: with an INFO that puts a blank where a number's = should be.
    def setUp(self):
        self.server = Server(PROGRAM, "--cores", "2", loop="epoll")
        self.addCleanup(self.server.end, True)
        self.client = redis.Redis(port=self.server.port)
        self.addCleanup(self.client.close)

    def test_queues(self):
        client = self.client
        self.assertTrue(client.ping())
        self.assertEqual(client.lpush("q", "a", "b"), 2)
        self.assertEqual((client.llen("q"), client.rpop("q"), client.brpop("q", 1)), (2, b"a", (b"q", b"b")))
        self.assertIsNone(client.brpop("q", 0.1))
        client.lpush("{jobs}low", "x")
        self.assertEqual(client.brpop(["{jobs}high", "{jobs}low"], 1), (b"{jobs}low", b"x"))

    def test_jobs(self):
        job = self.client.execute_command("SUBMIT", "jobs", "x")
        self.assertEqual(self.client.execute_command("RESULT", job, "y"), b"OK")
        self.assertEqual(self.client.brpop(job, 1), (job, b"y"))

    def test_info_is_read_as_numbers(self):
        self.assertGreater(self.client.info()["core0"]["blocks"], 0)

    def test_a_pipeline(self):
        with self.client.pipeline(transaction=False) as pipe:
            for number in range(100):
                pipe.lpush("p%d" % number, number)
            self.assertEqual(pipe.execute(), [1] * 100)
        self.assertEqual(self.client.delete(*("p%d" % number for number in range(100))), 100)


if __name__ == "__main__":
    if not pinned.enter(REQUIREMENTS, VENV):
        print("skipped: no Python environment with redis-py to be had; pip says why")
        sys.exit(77)
    import redis
    unittest.main(argv=sys.argv[:1])
