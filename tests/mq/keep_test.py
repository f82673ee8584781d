"""calmq's kept file: nothing that a completed stop wrote is lost, whenever the server is killed and whatever is full.

    keep_test.py CALMQ CRASH_AT

CRASH_AT is a library that kills the server at a chosen call that touches the file. What each test was seen to fail on
is noted in it; "the first format" is the file without header, end record and lock.
"""

import collections
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import Refused, Server, encode

PROGRAM, CRASH_AT = sys.argv[1:3]
CRASHES_MAX = 60
LIMIT = 4096
MESSAGE = 16 << 10  # calmq's default


def start(*words, **more):
    return Server(PROGRAM, *words, loop="epoll", **more)


class Keep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "kept")
        os.mkdir(self.folder)
        self.path = os.path.join(self.folder, "file")

    def start(self, *words, **more):
        return start("--keep", self.path, *words, **more)

    def fill(self, items, *words):
        """A stop that keeps these items, beside what is there."""
        server = self.start("--cores", "1", *words)
        server.client().ask("LPUSH", "mails", *items)
        self.assertEqual(server.end(), 0, server.said())

    def drain(self, client, key="mails"):
        items = []
        while (item := client.ask("RPOP", key)) is not None:
            items.append(item)
        return items

    def kept(self, *words):
        """What the next start has; nothing of it is taken out of the file."""
        server = self.start("--cores", "1", *words)
        items = self.drain(server.client())
        server.end(is_hard=True)
        return items

    def refused(self, *words):
        """What is said by a start that fails, and leaves the file as it was."""
        before = self.read()
        with self.assertRaises(RuntimeError) as trouble:
            self.start(*words)
        self.assertEqual(self.read(), before)
        said = str(trouble.exception)
        self.assertEqual(len(said.splitlines()), 1, said)
        return said

    def read(self, beside=""):
        try:
            with open(self.path + beside, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, data, beside=""):
        with open(self.path + beside, "wb") as file:
            file.write(data)


