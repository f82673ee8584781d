"""calmq's jobs: ids that never come again, and jobs whose worker is dead.

    jobs_test.py CALMQ

What each test was seen to fail on is noted in it.
"""

import os
import sys
import tempfile
import time
import unittest

from support import Refused, Server, encode

PROGRAM = sys.argv[1]
STARTS, ID_BYTES_MAX = 6, 64


def start(*words):
    return Server(PROGRAM, *words, loop="epoll")


class Jobs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "kept")

    def assert_no_job(self, client, job):
        with self.assertRaisesRegex(Refused, "^NOJOB"):
            client.ask("RESULT", job, "x")

    def redelivered(self, server):
        return int(server.info()["redelivered_jobs"])


class Ids(Jobs):
    def test_no_id_comes_again_whatever_the_start_and_the_end(self):
        # Seen to fail: ids began with the second of the start.
        ids = []
        for number in range(STARTS):  # several within one second
            server = start("--keep", self.path, "--cores", "2")
            client = server.client()
            ids += [client.ask("SUBMIT", "q%d" % (job % 7), "x") for job in range(20)]
            server.end(is_hard=number % 2 == 0)
        self.assertEqual(len(set(ids)), 20 * STARTS)

    def test_an_id_is_a_short_word_and_a_key(self):
        server = start("--cores", "2")
        self.addCleanup(server.end, True)
        client = server.client()
        for number in range(20):
            job = client.ask("SUBMIT", "q%d" % number, "x")
            self.assertRegex(job, rb"\Ajob:[0-9a-f]{3}-[0-9a-f]{24}-[0-9a-f]+\Z")
            self.assertLessEqual(len(job), ID_BYTES_MAX)
            self.assertEqual((client.ask("LLEN", job), client.ask("RPOP", job)), (0, None))
            self.assertEqual(client.ask("RESULT", job, "y"), b"OK")
            self.assertEqual(client.ask("BRPOP", job, "1"), [job, b"y"])


