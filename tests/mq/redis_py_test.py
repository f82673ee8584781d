"""calmq driven by redis-py, unchanged and of its newest version.

    redis_py_test.py CALMQ VENV

VENV is where redis-py is installed the first time. Exit 77 when it is not to be had.
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


class RedisPy:
    # Seen to fail: with an INFO that puts a blank where a number's = should be.
    choice = {}

    def setUp(self):
        self.server = Server(PROGRAM, "--cores", "2", loop="epoll")
        self.addCleanup(self.server.end, True)
        self.client = redis.Redis(port=self.server.port, **self.choice)
        self.addCleanup(self.client.close)

    def test_queues(self):
        client = self.client
        self.assertTrue(client.ping())
        self.assertEqual(client.lpush("q", "a", "b"), 2)
        self.assertEqual((client.llen("q"), client.rpop("q"), client.brpop("q", 1)), (2, b"a", self.pair(b"q", b"b")))
        self.assertIsNone(client.brpop("q", 0.1))
        client.lpush("{jobs}low", "x")
        self.assertEqual(client.brpop(["{jobs}high", "{jobs}low"], 1), self.pair(b"{jobs}low", b"x"))

    def pair(self, *words):
        """As redis-py gives a key and an item: a list, where it is asked for RESP3."""
        return list(words) if self.choice.get("protocol") == 3 else words

    def test_both_ends_and_moves(self):
        client = self.client
        self.assertEqual(client.rpush("{r}", "a", "b", "c"), 3)
        self.assertEqual((client.lrange("{r}", 0, -1), client.lpop("{r}")), ([b"a", b"b", b"c"], b"a"))
        self.assertEqual(client.lmove("{r}", "{r}work", "LEFT", "RIGHT"), b"b")
        self.assertEqual(client.blmove("{r}", "{r}work", 1, "LEFT", "RIGHT"), b"c")
        self.assertIsNone(client.blmove("{r}", "{r}work", 0.01))
        self.assertEqual((client.exists("{r}", "{r}work"), client.type("{r}work")), (1, b"list"))
        self.assertEqual((client.rpop("{r}work", 5), client.lpop("{r}work", 5)), ([b"c", b"b"], None))

    def test_clients_have_names(self):
        self.client.client_setname("me")
        mine, = [one for one in self.client.client_list() if one["name"] == "me"]
        self.assertIn(self.client.client_getname(), ("me", b"me"))
        self.assertEqual(int(mine["id"]), self.client.client_id())
        self.assertEqual(mine["lib-name"], "redis-py")

    def test_jobs(self):
        job = self.client.execute_command("SUBMIT", "jobs", "x")
        self.assertEqual(self.client.execute_command("RESULT", job, "y"), b"OK")
        self.assertEqual(self.client.brpop(job, 1), self.pair(job, b"y"))

    def test_info_is_read_as_numbers(self):
        self.assertGreater(self.client.info()["core0"]["blocks"], 0)
        self.assertTrue(self.client.info()["redis_version"].startswith("7."))

    def test_a_pipeline(self):
        with self.client.pipeline(transaction=False) as pipe:
            for number in range(100):
                pipe.lpush("p%d" % number, number)
            self.assertEqual(pipe.execute(), [1] * 100)
        self.assertEqual(self.client.delete(*("p%d" % number for number in range(100))), 100)


class AsItIs(RedisPy, unittest.TestCase):
    pass


class Resp2(RedisPy, unittest.TestCase):
    choice = {"protocol": 2}


class Resp3(RedisPy, unittest.TestCase):
    choice = {"protocol": 3}


if __name__ == "__main__":
    if not pinned.enter(REQUIREMENTS, VENV):
        print("skipped: no Python environment with redis-py to be had; pip says why")
        sys.exit(77)
    import redis
    unittest.main(argv=sys.argv[:1])