class Contents(Keep):
    def test_every_key_and_item_comes_back(self):
        # Seen to fail: in the first format a queue with the empty key was the end of the file.
        queues = {b"": [b"x", b""], b"mails": [b"precious"], b"k" * 400: [b""] * 300, b"\0\r\n": [b"y" * 16000] * 3}
        server = self.start("--cores", "2")
        client = server.client()
        for key, items in queues.items():
            for item in items:
                client.ask("LPUSH", key, item)
        self.assertEqual(server.end(), 0, server.said())
        for cores in ("2", "1", "5"):
            server = self.start("--cores", cores)
            client = server.client()
            self.assertEqual({key: self.drain(client, key) for key in queues}, queues)
            server.end(is_hard=True)

    def test_a_queue_that_was_filled_from_both_ends_keeps_its_order(self):
        # Seen to fail: with a keep_fill() that puts at the other end, and with a queue_walk() that begins a segment.
        largest = {key: MESSAGE - len(encode("LPUSH", key, b"")) - 4 for key in (b"", b"{mails}", b"k" * 400)}
        queues = {key: collections.deque() for key in largest}
        server = self.start("--cores", "2")
        client, draw = server.client(), random.Random(7)
        for key, queue in queues.items():
            for number in range(300):
                size = draw.choice((0, 0, 1, 30, 495, 496, 497, largest[key] if number % 20 == 0 else 5))
                item, is_left = draw.randbytes(size), draw.random() < 0.5
                client.ask("LPUSH" if is_left else "RPUSH", key, item)
                (queue.appendleft if is_left else queue.append)(item)
                if number % 3 == 0:
                    is_left = draw.random() < 0.5
                    found = client.ask("LPOP" if is_left else "RPOP", key)
                    self.assertEqual(found, queue.popleft() if is_left else queue.pop())
                if number % 7 == 0 and queue:
                    client.ask("LMOVE", key, key, "LEFT", "RIGHT")
                    queue.rotate(-1)
            self.assertIn(largest[key], map(len, queue))
        self.assertEqual(server.end(), 0, server.said())
        for cores in ("2", "1", "5"):
            server = self.start("--cores", cores)
            client = server.client()
            for key, queue in queues.items():
                self.assertEqual(self.drain(client, key), list(reversed(queue)))
            server.end(is_hard=True)

    def test_a_server_full_of_queues_with_two_ends_is_started_again_with_the_same_options(self):
        # Seen to fail: with a keep_fits() that counts two segments more for each queue.
        words = ("--cores", "2", "--memory", "1M")
        server = self.start(*words)
        client, draw = server.client(), random.Random(7)
        keys, queues, refused = ["q%d" % number for number in range(12)], collections.defaultdict(collections.deque), 0
        while refused < 200:
            key, is_left, item = draw.choice(keys), draw.random() < 0.5, draw.randbytes(draw.randrange(1500))
            try:
                client.ask("LPUSH" if is_left else "RPUSH", key, item)
                (queues[key].appendleft if is_left else queues[key].append)(item)
            except Refused:
                refused += 1
                if refused < 150:  # then it is filled to the last block
                    client.ask("LPOP", key)
                    if queues[key]:
                        queues[key].popleft()
        for _ in range(2):
            self.assertEqual(server.end(), 0, server.said())
            server = self.start(*words)
        client = server.client()
        for key in keys:
            self.assertEqual(self.drain(client, key), list(reversed(queues[key])))
        server.end(is_hard=True)

    def test_a_crash_brings_back_what_the_last_stop_kept(self):
        # Seen to fail: in the first format the start removed the file, and a crash lost its items.
        self.fill(["a", "b"])
        for _ in range(2):
            self.assertEqual(self.kept(), [b"a", b"b"])
        server = self.start()
        self.assertEqual(server.client().ask("RPOP", "mails"), b"a")
        self.assertEqual(server.end(), 0)  # a stop, and the file is what is left
        self.assertEqual(self.kept(), [b"b"])

    def test_a_server_that_is_full_to_the_last_block_is_started_again_with_the_same_options(self):
        # Seen to fail: with a seed drawn at each start, queues moved to cores that had no room.
        words = ("--cores", "2", "--memory", "1M")
        server = self.start(*words)
        client = server.client()
        counts = {}
        for number in range(8):
            counts["q%d" % number] = 0
            with self.assertRaisesRegex(Refused, "^OOM"):
                while True:
                    counts["q%d" % number] = client.ask("LPUSH", "q%d" % number, b"y" * (3000 - number * 300))
        jobs = 0
        client.ask("RPOP", "q0")
        counts["q0"] -= 1
        with self.assertRaisesRegex(Refused, "^OOM"):
            while True:
                client.ask("SUBMIT", "work", "x")
                jobs += 1
        counts["work"] = jobs
        for _ in range(3):
            self.assertEqual(server.end(), 0, server.said())
            server = self.start(*words)
            self.assertEqual({key: server.client().ask("LLEN", key) for key in counts}, counts)
        server.end()

    def test_other_cores_or_less_memory_take_it_if_it_fits_or_say_what_does(self):
        # Seen to fail: in the first format it was "start with more --memory", and not how much.
        server = self.start("--cores", "2", "--memory", "8M")
        for number in range(250):
            server.client().ask("LPUSH", "large", b"y" * 10000)
        self.assertEqual(server.end(), 0)
        for words in (
            ("--cores", "4", "--memory", "8M"),
            ("--cores", "1", "--memory", "1M"),
            ("--cores", "64", "--memory", "64K"),
        ):
            said = self.refused(*words)
            found = re.search(
                r"it does not fit; start with more --memory, (\d+K) for (\d+) cores; or as it was "
                r"written, with --cores 2 --memory 8192K\.$",
                said,
            )
            self.assertEqual(found.group(2), words[1], said)
            for better in (
                ("--cores", found.group(2), "--memory", found.group(1)),
                ("--cores", "2", "--memory", "8192K"),
            ):
                server = self.start(*better)
                self.assertEqual(server.client().ask("LLEN", "large"), 250)
                server.end(is_hard=True)

    def test_an_item_that_is_too_long_names_the_option(self):
        # Seen to fail: in the first format no number was given.
        server = self.start("--message", "64K")
        server.client().ask("LPUSH", "mails", b"y" * 60000)
        server.end()
        self.assertRegex(self.refused("--message", "16K"), "an item of 60000 bytes; start with --message 64K")
        self.assertEqual(self.kept("--message", "64K"), [b"y" * 60000])

    def test_what_is_no_kept_file_stays_and_is_named(self):
        # Seen to fail: a pipe was waited for without end, and a link to nothing was replaced by a file.
        for data, sentence in (
            (b"calmq queues 1\n\0", "another version of calmq wrote it"),
            (b"dear diary, today ...", "none of calmq's; give --keep another name"),
            (b"", "cut off"),
        ):
            self.write(data)
            self.assertIn(sentence, self.refused())
        os.unlink(self.path)
        os.mkfifo(self.path)
        for path, sentence in (
            (self.path, "it is no file"),
            (self.folder, "it is no file"),
            (os.path.join(self.folder, "link"), "a link to nothing"),
        ):
            if path.endswith("link"):
                os.symlink("nowhere", path)
            done = subprocess.run([PROGRAM, "--port", "0", "--keep", path], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1))
            self.assertIn(sentence, done.stderr)

    def test_a_file_of_somebody_else_at_the_name_that_a_stop_needs_stays(self):
        # Seen to fail: the start truncated it.
        self.fill(["a"])
        for data in (b"dear diary, today ...", b"calmq queues 1\n\0 and queues"):
            self.write(data, ".new")
            self.assertIn("move it elsewhere", self.refused())
            self.assertEqual(self.read(".new"), data)


