"""Checks the memory workloads: that a wrong allocator fails them, and that watching memory does not disturb it.

Run with `python3 bench/tests/test_memory.py`. Takes half a minute, mostly of waiting; needs gcc.
"""

import unittest

from support import Faulty, any_of

# Every workload with arguments that take a moment, and the faults that it must find.
WORKLOADS = {
    "grow_churn_shrink": ((4_000, 60_000, 0, 1), (1, 2, 3, 4)),
    "lifetime_mix": ((500, 4_000, 60_000, 1, 0), (1, 2, 3, 4)),
    "fragmenting": ((4_000, 60_000, 64, 0), (1, 2, 3, 4)),
    "burst_idle": ((2, 8_000, 100, 500), (1, 2, 3, 4)),
    "cold_data": ((8_192, 1_000, 1), (1, 2, 3, 4)),
    "phase": ((10, 1_000, 50), (1, 3, 4)),
    "free_all": ((100_000, 120, 0), (1, 4)),
    "sites": ((1,), (1, 3, 4)),
    "idle_threads": ((512, 64), (1, 4)),
    "idle_threads, blocks": ((64, 64, 0, 500), (1, 4)),
    "asleep": ((1, 500, 16, 8_192, 20_000, 0), (1, 3, 4)),
    "asleep, pages": ((2, 500, 8_192, 8_192, 20_000, 0), (1, 2, 4)),
    "hole_churn": ((1, 8_000, 1_000), (1, 2, 3, 4)),
    "rewrite": ((50, 8_192, 8_192, 2_000), (1, 2, 3, 4)),
    "sparse": ((1_000, 8_192, 8_192), (1, 2, 3, 4)),
    "rounds": ((2, 4, 8_192, 0), (1, 2, 3, 4)),
    "pipe": ((2_000, 8_192, 8_192, 64), (1, 4)),
    "retire": ((5, 1_024), (1, 3, 4)),
    "grow_steps": ((8 << 20, 4_096, 256), (1, 2, 3, 4)),
}


faulty = Faulty("faulty_memory.c")
calls = Faulty("faulty_calls.c")
NO_FREE = 4  # of these


class AWrongAllocator(unittest.TestCase):
    def test_fails_every_workload_that_meets_its_fault(self):
        for name, (args, faults) in WORKLOADS.items():
            for fault in faults:
                with self.subTest(workload=name, fault=fault):
                    done = faulty.run(name.split(",")[0], *args, fault=fault)
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertRegex(done.stderr, "changed|returned NULL|could not be created")

    def test_is_told_from_a_right_one_whose_check_is_the_same_everywhere(self):
        for name, (args, _) in WORKLOADS.items():
            with self.subTest(workload=name):
                program = name.split(",")[0]
                right, ours = faulty.result(program, *args), faulty.result(program, *args, fault=0)
                self.assertEqual(right["check"], ours["check"])


class Asking(unittest.TestCase):
    def test_the_c_librarys_own_trim_counts_for_the_c_librarys_own_malloc_only(self):
        plain, foreign = (faulty.result("free_all", 50_000, 120, 0, fault=fault) for fault in (None, 0))
        self.assertEqual((plain["trim_asked"], plain["trim_by"]), (1, "malloc_trim"))
        self.assertEqual((foreign["trim_asked"], foreign["trim_by"]), (0, ""))

    @any_of(tries=3)
    def test_gives_back_what_was_freed(self):
        memory = faulty.result("grow_churn_shrink", 20_000, 20_000, 0, 0)
        self.assertLess(memory["resident_shrunk_trimmed_kib"], memory["resident_shrunk_0s_kib"] / 2)

    @any_of(tries=3)
    def test_comes_after_eleven_seconds_in_which_nobody_called_the_allocator(self):
        memory = faulty.result("free_all", 50_000, 120, 1, fault=5)
        self.assertEqual(memory["trim_asked"], 1)
        times = [x for x, _ in memory["series_resident_kib"]]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[-1], 11)
        self.assertLess(max(after - before for before, after in zip(times, times[1:])), 3)


