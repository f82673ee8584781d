"""The simulator's command line: lines that are JSON, the same from the same seed; wrong words get one sentence.

    command_test.py SIMULATOR
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SIMULATOR = sys.argv.pop(1)
POLICIES = "steal jsq jbsq1 jbsq2 hash affine p2c prequal least-work".split()


def sim(*words):
    return subprocess.run([SIMULATOR, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines(*words):
    done = sim("--tasks", "8000", *words)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class CommandLine(unittest.TestCase):
    def test_every_policy_and_traffic_runs_and_loses_nothing(self):
        for policy in POLICIES:
            for traffic in ("fixed", "exponential", "bimodal", "heavy"):
                for line in lines("--policy", policy, "--cores", "8", "--load", "0.8", "--traffic", traffic,
                                  "--seed", "3", "--blocks", "6", "--full", "shed"):
                    self.assertEqual((line["policy"], line["traffic"], line["seed"]), (policy, traffic, 3))
                    self.assertEqual(line["offered"], 6000)
                    parts = [line[name] for name in ("done", "rejected", "shed", "failed")]
                    self.assertEqual(sum(parts), 6000)

    def test_the_same_seed_gives_the_same_bytes(self):
        # Seen to fail: with the CPU time it took among the figures.
        for policy in POLICIES:
            words = ("--policy", policy, "--tasks", "8000", "--slow", "4:3", "--blocks", "8", "--delay", "50")
            first = sim(*words)
            self.assertEqual((first.returncode, first.stdout), (0, sim(*words).stdout))
            self.assertNotEqual(first.stdout, sim(*words, "--seed", "2").stdout)

    def test_what_the_machine_has_a_part_in_is_told_when_asked_for(self):
        plain = lines("--policy", "steal", "--blocks", "8")[0]
        timed = lines("--policy", "steal", "--blocks", "8", "--timing")[0]
        added = {name: timed.pop(name) for name in ("cpu_s", "tasks_a_cpu_s", "decision_ns")}
        self.assertEqual(timed, plain)
        self.assertAlmostEqual(added["cpu_s"] * added["tasks_a_cpu_s"] / 8000, 1, delta=0.01)
        self.assertGreater(added["decision_ns"], 0)  # seen to fail: less a mean of readings with a wait of 2 ms

    def test_every_figure_of_a_run_is_there(self):
        for policy in POLICIES:
            line = lines("--policy", policy, "--blocks", "6", "--traffic", "bimodal")[0]
            for figure in ("sojourn", "slowdown"):
                found = [line[figure][name] for name in ("p50", "p90", "p95", "p99", "p999", "p9999", "max")]
                self.assertEqual(found, sorted(found))
                self.assertGreater(found[0], 0)
            for figure in ("rejected_share", "null_share", "stranded", "stranded_blocks"):
                self.assertTrue(0 <= line[figure] <= 1, (policy, figure))
            self.assertAlmostEqual(line["null_share"], line["failed"] / line["offered"], delta=1e-6)
            self.assertGreaterEqual(line["imbalance"], 1)

    def test_lines_that_do_not_get_out_are_told(self):
        # Seen to fail: a full disk went unnoticed, with exit code 0.
        for words in (("--policy", "jsq", "--tasks", "2000"), ("--help",)):
            with open("/dev/full", "w") as full:
                done = subprocess.run([SIMULATOR, *words], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn("standard output cannot be written", done.stderr)

    def test_one_line_for_each_load_and_seed(self):
        found = lines("--policy", "jsq", "--load", "0.2,0.9", "--seeds", "3", "--seed", "7")
        self.assertEqual([(line["load"], line["seed"]) for line in found],
                         [(load, seed) for load in (0.2, 0.9) for seed in (7, 8, 9)])
        self.assertEqual(found[1], lines("--policy", "jsq", "--load", "0.2", "--seed", "8")[0])

    def test_wrong_words_get_one_sentence_and_code_2(self):
        for words, sentence in (
                ((), "needs --policy"), (("--policy", "jsk"), "jsk"), (("--policy",), "needs a value"),
                (("--polity", "jsq"), "polity"), (("jsq",), "two dashes"), (("--cores", "5000"), "cores"),
                (("--cores", "2.5"), "cores"), (("--load", "0.5,"), "load"), (("--load", "nan"), "load"),
                (("--slow", "4"), "slow"), (("--policy", "jsq", "--slow", "17:2"), "than there are"),
                (("--policy", "jsq", "--tight", "2:2"), "--blocks"),
                (("--policy", "jsk"), "there are steal jsq jbsq1 jbsq2 hash affine p2c prequal least-work."),
                (("--policy", "x" * 500), "there are steal"), (("--traffic", "pareto"), "there are fixed exponential"),
                (("--cores", "0"), "a whole number from 1 to 1024, not '0'"),
                (("--cores", "2000"), "a whole number from 1 to 1024, not '2000'"),
                (("--seed", "-1"), "a whole number from 0 to"), (("--load", "0"), "from 0.01 to 2"),
                (("--remote", "2"), "a number from 0 to 1, not '2'"),
                (("--policy", "jsq", "--bursty=no"), "takes no value")):
            done = sim(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertEqual(len(done.stderr.splitlines()), 1, words)
            self.assertIn(sentence, done.stderr)

    def test_recorded_tasks_come_as_they_were(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            with open(path, "w") as file:  # three at once on two cores, then one on an idle core, in ns
                file.write("0 100 16 0 0\n0 100 16 0 0\n0 100 16 0 0\n1000 500 16 0 0\n")
            words = ("--policy", "jsq", "--cores", "2", "--trace", path, "--warmup", "0")
            line = lines(*words)[0]
            self.assertEqual((line["offered"], line["done"], line["sojourn"]["max"]), (4, 4, 500))
            self.assertEqual(line["sojourn"]["mean"], (100 + 100 + 200 + 500) / 4)
            line = lines(*words, "--wake", "50")[0]
            self.assertEqual(line["sojourn"]["mean"], (150 + 150 + 250 + 550) / 4)
            with open(path, "a") as file:
                file.write("999 500 16 0 0\n")  # before the one ahead of it
            done = sim(*words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("no task", done.stderr)

    def test_an_idle_core_wakes_up_for_what_others_free_too(self):
        # Its one block is freed by another at 250 (begun at 50, 100 on the core, kept for 100), and taken back at 300.
        # Seen to fail: an idle core took back at once, and P99 in pools was an eighth below the executor's.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            for at, is_done in ((295, False), (305, True)):
                with open(path, "w") as file:
                    file.write("0 100 0 0 100\n%d 100 0 0 100\n" % at)
                words = ("--policy", "jsq", "--cores", "1", "--classes", "1", "--blocks", "1", "--trace", path,
                         "--warmup", "0")
                self.assertEqual(lines(*words, "--wake", "50")[0]["done"], 1 + is_done, at)
                self.assertEqual(lines(*words)[0]["done"], 2)

    def test_progress_goes_to_standard_error_only_when_asked_for(self):
        self.assertEqual(sim("--policy", "jsq", "--tasks", "8000").stderr, "")
        done = sim("--policy", "jsq", "--tasks", "200000", "--progress")
        self.assertIn("%", done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_help_names_every_policy(self):
        words = sim("--help").stdout
        for policy in POLICIES:
            self.assertIn(policy, words)


if __name__ == "__main__":
    unittest.main()