class Two(Keep):
    def test_a_second_server_with_the_same_file_is_refused_and_told_what_to_do(self):
        # Seen to fail: both ran, and the one that stopped last overwrote what the other had kept.
        self.fill(["a"])
        first = self.start("--cores", "1")
        link = os.path.join(os.path.dirname(self.folder), "link")
        os.symlink(self.path, link)
        for path in (self.path, link, os.path.relpath(self.path), self.folder + "/../kept/./file"):
            done = subprocess.run([PROGRAM, "--port", "0", "--keep", path], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(
                done.stderr,
                r"\Acalmq: another calmq, process %d, keeps its queues in %s; stop it first, "
                r"or give this one another file with --keep\.\n\Z" % (first.process.pid, os.path.realpath(self.path)),
            )
        first.client().ask("LPUSH", "mails", "b")
        self.assertEqual(first.end(), 0)
        self.assertEqual(self.kept(), [b"a", b"b"])

    def test_a_name_that_may_be_beside_another_servers_file_is_refused(self):
        # Seen to fail: a server with FILE took the items of one with FILE.new for its own.
        done = subprocess.run(
            [PROGRAM, "--port", "0", "--keep", self.path + ".new"], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("a name that ends in .new may be another server's; give --keep another.\n", done.stderr)

    def test_before_the_file_is_there_the_second_is_refused_as_well(self):
        # Seen to fail: both ran.
        first = self.start("--cores", "1")
        self.assertIn("another calmq", self.refused())
        first.end(is_hard=True)
        self.assertEqual(self.kept(), [])  # and a killed one holds no lock


class Crash(Keep):
    """Killed before each call in turn that touches the file: after that both what the last stop had kept, and what
    this one says that it keeps, is there."""

    def golden(self, name):
        """The folder as a test finds it, and what must come out of it."""
        if name == "none":
            return []
        self.fill(["a", "b"])
        whole = self.read()
        if name == "file":
            return [b"a", b"b"]
        if name == "piece":
            self.write(whole[:-1], ".new")
            return [b"a", b"b"]
        self.fill(["c"])  # its server was killed before it moved FILE.new
        self.write(self.read(), ".new")
        self.write(whole)
        return [b"a", b"b", b"c"]

    def run_one(self, number):
        """A start, more items, a stop: the calls that were begun; whether it was killed, and whether in its stop."""
        log = self.folder + ".log"
        with open(log, "w"):
            pass
        environment = {"LD_PRELOAD": CRASH_AT, "CALM_CRASH_AT": str(number), "CALM_CRASH_LOG": log}
        is_stopping, code = True, -signal.SIGKILL
        try:
            server = self.start("--cores", "1", "--message", "256K", environment=environment)
            server.client().ask("LPUSH", "mails", *["more" * 100] * 400)
            code = server.end()
            self.assertIn(code, (0, -signal.SIGKILL), server.said())
            self.assertEqual("open jobs are in" in server.said(), code == 0)
        except RuntimeError as trouble:
            self.assertEqual(str(trouble), "")  # it was killed, and said nothing
            is_stopping = False
        with open(log) as file:
            return file.read().splitlines(), code != 0, is_stopping

    def check(self, name):
        expected = self.golden(name)
        saved = self.folder + ".saved"
        shutil.copytree(self.folder, saved)
        kills = 0
        for number in range(1, CRASHES_MAX):
            shutil.rmtree(self.folder)
            shutil.copytree(saved, self.folder)
            calls, is_killed, is_stopping = self.run_one(number)
            is_whole = is_stopping and calls[-1] in ("rename file.new", "open ", "fsync kept")  # FILE.new is synced
            items = self.kept("--message", "256K")
            self.assertEqual(items[: len(expected)], expected, (name, number))
            more = items[len(expected) :]
            self.assertIn(len(more), (400,) if is_whole else (0, 400), (name, number))
            if not is_killed:
                self.assertTrue(is_whole, calls)
                self.assertGreater(kills, 8)
                return
            kills += 1
        self.fail("there is no end of calls")

    def test_without_a_file(self):
        # Seen to fail: with a FILE.new that the start removed, whole as it was, in the first format.
        self.check("none")

    def test_with_a_file(self):
        # Seen to fail: in the first format, which was removed by the start.
        self.check("file")

    def test_with_a_successor_that_was_not_moved(self):
        # Seen to fail: in the first format, where a start took FILE and removed FILE.new.
        self.check("successor")

    def test_with_a_piece_of_a_successor(self):
        # Seen to fail: with a start that moves FILE.new whatever is in it.
        self.check("piece")

    def test_bytes_are_on_the_disk_before_their_name_and_the_name_before_it_is_said(self):
        # Seen to fail: without the fsync of the file, without that of the folder.
        self.golden("successor")
        begun, is_killed, _ = self.run_one(0)
        self.assertFalse(is_killed)
        calls = [call for call in begun if not call.startswith("open")]
        moves = [at for at, call in enumerate(calls) if call == "rename file.new"]
        self.assertEqual(len(moves), 2, calls)  # the successor at the start, and the stop's
        for at in moves:
            self.assertEqual(calls[at - 1], "fsync file.new", calls)
            self.assertEqual(calls[at + 1], "fsync kept", calls)
        self.assertEqual(calls[moves[1] - 2], "write file.new", calls)
        self.assertNotIn("unlink file", calls)


class Full(Keep):
    def stop_without_room(self):
        """A server whose stop may write only a part of what it has."""
        self.fill(["a"])
        server = self.start("--cores", "1")
        server.client().ask("LPUSH", "mails", *["y" * 100] * 100)
        _, most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (LIMIT, most))
        server.process.send_signal(signal.SIGTERM)
        until = time.time() + 60
        while "tries again" not in server.said():
            self.assertIsNone(server.process.poll(), server.said())
            self.assertLess(time.time(), until)
            time.sleep(0.01)
        return server, most

    def test_a_stop_waits_for_room(self):
        # Seen to fail: SIGXFSZ killed the server.
        server, most = self.stop_without_room()
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most))
        self.assertEqual(server.process.wait(60), 0)
        self.assertEqual(self.kept(), [b"a"] + [b"y" * 100] * 100)

    def test_what_was_kept_before_is_there_when_the_stop_is_given_up(self):
        # Seen to fail: SIGXFSZ killed the server; with a stop that writes into the file itself it never ended.
        for is_hard in (True, False):
            server, _ = self.stop_without_room()
            if is_hard:
                server.end(is_hard=True)
            else:
                self.assertEqual(server.end(), 1)
                self.assertIn("101 items and open jobs are dropped", server.said())
                self.assertIsNone(self.read(".new"))
            self.assertEqual(self.kept(), [b"a"])
            os.unlink(self.path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
