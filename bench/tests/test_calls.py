"""Checks the workloads of single calls and of several threads: that they see what is there, and fail a wrong allocator.

Run with `python3 bench/tests/test_calls.py`. Takes half a minute; needs gcc and two cores.
"""

import json
import os
import unittest

import test_memory
from support import BENCH, Faulty, any_of

NONE, TWICE, SLOW_FREE, ONE_LOCK, NO_FREE, OWN_LINES, CLOSE, NO_TRACE, NO_MEMORY, NO_COPY = range(10)
HOLD_MS = 20
LEFT_OUT = 77

# Every workload with arguments that take a moment.
WORKLOADS = {
    "lat, blocks of 32": ("lat", 0, 64, 20_000),
    "lat, single": ("lat", 1, 64, 20_000),
    "churn, single": ("churn", 0, 5_000, 64, 20_000),
    "churn, windows": ("churn", 10, 5_000, 64, 20_000),
    "reuse": ("reuse", 2, 10_000, 2),
    "footprint": ("footprint", 10_000, 16, 512),
    "init": ("init", 10_000, 2),
    "remote, next": ("remote", 2, 90, 50_000),
    "remote, anyone": ("remote", 4, 50, 50_000, 8_192, 1),
    "remote, anyone of many": ("remote", 32, 50, 5_000, 8_192, 1),
    "untouched": ("untouched", 32, 50, 5_000, 0),
    "untouched, matched": ("untouched", 32, 50, 5_000, 1),
    "leak": ("leak", 4, 5_000, 32, 512),
    "leak, in turn": ("leak", 4, 5_000, 32, 512, 1),
    "mixed_churn": ("mixed_churn", 5_000, 20_000),
    "deaths, oldest": ("deaths", 2, 1_000, 10, 1_000, 0, 0, 4),
    "deaths, at random, at both ends": ("deaths", 2, 1_000, 10, 1_000, 1, 2, 4),
    "stress": ("stress", 4, 2, 1_000, 25, 0),
    "fan_out": ("fan_out", 2, 4, 50, 16, 512),
    "scratch": ("scratch", 2, 16, 30, 500),
    "stopped": ("stopped", 1, 3, 5),
    "symmetric": ("symmetric", 2, 1, 300),
    "asymmetric": ("asymmetric", 20_000),
    "mpsc": ("mpsc", 2, 300),
    "xpattern": ("xpattern", 4_000, 40_000, 0),
    "handover, xmalloc": ("handover", 0, 2, 200, 64, 64),
    "handover, all": ("handover", 1, 4, 200, 16, 512),
    "owner, local": ("owner", 0, 64, 20_000),
    "owner, remote": ("owner", 1, 64, 20_000),
    "shrink": ("shrink", 2_000, 1_000, 1),
    "frames": ("frames", 4, 1 << 20, 1_024, 1),
}
# These sum up what they read back. The sum is their check, which the runner holds against everyone else's.
SUMMED = {
    "replace": ("replace", 1, 1_000, 64, 64, 20_000),
    "replace, threads": ("replace", 4, 200, 64, 4_096, 20_000),
    "batch": ("batch", 64, 1_000, 20),
    "order": ("order", 2, 10_000, 2),
    "larson": ("larson", 2, 200, 16, 500, 4, 5_000),
    "most": ("most", 2_000, 64, 64, 20_000, 0),
}
# One block is alive at a time, so the same one twice is right; here another fault must be found.
ALONE = {
    "pairs": (("pairs", 64, 20_000), NO_MEMORY, "malloc.64. returned NULL"),
    "large, in turn": (("large", 0, 100), NO_MEMORY, "malloc.* returned NULL"),
    "large, grown": (("large", 1, 2), NO_COPY, "realloc lost byte"),
    "grow_steps": (("grow_steps", 8 << 20, 16_384, 256), NO_COPY, "realloc lost byte"),
    "grow_many": (("grow_many", 3, 1 << 20, 4 << 20, 256), NO_COPY, "realloc lost byte"),
    "resize": (("resize", 0, 20, 4_096, 65_536, 200), NO_COPY, "realloc lost byte"),
    "resize, cut": (("resize", 1, 20, 4_096, 65_536, 200), NO_COPY, "realloc lost byte"),
    "vectors": (("vectors", 50, 10, 4_096, 65_536), NO_COPY, "realloc lost byte"),
}
# What allocates nothing that could be wrong: the loop alone, and one block.
HARMLESS = {"control", "tiny"}