class Resident(unittest.TestCase):
    def test_is_never_less_than_what_is_live(self):
        memory = faulty.result("grow_churn_shrink", 20_000, 20_000, 0, 0)
        self.assertGreater(memory["trimmed_over_live"], 1)
        memory = faulty.result("resize", 0, 50, 4_096, 262_144, 500)
        self.assertGreater(memory["resident_over_live"], 1)
        memory = faulty.result("cold_data", 8_192, 1_000, 1)
        self.assertGreater(memory["resident_asked_kib"], memory["live_kib"])


    @any_of(tries=3)
    def test_is_more_for_each_live_byte_where_nothing_is_freed(self):
        for name, args in {
            "rewrite": (50, 65_536, 131_072, 400),
            "resize": (1, 500, 4_096, 65_536, 8_000),
        }.items():
            with self.subTest(workload=name):
                right, leaking = (calls.result(name, *args, fault=fault) for fault in (0, NO_FREE))
                self.assertGreater(right["resident_over_live"], 1)
                self.assertGreater(right["highest_over_live"], right["resident_over_live"])
                self.assertGreater(right["page_faults"], 0)
                self.assertGreater(leaking["resident_over_live"], 1.5 * right["resident_over_live"])

    def test_is_told_from_what_was_asked_for_and_not_touched(self):
        memory = faulty.result("sparse", 2_000, 65_536, 100)
        self.assertEqual(memory["touched_kib"], 2_000 * 4)
        self.assertGreater(memory["resident_over_touched"], 1)
        self.assertLess(memory["resident_over_touched"], 16 / 2)

    @any_of(tries=3)
    def test_is_little_after_the_work_unless_nothing_is_freed(self):
        """Of blocks of 1 MiB the C library gives each back when it is freed."""
        right, leaking = (calls.result("rounds", 2, 64, 1 << 20, 0, fault=fault) for fault in (0, NO_FREE))
        self.assertGreater(right["resident_full_kib"], 64 << 10)
        self.assertLess(right["resident_0s_kib"], 16 << 10)
        self.assertGreater(leaking["resident_0s_kib"], 128 << 10)
        right, leaking = (calls.result("stress", 4, 10, 1_000, 25, 0, fault=fault) for fault in (0, NO_FREE))
        self.assertLess(right["resident_trimmed_kib"], leaking["resident_trimmed_kib"] / 2)


class Rounds(unittest.TestCase):
    def test_are_followed_by_four_seconds_of_little_work(self):
        memory = faulty.result("rounds", 1, 16, 1 << 20, 1)
        times = [x for x, _ in memory["series_resident_kib"]]
        self.assertGreater(times[-1] - times[0], 4)
        for mark in ("start", "full", "0s", "1s", "4s", "trimmed"):
            self.assertIn(f"resident_{mark}_kib", memory)


class Retiring(unittest.TestCase):
    @any_of(tries=3)
    def test_shows_what_is_back_and_what_never_comes(self):
        right, leaking = (calls.result("retire", 5, 4_096, fault=fault) for fault in (0, NO_FREE))
        self.assertLess(leaking["back_share"], 0.1)
        self.assertGreater(leaking["resident_kept_1s_kib"], 4 * 4_096)
        self.assertLess(right["resident_kept_1s_kib"], 2 * 4_096)
        self.assertLessEqual(right["retire_p50_ns"], right["retire_p99_ns"])
        self.assertLessEqual(right["retire_p99_ns"], right["retire_max_ns"])


class TooMuch(unittest.TestCase):
    def test_resident_ends_the_runs_of_blocks_that_grow(self):
        for name, args in {"grow_steps": (16 << 20, 16_384), "grow_many": (60, 16_384, 1 << 20)}.items():
            with self.subTest(workload=name):
                faulty.result(name, *args, 64)
                done = faulty.run(name, *args, 5)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("more than 5 MiB are resident", done.stderr)


class WhollyFreePages(unittest.TestCase):
    """The C library keeps all but the end of its heap until it is asked, and then gives every whole page back."""

    @any_of(tries=3)
    def test_are_those_that_go_when_asked_for_no_more_and_no_less(self):
        memory = faulty.result("hole_churn", 2, 20_000, 1_000)
        self.assertAlmostEqual(memory["back_trimmed_share"], 1, delta=0.05)
        self.assertLess(memory["back_1s_share"], 0.1)
        self.assertLess(memory["back_idle_share"], 0.1)


class Asleep(unittest.TestCase):
    @any_of(tries=3)
    def test_threads_have_freed_all_when_their_memory_is_read(self):
        memory = faulty.result("asleep", 3, 2_000, 4_096, 4_096, 2_000, 0)
        self.assertGreater(memory["resident_full_kib"] - memory["resident_start_kib"], 3 * 2_000 * 4)
        self.assertLess(memory["above_start_trimmed_kib"], 3 * 2_000 * 4 / 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
