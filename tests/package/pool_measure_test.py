"""Holds `calm pool measure` to what it says: its checklist against made-up machines, its figures against each other."""
import json
import os
import shutil
import sys
import tempfile
import unittest

from support import CALM, calm

sys.path.insert(0, os.path.join(os.path.dirname(CALM), "tools", "calm"))
import pool_measure  # noqa: E402

QUIET = {"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "performance",
         "sys/devices/system/cpu/isolated": "2-3", "sys/devices/system/cpu/nohz_full": "1-2",
         "sys/devices/system/cpu/intel_pstate/no_turbo": "1",
         "sys/devices/system/cpu/cpu2/topology/thread_siblings_list": "2",
         "sys/devices/system/cpu/cpu2/cpuidle/state0/latency": "2",
         "sys/devices/system/cpu/cpu2/cpuidle/state0/disable": "0", "proc/cpuinfo": "flags : fpu"}
WELL = {"is_locked": True, "is_fifo": True, "switches": 0}


class Checklist(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="calm-measure-")
        self.addCleanup(shutil.rmtree, self.root)

    def said(self, machine, made=WELL):
        for path, text in machine.items():
            os.makedirs(os.path.dirname(os.path.join(self.root, path)), exist_ok=True)
            with open(os.path.join(self.root, path), "w") as file:
                file.write(text + "\n")
        return pool_measure.checklist(2, made, self.root)

    def test_of_a_quiet_machine_all_is_well(self):
        for is_well, sentence in self.said(QUIET):
            self.assertTrue(is_well, sentence)

    def test_each_thing_in_the_way_is_named_with_what_helps(self):
        # Each seen to fail with the other answer.
        folder = "sys/devices/system/cpu/"
        for path, text, words in (
                (folder + "cpu2/cpufreq/scaling_governor", "powersave", "'powersave'"),
                (folder + "isolated", "3", "isolcpus=2"), (folder + "nohz_full", "", "nohz_full=2"),
                (folder + "intel_pstate/no_turbo", "0", "turbo is on"),
                (folder + "cpu2/topology/thread_siblings_list", "2,6", "CPU 6 shares"),
                (folder + "cpu2/cpuidle/state0/latency", "90", "cpu_dma_latency"),
                ("proc/cpuinfo", "flags : fpu hypervisor", "virtual machine")):
            wrong = [sentence for is_well, sentence in self.said(dict(QUIET, **{path: text})) if not is_well]
            self.assertEqual(len(wrong), 1, (path, wrong))
            self.assertIn(words, wrong[0])
        for key, value, words in (("is_locked", False, "ulimit -l"), ("is_fifo", False, "ulimit -r"),
                                  ("switches", 3, "3 times another thread")):
            wrong = [sentence for is_well, sentence in self.said(QUIET, dict(WELL, **{key: value})) if not is_well]
            self.assertEqual(len(wrong), 1, (key, wrong))
            self.assertIn(words, wrong[0])

    def test_a_machine_that_tells_nothing_does_not_stop_it(self):
        self.assertEqual(len(self.said({})), len(self.said(QUIET)))


class Command(unittest.TestCase):
    def config(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".sizes")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    def test_the_figures_fit_each_other_and_the_computed_ones_are_there(self):
        made = json.loads(calm("pool", "measure", "--json", self.config("64 100\n48 50 # few\n")).stdout)
        self.assertTrue(made["is_computed"])
        for name in pool_measure.TITLES:
            for walk in ("warm", "cold"):
                one = made[walk][name]
                self.assertGreater(one["calls"], 0, name)
                self.assertTrue(0 < one["p50"] <= one["p9999"] <= one["max"], (walk, name, one))
        self.assertGreater(made["computed"]["alloc"]["instructions"], made["computed"]["free_remote"]["instructions"])
        self.assertEqual(len(made["checklist"]), 10)

    def test_without_a_file_it_shows_a_table_and_a_checklist(self):
        said = calm("pool", "measure").stdout
        for words in ("1000 of 64 B", "nothing at all", "SCHED_FIFO"):
            self.assertIn(words, said)

    def test_what_is_no_configuration_is_refused_in_one_sentence(self):
        for text, word in (("", "no line"), ("64\n", "line 1"), ("64 1\n0 x\n", "line 2"), ("64 0\n", "0 blocks"),
                           ("2000000 1\n", "1 MiB")):
            done = calm("pool", "measure", self.config(text), check=False)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (1, "", 1), done.stderr)
            self.assertIn(word, done.stderr)
        done = calm("pool", "plan", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("FILE", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
