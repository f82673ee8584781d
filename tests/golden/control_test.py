"""Shows that the fast-path test can fail: libraries that break one rule each are refused with the right sentence."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TRACER, FOLDER = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "..", "..", "tools", "fast_path.py")
WORDS = {1: "a lock prefix", 2: "an exchange with memory", 3: "a call", 4: "a system call", 5: "the limit is"}
ROOMY = {"%s of %d bytes" % (function, size): 100
         for function in ("malloc", "malloc_usable_size", "free") for size in (48, 1000)}


class Control(unittest.TestCase):
    def judged(self, slow, allowed):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as golden:
            json.dump({"any": {"checks 0": allowed}}, golden)
            golden.flush()
            return subprocess.run([sys.executable, TOOL, "--tracer", TRACER, "--library",
                                   os.path.join(FOLDER, "libcalm_slow_%d.so" % slow), "--compiler", "any", "--checks",
                                   "0", "--golden", golden.name], capture_output=True, text=True)

    def test_a_clean_path_passes(self):
        done = self.judged(0, ROOMY)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_each_broken_rule_is_found(self):
        for slow, words in WORDS.items():
            with self.subTest(words):
                done = self.judged(slow, ROOMY)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)

    def test_one_instruction_too_many_is_found(self):
        counts = {line.split(":")[0]: int(line.split()[4]) for line in self.judged(0, ROOMY).stdout.splitlines()
                  if " instructions" in line and not line.startswith("fast_path")}
        self.assertEqual(self.judged(0, counts).returncode, 0)
        for name in counts:
            done = self.judged(0, {**counts, name: counts[name] - 1})
            self.assertEqual(done.returncode, 1)
            self.assertIn(name, done.stderr)
            self.assertIn("the golden file allows", done.stderr)


if __name__ == "__main__":
    probe = subprocess.run([TRACER, os.path.join(FOLDER, "libcalm_slow_0.so"), "48"], capture_output=True, text=True)
    if probe.returncode == 77:
        print(probe.stderr.strip())
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
