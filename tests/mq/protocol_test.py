"""calmq from outside: both ends of queues, moves, who its clients are, and what is bounded apart.

    protocol_test.py CALMQ

What redis-server does alike is differential_test.py's. What each test was seen to fail on is noted in it.
"""

import subprocess
import sys
import threading
import time
import unittest

from support import Refused, Server, encode

PROGRAM = sys.argv[1]
MESSAGE = 16 << 10


def start(*words):
    return Server(PROGRAM, *words, loop="epoll")


class Moves(unittest.TestCase):
    def setUp(self):
        self.server = start("--cores", "2", "--memory", "512K")
        self.addCleanup(self.server.end, True)
        self.client = self.server.client()
        self.addCleanup(self.client.close)

    def test_keys_of_two_cores_are_told_how_to_put_them_together(self):
        # Seen to fail: with a move that asks no key but the first for its core.
        told = 0
        for number in range(20):
            for words in (
                ("LMOVE", "a", "b%d" % number, "LEFT", "RIGHT"),
                ("BLMOVE", "a", "b%d" % number, "LEFT", "RIGHT", "0.001"),
            ):
                try:
                    self.assertIsNone(self.client.ask(*words))
                except Refused as error:
                    self.assertRegex(str(error), "^CROSSSLOT .*{word}")
                    told += 1
        self.assertGreater(told, 0)

    def test_waiting_moves_hand_an_item_from_one_to_the_next(self):
        # Seen to fail: with a serve() that does not make the target ready.
        for tag in range(6):  # on either core
            keys = ["{%d}%d" % (tag, number) for number in range(8)]
            waiting = [self.server.client() for _ in keys]
            for before, client in enumerate(waiting[:-1]):
                client.send(encode("BLMOVE", keys[before], keys[before + 1], "RIGHT", "LEFT", "0"))
                self.server.wait_for("waiting", before + 1)
            waiting[-1].send(encode("BRPOP", keys[-1], "0"))
            self.server.wait_for("waiting", len(keys))
            self.assertEqual(self.client.ask("LPUSH", keys[0], b"i" * 900), 1)
            self.assertEqual([client.read() for client in waiting[:-1]], [b"i" * 900] * (len(keys) - 1))
            self.assertEqual(waiting[-1].read(), [keys[-1].encode(), b"i" * 900])
            self.assertEqual(self.client.ask("EXISTS", *keys), 0)
            for client in waiting:
                client.close()

    def test_a_move_that_does_not_fit_changes_nothing_and_one_that_does_is_done_in_a_full_pool(self):
        # Seen to fail: with a move_item() that puts back at the other end, and with one that puts before it takes.
        for tag in range(4):
            full, work = "{%d}full" % tag, "{%d}work" % tag
            self.assertEqual(self.client.ask("LPUSH", work, "w"), 1)
            numbers = 0
            try:
                while True:
                    numbers = self.client.ask("LPUSH", full, b"%05d" % numbers + b"x" * 1000)
            except Refused as error:
                self.assertRegex(str(error), "^OOM")
            try:
                while True:
                    self.client.ask("LPUSH", "{%d}rest" % tag, "r")
            except Refused as error:
                self.assertRegex(str(error), "^OOM")
            with self.assertRaisesRegex(Refused, "^OOM"):
                self.client.ask("LMOVE", full, "{%d}new" % tag, "LEFT", "LEFT") and self.client.ask(
                    "LMOVE", "{%d}rest" % tag, "{%d}newer" % tag, "LEFT", "LEFT"
                )
            for number in range(numbers - 1):  # large items bring their memory with them
                self.assertEqual(self.client.ask("LMOVE", full, work, "RIGHT", "LEFT"), b"%05d" % number + b"x" * 1000)
            self.assertEqual(self.client.ask("RPOP", work), b"w")
            self.assertEqual(self.client.ask("LLEN", work), numbers - 1)
            self.client.ask("DEL", full, work, "{%d}rest" % tag, "{%d}new" % tag, "{%d}newer" % tag)

    def test_a_reply_is_never_longer_than_it_may_be(self):
        # Seen to fail: with a count_fitting() that looks at no length.
        items = [b"%02d" % number + b"y" * 1500 for number in range(40)]
        for item in items:
            self.client.ask("LPUSH", "long", item)
        with self.assertRaisesRegex(Refused, "^ERR .*--message"):
            self.client.ask("LRANGE", "long", "0", "-1")
        self.assertEqual(self.client.ask("LRANGE", "long", "-9", "-1"), items[8::-1])
        taken = []
        while (more := self.client.ask("RPOP", "long", "1000")) is not None:
            self.assertGreater(len(more), 1)
            taken += more
        self.assertEqual(taken, items)
        longest = b"z" * (MESSAGE - 60)
        for _ in range(2):
            self.client.ask("LPUSH", "longest", longest)
        for _ in range(2):
            self.assertEqual(self.client.ask("RPOP", "longest", "2"), [longest])


