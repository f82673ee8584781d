"""What `calm record` writes and `calm replay` makes of it.

    record_test.py COLLECTOR RECORDER REPLAY CALLS ALLOCATOR
"""
import collections
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

COLLECTOR, RECORDER, REPLAY, CALLS, ALLOCATOR = sys.argv[1:6]
del sys.argv[1:6]
ALLOCATORS = {"calmalloc": ALLOCATOR, "the C library's": ""}


def preload(allocator=ALLOCATOR):
    return ":".join(part for part in (RECORDER, allocator) if part)


class Recording(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "a.record")

    def tearDown(self):
        self.folder.cleanup()

    def command(self, *words, options=(), allocator=ALLOCATOR):
        return [COLLECTOR, *options, self.file, preload(allocator), CALLS, "calls", *map(str, words)]

    def record(self, *words, options=(), allocator=ALLOCATOR):
        done = subprocess.run(self.command(*words, options=options, allocator=allocator), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def listed(self, file=None):
        done = subprocess.run([REPLAY, "--list", file or self.file], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.splitlines()

    def replay(self, *options, file=None, allocator=ALLOCATOR, check=True):
        environment = dict(os.environ, LD_PRELOAD=allocator)
        done = subprocess.run([REPLAY, *options, file or self.file], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=environment)
        if not check:
            return done
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def calls_by_thread(self):
        """Of each thread: (function, size, alignment) in order; and the slots' life is looked at on the way."""
        found, alive = collections.defaultdict(list), {}
        for line in self.listed():
            words = line.split()
            if len(words) < 3 or not words[0].isdigit() or words[1] == "touch":
                continue
            thread, function, slot = int(words[0]), words[1], words[2]
            if function == "free":
                self.assertIn(slot, alive, line)
                del alive[slot]
                found[thread].append(("free", 0, 0))
                continue
            self.assertEqual(slot in alive, function == "realloc", line)
            alive[slot] = thread
            found[thread].append((function, int(words[3]), int(words[5])))
        return found

    def sizes(self, file=None):
        return collections.Counter(line.split()[3] for line in self.listed(file) if " malloc " in line)

    def test_a_random_programs_calls_are_listed_as_it_made_them(self):
        # Seen to fail: with stamps of frees taken after the block is gone; with sizes of 16 bits.
        for name, allocator in ALLOCATORS.items():
            for seed in (1, 2):
                with self.subTest(allocator=name, seed=seed):
                    done = self.record(seed, 4, 20000, allocator=allocator)
                    self.assertNotIn("not seen", done.stderr)
                    said = collections.defaultdict(list)
                    for line in done.stdout.splitlines():
                        thread, function, size, align = line.split()
                        said[int(thread)].append((function, int(size), int(align)))
                    recorded = list(self.calls_by_thread().values())
                    for thread in said:
                        self.assertIn(said[thread], recorded)

    def test_a_replay_makes_all_calls_on_any_allocator_in_the_same_number_of_threads(self):
        self.record(3, 4, 20000)
        for name, allocator in ALLOCATORS.items():
            with self.subTest(allocator=name):
                made = self.replay(allocator=allocator)
                again = self.replay(allocator=allocator)
                self.assertGreater(made["calls"], 80000)
                self.assertEqual(made["threads"], 5)
                self.assertTrue(made["is_whole"])
                self.assertEqual(made["failed"], 0)
                for field in ("calls", "peak_live_bytes", "end_live_bytes", "end_live_blocks"):
                    self.assertEqual(made[field], again[field])

    def test_a_recorded_replay_of_a_recording_has_its_calls(self):
        # The calls that arrive at the allocator, not those that the file lists. Seen to fail: without frees.
        self.record(4, 1, 20000)
        first = [thread for thread in self.calls_by_thread().values() if len(thread) > 20000]
        inner = self.file
        self.file = os.path.join(self.folder.name, "b.record")
        subprocess.run([COLLECTOR, "--quiet", self.file, preload(), REPLAY, "calm_replay", inner],
                       stdout=subprocess.DEVNULL, check=True)
        second = [thread for thread in self.calls_by_thread().values() if len(thread) > 20000]
        self.assertEqual([len(first), len(second)], [1, 1])
        first, second = first[0], second[0]
        self.assertIn(first, [second, second[:len(first)], second[-len(first):]])

    def test_a_file_that_is_not_whole_and_ours_is_refused_in_one_sentence(self):
        self.record("many", 100000)
        with open(self.file, "rb") as file:
            good = file.read()
        damaged = bytearray(good)
        damaged[len(good) // 2] ^= 4
        newer = good[:8] + struct.pack("<I", 99) + good[12:]
        misnamed = good.replace(b"+0x", b"-0x", 1)  # what only a checksum can tell
        cases = {"it is damaged": bytes(damaged), "damaged": misnamed, "a newer calm wrote it": newer,
                 "ends before its first": good[:20],
                 "not a file that `calm record` wrote": b"\x7fELF" + good[4:], "not a file that": b""}
        for reason, text in cases.items():
            with self.subTest(reason=reason):
                bad = os.path.join(self.folder.name, "bad")
                with open(bad, "wb") as file:
                    file.write(text)
                done = self.replay(file=bad, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(reason, done.stderr)
                self.assertRegex(done.stderr, r"\Acalm: '.*' cannot be replayed: .*\.\n\Z")

    def test_no_changed_byte_makes_the_replay_fault_or_hang(self):
        # The checksum is made right again, so that what is behind it is reached.
        self.record(5, 2, 300)
        with open(self.file, "rb") as file:
            good = file.read()
        for position in range(64, len(good), max(1, len(good) // 150)):
            bad = bytearray(good)
            bad[position] ^= 1 << position % 8
            path = os.path.join(self.folder.name, "bad")
            with open(path, "wb") as file:
                file.write(mended(bytes(bad)))
            done = subprocess.run([REPLAY, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 34, 1 << 34)))
            self.assertIn(done.returncode, (0, 1), (position, done.stderr))

    def test_events_that_cannot_be_are_refused(self):
        # Seen to fail: without the look whether a slot is known, is live, whether a kind is known.
        self.record("many", 100)
        with open(self.file, "rb") as file:
            head = file.read()[:64]
        alloc = bytes([241, 0, 1, 100])
        cases = {
            "of nothing": bytes([0]), "before the first": alloc + bytes([5]), "of nothing, far back": bytes([127, 255]),
            "twice": alloc + bytes([0, 0]),
            "a slot too far": alloc + bytes([240]) + b"\xff\xff\xff\xff\x07",
            "a dead slot": alloc + bytes([240, 0, 240, 0]),
            "a number without end": alloc + bytes([240]) + b"\xff" * 12, "half an event": alloc + bytes([241, 0]),
            "a dead block resized": alloc + bytes([0, 242, 0, 241, 3, 1, 9]), "an unknown kind": bytes([128]),
            "an unknown kind, far": bytes([224, 3]), "an alignment of 2^62": bytes([241, 2 | 62 << 2, 1, 9]),
            "a thread too far": bytes([243]) + b"\xff\xff\xff\x7f" + alloc, "no event": bytes([247]),
            "the end of a thread too far": alloc + bytes([246]) + b"\xff\xff\xff\x7f",
            "an allocation that resizes": bytes([241, 3, 1, 9]),
            "a resizing that allocates": alloc + bytes([242, 0]) + alloc,
        }
        for name, events in cases.items():
            with self.subTest(name):
                with open(self.file, "wb") as file:
                    file.write(head + struct.pack("<4I", 1, len(events), 1, check_of(events, 1)) + events)
                done = self.replay(check=False)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("it is damaged", done.stderr)

    def test_pages_touched_after_a_threads_end_make_no_new_thread(self):
        # Seen to fail: a look came between a thread's end and the next call, and the thread was made once more.
        self.record("many", 100)
        with open(self.file, "rb") as file:
            head = file.read()[:64]
        events = bytes([243, 1, 241, 0, 1, 0xa0, 0x8d, 6, 246, 1, 244, 0, 0, 5])
        with open(self.file, "wb") as file:
            file.write(head + struct.pack("<4I", 1, len(events), 1, check_of(events, 1)) + events)
        made = self.replay()
        self.assertEqual((made["threads"], made["calls"], made["peak_live_bytes"]), (2, 1, 100000))

    def killed(self, mode, is_program):
        """The number of the program that was recorded; the recorder or the program has been killed."""
        process = subprocess.Popen(self.command(mode), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            child = int(file.read().split()[0])
        time.sleep(0 if is_program else 1.5)  # longer than until a flush
        os.kill(child if is_program else process.pid, signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL)
        process.stdout.close()
        return child

    def test_a_killed_program_leaves_all_it_did(self):
        # Seen to fail: a recorder that hands over what it has when its buffer is full would have nothing here.
        self.killed("slow", is_program=True)
        self.assertTrue(self.replay()["is_whole"])
        self.assertGreaterEqual(self.sizes()["666"], 100)

    def test_a_killed_recorder_leaves_what_was_flushed_and_a_program_that_goes_on(self):
        # Seen to fail: without a flush by time; without the look whether the collector is there.
        for mode in ("slow", "loop"):
            with self.subTest(mode=mode):
                child = self.killed(mode, is_program=False)
                self.assertTrue(mode == "slow" or goes_on(child))
                os.kill(child, signal.SIGKILL)
                self.assertFalse(self.replay()["is_whole"])
                self.assertGreaterEqual(self.sizes()["666"], 100)

    def test_ctrl_c_ends_the_program_and_the_file_is_whole(self):
        process = subprocess.Popen(self.command("loop"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertTrue(self.replay()["is_whole"])

    def test_a_forked_child_is_left_out_and_an_exec_has_its_own_file(self):
        self.record("fork")
        sizes = self.sizes()
        self.assertEqual((sizes["111"], sizes["222"], sizes["333"]), (1000, 0, 1000))
        self.record("exec")
        self.assertEqual((self.sizes()["777"], self.sizes()["100"]), (1000, 0))
        self.assertEqual(self.sizes(self.file + ".2")["100"], 1000)

    def test_children_are_recorded_when_asked_for(self):
        shell = [self.file, preload(), "/bin/sh", "sh", "-c", "%s many 500; :" % CALLS]
        subprocess.run([COLLECTOR, "--quiet", *shell], check=True)
        self.assertFalse(os.path.exists(self.file + ".2"))
        subprocess.run([COLLECTOR, "--quiet", "--children", *shell], check=True)
        self.assertEqual(self.sizes(self.file + ".2")["100"], 500)

    def test_calls_of_signal_handlers_do_no_harm(self):
        # Seen to fail: without the look whether an event is being written.
        self.record("handler")
        sizes = self.sizes()
        self.assertGreater(sizes["444"], 0)
        self.assertEqual(sizes["111"], 500000)
        self.replay()

    def test_of_a_large_block_the_replay_touches_what_the_program_wrote(self):
        # Seen to fail: with all pages touched; with the kernel's page of zeros counted as memory.
        self.record("half")
        made = self.replay()
        self.assertEqual(made["peak_live_bytes"] >> 26, 1)
        seen = max(one.get("program_resident_bytes", 0) for one in made["samples"])
        for resident in (made["peak_resident_bytes"], seen):
            self.assertGreaterEqual(resident, 8 << 20)
            self.assertLess(resident, 14 << 20)

    def test_many_threads_that_end_need_few_rings(self):
        # Seen to fail: without looking for threads that are gone.
        self.record("threads")
        self.assertEqual(self.sizes()["555"], 30000)
        self.assertEqual(self.replay()["threads"], 3001)

    def test_memory_is_bounded_by_what_is_alive_and_not_by_the_number_of_calls(self):
        peaks = []
        for count in (1000000, 6000000):
            self.record("many", count)
            environment = dict(os.environ, LD_PRELOAD=ALLOCATOR)
            for command in (self.command("many", count), [REPLAY, self.file]):
                peaks.append((count, peak_kib(command, environment if command[0] == REPLAY else None)))
        record_few, replay_few, record_many, replay_many = (kib for _, kib in peaks)
        self.assertLess(record_many, record_few + 4096, peaks)
        self.assertLess(replay_many, replay_few + 4096, peaks)

    def test_a_full_disk_ends_the_recording_and_not_the_program(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        self.file = "/dev/full"
        done = subprocess.run(self.command(6, 2, 100000), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertGreater(len(done.stdout.splitlines()), 100000)
        said = [line for line in done.stderr.splitlines() if "cannot be written" in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertRegex(said[0], r"No space left on device; the program goes on\.$")

    def test_a_disk_that_fills_ends_the_recording_and_not_the_program(self):
        # By the limit of a file's size, given to the collector alone. Seen to fail: without a word to the recorder.
        process = subprocess.Popen(self.command("loop"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            child = int(file.read().split()[0])
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (50000, resource.RLIM_INFINITY))
        self.assertRegex(process.stderr.readline(), r"cannot be written: File too large; the program goes on\.$")
        self.assertTrue(goes_on(child))
        os.kill(child, signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGTERM)
        made = self.replay()
        self.assertFalse(made["is_whole"])

    def test_a_limit_on_the_size_of_files_is_borne(self):
        # Seen to fail: the kernel ends a process that makes shared memory above that limit.
        done = subprocess.run(self.command("many", 1000), stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        self.assertEqual(done.returncode, 0)
        self.assertIn("nothing was recorded", done.stderr)

    def test_no_names_are_in_a_file_with_hashed_names_and_no_contents_in_any(self):
        self.record("many", 1000)
        with open(self.file, "rb") as file:
            plain = file.read()
        self.assertIn(os.path.basename(CALLS).encode() + b"+0x", plain)
        self.record("many", 1000, options=["--hash-names"])
        with open(self.file, "rb") as file:
            hashed = file.read()
        for name in (os.path.basename(CALLS)[:15], "libc.so", "calls"):
            self.assertNotIn(name.encode(), hashed)
        again = [line for line in self.listed() if line.startswith("site ")]
        self.assertTrue(all(re.fullmatch(r"site \d+ [0-9a-f]{16}", line) for line in again), again[:3])
        self.record("many", 1000, options=["--hash-names"])
        self.assertNotEqual(again, [line for line in self.listed() if line.startswith("site ")])

    def test_the_end_is_the_programs(self):
        done = subprocess.run(self.command("nothing of the kind"), stderr=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)


def peak_kib(command, environment):
    """Of a process and not of what it starts: from its status, until it is gone."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            with open("/proc/%d/status" % process.pid) as file:
                peak = max([peak] + [int(line.split()[1]) for line in file if line.startswith("VmHWM")])
        except (OSError, ProcessLookupError):
            pass
        time.sleep(0.002)
    return peak


def goes_on(process):
    """Whether the process still runs, after a while in which it would have stopped."""
    before = cpu_ticks(process)
    for _ in range(100):
        time.sleep(0.1)
        if cpu_ticks(process) > before + 2:
            return True
    return False


def cpu_ticks(process):
    with open("/proc/%d/stat" % process) as file:
        return int(file.read().rsplit(")", 1)[1].split()[11])


MASK = (1 << 64) - 1


def check_of(text, kind):
    """chunk_check of tools/record/codec.c."""
    total = 0x9e3779b97f4a7c15 ^ kind ^ (len(text) << 32)
    for at in range(0, len(text) // 8 * 8, 8):
        total = (total ^ int.from_bytes(text[at:at + 8], "little")) * 0xd6e8feb86659fd93 & MASK
        total ^= total >> 29
    rest = int.from_bytes(text[len(text) // 8 * 8:], "little")
    total = (total ^ rest) * 0xd6e8feb86659fd93 & MASK
    return (total ^ total >> 32) & 0xffffffff


def mended(text):
    """The same with right checksums, as far as its chunks can be found."""
    out, at = text[:64], 64
    while at + 16 <= len(text):
        kind, count, events, _ = struct.unpack_from("<4I", text, at)
        body = text[at + 16:at + 16 + count]
        out += struct.pack("<4I", kind, count, events, check_of(body, kind)) + body
        at += 16 + count
    return out


if __name__ == "__main__":
    unittest.main()