faulty = Faulty("faulty_calls.c")


class AWrongAllocator(unittest.TestCase):
    def test_fails_every_workload(self):
        for title, command in WORKLOADS.items():
            with self.subTest(workload=title):
                done = faulty.run(*command, fault=TWICE)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr, "written|changed|stamps|chain|a word|out of order|not the blocks")

    def test_has_another_sum_where_that_is_the_check(self):
        for title, command in SUMMED.items():
            with self.subTest(workload=title):
                right, wrong = (faulty.result(*command, fault=fault)["check"] for fault in (NONE, TWICE))
                self.assertNotEqual(right, wrong)

    def test_fails_what_has_one_block_at_a_time(self):
        for title, (command, fault, words) in ALONE.items():
            with self.subTest(workload=title):
                done = faulty.run(*command, fault=fault)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr, words)

    def test_is_tried_on_every_workload_there_is(self):
        named = {command[0] for command in (*WORKLOADS.values(), *SUMMED.values())}
        named |= {command[0] for command, _, _ in ALONE.values()} | HARMLESS | set(test_memory.WORKLOADS)
        self.assertEqual({path.stem for path in (BENCH / "workloads").glob("*.c")} - named, set())

    def test_is_told_from_a_right_one_whose_check_is_the_same_twice(self):
        alone = {title: command for title, (command, _, _) in ALONE.items()}
        for title, command in {**WORKLOADS, **SUMMED, **alone}.items():
            with self.subTest(workload=title):
                once, twice = (faulty.result(*command, fault=fault) for fault in (NONE, NO_FREE))
                self.assertEqual(once["check"], twice["check"])