class Clients(unittest.TestCase):
    def test_the_list_has_the_clients_of_all_cores_with_their_names(self):
        # Seen to fail: with a list that visits one core.
        server = start("--cores", "3")
        self.addCleanup(server.end, True)
        clients = [server.client(is_unix=number % 2 == 0) for number in range(30)]
        numbers = []
        for number, client in enumerate(clients):
            client.ask("LLEN", "key%d" % number)  # its session has been elsewhere
            client.ask("CLIENT", "SETNAME", "name%d" % number)
            client.ask("CLIENT", "SETINFO", "LIB-NAME", "lib")
            numbers.append(client.ask("CLIENT", "ID"))
        self.assertEqual(len(set(numbers)), 30)
        rows = [
            dict(pair.split("=", 1) for pair in line.split())
            for line in clients[7].ask("CLIENT", "LIST").decode().splitlines()
        ]
        found = {int(row["id"]): row["name"] for row in rows}
        self.assertEqual(found, {number: "name%d" % at for at, number in enumerate(numbers)})
        self.assertEqual({row["lib-name"] for row in rows}, {"lib"})
        own = {"127.0.0.1:%d" % client.socket.getsockname()[1] for client in clients[1::2]} | {server.path + ":0"}
        self.assertEqual({row["addr"] for row in rows}, own)
        two = clients[0].ask("CLIENT", "LIST", "ID", str(numbers[3]), str(numbers[4]), "999999").decode()
        self.assertEqual(two.count("\n"), 2)
        self.assertIn("name=name9 ", clients[9].ask("CLIENT", "INFO").decode())
        with self.assertRaisesRegex(Refused, "63 bytes"):
            clients[0].ask("CLIENT", "SETNAME", "n" * 64)
        for client in clients:
            client.close()

    def test_a_list_that_does_not_fit_is_refused(self):
        server = start("--cores", "2")
        self.addCleanup(server.end, True)
        clients = [server.client() for _ in range(200)]
        for client in clients:
            client.ask("CLIENT", "SETNAME", "n" * 63)
        with self.assertRaisesRegex(Refused, "^ERR .*--message"):
            clients[0].ask("CLIENT", "LIST")
        self.assertEqual(clients[0].ask("PING"), b"PONG")
        for client in clients:
            client.close()

    def test_hello_3_changes_the_kinds_of_replies_and_reset_changes_them_back(self):
        # Seen to fail: with a HELLO that forgets what it was told.
        server = start("--cores", "2")
        self.addCleanup(server.end, True)
        client = server.client()

        def raw(*words):
            client.send(encode(*words))
            line = client.file.readline()
            return line + client.file.read(int(line[1:]) + 2) if line[:1] in b"$=" and line[1:2] != b"-" else line

        for _ in range(2):
            self.assertEqual(raw("RPOP", "none"), b"$-1\r\n")
            self.assertEqual(raw("RPOP", "none", "2"), b"*-1\r\n")
            self.assertTrue(raw("INFO").startswith(b"$"))
            self.assertEqual(raw("HELLO", "3", "AUTH", "default", "any", "SETNAME", "me"), b"%7\r\n")
            pairs = [client.read() for _ in range(14)]
            self.assertEqual(pairs[::2], [b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules"])
            self.assertEqual(pairs[1:6:2] + pairs[9::2], [b"calmq", b"7.0.15", 3, b"standalone", b"master", []])
            self.assertEqual(pairs[7], client.ask("CLIENT", "ID"))
            self.assertEqual(client.ask("CLIENT", "GETNAME"), b"me")
            for number in range(4):  # keys of either core
                for words in (
                    ("RPOP", "n%d" % number),
                    ("LPOP", "n%d" % number, "1"),
                    ("BRPOP", "n%d" % number, "0.01"),
                    ("LMOVE", "{%d}" % number, "{%d}2" % number, "LEFT", "LEFT"),
                ):
                    self.assertEqual(raw(*words), b"_\r\n")
            self.assertRegex(raw("INFO"), rb"\A=\d+\r\ntxt:(.|\n)*redis_version:7\.0")
            self.assertRegex(raw("CLIENT", "LIST"), rb"\A=\d+\r\ntxt:id=")
            self.assertEqual(raw("CONFIG", "GET", "save"), b"%1\r\n")
            self.assertEqual([client.read(), client.read()], [b"save", b""])
            self.assertEqual(raw("RESET"), b"+RESET\r\n")
            self.assertIsNone(client.ask("CLIENT", "GETNAME"))
        client.close()


class Bounds(unittest.TestCase):
    def test_who_waits_takes_no_memory_of_items(self):
        # Seen to fail: when a key that is waited for was a queue.
        server = start("--cores", "1", "--memory", "1M")
        self.addCleanup(server.end, True)
        waiting = [server.client() for _ in range(100)]
        for number, client in enumerate(waiting):
            client.send(encode("BRPOP", *("none-%d-%d" % (number, key) for key in range(32)), "0"))
        server.wait_for("waiting", 100)
        core = server.info()["core0"]
        self.assertEqual(core["free"], core["blocks"])
        client = server.client()
        self.assertEqual(client.ask("LPUSH", "mails", "x"), 1)
        for number in range(0, 100, 3):  # and each is found
            client.ask("LPUSH", "none-%d-%d" % (number, number % 32), "item")
            self.assertEqual(waiting[number].read()[1], b"item")
        for one in waiting:
            one.close()
        server.wait_for("waiting", 0)
        client.close()

    def test_open_jobs_leave_half_of_the_memory_to_items(self):
        # Seen to fail: with a SUBMIT that looks at no number, and with one that counts jobs and not their blocks.
        for payload, a_job in (("", 2), (b"p" * 2000, 6)):
            server = start("--cores", "1", "--memory", "256K")
            self.addCleanup(server.end, True)
            client, jobs = server.client(), []
            blocks = int(server.info()["core0"]["blocks"])
            with self.assertRaisesRegex(Refused, "^OOM open jobs"):
                while True:
                    jobs.append(client.ask("SUBMIT", "jobs", payload))
                    self.assertIsNotNone(client.ask("RPOP", "jobs"))
            self.assertEqual(len(jobs), blocks // 2 // a_job)
            self.assertEqual(int(server.info()["core0"]["free"]), blocks - len(jobs) * a_job)
            self.assertEqual(client.ask("LPUSH", "q", b"x" * 12000), 1)
            self.assertEqual(client.ask("RESULT", jobs[0], "y"), b"OK")
            self.assertTrue(client.ask("SUBMIT", "jobs", payload).startswith(b"job:"))
            client.close()

    def test_who_does_not_read_is_paused_and_then_told_all(self):
        # Seen to fail: --send took no 0.
        for words in ((), ("--send", "0")):
            server = start("--cores", "1", *words)
            self.addCleanup(server.end, True)
            client, other = server.client(), server.client()
            sent, stalled = [0], threading.Event()

            def send():
                for number in range(3000):
                    client.send(encode("ECHO", b"%05d" % number + b"e" * 8000))
                    sent[0] += 1
                stalled.set()

            client.socket.settimeout(60)
            sender = threading.Thread(target=send)
            sender.start()
            seen = -1
            while seen != sent[0] and not stalled.is_set():  # until nothing more is taken
                seen = sent[0]
                time.sleep(1)
            self.assertLess(sent[0], 3000)
            self.assertEqual(other.ask("PING"), b"PONG")
            for number in range(3000):
                self.assertEqual(client.read()[:5], b"%05d" % number)
            sender.join()
            client.close()
            other.close()

    def test_each_wait_ends_at_its_time_and_none_before(self):
        # Seen to fail: with milliseconds that are microseconds. Their order is wait_test.cpp's.
        server = start("--cores", "1")
        self.addCleanup(server.end, True)
        times = [((number * 37) % 60 + 1) * 0.02 + 0.5 for number in range(60)]
        clients = [server.client() for _ in times]
        begun = []
        for client, seconds in zip(clients, times):
            begun.append(time.time())
            client.send(encode("BRPOP", "none", "%f" % seconds))
        for number in range(0, 60, 7):  # who goes before
            clients[number].close()
        waits = {}

        def wait(number):
            self.assertIsNone(clients[number].read())
            waits[number] = time.time() - begun[number]

        threads = [threading.Thread(target=wait, args=(number,)) for number in range(60) if number % 7 != 0]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(waits), len(threads))
        for number, seconds in waits.items():
            self.assertTrue(times[number] - 0.01 <= seconds < times[number] + 20, (times[number], seconds))
        self.assertEqual(server.info()["core0"]["waiting"], "0")

    def test_more_memory_than_a_core_can_hold_is_refused_in_words(self):
        # Seen to fail: "more than CALM_POOL_BLOCKS_MAX", after the memory for the keys was claimed.
        done = subprocess.run(
            [PROGRAM, "--port", "0", "--loop", "epoll", "--cores", "1", "--memory", "9G"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Acalmq: --memory is more than 8 GiB for each core: .*--cores\.\n\Z")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
