"""An executor in a whole program, seen from outside: `calm top`, the system calls that it makes, a CPU quota.

    engine_test.py ENGINE LIBRARY

What each test was seen to fail on is noted in it.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import needs  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True
ENGINE, LIBRARY = "", ""
PATIENCE_S = 120
TRIES = 5  # of a busy machine that takes the CPU from whoever submits for longer than the inbox lasts
HELD_BYTES = 1024


def calm(*words, check=True):
    return subprocess.run([os.path.join(ROOT, "calm"), *words], check=check, text=True, capture_output=True,
                          timeout=PATIENCE_S)


def load(tasks, *before):
    done = subprocess.run([*before, ENGINE, "load", str(tasks)], capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Top(unittest.TestCase):
    def start(self, preload):
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        if preload:
            environment["LD_PRELOAD"] = LIBRARY
        process = subprocess.Popen([ENGINE, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.addCleanup(process.communicate)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def test_each_core_is_shown_with_what_waits_and_what_its_pool_has(self):
        # Seen to fail: workers told by the offset of the field beside the right one.
        for preload in (False, True):
            with self.subTest(preload=preload):
                process = self.start(preload)
                found = json.loads(calm("top", "--once", "--json", str(process.pid)).stdout)
                executor, = found["executors"]
                self.assertEqual((executor["policy"], executor["inbox_capacity"], executor["block_bytes"]),
                                 ("jsq", 1024, [64, HELD_BYTES]))
                first, second = executor["cores"]
                self.assertEqual((first["done"], first["in_flight"], second["in_flight"]), (1, 0, 4))
                self.assertEqual(first["pool_bytes"] - first["pool_free_bytes"], HELD_BYTES)
                self.assertEqual(second["pool_bytes"], second["pool_free_bytes"])
                self.assertEqual(second["done"], 0)
                text = calm("top", "--once", str(process.pid)).stdout
                self.assertRegex(text, r"executor of 2 cores, policy jsq: 1 task, rejected 0")
                self.assertRegex(text, r" 0, CPU \d+ .*\[#\.+\]")
                self.assertEqual("its heap is not calmalloc's" in text, not preload)

    def test_an_executor_that_is_gone_is_not_shown(self):
        # Seen to fail: without running_remove().
        process = subprocess.Popen([ENGINE, "gone"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assertEqual(json.loads(calm("top", "--once", "--json", str(process.pid)).stdout)["executors"], [])
        from executors import Executors
        from process_memory import Process
        facts, = Executors(Process(process.pid)).tables
        places = Process(process.pid).read(facts["running"], 8 * facts["running.count"])
        self.assertEqual(places.strip(b"\0"), b"")

    def test_each_look_at_executors_may_cost_as_much_as_the_first(self):
        # Seen to fail: without new_look(), a watch of many executors ended after half a minute.
        process = subprocess.Popen([ENGINE, "gone"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        from executors import Executors
        from process_memory import Process
        executors = Executors(Process(process.pid))
        executors.process.reads_left = 0
        self.assertEqual(executors.look(), [])


class Page(unittest.TestCase):
    """What `calm top` writes of executors, without a process."""

    def lines(self, **changes):
        from executors import Core, Executor, lines
        core = dict(number=0, cpu=127, is_pinned=True, is_asleep=False, done=0, stolen=12345, sleeps=0, busy_ns=0,
                    in_flight=1000, service_ns=99900, latency_ns=0, pool_bytes=1 << 30, pool_free_bytes=1 << 29,
                    pool_backlog=0, free_blocks=[])
        before = Executor(1, "hash", 8, 0, 0, 0, [], [Core(**core)])
        core.update({"done": 1999999, "busy_ns": 10**9, **changes})
        return lines([Executor(1, "hash", 8, 0, 0, 0, [], [Core(**core)])], [before], 1, 8)[1:]

    def test_a_line_of_a_busy_core_fits_a_terminal_of_80_columns(self):
        # Seen to fail: with a column more, for the size of the pool.
        for text in self.lines():
            self.assertLessEqual(len(text), 80, text)
        self.assertRegex(self.lines()[2], r"^  0, CPU 127  1,999,999/s  100 %  .*  512 MiB  \[###\.\.\]$")

    def test_a_core_that_sleeps_or_is_not_pinned_is_told(self):
        # Seen to fail: with `asleep` for a core that worked until now, and with pinned for not pinned.
        self.assertIn(" asleep ", self.lines(is_asleep=True, busy_ns=0)[2])
        self.assertIn(" 100 % ", self.lines(is_asleep=True)[2])
        self.assertEqual(self.lines(is_pinned=False)[3:], ["  not pinned: core 0"])
        self.assertEqual(self.lines()[3:], [])


class Calls(unittest.TestCase):
    def test_no_system_call_while_there_is_work(self):
        # Seen to fail: with a wake at each submission.
        needs.here("strace")
        for _ in range(TRIES):
            with tempfile.NamedTemporaryFile("r") as log:
                load(4000, "strace", "-f", "-o", log.name)
                calls = [line.split(None, 1)[1] for line in log]
            marks = [index for index, line in enumerate(calls) if line.startswith("getppid(")]
            self.assertEqual(len(marks), 2)
            between = [line for line in calls[marks[0] + 1:marks[1]] if not line.startswith("<...")]
            if not between:
                return
        self.fail("\n".join(between[:20]))

    def test_the_heap_is_not_called_after_the_start(self):
        # Seen to fail: with a task that calls malloc.
        self.assertEqual(load(4000)["heap_calls"], 0)


class Quota(unittest.TestCase):
    """A tenth of a CPU: the worker is stopped, by the kernel, for most of the time."""

    def group(self):
        """A group of processes with that quota, and where it says how often it was throttled."""
        for folder, files in (("/sys/fs/cgroup/cpu", (("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "2000"))),
                              ("/sys/fs/cgroup", (("cpu.max", "2000 20000"),))):
            path = os.path.join(folder, "calm-test-%d" % os.getpid())
            try:
                os.mkdir(path)
            except OSError:
                continue
            self.addCleanup(self.remove, path)
            try:
                for name, value in files:
                    with open(os.path.join(path, name), "w") as file:
                        file.write(value)
                return path
            except OSError:
                continue
        return self.skipTest("no cgroup with a CPU quota can be made here; root can")

    def remove(self, path):
        for _ in range(100):
            try:
                return os.rmdir(path)
            except OSError:
                time.sleep(0.05)
        return self.fail("%s is still there" % path)

    def test_nothing_is_lost_when_the_processor_is_taken_away(self):
        # Seen to fail: with a worker that skips what waited for 50 ms.
        path = self.group()
        found = load(5000, "sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', path)
        self.assertEqual((found["ran"], found["accepted"], found["is_whole"]), (5000, 5000, True))
        with open(os.path.join(path, "cpu.stat")) as file:
            self.assertGreater(int(re.search(r"nr_throttled (\d+)", file.read()).group(1)), 2)


if __name__ == "__main__":
    ENGINE, LIBRARY = sys.argv[1:3]
    needs.main(argv=sys.argv[:1])