class SingleCalls(unittest.TestCase):
    @any_of(tries=5)
    def test_show_a_delay_in_one_call_of_five_hundred_and_how_long_it_is(self):
        found = faulty.result("lat", 1, 64, 200_000, fault=SLOW_FREE)
        self.assertGreater(found["free_p999_ns"], 45_000)
        self.assertLess(found["free_p99_ns"], 10_000)
        self.assertAlmostEqual(found["free_over_10us_share"], 1 / 500, delta=1 / 2_000)
        self.assertLess(found["malloc_p999_ns"], 45_000)

    @any_of(tries=5)
    def test_above_100_ns_are_counted_of_both_calls_together(self):
        found = faulty.result("mixed_churn", 5_000, 200_000, fault=SLOW_FREE)
        self.assertGreater(found["slow_a_million"], 1e6 / 1_000 * 0.9)  # one free of 500: one call of a thousand
        both = 1e6 * (found["malloc_over_100ns_share"] + found["free_over_100ns_share"]) / 2
        self.assertAlmostEqual(found["slow_a_million"], both, delta=1)
        self.assertAlmostEqual(
            found["worst_ns"], max(found["malloc_max_ns"], found["free_max_ns"]), delta=found["worst_ns"] / 1000
        )

    @any_of(tries=5)
    def test_show_what_a_median_of_blocks_hides(self):
        self.assertLess(faulty.result("lat", 0, 64, 200_000, fault=SLOW_FREE)["pair32_p50_ns"], 500)

    @any_of(tries=5)
    def test_have_waits_beside_them_that_are_as_long_on_average(self):
        found = faulty.result("churn", 0, 5_000, 64, 50_000, fault=SLOW_FREE)
        wait = found["free_wait_trimmed_ns"]
        self.assertGreater(found["free_trimmed_ns"], 80)  # one of five hundred takes 50 us
        self.assertLess(abs(wait / found["free_trimmed_ns"] - 1), 0.25)
        self.assertLess(found["malloc_wait_trimmed_ns"], wait / 2)

    def test_may_have_a_core_of_their_own_or_are_left_out(self):
        done = faulty.run("churn", 0, 5_000, 64, 20_000, 7, fault=NONE)
        if done.returncode == LEFT_OUT:
            self.assertRegex(done.stderr, "^SCHED_FIFO is refused here: ")
        else:
            self.assertEqual(json.loads(done.stdout)["priority"], 7)

    def test_come_as_curves_that_rise(self):
        found = faulty.result("churn", 0, 5_000, 64, 50_000, fault=NONE)
        for name in ("series_malloc_ns", "series_free_ns"):
            points = found[name]
            self.assertEqual(points, sorted(points))
            self.assertEqual((points[0][0], points[-1][0]), (0, 100))
            self.assertEqual(points[-1][1], found[name.replace("series_", "").replace("_ns", "_max_ns")])

    def test_have_windows_whose_median_is_in_between(self):
        found = faulty.result("churn", 20, 5_000, 64, 100_000, fault=NONE)
        times = sorted(y for _, y in found["series_window_ns"])
        self.assertEqual(len(times), 20)
        self.assertLessEqual(found["window_p50_ns"], found["window_p90_ns"])
        self.assertEqual(found["window_max_ns"], times[-1])


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
class AStoppedThread(unittest.TestCase):
    def test_is_noticed_where_it_may_hold_the_only_lock(self):
        for how in (0, 1, 2):
            with self.subTest(how=how):
                self.check_notices(how)

    @any_of(tries=20)
    def check_notices(self, how):
        done = faulty.run("stopped", how, 20, HOLD_MS, fault=ONE_LOCK)
        if done.returncode == LEFT_OUT:
            self.skipTest(done.stderr.strip())
        found = json.loads(done.stdout)
        self.assertGreater(found["stalled_stops_share"], 0)  # how often the lock is hit differs from machine to machine
        self.assertGreater(found["held_p999_ns"], HOLD_MS * 1e6 / 2)

    def test_is_left_out_with_a_reason_where_nobody_may_trace(self):
        done = faulty.run("stopped", 0, 10, HOLD_MS, fault=NO_TRACE)
        self.assertEqual(done.returncode, LEFT_OUT)
        self.assertEqual(done.stderr, "ptrace is refused here: Operation not permitted\n")


class Memory(unittest.TestCase):
    def test_that_grows_shows_as_a_drift(self):
        for command in (("asymmetric", 200_000), ("mpsc", 2, 500)):
            with self.subTest(workload=command[0]):
                self.check_drift(command)

    @any_of(tries=3)
    def check_drift(self, command):
        flat, growing = (faulty.result(*command, fault=fault) for fault in (NONE, NO_FREE))
        self.assertLess(flat["resident_drift_kib"], 300)
        self.assertGreater(growing["resident_drift_kib"], 1_000)
        self.assertEqual(len(flat["series_resident_kib"]), 50)

    def test_of_a_tiny_string_is_at_least_what_the_library_rounds_it_to(self):
        found = faulty.result("symmetric", 2, 2, 1_000, fault=NONE)
        self.assertEqual(found["strings"], 999_000)
        self.assertAlmostEqual(found["bytes_a_string"], 32, delta=4)

    def test_over_what_was_asked_for_is_that_of_sixteen_in_thirty_two(self):
        self.assertAlmostEqual(faulty.result("footprint", 200_000, 16, 16, fault=NONE)["overhead"], 2, delta=0.1)


class FalseSharing(unittest.TestCase):
    def test_is_counted_where_it_is_and_only_there(self):
        command = ("scratch", 2, 16, 30, 500)
        self.assertEqual(faulty.result(*command, fault=OWN_LINES)["shared_lines"], 0)
        self.assertGreater(faulty.result(*command, fault=CLOSE)["shared_lines"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