class Redelivery(Jobs):
    def test_a_job_that_is_taken_and_not_answered_comes_back(self):
        # Seen to fail: it stayed open, and nobody got it again.
        server = start("--cores", "2", "--redeliver", "1")
        self.addCleanup(server.end, True)
        client = server.client()
        for number, take in enumerate((("BRPOP", "%s", "5"), ("RPOP", "%s"), ("BRPOP", "%s", "0"))):
            key, payload = "{q%d}work" % number, b"p" * (number * 5000)
            dead = server.client()
            if number == 2:  # it waits, and then is given the job
                dead.send(encode(*(word.replace("%s", key) for word in take)))
                server.wait_for("waiting", 1)
            job = client.ask("SUBMIT", key, payload)
            item = job + b" " + payload
            found = dead.read() if number == 2 else dead.ask(*(word.replace("%s", key) for word in take))
            self.assertEqual(found if number == 1 else found[1], item)
            dead.close()
            self.assertEqual(client.ask("LLEN", key), 0)
            self.assertEqual(client.ask("BRPOP", key, "60"), [key.encode(), item])  # by another worker
            self.assertEqual(client.ask("BRPOP", key, "60"), [key.encode(), item])  # which is dead, too
            self.assertEqual(client.ask("RESULT", job, "done"), b"OK")
            self.assertEqual(client.ask("BRPOP", job, "1"), [job, b"done"])
            self.assertEqual(self.redelivered(server), 2 * (number + 1))

    def test_each_way_to_take_a_job_begins_its_time(self):
        # Seen to fail: without shard_job_taken() in reply_item(), without shard_job_moved() in move_item().
        ways = [("RPOP", "%s"), ("LPOP", "%s"), ("RPOP", "%s", "2"), ("LPOP", "%s", "2")]
        ways += [("BRPOP", "%s", "0"), ("BLPOP", "%s", "0"), ("LMOVE", "%s", "%smine", "RIGHT", "LEFT")]
        ways += [("BLMOVE", "%s", "%smine", "LEFT", "LEFT", "0")]
        server = start("--cores", "2", "--redeliver", "1")
        self.addCleanup(server.end, True)
        client, taken = server.client(), []
        for number, way in enumerate(ways * 2):
            key = "{q%d}" % number
            words, worker = [word.replace("%s", key) for word in way], server.client()
            is_waiting = number >= len(ways) and words[-1] == "0"
            if is_waiting:
                worker.send(encode(*words))
                server.wait_for("waiting", 1)
            item = client.ask("SUBMIT", key, "x") + b" x"
            found = worker.read() if is_waiting else worker.ask(*words)
            self.assertEqual(found[-1] if isinstance(found, list) else found, item)
            taken.append((key, item))
            worker.close()
        for key, item in taken:
            self.assertEqual(client.ask("BRPOP", key, "60"), [key.encode(), item])
        self.assertEqual(self.redelivered(server), len(taken))

    def test_a_job_that_is_back_is_the_newest_of_its_queue(self):
        # Seen to fail: with QUEUE_OLDEST in put_back().
        server = start("--cores", "1", "--redeliver", "1")
        self.addCleanup(server.end, True)
        client = server.client()
        late = client.ask("SUBMIT", "work", "late") + b" late"
        self.assertEqual(client.ask("RPOP", "work"), late)
        others = [client.ask("SUBMIT", "work", "x") + b" x" for _ in range(3)]
        until = time.time() + 60
        while client.ask("LLEN", "work") < 4:
            self.assertLess(time.time(), until)
        self.assertEqual([client.ask("RPOP", "work") for _ in range(4)], [*others, late])

    def test_a_job_in_the_list_of_a_reliable_worker(self):
        # Seen to fail: with a move back that begins its time, and with a DEL that forgets every job it meets.
        server = start("--cores", "2", "--redeliver", "1")
        self.addCleanup(server.end, True)
        client, work, mine, idle = server.client(), "{w}work", "{w}mine", "{w}idle"
        job = client.ask("SUBMIT", work, "x")
        client.ask("LMOVE", work, mine, "RIGHT", "LEFT")
        client.ask("LMOVE", mine, work, "RIGHT", "RIGHT")  # what a dead worker left
        client.ask("LMOVE", work, work, "LEFT", "RIGHT")
        for _ in range(2):  # two times the time, by a job that does come back
            late = client.ask("SUBMIT", idle, "l")
            client.ask("RPOP", idle)
            self.assertEqual(client.ask("BRPOP", idle, "60")[1], late + b" l")
            client.ask("DEL", late)
        self.assertEqual((client.ask("LLEN", work), self.redelivered(server)), (1, 2))
        client.ask("LMOVE", work, mine, "RIGHT", "LEFT")
        self.assertEqual(client.ask("DEL", mine), 1)  # the copy, not the job
        self.assertEqual(client.ask("BRPOP", work, "60")[1], job + b" x")
        client.ask("LPUSH", mine, job + b" x")
        self.assertEqual(client.ask("RESULT", job, "y"), b"OK")
        self.assertEqual((client.ask("RPOP", mine), client.ask("RPOP", job)), (job + b" x", b"y"))
        self.assert_no_job(client, job)

    def test_a_job_that_waits_or_is_answered_does_not_come_back(self):
        # Seen to fail: with a time that begins when the job is submitted.
        server = start("--cores", "1", "--redeliver", "1")
        self.addCleanup(server.end, True)
        client = server.client()
        waits = client.ask("SUBMIT", "waits", "w")
        answered = client.ask("SUBMIT", "work", "a")
        client.ask("RPOP", "work")
        client.ask("RESULT", answered, "x")
        for _ in range(2):  # two times the time, by a job that does come back
            late = client.ask("SUBMIT", "work", "l")
            client.ask("RPOP", "work")
            self.assertEqual(client.ask("BRPOP", "work", "60")[1], late + b" l")
            client.ask("DEL", late)
        self.assertEqual((client.ask("LLEN", "work"), client.ask("LLEN", "waits")), (0, 1))
        self.assertEqual(client.ask("RPOP", "waits"), waits + b" w")
        self.assertEqual(self.redelivered(server), 2)

    def test_a_slow_worker_may_answer_a_job_that_is_back_in_its_queue(self):
        # Seen to fail: with a job that is never put back.
        server = start("--cores", "1", "--redeliver", "1")
        self.addCleanup(server.end, True)
        client = server.client()
        job = client.ask("SUBMIT", "work", "x")
        client.ask("RPOP", "work")
        until = time.time() + 60
        while client.ask("LLEN", "work") == 0:
            self.assertLess(time.time(), until)
        self.assertEqual(client.ask("RESULT", job, "slow"), b"OK")
        self.assertEqual(client.ask("RPOP", "work"), job + b" x")
        self.assert_no_job(client, job)  # who took it the second time is told

    def test_del_of_a_queue_forgets_its_jobs(self):
        # Seen to fail: they stayed open, took their blocks, and a stop waited for them.
        server = start("--cores", "1", "--memory", "1M")
        client = server.client()
        free = server.info()["core0"]["free"]
        jobs = [client.ask("SUBMIT", "work", b"p" * (number * 90)) for number in range(30)]
        client.ask("LPUSH", "work", "no job", jobs[0], b"job:000-", b"x" * 9000)
        taken = client.ask("RPOP", "work")
        self.assertEqual(taken, jobs[0] + b" ")
        self.assertEqual(client.ask("DEL", "work"), 1)
        self.assertEqual(client.ask("RESULT", jobs[0], "taken before"), b"OK")
        for job in jobs[1:]:
            self.assert_no_job(client, job)
        client.ask("DEL", jobs[0])
        self.assertEqual(server.info()["core0"]["free"], free)
        self.assertEqual(server.end(), 0, server.said())

    def test_a_job_for_which_no_block_is_free_comes_back_when_there_is_one(self):
        # Seen to fail: with a job that is taken off the list before there is room for it.
        server = start("--cores", "1", "--memory", "64K", "--redeliver", "1")
        self.addCleanup(server.end, True)
        client = server.client()
        job = client.ask("SUBMIT", "work", b"p" * 3000)
        client.ask("RPOP", "work")
        with self.assertRaisesRegex(Refused, "^OOM"):
            while True:
                client.ask("LPUSH", "full", b"y" * 400)
        time.sleep(2.5)  # it was to come back, twice
        self.assertEqual(client.ask("LLEN", "work"), 0)
        with self.assertRaisesRegex(Refused, "^OOM"):
            client.ask("LPUSH", "full", b"y" * 400)
        client.ask("DEL", "full")
        self.assertEqual(client.ask("BRPOP", "work", "60")[1], job + b" " + b"p" * 3000)

    def test_more_open_jobs_than_a_server_takes_are_taken_in_from_a_file(self):
        # Seen to fail: with a fill_queue() that looks at job_blocks_max.
        server, jobs = start("--keep", self.path, "--cores", "1", "--memory", "512K"), []
        client = server.client()
        with self.assertRaisesRegex(Refused, "^OOM open jobs"):
            while True:
                jobs.append(client.ask("SUBMIT", "work", b"p" * 500))
                client.ask("RPOP", "work")
        self.assertEqual(server.end(), 0, server.said())
        server = start("--keep", self.path, "--cores", "1", "--memory", "320K")
        client = server.client()
        for number, job in enumerate(jobs):
            if number < len(jobs) // 3:
                with self.assertRaisesRegex(Refused, "^OOM open jobs"):
                    client.ask("SUBMIT", "work", b"p" * 500)
            self.assertEqual(client.ask("RESULT", job, "y"), b"OK")
            self.assertEqual(client.ask("RPOP", job), b"y")
        self.assertTrue(client.ask("SUBMIT", "work", b"p" * 500).startswith(b"job:"))
        server.end(is_hard=True)

    def test_open_jobs_are_kept_and_come_back_with_any_number_of_cores(self):
        # Seen to fail: the first format had no payload of a job that was taken.
        jobs = {}
        server = start("--keep", self.path, "--cores", "3")
        client = server.client()
        for number in range(20):
            jobs[client.ask("SUBMIT", "q%d" % number, b"%d" % number * 500)] = number
            if number % 2:
                client.ask("RPOP", "q%d" % number)
        for cores in ("1", "5", "64"):
            self.assertEqual(server.end(), 0, server.said())
            server = start("--keep", self.path, "--cores", cores, "--redeliver", "1")
        client = server.client()
        for job, number in jobs.items():
            self.assertEqual(client.ask("BRPOP", "q%d" % number, "60")[1], job + b" " + b"%d" % number * 500)
            self.assertEqual(client.ask("RESULT", job, "y"), b"OK")
            self.assertEqual(client.ask("BRPOP", job, "1"), [job, b"y"])
        self.assertEqual(self.redelivered(server), len(jobs) // 2)
        server.end()


class Stop(Jobs):
    def test_without_a_file_a_dead_worker_is_waited_for_no_longer_than_its_time(self):
        # Seen to fail: the stop waited without end.
        server = start("--redeliver", "1")
        client = server.client()
        client.ask("SUBMIT", "work", "x")
        self.assertIsNotNone(client.ask("RPOP", "work"))
        self.assertEqual(server.end(), 1)
        self.assertIn("1 items and open jobs are dropped", server.said())

    def test_without_a_file_a_live_worker_may_answer(self):
        # Seen to fail: with a stop that drops what is taken.
        server = start("--redeliver", "60")
        client = server.client()
        job = client.ask("SUBMIT", "work", "x")
        client.ask("RPOP", "work")
        server.begin_end()
        self.assertEqual(client.ask("RESULT", job, "y"), b"OK")
        self.assertEqual(client.ask("RPOP", job), b"y")
        self.assertEqual(server.process.wait(60), 0, server.said())

    def test_with_a_file_a_dead_worker_is_not_waited_for(self):
        # Seen to fail: with a stop that waits for jobs.
        server = start("--keep", self.path)
        job = server.client().ask("SUBMIT", "work", "x")
        server.client().ask("RPOP", "work")
        self.assertEqual(server.end(), 0)
        server = start("--keep", self.path, "--redeliver", "1")
        self.assertEqual(server.client().ask("BRPOP", "work", "60")[1], job + b" x")
        server.end()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
